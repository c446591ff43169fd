//! Outputs that depend on the order of blocks and threads: found without anything to compare with.

use serde_json::Value;

use crate::common::env::TestEnv;
use crate::common::schema;

/// Nothing keeps the threads from adding before the first has set the sum to zero.
const RACE: &str = "\
__global__ void share(const float* x, float* y, int n)
{
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0.0f;
    if (threadIdx.x < n) atomicAdd(&sum, x[threadIdx.x]);
    __syncthreads();
    if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] / sum;
}
";
const CALL: &str = "share<<<1, 32>>>(x, y, n);";

fn repaired() -> String {
    RACE.replace("sum = 0.0f;", "sum = 0.0f;\n    __syncthreads();")
}

#[test]
fn a_missing_barrier_is_found_at_one_revision_alone() {
    let env = TestEnv::new().with_kernel(RACE, CALL);
    let run = env.replay(&["fixtures/tiny", "--check", "off"]);
    assert_eq!(run.code, Some(1), "{}", run.text());
    let (_, found) = run.stdout.split_once("orders\n").expect("a finding");
    insta::assert_snapshot!(found, @"
      y  depends on the order of blocks and threads: a race or a missing barrier
         4 of 4 elements, everywhere; [2]: 0.300000012 -> 3 in another order, rounding moves it by 2.4e-7

    diverged: y depends on the order of blocks and threads
    ");

    let json = env.replay(&["fixtures/tiny", "--check", "off", "--format", "json"]).stdout;
    let document: Value = serde_json::from_str(&json).expect("a document");
    assert_eq!(schema::problems(&document), [""; 0]);
    assert_eq!(document["replays"][0]["verdict"], "diverged");
    assert_eq!(document["replays"][0]["orders"][0]["output"], "y");
    let junit = env.replay(&["fixtures/tiny", "--check", "off", "--format", "junit"]).stdout;
    assert!(junit.contains("<failure message=\"y depends on the order of"), "{junit}");
}

#[test]
fn the_commit_that_lost_the_barrier_diverges_and_the_one_that_puts_it_back_does_not() {
    let env = TestEnv::new().with_kernel(&repaired(), CALL);
    env.repo.commit_file("k.cu", RACE, "Lose the barrier");
    let lost = env.replay(&["diff", "fixtures/tiny", "HEAD~1", "HEAD", "--check", "off"]);
    assert_eq!(lost.code, Some(1), "{}", lost.text());
    insta::assert_snapshot!(lost.stdout.split_once("outputs\n").unwrap().1, @"
      y  diverged: in the order of the indices it agrees, in others it does not
         0 % of bits differ, rel. 0, 0 elements beyond noise
         depends on the order of blocks and threads: a race or a missing barrier
         4 of 4 elements, everywhere; [2]: 0.300000012 -> 3 in another order, rounding moves it by 2.4e-7

    diverged: y depends on the order of blocks and threads
    ");
    let back = env.replay(&["diff", "fixtures/tiny", "HEAD", "HEAD~1", "--check", "off"]);
    assert_eq!((back.code, back.last_line()), (Some(0), "identical: y"), "{}", back.text());
    // What both sides depend on is no change.
    env.repo.commit_file("k.cu", &format!("// A sum.\n{RACE}"), "Comment on it");
    let same = env.replay(&["diff", "fixtures/tiny", "HEAD~1", "HEAD", "--check", "off"]);
    assert_eq!(same.code, Some(0), "{}", same.text());
    assert!(same.stdout.contains("depends on the order"), "{}", same.text());
}

/// In the order of the indices no addition rounds, in any direction. In another one the last term
/// is lost to a size at which float32 rounds to multiples of 8.
const CANCELS: &str = "\
__global__ void clear(const float* x, float* y, int n)
{
    if (blockIdx.x == 0 && threadIdx.x < n) y[threadIdx.x] = 0.0f;
}

__global__ void add_up(const float* x, float* y, int n)
{
    float part = blockIdx.x == 0 ? 1e8f : blockIdx.x == 1 ? -1e8f : x[0];
    atomicAdd(&y[0], part);
}
";

#[test]
fn a_sum_that_cancels_in_one_order_and_rounds_in_another_is_not_accused() {
    let call = "clear<<<1, 32>>>(x, y, n); add_up<<<3, 1>>>(x, y, n);";
    let env = TestEnv::new().with_kernel(CANCELS, call);
    let run = env.replay(&["fixtures/tiny"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
}

#[test]
fn integers_that_threads_collect_in_any_order_are_not_accused() {
    let kernel = "\
__device__ int taken;
__global__ void collect(const float* x, int* y, int n)
{
    if (threadIdx.x < n) y[atomicAdd(&taken, 1)] = (int)threadIdx.x;
}
";
    let env = TestEnv::new().with_kernel(kernel, "collect<<<1, 32>>>(x, y, n);");
    let harness = std::fs::read_to_string(env.path("replay.toml")).expect("the harness");
    let (inputs, outputs) = harness.split_once("[outputs.y]").expect("an output");
    let outputs = outputs.replace("f32", "i32");
    env.repo.write("replay.toml", format!("{inputs}[outputs.y]{outputs}"));
    let run = env.replay(&["fixtures/tiny"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
}

/// All blocks but the first ask for its flag.
const FLAG: &str = "\
__device__ int is_set;
__global__ void twice(const float* x, float* y, int n)
{
    if (blockIdx.x == 0) atomicExch(&is_set, 1);
    ASK
    if (threadIdx.x < n) y[threadIdx.x] = 2 * x[threadIdx.x];
}
";

#[test]
fn a_call_that_fails_in_another_order_alone_is_told() {
    let kernel = FLAG.replace("ASK", "else if (atomicAdd(&is_set, 0) == 0) __trap();");
    let env = TestEnv::new().with_kernel(&kernel, "twice<<<2, 32>>>(x, y, n);");
    let run = env.replay(&["fixtures/tiny", "--check", "off"]);
    assert_eq!(run.code, Some(1), "{}", run.text());
    let (_, found) = run.stdout.split_once("orders\n").expect("a finding");
    insta::assert_snapshot!(found, @"
      fails in another order of blocks and threads, by a race or a missing barrier: device code stopped itself in twice, block (1, 0, 0), thread (31, 0, 0): __trap() was called at k.cu:5

    diverged: fails in another order of blocks and threads, by a race or a missing barrier: device code stopped itself in twice, block (1, 0, 0), thread (31, 0, 0): __trap() was called at k.cu:5
    ");
    let json = env.replay(&["fixtures/tiny", "--check", "off", "--format", "json"]).stdout;
    let document: Value = serde_json::from_str(&json).expect("a document");
    assert_eq!(schema::problems(&document), [""; 0]);
    assert_eq!(document["replays"][0]["order_failure"]["kind"], "fault");
}

#[test]
fn a_call_without_an_end_in_another_order_is_not_accused_and_said_to_be_unchecked() {
    let kernel = FLAG.replace("ASK", "else while (atomicAdd(&is_set, 0) == 0) {}");
    let env = TestEnv::new().with_kernel(&kernel, "twice<<<2, 32>>>(x, y, n);");
    let run = env.replay(&["fixtures/tiny", "--check", "off", "--timeout", "3"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    let (_, found) = run.stdout.split_once("orders\n").expect("a line");
    insta::assert_snapshot!(found, @"
      not compared in other orders of blocks and threads: timeout: still running in twice after 3 s

    completed: every output is written and finite
    ");
    let junit = ["fixtures/tiny", "--check", "off", "--timeout", "3", "--format", "junit"];
    let junit = env.replay(&junit).stdout;
    assert!(junit.contains("not compared in other orders"), "{junit}");
}
