//! Sources as public trainers and tutorials are written, compiled as they are: `tests/engine/public`.
//! Each folder is a project. Expected values are computed here in float64.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use replay::backend::{Backend, Cuda, Mode};
use replay::cache::Cache;
use replay::compile::{Artifact, Signature};
use replay::fixture::{self, Fixture};
use replay::frontend::Precision;
use replay::history::{SourceSet, SourceSpec, source_set_from_dir};
use replay::runtime::report::NO_SHADOW;
use replay::summary::POISON_A;
use replay::tensor::DType;
use replay::worker::{Ending, Run};

use super::project::{Machine, elements, shared_cpu};
use super::shipped::{gpu, root};

/// A fixture for a project of `tests/engine/public`.
pub(super) struct Public {
    /// Holds the fixture's files.
    _dir: tempfile::TempDir,
    fixture: Arc<Fixture>,
    sources: Arc<SourceSet>,
}

thread_local! {
    /// The device of a test of `on_a_gpu`, and how many times the CPU's tolerance it has.
    static GPU: RefCell<Option<(Cuda, f64)>> = const { RefCell::new(None) };
}

/// Checks `claims` on the first GPU, which may be off by `by` times as much as the CPU.
pub(super) fn on_a_gpu(by: f64, claims: &[fn()]) {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(&folder.path().join("cache")).unwrap();
    GPU.set(Some((gpu(&cache), by)));
    claims.iter().for_each(|claim| claim());
    GPU.set(None);
}

/// A tensor: name, values, shape.
pub(super) type Tensor<'t> = (&'t str, &'t [f32], &'t [usize]);

impl Public {
    /// The project in the folder `name` with the harness `text`, which may leave out `sources`.
    pub(super) fn new(name: &str, harness: &str, tensors: &[Tensor]) -> Public {
        let dir = tempfile::tempdir().unwrap();
        let folder = root().join("tests/engine/public").join(name);
        fs::create_dir_all(dir.path().join("src")).unwrap();
        for entry in folder.read_dir().unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), dir.path().join("src").join(entry.file_name())).unwrap();
        }
        let text = if harness.contains("sources") {
            harness.to_owned()
        } else {
            format!("sources = [\"src\"]\ninclude = [\"src\"]\n{harness}")
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
        fixture::write_safetensors(&at, &new, &[]).unwrap();
        let fixture = Arc::new(Fixture::load(&at).unwrap());
        let harness = &fixture.harness;
        let sources = harness.sources.clone();
        let include = harness.include.clone();
        let spec = SourceSpec { sources, include, ..SourceSpec::default() };
        let sources = source_set_from_dir(dir.path(), &spec).unwrap().into();
        Public { _dir: dir, fixture, sources }
    }

    pub(super) fn run(&self, precision: Precision) -> Run {
        self.run_in(precision, &Mode::plain(POISON_A))
    }

    /// The native replay, on the device in a test of [`on_a_gpu`].
    pub(super) fn run_here(&self) -> Run {
        if GPU.with_borrow(Option::is_some) {
            self.run_on_gpu()
        } else {
            self.run(Precision::Native)
        }
    }

    fn run_on_gpu(&self) -> Run {
        GPU.with_borrow(|gpu| {
            let (gpu, _) = gpu.as_ref().expect("a test of `on_a_gpu`");
            let prepared = gpu.prepare(&self.fixture, &self.sources, Precision::Native, &|| ());
            let variant = prepared.unwrap_or_else(|error| panic!("{error}"));
            variant.run(&Mode::plain(POISON_A)).unwrap()
        })
    }

    pub(super) fn run_in(&self, precision: Precision, mode: &Mode) -> Run {
        let cpu = shared_cpu("", Machine::PLAIN);
        let variant = cpu.prepare(&self.fixture, &self.sources, precision, &|| ());
        let variant = variant.unwrap_or_else(|error| {
            panic!("{error}: {:?} {:?}", std::error::Error::source(&error), error.hint())
        });
        variant.run(mode).unwrap()
    }

    pub(super) fn compiled(&self, precision: Precision) -> Artifact {
        let cpu = shared_cpu("", Machine::PLAIN);
        let harness = &self.fixture.harness;
        let signature = Signature::from_fixture(&self.fixture);
        cpu.toolchain().compile(harness, &signature, &self.sources, precision).unwrap()
    }

    /// Why the shadow ends itself.
    pub(super) fn end_of_shadow(&self) -> String {
        match self.run(Precision::Shadow).ending {
            Ending::Fault(fault) if fault.what == NO_SHADOW => fault.detail,
            ending => panic!("{ending:?}"),
        }
    }

    /// Holds `output` of the native replay and of the float64 shadow against `expected`; the first may
    /// be off by `tolerance`. In a test of [`on_a_gpu`] holds the device's result against it.
    pub(super) fn assert_gives(&self, output: &str, expected: &[f64], tolerance: f64) {
        if let Some(by) = GPU.with_borrow(|gpu| gpu.as_ref().map(|&(_, by)| by)) {
            let first = elements(&self.run_on_gpu(), output, expected.len());
            assert_close(&first, expected, tolerance * by, "GPU");
            let again = elements(&self.run_on_gpu(), output, expected.len());
            assert!(first.iter().map(|x| x.to_bits()).eq(again.iter().map(|x| x.to_bits())));
            return;
        }
        let native = elements(&self.run(Precision::Native), output, expected.len());
        assert_close(&native, expected, tolerance, "native");
        assert_eq!(self.compiled(Precision::Shadow).shadow_obstacles, [""; 0]);
        let shadow = elements(&self.run(Precision::Shadow), output, expected.len());
        assert_close(&shadow, expected, 1e-12, "shadow");
    }
}

pub(super) fn assert_close(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
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
pub(super) fn numbers(count: usize, seed: u64) -> Vec<f32> {
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

pub(super) fn inner(x: f64) -> f64 {
    (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)
}

pub(super) fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + inner(x).tanh())
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
pub(super) fn numbers_packed_as_integers_are_as_many_in_the_shadow() {
    for number in 1..=3 {
        let call = "gelu_forward(which, out, inp, 1, N, C, 32);";
        let (public, values) = trainer(call, "elementwise", "", number);
        let expected: Vec<f64> = values.iter().map(|&x| gelu(f64::from(x))).collect();
        public.assert_gives("out", &expected, 1e-6);
    }
}

#[test]
pub(super) fn numbers_of_a_type_by_macro_are_packed_too() {
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
pub(super) fn bytes_that_a_class_of_traits_counts_are_those_of_the_shadow_where_they_lay_memory_out()
 {
    let harness = "sources = [\"src/shift.cu\"]\ncall = \"shift(out, inp, rows, length);\"\n\
         [inputs.inp]\ndtype = \"f32\"\nshape = [\"rows\", \"length\"]\n\
         [outputs.out]\ndtype = \"f32\"\nshape = [\"rows\", \"length\"]\n";
    for length in [300, 37, 4] {
        let values = numbers(3 * length, 5);
        let public = Public::new("traits", harness, &[("inp", &values, &[3, length])]);
        let rows = values.chunks(length);
        let expected: Vec<f64> = rows
            .flat_map(|row| {
                (0..length).map(|i| {
                    let before = if i > 0 { f64::from(row[i - 1]) } else { 0.0 };
                    f64::from(row[i]) + 0.5 * before
                })
            })
            .collect();
        assert_eq!(public.compiled(Precision::Shadow).shadow_obstacles, [""; 0]);
        public.assert_gives("out", &expected, 1e-6);
    }
}

#[test]
pub(super) fn a_number_is_added_as_half_of_a_word() {
    let counted = "floatX* sums; cudaMalloc(&sums, C * sizeof(floatX)); cudaMemset(sums, 0, C * sizeof(floatX)); \
                   count_kernel<<<N, C>>>(sums, C); widen<<<1, C>>>(out, sums);";
    let (public, _) = trainer(counted, "elementwise", "\"ENABLE_BF16\"", 0);
    public.assert_gives("out", &[6.0; 64], 0.0);
    let read = "floatX* two; cudaMalloc(&two, C * sizeof(floatX)); narrow<<<1, C>>>(two, inp); \
                exchange_kernel<<<1, 1>>>(out, two);";
    let (public, values) = trainer(read, "elementwise", "\"ENABLE_BF16\"", 0);
    let [x, y] = [0, 1].map(|at| f64::from(values[at]));
    let shadow = elements(&public.run(Precision::Shadow), "out", 3);
    assert_close(&shadow, &[x, y, x + y], 1e-12, "shadow");
    let native = elements(&public.run(Precision::Native), "out", 3);
    assert_close(&native, &[x, y, x + y], 1e-2, "native");
}

#[test]
fn a_call_that_takes_numbers_for_integers_ends_its_shadow() {
    let call = "gelu_sign_kernel<<<1, 64>>>((unsigned*)out, inp, 64);";
    let (public, _) = trainer(call, "elementwise", "", 0);
    let compiled = public.compiled(Precision::Shadow);
    assert_eq!((compiled.shadow_obstacles, compiled.may_end), (Vec::new(), true));
    assert_eq!(public.end_of_shadow(), "call in replay.toml:4: (unsigned*)out");
}

#[test]
fn an_obstacle_counts_only_in_the_version_that_a_dispatcher_runs() {
    let version = |call: &str, number: i32, defines: &str| {
        let harness = format!(
            "call = \"{call}\"\ndefines = [{defines}]\n\
             [inputs.which]\ndtype = \"i32\"\nshape = []\n\
             [inputs.inp]\ndtype = \"f32\"\nshape = [\"n\"]\n[outputs.out]\ndtype = \"f32\"\nshape = [\"n\"]\n"
        );
        let values = numbers(128, 3);
        let which = [number as f32];
        (
            Public::new("dispatch", &harness, &[("which", &which, &[]), ("inp", &values, &[128])]),
            values,
        )
    };
    let call = "abs_forward(which, out, inp, n);";
    for plain in [0, 8] {
        let (public, values) = version(call, plain, "");
        let expected: Vec<f64> = values.iter().map(|&x| f64::from(x).abs()).collect();
        public.assert_gives("out", &expected, 0.0);
    }
    // Bits of a float that become a float are those of the number.
    for looking in [1, 2, 3, 4, 5, 7, 9] {
        let (public, values) = version(call, looking, "");
        let expected: Vec<f64> = values.iter().map(|&x| f64::from(x).abs()).collect();
        public.assert_gives("out", &expected, 0.0);
    }
    assert_eq!(version(call, 6, "").0.end_of_shadow(), "src/dispatch.cu:46: .x");
    // A class has no statement before its use: it counts for all that its name is reached from.
    let (public, _) = version("abs_kernel10<<<1, 1>>>(out, inp, n);", 0, "\"WITH_UNION\"");
    let obstacles = public.compiled(Precision::Shadow).shadow_obstacles;
    insta::assert_snapshot!(obstacles.join("\n"), @"src/dispatch.cu:68: union Word");
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
    expected.extend([13.0, 2.0, 1.0, 8.0 * 132.0, 1024.0, 26.0]);
    public.assert_gives("out", &expected, 0.0);
}

#[test]
fn a_launch_of_a_pointer_that_is_of_no_kernel_says_so() {
    let harness = "call = \"launch_unknown(in, out, n);\"\n\
                   [inputs.in]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                   [outputs.out]\ndtype = \"f32\"\nshape = [\"n\"]\n";
    let values = numbers(6, 6);
    let public = Public::new("runtime", harness, &[("in", &values, &[6])]);
    let ended = public.run(Precision::Native);
    insta::assert_snapshot!(format!("{:?}", ended.ending), @r#"Fault(ReplayFault { what: "host code stopped itself", detail: "a launch of a pointer to void that is no cast of a kernel's name: its parameters are not known at src/runtime.cu:81", kernel: None, block: None, thread: None })"#);
}

#[test]
#[ignore = "needs a GPU"]
fn host_code_finds_the_runtime_functions_on_a_gpu_too() {
    on_a_gpu(1.0, &[host_code_finds_the_runtime_functions_that_it_is_used_to]);
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

#[test]
fn shared_memory_that_is_seen_as_another_type_holds_what_was_stored() {
    let harness = "call = \"view(which, out, in);\"\n[inputs.which]\ndtype = \"i32\"\nshape = []\n\
                   [inputs.in]\ndtype = \"f32\"\nshape = [\"n\"]\n[outputs.out]\ndtype = \"f32\"\nshape = [\"n\"]\n";
    let values = numbers(64, 9);
    let expected: Vec<f64> = values.iter().map(|&x| 2.0 * f64::from(x)).collect();
    for kernel in 0..17 {
        let which = [kernel as f32];
        let public =
            Public::new("views", harness, &[("which", &which, &[]), ("in", &values, &[64])]);
        println!("kernel {kernel}");
        public.assert_gives("out", &expected, 1e-5);
        let checked = public.run(Precision::Checked);
        assert_eq!(checked.findings.found, []);
        assert_close(&elements(&checked, "out", 64), &expected, 1e-5, "checked");
    }
}

#[test]
fn a_shadow_has_the_shared_memory_for_its_wider_elements() {
    let harness = "call = \"reverse(out, in, n);\"\n\
                   [inputs.in]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                   [outputs.out]\ndtype = \"f32\"\nshape = [2, \"n\"]\n";
    // These numbers are bfloat16.
    let values: Vec<f32> = (0..64).map(|i| i as f32 / 4.0).collect();
    let public = Public::new("shared", harness, &[("in", &values, &[64])]);
    let reversed = || values.iter().rev().map(|&x| f64::from(x));
    let expected: Vec<f64> = reversed().chain(reversed().map(|x| 2.0 * x)).collect();
    public.assert_gives("out", &expected, 0.0);
}

#[test]
fn a_kernel_beside_collective_calls_is_replayed_and_such_a_call_is_named() {
    let harness = |everywhere: bool| {
        format!(
            "call = \"average(grads, sums, n, {everywhere});\"\n\
             [inputs.sums]\ndtype = \"f32\"\nshape = [\"n\"]\n\
             [outputs.grads]\ndtype = \"f32\"\nshape = [\"n\"]\n"
        )
    };
    let values = numbers(40, 9);
    let public =
        |everywhere| Public::new("parallel", &harness(everywhere), &[("sums", &values, &[40])]);
    let expected: Vec<f64> = values.iter().map(|&x| f64::from(x) / 2.0).collect();
    public(false).assert_gives("grads", &expected, 0.0);
    let ended = public(true).run(Precision::Native);
    insta::assert_snapshot!(format!("{:?}", ended.ending), @r#"Fault(ReplayFault { what: "host code stopped itself", detail: "ncclAllReduce is not supported: a replay has one process and one device", kernel: None, block: None, thread: None })"#);
}
