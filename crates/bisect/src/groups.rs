//! Groups of variants: revisions of a program that agree in all names, and in the contents of all files that replays
//! opened, run the same. A search tests one of them for all.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;

use super::plan::Plan;
use super::probe::Seen;
use super::{BisectError, Bisection, On};
use replay_history::{CommitId, SourceKey};
use replay_search::TestAnswer;

/// The groups of a search, by all that its tests opened.
pub(super) struct Groups {
    /// For each fixture, the opened files; none where they are not known of one test.
    opened: Option<Vec<BTreeSet<String>>>,
}

/// How many variants count as how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Grouped {
    /// Variants between the ends, and these.
    pub variants: usize,
    /// Those of them that replays can tell apart: they differ in a name, or in a file that a replay opened.
    pub groups: usize,
}

impl Groups {
    /// Of a search without tests so far. Those of compiled kernels, and of checked replays, do not tell what they open.
    pub(super) fn new(bisection: &Bisection<'_>) -> Groups {
        let targets = &bisection.targets;
        // Environments share their files.
        let are_programs = bisection.on != On::Race
            && bisection.along.is_history()
            && targets.iter().all(|target| target.subject.fixture.harness.program.is_some());
        Groups { opened: are_programs.then(|| vec![BTreeSet::new(); targets.len()]) }
    }

    /// Takes what a test opened. Returns whether it opened a file that no test before it had opened.
    pub(super) fn learn(&mut self, test_result: &Seen) -> bool {
        let Some(known) = &mut self.opened else { return false };
        let mut is_news = false;
        for (known, observation) in known.iter_mut().zip(&test_result.observations) {
            let Some(opened) = &observation.opened else {
                self.opened = None;
                return true;
            };
            let count = known.len();
            known.extend(opened.iter().cloned());
            is_news |= known.len() > count;
        }
        is_news
    }

    /// The numbers of the groups, one for each commit of `plan`; those of the variants where nothing is known of what tests
    /// opened, or where commits of one group were `tested` with different answers.
    pub(super) fn assign_groups(
        &mut self,
        bisection: &Bisection<'_>,
        plan: &Plan,
        tested: &[(u32, TestAnswer)],
    ) -> Result<Vec<u32>, BisectError> {
        let commits = 0..plan.ids.len() as u32;
        let variants: Vec<u32> = commits.map(|commit| plan.variant(commit)).collect();
        let Some(opened) = &self.opened else { return Ok(variants) };
        let representatives: BTreeSet<u32> =
            variants.iter().copied().filter(|&variant| plan.keys(variant).is_some()).collect();
        let ids: Vec<CommitId> =
            representatives.iter().map(|&commit| plan.ids[commit as usize]).collect();
        let mut keys: HashMap<u32, Vec<SourceKey>> = HashMap::new();
        for (target, opened) in bisection.targets.iter().zip(opened) {
            let keys_of_target = bisection.history.opened_keys(&ids, &target.spec, opened)?;
            for &commit in &representatives {
                let key = keys_of_target[&plan.ids[commit as usize]];
                keys.entry(commit).or_default().push(key);
            }
        }
        let mut group_by_key: HashMap<&[SourceKey], u32> = HashMap::new();
        let groups: Vec<u32> = variants
            .iter()
            .map(|&variant| match keys.get(&variant) {
                Some(key) => *group_by_key.entry(key).or_insert(variant),
                None => variant,
            })
            .collect();
        let mut answers: HashMap<u32, TestAnswer> = HashMap::new();
        let agree = tested.iter().all(|&(commit, answer)| {
            *answers.entry(groups[commit as usize]).or_insert(answer) == answer
        });
        if !agree {
            self.opened = None;
            return Ok(variants);
        }
        Ok(groups)
    }
}

impl Grouped {
    /// That of `groups`, by commit; none if all variants of `plan` can be told apart.
    pub(super) fn count(plan: &Plan, groups: &[u32]) -> Option<Grouped> {
        let first = plan.ids.len() - plan.between;
        let between = first as u32..plan.ids.len() as u32;
        let commits: Vec<u32> = between.chain(plan.old.iter().copied()).collect();
        let variants: BTreeSet<u32> = commits.iter().map(|&commit| plan.variant(commit)).collect();
        let distinct: BTreeSet<u32> =
            commits.iter().map(|&commit| groups[commit as usize]).collect();
        let grouped = Grouped { variants: variants.len(), groups: distinct.len() };
        (grouped.groups < grouped.variants).then_some(grouped)
    }
}
