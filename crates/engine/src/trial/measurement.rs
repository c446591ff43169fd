//! The measurements around the plain run of one trial: its noise, and the differences of a
//! repetition.

use std::sync::{Arc, PoisonError};

use serde::{Deserialize, Serialize};

use super::order::OrderDependence;
use super::plain_replay::Plain;
use super::{Shadow, Trial};
use crate::backend::{Ability, Mode, ReplayError, Variant};
use crate::worker::{Ending, InputChange, Run, Stepped};
use replay_base::concurrent::run_both;
use replay_base::scratch::Scratch;
use replay_base::summary::{Number, POISON_A};
use replay_base::tensor::step::{Scales, Step, StepClass, StepUnit};
use replay_base::tensor::{DType, TensorView, parallel};
use replay_numerics::NumericsError;
use replay_numerics::compare::compare_outputs;
use replay_numerics::constants::FLIP_FACTOR;
use replay_numerics::measure::ulp;
use replay_numerics::noise::{
    Noise, NoiseAccumulator, NoiseRef, NoiseSource, NoiseSummary, Ordered, Spread,
};
use replay_runtime::cpu::Rounding;
use replay_runtime::cpu::order::Order;

/// The orders of blocks and threads for replays, besides the order of the indices.
pub(crate) const ORDERS: [u64; 3] = [0x5eed_0001, 0x5eed_0002, 0x5eed_0003];

/// Replays on other inputs, for outputs at rest under other roundings.
const NUDGES: [u64; 4] = [0x5eed_1001, 0x5eed_1002, 0x5eed_1003, 0x5eed_1004];

/// The directions of rounding besides the nearest.
const ROUNDINGS: [Rounding; 3] = [Rounding::Down, Rounding::Up, Rounding::TowardZero];

/// The measurements of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needed {
    /// In other roundings and orders.
    All,
    /// In the opposite order: the device tells of roundings, and the tensors are large.
    Order,
}

/// A cause of deviations of an output. They tell how far it may lie from the mathematics of its sources.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// Rounding of operations in another direction.
    Rounding,
    /// Another order of blocks and threads, or a repetition with another result.
    Order,
    /// Inputs moved by a unit in the last place.
    Inputs,
}

/// The difference of two identical replays of one revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Nondeterminism {
    /// Elements with other bits.
    pub differing: u64,
    /// The largest difference.
    #[serde(with = "Number")]
    pub max_abs: f64,
}

/// The noise of one output at one revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputNoise {
    pub name: String,
    /// The noise in a few numbers.
    pub noise: NoiseSummary,
    /// How it depends on the order of blocks and threads, if it does.
    pub order: Option<OrderDependence>,
    /// The causes of its deviations.
    #[serde(default)]
    pub probes: Vec<Probe>,
}

/// The plain run of a trial, and the measurements around it.
pub struct Measurement {
    /// The plain run.
    pub run: Run,
    /// By output.
    noise: Vec<(String, Noise)>,
    nondeterminism: Vec<(String, Nondeterminism)>,
    /// The outputs with a dependence on the order of blocks and threads.
    ordered: Vec<OrderDependence>,
    /// By output.
    probes: Vec<(String, Vec<Probe>)>,
}

impl Measurement {
    /// The causes of deviations of output `name`.
    pub fn probes_of(&self, name: &str) -> &[Probe] {
        let found_probes = self.probes.iter().find(|(output_name, _)| output_name == name);
        found_probes.map_or(&[], |(_, probes)| probes)
    }

    /// The noise of output `name`, per element.
    pub fn noise_of(&self, name: &str) -> Option<&Spread> {
        self.noise
            .iter()
            .find(|(output_name, _)| output_name == name)
            .map(|(_, noise)| &noise.per_element)
    }

    /// The noise of output `name` in short.
    pub fn noise_summary(&self, name: &str) -> NoiseSummary {
        let found_noise = self.noise.iter().find(|(output_name, _)| output_name == name);
        found_noise.map(|(_, noise)| noise.summary.clone()).unwrap_or_default()
    }

    /// `factor` times the noise of output `name`, in `scratch`.
    pub(crate) fn scaled_noise(
        &self,
        name: &str,
        factor: f64,
        scratch: &Scratch,
    ) -> Result<Option<Noise>, ReplayError> {
        let found_noise = self.noise.iter().find(|(output_name, _)| output_name == name);
        found_noise.map(|(_, noise)| Ok(noise.copy(scratch)?.scaled(factor))).transpose()
    }

    /// How two identical replays differ in output `name`.
    pub fn nondeterminism_of(&self, name: &str) -> Option<Nondeterminism> {
        let found_nondeterminism =
            self.nondeterminism.iter().find(|(output_name, _)| output_name == name);
        found_nondeterminism.map(|(_, nondeterminism)| nondeterminism.clone())
    }

    /// How output `name` depends on the order of blocks and threads.
    pub fn ordered_of(&self, name: &str) -> Option<OrderDependence> {
        self.ordered.iter().find(|dependence| dependence.output == name).cloned()
    }

    /// The noise of every output in short.
    pub fn noises(&self) -> Vec<OutputNoise> {
        let output_noises = self.noise.iter().map(|(name, noise)| OutputNoise {
            name: name.clone(),
            noise: noise.summary.clone(),
            order: self.ordered_of(name),
            probes: self.probes_of(name).to_vec(),
        });
        output_noises.collect()
    }
}

/// Noise around one run.
pub(super) struct Around {
    accumulators: Vec<(String, NoiseAccumulator)>,
    ordered: Vec<(Ordered, OrderDependence)>,
    /// The outputs moved by other inputs only.
    nudged: Vec<String>,
}

impl Around {
    /// The measurement of the plain run `run`, with `factor` times this noise.
    fn measurement(
        mut self,
        run: Run,
        nondeterminism: Vec<(String, Nondeterminism)>,
        factor: f64,
    ) -> Result<Measurement, ReplayError> {
        let probes = self.probes();
        let mut noise = Vec::new();
        let mut ordered = Vec::new();
        for (name, accumulator) in self.accumulators {
            let Some(view) = run.output(&name) else { continue };
            let order_index =
                self.ordered.iter().position(|(_, dependence)| dependence.output == name);
            let (elements, order_dependence) =
                order_index.map(|index| self.ordered.swap_remove(index)).unzip();
            let finished = convert_numerics_error(accumulator.finish(&view, elements))?;
            noise.push((name, finished.scaled(factor)));
            ordered.extend(order_dependence);
        }
        Ok(Measurement { run, noise, nondeterminism, ordered, probes })
    }

    /// The causes of deviations of each output.
    fn probes(&self) -> Vec<(String, Vec<Probe>)> {
        let output_probes = self.accumulators.iter().map(|(name, accumulator)| {
            let by_rounding =
                if self.nudged.contains(name) { Probe::Inputs } else { Probe::Rounding };
            let probe_sources =
                [(by_rounding, NoiseSource::Rounding), (Probe::Order, NoiseSource::Order)];
            let moving_probes =
                probe_sources.into_iter().filter(|(_, source)| accumulator.has_moved(*source));
            (name.clone(), moving_probes.map(|(probe, _)| probe).collect())
        });
        output_probes.collect()
    }
}

impl Trial {
    /// Measures the noise around the plain run of `variant`.
    ///
    /// A variant without other roundings and orders takes the noise of its
    /// reference, measured around the reference's own result. It is scaled by the greatest
    /// error of the functions in the variant, since the reference errs by one unit in the
    /// last place of each. Where the device may give other bits by itself, the deviation of a
    /// repetition counts as well.
    pub(super) fn measure(&self, variant: &dyn Variant) -> Result<Measurement, ReplayError> {
        let (base, repeated_run, mut noise) = match variant.reference() {
            None => {
                let (base, repeated_run) = self.plain_runs(variant)?;
                let noise = self.noise_around(variant, &base, Needed::All)?;
                (base, repeated_run, noise)
            }
            Some(reference) => {
                let needed = needed_beside(variant);
                let (runs, noise) = run_both(
                    || self.runs_and_roundings(variant),
                    || self.noise_on_reference(reference, needed),
                );
                let ((base, repeated_run), device_roundings) = runs?;
                let noise = match (needed, device_roundings) {
                    (Needed::All, _) => noise?,
                    (Needed::Order, Some(device_roundings)) => {
                        self.with_order(reference, device_roundings, noise?)?
                    }
                    (Needed::Order, None) => self.noise_on_reference(reference, Needed::All)?,
                };
                (base, repeated_run, noise)
            }
        };
        if noise.accumulators.is_empty() {
            // It does not run to its end on the reference.
            noise.accumulators = self.accumulators(&base, |_| true)?;
        }
        if let Some(repeated_run) =
            repeated_run.as_ref().filter(|_| !variant.can(Ability::Repetition))
        {
            accumulate_deviations(&mut noise.accumulators, &base, repeated_run, NoiseSource::Order);
        }
        let nondeterminism = repeated_run
            .map_or(Vec::new(), |repeated_run| find_nondeterminism(&base, &repeated_run));
        noise.measurement(base, nondeterminism, variant.math_ulps())
    }

    /// The plain run of `variant` with its repetition, and the roundings around it by its own device.
    fn runs_and_roundings(
        &self,
        variant: &dyn Variant,
    ) -> Result<(Plains, DeviceRoundings), ReplayError> {
        let (base, repeated_run) = self.plain_runs(variant)?;
        let device_roundings = self.measure_device_roundings(variant, &base)?;
        Ok(((base, repeated_run), device_roundings))
    }

    /// The roundings by the device of `variant`, if it measures them.
    fn measure_device_roundings(
        &self,
        variant: &dyn Variant,
        base: &Run,
    ) -> Result<DeviceRoundings, ReplayError> {
        let _span = tracing::info_span!("roundings", message = self.fixture().name);
        let Some(run) = variant.deviations(FLIP_FACTOR)? else { return Ok(None) };
        let scratch = self.lab.scratch();
        let replays = ROUNDINGS.len() as u32;
        let output_roundings = base.outputs().map(|(output, view)| {
            let accumulator =
                match run.output(&output.name) {
                    Some(output_deviations) => convert_numerics_error(
                        NoiseAccumulator::from_device(&view, &output_deviations, replays, scratch),
                    )?,
                    None => NoiseAccumulator::new(&view, scratch)?,
                };
            Ok((output.name.clone(), accumulator))
        });
        output_roundings.collect::<Result<_, ReplayError>>().map(Some)
    }

    /// The noise by the `device_roundings` of a device, with that of another order on `reference`.
    fn with_order(
        &self,
        reference: &dyn Variant,
        mut device_roundings: Vec<(String, NoiseAccumulator)>,
        order: Around,
    ) -> Result<Around, ReplayError> {
        let mut has_moved = false;
        for (name, accumulator) in &mut device_roundings {
            let order_noise =
                order.accumulators.iter().find(|(output_name, _)| output_name == name);
            if let Some((_, order_accumulator)) = order_noise {
                accumulator.take_orders(order_accumulator);
                has_moved |= order_accumulator.has_moved(NoiseSource::Order);
            }
        }
        let ordered = if has_moved {
            let centre = reference.run(&Mode::plain(POISON_A))?;
            self.ordered(reference, &centre, &device_roundings, &[Order::REVERSED.0])?
        } else {
            Vec::new()
        };
        Ok(Around { accumulators: device_roundings, ordered, nudged: Vec::new() })
    }

    /// The plain run, and a repetition unless it is known to give the same bits.
    fn plain_runs(&self, variant: &dyn Variant) -> Result<(Run, Option<Run>), ReplayError> {
        let mode = Mode::plain(POISON_A);
        match self.plain.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(Plain { run, repeats: true }) => Ok((run, None)),
            Some(Plain { run, repeats: false }) => Ok((run, Some(variant.run(&mode)?))),
            None => {
                let (base, repeated_run) = variant.run_pair([mode.clone(), mode])?;
                Ok((base, Some(repeated_run)))
            }
        }
    }

    /// How far other roundings and orders of `variant` move the result in `centre`.
    pub(super) fn noise_around(
        &self,
        variant: &dyn Variant,
        centre: &Run,
        needed: Needed,
    ) -> Result<Around, ReplayError> {
        let _span = tracing::info_span!("noise", message = self.fixture().name);
        let mut accumulators = self.accumulators(centre, |_| true)?;
        let one_order = self.is_large() || self.fixture().harness.program.is_some();
        let orders: &[u64] = if one_order { &[Order::REVERSED.0] } else { &ORDERS };
        let mut modes = noise_modes(variant, orders);
        if needed == Needed::Order {
            let order = Order::REVERSED.0;
            modes = vec![(NoiseSource::Order, Mode { order, ..Mode::plain(POISON_A) })];
        }
        let (noise_sources, modes): (Vec<NoiseSource>, Vec<Mode>) = modes.into_iter().unzip();
        variant.run_each(&modes, variant.at_once(Some(centre)), &mut |index, replay| {
            accumulate_deviations(&mut accumulators, centre, &replay, noise_sources[index]);
            Ok(())
        })?;
        if needed == Needed::Order {
            return Ok(Around { accumulators, ordered: Vec::new(), nudged: Vec::new() });
        }
        let nudged = self.nudge(variant, centre, &mut accumulators)?;
        let ordered = self.ordered(variant, centre, &accumulators, orders)?;
        Ok(Around { accumulators, ordered, nudged })
    }

    /// Moves the inputs where no other rounding has moved an output: it may not reach the code. Returns
    /// those outputs.
    fn nudge(
        &self,
        variant: &dyn Variant,
        centre: &Run,
        accumulators: &mut [(String, NoiseAccumulator)],
    ) -> Result<Vec<String>, ReplayError> {
        let still = accumulators
            .iter_mut()
            .filter(|(_, accumulator)| !accumulator.has_moved(NoiseSource::Rounding));
        let mut still: Vec<_> = still.collect();
        if still.is_empty() || !variant.can(Ability::Nudge) {
            return Ok(Vec::new());
        }
        let modes = NUDGES
            .map(|seed| Mode { change: InputChange::Nudge { seed }, ..Mode::plain(POISON_A) });
        variant.run_each(&modes, variant.at_once(Some(centre)), &mut |_, replay| {
            let still = still.iter_mut().map(|still_accumulator| &mut **still_accumulator);
            accumulate_deviations(still, centre, &replay, NoiseSource::Rounding);
            Ok(())
        })?;
        Ok(still.into_iter().map(|(name, _)| name.clone()).collect())
    }

    /// How far output `name` of `shadow` moves from `centre`, its plain run, where the elements of an input
    /// move by a unit in the last place of float32. None where no input can be moved.
    pub(crate) fn condition(
        &self,
        shadow: &dyn Variant,
        centre: &Run,
        name: &str,
    ) -> Result<Option<Noise>, ReplayError> {
        let mut modes = Vec::new();
        let inputs = self.fixture().inputs.iter();
        for input in inputs.filter(|input| input.present && input.dtype.is_float()) {
            let packed = input.packed()?;
            let shape = input.shape();
            let view = TensorView { dtype: input.dtype, shape: &shape, bytes: &packed };
            let scales = Arc::new(Scales::measure(&view, parallel::count_cores()));
            // A zero may lie on a kink, and rounding does not leave it.
            for class in [StepClass::Ordinary, StepClass::Outlier] {
                let input = input.name.clone();
                let scales = scales.clone();
                let step = Step {
                    seed: NUDGES[0],
                    class,
                    among: 0..view.len(),
                    without: Vec::new(),
                    unit: StepUnit::Own,
                    length: ulp(DType::F32, 1.0),
                    constraint: None,
                };
                let change = InputChange::Step(Stepped { input, step, scales });
                modes.push(Mode { change, ..Mode::plain(POISON_A) });
            }
        }
        let mut accumulators = self.accumulators(centre, |output| output == name)?;
        shadow.run_each(&modes, shadow.at_once(Some(centre)), &mut |_, replay| {
            accumulate_deviations(&mut accumulators, centre, &replay, NoiseSource::Rounding);
            Ok(())
        })?;
        let measured_output = accumulators.pop().zip(centre.output(name));
        measured_output
            .map(|((_, accumulator), view)| convert_numerics_error(accumulator.finish(&view, None)))
            .transpose()
    }

    /// The noise of the shadow, by output: how far other roundings in float64 move it.
    pub(super) fn measure_shadow(&self) -> Result<Vec<(String, Noise)>, ReplayError> {
        let Shadow::Present((shadow, centre)) = self.shadow_on_reference()? else {
            return Ok(Vec::new());
        };
        let _span = tracing::info_span!("shadow noise", message = self.fixture().name);
        let modes = noise_modes(shadow, &[]);
        let modes: Vec<Mode> = modes.into_iter().map(|(_, mode)| mode).collect();
        let mut accumulators = self.accumulators(centre, |_| true)?;
        shadow.run_each(&modes, shadow.at_once(Some(centre)), &mut |_, replay| {
            accumulate_deviations(&mut accumulators, centre, &replay, NoiseSource::Rounding);
            Ok(())
        })?;
        let finished = accumulators.into_iter().filter_map(|(name, accumulator)| {
            let view = centre.output(&name)?;
            Some(convert_numerics_error(accumulator.finish(&view, None)).map(|noise| (name, noise)))
        });
        finished.collect()
    }

    /// An accumulator for each output of `run` with `is_wanted`.
    pub(super) fn accumulators(
        &self,
        run: &Run,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<(String, NoiseAccumulator)>, ReplayError> {
        let scratch: &Scratch = self.lab.scratch();
        let outputs = run.outputs().filter(|(output, _)| is_wanted(&output.name));
        outputs
            .map(|(output, view)| Ok((output.name.clone(), NoiseAccumulator::new(&view, scratch)?)))
            .collect()
    }
}

/// A plain run, and a repetition of it.
type Plains = (Run, Option<Run>);
/// Accumulators of deviations from a device, by output; none where it tells nothing.
type DeviceRoundings = Option<Vec<(String, NoiseAccumulator)>>;

/// The measurements left to the reference of `variant`.
pub(super) fn needed_beside(variant: &dyn Variant) -> Needed {
    if variant.can(Ability::Deviations) { Needed::Order } else { Needed::All }
}

/// The modes of `variant` for noise: other roundings, and these `orders`.
fn noise_modes(variant: &dyn Variant, orders: &[u64]) -> Vec<(NoiseSource, Mode)> {
    let rounding_modes = ROUNDINGS
        .map(|rounding| (NoiseSource::Rounding, Mode { rounding, ..Mode::plain(POISON_A) }));
    let ordered = orders.iter().map(|&order| Mode { order, ..Mode::plain(POISON_A) });
    let ordered = ordered.map(|mode| (NoiseSource::Order, mode));
    rounding_modes.into_iter().chain(ordered).filter(|(_, mode)| variant.allows(mode)).collect()
}

/// The modes of `variant` that show how far rounding moves a number made of its outputs: other roundings, another order,
/// nudged inputs, and a repetition where it may differ.
pub(crate) fn list_noise_modes(variant: &dyn Variant) -> Vec<Mode> {
    let plain = || Mode::plain(POISON_A);
    let other = noise_modes(variant, &[Order::REVERSED.0]);
    let mut modes: Vec<Mode> = other.into_iter().map(|(_, mode)| mode).collect();
    if variant.can(Ability::Nudge) {
        let nudged = NUDGES.map(|seed| Mode { change: InputChange::Nudge { seed }, ..plain() });
        modes.extend(nudged);
    }
    if !variant.can(Ability::Repetition) {
        modes.push(plain());
    }
    modes
}

/// Converts the error of a computation on runs of one fixture: their outputs have equal shapes, so only
/// scratch space can be missing.
pub(crate) fn convert_numerics_error<T>(
    result: Result<T, NumericsError>,
) -> Result<T, ReplayError> {
    result.map_err(|error| match error {
        NumericsError::Scratch(error) => error.into(),
        NumericsError::Compare(error) => unreachable!("two runs of one fixture: {error}"),
    })
}

/// Adds the deviation of each output of `replay` from `centre`.
pub(super) fn accumulate_deviations<'a>(
    accumulators: impl IntoIterator<Item = &'a mut (String, NoiseAccumulator)>,
    centre: &Run,
    replay: &Run,
    noise_source: NoiseSource,
) {
    if replay.ending != Ending::Completed {
        return;
    }
    for (name, accumulator) in accumulators {
        if let (Some(base), Some(view)) = (centre.output(name), replay.output(name)) {
            accumulator.add(&base, &view, noise_source).expect("two runs of one variant");
        }
    }
}

/// The differing outputs of two identical replays.
fn find_nondeterminism(first_run: &Run, second_run: &Run) -> Vec<(String, Nondeterminism)> {
    let no_noise = NoiseRef { base: None, got: None };
    first_run
        .outputs()
        .filter_map(|(output, view)| {
            let compared =
                compare_outputs(&view, &second_run.output(&output.name)?, &no_noise).ok()?;
            (compared.differing > 0).then(|| {
                let nondeterminism =
                    Nondeterminism { differing: compared.differing, max_abs: compared.max_abs };
                (output.name.clone(), nondeterminism)
            })
        })
        .collect()
}
