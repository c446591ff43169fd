//! Checked replays: races that move no number are found, told in every format, and do not accuse a change
//! that has not made them.

use serde_json::Value;

use crate::env::TestEnv;
use crate::schema;

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
      race on 4 bytes at byte 0 of shared memory: k.cu:4 writes in last, block (0, 0, 0), thread (0, 0, 0); k.cu:6 reads in last, block (0, 0, 0), thread (31, 0, 0) (4 times)

    failed: race on 4 bytes at byte 0 of shared memory: k.cu:4 writes in last, block (0, 0, 0), thread (0, 0, 0); k.cu:6 reads in last, block (0, 0, 0), thread (31, 0, 0) (4 times)
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
