//! The tensors of one output of two sides, without unwritten elements.
//!
//! Such elements hold the poison. It is no value: it enters no distance, error or norm.

use std::borrow::Cow;

use super::side::MeasuredTrial;
use crate::backend::ReplayError;
use replay_base::summary::POISON_A;
use replay_base::tensor::{DType, TensorView};
use replay_fixture::fixture::KnownOutput;

/// One output of both sides, with the shadows and the oracle. An element is zero in all of them if either side left it
/// unwritten.
pub(super) struct WrittenTensors<'a> {
    pub(super) base: WrittenTensor<'a>,
    pub(super) got: WrittenTensor<'a>,
    pub(super) base_shadow: Option<WrittenTensor<'a>>,
    pub(super) got_shadow: Option<WrittenTensor<'a>>,
    pub(super) oracle: Option<WrittenTensor<'a>>,
    /// How many elements are left out.
    pub(super) unwritten: u64,
}

/// A tensor, or a copy with zeros in it.
pub(super) struct WrittenTensor<'a> {
    dtype: DType,
    shape: Cow<'a, [usize]>,
    bytes: Cow<'a, [u8]>,
}

impl<'a> WrittenTensors<'a> {
    /// Output `name` of `base` and `got`, and its declared `oracle`; none where a side lacks the output.
    pub(super) fn collect(
        base: &MeasuredTrial<'a>,
        got: &MeasuredTrial<'a>,
        oracle: Option<&'a KnownOutput>,
        name: &str,
    ) -> Result<Option<WrittenTensors<'a>>, ReplayError> {
        let outputs = base.measured.run.output(name).zip(got.measured.run.output(name));
        let Some((base_output, got_output)) = outputs else { return Ok(None) };
        let mut unwritten = list_unwritten(base, name, &base_output)?;
        unwritten.extend(list_unwritten(got, name, &got_output)?);
        unwritten.sort_unstable();
        unwritten.dedup();
        let oracle = oracle.map(|output| WrittenTensor {
            dtype: output.dtype,
            shape: Cow::Owned(output.shape()),
            bytes: Cow::Borrowed(output.bytes()),
        });
        Ok(Some(WrittenTensors {
            base: WrittenTensor::from(base_output).without(&unwritten),
            got: WrittenTensor::from(got_output).without(&unwritten),
            base_shadow: base
                .shadow_of(name)
                .map(|shadow| WrittenTensor::from(shadow).without(&unwritten)),
            got_shadow: got
                .shadow_of(name)
                .map(|shadow| WrittenTensor::from(shadow).without(&unwritten)),
            oracle: oracle.map(|tensor| tensor.without(&unwritten)),
            unwritten: unwritten.len() as u64,
        }))
    }
}

/// The elements of `output` with the poison in them. It is output `name` of `side`, and its outcome counts them first.
fn list_unwritten(
    side: &MeasuredTrial,
    name: &str,
    output: &TensorView,
) -> Result<Vec<usize>, ReplayError> {
    let records = &side.trial.outcome()?.outputs;
    let is_counted =
        records.iter().any(|record| record.name == name && record.summary.unwritten > 0);
    let indices = if is_counted { 0..output.len() } else { 0..0 };
    Ok(indices.filter(|&index| POISON_A.is_in(output, index)).collect())
}

impl<'a> From<TensorView<'a>> for WrittenTensor<'a> {
    fn from(view: TensorView<'a>) -> WrittenTensor<'a> {
        WrittenTensor {
            dtype: view.dtype,
            shape: Cow::Borrowed(view.shape),
            bytes: Cow::Borrowed(view.bytes),
        }
    }
}

impl WrittenTensor<'_> {
    pub(super) fn view(&self) -> TensorView<'_> {
        TensorView { dtype: self.dtype, shape: &self.shape, bytes: &self.bytes }
    }

    /// The same with zeros at the indices `unwritten`.
    fn without(mut self, unwritten: &[usize]) -> Self {
        if unwritten.is_empty() {
            return self;
        }
        let size = self.dtype.size();
        let bytes = self.bytes.to_mut();
        for &index in unwritten {
            bytes[index * size..(index + 1) * size].fill(0);
        }
        self
    }
}
