//! Whether a float64 shadow is a twin of its output at all: it is finite where the output is, and no further from it than
//! rounding explains.

use rayon::prelude::*;

use super::compare::{DifferingElement, Unexplained};
use super::constants::{COARSE_ROUNDING, COARSEST_SHARE, NARROW_ROUNDING};
use super::measure::ulp;
use super::noise::NoiseRef;
use super::oracle::against_oracle;
use super::{CompareError, check_shapes};
use replay_base::tensor::TensorView;

/// An element of an output that its shadow does not tell of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwinFault {
    /// The row-major index.
    pub index: usize,
    /// The value of the output.
    pub output: f64,
    /// The value of the shadow.
    pub shadow: f64,
}

/// The first element of `shadow` that is not finite where `output` is.
///
/// # Errors
/// [`CompareError::Shape`] if the shapes differ.
pub fn find_non_finite(
    output: &TensorView,
    shadow: &TensorView,
) -> Result<Option<TwinFault>, CompareError> {
    check_shapes(output, shadow, false)?;
    Ok(find_first(output, shadow, |fault| fault.output.is_finite() && !fault.shadow.is_finite()))
}

/// The first element of `output` that no rounding moves as far from `shadow`, where a good part of the output lies off.
/// The noise of the output is `noise`, relative in L2 `rounding`.
///
/// Sums in a narrow format stop growing, and ties fall either way: both move elements far. So where rounding moves the
/// output as a narrow format does, elements count by their sign alone, and those of a few ties never.
///
/// # Errors
/// As [`find_non_finite`], and [`CompareError::Noise`] if the noise belongs to another tensor.
pub fn find_unexplained(
    output: &TensorView,
    shadow: &TensorView,
    noise: &NoiseRef,
    rounding: f64,
) -> Result<Option<TwinFault>, CompareError> {
    check_shapes(output, shadow, false)?;
    noise.check_len(output.len())?;
    if !output.dtype.is_float() {
        return Ok(None);
    }
    let relative_l2 = against_oracle(output, shadow, noise)?.relative_l2;
    if relative_l2 <= COARSEST_SHARE {
        return Ok(None);
    }
    let dtype = output.dtype;
    let kind =
        if rounding < NARROW_ROUNDING { Unexplained::Any } else { Unexplained::NewOrReversed };
    let coarser = (COARSE_ROUNDING / (ulp(dtype, 1.0) / 2.0)).max(1.0);
    Ok(find_first(output, shadow, |fault| {
        let noise = noise.sum_at(dtype, fault.index, fault.output, fault.shadow);
        let element = DifferingElement::from_values(dtype, fault.output, fault.shadow, noise);
        element.is_some_and(|element| element.is_unexplained(coarser, kind))
    }))
}

/// Elements that one thread looks through.
const PART: usize = 1 << 16;
/// Elements that are read at a time.
const BLOCK: usize = 1 << 10;

/// The first element of which `is_fault` holds.
fn find_first(
    output: &TensorView,
    shadow: &TensorView,
    is_fault: impl Fn(&TwinFault) -> bool + Sync,
) -> Option<TwinFault> {
    let count = output.len();
    (0..count.div_ceil(PART)).into_par_iter().find_map_first(|part| {
        let end = count.min((part + 1) * PART);
        let mut blocks = (part * PART..end).step_by(BLOCK);
        blocks.find_map(|first| {
            let [mut outputs, mut shadows] = [[0.0; BLOCK]; 2];
            let outputs = &mut outputs[..BLOCK.min(end - first)];
            let shadows = &mut shadows[..outputs.len()];
            output.read(first, outputs);
            shadow.read(first, shadows);
            let pairs = outputs.iter().zip(shadows.iter()).zip(first..);
            let mut faults =
                pairs.map(|((&output, &shadow), index)| TwinFault { index, output, shadow });
            faults.find(&is_fault)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_base::tensor::DType;

    fn bytes(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn single_bytes(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect()
    }

    /// The index of the first fault of each kind.
    fn faults(output: &[f64], shadow: &[f64], rounding: f64) -> (Option<usize>, Option<usize>) {
        let [output_bytes, shadow_bytes] = [single_bytes(output), bytes(shadow)];
        let shape = [output.len()];
        let output = TensorView { dtype: DType::F32, shape: &shape, bytes: &output_bytes };
        let shadow = TensorView { dtype: DType::F64, shape: &shape, bytes: &shadow_bytes };
        let noise = NoiseRef::default();
        let index = |fault: Option<TwinFault>| fault.map(|fault| fault.index);
        let non_finite = find_non_finite(&output, &shadow).unwrap();
        let unexplained = find_unexplained(&output, &shadow, &noise, rounding).unwrap();
        (index(non_finite), index(unexplained))
    }

    #[test]
    fn a_shadow_that_is_not_finite_where_the_output_is_is_told_by_its_first_element() {
        let output = [1.0, 2.0, f64::INFINITY, 4.0];
        assert_eq!(faults(&output, &output, 1e-7).0, None);
        assert_eq!(faults(&output, &[1.0, 2.0, f64::NAN, f64::INFINITY], 1e-7).0, Some(3));
        // What overflows in float32 alone is the output's.
        assert_eq!(faults(&output, &[1.0, 2.0, 3e38, 4.0], 1e-7).0, None);
    }

    #[test]
    fn a_shadow_as_far_off_as_no_rounding_is_no_twin() {
        let output = [1.0, -2.0, 3.0, 4.0];
        assert_eq!(faults(&output, &[1.0, -2.0, 3.0000001, 4.0], 1e-7).1, None);
        assert_eq!(faults(&output, &[1.0, -2.0, 30.0, 4.0], 1e-7).1, Some(2));
        assert_eq!(faults(&output, &[1.0, 2.0, -3.0, 4.0], 1e-7).1, Some(1));
    }

    #[test]
    fn a_tie_and_a_sum_that_stopped_growing_are_roundings() {
        let mut output = [1.0; 64];
        let shadow = [1.0; 64];
        output[7] = 0.5;
        assert_eq!(faults(&output, &shadow, 1e-7).1, None);
        assert_eq!(faults(&[256.0; 4], &[4096.0; 4], 1e-2).1, None);
        assert_eq!(faults(&[256.0; 4], &[-4096.0; 4], 1e-2).1, Some(0));
    }
}
