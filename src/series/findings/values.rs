//! Values that are not finite, gradients that are zero, parameters that do not move, data that is not
//! aligned, steps that are not there.

use super::{Finding, Kind, Spell, gradient_of, note, paths, together, unusual, wrong};
use crate::numerics::constants::{LARGE_UPDATE, LASTING_STEPS, SMALL_UPDATE};
use crate::series::Series;
use crate::series::numbers::Step;

pub(super) fn found(series: &Series) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(not_finite(series));
    found.extend(misaligned(series));
    found.extend(no_gradient(series));
    found.extend(frozen(series));
    found.extend(updates(series));
    let numbering = series.numbering.clone();
    if !numbering.missing.is_empty() {
        found.push(note(Kind::Missing { numbers: numbering.missing }));
    }
    if !numbering.repeated.is_empty() {
        found.push(note(Kind::Repeated { numbers: numbering.repeated }));
    }
    if !numbering.without.is_empty() {
        found.push(note(Kind::WithoutNumber { fixtures: numbering.without }));
    }
    found
}

/// The tensors that hold a NaN or an infinity at one step; the loss has its role for a name.
fn bad<'s>(series: &'s Series, step: &Step) -> Vec<&'s str> {
    let tensors = series.roster.tensors.iter().zip(&step.measured.tensors);
    let is_bad = |numbers: &super::super::Numbers| numbers.nan + numbers.inf > 0;
    let tensors = tensors.filter(|(_, numbers)| numbers.as_ref().is_some_and(is_bad));
    let scalars = step.measured.scalars;
    let named = [("loss", scalars.loss), ("grad_norm", scalars.grad_norm)];
    let scalars = named.into_iter().filter(|(_, value)| value.is_some_and(|x| !x.is_finite()));
    let names = tensors.map(|(tensor, _)| tensor.name.as_str());
    names.chain(scalars.map(|(name, _)| name)).collect()
}

fn not_finite(series: &Series) -> Option<Finding> {
    let all: Vec<Vec<&str>> = series.steps.iter().map(|step| bad(series, step)).collect();
    let spell = Spell::of(&all, |names| Some(!names.is_empty()))?;
    let tensors = all[spell.first].iter().map(|&name| name.to_owned()).collect();
    let affected: std::collections::BTreeSet<&str> = all.concat().into_iter().collect();
    Some(wrong(Kind::NotFinite { spell, tensors, affected: affected.len() }))
}

fn misaligned(series: &Series) -> Option<Finding> {
    let alignment = |step: &Step| step.measured.alignment.clone();
    let spell = Spell::of(&series.steps, |step| {
        let found = alignment(step)?;
        Some(found.shift != Some(1) || found.differ > 0)
    })?;
    let first = alignment(&series.steps[spell.first])?;
    let (shift, differ, of, place) = (first.shift, first.differ, first.of, first.first);
    Some(unusual(Kind::Misaligned { spell, shift, differ, of, place }))
}

/// Parameters whose gradient is zero in all elements: always, or from some step on to the end.
fn no_gradient(series: &Series) -> Vec<Finding> {
    let steps = &series.steps;
    let spell = |parameter: usize| {
        let spell = Spell::of(steps, |step| {
            let numbers = gradient_of(series, parameter, step)?;
            Some(numbers.count > 0 && numbers.zeros == numbers.count)
        })?;
        let lasts = spell.last + 1 == steps.len() && spell.steps == spell.last - spell.first + 1;
        (spell.is_always() || (lasts && spell.steps >= LASTING_STEPS)).then_some(spell)
    };
    let found = together(series, spell).into_iter();
    found
        .map(|(spell, which)| {
            unusual(Kind::NoGradient { parameters: paths(series, &which), spell })
        })
        .collect()
}

/// Parameters that keep their bits from step to step, or in each step, although they have gradients and a
/// learning rate.
fn frozen(series: &Series) -> Vec<Finding> {
    let steps = &series.steps;
    let spell = |parameter: usize| {
        let place = series.roster.place(series.roster.parameters[parameter].weight.as_ref()?)?;
        if !series.roster.parameters[parameter].is_trained() {
            return None;
        }
        let moves = |step: &Step| {
            let gradient = gradient_of(series, parameter, step)?;
            let rate = step.measured.scalars.lr.unwrap_or(1.0);
            Some(gradient.norm > 0.0 && rate != 0.0)
        };
        let checksum = |at: usize| Some(steps[at].measured.tensors.get(place)?.as_ref()?.checksum);
        let places: Vec<usize> = (0..steps.len()).collect();
        let spell = Spell::of(&places, |&at| {
            if !moves(&steps[at])? {
                return Some(false);
            }
            match steps[at].measured.updates.get(parameter).copied().flatten() {
                Some(update) => Some(update.norm == 0.0),
                None if at + 1 < steps.len() => Some(checksum(at)? == checksum(at + 1)?),
                None => None,
            }
        })?;
        (spell.is_always() && spell.steps >= LASTING_STEPS).then_some(spell)
    };
    let found = together(series, spell).into_iter();
    found
        .map(|(spell, which)| unusual(Kind::Frozen { parameters: paths(series, &which), spell }))
        .collect()
}

/// Parameters that a step moves by more than a tenth of themselves, or by less than a millionth.
fn updates(series: &Series) -> Vec<Finding> {
    let medians: Vec<(usize, f64)> = (0..series.roster.parameters.len())
        .filter_map(|at| {
            let ratios = series.update_ratios(at);
            let middle = crate::series::median(ratios.into_iter().flatten())?;
            Some((at, middle))
        })
        .collect();
    let mut found = Vec::new();
    for large in [true, false] {
        let is = |ratio: f64| {
            if large { ratio > LARGE_UPDATE } else { ratio > 0.0 && ratio < SMALL_UPDATE }
        };
        let which: Vec<(usize, f64)> = medians.iter().copied().filter(|one| is(one.1)).collect();
        let extreme = |a: &&(usize, f64), b: &&(usize, f64)| a.1.total_cmp(&b.1);
        let first = if large { which.iter().max_by(extreme) } else { which.iter().min_by(extreme) };
        let Some(&(first, ratio)) = first else { continue };
        let others = which.iter().map(|one| one.0).filter(|at| *at != first);
        let all: Vec<usize> = std::iter::once(first).chain(others).collect();
        let of = series.update_ratios(first).into_iter().flatten().count();
        let parameters = paths(series, &all);
        found.push(unusual(Kind::Updates { parameters, ratio, large, of }));
    }
    found
}
