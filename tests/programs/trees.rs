//! The trees that programs see: files of a revision, and nothing of the checkout.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::common::env::TestEnv;

/// A program that shows its tree, and answers as the other one does.
const SHOW: &str = "#!/bin/sh\ncd \"$REPLAY_TREE\" && find . -printf '%y %m %p %l\\n' | sed 's/ *$//' | sort >&2\n\
                    cd - >/dev/null && exec ./speaker\n";

fn with_show(keys: &str) -> TestEnv {
    let env = TestEnv::isolated().with_program(&format!("program = [\"./show.sh\"]\n{keys}"), "");
    fs::write(env.path("show.sh"), SHOW).unwrap();
    fs::set_permissions(env.path("show.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    env.repo.write(".gitignore", "fixtures\nspeaker\nreplay.toml\nshow.sh\n");
    env
}

#[test]
fn a_tree_is_what_git_has_of_it() {
    let env = with_show("tree = [\"kernel.txt\", \"src\"]");
    env.repo.write("src/run.sh", "#!/bin/sh\n");
    fs::set_permissions(env.path("src/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("run.sh", env.path("src/link")).unwrap();
    symlink("../absent", env.path("src/nowhere")).unwrap();
    env.repo.write("src/.hidden/deep/file", "");
    env.repo.write("other/file", "not asked for");
    let commit = env.kernel("divide 3");
    env.repo.write("src/later", "not committed");
    let run = env.replay(&["fixtures/tiny", "--rev", &commit]);
    let (_, printed) = run.stdout.split_once("printed\n").expect("it printed something");
    insta::assert_snapshot!(printed, @"
      | d 555 .
      | d 555 ./src
      | d 555 ./src/.hidden
      | d 555 ./src/.hidden/deep
      | f 444 ./kernel.txt
      | f 444 ./src/.hidden/deep/file
      | f 555 ./src/run.sh
      | l 777 ./src/link run.sh
      | l 777 ./src/nowhere ../absent

    completed: every output is finite; unwritten elements do not show
    ");
}

#[test]
fn a_link_that_leads_out_of_the_tree_is_refused() {
    let env = TestEnv::with_speaker();
    symlink("../../etc", env.path("out")).unwrap();
    insta::assert_snapshot!(env.replay_kernel("divide 3", &[]).text(), @"
    exit code 125
    --- stderr
    error: revision a5bb1aa has a symlink `out` that leads outside, to `../../etc`
    ");
    fs::remove_file(env.path("out")).unwrap();
    symlink(".", env.path("here")).unwrap();
    symlink("here/../..", env.path("up")).unwrap();
    insta::assert_snapshot!(env.replay_kernel("divide 4", &[]).text(), @"
    exit code 125
    --- stderr
    error: revision 93ec75a has a symlink `up` that leads outside, to `here/../..`
    ");
}

#[test]
fn what_a_tree_lacks_is_named_where_it_cannot_be_run() {
    let env = TestEnv::with_speaker();
    env.repo
        .write("data/weights.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
    let head = env.kernel("divide 3");
    env.repo.git(&[
        "update-index",
        "--add",
        "--cacheinfo",
        &format!("160000,{},third_party/lib", full(&env, &head)),
    ]);
    env.repo.git(&["commit", "-m", "A submodule"]);
    let works = env.replay(&["fixtures/tiny", "--rev", "HEAD"]);
    assert_eq!(works.code, Some(0), "{}", works.text());
    fs::write(env.path("kernel.txt"), "fault revision").unwrap();
    env.repo.git(&["commit", "-m", "Break it", "kernel.txt"]);
    insta::assert_snapshot!(env.replay(&["fixtures/tiny", "--rev", "HEAD"]).text(), @"
    exit code 125
    --- stdout
    tiny at a0ae042 Break it
    CPU, a program

    untestable: it says so
    caused by: line 1
               line 2
    hint: the revision's tree, which is laid out of git's objects, lacks the files of the submodule `third_party/lib`, and the file that Git LFS keeps elsewhere at `data/weights.bin`
    ");
}

fn full(env: &TestEnv, commit: &str) -> String {
    env.repo.git(&["rev-parse", commit]).trim().to_owned()
}

#[test]
fn equal_trees_are_laid_out_once_and_the_checkout_stays() {
    let env =
        TestEnv::isolated().with_program("program = [\"./speaker\"]\ntree = [\"kernel.txt\"]", "");
    let one = env.kernel("divide 3");
    let other = env.repo.commit_file("README", "text", "Say what it is");
    env.repo.write("kernel.txt", "exit 1");
    for commit in [&one, &other] {
        assert_eq!(env.replay(&["fixtures/tiny", "--rev", commit]).code, Some(0));
    }
    let trees = fs::read_dir(env.cache().join("trees")).unwrap().count();
    let outcomes = env.cached("outcomes").len();
    assert_eq!((trees, outcomes), (1, 1));
    assert_eq!(fs::read_to_string(env.path("kernel.txt")).unwrap(), "exit 1");
    assert_eq!(env.repo.git(&["status", "--short"]).trim(), "M kernel.txt");
}

#[test]
fn a_program_that_writes_into_its_tree_fails_and_spoils_no_other_replay() {
    let env = TestEnv::with_speaker();
    let commit = env.kernel("litter");
    let run = env.replay(&["fixtures/tiny", "--rev", &commit]);
    insta::assert_snapshot!(run.last_line(), @"failed: outputs: it changed the revision's tree, at `kernel.txt`");
    assert_eq!(run.code, Some(1));
    let again = env.replay(&["fixtures/tiny", "--rev", &commit, "--fresh"]);
    assert_eq!(again.text(), run.text());
}

#[test]
fn a_tree_that_somebody_changed_is_laid_out_anew() {
    let env = TestEnv::with_speaker();
    let commit = env.kernel("divide 3");
    let replay = || env.replay(&["fixtures/tiny", "--rev", &commit, "--fresh"]);
    let first = replay();
    let tree = fs::read_dir(env.cache().join("trees")).unwrap().flatten().next().unwrap().path();
    let file = tree.join("tree/kernel.txt");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&file, "divide 5").unwrap();
    assert_eq!(replay().text(), first.text());
}

#[test]
fn a_tree_is_built_once() {
    let keys = "program = [\"./speaker\"]\n\
                build = [\"sh\", \"-c\", \"cp source.txt kernel.txt; echo built >> $HOME/log; test -s kernel.txt\"]";
    let env = TestEnv::isolated().with_program(keys, "");
    fs::create_dir_all(env.repo.beside("home")).unwrap();
    let log = || fs::read_to_string(env.repo.beside("home").join("log")).unwrap().lines().count();
    let commit = env.repo.commit_file("source.txt", "divide 3", "A source");
    let replay = |rev: &str| env.replay(&["fixtures/tiny", "--rev", rev, "--fresh"]);
    assert_eq!(replay(&commit).code, Some(0), "{}", replay(&commit).text());
    assert_eq!((replay(&commit).code, log()), (Some(0), 1));
    assert!(!env.path("kernel.txt").exists());
    let broken = env.repo.commit_file("source.txt", "", "No source");
    insta::assert_snapshot!(replay(&broken).text(), @"
    exit code 125
    --- stdout
    tiny at d91ab15 No source
    CPU, a program

    untestable: `sh -c cp source.txt kernel.txt; echo built >> $HOME/log; test -s kernel.txt` fails with exit status 1
    ");
}

#[test]
fn trees_go_when_the_cache_is_cleared() {
    let env = TestEnv::with_speaker();
    env.replay_kernel("divide 3", &[]);
    assert_eq!(env.replay(&["cache", "clear"]).code, Some(0));
    assert!(!env.cache().join("trees").exists());
}
