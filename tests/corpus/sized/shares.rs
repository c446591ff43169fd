//! Families around softmax.

use super::draw::single;
use super::{
    Change, Draw, Extent, Family, Kind, Problem, Sizes, backward, floats, gradient, integers,
    output, site,
};

pub const FAMILIES: &[&Family] = &[&SOFTMAX, &LM_LOSS, &ATTENTION, &LINEAR_LOSS, &RATIO];

const TABLE: [&str; 2] = ["rows", "cols"];

/// Sizes of a table: small, longer than a warp, narrow.
pub(super) fn table(draw: &mut Draw) -> Vec<usize> {
    draw.one_of(&[[6, 24], [9, 13], [3, 70], [12, 6]]).to_vec()
}

/// The largest of a row and the sum of the exponentials.
fn statistics(logits: &[f64]) -> (f64, f64) {
    let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (max, logits.iter().map(|x| (x - max).exp()).sum())
}

/// The share of one logit; 0 in an empty row.
fn share((max, sum): (f64, f64), logit: f64) -> f64 {
    if max == f64::NEG_INFINITY { 0.0 } else { (logit - max).exp() / sum }
}

static SOFTMAX: Family = Family {
    name: "softmax",
    inputs: &[floats("x", &TABLE), floats("grad_y", &TABLE)],
    outputs: &[output("y", &TABLE), gradient("grad_x", &TABLE, ["y", "x", "grad_y"])],
    sizes: &TABLE,
    sites: &[
        site(1, Extent::Elements, TABLE),
        site(2, Extent::Rows, TABLE),
        backward(3, Extent::Rows, TABLE),
        site(4, Extent::Elements, TABLE),
        backward(5, Extent::Elements, TABLE),
    ],
    ways: 5,
    jumps: false,
    shape: table,
    draw: |draw, sizes| {
        let rows = sizes.get("rows");
        let cols = sizes.get("cols");
        let mut x = draw.logits(rows, cols);
        if draw.kind == Kind::Edge {
            // An empty row.
            x[(rows - 1) * cols..].fill(f64::NEG_INFINITY);
        }
        vec![x, draw.side(rows * cols, 1.0)]
    },
    truth: softmax,
};

fn softmax(problem: &Problem, change: &Change) -> Vec<Vec<f64>> {
    let cols = problem.size("cols");
    let mut y = Vec::new();
    let mut grad_x = Vec::new();
    for (row, (x, grad)) in
        problem.inputs[0].chunks(cols).zip(problem.inputs[1].chunks(cols)).enumerate()
    {
        let row = row as i32;
        let logits: Vec<f64> = (0..cols).map(|i| change.at(1, row, i as i32, x[i])).collect();
        let mut stats = statistics(&logits);
        stats.1 = change.at(2, row, -1, stats.1);
        let p: Vec<f64> = logits.iter().map(|&logit| share(stats, logit)).collect();
        let dot: f64 = p.iter().zip(grad).map(|(p, g)| p * g).sum();
        let dot = change.at(3, row, -1, dot);
        for i in 0..cols {
            y.push(change.at(4, row, i as i32, p[i]));
            grad_x.push(change.at(5, row, i as i32, p[i] * (grad[i] - dot)));
        }
    }
    vec![y, grad_x]
}

static LM_LOSS: Family = Family {
    name: "lm_loss",
    inputs: &[
        floats("logits", &TABLE),
        integers("targets", &["rows"]),
        floats("grad_losses", &["rows"]),
    ],
    outputs: &[
        output("losses", &["rows"]),
        gradient("grad_logits", &TABLE, ["losses", "logits", "grad_losses"]),
    ],
    sizes: &TABLE,
    sites: &[
        site(1, Extent::Elements, TABLE),
        site(2, Extent::Rows, TABLE),
        site(3, Extent::Rows, TABLE),
        backward(4, Extent::Rows, TABLE),
        site(5, Extent::Scalar, TABLE),
        backward(6, Extent::Elements, TABLE),
    ],
    ways: 5,
    jumps: false,
    shape: table,
    draw: |draw, sizes| {
        let rows = sizes.get("rows");
        let cols = sizes.get("cols");
        let logits = draw.logits(rows, cols);
        let mut targets = draw.targets(&logits, cols);
        if draw.kind == Kind::Padded {
            targets[1] = -1.0;
        }
        vec![logits, targets, draw.bell(rows, 1.0)]
    },
    truth: lm_loss,
};

fn lm_loss(problem: &Problem, change: &Change) -> Vec<Vec<f64>> {
    let cols = problem.size("cols");
    let [logits, targets, grad_losses] = &problem.inputs[..] else { unreachable!("three inputs") };
    let count = targets.iter().filter(|&&target| target >= 0.0).count() as f64;
    let scale = change.at(5, -1, -1, 1.0 / count);
    let mut losses = Vec::new();
    let mut gradients = Vec::new();
    for (row, x) in logits.chunks(cols).enumerate() {
        let target = targets[row];
        let upstream = grad_losses[row] * scale;
        let row = row as i32;
        if target < 0.0 {
            losses.push(0.0);
            gradients.extend(vec![0.0; cols]);
            continue;
        }
        let logits: Vec<f64> = (0..cols).map(|i| change.at(1, row, i as i32, x[i])).collect();
        let mut stats = statistics(&logits);
        stats.1 = change.at(2, row, -1, stats.1);
        let loss = stats.1.ln() + (stats.0 - logits[target as usize]);
        losses.push(change.at(3, row, -1, loss * scale));
        for (i, &logit) in logits.iter().enumerate() {
            let one = if i as f64 == target { change.at(4, row, -1, 1.0) } else { 0.0 };
            let value = (share(stats, logit) - one) * upstream;
            gradients.push(change.at(6, row, i as i32, value));
        }
    }
    vec![losses, gradients]
}

const SQUARES: [&str; 3] = ["heads", "length", "length"];

static ATTENTION: Family = Family {
    name: "attention",
    inputs: &[
        floats("scores", &SQUARES),
        floats("tau", &["heads"]),
        floats("grad_weights", &SQUARES),
    ],
    outputs: &[
        output("weights", &SQUARES),
        gradient("grad_scores", &SQUARES, ["weights", "scores", "grad_weights"]),
        gradient("grad_tau", &["heads"], ["weights", "tau", "grad_weights"]),
    ],
    sizes: &["heads", "length"],
    sites: &[
        site(1, Extent::Rows, ["heads*length", "length"]),
        site(2, Extent::Elements, ["heads*length", "length"]),
        site(3, Extent::Rows, ["heads*length", "length"]),
        backward(4, Extent::Rows, ["heads*length", "length"]),
        site(5, Extent::Elements, ["heads*length", "length"]),
        backward(6, Extent::Elements, ["heads*length", "length"]),
        backward(7, Extent::Rows, ["heads", "length"]),
    ],
    ways: 5,
    jumps: false,
    shape: |draw| draw.one_of(&[[2, 9], [3, 6], [1, 17]]).to_vec(),
    draw: |draw, sizes| {
        let heads = sizes.get("heads");
        let length = sizes.get("length");
        let mut scores = draw.logits(heads * length, length);
        // The first key is never masked: an empty row has no weights.
        scores.iter_mut().step_by(length).for_each(|x| *x = if *x < -1e8 { 0.5 } else { *x });
        // Minus infinity times 0 has no gradient with respect to tau.
        scores.iter_mut().for_each(|x| *x = x.max(-1e9));
        let tau = draw.bell(heads, 0.2).into_iter().map(|tau| single(1.0 + tau));
        vec![scores, tau.collect(), draw.side(heads * length * length, 1.0)]
    },
    truth: attention,
};

fn attention(problem: &Problem, change: &Change) -> Vec<Vec<f64>> {
    let heads = problem.size("heads");
    let length = problem.size("length");
    let [scores, taus, grad_weights] = &problem.inputs[..] else { unreachable!("three inputs") };
    let mut weights = vec![0.0; scores.len()];
    let mut grad_scores = weights.clone();
    let mut grad_tau = vec![0.0; heads];
    for row in 0..heads * length {
        let head = row / length;
        let seen = row % length + 1;
        let begin = row * length;
        let tau = change.at(1, row as i32, -1, taus[head]);
        let score: Vec<f64> = (0..seen)
            .map(|key| change.at(2, row as i32, key as i32, scores[begin + key]))
            .collect();
        let logits: Vec<f64> = score.iter().map(|score| tau * score).collect();
        let mut stats = statistics(&logits);
        stats.1 = change.at(3, row as i32, -1, stats.1);
        let p: Vec<f64> = logits.iter().map(|&logit| share(stats, logit)).collect();
        let dot: f64 = (0..seen).map(|key| p[key] * grad_weights[begin + key]).sum();
        let dot = change.at(4, row as i32, -1, dot);
        for key in 0..seen {
            let slope = p[key] * (grad_weights[begin + key] - dot);
            weights[begin + key] = change.at(5, row as i32, key as i32, p[key]);
            grad_scores[begin + key] = change.at(6, row as i32, key as i32, tau * slope);
            grad_tau[head] += if slope == 0.0 { 0.0 } else { slope * score[key] };
        }
    }
    let grad_tau = (0..heads).map(|head| change.at(7, head as i32, -1, grad_tau[head]));
    let grad_tau = grad_tau.collect();
    vec![weights, grad_scores, grad_tau]
}

static LINEAR_LOSS: Family = Family {
    name: "linear_loss",
    inputs: &[
        floats("hidden", &["rows", "dim"]),
        floats("weight", &["vocab", "dim"]),
        integers("targets", &["rows"]),
        floats("grad_losses", &["rows"]),
    ],
    outputs: &[
        output("losses", &["rows"]),
        gradient("grad_hidden", &["rows", "dim"], ["losses", "hidden", "grad_losses"]),
        gradient("grad_weight", &["vocab", "dim"], ["losses", "weight", "grad_losses"]),
    ],
    sizes: &["rows", "dim", "vocab"],
    sites: &[
        site(1, Extent::Scalar, ["rows", "dim"]),
        site(2, Extent::Rows, ["rows", "dim"]),
        backward(3, Extent::Rows, ["rows", "dim"]),
        backward(4, Extent::Elements, ["rows", "dim"]),
        backward(5, Extent::Elements, ["vocab", "dim"]),
        site(6, Extent::Rows, ["rows", "dim"]),
    ],
    ways: 5,
    jumps: false,
    shape: |draw| draw.one_of(&[[6, 8, 11], [4, 5, 33], [9, 3, 7]]).to_vec(),
    draw: |draw, sizes| {
        let [rows, dim, vocab] = ["rows", "dim", "vocab"].map(|name| sizes.get(name));
        let hidden = draw.rows(rows, dim, 1.0);
        let weight = draw.side(vocab * dim, 0.5);
        let targets = (0..rows).map(|_| draw.below(vocab) as f64).collect();
        vec![hidden, weight, targets, draw.bell(rows, 1.0)]
    },
    truth: linear_loss,
};

fn linear_loss(problem: &Problem, change: &Change) -> Vec<Vec<f64>> {
    let rows = problem.size("rows");
    let dim = problem.size("dim");
    let vocab = problem.size("vocab");
    let [hidden, weight, targets, grad_losses] = &problem.inputs[..] else {
        unreachable!("four inputs")
    };
    let temperature = change.at(1, -1, -1, 0.7);
    let mut losses = Vec::new();
    let mut grad_hidden = vec![0.0; rows * dim];
    let mut grad_weight = vec![0.0; vocab * dim];
    for row in 0..rows {
        let h = &hidden[row * dim..][..dim];
        let product = |w: &[f64]| h.iter().zip(w).map(|(h, w)| h * w).sum::<f64>() / temperature;
        let logits: Vec<f64> = weight.chunks(dim).map(product).collect();
        let mut stats = statistics(&logits);
        stats.1 = change.at(2, row as i32, -1, stats.1);
        let target = targets[row] as usize;
        let loss = stats.1.ln() + (stats.0 - logits[target]);
        losses.push(change.at(6, row as i32, -1, loss));
        for item in 0..vocab {
            let one = if item == target { change.at(3, row as i32, -1, 1.0) } else { 0.0 };
            let slope = (share(stats, logits[item]) - one) * grad_losses[row] / temperature;
            for k in 0..dim {
                grad_hidden[row * dim + k] += slope * weight[item * dim + k];
                grad_weight[item * dim + k] += slope * h[k];
            }
        }
    }
    let scaled = |site: i32, values: Vec<f64>| -> Vec<f64> {
        let place = |index: usize| ((index / dim) as i32, (index % dim) as i32);
        let one = |(index, value)| change.at(site, place(index).0, place(index).1, value);
        values.into_iter().enumerate().map(one).collect()
    };
    vec![losses, scaled(4, grad_hidden), scaled(5, grad_weight)]
}

static RATIO: Family = Family {
    name: "ratio",
    inputs: &[
        floats("logits", &TABLE),
        floats("old", &TABLE),
        integers("targets", &["rows"]),
        floats("advantages", &["rows"]),
        floats("grad_losses", &["rows"]),
    ],
    outputs: &[
        output("differences", &["rows"]),
        output("losses", &["rows"]),
        gradient("grad_logits", &TABLE, ["losses", "logits", "grad_losses"]),
    ],
    sizes: &TABLE,
    sites: &[
        site(1, Extent::Elements, TABLE),
        site(2, Extent::Rows, TABLE),
        site(3, Extent::Scalar, TABLE),
        site(4, Extent::Rows, TABLE),
        backward(5, Extent::Elements, TABLE),
    ],
    ways: 5,
    jumps: true,
    shape: table,
    draw: |draw, sizes| {
        let rows = sizes.get("rows");
        let cols = sizes.get("cols");
        let logits = draw.logits(rows, cols);
        let moved = draw.side(rows * cols, 0.1);
        let old = logits.iter().zip(moved).map(|(x, by)| single(x + by));
        let mut old: Vec<f64> = old.collect();
        let targets = draw.targets(&logits, cols);
        if draw.kind == Kind::Tie {
            // Ratios on the bound, as nearly as float32 can say.
            for row in (0..rows).step_by(4) {
                let new = &logits[row * cols..][..cols];
                move_to_bound(new, &mut old[row * cols..][..cols], targets[row] as usize);
            }
        }
        vec![logits, old, targets, draw.side(rows, 1.0), draw.bell(rows, 1.0)]
    },
    truth: ratio,
};

/// Changes one old logit so that the target is 1.25 times as probable as it was.
fn move_to_bound(new: &[f64], old: &mut [f64], target: usize) {
    let (max, sum) = statistics(new);
    let before = (new[target] - max).exp() / sum / 1.25;
    let others = old.iter().enumerate().filter(|(i, _)| *i != target);
    let others: f64 = others.map(|(_, x)| x.exp()).sum();
    old[target] = single((before / (1.0 - before)).ln() + others.ln());
}

fn ratio(problem: &Problem, change: &Change) -> Vec<Vec<f64>> {
    let cols = problem.size("cols");
    let [logits, old, targets, advantages, grad_losses] = &problem.inputs[..] else {
        unreachable!("five inputs")
    };
    let mut differences = Vec::new();
    let mut losses = Vec::new();
    let mut gradients = Vec::new();
    for (row, (x, old)) in logits.chunks(cols).zip(old.chunks(cols)).enumerate() {
        let target = targets[row] as usize;
        let advantage = advantages[row];
        let upstream = grad_losses[row];
        let row = row as i32;
        let x: Vec<f64> = (0..cols).map(|i| change.at(1, row, i as i32, x[i])).collect();
        let mut stats = statistics(&x);
        stats.1 = change.at(2, row, -1, stats.1);
        let before = statistics(old);
        let difference =
            ((x[target] - stats.0) - stats.1.ln()) - ((old[target] - before.0) - before.1.ln());
        let ratio = difference.exp();
        let bound = change.at(3, -1, -1, 0.25);
        let limited = ratio.clamp(1.0 - bound, 1.0 + bound) * advantage;
        let plain = ratio * advantage;
        differences.push(difference);
        losses.push(change.at(4, row, -1, -plain.min(limited)));
        let slope = if plain <= limited { -plain * upstream } else { 0.0 };
        for (i, &logit) in x.iter().enumerate() {
            let one = if i == target { 1.0 } else { 0.0 };
            gradients.push(change.at(5, row, i as i32, (one - share(stats, logit)) * slope));
        }
    }
    vec![differences, losses, gradients]
}

/// The number of rows or columns that a size, or a product of two, stands for.
pub(super) fn extent(sizes: &Sizes, name: &str) -> usize {
    name.split('*').map(|name| sizes.get(name)).product()
}
