//! Findings on values: NaN and infinity, zero gradients, unmoved parameters, misaligned data, missing steps.

use super::{
    Misalignment, SeriesFinding, Spell, find_gradient_numbers, group_by_spell, list_parameter_paths,
};
use crate::Series;
use crate::numbers::SeriesStep;
use replay_base::summary::Checksum;
use replay_numerics::constants::{LARGE_UPDATE, LASTING_STEPS, SMALL_UPDATE};

pub(super) fn list_value_findings(series: &Series) -> Vec<SeriesFinding> {
    let mut findings = Vec::new();
    findings.extend(not_finite(series));
    findings.extend(find_misalignment(series));
    findings.extend(no_gradient(series));
    findings.extend(find_frozen_parameters(series));
    findings.extend(find_extreme_updates(series));
    let numbering = series.numbering.clone();
    if !numbering.missing.is_empty() {
        findings.push(SeriesFinding::Missing { numbers: numbering.missing });
    }
    if !numbering.repeated.is_empty() {
        findings.push(SeriesFinding::Repeated { numbers: numbering.repeated });
    }
    if !numbering.without.is_empty() {
        findings.push(SeriesFinding::WithoutNumber { fixtures: numbering.without });
    }
    findings
}

/// The tensors with a NaN or an infinity at one step. The loss has its role for a name.
fn list_nonfinite_tensors<'s>(series: &'s Series, step: &SeriesStep) -> Vec<&'s str> {
    let mut names = Vec::new();
    for (tensor, numbers) in series.catalogue.tensors.iter().zip(&step.measured.tensors) {
        if numbers.as_ref().is_some_and(|numbers| numbers.nan + numbers.inf > 0) {
            names.push(tensor.name.as_str());
        }
    }
    let scalars = step.measured.scalars;
    for (name, value) in [("loss", scalars.loss), ("grad_norm", scalars.grad_norm)] {
        if value.is_some_and(|x| !x.is_finite()) {
            names.push(name);
        }
    }
    names
}

fn not_finite(series: &Series) -> Option<SeriesFinding> {
    let bad_tensors: Vec<Vec<&str>> =
        series.steps.iter().map(|step| list_nonfinite_tensors(series, step)).collect();
    let spell = Spell::find(&bad_tensors, |names| Some(!names.is_empty()))?;
    let tensors = bad_tensors[spell.first].iter().map(|&name| name.to_owned()).collect();
    let affected: std::collections::BTreeSet<&str> = bad_tensors.concat().into_iter().collect();
    Some(SeriesFinding::NotFinite { spell, tensors, affected: affected.len() })
}

fn find_misalignment(series: &Series) -> Option<SeriesFinding> {
    let spell = Spell::find(&series.steps, |step| {
        let step_alignment = step.measured.alignment.as_ref()?;
        Some(step_alignment.shift != Some(1) || step_alignment.differ > 0)
    })?;
    let first = series.steps[spell.first].measured.alignment.clone()?;
    let shift = first.shift;
    let differ = first.differ;
    let of = first.of;
    let place = first.first;
    Some(SeriesFinding::Misaligned {
        misalignment: Misalignment { spell, shift, differ, of, place },
    })
}

/// Parameters whose gradient is zero in all elements: always, or from some step on to the end.
fn no_gradient(series: &Series) -> Vec<SeriesFinding> {
    group_by_spell(series, |parameter| find_zero_gradient_spell(series, parameter))
        .into_iter()
        .map(|(spell, affected)| SeriesFinding::NoGradient {
            parameters: list_parameter_paths(series, &affected),
            spell,
        })
        .collect()
}

/// The steps where the gradient of `parameter` is zero in all elements: all steps, or several up to the last.
fn find_zero_gradient_spell(series: &Series, parameter: usize) -> Option<Spell> {
    let steps = &series.steps;
    let spell = Spell::find(steps, |step| {
        let numbers = find_gradient_numbers(series, parameter, step)?;
        Some(numbers.count > 0 && numbers.zeros == numbers.count)
    })?;
    let lasts = spell.last + 1 == steps.len() && spell.steps == spell.last - spell.first + 1;
    (spell.is_always() || (lasts && spell.steps >= LASTING_STEPS)).then_some(spell)
}

/// Parameters with the same bits from step to step, or in each step, despite gradients and a learning rate.
fn find_frozen_parameters(series: &Series) -> Vec<SeriesFinding> {
    group_by_spell(series, |parameter| find_frozen_spell(series, parameter))
        .into_iter()
        .map(|(spell, affected)| SeriesFinding::Frozen {
            parameters: list_parameter_paths(series, &affected),
            spell,
        })
        .collect()
}

/// The steps where `parameter` keeps its bits, if these are all steps.
fn find_frozen_spell(series: &Series, parameter: usize) -> Option<Spell> {
    let tensors = &series.catalogue.parameters[parameter];
    let place = series.catalogue.place(tensors.weight.as_ref()?)?;
    if !tensors.is_trained() {
        return None;
    }
    let steps = &series.steps;
    let indices: Vec<usize> = (0..steps.len()).collect();
    let spell = Spell::find(&indices, |&index| {
        if !has_reason_to_move(series, parameter, &steps[index])? {
            return Some(false);
        }
        match steps[index].measured.updates.get(parameter).copied().flatten() {
            Some(update) => Some(update.norm == 0.0),
            None => {
                let next_checksum = find_tensor_checksum(steps.get(index + 1)?, place)?;
                Some(find_tensor_checksum(&steps[index], place)? == next_checksum)
            }
        }
    })?;
    (spell.is_always() && spell.steps >= LASTING_STEPS).then_some(spell)
}

/// Whether `parameter` has a gradient and a learning rate other than zero; none without a gradient's numbers.
fn has_reason_to_move(series: &Series, parameter: usize, step: &SeriesStep) -> Option<bool> {
    let gradient = find_gradient_numbers(series, parameter, step)?;
    let rate = step.measured.scalars.lr.unwrap_or(1.0);
    Some(gradient.norm > 0.0 && rate != 0.0)
}

/// The checksum of the tensor at `place` of the catalogue.
fn find_tensor_checksum(step: &SeriesStep, place: usize) -> Option<Checksum> {
    Some(step.measured.tensors.get(place)?.as_ref()?.checksum)
}

/// Parameters moved by a step by more than a tenth of themselves, or by less than a millionth.
fn find_extreme_updates(series: &Series) -> Vec<SeriesFinding> {
    let medians: Vec<(usize, f64)> = (0..series.catalogue.parameters.len())
        .filter_map(|parameter| {
            let ratios = series.update_ratios(parameter);
            let middle = crate::finite_median(ratios.into_iter().flatten())?;
            Some((parameter, middle))
        })
        .collect();
    let mut findings = Vec::new();
    for large in [true, false] {
        let mut extreme_ratios = medians.clone();
        let first = if large {
            extreme_ratios.retain(|(_, ratio)| *ratio > LARGE_UPDATE);
            extreme_ratios.iter().max_by(|a, b| a.1.total_cmp(&b.1))
        } else {
            extreme_ratios.retain(|(_, ratio)| *ratio > 0.0 && *ratio < SMALL_UPDATE);
            extreme_ratios.iter().min_by(|a, b| a.1.total_cmp(&b.1))
        };
        let Some(&(first, ratio)) = first else { continue };
        let other_parameters = extreme_ratios
            .iter()
            .map(|candidate| candidate.0)
            .filter(|parameter| *parameter != first);
        let all_parameters: Vec<usize> = std::iter::once(first).chain(other_parameters).collect();
        let of = series.update_ratios(first).into_iter().flatten().count();
        let parameters = list_parameter_paths(series, &all_parameters);
        findings.push(SeriesFinding::Updates { parameters, ratio, large, of });
    }
    findings
}
