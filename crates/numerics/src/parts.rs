//! One pass over many elements, in parts side by side.

use std::ops::Range;

use rayon::prelude::*;

/// Elements of one part. The number is fixed: sums do not depend on the number of threads.
const PART: usize = 1 << 18;

/// What `measure` says of each part of `count` elements, in their order.
pub(super) fn measure_parts<T: Send>(
    count: usize,
    measure: impl Fn(Range<usize>) -> T + Sync,
) -> Vec<T> {
    let parts = (0..count.div_ceil(PART)).into_par_iter();
    parts.map(|part| measure(part * PART..count.min((part + 1) * PART))).collect()
}
