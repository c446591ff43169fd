//! The answer of a search, for people.

use anstyle::Style;

use super::accesses::{access_lines, name_access_fault};
use super::captured_by::captured_lines;
use super::changes;
use super::gradient_sides::describe_gradient_sides;
use super::hunks::{describe_hunks, render_hunk_code};
use super::judgement::{
    ORDER, describe_launch_change, more_accurate, output_lines, render_gradient_line, verdict_line,
    verdict_name, verdict_style,
};
use super::numbers::{format_noun_count, format_short_number};
use super::refusal::{Claim, join_report_lines, refusal_words, render_refusal_text};
use super::spans::{ReportLine, Text};
use super::standing::is_wrong;
use super::style::{BOLD, COMMIT, DIM, GREEN, RED, YELLOW};
use super::text::describe_failure;
use super::{Blame, Revision};
use replay_bisect::{
    Behind, BisectEnds, Culprit, Direction, GoodEnds, Grouped, Mended, MendedBy, Observation,
    SearchReport, Seen, Symptom, Tested,
};
use replay_engine::judge::{GradientCheck, GradientVerdict, Judgement, Verdict};
use replay_engine::trial::{Outcome, Status};
use replay_history::Commit;
use replay_search::{Conclusion, TestAnswer, Warning};

/// The words for ends with a difference and no sign of the right one.
pub(super) const UNCLAIMED: &str = "which side is right is not known";

/// The good side of a search with a snapshot.
pub struct Origin {
    /// The snapshot files.
    pub snapshot: String,
    /// The oldest commits of the search, and the reason.
    pub back_to: String,
}

/// The request for a search.
pub struct SearchRequest<'a> {
    /// The names of the fixtures.
    pub fixtures: Vec<String>,
    /// The ends of the search.
    pub ends: &'a BisectEnds,
    /// Its beginning, if this is a snapshot.
    pub origin: Option<Origin>,
    /// The axis of environments that it goes along; none for a history.
    pub axis: Option<SearchedAxis>,
}

/// An axis of environments at one revision.
#[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
pub struct SearchedAxis {
    /// Its name in `[axes]` of the harness.
    pub name: String,
    /// Where the sources come from: `in the working tree`, or `at` a commit.
    pub place: String,
}

impl SearchRequest<'_> {
    /// The fixtures and the ends, such as `step0, good 37707d4, bad 61b3d97`.
    pub fn line(&self) -> ReportLine {
        let sides = match self.ends {
            BisectEnds::Claimed { good, bad } => [("good", good), ("bad", bad)],
            BisectEnds::Unclaimed { old, new } => [("old", old), ("new", new)],
        };
        let mut line = ReportLine::with_style(BOLD, self.fixtures.join(", "));
        if let Some(axis) = &self.axis {
            line = line.and(format!(" {}", axis.place));
        }
        for (side, commits) in sides {
            line = line.and(format!(", {side}"));
            for commit in commits {
                line = line.and(" ").styled(COMMIT, &commit.short);
            }
        }
        line
    }
}

/// The word for an answer.
pub(crate) fn answer_name(answer: TestAnswer) -> &'static str {
    match answer {
        TestAnswer::Good => "good",
        TestAnswer::Bad => "bad",
        TestAnswer::Skip => "untestable",
        TestAnswer::Other => "fails otherwise",
    }
}

/// The result of a test, in a line.
pub(crate) fn observation_line(test_result: &Seen) -> String {
    let observations = &test_result.observations;
    let mut descriptions = Vec::new();
    for observation in observations {
        let words = describe_observation(observation);
        descriptions.push(match observations.len() {
            1 => words,
            _ => format!("{}: {words}", observation.fixture),
        });
    }
    descriptions.join("; ")
}

/// The result on one fixture, with a defect of both this commit and the good end.
fn describe_observation(observation: &Observation) -> String {
    let outcome_words = observation_words(observation);
    let order = observation.ordered_alike.first().map(|output| format!("{output} {ORDER}"));
    match order.or_else(|| observation.accesses_alike().next().map(name_access_fault)) {
        Some(shared_defect) => {
            format!("{outcome_words}; {shared_defect}, as at {}", observation.good_side)
        }
        None => outcome_words,
    }
}

fn observation_words(observation: &Observation) -> String {
    if let Some(reason) = &observation.untestable {
        return format!("untestable: {reason}");
    }
    let status = observation.outcome.as_ref().map(|outcome| &outcome.status);
    if let (Some(Status::Failed(failures)), Verdict::Failed) = (status, observation.verdict) {
        return format!("failed: {}", failures.first().map(describe_failure).unwrap_or_default());
    }
    if let Some(comparison) = &observation.recorded {
        return comparison.sentence();
    }
    match &observation.judgement {
        Some(judgement) => verdict_line(judgement).words(),
        None if observation.symptoms.is_empty()
            && observation.verdict == Verdict::Equivalent
            && !observation.compared =>
        {
            not_compared(observation)
        }
        None if observation.symptoms.is_empty() => verdict_name(observation.verdict).to_owned(),
        None => {
            let symptoms: Vec<String> =
                observation.symptoms.iter().map(ToString::to_string).collect();
            symptoms.join(", ")
        }
    }
}

/// The words for an innocent commit without compared values.
fn not_compared(observation: &Observation) -> String {
    match &observation.accesses {
        Some(accesses) if !accesses.has_failures() => "completed, without a new race".to_owned(),
        _ if observation.gradients.is_empty() => "completed".to_owned(),
        _ => gradients_words(&observation.gradients),
    }
}

/// The words for gradients without a wrong one: `grad matches its loss`.
fn gradients_words(checks: &[GradientCheck]) -> String {
    let words = checks.iter().map(|check| match check.story.verdict() {
        GradientVerdict::Unknown => format!("{} is not checked", check.output),
        GradientVerdict::Agrees => {
            format!("{} agrees with differences of its loss", check.output)
        }
        GradientVerdict::Matches | GradientVerdict::Imprecise | GradientVerdict::Mismatch => {
            format!("{} matches its loss", check.output)
        }
    });
    words.collect::<Vec<_>>().join(", ")
}

/// An answered test, in a line.
pub fn tested_line(commit: &Commit, answer: TestAnswer, test_result: &Seen) -> ReportLine {
    let words = match (answer, test_result.observations.as_slice()) {
        // The answer already calls it untestable.
        (TestAnswer::Skip, [Observation { untestable: Some(reason), .. }]) => reason.clone(),
        _ => observation_line(test_result),
    };
    render_answer(commit, answer).and(format!(": {words}"))
}

/// The answer of a test whose details are elsewhere.
pub fn answered_line(commit: &Commit, answer: TestAnswer) -> ReportLine {
    render_answer(commit, answer).and(format!(": {}", commit.subject))
}

pub(super) fn render_answer(commit: &Commit, answer: TestAnswer) -> ReportLine {
    let style = match answer {
        TestAnswer::Good => GREEN,
        TestAnswer::Bad => RED,
        TestAnswer::Skip | TestAnswer::Other => YELLOW,
    };
    ReportLine::with_style(COMMIT, &commit.short).and(" ").styled(style, answer_name(answer))
}

/// The short answer of a search whose ends are the two sides of a comparison.
pub fn assign_blame(report: &SearchReport) -> Blame {
    let commit = report.culprit.as_ref().and_then(|culprit| report.commit(culprit.commit));
    let commit = commit.cloned().map(Revision::from);
    let text = match &report.conclusion {
        Conclusion::Refused(refusal) => {
            let (refusal_lines, _) = refusal_words(report, refusal, Claim::Compared);
            let refusal_texts: Vec<String> = refusal_lines.iter().map(ReportLine::words).collect();
            format!("no commit can be named: {}", refusal_texts.join("; "))
        }
        Conclusion::Ambiguous { candidates } => {
            let commits = join_report_lines(
                candidates.iter().map(|&candidate| render_commit_name(report, candidate)),
            );
            let hints: Vec<String> =
                hidden_hints(report, candidates).iter().map(ReportLine::words).collect();
            let listed = format!("{}: {}", render_search_headline(report).words(), commits.words());
            [&[listed], hints.as_slice()].concat().join("; ")
        }
        _ => render_search_headline(report).words(),
    };
    Blame { commit, text, outputs: Vec::new(), lineage: report.lineage.clone() }
}

/// The answer in a line; for a refusal without the reason.
pub(super) fn render_search_headline(report: &SearchReport) -> ReportLine {
    match (&report.conclusion, &report.culprit) {
        (_, Some(culprit)) => match report.commit(culprit.commit) {
            Some(commit) => {
                let [verb, object] = describe_culprit_effect(report);
                let line = ReportLine::with_style(COMMIT, &commit.short).and(format!(" {verb} "));
                line.styled(BOLD, object).and(format!(": {}", commit.subject))
            }
            None => "found".into(),
        },
        (Conclusion::Ambiguous { candidates }, None) => {
            let has_axis = report.axis.is_some();
            let obstacle = match other_than_wanted(report, candidates) {
                Some(_) if has_axis => "environments that are neither good nor bad hide",
                Some(_) => "commits that are neither good nor bad hide",
                None if has_axis => "untestable environments hide",
                None => "untestable commits hide",
            };
            let sought_commit = match report.direction {
                Direction::Breaks => name_first_bad(report),
                Direction::Repairs => "the repair",
                Direction::Changes => "the change",
            };
            ReportLine::from(format!("{obstacle} {sought_commit}; it is "))
                .styled(BOLD, format!("one of these {}", candidates.len()))
        }
        (Conclusion::NotMonotone { .. }, None) => {
            let turns = match report.direction {
                Direction::Breaks => "good turns bad",
                Direction::Repairs => "bad turns good",
                Direction::Changes => "old turns new",
            };
            let alternation = format!(": {turns} more than once between the ends");
            ReportLine::with_style(BOLD, "no single commit is to blame").and(alternation)
        }
        (Conclusion::Refused(_), None) => ReportLine::with_style(RED, "refused"),
        _ => "nothing was found".into(),
    }
}

/// The effect of the culprit: `is`, `the first bad commit`; or `repairs`, `loss, grad`.
pub(super) fn describe_culprit_effect(report: &SearchReport) -> [String; 2] {
    if !report.mended.is_empty() {
        let mut names: Vec<&str> = report.mended.iter().map(|mended| &*mended.output).collect();
        names.dedup();
        return ["repairs".to_owned(), names.join(", ")];
    }
    match report.direction {
        Direction::Breaks => ["is".to_owned(), name_first_bad(report).to_owned()],
        Direction::Repairs => ["repairs".to_owned(), join_wanted_names(report)],
        Direction::Changes => ["changes".to_owned(), join_wanted_names(report)],
    }
}

/// The culprit of a search for a defect.
fn name_first_bad(report: &SearchReport) -> &'static str {
    match report.axis {
        Some(_) => "the first bad one",
        None => "the first bad commit",
    }
}

/// What the parents of the culprit are to it.
pub(super) fn name_parent(report: &SearchReport) -> &'static str {
    match report.axis {
        Some(_) => ", the one before it,",
        None => ", its parent,",
    }
}

/// The outputs searched for, and symptoms of no output.
pub(super) fn join_wanted_names(report: &SearchReport) -> String {
    let mut names: Vec<String> = Vec::new();
    for symptom in &report.wanted {
        let name = symptom.output().map_or_else(|| symptom.to_string(), str::to_owned);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

/// The whole answer.
pub fn render_bisect_text(report: &SearchReport) -> Text {
    let mut out = Text::new();
    match (&report.conclusion, &report.culprit) {
        (Conclusion::Found { unconfirmed_parents, .. }, Some(culprit)) => {
            write_conviction(&mut out, report, culprit, None);
            for &parent in unconfirmed_parents {
                let parent_note = " could not be tested, and is good only if every defect stays";
                out.line(
                    ReportLine::from("  its parent ")
                        .and(render_commit_name(report, parent))
                        .and(parent_note),
                );
            }
            write_culprit_context(&mut out, report, culprit);
        }
        (Conclusion::Probable { probability, .. }, Some(culprit)) => {
            write_conviction(&mut out, report, culprit, Some(*probability));
            write_culprit_context(&mut out, report, culprit);
        }
        (Conclusion::Ambiguous { candidates }, _) => {
            write_hidden_candidates(&mut out, report, candidates)
        }
        (Conclusion::NotMonotone { commit, bad_parents }, _) => {
            not_monotone(&mut out, report, *commit, bad_parents);
        }
        (Conclusion::Refused(refusal), _) => out.append(render_refusal_text(report, refusal)),
        _ => out.line(render_search_headline(report)),
    }
    render_search_warnings(report).for_each(|line| out.line(line));
    out
}

/// A line for each warning, for each note of a program, and on the commits with the captured outputs.
pub(super) fn render_search_warnings(report: &SearchReport) -> impl Iterator<Item = ReportLine> {
    let warned =
        report.warnings.iter().map(|warning| begin_note().and(warning_words(report, warning)));
    let last = list_searches_behind(report).into_iter().last().unwrap_or(report);
    let unclear = match &last.behind {
        Behind::Unclear { bad } => {
            let unclear_note =
                " shows more than that: further commits behind it are not told apart";
            Some(begin_note().styled(COMMIT, &bad.short).and(unclear_note))
        }
        Behind::Nothing | Behind::Another(_) => None,
    };
    let grouped = report.grouped.map(|Grouped { variants, groups }| {
        format!(
            "of {variants} variants, {groups} differ in a name or in a file that a replay opened"
        )
    });
    let captured = captured_lines(&report.captured).into_iter().chain(grouped);
    let noted = collect_program_notes(report).into_iter().map(str::to_owned).chain(captured);
    warned.chain(unclear).chain(noted.map(|note| begin_note().and(note)))
}

fn begin_note() -> ReportLine {
    ReportLine::with_style(YELLOW, "note:").and(" ")
}

/// The notes of programs on the tested commits, each line once.
fn collect_program_notes(report: &SearchReport) -> Vec<&str> {
    let test_results = report.tested.iter().filter_map(|tested| report.test_result(tested.commit));
    let outcomes = test_results
        .flat_map(|test_result| &test_result.observations)
        .filter_map(|observation| observation.outcome.as_ref());
    let mut notes: Vec<&str> = Vec::new();
    for note in outcomes.flat_map(Outcome::notes) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

impl Origin {
    /// The line below the answer.
    pub fn line(&self) -> ReportLine {
        format!("good is {}; searched back to {}", self.snapshot, self.back_to).into()
    }
}

fn write_conviction(
    out: &mut Text,
    report: &SearchReport,
    culprit: &Culprit,
    probability: Option<f64>,
) {
    out.line(render_search_headline(report));
    if let Some(probability) = probability {
        let tests = format_noun_count(report.tested.len() as u64, "test");
        let percent = (100.0 * probability).min(99.99);
        out.line(format!(
            "  with a probability of {percent:.2} %, after {tests} whose verdicts are not always \
             the same"
        ));
    }
    for line in list_comparison_lines(report) {
        out.line(format!("  {line}"));
    }
    evidence_by_fixture(out, &culprit.seen);
    let several = culprit.seen.observations.len() > 1;
    for (fixture, accesses) in &culprit.accesses {
        if several && !access_lines(accesses).is_empty() {
            out.line(ReportLine::from("  ").styled(BOLD, fixture));
        }
        for line in access_lines(accesses) {
            out.line(ReportLine::from("  ").and(line));
        }
    }
}

/// The truth about both sides of the culprit: what it mends, and the gradients beside their losses that were searched for
/// or that it breaks.
pub(super) fn list_truth_lines(report: &SearchReport) -> Vec<String> {
    let mut lines: Vec<String> = report.mended.iter().map(describe_mended).collect();
    let Some(culprit) = &report.culprit else { return lines };
    let several = culprit.seen.observations.len() > 1;
    for sides in &culprit.gradients {
        let is_told = report
            .mended
            .iter()
            .any(|mended| mended.fixture == sides.fixture && mended.output == sides.culprit.output);
        let is_of_interest = sides.is_wanted || sides.are_broken();
        if !is_of_interest || is_told {
            continue;
        }
        let sentence = describe_gradient_sides(sides);
        lines.push(if several { format!("{}: {sentence}", sides.fixture) } else { sentence });
    }
    lines
}

/// The truth about the culprit, and the sides of the comparison below its line.
pub(super) fn list_comparison_lines(report: &SearchReport) -> Vec<String> {
    let mut lines = list_truth_lines(report);
    let is_mended = !report.mended.is_empty();
    match report.direction {
        Direction::Breaks if is_mended && report.good_ends == Some(GoodEnds::Parent) => {
            lines.push("compared with the parent:".to_owned());
        }
        Direction::Breaks if is_mended => lines.push("compared with the good end:".to_owned()),
        Direction::Breaks => {}
        Direction::Repairs => lines.push("before it, compared with the good end:".to_owned()),
        Direction::Changes if is_mended => lines.push("compared with the old end:".to_owned()),
        Direction::Changes => lines.push(format!("{UNCLAIMED}; compared with the old end:")),
    }
    lines
}

/// `dx matches its loss, and does not before it`.
fn describe_mended(mended: &Mended) -> String {
    let output = &mended.output;
    match mended.by {
        MendedBy::Loss => format!("{output} matches its loss, and does not before it"),
        MendedBy::Accuracy { before, after } => {
            let [before, after] = [before, after].map(|error| format_short_number(error, 2));
            format!("{output} errs by rel. {after}, and by rel. {before} before it")
        }
    }
}

/// Adds the evidence against a commit, below the name of each fixture where there are several.
fn evidence_by_fixture(out: &mut Text, seen: &Seen) {
    let several = seen.observations.len() > 1;
    for observation in &seen.observations {
        let mut lines = Text::new();
        write_evidence(&mut lines, observation);
        if several {
            let name = ReportLine::from("  ").styled(BOLD, &observation.fixture);
            out.line(if lines.is_empty() {
                name.and(": ").and(observation_words(observation))
            } else {
                name
            });
        }
        out.append(lines);
    }
}

/// Adds the evidence of one fixture against the culprit.
fn write_evidence(out: &mut Text, observation: &Observation) {
    let wrong = observation.gradients.iter().filter(|check| is_wrong(check));
    let wrong: Vec<&GradientCheck> = wrong.collect();
    if !wrong.is_empty() {
        for check in wrong {
            let name = ReportLine::from("  ").styled(BOLD, &check.output);
            out.line(name.and(" ").and(render_gradient_line(check)));
        }
        return;
    }
    match &observation.judgement {
        Some(judgement) if !judgement.outputs.is_empty() => {
            write_judged_outputs(out, observation, judgement)
        }
        _ => out.line(
            ReportLine::from("  ")
                .styled(verdict_style(observation.verdict), observation_words(observation)),
        ),
    }
}

/// Adds the failures in `judgement`, and its outputs beyond noise or among the symptoms of `observation`.
fn write_judged_outputs(out: &mut Text, observation: &Observation, judgement: &Judgement) {
    if let Status::Failed(failures) = &judgement.got.status
        && !judgement.is_non_finite_on_both()
    {
        for run_failure in failures {
            out.line(
                ReportLine::from("  ")
                    .styled(RED, "failed")
                    .and(format!(": {}", describe_failure(run_failure))),
            );
        }
    }
    let symptom_outputs: Vec<&str> =
        observation.symptoms.iter().filter_map(Symptom::output).collect();
    for output in &judgement.outputs {
        let is_symptom = symptom_outputs.contains(&output.name.as_str());
        if output.story.verdict() != Verdict::Diverged && !is_symptom {
            continue;
        }
        let width = output.name.chars().count();
        for (number, line) in output_lines(output).into_iter().enumerate() {
            let name = if number == 0 { output.name.as_str() } else { "" };
            out.line(ReportLine::from("  ").column(BOLD, name, width).and(" ").and(line));
        }
    }
}

fn write_culprit_context(out: &mut Text, report: &SearchReport, culprit: &Culprit) {
    for &parent in &culprit.parents {
        if let (Some(test_result), Some(commit)) =
            (report.test_result(parent), report.commit(parent))
        {
            let relation = name_parent(report);
            let words = format!("{relation} was tested: {}", describe_acquittal(test_result));
            out.line(ReportLine::from("  ").styled(COMMIT, &commit.short).and(words));
        }
    }
    for &innocent in &culprit.acquitted {
        if let (Some(test_result), Some(commit)) =
            (report.test_result(innocent), report.commit(innocent))
            && !culprit.parents.contains(&innocent)
        {
            let words = format!(" was tested: {} ", describe_acquittal(test_result));
            let name = ReportLine::from("  ").styled(COMMIT, &commit.short);
            out.line(name.and(words).styled(DIM, format!("({})", commit.subject)));
        }
    }
    for change in &culprit.launches {
        out.line(format!("  {}", describe_launch_change(change)));
    }
    for (place, other) in other_changes(report) {
        out.line(ReportLine::from("  ").and(other_change_line(place, other)));
        let Some(another) = &other.culprit else { continue };
        evidence_by_fixture(out, &another.seen);
    }
    for line in describe_hunks(report) {
        out.line(ReportLine::from("  ").and(line));
    }
    out.append(render_hunk_code(report));
    if !culprit.diff.is_empty() {
        out.line(ReportLine::new());
        out.append(colour_diff(&culprit.diff));
        let hunks = count_hunks(&culprit.diff);
        if hunks > 1 && report.hunks.is_none() && report.axis.is_none() {
            out.line(ReportLine::new());
            out.line(format!("hint: --hunks finds which of these {hunks} hunks carry it"));
        }
    }
}

/// The number of runs of changed lines in `diff`: hunks without lines around them.
fn count_hunks(diff: &str) -> usize {
    let is_header = |line: &str| line.starts_with("+++ ") || line.starts_with("--- ");
    let is_changed = |line: &str| line.starts_with(['+', '-']) && !is_header(line);
    let is_remark = |line: &str| line.starts_with('\\');
    let lines: Vec<&str> = diff.lines().filter(|line| !is_remark(line)).collect();
    let ends = lines.windows(2).filter(|pair| is_changed(pair[0]) && !is_changed(pair[1])).count();
    ends + usize::from(lines.last().is_some_and(|line| is_changed(line)))
}

/// The searches behind the culprit, in their order.
pub(super) fn list_searches_behind(report: &SearchReport) -> Vec<&SearchReport> {
    let mut searches = Vec::new();
    let mut last = report;
    while let Behind::Another(next) = &last.behind {
        searches.push(&**next);
        last = next;
    }
    searches
}

/// The searches before the culprit, in their order.
pub(super) fn list_searches_before(report: &SearchReport) -> Vec<&SearchReport> {
    let Some(first) = &report.before else { return Vec::new() };
    let mut searches = vec![&**first];
    searches.extend(list_searches_behind(first));
    searches
}

/// The searches for further changes, in the order of their commits, and where these lie beside the culprit.
pub(super) fn other_changes(
    report: &SearchReport,
) -> impl Iterator<Item = (&'static str, &SearchReport)> {
    let earlier = list_searches_before(report).into_iter().map(|other| ("before it", other));
    earlier.chain(list_searches_behind(report).into_iter().map(|other| ("behind it", other)))
}

/// The line about a commit at `place` beside the culprit, with a change of its own.
pub(super) fn other_change_line(place: &str, other: &SearchReport) -> ReportLine {
    let commit = other.culprit.as_ref().and_then(|culprit| other.commit(culprit.commit));
    let Some(commit) = commit else { return ReportLine::new() };
    let line = ReportLine::from(format!("{place} ")).styled(COMMIT, &commit.short).and(" changes ");
    let outputs = wanted_outputs(other);
    let outputs = if outputs.is_empty() { "the outcome".to_owned() } else { outputs };
    line.styled(BOLD, outputs).and(format!(" too: {}", commit.subject))
}

/// The outputs searched for: `o, lse`, or on several fixtures `o, lse (causal, full)`.
fn wanted_outputs(report: &SearchReport) -> String {
    let observations = report.culprit.iter().flat_map(|culprit| &culprit.seen.observations);
    let fixtures: Vec<&str> = observations.map(|one| one.fixture.as_str()).collect();
    let mut groups: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    for &fixture in &fixtures {
        let mut outputs: Vec<&str> = Vec::new();
        for symptom in report.wanted.iter().filter(|symptom| symptom.fixture() == fixture) {
            outputs.extend(symptom.output().filter(|output| !outputs.contains(output)));
        }
        match groups.iter_mut().find(|(same, _)| *same == outputs) {
            _ if outputs.is_empty() => {}
            Some((_, others)) => others.push(fixture),
            None => groups.push((outputs, vec![fixture])),
        }
    }
    let mut words = Vec::new();
    for (outputs, on) in &groups {
        let outputs = outputs.join(", ");
        words.push(if fixtures.len() > 1 {
            format!("{outputs} ({})", on.join(", "))
        } else {
            outputs
        });
    }
    words.join("; ")
}

/// The verdict on an innocent commit.
pub(super) fn describe_acquittal(test_result: &Seen) -> String {
    let verdict = test_result.verdict();
    match test_result.observations.as_slice() {
        [observation] if observation.untestable.is_none() && verdict.agrees() => {
            if !observation.compared && verdict == Verdict::Equivalent {
                not_compared(observation)
            } else {
                let better = observation.judgement.as_ref().map_or(String::new(), more_accurate);
                format!("{}{better}", verdict_name(verdict))
            }
        }
        _ => observation_line(test_result),
    }
}

/// A unified diff in git's colours.
pub(super) fn colour_diff(diff: &str) -> Text {
    let lines = diff.lines().map(|line| {
        let style = match line.as_bytes().first() {
            _ if line.starts_with("+++") || line.starts_with("---") => BOLD,
            Some(b'+') => GREEN,
            Some(b'-') => RED,
            Some(b'@') => COMMIT,
            Some(b' ') | None => Style::new(),
            _ => BOLD,
        };
        ReportLine::with_style(style, line)
    });
    lines.collect()
}

pub(super) fn render_commit_name(report: &SearchReport, commit: u32) -> ReportLine {
    match report.commit(commit) {
        Some(commit) => ReportLine::with_style(COMMIT, &commit.short),
        None => format!("commit #{commit}").into(),
    }
}

/// The first of `candidates` with other symptoms than those searched for.
fn other_than_wanted(report: &SearchReport, candidates: &[u32]) -> Option<u32> {
    candidates
        .iter()
        .copied()
        .find(|&commit| report.tested.contains(&Tested { commit, answer: TestAnswer::Other }))
}

fn write_hidden_candidates(out: &mut Text, report: &SearchReport, candidates: &[u32]) {
    out.line(render_search_headline(report).and(":"));
    for &candidate in candidates {
        let Some(commit) = report.commit(candidate) else { continue };
        out.line(
            ReportLine::from("  ")
                .styled(COMMIT, &commit.short)
                .and(format!(" {}", commit.subject)),
        );
        let observed_words = report.test_result(candidate).map(observation_line);
        let words = observed_words.unwrap_or_else(|| "was not tested".to_owned());
        out.line(ReportLine::from("    ").styled(DIM, words));
    }
    for hint in hidden_hints(report, candidates) {
        out.line(ReportLine::with_style(DIM, "hint:").and(" ").and(hint));
    }
}

/// Advice on how to learn more of `candidates`.
fn hidden_hints(report: &SearchReport, candidates: &[u32]) -> Vec<ReportLine> {
    let mut test_results = candidates.iter().filter_map(|&candidate| report.test_result(candidate));
    let mut hints: Vec<ReportLine> =
        test_results.find_map(Seen::hint).map(ReportLine::from).into_iter().collect();
    if let Some(other_commit) = other_than_wanted(report, candidates) {
        let wanted_symptoms: Vec<String> = report.wanted.iter().map(ToString::to_string).collect();
        let wanted_text = wanted_symptoms.join(", ");
        let search_note = format!(
            "the search was for what the bad end shows ({wanted_text}); for the other, name "
        );
        hints.push(
            ReportLine::from(search_note)
                .and(render_commit_name(report, other_commit))
                .and(" as bad"),
        );
        if let (Some(&first), Some(&last)) = (candidates.iter().min(), candidates.iter().max()) {
            let range = ReportLine::from("`replay log FIXTURE ")
                .and(render_commit_name(report, first))
                .and("^..");
            let why = "` compares each of them with the commit before it";
            hints.push(range.and(render_commit_name(report, last)).and(why));
        }
    }
    hints
}

fn not_monotone(out: &mut Text, report: &SearchReport, commit: u32, bad_parents: &[u32]) {
    out.line(render_search_headline(report));
    let ended = ReportLine::from("  the search ended at ").and(render_commit_name(report, commit));
    out.line(match bad_parents {
        [] => ended,
        parents => {
            let parents =
                join_report_lines(parents.iter().map(|&parent| render_commit_name(report, parent)));
            ended.and(", whose parent ").and(parents).and(" is bad too")
        }
    });
    if let Some(range_log) = &report.log {
        out.line(ReportLine::new());
        out.append(changes::render_log_text(range_log));
    }
}

pub(super) fn warning_words(report: &SearchReport, warning: &Warning) -> ReportLine {
    let (commit, words) = match *warning {
        Warning::UntestableMergeBase { base } => (
            base,
            " is a common ancestor of the ends and could not be tested; it is taken to be good",
        ),
        Warning::Contradiction { commit } => (commit, " was once good and once bad"),
        Warning::Unexplained { bad } => {
            (bad, " does not contain this commit: it is bad for another reason")
        }
    };
    render_commit_name(report, commit).and(words)
}
