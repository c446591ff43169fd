//! The outcome of a program by one run, where two runs of another revision gave the same bits.

use std::sync::atomic::Ordering;

use super::Trial;
use super::build::VariantBuild;
use super::outcome::{Outcome, Status};
use crate::backend::{Mode, ReplayError, Variant};
use crate::worker::{Ending, Run};
use replay_base::cache::CacheKind;
use replay_base::summary::{POISON_A, POISON_B, summarize_tensor};

/// The name of such an outcome in keys of the cache.
const ONE_RUN: &str = "outcome by one run";

impl Trial {
    /// The outcome of a replay. One run does for a program that completes with the bits of one of `known_outcomes`, each
    /// of two runs: what the other run would show decides between neither.
    ///
    /// # Errors
    /// As [`Trial::outcome`].
    pub fn outcome_beside(&self, known_outcomes: &[Outcome]) -> Result<&Outcome, ReplayError> {
        if self.fixture().harness.program.is_none() || known_outcomes.is_empty() {
            return self.outcome();
        }
        self.outcome.get(|| match self.native()? {
            VariantBuild::Ready(variant) => {
                let variant = &**variant;
                let outcome = self.replay_beside(variant, known_outcomes)?;
                self.sanitized(variant, outcome)
            }
            VariantBuild::Refused(refusal) => Ok(self.untestable(refusal.clone())),
        })
    }

    /// Whether the outcome rests on one run.
    pub fn rests_on_one_run(&self) -> bool {
        self.has_one_run.load(Ordering::Relaxed)
    }

    /// Whether a run among other memory gives the bits of `outcome`, which rests on one run.
    ///
    /// # Errors
    /// As [`Trial::outcome`].
    pub fn repeats_elsewhere(&self, outcome: &Outcome) -> Result<bool, ReplayError> {
        let Some(variant) = self.variant()? else { return Ok(false) };
        Ok(gives_bits_of(&variant.run(&Mode::plain(POISON_B))?, outcome))
    }

    fn replay_beside(
        &self,
        variant: &dyn Variant,
        known_outcomes: &[Outcome],
    ) -> Result<Outcome, ReplayError> {
        if let Some(outcome) = self.recall_outcome(self.key()?) {
            return Ok(outcome);
        }
        let key = self.key_of(ONE_RUN)?;
        if let Some(outcome) = self.lab.recall::<Outcome>(CacheKind::Outcome, &key)
            && known_outcomes.iter().any(|known| have_same_checksums(known, &outcome))
        {
            self.is_recalled.store(true, Ordering::Relaxed);
            self.has_one_run.store(true, Ordering::Relaxed);
            return Ok(outcome);
        }
        let span = tracing::info_span!("replay", message = self.fixture().name).entered();
        let run = match variant.run(&Mode::plain(POISON_A)) {
            Ok(run) => run,
            Err(error) => return self.untestable_for(error),
        };
        drop(span);
        let mut known_outcomes = known_outcomes.iter();
        let Some(known) = known_outcomes.find(|known| gives_bits_of(&run, known)) else {
            return self.replayed_from(variant, Some(run));
        };
        let (settings, printed) = (run.settings.clone(), run.printed.clone());
        let outcome = Outcome { settings, printed, ..known.clone() };
        self.lab.keep(CacheKind::Outcome, &key, &outcome)?;
        self.note_opened(variant)?;
        self.has_one_run.store(true, Ordering::Relaxed);
        self.call.get(|| Ok::<_, ReplayError>(run.call_cpu))?;
        self.keep_plain(run, false);
        Ok(outcome)
    }
}

/// Whether two outcomes are completed and have the same outputs, bit by bit.
fn have_same_checksums(one: &Outcome, other: &Outcome) -> bool {
    let mut pairs = one.outputs.iter().zip(&other.outputs);
    [one, other].iter().all(|outcome| outcome.status == Status::Completed)
        && one.outputs.len() == other.outputs.len()
        && pairs.all(|(one, other)| {
            one.name == other.name && one.summary.checksum == other.summary.checksum
        })
}

/// Whether `run` completed with the outputs of `outcome`, a completed one.
fn gives_bits_of(run: &Run, outcome: &Outcome) -> bool {
    run.ending == Ending::Completed
        && run.unfit.is_empty()
        && outcome.status == Status::Completed
        && run.outputs().count() == outcome.outputs.len()
        && run.outputs().all(|(output, view)| {
            outcome.outputs.iter().any(|known| {
                known.name == output.name
                    && known.dtype == view.dtype
                    && known.summary.checksum == summarize_tensor(&view, None).checksum
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::OutputRecord;
    use replay_base::tensor::{DType, TensorView};

    fn run(bytes: &[u8]) -> Run {
        let tensor = ("out".to_owned(), DType::U8, vec![bytes.len()], 0..bytes.len());
        Run::of_bytes(bytes, [tensor].into_iter(), None, &std::env::temp_dir()).unwrap()
    }

    fn outcome(bytes: &[u8], status: Status) -> Outcome {
        let view = TensorView { dtype: DType::U8, shape: &[bytes.len()], bytes };
        let record = OutputRecord {
            name: "out".to_owned(),
            dtype: DType::U8,
            dims: Vec::new(),
            summary: summarize_tensor(&view, None),
            shows_unwritten: false,
            slices: Vec::new(),
        };
        Outcome {
            device: "cpu".to_owned(),
            device_description: String::new(),
            compiler: String::new(),
            call: Some(0),
            status,
            launches: Vec::new(),
            launch_count: 0,
            outputs: vec![record],
            settings: Default::default(),
            printed: String::new(),
        }
    }

    #[test]
    fn a_run_that_completes_gives_the_bits_of_a_completed_outcome_alone() {
        assert!(gives_bits_of(&run(&[1, 2]), &outcome(&[1, 2], Status::Completed)));
        assert!(!gives_bits_of(&run(&[1, 2]), &outcome(&[1, 3], Status::Completed)));
        assert!(!gives_bits_of(&run(&[1, 2]), &outcome(&[1, 2], Status::Failed(Vec::new()))));
        let mut exited = run(&[1, 2]);
        exited.ending = Ending::Exited(1);
        assert!(!gives_bits_of(&exited, &outcome(&[1, 2], Status::Completed)));
    }
}
