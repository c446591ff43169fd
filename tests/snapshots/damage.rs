//! Files that are damaged, somebody else's or out of reach: each is named, and none is lost.

use std::fs;

use crate::snapshots::project::{
    DEFECT, accepted, pending, replay, replay_with, review, rewrite, snap, text,
};

#[test]
fn damaged_snapshots_are_named_with_their_line() {
    let env = accepted();
    let whole = text(snap(&env));
    let half = &whole[..whole.find("  sketch").unwrap()];
    let cases = [
        ("conflict", whole.replace("  noise", "<<<<<<< HEAD\n  noise")),
        ("the end of a conflict", whole.clone() + "\n>>>>>>> theirs\n"),
        ("the middle of a conflict", whole.clone() + "\n=======\n"),
        ("an output twice", whole.clone() + "\n" + &whole[whole.find("output y").unwrap()..]),
        ("a line behind empty ones", whole.clone() + "\n  \n\nhello\n"),
        ("edited", whole.replace("  norm ", "  norm about ")),
        ("a norm of other bits", whole.replace("  norm 8.3988", "  norm 9.3988")),
        ("a noise that excuses all", whole.replace("  noise 8.6e-8", "  noise 1000")),
        ("a noise that excuses more", whole.replace("  noise 8.6e-8", "  noise inf")),
        ("more elements than numbers", whole.replace("[n 4]", "[n 99999999999, m 99999999999]")),
        ("an output too few", whole.replace("outputs: 1", "outputs: 2")),
        ("truncated", half.to_owned()),
        ("cut within a line", whole[..whole.len() - 4].to_owned()),
        ("newer", whole.replace("format: 2", "format: 3")),
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

    the end of a conflict
    error: [ROOT]/snapshots/tiny.cpu.snap:27: a merge conflict is not resolved
    hint: keep either side (`git checkout --ours FILE`), replay, and review what is pending

    the middle of a conflict
    error: [ROOT]/snapshots/tiny.cpu.snap:27: a merge conflict is not resolved
    hint: keep either side (`git checkout --ours FILE`), replay, and review what is pending

    an output twice
    error: [ROOT]/snapshots/tiny.cpu.snap:27: the end of the file is expected, not `output y: f32 [n 4]`
    hint: snapshots are not edited by hand: take the last committed version (`git checkout -- FILE`), or remove the file, replay and review the new one

    a line behind empty ones
    error: [ROOT]/snapshots/tiny.cpu.snap:29: the end of the file is expected, not `hello`
    hint: snapshots are not edited by hand: take the last committed version (`git checkout -- FILE`), or remove the file, replay and review the new one

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
    error: [ROOT]/snapshots/tiny.cpu.snap:26: the file ends where another output is expected
    hint: take the last committed version (`git checkout -- FILE`), or remove the file, replay and review the new one

    truncated
    error: [ROOT]/snapshots/tiny.cpu.snap:22: the file ends where `sketch` is expected
    hint: take the last committed version (`git checkout -- FILE`), or remove the file, replay and review the new one

    cut within a line
    error: [ROOT]/snapshots/tiny.cpu.snap:25: the file ends where the end of the line is expected
    hint: take the last committed version (`git checkout -- FILE`), or remove the file, replay and review the new one

    newer
    error: [ROOT]/snapshots/tiny.cpu.snap:5: format 3 is not known
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
fn line_ends_of_windows_and_empty_lines_at_the_end_are_read() {
    let env = accepted();
    fs::write(snap(&env), text(snap(&env)).replace('\n', "\r\n")).unwrap();
    let run = replay(&env);
    assert!(run.stdout.contains("snap  matches\n"), "{}", run.text());
    fs::write(snap(&env), text(snap(&env)) + "\r\n\n").unwrap();
    let run = replay(&env);
    assert!(run.stdout.contains("snap  matches\n"), "{}", run.text());
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
    error: [ROOT]/snapshots/tiny.cpu.snap.new:22: the file ends where the end of the line is expected
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
fn a_damaged_accepted_snapshot_is_named_where_the_rest_is_accepted_unseen() {
    let env = accepted();
    let bytes: Vec<u8> = [5f32, 6.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    env.write_fixture("other", &[("x", replay::tensor::DType::F32, &[2], &bytes)]);
    rewrite(&env, DEFECT);
    assert_eq!(env.replay(&["fixtures/tiny", "fixtures/other"]).code, Some(1));
    fs::write(snap(&env), text(snap(&env)).replace("  noise", "<<<<<<< HEAD\n  noise")).unwrap();
    let run = review(&env, "y meant\n");
    assert_eq!(run.code, Some(0), "{}", run.text());
    insta::assert_snapshot!(run.last_line(), @"accepted snapshots/tiny.cpu.snap; the one that it replaced could not be read: [ROOT]/snapshots/tiny.cpu.snap:16: a merge conflict is not resolved");
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
