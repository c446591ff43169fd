//! An outcome as a text for review: made, read, compared, kept.
//!
//! The text is specified in `docs/snapshots.md`. A snapshot is enough to judge a later outcome: no
//! old tensor is needed. Reads and writes files; replays nothing and prints nothing.
#![deny(unreachable_pub)]
#![deny(unsafe_code)]

mod audit;
mod compare;
mod error;
mod file;
mod number;
mod parse;
mod render;
mod shadow;
mod store;
mod update;
mod words;

pub use audit::{Contradiction, find_contradiction};
pub use compare::{
    OutputChange, SnapshotComparison, SnapshotVerdict, compare_outcome, compare_snapshots,
};
pub use error::SnapshotError;
pub use file::{Meta, SnapshotFile};
pub use shadow::ShadowChanged;
pub use store::{
    Before, Orphan, PendingSnapshot, Store, accept_snapshot, discard_pending, find_snapshot_folder,
    list_orphan_snapshots, list_pending_snapshots, open_pending, reject_snapshot, write_snapshot,
};
pub use update::{SnapshotUpdate, Write};

use replay_base::summary::Summary;
use replay_base::tensor::{DType, Dim};
use replay_engine::trial::{Outcome, OutputImprint, OutputNoise, OutputRecord, Slices, Status};
use replay_numerics::imprint::{Imprint, ShadowMove};

use self::words::{failure_line, flatten_text, launch_lines};

/// The version of the text.
pub const FORMAT: u32 = 2;

/// The version of a text without shadows.
const WITHOUT_SHADOWS: u32 = 1;

/// The device whose outcomes are the same on every machine.
const REFERENCE_DEVICE: &str = "cpu";

/// Noise within this factor of the recorded one counts as the same: digits stand still.
const SAME_NOISE: f64 = 4.0;

/// An outcome, as far as a snapshot keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The fixture's name.
    pub fixture: String,
    /// The hash of the fixture's content, in hexadecimal digits.
    pub content: String,
    /// The device's class: `cpu`, `sm_90`.
    pub device: String,
    /// The device and its compiler, where the bits depend on them.
    pub made_with: Option<String>,
    /// The number of the harness's call, from 0.
    pub call: usize,
    /// `completed`, `failed` or `untestable`.
    pub status: String,
    /// The failures, a line each.
    pub failures: Vec<String>,
    /// The number of launches.
    pub launch_count: u64,
    /// The launches, a line each; equal ones in a row share one.
    pub launches: Vec<String>,
    /// The outputs, in the order of the harness.
    pub outputs: Vec<OutputSnapshot>,
}

/// One output of a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputSnapshot {
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// The dimensions, outermost first.
    pub dims: Vec<Dim>,
    /// Checksum and statistics, in the digits above noise.
    pub summary: Summary,
    /// The L2 norm of the noise over the L2 norm of the output.
    pub noise: f64,
    /// The norms of the slices along small named dimensions.
    pub slices: Vec<Slices>,
    /// The float64 shadow, where it is known.
    pub shadow: Option<Imprint>,
}

impl Snapshot {
    /// The snapshot of `outcome`, on a fixture with the content hash `content`.
    ///
    /// People read it beside `accepted`, so numbers stand still: similar noise is recorded as equal, and so is an
    /// unchanged shadow. An output without noise, in `noise` and in `accepted`, is taken as exact. Numbers have the
    /// digits of the text.
    pub fn from_outcome(
        outcome: &Outcome,
        fixture: &str,
        content: &str,
        noise: &[OutputNoise],
        shadows: &[OutputImprint],
        accepted: Option<&Snapshot>,
    ) -> Snapshot {
        let outputs = outcome
            .outputs
            .iter()
            .map(|record| snapshot_output(record, noise, shadows, accepted))
            .collect();
        let (status, failures) = snapshot_status(outcome);
        let made_with = (outcome.device != REFERENCE_DEVICE).then(|| {
            flatten_text(&format!("{}, {}", outcome.device_description, outcome.compiler))
        });
        Snapshot {
            fixture: flatten_text(fixture),
            content: content.to_owned(),
            device: outcome.device.clone(),
            made_with,
            call: outcome.call.unwrap_or(0),
            status: status.to_owned(),
            failures,
            launch_count: outcome.launch_count,
            launches: launch_lines(outcome),
            outputs,
        }
    }

    /// The version of its text.
    fn format(&self) -> u32 {
        let has_shadow = self.outputs.iter().any(|output| output.shadow.is_some());
        if has_shadow { FORMAT } else { WITHOUT_SHADOWS }
    }

    /// Whether it tells of the float64 shadow of an output.
    pub fn knows_shadows(&self) -> bool {
        self.format() == FORMAT
    }

    /// The output called `name`.
    pub fn output(&self, name: &str) -> Option<&OutputSnapshot> {
        self.outputs.iter().find(|output| output.name == name)
    }

    /// Whether `outcome` has the same bits, ended the same way and launched the same kernels.
    pub fn is_exactly(&self, outcome: &Outcome) -> bool {
        self.has_bits_of(outcome)
            && self.launch_count == outcome.launch_count
            && self.launches == launch_lines(outcome)
            && self.call == outcome.call.unwrap_or(0)
    }

    /// Whether `outcome` ended the same way, with the same bits.
    pub fn has_bits_of(&self, outcome: &Outcome) -> bool {
        let (status, failures) = snapshot_status(outcome);
        let mut output_pairs = self.outputs.iter().zip(&outcome.outputs);
        self.status == status
            && self.failures == failures
            && self.outputs.len() == outcome.outputs.len()
            && output_pairs.all(|(mine, theirs)| {
                mine.name == theirs.name
                    && mine.dims == theirs.dims
                    && mine.summary.checksum == theirs.summary.checksum
            })
    }
}

/// The snapshot of one output: [`Snapshot::from_outcome`] tells how numbers stand still.
fn snapshot_output(
    record: &OutputRecord,
    noise: &[OutputNoise],
    shadows: &[OutputImprint],
    accepted: Option<&Snapshot>,
) -> OutputSnapshot {
    let fresh = noise.iter().find(|noise| noise.name == record.name);
    let fresh = fresh.map(|noise| noise.noise.relative_l2);
    let accepted_output = accepted.and_then(|accepted| accepted.output(&record.name));
    let shadow = shadows.iter().find(|shadow| shadow.name == record.name);
    let shadow = shadow.map(|shadow| &shadow.imprint);
    OutputSnapshot {
        name: record.name.clone(),
        dtype: record.dtype,
        dims: record.dims.clone(),
        summary: record.summary.clone(),
        noise: settle_noise(fresh, accepted_output.map(|previous| previous.noise)),
        slices: record.slices.clone(),
        shadow: settle_shadow(record, shadow, accepted_output),
    }
    .in_written_digits()
}

/// The noise to record: the known one if the fresh one is similar.
fn settle_noise(fresh: Option<f64>, accepted_noise: Option<f64>) -> f64 {
    let fresh = fresh.filter(|noise| noise.is_finite());
    match (fresh, accepted_noise) {
        (Some(fresh), Some(known_noise))
            if known_noise > 0.0
                && (known_noise / SAME_NOISE..=known_noise * SAME_NOISE).contains(&fresh) =>
        {
            known_noise
        }
        (Some(fresh), _) => number::two_digits(fresh),
        (None, known_noise) => known_noise.unwrap_or(0.0),
    }
}

/// The shadow to record for the output `record`: the known one if the fresh one is the same, or if equal bits made
/// measuring needless.
fn settle_shadow(
    record: &OutputRecord,
    fresh: Option<&Imprint>,
    accepted_output: Option<&OutputSnapshot>,
) -> Option<Imprint> {
    let same_bits =
        accepted_output.is_some_and(|output| output.summary.checksum == record.summary.checksum);
    let accepted_imprint = accepted_output
        .filter(|output| output.dtype == record.dtype && output.dims == record.dims)
        .and_then(|output| output.shadow.as_ref());
    match (fresh, accepted_imprint) {
        (Some(fresh), Some(imprint))
            if imprint.compare(fresh, record.dtype) == ShadowMove::Same =>
        {
            Some(imprint.clone())
        }
        (Some(fresh), _) => {
            Some(Imprint { rounding: number::two_digits(fresh.rounding), ..fresh.clone() })
        }
        (None, imprint) => imprint.filter(|_| same_bits).cloned(),
    }
}

fn snapshot_status(outcome: &Outcome) -> (&'static str, Vec<String>) {
    match &outcome.status {
        Status::Completed => ("completed", Vec::new()),
        Status::Failed(failures) => ("failed", failures.iter().map(failure_line).collect()),
        // Compilers differ in their words.
        Status::Untestable { .. } => ("untestable", Vec::new()),
    }
}

#[cfg(test)]
mod tests;
