//! The float64 shadow of kernels as public repositories write them: families of `tests/engine/public` that look at the
//! bits of numbers, decide by their sizes, or hold code without a meaning in float64.

use replay::frontend::Precision;
use replay::runtime::report::NO_SHADOW;
use replay::worker::Ending;

use super::project::elements;
use super::public::{Public, Tensor, assert_close, gelu, numbers};

const COUNT: usize = 192;
/// A defect that rounding to float32 hides.
const DEFECT: f64 = 1.0 + 1.0 / 4096.0 / 4096.0 * 4.0;

/// Kernel `which` of `family` with `defines`, and its input.
fn kernel(family: &str, which: usize, defines: &str) -> (Public, Vec<f64>) {
    let harness = format!(
        "sources = [\"src/{family}.cu\"]\ninclude = [\"src\"]\ndefines = [{defines}]\n\
         call = \"run(which, y, x, n);\"\n\
         [inputs.which]\ndtype = \"i32\"\nshape = []\n\
         [inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n[outputs.y]\ndtype = \"f32\"\nshape = [\"n\"]\n"
    );
    let values = numbers(COUNT, 7);
    let tensors: [Tensor; 2] = [("which", &[which as f32], &[]), ("x", &values, &[COUNT])];
    let x = values.iter().map(|&value| f64::from(value)).collect();
    (Public::new(family, &harness, &tensors), x)
}

/// The shadow's output of kernel `which`, or why it ends itself.
fn shadow(family: &str, which: usize, defines: &str) -> Result<Vec<f64>, String> {
    let run = kernel(family, which, defines).0.run(Precision::Shadow);
    match &run.ending {
        Ending::Completed => Ok(elements(&run, "y", COUNT)),
        Ending::Fault(fault) if fault.what == NO_SHADOW => Err(fault.detail.clone()),
        ending => panic!("{family} {which}: {ending:?}"),
    }
}

/// Holds the shadows of kernel `which`, as it is and with a factor of [`DEFECT`], against `reference`, and the native
/// replay up to `tolerance`.
fn assert_twin(
    family: &str,
    which: usize,
    defines: &str,
    tolerance: f64,
    reference: impl Fn(&[f64], f64) -> Vec<f64>,
) {
    let (public, x) = kernel(family, which, defines);
    let name = format!("{family} {which}");
    let native = elements(&public.run(Precision::Native), "y", COUNT);
    assert_close(&native, &reference(&x, 1.0), tolerance, &format!("{name}, native"));
    let found = shadow(family, which, defines).unwrap_or_else(|why| panic!("{name}: {why}"));
    assert_close(&found, &reference(&x, 1.0), 1e-9, &name);
    let comma = if defines.is_empty() { "" } else { ", " };
    let factor = format!("{defines}{comma}\"FACTOR={DEFECT:?}\"");
    let found = shadow(family, which, &factor).unwrap_or_else(|why| panic!("{name}: {why}"));
    assert_close(&found, &reference(&x, DEFECT), 1e-9, &format!("{name}, with the defect"));
}

#[test]
fn numbers_seen_as_integers_keep_their_digits() {
    let depth = |x: f64, factor: f64| x.exp() / 3.0 * factor;
    let after = |first: f64| [&[first][..], &[0.0; COUNT - 1]].concat();
    assert_twin("splats", 0, "", 1e-6, |x, factor| {
        let depths = x[..COUNT - 2].iter().map(|&x| depth(x, factor));
        after(depths.fold(0.0, f64::max))
    });
    assert_twin("splats", 1, "", 1e-6, |x, factor| {
        after(x.iter().map(|&x| depth(x, factor)).fold(f64::INFINITY, f64::min))
    });
    for by_words in [2, 3] {
        assert_twin("splats", by_words, "", 1e-6, |x, factor| {
            let mut keyed: Vec<(usize, f64)> =
                x.iter().enumerate().map(|(index, &x)| (index % 4, depth(x, factor))).collect();
            keyed.sort_by(|left, right| left.0.cmp(&right.0).then(left.1.total_cmp(&right.1)));
            keyed.iter().map(|&(tile, depth)| depth * (1.0 + tile as f64)).collect()
        });
    }
}

#[test]
fn the_bits_of_a_number_are_those_of_the_float() {
    let hash = |x: f64| {
        let mut hash = (x as f32).to_bits();
        hash ^= hash >> 16;
        hash = hash.wrapping_mul(0x85eb_ca6b);
        hash ^ hash >> 13
    };
    assert_twin("quantised", 0, "", 1e-6, |x, factor| {
        x.iter().map(|&x| x * factor + f64::from(hash(x) & 1)).collect()
    });
    assert_twin("quantised", 1, "", 1e-6, |x, factor| {
        let odd = |x: f64| {
            let bits = (x * 0.1) as f32;
            (bits.to_bits() >> 23).wrapping_mul(2_654_435_761) >> 31
        };
        x.iter().map(|&x| x * factor * f64::from(odd(x) + 1)).collect()
    });
    assert_twin("quantised", 2, "", 1e-6, |x, factor| {
        let rows = x.chunks(32);
        rows.flat_map(|row| (0..32).map(move |t| row[t * 7 % 32] * 2.0 * factor)).collect()
    });
    assert_twin("quantised", 3, "", 1e-6, |x, factor| {
        x.chunks(32).flat_map(|row| row.iter().rev().map(move |x| x * factor + 1.0)).collect()
    });
    assert_twin("quantised", 4, "", 1e-6, |x, factor| x.iter().map(|x| x / 3.0 * factor).collect());
    assert_twin("quantised", 5, "", 1e-6, |x, factor| {
        (0..COUNT).map(|index| x[index ^ 1] / 3.0 * factor).collect()
    });
}

#[test]
fn the_bytes_of_a_number_are_those_of_the_float() {
    assert_twin("quantised", 9, "", 1e-6, |x, factor| {
        let hashed = |x: f64| {
            let number = x * 0.25;
            let bits = (number as f32).to_bits();
            let bytes = bits.to_le_bytes();
            let hash = bytes
                .iter()
                .fold(0_u32, |hash, &byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)));
            number * factor + f64::from((hash ^ bits) & 7)
        };
        x.iter().map(|&x| hashed(x)).collect()
    });
}

#[test]
fn arithmetic_on_bits_and_offsets_without_sizes_end_the_shadow_at_their_line() {
    let ends = [6, 7, 10, 11, 12].map(|which| shadow("quantised", which, "").unwrap_err());
    insta::assert_snapshot!(ends.join("\n"), @r"
    src/quantised.cu:77: (unsigned int*)&
    src/quantised.cu:86: (float*)
    src/quantised.cu:110: reinterpret_cast<const unsigned char*>
    src/quantised.cu:117: (const char*)
    src/quantised.cu:123: memcpy
    ");
}

#[test]
fn vectors_of_integers_beside_packs_of_numbers_stay_integers() {
    let scaled =
        |x: &[f64], factor: f64| -> Vec<f64> { x.iter().map(|x| x / 3.0 * factor).collect() };
    assert_twin("masks", 0, "", 1e-6, |x, factor| {
        let kept = |(place, x): (usize, f64)| if place % 3 == 0 { x } else { 0.0 };
        scaled(x, factor).into_iter().enumerate().map(kept).collect()
    });
    assert_twin("masks", 1, "", 1e-6, |x, factor| scaled(x, factor).into_iter().rev().collect());
    assert_twin("masks", 2, "", 1e-6, |x, factor| {
        let scaled = scaled(x, factor);
        let other = |place: usize| COUNT - 4 - place / 4 * 4 + place % 4;
        (0..COUNT).map(|place| scaled[place] + scaled[other(place)]).collect()
    });
    assert_twin("masks", 3, "", 1e-6, |x, factor| {
        let is_kept = |place: usize| {
            let bits = 17 ^ (place as u32 / 4).wrapping_mul(0x9e37_79b9);
            let words =
                [bits, bits.wrapping_mul(0x85eb_ca6b), bits ^ bits >> 7, bits.wrapping_mul(3)];
            words[place % 4] >> 31 == 1
        };
        let kept = |(place, x): (usize, f64)| if is_kept(place) { x } else { 0.0 };
        scaled(x, factor).into_iter().enumerate().map(kept).collect()
    });
    assert_eq!(shadow("masks", 4, "").unwrap_err(), "src/masks.cu:87: .x");
}

#[test]
fn traits_by_size_or_for_double_are_those_of_float() {
    assert_twin("convolution", 0, "", 1e-6, |x, factor| {
        let one = |index: usize| {
            let before = if index.is_multiple_of(4) { 0.0 } else { x[index - 1] };
            (x[index] * 0.3 + before * 0.7) * factor
        };
        (0..COUNT).map(one).collect()
    });
    assert_twin("convolution", 1, "", 1e-6, |x, factor| {
        x.iter().map(|&x| if x > 0.0 { x } else { x * 0.01 * factor }).collect()
    });
    assert_twin("convolution", 2, "", 1e-6, |x, factor| x.iter().map(|x| x * x * factor).collect());
    assert_twin("convolution", 3, "", 1e-6, |x, factor| {
        let row = |row: &[f64]| {
            let sum: f64 = row.iter().sum();
            row.iter().map(|x| x / (1.0 + sum * sum) * factor).collect::<Vec<_>>()
        };
        x.chunks(32).flat_map(row).collect()
    });
    assert_twin("convolution", 4, "", 1e-6, |x, factor| {
        x.iter().map(|x| x.tanh() * factor).collect()
    });
    assert_twin("convolution", 5, "", 1e-6, |x, factor| {
        let scaled = |(index, x): (usize, &f64)| if index % 4 == 0 { x * 2.0 * factor } else { *x };
        x.iter().enumerate().map(scaled).collect()
    });
}

#[test]
fn the_main_program_of_a_trainer_has_a_twin_in_bfloat16_and_float32() {
    for (defines, tolerance) in [("", 3e-2), ("\"USE_FP32\"", 1e-5)] {
        assert_twin("training", 0, defines, tolerance, |x, factor| {
            x.iter().map(|&x| gelu(x) * factor).collect()
        });
        assert_twin("training", 2, defines, tolerance * 10.0, |x, factor| {
            let squares = |block: &[f64]| block.iter().map(|x| x * x).sum::<f64>() * factor;
            let mut sums: Vec<f64> = x.chunks(64).map(squares).collect();
            sums.resize(COUNT, 0.0);
            sums
        });
        assert_twin("training", 3, defines, tolerance * 4.0, |x, factor| {
            let weights = &x[..48];
            let row = |row: &[f64]| {
                let mean = row.iter().sum::<f64>() / 48.0;
                let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 48.0;
                let scale = factor / (variance + 1e-5).sqrt();
                let normal = row.iter().zip(weights).map(|(x, w)| (x - mean) * scale * w);
                normal.collect::<Vec<_>>()
            };
            x.chunks(48).flat_map(row).collect()
        });
    }
    assert_twin("training", 1, "", 3e-2, |x, factor| x.iter().map(|x| x * 2.0 * factor).collect());
    insta::assert_snapshot!(shadow("training", 4, "").unwrap_err(), @"src/training.cuh:72: __uint_as_float");
}

#[test]
fn a_type_named_by_the_harness_is_widened_like_one_of_the_sources() {
    assert_twin("convolution", 6, "\"TI=float\", \"_TO=float\"", 1e-6, |x, factor| {
        x.iter().map(|x| x / 3.0 * factor).collect()
    });
}

/// A third of each element of `x`, times `factor`.
fn thirds(x: &[f64], factor: f64) -> Vec<f64> {
    x.iter().map(|x| x / 3.0 * factor).collect()
}

#[test]
fn atomics_by_words_keep_the_digits_of_numbers() {
    let folded = |x: &[f64], factor: f64, first: f64, fold: fn(f64, f64) -> f64| {
        let thirds = thirds(x, factor);
        let mut groups: Vec<f64> = (0..16)
            .map(|group| thirds.iter().skip(group).step_by(16).copied().fold(first, fold))
            .collect();
        groups.resize(COUNT, 0.0);
        groups
    };
    assert_twin("punned", 0, "", 1e-6, |x, factor| folded(x, factor, f64::NEG_INFINITY, f64::max));
    for which in [1, 2, 11] {
        assert_twin("punned", which, "", 1e-6, |x, factor| {
            folded(x, factor, 0.0, |sum, x| sum + x)
        });
    }
}

#[test]
fn bytes_written_as_numbers_have_room_for_the_numbers_of_the_twin() {
    assert_twin("punned", 3, "", 1e-6, thirds);
    assert_twin("punned", 4, "", 1e-6, |x, factor| {
        let doubled = |x: f64| if x < 0.0 { x } else { x * 2.0 };
        thirds(x, factor).into_iter().map(doubled).collect()
    });
    let reversed = |x: &[f64], factor: f64| {
        let rows = thirds(x, factor);
        rows.chunks(32).flat_map(|row| row.iter().rev().copied()).collect::<Vec<_>>()
    };
    assert_twin("punned", 5, "", 1e-6, |x, factor| {
        reversed(x, factor).iter().zip(x).map(|(third, x)| third + x).collect()
    });
    assert_twin("punned", 6, "", 1e-6, reversed);
    assert_twin("punned", 7, "", 1e-6, thirds);
}

#[test]
fn bytes_written_as_numbers_that_cannot_be_widened_end_the_shadow_at_their_line() {
    let ends = [8, 9, 10].map(|which| shadow("punned", which, "").unwrap_err());
    insta::assert_snapshot!(ends.join("\n"), @"
    src/punned.cu:90: memcpy(copy, own, 16)
    src/punned.cu:96: (float*)
    src/punned.cu:123: (float*)
    ");
}
