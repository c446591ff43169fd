//! Commands beside the main job, and how the command line is read.

use std::fs;

use replay::tensor::DType;

use crate::common::env::{TestEnv, harness};
use crate::common::schema;

const DOUBLE: &str = "__global__ void twice(const float* x, float* y, int n)\n\
                      { int i = threadIdx.x; if (i < n) y[i] = 2 * x[i]; }\n";

#[test]
fn without_arguments_the_help_is_shown_and_the_code_is_not_a_kernels() {
    let env = TestEnv::new();
    let run = env.replay(&[]);
    assert_eq!(run.code, Some(128));
    assert!(run.stderr.contains("Usage: replay [OPTIONS] FIXTURE..."), "{}", run.text());
    assert!(run.stderr.contains("git bisect run"), "{}", run.text());
    let help = env.replay(&["--help"]);
    assert_eq!(help.code, Some(0));
    assert!(help.stdout.contains("Exit codes"), "{}", help.text());
}

#[test]
fn a_usage_error_never_blames_a_commit() {
    let env = TestEnv::new();
    insta::assert_snapshot!(env.replay(&["x", "--timeout", "0"]).text(), @"
    exit code 128
    --- stderr
    error: invalid value '0' for '--timeout <SECONDS>': must be more than 0

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(env.replay(&["--fresh", "cache", "path"]).text(), @"
    exit code 128
    --- stdout
    2 fixtures: 2 not replayed
    --- stderr
    error: the command `cache` comes first, options behind it
    hint: `replay cache ...`, or ./cache for a fixture of that name
    error: there is no fixture folder path
    hint: a fixture is a folder with fixture.toml and *.safetensors
    ");
    insta::assert_snapshot!(env.replay(&["inspct"]).text(), @"
    exit code 128
    --- stderr
    error: there is neither a command nor a fixture folder `inspct`
    hint: did you mean `replay inspect`?
    ");
}

#[test]
fn a_fixture_named_like_a_command_is_reached_by_its_path() {
    let env = TestEnv::new().with_kernel(DOUBLE, "twice<<<1, n>>>(x, y, n);");
    fs::rename(env.path("fixtures/tiny"), env.path("bisect")).unwrap();
    let toml = env.path("bisect/fixture.toml");
    fs::write(toml, "harness = \"../replay.toml\"\n").unwrap();
    let run = env.replay(&["./bisect"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.starts_with("bisect at the working tree\n"), "{}", run.text());
}

#[test]
fn the_worst_of_several_fixtures_decides_and_a_broken_one_hides_no_other() {
    let env = TestEnv::new().with_kernel(DOUBLE, "twice<<<1, n>>>(x, y, n);");
    env.write_fixture("more", &[("x", DType::F32, &[2000], &[0; 8000])]);
    let run = env.replay(&["fixtures/tiny", "fixtures/none", "fixtures/more"]);
    insta::assert_snapshot!(run.text(), @"
    exit code 128
    --- stdout
    more at working tree on cpu: failed: launch error: twice<<<1, 2000>>> at call in replay.toml:2: invalid configuration argument (cudaErrorInvalidConfiguration)
      unwritten: 2000 of 2000 elements of y, first at [0]
    tiny at working tree on cpu: completed: every output is written and finite

    3 fixtures: 1 not replayed, 1 failed, 1 completed
    --- stderr
    error: there is no fixture folder fixtures/none, did you mean `fixtures/more`?
    ");
    let without = env.replay(&["fixtures/tiny", "fixtures/more"]);
    assert_eq!(without.code, Some(1), "{}", without.text());
}

#[test]
fn the_working_tree_is_what_lies_in_it_and_a_revision_is_what_was_committed() {
    let env = TestEnv::new().with_kernel(DOUBLE, "twice<<<1, n>>>(x, y, n);");
    env.repo.write("k.cu", DOUBLE.replace("2 *", "3 *"));
    let maximum = |arguments: &[&str]| {
        let run = env.replay(arguments);
        let line = run.stdout.lines().find(|line| line.contains("max ")).map(str::to_owned);
        line.and_then(|line| line.split("max ").nth(1)?.split("  ").next().map(str::to_owned))
    };
    assert_eq!(maximum(&["fixtures/tiny"]).as_deref(), Some("12"));
    assert_eq!(maximum(&["fixtures/tiny", "--rev", "HEAD"]).as_deref(), Some("8"));
    assert_eq!(env.repo.git(&["diff", "--name-only"]), "k.cu", "it stays as it was");
}

#[test]
fn the_first_call_that_fits_is_used_and_named() {
    let env = TestEnv::new().with_kernel(DOUBLE, "");
    let calls = "call = [\"\"\"thrice<<<1, n>>>(x, y, n);\"\"\", \"twice<<<1, n>>>(x, y, n);\"]";
    env.repo.write("replay.toml", harness(calls));
    insta::assert_snapshot!(env.replay(&["fixtures/tiny"]).text(), @"
    exit code 0
    --- stdout
    tiny at the working tree
    CPU, [COMPILER]
    call number 2 of the harness

    launches
      twice<<<1, 4>>>  call in replay.toml:2

    outputs
      y  f32 [n 4]  92be64be15f8b6407b218559afe28816
         norm 10.9545  min 2  max 8  mean 5  zeros 0  NaN 0  Inf 0  unwritten 0

    completed: every output is written and finite
    ");
}

#[test]
fn inspect_shows_what_a_fixture_holds() {
    let env = TestEnv::new().with_demonstration();
    insta::assert_snapshot!(env.replay(&["inspect", "fixtures/step0"]).text(), @"
    exit code 0
    --- stdout
    step0
    A step of a model of characters: 34 items, 32 of 256 positions masked.

    harness  kernels/lm_loss/replay.toml
    sizes    batch 8, seq 32, vocab 34
    step     0
    seed     2192
    model    synthetic, half-trained
    command  cargo run --example generate_step0

    files
      fixtures/step0/inputs.safetensors  35.5 KiB, blake3 4337301d05626931... as recorded

    inputs
      logits        f32   [batch 8, seq 32, vocab 34]  f6736269c774389069345f55e8050728
                    norm 258.096  min -9.18262  max 13.2913  mean 0.586551  zeros 0  NaN 0  Inf 0
      targets       i32   [batch 8, seq 32]  d8fa4f885546490fa733ea6f4e22adbb
                    norm 269.433  min 0  max 32  mean 13.125  zeros 40  NaN 0  Inf 0
      mask          u8    [batch 8, seq 32]  3e9c281cffde8f910dd6b9fb5fac4725
                    norm 14.9666  min 0  max 1  mean 0.875  zeros 32  NaN 0  Inf 0

    outputs
      loss          f32   scalar
      grad_logits   f32   [batch 8, seq 32, vocab 34]  gradient of logits

    content  89a25e586c1e5bfb356245ab03edb0b7b8e1212b966415dd9719c0291094ebac
    ");
}

#[test]
fn the_document_of_inspect_keeps_to_its_schema_and_names_what_is_broken() {
    let env = TestEnv::new().with_demonstration();
    let run = env.replay(&["inspect", "fixtures/step0", "fixtures/none", "--format", "json"]);
    assert_eq!(run.code, Some(128), "{}", run.text());
    let document: serde_json::Value = serde_json::from_str(&run.stdout).expect("a document");
    assert_eq!(schema::problems(&document), [""; 0]);
    let fixture = &document["fixtures"][0];
    assert_eq!(
        (&fixture["fixture"], fixture["inputs"][0]["dims"][0]["name"].is_string()),
        (&"step0".into(), true)
    );
    assert_eq!(document["errors"][0]["fixture"], "fixtures/none");
    let text = env.replay(&["inspect", "fixtures/step0"]).stdout;
    let content = format!("content  {}", fixture["content"].as_str().expect("a hash"));
    assert_eq!(text.lines().last(), Some(content.as_str()));
    let checksum = fixture["inputs"][0]["summary"]["checksum"].as_str().expect("a checksum");
    assert!(text.contains(checksum), "{text}");
}

#[test]
fn inspect_keeps_the_shapes_in_one_column() {
    let env = TestEnv::new();
    let input = |name: &str, dtype: &str| {
        format!("[inputs.{name}]\ndtype = \"{dtype}\"\nshape = [\"n\"]\n")
    };
    let inputs = [input("scale", "f8_e4m3"), input("x", "u8")].concat();
    let output = "[outputs.y]\ndtype = \"f32\"\nshape = []\n";
    env.repo
        .write("replay.toml", format!("sources = [\"k.cu\"]\ncall = \"y = 0;\"\n{inputs}{output}"));
    let shape: &[usize] = &[2];
    let tensors =
        [("scale", DType::F8E4M3, shape, &[0x38, 0][..]), ("x", DType::U8, shape, &[1, 2][..])];
    env.write_fixture("t", &tensors);
    let told = env.replay(&["inspect", "fixtures/t"]).text();
    let lines: Vec<&str> = told.lines().map(str::trim_start).collect();
    let rows = lines
        .iter()
        .filter(|line| ["scale ", "x ", "y "].iter().any(|name| line.starts_with(name)));
    let rows: Vec<&str> = rows.map(|row| row.get(..28).unwrap_or(row).trim_end()).collect();
    insta::assert_snapshot!(rows.join("\n"), @"
    scale         f8_e4m3 [n 2]
    x             u8      [n 2]
    y             f32     scalar
    ");
}

#[test]
fn inspect_recognises_targets_that_are_the_next_tokens() {
    let env = TestEnv::new();
    env.repo.write(
        "replay.toml",
        "sources = [\"k.cu\"]\ncall = \"\"\n\
         [inputs.tokens]\ndtype = \"u8\"\nshape = [\"batch\", \"seq\"]\n\
         [inputs.targets]\ndtype = \"u8\"\nshape = [\"batch\", \"seq\"]\n\
         [outputs.y]\ndtype = \"f32\"\nshape = []\n"
            .replace("call = \"\"", "call = \"y = 0;\""),
    );
    let tokens = [1, 2, 3, 4, 5, 6, 7, 8];
    let mut targets = [2, 3, 4, 9, 6, 7, 8, 9];
    let inspected = |targets: &[u8; 8]| {
        let shape: &[usize] = &[2, 4];
        let tokens = ("tokens", DType::U8, shape, &tokens[..]);
        env.write_fixture("t", &[tokens, ("targets", DType::U8, shape, &targets[..])]);
        let run = env.replay(&["inspect", "fixtures/t"]);
        let line = run.stdout.lines().find(|line| line.contains("shifted")).map(str::trim);
        line.map(str::to_owned).unwrap_or(run.text())
    };
    insta::assert_snapshot!(inspected(&targets), @"targets is tokens shifted by one along seq");
    targets[4] = 7;
    insta::assert_snapshot!(inspected(&targets), @"targets is tokens shifted by one along seq, except at 1 of 6 places, first at [1, 0]");
}

#[test]
fn init_drafts_a_harness_that_replays_the_demonstration() {
    let env = TestEnv::new().with_demonstration();
    for folder in ["src", "include"] {
        fs::rename(env.path(&format!("kernels/lm_loss/{folder}")), env.path(folder)).unwrap();
    }
    fs::remove_dir_all(env.path("kernels")).unwrap();
    insta::assert_snapshot!(env.replay(&["init"]).text(), @r#"
    exit code 0
    --- stdout
    wrote replay.toml, which calls src/loss.cu:
      loss = lm_cross_entropy_loss(logits, targets, mask, batch, seq, vocab);
      lm_cross_entropy_gradient(logits, targets, grad_logits, batch, seq, vocab, mask);

    next:
      1. check every line marked EDIT: pointers do not tell shapes, `--random` measures them
      2. capture one step into fixtures/NAME/inputs.safetensors: logits, targets, mask
      3. write fixtures/NAME/fixture.toml: harness = "../../replay.toml"
      4. replay inspect fixtures/NAME, then replay fixtures/NAME: loss, grad_logits
    "#);
    insta::assert_snapshot!(env.replay(&["init"]).text(), @"
    exit code 128
    --- stderr
    error: replay.toml exists and is left as it is
    hint: edit it, or name another file with --output
    ");

    fs::write(env.path("fixtures/step0/fixture.toml"), "harness = \"../../replay.toml\"\n")
        .unwrap();
    // The two tensors with other shapes than the rest.
    let mut harness = fs::read_to_string(env.path("replay.toml")).unwrap();
    for table in ["[inputs.targets]", "[inputs.mask]"] {
        let table = harness.find(table).unwrap();
        let shape = table + harness[table..].find("shape").unwrap();
        let end = shape + harness[shape..].find('\n').unwrap();
        assert!(harness[shape..end].ends_with("# EDIT"));
        harness.replace_range(shape..end, "shape = [\"batch\", \"seq\"]");
    }
    fs::write(env.path("replay.toml"), harness).unwrap();
    env.repo.commit("Sources");
    let drafted = env.replay(&["fixtures/step0"]);
    let known = TestEnv::new().with_demonstration().replay(&["fixtures/step0", "--rev", "main"]);
    let outputs = |text: &str| {
        let from = text.find("\noutputs").unwrap_or_default();
        text[from..].to_owned()
    };
    assert_eq!(outputs(&drafted.stdout), outputs(&known.stdout), "{}", drafted.text());
}

#[test]
fn init_joins_the_passes_of_an_operation_that_stand_in_two_files() {
    const FORWARD: &str = "\
#include \"shared.h\"
__global__ void scale_fwd_kernel(const float* x, const float* w, float* y, int n) {
  int i = index();
  if (i < n) y[i] = x[i] * w[i];
}
void scale_fwd(const float* x, const float* w, float* y, int n) {
  scale_fwd_kernel<<<(n + 63) / 64, 64>>>(x, w, y, n);
}
";
    const BACKWARD: &str = "\
#include \"shared.h\"
__global__ void scale_bwd_kernel(const float* dy, const float* w, float* dx, int n) {
  int i = index();
  if (i < n) dx[i] = dy[i] * w[i];
}
void scale_bwd(const float* dy, const float* w, float* dx, int n) {
  scale_bwd_kernel<<<(n + 63) / 64, 64>>>(dy, w, dx, n);
}
";
    let shared = "#pragma once\n__device__ inline int index() { return blockIdx.x * blockDim.x + threadIdx.x; }\n";
    let env = TestEnv::new();
    env.repo.write("csrc/shared.h", shared);
    env.repo.write("csrc/scale_bwd.cu", BACKWARD);
    env.repo.write("csrc/scale_fwd.cu", FORWARD);
    env.repo.write("csrc/other.cu", FORWARD.replace("scale_fwd", "clamp_values"));
    env.repo.commit("Sources");
    insta::assert_snapshot!(env.replay(&["init", "--random", "n=100"]).stdout, @"
    wrote replay.toml, which calls csrc/scale_fwd.cu and csrc/scale_bwd.cu:
      scale_fwd(x, w, y, n);
      scale_bwd(dy, w, dx, n);
    wrote replay-other.toml, which calls csrc/other.cu:
      clamp_values(x, w, y, n);
    wrote fixtures/random: random inputs, marked as synthetic
    wrote fixtures/random-other: random inputs, marked as synthetic

    next:
      1. replay fixtures
      2. check every line marked EDIT, before you believe a finding
      3. capture one step in its place: random inputs tell nothing of a training
    ");
    let harness = fs::read_to_string(env.path("replay.toml")).unwrap();
    let lines = harness.lines().filter(|line| {
        ["sources", "include", "gradient_of", "of =", "upstream"]
            .iter()
            .any(|key| line.starts_with(key))
    });
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r#"
    sources = ["csrc/scale_fwd.cu", "csrc/scale_bwd.cu"]
    include = ["csrc"]
    gradient_of = "x" # EDIT
    of = "y" # EDIT
    upstream = "dy" # EDIT
    "#);
    let run = env.replay(&["fixtures/random"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.contains("dx  matches d y / d x"), "{}", run.text());
}

/// An extension whose launchers take a structure, in a source that instantiates a template of a header. What Python calls
/// stands in a source without a kernel.
const STRUCTURED: [(&str, &str); 4] = [
    (
        "csrc/scale.h",
        "#pragma once\n\
         struct Params { int rows, cols; const void* x; const void* w; void* y; };\n",
    ),
    (
        "csrc/scale_kernel.cuh",
        "#pragma once\n#include \"scale.h\"\n\
         template <class T> __global__ void scale_kernel(Params p) {\n\
           int i = blockIdx.x * blockDim.x + threadIdx.x;\n\
           if (i < p.rows * p.cols) ((T*)p.y)[i] = ((const T*)p.x)[i] * ((const T*)p.w)[i % p.cols] * GAIN;\n\
         }\n\
         template <class T> void scale_cuda(Params& p) {\n\
           scale_kernel<T><<<(p.rows * p.cols + WIDTH - 1) / WIDTH, WIDTH>>>(p);\n\
         }\n",
    ),
    (
        "csrc/scale_fp32.cu",
        "#include \"scale_kernel.cuh\"\ntemplate void scale_cuda<float>(Params&);\n",
    ),
    (
        "csrc/scale.cpp",
        "#include <torch/extension.h>\n#include \"scale.h\"\n\
         #define CHECK_SHAPE(x, ...) TORCH_CHECK(x.sizes() == torch::IntArrayRef({__VA_ARGS__}), #x \" has another shape\")\n\
         template <class T> void scale_cuda(Params& p);\n\
         static void fill(Params& p, at::Tensor x, at::Tensor w, at::Tensor y) {\n\
           p = {(int)x.size(0), (int)x.size(1), x.data_ptr(), w.data_ptr(), y.data_ptr()};\n\
         }\n\
         std::vector<at::Tensor> scale_forward(const at::Tensor& x, const at::Tensor& w, c10::optional<at::Tensor>& y_) {\n\
           const auto sizes = x.sizes();\n  const int rows = sizes[0], cols = sizes[1];\n  const int width = sizes[1];\n\
           CHECK_SHAPE(x, rows, cols);\n  CHECK_SHAPE(w, cols);\n\
           at::Tensor y = y_.has_value() ? y_.value() : torch::empty_like(x);\n\
           Params p;\n  fill(p, x, w, y);\n  scale_cuda<float>(p);\n\
           std::vector<at::Tensor> result = {y.to(x.dtype())};\n  return result;\n\
         }\n\
         PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def(\"fwd\", &scale_forward); }\n",
    ),
];

#[test]
fn init_calls_what_python_calls_where_a_launcher_takes_no_tensor() {
    let env = TestEnv::new();
    for (path, text) in STRUCTURED {
        env.repo.write(path, text);
    }
    let script = "flags = ['-DWIDTH=64', f'-DGAIN={gain}', '-DUNUSED']\n";
    env.repo.write("setup.py", script);
    env.repo.commit("Sources");
    insta::assert_snapshot!(env.replay(&["init", "--random"]).stdout, @"
    wrote replay.toml, which calls csrc/scale.cpp and csrc/scale_fp32.cu:
      y = scale_forward(x, w, y_);
    wrote fixtures/random: random inputs, marked as synthetic

    next:
      1. replay fixtures/random
      2. check every line marked EDIT, before you believe a finding
      3. capture one step in its place: random inputs tell nothing of a training
    ");
    let harness = fs::read_to_string(env.path("replay.toml")).unwrap();
    let below_comment = harness.lines().skip_while(|line| line.starts_with('#'));
    insta::assert_snapshot!(below_comment.collect::<Vec<_>>().join("\n"), @r#"
    sources = ["csrc/scale.cpp", "csrc/scale_fp32.cu"]
    include = ["csrc"]
    defines = ["WIDTH=64", "GAIN=64"] # EDIT: the build computes GAIN
    call = """
    y = scale_forward(x, w, y_);
    """

    [inputs.x]
    dtype = "f32"
    shape = ["rows", "cols"]

    [inputs.w]
    dtype = "f32"
    shape = ["cols"]

    [inputs.y_]
    dtype = "f32"
    shape = ["y__0"]
    optional = true

    [outputs.y]
    dtype = "f32"
    shape = ["rows", "cols"]
    "#);
    let run = env.replay(&["fixtures/random"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
}

#[test]
fn init_calls_what_python_calls_where_a_call_of_a_launcher_cannot_be_measured() {
    let env = TestEnv::new();
    // A pointer to a tensor is none that a harness has.
    env.repo.write(
        "csrc/twice_cuda.cu",
        "#include <torch/extension.h>\n\
         __global__ void twice_kernel(const float* x, float* y, int n) {\n\
           int i = threadIdx.x;\n  if (i < n) y[i] = 2 * x[i];\n\
         }\n\
         void twice_launcher(at::Tensor* x, float* y, int n) {\n\
           twice_kernel<<<1, n>>>(x->data_ptr<float>(), y, n);\n\
         }\n",
    );
    env.repo.write(
        "csrc/twice.cpp",
        "#include <torch/extension.h>\n\
         void twice_launcher(at::Tensor* x, float* y, int n);\n\
         at::Tensor twice_of(at::Tensor x) {\n\
           auto y = torch::empty_like(x);\n\
           twice_launcher(&x, y.data_ptr<float>(), x.size(0));\n\
           return y;\n\
         }\n\
         at::Tensor twice(at::Tensor x) { return twice_of(x); }\n\
         TORCH_LIBRARY(numbers, m) { m.def(\"twice\", &twice); }\n",
    );
    env.repo.commit("Sources");
    insta::assert_snapshot!(env.replay(&["init"]).stdout.lines().take(2).collect::<Vec<_>>().join("\n"), @"
    wrote replay.toml, which calls csrc/twice_cuda.cu:
      twice_launcher(&x, y, n);
    ");
    fs::remove_file(env.path("replay.toml")).unwrap();
    insta::assert_snapshot!(env.replay(&["init", "--random"]).stdout, @"
    wrote replay.toml, which calls csrc/twice.cpp and csrc/twice_cuda.cu:
      y = twice_of(x);
    wrote fixtures/random: random inputs, marked as synthetic

    next:
      1. replay fixtures/random
      2. check every line marked EDIT, before you believe a finding
      3. capture one step in its place: random inputs tell nothing of a training
    ");
}

#[test]
fn init_joins_passes_that_stand_in_two_folders() {
    let pass = |direction: &str, from: &str, to: &str| {
        format!(
            "__global__ void scale_{direction}_kernel(const float* {from}, const float* w, float* {to}, int n) {{}}\n\
             void scale_{direction}(const float* {from}, const float* w, float* {to}, int n)\n\
             {{ scale_{direction}_kernel<<<1, n>>>({from}, w, {to}, n); }}\n"
        )
    };
    for [forward, backward] in
        [["fwd/scale.cu", "bwd/scale.cu"], ["forward/forward.cu", "backward/backward.cu"]]
    {
        let env = TestEnv::new();
        env.repo.write(forward, pass("fwd", "x", "y"));
        env.repo.write(backward, pass("bwd", "dy", "dx"));
        env.repo.commit("Sources");
        let run = env.replay(&["init"]);
        let told = format!("wrote replay.toml, which calls {forward} and {backward}:\n");
        assert!(run.stdout.starts_with(&told), "{}", run.text());
    }
}

#[test]
fn init_says_what_to_name_instead_of_a_folder() {
    let env = TestEnv::new();
    env.repo.write("csrc/k.cu", "__global__ void twice(const float* x, float* y, int n) {}\n");
    env.repo.commit("Source");
    insta::assert_snapshot!(env.replay(&["init", "csrc"]).stderr, @"
    error: csrc is a folder, not a source
    hint: name a source in it, such as csrc/k.cu, or run `replay init` there: it drafts calls of every source below
    ");
    insta::assert_snapshot!(env.replay(&["init", "--output", "csrc"]).stderr, @"
    error: csrc is a folder
    hint: name a file in it: --output csrc/replay.toml
    ");
}

#[test]
fn init_says_where_it_found_nothing() {
    let env = TestEnv::new();
    env.repo.write("src/main.cpp", "int main() {}\n");
    insta::assert_snapshot!(env.replay(&["init"]).text(), @"
    exit code 128
    --- stderr
    error: this folder holds no CUDA source with a kernel to call
    hint: name the source: `replay init path/to/kernel.cu`
    ");
}

#[test]
fn a_sanitizer_is_for_gpus() {
    let env = TestEnv::new();
    let run = env.replay(&["fixtures/none", "--sanitize", "memcheck"]);
    insta::assert_snapshot!(run.text(), @"
    exit code 128
    --- stderr
    error: --sanitize is for replays on a GPU
    hint: add --backend cuda; the CPU finds unwritten and out-of-bounds memory itself
    ");
}

#[test]
fn doctor_finds_the_compiler_and_the_cache() {
    let env = TestEnv::isolated();
    let run = env.replay(&["doctor"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.contains("[COMPILER]") && run.stdout.contains("[CACHE]"), "{}", run.text());
    assert!(run.stdout.contains("sandbox"), "{}", run.text());
    let run = env.finish(env.command(&["doctor"]).env("CXX", "no-such-compiler"));
    assert_eq!(run.code, Some(128));
    assert!(run.stdout.contains("missing C++ compiler"), "{}", run.text());
}

#[test]
fn the_cache_is_shown_and_cleared() {
    let env = TestEnv::isolated().with_kernel(DOUBLE, "twice<<<1, n>>>(x, y, n);");
    insta::assert_snapshot!(env.replay(&["cache", "path"]).text(), @"
    exit code 0
    --- stdout
    [CACHE]
    ");
    env.replay(&["fixtures/tiny"]);
    assert!(!env.cached("artifacts").is_empty());
    insta::assert_snapshot!(env.replay(&["cache", "clear"]).text(), @"
    exit code 0
    --- stdout
    cleared [CACHE]
    ");
    assert!(env.cached("artifacts").is_empty());
}

#[test]
fn a_folder_to_begin_in_and_colours_stand_in_front_of_a_command_or_behind_it() {
    let env = TestEnv::new().with_kernel(DOUBLE, "twice<<<1, n>>>(x, y, n);");
    let plain = env.replay(&["inspect", "fixtures/tiny"]).stdout;
    for words in [
        ["-C", "fixtures", "inspect", "tiny"],
        ["inspect", "-C", "fixtures", "tiny"],
        ["inspect", "tiny", "-C", "fixtures"],
    ] {
        let run = env.replay(&words);
        assert_eq!((run.code, run.last_line()), (Some(0), plain.lines().last().unwrap()));
    }
    assert_eq!(env.replay(&["-C", "fixtures", "tiny"]).code, Some(0));
    let bold = env.replay(&["--color", "always", "inspect", "fixtures/tiny"]).stdout;
    assert!(!plain.contains('\u{1b}') && bold.contains('\u{1b}'), "{bold}");
    assert_eq!(env.replay(&["--color=never", "inspect", "fixtures/tiny"]).stdout, plain);
    for words in [&["log"][..], &["log", "--help"], &["--nonsense"]] {
        let said = |color: &str| {
            let mut command = env.command(&[words, &["--color", color]].concat());
            env.finish(command.env("CLICOLOR_FORCE", "1")).text()
        };
        assert!(said("always").contains('\u{1b}'), "{words:?}");
        assert!(!said("never").contains('\u{1b}'), "{words:?}");
    }
    insta::assert_snapshot!(env.replay(&["-C", "none", "inspect", "tiny"]).text(), @"
    exit code 128
    --- stderr
    error: cannot begin in none
    caused by: No such file or directory (os error 2)
    ");
}

#[test]
fn a_revision_in_the_place_of_a_fixture_is_told_how_it_is_named() {
    let env = TestEnv::new().with_kernel(DOUBLE, "twice<<<1, n>>>(x, y, n);");
    env.repo.commit_file("README", "twice\n", "Say what it does");
    env.repo.git(&["tag", "v1/base"]);
    insta::assert_snapshot!(env.replay(&["fixtures/tiny", "HEAD~1"]).stderr, @"
    error: there is no fixture folder HEAD~1
    hint: HEAD~1 is a revision: --rev HEAD~1
    ");
    insta::assert_snapshot!(env.replay(&["v1/base"]).stderr, @"
    error: there is no fixture folder v1/base
    hint: v1/base is a revision: --rev v1/base
    ");
    insta::assert_snapshot!(env.replay(&["fixtures/tiny", "HEAD~1..HEAD"]).stderr, @"
    error: there is no fixture folder HEAD~1..HEAD
    hint: HEAD~1..HEAD are revisions: `--rev HEAD --against HEAD~1`, or `replay diff FIXTURE HEAD~1..HEAD`
    ");
}

#[test]
fn a_diff_takes_its_revisions_as_a_range() {
    let env = TestEnv::new().with_kernel(DOUBLE, "twice<<<1, n>>>(x, y, n);");
    env.repo.commit_file("README", "twice\n", "Say what it does");
    let two = env.replay(&["diff", "fixtures/tiny", "HEAD~1", "HEAD"]);
    for range in ["HEAD~1..HEAD", "HEAD~1.."] {
        let run = env.replay(&["diff", "fixtures/tiny", range]);
        assert_eq!((run.code, &run.stdout), (Some(0), &two.stdout), "{}", run.text());
    }
    insta::assert_snapshot!(env.replay(&["diff", "fixtures/tiny", "A...B"]).text(), @"
    exit code 128
    --- stderr
    error: A...B is not two revisions
    hint: name the older one itself, which `git merge-base` tells: A..B or A B
    ");
    insta::assert_snapshot!(env.replay(&["diff", "fixtures/tiny", "HEAD"]).text(), @"
    exit code 128
    --- stderr
    error: diff needs a fixture and two revisions
    hint: `replay diff FIXTURE A B`, or A..B; HEAD stands for a side that is left out
    ");
}

#[test]
fn a_result_is_written_to_several_files_at_once() {
    let env = TestEnv::new().with_kernel(DOUBLE, "twice<<<1, n>>>(x, y, n);");
    let files = ["a.json", "a.html", "b.html", "a.md", "a.xml"];
    let reports = files.map(|file| ["--report", file]).concat();
    let run = env.replay(&[&["fixtures/tiny", "--rev", "HEAD"], &reports[..]].concat());
    assert_eq!(run.code, Some(0), "{}", run.text());
    let read = |name: &str| fs::read_to_string(env.path(name)).expect("a report");
    assert!(read("a.json").starts_with('{') && read("a.md").starts_with("<!-- replay -->"));
    assert!(read("a.xml").starts_with("<?xml") && read("a.html").starts_with("<!DOCTYPE"));
    assert_eq!(read("a.html"), read("b.html"));
}

#[test]
fn every_page_of_the_documentation_is_a_topic_and_those_named_like_a_command_are_reached() {
    let env = TestEnv::new();
    let topics = env.replay(&["help", "topics"]).stdout;
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/docs");
    for entry in fs::read_dir(docs).expect("a folder").flatten() {
        let name = entry.file_name().into_string().expect("text");
        let Some(page) = name.strip_suffix(".md") else { continue };
        assert!(
            topics.lines().any(|line| line.split(' ').next() == Some(page)),
            "{page}: {topics}"
        );
        let run = env.replay(&["help", "page", page]);
        assert!(run.code == Some(0) && run.stdout.len() > 500, "{page}: {}", run.text());
    }
    assert!(env.replay(&["help", "bisect"]).stdout.contains("Usage: replay bisect"));
    assert!(!env.replay(&["help", "page", "bisect"]).stdout.contains("Usage: replay bisect"));
}

#[test]
fn one_fixture_is_shown_whole_and_several_in_a_line_each_unless_it_is_asked_for() {
    let env = TestEnv::new().with_kernel(DOUBLE, "twice<<<1, n>>>(x, y, n);");
    env.write_fixture("more", &[("x", DType::F32, &[4], &[0; 16])]);
    let both = ["fixtures/tiny", "fixtures/more"];
    let whole = env.replay(&both[..1]).stdout;
    assert!(whole.contains("\noutputs\n"), "{whole}");
    assert_eq!(env.replay(&[both[0], "--full"]).stdout, whole);
    let full = env.replay(&[&both[..], &["--full"]].concat()).stdout;
    assert!(full.starts_with(&whole) && full.matches("\noutputs\n").count() == 2, "{full}");
    insta::assert_snapshot!(env.replay(&both).stdout, @"
    tiny at working tree on cpu: completed: every output is written and finite
    more at working tree on cpu: completed: every output is written and finite

    2 fixtures: 2 completed
    ");
    insta::assert_snapshot!(env.replay(&[both[0], "--short"]).stdout, @"tiny at working tree on cpu: completed: every output is written and finite");
}
