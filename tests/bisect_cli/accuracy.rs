//! A bfloat16 accumulation of the gradient of an unembedding, and the commit that repairs it: every command says
//! that it is more accurate, and a search names it in either direction.

use replay::fixture::NewTensor;
use replay::tensor::DType;
use serde_json::Value;

use crate::bisect_cli::without_diff;
use crate::common::env::TestEnv;

const ROWS: usize = 192;
const VOCABULARY: usize = 24;
const WIDTH: usize = 8;

/// A loss over rows of labels, and the gradient of the unembedding, which a label's rows add up to in `sum`.
fn kernel(sum: &str, note: &str) -> String {
    format!(
        "#include <cuda_bf16.h>\n\
         __global__ void loss_of(const float* hidden, const float* unembedding, const int* labels, float* loss,\n\
                                 int rows, int width) {{\n\
           float sum = 0.0f;\n\
           for (int row = 0; row < rows; row++)\n\
             for (int i = 0; i < width; i++)\n\
               sum -= hidden[row * width + i] * unembedding[labels[row] * width + i];\n\
           *loss = sum / rows;\n\
         }}\n\
         __global__ void gradient_of(const float* hidden, const int* labels, float* dunembedding, int rows,\n\
                                     int width) {{\n\
           {sum} sum = 0.0f;\n\
           for (int row = 0; row < rows; row++)\n\
             if (labels[row] == blockIdx.x)\n\
               sum = ({sum})((float)sum - hidden[row * width + threadIdx.x]);\n\
           dunembedding[blockIdx.x * width + threadIdx.x] = (float)sum / rows;\n\
         }}\n\
         float run(const float* hidden, const float* unembedding, const int* labels, float* dunembedding, int rows,\n\
                   int vocabulary, int width) {{\n\
           float *device, loss;\n\
           cudaMalloc(&device, sizeof(float));\n\
           loss_of<<<1, 1>>>(hidden, unembedding, labels, device, rows, width);\n\
           gradient_of<<<vocabulary, width>>>(hidden, labels, dunembedding, rows, width);\n\
           cudaMemcpy(&loss, device, sizeof(float), cudaMemcpyDeviceToHost);\n\
           cudaFree(device);\n\
           return loss;\n\
         }}\n\
         // {note}\n"
    )
}

const HARNESS: &str = "\
sources = [\"k.cu\"]
call = \"loss = run(hidden, unembedding, labels, dunembedding, rows, vocabulary, width);\"
[inputs.hidden]
dtype = \"f32\"
shape = [\"rows\", \"width\"]
[inputs.unembedding]
dtype = \"f32\"
shape = [\"vocabulary\", \"width\"]
[inputs.labels]
dtype = \"i32\"
shape = [\"rows\"]
[outputs.loss]
dtype = \"f32\"
shape = []
[outputs.dunembedding]
dtype = \"f32\"
shape = [\"vocabulary\", \"width\"]
gradient_of = \"unembedding\"
";

/// Numbers between 0 and 1, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Two commits that add up in bfloat16, the commit that repairs it, and one behind it; ids by number.
fn history() -> (TestEnv, Vec<String>) {
    let env = TestEnv::new();
    env.repo.write("replay.toml", HARNESS);
    env.repo.write(".gitignore", "fixtures\n");
    let mut numbers = Numbers(7);
    let mut floats = |count: usize| -> Vec<u8> {
        (0..count).flat_map(|_| (numbers.next() as f32 + 0.25).to_le_bytes()).collect()
    };
    let hidden = floats(ROWS * WIDTH);
    let unembedding = floats(VOCABULARY * WIDTH);
    // Zipf's law: the label of rank r comes 1 / r as often as the first.
    let weights: Vec<f64> = (1..=VOCABULARY).map(|rank| 1.0 / rank as f64).collect();
    let all: f64 = weights.iter().sum();
    let label = |at: f64| {
        let mut left = at * all;
        let rank = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        rank.unwrap_or(VOCABULARY - 1) as i32
    };
    let labels: Vec<u8> = (0..ROWS).flat_map(|_| label(numbers.next()).to_le_bytes()).collect();
    let tensors: [NewTensor<'_>; 3] = [
        ("hidden", DType::F32, &[ROWS, WIDTH], &hidden),
        ("unembedding", DType::F32, &[VOCABULARY, WIDTH], &unembedding),
        ("labels", DType::I32, &[ROWS], &labels),
    ];
    env.write_fixture("step", &tensors);
    let versions = [("__nv_bfloat16", "0"), ("__nv_bfloat16", "1"), ("float", "2"), ("float", "3")];
    let ids = versions
        .map(|(sum, note)| env.repo.commit_file("k.cu", &kernel(sum, note), &format!("c{note}")));
    (env, ids.to_vec())
}

fn run(env: &TestEnv, ids: &[String], words: &[&str]) -> String {
    without_diff(&env.replay(words).stdout, ids)
}

#[test]
fn a_diff_over_the_repair_says_more_accurate_and_the_other_way_round_imprecise() {
    let (env, ids) = history();
    let old = ids[1].as_str();
    let fix = ids[2].as_str();
    insta::assert_snapshot!(run(&env, &ids, &["diff", "fixtures/step", old, fix]), @"
    step at [C1] c1
    step at [C2] c2

    outputs
      loss          identical
      dunembedding  equivalent: more accurate: within noise, at most 0.67 x
                    95.8 % of bits differ, rel. 0.0057, 0 elements beyond noise
                    worst at [18, 2]: -0.00960286427 -> -0.00963024888, 0.67 x noise, 29404 ulp
                    error against the trusted shadow: 0.0057 -> 7.3e-8
                    44 elements jump in one or two replays, over 1024 x as far as in the others

    equivalent: dunembedding (more accurate)
    ");
    insta::assert_snapshot!(run(&env, &ids, &["diff", "fixtures/step", fix, old]), @"
    step at [C2] c2
    step at [C1] c1

    outputs
      loss          identical
      dunembedding  diverged: imprecise, not wrong: the float64 shadow is the same
                    95.8 % of bits differ, rel. 0.0057, 0 elements beyond noise
                    worst at [18, 2]: -0.00963024888 -> -0.00960286427, 0.67 x noise, 29404 ulp
                    error against the trusted shadow: 7.3e-8 -> 0.0057
                    at 184 of 192 elements, in 23 of 24 rows, first at vocabulary 0, width 0
                    44 elements jump in one or two replays, over 1024 x as far as in the others
                    |########|
                    |########|
                    |########|
                    |########|
                    |########|
                    |########|
                    |########|
                    |++++++++|
                    rows: vocabulary; columns: width; differing: blank none, . a quarter, : half, + more, # all

    diverged: dunembedding (imprecise)
    ");
    let finding = |base: &str, got: &str| {
        let json = env.replay(&["diff", "fixtures/step", base, got, "--format", "json"]).stdout;
        let document: Value = serde_json::from_str(&json).expect("a document");
        let output = &document["diffs"][0]["outputs"][1];
        [output["name"].clone(), output["verdict"].clone(), output["finding"].clone()]
            .map(|value| value.to_string())
            .join(" ")
    };
    insta::assert_snapshot!(finding(old, fix), @r#""dunembedding" "equivalent" "more-accurate""#);
    insta::assert_snapshot!(finding(fix, old), @r#""dunembedding" "diverged" "imprecise""#);
}

#[test]
fn markdown_and_the_log_say_more_accurate_of_the_repair() {
    let (env, ids) = history();
    let words = ["fixtures/step", "--rev", &ids[2], "--against", &ids[1], "--format", "markdown"];
    insta::assert_snapshot!(run(&env, &ids, &words), @"
    <!-- replay -->
    ## replay: 1 equivalent

    | fixture | output | verdict | checksum | distance | beyond noise | worst element |
    | --- | --- | --- | --- | --- | --- | --- |
    | step | dunembedding | equivalent | 136084e6 → 73ef8502 | rel. 0.0057 | 0 of 192 | &#91;18, 2&#93;: -0.00960286427 → -0.00963024888 |

    **equivalent** step at [C2] against [C1] on cpu
    - equivalent: dunembedding (more accurate)

    [RUN]
    ");
    let range = format!("{}..{}", ids[0], ids[3]);
    insta::assert_snapshot!(run(&env, &ids, &["log", "fixtures/step", &range]), @"
    [C2] c2
      equivalent: dunembedding (more accurate)
      dunembedding: 95.8 % of bits differ, rel. 0.0057, 0 elements beyond noise
      against [C1]

    changed sources and no output:
      [C1] c1
      [C3] c3

    races were not looked for: `--check auto` looks for them
    1 change at 1 commit of 3 commits, 4 variants replayed
    ");
}

#[test]
fn the_repair_is_found_in_either_direction_and_without_a_claim() {
    let (env, ids) = history();
    let old = ids[0].as_str();
    let fix = ids[3].as_str();
    let search = |words: &[&str]| {
        run(&env, &ids, &[&["bisect", "fixtures/step", "--jobs", "1"], words].concat())
    };
    insta::assert_snapshot!(search(&["--good", fix, "--bad", old]), @"
    [C2] repairs dunembedding: c2
      dunembedding matches its loss on both sides
      before it, compared with the good end:
      dunembedding diverged: imprecise, not wrong: the float64 shadow is the same
                   95.8 % of bits differ, rel. 0.0057, 0 elements beyond noise
                   worst at [18, 2]: -0.00963024888 -> -0.00960286427, 0.67 x noise, 29404 ulp
                   error against the trusted shadow: 7.3e-8 -> 0.0057
                   at 184 of 192 elements, in 23 of 24 rows, first at vocabulary 0, width 0
                   44 elements jump in one or two replays, over 1024 x as far as in the others
      [C1], its parent, was tested: diverged: dunembedding (imprecise)
    ");
    let claimed = search(&["--good", fix, "--bad", old]);
    for words in [["--old", old, "--new", fix], ["--old", fix, "--new", old]] {
        assert_eq!(search(&words), claimed, "{words:?}");
    }
    insta::assert_snapshot!(search(&["--good", fix, "--bad", old, "--format", "markdown"]), @"
    <!-- replay bisect -->
    ## replay bisect: [C2] repairs dunembedding: c2

    | fixture | output | verdict | checksum | distance | beyond noise | worst element |
    | --- | --- | --- | --- | --- | --- | --- |
    | step | dunembedding | diverged | 73ef8502 → 136084e6 | rel. 0.0057 | 0 of 192 | &#91;18, 2&#93;: -0.00963024888 → -0.00960286427 |

    - dunembedding matches its loss on both sides
    - before it, compared with the good end:
    - step: dunembedding is imprecise, 184 of 192 elements, in 23 of 24 rows, first at vocabulary 0, width 0
    - [C1], its parent, was tested: diverged: dunembedding (imprecise)

    <details><summary>what [C2] changed</summary>

    ```diff
    diff --git a/k.cu b/k.cu
    index 5e9b2c9..2470183 100644
    --- a/k.cu
    +++ b/k.cu
    @@ -9,10 +9,10 @@ sum -= hidden[row * width + i] * unembedding[labels[row] * width + i];
     }
     __global__ void gradient_of(const float* hidden, const int* labels, float* dunembedding, int rows,
     int width) {
    -__nv_bfloat16 sum = 0.0f;
    +float sum = 0.0f;
     for (int row = 0; row < rows; row++)
     if (labels[row] == blockIdx.x)
    -sum = (__nv_bfloat16)((float)sum - hidden[row * width + threadIdx.x]);
    +sum = (float)((float)sum - hidden[row * width + threadIdx.x]);
     dunembedding[blockIdx.x * width + threadIdx.x] = (float)sum / rows;
     }
     float run(const float* hidden, const float* unembedding, const int* labels, float* dunembedding, int rows,
    @@ -25,4 +25,4 @@ cudaMemcpy(&loss, device, sizeof(float), cudaMemcpyDeviceToHost);
     cudaFree(device);
     return loss;
     }
    -// 1
    +// 2
    ```

    </details>

    step, good [C3], bad [C0]

    [RUN]
    ");
    let json = env
        .replay(&["bisect", "fixtures/step", "--good", fix, "--bad", old, "--format", "json"])
        .stdout;
    let last: Value = serde_json::from_str(json.lines().last().unwrap_or_default()).expect("JSON");
    assert_eq!(last["direction"], "repairs");
    assert_eq!(last["culprit"]["commit"]["id"], ids[2].as_str());
    assert_eq!(last["wanted"][0]["output"], "dunembedding");
}

#[test]
fn the_commit_that_lost_the_accuracy_is_found_as_the_first_bad_one() {
    let (env, mut ids) = history();
    ids.push(env.repo.commit_file("k.cu", &kernel("__nv_bfloat16", "4"), "c4"));
    let words = ["bisect", "fixtures/step", "--good", &ids[2], "--bad", &ids[4], "--jobs", "1"];
    insta::assert_snapshot!(run(&env, &ids, &words), @"
    [C4] is the first bad commit: c4
      dunembedding matches its loss on both sides
      dunembedding diverged: imprecise, not wrong: the float64 shadow is the same
                   95.8 % of bits differ, rel. 0.0057, 0 elements beyond noise
                   worst at [18, 2]: -0.00963024888 -> -0.00960286427, 0.67 x noise, 29404 ulp
                   error against the trusted shadow: 7.3e-8 -> 0.0057
                   at 184 of 192 elements, in 23 of 24 rows, first at vocabulary 0, width 0
                   44 elements jump in one or two replays, over 1024 x as far as in the others
      [C3], its parent, was tested: identical
    ");
}
