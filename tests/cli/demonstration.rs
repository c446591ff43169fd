//! The history of the language-model loss on both fixtures.

use crate::common::env::TestEnv;

#[test]
fn step0_shows_commit_device_launches_outputs_and_a_verdict() {
    let env = TestEnv::new().with_demonstration();
    insta::assert_snapshot!(env.replay(&["fixtures/step0", "--rev", "396b00e"]).text(), @"
    exit code 0
    --- stdout
    step0 at 396b00e Use 256 threads per position in the gradient kernel
    CPU, [COMPILER]

    launches
      lm_cross_entropy_loss_kernel    <<<2, 128>>>          src/loss.cu:123
      lm_cross_entropy_gradient_kernel<<<256, 256, 2048>>>  src/loss.cu:151

    outputs
      loss         f32 scalar                       026121d10ec08c358713c1d380d5073c
                   norm 1.84748  min 1.84748  max 1.84748  mean 1.84748  zeros 0  NaN 0  Inf 0  unwritten 0
      grad_logits  f32 [batch 8, seq 32, vocab 34]  3f13ccd85735fc40a2dc43478220cb37
                   norm 0.0537195  min -0.00446296  max 0.00444266  mean 6.41305e-13  zeros 1088  NaN 0  Inf 0  unwritten 0

    gradients
      grad_logits  matches d loss / d logits: 8 directional derivatives, worst rel. 9.5e-10 (noise 1e-9)

    completed: every output is written and finite; grad_logits matches its loss
    ");
}

#[test]
fn a_refused_launch_shows_where_and_why() {
    let env = TestEnv::new().with_demonstration();
    insta::assert_snapshot!(env.replay(&["fixtures/step0-words", "--rev", "37707d4"]).text(), @"
    exit code 1
    --- stdout
    step0-words at 37707d4 Add the gradient of the cross-entropy loss
    CPU, [COMPILER]

    launches
      lm_cross_entropy_loss_kernel    <<<1, 128>>>    src/loss.cu:93
      lm_cross_entropy_gradient_kernel<<<32, 2004>>>  src/loss.cu:120  invalid configuration argument (cudaErrorInvalidConfiguration)

    outputs
      loss         f32 scalar                         95b2601c89f5bdd34e908237cdc1b927
                   norm 4.31392  min 4.31392  max 4.31392  mean 4.31392  zeros 0  NaN 0  Inf 0  unwritten 0
      grad_logits  f32 [batch 2, seq 16, vocab 2004]  800b4e114a47ee4a07df4f01d1f2857a
                   norm 0  min none  max none  mean none  zeros 0  NaN 0  Inf 0  unwritten 64128

    gradients
      grad_logits  not checked: the replay failed

    printed
      | lm_cross_entropy_gradient_kernel was not launched: invalid configuration argument

    also: unwritten: 64128 of 64128 elements of grad_logits, first at [0, 0, 0]
    failed: launch error: lm_cross_entropy_gradient_kernel<<<32, 2004>>> at src/loss.cu:120: invalid configuration argument (cudaErrorInvalidConfiguration)
    ");
}

/// The commits in the order of the story.
const COMMITS: [&str; 11] = [
    "37707d4", "396b00e", "565f23f", "d956456", "24384be", "a3e0bb1", "534c0b0", "265e7d7",
    "61b3d97", "ec733b6", "main",
];

#[test]
fn every_commit_is_replayed_and_those_without_kernel_changes_compile_nothing() {
    let env = TestEnv::isolated().with_demonstration().without_gradients();
    let mut table = Vec::new();
    for commit in COMMITS {
        let before = env.cached("artifacts").len();
        let step0 = env.replay(&["fixtures/step0", "--rev", commit]);
        let words = env.replay(&["fixtures/step0-words", "--rev", commit]);
        let compiled = env.cached("artifacts").len() > before;
        let code = |run: &crate::common::env::Run| {
            run.code.map_or("-".to_owned(), |code| code.to_string())
        };
        let verdict = |line: &str| line.split(" at ").next().unwrap_or_default().to_owned();
        table.push(format!(
            "{commit}  {:10}  step0 {} {}  |  words {} {}",
            if compiled { "compiles" } else { "known" },
            code(&step0),
            verdict(step0.last_line()),
            code(&words),
            verdict(words.last_line()),
        ));
    }
    insta::assert_snapshot!(table.join("\n"), @"
    37707d4  compiles    step0 0 completed: every output is written and finite  |  words 1 failed: launch error: lm_cross_entropy_gradient_kernel<<<32, 2004>>>
    396b00e  compiles    step0 0 completed: every output is written and finite  |  words 0 completed: every output is written and finite
    565f23f  known       step0 0 completed: every output is written and finite  |  words 1 failed: launch error: lm_cross_entropy_gradient_kernel<<<32, 2004>>>
    d956456  known       step0 0 completed: every output is written and finite  |  words 1 failed: launch error: lm_cross_entropy_gradient_kernel<<<32, 2004>>>
    24384be  known       step0 0 completed: every output is written and finite  |  words 1 failed: launch error: lm_cross_entropy_gradient_kernel<<<32, 2004>>>
    a3e0bb1  compiles    step0 0 completed: every output is written and finite  |  words 1 failed: launch error: lm_cross_entropy_gradient_kernel<<<32, 2004>>>
    534c0b0  compiles    step0 0 completed: every output is written and finite  |  words 1 failed: launch error: lm_cross_entropy_gradient_kernel<<<32, 2004>>>
    265e7d7  known       step0 0 completed: every output is written and finite  |  words 1 failed: launch error: lm_cross_entropy_gradient_kernel<<<32, 2004>>>
    61b3d97  compiles    step0 0 completed: every output is written and finite  |  words 0 completed: every output is written and finite
    ec733b6  known       step0 0 completed: every output is written and finite  |  words 0 completed: every output is written and finite
    main  compiles    step0 0 completed: every output is written and finite  |  words 0 completed: every output is written and finite
    ");
}

#[test]
fn the_commit_before_the_gradient_is_untestable() {
    let env = TestEnv::new().with_demonstration();
    let run = env.replay(&["fixtures/step0", "--rev", "f37bce7"]).without_compilers_words();
    insta::assert_snapshot!(run.text(), @"
    exit code 125
    --- stdout
    step0 at f37bce7 Add the cross-entropy loss
    CPU, [COMPILER]

    untestable: the call does not compile: call in replay.toml:7: error: [MESSAGE]
    caused by: line 7 of replay.toml
                 |
               7 | lm_cross_entropy_gradient(logits, targets, grad_logits, batch, seq, vocab, mask);
                 | ^^^^^^^^^^^^^^^^^^^^^^^^^
    hint: the whole log: [CACHE]/refusals/[KEY]
    ");
}

#[test]
fn the_working_tree_beside_a_bundle_is_replayed_without_a_revision() {
    let env = TestEnv::new().with_demonstration();
    let tree = env.replay(&["fixtures/step0"]);
    let tip = env.replay(&["fixtures/step0", "--rev", "main"]);
    let after_heading = |text: &str| text.split_once('\n').map(|(_, rest)| rest.to_owned());
    assert!(tree.stdout.starts_with("step0 at the working tree\n"), "{}", tree.text());
    assert_eq!(after_heading(&tree.stdout), after_heading(&tip.stdout));
    assert_eq!(tree.code, Some(0));
}
