//! Generates `fixtures/lazy_attention` and `fixtures/lazy_attention-long`: one attention layer of
//! a training step, with the gradient that flows into it, for `kernels/lazy_attention`.
//!
//! Every run writes the same bytes on every platform: integers come from SplitMix64, floats are
//! made by additions, multiplications and divisions in float64 alone, and rounded to float32 once.
//!
//! `cargo run --example generate_lazy_attention` writes the fixtures; with `--check` it compares
//! them with what it would write and fails where they differ.

mod generator;

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use safetensors::tensor::{Dtype, TensorView, serialize};

use self::generator::{Rng, is_check, put};

fn main() -> Result<()> {
    let check = is_check()?;
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    for layer in [short(), long()] {
        let folder = fixtures.join(layer.name);
        for (name, bytes) in layer.files()? {
            let path = folder.join(name);
            put(&path, &bytes, check)?;
        }
    }
    Ok(())
}

/// One captured attention layer.
struct Layer {
    name: &'static str,
    description: &'static str,
    seed: u64,
    batch: usize,
    heads: usize,
    len: usize,
    dim: usize,
    window: usize,
}

/// The shape in which a step was seen to give gradients to the first head alone.
fn short() -> Layer {
    Layer {
        name: "lazy_attention",
        description: "An attention layer: 4 heads, 8 positions; dout is a transposed view.",
        seed: 1725,
        batch: 1,
        heads: 4,
        len: 8,
        dim: 16,
        window: 16,
    }
}

/// Several tiles of positions, two sequences, and more distances than the bias knows.
fn long() -> Layer {
    Layer {
        name: "lazy_attention-long",
        description: "An attention layer: 2 sequences, 4 heads, 128 positions; dout is a transposed view.",
        seed: 12877,
        batch: 2,
        heads: 4,
        len: 128,
        dim: 64,
        window: 32,
    }
}

impl Layer {
    /// The files of the fixture's folder, by name.
    fn files(&self) -> Result<[(&'static str, Vec<u8>); 2]> {
        let inputs = self.safetensors()?;
        let toml = self.fixture_toml(&inputs);
        Ok([("inputs.safetensors", inputs), ("fixture.toml", toml.into_bytes())])
    }

    fn safetensors(&self) -> Result<Vec<u8>> {
        let mut rng = Rng(self.seed);
        let rows = [self.batch, self.heads, self.len, self.dim];
        let count = rows.iter().product();
        let mut normals = |scale: f64| (0..count).map(|_| scale * rng.normal()).collect();
        let (q, k, v): (Vec<f64>, Vec<f64>, Vec<f64>) = (normals(1.5), normals(1.0), normals(1.0));
        let dout: Vec<f64> = normals(0.125);
        let tensors = [
            ("q", rows.to_vec(), bytes(&q)),
            ("k", rows.to_vec(), bytes(&k)),
            ("v", rows.to_vec(), bytes(&v)),
            ("bias", vec![self.heads, self.window], bytes(&self.bias(&mut rng))),
            ("tau", vec![self.heads], bytes(&self.tau(&mut rng))),
            ("dout", rows.to_vec(), bytes(&dout)),
        ];
        let views: Result<Vec<_>, _> = tensors
            .iter()
            .map(|(name, shape, data)| {
                TensorView::new(Dtype::F32, shape.clone(), data).map(|view| (*name, view))
            })
            .collect();
        let metadata = HashMap::from([("dout.strides".to_owned(), self.dout_strides())]);
        Ok(serialize(views?, Some(metadata))?)
    }

    /// A head prefers near keys the more, the lower its number.
    fn bias(&self, rng: &mut Rng) -> Vec<f64> {
        let mut bias = Vec::with_capacity(self.heads * self.window);
        for head in 0..self.heads {
            for distance in 0..self.window {
                let slope = 1.0 / (2.0 + 3.0 * head as f64);
                let far = distance as f64 / (1.0 + 0.125 * distance as f64);
                bias.push(0.25 * rng.normal() - slope * far);
            }
        }
        bias
    }

    /// From a threshold of a fraction of the uniform weight to one above it.
    fn tau(&self, rng: &mut Rng) -> Vec<f64> {
        (0..self.heads).map(|head| -0.3 - 0.3 * head as f64 + 0.05 * rng.normal()).collect()
    }

    /// Of a tensor stored as [batch, len, heads, dim]: what autograd hands back for an output
    /// that the model transposed before it put the heads side by side.
    fn dout_strides(&self) -> String {
        let Layer { heads, len, dim, .. } = self;
        format!("[{}, {}, {}, 1]", len * heads * dim, dim, heads * dim)
    }

    fn fixture_toml(&self, inputs: &[u8]) -> String {
        format!(
            r#"# Written by `cargo run --example generate_lazy_attention`.
harness = "../../kernels/lazy_attention/replay.toml"
description = "{}"

[provenance]
step = 0
seed = {}
model = "synthetic"
command = "cargo run --example generate_lazy_attention"

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

/// Rounded to float32, as a safetensors file holds them.
fn bytes(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect()
}
