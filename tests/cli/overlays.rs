//! Stand-in headers outside of the revisions, and scalars and sizes without a tensor.

use std::fs;
use std::os::unix::fs::symlink;

use crate::common::env::{Run, TestEnv};

const KERNEL: &str = "#include <vendor/scale.cuh>\n\
                      __global__ void twice(const float* x, float* y, int n)\n\
                      { int i = threadIdx.x; if (i < n) y[i] = scaled(x[i]); }\n";
const HEADER: &str =
    "#pragma once\n__device__ inline float scaled(float x) { return FACTOR * x; }\n";

/// A kernel that includes a vendor's header, which lies in an overlay; the revision has another one.
fn overlaid() -> TestEnv {
    let env = TestEnv::isolated().with_kernel(KERNEL, "twice<<<1, n>>>(x, y, n);");
    env.repo.write("own/vendor/scale.cuh", "#error the revision's own header\n");
    let path = env.path("replay.toml");
    let harness = fs::read_to_string(&path).unwrap();
    let head = "include = [\"own\"]\noverlay = \"../stand_ins\"\n";
    fs::write(&path, format!("{head}{harness}")).unwrap();
    env.repo.commit("A header of the revision's own");
    fs::create_dir_all(env.repo.beside("stand_ins/vendor")).unwrap();
    write_header(&env, "2");
    env
}

fn write_header(env: &TestEnv, factor: &str) {
    let path = env.repo.beside("stand_ins/vendor/scale.cuh");
    fs::write(path, HEADER.replace("FACTOR", factor)).unwrap();
}

fn checksum(run: &Run) -> String {
    assert_eq!(run.code, Some(0), "{}", run.text());
    let line = run.stdout.lines().find(|line| line.trim_start().starts_with("y "));
    line.expect("an output").to_owned()
}

#[test]
fn an_overlay_comes_before_the_headers_of_a_revision_and_is_part_of_the_key() {
    let env = overlaid();
    let with = |factor: &str| {
        write_header(&env, factor);
        checksum(&env.replay(&["fixtures/tiny", "--rev", "HEAD"]))
    };
    let two = with("2");
    let three = with("3");
    let again = with("2");
    assert_ne!(two, three);
    assert_eq!(two, again);
    // Its floats are doubles in the shadow, too, and checked replays see its code.
    let run = env.replay(&["fixtures/tiny", "--against", "HEAD", "--check=always"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
}

#[test]
fn an_overlay_that_cannot_be_read_is_no_fault_of_the_revision() {
    let env = overlaid();
    let folder = env.repo.beside("stand_ins");
    let told = || {
        let run = env.replay(&["fixtures/tiny"]);
        assert_eq!(run.code, Some(128), "{}", run.text());
        run.stderr.replace(&env.repo.beside("").display().to_string(), "[DIR]/")
    };
    write_header(&env, "unknown");
    let run = env.replay(&["fixtures/tiny"]);
    assert_eq!(run.code, Some(125), "{}", run.text());
    assert!(run.text().contains("(overlay)/vendor/scale.cuh:2"), "{}", run.text());
    symlink("/etc/passwd", folder.join("out.h")).unwrap();
    insta::assert_snapshot!(told(), @"error: overlay `../stand_ins` has a symlink `out.h` that leads outside, to `/etc/passwd`");
    fs::remove_dir_all(&folder).unwrap();
    insta::assert_snapshot!(told(), @"
    error: the overlay `../stand_ins` is no folder
    caused by: No such file or directory (os error 2)
    hint: `overlay` in replay.toml is a folder of headers, relative to replay.toml
    ");
    fs::write(&folder, "").unwrap();
    insta::assert_snapshot!(told(), @"
    error: the overlay `../stand_ins` is no folder
    hint: `overlay` in replay.toml is a folder of headers, relative to replay.toml
    ");
}

const NUMBERED: &str = "\
    __global__ void k1(const float* x, float* y, float by) { y[threadIdx.x] = by * x[threadIdx.x]; }\n\
    __global__ void k2(const float* x, float* y, float by) { y[threadIdx.x] = x[threadIdx.x] * by; }\n\
    void scale(int kernel, const float* x, float* y, float by, int n, int copies) {\n\
      for (int c = 0; c < copies; c++)\n\
        if (kernel == 1) k1<<<1, n>>>(x, y + c * n, by); else k2<<<1, n>>>(x, y + c * n, by);\n\
    }\n";

#[test]
fn one_call_serves_all_numbered_kernels_through_a_scalar_of_the_fixture() {
    let env = TestEnv::new().with_kernel(NUMBERED, "scale(kernel, x, y, by, n, copies);");
    let harness = "sources = [\"k.cu\"]\nsizes = [\"copies\"]\n\
                   call = \"scale(kernel, x, y, by, n, copies);\"\n\
                   [inputs.kernel]\ndtype = \"i32\"\nshape = []\n\
                   [inputs.by]\ndtype = \"f32\"\nshape = []\n\
                   [inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                   [outputs.y]\ndtype = \"f32\"\nshape = [\"copies\", \"n\"]\n";
    fs::write(env.path("replay.toml"), harness).unwrap();
    let sums: Vec<String> = ["1", "2"]
        .iter()
        .map(|kernel| {
            let name = format!("fixtures/k{kernel}");
            fs::create_dir_all(env.path(&name)).unwrap();
            let text = format!(
                "harness = \"../../replay.toml\"\n[[files]]\npath = \"../tiny/inputs.safetensors\"\n\
                 [scalars]\nkernel = {kernel}\nby = 1.5\n[sizes]\ncopies = 3\n"
            );
            fs::write(env.path(&name).join("fixture.toml"), text).unwrap();
            checksum(&env.replay(&[&name]))
        })
        .collect();
    assert_eq!(sums[0], sums[1]);
    assert!(sums[0].contains("[copies 3, n 4]"), "{}", sums[0]);
}

const NARROWED: &str = "#include <cuda_bf16.h>\n\
    typedef __nv_bfloat16 floatX;\n\
    __global__ void twice_kernel(floatX* y, const floatX* x, int n)\n\
    { int i = threadIdx.x; if (i < n) y[i] = (floatX)(2.0f * (float)x[i]); }\n\
    void twice(floatX* y, const floatX* x, int n) { twice_kernel<<<1, n>>>(y, x, n); }\n";

#[test]
fn a_second_call_converts_where_a_kernel_began_to_take_another_dtype() {
    let second = "float* wide;\n\
        floatX *in, *out;\n\
        cudaMallocManaged(&wide, n * sizeof(float));\n\
        cudaMallocManaged(&in, n * sizeof(floatX));\n\
        cudaMallocManaged(&out, n * sizeof(floatX));\n\
        cudaMemcpy(wide, x, n * sizeof(float), cudaMemcpyDeviceToHost);\n\
        for (int i = 0; i < n; i++) in[i] = (floatX)wide[i];\n\
        twice(out, in, n);\n\
        cudaDeviceSynchronize();\n\
        for (int i = 0; i < n; i++) wide[i] = (float)out[i];\n\
        cudaMemcpy(y, wide, n * sizeof(float), cudaMemcpyHostToDevice);";
    let before = NARROWED.replace("__nv_bfloat16", "float");
    let env = TestEnv::new().with_kernel(&before, "twice(y, x, n);");
    let path = env.path("replay.toml");
    let harness = fs::read_to_string(&path).unwrap();
    let calls = format!("call = [\"twice(y, x, n);\", {second:?}]");
    fs::write(&path, harness.replace("call = \"twice(y, x, n);\"", &calls)).unwrap();
    env.repo.commit("Convert where it has to be");
    env.repo.write("k.cu", NARROWED);
    env.repo.commit("Take bfloat16");
    // 1, 2, 3 and 4 lose nothing.
    let run = env.replay(&["fixtures/tiny", "--rev", "HEAD", "--against", "HEAD~1"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.contains("identical"), "{}", run.text());
}
