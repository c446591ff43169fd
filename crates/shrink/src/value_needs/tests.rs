use super::*;

use ElementValue::{Real, Whole};

fn input(name: &str, dtype: DType, shape: &[usize], values: &[ElementValue]) -> CutInput {
    let bytes = values.iter().flat_map(|value| value.to_bytes(dtype).unwrap()).collect();
    CutInput::packed(name, dtype, shape, bytes)
}

fn wholes(name: &str, numbers: &[i128]) -> CutInput {
    let values: Vec<ElementValue> = numbers.iter().copied().map(Whole).collect();
    input(name, DType::I32, &[numbers.len()], &values)
}

fn reals(name: &str, numbers: &[f64]) -> CutInput {
    let values: Vec<ElementValue> = numbers.iter().copied().map(Real).collect();
    input(name, DType::F32, &[numbers.len()], &values)
}

/// The needs of `inputs` if the finding is there where `has_finding` holds for their elements, and the tries.
fn needs_of(
    inputs: &[CutInput],
    has_finding: impl Fn(&[Vec<ElementValue>]) -> bool,
) -> (Vec<ValueNeed>, usize) {
    let elements = |input: &CutInput| -> Vec<ElementValue> {
        let chunks = input.bytes.chunks_exact(input.dtype.size());
        chunks.map(|bytes| ElementValue::read(input.dtype, bytes)).collect()
    };
    assert!(has_finding(&inputs.iter().map(elements).collect::<Vec<_>>()), "no finding at first");
    let mut tries = 0;
    let mut tester = |values: &[NewValues]| {
        tries += 1;
        let mut changed = inputs.to_vec();
        for (name, new_values) in values {
            let input = changed.iter_mut().find(|input| input.name == *name).unwrap();
            input.simplify(new_values);
        }
        let shown = has_finding(&changed.iter().map(elements).collect::<Vec<_>>());
        Ok::<_, ()>(Some(if shown { TestAnswer::Bad } else { TestAnswer::Good }))
    };
    let needs = probe_value_needs(inputs, &|_| true, &mut tester).unwrap();
    (needs, tries)
}

fn number(value: ElementValue) -> f64 {
    match value {
        Whole(number) => number as f64,
        Real(number) => number,
    }
}

#[test]
fn the_rule_of_a_needed_value_is_the_simplest_one_that_all_tries_fit() {
    let rule = |own: i128, shows: &dyn Fn(f64) -> bool| {
        let (needs, _) = needs_of(&[wholes("t", &[own])], |inputs| shows(number(inputs[0][0])));
        needs.first().map(|need| need.rule)
    };
    assert_eq!(rule(-100, &|t| t == -100.0), Some(ValueRule::Only));
    assert_eq!(rule(-100, &|t| t < 0.0), Some(ValueRule::Negative));
    assert_eq!(rule(-100, &|t| t < -20.0), Some(ValueRule::AtMost(Whole(-21))));
    assert_eq!(rule(-100, &|t| t != 0.0), Some(ValueRule::NotZero));
    assert_eq!(rule(7, &|t| t % 2.0 != 0.0), Some(ValueRule::Odd));
    assert_eq!(rule(40, &|t| t >= 33.0), Some(ValueRule::AtLeast(Whole(33))));
    assert_eq!(rule(0, &|t| t == 0.0), Some(ValueRule::Only));
    assert_eq!(rule(0, &|t| t % 2.0 == 0.0), Some(ValueRule::Even));
    assert_eq!(rule(5, &|_| true), None);
    let rule = |own: f64, shows: &dyn Fn(f64) -> bool| {
        let (needs, _) = needs_of(&[reals("x", &[own])], |inputs| shows(number(inputs[0][0])));
        needs.first().map(|need| need.rule)
    };
    assert_eq!(rule(f64::NAN, &f64::is_nan), Some(ValueRule::Only));
    assert_eq!(rule(f64::NAN, &|x| !x.is_finite()), Some(ValueRule::NotFinite));
    assert_eq!(rule(f64::INFINITY, &|x| x.is_infinite()), Some(ValueRule::NotFinite));
    assert_eq!(rule(0.0, &|x| x == 0.0), Some(ValueRule::Only));
    assert_eq!(rule(-0.3, &|x| x < 0.0), Some(ValueRule::Negative));
    assert_eq!(rule(-0.3, &|x| x != 0.0), Some(ValueRule::NotZero));
    let Some(ValueRule::AtLeast(Real(least))) = rule(93.0, &|x| x > 88.7) else { panic!("none") };
    assert!((88.7..93.0).contains(&least), "{least}");
    // What shows it beside 93 was not tried to the last bit.
    let point = rule(93.0, &|x| x > 92.0 && x < 94.0);
    assert!(matches!(point, Some(ValueRule::Within(..))), "{point:?}");
}

#[test]
fn a_value_is_needed_at_the_elements_that_may_not_have_another_one() {
    let has = |inputs: &[Vec<ElementValue>]| inputs[0][2] == Whole(-100);
    let (needs, tries) = needs_of(&[wholes("t", &[0, -100, -100, -100])], has);
    let places: Vec<&[usize]> = needs.iter().map(|need| need.places.as_slice()).collect();
    assert_eq!(places, [[2]]);
    assert_eq!(needs[0].rule, ValueRule::Only);
    assert!(tries <= MOST_TRIES, "{tries}");
}

#[test]
fn a_value_that_has_to_be_that_of_a_scalar_is_told_with_it() {
    let ignored = input("ignore_index", DType::I64, &[], &[Whole(-100)]);
    let inputs = [wholes("t", &[3, -100]), ignored];
    let (needs, _) = needs_of(&inputs, |inputs| inputs[0][1] == inputs[1][0]);
    assert_eq!(needs.len(), 1, "{needs:?}");
    assert_eq!(needs[0].equal_to.as_deref(), Some("ignore_index"));
    // One that the kernel does not read has its value by chance.
    let (needs, _) = needs_of(&inputs, |inputs| inputs[0][1] == Whole(-100));
    assert_eq!(needs.iter().map(|need| &need.equal_to).collect::<Vec<_>>(), [&None]);
}

#[test]
fn elements_that_only_have_to_be_equal_are_told_as_such() {
    let (needs, _) = needs_of(&[wholes("t", &[0, 0, 0])], |inputs| {
        inputs[0].iter().all(|value| *value == inputs[0][0])
    });
    assert_eq!(needs.iter().map(|need| need.rule).collect::<Vec<_>>(), [ValueRule::AllEqual]);
    let (needs, _) = needs_of(&[wholes("t", &[0, 0, 0])], |_| true);
    assert_eq!(needs, []);
}

#[test]
fn many_values_are_told_at_once_and_only_where_zeros_lose_the_finding() {
    let inputs = [reals("x", &[0.25, -1.5, 3.0, 8.0, 7.0])];
    let (needs, tries) = needs_of(&inputs, |inputs| inputs[0][2] == Real(3.0));
    assert_eq!(needs.iter().map(|need| need.rule).collect::<Vec<_>>(), [ValueRule::Many]);
    assert_eq!(tries, 1);
    assert_eq!(needs_of(&inputs, |_| true).0, []);
}

#[test]
fn untestable_values_say_nothing_and_an_empty_input_has_none() {
    let skip = |_: &[NewValues]| Ok::<_, ()>(Some(TestAnswer::Skip));
    let inputs = [wholes("t", &[-100]), wholes("none", &[])];
    assert_eq!(probe_value_needs(&inputs, &|_| true, &mut { skip }), Ok(Vec::new()));
    let none_left = |_: &[NewValues]| Ok::<_, ()>(None);
    assert_eq!(probe_value_needs(&inputs, &|_| true, &mut { none_left }), Ok(Vec::new()));
}

#[test]
fn values_beyond_the_dtype_are_not_tried() {
    for (dtype, value) in [
        (DType::U8, Whole(255)),
        (DType::U8, Whole(0)),
        (DType::I8, Whole(-128)),
        (DType::Bool, Whole(1)),
        (DType::F16, Real(60000.0)),
        (DType::F8E4M3, Real(448.0)),
        (DType::U64, Whole(i128::from(u64::MAX))),
    ] {
        for other in list_other_values(dtype, value) {
            let bytes = other.to_bytes(dtype).unwrap();
            assert!(is_same(ElementValue::read(dtype, &bytes), other), "{dtype} {other:?}");
        }
    }
}
