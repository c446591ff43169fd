//! Changes of the mathematics that rounding hides on a fixture.

use replay::tensor::DType;
use serde_json::Value;

use crate::common::env::TestEnv;
use crate::common::schema;

const CALL: &str = "scale<<<1, 32>>>(x, y, n);";

fn scaled_by(factor: &str) -> String {
    format!(
        "__global__ void scale(const float* x, float* y, int n)\n\
         {{\n    if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] * {factor};\n}}\n"
    )
}

/// `HEAD~1` is scaled by 1, `HEAD` by `factor`.
fn scaled(factor: &str) -> TestEnv {
    let env = TestEnv::new().with_kernel(&scaled_by("1.0f"), CALL);
    env.repo.commit_file("k.cu", &scaled_by(factor), "Scale it");
    env
}

#[test]
fn a_shadow_that_moves_by_more_than_a_unit_roundoff_is_wrong_within_noise() {
    let env = scaled("1.0000003f");
    let run = env.replay(&["diff", "fixtures/tiny", "HEAD~1", "HEAD"]);
    assert_eq!(run.code, Some(1), "{}", run.text());
    insta::assert_snapshot!(run.stdout.split_once("outputs\n").unwrap().1, @"
      y  diverged: wrong, hidden by rounding on this fixture: the float64 shadow moves by rel. 3.6e-7
         100 % of bits differ, rel. 3.5e-7, 0 elements beyond noise
         worst at [2]: 3 -> 3.00000095, 2 x noise, 4 ulp
         error against the trusted shadow: 0 -> 3.5e-7
         everywhere

    diverged: y (wrong, hidden by rounding)
    ");

    let json = env.replay(&["fixtures/tiny", "--against", "HEAD~1", "--format", "json"]).stdout;
    let document: Value = serde_json::from_str(&json).expect("a document");
    assert_eq!(schema::problems(&document), [""; 0]);
    let output = &document["replays"][0]["against"]["outputs"][0];
    assert_eq!((&output["verdict"], &output["finding"]), (&"diverged".into(), &"wrong".into()));
    assert_eq!(output["comparison"]["verdict"], "equivalent");
    assert_eq!(output["shadow"]["moved"], 4);
    let markdown =
        env.replay(&["fixtures/tiny", "--against", "HEAD~1", "--format", "markdown"]).stdout;
    assert!(markdown.contains("- diverged: y (wrong, hidden by rounding)\n"), "{markdown}");
}

#[test]
fn a_comparison_can_be_written_for_a_comment() {
    let env = scaled("1.0000003f");
    let words = ["diff", "fixtures/tiny", "HEAD~1", "HEAD", "--format", "markdown"];
    insta::assert_snapshot!(env.replay(&words).text(), @"
    exit code 1
    --- stdout
    <!-- replay -->
    ## replay: 1 diverged

    | fixture | output | verdict | checksum | distance | beyond noise | worst element |
    | --- | --- | --- | --- | --- | --- | --- |
    | tiny | y | diverged | 2d8fe222 → 5131d774 | rel. 3.5e-7 | 0 of 4 | &#91;2&#93;: 3 → 3.00000095 |

    **diverged** tiny at 7565836 against 884eada on cpu
    - diverged: y (wrong, hidden by rounding)
    - y everywhere

    [RUN]
    ");
    let run = env.replay(&[&words[..4], &["--report", "diff.md"]].concat());
    assert_eq!(run.code, Some(1), "{}", run.text());
    let kept = std::fs::read_to_string(env.path("diff.md")).expect("a report");
    assert!(kept.starts_with("<!-- replay -->"));
}

/// Multiplies by `factor` what is left of a large term, of which rounding moves every digit but three.
fn left_over(factor: &str) -> String {
    format!(
        "__global__ void scale(const float* x, float* y, int n)\n\
         {{\n    if (threadIdx.x < n) y[threadIdx.x] = ((x[threadIdx.x] / 3.0f + 4096.0f) - 4096.0f) * {factor};\n}}\n"
    )
}

#[test]
fn one_factor_on_all_elements_is_wrong_below_what_noise_tells_and_a_smaller_one_is_noted() {
    let env = TestEnv::new().with_kernel(&left_over("1.0f"), CALL);
    let x: Vec<u8> = (1..=32u8).flat_map(|x| (f32::from(x) / 7.0).to_le_bytes()).collect();
    env.write_fixture("many", &[("x", DType::F32, &[32], &x)]);
    env.repo.commit_file("k.cu", &left_over("1.00001f"), "Scale it");
    env.repo.commit_file("k.cu", &left_over("1.000001f"), "Scale it by less");
    let diff = |against: &str| {
        let run = env.replay(&["diff", "fixtures/many", "HEAD~2", against]);
        run.stdout.split_once("outputs\n").unwrap().1.to_owned()
    };
    insta::assert_snapshot!(diff("HEAD~1"), @"
      y  diverged: wrong, hidden by rounding on this fixture: the float64 shadow moves by rel. 1e-5
         100 % of bits differ, rel. 1e-5, 0 elements beyond noise
         worst at [20]: 1 -> 1.00001001, 0.021 x noise, 84 ulp
         error against the trusted shadow: 0.00016 -> 0.00016
         everywhere
         62 elements jump in one or two replays, over 1024 x as far as in the others

    diverged: y (wrong, hidden by rounding)
    ");
    insta::assert_snapshot!(diff("HEAD"), @"
      y  equivalent: within noise, at most 0.002 x
         100 % of bits differ, rel. 9.5e-7, 0 elements beyond noise
         worst at [20]: 1 -> 1.00000095, 0.002 x noise, 8 ulp
         error against the trusted shadow: 0.00016 -> 0.00016
         the float64 shadow changed by rel. 9.5e-7 in 32 elements, below what noise tells
         62 elements jump in one or two replays, over 1024 x as far as in the others

    equivalent: y
    ");
}

#[test]
fn a_search_names_the_commit_that_rounding_hides() {
    let env = scaled("1.0000003f");
    env.repo.commit_file("k.cu", &format!("// Scales.\n{}", scaled_by("1.0000003f")), "Comment");
    let run = env.replay(&["bisect", "fixtures/tiny", "--good", "HEAD~2", "--bad", "HEAD"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.contains("is the first bad commit: Scale it"), "{}", run.text());
    assert!(run.stdout.contains("wrong, hidden by rounding on this fixture"), "{}", run.text());
    let log = env.replay(&["log", "fixtures/tiny", "HEAD~2..HEAD"]);
    let line = "diverged: y (the mathematics changed, hidden by rounding)";
    assert!(log.stdout.contains(line), "{}", log.text());
}

#[test]
fn a_shadow_that_moves_by_less_is_equivalent_and_can_be_searched_for() {
    let env = scaled("(float)1.00000003");
    // In float32 the factor is 1; this adds a rounding of the last place.
    env.repo.commit_file("k.cu", &scaled_by("(float)1.00000003 * 0.99999994f"), "Round it");
    let run = env.replay(&["diff", "fixtures/tiny", "HEAD~2", "HEAD"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    insta::assert_snapshot!(run.stdout.split_once("outputs\n").unwrap().1, @"
      y  equivalent: within noise, at most 0.25 x
         100 % of bits differ, rel. 6.6e-8, 0 elements beyond noise
         worst at [2]: 3 -> 2.99999976, 0.25 x noise, 1 ulp
         error against the trusted shadow: 0 -> 6.6e-8
         the float64 shadow changed by rel. 3e-8, less than f32 can hold

    equivalent: y
    ");
    let ends = ["bisect", "fixtures/tiny", "--good", "HEAD~2", "--bad", "HEAD"];
    let run = env.replay(&ends);
    assert_ne!(run.code, Some(0), "{}", run.text());
    let run = env.replay(&[&ends[..], &["--on", "changed"]].concat());
    assert_eq!(run.code, Some(0), "{}", run.text());
    let told = run.stdout.split_once("\n\ndiff --git").unwrap().0;
    insta::assert_snapshot!(told, @"
    c5b68e7 is the first bad commit: Round it
      y equivalent: within noise, at most 0.25 x
        100 % of bits differ, rel. 6.6e-8, 0 elements beyond noise
        worst at [2]: 3 -> 2.99999976, 0.25 x noise, 1 ulp
        error against the trusted shadow: 0 -> 6.6e-8
        the float64 shadow changed by rel. 3e-8, less than f32 can hold
      5e3f1d4, its parent, was tested: identical
    ");
}

/// Rounds multiples of `x` to integers.
fn quantised(multiple: &str) -> String {
    format!(
        "__global__ void scale(const float* x, float* y, int n)\n\
         {{\n    int i = threadIdx.x;\n    if (i >= n) return;\n    float v = {multiple};\n\
         \x20   y[i] = v - rintf(v);\n}}\n"
    )
}

#[test]
fn a_tie_that_float64_decides_by_rounding_is_no_change_of_the_mathematics() {
    // For 3 it is 6.5. In float64 the first is a little more, and the second is not.
    let env = TestEnv::new().with_kernel(&quantised("x[i] * 0.65f / 0.3f"), CALL);
    env.repo.commit_file("k.cu", &quantised("x[i] * (1.0f / 0.3f) * 0.65f"), "Invert it");
    let run = env.replay(&["diff", "fixtures/tiny", "HEAD~1", "HEAD"]);
    assert_eq!((run.code, run.last_line()), (Some(0), "equivalent: y"), "{}", run.text());
}

/// Packs bits, which has no meaning in float64.
fn packed(factor: &str) -> String {
    format!(
        "#include <cuda_bf16.h>\n\
         __global__ void scale(const __nv_bfloat16* x, __nv_bfloat16* y, int n)\n{{\n\
         \x20   int i = blockIdx.x * blockDim.x + threadIdx.x;\n\
         \x20   if (2 * i >= n) return;\n\
         \x20   int bits = reinterpret_cast<const int*>(x)[i];\n\
         \x20   for (int half = 0; half < 2; half++)\n\
         \x20       y[2 * i + half] = __float2bfloat16(\n\
         \x20           __uint_as_float((unsigned)bits >> 16 * half << 16) * {factor});\n}}\n"
    )
}

#[test]
fn a_factor_that_no_element_shows_is_found_without_a_shadow() {
    const HARNESS: &str = r#"
        sources = ["k.cu"]
        call = "scale<<<(n + 255) / 256, 128>>>(x, y, n);"
        [inputs.x]
        dtype = "bf16"
        shape = ["n"]
        [outputs.y]
        dtype = "bf16"
        shape = ["n"]
    "#;
    let env = TestEnv::new().with_kernel(&packed("1.0f"), "");
    env.repo.commit_file("replay.toml", HARNESS, "Take more elements");
    let bytes: Vec<u8> = (0..8192u32)
        .flat_map(|n| {
            ((n.wrapping_mul(2654435761) >> 16) as f32 / 65536.0 - 0.5).to_bits().to_le_bytes()
        })
        .collect();
    let narrow: Vec<u8> = bytes.chunks(4).flat_map(|float| [float[2], float[3]]).collect();
    env.write_fixture("many", &[("x", DType::BF16, &[8192], &narrow)]);
    env.repo.commit_file("k.cu", &packed("1.01f"), "Scale by one per cent");
    let run = env.replay(&["diff", "fixtures/many", "HEAD~1", "HEAD"]);
    assert_eq!(run.code, Some(1), "{}", run.text());
    let (_, told) = run.stdout.split_once("outputs\n").expect("outputs");
    // The compiler says in its own words what the shadow lacks.
    let (told, _) = told.split_once("\n\nwrong is not told from imprecise: ").expect("a reason");
    insta::assert_snapshot!(told, @"
      y  diverged: shifted as a whole, hidden by rounding: 8192 elements scaled by 1.0097, 3.8 x what rounding explains
         100 % of bits differ, rel. 0.0098, 0 elements beyond noise
         worst at [55]: 0.490234375 -> 0.49609375, 1.5 x noise, 3 ulp
         about 2.3 -> 2.3 significant digits, by the furthest of 6 replays with other rounding
         everywhere
    ");
    assert_eq!(run.last_line(), "diverged: y (shifted as a whole, hidden by rounding)");
    env.repo.commit_file("k.cu", &packed("1.01f * 1.0000002f"), "Round once more");
    let run = env.replay(&["diff", "fixtures/many", "HEAD~1", "HEAD"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
}
