//! What replays at a revision show: failures, gradients that are not those of the loss, outputs that part.

use super::{Finding, Kind, Parted, Spell, note, wrong};
use crate::judge::{GradientVerdict, Verdict};
use crate::numerics::constants::{LEAST_GROWTH_STEPS, MOST_GROWTH_STEPS};
use crate::series::Series;
use crate::series::numbers::{Checked, Distance, Other, Replay};
use crate::series::robust::{noise, slope};
use crate::trial::Status;

pub(super) fn found(series: &Series) -> Vec<Finding> {
    let mut found = Vec::new();
    let replays: Vec<Option<&Replay>> =
        series.steps.iter().map(|step| step.replay.as_ref()).collect();
    let spell = |is: fn(&Status) -> bool| {
        Spell::of(&replays, |replay| replay.map(|replay| is(&replay.status)))
    };
    if let Some(spell) = spell(|status| matches!(status, Status::Failed(_)))
        && let Some(Status::Failed(failures)) = replays[spell.first].map(|replay| &replay.status)
        && let Some(failure) = failures.first()
    {
        found.push(wrong(Kind::Failed { spell, failure: failure.clone() }));
    }
    for output in gradients(&replays) {
        found.extend(gradient(&replays, &output));
    }
    for from in [Other::Trusted, Other::Oracle, Other::Captured] {
        for output in outputs(&replays, from) {
            found.extend(parted(&series.distances(from, &output), from, &output));
        }
    }
    if let Some(spell) = spell(|status| matches!(status, Status::Untestable { .. }))
        && let Some(Status::Untestable { reason, .. }) =
            replays[spell.first].map(|replay| &replay.status)
    {
        found.push(note(Kind::Untestable { spell, reason: reason.clone() }));
    }
    found
}

/// The names of outputs, each once.
fn names<'r>(all: impl Iterator<Item = &'r str>) -> Vec<String> {
    all.fold(Vec::new(), |mut known: Vec<String>, name| {
        if !known.iter().any(|one| one == name) {
            known.push(name.to_owned());
        }
        known
    })
}

fn gradients(replays: &[Option<&Replay>]) -> Vec<String> {
    let all = replays.iter().flatten().flat_map(|replay| &replay.gradients);
    names(all.map(|check| check.output.as_str()))
}

fn outputs(replays: &[Option<&Replay>], from: Other) -> Vec<String> {
    let all = replays.iter().flatten().flat_map(|replay| &replay.distances);
    names(all.filter(|one| one.from == from).map(|one| one.output.as_str()))
}

fn gradient(replays: &[Option<&Replay>], output: &str) -> Option<Finding> {
    let check = |replay: &Option<&Replay>| -> Option<Checked> {
        let found = replay.as_ref()?.gradients.iter().find(|check| check.output == output)?;
        (found.verdict != GradientVerdict::Unknown).then(|| found.clone())
    };
    let is_wrong = |check: &Checked| check.verdict >= GradientVerdict::Imprecise;
    let spell = Spell::of(replays, |replay| Some(is_wrong(&check(replay)?)))?;
    let checks = replays.iter().filter_map(check).filter(is_wrong);
    let worst = checks.max_by(|a, b| a.worst.total_cmp(&b.worst))?;
    let (output, error, worst) = (output.to_owned(), worst.error, worst.worst);
    Some(wrong(Kind::GradientWrong { output, spell, worst, error }))
}

fn parted(distances: &[Option<&Distance>], from: Other, output: &str) -> Option<Finding> {
    let beyond = |one: &Distance| one.verdict >= Verdict::Diverged;
    let spell = Spell::of(distances, |one| Some(beyond(one.as_ref()?)))?;
    let first = distances[spell.first]?;
    let relative = |one: &Distance| one.relative;
    let largest = distances.iter().flatten().map(|one| relative(one)).fold(0.0, f64::max);
    let parted = Parted {
        from,
        output: output.to_owned(),
        spell,
        first: first.relative,
        last: distances[spell.last].map_or(first.relative, relative),
        largest,
        growth: growth(distances),
        meaning: first.finding,
    };
    Some(match from {
        // What one revision gave on one machine makes no other wrong.
        Other::Captured => note(Kind::Parted { parted }),
        Other::Trusted | Other::Oracle => wrong(Kind::Parted { parted }),
    })
}

/// By what the distance is multiplied from step to step, where it changes by more than its scatter over
/// all steps.
fn growth(distances: &[Option<&Distance>]) -> Option<f64> {
    let points: Vec<(f64, f64)> = distances
        .iter()
        .enumerate()
        .filter_map(|(place, one)| Some((place as f64, one.as_ref()?.relative)))
        .filter(|(_, relative)| *relative > 0.0 && relative.is_finite())
        .map(|(place, relative)| (place, relative.ln()))
        .collect();
    if points.len() < LEAST_GROWTH_STEPS {
        return None;
    }
    let points: Vec<(f64, f64)> =
        points.iter().copied().step_by(points.len().div_ceil(MOST_GROWTH_STEPS)).collect();
    let logarithms: Vec<f64> = points.iter().map(|(_, y)| *y).collect();
    let (slope, scatter) = (slope(&points)?, noise(&logarithms)?);
    let over_all = slope * (points[points.len() - 1].0 - points[0].0);
    (over_all.abs() > 3.0 * scatter && over_all.abs() > 0.1).then(|| slope.exp())
}
