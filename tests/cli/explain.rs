//! `replay explain`: forms, reasons, obstacles to the shadow, rewritten sources.

use crate::common::env::TestEnv;

/// Kernels of every form, and a construct whose meaning changes where `float` means `double`.
const KERNELS: &str = "\
__device__ float warp_sum(float v) {
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    return v;
}

__device__ unsigned bits(float v) {
    return *(const unsigned*)&v;
}

__global__ void scale(float* y, const float* x, int n) {
    if (threadIdx.x < n) y[threadIdx.x] = 2 * x[threadIdx.x];
}

__global__ void sums(float* y) {
    float v = y[threadIdx.x];
    v = warp_sum(v);
    y[threadIdx.x] = v;
}

__global__ void picks(float* y, const unsigned* masks) {
    float v = y[threadIdx.x];
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(masks[d], v, d);
    __syncthreads();
    y[threadIdx.x] = v;
}

__global__ void halves(float* y) {
    __shared__ float part[32];
    part[threadIdx.x] = y[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = part[31 - threadIdx.x];
}

__global__ void signs(float* y) { y[threadIdx.x] = bits(y[threadIdx.x]) >> 31; }
";

const HARNESS: &str = "\
sources = [\"src/k.cu\"]
sizes = [\"n\"]
call = \"scale<<<1, 32>>>(y, x, n); signs<<<1, 32>>>(y);\"
[inputs.x]
dtype = \"f32\"
shape = [\"n\"]
[outputs.y]
dtype = \"f32\"
shape = [\"n\"]
";

fn with_kernels() -> TestEnv {
    let env = TestEnv::isolated();
    env.repo.write("src/k.cu", KERNELS);
    env.repo.write("replay.toml", HARNESS);
    env.repo.commit("first");
    env
}

#[test]
fn every_kernel_has_its_form_and_why_no_faster_one() {
    let env = with_kernels();
    insta::assert_snapshot!(env.replay(&["explain", "replay.toml"]).text(), @"
    exit code 0
    --- stdout
    replay.toml at the working tree

    left out: no call of the harness reaches it
      src/k.cu:14  sums
      src/k.cu:20  picks
      src/k.cu:27  halves

    kernels
      scale   src/k.cu:10  in turn      nothing in it waits for another thread
      sums    src/k.cu:14  thread loop  one call runs all threads of a block
      picks   src/k.cu:20  stacks       why not thread-loop form: __shfl_xor_sync: the mask masks[d] may change between steps, at line 22
      halves  src/k.cu:27  thread loop  one call runs all threads of a block
      signs   src/k.cu:34  in turn      nothing in it waits for another thread

    shuffles
      warp_sum  src/k.cu:2   a chain  one wait for all its steps
      picks     src/k.cu:22  alone    why no chain: the mask masks[d] may change between steps

    float64 shadow
      (const unsigned*)&  src/k.cu:7  guarded  in bits: the shadow ends where it is run

    checked build
      each thread on a stack of its own, each shuffle a wait of its own, each access told to the engine
    ");
}

#[test]
fn a_fixture_is_explained_at_a_revision() {
    let env = TestEnv::new().with_demonstration();
    let run = env.replay(&["explain", "fixtures/step0", "--rev", "396b00e"]);
    insta::assert_snapshot!(run.text(), @"
    exit code 0
    --- stdout
    step0 at 396b00e Use 256 threads per position in the gradient kernel

    kernels
      lm_cross_entropy_loss_kernel      src/loss.cu:12  in turn      nothing in it waits for another thread
      lm_cross_entropy_gradient_kernel  src/loss.cu:40  thread loop  one call runs all threads of a block; loops by halves, with a barrier at lines 71, 85

    float64 shadow
      nothing here means something else where float means double

    checked build
      each thread on a stack of its own, each shuffle a wait of its own, each access told to the engine
    ");
}

#[test]
fn a_name_narrows_it_to_a_kernel_a_function_or_a_file() {
    let env = with_kernels();
    let words = |name: &str| env.replay(&["explain", ".", name, "--rev", "HEAD"]).stdout;
    insta::assert_snapshot!(words("picks"), @"
    replay.toml at 859a052 first

    kernels
      picks  src/k.cu:20  stacks  why not thread-loop form: __shfl_xor_sync: the mask masks[d] may change between steps, at line 22

    shuffles
      picks  src/k.cu:22  alone  why no chain: the mask masks[d] may change between steps

    checked build
      each thread on a stack of its own, each shuffle a wait of its own, each access told to the engine
    ");
    insta::assert_snapshot!(words("bits"), @"
    replay.toml at 859a052 first

    float64 shadow
      (const unsigned*)&  src/k.cu:7  guarded  in bits: the shadow ends where it is run

    checked build
      each thread on a stack of its own, each shuffle a wait of its own, each access told to the engine
    ");
    // The whole has what is left out in front.
    let whole = env.replay(&["explain", ".", "--rev", "HEAD"]).stdout;
    let kernels = whole.find("\nkernels\n").expect("a section");
    assert!(words("k.cu").ends_with(&whole[kernels..]), "{whole}");
}

#[test]
fn programs_get_the_reasons_as_json() {
    let env = with_kernels();
    let run = env.replay(&["explain", "replay.toml", "picks", "--format", "json"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    let document: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    let files = serde_json::to_string_pretty(&document["files"]).expect("JSON");
    insta::assert_snapshot!(files, @r#"
    [
      {
        "device_shadow_obstacle": null,
        "kernels": [
          {
            "form": "stacks",
            "halving_loops": [],
            "line": 20,
            "name": "picks",
            "strided_loops": [],
            "why_not_block": {
              "line": 22,
              "reason": {
                "detail": {
                  "shuffle": "__shfl_xor_sync",
                  "why": {
                    "detail": "masks[d]",
                    "kind": "mask"
                  }
                },
                "kind": "shuffle"
              },
              "text": "__shfl_xor_sync: the mask masks[d] may change between steps"
            }
          }
        ],
        "path": "src/k.cu",
        "shadow_obstacles": [],
        "shuffles": [
          {
            "function": "picks",
            "line": 22,
            "why_no_chain": {
              "line": 22,
              "reason": {
                "detail": "masks[d]",
                "kind": "mask"
              },
              "text": "the mask masks[d] may change between steps"
            }
          }
        ]
      }
    ]
    "#);
}

#[test]
fn the_rewritten_source_is_what_the_compiler_gets() {
    let env = with_kernels();
    let lines = |build: &str, marker: &str| {
        let run = env.replay(&["explain", "replay.toml", build]);
        assert_eq!(run.code, Some(0), "{}", run.text());
        let lines = run.stdout.lines().filter(|line| line.contains(marker));
        lines.map(|line| line.chars().take(72).collect::<String>()).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(lines("--source", "#line"), @r#"#line 1 "src/k.cu""#);
    insta::assert_snapshot!(lines("--source", "whole_block"), @"__global__ void halves(float* y) { typedef float replay_shared_part_t[32");
    insta::assert_snapshot!(lines("--source=checked", "whole_block"), @"");
    insta::assert_snapshot!(lines("--source=shadow", "bits_cast"), @r#"    return *::replay_rt::bits_cast<const unsigned*>("(const unsigned*)&""#);
    insta::assert_snapshot!(lines("--source=device", "__global__ void s"), @"
    __global__ void scale(float* y, const float* x, int n) {
    __global__ void sums(float* y) {
    __global__ void signs(float* y) { y[threadIdx.x] = bits(y[threadIdx.x])
    ");
}

#[test]
fn what_cannot_be_explained_says_why() {
    let env = with_kernels();
    env.repo.write("bad/k.cu", "__shared__ int everywhere;\n");
    env.repo.write("bad/replay.toml", HARNESS.replace("src/k.cu", "bad/k.cu"));
    let program = "program = [\"python3\", \"step.py\"]\ntree = [\"step.py\"]\n";
    let outputs = "[outputs.y]\ndtype = \"f32\"\nshape = []\n";
    env.repo.write("program/replay.toml", [program, outputs].concat());
    insta::assert_snapshot!(env.replay(&["explain", "replay.toml", "pick"]).text(), @"
    exit code 128
    --- stderr
    error: no kernel, function or file of these sources is called pick
    hint: kernels: scale, sums, picks, halves, signs; files: src/k.cu
    ");
    insta::assert_snapshot!(env.replay(&["explain", "program"]).text(), @"
    exit code 128
    --- stderr
    error: program/replay.toml runs a program: no CUDA source is rewritten
    hint: name a harness with `sources` and a `call`
    ");
    insta::assert_snapshot!(env.replay(&["explain", "bad", "scale"]).text(), @"
    exit code 125
    --- stderr
    error: the sources cannot be translated
    caused by: shared memory at bad/k.cu:1 cannot be translated: it is declared outside of a function
    hint: declare it inside the kernel, without initialiser: __shared__ float name[SIZE];
    ");
    insta::assert_snapshot!(env.replay(&["explain", "none"]).text(), @"
    exit code 128
    --- stderr
    error: there is no fixture folder none
    hint: a fixture is a folder with fixture.toml and *.safetensors
    ");
    let both = env.replay(&["explain", "replay.toml", "--source", "--format", "json"]);
    insta::assert_snapshot!(both.text(), @"
    exit code 128
    --- stderr
    error: the argument '--source[=<BUILD>]' cannot be used with '--format <FORMAT>'

    Usage: replay explain --source[=<BUILD>] <FIXTURE> [NAME]

    For more information, try '--help'.
    ");
}

#[test]
fn everything_that_keeps_the_sources_from_being_compiled_is_told_at_once() {
    let env = with_kernels();
    let source = "\
#include <torch/extension.h>
#include <cub/none.cuh>
#include \"missing/helpers.h\"
texture<float, 1> table;
__global__ void first(float* y) { y[0] = helped(y[1]); }
__global__ void second(float* y) { y[0] = helped(y[1]); y[1] = asinhpi(y[0]); }
__device__ unsigned bits(float v) { return std::bit_cast<unsigned>(v); }
at::Tensor unused(at::Tensor x) { return at::softmax(x, 0); }
";
    env.repo.write("src/k.cu", source);
    let calls = "first<<<1, 32>>>(y); second<<<1, 32>>>(y);";
    let known_calls = "scale<<<1, 32>>>(y, x, n); signs<<<1, 32>>>(y);";
    env.repo.write("replay.toml", HARNESS.replace(known_calls, calls));
    let run = env.replay(&["explain", "replay.toml"]);
    let told = run.stdout.split("\n\nkernels").next().unwrap_or_default();
    insta::assert_snapshot!(format!("exit code {:?}\n{told}", run.code), @r#"
    exit code Some(125)
    replay.toml at the working tree

    obstacles
      src/k.cu:2  no header cub/none.cuh
                  hint: name the folder of the header in `include` of the harness, or in `system_include` where it lies outside of the repository
      src/k.cu:3  no header missing/helpers.h
      src/k.cu:4  'texture' does not name a type
      src/k.cu:5  'helped' was not declared in this scope (further lines: 1)
      src/k.cu:7  'bit_cast' is not a member of 'std'; did you mean 'bad_cast'?
                  hint: if the sources are of C++20 or later, say `standard = "c++20"` in the harness

    left out: no call of the harness reaches it
      src/k.cu:8  unused
    "#);
}

#[test]
fn all_that_the_front_end_refuses_is_told_at_once() {
    let env = with_kernels();
    let source = "\
__global__ void first(float* y) {
    asm volatile(\"bar.arrive 1, 64;\");
    asm volatile(\"wgmma.fence.sync.aligned;\");
    y[0] = tex1Dfetch(table, 3);
}
__global__ void second(float* y) { y[0] = helped(y[1]); }
";
    env.repo.write("src/k.cu", source);
    env.repo.write("src/open.cu", "__global__ void third(float* y) { y[0] = (y[1] + y[2]; }\n");
    let known_calls = "scale<<<1, 32>>>(y, x, n); signs<<<1, 32>>>(y);";
    let calls = "first<<<1, 32>>>(y); second<<<1, 32>>>(y); third<<<1, 32>>>(y);";
    let harness = HARNESS.replace(known_calls, calls);
    env.repo.write("replay.toml", harness.replace("\"src/k.cu\"", "\"src/k.cu\", \"src/open.cu\""));
    let run = env.replay(&["explain", "replay.toml"]);
    let told = run.stdout.split("\n\nkernels").next().unwrap_or_default();
    insta::assert_snapshot!(told, @"
    replay.toml at the working tree

    obstacles
      src/k.cu:2     PTX (bar.arrive) in first at src/k.cu:2 is not supported on the CPU
                     hint: guard it with #ifdef __CUDA_ARCH__ and give plain C++ in the #else branch
      src/k.cu:3     PTX (wgmma.fence.sync.aligned) in first at src/k.cu:3 is not supported on the CPU
      src/k.cu:4     the texture fetch tex1Dfetch in first at src/k.cu:4 is not supported on the CPU
      src/open.cu:1  the bracket `(` at src/open.cu:1 is never closed
                     hint: close it where its statement ends
      src/k.cu:6     'helped' was not declared in this scope
    ");
}

#[test]
fn what_no_call_reaches_hides_nothing_of_what_is_reached() {
    let env = TestEnv::isolated();
    let kernels = "__global__ void far(float* y) { asm(\"wgmma.fence.sync.aligned;\"); y[0] = unknown; }\n\
                   __shared__ float part[32];\n\
                   __global__ void near(float* y) { y[0] = unknown + part[0]; }\n";
    env.repo.write("src/k.cu", kernels);
    env.repo.write("replay.toml", HARNESS.replace("scale<<<1, 32>>>(y, x, n); signs", "near"));
    insta::assert_snapshot!(env.replay(&["explain", "replay.toml"]).text(), @"
    exit code 125
    --- stdout
    replay.toml at the working tree

    obstacles
      src/k.cu:2  shared memory at src/k.cu:2 cannot be translated: it is declared outside of a function
                  hint: declare it inside the kernel, without initialiser: __shared__ float name[SIZE];
      src/k.cu:3  'unknown' was not declared in this scope; did you mean 'union'?

    left out: no call of the harness reaches it
      src/k.cu:1  far

    kernels
      none

    float64 shadow
      nothing here means something else where float means double

    checked build
      each thread on a stack of its own, each shuffle a wait of its own, each access told to the engine
    ");
    env.repo.write("src/k.cu", kernels.replace("__shared__ float", "float"));
    let run = env.replay(&["explain", "replay.toml", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    insta::assert_snapshot!(document["obstacles"], @r#"[{"hint":null,"message":"'unknown' was not declared in this scope; did you mean 'union'?","more_places":0,"place":"src/k.cu:3"}]"#);
}
