//! A step of a model, module by module, in words.

use super::Revision;
use super::judgement::{verdict_name, verdict_style};
use super::known::captured_word;
use super::numbers::{format_noun_count, format_short_number};
use super::shrink::describe_finding;
use super::spans::{ReportLine, Text};
use super::style::{BOLD, DIM, GREEN, RED, YELLOW};
use anstyle::Style;
use replay_engine::judge::{GradientVerdict, Verdict};
use replay_step::{
    Blame, Direction, PartFinding, PartFindingKind, PartReading, PartState, StepOrder, find_first,
};

/// A step at one revision.
pub struct StepEntry<'a> {
    /// The folder, as the user named it.
    pub fixture: &'a str,
    pub order: &'a StepOrder,
    /// The revision; none for the working tree.
    pub revision: Option<&'a Revision>,
    /// The trusted revision, if each module was compared with its own there.
    pub trusted: Option<&'a Revision>,
    /// What the replays show, in the order of the parts.
    pub readings: &'a [PartReading],
    pub blames: &'a [Blame],
}

/// The result for all modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepVerdict {
    /// Nothing is found.
    Well,
    /// A module has a finding of its own.
    Found,
    /// Nothing is found, and some modules could not be replayed.
    Untestable,
}

impl StepEntry<'_> {
    /// The result for all modules.
    pub fn verdict(&self) -> StepVerdict {
        if self.blames.contains(&Blame::Own) {
            return StepVerdict::Found;
        }
        let is_untestable =
            |reading: &PartReading| matches!(reading.state, PartState::Untestable { .. });
        if self.readings.iter().any(is_untestable) {
            return StepVerdict::Untestable;
        }
        StepVerdict::Well
    }

    /// The parts whose own finding comes first: in the forward, and in the backward.
    pub fn first(&self, direction: Direction) -> Option<usize> {
        find_first(self.readings, self.blames, direction)
    }

    /// The part to look at first: the first of the forward, else that of the backward.
    pub fn first_of_all(&self) -> Option<usize> {
        self.first(Direction::Forward).or_else(|| self.first(Direction::Backward))
    }

    /// The parts that no gradient reached, inside of one that it reached.
    fn unreached(&self) -> Vec<&str> {
        let parts = self.order.parts.iter().enumerate();
        let unreached = parts.filter(|(_, part)| {
            let around = part.inside.map(|place| &self.order.parts[place]);
            !part.reached && around.is_none_or(|around| around.reached)
        });
        unreached.map(|(place, _)| self.order.name(place)).collect()
    }
}

/// `out is not as captured, 2941061 x noise`.
pub(crate) fn describe_part_finding(finding: &PartFinding) -> String {
    match &finding.kind {
        PartFindingKind::Replayed(finding) => describe_finding(finding),
        PartFindingKind::NotAsCaptured { output, distance } => {
            format!("{output} is not as captured, {} x noise", format_short_number(*distance, 3))
        }
    }
}

/// The answer of `replay step`.
pub fn render_step_text(entry: &StepEntry<'_>) -> Text {
    let mut out = Text::new();
    out.line(step_heading(entry));
    append_table(&mut out, entry);
    append_findings(&mut out, entry);
    append_notes(&mut out, entry);
    out.line(ReportLine::new());
    out.line(conclude_step(entry));
    out
}

pub(crate) fn step_heading(entry: &StepEntry<'_>) -> ReportLine {
    let count = format_noun_count(entry.order.parts.len() as u64, "call");
    let revision = entry.revision.map_or("the working tree", |revision| &revision.short);
    let against = entry.trusted.map(|trusted| format!(" against {}", trusted.short));
    ReportLine::with_style(BOLD, entry.fixture).and(format!(
        ": step {} of {}, {count} of modules, at {revision}{}",
        entry.order.step,
        entry.order.model,
        against.unwrap_or_default()
    ))
}

/// A word for one pass of one call, in its colour.
pub(crate) fn pass_word(
    entry: &StepEntry<'_>,
    place: usize,
    direction: Direction,
) -> (Style, &'static str) {
    let reading = &entry.readings[place];
    if matches!(reading.state, PartState::Untestable { .. }) {
        return (YELLOW, "untestable");
    }
    let verdict = match direction {
        Direction::Forward => reading.forward,
        Direction::Backward => reading.backward,
    };
    if entry.trusted.is_some() {
        return verdict
            .map_or((DIM, "-"), |verdict| (verdict_style(verdict), verdict_name(verdict)));
    }
    let gradients = (direction == Direction::Backward)
        .then(|| reading.gradients.iter().map(|check| check.story.verdict()).max())
        .flatten();
    match (verdict, gradients) {
        (Some(Verdict::Failed), _) => return (RED, "failed"),
        (_, Some(GradientVerdict::Mismatch)) => return (RED, "does not match"),
        (_, Some(GradientVerdict::Imprecise)) => return (RED, "imprecise"),
        (Some(Verdict::Diverged), _) => {}
        (_, Some(GradientVerdict::Unknown)) => return (YELLOW, "not checked"),
        (_, Some(GradientVerdict::Matches | GradientVerdict::Agrees)) => return (GREEN, "matches"),
        (_, None) => {}
    }
    match verdict {
        None => (DIM, "-"),
        Some(verdict @ (Verdict::Identical | Verdict::Equivalent)) => {
            (GREEN, captured_word(verdict))
        }
        Some(verdict) if reading.findings_of(direction).next().is_some() => {
            (RED, captured_word(verdict))
        }
        // Another revision may well give something else.
        Some(verdict) => (YELLOW, captured_word(verdict)),
    }
}

fn append_table(out: &mut Text, entry: &StepEntry<'_>) {
    let names: Vec<String> = (0..entry.order.parts.len())
        .map(|place| {
            format!("{}{}", "  ".repeat(entry.order.depth(place)), entry.order.name(place))
        })
        .collect();
    let widest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let name_width = widest.max("module".len());
    let passes = [Direction::Forward, Direction::Backward];
    let titles = ["forward", "backward"];
    let widths = passes.map(|pass| {
        let words = (0..names.len()).map(|place| pass_word(entry, place, pass).1.len());
        words.max().unwrap_or(0).max("backward".len())
    });
    out.line(ReportLine::new());
    let mut head = ReportLine::from("  ").column(DIM, "module", name_width);
    for (title, width) in titles.into_iter().zip([widths[0], 0]) {
        head = head.and("  ").column(DIM, title, width);
    }
    out.line(head);
    for (place, name) in names.iter().enumerate() {
        let mut line = ReportLine::from("  ").column(BOLD, name, name_width);
        for (pass, width) in passes.into_iter().zip(widths) {
            let (style, word) = pass_word(entry, place, pass);
            let is_last = pass == Direction::Backward && entry.blames[place] == Blame::Well;
            line = line.and("  ").column(style, word, if is_last { 0 } else { width });
        }
        out.line(match entry.blames[place] {
            Blame::Consequence { of } => {
                line.styled(DIM, format!("  it holds {}", entry.order.name(of)))
            }
            Blame::Own => line.styled(RED, "  found"),
            Blame::Well => line,
        });
    }
}

fn append_findings(out: &mut Text, entry: &StepEntry<'_>) {
    let places: Vec<usize> =
        (0..entry.blames.len()).filter(|place| entry.blames[*place] == Blame::Own).collect();
    if places.is_empty() {
        return;
    }
    out.section("findings");
    for place in places {
        let part = &entry.order.parts[place];
        out.line(
            ReportLine::from("  ")
                .styled(BOLD, entry.order.name(place))
                .styled(DIM, format!("  {}", part.kind)),
        );
        for finding in &entry.readings[place].findings {
            out.line(ReportLine::from("    ").styled(RED, describe_part_finding(finding)));
        }
    }
}

fn append_notes(out: &mut Text, entry: &StepEntry<'_>) {
    for (title, notes) in list_notes(entry) {
        if notes.is_empty() {
            continue;
        }
        out.section(title);
        let width = notes.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, reason) in notes {
            out.line(ReportLine::from("  ").column(BOLD, name, width).and("  ").and(reason));
        }
    }
    let unreached = entry.unreached();
    if !unreached.is_empty() {
        out.section("without a gradient");
        out.line(format!("  none reached {}", unreached.join(", ")));
    }
}

/// The modules of which nothing is known, under the titles of their reasons.
fn list_notes<'a>(entry: &'a StepEntry<'_>) -> [(&'static str, Vec<(&'a str, &'a str)>); 2] {
    let untestable = entry.readings.iter().enumerate().filter_map(|(place, reading)| {
        let PartState::Untestable { reason } = &reading.state else { return None };
        Some((entry.order.name(place), reason.as_str()))
    });
    let left_out = entry.order.left_out.iter().map(|left_out| {
        let name = if left_out.module.is_empty() { &entry.order.model } else { &left_out.module };
        (name.as_str(), left_out.reason.as_str())
    });
    [("untestable", untestable.collect()), ("left out", left_out.collect())]
}

/// The same in a line each, and what no gradient reached.
pub(crate) fn step_notes(entry: &StepEntry<'_>) -> Vec<ReportLine> {
    let mut lines = Vec::new();
    for (title, notes) in list_notes(entry) {
        let told = notes.into_iter().map(|(name, reason)| format!("{title}: {name}: {reason}"));
        lines.extend(told.map(ReportLine::from));
    }
    let unreached = entry.unreached();
    if !unreached.is_empty() {
        lines.push(format!("no gradient reached {}", unreached.join(", ")).into());
    }
    lines
}

/// The last line: the module to look at.
pub(crate) fn conclude_step(entry: &StepEntry<'_>) -> ReportLine {
    let Some(first) = entry.first_of_all() else {
        return conclude_without_finding(entry);
    };
    let findings: Vec<String> =
        entry.readings[first].findings.iter().map(describe_part_finding).collect();
    let others = entry.blames.iter().filter(|blame| **blame == Blame::Own).count() - 1;
    let others = match others {
        0 => String::new(),
        1 => "; 1 more module is not well by itself".to_owned(),
        count => format!("; {count} more modules are not well by themselves"),
    };
    ReportLine::with_style(RED, "found").and(format!(
        ": {}: {}{others}",
        entry.order.name(first),
        findings.join(", ")
    ))
}

fn conclude_without_finding(entry: &StepEntry<'_>) -> ReportLine {
    let untestable = entry.readings.iter();
    let untestable =
        untestable.filter(|reading| matches!(reading.state, PartState::Untestable { .. })).count();
    let told = match entry.trusted {
        Some(_) => "no module differs beyond noise from the trusted revision",
        None => {
            "each module gives what was captured as far as it should, and its gradients are those of its forward"
        }
    };
    if untestable > 0 {
        let count = format_noun_count(untestable as u64, "call");
        return ReportLine::with_style(YELLOW, "untestable")
            .and(format!(": {count} could not be replayed; of the others {told}"));
    }
    let unchecked = entry.readings.iter().flat_map(|reading| &reading.gradients);
    let unchecked =
        unchecked.filter(|check| check.story.verdict() == GradientVerdict::Unknown).count();
    let unchecked = match unchecked {
        0 => String::new(),
        count => format!("; {} not checked", format_noun_count(count as u64, "gradient")),
    };
    ReportLine::with_style(GREEN, "well").and(format!(": {told}{unchecked}"))
}
