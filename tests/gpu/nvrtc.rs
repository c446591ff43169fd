//! Kernels through NVRTC, which compiles without a GPU: `ci/test-nvrtc` runs these anywhere.

use std::collections::BTreeSet;
use std::path::Path;

use replay::cache::Cache;
use replay::compile::{Artifact, DeviceToolchain, Signature};
use replay::cuda::Module;
use replay::frontend::Precision;
use replay::harness::Harness;
use replay::history::{SourceSpec, source_set_from_dir};
use replay::process::walls::Sandbox;

use crate::common::gpu_lab::*;
use crate::gpu::{DEDUCED, Demo, HEADERS, NAMES, WIDENED};

/// Instances for numbers of each kind, for types and for a template.
const NUMBERS: &str = r#"
enum class Side { Left, Right };
template <typename T> struct Pair { T first, second; };
template <unsigned N, bool Up> __global__ void count(int* out) { out[0] += Up ? N : -int(N); }
template <long long N, unsigned long M> __global__ void wide(int* out) { out[1] += int(N + (long long)M); }
template <short N, char C> __global__ void narrow(int* out) { out[2] += N + C; }
template <Side S> __global__ void side(int* out) { out[3] += int(S); }
template <typename T> __global__ void pairs(T* out, int n) { if (n > 4) ((int*)out)[4] += sizeof(T); }
void all(const int* x, int* out, int n) {
    count<3u, true><<<1, 1>>>(out);
    count<7, false><<<1, 1>>>(out);
    wide<-5, 9ul><<<1, 1>>>(out);
    narrow<-2, 'a'><<<1, 1>>>(out);
    side<Side::Right><<<1, 1>>>(out);
    pairs<<<1, 1>>>((Pair<unsigned char>*)out, n);
    pairs<Pair<Pair<float>>><<<1, 1>>>((Pair<Pair<float>>*)out, n);
}
"#;

/// An instance that host code names, and device code refuses.
const UNLAUNCHED: &str = r#"
#ifdef __CUDACC_RTC__
#define FITS(T) static_assert(T, "not on a device");
#else
#define FITS(T)
#endif
template <bool Bad> __global__ void put(int* out) { FITS(!Bad) out[0] = 1; }
void all(const int* x, int* out, int n) {
    if (n > 1 << 20) put<true><<<1, 1>>>(out);
    else put<false><<<1, 1>>>(out);
}
"#;

fn compile_host(small: &Small, cache: &Cache) -> Artifact {
    let fixture = &small.subject.fixture;
    let signature = Signature::from_fixture(fixture);
    toolchain(cache)
        .compile(&fixture.harness, &signature, &small.sources, Precision::Native)
        .unwrap()
}

/// Commits of the demonstration: the suspect, the declared fixes, what came before and after.
const COMMITS: [&str; 7] =
    ["396b00e~1", "396b00e", "534c0b0", "61b3d97", "HEAD~3", "HEAD~1", "HEAD"];

#[test]
#[ignore = "needs NVRTC"]
fn every_demonstration_commit_compiles_for_a_gpu_and_every_launched_name_resolves() {
    let nvrtc = nvrtc();
    let cache = shared_cache();
    let demo = Demo::new("step0", &cache);
    let toolchain = DeviceToolchain::new(nvrtc, &search(), "sm_90", &cache);
    let cpu = lab(&cache, Device::Cpu, MINUTE);
    for revision in COMMITS {
        let sources = demo.sources(revision);
        let module = toolchain.compile(&demo.subject.fixture.harness, &sources, None);
        let module = module.unwrap_or_else(|error| panic!("{revision}: {error}"));
        let module = Module::decode(&std::fs::read(&module.path).unwrap()).unwrap();
        let trial = cpu.trial(&demo.subject, &sources.into());
        let outcome = trial.outcome().unwrap();
        let launched: BTreeSet<&str> =
            outcome.launches.iter().map(|launch| launch.kernel.as_str()).collect();
        for kernel in launched {
            assert!(module.kernel(kernel, None).is_some(), "{revision}: {kernel}");
        }
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn instances_of_templates_and_variables_are_compiled_once_they_are_asked_for() {
    let nvrtc = nvrtc();
    let (_folder, cache) = cache();
    let toolchain = DeviceToolchain::new(nvrtc, &search(), "sm_90", &cache);
    let small = Small::new(NAMES, "all_of_them(x, out, n);");
    let harness = &small.subject.fixture.harness;
    let read = |path: &Path| Module::decode(&std::fs::read(path).unwrap()).unwrap();

    let plain = toolchain.compile(harness, &small.sources, None).unwrap();
    let kernels = read(&plain.path);
    for name in ["plain::add", "flip", "reverse"] {
        assert!(kernels.kernel(name, None).is_some(), "{name} in {:?}", kernels.kernels());
    }
    assert_eq!(kernels.kernel("over", None), None, "an overload is ambiguous");
    assert_eq!(kernels.kernel("over", Some("_Z4overPi")).as_deref(), Some("_Z4overPi"));
    assert_eq!(kernels.kernel("weigh<2, int>", None), None);

    let more = toolchain.extend(&plain, "weigh<2, int>").unwrap();
    let more = toolchain.extend(&more, "raise<4>").unwrap();
    let more = toolchain.extend(&more, "&bias").unwrap();
    let kernels = read(&more.path);
    assert!(kernels.kernel("weigh<2, int>", None).is_some());
    assert!(kernels.kernel("raise<4>", None).is_some(), "a static template");
    assert!(kernels.names.contains_key("&bias"));
    // The next run begins with what this one learned.
    let again = toolchain.compile(harness, &small.sources, None).unwrap();
    assert_eq!((again.path, again.expressions), (more.path, more.expressions));
}

#[test]
#[ignore = "needs NVRTC"]
fn the_instances_in_host_code_are_compiled_at_once_by_the_names_of_their_launches() {
    let nvrtc = nvrtc();
    let (_folder, cache) = cache();
    let devices = DeviceToolchain::new(nvrtc, &search(), "sm_90", &cache);
    for source in [DEDUCED, NUMBERS] {
        let small = Small::new(source, "all(x, out, n);");
        let harness = &small.subject.fixture.harness;
        let host = compile_host(&small, &cache);
        let early = devices.compile_early(harness, &small.sources).unwrap();
        assert!(early.is_none(), "host code has yet to tell");
        let module = devices.compile(harness, &small.sources, Some(&host)).unwrap();
        // The next run knows them before there is host code.
        let early = devices.compile_early(harness, &small.sources).unwrap().unwrap();
        assert_eq!((early.path, &early.expressions), (module.path.clone(), &module.expressions));
        let outcome = small.replay(&lab(&cache, Device::Cpu, MINUTE));
        let launched: BTreeSet<String> =
            outcome.launches.iter().map(|launch| launch.kernel.clone()).collect();
        assert_eq!(module.expressions, launched);
        let built = Module::decode(&std::fs::read(&module.path).unwrap()).unwrap();
        for kernel in launched {
            assert!(built.kernel(&kernel, None).is_some(), "{kernel}");
        }
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn an_instance_that_does_not_compile_for_a_gpu_hurts_nobody_unless_it_is_launched() {
    let nvrtc = nvrtc();
    let (_folder, cache) = cache();
    let devices = DeviceToolchain::new(nvrtc, &search(), "sm_90", &cache);
    let small = Small::new(UNLAUNCHED, "all(x, out, n);");
    let host = compile_host(&small, &cache);
    let harness = &small.subject.fixture.harness;
    let module = devices.compile(harness, &small.sources, Some(&host)).unwrap();
    assert!(module.expressions.is_empty(), "{:?}", module.expressions);
    devices.extend(&module, "put<false>").unwrap();
}

#[test]
#[ignore = "needs NVRTC"]
fn a_deduced_instance_compiles_for_a_gpu_by_the_name_that_the_host_gives_it() {
    let nvrtc = nvrtc();
    let (_folder, cache) = cache();
    let toolchain = DeviceToolchain::new(nvrtc, &search(), "sm_90", &cache);
    let small = Small::new(DEDUCED, "all(x, out, n);");
    let outcome = small.replay(&lab(&cache, Device::Cpu, MINUTE));
    let mut module =
        toolchain.compile(&small.subject.fixture.harness, &small.sources, None).unwrap();
    for launch in &outcome.launches {
        module = toolchain.extend(&module, &launch.kernel).unwrap();
        let built = Module::decode(&std::fs::read(&module.path).unwrap()).unwrap();
        assert!(built.kernel(&launch.kernel, None).is_some(), "{}", launch.kernel);
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn the_options_of_a_harness_make_another_module() {
    const DIVIDES: &str = "__global__ void k(const float* x, float* out, int n) { int i = threadIdx.x; if (i < n) out[i] = sinf(x[i]) / x[i]; }\n\
                           void divide(const float* x, float* out, int n) { k<<<1, n>>>(x, out, n); }\n";
    let (_folder, cache) = cache();
    let toolchain = DeviceToolchain::new(nvrtc(), &search(), "sm_90", &cache);
    let small = Small::new(DIVIDES, "divide(x, out, n);");
    let compile = |options: &[&str]| {
        let mut harness = small.subject.fixture.harness.clone();
        harness.nvrtc_options = options.iter().map(|option| (*option).to_owned()).collect();
        let module = toolchain.compile(&harness, &small.sources, None).unwrap();
        std::fs::read(&module.path).unwrap()
    };
    let plain = compile(&[]);
    assert_ne!(compile(&["--use_fast_math"]), plain);
    assert_ne!(compile(&["--prec-div=false"]), plain);
    assert_eq!(compile(&[]), plain);
}

#[test]
#[ignore = "needs NVRTC"]
fn cuda_s_own_headers_are_found_beside_nvrtc() {
    let nvrtc = nvrtc();
    assert!(!search().header_folders(nvrtc.path()).is_empty(), "needs CUDA's headers");
    let (_folder, cache) = cache();
    let toolchain = DeviceToolchain::new(nvrtc, &search(), "sm_90", &cache);
    let small = Small::new(HEADERS, "all_of_them(x, out, n);");
    let module = toolchain.compile(&small.subject.fixture.harness, &small.sources, None).unwrap();
    toolchain.extend(&module, "narrow<__nv_bfloat16>").unwrap();
}

#[test]
#[ignore = "needs NVRTC"]
fn device_code_includes_nothing_of_the_user() {
    let nvrtc = nvrtc();
    let (folder, cache) = cache();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "class SECRET;\n").unwrap();
    let toolchain = DeviceToolchain::new(nvrtc, &search(), "sm_90", &cache);
    let open_toolchain = toolchain.clone().with_sandbox(Sandbox::Off);
    for line in [
        format!("#include {secret:?}"),
        format!("#if !__has_include({secret:?})\n#error no such file\n#endif"),
        "#if !__has_include(\"/proc/self/environ\")\n#error no such file\n#endif".to_owned(),
    ] {
        let source = format!("{line}\n__global__ void k(int* out, int n) {{ out[0] = n; }}\n");
        let small = Small::new(&source, "k<<<1, 1>>>(out, n);");
        let compile = |toolchain: &DeviceToolchain| {
            toolchain.compile(&small.subject.fixture.harness, &small.sources, None)
        };
        let refused = compile(&toolchain).unwrap_err();
        assert!(
            refused.is_revision_fault() && !refused.to_string().contains("SECRET"),
            "{refused}"
        );
        compile(&open_toolchain).unwrap_or_else(|error| panic!("{line}: {error}"));
        if line.starts_with("#include") {
            let hint = refused.hint().unwrap_or_default();
            assert!(hint.starts_with("the sandbox lets compilers read"), "{refused}: {hint}");
        }
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn the_kernels_of_public_repositories_compile_for_a_gpu() {
    let nvrtc = nvrtc();
    let cache = shared_cache();
    let toolchain = DeviceToolchain::new(nvrtc, &search(), "sm_90", &cache);
    let folder = root().join("tests/engine/shipped");
    let files = folder.read_dir().unwrap().flatten().map(|entry| entry.file_name());
    let names = files.map(|name| name.into_string().unwrap());
    for name in names.filter(|name| name.ends_with(".cu")) {
        let text = format!(
            "sources = [{name:?}]\ninclude = [\"common.cuh\"]\ncall = \"f();\"\n\
             [outputs.out]\ndtype = \"f32\"\nshape = []\n"
        );
        let harness = Harness::parse(&text, &folder.join("replay.toml")).unwrap();
        let sources = harness.sources.clone();
        let include = harness.include.clone();
        let spec = SourceSpec { sources, include, ..SourceSpec::default() };
        let sources = source_set_from_dir(&folder, &spec).unwrap();
        let module = toolchain.compile(&harness, &sources, None);
        assert!(module.is_ok(), "{name}: {}", module.unwrap_err());
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn the_kernels_of_pytorch_s_extensions_compile_for_a_gpu() {
    let nvrtc = nvrtc();
    let cache = shared_cache();
    let toolchain = DeviceToolchain::new(nvrtc, &search(), "sm_90", &cache);
    let folder = root().join("tests/engine/public");
    for name in
        ["extension", "tensor_activation", "tensor_layer_norm", "tensor_splat", "tensor_sums"]
    {
        let text = format!(
            "sources = [{name:?}]\ncall = \"f();\"\n[outputs.out]\ndtype = \"f32\"\nshape = []\n"
        );
        let harness = Harness::parse(&text, &folder.join("replay.toml")).unwrap();
        let spec = SourceSpec { sources: harness.sources.clone(), ..SourceSpec::default() };
        let sources = source_set_from_dir(&folder, &spec).unwrap();
        let module = toolchain.compile(&harness, &sources, None);
        assert!(module.is_ok(), "{name}: {}", module.unwrap_err());
    }
}

/// What PyTorch's headers bring along, and a kernel that asks for the version of CUDA.
const BROUGHT_ALONG: &str = "\
#include <ATen/ATen.h>
template <int N> struct Sizes {
    static constexpr int most = std::max({N, 4, int(sizeof(double))}) + std::min({N, 2});
};
__global__ void brought_along(const int* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#if CUDA_VERSION >= 9000
    int neighbour = __shfl_xor_sync(0xffffffff, x[i % n], 1);
#else
    int neighbour = __shfl_xor(x[i % n], 1);
#endif
    typedef typename std::aligned_storage<4 * sizeof(float), 16>::type Pack;
    if (i < n) out[i] = neighbour + Sizes<16>::most + alignof(Pack);
}
template <class T> struct RowOffset {
    static inline __host__ __device__ int get(int row, const at::cuda::detail::TensorInfo<T, int>& info) {
        return row * info.strides[0];
    }
};
__global__ void of_rows(at::cuda::detail::TensorInfo<float, int> info, float* out) {
    out[0] = info.data[RowOffset<float>::get(1, info)];
}
void all(const int* x, float* out, int n) { brought_along<<<(n + 255) / 256, 256>>>(x, out, n); }
";

#[test]
#[ignore = "needs NVRTC"]
fn what_pytorch_s_headers_bring_along_is_there_on_a_gpu() {
    let nvrtc = nvrtc();
    let cache = shared_cache();
    let toolchain = DeviceToolchain::new(nvrtc, &search(), "sm_90", &cache);
    let small = Small::new(BROUGHT_ALONG, "all(x, out, n);");
    let module = toolchain.compile(&small.subject.fixture.harness, &small.sources, None);
    assert!(module.is_ok(), "{}", module.unwrap_err());
}

/// A header of CUB's, and an operator that CUB 3 has no more.
const OPERATORS: &str = "\
#include <cub/block/block_reduce.cuh>
__global__ void most(const int* x, float* out, int n) {
    __shared__ typename cub::BlockReduce<int, 128>::TempStorage temp;
    int largest = cub::BlockReduce<int, 128>(temp).Reduce(x[threadIdx.x], cub::Max());
    if (threadIdx.x == 0) out[0] = largest;
}
void all(const int* x, float* out, int n) { most<<<1, 128>>>(x, out, n); }
";

/// Half behind a header of the standard library.
const HALF_BEHIND_ALGORITHM: &str = "\
#include <algorithm>
#include <utility>
#include <cuda_fp16.h>
__global__ void of_half(const int* x, float* out, int n) {
    int first = x[0], last = x[n - 1];
    std::swap(first, last);
    __half2 pair = __halves2half2(__float2half(first), __float2half(last));
    pair = std::move(pair);
    out[0] = std::max(__low2float(pair), __high2float(pair));
}
void all(const int* x, float* out, int n) { of_half<<<1, 1>>>(x, out, n); }
";

#[test]
#[ignore = "needs NVRTC"]
fn half_stands_behind_headers_of_the_standard_library() {
    let nvrtc = nvrtc();
    let cache = shared_cache();
    let toolchain = DeviceToolchain::new(nvrtc, &search(), "sm_90", &cache);
    let small = Small::new(HALF_BEHIND_ALGORITHM, "all(x, out, n);");
    let module = toolchain.compile(&small.subject.fixture.harness, &small.sources, None);
    assert!(module.is_ok(), "{}", module.unwrap_err());
}

#[test]
#[ignore = "needs NVRTC"]
fn a_header_of_cub_brings_the_operators_that_cub_3_has_no_more() {
    let nvrtc = nvrtc();
    let cache = shared_cache();
    let toolchain = DeviceToolchain::new(nvrtc, &search(), "sm_90", &cache);
    let small = Small::new(OPERATORS, "all(x, out, n);");
    let module = toolchain.compile(&small.subject.fixture.harness, &small.sources, None);
    assert!(module.is_ok(), "{}", module.unwrap_err());
}

#[test]
#[ignore = "needs NVRTC"]
fn kernels_that_include_all_of_cub_or_wait_for_their_grid_compile_for_a_gpu() {
    let nvrtc = nvrtc();
    let cache = shared_cache();
    let toolchain = DeviceToolchain::new(nvrtc, &search(), "sm_90", &cache);
    let folder = root().join("tests/engine/public");
    // Without those of cuRAND, whose headers are in none of the packages that CI installs.
    let text = "sources = [\"libraries/a_cub.cu\", \"libraries/d_vectors.cu\", \"libraries/e_barriers.cu\", \"libraries/f_selection.cu\", \
                \"libraries/g_groups.cu\", \"blas\", \"grid\", \"clusters\"]\n\
                call = \"f();\"\n[outputs.out]\ndtype = \"f32\"\nshape = []\n";
    let harness = Harness::parse(text, &folder.join("replay.toml")).unwrap();
    let spec = SourceSpec { sources: harness.sources.clone(), ..SourceSpec::default() };
    let sources = source_set_from_dir(&folder, &spec).unwrap();
    let module =
        toolchain.compile(&harness, &sources, None).unwrap_or_else(|error| panic!("{error}"));
    for instance in ["block_statistics<256>", "add_rank<float, 32>"] {
        toolchain.extend(&module, instance).unwrap();
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn shadows_compile_for_a_gpu_by_the_names_that_native_launches_have() {
    let nvrtc = nvrtc();
    let cache = shared_cache();
    let toolchain = DeviceToolchain::new(nvrtc, &search(), "sm_90", &cache);
    let read = |path: &Path| Module::decode(&std::fs::read(path).unwrap()).unwrap();
    let demo = Demo::new("step0", &cache);
    for revision in COMMITS {
        let shadow =
            toolchain.compile_shadow(&demo.subject.fixture.harness, &demo.sources(revision), None);
        let shadow = shadow.unwrap().unwrap_or_else(|why| panic!("{revision}: {why}"));
        let kernels = read(&shadow.path).kernels().join(" ");
        assert!(kernels.contains("PKd") && !kernels.contains("PKf"), "{revision}: {kernels}");
    }
    let small = Small::floats(WIDENED, "all_of_them(x, out, n);");
    let shadow =
        toolchain.compile_shadow(&small.subject.fixture.harness, &small.sources, None).unwrap();
    let shadow = toolchain.extend(&shadow.unwrap(), "scale<float>").unwrap();
    let symbol = read(&shadow.path).kernel("scale<float>", None);
    assert_eq!(symbol.as_deref(), Some("_Z5scaleIdEvPKT_PS0_iS0_"));
    let narrow = Small::new(HEADERS, "all_of_them(x, out, n);");
    let refused = toolchain.compile_shadow(&narrow.subject.fixture.harness, &narrow.sources, None);
    assert_eq!(refused.unwrap().unwrap_err(), "kernel.cu has cuda_fp16.h");
}
