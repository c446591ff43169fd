//! Bounds on the errors of the device's single-precision functions.
//!
//! The greatest errors in units in the last place for the full range of arguments, from the CUDA C++ Programming
//! Guide, chapter "Mathematical Functions"; where its editions differ, the larger. `tests/gpu_math.rs` measures them
//! on a device. Operations documented as exact or rounded to nearest are not listed: `+`, `*`, `/`, `sqrtf`, `fmaf`
//! and mere moves of bits.

/// By the name without the final `f` of single precision: CUDA overloads `exp` for
/// `float`. Double precision is better throughout.
const FUNCTIONS: [(&str, f64); 42] = [
    ("acos", 2.0),
    ("acosh", 4.0),
    ("asin", 2.0),
    ("asinh", 3.0),
    ("atan", 2.0),
    ("atan2", 3.0),
    ("atanh", 3.0),
    ("cbrt", 1.0),
    ("cos", 2.0),
    ("cosh", 2.0),
    ("cospi", 1.0),
    ("erf", 2.0),
    ("erfc", 4.0),
    ("erfcinv", 4.0),
    ("erfcx", 4.0),
    ("erfinv", 2.0),
    ("exp", 2.0),
    ("exp10", 2.0),
    ("exp2", 2.0),
    ("expm1", 1.0),
    ("hypot", 3.0),
    ("j0", 9.0),
    ("j1", 9.0),
    ("lgamma", 6.0),
    ("log", 1.0),
    ("log10", 2.0),
    ("log1p", 1.0),
    ("log2", 1.0),
    ("normcdf", 5.0),
    ("normcdfinv", 5.0),
    ("pow", 9.0),
    ("rcbrt", 1.0),
    ("rhypot", 2.0),
    ("rsqrt", 2.0),
    ("sin", 2.0),
    ("sincos", 2.0),
    ("sinh", 3.0),
    ("sinpi", 1.0),
    ("tan", 4.0),
    ("tanh", 2.0),
    ("tgamma", 11.0),
    ("y0", 9.0),
];

/// The intrinsics. The error of some depends on the argument. The error of `__expf`, 2 + 1.173 |x|, is taken
/// at |x| = 25: beyond it the result is less than 2e-11 of the largest in a softmax. `__powf` is
/// `exp2f(y * __log2f(x))`. Its error is taken where the product is 25: the 2.3 units of the logarithm
/// and the rounding of the product, as a power of two. The errors of `__sinf`, `__cosf` and `__logf` near
/// their zeros are bounded absolutely, and are taken where the result is about 1.
const INTRINSICS: [(&str, f64); 11] = [
    ("__cosf", 4.0),
    ("__exp10f", 77.0),
    ("__expf", 32.0),
    ("__fdividef", 2.0),
    ("__log10f", 3.0),
    ("__log2f", 2.0),
    ("__logf", 4.0),
    ("__powf", 96.0),
    ("__sincosf", 4.0),
    ("__sinf", 4.0),
    ("__tanf", 8.0),
];

/// The greatest error in units in the last place of the function called `name` in device code;
/// none if it rounds as the CPU does, or is no function of CUDA's.
pub fn math_error_ulps(name: &str) -> Option<f64> {
    find_error(&INTRINSICS, name)
        .or_else(|| find_error(&FUNCTIONS, name))
        .or_else(|| find_error(&FUNCTIONS, name.strip_suffix('f')?))
}

/// The error of `name` in the sorted `table`.
fn find_error(table: &[(&str, f64)], name: &str) -> Option<f64> {
    let place = table.binary_search_by_key(&name, |(known_name, _)| *known_name).ok()?;
    Some(table[place].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_both_their_names_and_by_no_other() {
        assert!(FUNCTIONS.is_sorted() && INTRINSICS.is_sorted());
        for (name, ulps) in
            [("expf", 2.0), ("exp", 2.0), ("logf", 1.0), ("erf", 2.0), ("erff", 2.0)]
        {
            assert_eq!(math_error_ulps(name), Some(ulps), "{name}");
        }
        assert_eq!(math_error_ulps("__expf"), Some(32.0));
        for exact in ["sqrtf", "fmaf", "fabsf", "fmaxf", "my_exp", "f", "", "expff"] {
            assert_eq!(math_error_ulps(exact), None, "{exact}");
        }
    }
}
