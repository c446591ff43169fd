//! The posterior over culprits when tests are flaky.
//!
//! A good commit tests bad with the false alarm rate, a bad one with the detection rate. Both are unknown: each
//! has a Beta prior and is integrated out. For every candidate the probability of the next observation is then
//! `(a + bad) / (a + b + tests)` over the tests on its side (Pólya's urn; Gelman et al., Bayesian Data
//! Analysis, section 2.4). The product is the exact marginal likelihood, and uncertainty about the rates ends
//! up in the answer.

use super::ends::EndsRefusal;
use super::pick::partition_by_reach;
use super::reach::{Measure, ReachGraph};
use super::words::Conclusion;

/// The search stops at this posterior probability.
const ENOUGH: f64 = 0.99;

/// The least information, in nats, worth the cost of another test.
const WORTHWHILE: f64 = 1e-4;

/// Good and bad are called indistinguishable after so many tests of one end.
const MOST_END_TESTS: u32 = 200;

/// The rate of bad tests, as the counts of a Beta distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    bad: f64,
    good: f64,
}

impl Rate {
    /// Nothing is known: every rate is equally likely.
    pub fn unknown() -> Self {
        Self { bad: 1.0, good: 1.0 }
    }

    /// `bad_tests` of `tests` earlier tests turned bad.
    #[cfg(test)]
    pub(crate) fn observed(bad_tests: u32, tests: u32) -> Self {
        let bad_count = bad_tests.min(tests);
        Self { bad: 1.0 + f64::from(bad_count), good: 1.0 + f64::from(tests - bad_count) }
    }

    fn mean(self, tally: Tally) -> f64 {
        (self.bad + f64::from(tally.bad)) / (self.bad + self.good + f64::from(tally.tests))
    }

    /// The Wilson score interval at 95 % (Wilson 1927), over earlier and new tests together.
    fn interval(self, tally: Tally) -> (f64, f64) {
        const Z: f64 = 1.96;
        let tests = self.bad + self.good - 2.0 + f64::from(tally.tests);
        if tests <= 0.0 {
            return (0.0, 1.0);
        }
        let share = (self.bad - 1.0 + f64::from(tally.bad)) / tests;
        let scale = 1.0 + Z * Z / tests;
        let middle = (share + Z * Z / (2.0 * tests)) / scale;
        let half = Z * (share * (1.0 - share) / tests + Z * Z / (4.0 * tests * tests)).sqrt();
        (middle - half / scale, middle + half / scale)
    }
}

/// How many tests turned bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    bad: u32,
    tests: u32,
}

impl Tally {
    fn add(&mut self, is_bad: bool) {
        self.bad += u32::from(is_bad);
        self.tests += 1;
    }

    fn without(self, other: Self) -> Self {
        Self { bad: self.bad - other.bad, tests: self.tests - other.tests }
    }
}

/// A test to make where tests are flaky.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlakyPick {
    /// Of this candidate.
    Candidate(u32),
    /// Of a good end.
    GoodEnd,
}

#[derive(Clone, Debug)]
pub(super) struct Belief {
    false_alarm: Rate,
    detection: Rate,
    /// Log posterior of each candidate, up to a constant.
    weight: Vec<f64>,
    /// For each candidate: the tests of bad commits, if it were the culprit.
    bad_side: Vec<Tally>,
    total: Tally,
    good_end: Tally,
    bad_end: Tally,
    gave_up: bool,
}

impl Belief {
    /// Starts with every candidate equally likely.
    pub(super) fn new(candidates: usize, false_alarm: Rate, detection: Rate) -> Self {
        Self {
            false_alarm,
            detection,
            weight: vec![0.0; candidates],
            bad_side: vec![Tally::default(); candidates],
            total: Tally::default(),
            good_end: Tally::default(),
            bad_end: Tally::default(),
            gave_up: false,
        }
    }

    /// Takes one test of a commit. The commit is bad if the culprit is among `reached`.
    pub(crate) fn observe(&mut self, reached: &[bool], is_bad: bool) {
        for (candidate, &is_reached) in reached.iter().enumerate() {
            let side = self.bad_side[candidate];
            let chance = if is_reached {
                self.bad_side[candidate].add(is_bad);
                self.detection.mean(side)
            } else {
                self.false_alarm.mean(self.total.without(side))
            };
            self.weight[candidate] += if is_bad { chance.ln() } else { (1.0 - chance).ln() };
        }
        self.total.add(is_bad);
    }

    /// Takes one test of a good end.
    pub(crate) fn observe_good_end(&mut self, is_bad: bool) {
        self.good_end.add(is_bad);
        self.observe(&vec![false; self.weight.len()], is_bad);
    }

    /// Counts one test of the bad end, besides [`observe`](Self::observe).
    pub(crate) fn count_bad_end(&mut self, is_bad: bool) {
        self.bad_end.add(is_bad);
    }

    /// Whether bad tests are more frequent at the bad end than at the good ones.
    pub(crate) fn rates_are_clear(&self) -> bool {
        self.detection.interval(self.bad_end).0 > self.false_alarm.interval(self.good_end).1
    }

    fn ends_are_spent(&self) -> bool {
        self.good_end.tests.min(self.bad_end.tests) >= MOST_END_TESTS
    }

    /// Stops without an answer: no test is worthwhile any more.
    pub(crate) fn give_up(&mut self) {
        self.gave_up = true;
    }

    /// Tests of the ends, on the side with fewer tests first; `waiting` counts those in flight.
    pub(crate) fn end_picks(
        &self,
        good_ends: &[u32],
        bad_end: u32,
        waiting: (usize, usize),
        slots: usize,
    ) -> Vec<u32> {
        let mut at_good = self.good_end.tests as usize + waiting.0;
        let mut at_bad = self.bad_end.tests as usize + waiting.1;
        let mut picks = Vec::new();
        while picks.len() < slots && at_good.min(at_bad) < MOST_END_TESTS as usize {
            if at_good <= at_bad {
                picks.push(good_ends[at_good % good_ends.len()]);
                at_good += 1;
            } else {
                picks.push(bad_end);
                at_bad += 1;
            }
        }
        picks
    }

    /// The most informative tests besides those `in_flight`.
    pub(super) fn picks(
        &self,
        reach: &ReachGraph,
        is_free: &[bool],
        in_flight: &[u32],
        slots: usize,
    ) -> Vec<FlakyPick> {
        let forecast = self.forecast();
        let mut running = in_flight.to_vec();
        let mut picks = Vec::new();
        while picks.len() < slots {
            // With every class already divided by a running test, repeating one still helps.
            let best = forecast
                .most_informative(reach, is_free, &running)
                .or_else(|| forecast.most_informative(reach, is_free, &[]));
            let Some(best) = best else { break };
            if let FlakyPick::Candidate(local) = best {
                running.push(local);
            }
            picks.push(best);
        }
        picks
    }

    /// The conclusion, if the ends are clear and one candidate is probable enough.
    pub(crate) fn conclude(&self, commit: impl Fn(u32) -> u32) -> Option<Conclusion> {
        if !self.rates_are_clear() {
            if !self.ends_are_spent() {
                return None;
            }
            return Some(Conclusion::Refused(EndsRefusal::Indistinguishable {
                good: (self.good_end.bad, self.good_end.tests),
                bad: (self.bad_end.bad, self.bad_end.tests),
            }));
        }
        let mass = self.posterior();
        let mut order: Vec<u32> = (0..mass.len() as u32).collect();
        order.sort_by(|&a, &b| mass[b as usize].total_cmp(&mass[a as usize]));
        let first = *order.first()?;
        let probability = mass[first as usize];
        if probability >= ENOUGH {
            return Some(Conclusion::Probable { culprit: commit(first), probability });
        }
        if !self.gave_up {
            return None;
        }
        let mut candidates = Vec::new();
        let mut covered = 0.0;
        for local in order {
            if covered >= ENOUGH {
                break;
            }
            covered += mass[local as usize];
            candidates.push(commit(local));
        }
        candidates.sort_unstable();
        Some(Conclusion::Ambiguous { candidates })
    }

    fn posterior(&self) -> Vec<f64> {
        let top = self.weight.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let raw: Vec<f64> = self.weight.iter().map(|weight| (weight - top).exp()).collect();
        let sum: f64 = raw.iter().sum();
        raw.into_iter().map(|mass| mass / sum).collect()
    }

    fn forecast(&self) -> Forecast {
        let mass = self.posterior();
        let mut if_bad = Chances::default();
        let mut if_good = Chances::default();
        for (&mass, &side) in mass.iter().zip(&self.bad_side) {
            if_bad.push(mass, self.detection.mean(side));
            if_good.push(mass, self.false_alarm.mean(self.total.without(side)));
        }
        Forecast { mass, if_bad, if_good }
    }
}

/// For each candidate, weighted by its posterior: the chance of a bad test, and the entropy of that test in
/// nats. The rates are those to expect if the candidate is the culprit. A test of the rates alone thus counts
/// only for its information about the culprit.
#[derive(Default)]
struct Chances {
    bad: Vec<f64>,
    entropy: Vec<f64>,
}

impl Chances {
    /// Adds a candidate of posterior `mass`: a test turns bad with probability `chance`.
    fn push(&mut self, mass: f64, chance: f64) {
        self.bad.push(mass * chance);
        self.entropy.push(mass * binary_entropy(chance));
    }
}

/// The expected result of the next test under each candidate.
struct Forecast {
    mass: Vec<f64>,
    if_bad: Chances,
    if_good: Chances,
}

impl Forecast {
    /// The best worthwhile test, by its division of the classes left by the running tests.
    fn most_informative(
        &self,
        reach: &ReachGraph,
        is_free: &[bool],
        running: &[u32],
    ) -> Option<FlakyPick> {
        let mut gain = vec![0.0; reach.len()];
        let mut gain_good_end = 0.0;
        for class in partition_by_reach(reach, running) {
            let class_mass = sum_over(&self.mass, &class);
            if class_mass > 0.0 {
                let chance_outside = sum_over(&self.if_good.bad, &class);
                let entropy_outside = sum_over(&self.if_good.entropy, &class);
                gain_good_end += mutual_information(class_mass, (chance_outside, entropy_outside));
                let good_chances = reach.sums(&class, Measure::Mass(&self.if_good.bad));
                let good_entropies = reach.sums(&class, Measure::Mass(&self.if_good.entropy));
                let bad_chances = reach.sums(&class, Measure::Mass(&self.if_bad.bad));
                let bad_entropies = reach.sums(&class, Measure::Mass(&self.if_bad.entropy));
                for (local, gain) in gain.iter_mut().enumerate() {
                    let chance = chance_outside - good_chances[local] + bad_chances[local];
                    let entropy = entropy_outside - good_entropies[local] + bad_entropies[local];
                    *gain += mutual_information(class_mass, (chance, entropy));
                }
            }
        }
        let free_candidates = (0..reach.len() as u32).filter(|&local| is_free[local as usize]);
        let best = free_candidates.max_by(|&a, &b| gain[a as usize].total_cmp(&gain[b as usize]));
        let (pick, gain) = match best {
            Some(best) if gain[best as usize] >= gain_good_end => {
                (FlakyPick::Candidate(best), gain[best as usize])
            }
            _ => (FlakyPick::GoodEnd, gain_good_end),
        };
        (gain > WORTHWHILE).then_some(pick)
    }
}

/// The sum of `values` over the indices in `class`.
fn sum_over(values: &[f64], class: &[u32]) -> f64 {
    class.iter().map(|&local| values[local as usize]).sum()
}

/// Mutual information, in nats, between one test and the culprit within a class of probability
/// `class_mass`, times `class_mass`: the entropy of the mixture less the mean entropy. `chance` and
/// `entropy` are the sums over the class of each candidate's, times its posterior.
fn mutual_information(class_mass: f64, (chance, mean_entropy): (f64, f64)) -> f64 {
    class_mass * binary_entropy((chance / class_mass).clamp(0.0, 1.0)) - mean_entropy
}

fn binary_entropy(chance: f64) -> f64 {
    entropy_term(chance) + entropy_term(1.0 - chance)
}

fn entropy_term(probability: f64) -> f64 {
    if probability > 0.0 { -probability * probability.ln() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wilson_interval_matches_published_values() {
        // Newcombe 1998, table I, method 3: 81 of 263 and 0 of 20.
        let (low, high) = Rate::unknown().interval(Tally { bad: 81, tests: 263 });
        assert!((low - 0.2553).abs() < 1e-4 && (high - 0.3662).abs() < 1e-4, "{low} {high}");
        let (low, high) = Rate::observed(0, 20).interval(Tally::default());
        assert!(low.abs() < 1e-12 && (high - 0.1611).abs() < 1e-4, "{low} {high}");
    }

    #[test]
    fn a_perfect_test_is_worth_one_bit_at_even_odds() {
        assert!((mutual_information(1.0, (0.5, 0.0)) - 2f64.ln()).abs() < 1e-12);
        assert_eq!(mutual_information(1.0, (0.1, binary_entropy(0.1))), 0.0);
    }
}
