//! Work that a scheduler spreads: the same answer, byte for byte, and plain words where there is no cluster.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::bisect_cli::{RIGHT, WRONG, history, isolated};
use crate::common::compiled::refuse_missing_gold;
use crate::common::env::{Run, TestEnv};

/// Runs `words` here and then, with no result known, as tasks of local processes.
fn both(env: &TestEnv, words: &[&str]) -> [crate::common::env::Run; 2] {
    let here = env.replay(words);
    env.forget_results();
    [here, env.replay(&[words, &["--on-cluster", "local"]].concat())]
}

#[test]
fn a_search_on_a_cluster_has_the_answer_of_one_machine() {
    let versions = [RIGHT, RIGHT, WRONG, WRONG];
    let (env, ids) = history(TestEnv::with_own_replays(), &versions);
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
fn a_search_without_a_claim_on_a_cluster_has_the_answer_of_one_machine() {
    let aborts = (RIGHT.0, "abort();");
    let (env, ids) = history(TestEnv::with_own_replays(), &[aborts, aborts, RIGHT, RIGHT]);
    let words = ["bisect", "fixtures/tiny", "--old", &ids[0], "--new", &ids[3], "--jobs", "2"];
    let [here, there] = both(&env, &words);
    assert_eq!((there.code, &there.stdout), (here.code, &here.stdout), "{}", there.text());
    assert!(there.stdout.starts_with(&format!("{} repairs failed: fault", &ids[2][..7])));
}

#[test]
fn a_log_and_a_replay_on_a_cluster_print_what_one_machine_prints() {
    // Wrong, right again, other bits, and a commit that changes nothing.
    let versions = [RIGHT, WRONG, RIGHT, ("x[i] * 2 + 1e-7f", ""), ("x[i] * 2 + 1e-7f", "")];
    let (env, ids) = history(TestEnv::with_own_replays(), &versions);
    let range = format!("{}..{}", ids[0], ids[4]);
    let [here, there] = both(&env, &["log", "fixtures/tiny", &range, "--jobs", "2"]);
    assert_eq!(there.text(), here.text());
    let [here, there] = both(&env, &["fixtures/tiny", "--rev", &ids[1], "--against", &ids[0]]);
    assert_eq!((there.code, here.code), (Some(1), Some(1)));
    assert_eq!(there.stdout, here.stdout);
}

#[test]
fn a_machine_without_the_scheduler_says_so() {
    let (env, ids) = history(TestEnv::with_own_replays(), &[RIGHT, WRONG]);
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

    Usage: replay bisect --on-cluster <ENGINE> --good <REV>... --bad <REV>... --gres <LIST> <FIXTURE>...

    For more information, try '--help'.
    ");
}

#[test]
fn a_folder_for_tasks_that_cannot_be_made_is_named() {
    let (env, ids) = history(TestEnv::with_own_replays(), &[RIGHT, WRONG]);
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

/// A compiler that notes whose kernels it links. While there is a gate, those of the first and of the last commit
/// wait until all others were linked.
struct Compiler<'e> {
    env: &'e TestEnv,
    last: usize,
}

impl Compiler<'_> {
    fn new(env: &TestEnv, last: usize) -> Compiler<'_> {
        let compiler = Compiler { env, last };
        let [path, noted, gate] =
            ["compiler", "noted", "gate"].map(|name| compiler.place(name).display().to_string());
        let others: Vec<String> = (1..last).map(|n| format!("grep -qx '// {n}' {noted}")).collect();
        let own = std::env::var("CXX").unwrap_or_else(|_| "g++".to_owned());
        let script = format!(
            "#!/bin/sh\n{}case \"$*\" in *-shared*)\n\
             whose=$(grep -rhE '^// [0-9]+$' tree | head -n1); echo \"$whose\" >> {noted}\n\
             if [ -e {gate} ]; then case \"$whose\" in '// 0'|'// {last}') tries=0\n\
             until {}; do sleep 0.1; tries=$((tries + 1)); [ $tries -lt 1200 ] || exit 1; done\n\
             esac; fi;;\nesac\nexec {own} \"$@\"\n",
            refuse_missing_gold(),
            others.join(" && "),
        );
        fs::write(&path, script).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
        compiler
    }

    fn place(&self, name: &str) -> PathBuf {
        self.env.repo.beside(name)
    }

    /// Runs `words` from an empty cache; also how often the kernels of each commit were linked.
    fn run(&self, words: &[&str]) -> (Run, Vec<usize>) {
        let noted = self.place("noted");
        fs::write(&noted, "").expect("a file");
        let _ = fs::remove_dir_all(self.env.cache_parent());
        // The compiler notes what it does outside of its folder.
        let words = [words, &["--sandbox=off"]].concat();
        let run = self.env.finish(self.env.command(&words).env("CXX", self.place("compiler")));
        let noted = fs::read_to_string(&noted).expect("a file");
        let times = |commit| noted.lines().filter(|line| **line == format!("// {commit}")).count();
        (run, (0..=self.last).map(times).collect())
    }
}

/// Tests of both ends need the first commit: they may begin to compile it at the same time.
fn expect_no_more(times: &[usize], once: &[usize]) {
    assert_eq!(times[1..], once[1..]);
    assert!(times[0] <= once[0] + 1, "{times:?} {once:?}");
}

#[test]
fn commits_that_the_next_round_tests_are_compiled_while_this_one_runs_and_only_once() {
    let (env, ids) = history(isolated(), &[RIGHT, RIGHT, WRONG, WRONG]);
    let compiler = Compiler::new(&env, 3);
    let words = ["bisect", "fixtures/tiny", "--good", &ids[0], "--bad", &ids[3], "--jobs", "4"];
    let (here, once) = compiler.run(&words);
    // From now on the ends are not compiled before the commits between them.
    fs::write(compiler.place("gate"), "").expect("a file");
    let (there, times) = compiler.run(&[&words[..], &["--on-cluster", "local"]].concat());
    assert_eq!((there.code, &there.stdout), (here.code, &here.stdout), "{}", there.text());
    expect_no_more(&times, &once);
}

#[test]
fn nodes_with_caches_of_their_own_answer_alike_and_make_nothing_twice() {
    let (env, ids) = history(isolated(), &[RIGHT, WRONG, WRONG]);
    let compiler = Compiler::new(&env, 2);
    let words = ["bisect", "fixtures/tiny", "--good", &ids[0], "--bad", &ids[2], "--jobs", "2"];
    let (here, once) = compiler.run(&words);
    let nodes = env.repo.beside("nodes");
    // Each task is a node of its own: in its shell `$$` is its number.
    let settings = format!("cache = \"{}/$$\"\n", nodes.display());
    fs::write(env.path("replay.cluster.toml"), settings).expect("a file");
    let (there, times) = compiler.run(&[&words[..], &["--on-cluster", "local"]].concat());
    assert_eq!((there.code, &there.stdout), (here.code, &here.stdout), "{}", there.text());
    expect_no_more(&times, &once);
    assert!(nodes.read_dir().expect("caches").count() >= 3);
    let entries = |name: &str| env.cache_parent().join(name).read_dir().expect("a folder").count();
    assert_eq!(entries("replay/outcomes"), 0, "nodes do not write into the driver's cache");
    assert!(entries("cluster/replay/outcomes") >= 3);
}
