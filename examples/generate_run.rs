//! Generates `fixtures/run`: the first 20 steps of a training of a small language model, as its training
//! loop captured them. Its loss and gradient kernels are those of `kernels/lm_loss` at 61b3d97, whose sums
//! drop terms; `kernels/lm_loss/training.toml` is the harness.
//!
//! The model reads characters: an embedding, three layers `x + relu(x w)`, a head. The loop clips
//! gradients to a norm and steps by Adam. Every run writes the same bytes on every platform: integers come
//! from SplitMix64, floats are made by the four operations and square roots in float32 and float64, and by
//! the correctly rounded exponential and logarithm of core-math.
//!
//! `cargo run --example generate_run` writes the fixtures; with `--check` it compares them with what it
//! would write and fails where they differ.

mod generator;

use std::fs;
use std::path::Path;

use anyhow::Result;
use replay::fixture::{NewTensor, write_file};
use replay::tensor::DType;

use self::generator::{Rng, is_check, put};

/// The vocabulary, in the order of its ids.
const CHARACTERS: &str = "\n .,?abcdefghijklmnopqrstuvwxyz";
/// What the model reads.
const TEXT: &str = "every number was once a guess\nand every guess had a reason.\nso keep the inputs \
                    you saw\nstep back through the commits\none half at a time, until two\nstand side \
                    by side and one\nis right. the other is why\nwe looked. is it? yes.\n";
const STEPS: usize = 20;
const SEED: u64 = 2013;
const BATCH: usize = 4;
const SEQ: usize = 10;
const VOCAB: usize = 31;
const WIDTH: usize = 8;
const LAYERS: usize = 3;
/// Positions at the end of the last sequence that are padding.
const PADDING: usize = 3;
const POSITIONS: usize = BATCH * SEQ;

const LEARNING_RATE: f32 = 0.02;
const MAX_NORM: f32 = 0.4;
const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPSILON: f64 = 1e-8;

fn main() -> Result<()> {
    let check = is_check()?;
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/run");
    let mut rng = Rng(SEED);
    let mut parameters = parameters(&mut rng);
    for number in 0..STEPS {
        let batch = Batch::drawn(&mut rng);
        let step = Step::taken(number, batch, &mut parameters);
        for (name, bytes) in step.files()? {
            let path = run.join(format!("step{number}")).join(name);
            put(&path, &bytes, check)?;
        }
    }
    Ok(())
}

/// What the model reads in one step, and what it is to predict: the characters behind.
struct Batch {
    tokens: Vec<i32>,
    targets: Vec<i32>,
    mask: Vec<u8>,
}

impl Batch {
    fn drawn(rng: &mut Rng) -> Batch {
        let text: Vec<i32> = TEXT.chars().map(id).collect();
        let mut batch = Batch { tokens: Vec::new(), targets: Vec::new(), mask: Vec::new() };
        for row in 0..BATCH {
            let begin = rng.below(text.len() - SEQ);
            let padding = if row + 1 == BATCH { PADDING } else { 0 };
            for place in 0..SEQ {
                let counts = place < SEQ - padding;
                let pad = |id: i32| if counts { id } else { 0 };
                batch.tokens.push(pad(text[begin + place]));
                batch.targets.push(pad(text[begin + place + 1]));
                batch.mask.push(counts.into());
            }
        }
        batch
    }

    fn counting(&self) -> usize {
        self.mask.iter().map(|&counts| usize::from(counts)).sum()
    }
}

fn id(character: char) -> i32 {
    let id = CHARACTERS.chars().position(|c| c == character);
    id.and_then(|id| i32::try_from(id).ok()).expect("the text is made of CHARACTERS")
}

/// A parameter of the model with Adam's moments.
#[derive(Clone)]
struct Parameter {
    name: String,
    shape: [usize; 2],
    weight: Vec<f32>,
    gradient: Vec<f32>,
    update: Vec<f32>,
    exp_avg: Vec<f32>,
    exp_avg_sq: Vec<f32>,
}

/// The embedding, the layers, the head.
fn parameters(rng: &mut Rng) -> Vec<Parameter> {
    let mut one = |name: String, shape: [usize; 2], scale: f64| {
        let count = shape[0] * shape[1];
        let weight = (0..count).map(|_| (scale * rng.normal()) as f32).collect();
        let zeros = || vec![0.0; count];
        let (gradient, update, exp_avg, exp_avg_sq) = (zeros(), zeros(), zeros(), zeros());
        Parameter { name, shape, weight, gradient, update, exp_avg, exp_avg_sq }
    };
    let mut all = vec![one("embed".to_owned(), [VOCAB, WIDTH], 0.5)];
    all.extend((0..LAYERS).map(|layer| one(format!("layers_{layer}"), [WIDTH, WIDTH], 0.25)));
    all.push(one("head".to_owned(), [WIDTH, VOCAB], 0.5));
    all
}

impl Parameter {
    /// What Adam adds after `steps` steps, whose gradient is multiplied by `clip`.
    fn step(&mut self, steps: i32, clip: f64) {
        let correct = |beta: f64| 1.0 - (0..steps).fold(1.0, |power, _| power * beta);
        for at in 0..self.weight.len() {
            let gradient = clip * f64::from(self.gradient[at]);
            let m = BETA1 * f64::from(self.exp_avg[at]) + (1.0 - BETA1) * gradient;
            let v = BETA2 * f64::from(self.exp_avg_sq[at]) + (1.0 - BETA2) * gradient * gradient;
            (self.exp_avg[at], self.exp_avg_sq[at]) = (m as f32, v as f32);
            let step = m / correct(BETA1) / ((v / correct(BETA2)).sqrt() + EPSILON);
            self.update[at] = (-f64::from(LEARNING_RATE) * step) as f32;
        }
    }
}

/// One step as the loop captured it.
struct Step {
    number: usize,
    batch: Batch,
    /// Before the step; the gradients are those before they are clipped.
    parameters: Vec<Parameter>,
    grad_norm: f32,
    logits: Vec<f32>,
    loss: f32,
    grad_logits: Vec<f32>,
}

impl Step {
    /// Takes the step: forward, backward, clipping, Adam.
    fn taken(number: usize, batch: Batch, parameters: &mut [Parameter]) -> Step {
        let states = forward(parameters, &batch.tokens);
        let logits: Vec<f32> =
            states.last().expect("the head is there").iter().map(|&x| x as f32).collect();
        let loss = loss(&logits, &batch);
        let grad_logits = gradient(&logits, &batch);
        backward(parameters, &batch.tokens, &states, &grad_logits);
        let squares = parameters.iter().flat_map(|one| &one.gradient);
        let norm = squares.map(|&g| f64::from(g) * f64::from(g)).sum::<f64>().sqrt();
        let mut captured = parameters.to_vec();
        let clip = (f64::from(MAX_NORM) / norm).min(1.0);
        for (one, captured) in parameters.iter_mut().zip(&mut captured) {
            one.step(number as i32 + 1, clip);
            captured.update.clone_from(&one.update);
            one.weight.iter_mut().zip(&one.update).for_each(|(weight, update)| *weight += update);
        }
        let grad_norm = norm as f32;
        Step { number, batch, parameters: captured, grad_norm, logits, loss, grad_logits }
    }

    /// The files of the fixture's folder, by name.
    fn files(&self) -> Result<[(&'static str, Vec<u8>); 3]> {
        let inputs = self.inputs()?;
        let shape = [BATCH, SEQ, VOCAB];
        let (loss, gradient) = (self.loss.to_le_bytes(), bytes(&self.grad_logits));
        let expected = safetensors(&[
            ("loss", DType::F32, &[], &loss),
            ("grad_logits", DType::F32, &shape, &gradient),
        ])?;
        let toml = self.fixture_toml(&inputs).into_bytes();
        Ok([
            ("inputs.safetensors", inputs),
            ("expected.safetensors", expected),
            ("fixture.toml", toml),
        ])
    }

    fn inputs(&self) -> Result<Vec<u8>> {
        let positions = [BATCH, SEQ];
        let words = |ids: &[i32]| ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>();
        let (tokens, targets) = (words(&self.batch.tokens), words(&self.batch.targets));
        let logits = bytes(&self.logits);
        let steps = (self.number as i64).to_le_bytes();
        let scalars = [LEARNING_RATE, MAX_NORM, self.grad_norm].map(f32::to_le_bytes);
        let mut tensors: Vec<NewTensor<'_>> = vec![
            ("logits", DType::F32, &[BATCH, SEQ, VOCAB], &logits),
            ("tokens", DType::I32, &positions, &tokens),
            ("targets", DType::I32, &positions, &targets),
            ("mask", DType::U8, &positions, &self.batch.mask),
            ("adam_step", DType::I64, &[], &steps),
            ("lr", DType::F32, &[], &scalars[0]),
            ("max_norm", DType::F32, &[], &scalars[1]),
            ("grad_norm", DType::F32, &[], &scalars[2]),
        ];
        let named: Vec<(String, &Parameter, Vec<u8>)> = self
            .parameters
            .iter()
            .flat_map(|one| {
                [
                    (one.name.clone(), one, bytes(&one.weight)),
                    (format!("grad_{}", one.name), one, bytes(&one.gradient)),
                    (format!("update_{}", one.name), one, bytes(&one.update)),
                    (format!("exp_avg_{}", one.name), one, bytes(&one.exp_avg)),
                    (format!("exp_avg_sq_{}", one.name), one, bytes(&one.exp_avg_sq)),
                ]
            })
            .collect();
        let of_parameters = named.iter();
        tensors.extend(of_parameters.map(|(name, one, bytes)| {
            (name.as_str(), DType::F32, &one.shape[..], bytes.as_slice())
        }));
        safetensors(&tensors)
    }

    fn fixture_toml(&self, inputs: &[u8]) -> String {
        format!(
            r#"# Written by `cargo run --example generate_run`.
harness = "../../../kernels/lm_loss/training.toml"
description = "Step {} of a training of a model of characters, with the kernels of 61b3d97."

[provenance]
step = {}
seed = {SEED}
model = "{LAYERS} layers, {WIDTH} wide"
commit = "61b3d97"
command = "cargo run --example generate_run"

[[files]]
path = "inputs.safetensors"
blake3 = "{}"
"#,
            self.number,
            self.number,
            blake3::hash(inputs)
        )
    }
}

/// The bytes of a safetensors file with `tensors`.
fn safetensors(tensors: &[NewTensor<'_>]) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("tensors.safetensors");
    write_file(&path, tensors, &[])?;
    Ok(fs::read(path)?)
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// What goes into each layer, into the head, and comes out of it, `[positions, width]` each.
fn forward(parameters: &[Parameter], tokens: &[i32]) -> Vec<Vec<f64>> {
    let (embed, head) = (&parameters[0], &parameters[LAYERS + 1]);
    let row = |&token: &i32| &embed.weight[token as usize * WIDTH..][..WIDTH];
    let mut states = vec![tokens.iter().flat_map(row).map(|&x| f64::from(x)).collect::<Vec<_>>()];
    for layer in 0..LAYERS {
        let x = &states[layer];
        let product = product(x, &parameters[layer + 1]);
        states.push(x.iter().zip(product).map(|(x, y)| x + y.max(0.0)).collect());
    }
    states.push(product(&states[LAYERS], head));
    states
}

/// `x w`.
fn product(x: &[f64], w: &Parameter) -> Vec<f64> {
    let [rows, columns] = w.shape;
    let mut out = vec![0.0; x.len() / rows * columns];
    for (x, out) in x.chunks(rows).zip(out.chunks_mut(columns)) {
        for (x, w) in x.iter().zip(w.weight.chunks(columns)) {
            out.iter_mut().zip(w).for_each(|(out, &w)| *out += x * f64::from(w));
        }
    }
    out
}

/// Fills in the gradients of the parameters.
fn backward(
    parameters: &mut [Parameter],
    tokens: &[i32],
    states: &[Vec<f64>],
    grad_logits: &[f32],
) {
    let grad: Vec<f64> = grad_logits.iter().map(|&g| f64::from(g)).collect();
    let mut flowing = through(&mut parameters[LAYERS + 1], &states[LAYERS], &grad);
    for layer in (0..LAYERS).rev() {
        let active = product(&states[layer], &parameters[layer + 1]);
        let of_relu = flowing.iter().zip(active).map(|(g, y)| if y > 0.0 { *g } else { 0.0 });
        let of_relu: Vec<f64> = of_relu.collect();
        let before = through(&mut parameters[layer + 1], &states[layer], &of_relu);
        flowing.iter_mut().zip(before).for_each(|(sum, g)| *sum += g);
    }
    let mut sums = vec![0.0; VOCAB * WIDTH];
    for (&token, g) in tokens.iter().zip(flowing.chunks(WIDTH)) {
        let row = &mut sums[token as usize * WIDTH..][..WIDTH];
        row.iter_mut().zip(g).for_each(|(sum, g)| *sum += g);
    }
    parameters[0].gradient = sums.iter().map(|&g| g as f32).collect();
}

/// Sets the gradient of `w` where `grad` is that of `x w`, and returns that of `x`.
fn through(w: &mut Parameter, x: &[f64], grad: &[f64]) -> Vec<f64> {
    let [rows, columns] = w.shape;
    let (mut of_weight, mut of_x) = (vec![0.0; rows * columns], vec![0.0; x.len()]);
    for ((x, of_x), grad) in x.chunks(rows).zip(of_x.chunks_mut(rows)).zip(grad.chunks(columns)) {
        for row in 0..rows {
            for column in 0..columns {
                of_weight[row * columns + column] += x[row] * grad[column];
                of_x[row] += f64::from(w.weight[row * columns + column]) * grad[column];
            }
        }
    }
    w.gradient = of_weight.iter().map(|&g| g as f32).collect();
    of_x
}

/// A sum in which what rounding loses of each term is added to the next (Kahan summation), as in the
/// kernels.
#[derive(Default)]
struct Kahan {
    sum: f32,
    lost: f32,
}

impl Kahan {
    fn add(&mut self, value: f32) {
        let corrected = value - self.lost;
        let next = self.sum + corrected;
        self.lost = (next - self.sum) - corrected;
        self.sum = next;
    }
}

/// `lm_cross_entropy_loss`, operation by operation.
fn loss(logits: &[f32], batch: &Batch) -> f32 {
    let mut total = 0.0;
    for (position, row) in logits.chunks(VOCAB).enumerate() {
        if batch.mask[position] == 0 {
            continue;
        }
        let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut sum = Kahan::default();
        row.iter().for_each(|&logit| sum.add(core_math::expf(logit - max)));
        let target = row[batch.targets[position] as usize];
        total += f64::from(max + core_math::logf(sum.sum) - target);
    }
    (total / batch.counting() as f64) as f32
}

/// `lm_cross_entropy_gradient` of 61b3d97, operation by operation: a block of a thread for each item, and a
/// tree that drops a term wherever their number is odd.
fn gradient(logits: &[f32], batch: &Batch) -> Vec<f32> {
    let scale = 1.0 / batch.counting() as f32;
    let mut gradient = vec![0.0; POSITIONS * VOCAB];
    for (position, (row, out)) in logits.chunks(VOCAB).zip(gradient.chunks_mut(VOCAB)).enumerate() {
        if batch.mask[position] == 0 {
            continue;
        }
        let max = tree(row.to_vec(), f32::max);
        let terms = row.iter().map(|&logit| core_math::expf(logit - max)).collect();
        let sum = tree(terms, |a, b| a + b);
        for (item, (&logit, out)) in row.iter().zip(out).enumerate() {
            let probability = core_math::expf(logit - max) / sum;
            let indicator = f32::from(u8::from(item == batch.targets[position] as usize));
            *out = (probability - indicator) * scale;
        }
    }
    gradient
}

/// The terms brought together by halves.
fn tree(mut terms: Vec<f32>, join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut half = terms.len() / 2;
    while half > 0 {
        for at in 0..half {
            terms[at] = join(terms[at], terms[at + half]);
        }
        half /= 2;
    }
    terms[0]
}
