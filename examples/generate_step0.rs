//! Generates `fixtures/step0` and `fixtures/step0-words`: the logits, targets and mask of one
//! training step, as a half-trained language model gives them, for `kernels/lm_loss`.
//!
//! Every run writes the same bytes on every platform: integers come from SplitMix64, floats are
//! made by additions, multiplications and divisions in float64 alone, and rounded to float32 once.
//!
//! `cargo run --example generate_step0` writes the fixtures; with `--check` it compares them with
//! what it would write and fails where they differ.

mod generator;

use std::path::Path;

use anyhow::Result;
use safetensors::tensor::{Dtype, TensorView, serialize};

use self::generator::{Rng, is_check, put};

/// The vocabulary of `step0`, in the order of its ids: a model of characters.
const CHARACTERS: &str = "\n .,'-?!abcdefghijklmnopqrstuvwxyz";

/// Logarithms of how often each of [`CHARACTERS`] occurs in English, times ten.
const CHARACTER_BIAS: [i8; 34] = [
    3, 27, 2, 3, -8, -15, -18, -20, // newline to '!'
    19, 3, 9, 13, 24, 7, 6, 17, 18, -20, -4, 13, 8, 18, 19, 6, -24, 17, 17, 21, 9, -1, 7, -18, 6,
    -26,
];

/// What the model of `step0` reads: at most [`LINE_LENGTH`] characters a line, the rest is padding.
const LINES: [&str; 8] = [
    "every number was once a guess\n",
    "and every guess had a reason.\n",
    "so keep the inputs you saw\n",
    "step back through the commits\n",
    "one half at a time, until two\n",
    "stand side by side and one\n",
    "is right. the other is why\n",
    "we looked. is it? yes!\n",
];
const LINE_LENGTH: usize = 32;

fn main() -> Result<()> {
    let check = is_check()?;
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    for step in [step0(), step0_words()] {
        let folder = fixtures.join(step.name);
        for (name, bytes) in step.files()? {
            let path = folder.join(name);
            put(&path, &bytes, check)?;
        }
    }
    Ok(())
}

/// One captured step: tensors of shape `[batch, seq]`, the logits with `vocab` values each.
struct Step {
    name: &'static str,
    description: &'static str,
    seed: u64,
    shape: [usize; 3],
    logits: Vec<f32>,
    targets: Vec<i32>,
    mask: Vec<u8>,
}

impl Step {
    /// The files of the fixture's folder, by name.
    fn files(&self) -> Result<[(&'static str, Vec<u8>); 2]> {
        let inputs = self.safetensors()?;
        let toml = self.fixture_toml(&inputs);
        Ok([("inputs.safetensors", inputs), ("fixture.toml", toml.into_bytes())])
    }

    fn safetensors(&self) -> Result<Vec<u8>> {
        let logits: Vec<u8> = self.logits.iter().flat_map(|x| x.to_le_bytes()).collect();
        let targets: Vec<u8> = self.targets.iter().flat_map(|x| x.to_le_bytes()).collect();
        let positions = self.shape[..2].to_vec();
        let tensors = [
            ("logits", TensorView::new(Dtype::F32, self.shape.to_vec(), &logits)?),
            ("targets", TensorView::new(Dtype::I32, positions.clone(), &targets)?),
            ("mask", TensorView::new(Dtype::U8, positions, &self.mask)?),
        ];
        Ok(serialize(tensors, None)?)
    }

    fn fixture_toml(&self, inputs: &[u8]) -> String {
        format!(
            r#"# Written by `cargo run --example generate_step0`.
harness = "../../kernels/lm_loss/replay.toml"
description = "{}"

[provenance]
step = 0
seed = {}
model = "synthetic, half-trained"
command = "cargo run --example generate_step0"

[[files]]
path = "inputs.safetensors"
blake3 = "{}"
"#,
            self.description,
            self.seed,
            blake3::hash(inputs)
        )
    }
}

/// Batch 8, sequence 32, vocabulary 34; 32 of the 256 positions are padding.
fn step0() -> Step {
    let seed = 2192;
    let bias: Vec<f64> = CHARACTER_BIAS.iter().map(|&tenths| f64::from(tenths) / 10.0).collect();
    let mut targets = Vec::new();
    let mut mask = Vec::new();
    for line in LINES {
        let mut ids: Vec<i32> = line.chars().map(character_id).collect();
        mask.extend((0..LINE_LENGTH).map(|i| u8::from(i < ids.len())));
        ids.resize(LINE_LENGTH, 0);
        targets.extend(ids);
    }
    Step {
        name: "step0",
        description: "A step of a model of characters: 34 items, 32 of 256 positions masked.",
        seed,
        shape: [LINES.len(), LINE_LENGTH, bias.len()],
        logits: half_trained(seed, &bias, &targets),
        targets,
        mask,
    }
}

fn character_id(character: char) -> i32 {
    let id = CHARACTERS.chars().position(|c| c == character);
    id.and_then(|id| i32::try_from(id).ok()).expect("the lines are made of CHARACTERS")
}

/// Batch 2, sequence 16, vocabulary 2004; the last 5 positions of the second sequence are padding.
fn step0_words() -> Step {
    let (seed, batch, seq, vocab, padding) = (2004, 2, 16, 2004, 5);
    let weights: Vec<f64> = (1..=vocab).map(|rank| 1.0 / f64::from(rank)).collect();
    let mut rng = Rng(seed ^ 0x7461_7267_6574_7300);
    let targets: Vec<i32> = (0..batch * seq).map(|_| rng.pick(&weights) as i32).collect();
    let unmasked = batch * seq - padding;
    Step {
        name: "step0-words",
        description: "A step of a model of words: 2004 items, 5 of 32 positions masked.",
        seed,
        shape: [batch, seq, weights.len()],
        logits: half_trained(seed, &zipf_bias(&weights), &targets),
        targets,
        mask: (0..batch * seq).map(|i| u8::from(i < unmasked)).collect(),
    }
}

/// Bias of items whose frequencies follow Zipf's law: a harmonic sum, which is the logarithm of
/// the rank but for a constant.
fn zipf_bias(weights: &[f64]) -> Vec<f64> {
    let mut bias = 5.0;
    weights
        .iter()
        .map(|weight| {
            bias -= weight;
            bias
        })
        .collect()
}

/// Logits `[targets.len(), bias.len()]` of a model that has learnt how frequent the items are,
/// and at some positions also what comes next.
///
/// A position has a hidden state that agrees more or less with each item's embedding, a level
/// of its own, a raised target (by how much differs: a few rows are confident) and a raised rival.
fn half_trained(seed: u64, bias: &[f64], targets: &[i32]) -> Vec<f32> {
    const WIDTH: usize = 8;
    let mut rng = Rng(seed);
    let mut normals = |scale: f64| [0; WIDTH].map(|_| scale * rng.normal());
    let embedding: Vec<[f64; WIDTH]> = bias.iter().map(|_| normals(0.55)).collect();
    let hidden: Vec<[f64; WIDTH]> = targets.iter().map(|_| normals(1.0)).collect();

    let mut logits = Vec::with_capacity(targets.len() * bias.len());
    for (state, &target) in hidden.iter().zip(targets) {
        let level = 1.5 * rng.normal();
        let mut row: Vec<f64> = bias.iter().map(|b| level + b + 0.2 * rng.normal()).collect();
        for (logit, item) in row.iter_mut().zip(&embedding) {
            *logit += state.iter().zip(item).map(|(s, e)| s * e).sum::<f64>();
        }
        let certainty = rng.unit();
        row[target as usize] += 1.0 + 6.0 * certainty * certainty;
        let rival = rng.below(bias.len());
        row[rival] += 3.0 * rng.unit();
        logits.extend(row.into_iter().map(|logit| logit as f32));
    }
    logits
}
