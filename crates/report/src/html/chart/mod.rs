//! Charts as inline SVG: a frame with two axes, their units, and a drawing in it.
//!
//! Colours come from the page's styles: a chart is light or dark as the page is. Nothing is told by colour alone.

mod bars;
mod heat;
mod lines;
mod scatter;

use maud::{Markup, html};

pub(super) use self::bars::{draw_distances_chart, draw_errors_chart};
pub(super) use self::heat::{draw_heat_map, shade_class, shade_label};
pub(super) use self::lines::draw_steps_chart;
pub(super) use self::scatter::draw_scatter_chart;
use super::super::numbers::format_short_number;

/// An axis: its quantity, with the unit, and marks at shares of its length.
pub(crate) struct Axis {
    /// Its quantity, with the unit.
    pub label: String,
    /// Marks: how far along the axis, from 0 to 1, and the text there.
    pub ticks: Vec<(f64, String)>,
}

/// The area of a chart with its axes.
pub(crate) struct Frame {
    /// The axis below.
    pub x: Axis,
    /// The axis to the left.
    pub y: Axis,
    /// The width of the area.
    pub width: f64,
    pub height: f64,
}

/// Space for the texts around the area: left, right, above, below.
const SPACE: [f64; 4] = [60.0, 18.0, 8.0, 38.0];
/// The width of a character of a mark, and the height of its line; the styles of the page set its font.
const MARK: [f64; 2] = [5.8, 12.0];
/// The space for the label of the axis to the left, and between a mark and the axis.
const BESIDE: f64 = 23.0;

/// The marks of an axis without overlaps of texts. `span` is the length of a text along the axis, in shares of
/// it. Of two overlapping ones the later goes, but the last mark stays.
fn pick_readable_ticks(ticks: &[(f64, String)], span: impl Fn(&str) -> f64) -> Vec<&(f64, String)> {
    let mut readable_ticks: Vec<&(f64, String)> = Vec::new();
    for tick in ticks {
        if readable_ticks.last().is_none_or(|last| !do_ticks_overlap(last, tick, &span)) {
            readable_ticks.push(tick);
        }
    }
    if let Some(end) = ticks.last().filter(|end| readable_ticks.last() != Some(end)) {
        while readable_ticks.last().is_some_and(|last| do_ticks_overlap(last, end, &span)) {
            readable_ticks.pop();
        }
        readable_ticks.push(end);
    }
    readable_ticks
}

fn do_ticks_overlap(
    (share, text): &(f64, String),
    (other_share, other_text): &(f64, String),
    span: impl Fn(&str) -> f64,
) -> bool {
    (share - other_share).abs() < (span(text) + span(other_text)) / 2.0
}

impl Frame {
    /// The space to the left: a long mark has room beside the label.
    fn left(&self) -> f64 {
        let longest = self.y.ticks.iter().map(|(_, text)| text.chars().count()).max();
        SPACE[0].max(BESIDE + MARK[0] * longest.unwrap_or(0) as f64)
    }

    /// The place at `share` of the axis below.
    pub(crate) fn x(&self, share: f64) -> f64 {
        self.left() + share * self.width
    }

    /// The place at `share` of the rising axis to the left.
    pub(crate) fn y(&self, share: f64) -> f64 {
        SPACE[2] + (1.0 - share) * self.height
    }

    /// The chart, in words `alt`, with `inside` drawn between the lines of the grid and the axes.
    pub(crate) fn svg(&self, alt: &str, inside: &Markup) -> Markup {
        let [_, right, top, bottom] = SPACE;
        let left = self.left();
        let across = pick_readable_ticks(&self.x.ticks, |text| {
            MARK[0] * (text.chars().count() + 1) as f64 / self.width
        });
        let upwards = pick_readable_ticks(&self.y.ticks, |_| MARK[1] / self.height);
        let width = left + self.width + right;
        let height = top + self.height + bottom;
        let foot = top + self.height;
        html! {
            svg class="chart" role="img" aria-label=(alt)
                viewBox={ "0 0 " (format_coordinate(width)) " " (format_coordinate(height)) }
            {
                @for (share, _) in &upwards {
                    path class="grid" d={ "M" (format_coordinate(left)) " " (format_coordinate(self.y(*share))) "h" (format_coordinate(self.width)) } {}
                }
                (inside)
                path class="axis" d={ "M" (format_coordinate(left)) " " (format_coordinate(top)) "V" (format_coordinate(foot)) "h" (format_coordinate(self.width)) } {}
                @for (share, text) in &across {
                    text class="tick" x=(format_coordinate(self.x(*share))) y=(format_coordinate(foot + 13.0)) text-anchor="middle" { (text) }
                }
                @for (share, text) in &upwards {
                    text class="tick" x=(format_coordinate(left - 5.0)) y=(format_coordinate(self.y(*share) + 3.5)) text-anchor="end" { (text) }
                }
                text class="label" x=(format_coordinate(left + self.width / 2.0)) y=(format_coordinate(height - 6.0)) text-anchor="middle" {
                    (self.x.label)
                }
                text class="label" text-anchor="middle"
                    transform={ "translate(11 " (format_coordinate(top + self.height / 2.0)) ") rotate(-90)" } { (self.y.label) }
            }
        }
    }
}

/// A figure with its title above it, and the meaning of its colours below it.
pub(crate) fn render_figure(title: &str, chart: &Markup, legend: &Markup) -> Markup {
    html! {
        figure {
            figcaption { (title) }
            (chart)
            (legend)
        }
    }
}

/// The keys of a figure: the class of a colour, and its meaning.
pub(crate) fn render_figure_legend(keys: &[(&str, String)]) -> Markup {
    html! {
        ul class="legend" {
            @for (class, words) in keys {
                li {
                    svg class="key" aria-hidden="true" viewBox="0 0 12 12" {
                        rect class=(class) width="12" height="12" {}
                    }
                    (words)
                }
            }
        }
    }
}

/// The patterns of charts; once on a page.
pub(super) fn define_chart_patterns() -> Markup {
    html! {
        svg class="patterns" aria-hidden="true" width="0" height="0" {
            defs {
                (define_pattern("p-inf", html! { circle class="ink" cx="2" cy="2" r="1.1" {} }))
                (define_pattern("p-dependent", html! { path class="stroke" d="M-1 1l2 -2M0 4l4 -4M3 5l2 -2" {} }))
                (define_pattern("p-unwritten", html! { path class="stroke" d="M0 0l4 4M4 0l-4 4" {} }))
            }
        }
    }
}

fn define_pattern(id: &str, inside: Markup) -> Markup {
    html! {
        pattern id=(id) width="4" height="4" patternUnits="userSpaceOnUse" {
            rect class="pattern" width="4" height="4" {}
            (inside)
        }
    }
}

/// A coordinate, to a tenth.
pub(crate) fn format_coordinate(x: f64) -> String {
    let text = format!("{x:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// A count in few characters: `7`, `12 k`, `3.4 M`.
fn abbreviate_count(count: f64) -> String {
    match count {
        1e9.. => format!("{} G", format_short_number(count / 1e9, 3)),
        1e6.. => format!("{} M", format_short_number(count / 1e6, 3)),
        1e4.. => format!("{} k", format_short_number(count / 1e3, 3)),
        _ => format_short_number(count, 4),
    }
}

/// The share of the height for `count`, on a logarithmic axis up to `highest_count`.
fn log_share(count: u64, highest_count: u64) -> f64 {
    match count {
        0 => 0.0,
        // One element shows too.
        _ => (2.0 * count as f64).ln() / (2.0 * highest_count.max(1) as f64).ln().max(1e-9),
    }
}

/// The axis of such counts.
fn counts_axis(highest_count: u64) -> Axis {
    let powers = (0..19).map(|power| 10u64.pow(power)).take_while(|&power| power <= highest_count);
    let powers: Vec<u64> = powers.collect();
    let step = powers.len().div_ceil(5).max(1);
    let ticks = powers
        .iter()
        .step_by(step)
        .map(|&power| (log_share(power, highest_count), abbreviate_count(power as f64)));
    Axis { label: "elements (log scale)".to_owned(), ticks: ticks.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_whose_texts_would_overlap_are_left_out_and_the_last_stays() {
        let names = ["step0", "step1000000", "step2000000", "step3000000", "step9"];
        let ticks: Vec<(f64, String)> = names
            .iter()
            .enumerate()
            .map(|(at, name)| (at as f64 / 4.0, name.to_string()))
            .collect();
        let kept = |width: f64| {
            let kept = pick_readable_ticks(&ticks, |text| text.len() as f64 / width).into_iter();
            kept.map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(kept(1000.0), names.join(" "));
        assert_eq!(kept(40.0), "step0 step1000000 step3000000 step9");
        assert_eq!(kept(20.0), "step0 step2000000 step9");
        assert_eq!(kept(1.0), "step9");
    }

    #[test]
    fn a_long_mark_has_room_beside_the_label_of_its_axis() {
        let axis = |text: &str| Axis { label: "y".to_owned(), ticks: vec![(0.0, text.to_owned())] };
        let frame = |text| Frame { x: axis("0"), y: axis(text), width: 100.0, height: 100.0 };
        assert_eq!(frame("0.25").x(0.0), SPACE[0]);
        assert!(frame("1.00000012e-10").x(0.0) > SPACE[0] + 30.0);
    }
}
