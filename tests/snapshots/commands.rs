//! The commands about snapshots, each with its files before and after.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

use crate::env::{Run, TestEnv};

const KERNEL: &str = "\
__global__ void scale(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i] * 1.5f + 0.1f;
    }
}
";

/// The same mathematics, rounded elsewhere.
const BENIGN: &str = "y[i] = (x[i] + 0.1f / 1.5f) * 1.5f;";
const DEFECT: &str = "y[i] = x[i] * 1.5f + 0.1001f;";
const ORIGINAL: &str = "y[i] = x[i] * 1.5f + 0.1f;";

fn project() -> TestEnv {
    let env = TestEnv::new().with_kernel(KERNEL, "scale<<<1, 32>>>(x, y, n);");
    fs::create_dir(env.path("snapshots")).expect("a folder");
    env
}

/// A project whose snapshot is accepted.
fn accepted() -> TestEnv {
    let env = project();
    replay(&env);
    let run = env.replay(&["accept"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    env
}

fn replay(env: &TestEnv) -> Run {
    env.replay(&["fixtures/tiny"])
}

fn replay_with(env: &TestEnv, variables: &[(&str, &str)]) -> Run {
    env.finish(env.command(&["fixtures/tiny"]).envs(variables.iter().copied()))
}

fn rewrite(env: &TestEnv, statement: &str) {
    env.repo.write("k.cu", KERNEL.replace(ORIGINAL, statement));
}

fn snap(env: &TestEnv) -> PathBuf {
    env.path("snapshots/tiny.cpu.snap")
}

fn pending(env: &TestEnv) -> PathBuf {
    env.path("snapshots/tiny.cpu.snap.new")
}

fn text(path: PathBuf) -> String {
    fs::read_to_string(path).expect("a file")
}

/// Lines that only one of both texts has.
fn changed_lines(old: &str, new: &str) -> usize {
    new.lines().filter(|line| !old.lines().any(|other| other == *line)).count()
}

#[test]
fn a_project_without_snapshots_sees_nothing_of_them() {
    let env = TestEnv::new().with_kernel(KERNEL, "scale<<<1, 32>>>(x, y, n);");
    let run = replay(&env);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(!run.stdout.contains("snapshot"), "{}", run.stdout);
    assert!(!env.path("snapshots").exists());
}

#[test]
fn the_first_snapshot_is_pending_until_it_is_accepted() {
    let env = project();
    let run = replay(&env);
    assert_eq!(run.code, Some(0), "{}", run.text());
    insta::assert_snapshot!(run.stdout.split("outputs").nth(1).unwrap(), @"

      y  f32 [n 4]  b3073c7ba3faae519c525a3b14924eee
         norm 8.39881  min 1.6  max 6.1  mean 3.85  zeros 0  NaN 0  Inf 0  unwritten 0

    snapshot
      snapshots/tiny.cpu.snap  new: no snapshot was accepted yet
      pending: snapshots/tiny.cpu.snap.new; `replay review` shows it

    new: no snapshot was accepted yet
    ");
    assert!(!snap(&env).exists());
    insta::assert_snapshot!(env.replay(&["accept", "--reason", "the first: it \"works\""]).text(), @"
    exit code 0
    --- stdout
    accepted snapshots/tiny.cpu.snap
    ");
    insta::assert_snapshot!(text(snap(&env)), @r#"
    ---
    source: fixtures/tiny
    description: "the first: it \"works\""
    expression: replay fixtures/tiny
    ---
    format: 1
    fixture: tiny
    content: 34187d69a95e79b6cee35a5aa15d1c969891b4222c56cd8bcc9bf5910beed6fa
    device: cpu
    status: completed
    launches: 1
      scale<<<1, 32>>>
    outputs: 1

    output y: f32 [n 4]
      checksum b3073c7ba3faae519c525a3b14924eee
      noise 8.6e-8
      norm 8.3988
      min 1.6
      max 6.1
      mean 3.85
      zeros 0, NaN 0, Inf 0, unwritten 0
      sketch 1e-7 * 59999999 59999999 -59999999 -59999999 1 1 -1 -1 153999997 153999997 -153999997 -153999997 29999999 29999999 -29999999 -29999999
    "#);
    assert!(!pending(&env).exists());
    let run = replay(&env);
    assert_eq!(run.code, Some(0));
    assert!(run.stdout.contains("snapshots/tiny.cpu.snap  matches\n"), "{}", run.stdout);
    assert!(!pending(&env).exists());
}

#[test]
fn a_benign_rewrite_is_equivalent_and_changes_a_line_or_two() {
    let env = accepted();
    rewrite(&env, BENIGN);
    let run = replay(&env);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.contains("equivalent: y moved by rel. "), "{}", run.stdout);
    assert_eq!(changed_lines(&text(snap(&env)), &text(pending(&env))), 2);
    // What is put back matches again, and nothing is left to review.
    rewrite(&env, ORIGINAL);
    assert!(replay(&env).stdout.contains("matches"));
    assert!(!pending(&env).exists());
}

#[test]
fn a_defect_diverges_and_the_accepted_snapshot_stays() {
    let env = accepted();
    let before = text(snap(&env));
    rewrite(&env, DEFECT);
    let run = replay(&env);
    assert_eq!(run.code, Some(1), "{}", run.text());
    insta::assert_snapshot!(run.last_line(), @"diverged: y moved by rel. 2.4e-5 (noise 1.7e-7)");
    assert_eq!(text(snap(&env)), before);
    assert!(pending(&env).exists());
    insta::assert_snapshot!(env.replay(&["reject", "tiny.*"]).text(), @"
    exit code 0
    --- stdout
    rejected what was pending for snapshots/tiny.cpu.snap
    ");
    assert!(!pending(&env).exists());
    assert_eq!(text(snap(&env)), before);
}

#[test]
fn another_launch_shape_matches_and_is_shown_for_review() {
    let env = accepted();
    let harness = text(env.path("replay.toml")).replace("<<<1, 32>>>", "<<<1, 64>>>");
    env.repo.write("replay.toml", harness);
    let run = replay(&env);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.contains("matches: launches changed"), "{}", run.stdout);
    assert_eq!(changed_lines(&text(snap(&env)), &text(pending(&env))), 1);
}

#[test]
fn a_changed_fixture_is_stale_not_diverged() {
    let env = accepted();
    let bytes: Vec<u8> = [1f32, 2.0, 3.0, 5.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    env.write_fixture("tiny", &[("x", replay::tensor::DType::F32, &[4], &bytes)]);
    let run = replay(&env);
    assert_eq!(run.code, Some(125), "{}", run.text());
    insta::assert_snapshot!(run.last_line(), @"stale: the fixture is another one now, so nothing was compared");
}

#[test]
fn a_named_revision_is_compared_only_when_asked() {
    let env = accepted();
    rewrite(&env, DEFECT);
    env.repo.commit("Break it");
    assert_eq!(env.replay(&["fixtures/tiny", "--rev", "HEAD"]).code, Some(0));
    assert_eq!(env.replay(&["fixtures/tiny", "--rev", "HEAD", "--snapshot"]).code, Some(1));
}

#[test]
fn in_ci_nothing_is_written_over() {
    let env = accepted();
    let before = text(snap(&env));
    rewrite(&env, DEFECT);
    for word in ["auto", "always", "force", "unseen", "no"] {
        let run = replay_with(&env, &[("CI", "true"), ("REPLAY_UPDATE", word)]);
        assert_eq!(run.code, Some(1), "{word}: {}", run.text());
        assert_eq!(text(snap(&env)), before, "{word}");
    }
}

#[test]
fn always_accepts_without_review_and_no_writes_nothing() {
    let env = accepted();
    let before = text(snap(&env));
    rewrite(&env, DEFECT);
    assert_eq!(replay_with(&env, &[("REPLAY_UPDATE", "no")]).code, Some(1));
    assert!(!pending(&env).exists());
    assert_eq!(replay_with(&env, &[("REPLAY_UPDATE", "always")]).code, Some(1));
    assert_ne!(text(snap(&env)), before);
    assert!(replay(&env).stdout.contains("matches"));
    insta::assert_snapshot!(replay_with(&env, &[("REPLAY_UPDATE", "never")]).text(), @"
    exit code 128
    --- stderr
    error: REPLAY_UPDATE is not understood: `never` is none of auto, always, new, unseen, no and force
    ");
}

#[test]
fn asking_for_new_snapshots_makes_the_folder() {
    let env = TestEnv::new().with_kernel(KERNEL, "scale<<<1, 32>>>(x, y, n);");
    assert_eq!(replay_with(&env, &[("REPLAY_UPDATE", "unseen")]).code, Some(0));
    assert!(snap(&env).exists());
    let mut command = env.command(&["fixtures/tiny", "--snapshots", "elsewhere"]);
    let run = env.finish(command.env("REPLAY_UPDATE", "new"));
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(env.path("elsewhere/tiny.cpu.snap.new").exists());
}

#[test]
fn damaged_snapshots_are_named_with_their_line() {
    let env = accepted();
    let whole = text(snap(&env));
    let half = &whole[..whole.find("  sketch").unwrap()];
    let cases = [
        ("conflict", whole.replace("  noise", "<<<<<<< HEAD\n  noise")),
        ("edited", whole.replace("  norm ", "  norm about ")),
        ("a norm of other bits", whole.replace("  norm 8.3988", "  norm 9.3988")),
        ("a noise that excuses all", whole.replace("  noise 8.6e-8", "  noise 1000")),
        ("a noise that excuses more", whole.replace("  noise 8.6e-8", "  noise inf")),
        ("more elements than numbers", whole.replace("[n 4]", "[n 99999999999, m 99999999999]")),
        ("an output too few", whole.replace("outputs: 1", "outputs: 2")),
        ("truncated", half.to_owned()),
        ("cut within a line", whole[..whole.len() - 4].to_owned()),
        ("newer", whole.replace("format: 1", "format: 2")),
        ("another device", whole.replace("device: cpu", "device: sm_90")),
        ("foreign", "hello\n".to_owned()),
        ("insta's", "---\nsource: src/lib.rs\nexpression: x\n---\nhello\n".to_owned()),
    ];
    let mut said = String::new();
    for (name, damaged) in cases {
        fs::write(snap(&env), &damaged).unwrap();
        let run = replay(&env);
        assert_eq!(run.code, Some(128), "{name}: {}", run.text());
        said += &format!("{name}\n{}\n", run.stderr);
        assert_eq!(text(snap(&env)), damaged, "{name}");
    }
    insta::assert_snapshot!(said, @"
    conflict
    error: [ROOT]/snapshots/tiny.cpu.snap:16: a merge conflict is not resolved
    hint: keep either side (`git checkout --ours FILE`), replay, and review what is pending

    edited
    error: [ROOT]/snapshots/tiny.cpu.snap:17: a number is expected, not `about 8.3988`
    hint: snapshots are not edited by hand: take the last committed version (`git checkout -- FILE`), or remove the file, replay and review the new one

    a norm of other bits
    error: [ROOT]/snapshots/tiny.cpu.snap: norm 9.3988 of output y is not that of its checksum: 8.39880929
    hint: snapshots are not edited by hand: take the last committed version (`git checkout -- FILE`), or remove the file, replay and review the new one

    a noise that excuses all
    error: [ROOT]/snapshots/tiny.cpu.snap:22: a unit that fits the noise 1000 is expected, not `1e-7`
    hint: snapshots are not edited by hand: take the last committed version (`git checkout -- FILE`), or remove the file, replay and review the new one

    a noise that excuses more
    error: [ROOT]/snapshots/tiny.cpu.snap:16: a finite number, 0 or more is expected, not `inf`
    hint: snapshots are not edited by hand: take the last committed version (`git checkout -- FILE`), or remove the file, replay and review the new one

    more elements than numbers
    error: [ROOT]/snapshots/tiny.cpu.snap:14: `output` with a name, a dtype and a shape is expected, not `y: f32 [n 99999999999, m 99999999999]`
    hint: snapshots are not edited by hand: take the last committed version (`git checkout -- FILE`), or remove the file, replay and review the new one

    an output too few
    error: [ROOT]/snapshots/tiny.cpu.snap:23: the file ends where another output is expected
    hint: take the last committed version (`git checkout -- FILE`), or remove the file, replay and review the new one

    truncated
    error: [ROOT]/snapshots/tiny.cpu.snap:22: the file ends where `sketch` is expected
    hint: take the last committed version (`git checkout -- FILE`), or remove the file, replay and review the new one

    cut within a line
    error: [ROOT]/snapshots/tiny.cpu.snap:22: the file ends where the end of the line is expected
    hint: take the last committed version (`git checkout -- FILE`), or remove the file, replay and review the new one

    newer
    error: [ROOT]/snapshots/tiny.cpu.snap:5: format 2 is not known
    hint: a newer replay wrote it; use that one, or remove the file, replay and review

    another device
    error: [ROOT]/snapshots/tiny.cpu.snap holds a snapshot of device sm_90, not cpu
    hint: the file was renamed or copied; remove it, replay on the device that its name says, and review

    foreign
    error: [ROOT]/snapshots/tiny.cpu.snap is not a snapshot of a replay: it does not start with `---`
    hint: name another folder with --snapshots, or rename the file

    insta's
    error: [ROOT]/snapshots/tiny.cpu.snap is not a snapshot of a replay: its text does not start with `format: `
    hint: name another folder with --snapshots, or rename the file
    ");
}

#[test]
fn line_ends_of_windows_are_read() {
    let env = accepted();
    fs::write(snap(&env), text(snap(&env)).replace('\n', "\r\n")).unwrap();
    let run = replay(&env);
    assert!(run.stdout.contains("snap  matches\n"), "{}", run.text());
}

#[test]
fn a_damaged_pending_snapshot_replaces_nothing() {
    let env = accepted();
    let before = text(snap(&env));
    rewrite(&env, DEFECT);
    replay(&env);
    let new = text(pending(&env));
    fs::write(pending(&env), &new[..new.len() / 2]).unwrap();
    let run = env.replay(&["accept"]);
    assert_eq!(run.code, Some(128), "{}", run.text());
    insta::assert_snapshot!(run.stderr, @"
    error: [ROOT]/snapshots/tiny.cpu.snap.new:15: the file ends where the end of the line is expected
    hint: `replay reject` removes it; the next replay makes it anew
    ");
    assert_eq!(text(snap(&env)), before);
}

#[test]
fn a_damaged_pending_snapshot_is_not_in_the_way_of_others() {
    let env = accepted();
    env.replay(&["reject"]);
    let bytes: Vec<u8> = [5f32, 6.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    env.write_fixture("other", &[("x", replay::tensor::DType::F32, &[2], &bytes)]);
    rewrite(&env, DEFECT);
    assert_eq!(env.replay(&["fixtures/tiny", "fixtures/other"]).code, Some(1));
    let damaged = text(pending(&env)).replace("  noise", "<<<<<<< HEAD\n  noise");
    fs::write(pending(&env), damaged).unwrap();
    insta::assert_snapshot!(env.replay(&["accept", "other.*"]).text(), @"
    exit code 0
    --- stdout
    accepted snapshots/other.cpu.snap
    ");
    insta::assert_snapshot!(env.replay(&["review"]).text(), @"
    exit code 128
    --- stderr
    error: [ROOT]/snapshots/tiny.cpu.snap.new:16: a merge conflict is not resolved
    hint: `replay reject` removes it; the next replay makes it anew
    ");
    insta::assert_snapshot!(env.replay(&["reject"]).text(), @"
    exit code 0
    --- stdout
    removed what was pending for snapshots/tiny.cpu.snap and damaged
    ");
    assert!(!pending(&env).exists());
}

#[test]
fn a_damaged_accepted_snapshot_is_named_before_it_is_replaced() {
    let env = accepted();
    rewrite(&env, DEFECT);
    replay(&env);
    fs::write(snap(&env), text(snap(&env)).replace("  noise", "<<<<<<< HEAD\n  noise")).unwrap();
    let run = review(&env, "a both sides were old\n");
    assert_eq!(run.code, Some(0), "{}", run.text());
    let said = run.stdout.lines().nth(2).unwrap_or_default();
    insta::assert_snapshot!(said, @"the accepted snapshot cannot be read, and would be replaced: [ROOT]/snapshots/tiny.cpu.snap:16: a merge conflict is not resolved");
    assert!(replay(&env).stdout.contains("snap  matches\n"));
}

#[test]
fn a_file_of_somebody_else_is_never_replaced() {
    let env = accepted();
    rewrite(&env, DEFECT);
    replay(&env);
    let theirs = "---\nsource: src/lib.rs\nexpression: x\n---\nhello\n";
    fs::write(snap(&env), theirs).unwrap();
    for command in ["accept", "review"] {
        let run = env.replay(&[command]);
        assert_eq!(run.code, Some(128), "{}", run.text());
        assert!(
            run.stderr.contains("tiny.cpu.snap is not a snapshot of a replay"),
            "{}",
            run.stderr
        );
        assert_eq!(text(snap(&env)), theirs);
    }
}

#[test]
fn a_snapshot_that_cannot_be_reached_is_not_taken_for_none() {
    let env = accepted();
    fs::remove_file(snap(&env)).unwrap();
    std::os::unix::fs::symlink("tiny.cpu.snap", snap(&env)).unwrap();
    let run = replay_with(&env, &[("REPLAY_UPDATE", "always")]);
    assert_eq!(run.code, Some(128), "{}", run.text());
    insta::assert_snapshot!(run.stderr, @"
    error: cannot read [ROOT]/snapshots/tiny.cpu.snap
    caused by: Too many levels of symbolic links (os error 40)
    ");
    assert!(snap(&env).is_symlink());
}

#[test]
fn an_edited_checksum_never_matches_and_waits_for_review() {
    let env = accepted();
    let accepted = text(snap(&env));
    let at = accepted.find("checksum ").unwrap() + "checksum ".len();
    let digit = if accepted[at..].starts_with('0') { "1" } else { "0" };
    fs::write(snap(&env), [&accepted[..at], digit, &accepted[at + 1..]].concat()).unwrap();
    let run = replay(&env);
    assert!(run.stdout.contains("snap  equivalent: y moved by rel. "), "{}", run.text());
    assert!(pending(&env).exists());
}

#[test]
fn a_glob_that_matches_nothing_is_an_error() {
    let env = project();
    insta::assert_snapshot!(env.replay(&["accept"]).text(), @"
    exit code 0
    --- stdout
    nothing is pending
    ");
    insta::assert_snapshot!(env.replay(&["accept", "other.*"]).text(), @"
    exit code 128
    --- stderr
    error: nothing that is pending matches other.*
    hint: `replay review` shows what is pending in [ROOT]/snapshots
    ");
}

/// Runs `replay review` with `answers` on standard input.
fn review(env: &TestEnv, answers: &str) -> Run {
    let mut command = env.command(&["review"]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program runs");
    child.stdin.take().unwrap().write_all(answers.as_bytes()).expect("answers are read");
    env.read(&child.wait_with_output().expect("the program ends"))
}

#[test]
fn a_review_shows_the_verdict_and_a_diff_and_keeps_the_reason() {
    let env = accepted();
    let before = text(snap(&env));
    rewrite(&env, DEFECT);
    replay(&env);
    insta::assert_snapshot!(review(&env, "x\n").text(), @"
    exit code 0
    --- stdout

    snapshots/tiny.cpu.snap (1 of 1)
    diverged: y moved by rel. 2.4e-5 (noise 1.7e-7)

      
      output y: f32 [n 4]
    -   checksum b3073c7ba3faae519c525a3b14924eee
    +   checksum 424bbbfe36003c863390a026f984261f
        noise 8.6e-8
    -   norm 8.3988
    -   min 1.6
    -   max 6.1
    -   mean 3.85
    +   norm 8.399
    +   min 1.6001
    +   max 6.1001
    +   mean 3.8501
        zeros 0, NaN 0, Inf 0, unwritten 0
    -   sketch 1e-7 * 59999999 59999999 -59999999 -59999999 1 1 -1 -1 153999997 153999997 -153999997 -153999997 29999999 29999999 -29999999 -29999999
    +   sketch 1e-7 * 60000000 60000000 -60000000 -60000000 0 0 0 0 154004002 154004002 -154004002 -154004002 30000000 30000000 -30000000 -30000000

    accept  reject  skip  show more (d)  quit > a, r, s, d or q

    accept  reject  skip  show more (d)  quit > 
    1 snapshot still pending
    ");
    assert!(pending(&env).exists());
    assert_eq!(text(snap(&env)), before);
    let run = review(&env, "d\na the constant was wrong\n");
    assert!(run.stdout.contains("format: 1"), "{}", run.stdout);
    assert!(text(snap(&env)).contains("\ndescription: the constant was wrong\n"));
    assert!(!pending(&env).exists());
    assert!(replay(&env).stdout.contains("matches"));
}

#[test]
fn reports_for_servers_say_what_changed() {
    let env = accepted();
    rewrite(&env, DEFECT);
    let markdown = env.replay(&["fixtures/tiny", "fixtures/none", "--format", "markdown"]);
    assert_eq!(markdown.code, Some(128));
    insta::assert_snapshot!(markdown.stdout, @"
    <!-- replay -->
    ## replay: 1 not replayed, 1 diverged

    **not replayed** fixtures/none
    - there is no fixture folder fixtures/none
    - hint: a fixture is a folder with fixture.toml and &#42;.safetensors

    | fixture | output | verdict | checksum | distance | beyond noise | worst element |
    | --- | --- | --- | --- | --- | --- | --- |
    | tiny | y | diverged | b3073c7b → 424bbbfe | about rel. 2.4e-5 (noise 1.7e-7) |  |  |

    **diverged** tiny at working tree on cpu
    - snapshot diverged: y moved by rel. 2.4e-5 (noise 1.7e-7)
    ");
    let junit = env.replay(&["fixtures/tiny", "fixtures/none", "--format", "junit"]);
    insta::assert_snapshot!(junit.stdout, @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="replay" tests="2" skipped="0" failures="1" errors="1">
        <testsuite name="replay" tests="2" skipped="0" errors="1" failures="1">
            <testcase name="tiny at working tree on cpu" classname="replay">
                <failure message="snapshot diverged: y moved by rel. 2.4e-5 (noise 1.7e-7)" type="diverged">snapshot diverged: y moved by rel. 2.4e-5 (noise 1.7e-7)</failure>
            </testcase>
            <testcase name="fixtures/none" classname="replay">
                <error message="there is no fixture folder fixtures/none" type="refused">there is no fixture folder fixtures/none
    hint: a fixture is a folder with fixture.toml and *.safetensors</error>
            </testcase>
        </testsuite>
    </testsuites>
    "#);
}

#[test]
fn a_folder_that_cannot_be_written_is_said_so() {
    let env = accepted();
    rewrite(&env, DEFECT);
    // A folder in the place of the file is in the way for root, too.
    fs::create_dir(pending(&env)).unwrap();
    let run = replay(&env);
    assert_eq!(run.code, Some(128), "{}", run.text());
    insta::assert_snapshot!(run.stderr, @"
    error: cannot write [ROOT]/snapshots/tiny.cpu.snap.new
    caused by: Is a directory (os error 21)
    ");
}

#[test]
fn the_snapshot_of_an_out_of_bounds_write_matches_again() {
    let env = project();
    rewrite(&env, "y[i + 5000 * (1 + blockIdx.x)] = x[i];");
    let first = replay(&env);
    assert_eq!(first.code, Some(1), "{}", first.text());
    assert_eq!(env.replay(&["accept"]).code, Some(0));
    for threads in ["1", "2", "3"] {
        let again = env.replay(&["fixtures/tiny", "--fresh", "--threads", threads]);
        assert!(!pending(&env).exists(), "{}", again.text());
    }
}

#[test]
fn a_long_new_snapshot_has_its_name_and_verdict_above_the_question() {
    let env = project();
    let harness = text(env.path("replay.toml"));
    let (head, _) = harness.split_once("call = ").unwrap();
    let call = "call = \"scale<<<1, 32>>>(x, y, n); scale<<<1, 32>>>(x, z, n);\"\n";
    let outputs: String =
        ["y", "z"].map(|o| format!("[outputs.{o}]\ndtype = \"f32\"\nshape = [\"n\"]\n")).concat();
    let inputs = "[inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n";
    env.repo.write("replay.toml", format!("{head}{call}{inputs}{outputs}"));
    assert_eq!(replay(&env).code, Some(0));
    let shown = review(&env, "q\n").stdout;
    let named =
        shown.matches("snapshots/tiny.cpu.snap (1 of 1)\nnew: no snapshot was accepted yet\n");
    assert_eq!(named.count(), 2, "{shown}");
    let (_, question) = shown.split_once("sketch").unwrap();
    insta::assert_snapshot!(question.rsplit_once("sketch").unwrap().1.split_once('\n').unwrap().1, @"

    snapshots/tiny.cpu.snap (1 of 1)
    new: no snapshot was accepted yet

    accept  reject  skip  show more (d)  quit > 
    1 snapshot still pending
    ");
}

#[test]
fn several_fixtures_end_with_how_many_stand_how() {
    let env = accepted();
    let bytes: Vec<u8> = [5f32, 6.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    env.write_fixture("other", &[("x", replay::tensor::DType::F32, &[2], &bytes)]);
    rewrite(&env, DEFECT);
    let all = ["fixtures/tiny", "fixtures/other", "fixtures/none"];
    assert_eq!(env.replay(&all).last_line(), "3 fixtures: 1 not replayed, 1 diverged, 1 new");
    env.repo.commit("Break it");
    let diff = [&["diff"], &all[..], &["HEAD~1", "HEAD"]].concat();
    let run = env.replay(&diff);
    assert_eq!(run.last_line(), "3 fixtures: 1 not replayed, 2 diverged", "{}", run.text());
    let inspect = [&["inspect"], &all[..]].concat();
    assert_eq!(env.replay(&inspect).last_line(), "3 fixtures: 1 broken, 2 whole");
    assert!(!env.replay(&all[..1]).stdout.contains("1 fixture"));
}
