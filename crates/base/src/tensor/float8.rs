//! The two floating-point formats of 8 bits: "OCP 8-bit Floating Point Specification (OFP8)", 2023.
//!
//! E4M3 has no infinity and one NaN of either sign; E5M2 is laid out as IEEE 754 has it.

use super::DType;

/// The numbers of the 256 codes of E4M3.
pub static E4M3: [f64; 256] = tabulate_float8(3, 7, 0x7E, 0x7F);
/// The numbers of the 256 codes of E5M2.
pub static E5M2: [f64; 256] = tabulate_float8(2, 15, 0x7B, 0x7C);

/// The numbers of a format with so many bits of fraction, this bias, this largest finite magnitude, and
/// this code for larger ones. Codes behind it are NaN.
const fn tabulate_float8(fraction: u32, bias: i32, largest: usize, overflow: usize) -> [f64; 256] {
    let mut values = [f64::NAN; 256];
    let mut code = 0;
    while code <= overflow {
        let exponent = (code >> fraction) as i32;
        let digits = (code & ((1 << fraction) - 1)) as f64;
        let magnitude = match exponent {
            _ if code > largest && overflow == 0x7C => f64::INFINITY,
            _ if code > largest => f64::NAN,
            0 => digits * power_from_exponent(1 - bias - fraction as i32),
            _ => {
                (digits + (1 << fraction) as f64)
                    * power_from_exponent(exponent - bias - fraction as i32)
            }
        };
        values[code] = magnitude;
        values[code | 0x80] = -magnitude;
        code += 1;
    }
    values
}

const fn power_from_exponent(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// The code of `x` in `dtype`, rounded to the nearest, ties to even. A number beyond the range is NaN in E4M3 and
/// infinite in E5M2.
///
/// # Panics
/// If `dtype` is neither.
pub fn encode_float8(dtype: DType, x: f64) -> u8 {
    let (values, largest, overflow, nan) = match dtype {
        DType::F8E4M3 => (&E4M3, 0x7E, 0x7F, 0x7F),
        DType::F8E5M2 => (&E5M2, 0x7B, 0x7C, 0x7E),
        _ => unreachable!("{dtype} has more than 8 bits"),
    };
    let sign = u8::from(x.is_sign_negative()) << 7;
    let magnitude = x.abs();
    if x.is_nan() {
        return sign | nan;
    }
    let code_below = values[..=largest].partition_point(|value| *value <= magnitude) - 1;
    let next = if code_below == largest {
        2.0 * values[largest] - values[largest - 1]
    } else {
        values[code_below + 1]
    };
    let to_below = magnitude - values[code_below];
    let to_next = next - magnitude;
    let up = to_below > to_next || (to_below == to_next && code_below % 2 == 1);
    let code = code_below + usize::from(up);
    sign | if code > largest { overflow } else { code as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What ml_dtypes 0.6 makes of the codes of `float8_e4m3fn`, eight in a line.
    const KNOWN_E4M3: &str = include_str!("float8/e4m3.txt");
    /// The same of `float8_e5m2`.
    const KNOWN_E5M2: &str = include_str!("float8/e5m2.txt");

    #[test]
    fn every_code_stands_for_the_number_that_ml_dtypes_has() {
        for (values, known) in [(&E4M3, KNOWN_E4M3), (&E5M2, KNOWN_E5M2)] {
            let known: Vec<f64> = known.split_whitespace().map(|x| x.parse().unwrap()).collect();
            assert_eq!(known.len(), 256);
            for (code, (own, known)) in values.iter().zip(&known).enumerate() {
                let same = own.to_bits() == known.to_bits() || (own.is_nan() && known.is_nan());
                assert!(same, "{code:#04x}: {own} {known}");
            }
        }
    }

    #[test]
    fn numbers_are_rounded_to_the_nearest_and_ties_to_even() {
        for (dtype, values) in [(DType::F8E4M3, &E4M3), (DType::F8E5M2, &E5M2)] {
            for (code, value) in values.iter().enumerate() {
                let back = values[usize::from(encode_float8(dtype, *value))];
                let same = back.to_bits() == value.to_bits() || (back.is_nan() && value.is_nan());
                assert!(same, "{dtype} {code:#04x}: {value} {back}");
            }
            for code in 0..127u8 {
                let low = values[usize::from(code)];
                let high = values[usize::from(code) + 1];
                if !high.is_finite() {
                    break;
                }
                let middle = (low + high) / 2.0;
                let ways = [middle.next_down(), middle, middle.next_up()];
                let even = if code % 2 == 0 { code } else { code + 1 };
                assert_eq!(
                    ways.map(|x| encode_float8(dtype, x)),
                    [code, even, code + 1],
                    "{dtype}"
                );
                assert_eq!(encode_float8(dtype, -middle), even | 0x80, "{dtype}");
            }
        }
        let all = |dtype, xs: [f64; 4]| xs.map(|x| encode_float8(dtype, x));
        // Beyond the largest, a half step is still rounded down to it.
        let above = 464f64.next_up();
        assert_eq!(
            all(DType::F8E4M3, [464.0, above, f64::NEG_INFINITY, 1e-300]),
            [0x7E, 0x7F, 0xFF, 0]
        );
        let below = 61440f64.next_down();
        assert_eq!(
            all(DType::F8E5M2, [below, 61440.0, f64::NEG_INFINITY, -1e-300]),
            [0x7B, 0x7C, 0xFC, 0x80]
        );
    }
}
