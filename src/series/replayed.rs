//! Replays one step at a revision: its numbers, its gradients against their loss, its outputs beside
//! the captured ones, and against the oracle and those of a trusted revision.

use super::measure::{Outputs, measure};
use super::numbers::{Checked, Distance, Measured, Other, Replay};
use super::{Parameter, Roster};
use crate::backend::{Mode, ReplayError};
use crate::judge::{
    Judgement, KnownCheck, Verdict, check_captured, check_oracle, judge, outcome_and_gradients,
    room,
};
use crate::numerics::compare::Comparison;
use crate::numerics::oracle::Finding;
use crate::summary::POISON_A;
use crate::trial::{Status, Trial};
use crate::worker::Run;

/// Replays the step of `trial`, against `base` where there is a trusted revision. What the cache knows is
/// not replayed again.
///
/// # Errors
/// [`ReplayError`] if the machine or the fixture is at fault.
pub fn replayed(trial: &Trial, base: Option<&Trial>) -> Result<(Measured, Replay), ReplayError> {
    let fixture = trial.fixture();
    let roster = Roster::of(&fixture.harness);
    room(trial, base.is_some())?;
    let (outcome, gradients) = outcome_and_gradients(trial)?;
    let measured = match needs_elements(&roster) && outcome.status == Status::Completed {
        true => trial.lab().remember(&trial.key_of(&format!("series of {roster:?}"))?, || {
            let run = plain(trial)?;
            Ok(measure(&roster, fixture, &Outputs::Replayed(outcome, run.as_ref()))?)
        })?,
        false => measure(&roster, fixture, &Outputs::Replayed(outcome, None))?,
    };
    let mut distances = from_known(Other::Captured, &check_captured(trial)?);
    distances.extend(from_known(Other::Oracle, &check_oracle(trial)?));
    let judgement = base.map(|base| judge(base, trial)).transpose()?;
    distances.extend(judgement.iter().flat_map(from_trusted));
    let checked = gradients.into_iter().map(|check| Checked {
        output: check.output,
        verdict: check.story.verdict(),
        worst: check.worst,
        error: check.error,
    });
    let replay = Replay {
        status: outcome.status.clone(),
        gradients: checked.collect(),
        against: judgement.map(|judgement| judgement.verdict),
        distances,
    };
    Ok((measured, replay))
}

/// Whether numbers take more of an output than its summary.
fn needs_elements(roster: &Roster) -> bool {
    let is_output = |name: &Option<String>| {
        let place = name.as_ref().and_then(|name| roster.place(name));
        place.is_some_and(|place| roster.tensors[place].is_output)
    };
    let any = |one: &Parameter| {
        [&one.after, &one.update, &one.exp_avg, &one.exp_avg_sq].into_iter().any(is_output)
    };
    roster.parameters.iter().any(any)
}

/// A plain run, for its outputs.
fn plain(trial: &Trial) -> Result<Option<Run>, ReplayError> {
    let variant = trial.variant()?;
    variant.map(|variant| variant.run(&Mode::plain(POISON_A))).transpose()
}

fn from_known(from: Other, checks: &[KnownCheck]) -> Vec<Distance> {
    let checks = checks.iter();
    checks
        .map(|check| distance(from, &check.output, check.verdict, &check.comparison, None))
        .collect()
}

fn from_trusted(judgement: &Judgement) -> Vec<Distance> {
    let outputs = judgement.outputs.iter();
    outputs
        .map(|output| {
            let (verdict, finding) = (output.story.verdict(), output.story.finding());
            distance(Other::Trusted, &output.name, verdict, &output.comparison, finding)
        })
        .collect()
}

fn distance(
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
