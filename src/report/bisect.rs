//! The answer of a search, for people.

use anstyle::Style;

use super::accesses::{access_lines, wrong};
use super::captured_by::captured_lines;
use super::changes;
use super::judgement::{
    ORDER, gradient, launch_line, more_accurate, output_lines, verdict_line, verdict_name,
    verdict_style,
};
use super::numbers::count;
use super::refusal::{Claim, joined, refusal_words, refused};
use super::spans::{Line, Text};
use super::standing::is_wrong;
use super::style::{BOLD, COMMIT, DIM, GREEN, RED, YELLOW};
use super::text::failure;
use super::{Blame, Revision};
use crate::bisect::{Behind, Culprit, Direction, Ends, Observation, Report, Seen, Symptom, Tested};
use crate::history::Commit;
use crate::judge::{GradientCheck, GradientVerdict, Judgement, OutputJudgement, Verdict};
use crate::search::{Answer, Conclusion, Warning};
use crate::trial::{Outcome, Status};

/// What is said where the ends differ and nothing tells which of them is right.
pub(super) const UNCLAIMED: &str = "which side is right is not known";

/// The good side of a search that compares with a snapshot.
pub struct Origin {
    /// The snapshot files.
    pub snapshot: String,
    /// The commits that the search goes back to, and why.
    pub back_to: String,
}

/// What a search is asked.
pub struct SearchRequest<'a> {
    /// The names of the fixtures.
    pub fixtures: Vec<String>,
    /// The commits between which it searches.
    pub ends: &'a Ends,
    /// Where it begins, if that is a snapshot.
    pub origin: Option<Origin>,
}

impl SearchRequest<'_> {
    /// The fixtures and the ends, such as `step0, good 37707d4, bad 61b3d97`.
    pub fn line(&self) -> Line {
        let sides = match self.ends {
            Ends::Claimed { good, bad } => [("good", good), ("bad", bad)],
            Ends::Unclaimed { old, new } => [("old", old), ("new", new)],
        };
        let mut line = Line::of(BOLD, self.fixtures.join(", "));
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
pub(crate) fn answer_name(answer: Answer) -> &'static str {
    match answer {
        Answer::Good => "good",
        Answer::Bad => "bad",
        Answer::Skip => "untestable",
        Answer::Other => "fails otherwise",
    }
}

/// The result of a test, in a line.
pub(crate) fn observation_line(seen: &Seen) -> String {
    let several = seen.observations.len() > 1;
    let one = |observation: &Observation| {
        let name = if several { format!("{}: ", observation.fixture) } else { String::new() };
        let what = observation_words(observation);
        let order = observation.ordered_alike.first().map(|output| format!("{output} {ORDER}"));
        match order.or_else(|| observation.accesses_alike().next().map(wrong)) {
            Some(alike) => format!("{name}{what}; {alike}, as at the good end"),
            None => format!("{name}{what}"),
        }
    };
    seen.observations.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn observation_words(observation: &Observation) -> String {
    if let Some(reason) = &observation.untestable {
        return format!("untestable: {reason}");
    }
    let status = observation.outcome.as_ref().map(|outcome| &outcome.status);
    if let (Some(Status::Failed(failures)), Verdict::Failed) = (status, observation.verdict) {
        return format!("failed: {}", failures.first().map(failure).unwrap_or_default());
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

/// What is said of an innocent commit whose values were not compared.
fn not_compared(observation: &Observation) -> String {
    match &observation.accesses {
        Some(found) if !found.has_new() => "completed, without a new race".to_owned(),
        _ if observation.gradients.is_empty() => "completed".to_owned(),
        _ => gradients_words(&observation.gradients),
    }
}

/// What is said of gradients of which none is wrong: `grad matches its loss`.
fn gradients_words(checks: &[GradientCheck]) -> String {
    let words = |check: &GradientCheck| match check.story.verdict() {
        GradientVerdict::Unknown => format!("{} is not checked", check.output),
        GradientVerdict::Matches | GradientVerdict::Imprecise | GradientVerdict::Mismatch => {
            format!("{} matches its loss", check.output)
        }
    };
    checks.iter().map(words).collect::<Vec<_>>().join(", ")
}

/// An answered test, in a line.
pub fn tested_line(commit: &Commit, answer: Answer, seen: &Seen) -> Line {
    let words = match (answer, seen.observations.as_slice()) {
        // The answer already says that it is untestable.
        (Answer::Skip, [Observation { untestable: Some(reason), .. }]) => reason.clone(),
        _ => observation_line(seen),
    };
    answered(commit, answer).and(format!(": {words}"))
}

/// The answer of a test whose details are elsewhere.
pub fn answered_line(commit: &Commit, answer: Answer) -> Line {
    answered(commit, answer).and(format!(": {}", commit.subject))
}

fn answered(commit: &Commit, answer: Answer) -> Line {
    let style = match answer {
        Answer::Good => GREEN,
        Answer::Bad => RED,
        Answer::Skip | Answer::Other => YELLOW,
    };
    Line::of(COMMIT, &commit.short).and(" ").styled(style, answer_name(answer))
}

/// The short answer of a search whose ends are the two sides of a comparison.
pub fn blame(report: &Report) -> Blame {
    let commit = report.culprit.as_ref().and_then(|culprit| report.commit(culprit.commit));
    let commit = commit.cloned().map(Revision::from);
    let text = match &report.conclusion {
        Conclusion::Refused(refusal) => {
            let (what, _) = refusal_words(report, refusal, Claim::Compared);
            let what: Vec<String> = what.iter().map(Line::words).collect();
            format!("no commit can be named: {}", what.join("; "))
        }
        Conclusion::Hidden { candidates } => {
            let commits = joined(candidates.iter().map(|&candidate| shown(report, candidate)));
            let hints: Vec<String> =
                hidden_hints(report, candidates).iter().map(Line::words).collect();
            let listed = format!("{}: {}", headline(report).words(), commits.words());
            [&[listed], hints.as_slice()].concat().join("; ")
        }
        _ => headline(report).words(),
    };
    Blame { commit, text, outputs: Vec::new(), lineage: report.lineage.clone() }
}

/// The answer in a line; for a refusal without the reason.
pub(super) fn headline(report: &Report) -> Line {
    match (&report.conclusion, &report.culprit) {
        (_, Some(culprit)) => match report.commit(culprit.commit) {
            Some(commit) => {
                let [verb, what] = deed(report);
                let line = Line::of(COMMIT, &commit.short).and(format!(" {verb} "));
                line.styled(BOLD, what).and(format!(": {}", commit.subject))
            }
            None => "found".into(),
        },
        (Conclusion::Hidden { candidates }, None) => {
            let why = match other_than_wanted(report, candidates) {
                Some(_) => "commits that are neither good nor bad hide",
                None => "untestable commits hide",
            };
            let what = match report.direction {
                Direction::Breaks => "the first bad commit",
                Direction::Repairs => "the repair",
                Direction::Changes => "the change",
            };
            Line::from(format!("{why} {what}; it is "))
                .styled(BOLD, format!("one of these {}", candidates.len()))
        }
        (Conclusion::NotMonotone { .. }, None) => {
            let turns = match report.direction {
                Direction::Breaks => "good turns bad",
                Direction::Repairs => "bad turns good",
                Direction::Changes => "old turns new",
            };
            let more = format!(": {turns} more than once between the ends");
            Line::of(BOLD, "no single commit is to blame").and(more)
        }
        (Conclusion::Refused(_), None) => Line::of(RED, "refused"),
        _ => "nothing was found".into(),
    }
}

/// What the culprit does: `is`, `the first bad commit`; or `repairs`, `loss, grad`.
pub(super) fn deed(report: &Report) -> [String; 2] {
    let what = || {
        let mut names: Vec<String> = Vec::new();
        for symptom in &report.wanted {
            let name = symptom.output().map_or_else(|| symptom.to_string(), str::to_owned);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.join(", ")
    };
    match report.direction {
        Direction::Breaks => ["is".to_owned(), "the first bad commit".to_owned()],
        Direction::Repairs => ["repairs".to_owned(), what()],
        Direction::Changes => ["changes".to_owned(), what()],
    }
}

/// The whole answer.
pub fn bisect(report: &Report) -> Text {
    let mut out = Text::new();
    match (&report.conclusion, &report.culprit) {
        (Conclusion::Found { unconfirmed_parents, .. }, Some(culprit)) => {
            convicted(&mut out, report, culprit, None);
            for &parent in unconfirmed_parents {
                let why = " could not be tested, and is good only if every defect stays";
                out.line(Line::from("  its parent ").and(shown(report, parent)).and(why));
            }
            rest(&mut out, report, culprit);
        }
        (Conclusion::Probable { probability, .. }, Some(culprit)) => {
            convicted(&mut out, report, culprit, Some(*probability));
            rest(&mut out, report, culprit);
        }
        (Conclusion::Hidden { candidates }, _) => hidden(&mut out, report, candidates),
        (Conclusion::NotMonotone { commit, bad_parents }, _) => {
            not_monotone(&mut out, report, *commit, bad_parents);
        }
        (Conclusion::Refused(refusal), _) => out.append(refused(report, refusal)),
        _ => out.line(headline(report)),
    }
    warnings(report).for_each(|line| out.line(line));
    out
}

/// A line for each warning, for each thing that programs noted, and on who gives the captured outputs.
pub(super) fn warnings(report: &Report) -> impl Iterator<Item = Line> {
    let begun = || Line::of(YELLOW, "note:").and(" ");
    let warned = report.warnings.iter().map(move |w| begun().and(warning_words(report, w)));
    let last = behind(report).into_iter().last().unwrap_or(report);
    let unclear = match &last.behind {
        Behind::Unclear { bad } => {
            let why = " shows more than that: further commits behind it are not told apart";
            Some(begun().styled(COMMIT, &bad.short).and(why))
        }
        Behind::Nothing | Behind::Another(_) => None,
    };
    let captured = captured_lines(&report.captured).into_iter();
    let noted = notes(report).into_iter().map(str::to_owned).chain(captured);
    warned.chain(unclear).chain(noted.map(move |note| begun().and(note)))
}

/// What programs noted of the commits that were tested, each line once.
fn notes(report: &Report) -> Vec<&str> {
    let seen = report.tested.iter().filter_map(|tested| report.seen(tested.commit));
    let outcomes = seen.flat_map(|seen| &seen.observations).filter_map(|one| one.outcome.as_ref());
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
    pub fn line(&self) -> Line {
        format!("good is {}; searched back to {}", self.snapshot, self.back_to).into()
    }
}

fn convicted(out: &mut Text, report: &Report, culprit: &Culprit, probability: Option<f64>) {
    out.line(headline(report));
    if let Some(probability) = probability {
        let tests = count(report.tested.len() as u64, "test");
        let percent = (100.0 * probability).min(99.99);
        out.line(format!(
            "  with a probability of {percent:.2} %, after {tests} whose verdicts are not always \
             the same"
        ));
    }
    match report.direction {
        Direction::Breaks => {}
        Direction::Repairs => out.line("  before it, compared with the good end:"),
        Direction::Changes => out.line(format!("  {UNCLAIMED}; compared with the old end:")),
    }
    evidence_by_fixture(out, &culprit.seen);
    let several = culprit.seen.observations.len() > 1;
    for (fixture, found) in &culprit.accesses {
        if several && !access_lines(found).is_empty() {
            out.line(Line::from("  ").styled(BOLD, fixture));
        }
        for line in access_lines(found) {
            out.line(Line::from("  ").and(line));
        }
    }
}

/// Adds the evidence against a commit, below the name of each fixture where there are several.
fn evidence_by_fixture(out: &mut Text, seen: &Seen) {
    let several = seen.observations.len() > 1;
    for observation in &seen.observations {
        let mut lines = Text::new();
        evidence(&mut lines, observation);
        if several {
            let name = Line::from("  ").styled(BOLD, &observation.fixture);
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
fn evidence(out: &mut Text, observation: &Observation) {
    let wrong = observation.gradients.iter().filter(|check| is_wrong(check));
    let wrong: Vec<&GradientCheck> = wrong.collect();
    if !wrong.is_empty() {
        for check in wrong {
            let name = Line::from("  ").styled(BOLD, &check.output);
            out.line(name.and(" ").and(gradient(check)));
        }
        return;
    }
    match &observation.judgement {
        Some(judgement) if !judgement.outputs.is_empty() => judged(out, observation, judgement),
        _ => out.line(
            Line::from("  ")
                .styled(verdict_style(observation.verdict), observation_words(observation)),
        ),
    }
}

/// Adds what `judgement` says of failures, and of the outputs that diverged or are among the symptoms of `observation`.
fn judged(out: &mut Text, observation: &Observation, judgement: &Judgement) {
    if let Status::Failed(failures) = &judgement.got.status
        && !judgement.is_non_finite_on_both()
    {
        for found in failures {
            out.line(Line::from("  ").styled(RED, "failed").and(format!(": {}", failure(found))));
        }
    }
    let shown: Vec<&str> = observation.symptoms.iter().filter_map(Symptom::output).collect();
    let is_worse = |output: &&OutputJudgement| {
        output.story.verdict() == Verdict::Diverged || shown.contains(&output.name.as_str())
    };
    for output in judgement.outputs.iter().filter(is_worse) {
        let width = output.name.chars().count();
        for (number, line) in output_lines(output).into_iter().enumerate() {
            let name = if number == 0 { output.name.as_str() } else { "" };
            out.line(Line::from("  ").column(BOLD, name, width).and(" ").and(line));
        }
    }
}

fn rest(out: &mut Text, report: &Report, culprit: &Culprit) {
    let tested = |commit: &Commit| Line::from("  ").styled(COMMIT, &commit.short);
    for &parent in &culprit.parents {
        if let (Some(seen), Some(commit)) = (report.seen(parent), report.commit(parent)) {
            let words = format!(", its parent, was tested: {}", acquittal(seen));
            out.line(tested(commit).and(words));
        }
    }
    for &innocent in &culprit.acquitted {
        if let (Some(seen), Some(commit)) = (report.seen(innocent), report.commit(innocent))
            && !culprit.parents.contains(&innocent)
        {
            let words = format!(" was tested: {} ", acquittal(seen));
            out.line(tested(commit).and(words).styled(DIM, format!("({})", commit.subject)));
        }
    }
    for change in &culprit.launches {
        out.line(format!("  {}", launch_line(change)));
    }
    for (place, other) in other_changes(report) {
        out.line(Line::from("  ").and(other_change_line(place, other)));
        let Some(another) = &other.culprit else { continue };
        evidence_by_fixture(out, &another.seen);
    }
    if !culprit.diff.is_empty() {
        out.line(Line::new());
        out.append(coloured(&culprit.diff));
    }
}

/// The searches behind the culprit, in their order.
pub(super) fn behind(report: &Report) -> Vec<&Report> {
    let (mut searches, mut last) = (Vec::new(), report);
    while let Behind::Another(next) = &last.behind {
        searches.push(&**next);
        last = next;
    }
    searches
}

/// The searches before the culprit, in their order.
pub(super) fn before(report: &Report) -> Vec<&Report> {
    let Some(first) = &report.before else { return Vec::new() };
    let mut searches = vec![&**first];
    searches.extend(behind(first));
    searches
}

/// The searches for further changes, in the order of their commits, and where these lie beside the culprit.
pub(super) fn other_changes(report: &Report) -> impl Iterator<Item = (&'static str, &Report)> {
    let earlier = before(report).into_iter().map(|other| ("before it", other));
    earlier.chain(behind(report).into_iter().map(|other| ("behind it", other)))
}

/// The line about a commit at `place` beside the culprit that changes something too.
pub(super) fn other_change_line(place: &str, other: &Report) -> Line {
    let commit = other.culprit.as_ref().and_then(|culprit| other.commit(culprit.commit));
    let Some(commit) = commit else { return Line::new() };
    let line = Line::from(format!("{place} ")).styled(COMMIT, &commit.short).and(" changes ");
    let outputs = wanted_outputs(other);
    let outputs = if outputs.is_empty() { "the outcome".to_owned() } else { outputs };
    line.styled(BOLD, outputs).and(format!(" too: {}", commit.subject))
}

/// The outputs that were searched for: `o, lse`, or where there are several fixtures `o, lse (causal, full)`.
fn wanted_outputs(report: &Report) -> String {
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
pub(super) fn acquittal(seen: &Seen) -> String {
    let verdict = seen.verdict();
    match seen.observations.as_slice() {
        [observation] if observation.untestable.is_none() && verdict <= Verdict::Equivalent => {
            if !observation.compared && verdict == Verdict::Equivalent {
                not_compared(observation)
            } else {
                let better = observation.judgement.as_ref().map_or(String::new(), more_accurate);
                format!("{}{better}", verdict_name(verdict))
            }
        }
        _ => observation_line(seen),
    }
}

/// A unified diff in git's colours.
fn coloured(diff: &str) -> Text {
    let one = |line: &str| {
        let style = match line.as_bytes().first() {
            _ if line.starts_with("+++") || line.starts_with("---") => BOLD,
            Some(b'+') => GREEN,
            Some(b'-') => RED,
            Some(b'@') => COMMIT,
            Some(b' ') | None => Style::new(),
            _ => BOLD,
        };
        Line::of(style, line)
    };
    diff.lines().map(one).collect()
}

pub(super) fn shown(report: &Report, commit: u32) -> Line {
    match report.commit(commit) {
        Some(commit) => Line::of(COMMIT, &commit.short),
        None => format!("commit #{commit}").into(),
    }
}

/// The first of `candidates` whose test showed something else than what is searched for.
fn other_than_wanted(report: &Report, candidates: &[u32]) -> Option<u32> {
    let other = |commit: &u32| {
        let tested = |one: &Tested| one.commit == *commit && one.answer == Answer::Other;
        report.tested.iter().any(tested)
    };
    candidates.iter().copied().find(other)
}

fn hidden(out: &mut Text, report: &Report, candidates: &[u32]) {
    out.line(headline(report).and(":"));
    for &candidate in candidates {
        let Some(commit) = report.commit(candidate) else { continue };
        out.line(
            Line::from("  ").styled(COMMIT, &commit.short).and(format!(" {}", commit.subject)),
        );
        let seen = report.seen(candidate).map(observation_line);
        let words = seen.unwrap_or_else(|| "was not tested".to_owned());
        out.line(Line::from("    ").styled(DIM, words));
    }
    for hint in hidden_hints(report, candidates) {
        out.line(Line::of(DIM, "hint:").and(" ").and(hint));
    }
}

/// What tells more of `candidates`, which hide the culprit.
fn hidden_hints(report: &Report, candidates: &[u32]) -> Vec<Line> {
    let mut seen = candidates.iter().filter_map(|&candidate| report.seen(candidate));
    let mut hints: Vec<Line> = seen.find_map(Seen::hint).map(Line::from).into_iter().collect();
    if let Some(other) = other_than_wanted(report, candidates) {
        let wanted: Vec<String> = report.wanted.iter().map(ToString::to_string).collect();
        let wanted = wanted.join(", ");
        let why =
            format!("the search was for what the bad end shows ({wanted}); for the other, name ");
        hints.push(Line::from(why).and(shown(report, other)).and(" as bad"));
        if let (Some(&first), Some(&last)) = (candidates.iter().min(), candidates.iter().max()) {
            let range = Line::from("`replay log FIXTURE ").and(shown(report, first)).and("^..");
            let why = "` compares each of them with the commit before it";
            hints.push(range.and(shown(report, last)).and(why));
        }
    }
    hints
}

fn not_monotone(out: &mut Text, report: &Report, commit: u32, bad_parents: &[u32]) {
    out.line(headline(report));
    let ended = Line::from("  the search ended at ").and(shown(report, commit));
    out.line(match bad_parents {
        [] => ended,
        parents => {
            let parents = joined(parents.iter().map(|&parent| shown(report, parent)));
            ended.and(", whose parent ").and(parents).and(" is bad too")
        }
    });
    if let Some(found) = &report.log {
        out.line(Line::new());
        out.append(changes::log(found));
    }
}

pub(super) fn warning_words(report: &Report, warning: &Warning) -> Line {
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
    shown(report, commit).and(words)
}
