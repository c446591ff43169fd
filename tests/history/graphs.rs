//! Graphs and ranges of commits, which are those that git lists.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use replay::history::{Commit, CommitGraph, History, HistoryError};

use super::{error_text, import, kernel_history, open, shown};
use crate::common::repo::TestRepo;

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
    import(&repo, &stream);
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
            let good = names(&good);
            let bad = names(&bad);

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
