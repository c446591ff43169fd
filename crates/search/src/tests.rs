//! The search against plain models: random histories, the shapes of git's own tests, flaky tests.

use std::collections::HashSet;

use super::model::{Dice, World, random_parents};
use super::*;

fn linear(size: usize) -> Graph {
    let parents = (0..size as u32).map(|c| c.checked_sub(1).into_iter().collect()).collect();
    Graph::new(parents, (0..size as u32).collect()).unwrap()
}

fn trusting() -> Options {
    Options { trust_ends: true, ..Options::default() }
}

/// Runs a search with up to `jobs` tests at once, answered in any order.
fn drive(search: &mut Search, world: &World, jobs: usize, dice: &mut Dice) -> Conclusion {
    let mut running: Vec<u32> = Vec::new();
    let mut tested = HashSet::new();
    loop {
        let picks = search.next(jobs - running.len(), &|commit| commit % 5 == 0);
        assert!(running.len() + picks.len() <= jobs);
        for &pick in &picks {
            assert!(tested.insert(world.graph.variant(pick)), "variant of #{pick} tested twice");
        }
        running.extend(picks);
        if let Some(conclusion) = search.outcome() {
            assert_eq!(search.obsolete().len(), running.len());
            return conclusion;
        }
        assert!(!running.is_empty(), "nothing to wait for: {:?}", search.state());
        let commit = running.swap_remove(dice.between(0, running.len() - 1));
        let answer = match (world.untestable[commit as usize], world.bad[commit as usize]) {
            (true, _) if commit.is_multiple_of(2) => TestAnswer::Skip,
            (true, _) => TestAnswer::Other,
            (false, true) => TestAnswer::Bad,
            (false, false) => TestAnswer::Good,
        };
        search.answer(commit, answer);
        for obsolete in search.obsolete() {
            // A cancelled test was not made.
            search.cancel(obsolete);
            tested.remove(&world.graph.variant(obsolete));
            running.retain(|&other| other != obsolete);
        }
    }
}

/// Good and bad ends that are testable, or `None` if the dice made none.
fn ends(world: &World, dice: &mut Dice) -> Option<(Vec<u32>, Vec<u32>)> {
    let mut pick = |bad: bool| -> Option<Vec<u32>> {
        let fits = |&c: &usize| world.bad[c] == bad && !world.untestable[c];
        let all: Vec<usize> = (0..world.graph.len()).filter(fits).collect();
        let wanted = dice.between(1, 3).min(all.len());
        let mut from = |_| all[dice.between(0, all.len() - 1)] as u32;
        (wanted > 0).then(|| (0..wanted).map(&mut from).collect())
    };
    Some((pick(false)?, pick(true)?))
}

fn check(world: &World, options: &Options, bad: &[u32], got: &Conclusion) {
    let is_bad = |commit: u32| world.bad[commit as usize];
    match got {
        Conclusion::Found { culprit, unconfirmed_parents } => {
            assert!(is_bad(*culprit));
            for parent in world.graph.followed(*culprit, options.first_parent) {
                let open = unconfirmed_parents.contains(parent);
                assert_eq!(open, world.untestable[*parent as usize]);
                assert!(open || !is_bad(*parent), "found #{culprit}, parent #{parent} is bad");
            }
        }
        Conclusion::Ambiguous { candidates } => {
            assert!(candidates.len() > 1);
            assert!(candidates.iter().any(|&c| world.untestable[c as usize]));
        }
        Conclusion::NotMonotone { commit, bad_parents } => {
            assert!(is_bad(*commit) && bad_parents.iter().all(|&parent| is_bad(parent)));
            assert!(!bad_parents.is_empty());
        }
        Conclusion::Refused(EndsRefusal::BadMergeBase { base }) => assert!(is_bad(*base)),
        Conclusion::Refused(EndsRefusal::Reversed { good, bad }) => {
            assert!(world.graph.ancestors(&[*good], false)[*bad as usize]);
        }
        other => panic!("{other:?} for {bad:?}"),
    }
}

#[test]
fn random_monotone_histories_give_the_culprit_or_a_set_that_holds_it() {
    let mut found = 0;
    for seed in 0..1500 {
        let mut dice = Dice::new(seed);
        let size = dice.between(2, 40);
        let by_variant = dice.chance(60);
        let mut world = World::monotone(&mut dice, size, by_variant);
        let broken = [0, 0, 15, 40][dice.between(0, 3)];
        world.break_some(&mut dice, broken);
        let Some((good, bad)) = ends(&world, &mut dice) else { continue };
        let options =
            Options { first_parent: dice.chance(20), by_variant, trust_ends: dice.chance(50) };
        let mut search = Search::new(world.graph.clone(), &good, &bad, options.clone()).unwrap();
        let jobs = dice.between(1, 5);
        let got = drive(&mut search, &world, jobs, &mut dice);
        check(&world, &options, &bad, &got);
        let is_culprit = |&commit: &u32| world.is_culprit(commit, options.first_parent);
        match got {
            Conclusion::Found { culprit, .. } => {
                // With a side branch hidden by first-parent mode or by an untestable parent the
                // model's notion of a culprit is the narrower one.
                assert!(is_culprit(&culprit), "seed {seed}: #{culprit}");
                found += 1;
            }
            Conclusion::Ambiguous { candidates } => {
                assert!(broken > 0 && candidates.iter().any(is_culprit), "seed {seed}");
            }
            other => panic!("seed {seed}: {other:?}"),
        }
    }
    assert!(found > 900, "only {found} found");
}

#[test]
fn random_lawless_histories_never_blame_a_commit_with_a_bad_parent() {
    let mut not_monotone = 0;
    for seed in 0..1500 {
        let mut dice = Dice::new(seed);
        let size = dice.between(2, 40);
        let mut world = World::lawless(&mut dice, size);
        let broken = [0, 20][dice.between(0, 1)];
        world.break_some(&mut dice, broken);
        let Some((good, bad)) = ends(&world, &mut dice) else { continue };
        let options = Options { first_parent: dice.chance(20), ..Options::default() };
        let mut search = Search::new(world.graph.clone(), &good, &bad, options.clone()).unwrap();
        let jobs = dice.between(1, 5);
        let got = drive(&mut search, &world, jobs, &mut dice);
        check(&world, &options, &bad, &got);
        not_monotone += usize::from(matches!(got, Conclusion::NotMonotone { .. }));
    }
    assert!(not_monotone > 20, "only {not_monotone}");
}

#[test]
fn three_jobs_find_one_of_1024_commits_in_five_rounds() {
    for culprit in [1, 2, 256, 257, 511, 700, 1023, 1024] {
        let mut search = Search::new(linear(1025), &[0], &[1024], trusting()).unwrap();
        let mut rounds = 0;
        while search.outcome().is_none() {
            assert_eq!(search.state().rounds, if rounds == 0 { 10 } else { 5 - rounds });
            let picks = search.next(3, &|_| false);
            assert!(picks.len() <= 3);
            for pick in picks {
                let answer = if pick < culprit { TestAnswer::Good } else { TestAnswer::Bad };
                search.answer(pick, answer);
            }
            rounds += 1;
        }
        let unconfirmed_parents = vec![];
        assert_eq!(search.outcome(), Some(Conclusion::Found { culprit, unconfirmed_parents }));
        assert_eq!(rounds, 5);
    }
}

#[test]
fn fifteen_jobs_find_one_of_1000_commits_in_three_rounds() {
    for culprit in (1..=1000).step_by(37).chain([1000]) {
        let mut search = Search::new(linear(1001), &[0], &[1000], trusting()).unwrap();
        let mut rounds = 0;
        while search.outcome().is_none() {
            for pick in search.next(15, &|_| false) {
                let answer = if pick < culprit { TestAnswer::Good } else { TestAnswer::Bad };
                search.answer(pick, answer);
            }
            rounds += 1;
        }
        // The least r with 16^r >= 1,000.
        assert!(rounds <= 3, "{culprit}: {rounds}");
    }
}

#[test]
fn one_job_needs_no_more_tests_than_a_binary_search() {
    for culprit in 1..=64u32 {
        let mut search = Search::new(linear(65), &[0], &[64], trusting()).unwrap();
        let mut tests = 0;
        while search.outcome().is_none() {
            let [pick] = search.next(1, &|_| false)[..] else { panic!("one pick") };
            let answer = if pick < culprit { TestAnswer::Good } else { TestAnswer::Bad };
            search.answer(pick, answer);
            tests += 1;
        }
        assert_eq!(tests, 6);
    }
}

#[test]
fn a_free_slot_is_refilled_at_once_and_needless_tests_are_named() {
    let mut search = Search::new(linear(101), &[0], &[100], trusting()).unwrap();
    assert_eq!(search.next(3, &|_| false), [25, 50, 75]);
    assert!(search.next(0, &|_| false).is_empty());
    search.answer(50, TestAnswer::Good);
    assert_eq!(search.obsolete(), [25]);
    search.cancel(25);
    let refill = search.next(2, &|_| false);
    assert_eq!(refill.len(), 2);
    assert!(refill.iter().all(|&pick| (51..100).contains(&pick) && pick != 75), "{refill:?}");
}

#[test]
fn a_cached_outcome_near_the_middle_is_taken_first_and_one_near_an_end_is_not() {
    let pick = |cached: u32| {
        let mut search = Search::new(linear(101), &[0], &[100], trusting()).unwrap();
        search.next(1, &|commit| commit == cached)[0]
    };
    assert_eq!(pick(26), 26);
    assert_eq!(pick(10), 50);
}

#[test]
fn the_ends_are_tested_before_anything_else() {
    let mut search = Search::new(linear(9), &[0], &[8], Options::default()).unwrap();
    assert_eq!((search.state().phase, search.state().candidates), (Phase::Ends, 8));
    assert_eq!(search.next(4, &|_| false), [0, 8]);
    search.answer(0, TestAnswer::Good);
    assert!(search.next(4, &|_| false).is_empty());
    search.answer(8, TestAnswer::Bad);
    assert_eq!(search.state().phase, Phase::Narrowing);
    assert_eq!(search.next(1, &|_| false), [4]);
}

#[test]
fn ends_that_are_not_what_was_claimed_are_refused_together() {
    let mut search = Search::new(linear(9), &[0], &[8], Options::default()).unwrap();
    search.answer(0, TestAnswer::Bad);
    assert_eq!(search.outcome(), None);
    search.answer(8, TestAnswer::Good);
    let refusal = EndsRefusal::EndsDisagree { good_is_bad: vec![0], bad_is_good: vec![8] };
    assert_eq!(search.outcome(), Some(Conclusion::Refused(refusal)));
}

#[test]
fn an_untestable_end_and_another_failure_at_an_end_are_refused() {
    let mut search = Search::new(linear(9), &[0], &[8], Options::default()).unwrap();
    search.answer(0, TestAnswer::Skip);
    search.answer(8, TestAnswer::Other);
    let good = vec![UnclearEnd { commit: 0, is_untestable: true }];
    let bad = vec![UnclearEnd { commit: 8, is_untestable: false }];
    let refusal = EndsRefusal::UnclearEnds { good, bad };
    assert_eq!(search.outcome(), Some(Conclusion::Refused(refusal)));
}

#[test]
fn ends_with_equal_sources_and_reversed_ends_are_refused_without_a_test() {
    let graph = Graph::new(vec![vec![], vec![0], vec![1]], vec![4, 5, 4]).unwrap();
    let outcome = |good, bad| {
        Search::new(graph.clone(), &[good], &[bad], Options::default()).unwrap().outcome()
    };
    let refusal = EndsRefusal::SameVariant { good: 0, bad: 2 };
    assert_eq!(outcome(0, 2), Some(Conclusion::Refused(refusal)));
    let refusal = EndsRefusal::Reversed { good: 2, bad: 1 };
    assert_eq!(outcome(2, 1), Some(Conclusion::Refused(refusal)));
}

/// 0 - 1 - 2 - 3 (good side), 1 - 4 - 5 (bad side).
fn fork() -> Graph {
    let parents = vec![vec![], vec![0], vec![1], vec![2], vec![1], vec![4]];
    Graph::new(parents, (0..6).collect()).unwrap()
}

#[test]
fn a_bad_merge_base_is_refused_and_an_untestable_one_only_warned_about() {
    let start = || Search::new(fork(), &[3], &[5], trusting()).unwrap();
    let mut search = start();
    assert_eq!(search.state().phase, Phase::MergeBases);
    assert_eq!(search.next(3, &|_| false), [1]);
    search.answer(1, TestAnswer::Bad);
    let refusal = EndsRefusal::BadMergeBase { base: 1 };
    assert_eq!(search.outcome(), Some(Conclusion::Refused(refusal)));

    let mut search = start();
    search.answer(1, TestAnswer::Skip);
    assert_eq!(search.warnings(), [Warning::UntestableMergeBase { base: 1 }]);
    assert_eq!(search.next(1, &|_| false), [4]);
    search.answer(4, TestAnswer::Bad);
    let found = Conclusion::Found { culprit: 4, unconfirmed_parents: vec![1] };
    assert_eq!(search.outcome(), Some(found));
}

#[test]
fn all_of_many_merge_bases_are_tested_at_once() {
    // 1 and 2 fork from 0; 3 (good) and 4 (bad) merge them in opposite orders.
    let parents = vec![vec![], vec![0], vec![0], vec![1, 2], vec![2, 1]];
    let graph = Graph::new(parents, (0..5).collect()).unwrap();
    let mut search = Search::new(graph, &[3], &[4], trusting()).unwrap();
    assert_eq!(search.next(4, &|_| false), [1, 2]);
    search.answer(1, TestAnswer::Good);
    search.answer(2, TestAnswer::Good);
    let found = Conclusion::Found { culprit: 4, unconfirmed_parents: vec![] };
    assert_eq!(search.outcome(), Some(found));
}

#[test]
fn a_variant_that_was_reverted_is_known_without_another_test() {
    // good, bug, revert of the bug, another bug.
    let parents = vec![vec![], vec![0], vec![1], vec![2]];
    let graph = Graph::new(parents, vec![0, 1, 0, 2]).unwrap();
    let mut search = Search::new(graph, &[0], &[3], Options::default()).unwrap();
    search.answer(0, TestAnswer::Good);
    search.answer(3, TestAnswer::Bad);
    let found = Conclusion::Found { culprit: 3, unconfirmed_parents: vec![] };
    assert_eq!(search.outcome(), Some(found));
}

#[test]
fn a_merge_with_one_bad_parent_is_not_blamed() {
    // 1 (bad) lies behind the good end 2; the bad end 4 merges 1 and the good side.
    let parents = vec![vec![], vec![0], vec![1], vec![2], vec![3, 1]];
    let graph = Graph::new(parents, (0..5).collect()).unwrap();
    let mut search = Search::new(graph, &[3], &[4], trusting()).unwrap();
    assert_eq!(search.state().phase, Phase::Confirming);
    assert_eq!(search.next(2, &|_| false), [1]);
    search.answer(1, TestAnswer::Bad);
    let conclusion = Conclusion::NotMonotone { commit: 4, bad_parents: vec![1] };
    assert_eq!(search.outcome(), Some(conclusion));
}

#[test]
fn a_merge_that_undoes_the_fix_is_told_apart_from_a_culprit() {
    // 2 fixes 1; the merge 3 takes the side without the fix.
    let parents = vec![vec![], vec![0], vec![1], vec![1, 2]];
    let graph = Graph::new(parents, vec![0, 1, 2, 1]).unwrap();
    let mut search = Search::new(graph, &[2], &[3], trusting()).unwrap();
    assert!(search.next(1, &|_| false).is_empty());
    let conclusion = Conclusion::NotMonotone { commit: 3, bad_parents: vec![1] };
    assert_eq!(search.outcome(), Some(conclusion));
}

#[test]
fn first_parent_mode_blames_the_merge_and_not_the_side_branch() {
    // 0 - 1 - 4 (merges 3) - 5; side branch 0 - 2 - 3 holds the defect.
    let parents = vec![vec![], vec![0], vec![0], vec![2], vec![1, 3], vec![4]];
    let culprit = |first_parent| {
        let graph = Graph::new(parents.clone(), (0..6).collect()).unwrap();
        let options = Options { first_parent, ..trusting() };
        let bad = vec![false, false, true, true, true, true];
        let mut search = Search::new(graph.clone(), &[0], &[5], options).unwrap();
        let world = World { graph, bad, untestable: vec![false; 6] };
        drive(&mut search, &world, 2, &mut Dice::new(1))
    };
    let found = |culprit| Conclusion::Found { culprit, unconfirmed_parents: vec![] };
    assert_eq!(culprit(false), found(2));
    assert_eq!(culprit(true), found(4));
}

#[test]
fn untestable_neighbours_are_stepped_around_and_hide_only_themselves() {
    let graph = linear(41);
    let bad = (0..41).map(|c| c >= 22).collect();
    let untestable = (0..41).map(|c| (18..=24).contains(&c)).collect();
    let world = World { graph: graph.clone(), bad, untestable };
    let mut search = Search::new(graph, &[0], &[40], trusting()).unwrap();
    let conclusion = drive(&mut search, &world, 1, &mut Dice::new(1));
    assert_eq!(conclusion, Conclusion::Ambiguous { candidates: (18..=25).collect() });
    assert!(search.state().answered < 14, "{}", search.state().answered);
}

#[test]
fn a_bad_end_with_another_culprit_is_pointed_out() {
    // Two unrelated roots, each with a defect of its own.
    let parents = vec![vec![], vec![0], vec![], vec![2]];
    let graph = Graph::new(parents, (0..4).collect()).unwrap();
    let mut search = Search::new(graph, &[0, 2], &[1, 3], trusting()).unwrap();
    let found = Conclusion::Found { culprit: 1, unconfirmed_parents: vec![] };
    assert_eq!((search.next(1, &|_| false), search.outcome()), (vec![], Some(found)));
    assert_eq!(search.warnings(), [Warning::Unexplained { bad: 3 }]);
}

#[test]
fn a_second_answer_that_differs_is_reported_and_changes_nothing() {
    let mut search = Search::new(linear(9), &[0], &[8], trusting()).unwrap();
    search.answer(4, TestAnswer::Good);
    search.answer(4, TestAnswer::Bad);
    assert_eq!(search.known_answer(4), Some(TestAnswer::Good));
    assert_eq!(search.warnings(), [Warning::Contradiction { commit: 4 }]);
}

#[test]
fn an_end_outside_of_the_graph_and_a_missing_end_are_errors() {
    let start = |good: &[u32]| Search::new(linear(3), good, &[2], Options::default()).unwrap_err();
    insta::assert_snapshot!(start(&[7]), @"end #7 is not among the 3 commits of the graph");
    insta::assert_snapshot!(start(&[]), @"a search needs at least one good and one bad commit");
}

#[test]
fn a_history_of_100_000_commits_is_planned() {
    let mut dice = Dice::new(5);
    let (mut parents, mut variant): (Vec<Vec<u32>>, Vec<u32>) = (vec![vec![]], vec![0]);
    for commit in 1..100_000u32 {
        let mut list = vec![commit - 1];
        if commit % 100 == 0 {
            list.push(commit - dice.between(2, 90) as u32);
        }
        let touches = commit % 10 == 1 || list.len() > 1;
        variant.push(if touches { commit } else { variant[list[0] as usize] });
        parents.push(list);
    }
    let graph = Graph::new(parents, variant).unwrap();
    let mut search = Search::new(graph, &[0], &[99_999], trusting()).unwrap();
    assert!(search.state().candidates > 10_000);
    assert_eq!(search.next(4, &|_| false).len(), 4);
}

/// One flaky search; whether it named the true culprit, or `None` if it gave no answer.
fn flaky_run(dice: &mut Dice, false_alarm: f64, detection: f64) -> Option<bool> {
    let size = dice.between(3, 30);
    let mut parents = random_parents(dice, size);
    // One root below everything is the good end.
    parents.iter_mut().skip(1).filter(|list| list.is_empty()).for_each(|list| list.push(0));
    let graph = Graph::new(parents, (0..size as u32).collect()).unwrap();
    let bad_end = size as u32 - 1;
    let inside = graph.ancestors(&[bad_end], false);
    let candidates: Vec<u32> = (1..size as u32).filter(|&c| inside[c as usize]).collect();
    let culprit = candidates[dice.between(0, candidates.len() - 1)];
    let rates = (Rate::unknown(), Rate::unknown());
    let mut search =
        Search::with_flakiness(graph.clone(), &[0], &[bad_end], Options::default(), rates).unwrap();
    let jobs = dice.between(1, 3);
    for _ in 0..3000 {
        if let Some(conclusion) = search.outcome() {
            let Conclusion::Probable { culprit: named, probability } = conclusion else {
                return None;
            };
            assert!(probability >= 0.99);
            return Some(named == culprit);
        }
        for commit in search.next(jobs, &|_| false) {
            let is_bad = graph.ancestors(&[commit], false)[culprit as usize];
            let turns_bad = dice.unit() < if is_bad { detection } else { false_alarm };
            search.answer(commit, if turns_bad { TestAnswer::Bad } else { TestAnswer::Good });
        }
    }
    panic!("no end: {search:?} {culprit} {false_alarm} {detection}");
}

#[test]
fn of_the_answers_given_with_99_percent_at_least_99_percent_are_right() {
    let mut answers = 0u32;
    let mut wrong = 0u32;
    for (false_alarm, detection) in [(0.0, 0.5), (0.02, 0.9), (0.1, 0.6), (0.25, 0.8), (0.4, 1.0)] {
        let mut dice = Dice::new(u64::from(answers) + 3);
        let mut given = 0;
        for _ in 0..150 {
            if let Some(right) = flaky_run(&mut dice, false_alarm, detection) {
                given += 1;
                wrong += u32::from(!right);
            }
        }
        assert!(given > 140, "{given} answers at {false_alarm}, {detection}");
        answers += given;
    }
    // Three standard deviations of a binomial with 1 % wrong.
    let most = 0.01 * f64::from(answers) + 3.0 * (0.0099 * f64::from(answers)).sqrt();
    println!("{wrong} of {answers} answers wrong");
    assert!(f64::from(wrong) <= most, "{wrong} of {answers} wrong");
}

#[test]
fn ends_that_flake_alike_are_indistinguishable() {
    let rates = (Rate::unknown(), Rate::unknown());
    let mut search =
        Search::with_flakiness(linear(9), &[0], &[8], Options::default(), rates).unwrap();
    let mut dice = Dice::new(2);
    while search.outcome().is_none() {
        let picks = search.next(2, &|_| false);
        assert!(picks.iter().all(|pick| [0, 8].contains(pick)));
        for pick in picks {
            search.answer(pick, if dice.chance(50) { TestAnswer::Bad } else { TestAnswer::Good });
        }
    }
    let outcome = search.outcome();
    let Some(Conclusion::Refused(EndsRefusal::Indistinguishable { good, bad })) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(good.1 >= 200 && bad.1 >= 200);
}

#[test]
fn an_untestable_commit_in_a_flaky_search_leaves_two_candidates() {
    let rates = (Rate::observed(1, 50), Rate::observed(45, 50));
    let mut search =
        Search::with_flakiness(linear(9), &[0], &[8], Options::default(), rates).unwrap();
    let mut dice = Dice::new(4);
    while search.outcome().is_none() {
        for pick in search.next(1, &|_| false) {
            let chance = if pick >= 4 { 90 } else { 2 };
            search.answer(
                pick,
                match pick {
                    4 => TestAnswer::Skip,
                    _ if dice.chance(chance) => TestAnswer::Bad,
                    _ => TestAnswer::Good,
                },
            );
        }
    }
    assert_eq!(search.outcome(), Some(Conclusion::Ambiguous { candidates: vec![4, 5] }));
}

#[test]
fn what_the_next_round_asks_for_was_forecast() {
    for culprit in 1..64u32 {
        let mut search = Search::new(linear(64), &[0], &[63], Options::default()).unwrap();
        let answer = |commit| if commit >= culprit { TestAnswer::Bad } else { TestAnswer::Good };
        loop {
            let picks = search.next(3, &|_| false);
            if picks.is_empty() {
                break;
            }
            let forecast = search.forecast(3);
            let distinct: HashSet<&u32> = forecast.iter().collect();
            assert_eq!(distinct.len(), forecast.len());
            let is_confirming = search.state().phase == Phase::Confirming;
            for &pick in &picks {
                search.answer(pick, answer(pick));
            }
            let next = search.clone().next(3, &|_| false);
            let will_confirm = search.state().phase == Phase::Confirming;
            assert!(is_confirming || will_confirm || next.iter().all(|c| forecast.contains(c)));
        }
        assert!(
            matches!(search.outcome(), Some(Conclusion::Found { culprit: c, .. }) if c == culprit)
        );
    }
}

/// Searches a line of `size` commits that are bad from `culprit` on. Commits are regrouped by `group` once the ends have
/// answers. Returns the culprit and the number of tests.
fn regrouped(size: usize, culprit: u32, group: impl Fn(u32) -> u32) -> (u32, usize) {
    let mut search =
        Search::new(linear(size), &[0], &[size as u32 - 1], Options::default()).unwrap();
    let mut tests = 0;
    let mut is_grouped = false;
    loop {
        match search.outcome() {
            Some(Conclusion::Found { culprit, .. }) => return (culprit, tests),
            Some(other) => panic!("{other:?}"),
            None => {}
        }
        if !is_grouped && search.state().phase != Phase::Ends {
            is_grouped = true;
            search.regroup((0..size as u32).map(&group).collect()).unwrap();
            continue;
        }
        let pick = search.next(1, &|_| false)[0];
        tests += 1;
        search.answer(pick, TestAnswer::for_commit(pick >= culprit));
    }
}

#[test]
fn commits_that_are_joined_during_a_search_are_tested_once() {
    assert_eq!(regrouped(40, 20, |commit| commit / 10 * 10), (20, 4));
    assert_eq!(regrouped(40, 20, |commit| commit).0, 20);
    assert!(regrouped(40, 20, |commit| commit).1 > 6, "each by itself");
}

#[test]
fn tests_in_flight_and_answers_outlive_other_groups() {
    let mut search = Search::new(linear(8), &[0], &[7], Options::default()).unwrap();
    search.answer(0, TestAnswer::Good);
    search.answer(7, TestAnswer::Bad);
    let in_flight = search.next(1, &|_| false);
    search.regroup(vec![0, 0, 0, 0, 4, 4, 4, 4]).unwrap();
    assert_eq!(search.state().in_flight, in_flight);
    assert_eq!(search.state().answered, 2);
    let Some(Conclusion::Found { culprit: 4, .. }) = search.outcome() else {
        panic!("{:?}", search.outcome());
    };
    // What joined them was wrong: a test of the parent itself shows the defect.
    search.regroup((0..8).collect()).unwrap();
    assert_eq!(search.outcome(), None);
    search.answer(3, TestAnswer::Bad);
    search.answer(2, TestAnswer::Good);
    assert!(matches!(search.outcome(), Some(Conclusion::Found { culprit: 3, .. })));
    assert!(search.warnings().is_empty());
    let too_few = search.regroup(vec![0]).unwrap_err();
    assert_eq!(too_few, GraphError::VariantCount { commits: 8, variants: 1 });
}
