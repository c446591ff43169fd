//! What a replay shows of a defect, in a form that two fixtures can be compared by.

use replay_base::tensor::{Dim, unravel_index};
use replay_engine::backend::ReplayError;
use replay_engine::judge::{
    AccessStory, Equivalence, GradientCheck, GradientVerdict, Judgement, OutputJudgement, Story,
    Verdict, WrongBy, check_gradients, check_trial_accesses, find_order_dependences, judge_trial,
};
use replay_engine::trial::{AccessCheck, Failure, OrderDependence, Outcome, Status, Trial};
use replay_runtime::report::FoundKind;

/// A defect as a replay shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub kind: FindingKind,
    /// The output; none for a failure or an access to memory.
    pub output: Option<String>,
    /// How far off it is, in the unit of the kind.
    pub distance: f64,
    /// The size and index of each named dimension at the worst place, as far as it is known.
    pub place: Vec<(String, usize)>,
}

/// The kind of a finding: two fixtures show the same where kind and output are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// The mathematics of an output is not the trusted one.
    Wrong,
    /// The same, and rounding hides it.
    Hidden,
    Imprecise,
    LessAccurate,
    MoreAccurate,
    AsAccurate,
    /// Beyond noise, and no truth is known.
    BeyondNoise,
    /// An output depends on the order of blocks and threads.
    OrderDependent,
    /// A gradient does not match its loss.
    GradientMismatch,
    GradientImprecise,
    /// The replay fails, by a failure of this kind.
    Failed(String),
    /// A wrong access to memory.
    Access {
        kind: FoundKind,
        memory: String,
    },
}

impl FindingKind {
    /// Whether [`Finding::distance`] is a multiple of the noise. Else it is relative to the norm, or means nothing.
    pub fn is_in_noise(&self) -> bool {
        match self {
            FindingKind::Wrong
            | FindingKind::Imprecise
            | FindingKind::LessAccurate
            | FindingKind::MoreAccurate
            | FindingKind::AsAccurate
            | FindingKind::BeyondNoise
            | FindingKind::GradientImprecise => true,
            FindingKind::Hidden
            | FindingKind::OrderDependent
            | FindingKind::GradientMismatch
            | FindingKind::Failed(_)
            | FindingKind::Access { .. } => false,
        }
    }

    /// Whether a commit is hardly judged by it where there is another one.
    fn is_slight(&self) -> bool {
        matches!(self, FindingKind::Hidden | FindingKind::MoreAccurate | FindingKind::AsAccurate)
    }
}

/// What a replay shows.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Judged {
    /// The replay says nothing.
    Untestable {
        reason: String,
    },
    Findings(Vec<Finding>),
}

/// The part of the distance that a smaller fixture has to show.
const KEPT_SHARE: f64 = 0.1;

impl Finding {
    /// Whether `smaller` is the same, however far off.
    pub fn is_like(&self, smaller: &Finding) -> bool {
        self.kind == smaller.kind && self.output == smaller.output
    }

    /// Whether `smaller` shows the same, at least a tenth as far off.
    pub fn is_kept_by(&self, smaller: &Finding) -> bool {
        self.is_like(smaller)
            && (smaller.distance >= KEPT_SHARE * self.distance || self.distance.is_nan())
    }

    fn of_failure(failure: &Failure) -> Finding {
        let kind = FindingKind::Failed(failure.kind().to_owned());
        Finding { kind, output: None, distance: 0.0, place: Vec::new() }
    }

    /// The finding of an output beside a trusted one, if there is one.
    pub fn of_output(output: &OutputJudgement) -> Option<Finding> {
        let kind = story_kind(&output.story)?;
        let worst = output.comparison.worst;
        let moved_by = output.shadow.as_ref().map_or(0.0, |shadow| shadow.moved_by);
        let (distance, index) = match kind {
            FindingKind::Hidden | FindingKind::OrderDependent => {
                (moved_by, output.shadow.as_ref().and_then(|shadow| shadow.first))
            }
            _ => (worst.map_or(0.0, |worst| worst.ratio), worst.map(|worst| worst.index)),
        };
        let shape: Vec<usize> = output.dims.iter().map(|dim| dim.size).collect();
        let index = index.map(|index| unravel_index(index as usize, &shape)).unwrap_or_default();
        let place = name_place(&output.dims, &index);
        Some(Finding { kind, output: Some(output.name.clone()), distance, place })
    }

    /// The finding of a gradient beside its loss, if there is one.
    pub fn of_gradient(check: &GradientCheck, trial: &Trial) -> Option<Finding> {
        let (kind, distance) = match check.story.verdict() {
            GradientVerdict::Mismatch => (FindingKind::GradientMismatch, check.worst),
            GradientVerdict::Imprecise => (FindingKind::GradientImprecise, check.native_ratio),
            GradientVerdict::Matches | GradientVerdict::Agrees | GradientVerdict::Unknown => {
                return None;
            }
        };
        let index = check.place.as_ref().map(|place| place.index.as_slice()).unwrap_or_default();
        let place = name_place(output_dims(trial, &check.output), index);
        Some(Finding { kind, output: Some(check.output.clone()), distance, place })
    }

    fn of_order(order: &OrderDependence, trial: &Trial) -> Finding {
        let place = name_place(output_dims(trial, &order.output), &order.index);
        let kind = FindingKind::OrderDependent;
        Finding { kind, output: Some(order.output.clone()), distance: 0.0, place }
    }
}

fn output_dims<'t>(trial: &'t Trial, name: &str) -> &'t [Dim] {
    let output = trial.fixture().outputs.iter().find(|output| output.name == name);
    output.map(|output| output.dims.as_slice()).unwrap_or_default()
}

fn name_place(dims: &[Dim], index: &[usize]) -> Vec<(String, usize)> {
    let named = dims.iter().zip(index);
    named.filter_map(|(dim, &index)| Some((dim.name.clone()?, index))).collect()
}

/// The kind of a story that is a finding.
fn story_kind(story: &Story) -> Option<FindingKind> {
    Some(match story {
        Story::Agrees(
            Equivalence::Identical
            | Equivalence::WithinNoise { .. }
            | Equivalence::ErrsAlike { .. },
        )
        | Story::Unsteady => return None,
        Story::OrderDependent(_) => FindingKind::OrderDependent,
        Story::Drifted { .. } | Story::Wrong(WrongBy::HiddenShadow) => FindingKind::Hidden,
        Story::Wrong(WrongBy::Shadow | WrongBy::Distance) => FindingKind::Wrong,
        Story::Imprecise(_) => FindingKind::Imprecise,
        Story::LessAccurate => FindingKind::LessAccurate,
        Story::MoreAccurate => FindingKind::MoreAccurate,
        Story::AsAccurate => FindingKind::AsAccurate,
        Story::BeyondNoise { .. } => FindingKind::BeyondNoise,
    })
}

/// The worst of `findings`: a failure, or what is furthest off; what rounding hides only where there is no other.
pub(super) fn find_worst(findings: Vec<Finding>) -> Option<Finding> {
    findings.into_iter().min_by(|left, right| {
        let slight = left.kind.is_slight().cmp(&right.kind.is_slight());
        let failed = |finding: &Finding| !matches!(finding.kind, FindingKind::Failed(_));
        slight.then(failed(left).cmp(&failed(right))).then(right.distance.total_cmp(&left.distance))
    })
}

/// The findings of `trial`, beside the trusted `base` if there is one. `wanted` is the kind that is asked for, if one is:
/// only what shows it is measured.
///
/// # Errors
/// [`ReplayError`] if the machine is at fault.
pub(super) fn judge_findings(
    trial: &Trial,
    base: Option<&Trial>,
    check: AccessCheck,
    wanted: Option<&FindingKind>,
) -> Result<Judged, ReplayError> {
    let mut findings = match base {
        Some(base) => match findings_beside(&judge_trial(base, trial)?) {
            Judged::Findings(findings) => findings,
            untestable => return Ok(untestable),
        },
        None => match findings_alone(trial, wanted)? {
            Judged::Findings(findings) => findings,
            untestable => return Ok(untestable),
        },
    };
    let is_access = wanted.is_some_and(|wanted| matches!(wanted, FindingKind::Access { .. }));
    if is_access || (wanted.is_none() && findings.is_empty()) {
        let accesses = check_trial_accesses(trial, base, check)?;
        let judged = accesses.iter().flat_map(|accesses| &accesses.findings);
        findings.extend(judged.filter(|judged| judged.story.is_failure()).map(|judged| {
            let memory = judged.finding.memory_without_line().to_owned();
            let kind = FindingKind::Access { kind: judged.finding.kind, memory };
            Finding { kind, output: None, distance: 0.0, place: Vec::new() }
        }));
    }
    Ok(Judged::Findings(findings))
}

fn findings_beside(judgement: &Judgement) -> Judged {
    for (side, outcome) in [("", &judgement.got), ("at the trusted revision ", &judgement.base)] {
        if let Status::Untestable { reason, .. } = &outcome.status {
            return Judged::Untestable { reason: format!("{side}{reason}") };
        }
    }
    let is_alike = judgement.is_non_finite_on_both();
    if let Status::Failed(failures) = &judgement.base.status
        && !is_alike
    {
        let kind = failures.first().map_or("", Failure::kind);
        return Judged::Untestable { reason: format!("the trusted revision fails: {kind}") };
    }
    let failures = judgement.new_failures().into_iter().map(Finding::of_failure);
    let diverged =
        judgement.outputs.iter().filter(|output| output.story.verdict() == Verdict::Diverged);
    Judged::Findings(failures.chain(diverged.filter_map(Finding::of_output)).collect())
}

fn findings_alone(trial: &Trial, wanted: Option<&FindingKind>) -> Result<Judged, ReplayError> {
    let outcome: &Outcome = trial.outcome()?;
    match &outcome.status {
        Status::Untestable { reason, .. } => {
            return Ok(Judged::Untestable { reason: reason.clone() });
        }
        Status::Failed(failures) => {
            return Ok(Judged::Findings(failures.iter().map(Finding::of_failure).collect()));
        }
        Status::Completed => {}
    }
    let mut findings = Vec::new();
    let asks_for_gradients = wanted.is_none_or(|wanted| {
        matches!(wanted, FindingKind::GradientMismatch | FindingKind::GradientImprecise)
    });
    if asks_for_gradients {
        let checks = check_gradients(trial)?;
        findings.extend(checks.iter().filter_map(|check| Finding::of_gradient(check, trial)));
    }
    if wanted.map_or(findings.is_empty(), |wanted| *wanted == FindingKind::OrderDependent) {
        let orders = find_order_dependences(trial)?;
        findings.extend(orders.iter().map(|order| Finding::of_order(order, trial)));
    }
    Ok(Judged::Findings(findings))
}

/// Whether kernels of `trial` touch memory beside an allocation, as far as that is checked.
pub(super) fn is_out_of_bounds(trial: &Trial, check: AccessCheck) -> Result<bool, ReplayError> {
    let accesses = check_trial_accesses(trial, None, check)?;
    let mut judged = accesses.iter().flat_map(|accesses| &accesses.findings);
    Ok(judged.any(|judged| {
        judged.story == AccessStory::Alone && judged.finding.kind == FoundKind::OutOfBounds
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(kind: FindingKind, output: &str, distance: f64) -> Finding {
        Finding { kind, output: Some(output.to_owned()), distance, place: Vec::new() }
    }

    #[test]
    fn a_tenth_of_the_distance_of_the_same_kind_on_the_same_output_keeps_a_finding() {
        let whole = finding(FindingKind::Wrong, "y", 100.0);
        assert!(whole.is_kept_by(&finding(FindingKind::Wrong, "y", 10.0)));
        for other in [
            finding(FindingKind::Wrong, "y", 9.0),
            finding(FindingKind::Wrong, "z", 100.0),
            finding(FindingKind::Imprecise, "y", 100.0),
        ] {
            assert!(!whole.is_kept_by(&other), "{other:?}");
        }
        let infinite = finding(FindingKind::Wrong, "y", f64::INFINITY);
        assert!(!infinite.is_kept_by(&whole));
        assert!(infinite.is_kept_by(&infinite));
    }

    #[test]
    fn the_worst_finding_is_a_failure_or_the_furthest_one_that_rounding_does_not_hide() {
        let near = finding(FindingKind::Wrong, "near", 5.0);
        let far = finding(FindingKind::Imprecise, "far", 50.0);
        let hidden = finding(FindingKind::Hidden, "hidden", 500.0);
        let worst = |findings: &[&Finding]| find_worst(findings.iter().copied().cloned().collect());
        assert_eq!(worst(&[&near, &hidden, &far]).as_ref(), Some(&far));
        assert_eq!(worst(&[&hidden]).as_ref(), Some(&hidden));
        let kind = FindingKind::Failed("fault".to_owned());
        let failure = Finding { kind, output: None, distance: 0.0, place: Vec::new() };
        assert_eq!(worst(&[&far, &failure]).as_ref(), Some(&failure));
        assert_eq!(worst(&[]), None);
    }
}
