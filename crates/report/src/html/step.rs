//! The page of `replay step STEP`: the model as a tree, each pass of each call in its colour.

use maud::{Markup, html};

use super::super::RunRecord;
use super::super::numbers::format_short_number;
use super::super::spans::ReportLine;
use super::super::step::{
    StepEntry, StepVerdict, conclude_step, describe_part_finding, pass_word, step_heading,
    step_notes,
};
use super::super::style::{DIM, GREEN, RED};
use super::shell::{Mood, PageHead, render_badge, render_page};
use super::table::render_table;
use anstyle::Style;
use replay_step::{Blame, Direction, PartFindingKind};

/// The page on a step.
pub fn render_step_html(entry: &StepEntry<'_>, run: &RunRecord) -> String {
    let head = PageHead {
        kind: "replay step",
        about: step_heading(entry),
        mood: match entry.verdict() {
            StepVerdict::Well => Mood::Good,
            StepVerdict::Found => Mood::Bad,
            StepVerdict::Untestable => Mood::Untold,
        },
        verdict: conclude_step(entry),
        notes: Vec::new(),
    };
    let rows = html! {
        @for place in 0..entry.order.parts.len() { (render_part_row(entry, place)) }
    };
    let columns = ["module", "class", "forward", "backward", "#x noise", "finding"];
    let notes: Vec<ReportLine> = step_notes(entry);
    let body = html! {
        section class="card" {
            h2 { "Modules, in the order of the computation" }
            (render_table("modules", &columns, &rows))
        }
        @if !notes.is_empty() {
            section class="card" {
                h2 { "Notes" }
                ul class="lines" { @for note in &notes { li { (note.words()) } } }
            }
        }
    };
    render_page(&head, &body, run)
}

fn render_part_row(entry: &StepEntry<'_>, place: usize) -> Markup {
    let part = &entry.order.parts[place];
    // Spaces that browsers keep.
    let indent = "\u{a0}\u{a0}\u{a0}".repeat(entry.order.depth(place));
    let findings = &entry.readings[place].findings;
    html! {
        tr id={ "part-" (place) } {
            th scope="row" { (indent) (entry.order.name(place)) }
            td class="dim" { (part.kind) }
            @for pass in [Direction::Forward, Direction::Backward] {
                @let (style, word) = pass_word(entry, place, pass);
                td { (render_badge(style_mood(style), word)) }
            }
            td class="number" {
                @if let Some(distance) = furthest_distance(entry, place) {
                    (format_short_number(distance, 3))
                }
            }
            td {
                @match entry.blames[place] {
                    Blame::Well => {},
                    Blame::Consequence { of } => {
                        "it holds " a href={ "#part-" (of) } { (entry.order.name(of)) }
                    },
                    Blame::Own => {
                        @for finding in findings { p { (describe_part_finding(finding)) } }
                    },
                }
            }
        }
    }
}

/// How far the outputs of a call are off at most, as a multiple of the noise, where that is known.
fn furthest_distance(entry: &StepEntry<'_>, place: usize) -> Option<f64> {
    let findings = entry.readings[place].findings.iter();
    let distances = findings.filter_map(|finding| match &finding.kind {
        PartFindingKind::NotAsCaptured { distance, .. } => Some(*distance),
        PartFindingKind::Replayed(replayed) => {
            replayed.kind.is_in_noise().then_some(replayed.distance)
        }
    });
    distances.max_by(f64::total_cmp)
}

fn style_mood(style: Style) -> Mood {
    match style {
        GREEN => Mood::Good,
        RED => Mood::Bad,
        DIM => Mood::Untold,
        _ => Mood::Caution,
    }
}
