//! Whether a run of the float64 shadow tells anything: it ends, and reads no unwritten memory.

use rayon::prelude::*;

use super::{Trial, cannot_mean_double};
use crate::backend::{Ability, Mode, ReplayError, Variant};
use crate::compile::{Explanation, ObstacleEffect, source_byte_counts};
use crate::worker::{Ending, Run};
use replay_base::summary::{POISON_B, compare_poisons};
use replay_base::tensor::TensorView;
use replay_frontend::ByteCount;
use replay_numerics::constants::LEAST_POISON_SIZE;
use replay_runtime::report::NO_SHADOW;

/// The name of an incomplete shadow.
const SHADOW: &str = "the float64 shadow";
/// A reader of unwritten memory is no shadow.
const UNWRITTEN: &str = "no float64 shadow: it reads memory that nobody wrote in it";

/// Sizes in bytes without `sizeof`, each with its file and line.
type Counts = [(String, ByteCount)];

impl Trial {
    /// Why `run`, the whole of `shadow` on memory of the first poison, has no meaning; none if it has one. Where sizes
    /// or numbers raise doubts, another run on other poison settles them.
    ///
    /// # Errors
    /// As [`Trial::measurement`].
    pub(crate) fn why_no_shadow(
        &self,
        shadow: &dyn Variant,
        run: &Run,
    ) -> Result<Option<String>, ReplayError> {
        if let Some(reason) = why_unfinished(run, SHADOW) {
            let addition = match &run.ending {
                Ending::Fault(fault) if fault.what == NO_SHADOW => {
                    self.describe_further_obstacles(&fault.detail)
                }
                Ending::Fault(_) => byte_count_hint(&self.byte_counts()),
                _ => None,
            };
            return Ok(Some(reason + &addition.unwrap_or_default()));
        }
        if shadow.can(Ability::PoisonAround) || !shadow.can(Ability::Poison) {
            return Ok(None);
        }
        let fault = self.shadow_fault.get(|| {
            let counts = self.byte_counts();
            if counts.is_empty() && !run.outputs().any(|(_, view)| has_extremes(&view)) {
                return Ok::<_, ReplayError>(None);
            }
            let other = shadow.run(&Mode::plain(POISON_B))?;
            if !self.reads_unwritten(run, &other)? {
                return Ok(None);
            }
            Ok(Some(UNWRITTEN.to_owned() + &byte_count_hint(&counts).unwrap_or_default()))
        })?;
        Ok(fault.clone())
    }

    /// The lines of the sources, besides `met`, that end the shadow as well where they run.
    fn describe_further_obstacles(&self, met: &str) -> Option<String> {
        /// More than these are only counted.
        const SHOWN: usize = 16;
        let explanation = Explanation::new(&self.fixture().harness, None, &self.sources).ok()?;
        let obstacles = explanation.files.iter().flat_map(|file| {
            let reached = file
                .shadow_obstacles
                .iter()
                .filter(|obstacle| obstacle.effect != ObstacleEffect::NotReached);
            reached
                .map(|obstacle| format!("{}:{}: {}", file.path, obstacle.line, obstacle.construct))
        });
        let mut others: Vec<String> = obstacles.filter(|obstacle| obstacle != met).collect();
        others.dedup();
        let left_out = others.len().saturating_sub(SHOWN);
        others.truncate(SHOWN);
        let more = if left_out > 0 { format!("; and {left_out} more") } else { String::new() };
        (!others.is_empty()).then(|| format!("; and, where they run, {}{more}", others.join("; ")))
    }

    fn byte_counts(&self) -> Vec<(String, ByteCount)> {
        source_byte_counts(&self.sources, &self.fixture().harness)
    }

    /// Whether outputs of the shadow's `run` depend on unwritten memory, by `other`, a run on other poison. Elements are no
    /// fault of the shadow if the native sources leave them unwritten as well.
    fn reads_unwritten(&self, run: &Run, other: &Run) -> Result<bool, ReplayError> {
        if other.ending != Ending::Completed {
            return Ok(!matches!(other.ending, Ending::TimedOut(..)));
        }
        for (output, view) in run.outputs() {
            let Some(second) = other.output(&output.name) else { continue };
            let Ok(written) = compare_poisons(&view, &second) else { return Ok(true) };
            if written.poison_dependent > 0 {
                return Ok(true);
            }
            if written.unwritten > 0 {
                let records = &self.outcome()?.outputs;
                let native = records.iter().find(|record| record.name == output.name);
                if native.is_none_or(|native| native.summary.unwritten < written.unwritten) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// Why `run` of `what` did not complete; none if it did.
pub(crate) fn why_unfinished(run: &Run, what: &str) -> Option<String> {
    match &run.ending {
        Ending::Completed => None,
        Ending::TimedOut(..) => Some(format!("{what} ran out of time")),
        Ending::TookMemory(excess) => Some(format!("{what} {excess}")),
        Ending::Unable(message) => Some(format!("{what} does not run to its end: {message}")),
        Ending::Fault(fault) if fault.what == NO_SHADOW => Some(cannot_mean_double(&fault.detail)),
        Ending::Fault(fault) => {
            let place = fault.kernel.as_deref().map(|kernel| format!(" in {kernel}"));
            let place = match place {
                Some(place) => place,
                None if fault.tells_host_code() => String::new(),
                None => " in host code".to_owned(),
            };
            let detail = match fault.detail.as_str() {
                "" => String::new(),
                detail => format!(": {detail}"),
            };
            Some(format!("{what} does not run to its end: {}{place}{detail}", fault.what))
        }
        Ending::Unfit(problem) => Some(format!("{what} does not run to its end: {problem}")),
        Ending::Exited(code) => Some(describe_early_end(run, what, &format!("exit({code})"))),
        Ending::Status(code) => Some(describe_early_end(run, what, &format!("exit status {code}"))),
        Ending::Killed(signal) => Some(describe_early_end(run, what, &format!("signal {signal}"))),
    }
}

/// `what` ended by `cause`, with the last of the lines that it printed: as a rule an exception.
fn describe_early_end(run: &Run, what: &str, cause: &str) -> String {
    let last_line = run.printed.lines().map(str::trim).rfind(|line| !line.is_empty());
    let last_words = last_line.map_or(String::new(), |line| format!(": {line}"));
    format!("{what} does not run to its end: {cause}{last_words}")
}

/// Advice where one of `counts` may be of the bytes of float32.
fn byte_count_hint(counts: &Counts) -> Option<String> {
    let mut literals = counts.iter().filter(|(_, count)| count.has_literal);
    let (place, count) = literals.next()?;
    let more = match literals.count() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(format!(
        "; `{}` at {place}{more} may count bytes of float32: write sizeof(float)",
        count.written
    ))
}

/// Whether `tensor` holds numbers of poison's size.
fn has_extremes(tensor: &TensorView) -> bool {
    tensor.dtype.is_float()
        && (0..tensor.len()).into_par_iter().any(|index| {
            let size = tensor.get_f64(index).abs();
            size.is_nan() || size >= LEAST_POISON_SIZE
        })
}
