//! The page of `replay series FIXTURE...`.

use maud::{Markup, html};

use super::super::numbers::count;
use super::super::series::{NO_ROLES, alignment, heading, severity, verdict};
use super::super::{Curve, Part, RunRecord, SeriesReport, finding_sentence};
use super::chart::steps;
use super::shell::{Head, Mood, badge, document, refusals};
use crate::series::Severity;

/// The pictures of a part; curves beyond them are counted.
const MOST_PICTURES: usize = 48;

/// The page on a run.
pub fn series_html(report: &SeriesReport, run: &RunRecord) -> String {
    let curves = report.curves();
    let names: Vec<String> =
        (0..report.series.steps.len()).map(|place| report.step_name(place)).collect();
    let body = html! {
        (findings(report))
        @for curves in curves.chunk_by(together) {
            (part(curves, &names))
        }
        @if curves.is_empty() { section class="card" { p { (NO_ROLES) } } }
        (refusals(&report.errors))
    };
    document(&head(report), &body, run)
}

fn head(report: &SeriesReport) -> Head {
    let mut lines = heading(report).into_iter();
    let about = lines.next().unwrap_or_default();
    let unusual = report.findings.iter().any(|one| one.severity == Severity::Unusual);
    let mood = match Mood::from(report.standing()) {
        Mood::Good if unusual => Mood::Caution,
        mood => mood,
    };
    Head { kind: "replay series", about, mood, verdict: verdict(report), notes: lines.collect() }
}

fn findings(report: &SeriesReport) -> Markup {
    let data = alignment(report);
    html! {
        @if !report.findings.is_empty() || data.is_some() {
            section class="card" {
                h2 { "Findings" }
                ul class="lines" {
                    @for finding in &report.findings {
                        li {
                            (badge(mood(finding.severity), severity(finding.severity))) " "
                            (finding_sentence(report, &finding.kind))
                        }
                    }
                    @if let Some(words) = data { li class="dim" { (words) } }
                }
            }
        }
    }
}

fn mood(severity: Severity) -> Mood {
    match severity {
        Severity::Wrong => Mood::Bad,
        Severity::Unusual => Mood::Caution,
        Severity::Note => Mood::Untold,
    }
}

/// Whether two curves are shown in one card.
fn together(one: &Curve, other: &Curve) -> bool {
    one.part == other.part || (of_all(one.part) && of_all(other.part))
}

/// Whether there is one curve of a part, of the whole training.
fn of_all(part: Part) -> bool {
    matches!(part, Part::Loss | Part::LearningRate | Part::NormBefore | Part::Clipping)
}

/// What the axis of a part says.
fn axis(part: Part) -> &'static str {
    match part {
        Part::Loss => "loss",
        Part::LearningRate => "learning rate",
        Part::NormBefore | Part::Gradients => "L2 norm",
        Part::Clipping => "factor",
        Part::Updates => "ratio",
        Part::Adam => "step / learning rate",
        Part::FromTrusted | Part::FromOracle | Part::FromCaptured => "relative distance",
    }
}

/// The curves of one part, or those of the whole training, a picture for each.
fn part(curves: &[Curve], names: &[String]) -> Markup {
    let of_all = of_all(curves[0].part);
    let title = if of_all { "training" } else { curves[0].part.title() };
    let name = |curve: &Curve| match of_all {
        true => curve.part.title().to_owned(),
        false => curve.name.clone(),
    };
    let more = curves.len().saturating_sub(MOST_PICTURES) as u64;
    html! {
        section class="card" {
            h2 { (title) }
            div class="charts" {
                @for curve in curves.iter().take(MOST_PICTURES) {
                    (steps(&name(curve), axis(curve.part), &curve.values, names))
                }
            }
            @if more > 0 {
                p class="dim" { "and " (count(more, "curve")) " more: --format csv has all" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{HOSTILE, read};
    use super::*;
    use crate::report::series::made_up;
    use crate::series::{Finding, Kind, Measured, Scalars, Spell, Step};

    /// A run whose loss falls, is not a number once and infinite once.
    fn report(steps: usize) -> SeriesReport {
        let loss = |at: usize| match at {
            3 => f64::NAN,
            4 => f64::INFINITY,
            _ => 5.0 / (1.0 + at as f64),
        };
        let step = |at: usize| Step {
            fixture: HOSTILE.to_owned(),
            number: Some(at as i64),
            measured: Measured {
                scalars: Scalars { loss: Some(loss(at)), ..Scalars::default() },
                ..Measured::default()
            },
            replay: None,
        };
        made_up((0..steps).map(step).collect())
    }

    #[test]
    fn the_page_of_a_series_is_well_formed_and_draws_each_curve_with_its_words() {
        let mut report = report(20);
        let spell = Spell { steps: 2, of: 20, first: 3, last: 4 };
        let kind = Kind::NotFinite { spell, tensors: vec![HOSTILE.to_owned()], affected: 1 };
        report.findings.push(Finding { severity: Severity::Wrong, kind });
        let page = series_html(&report, &RunRecord::default());
        let seen = read(&page);
        assert_eq!(seen.elements.iter().filter(|name| *name == "figure").count(), 1);
        assert!(page.contains("loss over 20 steps, 5 to 0.25; 2 are not finite"), "{page}");
        assert!(page.contains("class=\"badge bad\""), "{page}");
    }

    #[test]
    fn a_page_of_a_thousand_steps_stays_small() {
        let page = series_html(&report(1000), &RunRecord::default());
        read(&page);
        assert!(page.len() < 100_000, "{} bytes", page.len());
    }
}
