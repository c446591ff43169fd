//! The page of `replay series FIXTURE...`.

use maud::{Markup, html};

use super::super::numbers::format_noun_count;
use super::super::series::{
    NO_ROLES, describe_alignment, render_series_heading, render_series_verdict, severity_name,
};
use super::super::{Curve, RunRecord, SeriesPart, SeriesReport, describe_series_finding};
use super::chart::draw_steps_chart;
use super::shell::{Mood, PageHead, render_badge, render_page, render_refusals};
use replay_series::Severity;

/// The pictures of a part; curves beyond them are counted.
const MOST_PICTURES: usize = 48;

/// The page on a run.
pub fn series_html(report: &SeriesReport, run: &RunRecord) -> String {
    let curves = report.curves();
    let names: Vec<String> =
        (0..report.series.steps.len()).map(|place| report.step_name(place)).collect();
    let body = html! {
        (render_series_findings(report))
        @for curves in curves.chunk_by(can_share_card) {
            (render_series_part(curves, &names))
        }
        @if curves.is_empty() { section class="card" { p { (NO_ROLES) } } }
        (render_refusals(&report.errors))
    };
    render_page(&build_series_head(report), &body, run)
}

fn build_series_head(report: &SeriesReport) -> PageHead {
    let mut lines = render_series_heading(report).into_iter();
    let about = lines.next().unwrap_or_default();
    let unusual = report.findings.iter().any(|finding| finding.severity() == Severity::Unusual);
    let mood = match Mood::from(report.standing()) {
        Mood::Good if unusual => Mood::Caution,
        mood => mood,
    };
    PageHead {
        kind: "replay series",
        about,
        mood,
        verdict: render_series_verdict(report),
        notes: lines.collect(),
    }
}

fn render_series_findings(report: &SeriesReport) -> Markup {
    let data = describe_alignment(report);
    html! {
        @if !report.findings.is_empty() || data.is_some() {
            section class="card" {
                h2 { "Findings" }
                ul class="lines" {
                    @for finding in &report.findings {
                        li {
                            (render_badge(severity_mood(finding.severity()), severity_name(finding.severity()))) " "
                            (describe_series_finding(report, finding))
                        }
                    }
                    @if let Some(words) = data { li class="dim" { (words) } }
                }
            }
        }
    }
}

fn severity_mood(severity: Severity) -> Mood {
    match severity {
        Severity::Wrong => Mood::Bad,
        Severity::Unusual => Mood::Caution,
        Severity::Note => Mood::Untold,
    }
}

/// Whether two curves are shown in one card.
fn can_share_card(one: &Curve, other: &Curve) -> bool {
    one.part == other.part || (is_training_part(one.part) && is_training_part(other.part))
}

/// Whether there is one curve of a part, of the whole training.
fn is_training_part(part: SeriesPart) -> bool {
    matches!(
        part,
        SeriesPart::Loss | SeriesPart::LearningRate | SeriesPart::NormBefore | SeriesPart::Clipping
    )
}

/// The label of the axis of a part.
fn part_axis_label(part: SeriesPart) -> &'static str {
    match part {
        SeriesPart::Loss => "loss",
        SeriesPart::LearningRate => "learning rate",
        SeriesPart::NormBefore | SeriesPart::Gradients => "L2 norm",
        SeriesPart::Clipping => "factor",
        SeriesPart::Updates => "ratio",
        SeriesPart::Adam => "step / learning rate",
        SeriesPart::FromTrusted | SeriesPart::FromOracle | SeriesPart::FromCaptured => {
            "relative distance"
        }
    }
}

/// The curves of one part, or those of the whole training, a picture for each.
fn render_series_part(curves: &[Curve], names: &[String]) -> Markup {
    let of_all = is_training_part(curves[0].part);
    let title = if of_all { "training" } else { curves[0].part.title() };
    let more = curves.len().saturating_sub(MOST_PICTURES) as u64;
    html! {
        section class="card" {
            h2 { (title) }
            div class="charts" {
                @for curve in curves.iter().take(MOST_PICTURES) {
                    @let name = if of_all { curve.part.title() } else { &curve.name };
                    (draw_steps_chart(name, part_axis_label(curve.part), &curve.values, names))
                }
            }
            @if more > 0 {
                p class="dim" { "and " (format_noun_count(more, "curve")) " more: --format csv has all" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{HOSTILE, read};
    use super::*;
    use crate::series::create_sample_series;
    use replay_series::{Scalars, SeriesFinding, SeriesStep, Spell, StepNumbers};

    /// A run whose loss falls, is not a number once and infinite once.
    fn report(steps: usize) -> SeriesReport {
        let loss = |at: usize| match at {
            3 => f64::NAN,
            4 => f64::INFINITY,
            _ => 5.0 / (1.0 + at as f64),
        };
        let step = |at: usize| SeriesStep {
            fixture: HOSTILE.to_owned(),
            number: Some(at as i64),
            measured: StepNumbers {
                scalars: Scalars { loss: Some(loss(at)), ..Scalars::default() },
                ..StepNumbers::default()
            },
            replay: None,
        };
        create_sample_series((0..steps).map(step).collect())
    }

    #[test]
    fn the_page_of_a_series_is_well_formed_and_draws_each_curve_with_its_words() {
        let mut report = report(20);
        let spell = Spell { steps: 2, of: 20, first: 3, last: 4 };
        let tensors = vec![HOSTILE.to_owned()];
        report.findings.push(SeriesFinding::NotFinite { spell, tensors, affected: 1 });
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
