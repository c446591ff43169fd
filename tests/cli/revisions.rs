//! Revisions that cannot be replayed: 128 where the name is at fault, 125 where the revision is.

use std::fs;
use std::os::unix::fs::symlink;

use crate::common::env::{TestEnv, harness};

const KERNEL: &str = "__global__ void twice(const float* x, float* y, int n)\n\
                      {\n    int i = threadIdx.x;\n    if (i < n) y[i] = 2 * x[i];\n}\n";
const CALL: &str = "twice<<<1, n>>>(x, y, n);";

#[test]
fn names_that_are_no_commit_are_refused() {
    let env = TestEnv::new().with_kernel(KERNEL, CALL);
    insta::assert_snapshot!(env.replay(&["fixtures/tiny", "--rev", "nonsense"]).text(), @"
    exit code 128
    --- stderr
    error: unknown revision `nonsense`
    ");
    insta::assert_snapshot!(env.replay(&["fixtures/tiny", "--rev", "HEAD^{tree}"]).text(), @"
    exit code 128
    --- stderr
    error: revision `HEAD^{tree}` is a tree, not a commit
    ");
    // The ids of these two begin alike; they follow from text, names and dates, which are fixed.
    let tree = env.repo.git(&["hash-object", "-t", "tree", "-w", "/dev/null"]);
    for message in ["Number 169", "Number 354"] {
        let id = env.repo.git(&["commit-tree", "-m", message, &tree]);
        env.repo.git(&["update-ref", &format!("refs/heads/{id}"), &id]);
    }
    insta::assert_snapshot!(env.replay(&["fixtures/tiny", "--rev", "5dd0"]).text(), @"
    exit code 128
    --- stderr
    error: ambiguous revision `5dd0`: 5dd02a5 (Number 169), 5dd0318 (Number 354)
    hint: write more digits of the id
    ");
}

#[test]
fn revisions_whose_sources_cannot_be_read_are_untestable() {
    let env = TestEnv::new().with_kernel(KERNEL, CALL);
    let mut told = String::new();
    let mut ask = |what: &str| {
        let commit = env.repo.commit(what);
        let run = env.replay(&["fixtures/tiny", "--rev", "HEAD"]);
        told += &format!("== {what}: {}", run.text().replace(&commit[..7], "[COMMIT]"));
        env.repo.git(&["reset", "-q", "--hard", "HEAD~1"]);
        env.write_tiny();
    };
    fs::remove_file(env.path("k.cu")).unwrap();
    ask("no source");
    fs::remove_file(env.path("k.cu")).unwrap();
    symlink("../../outside.cu", env.path("k.cu")).unwrap();
    ask("a symlink that leads outside");
    env.repo.write("k.cu", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n");
    ask("an LFS pointer");
    fs::remove_file(env.path("k.cu")).unwrap();
    env.repo.git(&["init", "-q", "k.cu"]);
    let inner = env.path("k.cu");
    env.repo.git_in(&inner, &["commit", "-q", "--allow-empty", "-m", "inner"]);
    ask("a submodule");
    insta::assert_snapshot!(told, @r#"
    == no source: exit code 125
    --- stderr
    error: revision [COMMIT] has no file or folder `k.cu`
    hint: if only some revisions have it, write { path = "k.cu", optional = true } in replay.toml, or a list of its names: ["k.cu", "OTHER"]
    == a symlink that leads outside: exit code 125
    --- stderr
    error: revision [COMMIT] has a symlink `k.cu` that leads outside, to `../../outside.cu`
    == an LFS pointer: exit code 125
    --- stderr
    error: revision [COMMIT] has only a Git LFS pointer at `k.cu`, not the file
    hint: git's own objects are read, not those of LFS: check the revision out, and replay the working tree, without --rev
    == a submodule: exit code 125
    --- stderr
    error: revision [COMMIT] has a submodule at `k.cu`, whose files are not in this repository
    hint: name folders without submodules in `sources`; a copy of its files outside of the repository serves as headers for every revision: `system_include`, or `overlay` for device code
    "#);
}

#[test]
fn a_source_that_does_not_compile_is_untestable_and_shows_the_users_line() {
    let env = TestEnv::new().with_kernel(KERNEL, CALL);
    env.repo.write("k.cu", KERNEL.replace("2 * x[i]", "nothing * x[i]"));
    let run = env.replay(&["fixtures/tiny"]).without_compilers_words();
    insta::assert_snapshot!(run.text(), @"
    exit code 125
    --- stdout
    tiny at the working tree
    CPU, [COMPILER]

    untestable: the sources do not compile: k.cu:4: error: [MESSAGE]
    hint: the whole log: [CACHE]/refusals/[KEY]
    ");
    let again = env.replay(&["fixtures/tiny"]).without_compilers_words();
    assert_eq!(again.text(), run.text(), "what is remembered reads like what was seen");
}

#[test]
fn a_call_that_does_not_fit_is_untestable() {
    let env = TestEnv::new().with_kernel(KERNEL, CALL);
    env.repo.write("replay.toml", harness("call = \"thrice<<<1, n>>>(x, y, n);\""));
    let run = env.replay(&["fixtures/tiny"]).without_compilers_words();
    insta::assert_snapshot!(run.text(), @r#"
    exit code 125
    --- stdout
    tiny at the working tree
    CPU, [COMPILER]

    untestable: the call does not compile: call in replay.toml:2: error: [MESSAGE]
    caused by: line 2 of replay.toml
                 |
               2 | call = "thrice<<<1, n>>>(x, y, n);"
                 |         ^^^^^^
    hint: the whole log: [CACHE]/refusals/[KEY]
    "#);
}

#[test]
fn a_bundle_that_is_damaged_is_refused() {
    let env = TestEnv::with_own_replays().with_kernel(KERNEL, CALL);
    env.repo.git(&["bundle", "create", "-q", "../whole.bundle", "main"]);
    let whole = fs::read(env.repo.beside("whole.bundle")).unwrap();
    env.repo.write(
        "replay.toml",
        format!("repository = \"k.bundle\"\n{}", harness(&format!("call = {CALL:?}"))),
    );
    let mut told = String::new();
    let mut middle = whole.clone();
    let at = middle.len() - 40;
    middle[at] ^= 0x55;
    let bundles = [
        ("no bundle", b"hello\n".to_vec()),
        ("damaged", middle),
        ("truncated", whole[..60].to_vec()),
    ];
    for (what, bytes) in bundles {
        env.repo.write("k.bundle", bytes);
        told += &format!("== {what}: {}", env.replay(&["fixtures/tiny", "--rev", "main"]).text());
    }
    insta::assert_snapshot!(told, @"
    == no bundle: exit code 128
    --- stderr
    error: `k.bundle` is neither a git repository nor a git bundle
    == damaged: exit code 128
    --- stderr
    error: corrupt bundle `k.bundle`: its pack cannot be read
    caused by: error reading from the zlib stream
    hint: copy the bundle again, and check it with: git bundle verify FILE
    == truncated: exit code 128
    --- stderr
    error: corrupt bundle `k.bundle`: line 2: it ends within its header
    hint: copy the bundle again, and check it with: git bundle verify FILE
    ");
    env.repo.write("k.bundle", whole);
    assert_eq!(env.replay(&["fixtures/tiny", "--rev", "main"]).code, Some(0));
}
