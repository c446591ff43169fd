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
use replay::summary::POISON_A;
use replay::tensor::DType;
use replay::worker::Run;

use super::project::{Machine, cpu_in, elements};

/// A fixture for a project of `tests/engine/public`.
struct Public {
    dir: tempfile::TempDir,
    fixture: Arc<Fixture>,
    sources: Arc<SourceSet>,
}

/// A tensor: name, values, shape.
type Tensor<'t> = (&'t str, &'t [f32], &'t [usize]);

impl Public {
    /// The project in the folder `name` with the harness `text`, which may leave out `sources`.
    fn new(name: &str, harness: &str, tensors: &[Tensor]) -> Public {
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
        let bytes: Vec<Vec<u8>> = tensors.iter().map(|tensor| bytes(tensor.1)).collect();
        let new = tensors.iter().zip(&bytes);
        let new: Vec<fixture::NewTensor> =
            new.map(|(tensor, bytes)| (tensor.0, DType::F32, tensor.2, bytes.as_slice())).collect();
        fixture::write(&at, &new, &[]).unwrap();
        let fixture = Arc::new(Fixture::load(&at).unwrap());
        let harness = &fixture.harness;
        let (sources, include) = (harness.sources.clone(), harness.include.clone());
        let spec = SourceSpec { sources, include, ..SourceSpec::default() };
        let sources = source_set_from_dir(dir.path(), &spec).unwrap().into();
        Public { dir, fixture, sources }
    }

    fn run(&self, precision: Precision) -> Run {
        self.run_in(precision, &Mode::plain(POISON_A))
    }

    fn run_in(&self, precision: Precision, mode: &Mode) -> Run {
        let cpu = cpu_in(self.dir.path(), "", Machine::PLAIN);
        let variant = cpu.prepare(&self.fixture, &self.sources, precision, &|| ());
        let variant = variant.unwrap_or_else(|error| {
            panic!("{error}: {:?} {:?}", std::error::Error::source(&error), error.hint())
        });
        variant.run(mode).unwrap()
    }

    fn compiled(&self, precision: Precision) -> Artifact {
        let cpu = cpu_in(self.dir.path(), "", Machine::PLAIN);
        let (harness, signature) = (&self.fixture.harness, Signature::of(&self.fixture));
        cpu.toolchain().compile(harness, &signature, &self.sources, precision).unwrap()
    }

    /// Holds `output` of the native replay and of the float64 shadow against `expected`; the first may
    /// be off by `tolerance`.
    fn assert_gives(&self, output: &str, expected: &[f64], tolerance: f64) {
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

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
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
