use std::convert::Infallible;

use super::*;
use replay_base::tensor::DType;

/// A small generator of random numbers (splitmix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub(super) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// Normally distributed, with the bits of a float32.
    fn normal(&mut self) -> f64 {
        let u = self.unit().max(1e-300);
        let v = self.unit();
        f64::from(((-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()) as f32)
    }

    pub(super) fn normals(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.normal()).collect()
    }
}

pub(super) type Loss = Box<dyn Fn(&[f64]) -> f64>;

/// A loss of an input in rows, with its gradient.
pub(super) struct Case {
    pub name: &'static str,
    pub columns: usize,
    pub x: Vec<f64>,
    pub gradient: Vec<f64>,
    pub loss: Loss,
}

pub(super) fn bytes(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn check(case: &Case) -> GradientFinding {
    check_with_rounding(case, 0.0)
}

/// The same where rounding was seen to move the loss by `rounding`.
fn check_with_rounding(case: &Case, rounding: f64) -> GradientFinding {
    let x = bytes(&case.x);
    let gradient = bytes(&case.gradient);
    let shape = [case.x.len() / case.columns, case.columns];
    let input = TensorView { dtype: DType::F64, shape: &shape, bytes: &x };
    let gradient = TensorView { dtype: DType::F64, shape: &shape, bytes: &gradient };
    let loss = (case.loss)(&case.x);
    let scales = Scales::measure(&input, 2);
    let question = Question {
        input,
        scales: &scales,
        gradient,
        loss,
        magnitude: loss.abs(),
        rounding,
        directions: 8,
        budget: 1024,
        rounded: None,
    };
    let ask = |steps: &[Step]| -> Result<_, Infallible> {
        let after = |step: &Step| {
            let moved = case.x.iter().enumerate();
            let moved: Vec<f64> =
                moved.map(|(index, &x)| x + step.displacement(&scales, index, x)).collect();
            Some((case.loss)(&moved)).filter(|loss| loss.is_finite())
        };
        Ok(steps.iter().map(after).collect())
    };
    let Ok(found) = check_derivative(&question, ask);
    found
}

#[test]
fn rounding_explains_the_mismatches_that_it_may_have_made_and_no_others() {
    let one = bytes(&[1.0]);
    let view = TensorView { dtype: DType::F64, shape: &[1], bytes: &one };
    let question = Question {
        input: view,
        scales: &Scales::measure(&view, 2),
        gradient: view,
        loss: 1.0,
        magnitude: 1.0,
        rounding: 0.0,
        directions: 8,
        budget: 64,
        rounded: None,
    };
    let explains = |rounding: f64, worst: f64| {
        let finding = GradientFinding {
            answer: GradientAnswer::Differs,
            directions: 8,
            checked: 1,
            worst,
            error: 1e-9,
            place: None,
            hidden: None,
        };
        question.may_explain(rounding, &finding)
    };
    assert!(!explains(1e-16, 1e-12), "the loss is as exact as it looks");
    assert!(!explains(2e-15, 0.5));
    assert!(explains(2e-15, 5e-7));
    assert!(explains(1e-8, 0.5));
    assert!(explains(1e-8, f64::NAN));
}

fn softmax_rows(x: &[f64], columns: usize) -> Vec<f64> {
    let rows = x.chunks(columns).flat_map(|row| {
        let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|x| (x - top).exp()).sum();
        row.iter().map(move |x| (x - top).exp() / sum).collect::<Vec<_>>()
    });
    rows.collect()
}

fn log_sum(row: &[f64]) -> f64 {
    let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    top + row.iter().map(|x| (x - top).exp()).sum::<f64>().ln()
}

/// The mean cross-entropy of `temperature * x`, the last elements of some rows masked.
fn cross_entropy(random: &mut Random, name: &'static str, mask: f64, temperature: f64) -> Case {
    let rows = 1 + random.below(20);
    let columns = 2 + random.below(60);
    let mut x = random.normals(rows * columns);
    let targets: Vec<usize> = (0..rows)
        .map(|row| {
            let kept = 1 + random.below(columns);
            if mask != 0.0 {
                x[row * columns + kept..(row + 1) * columns].fill(mask);
            }
            random.below(if mask == 0.0 { columns } else { kept })
        })
        .collect();
    let scaled: Vec<f64> = x.iter().map(|x| x * temperature).collect();
    let mut gradient = softmax_rows(&scaled, columns);
    for (row, &target) in targets.iter().enumerate() {
        gradient[row * columns + target] -= 1.0;
    }
    gradient.iter_mut().for_each(|g| *g *= temperature / rows as f64);
    let loss = move |x: &[f64]| {
        let of_row = |(row, &target): (&[f64], &usize)| {
            let row: Vec<f64> = row.iter().map(|x| x * temperature).collect();
            log_sum(&row) - row[target]
        };
        x.chunks(columns).zip(&targets).map(of_row).sum::<f64>() / rows as f64
    };
    Case { name, columns, x, gradient, loss: Box::new(loss) }
}

/// A weighted sum of `f`, whose derivative is `d`, over elements of which a share is zero.
fn each(
    random: &mut Random,
    name: &'static str,
    (zeros, outliers): (f64, f64),
    f: fn(f64) -> f64,
    d: fn(f64) -> f64,
) -> Case {
    let rows = 1 + random.below(40);
    let columns = 1 + random.below(100);
    let mut x = random.normals(rows * columns);
    for x in &mut x {
        match random.unit() {
            u if u < zeros => *x = 0.0,
            u if u > 1.0 - outliers => *x *= 1e4,
            _ => {}
        }
    }
    let weights = random.normals(x.len());
    let gradient = x.iter().zip(&weights).map(|(&x, w)| w * d(x)).collect();
    let loss = move |x: &[f64]| x.iter().zip(&weights).map(|(&x, w)| w * f(x)).sum();
    Case { name, columns, x, gradient, loss: Box::new(loss) }
}

/// Ratios of probabilities, some of them clipped exactly at their bounds.
fn clipped_ratio(random: &mut Random) -> Case {
    let n = 8 + random.below(400);
    let old = random.normals(n);
    let mut x: Vec<f64> = old.iter().map(|old| old + 0.2 * random.normal()).collect();
    for (x, old) in x.iter_mut().zip(&old).take(1 + random.below(5)) {
        *x = old + f64::ln(1.2);
    }
    let advantages = random.normals(n);
    let terms = move |x: f64, old: f64, advantage: f64| {
        let ratio = f64::exp(x - old);
        let clipped = ratio.clamp(0.8, 1.2);
        (-advantage * ratio, -advantage * clipped, -advantage * ratio)
    };
    let gradient = x
        .iter()
        .zip(&old)
        .zip(&advantages)
        .map(|((&x, &old), &advantage)| {
            let (plain, clipped, slope) = terms(x, old, advantage);
            if plain >= clipped { slope / n as f64 } else { 0.0 }
        })
        .collect();
    let loss = move |x: &[f64]| {
        let of = |((&x, &old), &advantage): ((&f64, &f64), &f64)| {
            let (plain, clipped, _) = terms(x, old, advantage);
            plain.max(clipped)
        };
        x.iter().zip(&old).zip(&advantages).map(of).sum::<f64>() / n as f64
    };
    Case { name: "clipped ratio", columns: n, x, gradient, loss: Box::new(loss) }
}

/// Rows over their root mean square, some of them padding.
fn normalized(random: &mut Random, name: &'static str, epsilon: f64) -> Case {
    let rows = 2 + random.below(20);
    let columns = 2 + random.below(40);
    let mut x = random.normals(rows * columns);
    for row in x.chunks_mut(columns).take(random.below(rows)) {
        row.fill(0.0);
    }
    let weights = random.normals(x.len());
    let root = move |row: &[f64]| {
        (row.iter().map(|x| x * x).sum::<f64>() / columns as f64 + epsilon).sqrt()
    };
    let gradient = x
        .chunks(columns)
        .zip(weights.chunks(columns))
        .flat_map(|(row, weights)| {
            let norm = root(row);
            let dot: f64 = row.iter().zip(weights).map(|(x, w)| x * w).sum();
            row.iter()
                .zip(weights)
                .map(|(x, w)| match norm {
                    0.0 => 0.0,
                    norm => w / norm - x * dot / (columns as f64 * norm.powi(3)),
                })
                .collect::<Vec<_>>()
        })
        .collect();
    let loss = move |x: &[f64]| {
        let of_row = |(row, weights): (&[f64], &[f64])| {
            let norm = root(row);
            let dot: f64 = row.iter().zip(weights).map(|(x, w)| x * w).sum();
            if norm == 0.0 { 0.0 } else { dot / norm }
        };
        x.chunks(columns).zip(weights.chunks(columns)).map(of_row).sum()
    };
    Case { name, columns, x, gradient, loss: Box::new(loss) }
}

/// A weighted sum of each row's largest, with ties.
fn largest(random: &mut Random) -> Case {
    let rows = 1 + random.below(60);
    let columns = 2 + random.below(10);
    let x: Vec<f64> =
        random.normals(rows * columns).iter().map(|x| (x * 32.0).round() / 32.0).collect();
    let weights = random.normals(rows);
    let mut gradient = vec![0.0; x.len()];
    for (row, values) in x.chunks(columns).enumerate() {
        let top = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let first = values.iter().position(|&x| x == top).unwrap();
        gradient[row * columns + first] = weights[row];
    }
    let loss = move |x: &[f64]| {
        let top = |row: &[f64]| row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        x.chunks(columns).zip(&weights).map(|(row, w)| w * top(row)).sum()
    };
    Case { name: "largest of a row", columns, x, gradient, loss: Box::new(loss) }
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

fn silu_slope(x: f64) -> f64 {
    let s = 1.0 / (1.0 + (-x).exp());
    s * (1.0 + x * (1.0 - s))
}

pub(super) fn cases(seed: u64) -> Vec<Case> {
    let r = &mut Random(seed);
    let relu = |x: f64| x.max(0.0);
    let relu_slope = |x: f64| if x > 0.0 { 1.0 } else { 0.0 };
    vec![
        cross_entropy(r, "cross-entropy", 0.0, 1.0),
        cross_entropy(r, "masked cross-entropy", -1e9, 1.0),
        cross_entropy(r, "cross-entropy with the least float32 as mask", -3.4e38, 1.0),
        cross_entropy(r, "cross-entropy with a mask of infinity", f64::NEG_INFINITY, 1.0),
        cross_entropy(r, "saturated cross-entropy", 0.0, 100.0),
        each(r, "rectifier", (0.0, 0.0), relu, relu_slope),
        each(r, "rectifier of zeros", (0.5, 0.0), relu, relu_slope),
        each(r, "magnitude of few zeros", (0.02, 0.0), f64::abs, |x| x.signum()),
        each(r, "gate", (0.3, 0.0), silu, silu_slope),
        each(r, "gate with outliers", (0.0, 0.02), silu, silu_slope),
        each(r, "square with outliers", (0.0, 0.05), |x| x * x, |x| 2.0 * x),
        clipped_ratio(r),
        normalized(r, "root mean square of padding", 1e-6),
        normalized(r, "direction of padding", 0.0),
        largest(r),
    ]
}

/// The seeds of the cases: more where the code is optimised, or as many as `REPLAY_TEST_CASES` says.
pub(super) fn seeds() -> std::ops::Range<u64> {
    let asked = std::env::var("REPLAY_TEST_CASES").ok().and_then(|cases| cases.parse().ok());
    0..asked.unwrap_or(if cfg!(debug_assertions) { 1 } else { 20 })
}

#[test]
fn a_gradient_is_never_called_wrong_for_where_its_input_lies() {
    let mut unknown = 0;
    let mut all = 0;
    for case in seeds().flat_map(cases) {
        all += 1;
        let found = check(&case);
        assert_ne!(found.answer, GradientAnswer::Differs, "{} {found:?}", case.name);
        assert_ne!(found.answer, GradientAnswer::NoLoss, "{}", case.name);
        unknown += u64::from(found.answer == GradientAnswer::Unknown);
    }
    println!("{unknown} of {all} gradients could not be checked");
    assert!(unknown * 50 <= all.max(50), "{unknown} of {all}");
}

#[test]
fn a_factor_on_all_of_a_gradient_is_found_down_to_a_hundred_thousandth() {
    for mut case in seeds().flat_map(cases) {
        if check(&case).answer != GradientAnswer::Agrees {
            continue;
        }
        for by in [1e-5, 1e-3, 0.1, -2.0] {
            let gradient = case.gradient.clone();
            case.gradient.iter_mut().for_each(|g| *g *= 1.0 + by);
            let found = check(&case);
            assert_eq!(found.answer, GradientAnswer::Differs, "{} by {by}: {found:?}", case.name);
            let worst = found.worst / by.abs() * f64::max(1.0, 1.0 + by).abs();
            assert!((0.02..10.0).contains(&worst), "{} by {by}: {found:?}", case.name);
            case.gradient = gradient;
        }
    }
}

#[test]
fn one_wrong_element_is_named() {
    let mut named = 0;
    for mut case in seeds().flat_map(cases) {
        let norm = case.gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        let at = Random(case.x.len() as u64).below(case.x.len());
        case.gradient[at] += norm * 1e-3;
        let found = check(&case);
        // Unless it lies on a kink, is infinite, or is small beside outliers.
        if let Some(place) = found.place {
            assert_eq!(place.elements, at..at + 1, "{}", case.name);
            let error = place.gradient - place.slope - norm * 1e-3;
            assert!(error.abs() <= norm * 1e-4, "{} {place:?}", case.name);
            named += 1;
        }
    }
    assert!(named >= 9 * seeds().end, "{named} were named");
}

#[test]
fn one_element_of_a_hundred_thousand_is_found_by_its_share_of_the_norm() {
    let r = &mut Random(1);
    let x = r.normals(100_000);
    let weights = r.normals(x.len());
    let mut gradient: Vec<f64> = x.iter().zip(&weights).map(|(x, w)| w * x.cos()).collect();
    gradient[77_777] *= -1.0;
    let loss = move |x: &[f64]| x.iter().zip(&weights).map(|(x, w)| w * x.sin()).sum();
    let case = Case { name: "sine", columns: 1000, x, gradient, loss: Box::new(loss) };
    let found = check(&case);
    assert_eq!(found.answer, GradientAnswer::Differs);
    assert_eq!(found.place.unwrap().elements, 77_777..77_778);
}

#[test]
fn elements_on_kinks_say_nothing_and_the_others_do() {
    let r = &mut Random(5);
    let mut x = r.normals(600);
    (x[17], x[400]) = (0.0, 0.0);
    let weights = r.normals(600);
    let gradient = x.iter().zip(&weights).map(|(x, w)| w * x.signum()).collect();
    let loss = move |x: &[f64]| x.iter().zip(&weights).map(|(x, w)| w * x.abs()).sum();
    let mut case = Case { name: "magnitude", columns: 600, x, gradient, loss: Box::new(loss) };
    let found = check(&case);
    assert_eq!((found.answer, found.checked), (GradientAnswer::Agrees, 598));
    case.gradient[17] *= -1.0;
    assert_eq!(check(&case).answer, GradientAnswer::Agrees);
    case.gradient[18] *= -1.0;
    assert_eq!(check(&case).place.unwrap().elements, 18..19);
}

#[test]
fn a_loss_that_has_no_value_beside_the_input_is_none() {
    let loss = |x: &[f64]| if x[0] == 1.0 { 3.0 } else { f64::NAN };
    let case =
        Case { name: "", columns: 1, x: vec![1.0], gradient: vec![1.0], loss: Box::new(loss) };
    assert_eq!(check(&case).answer, GradientAnswer::NoLoss);
}

#[test]
fn a_gradient_of_zero_agrees_with_a_loss_that_does_not_depend_on_its_input() {
    for case in seeds().flat_map(cases) {
        let loss = (case.loss)(&case.x);
        let gradient = vec![0.0; case.x.len()];
        let without = Case { loss: Box::new(move |_| loss), gradient, ..case };
        let found = check(&without);
        assert_eq!(found.answer, GradientAnswer::Agrees, "{} {found:?}", without.name);
        assert_eq!(found.worst, 0.0);
    }
}

#[test]
fn a_gradient_of_zero_differs_from_a_loss_that_depends_on_its_input() {
    for case in seeds().flat_map(cases) {
        let without = Case { gradient: vec![0.0; case.x.len()], ..case };
        let found = check(&without);
        assert_eq!(found.answer, GradientAnswer::Differs, "{} {found:?}", without.name);
    }
}

#[test]
fn a_gradient_that_is_no_number_differs() {
    // The squares of the last are none.
    for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e200] {
        let loss = |x: &[f64]| x.iter().sum();
        let gradient = vec![1.0, wrong, 1.0];
        let case =
            Case { name: "", columns: 3, x: vec![1.0, 2.0, 3.0], gradient, loss: Box::new(loss) };
        let found = check(&case);
        assert!(found.worst.is_nan(), "{wrong}: {found:?}");
        assert_eq!((found.answer, found.place.unwrap().elements), (GradientAnswer::Differs, 1..2));
    }
}

/// The answers to all cases with a constant of `10^power` and more in the loss, which `is_cancelled` takes off again, and
/// with `factor` on the gradient.
fn answers_beside_constants(power: i32, is_cancelled: bool, factor: f64) -> Vec<GradientFinding> {
    let answer = |(seed, mut case): (u64, Case)| {
        let constant = 10f64.powi(power) * (1.0 + Random(seed + 77).unit());
        let inner_loss = case.loss;
        case.loss = Box::new(move |x: &[f64]| {
            let sum = inner_loss(x) + constant;
            if is_cancelled { sum - constant } else { sum }
        });
        case.gradient.iter_mut().for_each(|gradient| *gradient *= factor);
        let rounding = if is_cancelled { f64::EPSILON * constant } else { 0.0 };
        check_with_rounding(&case, rounding)
    };
    seeds()
        .flat_map(|seed| cases(seed).into_iter().map(move |case| (seed, case)))
        .map(answer)
        .collect()
}

#[test]
fn large_terms_in_a_loss_hide_slopes_and_convict_nobody() {
    for (power, is_cancelled) in [(6, true), (10, false)] {
        let of_right = answers_beside_constants(power, is_cancelled, 1.0);
        for found in &of_right {
            assert_ne!(found.answer, GradientAnswer::Differs, "{power}: {found:?}");
            let is_unknown = found.answer == GradientAnswer::Unknown;
            assert_eq!(found.hidden.is_some(), is_unknown, "{power}: {found:?}");
        }
        let agreeing = of_right.iter().filter(|found| found.answer == GradientAnswer::Agrees);
        let least = if power == 6 { of_right.len() * 8 / 10 } else { 1 };
        assert!(agreeing.count() >= least, "{power}");
        let of_wrong = answers_beside_constants(power, is_cancelled, 2.0);
        assert!(of_wrong.iter().all(|found| found.answer != GradientAnswer::Agrees), "{power}");
        let convicted = of_wrong.iter().filter(|found| found.answer == GradientAnswer::Differs);
        assert!(convicted.count() * 10 >= of_wrong.len() * 8, "{power}");
    }
}

/// The answers for squares that are added to `constant` one after the other, by a gradient with `factor` on it. As
/// replays do, a mismatch is looked at with the rounding that was seen.
fn answers_of_a_long_sum(constant: f64, factor: f64) -> Vec<GradientFinding> {
    let answer = |seed: u64| {
        let random = &mut Random(seed + 1);
        let columns = 4 + random.below(60);
        let rows = 1 + random.below(8);
        let x = random.normals(rows * columns);
        let constant = constant * (1.0 + 9.0 * random.unit());
        let gradient = x.iter().map(|x| factor * 2.0 * (x - 0.3)).collect();
        let rounding = x.len() as f64 * f64::EPSILON * constant;
        let loss = move |x: &[f64]| x.iter().fold(constant, |sum, x| sum + (x - 0.3).powi(2));
        let case = Case { name: "a long sum", columns, x, gradient, loss: Box::new(loss) };
        match check(&case) {
            found if found.answer == GradientAnswer::Agrees => found,
            _ => check_with_rounding(&case, rounding),
        }
    };
    (0..6 * seeds().end).map(answer).collect()
}

#[test]
fn a_small_factor_on_a_gradient_shows_beside_large_terms_of_its_loss() {
    for power in 0..=12 {
        for found in answers_of_a_long_sum(10f64.powi(power), 1.0) {
            assert_ne!(found.answer, GradientAnswer::Differs, "1e{power}: {found:?}");
        }
    }
    for (power, error) in [(0, 1e-5), (3, 1e-5), (6, 2e-4), (7, 1e-3)] {
        for found in answers_of_a_long_sum(10f64.powi(power), 1.0 + error) {
            assert_eq!(found.answer, GradientAnswer::Differs, "1e{power}: {found:?}");
        }
    }
}

#[test]
fn a_gradient_of_zero_is_that_of_a_loss_that_no_step_moves() {
    let mut random = Random(7);
    for constant in [0.0, 1.0, -3.5e9] {
        let x = random.normals(24);
        let loss: Loss = Box::new(move |_| constant);
        let case = Case { name: "constant", columns: 6, gradient: vec![0.0; 24], x, loss };
        let found = check(&case);
        assert_eq!(found.answer, GradientAnswer::Agrees, "{constant}: {found:?}");
        assert_eq!(found.checked, 24);
        let wrong = check(&Case { gradient: vec![1.0; 24], ..case });
        let is_found = wrong.answer == GradientAnswer::Differs;
        // Rounding of a large loss hides the change that a gradient tells.
        assert!(is_found || wrong.hidden.is_some(), "{constant}: {wrong:?}");
    }
}

#[test]
fn a_gradient_of_zero_says_nothing_of_a_staircase() {
    let mut random = Random(9);
    for step in [0.5, 1.0, 4.0] {
        let loss: Loss = Box::new(move |x| x.iter().map(|x| (x / step).round()).sum());
        let x = random.normals(24).iter().map(|x| (x / step).round() * step).collect();
        let case = Case { name: "staircase", columns: 6, gradient: vec![0.0; 24], x, loss };
        assert_eq!(check(&case).answer, GradientAnswer::Unknown, "{step}");
    }
}
