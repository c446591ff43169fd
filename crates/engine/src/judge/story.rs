//! The one place where evidence becomes a verdict. Pure: the measurements of [`pair`](super::pair) go in, and a
//! [`Story`] comes out. Every report and every search matches on it.
//!
//! Some measurements take long. The same functions ask for them and read their results.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::Verdict;
use replay_base::tensor::DType;
use replay_numerics::compare::{Agreement, Unexplained};
use replay_numerics::constants::{
    CHANCE_DEVIATIONS, ERROR_RATIO_BEYOND_NOISE, ERROR_RATIO_WITHIN_NOISE, LOST_SHARE,
    NARROW_ROUNDING,
};
use replay_numerics::drift::Drift;
use replay_numerics::measure::ulp;
use replay_numerics::oracle::Finding;
use replay_numerics::shadow::ShadowChange;

/// Why an output stands as it does beside that of a trusted revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Story {
    /// It agrees.
    Agrees(Equivalence),
    /// It agrees in the order of the indices, and depends on the order of blocks and threads. The trusted output does not.
    OrderDependent(Equivalence),
    /// Identical replays of one side differ by more than rounding: nothing can be compared.
    Unsteady,
    /// Within noise, but shifted as a whole by more than rounding explains.
    Drifted {
        /// The shift.
        drift: Drift,
        /// The finding by the truth, where one is known.
        accuracy: Option<Finding>,
    },
    /// The mathematics is another one.
    Wrong(WrongBy),
    /// The same mathematics, rounded worse.
    Imprecise(ImpreciseBy),
    /// Further from the truth. There are no shadows of both sides to tell wrong from imprecise.
    LessAccurate,
    /// Beyond noise or by another shadow, and closer to the truth.
    MoreAccurate,
    /// Beyond noise, and as far from the truth as before.
    AsAccurate,
    /// Beyond noise, and no truth is known.
    BeyondNoise {
        /// Whether it depends on the order of blocks and threads.
        order_dependent: bool,
    },
}

/// How an output agrees with a trusted one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Equivalence {
    /// The same bits.
    Identical,
    /// Other bits, within noise.
    WithinNoise {
        /// As accurate or more; none where no truth is known.
        accuracy: Option<Finding>,
        /// How the shadow changed.
        shadow: ShadowShift,
    },
    /// Elements lie beyond noise, and both sides err alike around one shadow.
    ErrsAlike {
        /// The finding by the truth, where one is known.
        accuracy: Option<Finding>,
        /// How the shadow changed.
        shadow: ShadowShift,
    },
}

/// The change of the shadow of an agreeing output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShadowShift {
    /// Not at all.
    None,
    /// Nobody knows: there are no shadows of both sides.
    Unseen,
    /// By less than the output's dtype can hold.
    BelowDtype,
    /// By more, and less than noise tells.
    BelowNoise,
    /// As rounding on the way to a format of fewer digits explains.
    Rounded,
}

/// The evidence for another mathematics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WrongBy {
    /// The shadow moved, and so did the output.
    Shadow,
    /// The shadow moved, and rounding hides it on this fixture.
    HiddenShadow,
    /// No rounding explains how far elements lie off.
    Distance,
}

/// The evidence for worse rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImpreciseBy {
    /// The error grew around an unchanged shadow.
    SameShadow,
    /// The shadow itself is rounded on the way to a format of fewer digits.
    RoundedShadow,
    /// Roundings move it further than before. There are no shadows of both sides.
    Noise,
}

impl Story {
    /// The verdict on the output.
    pub fn verdict(&self) -> Verdict {
        match self {
            Story::Agrees(Equivalence::Identical) => Verdict::Identical,
            Story::Agrees(Equivalence::WithinNoise { shadow: ShadowShift::Unseen, .. }) => {
                Verdict::Unchecked
            }
            Story::Agrees(Equivalence::WithinNoise { .. } | Equivalence::ErrsAlike { .. }) => {
                Verdict::Equivalent
            }
            Story::Unsteady => Verdict::Unknown,
            Story::OrderDependent(_)
            | Story::Drifted { .. }
            | Story::Wrong(_)
            | Story::Imprecise(_)
            | Story::LessAccurate
            | Story::MoreAccurate
            | Story::AsAccurate
            | Story::BeyondNoise { .. } => Verdict::Diverged,
        }
    }

    /// The meaning of the change; none where no truth is known, or where it says nothing of the fault.
    pub fn finding(&self) -> Option<Finding> {
        match self {
            Story::Agrees(
                Equivalence::WithinNoise { accuracy, .. } | Equivalence::ErrsAlike { accuracy, .. },
            )
            | Story::Drifted { accuracy, .. } => *accuracy,
            Story::Wrong(_) => Some(Finding::Wrong),
            Story::Imprecise(_) => Some(Finding::Imprecise),
            Story::LessAccurate => Some(Finding::LessAccurate),
            Story::MoreAccurate => Some(Finding::MoreAccurate),
            Story::AsAccurate => Some(Finding::AsAccurate),
            Story::Agrees(Equivalence::Identical)
            | Story::OrderDependent(_)
            | Story::Unsteady
            | Story::BeyondNoise { .. } => None,
        }
    }

    /// The shift of the whole output, if the story is one.
    pub fn drift(&self) -> Option<&Drift> {
        match self {
            Story::Drifted { drift, .. } => Some(drift),
            Story::Agrees(_)
            | Story::OrderDependent(_)
            | Story::Unsteady
            | Story::Wrong(_)
            | Story::Imprecise(_)
            | Story::LessAccurate
            | Story::MoreAccurate
            | Story::AsAccurate
            | Story::BeyondNoise { .. } => None,
        }
    }

    /// The story of an output with a dependence on the order of blocks and threads. The trusted one lacks it if `is_new`.
    pub(super) fn with_order(self, is_new: bool) -> Story {
        match self {
            Story::Agrees(equivalence) if is_new => {
                Story::OrderDependent(equivalence.without_accuracy())
            }
            Story::BeyondNoise { .. } => Story::BeyondNoise { order_dependent: true },
            Story::Agrees(_)
            | Story::OrderDependent(_)
            | Story::Unsteady
            | Story::Drifted { .. }
            | Story::Wrong(_)
            | Story::Imprecise(_)
            | Story::LessAccurate
            | Story::MoreAccurate
            | Story::AsAccurate => self,
        }
    }

    /// The story in the order of the indices alone.
    pub(super) fn without_order(self) -> Story {
        match self {
            Story::OrderDependent(equivalence) => Story::Agrees(equivalence),
            Story::BeyondNoise { .. } => Story::BeyondNoise { order_dependent: false },
            Story::Agrees(_)
            | Story::Unsteady
            | Story::Drifted { .. }
            | Story::Wrong(_)
            | Story::Imprecise(_)
            | Story::LessAccurate
            | Story::MoreAccurate
            | Story::AsAccurate => self,
        }
    }
}

impl Equivalence {
    /// The same without its distance from the truth: this says nothing of an output that another order moves.
    fn without_accuracy(self) -> Equivalence {
        match self {
            Equivalence::Identical => Equivalence::Identical,
            Equivalence::WithinNoise { shadow, .. } => {
                Equivalence::WithinNoise { accuracy: None, shadow }
            }
            Equivalence::ErrsAlike { shadow, .. } => {
                Equivalence::ErrsAlike { accuracy: None, shadow }
            }
        }
    }
}

/// All measurements of one output at two revisions. Relative errors and roundings are in L2.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    /// The result of the comparison of the elements.
    pub(super) agreement: Agreement,
    /// The output's dtype.
    pub(super) dtype: DType,
    /// Whether identical replays of one side differ by more than rounding.
    pub(super) is_unsteady: bool,
    /// The dependence on the order of blocks and threads.
    pub(super) order: OrderEvidence,
    /// How far rounding moves the trusted output.
    pub(super) base_rounding: f64,
    /// How far rounding moves the other output.
    pub(super) got_rounding: f64,
    /// Half a unit in the last place of the trusted output, where [`Evidence::asks_for_half_unit`].
    pub(super) half_unit: f64,
    /// The elements of the trusted output that are not zero, where [`Evidence::asks_for_half_unit`].
    pub(super) elements: Option<u64>,
    /// The shadows, where both sides have a meaningful one.
    pub(super) shadow: Option<ShadowEvidence>,
    /// The errors around the truth, where one is known.
    pub(super) errors: Option<ErrorEvidence>,
    /// The share of the elements beyond [`ERROR_RATIO_WITHIN_NOISE`] times the trusted noise, where [`Evidence::asks_for_lost_share`].
    pub(super) lost_share: Option<f64>,
    /// The share of those beyond as much of the other side's noise, where [`Evidence::asks_for_gained_share`].
    pub(super) gained_share: Option<f64>,
    /// A common shift of elements, sought within noise where there are no shadows of both sides.
    pub(super) drift: Option<Drift>,
    /// Whether both sides err alike, where [`Evidence::asks_whether_sides_err_alike`].
    pub(super) errs_alike: bool,
    /// Whether no rounding explains an element, where [`Evidence::asks_for_unexplained`].
    pub(super) is_unexplained: bool,
}

/// The sides with a dependence on the order of blocks and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrderEvidence {
    /// Not the side under test.
    Independent,
    /// Both sides: no change.
    OnBothSides,
    /// The side under test alone.
    New,
}

/// How two shadows of one output differ.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShadowEvidence {
    /// Whether elements moved, before rounding in float64 was measured.
    pub(super) moved_at_first: bool,
    /// The change, beyond rounding in float64 where the outputs agree.
    pub(super) change: ShadowChange,
    /// Whether the rounding of a constant explains all moved elements.
    pub(super) is_roundoff: bool,
    /// The part of steps, where it was measured: a shadow may be rounded on the way to a format of fewer digits.
    pub(super) steps: Option<StepEvidence>,
}

/// The part of the steps of two shadows in their change.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepEvidence {
    /// The rest of the change.
    pub(super) change: ShadowChange,
    /// Whether the trusted shadow steps as much as the other one.
    pub(super) are_on_both_sides: bool,
    /// Whether they explain most moved elements.
    pub(super) explain_most: bool,
    /// Whether they explain a good part of the distance by themselves.
    pub(super) explain_a_part: bool,
}

/// The relative errors of both sides around one truth.
#[derive(Clone, Copy, Debug)]
pub(super) struct ErrorEvidence {
    /// That of the trusted output.
    pub(super) base: f64,
    /// That of the other output.
    pub(super) got: f64,
    /// Whether the truth is a declared oracle: it owes nothing to the trusted side. Else it is the trusted shadow.
    pub(super) by_oracle: bool,
    /// The error of the trusted output around its own shadow, without ties, where [`Evidence::suspects_gain`].
    pub(super) base_without_ties: Option<f64>,
    /// That of the other output, where [`Evidence::suspects_loss`].
    pub(super) got_without_ties: Option<f64>,
}

/// How far one side lies from the truth, and how far roundings move it.
struct SideError {
    error: f64,
    rounding: f64,
}

/// The cause of the change of a shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShadowCause {
    /// No element moved.
    Nothing,
    /// Elements moved as rounding a constant moves them.
    Roundoff,
    /// Elements moved, as the shadow is rounded on the way.
    Steps,
    /// Elements moved: another mathematics.
    Mathematics,
}

/// Tells why an output stands as it does.
pub(super) fn tell_story(evidence: &Evidence) -> Story {
    if evidence.is_unsteady {
        return Story::Unsteady;
    }
    let story = evidence.story_by_value();
    match evidence.order {
        OrderEvidence::Independent => story,
        OrderEvidence::OnBothSides => story.with_order(false),
        OrderEvidence::New => story.with_order(true),
    }
}

impl Evidence {
    /// The unexplained change of the shadow.
    pub(super) fn shadow_change(&self) -> Option<ShadowChange> {
        let shadow = self.shadow.as_ref()?;
        let last = shadow.steps.map_or(shadow.change, |steps| steps.change);
        Some(match self.shadow_cause(shadow) {
            ShadowCause::Nothing | ShadowCause::Mathematics => last,
            ShadowCause::Roundoff => ShadowChange { moved: 0, moved_by: 0.0, ..shadow.change },
            ShadowCause::Steps => ShadowChange { moved: 0, moved_by: 0.0, rounded: true, ..last },
        })
    }

    /// Whether half a unit in the last place is a good part of the errors, and one side errs further than the other.
    pub(super) fn asks_for_half_unit(&self) -> bool {
        self.unit_roundoff() > NARROW_ROUNDING
            && self.errors.is_some_and(|errors| {
                errors.got > ERROR_RATIO_BEYOND_NOISE * errors.base
                    || errors.base > ERROR_RATIO_BEYOND_NOISE * errors.got
            })
    }

    /// Whether the errors look like a loss of accuracy, ties included.
    pub(super) fn suspects_loss(&self) -> bool {
        self.errors.is_some_and(|errors| self.is_loss_at(errors.got))
    }

    /// Whether the errors look like a gain of accuracy around a shadow, ties included.
    pub(super) fn suspects_gain(&self) -> bool {
        self.shadow.is_some() && self.errors.is_some_and(|errors| self.is_gain_at(errors.base))
    }

    /// Whether the trusted noise may be the smaller one by so much that the other side rounds to fewer digits.
    pub(super) fn asks_for_lost_share(&self) -> bool {
        self.is_told_by_noise_alone() && self.is_coarser(self.got_rounding, self.base_rounding)
    }

    /// The reverse of [`Evidence::asks_for_lost_share`].
    pub(super) fn asks_for_gained_share(&self) -> bool {
        self.is_told_by_noise_alone() && self.is_coarser(self.base_rounding, self.got_rounding)
    }

    /// Whether elements beyond noise are excused if both sides err alike: the mathematics must be the same.
    pub(super) fn asks_whether_sides_err_alike(&self) -> bool {
        let is_same = match &self.shadow {
            Some(shadow) => self.shadow_cause(shadow) != ShadowCause::Mathematics,
            // The shadows of integers beyond noise are held against each other element by element.
            None => !self.dtype.is_float(),
        };
        self.agreement == Agreement::Diverged && is_same
    }

    /// The elements of a wrong output, if no rounding explains them; none where it is wrong or excused without.
    pub(super) fn asks_for_unexplained(&self) -> Option<Unexplained> {
        let is_open = self.agreement == Agreement::Diverged
            && self.order == OrderEvidence::Independent
            && !self.is_excused();
        if !is_open {
            return None;
        }
        match self.accuracy(true) {
            None | Some(Finding::LessAccurate) => Some(Unexplained::Any),
            Some(Finding::Imprecise) => Some(Unexplained::NewOrReversed),
            Some(Finding::Wrong | Finding::MoreAccurate | Finding::AsAccurate) => None,
        }
    }

    /// Whether the other side lost accuracy, though its own noise may excuse it.
    pub(super) fn has_lost_accuracy(&self) -> bool {
        self.loses_accuracy() || self.noise_grew()
    }

    /// How the shadow changed, if the output agrees.
    fn shadow_shift(&self) -> ShadowShift {
        match self.shadow_change() {
            Some(change) if change.changed > 0 => {
                if change.rounded {
                    ShadowShift::Rounded
                } else if change.changed_by > self.unit_roundoff() {
                    ShadowShift::BelowNoise
                } else {
                    ShadowShift::BelowDtype
                }
            }
            Some(_) => ShadowShift::None,
            None if self.agreement == Agreement::Equivalent => ShadowShift::Unseen,
            // The shadows of integers beyond noise are held against each other element by element.
            None => ShadowShift::None,
        }
    }

    fn story_by_value(&self) -> Story {
        let shadow = self.shadow_shift();
        match self.agreement {
            Agreement::Identical => Story::Agrees(Equivalence::Identical),
            Agreement::Equivalent => {
                if let Some(drift) = &self.drift {
                    Story::Drifted { drift: drift.clone(), accuracy: self.accuracy(true) }
                } else if self.has_moved() || self.has_lost_accuracy() {
                    self.divergence()
                } else {
                    let accuracy = self.accuracy(false);
                    Story::Agrees(Equivalence::WithinNoise { accuracy, shadow })
                }
            }
            Agreement::Diverged if self.is_excused() => {
                let accuracy = self.accuracy(false);
                Story::Agrees(Equivalence::ErrsAlike { accuracy, shadow })
            }
            Agreement::Diverged => {
                if self.is_unexplained && self.asks_for_unexplained().is_some() {
                    Story::Wrong(WrongBy::Distance)
                } else {
                    self.divergence()
                }
            }
        }
    }

    /// The story of a diverging output, by its accuracy.
    fn divergence(&self) -> Story {
        match self.accuracy(true) {
            Some(Finding::Wrong) => Story::Wrong(match self.agreement {
                Agreement::Identical | Agreement::Equivalent => WrongBy::HiddenShadow,
                Agreement::Diverged => WrongBy::Shadow,
            }),
            Some(Finding::Imprecise) => Story::Imprecise(match self.shadow_change() {
                None => ImpreciseBy::Noise,
                Some(change) if change.rounded => ImpreciseBy::RoundedShadow,
                Some(_) => ImpreciseBy::SameShadow,
            }),
            Some(Finding::LessAccurate) => Story::LessAccurate,
            Some(Finding::MoreAccurate) => Story::MoreAccurate,
            Some(Finding::AsAccurate) => Story::AsAccurate,
            None => Story::BeyondNoise { order_dependent: false },
        }
    }

    /// The finding by the truth on an output, whether it `diverges` or not.
    fn accuracy(&self, diverges: bool) -> Option<Finding> {
        let Some(errors) = &self.errors else { return self.accuracy_without_truth() };
        if self.noise_grew() {
            return Some(Finding::Imprecise);
        }
        let is_within_noise = self.agreement == Agreement::Equivalent;
        Some(match self.accuracy_by_errors(errors) {
            Finding::AsAccurate | Finding::MoreAccurate if self.gains_accuracy() => {
                Finding::MoreAccurate
            }
            Finding::Wrong => Finding::Wrong,
            // Within noise a loss or gain counts from where it is told.
            _ if is_within_noise && !diverges => Finding::AsAccurate,
            finding => finding,
        })
    }

    /// The finding by roundings and the shadows of integers within noise, where no truth is known.
    fn accuracy_without_truth(&self) -> Option<Finding> {
        if self.agreement != Agreement::Equivalent {
            None
        } else if self.has_moved() {
            Some(Finding::Wrong)
        } else if self.noise_grew() {
            Some(Finding::Imprecise)
        } else if self.gains_accuracy() {
            Some(Finding::MoreAccurate)
        } else {
            None
        }
    }

    /// The meaning of the errors. An output that comes closer to a declared oracle is more accurate even if its mathematics
    /// changed: so does a repair. Without one the trusted shadow is the truth, and another shadow is wrong, as it is where
    /// rounding hides it from an oracle that was rounded itself.
    fn accuracy_by_errors(&self, errors: &ErrorEvidence) -> Finding {
        let noise = self.base_rounding;
        let is_closer = errors.got * ERROR_RATIO_BEYOND_NOISE < errors.base && errors.base > noise;
        let is_further = errors.got.is_nan()
            || errors.got > ERROR_RATIO_BEYOND_NOISE * errors.base.max(noise)
            || self.is_loss_at(errors.got);
        let is_hidden = self.agreement == Agreement::Equivalent;
        if is_closer && (errors.by_oracle || !self.has_moved()) {
            Finding::MoreAccurate
        } else if self.has_moved() && (is_further || is_hidden || !errors.by_oracle) {
            Finding::Wrong
        } else if is_further && self.shadow.is_none() {
            Finding::LessAccurate
        } else if is_further {
            Finding::Imprecise
        } else {
            Finding::AsAccurate
        }
    }

    /// Whether elements beyond noise are excused.
    fn is_excused(&self) -> bool {
        self.errs_alike && self.asks_whether_sides_err_alike()
    }

    /// Whether the mathematics is another one.
    fn has_moved(&self) -> bool {
        self.shadow.is_some_and(|shadow| self.shadow_cause(&shadow) == ShadowCause::Mathematics)
    }

    fn shadow_cause(&self, shadow: &ShadowEvidence) -> ShadowCause {
        let has_moved = shadow.change.moved > 0;
        if shadow.is_roundoff && has_moved {
            return ShadowCause::Roundoff;
        }
        let Some(steps) = &shadow.steps else {
            return if has_moved { ShadowCause::Mathematics } else { ShadowCause::Nothing };
        };
        // Where the outputs show a change, only its meaning is left to say.
        let is_shown = self.agreement == Agreement::Diverged && steps.explain_most;
        // Its own shadow, rounded alike, would show no loss.
        let is_lost = shadow.is_newly_rounded() && self.suspects_loss();
        if is_shown || is_lost {
            ShadowCause::Steps
        } else if steps.change.moved > 0 {
            ShadowCause::Mathematics
        } else if has_moved {
            ShadowCause::Steps
        } else {
            ShadowCause::Nothing
        }
    }

    /// Whether the error around the truth grew to a loss, and not by ties alone.
    fn loses_accuracy(&self) -> bool {
        let Some(errors) = &self.errors else { return false };
        let is_rounded = self.shadow.is_some_and(|shadow| shadow.is_newly_rounded());
        let is_loss_without_ties =
            errors.got_without_ties.is_none_or(|error| self.is_loss_at(error));
        self.suspects_loss() && (is_rounded || is_loss_without_ties)
    }

    /// Whether the other side gained as much as a loss is told from: by its error around a shadow that is the same, or
    /// by noise where there are no shadows of both sides.
    fn gains_accuracy(&self) -> bool {
        let is_same = self.shadow.is_some() && !self.has_moved();
        let by_error = is_same
            && self.suspects_gain()
            && self.errors.is_some_and(|errors| {
                errors.base_without_ties.is_none_or(|error| self.is_gain_at(error))
            });
        let is_large = self.gained_share.is_some_and(|share| share >= LOST_SHARE);
        by_error || self.asks_for_gained_share() && is_large && !self.noise_grew()
    }

    /// Whether the other side rounds to fewer digits by the noise of both.
    fn noise_grew(&self) -> bool {
        let is_large = self.lost_share.is_some_and(|share| share >= LOST_SHARE);
        self.asks_for_lost_share() && is_large
    }

    /// Whether noise alone tells: there are no shadows of both sides.
    fn is_told_by_noise_alone(&self) -> bool {
        self.agreement == Agreement::Equivalent && self.shadow.is_none() && self.dtype.is_float()
    }

    /// Whether roundings move one side by `coarse`, so much further than the other by `precise` that it rounds to fewer
    /// digits.
    fn is_coarser(&self, coarse: f64, precise: f64) -> bool {
        coarse > ERROR_RATIO_WITHIN_NOISE * precise.max(self.unit_roundoff())
    }

    /// Whether the other side lost accuracy if its error is `got_error`.
    fn is_loss_at(&self, got_error: f64) -> bool {
        self.errors.is_some_and(|errors| {
            let before = SideError { error: errors.base, rounding: self.base_rounding };
            let after = SideError { error: got_error, rounding: self.got_rounding };
            self.is_loss(&before, &after)
        })
    }

    /// Whether it gained accuracy if the error of the trusted side is `base_error`.
    fn is_gain_at(&self, base_error: f64) -> bool {
        self.errors.is_some_and(|errors| {
            let before = SideError { error: errors.got, rounding: self.got_rounding };
            let after = SideError { error: base_error, rounding: self.base_rounding };
            self.is_loss(&before, &after)
        })
    }

    /// Whether an error that grew from `before` to `after` is a loss: by so much that no other order of operations costs it,
    /// or by less to as much as a narrow format costs. The noise of that side is then as large as its error, and would
    /// excuse it.
    ///
    /// A single rounding to the output's format errs by half a unit at most, and directed rounding moves it by a whole
    /// one: so much of the trusted noise says nothing of the steps before.
    fn is_loss(&self, before: &SideError, after: &SideError) -> bool {
        let noisy_error = before.error.max(before.rounding);
        if after.error > ERROR_RATIO_WITHIN_NOISE * noisy_error.max(self.unit_roundoff()) {
            return true;
        }
        let least_loss =
            NARROW_ROUNDING.max(self.half_unit).max(ERROR_RATIO_BEYOND_NOISE * before.error);
        let inner_rounding = before.rounding - 2.0 * self.half_unit;
        let is_beyond_rounding = after.error > ERROR_RATIO_BEYOND_NOISE * inner_rounding
            && after.error > self.ratio_by_chance() * before.error;
        after.error > least_loss
            && (is_beyond_rounding || self.is_coarser(after.rounding, before.rounding))
    }

    /// The ratio that errors of equal roundings in so few elements may have by chance; 1 in the limit of many elements.
    ///
    /// The logarithm of the ratio of two root mean squares of `n` normal numbers each has a standard deviation of about
    /// `1 / sqrt(n)` (half of Fisher's z, R. A. Fisher, *Statistical Methods for Research Workers*, section 41).
    fn ratio_by_chance(&self) -> f64 {
        self.elements.map_or(1.0, |elements| (CHANCE_DEVIATIONS / (elements as f64).sqrt()).exp())
    }

    fn unit_roundoff(&self) -> f64 {
        ulp(self.dtype, 1.0) / 2.0
    }
}

impl ShadowEvidence {
    /// Whether most of the change is that the other shadow is rounded on the way to a format of fewer digits, as the
    /// trusted one is not.
    fn is_newly_rounded(&self) -> bool {
        self.steps.is_some_and(|steps| {
            self.moved_at_first
                && !steps.are_on_both_sides
                && steps.explain_a_part
                && (steps.change.moved == 0 || steps.explain_most)
        })
    }
}
