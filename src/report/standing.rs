//! How one replay stands, all things considered: what reports for servers are ordered by.

use super::Entry;
use super::judgement::{at, verdict_line};
use super::text::failure;
use crate::judge::{GradientVerdict, Verdict};
use crate::replay::Status;
use crate::snapshot::SnapshotVerdict;

/// The worst that is known of one replay; ordered from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Nothing is wrong and nothing changed.
    Unchanged,
    /// Other bits, within noise.
    Equivalent,
    /// There is nothing to compare with yet.
    New,
    /// It could not be run.
    Untestable,
    /// The fixture is another one than that of the snapshot.
    Stale,
    /// Beyond noise, or a gradient that is not that of its loss.
    Diverged,
    /// It was run and something is wrong that needs no comparison.
    Failed,
}

impl Standing {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Standing::Unchanged => "unchanged",
            Standing::Equivalent => "equivalent",
            Standing::New => "new",
            Standing::Untestable => "untestable",
            Standing::Stale => "stale",
            Standing::Diverged => "diverged",
            Standing::Failed => "failed",
        }
    }

    /// How `entry` stands.
    pub fn of(entry: &Entry) -> Standing {
        let own = match &entry.outcome.status {
            Status::Completed => Standing::Unchanged,
            Status::Failed(_) => Standing::Failed,
            Status::Untestable { .. } => Standing::Untestable,
        };
        let judged = entry.judgement.as_ref().map(|judged| match judged.verdict {
            Verdict::Identical => Standing::Unchanged,
            Verdict::Equivalent => Standing::Equivalent,
            Verdict::Untestable => Standing::Untestable,
            Verdict::Diverged => Standing::Diverged,
            Verdict::Failed => Standing::Failed,
        });
        let compared = entry.snapshot.as_ref().map(|check| match check.comparison.verdict {
            SnapshotVerdict::Matches => Standing::Unchanged,
            SnapshotVerdict::Equivalent => Standing::Equivalent,
            SnapshotVerdict::New => Standing::New,
            SnapshotVerdict::Stale => Standing::Stale,
            SnapshotVerdict::Diverged => Standing::Diverged,
        });
        let gradients = entry.gradients.iter().map(|check| match check.verdict {
            GradientVerdict::Matches | GradientVerdict::Unknown => Standing::Unchanged,
            GradientVerdict::Imprecise | GradientVerdict::Mismatch => Standing::Diverged,
        });
        let ordered = (!entry.orders.is_empty()).then_some(Standing::Diverged);
        let all = [own].into_iter().chain(judged).chain(compared).chain(gradients).chain(ordered);
        all.max().unwrap_or(own)
    }
}

/// Why `entry` stands as it does, a sentence each, without colours.
pub fn reasons(entry: &Entry) -> Vec<String> {
    let mut reasons = Vec::new();
    match &entry.outcome.status {
        Status::Completed => {}
        Status::Failed(failures) => reasons.extend(failures.iter().map(failure)),
        Status::Untestable { reason, causes, .. } => {
            reasons.push(reason.clone());
            reasons.extend(causes.iter().cloned());
        }
    }
    for check in &entry.gradients {
        if check.verdict >= GradientVerdict::Imprecise {
            reasons.push(format!("{} {}", check.output, plain(&super::gradient(check))));
        }
    }
    for found in &entry.orders {
        let [what, place] = super::order_lines(found);
        reasons.push(format!("{} {}: {place}", found.output, plain(&what)));
    }
    if let Some(judged) = &entry.judgement
        && judged.verdict != Verdict::Identical
    {
        reasons.push(plain(&verdict_line(judged)));
        let places = judged.outputs.iter().filter_map(|output| {
            output.place.as_ref().map(|place| format!("{} {}", output.name, at(place)))
        });
        reasons.extend(places);
    }
    if let Some(culprit) = &entry.culprit {
        reasons.push(culprit.text.clone());
    }
    if let Some(check) = &entry.snapshot
        && check.comparison.verdict != SnapshotVerdict::Matches
    {
        reasons.push(format!("snapshot {}", check.comparison.sentence()));
    }
    reasons
}

/// What the entry is called where several stand side by side.
pub fn title(entry: &Entry) -> String {
    let revision = entry.revision.as_ref().map_or("working tree", |revision| &revision.short);
    format!("{} at {revision} on {}", entry.fixture, entry.outcome.device)
}

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}
