//! The changes of a commit that carry its defect: delta debugging. Knows changes as numbers; the caller tests sets.
//!
//! The algorithm is ddmin (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 28(2),
//! 2002), over groups of changes first, then over the changes of the groups that are left.

use std::collections::{BTreeSet, HashMap};

use super::TestAnswer;

/// A set of changes.
pub type ChangeSet = BTreeSet<usize>;

/// Tests sets of changes, side by side; an answer for each, in their order.
pub type SetTester<'t, E> = dyn FnMut(&[ChangeSet]) -> Result<Vec<TestAnswer>, E> + 't;

/// What is left of the changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minimum {
    /// A set with the defect.
    pub changes: ChangeSet,
    /// Whether it loses the defect, or cannot be tested, without any one of its changes. Else the tests ran out.
    pub is_minimal: bool,
}

/// Removes changes from a set with a defect until each of them is needed.
pub struct Minimizer<'t, E> {
    tester: &'t mut SetTester<'t, E>,
    /// Sets that are tested at a time.
    jobs: usize,
    tests_left: usize,
    tested: usize,
    answers: HashMap<ChangeSet, TestAnswer>,
}

impl<'t, E> Minimizer<'t, E> {
    /// Asks `tester` for at most `most_tests` sets, `jobs` at a time.
    pub fn new(tester: &'t mut SetTester<'t, E>, jobs: usize, most_tests: usize) -> Self {
        let answers = HashMap::new();
        Minimizer { tester, jobs: jobs.max(1), tests_left: most_tests, tested: 0, answers }
    }

    /// Takes the answer to `changes` from the caller: the tester is not asked for it.
    pub fn learn(&mut self, changes: ChangeSet, answer: TestAnswer) {
        self.answers.insert(changes, answer);
    }

    /// The answer to a set that was tested.
    fn known_answer(&self, changes: &ChangeSet) -> Option<TestAnswer> {
        self.answers.get(changes).copied()
    }

    /// How many sets the tester was asked for.
    pub fn tested(&self) -> usize {
        self.tested
    }

    /// The answer to `changes`; none if the tests ran out.
    ///
    /// # Errors
    /// Those of the tester.
    pub fn test(&mut self, changes: &ChangeSet) -> Result<Option<TestAnswer>, E> {
        self.find_bad(std::slice::from_ref(changes))?;
        Ok(self.known_answer(changes))
    }

    /// Minimises the changes of `groups`, which have the defect together; without changes there is none.
    ///
    /// # Errors
    /// Those of the tester.
    pub fn minimize(&mut self, groups: &[ChangeSet]) -> Result<Minimum, E> {
        self.minimize_around(&ChangeSet::new(), groups)
    }

    /// Minimises the changes of `groups` beside those of `core`, which have the defect together, and then all that are left:
    /// quick where `core` is most of what is needed. `core` alone has no defect.
    ///
    /// # Errors
    /// Those of the tester.
    pub fn minimize_around(
        &mut self,
        core: &ChangeSet,
        groups: &[ChangeSet],
    ) -> Result<Minimum, E> {
        let groups_left = self.reduce_units(core, groups.to_vec())?.0;
        let units_left = self.reduce_units(core, split_changes(&join_units(&groups_left)))?.0;
        let changes = core | &join_units(&units_left);
        let (units, is_minimal) = self.reduce_units(&ChangeSet::new(), split_changes(&changes))?;
        Ok(Minimum { changes: join_units(&units), is_minimal })
    }

    /// The units left by ddmin where every test has the changes of `core` as well, and whether each is known to be needed.
    fn reduce_units(
        &mut self,
        core: &ChangeSet,
        mut units: Vec<ChangeSet>,
    ) -> Result<(Vec<ChangeSet>, bool), E> {
        let mut parts = 2;
        while units.len() > 1 {
            let ranges = split_evenly(units.len(), parts);
            let subsets: Vec<ChangeSet> =
                ranges.iter().map(|range| core | &join_units(&units[range.clone()])).collect();
            if let Some(found) = self.find_bad(&subsets)? {
                units = units[ranges[found].clone()].to_vec();
                parts = 2;
                continue;
            }
            let complements: Vec<ChangeSet> =
                ranges.iter().map(|range| core | &join_units_outside(&units, range)).collect();
            if let Some(found) = self.find_bad(&complements)? {
                units.drain(ranges[found].clone());
                parts = (parts - 1).max(2);
                continue;
            }
            if parts >= units.len() {
                let is_known = complements.iter().all(|set| self.answers.contains_key(set));
                return Ok((units, is_known));
            }
            parts = (2 * parts).min(units.len());
        }
        Ok((units, true))
    }

    /// The place of the first bad one of `sets`, as far as they can be tested.
    fn find_bad(&mut self, sets: &[ChangeSet]) -> Result<Option<usize>, E> {
        for (batch_number, batch) in sets.chunks(self.jobs).enumerate() {
            let mut open_sets: Vec<ChangeSet> = Vec::new();
            for set in batch {
                if !self.answers.contains_key(set) && !open_sets.contains(set) {
                    open_sets.push(set.clone());
                }
            }
            open_sets.truncate(self.tests_left);
            if !open_sets.is_empty() {
                self.tests_left -= open_sets.len();
                self.tested += open_sets.len();
                let answers = (self.tester)(&open_sets)?;
                self.answers.extend(open_sets.into_iter().zip(answers));
            }
            let place =
                batch.iter().position(|set| self.known_answer(set) == Some(TestAnswer::Bad));
            if let Some(place) = place {
                return Ok(Some(batch_number * self.jobs + place));
            }
        }
        Ok(None)
    }
}

fn join_units(units: &[ChangeSet]) -> ChangeSet {
    units.iter().flatten().copied().collect()
}

fn join_units_outside(units: &[ChangeSet], range: &std::ops::Range<usize>) -> ChangeSet {
    &join_units(&units[..range.start]) | &join_units(&units[range.end..])
}

/// Each of `changes` by itself.
fn split_changes(changes: &ChangeSet) -> Vec<ChangeSet> {
    changes.iter().map(|&change| ChangeSet::from([change])).collect()
}

/// `length` in at most `parts` ranges of nearly the same length.
fn split_evenly(length: usize, parts: usize) -> Vec<std::ops::Range<usize>> {
    let parts = parts.min(length);
    (0..parts).map(|part| part * length / parts..(part + 1) * length / parts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::convert::Infallible;

    /// A generator of equal numbers at every run (Marsaglia, "Xorshift RNGs", 2003).
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % limit
        }

        fn subset(&mut self, of: usize, one_in: u64) -> ChangeSet {
            (0..of).filter(|_| self.below(one_in) == 0).collect()
        }
    }

    struct Run {
        minimum: Minimum,
        /// The tested sets, in the batches in which they were asked for.
        batches: Vec<Vec<ChangeSet>>,
    }

    fn minimize(
        groups: &[ChangeSet],
        [jobs, most_tests]: [usize; 2],
        oracle: &dyn Fn(&ChangeSet) -> TestAnswer,
    ) -> Run {
        let batches = RefCell::new(Vec::new());
        let mut tester = |sets: &[ChangeSet]| {
            batches.borrow_mut().push(sets.to_vec());
            Ok::<_, Infallible>(sets.iter().map(oracle).collect())
        };
        let mut minimizer = Minimizer::new(&mut tester, jobs, most_tests);
        let Ok(minimum) = minimizer.minimize(groups);
        Run { minimum, batches: batches.into_inner() }
    }

    fn singles(count: usize) -> Vec<ChangeSet> {
        split_changes(&(0..count).collect())
    }

    /// Random groups of the changes below `count`, in order.
    fn random_groups(numbers: &mut Numbers, count: usize) -> Vec<ChangeSet> {
        let mut groups: Vec<ChangeSet> = Vec::new();
        for change in 0..count {
            match groups.last_mut().filter(|_| numbers.below(2) == 0) {
                Some(group) => _ = group.insert(change),
                None => groups.push(ChangeSet::from([change])),
            }
        }
        groups
    }

    fn list_subsets(of: &ChangeSet) -> impl Iterator<Item = ChangeSet> + '_ {
        (0..1u32 << of.len()).map(move |mask| {
            let members = of.iter().enumerate();
            members.filter(|(place, _)| mask >> place & 1 == 1).map(|(_, &change)| change).collect()
        })
    }

    /// A set is bad if it holds one of `carriers`.
    fn carried_by(carriers: &[ChangeSet], set: &ChangeSet) -> TestAnswer {
        let is_bad = carriers.iter().any(|carrier| carrier.is_subset(set));
        if is_bad { TestAnswer::Bad } else { TestAnswer::Good }
    }

    #[test]
    fn no_smaller_set_has_a_defect_that_more_changes_never_cure() {
        let mut numbers = Numbers(7);
        for _ in 0..400 {
            let count = 1 + numbers.below(10) as usize;
            let groups = random_groups(&mut numbers, count);
            let mut carriers: Vec<ChangeSet> =
                (0..3).map(|_| numbers.subset(count, 3)).filter(|set| !set.is_empty()).collect();
            carriers.push((0..count).collect());
            let jobs = 1 + numbers.below(3) as usize;
            let oracle = |set: &ChangeSet| carried_by(&carriers, set);
            let Minimum { changes, is_minimal } = minimize(&groups, [jobs, 1000], &oracle).minimum;
            assert!(is_minimal);
            for subset in list_subsets(&changes) {
                assert_eq!(oracle(&subset) == TestAnswer::Bad, subset == changes, "{carriers:?}");
            }
        }
    }

    #[test]
    fn every_change_is_needed_whatever_others_do() {
        let mut numbers = Numbers(11);
        for round in 0..400 {
            let count = 1 + numbers.below(9) as usize;
            let groups = random_groups(&mut numbers, count);
            let everything: ChangeSet = (0..count).collect();
            // Answers without any order among them: a change may cure, or break the build.
            let oracle = |set: &ChangeSet| {
                let seed = set.iter().fold(round + 1, |hash, &change| {
                    (hash ^ (change as u64 + 1)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
                });
                match seed >> 61 {
                    _ if set.is_empty() => TestAnswer::Good,
                    _ if *set == everything => TestAnswer::Bad,
                    0 | 1 => TestAnswer::Bad,
                    2 | 3 => TestAnswer::Skip,
                    4 => TestAnswer::Other,
                    _ => TestAnswer::Good,
                }
            };
            let Minimum { changes, is_minimal } = minimize(&groups, [2, 10_000], &oracle).minimum;
            assert!(is_minimal);
            assert_eq!(oracle(&changes), TestAnswer::Bad);
            for change in &changes {
                let without = &changes - &ChangeSet::from([*change]);
                assert_ne!(oracle(&without), TestAnswer::Bad, "{changes:?} without {change}");
            }
        }
    }

    #[test]
    fn no_set_is_tested_twice_nor_those_with_a_known_answer() {
        let carriers = [ChangeSet::from([2, 9])];
        let run = minimize(&singles(12), [2, 1000], &|set| carried_by(&carriers, set));
        assert_eq!(run.minimum.changes, carriers[0]);
        let tested: Vec<&ChangeSet> = run.batches.iter().flatten().collect();
        assert_eq!(tested.iter().collect::<BTreeSet<_>>().len(), tested.len());
        assert!(!tested.iter().any(|set| set.is_empty() || set.len() == 12));
        assert!(run.batches.iter().all(|batch| batch.len() <= 2));
    }

    #[test]
    fn one_change_among_many_takes_a_logarithm_of_tests() {
        for carrier in 0..64 {
            let carriers = [ChangeSet::from([carrier])];
            let run = minimize(&singles(64), [1, 1000], &|set| carried_by(&carriers, set));
            assert_eq!(run.minimum.changes, carriers[0]);
            assert!(run.batches.len() <= 12, "{} tests", run.batches.len());
        }
    }

    #[test]
    fn changes_of_a_group_stay_together_until_the_group_is_found() {
        let groups = [ChangeSet::from([0, 1, 2]), ChangeSet::from([3]), ChangeSet::from([4, 5])];
        let carriers = [ChangeSet::from([4])];
        let run = minimize(&groups, [1, 1000], &|set| carried_by(&carriers, set));
        assert_eq!(run.minimum.changes, carriers[0]);
        let tested: Vec<ChangeSet> = run.batches.into_iter().flatten().collect();
        let expected = [vec![0, 1, 2], vec![3, 4, 5], vec![3], vec![4, 5], vec![4]];
        assert_eq!(tested, expected.map(ChangeSet::from_iter));
    }

    #[test]
    fn changes_that_do_not_build_alone_are_kept_together() {
        // 1 uses what 4 declares.
        let oracle = |set: &ChangeSet| match (set.contains(&1), set.contains(&4)) {
            (true, false) => TestAnswer::Skip,
            (true, true) => TestAnswer::Bad,
            (false, _) => TestAnswer::Good,
        };
        let minimum = minimize(&singles(6), [1, 1000], &oracle).minimum;
        assert_eq!(minimum, Minimum { changes: ChangeSet::from([1, 4]), is_minimal: true });
    }

    #[test]
    fn a_set_that_ran_out_of_tests_is_not_called_minimal() {
        let carriers = [ChangeSet::from([1, 4])];
        let oracle = |set: &ChangeSet| carried_by(&carriers, set);
        for most_tests in 0..6 {
            let run = minimize(&singles(6), [2, most_tests], &oracle);
            assert!(run.batches.iter().flatten().count() <= most_tests);
            assert!(!run.minimum.is_minimal);
            assert_eq!(oracle(&run.minimum.changes), TestAnswer::Bad);
        }
    }

    #[test]
    fn a_set_around_a_known_core_is_minimal_and_takes_few_tests() {
        for other in 1..64 {
            let needed = ChangeSet::from([0, other]);
            let mut tested = 0;
            let mut tester = |sets: &[ChangeSet]| {
                tested += sets.len();
                let answers = sets.iter().map(|set| carried_by(std::slice::from_ref(&needed), set));
                Ok::<_, Infallible>(answers.collect())
            };
            let mut minimizer = Minimizer::new(&mut tester, 1, 1000);
            let core = ChangeSet::from([0]);
            minimizer.learn(core.clone(), TestAnswer::Good);
            let Ok(minimum) = minimizer.minimize_around(&core, &singles(64)[1..]);
            assert_eq!(minimum, Minimum { changes: needed.clone(), is_minimal: true });
            let counted = minimizer.tested();
            assert!(counted == tested && tested <= 13, "{counted} of {tested} tests");
        }
    }

    #[test]
    fn a_core_that_is_not_needed_is_left_out() {
        let carriers = [ChangeSet::from([3, 4])];
        let mut tester = |sets: &[ChangeSet]| {
            Ok::<_, Infallible>(sets.iter().map(|set| carried_by(&carriers, set)).collect())
        };
        let mut minimizer = Minimizer::new(&mut tester, 1, 1000);
        let Ok(minimum) = minimizer.minimize_around(&ChangeSet::from([0, 1]), &singles(8)[2..]);
        assert_eq!(minimum, Minimum { changes: carriers[0].clone(), is_minimal: true });
    }
}
