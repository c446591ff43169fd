//! Outputs that are not finite on the trusted side either: an empty row's log-sum of minus infinity,
//! and its mean, which is NaN.

use replay::judge::{Judgement, Verdict, judge_trial};

use super::batch::{Batch, Bench};
use super::draw::{Draw, Kind};
use super::{Change, Extent, Family, ORDERS, Problem, Sizes, floats, integers, output, site};

const TABLE: [&str; 2] = ["rows", "cols"];

static LOG_SUM: Family = Family {
    name: "log_sum",
    inputs: &[floats("x", &TABLE), integers("lengths", &["rows"])],
    outputs: &[output("log_sums", &["rows"]), output("means", &["rows"])],
    sizes: &TABLE,
    sites: &[site(1, Extent::Rows, TABLE), site(2, Extent::Rows, TABLE)],
    ways: 3,
    jumps: false,
    shape: |_| vec![9, 13],
    draw: |draw, sizes| {
        let rows = sizes.get("rows");
        let cols = sizes.get("cols");
        let mut lengths: Vec<f64> = (0..rows).map(|_| 1.0 + draw.below(cols) as f64).collect();
        (lengths[EMPTY as usize], lengths[2], lengths[7]) = (0.0, 0.0, cols as f64);
        vec![draw.bell(rows * cols, 2.0), lengths]
    },
    truth: |problem, change| {
        let cols = problem.size("cols");
        let mut log_sums = Vec::new();
        let mut means = Vec::new();
        for (row, x) in problem.inputs[0].chunks(cols).enumerate() {
            let length = change.at(2, row as i32, -1, problem.inputs[1][row]);
            let x = &x[..length as usize];
            let log_sum = x.iter().map(|x| x.exp()).sum::<f64>().ln();
            log_sums.push(change.at(1, row as i32, -1, log_sum));
            means.push(x.iter().sum::<f64>() / length);
        }
        vec![log_sums, means]
    },
};

/// An empty row, and one that is not.
const EMPTY: i32 = 4;
const FULL: i32 = 7;

/// The call with `got` against the one with `base`.
fn judged(base: Change, got: Change) -> Judgement {
    let bench = Bench::new();
    let sizes = Sizes::draw(&LOG_SUM, &mut Draw::new(Kind::Ordinary, 1));
    let problem = Problem::of(&LOG_SUM, Kind::Ordinary, &sizes, 2);
    let holes = (LOG_SUM.truth)(&problem, &Change::NONE);
    assert!(holes.iter().all(|values| !values[EMPTY as usize].is_finite()));
    let batch = Batch::new(&bench, &LOG_SUM, vec![problem], "holes");
    let judged = judge_trial(&batch.trial(&base, 0), &batch.trial(&got, 1));
    judged.expect("the machine can replay")
}

#[test]
fn what_is_not_finite_in_the_same_place_on_the_trusted_side_is_no_failure() {
    for form in [0, 1, ORDERS, 2 * ORDERS] {
        let judged = judged(Change::NONE, Change { form, ..Change::NONE });
        assert!(judged.verdict <= Verdict::Equivalent, "form {form}: {:?}", judged.verdict);
    }
}

#[test]
fn beside_what_is_not_finite_on_both_sides_a_defect_is_found() {
    let defect = Change { site: 1, factor: 1.01, row: FULL, ..Change::NONE };
    let judged = judged(Change::NONE, defect);
    assert_eq!(judged.verdict, Verdict::Diverged);
    let diverged =
        judged.outputs.iter().filter(|output| output.story.verdict() == Verdict::Diverged);
    let names: Vec<&str> = diverged.map(|output| &output.name[..8]).collect();
    assert_eq!(names, ["log_sums"; 3], "in each dtype");
}

#[test]
fn what_is_not_finite_in_another_place_than_on_the_trusted_side_is_found() {
    let emptied = Change { site: 2, factor: 0.0, row: FULL, ..Change::NONE };
    assert_eq!(judged(Change::NONE, emptied).verdict, Verdict::Diverged);
    assert_eq!(judged(emptied, Change::NONE).verdict, Verdict::Diverged);
}
