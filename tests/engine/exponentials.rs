//! `exp` in double, which kernels have in line, against the correctly rounded function of the engine's table.

use replay::backend::Mode;
use replay::frontend::Precision;
use replay::runtime::cpu::Rounding;
use replay::summary::POISON_A;

use super::project::{Machine, Project, elements};

/// How many arguments.
const COUNT: usize = 1 << 16;

const SOURCE: &str = "__global__ void exponentials(const float* x, double* arguments, double* out) {\n\
    int i = blockIdx.x * 256 + threadIdx.x;\n\
    arguments[i] = (double)x[2 * i] + (double)x[2 * i + 1] * 1e-9;\n\
    out[i] = exp(arguments[i]);\n}\n\
    static void case_all(const float* x, double* arguments, double* out) {\n\
    exponentials<<<256, 256>>>(x, arguments, out);\n}\n";

/// Two floats for each argument: of usual size, near zero, near the ends of the range, and special ones.
fn floats() -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut unit = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 40) as f32 / 16_777_216.0
    };
    let first = |k: usize, unit: f32| match k % 32 {
        0..20 => unit * 40.0 - 20.0,
        20..26 => unit * 1_420.0 - 710.0,
        26..28 => (unit - 0.5) * 1e-3,
        28 => (unit - 0.5) * 1e-20,
        // Where a step of the table ends.
        29 => ((unit * 1_000.0).floor() * 0.002_707_606_2) - 1.0,
        30 => [0.0, -0.0, 1.0, 700.0, -700.0, f32::INFINITY][k / 32 % 6],
        _ => [f32::NAN, f32::NEG_INFINITY, -745.2, 709.8][k / 32 % 4],
    };
    (0..COUNT).flat_map(|k| [first(k, unit()), unit()]).collect()
}

#[test]
fn exponentials_in_double_are_rounded_correctly_in_every_direction() {
    let tables = "[inputs.x]\ndtype = \"f32\"\nshape = [131072]\n\
                  [outputs.arguments]\ndtype = \"f64\"\nshape = [65536]\nnon_finite = true\n\
                  [outputs.out]\ndtype = \"f64\"\nshape = [65536]\nnon_finite = true\n";
    let project = Project::new(SOURCE, "x, arguments, out", tables, &floats());
    for rounding in [Rounding::Nearest, Rounding::Down, Rounding::Up, Rounding::TowardZero] {
        let run = project.run_compiled("", "all", Machine { rounding, ..Machine::PLAIN });
        let arguments = elements(&run, "arguments", COUNT);
        rounding.use_on_this_thread();
        let expected: Vec<f64> = arguments.iter().map(|&x| core_math::exp(x)).collect();
        Rounding::Nearest.use_on_this_thread();
        for ((x, expected), got) in arguments.iter().zip(expected).zip(elements(&run, "out", COUNT))
        {
            let same = expected.to_bits() == got.to_bits() || expected.is_nan() && got.is_nan();
            assert!(same, "exp({x:e}) is {expected:e}, not {got:e}, rounding {rounding:?}");
        }
    }
}

/// How many doubles lie between two of one sign.
fn apart(one: f64, other: f64) -> u64 {
    one.to_bits().abs_diff(other.to_bits())
}

#[test]
fn exponentials_of_a_shadow_are_within_a_unit_in_the_last_place() {
    let source = SOURCE.replace("exp(arguments[i])", "expf(x[2 * i])").replace(
        "arguments[i] = (double)x[2 * i] + (double)x[2 * i + 1] * 1e-9",
        "arguments[i] = (double)x[2 * i]",
    );
    let tables = "[inputs.x]\ndtype = \"f32\"\nshape = [131072]\n\
                  [outputs.arguments]\ndtype = \"f64\"\nshape = [65536]\nnon_finite = true\n\
                  [outputs.out]\ndtype = \"f64\"\nshape = [65536]\nnon_finite = true\n";
    let project = Project::new(&source, "x, arguments, out", tables, &floats());
    for rounding in [Rounding::Nearest, Rounding::Down, Rounding::Up, Rounding::TowardZero] {
        let mode = Mode { rounding, ..Mode::plain(POISON_A) };
        let run = project.run_as(Precision::Shadow, "all", &mode, Machine::PLAIN);
        let arguments = elements(&run, "arguments", COUNT);
        let got = elements(&run, "out", COUNT);
        let mut moved = 0;
        let mut beyond = 0;
        for (&x, got) in arguments.iter().zip(got) {
            // To nearest: the rounding of the result itself is allowed for.
            let expected = core_math::exp(x);
            if expected.is_nan() && got.is_nan() {
                continue;
            }
            moved += usize::from(expected != got);
            beyond += usize::from(
                apart(expected, got) > if rounding == Rounding::Nearest { 1 } else { 2 },
            );
        }
        assert_eq!(beyond, 0, "rounding {rounding:?}");
        // To nearest, few are not the nearest; in other directions about half are not.
        let most = if rounding == Rounding::Nearest { COUNT / 100 } else { COUNT };
        assert!(moved <= most, "{moved} are not the nearest, rounding {rounding:?}");
    }
}
