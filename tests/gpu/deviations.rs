//! What directed rounding moves on a GPU, beside what it moves on the CPU.

use std::sync::Arc;

use replay::backend::{Ability, Backend, Mode, Variant};
use replay::frontend::Precision;
use replay::runtime::cpu::Rounding;
use replay::summary::POISON_A;

use crate::common::gpu_lab::*;

/// How many times as far an element must move in one direction as in another to jump.
const JUMP: f64 = 1024.0;

/// The source on the CPU and on the device.
fn both(small: &Small) -> (Arc<dyn Variant>, Arc<dyn Variant>) {
    let cache = shared_cache();
    let machine = cpu(&cache, &program(), MINUTE);
    let gpu = cuda(&cache, machine.clone()).with_evidence_from(0);
    let prepare = |backend: &dyn Backend| {
        let fixture = &small.subject.fixture;
        backend.prepare(fixture, &small.sources, Precision::Native, &|| ()).unwrap()
    };
    (prepare(&machine), prepare(&gpu))
}

/// How far each element of `out` moves on the CPU.
fn on_cpu(variant: &dyn Variant) -> Vec<f64> {
    let run = |rounding| variant.run(&Mode { rounding, ..Mode::plain(POISON_A) }).unwrap();
    let plain = run(Rounding::Nearest);
    let plain = plain.output("out").unwrap();
    let moved = [Rounding::Down, Rounding::Up, Rounding::TowardZero].map(run);
    let far = |at: usize| {
        let apart = moved
            .iter()
            .map(|run| (run.output("out").unwrap().get_f64(at) - plain.get_f64(at)).abs());
        apart.fold(0.0, f64::max)
    };
    (0..plain.len()).map(far).collect()
}

/// The same on the device.
fn on_gpu(variant: &dyn Variant) -> Vec<f64> {
    assert!(variant.can(Ability::Deviations));
    let run = variant.deviations(JUMP).unwrap().expect("the device measures it");
    let view = run.output("out").unwrap();
    (0..view.len()).map(|at| view.get_f64(at)).collect()
}

#[test]
#[ignore = "needs a GPU"]
fn arithmetic_rounds_on_a_gpu_as_on_the_cpu() {
    let source = "__global__ void f(const float* x, float* out, int n) {\n\
                  int i = blockIdx.x * 100 + threadIdx.x;\n\
                  double wide = (double)x[i] / 3.0;\n\
                  float y = sqrtf(fabsf(x[i])) / 7.0f;\n\
                  y = fmaf(y, x[i], (float)wide);\n\
                  out[i] = 1.0f / __fadd_rn(__fmul_rn(y, y), (float)(n * 16777259)); }";
    let small = Small::floats(source, "f<<<10, 100>>>(x, out, n);");
    let (host, device) = both(&small);
    let expected = on_cpu(&*host);
    let found = on_gpu(&*device);
    assert!(expected.iter().filter(|&&x| x > 0.0).count() > 900, "{expected:?}");
    assert_eq!(found.iter().map(|x| x.abs()).collect::<Vec<f64>>(), expected);
}

#[test]
#[ignore = "needs a GPU"]
fn additions_to_memory_round_on_a_gpu_as_on_the_cpu() {
    // One thread adds to each element, so that there is one order.
    let source = "__global__ void f(const float* x, float* out, int n) {\n\
                  __shared__ float sum[100]; sum[threadIdx.x] = 0.0f;\n\
                  int i = blockIdx.x * 100 + threadIdx.x; out[i] = 0.1f;\n\
                  if (threadIdx.x % 2) for (int k = 0; k < 9; ++k) atomicAdd(&sum[threadIdx.x], x[i]);\n\
                  float old = atomicAdd(out + i, sum[threadIdx.x]);\n\
                  atomicAdd(out + i, old + x[i]); }";
    let small = Small::floats(source, "f<<<10, 100>>>(x, out, n);");
    let (host, device) = both(&small);
    let expected = on_cpu(&*host);
    let found = on_gpu(&*device);
    assert!(expected.iter().filter(|&&x| x > 0.0).count() > 400, "{expected:?}");
    assert_eq!(found.iter().map(|x| x.abs()).collect::<Vec<f64>>(), expected);
}

#[test]
#[ignore = "needs a GPU"]
fn approximations_move_by_a_unit_and_ties_jump() {
    let source = "__global__ void f(const float* x, float* out, int n) {\n\
                  int i = blockIdx.x * 100 + threadIdx.x;\n\
                  out[i] = i == 0 ? rintf(__fmul_rn(x[i] + 0.5f, 1.0f) + 1e-9f) * 1e3f\n\
                  : __cosf(x[i]); }";
    let small = Small::floats(source, "f<<<10, 100>>>(x, out, n);");
    let (_, device) = both(&small);
    let found = on_gpu(&*device);
    assert!(found[0] == -1e3, "{}", found[0]);
    let moved = found[1..].iter().filter(|&&x| x > 0.0 && x < 1e-6).count();
    assert!(moved > 980, "{found:?}");
}

#[test]
#[ignore = "needs a GPU"]
fn what_cannot_be_told_on_a_gpu_is_left_to_the_cpu() {
    let halves = "#include <cuda_fp16.h>\n\
                  __global__ void f(const float* x, float* out, int n) {\n\
                  int i = blockIdx.x * 100 + threadIdx.x;\n\
                  out[i] = __half2float(__hadd(__float2half(x[i]), __float2half(0.1f))); }";
    assert!(!both(&Small::floats(halves, "f<<<10, 100>>>(x, out, n);")).1.can(Ability::Deviations));
    let counts = "__device__ float calls;\n\
                  __global__ void f(const float* x, float* out, int n) {\n\
                  if (blockIdx.x + threadIdx.x == 0) calls += 1.0f;\n\
                  out[blockIdx.x * 100 + threadIdx.x] = 1.0f; }\n\
                  __global__ void g(const float* x, float* out, int n) {\n\
                  int i = blockIdx.x * 100 + threadIdx.x; out[i] = x[i] / 3.0f + calls; }";
    let call = "f<<<10, 100>>>(x, out, n); g<<<10, 100>>>(x, out, n);";
    let small = Small::floats(counts, call);
    let (_, device) = both(&small);
    assert!(device.can(Ability::Deviations));
    assert!(device.deviations(JUMP).unwrap().is_none());
    assert!(!device.can(Ability::Deviations));
}
