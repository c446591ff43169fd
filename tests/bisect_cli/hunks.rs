//! Which hunks of a commit carry its defect, and the way back.

use std::fs;

use crate::bisect_cli::{RIGHT, WRONG, history, masked};
use crate::common::env::{Run, TestEnv};

const CALL: &str = "run(x, y, n);";

/// A kernel with two macros, of which the defect needs both, and a function beside them.
const BEFORE: &str = "#define TWICE(a) ((a) * 2.0f)
#define A
#define B
#define C
#define D
// Of a number.
#define E
#define F
#define G
#define H
__device__ float half(float a) { return a * 0.5f; }




__global__ void k(const float* x, float* y) {
  int i = threadIdx.x;




  y[i] = TWICE(half(TWICE(x[i])));
}




void run(const float* x, float* y, int n) {
  k<<<1, n>>>(x, y);
}
";

/// `BEFORE` with a defect in two hunks, and four others.
fn after() -> String {
    BEFORE
        .replace("#define TWICE(a)", "#define MORE 1.0f\n#define TWICE(a)")
        .replace("// Of a", "// Of one")
        .replace("return a * 0.5f", "return 0.5f * a")
        .replace("int i = threadIdx.x", "const int i = threadIdx.x")
        .replace("TWICE(half(TWICE(x[i])));", "TWICE(half(TWICE(x[i]))) + MORE;")
        .replace("  k<<<", "\n  k<<<")
}

fn blame(env: &TestEnv, words: &str) -> Run {
    let words: Vec<&str> = words.split(' ').collect();
    env.replay(&[&["blame", "fixtures/tiny"], words.as_slice()].concat())
}

/// The lines about hunks.
fn answer(run: &Run, ids: &[String]) -> String {
    let text = masked(&run.stdout, ids);
    let lines = text.split("\n\ndiff --git").next().unwrap_or_default().lines();
    let about_hunks = lines.skip_while(|line| !line.contains(".cu:") && !line.contains("hunk"));
    about_hunks.collect::<Vec<_>>().join("\n")
}

#[test]
fn two_hunks_that_are_needed_together_are_named_and_taken_back_on_a_later_commit() {
    let env = TestEnv::new().with_kernel(BEFORE, CALL);
    let mut ids = vec![env.repo.git(&["rev-parse", "HEAD"])];
    env.repo.write("notes.txt", "a\n");
    ids.push(env.repo.commit_file("k.cu", &after(), "Shift"));
    let later = after().replace("void run(", "// Runs it.\nvoid run(");
    ids.push(env.repo.commit_file("k.cu", &later, "Say more"));
    let run = blame(&env, "main~1 --onto main --patch back.diff");
    assert_eq!(run.code, Some(0), "{}", run.text());
    insta::assert_snapshot!(answer(&run, &ids), @r#"
      k.cu:1 and k.cu:23 together move y by rel. 0.18; the other 2 hunks do not
        k.cu:1 alone does not
        k.cu:23 alone cannot be tested: the sources do not compile: k.cu:22:37: error: 'MORE' was not declared in this scope
      3 more hunks left out: 2 of comments and white space and 1 in files that are no sources of it
      reversing them on [C2] gives the good bits again

    k.cu:1
    +#define MORE 1.0f

    k.cu:23
    -  y[i] = TWICE(half(TWICE(x[i])));
    +  y[i] = TWICE(half(TWICE(x[i]))) + MORE;
    "#);
    env.repo.git(&["apply", "back.diff"]);
    let repaired = fs::read_to_string(env.path("k.cu")).unwrap();
    assert!(!repaired.contains("MORE") && repaired.contains("0.5f * a"), "{repaired}");
    // The search ends the same way, and says so before.
    let words = ["bisect", "fixtures/tiny", "--good", "main~2", "--bad", "main"];
    let search = env.replay(&words);
    let hint = "\n\nhint: --hunks finds which of these 6 hunks carry it\n";
    assert!(search.stdout.ends_with(hint), "{}", search.stdout);
    let search = env.replay(&[&words[..], &["--hunks"]].concat());
    assert_eq!(answer(&search, &ids), answer(&run, &ids));
    assert!(!search.stdout.contains("hint:"), "{}", search.stdout);
}

#[test]
fn an_only_hunk_needs_no_test_and_lines_that_changed_since_are_in_the_way() {
    let (env, ids) = history(TestEnv::new(), &[RIGHT, WRONG, ("x[i] * 3.0f", "")]);
    let run = blame(&env, "main~1 --onto main");
    insta::assert_snapshot!(answer(&run, &ids), @r#"
    k.cu:3-5 is its only hunk
    it cannot be reversed on [C2]: k.cu:3 was changed since
    "#);
    let json = env.replay(&["blame", "fixtures/tiny", "main~1", "--format", "json"]);
    let concluded = json.stdout.lines().last().unwrap_or_default().to_owned();
    let concluded: serde_json::Value = serde_json::from_str(&concluded).unwrap();
    let hunks = &concluded["culprit"]["hunks"];
    assert_eq!((&hunks["tested"], &hunks["way_back"]["result"]), (&0.into(), &"good_bits".into()));
}

#[test]
fn what_cannot_be_blamed_is_said() {
    let (env, ids) = history(TestEnv::new(), &[RIGHT, ("2.0f * x[i]", "")]);
    env.repo.commit_file("notes.txt", "a\n", "Take notes");
    let mut told = Vec::new();
    for words in ["main~2", "main~1", "main", "nowhere", "fixtures/tiny", "main --patch none/a"] {
        let run = blame(&env, words);
        // Progress is in the order in which tests end.
        let lines = run.stdout.lines().chain(run.stderr.lines());
        let reasons = lines.filter(|line| {
            ["error: ", "refused: ", "hint: "].iter().any(|word| line.starts_with(word))
        });
        let reasons: Vec<&str> = reasons.collect();
        told.push(format!("{words}: {:?}\n{}\n", run.code, reasons.join("\n")));
    }
    let told = masked(&told.join("\n"), &ids);
    insta::assert_snapshot!(told.replace(&env.repo.git(&["rev-parse", "--short=7", "main"]), "[N]"), @r#"
    main~2: Some(128)
    error: [C0] has no parent: all of it is new, and none of it can be left out
    hint: `replay FIXTURE --rev [C0]` shows what it does

    main~1: Some(1)
    refused: [C1] was said to be bad: identical
    hint: on this fixture nothing is wrong there: capture inputs on which the defect shows, or search for races that move no number with --on race

    main: Some(1)
    refused: good [C1] and bad [N] have the same sources
    hint: what differs lies outside of the harness's `sources` and `include`: name it there, or look at the inputs

    nowhere: Some(128)
    error: unknown revision `nowhere`

    fixtures/tiny: Some(128)
    error: fixtures/tiny is a fixture, and the last word is the commit
    hint: replay blame FIXTURE... REV

    main --patch none/a: Some(128)
    error: there is no folder none for the patch
    hint: make it, or name another file with --patch
    "#);
}
