//! Where the loss goes, and how gradients are clipped.

use super::{FrequentClipping, Gradients, SeriesFinding, Spell};
use crate::robust::{estimate_series_noise, finite_median};
use crate::{Clipping, Series};
use replay_engine::judge::GradientVerdict;
use replay_numerics::constants::{LEAST_LOSS_STEPS, OFTEN_CLIPPED};

pub(super) fn list_loss_findings(series: &Series) -> Vec<SeriesFinding> {
    [find_rising_loss(series), find_frequent_clipping(series)].into_iter().flatten().collect()
}

/// Whether the last quarter of the losses lies above the first by more than noise, and by one percent; in
/// logarithms where all are positive.
fn find_rising_loss(series: &Series) -> Option<SeriesFinding> {
    let finite_losses: Vec<f64> =
        series.losses().into_iter().flatten().filter(|loss| loss.is_finite()).collect();
    if finite_losses.len() < LEAST_LOSS_STEPS {
        return None;
    }
    let quarter = finite_losses.len() / 4;
    let from = finite_median(finite_losses[..quarter].iter().copied())?;
    let to = finite_median(finite_losses[finite_losses.len() - quarter..].iter().copied())?;
    let (rise, noise) = if finite_losses.iter().all(|loss| *loss > 0.0) {
        let logarithms: Vec<f64> = finite_losses.iter().map(|loss| loss.ln()).collect();
        ((to / from).ln(), estimate_series_noise(&logarithms)?)
    } else {
        ((to - from) / from.abs(), estimate_series_noise(&finite_losses)? / from.abs())
    };
    (rise > 3.0 * noise && rise > 0.01).then_some(SeriesFinding::LossRises { from, to, noise })
}

fn find_frequent_clipping(series: &Series) -> Option<SeriesFinding> {
    let clippings = series.clipping();
    let spell = Spell::find(&clippings, |clipping| Some(clipping.as_ref()?.factor < 1.0))?;
    if (spell.steps as f64) < OFTEN_CLIPPED * spell.of as f64 {
        return None;
    }
    let active: Vec<&Clipping> =
        clippings.iter().flatten().filter(|clipping| clipping.factor < 1.0).collect();
    let removed_parts: Vec<f64> = active.iter().map(|clipping| 1.0 - clipping.factor).collect();
    Some(SeriesFinding::Clipped {
        clipping: FrequentClipping {
            spell,
            norm: finite_median(active.iter().map(|clipping| clipping.norm))?,
            removed: finite_median(removed_parts.iter().copied())?,
            most: removed_parts.iter().copied().fold(0.0, f64::max),
            gradients: rate_loss_gradients(series),
        },
    })
}

/// Whether gradients are those of the loss, as far as replays say.
fn rate_loss_gradients(series: &Series) -> Gradients {
    let replays = series.steps.iter().filter_map(|step| step.replay.as_ref());
    let verdicts = replays.flat_map(|replay| &replay.gradients).map(|check| check.verdict);
    let known_verdicts: Vec<GradientVerdict> =
        verdicts.filter(|verdict| *verdict != GradientVerdict::Unknown).collect();
    match known_verdicts.iter().max() {
        None => Gradients::Unchecked,
        Some(GradientVerdict::Matches) => Gradients::Match,
        Some(_) => Gradients::Mismatch,
    }
}
