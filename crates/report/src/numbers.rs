//! Numbers and tensors for people.

use anstyle::Style;

use super::spans::ReportLine;
use super::style::RED;
use replay_base::summary::Summary;
use replay_base::tensor::Dim;

/// A number in at most `digits` significant digits, in the shorter of the two notations.
pub fn format_short_number(x: f64, digits: usize) -> String {
    if x == 0.0 || !x.is_finite() {
        return format!("{x}");
    }
    let scientific = format!("{x:.*e}", digits.saturating_sub(1));
    let (mantissa, exponent) = scientific.split_once('e').expect("written with an exponent");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    if !(-4..7).contains(&exponent) {
        let mantissa = if mantissa.contains('.') {
            mantissa.trim_end_matches('0').trim_end_matches('.')
        } else {
            mantissa
        };
        return format!("{mantissa}e{exponent}");
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    let fixed = format!("{x:.decimals$}");
    if fixed.contains('.') {
        fixed.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        fixed
    }
}

/// `1 thing`, `2 things`.
pub fn format_noun_count(n: u64, thing: &str) -> String {
    format_plural_count(n, thing, &format!("{thing}s"))
}

/// `1 launch`, `2 launches`.
pub(crate) fn format_plural_count(n: u64, singular_form: &str, plural_form: &str) -> String {
    if n == 1 { format!("1 {singular_form}") } else { format!("{n} {plural_form}") }
}

/// Bytes for people, such as `1.5 KiB`.
pub fn format_byte_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// `[batch 8, seq 32]`, or `scalar`.
pub fn format_dims(dims: &[Dim]) -> String {
    if dims.is_empty() {
        return "scalar".to_owned();
    }
    let texts = dims.iter().map(|dim| match &dim.name {
        Some(name) => format!("{name} {}", dim.size),
        None => dim.size.to_string(),
    });
    format!("[{}]", texts.collect::<Vec<_>>().join(", "))
}

/// `number` with at most `digits` digits, or `none`.
pub(super) fn format_optional_number(number: Option<f64>, digits: usize) -> String {
    number.map_or("none".to_owned(), |number| format_short_number(number, digits))
}

/// The statistics of a tensor in one line, without those of replays alone.
pub fn render_statistics(summary: &Summary) -> ReportLine {
    const DIGITS: usize = 6;
    let numbers = format!(
        "norm {}  min {}  max {}  mean {}  zeros {}  ",
        format_short_number(summary.norm, DIGITS),
        format_optional_number(summary.min, DIGITS),
        format_optional_number(summary.max, DIGITS),
        format_optional_number(summary.mean, DIGITS),
        summary.zeros,
    );
    ReportLine::from(numbers)
        .and(render_unwanted_count("NaN", summary.nan))
        .and("  ")
        .and(render_unwanted_count("Inf", summary.inf))
}

/// `NAME N`, in the colour of failure unless N is 0.
pub(crate) fn render_unwanted_count(name: &str, number: u64) -> ReportLine {
    ReportLine::with_style(if number > 0 { RED } else { Style::new() }, format!("{name} {number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_the_largest_unit_that_fits() {
        assert_eq!(format_byte_size(0), "0 B");
        assert_eq!(format_byte_size(1023), "1023 B");
        assert_eq!(format_byte_size(1536), "1.5 KiB");
        assert_eq!(format_byte_size(3 << 30), "3.0 GiB");
    }

    #[test]
    fn numbers_are_as_short_as_their_digits_allow() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (-0.00446295, "-0.00446295"),
            (1.847_477_8, "1.84748"),
            (6.41e-13, "6.41e-13"),
            (123_456.7, "123457"),
            (1e20, "1e20"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (x, text) in cases {
            assert_eq!(format_short_number(x, 6), text);
        }
    }
}
