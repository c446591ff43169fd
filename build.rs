//! Compiles the C++ that every artifact holds once, so that no replay has to wait for it, and finds
//! out what the program says of itself.

#[path = "src/compile/flags.rs"]
mod flags;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// What the objects are made from, besides the compiler.
const INPUTS: [&str; 4] =
    ["build.rs", "src/compile/flags.rs", "src/runtime/definitions.cpp", "src/runtime/include"];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for (precision, flag) in
        [("NATIVE", None), ("SHADOW", Some(flags::SHADOW)), ("CHECKED", Some(flags::CHECKED))]
    {
        let object = definitions(&out.join(precision), flag);
        println!("cargo::rustc-env=REPLAY_DEFINITIONS_{precision}={}", object.display());
    }
    println!("cargo::rustc-env=REPLAY_VERSION={}", version());
    // The commit is told as of the last build that had something to build: what a build would give
    // is the same, and a commit alone is no reason to build.
    for input in ["build.rs", "src", "Cargo.toml", "Cargo.lock"] {
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
        .include("src/runtime/include")
        .file("src/runtime/definitions.cpp")
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

/// Such as `0.1.0 (0123456789, rustc 1.90.0)`; without the commit where there is no repository.
fn version() -> String {
    let rustc = env::var_os("RUSTC").expect("cargo sets RUSTC");
    let rustc = said(Command::new(rustc).arg("--version")).unwrap_or("rustc".to_owned());
    let rustc = rustc.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    let about = commit().into_iter().chain([rustc]).collect::<Vec<_>>().join(", ");
    format!("{} ({about})", env!("CARGO_PKG_VERSION"))
}

/// The commit of this folder's own repository, and whether its files differ from it.
fn commit() -> Option<String> {
    let root = fs::canonicalize(ask_git(&["rev-parse", "--show-toplevel"])?).ok()?;
    if root != fs::canonicalize(env!("CARGO_MANIFEST_DIR")).ok()? {
        return None;
    }
    let commit = ask_git(&["rev-parse", "--short=10", "HEAD"])?;
    let same = ask_git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(if same { commit } else { commit + " with changes" })
}

fn ask_git(arguments: &[&str]) -> Option<String> {
    said(Command::new("git").args(arguments))
}

/// What a command prints, if it succeeds.
fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
