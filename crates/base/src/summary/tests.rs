//! The claims of `docs/checksum.md`, and of the summary as a whole.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::tensor::DType;

/// A tensor that owns its parts.
pub(crate) struct Owned {
    dtype: DType,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Owned {
    fn new(dtype: DType, shape: &[usize], bytes: Vec<u8>) -> Owned {
        Owned { dtype, shape: shape.to_vec(), bytes }
    }

    fn f32(values: &[f32]) -> Owned {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Owned::new(DType::F32, &[values.len()], bytes)
    }

    fn f64(values: &[f64]) -> Owned {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Owned::new(DType::F64, &[values.len()], bytes)
    }

    fn view(&self) -> TensorView<'_> {
        TensorView { dtype: self.dtype, shape: &self.shape, bytes: &self.bytes }
    }

    fn summary(&self) -> Summary {
        summarize_tensor(&self.view(), None)
    }

    fn checksum(&self) -> Checksum {
        self.summary().checksum
    }
}

/// A small generator for test data: xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

/// The checksum a second time, one unit after the other, straight from the document.
fn checksum_of_the_document(dtype_number: u64, shape: &[usize], canonical: &[u8]) -> String {
    let f = |v: u64| (v % (1 << 32)) * (v / (1 << 32));
    let p = |x: u64, y: u64| {
        let x = x.rotate_left(32).wrapping_add(f(y));
        let y = y.rotate_left(32).wrapping_add(f(x));
        let x = x.rotate_left(32).wrapping_add(f(y));
        (x, y.rotate_left(32).wrapping_add(f(x)))
    };
    let start_x = 0x243F6A8885A308D3u64;
    let start_y = 0x13198A2E03707344u64;
    let step_x = 0x9E3779B97F4A7C15u64;
    let step_y = 0xD1B54A32D192ED03u64;
    let mut padded = canonical.to_vec();
    while !padded.len().is_multiple_of(16) {
        padded.push(0);
    }
    let word = |n: usize| u64::from_le_bytes(padded[8 * n..8 * n + 8].try_into().unwrap());
    let mut sum_x = 0u64;
    let mut sum_y = 0u64;
    for u in 0..padded.len() / 16 {
        let w0 = word(2 * u);
        let w1 = word(2 * u + 1);
        let x = w0.wrapping_add(start_x).wrapping_add(step_x.wrapping_mul(u as u64));
        let y = w1.wrapping_add(start_y).wrapping_add(step_y.wrapping_mul(u as u64));
        let (x, y) = p(x, y);
        sum_x = sum_x.wrapping_add(x);
        sum_y = sum_y.wrapping_add(y);
    }
    let mut x = sum_x;
    let mut y = sum_y;
    let header = (dtype_number << 32) + shape.len() as u64;
    for h in std::iter::once(header).chain(shape.iter().map(|&size| size as u64)) {
        (x, y) = p(x.wrapping_add(start_x) ^ h, y.wrapping_add(start_y));
    }
    format!("{x:016x}{y:016x}")
}

#[test]
fn the_document_s_test_vectors_hold() {
    let ramp: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let cases = [
        ("empty f32 [0]", Owned::f32(&[])),
        ("f32 [1]: 1", Owned::f32(&[1.0])),
        ("f32 [2]: 0, -0", Owned::f32(&[0.0, -0.0])),
        ("f32 [1]: NaN", Owned::f32(&[f32::from_bits(0xFFA0_0001)])),
        ("f32 [1000]: 0, 1, 2, ...", Owned::f32(&ramp)),
        ("u8 [2, 3]: 1 to 6", Owned::new(DType::U8, &[2, 3], vec![1, 2, 3, 4, 5, 6])),
        ("bool []: true", Owned::new(DType::Bool, &[], vec![1])),
        ("f64 [3]: 1, inf, NaN", Owned::f64(&[1.0, f64::INFINITY, -f64::NAN])),
    ];
    let text: String =
        cases.iter().map(|(name, t)| format!("| {name} | `{}` |\n", t.checksum())).collect();
    let document = include_str!("../../../../docs/checksum.md");
    assert!(document.contains(&text), "the document lacks\n{text}");
}

proptest! {
    #[test]
    fn the_pass_agrees_with_the_document(
        bytes in prop::collection::vec(any::<u8>(), 0..700),
        repeat in 1usize..4,
    ) {
        let bytes = bytes.repeat(repeat * 5);
        let shape = [repeat * 5, bytes.len() / (repeat * 5)];
        let expected = checksum_of_the_document(12, &shape, &bytes);
        let t = Owned::new(DType::U8, &shape, bytes);
        prop_assert_eq!(t.checksum().to_string(), expected);
    }

    #[test]
    fn one_flipped_bit_changes_the_checksum(
        mut bytes in prop::collection::vec(any::<u8>(), 1..600), at in any::<usize>(),
    ) {
        let shape = [bytes.len()];
        let before = Owned::new(DType::U8, &shape, bytes.clone()).checksum();
        let bit = at % (bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert_ne!(Owned::new(DType::U8, &shape, bytes).checksum(), before);
    }
}

/// Checksums of `count` different tensors of 1024 bytes that are zero but for ones at two or four
/// places: sums that cancel where a mixer is too linear.
fn count_low_entropy_checksums(count: usize) -> usize {
    let mut random = Random(1);
    let mut inputs = HashSet::new();
    while inputs.len() < count {
        let mut at = [0; 4].map(|_| (random.next() % 1024) as usize);
        if inputs.len() % 2 == 0 {
            at = [at[0], at[0], at[1], at[1]];
        }
        at.sort_unstable();
        if at[1] < at[2] && (at[0] < at[1]) == (at[2] < at[3]) {
            inputs.insert(at);
        }
    }
    let mut buffer = [0u8; 1024];
    let checksums = inputs.iter().map(|at| {
        at.iter().for_each(|&i| buffer[i] = 1);
        let mut sums = checksum::ChecksumSums::default();
        sums.absorb(&buffer[..], 0);
        at.iter().for_each(|&i| buffer[i] = 0);
        sums.finish(DType::Bool, &[1024])
    });
    checksums.collect::<HashSet<_>>().len()
}

#[test]
fn tensors_of_low_entropy_have_different_checksums() {
    assert_eq!(count_low_entropy_checksums(30_000), 30_000);
}

#[test]
#[ignore = "takes seconds; the same claim on a larger scale"]
fn a_million_tensors_of_low_entropy_have_a_million_checksums() {
    assert_eq!(count_low_entropy_checksums(1_000_000), 1_000_000);
}

#[test]
fn swaps_shifts_shapes_and_signs_of_zero_change_the_checksum() {
    let ramp: Vec<f32> = (0..300).map(|i| (i / 3) as f32).collect();
    let mut seen = HashSet::from([Owned::f32(&ramp).checksum()]);
    let mut kinds = 1;
    let mut add = |t: Owned| {
        kinds += 1;
        seen.insert(t.checksum());
    };
    for i in 3..300 {
        let mut swapped = ramp.clone();
        swapped.swap(i, i - 3);
        add(Owned::f32(&swapped));
        let mut rotated = ramp.clone();
        rotated.rotate_left(i);
        add(Owned::f32(&rotated));
    }
    for count in 0..300 {
        add(Owned::f32(&vec![0.0; count]));
    }
    add(Owned::f32(&[-0.0; 7]));
    for shape in [&[2, 3][..], &[3, 2], &[6], &[1, 6], &[6, 1]] {
        add(Owned::new(DType::I8, shape, vec![1; 6]));
        add(Owned::new(DType::U8, shape, vec![1; 6]));
    }
    assert_eq!(seen.len(), kinds);
}

/// Pseudo-random values, about normal.
fn normal(random: &mut Random, count: usize) -> Vec<f64> {
    let uniform = |random: &mut Random| random.next() as f64 / u64::MAX as f64;
    (0..count).map(|_| (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0).collect()
}

#[test]
fn statistics_are_those_of_the_finite_elements() {
    let s = Owned::f64(&[3.0, -4.0, 0.0, -0.0, f64::NAN, f64::INFINITY]).summary();
    assert_eq!((s.count, s.zeros, s.nan, s.inf), (6, 2, 1, 1));
    assert_eq!((s.min, s.max, s.mean), (Some(-4.0), Some(3.0), Some(-0.25)));
    assert_eq!((s.norm, s.max_abs), (5.0, 4.0));
    let s = Owned::f32(&[f32::NAN]).summary();
    assert_eq!((s.min, s.max, s.mean, s.norm, s.max_abs), (None, None, None, 0.0, 0.0));
    let s = Owned::f32(&[]).summary();
    assert_eq!((s.count, s.min, s.mean, s.norm), (0, None, None, 0.0));
    let s = Owned::new(DType::I8, &[3], vec![0xFF, 2, 0xFE]).summary();
    assert_eq!((s.min, s.max, s.norm), (Some(-2.0), Some(2.0), 3.0));
}

#[test]
fn norms_at_the_ends_of_float64_are_finite_and_exact() {
    for magnitude in [1e200, 1e307, 1e-200, 1e-310] {
        let s = Owned::f64(&[3.0 * magnitude, 4.0 * magnitude]).summary();
        assert!((s.norm / magnitude - 5.0).abs() < 1e-9, "{magnitude:e}: {}", s.norm);
        assert!((s.mean.unwrap() / magnitude - 3.5).abs() < 1e-9, "{magnitude:e}");
    }
    assert_eq!(Owned::f64(&[f64::MAX; 4]).summary().mean, Some(f64::MAX));
}

#[test]
fn neither_threads_nor_vector_units_change_a_bit() {
    let pools =
        [1, 3].map(|threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap());
    for dtype in DType::ALL {
        let count = (3 * pass::PART_BYTES + 1500) / dtype.size() + 1;
        let mut random = Random(7);
        let bytes = |random: &mut Random| match dtype {
            DType::F64 => random.next().to_le_bytes(),
            // Exponents lose their highest bits: special elements are those set below.
            _ if dtype.is_float() => (random.next() & 0xBFFF_BFFF_BFFF_BFFF).to_le_bytes(),
            _ => random.next().to_le_bytes(),
        };
        let mut bytes: Vec<u8> =
            (0..count * dtype.size()).flat_map(|_| bytes(&mut random)).collect();
        bytes.truncate(count * dtype.size());
        bytes[70_000 * 4..70_000 * 4 + 64].fill(0xFF);
        bytes[90_000..90_064].fill(0);
        let t = Owned::new(dtype, &[count], bytes);
        let [one, three] = pools.each_ref().map(|pool| pool.install(|| t.summary()));
        assert_eq!(format!("{one:?}"), format!("{three:?}"), "{dtype}");
        for (index, bytes) in t.bytes.chunks(pass::PART_BYTES).enumerate() {
            let wide = pass::summarise_part(dtype, bytes, index as u64, None);
            let narrow = pass::summarise_part_inlined(dtype, bytes, index as u64, None);
            assert_eq!(format!("{wide:?}"), format!("{narrow:?}"), "{dtype}");
        }
    }
}

/// The sketch a second time, one element after the other, straight from the document.
fn sketch_of_the_document(size: usize, values: &[f64]) -> [f64; PROJECTIONS] {
    let mut buckets = [0f64; PROJECTIONS];
    for (i, value) in values.iter().enumerate() {
        let u = i * size / 16;
        let e = i % (16 / size);
        let z = (u as u64 / 1024 + 1).wrapping_mul(0x9E3779B97F4A7C15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58476D1CE4E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D049BB133111EB);
        let z = z ^ (z >> 31);
        let word = e * size / 4;
        let bucket = (u % 16) ^ (4 * word) ^ (5 * (u / 64) % 16) ^ (z >> 60) as usize;
        let key = (z as u32).wrapping_add((u as u32 % 1024).wrapping_mul(0x9E3779B9));
        let signs = (key ^ (key >> 15)).wrapping_mul(0x846CA68B);
        let negative = (signs >> (32 - 16 / size + e)) & 1 == 1;
        buckets[bucket] += if negative { -value } else { *value };
    }
    std::array::from_fn(|k| {
        let sign = |b: usize| if (k & b).count_ones() % 2 == 1 { -1.0 } else { 1.0 };
        (0..PROJECTIONS).map(|b| sign(b) * buckets[b]).sum()
    })
}

#[test]
fn the_sketch_is_the_one_of_the_document() {
    for dtype in DType::ALL {
        let mut random = Random(3);
        let count = 70_003 / dtype.size();
        // What the narrowest floats hold exactly.
        let many = if dtype.is_float8() { 8 } else { 100 };
        let values: Vec<f64> = (0..count).map(|_| (random.next() % many) as f64).collect();
        let bytes = values.iter().flat_map(|&value| {
            let mut element = (value as u64).to_le_bytes()[..dtype.size()].to_vec();
            if dtype.is_float() {
                dtype.write_nearest(value, &mut element);
            }
            element
        });
        let sketch = Owned::new(dtype, &[count], bytes.collect()).summary().sketch;
        // Sums of small integers are exact in any order.
        assert_eq!(sketch.0, sketch_of_the_document(dtype.size(), &values), "{dtype}");
    }
}

#[test]
fn the_estimate_has_the_error_it_states() {
    let mut random = Random(11);
    let base = normal(&mut random, 4000);
    let mut squares = 0.0;
    let mut inside = 0;
    let mut trials = 0;
    for kind in 0..9 {
        for trial in 0..60usize {
            let noise = normal(&mut random, 4000);
            let got: Vec<f64> = (base.iter().zip(&noise).enumerate())
                .map(|(i, (base, noise))| match kind {
                    0 => base + 1e-6 * noise,
                    1 if i % 64 == trial => base + noise,
                    2 if i / 256 == trial % 15 => base + 0.5,
                    3 => base * (1.0 + noise * 1e-3),
                    4 if i < 10 + trial => base + 1.0,
                    5 if (i + trial) % 97 == 0 => 0.0,
                    // One head of four, what alternates, and a stride of 256 bytes.
                    6 if i / 64 % 4 == trial % 4 && i >= 8 * trial => base + 0.5,
                    7 if i >= 16 * trial => base + 0.5 - (i % 2) as f64,
                    8 if i % 32 == trial % 32 && i >= 8 * trial => base + 1.0,
                    _ => *base,
                })
                .collect();
            let distance: f64 = got.iter().zip(&base).map(|(a, b)| (a - b) * (a - b)).sum();
            let b = Owned::f64(&base).summary();
            let truth = distance.sqrt() / b.norm;
            let e = estimate_distance(&Owned::f64(&got).summary(), &b);
            squares += (e.relative / truth).powi(2);
            inside += usize::from(e.low <= truth && truth <= e.high);
            trials += 1;
        }
    }
    let mean = squares / f64::from(trials);
    assert!((mean - 1.0).abs() < 0.08, "the mean of the squares is {mean} of the true one");
    assert!(inside * 100 >= trials as usize * 97, "{inside} of {trials} in the interval");
}

#[test]
fn an_estimate_knows_its_ends() {
    let a = Owned::f32(&[1.0, 2.0]).summary();
    let zero = Owned::f32(&[0.0, 0.0]).summary();
    let nan = Owned::f32(&[1.0, f32::NAN]).summary();
    assert_eq!(estimate_distance(&a, &a).high, 0.0);
    assert_eq!(estimate_distance(&a, &zero).low, f64::INFINITY);
    assert_eq!(estimate_distance(&nan, &a).relative, f64::INFINITY);
    let near = estimate_distance(&Owned::f32(&[-0.0, 0.0]).summary(), &zero);
    assert_eq!((near.relative, near.high), (0.0, estimate::SKETCH_ROUNDING));
    // Nothing is known of sums that overflowed, not even that they are near.
    let huge = Owned::f64(&[f64::MAX; 200]).summary();
    let other = Owned::f64(&[f64::MAX / 2.0; 200]).summary();
    assert_eq!(
        (estimate_distance(&huge, &other).low, estimate_distance(&huge, &other).high),
        (0.0, f64::INFINITY)
    );
    // Changes that cancel in a sum do not cancel here.
    let four = |x: [f32; 4]| Owned::f32(&x).summary();
    for (i, j) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
        for sign in [1.0, -1.0] {
            let mut moved = [1.0; 4];
            moved[i] += 0.5;
            moved[j] += 0.5 * sign;
            let e = estimate_distance(&four(moved), &four([1.0; 4]));
            assert!((e.relative - 0.5f64.sqrt() / 2.0).abs() < 1e-12, "{i} {j} {sign}: {e:?}");
        }
    }
    // A single element that differs is estimated exactly.
    let one = estimate_distance(&Owned::f32(&[1.0, 2.5]).summary(), &a);
    assert!((one.relative - 0.5 / 5f64.sqrt()).abs() < 1e-12);
}

#[test]
fn unwritten_and_poison_dependent_elements_are_told_apart() {
    for dtype in DType::ALL {
        let size = dtype.size();
        let mut a = vec![0u8; 11 * size];
        let mut b = vec![0u8; 11 * size];
        POISON_A.fill(&mut a);
        POISON_B.fill(&mut b);
        let whole = Owned::new(dtype, &[11], a.clone());
        assert_eq!(summarize_tensor(&whole.view(), Some(&POISON_A)).unwritten, 11, "{dtype}");
        assert_eq!(summarize_tensor(&whole.view(), Some(&POISON_B)).unwritten, 0, "{dtype}");
        // Element 4 was written alike; elements 6 and 7 depend on what was there.
        a[4 * size..5 * size].fill(1);
        b[4 * size..5 * size].fill(1);
        a[6 * size..8 * size].fill(2);
        b[6 * size..8 * size].fill(3);
        let a = Owned::new(dtype, &[11], a);
        let b = Owned::new(dtype, &[11], b);
        let found = compare_poisons(&a.view(), &b.view()).unwrap();
        assert_eq!((found.unwritten, found.poison_dependent), (8, 2), "{dtype}");
        assert_eq!(found.first_unwritten, [0, 1, 2, 3, 5, 8, 9, 10]);
        assert_eq!(found.first_poison_dependent, [6, 7]);
    }
    let nan = |bits: u32| Owned::f32(&[f32::from_bits(bits)]);
    let found = compare_poisons(&nan(0x7FC0_0001).view(), &nan(0xFFC0_0000).view()).unwrap();
    assert_eq!(found, PoisonComparison::default());
    let error = compare_poisons(&nan(0).view(), &Owned::f32(&[0.0; 2]).view()).unwrap_err();
    insta::assert_snapshot!(error,
        @"outputs of the two poison patterns differ in kind: f32 [1] and f32 [2]");
}

#[test]
fn slice_norms_are_told_along_any_dimension() {
    let bytes = [3f64, 4.0, 0.0, 0.0, 1e200, 0.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let t = Owned::new(DType::F64, &[3, 2], bytes);
    assert_eq!(slice_norms(&t.view(), 0), [5.0, 0.0, 1e200]);
    assert_eq!(slice_norms(&t.view(), 1), [1e200, 4.0]);
    assert_eq!(slice_norms(&t.view(), 2), [0.0; 0]);
}

#[test]
fn a_summary_survives_json() {
    let s = Owned::f64(&[1.0, f64::MAX, f64::MAX, f64::MAX]).summary();
    let text = serde_json::to_string(&s).unwrap();
    assert!(text.contains(&s.checksum.to_string()), "{text}");
    assert_eq!(serde_json::from_str::<Summary>(&text).unwrap(), s);
    let error = "12".parse::<Checksum>().unwrap_err();
    insta::assert_snapshot!(error, @"`12` is not a checksum: 32 hexadecimal digits are expected");
}
