//! Spikes of the loss and of gradients: values far above those before them.

use super::{SeriesFinding, SeriesSpike, Spell};
use crate::Series;
use crate::robust::{estimate_series_noise, finite_median, robust_deviation, theil_sen_slope};
use replay_numerics::constants::{
    LEAST_SPIKE_STEPS, RECENT_STEPS, SPIKE_DEVIATIONS, SPIKE_FACTOR, SPIKE_WINDOW,
};

/// One spike.
struct Spike {
    place: usize,
    value: f64,
    expected: f64,
    deviations: f64,
}

pub(super) fn list_spike_findings(series: &Series) -> Vec<SeriesFinding> {
    let quantities = [("loss", series.losses()), ("gradients", series.gradient_norms(""))];
    let mut findings = Vec::new();
    let mut known_places = Vec::new();
    for (name, values) in quantities {
        let spikes = find_spikes(&values);
        known_places.extend(spikes.iter().map(|spike| spike.place));
        findings.extend(build_spike_finding(name, &spikes, &values, 0));
    }
    // Those of single parameters count where the whole does not show them.
    let gradients = series.catalogue.gradients();
    if gradients.len() < 2 {
        return findings;
    }
    let mut single: Vec<(String, Vec<Spike>, Vec<Option<f64>>)> = Vec::new();
    for (parameter, _) in gradients {
        let values = series.gradient_norms(&parameter.path);
        let mut spikes = find_spikes(&values);
        spikes.retain(|spike| !known_places.contains(&spike.place));
        if !spikes.is_empty() {
            single.push((parameter.path.clone(), spikes, values));
        }
    }
    let other_count = single.len().saturating_sub(1);
    let highest = single
        .iter()
        .max_by(|a, b| measure_spike_height(&a.1).total_cmp(&measure_spike_height(&b.1)));
    findings.extend(
        highest.and_then(|(path, spikes, values)| {
            build_spike_finding(path, spikes, values, other_count)
        }),
    );
    findings
}

/// The deviations of the worst of `spikes`.
fn measure_spike_height(spikes: &[Spike]) -> f64 {
    find_worst_spike(spikes).map_or(0.0, |spike| spike.deviations)
}

fn find_worst_spike(spikes: &[Spike]) -> Option<&Spike> {
    spikes.iter().max_by(|a, b| a.deviations.total_cmp(&b.deviations))
}

fn build_spike_finding(
    name: &str,
    spikes: &[Spike],
    values: &[Option<f64>],
    others: usize,
) -> Option<SeriesFinding> {
    let worst = find_worst_spike(spikes)?;
    let of = values.iter().flatten().count();
    let spell =
        Spell { steps: spikes.len(), of, first: spikes[0].place, last: spikes.last()?.place };
    Some(SeriesFinding::Spike {
        spike: SeriesSpike {
            quantity: name.to_owned(),
            spell,
            worst: worst.place,
            value: worst.value,
            expected: worst.expected,
            deviations: worst.deviations,
            others,
        },
    })
}

/// The spikes among `values`, in logarithms where all are positive: norms and losses scatter by factors.
fn find_spikes(values: &[Option<f64>]) -> Vec<Spike> {
    let is_positive = values.iter().flatten().filter(|x| x.is_finite()).all(|x| *x > 0.0);
    let finite_values: Vec<(usize, f64)> = values
        .iter()
        .enumerate()
        .filter_map(|(place, value)| Some((place, value.filter(|x| x.is_finite())?)))
        .collect();
    let scaled: Vec<f64> =
        finite_values.iter().map(|(_, x)| if is_positive { x.ln() } else { *x }).collect();
    let Some(usual) = estimate_series_noise(&scaled) else { return Vec::new() };
    let mut spikes = Vec::new();
    for at in LEAST_SPIKE_STEPS..finite_values.len() {
        let Some((expected, scatter)) =
            predict_next_value(&scaled[at.saturating_sub(SPIKE_WINDOW)..at])
        else {
            continue;
        };
        // The noise of the whole series guards against a window quiet by chance.
        let least_scale = if is_positive { 0.02 } else { 0.02 * expected.abs() };
        let scale = scatter.max(usual).max(least_scale).max(f64::MIN_POSITIVE);
        let height = scaled[at] - expected;
        let is_large = if is_positive {
            height > SPIKE_FACTOR.ln()
        } else {
            height > (SPIKE_FACTOR - 1.0) * expected.abs()
        };
        if height > SPIKE_DEVIATIONS * scale && is_large {
            let (place, value) = finite_values[at];
            let expected = if is_positive { expected.exp() } else { expected };
            spikes.push(Spike { place, value, expected, deviations: height / scale });
        }
    }
    spikes
}

/// Predicts the value after `earlier_values`, and returns their scatter around their trend too. The trend is the line
/// with the median slope of all pairs, or the median of the last values if it is higher.
fn predict_next_value(earlier_values: &[f64]) -> Option<(f64, f64)> {
    let points: Vec<(f64, f64)> =
        earlier_values.iter().enumerate().map(|(x, &y)| (x as f64, y)).collect();
    let slope = theil_sen_slope(&points)?;
    let residuals: Vec<f64> = points.iter().map(|(x, y)| y - slope * x).collect();
    let line = finite_median(residuals.iter().copied())? + slope * earlier_values.len() as f64;
    let recent = finite_median(
        earlier_values[earlier_values.len().saturating_sub(RECENT_STEPS)..].iter().copied(),
    )?;
    Some((line.max(recent), robust_deviation(&residuals)?))
}
