//! The slope of a loss along a direction, from both sides, at two lengths.

use std::ops::Range;

use crate::tensor::step::{Class, Scales, Step, Unit};

use super::{Question, SMOOTH};

/// The step lengths to try, in the scales of the elements. The first leaves a cancellation error near
/// 1e-11. The two behind it cross fewer kinks. The fourth changes no sign. The last resolves
/// derivatives that are small beside the loss.
pub(super) const LADDER: [(Unit, f64); 5] = [
    (Unit::Row, 1.0 / (1 << 17) as f64),
    (Unit::Row, 1.0 / (1 << 20) as f64),
    (Unit::Row, 1.0 / (1 << 23) as f64),
    (Unit::Own, 1.0 / (1 << 20) as f64),
    (Unit::Row, 1.0 / (1 << 12) as f64),
];

/// The rung with the longest steps, which rounding matters least to.
pub(super) const LONGEST: usize = LADDER.len() - 1;

/// Values of the loss that make one slope.
pub(super) const VALUES: usize = 4;

/// A cancellation error may be this many times the rounding of the loss alone.
const CANCELLATION: f64 = 8.0;

/// Elements, a direction and a length.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    /// The seed of the direction.
    pub seed: u64,
    /// The elements that move.
    pub class: Class,
    /// The indices among which they lie.
    pub among: Range<usize>,
    /// Those that stay.
    pub without: Vec<Range<usize>>,
    /// The length, in [`LADDER`].
    pub rung: usize,
    /// The known rounding error of the loss.
    pub rounding: f64,
}

impl Probe {
    /// The steps after which the loss is asked for.
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
        }
    }
}

/// The derivative of the loss along a direction, by differences and by the gradient.
#[derive(Clone, Debug)]
pub(super) struct Slope {
    /// The probe that was made.
    pub probe: Probe,
    /// By differences.
    pub derivative: f64,
    /// By the gradient.
    pub expected: f64,
    /// The norm of the gradient over the elements that move, in their scales.
    pub norm: f64,
    /// The error of the derivative: the largest of the disagreement of the two lengths, that of the
    /// two sides, and the rounding of the loss.
    pub error: f64,
    /// The part of the error that the rounding of the loss makes.
    pub rounding: f64,
}

/// The gradient along a direction.
#[derive(Clone, Copy)]
pub(super) struct Along {
    /// Its inner product with the direction.
    pub expected: f64,
    /// Its norm over the elements that move, in their scales.
    pub norm: f64,
    /// The elements that move.
    pub elements: usize,
}

/// The gradient along the direction of `probe`.
pub(super) fn along(question: &Question, scales: &Scales, probe: &Probe) -> Along {
    let one = probe.unit_step();
    let (mut expected, mut squares, mut elements) = (0.0, 0.0, 0);
    for index in probe.among.clone() {
        let moved = one.of(scales, index, question.input.get_f64(index));
        // Elements that do not move are not multiplied: their gradient may be infinite.
        if moved != 0.0 {
            let term = moved * question.gradient.get_f64(index);
            expected += term;
            squares += term * term;
            elements += 1;
        }
    }
    Along { expected, norm: squares.sqrt(), elements }
}

impl Slope {
    /// The slope that `values` tell, the losses after the probe's steps.
    pub(super) fn of(
        question: &Question,
        scales: &Scales,
        probe: Probe,
        values: &[Option<f64>],
    ) -> Slope {
        let Along { expected, norm, .. } = along(question, scales, &probe);
        let (base, length) = (question.loss, LADDER[probe.rung].1);
        let rounding = probe.rounding / length;
        let slope = |derivative, error| Slope {
            probe: probe.clone(),
            derivative,
            expected,
            norm,
            error,
            rounding,
        };
        let &[Some(right), Some(left), Some(near_right), Some(near_left)] = values else {
            return slope(f64::NAN, f64::INFINITY);
        };
        let (coarse, fine) = ((right - left) / (2.0 * length), (near_right - near_left) / length);
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

    /// The rounding error of the loss that would explain the whole error.
    pub(super) fn rounding_seen(&self) -> f64 {
        self.error * LADDER[self.probe.rung].1
    }

    /// The scale that mismatches are relative to.
    pub(super) fn size(&self) -> f64 {
        // A NaN of the gradient counts as a mismatch, not here.
        self.norm.max(self.derivative.abs())
    }

    /// The difference of derivative and gradient.
    pub(super) fn mismatch(&self) -> f64 {
        (self.derivative - self.expected).abs()
    }

    /// Whether the steps cross no kink.
    pub(super) fn is_smooth(&self) -> bool {
        self.is_smooth_within(SMOOTH * self.size())
    }

    /// Whether sides and lengths agree up to `tolerance`.
    pub(super) fn is_smooth_within(&self, tolerance: f64) -> bool {
        self.error <= tolerance.max(CANCELLATION * self.rounding)
    }

    /// Whether it is more precise than `other`, a slope along the same elements.
    pub(super) fn is_better(&self, other: &Slope) -> bool {
        let relative = |slope: &Slope| slope.error / slope.size();
        self.is_smooth() || relative(self) < relative(other)
    }
}
