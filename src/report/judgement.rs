//! Two revisions side by side, and gradients against their loss, for people.

use std::fmt::Write;

use anstyle::Style;

use super::numbers::{count, short};
use super::style::{BOLD, DIM, GREEN, RED, YELLOW};
use super::text::{failure, launch_shape};
use crate::judge::{
    GradientCheck, GradientVerdict, Judgement, LaunchChange, OrderDependence, OutputJudgement,
    Verdict,
};
use crate::replay::{Outcome, Status};
use crate::runtime::report::LaunchRecord;
use crate::tensor::unravel;
use crate::verdict::oracle::Finding;

/// The word for a verdict.
pub fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Identical => "identical",
        Verdict::Equivalent => "equivalent",
        Verdict::Untestable => "untestable",
        Verdict::Diverged => "diverged",
        Verdict::Failed => "failed",
    }
}

/// How a verdict is coloured.
pub fn verdict_style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Identical | Verdict::Equivalent => GREEN,
        Verdict::Untestable => YELLOW,
        Verdict::Diverged | Verdict::Failed => RED,
    }
}

/// The word for a finding.
pub fn finding_name(finding: Finding) -> &'static str {
    match finding {
        Finding::Wrong => "wrong",
        Finding::Imprecise => "imprecise",
        Finding::MoreAccurate => "more accurate",
        Finding::AsAccurate => "as accurate",
    }
}

/// What changed from one revision to the other, a block for each output.
pub fn judgement(judgement: &Judgement) -> String {
    let mut out = String::new();
    // What could not be run launched nothing; that is no change.
    let untestable = |outcome: &Outcome| matches!(outcome.status, Status::Untestable { .. });
    let tested = !untestable(&judgement.base) && !untestable(&judgement.got);
    if tested && !judgement.launches.is_empty() {
        let _ = writeln!(out, "\n{BOLD}launches changed{BOLD:#}");
        for change in &judgement.launches {
            let _ = writeln!(out, "  {}", launch_change(change));
        }
    }
    if !judgement.outputs.is_empty() {
        let _ = writeln!(out, "\n{BOLD}outputs{BOLD:#}");
        let width = judgement.outputs.iter().map(|output| output.name.len()).max().unwrap_or(0);
        for output in &judgement.outputs {
            for (number, line) in output_lines(output).into_iter().enumerate() {
                let name = if number == 0 { output.name.as_str() } else { "" };
                let _ = writeln!(out, "  {BOLD}{name:width$}{BOLD:#}  {line}");
            }
        }
    }
    // Of a side that completed the last line says it.
    if judgement.got.status != Status::Completed {
        match &judgement.base.status {
            Status::Failed(failures) => {
                let _ = writeln!(out, "\nthe trusted side failed too: {}", failure(&failures[0]));
            }
            Status::Untestable { reason, .. } => {
                let _ = writeln!(out, "\nthe trusted side is untestable: {reason}");
            }
            Status::Completed => {}
        }
    }
    if let Some(reason) = &judgement.without_shadow {
        let _ = writeln!(out, "\n{DIM}judged by noise alone: {reason}{DIM:#}");
    }
    out
}

/// `kernel<<<256, 256, 2048>>> -> <<<256, 34, 136>>>`.
pub fn launch_change(change: &LaunchChange) -> String {
    let error = |launch: &LaunchRecord| {
        launch.error.as_ref().map_or(String::new(), |error| format!(" ({error})"))
    };
    let whole = |launch: &LaunchRecord| {
        format!("{}{}{}", launch.kernel, launch_shape(launch), error(launch))
    };
    match (&change.before, &change.after) {
        (Some(before), Some(after)) => {
            format!("{} -> {}{}", whole(before), launch_shape(after), error(after))
        }
        (Some(before), None) => format!("gone: {}", whole(before)),
        (None, Some(after)) => format!("new:  {}", whole(after)),
        (None, None) => String::new(),
    }
}

/// The same as a sentence: `launch changed: ...`, `launch gone: ...`, `launch new: ...`.
pub(super) fn launch_line(change: &LaunchChange) -> String {
    let words = launch_change(change);
    match (&change.before, &change.after) {
        (Some(_), Some(_)) => format!("launch changed: {words}"),
        _ => format!("launch {words}"),
    }
}

/// What is said about one output, the verdict first.
pub fn output_lines(output: &OutputJudgement) -> Vec<String> {
    let style = verdict_style(output.verdict);
    let mut lines =
        vec![format!("{style}{}{style:#}{}", verdict_name(output.verdict), meaning(output))];
    if output.verdict == Verdict::Identical {
        if output.comparison.count == 0 {
            lines[0].push_str(": it has no elements");
        }
        lines.extend(output.order.iter().flat_map(order_lines));
        lines.extend(nondeterminism(output));
        return lines;
    }
    let comparison = &output.comparison;
    lines.push(difference(output));
    lines.extend(worst(output));
    if let (Some(base), Some(got)) = (&output.base_accuracy, &output.got_accuracy) {
        lines.push(format!(
            "error against the oracle: {} -> {}",
            short(base.relative_l2, 2),
            short(got.relative_l2, 2)
        ));
    }
    if output.verdict == Verdict::Diverged {
        lines.extend(output.zero_slices.iter().map(|slice| format!("{slice} all zero")));
        lines.extend(output.place.as_ref().map(|place| at(place)));
        let map = output.map.iter().flat_map(|map| map.lines());
        lines.extend(map.map(|line| format!("{DIM}|{line}|{DIM:#}")));
    }
    if comparison.undecided > 0 {
        lines.push(format!("{} undecided: their noise is infinite", comparison.undecided));
    }
    let flips = output.base_noise.flips + output.got_noise.flips;
    if flips > 0 {
        lines.push(format!(
            "{} in one or two replays only: a tie, a clamp or a narrow rounding",
            if flips == 1 {
                "1 element jumps".to_owned()
            } else {
                format!("{flips} elements jump")
            }
        ));
    }
    lines.extend(output.order.iter().flat_map(order_lines));
    lines.extend(nondeterminism(output));
    lines
}

/// How much of an output differs.
fn difference(output: &OutputJudgement) -> String {
    let comparison = &output.comparison;
    let share = percent(comparison.differing, comparison.count);
    let relative = short(comparison.relative_l2, 2);
    match output.dtype.is_float() {
        true => {
            let beyond = count(comparison.beyond, "element");
            format!("{share} of bits differ, rel. {relative}, {beyond} beyond noise")
        }
        false => format!("{share} of elements differ, rel. {relative}; integers have no noise"),
    }
}

/// The element that lies furthest off.
fn worst(output: &OutputJudgement) -> Option<String> {
    let worst = output.comparison.worst.as_ref()?;
    let shape: Vec<usize> = output.dims.iter().map(|dim| dim.size).collect();
    let place = match shape.is_empty() {
        true => String::new(),
        false => format!(" at {:?}", unravel(worst.index as usize, &shape)),
    };
    let values = format!("worst{place}: {} -> {}", short(worst.base, 9), short(worst.got, 9));
    // An integer has no noise, and infinity no distance.
    let measured = output.dtype.is_float() && worst.ulps.is_finite();
    let (ratio, ulps) = (short(worst.ratio, 2), short(worst.ulps, 3));
    Some(if measured { format!("{values}, {ratio} x noise, {ulps} ulp") } else { values })
}

fn nondeterminism(output: &OutputJudgement) -> Option<String> {
    let found = output.nondeterminism.as_ref()?;
    Some(format!(
        "{YELLOW}not deterministic{YELLOW:#}: two identical replays differ in {}, by at most {}",
        count(found.differing, "element"),
        short(found.max_abs, 2)
    ))
}

fn meaning(output: &OutputJudgement) -> String {
    let shadow = output.shadow.filter(|shadow| shadow.changed > 0);
    match (output.verdict, output.finding) {
        (Verdict::Diverged, Some(Finding::Wrong)) => {
            let rel = shadow.map_or(String::new(), |shadow| {
                format!(" (rel. {})", short(shadow.relative_l2, 2))
            });
            format!(": wrong, not imprecise: the float64 shadow changed too{rel}")
        }
        (Verdict::Diverged, Some(Finding::Imprecise)) => {
            ": imprecise, not wrong: the float64 shadow is the same".to_owned()
        }
        (Verdict::Diverged, Some(Finding::MoreAccurate)) => {
            ": more accurate, no regression".to_owned()
        }
        (Verdict::Diverged, Some(Finding::AsAccurate)) => {
            ": as far from the oracle as before".to_owned()
        }
        (Verdict::Diverged, None) if output.order.is_some() && output.comparison.beyond == 0 => {
            ": in the order of the indices it agrees, in others it does not".to_owned()
        }
        (Verdict::Equivalent, _) => {
            let ratio = output.comparison.worst.map_or(0.0, |worst| worst.ratio);
            format!(": within noise, at most {} x", short(ratio, 2))
        }
        _ => String::new(),
    }
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_owned();
    }
    format!("{} %", short(100.0 * part as f64 / whole as f64, 3))
}

/// The last line: what the comparison comes to.
pub fn verdict_line(judgement: &Judgement) -> String {
    let style = verdict_style(judgement.verdict);
    let name = verdict_name(judgement.verdict);
    let reason = match (&judgement.got.status, &judgement.base.status) {
        (Status::Failed(failures), _) => failure(&failures[0]),
        (Status::Untestable { reason, .. }, _) => reason.clone(),
        (_, Status::Failed(failures)) => {
            format!("the trusted side failed: {}", failure(&failures[0]))
        }
        (_, Status::Untestable { reason, .. }) => {
            format!("the trusted side is untestable: {reason}")
        }
        _ => of_outputs(&judgement.outputs, judgement.verdict),
    };
    format!("{style}{name}{style:#}: {reason}")
}

fn of_outputs(outputs: &[OutputJudgement], verdict: Verdict) -> String {
    let such: Vec<String> = outputs
        .iter()
        .filter(|output| output.verdict == verdict)
        .map(|output| match (verdict, output.finding) {
            (Verdict::Diverged, Some(finding)) => {
                format!("{} ({})", output.name, finding_name(finding))
            }
            (Verdict::Diverged, None) if output.order.is_some() => {
                format!("{} {ORDER}", output.name)
            }
            _ => output.name.clone(),
        })
        .collect();
    such.join(", ")
}

/// `at vocab 3`, or `everywhere`.
pub(super) fn at(place: &str) -> String {
    if place == "everywhere" { place.to_owned() } else { format!("at {place}") }
}

/// What every report on such an output begins with.
pub(super) const ORDER: &str = "depends on the order of blocks and threads";

/// What was found about an output that depends on the order of blocks and threads.
pub fn order_lines(found: &OrderDependence) -> [String; 2] {
    let place = found.place.as_ref().map_or(String::new(), |place| format!(", {}", at(place)));
    [
        format!("{RED}{ORDER}{RED:#}: a race or a missing barrier"),
        format!(
            "{} of {} elements{place}; {:?}: {} -> {} in another order, rounding moves it by {}",
            found.elements,
            found.count,
            found.index,
            short(found.value, 9),
            short(found.other, 9),
            short(found.rounding, 2),
        ),
    ]
}

/// Two lines for each output that depends on the order of blocks and threads.
pub(super) fn orders(found: &[OrderDependence]) -> String {
    let mut out = String::new();
    if found.is_empty() {
        return out;
    }
    let _ = writeln!(out, "\n{BOLD}orders{BOLD:#}");
    let width = found.iter().map(|found| found.output.len()).max().unwrap_or(0);
    for found in found {
        let [what, where_] = order_lines(found);
        let _ = writeln!(out, "  {BOLD}{:width$}{BOLD:#}  {what}", found.output);
        let _ = writeln!(out, "  {:width$}  {where_}", "");
    }
    out
}

/// One line for each gradient that was held against its loss.
pub fn gradients(checks: &[GradientCheck]) -> String {
    let mut out = String::new();
    if checks.is_empty() {
        return out;
    }
    let _ = writeln!(out, "\n{BOLD}gradients{BOLD:#}");
    let width = checks.iter().map(|check| check.output.len()).max().unwrap_or(0);
    for check in checks {
        let _ = writeln!(out, "  {BOLD}{:width$}{BOLD:#}  {}", check.output, gradient(check));
    }
    out
}

/// What was found about one gradient.
pub fn gradient(check: &GradientCheck) -> String {
    let GradientCheck { of, gradient_of, .. } = check;
    let numbers = format!(
        "{} directional derivatives, worst rel. {} (noise {})",
        check.directions,
        short(check.worst, 2),
        short(check.error, 2)
    );
    match check.verdict {
        GradientVerdict::Matches => {
            format!("{GREEN}matches{GREEN:#} d {of} / d {gradient_of}: {numbers}")
        }
        GradientVerdict::Mismatch => {
            format!("{RED}does not match{RED:#} d {of} / d {gradient_of}: {numbers}")
        }
        GradientVerdict::Imprecise => format!(
            "{RED}imprecise{RED:#}: the float64 shadow matches d {of} / d {gradient_of}, the \
             output is off by rel. {}, {} x its noise",
            short(check.native_error, 2),
            short(check.native_ratio, 2)
        ),
        GradientVerdict::Unknown => format!(
            "{YELLOW}not checked{YELLOW:#}: {}",
            check.reason.as_deref().unwrap_or("no reason is known")
        ),
    }
}
