//! Families around the norm of a row.

use super::draw::single;
use super::shares::table;
use super::{Change, Extent, Family, Kind, Problem, backward, floats, gradient, output, site};

pub const FAMILIES: &[&Family] = &[&LAYERNORM, &RMSNORM, &CLIP, &QUANTISED];

const TABLE: [&str; 2] = ["rows", "cols"];

static LAYERNORM: Family = Family {
    name: "layernorm",
    inputs: &[floats("x", &TABLE), floats("gain", &["cols"]), floats("grad_y", &TABLE)],
    outputs: &[
        output("y", &TABLE),
        gradient("grad_x", &TABLE, ["y", "x", "grad_y"]),
        gradient("grad_gain", &["cols"], ["y", "gain", "grad_y"]),
    ],
    sizes: &TABLE,
    sites: &[
        site(1, Extent::Rows, TABLE),
        site(2, Extent::Rows, TABLE),
        site(3, Extent::Rows, TABLE),
        site(4, Extent::Columns, TABLE),
        backward(5, Extent::Rows, TABLE),
        backward(6, Extent::Elements, TABLE),
        site(7, Extent::Elements, TABLE),
        backward(8, Extent::Columns, TABLE),
    ],
    ways: 4,
    jumps: false,
    shape: table,
    draw: |draw, sizes| {
        let rows = sizes.get("rows");
        let cols = sizes.get("cols");
        let gain = draw.bell(cols, 0.3).into_iter().map(|gain| single(1.0 + gain)).collect();
        vec![draw.rows(rows, cols, 0.5), gain, draw.side(rows * cols, 1.0)]
    },
    truth: layernorm,
};

fn layernorm(problem: &Problem, change: &Change) -> Vec<Vec<f64>> {
    let cols = problem.size("cols");
    let [x, gain, grad_y] = &problem.inputs[..] else { unreachable!("three inputs") };
    let n = cols as f64;
    let mut y = Vec::new();
    let mut grad_x = Vec::new();
    let mut grad_gain = vec![0.0; cols];
    for (row, (x, grad)) in x.chunks(cols).zip(grad_y.chunks(cols)).enumerate() {
        let row = row as i32;
        let mean = change.at(2, row, -1, x.iter().sum::<f64>() / n);
        let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
        let variance = change.at(3, row, -1, variance);
        let inverse = 1.0 / (variance + change.at(1, row, -1, 1e-5)).sqrt();
        let factor: Vec<f64> = (0..cols).map(|i| change.at(4, -1, i as i32, gain[i])).collect();
        let normed: Vec<f64> = x.iter().map(|x| (x - mean) * inverse).collect();
        let scaled: Vec<f64> = grad.iter().zip(&factor).map(|(g, factor)| g * factor).collect();
        let mean_scaled = scaled.iter().sum::<f64>() / n;
        let product = scaled.iter().zip(&normed).map(|(s, x)| s * x).sum::<f64>() / n;
        let product = change.at(5, row, -1, product);
        for i in 0..cols {
            y.push(change.at(7, row, i as i32, normed[i] * factor[i]));
            let value = inverse * (scaled[i] - mean_scaled - normed[i] * product);
            grad_x.push(change.at(6, row, i as i32, value));
            grad_gain[i] += grad[i] * normed[i];
        }
    }
    let grad_gain = (0..cols).map(|i| change.at(8, -1, i as i32, grad_gain[i])).collect();
    vec![y, grad_x, grad_gain]
}

static RMSNORM: Family = Family {
    name: "rmsnorm",
    inputs: &[floats("x", &TABLE), floats("weight", &["cols"]), floats("grad_y", &TABLE)],
    outputs: &[output("y", &TABLE), gradient("grad_x", &TABLE, ["y", "x", "grad_y"])],
    sizes: &TABLE,
    sites: &[
        site(1, Extent::Rows, TABLE),
        site(2, Extent::Rows, TABLE),
        site(3, Extent::Columns, TABLE),
        backward(4, Extent::Rows, TABLE),
        site(5, Extent::Elements, TABLE),
        backward(6, Extent::Elements, TABLE),
    ],
    ways: 3,
    jumps: false,
    shape: table,
    draw: |draw, sizes| {
        let rows = sizes.get("rows");
        let cols = sizes.get("cols");
        let weight = draw.bell(cols, 0.3).into_iter().map(|w| single(1.0 + w)).collect();
        vec![draw.rows(rows, cols, 0.5), weight, draw.side(rows * cols, 1.0)]
    },
    truth: rmsnorm,
};

fn rmsnorm(problem: &Problem, change: &Change) -> Vec<Vec<f64>> {
    let cols = problem.size("cols");
    let [x, weight, grad_y] = &problem.inputs[..] else { unreachable!("three inputs") };
    let weight: Vec<f64> = (0..cols).map(|i| change.at(3, -1, i as i32, weight[i])).collect();
    let mut y = Vec::new();
    let mut grad_x = Vec::new();
    for (row, (x, grad)) in x.chunks(cols).zip(grad_y.chunks(cols)).enumerate() {
        let row = row as i32;
        let squares = change.at(2, row, -1, x.iter().map(|x| x * x).sum());
        let mean = squares / cols as f64 + change.at(1, row, -1, 1e-6);
        let inverse = 1.0 / mean.sqrt();
        let dot = (0..cols).map(|i| grad[i] * weight[i] * x[i]).sum::<f64>();
        let dot = change.at(4, row, -1, dot);
        for i in 0..cols {
            y.push(change.at(5, row, i as i32, x[i] * inverse * weight[i]));
            let along = x[i] * dot / (mean * cols as f64);
            let value = inverse * (grad[i] * weight[i] - along);
            grad_x.push(change.at(6, row, i as i32, value));
        }
    }
    vec![y, grad_x]
}

static CLIP: Family = Family {
    name: "clip",
    inputs: &[floats("x", &TABLE)],
    outputs: &[output("out", &TABLE)],
    sizes: &TABLE,
    sites: &[
        site(1, Extent::Scalar, TABLE),
        site(2, Extent::Scalar, TABLE),
        site(3, Extent::Elements, TABLE),
    ],
    ways: 3,
    jumps: false,
    shape: table,
    draw: |draw, sizes| vec![draw.rows(sizes.get("rows"), sizes.get("cols"), 0.5)],
    truth: |problem, change| {
        let x = &problem.inputs[0];
        let cols = problem.size("cols");
        let norm = change.at(1, -1, -1, x.iter().map(|x| x * x).sum::<f64>().sqrt());
        let share = (change.at(2, -1, -1, 4.0) / (norm + 1e-6)).min(1.0);
        let place = |index: usize| ((index / cols) as i32, (index % cols) as i32);
        let one = |(index, x): (usize, &f64)| {
            let (row, column) = place(index);
            change.at(3, row, column, x * share)
        };
        vec![x.iter().enumerate().map(one).collect()]
    },
};

static QUANTISED: Family = Family {
    name: "quantised",
    inputs: &[floats("x", &TABLE)],
    outputs: &[output("out", &TABLE)],
    sizes: &TABLE,
    sites: &[site(1, Extent::Rows, TABLE), site(2, Extent::Elements, TABLE)],
    ways: 3,
    jumps: true,
    shape: table,
    draw: |draw, sizes| {
        let rows = sizes.get("rows");
        let cols = sizes.get("cols");
        let mut x = draw.rows(rows, cols, 0.5);
        match draw.kind {
            // The reciprocal of a denormal step would be infinite.
            Kind::Tiny => x.iter_mut().for_each(|x| *x = single(*x * 1e8)),
            Kind::Tie => {
                for row in x.chunks_mut(cols) {
                    let step = draw.one_of(&[3.0, 5.0, 7.0, 11.0]) / 64.0;
                    row.fill_with(|| (draw.below(200) as f64 - 99.5) * step);
                    row[0] = 127.0 * step;
                }
            }
            _ => {}
        }
        vec![x]
    },
    truth: |problem, change| {
        let x = &problem.inputs[0];
        let cols = problem.size("cols");
        let mut out = Vec::new();
        for (row, x) in x.chunks(cols).enumerate() {
            let max = x.iter().fold(0.0, |max, x| f64::max(max, x.abs()));
            let step = change.at(1, row as i32, -1, max / 127.0);
            for (column, x) in x.iter().enumerate() {
                let steps = if step > 0.0 { (x / step).round_ties_even() } else { 0.0 };
                out.push(change.at(2, row as i32, column as i32, steps * step));
            }
        }
        vec![out]
    },
};
