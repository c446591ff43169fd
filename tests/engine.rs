//! The CPU engine as kernels see it: each case of `tests/engine/*.cu` is compiled and replayed in
//! a child process, through the library, as users' kernels are.

mod blas;
mod borders;
mod checked;
mod exponentials;
mod extensions;
mod hostile;
mod inlined_functions;
mod intrinsics;
mod kernel_set;
mod libraries;
mod nvrtc_axis;
mod once;
mod parts;
mod project;
mod public;
mod random_kernels;
mod same_bits;
mod series;
mod several_sources;
mod shipped;
mod strays;
mod strided;
mod tensor;
mod thread_loop;
mod twins;

use std::sync::LazyLock;
use std::time::Duration;

use project::{Machine, Project, elements};
use replay::trial::Outcome;

static VALUES: LazyLock<Project> = LazyLock::new(|| {
    let tables = "[outputs.out]\ndtype = \"i64\"\nshape = [4096]\n\
                  [outputs.real]\ndtype = \"f32\"\nshape = [4096]\n";
    Project::new(include_str!("engine/values.cu"), "(long long*)out, real", tables, &[])
});

static FAULTS: LazyLock<Project> = LazyLock::new(|| {
    let tables = "[inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                  [outputs.out]\ndtype = \"f32\"\nshape = [\"n\"]\n";
    let input: Vec<f32> = (0..10).map(|n| n as f32).collect();
    Project::new(include_str!("engine/faults.cu"), "x, out", tables, &input)
});

/// The first elements of `out` that `case` gives.
fn out(case: &str, count: usize) -> Vec<i64> {
    let run = VALUES.run(case, Machine::PLAIN);
    elements(&run, "out", count).into_iter().map(|value| value as i64).collect()
}

fn failures(case: &str) -> String {
    FAULTS.failures(case, Machine::PLAIN)
}

fn failures_within_a_second(case: &str) -> String {
    FAULTS.failures(case, Machine { timeout: Duration::from_secs(1), ..Machine::PLAIN })
}

#[test]
fn every_thread_sees_its_index_in_three_dimensions() {
    let mut expected = Vec::new();
    for block in 0..3 * 2 * 4 {
        for thread in 0..5 * 3 * 2 {
            let digits =
                [block / 6, block / 3 % 2, block % 3, thread / 15, thread / 5 % 3, thread % 5];
            expected.push(digits.into_iter().fold(0, |seen, digit| seen * 10 + digit));
        }
    }
    assert_eq!(out("indices", expected.len()), expected);
}

#[test]
fn barriers_combine_the_predicates_of_all_threads() {
    // 34 of 100 are multiples of three, all are below 100, one is 7, one is 99, none is above.
    assert_eq!(out("barrier_predicates", 100), [341_010; 100]);
}

#[test]
fn threads_that_have_returned_do_not_count_at_a_barrier() {
    let out = out("early_return", 96);
    for thread in (0..96).filter(|thread| thread % 3 != 0) {
        let expected = if thread % 3 == 1 { thread as i64 + 1 } else { 64 };
        assert_eq!(out[thread], expected, "thread {thread}");
    }
}

#[test]
fn tree_reductions_are_right_for_blocks_of_any_size() {
    let blocks = [1, 2, 31, 32, 33, 63, 64, 65, 127, 257, 1000, 1023, 1024];
    assert_eq!(out("reductions", blocks.len()), blocks.map(|n: i64| n * (n + 1) / 2));
}

/// The poison of an element as these cases give it.
const POISON: i64 = i64::MIN;

#[test]
fn shuffles_stay_in_their_segment_and_give_the_own_value_past_its_end() {
    let got = out("shuffles", 5 * 4 * 80);
    for (k, width) in [2i64, 4, 8, 16, 32].into_iter().enumerate() {
        for t in 0..80i64 {
            // The last warp has 16 threads: what a lane without a thread gives is undefined, and reads as poison.
            let lane = t % 32;
            let warp = t / 32 * 32;
            let read = |source: i64| if warp + source < 80 { warp + source } else { POISON };
            let begin = lane / width * width;
            let offset = lane % width;
            let expected = [
                read(begin + 3 % width),
                if offset < 2 { t } else { t - 2 },
                if offset + 1 < width { read(lane + 1) } else { t },
                if (lane ^ 5) <= (begin + width - 1) { read(lane ^ 5) } else { t },
            ];
            let at = (k * 80 + t as usize) * 4;
            assert_eq!(got[at..at + 4], expected, "width {width}, thread {t}");
        }
    }
}

#[test]
fn a_partial_warp_votes_with_the_lanes_it_has() {
    let expected = |t: i64| if t < 32 { 4_294_967_295_000 } else { 0x1fff * 1000 + 320 };
    assert_eq!(out("partial_warp", 45), (0..45).map(expected).collect::<Vec<_>>());
}

#[test]
fn votes_matches_and_reductions_follow_their_masks() {
    let got = out("masks", 16 * 32);
    for seed in 0..16u32 {
        let mask = 0x9e37_79b9u32.wrapping_mul(seed + 1);
        let lanes = || (0..32u32).filter(move |lane| mask >> lane & 1 == 1);
        let set =
            |is_in: &dyn Fn(u32) -> bool| lanes().filter(|&l| is_in(l)).fold(0, |s, l| s | 1 << l);
        for lane in 0..32u32 {
            let parts: [u32; 13] = [
                set(&|l| l % 3 == 0),
                u32::from(mask >> 5 & 1 == 1),
                1,
                set(&|l| l % 4 == lane % 4),
                mask,
                1,
                lanes().sum(),
                lanes().min().unwrap() + 1,
                3u32.wrapping_sub(lanes().max().unwrap()),
                lanes().min().unwrap().wrapping_neg(),
                mask,
                lanes().fold(0, |x, l| x ^ l),
                lanes().fold(u32::MAX, |x, l| x & (l | 64)),
            ];
            let hash = parts
                .iter()
                .fold(0i64, |hash, &part| (hash * 1_000_003 + i64::from(part)) % 1_000_000_007);
            let expected = if mask >> lane & 1 == 1 { hash } else { -1 };
            assert_eq!(got[(seed * 32 + lane) as usize], expected, "mask {mask:#x}, lane {lane}");
        }
    }
}

#[test]
fn both_sides_of_a_branch_have_collectives_of_their_own() {
    let expected = |lane: i64| if lane < 16 { (lane ^ 1) + (lane ^ 2) + (lane ^ 4) } else { 16 };
    assert_eq!(out("branches", 32), (0..32).map(expected).collect::<Vec<_>>());
}

#[test]
fn lanes_that_leave_free_every_group_that_waited_for_them() {
    let expected = |lane| if lane < 15 { 0x7fff } else { 0x3fff_8000 };
    assert_eq!(out("leavers", 30), (0..30).map(expected).collect::<Vec<_>>());
}

#[test]
fn atomics_of_every_type_lose_no_update() {
    assert_eq!(
        out("atomics", 14),
        [
            1999 * 1000,
            -3 * 2000,
            1999,
            -1999,
            2 * 2000,
            2000 % 7,
            2,
            0xffff_ffff,
            0xffff_ff00,
            0xffff,
            2000 << 33,
            1999 << 40,
            1000,
            2000,
        ]
    );
}

/// The bits of the sums that float atomics give, and the block that came last.
fn float_sums(machine: Machine) -> (Vec<u64>, i64) {
    let run = VALUES.run("float_atomics", machine);
    let sums = elements(&run, "real", 5).into_iter().map(f64::to_bits).collect();
    (sums, elements(&run, "out", 1)[0] as i64)
}

#[test]
fn float_atomics_give_the_same_bits_on_any_number_of_threads() {
    let (expected, last) = float_sums(Machine { threads: 1, ..Machine::PLAIN });
    assert_eq!(last, 299, "the last block is the one with the last index");
    for threads in [2, 7].repeat(10) {
        let (sums, last) = float_sums(Machine { threads, ..Machine::PLAIN });
        assert_eq!((&sums, last), (&expected, 299), "{threads} threads");
    }
}

#[test]
fn another_order_of_blocks_moves_float_atomics() {
    let expected = float_sums(Machine::PLAIN);
    let permuted = float_sums(Machine { order: 1, ..Machine::PLAIN });
    assert_ne!(permuted.0, expected.0);
    assert_eq!(permuted, float_sums(Machine { order: 1, threads: 7, ..Machine::PLAIN }));
}

#[test]
fn threads_of_a_block_may_wait_for_each_other_through_memory() {
    let out = out("spin_waits", 103);
    assert_eq!(out[..100], [100; 100], "a lock taken by 100 threads");
    assert_eq!(out[100..], [41, 42, 43], "a flag polled by atomics, __nanosleep, __threadfence");
}

#[test]
fn shared_variables_are_one_per_block_and_instance() {
    let expected = [15_032, 199_800, 15_064, 50, 51, 52, 53, 31 + 999, 31 + 25 * 1024 - 1];
    assert_eq!(out("shared_memory", 9), expected);
}

#[test]
fn launches_beyond_the_limits_do_not_happen_and_are_seen_once() {
    let out = out("launch_limits", 26);
    assert_eq!(out[..18], [9, 0].repeat(9));
    assert_eq!(out[18], 0, "no refused launch ran");
    assert_eq!(out[19..25], [0; 6]);
    assert_eq!(out[25], 1, "the largest shapes ran");
}

#[test]
fn refused_launches_are_failures_that_name_their_shape() {
    let outcome: Outcome = VALUES.outcome("launch_limits", Machine::PLAIN);
    let refused: Vec<String> = outcome
        .launches
        .iter()
        .filter_map(|launch| {
            let error = launch.error.as_ref()?;
            Some(format!("{:?} {:?} {}: {error}", launch.grid, launch.block, launch.shared_bytes))
        })
        .collect();
    assert_eq!(refused.len(), 9);
    insta::assert_snapshot!(refused[8], @"[1, 1, 1] [1, 1, 1] 50176: invalid configuration argument (cudaErrorInvalidConfiguration)");
}

#[test]
fn kernels_behind_pointers_and_on_streams_run_in_order() {
    let sum = [1, 2, 3, 4, 5, 6].iter().fold(0, |x, n| if n % 2 == 1 { x + n } else { x * n });
    assert_eq!(out("function_pointers", 1), [sum + 2]);
}

#[test]
fn a_hundred_thousand_launches_are_all_made_and_counted() {
    let run = VALUES.run("many_launches", Machine::PLAIN);
    assert_eq!(elements(&run, "out", 1), [100_000.0]);
    assert_eq!(run.launch_count, 100_000);
}

#[test]
fn grids_of_many_small_blocks_run_to_their_end() {
    assert_eq!(out("many_blocks", 1), [299_999]);
}

#[test]
fn streams_and_events_are_in_order_and_bad_handles_refused() {
    assert_eq!(out("streams_and_events", 12), [0, 0, 0, 0, 0, 0, 1, 0, 400, 400, 0, 15]);
}

#[test]
fn device_variables_keep_no_state_from_replay_to_replay() {
    let expected = [17, 27, 12, 47, 8, 3, 1];
    for _ in 0..2 {
        assert_eq!(out("globals", 7), expected);
    }
}

#[test]
fn copies_are_checked_against_the_allocations() {
    let expected = [0, 1, 1, 1, 21, 0, 1, 1, 1, 0, 1, 1, 2, 2, 0, 1];
    assert_eq!(out("copies", 16), expected);
}

#[test]
fn the_device_describes_itself() {
    let expected = [0, 101, 32, 1024, 49_152, 1, 0, 8, 1, 0, 1024, 101, 0, 0];
    assert_eq!(out("device_queries", 14), expected);
}

#[test]
fn host_and_managed_memory_are_seen_from_both_sides() {
    assert_eq!(out("host_and_managed_memory", 2), [12, 13]);
}

#[test]
fn what_kernels_and_host_print_keeps_its_order() {
    let expected = "before\n\
        block 0 thread 0: 0.000 text\nblock 0 thread 1: 0.125 text\n\
        block 1 thread 0: 0.000 text\nblock 1 thread 1: 0.125 text\n\
        after 1\non stderr\nlast\n";
    assert_eq!(VALUES.run("prints", Machine::PLAIN).printed, expected);
}

#[test]
fn threads_at_different_barriers_are_named_with_both_places() {
    insta::assert_snapshot!(failures("two_barriers"), @"barrier never reached in two_barriers_kernel, block [0, 0, 0], thread [63, 0, 0]: threads 0..40 at the barrier at src/cases.cu:13; threads 40..64 at the barrier at src/cases.cu:15");
}

#[test]
fn a_grid_that_cannot_wait_for_all_its_blocks_is_told() {
    insta::assert_snapshot!(failures("grid_without_cooperation"), @"launch is not cooperative in grid_kernel, block [0, 0, 0], thread [0, 0, 0]: grid.sync() at src/cases.cu:213");
    insta::assert_snapshot!(failures("blocks_that_leave"), @"barrier never reached in grid_kernel, block [3, 0, 0], thread [0, 0, 0]: 5 of 8 blocks wait for the grid at src/cases.cu:213; 3 have ended");
    let too_many = failures("more_blocks_than_fit");
    assert!(too_many.contains("cudaErrorCooperativeLaunchTooLarge"), "{too_many}");
}

#[test]
fn what_a_cluster_cannot_do_is_told_with_its_place() {
    let cases = [
        "block_that_has_ended",
        "cluster_beside_a_barrier",
        "arrives_twice",
        "waits_without_arriving",
        "rank_of_nobody",
        "not_shared",
    ];
    insta::assert_snapshot!(cases.map(failures).join("\n"), @r"
    out-of-bounds access in cluster_kernel, block [1, 0, 0], thread [0, 0, 0]: shared memory of a block of the cluster that has ended
    barrier never reached in cluster_kernel, block [0, 0, 0], thread [31, 0, 0]: threads 0..16 at the barrier at src/cases.cu:234; threads 16..32 for its cluster at src/cases.cu:240
    barrier of the cluster misused in cluster_kernel, block [0, 0, 0], thread [0, 0, 0]: a thread arrives again before it has waited at src/cases.cu:240
    barrier of the cluster misused in cluster_kernel, block [0, 0, 0], thread [0, 0, 0]: a thread waits that has not arrived at src/cases.cu:236
    device code stopped itself in cluster_kernel, block [0, 0, 0], thread [0, 0, 0]: map_shared_rank of a rank that no block of the cluster has at src/cases.cu:241
    device code stopped itself in cluster_kernel, block [0, 0, 0], thread [0, 0, 0]: map_shared_rank of an address that is not in the block's shared memory at src/cases.cu:238
    ");
}

#[test]
fn a_lane_that_never_comes_to_a_collective_is_named() {
    insta::assert_snapshot!(failures("missing_lane"), @"barrier never reached in missing_lane_kernel, block [0, 0, 0], thread [63, 0, 0]: threads 0..9, 10..32 for the lanes 0xffffffff of its warp at src/cases.cu:22; threads 9, 32..64 at the barrier at src/cases.cu:23");
    insta::assert_snapshot!(failures("caller_outside_the_mask"), @"barrier never reached in caller_outside_the_mask_kernel, block [0, 0, 0], thread [31, 0, 0]: threads 0..16 ended; threads 16..32 for the lanes 0x0000ffff of its warp at src/cases.cu:28");
}

#[test]
fn accesses_outside_of_tensors_name_the_tensor_and_the_thread() {
    insta::assert_snapshot!(failures("write_past_output"), @"out-of-bounds access in write_kernel, block [2, 0, 0], thread [0, 1, 0]: 360 bytes past the end of out (40 bytes)");
    insta::assert_snapshot!(failures("write_before_output"), @"out-of-bounds access in write_kernel, block [2, 0, 0], thread [0, 1, 0]: 8000 bytes before out (40 bytes)");
    insta::assert_snapshot!(failures("read_past_input"), @"out-of-bounds access in read_kernel, block [0, 0, 0], thread [0, 0, 0]: 216 bytes past the end of x (40 bytes)");
    insta::assert_snapshot!(failures("write_past_scratch"), @"out-of-bounds access in write_kernel, block [2, 0, 0], thread [0, 1, 0]: 0 bytes past the end of cudaMalloc at src/cases.cu:48 (4096 bytes)");
    insta::assert_snapshot!(failures("write_null"), @"out-of-bounds access in write_kernel, block [2, 0, 0], thread [0, 1, 0]: 8 bytes past a null pointer");
    insta::assert_snapshot!(failures("use_after_free"), @"out-of-bounds access in write_kernel, block [2, 0, 0], thread [0, 1, 0]: freed memory: cudaMalloc at src/cases.cu:48 (4096 bytes)");
    insta::assert_snapshot!(failures("host_reads_null"), @"out-of-bounds access: a null pointer");
}

#[test]
fn writes_just_outside_of_an_allocation_are_found_at_the_end() {
    insta::assert_snapshot!(failures("small_overrun"), @"overrun: out has 40 bytes, byte 44 was written");
    insta::assert_snapshot!(failures("small_underrun"), @"overrun: out has 40 bytes, a byte 12 before its begin was written");
    insta::assert_snapshot!(failures("overrun_of_freed_scratch"), @"overrun: cudaMalloc at src/cases.cu:48 has 40 bytes, byte 48 was written");
}

#[test]
fn shared_memory_ends_where_it_was_asked_to() {
    insta::assert_snapshot!(failures("shared_overrun"), @"out-of-bounds access in shared_overrun_kernel, block [0, 0, 0], thread [0, 0, 0]: past the end of dynamic shared memory");
    insta::assert_snapshot!(failures("too_much_shared"), @"too much shared memory in too_much_shared_kernel, block [0, 0, 0], thread [0, 0, 0]: 52768 bytes of shared memory, static and dynamic, where a block of this kernel has 49152 (cudaFuncSetAttribute raises it to at most 232448)");
}

#[test]
fn kernels_that_stop_say_why_and_where() {
    insta::assert_snapshot!(failures("stack_overflow"), @"stack overflow in deep_kernel, block [0, 0, 0], thread [0, 0, 0]: the local variables of a thread need more than 128 KiB");
    insta::assert_snapshot!(failures("division_by_zero"), @"integer division by zero in divide_kernel, block [0, 0, 0], thread [0, 0, 0]");
    insta::assert_snapshot!(failures("device_assert"), @"device code stopped itself in assert_kernel, block [0, 0, 0], thread [5, 0, 0]: assertion `threadIdx.x < 5` failed in void assert_kernel() at src/cases.cu:102");
    insta::assert_snapshot!(failures("trap"), @"device code stopped itself in trap_kernel, block [0, 0, 0], thread [3, 0, 0]: __trap() was called at src/cases.cu:105");
}

#[test]
fn host_code_that_ends_the_process_is_an_outcome_with_what_it_printed() {
    let outcome = FAULTS.outcome("exit", Machine::PLAIN);
    assert!(outcome.printed.starts_with("invalid argument at line"), "{}", outcome.printed);
    insta::assert_snapshot!(failures("exit"), @"Exit { code: 3 }");
    insta::assert_snapshot!(failures("abort"), @"aborted: the code called abort()");
    insta::assert_snapshot!(failures("host_assert"), @"host code stopped itself: assertion `in == nullptr` failed at src/cases.cu:119");
    insta::assert_snapshot!(failures("exception"), @"host code stopped itself: an exception was not caught: of the host");
    insta::assert_snapshot!(failures("exception_of_no_class"), @"host code stopped itself: an exception was not caught");
}

#[test]
fn code_that_never_ends_is_stopped_and_its_kernel_named() {
    insta::assert_snapshot!(failures_within_a_second("endless_kernel"), @"timeout: timeout in endless_kernel, block [1, 0, 0], thread [0, 0, 0]");
    insta::assert_snapshot!(failures_within_a_second("endless_host"), @"timeout: timeout");
    insta::assert_snapshot!(failures_within_a_second("waits_for_a_later_block"), @"timeout: timeout in waits_for_a_later_block_kernel, block [0, 0, 0], thread [0, 0, 0]");
}

#[test]
fn code_that_takes_all_memory_gets_none() {
    let outcome = FAULTS.outcome("host_takes_all_memory", Machine::PLAIN);
    assert!(outcome.printed.contains("malloc gave null"), "{outcome:?}");
    insta::assert_snapshot!(failures("new_takes_all_memory"), @"host code stopped itself: an exception was not caught: std::bad_alloc");
}

#[test]
fn outputs_that_depend_on_unwritten_memory_are_told_from_unwritten_ones() {
    insta::assert_snapshot!(failures("unwritten"), @r#"Unwritten { output: "out", count: 2, of: 10, first: [2] }"#);
    insta::assert_snapshot!(failures("reads_scratch"), @r#"PoisonDependent { output: "out", count: 5, of: 10, first: [0] }"#);
    insta::assert_snapshot!(failures("reads_static_shared"), @r#"PoisonDependent { output: "out", count: 2, of: 10, first: [8] }"#);
    insta::assert_snapshot!(failures("reads_dynamic_shared"), @r#"PoisonDependent { output: "out", count: 2, of: 10, first: [8] }"#);
}
