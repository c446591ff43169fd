//! Headers outside of the repository: folders of this machine, and submodules, which no revision holds.

use std::fs;

use crate::common::env::{Run, TestEnv};
use crate::common::repo::TestRepo;

const KERNEL: &str = "\
#include <vendor/scale.h>
__global__ void scale(const float* x, float* y, int n)
{
    int i = threadIdx.x;
    if (i < n) y[i] = vendor::scaled(x[i]);
}
";

/// A kernel that includes a vendor's header, which lies in `vendor_headers` beside the repository.
fn project(include: &str, system_include: bool) -> TestEnv {
    let env = TestEnv::isolated().with_kernel(KERNEL, "scale<<<1, n>>>(x, y, n);");
    let path = env.path("replay.toml");
    let harness = fs::read_to_string(&path).unwrap();
    let folder = env.repo.beside("vendor_headers");
    let folder =
        if system_include { format!("system_include = [{folder:?}]\n") } else { String::new() };
    fs::write(&path, format!("include = [{include:?}]\n{folder}{harness}")).unwrap();
    env
}

fn write_header(env: &TestEnv, factor: &str) {
    let folder = env.repo.beside("vendor_headers/vendor");
    fs::create_dir_all(&folder).unwrap();
    let text = format!(
        "#pragma once\nnamespace vendor {{ template <class T> __host__ __device__ T scaled(T x) {{ return {factor} * x; }} }}\n"
    );
    fs::write(folder.join("scale.h"), text).unwrap();
}

fn checksum(run: &Run) -> String {
    assert_eq!(run.code, Some(0), "{}", run.text());
    let line = run.stdout.lines().find(|line| line.trim_start().starts_with("y "));
    line.expect("an output").to_owned()
}

#[test]
fn headers_outside_of_the_repository_are_found_and_are_part_of_the_key_by_their_content() {
    let env = project(".", true);
    let with = |factor: &str| {
        write_header(&env, factor);
        // A header of the moment of the compilation belongs to no key.
        std::thread::sleep(std::time::Duration::from_millis(20));
        checksum(&env.replay(&["fixtures/tiny"]))
    };
    let two = with("2");
    let three = with("3");
    assert_ne!(two, three);
    assert_eq!(two, with("2"));
}

#[test]
fn a_folder_that_is_not_there_is_no_fault_of_the_revision() {
    let run = project(".", true).replay(&["fixtures/tiny"]);
    assert_eq!(run.code, Some(128), "{}", run.text());
    assert!(
        run.stderr.contains("vendor_headers, which `system_include` names, is no folder"),
        "{}",
        run.text()
    );
    assert!(run.stderr.contains("hint: check it out there, or edit "), "{}", run.text());
}

#[test]
fn a_header_that_a_submodule_would_hold_names_the_submodule() {
    for include in [".", "third_party", "third_party/lib"] {
        let env = project(include, false);
        let library = TestRepo::new();
        library.commit_file("vendor/scale.h", "", "A header");
        let url = library.root();
        env.repo.git(&["submodule", "--quiet", "add", url.to_str().unwrap(), "third_party/lib"]);
        let kernel = KERNEL.replace(
            "vendor/scale.h",
            match include {
                "." => "third_party/lib/vendor/scale.h",
                "third_party" => "lib/vendor/scale.h",
                _ => "vendor/scale.h",
            },
        );
        env.repo.write("k.cu", kernel);
        env.repo.commit("Use a library");
        let run = env.replay(&["fixtures/tiny", "--rev", "HEAD"]);
        assert_eq!(run.code, Some(125), "{}", run.text());
        let hint = "third_party/lib is a submodule, so no revision of this repository holds its headers: \
                    check them out (`git submodule update --init`), and name the folder in `system_include`";
        assert!(run.text().contains(hint), "{include}: {}", run.text());
    }
}

#[test]
fn a_name_of_another_source_without_a_declaration_is_told_with_where_it_is() {
    let kernel = "__global__ void k(const float* x, float* y, int n) { y[threadIdx.x] = half(x[threadIdx.x]); }\n";
    let env = TestEnv::new().with_kernel(kernel, "k<<<1, n>>>(x, y, n);");
    let path = env.path("replay.toml");
    let harness = fs::read_to_string(&path).unwrap();
    fs::write(&path, harness.replace("[\"k.cu\"]", "[\"a.cu\", \"k.cu\"]")).unwrap();
    let definition = "__device__ float half(float x) { return x / 2; }\n";
    env.repo.write("a.cu", definition);
    let run = env.replay(&["fixtures/tiny"]);
    assert_eq!(run.code, Some(125), "{}", run.text());
    let hint = "hint: a.cu defines `half`, and each source is compiled by itself, as nvcc does: declare it where it is used";
    assert!(run.text().contains(hint), "{}", run.text());
    env.repo.write("k.cu", format!("__device__ float half(float x);\n{kernel}"));
    assert_eq!(env.replay(&["fixtures/tiny"]).code, Some(0));
}

#[test]
fn a_name_that_no_source_defines_is_told_with_the_file_that_names_it() {
    let kernel = "int missing(int n);\n__global__ void k(const float* x, float* y, int n) { y[threadIdx.x] = x[threadIdx.x]; }\nvoid run(const float* x, float* y, int n) { k<<<1, missing(n)>>>(x, y, n); }\n";
    let env = TestEnv::new().with_kernel(kernel, "run(x, y, n);");
    let run = env.replay(&["fixtures/tiny"]);
    assert_eq!(run.code, Some(125), "{}", run.text());
    let text = run.text().replace('`', "'");
    assert!(
        text.contains("the sources do not compile: undefined reference to 'missing(int)'"),
        "{text}"
    );
    let hint =
        "hint: k.cu names 'missing', and none of 'sources' defines it: add the file that does";
    assert!(text.contains(hint), "{text}");
}

#[test]
fn a_header_without_a_guard_and_a_name_of_two_sources_are_told_where_they_are_compiled_together() {
    const KERNEL: &str = "#include \"pair.h\"\nGIVEN\n__global__ void k(const float* x, float* y, int n) { y[threadIdx.x] = x[threadIdx.x]; }\n";
    let env = TestEnv::new().with_kernel("", "k<<<1, n>>>(x, y, n);");
    let path = env.path("replay.toml");
    let harness = fs::read_to_string(&path)
        .unwrap()
        .replace("sources = [\"k.cu\"]", "sources = [\"k.cu\", \"l.cu\"]\ninclude = [\".\"]");
    let with_call = |call: &str| {
        let text = harness.replace("k<<<1, n>>>(x, y, n);", call);
        assert!(text.contains("l.cu") && text.contains(call), "{text}");
        fs::write(&path, text).unwrap();
        env.replay(&["fixtures/tiny"])
    };
    let hint_of = |call: &str| {
        let run = with_call(call);
        assert_eq!(run.code, Some(125), "{}", run.text());
        let hint =
            run.text().lines().find(|line| line.contains("hint: ")).expect("a hint").to_owned();
        hint.split("; the whole log").next().unwrap_or_default().trim().to_owned()
    };
    let apart = "k<<<1, n>>>(x, y, n); other();";
    let together = "{ k<<<1, n>>>(x, y, n); other(); }";
    env.repo.write("pair.h", "struct Pair { float first, second; };\n");
    env.repo.write("k.cu", KERNEL.replace("GIVEN", ""));
    env.repo.write("l.cu", "#include \"pair.h\"\nvoid other() {}\n");
    assert_eq!(with_call(apart).code, Some(0));
    insta::assert_snapshot!(hint_of(together), @"hint: pair.h is read twice, and has no guard such as `#pragma once`: add one; sources are compiled together on a GPU, and where one statement of the call names several: let each statement name one");
    env.repo.write("pair.h", "#pragma once\nvoid scale(float* x);\n");
    env.repo.write("l.cu", "#include \"pair.h\"\nvoid scale(float* x) {}\nvoid other() {}\n");
    env.repo.write("k.cu", KERNEL.replace("GIVEN", "void scale(float* x) {}"));
    assert_eq!(with_call(apart).code, Some(0));
    insta::assert_snapshot!(hint_of(together), @"hint: l.cu defines a name once more; sources are compiled together on a GPU, and where one statement of the call names several: let each statement name one");
}

#[test]
fn what_libraries_write_for_nvcc_compiles_as_it_is() {
    const KERNEL: &str = "\
#include <vendor/numbers.h>
__global__ void scale(const float* x, float* y, int n)
{
    CUTLASS_PRAGMA_UNROLL
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        CUTE_UNROLL
        for (int k = 0; k < 2; k++) y[i] = vendor::rounded(x[i] / 2) + vendor::HALF * cuCabsf(vendor::product(x[i]));
    }
}
";
    // nvcc alone passes over `::arg`: it reads no template before its use.
    const NUMBERS: &str = "\
#pragma once
#include <cuComplex.h>
#include \"cutlass/detail/helper_macros.hpp\"
#include <cute/config.hpp>
namespace vendor {
#if defined(__CUDACC__) && !defined(EIGEN_NO_CUDA)
template <class T> T arg(T x) { using ::arg; return arg(x); }
#endif
namespace numext {
template <class T> __device__ T rint(const T& x) { return ::rint(x); }
}
template <class T> __device__ T rounded(const T& x) { using numext::rint; return rint(x); }
template <class T> constexpr T magnitude(T x) { return x; }
template <> constexpr float magnitude<float>(float x) { return fabsf(x); }
constexpr float HALF = magnitude(-0.5f);
__device__ inline cuComplex product(float x) {
  return cuCdivf(cuCmulf(make_cuComplex(x, 0), make_cuComplex(3, 4)), make_cuComplex(0, 1));
}
}
";
    let env = TestEnv::isolated().with_kernel(KERNEL, "scale<<<1, 2>>>(x, y, n);");
    let folder = env.repo.beside("vendor_headers");
    let harness = fs::read_to_string(env.path("replay.toml")).unwrap();
    fs::write(env.path("replay.toml"), format!("system_include = [{folder:?}]\n{harness}"))
        .unwrap();
    let unroll = |name: &str| format!("#pragma once\n#define {name} #pragma unroll\n");
    for (path, text) in [
        ("vendor/numbers.h", NUMBERS.to_owned()),
        ("cutlass/detail/helper_macros.hpp", unroll("CUTLASS_PRAGMA_UNROLL")),
        ("cute/config.hpp", unroll("CUTE_UNROLL")),
    ] {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let run = env.replay(&["fixtures/tiny", "--check=always"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    let values = run.stdout.lines().find(|line| line.trim_start().starts_with("norm"));
    insta::assert_snapshot!(values.unwrap_or_default().trim(), @"norm 16.6283  min 2.5  max 12  mean 7.5  zeros 0  NaN 0  Inf 0  unwritten 0");
}
