//! The flow of gradients over depth: whether they vanish or explode on their way back.

use std::collections::BTreeMap;

use super::{SeriesFinding, find_gradient_numbers};
use crate::Series;
use crate::numbers::SeriesStep;
use crate::path::parse_layer;
use crate::robust::{finite_median, theil_sen_slope};
use replay_numerics::constants::{FLOW_FACTOR, LEAST_LAYERS};

pub(super) fn list_flow_findings(series: &Series) -> Vec<SeriesFinding> {
    let mut groups: Vec<(String, BTreeMap<u64, Vec<usize>>)> = Vec::new();
    for (index, parameter) in series.catalogue.parameters.iter().enumerate() {
        let Some((group, depth)) = parse_layer(&parameter.path) else { continue };
        if parameter.gradient.is_none() {
            continue;
        }
        let known_place = groups.iter().position(|(known_group, _)| *known_group == group);
        let place = known_place.unwrap_or_else(|| {
            groups.push((group, BTreeMap::new()));
            groups.len() - 1
        });
        groups[place].1.entry(depth).or_default().push(index);
    }
    groups
        .into_iter()
        .filter_map(|(group, layers)| find_gradient_flow(series, group, &layers))
        .collect()
}

fn find_gradient_flow(
    series: &Series,
    group: String,
    layers: &BTreeMap<u64, Vec<usize>>,
) -> Option<SeriesFinding> {
    let points: Vec<(f64, f64)> = layers
        .iter()
        .filter_map(|(&depth, parameters)| {
            Some((depth as f64, measure_layer_gradient(series, parameters)?))
        })
        .collect();
    if points.len() < LEAST_LAYERS {
        return None;
    }
    let first = points.first()?.1;
    let last = points.last()?.1;
    if (first - last).abs() < FLOW_FACTOR.ln() {
        return None;
    }
    let factor = (-theil_sen_slope(&points)?).exp();
    let layers = points.len();
    let first = first.exp();
    let last = last.exp();
    Some(SeriesFinding::Flow { group, layers, first, last, factor })
}

/// The logarithm of the root mean square of the gradients of one layer: the median over the steps with gradients other
/// than zero.
fn measure_layer_gradient(series: &Series, parameters: &[usize]) -> Option<f64> {
    let log_gradients =
        series.steps.iter().filter_map(|step| measure_step_gradient(series, parameters, step));
    finite_median(log_gradients)
}

/// The logarithm of the root mean square of the gradients of one layer at one step; none if it is not finite.
fn measure_step_gradient(series: &Series, parameters: &[usize], step: &SeriesStep) -> Option<f64> {
    let mut squares = 0.0;
    let mut count = 0;
    for &parameter in parameters {
        let numbers = find_gradient_numbers(series, parameter, step)?;
        squares += numbers.norm * numbers.norm;
        count += numbers.count;
    }
    (squares > 0.0 && squares.is_finite()).then(|| 0.5 * (squares / count as f64).ln())
}
