//! Kernels in thread-loop form against the same kernels with a stack for each thread.

use std::sync::LazyLock;

use replay::frontend::{
    KernelForm, Precision, SourceUnit, Threads, scan_symbols, translate_for_host,
};
use replay::runtime::cpu::Rounding;
use replay::worker::{Ending, Run};

use super::project::{Machine, Project, elements};
use super::{FAULTS, VALUES, failures};

/// The cases of `text`, each with the outputs `out` and `real`.
pub(super) fn open_cases(text: &str) -> Project {
    let tables = "[outputs.out]\ndtype = \"i64\"\nshape = [4096]\n\
                  [outputs.real]\ndtype = \"f32\"\nshape = [4096]\n";
    Project::new(text, "(long long*)out, real", tables, &[])
}

static BLOCKS: LazyLock<Project> = LazyLock::new(|| open_cases(include_str!("blocks.cu")));

static FOLDS: LazyLock<Project> = LazyLock::new(|| open_cases(include_str!("folds.cu")));

static TURNS: LazyLock<Project> = LazyLock::new(|| open_cases(include_str!("turns.cu")));

static REGIONS: LazyLock<Project> = LazyLock::new(|| open_cases(include_str!("regions.cu")));

static INLINED: LazyLock<Project> = LazyLock::new(|| open_cases(include_str!("inlined.cu")));

static ODD: LazyLock<Project> = LazyLock::new(|| open_cases(include_str!("inlined_odd.cu")));

static YIELDS: LazyLock<Project> = LazyLock::new(|| open_cases(include_str!("yields.cu")));

/// The kernels of `text` and why each keeps stacks, if it does.
pub(super) fn forms(text: &str) -> Vec<(String, Option<String>)> {
    let unit = SourceUnit { path: "cases.cu", text };
    let made = translate_for_host(&unit, &scan_symbols(&[unit]), Precision::Native, Threads::Lanes)
        .unwrap();
    let why = |form: &KernelForm| form.why_stacks().map(ToString::to_string);
    made.kernel_forms.iter().map(|form| (form.kernel.clone(), why(form))).collect()
}

/// All that a run shows: the bits of every output, what was printed and how it ended.
fn shown(run: &Run) -> String {
    let bits = |name| run.output(name).map(|_| elements(run, name, 4096));
    let bits = |name| bits(name).map(|all| all.into_iter().map(f64::to_bits).collect::<Vec<_>>());
    format!("{:?} {:?} {} {:?}", bits("out"), bits("real"), run.printed, run.ending)
}

/// Asserts that every case of `project` shows the same as with stacks, in four orders and roundings.
pub(super) fn assert_same_as_with_stacks(project: &Project) {
    for case in project.cases() {
        for (order, rounding) in [
            (0, Rounding::Nearest),
            (1, Rounding::Up),
            (2, Rounding::Down),
            (3, Rounding::TowardZero),
        ] {
            let machine = Machine { order, rounding, ..Machine::PLAIN };
            let stacks = project.run(case, Machine { form: Threads::Stacks, ..machine });
            let other = project.run(case, machine);
            assert_eq!(stacks.ending, Ending::Completed, "{case}");
            assert_eq!(shown(&other), shown(&stacks), "{case}, order {order}");
        }
    }
}

#[test]
fn every_kernel_of_the_cases_takes_thread_loop() {
    let refused: Vec<_> =
        forms(include_str!("blocks.cu")).into_iter().filter(|form| form.1.is_some()).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn every_kernel_that_waits_for_lanes_at_statements_takes_turns() {
    let unit = SourceUnit { path: "cases.cu", text: include_str!("turns.cu") };
    let made =
        translate_for_host(&unit, &scan_symbols(&[unit]), Precision::Native, Threads::Blocks)
            .unwrap();
    let refused: Vec<_> =
        made.kernel_forms.iter().filter(|form| form.why_stacks().is_some()).collect();
    assert!(refused.is_empty(), "{refused:?}");
    assert_eq!(made.text.matches("::replay_rt::block_turns<").count(), made.kernels.len());
}

#[test]
fn turns_are_those_of_threads_with_stacks() {
    assert_same_as_with_stacks(&TURNS);
}

#[test]
fn threads_in_turn_that_let_others_run_have_the_turns_and_bits_of_stacks() {
    let unit = SourceUnit { path: "cases.cu", text: include_str!("yields.cu") };
    let made =
        translate_for_host(&unit, &scan_symbols(&[unit]), Precision::Native, Threads::Blocks)
            .unwrap();
    let loops = ["threads_in_turn<false, true>", "threads_in_turn<true, true>"];
    let count: usize = loops.iter().map(|of| made.text.matches(of).count()).sum();
    assert_eq!(count, made.kernels.len());
    assert_same_as_with_stacks(&YIELDS);
}

#[test]
fn kernels_are_cut_at_their_waits_unless_the_order_of_threads_shows() {
    let unit = SourceUnit { path: "cases.cu", text: include_str!("regions.cu") };
    let made =
        translate_for_host(&unit, &scan_symbols(&[unit]), Precision::Native, Threads::Blocks)
            .unwrap();
    let kernels = made.text.split("__global__").skip(1);
    let cut: Vec<&str> = kernels
        .filter(|kernel| kernel.contains("struct replay_arrays_t"))
        .filter_map(|kernel| kernel.split_once("void ")?.1.split('(').next())
        .collect();
    assert_eq!(
        cut,
        [
            "norm_kernel",
            "branch_kernel",
            "agreeing_kernel",
            "leaving_kernel",
            "rows_kernel",
            "lanes_kernel",
            "scan_kernel",
            "welford_kernel"
        ]
    );
}

#[test]
fn regions_have_the_turns_and_bits_of_stacks() {
    assert_same_as_with_stacks(&REGIONS);
}

#[test]
fn functions_that_wait_are_put_into_their_kernels() {
    let made = forms(include_str!("inlined.cu"));
    let refused: Vec<_> = made.into_iter().filter(|form| form.1.is_some()).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn functions_in_kernels_and_threads_in_turn_have_the_turns_and_bits_of_stacks() {
    assert_same_as_with_stacks(&INLINED);
}

#[test]
fn a_call_of_a_function_that_waits_changes_no_value_wherever_it_stands() {
    assert_same_as_with_stacks(&ODD);
}

#[test]
fn thread_loop_changes_no_bit_in_any_order() {
    for (project, orders) in [(&*BLOCKS, 0..4), (&*VALUES, 0..2)] {
        for case in project.cases().iter().filter(|case| *case != "many_launches") {
            for order in orders.clone() {
                let machine = Machine { order, ..Machine::PLAIN };
                let stacks = project.run(case, Machine { order, ..Machine::STACKS });
                let blocks = project.run(case, machine);
                assert_eq!(shown(&blocks), shown(&stacks), "{case}, order {order}");
            }
        }
    }
}

#[test]
fn chains_of_shuffles_as_one_wait_change_no_bit_and_no_turn() {
    assert_same_as_with_stacks(&FOLDS);
}

#[test]
#[ignore = "needs clang++"]
fn clang_gives_thread_loop_the_same_bits() {
    for case in BLOCKS.cases() {
        let expected = shown(&BLOCKS.run(case, Machine::STACKS));
        let got = BLOCKS.run_compiled("clang++", case, Machine::PLAIN);
        assert_eq!(shown(&got), expected, "{case}");
    }
}

#[test]
fn values_in_thread_loop_are_those_of_the_source() {
    let run = |case| BLOCKS.run(case, Machine::PLAIN);
    let expected = |t: i64| {
        let passed = (t + 5) * 10_000_000;
        let wide = (7 * 3 + t + 11) * 1_000_000_000;
        t + 1000 * (1 + 2 * (63 - t)) + 100_000 + passed + wide + t
    };
    let out: Vec<i64> =
        elements(&run("variables"), "out", 64).into_iter().map(|value| value as i64).collect();
    assert_eq!(out, (0..64).map(expected).collect::<Vec<_>>());
    let leavers = elements(&run("leavers"), "out", 64);
    assert_eq!(leavers[..16], [64.0; 16], "64 threads have come once");
    assert_eq!(leavers[63], f64::from(16 * (1 + 2 + 3 + 4)));
}

#[test]
fn faults_in_thread_loop_are_named_as_with_stacks() {
    for case in FAULTS.cases().iter().filter(|case| {
        let endless = ["endless", "waits_for", "takes_all_memory"];
        !endless.iter().any(|word| case.contains(word))
    }) {
        let expected = FAULTS.failures(case, Machine::STACKS);
        assert_eq!(failures(case), expected, "{case}");
    }
    insta::assert_snapshot!(failures("barrier_or_not"), @"barrier never reached in barrier_or_not_kernel, block [0, 0, 0], thread [9, 1, 0]: threads 0..10 at the barrier at src/cases.cu:190; threads 10..18 at the barrier at src/cases.cu:188; threads 18..20 ended");
    insta::assert_snapshot!(failures("write_after_barrier"), @"out-of-bounds access in write_after_barrier_kernel, block [0, 0, 0], thread [9, 0, 0]: 3960 bytes past the end of out (40 bytes)");
    insta::assert_snapshot!(failures("fold_or_barrier"), @"barrier never reached in fold_or_barrier_kernel, block [0, 0, 0], thread [59, 0, 0]: threads 0, 2..5, 6..9, 10..13, 14..17, 18..21, 22..25, 26..29, 30..33, 34, 36, 38..41, 42..45, 46..49, 50..53, 54..57, 58..60 for the lanes 0xffffffff of its warp at src/cases.cu:259; threads 1, 5, 9, 13, 17, 21, 25, 29, 33, 37, 41, 45, 49, 53, 57 at the barrier at src/cases.cu:257; threads 35 ended");
    insta::assert_snapshot!(failures("write_after_fold"), @"out-of-bounds access in write_after_fold_kernel, block [0, 0, 0], thread [41, 0, 0]: 127960 bytes past the end of out (40 bytes)");
    insta::assert_snapshot!(failures("write_of_a_thread_that_let_others_run"), @"out-of-bounds access in write_after_atomics_kernel, block [0, 0, 0], thread [85, 0, 0]: 339960 bytes past the end of out (40 bytes)");
    insta::assert_snapshot!(failures("write_behind_a_thread_that_let_others_run"), @"out-of-bounds access in write_after_atomics_kernel, block [0, 0, 0], thread [87, 0, 0]: 347960 bytes past the end of out (40 bytes)");
}

#[test]
fn a_kernel_that_does_not_compile_as_a_loop_over_its_threads_keeps_stacks() {
    // The body of such a loop has parameters by the names of the built-in variables.
    let kernel = "#include <cuda_runtime.h>\n\
        __global__ void walk(long long* out) {\n\
          int gridDim = 5;\n\
          out[threadIdx.x] = gridDim + threadIdx.x;\n\
        }\n\
        static void case_walk(long long* out, float*) { walk<<<1, 32>>>(out); }\n";
    let project = open_cases(kernel);
    assert_eq!(forms(kernel), [("walk".to_owned(), None)]);
    let run = project.run("walk", Machine::PLAIN);
    assert_eq!(run.ending, Ending::Completed);
    assert_eq!(elements(&run, "out", 32), (5..37).map(f64::from).collect::<Vec<_>>());
}
