//! The search against the real git: `git bisect run`, `git rev-list --bisect-all`,
//! `git bisect replay`.
//!
//! REPLAY_TEST_GRAPHS sets how many random histories are bisected (60).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use replay::search::{
    BisectTerms, Conclusion, Graph, LogEntry, LogMark, Options, Search, TestAnswer,
    bisection_distances, git_bisect_log,
};

/// SplitMix64 (Steele, Lea, Flood 2014), so that every run sees the same histories.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn between(&mut self, low: usize, high: usize) -> usize {
        low + (self.next() % (high - low + 1) as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.between(1, 100) <= percent
    }
}

/// Parents with a few roots, merges and octopus merges.
fn random_parents(dice: &mut Dice, size: usize) -> Vec<Vec<u32>> {
    let mut parents: Vec<Vec<u32>> = Vec::new();
    for commit in 0..size {
        let wanted = match dice.between(1, 100) {
            1..=4 => 0,
            5..=70 => 1,
            71..=92 => 2,
            _ => dice.between(3, 5),
        };
        let mut list = Vec::new();
        for _ in 0..wanted.min(commit) {
            let parent = (commit - dice.between(1, commit.min(6))) as u32;
            if !list.contains(&parent) {
                list.push(parent);
            }
        }
        parents.push(list);
    }
    parents
}

/// Mostly the variant of a parent, sometimes a new one.
fn random_variants(dice: &mut Dice, parents: &[Vec<u32>]) -> Vec<u32> {
    let mut variant: Vec<u32> = Vec::new();
    for (commit, list) in (0u32..).zip(parents) {
        let keep = !list.is_empty() && dice.chance(60);
        let from = list.get(dice.between(0, list.len().max(1) - 1));
        variant.push(from.filter(|_| keep).map_or(commit, |&parent| variant[parent as usize]));
    }
    variant
}

/// A repository with an environment of its own.
struct Repo {
    home: tempfile::TempDir,
    histories: usize,
}

impl Repo {
    fn new() -> Self {
        let repo = Self { home: tempfile::tempdir().unwrap(), histories: 0 };
        repo.git(&["init", "-q", "-b", "main", "."]);
        // An unborn branch cannot be bisected from.
        repo.git(&["commit", "-q", "--allow-empty", "-m", "start"]);
        repo
    }

    fn path(&self) -> &Path {
        self.home.path()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.args(args).current_dir(self.path()).env("HOME", self.path());
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("LC_ALL", "C");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "t").env(format!("GIT_{who}_EMAIL"), "t@t");
        }
        for inherited in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "XDG_CONFIG_HOME"] {
            command.env_remove(inherited);
        }
        command
    }

    fn try_git(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("git is installed")
    }

    fn git(&self, args: &[&str]) -> String {
        let output = self.try_git(args);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "git {args:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Writes the history in one `git fast-import` and returns the ids.
    fn import(&mut self, graph: &Graph, good: &[u32]) -> Vec<String> {
        self.histories += 1;
        let text = fast_import_stream(graph, good, self.histories);
        let marks = self.path().join(".git/marks");
        let export = format!("--export-marks={}", marks.display());
        let mut command = self.command(&["fast-import", "--quiet", "--force", &export]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        let mut ids = vec![String::new(); graph.len()];
        for line in std::fs::read_to_string(marks).unwrap().lines() {
            let (mark, id) = line[1..].split_once(' ').unwrap();
            ids[mark.parse::<usize>().unwrap() - 1] = id.to_owned();
        }
        ids
    }
}

/// Commits reachable from `good` are dated after all others, so that git, which walks by date,
/// knows them before it simplifies anything else.
fn fast_import_stream(graph: &Graph, good: &[u32], history: usize) -> String {
    let behind_good = graph.ancestors(good, false);
    let mut text = String::new();
    for commit in 0..graph.len() as u32 {
        let late = if behind_good[commit as usize] { 10_000_000 } else { 0 };
        let date = 1_700_000_000 + commit + late;
        let mark = commit + 1;
        let message = format!("history {history} commit {commit}");
        let variant = format!("variant {}", graph.variant(commit).unwrap());
        // Each commit resets the branch, so that a root really is one.
        write!(text, "reset refs/heads/h{history}\n\ncommit refs/heads/h{history}\n").unwrap();
        write!(text, "mark :{mark}\ncommitter t <t@t> {date} +0000\n").unwrap();
        write!(text, "data {}\n{message}\n", message.len()).unwrap();
        for (nth, parent) in graph.parents(commit).iter().enumerate() {
            let word = if nth == 0 { "from" } else { "merge" };
            writeln!(text, "{word} :{}", parent + 1).unwrap();
        }
        text.push_str("deleteall\n");
        for (file, data) in [("kernel", &variant), ("other", &message)] {
            write!(text, "M 644 inline {file}\ndata {}\n{data}\n", data.len()).unwrap();
        }
        text.push('\n');
    }
    text
}

/// A history in the real git, and the ends to search between.
struct Case<'a> {
    repo: &'a Repo,
    graph: &'a Graph,
    ids: &'a [String],
    good: &'a [u32],
    bad: u32,
}

impl Case<'_> {
    fn commit(&self, id: &str) -> Option<u32> {
        self.ids.iter().position(|other| other == id).map(|at| at as u32)
    }

    fn good_ids(&self) -> impl Iterator<Item = &str> {
        self.good.iter().map(|&good| self.ids[good as usize].as_str())
    }

    fn our_distances(&self, options: &Options) -> Vec<(u32, u32)> {
        bisection_distances(self.graph, self.good, &[self.bad], options)
    }

    fn git_distances(&self, options: &Options) -> Vec<(u32, u32)> {
        let mut args = vec!["rev-list", "--bisect-all"];
        args.extend(options.first_parent.then_some("--first-parent"));
        args.extend([self.ids[self.bad as usize].as_str(), "--not"]);
        args.extend(self.good_ids());
        args.push("--");
        args.extend(options.by_variant.then_some("kernel"));
        let text = self.repo.git(&args);
        let parse = |line: &str| {
            let (id, rest) = line.split_once(' ').unwrap();
            let distance = rest.rsplit_once("dist=").unwrap().1.trim_end_matches(')');
            (self.commit(id).unwrap(), distance.parse().unwrap())
        };
        let mut out: Vec<(u32, u32)> = text.lines().map(parse).collect();
        out.sort_unstable();
        out
    }

    /// Our own search, two tests at a time; `code` is the exit code of each commit's test.
    fn ours(&self, first_parent: bool, code: &[u8]) -> Conclusion {
        let options = Options { first_parent, by_variant: false, trust_ends: true };
        let mut search = Search::new(self.graph.clone(), self.good, &[self.bad], options).unwrap();
        loop {
            if let Some(conclusion) = search.outcome() {
                return conclusion;
            }
            for commit in search.next(2, &|_| false) {
                let answer = match code[commit as usize] {
                    0 => TestAnswer::Good,
                    125 => TestAnswer::Skip,
                    _ => TestAnswer::Bad,
                };
                search.answer(commit, answer);
            }
        }
    }

    /// What `git bisect run` names: one culprit, or all the candidates.
    fn gits(&self, first_parent: bool, code: &[u8]) -> BTreeSet<u32> {
        let arms: String =
            self.ids.iter().zip(code).map(|(id, code)| format!("{id}) exit {code};;\n")).collect();
        let script = format!("read id < .git/BISECT_HEAD\ncase $id in\n{arms}esac\nexit 128\n");
        std::fs::write(self.repo.path().join(".git/verdict"), script).unwrap();
        let mut start = vec!["bisect", "start", "--no-checkout"];
        start.extend(first_parent.then_some("--first-parent"));
        start.push(&self.ids[self.bad as usize]);
        start.extend(self.good_ids());
        let mut text = self.repo.git(&start);
        let named = loop {
            if let Some(named) = self.named(&text) {
                break named;
            }
            // With several merge bases git calls it a success after each; so go on until there
            // is an answer.
            let ran = self.repo.try_git(&["bisect", "run", "sh", ".git/verdict"]);
            text = String::from_utf8_lossy(&ran.stdout).into_owned();
            let again = text.contains("a merge base must be tested");
            let stderr = String::from_utf8_lossy(&ran.stderr);
            assert!(again || self.named(&text).is_some(), "{text}\n{stderr}");
        };
        self.repo.git(&["bisect", "reset"]);
        named
    }

    /// Reads git's answer, if there is one.
    fn named(&self, text: &str) -> Option<BTreeSet<u32>> {
        let is_first_bad = |line: &str| self.commit(line.strip_suffix(" is the first bad commit")?);
        if let Some(culprit) = text.lines().find_map(is_first_bad) {
            return Some(BTreeSet::from([culprit]));
        }
        let mut lines = text.lines();
        lines.find(|line| line.starts_with("The first bad commit could be any of"))?;
        Some(lines.filter_map(|line| self.commit(line)).collect())
    }
}

#[test]
fn distances_equal_those_of_git_rev_list_on_random_histories() {
    let mut repo = Repo::new();
    let mut compared = 0;
    for seed in 0..100 {
        let mut dice = Dice(seed);
        let size = dice.between(3, 60);
        let parents = random_parents(&mut dice, size);
        let variant = random_variants(&mut dice, &parents);
        let graph = Graph::new(parents, variant).unwrap();
        let bad = size as u32 - 1;
        // With first parents and a path, git looks at the variant of a side branch it does not
        // follow, unless the good end is on the chain itself.
        let chain = graph.ancestors(&[bad], true);
        let on_chain: Vec<u32> = (0..bad).filter(|&c| chain[c as usize]).collect();
        let mut good: Vec<u32> =
            (0..dice.between(1, 3)).map(|_| dice.between(0, size - 2) as u32).collect();
        let from_chain = dice.chance(50) && !on_chain.is_empty();
        if from_chain {
            good = vec![on_chain[dice.between(0, on_chain.len() - 1)]];
        }
        let ids = repo.import(&graph, &good);
        let case = Case { repo: &repo, graph: &graph, ids: &ids, good: &good, bad };
        for (first_parent, by_variant) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            if first_parent && by_variant && !from_chain {
                continue;
            }
            let options = Options { first_parent, by_variant, trust_ends: true };
            let ours = case.our_distances(&options);
            let theirs = case.git_distances(&options);
            assert_eq!(ours, theirs, "seed {seed}, {options:?}, good {good:?}: {graph:?}");
            compared += usize::from(!ours.is_empty());
        }
    }
    assert!(compared > 200, "{compared}");
}

/// Bisects one random history both ways; whether the culprit was hidden, or `None` if the dice
/// gave nothing to search.
fn bisect_both_ways(repo: &mut Repo, seed: u64) -> Option<bool> {
    let mut dice = Dice(seed);
    let size = dice.between(4, 40);
    let parents = random_parents(&mut dice, size);
    let graph = Graph::new(parents, (0..size as u32).collect()).unwrap();
    let bad = size as u32 - 1;
    let first_parent = dice.chance(20);
    let inside = graph.ancestors(&[bad], first_parent);
    let all: Vec<u32> = (0..size as u32).filter(|&c| inside[c as usize]).collect();
    let culprit = all[dice.between(0, all.len() - 1)];
    let is_bad = |c: u32| graph.ancestors(&[c], false)[culprit as usize];
    let goods: Vec<u32> = (0..bad).filter(|&c| !is_bad(c)).collect();
    let last = goods.len().checked_sub(1)?;
    let good: Vec<u32> = (0..dice.between(1, 2)).map(|_| goods[dice.between(0, last)]).collect();
    let broken = [0, 0, 10, 30][dice.between(0, 3)];
    let mut exit_code = |c: u32| match is_bad(c) {
        _ if dice.chance(broken) && c != bad && !good.contains(&c) => 125,
        is_bad => u8::from(is_bad),
    };
    let code: Vec<u8> = (0..size as u32).map(&mut exit_code).collect();
    let ids = repo.import(&graph, &good);
    let case = Case { repo, graph: &graph, ids: &ids, good: &good, bad };
    let ours = case.ours(first_parent, &code);
    let theirs = case.gits(first_parent, &code);
    let context = format!(
        "seed {seed}, first parent {first_parent}, good {good:?}, culprit {culprit}: \
         {ours:?}, git {theirs:?}, {code:?}, {graph:?}"
    );
    assert!(theirs.contains(&culprit), "{context}");
    match ours {
        Conclusion::Found { culprit: found, .. } => {
            assert_eq!(found, culprit, "{context}");
            Some(false)
        }
        Conclusion::Ambiguous { candidates } => {
            assert!(candidates.contains(&culprit) && broken > 0, "{context}");
            Some(true)
        }
        _ => panic!("{context}"),
    }
}

#[test]
fn random_histories_give_the_culprit_that_git_bisect_run_gives() {
    let wanted = std::env::var("REPLAY_TEST_GRAPHS").map_or(60, |n| n.parse().unwrap());
    let mut repo = Repo::new();
    let outcomes = (0..).filter_map(|seed| bisect_both_ways(&mut repo, seed));
    let hidden = outcomes.take(wanted).filter(|hidden| *hidden).count();
    println!("{wanted} histories, the culprit hidden in {hidden}");
    assert!(hidden < wanted / 2);
}

/// The 19 commits of a braid: three strands from one root that cross twice and are closed by a
/// merge with three parents.
fn braid() -> Graph {
    let parents: Vec<Vec<u32>> = vec![
        vec![],
        vec![0],
        vec![0],
        vec![0],
        vec![1],
        vec![2, 1],
        vec![3],
        vec![4],
        vec![5, 6],
        vec![6],
        vec![7, 8],
        vec![8],
        vec![9],
        vec![10],
        vec![11],
        vec![12, 11],
        vec![13, 14, 15],
        vec![16],
        vec![17],
    ];
    let variant = vec![0, 0, 2, 3, 4, 5, 3, 4, 8, 9, 10, 8, 12, 10, 14, 15, 16, 16, 18];
    Graph::new(parents, variant).unwrap()
}

#[test]
fn every_culprit_in_a_braid_of_19_commits_is_found_and_weighed_as_git_does() {
    let mut repo = Repo::new();
    let graph = braid();
    let ids = repo.import(&graph, &[0]);
    let case = Case { repo: &repo, graph: &graph, ids: &ids, good: &[0], bad: 18 };
    for (first_parent, by_variant) in [(false, false), (true, false), (false, true), (true, true)] {
        let options = Options { first_parent, by_variant, trust_ends: true };
        assert_eq!(case.our_distances(&options), case.git_distances(&options), "{options:?}");
    }
    for culprit in 1..19u32 {
        let bad = |c: u32| u8::from(graph.ancestors(&[c], false)[culprit as usize]);
        let code: Vec<u8> = (0..19).map(bad).collect();
        let found = Conclusion::Found { culprit, unconfirmed_parents: vec![] };
        assert_eq!(case.ours(false, &code), found);
        assert_eq!(case.gits(false, &code), BTreeSet::from([culprit]));
    }
}

#[test]
fn git_bisect_replay_accepts_the_log_and_comes_to_the_same_culprit() {
    let mut repo = Repo::new();
    let ids = repo.import(&braid(), &[0]);
    let entry = |mark, commit: usize| LogEntry { mark, id: &ids[commit], subject: "odd [x]\n'y'" };
    let entries = [
        entry(LogMark::New, 18),
        entry(LogMark::Old, 0),
        entry(LogMark::Skip, 10),
        entry(LogMark::New, 8),
        entry(LogMark::Old, 5),
        entry(LogMark::Old, 6),
    ];
    for terms in [BisectTerms::BREAKS, BisectTerms::REPAIRS, BisectTerms::CHANGES] {
        let text = git_bisect_log(&entries, Some((&ids[8], "odd")), false, terms);
        std::fs::write(repo.path().join(".git/replay.log"), text).unwrap();
        let said = repo.git(&["bisect", "replay", ".git/replay.log"]);
        let next = repo.git(&["bisect", "log"]);
        let culprit = &ids[8];
        let new = terms.new;
        assert!(
            said.contains(&format!("{culprit} is the first {new} commit"))
                || next.contains(&format!("# first {new} commit: [{culprit}]")),
            "{said}\n{next}"
        );
    }
}
