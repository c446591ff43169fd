//! Findings on Adam's moments.

use super::{SeriesFinding, Spell, group_by_spell, list_parameter_paths};
use crate::Series;
use crate::adam::Adam;

pub(super) fn list_adam_findings(series: &Series) -> Vec<SeriesFinding> {
    let negative =
        find_adam_spells(series, |adam| adam.negative > 0).into_iter().map(|(spell, affected)| {
            SeriesFinding::AdamNegative {
                parameters: list_parameter_paths(series, &affected),
                spell,
            }
        });
    let unrelated =
        find_adam_spells(series, |adam| adam.unrelated > 0).into_iter().map(|(spell, affected)| {
            let (elements, of) = look_up_adam(series, affected[0], &spell)
                .map_or((0, 0), |a| (a.unrelated, a.count));
            let parameters = list_parameter_paths(series, &affected);
            SeriesFinding::AdamUnrelated { parameters, spell, elements, of }
        });
    let damped = find_adam_spells(series, |adam| adam.damped * 2 > adam.count).into_iter();
    let damped = damped.map(|(spell, affected)| {
        let part = look_up_adam(series, affected[0], &spell)
            .map_or(0.0, |a| a.damped as f64 / a.count as f64);
        SeriesFinding::AdamDamped {
            parameters: list_parameter_paths(series, &affected),
            spell,
            part,
        }
    });
    negative.chain(unrelated).chain(damped).collect()
}

fn look_up_adam<'s>(series: &'s Series, parameter: usize, spell: &Spell) -> Option<&'s Adam> {
    series.steps[spell.first].measured.adam.get(parameter)?.as_ref()
}

/// The parameters affected at some step, with the steps. `is_affected` decides.
fn find_adam_spells(
    series: &Series,
    is_affected: impl Fn(&Adam) -> bool,
) -> Vec<(Spell, Vec<usize>)> {
    group_by_spell(series, |parameter| {
        Spell::find(&series.steps, |step| {
            Some(is_affected(step.measured.adam.get(parameter)?.as_ref()?))
        })
    })
}
