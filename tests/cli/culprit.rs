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

    **diverged** tiny at working tree against 2c99ddc on cpu
    - diverged: y (wrong)
    - y everywhere
    - [CULPRIT] is the first bad commit: Break it

    [RUN]
    ");

    let json = env.replay(&[&arguments[..], &["--format", "json"]].concat()).stdout;
    let document: Value = serde_json::from_str(&json).expect("a document");
    assert_eq!(schema::problems(&document), [""; 0]);
    assert_eq!(document["replays"][0]["culprit"]["commit"]["short"], culprit);
}

/// A kernel of three outputs: `y` is twice `x`, `z` thrice and `w` a seventh, each by an expression.
fn three([y, z, w]: [&str; 3]) -> String {
    format!(
        "__global__ void all(const float* x, float* y, float* z, float* w, int n)\n{{\n\
         int i = threadIdx.x;\nif (i >= n) return;\ny[i] = {y};\nz[i] = {z};\nw[i] = {w};\n}}\n"
    )
}

/// A history of a kernel of three outputs: `base`, then a commit for each of `versions`, their subjects in front.
fn history_of_three(versions: &[(&str, [&str; 3])]) -> TestEnv {
    let base = three(["2 * x[i]", "3 * x[i]", "x[i] / 7.0f"]);
    let env = TestEnv::new().with_kernel(&base, "all<<<1, n>>>(x, y, z, w, n);");
    let more =
        ["z", "w"].map(|name| format!("[outputs.{name}]\ndtype = \"f32\"\nshape = [\"n\"]\n"));
    let harness = env.path("replay.toml");
    let text = std::fs::read_to_string(&harness).expect("a harness") + &more.concat();
    env.repo.write("replay.toml", text);
    env.repo.commit("More outputs");
    env.repo.git(&["tag", "base"]);
    for (message, expressions) in versions {
        env.repo.commit_file("k.cu", &three(*expressions), message);
    }
    env
}

/// `text` with the subjects of commits in place of their ids.
fn by_subject(env: &TestEnv, text: &str) -> String {
    let mut text = text.to_owned();
    for line in env.repo.git(&["log", "--format=%H %s"]).lines() {
        let (id, subject) = line.split_once(' ').expect("an id");
        text = text.replace(id, &format!("[{subject}]")).replace(&id[..7], &format!("[{subject}]"));
    }
    text
}

#[test]
fn each_output_has_the_commit_that_changed_it() {
    let env = history_of_three(&[
        ("Break y", ["2.01f * x[i]", "3 * x[i]", "x[i] / 7.0f"]),
        ("Comment", ["2.01f * x[i] /* no more */", "3 * x[i]", "x[i] / 7.0f"]),
        ("Break z", ["2.01f * x[i]", "3.01f * x[i]", "x[i] / 7.0f"]),
    ]);
    let arguments = ["fixtures/tiny", "--against", "base", "--culprit"];
    let text = by_subject(&env, &env.replay(&arguments).stdout);
    let (_, told) = text.split_once("\nculprit\n").expect("culprits");
    insta::assert_snapshot!(told, @"
      [Break y] is the first bad commit: Break y
      z: [Break z] is the first bad commit: Break z

    diverged: y (wrong), z (wrong)
    ");
    let markdown = env.replay(&[&arguments[..], &["--format", "markdown"]].concat()).stdout;
    insta::assert_snapshot!(by_subject(&env, &markdown), @"
    <!-- replay -->
    ## replay: 1 diverged

    | fixture | output | verdict | checksum | distance | beyond noise | worst element | culprit |
    | --- | --- | --- | --- | --- | --- | --- | --- |
    | tiny | y | diverged | 92be64be → 5a4d5361 | rel. 0.005 | 4 of 4 | &#91;2&#93;: 6 → 6.02999973 | [Break y] |
    | tiny | z | diverged | d8b0fe6a → 5145eb63 | rel. 0.0033 | 4 of 4 | &#91;0&#93;: 3 → 3.00999999 | [Break z] |

    **diverged** tiny at working tree against [More outputs] on cpu
    - diverged: y (wrong), z (wrong)
    - y everywhere
    - z everywhere
    - [Break y] is the first bad commit: Break y
    - z: [Break z] is the first bad commit: Break z

    [RUN]
    ");
    let json = env.replay(&[&arguments[..], &["--format", "json"]].concat()).stdout;
    let document: Value = serde_json::from_str(&json).expect("a document");
    assert_eq!(schema::problems(&document), [""; 0]);
    let outputs = document["replays"][0]["culprit"]["outputs"].as_array().expect("outputs");
    let told = outputs.iter().map(|own| {
        format!(
            "{} {}",
            own["output"].as_str().unwrap(),
            own["commit"]["subject"].as_str().unwrap()
        )
    });
    assert_eq!(told.collect::<Vec<_>>(), ["y Break y", "z Break z"]);
}

#[test]
fn one_commit_that_changed_two_outputs_is_named_for_both_and_for_no_third() {
    let env = history_of_three(&[
        ("Round w otherwise", ["2 * x[i]", "3 * x[i]", "x[i] * (1.0f / 7.0f)"]),
        ("Break y and z", ["2.01f * x[i]", "3.01f * x[i]", "x[i] * (1.0f / 7.0f)"]),
        ("Comment", ["2.01f * x[i] /* no more */", "3.01f * x[i]", "x[i] * (1.0f / 7.0f)"]),
    ]);
    let arguments = ["fixtures/tiny", "--against", "base", "--culprit", "--format", "markdown"];
    insta::assert_snapshot!(by_subject(&env, &env.replay(&arguments).stdout), @"
    <!-- replay -->
    ## replay: 1 diverged

    | fixture | output | verdict | checksum | distance | beyond noise | worst element | culprit |
    | --- | --- | --- | --- | --- | --- | --- | --- |
    | tiny | y | diverged | 92be64be → 5a4d5361 | rel. 0.005 | 4 of 4 | &#91;2&#93;: 6 → 6.02999973 | [Break y and z] |
    | tiny | z | diverged | d8b0fe6a → 5145eb63 | rel. 0.0033 | 4 of 4 | &#91;0&#93;: 3 → 3.00999999 | [Break y and z] |
    | tiny | w | equivalent | 5ffdd4ab → f6d1bb69 | rel. 3.8e-8 | 0 of 4 | &#91;2&#93;: 0.428571433 → 0.428571463 |  |

    **diverged** tiny at working tree against [More outputs] on cpu
    - diverged: y (wrong), z (wrong)
    - y everywhere
    - z everywhere
    - [Break y and z] is the first bad commit: Break y and z

    [RUN]
    ");
}

#[test]
fn the_commit_of_a_race_is_not_written_beside_an_output_that_another_one_rounds_otherwise() {
    let counting = |add: &str, divided: &str| {
        format!(
            "__global__ void count(const float* x, float* y, int n)\n{{\n__shared__ float sum;\n\
             if (threadIdx.x == 0) sum = 0.0f;\n__syncthreads();\n{add};\n__syncthreads();\n\
             if (threadIdx.x < n) y[threadIdx.x] = {divided};\n}}\n"
        )
    };
    let [atomic, racing] = ["atomicAdd(&sum, 1.0f)", "sum += 1.0f"];
    let [divided, multiplied] = ["x[threadIdx.x] / 7.0f", "x[threadIdx.x] * (1.0f / 7.0f)"];
    let env = TestEnv::new().with_kernel(&counting(atomic, divided), "count<<<1, n>>>(x, y, n);");
    env.repo.git(&["tag", "base"]);
    env.repo.commit_file("k.cu", &counting(racing, divided), "Race");
    env.repo.commit_file("k.cu", &counting(racing, multiplied), "Round y otherwise");
    let arguments = ["fixtures/tiny", "--against", "base", "--culprit", "--check", "always"];
    let run = env.replay(&[&arguments[..], &["--format", "markdown"]].concat());
    insta::assert_snapshot!(by_subject(&env, &run.stdout), @"
    <!-- replay -->
    ## replay: 1 failed

    | fixture | output | verdict | checksum | distance | beyond noise | worst element | culprit |
    | --- | --- | --- | --- | --- | --- | --- | --- |
    | tiny | y | equivalent | 5ffdd4ab → f6d1bb69 | rel. 3.8e-8 | 0 of 4 | &#91;2&#93;: 0.428571433 → 0.428571463 |  |

    **failed** tiny at working tree against [A kernel] on cpu
    - race on 4 bytes at byte 0 of shared memory sum: k.cu:6 writes in count, block (0, 0, 0), thread (0, 0, 0); k.cu:6 reads in count, block (0, 0, 0), thread (1, 0, 0) (3 times)
    - race on 4 bytes at byte 0 of shared memory sum: k.cu:6 reads in count, block (0, 0, 0), thread (0, 0, 0); k.cu:6 writes in count, block (0, 0, 0), thread (1, 0, 0)
    - race on 4 bytes at byte 0 of shared memory sum: k.cu:6 writes in count, block (0, 0, 0), thread (1, 0, 0); k.cu:6 writes in count, block (0, 0, 0), thread (2, 0, 0) (2 times)
    - equivalent: y
    - [Race] is the first bad commit: Race

    [RUN]
    ");
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
