//! The slope of a loss along a direction, from both sides, at two lengths.

use std::ops::Range;

use crate::constants::{
    CANCELLATION_FACTOR, COARSEST_MISMATCH, NOISE_FACTOR, SLOPE_ERROR_FACTOR, SLOPE_FLOOR,
    SMOOTH_SHARE,
};
use replay_base::tensor::parallel;
use replay_base::tensor::step::{Step, StepClass, StepUnit};

use super::{HiddenChange, Question};

/// The step lengths to try, in the scales of the elements. The first leaves a cancellation error near
/// 1e-11. The two behind it cross fewer kinks. The fourth changes no sign. The last resolves
/// derivatives far smaller than the loss. The two behind it are for a loss whose rounding hides these, too.
pub(super) const LADDER: [(StepUnit, f64); 7] = [
    (StepUnit::Row, 1.0 / (1 << 17) as f64),
    (StepUnit::Row, 1.0 / (1 << 20) as f64),
    (StepUnit::Row, 1.0 / (1 << 23) as f64),
    (StepUnit::Own, 1.0 / (1 << 20) as f64),
    (StepUnit::Row, 1.0 / (1 << 12) as f64),
    (StepUnit::Row, 1.0 / (1 << 9) as f64),
    (StepUnit::Row, 1.0 / (1 << 6) as f64),
];

/// The rung with the longest steps for a loss of which nothing is known: rounding matters least to it.
pub(super) const LONGEST: usize = 4;

/// Values of the loss for one slope.
pub(super) const VALUES: usize = 4;

/// Values of the loss for the slopes along both halves of some elements.
pub(super) const BOTH_HALVES: usize = 2 * VALUES;

/// Elements, a direction and a length.
#[derive(Clone, Debug)]
pub(super) struct SlopeProbe {
    /// The seed of the direction.
    pub seed: u64,
    /// The moving elements.
    pub class: StepClass,
    /// The range of their indices.
    pub among: Range<usize>,
    /// The others.
    pub without: Vec<Range<usize>>,
    /// The length, in [`LADDER`].
    pub rung: usize,
    /// The known rounding error of the loss.
    pub rounding: f64,
}

impl SlopeProbe {
    /// The steps before each value of the loss.
    pub(super) fn steps(&self) -> [Step; VALUES] {
        let length = LADDER[self.rung].1;
        let lengths = [length, -length, length / 2.0, -length / 2.0];
        lengths.map(|length| Step { length, ..self.unit_step() })
    }

    /// A step of length 1, however long it is.
    pub(super) fn unit_step(&self) -> Step {
        Step {
            seed: self.seed,
            class: self.class,
            among: self.among.clone(),
            without: self.without.clone(),
            unit: LADDER[self.rung].0,
            length: 1.0,
            constraint: None,
        }
    }
}

/// The derivative of the loss along a direction, by differences and by the gradient.
#[derive(Clone, Debug)]
pub(super) struct Slope {
    /// The probe behind it.
    pub probe: SlopeProbe,
    /// By differences.
    pub derivative: f64,
    /// By the gradient.
    pub expected: f64,
    /// The norm of the gradient over the moving elements, in their scales.
    pub norm: f64,
    /// The error of the derivative: the largest of the disagreement of the two lengths, that of the
    /// two sides, and the rounding of the loss.
    pub error: f64,
    /// The part of the error from the rounding of the loss.
    pub rounding: f64,
    /// How far the gradient may be off because it is rounded on the way.
    pub allowed: f64,
}

/// The gradient along a direction.
#[derive(Clone, Copy)]
pub(super) struct DirectionalGradient {
    /// Its inner product with the direction.
    pub expected: f64,
    /// Its norm over the moving elements, in their scales.
    pub norm: f64,
    /// How far rounding on the way moves the product.
    pub rounded: f64,
    /// The moving elements.
    pub elements: usize,
}

/// Elements whose terms are added up by one thread, in their order.
const PART: usize = 1 << 20;
/// Elements of one read.
const BLOCK: usize = 1 << 10;

/// The gradient along the direction of `probe`.
pub(super) fn directional_gradient(question: &Question, probe: &SlopeProbe) -> DirectionalGradient {
    let unit_step = probe.unit_step();
    let sums = each_part(&unit_step.among, |range| {
        [DirectionalSums::sum_range(question, &unit_step, range)]
    });
    DirectionalGradient::from_sums(sums.iter().map(|[sums]| sums))
}

/// The gradient along the direction of `probe` for each class, whichever the probe's is.
pub(super) fn along_each(question: &Question, probe: &SlopeProbe) -> [DirectionalGradient; 3] {
    let unit_step = probe.unit_step();
    let sums =
        each_part(&unit_step.among, |range| DirectionalSums::of_all(question, &unit_step, range));
    [0, 1, 2].map(|class| DirectionalGradient::from_sums(sums.iter().map(|sums| &sums[class])))
}

/// What `make` gives for each part of `among`.
fn each_part<T: Clone + Default + Send>(
    among: &Range<usize>,
    make: impl Fn(Range<usize>) -> T + Sync,
) -> Vec<T> {
    let mut parts = vec![T::default(); among.len().div_ceil(PART)];
    parallel::fill_in_parallel(parallel::count_cores(), &mut parts, 1, PART, |first, parts| {
        for (number, part) in parts.iter_mut().enumerate() {
            let start = among.start + (first + number) * PART;
            *part = make(start..among.end.min(start + PART));
        }
    });
    parts
}

impl DirectionalGradient {
    fn from_sums<'s>(parts: impl Iterator<Item = &'s DirectionalSums>) -> DirectionalGradient {
        let total_sums =
            parts.fold(DirectionalSums::default(), |sums_before, part| DirectionalSums {
                expected: sums_before.expected + part.expected,
                squares: sums_before.squares + part.squares,
                rounded: sums_before.rounded + part.rounded,
                elements: sums_before.elements + part.elements,
            });
        let DirectionalSums { expected, squares, rounded, elements } = total_sums;
        DirectionalGradient { expected, norm: squares.sqrt(), rounded: rounded.sqrt(), elements }
    }
}

/// The terms of an [`DirectionalGradient`] over some elements.
#[derive(Clone, Copy, Default)]
struct DirectionalSums {
    expected: f64,
    squares: f64,
    /// The squares of how far rounding on the way moves the terms.
    rounded: f64,
    elements: usize,
}

impl DirectionalSums {
    fn sum_range(question: &Question, unit_step: &Step, range: Range<usize>) -> DirectionalSums {
        let mut sums = DirectionalSums::default();
        each_block(question, range, |start, values, gradients| {
            unit_step.distances(question.scales, start, values);
            for (&step_distance, &gradient) in values.iter().zip(gradients) {
                sums.add(step_distance, gradient);
            }
            if let Some(spread) = question.rounded {
                let terms = values
                    .iter()
                    .enumerate()
                    .map(|(offset, x)| x * spread.value_at(start + offset));
                sums.rounded += terms.map(|term| term * term).sum::<f64>();
            }
        });
        sums
    }

    /// The same for each class.
    fn of_all(question: &Question, unit_step: &Step, range: Range<usize>) -> [DirectionalSums; 3] {
        let mut sums = [DirectionalSums::default(); 3];
        let ordinary = Step { class: StepClass::Ordinary, ..unit_step.clone() };
        let mut step_distances = [0.0; BLOCK];
        each_block(question, range, |start, values, gradients| {
            let step_distances = &mut step_distances[..values.len()];
            step_distances.copy_from_slice(values);
            ordinary.distances(question.scales, start, step_distances);
            let mut are_ordinary = true;
            for (&step_distance, &gradient) in step_distances.iter().zip(gradients) {
                sums[StepClass::Ordinary as usize].add(step_distance, gradient);
                are_ordinary &= step_distance != 0.0;
            }
            if are_ordinary {
                return;
            }
            unit_step.distances_of_all(
                question.scales,
                start,
                values,
                |offset, class, step_distance| {
                    if class != StepClass::Ordinary {
                        sums[class as usize].add(step_distance, gradients[offset]);
                    }
                },
            );
        });
        sums
    }

    fn add(&mut self, step_distance: f64, gradient: f64) {
        // Only moving elements are multiplied: the gradient of others may be infinite.
        if step_distance != 0.0 {
            let term = step_distance * gradient;
            self.expected += term;
            self.squares += term * term;
            self.elements += 1;
        }
    }
}

/// Gives the elements of the input and of the gradient in `range` to `take`, a block at a time, with the
/// index of the first.
fn each_block(
    question: &Question,
    range: Range<usize>,
    mut take: impl FnMut(usize, &mut [f64], &[f64]),
) {
    let mut values = [0.0; BLOCK];
    let mut gradients = [0.0; BLOCK];
    for start in range.clone().step_by(BLOCK) {
        let count = BLOCK.min(range.end - start);
        let values = &mut values[..count];
        let gradients = &mut gradients[..count];
        question.input.read(start, values);
        question.gradient.read(start, gradients);
        take(start, values, gradients);
    }
}

impl Slope {
    /// The slope by `values`, the losses after the probe's steps.
    pub(super) fn from_losses(
        question: &Question,
        probe: SlopeProbe,
        values: &[Option<f64>],
    ) -> Slope {
        let DirectionalGradient { expected, norm, rounded, .. } =
            directional_gradient(question, &probe);
        let allowed = NOISE_FACTOR * rounded;
        let base = question.loss;
        let length = LADDER[probe.rung].1;
        let rounding = probe.rounding / length;
        let slope = |derivative, error| Slope {
            probe: probe.clone(),
            derivative,
            expected,
            norm,
            error,
            rounding,
            allowed,
        };
        let &[Some(right), Some(left), Some(near_right), Some(near_left)] = values else {
            return slope(f64::NAN, f64::INFINITY);
        };
        let coarse = (right - left) / (2.0 * length);
        let fine = (near_right - near_left) / length;
        // Richardson's extrapolation of the central difference (Press et al., Numerical Recipes,
        // section 5.7) cancels the error term of the squared length. For each side alone it cancels
        // the term of the length itself.
        let derivative = (4.0 * fine - coarse) / 3.0;
        let from_right = (4.0 * near_right - 3.0 * base - right) / length;
        let from_left = (3.0 * base - 4.0 * near_left + left) / length;
        let truncation = (fine - coarse).abs() / 3.0;
        // Rounding moves the sides by three times as much as the derivative, a kink by twice as
        // much.
        let sides = (from_right - from_left).abs() / 4.0;
        let error = truncation.max(sides).max(rounding);
        if error.is_nan() { slope(f64::NAN, f64::INFINITY) } else { slope(derivative, error) }
    }

    /// A rounding error of the loss large enough for the whole error.
    pub(super) fn rounding_seen(&self) -> f64 {
        self.error * LADDER[self.probe.rung].1
    }

    /// The scale of mismatches.
    pub(super) fn size(&self) -> f64 {
        // A NaN of the gradient counts as a mismatch, not here.
        self.norm.max(self.derivative.abs())
    }

    /// The difference of derivative and gradient, beyond rounding on the way.
    pub(super) fn mismatch(&self) -> f64 {
        let difference = (self.derivative - self.expected).abs();
        if difference <= self.allowed { 0.0 } else { difference }
    }

    /// Whether the steps cross no kink.
    pub(super) fn is_smooth(&self) -> bool {
        self.is_smooth_within(self.smooth_share() * self.size())
    }

    /// The share of the size up to which an error shows no kink. The longest steps bend more.
    pub(super) fn smooth_share(&self) -> f64 {
        if self.probe.rung > LONGEST {
            COARSEST_MISMATCH / SLOPE_ERROR_FACTOR
        } else {
            SMOOTH_SHARE
        }
    }

    /// Whether derivative and gradient are zero on the longest steps of [`LADDER`].
    pub(super) fn is_flat(&self) -> bool {
        let is_longest = self.probe.rung == LADDER.len() - 1;
        is_longest && self.size() == 0.0 && self.error <= self.rounding
    }

    /// Whether the rounding of the loss makes the error, and it is too large to tell a mismatch.
    pub(super) fn is_hidden(&self) -> bool {
        let tells = SLOPE_ERROR_FACTOR * self.error <= COARSEST_MISMATCH * self.size();
        !tells && self.is_rounded()
    }

    /// Whether the rounding of the loss makes the error.
    pub(super) fn is_rounded(&self) -> bool {
        self.error <= CANCELLATION_FACTOR * self.rounding
    }

    /// Whether there is a mismatch that the rounding of the loss may have made, or hides.
    pub(super) fn may_have_rounded_mismatch(&self) -> bool {
        let mismatch = self.mismatch();
        let is_within = mismatch <= SLOPE_ERROR_FACTOR * self.error;
        self.is_rounded() && is_within && mismatch > SLOPE_FLOOR * self.size()
    }

    /// How far one step changes the loss by the gradient, and the rounding that hides it.
    pub(super) fn hidden_change(&self) -> HiddenChange {
        let length = LADDER[self.probe.rung].1;
        HiddenChange { change: self.norm * length, rounding: self.probe.rounding }
    }

    /// Whether sides and lengths agree up to `tolerance`.
    pub(super) fn is_smooth_within(&self, tolerance: f64) -> bool {
        self.error <= tolerance.max(CANCELLATION_FACTOR * self.rounding)
    }

    /// Whether it is more precise than `other`, a slope along the same elements.
    pub(super) fn is_better(&self, other: &Slope) -> bool {
        self.is_smooth() || self.error / self.size() < other.error / other.size()
    }
}
