//! Families of products and sums.

use super::draw::single;
use super::{
    Change, Extent, Family, Kind, Problem, backward, floats, gradient, integers, output, site,
};

pub const FAMILIES: &[&Family] = &[&MATMUL_BIAS, &EMBEDDING, &RECTIFIED];

static MATMUL_BIAS: Family = Family {
    name: "matmul_bias",
    inputs: &[
        floats("x", &["rows", "inner"]),
        floats("weight", &["inner", "cols"]),
        floats("bias", &["cols"]),
        floats("grad_out", &["rows", "cols"]),
    ],
    outputs: &[
        output("out", &["rows", "cols"]),
        gradient("grad_bias", &["cols"], ["out", "bias", "grad_out"]),
        gradient("grad_x", &["rows", "inner"], ["out", "x", "grad_out"]),
    ],
    sizes: &["rows", "inner", "cols"],
    sites: &[
        site(1, Extent::Columns, ["rows", "cols"]),
        site(2, Extent::Elements, ["rows", "inner"]),
        site(3, Extent::Elements, ["rows", "cols"]),
        backward(4, Extent::Columns, ["rows", "cols"]),
        backward(5, Extent::Elements, ["rows", "inner"]),
    ],
    ways: 3,
    jumps: false,
    shape: |draw| draw.one_of(&[[5, 17, 9], [8, 8, 8], [3, 60, 12]]).to_vec(),
    draw: |draw, sizes| {
        let [rows, inner, cols] = ["rows", "inner", "cols"].map(|name| sizes.get(name));
        vec![
            draw.rows(rows, inner, 0.5),
            draw.side(inner * cols, 0.25),
            draw.side(cols, 0.5),
            draw.side(rows * cols, 0.5),
        ]
    },
    truth: matmul_bias,
};

fn matmul_bias(problem: &Problem, change: &Change) -> Vec<Vec<f64>> {
    let [rows, inner, cols] = ["rows", "inner", "cols"].map(|name| problem.size(name));
    let [x, weight, bias, grad_out] = &problem.inputs[..] else { unreachable!("four inputs") };
    let mut out = Vec::new();
    let mut grad_x = Vec::new();
    for row in 0..rows {
        let left = |i: usize| change.at(2, row as i32, i as i32, x[row * inner + i]);
        for c in 0..cols {
            let product: f64 = (0..inner).map(|i| left(i) * weight[i * cols + c]).sum();
            let value = product + change.at(1, -1, c as i32, bias[c]);
            out.push(change.at(3, row as i32, c as i32, value));
        }
        for i in 0..inner {
            let terms = (0..cols).map(|c| grad_out[row * cols + c] * weight[i * cols + c]);
            grad_x.push(change.at(5, row as i32, i as i32, terms.sum()));
        }
    }
    let column = |c: usize| grad_out.iter().skip(c).step_by(cols).sum();
    let grad_bias = (0..cols).map(|c| change.at(4, -1, c as i32, column(c))).collect();
    vec![out, grad_bias, grad_x]
}

static EMBEDDING: Family = Family {
    name: "embedding",
    inputs: &[
        floats("table", &["vocab", "cols"]),
        floats("grad_out", &["rows", "cols"]),
        integers("tokens", &["rows"]),
    ],
    outputs: &[output("grad_table", &["vocab", "cols"])],
    sizes: &["rows", "vocab", "cols"],
    sites: &[
        site(1, Extent::Scalar, ["rows", "cols"]),
        site(2, Extent::Elements, ["rows", "cols"]),
        site(3, Extent::Elements, ["vocab", "cols"]),
    ],
    ways: 3,
    jumps: false,
    shape: |draw| draw.one_of(&[[16, 6, 8], [40, 5, 3], [12, 20, 4]]).to_vec(),
    draw: |draw, sizes| {
        let [rows, vocab, cols] = ["rows", "vocab", "cols"].map(|name| sizes.get(name));
        let table = draw.bell(vocab * cols, 0.5).into_iter().map(single).collect();
        let grad_out = draw.rows(rows, cols, 0.5);
        // Every seventh is padding.
        let token = |row: usize| if row % 7 == 2 { -1.0 } else { draw.below(vocab) as f64 };
        let tokens = (0..rows).map(token).collect();
        vec![table, grad_out, tokens]
    },
    truth: |problem, change| {
        let cols = problem.size("cols");
        let [table, grad_out, tokens] = &problem.inputs[..] else { unreachable!("three inputs") };
        let decay = change.at(1, -1, -1, 0.1);
        let mut sums: Vec<f64> = table.iter().map(|x| decay * x).collect();
        for (row, &token) in tokens.iter().enumerate().filter(|(_, token)| **token >= 0.0) {
            for c in 0..cols {
                let value = change.at(2, row as i32, c as i32, grad_out[row * cols + c]);
                sums[token as usize * cols + c] += value;
            }
        }
        let place = |index: usize| ((index / cols) as i32, (index % cols) as i32);
        let one = |(index, sum): (usize, f64)| change.at(3, place(index).0, place(index).1, sum);
        vec![sums.into_iter().enumerate().map(one).collect()]
    },
};

static RECTIFIED: Family = Family {
    name: "rectified",
    inputs: &[
        floats("x", &["rows", "inner"]),
        floats("weight", &["inner", "cols"]),
        floats("bias", &["cols"]),
        floats("grad_y", &["rows", "cols"]),
    ],
    outputs: &[
        output("y", &["rows", "cols"]),
        gradient("grad_x", &["rows", "inner"], ["y", "x", "grad_y"]),
        gradient("grad_weight", &["inner", "cols"], ["y", "weight", "grad_y"]),
        gradient("grad_bias", &["cols"], ["y", "bias", "grad_y"]),
    ],
    sizes: &["rows", "inner", "cols"],
    sites: &[
        site(1, Extent::Columns, ["rows", "cols"]),
        site(2, Extent::Elements, ["rows", "cols"]),
        backward(3, Extent::Elements, ["rows", "inner"]),
        backward(4, Extent::Columns, ["rows", "cols"]),
        backward(5, Extent::Elements, ["inner", "cols"]),
    ],
    ways: 3,
    jumps: true,
    shape: |draw| draw.one_of(&[[5, 17, 9], [8, 8, 8], [3, 30, 12]]).to_vec(),
    draw: |draw, sizes| {
        let [rows, inner, cols] = ["rows", "inner", "cols"].map(|name| sizes.get(name));
        let mut x = draw.rows(rows, inner, 0.5);
        let mut weight = draw.side(inner * cols, 0.25);
        if draw.kind == Kind::Tie {
            // Sums of few values of one size often cancel.
            x.iter_mut().for_each(|x| *x = x.signum());
            weight.iter_mut().for_each(|x| *x = x.signum() / 4.0);
        }
        // A bias begins at zero: a row of padding then lies on the corner.
        let bias = match draw.kind {
            Kind::Padded | Kind::Edge | Kind::Tie => vec![0.0; cols],
            _ => draw.side(cols, 0.5),
        };
        vec![x, weight, bias, draw.side(rows * cols, 0.5)]
    },
    truth: rectified,
};

fn rectified(problem: &Problem, change: &Change) -> Vec<Vec<f64>> {
    let [rows, inner, cols] = ["rows", "inner", "cols"].map(|name| problem.size(name));
    let [x, weight, bias, grad_y] = &problem.inputs[..] else { unreachable!("four inputs") };
    let mut y = Vec::new();
    let mut grads = [vec![0.0; rows * inner], vec![0.0; inner * cols], vec![0.0; cols]];
    for row in 0..rows {
        for c in 0..cols {
            let terms = (0..inner).map(|i| x[row * inner + i] * weight[i * cols + c]);
            let sum = terms.sum::<f64>() + change.at(1, -1, c as i32, bias[c]);
            y.push(change.at(2, row as i32, c as i32, sum.max(0.0)));
            let slope = if sum > 0.0 { grad_y[row * cols + c] } else { 0.0 };
            for i in 0..inner {
                grads[0][row * inner + i] += slope * weight[i * cols + c];
                grads[1][i * cols + c] += slope * x[row * inner + i];
            }
            grads[2][c] += slope;
        }
    }
    let scaled = |site: i32, columns: usize, values: &[f64]| -> Vec<f64> {
        let place = |index: usize| ((index / columns) as i32, (index % columns) as i32);
        let one = |(index, &value)| change.at(site, place(index).0, place(index).1, value);
        values.iter().enumerate().map(one).collect()
    };
    let [grad_x, grad_weight, grad_bias] = &grads;
    let grad_bias = (0..cols).map(|c| change.at(4, -1, c as i32, grad_bias[c])).collect();
    vec![y, scaled(3, inner, grad_x), scaled(5, cols, grad_weight), grad_bias]
}
