//! What the tests of the GPU backend share: devices, labs, small fixtures.
//!
//! What needs a GPU or NVRTC is ignored unless it is asked for, and fails where that is missing:
//! `ci/test-gpu` and `ci/test-nvrtc` ask.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use replay::backend::{Backend, CpuBackend, Cuda, Host};
use replay::cache::Cache;
use replay::compile::{Compiler, Toolchain};
use replay::cuda::{Nvrtc, SearchPath};
use replay::fixture::{self, Fixture};
use replay::foreign::Keeper;
use replay::history::{SourceSet, SourceSpec, source_set_from_dir};
use replay::tensor::DType;
use replay::trial::{Failure, Lab, Outcome, Status, Subject};
use replay::worker::Limits;

/// Where the sources of this package are: the tests may run on another machine than the one that
/// built them.
pub fn root() -> PathBuf {
    std::env::var_os("REPLAY_TEST_ROOT").map_or(env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

pub fn search() -> SearchPath {
    let folders = |name: &str| {
        std::env::split_paths(&std::env::var_os(name).unwrap_or_default()).collect::<Vec<_>>()
    };
    SearchPath {
        libraries: folders("LD_LIBRARY_PATH"),
        roots: folders("CUDA_HOME"),
        python: Some("python3".to_owned()),
    }
}

/// NVRTC, for tests that are ignored without it.
pub fn nvrtc() -> Nvrtc {
    Nvrtc::find(&search()).unwrap_or_else(|error| panic!("needs NVRTC: {error}"))
}

/// What kernels run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// The reference machine.
    Cpu,
    /// The first GPU.
    Gpu,
}

/// Where a claim is tested that holds on every device.
#[derive(Clone, Copy)]
pub enum Devices {
    /// On every machine.
    Cpu,
    /// Where a GPU was asked for: on both, the CPU first.
    CpuAndGpu,
}

impl Devices {
    pub fn all(self) -> &'static [Device] {
        match self {
            Devices::Cpu => &[Device::Cpu],
            Devices::CpuAndGpu => &[Device::Cpu, Device::Gpu],
        }
    }
}

/// Makes two tests of each function: one on the CPU, one on a GPU, which is ignored by default.
macro_rules! on_each_device {
    ($($claim:ident),+ $(,)?) => {
        mod on_the_cpu {
            $(#[test]
            fn $claim() {
                super::$claim(super::Devices::Cpu);
            })+
        }
        mod on_a_gpu {
            $(#[test]
            #[ignore = "needs a GPU"]
            fn $claim() {
                super::$claim(super::Devices::CpuAndGpu);
            })+
        }
    };
}
pub(crate) use on_each_device;

/// The reference machine, whose children are of `program`.
pub fn cpu(cache: &Cache, program: &Path, timeout: Duration) -> CpuBackend {
    let limits = Limits { timeout, ..Limits::default() };
    CpuBackend::new(toolchain(cache), Host::new(program.to_owned(), limits, 2, cache.temporary()))
}

/// The first GPU of the machine of `cpu`, for tests that are ignored without one.
pub fn cuda(cache: &Cache, cpu: CpuBackend) -> Cuda {
    Cuda::new(cpu, Some(0), None, &search(), cache)
        .unwrap_or_else(|error| panic!("needs a GPU: {error}"))
}

fn backend(cache: &Cache, device: Device, program: &Path, timeout: Duration) -> Arc<dyn Backend> {
    let cpu = cpu(cache, program, timeout);
    match device {
        Device::Cpu => Arc::new(cpu),
        Device::Gpu => Arc::new(cuda(cache, cpu)),
    }
}

/// Trials on `device` that pass over what the cache knows.
pub fn lab(cache: &Cache, device: Device, timeout: Duration) -> Arc<Lab> {
    lab_of(cache, device, &program(), timeout)
}

/// The same with children of `program`.
pub fn lab_of(cache: &Cache, device: Device, program: &Path, timeout: Duration) -> Arc<Lab> {
    Lab::new(backend(cache, device, program, timeout), cache.clone(), true)
}

/// Trials on `device` that take what they can from the cache.
pub fn remembering(cache: &Cache, device: Device, timeout: Duration) -> Arc<Lab> {
    Lab::new(backend(cache, device, &program(), timeout), cache.clone(), false)
}

/// The compiler for the host's code.
pub fn toolchain(cache: &Cache) -> Toolchain {
    let keeper = Keeper::new(&program());
    Toolchain::new(Compiler::find(None, &keeper).unwrap(), cache)
}

/// How long a replay may take that ends by itself.
pub const MINUTE: Duration = Duration::from_secs(60);

/// The cache that tests share: what is compiled is found by content, outcomes are passed over.
pub fn shared_cache() -> Cache {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = if folder.is_dir() { folder.to_owned() } else { std::env::temp_dir() };
    Cache::open(&folder.join("replay-gpu-tests")).unwrap()
}

pub fn cache() -> (tempfile::TempDir, Cache) {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(&folder.path().join("cache")).unwrap();
    (folder, cache)
}

/// Sources of one file that fill `out`, `n` elements, from `x`, as many, of i32.
pub struct Small {
    _folder: tempfile::TempDir,
    /// The fixture.
    pub subject: Arc<Subject>,
    /// The kernel.
    pub sources: Arc<SourceSet>,
}

impl Small {
    pub fn new(source: &str, call: &str) -> Small {
        Small::sized(source, call, 1000)
    }

    pub fn sized(source: &str, call: &str, n: usize) -> Small {
        let x = (0..n as i32).flat_map(|i| i.wrapping_mul(i).wrapping_sub(7).to_le_bytes());
        Small::of(source, call, (DType::I32, n), &x.collect::<Vec<u8>>())
    }

    /// The same with elements of f32 around zero.
    pub fn floats(source: &str, call: &str) -> Small {
        let x: Vec<f32> = (0..1000).map(|i| (i as f32 * 0.37).sin() * 2.5).collect();
        Small::floats_of(source, call, &x)
    }

    /// The same with the elements `x`.
    pub fn floats_of(source: &str, call: &str, x: &[f32]) -> Small {
        let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
        Small::of(source, call, (DType::F32, x.len()), &bytes)
    }

    fn of(source: &str, call: &str, (dtype, n): (DType, usize), x: &[u8]) -> Small {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::write(root.join("kernel.cu"), source).unwrap();
        let harness = format!(
            "sources = [\"kernel.cu\"]\ncall = \"\"\"{call}\"\"\"\n\
             [inputs.x]\ndtype = \"{dtype}\"\nshape = [\"n\"]\n\
             [outputs.out]\ndtype = \"{dtype}\"\nshape = [\"n\"]\n"
        );
        std::fs::write(root.join("replay.toml"), harness).unwrap();
        let dir = root.join("fixture");
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("fixture.toml"), "harness = \"../replay.toml\"\n").unwrap();
        fixture::write_safetensors(&dir, &[("x", dtype, &[n], x)], &[]).unwrap();
        let fixture = Fixture::load(&dir).unwrap();
        let spec = SourceSpec {
            sources: fixture.harness.sources.clone(),
            include: Vec::new(),
            ..SourceSpec::default()
        };
        let sources = source_set_from_dir(root, &spec).unwrap().into();
        Small { _folder: folder, subject: Subject::new(fixture).into(), sources }
    }

    pub fn replay(&self, lab: &Arc<Lab>) -> Outcome {
        lab.trial(&self.subject, &self.sources).outcome().unwrap().clone()
    }
}

/// Replays `source` on each of `devices`.
pub fn replay_on(devices: Devices, source: &str, call: &str, timeout: Duration) -> Vec<Outcome> {
    let cache = shared_cache();
    let small = Small::new(source, call);
    let devices = devices.all().iter();
    devices.map(|device| small.replay(&lab(&cache, *device, timeout))).collect()
}

pub fn failures(outcome: &Outcome) -> &[Failure] {
    match &outcome.status {
        Status::Failed(failures) => failures,
        other => panic!("{}: not failed: {other:?}", outcome.device),
    }
}

pub fn checksum(outcome: &Outcome) -> String {
    assert_eq!(outcome.status, Status::Completed, "{}: {}", outcome.device, outcome.printed);
    outcome.outputs.iter().map(|output| output.summary.checksum.to_string()).collect()
}

/// The program that replays; carried beside the tests where there is no cargo.
pub fn program() -> PathBuf {
    let carried = std::env::var_os("REPLAY_TEST_PROGRAM").map(PathBuf::from);
    carried.unwrap_or_else(|| env!("CARGO_BIN_EXE_replay").into())
}
