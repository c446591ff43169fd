//! Reads the outputs of a program. Names, dtypes, shapes and bytes must be as the harness declares them.

use std::error::Error;
use std::ops::Range;
use std::path::Path;

use half::{bf16, f16};

use crate::worker::UnfitOutput;
use replay_base::tensor::float8::{E4M3, E5M2, encode_float8};
use replay_base::tensor::{DType, TensorView};
use replay_fixture::fixture::{AnswerFile, Fixture, Output};

/// One output, checked against the harness.
#[derive(Debug)]
pub(super) struct AnsweredOutput {
    pub name: String,
    /// The element type in the file: that of the harness, or the wider float of the request.
    pub dtype: DType,
    pub shape: Vec<usize>,
    /// Its bytes in the file.
    pub range: Range<usize>,
}

/// The outputs that a program wrote.
pub(super) struct ProgramOutputs {
    pub(super) file: AnswerFile,
    /// Those of the harness.
    pub(super) answered: Vec<AnsweredOutput>,
    /// What is missing, otherwise, or too much.
    pub(super) unfit: Vec<UnfitOutput>,
}

/// The outputs at `path`, or all faults of theirs, in words.
pub(super) fn read_program_outputs(
    path: &Path,
    fixture: &Fixture,
    is_wide: bool,
) -> Result<ProgramOutputs, String> {
    if std::fs::symlink_metadata(path).is_err() {
        return Err("it ended without an error and wrote no outputs".to_owned());
    }
    let file = AnswerFile::open(path).map_err(|error| {
        let causes = std::iter::successors(error.source(), |cause| (*cause).source());
        let text = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
        // The folder is gone when the message is read.
        text.replace(&path.display().to_string(), "the file with its outputs")
    })?;
    let mut answered = Vec::new();
    let mut unfit = Vec::new();
    for output in &fixture.outputs {
        match check_answered_output(&file, output, is_wide) {
            Ok(answered_output) => answered.push(answered_output),
            Err(problem) => unfit.push(UnfitOutput { output: output.name.clone(), problem }),
        }
    }
    for (name, ..) in file.tensors() {
        if !fixture.outputs.iter().any(|output| output.name == name) {
            let problem = format!("output `{name}` is not one of the harness's");
            unfit.push(UnfitOutput { output: name.to_owned(), problem });
        }
    }
    if answered.is_empty() && !unfit.is_empty() {
        return Err(UnfitOutput::join_problems(&unfit));
    }
    Ok(ProgramOutputs { file, answered, unfit })
}

fn check_answered_output(
    file: &AnswerFile,
    output: &Output,
    is_wide: bool,
) -> Result<AnsweredOutput, String> {
    let name = &output.name;
    let stored_tensor = file.tensors().find(|(stored_name, ..)| stored_name == name);
    let Some((_, dtype, shape, range)) = stored_tensor else {
        return Err(format!("output `{name}` is missing"));
    };
    if shape != output.shape() {
        let expected = output.shape();
        return Err(format!("output `{name}` has the shape {shape:?} instead of {expected:?}"));
    }
    let may_differ = is_wide && output.dtype.is_float() && dtype.is_float();
    if dtype != output.dtype && !may_differ {
        return Err(format!("output `{name}` has the dtype {dtype} instead of {}", output.dtype));
    }
    if dtype == DType::Bool && file.bytes()[range.clone()].iter().any(|&byte| byte > 1) {
        return Err(format!("output `{name}` is bool and holds bytes other than 0 and 1"));
    }
    Ok(AnsweredOutput { name: name.clone(), dtype, shape: shape.to_vec(), range })
}

/// Whether all numbers of a wide output fit the `native` format and use most of its digits. They were rounded to it
/// then, or copied from rounded numbers. Simple numbers say nothing.
pub(super) fn fits_native_format(view: &TensorView, native: DType) -> bool {
    let (narrowed, digits): (fn(f64) -> f64, u32) = match native {
        DType::F32 => (|x| f64::from(x as f32), f32::MANTISSA_DIGITS),
        DType::F16 => (|x| f16::from_f64(x).to_f64(), f16::MANTISSA_DIGITS),
        DType::BF16 => (|x| bf16::from_f64(x).to_f64(), bf16::MANTISSA_DIGITS),
        DType::F8E4M3 => (|x| E4M3[usize::from(encode_float8(DType::F8E4M3, x))], 4),
        DType::F8E5M2 => (|x| E5M2[usize::from(encode_float8(DType::F8E5M2, x))], 3),
        // Integers have no precision, and float64 has no wider twin: the same computation is its own.
        _ => return false,
    };
    if view.dtype.size() <= native.size() {
        return true;
    }
    let mut uses_most_digits = false;
    for x in (0..view.len()).map(|index| view.get_f64(index)).filter(|x| x.is_finite()) {
        if narrowed(x) != x {
            return false;
        }
        uses_most_digits = uses_most_digits || count_binary_digits(x) > digits / 2;
    }
    uses_most_digits
}

/// How many binary digits `x` has, from its first to its last nonzero one.
fn count_binary_digits(x: f64) -> u32 {
    let fraction = x.to_bits() & ((1 << (f64::MANTISSA_DIGITS - 1)) - 1);
    match fraction {
        0 => 1,
        _ => f64::MANTISSA_DIGITS - fraction.trailing_zeros(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_the_narrow_format_was_computed_in_it() {
        let fits = |values: &[f64], native| {
            let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            let shape = [values.len()];
            let view = TensorView { dtype: DType::F64, shape: &shape, bytes: &bytes };
            fits_native_format(&view, native)
        };
        assert!(!fits(&[1.0, 1.0 / 3.0], DType::F32));
        assert!(fits(&[1.0, f64::from(1.0f32 / 3.0)], DType::F32));
        assert!(!fits(&[f64::from(1.0f32 / 3.0)], DType::BF16));
        assert!(fits(&[f64::from(f16::from_f32(1.0 / 3.0)), f64::NAN], DType::F16));
        assert!(fits(&[1.0, 0.8125, 448.0], DType::F8E4M3) && !fits(&[1.0, 0.8], DType::F8E4M3));
        assert!(fits(&[1.0, 0.875], DType::F8E5M2) && !fits(&[0.8125], DType::F8E5M2));
        assert!(!fits(&[5.0, 0.0, -0.75], DType::F32), "simple numbers say nothing");
        assert!(!fits(&[0.5], DType::F64) && !fits(&[2.0], DType::I32));
    }
}
