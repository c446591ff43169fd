//! One replay for people.

use std::fmt::Write;

use super::judgement::{ORDER, gradients, judgement, orders, verdict_line};
use super::numbers::{self, count, dims, none_hoped, short};
use super::style::{BOLD, COMMIT, DIM, GREEN, RED, YELLOW};
use super::{Entry, Revision};
use crate::judge::GradientVerdict;
use crate::replay::{Failure, Outcome, OutputRecord, Status};
use crate::runtime::report::{Fault, LaunchRecord};
use crate::sanitizer::Finding;

/// The report on one fixture at one revision; the verdict is its last line.
pub fn text(entry: &Entry) -> String {
    let mut out = String::new();
    let outcome = &entry.outcome;
    head(&mut out, entry);
    launches(&mut out, outcome);
    outputs(&mut out, outcome);
    out.push_str(&gradients(&entry.gradients));
    out.push_str(&orders(&entry.orders));
    printed(&mut out, outcome);
    if let Some(check) = &entry.snapshot {
        out.push_str(&check.text());
    }
    let snapshot = entry.snapshot.as_ref().filter(|check| check.decides(outcome));
    match (&entry.judgement, snapshot) {
        (Some(judged), _) => {
            out.push_str(&judgement(judged));
            if let Some(culprit) = &entry.culprit {
                let _ = write!(out, "\n{BOLD}culprit{BOLD:#}\n  {}\n", culprit.text);
            }
            let _ = writeln!(out, "\n{}", verdict_line(judged));
        }
        (None, Some(check)) => {
            let _ = writeln!(out, "\n{}", check.styled_sentence());
        }
        (None, None) => verdict(&mut out, entry),
    }
    out
}

/// The line that says which fixture at which revision.
pub fn heading(fixture: &str, revision: Option<&Revision>) -> String {
    match revision {
        Some(Revision { short, subject, .. }) => {
            format!("{BOLD}{fixture}{BOLD:#} at {COMMIT}{short}{COMMIT:#} {subject}")
        }
        None => format!("{BOLD}{fixture}{BOLD:#} at the working tree"),
    }
}

fn head(out: &mut String, entry: &Entry) {
    let Outcome { device_description, compiler, .. } = &entry.outcome;
    let _ = writeln!(out, "{}", heading(&entry.fixture, entry.revision.as_ref()));
    let _ = writeln!(out, "{DIM}{device_description}, {compiler}{DIM:#}");
    if let Some(call) = entry.outcome.call.filter(|&call| call > 0) {
        let _ = writeln!(out, "{DIM}call number {} of the harness{DIM:#}", call + 1);
    }
}

fn launches(out: &mut String, outcome: &Outcome) {
    /// More launches than this are only counted.
    const SHOWN: usize = 16;
    if outcome.launches.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{BOLD}launches{BOLD:#}");
    let shown = &outcome.launches[..outcome.launches.len().min(SHOWN)];
    let widest = |width: fn(&LaunchRecord) -> usize| shown.iter().map(width).max().unwrap_or(0);
    let name = widest(|launch| launch.kernel.len());
    let shape = widest(|launch| launch_shape(launch).len());
    for launch in shown {
        let mut line = format!("  {:name$}{:shape$}", launch.kernel, launch_shape(launch));
        let _ = write!(line, "  {DIM}{}{DIM:#}", launch.site);
        if let Some(error) = &launch.error {
            let _ = write!(line, "  {RED}{error}{RED:#}");
        }
        let _ = writeln!(out, "{line}");
    }
    let more = outcome.launch_count.saturating_sub(shown.len() as u64);
    if more > 0 {
        let _ =
            writeln!(out, "  and {} more", count(more, "launch").replace("launchs", "launches"));
    }
}

/// `<<<256, 34, 136>>>`, as CUDA writes it; dynamic shared memory of 0 is left out.
pub fn launch_shape(launch: &LaunchRecord) -> String {
    let extent = |[x, y, z]: [u32; 3]| match (y, z) {
        (1, 1) => format!("{x}"),
        (_, 1) => format!("({x}, {y})"),
        _ => format!("({x}, {y}, {z})"),
    };
    let (grid, block) = (extent(launch.grid), extent(launch.block));
    match launch.shared_bytes {
        0 => format!("<<<{grid}, {block}>>>"),
        bytes => format!("<<<{grid}, {block}, {bytes}>>>"),
    }
}

fn outputs(out: &mut String, outcome: &Outcome) {
    if outcome.outputs.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{BOLD}outputs{BOLD:#}");
    let name = outcome.outputs.iter().map(|output| output.name.len()).max().unwrap_or(0);
    let kind = outcome.outputs.iter().map(|output| kind(output).len()).max().unwrap_or(0);
    for output in &outcome.outputs {
        let checksum = output.summary.checksum;
        let _ = writeln!(
            out,
            "  {BOLD}{:name$}{BOLD:#}  {:kind$}  {checksum}",
            output.name,
            self::kind(output)
        );
        let _ = writeln!(out, "  {:name$}  {}", "", statistics(output));
    }
}

fn kind(output: &OutputRecord) -> String {
    format!("{} {}", output.dtype, dims(&output.dims))
}

fn statistics(output: &OutputRecord) -> String {
    let summary = &output.summary;
    let unwritten = none_hoped("unwritten", summary.unwritten);
    format!("{}  {unwritten}", numbers::statistics(summary))
}

fn printed(out: &mut String, outcome: &Outcome) {
    /// Lines of the code's own output that are shown.
    const LINES: usize = 12;
    let lines: Vec<&str> = outcome.printed.lines().collect();
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{BOLD}printed{BOLD:#}");
    let left_out = lines.len().saturating_sub(LINES);
    if left_out > 0 {
        let _ = writeln!(out, "  {DIM}({} before these){DIM:#}", count(left_out as u64, "line"));
    }
    for line in &lines[left_out..] {
        let _ = writeln!(out, "  {DIM}|{DIM:#} {line}");
    }
}

fn verdict(out: &mut String, entry: &Entry) {
    let Entry { outcome, gradients, orders, .. } = entry;
    out.push('\n');
    let wrong = gradients.iter().max_by_key(|check| check.verdict);
    let wrong = wrong.filter(|check| check.verdict >= GradientVerdict::Imprecise);
    let _ = match &outcome.status {
        Status::Completed if wrong.is_some() => {
            let check = wrong.expect("it is some");
            writeln!(
                out,
                "{RED}diverged{RED:#}: {} {}",
                check.output,
                match check.verdict {
                    GradientVerdict::Mismatch => "does not match its loss",
                    _ => "is less precise than its noise allows",
                }
            )
        }
        Status::Completed if !orders.is_empty() => {
            writeln!(out, "{RED}diverged{RED:#}: {} {ORDER}", orders[0].output)
        }
        Status::Completed => writeln!(
            out,
            "{GREEN}completed{GREEN:#}: every output is written{}",
            if outcome.outputs.iter().any(|o| o.summary.nan + o.summary.inf > 0) {
                ", not all finite, as the inputs are not"
            } else {
                " and finite"
            }
        ),
        Status::Failed(failures) => {
            for other in failures.iter().skip(1) {
                let _ = writeln!(out, "also: {}", failure(other));
            }
            writeln!(out, "{RED}failed{RED:#}: {}", failure(&failures[0]))
        }
        Status::Untestable { reason, causes, hint } => {
            for cause in causes {
                let _ = writeln!(out, "caused by: {cause}");
            }
            if let Some(hint) = hint {
                let _ = writeln!(out, "hint: {hint}");
            }
            writeln!(out, "{YELLOW}untestable{YELLOW:#}: {reason}")
        }
    };
}

/// What went wrong, in one line.
pub fn failure(failure: &Failure) -> String {
    match failure {
        Failure::Launch { launch } => format!(
            "launch error: {}{} at {}: {}",
            launch.kernel,
            launch_shape(launch),
            launch.site,
            launch.error.as_deref().unwrap_or("refused")
        ),
        Failure::Fault { fault } => self::fault(fault),
        Failure::Exit { code } => {
            format!("exit: the code called exit({code}) before the call returned")
        }
        Failure::Killed { signal } => {
            format!("killed: signal {signal}{}", signal_name(*signal))
        }
        Failure::Timeout { seconds, place } => {
            let place = place.as_ref().and_then(|fault| fault.kernel.as_deref());
            let place = place.map_or("in host code".to_owned(), |kernel| format!("in {kernel}"));
            format!("timeout: still running {place} after {} s", short(*seconds, 4))
        }
        Failure::Overrun { detail } => format!("out-of-bounds write: {detail}"),
        Failure::NonFinite { output, nan, inf, first } => format!(
            "non-finite: {output} has {nan} NaN and {inf} Inf from finite inputs, first at {first:?}"
        ),
        Failure::Unwritten { output, count, of, first } => {
            format!("unwritten: {count} of {of} elements of {output}, first at {first:?}")
        }
        Failure::PoisonDependent { output, count, of, first } => format!(
            "depends on unwritten memory: {count} of {of} elements of {output}, first at {first:?}"
        ),
        Failure::Sanitizer { tool, finding } => {
            format!("{}: {}", tool.name(), self::finding(finding))
        }
    }
}

fn fault(fault: &Fault) -> String {
    let mut text = fault.what.clone();
    if let Some(kernel) = &fault.kernel {
        let _ = write!(text, " in {kernel}");
        if let (Some([bx, by, bz]), Some([tx, ty, tz])) = (fault.block, fault.thread) {
            let _ = write!(text, ", block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz})");
        }
    } else {
        text.push_str(" in host code");
    }
    if !fault.detail.is_empty() {
        let _ = write!(text, ": {}", fault.detail);
    }
    text
}

fn finding(finding: &Finding) -> String {
    let Finding { what, kernel, sites, detail, count, .. } = finding;
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
    use crate::sanitizer::Tool;

    #[test]
    fn what_a_sanitizer_finds_is_told_in_a_line() {
        let finding = Finding {
            what: "Invalid __global__ write of size 4 bytes".to_owned(),
            kernel: Some("ns::past".to_owned()),
            sites: vec!["demo.cu:5".to_owned()],
            block: Some([0, 0, 0]),
            thread: Some([4, 0, 0]),
            address: Some("0x7f0b14800190".to_owned()),
            detail: "Access to 0x7f0b14800190 is out of bounds".to_owned(),
            count: 2,
        };
        let told = failure(&Failure::Sanitizer { tool: Tool::Memcheck, finding: finding.clone() });
        insta::assert_snapshot!(told, @"memcheck: Invalid __global__ write of size 4 bytes in ns::past at demo.cu:5, block (0, 0, 0), thread (4, 0, 0): Access to 0x7f0b14800190 is out of bounds (2 times)");
        let race = Finding {
            what: "Error: race between write and read".to_owned(),
            sites: vec!["demo.cu:11".to_owned(), "demo.cu:12".to_owned()],
            block: None,
            thread: None,
            address: None,
            detail: String::new(),
            ..finding
        };
        let told = failure(&Failure::Sanitizer { tool: Tool::Racecheck, finding: race });
        insta::assert_snapshot!(told, @"racecheck: Error: race between write and read in ns::past at demo.cu:11 and demo.cu:12 (2 times)");
    }
}
