//! A quantity over the steps of a run, as a line.

use std::fmt::Write;

use maud::{Markup, html};

use super::super::super::numbers::{count, short};
use super::{Axis, Frame, figure, legend, round};

/// The size of the area.
const SIZE: [f64; 2] = [276.0, 128.0];
/// The places along the axis of steps; of more steps each place shows the least and the greatest value.
const PLACES: usize = 276;
/// From this ratio of the greatest to the least value on, if all are above 0, the axis is logarithmic.
const WIDE: f64 = 50.0;

/// The values of `name` over the steps called `steps`; `axis` says what they are.
pub(in crate::report::html) fn steps(
    name: &str,
    axis: &str,
    values: &[Option<f64>],
    steps: &[String],
) -> Markup {
    let scale = Scale::of(values);
    let label = if scale.is_log { format!("{axis} (log scale)") } else { axis.to_owned() };
    let frame = Frame {
        x: steps_axis(steps),
        y: Axis { label, ticks: scale.ticks() },
        width: SIZE[0],
        height: SIZE[1],
    };
    let across = |at: usize| frame.x(at as f64 / (values.len().max(2) - 1) as f64);
    let missing = values.iter().enumerate().filter(|(_, x)| x.is_some_and(|x| !x.is_finite()));
    let missing: Vec<usize> = missing.map(|(at, _)| at).collect();
    let inside = html! {
        path class="points-within" d=(dots(values, &scale, &frame)) {}
        path class="curve" d=(path(values, &scale, &frame)) {}
        @for &at in &missing {
            path class="not-finite" d={ "M" (round(across(at))) " " (round(frame.y(1.0))) "V" (round(frame.y(0.0))) } {}
        }
    };
    let mut keys = Vec::new();
    if !missing.is_empty() {
        keys.push(("bar-beyond", "not finite".to_owned()));
    }
    figure(name, &frame.svg(&words(name, axis, values), &inside), &legend(&keys))
}

/// The picture in words.
fn words(name: &str, axis: &str, values: &[Option<f64>]) -> String {
    let finite: Vec<f64> = values.iter().flatten().copied().filter(|x| x.is_finite()).collect();
    let range = match (finite.first(), finite.last()) {
        (Some(first), Some(last)) => format!("{} to {}", short(*first, 3), short(*last, 3)),
        _ => "no finite value".to_owned(),
    };
    let off = values.iter().flatten().filter(|x| !x.is_finite()).count() as u64;
    let off = match off {
        0 => String::new(),
        1 => "; 1 is not finite".to_owned(),
        off => format!("; {off} are not finite"),
    };
    let what = if name == axis { name.to_owned() } else { format!("{name}, {axis}") };
    format!("{what} over {}, {range}{off}", count(values.len() as u64, "step"))
}

/// The axis of the steps: the first, the last and those between that have room.
fn steps_axis(steps: &[String]) -> Axis {
    const MARKS: usize = 4;
    let last = steps.len().saturating_sub(1);
    let marks = last.clamp(1, MARKS);
    let place = |mark: usize| mark * last / marks;
    let mark = |mark: usize| {
        let name = steps.get(place(mark)).map_or("", String::as_str);
        let name = name.strip_prefix("step ").unwrap_or(name);
        let name: String = name.chars().take(10).collect();
        (place(mark) as f64 / last.max(1) as f64, name)
    };
    Axis { label: "step".to_owned(), ticks: (0..=marks).map(mark).collect() }
}

/// The axis of the values.
struct Scale {
    least: f64,
    most: f64,
    is_log: bool,
}

impl Scale {
    fn of(values: &[Option<f64>]) -> Scale {
        let finite = || values.iter().flatten().copied().filter(|x| x.is_finite());
        let least = finite().fold(f64::INFINITY, f64::min);
        let most = finite().fold(f64::NEG_INFINITY, f64::max);
        if least > most {
            return Scale { least: 0.0, most: 1.0, is_log: false };
        }
        if least > 0.0 && most / least >= WIDE {
            return Scale { least, most, is_log: true };
        }
        // A line that does not move lies in the middle.
        let room = if most > least { 0.0 } else { most.abs().max(f64::MIN_POSITIVE) / 2.0 };
        Scale { least: least - room, most: most + room, is_log: false }
    }

    fn share(&self, x: f64) -> f64 {
        match self.is_log {
            true => (x / self.least).ln() / (self.most / self.least).ln(),
            // Halves keep the difference of two large numbers finite.
            false => (x / 2.0 - self.least / 2.0) / (self.most / 2.0 - self.least / 2.0),
        }
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        if self.is_log {
            let (first, last) = (self.least.log10().ceil() as i32, self.most.log10() as i32);
            let powers: Vec<i32> = (first..=last).collect();
            if powers.len() >= 2 {
                let step = powers.len().div_ceil(5);
                let tick = |power: &i32| {
                    let value = 10f64.powi(*power);
                    (self.share(value), short(value, 1))
                };
                return powers.iter().step_by(step).map(tick).collect();
            }
        }
        [self.least, self.least / 2.0 + self.most / 2.0, self.most]
            .map(|value| (self.share(value), short(value, 3)))
            .to_vec()
    }
}

/// The line through the finite values, broken where there is none.
fn path(values: &[Option<f64>], scale: &Scale, frame: &Frame) -> String {
    let (mut path, mut is_open) = (String::new(), false);
    let last = (values.len().max(2) - 1) as f64;
    let wide = values.len().div_ceil(PLACES).max(1);
    for (number, bucket) in values.chunks(wide).enumerate() {
        let finite = || bucket.iter().flatten().copied().filter(|x| x.is_finite());
        let Some(least) = finite().reduce(f64::min) else {
            is_open = false;
            continue;
        };
        let most = finite().reduce(f64::max).unwrap_or(least);
        let x = round(frame.x((number * wide) as f64 / last));
        let ends = if least == most { vec![least] } else { vec![least, most] };
        for value in ends {
            let command = if is_open { 'L' } else { 'M' };
            let _ = write!(path, "{command}{x} {}", round(frame.y(scale.share(value))));
            is_open = true;
        }
    }
    path
}

/// A dot for each value, where they are few enough to be told apart.
fn dots(values: &[Option<f64>], scale: &Scale, frame: &Frame) -> String {
    const MOST: usize = 40;
    let mut path = String::new();
    let last = (values.len().max(2) - 1) as f64;
    if values.len() > MOST {
        return path;
    }
    for (at, value) in values.iter().enumerate() {
        if let Some(value) = value.filter(|x| x.is_finite()) {
            let (x, y) = (frame.x(at as f64 / last), frame.y(scale.share(value)));
            let _ = write!(path, "M{} {}h0", round(x), round(y));
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_range_of_positive_values_has_a_logarithmic_axis() {
        let scale = Scale::of(&[Some(1e-3), None, Some(10.0), Some(f64::NAN)]);
        assert!(scale.is_log);
        assert_eq!((scale.share(1e-3), scale.share(10.0)), (0.0, 1.0));
        let names: Vec<String> = scale.ticks().into_iter().map(|(_, name)| name).collect();
        assert_eq!(names.join(" "), "0.001 0.01 0.1 1 10");
        assert!(!Scale::of(&[Some(-1.0), Some(100.0)]).is_log);
    }

    #[test]
    fn a_line_that_does_not_move_lies_in_the_middle_and_one_without_values_is_empty() {
        let scale = Scale::of(&[Some(3.0), Some(3.0)]);
        assert_eq!(scale.share(3.0), 0.5);
        let wide = Scale::of(&[Some(-f64::MAX), Some(f64::MAX)]);
        assert_eq!((wide.share(-f64::MAX), wide.share(f64::MAX)), (0.0, 1.0));
        let nothing = Scale::of(&[None, Some(f64::NAN)]);
        assert_eq!(nothing.ticks().len(), 3);
        let picture = steps("y", "loss", &[None, Some(f64::NAN)], &[]).into_string();
        assert!(picture.contains("no finite value; 1 is not finite"), "{picture}");
    }
}
