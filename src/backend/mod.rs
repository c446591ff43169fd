//! What runs kernels. A [`Backend`] makes variants of source sets; a [`Variant`] says what it can do
//! and makes one run under a [`Mode`].
//!
//! Two implementations: [`cpu`], the reference machine, and [`cuda`], GPUs. Whoever measures or judges
//! asks a variant for its [`Abilities`], never for the name of a backend.

pub mod cpu;
pub mod cuda;
mod error;
mod host;
mod in_order;
mod mode;

use std::fmt;
use std::sync::Arc;

pub use self::cpu::Cpu;
pub use self::cuda::Cuda;
pub use self::error::{Refusal, ReplayError};
pub use self::host::Host;
pub use self::mode::{Abilities, Mode};

use crate::cuda::sanitizer::{Finding, Tool};
use crate::fixture::Fixture;
use crate::frontend::Precision;
use crate::history::SourceSet;
use crate::worker::Run;

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

/// Something that can run source sets on fixtures.
pub trait Backend: fmt::Debug + Send + Sync {
    /// The device that kernels run on.
    fn device(&self) -> DeviceName;

    /// The version of what compiles the sources, or of what interprets them.
    fn compiler(&self) -> &str;

    /// Whatever a run depends on besides its variant, its fixture and its mode (device, limits, this
    /// program), and what makes variants.
    fn identity(&self) -> String;

    /// Whether it gave up making something ready in this process: what is judged without it may come
    /// out otherwise on a faster machine.
    fn has_given_up(&self) -> bool {
        false
    }

    /// How many runs were out of time so far: as much a matter of the machine as of the code. Nothing
    /// that rests on such a run is remembered.
    fn timeouts(&self) -> u64 {
        0
    }

    /// What every replay is repeated under to look for more, if anything: its name and version.
    fn checker(&self) -> Option<String> {
        None
    }

    /// Prepares for many variants.
    fn expect_many(&self) {}

    /// Makes `sources` ready to run on `fixture`; `meanwhile` is done while it waits for a compiler,
    /// if it has to. With [`Precision::Shadow`] floating-point arithmetic is in float64, with
    /// [`Precision::Checked`] runs check their accesses to memory.
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

/// A source set that was made ready to run on one fixture.
pub trait Variant: Send + Sync {
    /// Identifies all that was made of the sources, and with what.
    fn key(&self) -> String;

    /// Which of the harness's calls fits, from 0.
    fn call(&self) -> usize;

    /// Which modes it can run under, and what its runs promise.
    fn abilities(&self) -> Abilities;

    /// The same sources on the reference machine, where this variant's own device lacks abilities.
    fn reference(&self) -> Option<&dyn Variant> {
        None
    }

    /// Why float64 may not mean the same as what the sources say; always none but for a shadow.
    fn obstacle(&self) -> Option<&str> {
        None
    }

    /// The greatest error of a mathematical function that the code calls, in units in the last place.
    fn math_ulps(&self) -> f64 {
        1.0
    }

    /// Whether the code may add in an order that the device chooses.
    fn has_atomics(&self) -> bool {
        false
    }

    /// Runs once.
    ///
    /// # Errors
    /// [`ReplayError`] if the machine is at fault, or the sources turn out to lack something that
    /// only a run asks for.
    fn run(&self, mode: &Mode) -> Result<Run, ReplayError>;

    /// How many runs like `run` are made at a time; like any, if there is none yet.
    fn at_once(&self, like: Option<&Run>) -> usize;

    /// Runs in each of `modes`, at most `at_once` of them at a time, which share the machine.
    ///
    /// # Errors
    /// As [`Variant::run`], or as `take`.
    fn run_each(
        &self,
        modes: &[Mode],
        at_once: usize,
        take: &mut Take<'_>,
    ) -> Result<(), ReplayError>;

    /// What the backend's checker finds in a run of its own; nothing where there is no checker.
    ///
    /// # Errors
    /// As [`Variant::run`], or if the checker does not work here.
    fn check(&self) -> Result<Vec<(Tool, Finding)>, ReplayError> {
        Ok(Vec::new())
    }
}

impl dyn Variant + '_ {
    /// The variant around whose runs noise is measured: the reference, if there is one.
    pub fn for_noise(&self) -> &dyn Variant {
        self.reference().unwrap_or(self)
    }

    /// Two runs, at a time where that suits the machine.
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
