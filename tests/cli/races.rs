//! Checked replays: races that move no number are found, told in every format, and do not accuse a change
//! that has not made them.

use serde_json::Value;

use crate::common::env::{Run, TestEnv};
use crate::common::schema;

/// The last thread of the warp reads what others have written; in the order of the indices all of them are
/// done by then.
const RACE: &str = "\
__global__ void last(const float* x, float* y, int n)
{
    __shared__ float part[32];
    part[threadIdx.x] = threadIdx.x < n ? x[threadIdx.x] : 0.0f;
    if (threadIdx.x == 31)
        for (int i = 0; i < n; ++i) y[i] = part[i];
}
";
const CALL: &str = "last<<<1, 32>>>(x, y, n);";
const CHECKED: [&str; 3] = ["fixtures/tiny", "--check", "always"];

fn repaired() -> String {
    RACE.replace("    if (threadIdx.x == 31)", "    __syncthreads();\n    if (threadIdx.x == 31)")
}

fn document(env: &TestEnv, words: &[&str]) -> Value {
    let run = env.replay(&[words, &["--format", "json"]].concat());
    serde_json::from_str(&run.stdout).expect("a document")
}

#[test]
fn a_race_that_moves_no_number_fails_and_every_format_tells_it() {
    let env = TestEnv::new().with_kernel(RACE, CALL);
    let run = env.replay(&CHECKED);
    assert_eq!(run.code, Some(1), "{}", run.text());
    let (_, found) = run.stdout.split_once("accesses\n").expect("a finding");
    insta::assert_snapshot!(found, @"
      race on 4 bytes at byte 0 of shared memory part: k.cu:4 writes in last, block (0, 0, 0), thread (0, 0, 0); k.cu:6 reads in last, block (0, 0, 0), thread (31, 0, 0) (4 times)

    failed: race on 4 bytes at byte 0 of shared memory part: k.cu:4 writes in last, block (0, 0, 0), thread (0, 0, 0); k.cu:6 reads in last, block (0, 0, 0), thread (31, 0, 0) (4 times)
    ");

    let told = document(&env, &CHECKED);
    assert_eq!(schema::problems(&told), [""; 0]);
    let replay = &told["replays"][0];
    assert_eq!(replay["verdict"], "failed");
    assert_eq!(replay["accesses"]["findings"][0]["kind"], "race");
    for (format, words) in [("junit", "<failure message=\"race on "), ("markdown", "race on ")] {
        let told = env.replay(&[&CHECKED[..], &["--format", format]].concat()).stdout;
        assert!(told.contains(words), "{told}");
    }
}

#[test]
fn what_is_in_order_or_not_to_be_checked_is_not_accused() {
    let env = TestEnv::new().with_kernel(RACE, CALL);
    let off = document(&env, &["fixtures/tiny", "--check", "off"]);
    assert!(off["replays"][0]["accesses"].is_null(), "{off}");
    env.repo.write("k.cu", repaired());
    let run = env.replay(&CHECKED);
    assert_eq!(run.code, Some(0), "{}", run.text());
    let clean = serde_json::json!({ "reason": null, "findings": [], "left_out": 0 });
    assert_eq!(document(&env, &CHECKED)["replays"][0]["accesses"], clean);
}

#[test]
fn a_race_on_both_sides_is_not_the_difference_and_a_new_one_is() {
    let env = TestEnv::new().with_kernel(&repaired(), CALL);
    env.repo.commit_file("k.cu", RACE, "Lose the barrier");
    let against = |rev: &str, trusted: &str| {
        let sides = ["--rev", rev, "--against", trusted];
        env.replay(&[&CHECKED[..], &sides].concat())
    };
    let lost = against("HEAD", "HEAD~1");
    assert_eq!(lost.code, Some(1), "{}", lost.text());
    assert!(lost.last_line().contains("race on"), "{}", lost.text());
    env.repo.commit_file("k.cu", &format!("// The last one.\n{RACE}"), "Comment on it");
    let same = against("HEAD", "HEAD~1");
    assert_eq!(same.code, Some(0), "{}", same.text());
    assert!(same.stdout.contains("  on both sides: race on"), "{}", same.text());
}

#[test]
fn a_call_that_takes_too_long_to_be_checked_is_timed_once() {
    let spin = "#include <time.h>\n\
                void spin() { clock_t end = clock() + CLOCKS_PER_SEC / 5; while (clock() < end); }\n";
    let kernels = format!("{spin}{}", repaired());
    let env = TestEnv::with_own_replays().with_kernel(&kernels, &format!("spin(); {CALL}"));
    let said = |run: Run| {
        let line = run.stdout.lines().find(|line| line.contains("races are not looked for"));
        line.map(str::to_owned).unwrap_or_else(|| panic!("{}", run.text()))
    };
    let first = said(env.replay(&["fixtures/tiny"]));
    assert!(first.contains(" ms of processor time, more than 100 ms"), "{first}");
    assert_eq!(said(env.replay(&["fixtures/tiny"])), first);
}

/// Host code that also has 1 MiB, which `touch` touches.
fn beside_a_mebibyte(touch: &str) -> TestEnv {
    let kernels = format!(
        "{}__global__ void touch(char* s) {{ {touch} }}\n\
         void run(const float* x, float* y, int n)\n{{\n    \
         char* s;\n    cudaMalloc(&s, 1 << 20);\n    touch<<<1, 1>>>(s);\n    {CALL}\n}}\n",
        repaired()
    );
    TestEnv::new().with_kernel(&kernels, "run(x, y, n);")
}

#[test]
fn a_check_that_needs_more_memory_than_there_may_be_is_not_made_and_told() {
    // What is remembered takes eight times the memory, and of single bytes 32 times.
    for (touch, memory, told) in [
        ("*(int*)s = 1;", "9M", Some("a check takes 10 MiB of device memory")),
        ("*(int*)s = 1;", "10M", None),
        ("s[1] = 1;", "10M", Some("a check takes 34 MiB of device memory")),
        ("s[1] = 1;", "34M", None),
    ] {
        let env = beside_a_mebibyte(touch);
        for check in ["auto", "always"] {
            let run = env.replay(&["fixtures/tiny", "--check", check, "--memory", memory]);
            assert_eq!(run.code, Some(0), "{}", run.text());
            let said = told
                .map(|told| format!("races are not looked for: {told}, more than --memory allows"));
            match said {
                Some(said) => {
                    assert!(run.stdout.contains(&said), "{touch} {memory}: {}", run.text())
                }
                None => assert!(!run.stdout.contains("races"), "{touch} {memory}: {}", run.text()),
            }
        }
    }
}

/// A sum over half a warp; the lanes above 7 get values of lanes that take no part.
fn half_warp(used: &str) -> TestEnv {
    let kernel = format!(
        "\
__global__ void half(const float* x, float* y, int n)
{{
    float v = threadIdx.x < n ? x[threadIdx.x] : (float)threadIdx.x;
    if (threadIdx.x < 16)
        for (int o = 8; o > 0; o /= 2) v += __shfl_down_sync(0xffff, v, o);
    if ({used}) y[threadIdx.x % n] = v;
    if (threadIdx.x > 0 && threadIdx.x < n) y[threadIdx.x] = 0.0f;
}}
"
    );
    TestEnv::new().with_kernel(&kernel, "half<<<1, 32>>>(x, y, n);")
}

#[test]
fn a_shuffle_from_a_lane_that_takes_no_part_matters_where_an_output_depends_on_it() {
    let unused = half_warp("threadIdx.x == 0").replay(&CHECKED);
    assert_eq!(unused.code, Some(0), "{}", unused.text());
    let told = unused.stdout.split_once("accesses\n").expect("a note").1;
    insta::assert_snapshot!(told, @"
      note: a shuffle reads lane 16, which is not in the mask 0x0000ffff, and no output depends on it: k.cu:5 reads in half, block (0, 0, 0), thread (8, 0, 0) (15 times)

    completed: every output is written and finite
    ");
    let used = half_warp("threadIdx.x == 12").replay(&CHECKED);
    assert_eq!(used.code, Some(1), "{}", used.text());
    let told =
        "  a shuffle reads lane 16, which is not in the mask 0x0000ffff: k.cu:5 reads in half";
    assert!(used.stdout.contains(told), "{}", used.text());
    insta::assert_snapshot!(used.last_line(), @"failed: depends on unwritten memory: 1 of 4 elements of y, first at [0]");
}

#[test]
fn accesses_of_one_side_to_the_memory_of_the_other_name_their_line() {
    let host = |body: &str| {
        let text = format!(
            "{}void run(const float* x, float* y, int n)\n{{\n    {body}\n}}\n",
            repaired()
        );
        TestEnv::new().with_kernel(&text, "run(x, y, n);")
    };
    let run = host(&format!("{CALL} y[1] = 1.0f;")).replay(&CHECKED);
    assert_eq!(run.code, Some(1), "{}", run.text());
    insta::assert_snapshot!(run.stdout.split_once("accesses\n").expect("a finding").1, @"
      host access to device memory: k.cu:11 writes in host code, y[1]

    failed: host access to device memory in host code: byte 4 of y (16 bytes): host code cannot touch it on a GPU; copy it by cudaMemcpy
    ");
    let run = host("float v[4] = {}; last<<<1, 32>>>(v, y, n);").replay(&CHECKED);
    assert_eq!(run.code, Some(1), "{}", run.text());
    insta::assert_snapshot!(run.stdout.split_once("accesses\n").expect("a finding").1, @"
      device access to host memory: k.cu:4 reads in last, block (0, 0, 0), thread (0, 0, 0), argument 1 points to a variable on the stack of host code, which a GPU cannot reach

    failed: device access to host memory in last, block (0, 0, 0), thread (0, 0, 0): argument 1 points to a variable on the stack of host code, which a GPU cannot reach
    ");
    let off = ["fixtures/tiny", "--check", "off"];
    let run = host(&format!("{CALL} y[1] = 1.0f;")).replay(&off);
    assert!(!run.stdout.contains("accesses"), "{}", run.text());
}
