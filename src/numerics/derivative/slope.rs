//! The slope of a loss along a direction, from both sides, at two lengths.

use std::ops::Range;

use crate::numerics::constants::{CANCELLATION_FACTOR, NOISE_FACTOR, SMOOTH_SHARE};
use crate::tensor::parts;
use crate::tensor::step::{Class, Step, Unit};

use super::Question;

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
    /// How far the gradient may be off because it is rounded on the way.
    pub allowed: f64,
}

/// The gradient along a direction.
#[derive(Clone, Copy)]
pub(super) struct Along {
    /// Its inner product with the direction.
    pub expected: f64,
    /// Its norm over the elements that move, in their scales.
    pub norm: f64,
    /// How far rounding on the way moves the product.
    pub rounded: f64,
    /// The elements that move.
    pub elements: usize,
}

/// Elements whose terms are added up by one thread, in their order.
const PART: usize = 1 << 20;
/// Elements that are read at a time.
const BLOCK: usize = 1 << 10;

/// The gradient along the direction of `probe`.
pub(super) fn along(question: &Question, probe: &Probe) -> Along {
    let one = probe.unit_step();
    let sums = each_part(&one.among, |range| [Sums::of(question, &one, range)]);
    Along::of(sums.iter().map(|[sums]| sums))
}

/// The gradient along the direction of `probe` for each class, whichever the probe's is.
pub(super) fn along_each(question: &Question, probe: &Probe) -> [Along; 3] {
    let one = probe.unit_step();
    let sums = each_part(&one.among, |range| Sums::of_all(question, &one, range));
    [0, 1, 2].map(|class| Along::of(sums.iter().map(|sums| &sums[class])))
}

/// What `make` gives for each part of `among`.
fn each_part<T: Clone + Default + Send>(
    among: &Range<usize>,
    make: impl Fn(Range<usize>) -> T + Sync,
) -> Vec<T> {
    let mut parts = vec![T::default(); among.len().div_ceil(PART)];
    parts::fill(parts::cores(), &mut parts, 1, PART, |first, parts| {
        for (number, part) in parts.iter_mut().enumerate() {
            let start = among.start + (first + number) * PART;
            *part = make(start..among.end.min(start + PART));
        }
    });
    parts
}

impl Along {
    fn of<'s>(parts: impl Iterator<Item = &'s Sums>) -> Along {
        let whole = parts.fold(Sums::default(), |whole, part| Sums {
            expected: whole.expected + part.expected,
            squares: whole.squares + part.squares,
            rounded: whole.rounded + part.rounded,
            elements: whole.elements + part.elements,
        });
        let Sums { expected, squares, rounded, elements } = whole;
        Along { expected, norm: squares.sqrt(), rounded: rounded.sqrt(), elements }
    }
}

/// The terms of an [`Along`] over some elements.
#[derive(Clone, Copy, Default)]
struct Sums {
    expected: f64,
    squares: f64,
    /// The squares of how far rounding on the way moves the terms.
    rounded: f64,
    elements: usize,
}

impl Sums {
    fn of(question: &Question, one: &Step, range: Range<usize>) -> Sums {
        let mut sums = Sums::default();
        each_block(question, range, |start, values, gradients| {
            one.distances(question.scales, start, values);
            for (&moved, &gradient) in values.iter().zip(gradients) {
                sums.add(moved, gradient);
            }
            if let Some(spread) = question.rounded {
                let terms = values.iter().enumerate().map(|(at, x)| x * spread.at(start + at));
                sums.rounded += terms.map(|term| term * term).sum::<f64>();
            }
        });
        sums
    }

    /// The same for each class.
    fn of_all(question: &Question, one: &Step, range: Range<usize>) -> [Sums; 3] {
        let mut sums = [Sums::default(); 3];
        let ordinary = Step { class: Class::Ordinary, ..one.clone() };
        let mut moved = [0.0; BLOCK];
        each_block(question, range, |start, values, gradients| {
            let moved = &mut moved[..values.len()];
            moved.copy_from_slice(values);
            ordinary.distances(question.scales, start, moved);
            let mut are_ordinary = true;
            for (&moved, &gradient) in moved.iter().zip(gradients) {
                sums[Class::Ordinary as usize].add(moved, gradient);
                are_ordinary &= moved != 0.0;
            }
            if are_ordinary {
                return;
            }
            one.distances_of_all(question.scales, start, values, |at, class, moved| {
                if class != Class::Ordinary {
                    sums[class as usize].add(moved, gradients[at]);
                }
            });
        });
        sums
    }

    fn add(&mut self, moved: f64, gradient: f64) {
        // Elements that do not move are not multiplied: their gradient may be infinite.
        if moved != 0.0 {
            let term = moved * gradient;
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
    let (mut values, mut gradients) = ([0.0; BLOCK], [0.0; BLOCK]);
    for start in range.clone().step_by(BLOCK) {
        let count = BLOCK.min(range.end - start);
        let (values, gradients) = (&mut values[..count], &mut gradients[..count]);
        question.input.read(start, values);
        question.gradient.read(start, gradients);
        take(start, values, gradients);
    }
}

impl Slope {
    /// The slope that `values` tell, the losses after the probe's steps.
    pub(super) fn of(question: &Question, probe: Probe, values: &[Option<f64>]) -> Slope {
        let Along { expected, norm, rounded, .. } = along(question, &probe);
        let allowed = NOISE_FACTOR * rounded;
        let (base, length) = (question.loss, LADDER[probe.rung].1);
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

    /// The difference of derivative and gradient, beyond what rounding on the way explains.
    pub(super) fn mismatch(&self) -> f64 {
        let apart = (self.derivative - self.expected).abs();
        if apart <= self.allowed { 0.0 } else { apart }
    }

    /// Whether the steps cross no kink.
    pub(super) fn is_smooth(&self) -> bool {
        self.is_smooth_within(SMOOTH_SHARE * self.size())
    }

    /// Whether sides and lengths agree up to `tolerance`.
    pub(super) fn is_smooth_within(&self, tolerance: f64) -> bool {
        self.error <= tolerance.max(CANCELLATION_FACTOR * self.rounding)
    }

    /// Whether it is more precise than `other`, a slope along the same elements.
    pub(super) fn is_better(&self, other: &Slope) -> bool {
        let relative = |slope: &Slope| slope.error / slope.size();
        self.is_smooth() || relative(self) < relative(other)
    }
}
