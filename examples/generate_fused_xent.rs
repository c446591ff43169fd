//! Generates `fixtures/fused_xent` and `fixtures/fused_xent-one`: two microbatches of a training
//! step, captured by two processes, and the first of them alone, for `kernels/fused_xent`.
//!
//! Every run writes the same bytes on every platform: integers come from SplitMix64, floats are
//! made by additions and multiplications in float64 alone, and rounded to bfloat16 once.
//!
//! `cargo run --example generate_fused_xent` writes the fixtures; with `--check` it compares them
//! with what it would write and fails where they differ.

mod generator;

use std::fs;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use half::bf16;
use replay::fixture::write_file;
use replay::tensor::DType;

use self::generator::{Rng, is_check};

const MICROBATCHES: usize = 2;
const PROCESSES: usize = 2;
const SEQUENCE: usize = 32;
const WIDTH: usize = 64;
const ITEMS: usize = 128;

/// The item that fills sequences up.
const PADDING: i32 = 0;
/// Positions at the end of the last process's sequences that are padding.
const PADDED: usize = 3;
/// The weight of a token: each microbatch has a budget of 64. A power of two, so that one token's
/// label gradient is as exact in bfloat16 as in float32: only sums of several lose bits.
const TOKEN_WEIGHT: f32 = 1.0 / 64.0;

fn main() -> Result<()> {
    let check = is_check()?;
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let step = Step::capture();
    for capture in [two_microbatches(), one_microbatch()] {
        let folder = fixtures.join(capture.name);
        if check {
            let scratch = tempfile::tempdir().context("cannot make a scratch folder")?;
            capture.write(&step, scratch.path())?;
            compare(scratch.path(), &folder)?;
        } else {
            fs::create_dir_all(&folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
            capture.write(&step, &folder)?;
        }
    }
    Ok(())
}

/// Fails unless both folders hold the same files.
fn compare(expected: &Path, found: &Path) -> Result<()> {
    ensure!(
        file_names(expected)? == file_names(found)?,
        "{} does not hold the files that the generator writes",
        found.display()
    );
    for name in file_names(expected)? {
        let path = found.join(&name);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let same = bytes == fs::read(expected.join(&name))?;
        ensure!(same, "{} is not what the generator writes", path.display());
    }
    Ok(())
}

fn file_names(folder: &Path) -> Result<Vec<std::ffi::OsString>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names = entries.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// A fixture: which files hold which sequences of the step.
struct Capture {
    name: &'static str,
    description: &'static str,
    microbatches: usize,
    files: Vec<File>,
}

/// One file of a fixture.
struct File {
    name: String,
    /// The sequences that it holds.
    rows: Range<usize>,
    /// Where it stands among the shards; none if it holds the whole batch.
    order: Option<usize>,
    /// Whether bfloat16 was widened to float32 for saving.
    widened: bool,
}

fn two_microbatches() -> Capture {
    let shard = |order: usize| {
        let (microbatch, process) = (order / PROCESSES, order % PROCESSES);
        File {
            name: format!("process{process}-micro{microbatch}.safetensors"),
            rows: order..order + 1,
            order: Some(order),
            widened: process > 0,
        }
    };
    let rows = MICROBATCHES * PROCESSES;
    let whole =
        File { name: "batch.safetensors".into(), rows: 0..rows, order: None, widened: false };
    Capture {
        name: "fused_xent",
        description: "Two microbatches by two processes: 128 items, bfloat16; no target is twice \
                      in a microbatch, many are in both.",
        microbatches: MICROBATCHES,
        files: (0..rows).map(shard).chain([whole]).collect(),
    }
}

fn one_microbatch() -> Capture {
    Capture {
        name: "fused_xent-one",
        description: "The first microbatch of fused_xent alone.",
        microbatches: 1,
        files: vec![File {
            name: "inputs.safetensors".into(),
            rows: 0..PROCESSES,
            order: None,
            widened: false,
        }],
    }
}

impl Capture {
    fn write(&self, step: &Step, folder: &Path) -> Result<()> {
        for file in &self.files {
            step.write(file, self.microbatches, &folder.join(&file.name))?;
        }
        let path = folder.join("fixture.toml");
        fs::write(&path, self.fixture_toml(folder)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn fixture_toml(&self, folder: &Path) -> Result<String> {
        let mut text = format!(
            r#"# Written by `cargo run --example generate_fused_xent`.
harness = "../../kernels/fused_xent/replay.toml"
description = "{}"

[provenance]
step = 0
seed = {SEED}
model = "synthetic, half-trained"
command = "cargo run --example generate_fused_xent"
"#,
            self.description,
            SEED = Step::SEED,
        );
        for file in &self.files {
            let bytes = fs::read(folder.join(&file.name))?;
            text += &format!(
                "\n[[files]]\npath = \"{}\"\nblake3 = \"{}\"\n",
                file.name,
                blake3::hash(&bytes)
            );
            if let Some(order) = file.order {
                text += &format!("axis = \"batch\"\norder = {order}\n");
            }
        }
        Ok(text)
    }
}

/// The tensors of a step, of all its microbatches; sequences stand in the order microbatch, process.
struct Step {
    /// `[sequences, SEQUENCE]` each.
    inputs: Vec<i32>,
    targets: Vec<i32>,
    dloss: Vec<f32>,
    /// `[sequences, SEQUENCE, WIDTH]`.
    q: Vec<bf16>,
    /// `[ITEMS, WIDTH]`.
    k: Vec<bf16>,
}

impl Step {
    const SEED: u64 = 20_240_917;

    fn capture() -> Step {
        let mut rng = Rng(Self::SEED);
        let k: Vec<f64> = (0..ITEMS * WIDTH).map(|_| 0.25 * rng.normal()).collect();
        let (mut inputs, mut targets) = (Vec::new(), Vec::new());
        let mut dloss = Vec::new();
        for _ in 0..MICROBATCHES {
            let mut unused: Vec<i32> = (1..ITEMS as i32).collect();
            for process in 0..PROCESSES {
                let padded = if process + 1 == PROCESSES { PADDED } else { 0 };
                let mut items = distinct_items(&mut rng, &mut unused, SEQUENCE + 1 - padded);
                items.resize(SEQUENCE + 1, PADDING);
                inputs.extend(&items[..SEQUENCE]);
                targets.extend(&items[1..]);
                dloss.extend(
                    (0..SEQUENCE).map(|i| if i < SEQUENCE - padded { TOKEN_WEIGHT } else { 0.0 }),
                );
            }
        }
        let q = targets.iter().flat_map(|&target| half_trained(&mut rng, &k, target as usize));
        Step { inputs, dloss, q: q.collect(), k: narrow(&k), targets }
    }

    /// Writes the sequences of one file.
    fn write(&self, file: &File, microbatches: usize, path: &Path) -> Result<()> {
        let tokens = file.rows.start * SEQUENCE..file.rows.end * SEQUENCE;
        let features = tokens.start * WIDTH..tokens.end * WIDTH;
        let scalar = |value: usize| (value as i32).to_le_bytes();
        let (microbatches, items) = (scalar(microbatches), scalar(ITEMS));
        let inputs: Vec<u8> = bytes(&self.inputs[tokens.clone()], |x| x.to_le_bytes());
        let targets: Vec<u8> = bytes(&self.targets[tokens.clone()], |x| x.to_le_bytes());
        let dloss: Vec<u8> = bytes(&self.dloss[tokens], |x| x.to_le_bytes());
        let (dtype, q, k) = if file.widened {
            let widen = |values: &[bf16]| bytes(values, |x| x.to_f32().to_le_bytes());
            (DType::F32, widen(&self.q[features]), widen(&self.k))
        } else {
            let native = |values: &[bf16]| bytes(values, |x| x.to_le_bytes());
            (DType::BF16, native(&self.q[features]), native(&self.k))
        };
        let batch = [file.rows.len(), SEQUENCE];
        let tensors = [
            ("microbatches", DType::I32, &[][..], &microbatches[..]),
            ("items", DType::I32, &[], &items),
            ("inputs", DType::I32, &batch, &inputs),
            ("targets", DType::I32, &batch, &targets),
            ("dloss", DType::F32, &batch, &dloss),
            ("q", dtype, &[batch[0], SEQUENCE, WIDTH], &q),
            ("k", dtype, &[ITEMS, WIDTH], &k),
        ];
        let metadata: &[(&str, &str)] =
            if file.widened { &[("q.dtype", "bf16"), ("k.dtype", "bf16")] } else { &[] };
        Ok(write_file(path, &tensors, metadata)?)
    }
}

/// Takes `count` items out of `unused`, the frequent ones more often (Zipf's law).
fn distinct_items(rng: &mut Rng, unused: &mut Vec<i32>, count: usize) -> Vec<i32> {
    (0..count)
        .map(|_| {
            let weights: Vec<f64> = unused.iter().map(|&item| 1.0 / f64::from(item)).collect();
            unused.remove(rng.pick(&weights))
        })
        .collect()
}

/// The output of a model that has learnt something: noise, and more or less of the target's row.
fn half_trained(rng: &mut Rng, k: &[f64], target: usize) -> Vec<bf16> {
    let certainty = 2.0 * rng.unit();
    let row = &k[target * WIDTH..(target + 1) * WIDTH];
    narrow(&row.iter().map(|x| rng.normal() + certainty * x).collect::<Vec<_>>())
}

fn narrow(values: &[f64]) -> Vec<bf16> {
    values.iter().map(|&x| bf16::from_f64(x)).collect()
}

fn bytes<T, const N: usize>(values: &[T], to_bytes: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(to_bytes).collect()
}
