//! Several replays in one process, once a repetition has shown no trace of those before.

use std::sync::{Mutex, PoisonError};

use super::{Mode, ReplayError};
use crate::worker::{Ending, InputChange, Run};
use replay_base::tensor::TensorView;

/// A repetition after other replays in its process may be so many times as far from the first as one in
/// a process of its own.
const AS_FAR: f64 = 8.0;

/// The replays of one variant in shared processes.
pub(super) struct ProgramSeries {
    name: u64,
    /// Whether each bit of them counts: they tell of noise.
    is_native: bool,
    /// Whether they may, once it is known.
    proven: Mutex<Option<bool>>,
}

/// Where several runs are to be made.
#[derive(Default)]
pub(super) struct Begun {
    /// The series whose processes make them; without one each has a process of its own.
    pub series: Option<u64>,
    /// The first runs, already made.
    pub runs: Vec<Run>,
}

impl Begun {
    /// Whether its process makes `count` runs more sooner than another process could begin.
    pub(super) fn is_faster_than_start(&self, count: usize) -> bool {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        matches!(&self.runs[..], [first, second] if second.call.saturating_mul(count) <= first.call)
    }
}

impl ProgramSeries {
    pub(super) fn new(name: u64, is_native: bool) -> ProgramSeries {
        ProgramSeries { name, is_native, proven: Mutex::new(None) }
    }

    pub(super) fn name(&self) -> u64 {
        self.name
    }

    /// Where runs in `modes` are to be made. A process for several replays first repeats its first one. Its results count only
    /// if the repetition gives the same.
    pub(super) fn begin(
        &self,
        modes: &[Mode],
        make: impl Fn(&Mode, Option<u64>) -> Result<Run, ReplayError>,
    ) -> Begun {
        let [first, second, ..] = modes else {
            return self.begun_state(modes.iter().all(is_moved));
        };
        if !modes.iter().all(is_moved) {
            return Begun::default();
        }
        let mut proven = self.proven.lock().unwrap_or_else(PoisonError::into_inner);
        if proven.is_some() {
            drop(proven);
            return self.begun_state(true);
        }
        let mut runs = Vec::from_iter(self.make_completed_run(first, &make));
        let mut may = false;
        if let [base] = &runs[..]
            && let (Some(next), Some(repeated_run)) =
                (self.make_completed_run(second, &make), self.make_completed_run(first, &make))
        {
            // Replays of another revision may have taken the process meanwhile: then nothing is shown.
            if !(next.continues_series && repeated_run.continues_series) {
                return Begun { series: None, runs };
            }
            may = base.gives_the_bits_of(&repeated_run)
                || !self.is_native
                    && make(first, None).is_ok_and(|alone| is_as_near(base, &repeated_run, &alone));
            runs.extend(Some(next).filter(|_| may));
        }
        *proven = Some(may);
        Begun { series: may.then_some(self.name), runs }
    }

    /// A run of this series in `mode`; none unless it completes.
    fn make_completed_run(
        &self,
        mode: &Mode,
        make: impl Fn(&Mode, Option<u64>) -> Result<Run, ReplayError>,
    ) -> Option<Run> {
        make(mode, Some(self.name)).ok().filter(|run| run.ending == Ending::Completed)
    }

    /// The state so far; a series if it `is_wanted`.
    fn begun_state(&self, is_wanted: bool) -> Begun {
        let proven = *self.proven.lock().unwrap_or_else(PoisonError::into_inner);
        let may = is_wanted && proven == Some(true);
        Begun { series: may.then_some(self.name), runs: Vec::new() }
    }
}

/// Whether `mode` moves the inputs.
fn is_moved(mode: &Mode) -> bool {
    matches!(mode.change, InputChange::Nudge { .. } | InputChange::Step(_) | InputChange::Line(_))
}

/// Whether `repeated_run` is about as near to `base` as `alone`, a repetition in a process of its own: a device may
/// add in another order each time.
fn is_as_near(base: &Run, repeated_run: &Run, alone: &Run) -> bool {
    base.outputs().all(|(output, view)| {
        let (Some(repeated_view), Some(alone_view)) =
            (repeated_run.output(&output.name), alone.output(&output.name))
        else {
            return false;
        };
        replay_distance(&view, &repeated_view) <= AS_FAR * replay_distance(&view, &alone_view)
    })
}

/// How far two tensors of one shape are apart, in L2. Infinite if one alone is NaN somewhere.
fn replay_distance(first_tensor: &TensorView, second_tensor: &TensorView) -> f64 {
    let squares = (0..first_tensor.len())
        .map(|index| (first_tensor.get_f64(index), second_tensor.get_f64(index)));
    let squares = squares.map(|(first_value, second_value)| {
        if first_value.to_bits() == second_value.to_bits() {
            0.0
        } else {
            (first_value - second_value).powi(2)
        }
    });
    let sum: f64 = squares.sum();
    if sum.is_nan() { f64::INFINITY } else { sum.sqrt() }
}
