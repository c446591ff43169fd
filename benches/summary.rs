//! The summary of a tensor against a plain read of the same memory by the same threads.
//!
//! Prints both in GB/s and their ratio; `ci/bench` holds the ratio to its bound.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rayon::prelude::*;
use replay::summary::summarize_tensor;
use replay::tensor::{DType, TensorView};

const ELEMENTS: usize = 64 << 20;
const ROUNDS: usize = 9;
/// The least speed of the pass, as a part of that of a plain read.
const BOUND: f64 = 0.5;

fn main() {
    let values: Vec<u8> = (0..ELEMENTS as u32)
        .into_par_iter()
        .flat_map_iter(|i| {
            let x = i.wrapping_mul(0x9e37_79b9) >> 8;
            (x as f32 / 8388608.0 - 1.0).to_le_bytes()
        })
        .collect();
    let view = TensorView { dtype: DType::F32, shape: &[ELEMENTS], bytes: &values };
    // Alternating, so that both meet the same neighbours; the fastest round of each counts.
    let mut read = Duration::MAX;
    let mut pass = Duration::MAX;
    for _ in 0..ROUNDS {
        read = read.min(time(|| plain_read(&values)));
        pass = pass.min(time(|| summarize_tensor(&view, None).zeros));
    }
    let speed = |time: Duration| values.len() as f64 / time.as_secs_f64() / 1e9;
    let ratio = speed(pass) / speed(read);
    println!("summary    read {:5.1} GB/s   pass {:5.1} GB/s", speed(read), speed(pass));
    println!("summary-over-read {ratio:.3} at-least {BOUND}");
    if ratio < BOUND {
        std::process::exit(1);
    }
}

fn plain_read(bytes: &[u8]) -> u64 {
    let sum = |part: &[u8]| {
        let words = part.as_chunks::<8>().0;
        words.iter().fold(0u64, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)))
    };
    bytes.par_chunks(1 << 18).map(sum).reduce(|| 0, u64::wrapping_add)
}

fn time(run: impl Fn() -> u64) -> Duration {
    let begun = Instant::now();
    black_box(run());
    begun.elapsed()
}
