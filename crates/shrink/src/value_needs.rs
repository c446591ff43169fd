//! Which values of the smallest fixture its finding needs: each is replaced by others, and a rule says what the answers
//! have in common. Replays nothing: the caller tests.

use std::cmp::Ordering;

use replay_base::tensor::DType;
use replay_fixture::fixture::{CutInput, ElementValue, SimpleValues};
use replay_search::TestAnswer;

use crate::values::ElementHalves;

/// Tries for all inputs together.
const MOST_TRIES: usize = 24;
/// Different values of one input. With more of them no single one is told.
const MOST_VALUES: usize = 3;
/// Tries between a value with the finding and one without.
const MOST_STEPS: usize = 8;

/// What the finding needs of elements with one value.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueNeed {
    /// The name of the input.
    pub input: String,
    pub shape: Vec<usize>,
    /// Those of the elements with the value that are enough, by row-major number.
    pub places: Vec<usize>,
    /// How many elements have the value.
    pub count: usize,
    /// Their value.
    pub value: ElementValue,
    /// The simplest rule that fits all tries.
    pub rule: ValueRule,
    /// The scalar input with the same value, where the finding stays if both have another one.
    pub equal_to: Option<String>,
    /// The answers with another value in their place, and all else as in the smallest fixture.
    pub tried: Vec<(ElementValue, TestAnswer)>,
}

/// What tries with other values say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRule {
    /// No other value shows the finding.
    Only,
    /// NaN and infinities.
    NotFinite,
    NotZero,
    /// Every value but this one.
    Not(ElementValue),
    Negative,
    Positive,
    NotNegative,
    NotPositive,
    AtLeast(ElementValue),
    AtMost(ElementValue),
    /// Negative ones too, by magnitude.
    MagnitudeAtLeast(ElementValue),
    Odd,
    Even,
    Within(ElementValue, ElementValue),
    /// Any value, if all elements have it.
    AllEqual,
    /// No simple rule fits all tries.
    Unclear,
    /// There are more different values than are tried one by one.
    Many,
}

impl ValueNeed {
    /// The values that lost the finding.
    pub fn list_lost(&self) -> impl Iterator<Item = ElementValue> + '_ {
        let lost = self.tried.iter().filter(|(_, answer)| *answer == TestAnswer::Good);
        lost.map(|(value, _)| *value)
    }
}

impl ValueRule {
    fn allows(self, own: ElementValue, value: ElementValue) -> bool {
        let zero = zero_like(value);
        let is = |limit: ElementValue, wanted: &[Ordering]| {
            value.order(limit).is_some_and(|found| wanted.contains(&found))
        };
        let at_least = [Ordering::Greater, Ordering::Equal];
        let at_most = [Ordering::Less, Ordering::Equal];
        match self {
            ValueRule::Only => is_same(own, value),
            ValueRule::NotFinite => !magnitude(value).is_finite(),
            ValueRule::NotZero => !is(zero, &[Ordering::Equal]),
            ValueRule::Not(lost) => !is_same(lost, value),
            ValueRule::Negative => is(zero, &[Ordering::Less]),
            ValueRule::Positive => is(zero, &[Ordering::Greater]),
            ValueRule::NotNegative => is(zero, &at_least),
            ValueRule::NotPositive => is(zero, &at_most),
            ValueRule::AtLeast(least) => is(least, &at_least),
            ValueRule::AtMost(most) => is(most, &at_most),
            ValueRule::MagnitudeAtLeast(least) => magnitude(value) >= magnitude(least),
            ValueRule::Odd => is_odd(value) == Some(true),
            ValueRule::Even => is_odd(value) == Some(false),
            ValueRule::Within(least, most) => is(least, &at_least) && is(most, &at_most),
            ValueRule::AllEqual | ValueRule::Unclear | ValueRule::Many => true,
        }
    }
}

/// Whether the values have the same bits, as far as a value tells: NaN is NaN, and -0 is not 0.
fn is_same(left: ElementValue, right: ElementValue) -> bool {
    match (left, right) {
        (ElementValue::Real(left), ElementValue::Real(right)) => {
            left.to_bits() == right.to_bits() || (left.is_nan() && right.is_nan())
        }
        _ => left == right,
    }
}

/// Zero of the kind of `value`.
fn zero_like(value: ElementValue) -> ElementValue {
    match value {
        ElementValue::Whole(_) => ElementValue::Whole(0),
        ElementValue::Real(_) => ElementValue::Real(0.0),
    }
}

fn magnitude(value: ElementValue) -> f64 {
    match value {
        ElementValue::Whole(number) => (number as f64).abs(),
        ElementValue::Real(number) => number.abs(),
    }
}

fn is_odd(value: ElementValue) -> Option<bool> {
    match value {
        ElementValue::Whole(number) => Some(number % 2 != 0),
        ElementValue::Real(_) => None,
    }
}

/// The simplest rule that `own`, which shows the finding, and all `tried` values fit. [`TestAnswer::Other`] shows it as well,
/// and [`TestAnswer::Skip`] says nothing. None if no value loses it.
fn find_value_rule(own: ElementValue, tried: &[(ElementValue, TestAnswer)]) -> Option<ValueRule> {
    let told = tried.iter().filter_map(|&(value, answer)| match answer {
        TestAnswer::Bad | TestAnswer::Other => Some((value, true)),
        TestAnswer::Good => Some((value, false)),
        TestAnswer::Skip => None,
    });
    let mut told: Vec<(ElementValue, bool)> = told.collect();
    if told.iter().all(|(_, shows)| *shows) {
        return None;
    }
    told.push((own, true));
    let showing: Vec<ElementValue> =
        told.iter().filter(|(_, shows)| *shows).map(|(value, _)| *value).collect();
    let furthest = |wanted: Ordering| {
        showing.iter().copied().fold(own, |found, value| match value.order(found) {
            Some(order) if order == wanted => value,
            _ => found,
        })
    };
    let (least, most) = (furthest(Ordering::Less), furthest(Ordering::Greater));
    let nearest = showing
        .iter()
        .copied()
        .fold(own, |found, value| if magnitude(value) < magnitude(found) { value } else { found });
    // Where a single value loses it, nothing is known of what lies beyond.
    let lost = told.iter().find(|(_, shows)| !shows).map_or(own, |(value, _)| *value);
    let rules = [
        ValueRule::Only,
        ValueRule::NotFinite,
        ValueRule::NotZero,
        ValueRule::Negative,
        ValueRule::Positive,
        ValueRule::NotNegative,
        ValueRule::NotPositive,
        ValueRule::Not(lost),
        ValueRule::AtLeast(least),
        ValueRule::AtMost(most),
        ValueRule::MagnitudeAtLeast(nearest),
        ValueRule::Odd,
        ValueRule::Even,
        ValueRule::Within(least, most),
    ];
    // Between real numbers there are others.
    let is_alone = match own {
        ElementValue::Whole(_) => true,
        ElementValue::Real(number) => number == 0.0 || !number.is_finite(),
    };
    let rules = rules.into_iter().skip(usize::from(!is_alone));
    let mut fitting =
        rules.filter(|rule| told.iter().all(|&(value, shows)| rule.allows(own, value) == shows));
    Some(fitting.next().unwrap_or(ValueRule::Unclear))
}

/// The values to try in the place of `value`, the most telling first.
fn list_other_values(dtype: DType, value: ElementValue) -> Vec<ElementValue> {
    let others: Vec<ElementValue> = match value {
        ElementValue::Whole(0) => [1, 2, -1].map(ElementValue::Whole).to_vec(),
        ElementValue::Whole(number) => {
            let near = [0, 1, number - number.signum(), number + number.signum(), -1];
            near.map(ElementValue::Whole).to_vec()
        }
        ElementValue::Real(number) if number.is_nan() => {
            [0.0, 1.0, f64::INFINITY, f64::NEG_INFINITY].map(ElementValue::Real).to_vec()
        }
        ElementValue::Real(number) if number.is_infinite() => {
            let large = largest_finite(dtype).copysign(number);
            [0.0, 1f64.copysign(number), large, -number].map(ElementValue::Real).to_vec()
        }
        ElementValue::Real(0.0) => [1.0, -1.0, 1e-3].map(ElementValue::Real).to_vec(),
        ElementValue::Real(number) => {
            let near = [0.0, 1.0, -number, number / 1024.0, number * 1024.0];
            near.map(ElementValue::Real).to_vec()
        }
    };
    let mut listed: Vec<ElementValue> = Vec::new();
    for other in others.into_iter().filter_map(|other| rounded(dtype, other)) {
        let is_known = |known: &ElementValue| is_same(*known, other);
        if !is_known(&value) && !listed.iter().any(is_known) {
            listed.push(other);
        }
    }
    listed
}

/// The value that an element of `dtype` has for `value`, if it has one.
fn rounded(dtype: DType, value: ElementValue) -> Option<ElementValue> {
    value.to_bytes(dtype).map(|bytes| ElementValue::read(dtype, &bytes))
}

fn largest_finite(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MAX,
        DType::F32 | DType::BF16 => 3e38,
        DType::F16 => 65504.0,
        _ => 448.0,
    }
}

/// A value between `shows` and `gone`; none where they are next to each other, or nearly so.
fn value_between(dtype: DType, shows: ElementValue, gone: ElementValue) -> Option<ElementValue> {
    let middle = match (shows, gone) {
        (ElementValue::Whole(shows), ElementValue::Whole(gone)) => {
            ElementValue::Whole(gone + (shows - gone) / 2)
        }
        (ElementValue::Real(shows), ElementValue::Real(gone)) if gone != 0.0 => {
            // Numbers of different size are halved by their ratio.
            let ratio = shows / gone;
            if !ratio.is_finite() || ratio <= 0.0 || (ratio.ln().abs()) < 0.01 {
                return None;
            }
            ElementValue::Real(gone * ratio.sqrt())
        }
        _ => return None,
    };
    let middle = rounded(dtype, middle)?;
    (!is_same(middle, shows) && !is_same(middle, gone)).then_some(middle)
}

/// The value to try next between the values of one sign that show the finding, that of `class` among them, and the next
/// one without it, of smaller or greater magnitude. None where there is none, or where they take turns.
fn next_on_side(
    class: &ValueClass<'_>,
    side: Ordering,
    tried: &[(ElementValue, TestAnswer)],
) -> Option<ElementValue> {
    let own = magnitude(class.value);
    if own == 0.0 {
        return None;
    }
    let mut shown = class.value;
    let mut lost: Option<ElementValue> = None;
    for &(value, answer) in tried {
        let is_on_side =
            magnitude(value).partial_cmp(&own) == Some(side) && !is_opposite(value, class.value);
        if !is_on_side || answer == TestAnswer::Skip {
            continue;
        }
        let lies_beyond =
            |other: ElementValue| magnitude(value).partial_cmp(&magnitude(other)) == Some(side);
        if shows(answer) {
            shown = if lies_beyond(shown) { value } else { shown };
        } else {
            lost = if lost.is_some_and(lies_beyond) { lost } else { Some(value) };
        }
    }
    let lost = lost?;
    let is_in_order = magnitude(lost).partial_cmp(&magnitude(shown)) == Some(side);
    is_in_order.then(|| value_between(class.input.dtype, shown, lost)).flatten()
}

/// Elements of one input with the same bits.
struct ValueClass<'a> {
    input: &'a CutInput,
    value: ElementValue,
    bytes: &'a [u8],
    places: Vec<usize>,
}

impl ValueClass<'_> {
    fn is_whole_input(&self) -> bool {
        self.places.len() * self.input.dtype.size() == self.input.bytes.len()
    }

    /// Whether these are what inputs without a say in the finding have: zeros or ones.
    fn is_simple(&self) -> bool {
        [0.0, 1.0].contains(&magnitude(self.value)) && self.is_whole_input()
    }

    fn with_value(&self, places: &[usize], value: ElementValue) -> Option<NewValues> {
        let bytes = value.to_bytes(self.input.dtype)?;
        Some((self.input.name.clone(), SimpleValues::ElementsAt(places.to_vec(), bytes)))
    }

    fn need(&self, rule: ValueRule) -> ValueNeed {
        ValueNeed {
            input: self.input.name.clone(),
            shape: self.input.shape.clone(),
            places: self.places.clone(),
            count: self.places.len(),
            value: self.value,
            rule,
            equal_to: None,
            tried: Vec::new(),
        }
    }
}

/// The values of an input; those that occur least first, as they are none that simple values gave.
fn list_classes(input: &CutInput) -> Vec<ValueClass<'_>> {
    let mut classes: Vec<ValueClass<'_>> = Vec::new();
    for (place, bytes) in input.bytes.chunks_exact(input.dtype.size()).enumerate() {
        if let Some(class) = classes.iter_mut().find(|class| class.bytes == bytes) {
            class.places.push(place);
            continue;
        }
        if classes.len() > MOST_VALUES {
            // The first elements are enough to know it.
            break;
        }
        let value = ElementValue::read(input.dtype, bytes);
        classes.push(ValueClass { input, value, bytes, places: vec![place] });
    }
    classes.sort_by_key(|class| class.places.len());
    classes
}

/// New values for an input.
pub(super) type NewValues = (String, SimpleValues);

/// Tests the smallest fixture with some values in the place of its own; none where it may not be tried any more.
pub(super) type ValueTester<'t, E> = dyn FnMut(&[NewValues]) -> Result<Option<TestAnswer>, E> + 't;

/// What the finding needs of the values of `inputs`, those of the smallest fixture. Inputs that `is_free` leaves out
/// keep their values.
pub(super) fn probe_value_needs<E>(
    inputs: &[CutInput],
    is_free: &dyn Fn(&CutInput) -> bool,
    tester: &mut ValueTester<'_, E>,
) -> Result<Vec<ValueNeed>, E> {
    let mut probe = ValueProbe { inputs, tester, tries_left: MOST_TRIES };
    let mut needs: Vec<ValueNeed> = Vec::new();
    let mut classes: Vec<ValueClass<'_>> = Vec::new();
    for input in inputs.iter().filter(|input| is_free(input)) {
        let of_input = list_classes(input);
        if of_input.len() > MOST_VALUES {
            let places = (0..input.bytes.len() / input.dtype.size()).collect();
            if let Some(class) = of_input.into_iter().next() {
                needs.extend(probe.probe_many(&ValueClass { places, ..class })?);
            }
        } else {
            classes.extend(of_input);
        }
    }
    // What could not be made simple says most; a scalar is told with the elements that have its value.
    classes.sort_by_key(|class| (class.is_simple(), class.input.shape.is_empty()));
    for class in classes {
        let is_told = |need: &ValueNeed| need.equal_to.as_ref() == Some(&class.input.name);
        if !needs.iter().any(is_told) {
            needs.extend(probe.probe_class(&class)?);
        }
    }
    let place_of = |need: &ValueNeed| inputs.iter().position(|input| input.name == need.input);
    needs.sort_by_key(|need| (place_of(need), need.places.first().copied()));
    Ok(needs)
}

struct ValueProbe<'p, 't, E> {
    inputs: &'p [CutInput],
    tester: &'p mut ValueTester<'t, E>,
    tries_left: usize,
}

impl<E> ValueProbe<'_, '_, E> {
    fn test(&mut self, values: &[NewValues]) -> Result<Option<TestAnswer>, E> {
        if self.tries_left == 0 {
            return Ok(None);
        }
        self.tries_left -= 1;
        (self.tester)(values)
    }

    fn probe_class(&mut self, class: &ValueClass<'_>) -> Result<Option<ValueNeed>, E> {
        let mut tried = Vec::new();
        for other in list_other_values(class.input.dtype, class.value) {
            let Some(values) = class.with_value(&class.places, other) else { continue };
            let Some(answer) = self.test(&[values])? else { break };
            tried.push((other, answer));
            if tried.len() == 1 && shows(answer) {
                // A value that is as simple does as well.
                return self.probe_equality(class, other);
            }
        }
        for side in [Ordering::Less, Ordering::Greater] {
            self.narrow(class, side, &mut tried)?;
        }
        let Some(rule) = find_value_rule(class.value, &tried) else { return Ok(None) };
        let lost = tried.iter().find(|(_, answer)| *answer == TestAnswer::Good);
        let places = match lost {
            Some((value, _)) if class.places.len() > 1 => self.find_needed_places(class, *value)?,
            _ => class.places.clone(),
        };
        let equal_to = match rule {
            ValueRule::Only => self.find_equal_scalar(class, &tried)?,
            _ => None,
        };
        tried.sort_by(|(left, _), (right, _)| ElementValue::order_or_equal(left, right));
        Ok(Some(ValueNeed { places, equal_to, tried, ..class.need(rule) }))
    }

    /// Elements with many values: whether zeros in their place lose the finding.
    fn probe_many(&mut self, all: &ValueClass<'_>) -> Result<Option<ValueNeed>, E> {
        let zero = zero_like(all.value);
        let Some(values) = all.with_value(&all.places, zero) else { return Ok(None) };
        let answer = self.test(&[values])?;
        let tried = vec![(zero, TestAnswer::Good)];
        let is_lost = answer == Some(TestAnswer::Good);
        Ok(is_lost.then(|| ValueNeed { tried, ..all.need(ValueRule::Many) }))
    }

    /// Tries values between one with the finding and the next one without it, nearer to zero or further away.
    fn narrow(
        &mut self,
        class: &ValueClass<'_>,
        side: Ordering,
        tried: &mut Vec<(ElementValue, TestAnswer)>,
    ) -> Result<(), E> {
        for _ in 0..MOST_STEPS {
            let Some(middle) = next_on_side(class, side, tried) else { return Ok(()) };
            let Some(values) = class.with_value(&class.places, middle) else { return Ok(()) };
            let Some(answer) = self.test(&[values])? else { return Ok(()) };
            tried.push((middle, answer));
            if answer == TestAnswer::Skip {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Elements with one value, whatever it is: whether another value at one of them loses the finding.
    fn probe_equality(
        &mut self,
        class: &ValueClass<'_>,
        other: ElementValue,
    ) -> Result<Option<ValueNeed>, E> {
        let Some(last) = class.places.last().filter(|_| class.places.len() > 1) else {
            return Ok(None);
        };
        if !class.is_whole_input() {
            return Ok(None);
        }
        let Some(values) = class.with_value(&[*last], other) else { return Ok(None) };
        let answer = self.test(&[values])?;
        let is_lost = answer == Some(TestAnswer::Good);
        Ok(is_lost.then(|| ValueNeed {
            tried: vec![(other, TestAnswer::Good)],
            places: vec![*last],
            ..class.need(ValueRule::AllEqual)
        }))
    }

    /// The elements of `class` that may not have the value `other`.
    fn find_needed_places(
        &mut self,
        class: &ValueClass<'_>,
        other: ElementValue,
    ) -> Result<Vec<usize>, E> {
        let mut halves = ElementHalves::new(class.places.len());
        let mut needed = class.places.clone();
        while let Some(ranges) = halves.next_ranges() {
            let places: Vec<usize> =
                ranges.iter().flat_map(|range| &class.places[range.clone()]).copied().collect();
            let Some(values) = class.with_value(&places, other) else { break };
            let Some(answer) = self.test(&[values])? else { break };
            halves.note(shows(answer));
            if shows(answer) {
                needed = class.places.clone();
                needed.retain(|place| !places.contains(place));
            }
        }
        Ok(needed)
    }

    /// A scalar with the value of `class`, where the finding stays if both have another value.
    fn find_equal_scalar(
        &mut self,
        class: &ValueClass<'_>,
        tried: &[(ElementValue, TestAnswer)],
    ) -> Result<Option<String>, E> {
        let inputs = self.inputs;
        let is_equal = |input: &&CutInput| {
            input.shape.is_empty()
                && input.name != class.input.name
                && is_same(ElementValue::read(input.dtype, &input.bytes), class.value)
        };
        let Some(scalar) = inputs.iter().find(is_equal) else { return Ok(None) };
        // One that is not simple: zeros and ones may be equal by chance.
        let other = tried.iter().map(|(value, _)| *value).find(|value| magnitude(*value) > 1.0);
        let Some(other) = other else { return Ok(None) };
        let bytes = other.to_bytes(scalar.dtype);
        let (Some(own), Some(bytes)) = (class.with_value(&class.places, other), bytes) else {
            return Ok(None);
        };
        let both = [own, (scalar.name.clone(), SimpleValues::ElementsAt(vec![0], bytes))];
        let answer = self.test(&both)?;
        Ok(answer.is_some_and(shows).then(|| scalar.name.clone()))
    }
}

/// Several indices of zero.
pub(super) struct EqualIndices<'a> {
    input: &'a CutInput,
    count: usize,
}

impl<'a> EqualIndices<'a> {
    /// `input`, if it holds several integers and all are zero.
    pub(super) fn of(input: &'a CutInput) -> Option<EqualIndices<'a>> {
        let count = input.bytes.len() / input.dtype.size();
        let are_zero = input.bytes.iter().all(|byte| *byte == 0);
        let is_fit = count > 1 && are_zero && !input.dtype.is_float();
        is_fit.then_some(EqualIndices { input, count })
    }

    pub(super) fn with_index(&self, index: u8) -> NewValues {
        self.at((0..self.count).collect(), index)
    }

    pub(super) fn with_last_index(&self, index: u8) -> NewValues {
        self.at(vec![self.count - 1], index)
    }

    fn at(&self, places: Vec<usize>, index: u8) -> NewValues {
        let mut bytes = vec![0; self.input.dtype.size()];
        bytes[0] = index;
        (self.input.name.clone(), SimpleValues::ElementsAt(places, bytes))
    }

    pub(super) fn need(&self) -> ValueNeed {
        ValueNeed {
            input: self.input.name.clone(),
            shape: self.input.shape.clone(),
            places: vec![self.count - 1],
            count: self.count,
            value: ElementValue::Whole(0),
            rule: ValueRule::AllEqual,
            equal_to: None,
            tried: vec![(ElementValue::Whole(1), TestAnswer::Good)],
        }
    }
}

fn shows(answer: TestAnswer) -> bool {
    matches!(answer, TestAnswer::Bad | TestAnswer::Other)
}

fn is_opposite(left: ElementValue, right: ElementValue) -> bool {
    let sign = |value| match value {
        ElementValue::Whole(number) => number.signum() as f64,
        ElementValue::Real(number) => number.signum() * f64::from(u8::from(number != 0.0)),
    };
    sign(left) * sign(right) < 0.0
}

#[cfg(test)]
mod tests;
