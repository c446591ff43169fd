//! The outputs of a replay: a table of all, and details on each with a difference.

use maud::{Markup, html};

use super::super::judgement::{finding_words, name_output_verdict, output_lines, verdict_name};
use super::super::known::{captured_word, describe_known_fault};
use super::super::numbers::{format_dims, format_optional_number, format_short_number};
use super::chart;
use super::shell::render_badge;
use super::table::render_table;
use super::words::render_line_list;
use replay_base::tensor::{DType, Dim};
use replay_engine::judge::{Judgement, KnownCheck, OutputJudgement, OutputPicture, Verdict};
use replay_engine::trial::{Outcome, OutputRecord};
use replay_numerics::compare::Comparison;
use replay_numerics::picture::{Classes, Picture, Shade};
use replay_numerics::slices::Location;

/// The outputs of one side, with their statistics.
pub(super) fn render_outputs_table(outcome: &Outcome) -> Markup {
    let records = &outcome.outputs;
    const COLUMNS: [&str; 11] = [
        "output",
        "kind",
        "#norm",
        "#min",
        "#max",
        "#mean",
        "#zeros",
        "#NaN",
        "#Inf",
        "#unwritten",
        "checksum",
    ];
    let rows = html! {
        @for record in records {
            @let summary = &record.summary;
            tr {
                th scope="row" { (record.name) }
                td class="shape" { (record.dtype) " " (format_dims(&record.dims)) }
                td class="number" { (format_short_number(summary.norm, 6)) }
                td class="number" { (format_optional_number(summary.min, 6)) }
                td class="number" { (format_optional_number(summary.max, 6)) }
                td class="number" { (format_optional_number(summary.mean, 6)) }
                td class="number" { (summary.zeros) }
                (render_unwanted_cell(summary.nan)) (render_unwanted_cell(summary.inf))
                @if record.shows_unwritten { (render_unwanted_cell(summary.unwritten)) }
                @else { td { "unknown" } }
                td { code { (summary.checksum) } }
            }
        }
    };
    html! {
        @if !records.is_empty() {
            h3 { "Outputs" }
            (render_table("outputs", &COLUMNS, &rows))
        }
    }
}

fn render_unwanted_cell(number: u64) -> Markup {
    html! { td class=(if number > 0 { "number is-bad" } else { "number" }) { (number) } }
}

/// The columns of outputs beside others; comparisons of revisions also have a meaning.
const BESIDE: [&str; 8] = [
    "output",
    "verdict",
    "where",
    "#bits that differ",
    "#beyond noise",
    "#rel. L2",
    "#worst, x noise",
    "meaning",
];

/// The outputs of both sides beside each other; `anchor` begins the names of their places on the page.
pub(super) fn render_output_comparison(
    judgement: &Judgement,
    pictures: &[OutputPicture],
    anchor: &str,
) -> Markup {
    let outputs = &judgement.outputs;
    let rows = html! {
        @for (number, output) in outputs.iter().enumerate() {
            tr {
                th scope="row" { (render_output_link(output, &output_anchor(anchor, number))) }
                td { (render_badge(output.story.verdict().into(), &name_output_verdict(output))) }
                td { (output.place.as_deref().unwrap_or("")) }
                (render_distance_cells(&output.comparison))
                td { (finding_words(&output.story).unwrap_or_default()) }
            }
        }
    };
    html! {
        @if !outputs.is_empty() {
            h3 { "Outputs before and after" }
            (render_table("outputs before and after", &BESIDE, &rows))
            div class="outputs" {
                @for (number, output) in outputs.iter().enumerate() {
                    @if has_details(output) { (render_output_details(output, find_picture(pictures, &output.name), &output_anchor(anchor, number))) }
                }
            }
        }
    }
}

/// The name of the place of an output on the page.
fn output_anchor(anchor: &str, number: usize) -> String {
    format!("{anchor}-o{number}")
}

fn has_details(output: &OutputJudgement) -> bool {
    output.story.verdict() > Verdict::Identical
        || output.order.is_some()
        || output.nondeterminism.is_some()
}

fn render_output_link(output: &OutputJudgement, id: &str) -> Markup {
    html! {
        @if has_details(output) { a href={ "#" (id) } { (output.name) } } @else { (output.name) }
    }
}

/// The share of different bits, elements beyond noise, the distance of all, the worst.
fn render_distance_cells(compared: &Comparison) -> Markup {
    let share = match compared.count {
        0 => "0 %".to_owned(),
        total_count => format!(
            "{} %",
            format_short_number(100.0 * compared.differing as f64 / total_count as f64, 3)
        ),
    };
    let ratio = compared.worst.map_or(String::new(), |worst| format_short_number(worst.ratio, 3));
    html! {
        td class="number" { (share) }
        td class=(if compared.beyond > 0 { "number is-bad" } else { "number" }) { (compared.beyond) }
        td class="number" { (format_short_number(compared.relative_l2, 3)) }
        td class="number" { (ratio) }
    }
}

/// The details on one output.
fn render_output_details(output: &OutputJudgement, picture: Option<&Picture>, id: &str) -> Markup {
    html! {
        details class={ "output " (super::shell::Mood::from(output.story.verdict()).class()) } id=(id)
            open=[(output.story.verdict() >= Verdict::Diverged).then_some("")] {
            summary {
                strong { (output.name) } " "
                span class="dim" { (output.dtype) " " (format_dims(&output.dims)) } " "
                (render_badge(output.story.verdict().into(), &name_output_verdict(output)))
            }
            (render_line_list(&output_lines(output)))
            @if let Some(picture) = picture {
                (render_output_charts(&output.name, output.dtype, &output.dims, picture, output.location.as_ref()))
            }
        }
    }
}

/// The picture of output `name`.
fn find_picture<'p>(pictures: &'p [OutputPicture], name: &str) -> Option<&'p Picture> {
    pictures
        .iter()
        .find(|output_picture| output_picture.name == name)
        .map(|output_picture| &output_picture.picture)
}

/// The charts of one output, with the wrong slice framed.
fn render_output_charts(
    name: &str,
    dtype: DType,
    dims: &[Dim],
    picture: &Picture,
    wrong: Option<&Location>,
) -> Markup {
    let unit = if dtype.is_float() { "units in the last place" } else { "units" };
    let before = picture.base_errors.as_ref();
    let after = picture.got_errors.as_ref();
    html! {
        (render_element_classes(&picture.classes))
        div class="charts" {
            (chart::draw_heat_map(name, picture, dims, wrong))
            @if let Some(distances) = &picture.distances { (chart::draw_distances_chart(name, distances, unit)) }
            (chart::draw_scatter_chart(name, &picture.pairs))
            (chart::draw_errors_chart(name, before, after, unit))
        }
    }
}

/// The elements without a number, and the unwritten ones.
fn render_element_classes(classes: &Classes) -> Markup {
    let told = [
        (classes.nan, "NaN"),
        (classes.inf, "Inf"),
        (classes.unwritten, "unwritten"),
        (classes.dependent, "dependent on memory that nobody wrote"),
    ];
    html! {
        @if told.iter().any(|(count, _)| *count > 0) {
            p {
                @for (count, what) in told.iter().filter(|(count, _)| *count > 0) {
                    (render_badge(super::shell::Mood::Bad, &format!("{count} {what}"))) " "
                }
            }
        }
    }
}

/// The pictures of a replay without a comparison.
pub(super) fn render_replay_pictures(
    records: &[OutputRecord],
    pictures: &[OutputPicture],
) -> Markup {
    let shown: Vec<(&OutputRecord, &Picture)> = records
        .iter()
        .filter_map(|record| Some((record, find_picture(pictures, &record.name)?)))
        .filter(|(_, picture)| has_something(picture))
        .collect();
    html! {
        @for (record, picture) in shown {
            details class="output untold" {
                summary {
                    strong { (record.name) } " "
                    span class="dim" { (record.dtype) " " (format_dims(&record.dims)) " in pictures" }
                }
                (render_output_charts(&record.name, record.dtype, &record.dims, picture, None))
            }
        }
    }
}

/// Whether a picture shows anything.
fn has_something(picture: &Picture) -> bool {
    let shaded = picture.map.cells.iter().any(|shade| *shade > Shade::Same);
    shaded || picture.got_errors.is_some()
}

/// The outputs beside those of the oracle.
pub(super) fn render_oracle_checks(checks: &[KnownCheck]) -> Markup {
    render_known_checks(
        checks,
        "Beside the oracle",
        "outputs beside those of the oracle",
        &|verdict| render_badge(verdict.into(), verdict_name(verdict)),
    )
}

/// The outputs beside the captured ones. These make none good or bad.
pub(super) fn render_captured_checks(checks: &[KnownCheck]) -> Markup {
    render_known_checks(
        checks,
        "Beside the captured outputs",
        "outputs beside the captured ones",
        &|verdict| {
            html! { (captured_word(verdict)) }
        },
    )
}

fn render_known_checks(
    checks: &[KnownCheck],
    title: &str,
    caption: &str,
    word: &dyn Fn(Verdict) -> Markup,
) -> Markup {
    let rows = html! {
        @for check in checks {
            tr {
                th scope="row" { (check.output) }
                td { (word(check.verdict)) }
                td { (describe_known_fault(check).unwrap_or_default()) }
                (render_distance_cells(&check.comparison))
            }
        }
    };
    html! {
        @if !checks.is_empty() {
            h3 { (title) }
            (render_table(caption, &BESIDE[..7], &rows))
        }
    }
}
