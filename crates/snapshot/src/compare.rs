//! A later outcome against an accepted snapshot, by sketches and noise. Pure.

use std::fmt::Write;

use serde::Serialize;

use super::number::format_snapshot_number;
use super::{OutputSnapshot, ShadowChanged, Snapshot};
use replay_base::summary::{Checksum, Estimate, Number, estimate_distance};
use replay_engine::trial::{Outcome, OutputImprint, OutputNoise};
use replay_numerics::constants::{ERROR_RATIO_WITHIN_NOISE, NARROW_ROUNDING, NOISE_FACTOR};
use replay_numerics::measure::ulp;

/// The verdict of a snapshot on a later outcome; ordered from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotVerdict {
    /// The same bits.
    Matches,
    /// Other bits, within noise.
    Equivalent,
    /// Other bits, within noise, and no float64 shadow tells whether the mathematics is the same.
    Unchecked,
    /// No snapshot was accepted yet.
    New,
    /// There is no accepted snapshot where there must be one.
    Missing,
    /// The snapshot is of other content of the fixture: nothing can be compared.
    Stale,
    /// Beyond noise, or another ending.
    Diverged,
}

impl SnapshotVerdict {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            SnapshotVerdict::Matches => "matches",
            SnapshotVerdict::Equivalent => "equivalent",
            SnapshotVerdict::Unchecked => "unchecked",
            SnapshotVerdict::New => "new",
            SnapshotVerdict::Missing => "missing",
            SnapshotVerdict::Stale => "stale",
            SnapshotVerdict::Diverged => "diverged",
        }
    }
}

/// An outcome against a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SnapshotComparison {
    /// The worst verdict.
    pub verdict: SnapshotVerdict,
    /// The outputs that changed, in the order of the harness.
    pub changes: Vec<OutputChange>,
    /// Whether other kernels were launched, or with other shapes.
    pub launches_changed: bool,
    /// How it ended before and now, where that changed.
    pub ending: Option<(String, String)>,
}

/// An output that changed.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct OutputChange {
    /// Its name.
    pub name: String,
    /// Whether it moved beyond noise.
    #[schemars(extend("enum" = ["equivalent", "unchecked", "diverged"]))]
    pub verdict: SnapshotVerdict,
    /// The checksum in the snapshot; none where the output is new.
    pub before: Option<Checksum>,
    /// The checksum now; none where the output is gone.
    pub after: Option<Checksum>,
    /// The relative distance, where dtype and shape are the same.
    pub distance: Option<Estimate>,
    /// The relative noise of both sides together.
    #[serde(with = "Number")]
    pub noise: f64,
    /// What became of its float64 shadow, where both sides tell.
    pub shadow: Option<ShadowChanged>,
    /// Notes for the reader, a few words each.
    pub notes: Vec<String>,
}

/// Compares `outcome`, whose noise is `noise` and whose shadows are `shadows`, with an accepted snapshot of the
/// same fixture.
pub fn compare_outcome(
    accepted: &Snapshot,
    outcome: &Outcome,
    noise: &[OutputNoise],
    shadows: &[OutputImprint],
) -> SnapshotComparison {
    let Snapshot { fixture, content, .. } = accepted;
    compare_snapshots(
        accepted,
        &Snapshot::from_outcome(outcome, fixture, content, noise, shadows, Some(accepted)),
    )
}

/// Compares `got` with an accepted snapshot.
pub fn compare_snapshots(accepted: &Snapshot, got: &Snapshot) -> SnapshotComparison {
    let launches_changed =
        (accepted.launch_count, &accepted.launches) != (got.launch_count, &got.launches);
    if accepted.content != got.content {
        let verdict = SnapshotVerdict::Stale;
        return SnapshotComparison { verdict, changes: Vec::new(), launches_changed, ending: None };
    }
    let old_changes =
        accepted.outputs.iter().map(|old| compare_output_snapshot(old, got.output(&old.name)));
    let new_changes = got
        .outputs
        .iter()
        .filter(|new_output| accepted.output(&new_output.name).is_none())
        .map(create_output_addition);
    let changes: Vec<OutputChange> = old_changes.flatten().chain(new_changes).collect();
    let ending = (accepted.ending() != got.ending()).then(|| (accepted.ending(), got.ending()));
    let worst = changes.iter().map(|change| change.verdict).max();
    let verdict = match (&ending, worst) {
        (Some(_), _) => SnapshotVerdict::Diverged,
        (None, worst) => worst.unwrap_or(SnapshotVerdict::Matches),
    };
    SnapshotComparison { verdict, changes, launches_changed, ending }
}

impl Snapshot {
    fn ending(&self) -> String {
        match self.failures.as_slice() {
            [] => self.status.clone(),
            failures => format!("{} ({})", self.status, failures.join("; ")),
        }
    }
}

impl SnapshotComparison {
    /// The comparison where there is no accepted snapshot; `needed` tells whether there must be one.
    pub fn unseen(needed: bool) -> SnapshotComparison {
        let verdict = if needed { SnapshotVerdict::Missing } else { SnapshotVerdict::New };
        SnapshotComparison { verdict, changes: Vec::new(), launches_changed: false, ending: None }
    }

    /// The verdict and its reasons, in one sentence.
    pub fn sentence(&self) -> String {
        let name = self.verdict.name();
        self.reason().map_or(name.to_owned(), |reason| format!("{name}: {reason}"))
    }

    /// The reason for the verdict; none where everything is as it was.
    pub fn reason(&self) -> Option<String> {
        let parts = self.reasons();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// The parts of the reason, the worst output first.
    pub fn reasons(&self) -> Vec<String> {
        let mut parts = Vec::new();
        match self.verdict {
            SnapshotVerdict::New => parts.push("no snapshot was accepted yet".to_owned()),
            SnapshotVerdict::Missing => {
                parts.push("there is no accepted snapshot, so nothing was compared".to_owned());
            }
            SnapshotVerdict::Stale => {
                parts.push("the fixture is another one now, so nothing was compared".to_owned());
            }
            _ => {}
        }
        if let Some((before, now)) = &self.ending {
            parts.push(format!("{before} became {now}"));
        }
        // The worst first; the order of the harness among equals.
        let mut changes: Vec<&OutputChange> = self.changes.iter().collect();
        changes.sort_by_key(|change| std::cmp::Reverse(change.verdict));
        parts.extend(changes.into_iter().map(OutputChange::sentence));
        if self.launches_changed {
            parts.push("launches changed".to_owned());
        }
        parts
    }
}

impl OutputChange {
    /// The change of the output, in a few words.
    pub fn sentence(&self) -> String {
        let mut text = self.name.clone();
        if let Some(distance) = &self.distance {
            let _ = if distance.relative.is_finite() {
                write!(
                    text,
                    " moved by rel. {} (noise {})",
                    format_snapshot_number(distance.relative, 2),
                    format_snapshot_number(self.noise, 2)
                )
            } else {
                write!(text, " moved out of all proportion")
            };
        }
        let separator = if self.distance.is_some() { ", " } else { " " };
        if !self.notes.is_empty() {
            let _ = write!(text, "{separator}{}", self.notes.join(", "));
        }
        text
    }
}

fn compare_output_snapshot(
    old: &OutputSnapshot,
    got: Option<&OutputSnapshot>,
) -> Option<OutputChange> {
    let mut change = OutputChange {
        name: old.name.clone(),
        verdict: SnapshotVerdict::Diverged,
        before: Some(old.summary.checksum),
        after: got.map(|got| got.summary.checksum),
        distance: None,
        noise: old.noise,
        shadow: None,
        notes: Vec::new(),
    };
    let Some(got) = got else {
        change.notes.push("is gone".to_owned());
        return Some(change);
    };
    if old.dtype != got.dtype || old.dims != got.dims {
        change.notes.push("has another dtype or shape".to_owned());
        return Some(change);
    }
    if old.summary.checksum == got.summary.checksum {
        return None;
    }
    let distance = estimate_distance(&got.summary, &old.summary);
    change.distance = Some(distance);
    change.noise = (old.noise + got.noise).max(0.0);
    change.shadow = ShadowChanged::between(old, got);
    let within = is_within(distance, old, got);
    change.verdict = match change.shadow {
        Some(shadow) if within && !shadow.moved => SnapshotVerdict::Equivalent,
        None if within => SnapshotVerdict::Unchecked,
        Some(_) | None => SnapshotVerdict::Diverged,
    };
    change.notes = list_change_notes(old, got);
    change.notes.extend(shadow_note(old, got, change.shadow, within));
    Some(change)
}

/// Whether rounding alone explains the distance.
///
/// The upper end of the interval counts: where the sketch leaves a doubt, somebody should look.
fn is_within(distance: Estimate, old: &OutputSnapshot, got: &OutputSnapshot) -> bool {
    if !old.dtype.is_float() || old.summary.unwritten != got.summary.unwritten {
        return false;
    }
    // Rounding decides a tie even in float64: no loss of precision.
    let tied =
        ShadowChanged::between(old, got).is_some_and(|shadow| !shadow.changed && shadow.tied);
    // A side with a new rounding to a narrow format has noise as large as its error. That noise must not excuse
    // it.
    let unit_roundoff = ulp(old.dtype, 1.0) / 2.0;
    let is_lost = distance.relative > ERROR_RATIO_WITHIN_NOISE * old.noise.max(unit_roundoff)
        || distance.relative > NARROW_ROUNDING && distance.relative > NOISE_FACTOR * old.noise;
    let narrowed = !tied && is_lost;
    !narrowed && distance.high <= NOISE_FACTOR * (old.noise + got.noise)
}

/// The note of the shadows on an output `within` noise or beyond it, or a note on a missing shadow.
fn shadow_note(
    old: &OutputSnapshot,
    got: &OutputSnapshot,
    shadow: Option<ShadowChanged>,
    within: bool,
) -> Option<String> {
    match shadow {
        Some(shadow) => Some(shadow.note(within)),
        None if got.shadow.is_some() => Some("the snapshot has no float64 shadow".to_owned()),
        None if old.shadow.is_some() => Some("there is no float64 shadow now".to_owned()),
        None if within => Some("without float64 shadows".to_owned()),
        None => None,
    }
}

fn list_change_notes(old: &OutputSnapshot, got: &OutputSnapshot) -> Vec<String> {
    let mut notes = Vec::new();
    let before = &old.summary;
    let now = &got.summary;
    let counts = [
        ("NaN", before.nan, now.nan),
        ("Inf", before.inf, now.inf),
        ("unwritten", before.unwritten, now.unwritten),
    ];
    for (quantity, before, now) in counts.into_iter().filter(|(_, before, now)| before != now) {
        notes.push(format!("{quantity} {before} -> {now}"));
    }
    for (before, now) in old.slices.iter().zip(&got.slices) {
        if before.dim != now.dim {
            continue;
        }
        let pairs = before.norms.iter().zip(&now.norms).enumerate();
        let zeroed: Vec<String> = pairs
            .filter(|(_, (before, now))| **before != 0.0 && **now == 0.0)
            .map(|(index, _)| index.to_string())
            .collect();
        if !zeroed.is_empty() {
            notes.push(format!("now all zero at {} {}", before.dim, zeroed.join(", ")));
        }
    }
    notes
}

fn create_output_addition(new: &OutputSnapshot) -> OutputChange {
    OutputChange {
        name: new.name.clone(),
        verdict: SnapshotVerdict::Diverged,
        before: None,
        after: Some(new.summary.checksum),
        distance: None,
        noise: new.noise,
        shadow: None,
        notes: vec!["is new".to_owned()],
    }
}
