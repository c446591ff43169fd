//! Outcomes against the accepted snapshot: each verdict, the files before and after, the reports.

use crate::common::env::TestEnv;
use crate::snapshots::project::{
    BENIGN, DEFECT, KERNEL, ORIGINAL, accepted, pending, project, replay, replay_with, review,
    rewrite, snap, text,
};
use replay::fixture;
use replay::tensor::DType;

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
    format: 2
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
      shadow rounding 0.022, seal 78903959
      shadow signed a3fd813a 3a1a023a 39c01660 18d66c2a 3b18d490 aef2ed2a e72993d6 db1388ac 18d66c2a fcfc0538 19305804 ed0fbc82 71f6bd0c 87c92e6e 0303fac8 dab99cd2
      shadow weighted 6d9baa68 16d66f82 81847fa9 76dae2ae 9075b59b db811be1 1e1596e1 739d4e4e dfd5560c 504c7814 66f0ace4 fa4b94c1 634daa71 938356ff 18242892 711af1a0
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
    // Outputs that were captured with the inputs make a snapshot neither stale nor right.
    let seen: Vec<u8> = [1.6001f32, 3.1001, 4.6001, 6.1001].map(f32::to_le_bytes).concat();
    let path = env.path("fixtures/tiny/expected.safetensors");
    fixture::write_file(&path, &[("y", DType::F32, &[4], &seen)], &[]).expect("a file");
    let run = replay(&env);
    assert_eq!(run.code, Some(1), "{}", run.text());
    insta::assert_snapshot!(run.last_line(), @"diverged: y moved by rel. 2.4e-5 (noise 1.7e-7), the float64 shadow moves too");
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
fn what_rounding_hides_diverges_from_a_snapshot_with_a_shadow() {
    let env = accepted();
    rewrite(&env, "y[i] = x[i] * 1.5000005f + 0.1f;");
    let run = replay(&env);
    assert_eq!(run.code, Some(1), "{}", run.text());
    insta::assert_snapshot!(run.last_line(), @"diverged: y moved by rel. 3.1e-7 (noise 1.7e-7), hidden by rounding on this fixture: the float64 shadow moves by about rel. 2.3e-7");
    let json = env.replay(&["fixtures/tiny", "--format", "json"]).stdout;
    let document: serde_json::Value = serde_json::from_str(&json).expect("a document");
    let shadow = &document["replays"][0]["snapshot"]["changes"][0]["shadow"];
    assert_eq!((&shadow["changed"], &shadow["moved"]), (&true.into(), &true.into()));
    let markdown = env.replay(&["fixtures/tiny", "--format", "markdown"]).stdout;
    assert!(markdown.contains("hidden by rounding on this fixture"), "{markdown}");
    let review = review(&env, "s\n");
    assert!(review.stdout.contains("hidden by rounding on this fixture"), "{}", review.text());
}

/// Makes of the accepted snapshot one of the first format, without shadows.
fn strip_shadows(env: &TestEnv) {
    let whole = text(snap(env)).replace("format: 2", "format: 1");
    let old: Vec<&str> = whole.lines().filter(|line| !line.starts_with("  shadow ")).collect();
    std::fs::write(snap(env), old.join("\n") + "\n").expect("a file");
}

#[test]
fn force_makes_a_snapshot_of_the_first_format_anew_and_keeps_its_reason() {
    let env = project();
    replay(&env);
    env.replay(&["accept", "--reason", "the first"]);
    let whole = text(snap(&env));
    strip_shadows(&env);
    let run = replay_with(&env, &[("REPLAY_UPDATE", "always")]);
    assert!(run.stdout.contains("tiny.cpu.snap  matches\n"), "{}", run.text());
    assert!(text(snap(&env)).contains("\nformat: 1\n"));
    let run = replay_with(&env, &[("REPLAY_UPDATE", "force")]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.contains("accepted without review: snapshots/tiny"), "{}", run.stdout);
    assert_eq!(text(snap(&env)), whole);
    replay_with(&env, &[("REPLAY_UPDATE", "force")]);
    assert_eq!(text(snap(&env)), whole);
}

#[test]
fn a_snapshot_of_the_first_format_stays_valid_and_says_what_it_lacks() {
    let env = accepted();
    strip_shadows(&env);
    assert!(replay(&env).stdout.contains("tiny.cpu.snap  matches\n"));
    assert!(!pending(&env).exists());
    rewrite(&env, BENIGN);
    let run = replay(&env);
    assert_eq!(run.code, Some(0), "{}", run.text());
    insta::assert_snapshot!(run.last_line(), @"unchecked: y moved by rel. 1.6e-8 (noise 1.7e-7), the snapshot has no float64 shadow");
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
    | tiny | y | diverged | b3073c7b → 424bbbfe | about rel. 2.4e-5 (noise 1.7e-7) |  | the float64 shadow moves too |

    **diverged** tiny at working tree on cpu
    - snapshot diverged: y moved by rel. 2.4e-5 (noise 1.7e-7), the float64 shadow moves too

    [RUN]
    ");
    let junit = env.replay(&["fixtures/tiny", "fixtures/none", "--format", "junit"]);
    let (head, run) = junit.stdout.split_once("        <properties>\n").unwrap();
    let (run, cases) = run.split_once("        </properties>\n").unwrap();
    assert!(run.contains("value=\"replay fixtures/tiny fixtures/none --format junit\""), "{run}");
    let report = format!("{head}{cases}");
    insta::with_settings!({ filters => [(r#"time="[0-9.]+""#, r#"time="[SECONDS]""#)] }, {
        insta::assert_snapshot!(report, @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="replay" tests="2" skipped="0" failures="1" errors="1">
        <testsuite name="replay" tests="2" skipped="0" errors="1" failures="1" time="[SECONDS]">
            <testcase name="tiny at working tree on cpu" classname="replay" time="[SECONDS]">
                <failure message="snapshot diverged: y moved by rel. 2.4e-5 (noise 1.7e-7), the float64 shadow moves too" type="diverged">snapshot diverged: y moved by rel. 2.4e-5 (noise 1.7e-7), the float64 shadow moves too</failure>
            </testcase>
            <testcase name="fixtures/none" classname="replay">
                <error message="there is no fixture folder fixtures/none" type="refused">there is no fixture folder fixtures/none
    hint: a fixture is a folder with fixture.toml and *.safetensors</error>
            </testcase>
        </testsuite>
    </testsuites>
    "#);
    });
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
