//! Host code and kernels on the wrong side of the border, where only a run shows it.

use std::sync::LazyLock;

use crate::engine::project::{Machine, Project, elements};

static BORDERS: LazyLock<Project> = LazyLock::new(|| {
    let tables = "[inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                  [outputs.out]\ndtype = \"f32\"\nshape = [\"n\"]\n";
    let input: Vec<f32> = (0..10).map(|n| n as f32).collect();
    Project::new(include_str!("borders.cu"), "x, out", tables, &input)
});

fn failures(case: &str) -> String {
    BORDERS.failures(case, Machine::PLAIN)
}

#[test]
fn host_code_cannot_touch_device_memory() {
    insta::assert_snapshot!(failures("host_reads_input"), @"host access to device memory: byte 12 of x (40 bytes): host code cannot touch it on a GPU; copy it by cudaMemcpy");
    insta::assert_snapshot!(failures("host_writes_output"), @"host access to device memory: byte 36 of out (40 bytes): host code cannot touch it on a GPU; copy it by cudaMemcpy");
    insta::assert_snapshot!(failures("host_reads_result"), @"host access to device memory: byte 0 of out (40 bytes): host code cannot touch it on a GPU; copy it by cudaMemcpy");
    insta::assert_snapshot!(failures("host_reads_scratch"), @"host access to device memory: byte 1048572 of cudaMalloc at src/cases.cu:26 (1048576 bytes): host code cannot touch it on a GPU; copy it by cudaMemcpy");
}

#[test]
fn host_code_cannot_speak_with_the_threads_of_a_block() {
    insta::assert_snapshot!(failures("host_waits_for_threads"), @"device function in host code: it calls a function of kernels, such as __syncthreads(), which CUDA refuses");
    insta::assert_snapshot!(failures("host_shuffles"), @"device function in host code: it calls a function of kernels, such as __syncthreads(), which CUDA refuses");
    insta::assert_snapshot!(failures("host_calls_kernel"), @"device function in host code: it calls a function of kernels, such as __syncthreads(), which CUDA refuses");
}

#[test]
fn host_code_and_kernels_share_managed_and_pinned_memory() {
    let run = BORDERS.run("host_uses_managed_memory", Machine::PLAIN);
    assert_eq!(run.printed, "9\n");
    assert_eq!(elements(&run, "out", 10), (0..10).map(f64::from).collect::<Vec<_>>());
}

#[test]
fn kernels_cannot_touch_memory_of_the_host() {
    insta::assert_snapshot!(failures("kernel_reads_stack"), @"device access to host memory in copy_kernel, block [0, 0, 0], thread [0, 0, 0]: argument 2 points to a variable on the stack of host code, which a GPU cannot reach");
    insta::assert_snapshot!(failures("kernel_reads_heap"), @"device access to host memory in copy_kernel, block [0, 0, 0], thread [0, 0, 0]: argument 2 points to memory that host code allocated, which a GPU cannot reach");
    insta::assert_snapshot!(failures("kernel_reads_global"), @"device access to host memory in copy_kernel, block [0, 0, 0], thread [0, 0, 0]: argument 2 points to a variable or constant of host code, which a GPU cannot reach");
    insta::assert_snapshot!(failures("kernel_reads_stack_by_class"), @"device access to host memory in pair_kernel, block [0, 0, 0], thread [0, 0, 0]: argument 1 points to a variable on the stack of host code, which a GPU cannot reach");
    insta::assert_snapshot!(failures("kernel_reads_reference"), @"device access to host memory in reference_kernel, block [0, 0, 0], thread [0, 0, 0]: argument 2 points to a variable on the stack of host code, which a GPU cannot reach");
}

#[test]
fn pointers_that_kernels_may_have_and_those_that_they_do_not_use_do_no_harm() {
    let run = BORDERS.run("kernel_uses_what_is_shared", Machine::PLAIN);
    assert_eq!(run.printed, "9\n");
    assert_eq!(elements(&run, "out", 10), [1.0; 10]);
}

#[test]
fn launches_beyond_the_bounds_of_a_kernel_are_refused_as_cuda_refuses_them() {
    let run = BORDERS.run("launch_bounds", Machine::PLAIN);
    insta::assert_snapshot!(run.printed, @r"
    128 of 128 0
    129 of 128 1
    33 of 32 1
    33 of 64 0
    65 of 64, deduced 1
    64 of 64 0
    65 of 64, a constant 1
    129 of 128, by a pointer 1
    3 blocks in clusters of 2 912
    4 blocks in clusters of 2 0
    ");
    let refused = run
        .launches
        .iter()
        .filter_map(|launch| Some(format!("{}: {}", launch.kernel, launch.error.as_ref()?)));
    insta::assert_snapshot!(refused.collect::<Vec<_>>().join("\n"), @r"
    bounded_kernel: invalid argument (cudaErrorInvalidValue): __launch_bounds__(128)
    bounded_template<32>: invalid argument (cudaErrorInvalidValue): __launch_bounds__(32)
    bounded_by_macro<float>: invalid argument (cudaErrorInvalidValue): __launch_bounds__(64)
    bounded_by_constant: invalid argument (cudaErrorInvalidValue): __launch_bounds__(64)
    bounded_kernel: invalid argument (cudaErrorInvalidValue): __launch_bounds__(128)
    cluster_kernel: invalid cluster size (cudaErrorInvalidClusterSize): __cluster_dims__(2, 1, 1)
    ");
    assert_eq!(elements(&run, "out", 10), [1.0; 10]);
}

#[test]
fn addresses_and_stacks_that_do_not_hold_are_told_as_such() {
    insta::assert_snapshot!(failures("misaligned"), @"misaligned access in misaligned_kernel, block [0, 0, 0], thread [0, 0, 0]: byte 4 of x (40 bytes): the address is no multiple of 16");
    insta::assert_snapshot!(failures("host_recursion"), @"stack overflow: the 8 MiB of host code's stack are used up");
    insta::assert_snapshot!(failures("wide_recursion"), @"stack overflow in wide_kernel, block [0, 0, 0], thread [0, 0, 0]: the local variables of a thread need more than 128 KiB");
}

#[test]
fn launches_may_leave_arguments_to_their_defaults() {
    let run = BORDERS.run("default_arguments", Machine::PLAIN);
    assert_eq!(elements(&run, "out", 10), [5., 4., 4., 3., 3., 3., 3., 3., 3., 3.]);
}

#[test]
fn a_macro_launches_any_kernel_that_it_is_given() {
    let run = BORDERS.run("given_kernels", Machine::PLAIN);
    let launched: Vec<&str> = run.launches.iter().map(|launch| launch.kernel.as_str()).collect();
    insta::assert_snapshot!(launched.join("\n"), @r"
    fill_kernel
    kernel
    add_one<float>
    add_one<float>
    add_ten
    add_one<float>
    add_one<float>
    kernel
    add_one<float>
    add_ten
    add_ten
    add_ten
    add_one<float>
    ");
    assert_eq!(elements(&run, "out", 10), [247.0; 10]);
    let run = BORDERS.run("deduced_in_macros", Machine::PLAIN);
    assert_eq!(elements(&run, "out", 10), [13.0; 10]);
}
