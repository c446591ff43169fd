//! The likely next tests of a search, before the answers of the current ones.

use std::collections::HashSet;

use super::engine::Search;
use super::pick::partition_by_reach;
use super::words::{Phase, TestAnswer};

/// The number of possible ends of a round to look at. Those with most candidates come first.
const WAYS: usize = 16;

impl Search {
    /// The commits of the next round, `slots` of them at a time: the picks after each possible set of answers
    /// of the tests in flight, the likely ones first.
    pub fn forecast(&self, slots: usize) -> Vec<u32> {
        let ways = match self.phase() {
            Phase::Ends | Phase::MergeBases => vec![self.as_claimed()],
            Phase::Narrowing => self.ways(),
            Phase::Confirming | Phase::Done => Vec::new(),
        };
        let picks_by_way: Vec<Vec<u32>> =
            ways.into_iter().map(|answers| self.picks_after(&answers, slots)).collect();
        let most_picks = picks_by_way.iter().map(Vec::len).max().unwrap_or_default();
        let in_turn = (0..most_picks)
            .flat_map(|turn| picks_by_way.iter().filter_map(move |way_picks| way_picks.get(turn)));
        let mut seen_variants = HashSet::new();
        in_turn.copied().filter(|&commit| seen_variants.insert(self.variant(commit))).collect()
    }

    fn picks_after(&self, answers: &[(u32, TestAnswer)], slots: usize) -> Vec<u32> {
        let mut then = self.clone();
        for &(commit, answer) in answers {
            then.answer(commit, answer);
        }
        then.next(slots, &|_| false)
    }

    /// The expected answers of ends and merge bases.
    fn as_claimed(&self) -> Vec<(u32, TestAnswer)> {
        let claimed_answers = self.in_flight.iter().map(|commit| {
            let is_bad = self.ends.bad.contains(commit);
            (*commit, TestAnswer::for_commit(is_bad))
        });
        claimed_answers.collect()
    }

    /// For each class of candidates told apart by the tests in flight: their answers if the culprit is in the
    /// class.
    fn ways(&self) -> Vec<Vec<(u32, TestAnswer)>> {
        let Some(view) = &self.view else { return Vec::new() };
        let tests: Vec<(u32, u32)> = (self.in_flight.iter())
            .filter_map(|&commit| Some((commit, self.local(commit)?)))
            .collect();
        let locals: Vec<u32> = tests.iter().map(|test| test.1).collect();
        let mut classes = partition_by_reach(&view.reach, &locals);
        classes.sort_by_key(|class| std::cmp::Reverse(class.len()));
        let marked: Vec<Vec<bool>> = locals.iter().map(|&local| view.reach.from(local)).collect();
        let mut ways = Vec::new();
        for class in classes.iter().take(WAYS) {
            let mut answers = Vec::new();
            for ((commit, _), marked) in tests.iter().zip(&marked) {
                answers.push((*commit, TestAnswer::for_commit(marked[class[0] as usize])));
            }
            ways.push(answers);
        }
        ways
    }
}
