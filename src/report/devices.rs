//! One revision on several devices: whether what is wrong is in the source or in a device.

use std::fmt::Write;

use super::Entry;
use super::numbers::short;
use crate::judge::{GradientVerdict, Verdict};
use crate::replay::Status;
use crate::summary::estimate;

/// Compares the entries of one fixture and revision, a device each; the first is the reference.
pub fn devices(entries: &[Entry]) -> String {
    let [reference, others @ ..] = entries else { return String::new() };
    let mut text = String::from("devices\n");
    for other in others {
        for output in &other.outcome.outputs {
            let mut known = reference.outcome.outputs.iter();
            let Some(expected) = known.find(|known| known.name == output.name) else { continue };
            let distance = estimate(&output.summary, &expected.summary).relative;
            let distance = match distance {
                0.0 => "the same bits".to_owned(),
                _ if distance.is_infinite() => "not comparable".to_owned(),
                _ => format!("rel. {} apart (estimated)", short(distance, 2)),
            };
            let (one, two) = (&reference.outcome.device, &other.outcome.device);
            let _ = writeln!(text, "  {}  {one} and {two}: {distance}", output.name);
        }
    }
    let _ = writeln!(text, "\n{}", conclusion(entries));
    text
}

fn conclusion(entries: &[Entry]) -> String {
    let named = |wanted: bool| -> Vec<&str> {
        let found = entries.iter().filter(|entry| is_wrong(entry) == wanted);
        found.map(|entry| entry.outcome.device.as_str()).collect()
    };
    match (named(true).as_slice(), named(false).as_slice()) {
        ([], right) => format!("nothing wrong on {}", right.join(" and ")),
        (wrong, []) => format!("wrong on {}: it is in the source", wrong.join(" and ")),
        (wrong, right) => format!(
            "wrong on {}, not on {}: it is in the device, its compiler, or a race",
            wrong.join(" and "),
            right.join(" and ")
        ),
    }
}

fn is_wrong(entry: &Entry) -> bool {
    let judged = entry.judgement.as_ref().map(|judgement| judgement.verdict);
    !matches!(entry.outcome.status, Status::Completed)
        || judged.is_some_and(|verdict| verdict >= Verdict::Diverged)
        || !entry.orders.is_empty()
        || entry.gradients.iter().any(|check| check.verdict >= GradientVerdict::Imprecise)
}
