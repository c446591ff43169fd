//! Matrices on a warp and inline PTX: `tests/engine/public/tensor` and `wmma`. Sums are exact in float32
//! and in half, so expected values are exact.

use replay::frontend::Precision;

use super::project::elements;
use super::public::{Public, Tensor};

/// `count` multiples of 1/4 between -1 and 1.
fn quarters(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7 + i / 5 * seed) % 9) as f32 / 4.0 - 1.0).collect()
}

struct Case {
    project: &'static str,
    a: Vec<f32>,
    b: Vec<f32>,
}

impl Case {
    fn new(project: &'static str) -> Case {
        Case { project, a: quarters(1024, 3), b: quarters(1024, 5) }
    }

    fn public(&self, which: usize) -> Public {
        let harness = "call = \"run(which, a, b, c);\"\n\
             [inputs.which]\ndtype = \"i32\"\nshape = []\n\
             [inputs.a]\ndtype = \"f32\"\nshape = [1024]\n\
             [inputs.b]\ndtype = \"f32\"\nshape = [1024]\n\
             [outputs.c]\ndtype = \"f32\"\nshape = [512]\n";
        let tensors: [Tensor; 3] =
            [("which", &[which as f32], &[]), ("a", &self.a, &[1024]), ("b", &self.b, &[1024])];
        Public::new(self.project, harness, &tensors)
    }

    /// The product of `rows` by 32 and 32 by `columns`; B lies as `b` tells.
    fn product(&self, rows: usize, columns: usize, b: impl Fn(usize, usize) -> usize) -> Vec<f64> {
        let at = |row: usize, column: usize| -> f64 {
            let term = |k: usize| f64::from(self.a[row * 32 + k]) * f64::from(self.b[b(k, column)]);
            (0..32).map(term).sum()
        };
        (0..rows * columns).map(|i| at(i / columns, i % columns)).collect()
    }
}

#[test]
fn inline_ptx_copies_loads_and_multiplies_matrices() {
    let case = Case::new("tensor");
    let expected = case.product(16, 8, |k, column| k * 8 + column);
    for which in 0..3 {
        let run = case.public(which).run(Precision::Native);
        assert_eq!(elements(&run, "c", 128), expected, "{which}");
    }
    let found = elements(&case.public(3).run(Precision::Native), "c", 96);
    for (i, found) in found.iter().enumerate() {
        let from = match i {
            0..64 => Some(i % 8 * 8 + i / 8),
            67 | 94.. => None,
            _ => Some(i - 64),
        };
        assert_eq!(*found, from.map_or(0.0, |from| f64::from(case.a[from])), "{i}");
    }
}

#[test]
fn inline_ptx_of_integers_and_lanes_does_what_the_isa_says() {
    let lanes = 0..32u32;
    let v = |lane: u32| lane.wrapping_mul(2654435761);
    let results: [&dyn Fn(u32) -> u32; 12] = [
        &|lane| v(lane).swap_bytes(),
        &|lane| v(lane) >> 4 & 0xff,
        &|lane| 0x0ff | (lane & 15) << 8,
        &|lane| v(lane).rotate_left(lane),
        &|lane| ((u64::from(v(lane)) * 12345) >> 32) as u32,
        &|lane| v(lane ^ 1),
        &|lane| if lane + 3 < 32 { lane + 3 } else { lane },
        &|lane| if lane < 8 { 16 } else { 77 },
        &|_| 496,
        &|lane| (f64::from(lane) * 0.5).round_ties_even() as u32 * 64 + lane * 3 / 4,
        &|_| 8,
        &|lane| lane * lane + 5,
    ];
    let all = results.iter().flat_map(|result| lanes.clone().map(result));
    let mut expected: Vec<f64> = all.map(|result| f64::from(result & 0xfff)).collect();
    let pair = |lane| [1.5 * 0.25 + 0.25, f64::from(lane) * 2.0 + 2.0];
    expected.extend(lanes.flat_map(pair));
    let found = elements(&Case::new("tensor").public(5).run(Precision::Native), "c", 448);
    assert_eq!(found, expected);
}

#[test]
fn inline_ptx_of_single_numbers_has_a_shadow_and_packed_numbers_end_it() {
    let case = Case::new("tensor");
    let public = case.public(4);
    let mut expected: Vec<f64> = (0..128)
        .map(|i| {
            let v = &case.a[i * 4..i * 4 + 4];
            let sum: f64 = v.iter().map(|&x| f64::from(x)).sum();
            let lane = i % 32;
            let warp = i / 32 % 2;
            let majority = 12 & 10 | 10 & lane | 12 & lane;
            sum * 0.5 + f64::from(v[0]).exp2() + (majority + lane + warp) as f64
        })
        .collect();
    expected.push(2.5);
    let native = elements(&public.run(Precision::Native), "c", 129);
    let shadow = elements(&public.run(Precision::Shadow), "c", 129);
    for (i, expected) in expected.iter().enumerate() {
        assert!((native[i] - expected).abs() < 1e-5, "{i}: {} {expected}", native[i]);
        assert!((shadow[i] - expected).abs() < 1e-13, "{i}: {} {expected}", shadow[i]);
    }
    assert_eq!(public.compiled(Precision::Shadow).shadow_obstacles, [""; 0]);
    let ends = (0..4).map(|which| case.public(which).end_of_shadow());
    insta::assert_snapshot!(ends.collect::<Vec<_>>().join("\n"), @r"
    src/ptx.cu:8: cp.async.cg.shared.global.L2::128B [%0], [%1], %2;
    src/ptx.cu:8: cp.async.cg.shared.global.L2::128B [%0], [%1], %2;
    src/ptx.cu:74: cvt.rna.tf32.f32 %0, %1;
    src/ptx.cu:100: stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};
    ");
}

#[test]
fn fragments_of_a_warp_multiply_in_every_shape_and_layout() {
    let case = Case::new("wmma");
    let twice = |product: Vec<f64>| -> Vec<f64> { product.iter().map(|x| 2.0 * x).collect() };
    for which in 0..6 {
        let expected = twice(match which % 3 {
            0 => case.product(16, 16, |k, column| k * 16 + column),
            1 => case.product(32, 8, |k, column| k + column * 32),
            _ => case.product(8, 32, |k, column| k * 32 + column),
        });
        case.public(which).assert_gives("c", &expected, 0.0);
    }
    let by_rows = case.product(16, 16, |k, column| k + column * 32);
    let by_columns: Vec<f64> = (0..256).map(|i| by_rows[i % 16 * 16 + i / 16]).collect();
    case.public(6).assert_gives("c", &by_columns, 0.0);
    let expected = twice(case.product(16, 16, |k, column| k * 16 + column));
    case.public(7).assert_gives("c", &expected, 0.0);
    let bytes: Vec<f64> = expected.iter().map(|x| 8.0 * x).collect();
    case.public(8).assert_gives("c", &bytes, 0.0);
}
