//! `replay log`: every commit at which an output changes.

use serde_json::Value;

use crate::bisect_cli::{BROKEN, RIGHT, WRONG, history, kernel};
use crate::common::env::{Run, TestEnv};

fn masked(run: &Run, ids: &[String]) -> String {
    crate::bisect_cli::masked(&run.stdout, ids)
}

#[test]
fn the_demonstration_shows_two_rewrites_a_defect_and_its_repair() {
    let env = TestEnv::new().with_demonstration();
    let run = env.replay(&["log", "fixtures/step0", "37707d4..main", "--format", "json"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    let log: Value = serde_json::from_str(&run.stdout).unwrap();
    let shown = |change: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let repairs = text(&change["repairs"]["commit"]["short"]);
        [text(&change["commit"]["short"]), text(&change["verdict"]), repairs].join(" ")
    };
    let changes: Vec<String> = log["changes"].as_array().unwrap().iter().map(shown).collect();
    insta::assert_snapshot!(changes.join("\n"), @r"
    396b00e equivalent -
    565f23f equivalent -
    a3e0bb1 equivalent -
    534c0b0 equivalent -
    61b3d97 diverged -
    0489784 diverged 61b3d97
    ");
}

#[test]
fn two_culprits_a_revert_and_a_fix_all_show() {
    let crash = (RIGHT.0, "abort();");
    let half = ("x[i] * 0.5f", "");
    let versions = [RIGHT, WRONG, RIGHT, half, BROKEN, RIGHT, crash, RIGHT];
    let (env, ids) = history(TestEnv::new(), &versions);
    let run = env.replay(&["log", "fixtures/tiny", "main~7..main"]);
    insta::assert_snapshot!(masked(&run.without_compilers_words(), &ids), @"
    [C1] c1
      diverged: y (the mathematics changed)
      y: 100 % of bits differ, rel. 0.25, 4 elements beyond noise
      against [C0]

    [C2] c2
      taken back: identical to [C0], as before [C1]
      against [C1]

    [C3] c3
      diverged: y (the mathematics changed)
      y: 100 % of bits differ, rel. 0.75, 4 elements beyond noise
      against [C2]

    [C4] c4
      untestable: the sources do not compile: k.cu:3: error: [MESSAGE]
      against [C3]

    [C5] c5
      taken back: identical to [C2], as before [C3]
      against [C3]: [C4] cannot be tested

    [C6] c6
      failed: aborted in host code: the code called abort()
      launch gone: k<<<1, 4>>>
      against [C5]

    [C7] c7
      repaired: identical to [C5], as before [C6]
      launch new:  k<<<1, 4>>>
      against [C6]

    7 changes at 7 commits of 7 commits, 7 variants replayed, 1 could not be tested
    ");
}

#[test]
fn a_merge_is_compared_with_each_parent() {
    let (env, mut ids) = history(TestEnv::new(), &[RIGHT, RIGHT]);
    env.repo.git(&["checkout", "-q", "-b", "side", "main~1"]);
    ids.push(env.repo.commit_file("k.cu", &kernel("x[i] + 7.0f", "", "side"), "Side"));
    env.repo.git(&["checkout", "-q", "main"]);
    env.repo.try_git(&env.repo.root(), &["merge", "-q", "--no-commit", "side"]);
    env.repo.write("k.cu", kernel(WRONG.0, "", "merged"));
    ids.push(env.repo.commit("Merge side"));
    let run = env.replay(&["log", "fixtures/tiny", "main~2..main"]);
    let text = masked(&run, &ids);
    let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with(' ')).collect();
    assert_eq!(
        lines,
        [
            "[C2] Side",
            "",
            "[C3] Merge side",
            "",
            "[C3] Merge side",
            "",
            "changed sources and no output:",
            "",
            "races were not looked for: `--check auto` looks for them",
            "3 changes at 2 commits of 3 commits, 4 variants replayed"
        ],
        "{}",
        run.text()
    );
}

#[test]
fn a_range_in_which_nothing_compiles_is_not_told_as_one_without_changes() {
    let (env, ids) = history(TestEnv::new(), &[BROKEN, ("y(x, x)", ""), ("y(x, y)", "")]);
    let run = env.replay(&["log", "fixtures/tiny", "main~2..main"]).without_compilers_words();
    assert_eq!(run.code, Some(125), "{}", run.text());
    insta::assert_snapshot!(masked(&run, &ids), @"
    could not be tested:
      [C1] c1
        the sources do not compile: k.cu:3: error: [MESSAGE]
      [C2] c2
        the sources do not compile: k.cu:3: error: [MESSAGE]

    nothing could be tested: none of 3 variants in 2 commits
    ");
    let json = env.replay(&["log", "fixtures/tiny", "main~2..main", "--format", "json"]).stdout;
    let log: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(log["untestable"].as_array().map(Vec::len), Some(2));
}

/// The loss is the sum of squares; `factor` times `x` is its gradient where `factor` is 2.
fn with_a_loss(factor: &str) -> String {
    format!(
        "__global__ void k(const float* x, float* y, int n)\n\
         {{ if (threadIdx.x < n) y[threadIdx.x] = {factor} * x[threadIdx.x]; }}\n\
         void run(const float* x, float* y, float* loss, int n)\n\
         {{ k<<<1, n>>>(x, y, n); *loss = 0.0f;\n\
         float h[64]; cudaMemcpy(h, x, n * sizeof(float), cudaMemcpyDeviceToHost);\n\
         for (int i = 0; i < n; i++) *loss += h[i] * h[i]; }}\n"
    )
}

#[test]
fn a_repair_of_what_was_wrong_before_the_range_is_no_defect_and_the_relapse_is() {
    let env = TestEnv::new().with_kernel(&with_a_loss("3.0f"), "");
    let harness = "sources = [\"k.cu\"]\ncall = \"run(x, y, &loss, n);\"\n\
                   [inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                   [outputs.y]\ndtype = \"f32\"\nshape = [\"n\"]\ngradient_of = \"x\"\n\
                   [outputs.loss]\ndtype = \"f32\"\nshape = []\n";
    env.repo.write("replay.toml", harness);
    let mut ids = vec![env.repo.commit("With a loss")];
    for (factor, subject) in [("2.0f", "Mend it"), ("2.5f", "Break it"), ("2.0f", "Mend it again")]
    {
        ids.push(env.repo.commit_file("k.cu", &with_a_loss(factor), subject));
    }
    let run = env.replay(&["log", "fixtures/tiny", "main~3..main"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    insta::assert_snapshot!(masked(&run, &ids), @"
    [C1] Mend it
      repaired: y (matches its loss now)
      y: 100 % of bits differ, rel. 0.33, 4 elements beyond noise
      against [C0]

    [C2] Break it
      diverged: y (wrong)
      y: 100 % of bits differ, rel. 0.25, 4 elements beyond noise
      against [C1]

    [C3] Mend it again
      repaired: identical to [C1], as before [C2]
      against [C2]

    3 changes at 3 commits of 3 commits, 3 variants replayed
    ");
}

#[test]
fn a_log_without_a_range_takes_the_last_commits_that_change_the_sources() {
    let (env, ids) = history(TestEnv::new(), &[RIGHT, WRONG]);
    env.repo.commit_file("README", "no code", "Say what it is");
    let log = env.replay(&["log", "fixtures/tiny"]);
    let head = log.stdout.lines().next().unwrap_or_default();
    let begin = head.starts_with("tiny at ");
    assert!(
        begin && head.ends_with(", the last 2 commits that change the sources"),
        "{}",
        log.text()
    );
    assert!(log.stdout.contains(&format!("\n{} c1\n", &ids[1][..7])), "{}", log.text());
    let several = env.replay(&["log", "fixtures/tiny", "fixtures/tiny"]);
    assert_eq!(several.code, Some(0), "two fixtures and no range: {}", several.text());
    let none = env.replay(&["log", "fixtures/none"]);
    insta::assert_snapshot!(none.text(), @"
    exit code 128
    --- stderr
    error: there is no fixture folder fixtures/none
    hint: a fixture is a folder with fixture.toml and *.safetensors
    ");
}
