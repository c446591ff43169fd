//! Pointers that stray from an allocation by much, and code with more allocations than a process has mappings.

use std::fmt::Write;
use std::sync::LazyLock;

use replay::backend::Mode;
use replay::frontend::Precision;
use replay::runtime::report::FoundKind;
use replay::summary::POISON_A;
use replay::worker::{Ending, Run};

use super::project::{Machine, Project, elements};

const MIB: i64 = 1 << 20;

/// How far the first byte of an access lies behind the begin of the output.
const DISTANCES: [i64; 7] =
    [MIB, 4 * MIB, 5 * MIB + 12, 16 * MIB, 64 * MIB, 1 << 30, (4 << 30) - 4];

/// The name of a case, and how far its access lies from the begin of `memory`.
fn cases() -> Vec<(String, i64, &'static str)> {
    let mut cases = Vec::new();
    for (direction, sign) in [("past", 1), ("before", -1)] {
        for distance in DISTANCES {
            for kind in ["writes", "reads", "shared"] {
                let name = format!("{kind}_{direction}_{distance}");
                cases.push((name, sign * distance, kind));
            }
        }
    }
    cases
}

static STRAYS: LazyLock<Project> = LazyLock::new(|| {
    let mut text = "#include <cuda_runtime.h>\n\
        __global__ void writes(float* out, long by) { out[by] = 1; }\n\
        __global__ void reads(float* out, long by) { out[0] = out[by]; }\n\
        __global__ void shared(float* out, long by) { __shared__ float s[8]; s[by] = 1; out[0] = s[by]; }\n"
        .to_owned();
    for (name, by, kernel) in cases() {
        let by = by / 4;
        let _ = writeln!(
            text,
            "static void case_{name}(const float*, float* out) {{ {kernel}<<<1, 1>>>(out, {by}L); }}"
        );
    }
    let tables = "[inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                  [outputs.out]\ndtype = \"f32\"\nshape = [\"n\"]\n";
    Project::new(&text, "x, out", tables, &[1.0; 10])
});

fn run_as(project: &Project, precision: Precision, case: &str) -> Run {
    project.run_as(precision, case, &Mode::plain(POISON_A), Machine::PLAIN)
}

#[test]
fn an_access_is_out_of_bounds_however_far_it_lies_from_every_allocation() {
    let mut wrong = Vec::new();
    for (name, by, kind) in cases() {
        let detail = match (kind, by > 0) {
            ("shared", true) => "past the end of dynamic shared memory".to_owned(),
            ("shared", false) => "before the begin of shared memory".to_owned(),
            (_, true) => format!("{} bytes past the end of out (40 bytes)", by - 40),
            (_, false) => format!("{} bytes before out (40 bytes)", -by),
        };
        for precision in [Precision::Native, Precision::Checked] {
            let run = run_as(&STRAYS, precision, &name);
            let is_told = matches!(
                &run.ending,
                Ending::Fault(fault) if fault.what == "out-of-bounds access" && fault.detail == detail
            );
            if !is_told {
                wrong.push(format!("{name}, {precision:?}: {:?}, not {detail}", run.ending));
            }
        }
    }
    assert_eq!(wrong.join("\n"), "");
}

static MANY: LazyLock<Project> = LazyLock::new(|| {
    let text = r"#include <cuda_runtime.h>
__global__ void add(float* out, const float* a, const float* b) { out[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x]; }
__global__ void touch(float* s, long by, bool writes) {
  if (writes) s[by] = 1;
  else s[0] = s[by];
}
static float* all[100000];
static void keep(int count, float* out) {
  for (int i = 0; i < count; ++i) {
    if (cudaMalloc(&all[i], 40) != cudaSuccess) return;
    cudaMemset(all[i], 0, 40);
  }
  add<<<1, 10>>>(out, all[0], all[count - 1]);
}
static void case_keeps_32767(const float*, float* out) { keep(32767, out); }
static void case_keeps_100000(const float*, float* out) { keep(100000, out); }
static void case_frees_and_keeps(const float*, float* out) {
  keep(20000, out);
  for (int i = 19999; i >= 0; --i) {
    if (cudaFree(all[i]) != cudaSuccess) return;
  }
  keep(20000, out);
}
static void case_keeps_large_ones(const float*, float* out) {
  for (int i = 0; i < 6000; ++i) {
    if (cudaMalloc(&all[i], 100000) != cudaSuccess) return;
  }
  cudaMemset(all[5999], 0, 40);
  add<<<1, 10>>>(out, all[5999], all[5999]);
}
static void case_writes_past_one_of_many(const float*, float* out) {
  keep(20000, out);
  touch<<<1, 1>>>(all[10000], 10, true);
}
static void case_writes_before_one_of_many(const float*, float* out) {
  keep(20000, out);
  touch<<<1, 1>>>(all[10000], -3, true);
  cudaFree(all[10000]);
}
static void case_reads_past_one_of_many(const float*, float* out) {
  keep(20000, out);
  touch<<<1, 1>>>(all[10000], 200, false);
}
";
    let tables = "[inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                  [outputs.out]\ndtype = \"f32\"\nshape = [\"n\"]\n";
    Project::new(text, "x, out", tables, &[1.0; 10])
});

#[test]
fn code_may_keep_more_small_allocations_than_a_process_has_mappings() {
    for (case, precision) in [
        ("keeps_32767", Precision::Native),
        ("keeps_100000", Precision::Native),
        ("keeps_100000", Precision::Checked),
        ("frees_and_keeps", Precision::Native),
        ("frees_and_keeps", Precision::Checked),
        ("keeps_large_ones", Precision::Native),
    ] {
        let run = run_as(&MANY, precision, case);
        assert_eq!(run.ending, Ending::Completed, "{case}, {precision:?}");
        assert_eq!(elements(&run, "out", 10), [0.0; 10], "{case}, {precision:?}");
        assert!(run.findings.found.is_empty() && run.overruns.is_empty(), "{case}");
    }
}

#[test]
fn accesses_beside_one_of_many_small_allocations_are_found() {
    let told = |case| MANY.failures(case, Machine::PLAIN);
    insta::assert_snapshot!(told("writes_past_one_of_many"), @"overrun: cudaMalloc at src/cases.cu:10 has 40 bytes, byte 40 was written");
    insta::assert_snapshot!(told("writes_before_one_of_many"), @"overrun: cudaMalloc at src/cases.cu:10 has 40 bytes, a byte 12 before its begin was written");
    let found = run_as(&MANY, Precision::Checked, "reads_past_one_of_many").findings.found;
    let [found] = &found[..] else { panic!("{found:?}") };
    assert_eq!((found.kind, found.offset), (FoundKind::OutOfBounds, 800));
}
