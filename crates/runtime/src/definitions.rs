//! The object that every artifact contains, compiled with this program by `build.rs`.

/// With the sources' own meaning of `float`.
pub const NATIVE: &[u8] = include_bytes!(env!("REPLAY_DEFINITIONS_NATIVE"));

/// With `double` for `float`.
pub const SHADOW: &[u8] = include_bytes!(env!("REPLAY_DEFINITIONS_SHADOW"));

/// For artifacts that tell of each access.
pub const CHECKED: &[u8] = include_bytes!(env!("REPLAY_DEFINITIONS_CHECKED"));
