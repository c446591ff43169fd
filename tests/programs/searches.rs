//! Searches over revisions that a program runs.

use replay::tensor::DType;

use crate::common::env::TestEnv;

#[test]
fn what_a_program_notes_is_shown_once_a_search() {
    let env = TestEnv::with_speaker();
    let good = env.kernel("divide 3\nnote beware");
    env.kernel("divide 3\nnote beware\nsay again");
    env.kernel("divide 4\nnote beware");
    let bad = env.kernel("divide 4\nnote beware\nsay more");
    let found = env.replay(&["bisect", "fixtures/tiny", "--good", &good, "--bad", &bad]);
    let noted = format!("{}{}", found.stdout, found.stderr);
    assert_eq!(noted.matches("note: beware").count(), 1, "{}", found.text());
}

#[test]
fn a_bisect_names_the_commit_among_those_that_cannot_be_run() {
    let env =
        TestEnv::isolated().with_program("program = [\"./speaker\"]\ntree = [\"kernel.txt\"]", "");
    let good = env.kernel("divide 3");
    env.repo.commit_file("README", "no code", "Say what it is");
    env.kernel("divide 3\nfault revision");
    env.kernel("divide 3\nexit 125\nsay no module named sympy");
    env.kernel("divide 3\nsay again");
    env.kernel("divide 3\nscale 2");
    env.repo.commit_file("README", "no code either", "Say more");
    let bad = env.kernel("divide 3\nscale 2\nsay more");
    let found = env.replay(&["bisect", "fixtures/tiny", "--good", &good, "--bad", &bad]);
    insta::assert_snapshot!(found.stdout, @r#"
    0789e24 is the first bad commit: Make it divide 3 scale 2
      dx diverged: wrong, not imprecise: the float64 shadow changed too (rel. 1)
         100 % of bits differ, rel. 1, 4 elements beyond noise
         worst at [0]: 0.333333343 -> 0.666666687, 3728270 x noise, 1.12e7 ulp
         error against the trusted shadow: 2.5e-8 -> 1
         everywhere
      e93e301, its parent, was tested: identical

    diff --git a/kernel.txt b/kernel.txt
    index 0222502..e519c82 100644
    --- a/kernel.txt
    +++ b/kernel.txt
    @@ -1,2 +1,2 @@
     divide 3
    -say again
    \ No newline at end of file
    +scale 2
    \ No newline at end of file
    "#);
    let log = env.replay(&["log", "fixtures/tiny", &format!("{good}..{bad}")]);
    insta::assert_snapshot!(log.stdout, @"
    70e105c Make it divide 3 fault revision
      untestable: it says so
      against 4ffc4ea

    0789e24 Make it divide 3 scale 2
      diverged: dx (the mathematics changed)
      dx: 100 % of bits differ, rel. 1, 4 elements beyond noise
      against e93e301

    changed sources and no output:
      e93e301 Make it divide 3 say again
      8209969 Make it divide 3 scale 2 say more

    could not be tested:
      1a01d23 Make it divide 3 exit 125 say no module named sympy
        no module named sympy

    2 changes at 2 commits of 7 commits, 4 variants replayed, 2 could not be tested
    ");
}

#[test]
fn commits_that_touch_no_file_that_a_replay_opens_are_not_tested() {
    let keys = "program = [\"./speaker\"]\ntree = [\"kernel.txt\", \"notes\"]";
    let env = TestEnv::isolated().with_program(keys, "");
    env.repo.write("notes/a", "none");
    let good = env.kernel("divide 3");
    let mut culprit = String::new();
    for number in 0..12 {
        env.repo.commit_file("notes/a", &number.to_string(), "Note something");
        if number == 6 {
            culprit = env.kernel("divide 4");
        }
    }
    let bad = env.kernel("divide 4\nsay more");
    let search = ["bisect", "fixtures/tiny", "--good", &good, "--bad", &bad, "--jobs", "1"];
    let found = env.replay(&search);
    let answer = format!("{} is the first bad commit: ", &culprit[..7]);
    assert!(found.stdout.starts_with(&answer), "{}", found.text());
    let note = "note: of 15 variants, 3 differ in a name or in a file that a replay opened\n";
    assert!(found.stdout.contains(note), "{}", found.text());
    let tests =
        found.stderr.lines().filter(|line| line.contains(" good: ") || line.contains(" bad: "));
    // Both ends, the culprit, and its parent from a tree of its own.
    assert_eq!(tests.count(), 4, "{}", found.text());
    let known = env.replay(&[&search[..], &["--format", "json"]].concat());
    assert!(
        known.stdout.contains("\"grouped\":{\"variants\":15,\"groups\":3}"),
        "{}",
        known.text()
    );
}

#[test]
fn commits_with_other_outputs_are_judged_by_the_wanted_ones_wherever_they_exist() {
    for other in ["extra", "omit", "flat", "double"] {
        let env = TestEnv::isolated().with_program("program = [\"./speaker\"]\npreload = []", "");
        let good = env.kernel("divide 3");
        env.kernel(&format!("divide 3\n{other}"));
        let culprit = env.kernel(&format!("divide 4\n{other}"));
        let bad = env.kernel("divide 4");
        let ends = ["bisect", "fixtures/tiny", "--good", &good, "--bad", &bad, "--jobs", "1"];
        let found = env.replay(&ends);
        assert_eq!(found.code, Some(0), "{other}: {}", found.text());
        let answer = format!("{} is the first bad commit: ", &culprit[..7]);
        assert!(found.stdout.starts_with(&answer), "{other}: {}", found.text());
    }
}

#[test]
fn two_revisions_are_compared_tensor_by_tensor() {
    let env = TestEnv::with_speaker();
    let before = env.kernel("divide 3");
    let after = env.kernel("divide 3.0001");
    insta::assert_snapshot!(env.replay(&["diff", "fixtures/tiny", &before, &after]).text(), @"
    exit code 1
    --- stdout
    tiny at 39854f8 Make it divide 3
    tiny at e02d5b3 Make it divide 3.0001

    outputs
      loss  diverged: wrong, not imprecise: the float64 shadow changed too (rel. 3.3e-5)
            100 % of bits differ, rel. 3.3e-5, 1 element beyond noise
            worst: 5 -> 4.99983358, 174 x noise, 349 ulp
            error against the trusted shadow: 0 -> 3.3e-5
            everywhere
      dx    diverged: wrong, not imprecise: the float64 shadow changed too (rel. 3.3e-5)
            100 % of bits differ, rel. 3.3e-5, 4 elements beyond noise
            worst at [2]: 1 -> 0.999966681, 186 x noise, 280 ulp
            error against the trusted shadow: 2.5e-8 -> 3.3e-5
            everywhere
            noise by inputs moved a unit in the last place: other roundings leave it

    diverged: loss (wrong), dx (wrong)
    ");
}

#[test]
fn a_search_whose_good_end_cannot_be_run_believes_no_other() {
    let env = TestEnv::with_speaker();
    let good = env.kernel("exit 125\nsay no module named sympy");
    env.kernel("exit 125\nsay nor here");
    let bad = env.kernel("exit 125\nsay no module named sympy, again");
    let ends = ["bisect", "fixtures/tiny", "--good", &good, "--bad", &bad];
    let found = env.replay(&[&ends[..], &["--jobs", "1"]].concat());
    insta::assert_snapshot!(found.text(), @"
    exit code 1
    --- stdout
    refused: 1be287c is neither good nor bad: untestable: no module named sympy
             6c4edd7 is neither good nor bad: untestable: no module named sympy, again
    hint: name other ends; `replay FIXTURE --rev REV` shows one commit in detail
    --- stderr
    2 of 2 commits change a kernel, 1 tested at a time
    1be287c untestable: no module named sympy
    6c4edd7 untestable: no module named sympy, again
    ");
}

#[test]
fn what_keeps_an_end_from_being_tested_is_told_in_lines_below_it() {
    let env = TestEnv::with_speaker();
    let good = env.kernel("fault revision");
    let bad = env.kernel("fault revision\nagain");
    let ends = ["bisect", "fixtures/tiny", "--good", &good, "--bad", &bad, "--jobs", "1"];
    insta::assert_snapshot!(env.replay(&ends).text(), @"
    exit code 1
    --- stdout
    refused: 8ef7dce is neither good nor bad: untestable: it says so
               caused by: line 1
                          line 2
             6627b5c is neither good nor bad: untestable: it says so
               caused by: line 1
                          line 2
    hint: name other ends; `replay FIXTURE --rev REV` shows one commit in detail
    --- stderr
    1 of 1 commits change a kernel, 1 tested at a time
    8ef7dce untestable: it says so
    6627b5c untestable: it says so
    ");
}

#[test]
fn a_broken_environment_ends_a_search() {
    let env = TestEnv::with_speaker();
    let good = env.kernel("divide 3");
    env.kernel("divide 3\nfault environment");
    let bad = env.kernel("divide 4");
    let found = env.replay(&["bisect", "fixtures/tiny", "--good", &good, "--bad", &bad]);
    assert_eq!(found.code, Some(128), "{}", found.text());
}

#[test]
fn a_missing_module_is_the_commits_fault_where_the_ends_of_a_search_run() {
    let env = TestEnv::with_speaker();
    let good = env.kernel("divide 3");
    let importing = env.kernel("divide 3\nfault environment\nmodule einops");
    let bad = env.kernel("divide 4");
    let found = env.replay(&["bisect", "fixtures/tiny", "--good", &good, "--bad", &bad]);
    insta::assert_snapshot!(found.stdout, @"
    untestable commits hide the first bad commit; it is one of these 2:
      0b05f34 Make it divide 3 fault environment module einops
        untestable: the program's environment: it says so
      c7622e7 Make it divide 4
        diverged: loss (wrong), dx (wrong)
    hint: install it
    ");
    let log = env.replay(&["log", "fixtures/tiny", &format!("{good}..{bad}")]);
    insta::assert_snapshot!(log.stdout, @"
    c7622e7 Make it divide 4
      diverged: loss (the mathematics changed), dx (the mathematics changed)
      loss: 100 % of bits differ, rel. 0.25, 1 element beyond noise
      dx: 100 % of bits differ, rel. 0.25, 4 elements beyond noise
      against 39854f8: 0b05f34 cannot be tested

    could not be tested:
      0b05f34 Make it divide 3 fault environment module einops
        the program's environment: it says so

    1 change at 1 commit of 2 commits, 2 variants replayed, 1 could not be tested
    ");
    let of_end = env.replay(&["bisect", "fixtures/tiny", "--good", &good, "--bad", &importing]);
    let base = env.kernel("fault environment\nmodule einops");
    let next = env.kernel("fault environment\nmodule einops\nsay again");
    let of_all = env.replay(&["log", "fixtures/tiny", &format!("{base}..{next}")]);
    let of_plain = env.replay(&["fixtures/tiny", "--rev", &importing]);
    for run in [of_end, of_all, of_plain] {
        assert_eq!(run.code, Some(128), "{}", run.text());
        assert!(run.stderr.contains("hint: install it"), "{}", run.text());
    }
}

/// The first line of a search over a history in which the program's file moves into a folder between two kernels
/// before and two behind.
fn culprit_over_the_move_of_a_tree(kernels: [&str; 4]) -> String {
    let keys = "program = [\"./speaker\"]\ntree = [[\"moved\", \"kernel.txt\"]]";
    let env = TestEnv::isolated().with_program(keys, "");
    let good = env.kernel(kernels[0]);
    env.kernel(kernels[1]);
    std::fs::create_dir(env.path("moved")).expect("a folder");
    env.repo.git(&["mv", "kernel.txt", "moved/kernel.txt"]);
    env.repo.commit("Move it");
    env.repo.commit_file("moved/kernel.txt", kernels[2], &format!("Make it {}", kernels[2]));
    let bad =
        env.repo.commit_file("moved/kernel.txt", kernels[3], &format!("Make it {}", kernels[3]));
    let found = env.replay(&["bisect", "fixtures/tiny", "--good", &good, "--bad", &bad]);
    assert_eq!(found.code, Some(0), "{}", found.text());
    let line = found.stdout.lines().next().unwrap_or_default();
    line.split_once(' ').expect("an id").1.to_owned()
}

#[test]
fn a_defect_before_the_move_of_a_programs_tree_is_found_where_both_names_are_given() {
    let found =
        culprit_over_the_move_of_a_tree(["divide 3", "divide 4", "divide 4\nsay it", "divide 4"]);
    assert_eq!(found, "is the first bad commit: Make it divide 4");
}

#[test]
fn a_defect_behind_the_move_of_a_programs_tree_is_found_where_both_names_are_given() {
    let found = culprit_over_the_move_of_a_tree([
        "divide 3",
        "divide 3\nsay it",
        "divide 4",
        "divide 4\nsay it",
    ]);
    assert_eq!(found, "is the first bad commit: Make it divide 4");
}

#[test]
fn one_run_does_for_a_commit_with_known_bits_unless_the_answer_rests_on_it() {
    let env = TestEnv::with_speaker();
    let good = env.kernel("divide 3");
    let marks: Vec<_> = (0..8).map(|number| env.repo.beside(&format!("mark{number}"))).collect();
    let commits: Vec<String> = (0..8)
        .map(|number| {
            let divisor = if number < 5 { 3 } else { 4 };
            env.kernel(&format!("divide {divisor}\norders {}", marks[number].display()))
        })
        .collect();
    let bad = env.kernel("divide 4");
    let search = ["bisect", "fixtures/tiny", "--good", &good, "--bad", &bad, "--jobs", "1"];
    let found = env.replay(&search);
    let answer = format!("{} is the first bad commit: ", &commits[5][..7]);
    assert!(found.stdout.starts_with(&answer), "{}", found.text());
    let count_runs = || -> Vec<usize> {
        let texts = marks.iter().map(|mark| std::fs::read_to_string(mark).unwrap_or_default());
        texts.map(|text| text.split_whitespace().count()).collect()
    };
    let runs = count_runs();
    // The parent and the culprit are run once more, among other memory; no other commit is.
    assert_eq!(runs[4..6], [2, 2], "{runs:?}");
    assert!([&runs[..4], &runs[6..]].concat().iter().all(|&count| count <= 1), "{runs:?}");
    assert!(runs.iter().sum::<usize>() > 4, "{runs:?}");
    // Another search knows what one run showed.
    assert!(env.replay(&search).stdout.starts_with(&answer));
    assert_eq!(count_runs(), runs);
}

#[test]
fn what_one_run_does_not_show_is_found_before_the_answer() {
    let env = TestEnv::with_speaker();
    let good = env.kernel("divide 3");
    // It fails among NaN alone.
    env.kernel("divide 3\noutside 2");
    let bad = env.kernel("divide 4");
    let found = env.replay(&["bisect", "fixtures/tiny", "--good", &good, "--bad", &bad]);
    assert!(found.stderr.contains("9f8425c good: identical"), "{}", found.text());
    insta::assert_snapshot!(found.stdout, @"
    commits that are neither good nor bad hide the first bad commit; it is one of these 2:
      9f8425c Make it divide 3 outside 2
        failed: reads outside its tensors: 1 of 4 elements of dx, first at [2]
      b19a318 Make it divide 4
        diverged: loss (wrong), dx (wrong)
    hint: the search was for what the bad end shows (dx diverged, loss diverged); for the other, name 9f8425c as bad
    hint: `replay log FIXTURE 9f8425c^..b19a318` compares each of them with the commit before it
    ");
}

#[test]
fn a_cut_that_leaves_the_same_bits_is_not_measured() {
    let env = TestEnv::isolated().with_program("program = [\"./speaker\"]\npreload = []", "");
    let x = [0.0, 5.0].map(f32::to_le_bytes).concat();
    env.write_fixture("one", &[("x", DType::F32, &[2], &x)]);
    let good = env.kernel("divide 3");
    let bad = env.kernel("divide 3\nscale 2");
    let shrunk = env.replay(&["shrink", "fixtures/one", "--rev", &bad, "--against", &good, "-v"]);
    assert_eq!(shrunk.code, Some(0), "{}", shrunk.text());
    // Its values are tried as zeros, too.
    let spans = |name: &str| {
        let lines = shrunk.stderr.lines().filter(|line| !line.contains("in all"));
        lines.filter(|line| line.split_whitespace().nth(2) == Some(name)).count()
    };
    assert!(spans("noise") + 2 <= spans("replay"), "{}", shrunk.text());
}
