//! Loops that run for many threads at once against the same loops thread by thread.

use std::sync::LazyLock;

use replay::frontend::{
    KernelForm, Precision, SourceUnit, ThreadForm, Threads, scan_symbols, translate_for_host,
};
use replay::runtime::cpu::Rounding;

use super::project::{Machine, Project, elements};

/// Floats of every kind: usual ones, repeated ones, huge and tiny ones, and a few that are special.
fn floats() -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    (0..4096)
        .map(|k| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let high = (state >> 33) as u32;
            let fraction = (state >> 40) as f32 / 16_777_216.0;
            match k % 64 {
                0..52 => fraction * 40.0 - 20.0,
                52..60 => fraction * 220.0 - 110.0,
                60 => (high % 3) as f32 - 1.0,
                61 => f32::from_bits(high % 8_388_608),
                62 => fraction.copysign(-0.0) * 0.0,
                _ if k > 3000 => f32::from_bits(high),
                _ => fraction * 1e-7,
            }
        })
        .collect()
}

static STRIDED: LazyLock<Project> = LazyLock::new(|| {
    let tables = "[inputs.x]\ndtype = \"f32\"\nshape = [4096]\n\
                  [outputs.out]\ndtype = \"f32\"\nshape = [4096]\n";
    Project::new(include_str!("strided.cu"), "x, out", tables, &floats())
});

/// The bits of the output, and how the run ended.
fn shown(compiler: &str, case: &str, machine: Machine) -> String {
    let run = STRIDED.run_compiled(compiler, case, machine);
    let bits = run.output("out").map(|_| elements(&run, "out", 4096));
    let bits = bits.map(|all| all.into_iter().map(f64::to_bits).collect::<Vec<_>>());
    format!("{bits:?} {:?}", run.ending)
}

#[test]
fn loops_for_many_threads_at_once_change_no_bit_in_any_rounding_mode_and_order() {
    for case in STRIDED.cases() {
        for (rounding, order) in [
            (Rounding::Nearest, 0),
            (Rounding::Down, 0),
            (Rounding::Up, 0),
            (Rounding::TowardZero, 0),
            (Rounding::Nearest, 1),
            (Rounding::Nearest, 2),
        ] {
            let machine = |form| Machine { rounding, order, form, ..Machine::PLAIN };
            let expected = shown("", case, machine(Threads::Stacks));
            for form in [Threads::Blocks, Threads::Lanes] {
                let got = shown("", case, machine(form));
                assert_eq!(got, expected, "{case}, {form:?}, {rounding:?}, order {order}");
            }
        }
    }
}

#[test]
#[ignore = "needs clang++"]
fn clang_runs_loops_for_many_threads_with_the_same_bits() {
    for case in STRIDED.cases() {
        let expected = shown("", case, Machine::STACKS);
        assert_eq!(shown("clang++", case, Machine::PLAIN), expected, "{case}");
    }
}

/// How many loops of each kernel of `text` run for many threads at once.
fn loops(text: &str) -> String {
    let unit = SourceUnit { path: "cases.cu", text };
    let made = translate_for_host(&unit, &scan_symbols(&[unit]), Precision::Native, Threads::Lanes)
        .unwrap();
    let words = |form: &KernelForm| match &form.threads {
        ThreadForm::Block { strided, .. } => format!("{}: {}\n", form.kernel, strided.len()),
        threads => format!("{}: {threads:?}\n", form.kernel),
    };
    made.kernel_forms.iter().map(words).collect()
}

#[test]
fn loops_are_taken_where_nobody_can_tell() {
    insta::assert_snapshot!(loops(include_str!("strided.cu")), @"
    softmax_kernel: 4
    functions_kernel: 1
    wrong_guesses_kernel: 1
    planes_kernel: 1
    few_come_kernel: 1
    steps_kernel: 1
    race_kernel: 1
    seen_kernel: 0
    two_stores_kernel: 2
    own_variables_kernel: 1
    halvings_kernel: 0
    ");
}
