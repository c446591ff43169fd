//! One revision beside the outputs of its fixture: the captured ones, and those of an oracle.
//!
//! Captured outputs are what one revision gave on one machine: a replay may be as captured or not, and is
//! no better or worse for it. An oracle is declared to be the truth. Both may come from a GPU or from
//! another program, and err by themselves. This error counts as the noise of the replay, times the
//! documented error of a GPU's functions.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::Verdict;
use super::masks::Masks;
use crate::backend::{ReplayError, Variant};
use crate::trial::{Outcome, Status, Trial, convert_numerics_error};
use replay_base::scratch::Scratch;
use replay_base::summary::{Checksum, Number, summarize_tensor};
use replay_base::tensor::{DType, Dim, TensorView, parallel};
use replay_cuda::math_error_ulps;
use replay_fixture::fixture::{Fixture, KnownOutput};
use replay_frontend::SourceUnit;
use replay_history::SourceSet;
use replay_numerics::compare::{Agreement, Comparison, beyond_noise, compare_outputs};
use replay_numerics::constants::NARROW_ROUNDING;
use replay_numerics::measure::{relative_half_unit, ulp};
use replay_numerics::noise::{Noise, NoiseRef, NoiseSummary};
use replay_numerics::oracle::against_oracle;
use replay_numerics::slices::{describe_location, locate_elements};

/// One output beside that of the fixture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct KnownCheck {
    /// The output.
    pub output: String,
    /// The element type.
    pub dtype: DType,
    /// The dimensions.
    pub dims: Vec<Dim>,
    /// Whether the replay gives the same.
    #[schemars(extend("enum" = ["identical", "equivalent", "diverged"]))]
    pub verdict: Verdict,
    /// The checksum of the fixture's output, in the output's own dtype.
    pub checksum: Checksum,
    /// The comparison, element by element, with the fixture's output as the base.
    pub comparison: Comparison,
    /// The noise of the replay.
    pub noise: NoiseSummary,
    /// Its loss of precision beside an oracle, if its own noise would excuse one.
    pub imprecision: Option<Imprecision>,
    /// The location of the elements beyond noise, in words.
    pub place: Option<String>,
}

/// How far an output in a narrow format errs, and how far its last rounding explains.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Imprecision {
    /// The error around the oracle, relative, in L2.
    #[serde(with = "Number")]
    pub error: f64,
    /// The most by which rounding to the output's format errs.
    #[serde(with = "Number")]
    pub last_rounding: f64,
}

/// Where the outputs of a fixture come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KnownSource {
    /// One revision gave them on one machine.
    Captured,
    /// A person declares them to be the truth.
    Oracle,
}

impl KnownSource {
    /// Its name in keys of the cache.
    fn name(self) -> &'static str {
        match self {
            KnownSource::Captured => "captured",
            KnownSource::Oracle => "oracle",
        }
    }
}

/// Compares the outputs of `trial` with the captured ones of its fixture; empty if there are none,
/// or if the replay did not complete. Measures noise only where the captured bits differ.
///
/// # Errors
/// [`ReplayError`] if the machine or the fixture is at fault.
pub fn check_captured(trial: &Trial) -> Result<Vec<KnownCheck>, ReplayError> {
    check_known(trial, &trial.fixture().captured, KnownSource::Captured)
}

/// Compares the outputs of `trial` with the oracle of its fixture; as [`check_captured`].
///
/// # Errors
/// As [`check_captured`].
pub fn check_oracle(trial: &Trial) -> Result<Vec<KnownCheck>, ReplayError> {
    check_known(trial, &trial.fixture().oracle, KnownSource::Oracle)
}

/// Whether `outcome` has the bits of all captured outputs of `fixture`.
pub fn has_captured_bits(fixture: &Fixture, outcome: &Outcome) -> bool {
    fixture.captured.iter().all(|output| RoundedOutput::new(fixture, output).has_bits_of(outcome))
}

fn check_known(
    trial: &Trial,
    outputs: &[KnownOutput],
    known_source: KnownSource,
) -> Result<Vec<KnownCheck>, ReplayError> {
    let fixture = trial.fixture();
    let outcome = trial.outcome()?;
    if outputs.is_empty() || outcome.status != Status::Completed {
        return Ok(Vec::new());
    }
    let Some(variant) = trial.variant()? else { return Ok(Vec::new()) };
    trial.lab().remember(&trial.key_of(known_source.name())?, || {
        let known_outputs: Vec<RoundedOutput> = outputs
            .iter()
            .map(|output| {
                let rounded = RoundedOutput::new(fixture, output);
                rounded.taken_for_truth(known_source == KnownSource::Oracle)
            })
            .collect();
        if known_outputs.iter().all(|output| output.has_bits_of(outcome)) {
            return Ok(known_outputs.iter().map(RoundedOutput::identical).collect());
        }
        // Half of it for each side: the replay's own, and as much times the factor.
        let factor = (1.0 + gpu_error(trial.sources(), variant)) / 2.0;
        check_elements(trial, &known_outputs, factor)
    })
}

/// Compares each of `known_outputs` with the plain run, with `factor` times its noise on both sides.
fn check_elements(
    trial: &Trial,
    known_outputs: &[RoundedOutput],
    factor: f64,
) -> Result<Vec<KnownCheck>, ReplayError> {
    let Some(measurement) = trial.measurement()? else { return Ok(Vec::new()) };
    let fixture = trial.fixture();
    let scratch = trial.lab().scratch();
    let mut checks = Vec::new();
    for output in known_outputs {
        let Some(got) = measurement.run.output(output.name) else { continue };
        let noise = measurement.scaled_noise(output.name, factor, scratch)?;
        checks.push(output.check(fixture, noise.as_ref(), &got, scratch)?);
    }
    Ok(checks)
}

/// The greatest documented error of the functions in `sources`, in units in the last place,
/// at least one; one where `variant` runs on the reference machine.
pub(super) fn gpu_error(sources: &SourceSet, variant: &dyn Variant) -> f64 {
    if variant.reference().is_some() {
        // The noise covers it already.
        return 1.0;
    }
    let names = sources.files.iter().flat_map(|file| {
        let text = String::from_utf8_lossy(&file.content);
        replay_frontend::collect_identifiers(&SourceUnit { path: &file.path, text: &text })
    });
    names.filter_map(|name| math_error_ulps(&name)).fold(1.0, f64::max)
}

/// An output of the fixture, in the dtype of the output.
pub(super) struct RoundedOutput<'f> {
    pub(super) name: &'f str,
    dtype: DType,
    dims: &'f [Dim],
    shape: Vec<usize>,
    bytes: Cow<'f, [u8]>,
    /// The same as the fixture has it.
    stored: &'f KnownOutput,
    /// Whether it is the declared truth.
    is_truth: bool,
}

impl<'f> RoundedOutput<'f> {
    /// `known_output`, rounded to the dtype of the output.
    pub(super) fn new(fixture: &'f Fixture, known_output: &'f KnownOutput) -> RoundedOutput<'f> {
        let output = fixture.outputs.iter().find(|output| output.name == known_output.name);
        let dtype = output.map_or(known_output.dtype, |output| output.dtype);
        let bytes = round_to_dtype(known_output.bytes(), known_output.dtype, dtype);
        RoundedOutput {
            name: &known_output.name,
            dtype,
            dims: &known_output.dims,
            shape: known_output.shape(),
            bytes,
            stored: known_output,
            is_truth: false,
        }
    }

    /// The same as the declared truth, where it `is_truth`.
    fn taken_for_truth(self, is_truth: bool) -> RoundedOutput<'f> {
        RoundedOutput { is_truth, ..self }
    }

    /// The loss of precision of `got`, whose noise would excuse it: it errs further around the truth than a last rounding,
    /// of its own and of the truth.
    fn imprecision(&self, got: &TensorView) -> Option<Imprecision> {
        let is_narrow = self.dtype.is_float() && ulp(self.dtype, 1.0) / 2.0 > NARROW_ROUNDING;
        if !self.is_truth || !is_narrow {
            return None;
        }
        let truth =
            TensorView { dtype: self.stored.dtype, shape: &self.shape, bytes: self.stored.bytes() };
        let half_unit = relative_half_unit(got);
        let last_rounding = if truth.dtype == self.dtype { 2.0 * half_unit } else { half_unit };
        let error = against_oracle(got, &truth, &NoiseRef::default()).ok()?.relative_l2;
        let is_loss = error.is_finite() && error > last_rounding + NARROW_ROUNDING;
        is_loss.then_some(Imprecision { error, last_rounding })
    }

    /// Its elements.
    pub(super) fn view(&self) -> TensorView<'_> {
        TensorView { dtype: self.dtype, shape: &self.shape, bytes: &self.bytes }
    }

    fn checksum(&self) -> Checksum {
        summarize_tensor(&self.view(), None).checksum
    }

    /// Whether `outcome` has this output with these bits.
    fn has_bits_of(&self, outcome: &Outcome) -> bool {
        let record = outcome.outputs.iter().find(|record| record.name == self.name);
        record.is_some_and(|record| record.summary.checksum == self.checksum())
    }

    /// The check of an output where the replay gave these bits.
    fn identical(&self) -> KnownCheck {
        let comparison = Comparison::identical(self.view().len() as u64);
        self.build_check(comparison, NoiseSummary::default(), None, None)
    }

    fn check(
        &self,
        fixture: &Fixture,
        noise: Option<&Noise>,
        got: &TensorView,
        scratch: &Scratch,
    ) -> Result<KnownCheck, ReplayError> {
        let per_element = noise.map(|noise| &noise.per_element);
        let summary = noise.map_or_else(NoiseSummary::default, |noise| noise.summary.clone());
        let noise = NoiseRef { base: per_element, got: per_element };
        let comparison = compare_outputs(&self.view(), got, &noise)
            .expect("a known output has the shape that the harness declares");
        let place = match comparison.agreement {
            Agreement::Diverged => {
                let elements_beyond =
                    convert_numerics_error(beyond_noise(&self.view(), got, &noise, scratch))?;
                let masks = Masks::for_output(fixture, self.dims);
                locate_elements(&elements_beyond, self.dims, &masks.as_masks(), scratch)?
                    .as_ref()
                    .map(describe_location)
            }
            _ => None,
        };
        let imprecision = match comparison.agreement {
            Agreement::Equivalent => self.imprecision(got),
            Agreement::Identical | Agreement::Diverged => None,
        };
        Ok(self.build_check(comparison, summary, imprecision, place))
    }

    fn build_check(
        &self,
        comparison: Comparison,
        noise: NoiseSummary,
        imprecision: Option<Imprecision>,
        place: Option<String>,
    ) -> KnownCheck {
        KnownCheck {
            output: self.name.to_owned(),
            dtype: self.dtype,
            dims: self.dims.to_vec(),
            verdict: match comparison.agreement {
                Agreement::Identical => Verdict::Identical,
                Agreement::Equivalent if imprecision.is_some() => Verdict::Diverged,
                Agreement::Equivalent => Verdict::Equivalent,
                Agreement::Diverged => Verdict::Diverged,
            },
            checksum: self.checksum(),
            comparison,
            noise,
            imprecision,
            place,
        }
    }
}

/// The elements `bytes` of dtype `stored_dtype`, rounded to nearest where `dtype` is a narrower float.
fn round_to_dtype(bytes: &[u8], stored_dtype: DType, dtype: DType) -> Cow<'_, [u8]> {
    if stored_dtype == dtype {
        return Cow::Borrowed(bytes);
    }
    let stored_view = TensorView { dtype: stored_dtype, shape: &[], bytes };
    // Only a float is stored in a wider dtype.
    Cow::Owned(stored_view.round_to(dtype, parallel::count_cores()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wider_output_is_rounded_to_the_dtype_of_the_output() {
        let bytes: Vec<u8> = [1.0f64, 0.1, -3.5].iter().flat_map(|x| x.to_le_bytes()).collect();
        let narrow = [DType::F32, DType::BF16, DType::F8E4M3, DType::F8E5M2];
        for (dtype, tenth) in
            narrow.into_iter().zip([0.1f32 as f64, 0.10009765625, 0.1015625, 0.09375])
        {
            let narrow = round_to_dtype(&bytes, DType::F64, dtype);
            let view = TensorView { dtype, shape: &[3], bytes: &narrow };
            assert_eq!([0, 1, 2].map(|i| view.get_f64(i)), [1.0, tenth, -3.5], "{dtype}");
        }
        assert_eq!(round_to_dtype(&bytes, DType::F64, DType::F64).as_ref(), bytes);
    }
}
