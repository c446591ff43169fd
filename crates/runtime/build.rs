//! Compiles the C++ that every artifact holds once, so that no replay has to wait for it.

#[path = "src/flags.rs"]
mod flags;

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for (precision, flag) in
        [("NATIVE", None), ("SHADOW", Some(flags::SHADOW)), ("CHECKED", Some(flags::CHECKED))]
    {
        let object = compile_definitions(&out.join(precision), flag);
        println!("cargo::rustc-env=REPLAY_DEFINITIONS_{precision}={}", object.display());
    }
    // The library for the compiler adds the variables that name it.
    for input in ["build.rs", "src/flags.rs", "src/definitions.cpp", "include"] {
        println!("cargo::rerun-if-changed={input}");
    }
}

/// Compiles the definitions into `folder`; returns the object.
fn compile_definitions(folder: &Path, precision: Option<&str>) -> PathBuf {
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .no_default_flags(true)
        .flag(flags::STANDARD)
        // Zig's compiler adds debug information unasked.
        .flags(["-O2", "-g0"])
        .flags(flags::FLAGS)
        .flags(["-include", flags::PRELUDE])
        .flags(precision)
        .include("include")
        .file("src/definitions.cpp")
        .out_dir(folder);
    build.compile_intermediates().remove(0)
}
