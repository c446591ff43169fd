//! Whether kernels may run eight threads at once in this processor's vectors, and the options for it. Bits do not
//! depend on it.

/// The options of `replay/lanes.h` for the widest vectors of this processor, or none if they are too narrow.
pub(super) fn vector_options() -> Option<Vec<String>> {
    let mut flags = match widest_vector_bits()? {
        512 => vec![r#"-DREPLAY_LANES="avx512f,avx512dq,avx512vl,avx512bw""#, "-DREPLAY_LANES_512"],
        _ => vec![r#"-DREPLAY_LANES="avx2,fma""#],
    };
    flags.extend(["-Wno-psabi", "-include", "replay/lanes.h"]);
    Some(flags.into_iter().map(str::to_owned).collect())
}

#[cfg(target_arch = "x86_64")]
fn widest_vector_bits() -> Option<u32> {
    let has_avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512bw");
    if has_avx512 {
        Some(512)
    } else {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(256)
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn widest_vector_bits() -> Option<u32> {
    None
}
