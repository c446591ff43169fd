//! Noise by the reference machine, measured while a device makes outcomes.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::Trial;
use super::measurement::{Around, Needed, needed_beside};
use crate::backend::{Mode, ReplayError, Variant};
use crate::worker::{Ending, Run};
use replay_base::cache::CacheKind;
use replay_base::concurrent::run_both;
use replay_base::summary::POISON_A;

/// The noise of a reference.
#[derive(Default)]
pub(super) enum Ahead {
    /// Nobody has asked for it.
    #[default]
    Open,
    /// It waits for its measurement.
    Made(Around, Needed),
    /// A measurement has taken it, or makes it itself.
    Taken,
}

/// Does `work`, which makes outcomes of `trials` and measures them. The noise of those that run on a device and have
/// no outcome yet is measured on their references meanwhile.
pub(crate) fn measured_ahead<R>(
    trials: &[&Trial],
    work: impl FnOnce() -> R,
) -> Result<R, ReplayError> {
    let mut waiting = Vec::new();
    for trial in trials {
        trial.is_to_be_measured.store(true, Ordering::Relaxed);
        waiting.extend(trial.unmeasured_reference()?.map(|reference| (*trial, reference)));
    }
    if waiting.is_empty() {
        return Ok(work());
    }
    Ok(run_both(|| measure_references(&waiting), work).1)
}

/// Measures the noise of each reference: one after the other, since each takes all cores, or all at a time where it is one
/// replay of large tensors, which mostly waits for memory.
fn measure_references(waiting: &[(&Trial, (&dyn Variant, Needed))]) {
    let Some(((trial, reference), following_trials)) = waiting.split_first() else { return };
    // A measurement makes missing noise, and tells its faults then: they are dropped here.
    match reference.1 {
        Needed::Order => drop(run_both(
            || drop(trial.measure_ahead(*reference)),
            || measure_references(following_trials),
        )),
        Needed::All => {
            drop(trial.measure_ahead(*reference));
            measure_references(following_trials);
        }
    }
}

impl Trial {
    /// The reference, if there is one and the outcome has yet to be made.
    fn unmeasured_reference(&self) -> Result<Option<(&dyn Variant, Needed)>, ReplayError> {
        let Some(variant) = self.variant()? else { return Ok(None) };
        let reference = variant.reference().filter(|_| self.outcome.peek().is_none());
        let Some(reference) = reference else { return Ok(None) };
        let is_known = self.lab.recall::<super::Outcome>(CacheKind::Outcome, self.key()?).is_some();
        Ok((!is_known).then(|| (reference, needed_beside(variant))))
    }

    /// Measures the noise of `reference` for a measurement to come, which waits for it; it is kept where nothing but
    /// the machine could make it another.
    fn measure_ahead(
        &self,
        (reference, needed): (&dyn Variant, Needed),
    ) -> Result<(), ReplayError> {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*ahead, Ahead::Open) {
            return Ok(());
        }
        let timeouts = self.lab.backend().timeouts();
        let centre = reference.run(&Mode::plain(POISON_A))?;
        // A failure here is one on the device too, and is not measured.
        let is_refused = centre.launches.iter().any(|launch| launch.error.is_some());
        if centre.ending != Ending::Completed || is_refused {
            return Ok(());
        }
        let noise = self.noise_at(reference, &centre, needed)?;
        if self.lab.backend().timeouts() == timeouts {
            *ahead = Ahead::Made(noise, needed);
        }
        Ok(())
    }

    /// The noise of `reference` around its own plain run, as far as it is `needed`.
    pub(super) fn noise_on_reference(
        &self,
        reference: &dyn Variant,
        needed: Needed,
    ) -> Result<Around, ReplayError> {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let early_state = std::mem::replace(&mut *ahead, Ahead::Taken);
        drop(ahead);
        match early_state {
            Ahead::Made(noise, noise_needed) if noise_needed == needed => Ok(noise),
            Ahead::Open | Ahead::Made(..) | Ahead::Taken => {
                self.noise_at(reference, &reference.run(&Mode::plain(POISON_A))?, needed)
            }
        }
    }

    /// The noise of `reference` around `centre`, its plain run.
    fn noise_at(
        &self,
        reference: &dyn Variant,
        centre: &Run,
        needed: Needed,
    ) -> Result<Around, ReplayError> {
        // Whether the accesses of a call are checked depends on its time.
        self.call.get(|| Ok::<_, ReplayError>(centre.call_cpu))?;
        self.noise_around(reference, centre, needed)
    }
}
