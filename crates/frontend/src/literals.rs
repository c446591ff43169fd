//! The meaning of a floating literal in the float64 shadow: one number for all spellings of one float.
//!
//! A float stands for the simplest number between its two neighbours: a short decimal, a fraction, a square root of
//! one, or a small multiple of a constant such as pi or ln 2. So `1.442695f`, `1.44269504f` and `0x1.715476p+0f` are
//! all 1/ln 2. `0.7071068f` is the root of a half, though another float is nearer: the distance is rounding. A float
//! without such a number is itself.

use std::f64::consts::{E, LN_2, LN_10, PI};
use std::str::FromStr;

/// Decimals with fewer digits than this mean themselves. Those with as many may be cut off.
const CUT_OFF: usize = 7;
/// Literals of double with more digits than this are written for double.
const MOST_OF_FLOAT: usize = 9;
/// How far a number is from a short decimal: the product of numerator and denominator of its fraction, times one of
/// [`ROOT`] and [`BESIDE`]. Of random floats one in 100 stands for a number up to this by chance, and moves by less
/// than a unit in the last place of float32.
const SIMPLE: f64 = 65536.0;
/// The same of a constant written as a short decimal, such as the logarithm 0.30103.
const SIMPLEST: f64 = 256.0;
/// A root of a fraction is as simple as a fraction of this many times the size.
const ROOT: f64 = 8.0;
/// A multiple of a constant, too.
const BESIDE: f64 = 64.0;

/// The logarithm of 2 pi, of the normal distribution.
const LN_2_PI: f64 = 1.837_877_066_409_345_3;
/// Euler's constant.
const EULER: f64 = 0.577_215_664_901_532_9;
/// The golden ratio.
const GOLDEN: f64 = 1.618_033_988_749_895;

/// The constants whose small multiples and products with roots are known.
const CONSTANTS: [f64; 13] = [
    PI,
    1.0 / PI,
    E,
    1.0 / E,
    LN_2,
    1.0 / LN_2,
    LN_10,
    1.0 / LN_10,
    LN_2 / LN_10,
    LN_10 / LN_2,
    LN_2_PI,
    EULER,
    GOLDEN,
];
/// The squares of constants for products with roots of fractions: 2 / sqrt(pi), log2(e) / sqrt(128).
const SQUARES: [f64; 4] = [PI, 1.0 / PI, LN_2 * LN_2, 1.0 / (LN_2 * LN_2)];

/// The text in the shadow of the floating literal `word`, if it is another one.
pub(super) fn in_shadow(word: &str) -> Option<String> {
    let suffixes = ["bf16", "BF16", "f16", "F16", "f32", "F32", "f", "F"];
    let is_hexadecimal = word.starts_with("0x") || word.starts_with("0X");
    let marks: &[char] = if is_hexadecimal { &['p', 'P'] } else { &['.', 'e', 'E'] };
    if !word.contains(marks) {
        return None;
    }
    let suffix = suffixes.into_iter().find(|suffix| word.ends_with(suffix)).unwrap_or_default();
    let unsuffixed_word = word.strip_suffix(suffix).unwrap_or(word);
    let (written_value, float) = if is_hexadecimal {
        (
            parse_hexadecimal_literal(unsuffixed_word),
            parse_hexadecimal_literal(unsuffixed_word).map(|value| value as f32),
        )
    } else {
        (parse_decimal_literal(unsuffixed_word), parse_decimal_literal(unsuffixed_word))
    };
    let meant = float.filter(|float| float.is_finite()).and_then(|float| match suffix {
        "f" | "F" | "f32" | "F32" => Some(exact_literal_meaning(float)),
        "" if !is_hexadecimal
            && (CUT_OFF..=MOST_OF_FLOAT).contains(&count_significant_digits(unsuffixed_word)) =>
        {
            find_long_constant(float).filter(|constant| is_cut_off(*constant, unsuffixed_word))
        }
        _ => None,
    });
    match meant.filter(|meant| written_value != Some(*meant)) {
        Some(meant) => Some(format!("{meant:?}")),
        None => (!suffix.is_empty()).then(|| unsuffixed_word.to_owned()),
    }
}

/// The text in the shadow of the float with these `bits`, if it is finite.
pub(super) fn widen_float_bits(bits: u32) -> Option<String> {
    let float = f32::from_bits(bits);
    float.is_finite().then(|| format!("{:?}", exact_literal_meaning(float)))
}

/// The number behind `float`.
fn exact_literal_meaning(float: f32) -> f64 {
    let magnitude = float.abs();
    let shortest = format!("{magnitude:e}");
    let is_short = count_significant_digits(&shortest) < CUT_OFF;
    let meant_value = if is_short {
        simplest_number_near(magnitude, &NumberFamily::irrational(), SIMPLEST)
            .or(parse_decimal_literal(&shortest))
    } else {
        find_long_constant(magnitude)
    };
    let meant_value = meant_value.unwrap_or(f64::from(magnitude));
    meant_value.copysign(f64::from(float))
}

/// The constant behind a float of many digits, if there is one.
fn find_long_constant(float: f32) -> Option<f64> {
    let families = [&[NumberFamily::FRACTION], &NumberFamily::irrational()[..]].concat();
    simplest_number_near(float, &families, SIMPLE)
}

/// The simplest number beside `float`, up to `simplicity_limit`: a fraction or its root, or a multiple of a constant.
fn simplest_number_near(
    float: f32,
    families: &[NumberFamily],
    simplicity_limit: f64,
) -> Option<f64> {
    let value = f64::from(float);
    if !float.is_normal() {
        return None;
    }
    let [next_below, next_above] = [float.next_down(), float.next_up()].map(f64::from);
    let numbers = families.iter().flat_map(|family| family.beside(value, simplicity_limit));
    let nearby_numbers = numbers.filter(|(number, _)| next_below < *number && *number < next_above);
    nearby_numbers.min_by(|(_, left), (_, right)| left.total_cmp(right)).map(|(number, _)| number)
}

/// Fractions times a constant, or roots of them.
#[derive(Clone, Copy)]
struct NumberFamily {
    constant: f64,
    is_root: bool,
    /// How many times as far from simple as the fraction by itself.
    cost: f64,
}

impl NumberFamily {
    const FRACTION: NumberFamily = NumberFamily { constant: 1.0, is_root: false, cost: 1.0 };
    const ROOT: NumberFamily = NumberFamily { constant: 1.0, is_root: true, cost: ROOT };

    /// All but fractions by themselves.
    fn irrational() -> Vec<NumberFamily> {
        let multiples =
            CONSTANTS.map(|constant| NumberFamily { constant, is_root: false, cost: BESIDE });
        let roots = SQUARES.map(|constant| NumberFamily { constant, is_root: true, cost: BESIDE });
        [NumberFamily::ROOT].into_iter().chain(multiples).chain(roots).collect()
    }

    /// The numbers of this family near `value`, each with how far from simple it is, up to `simplicity_limit`.
    fn beside(self, value: f64, simplicity_limit: f64) -> impl Iterator<Item = (f64, f64)> {
        let NumberFamily { constant, is_root, cost } = self;
        let sought = if is_root { value * value } else { value };
        continued_fractions(sought / constant).map_while(move |(numerator, denominator)| {
            let number = numerator / denominator * constant;
            let simplicity = numerator * denominator * cost;
            let number = if is_root { number.sqrt() } else { number };
            (simplicity <= simplicity_limit).then_some((number, simplicity))
        })
    }
}

/// The convergents of the continued fraction of `value`. Among them is every fraction of small numbers as near to it
/// as float32 tells (Hardy and Wright, theorem 184).
fn continued_fractions(value: f64) -> impl Iterator<Item = (f64, f64)> {
    let mut remaining_value = value;
    let mut last = (0.0, 1.0);
    let mut current_fraction = (1.0, 0.0);
    std::iter::from_fn(move || {
        let whole_part = remaining_value.floor();
        remaining_value = 1.0 / (remaining_value - whole_part);
        let next =
            (whole_part * current_fraction.0 + last.0, whole_part * current_fraction.1 + last.1);
        (last, current_fraction) = (current_fraction, next);
        Some(next)
    })
}

/// The significant digits of a decimal literal.
fn count_significant_digits(text: &str) -> usize {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let digits = mantissa.trim_start_matches(['0', '.']);
    digits.bytes().filter(u8::is_ascii_digit).count()
}

/// Whether `unsuffixed_word`, a decimal literal, is `constant` but for its last digit.
fn is_cut_off(constant: f64, unsuffixed_word: &str) -> bool {
    let (mantissa, exponent) =
        unsuffixed_word.split_once(['e', 'E']).unwrap_or((unsuffixed_word, "0"));
    let places =
        mantissa.split_once('.').map_or(0, |(_, part)| part.replace('\'', "").len() as i32);
    let value = parse_decimal_literal::<f64>(unsuffixed_word);
    let exponent = exponent.parse::<i32>();
    value.zip(exponent.ok()).is_some_and(|(value, exponent)| {
        (value - constant).abs() <= 10f64.powi(exponent.saturating_sub(places))
    })
}

/// The value of a decimal literal, rounded once to `T`.
fn parse_decimal_literal<T: FromStr>(text: &str) -> Option<T> {
    text.replace('\'', "").parse().ok()
}

/// The value of a literal such as `0x1.8p-3`; none if it has more digits than float64 holds.
fn parse_hexadecimal_literal(text: &str) -> Option<f64> {
    let text = text.replace('\'', "");
    let (mantissa, exponent) = text.get(2..)?.split_once(['p', 'P'])?;
    let (whole_part, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let number = u64::from_str_radix(&format!("{whole_part}{part}"), 16).ok()?;
    let exponent = exponent.parse::<i32>().ok()? - 4 * i32::try_from(part.len()).ok()?;
    let value = number as f64 * 2f64.powi(exponent);
    (number < 1 << 53 && value.is_finite()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_of_a_float_mean_the_constant_that_it_stands_for() {
        let table: &[(f64, &[&str])] = &[
            (
                1.0 / LN_2,
                &["1.442695f", "1.44269504f", "0x1.715476p+0f", "1.442695", "1.44269502F"],
            ),
            (LN_2, &["0.6931472f", "0.69314718f", "0x1.62e43p-1f", "0.693147181"]),
            (1.0 / LN_10, &["0.4342945f", "0.434294482f", "0.4342945"]),
            (LN_2 / LN_10, &["0.30103f", "0.3010300f", "0.30103001f"]),
            (
                PI,
                &["3.1415927f", "3.14159265f", "3.141592653589793f", "0x1.921fb6p+1f", "3.1415927"],
            ),
            (2.0 * PI, &["6.2831853f", "6.283185f", "6.28318531"]),
            (0.5f64.sqrt(), &["0.7071068f", "0.70710678f", "0x1.6a09e6p-1f", "0.70710677f"]),
            ((2.0 / PI).sqrt(), &["0.7978846f", "0.7978845608f", "0.79788456f", "0.7978846"]),
            (2.0 / PI.sqrt(), &["1.1283792f", "1.12837917f", "1.128379167f"]),
            (1.0 / (2.0 * PI).sqrt(), &["0.3989423f", "0.39894228f", "0.398942280"]),
            (LN_2_PI / 2.0, &["0.9189385f", "0.918938533f"]),
            (
                1.0 / 3.0,
                &["0.33333334f", "0.3333333333f", "0.3333333f", "0.3333333", "0x1.555556p-2f"],
            ),
            (1.0 / 255.0, &["0.003921569f", "0.00392156863f", "3.921569e-3f", "0x1.010102p-8f"]),
            (1.0 / 128f64.sqrt(), &["0.088388348f", "0.08838835f", "0.0883883476f"]),
            (1.0 / LN_2 / 8.0, &["0.18033688f", "0.180336880f"]),
            (0.044715, &["0.044715f", "4.4715e-2f", "0.0447150f", "0x1.6e4e26p-5f"]),
            (0.1, &["0.1f", "0.10000000149f", "0x1.99999ap-4f", "1e-1f", "0.1'0f"]),
        ];
        for (constant, spellings) in table {
            for word in *spellings {
                let text =
                    in_shadow(word).unwrap_or_else(|| panic!("{word} stands for {constant}"));
                let value: f64 = parse_decimal_literal(&text)
                    .or_else(|| parse_hexadecimal_literal(&text))
                    .unwrap();
                let apart = (value / constant - 1.0).abs();
                assert!(apart < 1e-15, "{word} means {text}, not {constant}");
            }
        }
    }

    #[test]
    fn a_float_that_stands_for_nothing_is_itself_and_doubles_stay() {
        let meant = |words: &[&str]| words.iter().map(|word| in_shadow(word)).collect::<Vec<_>>();
        let exact = format!("{:?}", f64::from(0.254_829_6_f32));
        assert_eq!(meant(&["0.254829592f", "0.2548296f"]), [Some(exact.clone()), Some(exact)]);
        assert_eq!(
            meant(&["1.4426f", "448.f", ".5F"]),
            ["1.4426", "448.", ".5"].map(|t| Some(t.to_owned()))
        );
        let largest = format!("{:?}", f64::from(f32::MAX));
        assert_eq!(in_shadow("3.402823466e+38F"), Some(largest));
        assert_eq!(in_shadow("1.5bf16"), Some("1.5".to_owned()));
        let doubles = [
            "0.254829592",
            "1.00000003",
            "1.4426950409",
            "1.4427",
            "0.5",
            "1e-8",
            "12345678",
            "0x10",
            "0xfff",
        ];
        assert!(meant(&doubles).iter().all(Option::is_none), "{:?}", meant(&doubles));
        assert_eq!(widen_float_bits(0x3fb8_aa3b), Some(format!("{:?}", 1.0 / LN_2)));
        assert_eq!(widen_float_bits(0xbf80_0000), Some("-1.0".to_owned()));
        assert_eq!(widen_float_bits(0x7f80_0000), None);
    }

    #[test]
    fn what_a_literal_means_lies_beside_the_float_that_it_denotes() {
        let mut bits = 0x1234_5678_u32;
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let float = f32::from_bits(bits);
            if float.is_finite() {
                assert!(
                    (exact_literal_meaning(float) as f32).to_bits().abs_diff(bits) <= 1,
                    "{float:e}"
                );
            }
        }
    }
}
