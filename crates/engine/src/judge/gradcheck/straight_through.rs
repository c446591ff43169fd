//! Straight-through gradients: those of a loss in which rounding to integers has a slope of one. The first replay records
//! argument and result of each such rounding. Beside the captured inputs a rounded number is that of the record, plus
//! the change of its argument.

use std::ops::Range;
use std::path::Path;

use super::{
    GradientCheck, GradientChecker, GradientStory, LossTerm, MovedInput, StraightThrough,
    UncheckedGradient, create_blank_check, create_unlocated_check,
};
use crate::backend::{Ability, Mode, ReplayError};
use crate::judge::gradient_budget::SlopeError;
use crate::worker::{Ending, Run};
use replay_base::summary::POISON_A;
use replay_base::tensor::step::Step;
use replay_numerics::derivative::{Question, RoundedLoss, ScaleAnswer, explain_by_held_scales};
use replay_runtime::cpu::Rounding;
use replay_runtime::cpu::roundings::TOO_MANY_ROUNDINGS;

/// The most groups of elements, each with a scale of its own, that are looked at.
const MOST_GROUPS: usize = 16;
/// A gradient of this share of another one is zero but for rounding.
const VANISHING: f64 = 1e-9;

impl GradientChecker<'_> {
    /// The check by the loss that the harness means.
    pub(super) fn check(&self) -> Result<GradientCheck, ReplayError> {
        if self.output.straight_through {
            return match self.check_straight_through()? {
                Some(check) => Ok(check),
                None => self.check_as_it_rounds(),
            };
        }
        let check = self.check_as_it_rounds()?;
        let may_be_staircase = matches!(
            check.story,
            GradientStory::Mismatch
                | GradientStory::Unchecked(
                    UncheckedGradient::NotSmooth | UncheckedGradient::IntegerStaircase { .. }
                )
        );
        let straight = if may_be_staircase { self.check_straight_through()? } else { None };
        let why = match straight.map(|straight| straight.story) {
            Some(
                GradientStory::Matches
                | GradientStory::Unchecked(
                    UncheckedGradient::HeldScale { .. }
                    | UncheckedGradient::OpenScale
                    | UncheckedGradient::OtherRoundings
                    | UncheckedGradient::ManyRoundings,
                ),
            ) => UncheckedGradient::Staircase(self.output.name.clone()),
            Some(GradientStory::Unchecked(
                why @ (UncheckedGradient::TooLong { .. }
                | UncheckedGradient::OutOfTime
                | UncheckedGradient::IntegersBeside { .. }),
            )) => why,
            _ => return Ok(check),
        };
        Ok(create_unlocated_check(&check).cannot(why))
    }

    /// The check with a slope at rounding to integers. None where there is no such rounding behind loss and gradient, or
    /// nothing can be done about it.
    fn check_straight_through(&self) -> Result<Option<GradientCheck>, ReplayError> {
        let rounding = Rounding::Passed;
        if !self.shadow.can(Ability::PassedRounding) {
            return Ok(None);
        }
        let base = self.shadow.run(&Mode { rounding, ..Mode::plain(POISON_A) })?;
        let moves = |name: &String| {
            let outputs = self.base.output(name).zip(base.output(name));
            outputs.is_some_and(|(rounded, passed)| rounded.bytes != passed.bytes)
        };
        let has_moved = self.output.of.iter().chain([&self.output.name]).any(moves);
        if base.ending != Ending::Completed || !has_moved {
            return Ok(None);
        }
        let straight = self.check_at_bounds(self.check_with_slope(Rounding::Recorded)?)?;
        let straight = mark_check(straight, StraightThrough::Slope);
        let GradientStory::Unchecked(why) = &straight.story else { return Ok(Some(straight)) };
        let is_scale = straight.elements == 1 || self.vanishes_unrounded(&base);
        match why {
            // A learned scale holds nothing constant.
            UncheckedGradient::HeldScale { .. } | UncheckedGradient::OpenScale if is_scale => {
                return Ok(Some(GradientCheck { story: GradientStory::Mismatch, ..straight }));
            }
            UncheckedGradient::HeldScale { is_everywhere: true } => {
                let held = mark_check(straight, StraightThrough::SlopeOfHeldScale);
                let held = create_unlocated_check(&held);
                return Ok(Some(GradientCheck { story: GradientStory::Matches, ..held }));
            }
            UncheckedGradient::HeldScale { .. }
            | UncheckedGradient::OpenScale
            | UncheckedGradient::NotSmooth
            | UncheckedGradient::OtherRoundings
            | UncheckedGradient::NoRecord => {}
            _ => return Ok(Some(straight)),
        }
        let part = self.part.clone();
        let unrounded =
            GradientChecker { base: &base, part, rounding, ..*self }.check_as_it_rounds()?;
        Ok(Some(match (&unrounded.story, why) {
            (GradientStory::Mismatch, _) if !self.places().is_empty() => {
                let places = self.places().clone();
                create_unlocated_check(&straight)
                    .cannot(UncheckedGradient::IntegersBeside { places })
            }
            (GradientStory::Matches, UncheckedGradient::HeldScale { .. }) => {
                mark_check(unrounded, StraightThrough::SlopeOfHeldScale)
            }
            (
                GradientStory::Matches,
                UncheckedGradient::OpenScale | UncheckedGradient::OtherRoundings,
            ) => create_unlocated_check(&straight),
            (GradientStory::Mismatch, UncheckedGradient::OpenScale) => {
                GradientCheck { story: GradientStory::Mismatch, ..straight }
            }
            (
                GradientStory::Unchecked(_),
                UncheckedGradient::HeldScale { .. } | UncheckedGradient::OpenScale,
            ) => create_unlocated_check(&straight),
            _ => mark_check(unrounded, StraightThrough::Unrounded),
        }))
    }

    /// `check`, or a better one with rounded numbers beside the bounds that they lie on where they are cut off.
    fn check_at_bounds(&self, check: GradientCheck) -> Result<GradientCheck, ReplayError> {
        let is_partial = check.story == GradientStory::Matches && check.checked < check.elements;
        let is_rough = matches!(
            check.story,
            GradientStory::Unchecked(
                UncheckedGradient::NotSmooth
                    | UncheckedGradient::OtherRoundings
                    | UncheckedGradient::OpenScale
            )
        );
        if !is_rough && !is_partial {
            return Ok(check);
        }
        let inside = self.check_with_slope(Rounding::RecordedInside)?;
        // A gradient that rounds otherwise, by integers, may match at integers alone.
        let is_better = if is_partial || !self.places().is_empty() {
            inside.story == GradientStory::Matches && inside.checked > check.checked
        } else {
            inside.story.is_about_slopes()
        };
        Ok(if is_better { inside } else { check })
    }

    /// Whether the gradient is zero in `passed`, where nothing is rounded: the loss depends on its input by rounding errors
    /// alone, as on a learned scale.
    fn vanishes_unrounded(&self, passed: &Run) -> bool {
        let norm = |run: &Run| {
            let gradient = run.output(&self.output.name)?;
            let squares = (0..gradient.len()).map(|index| gradient.get_f64(index).powi(2));
            Some(squares.sum::<f64>().sqrt())
        };
        norm(passed)
            .zip(norm(self.base))
            .is_some_and(|(passed_norm, rounded_norm)| passed_norm <= VANISHING * rounded_norm)
    }

    /// The check by a loss whose rounded numbers move as their arguments do, from those of a replay with `rounding`.
    fn check_with_slope(&self, rounding: Rounding) -> Result<GradientCheck, ReplayError> {
        let folder = self.trial.lab().cache().scratch()?;
        let file = folder.path().join("roundings");
        let record = Some(file.clone());
        let run = self.shadow.run(&Mode { rounding, record, ..Mode::plain(POISON_A) })?;
        let is_long = match &run.ending {
            Ending::Fault(fault) => fault.what == TOO_MANY_ROUNDINGS,
            Ending::Unable(message) => message.contains(TOO_MANY_ROUNDINGS),
            _ => false,
        };
        if is_long {
            return Ok(create_blank_check(self.output).cannot(UncheckedGradient::ManyRoundings));
        }
        let is_recorded = std::fs::metadata(&file).is_ok_and(|file| file.len() > 0);
        if run.ending != Ending::Completed || !is_recorded {
            return Ok(create_blank_check(self.output).cannot(UncheckedGradient::NoRecord));
        }
        let checker = self.with_record(Rounding::Straight, &file);
        GradientChecker { base: &run, ..checker }.check_as_it_rounds()
    }

    fn with_record<'r>(&'r self, rounding: Rounding, file: &'r Path) -> GradientChecker<'r> {
        GradientChecker { part: self.part.clone(), rounding, record: Some(file), ..*self }
    }

    /// Why scales of rounded numbers leave it open whether the gradient of `question` is wrong, which does not match the
    /// loss of this check; none where they do not.
    pub(super) fn doubt_by_scales(
        &self,
        question: &Question,
        terms: &[LossTerm<'_>],
        moved_input: &MovedInput,
    ) -> Result<Option<ScaleDoubt>, SlopeError> {
        let Some(file) = self.record else { return Ok(None) };
        let held = self.with_record(Rounding::Held, file);
        let mut trouble = None;
        let mut ask = |loss, steps: &[Step]| {
            self.budget.admit(steps.len())?;
            let checker = match loss {
                RoundedLoss::Straight => self,
                RoundedLoss::Held => &held,
            };
            Ok::<_, SlopeError>(checker.losses(terms, moved_input, steps, &mut trouble)?)
        };
        for groups in list_groupings(question.input.shape) {
            match explain_by_held_scales(question, &groups, &mut ask)? {
                ScaleAnswer::NoScale => return Ok(None),
                ScaleAnswer::Held { worst } => {
                    let seen: usize = groups.iter().map(|group| group.len()).sum();
                    let is_everywhere = seen == question.input.len();
                    let why = UncheckedGradient::HeldScale { is_everywhere };
                    return Ok(Some(ScaleDoubt { why, worst: Some(worst) }));
                }
                ScaleAnswer::Other => {}
            }
        }
        Ok(Some(ScaleDoubt { why: UncheckedGradient::OpenScale, worst: None }))
    }
}

/// Why a mismatch may be meant, where scales of rounded numbers move with the input.
pub(super) struct ScaleDoubt {
    pub why: UncheckedGradient,
    /// The mismatch that is left with constant scales, relative to the norm.
    pub worst: Option<f64>,
}

/// `check` by this meaning of rounding.
fn mark_check(check: GradientCheck, meaning: StraightThrough) -> GradientCheck {
    GradientCheck { straight_through: Some(meaning), ..check }
}

/// The elements that may share a scale, in a tensor of `shape`: all of them, those of a row, those of one first index.
fn list_groupings(shape: &[usize]) -> Vec<Vec<Range<usize>>> {
    let elements: usize = shape.iter().product();
    let mut sizes = vec![elements];
    for size in [shape.last().copied(), shape.first().map(|&count| elements / count.max(1))] {
        sizes.extend(size.filter(|size| *size > 1 && !sizes.contains(size)));
    }
    sizes
        .into_iter()
        .map(|size| {
            let groups = elements / size;
            let picked = groups.min(MOST_GROUPS);
            let starts = (0..picked).map(|number| number * groups / picked * size);
            starts.map(|start| start..start + size).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_may_be_shared_by_all_elements_by_rows_or_by_what_has_one_first_index() {
        let told = |shape: &[usize]| format!("{:?}", list_groupings(shape));
        assert_eq!(told(&[2, 2, 3]), "[[0..12], [0..3, 3..6, 6..9, 9..12], [0..6, 6..12]]");
        assert_eq!(told(&[4]), "[[0..4]]");
        assert_eq!(told(&[5, 1]), "[[0..5]]");
    }

    #[test]
    fn of_many_groups_some_are_looked_at_all_over_the_tensor() {
        let rows = &list_groupings(&[1000, 8])[1];
        assert_eq!(rows.len(), MOST_GROUPS);
        assert_eq!(rows[0], 0..8);
        assert!(rows[MOST_GROUPS - 1].start > 7400);
    }
}
