//! The findings of a try, and whether one of the whole fixture is still among them.

use replay_engine::backend::ReplayError;
use replay_engine::judge::{
    AccessStory, Finding, FindingKind, Judgement, Verdict, check_gradients, check_orders,
    check_trial_accesses, has_same_output_bits, judge_trial,
};
use replay_engine::trial::{AccessCheck, Failure, Outcome, Status, Trial};
use replay_runtime::report::FoundKind;

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

/// Whether `smaller` shows the same as `whole`, at least a tenth as far off.
pub(super) fn is_finding_kept(whole: &Finding, smaller: &Finding) -> bool {
    whole.is_like(smaller)
        && (smaller.distance >= KEPT_SHARE * whole.distance || whole.distance.is_nan())
}

/// The worst of `findings`: a failure, or what is furthest off; what rounding hides only where there is no other.
pub(super) fn find_worst(findings: Vec<Finding>) -> Option<Finding> {
    findings.into_iter().min_by(|left, right| {
        let slight = left.kind.is_slight().cmp(&right.kind.is_slight());
        let failed = |finding: &Finding| !matches!(finding.kind, FindingKind::Failed(_));
        slight.then(failed(left).cmp(&failed(right))).then(right.distance.total_cmp(&left.distance))
    })
}

/// The findings of `trial`, beside the trusted `base` if there is one. `wanted` is the one that is asked for, if one is:
/// only what shows its kind is measured. A trial that is `probably_untestable` is replayed before `base` is.
///
/// # Errors
/// [`ReplayError`] if the machine is at fault.
pub(super) fn judge_findings(
    trial: &Trial,
    base: Option<&Trial>,
    check: AccessCheck,
    wanted: Option<&Finding>,
    probably_untestable: bool,
) -> Result<Judged, ReplayError> {
    if probably_untestable && let Status::Untestable { reason, .. } = &trial.outcome()?.status {
        return Ok(Judged::Untestable { reason: reason.clone() });
    }
    if let Some((base, output)) = base.zip(wanted.and_then(find_compared_output))
        && has_same_output_bits(base, trial, output)?
    {
        return Ok(Judged::Findings(Vec::new()));
    }
    let wanted = wanted.map(|finding| &finding.kind);
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

/// The output whose distance from the trusted one is `finding`.
fn find_compared_output(finding: &Finding) -> Option<&str> {
    finding.output.as_deref().filter(|_| finding.kind.is_in_noise())
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
        let orders = check_orders(trial)?.dependences;
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
        assert!(is_finding_kept(&whole, &finding(FindingKind::Wrong, "y", 10.0)));
        for other in [
            finding(FindingKind::Wrong, "y", 9.0),
            finding(FindingKind::Wrong, "z", 100.0),
            finding(FindingKind::Imprecise, "y", 100.0),
        ] {
            assert!(!is_finding_kept(&whole, &other), "{other:?}");
        }
        let infinite = finding(FindingKind::Wrong, "y", f64::INFINITY);
        assert!(!is_finding_kept(&infinite, &whole));
        assert!(is_finding_kept(&infinite, &infinite));
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
