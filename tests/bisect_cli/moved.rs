//! Histories in which the files that a harness names moved: with all their names in `replay.toml` a search goes on
//! over the move; without them the answer says what to write there.

use crate::bisect_cli::{CALL, RIGHT, WRONG, kernel, search, without_diff};
use crate::common::env::{TestEnv, harness};

/// The harness with `sources` and `include` as `keys` say, in TOML.
fn write_harness(env: &TestEnv, keys: &str) {
    let text = harness(&format!("call = {CALL:?}"));
    env.repo.write("replay.toml", text.replace("sources = [\"k.cu\"]", keys));
}

/// Five commits with a defect at one of them; before the third `move_files` is done to the working tree, which
/// writes `factor` by `write_factor`. Ids by number.
fn moved_history(
    keys: &str,
    first_wrong: usize,
    write_factor: impl Fn(&TestEnv, &str, usize),
    move_files: impl Fn(&TestEnv),
) -> (TestEnv, Vec<String>) {
    let env = TestEnv::new();
    env.repo.write(".gitignore", "fixtures\nreplay.toml\n");
    env.write_tiny();
    write_harness(&env, keys);
    let mut ids = Vec::new();
    for number in 0..5 {
        if number == 2 {
            move_files(&env);
        } else {
            let (factor, _) = if number >= first_wrong { WRONG } else { RIGHT };
            write_factor(&env, factor, number);
        }
        ids.push(env.repo.commit(&format!("c{number}")));
    }
    (env, ids)
}

/// The first line of the answer of a search between the ends, with numbers in place of ids.
fn culprit(env: &TestEnv, ids: &[String]) -> String {
    let run = search(env, &format!("--good {} --bad {}", ids[0], ids[4]));
    assert_eq!(run.code, Some(0), "{}", run.text());
    without_diff(&run.stdout, ids).lines().next().unwrap_or_default().to_owned()
}

/// A kernel that moves from `k.cu` to `kernels/k.cu`.
fn with_moved_source(keys: &str, first_wrong: usize) -> (TestEnv, Vec<String>) {
    let write = |env: &TestEnv, factor: &str, number: usize| {
        let path = if number < 2 { "k.cu" } else { "kernels/k.cu" };
        env.repo.write(path, kernel(factor, "", &number.to_string()));
    };
    let move_files = |env: &TestEnv| {
        std::fs::create_dir(env.path("kernels")).expect("a folder");
        env.repo.git(&["mv", "k.cu", "kernels/k.cu"]);
    };
    moved_history(keys, first_wrong, write, move_files)
}

const BOTH_SOURCES: &str = "sources = [[\"kernels/k.cu\", \"k.cu\"]]";

#[test]
fn a_defect_before_the_move_of_the_source_is_found_where_both_names_are_given() {
    let (env, ids) = with_moved_source(BOTH_SOURCES, 1);
    assert_eq!(culprit(&env, &ids), "[C1] is the first bad commit: c1");
}

#[test]
fn a_defect_behind_the_move_of_the_source_is_found_where_both_names_are_given() {
    let (env, ids) = with_moved_source(BOTH_SOURCES, 3);
    assert_eq!(culprit(&env, &ids), "[C3] is the first bad commit: c3");
    let range = format!("{}..{}", ids[0], ids[4]);
    let log = env.replay(&["log", "fixtures/tiny", &range]);
    insta::assert_snapshot!(without_diff(&log.stdout, &ids), @"
    [C3] c3
      diverged: y (the mathematics changed)
      y: 100 % of bits differ, rel. 0.25, 4 elements beyond noise
      against [C2]

    changed sources and no output:
      [C1] c1
      [C2] c2
      [C4] c4

    races were not looked for: `--check auto` looks for them
    1 change at 1 commit of 4 commits, 5 variants replayed
    ");
}

/// A kernel whose factor stands in a header, the folder of which moves from `include` to `headers`.
fn with_moved_include(keys: &str, first_wrong: usize) -> (TestEnv, Vec<String>) {
    let write = |env: &TestEnv, factor: &str, number: usize| {
        let source = kernel("FACTOR", "", "all");
        env.repo.write("k.cu", format!("#include <factor.h>\n{source}"));
        let folder = if number < 2 { "include" } else { "headers" };
        let header = format!("#define FACTOR {factor}\n// {number}\n");
        env.repo.write(&format!("{folder}/factor.h"), header);
    };
    moved_history(keys, first_wrong, write, |env| {
        env.repo.git(&["mv", "include", "headers"]);
    })
}

const BOTH_INCLUDES: &str = "sources = [\"k.cu\"]\ninclude = [[\"headers\", \"include\"]]";

#[test]
fn a_defect_before_the_move_of_an_include_folder_is_found_where_both_names_are_given() {
    let (env, ids) = with_moved_include(BOTH_INCLUDES, 1);
    assert_eq!(culprit(&env, &ids), "[C1] is the first bad commit: c1");
}

#[test]
fn a_defect_behind_the_move_of_an_include_folder_is_found_where_both_names_are_given() {
    let (env, ids) = with_moved_include(BOTH_INCLUDES, 4);
    assert_eq!(culprit(&env, &ids), "[C4] is the first bad commit: c4");
}

#[test]
fn an_end_with_the_source_under_another_name_says_what_to_write_for_it() {
    let (env, ids) = with_moved_source("sources = [\"kernels/k.cu\"]", 3);
    let run = search(&env, &format!("--good {} --bad {} --jobs 1", ids[0], ids[4]));
    insta::assert_snapshot!(without_diff(&run.text(), &ids), @r#"
    exit code 1
    --- stdout
    refused: [C0] is neither good nor bad: untestable: revision [C0] has no file or folder `kernels/k.cu`: git sees it at `k.cu` there
             [C4] is neither good nor bad: untestable: there is nothing to compare with: revision [C0] has no file or folder `kernels/k.cu`: git sees it at `k.cu` there
    hint: of several names the first that is there is taken; in replay.toml: sources = [["kernels/k.cu", "k.cu"]]
    --- stderr
    3 of 4 commits change a kernel, 1 tested at a time
    [C0] untestable: revision [C0] has no file or folder `kernels/k.cu`: git sees it at `k.cu` there
    [C4] untestable: there is nothing to compare with: revision [C0] has no file or folder `kernels/k.cu`: git sees it at `k.cu` there
    "#);
    write_harness(&env, hinted_line(&run.stdout));
    assert_eq!(culprit(&env, &ids), "[C3] is the first bad commit: c3");
}

#[test]
fn an_end_with_the_include_folder_under_another_name_says_what_to_write_for_it() {
    let keys = "sources = [\"k.cu\"]\ninclude = [\"headers\"]";
    let (env, ids) = with_moved_include(keys, 4);
    let run = search(&env, &format!("--good {} --bad {} --jobs 1", ids[0], ids[4]));
    insta::assert_snapshot!(without_diff(&run.text(), &ids), @r#"
    exit code 1
    --- stdout
    refused: [C0] is neither good nor bad: untestable: revision [C0] has no file or folder `headers`: git sees it at `include` there
             [C4] is neither good nor bad: untestable: there is nothing to compare with: revision [C0] has no file or folder `headers`: git sees it at `include` there
    hint: of several names the first that is there is taken; in replay.toml: include = [["headers", "include"]]
    --- stderr
    3 of 4 commits change a kernel, 1 tested at a time
    [C0] untestable: revision [C0] has no file or folder `headers`: git sees it at `include` there
    [C4] untestable: there is nothing to compare with: revision [C0] has no file or folder `headers`: git sees it at `include` there
    "#);
    write_harness(&env, &format!("sources = [\"k.cu\"]\n{}", hinted_line(&run.stdout)));
    assert_eq!(culprit(&env, &ids), "[C4] is the first bad commit: c4");
}

/// The line for `replay.toml` that a hint ends with.
fn hinted_line(text: &str) -> &str {
    let hint = text.lines().find(|line| line.starts_with("hint: ")).expect("a hint");
    let line = hint.split_once("in replay.toml: ").expect("a line for the harness").1;
    line.trim()
}

#[test]
fn commits_between_the_ends_with_the_source_under_another_name_are_told_with_what_to_write() {
    let (env, mut ids) = with_moved_source("sources = [\"k.cu\"]", 4);
    env.repo.git(&["mv", "kernels/k.cu", "k.cu"]);
    ids[4] = env.repo.commit("back again");
    let run = search(&env, &format!("--good {} --bad {} --jobs 1", ids[0], ids[4]));
    insta::assert_snapshot!(without_diff(&run.text(), &ids), @r#"
    exit code 125
    --- stdout
    untestable commits hide the first bad commit; it is one of these 2:
      [C2] c2
        untestable: revision [C2] has no file or folder `k.cu`: git sees it at `kernels/k.cu` there
      [C4] back again
        diverged: y (wrong)
    hint: of several names the first that is there is taken; in replay.toml: sources = [["k.cu", "kernels/k.cu"]]
    --- stderr
    3 of 5 commits change a kernel, 1 tested at a time
    [C0] good: identical
    [C4] bad: diverged: y (wrong)
    [C1] good: identical
    [C2] untestable: revision [C2] has no file or folder `k.cu`: git sees it at `kernels/k.cu` there
    "#);
    write_harness(&env, hinted_line(&run.stdout));
    let run = search(&env, &format!("--good {} --bad {} --jobs 1", ids[0], ids[4]));
    assert_eq!(run.code, Some(0), "{}", run.text());
}

/// Twelve commits of a library with a defect at the eighth: the source is renamed at the third and the tenth, and a
/// header comes at the sixth.
fn twice_renamed_history(keys: &str) -> (TestEnv, Vec<String>) {
    let env = TestEnv::new();
    env.repo.write(".gitignore", "fixtures\nreplay.toml\n");
    env.write_tiny();
    write_harness(&env, keys);
    let name = |number: usize| match number {
        0..2 => "k.cu",
        2..9 => "src/k.cu",
        _ => "csrc/kernels/k.cu",
    };
    let mut ids = Vec::new();
    for number in 0..12 {
        if number == 2 || number == 9 {
            let folder = name(number).rsplit_once('/').expect("a folder").0;
            std::fs::create_dir_all(env.path(folder)).expect("a folder");
            env.repo.git(&["mv", name(number - 1), name(number)]);
        } else {
            let (factor, _) = if number >= 7 { WRONG } else { RIGHT };
            let source = if number < 5 {
                kernel(factor, "", &number.to_string())
            } else {
                env.repo.write("util/factor.h", format!("#define FACTOR {factor}\n// {number}\n"));
                format!("#include <factor.h>\n{}", kernel("FACTOR", "", &number.to_string()))
            };
            env.repo.write(name(number), source);
        }
        ids.push(env.repo.commit(&format!("c{number}")));
    }
    (env, ids)
}

#[test]
fn a_search_goes_over_two_renames_and_a_header_that_comes_later() {
    let keys = "sources = [[\"csrc/kernels/k.cu\", \"src/k.cu\", \"k.cu\"]]\n\
                include = [{ path = \"util\", optional = true }]";
    let (env, ids) = twice_renamed_history(keys);
    let run = search(&env, &format!("--good {} --bad {}", ids[0], ids[11]));
    assert_eq!(run.code, Some(0), "{}", run.text());
    let answer = without_diff(&run.stdout, &ids);
    assert_eq!(answer.lines().next(), Some("[C7] is the first bad commit: c7"), "{}", run.text());
    assert!(!run.text().contains("untestable"), "{}", run.text());
}
