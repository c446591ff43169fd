//! Revisions that a program of the user's own runs, as a user replays them. The program here is in C++
//! (`programs/speaker.cpp`) and does what the revision's `kernel.txt` says.

mod faults;
mod images;
mod probes;
mod searches;
mod servers;
mod trees;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use replay::tensor::DType;

use crate::common::env::{Run, TestEnv};
use crate::common::speaker::speaker;

/// What the harness says besides the program's own keys.
const TENSORS: &str = "\
[inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
[outputs.loss]\ndtype = \"f32\"\nshape = []\n\
[outputs.dx]\ndtype = \"f32\"\nshape = [\"n\"]\n";
/// That `dx` is a gradient: its check takes many replays.
const GRADIENT: &str = "gradient_of = \"x\"\n";

impl TestEnv {
    /// With a harness of these keys, the fixture `tiny`, and the program as `speaker` beside them.
    pub fn with_program(self, keys: &str, gradient: &str) -> TestEnv {
        symlink(speaker(), self.path("speaker")).expect("a link");
        // Programs of tests note what they did beside the repository.
        let sandbox = match keys.contains("sandbox") {
            true => String::new(),
            false => format!("sandbox = {{ write = [{:?}] }}", self.repo.beside("")),
        };
        self.repo.write("replay.toml", format!("{keys}\n{sandbox}\n{TENSORS}{gradient}"));
        self.repo.write(".gitignore", "fixtures\nspeaker\nreplay.toml\n");
        self.write_tiny();
        self
    }

    fn with_speaker() -> TestEnv {
        TestEnv::isolated().with_program("program = [\"./speaker\"]", "")
    }

    /// Commits the kernel with these words.
    pub fn kernel(&self, words: &str) -> String {
        self.repo.commit_file("kernel.txt", words, &format!("Make it {words}"))
    }

    /// The replay of a new commit with these words.
    fn replay_kernel(&self, words: &str, more: &[&str]) -> Run {
        let commit = self.kernel(words);
        self.replay(&[&["fixtures/tiny", "--rev", &commit], more].concat())
    }
}

#[test]
fn a_program_that_does_not_look_at_its_accesses_is_told_so() {
    let env = TestEnv::isolated().with_program("program = [\"./speaker\"]", GRADIENT);
    let told = env.replay_kernel("divide 3", &["--check=always"]).text();
    let reason = "races are not looked for: the program does not look at its accesses";
    assert!(told.contains(reason), "{told}");
}

#[test]
fn a_revision_is_replayed_by_its_program() {
    let env = TestEnv::isolated().with_program("program = [\"./speaker\"]", GRADIENT);
    insta::assert_snapshot!(env.replay_kernel("divide 3", &[]).text(), @"
    exit code 0
    --- stdout
    tiny at 39854f8 Make it divide 3
    CPU, a program

    outputs
      loss  f32 scalar  3cd4abad2c2adcb4ac53e5234225d5a4
            norm 5  min 5  max 5  mean 5  zeros 0  NaN 0  Inf 0  unwritten unknown
      dx    f32 [n 4]   c52cb310da734984726d68ab0489b50a
            norm 1.82574  min 0.333333  max 1.33333  mean 0.833333  zeros 0  NaN 0  Inf 0  unwritten unknown

    gradients
      dx  matches d loss / d x: 8 directional derivatives, worst rel. 1.5e-11 (noise 1.8e-11)

    completed: every output is finite; unwritten elements do not show; dx matches its loss
    ");
}

#[test]
fn the_files_of_the_working_tree_are_replayed_without_a_revision() {
    let env = TestEnv::with_speaker();
    env.kernel("divide 3");
    env.repo.write("kernel.txt", "exit 7");
    insta::assert_snapshot!(env.replay(&["fixtures/tiny"]).last_line(), @"failed: exit: the program ended with exit status 7");
}

#[test]
fn a_wrong_gradient_is_told_from_the_loss() {
    let env = TestEnv::isolated().with_program("program = [\"./speaker\"]", GRADIENT);
    env.kernel("divide 3\nscale 2");
    let checked = env.replay(&["gradcheck", "fixtures/tiny"]);
    insta::assert_snapshot!(checked.text(), @"
    exit code 1
    --- stdout
    tiny at the working tree

    gradients
      dx  does not match d loss / d x: 8 directional derivatives, worst rel. 0.68 (noise 1.2e-11), at [3] 2.66667 instead of 1.33333

    diverged: dx not as the loss has it
    ");
}

#[test]
fn what_a_narrow_format_costs_is_imprecise_by_every_command() {
    let env = TestEnv::isolated().with_program("program = [\"./speaker\"]\npreload = []", GRADIENT);
    let x = (0..64).flat_map(|i| (1.0 + 0.37 * (i * 29 % 64) as f32).to_le_bytes());
    env.write_fixture("many", &[("x", DType::F32, &[64], &x.collect::<Vec<_>>())]);
    let before = env.kernel("divide 3");
    let after = env.kernel("divide 3\nbits 8");
    let run = |words: &[&str]| env.replay(words).text();
    insta::assert_snapshot!(run(&["gradcheck", "fixtures/many"]), @"
    exit code 1
    --- stdout
    many at the working tree

    gradients
      dx  imprecise: the float64 shadow is rounded on the way to fewer digits, too; off d loss / d x by rel. 0.00059, at [61] 5.3825 instead of 5.39

    diverged: dx not as the loss has it
    ");
    insta::assert_snapshot!(run(&["diff", "fixtures/many", &before, &after]), @"
    exit code 1
    --- stdout
    many at 39854f8 Make it divide 3
    many at e1703f3 Make it divide 3 bits 8

    outputs
      loss  identical
      dx    diverged: imprecise: the float64 shadow is rounded on the way to fewer digits, too
            98.4 % of bits differ, rel. 0.00079, 0 elements beyond noise
            worst at [5]: 2.43000007 -> 2.43375015, 0.48 x noise, 15729 ulp
            error against the trusted shadow: 2.3e-8 -> 0.00079
            at 63 of 64 elements, first at n 0
            63 elements jump in one or two replays, over 1024 x as far as in the others

    diverged: dx (imprecise)
    ");
    insta::assert_snapshot!(run(&["log", "fixtures/many", &format!("{before}..{after}")]), @"
    exit code 0
    --- stdout
    e1703f3 Make it divide 3 bits 8
      diverged: dx (imprecise)
      dx: 98.4 % of bits differ, rel. 0.00079, 0 elements beyond noise
      against 39854f8

    1 change at 1 commit of 1 commit, 2 variants replayed
    ");
    env.kernel("divide 3\nbits 8\nscale 1.1");
    insta::assert_snapshot!(run(&["gradcheck", "fixtures/many"]), @"
    exit code 1
    --- stdout
    many at the working tree

    gradients
      dx  does not match d loss / d x: 8 directional derivatives, worst rel. 0.1 (noise 1.5e-10), at [17] 6.47021 instead of 5.88333

    diverged: dx not as the loss has it
    ");
}

#[test]
fn the_shell_example_of_the_documentation_works() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/programs.md"));
    let page = page.expect("the page");
    let block = |language: &str| {
        let (_, rest) = page.split_once(&format!("```{language}\n")).expect("a block");
        rest.split("```").next().expect("its end").to_owned()
    };
    let env = TestEnv::isolated();
    env.repo.write("replay.toml", block("toml"));
    env.repo.write("step.sh", block("sh"));
    fs::set_permissions(env.path("step.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    env.repo.write(".gitignore", "fixtures\n");
    env.write_tiny();
    let good = env.repo.commit_file("filter", "cat", "Copy");
    env.repo.commit_file("filter", "cat -", "Copy with a word");
    env.repo.commit_file("filter", "dd conv=swab 2>/dev/null", "Swap bytes");
    let bad = env.repo.commit_file("filter", "dd conv=swab 2>/dev/null #", "Say nothing");
    let run = env.replay(&["fixtures/tiny", "--rev", &good]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    let found = env.replay(&["bisect", "fixtures/tiny", "--good", &good, "--bad", &bad]);
    assert!(found.stdout.contains("is the first bad commit: Swap bytes"), "{}", found.text());
}

#[test]
fn doctor_says_whether_the_program_answers() {
    let told = |keys: &str| {
        let env = TestEnv::isolated().with_program(keys, "");
        let run = env.replay(&["doctor"]);
        let lines: Vec<&str> =
            run.stdout.lines().skip_while(|l| !l.contains("program  ")).collect();
        format!("{}: {}", run.code.unwrap(), lines.join("\n"))
    };
    let all = [
        told("program = [\"./speaker\"]"),
        told("program = [\"./speaker\"]\npreload = []"),
        told("program = [\"./absent\"]"),
        told("program = [\"./speaker\"]\npreload = []\nenv = { SPEAKER = \"broken\" }"),
    ];
    insta::assert_snapshot!(all.join("\n"), @"
    0: ok      program       ./speaker is here; it is started for each replay
    0: ok      program       ./speaker answers
    128: missing program       there is no program `./absent`
                          install it, or name it by its path in replay.toml
    128: missing program       the program's environment: no module named nompy
                          pip install nompy
    ");
}

#[test]
fn a_snapshot_is_kept_of_what_a_program_gives() {
    let env = TestEnv::with_speaker();
    env.kernel("divide 3");
    let fixture = env.path("fixtures/tiny/fixture.toml");
    fs::write(&fixture, "harness = \"../../replay.toml\"\nsnapshot = true\n").unwrap();
    let pending = env.replay(&["fixtures/tiny"]);
    assert_eq!(env.replay(&["accept"]).code, Some(0), "{}", pending.text());
    let same = env.replay(&["fixtures/tiny"]);
    env.repo.write("kernel.txt", "divide 5");
    let changed = env.replay(&["fixtures/tiny"]);
    assert_eq!((same.code, changed.code), (Some(0), Some(1)), "{}", changed.text());
}

#[test]
fn a_replay_that_is_known_starts_no_program() {
    let env = TestEnv::with_speaker();
    let commit = env.kernel("divide 3\nsay once");
    let first = env.replay(&["fixtures/tiny", "--rev", &commit]);
    // The harness still names it, and its state is part of what is known: only its doing is not.
    let trees = env.cache().join("trees");
    let listed = || fs::read_dir(&trees).map(|entries| entries.count()).unwrap_or_default();
    assert_eq!(listed(), 1);
    for tree in fs::read_dir(&trees).unwrap().flatten() {
        fs::rename(tree.path(), env.repo.beside("tree")).unwrap();
    }
    let second = env.replay(&["fixtures/tiny", "--rev", &commit]);
    assert_eq!(first.text(), second.text());
    assert_eq!(listed(), 0, "nothing was laid out");
}
