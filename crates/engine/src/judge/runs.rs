//! One call in two runs of a training: the captured outputs of both, and the code between them.
//!
//! Where the inputs of the runs differ, so do the outputs of sound code. The code says by how much: it is replayed from
//! the inputs of both runs, and the captured outputs have to differ as the replayed ones do. What is left of the
//! difference is held against the noise of both replays.

use serde::{Deserialize, Serialize};

use super::known::{RoundedOutput, gpu_error};
use crate::backend::{Held, ReplayError};
use crate::trial::{Failure, Measurement, Status, Trial, digest_key_parts, measured_ahead};
use replay_base::scratch::Scratch;
use replay_base::summary::Number;
use replay_base::tensor::TensorView;
use replay_numerics::compare::{Agreement, Comparison, compare_outputs};
use replay_numerics::noise::{Noise, NoiseRef};

/// How one output stands in two runs; ordered from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunsVerdict {
    /// The same bits.
    Identical,
    /// Other bits, within noise.
    WithinNoise,
    /// Beyond noise, by as much as the code makes of the inputs of both runs.
    FollowsInputs,
    /// Other bits, and no replay tells the noise.
    Unknown,
    /// The runs have other shapes or dtypes, or one of them lacks it.
    NotComparable,
    /// Beyond noise, and the code makes no such difference of the inputs.
    Parts,
}

/// One output of a call in two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RunsCheck {
    pub output: String,
    pub evidence: RunsEvidence,
}

/// What is known of one output in two runs.
#[derive(Clone, Debug, PartialEq)]
pub enum RunsEvidence {
    /// The same bits.
    Identical,
    Measured(RunsDistance),
    /// Other bits, and no replay tells the noise.
    Unknown {
        reason: String,
    },
    NotComparable {
        reason: String,
    },
}

/// How far two captured outputs lie apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunsDistance {
    output: String,
    /// At the worst element, as a multiple of the noise.
    #[serde(with = "Number")]
    pub apart: f64,
    /// The same without what the code makes of the inputs.
    #[serde(with = "Number")]
    pub unexplained: f64,
    agreement: Agreement,
    unexplained_agreement: Agreement,
    /// The run whose output the code gives within noise, if it gives that of one run alone.
    pub reproduced: Option<CapturedRun>,
}

/// One of two captured runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CapturedRun {
    Trusted,
    Other,
}

impl RunsCheck {
    /// How the output stands.
    pub fn verdict(&self) -> RunsVerdict {
        match &self.evidence {
            RunsEvidence::Identical => RunsVerdict::Identical,
            RunsEvidence::Unknown { .. } => RunsVerdict::Unknown,
            RunsEvidence::NotComparable { .. } => RunsVerdict::NotComparable,
            RunsEvidence::Measured(distance) => {
                match (distance.unexplained_agreement, distance.agreement) {
                    (Agreement::Diverged, _) => RunsVerdict::Parts,
                    (_, Agreement::Diverged) => RunsVerdict::FollowsInputs,
                    (_, Agreement::Equivalent) => RunsVerdict::WithinNoise,
                    (_, Agreement::Identical) => RunsVerdict::Identical,
                }
            }
        }
    }
}

/// Compares the captured outputs of `got` with those of `base`, which is the same call in a trusted run. Replays only
/// where the captured bits differ.
///
/// # Errors
/// [`ReplayError`] if the machine or a fixture is at fault.
pub fn compare_runs(base: &Trial, got: &Trial) -> Result<Vec<RunsCheck>, ReplayError> {
    let mut checks = Vec::new();
    let mut pairs = Vec::new();
    for declared in &got.fixture().outputs {
        let outputs = [base, got].map(|trial| captured_output(trial, &declared.name));
        let evidence = match outputs {
            [None, None] => continue,
            [Some(base_output), Some(got_output)] => {
                match list_shape_change(&base_output, &got_output) {
                    Some(reason) => RunsEvidence::NotComparable { reason },
                    None if base_output.view().bytes == got_output.view().bytes => {
                        RunsEvidence::Identical
                    }
                    None => {
                        pairs.push(OutputPair { base: base_output, got: got_output });
                        continue;
                    }
                }
            }
            [Some(_), None] => {
                RunsEvidence::NotComparable { reason: "only the other run has it".to_owned() }
            }
            [None, Some(_)] => {
                RunsEvidence::NotComparable { reason: "the other run lacks it".to_owned() }
            }
        };
        checks.push(RunsCheck { output: declared.name.clone(), evidence });
    }
    if pairs.is_empty() {
        return Ok(checks);
    }
    let names: Vec<String> = pairs.iter().map(|pair| pair.got.name.to_owned()).collect();
    match measure_pairs(base, got, &pairs)? {
        PairDistances::Measured(distances) => {
            checks.extend(distances.into_iter().map(|distance| RunsCheck {
                output: distance.output.clone(),
                evidence: RunsEvidence::Measured(distance),
            }))
        }
        PairDistances::NoNoise { reason } => checks.extend(names.into_iter().map(|output| {
            RunsCheck { output, evidence: RunsEvidence::Unknown { reason: reason.clone() } }
        })),
    }
    Ok(checks)
}

/// An output as both runs have it.
struct OutputPair<'f> {
    base: RoundedOutput<'f>,
    got: RoundedOutput<'f>,
}

fn captured_output<'t>(trial: &'t Trial, name: &str) -> Option<RoundedOutput<'t>> {
    let fixture = trial.fixture();
    let captured = fixture.captured.iter().find(|output| output.name == name)?;
    Some(RoundedOutput::new(fixture, captured))
}

/// `f32[2, 6] instead of f32[2, 7]`, where two outputs differ in this.
fn list_shape_change(base: &RoundedOutput<'_>, got: &RoundedOutput<'_>) -> Option<String> {
    let [base, got] = [base.view(), got.view()];
    let describe = |view: &TensorView| format!("{}{:?}", view.dtype.name(), view.shape);
    let is_same = base.dtype == got.dtype && base.shape == got.shape;
    (!is_same).then(|| format!("{} instead of {}", describe(&got), describe(&base)))
}

/// How far outputs lie apart.
enum PairDistances {
    Measured(Vec<RunsDistance>),
    /// The code tells no noise.
    NoNoise {
        reason: String,
    },
}

/// The distances of `pairs`.
fn measure_pairs(
    base: &Trial,
    got: &Trial,
    pairs: &[OutputPair],
) -> Result<PairDistances, ReplayError> {
    if base.sources().id != got.sources().id {
        let reason = "the harnesses of the two runs replay other code".to_owned();
        return Ok(PairDistances::NoNoise { reason });
    }
    base.room_for(Held::Noise { revisions: 2 })?;
    for trial in [base, got] {
        if let Some(reason) = find_obstacle(&trial.outcome()?.status) {
            return Ok(PairDistances::NoNoise { reason });
        }
    }
    let key = digest_key_parts(["two runs", base.key()?, got.key()?]);
    base.lab()
        .remember(&key, || {
            measured_ahead(&[base, got], || {
                let base_measurement = base.measurement()?.expect("it was replayed");
                let got_measurement = got.measurement()?.expect("it was replayed");
                let factor = (1.0 + factor_of(base)?.max(factor_of(got)?)) / 2.0;
                let sides = Sides { base: base_measurement, got: got_measurement, factor };
                pairs.iter().map(|pair| sides.measure(pair, base.lab().scratch())).collect()
            })?
        })
        .map(PairDistances::Measured)
}

fn factor_of(trial: &Trial) -> Result<f64, ReplayError> {
    Ok(trial.variant()?.map_or(1.0, |variant| gpu_error(trial.sources(), variant)))
}

/// Why a replay has no outputs to compare with. A loss that became infinite in one of the runs has some.
fn find_obstacle(status: &Status) -> Option<String> {
    match status {
        Status::Completed => None,
        Status::Untestable { reason, .. } => Some(reason.clone()),
        Status::Failed(failures) => failures
            .iter()
            .find(|failure| !matches!(failure, Failure::NonFinite { .. }))
            .map(|failure| format!("the replay fails: {}", failure.kind())),
    }
}

/// The replays of both runs.
struct Sides<'t> {
    base: &'t Measurement,
    got: &'t Measurement,
    /// How much of each noise counts: half of it for the replay, and as much for the captured side.
    factor: f64,
}

impl Sides<'_> {
    fn measure(&self, pair: &OutputPair, scratch: &Scratch) -> Result<RunsDistance, ReplayError> {
        let name = pair.got.name;
        let [base_noise, got_noise] = [
            self.base.scaled_noise(name, self.factor, scratch)?,
            self.got.scaled_noise(name, self.factor, scratch)?,
        ];
        let both = NoiseRef { base: elements_of(&base_noise), got: elements_of(&got_noise) };
        let [base, got] = [pair.base.view(), pair.got.view()];
        let base_replay = self.base.run.output(name).expect("a replay has all outputs");
        let got_replay = self.got.run.output(name).expect("a replay has all outputs");
        let expected = expect_output(&base, &base_replay, &got_replay);
        let expected = TensorView { bytes: &expected, ..base };
        let [apart, unexplained] =
            [&base, &expected].map(|base| compare_checked(base, &got, &both));
        let is_reproduced = |captured: &TensorView, replay: &TensorView, noise: &Option<Noise>| {
            let own = NoiseRef { base: elements_of(noise), got: elements_of(noise) };
            compare_checked(captured, replay, &own).agreement != Agreement::Diverged
        };
        let reproduced = match (
            is_reproduced(&base, &base_replay, &base_noise),
            is_reproduced(&got, &got_replay, &got_noise),
        ) {
            (true, false) => Some(CapturedRun::Trusted),
            (false, true) => Some(CapturedRun::Other),
            (true, true) | (false, false) => None,
        };
        let ratio = |comparison: &Comparison| comparison.worst.map_or(0.0, |worst| worst.ratio);
        Ok(RunsDistance {
            output: name.to_owned(),
            apart: ratio(&apart),
            unexplained: ratio(&unexplained),
            agreement: apart.agreement,
            unexplained_agreement: unexplained.agreement,
            reproduced,
        })
    }
}

fn elements_of(noise: &Option<Noise>) -> Option<&replay_numerics::noise::Spread> {
    noise.as_ref().map(|noise| &noise.per_element)
}

fn compare_checked(base: &TensorView, got: &TensorView, noise: &NoiseRef) -> Comparison {
    compare_outputs(base, got, noise).expect("outputs have the shape that the harness declares")
}

/// The output that the other run should have: the captured one of the trusted run, moved as the code moves its own.
fn expect_output(captured: &TensorView, base: &TensorView, got: &TensorView) -> Vec<u8> {
    let dtype = captured.dtype;
    let size = dtype.size();
    let mut expected = captured.bytes.to_vec();
    for (index, element) in expected.chunks_exact_mut(size).enumerate() {
        let range = index * size..(index + 1) * size;
        if base.bytes[range.clone()] == got.bytes[range.clone()] {
            continue;
        }
        let [at_capture, before, after] = [captured, base, got].map(|view| view.get_f64(index));
        // Infinities, which have no difference, among them.
        if at_capture == before {
            element.copy_from_slice(&got.bytes[range]);
        } else if dtype.is_float() {
            dtype.write_nearest(at_capture + (after - before), element);
        }
    }
    expected
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_base::tensor::DType;

    fn expect(captured: [f32; 4], base: [f32; 4], got: [f32; 4]) -> Vec<f32> {
        let bytes = [captured, base, got]
            .map(|values| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>());
        let [captured, base, got] =
            bytes.each_ref().map(|bytes| TensorView { dtype: DType::F32, shape: &[4], bytes });
        let expected = expect_output(&captured, &base, &got);
        expected.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }

    #[test]
    fn an_output_is_expected_to_move_as_the_code_moves_it() {
        let infinite = f32::INFINITY;
        let expected =
            expect([1.0, 2.0, infinite, 7.0], [1.0, 1.5, infinite, 3.0], [4.0, 2.5, 1.0, 3.0]);
        assert_eq!(expected, [4.0, 3.0, 1.0, 7.0]);
    }
}
