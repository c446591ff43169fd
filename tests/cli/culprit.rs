//! `--culprit`: a comparison with a trusted revision that also names the commit.

use serde_json::Value;

use crate::common::env::TestEnv;
use crate::common::schema;

const KERNEL: &str = "__global__ void twice(const float* x, float* y, int n)\n\
                      {\n    int i = threadIdx.x;\n    if (i < n) y[i] = 2 * x[i];\n}\n";

/// Four commits after `base`: a comment, an addition instead of the product, a defect, a comment.
fn history() -> TestEnv {
    let env = TestEnv::new().with_kernel(KERNEL, "twice<<<1, n>>>(x, y, n);");
    env.repo.git(&["tag", "base"]);
    let defect = KERNEL.replace("2 * x[i]", "2.01f * x[i]");
    let commits = [
        ("Comment on it", format!("// Twice.\n{KERNEL}")),
        ("Add instead", KERNEL.replace("2 * x[i]", "x[i] + x[i]")),
        ("Break it", defect.clone()),
        ("Comment again", format!("// Twice.\n{defect}")),
    ];
    for (message, text) in commits {
        env.repo.commit_file("k.cu", &text, message);
    }
    env
}

#[test]
fn the_commit_that_made_the_difference_is_named() {
    let env = history();
    let culprit = env.repo.git(&["rev-parse", "--short=7", "HEAD~1"]);
    let culprit = culprit.trim();
    let arguments = ["fixtures/tiny", "--against", "base", "--culprit"];
    let run = env.replay(&arguments);
    assert_eq!(run.code, Some(1), "{}", run.text());
    let line = format!("culprit\n  {culprit} is the first bad commit: Break it\n");
    assert!(run.stdout.contains(&line), "{}", run.text());

    let markdown = env.replay(&[&arguments[..], &["--format", "markdown"]].concat()).stdout;
    let markdown = markdown.replace(culprit, "[CULPRIT]");
    insta::assert_snapshot!(markdown, @"
    <!-- replay -->
    ## replay: 1 diverged

    | fixture | output | verdict | checksum | distance | beyond noise | worst element | culprit |
    | --- | --- | --- | --- | --- | --- | --- | --- |
    | tiny | y | diverged | 92be64be → 5a4d5361 | rel. 0.005 | 4 of 4 | &#91;2&#93;: 6 → 6.02999973 | [CULPRIT] |

    **diverged** tiny at working tree on cpu
    - diverged: y (wrong)
    - y everywhere
    - [CULPRIT] is the first bad commit: Break it
    ");

    let json = env.replay(&[&arguments[..], &["--format", "json"]].concat()).stdout;
    let document: Value = serde_json::from_str(&json).expect("a document");
    assert_eq!(schema::problems(&document), [""; 0]);
    assert_eq!(document["replays"][0]["culprit"]["commit"]["short"], culprit);
}

#[test]
fn without_a_difference_nobody_is_searched_for() {
    let env = history();
    let run = env.replay(&["fixtures/tiny", "--rev", "HEAD~2", "--against", "base", "--culprit"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(!run.stdout.contains("culprit"), "{}", run.stdout);
}

#[test]
fn a_change_that_is_not_committed_has_no_commit() {
    let env = history();
    env.repo.write("k.cu", KERNEL.replace("2 * x[i]", "3 * x[i]"));
    let run = env.replay(&["fixtures/tiny", "--against", "base", "--culprit"]);
    let line = "culprit\n  what changed is not committed: the working tree differs from HEAD\n";
    assert!(run.stdout.contains(line), "{}", run.text());
}

#[test]
fn beside_a_newer_trusted_revision_the_commit_that_repairs_is_named() {
    let env = history();
    let short = |rev: &str| env.repo.git(&["rev-parse", "--short=7", rev]).trim().to_owned();
    let run = env.replay(&["fixtures/tiny", "--rev", "base", "--against", "HEAD", "--culprit"]);
    let told = run.stdout.split_once("culprit\n").expect("a word on it").1;
    let told = told.replace(&short("HEAD~1"), "[COMMIT]");
    insta::assert_snapshot!(told.lines().next().unwrap(), @"  [COMMIT] repairs y: Break it");
}

#[test]
fn the_commit_that_lost_a_barrier_is_named_although_the_bits_are_the_same() {
    let shares = "__global__ void twice(const float* x, float* y, int n)\n{\n\
                  __shared__ float one;\nif (threadIdx.x == 0) one = x[0];\n__syncthreads();\n\
                  if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] + one;\n}\n";
    let env = TestEnv::new().with_kernel(shares, "twice<<<1, n>>>(x, y, n);");
    env.repo.git(&["tag", "base"]);
    let lost = shares.replace("__syncthreads();\n", "");
    let id = env.repo.commit_file("k.cu", &lost, "Lose the barrier");
    let run = env.replay(&["fixtures/tiny", "--against", "base", "--culprit"]);
    let line = format!("culprit\n  {} is the first bad commit: Lose the barrier\n", &id[..7]);
    assert!(run.stdout.contains(&line), "{}", run.text());
}

#[test]
fn a_culprit_needs_somebody_to_trust() {
    let run = history().replay(&["fixtures/tiny", "--culprit"]);
    assert_eq!(run.code, Some(128));
    insta::assert_snapshot!(run.stderr, @"
    error: the following required arguments were not provided:
      --against <REV>

    Usage: replay [OPTIONS] FIXTURE... [--rev REV]
           replay <COMMAND>

    For more information, try '--help'.
    ");
}
