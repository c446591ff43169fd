//! Where the loss goes, and how gradients are clipped.

use super::{Finding, Gradients, Kind, Spell, unusual};
use crate::judge::GradientVerdict;
use crate::numerics::constants::{LEAST_LOSS_STEPS, OFTEN_CLIPPED};
use crate::series::Series;
use crate::series::robust::{median, noise};

pub(super) fn found(series: &Series) -> Vec<Finding> {
    [rises(series), clipped(series)].into_iter().flatten().collect()
}

/// Whether the last quarter of the losses lies above the first by more than noise, and by one percent; in
/// logarithms where all are positive.
fn rises(series: &Series) -> Option<Finding> {
    let known: Vec<f64> =
        series.losses().into_iter().flatten().filter(|loss| loss.is_finite()).collect();
    if known.len() < LEAST_LOSS_STEPS {
        return None;
    }
    let quarter = known.len() / 4;
    let from = median(known[..quarter].iter().copied())?;
    let to = median(known[known.len() - quarter..].iter().copied())?;
    let (rise, noise) = match known.iter().all(|loss| *loss > 0.0) {
        true => {
            let logarithms: Vec<f64> = known.iter().map(|loss| loss.ln()).collect();
            ((to / from).ln(), noise(&logarithms)?)
        }
        false => ((to - from) / from.abs(), noise(&known)? / from.abs()),
    };
    (rise > 3.0 * noise && rise > 0.01).then(|| unusual(Kind::LossRises { from, to, noise }))
}

fn clipped(series: &Series) -> Option<Finding> {
    let all = series.clipping();
    let spell = Spell::of(&all, |clipping| Some(clipping.as_ref()?.factor < 1.0))?;
    if (spell.steps as f64) < OFTEN_CLIPPED * spell.of as f64 {
        return None;
    }
    let such = || all.iter().flatten().filter(|clipping| clipping.factor < 1.0);
    let removed = || such().map(|clipping| 1.0 - clipping.factor);
    Some(unusual(Kind::Clipped {
        spell,
        norm: median(such().map(|clipping| clipping.norm))?,
        removed: median(removed())?,
        most: removed().fold(0.0, f64::max),
        gradients: gradients(series),
    }))
}

/// Whether gradients are those of the loss, as far as replays say.
fn gradients(series: &Series) -> Gradients {
    let replays = series.steps.iter().filter_map(|step| step.replay.as_ref());
    let verdicts = replays.flat_map(|replay| &replay.gradients).map(|check| check.verdict);
    let known: Vec<GradientVerdict> =
        verdicts.filter(|verdict| *verdict != GradientVerdict::Unknown).collect();
    match known.iter().max() {
        None => Gradients::Unchecked,
        Some(GradientVerdict::Matches) => Gradients::Match,
        Some(_) => Gradients::Mismatch,
    }
}
