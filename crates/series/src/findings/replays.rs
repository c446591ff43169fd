//! Findings on replays at a revision: failures, gradients at odds with the loss, outputs beyond noise.

use super::{Parted, SeriesFinding, Spell};
use crate::Series;
use crate::numbers::{Distance, Other, StepGradient, StepReplay};
use crate::robust::{estimate_series_noise, theil_sen_slope};
use replay_engine::judge::{GradientVerdict, Verdict};
use replay_engine::trial::Status;
use replay_numerics::constants::{LEAST_GROWTH_STEPS, MOST_GROWTH_STEPS};

pub(super) fn list_replay_findings(series: &Series) -> Vec<SeriesFinding> {
    let mut findings = Vec::new();
    let replays: Vec<Option<&StepReplay>> =
        series.steps.iter().map(|step| step.replay.as_ref()).collect();
    if let Some(spell) = find_status_spell(&replays, |status| matches!(status, Status::Failed(_)))
        && let Some(Status::Failed(failures)) = replays[spell.first].map(|replay| &replay.status)
        && let Some(failure) = failures.first()
    {
        findings.push(SeriesFinding::Failed { spell, failure: failure.clone() });
    }
    for output in list_checked_gradients(&replays) {
        findings.extend(find_wrong_gradient(&replays, &output));
    }
    for reference in [Other::Trusted, Other::Oracle, Other::Captured] {
        for output in list_compared_outputs(&replays, reference) {
            findings.extend(find_output_parting(
                &series.distances(reference, &output),
                reference,
                &output,
            ));
        }
    }
    if let Some(spell) =
        find_status_spell(&replays, |status| matches!(status, Status::Untestable { .. }))
        && let Some(Status::Untestable { reason, .. }) =
            replays[spell.first].map(|replay| &replay.status)
    {
        findings.push(SeriesFinding::Untestable { spell, reason: reason.clone() });
    }
    findings
}

/// The steps with a status of this kind.
fn find_status_spell(
    replays: &[Option<&StepReplay>],
    is_of_kind: fn(&Status) -> bool,
) -> Option<Spell> {
    Spell::find(replays, |replay| replay.map(|replay| is_of_kind(&replay.status)))
}

/// The names of outputs, each once.
fn collect_unique_names<'r>(all_names: impl Iterator<Item = &'r str>) -> Vec<String> {
    all_names.fold(Vec::new(), |mut distinct_names: Vec<String>, name| {
        if !distinct_names.iter().any(|known_name| known_name == name) {
            distinct_names.push(name.to_owned());
        }
        distinct_names
    })
}

fn list_checked_gradients(replays: &[Option<&StepReplay>]) -> Vec<String> {
    let checks = replays.iter().flatten().flat_map(|replay| &replay.gradients);
    collect_unique_names(checks.map(|check| check.output.as_str()))
}

fn list_compared_outputs(replays: &[Option<&StepReplay>], reference: Other) -> Vec<String> {
    let distances = replays.iter().flatten().flat_map(|replay| &replay.distances);
    collect_unique_names(
        distances
            .filter(|distance| distance.from == reference)
            .map(|distance| distance.output.as_str()),
    )
}

fn find_wrong_gradient(replays: &[Option<&StepReplay>], output: &str) -> Option<SeriesFinding> {
    let checks: Vec<Option<&StepGradient>> =
        replays.iter().map(|replay| find_known_check((*replay)?, output)).collect();
    let spell = Spell::find(&checks, |check| check.map(is_wrong_gradient))?;
    let wrong_checks = checks.into_iter().flatten().filter(|check| is_wrong_gradient(check));
    let worst = wrong_checks.max_by(|a, b| a.worst.total_cmp(&b.worst))?;
    let output = output.to_owned();
    let error = worst.error;
    let worst = worst.worst;
    Some(SeriesFinding::GradientWrong { output, spell, worst, error })
}

/// The check of the gradient `output`, if it has an answer.
fn find_known_check<'r>(replay: &'r StepReplay, output: &str) -> Option<&'r StepGradient> {
    let check = replay.gradients.iter().find(|check| check.output == output)?;
    (check.verdict != GradientVerdict::Unknown).then_some(check)
}

fn is_wrong_gradient(check: &StepGradient) -> bool {
    check.verdict >= GradientVerdict::Imprecise
}

fn find_output_parting(
    distances: &[Option<&Distance>],
    from: Other,
    output: &str,
) -> Option<SeriesFinding> {
    let spell = Spell::find(distances, |distance| Some((*distance)?.verdict >= Verdict::Diverged))?;
    let first = distances[spell.first]?;
    let largest = distances.iter().flatten().map(|distance| distance.relative).fold(0.0, f64::max);
    let parted = Parted {
        from,
        output: output.to_owned(),
        spell,
        first: first.relative,
        last: distances[spell.last].map_or(first.relative, |distance| distance.relative),
        largest,
        growth: fit_distance_growth(distances),
        meaning: first.finding,
    };
    Some(SeriesFinding::Parted { parted })
}

/// The factor of the distance from step to step, where it changes by more than its scatter over all steps.
fn fit_distance_growth(distances: &[Option<&Distance>]) -> Option<f64> {
    let points: Vec<(f64, f64)> = distances
        .iter()
        .enumerate()
        .filter_map(|(place, distance)| Some((place as f64, distance.as_ref()?.relative)))
        .filter(|(_, relative)| *relative > 0.0 && relative.is_finite())
        .map(|(place, relative)| (place, relative.ln()))
        .collect();
    if points.len() < LEAST_GROWTH_STEPS {
        return None;
    }
    let points: Vec<(f64, f64)> =
        points.iter().copied().step_by(points.len().div_ceil(MOST_GROWTH_STEPS)).collect();
    let logarithms: Vec<f64> = points.iter().map(|(_, y)| *y).collect();
    let slope = theil_sen_slope(&points)?;
    let scatter = estimate_series_noise(&logarithms)?;
    let over_all = slope * (points[points.len() - 1].0 - points[0].0);
    (over_all.abs() > 3.0 * scatter && over_all.abs() > 0.1).then(|| slope.exp())
}
