//! How differences are counted and what they are called, on kernels made for the purpose.

use replay::tensor::DType;

use crate::common::env::{Run, TestEnv};

/// A harness whose output `y` has this dtype and shape.
fn harness(call: &str, inputs: &[(&str, &str)], output: (&str, &str)) -> String {
    let tensor = |kind: &str, name: &str, dtype: &str, shape: &str| {
        format!("[{kind}s.{name}]\ndtype = \"{dtype}\"\nshape = {shape}\n")
    };
    let inputs = inputs.iter().map(|(name, shape)| tensor("input", name, "f32", shape));
    let output = tensor("output", "y", output.0, output.1);
    format!("sources = [\"k.cu\"]\ncall = \"{call}\"\n{}{output}", inputs.collect::<String>())
}

/// A number in -1 to 1 for each `seed`.
fn drawn(seed: u32) -> f32 {
    let mixed = (seed ^ seed >> 15).wrapping_mul(0x2c1b_3c6d);
    let mixed = (mixed ^ mixed >> 12).wrapping_mul(0x297a_2d39);
    ((mixed ^ mixed >> 15) >> 8) as f32 / (1 << 23) as f32 - 1.0
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// `y[i]` for each `x[i]`, without a shadow: in it both functions take a double.
fn elementwise(without_shadow: bool, value: &str) -> String {
    let overloads = "__device__ float of(float a) { return a; }\n\
                     __device__ double of(double a) { return a; }\n";
    format!(
        "{}__global__ void k(const float* x, float* y, int n)\n\
         {{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n\
         \x20   if (i < n) y[i] = {value};\n}}\n",
        if without_shadow { overloads } else { "" },
    )
}

/// A commit for each kernel, and the fixture `many` with the elements `x`.
fn project(versions: &[String], x: &[f32]) -> TestEnv {
    let env = TestEnv::new().with_kernel(&versions[0], "");
    let call = "k<<<(n + 127) / 128, 128>>>(x, y, n);";
    let text = harness(call, &[("x", "[\"n\"]")], ("f32", "[\"n\"]"));
    env.repo.commit_file("replay.toml", &text, "Take many");
    for text in &versions[1..] {
        env.repo.commit_file("k.cu", text, "Change it");
    }
    env.write_fixture("many", &[("x", DType::F32, &[x.len()], &bytes(x))]);
    env
}

/// What is said of `HEAD` beside `HEAD~1`.
fn diff(env: &TestEnv) -> Run {
    env.replay(&["diff", "fixtures/many", "main~1", "main"]).without_compilers_words()
}

#[test]
fn elements_beyond_noise_are_counted_once() {
    let x: Vec<f32> = (0..64).map(|at| 1.0 + drawn(at) / 2.0).collect();
    // Some are wrong, and others lie within their own noise alone.
    let value = "i % 4 == 0 ? 1.5f * x[i] : i % 4 == 1 ? x[i] + 4096.0f - 4096.0f : x[i]";
    let env = project(&[elementwise(false, "x[i]"), elementwise(false, value)], &x);
    let run = diff(&env);
    assert!(run.stdout.contains(" 16 elements beyond noise"), "{}", run.text());
    assert!(run.stdout.contains("at 16 of 16 elements") || run.stdout.contains("n % 4 = 0"), "{}", run.text());
}
