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

/// What is said of the outputs of `HEAD` beside `HEAD~1`.
fn outputs(run: &Run) -> &str {
    run.stdout.split_once("outputs\n").expect("outputs").1
}

const ROWS: usize = 500;
const DEPTH: usize = 48;

/// The index of the largest of four scores, which are sums of `DEPTH` terms taken in this order.
fn argmax(order: &str, found: &str) -> String {
    format!(
        "__global__ void argmax(const float* q, const float* k, int* y, int rows, int depth)\n\
         {{\n    int row = blockIdx.x * blockDim.x + threadIdx.x;\n    if (row >= rows) return;\n\
         \x20   int best = 0;\n    float most = -1e30f;\n\
         \x20   for (int c = 0; c < 4; c++) {{\n        float score = 0.0f;\n\
         \x20       for (int i = 0; i < depth; i++) {{\n            int d = {order};\n\
         \x20           score += q[row * depth + d] * k[c * depth + d];\n        }}\n\
         \x20       if (score > most) most = score, best = c;\n    }}\n    y[row] = {found};\n}}\n"
    )
}

/// The queries of rows, and keys that differ by `apart`, so that scores nearly tie.
fn ties(env: &TestEnv, apart: f32) {
    let queries: Vec<f32> = (0..ROWS * DEPTH).map(|at| drawn(at as u32 + 1)).collect();
    let key = |at: usize| drawn(1_000_000 + (at % DEPTH) as u32);
    let keys: Vec<f32> =
        (0..4 * DEPTH).map(|at| key(at) * (1.0 + apart * drawn(2_000_000 + at as u32))).collect();
    let queries = bytes(&queries);
    let keys = bytes(&keys);
    let tensors = [
        ("q", DType::F32, &[ROWS, DEPTH][..], &queries[..]),
        ("k", DType::F32, &[4, DEPTH][..], &keys[..]),
    ];
    env.write_fixture("ties", &tensors);
}

fn project_of_ties(versions: &[String]) -> TestEnv {
    let env = TestEnv::new().with_kernel(&versions[0], "");
    let inputs = [("q", "[\"rows\", \"depth\"]"), ("k", "[4, \"depth\"]")];
    let call = "argmax<<<(rows + 127) / 128, 128>>>(q, k, y, rows, depth);";
    env.repo.commit_file("replay.toml", &harness(call, &inputs, ("i32", "[\"rows\"]")), "Tie");
    for text in &versions[1..] {
        env.repo.commit_file("k.cu", text, "Sum otherwise");
    }
    ties(&env, 3e-7);
    env
}

#[test]
fn integers_that_roundings_of_a_side_flip_are_noise_and_others_are_not() {
    let forward = argmax("i", "best");
    let reverse = argmax("depth - 1 - i", "best");
    let defect = argmax("depth - 1 - i", "row == 7 ? best + 900 : best");
    let env = project_of_ties(&[forward, reverse, defect]);
    let diff = |base, got| env.replay(&["diff", "fixtures/ties", base, got]);
    let run = diff("main~2", "main~1");
    insta::assert_snapshot!(outputs(&run), @"
      y  equivalent: as far as before from its float64 shadow, which is the same
         35.4 % of elements differ, rel. 0.58; roundings flip 176 of them, and leave 1
         worst at [368]: 3 -> 2

    equivalent: y
    ");
    let run = diff("main~1", "main");
    insta::assert_snapshot!(outputs(&run), @"
      y  diverged
         0.2 % of elements differ, rel. 21; no rounding flips them
         worst at [7]: 1 -> 901
         at rows 7

    diverged: y
    ");
    let run = diff("main~2", "main");
    assert!(run.stdout.contains("y  diverged\n"), "{}", run.text());
}

/// `y[i]` for each `x[i]`; `without_shadow`, because in it a float has eight bytes, through the function `of`.
fn elementwise(without_shadow: bool, value: &str) -> String {
    let narrow = "__device__ char left[5 - sizeof(float)];\n\
                  __device__ float of(float a) { return a; }\n";
    format!(
        "{}__global__ void k(const float* x, float* y, int n)\n\
         {{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n\
         \x20   if (i < n) y[i] = {value};\n}}\n",
        if without_shadow { narrow } else { "" },
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
    assert!(
        run.stdout.contains("at 16 of 16 elements") || run.stdout.contains("n % 4 = 0"),
        "{}",
        run.text()
    );
}

#[test]
fn a_distance_that_no_rounding_explains_is_wrong_with_a_shadow_and_without() {
    let x: Vec<f32> = (0..64).map(|at| if at % 3 == 0 { 0.0 } else { drawn(at) }).collect();
    let versions = [
        elementwise(true, "of(x[i])"),
        elementwise(true, "x[i] == 0.0f ? 1.06f : of(x[i])"),
        // Far less than an element, and more than noise.
        elementwise(true, "x[i] == 0.0f ? 1.06f : of(x[i]) * 1.001f"),
        // The shadow is the same: it has another size of a float.
        elementwise(false, "x[i]"),
        elementwise(false, "sizeof(x[i]) + 1 == 5 && x[i] == 0.0f ? 1.06f : x[i]"),
    ];
    let env = project(&versions, &x);
    let said = |base: &str, got: &str| {
        let run = env.replay(&["diff", "fixtures/many", base, got]).without_compilers_words();
        outputs(&run).lines().next().unwrap_or_default().to_owned()
    };
    let wrong = "  y  diverged: wrong: no rounding of f32 explains the distance";
    assert_eq!(said("main~4", "main~3"), wrong);
    assert_eq!(said("main~3", "main~2"), "  y  diverged");
    assert_eq!(said("main~1", "main"), wrong);
}

#[test]
fn small_elements_that_are_lost_are_wrong_beside_large_ones() {
    // Squares of a second moment, as an optimiser keeps them: a third is far smaller than the rest.
    let x: Vec<f32> =
        (0..300).map(|at| drawn(at) * if at % 3 == 0 { 3e-7 } else { 0.01 }).collect();
    for without_shadow in [false, true] {
        let square = if without_shadow { "of(x[i]) * of(x[i])" } else { "x[i] * x[i]" };
        let lost = format!("i % 3 == 0 ? 0.0f : {square}");
        let versions = [elementwise(without_shadow, square), elementwise(without_shadow, &lost)];
        let env = project(&versions, &x);
        let run = diff(&env);
        let wrong =
            if without_shadow { "wrong: no rounding of f32" } else { "wrong, not imprecise" };
        assert!(run.stdout.contains(wrong), "{}", run.text());
        assert!(run.stdout.contains(" 100 elements beyond noise"), "{}", run.text());
        // The same in another order is none.
        let added = format!("({square}) + 0.0f * x[0]");
        env.repo.commit_file("k.cu", &elementwise(without_shadow, square), "Again");
        env.repo.commit_file("k.cu", &elementwise(without_shadow, &added), "Add nothing");
        assert_eq!(diff(&env).code, Some(0), "{}", diff(&env).text());
    }
}

#[test]
fn a_loss_of_accuracy_is_imprecise_and_the_reverse_more_accurate() {
    // Values without a short form in binary, so that each is rounded.
    let x: Vec<f32> = (0..256).map(|at| 1.0 + drawn(at).abs()).collect();
    let half = "__half2float(__float2half(x[i]))";
    let header = |text: String| format!("#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n{text}");
    // A part of the sum alone is rounded: 2^-15 is not reached.
    let shares = ["4.0f + x[i] / 3.0f".to_owned(), format!("4.0f + {half} / 3.0f")];
    let [precise, coarse] = shares.map(|value| header(elementwise(false, &value)));
    let env = project(&[precise, coarse], &x);
    let said = |base: &str, got: &str| {
        let run = env.replay(&["diff", "fixtures/many", base, got]);
        outputs(&run).lines().next().unwrap_or_default().to_owned()
    };
    let lost = said("main~1", "main");
    assert_eq!(lost, "  y  diverged: imprecise, not wrong: the float64 shadow is the same");
    let gained = said("main", "main~1");
    assert!(gained.starts_with("  y  equivalent: more accurate: "), "{gained}");
    let json = env.replay(&["diff", "fixtures/many", "main~1", "main", "--format", "json"]).stdout;
    assert!(json.contains("\"finding\": \"imprecise\""), "{json}");
}

#[test]
fn a_last_place_is_no_loss_of_accuracy() {
    let x: Vec<f32> = (0..256).map(drawn).collect();
    let env = project(
        &[elementwise(false, "x[i]"), elementwise(false, "x[i] * 3.0f / 3.0f * 1.1f / 1.1f")],
        &x,
    );
    let run = diff(&env);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(outputs(&run).starts_with("  y  equivalent: within noise"), "{}", run.text());
}

#[test]
fn rounding_to_bfloat16_is_imprecise_without_a_shadow() {
    let x: Vec<f32> = (0..256).map(drawn).collect();
    let narrow = "__bfloat162float(__float2bfloat16(of(x[i]) * 1.1f))";
    let [precise, coarse] = ["of(x[i]) * 1.1f", narrow]
        .map(|value| format!("#include <cuda_bf16.h>\n{}", elementwise(true, value)));
    let env = project(&[precise, coarse], &x);
    let said = |base: &str, got: &str| {
        let run = env.replay(&["diff", "fixtures/many", base, got]);
        outputs(&run).lines().next().unwrap_or_default().to_owned()
    };
    let lost = said("main~1", "main");
    assert!(lost.starts_with("  y  diverged: imprecise: roundings move it "), "{lost}");
    let gained = said("main", "main~1");
    assert!(gained.starts_with("  y  unchecked: more accurate: "), "{gained}");
}

#[test]
fn what_lies_within_noise_without_a_shadow_is_unchecked_in_every_format() {
    let x: Vec<f32> = (0..256).map(drawn).collect();
    let values = ["of(x[i]) / 7.0f", "of(x[i]) * (1.0f / 7.0f)"];
    let env = project(&values.map(|value| elementwise(true, value)), &x);
    let run = diff(&env);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(outputs(&run).starts_with("  y  unchecked: within noise"), "{}", run.text());
    let last_line = "unchecked: y within noise, and no float64 shadow shows its mathematics";
    assert_eq!(run.last_line(), last_line);
    let written = |format| {
        env.replay(&["diff", "fixtures/many", "main~1", "main", "--format", format]).stdout
    };
    let document: serde_json::Value = serde_json::from_str(&written("json")).expect("a document");
    let told = &document["diffs"][0];
    assert_eq!(
        (&told["verdict"], &told["outputs"][0]["verdict"]),
        (&"unchecked".into(), &"unchecked".into())
    );
    let markdown = written("markdown");
    assert!(markdown.contains("## replay: 1 unchecked\n"), "{markdown}");
    let page = written("html");
    assert!(page.contains("<title>replay diff: unchecked: "), "{page}");
}

#[test]
fn a_shadow_that_is_not_finite_makes_no_benign_change_wrong() {
    let x: Vec<f32> = (0..64).map(|at| 1.0 + drawn(at).abs()).collect();
    // The branch of doubles stores NaN, on both sides, and elsewhere on the second.
    let value = |own: &str, place: usize| {
        format!("sizeof(x[i]) + 1 == 9 && i == {place} ? (x[i] - x[i]) / (x[i] - x[i]) : {own}")
    };
    let versions = [value("x[i] / 7.0f", 3), value("x[i] * (1.0f / 7.0f)", 5)];
    let env = project(&versions.map(|value| elementwise(false, &value)), &x);
    let run = diff(&env);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(outputs(&run).starts_with("  y  unchecked: within noise"), "{}", run.text());
    let place = "it has no float64 shadow: y is NaN at [3] in it, and ";
    assert!(run.stdout.contains(place), "{}", run.text());
}

#[test]
fn shadows_that_no_rounding_brings_near_both_outputs_are_none() {
    let x: Vec<f32> = (0..64).map(|at| 1.0 + drawn(at).abs()).collect();
    let value =
        |own: &str, factor: &str| format!("sizeof(x[i]) + 1 == 9 ? {factor} * x[i] : {own}");
    let versions = [value("x[i] / 7.0f", "-1.0f"), value("x[i] * (1.0f / 7.0f)", "-2.0f")];
    let env = project(&versions.map(|value| elementwise(false, &value)), &x);
    let run = diff(&env);
    assert_eq!(run.code, Some(0), "{}", run.text());
    let place = "it has no float64 shadow: no rounding explains how far it lies off: y is ";
    assert!(run.stdout.contains(place), "{}", run.text());
}

#[test]
fn a_constant_that_rounding_explains_is_a_note_and_a_larger_factor_is_wrong() {
    let x: Vec<f32> = (0..256).map(|at| 10.0 * drawn(at)).collect();
    // The same base of the power, larger by a share of itself, in digits that stand for nothing else.
    let power = |share: f64| {
        let exponent = 1.1 * std::f64::consts::LOG2_E * (1.0 + share);
        format!("exp2f(x[i] * (float){exponent:.15})")
    };
    let notes = [2e-8, 3.5e-8, 5.8e-8, -5.8e-8].map(power);
    let wrongs = [
        power(1.3e-7),
        power(-1.3e-7),
        "expf(x[i] * 1.1f) * 1.00001f".to_owned(),
        "expf(x[i] * 1.1f * 1.00001f)".to_owned(),
        "expf(x[i] * 1.1f + 1e-5f)".to_owned(),
    ];
    let first = ["expf(x[i] * 1.1f)".to_owned()];
    let values = first.iter().chain(&notes).chain(&wrongs);
    let versions: Vec<String> = values.map(|value| elementwise(false, value)).collect();
    let env = project(&versions, &x);
    let count = versions.len() - 1;
    let said = |version: usize| {
        let revisions = [format!("main~{count}"), format!("main~{}", count - version)];
        env.replay(&["diff", "fixtures/many", &revisions[0], &revisions[1]])
    };
    for version in 1..=notes.len() {
        let run = said(version);
        assert_eq!(run.code, Some(0), "{}", run.text());
        assert!(outputs(&run).starts_with("  y  equivalent: within noise"), "{}", run.text());
        assert!(run.stdout.contains("the float64 shadow changed by rel. "), "{}", run.text());
    }
    for version in notes.len() + 1..=count {
        let run = said(version);
        assert!(run.last_line().starts_with("diverged: y (wrong"), "{}", run.text());
    }
}

#[test]
fn outputs_with_the_same_bits_are_replayed_in_other_orders_and_not_measured() {
    let kernel = |body: &str| {
        let head = "__global__ void f(const float* x, float* y) {\n    int i = threadIdx.x;\n";
        format!("{head}    {body}\n}}\n")
    };
    let env = TestEnv::with_own_replays()
        .with_kernel(&kernel("y[i] = 2.0f * x[i];"), "f<<<1, 4>>>(x, y);");
    env.repo.commit_file("k.cu", &kernel("y[i] = x[i] + x[i];"), "Add it twice");
    let by_order = "y[i] = 2.0f * x[i]; y[0] = 2.0f * x[3 - i];";
    env.repo.commit_file("k.cu", &kernel(by_order), "Write one place by all");
    let diff = |from: &str, to: &str| {
        let run = env.replay(&["diff", "fixtures/tiny", from, to, "-v", "--check", "off"]);
        let spans = ["orders tiny", "noise tiny", "shadow tiny"];
        let log = run.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        (run.code, outputs(&run).to_owned(), spans.map(|span| log.contains(span)))
    };
    let (code, said, spans) = diff("HEAD~2", "HEAD~1");
    assert_eq!((code, spans), (Some(0), [true, false, false]), "{said}");
    insta::assert_snapshot!(said, @"
      y  identical

    identical: y
    ");
    let (code, said, spans) = diff("HEAD~1", "HEAD");
    assert_eq!((code, spans), (Some(1), [true; 3]), "{said}");
    insta::assert_snapshot!(said, @"
      y  diverged: in the order of the indices it agrees, in others it does not
         0 % of bits differ, rel. 0, 0 elements beyond noise
         depends on the order of blocks and threads: a race or a missing barrier
         1 of 4 elements, at n 0; [0]: 2 -> 4 in another order, rounding moves it by 4.8e-7

    diverged: y depends on the order of blocks and threads
    ");
}

/// `HEAD~2` writes all elements, `HEAD~1` leaves the first unwritten, and `HEAD` multiplies by `factor` there.
fn written_in_part(factor: &str, last_is_whole: bool) -> TestEnv {
    let kernel = |least: usize, factor: &str| {
        let place = format!("if (threadIdx.x >= {least}) y[threadIdx.x]");
        format!(
            "__global__ void f(const float* x, float* y) {{\n    {place} = {factor} * x[threadIdx.x];\n}}\n"
        )
    };
    let env = TestEnv::new().with_kernel(&kernel(0, "2.0f"), "f<<<1, 4>>>(x, y);");
    env.repo.commit_file("k.cu", &kernel(1, "2.0f"), "Leave the first out");
    let least = if last_is_whole { 0 } else { 1 };
    env.repo.commit_file("k.cu", &kernel(least, factor), "Take another factor");
    env
}

#[test]
fn what_was_written_is_judged_without_what_was_not() {
    let env = written_in_part("3.0f", false);
    let run = env.replay(&["diff", "fixtures/tiny", "HEAD~2", "HEAD~1"]);
    insta::assert_snapshot!(outputs(&run), @"
      y  identical where written

    failed: unwritten: 1 of 4 elements of y, first at [0]
    ");
    let diff = |format| {
        env.replay(&["diff", "fixtures/tiny", "HEAD~2", "HEAD~1", "--format", format]).stdout
    };
    let document: serde_json::Value = serde_json::from_str(&diff("json")).expect("a document");
    let output = &document["diffs"][0]["outputs"][0];
    assert_eq!((&output["verdict"], &output["unwritten"]), (&"identical".into(), &1.into()));
    for format in ["markdown", "html"] {
        let told = diff(format);
        assert!(told.contains("identical where written"), "{told}");
    }
    let run = env.replay(&["diff", "fixtures/tiny", "HEAD~2", "HEAD"]);
    insta::assert_snapshot!(outputs(&run), @"
      y  diverged: wrong, not imprecise: the float64 shadow changed too (rel. 0.5)
         75 % of bits differ, rel. 0.5, 3 elements beyond noise
         worst at [1]: 4 -> 6, 2097152 x noise, 4194304 ulp
         error against the trusted shadow: 0 -> 0.5
         at n 1..3

    failed: unwritten: 1 of 4 elements of y, first at [0]
    ");
    let run = env.replay(&["diff", "fixtures/tiny", "HEAD~1", "HEAD"]);
    insta::assert_snapshot!(outputs(&run), @"
      y  diverged: wrong, not imprecise: the float64 shadow changed too (rel. 0.5)
         75 % of bits differ, rel. 0.5, 3 elements beyond noise
         worst at [1]: 4 -> 6, 2097152 x noise, 4194304 ulp
         error against the trusted shadow: 0 -> 0.5
         at n 1..3

    the trusted side failed too: unwritten: 1 of 4 elements of y, first at [0]

    failed: unwritten: 1 of 4 elements of y, first at [0]
    ");
}

#[test]
fn a_search_for_values_judges_what_an_incomplete_commit_has_written() {
    for (factor, last_is_whole, subject) in
        [("3.0f", true, "Take another factor"), ("3.0f", false, "Leave the first out")]
    {
        let env = written_in_part(factor, last_is_whole);
        let run = env.replay(&["bisect", "fixtures/tiny", "--good", "HEAD~2", "--bad", "HEAD"]);
        let culprit = format!("is the first bad commit: {subject}");
        assert!(run.stdout.contains(&culprit), "{}", run.text());
    }
}

#[test]
fn the_statistics_of_an_output_are_those_of_its_written_elements() {
    let kernel = "__global__ void f(const float* x, double* y) {\n    if (threadIdx.x > 1) y[threadIdx.x] = 3.0;\n}\n";
    let env = TestEnv::new().with_kernel(kernel, "");
    let text = harness("f<<<1, 4>>>(x, y);", &[("x", "[\"n\"]")], ("f64", "[\"n\"]"));
    env.repo.commit_file("replay.toml", &text, "Give doubles");
    let run = env.replay(&["fixtures/tiny"]);
    let statistics = "norm 4.24264  min 3  max 3  mean 3  zeros 0  NaN 0  Inf 0  unwritten 2";
    assert!(run.stdout.contains(statistics), "{}", run.text());
}
