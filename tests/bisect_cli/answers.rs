//! What is found, and what is said of it.

use serde_json::Value;

use crate::bisect_cli::{BROKEN, DIVIDED, MULTIPLIED, RIGHT, WRONG, history};
use crate::common::env::TestEnv;

fn search(env: &TestEnv, arguments: &str) -> crate::common::env::Run {
    let words: Vec<&str> = arguments.split(' ').collect();
    env.replay(&[&["bisect"], words.as_slice()].concat())
}

#[test]
fn the_demonstration_convicts_61b3d97_and_acquits_396b00e() {
    let env = TestEnv::new().with_demonstration();
    for ends in ["--good 37707d4 --bad main~1", "--good 396b00e --bad 61b3d97"] {
        let run = search(&env, &format!("fixtures/step0 {ends}"));
        assert_eq!(run.code, Some(0), "{}", run.text());
        let mut lines = run.stdout.lines();
        assert_eq!(
            lines.next(),
            Some(
                "61b3d97 is the first bad commit: Fix gradient kernel to support vocabularies \
                 larger than 1024"
            )
        );
        let sentence =
            "  grad_logits no longer matches its loss (rel. 0.52); at its parent it does";
        assert_eq!(lines.next(), Some(sentence));
        assert!(lines.next().unwrap().starts_with("  grad_logits diverged: wrong, not imprecise"));
        assert!(run.stdout.contains("\n  265e7d7, its parent, was tested: equivalent\n"));
        let launch = "launch changed: lm_cross_entropy_gradient_kernel<<<256, 34>>> -> \
                      <<<256, 34, 136>>>";
        assert!(run.stdout.contains(launch), "{}", run.text());
        assert!(run.stdout.contains("\n@@ "), "the diff of the commit is shown");
        assert_eq!(
            ends.contains("37707d4"),
            run.stdout.contains("  396b00e was tested: equivalent")
        );
    }
}

#[test]
fn a_failure_is_found_by_its_kind() {
    let env = TestEnv::new().with_demonstration();
    let run = search(&env, "fixtures/step0-words --on failed --good 396b00e --bad 534c0b0");
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.starts_with("565f23f is the first bad commit"), "{}", run.text());
    assert!(run.stdout.contains("failed: launch error: "), "{}", run.text());
}

#[test]
fn other_bits_are_found_where_nothing_diverges() {
    let (env, ids) = history(TestEnv::new(), &[DIVIDED, DIVIDED, MULTIPLIED, MULTIPLIED]);
    let run = search(&env, "fixtures/tiny --good main~3 --bad main");
    insta::assert_snapshot!(run.stdout.replace(&ids[3][..7], "[C3]"), @r"
    refused: [C3] was said to be bad: equivalent: y
    hint: they differ within noise only: --on bits finds where the bits change
    ");
    assert_eq!(run.code, Some(1));
    let run = search(&env, "fixtures/tiny --good main~3 --bad main --on bits");
    assert_eq!(run.code, Some(0), "{}", run.text());
    let line = format!("{} is the first bad commit: c2\n", &ids[2][..7]);
    assert!(run.stdout.starts_with(&line), "{}", run.text());
}

#[test]
fn one_fixture_of_several_is_enough_to_convict() {
    // The defect shows only where an input is above 100.
    let late = ("x[i] > 100.0f ? 0.0f : x[i] * 2.0f", "");
    let (env, ids) = history(TestEnv::new(), &[RIGHT, RIGHT, late, late]);
    let bytes: Vec<u8> = [1f32, 200.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    env.write_fixture("large", &[("x", replay::tensor::DType::F32, &[2], &bytes)]);
    let run = search(&env, "fixtures/tiny fixtures/large --good main~3 --bad main");
    assert_eq!(run.code, Some(0), "{}", run.text());
    let line = format!("{} is the first bad commit: c2\n", &ids[2][..7]);
    assert!(run.stdout.starts_with(&line), "{}", run.text());
}

#[test]
fn untestable_commits_that_hide_the_culprit_are_all_reported_with_their_reasons() {
    let (env, ids) = history(TestEnv::new(), &[RIGHT, RIGHT, BROKEN, BROKEN, WRONG]);
    let run = search(&env, "fixtures/tiny --good main~4 --bad main");
    assert_eq!(run.code, Some(125), "{}", run.text());
    let mut text = run.without_compilers_words().stdout;
    for (number, id) in ids.iter().enumerate() {
        text = text.replace(&id[..7], &format!("[C{number}]"));
    }
    insta::assert_snapshot!(text, @r"
    untestable commits hide the first bad commit; it is one of these 3:
      [C2] c2
        untestable: the sources do not compile: k.cu:3: error: [MESSAGE]
      [C3] c3
        untestable: the sources do not compile: k.cu:3: error: [MESSAGE]
      [C4] c4
        diverged: y (wrong)
    ");
}

#[test]
fn events_are_json_one_a_line_and_the_last_names_the_culprit() {
    let (env, ids) = history(TestEnv::new(), &[RIGHT, RIGHT, WRONG, WRONG]);
    let run = search(&env, "fixtures/tiny --good main~3 --bad main --format json");
    let events: Vec<Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(events[0]["event"], "begun");
    assert_eq!(events[0]["fixtures"], serde_json::json!(["tiny"]));
    assert_eq!(events[0]["good"][0]["id"], ids[0].as_str());
    assert_eq!(events[0]["bad"][0]["id"], ids[3].as_str());
    assert_eq!(events[1]["event"], "planned");
    assert_eq!(events[1]["candidates"], 3);
    let count = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    assert_eq!(count("started"), count("tested"));
    let last = events.last().unwrap();
    assert_eq!(last["conclusion"], "found");
    assert_eq!(last["culprit"]["commit"]["id"], ids[2].as_str());
    assert_eq!(last["culprit"]["fixtures"][0]["outputs"][0]["finding"], "wrong");
}

#[test]
fn the_answer_does_not_depend_on_the_number_of_jobs() {
    let versions = [RIGHT, RIGHT, DIVIDED, RIGHT, RIGHT, RIGHT, RIGHT, WRONG, WRONG, WRONG];
    let (env, ids) = history(TestEnv::new(), &versions);
    for jobs in ["1", "2", "5"] {
        let ends = "fixtures/tiny --good main~5 --bad main";
        let run = search(&env, &format!("{ends} --jobs {jobs}"));
        let line = format!("{} is the first bad commit: c7\n", &ids[7][..7]);
        assert!(run.stdout.starts_with(&line), "{}", run.text());
    }
}

/// Host code that crashes in every `nth` run of `commit`, which the file `runs` of that commit counts.
fn crash_now_and_then(env: &TestEnv, commit: usize, nth: usize) -> String {
    let runs = env.path(&format!("runs-{commit}"));
    format!(
        "FILE* runs = fopen({runs:?}, \"a\"); fputc('.', runs); fflush(runs); \
         if (ftell(runs) % {nth} == 0) abort(); fclose(runs);"
    )
}

#[test]
fn a_crash_that_comes_and_goes_is_counted_until_its_commit_is_almost_certain() {
    let env = TestEnv::new();
    let crashes: Vec<String> = (3..6).map(|commit| crash_now_and_then(&env, commit, 3)).collect();
    let mut versions = vec![RIGHT; 3];
    versions.extend(crashes.iter().map(|crash| (RIGHT.0, crash.as_str())));
    let (env, ids) = history(env, &versions);
    let run =
        search(&env, "fixtures/tiny --good main~5 --bad main --on failed --fresh --sandbox=off");
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stderr.contains("does not always show the same"), "{}", run.text());
    assert!(run.stdout.contains("  with a probability of 99."), "{}", run.text());
    let line = format!("{} is the first bad commit: c3\n", &ids[3][..7]);
    assert!(run.stdout.starts_with(&line), "{}", run.text());
}

#[test]
fn a_bad_end_that_crashes_in_one_run_of_nine_is_seen_to_crash() {
    let env = TestEnv::new();
    let crash = crash_now_and_then(&env, 1, 9);
    let (env, ids) = history(env, &[RIGHT, (RIGHT.0, &crash)]);
    let run = search(&env, "fixtures/tiny --good main~1 --bad main --on failed --sandbox=off");
    let line = format!("{} is the first bad commit: c1\n", &ids[1][..7]);
    assert!(run.stdout.starts_with(&line), "{}", run.text());
}
