//! What a newcomer meets: help as a word, folders of fixtures, slips of the keyboard, first drafts.

use std::fs;

use crate::common::env::TestEnv;

const DOUBLE: &str = "__global__ void twice(const float* x, float* y, int n)\n\
                      { int i = threadIdx.x; if (i < n) y[i] = 2 * x[i]; }\n";

#[test]
fn help_is_help() {
    let env = TestEnv::new();
    let word = env.replay(&["help"]);
    let option = env.replay(&["--help"]);
    assert_eq!((word.code, &word.stdout), (Some(0), &option.stdout));
    let word = env.replay(&["help", "bisect"]);
    let option = env.replay(&["bisect", "--help"]);
    assert_eq!((word.code, &word.stdout), (Some(0), &option.stdout));
    let run = env.replay(&["help", "bisct"]);
    assert_eq!(run.code, Some(128));
    assert!(run.stderr.ends_with("hint: did you mean `replay help bisect`?\n"), "{}", run.text());
}

#[test]
fn a_slip_in_a_command_is_seen_before_its_options_are() {
    let run = TestEnv::new().replay(&["bisct", "fixtures/tiny", "--good", "a", "--bad", "b"]);
    assert_eq!(run.code, Some(128));
    assert!(run.stderr.ends_with("hint: did you mean `replay bisect`?\n"), "{}", run.text());
}

#[test]
fn a_slip_in_a_fixture_finds_the_nearest() {
    let env = TestEnv::new().with_kernel(DOUBLE, "twice<<<1, n>>>(x, y, n);");
    insta::assert_snapshot!(env.replay(&["fixtures/tyni"]).text(), @"
    exit code 128
    --- stderr
    error: there is no fixture folder fixtures/tyni, did you mean `fixtures/tiny`?
    ");
    insta::assert_snapshot!(env.replay(&["tiny"]).text(), @"
    exit code 128
    --- stderr
    error: there is no fixture folder tiny, did you mean `fixtures/tiny`?
    ");
}

#[test]
fn a_folder_of_fixtures_is_all_of_them_by_name() {
    let env = TestEnv::new().with_kernel(DOUBLE, "twice<<<1, n>>>(x, y, n);");
    for name in ["b", "a"] {
        fs::create_dir(env.path(&format!("fixtures/{name}"))).unwrap();
        for file in ["fixture.toml", "inputs.safetensors"] {
            let path = |folder: &str| env.path(&format!("fixtures/{folder}/{file}"));
            fs::copy(path("tiny"), path(name)).unwrap();
        }
    }
    fs::create_dir(env.path("fixtures/notes")).unwrap();
    fs::create_dir(env.path("fixtures/.cache")).unwrap();
    // Capturing drafts harnesses beside the steps that fit them.
    fs::create_dir(env.path("fixtures/harness-loss")).unwrap();
    fs::write(env.path("fixtures/harness-loss/replay.toml"), "").unwrap();
    fs::write(env.path("fixtures/README.md"), "").unwrap();
    let run = env.replay(&["fixtures/", "--full"]);
    let headings = run.stdout.lines().filter(|line| line.ends_with("at the working tree"));
    insta::assert_snapshot!(headings.collect::<Vec<_>>().join("\n"), @"
    a at the working tree
    b at the working tree
    tiny at the working tree
    ");
    insta::assert_snapshot!(run.stderr, @"skipped fixtures/notes: it holds no fixture.toml");
    assert_eq!(run.code, Some(0));
    assert_eq!(env.replay(&["inspect", "fixtures"]).code, Some(0));
    insta::assert_snapshot!(env.replay(&["fixtures/notes"]).text(), @"
    exit code 128
    --- stderr
    error: fixtures/notes is not a fixture: it holds no fixture.toml
    hint: a fixture is a folder with fixture.toml and *.safetensors
    ");
}

#[test]
fn init_drafts_a_harness_for_each_function_and_file_and_names_the_rest() {
    let env = TestEnv::new();
    env.repo.write(
        "src/rmsnorm.cu",
        "__global__ void k(float* y) {}\n\
         void rmsnorm_forward(const float* x, float* y, float* rms, int n) { k<<<1, n>>>(y); }\n\
         void rmsnorm_backward(const float* x, const float* rms, float* dx, int n)\n\
         { k<<<1, n>>>(dx); }\n\
         static void helper(const int* x, float* y) { k<<<1, 1>>>(y); }\n\
         int main() { k<<<1, 1>>>(nullptr); }\n",
    );
    env.repo.write(
        "src/other.cu",
        "__global__ void k(float* y) {}\n\
         void scale(const float* x, float* y, int n) { k<<<1, n>>>(y); }\n",
    );
    env.repo.write("src/empty.cu", "int nothing;\n");
    insta::assert_snapshot!(env.replay(&["init"]).text(), @r#"
    exit code 0
    --- stdout
    wrote replay.toml, which calls src/rmsnorm.cu:
      rmsnorm_forward(x, y, rms, n);
      rmsnorm_backward(x, rms, dx, n);
    wrote replay-helper.toml, which calls src/rmsnorm.cu:
      helper(x, y);
    wrote replay-other.toml, which calls src/other.cu:
      scale(x, y, n);

    left out:
      src/empty.cu: it holds no kernel and nothing that launches one
      main in src/rmsnorm.cu: it is the program, not a function to call

    next, for each harness:
      1. check every line marked EDIT: pointers do not tell shapes, `--random` measures them
      2. capture one step into fixtures/NAME/inputs.safetensors: its inputs
      3. write fixtures/NAME/fixture.toml: harness = "../../replay.toml"
      4. replay inspect fixtures/NAME, then replay fixtures/NAME
    "#);
    for name in ["replay", "replay-other"] {
        assert!(env.path(&format!("{name}.toml")).is_file(), "{name}");
        fs::remove_file(env.path(&format!("{name}.toml"))).unwrap();
    }
    fs::write(env.path("replay-other.toml"), "mine").unwrap();
    insta::assert_snapshot!(env.replay(&["init"]).text(), @"
    exit code 128
    --- stderr
    error: replay-helper.toml exists and is left as it is
    hint: edit it, or name another file with --output
    ");
    assert!(!env.path("replay.toml").exists(), "all or none");
}

#[test]
fn a_size_that_no_input_has_is_drafted_as_one_that_the_fixture_gives() {
    let env = TestEnv::new();
    let text = "__global__ void k(float* y) {}\nvoid f(float* y, int n) { k<<<1, n>>>(y); }\n";
    env.repo.write("k.cu", text);
    let run = env.replay(&["init"]);
    assert!(env.path("replay.toml").is_file() && run.code == Some(0), "{}", run.text());
    assert!(run.stderr.is_empty(), "{}", run.text());
    insta::assert_snapshot!(run.stdout, @"
    wrote replay.toml, which calls k.cu:
      f(y, n);

    next:
      1. check every line marked EDIT: pointers do not tell shapes, `--random` measures them
      2. capture one step into fixtures/NAME/inputs.safetensors: its inputs
      3. write fixtures/NAME/fixture.toml: harness = \"../../replay.toml\"
         with numbers for n in [sizes]
      4. replay inspect fixtures/NAME, then replay fixtures/NAME: y
    ");
}

#[test]
fn numbers_in_options_are_refused_for_what_they_are() {
    let env = TestEnv::new();
    let told = |arguments: &[&str]| {
        let run = env.replay(arguments);
        assert_eq!(run.code, Some(128), "{}", run.text());
        run.stderr.lines().next().unwrap_or_default().to_owned()
    };
    let search = |option, value| told(&["bisect", "x", "--good", "a", "--bad", "b", option, value]);
    let lines = [
        told(&["x", "--timeout", "inf"]),
        told(&["x", "--timeout", "-1"]),
        told(&["x", "--memory", "1e99"]),
        told(&["x", "--threads", "65535"]),
        told(&["x", "--threads", "-1"]),
        search("--jobs", "-1"),
        search("--jobs", "0"),
        search("--jobs", "100000"),
    ];
    insta::assert_snapshot!(lines.join("\n"), @"
    error: invalid value 'inf' for '--timeout <SECONDS>': more than a year; at most 31536000
    error: invalid value '-1' for '--timeout <SECONDS>': must be more than 0
    error: invalid value '1e99' for '--memory <BYTES>': not a whole number of bytes, such as 512M or 64G
    error: invalid value '65535' for '--threads <N>': at most 1024
    error: invalid value '-1' for '--threads <N>': must be at least 1
    error: invalid value '-1' for '--jobs <N>': must be at least 1
    error: invalid value '0' for '--jobs <N>': must be at least 1
    error: invalid value '100000' for '--jobs <N>': at most 256
    ");
}

#[test]
fn fixtures_in_the_folders_of_runs_are_found_below_a_named_folder() {
    let env = TestEnv::new().with_kernel(DOUBLE, "twice<<<1, n>>>(x, y, n);");
    for name in ["run/rank1/step10", "run/rank1/step9", "run/rank0/step9"] {
        let folder = env.path(&format!("fixtures/{name}"));
        fs::create_dir_all(&folder).unwrap();
        let tensors = "inputs.safetensors";
        fs::copy(env.path("fixtures/tiny").join(tensors), folder.join(tensors)).unwrap();
        let harness = "harness = \"../../../../replay.toml\"\n";
        fs::write(folder.join("fixture.toml"), harness).unwrap();
    }
    fs::create_dir_all(env.path("fixtures/notes/old")).unwrap();
    let run = env.replay(&["inspect", "fixtures"]);
    insta::assert_snapshot!(run.stderr, @"skipped fixtures/notes: it holds no fixture.toml");
    let names = run.stdout.lines().filter(|line| line.starts_with("step") || *line == "tiny");
    insta::assert_snapshot!(names.collect::<Vec<_>>().join("\n"), @"
    step9
    step9
    step10
    tiny
    ");
    assert_eq!(run.code, Some(0));
}

/// A forward and a backward pass, the latter first.
const SQUARE: &str = "\
#include <unistd.h>
#include \"scale.cuh\"
#include <shapes.h>
__global__ void backward(const float* x, const float* dy, float* dx, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dx[i] = scaled(2.0f * x[i] * dy[i]);
}
__global__ void forward(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = scaled(x[i] * x[i]);
}
void square_backward(const real* x, const real* dy, real* dx, int rows, int cols)
{
    backward<<<(rows * cols + 31) / 32, 32>>>(x, dy, dx, rows * cols);
}
void square_forward(const real* x, real* y, int rows, int cols)
{
    forward<<<(rows * cols + 31) / 32, 32>>>(x, y, rows * cols);
}
";

fn square_project() -> TestEnv {
    let env = TestEnv::new();
    env.repo.write("csrc/square.cu", SQUARE);
    env.repo.write(
        "csrc/scale.cuh",
        "#pragma once\n__device__ inline float scaled(float x) { return 3.0f * x; }\n",
    );
    env.repo.write("other/scale.cuh", "#error another scale.cuh\n");
    env.repo.write("csrc/detail/shapes.h", "#pragma once\ntypedef float real;\n");
    env.repo.write("a/shapes.h", "#error another shapes.h\ntypedef double real;\n");
    env.repo.write("windows/unistd.h", "#error only for Windows\n");
    env.repo.write("setup.py", "flags = {'nvcc': ['-O3', '-std=c++20']}\n");
    env.repo.commit("Squares");
    env
}

#[test]
fn init_joins_forward_and_backward_and_replays_random_inputs_at_once() {
    let env = square_project();
    insta::assert_snapshot!(env.replay(&["init", "--random", "rows=4,cols=8"]).text(), @"
    exit code 0
    --- stdout
    wrote replay.toml, which calls csrc/square.cu:
      square_forward(x, y, rows, cols);
      square_backward(x, dy, dx, rows, cols);
    wrote fixtures/random: random inputs, marked as synthetic

    next:
      1. replay fixtures/random
      2. check every line marked EDIT, before you believe a finding
      3. capture one step in its place: random inputs tell nothing of a training
    ");
    let harness = fs::read_to_string(env.path("replay.toml")).unwrap();
    for line in [
        "include = [\"csrc\", \"csrc/detail\"]\nstandard = \"c++20\"\n",
        "dtype = \"f32\"\n",
        "of = \"y\" # EDIT\nupstream = \"dy\" # EDIT\n",
    ] {
        assert!(harness.contains(line), "{line}: {harness}");
    }
    let run = env.replay(&["fixtures/random"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.contains("  dx  matches d y / d x: "), "{}", run.text());
    insta::assert_snapshot!(fs::read_to_string(env.path("fixtures/random/fixture.toml")).unwrap(), @r#"
    harness = "../../replay.toml"
    description = "synthetic: random inputs, not captured ones"

    [provenance]
    framework = "synthetic"
    command = "replay init --random rows=4,cols=8"
    "#);
}

#[test]
fn sizes_that_do_not_fit_the_drafts_are_told_before_anything_is_written() {
    let env = square_project();
    let told = |sizes: &str| {
        let run = env.replay(&["init", "--random", sizes]);
        assert!(!env.path("replay.toml").exists() && !env.path("fixtures").exists());
        run.text()
    };
    insta::assert_snapshot!(told("rows=4"), @"
    exit code 128
    --- stderr
    error: no random inputs for replay.toml
    caused by: no number is given for cols
    hint: give every size: --random rows=8,cols=8
    ");
    insta::assert_snapshot!(told("rows=4,cols=8,heads=2"), @"
    exit code 128
    --- stderr
    error: no harness has a size `heads`
    hint: the sizes are cols, rows
    ");
    insta::assert_snapshot!(told("rows"), @"
    exit code 128
    --- stderr
    error: `rows` in --random is not NAME=SIZE
    hint: such as --random rows=64,cols=768; a source stands in front of it
    ");
}

#[test]
fn random_inputs_are_written_for_a_harness_that_is_there() {
    let env = square_project();
    assert_eq!(env.replay(&["init"]).code, Some(0));
    let harness = fs::read_to_string(env.path("replay.toml")).unwrap();
    let scaled = harness.replace("[inputs.x]", "[inputs.gain]\ndtype = \"f32\"\nshape = []\n\n[inputs.bend]\ndtype = \"f32\"\nshape = []\n\n[inputs.x]");
    fs::write(env.path("replay.toml"), &scaled).unwrap();
    insta::assert_snapshot!(env.replay(&["init", "replay.toml", "--random", "rows=4,cols=8"]).text(), @"
    exit code 0
    --- stdout
    wrote fixtures/random: random inputs, marked as synthetic

    next:
      1. replay fixtures/random
      2. capture one step in its place: random inputs tell nothing of a training
    ");
    assert_eq!(fs::read_to_string(env.path("replay.toml")).unwrap(), scaled, "left as it is");
    // A factor of 1 would hide its absence.
    let fixture = fs::read_to_string(env.path("fixtures/random/fixture.toml")).unwrap();
    assert!(fixture.ends_with("gain = 0.75 # EDIT\nbend = 0.25 # EDIT\n"), "{fixture}");
    assert_eq!(env.replay(&["fixtures/random"]).code, Some(0));
}

#[test]
fn a_folder_of_python_kernels_is_told_of_captures() {
    let env = TestEnv::new();
    env.repo.write("norm/rms.py", "import math\nimport triton.language as tl\n");
    insta::assert_snapshot!(env.replay(&["init"]).text(), @"
    exit code 128
    --- stderr
    error: this folder holds no CUDA source with a kernel to call; norm/rms.py is of Triton
    hint: captures of Python draft their own harness: `fn = capture.function(fn)` of `gradreplay`, and a step of the training (`replay help capture`)
    ");
}

#[test]
fn headers_of_a_submodule_are_drafted_as_those_of_another_repository() {
    let env = square_project();
    env.repo.write(".gitmodules", "[submodule \"vec\"]\n\tpath = third_party/vec\n\turl = x\n");
    env.repo.write("third_party/vec/include/vec/small.h", "#pragma once\n");
    let source = format!("#include <vec/small.h>\n{SQUARE}");
    env.repo.write("csrc/square.cu", source);
    assert_eq!(env.replay(&["init"]).code, Some(0));
    let harness = fs::read_to_string(env.path("replay.toml")).unwrap();
    assert!(harness.contains("include = [\"csrc\", \"csrc/detail\"]\n"), "{harness}");
    let folder = env.path("third_party/vec/include");
    let line = format!("system_include = ['{0}'] # EDIT", folder.display());
    assert!(harness.contains(&line) || harness.contains(&line.replace('\'', "\"")), "{harness}");
}
