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
    -   sketch 1e-7 * 59999999 59999999 -59999999 -59999999 1 1 -1 -1 153999997 153999997 -153999997 -153999997 29999999 29999999 -29999999 -29999999
    -   shadow rounding 0.022, seal 78903959
    -   shadow signed a3fd813a 3a1a023a 39c01660 18d66c2a 3b18d490 aef2ed2a e72993d6 db1388ac 18d66c2a fcfc0538 19305804 ed0fbc82 71f6bd0c 87c92e6e 0303fac8 dab99cd2
    -   shadow weighted 6d9baa68 16d66f82 81847fa9 76dae2ae 9075b59b db811be1 1e1596e1 739d4e4e dfd5560c 504c7814 66f0ace4 fa4b94c1 634daa71 938356ff 18242892 711af1a0
    +   sketch 1e-7 * 60000000 60000000 -60000000 -60000000 0 0 0 0 154004002 154004002 -154004002 -154004002 30000000 30000000 -30000000 -30000000
    +   shadow rounding 0.022, seal c2ead245
    +   shadow signed a3f98d81 3a17f957 39bd16f3 18d07e05 3b19d991 aeeee9db e72f81fb db0e8dbd 18d07e05 fcfd06e5 192b6069 ed0bbc87 71fdaf13 87cb33fd 0302f91b dab3ab59
    +   shadow weighted 6d9b1296 16d547f8 81842899 76db40bc 907655ed db83456f 1e12d669 739e0064 dfd522a4 504d5dcf 66f171a7 fa4a6c9f 634d626f 938441f6 1823d2b8 711b35ee

    snapshots/tiny.cpu.snap (1 of 1)
    diverged: y moved by rel. 2.4e-5 (noise 1.7e-7), the float64 shadow moves too

    accept  reject  skip  show more (d)  quit > a, r, s, d or q

    accept  reject  skip  show more (d)  quit > 
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
    let (_, question) = shown.split_once("sketch").unwrap();
    insta::assert_snapshot!(question.rsplit_once("sketch").unwrap().1.split_once('\n').unwrap().1, @"
    +   shadow rounding 0.022, seal 66567ff2
    +   shadow signed a3fd813a 3a1a023a 39c01660 18d66c2a 3b18d490 aef2ed2a e72993d6 db1388ac 18d66c2a fcfc0538 19305804 ed0fbc82 71f6bd0c 87c92e6e 0303fac8 dab99cd2
    +   shadow weighted 6d9baa68 16d66f82 81847fa9 76dae2ae 9075b59b db811be1 1e1596e1 739d4e4e dfd5560c 504c7814 66f0ace4 fa4b94c1 634daa71 938356ff 18242892 711af1a0

    snapshots/tiny.cpu.snap (1 of 1)
    new: no snapshot was accepted yet

    accept  reject  skip  show more (d)  quit > 
    1 snapshot still pending
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
}
