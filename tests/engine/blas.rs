//! cuBLAS and cuBLASLt: the calls of `tests/engine/public/blas`. Expected values are computed here in
//! float64.

use replay::backend::Mode;
use replay::frontend::Precision;
use replay::runtime::cpu::Rounding;
use replay::summary::POISON_A;

use super::project::elements;
use super::public::{Public, Tensor, assert_close, gelu, inner, numbers, on_a_gpu};

/// The products of `tests/engine/public/blas`: its inputs, and what they come to.
struct Blas {
    a: Vec<f32>,
    b: Vec<f32>,
    bias: Vec<f32>,
}

const ROWS: usize = 70;
const COLUMNS: usize = 19;

impl Blas {
    fn new() -> Blas {
        let a = numbers(150 * 150, 2);
        let b = numbers(150 * 151, 3);
        Blas { a, b, bias: numbers(73 * 19, 4) }
    }

    fn public(&self, which: usize) -> Public {
        let harness = "call = \"run(which, a, b, bias, out, extra);\"\n\
             [inputs.which]\ndtype = \"i32\"\nshape = []\n\
             [inputs.a]\ndtype = \"f32\"\nshape = [150, 150]\n\
             [inputs.b]\ndtype = \"f32\"\nshape = [150, 151]\n\
             [inputs.bias]\ndtype = \"f32\"\nshape = [19, 73]\n\
             [outputs.out]\ndtype = \"f32\"\nshape = [19, 73]\n\
             [outputs.extra]\ndtype = \"f32\"\nshape = [19, 73]\n";
        let tensors: [Tensor; 4] = [
            ("which", &[which as f32], &[]),
            ("a", &self.a, &[150, 150]),
            ("b", &self.b, &[150, 151]),
            ("bias", &self.bias, &[19, 73]),
        ];
        Public::new("blas", harness, &tensors)
    }

    /// The sum of products, with the matrices exchanged as told and read through `read`.
    fn sum(&self, row: usize, column: usize, ta: bool, tb: bool, read: fn(f32) -> f64) -> f64 {
        let left = |l: usize| self.a[if ta { l + row * 150 } else { row + l * 150 }];
        let right = |l: usize| self.b[if tb { column + l * 151 } else { l + column * 151 }];
        (0..131).map(|l| read(left(l)) * read(right(l))).sum()
    }

    /// `out` with `value` of each element of the product; the rest is what it was.
    fn whole(&self, value: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        let mut out: Vec<f64> = self.bias.iter().map(|&x| f64::from(x)).collect();
        for column in 0..COLUMNS {
            for row in 0..ROWS {
                out[row + column * 73] = value(row, column);
            }
        }
        out
    }

    fn bias(&self, index: usize) -> f64 {
        f64::from(self.bias[index])
    }
}

fn gelu_slope(x: f64) -> f64 {
    let t = inner(x).tanh();
    let factor = (2.0 / std::f64::consts::PI).sqrt();
    0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * factor * (1.0 + 3.0 * 0.044715 * x * x)
}

#[test]
fn cublas_multiplies_matrices_in_all_transpositions_and_leading_dimensions() {
    let blas = Blas::new();
    for which in 0..4 {
        let ta = which & 1 != 0;
        let tb = which & 2 != 0;
        let expected = blas.whole(|row, column| {
            let sum = blas.sum(row, column, ta, tb, f64::from);
            0.5 * sum + 0.25 * blas.bias(row + column * 73)
        });
        blas.public(which).assert_gives("out", &expected, 1e-5);
    }
}

#[test]
fn cublas_accumulates_bfloat16_in_float32() {
    let blas = Blas::new();
    let expected = |read: fn(f32) -> f64| {
        blas.whole(|row, column| {
            let sum = blas.sum(row, column, false, false, read);
            0.5 * sum + 0.25 * blas.bias(row + column * 73)
        })
    };
    let narrow = expected(|x| half::bf16::from_f32(x).to_f64());
    let public = blas.public(4);
    let native = elements(&public.run(Precision::Native), "out", narrow.len());
    assert_close(&native, &narrow, 1e-5, "native");
    // In the shadow nothing is rounded to bfloat16.
    let shadow = elements(&public.run(Precision::Shadow), "out", narrow.len());
    assert_close(&shadow, &expected(f64::from), 1e-12, "shadow");
}

#[test]
fn cublas_multiplies_batches_by_strides_and_by_pointers() {
    let blas = Blas::new();
    let mut expected: Vec<f64> = blas.bias.iter().map(|&x| f64::from(x)).collect();
    for (batch, column, row) in
        (0..3).flat_map(|z| (0..6).flat_map(move |j| (0..20).map(move |i| (z, j, i))))
    {
        let product = |l: usize| {
            let left = f64::from(blas.a[batch * 100 + row + l * 20]);
            left * f64::from(blas.b[batch * 30 + l + column * 5])
        };
        expected[batch * 120 + row + column * 20] = (0..5).map(product).sum();
    }
    for which in [5, 6] {
        blas.public(which).assert_gives("out", &expected, 1e-5);
    }
}

#[test]
fn cublas_works_on_vectors_with_scalars_on_the_host_and_on_the_device() {
    let blas = Blas::new();
    let a = |i: usize| f64::from(blas.a[i]);
    let b = |i: usize| f64::from(blas.b[i]);
    let mut out: Vec<f64> = blas.bias.iter().map(|&x| f64::from(x)).collect();
    for (row, out) in out.iter_mut().enumerate().take(ROWS) {
        let sum: f64 = (0..150).map(|l| a(l + row * 150) * b(l)).sum();
        *out = 0.5 * (0.5 * sum + 0.5 * a(row));
    }
    let dot: f64 = (0..150).map(|i| a(i) * b(i)).sum();
    let norm = (0..150).map(|i| a(i) * a(i)).sum::<f64>().sqrt();
    let outer = |i: usize, j: usize| dot * a(i) * b(j);
    let extra = [dot, norm, outer(0, 0), outer(1, 0), outer(0, 1), outer(1, 1)];
    let public = blas.public(7);
    public.assert_gives("out", &out, 1e-5);
    public.assert_gives("extra", &extra, 1e-5);
}

#[test]
fn cublaslt_has_the_epilogues_of_training() {
    let blas = Blas::new();
    let sum = |row, column| 0.5 * blas.sum(row, column, true, false, f64::from);
    let before = |row, column| sum(row, column) + blas.bias(row);
    let public = blas.public(8);
    public.assert_gives("out", &blas.whole(|row, column| gelu(before(row, column))), 2e-5);
    let auxiliary: Vec<f64> = (0..ROWS).map(|row| before(row, 0)).collect();
    public.assert_gives("extra", &auxiliary, 2e-5);
    let slope = |row: usize, column: usize| gelu_slope(blas.bias(row + column * 73));
    let product = |row, column| sum(row, column) * slope(row, column);
    blas.public(9).assert_gives("out", &blas.whole(product), 2e-5);
    let public = blas.public(10);
    public.assert_gives("out", &blas.whole(sum), 2e-5);
    let column = |n: usize| (0..131).map(|l| f64::from(blas.b[l + n * 151])).sum();
    public.assert_gives("extra", &(0..COLUMNS).map(column).collect::<Vec<f64>>(), 2e-5);
    let relu = |row, column| f64::max(before(row, column), 0.0);
    blas.public(11).assert_gives("out", &blas.whole(relu), 2e-5);
}

/// Sizes that NVIDIA's library takes: 64 rows and 16 columns of products of 128.
#[test]
fn cublaslt_has_the_epilogues_of_training_for_aligned_matrices() {
    let blas = Blas::new();
    let a = |i: usize| f64::from(blas.a[i]);
    let b = |i: usize| f64::from(blas.b[i]);
    let sum = |row: usize, column: usize| {
        0.5 * (0..128).map(|l| a(l + row * 128) * b(l + column * 128)).sum::<f64>()
    };
    let whole = |value: &dyn Fn(usize, usize) -> f64| {
        (0..64 * 16).map(|i| value(i % 64, i / 64)).collect::<Vec<f64>>()
    };
    let before = |row, column| sum(row, column) + blas.bias(row);
    let product =
        |row: usize, column: usize| sum(row, column) * gelu_slope(blas.bias(row + column * 64));
    let gives = |which, out: &dyn Fn(usize, usize) -> f64| {
        let public = blas.public(which);
        public.assert_gives("out", &whole(out), 2e-5);
        public
    };
    gives(16, &|row, column| gelu(before(row, column))).assert_gives(
        "extra",
        &whole(&before),
        2e-5,
    );
    gives(17, &product);
    gives(19, &|row, column| before(row, column).max(0.0));
    let over_n = |m: usize| (0..16).map(|n| product(m, n)).sum();
    gives(21, &product).assert_gives("extra", &(0..64).map(over_n).collect::<Vec<f64>>(), 2e-5);
    gives(22, &before);
    gives(23, &|row, column| gelu(before(row, column)));
}

/// NVIDIA's library does not take operands of float32 for these.
#[test]
fn cublaslt_sums_its_operands_for_bias_gradients() {
    let blas = Blas::new();
    let b = |n: usize| (0..128).map(|l| f64::from(blas.b[l + n * 128])).sum();
    blas.public(18).assert_gives("extra", &(0..16).map(b).collect::<Vec<f64>>(), 2e-5);
    let a = |m: usize| (0..128).map(|l| f64::from(blas.a[l + m * 128])).sum();
    blas.public(20).assert_gives("extra", &(0..64).map(a).collect::<Vec<f64>>(), 2e-5);
}

#[test]
#[ignore = "needs a GPU and cuBLAS"]
fn cublas_multiplies_on_a_gpu_as_on_the_cpu() {
    on_a_gpu(
        5.0,
        &[
            cublas_multiplies_matrices_in_all_transpositions_and_leading_dimensions,
            cublas_multiplies_batches_by_strides_and_by_pointers,
            cublas_works_on_vectors_with_scalars_on_the_host_and_on_the_device,
        ],
    );
}

#[test]
#[ignore = "needs a GPU and cuBLAS"]
fn cublaslt_has_the_epilogues_of_training_on_a_gpu() {
    on_a_gpu(50.0, &[cublaslt_has_the_epilogues_of_training_for_aligned_matrices]);
}

#[test]
fn sums_of_cublas_follow_the_rounding_of_a_replay() {
    let public = Blas::new().public(1);
    let run = |rounding| {
        let mode = Mode { rounding, ..Mode::plain(POISON_A) };
        elements(&public.run_in(Precision::Native, &mode), "out", 70)
    };
    let down = run(Rounding::Down);
    let up = run(Rounding::Up);
    assert!(down.iter().zip(&up).all(|(down, up)| down < up), "{down:?}\n{up:?}");
}
