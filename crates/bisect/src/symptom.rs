//! The symptoms of a commit. A search tells defects apart by them.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use replay_engine::judge::{
    Equivalence, GradientCheck, GradientVerdict, Judgement, OutputJudgement, ShadowShift, Story,
    Verdict, WrongBy,
};
use replay_engine::trial::{OrderDependence, Outcome, Status};
use replay_numerics::oracle::Finding;
use replay_runtime::report::{AccessFinding, FoundKind};
use replay_search::TestAnswer;

/// The condition for a bad commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum On {
    /// An output beyond noise and not closer to the truth, a dependence on the order of blocks and threads, or
    /// a failure.
    Wrong,
    /// An output beyond noise, a changed float64 shadow, a dependence on the order of blocks and threads, or a
    /// failure.
    Changed,
    /// An output with other bits, or a failure.
    Bits,
    /// A wrong access to memory in a checked replay, or a failure.
    Race,
    /// A gradient off its loss, or a failure.
    Gradient,
    Failed,
}

/// A symptom of a defect; two commits that share one count as having the same defect.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case", tag = "symptom")]
pub enum Symptom {
    /// An output went beyond the noise of the good side.
    Diverged {
        /// The fixture.
        fixture: String,
        /// The output.
        output: String,
    },
    /// The mathematics of an output changed, and rounding hides it on the fixture.
    Hidden {
        /// The fixture.
        fixture: String,
        /// The output.
        output: String,
    },
    /// The float64 shadow of an output changed by less than the output can hold.
    Shifted {
        /// The fixture.
        fixture: String,
        /// The output.
        output: String,
    },
    /// An output has other bits than at the good side.
    Bits {
        /// The fixture.
        fixture: String,
        /// The output.
        output: String,
    },
    /// An output depends on the order of blocks and threads, and does not at the good side.
    Ordered {
        /// The fixture.
        fixture: String,
        /// The output.
        output: String,
    },
    /// A checked replay finds a wrong access to memory, and does not at the good side.
    Access {
        /// The fixture.
        fixture: String,
        /// What is wrong.
        finding: FoundKind,
        /// The memory.
        memory: String,
    },
    /// A gradient does not match its loss.
    Mismatch {
        /// The fixture.
        fixture: String,
        /// The gradient.
        output: String,
    },
    /// A gradient is less precise than its noise allows.
    Imprecise {
        /// The fixture.
        fixture: String,
        /// The gradient.
        output: String,
    },
    /// The replay failed.
    Failed {
        /// The fixture.
        fixture: String,
        /// The kind of failure, in the words of [`Failure::kind`](replay_engine::trial::Failure::kind).
        kind: String,
    },
}

impl fmt::Display for Symptom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Symptom::Diverged { output, .. } => write!(f, "{output} diverged"),
            Symptom::Hidden { output, .. } => {
                write!(f, "the mathematics of {output} changed, hidden by rounding")
            }
            Symptom::Shifted { output, .. } => write!(f, "the float64 shadow of {output} changed"),
            Symptom::Bits { output, .. } => write!(f, "{output} has other bits"),
            Symptom::Ordered { output, .. } => {
                write!(f, "{output} depends on the order of blocks and threads")
            }
            Symptom::Access { finding, memory, .. } => f.write_str(&finding.words(memory)),
            Symptom::Mismatch { output, .. } => write!(f, "{output} does not match its loss"),
            Symptom::Imprecise { output, .. } => {
                write!(f, "{output} is less precise than its noise allows")
            }
            Symptom::Failed { kind, .. } => write!(f, "failed: {kind}"),
        }
    }
}

impl Symptom {
    /// Whether it is one of an output's values, or of its shadow's.
    pub(super) fn is_of_values(&self) -> bool {
        matches!(self, Symptom::Diverged { .. } | Symptom::Hidden { .. } | Symptom::Shifted { .. })
    }

    /// Whether it is elements that nobody wrote.
    pub(super) fn is_unwritten(&self) -> bool {
        matches!(self, Symptom::Failed { kind, .. } if kind == "unwritten")
    }

    pub(super) fn diverged(fixture: &str, output: &str) -> Symptom {
        Symptom::Diverged { fixture: fixture.to_owned(), output: output.to_owned() }
    }

    pub(super) fn hidden(fixture: &str, output: &str) -> Symptom {
        Symptom::Hidden { fixture: fixture.to_owned(), output: output.to_owned() }
    }

    pub(super) fn shifted(fixture: &str, output: &str) -> Symptom {
        Symptom::Shifted { fixture: fixture.to_owned(), output: output.to_owned() }
    }

    pub(super) fn bits(fixture: &str, output: &str) -> Symptom {
        Symptom::Bits { fixture: fixture.to_owned(), output: output.to_owned() }
    }

    pub(super) fn ordered(fixture: &str, output: &str) -> Symptom {
        Symptom::Ordered { fixture: fixture.to_owned(), output: output.to_owned() }
    }

    pub(super) fn mismatch(fixture: &str, output: &str) -> Symptom {
        Symptom::Mismatch { fixture: fixture.to_owned(), output: output.to_owned() }
    }

    pub(super) fn imprecise(fixture: &str, output: &str) -> Symptom {
        Symptom::Imprecise { fixture: fixture.to_owned(), output: output.to_owned() }
    }

    /// Its output; none for a symptom of the whole replay.
    pub fn output(&self) -> Option<&str> {
        match self {
            Symptom::Diverged { output, .. }
            | Symptom::Hidden { output, .. }
            | Symptom::Shifted { output, .. }
            | Symptom::Bits { output, .. }
            | Symptom::Ordered { output, .. }
            | Symptom::Mismatch { output, .. }
            | Symptom::Imprecise { output, .. } => Some(output),
            Symptom::Access { .. } | Symptom::Failed { .. } => None,
        }
    }

    /// Its fixture.
    pub fn fixture(&self) -> &str {
        match self {
            Symptom::Diverged { fixture, .. }
            | Symptom::Hidden { fixture, .. }
            | Symptom::Shifted { fixture, .. }
            | Symptom::Bits { fixture, .. }
            | Symptom::Ordered { fixture, .. }
            | Symptom::Access { fixture, .. }
            | Symptom::Mismatch { fixture, .. }
            | Symptom::Imprecise { fixture, .. }
            | Symptom::Failed { fixture, .. } => fixture,
        }
    }

    pub(super) fn is_failure(&self) -> bool {
        matches!(self, Symptom::Failed { .. })
    }

    /// Whether a harmless change can cause it too.
    fn is_slight(&self) -> bool {
        matches!(self, Symptom::Hidden { .. } | Symptom::Shifted { .. })
    }

    /// Whether it covers one of `wanted_symptoms`.
    fn is_among(&self, wanted_symptoms: &BTreeSet<Symptom>) -> bool {
        wanted_symptoms.iter().any(|wanted_symptom| self.covers(wanted_symptom))
    }

    /// Whether it counts in a search for `wanted_symptoms`.
    fn counts_in_search_for(&self, wanted_symptoms: &BTreeSet<Symptom>) -> bool {
        match self {
            Symptom::Ordered { .. } => ask_for_orders(wanted_symptoms),
            // Other outputs may differ as well: the wanted ones are there, and tell.
            Symptom::Diverged { .. }
            | Symptom::Hidden { .. }
            | Symptom::Shifted { .. }
            | Symptom::Bits { .. }
            | Symptom::Mismatch { .. }
            | Symptom::Imprecise { .. } => self.is_among(wanted_symptoms),
            Symptom::Access { .. } | Symptom::Failed { .. } => true,
        }
    }

    /// Whether it is `wanted_symptom` or more: an output beyond noise covers a change hidden by rounding.
    fn covers(&self, wanted_symptom: &Symptom) -> bool {
        match (self, wanted_symptom) {
            (
                Symptom::Diverged { fixture, output },
                Symptom::Hidden { fixture: hidden_fixture, output: hidden },
            ) => (fixture, output) == (hidden_fixture, hidden),
            _ => self == wanted_symptom,
        }
    }
}

/// Whether a harmless change can cause all of `symptoms`.
pub(super) fn are_slight(symptoms: &BTreeSet<Symptom>) -> bool {
    symptoms.iter().all(Symptom::is_slight)
}

/// Selects the symptoms to search for among `shown_symptoms`, those of the ends with the defect. Beside a
/// visible symptom it drops changes hidden by rounding or below the dtype: a harmless commit makes such changes
/// too, and would be taken for the culprit.
pub(super) fn select_wanted(shown_symptoms: BTreeSet<Symptom>) -> BTreeSet<Symptom> {
    if are_slight(&shown_symptoms) {
        shown_symptoms
    } else {
        shown_symptoms.into_iter().filter(|symptom| !symptom.is_slight()).collect()
    }
}

/// Whether `wanted_symptoms` has a dependence on the order of blocks and threads. Equal bits then do not
/// replace the replays in other orders.
pub(super) fn ask_for_orders(wanted_symptoms: &BTreeSet<Symptom>) -> bool {
    wanted_symptoms.iter().any(|symptom| matches!(symptom, Symptom::Ordered { .. }))
}

impl On {
    /// Whether a dependence on the order of blocks and threads makes a commit bad.
    pub(super) fn minds_orders(self) -> bool {
        matches!(self, On::Wrong | On::Changed)
    }

    /// Whether values count at all.
    pub fn minds_values(self) -> bool {
        matches!(self, On::Wrong | On::Changed | On::Bits)
    }
}

/// The outputs of `dependences` without an entry in `known_dependences`, those of the good side.
pub(super) fn symptoms_from_orders(
    fixture: &str,
    dependences: &[OrderDependence],
    known_dependences: &[OrderDependence],
) -> BTreeSet<Symptom> {
    let mut symptoms = BTreeSet::new();
    for OrderDependence { output, .. } in dependences {
        if known_dependences.iter().all(|known_dependence| known_dependence.output != *output) {
            symptoms.insert(Symptom::ordered(fixture, output));
        }
    }
    symptoms
}

/// A finding of a checked replay as a symptom. Moved lines and renamed kernels leave it the same.
pub(super) fn symptom_from_access(fixture: &str, finding: &AccessFinding) -> Symptom {
    Symptom::Access {
        fixture: fixture.to_owned(),
        finding: finding.kind,
        memory: finding.memory_without_line().to_owned(),
    }
}

/// The failures of `outcome`; none if it completed.
pub(super) fn symptoms_from_failures(fixture: &str, outcome: &Outcome) -> BTreeSet<Symptom> {
    let Status::Failed(failures) = &outcome.status else { return BTreeSet::new() };
    let symptoms = failures.iter().map(|failure| Symptom::Failed {
        fixture: fixture.to_owned(),
        kind: failure.kind().to_owned(),
    });
    symptoms.collect()
}

/// The outputs of `got` whose bits are not those of `base`.
pub(super) fn symptoms_from_bits(
    fixture: &str,
    base: &Outcome,
    got: &Outcome,
) -> BTreeSet<Symptom> {
    let mut symptoms = BTreeSet::new();
    for output in &got.outputs {
        let base_output = base.outputs.iter().find(|base_output| base_output.name == output.name);
        let base_checksum = base_output.map(|base_output| base_output.summary.checksum);
        if base_checksum != Some(output.summary.checksum) {
            symptoms.insert(Symptom::bits(fixture, &output.name));
        }
    }
    symptoms
}

/// The diverged outputs of `judgement`, in the order of the indices. For [`On::Wrong`] the more accurate ones
/// are left out; for [`On::Changed`] a changed shadow counts too.
pub(super) fn symptoms_from_judgement(
    fixture: &str,
    on: On,
    judgement: &Judgement,
) -> BTreeSet<Symptom> {
    // Where the good side has no outputs there is nothing to compare: all of them are new.
    if judgement.verdict == Verdict::Diverged && judgement.outputs.is_empty() {
        let outputs = judgement.got.outputs.iter();
        return outputs.map(|output| Symptom::diverged(fixture, &output.name)).collect();
    }
    judgement.outputs.iter().filter_map(|output| symptom_of_output(fixture, on, output)).collect()
}

/// The symptoms that `judgement` leaves open: without float64 shadows, those that only a shadow shows.
pub(super) fn unknown_symptoms(fixture: &str, judgement: &Judgement) -> BTreeSet<Symptom> {
    let unseen =
        judgement.outputs.iter().filter(|output| output.story.verdict() == Verdict::Unchecked);
    unseen
        .flat_map(|output| {
            [Symptom::hidden(fixture, &output.name), Symptom::shifted(fixture, &output.name)]
        })
        .collect()
}

/// The symptom of one output, whatever the order of blocks and threads does to it.
fn symptom_of_output(fixture: &str, on: On, output: &OutputJudgement) -> Option<Symptom> {
    let name = output.name.as_str();
    match &output.story {
        Story::Agrees(
            Equivalence::WithinNoise { shadow, .. } | Equivalence::ErrsAlike { shadow, .. },
        ) => match shadow {
            ShadowShift::BelowDtype | ShadowShift::BelowNoise => {
                (on == On::Changed).then(|| Symptom::shifted(fixture, name))
            }
            ShadowShift::None | ShadowShift::Unseen | ShadowShift::Rounded => None,
        },
        Story::Agrees(Equivalence::Identical) | Story::OrderDependent(_) | Story::Unsteady => None,
        Story::Drifted { accuracy, .. } => match accuracy {
            Some(Finding::MoreAccurate | Finding::AsAccurate) => {
                (on != On::Wrong).then(|| Symptom::hidden(fixture, name))
            }
            Some(Finding::Wrong | Finding::Imprecise | Finding::LessAccurate) | None => {
                Some(Symptom::hidden(fixture, name))
            }
        },
        Story::Wrong(WrongBy::HiddenShadow) => Some(Symptom::hidden(fixture, name)),
        Story::Wrong(WrongBy::Shadow | WrongBy::Distance)
        | Story::Imprecise(_)
        | Story::LessAccurate
        | Story::BeyondNoise { .. } => Some(Symptom::diverged(fixture, name)),
        Story::MoreAccurate | Story::AsAccurate => {
            (on != On::Wrong).then(|| Symptom::diverged(fixture, name))
        }
    }
}

/// The gradients off their loss, and the imprecise ones.
pub(super) fn symptoms_from_gradients(
    fixture: &str,
    checks: &[GradientCheck],
) -> BTreeSet<Symptom> {
    let symptoms = checks.iter().filter_map(|check| match check.story.verdict() {
        GradientVerdict::Mismatch => Some(Symptom::mismatch(fixture, &check.output)),
        GradientVerdict::Imprecise => Some(Symptom::imprecise(fixture, &check.output)),
        GradientVerdict::Matches | GradientVerdict::Agrees | GradientVerdict::Unknown => None,
    });
    symptoms.collect()
}

/// Whether two comparable replays have the same bits in all outputs.
pub(super) fn same_bits(one: &Outcome, other: &Outcome) -> bool {
    one.can_be_compared_with(other)
        && other.can_be_compared_with(one)
        && one.outputs.len() == other.outputs.len()
        && symptoms_from_bits("", one, other).is_empty()
}

/// The answer of `symptoms` to a search for `wanted_symptoms`: good where there are none. Values and gradients count only
/// if they are wanted, and so does a dependence on the order, since not every commit is tested for one. A failure leaves
/// open what was searched for.
pub(super) fn answer_from_symptoms(
    symptoms: &BTreeSet<Symptom>,
    untestable: bool,
    wanted_symptoms: &BTreeSet<Symptom>,
) -> TestAnswer {
    let counting_symptoms: Vec<&Symptom> =
        symptoms.iter().filter(|symptom| symptom.counts_in_search_for(wanted_symptoms)).collect();
    if counting_symptoms.iter().any(|symptom| symptom.is_among(wanted_symptoms)) {
        TestAnswer::Bad
    } else if untestable {
        TestAnswer::Skip
    } else if counting_symptoms.is_empty() {
        TestAnswer::Good
    } else {
        TestAnswer::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(kind: &str) -> Symptom {
        Symptom::Failed { fixture: "step0".into(), kind: kind.into() }
    }

    #[test]
    fn another_kind_of_failure_is_neither_good_nor_bad() {
        let wanted = BTreeSet::from([failed("launch error")]);
        assert_eq!(
            answer_from_symptoms(&BTreeSet::from([failed("fault")]), false, &wanted),
            TestAnswer::Other
        );
        assert_eq!(answer_from_symptoms(&BTreeSet::new(), false, &wanted), TestAnswer::Good);
        let both = BTreeSet::from([failed("fault"), failed("launch error")]);
        assert_eq!(answer_from_symptoms(&both, false, &wanted), TestAnswer::Bad);
    }

    #[test]
    fn values_that_diverge_are_passed_over_in_a_search_for_a_failure() {
        let wanted = BTreeSet::from([failed("fault")]);
        assert_eq!(
            answer_from_symptoms(&BTreeSet::from([diverged("loss")]), false, &wanted),
            TestAnswer::Good
        );
        let both = BTreeSet::from([failed("fault"), diverged("loss")]);
        assert_eq!(answer_from_symptoms(&both, false, &wanted), TestAnswer::Bad);
        let elsewhere = Symptom::Diverged { fixture: "step1".into(), output: "loss".into() };
        assert_eq!(
            answer_from_symptoms(&BTreeSet::from([elsewhere]), false, &wanted),
            TestAnswer::Good
        );
        // A commit may crash where the bad end drifts: nothing can be compared.
        let drift = BTreeSet::from([diverged("loss")]);
        assert_eq!(answer_from_symptoms(&wanted, false, &drift), TestAnswer::Other);
    }

    #[test]
    fn an_order_that_is_not_searched_for_is_passed_over() {
        let of = |output: &str| Symptom::Ordered { fixture: "step0".into(), output: output.into() };
        let found = BTreeSet::from([of("loss")]);
        let value = BTreeSet::from([failed("fault")]);
        assert_eq!(answer_from_symptoms(&found, false, &value), TestAnswer::Good);
        assert_eq!(
            answer_from_symptoms(&found, false, &BTreeSet::from([of("grad")])),
            TestAnswer::Other
        );
        assert_eq!(answer_from_symptoms(&found, false, &found), TestAnswer::Bad);
    }

    fn hidden(output: &str) -> Symptom {
        Symptom::Hidden { fixture: "step0".into(), output: output.into() }
    }

    fn diverged(output: &str) -> Symptom {
        Symptom::diverged("step0", output)
    }

    #[test]
    fn a_change_that_rounding_hides_is_passed_over_where_the_bad_end_shows_more() {
        let wanted = select_wanted(BTreeSet::from([hidden("loss"), diverged("grad")]));
        assert_eq!(wanted, BTreeSet::from([diverged("grad")]));
        for harmless in [hidden("loss"), hidden("grad")] {
            assert_eq!(
                answer_from_symptoms(&BTreeSet::from([harmless]), false, &wanted),
                TestAnswer::Good
            );
        }
    }

    #[test]
    fn a_change_that_rounding_hides_is_searched_for_where_the_bad_end_shows_no_more() {
        let wanted = select_wanted(BTreeSet::from([hidden("grad")]));
        assert_eq!(
            answer_from_symptoms(&BTreeSet::from([hidden("grad")]), false, &wanted),
            TestAnswer::Bad
        );
        assert_eq!(
            answer_from_symptoms(&BTreeSet::from([diverged("grad")]), false, &wanted),
            TestAnswer::Bad
        );
    }

    #[test]
    fn a_commit_is_judged_by_the_wanted_outputs_whatever_others_do() {
        let bits = |output: &str| Symptom::bits("step0", output);
        let mismatch = |output: &str| Symptom::mismatch("step0", output);
        for wanted in [diverged("grad"), hidden("grad"), bits("grad"), mismatch("grad")] {
            let wanted = BTreeSet::from([wanted]);
            for other in [diverged("loss"), hidden("loss"), bits("loss"), mismatch("loss")] {
                let beside = BTreeSet::from([other]);
                assert_eq!(answer_from_symptoms(&beside, false, &wanted), TestAnswer::Good);
                let both = beside.union(&wanted).cloned().collect();
                assert_eq!(answer_from_symptoms(&both, false, &wanted), TestAnswer::Bad);
            }
        }
    }

    #[test]
    fn what_is_bad_on_one_fixture_is_bad_although_another_cannot_be_tested() {
        let wanted = BTreeSet::from([failed("fault")]);
        assert_eq!(answer_from_symptoms(&wanted, true, &wanted), TestAnswer::Bad);
        assert_eq!(answer_from_symptoms(&BTreeSet::new(), true, &wanted), TestAnswer::Skip);
    }
}
