//! Loops over elements, compiled again for the widest vectors of the processor.
//!
//! Nothing is reordered or contracted, so all give the same bits.
#![allow(unsafe_code)]

/// The value of the expression `$work`. It is compiled for each kind of vectors, with everything inlined into it.
#[macro_export]
macro_rules! widest {
    // Without inlining, it is compiled once, for the vectors of every processor.
    ($work:expr) => {
        $crate::tensor::vectors::in_widest(
            #[inline(always)]
            || $work,
        )
    };
}
pub use widest;

/// The result of `work`. It must be inlined; [`widest`] takes care of it.
#[inline]
pub fn in_widest<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            // SAFETY: the processor has these features, as was just asked.
            return unsafe { in_avx512(work) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has this feature, as was just asked.
            return unsafe { in_avx2(work) };
        }
    }
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
fn in_avx512<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn in_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}
