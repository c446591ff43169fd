//! Which hunks of a commit carry its defect, and the way back.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::bisect_cli::{BROKEN, RIGHT, WRONG, history, masked};
use crate::common::env::{Run, TestEnv, harness};

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
      reversing them on [C2] gives the parent's bits again

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
    let named_good = answer(&run, &ids).replace("the parent's bits", "the good bits");
    assert_eq!(answer(&search, &ids), named_good);
    assert!(!search.stdout.contains("hint:"), "{}", search.stdout);
}

/// A call of a function with two factors of the same type.
const SHIFT: &str = "__device__ float shift(float x, float a, float b) { return x * a + b; }




__global__ void k(const float* x, float* y) {
  int i = threadIdx.x;




  y[i] = shift(x[i], 0.5f, 2.0f);
}




void run(const float* x, float* y, int n) {
  k<<<1, n>>>(x, y);
}
";

/// What `blame` says of the change from `before` to `after`.
fn blame_change(before: &str, after: &str) -> String {
    let env = TestEnv::new().with_kernel(before, CALL);
    let ids = [env.repo.git(&["rev-parse", "HEAD"]), env.repo.commit_file("k.cu", after, "Change")];
    let run = blame(&env, "main");
    assert_eq!(run.code, Some(0), "{}", run.text());
    answer(&run, &ids).split("\n\n").next().unwrap_or_default().to_owned()
}

#[test]
fn halves_of_a_change_with_another_error_stand_below_the_set_with_the_commits_own() {
    let other_signature = SHIFT
        .replace("float a, float b)", "float b, float a)")
        .replace("int i = threadIdx.x", "const int i = threadIdx.x")
        .replace("0.5f, 2.0f", "2.0f, 0.75f");
    insta::assert_snapshot!(blame_change(SHIFT, &other_signature), @"
    k.cu:1 and k.cu:12 together move y by rel. 0.21, as the whole commit does; the other hunk does not
      k.cu:1 alone moves y by rel. 0.85, not as the whole commit does
      k.cu:12 alone moves y by rel. 0.91, not as the whole commit does
    reversing them on [C1] gives the parent's bits again
    ");
    let two_defects = BEFORE
        .replace("#define TWICE(a)", "#define MORE 1.0f\n#define TWICE(a)")
        .replace("a * 0.5f", "a * 0.75f")
        .replace("TWICE(half(TWICE(x[i])));", "TWICE(half(TWICE(x[i]))) + MORE;");
    insta::assert_snapshot!(blame_change(BEFORE, &two_defects), @"
    k.cu:1, k.cu:12 and k.cu:23, all its hunks, together move y by rel. 0.67: none of them can be left out
      k.cu:12 alone moves y by rel. 0.5, not as the whole commit does
      k.cu:1 and k.cu:23 together move y by rel. 0.18, not as the whole commit does
      k.cu:1 alone does not
      k.cu:23 alone cannot be tested: the sources do not compile: k.cu:22:37: error: 'MORE' was not declared in this scope
    reversing them on [C1] gives the parent's bits again
    ");
}

#[test]
fn a_set_with_the_commits_own_error_is_named_before_one_whose_error_it_hides() {
    let clamped = SHIFT
        .replace("return x * a + b", "return (x > 2.0f ? 8.0f * x : x) * a + b")
        .replace("shift(x[i], 0.5f, 2.0f);", "fminf(shift(x[i], 0.5f, 2.0f), 1.0f);");
    insta::assert_snapshot!(blame_change(SHIFT, &clamped), @"
    k.cu:12 alone moves y by rel. 0.7
    k.cu:1 alone moves y by rel. 2.7 (the whole commit by 0.7)
    reversing them on [C1] gives the parent's bits again
    ");
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
    for words in [
        "main~2",
        "main~1",
        "main",
        "nowhere",
        "main~2..main",
        "main~1...",
        "fixtures/tiny",
        "main --patch none/a",
    ] {
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
    refused: [C1] is no worse than its parent: identical
    hint: on this fixture nothing is wrong there: capture inputs on which the defect shows, or search for races that move no number with --on race

    main: Some(1)
    refused: [C1] and [N] have the same sources
    hint: what differs lies outside of the harness's `sources` and `include`: name it there, or look at the inputs

    nowhere: Some(128)
    error: unknown revision `nowhere`

    main~2..main: Some(128)
    error: main~2..main is a range, and blame takes one commit
    hint: `replay bisect FIXTURE --good main~2 --bad main --hunks` searches a range

    main~1...: Some(128)
    error: main~1... is a range, and blame takes one commit
    hint: `replay bisect FIXTURE --good main~1 --bad HEAD --hunks` searches a range

    fixtures/tiny: Some(128)
    error: fixtures/tiny is a fixture, and the last word is the commit
    hint: replay blame FIXTURE... REV

    main --patch none/a: Some(128)
    error: there is no folder none for the patch
    hint: make it, or name another file with --patch
    "#);
}

#[test]
fn a_commit_that_changes_no_line_is_refused_with_what_it_changes() {
    let env = TestEnv::new();
    let harness = harness(&format!("include = [\"lib\"]\ncall = {CALL:?}"));
    env.repo.write("replay.toml", harness.replace("[\"k.cu\"]", "[\"src\"]"));
    env.repo.write(".gitignore", "fixtures\n");
    env.repo.write("lib/other.h", "\n");
    env.repo.write("src/k.cu", BEFORE);
    env.write_tiny();
    let mut ids = vec![env.repo.commit("A kernel")];
    fs::rename(env.path("src/k.cu"), env.path("src/kernel.cu")).unwrap();
    ids.push(env.repo.commit("Rename"));
    fs::set_permissions(env.path("src/kernel.cu"), Permissions::from_mode(0o755)).unwrap();
    ids.push(env.repo.commit("Let it run"));
    ids.push(env.repo.commit("Nothing"));
    for (submodule, subject) in [("1", "Add a library"), ("2", "Move the library")] {
        fs::remove_file(env.path("lib/other.h")).ok();
        let entry = format!("160000,{},lib/deep", submodule.repeat(40));
        env.repo.git(&["update-index", "--add", "--cacheinfo", &entry]);
        env.repo.write("notes.txt", subject);
        fs::create_dir_all(env.path("lib/deep")).unwrap();
        ids.push(env.repo.commit(subject));
    }
    let revisions = ["main~4", "main~3", "main~2", "main~1", "main"];
    let refusals = revisions.map(|rev| refusal(&env, rev, &ids));
    insta::assert_snapshot!(refusals.join("\n"), @"
    main~4:
    refused: [C1] is no worse than its parent: identical
    hint: it renames files and changes no line: `replay bisect FIXTURE --good REV --bad REV` finds the commit with the defect

    main~3:
    refused: [C2] is no worse than its parent: identical
    hint: it changes modes of files and no line: `replay bisect FIXTURE --good REV --bad REV` finds the commit with the defect

    main~2:
    refused: [C2] and [C3] have the same sources
    hint: it changes no file: `replay bisect FIXTURE --good REV --bad REV` finds the commit with the defect

    main~1:
    refused: [C4] is no worse than its parent: identical
    hint: it adds or removes the submodule lib/deep, whose files no replay reads: name a folder of its headers in `system_include`, or a copy in `overlay`

    main:
    refused: [C5] is no worse than its parent: identical
    hint: it moves the submodule lib/deep, whose files no replay reads: search there, from 1111111 to 2222222, with a harness that names the submodule's own `repository`
    ");
}

/// The lines of a refused `replay blame`.
fn refusal(env: &TestEnv, words: &str, ids: &[String]) -> String {
    let run = blame(env, words);
    assert_eq!(run.code, Some(1), "{}", run.text());
    format!("{words}:\n{}", masked(&run.stdout, ids))
}

#[test]
fn what_the_parent_shows_already_is_not_blamed_on_a_commit() {
    let versions = [
        RIGHT,
        ("x[i] * 2.0f", "abort();"),
        ("x[i] * 2.0f", "abort( );"),
        ("x[i] * 2.0f", "exit(3);"),
        ("x[i] * 2.0f", " "),
        ("x[i] * 2.0f", ""),
        BROKEN,
    ];
    let (env, ids) = history(TestEnv::new(), &versions);
    let words = [
        "main~4",
        "main~3",
        "main~2",
        "main~2 --on failed",
        "main~1 --on bits",
        "main~1 --on failed",
    ];
    let refusals = words.map(|words| refusal(&env, words, &ids));
    insta::assert_snapshot!(refusals.join("\n"), @"
    main~4:
    refused: [C1] is the parent, and bad already: failed: aborted in host code: the code called abort()
    hint: an older commit brought it: `replay bisect FIXTURE --good REV --bad REV` finds it

    main~3:
    refused: [C2] is the parent, and shows something else: failed: aborted in host code: the code called abort()
    hint: `replay log FIXTURE` shows since when the parent fails, `replay FIXTURE --rev REV` one commit in detail

    main~2:
    refused: [C3] is the parent, and shows something else: failed: exit: the code called exit(3) before the call returned
    hint: `replay log FIXTURE` shows since when the parent fails, `replay FIXTURE --rev REV` one commit in detail

    main~2 --on failed:
    refused: [C4] is no worse than its parent: completed
    hint: the parent fails, and it does not: it repairs something

    main~1 --on bits:
    refused: [C5] is no worse than its parent: identical
    hint: its bits are those of the parent: capture inputs on which they differ

    main~1 --on failed:
    refused: [C5] is no worse than its parent: completed
    hint: it does not fail: without `--on failed` its outputs are compared with those of the parent
    ");
}

#[test]
fn a_commit_that_cannot_be_tested_and_one_behind_such_a_one_are_not_blamed() {
    let (env, ids) = history(TestEnv::new(), &[RIGHT, BROKEN, WRONG]);
    let refusals = ["main~1", "main"].map(|words| {
        let run = blame(&env, words).without_compilers_words();
        assert_eq!(run.code, Some(1), "{}", run.text());
        masked(&run.stdout, &ids)
    });
    insta::assert_snapshot!(refusals.join("\n"), @"
    refused: [C1] is neither good nor bad: untestable: the sources do not compile: k.cu:3: error: [MESSAGE]
    hint: `replay FIXTURE --rev REV` shows one commit in detail

    refused: [C1] is neither good nor bad: untestable: the sources do not compile: k.cu:3: error: [MESSAGE]
             [C2] is neither good nor bad: untestable: there is nothing to compare with: the sources do not compile: k.cu:3: error: [MESSAGE]
    hint: `replay FIXTURE --rev REV` shows one commit in detail
    ");
}
