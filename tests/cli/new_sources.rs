//! A pull request that adds a kernel with its fixture and snapshot: the trusted revision has no such sources, and the
//! new ones are judged by themselves.

use serde_json::Value;

use crate::common::env::TestEnv;
use crate::common::schema;

const CALL: &str = "twice<<<1, n>>>(x, y, n);";

fn kernel(body: &str) -> String {
    format!("__global__ void twice(const float* x, float* y, int n)\n{{\n{body}\n}}\n")
}

const RIGHT: &str = "int i = threadIdx.x;\nif (i < n) y[i] = 2 * x[i];";

/// A repository whose second commit adds a kernel of this body.
fn added(body: &str) -> TestEnv {
    let env = TestEnv::new();
    env.repo.commit_file("README", "no kernels yet", "Begin");
    env.with_kernel(&kernel(body), CALL)
}

fn against_base(env: &TestEnv, words: &[&str]) -> String {
    env.replay(&[&["fixtures/tiny", "--against", "HEAD~1"], words].concat()).text()
}

fn diff(env: &TestEnv, words: &[&str]) -> String {
    env.replay(&[&["diff", "fixtures/tiny", "HEAD~1", "HEAD"], words].concat()).text()
}

#[test]
fn sources_that_the_base_lacks_are_new_and_judged_by_themselves() {
    let env = added(RIGHT);
    insta::assert_snapshot!(against_base(&env, &["--rev", "HEAD"]), @"
    exit code 0
    --- stdout
    tiny at 60a5bc8 A kernel
    against b0eff61 Begin
    CPU, [COMPILER]

    launches
      twice<<<1, 4>>>  call in replay.toml:2

    outputs
      y  f32 [n 4]  92be64be15f8b6407b218559afe28816
         norm 10.9545  min 2  max 8  mean 5  zeros 0  NaN 0  Inf 0  unwritten 0

    new: the base has no such sources; by itself completed: every output is written and finite
    ");
    insta::assert_snapshot!(against_base(&env, &["--rev", "HEAD", "--format", "markdown"]), @"
    exit code 0
    --- stdout
    <!-- replay -->
    ## replay: 1 new

    **new** tiny at 60a5bc8 against b0eff61 on cpu
    - new: the base has no such sources; by itself completed: every output is written and finite
    - revision b0eff61 has no file or folder &#96;k.cu&#96;

    [RUN]
    ");
}

#[test]
fn a_comparison_names_the_base_that_lacks_the_sources_in_json_and_markdown() {
    let env = added(RIGHT);
    let words = ["diff", "fixtures/tiny", "HEAD~1", "HEAD", "--format"];
    let json = env.replay(&[&words[..], &["json"]].concat()).stdout;
    let document: Value = serde_json::from_str(&json).expect("a document");
    assert_eq!(schema::problems(&document), [""; 0]);
    assert_eq!(document["new"][0]["base"]["subject"], "Begin");
    insta::assert_snapshot!(env.replay(&[&words[..], &["markdown"]].concat()).text(), @"
    exit code 0
    --- stdout
    <!-- replay -->
    ## replay: 1 new

    **new** tiny at 60a5bc8 against b0eff61 on cpu
    - new: the base has no such sources; by itself completed: every output is written and finite
    - revision b0eff61 has no file or folder &#96;k.cu&#96;

    [RUN]
    ");
}

#[test]
fn a_snapshot_that_comes_with_the_sources_is_compared_with() {
    let env = added(RIGHT);
    let mut accept = env.command(&["fixtures/tiny"]);
    assert_eq!(env.finish(accept.env("REPLAY_UPDATE", "always")).code, Some(0));
    let said = against_base(&env, &[]);
    insta::assert_snapshot!(said.lines().last().unwrap_or_default(), @"new: the base has no such sources; by itself identical: the same bits as the snapshot");
    assert!(said.contains("snapshots/tiny.cpu.snap  matches"), "{said}");
}

#[test]
fn a_diff_with_a_revision_without_the_sources_tells_how_the_other_stands() {
    let env = added(RIGHT);
    insta::assert_snapshot!(diff(&env, &[]), @"
    exit code 0
    --- stdout
    tiny at b0eff61 Begin
      revision b0eff61 has no file or folder `k.cu`

    tiny at 60a5bc8 A kernel
    CPU, [COMPILER]

    launches
      twice<<<1, 4>>>  call in replay.toml:2

    outputs
      y  f32 [n 4]  92be64be15f8b6407b218559afe28816
         norm 10.9545  min 2  max 8  mean 5  zeros 0  NaN 0  Inf 0  unwritten 0

    new: the base has no such sources; by itself completed: every output is written and finite
    ");
    let json = env.replay(&["diff", "fixtures/tiny", "HEAD~1", "HEAD", "--format", "json"]);
    assert_eq!(json.code, Some(0), "{}", json.text());
    let document: Value = serde_json::from_str(&json.stdout).expect("a document");
    let new = &document["new"][0];
    assert_eq!((&new["verdict"], &new["fixture"]), (&"new".into(), &"tiny".into()));
    assert_eq!(document["diffs"], Value::Array(Vec::new()));
    assert_eq!(schema::problems(&document), [""; 0]);
    insta::assert_snapshot!(new["base_lacks"].as_str().expect("a reason"), @"revision b0eff61 has no file or folder `k.cu`");
    let page = env.replay(&["diff", "fixtures/tiny", "HEAD~1", "HEAD", "--format", "html"]).stdout;
    assert!(page.contains("<title>replay diff: new: the base has no such sources"), "{page}");
}

#[test]
fn new_sources_that_fail_or_depend_on_the_order_are_no_better_for_being_new() {
    let env = added("if (threadIdx.x > 0) y[threadIdx.x] = 2 * x[threadIdx.x];");
    let [replayed, compared] = [against_base(&env, &[]), diff(&env, &[])];
    let verdict = |said: &str| {
        let last = said.lines().last().unwrap_or_default();
        format!("{}\n{last}", said.lines().next().unwrap_or_default())
    };
    insta::assert_snapshot!(verdict(&replayed), @"
    exit code 1
    failed: unwritten: 1 of 4 elements of y, first at [0]
    ");
    assert_eq!(verdict(&compared), verdict(&replayed));

    let racing = "__shared__ float last;\nlast = x[threadIdx.x];\n__syncthreads();\n\
                  y[threadIdx.x] = last;";
    let env = added(racing);
    let [replayed, compared] =
        [against_base(&env, &["--check", "off"]), diff(&env, &["--check", "off"])];
    insta::assert_snapshot!(verdict(&replayed), @"
    exit code 1
    diverged: y depends on the order of blocks and threads
    ");
    assert_eq!(verdict(&compared), verdict(&replayed));
}

#[test]
fn a_diff_whose_other_side_lacks_the_sources_is_untestable() {
    let env = added(RIGHT);
    let run = env.replay(&["diff", "fixtures/tiny", "HEAD", "HEAD~1"]);
    insta::assert_snapshot!(run.text(), @r#"
    exit code 125
    --- stderr
    error: revision b0eff61 has no file or folder `k.cu`
    hint: if only some revisions have it, write { path = "k.cu", optional = true } in replay.toml, or a list of its names: ["k.cu", "OTHER"]
    "#);
}
