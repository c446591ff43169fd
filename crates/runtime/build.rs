//! Compiles the C++ that every artifact holds once, so that no replay has to wait for it.

#[path = "src/flags.rs"]
mod flags;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What the objects are made from, besides the compiler.
const INPUTS: [&str; 4] = ["build.rs", "src/flags.rs", "src/definitions.cpp", "include"];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for (precision, flag) in
        [("NATIVE", None), ("SHADOW", Some(flags::SHADOW)), ("CHECKED", Some(flags::CHECKED))]
    {
        let object = definitions(&out.join(precision), flag);
        println!("cargo::rustc-env=REPLAY_DEFINITIONS_{precision}={}", object.display());
    }
    for input in INPUTS {
        println!("cargo::rerun-if-changed={input}");
    }
}

/// The object of the definitions; compiled if it is older than what it is made from.
fn definitions(folder: &Path, precision: Option<&str>) -> PathBuf {
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .no_default_flags(true)
        .flags(flags::FLAGS)
        .flags(flags::PRELUDE)
        .flags(precision)
        .include("include")
        .file("src/definitions.cpp")
        .out_dir(folder);
    let made_with = folder.join("made-with");
    let made = folder.join("made");
    let compiler = format!("{:?}", build.get_compiler().to_command());
    let known = fs::read_to_string(&made).map(PathBuf::from);
    if let Ok(object) = known
        && fs::read_to_string(&made_with).is_ok_and(|with| with == compiler)
        && let Some(age) = modified(&object)
        && INPUTS.iter().all(|input| newest(Path::new(input)).is_some_and(|time| time < age))
    {
        return object;
    }
    let object = build.compile_intermediates().remove(0);
    fs::write(made_with, compiler).expect("cargo's folder can be written");
    fs::write(made, object.to_str().expect("a path in UTF-8")).expect("so can it here");
    object
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|file| file.modified()).ok()
}

/// When `path`, or anything in it, was changed last.
fn newest(path: &Path) -> Option<SystemTime> {
    let inside = fs::read_dir(path).into_iter().flatten().flatten();
    inside.filter_map(|entry| newest(&entry.path())).chain(modified(path)).max()
}
