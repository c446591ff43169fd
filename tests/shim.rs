//! The C++ headers of the CPU reference machine, compiled as plain C++ with every compiler that
//! is here, unoptimised and optimised.

use std::path::{Path, PathBuf};
use std::process::Command;

use half::{bf16, f16};

use crate::common::compiled::Compilation;

/// What the artifact's code is compiled with, less the optimisation level.
const FLAGS: &[&str] = &[
    "-std=c++17",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-ffp-contract=off",
    "-fno-fast-math",
    "-fno-builtin",
    "-fsigned-char",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-frounding-math",
    "-fPIC",
    "-U_FORTIFY_SOURCE",
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The compilers of this machine; what is missing is said, not failed.
fn compilers() -> Vec<&'static str> {
    let found: Vec<_> = ["g++", "clang++"]
        .into_iter()
        .filter(|name| {
            let here = Command::new(name).arg("--version").output().is_ok();
            if !here {
                eprintln!("skipped {name}: not installed");
            }
            here
        })
        .collect();
    assert!(!found.is_empty(), "no C++ compiler is installed");
    found
}

/// The program of `text`, or what the compiler says.
fn compile(compiler: &str, flags: &[&str], text: &str) -> Result<PathBuf, String> {
    let root = root();
    let options = [FLAGS, flags].concat();
    let include = [&*root.join("crates/runtime/include"), &root.join("tests/shim")];
    Compilation { compiler, options: &options, include: &include, text }.compile()
}

/// Compiles a program of tests/shim in every way and runs it without arguments.
fn passes(program: &str) {
    let text = std::fs::read_to_string(root().join("tests/shim").join(program)).unwrap();
    for compiler in compilers() {
        for level in ["-O0", "-O3"] {
            let binary = compile(compiler, &[level], &text);
            let binary = binary.unwrap_or_else(|said| panic!("{compiler} {level}:\n{said}"));
            let ran = Command::new(binary).output().unwrap();
            let said = String::from_utf8_lossy(&ran.stderr);
            assert!(ran.status.success(), "{compiler} {level}:\n{said}");
        }
    }
}

/// Compiles `source`, without linking; the compiler's messages, or `None` if it compiled.
fn complaint(compiler: &str, flags: &[&str], source: &str) -> Option<String> {
    compile(compiler, &[flags, &["-O1", "-c"]].concat(), source).err()
}

#[test]
fn mathematics_has_the_documented_values_in_every_rounding_mode() {
    passes("math.cpp");
}

#[test]
fn every_name_of_the_math_api_is_declared() {
    let names = std::fs::read_to_string(root().join("tests/shim/names.cpp")).unwrap();
    for compiler in compilers() {
        for flags in [&[][..], &["-DREPLAY_SHADOW"]] {
            assert_eq!(complaint(compiler, flags, &names), None, "{compiler} {flags:?}");
        }
    }
}

#[test]
fn headers_compile_together_in_either_order() {
    let include = root().join("crates/runtime/include");
    let mut headers = Vec::new();
    for folder in ["", "crt", "cub", "cuda", "cuda/std", "thrust", "cooperative_groups"] {
        let files = include.join(folder).read_dir().unwrap().map(|entry| entry.unwrap());
        let files = files.filter(|entry| entry.file_type().unwrap().is_file());
        headers.extend(files.map(|entry| Path::new(folder).join(entry.file_name())));
    }
    headers.sort();
    assert!(headers.len() > 60);
    let lines = headers.iter().map(|header| format!("#include <{}>\n", header.display()));
    let forward: String = lines.clone().collect();
    let backward: String = lines.rev().collect();
    for includes in [forward, backward] {
        for compiler in compilers() {
            for flags in [&["-w"][..], &["-w", "-DREPLAY_SHADOW"], &["-w", "-std=c++20"]] {
                assert_eq!(complaint(compiler, flags, &includes), None, "{compiler} {flags:?}");
            }
        }
    }
}

#[test]
fn warps_groups_atomics_and_printf_do_as_the_programming_guide_says() {
    passes("device.cpp");
}

#[test]
fn narrow_types_round_once() {
    passes("narrow.cpp");
}

#[test]
fn the_shadow_never_rounds_to_less_than_double() {
    passes("shadow.cpp");
}

#[test]
fn the_bits_of_a_number_in_the_shadow_are_those_of_the_float() {
    passes("shadow_bits.cpp");
}

/// Rounding by search: the nearest value, or its neighbour on the side that the mode asks for.
fn rounded(bits: u16, value: f64, exact: f64, mode: usize) -> u16 {
    let wrong_side = match mode {
        1 => value > exact,
        2 => value < exact,
        3 => value.abs() > exact.abs(),
        _ => false,
    };
    // Bits count away from zero; a value that is too near to zero moves away from it.
    match (wrong_side, value.abs() > exact.abs()) {
        (false, _) => bits,
        (true, true) => bits - 1,
        (true, false) => bits + 1,
    }
}

#[test]
fn conversions_agree_with_an_independent_implementation() {
    let source = std::fs::read_to_string(root().join("tests/shim/narrow.cpp")).unwrap();
    let binary = compile(compilers()[0], &["-O2"], &source).unwrap();
    let table = Command::new(binary).arg("table").output().unwrap().stdout;
    assert!(table.len() > 500_000 * 20);
    for row in table.chunks_exact(20) {
        let bits = u32::from_le_bytes(row[..4].try_into().unwrap());
        let got = |at: usize| u16::from_le_bytes([row[4 + 2 * at], row[5 + 2 * at]]);
        let x = f32::from_bits(bits);
        let half = f16::from_f32(x);
        let bfloat = bf16::from_f32(x);
        for mode in 0..4 {
            let (want_half, want_bfloat) = if x.is_nan() {
                (0x7fff, 0x7fff)
            } else {
                (
                    rounded(half.to_bits(), half.to_f64(), f64::from(x), mode),
                    rounded(bfloat.to_bits(), bfloat.to_f64(), f64::from(x), mode),
                )
            };
            assert_eq!(got(mode), want_half, "half of {bits:#x}, rounding {mode}");
            assert_eq!(got(4 + mode), want_bfloat, "bfloat16 of {bits:#x}, rounding {mode}");
        }
    }
}

#[test]
fn the_c_and_cpp_libraries_mathematics_may_come_before_and_after_ours() {
    let ours = "#include \"replay/math.h\"\n";
    let uses = "float f(float x) { return exp(x) + expf(x) + std::exp(x) + fabs(x) + max(x, 1.f); }\n\
                int g(float x) { return isnan(x) + std::isinf(x) + abs(-1) + std::abs(-1); }\n\
                double h(double x) { return exp(x) + std::pow(x, 2) + sqrt(x) + abs(x); }\n\
                #include \"replay/math_definitions.h\"\n";
    let check = |theirs: &[&str], flags: &[&str]| {
        let theirs: String = theirs.iter().map(|name| format!("#include <{name}>\n")).collect();
        for source in [format!("{theirs}{ours}{uses}"), format!("{ours}{theirs}{uses}")] {
            for compiler in compilers() {
                let said = complaint(compiler, flags, &source);
                assert_eq!(said, None, "{compiler} {flags:?}\n{source}");
            }
        }
    };
    let every = ["cstdlib", "complex", "random", "algorithm", "cmath", "math.h", "stdlib.h"];
    check(&["math.h"], &[]);
    check(&every, &[]);
    check(&every, &["-DREPLAY_SHADOW"]);
}

#[test]
fn what_is_not_supported_does_not_compile_and_is_named() {
    let cases = [
        ("replay/math.h", "double f(double x) { return j0(x); }", "j0: Bessel functions"),
        (
            "replay/warp.h",
            "int f(int x) { return __shfl(x, 0); }",
            "__shfl: removed from CUDA, use __shfl_sync",
        ),
        (
            "mma.h",
            "nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 4, float> f;",
            "wmma: no such shape for this type of element",
        ),
        (
            "cuda_runtime.h",
            "int f() { return cudaGraphAddKernelNode(0); }",
            "cudaGraphAddKernelNode: graphs made node by node are not supported, capture a stream",
        ),
        (
            "cuda_runtime.h",
            "void f() REPLAY_UNSUPPORTED(\"PTX (wgmma) is not supported on the CPU\");\n\
             void g() { f(); }",
            "PTX (wgmma) is not supported on the CPU",
        ),
    ];
    for (header, source, named) in cases {
        for compiler in compilers() {
            let said = complaint(compiler, &[], &format!("#include \"{header}\"\n{source}\n"))
                .unwrap_or_else(|| panic!("{compiler} compiled {source}"));
            assert!(said.contains(named), "{compiler}: {said}");
        }
    }
}

#[test]
fn bit_patterns_compile_in_the_shadow_and_end_it_by_name() {
    let cases = [
        ("replay/math.h", "int f(double x) { return __float_as_int(x); }", "__float_as_int"),
        ("cuda_fp16.h", "int f(__half x) { return __half_as_ushort(x); }", "__half_as_ushort"),
        (
            "cuda_fp8.h",
            "int f(double x) { return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3); }",
            "__nv_cvt_float_to_fp8",
        ),
    ];
    for (header, source, name) in cases {
        let source = format!("#include \"{header}\"\n{source}\n");
        for compiler in compilers() {
            assert_eq!(complaint(compiler, &[], &source), None);
            assert_eq!(complaint(compiler, &["-DREPLAY_SHADOW"], &source), None, "{name}");
        }
    }
}
