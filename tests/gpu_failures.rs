//! What goes wrong on a GPU: kernels that err, sources that one compiler refuses, devices that are
//! missing or go. Each is an outcome, or an error with its reason.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::common::gpu_lab::*;
use replay::backend::ReplayError;
use replay::cache::Cache;
use replay::compile::DeviceToolchain;
use replay::cuda::{self, Nvrtc, SearchPath};
use replay::trial::{Failure, Lab, Status};
use replay::worker::WorkerError;

on_each_device! {
    a_launch_that_is_refused_is_refused_by_all_devices_alike,
    a_wild_write_ends_the_replay_and_names_the_kernel,
    a_write_just_past_an_allocation_is_found_on_all_devices,
    memory_that_nobody_wrote_is_found_on_all_devices,
    a_kernel_that_hangs_runs_out_of_time_and_the_device_works_afterwards,
    memory_beyond_the_device_is_out_of_memory,
    shared_memory_that_nobody_set_is_found_on_all_devices,
}

#[test]
#[ignore = "needs NVRTC"]
fn what_nvrtc_rejects_is_the_revision_s_fault_and_is_remembered() {
    let nvrtc = nvrtc();
    let (_folder, cache) = cache();
    let toolchain = DeviceToolchain::new(nvrtc, &search(), "sm_90", &cache);
    let source =
        "#include <stdlib.h>\n__global__ void k(int* out, int n) {\n  out[0] = rand();\n}\n";
    let small = Small::new(source, "k<<<1, 1>>>(out, n);");
    let compile =
        || toolchain.compile(&small.subject.fixture.harness, &small.sources, None).unwrap_err();
    for error in [compile(), compile()] {
        assert!(error.is_revision_fault());
        insta::allow_duplicates! { insta::assert_snapshot!(error, @r#"the device code does not compile: kernel.cu(3): error: identifier "rand" is undefined"#) }
    }
}

#[test]
fn the_lack_of_nvrtc_names_places_and_the_way_out() {
    let nowhere = SearchPath { libraries: vec!["/nowhere".into()], ..SearchPath::default() };
    if let Err(error) = Nvrtc::find(&nowhere) {
        let text = error.to_string();
        assert!(text.starts_with("no libnvrtc: looked in the default search path, /nowhere, "));
        assert!(error.hint().unwrap().contains("pip install nvidia-cuda-nvrtc"));
    }
}

#[test]
fn the_lack_of_a_device_is_an_error_with_a_hint() {
    match cuda::list_gpus() {
        Ok(devices) => {
            let error = cuda::find_gpu(devices.len()).unwrap_err();
            assert!(error.to_string().starts_with("no GPU"), "{error}");
        }
        Err(error) => assert!(error.hint().is_some(), "{error}"),
    }
}

fn a_launch_that_is_refused_is_refused_by_all_devices_alike(devices: Devices) {
    let source =
        "__global__ void k(int* out, int n) { if (threadIdx.x < n) out[threadIdx.x] = 1; }";
    for call in [
        "k<<<1, 1025>>>(out, n);",
        "k<<<0, 32>>>(out, n);",
        "k<<<1, dim3(1, 1, 65)>>>(out, n);",
        "k<<<1, 32, 50000>>>(out, n);",
    ] {
        for outcome in replay_on(devices, source, call, MINUTE) {
            let refused = failures(&outcome).iter().any(|failure| match failure {
                Failure::Launch { launch } => {
                    launch.error.as_deref().is_some_and(|e| e.contains("InvalidConfiguration"))
                }
                _ => false,
            });
            assert!(refused, "{}: {call}: {:?}", outcome.device, outcome.status);
        }
    }
}

fn a_wild_write_ends_the_replay_and_names_the_kernel(devices: Devices) {
    let source = "__global__ void wild(int* out) { out[(1LL << 36) + threadIdx.x] = 1; }";
    for outcome in replay_on(devices, source, "wild<<<1, 32>>>(out);", MINUTE) {
        let [Failure::Fault { fault }] = failures(&outcome) else {
            panic!("{}: {:?}", outcome.device, outcome.status);
        };
        assert_eq!(fault.what, "out-of-bounds access", "{}", outcome.device);
        assert_eq!(fault.kernel.as_deref(), Some("wild"), "{}", outcome.device);
    }
}

fn a_write_just_past_an_allocation_is_found_on_all_devices(devices: Devices) {
    let source = "__global__ void fill(int* out, int n) {\n\
                  for (int i = threadIdx.x; i < n; i += 32) out[i] = 1; }";
    let call = "int* s; cudaMalloc(&s, 40); fill<<<1, 32>>>(s, 12); fill<<<1, 32>>>(out, n);";
    for outcome in replay_on(devices, source, call, MINUTE) {
        let [Failure::Overrun { detail }] = failures(&outcome) else {
            panic!("{}: {:?}", outcome.device, outcome.status);
        };
        assert!(detail.ends_with("has 40 bytes, byte 40 was written"), "{detail}");
    }
}

fn memory_that_nobody_wrote_is_found_on_all_devices(devices: Devices) {
    let source = "__global__ void some(const int* x, int* out, int n) {\n\
                  for (int i = threadIdx.x; i < n / 2; i += 32) out[i] = x[i]; }\n\
                  __global__ void sum(int* out, int n) { out[0] += out[n - 1]; }";
    let call = "some<<<1, 32>>>(x, out, n); sum<<<1, 1>>>(out, n);";
    for outcome in replay_on(devices, source, call, MINUTE) {
        let kinds: Vec<&str> = failures(&outcome).iter().map(Failure::kind).collect();
        assert_eq!(kinds, ["unwritten", "depends on unwritten memory"], "{}", outcome.device);
    }
}

fn a_kernel_that_hangs_runs_out_of_time_and_the_device_works_afterwards(devices: Devices) {
    let source = "__global__ void hang(volatile int* out) { while (out[0] != 1) { } }\n\
                  __global__ void one(int* out, int n) {\n\
                  for (int i = threadIdx.x; i < n; i += 32) out[i] = 1; }";
    let cache = shared_cache();
    for &device in devices.all() {
        let hangs = Small::new(source, "hang<<<1, 1>>>(out);");
        let outcome = hangs.replay(&lab(&cache, device, Duration::from_secs(3)));
        let [Failure::Timeout { place: Some(place), .. }] = failures(&outcome) else {
            panic!("{}: {:?}", outcome.device, outcome.status);
        };
        assert_eq!(place.kernel.as_deref(), Some("hang"), "{}", outcome.device);
        let works = Small::new(source, "one<<<1, 32>>>(out, n);");
        checksum(&works.replay(&lab(&cache, device, MINUTE)));
    }
}

fn memory_beyond_the_device_is_out_of_memory(devices: Devices) {
    let source = "__global__ void one(int* out, int n) {\n\
                  for (int i = threadIdx.x; i < n; i += 32) out[i] = 1; }";
    let call = "void* s = nullptr; int e = cudaMalloc(&s, 1ull << 50);\n\
                if (e == cudaErrorMemoryAllocation) one<<<1, 32>>>(out, n);";
    for outcome in replay_on(devices, source, call, MINUTE) {
        checksum(&outcome);
    }
}

fn shared_memory_that_nobody_set_is_found_on_all_devices(devices: Devices) {
    let source = "__global__ void sum(const int* x, int* out, int n) {\n\
                  __shared__ int total; extern __shared__ int more[];\n\
                  for (int i = threadIdx.x; i < n; i += 32) atomicAdd(&total, x[i]);\n\
                  __syncthreads();\n\
                  for (int i = threadIdx.x; i < n; i += 32) out[i] = BOTH; }";
    for (what, both) in [("static", "total"), ("dynamic", "more[i % 100]")] {
        let source = source.replace("BOTH", both);
        for outcome in replay_on(devices, &source, "sum<<<1, 32, 400>>>(x, out, n);", MINUTE) {
            let kinds: Vec<&str> = failures(&outcome).iter().map(Failure::kind).collect();
            assert_eq!(kinds, ["depends on unwritten memory"], "{}, {what}", outcome.device);
        }
    }
}

/// A program that does `script` before or around replay's own child, which is `$REAL`.
struct Wrapped {
    _folder: tempfile::TempDir,
    program: PathBuf,
}

impl Wrapped {
    fn new(script: &str) -> Wrapped {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let text = format!("#!/bin/bash\nREAL='{}'\n{script}\n", program().display());
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        Wrapped { _folder: folder, program: path }
    }

    fn lab(&self, cache: &Cache, device: Device) -> Arc<Lab> {
        lab_of(cache, device, &self.program, MINUTE)
    }
}

const ONE: &str = "__global__ void one(int* out, int n) {\n\
                   for (int i = threadIdx.x; i < n; i += 32) out[i] = 1; }";

#[test]
#[ignore = "needs a GPU"]
fn a_device_that_is_gone_when_the_replay_begins_is_an_error_with_a_hint() {
    let cache = shared_cache();
    let gone = Wrapped::new("CUDA_VISIBLE_DEVICES= exec \"$REAL\" \"$@\"");
    let small = Small::new(ONE, "one<<<1, 32>>>(out, n);");
    let trial = gone.lab(&cache, Device::Gpu).trial(&small.subject, &small.sources);
    let error = trial.outcome().expect_err("there is no device");
    assert!(matches!(error, ReplayError::Worker(_)), "{error:?}");
    assert_eq!(
        error.to_string(),
        "the CUDA driver refuses to start: no CUDA-capable device is detected \
         (cudaErrorNoDevice)"
    );
    assert!(error.hint().is_some_and(|hint| hint.contains("nvidia-smi")));
    checksum(&small.replay(&lab(&cache, Device::Gpu, MINUTE)));
}

#[test]
#[ignore = "needs a GPU"]
fn a_worker_that_is_killed_while_its_kernel_runs_is_no_outcome_and_the_device_works_afterwards() {
    let cache = shared_cache();
    let killed = Wrapped::new(
        // The last of the line of processes is the one that has the device.
        "exec 9<&0\n\"$REAL\" \"$@\" <&9 &\nsleep 2; last=$!\n\
         while child=$(cut -d' ' -f1 /proc/$last/task/$last/children) && [ -n \"$child\" ]\n\
         do last=$child; done\n\
         kill -KILL $last; wait",
    );
    let source = "__global__ void hang(volatile int* out) { while (out[0] != 1) { } }";
    let hangs = Small::new(source, "hang<<<1, 1>>>(out);");
    let trial = killed.lab(&cache, Device::Gpu).trial(&hangs.subject, &hangs.sources);
    let error = trial.outcome().expect_err("somebody ended it");
    assert!(
        matches!(error, ReplayError::Worker(WorkerError::KilledFromOutside { signal: 9, .. })),
        "{error:?}"
    );
    let small = Small::new(ONE, "one<<<1, 32>>>(out, n);");
    checksum(&small.replay(&lab(&cache, Device::Gpu, MINUTE)));
}

#[test]
#[ignore = "needs a GPU"]
fn sources_that_one_compiler_rejects_are_untestable_with_its_reason() {
    let cache = shared_cache();
    // Some PTX is known to neither; what lies in the host's libraries is the host's, whose compiler takes it.
    let ptx = "__global__ void k(int* out) {\n\
               long long id; asm(\"mov.u64 %0, %%gridid;\" : \"=l\"(id)); out[0] = id; }";
    let host = "#include <stdlib.h>\n__global__ void k(int* out) { out[0] = rand(); }";
    // The host's compiler does not see what it is told to leave out.
    let nvrtc =
        "__global__ void k(int* out) {\n#ifdef __CUDACC_RTC__\n  out[0] = undeclared;\n#endif\n}";
    for (device, source, words) in [
        (Device::Cpu, ptx, "PTX (mov.u64)"),
        (Device::Gpu, ptx, "PTX (mov.u64)"),
        (Device::Gpu, host, "rand"),
        (Device::Gpu, nvrtc, "identifier \"undeclared\" is undefined"),
    ] {
        let small = Small::new(source, "k<<<1, 32>>>(out);");
        let outcome = small.replay(&lab(&cache, device, MINUTE));
        let Status::Untestable { reason, causes, .. } = &outcome.status else {
            panic!("{}: {:?}", outcome.device, outcome.status);
        };
        let told = format!("{reason} {}", causes.join(" "));
        assert!(told.contains(words), "{}: {told}", outcome.device);
    }
}
