//! The options with an effect on bits, for everything in an artifact; `build.rs` uses them too.

/// The standard of C++ of everything but sources of another one.
pub const STANDARD: &str = "-std=c++17";

/// Options with an effect on bits, or on the sources' view of the headers, except for [`PRELUDE`] and [`STANDARD`].
/// The level of optimisation has no effect on bits.
pub const FLAGS: [&str; 15] = [
    "-x",
    "c++",
    "-w",
    "-fPIC",
    "-ffp-contract=off",
    "-fno-fast-math",
    "-frounding-math",
    "-fno-builtin",
    "-fsigned-char",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-U_FORTIFY_SOURCE",
    // The output does not depend on the date.
    "-D__DATE__=\"Jan  1 1970\"",
    "-D__TIME__=\"00:00:00\"",
    "-D__TIMESTAMP__=\"Thu Jan  1 00:00:00 1970\"",
];

/// The header before all sources: they see CUDA's without including it.
pub const PRELUDE: &str = "replay/prelude.h";

/// Makes `float`, `half` and `bf16` mean `double`: the float64 shadow.
pub const SHADOW: &str = "-DREPLAY_SHADOW";

/// Makes the headers tell of atomics made of plain accesses.
pub const CHECKED: &str = "-DREPLAY_CHECKED";
