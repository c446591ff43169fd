//! `powf` and `fmaf`, which kernels have in line, against the correctly rounded functions of the engine's table.

use replay::runtime::cpu::Rounding;

use super::project::{Machine, Project, elements};

/// How many arguments of each.
const COUNT: usize = 1 << 16;

const SOURCE: &str = "#include <cmath>\n\
    __global__ void functions(const float* x, float* power, float* product) {\n\
    int i = blockIdx.x * 256 + threadIdx.x;\n\
    float a = x[3 * i], b = x[3 * i + 1], c = x[3 * i + 2];\n\
    power[i] = i % 2 ? powf(a, b) : std::pow(a, b);\n\
    product[i] = i % 2 ? fmaf(a, b, c) : std::fma(a, b, c);\n}\n\
    static void case_all(const float* x, float* power, float* product) {\n\
    functions<<<256, 256>>>(x, power, product);\n}\n";

/// Three floats for each argument: of usual size, of any size, small numbers of few bits, exponents that kernels use,
/// addends near a product, and special ones.
fn floats() -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut bits = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 32) as u32
    };
    let unit = |bits: u32| (bits >> 8) as f32 / 16_777_216.0;
    let few_bits = |bits: u32| (bits % 64) as f32 / 8.0 - 4.0;
    let special =
        [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN_POSITIVE, 3e38];
    let exponents = [2.0, 3.0, 0.5, -0.5, 1.0, 0.0, -1.0, 1.5, 10.0, 2.0 / 3.0];
    let choose = |list: &[f32], bits: u32| list[bits as usize % list.len()];
    let three = |k: usize| {
        let (a, b, c) = (bits(), bits(), bits());
        let near = |x: f32, y: f32| f32::from_bits((-x * y).to_bits() ^ (c % 4096));
        match k % 8 {
            0 | 1 => [unit(a) * 4.0, unit(b) * 20.0 - 10.0, unit(c) - 0.5],
            2 => [a, b, c].map(f32::from_bits),
            3 => [few_bits(a), few_bits(b), few_bits(c)],
            4 => [unit(a) * 9.0 - 4.5, choose(&exponents, b), unit(c) * 1e-9],
            5 => [unit(a), unit(b), near(unit(a), unit(b))],
            6 => [unit(a) * 1e-20, unit(b) * 1e-20, unit(c) * 1e-38],
            _ => [choose(&special, a), choose(&special, b), choose(&special, c)],
        }
    };
    (0..COUNT).flat_map(three).collect()
}

/// Rounded in the current mode. In directed modes core-math misses squares that are floats.
fn power(x: f32, y: f32) -> f32 {
    let square = f64::from(x) * f64::from(x);
    let is_normal = square >= f64::from(f32::MIN_POSITIVE);
    if y == 2.0 && is_normal { square as f32 } else { core_math::powf(x, y) }
}

#[test]
fn powers_and_products_are_rounded_correctly_in_every_direction() {
    let tables = "[inputs.x]\ndtype = \"f32\"\nshape = [196608]\n\
                  [outputs.power]\ndtype = \"f32\"\nshape = [65536]\nnon_finite = true\n\
                  [outputs.product]\ndtype = \"f32\"\nshape = [65536]\nnon_finite = true\n";
    let x = floats();
    let project = Project::new(SOURCE, "x, power, product", tables, &x);
    for rounding in [Rounding::Nearest, Rounding::Down, Rounding::Up, Rounding::TowardZero] {
        let run = project.run_compiled("", "all", Machine { rounding, ..Machine::PLAIN });
        rounding.use_on_this_thread();
        let expected: Vec<[f32; 2]> =
            x.chunks(3).map(|x| [power(x[0], x[1]), x[0].mul_add(x[1], x[2])]).collect();
        Rounding::Nearest.use_on_this_thread();
        let got = [elements(&run, "power", COUNT), elements(&run, "product", COUNT)];
        for (k, (x, expected)) in x.chunks(3).zip(expected).enumerate() {
            for (got, expected) in got.iter().zip(expected.map(f64::from)) {
                let same =
                    expected.to_bits() == got[k].to_bits() || expected.is_nan() && got[k].is_nan();
                assert!(same, "{x:?}: {expected:e}, not {:e}, rounding {rounding:?}", got[k]);
            }
        }
    }
}
