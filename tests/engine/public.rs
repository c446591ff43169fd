//! Sources as public trainers and tutorials are written, compiled as they are: `tests/engine/public`.
//! Each folder is a project. Expected values are computed here in float64.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use replay::backend::{Backend, Mode};
use replay::compile::{Artifact, Signature};
use replay::fixture::{self, Fixture};
use replay::frontend::Precision;
use replay::history::{SourceSet, SourceSpec, source_set_from_dir};
use replay::runtime::cpu::Rounding;
use replay::summary::POISON_A;
use replay::tensor::DType;
use replay::worker::Run;

use super::project::{Machine, cache, cpu_with, elements};

/// A fixture for a project of `tests/engine/public`.
pub(super) struct Public {
    /// Holds the fixture's files.
    _dir: tempfile::TempDir,
    fixture: Arc<Fixture>,
    sources: Arc<SourceSet>,
}

/// A tensor: name, values, shape.
pub(super) type Tensor<'t> = (&'t str, &'t [f32], &'t [usize]);

impl Public {
    /// The project in the folder `name` with the harness `text`, which may leave out `sources`.
    pub(super) fn new(name: &str, harness: &str, tensors: &[Tensor]) -> Public {
        let dir = tempfile::tempdir().unwrap();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/public").join(name);
        fs::create_dir_all(dir.path().join("src")).unwrap();
        for entry in folder.read_dir().unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), dir.path().join("src").join(entry.file_name())).unwrap();
        }
        let text = match harness.contains("sources") {
            true => harness.to_owned(),
            false => format!("sources = [\"src\"]\ninclude = [\"src\"]\n{harness}"),
        };
        fs::write(dir.path().join("replay.toml"), text).unwrap();
        let at: PathBuf = dir.path().join("fixture");
        fs::create_dir(&at).unwrap();
        fs::write(at.join("fixture.toml"), "harness = \"../replay.toml\"\n").unwrap();
        let bytes: Vec<Vec<u8>> = tensors.iter().map(bytes).collect();
        let new = tensors.iter().zip(&bytes);
        let new: Vec<fixture::NewTensor> = new
            .map(|(tensor, bytes)| (tensor.0, dtype(tensor), tensor.2, bytes.as_slice()))
            .collect();
        fixture::write(&at, &new, &[]).unwrap();
        let fixture = Arc::new(Fixture::load(&at).unwrap());
        let harness = &fixture.harness;
        let (sources, include) = (harness.sources.clone(), harness.include.clone());
        let spec = SourceSpec { sources, include, ..SourceSpec::default() };
        let sources = source_set_from_dir(dir.path(), &spec).unwrap().into();
        Public { _dir: dir, fixture, sources }
    }

    pub(super) fn run(&self, precision: Precision) -> Run {
        self.run_in(precision, &Mode::plain(POISON_A))
    }

    fn run_in(&self, precision: Precision, mode: &Mode) -> Run {
        let cpu = cpu_with(&cache(), "", Machine::PLAIN);
        let variant = cpu.prepare(&self.fixture, &self.sources, precision, &|| ());
        let variant = variant.unwrap_or_else(|error| {
            panic!("{error}: {:?} {:?}", std::error::Error::source(&error), error.hint())
        });
        variant.run(mode).unwrap()
    }

    pub(super) fn compiled(&self, precision: Precision) -> Artifact {
        let cpu = cpu_with(&cache(), "", Machine::PLAIN);
        let (harness, signature) = (&self.fixture.harness, Signature::of(&self.fixture));
        cpu.toolchain().compile(harness, &signature, &self.sources, precision).unwrap()
    }

    /// Holds `output` of the native replay and of the float64 shadow against `expected`; the first may
    /// be off by `tolerance`.
    pub(super) fn assert_gives(&self, output: &str, expected: &[f64], tolerance: f64) {
        let native = elements(&self.run(Precision::Native), output, expected.len());
        assert_close(&native, expected, tolerance, "native");
        assert_eq!(self.compiled(Precision::Shadow).shadow_obstacles, [""; 0]);
        let shadow = elements(&self.run(Precision::Shadow), output, expected.len());
        assert_close(&shadow, expected, 1e-12, "shadow");
    }
}

fn assert_close(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let most = tolerance * expected.abs().max(1.0);
        assert!((found - expected).abs() <= most, "{what} {index}: {found}, not {expected}");
    }
}

/// Scalars choose among the kernels of a project and are integers.
fn dtype(tensor: &Tensor) -> DType {
    if tensor.2.is_empty() { DType::I32 } else { DType::F32 }
}

fn bytes(tensor: &Tensor) -> Vec<u8> {
    let bits = |&value: &f32| match dtype(tensor) {
        DType::I32 => (value as i32).to_le_bytes(),
        _ => value.to_le_bytes(),
    };
    tensor.1.iter().flat_map(bits).collect()
}

/// `count` numbers between -2 and 2, others for each `seed`.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 22) as f32 - 2.0
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn sources_compile_whatever_names_their_macros_have_and_how_their_launches_are_written() {
    let names = ["T", "N", "C", "A", "B", "I", "P", "real", "size", "result", "self", "bits"];
    let names = names.into_iter().chain(["block", "rank", "mask", "lane", "op", "site", "min"]);
    let defines: Vec<String> = names.map(|name| format!("\"{name}=3\"")).collect();
    let harness = format!(
        "call = \"run(in, out, n); state += 1;\"\ndefines = [\"V=2\", \"NDEBUG\", {}]\n\
         [inputs.in]\ndtype = \"f32\"\nshape = [\"n\"]\n[outputs.out]\ndtype = \"f32\"\nshape = [\"n\"]\n",
        defines.join(", ")
    );
    let values = numbers(8, 1);
    let public = Public::new("names", &harness, &[("in", &values, &[8])]);
    let expected: Vec<f64> = values.iter().map(|&x| (f64::from(x) * 2.0 + 1.0) * 2.0).collect();
    public.assert_gives("out", &expected, 1e-6);
}

/// The products of `tests/engine/public/blas`: its inputs, and what they come to.
struct Blas {
    a: Vec<f32>,
    b: Vec<f32>,
    bias: Vec<f32>,
}

const ROWS: usize = 70;
const COLUMNS: usize = 19;

impl Blas {
    fn new() -> Blas {
        let (a, b) = (numbers(150 * 150, 2), numbers(150 * 151, 3));
        Blas { a, b, bias: numbers(73 * 19, 4) }
    }

    fn public(&self, which: usize) -> Public {
        let harness = "call = \"run(which, a, b, bias, out, extra);\"\n\
             [inputs.which]\ndtype = \"i32\"\nshape = []\n\
             [inputs.a]\ndtype = \"f32\"\nshape = [150, 150]\n\
             [inputs.b]\ndtype = \"f32\"\nshape = [150, 151]\n\
             [inputs.bias]\ndtype = \"f32\"\nshape = [19, 73]\n\
             [outputs.out]\ndtype = \"f32\"\nshape = [19, 73]\n\
             [outputs.extra]\ndtype = \"f32\"\nshape = [19, 73]\n";
        let tensors: [Tensor; 4] = [
            ("which", &[which as f32], &[]),
            ("a", &self.a, &[150, 150]),
            ("b", &self.b, &[150, 151]),
            ("bias", &self.bias, &[19, 73]),
        ];
        Public::new("blas", harness, &tensors)
    }

    /// The sum of products, with the matrices exchanged as told and read through `read`.
    fn sum(&self, row: usize, column: usize, ta: bool, tb: bool, read: fn(f32) -> f64) -> f64 {
        let left = |l: usize| self.a[if ta { l + row * 150 } else { row + l * 150 }];
        let right = |l: usize| self.b[if tb { column + l * 151 } else { l + column * 151 }];
        (0..131).map(|l| read(left(l)) * read(right(l))).sum()
    }

    /// `out` with `value` of each element of the product; the rest is what it was.
    fn whole(&self, value: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        let mut out: Vec<f64> = self.bias.iter().map(|&x| f64::from(x)).collect();
        for column in 0..COLUMNS {
            for row in 0..ROWS {
                out[row + column * 73] = value(row, column);
            }
        }
        out
    }

    fn bias(&self, index: usize) -> f64 {
        f64::from(self.bias[index])
    }
}

fn inner(x: f64) -> f64 {
    (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + inner(x).tanh())
}

#[test]
fn cublas_multiplies_matrices_in_all_transpositions_and_leading_dimensions() {
    let blas = Blas::new();
    for which in 0..4 {
        let (ta, tb) = (which & 1 != 0, which & 2 != 0);
        let expected = blas.whole(|row, column| {
            let sum = blas.sum(row, column, ta, tb, f64::from);
            0.5 * sum + 0.25 * blas.bias(row + column * 73)
        });
        blas.public(which).assert_gives("out", &expected, 1e-5);
    }
}

#[test]
fn cublas_accumulates_bfloat16_in_float32() {
    let blas = Blas::new();
    let expected = |read: fn(f32) -> f64| {
        blas.whole(|row, column| {
            let sum = blas.sum(row, column, false, false, read);
            0.5 * sum + 0.25 * blas.bias(row + column * 73)
        })
    };
    let narrow = expected(|x| half::bf16::from_f32(x).to_f64());
    let public = blas.public(4);
    let native = elements(&public.run(Precision::Native), "out", narrow.len());
    assert_close(&native, &narrow, 1e-5, "native");
    // In the shadow nothing is rounded to bfloat16.
    let shadow = elements(&public.run(Precision::Shadow), "out", narrow.len());
    assert_close(&shadow, &expected(f64::from), 1e-12, "shadow");
}

#[test]
fn cublas_multiplies_batches_by_strides_and_by_pointers() {
    let blas = Blas::new();
    let mut expected: Vec<f64> = blas.bias.iter().map(|&x| f64::from(x)).collect();
    for (batch, column, row) in
        (0..3).flat_map(|z| (0..6).flat_map(move |j| (0..20).map(move |i| (z, j, i))))
    {
        let product = |l: usize| {
            let left = f64::from(blas.a[batch * 100 + row + l * 20]);
            left * f64::from(blas.b[batch * 30 + l + column * 5])
        };
        expected[batch * 120 + row + column * 20] = (0..5).map(product).sum();
    }
    for which in [5, 6] {
        blas.public(which).assert_gives("out", &expected, 1e-5);
    }
}

#[test]
fn cublas_works_on_vectors_with_scalars_on_the_host_and_on_the_device() {
    let blas = Blas::new();
    let (a, b) = (|i: usize| f64::from(blas.a[i]), |i: usize| f64::from(blas.b[i]));
    let mut out: Vec<f64> = blas.bias.iter().map(|&x| f64::from(x)).collect();
    for (row, out) in out.iter_mut().enumerate().take(ROWS) {
        let sum: f64 = (0..150).map(|l| a(l + row * 150) * b(l)).sum();
        *out = 0.5 * (0.5 * sum + 0.5 * a(row));
    }
    let dot: f64 = (0..150).map(|i| a(i) * b(i)).sum();
    let norm = (0..150).map(|i| a(i) * a(i)).sum::<f64>().sqrt();
    let outer = |i: usize, j: usize| dot * a(i) * b(j);
    let extra = [dot, norm, outer(0, 0), outer(1, 0), outer(0, 1), outer(1, 1)];
    let public = blas.public(7);
    public.assert_gives("out", &out, 1e-5);
    public.assert_gives("extra", &extra, 1e-5);
}

#[test]
fn cublaslt_has_the_epilogues_of_training() {
    let blas = Blas::new();
    let sum = |row, column| 0.5 * blas.sum(row, column, true, false, f64::from);
    let before = |row, column| sum(row, column) + blas.bias(row);
    let public = blas.public(8);
    public.assert_gives("out", &blas.whole(|row, column| gelu(before(row, column))), 2e-5);
    let auxiliary: Vec<f64> = (0..ROWS).map(|row| before(row, 0)).collect();
    public.assert_gives("extra", &auxiliary, 2e-5);
    let slope = |row: usize, column: usize| {
        let x = blas.bias(row + column * 73);
        let (t, factor) = (inner(x).tanh(), (2.0 / std::f64::consts::PI).sqrt());
        0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * factor * (1.0 + 3.0 * 0.044715 * x * x)
    };
    let product = |row, column| sum(row, column) * slope(row, column);
    blas.public(9).assert_gives("out", &blas.whole(product), 2e-5);
    let public = blas.public(10);
    public.assert_gives("out", &blas.whole(sum), 2e-5);
    let column = |n: usize| (0..131).map(|l| f64::from(blas.b[l + n * 151])).sum();
    public.assert_gives("extra", &(0..COLUMNS).map(column).collect::<Vec<f64>>(), 2e-5);
    let relu = |row, column| f64::max(before(row, column), 0.0);
    blas.public(11).assert_gives("out", &blas.whole(relu), 2e-5);
}

#[test]
fn sums_of_cublas_follow_the_rounding_of_a_replay() {
    let public = Blas::new().public(1);
    let run = |rounding| {
        let mode = Mode { rounding, ..Mode::plain(POISON_A) };
        elements(&public.run_in(Precision::Native, &mode), "out", 70)
    };
    let (down, up) = (run(Rounding::Down), run(Rounding::Up));
    assert!(down.iter().zip(&up).all(|(down, up)| down < up), "{down:?}\n{up:?}");
}

/// The trainer of `tests/engine/public/trainer`: 6 rows of 64 numbers, and kernel `number` of the function
/// that `call` names.
fn trainer(call: &str, source: &str, defines: &str, number: usize) -> (Public, Vec<f32>) {
    let harness = format!(
        "sources = [\"src/{source}.cu\"]\ninclude = [\"src\"]\ndefines = [{defines}]\ncall = \"{call}\"\n\
         [inputs.which]\ndtype = \"i32\"\nshape = []\n\
         [inputs.inp]\ndtype = \"f32\"\nshape = [\"N\", \"C\"]\n\
         [outputs.out]\ndtype = \"f32\"\nshape = [\"N\", \"C\"]\n"
    );
    let values = numbers(6 * 64, 5);
    let tensors: [Tensor; 2] = [("which", &[number as f32], &[]), ("inp", &values, &[6, 64])];
    (Public::new("trainer", &harness, &tensors), values)
}

#[test]
fn numbers_packed_as_integers_are_as_many_in_the_shadow() {
    for number in 1..=3 {
        let call = "gelu_forward(which, out, inp, 1, N, C, 32);";
        let (public, values) = trainer(call, "elementwise", "", number);
        let expected: Vec<f64> = values.iter().map(|&x| gelu(f64::from(x))).collect();
        public.assert_gives("out", &expected, 1e-6);
    }
}

#[test]
fn numbers_of_a_type_by_macro_are_packed_too() {
    let call = "floatX *x, *y; cudaMalloc(&x, N * C * sizeof(floatX)); \
                cudaMalloc(&y, N * C * sizeof(floatX)); narrow<<<N, C>>>(x, inp); \
                gelu_forward(which, y, x, 1, N, C, 32); widen<<<N, C>>>(out, y);";
    for number in 1..=2 {
        let (public, values) = trainer(call, "elementwise", "\"ENABLE_BF16\"", number);
        let narrow = |x: f32| half::bf16::from_f32(x).to_f64();
        let expected: Vec<f64> = values.iter().map(|&x| narrow(gelu(narrow(x)) as f32)).collect();
        let native = elements(&public.run(Precision::Native), "out", expected.len());
        assert_close(&native, &expected, 1e-2, "native");
        assert_eq!(public.compiled(Precision::Shadow).shadow_obstacles, [""; 0]);
        let exact: Vec<f64> = values.iter().map(|&x| gelu(f64::from(x))).collect();
        let shadow = elements(&public.run(Precision::Shadow), "out", expected.len());
        assert_close(&shadow, &exact, 1e-12, "shadow");
    }
}

#[test]
fn an_obstacle_counts_only_where_it_is_used() {
    let call = "gelu_sign_kernel<<<1, 64>>>((unsigned*)out, inp, 64);";
    let (public, _) = trainer(call, "elementwise", "", 0);
    let obstacles = public.compiled(Precision::Shadow).shadow_obstacles;
    assert_eq!(obstacles, ["src/elementwise.cu:63: (const unsigned*)&"]);
}

#[test]
fn the_versions_of_a_softmax_agree() {
    for number in 1..=4 {
        let (public, values) =
            trainer("softmax_forward(which, out, inp, N, C, 64);", "rows", "", number);
        let row = |row: &[f32]| {
            let sum: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
            row.iter().map(|&x| f64::from(x).exp() / sum).collect::<Vec<f64>>()
        };
        let expected: Vec<f64> = values.chunks(64).flat_map(row).collect();
        public.assert_gives("out", &expected, 1e-6);
    }
}

#[test]
fn a_layer_norm_with_memory_of_its_own_is_right() {
    let call = "layernorm_forward(out, inp, inp, inp + C, N, C);";
    let (public, values) = trainer(call, "rows", "", 0);
    let row = |row: &[f32]| {
        let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / 64.0;
        let square = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / 64.0;
        let scale = 1.0 / (square + 1e-5).sqrt();
        let one = |(c, &x): (usize, &f32)| {
            scale * (f64::from(x) - mean) * f64::from(values[c]) + f64::from(values[64 + c])
        };
        row.iter().enumerate().map(one).collect::<Vec<f64>>()
    };
    let expected: Vec<f64> = values.chunks(64).flat_map(row).collect();
    public.assert_gives("out", &expected, 1e-5);
}

#[test]
fn host_code_finds_the_runtime_functions_that_it_is_used_to() {
    let harness = "call = \"run(in, out, n);\"\n\
                   [inputs.in]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                   [outputs.out]\ndtype = \"f32\"\nshape = [14]\n";
    let values = numbers(6, 6);
    let public = Public::new("runtime", harness, &[("in", &values, &[6])]);
    let mut expected: Vec<f64> = values.iter().map(|&x| f64::from(x)).collect();
    expected.extend([0.0, 0.0]);
    // Two launches lie between the events, whatever time they took.
    expected.extend([13.0, 2.0, 1.0, 8.0 * 132.0, 1024.0, 12.5]);
    public.assert_gives("out", &expected, 0.0);
}

#[test]
fn a_harness_sets_up_and_begins_outputs_as_zeros_or_as_inputs() {
    let harness = "sources = [\"src/update.cu\"]\ndefines = [\"STEP=2\"]\nundefine = [\"__CUDACC__\"]\n\
                   setup = \"float* scratch; cudaMalloc(&scratch, 64 * sizeof(float));\"\n\
                   call = \"update(params, sums, count, before, scratch, n);\"\n\
                   [inputs.before]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                   [outputs.params]\ndtype = \"f32\"\nshape = [\"n\"]\ninit = \"before\"\n\
                   [outputs.sums]\ndtype = \"f32\"\nshape = [\"n\", 2]\ninit = 0\n\
                   [outputs.count]\ndtype = \"f32\"\nshape = []\ninit = 0\n";
    let values = numbers(5, 7);
    let public = Public::new("update", harness, &[("before", &values, &[5])]);
    let expected: Vec<f64> = values.iter().map(|&x| f64::from(x) + 2.0).collect();
    public.assert_gives("params", &expected, 1e-6);
    let sums: Vec<f64> = values.iter().flat_map(|&x| [f64::from(x), 0.0]).collect();
    public.assert_gives("sums", &sums, 1e-6);
    public.assert_gives("count", &[5.0], 0.0);
}

#[test]
fn kernels_of_a_pytorch_extension_are_launched_by_the_call() {
    let call = "vllm_like::bias_silu_kernel<float><<<N, block_of(C)>>>(out, inp, inp, C);";
    let harness = format!(
        "call = \"{call}\"\n[inputs.inp]\ndtype = \"f32\"\nshape = [\"N\", \"C\"]\n\
         [outputs.out]\ndtype = \"f32\"\nshape = [\"N\", \"C\"]\n"
    );
    let values = numbers(4 * 40, 8);
    let public = Public::new("extension", &harness, &[("inp", &values, &[4, 40])]);
    let one = |(index, &x): (usize, &f32)| {
        let x = f64::from(x) + f64::from(values[index % 40]);
        x / (1.0 + (-x).exp())
    };
    let expected: Vec<f64> = values.iter().enumerate().map(one).collect();
    public.assert_gives("out", &expected, 1e-6);
}
