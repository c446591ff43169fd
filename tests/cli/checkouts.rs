//! What `git bisect run` checks out: commits without the sources, the harness or the fixture.

use std::fs;

use crate::common::env::{TestEnv, harness};

const DOUBLE: &str = "__global__ void twice(const float* x, float* y, int n)\n\
                      { int i = threadIdx.x; if (i < n) y[i] = 2 * x[i]; }\n";

/// Commits: the kernel as old.cu, as k.cu, with a harness, with the fixture, with a broken one.
fn project() -> TestEnv {
    let env = TestEnv::new();
    env.repo.commit_file("old.cu", DOUBLE, "c0");
    env.repo.git(&["mv", "old.cu", "k.cu"]);
    env.repo.commit("c1");
    env.repo.write("replay.toml", harness("call = \"twice<<<1, n>>>(x, y, n);\""));
    env.repo.commit("c2");
    env.write_tiny();
    env.repo.commit("c3");
    env
}

/// What a replay of the working tree says when `rev` is checked out.
fn at(env: &TestEnv, rev: &str, fixture: &str) -> String {
    env.repo.git(&["checkout", "-q", rev]);
    let head = env.repo.git(&["rev-parse", "--short=7", "HEAD"]);
    let text = env.replay(&[fixture]).text().replace(&head, "[HEAD]");
    env.repo.git(&["checkout", "-q", "main"]);
    text
}

#[test]
fn a_fixture_that_is_younger_than_the_commit_leaves_it_untestable() {
    let env = project();
    insta::assert_snapshot!(at(&env, "main~1", "fixtures/tiny"), @r#"
    exit code 125
    --- stderr
    error: the checkout at [HEAD] lacks fixtures/tiny, which main has
    caused by: there is no fixture folder fixtures/tiny
    hint: `replay bisect fixtures/tiny --good REV --bad REV` needs no checkout; for `git bisect run`, keep a copy of the fixture and of its replay.toml outside of the repository, with repository = "[ROOT]" in replay.toml
    "#);
    let typo = at(&env, "main", "fixtures/other");
    assert!(typo.starts_with("exit code 128"), "{typo}");
    env.repo.git(&["checkout", "-q", "main"]);
    fs::remove_dir_all(env.path("fixtures")).unwrap();
    let deleted = env.replay(&["fixtures/tiny"]);
    assert_eq!(deleted.code, Some(128), "HEAD has it: {}", deleted.text());
}

#[test]
fn a_harness_that_is_younger_than_the_commit_leaves_it_untestable() {
    let env = project();
    let kept = env.repo.beside("kept");
    fs::create_dir(&kept).unwrap();
    let harness = env.path("replay.toml");
    fs::write(kept.join("fixture.toml"), format!("harness = {harness:?}\n")).unwrap();
    fs::copy(env.path("fixtures/tiny/inputs.safetensors"), kept.join("inputs.safetensors"))
        .unwrap();
    let text = at(&env, "main~2", kept.to_str().unwrap());
    insta::assert_snapshot!(text.replace(kept.to_str().unwrap(), "[KEPT]"), @r#"
    exit code 125
    --- stderr
    error: the checkout at [HEAD] lacks [ROOT]/replay.toml, which main has
    caused by: failed to read [ROOT]/replay.toml
    caused by: No such file or directory (os error 2)
    hint: `replay bisect [KEPT] --good REV --bad REV` needs no checkout; for `git bisect run`, keep a copy of the fixture and of its replay.toml outside of the repository, with repository = "[ROOT]" in replay.toml
    "#);
}

#[test]
fn sources_of_another_name_leave_a_commit_untestable_also_in_the_working_tree() {
    let env = project();
    let kept = env.repo.beside("kept");
    fs::create_dir(&kept).unwrap();
    let root = env.repo.root();
    let text = fs::read_to_string(env.path("replay.toml")).unwrap();
    fs::write(kept.join("replay.toml"), format!("repository = {root:?}\n{text}")).unwrap();
    fs::write(kept.join("fixture.toml"), "harness = \"replay.toml\"\n").unwrap();
    fs::copy(env.path("fixtures/tiny/inputs.safetensors"), kept.join("inputs.safetensors"))
        .unwrap();
    insta::assert_snapshot!(at(&env, "main~3", kept.to_str().unwrap()), @"
    exit code 125
    --- stderr
    error: working tree `[ROOT]` has no file or folder `k.cu`
    ");
    let testable = at(&env, "main~2", kept.to_str().unwrap());
    assert!(testable.starts_with("exit code 0"), "{testable}");
}

#[test]
fn a_harness_of_another_time_is_the_commits_fault_in_a_bisection_alone() {
    let env = project();
    let good = env.repo.git(&["rev-parse", "HEAD"]);
    let text = fs::read_to_string(env.path("replay.toml")).unwrap();
    env.repo.commit_file("replay.toml", &text.replace("outputs.y", "outputs.z"), "c4");
    env.repo.commit_file("replay.toml", &text.replace("sources", "source"), "c5");
    env.repo.commit_file("replay.toml", &text, "c6");
    let alone = at(&env, "main~1", "fixtures/tiny");
    assert!(alone.starts_with("exit code 128"), "{alone}");
    env.repo.git(&["bisect", "start", "main", &good]);
    env.repo.git(&["checkout", "-q", "main~1"]);
    let run = env.replay(&["fixtures/tiny"]);
    assert_eq!(run.code, Some(125), "{}", run.text());
    env.repo.git(&["checkout", "-q", "main"]);
    env.repo.write("replay.toml", "sources = 3");
    let edited = env.replay(&["fixtures/tiny"]);
    assert_eq!(edited.code, Some(128), "the user's own: {}", edited.text());
}
