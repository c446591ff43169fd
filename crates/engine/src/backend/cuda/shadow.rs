//! The float64 shadow on a GPU. A shadow that fails there, or writes beside its memory, runs on the CPU
//! instead: the CPU reports the fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::CudaShared;
use super::variant::run_and_extend_module;
use crate::backend::cpu::CpuVariant;
use crate::backend::in_order::in_order;
use crate::backend::{Ability, Mode, ReplayError, Take, Variant};
use crate::compile::DeviceModule;
use crate::worker::{CallPart, DeviceJob, Ending, Job, JobCalls, Run};
use replay_base::tensor::TensorView;
use replay_base::tensor::step::Step;
use replay_fixture::fixture::Fixture;
use replay_frontend::Precision;

/// A shadow's host code, the module with its kernels, and its fixture.
pub(super) struct CudaShadow {
    cuda: Arc<CudaShared>,
    fixture: Arc<Fixture>,
    host: CpuVariant,
    module: DeviceModule,
    /// Whether a run has failed on the device: none is made there any more.
    has_failed: AtomicBool,
    /// Whether a call leaves something to the next one in its process.
    keeps_state: AtomicBool,
}

impl CudaShadow {
    /// The shadow of `host`, with `module` for the device.
    pub(super) fn new(
        cuda: Arc<CudaShared>,
        fixture: Arc<Fixture>,
        host: CpuVariant,
        module: DeviceModule,
    ) -> CudaShadow {
        let has_failed = AtomicBool::new(false);
        let keeps_state = AtomicBool::new(false);
        CudaShadow { cuda, fixture, host, module, has_failed, keeps_state }
    }

    fn run_on_device(&self, mode: &Mode, calls: &JobCalls) -> Result<Run, ReplayError> {
        debug_assert!((self as &dyn Variant).allows(mode), "{mode:?}");
        let cuda = &self.cuda;
        let fixture = &self.fixture;
        let device = cuda.pool.lease();
        run_and_extend_module(&cuda.toolchain, &mut self.module.clone(), |module| {
            let device = DeviceJob::Cuda {
                ordinal: device.ordinal(),
                module: module.path.clone(),
                summaries: Vec::new(),
                // The shadow of sources with calls of a library runs on the CPU.
                libraries: Vec::new(),
                fetched: true,
                sanitizer: None,
            };
            let machine = cuda.cpu.host();
            let shadow = (&self.host.artifact, Precision::Shadow);
            let job = machine.job(device, cuda.memory_limit_bytes, fixture, shadow, mode);
            let job = Job { calls: calls.clone(), ..job };
            Ok(machine.run(&job, fixture, None)?)
        })
    }

    /// The runs of `modes`, made in one process; none if separate processes would give others.
    fn evaluated(&self, modes: &[Mode]) -> Result<Option<Vec<Run>>, ReplayError> {
        let Some(steps) =
            plan_evaluations(modes).filter(|_| !self.keeps_state.load(Ordering::Relaxed))
        else {
            return Ok(None);
        };
        let run = match self.run_on_device(&modes[0], &JobCalls::AtSteps(steps)) {
            Ok(run) if is_sound(&run) => run,
            _ => return Ok(None),
        };
        let values: Vec<TensorView> = run.outputs().map(|(_, view)| view).collect();
        let [loss_before, moved_losses @ .., loss_after] = &values[..] else { return Ok(None) };
        if moved_losses.len() != modes.len() || !are_alike(loss_before, loss_after) {
            tracing::info!("the loss depends on earlier calls: each gets a process");
            self.keeps_state.store(true, Ordering::Relaxed);
            return Ok(None);
        }
        let folder = self.cuda.cache.temporary();
        let mode_outputs = run.outputs().skip(1).take(modes.len());
        let alone = mode_outputs.map(|(output, view)| {
            let output_parts = (output.name.clone(), output.dtype, output.shape.clone());
            let tensor = (output_parts.0, output_parts.1, output_parts.2, 0..view.bytes.len());
            Ok(Run::of_bytes(view.bytes, std::iter::once(tensor), None, &folder)?)
        });
        alone.collect::<Result<_, ReplayError>>().map(Some)
    }
}

/// Whether `run` shows no fault. A fault of the shadow may come from the device's limits, not from the sources.
fn is_sound(run: &Run) -> bool {
    let is_refused = run.launches.iter().any(|launch| launch.error.is_some());
    run.ending == Ending::Completed && !is_refused && run.overruns.is_empty()
}

/// The steps of `modes`, if they move one input and report one output. Before and behind them is a call on the inputs as
/// they are: the two show whether a call leaves something to the next one.
fn plan_evaluations(modes: &[Mode]) -> Option<Vec<Option<Step>>> {
    let [first, .., _] = modes else { return None };
    let input = &first.change.step()?.input;
    let is_constrained = first.change.step()?.step.constraint.is_some();
    if is_constrained || !matches!(first.part, CallPart::Told(_)) {
        return None;
    }
    let mut steps = vec![None];
    for mode in modes {
        let stepped = mode.change.step()?;
        let is_alike = Mode { change: first.change.clone(), ..mode.clone() } == *first;
        if !is_alike || stepped.input != *input {
            return None;
        }
        steps.push(Some(stepped.step.clone()));
    }
    steps.push(None);
    Some(steps)
}

/// Whether two evaluations at one place agree but for the order of atomic additions.
fn are_alike(first_tensor: &TensorView, second_tensor: &TensorView) -> bool {
    let largest = (0..first_tensor.len())
        .map(|index| first_tensor.get_f64(index).abs())
        .filter(|x| x.is_finite());
    let most_difference = REPEATED * largest.fold(0.0, f64::max);
    (0..first_tensor.len()).all(|index| {
        let x = first_tensor.get_f64(index);
        let y = second_tensor.get_f64(index);
        (x - y).abs() <= most_difference || x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan())
    })
}

/// How far two evaluations at one place may lie apart, relative to the largest element: less than a loss has to
/// be known to for its slopes.
const REPEATED: f64 = 1.0 / (1u64 << 46) as f64;

impl Variant for CudaShadow {
    fn key(&self) -> String {
        format!("{} {}", self.host.key(), self.module.key)
    }

    fn call(&self) -> usize {
        self.host.call()
    }

    fn can(&self, ability: Ability) -> bool {
        match ability {
            Ability::Poison | Ability::Step | Ability::SingleOutput => true,
            Ability::PoisonAround
            | Ability::Rounding
            | Ability::PassedRounding
            | Ability::Order
            | Ability::Nudge
            | Ability::Line
            | Ability::CallPart
            | Ability::Summary
            | Ability::AccessCheck
            | Ability::Deviations
            | Ability::SharedDevice
            | Ability::Repetition => false,
        }
    }

    fn reference(&self) -> Option<&dyn Variant> {
        Some(&self.host)
    }

    fn run(&self, mode: &Mode) -> Result<Run, ReplayError> {
        if !self.has_failed.load(Ordering::Relaxed) {
            match self.run_on_device(mode, &JobCalls::Once) {
                Ok(run) if is_sound(&run) => return Ok(run),
                Ok(run) => tracing::info!("the float64 shadow goes to the CPU: {:?}", run.ending),
                Err(error) => tracing::info!("the float64 shadow goes to the CPU: {error}"),
            }
            self.has_failed.store(true, Ordering::Relaxed);
        }
        self.host.run(mode)
    }

    fn at_once(&self, like: Option<&Run>) -> usize {
        if self.has_failed.load(Ordering::Relaxed) {
            self.host.at_once(like)
        } else {
            self.cuda.pool.len()
        }
    }

    fn run_each(
        &self,
        modes: &[Mode],
        at_once: usize,
        take: &mut Take<'_>,
    ) -> Result<(), ReplayError> {
        if self.has_failed.load(Ordering::Relaxed) {
            return self.host.run_each(modes, at_once, take);
        }
        if let Some(runs) = self.evaluated(modes)? {
            return runs.into_iter().enumerate().try_for_each(|(index, run)| take(index, run));
        }
        in_order(modes.len(), at_once, |index| self.run(&modes[index]), take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::{InputChange, Stepped};
    use replay_base::summary::{POISON_A, POISON_B};
    use replay_base::tensor::DType;
    use replay_base::tensor::step::{StepClass, StepUnit};

    fn mode(input: &str, length: f64) -> Mode {
        let among = 0..4;
        let without = Vec::new();
        let class = StepClass::Ordinary;
        let unit = StepUnit::Row;
        let constraint = None;
        let step = Step { seed: 1, class, among, without, unit, length, constraint };
        let stepped = Stepped { input: input.to_owned(), step, scales: Arc::default() };
        let part = CallPart::Told("loss".to_owned());
        Mode { change: InputChange::Step(stepped), part, ..Mode::plain(POISON_A) }
    }

    #[test]
    fn steps_of_one_input_are_made_together_between_two_calls_on_the_inputs_as_they_are() {
        let modes = [mode("x", 0.5), mode("x", -0.5)];
        let lengths = |modes: &[Mode]| {
            let steps = plan_evaluations(modes)?.into_iter();
            Some(steps.map(|step| step.map_or(0.0, |step| step.length)).collect::<Vec<f64>>())
        };
        assert_eq!(lengths(&modes), Some(vec![0.0, 0.5, -0.5, 0.0]));
        let whole = Mode { part: CallPart::Whole, ..mode("x", 1.0) };
        let other = Mode { poison: POISON_B, ..mode("x", 1.0) };
        for alone in [mode("y", 0.5), whole, other, Mode::plain(POISON_A)] {
            assert_eq!(lengths(&[modes[0].clone(), alone]), None);
        }
        assert_eq!(lengths(&modes[..1]), None);
    }

    #[test]
    fn evaluations_at_one_place_may_differ_by_the_order_of_a_sum_alone() {
        let alike = |one: [f64; 2], other: [f64; 2]| {
            let bytes = [one, other].map(|values| values.map(f64::to_le_bytes).concat());
            let [one, other] = [0, 1].map(|at: usize| TensorView {
                dtype: DType::F64,
                shape: &[2],
                bytes: &bytes[at],
            });
            are_alike(&one, &other)
        };
        assert!(alike([8.0, 1e-20], [8.0, 0.0]));
        assert!(alike([8.0, f64::NAN], [8.0 + 1e-14, -f64::NAN]));
        assert!(alike([f64::INFINITY, 1.0], [f64::INFINITY, 1.0]));
        assert!(!alike([8.0, 1.0], [8.0 + 1e-11, 1.0]));
        assert!(!alike([8.0, 1.0], [8.0, f64::NAN]));
        assert!(!alike([8.0, f64::INFINITY], [8.0, 1.0]));
    }
}
