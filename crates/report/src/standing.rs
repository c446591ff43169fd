//! The standing of one replay, all things considered. It is decided here once; every format and the
//! exit code follow from it.

use std::cmp::Reverse;

use anstyle::Style;

use super::accesses::{describe_access, describe_unchecked_side};
use super::judgement::{
    NON_FINITE, ORDER, describe_order_failure, format_place_phrase, is_fault, order_lines,
    render_gradient_line, verdict_reason,
};
use super::numbers::format_noun_count;
use super::spans::ReportLine;
use super::style::{BOLD, GREEN, RED, YELLOW};
use super::text::describe_failure;
use super::{ReportEntry, known};
use replay_engine::judge::{GradientCheck, GradientVerdict, Judgement, Verdict};
use replay_engine::trial::Status;
use replay_snapshot::SnapshotVerdict;

/// The worst verdict on one replay; ordered from best to worst.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Nothing is wrong; there was nothing to compare with.
    Completed,
    /// The same bits in every comparison.
    Identical,
    /// Other bits, within noise.
    Equivalent,
    /// No snapshot was accepted yet, or the trusted side has no such sources.
    New,
    /// Nothing is known to be wrong, and a check was not made: a gradient was not held against its loss, or an output
    /// within noise has no float64 shadow.
    Unchecked,
    /// It could not be run, or the trusted side could not.
    Untestable,
    /// There is no accepted snapshot where there must be one.
    Missing,
    /// The snapshot is of other content of the fixture.
    Stale,
    /// An output is beyond noise, or depends on the order of blocks and threads; or a gradient does not
    /// match its loss.
    Diverged,
    /// It ran and failed, whatever a comparison says.
    Failed,
}

impl Standing {
    /// All of them, from best to worst.
    pub const ALL: [Standing; 10] = [
        Standing::Completed,
        Standing::Identical,
        Standing::Equivalent,
        Standing::New,
        Standing::Unchecked,
        Standing::Untestable,
        Standing::Missing,
        Standing::Stale,
        Standing::Diverged,
        Standing::Failed,
    ];

    /// The word for it, in every format.
    pub fn name(self) -> &'static str {
        match self {
            Standing::Completed => "completed",
            Standing::Identical => "identical",
            Standing::Equivalent => "equivalent",
            Standing::New => "new",
            Standing::Unchecked => "unchecked",
            Standing::Untestable => "untestable",
            Standing::Missing => "missing",
            Standing::Stale => "stale",
            Standing::Diverged => "diverged",
            Standing::Failed => "failed",
        }
    }

    /// Whether the code under test is at fault.
    pub fn is_wrong(self) -> bool {
        self >= Standing::Diverged
    }

    /// Whether nothing can be said of the code: it could not be run or compared.
    pub fn is_untold(self) -> bool {
        matches!(self, Standing::Untestable | Standing::Missing | Standing::Stale)
    }

    /// How `entry` stands.
    pub fn from_entry(entry: &ReportEntry) -> Standing {
        assess_entry(entry).0
    }

    /// How it is coloured.
    pub(super) fn style(self) -> Style {
        match self {
            _ if self.is_wrong() => RED,
            Standing::New | Standing::Unchecked => YELLOW,
            _ if self.is_untold() => YELLOW,
            _ => GREEN,
        }
    }
}

impl From<Verdict> for Standing {
    fn from(verdict: Verdict) -> Standing {
        match verdict {
            Verdict::Identical => Standing::Identical,
            Verdict::Equivalent => Standing::Equivalent,
            Verdict::Unchecked => Standing::Unchecked,
            Verdict::Unknown | Verdict::Untestable => Standing::Untestable,
            Verdict::Diverged => Standing::Diverged,
            Verdict::Failed => Standing::Failed,
        }
    }
}

impl From<SnapshotVerdict> for Standing {
    fn from(verdict: SnapshotVerdict) -> Standing {
        match verdict {
            SnapshotVerdict::Matches => Standing::Identical,
            SnapshotVerdict::Equivalent => Standing::Equivalent,
            SnapshotVerdict::Unchecked => Standing::Unchecked,
            SnapshotVerdict::New => Standing::New,
            SnapshotVerdict::Missing => Standing::Missing,
            SnapshotVerdict::Stale => Standing::Stale,
            SnapshotVerdict::Diverged => Standing::Diverged,
        }
    }
}

/// One finding on a replay.
struct Point {
    standing: Standing,
    /// The reason, as it follows the word of the standing.
    sentence: String,
    /// The reason by itself, with its details.
    reasons: Vec<String>,
}

impl Point {
    fn new(standing: Standing, sentence: String) -> Point {
        let reasons = vec![format!("{}: {sentence}", standing.name())];
        Point { standing, sentence, reasons }
    }
}

/// The worst standing of `entry`, and every finding on it, the replay's own first.
fn assess_entry(entry: &ReportEntry) -> (Standing, Vec<Point>) {
    let mut points = vec![assess_replay(entry)];
    points.extend(assess_comparison(entry));
    if let Some(check) = &entry.snapshot {
        let comparison = &check.comparison;
        let standing = comparison.verdict.into();
        let sentence = match comparison.reasons().as_slice() {
            [] => "the same bits as the snapshot".to_owned(),
            [only] => only.clone(),
            [first, other_reasons @ ..] => format!("{first}; and {} more", other_reasons.len()),
        };
        let reasons = vec![format!("snapshot {}", comparison.sentence())];
        points.push(Point { standing, sentence, reasons });
    }
    if let Some(verdict) = entry.oracle.iter().map(|check| check.verdict).max() {
        let sentence = known::oracle_sentence(&entry.oracle, verdict);
        let mut point = Point::new(verdict.into(), sentence);
        point.reasons.extend(known::list_diverged_places(&entry.oracle));
        points.push(point);
    }
    let mut wrong: Vec<&GradientCheck> = entry.gradients.iter().filter(|g| is_wrong(g)).collect();
    wrong.sort_by_key(|check| Reverse(check.story.verdict()));
    points.extend(wrong.into_iter().map(|check| {
        let what = match check.story.verdict() {
            GradientVerdict::Mismatch => "does not match its loss",
            GradientVerdict::Matches
            | GradientVerdict::Agrees
            | GradientVerdict::Unknown
            | GradientVerdict::Imprecise => "is less precise than its noise allows",
        };
        let sentence = format!("{} {what}", check.output);
        let reasons = vec![format!("{} {}", check.output, render_gradient_line(check).words())];
        Point { standing: Standing::Diverged, sentence, reasons }
    }));
    points.extend(entry.orders.dependences.iter().map(|dependence| {
        let [summary, place] = order_lines(dependence).map(|line| line.words());
        let reasons = vec![format!("{} {summary}: {place}", dependence.output)];
        let sentence = format!("{} {ORDER}", dependence.output);
        Point { standing: Standing::Diverged, sentence, reasons }
    }));
    let failure = entry.orders.failure.as_ref();
    points.extend(
        failure
            .filter(|failure| is_fault(failure))
            .map(|failure| Point::new(Standing::Diverged, describe_order_failure(failure))),
    );
    let accesses = entry.accesses.iter().flat_map(|entry_accesses| entry_accesses.failures());
    points.extend(accesses.map(|finding| {
        let sentence = describe_access(finding);
        Point { standing: Standing::Failed, reasons: vec![sentence.clone()], sentence }
    }));
    if let Some(reason) = &entry.base_lacks {
        // New sources are judged by themselves.
        let own_words = find_worst(&points).map_or(String::new(), |point| {
            format!("; by itself {}: {}", point.standing.name(), point.sentence)
        });
        let sentence = format!("the base has no such sources{own_words}");
        let mut point = Point::new(Standing::New, sentence);
        point.reasons.push(reason.clone());
        points.push(point);
    }
    points.extend(assess_unchecked_gradients(entry, &points));
    let worst = find_worst(&points).map_or(Standing::Completed, |point| point.standing);
    (worst, points)
}

/// The first of the worst of `points`.
fn find_worst(points: &[Point]) -> Option<&Point> {
    let worst = points.iter().map(|point| point.standing).max()?;
    points.iter().find(|point| point.standing == worst)
}

/// The finding that gradients were not held against their loss, though the replay completed, beside the other `points`.
fn assess_unchecked_gradients(entry: &ReportEntry, points: &[Point]) -> Option<Point> {
    let unchecked = list_unchecked_gradients(&entry.gradients);
    let mut names: Vec<&str> = unchecked.map(|check| check.output.as_str()).collect();
    let mut how = "not checked";
    // The checks left out tell their reasons.
    let mut reasons = Vec::new();
    if names.is_empty() {
        let weaker: Vec<&GradientCheck> = list_weakly_checked_gradients(&entry.gradients).collect();
        names = weaker.iter().map(|check| check.output.as_str()).collect();
        let lines = weaker
            .iter()
            .map(|check| format!("{} {}", check.output, render_gradient_line(check).words()));
        reasons = lines.collect();
        how = "checked by differences of the native loss alone";
    }
    if names.is_empty() || matches!(entry.outcome.status, Status::Failed(_)) {
        return None;
    }
    let worst = find_worst(points)?;
    let gradients = if names.len() == 1 { "gradient" } else { "gradients" };
    let sentence = format!(
        "{gradients} {} {how}; otherwise {}: {}",
        names.join(", "),
        worst.standing.name(),
        worst.sentence
    );
    Some(Point { standing: Standing::Unchecked, sentence, reasons })
}

/// The gradients that were not held against their loss.
pub(super) fn list_unchecked_gradients(
    checks: &[GradientCheck],
) -> impl Iterator<Item = &GradientCheck> {
    checks.iter().filter(|check| check.story.verdict() == GradientVerdict::Unknown)
}

/// The gradients that were held against differences of the native loss alone.
pub(super) fn list_weakly_checked_gradients(
    checks: &[GradientCheck],
) -> impl Iterator<Item = &GradientCheck> {
    checks.iter().filter(|check| check.story.verdict() == GradientVerdict::Agrees)
}

/// The finding of the replay by itself.
fn assess_replay(entry: &ReportEntry) -> Point {
    match &entry.outcome.status {
        _ if is_non_finite_on_both(entry) => Point {
            standing: Standing::Completed,
            sentence: NON_FINITE.to_owned(),
            reasons: Vec::new(),
        },
        Status::Completed => Point {
            standing: Standing::Completed,
            sentence: describe_completion(entry),
            reasons: Vec::new(),
        },
        Status::Failed(failures) => {
            let mut reasons: Vec<String> = failures.iter().map(describe_failure).collect();
            // A file may hold a failure without a word on it; it is a failure all the same.
            if reasons.is_empty() {
                reasons.push("no reason is known".to_owned());
            }
            Point { standing: Standing::Failed, sentence: reasons[0].clone(), reasons }
        }
        Status::Untestable { reason, causes, .. } => {
            let reasons = [reason].into_iter().chain(causes).cloned().collect();
            Point { standing: Standing::Untestable, sentence: reason.clone(), reasons }
        }
    }
}

/// Whether its only failure is that of the trusted side: non-finite values.
pub(super) fn is_non_finite_on_both(entry: &ReportEntry) -> bool {
    entry.judgement.as_ref().is_some_and(Judgement::is_non_finite_on_both)
}

/// The words for outputs with permitted NaN or infinity.
const NOT_ALL_FINITE: &str = "not all finite, as inputs or harness allow";

fn describe_completion(entry: &ReportEntry) -> String {
    let outputs = &entry.outcome.outputs;
    let all_finite = outputs.iter().all(|o| o.summary.nan + o.summary.inf == 0);
    let hidden: Vec<&str> = outputs
        .iter()
        .filter(|output| !output.shows_unwritten)
        .map(|output| output.name.as_str())
        .collect();
    let finite_words = if all_finite { "all are finite" } else { NOT_ALL_FINITE };
    let written_words = match hidden.len() {
        0 if all_finite => "every output is written and finite".to_owned(),
        0 => format!("every output is written, {NOT_ALL_FINITE}"),
        count if count < outputs.len() => {
            let names = hidden.join(", ");
            format!(
                "every output but {names}, which `init` fills, is known to be written; {finite_words}"
            )
        }
        _ if all_finite => "every output is finite; unwritten elements do not show".to_owned(),
        _ => format!("unwritten elements do not show, {NOT_ALL_FINITE}"),
    };
    let more_sentences =
        [describe_matching_gradients(&entry.gradients), known::captured_sentence(&entry.captured)];
    more_sentences
        .into_iter()
        .flatten()
        .fold(written_words, |words, sentence| format!("{words}; {sentence}"))
}

/// Which gradients match, if there are any.
fn describe_matching_gradients(checks: &[GradientCheck]) -> Option<String> {
    let is_match = |check: &&GradientCheck| check.story.verdict() == GradientVerdict::Matches;
    let names: Vec<&str> =
        checks.iter().filter(is_match).map(|check| check.output.as_str()).collect();
    match names.as_slice() {
        [] => None,
        [name] => Some(format!("{name} matches its loss")),
        names => Some(format!("{} match their loss", names.join(", "))),
    }
}

/// The finding of the comparison with a trusted revision.
fn assess_comparison(entry: &ReportEntry) -> Option<Point> {
    let judgement = entry.judgement.as_ref()?;
    let mut point = Point::new(judgement.verdict.into(), verdict_reason(judgement));
    let status_tells =
        matches!(entry.outcome.status, Status::Failed(_) | Status::Untestable { .. });
    if status_tells && !judgement.is_non_finite_on_both() {
        // The replay itself has said it.
        point.reasons.clear();
    }
    let places = judgement.outputs.iter().filter_map(|output| {
        output.place.as_ref().map(|place| format!("{} {}", output.name, format_place_phrase(place)))
    });
    point.reasons.extend(places);
    Some(point)
}

pub(super) fn is_wrong(check: &GradientCheck) -> bool {
    check.story.verdict() >= GradientVerdict::Imprecise
}

/// The standing of `entry` and its reason in a line. The word for the standing comes first.
pub(super) fn render_entry_verdict(entry: &ReportEntry) -> ReportLine {
    let (worst, points) = assess_entry(entry);
    let reason_words =
        find_worst(&points).map_or(String::new(), |point| format!(": {}", point.sentence));
    ReportLine::with_style(worst.style(), worst.name()).and(reason_words)
}

/// Why `entry` stands as it does, the worst first.
pub(crate) fn list_standing_reasons(entry: &ReportEntry) -> Vec<String> {
    let (_, mut points) = assess_entry(entry);
    points.retain(|point| point.standing > Standing::Identical);
    points.sort_by_key(|point| Reverse(point.standing));
    let blamed = entry.culprit.iter().flat_map(|culprit| {
        let other_blames =
            culprit.outputs.iter().filter(|output_blame| output_blame.text != culprit.text);
        let other_texts = other_blames
            .map(|output_blame| format!("{}: {}", output_blame.output, output_blame.text));
        std::iter::once(culprit.text.clone()).chain(other_texts)
    });
    points.into_iter().flat_map(|point| point.reasons).chain(blamed).collect()
}

/// The checks left out on `entry`, and why: silence would pass for a check.
pub(super) fn list_missing_checks(entry: &ReportEntry) -> Vec<String> {
    let mut lines: Vec<String> = list_unchecked_gradients(&entry.gradients)
        .map(|check| format!("{}: {}", check.output, check.story.reason().unwrap_or_default()))
        .collect();
    lines.extend(entry.accesses.as_ref().and_then(describe_unchecked_side));
    let failure = entry.orders.failure.as_ref().filter(|failure| !is_fault(failure));
    lines.extend(failure.map(describe_order_failure));
    if let Some(judgement) = &entry.judgement {
        let reason = judgement.without_shadow.iter();
        lines.extend(reason.map(|reason| format!("wrong is not told from imprecise: {reason}")));
        let undecided = judgement.outputs.iter().filter(|output| output.comparison.undecided > 0);
        lines.extend(undecided.map(|output| {
            let elements = format_noun_count(output.comparison.undecided, "element");
            format!("{}: {elements} undecided, whose noise is infinite", output.name)
        }));
    }
    lines
}

/// The title of the entry where several stand side by side.
pub(super) fn format_entry_title(entry: &ReportEntry) -> String {
    format_title(&entry.fixture, entry)
}

/// The same with `name` in the place of the fixture's.
pub(super) fn format_title(name: &str, entry: &ReportEntry) -> String {
    let revision = entry.revision.as_ref().map_or("working tree", |revision| &revision.short);
    let trusted = entry.trusted.as_ref();
    let trusted = trusted.map_or(String::new(), |trusted| format!(" against {}", trusted.short));
    format!("{name} at {revision}{trusted} on {}", entry.outcome.device)
}

/// `1 failed, 2 identical`: how many stand how, the worst first; `refused_count` could not be replayed.
pub(crate) fn tally_standings(
    standings: impl IntoIterator<Item = Standing>,
    refused_count: usize,
) -> String {
    let standings: Vec<Standing> = standings.into_iter().collect();
    let mut counts = Vec::new();
    if refused_count > 0 {
        counts.push(format!("{refused_count} not replayed"));
    }
    for standing in Standing::ALL.iter().rev() {
        let count = standings.iter().filter(|candidate| *candidate == standing).count();
        if count > 0 {
            counts.push(format!("{count} {}", standing.name()));
        }
    }
    if counts.is_empty() { "nothing was replayed".to_owned() } else { counts.join(", ") }
}

/// `3 fixtures: 1 diverged, 2 equivalent`: the last line of a report on several fixtures; none for
/// one.
pub fn render_fixtures_tally(standings: &[Standing], refused_count: usize) -> Option<ReportLine> {
    let fixture_count = standings.len() + refused_count;
    let words = tally_standings(standings.iter().copied(), refused_count);
    (fixture_count > 1).then(|| {
        ReportLine::with_style(BOLD, format!("{fixture_count} fixtures")).and(format!(": {words}"))
    })
}
