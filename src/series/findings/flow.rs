//! The flow of gradients over depth: whether they vanish or explode on their way back.

use std::collections::BTreeMap;

use super::{Finding, Kind, gradient_of, unusual};
use crate::numerics::constants::{FLOW_FACTOR, LEAST_LAYERS};
use crate::series::Series;
use crate::series::path::layer;
use crate::series::robust::{median, slope};

pub(super) fn found(series: &Series) -> Vec<Finding> {
    let mut groups: Vec<(String, BTreeMap<u64, Vec<usize>>)> = Vec::new();
    for (at, parameter) in series.roster.parameters.iter().enumerate() {
        let Some((group, depth)) = layer(&parameter.path) else { continue };
        if parameter.gradient.is_none() {
            continue;
        }
        let known = groups.iter().position(|(known, _)| *known == group);
        let place = known.unwrap_or_else(|| {
            groups.push((group, BTreeMap::new()));
            groups.len() - 1
        });
        groups[place].1.entry(depth).or_default().push(at);
    }
    groups.into_iter().filter_map(|(group, layers)| flow(series, group, &layers)).collect()
}

fn flow(series: &Series, group: String, layers: &BTreeMap<u64, Vec<usize>>) -> Option<Finding> {
    let points: Vec<(f64, f64)> = layers
        .iter()
        .filter_map(|(&depth, parameters)| Some((depth as f64, typical(series, parameters)?)))
        .collect();
    if points.len() < LEAST_LAYERS {
        return None;
    }
    let (first, last) = (points.first()?.1, points.last()?.1);
    if (first - last).abs() < FLOW_FACTOR.ln() {
        return None;
    }
    let factor = (-slope(&points)?).exp();
    let layers = points.len();
    let (first, last) = (first.exp(), last.exp());
    Some(unusual(Kind::Flow { group, layers, first, last, factor }))
}

/// The logarithm of the root mean square of the gradients of one layer: the median over the steps at which
/// they are not zero.
fn typical(series: &Series, parameters: &[usize]) -> Option<f64> {
    let at = |step| {
        let (mut squares, mut count) = (0.0, 0);
        for &parameter in parameters {
            let numbers = gradient_of(series, parameter, step)?;
            squares += numbers.norm * numbers.norm;
            count += numbers.count;
        }
        (squares > 0.0 && squares.is_finite()).then(|| 0.5 * (squares / count as f64).ln())
    };
    median(series.steps.iter().filter_map(at))
}
