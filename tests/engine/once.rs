//! What is compiled how often.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use replay::frontend::Precision;

use super::project::{Machine, Project, replayer_in};

/// A compiler that does what `CXX` or g++ does, and writes down with what words it was called.
fn writing_compiler(folder: &Path) -> String {
    let (script, log) = (folder.join("compiler"), folder.join("log"));
    let real = std::env::var("CXX").unwrap_or("g++".to_owned());
    let text = format!("#!/bin/sh\necho \"$@\" >> '{}'\nexec {real} \"$@\"\n", log.display());
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script.display().to_string()
}

/// The calls of the compiler but for the one that asks for its version: to precompile, compile, link.
fn calls(folder: &Path) -> [usize; 3] {
    let log = fs::read_to_string(folder.join("log")).unwrap();
    let count = |word: &str| log.lines().filter(|line| line.contains(word)).count();
    [count("c++-header"), count("-c unit.cpp"), count("-shared")]
}

fn project(text: &str) -> Project {
    let tables = "[inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                  [outputs.out]\ndtype = \"f32\"\nshape = [\"n\"]\n";
    Project::new(text, "x, out", tables, &[1.0, 2.0])
}

#[test]
fn many_variants_are_compiled_once_each_with_a_precompiled_header() {
    let folder = tempfile::tempdir().unwrap();
    let replayer = replayer_in(folder.path(), &writing_compiler(folder.path()), Machine::PLAIN);
    replayer.toolchain().expect_many();
    for (number, include) in ["", "#include <cuda_runtime.h>\n"].into_iter().enumerate() {
        let text = format!(
            "// {number}\n{include}static void case_only(const float* x, float* out) {{ out[0] = x[0]; }}\n"
        );
        for precision in [Precision::Native, Precision::Shadow] {
            project(&text).compiled("only", &replayer, precision);
        }
    }
    // clang++ would not find a precompiled header there.
    let is_clang = replayer.toolchain().compiler().version().contains("clang");
    assert_eq!(calls(folder.path()), [if is_clang { 0 } else { 2 }, 4, 4]);
}

#[test]
fn a_compiler_works_in_a_folder_whose_name_is_no_text() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join(std::ffi::OsStr::from_bytes(b"no text: \xff\n$'"));
    let replayer = replayer_in(&place, "", Machine::PLAIN);
    let project = project("static void case_only(const float* x, float* out) { out[0] = x[0]; }\n");
    for fresh in [true, false] {
        assert_eq!(project.compiled("only", &replayer, Precision::Native).fresh, fresh);
    }
}

#[test]
fn what_two_threads_ask_for_at_a_time_is_compiled_once() {
    let folder = tempfile::tempdir().unwrap();
    let replayer = replayer_in(folder.path(), &writing_compiler(folder.path()), Machine::PLAIN);
    let project = project("static void case_only(const float* x, float* out) { out[0] = x[0]; }\n");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| project.compiled("only", &replayer, Precision::Native));
        }
    });
    assert_eq!(calls(folder.path())[1], 1);
}
