//! Families that treat elements, or pairs of them, apart.

use super::draw::single;
use super::shares::table;
use super::{Change, Extent, Family, Problem, backward, floats, gradient, output, site};

pub const FAMILIES: &[&Family] = &[&GATED, &GELU, &ROPE, &ADAM];

const TABLE: [&str; 2] = ["rows", "cols"];

/// The row and column of each element of a table, and its index.
fn places(problem: &Problem) -> impl Iterator<Item = (usize, i32, i32)> {
    let rows = problem.size("rows");
    let cols = problem.size("cols");
    (0..rows * cols).map(move |index| (index, (index / cols) as i32, (index % cols) as i32))
}

static GATED: Family = Family {
    name: "gated",
    inputs: &[floats("a", &TABLE), floats("b", &TABLE), floats("grad_y", &TABLE)],
    outputs: &[
        output("y", &TABLE),
        gradient("grad_a", &TABLE, ["y", "a", "grad_y"]),
        gradient("grad_b", &TABLE, ["y", "b", "grad_y"]),
    ],
    sizes: &TABLE,
    sites: &[
        site(1, Extent::Elements, TABLE),
        site(2, Extent::Elements, TABLE),
        backward(3, Extent::Elements, TABLE),
        backward(4, Extent::Elements, TABLE),
        backward(5, Extent::Elements, TABLE),
    ],
    ways: 4,
    jumps: false,
    shape: table,
    draw: |draw, sizes| {
        let rows = sizes.get("rows");
        let cols = sizes.get("cols");
        vec![draw.rows(rows, cols, 0.5), draw.side(rows * cols, 0.5), draw.side(rows * cols, 0.5)]
    },
    truth: gated,
};

fn gated(problem: &Problem, change: &Change) -> Vec<Vec<f64>> {
    let [a, b, grad] = &problem.inputs[..] else { unreachable!("three inputs") };
    let mut outputs = vec![Vec::new(); 3];
    for (i, row, column) in places(problem) {
        let s = change.at(1, row, column, 1.0 / (1.0 + (-a[i]).exp()));
        let silu = a[i] * s;
        let slope = change.at(3, row, column, s * (1.0 + a[i] * (1.0 - s)));
        outputs[0].push(change.at(2, row, column, silu * b[i]));
        outputs[1].push(change.at(4, row, column, grad[i] * b[i] * slope));
        outputs[2].push(change.at(5, row, column, grad[i] * silu));
    }
    outputs
}

static GELU: Family = Family {
    name: "gelu",
    inputs: &[floats("x", &TABLE), floats("grad_y", &TABLE)],
    outputs: &[output("y", &TABLE), gradient("grad_x", &TABLE, ["y", "x", "grad_y"])],
    sizes: &TABLE,
    sites: &[
        site(1, Extent::Scalar, TABLE),
        site(2, Extent::Scalar, TABLE),
        site(3, Extent::Elements, TABLE),
        backward(4, Extent::Elements, TABLE),
    ],
    ways: 3,
    jumps: false,
    shape: table,
    draw: |draw, sizes| {
        let rows = sizes.get("rows");
        let cols = sizes.get("cols");
        vec![draw.rows(rows, cols, 1.0), draw.side(rows * cols, 0.5)]
    },
    truth: gelu,
};

fn gelu(problem: &Problem, change: &Change) -> Vec<Vec<f64>> {
    let [x, grad] = &problem.inputs[..] else { unreachable!("two inputs") };
    let cubic = change.at(1, -1, -1, 0.044715);
    let root = change.at(2, -1, -1, (2.0 / std::f64::consts::PI).sqrt());
    let mut y = Vec::new();
    let mut grad_x = Vec::new();
    for (i, row, column) in places(problem) {
        let t = (root * (x[i] + cubic * x[i] * x[i] * x[i])).tanh();
        y.push(change.at(3, row, column, 0.5 * x[i] * (1.0 + t)));
        let bell = 1.0 - t * t;
        let inner = root * (1.0 + 3.0 * cubic * x[i] * x[i]);
        let slope = 0.5 * (1.0 + t) + if bell == 0.0 { 0.0 } else { 0.5 * x[i] * bell * inner };
        grad_x.push(change.at(4, row, column, grad[i] * slope));
    }
    vec![y, grad_x]
}

static ROPE: Family = Family {
    name: "rope",
    inputs: &[floats("x", &TABLE), floats("grad_out", &TABLE)],
    outputs: &[output("out", &TABLE), gradient("grad_x", &TABLE, ["out", "x", "grad_out"])],
    sizes: &TABLE,
    sites: &[
        site(1, Extent::Scalar, TABLE),
        site(2, Extent::Rows, TABLE),
        site(3, Extent::Elements, TABLE),
        backward(4, Extent::Elements, TABLE),
    ],
    ways: 3,
    jumps: false,
    shape: |draw| draw.one_of(&[[6, 24], [9, 12], [3, 70], [12, 6]]).to_vec(),
    draw: |draw, sizes| {
        let rows = sizes.get("rows");
        let cols = sizes.get("cols");
        vec![draw.rows(rows, cols, 0.5), draw.side(rows * cols, 0.5)]
    },
    truth: rope,
};

fn rope(problem: &Problem, change: &Change) -> Vec<Vec<f64>> {
    let [x, grad] = &problem.inputs[..] else { unreachable!("two inputs") };
    let cols = problem.size("cols");
    let base = change.at(1, -1, -1, 10000.0);
    let mut out = Vec::new();
    let mut grad_x = Vec::new();
    for (i, row, column) in places(problem) {
        let pair = column / 2;
        let frequency = base.powf(-2.0 * f64::from(pair) / cols as f64);
        let angle = change.at(2, row, -1, 7.0 * f64::from(row) + 1.0) * frequency;
        let (s, c) = angle.sin_cos();
        // The other of the pair turns towards the first, and the first away from it.
        let (other, sign) = if column % 2 == 0 { (i + 1, -1.0) } else { (i - 1, 1.0) };
        out.push(change.at(3, row, column, x[i] * c + sign * x[other] * s));
        grad_x.push(change.at(4, row, column, grad[i] * c - sign * grad[other] * s));
    }
    vec![out, grad_x]
}

static ADAM: Family = Family {
    name: "adam",
    inputs: &[
        floats("parameter", &TABLE),
        floats("gradient", &TABLE),
        floats("first", &TABLE),
        floats("second", &TABLE),
    ],
    outputs: &[
        output("next_parameter", &TABLE),
        output("next_first", &TABLE),
        output("next_second", &TABLE),
    ],
    sizes: &TABLE,
    sites: &[
        site(1, Extent::Scalar, TABLE),
        site(2, Extent::Scalar, TABLE),
        site(3, Extent::Scalar, TABLE),
        site(4, Extent::Scalar, TABLE),
        site(5, Extent::Scalar, TABLE),
        site(6, Extent::Elements, TABLE),
        site(7, Extent::Elements, TABLE),
    ],
    ways: 4,
    jumps: false,
    shape: table,
    draw: |draw, sizes| {
        let rows = sizes.get("rows");
        let cols = sizes.get("cols");
        let gradient = draw.rows(rows, cols, 1e-3);
        let first = draw.side(rows * cols, 1e-3);
        let second = draw.bell(rows * cols, 1e-3).iter().map(|m| single(m * m)).collect();
        vec![draw.bell(rows * cols, 0.5), gradient, first, second]
    },
    truth: adam,
};

fn adam(problem: &Problem, change: &Change) -> Vec<Vec<f64>> {
    let [parameter, gradient, first, second] = &problem.inputs[..] else {
        unreachable!("four inputs")
    };
    let beta1 = change.at(1, -1, -1, 0.875);
    let beta2 = change.at(2, -1, -1, 0.9375);
    let of_first = change.at(5, -1, -1, 1.0 - beta1.powi(10));
    let of_second = 1.0 - beta2.powi(10);
    let rate = change.at(4, -1, -1, 1e-2);
    let epsilon = change.at(3, -1, -1, 1e-8);
    let mut outputs = vec![Vec::new(); 3];
    for (i, row, column) in places(problem) {
        let g = gradient[i];
        let m = change.at(6, row, column, beta1 * first[i] + (1.0 - beta1) * g);
        let v = beta2 * second[i] + (1.0 - beta2) * g * g;
        let step = rate * (m / of_first) / ((v / of_second).sqrt() + epsilon);
        outputs[0].push(change.at(7, row, column, parameter[i] - step));
        outputs[1].push(m);
        outputs[2].push(v);
    }
    outputs
}
