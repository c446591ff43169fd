//! Checks a gradient against differences of the native loss, where no float64 program computes it.
//!
//! This is far weaker than slopes of a shadow. The loss is rounded, so steps are long, and what is told is coarse: a
//! gradient that is off by tens of percent. Each step is rounded to the format of the input. So the gradient predicts the
//! change by the true displacements, and what is left over after them is the mismatch.

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::constants::{
    NATIVE_AGREEMENT, NATIVE_ERROR_FACTOR, NATIVE_LENGTHS, NATIVE_MISMATCH, NATIVE_PROJECTION,
    NATIVE_ROUNDINGS, NATIVE_STEADINESS,
};
use replay_base::tensor::constraint::Constraint;
use replay_base::tensor::step::{Scales, Step, StepClass, StepUnit, draw_bits, move_tensor};
use replay_base::tensor::{TensorView, parallel};

use super::SEED;

/// Directions along some elements. On kinks by chance one of them shows no error in a quarter of all cases.
const DRAWN_DIRECTIONS: u64 = 8;

/// Values of the loss for one slope.
const VALUES: usize = 4;

/// A native loss and its declared gradient.
pub struct NativeQuestion<'a> {
    /// The input that is stepped.
    pub input: TensorView<'a>,
    /// The scales of the input's rows.
    pub scales: &'a Scales,
    /// The constraint that steps keep.
    pub constraint: Option<Constraint>,
    /// The declared gradient with respect to the input, of the same length.
    pub gradient: TensorView<'a>,
    /// How far rounding moves the gradient, relative in L2.
    pub gradient_rounding: f64,
    /// The loss at the input.
    pub loss: f64,
    /// How far rounding moves the loss.
    pub rounding: f64,
    /// Directions for each class of elements.
    pub directions: u64,
    /// The most values of the loss to ask for, but for those that a conviction takes.
    pub budget: usize,
}

/// The result of a check by native differences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NativeAnswer {
    /// It agrees with them.
    Agrees,
    /// It is far from them.
    Differs,
    /// They tell nothing.
    Unknown(NativeDoubt),
}

/// Why native differences tell nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeDoubt {
    /// The loss has no value beside the input.
    NoLoss,
    /// The loss stays within its rounding beside the input.
    Flat,
    /// Rounding of the loss hides its slopes.
    Rounded,
    /// The slopes differ with the length of the step, or between its sides.
    Rough,
    /// Few elements carry the gradient, and their signs cancel in the directions.
    Unseen,
    /// The slopes lie off by too little to be told from their errors.
    Near,
}

/// The gradient against native differences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NativeFinding {
    /// The result.
    pub answer: NativeAnswer,
    /// The directions that count.
    pub directions: u64,
    /// The elements that they move.
    pub checked: usize,
    /// The mismatch, over the gradient's norm: the largest of a direction, or where the gradient differs their root mean
    /// square.
    pub off: f64,
    /// The error of the differences, over the same.
    pub error: f64,
}

/// Answers `question`. `ask` returns the native loss after each of some steps, or none where it has no value.
///
/// # Errors
/// Those of `ask`.
pub fn check_by_native_differences<E>(
    question: &NativeQuestion,
    mut ask: impl FnMut(&[Step]) -> Result<Vec<Option<f64>>, E>,
) -> Result<NativeFinding, E> {
    let mut left = question.budget;
    let mut classes = Vec::new();
    for class in StepClass::ALL {
        let elements = count_elements(question, class);
        if elements > 0 {
            let finding = check_class(question, class, &mut ask, &mut left)?;
            classes.push(ClassFinding { elements, ..finding });
        }
    }
    Ok(combine_classes(&classes))
}

fn count_elements(question: &NativeQuestion, class: StepClass) -> usize {
    let is_of_class = |index: &usize| {
        question.scales.class(*index, question.input.get_f64(*index)) == Some(class)
    };
    (0..question.input.len()).filter(is_of_class).count()
}

/// The result for the elements of one class.
#[derive(Clone, Copy)]
struct ClassFinding {
    answer: NativeAnswer,
    elements: usize,
    directions: u64,
    /// The length of the steps that tell it.
    length: f64,
    /// The norm of the gradient, in the scales of the elements.
    norm: f64,
    /// The larger of that and of the slopes.
    size: f64,
    off: f64,
    error: f64,
}

fn combine_classes(classes: &[ClassFinding]) -> NativeFinding {
    // The slopes of a class that does not agree may be those of jumps.
    let agreeing = classes.iter().filter(|class| class.answer == NativeAnswer::Agrees);
    let total = agreeing.map(|class| class.size).fold(0.0, f64::max);
    let differing = classes.iter().find(|class| class.answer == NativeAnswer::Differs);
    if let Some(class) = differing {
        return class.relative_to(class.size);
    }
    // What is small beside those that agree is known well enough.
    let is_known = |class: &&ClassFinding| {
        class.answer == NativeAnswer::Agrees || class.off + class.error <= NATIVE_AGREEMENT * total
    };
    let known: Vec<&ClassFinding> = classes.iter().filter(is_known).collect();
    let checked: usize = known.iter().map(|class| class.elements).sum();
    let elements: usize = classes.iter().map(|class| class.elements).sum();
    let square = |class: &ClassFinding| class.norm * class.norm;
    let known_square: f64 = known.iter().map(|class| square(class)).sum();
    let whole_square: f64 = classes.iter().map(square).sum();
    // Zeros that agree say nothing of elements that are not known.
    let covers_most = if whole_square > 0.0 {
        known_square * 2.0 > whole_square
    } else {
        checked > 0 && checked * 2 >= elements
    };
    if covers_most {
        let all = known.iter().map(|class| class.relative_to(total));
        let start = NativeFinding {
            answer: NativeAnswer::Agrees,
            directions: 0,
            checked,
            off: 0.0,
            error: 0.0,
        };
        return all.fold(start, |so_far, class| NativeFinding {
            directions: so_far.directions.max(class.directions),
            off: so_far.off.max(class.off),
            error: so_far.error.max(class.error),
            ..so_far
        });
    }
    let unknown = classes.iter().filter(|class| !is_known(class));
    let largest = unknown.max_by_key(|class| class.elements);
    largest.map_or(
        NativeFinding {
            answer: NativeAnswer::Unknown(NativeDoubt::NoLoss),
            directions: 0,
            checked: 0,
            off: 0.0,
            error: 0.0,
        },
        |class| class.relative_to(class.size),
    )
}

impl ClassFinding {
    /// The finding for these elements alone, its errors relative to `size`.
    fn relative_to(&self, size: f64) -> NativeFinding {
        let size = if size > 0.0 { size } else { 1.0 };
        NativeFinding {
            answer: self.answer,
            directions: self.directions,
            checked: self.elements,
            off: self.off / size,
            error: self.error / size,
        }
    }
}

/// Slopes along all directions, by steps of one length.
struct NativeSlopes {
    length: f64,
    /// Each one's; none where the loss has no value.
    slopes: Vec<Option<NativeSlope>>,
}

/// The difference of the loss along one direction that the gradient leaves over.
#[derive(Clone, Copy)]
struct NativeSlope {
    /// The slope that is left over: the mismatch.
    mismatch: f64,
    /// The slope by the gradient.
    expected: f64,
    /// The norm of the gradient over the moved elements, in their scales.
    norm: f64,
    /// The error of the mismatch.
    error: f64,
    /// Whether no value differs from the loss at the input by more than rounding.
    is_flat: bool,
}

/// The root mean square of `values`; 0 of none.
fn root_mean_square(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) =
        values.fold((0.0, 0usize), |(sum, count), value| (sum + value * value, count + 1));
    (sum / count.max(1) as f64).sqrt()
}

impl NativeSlopes {
    fn known(&self) -> impl Iterator<Item = &NativeSlope> {
        self.slopes.iter().flatten()
    }

    /// Whether most directions have a slope.
    fn has_most(&self) -> bool {
        self.known().count() * 2 > self.slopes.len()
    }

    fn mismatch(&self) -> f64 {
        root_mean_square(self.known().map(|slope| slope.mismatch))
    }

    fn error(&self) -> f64 {
        root_mean_square(self.known().map(|slope| slope.error))
    }

    fn norm(&self) -> f64 {
        root_mean_square(self.known().map(|slope| slope.norm))
    }

    /// The larger of the norm and of the slopes of the loss.
    fn size(&self) -> f64 {
        let slopes = self.known().map(|slope| slope.expected + slope.mismatch);
        self.norm().max(root_mean_square(slopes))
    }

    /// The largest mismatch, and its error, of the direction with the largest sum.
    fn worst(&self) -> (f64, f64) {
        let pairs = self.known().map(|slope| (slope.mismatch.abs(), slope.error));
        pairs.fold(
            (0.0, 0.0),
            |worst: (f64, f64), pair| {
                if pair.0 + pair.1 > worst.0 + worst.1 { pair } else { worst }
            },
        )
    }

    /// Whether no direction shows a mismatch.
    fn agrees(&self) -> bool {
        let (off, error) = self.worst();
        self.has_most() && off + error <= NATIVE_AGREEMENT * self.size() && self.sees_gradient()
    }

    /// Whether the directions tell of the gradient: where few elements carry it, their signs may cancel.
    fn sees_gradient(&self) -> bool {
        let expected = root_mean_square(self.known().map(|slope| slope.expected));
        expected >= NATIVE_PROJECTION * self.norm()
    }

    /// Whether `other`, at another length, has about the same mismatch in each direction.
    fn is_repeated_by(&self, other: &NativeSlopes) -> bool {
        let pairs = self.slopes.iter().zip(&other.slopes);
        let both: Vec<f64> = pairs
            .filter_map(|(own, other)| Some(own.as_ref()?.mismatch - other.as_ref()?.mismatch))
            .collect();
        let allowed = NATIVE_STEADINESS * self.mismatch();
        both.len() * 2 > self.slopes.len()
            && root_mean_square(both.into_iter()) <= allowed
            && other.error() <= allowed
    }

    /// The largest error of a direction.
    fn largest_error(&self) -> f64 {
        self.known().map(|slope| slope.error).fold(0.0, f64::max)
    }

    /// Whether it is far from the gradient, by itself.
    fn differs(&self, gradient_rounding: f64) -> bool {
        let mismatch = self.mismatch();
        let error = self.largest_error().max(gradient_rounding * self.norm());
        self.has_most()
            && mismatch >= NATIVE_MISMATCH * self.size()
            && mismatch >= NATIVE_ERROR_FACTOR * error
    }
}

fn check_class<E>(
    question: &NativeQuestion,
    class: StepClass,
    ask: &mut impl FnMut(&[Step]) -> Result<Vec<Option<f64>>, E>,
    left: &mut usize,
) -> Result<ClassFinding, E> {
    let dtype = question.input.dtype;
    let lengths = NATIVE_LENGTHS.iter().find(|(known, _)| *known == dtype);
    let lengths = lengths.map_or(&[][..], |(_, lengths)| lengths);
    let mut findings = Vec::new();
    // Steps of the row's scale may leave the domain of the loss, or cross its poles; those of the element's own do not.
    for unit in [StepUnit::Row, StepUnit::Own] {
        let mut all: Vec<NativeSlopes> = Vec::new();
        for &length in lengths {
            let values = VALUES * question.directions as usize;
            if *left < values {
                break;
            }
            *left -= values;
            let slopes = measure_slopes(question, class, (unit, length), &Elements::All, ask)?;
            if slopes.agrees() {
                return Ok(known(&slopes, NativeAnswer::Agrees));
            }
            all.push(slopes);
        }
        let mut finding = judge_slopes(question, &all);
        if let NativeAnswer::Differs = finding.answer {
            // Where all elements lie on kinks, their two sides may cancel along all of them: not along some.
            let along = (unit, finding.length);
            let slopes = measure_slopes(question, class, along, &Elements::Some, ask)?;
            if !slopes.differs(question.gradient_rounding) {
                finding.answer = NativeAnswer::Unknown(NativeDoubt::Rough);
            }
        }
        findings.push(finding);
    }
    let [by_row, by_own] = findings[..] else { return Ok(unresolved(NativeDoubt::NoLoss)) };
    Ok(join_units(class, by_row, by_own))
}

/// The result for a class by the results of steps of the row's scale and of the elements' own.
fn join_units(class: StepClass, by_row: ClassFinding, by_own: ClassFinding) -> ClassFinding {
    let has_no_loss = by_row.answer == NativeAnswer::Unknown(NativeDoubt::NoLoss);
    let finding = if has_no_loss { by_own } else { by_row };
    // A zero has no magnitude of its own, and lies on kinks and poles as no other number does.
    let is_convicted = class != StepClass::Zero && by_own.answer == NativeAnswer::Differs;
    match finding.answer {
        NativeAnswer::Differs if !is_convicted => {
            ClassFinding { answer: NativeAnswer::Unknown(NativeDoubt::Rough), ..finding }
        }
        _ => finding,
    }
}

fn unresolved(doubt: NativeDoubt) -> ClassFinding {
    ClassFinding {
        answer: NativeAnswer::Unknown(doubt),
        elements: 0,
        directions: 0,
        length: 0.0,
        norm: 0.0,
        size: 0.0,
        off: f64::INFINITY,
        error: f64::INFINITY,
    }
}

fn known(slopes: &NativeSlopes, answer: NativeAnswer) -> ClassFinding {
    let (off, error) = match answer {
        NativeAnswer::Differs => (slopes.mismatch(), slopes.error()),
        NativeAnswer::Agrees | NativeAnswer::Unknown(_) => slopes.worst(),
    };
    ClassFinding {
        answer,
        elements: 0,
        directions: slopes.known().count() as u64,
        length: slopes.length,
        norm: slopes.norm(),
        size: slopes.size(),
        off,
        error,
    }
}

/// The result of slopes at several lengths, none of which agrees with the gradient.
fn judge_slopes(question: &NativeQuestion, all: &[NativeSlopes]) -> ClassFinding {
    let with_most = all.iter().filter(|slopes| slopes.has_most());
    let best = with_most.min_by(|a, b| (a.error() / a.size()).total_cmp(&(b.error() / b.size())));
    let Some(best) = best else { return unresolved(NativeDoubt::NoLoss) };
    let is_repeated =
        || all.iter().any(|other| other.length != best.length && best.is_repeated_by(other));
    // Numbers that are rounded on purpose stay where they are, however far others lie.
    if best.known().all(|slope| slope.is_flat) {
        return known(best, NativeAnswer::Unknown(NativeDoubt::Flat));
    }
    if best.differs(question.gradient_rounding) && is_repeated() {
        return known(best, NativeAnswer::Differs);
    }
    let (_, error) = best.worst();
    let rounding = NATIVE_ROUNDINGS * question.rounding / best.length;
    let doubt = if error > NATIVE_AGREEMENT * best.size() && rounding * 2.0 >= error {
        NativeDoubt::Rounded
    } else if error > NATIVE_AGREEMENT * best.size()
        || best.mismatch() > NATIVE_MISMATCH * best.size()
    {
        NativeDoubt::Rough
    } else if !best.sees_gradient() {
        NativeDoubt::Unseen
    } else {
        NativeDoubt::Near
    };
    known(best, NativeAnswer::Unknown(doubt))
}

/// The elements of a class that a direction moves.
enum Elements {
    All,
    /// Half of them, drawn for each direction.
    Some,
}

/// The ranges of an input of `elements` that a direction leaves out: about half of it, drawn from `seed`.
fn draw_left_out(elements: usize, seed: u64) -> Vec<Range<usize>> {
    /// So many at most: they travel with each step.
    const MOST: usize = 1024;
    let each = elements.div_ceil(2 * MOST).max(1);
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    while start < elements {
        let draw = draw_bits(seed, start as u64);
        let end = elements.min(start + each / 2 + 1 + (draw >> 32) as usize % each);
        match ranges.last_mut() {
            _ if draw.is_multiple_of(2) => {}
            Some(last) if last.end == start => last.end = end,
            _ => ranges.push(start..end),
        }
        start = end;
    }
    ranges
}

/// The slopes of the loss along all directions, less those of the gradient.
fn measure_slopes<E>(
    question: &NativeQuestion,
    class: StepClass,
    (unit, length): (StepUnit, f64),
    moved: &Elements,
    ask: &mut impl FnMut(&[Step]) -> Result<Vec<Option<f64>>, E>,
) -> Result<NativeSlopes, E> {
    let elements = question.input.len();
    let directions = match moved {
        Elements::All => question.directions,
        Elements::Some => DRAWN_DIRECTIONS,
    };
    let steps = (0..directions).flat_map(|direction| {
        let seed = SEED + direction;
        let without = match moved {
            Elements::All => Vec::new(),
            Elements::Some => draw_left_out(elements, seed),
        };
        [length, -length, length / 2.0, -length / 2.0].map(|length| Step {
            seed,
            class,
            among: 0..elements,
            without: without.clone(),
            unit,
            length,
            constraint: question.constraint,
        })
    });
    let steps: Vec<Step> = steps.collect();
    let losses = ask(&steps)?;
    let pairs = steps.chunks_exact(VALUES).zip(losses.chunks_exact(VALUES));
    let slopes =
        pairs.map(|(steps, losses)| NativeSlope::from_losses(question, length, steps, losses));
    Ok(NativeSlopes { length, slopes: slopes.collect() })
}

impl NativeSlope {
    /// That of a direction, by the `losses` after its four `steps`; none if one has no value.
    fn from_losses(
        question: &NativeQuestion,
        length: f64,
        steps: &[Step],
        losses: &[Option<f64>],
    ) -> Option<NativeSlope> {
        let &[Some(right), Some(left), Some(near_right), Some(near_left)] = losses else {
            return None;
        };
        let losses = [right, left, near_right, near_left];
        let mut left_over = [0.0; VALUES];
        let mut predicted = [Prediction::default(); VALUES];
        for (index, loss) in losses.into_iter().enumerate() {
            predicted[index] = Prediction::of_step(question, &steps[index]);
            left_over[index] = loss - question.loss - predicted[index].change;
        }
        let [right, left, near_right, near_left] = left_over;
        let coarse = (right - left) / (2.0 * length);
        let fine = (near_right - near_left) / length;
        // As for slopes of a shadow: Richardson's extrapolation, and each side alone.
        let mismatch = (4.0 * fine - coarse) / 3.0;
        let from_right = (4.0 * near_right - right) / length;
        let from_left = (left - 4.0 * near_left) / length;
        let truncation = (fine - coarse).abs() / 3.0;
        let sides = (from_right - from_left).abs() / 4.0;
        let rounding = NATIVE_ROUNDINGS * question.rounding / length;
        let error = truncation.max(sides).max(rounding);
        let expected = (predicted[0].change - predicted[1].change) / (2.0 * length);
        let norm = predicted[0].squares.sqrt() / length;
        let is_flat =
            losses.iter().all(|loss| (loss - question.loss).abs() <= 2.0 * question.rounding);
        let slope = NativeSlope { mismatch, expected, norm, error, is_flat };
        let numbers = [mismatch, expected, norm, error];
        numbers.iter().all(|number| number.is_finite()).then_some(slope)
    }
}

/// The change of the loss by the gradient.
#[derive(Clone, Copy, Default)]
struct Prediction {
    change: f64,
    /// The sum of the squares of the elements' changes.
    squares: f64,
}

impl Prediction {
    /// That of `step`, as far as the format of the input lets the elements move.
    fn of_step(question: &NativeQuestion, step: &Step) -> Prediction {
        let NativeQuestion { input, scales, gradient, .. } = question;
        let moved = move_tensor(input, step, scales, parallel::count_cores());
        let moved = TensorView { bytes: &moved, ..*input };
        let mut prediction = Prediction::default();
        for index in 0..input.len() {
            let distance = moved.get_f64(index) - input.get_f64(index);
            // The gradient of an element that stays may be infinite, and so may the element.
            if distance != 0.0 && !distance.is_nan() {
                let change = distance * gradient.get_f64(index);
                prediction.change += change;
                prediction.squares += change * change;
            }
        }
        prediction
    }
}
