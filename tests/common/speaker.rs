//! A program that speaks the protocol of programs, in C++: `programs/speaker.cpp`.

use std::fs;
use std::path::PathBuf;

use crate::common::compiled::Compilation;

/// The program.
pub fn speaker() -> PathBuf {
    // Another machine may run the tests.
    let root = std::env::var_os("REPLAY_TEST_ROOT");
    let root = root.map_or(env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    let sources = root.join("tests/programs");
    let compilation = Compilation {
        compiler: &std::env::var("CXX").unwrap_or("g++".to_owned()),
        options: &["-std=c++17", "-O1", "-frounding-math"],
        include: &[&sources],
        text: &fs::read_to_string(sources.join("speaker.cpp")).expect("a source"),
    };
    compilation.compile().unwrap_or_else(|said| panic!("{said}"))
}
