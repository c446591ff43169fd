//! Outputs without elements, outputs of integers, scalars, sides that fail: what is said of them.

use crate::common::env::TestEnv;
use replay::fixture;
use replay::tensor::{DType, TensorView};

/// Doubles `x`; the loss is the sum of squares, by which `y` is the gradient.
const KERNEL: &str = "\
__global__ void k(const float* x, float* y, int n)
{
    if (threadIdx.x < n) y[threadIdx.x] = 2.0f * x[threadIdx.x];
}
void run(const float* x, float* y, float* loss, int n)
{
    if (n > 0) k<<<1, n>>>(x, y, n);
    *loss = 0.0f;
    float host[8];
    cudaMemcpy(host, x, n * sizeof(float), cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; i++) *loss += host[i] * host[i];
}
";

const HARNESS: &str = "\
sources = [\"k.cu\"]
call = \"run(x, y, &loss, n);\"
[inputs.x]
dtype = \"f32\"
shape = [\"n\"]
[outputs.y]
dtype = \"f32\"
shape = [\"n\"]
gradient_of = \"x\"
of = \"loss\"
[outputs.loss]
dtype = \"f32\"
shape = []
";

/// With the fixtures `tiny` of four elements and `none` of none; each text is a commit.
fn project(versions: &[&str]) -> TestEnv {
    let env = TestEnv::new().with_kernel(versions[0], "");
    env.repo.write("replay.toml", HARNESS);
    env.write_fixture("none", &[("x", DType::F32, &[0], &[])]);
    for (number, text) in versions.iter().enumerate().skip(1) {
        env.repo.commit_file("k.cu", text, &format!("c{number}"));
    }
    env
}

/// What is said after the headings, which name commits.
fn told(env: &TestEnv, words: &[&str]) -> String {
    let run = env.replay(words);
    let (_, told) = run.stdout.split_once("\n\n").expect("a heading");
    format!("{told}[{}]", run.code.unwrap_or(-1))
}

#[test]
fn an_output_without_elements_is_said_to_have_none() {
    let env = project(&[KERNEL, &KERNEL.replace("2.0f", "3.0f")]);
    insta::assert_snapshot!(told(&env, &["diff", "fixtures/none", "main~1", "main"]), @"
    outputs
      y     identical: it has no elements
      loss  identical

    identical: y, loss
    [0]
    ");
    insta::assert_snapshot!(told(&env, &["gradcheck", "fixtures/none"]), @"
    gradients
      y  not checked: it has no elements

    unchecked: no gradient could be checked
    [125]
    ");
}

#[test]
fn a_scalar_has_no_index_and_infinity_no_distance() {
    let loss = KERNEL.replace("*loss = 0.0f", "*loss = 1.0f");
    let infinite = KERNEL.replace("2.0f *", "2.0f / 0.0f *");
    let env = project(&[KERNEL, &loss, &infinite]);
    insta::assert_snapshot!(told(&env, &["diff", "fixtures/tiny", "main~2", "main~1"]), @"
    outputs
      y     identical
      loss  diverged: wrong, not imprecise: the float64 shadow changed too (rel. 0.033)
            100 % of bits differ, rel. 0.033, 1 element beyond noise
            worst: 30 -> 31, 262144 x noise, 524288 ulp
            error against the trusted shadow: 0 -> 0.033
            everywhere

    diverged: loss (wrong)
    [1]
    ");
    insta::assert_snapshot!(told(&env, &["diff", "fixtures/tiny", "main~1", "main"]), @"
    outputs
      y     diverged: wrong, not imprecise: the float64 shadow changed too (rel. inf)
            100 % of bits differ, rel. inf, 4 elements beyond noise
            worst at [0]: 2 -> inf
            error against the trusted shadow: 0 -> inf
            everywhere
      loss  diverged: wrong, not imprecise: the float64 shadow changed too (rel. 0.032)
            100 % of bits differ, rel. 0.032, 1 element beyond noise
            worst: 31 -> 30, 262144 x noise, 524288 ulp
            error against the trusted shadow: 0 -> 0.032
            everywhere

    failed: non-finite: y has 0 NaN and 4 Inf from finite inputs, first at [0]
    [1]
    ");
    insta::assert_snapshot!(told(&env, &["diff", "fixtures/tiny", "main", "main~2"]), @"
    outputs
      y     diverged: wrong, not imprecise: the float64 shadow changed too (rel. inf)
            100 % of bits differ, rel. inf, 4 elements beyond noise
            worst at [0]: inf -> 2
            error against the trusted shadow: 0 -> inf
            everywhere
      loss  identical

    diverged: the trusted side failed: non-finite: y has 0 NaN and 4 Inf from finite inputs, first at [0]
    [1]
    ");
    insta::assert_snapshot!(told(&env, &["gradcheck", "fixtures/tiny"]), @"
    gradients
      y  does not match d loss / d x: 8 directional derivatives, worst rel. NaN (noise 0), at [3] inf instead of 8

    failed: non-finite: y has 0 NaN and 4 Inf from finite inputs, first at [0]
    [1]
    ");
}

#[test]
fn integers_that_no_rounding_flips_are_compared_without_noise() {
    let integers = KERNEL.replace("float* y", "int* y");
    let env = project(&[&integers, &integers.replace("2.0f", "3.0f")]);
    let harness = HARNESS.replace("[outputs.y]\ndtype = \"f32\"", "[outputs.y]\ndtype = \"i32\"");
    let harness = harness.replace("gradient_of = \"x\"\nof = \"loss\"\n", "");
    env.repo.write("replay.toml", harness);
    insta::assert_snapshot!(told(&env, &["diff", "fixtures/tiny", "main~1", "main"]), @"
    outputs
      y     diverged
            100 % of elements differ, rel. 0.5; no rounding flips them
            worst at [0]: 2 -> 3
            everywhere
      loss  identical

    diverged: y
    [1]
    ");
    insta::assert_snapshot!(env.replay(&["gradcheck", "fixtures/tiny"]).text(), @"
    exit code 128
    --- stderr
    error: no output of fixtures/tiny is declared to be a gradient
    hint: name its input with `gradient_of` in the harness
    ");
}

#[test]
fn a_trusted_side_that_fails_or_cannot_be_tested_is_told() {
    let crash = KERNEL.replace("*loss = 0.0f;", "*(volatile int*)0 = 1;");
    let exit = KERNEL
        .replace("*loss = 0.0f;", "exit(3);")
        .replace("__global__", "#include <stdlib.h>\n__global__");
    let broken = KERNEL.replace("*loss = 0.0f;", "y(x);");
    let env = project(&[&crash, &exit, &broken, KERNEL]);
    let diff = |base: &str, got: &str| {
        let run = env.replay(&["diff", "fixtures/tiny", base, got]).without_compilers_words();
        let (_, told) = run.stdout.split_once("\n\n").expect("headings");
        format!("{told}[{}]", run.code.unwrap_or(-1))
    };
    insta::assert_snapshot!(diff("main~3", "main~2"), @"
    the trusted side failed too: out-of-bounds access in host code: a null pointer

    failed: exit: the code called exit(3) before the call returned
    [1]
    ");
    insta::assert_snapshot!(diff("main~1", "main~2"), @"
    the trusted side is untestable: the sources do not compile: k.cu:8: error: [MESSAGE]

    failed: exit: the code called exit(3) before the call returned
    [1]
    ");
    insta::assert_snapshot!(diff("main~1", "main"), @"
    untestable: the trusted side is untestable: the sources do not compile: k.cu:8: error: [MESSAGE]
    [125]
    ");
    insta::assert_snapshot!(diff("main", "main~1"), @"
    untestable: the sources do not compile: k.cu:8: error: [MESSAGE]
    [125]
    ");
}

#[test]
fn without_a_shadow_nothing_is_called_imprecise() {
    // In the shadow a float has eight bytes.
    let kernel =
        KERNEL.replace("__global__", "__device__ char left[5 - sizeof(float)];\n__global__");
    let env = project(&[&kernel, &kernel.replace("2.0f", "2.01f")]);
    let path = env.path("fixtures/tiny/expected.safetensors");
    let bytes: Vec<u8> = [2f32, 4.0, 6.0, 8.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    replay::fixture::write_file(&path, &[("y", DType::F32, &[4], &bytes)], &[]).unwrap();
    let manifest = "harness = \"../../replay.toml\"\noracle = \"expected.safetensors\"\n";
    std::fs::write(env.path("fixtures/tiny/fixture.toml"), manifest).unwrap();
    let run = env.replay(&["diff", "fixtures/tiny", "main~1", "main"]).without_compilers_words();
    let (_, told) = run.stdout.split_once("\n\n").expect("headings");
    insta::assert_snapshot!(told, @"
    outputs
      y     diverged: less accurate; whether wrong or imprecise is not known
            100 % of bits differ, rel. 0.005, 4 elements beyond noise
            worst at [2]: 6 -> 6.02999973, 31457 x noise, 62914 ulp
            error against the oracle: 0 -> 0.005
            everywhere
      loss  identical

    wrong is not told from imprecise: the float64 shadow does not compile: k.cu:1: error: [MESSAGE]

    diverged: y (less accurate)
    ");
}

#[test]
fn words_that_say_where_need_no_picture() {
    let kernel = |factor: &str| {
        format!(
            "__global__ void k(const float* x, float* y, int rows, int n)\n\
             {{ int i = blockIdx.x * n + threadIdx.x; y[i] = ({factor}) * x[i]; }}\n"
        )
    };
    // Everything; all columns from 4; every other element of some rows.
    let exact = kernel("threadIdx.x < 4 ? 2.0f : 3.0f");
    let scattered = kernel("(blockIdx.x < 6 && (threadIdx.x + blockIdx.x) % 2) ? 2.0f : 3.0f");
    let env = TestEnv::new().with_kernel(&kernel("2.0f"), "k<<<rows, n>>>(x, y, rows, n);");
    let harness = std::fs::read_to_string(env.path("replay.toml")).expect("the harness");
    env.repo.write("replay.toml", harness.replace("[\"n\"]", "[\"rows\", \"n\"]"));
    let x: Vec<u8> = (1..=64).flat_map(|x| (x as f32).to_le_bytes()).collect();
    env.write_fixture("flat", &[("x", DType::F32, &[8, 8], &x)]);
    for (number, text) in [kernel("3.0f"), exact, scattered].iter().enumerate() {
        env.repo.commit_file("k.cu", text, &format!("c{number}"));
    }
    let place = |rev: &str| {
        let run = env.replay(&["diff", "fixtures/flat", "main~3", rev]);
        let (_, told) = run.stdout.split_once("trusted shadow: ").expect("a comparison");
        told.split_once('\n').expect("lines").1.to_owned()
    };
    insta::assert_snapshot!(place("main~2"), @"
         everywhere

    diverged: y (wrong)
    ");
    insta::assert_snapshot!(place("main~1"), @"
         at n 4..7

    diverged: y (wrong)
    ");
    insta::assert_snapshot!(place("main"), @"
         at 40 of 64 elements, in 8 of 8 rows, first at rows 0, n 0
         |# # # # |
         | # # # #|
         |# # # # |
         | # # # #|
         |# # # # |
         | # # # #|
         |########|
         |########|
         rows: rows; columns: n; differing: blank none, . a quarter, : half, + more, # all

    diverged: y (wrong)
    ");
}

/// Widens floats of 8 bits, and rounds what it makes of them.
const FLOAT8: &str = "\
#include <cuda_fp8.h>
__global__ void k(const __nv_fp8_e4m3* a, const __nv_fp8_e5m2* b, float* wide_a, float* wide_b,
                  __nv_fp8_e4m3* back_a, __nv_fp8_e5m2* back_b, int n, int m)
{
    int i = threadIdx.x;
    if (i < n) wide_a[i] = float(a[i]), back_a[i] = __nv_fp8_e4m3(wide_a[i] * 1.0f);
    if (i < m) wide_b[i] = float(b[i]), back_b[i] = __nv_fp8_e5m2(wide_b[i]);
}
";

/// The harness of it, and a fixture with all finite numbers of both formats and what becomes of them.
fn float8_project(versions: &[&str]) -> TestEnv {
    let env = TestEnv::new().with_kernel(versions[0], "");
    let tensor = |kind: &str, name: &str, dtype: &str, size: &str| {
        format!("[{kind}s.{name}]\ndtype = \"{dtype}\"\nshape = [\"{size}\"]\n")
    };
    let tensors = [
        tensor("input", "a", "f8_e4m3", "n"),
        tensor("input", "b", "f8_e5m2", "m"),
        tensor("output", "wide_a", "f32", "n"),
        tensor("output", "wide_b", "f32", "m"),
        tensor("output", "back_a", "f8_e4m3", "n"),
        tensor("output", "back_b", "f8_e5m2", "m"),
    ];
    let call = "k<<<1, 256>>>(a, b, wide_a, wide_b, back_a, back_b, n, m);";
    let head = format!("sources = [\"k.cu\"]\ncall = \"{call}\"\n");
    env.repo.write("replay.toml", head + &tensors.concat());
    for (number, text) in versions.iter().enumerate().skip(1) {
        env.repo.commit_file("k.cu", text, &format!("c{number}"));
    }
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let finite = |dtype| {
        let view = TensorView { dtype, shape: &[256], bytes: &all };
        let codes = (0..256).map(|code| (code as u8, view.get_f64(code)));
        let codes = codes.filter(|(_, value)| value.is_finite());
        let (codes, values): (Vec<u8>, Vec<f64>) = codes.unzip();
        (codes, values.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect::<Vec<u8>>())
    };
    let (a, wide_a) = finite(DType::F8E4M3);
    let (b, wide_b) = finite(DType::F8E5M2);
    let n = &[a.len()][..];
    let m = &[b.len()][..];
    assert_eq!((n[0], m[0]), (254, 248));
    let inputs = [("a", DType::F8E4M3, n, &a[..]), ("b", DType::F8E5M2, m, &b[..])];
    env.write_fixture("all", &inputs);
    let expected = [
        ("wide_a", DType::F32, n, &wide_a[..]),
        ("wide_b", DType::F32, m, &wide_b[..]),
        ("back_a", DType::F8E4M3, n, &a[..]),
        ("back_b", DType::F8E5M2, m, &b[..]),
    ];
    fixture::write_file(&env.path("fixtures/all/expected.safetensors"), &expected, &[]).unwrap();
    env
}

#[test]
fn every_float8_is_widened_and_rounded_as_its_table_says() {
    let env = float8_project(&[FLOAT8]);
    let told = told(&env, &["fixtures/all", "--rev", "main"]);
    let (_, captured) = told.split_once("captured outputs\n").expect("they are compared");
    insta::assert_snapshot!(captured, @"
      wide_a  as captured
      wide_b  as captured
      back_a  as captured
      back_b  as captured
      captured at a commit that the fixture does not name

    completed: every output is written and finite; wide_a, wide_b, back_a, back_b are as captured
    [0]
    ");
}

#[test]
fn what_is_rounded_to_float8_is_compared_in_its_units() {
    let scaled = FLOAT8.replace("1.0f", "1.25f");
    let env = float8_project(&[FLOAT8, &scaled]);
    insta::assert_snapshot!(told(&env, &["diff", "fixtures/all", "main~1", "main"]), @"
    outputs
      wide_a  identical
      wide_b  identical
      back_a  diverged: wrong, hidden by rounding on this fixture: the float64 shadow moves by 25 %
              96.9 % of bits differ, rel. 0.2, 0 elements beyond noise
              worst at [11]: 0.021484375 -> 0.02734375, 1.5 x noise, 3 ulp
              error against the trusted shadow: 0 -> 0.2
              at 244 of 249 elements of n >= 5, first at n 5
      back_b  identical

    diverged: back_a (wrong, hidden by rounding)
    [1]
    ");
}
