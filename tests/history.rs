//! History read through git2, compared with what the git command line says.

#[path = "common/repo.rs"]
mod repo;

use std::{collections::BTreeSet, error::Error, fs, os::unix::fs::symlink, path::Path};

use insta::assert_snapshot;
use replay::history::{
    Commit, CommitGraph, History, HistoryError, SourceSpec, source_set_from_dir,
};
use repo::TestRepo;

fn spec(sources: &[&str], include: &[&str]) -> SourceSpec {
    let owned = |paths: &[&str]| paths.iter().map(|path| path.to_string()).collect();
    SourceSpec { sources: owned(sources), include: owned(include), prefix: String::new() }
}

fn kernels() -> SourceSpec {
    spec(&["src/loss.cu"], &["include"])
}

fn open(repo: &TestRepo) -> History {
    History::open(&repo.root()).expect("a repository")
}

/// Three commits of a kernel, a merged side branch, tags.
fn kernel_history() -> TestRepo {
    let repo = TestRepo::new();
    repo.write("include/loss.h", "#pragma once\n");
    repo.commit_file("src/loss.cu", "one\n", "Add the kernel\n\nWith a body.");
    repo.git(&["tag", "-a", "v1", "-m", "first"]);
    repo.commit_file("README.md", "text\n", "Explain");
    repo.git(&["checkout", "-q", "-b", "side"]);
    repo.commit_file("include/loss.h", "#pragma once\n// more\n", "Say more");
    repo.git(&["checkout", "-q", "main"]);
    repo.commit_file("src/loss.cu", "two\n", "Rewrite the kernel");
    repo.merge(&["side"], "Merge side");
    repo.git(&["tag", "light"]);
    repo.commit_file("notes.txt", "text\n", "Take notes");
    repo
}

fn error_text(error: &HistoryError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!("\ncaused by: {cause}");
        source = cause.source();
    }
    if let Some(hint) = error.hint() {
        text += &format!("\nhint: {hint}");
    }
    text
}

/// The text of an error, with the temporary folder's name taken out.
fn shown<T: std::fmt::Debug>(repo: &TestRepo, result: Result<T, HistoryError>) -> String {
    let folder = repo.beside("");
    error_text(&result.expect_err("an error")).replace(folder.to_str().expect("UTF-8"), "/tmp/")
}

#[test]
fn revisions_mean_what_git_rev_parse_says() {
    let repo = kernel_history();
    let history = open(&repo);
    let full = repo.git(&["rev-parse", "HEAD~1"]);
    let described = repo.git(&["describe", "HEAD"]);
    let forms = [
        "HEAD",
        "@",
        "HEAD~2",
        "HEAD^",
        "HEAD~1^2",
        "HEAD^^2~1",
        "v1",
        "v1^{}",
        "v1^{commit}",
        "v1^0",
        "tags/v1",
        "light",
        "main",
        "heads/main",
        "refs/heads/side",
        "side@{0}",
        "main@{1}",
        "HEAD@{1}",
        "@{0}",
        ":/Rewrite",
        "HEAD^{/Explain}",
        "main~3",
        "@~1",
        &full,
        &full[..7],
        &full[..4],
        &described,
    ];
    for form in forms {
        let commit = history.resolve(form).unwrap_or_else(|e| panic!("{form}: {}", error_text(&e)));
        let expected = repo.git(&["log", "-1", "--format=%H", form]);
        assert_eq!(commit.id.to_string(), expected, "{form}");
    }
}

#[test]
fn a_commit_shows_what_git_log_shows() {
    let repo = kernel_history();
    let history = open(&repo);
    for rev in ["v1", "HEAD~1", "HEAD"] {
        let commit = history.resolve(rev).expect("a commit");
        let parents: Vec<String> = commit.parents.iter().map(|id| id.to_string()).collect();
        let shown = format!(
            "{}|{}|{}|{}|{}|{}",
            commit.id,
            commit.short,
            commit.subject,
            commit.author_name,
            commit.time_s,
            parents.join(" ")
        );
        assert_eq!(shown, repo.git(&["log", "-1", "--format=%H|%h|%s|%an|%ct|%P", rev]));
    }
    assert_eq!(history.head().expect("HEAD"), history.resolve("main").expect("main"));
}

#[test]
fn a_linked_worktree_and_a_bare_clone_are_repositories() {
    let repo = kernel_history();
    let (linked, bare) = (repo.beside("linked"), repo.beside("bare.git"));
    repo.git(&["worktree", "add", "-q", "--detach", linked.to_str().unwrap(), "v1"]);
    repo.git(&["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    let linked = History::open(&linked).expect("a worktree");
    assert_eq!(linked.head().unwrap().id, open(&repo).resolve("v1").unwrap().id);
    let bare = History::open(&bare).expect("a bare repository");
    assert_eq!(bare.head().unwrap(), open(&repo).head().unwrap());
    assert_snapshot!(shown(&repo, bare.working_tree(&kernels())), @r"
    `/tmp/bare.git` has no working tree
    hint: name a revision with --rev
    ");
}

#[test]
fn the_repository_around_a_file_is_found() {
    let repo = kernel_history();
    let found = History::discover(&repo.root().join("src/loss.cu")).expect("a repository");
    assert_eq!(found.path(), fs::canonicalize(repo.root()).unwrap());
    let missing = History::discover(&repo.beside("home"));
    assert_snapshot!(shown(&repo, missing), @"no git repository around `/tmp/home`");
}

#[test]
fn what_is_no_repository_is_refused_by_name() {
    let repo = kernel_history();
    let open = |name: &str| History::open(&repo.beside(name));
    assert_snapshot!(shown(&repo, open("home")), @"`/tmp/home` is neither a git repository nor a git bundle");
    assert_snapshot!(shown(&repo, open("repo/src")), @"`/tmp/repo/src` is neither a git repository nor a git bundle");
    assert_snapshot!(shown(&repo, open("repo/README.md")), @"`/tmp/repo/README.md` is neither a git repository nor a git bundle");
    assert_snapshot!(shown(&repo, open("nothing")), @r"
    failed to open `/tmp/nothing`
    caused by: No such file or directory (os error 2)
    ");
}

#[test]
fn a_repository_of_sha256_is_refused() {
    let repo = TestRepo::with_options(&["--object-format=sha256"]);
    repo.commit_file("a", "a", "a");
    assert_snapshot!(shown(&repo, History::open(&repo.root())), @"`/tmp/repo` names its objects by SHA-256, only SHA-1 is supported");
    let bundle = repo.beside("all.bundle");
    repo.git(&["bundle", "create", "-q", bundle.to_str().unwrap(), "--all"]);
    assert_snapshot!(shown(&repo, History::open(&bundle)), @"`/tmp/all.bundle` names its objects by SHA-256, only SHA-1 is supported");
}

#[test]
fn an_empty_repository_says_so() {
    let repo = TestRepo::new();
    assert_snapshot!(shown(&repo, open(&repo).head()), @"`/tmp/repo` has no commits yet");
    assert_snapshot!(shown(&repo, open(&repo).resolve("HEAD")), @"`/tmp/repo` has no commits yet");
}

#[test]
fn an_unknown_revision_names_branches_like_it() {
    let repo = kernel_history();
    repo.git(&["branch", "fix-gradient"]);
    let history = open(&repo);
    assert_snapshot!(shown(&repo, history.resolve("fix-gradeint~2")), @r"
    unknown revision `fix-gradeint~2`
    hint: did you mean `fix-gradient`?
    ");
    assert_snapshot!(shown(&repo, history.resolve("deadbeef")), @"unknown revision `deadbeef`");
    assert_snapshot!(shown(&repo, history.resolve("")), @"unknown revision ``");
    assert_snapshot!(shown(&repo, history.resolve("HEAD~99")), @"unknown revision `HEAD~99`");
    assert!(!history.resolve("deadbeef").unwrap_err().is_revision_fault());
}

#[test]
fn a_tree_or_a_blob_is_not_a_commit() {
    let repo = kernel_history();
    let history = open(&repo);
    assert_snapshot!(shown(&repo, history.resolve("HEAD:src")), @"revision `HEAD:src` is a tree, not a commit");
    assert_snapshot!(shown(&repo, history.resolve("HEAD:src/loss.cu")), @"revision `HEAD:src/loss.cu` is a blob, not a commit");
}

/// Commits until `enough` of them share their first four digits; returns the digits.
fn collide(repo: &TestRepo, enough: usize) -> String {
    let mut stream = String::new();
    for n in 0..3000 {
        stream += &format!(
            "commit refs/heads/many\ncommitter C <c@example.com> {} +0000\ndata <<END\nNumber {n}\nEND\n{}",
            1_700_000_000 + n,
            if n == 0 { "M 644 inline f\ndata 1\nx\n" } else { "" }
        );
    }
    fs::write(repo.beside("stream"), stream).unwrap();
    let mut import = repo.command(&repo.root());
    import.args(["fast-import", "--quiet"]);
    import.stdin(fs::File::open(repo.beside("stream")).unwrap());
    assert!(import.status().unwrap().success());
    let ids = repo.git(&["rev-list", "many"]);
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for id in ids.lines() {
        *counts.entry(&id[..4]).or_default() += 1;
    }
    counts.into_iter().find(|(_, count)| *count >= enough).expect("a collision").0.to_owned()
}

#[test]
fn an_ambiguous_prefix_lists_its_commits() {
    let repo = TestRepo::new();
    let prefix = collide(&repo, 2);
    let history = open(&repo);
    let error = history.resolve(&format!("{prefix}~1")).unwrap_err();
    let HistoryError::AmbiguousRevision { candidates, total, .. } = &error else {
        panic!("{error}");
    };
    let expected: Vec<String> = repo
        .git(&["rev-list", "many"])
        .lines()
        .filter(|id| id.starts_with(&prefix))
        .map(str::to_owned)
        .collect();
    assert_eq!(*total, expected.len());
    for candidate in candidates {
        let id = expected.iter().find(|id| id.starts_with(&candidate.short)).expect("its id");
        assert_eq!(candidate.subject, repo.git(&["log", "-1", "--format=%s", id]));
    }
    assert_snapshot!(error_text(&error), @r"
    ambiguous revision `0049`: 00490e2 (Number 2958), 004989c (Number 1443)
    hint: write more digits of the id
    ");
}

/// The ids in a graph, and its edges, as `git rev-list --parents` lists them, sorted.
fn edges(graph: &CommitGraph) -> Vec<String> {
    let mut lines: Vec<String> = graph
        .nodes
        .iter()
        .map(|node| {
            let mut parents: Vec<String> =
                node.parents.iter().map(|&parent| graph.nodes[parent].id.to_string()).collect();
            parents.extend(node.outside.iter().map(|id| id.to_string()));
            parents.sort();
            format!("{} {}", node.id, parents.join(" ")).trim_end().to_owned()
        })
        .collect();
    lines.sort();
    lines
}

/// `git rev-list BAD ^GOOD`, in two steps: in one, git trusts the commits' dates.
fn git_edges(repo: &TestRepo, good: &[String], bad: &[String], options: &[&str]) -> Vec<String> {
    let list = |options: &[&str], ends: &[String]| -> Vec<String> {
        let mut arguments = vec!["rev-list", "--parents"];
        arguments.extend(options);
        arguments.extend(ends.iter().map(String::as_str));
        repo.git(&arguments).lines().map(str::to_owned).collect()
    };
    let behind_good: BTreeSet<String> = match good {
        [] => BTreeSet::new(),
        good => list(&[], good).iter().map(|line| line[..40].to_owned()).collect(),
    };
    let mut lines: Vec<String> = list(options, bad)
        .into_iter()
        .filter(|line| !behind_good.contains(&line[..40]))
        .map(|line| {
            let mut ids: Vec<&str> = line.split(' ').collect();
            ids[1..].sort();
            ids.join(" ")
        })
        .collect();
    lines.sort();
    lines
}

fn assert_parents_first(graph: &CommitGraph) {
    for (position, node) in graph.nodes.iter().enumerate() {
        assert!(node.parents.iter().all(|&parent| parent < position));
    }
}

/// A history with an octopus, an unrelated root and skewed clocks: commits `c0`.. as tags.
fn braid(seed: u64) -> TestRepo {
    let repo = TestRepo::new();
    let mut state = seed;
    let mut random = move |bound: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % bound
    };
    let mut stream = String::new();
    for n in 0..40_u64 {
        let time = 1_700_000_000 + n * 100 + random(2000);
        stream += &format!(
            "reset refs/tags/c{n}\ncommit refs/tags/c{n}\nmark :{}\ncommitter C <c@example.com> {time} +0000\ndata 1\nx\n",
            n + 1
        );
        let parents =
            if n == 0 || random(15) == 0 { 0 } else { 1 + random(10) / 7 + random(12) / 11 };
        let chosen: BTreeSet<u64> = (0..parents).map(|_| n - random(n.min(6))).collect();
        for (position, mark) in chosen.iter().enumerate() {
            stream += &format!("{} :{mark}\n", if position == 0 { "from" } else { "merge" });
        }
    }
    fs::write(repo.beside("stream"), stream).unwrap();
    let mut import = repo.command(&repo.root());
    import.args(["fast-import", "--quiet"]);
    import.stdin(fs::File::open(repo.beside("stream")).unwrap());
    assert!(import.status().unwrap().success());
    repo
}

#[test]
fn graphs_are_those_of_git_rev_list() {
    for seed in 0..4 {
        let repo = braid(seed);
        let history = open(&repo);
        let commit = |n: i32| history.resolve(&format!("c{n}")).unwrap();
        for (good, bad) in [
            (vec![3_i32], vec![39]),
            (vec![10, 14], vec![38]),
            (vec![], vec![20]),
            (vec![20], vec![36, 39]),
            (vec![39], vec![3]),
        ] {
            let goods: Vec<Commit> = good.iter().map(|&n| commit(n)).collect();
            let bads: Vec<Commit> = bad.iter().map(|&n| commit(n)).collect();
            let names = |numbers: &[i32]| -> Vec<String> {
                numbers.iter().map(|n| format!("c{n}")).collect()
            };
            let (good, bad) = (names(&good), names(&bad));

            let graph = history.graph(&goods, &bads, false).unwrap();
            assert_eq!(edges(&graph), git_edges(&repo, &good, &bad, &[]), "seed {seed}");
            assert_parents_first(&graph);

            let first = history.graph(&goods, &bads, true).unwrap();
            let expected = git_edges(&repo, &good, &bad, &["--first-parent"]);
            let ids = |lines: Vec<String>| -> Vec<String> {
                lines.iter().map(|line| line[..40].to_owned()).collect()
            };
            assert_eq!(ids(edges(&first)), ids(expected), "seed {seed}");
            assert!(first.nodes.iter().all(|node| node.parents.len() + node.outside.len() <= 1));
        }
    }
}

#[test]
fn merge_bases_are_those_of_git() {
    for seed in 0..6 {
        let repo = braid(seed);
        let history = open(&repo);
        let commit = |n: i32| history.resolve(&format!("c{n}")).unwrap();
        let graph = history.graph(&[commit(30), commit(34)], &[commit(37)], false).unwrap();
        let output = repo.try_git(&repo.root(), &["merge-base", "--all", "c37", "c30", "c34"]);
        let mut expected: Vec<String> =
            String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        expected.sort();
        let found: Vec<String> = graph.merge_bases.iter().map(|id| id.to_string()).collect();
        assert_eq!(found, expected, "seed {seed}");
    }
}

#[test]
fn ranges_are_those_of_git_log() {
    let repo = kernel_history();
    let history = open(&repo);
    let ranges: [&[&str]; 11] = [
        &["v1..main"],
        &["v1.."],
        &["side..main"],
        &["side...main~2"],
        &["^v1", "main"],
        &["main", "^side", "^v1"],
        &["v1..side", "v1..main"],
        &["main~1^!"],
        &["main~1^@"],
        &["main~1^-"],
        &["main"],
    ];
    for words in ranges {
        let commits = history.range(&words.join(" ")).unwrap();
        let mut found: Vec<String> = commits.iter().map(|commit| commit.id.to_string()).collect();
        let mut arguments = vec!["rev-list"];
        arguments.extend(words);
        let mut expected: Vec<String> = repo.git(&arguments).lines().map(str::to_owned).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{words:?}");
    }
    let subjects: Vec<String> =
        history.range("v1~0..main^").unwrap().into_iter().map(|commit| commit.subject).collect();
    assert_eq!(subjects.first().unwrap(), "Explain");
    assert_eq!(subjects.last().unwrap(), "Merge side");
    let patterned = history.range("HEAD^{/Say more}").unwrap();
    assert_eq!(patterned.last().unwrap().subject, "Say more");
}

#[test]
fn a_range_without_an_end_is_refused() {
    let repo = kernel_history();
    let history = open(&repo);
    assert_snapshot!(shown(&repo, history.range("^v1")), @"`^v1` is no range of commits");
    assert_snapshot!(shown(&repo, history.range(" ")), @"` ` is no range of commits");
    assert_snapshot!(shown(&repo, history.range("v1..mian")), @r"
    unknown revision `mian`
    hint: did you mean `main`?
    ");
}

#[test]
fn a_shallow_clone_names_the_parent_it_lacks() {
    let repo = kernel_history();
    let clone = repo.beside("clone");
    let url = format!("file://{}", repo.root().display());
    repo.git(&["clone", "-q", "--depth", "2", &url, clone.to_str().unwrap()]);
    let history = History::open(&clone).unwrap();
    let head = history.resolve("HEAD").unwrap();
    for error in [
        history.graph(&[], std::slice::from_ref(&head), false).unwrap_err(),
        history.range("HEAD").unwrap_err(),
        history.resolve("HEAD~2").unwrap_err(),
    ] {
        let HistoryError::Shallow { parent, .. } = &error else { panic!("{error}") };
        let merge = history.resolve("HEAD~1").unwrap();
        assert_eq!(*parent, merge.parents[0].to_string());
    }
    let within = history.range("HEAD~1..HEAD").unwrap();
    assert_eq!(within, [head]);
    assert_snapshot!(error_text(&history.range("HEAD").unwrap_err()), @r"
    shallow clone: commit 659b6fa is here, its parent 9405363bc3077e1eb05130bd39745649e178105e is not
    hint: fetch the whole history: git fetch --unshallow
    ");
}

fn paths(set: &replay::history::SourceSet) -> Vec<String> {
    set.files.iter().map(|file| format!("{:?} {}", file.role, file.path)).collect()
}

#[test]
fn a_source_set_is_the_named_blobs() {
    let repo = kernel_history();
    let history = open(&repo);
    let head = history.head().unwrap();
    let set = history.source_set(&head, &kernels()).unwrap();
    assert_eq!(paths(&set), ["Include include/loss.h", "Source src/loss.cu"]);
    assert_eq!(&*set.files[1].content, b"two\n");
    let both = history.source_set(&head, &spec(&["src"], &["./src/", "include/../src"])).unwrap();
    assert_eq!(paths(&both), ["Source src/loss.cu"]);
}

#[test]
fn equal_files_are_the_same_set_in_any_commit_tree_or_folder() {
    let repo = kernel_history();
    let history = open(&repo);
    let set = |rev: &str| history.source_set(&history.resolve(rev).unwrap(), &kernels()).unwrap();
    assert_eq!(set("HEAD").id, set("HEAD~1").id);
    assert_ne!(set("v1").id, set("HEAD").id);
    assert_eq!(history.working_tree(&kernels()).unwrap(), set("HEAD"));
    assert_eq!(source_set_from_dir(&repo.root(), &kernels()).unwrap(), set("HEAD"));
    repo.git(&["update-index", "--chmod=+x", "src/loss.cu"]);
    repo.tick();
    repo.git(&["commit", "-q", "-m", "Make executable"]);
    assert_eq!(set("main").id, set("main~1").id);
}

#[test]
fn a_prefix_moves_the_whole_project() {
    let repo = TestRepo::new();
    repo.write("kernels/loss/src/loss.cu", "one\n");
    repo.write("common/a.h", "a\n");
    repo.commit("Add");
    let spec = SourceSpec { prefix: "kernels/loss".into(), ..spec(&["src"], &["../../common"]) };
    let history = open(&repo);
    let set = history.source_set(&history.head().unwrap(), &spec).unwrap();
    assert_eq!(paths(&set), ["Include ../../common/a.h", "Source src/loss.cu"]);
    let alone = SourceSpec { include: vec![], ..spec.clone() };
    let here = source_set_from_dir(&repo.root().join("kernels/loss"), &self::spec(&["src"], &[]));
    assert_eq!(history.working_tree(&alone).unwrap().id, here.unwrap().id);
    let outside = SourceSpec { include: vec!["../../../x".into()], ..spec };
    assert_snapshot!(shown(&repo, history.working_tree(&outside)), @"source path `../../../x` leads out of the repository");
    assert_snapshot!(shown(&repo, history.working_tree(&self::spec(&["/etc/passwd"], &[]))), @"source path `/etc/passwd` leads out of the repository");
}

#[test]
fn ignored_files_are_no_part_of_the_working_tree() {
    let repo = TestRepo::new();
    repo.write(".gitignore", "*.o\nbuild/\n");
    repo.write("src/loss.cu", "one\n");
    repo.commit("Add");
    repo.write("src/loss.o", "object");
    repo.write("src/build/x.h", "generated");
    repo.write("src/new.cu", "new");
    let set = open(&repo).working_tree(&spec(&["src"], &[])).unwrap();
    assert_eq!(paths(&set), ["Source src/loss.cu", "Source src/new.cu"]);
}

#[test]
fn a_revision_without_the_source_names_paths_like_it() {
    let repo = kernel_history();
    let history = open(&repo);
    let error =
        history.source_set(&history.head().unwrap(), &spec(&["kernels/loss.cu"], &[])).unwrap_err();
    assert!(error.is_revision_fault());
    assert_snapshot!(error_text(&error), @r"
    revision d74ee25 has no file or folder `kernels/loss.cu`
    hint: did you mean `src/loss.cu`?
    ");
    let error = history.working_tree(&spec(&["nothing.cu"], &[])).unwrap_err();
    assert!(!error.is_revision_fault());
    assert_snapshot!(shown::<()>(&repo, Err(error)), @"working tree `/tmp/repo` has no file or folder `nothing.cu`");
}

#[test]
fn symlinks_within_the_tree_are_followed() {
    let repo = kernel_history();
    fs::create_dir_all(repo.root().join("lib/deep")).unwrap();
    symlink("../../src", repo.root().join("lib/deep/kernels")).unwrap();
    symlink("..", repo.root().join("lib/deep/up")).unwrap();
    symlink("lib/deep/kernels/loss.cu", repo.root().join("main.cu")).unwrap();
    symlink(".", repo.root().join("include/project")).unwrap();
    repo.commit("Add symlinks");
    let history = open(&repo);
    let head = history.head().unwrap();
    let spec = spec(&["main.cu", "lib/deep/kernels"], &["include"]);
    let set = history.source_set(&head, &spec).unwrap();
    assert_eq!(
        paths(&set),
        [
            "Include include/loss.h",
            "Include include/project/loss.h",
            "Source lib/deep/kernels/loss.cu",
            "Source main.cu",
        ]
    );
    assert!(set.files[2..].iter().all(|file| &*file.content == b"two\n"));
    assert_eq!(history.working_tree(&spec).unwrap(), set);
    let up =
        history.source_set(&head, &self::spec(&["lib/deep/up/deep/kernels/loss.cu"], &[])).unwrap();
    assert_eq!(&*up.files[0].content, b"two\n");
}

#[test]
fn a_key_sees_what_changes_behind_a_symlink() {
    let repo = kernel_history();
    symlink("../src/loss.cu", repo.root().join("include/loss.cu")).unwrap();
    repo.commit("Add a symlink");
    repo.commit_file("src/loss.cu", "three\n", "Change its target");
    let history = open(&repo);
    let key = |rev: &str| {
        history.source_key(&history.resolve(rev).unwrap(), &spec(&["include"], &[])).unwrap()
    };
    assert_ne!(key("HEAD"), key("HEAD~1"));
    assert_ne!(key("HEAD~1"), key("HEAD~2"));
    assert_eq!(key("HEAD~2"), key("HEAD~3"));
}

#[test]
fn equal_keys_are_equal_source_sets() {
    let repo = kernel_history();
    let history = open(&repo);
    let commits = history.range("main").unwrap();
    for spec in [kernels(), spec(&["src"], &[]), spec(&["notes.txt"], &[]), spec(&["."], &[])] {
        for a in &commits {
            for b in &commits {
                let equal_keys =
                    history.source_key(a, &spec).unwrap() == history.source_key(b, &spec).unwrap();
                match (history.source_set(a, &spec), history.source_set(b, &spec)) {
                    (Ok(a), Ok(b)) => assert_eq!(equal_keys, a == b),
                    (a, b) => assert_eq!(equal_keys, a.is_err() && b.is_err()),
                }
            }
        }
    }
}

/// The error for `spec` after `change` was committed; the same fault must show on disk.
fn fault_of(change: impl Fn(&TestRepo), spec: &SourceSpec) -> String {
    let repo = kernel_history();
    change(&repo);
    repo.commit("Break it");
    let history = open(&repo);
    let head = history.head().unwrap();
    let error = history.source_set(&head, spec).unwrap_err();
    assert!(error.is_revision_fault());
    history.source_key(&head, spec).expect("a key nevertheless");
    let HistoryError::Unusable { fault, .. } = &error else { panic!("{error}") };
    let on_disk = history.working_tree(spec).unwrap_err();
    assert!(matches!(on_disk, HistoryError::Unusable { fault: same, .. } if same == *fault));
    error_text(&error).replace(&head.short, "SHORT")
}

fn link(path: &'static str, target: &'static str) -> impl Fn(&TestRepo) {
    move |repo| symlink(target, repo.root().join(path)).unwrap()
}

#[test]
fn a_symlink_that_leads_nowhere_good_is_the_revisions_fault() {
    let headers = spec(&[], &["include"]);
    assert_snapshot!(fault_of(link("include/abs.h", "/etc/passwd"), &headers), @"revision SHORT has a symlink `include/abs.h` that leads outside, to `/etc/passwd`");
    assert_snapshot!(fault_of(link("include/up.h", "../../x.h"), &headers), @"revision SHORT has a symlink `include/up.h` that leads outside, to `../../x.h`");
    assert_snapshot!(fault_of(link("include/gone.h", "none.h"), &headers), @"revision SHORT has a symlink `include/gone.h` to `none.h`, which does not exist");
    assert_snapshot!(fault_of(link("include/self.h", "self.h"), &headers), @"revision SHORT has a symlink `include/self.h` that leads back to itself");
    assert_snapshot!(fault_of(link("main.cu", "src/loss.cu/x"), &spec(&["main.cu"], &[])), @"revision SHORT has a symlink `main.cu` to `src/loss.cu/x`, which does not exist");
}

#[test]
fn an_lfs_pointer_is_the_revisions_fault() {
    let pointer = |repo: &TestRepo| {
        repo.write(
            "src/loss.cu",
            "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        );
    };
    assert_snapshot!(fault_of(pointer, &kernels()), @r"
    revision SHORT has only a Git LFS pointer at `src/loss.cu`, not the file
    hint: replay reads git's own objects only
    ");
}

#[test]
fn a_submodule_is_the_revisions_fault() {
    let add = |repo: &TestRepo| {
        let other = TestRepo::new();
        other.commit_file("x.h", "x", "Add");
        repo.git(&["submodule", "--quiet", "add", other.root().to_str().unwrap(), "include/other"]);
    };
    assert_snapshot!(fault_of(add, &kernels()), @r"
    revision SHORT has a submodule at `include/other`, whose files are not in this repository
    hint: name folders without submodules in `sources` and `include`
    ");
    assert_snapshot!(fault_of(add, &spec(&["include/other/x.h"], &[])), @r"
    revision SHORT has a submodule at `include/other`, whose files are not in this repository
    hint: name folders without submodules in `sources` and `include`
    ");
}

#[test]
fn a_file_name_that_is_not_utf8_is_the_revisions_fault() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let write = |repo: &TestRepo| {
        fs::write(repo.root().join("include").join(OsStr::from_bytes(b"\xff.h")), "x").unwrap();
    };
    assert_snapshot!(fault_of(write, &kernels()), @"revision SHORT has a file name that is not UTF-8: `include/\u{fffd}.h`");
}

#[test]
fn files_need_not_be_utf8() {
    let repo = kernel_history();
    repo.write("src/loss.cu", b"// \xff\n");
    repo.commit("Write Latin-1");
    let history = open(&repo);
    let set = history.source_set(&history.head().unwrap(), &kernels()).unwrap();
    assert_eq!(&*set.files[1].content, b"// \xff\n");
}

#[test]
fn a_diff_shows_the_source_set_alone() {
    let repo = kernel_history();
    repo.write("other.txt", "x");
    repo.commit_file("src/loss.cu", "three\n", "Change two files");
    let history = open(&repo);
    let (parent, head) = (history.resolve("HEAD^").unwrap(), history.head().unwrap());
    let diff = history.diff(Some(&parent), &head, &kernels()).unwrap();
    assert_eq!(
        diff.trim_end(),
        repo.git(&["diff", "HEAD^", "HEAD", "--", "src/loss.cu", "include"])
    );
    assert!(diff.contains("-two\n+three\n"));
    let first = history.resolve("v1").unwrap();
    let new = history.diff(None, &first, &spec(&["."], &[])).unwrap();
    assert!(new.contains("+++ b/include/loss.h") && new.contains("+one"), "{new}");
}

#[test]
fn reading_changes_nothing_in_the_repository() {
    fn listing(folder: &Path, into: &mut Vec<(String, Vec<u8>)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                listing(&path, into);
            } else {
                into.push((path.display().to_string(), fs::read(&path).unwrap()));
            }
        }
    }
    let repo = kernel_history();
    let list = || {
        let mut files = Vec::new();
        listing(&repo.root(), &mut files);
        files.sort();
        files
    };
    let before = list();
    let history = open(&repo);
    let head = history.head().unwrap();
    history.source_set(&head, &kernels()).unwrap();
    history.working_tree(&kernels()).unwrap();
    history.range("v1..main").unwrap();
    assert_eq!(list(), before);
}
