//! `replay bisect FIXTURE... --format json`: one event a line, the answer last.

use std::collections::BTreeSet;

use serde::Serialize;

use super::gradients::{CheckedGradient, checked_gradient, checked_gradients};
use super::hunks::{HunkTold, HunksTold, build_json_hunks};
use super::log::{LogTold, build_json_log};
use super::outputs::{JudgedOutput, judged_outputs};
use super::{
    AccessesTold, CapturedOutputs, build_json_accesses, captured_outputs, revisions_from_commits,
};
use crate::bisect::{
    SearchRequest, SearchedAxis, answer_name, list_searches_before, list_searches_behind,
    observation_line, warning_words,
};
use crate::both::describe_whereabouts;
use crate::gradient_sides::describe_gradient_sides;
use crate::refusal::render_refusal_text;
use crate::{Revision, RunRecord};
use replay_bisect::{
    BisectEnds, Culprit, Direction, Event, GradientSides, Grouped, Mended, Observation,
    SearchReport, Seen, Symptom, TestedPair, Whereabouts,
};
use replay_engine::judge::{LaunchChange, Verdict};
use replay_engine::trial::Status;
use replay_history::Commit;
use replay_search::Conclusion;

/// The version of the events; it grows when a field changes its meaning or goes.
const SCHEMA: &str = "replay-bisect/1";

/// An event of `replay bisect --format json`, one a line; docs/schema.md explains the fields.
#[derive(Serialize, schemars::JsonSchema)]
#[schemars(title = "replay bisect --format json")]
struct SearchEvent<'a> {
    #[schemars(extend("const" = SCHEMA))]
    schema: &'a str,
    #[serde(flatten)]
    event: EventTold<'a>,
}

#[derive(Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "event")]
enum EventTold<'a> {
    /// The search begins: with the ends whose defects are known, `good` and `bad`, or without a claim, `old`
    /// and `new`.
    Begun {
        run: &'a RunRecord,
        fixtures: &'a [String],
        #[serde(flatten)]
        ends: EndsTold,
        /// The axis of environments that is searched along, whose values stand for commits; null for a history.
        axis: Option<&'a SearchedAxis>,
    },
    /// The good side is a snapshot; the search goes back to these commits.
    Recorded { good: &'a str, back_to: Vec<Revision> },
    /// The history was read.
    Planned { commits: usize, candidates: usize, jobs: usize },
    /// A test begins.
    Started { commit: Revision, candidates_left: usize, rounds_left: u32 },
    /// A test has an answer.
    Tested {
        commit: Revision,
        #[schemars(extend("enum" = ["good", "bad", "untestable", "fails otherwise"]))]
        answer: &'a str,
        text: String,
        fixtures: Vec<TestedFixture<'a>>,
        candidates_left: usize,
        rounds_left: u32,
    },
    /// Replays of this commit do not always come out the same: the search starts again, and counts.
    Flaky { commit: Revision },
    /// A test of the culprit's parent with some of the culprit's hunks begins.
    HunksStarted { hunks: usize, of: usize },
    /// It has an answer.
    HunksTested {
        hunks: Vec<HunkTold<'a>>,
        #[schemars(extend("enum" = ["good", "bad", "untestable", "fails otherwise"]))]
        answer: &'a str,
        text: String,
    },
    /// The ends differ in their commit and in their environment, and so do the two mixed pairs, which tell where the change
    /// lies.
    Cornered {
        /// The axis of environments.
        axis: &'a str,
        lies_in: Whereabouts,
        /// The same in a sentence.
        text: String,
        /// The good commit in the good environment.
        good: Box<PairTold<'a>>,
        /// The bad commit in the bad environment.
        bad: Box<PairTold<'a>>,
        /// The bad commit in the good environment.
        code: Box<PairTold<'a>>,
        /// The good commit in the bad environment.
        environment: Box<PairTold<'a>>,
    },
    /// A search begins between a pair of the ends' commits and environments and another that differs in one thing. Its own
    /// answer follows.
    Along {
        /// The axis of environments that is searched along; null for the history.
        axis: Option<&'a str>,
        /// What stays the same: `with` a value of the axis, or `at` a commit.
        place: &'a str,
    },
    /// The answer.
    Concluded {
        tested: usize,
        wanted: &'a BTreeSet<Symptom>,
        flaky: bool,
        direction: Direction,
        /// What the culprit mends, though the search took it for a defect.
        mended: &'a [Mended],
        before: Vec<OtherChange<'a>>,
        behind: Vec<OtherChange<'a>>,
        warnings: Vec<String>,
        captured: Vec<CapturedOutputs<'a>>,
        /// How many variants count as fewer, because they differ in files that no replay opened; null if none do.
        grouped: Option<Grouped>,
        culprit: Option<Box<CulpritTold<'a>>>,
        #[serde(flatten)]
        conclusion: ConclusionTold<'a>,
    },
}

#[derive(Serialize, schemars::JsonSchema)]
#[serde(untagged)]
enum EndsTold {
    Claimed { good: Vec<Revision>, bad: Vec<Revision> },
    Unclaimed { old: Vec<Revision>, new: Vec<Revision> },
}

/// A commit in an environment.
#[derive(Serialize, schemars::JsonSchema)]
struct PairTold<'a> {
    commit: Revision,
    #[schemars(extend("enum" = ["good", "bad", "untestable", "fails otherwise"]))]
    answer: &'a str,
    /// What was seen; null where it was not tested by itself.
    text: Option<String>,
}

fn build_json_pair(pair: &TestedPair) -> Box<PairTold<'static>> {
    Box::new(PairTold {
        commit: pair.commit.clone().into(),
        answer: answer_name(pair.answer),
        text: pair.seen.as_ref().map(observation_line),
    })
}

#[derive(Serialize, schemars::JsonSchema)]
struct TestedFixture<'a> {
    fixture: &'a str,
    verdict: Verdict,
    symptoms: &'a BTreeSet<Symptom>,
    untestable: Option<&'a str>,
}

#[derive(Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "conclusion")]
enum ConclusionTold<'a> {
    /// The culprit is known, and so are its parents.
    Found { unconfirmed_parents: Vec<Option<Revision>> },
    /// Repeated tests point to the culprit.
    Probable { probability: f64 },
    /// Untestable commits hide the culprit, which is one of these.
    Hidden { candidates: Vec<JsonCandidate> },
    /// The history changes more than once.
    NotMonotone {
        commit: Option<Revision>,
        bad_parents: Vec<Option<Revision>>,
        log: Option<Box<LogTold<'a>>>,
    },
    /// The ends do not allow a search.
    Refused { text: String },
}

#[derive(Serialize, schemars::JsonSchema)]
struct JsonCandidate {
    commit: Option<Revision>,
    text: Option<String>,
}

/// A commit before or behind the culprit that changes something too.
#[derive(Serialize, schemars::JsonSchema)]
struct OtherChange<'a> {
    wanted: &'a BTreeSet<Symptom>,
    culprit: Option<CulpritTold<'a>>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct CulpritTold<'a> {
    commit: Option<Revision>,
    fixtures: Vec<CulpritFixture<'a>>,
    accesses: Vec<CulpritAccesses<'a>>,
    /// Its gradients and those of its first parent beside their losses, if the search was for one of them.
    beside_loss: Vec<GradientSidesTold<'a>>,
    launches_changed: &'a [LaunchChange],
    parents: Vec<TestedCommit>,
    acquitted: Vec<TestedCommit>,
    /// Its hunks, and those that carry the defect; null where nobody asked.
    hunks: Option<HunksTold<'a>>,
    diff: &'a str,
}

#[derive(Serialize, schemars::JsonSchema)]
struct CulpritFixture<'a> {
    fixture: &'a str,
    verdict: Verdict,
    symptoms: &'a BTreeSet<Symptom>,
    status: Option<&'a Status>,
    outputs: Option<Vec<JudgedOutput<'a>>>,
    gradients: Vec<CheckedGradient<'a>>,
}

/// A gradient beside its loss on both sides of the culprit.
#[derive(Serialize, schemars::JsonSchema)]
struct GradientSidesTold<'a> {
    fixture: &'a str,
    /// Whether the search was for it.
    wanted: bool,
    /// Whether the culprit leaves the loss as it was.
    keeps_loss: bool,
    /// Both sides in a sentence.
    text: String,
    culprit: CheckedGradient<'a>,
    /// The first parent; null where it cannot be tested.
    parent: Option<CheckedGradient<'a>>,
}

impl<'a> From<&'a GradientSides> for GradientSidesTold<'a> {
    fn from(sides: &'a GradientSides) -> GradientSidesTold<'a> {
        GradientSidesTold {
            fixture: &sides.fixture,
            wanted: sides.is_wanted,
            keeps_loss: sides.keeps_loss,
            text: describe_gradient_sides(sides),
            culprit: checked_gradient(&sides.culprit),
            parent: sides.parent.as_ref().map(checked_gradient),
        }
    }
}

#[derive(Serialize, schemars::JsonSchema)]
struct CulpritAccesses<'a> {
    fixture: &'a str,
    accesses: AccessesTold<'a>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct TestedCommit {
    commit: Option<Revision>,
    verdict: Option<Verdict>,
    text: Option<String>,
}

fn render_event_line(event: EventTold<'_>) -> String {
    let event = SearchEvent { schema: SCHEMA, event };
    serde_json::to_string(&event).expect("values are plain data")
}

/// The first event of a search, as one line.
pub fn render_begin_json(request: &SearchRequest<'_>, run: &RunRecord) -> String {
    let ends = match request.ends {
        BisectEnds::Claimed { good, bad } => EndsTold::Claimed {
            good: revisions_from_commits(good),
            bad: revisions_from_commits(bad),
        },
        BisectEnds::Unclaimed { old, new } => EndsTold::Unclaimed {
            old: revisions_from_commits(old),
            new: revisions_from_commits(new),
        },
    };
    let axis = request.axis.as_ref();
    render_event_line(EventTold::Begun { run, fixtures: &request.fixtures, ends, axis })
}

/// The event that names the recorded snapshots and the commits that the search goes back to, as one
/// line.
pub fn render_recorded_json(snapshots: &str, back_to: &[Commit]) -> String {
    render_event_line(EventTold::Recorded {
        good: snapshots,
        back_to: revisions_from_commits(back_to),
    })
}

/// An event of a search, as one line.
pub fn render_event_json(event: &Event<'_>) -> String {
    render_event_line(match *event {
        Event::Searched { report } => return render_bisect_json(report),
        Event::Cornered { corners } => EventTold::Cornered {
            axis: &corners.axis,
            lies_in: corners.whereabouts(),
            text: describe_whereabouts(corners),
            good: build_json_pair(&corners.good),
            bad: build_json_pair(&corners.bad),
            code: build_json_pair(&corners.code),
            environment: build_json_pair(&corners.environment),
        },
        Event::Along { axis, place } => EventTold::Along { axis, place },
        Event::Planned { commits, candidates, jobs } => {
            EventTold::Planned { commits, candidates, jobs }
        }
        Event::Started { commit, state } => EventTold::Started {
            commit: commit.clone().into(),
            candidates_left: state.candidates,
            rounds_left: state.rounds,
        },
        Event::Tested { commit, answer, seen, state } => EventTold::Tested {
            commit: commit.clone().into(),
            answer: answer_name(answer),
            text: observation_line(seen),
            fixtures: seen.observations.iter().map(tested_fixture).collect(),
            candidates_left: state.candidates,
            rounds_left: state.rounds,
        },
        Event::Flaky { commit } => EventTold::Flaky { commit: commit.clone().into() },
        Event::StartedHunks { hunks, of } => EventTold::HunksStarted { hunks, of },
        Event::TestedHunks { hunks, answer, seen } => EventTold::HunksTested {
            hunks: hunks.iter().copied().map(HunkTold::from).collect(),
            answer: answer_name(answer),
            text: observation_line(seen),
        },
    })
}

fn tested_fixture(observation: &Observation) -> TestedFixture<'_> {
    TestedFixture {
        fixture: &observation.fixture,
        verdict: observation.verdict,
        symptoms: &observation.symptoms,
        untestable: observation.untestable.as_deref(),
    }
}

/// The answer of a search, as one line.
pub fn render_bisect_json(report: &SearchReport) -> String {
    let warnings = report.warnings.iter().map(|warning| warning_words(report, warning).words());
    render_event_line(EventTold::Concluded {
        tested: report.tested.len(),
        wanted: &report.wanted,
        flaky: report.flaky,
        direction: report.direction,
        mended: &report.mended,
        before: list_searches_before(report).into_iter().map(other_change).collect(),
        behind: list_searches_behind(report).into_iter().map(other_change).collect(),
        warnings: warnings.collect(),
        captured: captured_outputs(&report.captured),
        grouped: report.grouped,
        culprit: report.culprit.as_ref().map(|culprit| build_json_culprit(report, culprit).into()),
        conclusion: build_json_conclusion(report),
    })
}

fn other_change(other: &SearchReport) -> OtherChange<'_> {
    let culprit = other.culprit.as_ref().map(|culprit| build_json_culprit(other, culprit));
    OtherChange { wanted: &other.wanted, culprit }
}

fn look_up_revision(report: &SearchReport, commit: u32) -> Option<Revision> {
    report.commit(commit).cloned().map(Revision::from)
}

fn look_up_revisions(report: &SearchReport, commits: &[u32]) -> Vec<Option<Revision>> {
    commits.iter().map(|&commit| look_up_revision(report, commit)).collect()
}

fn build_json_conclusion(report: &SearchReport) -> ConclusionTold<'_> {
    match &report.conclusion {
        Conclusion::Found { unconfirmed_parents, .. } => ConclusionTold::Found {
            unconfirmed_parents: look_up_revisions(report, unconfirmed_parents),
        },
        Conclusion::Probable { probability, .. } => {
            ConclusionTold::Probable { probability: *probability }
        }
        Conclusion::Ambiguous { candidates } => {
            let candidates = candidates.iter().map(|&commit| JsonCandidate {
                commit: look_up_revision(report, commit),
                text: report.test_result(commit).map(observation_line),
            });
            ConclusionTold::Hidden { candidates: candidates.collect() }
        }
        Conclusion::NotMonotone { commit, bad_parents } => ConclusionTold::NotMonotone {
            commit: look_up_revision(report, *commit),
            bad_parents: look_up_revisions(report, bad_parents),
            log: report.log.as_ref().map(|log| Box::new(build_json_log(log))),
        },
        Conclusion::Refused(refusal) => {
            let lines = render_refusal_text(report, refusal).words();
            ConclusionTold::Refused { text: lines.iter().map(|line| format!("{line}\n")).collect() }
        }
    }
}

fn build_json_culprit<'a>(report: &'a SearchReport, culprit: &'a Culprit) -> CulpritTold<'a> {
    let fixtures = culprit.seen.observations.iter().map(|observation| CulpritFixture {
        fixture: &observation.fixture,
        verdict: observation.verdict,
        symptoms: &observation.symptoms,
        status: observation.outcome.as_ref().map(|outcome| &outcome.status),
        outputs: observation.judgement.as_ref().map(judged_outputs),
        gradients: checked_gradients(&observation.gradients),
    });
    let culprit_accesses = culprit.accesses.iter().map(|(fixture, compared_accesses)| {
        CulpritAccesses { fixture, accesses: build_json_accesses(compared_accesses) }
    });
    CulpritTold {
        commit: look_up_revision(report, culprit.commit),
        fixtures: fixtures.collect(),
        accesses: culprit_accesses.collect(),
        beside_loss: culprit.gradients.iter().map(GradientSidesTold::from).collect(),
        launches_changed: &culprit.launches,
        parents: tested_commits(report, &culprit.parents),
        acquitted: tested_commits(report, &culprit.acquitted),
        hunks: report.hunks.as_ref().map(|answer| build_json_hunks(report, answer)),
        diff: &culprit.diff,
    }
}

fn tested_commits(report: &SearchReport, commits: &[u32]) -> Vec<TestedCommit> {
    let tested = commits.iter().map(|&commit| TestedCommit {
        commit: look_up_revision(report, commit),
        verdict: report.test_result(commit).map(Seen::verdict),
        text: report.test_result(commit).map(observation_line),
    });
    tested.collect()
}

#[cfg(test)]
mod tests {
    use super::SearchEvent;
    use crate::schema;

    #[test]
    fn the_schema_is_what_the_types_say() {
        schema::assert_schema_file::<SearchEvent<'_>>("bisect-1");
    }
}
