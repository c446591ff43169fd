//! A series for people: the findings first, then a line of characters for each curve.

use anstyle::Style;

use super::sparkline::sparkline;
use super::words::sentence;
use super::{Curve, Part, SeriesReport};
use crate::report::numbers::{count, short};
use crate::report::spans::{Line, Text};
use crate::report::style::{BOLD, COMMIT, DIM, GREEN, RED, YELLOW};
use crate::report::{Revision, Standing};
use crate::series::{Severity, median};

/// The characters of a curve.
const WIDTH: usize = 40;
/// The lines of a part; more are counted.
const MOST_LINES: usize = 30;

/// The report on `report`, without the errors, which are told as they are met.
pub fn series(report: &SeriesReport) -> Text {
    let mut out = Text::new();
    heading(report).into_iter().for_each(|line| out.line(line));
    findings(&mut out, report);
    let curves = report.curves();
    let name = curves.iter().map(|curve| label(curve).chars().count()).max().unwrap_or(0);
    let columns = report.series.steps.len().min(WIDTH);
    let title = curves.iter().map(|curve| curve.part.title().len()).max().unwrap_or(0);
    let title = (name + columns + 4).max(title + 2);
    let mut part = None;
    for (at, curve) in curves.iter().enumerate() {
        if part != Some(curve.part) {
            part = Some(curve.part);
            let heading = Line::of(BOLD, "").column(BOLD, curve.part.title(), title);
            out.line(Line::new());
            out.line(heading.styled(DIM, "first, last; median, least to most"));
        }
        let place = curves[..at].iter().filter(|other| other.part == curve.part).count();
        if place < MOST_LINES {
            out.line(line(curve, [name, columns, title]));
        } else if curves.get(at + 1).is_none_or(|next| next.part != curve.part) {
            let more = (place + 1 - MOST_LINES) as u64;
            out.line(Line::of(
                DIM,
                format!("  and {} more: --format csv has all", count(more, "line")),
            ));
        }
    }
    if let Some(words) = alignment(report) {
        out.section("data");
        out.line(format!("  {words}"));
    }
    if curves.is_empty() {
        out.line(Line::new());
        out.line(NO_ROLES);
    }
    out.line(Line::new());
    out.line(verdict(report));
    out
}

/// What a report says that has no curve.
pub(in crate::report) const NO_ROLES: &str =
    "no tensor is known to be a loss, a gradient or a parameter: [roles] in the harness says so";

/// What the series is of: steps and revision, the trusted revision, the device.
pub(in crate::report) fn heading(report: &SeriesReport) -> Vec<Line> {
    let steps = &report.series.steps;
    let mut line = Line::of(BOLD, count(steps.len() as u64, "step"));
    if let [first, .., last] = steps.as_slice() {
        line = line.and(format!(", {} to {}", first.fixture, last.fixture));
    } else if let [only] = steps.as_slice() {
        line = line.and(format!(", {}", only.fixture));
    }
    let revision = |line: Line, revision: &Revision| {
        line.styled(COMMIT, &revision.short).and(" ").and(&revision.subject)
    };
    let mut lines = vec![match (&report.revision, report.replayed) {
        (Some(at), _) => revision(line.and(", at "), at),
        (None, true) => line.and(", at the working tree"),
        (None, false) => line.and(", as captured"),
    }];
    lines.extend(report.against.iter().map(|against| revision(Line::from("against "), against)));
    let device = report.device.iter();
    lines.extend(device.map(|(device, with)| Line::of(DIM, format!("{device}, {with}"))));
    lines
}

fn findings(out: &mut Text, report: &SeriesReport) {
    if report.findings.is_empty() {
        return;
    }
    out.section("findings");
    for finding in &report.findings {
        let style = match finding.severity {
            Severity::Wrong => RED,
            Severity::Unusual => YELLOW,
            Severity::Note => DIM,
        };
        let line = Line::from("  ").column(style, severity(finding.severity), "unusual".len());
        out.line(line.and("  ").and(sentence(report, &finding.kind)));
    }
}

/// The word for it.
pub(in crate::report) fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Wrong => "wrong",
        Severity::Unusual => "unusual",
        Severity::Note => "note",
    }
}

/// The name of a curve, moved in by its depth in the tree of gradients.
fn label(curve: &Curve) -> String {
    let is_whole = curve.name == "all";
    match curve.part {
        Part::Gradients if !is_whole => {
            format!("{}{}", "  ".repeat(1 + curve.name.matches('.').count()), curve.name)
        }
        _ => curve.name.clone(),
    }
}

/// A curve with its range; `name`, the curve and what stands before the range have these widths.
fn line(curve: &Curve, [name, columns, title]: [usize; 3]) -> Line {
    let known = || curve.values.iter().flatten().copied();
    let finite = || known().filter(|x| x.is_finite());
    let number = |x: Option<f64>| x.map_or("none".to_owned(), |x| short(x, 3));
    let drawn = sparkline(&curve.values, columns);
    let first = known().next();
    let is_constant = known().all(|x| Some(x) == first);
    let range = match known().count() {
        1 => number(first),
        _ if is_constant => format!("{} at every step", number(first)),
        _ => format!(
            "{}, {}; {}, {} to {}",
            number(first),
            number(known().last()),
            number(median(known())),
            number(finite().reduce(f64::min)),
            number(finite().reduce(f64::max)),
        ),
    };
    let line = Line::from("  ").column(Style::new(), &label(curve), name);
    line.and("  ").column(GREEN, &drawn, title - name - 4).and(range)
}

/// What is said of the data, where it was compared.
pub(in crate::report) fn alignment(report: &SeriesReport) -> Option<String> {
    let all: Vec<_> =
        report.series.steps.iter().filter_map(|step| step.measured.alignment.as_ref()).collect();
    let right = all.iter().filter(|one| one.shift == Some(1) && one.differ == 0).count();
    let of = count(all.len() as u64, "step");
    let words = format!("targets are the tokens shifted by one at {right} of {of}");
    (!all.is_empty()).then_some(words)
}

/// How the series came out, in a sentence.
pub(in crate::report) fn verdict(report: &SeriesReport) -> Line {
    let of =
        |severity| report.findings.iter().filter(|one| one.severity == severity).count() as u64;
    let (wrong, unusual) = (of(Severity::Wrong), of(Severity::Unusual));
    let standing = report.standing();
    let found = match (wrong, unusual) {
        (0, 0) => "nothing is wrong or unusual".to_owned(),
        (0, unusual) => format!("nothing is wrong, {} to look at", count(unusual, "thing")),
        (wrong, 0) => format!("{} wrong", count(wrong, "thing")),
        (wrong, unusual) => format!("{} wrong, {unusual} unusual", count(wrong, "thing")),
    };
    let style = match standing {
        standing if standing.is_wrong() => RED,
        standing if standing.is_untold() => YELLOW,
        _ => GREEN,
    };
    let errors = match report.errors.len() as u64 {
        0 => String::new(),
        refused => format!("; {} not read", count(refused, "step")),
    };
    Line::of(style, word(report, standing)).and(": ").and(found).and(errors)
}

fn word(report: &SeriesReport, standing: Standing) -> &'static str {
    match report.replayed {
        true => standing.name(),
        false if standing.is_wrong() => "wrong",
        false => "captured",
    }
}
