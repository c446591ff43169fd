//! Where outputs change along a history, for people.

use super::accesses::{describe_access, gone_lines, name_access_fault};
use super::captured_by::captured_lines;
use super::judgement::{
    HIDDEN, ORDER, describe_difference, describe_launch_change, describe_shadow_shift,
    finding_words, order_lines, verdict_line, verdict_name, verdict_style,
};
use super::numbers::{format_noun_count, format_plural_count};
use super::spans::{ReportLine, Text};
use super::style::{BOLD, COMMIT, DIM, GREEN, RED, YELLOW};
use super::text::describe_failure;
use replay_bisect::{LogChange, LogReport, UntestedCommit};
use replay_engine::judge::{Judgement, OutputJudgement, Story, Verdict, WrongBy};
use replay_engine::trial::Status;
use replay_history::Commit;

/// The request for a log.
pub struct LogRequest<'a> {
    /// The names of the fixtures.
    pub fixtures: Vec<String>,
    /// The commits, as the user wrote them.
    pub range: &'a str,
    /// How many commits that change the sources it holds, if the user named none.
    pub chosen: Option<usize>,
}

impl LogRequest<'_> {
    /// The fixtures and the range.
    pub fn line(&self) -> ReportLine {
        let line = ReportLine::with_style(BOLD, self.fixtures.join(", "))
            .and(" at ")
            .styled(COMMIT, self.range);
        match self.chosen {
            None => line,
            Some(1) => line.and(", the only commit that changes the sources"),
            Some(count) => line.and(format!(", the last {count} commits that change the sources")),
        }
    }
}

/// Every change, the oldest first.
pub fn render_log_text(report: &LogReport) -> Text {
    let mut out = Text::new();
    if report.commits == 0 {
        out.line("the range has no commits");
        return out;
    }
    let several = report.changes.iter().any(|c| c.fixture != report.changes[0].fixture);
    for change in &report.changes {
        let line = render_commit_title(&change.commit);
        out.line(if several {
            line.and(" ").styled(DIM, format!("({})", change.fixture))
        } else {
            line
        });
        change_lines(change)
            .into_iter()
            .for_each(|line| out.line(ReportLine::from("  ").and(line)));
        out.line(ReportLine::new());
    }
    if !report.acquitted.is_empty() {
        out.line("changed sources and no output:");
        for commit in &report.acquitted {
            out.line(ReportLine::from("  ").and(render_commit_title(commit)));
            for line in failing_lines(report, commit) {
                out.line(ReportLine::from("    ").styled(RED, line));
            }
        }
        out.line(ReportLine::new());
    }
    write_untestable_commits(&mut out, report);
    if let Some((number, reason)) = &report.unchecked {
        let variants = format_noun_count(*number as u64, "variant");
        out.line(ReportLine::with_style(
            YELLOW,
            format!("races are not looked for in {variants}: {reason}"),
        ));
    }
    if leaves_races_open(report) {
        out.line(
            ReportLine::with_style(YELLOW, NOT_CHECKED).and(": `--check auto` looks for them"),
        );
    }
    captured_lines(&report.captured).into_iter().for_each(|line| out.line(line));
    out.line(summarise_log(report));
    out
}

/// The words where races could be looked for.
pub(super) const NOT_CHECKED: &str = "races were not looked for";

/// Whether a commit without a finding may yet have begun a race.
pub(super) fn leaves_races_open(report: &LogReport) -> bool {
    let has_harmless_change = report.changes.iter().any(|change| change.verdict().agrees());
    report.without_races && (!report.acquitted.is_empty() || has_harmless_change)
}

fn render_commit_title(commit: &Commit) -> ReportLine {
    ReportLine::with_style(COMMIT, &commit.short).and(format!(" {}", commit.subject))
}

/// The failures of `commit`, which changes no output: those of the commit before it.
pub(super) fn failing_lines(report: &LogReport, commit: &Commit) -> Vec<String> {
    let of_commit = report.failing.iter().filter(|failing| failing.commit.id == commit.id);
    let mut lines: Vec<String> = of_commit
        .map(|failing| format!("failed as before it: {}", describe_failure(&failing.failure)))
        .collect();
    lines.dedup();
    lines
}

/// Adds the untestable commits without a change of their own.
fn write_untestable_commits(out: &mut Text, report: &LogReport) {
    /// More than these are only counted.
    const SHOWN: usize = 8;
    let mut silent: Vec<&UntestedCommit> = report.untestable.iter().collect();
    for change in &report.changes {
        silent.retain(|untested| {
            untested.commit.id != change.commit.id || untested.fixture != change.fixture
        });
    }
    if silent.is_empty() {
        return;
    }
    out.line("could not be tested:");
    for untested in &silent[..silent.len().min(SHOWN)] {
        out.line(ReportLine::from("  ").and(render_commit_title(&untested.commit)));
        out.line(ReportLine::from("    ").styled(DIM, &untested.reason));
    }
    let left_out = silent.len().saturating_sub(SHOWN) as u64;
    if left_out > 0 {
        out.line(format!("  and {} more", format_plural_count(left_out, "variant", "variants")));
    }
    out.line(ReportLine::new());
}

/// The last line.
pub(super) fn summarise_log(report: &LogReport) -> ReportLine {
    let LogReport { commits, variants, untested, .. } = report;
    let commits = format_noun_count(*commits as u64, "commit");
    if untested == variants && *variants > 0 {
        let none_tested =
            format!(": none of {} in {commits}", format_noun_count(*variants as u64, "variant"));
        return ReportLine::with_style(YELLOW, "nothing could be tested").and(none_tested);
    }
    let changes = format_noun_count(report.changes.len() as u64, "change");
    let places = format_noun_count(count_changing_commits(report), "commit");
    let tested = format_noun_count((variants - untested) as u64, "variant");
    let untested = match untested {
        0 => String::new(),
        n => format!(", {n} could not be tested"),
    };
    format!("{changes} at {places} of {commits}, {tested} replayed{untested}").into()
}

fn count_changing_commits(report: &LogReport) -> u64 {
    let mut ids: Vec<_> = report.changes.iter().map(|change| change.commit.id).collect();
    ids.dedup();
    ids.len() as u64
}

/// The lines about a change, the verdict first.
pub(super) fn change_lines(change: &LogChange) -> Vec<ReportLine> {
    let judgement = &change.judgement;
    let mut lines = vec![render_change_verdict(change)];
    lines.extend(order_line(change));
    let inherited = judgement.inherited_failures();
    let is_compared = judgement.base.status == Status::Completed || !inherited.is_empty();
    if change.repair.is_none() && is_compared {
        let outputs = judgement.outputs.iter();
        for output in outputs.filter(|output| output.story.verdict() != Verdict::Identical) {
            let words = difference_words(output);
            lines.push(format!("{}: {words}", output.name).into());
            lines.extend(
                describe_shadow_shift(output)
                    .map(|words| format!("{}: {words}", output.name).into()),
            );
        }
    }
    lines.extend(inherited.iter().map(|found| {
        ReportLine::with_style(DIM, format!("failed as before it: {}", describe_failure(found)))
    }));
    let settled = change.settled.iter();
    lines.extend(settled.map(|name| format!("{name} no longer {ORDER}").into()));
    if let Some(accesses) = &change.accesses {
        lines.extend(accesses.failures().map(|finding| describe_access(finding).into()));
        lines.extend(gone_lines(accesses));
    }
    // A commit without a run launched nothing; this is no change of its code.
    if judgement.verdict != Verdict::Untestable {
        lines.extend(judgement.launches.iter().map(|change| describe_launch_change(change).into()));
    }
    let base = &change.base.short;
    let against = match &change.skipped {
        Some(skipped) => format!("against {base}: {} cannot be tested", skipped.short),
        None => format!("against {base}"),
    };
    lines.push(ReportLine::with_style(DIM, against));
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
        None => describe_difference(output.dtype, &output.comparison),
    }
}

/// The line about outputs with a new dependence on the order of blocks and threads, if the verdict names
/// another defect of theirs.
fn order_line(change: &LogChange) -> Option<ReportLine> {
    let mut names: Vec<&str> = Vec::new();
    for output in &change.judgement.outputs {
        let is_told = matches!(output.story, Story::OrderDependent(_));
        if !is_told && change.ordered.contains(&output.name) {
            names.push(&output.name);
        }
    }
    if names.is_empty() {
        return None;
    }
    let names = format!(": {}", names.join(", "));
    Some(ReportLine::with_style(RED, format!("{ORDER} now")).and(names))
}

/// The verdict on a change, in a line.
pub(super) fn render_change_verdict(change: &LogChange) -> ReportLine {
    let judgement = &change.judgement;
    if let Some(repair) = &change.repair {
        let word = if repair.of_defect { "repaired" } else { "taken back" };
        let like = match repair.verdict {
            Verdict::Identical => "identical to",
            _ => "equivalent to",
        };
        let words = format!(": {like} {}, as before {}", repair.like.short, repair.of.short);
        return ReportLine::with_style(GREEN, word).and(words);
    }
    match (&judgement.base.status, &judgement.got.status) {
        _ if change.verdict() > judgement.verdict => {
            let new_kinds = change
                .accesses
                .iter()
                .flat_map(|accesses| accesses.failures())
                .map(name_access_fault);
            let mut kind_names: Vec<String> = new_kinds.collect();
            kind_names.dedup();
            ReportLine::with_style(verdict_style(Verdict::Failed), verdict_name(Verdict::Failed))
                .and(format!(": {}", kind_names.join(", ")))
        }
        // There is nothing to compare with.
        (Status::Failed(failures), Status::Completed) => {
            let base_short = &change.base.short;
            format!("completes, where {base_short} failed: {}", describe_failure(&failures[0]))
                .into()
        }
        (Status::Completed, Status::Completed) if judgement.verdict == Verdict::Diverged => {
            render_divergence(change, judgement)
        }
        _ if !judgement.inherited_failures().is_empty() => match judgement.verdict {
            Verdict::Diverged => render_divergence(change, judgement),
            verdict => {
                let such =
                    judgement.outputs.iter().filter(|output| output.story.verdict() == verdict);
                let names: Vec<&str> = such.map(|output| output.name.as_str()).collect();
                let word = ReportLine::with_style(verdict_style(verdict), verdict_name(verdict));
                word.and(format!(": {}", names.join(", ")))
            }
        },
        _ => verdict_line(judgement),
    }
}

/// The outputs beyond the noise of the commit before. This commit is not taken for the truth: only a loss or an
/// oracle makes an output wrong or repaired.
fn render_divergence(change: &LogChange, judgement: &Judgement) -> ReportLine {
    let outputs = judgement.outputs.iter().filter(|o| o.story.verdict() == Verdict::Diverged);
    let outputs: Vec<&OutputJudgement> = outputs.collect();
    let all: Vec<String> = outputs.iter().map(|output| diverged_words(change, output)).collect();
    let repaired =
        !outputs.is_empty() && outputs.iter().all(|output| change.mended.contains(&output.name));
    let word = if repaired {
        ReportLine::with_style(GREEN, "repaired")
    } else {
        ReportLine::with_style(verdict_style(Verdict::Diverged), verdict_name(Verdict::Diverged))
    };
    word.and(format!(": {}", all.join(", ")))
}

/// `y (the mathematics changed)`: an output beyond noise, and its meaning.
fn diverged_words(change: &LogChange, output: &OutputJudgement) -> String {
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
