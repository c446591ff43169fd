//! A quantity over the steps of a run, as a line.

use std::fmt::Write;

use maud::{Markup, html};

use super::super::super::numbers::{format_noun_count, format_short_number};
use super::{Axis, Frame, format_coordinate, render_figure, render_figure_legend};

/// The size of the area.
const SIZE: [f64; 2] = [276.0, 128.0];
/// The places along the axis of steps; of more steps each place shows the least and the greatest value.
const PLACES: usize = 276;
/// From this ratio of the greatest to the least value on, if all are above 0, the axis is logarithmic.
const WIDE: f64 = 50.0;

/// The values of `name` over the steps called `steps`; `axis` names their quantity.
pub(in crate::html) fn draw_steps_chart(
    name: &str,
    axis: &str,
    values: &[Option<f64>],
    steps: &[String],
) -> Markup {
    let scale = ValueAxis::fit(values);
    let label = if scale.is_log { format!("{axis} (log scale)") } else { axis.to_owned() };
    let frame = Frame {
        x: steps_axis(steps),
        y: Axis { label, ticks: scale.ticks() },
        width: SIZE[0],
        height: SIZE[1],
    };
    let last_step = (values.len().max(2) - 1) as f64;
    let mut missing: Vec<f64> = Vec::new();
    for (step, value) in values.iter().enumerate() {
        if value.is_some_and(|value| !value.is_finite()) {
            missing.push(frame.x(step as f64 / last_step));
        }
    }
    let drawing = html! {
        path class="points-within" d=(draw_value_dots(values, &scale, &frame)) {}
        path class="curve" d=(trace_value_line(values, &scale, &frame)) {}
        @for &x in &missing {
            path class="not-finite" d={ "M" (format_coordinate(x)) " " (format_coordinate(frame.y(1.0))) "V" (format_coordinate(frame.y(0.0))) } {}
        }
    };
    let mut keys = Vec::new();
    if !missing.is_empty() {
        keys.push(("bar-beyond", "not finite".to_owned()));
    }
    render_figure(
        name,
        &frame.svg(&describe_steps_chart(name, axis, values), &drawing),
        &render_figure_legend(&keys),
    )
}

/// The picture in words.
fn describe_steps_chart(name: &str, axis: &str, values: &[Option<f64>]) -> String {
    let finite: Vec<f64> = finite_values(values).collect();
    let range = match (finite.first(), finite.last()) {
        (Some(first), Some(last)) => {
            format!("{} to {}", format_short_number(*first, 3), format_short_number(*last, 3))
        }
        _ => "no finite value".to_owned(),
    };
    let off = values.iter().flatten().filter(|x| !x.is_finite()).count() as u64;
    let off = match off {
        0 => String::new(),
        1 => "; 1 is not finite".to_owned(),
        off => format!("; {off} are not finite"),
    };
    let curve_name = if name == axis { name.to_owned() } else { format!("{name}, {axis}") };
    format!("{curve_name} over {}, {range}{off}", format_noun_count(values.len() as u64, "step"))
}

fn finite_values(values: &[Option<f64>]) -> impl Iterator<Item = f64> {
    values.iter().flatten().copied().filter(|value| value.is_finite())
}

/// The axis of the steps: the first, the last and some between them.
fn steps_axis(steps: &[String]) -> Axis {
    const MARKS: usize = 4;
    let last = steps.len().saturating_sub(1);
    let marks = last.clamp(1, MARKS);
    let mut ticks = Vec::new();
    for mark in 0..=marks {
        let place = mark * last / marks;
        let name = steps.get(place).map_or("", String::as_str);
        let name = name.strip_prefix("step ").unwrap_or(name);
        ticks.push((place as f64 / last.max(1) as f64, name.chars().take(10).collect()));
    }
    Axis { label: "step".to_owned(), ticks }
}

/// The axis of the values.
struct ValueAxis {
    least: f64,
    most: f64,
    is_log: bool,
}

impl ValueAxis {
    fn fit(values: &[Option<f64>]) -> ValueAxis {
        let least = finite_values(values).fold(f64::INFINITY, f64::min);
        let most = finite_values(values).fold(f64::NEG_INFINITY, f64::max);
        if least > most {
            return ValueAxis { least: 0.0, most: 1.0, is_log: false };
        }
        if least > 0.0 && most / least >= WIDE {
            return ValueAxis { least, most, is_log: true };
        }
        if least == most {
            // A constant lies in the middle.
            let room = if least == 0.0 { 1.0 } else { least.abs() / 2.0 };
            return ValueAxis { least: least - room, most: most + room, is_log: false };
        }
        let step = round_step(least, most);
        let low = whole_below(least / step) * step;
        let high = whole_above(most / step) * step;
        let low = low.min(least);
        let high = high.max(most);
        if !(low.is_finite() && high.is_finite()) {
            return ValueAxis { least, most, is_log: false };
        }
        ValueAxis { least: low, most: high, is_log: false }
    }

    fn share(&self, x: f64) -> f64 {
        if self.is_log {
            (x / self.least).ln() / (self.most / self.least).ln()
        } else {
            // Halves keep the difference of two large numbers finite.
            (x / 2.0 - self.least / 2.0) / (self.most / 2.0 - self.least / 2.0)
        }
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let marks = if self.is_log { self.log_marks() } else { self.round_marks() };
        marks
            .into_iter()
            .map(|(value, digits)| {
                (self.share(value).clamp(0.0, 1.0), format_short_number(value, digits))
            })
            .collect()
    }

    /// Powers of ten, and where they are few, twice and five times as much, with their digits.
    fn log_marks(&self) -> Vec<(f64, usize)> {
        let range = self.least..=self.most;
        let first = self.least.log10().floor() as i32;
        let last = self.most.log10() as i32;
        let powers: Vec<f64> = (first..=last)
            .map(|power| 10f64.powi(power))
            .filter(|value| range.contains(value))
            .collect();
        let step = powers.len().div_ceil(5).max(1);
        if powers.len() > 2 {
            return powers.into_iter().step_by(step).map(|value| (value, 1)).collect();
        }
        let decades = (first..=last).map(|power| 10f64.powi(power));
        let candidates = decades.flat_map(|power| [1.0, 2.0, 5.0].map(|times| times * power));
        candidates.filter(|value| range.contains(value)).map(|value| (value, 1)).collect()
    }

    /// Multiples of a round step, with as many digits as tell them apart.
    fn round_marks(&self) -> Vec<(f64, usize)> {
        let step = round_step(self.least, self.most);
        let first = whole_above(self.least / step);
        let last = whole_below(self.most / step);
        let size = self.least.abs().max(self.most.abs());
        let digits = (size / step).log10().floor().clamp(0.0, 15.0) as usize + 2;
        let marks = (0..=(last - first) as usize).map(|mark| (first + mark as f64) * step);
        marks.filter(|mark| mark.is_finite()).map(|mark| (mark, digits)).collect()
    }
}

/// The error of the quotient of an end and a step, as a share of it: the end, the step and the quotient are
/// each rounded.
const ROUNDING: f64 = 8.0 * f64::EPSILON;

/// The whole number at or below `x`; the nearest one, if `x` is whole but for rounding.
fn whole_below(x: f64) -> f64 {
    (x + x.abs() * ROUNDING).floor()
}

/// The whole number at or above `x`; the nearest one, if `x` is whole but for rounding.
fn whole_above(x: f64) -> f64 {
    (x - x.abs() * ROUNDING).ceil()
}

/// 1, 2 or 5 times a power of ten: the least such step with at most five of them from `least` to `most`.
fn round_step(least: f64, most: f64) -> f64 {
    const STEPS: f64 = 5.0;
    // Parts of both keep the difference of two large numbers finite.
    let rough = (most / STEPS - least / STEPS).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
    // The quotient of powers of ten is rounded.
    steps.into_iter().find(|step| *step >= rough * (1.0 - 1e-9)).unwrap_or(rough)
}

/// The line through the finite values, broken where there is none.
fn trace_value_line(values: &[Option<f64>], scale: &ValueAxis, frame: &Frame) -> String {
    let mut path = String::new();
    let mut is_open = false;
    let last = (values.len().max(2) - 1) as f64;
    let bucket_length = values.len().div_ceil(PLACES).max(1);
    for (number, bucket) in values.chunks(bucket_length).enumerate() {
        let Some(lowest) = finite_values(bucket).reduce(f64::min) else {
            is_open = false;
            continue;
        };
        let highest = finite_values(bucket).reduce(f64::max).unwrap_or(lowest);
        let x = format_coordinate(frame.x((number * bucket_length) as f64 / last));
        let ends = if lowest == highest { vec![lowest] } else { vec![lowest, highest] };
        for value in ends {
            let command = if is_open { 'L' } else { 'M' };
            let _ = write!(path, "{command}{x} {}", format_coordinate(frame.y(scale.share(value))));
            is_open = true;
        }
    }
    path
}

/// A dot for each value, where they are few enough to be told apart.
fn draw_value_dots(values: &[Option<f64>], scale: &ValueAxis, frame: &Frame) -> String {
    const MOST: usize = 40;
    let mut path = String::new();
    let last = (values.len().max(2) - 1) as f64;
    if values.len() > MOST {
        return path;
    }
    for (index, value) in values.iter().enumerate() {
        if let Some(value) = value.filter(|x| x.is_finite()) {
            let x = frame.x(index as f64 / last);
            let y = frame.y(scale.share(value));
            let _ = write!(path, "M{} {}h0", format_coordinate(x), format_coordinate(y));
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_range_of_positive_values_has_a_logarithmic_axis() {
        let scale = ValueAxis::fit(&[Some(1e-3), None, Some(10.0), Some(f64::NAN)]);
        assert!(scale.is_log);
        assert_eq!((scale.share(1e-3), scale.share(10.0)), (0.0, 1.0));
        let names: Vec<String> = scale.ticks().into_iter().map(|(_, name)| name).collect();
        assert_eq!(names.join(" "), "0.001 0.01 0.1 1 10");
        let narrow = ValueAxis::fit(&[Some(1.5), Some(80.0)]);
        let names: Vec<String> = narrow.ticks().into_iter().map(|(_, name)| name).collect();
        assert_eq!(names.join(" "), "2 5 10 20 50");
        assert!(!ValueAxis::fit(&[Some(-1.0), Some(100.0)]).is_log);
    }

    #[test]
    fn the_marks_of_an_axis_are_round_and_told_apart() {
        let marks = |values: &[f64]| {
            let values: Vec<Option<f64>> = values.iter().copied().map(Some).collect();
            let ticks = ValueAxis::fit(&values).ticks();
            assert!(ticks.iter().all(|(share, _)| (0.0..=1.0).contains(share)), "{ticks:?}");
            ticks.into_iter().map(|(_, name)| name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(marks(&[0.0, 0.0]), "-1 -0.5 0 0.5 1");
        assert_eq!(marks(&[4.0, 4.0]), "2 3 4 5 6");
        assert_eq!(marks(&[0.02, 0.02]), "0.01 0.015 0.02 0.025 0.03");
        assert_eq!(marks(&[2.88, 4.0]), "2.5 3 3.5 4");
        assert_eq!(marks(&[-0.31, 0.97]), "-0.5 0 0.5 1");
        assert_eq!(
            marks(&[1.0000001, 1.0000002]),
            "1.0000001 1.00000012 1.00000014 1.00000016 1.00000018 1.0000002"
        );
        assert_eq!(marks(&[0.0, 5e-324]).split(' ').next(), Some("0"));
        assert!(marks(&[-f64::MAX, f64::MAX]).contains('0'));
    }

    #[test]
    fn a_line_that_does_not_move_lies_in_the_middle_and_one_without_values_is_empty() {
        let scale = ValueAxis::fit(&[Some(3.0), Some(3.0)]);
        assert_eq!(scale.share(3.0), 0.5);
        let wide = ValueAxis::fit(&[Some(-f64::MAX), Some(f64::MAX)]);
        assert_eq!((wide.share(-f64::MAX), wide.share(f64::MAX)), (0.0, 1.0));
        let nothing = ValueAxis::fit(&[None, Some(f64::NAN)]);
        assert_eq!(nothing.ticks().len(), 6);
        let picture = draw_steps_chart("y", "loss", &[None, Some(f64::NAN)], &[]).into_string();
        assert!(picture.contains("no finite value; 1 is not finite"), "{picture}");
    }
}
