//! What every family computes, in float64 and straight from the definitions.
//!
//! Independent of the CUDA sources: no blocks, no reductions, nothing fused.

use super::inputs::Inputs;

/// An output: its name and its elements in row-major order.
pub type Output = (&'static str, Vec<f64>);

/// The outputs of `family` on `inputs`.
///
/// # Panics
/// If there is no such family.
pub fn outputs(family: &str, inputs: &Inputs) -> Vec<Output> {
    match family {
        "lm_loss" => lm_loss(inputs),
        "linear_loss" => linear_loss(inputs),
        "softmax" => softmax(inputs),
        "layernorm" => layernorm(inputs),
        "matmul_bias" => matmul_bias(inputs),
        "embedding" => embedding(inputs),
        "attention" => attention(inputs),
        _ => panic!("no family {family}"),
    }
}

/// `exp(x) / sum exp(x)`, shifted by the maximum.
fn probabilities(row: &[f64]) -> Vec<f64> {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let terms: Vec<f64> = row.iter().map(|x| (x - max).exp()).collect();
    let sum: f64 = terms.iter().sum();
    terms.into_iter().map(|term| term / sum).collect()
}

/// `-log softmax(row)[target]`.
fn cross_entropy(row: &[f64], target: usize) -> f64 {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
    sum.ln() + (max - row[target])
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn lm_loss(inputs: &Inputs) -> Vec<Output> {
    let logits = inputs.floats("logits");
    let targets = inputs.integers("targets");
    let vocab = inputs.shape("logits")[2];
    let counts: Vec<bool> = match inputs.get("mask") {
        Some(mask) => mask.iter().map(|&flag| flag != 0.0).collect(),
        None => vec![true; targets.len()],
    };
    let count = counts.iter().filter(|&&counts| counts).count() as f64;
    let mut loss = 0.0;
    let mut gradient = Vec::new();
    for (position, row) in logits.chunks(vocab).enumerate() {
        let target = targets[position] as usize;
        let mut grad_row = probabilities(row);
        grad_row[target] -= 1.0;
        let weight = if counts[position] { 1.0 / count } else { 0.0 };
        loss += weight * cross_entropy(row, target);
        gradient.extend(grad_row.into_iter().map(|value| value * weight));
    }
    vec![("loss", vec![loss]), ("grad_logits", gradient)]
}

fn linear_loss(inputs: &Inputs) -> Vec<Output> {
    let hidden = inputs.floats("hidden");
    let weight = inputs.floats("weight");
    let targets = inputs.integers("targets");
    let temperature = inputs.floats("temperature")[0];
    let rows = inputs.shape("hidden")[0];
    let dim = inputs.shape("hidden")[1];
    let mut loss = 0.0;
    let mut grad_hidden = vec![0.0; hidden.len()];
    let mut grad_weight = vec![0.0; weight.len()];
    for (row, h) in hidden.chunks(dim).enumerate() {
        let logits: Vec<f64> = weight.chunks(dim).map(|w| dot(h, w) / temperature).collect();
        let target = targets[row] as usize;
        loss += cross_entropy(&logits, target) / rows as f64;
        let mut grad_logits = probabilities(&logits);
        grad_logits[target] -= 1.0;
        for (item, gradient) in grad_logits.iter().enumerate() {
            let gradient = gradient / (temperature * rows as f64);
            for k in 0..dim {
                grad_hidden[row * dim + k] += gradient * weight[item * dim + k];
                grad_weight[item * dim + k] += gradient * h[k];
            }
        }
    }
    vec![("loss", vec![loss]), ("grad_hidden", grad_hidden), ("grad_weight", grad_weight)]
}

fn softmax(inputs: &Inputs) -> Vec<Output> {
    let (x, grad_y, cols) = (inputs.floats("x"), inputs.floats("grad_y"), inputs.shape("x")[1]);
    let mut y = Vec::new();
    let mut grad_x = Vec::new();
    for (row, gradient) in x.chunks(cols).zip(grad_y.chunks(cols)) {
        let p = probabilities(row);
        let mean = dot(&p, gradient);
        grad_x.extend(p.iter().zip(gradient).map(|(p, g)| p * (g - mean)));
        y.extend(p);
    }
    vec![("y", y), ("grad_x", grad_x)]
}

fn layernorm(inputs: &Inputs) -> Vec<Output> {
    let x = inputs.floats("x");
    let gamma = inputs.floats("gamma");
    let grad_y = inputs.floats("grad_y");
    let cols = gamma.len();
    let epsilon = inputs.floats("epsilon")[0];
    let n = cols as f64;
    let mut grad_gamma = vec![0.0; cols];
    let mut grad_beta = vec![0.0; cols];
    let mut grad_x = Vec::new();
    for (row, gradient) in x.chunks(cols).zip(grad_y.chunks(cols)) {
        let mean = row.iter().sum::<f64>() / n;
        let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
        let inverse = 1.0 / (variance + epsilon).sqrt();
        let normed: Vec<f64> = row.iter().map(|x| (x - mean) * inverse).collect();
        let scaled: Vec<f64> = gradient.iter().zip(&gamma).map(|(g, gamma)| g * gamma).collect();
        let mean_scaled = scaled.iter().sum::<f64>() / n;
        let mean_product = dot(&scaled, &normed) / n;
        for c in 0..cols {
            grad_gamma[c] += gradient[c] * normed[c];
            grad_beta[c] += gradient[c];
            grad_x.push(inverse * (scaled[c] - mean_scaled - normed[c] * mean_product));
        }
    }
    vec![("grad_x", grad_x), ("grad_gamma", grad_gamma), ("grad_beta", grad_beta)]
}

fn matmul_bias(inputs: &Inputs) -> Vec<Output> {
    let x = inputs.floats("x");
    let weight = inputs.floats("weight");
    let bias = inputs.floats("bias");
    let grad_out = inputs.floats("grad_out");
    let k = inputs.shape("weight")[0];
    let n = inputs.shape("weight")[1];
    let mut out = Vec::new();
    for row in x.chunks(k) {
        let product = |column: usize| (0..k).map(|i| row[i] * weight[i * n + column]).sum::<f64>();
        out.extend((0..n).map(|column| product(column) + bias[column]));
    }
    let grad_bias = (0..n).map(|column| grad_out.iter().skip(column).step_by(n).sum()).collect();
    let mut grad_x = Vec::new();
    for row in grad_out.chunks(n) {
        grad_x.extend(weight.chunks(n).map(|weights| dot(row, weights)));
    }
    vec![("out", out), ("grad_bias", grad_bias), ("grad_x", grad_x)]
}

fn embedding(inputs: &Inputs) -> Vec<Output> {
    let grad_out = inputs.floats("grad_out");
    let tokens = inputs.integers("tokens");
    let dim = inputs.shape("table")[1];
    let decay = inputs.floats("decay")[0];
    let mut grad_table: Vec<f64> = inputs.floats("table").iter().map(|x| decay * x).collect();
    for (&token, gradient) in tokens.iter().zip(grad_out.chunks(dim)).filter(|(t, _)| **t >= 0) {
        for (column, value) in gradient.iter().enumerate() {
            grad_table[token as usize * dim + column] += value;
        }
    }
    vec![("grad_table", grad_table)]
}

fn attention(inputs: &Inputs) -> Vec<Output> {
    let scores = inputs.floats("scores");
    let grad_weights = inputs.floats("grad_weights");
    let tau = inputs.floats("tau");
    let bias = inputs.floats("bias");
    let heads = tau.len();
    let length = inputs.shape("bias")[1];
    let mut grad_scores = vec![0.0; scores.len()];
    let mut grad_tau = vec![0.0; heads];
    let mut grad_bias = vec![0.0; bias.len()];
    for head in 0..heads {
        for query in 0..length {
            let begin = (head * length + query) * length;
            // Causal: a query sees the keys up to its own place.
            let seen = begin..begin + query + 1;
            let keys = scores[seen.clone()].iter().zip(&bias[head * length..]);
            let p = probabilities(&keys.map(|(s, b)| tau[head] * s + b).collect::<Vec<_>>());
            let mean = dot(&p, &grad_weights[seen.clone()]);
            for (key, index) in seen.enumerate() {
                let gradient = p[key] * (grad_weights[index] - mean);
                grad_scores[index] = tau[head] * gradient;
                grad_tau[head] += gradient * scores[index];
                grad_bias[head * length + key] += gradient;
            }
        }
    }
    vec![("grad_scores", grad_scores), ("grad_tau", grad_tau), ("grad_bias", grad_bias)]
}
