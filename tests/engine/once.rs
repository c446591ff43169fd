//! What is compiled how often.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use replay::backend::CpuBackend;
use replay::cache::Cache;
use replay::frontend::Precision;
use replay::judge::{Verdict, check_orders, judge_trial, outcome_and_gradients};
use replay::trial::{Lab, Trial};

use super::project::{Machine, Project, cpu_in};
use crate::common::compiled::refuse_missing_gold;

/// A compiler that does what `CXX` or g++ does, and writes down with what words it was called.
fn writing_compiler(folder: &Path) -> String {
    let script = folder.join("compiler");
    let log = folder.join("log");
    let real = std::env::var("CXX").unwrap_or("g++".to_owned());
    let text = format!(
        "#!/bin/sh\n{}echo \"$@\" >> '{}'\nexec {real} \"$@\"\n",
        refuse_missing_gold(),
        log.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script.display().to_string()
}

/// The calls of the compiler but for the one that asks for its version: to precompile, compile, link.
fn calls(folder: &Path) -> [usize; 3] {
    let log = fs::read_to_string(folder.join("log")).unwrap();
    let count = |word: &str| log.lines().filter(|line| line.contains(word)).count();
    [count("c++-header"), count("-c unit.cpp"), count("-shared")]
}

fn project(text: &str) -> Project {
    let tables = "[inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                  [outputs.out]\ndtype = \"f32\"\nshape = [\"n\"]\n";
    Project::new(text, "x, out", tables, &[1.0, 2.0])
}

#[test]
fn many_variants_are_compiled_once_each_with_a_precompiled_header() {
    let folder = tempfile::tempdir().unwrap();
    let cpu = cpu_in(folder.path(), &writing_compiler(folder.path()), Machine::OPEN);
    cpu.toolchain().expect_many();
    for (number, include) in ["", "#include <cuda_runtime.h>\n"].into_iter().enumerate() {
        let text = format!(
            "// {number}\n{include}static void case_only(const float* x, float* out) {{ out[0] = x[0]; }}\n"
        );
        for precision in [Precision::Native, Precision::Shadow] {
            project(&text).compiled("only", &cpu, precision);
        }
    }
    // clang++ would not find a precompiled header there.
    let is_clang = cpu.toolchain().compiler().version().contains("clang");
    assert_eq!(calls(folder.path()), [if is_clang { 0 } else { 2 }, 4, 4]);
}

#[test]
fn a_compiler_works_in_a_folder_whose_name_is_no_text() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join(std::ffi::OsStr::from_bytes(b"no text: \xff\n$'"));
    let cpu = cpu_in(&place, "", Machine::PLAIN);
    let project = project("static void case_only(const float* x, float* out) { out[0] = x[0]; }\n");
    for fresh in [true, false] {
        assert_eq!(project.compiled("only", &cpu, Precision::Native).fresh, fresh);
    }
}

#[test]
fn what_two_threads_ask_for_at_a_time_is_compiled_once() {
    let folder = tempfile::tempdir().unwrap();
    let cpu = cpu_in(folder.path(), &writing_compiler(folder.path()), Machine::OPEN);
    let project = project("static void case_only(const float* x, float* out) { out[0] = x[0]; }\n");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| project.compiled("only", &cpu, Precision::Native));
        }
    });
    assert_eq!(calls(folder.path())[1], 1);
}

/// The square of every element, summed, with its gradient; the comment tells variants apart.
fn squares(comment: &str) -> Project {
    let tables = "[inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                  [outputs.loss]\ndtype = \"f32\"\nshape = []\n\
                  [outputs.dx]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                  gradient_of = \"x\"\nof = \"loss\"\n";
    let text = format!(
        "// {comment}\n__global__ void square(const float* x, float* loss, float* dx) {{\n\
         atomicAdd(loss, x[threadIdx.x] * x[threadIdx.x]);\n\
         dx[threadIdx.x] = 2 * x[threadIdx.x];\n}}\n\
         static void case_only(const float* x, float& loss, float* dx) {{\n\
         float* sum;\ncudaMalloc(&sum, 4);\ncudaMemset(sum, 0, 4);\n\
         square<<<1, 3>>>(x, sum, dx);\n\
         cudaMemcpy(&loss, sum, 4, cudaMemcpyDeviceToHost);\n}}\n"
    );
    Project::new(&text, "x, loss, dx", tables, &[1.0, 0.3, 0.7])
}

/// All that `replay FIXTURE` may ask of a trial.
fn ask_for_everything(trial: &Trial) {
    let (_, gradients) = outcome_and_gradients(trial).unwrap();
    assert_eq!(gradients.len(), 1, "{:?}", trial.outcome().unwrap());
    check_orders(trial).unwrap();
    assert_eq!(trial.noise().unwrap().len(), 2);
}

#[test]
fn a_trial_translates_its_sources_once_for_each_precision_that_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let cpu = cpu_in(folder.path(), "", Machine::PLAIN);
    let lab = |cpu: &CpuBackend, fresh| {
        let cache = Cache::open(&folder.path().join("cache")).unwrap();
        Lab::new(Arc::new(cpu.clone()), cache, fresh)
    };
    let one = squares("one");
    let other = squares("other");
    ask_for_everything(&one.trial("only", &lab(&cpu, false)));
    assert_eq!(cpu.toolchain().translations(), 2);
    ask_for_everything(&one.trial("only", &lab(&cpu, false)));
    ask_for_everything(&one.trial("only", &lab(&cpu, true)));
    assert_eq!(cpu.toolchain().translations(), 2);
    let lab = lab(&cpu, false);
    let base = one.trial("only", &lab);
    let got = other.trial("only", &lab);
    ask_for_everything(&got);
    // Outputs of the same bits need no shadow of the trusted side.
    judge_trial(&base, &got).unwrap();
    assert_eq!(cpu.toolchain().translations(), 4);
}

#[test]
fn a_judgement_of_a_replay_that_was_out_of_time_is_not_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let table = "[inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                 [outputs.out]\ndtype = \"f32\"\nshape = [\"n\"]\n";
    let sources = |sleep: &str| {
        let text = format!(
            "#include <unistd.h>\nstatic void case_only(const float* x, float* out) \
             {{ cudaMemcpy(out, x, 4, cudaMemcpyDeviceToDevice); {sleep} }}\n"
        );
        Project::new(&text, "x, out", table, &[1.0])
    };
    let fast = sources("");
    let slow = sources("usleep(1500000);");
    let verdict = |seconds| {
        let machine = Machine { timeout: Duration::from_secs(seconds), ..Machine::PLAIN };
        let cpu = cpu_in(folder.path(), "", machine);
        let lab =
            Lab::new(Arc::new(cpu), Cache::open(&folder.path().join("cache")).unwrap(), false);
        let trial = |project: &Project| project.trial("only", &lab);
        judge_trial(&trial(&fast), &trial(&slow)).unwrap().verdict
    };
    assert_eq!((verdict(1), verdict(60)), (Verdict::Failed, Verdict::Identical));
}
