//! Outputs compared with the captured ones of the fixture, for people.

use super::judgement::{at, comparison, verdict_name, verdict_style};
use super::spans::{Line, Text};
use super::style::BOLD;
use crate::judge::{CapturedCheck, Verdict};

/// A block for each output that was captured.
pub(super) fn captured(checks: &[CapturedCheck]) -> Text {
    let mut out = Text::new();
    if checks.is_empty() {
        return out;
    }
    out.section("captured outputs");
    let width = checks.iter().map(|check| check.output.len()).max().unwrap_or(0);
    for check in checks {
        for (number, line) in lines(check).into_iter().enumerate() {
            let name = if number == 0 { check.output.as_str() } else { "" };
            out.line(Line::from("  ").column(BOLD, name, width).and("  ").and(line));
        }
    }
    out
}

/// The lines about one output, the verdict first.
fn lines(check: &CapturedCheck) -> Vec<Line> {
    let style = verdict_style(check.verdict);
    let mut lines = vec![Line::of(style, verdict_name(check.verdict))];
    if check.verdict != Verdict::Identical {
        lines.extend(comparison(check.dtype, &check.dims, &check.comparison));
    }
    lines.extend(check.place.as_ref().map(|place| Line::from(at(place))));
    lines
}

/// A sentence on the outputs with the verdict `worst`, the worst of `checks`.
pub(super) fn sentence(checks: &[CapturedCheck], worst: Verdict) -> String {
    let such = checks.iter().filter(|check| check.verdict == worst);
    let names: Vec<&str> = such.map(|check| check.output.as_str()).collect();
    let is = if names.len() == 1 { "is" } else { "are" };
    let what = match worst {
        Verdict::Identical => "as captured",
        Verdict::Equivalent => "within noise of what was captured",
        _ => "not as captured",
    };
    format!("{} {is} {what}", names.join(", "))
}

/// The places where outputs lie beyond noise.
pub(super) fn places(checks: &[CapturedCheck]) -> Vec<String> {
    let place = |check: &CapturedCheck| {
        check.place.as_ref().map(|place| format!("{} {}", check.output, at(place)))
    };
    checks.iter().filter_map(place).collect()
}
