//! One gradient against its loss, in every document that tells of gradients.

use serde::Serialize;

use replay_base::summary::OptionalNumber;
use replay_base::tensor::constraint::Constraint;
use replay_engine::judge::{
    GradientCheck, GradientPlace, GradientStory, GradientVerdict, StraightThrough,
};

/// One gradient against its loss.
#[derive(Serialize, schemars::JsonSchema)]
#[schemars(rename = "GradientCheck")]
pub(super) struct CheckedGradient<'a> {
    /// The output that is declared to be a gradient.
    output: &'a str,
    /// The input that it is the gradient with respect to.
    gradient_of: &'a str,
    /// The output that is differentiated; none where the harness has no loss.
    of: &'a [String],
    /// The declared constraint of the input: the check moves it along this alone.
    constraint: Option<Constraint>,
    /// For a mismatch, the constraint that the input lies on and along which the gradient matches.
    matches_along: Option<Constraint>,
    /// Whether it was taken as a straight-through gradient, as the harness declares it.
    straight_through: bool,
    /// What rounding to integers is in its loss, if so.
    rounding_to_integers: Option<StraightThrough>,
    /// The verdict.
    verdict: GradientVerdict,
    /// What it was held against: slopes of the loss in float64, or differences of the loss that the native sources compute.
    against: Option<GradientReference>,
    /// Why it is unknown, has no better check, or imprecise in the shadow too; where it was seen, if not at the captured inputs.
    reason: Option<String>,
    /// Directions that count: those along which the loss is smooth.
    directions: u64,
    /// The directions of a full check.
    of_directions: u64,
    /// The elements of the input.
    elements: usize,
    /// The elements that the directions move: the others lie on kinks, or cannot be moved.
    checked: usize,
    /// The largest mismatch, relative to the gradient's norm; null where it was not checked.
    #[serde(with = "OptionalNumber")]
    worst: Option<f64>,
    /// The error of the slopes, relative to the gradient's norm; null where it was not checked.
    #[serde(with = "OptionalNumber")]
    error: Option<f64>,
    /// A place where the gradient does not match the loss, if there is one.
    place: Option<&'a GradientPlace>,
    /// The native gradient's distance from the shadow's, relative in L2; null where it was not checked.
    #[serde(with = "OptionalNumber")]
    native_error: Option<f64>,
    /// The largest such distance of an element, as a multiple of its noise; null where it was not checked.
    #[serde(with = "OptionalNumber")]
    native_ratio: Option<f64>,
}

/// What a gradient was held against.
#[derive(Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum GradientReference {
    /// Slopes of the loss in float64.
    Shadow,
    /// Differences of the loss that the native sources compute: a weaker check.
    NativeDifferences,
}

impl GradientReference {
    /// That of a check with `story`; none where there was no check.
    fn of_story(story: &GradientStory) -> Option<GradientReference> {
        match story {
            GradientStory::Unchecked(_) => None,
            GradientStory::NearDifferences { .. } | GradientStory::FarFromDifferences { .. } => {
                Some(GradientReference::NativeDifferences)
            }
            GradientStory::Beside { story, .. } => GradientReference::of_story(story),
            GradientStory::Matches
            | GradientStory::ImpreciseOutput
            | GradientStory::RoundedShadow
            | GradientStory::Mismatch => Some(GradientReference::Shadow),
        }
    }
}

/// `checks`, as documents have them.
pub(super) fn checked_gradients(checks: &[GradientCheck]) -> Vec<CheckedGradient<'_>> {
    checks.iter().map(checked_gradient).collect()
}

/// `check`, as documents have it.
pub(super) fn checked_gradient(check: &GradientCheck) -> CheckedGradient<'_> {
    let is_measured = !matches!(check.story, GradientStory::Unchecked(_));
    let measured = |number: f64| is_measured.then_some(number);
    CheckedGradient {
        output: &check.output,
        gradient_of: &check.gradient_of,
        of: &check.of,
        constraint: check.constraint,
        matches_along: check.matches_along,
        straight_through: check.straight_through.is_some(),
        rounding_to_integers: check.straight_through,
        verdict: check.story.verdict(),
        against: GradientReference::of_story(&check.story),
        reason: check.story.reason(),
        directions: check.directions,
        of_directions: check.of_directions,
        elements: check.elements,
        checked: check.checked,
        worst: measured(check.worst),
        error: measured(check.error),
        place: check.place.as_ref(),
        native_error: measured(check.native_error),
        native_ratio: measured(check.native_ratio),
    }
}
