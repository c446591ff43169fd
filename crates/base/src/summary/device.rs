//! Summaries made by a GPU: the kernel, and the addition of its blocks' shares on the host.
//!
//! Text and arithmetic only; NVRTC's call and the launch are made elsewhere.

use super::checksum::ChecksumSums;
use super::pass::SummaryPart;
use super::sketch::{PROJECTIONS, Sketch};
use super::{Summary, close_summary, is_safe, join_summary_parts};
use crate::tensor::DType;

/// A file of the kernel, whose lines keep their numbers in messages.
macro_rules! source {
    ($file:literal) => {
        concat!("#line 1 \"", $file, "\"\n", include_str!(concat!("device/", $file)))
    };
}

/// The kernel `summarize`, for the element type in the macro `ELEMENT`.
pub const SOURCE: &str = concat!(
    source!("units.cuh"),
    source!("words.cuh"),
    source!("halves.cuh"),
    source!("bytes.cuh"),
    source!("elements.cuh"),
    source!("checksum.cuh"),
    source!("tally.cuh"),
    source!("queue.cuh"),
    source!("summarize.cu"),
);

/// The share of one block of the kernel in a summary.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct DevicePart {
    pub x: u64,
    pub y: u64,
    pub buckets: [f64; PROJECTIONS],
    pub sum: f64,
    pub squares: f64,
    pub min: f64,
    pub max: f64,
    pub zeros: u64,
    pub nan: u64,
    pub inf: u64,
    pub unwritten: u64,
}

/// The name of `dtype` in the kernel.
pub fn kernel_element_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "F64",
        DType::F32 => "F32",
        DType::F16 => "F16",
        DType::BF16 => "BF16",
        DType::F8E4M3 => "E4M3",
        DType::F8E5M2 => "E5M2",
        DType::I64 => "I64",
        DType::I32 => "I32",
        DType::I16 => "I16",
        DType::I8 => "I8",
        DType::U64 => "U64",
        DType::U32 => "U32",
        DType::U16 => "U16",
        DType::U8 | DType::Bool => "U8",
    }
}

/// The summary of a tensor from the `parts` of its blocks; none if the plain sums leave the range of
/// float64: this takes a second pass over the elements.
pub fn combine_device_parts(
    parts: &[DevicePart],
    dtype: DType,
    shape: &[usize],
) -> Option<Summary> {
    let mut total = parts.iter().map(DevicePart::part).reduce(join_summary_parts)?;
    total.finite = shape.iter().product::<usize>() as u64 - total.nan - total.inf;
    let max_abs = if total.finite == 0 { 0.0 } else { total.max.max(-total.min) };
    let moments = (total.sum_of_squares.sqrt(), total.sum / total.finite as f64);
    is_safe(&total, max_abs).then(|| close_summary(&total, dtype, shape, max_abs, moments))
}

impl DevicePart {
    fn part(&self) -> SummaryPart {
        SummaryPart {
            sums: ChecksumSums { x: self.x, y: self.y },
            sketch: Sketch::of_buckets(self.buckets),
            finite: 0,
            sum: self.sum,
            sum_of_squares: self.squares,
            min: self.min,
            max: self.max,
            zeros: self.zeros,
            nan: self.nan,
            inf: self.inf,
            unwritten: self.unwritten,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_every_dtype_and_fills_the_host_s_part() {
        let kernel = SOURCE.lines().filter(|line| !line.starts_with("//")).collect::<Vec<_>>();
        for dtype in DType::ALL {
            let element = format!("struct {} : ", kernel_element_name(dtype));
            assert!(kernel.iter().any(|line| line.starts_with(&element)), "{dtype}");
        }
        // Six numbers of the checksum's and the sums', sixteen buckets, four counts.
        assert_eq!(size_of::<DevicePart>(), (2 + PROJECTIONS + 4 + 4) * 8);
        assert!(SOURCE.contains("double buckets[16];") && PROJECTIONS == 16);
    }
}
