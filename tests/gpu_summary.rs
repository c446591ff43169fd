//! The kernel in `crates/base/src/summary/device` against the CPU's summary, and against the memory's bandwidth.
//!
//! `ci/test-gpu` runs it.

use std::path::Path;
use std::sync::Arc;

use crate::common::gpu_lab;
use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;
use replay::cache::Cache;
use replay::compile::DeviceToolchain;
use replay::cuda::{self, Module, Nvrtc, NvrtcAnswer};
use replay::summary::device::{DevicePart, combine_device_parts};
use replay::summary::{POISON_A, POISON_B, Poison, Summary, summarize_tensor};
use replay::tensor::{DType, TensorView};

const BLOCKS: u32 = 528;
const SHAPE: LaunchConfig =
    LaunchConfig { grid_dim: (BLOCKS, 1, 1), block_dim: (128, 1, 1), shared_mem_bytes: 0 };
/// 64-bit words of a part.
const WORDS: usize = size_of::<DevicePart>() / 8;

struct Lab {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    toolchain: DeviceToolchain,
    nvrtc: Nvrtc,
    _folder: tempfile::TempDir,
}

fn lab() -> Lab {
    let device = cuda::find_gpu(0).unwrap_or_else(|error| panic!("needs a GPU: {error}"));
    let nvrtc = gpu_lab::nvrtc();
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path()).unwrap();
    let found = nvrtc.clone();
    let architecture = &device.architecture;
    let toolchain = DeviceToolchain::new(found, &gpu_lab::search(), architecture, &cache);
    let context = CudaContext::new(0).unwrap();
    let stream = context.default_stream();
    Lab { context, stream, toolchain, nvrtc, _folder: folder }
}

impl Lab {
    fn load(&self, code: Vec<u8>, kernel: &str) -> CudaFunction {
        self.context.load_module(Ptx::from_binary(code)).unwrap().load_function(kernel).unwrap()
    }

    fn summarizer(&self, dtype: DType) -> CudaFunction {
        let read = |path: &Path| Module::decode(&std::fs::read(path).unwrap()).unwrap();
        self.load(read(&self.toolchain.summary(dtype).unwrap()).code, "summarize")
    }

    /// Launches as many blocks as there is room for `parts`.
    fn launch(
        &self,
        kernel: &CudaFunction,
        tensor: &CudaSlice<u8>,
        count: u64,
        poison: Option<&Poison>,
        parts: &mut CudaSlice<u64>,
    ) {
        let pattern = poison.map_or(0, |poison| u64::from_le_bytes(poison.pattern));
        let poisoned = i32::from(poison.is_some());
        let blocks = (parts.len() / WORDS) as u32;
        let mut launch = self.stream.launch_builder(kernel);
        launch.arg(tensor).arg(&count).arg(&pattern).arg(&poisoned).arg(parts);
        // SAFETY: the arguments are those of the kernel, the tensor has `count` elements.
        unsafe { launch.launch(LaunchConfig { grid_dim: (blocks, 1, 1), ..SHAPE }) }.unwrap();
    }

    fn summary(
        &self,
        kernel: &CudaFunction,
        view: &TensorView,
        poison: Option<&Poison>,
        blocks: u32,
    ) -> Option<Summary> {
        let mut bytes = view.bytes.to_vec();
        bytes.resize(bytes.len().max(1), 0);
        let tensor = self.stream.clone_htod(&bytes).unwrap();
        let mut parts = self.stream.alloc_zeros::<u64>(blocks as usize * WORDS).unwrap();
        self.launch(kernel, &tensor, view.len() as u64, poison, &mut parts);
        let words = self.stream.clone_dtoh(&parts).unwrap();
        let parts: Vec<DevicePart> = words.chunks(WORDS).map(part).collect();
        combine_device_parts(&parts, view.dtype, view.shape)
    }

    /// The least milliseconds of `launch`, of ten tries after a first one.
    fn milliseconds(&self, mut launch: impl FnMut()) -> f32 {
        let flags = Some(CUevent_flags::CU_EVENT_DEFAULT);
        let once = || {
            let begin = self.stream.record_event(flags).unwrap();
            launch();
            let end = self.stream.record_event(flags).unwrap();
            begin.elapsed_ms(&end).unwrap()
        };
        std::iter::repeat_with(once).take(11).skip(1).fold(f32::INFINITY, f32::min)
    }
}

fn part(words: &[u64]) -> DevicePart {
    let float = |at: usize| f64::from_bits(words[at]);
    DevicePart {
        x: words[0],
        y: words[1],
        buckets: std::array::from_fn(|k| float(2 + k)),
        sum: float(18),
        squares: float(19),
        min: float(20),
        max: float(21),
        zeros: words[22],
        nan: words[23],
        inf: words[24],
        unwritten: words[25],
    }
}

/// Pseudo-random bytes; the same for the same seed.
fn random(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)).to_le_bytes()
    };
    let mut all: Vec<u8> = (0..bytes.div_ceil(8)).flat_map(|_| next()).collect();
    all.truncate(bytes);
    all
}

/// Makes every element finite and not too far from 1: exponents lose their highest bits.
fn tame(dtype: DType, bytes: &mut [u8]) {
    let mask = match dtype {
        _ if dtype.is_float() => 0xBF,
        DType::Bool => 0x01,
        _ => 0xFF,
    };
    bytes.chunks_mut(dtype.size()).for_each(|element| {
        element[dtype.size() - 1] &= mask;
    });
}

/// Makes one element in eight 0, one in eight -0 (or the least number), and one in eight what poison
/// would be there.
fn scatter(dtype: DType, bytes: &mut [u8]) {
    let size = dtype.size();
    let mut state = 7u64;
    for (index, element) in bytes.chunks_mut(size).enumerate() {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        let phase = index * size % 8;
        match state >> 61 {
            0 => element.fill(0),
            1 if dtype != DType::Bool => {
                element.fill(0);
                element[size - 1] = 0x80;
            }
            2 if dtype != DType::Bool => {
                element.copy_from_slice(&POISON_B.pattern[phase..phase + size]);
            }
            _ => (),
        }
    }
}

fn assert_same(got: &Summary, expected: &Summary, what: &str) {
    let exact = |s: &Summary| {
        (s.checksum, s.count, s.zeros, s.nan, s.inf, s.unwritten, s.min, s.max, s.max_abs.to_bits())
    };
    assert_eq!(exact(got), exact(expected), "{what}");
    let near = |a: f64, b: f64, scale: f64| a == b || (a - b).abs() <= 1e-12 * scale;
    assert!(near(got.norm, expected.norm, expected.norm), "{what}: {} {}", got.norm, expected.norm);
    let mass = expected.norm * (expected.count as f64).sqrt();
    let mean = |s: &Summary| s.mean.unwrap_or(0.0) * s.count as f64;
    assert!(near(mean(got), mean(expected), mass), "{what}: {:?} {:?}", got.mean, expected.mean);
    for (a, b) in got.sketch.0.iter().zip(expected.sketch.0) {
        assert!(near(*a, b, mass), "{what}: {:?} {:?}", got.sketch, expected.sketch);
    }
}

#[test]
#[ignore = "needs a GPU"]
fn the_device_summarises_as_the_cpu_does() {
    let lab = lab();
    let counts = [0, 1, 7, 127, 128, 129, 1000, 2047, 2048, 2049, 40_003, (1 << 21) + 13];
    let mut compared = 0;
    let mut left_to_the_cpu = 0;
    for dtype in DType::ALL {
        let kernel = lab.summarizer(dtype);
        for count in counts {
            let wild = random(count as u64, count * dtype.size());
            let mut tamed = wild.clone();
            tame(dtype, &mut tamed);
            let mut unwritten = tamed.clone();
            POISON_A.fill(&mut unwritten[..count / 3 * dtype.size() / 8 * 8]);
            let mut finite_poison = tamed.clone();
            POISON_B.fill(&mut finite_poison[..count / 3 * dtype.size() / 8 * 8]);
            let mut scattered = tamed.clone();
            scatter(dtype, &mut scattered);
            let cases = [
                (&wild, None),
                (&scattered, Some(&POISON_A)),
                (&scattered, Some(&POISON_B)),
                (&tamed, None),
                (&unwritten, Some(&POISON_A)),
                (&finite_poison, Some(&POISON_B)),
                (&vec![0; count * dtype.size()], None),
            ];
            for (number, (bytes, poison)) in cases.into_iter().enumerate() {
                let view = TensorView { dtype, shape: &[count], bytes };
                let expected = summarize_tensor(&view, poison);
                // With few blocks a warp has many chunks.
                for blocks in [BLOCKS, 3] {
                    let what = format!("{dtype} [{count}], case {number}, {blocks} blocks");
                    match lab.summary(&kernel, &view, poison, blocks) {
                        Some(got) => {
                            assert_same(&got, &expected, &what);
                            compared += 1;
                        }
                        // Its squares leave the range of float64, downwards or upwards.
                        None if dtype == DType::F64 => left_to_the_cpu += 1,
                        None => panic!("{what}: no summary"),
                    }
                }
            }
        }
    }
    eprintln!("{compared} summaries are the CPU's, {left_to_the_cpu} overflow a plain sum");
}

/// What the bandwidth is measured by.
const PLAIN_REDUCTION: &str = r#"
extern "C" __global__ void __launch_bounds__(256) reduce(const uint4* in, unsigned long long n,
                                                         unsigned* out) {
    unsigned sum = 0;
    unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * stride < n; i += 4 * stride) {
        uint4 a = in[i], b = in[i + stride], c = in[i + 2 * stride], d = in[i + 3 * stride];
        sum += a.x + a.y + a.z + a.w + b.x + b.y + b.z + b.w;
        sum += c.x + c.y + c.z + c.w + d.x + d.y + d.z + d.w;
    }
    for (; i < n; i += stride) sum += in[i].x + in[i].y + in[i].z + in[i].w;
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
}
"#;

#[test]
#[ignore = "needs a GPU"]
fn summarising_runs_near_the_bandwidth_of_a_plain_reduction() {
    let lab = lab();
    let bytes: usize = 4 << 30;
    let options = [format!("--gpu-architecture={}", lab.toolchain.architecture())];
    let NvrtcAnswer::Compiled(image) = lab.nvrtc.compile(PLAIN_REDUCTION, &options, &[]).unwrap()
    else {
        panic!("the kernel does not compile");
    };
    let reduce = lab.load(image.code, "reduce");
    let mut tensor = lab.stream.alloc_zeros::<u8>(bytes).unwrap();
    let piece = {
        // Finite as numbers of any type.
        let mut piece = random(1, 64 << 20);
        tame(DType::F16, &mut piece);
        piece
    };
    let fill = |tensor: &mut CudaSlice<u8>, piece: &[u8]| {
        for at in (0..bytes).step_by(piece.len()) {
            let mut target = tensor.slice_mut(at..at + piece.len());
            lab.stream.memcpy_htod(piece, &mut target).unwrap();
        }
    };
    fill(&mut tensor, &piece);
    let mut out = lab.stream.alloc_zeros::<u32>(1).unwrap();
    let words = (bytes / 16) as u64;
    let plain = [264, 528, 1056, 2112].map(|blocks| {
        lab.milliseconds(|| {
            let mut launch = lab.stream.launch_builder(&reduce);
            launch.arg(&tensor).arg(&words).arg(&mut out);
            let shape = LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (256, 1, 1), ..SHAPE };
            // SAFETY: the arguments are those of the kernel.
            unsafe { launch.launch(shape) }.unwrap();
        })
    });
    let plain = plain.into_iter().fold(f32::INFINITY, f32::min);
    let rate = |ms: f32| bytes as f64 / f64::from(ms) / 1e9;
    eprintln!("plain reduction: {:.2} TB/s", rate(plain));
    let mut parts = lab.stream.alloc_zeros::<u64>(BLOCKS as usize * WORDS).unwrap();
    let mut with_zeros = piece;
    with_zeros.chunks_mut(12 << 10).for_each(|three| three[..4 << 10].fill(0));
    let dtypes = [
        DType::F64,
        DType::F32,
        DType::BF16,
        DType::F16,
        DType::I64,
        DType::I32,
        DType::I16,
        DType::U8,
    ];
    for what in ["", " with a third of zeros"] {
        if !what.is_empty() {
            fill(&mut tensor, &with_zeros);
        }
        for dtype in dtypes {
            let kernel = lab.summarizer(dtype);
            let count = (bytes / dtype.size()) as u64;
            for (name, poison) in [("", None), (", unwritten counted", Some(&POISON_B))] {
                let took =
                    lab.milliseconds(|| lab.launch(&kernel, &tensor, count, poison, &mut parts));
                let rate = rate(took);
                let share = plain / took * 100.0;
                eprintln!("summary of {dtype}{what}{name}: {rate:.2} TB/s, {share:.0} %");
            }
        }
    }
}
