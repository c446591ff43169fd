//! Replays one step at a revision: its numbers, its gradients against their loss, its outputs beside
//! the captured ones, and against the oracle and those of a trusted revision.

use super::TensorCatalogue;
use super::measure::{OutputSource, measure_step};
use super::numbers::{Distance, Other, StepGradient, StepNumbers, StepReplay};
use replay_base::summary::POISON_A;
use replay_engine::backend::{Mode, ReplayError};
use replay_engine::judge::{
    Judgement, KnownCheck, Verdict, check_captured, check_oracle, ensure_evidence_room,
    judge_trial, outcome_and_gradients,
};
use replay_engine::trial::{Status, Trial};
use replay_engine::worker::Run;
use replay_numerics::compare::Comparison;
use replay_numerics::oracle::Finding;

/// Replays the step of `trial`, against `base` where there is a trusted revision. Known results come from the cache.
///
/// # Errors
/// [`ReplayError`] if the machine or the fixture is at fault.
pub fn replay_series_step(
    trial: &Trial,
    base: Option<&Trial>,
) -> Result<(StepNumbers, StepReplay), ReplayError> {
    let fixture = trial.fixture();
    let catalogue = TensorCatalogue::from_harness(&fixture.harness);
    ensure_evidence_room(trial, base.is_some())?;
    let (outcome, gradients) = outcome_and_gradients(trial)?;
    let measured = if needs_elements(&catalogue) && outcome.status == Status::Completed {
        trial.lab().remember(&trial.key_of(&format!("series of {catalogue:?}"))?, || {
            let run = run_plain_step(trial)?;
            Ok(measure_step(&catalogue, fixture, &OutputSource::Replayed(outcome, run.as_ref()))?)
        })?
    } else {
        measure_step(&catalogue, fixture, &OutputSource::Replayed(outcome, None))?
    };
    let mut distances = from_known(Other::Captured, &check_captured(trial)?);
    distances.extend(from_known(Other::Oracle, &check_oracle(trial)?));
    let judgement = base.map(|base| judge_trial(base, trial)).transpose()?;
    distances.extend(judgement.iter().flat_map(from_trusted));
    let checks = gradients.into_iter().map(|check| StepGradient {
        output: check.output,
        verdict: check.story.verdict(),
        worst: check.worst,
        error: check.error,
    });
    let replay = StepReplay {
        status: outcome.status.clone(),
        gradients: checks.collect(),
        against: judgement.map(|judgement| judgement.verdict),
        distances,
    };
    Ok((measured, replay))
}

/// Whether numbers take more of an output than its summary.
fn needs_elements(catalogue: &TensorCatalogue) -> bool {
    for parameter in &catalogue.parameters {
        let names =
            [&parameter.after, &parameter.update, &parameter.exp_avg, &parameter.exp_avg_sq];
        for name in names.into_iter().flatten() {
            let place = catalogue.place(name);
            if place.is_some_and(|place| catalogue.tensors[place].is_output) {
                return true;
            }
        }
    }
    false
}

/// A plain run, for its outputs.
fn run_plain_step(trial: &Trial) -> Result<Option<Run>, ReplayError> {
    let variant = trial.variant()?;
    variant.map(|variant| variant.run(&Mode::plain(POISON_A))).transpose()
}

fn from_known(from: Other, checks: &[KnownCheck]) -> Vec<Distance> {
    let checks = checks.iter();
    checks
        .map(|check| build_distance(from, &check.output, check.verdict, &check.comparison, None))
        .collect()
}

fn from_trusted(judgement: &Judgement) -> Vec<Distance> {
    let outputs = judgement.outputs.iter();
    outputs
        .map(|output| {
            let verdict = output.story.verdict();
            let finding = output.story.finding();
            build_distance(Other::Trusted, &output.name, verdict, &output.comparison, finding)
        })
        .collect()
}

fn build_distance(
    from: Other,
    output: &str,
    verdict: Verdict,
    comparison: &Comparison,
    finding: Option<Finding>,
) -> Distance {
    Distance {
        from,
        output: output.to_owned(),
        verdict,
        relative: comparison.relative_l2,
        beyond: comparison.beyond,
        count: comparison.count,
        finding,
    }
}
