//! Defects that show in other orders of blocks and threads: every commit is replayed in those, also
//! where its bits in the order of the indices are those of the good end.

use serde_json::Value;

use crate::bisect_cli::{committed, masked, search};
use crate::common::env::TestEnv;

/// A value that the first thread shares; `after` says what keeps the others from reading too early.
fn share(scale: &str, after: &str, note: &str) -> String {
    format!(
        "\
__global__ void share(const float* x, float* y, int n)
{{
    __shared__ float scale;
    if (threadIdx.x == 0) scale = x[1];
    {after}
    if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] {scale};
}}
// {note}
"
    )
}

/// A sum over a block; without the barrier the first thread adds before the others have written.
fn tree(barrier: &str, note: &str) -> String {
    format!(
        "\
__global__ void share(const float* x, float* y, int n)
{{
    __shared__ float part[32];
    part[threadIdx.x] = threadIdx.x < n ? x[threadIdx.x] : 0.0f;
    __syncthreads();
    for (int step = 16; step > 0; step /= 2) {{
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        {barrier}
    }}
    if (threadIdx.x < n) y[threadIdx.x] = part[0];
}}
// {note}
"
    )
}

/// A sum over blocks, of which the last adds up what all have left: the last to come, by an atomic
/// counter, or the last by its index, which comes last in the order of the indices alone.
fn blocks(is_last: &str, note: &str) -> String {
    format!(
        "\
__device__ float part[4];
__device__ unsigned int done;
__global__ void share(const float* x, float* y, int n)
{{
    part[blockIdx.x] = x[blockIdx.x];
    __threadfence();
    unsigned int before = atomicAdd(&done, 1);
    if ({is_last}) {{
        float sum = 0.0f;
        for (int i = 0; i < n; i++) sum += part[i];
        for (int i = 0; i < n; i++) y[i] = sum;
    }}
}}
// {note}
"
    )
}

const BARRIER: &str = "__syncthreads();";

const ONE_BLOCK: &str = "share<<<1, 32>>>(x, y, n);";

/// c3 loses the barrier; in the order of the indices all have the same bits.
fn lost_barrier(env: TestEnv) -> (TestEnv, Vec<String>) {
    let after = [BARRIER, BARRIER, BARRIER, "", "", ""];
    let text = |(number, after): (usize, &&str)| share("/ scale", after, &format!("{number}"));
    committed(env, ONE_BLOCK, &after.iter().enumerate().map(text).collect::<Vec<_>>())
}

#[test]
fn a_lost_barrier_is_found_although_no_bit_changes_in_the_order_of_the_indices() {
    let (env, ids) = lost_barrier(TestEnv::with_own_replays());
    let run = search(&env, "--good main~5 --bad main --jobs 1");
    assert_eq!(run.code, Some(0), "{}", run.text());
    let (told, diff) = run.stdout.split_once("\n\n").expect("a diff");
    insta::assert_snapshot!(masked(told, &ids), @"
    [C3] is the first bad commit: c3
      y diverged: in the order of the indices it agrees, in others it does not
        0 % of bits differ, rel. 0, 0 elements beyond noise
        depends on the order of blocks and threads: a race or a missing barrier
        3 of 4 elements, at n 1..3; [1]: 1 -> NaN in another order, rounding moves it by 1.2e-7
      race on 4 bytes at byte 0 of shared memory scale: k.cu:4 writes in share, block (0, 0, 0), thread (0, 0, 0); k.cu:6 reads in share, block (0, 0, 0), thread (1, 0, 0) (3 times)
      [C2], its parent, was tested: identical
    ");
    assert!(diff.contains("-    __syncthreads();"), "{diff}");
    insta::assert_snapshot!(masked(&run.stderr, &ids), @"
    5 of 5 commits change a kernel, 1 tested at a time
    [C0] good: identical
    [C5] bad: y depends on the order of blocks and threads
    [C2] good: identical
    [C3] bad: y depends on the order of blocks and threads
    [C1] good: identical
    ");
    // A second search replays nothing.
    let made = |env: &TestEnv| (env.cached("outcomes").len(), env.cached("judgements").len());
    let before = made(&env);
    assert_eq!(search(&env, "--good main~5 --bad main --jobs 1").stdout, run.stdout);
    assert_eq!(made(&env), before);
    let parallel = search(&env, "--good main~5 --bad main --jobs 3");
    assert_eq!(parallel.stdout.lines().next(), run.stdout.lines().next());
}

#[test]
fn the_symptom_is_in_the_events() {
    let (env, ids) = lost_barrier(TestEnv::new());
    let run = search(&env, "--good main~5 --bad main --format json");
    let last: Value = serde_json::from_str(run.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["wanted"][0]["symptom"], "ordered");
    assert_eq!(last["wanted"][0]["output"], "y");
    assert_eq!(last["culprit"]["commit"]["id"], ids[3].as_str());
    assert_eq!(last["culprit"]["fixtures"][0]["outputs"][0]["order"]["output"], "y");
}

#[test]
fn the_log_says_of_an_output_that_changes_that_it_depends_on_the_order_now() {
    let (env, ids) = committed(TestEnv::new(), ONE_BLOCK, &[tree(BARRIER, "0"), tree("", "1")]);
    let run = env.replay(&["log", "fixtures/tiny", "main~1..main"]);
    insta::assert_snapshot!(masked(&run.stdout, &ids), @"
    [C1] c1
      diverged: y (the mathematics changed)
      depends on the order of blocks and threads now: y
      y: 100 % of bits differ, rel. 0.4, 4 elements beyond noise
      against [C0]

    1 change at 1 commit of 1 commit, 2 variants replayed
    ");
}

#[test]
fn a_lost_barrier_whose_bits_change_is_found_past_a_commit_that_rounds_otherwise() {
    let versions = [
        tree(BARRIER, "0"),
        tree(BARRIER, "1").replace("part[0];", "part[0] * (1.0f / 3.0f) * 3.0f;"),
        tree(BARRIER, "2"),
        tree("", "3"),
        tree("", "4"),
    ];
    let (env, ids) = committed(TestEnv::new(), ONE_BLOCK, &versions);
    let run = search(&env, "--good main~4 --bad main --jobs 1");
    assert_eq!(run.code, Some(0), "{}", run.text());
    let told = run.stdout.split_once("\n\n").expect("a diff").0;
    insta::assert_snapshot!(masked(told, &ids), @"
    [C3] is the first bad commit: c3
      y diverged: wrong, not imprecise: the float64 shadow changed too (rel. 0.4)
        100 % of bits differ, rel. 0.4, 4 elements beyond noise
        worst at [0]: 10 -> 6, 2796203 x noise, 4194304 ulp
        error against the trusted shadow: 0 -> 0.4
        everywhere
        depends on the order of blocks and threads: a race or a missing barrier
        4 of 4 elements, everywhere; [1]: 6 -> 1 in another order, rounding moves it by 4.8e-7
      race on 4 bytes at byte 4 of shared memory part: k.cu:7 reads in share, block (0, 0, 0), thread (0, 0, 0); k.cu:7 writes in share, block (0, 0, 0), thread (1, 0, 0) (15 times)
      race on 4 bytes at byte 0 of shared memory part: k.cu:7 writes in share, block (0, 0, 0), thread (0, 0, 0); k.cu:10 reads in share, block (0, 0, 0), thread (1, 0, 0) (3 times)
      [C2], its parent, was tested: identical
    ");
}

#[test]
fn the_bits_of_a_commit_that_was_compared_do_not_acquit_one_that_lost_a_barrier() {
    // From c1 on the values are rounded otherwise, from c4 on the barrier is gone.
    let inverse = "/ scale / 41.0f * 41.0f";
    let versions: Vec<String> = (0..7)
        .map(|number| {
            let scale = if number == 0 { "/ scale" } else { inverse };
            share(scale, if number < 4 { BARRIER } else { "" }, &number.to_string())
        })
        .collect();
    let (env, ids) = committed(TestEnv::new(), ONE_BLOCK, &versions);
    for jobs in ["1", "2"] {
        let run = search(&env, &format!("--good main~6 --bad main --jobs {jobs}"));
        assert_eq!(run.code, Some(0), "{}", run.text());
        assert!(run.stdout.starts_with(&ids[4][..7]), "{}", run.text());
        assert!(run.stdout.contains("its parent, was tested: equivalent"), "{}", run.text());
    }
}

#[test]
fn a_sum_over_blocks_that_no_longer_waits_for_all_of_them_is_found() {
    let waits = "before == gridDim.x - 1";
    let does_not = "blockIdx.x == gridDim.x - 1";
    let versions =
        [blocks(waits, "0"), blocks(waits, "1"), blocks(does_not, "2"), blocks(does_not, "3")];
    let (env, ids) = committed(TestEnv::new(), "share<<<4, 1>>>(x, y, n);", &versions);
    let run = search(&env, "--good main~3 --bad main --jobs 1");
    assert_eq!(run.code, Some(0), "{}", run.text());
    let told = run.stdout.split_once("\n\n").expect("a diff").0;
    insta::assert_snapshot!(masked(told, &ids), @"
    [C2] is the first bad commit: c2
      y diverged: in the order of the indices it agrees, in others it does not
        0 % of bits differ, rel. 0, 0 elements beyond noise
        depends on the order of blocks and threads: a race or a missing barrier
        4 of 4 elements, everywhere; [0]: 10 -> 5 in another order, rounding moves it by 9.5e-7
      [C1], its parent, was tested: identical
    ");
}

#[test]
fn a_plain_sum_that_was_atomic_is_seen_in_no_order_of_the_cpu_and_refused() {
    // Between two barriers a thread of the CPU runs alone, so that no sum is lost.
    let text = share("/ sum", BARRIER, "").replace("scale", "sum").replace("= x[1]", "= 0.0f");
    let add = |how: &str| {
        let added = format!("{BARRIER}\n    if (threadIdx.x < n) {how};\n    {BARRIER}");
        text.replacen(BARRIER, &added, 1)
    };
    let versions = [add("atomicAdd(&sum, x[threadIdx.x])"), add("sum += x[threadIdx.x]")];
    let (env, ids) = committed(TestEnv::new(), ONE_BLOCK, &versions);
    let run = search(&env, "--good main~1 --bad main");
    assert_eq!(run.code, Some(1), "{}", run.text());
    insta::assert_snapshot!(masked(&run.stdout, &ids), @"
    refused: [C1] was said to be bad: identical
    hint: a check of the bad end finds race on shared memory sum: --on race names the commit
    ");
}

#[test]
fn what_the_good_end_depends_on_too_is_not_searched_for() {
    let versions = ["0", "1", "2"].map(|note| share("/ scale", "", note));
    let (env, ids) = committed(TestEnv::new(), ONE_BLOCK, &versions);
    let run = search(&env, "--good main~2 --bad main");
    assert_eq!(run.code, Some(1), "{}", run.text());
    insta::assert_snapshot!(masked(&run.stdout, &ids), @"
    refused: [C2] was said to be bad: identical; y depends on the order of blocks and threads, as at the good end
    hint: the good end has the same race or lacks the same barrier: name a good end that does not
    ");
    let run = env.replay(&["blame", "fixtures/tiny", "main"]);
    assert_eq!(run.code, Some(1), "{}", run.text());
    insta::assert_snapshot!(masked(&run.stdout, &ids), @"
    refused: [C2] is no worse than its parent: identical; y depends on the order of blocks and threads, as at the parent [C1]
    hint: the parent has the same race or lacks the same barrier: an older commit brought it
    ");
}

#[test]
fn a_search_for_a_value_passes_over_an_order_that_was_put_right() {
    // c1 loses the barrier, c2 puts it back, c3 is wrong.
    let versions = [
        share("/ scale", BARRIER, "0"),
        share("/ scale", "", "1"),
        share("/ scale", BARRIER, "2"),
        share("* scale", BARRIER, "3"),
    ];
    let (env, ids) = committed(TestEnv::new(), ONE_BLOCK, &versions);
    for jobs in ["1", "4"] {
        let run = search(&env, &format!("--good main~3 --bad main --jobs {jobs}"));
        assert_eq!(run.code, Some(0), "{}", run.text());
        assert!(run.stdout.starts_with(&ids[3][..7]), "{}", run.text());
    }
}

#[test]
fn a_snapshot_is_left_by_the_commit_that_lost_the_barrier() {
    let (env, _) = committed(TestEnv::new(), ONE_BLOCK, &[share("/ scale", BARRIER, "0")]);
    let mut command = env.command(&["fixtures/tiny"]);
    let accepted = env.finish(command.env("REPLAY_UPDATE", "always"));
    assert_eq!(accepted.code, Some(0), "{}", accepted.text());
    let mut ids = vec![env.repo.commit("Accept a snapshot")];
    for (number, after) in [(1, BARRIER), (2, ""), (3, "")] {
        let text = share("/ scale", after, &number.to_string());
        ids.push(env.repo.commit_file("k.cu", &text, &format!("c{number}")));
    }
    let run = search(&env, "--good snapshot --bad main --jobs 1");
    assert_eq!(run.code, Some(0), "{}", run.text());
    let told = run.stdout.split_once("\n\n").expect("a diff").0;
    insta::assert_snapshot!(masked(told, &ids), @"
    [C2] is the first bad commit: c2
      y depends on the order of blocks and threads
      race on 4 bytes at byte 0 of shared memory scale: k.cu:4 writes in share, block (0, 0, 0), thread (0, 0, 0); k.cu:6 reads in share, block (0, 0, 0), thread (1, 0, 0) (3 times)
      [C1], its parent, was tested: identical
    ");
}

#[test]
fn the_log_shows_where_the_order_begins_to_matter_and_where_it_stops() {
    let after = [BARRIER, "", "", BARRIER];
    let text = |(number, after): (usize, &&str)| share("/ scale", after, &format!("{number}"));
    let (env, ids) = committed(
        TestEnv::new(),
        ONE_BLOCK,
        &after.iter().enumerate().map(text).collect::<Vec<_>>(),
    );
    let run = env.replay(&["log", "fixtures/tiny", "main~3..main"]);
    insta::assert_snapshot!(masked(&run.stdout, &ids), @"
    [C1] c1
      diverged: y depends on the order of blocks and threads
      y: 3 of 4 elements, at n 1..3; [1]: 1 -> NaN in another order, rounding moves it by 1.2e-7
      against [C0]

    [C3] c3
      repaired: identical to [C0], as before [C1]
      y no longer depends on the order of blocks and threads
      against [C2]

    changed sources and no output:
      [C2] c2

    races were not looked for: `--check auto` looks for them
    2 changes at 2 commits of 3 commits, 4 variants replayed
    ");
    // Without the commit that began it there is nothing to take back.
    let run = env.replay(&["log", "fixtures/tiny", "main~2..main"]);
    insta::assert_snapshot!(masked(&run.stdout, &ids), @"
    [C3] c3
      identical: y
      y no longer depends on the order of blocks and threads
      against [C2]

    changed sources and no output:
      [C2] c2

    races were not looked for: `--check auto` looks for them
    1 change at 1 commit of 2 commits, 3 variants replayed
    ");
    let run = env.replay(&["log", "fixtures/tiny", "main~1..main", "--format", "json"]);
    let log: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(log["changes"][0]["no_longer_order_dependent"][0], "y");
}
