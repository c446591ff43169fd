//! What Adam's moments show.

use super::{Finding, Kind, Spell, paths, together, unusual, wrong};
use crate::series::Series;
use crate::series::adam::Adam;

pub(super) fn found(series: &Series) -> Vec<Finding> {
    let negative = such(series, |adam| adam.negative > 0).into_iter().map(|(spell, which)| {
        wrong(Kind::AdamNegative { parameters: paths(series, &which), spell })
    });
    let unrelated = such(series, |adam| adam.unrelated > 0).into_iter().map(|(spell, which)| {
        let (elements, of) =
            at(series, which[0], &spell).map_or((0, 0), |a| (a.unrelated, a.count));
        let parameters = paths(series, &which);
        unusual(Kind::AdamUnrelated { parameters, spell, elements, of })
    });
    let damped = such(series, |adam| adam.damped * 2 > adam.count).into_iter();
    let damped = damped.map(|(spell, which)| {
        let part = at(series, which[0], &spell).map_or(0.0, |a| a.damped as f64 / a.count as f64);
        unusual(Kind::AdamDamped { parameters: paths(series, &which), spell, part })
    });
    negative.chain(unrelated).chain(damped).collect()
}

fn at<'s>(series: &'s Series, parameter: usize, spell: &Spell) -> Option<&'s Adam> {
    series.steps[spell.first].measured.adam.get(parameter)?.as_ref()
}

/// The parameters of which `is` holds at some step, with the steps.
fn such(series: &Series, is: impl Fn(&Adam) -> bool) -> Vec<(Spell, Vec<usize>)> {
    together(series, |parameter| {
        Spell::of(&series.steps, |step| Some(is(step.measured.adam.get(parameter)?.as_ref()?)))
    })
}
