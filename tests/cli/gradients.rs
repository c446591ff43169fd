//! Gradients that cannot be checked: every format says so, and why.

use replay::tensor::DType;
use replay::tensor::step::draw_bits;
use serde_json::Value;

use crate::common::env::{Run, TestEnv};
use crate::common::schema;

/// Doubles `x`; the loss is the sum of squares, by which `y` is the gradient.
const KERNEL: &str = "\
__global__ void k(const float* x, float* y, int n)
{
    if (threadIdx.x < n) y[threadIdx.x] = 2.0f * x[threadIdx.x];
}
void run(const float* x, float* y, float* loss, int n)
{
    k<<<1, n>>>(x, y, n);
    float host[64];
    cudaMemcpy(host, x, n * sizeof(float), cudaMemcpyDeviceToHost);
    *loss = 0.0f;
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
[outputs.loss]
dtype = \"f32\"
shape = []
";

fn project(kernel: &str) -> TestEnv {
    let env = TestEnv::new().with_kernel(kernel, "");
    env.repo.write("replay.toml", HARNESS);
    env
}

/// Without the output that is differentiated.
fn without_a_loss() -> TestEnv {
    let env = project(&KERNEL.replace(", float* loss", ", float* loss = nullptr"));
    let kernel = "__global__ void k(const float* x, float* y, int n)\n\
                  { if (threadIdx.x < n) y[threadIdx.x] = 2.0f * x[threadIdx.x]; }\n";
    env.repo.write("k.cu", kernel);
    let harness = HARNESS.replace("run(x, y, &loss, n);", "k<<<1, n>>>(x, y, n);");
    let (harness, _) = harness.split_once("[outputs.loss]").expect("a loss");
    env.repo.write("replay.toml", harness);
    env
}

fn told(run: &Run) -> String {
    let (_, told) = run.stdout.split_once("gradients\n").expect("a word on gradients");
    format!("{told}[{}]", run.code.unwrap_or(-1))
}

#[test]
fn a_check_of_gradients_says_its_effort_and_a_fuller_one_is_made_anew() {
    let env = project(KERNEL);
    let checked = |effort: &str| {
        let run = env.replay(&["gradcheck", "fixtures/tiny", "--gradients", effort]);
        let line = run.stdout.lines().find(|line| line.starts_with("  y")).expect("a gradient");
        format!("{} [{}]", line.trim(), run.code.unwrap_or(-1))
    };
    insta::assert_snapshot!(checked("off"), @"y  not checked: left out by --gradients off [125]");
    assert!(checked("quick").contains(": 2 of 8 directional derivatives, "));
    assert!(checked("full").contains(": 8 directional derivatives, "));
    // What was found by another effort does not come back, but for a full check within a limit.
    assert!(checked("quick").contains(": 2 of 8 directional derivatives, "));
    assert!(checked("1e-9").contains(": 8 directional derivatives, "));
    let words = ["gradcheck", "fixtures/tiny", "--gradients", "1e-9", "--fresh"];
    let late = env.replay(&words);
    assert!(late.stdout.contains("not checked: 1024 evaluations would take "), "{}", late.text());
    assert!(late.stdout.contains(": --gradients full"), "{}", late.text());
    assert_eq!(late.code, Some(125));
    let replayed = env.replay(&["fixtures/tiny", "--gradients", "off"]);
    assert_eq!(replayed.code, Some(0), "{}", replayed.text());
    assert!(replayed.stdout.contains("unchecked: gradient y not checked; "), "{}", replayed.text());
}

/// Losses of numbers that are rounded to integers, and gradients of them, right and wrong. A block computes one element.
const ROUNDED: &str = "\
__device__ float quantised(float x, float s) { return rintf(x / s) * s; }
__device__ float by_half(float x) { return floorf(x / 0.7f + 0.5f) * 0.7f; }
__device__ float in_bytes(float x) { return (float)(signed char)rintf(x / 0.7f) * 0.7f; }
__device__ float by_integer(float x, float s) { return (float)__float2int_rn(x / s) * s; }
__device__ float between_squares(float x)
{
    int below = (int)floorf(x / 0.7f);
    return below * below + (x / 0.7f - below) * (2 * below + 1);
}
__device__ float ternary(float x) { return fminf(fmaxf(rintf(x / 2.1f), -1.0f), 1.0f); }
__device__ float scale(const float* x)
{
    float largest = 0;
    for (int i = 0; i < 4; i++) largest = fmaxf(largest, x[i]);
    return largest / 5.5f;
}
__global__ void losses(const float* x, const float* s, float* loss, float* halves, float* bytes, float* cut,
                       float* scaled, float* smooth, float* integers, float* between)
{
    int i = blockIdx.x;
    loss[i] = quantised(x[i], *s) * quantised(x[i], *s);
    halves[i] = by_half(x[i]) * by_half(x[i]);
    bytes[i] = in_bytes(x[i]) * in_bytes(x[i]);
    cut[i] = ternary(x[i]) * ternary(x[i]);
    scaled[i] = quantised(x[i], scale(x)) * quantised(x[i], scale(x));
    smooth[i] = x[i] * quantised(*s, 0.3f);
    integers[i] = by_integer(x[i], *s);
    between[i] = between_squares(x[i]);
}
__global__ void quantised_gradients(const float* x, const float* s, float* right, float* wrong, float* factor, float* unsaid,
                                    float* of_s, float* of_s_wrong)
{
    int i = blockIdx.x;
    float q = quantised(x[i], *s);
    right[i] = unsaid[i] = 2 * q;
    wrong[i] = 1.0001f * 2 * q;
    factor[i] = 2 * q + (q - x[i]);
    if (i > 0) return;
    float sum = 0;
    for (int j = 0; j < 4; j++) sum += 2 * quantised(x[j], *s) * (rintf(x[j] / *s) - x[j] / *s);
    *of_s = sum;
    *of_s_wrong = -sum;
}
__global__ void other_gradients(const float* x, const float* s, float* half, float* byte, float* bound,
                                float* held, float* held_factor, float* beside, float* passed, float* passed_s,
                                float* kept_s, float* unsaid_s, float* chosen)
{
    int i = blockIdx.x;
    float q = quantised(x[i], scale(x));
    half[i] = 2 * by_half(x[i]);
    byte[i] = 2 * in_bytes(x[i]);
    bound[i] = fabsf(rintf(x[i] / 2.1f)) <= 1 ? 2 * ternary(x[i]) / 2.1f : 0;
    held[i] = 2 * q;
    held_factor[i] = 2 * q + (q - x[i]);
    beside[i] = *s;
    passed[i] = 1;
    chosen[i] = 1.1f / 0.7f * (2 * (int)floorf(x[i] / 0.7f) + 1);
    if (i > 0) return;
    float integers = 0, errors = 0;
    for (int j = 0; j < 4; j++) {
        integers += __float2int_rn(x[j] / *s);
        errors += __float2int_rn(x[j] / *s) - x[j] / *s;
    }
    *kept_s = integers;
    *passed_s = *unsaid_s = errors;
}
";

/// The harness of [`ROUNDED`].
fn rounded_harness() -> String {
    let losses = ["loss", "halves", "bytes", "cut", "scaled", "smooth", "integers", "between"];
    let gradients = [
        ("right", "x", "loss", true),
        ("wrong", "x", "loss", true),
        ("factor", "x", "loss", true),
        ("unsaid", "x", "loss", false),
        ("of_s", "s", "loss", true),
        ("of_s_wrong", "s", "loss", true),
        ("half", "x", "halves", true),
        ("byte", "x", "bytes", true),
        ("bound", "x", "cut", true),
        ("held", "x", "scaled", true),
        ("held_factor", "x", "scaled", true),
        ("beside", "x", "smooth", false),
        ("passed", "x", "integers", true),
        ("passed_s", "s", "integers", true),
        ("kept_s", "s", "integers", true),
        ("unsaid_s", "s", "integers", false),
        ("chosen", "x", "between", false),
    ];
    let names = gradients.map(|(name, ..)| name);
    let calls = format!(
        "losses<<<4, 1>>>(x, s, {}); quantised_gradients<<<4, 1>>>(x, s, {}); other_gradients<<<4, 1>>>(x, s, {});",
        losses.join(", "),
        names[..6].join(", "),
        names[6..].join(", ")
    );
    let mut harness = format!("sources = [\"k.cu\"]\ncall = \"{calls}\"\n");
    for (name, shape) in [("x", 4), ("s", 1), ("ones", 4)] {
        harness += &format!("[inputs.{name}]\ndtype = \"f32\"\nshape = [{shape}]\n");
    }
    for name in losses {
        harness += &format!("[outputs.{name}]\ndtype = \"f32\"\nshape = [4]\n");
    }
    for (name, input, loss, is_straight) in gradients {
        let shape = if input == "x" { 4 } else { 1 };
        harness += &format!(
            "[outputs.{name}]\ndtype = \"f32\"\nshape = [{shape}]\ngradient_of = \"{input}\"\nof = \"{loss}\"\n\
             upstream = \"ones\"\nstraight_through = {is_straight}\n"
        );
    }
    harness
}

#[test]
fn a_straight_through_gradient_is_held_against_a_loss_whose_rounded_numbers_have_a_slope() {
    let env = project(ROUNDED);
    env.repo.write("replay.toml", rounded_harness());
    let bytes = |numbers: &[f32]| numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let [x, s, ones] = [bytes(&[1.0, 2.0, 3.0, 4.0]), bytes(&[0.7]), bytes(&[1.0; 4])];
    let sizes = [[4], [1], [4]];
    let tensors = [
        ("x", DType::F32, &sizes[0][..], &x[..]),
        ("s", DType::F32, &sizes[1][..], &s[..]),
        ("ones", DType::F32, &sizes[2][..], &ones[..]),
    ];
    env.write_fixture("tiny", &tensors);
    insta::assert_snapshot!(told(&env.replay(&["gradcheck", "fixtures/tiny", "--gradients", "600"])), @"
      right        matches d loss / d x straight through rounding to integers: 8 directional derivatives, worst rel. 0 (noise 1.8e-11)
      wrong        does not match d loss / d x straight through rounding to integers: 8 directional derivatives, worst rel. 0.0001 (noise 1.8e-11), at [3] 8.40084 instead of 8.4
      factor       does not match d loss / d x straight through rounding to integers: 8 directional derivatives, worst rel. 0.032 (noise 1.8e-11), at [3] 8.6 instead of 8.4
      unsaid       not checked: the loss is a staircase, for the sources round to integers; it may match straight through this rounding: straight_through = true in [outputs.unsaid], if that is meant
      of_s         matches d loss / d s straight through rounding to integers: 8 directional derivatives, worst rel. 1.4e-9 (noise 2.6e-9)
      of_s_wrong   does not match d loss / d s straight through rounding to integers: 8 directional derivatives, worst rel. 2 (noise 2.6e-9), at [0] -0.799999 instead of 0.799999
      half         matches d halves / d x straight through rounding to integers: 8 directional derivatives, worst rel. 3.5e-11 (noise 3.9e-11)
      byte         not checked: the loss jumps, and numbers go through integers, which have no slope: k.cu:3: (signed char)rintf(x / 0.7f); k.cu:4: __float2int_rn(x / s); k.cu:7: (int)floorf(x / 0.7f); and 3 more
      bound        matches d cut / d x straight through rounding to integers: 8 directional derivatives, worst rel. 2.2e-11 (noise 2.3e-11)
      held         matches d scaled / d x straight through rounding to integers, with scales held: 8 directional derivatives, worst rel. 2.3e-11 (noise 3.8e-11)
      held_factor  not checked: it matches where the sources round nothing to integers, but not where rounding keeps its values and has a slope of one; what scales these numbers moves with the input, and may be meant to be constant
      beside       does not match d smooth / d x: 8 directional derivatives, worst rel. 0.16 (noise 4.7e-11), at [3] 0.7 instead of 0.6
      passed       not checked: the loss is a staircase: flat in an element, and flat again behind a jump, as where numbers go through integers: k.cu:3: (signed char)rintf(x / 0.7f); k.cu:4: __float2int_rn(x / s); k.cu:7: (int)floorf(x / 0.7f); and 3 more
      passed_s     not checked: the loss jumps, and numbers go through integers, which have no slope: k.cu:3: (signed char)rintf(x / 0.7f); k.cu:4: __float2int_rn(x / s); k.cu:7: (int)floorf(x / 0.7f); and 3 more
      kept_s       not checked: the loss jumps, and numbers go through integers, which have no slope: k.cu:3: (signed char)rintf(x / 0.7f); k.cu:4: __float2int_rn(x / s); k.cu:7: (int)floorf(x / 0.7f); and 3 more
      unsaid_s     not checked: the loss jumps, and numbers go through integers, which have no slope: k.cu:3: (signed char)rintf(x / 0.7f); k.cu:4: __float2int_rn(x / s); k.cu:7: (int)floorf(x / 0.7f); and 3 more
      chosen       does not match d between / d x: 8 directional derivatives, worst rel. 0.1 (noise 1.9e-11), at [3] 17.2857 instead of 15.7143

    diverged: wrong, factor, of_s_wrong, beside, chosen not as the loss has it; unsaid, byte, held_factor, passed, passed_s, kept_s, unsaid_s could not be checked
    [1]
    ");
}

/// A scale for each number, that is cut off at its bound in three of four; and its gradients.
const CUT_OFF: &str = "
__device__ float inside(float x) { return fabsf(rintf(x)) <= 2 ? 1 : 0; }
__global__ void cut_off(const float* x, const float* s, float* loss, float* right, float* wrong)
{
    int i = blockIdx.x;
    float integer = fminf(fmaxf(rintf(x[i] / s[i]), -2.0f), 2.0f);
    loss[i] = integer * s[i];
    right[i] = integer - inside(x[i] / s[i]) * x[i] / s[i];
    wrong[i] = integer - x[i] / s[i];
}
";

/// What is told of `kernel`, one like [`CUT_OFF`].
fn told_of_cut_off(kernel: &str) -> String {
    let env = project(kernel);
    let mut harness =
        "sources = [\"k.cu\"]\ncall = \"cut_off<<<4, 1>>>(x, s, loss, right, wrong);\"\n"
            .to_owned();
    for name in ["x", "s", "ones"] {
        harness += &format!("[inputs.{name}]\ndtype = \"f32\"\nshape = [4]\n");
    }
    harness += "[outputs.loss]\ndtype = \"f32\"\nshape = [4]\n";
    for name in ["right", "wrong"] {
        harness += &format!(
            "[outputs.{name}]\ndtype = \"f32\"\nshape = [4]\ngradient_of = \"s\"\nof = \"loss\"\n\
             upstream = \"ones\"\nstraight_through = true\n"
        );
    }
    env.repo.write("replay.toml", harness);
    let bytes = |numbers: &[f32]| numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let tensors = [
        ("x", bytes(&[1.7, -1.8, 2.1, 5.0])),
        ("s", bytes(&[1.0, 0.9, 1.1, 1.2])),
        ("ones", bytes(&[1.0; 4])),
    ];
    let tensors = tensors.each_ref().map(|(name, bytes)| (*name, DType::F32, &[4][..], &bytes[..]));
    env.write_fixture("tiny", &tensors);
    told(&env.replay(&["gradcheck", "fixtures/tiny"]))
}

#[test]
fn numbers_on_the_bound_of_a_quantiser_vouch_for_no_gradient_of_its_scales() {
    insta::assert_snapshot!(told_of_cut_off(CUT_OFF), @"
      right  matches d loss / d s straight through rounding to integers: 8 directional derivatives, worst rel. 6e-11 (noise 1e-10)
      wrong  does not match d loss / d s straight through rounding to integers: 8 directional derivatives, worst rel. 1.7 (noise 1e-10), at [3] -2.16667 instead of 2

    diverged: wrong not as the loss has it
    [1]
    ");
}

#[test]
fn a_gradient_that_rounds_by_integers_is_not_judged_beside_them() {
    let by_integers = CUT_OFF
        .replace("right[i] = integer", "right[i] = __float2int_rn(integer)")
        .replace("wrong[i] = integer", "wrong[i] = __float2int_rn(integer)");
    insta::assert_snapshot!(told_of_cut_off(&by_integers), @"
      right  matches d loss / d s straight through rounding to integers: 8 directional derivatives of 1 of 4 elements, worst rel. 0 (noise 1.2e-10)
      wrong  not checked: it does not match beside integers, where conversions to integers still round: k.cu:8: __float2int_rn(integer); k.cu:9: __float2int_rn(integer)

    unchecked: wrong could not be checked, the others match their loss
    [125]
    ");
}

/// Codes of a small book by comparisons, scaled by the largest magnitude of their block, and a gradient straight through
/// them.
const CODES: &str = "
__device__ float nearest(float x) { return x > 0.6f ? 1.0f : x > 0.1f ? 0.35f : x > -0.5f ? -0.2f : -1.0f; }
__global__ void codes(const float* x, const float* dy, float* y, float* dx)
{
    float largest = 0;
    for (int i = 0; i < 8; i++) largest = fmaxf(largest, fabsf(x[i]));
    int i = threadIdx.x;
    y[i] = nearest(x[i] / largest) * largest;
    dx[i] = dy[i];
}
";

#[test]
fn a_gradient_through_codes_with_a_scale_of_their_block_is_not_convicted_at_the_scale() {
    let env = project(CODES);
    let mut harness =
        "sources = [\"k.cu\"]\ncall = \"codes<<<1, 8>>>(x, dy, y, dx);\"\n".to_owned();
    for name in ["inputs.x", "inputs.dy", "outputs.y", "outputs.dx"] {
        harness += &format!("[{name}]\ndtype = \"f32\"\nshape = [8]\n");
    }
    harness += "gradient_of = \"x\"\nof = \"y\"\nupstream = \"dy\"\n";
    env.repo.write("replay.toml", harness);
    let bytes =
        |numbers: [f32; 8]| numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let x = bytes([0.3, -1.2, 2.0, 0.9, -0.4, 1.5, -1.9, 0.1]);
    let dy = bytes([1.0, -2.0, 3.0, 1.0, -1.0, 2.0, -2.0, -1.0]);
    env.write_fixture("tiny", &[("x", DType::F32, &[8], &x), ("dy", DType::F32, &[8], &dy)]);
    insta::assert_snapshot!(told(&env.replay(&["gradcheck", "fixtures/tiny"])), @"
      dx  not checked: the loss is a staircase: flat in an element, and flat again behind a jump, as where numbers go through integers

    unchecked: no gradient could be checked
    [125]
    ");
}

#[test]
fn a_gradient_without_a_loss_is_said_to_be_unchecked_in_every_format() {
    let env = without_a_loss();
    insta::assert_snapshot!(told(&env.replay(&["fixtures/tiny"])), @"
      y  not checked: the harness declares no loss to differentiate

    unchecked: gradient y not checked; otherwise completed: every output is written and finite
    [0]
    ");
    let json = env.replay(&["fixtures/tiny", "--format", "json"]).stdout;
    let document: Value = serde_json::from_str(&json).expect("a document");
    assert_eq!(schema::problems(&document), [""; 0]);
    insta::assert_snapshot!(document["replays"][0]["gradients"][0]["reason"], @r#""the harness declares no loss to differentiate""#);
    assert_eq!(document["replays"][0]["verdict"], "unchecked");
    for number in ["worst", "error", "native_error", "native_ratio"] {
        assert_eq!(document["replays"][0]["gradients"][0][number], Value::Null, "{number}");
    }
    let junit = env.replay(&["fixtures/tiny", "--format", "junit"]).stdout;
    assert!(junit.contains("<skipped ") && junit.contains("type=\"unchecked\""), "{junit}");
    let markdown = env.replay(&["fixtures/tiny", "--format", "markdown"]).stdout;
    assert!(markdown.contains("## replay: 1 unchecked\n"), "{markdown}");
    let page = env.replay(&["fixtures/tiny", "--format", "html"]).stdout;
    assert!(page.contains("<title>replay: unchecked: "), "{page}");
    for format in ["markdown", "markdown-summary", "junit"] {
        let run = env.replay(&["fixtures/tiny", "--format", format]);
        assert!(run.stdout.contains("not checked"), "{format}: {}", run.text());
        assert!(run.stdout.contains("the harness declares no loss"), "{format}: {}", run.text());
    }
    insta::assert_snapshot!(env.replay(&["gradcheck", "fixtures/tiny"]).text(), @"
    exit code 128
    --- stderr
    error: no loss is declared of which y of fixtures/tiny is the gradient
    hint: name the output that is differentiated with `of` in the harness, and declare it if it is no output yet
    ");
}

/// Sources with it have no shadow: there a float has eight bytes.
const NARROW: &str = "__device__ char left[5 - sizeof(float)];\n";

/// Inputs drawn from `seed`, between -2 and 2.
fn write_drawn(env: &TestEnv, seed: u64) {
    let draw = |index| draw_bits(seed, index) as f64 / u64::MAX as f64;
    let x = (0..64).flat_map(|index| (4.0 * draw(index) as f32 - 2.0).to_le_bytes());
    env.write_fixture("drawn", &[("x", DType::F32, &[64], &x.collect::<Vec<_>>())]);
}

/// What `run` tells of gradients, without the compiler's words on the shadow.
fn told_but_for_the_shadow(run: &Run) -> String {
    let told = told(run);
    let lines =
        told.lines().map(|line| match line.split_once("the float64 shadow does not compile") {
            Some((before, words)) => {
                let doubt = words.find("; by float32").map_or("", |start| &words[start..]);
                format!("{before}[NO SHADOW]{doubt}")
            }
            None => line.to_owned(),
        });
    lines.collect::<Vec<_>>().join("\n")
}

/// What is told of `kernel`, which has no shadow, on inputs drawn from `seed`.
fn told_without_a_shadow(kernel: &str, seed: u64) -> String {
    let env = project(&format!("{NARROW}{kernel}"));
    write_drawn(&env, seed);
    told_but_for_the_shadow(&env.replay(&["gradcheck", "fixtures/drawn"]))
}

#[test]
fn without_a_shadow_a_gradient_is_held_against_differences_of_the_native_loss() {
    insta::assert_snapshot!(told_without_a_shadow(KERNEL, 1), @"
      y  agrees with float32 differences of loss to within 1 %; small errors do not show: [NO SHADOW]

    unchecked: no gradient is far from differences of the native loss
    [0]
    ");
    let told_of = |own: &str, other: &str, seed| {
        assert!(KERNEL.contains(own), "{own}");
        told_without_a_shadow(&KERNEL.replace(own, other), seed)
    };
    let doubled = told_of("2.0f * x", "4.0f * x", 2);
    assert!(
        doubled.contains("y  does not match d loss / d x: off by ")
            && doubled.contains(" by float32"),
        "{doubled}"
    );
    assert!(doubled.ends_with("diverged: y not as the loss has it\n[1]"), "{doubled}");
    for (own, other, doubt) in [
        ("2.0f * x", "2.4f * x", "too little to tell"),
        ("host[i] * host[i]", "rintf(host[i])", "by float32 differences of the loss: "),
        ("*loss = 0.0f", "*loss = 1e8f", "by float32 differences of the loss: "),
    ] {
        let told = told_of(own, other, 3);
        assert!(told.contains("y  not checked") && told.contains(doubt), "{told}");
        assert!(told.ends_with("unchecked: no gradient could be checked\n[125]"), "{told}");
    }
}

#[test]
fn the_weaker_check_is_named_in_every_format() {
    let env = project(&format!("{NARROW}{KERNEL}"));
    write_drawn(&env, 6);
    let json = env.replay(&["gradcheck", "fixtures/drawn", "--format", "json"]);
    assert_eq!(json.code, Some(0), "{}", json.text());
    let document: Value = serde_json::from_str(&json.stdout).expect("a document");
    assert_eq!(schema::problems(&document), [""; 0]);
    let check = &document["gradchecks"][0];
    assert_eq!(check["verdict"], "unchecked");
    assert_eq!(check["gradients"][0]["verdict"], "agrees");
    assert_eq!(check["gradients"][0]["against"], "native_differences");
    let (how, line) = ("checked by differences of the native loss alone", "float32 differences of");
    for (format, words) in [
        ("text", how),
        ("text", line),
        ("markdown", line),
        ("junit", how),
        ("html", how),
        ("html", line),
    ] {
        let run = env.replay(&["fixtures/drawn", "--format", format]);
        assert_eq!(run.code, Some(0), "{format}: {}", run.text());
        assert!(run.stdout.contains(words), "{format}: {}", run.text());
    }
}

#[test]
fn a_gradient_without_a_shadow_is_no_success_if_differences_tell_nothing() {
    let env = project(&format!("{NARROW}{}", KERNEL.replace("*loss = 0.0f", "*loss = 1e9f")));
    let said = |run: Run| told_but_for_the_shadow(&run);
    insta::assert_snapshot!(said(env.replay(&["gradcheck", "fixtures/tiny"])), @"
      y  not checked: [NO SHADOW]; by float32 differences of the loss: the loss stays within its rounding

    unchecked: no gradient could be checked
    [125]
    ");
    insta::assert_snapshot!(said(env.replay(&["fixtures/tiny"])), @"
      y  not checked: [NO SHADOW]; by float32 differences of the loss: the loss stays within its rounding

    unchecked: gradient y not checked; otherwise completed: every output is written and finite
    [0]
    ");
}

#[test]
fn a_loss_of_large_terms_is_checked_by_longer_steps_or_its_rounding_is_told() {
    let told_of = |start: &str, end: &str, factor: &str| {
        let loss = "*loss += host[i] * host[i];";
        let kernel = KERNEL
            .replace("*loss = 0.0f;", &format!("*loss = {start};"))
            .replace(loss, &format!("{loss}\n    *loss -= {end};"))
            .replace("2.0f * x", &format!("{factor} * x"));
        let env = project(&kernel);
        write_drawn(&env, 1);
        told(&env.replay(&["gradcheck", "fixtures/drawn"]))
    };
    let all = [
        told_of("1e8f", "0.0f", "2.0f"),
        told_of("1e8f", "1e8f", "2.0f"),
        told_of("1e8f", "1e8f", "4.0f"),
        told_of("1e14f", "0.0f", "2.0f"),
        told_of("1e14f", "1e14f", "2.0f"),
    ];
    insta::assert_snapshot!(all.join("\n"), @"
      y  matches d loss / d x: 8 directional derivatives, worst rel. 1.6e-7 (noise 2.6e-7, which hides errors below rel. 2e-5)

    completed: the gradient matches its loss
    [0]
      y  matches d loss / d x: 8 directional derivatives, worst rel. 1.7e-5 (noise 1.2e-5, which hides errors below rel. 0.0008)

    completed: the gradient matches its loss
    [0]
      y  does not match d loss / d x: 8 directional derivatives, worst rel. 0.96 (noise 7.9e-6), at [29] -7.30003 instead of -3.65002

    diverged: y not as the loss has it
    [1]
      y  not checked: the rounding of the loss hides its slopes: the loss is 1e14, rounding moves it by 0.52, and the longest step by 0.26

    unchecked: no gradient could be checked
    [125]
      y  not checked: the rounding of the loss hides its slopes: the loss is 79, rounding moves it by 0.52, and the longest step by 0.26

    unchecked: no gradient could be checked
    [125]
    ");
}

#[test]
fn a_shadow_that_runs_out_of_time_is_no_check() {
    let slow = KERNEL.replace(
        "*loss = 0.0f;",
        "*loss = 1e9f;\n    volatile int on = 1;\n    while (sizeof(x[0]) + 1 == 9 && on) {}",
    );
    let env = project(&slow);
    let run = env.replay(&["gradcheck", "fixtures/tiny", "--timeout", "1"]);
    insta::assert_snapshot!(told(&run), @"
      y  not checked: the float64 shadow ran out of time; by float32 differences of the loss: the loss stays within its rounding

    unchecked: no gradient could be checked
    [125]
    ");
}

#[test]
fn a_replay_that_failed_has_checked_no_gradient() {
    let env = project(&KERNEL.replace("*loss = 0.0f;", "*loss = 1.0f / 0.0f;"));
    insta::assert_snapshot!(told(&env.replay(&["fixtures/tiny"])), @"
      y  not checked: the replay failed

    failed: non-finite: loss has 0 NaN and 1 Inf from finite inputs
    [1]
    ");
}

#[test]
fn one_fixture_without_gradients_does_not_keep_others_from_being_checked() {
    let env = project(KERNEL);
    let run = env.replay(&["gradcheck", "fixtures/none", "fixtures/tiny"]);
    insta::assert_snapshot!(run.text(), @"
    exit code 128
    --- stdout
    tiny at the working tree

    gradients
      y  matches d loss / d x: 8 directional derivatives, worst rel. 0 (noise 1.8e-11)

    completed: the gradient matches its loss

    2 fixtures: 1 not replayed, 1 completed
    --- stderr
    error: there is no fixture folder fixtures/none
    hint: a fixture is a folder with fixture.toml and *.safetensors
    ");
}

/// Gradients of the sum of squares of `x`, of that of `w`, and of a loss for each element of `x`.
const LOSSES: &str = "\
__global__ void k(const float* x, const float* w, const float* up, float* y, float* z,
                  float* rows, float* r, int n)
{
    int i = threadIdx.x;
    if (i >= n) return;
    y[i] = 2.0f * x[i];
    z[i] = 2.0f * w[i];
    rows[i] = x[i] * x[i] * x[i];
    r[i] = 3.0f * x[i] * x[i] * up[i];
}
__global__ void sums(const float* x, const float* w, float* sums, int n)
{
    sums[0] = sums[1] = 0.0f;
    for (int i = 0; i < n; i++) {
        sums[0] += x[i] * x[i];
        sums[1] += w[i] * w[i];
    }
}
void run(const float* x, const float* w, const float* up, float* y, float* z, float* rows, float* r,
         float* loss, float* loss_w, int n)
{
    float* both;
    cudaMalloc(&both, 2 * sizeof(float));
    k<<<1, 32>>>(x, w, up, y, z, rows, r, n);
    sums<<<1, 1>>>(x, w, both, n);
    cudaMemcpy(loss, both, sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(loss_w, both + 1, sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(both);
}
";

const LOSSES_HARNESS: &str = "\
sources = [\"k.cu\"]
call = \"run(x, w, up, y, z, rows, r, &loss, &loss_w, n);\"
[inputs.x]
dtype = \"f32\"
shape = [\"n\"]
[inputs.w]
dtype = \"f32\"
shape = [\"n\"]
[inputs.up]
dtype = \"f32\"
shape = [\"n\"]
[outputs.loss]
dtype = \"f32\"
shape = []
[outputs.loss_w]
dtype = \"f32\"
shape = []
[outputs.rows]
dtype = \"f32\"
shape = [\"n\"]
[outputs.y]
dtype = \"f32\"
shape = [\"n\"]
gradient_of = \"x\"
of = \"loss\"
[outputs.z]
dtype = \"f32\"
shape = [\"n\"]
gradient_of = \"w\"
of = \"loss_w\"
[outputs.r]
dtype = \"f32\"
shape = [\"n\"]
gradient_of = \"x\"
of = \"rows\"
upstream = \"up\"
";

/// What is said of the gradients of `kernel` where `x` holds these values.
fn told_of_gradients(kernel: &str, x: [f32; 5]) -> String {
    let env = project(kernel);
    env.repo.write("replay.toml", LOSSES_HARNESS);
    let bytes = |values: [f32; 5]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let w = bytes([1.0, 2.0, 3.0, 4.0, 5.0]);
    let tensors = [("x", &bytes(x)), ("w", &w), ("up", &w)];
    env.write_fixture(
        "spoilt",
        &tensors.map(|(name, bytes)| (name, DType::F32, &[5][..], &bytes[..])),
    );
    let run = env.replay(&["gradcheck", "fixtures/spoilt"]);
    format!("{}[{}]", run.stdout, run.code.unwrap_or(-1))
}

#[test]
fn a_loss_that_an_input_spoils_names_the_input_and_the_rest_is_checked() {
    insta::assert_snapshot!(told_of_gradients(LOSSES, [1.0, 2.0, f32::NAN, 4.0, 5.0]), @"
    spoilt at the working tree

    gradients
      y  not checked: x is NaN at [2]; it matches with finite neighbours in their place
      z  matches d loss_w / d w: 8 directional derivatives, worst rel. 0 (noise 2e-11)
      r  not checked: x is NaN at [2]; it matches with finite neighbours in their place

    unchecked: y, r could not be checked, the others match their loss
    [125]
    ");
}

#[test]
fn a_wrong_gradient_is_seen_beside_an_input_that_is_infinite() {
    let wrong = LOSSES.replace("y[i] = 2.0f", "y[i] = 2.5f").replace("3.0f * x[i]", "3.5f * x[i]");
    insta::assert_snapshot!(told_of_gradients(&wrong, [1.0, f32::INFINITY, 2.0, f32::NAN, 5.0]), @"
    spoilt at the working tree

    gradients
      y  does not match d loss / d x: 8 directional derivatives, worst rel. 0.25 (noise 1.8e-11), at [4] 12.5 instead of 10; x is inf at [1] and 1 more; seen with finite neighbours in their place
      z  matches d loss_w / d w: 8 directional derivatives, worst rel. 0 (noise 2e-11)
      r  does not match d rows / d x: 8 directional derivatives, worst rel. 0.16 (noise 1.1e-11), at [4] 437.5 instead of 375; x is inf at [1] and 1 more; seen with finite neighbours in their place

    diverged: y, r not as the loss has it
    [1]
    ");
}

#[test]
fn a_loss_that_is_infinite_beside_a_spoilt_input_too_is_not_checked() {
    let inverse = LOSSES.replace("+= x[i] * x[i]", "+= 1.0f / x[i]");
    insta::assert_snapshot!(told_of_gradients(&inverse, [f32::NAN; 5]), @"
    spoilt at the working tree

    gradients
      y  not checked: x is NaN at [0] and 4 more; with finite neighbours in their place, loss is inf
      z  matches d loss_w / d w: 8 directional derivatives, worst rel. 0 (noise 2e-11)
      r  not checked: x is NaN at [0] and 4 more; with finite neighbours in their place, the loss is not smooth at most elements

    unchecked: y, r could not be checked, the others match their loss
    [125]
    ");
}

/// The kernel with another value in its float64 shadow alone.
fn with_shadow_value(value: &str) -> String {
    let index = "threadIdx.x";
    let own = format!("2.0f * x[{index}]");
    KERNEL.replace(
        &format!("y[{index}] = {own}"),
        &format!("y[{index}] = sizeof(x[0]) + 1 == 9 && {index} > 0 ? {value} : {own}"),
    )
}

#[test]
fn a_shadow_that_is_not_finite_convicts_no_gradient_and_tells_its_place() {
    let env = project(&with_shadow_value("x[0] / 0.0f"));
    insta::assert_snapshot!(told(&env.replay(&["gradcheck", "fixtures/tiny"])), @"
      y  agrees with float32 differences of loss to within 1 %; small errors do not show: y is inf at [1] in the float64 shadow alone

    unchecked: no gradient is far from differences of the native loss
    [0]
    ");
    let env = project(
        &KERNEL.replace("*loss = 0.0f;", "*loss = sizeof(x[0]) + 1 == 9 ? 1 / 0.0f : 0.0f;"),
    );
    insta::assert_snapshot!(told(&env.replay(&["gradcheck", "fixtures/tiny"])), @"
      y  agrees with float32 differences of loss to within 1 %; small errors do not show: loss is inf in the float64 shadow alone

    unchecked: no gradient is far from differences of the native loss
    [0]
    ");
}

#[test]
fn a_shadow_that_no_rounding_brings_near_the_output_convicts_no_gradient() {
    let env = project(&with_shadow_value("-3.0f * x[threadIdx.x]"));
    insta::assert_snapshot!(told(&env.replay(&["gradcheck", "fixtures/tiny"])), @"
      y  agrees with float32 differences of loss to within 1 %; small errors do not show: the float64 shadow is none: no rounding explains how far it lies off: y is -6e0 at [1] in it, and 4e0 in the output

    unchecked: no gradient is far from differences of the native loss
    [0]
    ");
}

#[test]
fn a_loss_that_no_rounding_brings_near_its_shadow_convicts_no_gradient() {
    let env = project(&KERNEL.replace("*loss += ", "*loss += (sizeof(x[0]) + 1 == 9 ? -3 : 1) * "));
    insta::assert_snapshot!(told(&env.replay(&["gradcheck", "fixtures/tiny"])), @"
      y  agrees with float32 differences of loss to within 1 %; small errors do not show: the float64 shadow is none: no rounding explains how far it lies off: loss is -9e1 in it, and 3e1 in the output

    unchecked: no gradient is far from differences of the native loss
    [0]
    ");
}

#[test]
fn a_shadow_that_ends_early_says_how_and_what_it_printed_last() {
    let end = "*loss = 0.0f;\n    if (sizeof(x[0]) + 1 == 9) {\n        puts(\"no wide path\");\n        \
               fflush(stdout);\n        exit(3);\n    }";
    let kernel = KERNEL.replace("*loss = 0.0f;", end);
    let env = project(&format!("#include <stdio.h>\n#include <stdlib.h>\n{kernel}"));
    insta::assert_snapshot!(told(&env.replay(&["gradcheck", "fixtures/tiny"])), @"
      y  agrees with float32 differences of loss to within 1 %; small errors do not show: the float64 shadow does not run to its end: exit(3): no wide path

    unchecked: no gradient is far from differences of the native loss
    [0]
    ");
}

#[test]
fn all_lines_that_keep_sources_from_meaning_double_are_named_at_once() {
    let bits = "    Pair pair = {{host[0], host[1]}};\n    Word word = {{host[2], host[3]}};\n    \
                *loss = (pair.bits[0] ^ word.bits[0]) == 1 ? 1.0f : 0.0f;";
    let unions = "union Pair { float values[2]; unsigned bits[2]; };\n\
                  union Word { float values[2]; int bits[2]; };\n";
    let env = project(&format!("{unions}{}", KERNEL.replace("    *loss = 0.0f;", bits)));
    let run = env.replay(&["gradcheck", "fixtures/tiny"]);
    insta::assert_snapshot!(told(&run), @"
      y  agrees with float32 differences of loss to within 1 %; small errors do not show: float cannot mean double: k.cu:1: union Pair; k.cu:2: union Word

    unchecked: no gradient is far from differences of the native loss
    [0]
    ");
}

/// Squares and cubes of `x`, and the gradient of both together.
const TWO_OUTPUTS: &str = "\
__global__ void both(const float* x, const float* dy, const float* dz, float* y, float* z, float* dx, int n)
{
    int i = threadIdx.x;
    if (i >= n) return;
    y[i] = x[i] * x[i];
    z[i] = x[i] * x[i] * x[i];
    dx[i] = 2.0f * x[i] * dy[i] + 3.0f * x[i] * x[i] * dz[i];
}
";

#[test]
fn a_gradient_of_two_outputs_is_held_against_the_sum_of_their_products_with_its_upstreams() {
    let told_of = |kernel: &str| {
        let env = TestEnv::new().with_kernel(kernel, "");
        let floats = "dtype = \"f32\"\nshape = [\"n\"]\n";
        let mut harness = "sources = [\"k.cu\"]\n\
            call = \"both<<<1, n>>>(x, dy, dz, y, z, dx, n);\"\n"
            .to_owned();
        for table in ["inputs.x", "inputs.dy", "inputs.dz", "outputs.y", "outputs.z", "outputs.dx"]
        {
            harness += &format!("[{table}]\n{floats}");
        }
        harness += "gradient_of = \"x\"\nof = [\"y\", \"z\"]\nupstream = [\"dy\", \"dz\"]\n";
        env.repo.write("replay.toml", harness);
        let bytes: Vec<u8> = [1f32, 2.0, 3.0, 5.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let tensors = ["x", "dy", "dz"].map(|name| (name, DType::F32, &[4][..], &bytes[..]));
        env.write_fixture("two", &tensors);
        told(&env.replay(&["gradcheck", "fixtures/two"]))
    };
    insta::assert_snapshot!(told_of(TWO_OUTPUTS), @"
      dx  matches d (y, z) / d x: 8 directional derivatives, worst rel. 2.5e-12 (noise 1.3e-11)

    completed: the gradient matches its loss
    [0]
    ");
    let wrong = told_of(&TWO_OUTPUTS.replace("3.0f * x[i]", "2.0f * x[i]"));
    assert!(wrong.starts_with("  dx  does not match d (y, z) / d x: "), "{wrong}");
}

/// A quadratic form of unit vectors. Its gradient is the one along the sphere alone: of `q / |q|`.
const ON_SPHERE: &str = "\
__global__ void form(const float* q, const float* up, float* y, float* dq, int n)
{
    if (threadIdx.x >= n) return;
    const float* v = q + 4 * threadIdx.x;
    float weights[4] = {1.0f, 2.0f, 3.0f, 5.0f};
    float sum = 0.0f;
    for (int i = 0; i < 4; i++) sum += weights[i] * v[i] * v[i];
    y[threadIdx.x] = sum;
    for (int i = 0; i < 4; i++)
        dq[4 * threadIdx.x + i] = 2.0f * up[threadIdx.x] * (weights[i] * v[i] - sum * v[i]);
}
";

#[test]
fn a_gradient_along_the_constraint_of_its_input_matches_and_without_one_the_constraint_is_named() {
    let told_of = |kernel: &str, constraint: &str| {
        let env = TestEnv::new().with_kernel(kernel, "");
        env.repo.write(
            "replay.toml",
            format!(
                "sources = [\"k.cu\"]\ncall = \"form<<<1, 32>>>(q, up, y, dq, n);\"\n\
                 [inputs.q]\ndtype = \"f32\"\nshape = [\"n\", 4]\n{constraint}\
                 [inputs.up]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                 [outputs.y]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                 [outputs.dq]\ndtype = \"f32\"\nshape = [\"n\", 4]\n\
                 gradient_of = \"q\"\nof = \"y\"\nupstream = \"up\"\n"
            ),
        );
        let vectors = [0.5f32, 0.5, -0.5, 0.5, 0.6, 0.0, -0.8, 0.0];
        let bytes: Vec<u8> = vectors.iter().flat_map(|x| x.to_le_bytes()).collect();
        let up: Vec<u8> = [1.0f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let tensors = [("q", DType::F32, &[2, 4][..], &bytes[..]), ("up", DType::F32, &[2], &up)];
        env.write_fixture("unit", &tensors);
        told(&env.replay(&["gradcheck", "fixtures/unit"]))
    };
    let unit = "constraint = \"unit\"\n";
    let right = told_of(ON_SPHERE, unit);
    assert!(right.starts_with("  dq  matches d y / d q along \"unit\": "), "{right}");
    let unnamed = told_of(ON_SPHERE, "");
    assert!(unnamed.starts_with("  dq  does not match d y / d q: "), "{unnamed}");
    let hint =
        "; it matches where q stays on its constraint: constraint = \"unit\" in [inputs.q]\n";
    assert!(unnamed.contains(hint), "{unnamed}");
    for constraint in [unit, ""] {
        let wrong = told_of(&ON_SPHERE.replace("- sum * v[i]", "- sum * v[3 - i]"), constraint);
        assert!(
            wrong.starts_with("  dq  does not match ") && !wrong.contains("stays on"),
            "{wrong}"
        );
    }
}

#[test]
fn a_search_by_gradients_without_a_check_of_them_is_refused() {
    let env = without_a_loss();
    let ends = ["bisect", "fixtures/tiny", "--good", "HEAD", "--bad", "HEAD"];
    let run = env.replay(&[&ends[..], &["--on", "gradient", "--gradients", "off"]].concat());
    insta::assert_snapshot!(run.text(), @"
    exit code 128
    --- stderr
    error: `--on gradient` searches by gradients, and `--gradients off` leaves them out
    hint: leave out `--gradients off`, or search by outputs: `--on wrong`
    ");
}

#[test]
fn an_input_off_its_constraint_is_noted_with_its_place_and_norm() {
    let env = TestEnv::new().with_kernel(ON_SPHERE, "");
    env.repo.write(
        "replay.toml",
        "sources = [\"k.cu\"]\ncall = \"form<<<1, 32>>>(q, up, y, dq, n);\"\n\
         [inputs.q]\ndtype = \"f32\"\nshape = [\"n\", 4]\nconstraint = \"unit\"\n\
         [inputs.up]\ndtype = \"f32\"\nshape = [\"n\"]\n\
         [outputs.y]\ndtype = \"f32\"\nshape = [\"n\"]\n\
         [outputs.dq]\ndtype = \"f32\"\nshape = [\"n\", 4]\n\
         gradient_of = \"q\"\nof = \"y\"\nupstream = \"up\"\n",
    );
    let vectors = [0.5f32, 0.5, -0.5, 0.5, 1.5, 0.0, 0.0, 0.0];
    let bytes: Vec<u8> = vectors.iter().flat_map(|x| x.to_le_bytes()).collect();
    let up: Vec<u8> = [1.0f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let tensors = [("q", DType::F32, &[2, 4][..], &bytes[..]), ("up", DType::F32, &[2], &up)];
    env.write_fixture("unit", &tensors);
    let note = "q[1] has the norm 1.5000, and its constraint is \"unit\": 1 of 2 lie off it, and gradients are checked \
                along it there too";
    for command in ["replay", "gradcheck"] {
        let words = if command == "replay" {
            vec!["fixtures/unit"]
        } else {
            vec![command, "fixtures/unit"]
        };
        let run = env.replay(&words);
        let line = format!("note: fixtures/unit/inputs.safetensors: {note}");
        assert!(run.stderr.lines().any(|told| told == line), "{}", run.text());
    }
    let inspected = env.replay(&["inspect", "fixtures/unit"]);
    assert!(inspected.stdout.contains(note), "{}", inspected.text());
}
