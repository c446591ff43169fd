//! Finds out what the program says of itself.

use std::env;
use std::fs;
use std::process::Command;

fn main() {
    println!("cargo::rustc-env=REPLAY_VERSION={}", version());
    // The commit is told as of the last build that had something to build: what a build would give
    // is the same, and a commit alone is no reason to build.
    for input in ["build.rs", "src", "crates", "Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={input}");
    }
}

/// Such as `0.2.0 (0123456789, rustc 1.90.0)`; without the commit where there is no repository.
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
