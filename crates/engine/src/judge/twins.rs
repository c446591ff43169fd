//! Whether the float64 shadows of one output are twins of it, and the words where they are not.

use super::side::MeasuredTrial;
use super::written::WrittenTensors;
use replay_base::tensor::{TensorView, unravel_index};
use replay_numerics::CompareError;
use replay_numerics::noise::NoiseRef;
use replay_numerics::twin::{TwinFault, find_non_finite, find_unexplained};

/// Takes the shadows of output `name` out of `tensors` where they are no twins, and says why. A shadow that is not finite
/// where the output is tells nothing of it. One that lies far off is none if both sides have such a one: on a single side
/// it may be the output that is off.
pub(super) fn drop_false_twins(
    tensors: &mut WrittenTensors,
    [base, got]: [&MeasuredTrial; 2],
    name: &str,
) -> Result<Option<String>, CompareError> {
    let base_output = tensors.base.view();
    let got_output = tensors.got.view();
    if base_output.bytes == got_output.bytes {
        // Their shadows are not asked.
        return Ok(None);
    }
    let mut reasons = Vec::new();
    let sides = [
        (&mut tensors.base_shadow, &base_output, "the trusted side"),
        (&mut tensors.got_shadow, &got_output, "the other side"),
    ];
    for (shadow, output, side) in sides {
        let Some(tensor) = shadow.as_ref() else { continue };
        if let Some(fault) = find_non_finite(output, &tensor.view())? {
            let words = describe_non_finite(name, &fault, output.shape);
            reasons.push(format!("{words}, on {side}"));
            *shadow = None;
        }
    }
    let shadows = tensors.base_shadow.as_ref().zip(tensors.got_shadow.as_ref());
    let faults = match shadows {
        Some((base_shadow, got_shadow)) => {
            let base_fault = find_far_twin(base, name, &base_output, &base_shadow.view())?;
            let got_fault = find_far_twin(got, name, &got_output, &got_shadow.view())?;
            base_fault.zip(got_fault)
        }
        None => None,
    };
    if let Some((fault, _)) = faults {
        reasons.push(describe_far(name, &fault, base_output.shape));
        tensors.base_shadow = None;
        tensors.got_shadow = None;
    }
    Ok((!reasons.is_empty()).then(|| reasons.join("; ")))
}

fn find_far_twin(
    side: &MeasuredTrial,
    name: &str,
    output: &TensorView,
    shadow: &TensorView,
) -> Result<Option<TwinFault>, CompareError> {
    let noise = NoiseRef { base: side.measured.noise_of(name), got: None };
    find_unexplained(output, shadow, &noise, side.measured.noise_summary(name).relative_l2)
}

/// `y is NaN at [3] in it, and 0.25 in the output`.
fn describe_non_finite(name: &str, fault: &TwinFault, shape: &[usize]) -> String {
    let TwinFault { index, output, shadow } = fault;
    let place = describe_element(*index, shape);
    format!("{name} is {shadow}{place} in it, and {output} in the output")
}

/// ` at [1, 2]`; nothing of a scalar.
fn describe_element(index: usize, shape: &[usize]) -> String {
    if shape.is_empty() { String::new() } else { format!(" at {:?}", unravel_index(index, shape)) }
}

/// The words for a shadow further off than any rounding.
pub(super) fn describe_far(name: &str, fault: &TwinFault, shape: &[usize]) -> String {
    let TwinFault { index, output, shadow } = fault;
    let place = describe_element(*index, shape);
    format!(
        "no rounding explains how far it lies off: {name} is {shadow:e}{place} in it, and {output:e} in the output"
    )
}
