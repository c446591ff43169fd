//! Constants of float code: however they are written, they mean the mathematics that they stand for.

use std::fmt::Write;

use replay::tensor::DType;

use crate::common::env::TestEnv;

/// What an element is by functions, the same with a constant `C`, and spellings of it: with as many digits as a
/// float has, with more, in hexadecimal digits, and of double.
const REWRITES: [(&str, &str, [&str; 4]); 13] = [
    ("expf(v)", "exp2f(v * C)", ["1.442695f", "1.44269504f", "0x1.715476p+0f", "1.442695"]),
    ("logf(v)", "log2f(v) * C", ["0.6931472f", "0.693147181f", "0x1.62e43p-1f", "0.6931472"]),
    ("v / sqrtf(2.0f)", "v * C", ["0.7071068f", "0.707106781f", "0x1.6a09e6p-1f", "0.7071068"]),
    (
        "2.0f / sqrtf(acosf(-1.0f)) * expf(-v * v)",
        "C * expf(-v * v)",
        ["1.1283792f", "1.12837917f", "0x1.20dd76p+0f", "1.1283792"],
    ),
    (
        "tanhf(sqrtf(2.0f / acosf(-1.0f)) * v)",
        "tanhf(C * v)",
        ["0.7978846f", "0.7978845608f", "0x1.988454p-1f", "0.7978846"],
    ),
    (
        "v + 0.044715f * v * v * v",
        "v + C * v * v * v",
        ["0.0447150f", "4.4715e-2f", "0x1.6e4e26p-5f", "0.044715"],
    ),
    ("v * acosf(-1.0f)", "v * C", ["3.1415927f", "3.14159265f", "0x1.921fb6p+1f", "3.1415927"]),
    ("v / 255.0f", "v * C", ["0.003921569f", "0.00392156863f", "0x1.010102p-8f", "0.003921569"]),
    ("v / 3.0f", "v * C", ["0.3333333f", "0.333333333f", "0x1.555556p-2f", "0.3333333"]),
    ("log10f(v)", "logf(v) * C", ["0.4342945f", "0.434294482f", "0x1.bcb7b2p-2f", "0.4342945"]),
    ("v / sqrtf(128.0f)", "v * C", ["0.08838835f", "0.088388348f", "0x1.6a09e6p-4f", "0.08838835"]),
    (
        "expf(-0.5f * v * v) / sqrtf(2.0f * acosf(-1.0f))",
        "expf(-0.5f * v * v) * C",
        ["0.3989423f", "0.39894228f", "0x1.988454p-2f", "0.3989423"],
    ),
    ("v * logf(10.0f)", "v * C", ["2.302585f", "2.30258509f", "0x1.26bb1cp+1f", "2.302585"]),
];

/// A kernel that writes each of `expressions` to an output of its own.
fn kernel<'e>(expressions: impl Iterator<Item = String> + 'e) -> String {
    let mut parameters = "const float* x, int n".to_owned();
    let mut body = String::new();
    for (at, expression) in expressions.enumerate() {
        let _ = write!(parameters, ", float* y{at}");
        let _ = writeln!(body, "    y{at}[i] = {expression};");
    }
    format!(
        "__global__ void apply({parameters})\n{{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n\
         \x20   if (i >= n) return;\n    float v = x[i];\n{body}}}\n"
    )
}

fn by_functions() -> String {
    kernel(REWRITES.iter().map(|(function, ..)| (*function).to_owned()))
}

fn by_constants(spelling: usize) -> String {
    kernel(REWRITES.iter().map(|(_, text, spellings)| text.replace('C', spellings[spelling])))
}

/// A project whose first commit computes all by functions, on numbers up to 12.
fn project() -> TestEnv {
    let names: Vec<String> = (0..REWRITES.len()).map(|at| format!("y{at}")).collect();
    let call = format!("apply<<<3, 32>>>(x, n, {});", names.join(", "));
    let mut harness = format!(
        "sources = [\"k.cu\"]\ncall = {call:?}\n[inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n"
    );
    for name in &names {
        let _ = write!(harness, "[outputs.{name}]\ndtype = \"f32\"\nshape = [\"n\"]\n");
    }
    let env = TestEnv::new();
    env.repo.write("replay.toml", harness);
    env.repo.write(".gitignore", "fixtures\n");
    let values: Vec<u8> = (1..=96_u8).flat_map(|i| (f32::from(i) / 8.0).to_le_bytes()).collect();
    env.write_fixture("tiny", &[("x", DType::F32, &[96], &values)]);
    env.repo.commit_file("k.cu", &by_functions(), "By functions");
    env
}

#[test]
fn no_constant_for_a_function_is_accused_however_it_is_written() {
    let env = project();
    let base = env.repo.commit("Base");
    for spelling in 0..4 {
        env.repo.commit_file("k.cu", &by_constants(spelling), &format!("Spelling {spelling}"));
        let run = env.replay(&["diff", "fixtures/tiny", &base, "HEAD"]);
        assert_eq!(run.code, Some(0), "{spelling}: {}", run.text());
        assert!(run.last_line().starts_with("equivalent: y0, y1, "), "{spelling}: {}", run.text());
        assert!(!run.stdout.contains("the float64 shadow changed"), "{spelling}: {}", run.text());
    }
}

#[test]
fn a_search_passes_over_a_constant_to_the_culprit_behind_it() {
    let env = project();
    let start = env.repo.commit("Start");
    env.repo.commit_file("k.cu", &by_constants(0), "Use constants");
    let wrong = by_constants(0).replace("y3[i] = ", "y3[i] = 1.0001f * ");
    env.repo.commit_file("k.cu", &wrong, "Break it");
    let run = env.replay(&["bisect", "fixtures/tiny", "--good", &start, "--bad", "HEAD"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.contains("is the first bad commit: Break it"), "{}", run.text());
}
