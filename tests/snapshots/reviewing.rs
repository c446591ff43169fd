//! `replay review` and `replay accept`, as a user meets them without a terminal.

use crate::snapshots::project::{
    DEFECT, accepted, pending, project, replay, review, rewrite, snap, text,
};

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
    diverged: y moved by rel. 2.4e-5 (noise 1.7e-7), the float64 shadow moves too

      
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
      and 4 lines of sketches and shadows

    accept  reject  skip  accept this and the rest (y)  show more (d)  quit > a, r, s, y, d or q

    accept  reject  skip  accept this and the rest (y)  show more (d)  quit > 
    1 snapshot still pending
    ");
    assert!(pending(&env).exists());
    assert_eq!(text(snap(&env)), before);
    let run = review(&env, "d\na the constant was wrong\n");
    assert!(run.stdout.contains("format: 2"), "{}", run.stdout);
    assert!(text(snap(&env)).contains("\ndescription: the constant was wrong\n"));
    assert!(!pending(&env).exists());
    assert!(replay(&env).stdout.contains("matches"));
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
    let (_, question) = shown.split_once("of sketches and shadows\n").unwrap();
    insta::assert_snapshot!(question.trim_start(), @"
    snapshots/tiny.cpu.snap (1 of 1)
    new: no snapshot was accepted yet

    accept  reject  skip  accept this and the rest (y)  show more (d)  quit > 
    1 snapshot still pending
    ");
}

#[test]
fn a_review_accepts_the_rest_for_one_reason_and_names_orphans() {
    let env = accepted();
    let bytes: Vec<u8> = [5f32, 6.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    for name in ["other", "third"] {
        env.write_fixture(name, &[("x", replay::tensor::DType::F32, &[2], &bytes)]);
        assert_eq!(env.replay(&[&format!("fixtures/{name}")]).code, Some(0));
    }
    let shown = review(&env, "y they are new\n").stdout.replace("+ \n", "+\n");
    insta::assert_snapshot!(shown.trim_start(), @"
    snapshots/other.cpu.snap (1 of 2)
    new: no snapshot was accepted yet

    + format: 2
    + fixture: other
    + content: 14766fdc575e766837fc36720959f24a5920597e094c1a1067602ed99bff69a2
    + device: cpu
    + status: completed
    + launches: 1
    +   scale<<<1, 32>>>
    + outputs: 1
    +
    + output y: f32 [n 2]
    +   checksum a288ffaf50157c604e23d374c3673ee6
    +   noise 9e-8
    +   norm 11.8562
    +   min 7.6
    +   max 9.1
    +   mean 8.35
    +   zeros 0, NaN 0, Inf 0, unwritten 0
      and 4 lines of sketches and shadows

    accept  reject  skip  accept this and the rest (y)  show more (d)  quit > accepted
    accepted snapshots/third.cpu.snap
    ");
    for name in ["other", "third"] {
        let kept = text(env.path(&format!("snapshots/{name}.cpu.snap")));
        assert!(kept.contains("\ndescription: they are new\n"), "{kept}");
    }
    std::fs::remove_dir_all(env.path("fixtures/other")).unwrap();
    insta::assert_snapshot!(review(&env, "").text(), @"
    exit code 0
    --- stdout
    nothing is pending
    snapshots/other.cpu.snap is orphaned: its fixture fixtures/other is not there; remove it with `git rm`
    ");
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
    insta::assert_snapshot!(env.replay(&["accept", "[other"]).text(), @"
    exit code 128
    --- stderr
    error: `[other` is no pattern of snapshots: invalid range pattern
    ");
}
