//! Tensors: element type, shape, and bytes in row-major order.
//!
//! Nothing here reads files, knows of devices, or judges numbers.

pub mod constraint;
pub mod float8;
pub mod parallel;
pub mod step;
pub mod vectors;

use std::fmt;

pub use self::parallel::count_cores;

use half::{bf16, f16};
use serde::{Deserialize, Serialize};

/// The element type of a tensor.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// IEEE 754 binary64.
    F64,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16, CUDA's `__half`.
    F16,
    /// bfloat16, CUDA's `__nv_bfloat16`.
    BF16,
    /// 8-bit floating point with four bits of exponent and no infinity, CUDA's `__nv_fp8_e4m3`.
    #[serde(rename = "f8_e4m3")]
    F8E4M3,
    /// 8-bit floating point with five bits of exponent, CUDA's `__nv_fp8_e5m2`.
    #[serde(rename = "f8_e5m2")]
    F8E5M2,
    /// 64-bit signed integer.
    I64,
    /// 32-bit signed integer.
    I32,
    /// 16-bit signed integer.
    I16,
    /// 8-bit signed integer.
    I8,
    /// 64-bit unsigned integer.
    U64,
    /// 32-bit unsigned integer.
    U32,
    /// 16-bit unsigned integer.
    U16,
    /// 8-bit unsigned integer.
    U8,
    /// One byte, 0 or 1, C++'s `bool`.
    Bool,
}

impl DType {
    /// Every element type, in the order of messages.
    pub const ALL: [DType; 15] = [
        DType::F64,
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::F8E4M3,
        DType::F8E5M2,
        DType::I64,
        DType::I32,
        DType::I16,
        DType::I8,
        DType::U64,
        DType::U32,
        DType::U16,
        DType::U8,
        DType::Bool,
    ];

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            DType::F64 | DType::I64 | DType::U64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 => 2,
            DType::F8E4M3 | DType::F8E5M2 | DType::I8 | DType::U8 | DType::Bool => 1,
        }
    }

    /// The name used in `replay.toml` and in reports, such as `f32`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F64 => "f64",
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F8E4M3 => "f8_e4m3",
            DType::F8E5M2 => "f8_e5m2",
            DType::I64 => "i64",
            DType::I32 => "i32",
            DType::I16 => "i16",
            DType::I8 => "i8",
            DType::U64 => "u64",
            DType::U32 => "u32",
            DType::U16 => "u16",
            DType::U8 => "u8",
            DType::Bool => "bool",
        }
    }

    /// Its type in CUDA C++, as in the parameters of `call`.
    pub const fn cuda_name(self) -> &'static str {
        match self {
            DType::F64 => "double",
            DType::F32 => "float",
            DType::F16 => "__half",
            DType::BF16 => "__nv_bfloat16",
            DType::F8E4M3 => "__nv_fp8_e4m3",
            DType::F8E5M2 => "__nv_fp8_e5m2",
            DType::I64 => "long long",
            DType::I32 => "int",
            DType::I16 => "short",
            DType::I8 => "signed char",
            DType::U64 => "unsigned long long",
            DType::U32 => "unsigned int",
            DType::U16 => "unsigned short",
            DType::U8 => "unsigned char",
            DType::Bool => "bool",
        }
    }

    /// The dtype called `name`, if there is one.
    pub fn parse(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Whether elements are floating-point numbers.
    pub const fn is_float(self) -> bool {
        match self {
            DType::F64 | DType::F32 | DType::F16 | DType::BF16 => true,
            _ => self.is_float8(),
        }
    }

    /// Writes the floating-point number of this format nearest to `x` to `element`, ties to even.
    ///
    /// # Panics
    /// If it is no floating-point format, or `element` has another size.
    pub fn write_nearest(self, x: f64, element: &mut [u8]) {
        match self {
            DType::F64 => element.copy_from_slice(&x.to_le_bytes()),
            DType::F32 => element.copy_from_slice(&(x as f32).to_le_bytes()),
            DType::F16 => element.copy_from_slice(&f16::from_f64(x).to_le_bytes()),
            DType::BF16 => element.copy_from_slice(&bf16::from_f64(x).to_le_bytes()),
            DType::F8E4M3 | DType::F8E5M2 => {
                element.copy_from_slice(&[float8::encode_float8(self, x)]);
            }
            _ => panic!("{self} holds integers"),
        }
    }

    /// Whether elements are floating-point numbers of 8 bits.
    pub const fn is_float8(self) -> bool {
        matches!(self, DType::F8E4M3 | DType::F8E5M2)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One dimension of a tensor: the number of elements, and its name in the harness.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Dim {
    /// The harness's name for it (`vocab`), or none where the harness wrote a number.
    pub name: Option<String>,
    /// The number of elements along it.
    pub size: usize,
}

/// The number of elements of a tensor of this shape; 1 for a scalar.
///
/// Returns `None` where the product does not fit in `usize`.
pub fn element_count(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |count, &size| count.checked_mul(size))
}

/// A borrowed tensor: packed, row-major, little-endian elements.
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a> {
    /// The element type.
    pub dtype: DType,
    /// The sizes of the dimensions, outermost first; empty for a scalar.
    pub shape: &'a [usize],
    /// `element_count(shape) * dtype.size()` bytes, at any alignment.
    pub bytes: &'a [u8],
}

impl TensorView<'_> {
    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() / self.dtype.size()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Element `index` (row-major) as float64: exact for every dtype but 64-bit integers beyond 2^53.
    ///
    /// # Panics
    /// If `index` is not below [`TensorView::len`].
    // Called for each element, from other packages.
    #[inline]
    pub fn get_f64(&self, index: usize) -> f64 {
        let size = self.dtype.size();
        let bytes = &self.bytes[index * size..(index + 1) * size];
        macro_rules! read {
            ($t:ty) => {
                <$t>::from_le_bytes(bytes.try_into().expect("the slice has the size of the dtype"))
            };
        }
        match self.dtype {
            DType::F64 => read!(f64),
            DType::F32 => f64::from(read!(f32)),
            DType::F16 => f64::from(f16::from_bits(read!(u16))),
            DType::BF16 => f64::from(bf16::from_bits(read!(u16))),
            DType::F8E4M3 => float8::E4M3[usize::from(bytes[0])],
            DType::F8E5M2 => float8::E5M2[usize::from(bytes[0])],
            DType::I64 => read!(i64) as f64,
            DType::I32 => f64::from(read!(i32)),
            DType::I16 => f64::from(read!(i16)),
            DType::I8 => f64::from(read!(i8)),
            DType::U64 => read!(u64) as f64,
            DType::U32 => f64::from(read!(u32)),
            DType::U16 => f64::from(read!(u16)),
            DType::U8 => f64::from(read!(u8)),
            DType::Bool => f64::from(bytes[0]),
        }
    }
}

impl TensorView<'_> {
    /// The elements as the nearest numbers of the floating-point format `dtype`, by up to `threads` threads.
    ///
    /// # Panics
    /// If it is no floating-point format.
    pub fn round_to(&self, dtype: DType, threads: usize) -> Vec<u8> {
        const BLOCK: usize = 1 << 10;
        let size = dtype.size();
        let mut rounded = vec![0; self.len() * size];
        parallel::fill_in_parallel(threads, &mut rounded, BLOCK * size, 1, |block, part| {
            let places = part.chunks_exact_mut(size).enumerate();
            places.for_each(|(index, place)| {
                dtype.write_nearest(self.get_f64(block * BLOCK + index), place);
            });
        });
        rounded
    }

    /// The elements from `first` on as float64, as [`TensorView::get_f64`] has them; as many as `out` holds.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn read(&self, first: usize, out: &mut [f64]) {
        vectors::widest!(self.read_inlined(first, out));
    }

    #[inline(always)]
    fn read_inlined(&self, first: usize, out: &mut [f64]) {
        let size = self.dtype.size();
        let bytes = &self.bytes[first * size..(first + out.len()) * size];
        macro_rules! read {
            ($bits:ty, $value:expr) => {{
                let elements = bytes.as_chunks::<{ size_of::<$bits>() }>().0;
                for (out, element) in out.iter_mut().zip(elements) {
                    *out = $value(<$bits>::from_le_bytes(*element));
                }
            }};
        }
        match self.dtype {
            DType::F64 => read!(u64, f64::from_bits),
            DType::F32 => read!(u32, |bits| f64::from(f32::from_bits(bits))),
            DType::F16 => read!(u16, |bits| f64::from(f16::from_bits(bits))),
            DType::BF16 => read!(u16, |bits| f64::from(bf16::from_bits(bits))),
            DType::F8E4M3 => read!(u8, |code| float8::E4M3[usize::from(code)]),
            DType::F8E5M2 => read!(u8, |code| float8::E5M2[usize::from(code)]),
            DType::I64 => read!(i64, |x| x as f64),
            DType::I32 => read!(i32, f64::from),
            DType::I16 => read!(i16, f64::from),
            DType::I8 => read!(i8, f64::from),
            DType::U64 => read!(u64, |x| x as f64),
            DType::U32 => read!(u32, f64::from),
            DType::U16 => read!(u16, f64::from),
            DType::U8 | DType::Bool => read!(u8, f64::from),
        }
    }
}

/// The index of element `linear` (row-major) along every dimension of `shape`.
///
/// # Panics
/// If a size is 0, where no element exists.
pub fn unravel_index(mut linear: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (slot, &size) in index.iter_mut().zip(shape).rev() {
        *slot = linear % size;
        linear /= size;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_is_found_by_its_name() {
        for dtype in DType::ALL {
            assert_eq!(DType::parse(dtype.name()), Some(dtype));
        }
        assert_eq!(DType::parse("float32"), None);
    }

    #[test]
    fn a_number_is_written_as_the_nearest_of_each_format() {
        let written = |dtype: DType, x: f64| {
            let mut element = vec![0; dtype.size()];
            dtype.write_nearest(x, &mut element);
            TensorView { dtype, shape: &[], bytes: &element }.get_f64(0)
        };
        let third = 1.0 / 3.0;
        let floats = DType::ALL.into_iter().filter(|dtype| dtype.is_float());
        let told: Vec<String> =
            floats.map(|dtype| format!("{dtype} {}", written(dtype, third))).collect();
        insta::assert_snapshot!(told.join("\n"), @"
        f64 0.3333333333333333
        f32 0.3333333432674408
        f16 0.333251953125
        bf16 0.333984375
        f8_e4m3 0.34375
        f8_e5m2 0.3125
        ");
    }

    #[test]
    fn unravel_is_the_inverse_of_row_major_order() {
        let shape = [2, 3, 5];
        for linear in 0..30 {
            let i = unravel_index(linear, &shape);
            assert_eq!((i[0] * 3 + i[1]) * 5 + i[2], linear);
        }
    }

    #[test]
    fn an_element_count_that_overflows_is_none() {
        assert_eq!(element_count(&[usize::MAX, 2]), None);
        assert_eq!(element_count(&[]), Some(1));
        assert_eq!(element_count(&[3, 0]), Some(0));
    }
}
