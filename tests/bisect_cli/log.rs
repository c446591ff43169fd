//! `replay log`: every commit at which an output changes.

use serde_json::Value;

use crate::env::{Run, TestEnv};
use crate::{BROKEN, RIGHT, WRONG, history, kernel};

fn masked(run: &Run, ids: &[String]) -> String {
    let mut text = run.stdout.clone();
    for (number, id) in ids.iter().enumerate() {
        text = text.replace(&id[..7], &format!("[C{number}]"));
    }
    text
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
    insta::assert_snapshot!(masked(&run.without_compilers_words(), &ids), @r"
    [C1] c1
      diverged: y (wrong)
      y: 100 % of bits differ, rel. 0.25, 4 elements beyond noise
      against [C0]

    [C2] c2
      repaired: identical to [C0], as before [C1]
      against [C1]

    [C3] c3
      diverged: y (wrong)
      y: 100 % of bits differ, rel. 0.75, 4 elements beyond noise
      against [C2]

    [C4] c4
      untestable: the sources do not compile: k.cu:3: error: [MESSAGE]
      against [C3]

    [C5] c5
      repaired: identical to [C2], as before [C3]
      against [C3]: [C4] cannot be tested

    [C6] c6
      failed: aborted in host code: the code called abort(), or an exception was not caught
      launch gone: k<<<1, 4>>>
      against [C5]

    [C7] c7
      repaired: identical to [C5], as before [C6]
      launch new:  k<<<1, 4>>>
      against [C6]

    7 changes at 7 commits of 7 commits, 8 variants replayed
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
            "3 changes at 2 commits of 3 commits, 4 variants replayed"
        ],
        "{}",
        run.text()
    );
}
