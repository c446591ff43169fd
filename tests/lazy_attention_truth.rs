//! Replays the history of `kernels/lazy_attention` on the CPU and compares every output, head by
//! head, with float64 arithmetic that follows the definition in `include/attention.h` alone.
//!
//! `cargo test --test integration lazy_attention_truth:: -- --nocapture` prints the errors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use replay::backend::{Backend, CpuBackend, Host, Mode};
use replay::cache::Cache;
use replay::compile::{Compiler, Toolchain};
use replay::fixture::{Fixture, NewTensor, write_safetensors};
use replay::foreign::Keeper;
use replay::frontend::Precision;
use replay::history::{History, SourceSpec};
use replay::summary::POISON_A;
use replay::tensor::{DType, TensorView};
use replay::trial::Subject;
use replay::worker::{Ending, Limits, Run};

/// What float32 may be off by, relative to the norm of a head's part of an output.
const ROUNDING: f64 = 1e-5;
/// What a defect is off by, at least.
const DEFECT: f64 = 2e-4;

/// The defects that a commit holds; README.md names them.
#[derive(Clone, Copy, Default)]
struct Defects {
    heads: bool,
    tau: bool,
    mask: bool,
}

const SOUND: Defects = Defects { heads: false, tau: false, mask: false };
const HEADS: Defects = Defects { heads: true, ..SOUND };
const HEADS_AND_TAU: Defects = Defects { tau: true, ..HEADS };
const ALL: Defects = Defects { mask: true, ..HEADS_AND_TAU };
const HEADS_AND_MASK: Defects = Defects { mask: true, ..HEADS };

/// Every variant of the kernels, by the first commit that has it.
const VARIANTS: [(&str, Defects); 10] = [
    ("2a03c25", SOUND),
    ("6850518", HEADS),
    ("5025e30", HEADS),
    ("ee2e62f", HEADS_AND_TAU),
    ("fac22ce", ALL),
    ("fbcfff9", HEADS),
    ("4850cf5", ALL),
    ("dbae57b", HEADS_AND_MASK),
    ("e3936b2", HEADS),
    ("be3c896", SOUND),
];

#[test]
fn every_commit_errs_as_the_readme_says() {
    let subject = Subject::new(fixture("lazy_attention"));
    check_all(&subject, &VARIANTS);
}

#[test]
fn every_defect_shows_in_long_sequences_too() {
    let subject = Subject::new(fixture("lazy_attention-long"));
    check_all(&subject, &[VARIANTS[0], VARIANTS[4], VARIANTS[9]]);
}

#[test]
fn a_packed_upstream_gradient_hides_the_missing_head_stride() {
    let folder = tempfile::tempdir().unwrap();
    let captured = fixture("lazy_attention");
    let shapes: Vec<_> = captured.inputs.iter().map(|input| input.shape()).collect();
    let data: Vec<_> = captured.inputs.iter().map(|input| input.packed().unwrap()).collect();
    let tensors: Vec<NewTensor> = (captured.inputs.iter().zip(&shapes).zip(&data))
        .map(|((input, shape), data)| (input.name.as_str(), input.dtype, &shape[..], &data[..]))
        .collect();
    let strides = packed_strides(&shapes[5]);
    write_safetensors(folder.path(), &tensors, &[("dout.strides", &format!("{strides:?}"))])
        .unwrap();
    let harness = format!("harness = {:?}\n", captured.harness.path);
    std::fs::write(folder.path().join("fixture.toml"), harness).unwrap();
    let subject = Subject::new(Fixture::load(folder.path()).unwrap());
    check_all(&subject, &[("6850518", SOUND)]);
}

fn packed_strides(shape: &[usize]) -> Vec<usize> {
    (1..=shape.len()).map(|from| shape[from..].iter().product()).collect()
}

fn fixture(name: &str) -> Fixture {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    Fixture::load(&fixtures.join(name)).unwrap()
}

/// Replays `revision` once, as the plain replay does.
fn replay(subject: &Subject, revision: &str) -> Run {
    let cache = Cache::open(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("replay-cache")).unwrap();
    let harness = &subject.fixture.harness;
    let history =
        History::open_with_cache(harness.repository.as_ref().unwrap(), cache.root()).unwrap();
    let commit = history.resolve(revision).unwrap();
    let spec = SourceSpec {
        sources: harness.sources.clone(),
        include: harness.include.clone(),
        ..SourceSpec::default()
    };
    let sources = history.source_set(&commit, &spec).unwrap();

    let program = PathBuf::from(env!("CARGO_BIN_EXE_replay"));
    let compiler = Compiler::find(None, &Keeper::new(&program)).unwrap();
    let host = Host::new(program, Limits::default(), 2, cache.temporary());
    let cpu = CpuBackend::new(Toolchain::new(compiler, &cache), host);
    let variant = cpu.prepare(&subject.fixture, &sources, Precision::Native, &|| ()).unwrap();
    let run = variant.run(&Mode::plain(POISON_A)).unwrap();
    assert_eq!(run.ending, Ending::Completed, "{revision}: {}", run.printed);
    run
}

fn check_all(subject: &Subject, variants: &[(&str, Defects)]) {
    let truth = Attention::of(&subject.fixture).outputs();
    for (revision, defects) in variants {
        let run = replay(subject, revision);
        for (output, got) in run.outputs() {
            let heads = subject.fixture.sizes["heads"];
            let axis = usize::from(!matches!(output.name.as_str(), "dbias" | "dtau"));
            let errors: Vec<f64> = (0..heads)
                .map(|head| relative_error(&got, &truth[output.name.as_str()], axis, head))
                .collect();
            let shown: Vec<String> = errors.iter().map(|error| format!("{error:.0e}")).collect();
            let fixture = &subject.fixture.name;
            let shown = shown.join(" ");
            println!("{fixture} {revision} {:5} {shown}", output.name);
            for (head, error) in errors.into_iter().enumerate() {
                let place = format!("{revision}: {} of head {head}: {error}", output.name);
                check(*defects, &output.name, head, error, &place);
            }
        }
    }
}

fn check(defects: Defects, output: &str, head: usize, error: f64, place: &str) {
    if matches!(output, "out" | "lse") {
        assert!(error < ROUNDING, "{place}");
    } else if defects.heads && head > 0 {
        // The error of zero is the norm of the truth.
        assert_eq!(error, 1.0, "{place}");
    } else if defects.tau && output == "dtau" {
        assert!(error > 0.1, "{place}");
    } else if defects.mask && output != "dv" {
        assert!(error > DEFECT, "{place}");
    } else if defects.mask {
        // What changes sides carries a weight near zero.
        assert!(error < DEFECT, "{place}");
    } else {
        assert!(error < ROUNDING, "{place}");
    }
}

/// The norm of `got - truth` over that of `truth`, where the index along `axis` is `head`.
fn relative_error(got: &TensorView, truth: &[f64], axis: usize, head: usize) -> f64 {
    assert_eq!(got.dtype, DType::F32);
    assert_eq!(got.len(), truth.len());
    let inner: usize = got.shape[axis + 1..].iter().product();
    let mut error = 0.0;
    let mut norm = 0.0;
    for (index, &truth) in truth.iter().enumerate() {
        if index / inner % got.shape[axis] == head {
            error += (got.get_f64(index) - truth).powi(2);
            norm += truth * truth;
        }
    }
    (error / norm).sqrt()
}

/// The inputs, packed, in float64.
struct Attention {
    batch: usize,
    heads: usize,
    len: usize,
    dim: usize,
    window: usize,
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
    bias: Vec<f64>,
    tau: Vec<f64>,
    dout: Vec<f64>,
}

impl Attention {
    fn of(fixture: &Fixture) -> Attention {
        let size = |name: &str| fixture.sizes[name];
        let input = |name: &str| {
            let input = fixture.inputs.iter().find(|input| input.name == name).unwrap();
            let bytes = input.packed().unwrap();
            bytes
                .chunks_exact(4)
                .map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap())))
                .collect()
        };
        Attention {
            batch: size("batch"),
            heads: size("heads"),
            len: size("len"),
            dim: size("dim"),
            window: size("window"),
            q: input("q"),
            k: input("k"),
            v: input("v"),
            bias: input("bias"),
            tau: input("tau"),
            dout: input("dout"),
        }
    }

    fn outputs(&self) -> BTreeMap<&'static str, Vec<f64>> {
        let rows = self.batch * self.heads * self.len;
        let mut of = BTreeMap::from([
            ("lse", vec![0.0; rows]),
            ("dbias", vec![0.0; self.bias.len()]),
            ("dtau", vec![0.0; self.tau.len()]),
        ]);
        for name in ["out", "dq", "dk", "dv"] {
            of.insert(name, vec![0.0; rows * self.dim]);
        }
        for row in 0..rows {
            self.add_row(row, &mut of);
        }
        of
    }

    /// Adds what one query's row of the attention matrix contributes.
    fn add_row(&self, row: usize, of: &mut BTreeMap<&'static str, Vec<f64>>) {
        let i = row % self.len;
        let head = row / self.len % self.heads;
        let first = row - i;
        let bias_at = |j: usize| head * self.window + (i - j).min(self.window - 1);
        let scale = 1.0 / (self.dim as f64).sqrt();
        let scores: Vec<f64> = (0..=i)
            .map(|j| {
                scale * dot(self.row(&self.q, row), self.row(&self.k, first + j))
                    + self.bias[bias_at(j)]
            })
            .collect();
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = scores.iter().map(|score| (score - largest).exp()).sum();
        let weights: Vec<f64> = scores.iter().map(|s| (s - largest).exp() / total).collect();
        let threshold = self.tau[head] / (i + 1) as f64;
        let kept: Vec<f64> = weights.iter().map(|w| (w + threshold).max(0.0)).collect();

        // The derivative with respect to each weight, then through the softmax's Jacobian.
        let by_weight: Vec<f64> = (0..=i)
            .map(|j| {
                if kept[j] > 0.0 {
                    dot(self.row(&self.dout, row), self.row(&self.v, first + j))
                } else {
                    0.0
                }
            })
            .collect();
        let by_score = |j: usize| -> f64 {
            (0..=i)
                .map(|m| {
                    let same = if m == j { 1.0 } else { 0.0 };
                    by_weight[m] * weights[m] * (same - weights[j])
                })
                .sum()
        };

        let mut add = |name: &str, at: usize, factor: f64, values: &[f64]| {
            let target = &mut of.get_mut(name).unwrap()[at * values.len()..][..values.len()];
            target.iter_mut().zip(values).for_each(|(sum, value)| *sum += factor * value);
        };
        add("lse", row, 1.0, &[largest + total.ln()]);
        add("dtau", head, 1.0 / (i + 1) as f64, &[by_weight.iter().sum()]);
        for (j, &weight) in kept.iter().enumerate() {
            let key = first + j;
            let ds = by_score(j);
            add("out", row, weight, self.row(&self.v, key));
            add("dv", key, weight, self.row(&self.dout, row));
            add("dq", row, scale * ds, self.row(&self.k, key));
            add("dk", key, scale * ds, self.row(&self.q, row));
            add("dbias", bias_at(j), ds, &[1.0]);
        }
    }

    fn row<'a>(&self, tensor: &'a [f64], row: usize) -> &'a [f64] {
        &tensor[row * self.dim..][..self.dim]
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
