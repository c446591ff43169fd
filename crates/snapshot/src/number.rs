//! Numbers in the digits above noise: they stand still while only noise moves. They belong to a stable format, apart
//! from the numbers of reports.

use replay_base::summary::{PROJECTIONS, Sketch};

/// A number is rounded to a power of ten of at least this many times its noise.
const STEADY: f64 = 16.0;

/// The digits of a number without known noise.
const ALL_DIGITS: i32 = 12;

/// The projections of a sketch are rounded to at most this part of their noise.
const SKETCH_PART: f64 = 0.25;

/// `x` in at least `least_digits` digits; `noise` is its noise, in the units of `x`. A number below its noise is 0 where
/// `least_digits` is 0.
pub(crate) fn format_steady_number(x: f64, noise: f64, least_digits: i32) -> String {
    if x == 0.0 || !x.is_finite() {
        return format!("{x}");
    }
    let digits = if noise > 0.0 && noise.is_finite() {
        decimal_exponent(x) - decimal_exponent(noise * STEADY)
    } else {
        ALL_DIGITS
    };
    match digits.clamp(least_digits, ALL_DIGITS) {
        ..=0 => "0".to_owned(),
        digits => format_snapshot_number(x, digits as usize),
    }
}

/// `x` in at most `digits` significant digits, in the shorter of the two notations.
pub(super) fn format_snapshot_number(x: f64, digits: usize) -> String {
    if x == 0.0 || !x.is_finite() {
        return format!("{x}");
    }
    let scientific = format!("{x:.*e}", digits.saturating_sub(1));
    let (mantissa, power) = scientific.split_once('e').expect("written with an exponent");
    let power: i32 = power.parse().expect("an exponent is a number");
    if !(-4..7).contains(&power) {
        return format!("{}e{power}", without_zeros(mantissa));
    }
    let decimals = (digits as i32 - 1 - power).max(0) as usize;
    without_zeros(&format!("{x:.decimals$}")).to_owned()
}

/// Decimals without the zeros at their end.
fn without_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// `x` in two digits.
pub(crate) fn two_digits(x: f64) -> f64 {
    format!("{x:.1e}").parse().expect("a number that was just written")
}

/// The decimal exponent of a finite number other than zero.
fn decimal_exponent(x: f64) -> i32 {
    let text = format!("{x:e}");
    text.split_once('e').and_then(|(_, digits)| digits.parse().ok()).unwrap_or(0)
}

/// The projections as `1e-9 * 12 -7 ...`, in a unit far below `noise`. Noise is in the units of the projections.
pub(super) fn format_sketch(sketch: &Sketch, noise: f64) -> String {
    let part = noise * SKETCH_PART;
    let unit =
        if part.is_normal() { format!("1e{}", decimal_exponent(part)) } else { "1".to_owned() };
    let size: f64 = unit.parse().expect("a number that was just written");
    let mut projections = Vec::new();
    for x in sketch.0 {
        let units = x / size;
        // Beyond 2^53 nothing is rounded any more.
        if units == 0.0 || (part.is_normal() && units.abs() < 9e15) {
            projections.push(format!("{}", units.round() as i64));
        } else {
            projections.push(format!("{units:e}"));
        }
    }
    format!("{unit} * {}", projections.join(" "))
}

/// Whether [`format_sketch`] writes in this unit for a noise rounded to `noise`.
pub(crate) fn unit_fits(unit: f64, noise: f64) -> bool {
    let part = noise * SKETCH_PART;
    if part.is_normal() && unit > 0.0 {
        decimal_exponent(unit).abs_diff(decimal_exponent(part)) <= 1
    } else {
        unit == 1.0
    }
}

/// Reads the projections of [`format_sketch`], and their unit.
pub(crate) fn parse_sketch(text: &str) -> Option<(f64, Sketch)> {
    let (unit, projections) = text.split_once(" * ")?;
    let unit: f64 = unit.parse().ok()?;
    let values: Option<Vec<f64>> =
        projections.split(' ').map(|x| x.parse::<f64>().ok().map(|x| x * unit)).collect();
    let values: [f64; PROJECTIONS] = values?.try_into().ok()?;
    Some((unit, Sketch(values)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_accepted_snapshots_have_them() {
        let cases = [
            (0.0, "0"),
            (-0.00446295, "-0.00446295"),
            (1.847_477_8, "1.84748"),
            (6.41e-13, "6.41e-13"),
            (123_456.7, "123457"),
            (1e20, "1e20"),
            (f64::INFINITY, "inf"),
        ];
        assert_eq!(
            cases.map(|(x, _)| format_snapshot_number(x, 6)),
            cases.map(|(_, text)| text.to_owned())
        );
    }

    #[test]
    fn numbers_stand_still_while_noise_moves_them() {
        let noise = 6e-8 * 0.0537195;
        assert_eq!(format_steady_number(0.053719512, noise, 3), "0.0537195");
        assert_eq!(format_steady_number(0.053719512 + noise, noise, 3), "0.0537195");
        assert_eq!(format_steady_number(4e-13, noise, 0), "0");
        assert_eq!(format_steady_number(-4e-13, noise, 0), "0");
        assert_eq!(format_steady_number(0.25, 1.0, 3), "0.25");
        assert_eq!(format_steady_number(-1234567.0, 0.0, 0), "-1234567");
        assert_eq!(format_steady_number(f64::INFINITY, 1.0, 0), "inf");
    }

    #[test]
    fn a_sketch_survives_its_text_to_a_part_of_its_noise() {
        let mut exact = Sketch::default();
        exact.0.iter_mut().enumerate().for_each(|(i, x)| *x = (i as f64 - 7.3) * 0.0123456789);
        for noise in [1e-9, 3e-4, 0.0, 1e-300, f64::NAN] {
            let (unit, read) = parse_sketch(&format_sketch(&exact, noise)).expect("a sketch");
            assert!(unit_fits(unit, noise) && unit_fits(unit, noise * 1.01), "{noise}");
            assert!(!unit_fits(unit, 1e3) && !unit_fits(unit, f64::INFINITY) || unit == 1.0);
            let allowed = if noise > 0.0 { noise / 4.0 } else { 0.0 };
            for (a, b) in exact.0.iter().zip(read.0) {
                assert!((a - b).abs() <= allowed.max(1e-15), "{a} {b} {noise}");
            }
        }
    }

    #[test]
    fn what_is_not_a_sketch_is_not_read_as_one() {
        for text in ["", "1", "1 * 1 2 3", "x * 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16"] {
            assert_eq!(parse_sketch(text), None, "{text}");
        }
    }
}
