//! Compiles the C++ that every artifact holds once, so that no replay has to wait for it.

#[path = "src/compile/flags.rs"]
mod flags;

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=src/runtime/include");
    println!("cargo::rerun-if-changed=src/runtime/definitions.cpp");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for (precision, shadow) in [("NATIVE", None), ("SHADOW", Some(flags::SHADOW))] {
        let objects = cc::Build::new()
            .cpp(true)
            .no_default_flags(true)
            .flags(flags::FLAGS)
            .flags(flags::PRELUDE)
            .flags(shadow)
            .include("src/runtime/include")
            .file("src/runtime/definitions.cpp")
            .out_dir(out.join(precision))
            .compile_intermediates();
        println!("cargo::rustc-env=REPLAY_DEFINITIONS_{precision}={}", objects[0].display());
    }
}
