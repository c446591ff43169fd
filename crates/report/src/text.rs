//! One replay for people.

use std::fmt::Write;

use super::accesses::render_access_section;
use super::judgement::{render_gradients_text, render_judgement_text, render_orders_text};
use super::known::render_known_outputs;
use super::numbers::{
    self, format_dims, format_noun_count, format_plural_count, format_short_number,
    render_unwanted_count,
};
use super::spans::{ReportLine, Text};
use super::style::{BOLD, COMMIT, DIM, RED};
use super::{ReportEntry, Revision, Standing, standing};
use replay_base::process::memory::MemoryExcess;
use replay_cuda::sanitizer::SanitizerFinding;
use replay_engine::trial::{Failure, Outcome, OutputRecord, Status};
use replay_runtime::report::{LaunchRecord, ReplayFault};

/// The report on one fixture at one revision. The verdict comes last; only advice follows it.
pub fn render_replay_text(entry: &ReportEntry) -> Text {
    let mut out = Text::new();
    let outcome = &entry.outcome;
    write_replay_head(&mut out, entry);
    write_launch_section(&mut out, outcome);
    write_output_section(&mut out, entry);
    out.append(render_known_outputs(entry));
    out.append(render_gradients_text(&entry.gradients));
    out.append(render_orders_text(&entry.orders));
    if let Some(entry_accesses) = &entry.accesses {
        out.append(render_access_section(entry_accesses));
    }
    write_printed_lines(&mut out, outcome);
    if let Some(check) = &entry.snapshot {
        out.append(check.text());
    }
    if let Some(entry_judgement) = &entry.judgement {
        out.append(render_judgement_text(entry_judgement));
    }
    if let Some(culprit) = &entry.culprit {
        out.section("culprit");
        out.line(format!("  {}", culprit.text));
        for output_blame in
            culprit.outputs.iter().filter(|output_blame| output_blame.text != culprit.text)
        {
            out.line(format!("  {}: {}", output_blame.output, output_blame.text));
        }
    }
    write_verdict_lines(&mut out, entry);
    out
}

/// The report on one of several fixtures: a line, and below it the faults.
pub fn short_text(entry: &ReportEntry) -> Text {
    let mut out = Text::new();
    let title = standing::format_entry_title(entry);
    let standing = Standing::from_entry(entry);
    let verdict = standing::render_entry_verdict(entry);
    let line = ReportLine::with_style(BOLD, title).and(": ").and(verdict.clone());
    out.line(line);
    if standing > Standing::Equivalent {
        let verdict_words = verdict.words();
        for reason in standing::list_standing_reasons(entry) {
            // The line's own reason is not repeated, be it with another word before it.
            if !verdict_words.ends_with(&reason) && !reason.ends_with(&verdict_words) {
                out.line(format!("  {reason}"));
            }
        }
        let hint = match &entry.outcome.status {
            Status::Untestable { hint, .. } => hint.as_deref(),
            _ => entry.snapshot.as_ref().and_then(|check| check.hint()),
        };
        hint.into_iter().for_each(|hint| out.line(format!("  hint: {hint}")));
    }
    let unchecked = standing::list_missing_checks(entry).into_iter();
    unchecked
        .for_each(|line| out.line(ReportLine::with_style(DIM, format!("  not checked: {line}"))));
    let written_line = entry.snapshot.as_ref().and_then(|check| check.written_line());
    written_line.into_iter().for_each(|line| out.line(format!("  {line}")));
    out
}

/// The line with the fixture and the revision.
pub fn render_replay_heading(fixture: &str, revision: Option<&Revision>) -> ReportLine {
    let line = ReportLine::with_style(BOLD, fixture).and(" at ");
    match revision {
        Some(Revision { short, subject, .. }) => line.styled(COMMIT, short).and(" ").and(subject),
        None => line.and("the working tree"),
    }
}

/// The line with the trusted revision, if one was asked for.
pub(super) fn render_trusted_line(entry: &ReportEntry) -> Option<ReportLine> {
    let Revision { short, subject, .. } = entry.trusted.as_ref()?;
    Some(ReportLine::from("against ").styled(COMMIT, short).and(" ").and(subject))
}

fn write_replay_head(out: &mut Text, entry: &ReportEntry) {
    let Outcome { device_description, compiler, .. } = &entry.outcome;
    out.line(render_replay_heading(&entry.fixture, entry.revision.as_ref()));
    render_trusted_line(entry).into_iter().for_each(|line| out.line(line));
    out.line(ReportLine::with_style(DIM, format!("{device_description}, {compiler}")));
    if let Some(call) = entry.outcome.call.filter(|&call| call > 0) {
        out.line(ReportLine::with_style(DIM, format!("call number {} of the harness", call + 1)));
    }
}

fn write_launch_section(out: &mut Text, outcome: &Outcome) {
    /// More launches than this are only counted.
    const SHOWN: usize = 16;
    if outcome.launches.is_empty() {
        return;
    }
    out.section("launches");
    let shown_launches = &outcome.launches[..outcome.launches.len().min(SHOWN)];
    let name = shown_launches.iter().map(|launch| launch.kernel.len()).max().unwrap_or(0);
    let shape = shown_launches.iter().map(|launch| launch_shape(launch).len()).max().unwrap_or(0);
    for launch in shown_launches {
        let call = format!("  {:name$}{:shape$}  ", launch.kernel, launch_shape(launch));
        let line = ReportLine::from(call).styled(DIM, &launch.site);
        out.line(match &launch.error {
            Some(error) => line.and("  ").styled(RED, error),
            None => line,
        });
    }
    let left_out = outcome.launch_count.saturating_sub(shown_launches.len() as u64);
    if left_out > 0 {
        out.line(format!("  and {} more", format_plural_count(left_out, "launch", "launches")));
    }
}

/// `<<<256, 34, 136>>>`, as CUDA writes it; dynamic shared memory of 0 is left out.
pub fn launch_shape(launch: &LaunchRecord) -> String {
    let grid = format_extent(launch.grid);
    let block = format_extent(launch.block);
    match launch.shared_bytes {
        0 => format!("<<<{grid}, {block}>>>"),
        bytes => format!("<<<{grid}, {block}, {bytes}>>>"),
    }
}

fn format_extent([x, y, z]: [u32; 3]) -> String {
    match (y, z) {
        (1, 1) => format!("{x}"),
        (_, 1) => format!("({x}, {y})"),
        _ => format!("({x}, {y}, {z})"),
    }
}

fn write_output_section(out: &mut Text, entry: &ReportEntry) {
    let outcome = &entry.outcome;
    if outcome.outputs.is_empty() {
        return;
    }
    out.section("outputs");
    let name = outcome.outputs.iter().map(|output| output.name.len()).max().unwrap_or(0);
    let kind =
        outcome.outputs.iter().map(|output| format_output_kind(output).len()).max().unwrap_or(0);
    for output in &outcome.outputs {
        let checksum = output.summary.checksum;
        let words = format!("  {:kind$}  {checksum}", self::format_output_kind(output));
        out.line(ReportLine::from("  ").column(BOLD, &output.name, name).and(words));
        let unwritten = if output.shows_unwritten {
            render_unwanted_count("unwritten", output.summary.unwritten)
        } else {
            ReportLine::from("unwritten unknown")
        };
        let statistics = numbers::render_statistics(&output.summary).and("  ").and(unwritten);
        out.line(ReportLine::from(" ".repeat(name + 4)).and(statistics));
    }
}

fn format_output_kind(output: &OutputRecord) -> String {
    format!("{} {}", output.dtype, format_dims(&output.dims))
}

fn write_printed_lines(out: &mut Text, outcome: &Outcome) {
    /// The most lines of the code's own output.
    const LINES: usize = 12;
    let lines: Vec<&str> = outcome.printed.lines().collect();
    if lines.is_empty() {
        return;
    }
    out.section("printed");
    let left_out = lines.len().saturating_sub(LINES);
    if left_out > 0 {
        let words = format!("({} before these)", format_noun_count(left_out as u64, "line"));
        out.line(ReportLine::from("  ").styled(DIM, words));
    }
    for line in &lines[left_out..] {
        out.line(ReportLine::from("  ").styled(DIM, "|").and(" ").and(*line));
    }
}

fn write_verdict_lines(out: &mut Text, entry: &ReportEntry) {
    out.line(ReportLine::new());
    if let Status::Failed(failures) = &entry.outcome.status
        && !standing::is_non_finite_on_both(entry)
    {
        for further_failure in failures.iter().skip(1) {
            out.line(format!("also: {}", describe_failure(further_failure)));
        }
    }
    out.line(standing::render_entry_verdict(entry));
    if let Status::Untestable { causes, hint, .. } = &entry.outcome.status {
        causes.iter().flat_map(|cause| caused_by(cause)).for_each(|line| out.line(line));
        hint.iter().for_each(|hint| out.line(format!("hint: {hint}")));
    }
    if let Some(hint) = entry.snapshot.as_ref().and_then(|check| check.hint()) {
        out.line(format!("hint: {hint}"));
    }
}

/// The lines of a cause, each on a line of its own.
pub(super) fn caused_by(cause: &str) -> Vec<String> {
    let lines = cause.lines().enumerate().map(|(number, line)| match number {
        0 => format!("caused by: {line}"),
        _ => format!("           {line}"),
    });
    lines.collect()
}

/// The failure in one line.
pub fn describe_failure(failure: &Failure) -> String {
    match failure {
        Failure::Launch { launch } => format!(
            "launch error: {}{} at {}: {}",
            launch.kernel,
            launch_shape(launch),
            launch.site,
            launch.error.as_deref().unwrap_or("refused")
        ),
        Failure::Fault { fault } => self::describe_fault(fault),
        Failure::Exit { code } => {
            format!("exit: the code called exit({code}) before the call returned")
        }
        Failure::Status { code } => format!("exit: the program ended with exit status {code}"),
        Failure::Outputs { problem, .. } => format!("outputs: {problem}"),
        Failure::OutsideRead { output, count, of, first } => {
            let first = first_at(first);
            format!("reads outside its tensors: {count} of {of} elements of {output}{first}")
        }
        Failure::Raised { message } => format!("raised: {message}"),
        Failure::EndsByPoison { outside: true, failure } => {
            let failure_words = self::describe_failure(failure);
            format!("reads outside its tensors: with NaN around them it fails: {failure_words}")
        }
        Failure::EndsByPoison { outside: false, failure } => {
            let failure_words = self::describe_failure(failure);
            format!(
                "depends on unwritten memory: with other values there it fails: {failure_words}"
            )
        }
        Failure::EndsByChance { failure } => {
            format!(
                "not deterministic: an identical replay fails: {}",
                self::describe_failure(failure)
            )
        }
        Failure::NotDeterministic { output, count, of, first, max_abs } => format!(
            "not deterministic: identical replays differ in {count} of {of} elements of \
             {output}, by at most {}{}",
            format_short_number(*max_abs, 2),
            first_at(first)
        ),
        Failure::Killed { signal } => {
            format!("killed: signal {signal}{}", signal_name(*signal))
        }
        Failure::Timeout { seconds, place } => {
            let place = place.as_ref().and_then(|fault| fault.kernel.as_deref());
            let place = place.map_or("in host code".to_owned(), |kernel| format!("in {kernel}"));
            format!("timeout: still running {place} after {} s", format_short_number(*seconds, 4))
        }
        Failure::Memory { taken, limit } => {
            let excess = MemoryExcess { taken: *taken, limit: *limit };
            format!("memory: the program {excess}")
        }
        Failure::Overrun { detail } => format!("out-of-bounds write: {detail}"),
        Failure::NonFinite { output, nan, inf, first } => {
            let first = first_at(first);
            format!("non-finite: {output} has {nan} NaN and {inf} Inf from finite inputs{first}")
        }
        Failure::Unwritten { output, count, of, first } => {
            format!("unwritten: {count} of {of} elements of {output}{}", first_at(first))
        }
        Failure::PoisonDependent { output, count, of, first } => {
            let first = first_at(first);
            format!("depends on unwritten memory: {count} of {of} elements of {output}{first}")
        }
        Failure::Sanitizer { tool, finding } => {
            format!("{}: {}", tool.name(), self::describe_sanitizer_finding(finding))
        }
    }
}

/// `, first at [0, 3]`; a scalar has no index.
fn first_at(index: &[usize]) -> String {
    if index.is_empty() { String::new() } else { format!(", first at {index:?}") }
}

fn describe_fault(fault: &ReplayFault) -> String {
    let mut text = fault.what.clone();
    if let Some(kernel) = &fault.kernel {
        let _ = write!(text, " in {kernel}");
        if let (Some([bx, by, bz]), Some([tx, ty, tz])) = (fault.block, fault.thread) {
            let _ = write!(text, ", block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz})");
        }
    } else if !fault.tells_host_code() {
        text.push_str(" in host code");
    }
    if !fault.detail.is_empty() {
        let _ = write!(text, ": {}", fault.detail);
    }
    text
}

fn describe_sanitizer_finding(finding: &SanitizerFinding) -> String {
    let SanitizerFinding { what, kernel, sites, detail, count, .. } = finding;
    let mut text = what.clone();
    if let Some(kernel) = kernel {
        let _ = write!(text, " in {kernel}");
    }
    if !sites.is_empty() {
        let _ = write!(text, " at {}", sites.join(" and "));
    }
    if let (Some([bx, by, bz]), Some([tx, ty, tz])) = (finding.block, finding.thread) {
        let _ = write!(text, ", block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz})");
    }
    if !detail.is_empty() {
        let _ = write!(text, ": {detail}");
    }
    if *count > 1 {
        let _ = write!(text, " ({count} times)");
    }
    text
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGKILL => " (SIGKILL, which the code sent to itself)",
        libc::SIGSEGV => " (SIGSEGV)",
        libc::SIGABRT => " (SIGABRT)",
        libc::SIGBUS => " (SIGBUS)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_cuda::sanitizer::Tool;

    #[test]
    fn what_a_sanitizer_finds_is_told_in_a_line() {
        let finding = SanitizerFinding {
            what: "Invalid __global__ write of size 4 bytes".to_owned(),
            kernel: Some("ns::past".to_owned()),
            sites: vec!["demo.cu:5".to_owned()],
            block: Some([0, 0, 0]),
            thread: Some([4, 0, 0]),
            address: Some("0x7f0b14800190".to_owned()),
            detail: "Access to 0x7f0b14800190 is out of bounds".to_owned(),
            count: 2,
        };
        let told = describe_failure(&Failure::Sanitizer {
            tool: Tool::Memcheck,
            finding: finding.clone(),
        });
        insta::assert_snapshot!(told, @"memcheck: Invalid __global__ write of size 4 bytes in ns::past at demo.cu:5, block (0, 0, 0), thread (4, 0, 0): Access to 0x7f0b14800190 is out of bounds (2 times)");
        let race = SanitizerFinding {
            what: "Error: race between write and read".to_owned(),
            sites: vec!["demo.cu:11".to_owned(), "demo.cu:12".to_owned()],
            block: None,
            thread: None,
            address: None,
            detail: String::new(),
            ..finding
        };
        let told = describe_failure(&Failure::Sanitizer { tool: Tool::Racecheck, finding: race });
        insta::assert_snapshot!(told, @"racecheck: Error: race between write and read in ns::past at demo.cu:11 and demo.cu:12 (2 times)");
    }
}
