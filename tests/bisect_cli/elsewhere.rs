//! Work that a scheduler spreads: the same answer, byte for byte, and plain words where there is no cluster.

use crate::env::TestEnv;
use crate::{RIGHT, WRONG, history, isolated};

/// Runs `words` here and then, from an empty cache, as tasks of local processes.
fn both(env: &TestEnv, words: &[&str]) -> [crate::env::Run; 2] {
    let here = env.replay(words);
    std::fs::remove_dir_all(env.cache_parent()).expect("a cache");
    [here, env.replay(&[words, &["--on-cluster", "local"]].concat())]
}

#[test]
fn a_search_on_a_cluster_has_the_answer_of_one_machine() {
    let versions = [RIGHT, RIGHT, WRONG, WRONG];
    let (env, ids) = history(isolated(), &versions);
    let words = ["bisect", "fixtures/tiny", "--good", &ids[0], "--bad", &ids[3], "--jobs", "2"];
    let [here, there] = both(&env, &words);
    assert_eq!((there.code, &there.stdout), (here.code, &here.stdout), "{}", there.text());
    assert!(there.stdout.starts_with(&format!("{} is the first bad commit", &ids[2][..7])));
    for (commit, answer) in [(0, "good"), (3, "bad"), (2, "bad"), (1, "good")] {
        let line = format!("{} {answer}: ", &ids[commit][..7]);
        assert_eq!(there.stderr.matches(&line).count(), 1, "{}", there.stderr);
    }
    let left = env.cache_parent().join("cluster");
    assert_eq!(left.read_dir().expect("a folder").count(), 0, "tasks are gone with the answer");
}

#[test]
fn a_log_and_a_replay_on_a_cluster_print_what_one_machine_prints() {
    let (env, ids) = history(isolated(), &[RIGHT, WRONG]);
    let range = format!("{}..{}", ids[0], ids[1]);
    let [here, there] = both(&env, &["log", "fixtures/tiny", &range]);
    assert_eq!(there.text(), here.text());
    let [here, there] = both(&env, &["fixtures/tiny", "--rev", &ids[1], "--against", &ids[0]]);
    assert_eq!((there.code, here.code), (Some(1), Some(1)));
    assert_eq!(there.stdout, here.stdout);
}

#[test]
fn a_machine_without_the_scheduler_says_so() {
    let (env, ids) = history(isolated(), &[RIGHT, WRONG]);
    let words = ["bisect", "fixtures/tiny", "--good", &ids[0], "--bad", &ids[1]];
    let mut command = env.command(&[&words[..], &["--on-cluster", "slurm"]].concat());
    insta::assert_snapshot!(env.finish(command.env("PATH", "")).text(), @"
    exit code 128
    --- stderr
    error: cannot start `sbatch`
    caused by: No such file or directory (os error 2)
    hint: `sbatch` is part of the scheduler: run this where jobs are submitted from
    ");
    let run = env.replay(&[&words[..], &["--gres", "gpu:1"]].concat());
    insta::assert_snapshot!(run.text(), @"
    exit code 128
    --- stderr
    error: the following required arguments were not provided:
      --on-cluster <ENGINE>

    Usage: replay bisect --good <REV>... --bad <REV>... --on-cluster <ENGINE> --gres <LIST> <FIXTURE>...

    For more information, try '--help'.
    ");
}

#[test]
fn a_folder_for_tasks_that_cannot_be_made_is_named() {
    let (env, ids) = history(isolated(), &[RIGHT, WRONG]);
    let words = ["bisect", "fixtures/tiny", "--good", &ids[0], "--bad", &ids[1]];
    let more = ["--on-cluster", "local", "--cluster-dir", "k.cu"];
    let run = env.replay(&[&words[..], &more].concat());
    let text = run.text();
    let start = text.find("/k.cu/replay-").expect("the folder") + "/k.cu/replay-".len();
    let text = text.replace(&text[start..start + 16], "[KEY]");
    insta::assert_snapshot!(text, @"
    exit code 128
    --- stderr
    error: cannot make [ROOT]/k.cu/replay-[KEY]/results
    caused by: Not a directory (os error 20)
    hint: --cluster-dir names a folder that all nodes can read and write
    ");
}
