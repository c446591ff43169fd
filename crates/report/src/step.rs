//! A step of a model, module by module, in words.

use super::Revision;
use super::judgement::{verdict_name, verdict_style};
use super::known::captured_word;
use super::numbers::{format_noun_count, format_short_number};
use super::shrink::describe_finding;
use super::spans::{ReportLine, Text};
use super::style::{BOLD, DIM, GREEN, RED, YELLOW};
use anstyle::Style;
use replay_engine::judge::{CapturedRun, GradientVerdict, RunsVerdict, Verdict};
use replay_step::{
    Blame, Direction, PartFinding, PartFindingKind, PartReading, PartState, PassVerdict, StepOrder,
    compare_orders, find_first,
};

/// A step at one revision.
pub struct StepEntry<'a> {
    /// The folder, as the user named it.
    pub fixture: &'a str,
    pub order: &'a StepOrder,
    /// The revision; none for the working tree.
    pub revision: Option<&'a Revision>,
    pub beside: StepBeside<'a>,
    /// What the replays show, in the order of the parts.
    pub readings: &'a [PartReading],
    pub blames: &'a [Blame],
}

/// What each module was compared with.
#[derive(Clone, Copy)]
pub enum StepBeside<'a> {
    /// The captured outputs of the step itself.
    Captured,
    /// The same module at a trusted revision; none if no module could be read there.
    Revision(Option<&'a Revision>),
    /// The same call in a trusted run.
    Run(OtherRun<'a>),
}

/// The captured step of a trusted run.
#[derive(Clone, Copy)]
pub struct OtherRun<'a> {
    /// The folder, as the user named it.
    pub fixture: &'a str,
    pub order: &'a StepOrder,
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

    /// The step of the trusted run, if there is one.
    pub fn other_run(&self) -> Option<OtherRun<'_>> {
        match self.beside {
            StepBeside::Run(other) => Some(other),
            StepBeside::Captured | StepBeside::Revision(_) => None,
        }
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
pub(crate) fn describe_part_finding(entry: &StepEntry<'_>, finding: &PartFinding) -> String {
    match &finding.kind {
        PartFindingKind::PartsFromRun { output, distance, reproduced } => {
            let other = entry.other_run().map_or("the other run", |other| other.fixture);
            let reproduced = match reproduced {
                Some(CapturedRun::Trusted) => format!("; the code gives that of {other}"),
                Some(CapturedRun::Other) => format!("; the code gives that of {}", entry.fixture),
                None => String::new(),
            };
            let distance = format_short_number(*distance, 3);
            format!("{output} parts from that of {other}, {distance} x noise{reproduced}")
        }
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
    let compared = match entry.beside {
        StepBeside::Captured | StepBeside::Revision(None) => format!("at {revision}"),
        StepBeside::Revision(Some(trusted)) => format!("at {revision} against {}", trusted.short),
        StepBeside::Run(other) => format!(
            "against step {} in {}, with the noise of {revision}",
            other.order.step, other.fixture
        ),
    };
    ReportLine::with_style(BOLD, entry.fixture).and(format!(
        ": step {} of {}, {count} of modules, {compared}",
        entry.order.step, entry.order.model,
    ))
}

/// A word for one pass of one call, in its colour.
pub(crate) fn pass_word(
    entry: &StepEntry<'_>,
    place: usize,
    direction: Direction,
) -> (Style, &'static str) {
    let reading = &entry.readings[place];
    let verdict = match (reading.pass(direction).map(|pass| pass.verdict), &reading.state) {
        (Some(PassVerdict::Runs(verdict)), _) => return runs_word(verdict),
        // Between two runs the other pass could not be measured.
        (None, PartState::Untestable { .. }) if entry.other_run().is_some() => None,
        (_, PartState::Untestable { .. }) => return (YELLOW, "untestable"),
        (_, PartState::Alone) => return (DIM, "only here"),
        (Some(PassVerdict::Replayed(verdict)), PartState::Replayed) => Some(verdict),
        (None, PartState::Replayed) => None,
    };
    if matches!(entry.beside, StepBeside::Revision(_)) {
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

fn runs_word(verdict: RunsVerdict) -> (Style, &'static str) {
    match verdict {
        RunsVerdict::Identical => (GREEN, "identical"),
        RunsVerdict::WithinNoise => (GREEN, "within noise"),
        RunsVerdict::FollowsInputs => (DIM, "follows its inputs"),
        RunsVerdict::Unknown => (YELLOW, "differs, noise unknown"),
        RunsVerdict::NotComparable => (YELLOW, "not comparable"),
        RunsVerdict::Parts => (RED, "parts"),
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
            let is_last = pass == Direction::Backward
                && matches!(entry.blames[place], Blame::Well | Blame::FollowsInputs);
            line = line.and("  ").column(style, word, if is_last { 0 } else { width });
        }
        out.line(match entry.blames[place] {
            Blame::Consequence { of } => {
                line.styled(DIM, format!("  it holds {}", entry.order.name(of)))
            }
            Blame::Own => line.styled(RED, "  found"),
            Blame::Well | Blame::FollowsInputs => line,
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
            out.line(ReportLine::from("    ").styled(RED, describe_part_finding(entry, finding)));
        }
    }
}

fn append_notes(out: &mut Text, entry: &StepEntry<'_>) {
    for (title, notes) in list_notes(entry) {
        if notes.is_empty() {
            continue;
        }
        out.section(&title);
        let width = notes.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, reason) in notes {
            let line = ReportLine::from("  ");
            out.line(match reason.as_str() {
                "" => line.styled(BOLD, name),
                reason => line.column(BOLD, name, width).and("  ").and(reason),
            });
        }
    }
    if let Some(moved) = describe_moved_call(entry) {
        out.section("another order");
        out.line(format!("  {moved}"));
    }
    let unreached = entry.unreached();
    if !unreached.is_empty() {
        out.section("without a gradient");
        out.line(format!("  none reached {}", unreached.join(", ")));
    }
}

/// A module and what there is to say of it.
type ModuleNote<'a> = (&'a str, String);

/// The modules of which nothing is known, under the titles of their reasons.
fn list_notes<'a>(entry: &'a StepEntry<'_>) -> Vec<(String, Vec<ModuleNote<'a>>)> {
    let untestable = entry.readings.iter().enumerate().filter_map(|(place, reading)| {
        let PartState::Untestable { reason } = &reading.state else { return None };
        Some((entry.order.name(place), reason.clone()))
    });
    let left_out = entry.order.left_out.iter().map(|left_out| {
        let name = if left_out.module.is_empty() { &entry.order.model } else { &left_out.module };
        (name.as_str(), left_out.reason.clone())
    });
    let mut notes = vec![
        ("untestable".to_owned(), untestable.collect()),
        ("left out".to_owned(), left_out.collect()),
    ];
    if let Some(other) = entry.other_run() {
        let not_comparable = entry.readings.iter().enumerate().flat_map(|(place, reading)| {
            let outputs = reading.not_comparable.iter();
            outputs.map(move |output| (entry.order.name(place), output.clone()))
        });
        let alone = entry.readings.iter().enumerate().filter_map(|(place, reading)| {
            let is_alone = reading.state == PartState::Alone;
            is_alone.then(|| (entry.order.name(place), missing_reason(entry.order, place, &other)))
        });
        let only_there = compare_orders(entry.order, other.order).only_in_other;
        let here = OtherRun { fixture: entry.fixture, order: entry.order };
        let only_there = only_there
            .into_iter()
            .map(|place| (other.order.name(place), missing_reason(other.order, place, &here)));
        notes.push(("not comparable".to_owned(), not_comparable.collect()));
        notes.push(("only here".to_owned(), alone.collect()));
        notes.push((format!("only in {}", other.fixture), only_there.collect()));
    }
    notes
}

/// Why `run` lacks the call at `place` of `order`, in words; empty where it does not say.
fn missing_reason(order: &StepOrder, place: usize, run: &OtherRun<'_>) -> String {
    let module = &order.parts[place].module;
    let left_out = run.order.left_out.iter().find(|left_out| left_out.module == *module);
    left_out.map_or_else(String::new, |left_out| {
        format!("left out in {}: {}", run.fixture, left_out.reason)
    })
}

/// `from attn on`, where the other run has another order.
fn describe_moved_call(entry: &StepEntry<'_>) -> Option<String> {
    let other = entry.other_run()?;
    let moved = compare_orders(entry.order, other.order).first_moved?;
    let name = entry.order.name(moved);
    Some(format!("the calls of {} come in another order from {name} on", other.fixture))
}

/// The same in a line each, and what no gradient reached.
pub(crate) fn step_notes(entry: &StepEntry<'_>) -> Vec<ReportLine> {
    let mut lines = Vec::new();
    for (title, notes) in list_notes(entry) {
        let told = notes.into_iter().map(|(name, reason)| match reason.as_str() {
            "" => format!("{title}: {name}"),
            reason => format!("{title}: {name}: {reason}"),
        });
        lines.extend(told.map(ReportLine::from));
    }
    lines.extend(describe_moved_call(entry).map(ReportLine::from));
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
    let findings = entry.readings[first].findings.iter();
    let findings: Vec<String> =
        findings.map(|finding| describe_part_finding(entry, finding)).collect();
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
    let told = match entry.beside {
        StepBeside::Revision(_) => {
            "no module differs beyond noise from the trusted revision".to_owned()
        }
        StepBeside::Captured => "each module gives what was captured as far as it should, and its gradients are those of its forward".to_owned(),
        StepBeside::Run(other) if entry.blames.contains(&Blame::FollowsInputs) => format!(
            "the inputs of the model differ from those of {}, and no module does more than its code makes of its inputs",
            other.fixture
        ),
        StepBeside::Run(other) => {
            format!("no module differs beyond noise from that of {}", other.fixture)
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
    let mut unchecked = match unchecked {
        0 => String::new(),
        count => format!("; {} not checked", format_noun_count(count as u64, "gradient")),
    };
    let uncompared = entry.readings.iter();
    let uncompared = uncompared.filter(|reading| !reading.is_compared()).count();
    if uncompared > 0 {
        let count = format_noun_count(uncompared as u64, "call");
        unchecked.push_str(&format!("; {count} not compared as a whole"));
    }
    ReportLine::with_style(GREEN, "well").and(format!(": {told}{unchecked}"))
}
