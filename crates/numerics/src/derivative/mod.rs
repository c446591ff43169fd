//! Checks a gradient against its loss: finite differences of the loss along random directions,
//! against the inner product of the gradient with the direction. Needs no reference.
//!
//! The loss is a float64 program, known only by its values near the captured input. It may have kinks,
//! and inputs often lie on them. So the differences on both sides are compared. Where they disagree,
//! bisection finds the elements on kinks; these are left out. Bisection also finds an element whose
//! gradient is wrong.

mod halves;
mod held;
mod native;
mod slope;
mod stairs;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::constants::{
    CANCELLATION_FACTOR, COARSEST_MISMATCH, DIRECTION_ROUNDS, SLOPE_ERROR_FACTOR, SLOPE_FLOOR,
};
use crate::noise::Spread;
use replay_base::tensor::TensorView;
use replay_base::tensor::step::{Scales, Step, StepClass};

pub use held::{RoundedLoss, ScaleAnswer, explain_by_held_scales};
pub use native::{
    NativeAnswer, NativeDoubt, NativeFinding, NativeQuestion, check_by_native_differences,
};
use slope::{DirectionalGradient, LADDER, LONGEST, Slope, SlopeProbe};
pub use stairs::{has_jump, is_staircase};

/// The seed of the directions.
const SEED: u64 = 0x6772_6164;

/// The lengths of steps that no constant feels, in the scales of rows.
const CONSTANT_LENGTHS: [f64; 4] = [0.25, -0.25, 2.0, -2.0];

/// A loss and its declared gradient.
pub struct Question<'a> {
    /// The input that is stepped.
    pub input: TensorView<'a>,
    /// The scales of the input's rows.
    pub scales: &'a Scales,
    /// The declared gradient with respect to the input, of the same length.
    pub gradient: TensorView<'a>,
    /// The loss at the input.
    pub loss: f64,
    /// The sum of the magnitudes of the loss's terms: its rounding is in proportion to it.
    pub magnitude: f64,
    /// How far rounding moves the loss, as far as that was measured: terms inside of it may be larger.
    pub rounding: f64,
    /// Directions for each class of elements.
    pub directions: u64,
    /// The most values of the loss to ask for.
    pub budget: usize,
    /// How far rounding on the way moves each element of the gradient, where it is rounded so.
    pub rounded: Option<&'a Spread>,
}

impl Question<'_> {
    /// Whether a loss that rounding moves by `rounding` has so much larger terms inside of it than it shows that these may
    /// explain `finding`.
    pub fn may_explain(&self, rounding: f64, finding: &GradientFinding) -> bool {
        let larger = rounding / (f64::EPSILON * self.magnitude);
        let is_beyond = finding.worst > SLOPE_ERROR_FACTOR * finding.error * larger;
        larger > CANCELLATION_FACTOR && !is_beyond
    }
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GradientAnswer {
    /// It is the gradient of the loss.
    Agrees,
    /// It is not.
    Differs,
    /// Most elements lie on kinks, or their derivatives cannot be resolved.
    Unknown,
    /// The loss cannot be computed beside the input.
    NoLoss,
}

/// The gradient against the loss.
#[derive(Clone, Debug, PartialEq)]
pub struct GradientFinding {
    /// Whether it is the gradient.
    pub answer: GradientAnswer,
    /// Directions that count: those along which the loss is smooth.
    pub directions: u64,
    /// Elements that they move.
    pub checked: usize,
    /// The largest mismatch, relative to the norm of the gradient. If the gradient differs, it is that
    /// of the elements where it does; if it agrees, that of all elements. Norms are in the scales of
    /// the elements.
    pub worst: f64,
    /// The error of the slopes, relative to the same.
    pub error: f64,
    /// Where the gradient differs.
    pub place: Option<GradientMismatch>,
    /// If the answer is unknown because rounding hides the changes of the loss: these.
    pub hidden: Option<HiddenChange>,
}

/// A change of the loss that its rounding hides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HiddenChange {
    /// How far one step changes the loss by the gradient.
    pub change: f64,
    /// The rounding of the loss.
    pub rounding: f64,
}

/// Elements whose gradient differs from the slope of the loss.
#[derive(Clone, Debug, PartialEq)]
pub struct GradientMismatch {
    /// Their row-major indices. More than one where a single one cannot be resolved.
    pub elements: Range<usize>,
    /// The slope that the gradient predicts for a step of length 1 along them.
    pub gradient: f64,
    /// The slope of the loss.
    pub slope: f64,
}

/// The least error of a gradient that shows beside slopes with `error`, both relative to its norm.
pub fn least_visible_error(error: f64) -> f64 {
    (SLOPE_ERROR_FACTOR * error).max(SLOPE_FLOOR)
}

/// Answers `question`. `ask` returns the loss after each of some steps, or none where it has no
/// value.
///
/// # Errors
/// Those of `ask`.
pub fn check_derivative<E>(
    question: &Question,
    ask: impl FnMut(&[Step]) -> Result<Vec<Option<f64>>, E>,
) -> Result<GradientFinding, E> {
    let mut search = SlopeSearch { question, ask, left: question.budget };
    let mut classes = Vec::new();
    for (class, whole_gradient) in StepClass::ALL.into_iter().zip(search.moved_of_each()) {
        if whole_gradient.elements > 0 {
            classes.push(search.class(class, whole_gradient)?);
        }
    }
    Ok(combine_classes(&classes))
}

/// The result for the elements of one class.
struct OfClass {
    /// Those that were moved along the slopes that count.
    checked: usize,
    elements: usize,
    /// The slopes that count.
    slopes: Vec<Slope>,
    /// The norm of the gradient, in the scales of the elements: of those that were moved, of all.
    norms: [f64; 2],
    /// Whether the loss had no value at any step.
    is_lossless: bool,
    /// Whether the gradient is zero, and no step moves the loss by a bit. Then they agree, though nothing is there to be
    /// resolved.
    is_constant: bool,
    place: Option<GradientMismatch>,
}

impl OfClass {
    fn size(&self) -> f64 {
        self.slopes.iter().map(Slope::size).fold(0.0, f64::max)
    }

    /// The size without slopes that tell nothing: these may be of any size.
    fn telling_size(&self) -> f64 {
        let size = self.size();
        if self.allowed() <= COARSEST_MISMATCH * size { size } else { self.norms[0] }
    }

    fn worst(&self) -> f64 {
        // Beside a gradient without a finite norm every mismatch would look small.
        if !self.size().is_finite() {
            return f64::NAN;
        }
        self.slopes.iter().map(Slope::mismatch).fold(0.0, nan_max)
    }

    fn error(&self) -> f64 {
        self.slopes.iter().map(|slope| slope.error).fold(0.0, nan_max)
    }

    /// A mismatch up to this says nothing.
    fn allowed(&self) -> f64 {
        (SLOPE_ERROR_FACTOR * self.error()).max(SLOPE_FLOOR * self.size())
    }

    /// A NaN never passes.
    fn differs(&self) -> bool {
        self.worst().is_nan() || self.worst() > self.allowed()
    }
}

fn combine_classes(classes: &[OfClass]) -> GradientFinding {
    let total = classes.iter().map(OfClass::telling_size).fold(0.0, f64::max);
    let resolved = classes.iter().filter(|class| {
        !class.slopes.is_empty()
            && (class.differs()
                || class.is_constant
                || class.allowed() <= COARSEST_MISMATCH * total)
    });
    let resolved: Vec<&OfClass> = resolved.collect();
    let checked = resolved.iter().map(|class| class.checked).sum();
    let elements: usize = classes.iter().map(|class| class.elements).sum();
    let checked_square = resolved.iter().map(|class| class.norms[0].powi(2)).sum::<f64>();
    let whole_square = classes.iter().map(|class| class.norms[1].powi(2)).sum::<f64>();
    let covers_most = checked * 2 >= elements && checked > 0 || checked_square * 2.0 > whole_square;
    let differing = resolved.iter().find(|class| class.differs());
    let answer = match differing {
        Some(_) => GradientAnswer::Differs,
        None if classes.iter().all(|class| class.is_lossless) => GradientAnswer::NoLoss,
        None if !covers_most => GradientAnswer::Unknown,
        None => GradientAnswer::Agrees,
    };
    // If nothing differs, mismatches are negligible beside the whole, if not beside their own class.
    let size = |class: &OfClass| if differing.is_some() { class.size() } else { total };
    let relative = |class: &OfClass, x: f64| if size(class) > 0.0 { x / size(class) } else { x };
    let largest = |quantity: fn(&OfClass) -> f64| {
        let reported_classes = differing.map_or(&resolved[..], std::slice::from_ref);
        reported_classes.iter().map(|class| relative(class, quantity(class))).fold(0.0, nan_max)
    };
    GradientFinding {
        answer,
        directions: resolved.iter().map(|class| class.slopes.len() as u64).max().unwrap_or(0),
        checked,
        worst: largest(OfClass::worst),
        error: largest(OfClass::error),
        place: differing.and_then(|class| class.place.clone()),
        hidden: match answer {
            GradientAnswer::Unknown => find_hidden_change(classes),
            GradientAnswer::Agrees | GradientAnswer::Differs | GradientAnswer::NoLoss => None,
        },
    }
}

/// The change of the loss that rounding hides in the class with the largest gradient, if it does.
fn find_hidden_change(classes: &[OfClass]) -> Option<HiddenChange> {
    let largest = classes.iter().max_by(|a, b| a.norms[1].total_cmp(&b.norms[1]))?;
    let hidden_slopes = largest.slopes.iter().filter(|slope| slope.is_hidden());
    let hidden_changes =
        hidden_slopes.map(Slope::hidden_change).filter(|hidden| hidden.change > 0.0);
    hidden_changes.max_by(|a, b| a.change.total_cmp(&b.change))
}

/// Asks for slopes until the question is answered.
struct SlopeSearch<'q, F> {
    question: &'q Question<'q>,
    ask: F,
    /// Values of the loss that may still be asked for.
    left: usize,
}

impl<E, F: FnMut(&[Step]) -> Result<Vec<Option<f64>>, E>> SlopeSearch<'_, F> {
    /// Checks the elements of `class`, which are `whole_gradient`, without those on kinks.
    fn class(
        &mut self,
        class: StepClass,
        whole_gradient: DirectionalGradient,
    ) -> Result<OfClass, E> {
        let blank = || OfClass {
            checked: 0,
            elements: whole_gradient.elements,
            slopes: Vec::new(),
            norms: [0.0, whole_gradient.norm],
            is_lossless: false,
            is_constant: false,
            place: None,
        };
        let mut without: Vec<Range<usize>> = Vec::new();
        let mut moved_gradient = whole_gradient;
        let mut is_lossless = true;
        let mut class_result = blank();
        for _ in 0..DIRECTION_ROUNDS {
            let slopes = self.climb(class, &without)?;
            is_lossless &= slopes.iter().all(|slope| slope.error.is_infinite());
            let (smooth, rough): (Vec<Slope>, Vec<Slope>) =
                slopes.into_iter().partition(Slope::is_smooth);
            let enough = !smooth.is_empty() && smooth.len() >= rough.len();
            let mut of_class = blank();
            if enough {
                of_class.checked = moved_gradient.elements;
                of_class.norms[0] = moved_gradient.norm;
                of_class.slopes = smooth;
            }
            let is_left_over = !without.is_empty() && self.left < slope::BOTH_HALVES;
            let kinks = if enough && of_class.differs() && is_left_over {
                // Kinks that were not found may cancel in the sides, and nobody can look.
                of_class = blank();
                Vec::new()
            } else if enough && of_class.differs() {
                let (place, kinks) = self.follow(&of_class.slopes)?;
                of_class.place = place;
                if !kinks.is_empty() {
                    // The mismatch found may be due to the kinks.
                    of_class = blank();
                }
                kinks
            } else if let ([rough, ..], false) = (&rough[..], enough) {
                self.kinks(rough)?
            } else {
                Vec::new()
            };
            let is_done = kinks.is_empty();
            class_result = of_class;
            if is_done || self.left < self.fewest() {
                break;
            }
            without = unite_ranges(without, kinks);
            moved_gradient = self.moved(class, &without);
            if moved_gradient.elements == 0 {
                class_result = blank();
                break;
            }
        }
        let is_constant = self.finds_constant(&class_result.slopes)?;
        Ok(OfClass { is_lossless, is_constant, ..class_result })
    }

    /// Whether the loss and the gradient along `slopes` are those of a constant: steps as long as the elements' scale move
    /// it by no bit, either. A staircase is flat on short steps alone.
    fn finds_constant(&mut self, slopes: &[Slope]) -> Result<bool, E> {
        if slopes.is_empty() || !slopes.iter().all(Slope::is_flat) {
            return Ok(false);
        }
        let steps = slopes.iter().flat_map(|slope| {
            CONSTANT_LENGTHS.map(|length| Step { length, ..slope.probe.unit_step() })
        });
        let steps: Vec<Step> = steps.collect();
        if self.left < steps.len() {
            return Ok(false);
        }
        self.left -= steps.len();
        let losses = (self.ask)(&steps)?;
        Ok(losses.iter().all(|loss| *loss == Some(self.question.loss)))
    }

    /// The gradient along all of each class.
    fn moved_of_each(&self) -> [DirectionalGradient; 3] {
        slope::along_each(self.question, &self.all_but(StepClass::Ordinary, &[]))
    }

    /// The gradient along all of `class` but `without`.
    fn moved(&self, class: StepClass, without: &[Range<usize>]) -> DirectionalGradient {
        slope::directional_gradient(self.question, &self.all_but(class, without))
    }

    fn all_but(&self, class: StepClass, without: &[Range<usize>]) -> SlopeProbe {
        let among = 0..self.question.input.len();
        SlopeProbe { seed: SEED, class, among, without: without.to_vec(), rung: 0, rounding: 0.0 }
    }

    /// A lower bound of the rounding error of the loss.
    fn least_rounding(&self) -> f64 {
        let magnitude = self.question.magnitude;
        // Terms that cancel altogether, or saturate, say nothing of their size.
        let of_terms = f64::EPSILON * if magnitude > 0.0 { magnitude } else { 1.0 };
        of_terms.max(self.question.rounding)
    }

    /// Values of the loss that one round of all directions needs.
    fn fewest(&self) -> usize {
        self.question.directions as usize * slope::VALUES
    }

    /// The slope along each direction at the first step that shows no kink, or at the step with the
    /// smallest error if all show one. Where rounding hides it, longer steps may tell.
    fn climb(&mut self, class: StepClass, without: &[Range<usize>]) -> Result<Vec<Slope>, E> {
        let whole_probe = |seed| SlopeProbe {
            seed: SEED + seed,
            class,
            among: 0..self.question.input.len(),
            without: without.to_vec(),
            rung: 0,
            rounding: self.least_rounding(),
        };
        let first = (0..self.question.directions).map(whole_probe).collect();
        let mut best = self.slopes(first)?;
        // The rounding of the loss, if all of the error is rounding: the error then grows as steps
        // shrink, unlike that of a kink.
        let mut rounding: Vec<f64> = best.iter().map(Slope::rounding_seen).collect();
        for rung in 1..=LONGEST {
            let rough: Vec<usize> =
                (0..best.len()).filter(|&index| !best[index].is_smooth()).collect();
            if rough.is_empty() || self.left < slope::VALUES * rough.len() {
                break;
            }
            let probe = |&index: &usize| {
                let is_known = rung == LONGEST && rounding[index].is_finite();
                let rounding = if is_known { rounding[index] } else { self.least_rounding() };
                SlopeProbe { rung, rounding, ..best[index].probe.clone() }
            };
            let slopes = self.slopes(rough.iter().map(probe).collect())?;
            for (index, slope) in rough.into_iter().zip(slopes) {
                rounding[index] = rounding[index].min(slope.rounding_seen());
                if slope.is_better(&best[index]) {
                    best[index] = slope;
                }
            }
        }
        self.lengthen(&mut best)?;
        Ok(best)
    }

    /// Takes longer steps where rounding hides `slopes`, or may have made a mismatch of any of them, as far as they tell
    /// more.
    fn lengthen(&mut self, slopes: &mut [Slope]) -> Result<(), E> {
        for rung in LONGEST..LADDER.len() {
            let is_open = slopes.iter().any(Slope::may_have_rounded_mismatch);
            let hidden: Vec<usize> = (0..slopes.len())
                .filter(|&index| {
                    let slope = &slopes[index];
                    (slope.is_hidden() || is_open && slope.is_rounded()) && slope.probe.rung < rung
                })
                .collect();
            if hidden.is_empty() || self.left < slope::VALUES * hidden.len() {
                break;
            }
            let probe = |&index: &usize| SlopeProbe { rung, ..slopes[index].probe.clone() };
            let longer_slopes = self.slopes(hidden.iter().map(probe).collect())?;
            for (index, longer) in hidden.into_iter().zip(longer_slopes) {
                if longer.is_smooth() && longer.error < slopes[index].error {
                    slopes[index] = longer;
                }
            }
        }
        Ok(())
    }

    /// The slope of the loss along each probe.
    fn slopes(&mut self, probes: Vec<SlopeProbe>) -> Result<Vec<Slope>, E> {
        let steps: Vec<Step> = probes.iter().flat_map(SlopeProbe::steps).collect();
        self.left = self.left.saturating_sub(steps.len());
        let losses = (self.ask)(&steps)?;
        let values = losses.chunks_exact(slope::VALUES);
        let slope = |(probe, values)| Slope::from_losses(self.question, probe, values);
        Ok(probes.into_iter().zip(values).map(slope).collect())
    }
}

/// The union of ranges, in order and apart.
fn unite_ranges(
    mut ranges: Vec<Range<usize>>,
    more_ranges: Vec<Range<usize>>,
) -> Vec<Range<usize>> {
    ranges.extend(more_ranges);
    ranges.sort_by_key(|range| range.start);
    let mut separate_ranges: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match separate_ranges.last_mut().filter(|last| range.start <= last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => separate_ranges.push(range),
        }
    }
    separate_ranges
}

/// The larger of two, NaN if either is: a NaN never passes.
fn nan_max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}
