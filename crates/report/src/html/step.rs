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
use super::chart::{render_figure_legend, shade_class, shade_label};
use super::shell::{Mood, PageHead, render_badge, render_page};
use anstyle::Style;
use replay_engine::judge::{RunsVerdict, Verdict};
use replay_numerics::picture::Shade;
use replay_step::{Blame, Direction, PassVerdict};

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
    let notes: Vec<ReportLine> = step_notes(entry);
    let tree = StepTree::new(entry);
    let body = html! {
        (render_findings(entry))
        section class="card" {
            h2 { "Modules, in the order of the computation" }
            ul class="tree" { @for &place in &tree.outermost { (tree.render_part(place)) } }
            (render_distance_legend())
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

/// The modules at fault, above all others.
fn render_findings(entry: &StepEntry<'_>) -> Markup {
    let places: Vec<usize> =
        (0..entry.blames.len()).filter(|place| entry.blames[*place] == Blame::Own).collect();
    html! {
        @if !places.is_empty() {
            section class="card" {
                h2 { "Findings" }
                ul class="lines" {
                    @for place in places {
                        li {
                            a href={ "#part-" (place) } { strong { (entry.order.name(place)) } }
                            " " span class="dim" { (entry.order.parts[place].kind) }
                            @for finding in &entry.readings[place].findings {
                                p class="is-bad" { (describe_part_finding(entry, finding)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Up to so many calls, all of the tree is unfolded.
const UNFOLDED_CALLS: usize = 60;

/// The calls of a step, each with those inside of it.
struct StepTree<'e> {
    entry: &'e StepEntry<'e>,
    outermost: Vec<usize>,
    inner: Vec<Vec<usize>>,
}

impl<'e> StepTree<'e> {
    fn new(entry: &'e StepEntry<'e>) -> StepTree<'e> {
        let parts = &entry.order.parts;
        let mut outermost = Vec::new();
        let mut inner = vec![Vec::new(); parts.len()];
        for (place, part) in parts.iter().enumerate() {
            match part.inside {
                Some(around) => inner[around].push(place),
                None => outermost.push(place),
            }
        }
        StepTree { entry, outermost, inner }
    }

    fn render_part(&self, place: usize) -> Markup {
        let class = match self.entry.blames[place] {
            Blame::Well => "part",
            Blame::Own => "part own",
            Blame::Consequence { .. } | Blame::FollowsInputs => "part muted",
        };
        html! {
            li class=(class) id={ "part-" (place) } {
                @if self.inner[place].is_empty() {
                    div class="row" { (self.render_row(place)) }
                } @else {
                    details open[self.is_unfolded(place)] {
                        summary class="row" { (self.render_row(place)) }
                        ul { @for &inner in &self.inner[place] { (self.render_part(inner)) } }
                    }
                }
            }
        }
    }

    /// Whether there is something to see in it.
    fn is_unfolded(&self, place: usize) -> bool {
        let blames = &self.entry.blames;
        let order = self.entry.order;
        blames.len() <= UNFOLDED_CALLS
            || order.parts[place].inside.is_none()
            || (0..blames.len())
                .any(|inner| blames[inner] == Blame::Own && order.holds(place, inner))
    }

    fn render_row(&self, place: usize) -> Markup {
        let entry = self.entry;
        let part = &entry.order.parts[place];
        html! {
            span class="module" {
                strong { (entry.order.name(place)) } " " span class="dim" { (part.kind) }
                @if let Blame::Consequence { of } = entry.blames[place] {
                    span class="dim" { ", it holds " a href={ "#part-" (of) } { (entry.order.name(of)) } }
                }
            }
            @for (pass, title) in [(Direction::Forward, "forward"), (Direction::Backward, "backward")] {
                (render_pass(entry, place, pass, title))
            }
        }
    }
}

fn render_pass(
    entry: &StepEntry<'_>,
    place: usize,
    direction: Direction,
    title: &'static str,
) -> Markup {
    let (style, word) = pass_word(entry, place, direction);
    let shade = pass_shade(entry, place, direction);
    let distance = entry.readings[place].pass(direction).and_then(|pass| pass.distance);
    html! {
        span class="pass" {
            span class="title" { (title) }
            @if let Some(shade) = shade {
                svg class="key" role="img" aria-label=(shade_label(shade)) viewBox="0 0 12 12" {
                    title { (shade_label(shade)) }
                    rect class=(shade_class(shade)) width="12" height="12" {}
                }
            } @else {
                span class="key" {}
            }
            @if style == DIM {
                span class="dim" { (word) }
            } @else {
                (render_badge(style_mood(style), word))
            }
            @if let Some(distance) = distance.filter(|distance| *distance > 0.0) {
                span class="dim" { (format_distance(distance)) }
            }
        }
    }
}

/// How far the outputs of a pass lie off; none where nothing is known of it.
fn pass_shade(entry: &StepEntry<'_>, place: usize, direction: Direction) -> Option<Shade> {
    let pass = entry.readings[place].pass(direction)?;
    match (pass.distance, pass.verdict) {
        (Some(distance), _) if distance.is_nan() => Some(Shade::Nan),
        (Some(distance), _) if distance > 0.0 => Some(Shade::from_ratio(distance)),
        (
            _,
            PassVerdict::Replayed(Verdict::Identical) | PassVerdict::Runs(RunsVerdict::Identical),
        ) => Some(Shade::Same),
        (Some(_), _) => Some(Shade::Near),
        (None, _) => None,
    }
}

/// The meanings of the colours of distances.
fn render_distance_legend() -> Markup {
    let shades = Shade::ALL.into_iter().filter(|shade| *shade <= Shade::Most);
    let keys: Vec<(&str, String)> =
        shades.map(|shade| (shade_class(shade), shade_label(shade).to_owned())).collect();
    render_figure_legend(&keys)
}

/// `26.1 x`, or `3e7 x`.
fn format_distance(distance: f64) -> String {
    if distance < 1e5 {
        format!("{} x", format_short_number(distance, 3))
    } else {
        format!("{distance:.0e} x")
    }
}

fn style_mood(style: Style) -> Mood {
    match style {
        GREEN => Mood::Good,
        RED => Mood::Bad,
        DIM => Mood::Untold,
        _ => Mood::Caution,
    }
}
