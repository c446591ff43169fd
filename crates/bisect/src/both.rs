//! A search between ends that are commits in environments. Where they differ in both, the two mixed pairs are tested first,
//! bad code in the good environment and good code in the bad one: they tell where the change lies. Then the search goes along
//! the commits in one environment, or along the environments at one commit, or along each of them in turn.

use std::mem;
use std::rc::Rc;
use std::sync::Arc;

use super::along::Along;
use super::axis::{AxisAtRevision, EnvironmentAxis, key_in_environment};
use super::conclusion::{SearchEnd, SearchReport};
use super::probe::{Seen, Sources};
use super::{BisectEnds, BisectError, Bisection, Event, SearchListener};
use replay_engine::environment::hash_environment;
use replay_engine::trial::AccessCheck;
use replay_history::{Commit, CommitId, SourceKey, SourceSet};
use replay_search::{Conclusion, TestAnswer};

/// Two commits and two environments: the good end has the first of each, the bad end the second.
pub struct BothEnds<'a> {
    pub commits: [Commit; 2],
    pub axis: Rc<EnvironmentAxis<'a>>,
    /// The places of the environments' values on the axis.
    pub values: [usize; 2],
}

/// Which of two: that of the good end, or that of the bad end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Good,
    Bad,
}

/// A commit in an environment.
pub struct Pair {
    /// The commit that stands for it: `37707d4@triton=3.4.0`.
    pub(super) commit: Commit,
    /// Its sources, one for each fixture.
    pub(super) sources: Vec<Sources>,
    environment: CommitId,
}

/// A pair with the answer of its test.
#[derive(Clone, Debug)]
pub struct TestedPair {
    pub commit: Commit,
    pub answer: TestAnswer,
    /// The result in detail, if it was tested by itself.
    pub seen: Option<Seen>,
}

/// The pairs of two commits and two environments.
#[derive(Clone, Debug)]
pub struct Corners {
    /// The name of the axis.
    pub axis: String,
    /// The good commit in the good environment.
    pub good: TestedPair,
    /// The bad commit in the bad environment.
    pub bad: TestedPair,
    /// The bad commit in the good environment.
    pub code: TestedPair,
    /// The good commit in the bad environment.
    pub environment: TestedPair,
}

/// Where a change lies.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Whereabouts {
    /// In the commits: they do it in the good environment too, and the environment alone does not.
    Code,
    /// In the environment: it does it with the good commit too, and the commits alone do not.
    Environment,
    /// In each of them: either alone does it.
    Either,
    /// In both of them: only together they do it.
    Together,
    /// Not known: a mixed pair is neither good nor bad.
    Unclear,
}

/// A way through the corners along which good turns bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Along the commits, in this environment.
    Code(Side),
    /// Along the environments, at this commit.
    Environments(Side),
}

/// A search along one way.
pub struct WaySearch {
    /// What stays the same: `with triton 3.4.0`, or `at 37707d4`.
    pub place: String,
    pub report: SearchReport,
}

/// The result of a search between ends that differ in both.
pub enum BothReport {
    /// The ends do not allow a search.
    Refused(Box<SearchReport>),
    Searched {
        /// None where the ends differ in one thing alone.
        corners: Option<Box<Corners>>,
        searches: Vec<WaySearch>,
    },
}

impl BothReport {
    /// The searches in their order; one between the ends alone if these are refused.
    pub fn list_searches(&self) -> Vec<&SearchReport> {
        match self {
            BothReport::Refused(report) => vec![report],
            BothReport::Searched { searches, .. } => {
                searches.iter().map(|search| &search.report).collect()
            }
        }
    }

    /// How the search ended: as its worst part.
    pub fn ending(&self) -> SearchEnd {
        let endings: Vec<SearchEnd> =
            self.list_searches().into_iter().map(SearchReport::ending).collect();
        if endings.contains(&SearchEnd::Refused) {
            SearchEnd::Refused
        } else if endings.is_empty() || endings.contains(&SearchEnd::Ambiguous) {
            SearchEnd::Ambiguous
        } else {
            SearchEnd::Found
        }
    }
}

impl Corners {
    /// Where the change lies.
    pub fn whereabouts(&self) -> Whereabouts {
        match (self.code.answer, self.environment.answer) {
            (TestAnswer::Bad, TestAnswer::Good) => Whereabouts::Code,
            (TestAnswer::Good, TestAnswer::Bad) => Whereabouts::Environment,
            (TestAnswer::Bad, TestAnswer::Bad) => Whereabouts::Either,
            (TestAnswer::Good, TestAnswer::Good) => Whereabouts::Together,
            _ => Whereabouts::Unclear,
        }
    }

    /// The ways from a good corner to a bad one that differ in one thing; for each thing the one from the good end, if
    /// there are two.
    fn list_ways(&self) -> Vec<Way> {
        let mut ways = Vec::new();
        let [code, environment] = [self.code.answer, self.environment.answer];
        if code == TestAnswer::Bad {
            ways.push(Way::Code(Side::Good));
        } else if environment == TestAnswer::Good {
            ways.push(Way::Code(Side::Bad));
        }
        if environment == TestAnswer::Bad {
            ways.push(Way::Environments(Side::Good));
        } else if code == TestAnswer::Good {
            ways.push(Way::Environments(Side::Bad));
        }
        ways
    }
}

impl Pair {
    /// The keys of its sources, one for each fixture; none if it lacks some.
    pub(super) fn keys(&self) -> Option<Vec<SourceKey>> {
        let keys = self.sources.iter().map(|sources| match sources {
            Sources::Found(placed) => Some(key_in_environment(&placed.set, self.environment)),
            Sources::Missing { .. } => None,
        });
        keys.collect()
    }
}

impl<'a> BothEnds<'a> {
    fn commit(&self, side: Side) -> &Commit {
        &self.commits[side as usize]
    }

    fn value(&self, side: Side) -> usize {
        self.values[side as usize]
    }

    /// The commit that stands for a commit in an environment.
    pub fn name_pair(&self, code: Side, environment: Side) -> Commit {
        let (commit, value) = (self.commit(code), self.value(environment));
        let digits = hash_environment(&commit.id.to_string(), &self.axis.id(value).to_string());
        Commit {
            id: digits.parse().expect("40 digits are an id"),
            short: self.axis.name_pair(&commit.short, value),
            ..commit.clone()
        }
    }
}

/// What the tests of the corners end with.
enum CornerTests {
    Tested(Box<Corners>),
    /// An end is not what it is said to be.
    Refused(Box<SearchReport>),
}

impl<'h> Bisection<'h> {
    /// Finds where the change between both ends lies, and searches there.
    ///
    /// # Errors
    /// As [`Bisection::search`].
    pub fn search_both(
        &mut self,
        both: &BothEnds<'h>,
        listener: &mut SearchListener<'_>,
    ) -> Result<BothReport, BisectError> {
        let (corners, ways) = if both.commits[0].id == both.commits[1].id {
            (None, vec![Way::Environments(Side::Good)])
        } else if both.values[0] == both.values[1] {
            (None, vec![Way::Code(Side::Good)])
        } else {
            // Evidence is collected by the searches that follow.
            let check = mem::replace(&mut self.check, AccessCheck::Off);
            let illustrated = mem::replace(&mut self.illustrated, false);
            let corners = match self.test_corners(both, listener)? {
                CornerTests::Tested(corners) => corners,
                CornerTests::Refused(refused) => return Ok(BothReport::Refused(refused)),
            };
            self.check = check;
            self.illustrated = illustrated;
            listener(Event::Cornered { corners: &corners });
            let ways = corners.list_ways();
            (Some(corners), ways)
        };
        let mut searches = Vec::new();
        for way in ways {
            let (along, place, ends) = self.open_way(both, way)?;
            listener(Event::Along { axis: along.axis_name(), place: &place });
            self.along = along;
            let report = self.search(&ends, listener)?;
            listener(Event::Searched { report: &report });
            searches.push(WaySearch { place, report });
        }
        Ok(BothReport::Searched { corners, searches })
    }

    /// Tests the corners. Each mixed pair is the middle of a search between the ends, which confirms it as it confirms every
    /// answer.
    fn test_corners(
        &mut self,
        both: &BothEnds<'h>,
        listener: &mut SearchListener<'_>,
    ) -> Result<CornerTests, BisectError> {
        let [good, bad] = [Side::Good, Side::Bad].map(|side| both.name_pair(side, side));
        let ends = BisectEnds::Claimed { good: vec![good.clone()], bad: vec![bad.clone()] };
        let mut tested_corners = Vec::new();
        for middle in [(Side::Bad, Side::Good), (Side::Good, Side::Bad)] {
            let line = [(Side::Good, Side::Good), middle, (Side::Bad, Side::Bad)];
            let pairs = line.map(|(code, environment)| self.open_pair(both, code, environment));
            self.along = Along::Pairs(pairs.into_iter().collect::<Result<_, _>>()?);
            let is_first = tested_corners.is_empty();
            let report = self.search_alone(&ends, &mut |event| {
                if is_first || !event.is_of(&[good.id, bad.id]) {
                    listener(event);
                }
            })?;
            if report.ending() == SearchEnd::Refused {
                return Ok(CornerTests::Refused(Box::new(report)));
            }
            tested_corners.push(report);
        }
        let [code, environment] = [&tested_corners[0], &tested_corners[1]];
        let [code_pair, environment_pair] =
            [both.name_pair(Side::Bad, Side::Good), both.name_pair(Side::Good, Side::Bad)];
        let tested_pair = |commit, answer, report: &SearchReport, number| TestedPair {
            commit,
            answer,
            seen: report.test_result(number).cloned(),
        };
        Ok(CornerTests::Tested(Box::new(Corners {
            axis: both.axis.name.clone(),
            good: tested_pair(good, TestAnswer::Good, code, FIRST),
            bad: tested_pair(bad, TestAnswer::Bad, code, LAST),
            code: tested_pair(code_pair, answer_of_middle(code), code, MIDDLE),
            environment: tested_pair(
                environment_pair,
                answer_of_middle(environment),
                environment,
                MIDDLE,
            ),
        })))
    }

    /// A commit in an environment, each from one of the ends.
    fn open_pair(
        &self,
        both: &BothEnds<'h>,
        code: Side,
        environment: Side,
    ) -> Result<Pair, BisectError> {
        let value = both.value(environment);
        let place = both.axis.environment(value)?;
        let sources = self.targets.iter().map(|target| {
            let sources = Sources::read(self.history, both.commit(code).id, &target.spec)?;
            Ok(match &place {
                Ok(environment) => sources.in_environment(Some(environment)),
                Err((reason, hint)) => {
                    Sources::Missing { reason: reason.clone(), hint: hint.clone() }
                }
            })
        });
        let sources = sources.collect::<Result<_, BisectError>>()?;
        let commit = both.name_pair(code, environment);
        Ok(Pair { commit, sources, environment: both.axis.id(value) })
    }

    /// What a search goes along on `way`, the words for what stays the same, and its ends.
    fn open_way(
        &self,
        both: &BothEnds<'h>,
        way: Way,
    ) -> Result<(Along<'h>, String, BisectEnds), BisectError> {
        match way {
            Way::Code(side) => {
                let value = both.value(side);
                let place = format!("with {}", both.axis.describe_value(value));
                let environment = both.axis.prepare(value)?;
                let [good, bad] = both.commits.clone().map(|commit| vec![commit]);
                let along = Along::History(Some(environment));
                Ok((along, place, BisectEnds::Claimed { good, bad }))
            }
            Way::Environments(side) => {
                let commit = both.commit(side);
                let place = format!("at {}", commit.short);
                let sources = self
                    .targets
                    .iter()
                    .map(|target| Ok(Arc::new(self.history.source_set(commit.id, &target.spec)?)));
                let sources: Vec<Arc<SourceSet>> = sources.collect::<Result<_, BisectError>>()?;
                let along = AxisAtRevision {
                    axis: both.axis.clone(),
                    place: format!("{place} {}", commit.subject),
                    sources,
                };
                let [good, bad] = both.values.map(|value| vec![along.commit(value)]);
                Ok((Along::Environments(along), place, BisectEnds::Claimed { good, bad }))
            }
        }
    }
}

/// The numbers of the pairs in a search between the ends with one pair in their middle.
const FIRST: u32 = 0;
const MIDDLE: u32 = 1;
const LAST: u32 = 2;

/// The answer of the pair in the middle of a search that was not refused.
fn answer_of_middle(report: &SearchReport) -> TestAnswer {
    if let Conclusion::Found { culprit, .. } | Conclusion::Probable { culprit, .. } =
        report.conclusion
    {
        return TestAnswer::for_commit(culprit == MIDDLE);
    }
    let mut answers = report.tested.iter().filter(|tested| tested.commit == MIDDLE);
    answers.next_back().map_or(TestAnswer::Skip, |tested| tested.answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corners(code: TestAnswer, environment: TestAnswer) -> Corners {
        let pair = |answer| TestedPair {
            commit: Commit {
                id: "0".repeat(40).parse().unwrap(),
                short: String::new(),
                subject: String::new(),
                author_name: String::new(),
                time_s: 0,
                parents: Vec::new(),
            },
            answer,
            seen: None,
        };
        Corners {
            axis: "triton".to_owned(),
            good: pair(TestAnswer::Good),
            bad: pair(TestAnswer::Bad),
            code: pair(code),
            environment: pair(environment),
        }
    }

    #[test]
    fn every_way_goes_from_a_good_corner_to_a_bad_one() {
        use TestAnswer::{Bad, Good, Other, Skip};
        for code in [Good, Bad, Skip, Other] {
            for environment in [Good, Bad, Skip, Other] {
                for way in corners(code, environment).list_ways() {
                    let ends = match way {
                        Way::Code(Side::Good) => (Good, code),
                        Way::Code(Side::Bad) => (environment, Bad),
                        Way::Environments(Side::Good) => (Good, environment),
                        Way::Environments(Side::Bad) => (code, Bad),
                    };
                    assert_eq!(ends, (Good, Bad), "{way:?} of {code:?} and {environment:?}");
                }
            }
        }
    }

    #[test]
    fn one_clear_corner_is_enough_for_a_way_and_none_is_not() {
        use TestAnswer::{Bad, Good, Other, Skip};
        let ways = |code, environment| corners(code, environment).list_ways();
        assert_eq!(ways(Skip, Good), [Way::Code(Side::Bad)]);
        assert_eq!(ways(Skip, Bad), [Way::Environments(Side::Good)]);
        assert_eq!(ways(Good, Other), [Way::Environments(Side::Bad)]);
        assert_eq!(ways(Bad, Other), [Way::Code(Side::Good)]);
        assert_eq!(ways(Skip, Other), []);
        assert_eq!(ways(Bad, Good), [Way::Code(Side::Good)]);
        assert_eq!(ways(Good, Bad), [Way::Environments(Side::Good)]);
        assert_eq!(ways(Good, Good).len(), 2);
        assert_eq!(ways(Bad, Bad).len(), 2);
    }
}
