//! The demonstration kernels through NVRTC and on a GPU.

mod deviations;
mod localise;
mod nvrtc;
mod races;
mod shadow;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::gpu_lab::*;
use replay::cache::Cache;
use replay::cuda::sanitizer::{Sanitizer, Tool};
use replay::fixture::Fixture;
use replay::history::{CommitId, History, SourceSet, SourceSpec};
use replay::judge::{Verdict, judge_trial};
use replay::trial::{Failure, Lab, Outcome, Status, Subject};

on_each_device! {
    every_way_to_name_a_kernel_gives_the_same_result_on_all_devices,
    atomics_in_any_order_are_not_taken_for_unwritten_memory,
    template_arguments_that_a_launch_leaves_out_are_deduced_on_all_devices,
    narrow_formats_groups_constants_and_much_shared_memory_are_the_same_on_all_devices,
    a_template_with_a_nameless_parameter_says_what_a_gpu_needs,
}

/// A demonstration fixture and its history.
struct Demo {
    subject: Arc<Subject>,
    history: History,
    spec: SourceSpec,
}

impl Demo {
    fn new(fixture: &str, cache: &Cache) -> Demo {
        let fixture = Fixture::load(&root().join("fixtures").join(fixture)).unwrap();
        let harness = &fixture.harness;
        let repository = harness.repository.as_ref().expect("the demonstration is a bundle");
        let history = History::open_with_cache(repository, cache.root()).unwrap();
        let spec = SourceSpec {
            sources: harness.sources.clone(),
            include: harness.include.clone(),
            ..SourceSpec::default()
        };
        Demo { subject: Subject::new(fixture).into(), history, spec }
    }

    fn sources(&self, revision: &str) -> SourceSet {
        let commit = self.history.resolve(revision).unwrap();
        self.history.source_set(CommitId::from(&commit), &self.spec).unwrap()
    }
}

/// Everything by which a kernel or a variable can be named, in integers so that devices agree.
const NAMES: &str = r#"
#include <cuda_runtime.h>
#include <stdio.h>
namespace plain { __global__ void add(const int* x, int* out, int n, int by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + by;
} }
static __global__ void flip(int* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = ~out[i];
}
__constant__ int weights[4];
static __device__ int bias = 3;
template <int Step, typename T> __global__ void weigh(T* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] += weights[i % 4] * Step + bias;
}
__global__ void reverse(int* out, int n) {
    extern __shared__ int row[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) row[i + 15000] = out[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = row[n - 1 - i + 15000];
}
template <int By> static __global__ void raise(int* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] += By;
}
#define LAUNCH(kernel, ...) kernel<<<1, 64>>>(__VA_ARGS__)
__global__ void over(int* out) { out[0] += 1; }
__global__ void over(int* out, int by) { out[1] += by; }
void all_of_them(const int* x, int* out, int n) {
    const int values[4] = {1, -2, 3, 100};
    int more = 11;
    cudaMemcpyToSymbol(weights, values, sizeof values);
    cudaMemcpyToSymbol(bias, &more, sizeof more);
    plain::add<<<(n + 127) / 128, 128>>>(x, out, n, 5);
    flip<<<1, 64>>>(out, n);
    weigh<2, int><<<1, 256>>>(out, n);
    weigh<3, int><<<1, 256>>>(out, n);
    void (*raising)(int*, int) = raise<4>;
    LAUNCH(raising, out, n);
    void (*flipping)(int*, int) = flip;
    flipping<<<1, 64>>>(out, n);
    void* arguments[] = {&out, &n};
    cudaLaunchKernel(raising, 1, 64, arguments, 0, 0);
    cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, 64000);
    reverse<<<1, 256, 64000>>>(out, n);
    int back = 0;
    cudaMemcpyFromSymbol(&back, bias, sizeof back);
    int* scratch = nullptr;
    cudaMalloc(&scratch, 8);
    cudaMemset(scratch, 0, 8);
    plain::add<<<1, 2>>>(scratch, scratch, 2, back);
    cudaMemcpy(out, scratch, 8, cudaMemcpyDeviceToDevice);
    cudaFree(scratch);
    printf("back %d\n", back);
}
"#;

fn every_way_to_name_a_kernel_gives_the_same_result_on_all_devices(devices: Devices) {
    let outcomes = replay_on(devices, NAMES, "all_of_them(x, out, n);", MINUTE);
    for outcome in &outcomes {
        assert_eq!(checksum(outcome), checksum(&outcomes[0]), "{}", outcome.device);
        assert_eq!(outcome.launches, outcomes[0].launches, "{}", outcome.device);
        assert_eq!(outcome.printed, "back 11\n", "{}", outcome.device);
        let kernels: Vec<&str> = outcome.launches.iter().map(|l| l.kernel.as_str()).collect();
        let expected = ["raise<4>", "flip", "raise<4>"];
        assert_eq!(kernels[4..7], expected, "{}", outcome.device);
    }
}

/// One planted error for each tool, in kernels that end all the same.
const PLANTED: &str = r#"
__global__ void past(int* out, int n) { for (int i = threadIdx.x; i < n + 2; i += 32) out[i] = i; }
__global__ void racy(int* out, int n) {
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;
    for (int i = threadIdx.x; i < n; i += 64) out[i] = s[63 - threadIdx.x];
}
__global__ void unread(const int* in, int* out, int n) {
    for (int i = threadIdx.x; i < n; i += 32) out[i] = in[i % 32];
}
__global__ void diverged(int* out, int n) {
    if (threadIdx.x < 16) __syncthreads();
    for (int i = threadIdx.x; i < n; i += 32) out[i] = 1;
}
__global__ void good(int* out, int n) { for (int i = threadIdx.x; i < n; i += 32) out[i] = 1; }
"#;

#[test]
#[ignore = "needs a GPU and compute-sanitizer"]
fn a_sanitizer_s_findings_fail_the_replay_and_are_not_remembered_without_it() {
    let (_folder, cache) = cache();
    let path: Vec<PathBuf> =
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    let cases = [
        (Tool::Memcheck, "past<<<1, 32>>>(out, n);", "past"),
        (Tool::Racecheck, "racy<<<1, 64>>>(out, n);", "racy"),
        (Tool::Initcheck, "int* s; cudaMalloc(&s, 128); unread<<<1, 32>>>(s, out, n);", "unread"),
        (Tool::Synccheck, "diverged<<<1, 32>>>(out, n);", "diverged"),
    ];
    for (tool, call, kernel) in cases {
        let sanitizer = Sanitizer::find(&path, &search(), tool).unwrap();
        let small = Small::new(PLANTED, call);
        let cuda = cuda(&cache, cpu(&cache, &program(), MINUTE)).sanitized(sanitizer.clone());
        let sanitized = Lab::new(Arc::new(cuda), cache.clone(), false);
        for _ in 0..2 {
            let outcome = small.replay(&sanitized);
            let Failure::Sanitizer { tool: by, finding } = &failures(&outcome)[0] else {
                panic!("{tool:?}: {outcome:?}");
            };
            eprintln!("{tool:?}: {finding:?}");
            assert_eq!((*by, finding.kernel.as_deref()), (tool, Some(kernel)), "{finding:?}");
            let lines = finding.sites.iter().any(|s| s.starts_with("kernel.cu:"));
            assert!(lines && finding.count > 0, "{finding:?}");
        }
        let plain = small.replay(&remembering(&cache, Device::Gpu, MINUTE));
        let told = format!("{plain:?}");
        assert!(!told.contains("Sanitizer"), "{tool:?}: {told}");
        let good = Small::new(PLANTED, "good<<<1, 32>>>(out, n);");
        assert_eq!(good.replay(&sanitized).status, Status::Completed, "{tool:?}");
    }
}

fn atomics_in_any_order_are_not_taken_for_unwritten_memory(devices: Devices) {
    let source = "__global__ void sum(const int* x, int* out, int n) {\n\
                  __shared__ float total; if (threadIdx.x == 0) total = 0; __syncthreads();\n\
                  for (int i = threadIdx.x; i < n; i += blockDim.x)\n\
                    atomicAdd(&total, 1.0f / (1 + x[i] % 97 * (threadIdx.x + 1)));\n\
                  __syncthreads();\n\
                  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = __float_as_int(total);\n\
                  }";
    // Each is another chance for two replays of one order, and one of another.
    for _ in 0..12 {
        for outcome in replay_on(devices, source, "sum<<<1, 1024>>>(x, out, n);", MINUTE) {
            assert_eq!(outcome.status, Status::Completed, "{}", outcome.device);
        }
    }
}

#[test]
#[ignore = "needs a GPU"]
fn large_outputs_are_judged_as_on_the_cpu_although_they_stay_on_the_device() {
    let cache = shared_cache();
    let source = "__global__ void add(const int* x, int* out, int n) {\n\
                  int i = blockIdx.x * 256 + threadIdx.x; if (i < n) out[i] = x[i] + 1; }";
    for call in ["add<<<(n + 255) / 256, 256>>>(x, out, n);", "add<<<100, 256>>>(x, out, n);"] {
        let large = Small::sized(source, call, 17_000_001);
        let outcome = |device| large.replay(&lab(&cache, device, MINUTE));
        let on_cpu = outcome(Device::Cpu);
        let on_gpu = outcome(Device::Gpu);
        assert_eq!(on_cpu.status, on_gpu.status, "{call}");
        let known = |outcome: &Outcome| {
            let summary = &outcome.outputs[0].summary;
            (summary.checksum, summary.zeros, summary.unwritten, summary.min, summary.max)
        };
        assert_eq!(known(&on_cpu), known(&on_gpu), "{call}");
    }
}

/// Launches whose template arguments follow from their own arguments, some of which convert.
const DEDUCED: &str = r#"
namespace ns {
template <typename T> __global__ void add(const T* x, T* out, unsigned long long n, T by) {
    for (unsigned long long i = threadIdx.x; i < n; i += blockDim.x) out[i] = x[i] + by;
}
template <int Step, typename T> __global__ void scale(T* out, long long n) {
    for (long long i = threadIdx.x; i < n; i += blockDim.x) out[i] *= Step;
}
template <typename T> struct Twice { static __device__ T of(T x) { return x * 2; } };
template <template <typename> class Op, typename T> __global__ void apply(T* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = Op<T>::of(out[i]);
}
template <typename... Outs> __global__ void bump(int n, Outs... outs) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) ((outs[i] += 1), ...);
}
}
template <typename T> void all(const T* x, T* out, int n) {
    ns::add<<<1, 64>>>(x, out, n, T(5));
    ns::scale<3><<<1, 64>>>(out, n);
    ns::bump<<<1, 64>>>(n, out, out);
    ns::apply<ns::Twice><<<1, 64>>>(out, n);
    auto add = [&](int by) { ns::add<<<1, 32>>>(out, out, n, by); };
    add(7);
}
"#;

fn template_arguments_that_a_launch_leaves_out_are_deduced_on_all_devices(devices: Devices) {
    let outcomes = replay_on(devices, DEDUCED, "all(x, out, n);", MINUTE);
    for outcome in &outcomes {
        assert_eq!(checksum(outcome), checksum(&outcomes[0]), "{}", outcome.device);
        let kernels: Vec<&str> = outcome.launches.iter().map(|l| l.kernel.as_str()).collect();
        let bump = "ns::bump<int*, int*>";
        let apply = "ns::apply<ns::Twice, int>";
        let expected = ["ns::add<int>", "ns::scale<3, int>", bump, apply, "ns::add<int>"];
        assert_eq!(kernels, expected, "{}", outcome.device);
    }
}

/// CUDA's own headers, in values that every format holds.
const HEADERS: &str = r#"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda/std/limits>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;
__constant__ float factors[2];
template <typename Narrow> __global__ void narrow(const int* x, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Narrow value = Narrow(float(x[i] % 100));
    out[i] = int(float(value + Narrow(factors[0]))) * int(factors[1]);
}
__global__ void pairs(int* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        __half2 both = __hadd2(__floats2half2_rn(float(i % 64), 1.0f), __float2half2_rn(2.0f));
        out[i] += int(__low2float(both)) + int(__half2float(__high2half(both)));
    }
}
__global__ void groups(int* out) {
    extern __shared__ int sums[];
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block);
    int sum = cg::reduce(tile, out[block.thread_rank()], cg::plus<int>());
    if (tile.thread_rank() == 0) sums[14000 + tile.meta_group_rank()] = sum;
    block.sync();
    if (block.thread_rank() < tile.meta_group_size())
        out[block.thread_rank()] =
            sums[14000 + block.thread_rank()] + cuda::std::numeric_limits<short>::max();
}
void all_of_them(const int* x, int* out, int n) {
    const float values[2] = {3.0f, 2.0f};
    cudaMemcpyToSymbol(factors, values, sizeof values);
    narrow<__half><<<(n + 127) / 128, 128>>>(x, out, n);
    narrow<__nv_bfloat16><<<1, 128>>>(x, out, 100);
    pairs<<<1, 64>>>(out, n);
    cudaFuncSetAttribute(groups, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000);
    groups<<<1, 256, 60000>>>(out);
}
"#;

fn narrow_formats_groups_constants_and_much_shared_memory_are_the_same_on_all_devices(
    devices: Devices,
) {
    let outcomes = replay_on(devices, HEADERS, "all_of_them(x, out, n);", MINUTE);
    for outcome in &outcomes {
        assert_eq!(checksum(outcome), checksum(&outcomes[0]), "{}", outcome.device);
        assert_eq!(outcome.launches, outcomes[0].launches, "{}", outcome.device);
    }
}

fn a_template_with_a_nameless_parameter_says_what_a_gpu_needs(devices: Devices) {
    let source = "template <class = int, class T> __global__ void one(T* out, int n) {\n\
                  for (int i = threadIdx.x; i < n; i += 32) out[i] = 1; }";
    for outcome in replay_on(devices, source, "one<<<1, 32>>>(out, n);", MINUTE) {
        match (&outcome.status, outcome.device.as_str()) {
            (Status::Completed, "cpu") => {}
            (Status::Untestable { reason, hint, .. }, device) if device != "cpu" => {
                assert!(reason.contains("function template \"one\""), "{reason}");
                assert!(hint.as_deref().is_some_and(|hint| hint.contains("template arguments")));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Everything of float32 that has another name, or another size, in float64.
const WIDENED: &str = r#"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <math_constants.h>
#include <math.h>
namespace cg = cooperative_groups;
__constant__ float factors[2];
__device__ float total;
#define SQUARE(x) ((x) * (x) + 0.1f)
template <typename T> __global__ void scale(const T* x, T* out, int n, T by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = SQUARE(x[i]) * by + factors[1];
}
__global__ void quads(const float4* x, float4* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n / 4) return;
    float4 v = x[i];
    float2 pair = make_float2(v.x, v.y);
    out[i].x += __expf(-fabsf(pair.x)) + __fdividef(pair.y, 3.0f);
    out[i].y += __logf(1.5f + v.y * v.y) + __saturatef(v.x);
    out[i].z += __fadd_rn(v.z, 0.1f) * __fsqrt_rn(2.0f) + __powf(1.3f, v.z);
    out[i].w += tanhf(v.w) + CUDART_PI_F + std::fmax(v.w, 0.3f) + __float2int_rz(v.w * 10.0f)
              + __int2float_rn(i) + fminf(v.x, INFINITY) + fmaxf(v.y, 0) + sqrtf(i) + powf(v.x, 2);
}
__global__ void add_up(const float* x, float* out, int n) {
    extern __shared__ float sums[];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += __ldg(x + i);
    for (int half = 16; half > 0; half /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, half);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    float part = threadIdx.x < blockDim.x / 32 ? sums[threadIdx.x] : 0.0f;
    float all = cg::reduce(warp, part, cg::plus<float>());
    if (threadIdx.x == 0) { atomicAdd(&total, all); out[0] = atomicExch(&total, 0.0f); }
}
void all_of_them(const float* x, float* out, int n) {
    const float values[2] = {3.0f, 0.7f};
    cudaMemcpyToSymbol(factors, values, sizeof values);
    float zero = 0.0f;
    cudaMemcpyToSymbol(total, &zero, sizeof zero);
    scale<float><<<(n + 127) / 128, 128>>>(x, out, n, 1.1f);
    quads<<<(n + 127) / 128, 128>>>((const float4*)x, (float4*)out, n);
    add_up<<<1, 256, 8 * sizeof(float)>>>(x, out, n);
}
"#;

/// A verdict, where equal bits on one device need not be equal on the other: both mean that nothing changed.
fn class(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Identical => Verdict::Equivalent,
        other => other,
    }
}

/// The fixtures of all demonstrations.
const DEMONSTRATIONS: [&str; 6] = [
    "step0",
    "step0-words",
    "fused_xent",
    "fused_xent-one",
    "lazy_attention",
    "lazy_attention-long",
];

/// Commits of a demonstration that differ in their sources, the oldest first.
fn variants(demo: &Demo) -> Vec<CommitId> {
    let head = demo.history.head().unwrap();
    let mut known = BTreeSet::new();
    let mut found: Vec<CommitId> = Vec::new();
    for commit in demo.history.range(&head.id.to_string()).unwrap() {
        let id = CommitId::from(&commit);
        let key = demo.history.source_key(&commit, &demo.spec);
        let testable = demo.history.source_set(id, &demo.spec).is_ok();
        if testable && key.is_ok_and(|key| known.insert(format!("{key:?}"))) {
            found.push(id);
        }
    }
    found.reverse();
    found
}

/// How long a replay on a GPU may take there: a commit whose threads wait for each other in vain
/// hangs, where the CPU says so at once.
const GPU_SECONDS: Duration = Duration::from_secs(10);

#[test]
#[ignore = "needs a GPU"]
fn every_commit_of_every_demonstration_has_the_same_verdict_on_a_gpu() {
    let cache = shared_cache();
    let mut wrong = Vec::new();
    for fixture in DEMONSTRATIONS {
        let demo = Demo::new(fixture, &cache);
        let variants = variants(&demo);
        let sources = |id: &CommitId| Arc::new(demo.history.source_set(*id, &demo.spec).unwrap());
        let on_cpu = remembering(&cache, Device::Cpu, MINUTE);
        let completes = |id: &&CommitId| {
            let trial = on_cpu.trial(&demo.subject, &sources(id));
            trial.outcome().unwrap().status == Status::Completed
        };
        let base = sources(variants.iter().find(completes).expect("some commit works"));
        let on_gpu = remembering(&cache, Device::Gpu, GPU_SECONDS);
        let verdicts = |lab: &Arc<Lab>, sources: &Arc<SourceSet>| {
            let trial = |sources| lab.trial(&demo.subject, sources);
            let judged = judge_trial(&trial(&base), &trial(sources)).unwrap();
            let outputs = judged.outputs.iter().map(|o| (o.name.clone(), class(o.story.verdict())));
            (class(judged.verdict), outputs.collect::<Vec<_>>())
        };
        let sources: Vec<Arc<SourceSet>> = variants.iter().map(sources).collect();
        let next = AtomicUsize::new(0);
        let found = Mutex::new(&mut wrong);
        let take = || {
            loop {
                let place = next.fetch_add(1, Ordering::Relaxed);
                let (Some(id), Some(sources)) = (variants.get(place), sources.get(place)) else {
                    break;
                };
                let cpu = verdicts(&on_cpu, sources);
                let gpu = verdicts(&on_gpu, sources);
                let line = format!("{fixture} {id}: cpu {cpu:?}, gpu {gpu:?}");
                eprintln!("{line}");
                if cpu != gpu {
                    found.lock().unwrap().push(line);
                }
            }
        };
        // Threads of their own: a judge may not be called by work that rayon schedules.
        std::thread::scope(|scope| {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            (0..threads).for_each(|_| drop(scope.spawn(take)));
        });
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
