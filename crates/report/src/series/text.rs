//! A series for people: the findings first, then a line of characters for each curve.

use anstyle::Style;

use super::sparkline::draw_sparkline;
use super::words::describe_series_finding;
use super::{Curve, SeriesPart, SeriesReport};
use crate::numbers::{format_noun_count, format_optional_number};
use crate::spans::{ReportLine, Text};
use crate::style::{BOLD, COMMIT, DIM, GREEN, RED, YELLOW};
use crate::{Revision, Standing};
use replay_series::{Severity, finite_median};

/// The characters of a curve.
const WIDTH: usize = 40;
/// The lines of a part; more are counted.
const MOST_LINES: usize = 30;

/// The report on `report`, without the errors: these are told as they are met.
pub fn render_series_text(report: &SeriesReport) -> Text {
    let mut out = Text::new();
    render_series_heading(report).into_iter().for_each(|line| out.line(line));
    write_series_findings(&mut out, report);
    let curves = report.curves();
    let name =
        curves.iter().map(|curve| format_curve_name(curve).chars().count()).max().unwrap_or(0);
    let columns = report.series.steps.len().min(WIDTH);
    let title = curves.iter().map(|curve| curve.part.title().len()).max().unwrap_or(0);
    let title = (name + columns + 4).max(title + 2);
    let mut part = None;
    for (index, curve) in curves.iter().enumerate() {
        if part != Some(curve.part) {
            part = Some(curve.part);
            let heading = ReportLine::with_style(BOLD, "").column(BOLD, curve.part.title(), title);
            out.line(ReportLine::new());
            out.line(heading.styled(DIM, "first, last; median, least to most"));
        }
        let place =
            curves[..index].iter().filter(|earlier_curve| earlier_curve.part == curve.part).count();
        if place < MOST_LINES {
            out.line(render_curve_line(curve, [name, columns, title]));
        } else if curves.get(index + 1).is_none_or(|next| next.part != curve.part) {
            let left_out = (place + 1 - MOST_LINES) as u64;
            out.line(ReportLine::with_style(
                DIM,
                format!("  and {} more: --format csv has all", format_noun_count(left_out, "line")),
            ));
        }
    }
    if let Some(words) = describe_alignment(report) {
        out.section("data");
        out.line(format!("  {words}"));
    }
    if curves.is_empty() {
        out.line(ReportLine::new());
        out.line(NO_ROLES);
    }
    out.line(ReportLine::new());
    out.line(render_series_verdict(report));
    out
}

/// The words for a report without a curve.
pub(crate) const NO_ROLES: &str =
    "no tensor is known to be a loss, a gradient or a parameter: [roles] in the harness says so";

/// The subject of the series: steps and revision, the trusted revision, the device.
pub(crate) fn render_series_heading(report: &SeriesReport) -> Vec<ReportLine> {
    let steps = &report.series.steps;
    let mut line = ReportLine::with_style(BOLD, format_noun_count(steps.len() as u64, "step"));
    if let [first, .., last] = steps.as_slice() {
        line = line.and(format!(", {} to {}", first.fixture, last.fixture));
    } else if let [only] = steps.as_slice() {
        line = line.and(format!(", {}", only.fixture));
    }
    let mut lines = vec![match (&report.revision, report.replayed) {
        (Some(at), _) => add_revision(line.and(", at "), at),
        (None, true) => line.and(", at the working tree"),
        (None, false) => line.and(", as captured"),
    }];
    lines.extend(
        report.against.iter().map(|against| add_revision(ReportLine::from("against "), against)),
    );
    let device = report.device.iter();
    lines.extend(
        device.map(|(device, with)| ReportLine::with_style(DIM, format!("{device}, {with}"))),
    );
    lines
}

fn add_revision(line: ReportLine, revision: &Revision) -> ReportLine {
    line.styled(COMMIT, &revision.short).and(" ").and(&revision.subject)
}

fn write_series_findings(out: &mut Text, report: &SeriesReport) {
    if report.findings.is_empty() {
        return;
    }
    out.section("findings");
    for finding in &report.findings {
        let style = match finding.severity() {
            Severity::Wrong => RED,
            Severity::Unusual => YELLOW,
            Severity::Note => DIM,
        };
        let line = ReportLine::from("  ").column(
            style,
            severity_name(finding.severity()),
            "unusual".len(),
        );
        out.line(line.and("  ").and(describe_series_finding(report, finding)));
    }
}

/// The word for it.
pub(crate) fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Wrong => "wrong",
        Severity::Unusual => "unusual",
        Severity::Note => "note",
    }
}

/// The name of a curve, moved in by its depth in the tree of gradients.
fn format_curve_name(curve: &Curve) -> String {
    let is_whole = curve.name == "all";
    match curve.part {
        SeriesPart::Gradients if !is_whole => {
            format!("{}{}", "  ".repeat(1 + curve.name.matches('.').count()), curve.name)
        }
        _ => curve.name.clone(),
    }
}

/// A curve with its range; the widths are those of the name, of the curve, and of both together.
fn render_curve_line(curve: &Curve, [name, columns, title]: [usize; 3]) -> ReportLine {
    /// Digits of each number.
    const DIGITS: usize = 3;
    let known_values: Vec<f64> = curve.values.iter().flatten().copied().collect();
    let mut finite_values = known_values.clone();
    finite_values.retain(|x| x.is_finite());
    let drawn = draw_sparkline(&curve.values, columns);
    let first = known_values.first().copied();
    let first_text = format_optional_number(first, DIGITS);
    let is_constant = known_values.iter().all(|x| Some(*x) == first);
    let range = match known_values.len() {
        1 => first_text,
        _ if is_constant => format!("{first_text} at every step"),
        _ => format!(
            "{first_text}, {}; {}, {} to {}",
            format_optional_number(known_values.last().copied(), DIGITS),
            format_optional_number(finite_median(known_values.iter().copied()), DIGITS),
            format_optional_number(finite_values.iter().copied().reduce(f64::min), DIGITS),
            format_optional_number(finite_values.iter().copied().reduce(f64::max), DIGITS),
        ),
    };
    let line = ReportLine::from("  ").column(Style::new(), &format_curve_name(curve), name);
    line.and("  ").column(GREEN, &drawn, title - name - 4).and(range)
}

/// The words for the alignment of the data, if it was compared.
pub(crate) fn describe_alignment(report: &SeriesReport) -> Option<String> {
    let alignments: Vec<_> =
        report.series.steps.iter().filter_map(|step| step.measured.alignment.as_ref()).collect();
    let right = alignments
        .iter()
        .filter(|alignment| alignment.shift == Some(1) && alignment.differ == 0)
        .count();
    let step_count = format_noun_count(alignments.len() as u64, "step");
    let words = format!("targets are the tokens shifted by one at {right} of {step_count}");
    (!alignments.is_empty()).then_some(words)
}

fn count_findings(report: &SeriesReport, severity: Severity) -> u64 {
    report.findings.iter().filter(|finding| finding.severity() == severity).count() as u64
}

/// How the series came out, in a sentence.
pub(crate) fn render_series_verdict(report: &SeriesReport) -> ReportLine {
    let wrong = count_findings(report, Severity::Wrong);
    let unusual = count_findings(report, Severity::Unusual);
    let standing = report.standing();
    let findings_words = match (wrong, unusual) {
        (0, 0) => "nothing is wrong or unusual".to_owned(),
        (0, unusual) => {
            format!("nothing is wrong, {} to look at", format_noun_count(unusual, "thing"))
        }
        (wrong, 0) => format!("{} wrong", format_noun_count(wrong, "thing")),
        (wrong, unusual) => {
            format!("{} wrong, {unusual} unusual", format_noun_count(wrong, "thing"))
        }
    };
    let errors = match report.errors.len() as u64 {
        0 => String::new(),
        unread => format!("; {} not read", format_noun_count(unread, "step")),
    };
    ReportLine::with_style(standing.style(), series_standing_name(report, standing))
        .and(": ")
        .and(findings_words)
        .and(errors)
}

fn series_standing_name(report: &SeriesReport, standing: Standing) -> &'static str {
    match report.replayed {
        true => standing.name(),
        false if standing.is_wrong() => "wrong",
        false => "captured",
    }
}
