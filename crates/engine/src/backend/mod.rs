//! Runs kernels. A [`Backend`] makes variants of source sets. A [`Variant`] says what it [can](Variant::can) do
//! and makes one run under a [`Mode`].
//!
//! There are three implementations: [`cpu`], the reference machine, [`cuda`], GPUs, and [`program`],
//! programs of any framework. Callers ask a variant for an [`Ability`], never for the name of a backend.

pub mod cpu;
pub mod cuda;
mod error;
mod host;
mod in_order;
mod mode;
pub mod program;
mod room;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

pub use self::cpu::CpuBackend;
pub use self::cuda::Cuda;
pub use self::error::{Refusal, ReplayError};
pub use self::host::Host;
pub use self::mode::{Ability, Mode};
pub use self::program::Programs;
pub use self::room::{Held, NoRoom};

use crate::environment::Environment;
use crate::worker::Run;
use replay_cuda::sanitizer::{SanitizerFinding, Tool};
use replay_fixture::fixture::Fixture;
use replay_fixture::harness::Harness;
use replay_frontend::Precision;
use replay_history::SourceSet;

/// A device, as reports and snapshots name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceName {
    /// The class, by which snapshots are kept: `cpu`, `sm_90`.
    pub class: String,
    /// The same for people.
    pub description: String,
}

/// Receives the runs of several modes in their order, each with the number of its mode.
pub type Take<'t> = dyn FnMut(usize, Run) -> Result<(), ReplayError> + 't;

/// A machine to run source sets on fixtures.
pub trait Backend: fmt::Debug + Send + Sync {
    /// The device of the kernels.
    fn device(&self) -> DeviceName;

    /// The version of the compiler of the host code.
    fn compiler(&self) -> &str;

    /// Identifies everything with an influence on a run besides its variant, its fixture and its mode:
    /// the device, the limits, the compiler and this program.
    fn identity(&self) -> String;

    /// Identifies the program of `harness`, if it names one. Runs depend on it as well.
    ///
    /// # Errors
    /// [`ReplayError`] if the program is not there.
    fn identity_with(&self, _harness: &Harness) -> Result<String, ReplayError> {
        Ok(String::new())
    }

    /// Whether it has given up preparing a variant in this process. Judgements may then differ from
    /// those on a faster machine.
    fn has_given_up(&self) -> bool {
        false
    }

    /// How many runs have timed out so far. A timeout depends on the machine as much as on the code,
    /// so results from such a run are not cached.
    fn timeouts(&self) -> u64 {
        0
    }

    /// The name and version of the checker, if there is one. Every replay is repeated under it.
    fn checker(&self) -> Option<String> {
        None
    }

    /// Whether there is room for the tensors of `fixture`, as `precision` has them, and for all `held` data of
    /// its replays.
    ///
    /// # Errors
    /// [`NoRoom`] if there is too little.
    fn room(&self, _fixture: &Fixture, _precision: Precision, _held: Held) -> Result<(), NoRoom> {
        Ok(())
    }

    /// Whether its variants, or their references, have [`Ability::Order`].
    fn has_orders(&self) -> bool {
        true
    }

    /// Prepares for many variants.
    fn expect_many(&self) {}

    /// The same machine with variants in `environment`.
    fn in_environment(&self, environment: &Arc<Environment>) -> Arc<dyn Backend>;

    /// Makes `sources` ready to run on `fixture`; calls `meanwhile` while it waits for a compiler,
    /// if it has to. With [`Precision::Shadow`], floating-point arithmetic is in float64.
    ///
    /// # Errors
    /// [`ReplayError`]; [`ReplayError::refusal`] tells whether the sources are at fault.
    fn prepare(
        &self,
        fixture: &Arc<Fixture>,
        sources: &SourceSet,
        precision: Precision,
        meanwhile: &(dyn Fn() + Sync),
    ) -> Result<Arc<dyn Variant>, ReplayError>;
}

/// A source set ready to run on one fixture.
pub trait Variant: Send + Sync {
    /// Identifies the compiled code and everything it was made from.
    fn key(&self) -> String;

    /// The number of the harness's fitting call, from 0.
    fn call(&self) -> usize;

    /// Whether it has `ability`.
    fn can(&self, ability: Ability) -> bool;

    /// The same sources on the reference machine, where this variant's own device lacks abilities.
    fn reference(&self) -> Option<&dyn Variant> {
        None
    }

    /// The files of a program's tree that its replays so far have opened; none where that is not known.
    fn opened(&self) -> Option<BTreeSet<String>> {
        None
    }

    /// Why float64 may change the meaning of the sources, a line of them each; always empty except for a shadow.
    fn obstacles(&self) -> &[String] {
        &[]
    }

    /// The greatest error of the mathematical functions in the code, in units in the last place.
    fn math_ulps(&self) -> f64 {
        1.0
    }

    /// Whether the device may choose the order of additions.
    fn has_atomics(&self) -> bool {
        false
    }

    /// Runs once.
    ///
    /// # Errors
    /// [`ReplayError`] if the machine is at fault, or if the run shows a gap in the sources.
    fn run(&self, mode: &Mode) -> Result<Run, ReplayError>;

    /// How many runs like the run `like` can be made at a time, or any runs if there is none yet.
    fn at_once(&self, like: Option<&Run>) -> usize;

    /// Runs in each of `modes`, at most `at_once` at a time; those share the machine.
    ///
    /// # Errors
    /// As [`Variant::run`], or as `take`.
    fn run_each(
        &self,
        modes: &[Mode],
        at_once: usize,
        take: &mut Take<'_>,
    ) -> Result<(), ReplayError>;

    /// How far directed rounding moves each element of the floating-point outputs, as a run with these numbers
    /// for outputs; negative where one direction moves it more than `jump` times as far as another. None if the
    /// device cannot measure it after all.
    ///
    /// # Errors
    /// As [`Variant::run`].
    fn deviations(&self, _jump: f64) -> Result<Option<Run>, ReplayError> {
        Ok(None)
    }

    /// The findings of the backend's checker from a run of its own; empty without a checker.
    ///
    /// # Errors
    /// As [`Variant::run`], or if the checker does not work here.
    fn check(&self) -> Result<Vec<(Tool, SanitizerFinding)>, ReplayError> {
        Ok(Vec::new())
    }
}

impl dyn Variant + '_ {
    /// Whether it can run in `mode`.
    pub fn allows(&self, mode: &Mode) -> bool {
        mode.needed_abilities().into_iter().all(|ability| self.can(ability))
    }

    /// The variant around whose runs noise is measured: the reference, if there is one.
    pub fn for_noise(&self) -> &dyn Variant {
        self.reference().unwrap_or(self)
    }

    /// Makes two runs, at the same time if the machine can.
    ///
    /// # Errors
    /// As [`Variant::run`].
    pub fn run_pair(&self, modes: [Mode; 2]) -> Result<(Run, Run), ReplayError> {
        let mut runs = Vec::with_capacity(modes.len());
        self.run_each(&modes, modes.len(), &mut |_, run| {
            runs.push(run);
            Ok(())
        })?;
        let second = runs.pop().expect("each mode gives a run");
        Ok((runs.pop().expect("each mode gives a run"), second))
    }
}
