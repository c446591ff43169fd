//! Where outputs change along a history, for people.

use super::accesses::{gone_lines, sentence, wrong};
use super::captured_by::captured_lines;
use super::judgement::{
    HIDDEN, ORDER, difference, finding_words, launch_line, order_lines, shift, verdict_line,
    verdict_name, verdict_style,
};
use super::numbers::{count, plural};
use super::spans::{Line, Text};
use super::style::{BOLD, COMMIT, DIM, GREEN, RED, YELLOW};
use super::text::failure;
use crate::bisect::{Change, LogReport, Untestable};
use crate::history::Commit;
use crate::judge::{Judgement, OutputJudgement, Story, Verdict, WrongBy};
use crate::trial::Status;

/// What a log is asked.
pub struct LogRequest<'a> {
    /// The names of the fixtures.
    pub fixtures: Vec<String>,
    /// The commits, as the user wrote them.
    pub range: &'a str,
}

impl LogRequest<'_> {
    /// The fixtures and the range.
    pub fn line(&self) -> Line {
        Line::of(BOLD, self.fixtures.join(", ")).and(" at ").styled(COMMIT, self.range)
    }
}

/// Every change, the oldest first.
pub fn log(report: &LogReport) -> Text {
    let mut out = Text::new();
    if report.commits == 0 {
        out.line("the range has no commits");
        return out;
    }
    let several = report.changes.iter().any(|c| c.fixture != report.changes[0].fixture);
    for change in &report.changes {
        let line = titled(&change.commit);
        out.line(match several {
            true => line.and(" ").styled(DIM, format!("({})", change.fixture)),
            false => line,
        });
        change_lines(change).into_iter().for_each(|line| out.line(Line::from("  ").and(line)));
        out.line(Line::new());
    }
    if !report.acquitted.is_empty() {
        out.line("changed sources and no output:");
        report.acquitted.iter().for_each(|commit| out.line(Line::from("  ").and(titled(commit))));
        out.line(Line::new());
    }
    untestable(&mut out, report);
    if let Some((number, reason)) = &report.unchecked {
        let variants = count(*number as u64, "variant");
        out.line(Line::of(YELLOW, format!("races are not looked for in {variants}: {reason}")));
    }
    if leaves_races_open(report) {
        out.line(Line::of(YELLOW, NOT_CHECKED).and(": `--check auto` looks for them"));
    }
    captured_lines(&report.captured).into_iter().for_each(|line| out.line(line));
    out.line(summary(report));
    out
}

/// The words where races could be looked for.
pub(super) const NOT_CHECKED: &str = "races were not looked for";

/// Whether commits are taken to be harmless that may yet have begun a race.
pub(super) fn leaves_races_open(report: &LogReport) -> bool {
    let is_harmless = |change: &Change| change.verdict() <= Verdict::Equivalent;
    report.without_races && (!report.acquitted.is_empty() || report.changes.iter().any(is_harmless))
}

fn titled(commit: &Commit) -> Line {
    Line::of(COMMIT, &commit.short).and(format!(" {}", commit.subject))
}

/// Adds the commits that could not be tested and that no change mentions.
fn untestable(out: &mut Text, report: &LogReport) {
    /// More than these are only counted.
    const SHOWN: usize = 8;
    let told = |found: &&Untestable| {
        let same = |change: &Change| {
            change.commit.id == found.commit.id && change.fixture == found.fixture
        };
        report.changes.iter().any(same)
    };
    let silent: Vec<&Untestable> = report.untestable.iter().filter(|found| !told(found)).collect();
    if silent.is_empty() {
        return;
    }
    out.line("could not be tested:");
    for found in &silent[..silent.len().min(SHOWN)] {
        out.line(Line::from("  ").and(titled(&found.commit)));
        out.line(Line::from("    ").styled(DIM, &found.reason));
    }
    let more = silent.len().saturating_sub(SHOWN) as u64;
    if more > 0 {
        out.line(format!("  and {} more", plural(more, "variant", "variants")));
    }
    out.line(Line::new());
}

/// The last line.
pub(super) fn summary(report: &LogReport) -> Line {
    let LogReport { commits, variants, untested, .. } = report;
    let commits = count(*commits as u64, "commit");
    if untested == variants && *variants > 0 {
        let none = format!(": none of {} in {commits}", count(*variants as u64, "variant"));
        return Line::of(YELLOW, "nothing could be tested").and(none);
    }
    let changes = count(report.changes.len() as u64, "change");
    let places = count(distinct(report), "commit");
    let tested = count((variants - untested) as u64, "variant");
    let untested = match untested {
        0 => String::new(),
        n => format!(", {n} could not be tested"),
    };
    format!("{changes} at {places} of {commits}, {tested} replayed{untested}").into()
}

fn distinct(report: &LogReport) -> u64 {
    let mut ids: Vec<_> = report.changes.iter().map(|change| change.commit.id).collect();
    ids.dedup();
    ids.len() as u64
}

/// The lines about a change, the verdict first.
pub(super) fn change_lines(change: &Change) -> Vec<Line> {
    let judgement = &change.judgement;
    let mut lines = vec![verdict(change)];
    lines.extend(order_line(change));
    let inherited = change.inherited_failures();
    let is_compared = judgement.base.status == Status::Completed || !inherited.is_empty();
    if change.repair.is_none() && is_compared {
        let differs = |output: &&OutputJudgement| output.story.verdict() != Verdict::Identical;
        for output in judgement.outputs.iter().filter(differs) {
            let words = difference_words(output);
            lines.push(format!("{}: {words}", output.name).into());
            lines.extend(shift(output).map(|words| format!("{}: {words}", output.name).into()));
        }
    }
    lines.extend(
        inherited
            .iter()
            .map(|found| Line::of(DIM, format!("failed as before it: {}", failure(found)))),
    );
    let settled = change.settled.iter();
    lines.extend(settled.map(|name| format!("{name} no longer {ORDER}").into()));
    if let Some(found) = &change.accesses {
        lines.extend(found.failures().map(|found| sentence(found).into()));
        lines.extend(gone_lines(found));
    }
    // A commit that could not be run launched nothing; that is no change of its code.
    if judgement.verdict != Verdict::Untestable {
        lines.extend(judgement.launches.iter().map(|change| launch_line(change).into()));
    }
    let base = &change.base.short;
    let against = match &change.skipped {
        Some(skipped) => format!("against {base}: {} cannot be tested", skipped.short),
        None => format!("against {base}"),
    };
    lines.push(Line::of(DIM, against));
    lines
}

/// How an output differs: in the order of the indices, or where only other orders move it, in one of those.
fn difference_words(output: &OutputJudgement) -> String {
    let order = match output.story {
        Story::OrderDependent(_) => output.order.as_ref(),
        Story::Agrees(_)
        | Story::Unsteady
        | Story::Drifted { .. }
        | Story::Wrong(_)
        | Story::Imprecise(_)
        | Story::LessAccurate
        | Story::MoreAccurate
        | Story::AsAccurate
        | Story::BeyondNoise { .. } => None,
    };
    match order {
        Some(order) => {
            let [_, place] = order_lines(order);
            place.words()
        }
        None => difference(output.dtype, &output.comparison),
    }
}

/// The line about outputs that begin to depend on the order of blocks and threads, where the verdict names
/// another defect of theirs.
fn order_line(change: &Change) -> Option<Line> {
    let is_new = |output: &&OutputJudgement| {
        !matches!(output.story, Story::OrderDependent(_)) && change.ordered.contains(&output.name)
    };
    let outputs = change.judgement.outputs.iter().filter(is_new);
    let names: Vec<&str> = outputs.map(|output| output.name.as_str()).collect();
    let line = Line::of(RED, format!("{ORDER} now")).and(format!(": {}", names.join(", ")));
    (!names.is_empty()).then_some(line)
}

/// The verdict on a change, in a line.
pub(super) fn verdict(change: &Change) -> Line {
    let judgement = &change.judgement;
    if let Some(repair) = &change.repair {
        let word = if repair.of_defect { "repaired" } else { "taken back" };
        let like = match repair.verdict {
            Verdict::Identical => "identical to",
            _ => "equivalent to",
        };
        let words = format!(": {like} {}, as before {}", repair.like.short, repair.of.short);
        return Line::of(GREEN, word).and(words);
    }
    match (&judgement.base.status, &judgement.got.status) {
        _ if change.verdict() > judgement.verdict => {
            let new = change.accesses.iter().flat_map(|found| found.failures()).map(wrong);
            let mut new: Vec<String> = new.collect();
            new.dedup();
            Line::of(verdict_style(Verdict::Failed), verdict_name(Verdict::Failed))
                .and(format!(": {}", new.join(", ")))
        }
        // There is nothing to compare with.
        (Status::Failed(failures), Status::Completed) => {
            let short = &change.base.short;
            format!("completes, where {short} failed: {}", failure(&failures[0])).into()
        }
        (Status::Completed, Status::Completed) if judgement.verdict == Verdict::Diverged => {
            diverged(change, judgement)
        }
        _ if !change.inherited_failures().is_empty() => match judgement.verdict {
            Verdict::Diverged => diverged(change, judgement),
            verdict => {
                let such =
                    judgement.outputs.iter().filter(|output| output.story.verdict() == verdict);
                let names: Vec<&str> = such.map(|output| output.name.as_str()).collect();
                let word = Line::of(verdict_style(verdict), verdict_name(verdict));
                word.and(format!(": {}", names.join(", ")))
            }
        },
        _ => verdict_line(judgement),
    }
}

/// The outputs that went beyond the noise of the commit before. That commit is not taken for the
/// truth: only a loss or an oracle makes an output wrong or repaired.
fn diverged(change: &Change, judgement: &Judgement) -> Line {
    let outputs = judgement.outputs.iter().filter(|o| o.story.verdict() == Verdict::Diverged);
    let outputs: Vec<&OutputJudgement> = outputs.collect();
    let mended = |output: &&OutputJudgement| change.mended.contains(&output.name);
    let all: Vec<String> = outputs.iter().map(|output| diverged_words(change, output)).collect();
    let repaired = !outputs.is_empty() && outputs.iter().all(mended);
    let word = match repaired {
        true => Line::of(GREEN, "repaired"),
        false => Line::of(verdict_style(Verdict::Diverged), verdict_name(Verdict::Diverged)),
    };
    word.and(format!(": {}", all.join(", ")))
}

/// `y (the mathematics changed)`: an output that went beyond noise with `change`, and what that means.
fn diverged_words(change: &Change, output: &OutputJudgement) -> String {
    let OutputJudgement { name, story, .. } = output;
    if change.mended.contains(name) {
        return format!("{name} (matches its loss now)");
    }
    if change.broken.contains(name) {
        return format!("{name} (wrong)");
    }
    let meaning = match story {
        Story::Wrong(WrongBy::HiddenShadow) => Some(format!("the mathematics changed, {HIDDEN}")),
        Story::Wrong(WrongBy::Shadow | WrongBy::Distance) => {
            Some("the mathematics changed".to_owned())
        }
        Story::OrderDependent(_) | Story::BeyondNoise { order_dependent: true } => {
            return format!("{name} {ORDER}");
        }
        Story::Agrees(_)
        | Story::Unsteady
        | Story::Drifted { .. }
        | Story::Imprecise(_)
        | Story::LessAccurate
        | Story::MoreAccurate
        | Story::AsAccurate
        | Story::BeyondNoise { order_dependent: false } => finding_words(story),
    };
    meaning.map_or_else(|| name.clone(), |meaning| format!("{name} ({meaning})"))
}
