//! include/replay_capture.hpp: what a C++ program captures with it, the library reads as a fixture.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use replay::fixture::Fixture;
use tempfile::TempDir;

use crate::common::compiled::Compilation;

/// What every program of these tests begins with.
const HEAD: &str = r#"
#include <replay_capture.hpp>
inline void scaled(const float* x, float scale, double* out, int n) {
  for (int i = 0; i < n; i++) out[i] = x[i] * scale;
}
"#;

/// The compilers of this machine: `CXX` alone if it is set.
fn compilers() -> Vec<String> {
    if let Ok(cxx) = std::env::var("CXX") {
        return vec![cxx];
    }
    let known = ["g++", "clang++"].map(str::to_owned).into_iter();
    let found: Vec<String> = known.filter(|name| runs(name)).collect();
    assert!(!found.is_empty(), "neither g++ nor clang++ is in PATH");
    found
}

fn runs(program: &str) -> bool {
    let mut command = Command::new(program);
    let output = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    output.is_ok_and(|status| status.success())
}

/// Compiles `main` after [`HEAD`] to a program in `folder`; every warning is an error.
fn compile(cxx: &str, folder: &Path, main: &str, options: &[&str]) -> PathBuf {
    compile_with_headers(cxx, folder, main, options, &[])
}

/// The same with further folders of headers.
fn compile_with_headers(
    cxx: &str,
    folder: &Path,
    main: &str,
    options: &[&str],
    headers: &[&Path],
) -> PathBuf {
    let warnings = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"];
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let compilation = Compilation {
        compiler: cxx,
        options: &[&warnings[..], options].concat(),
        include: &[&[&*include], headers].concat(),
        text: &format!("{HEAD}{main}"),
    };
    let compiled = compilation.compile().unwrap_or_else(|said| panic!("{cxx}: {said}"));
    let program = folder.join("training");
    // A process that another test starts meanwhile would have a file open that this one wrote, which nobody can start then.
    let copied = Command::new("cp").arg(compiled).arg(&program).status().expect("cp runs");
    assert!(copied.success());
    program
}

/// What a program prints on stderr; it must end well.
fn run(program: &Path, folder: &Path) -> String {
    let output = Command::new(program).current_dir(folder).output().expect("a program");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{:?}: {told}", output.status);
    told
}

/// A program's stderr, compiled by the first compiler.
fn told(main: &str) -> (TempDir, String) {
    let folder = TempDir::new().expect("a folder");
    let program = compile(&compilers()[0], folder.path(), main, &[]);
    let told = run(&program, folder.path());
    (folder, told)
}

fn load(folder: &Path, name: &str) -> Fixture {
    Fixture::load(&folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn floats(fixture: &Fixture, name: &str) -> Vec<f32> {
    let input = fixture.inputs.iter().find(|input| input.name == name).expect(name);
    let packed = input.packed().expect("elements");
    packed.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

#[test]
fn a_captured_step_is_a_fixture_with_all_its_tensors_and_a_drafted_harness() {
    let main = r#"
int main() {
  float x[6] = {1, 2, 3, 4, 5, 6};
  double out[6];
  bool flags[2] = {true, false};
  unsigned short halves[2] = {0x3c00, 0xbc00};
  replay::capture c("fixtures/step3");
  c.function("scaled").sources({"src/loss.cu"}).include({"include"}).step(3).seed(7).model("a \"model\"");
  c.strict(true).input("x", x, {{"n", 6}}).input("scale", 0.5f).input("flags", flags, {2});
  c.input("turned", x, {{"columns", 2}, {"rows", 3}}, {1, 2});
  c.input("halves", halves, replay::dtype::f16, {2});
  const void* eighths = halves;
  c.input("eighths", static_cast<const __nv_fp8_e4m3*>(eighths), {4}).input("e5m2", eighths, replay::dtype::f8_e5m2, {4});
  if (!c.ready()) return 1;
  scaled(x, 0.5f, out, 6);
  c.output("loss", 2.5).output("out", out, {{"n", 6}});
  c.gradient("dx", "x", x, {{"n", 6}});
  return c.finish() ? 0 : 1;
}
"#;
    for cxx in compilers() {
        let folder = TempDir::new().expect("a folder");
        let program = compile(&cxx, folder.path(), main, &[]);
        assert_eq!(run(&program, folder.path()), "", "{cxx}");
        let fixture = load(folder.path(), "fixtures/step3");
        assert_eq!(floats(&fixture, "x"), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(floats(&fixture, "turned"), [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
        let turned = fixture.inputs.iter().find(|input| input.name == "turned").expect("it");
        assert_eq!(turned.strides.as_deref(), Some(&[1, 2][..]));
        assert_eq!(floats(&fixture, "scale"), [0.5]);
        let facts: Vec<_> = fixture.provenance.entries().collect();
        let facts: Vec<(&str, &str)> = facts.iter().map(|(key, value)| (*key, &**value)).collect();
        assert!(facts.contains(&("step", "3")) && facts.contains(&("seed", "7")), "{facts:?}");
        assert!(facts.contains(&("model", "a \"model\"")), "{facts:?}");
        let expected: Vec<&str> = fixture.captured.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(expected, ["loss", "out", "dx"]);
        let harness = std::fs::read_to_string(&fixture.harness.path).expect("the harness");
        insta::allow_duplicates! { insta::assert_snapshot!(harness, @r#"
        # Drafted for call 66bcc8835900, results fb14f408a0c4. It is yours now.
        # The call is a guess: inputs, outputs and sizes in the order of the capture.
        sources = ["src/loss.cu"]
        include = ["include"]
        call = "loss = scaled(x, scale, flags, turned, halves, eighths, e5m2, out, dx, n, columns, rows);"

        [inputs.x]
        dtype = "f32"
        shape = ["n"]

        [inputs.scale]
        dtype = "f32"
        shape = []

        [inputs.flags]
        dtype = "bool"
        shape = [2]

        [inputs.turned]
        dtype = "f32"
        shape = ["columns", "rows"]

        [inputs.halves]
        dtype = "f16"
        shape = [2]

        [inputs.eighths]
        dtype = "f8_e4m3"
        shape = [4]

        [inputs.e5m2]
        dtype = "f8_e5m2"
        shape = [4]

        [outputs.loss]
        dtype = "f64"
        shape = []

        [outputs.out]
        dtype = "f64"
        shape = ["n"]

        [outputs.dx]
        dtype = "f32"
        shape = ["n"]
        gradient_of = "x"
        "#) }
    }
}

#[test]
fn a_drafted_call_has_the_order_of_the_function_s_parameters() {
    let source = r#"
// scaled(wrong, order) {
float scaled(const float* __restrict__ x, int n, /* of x, too */ const long shape[], double* out = nullptr);
float scaled(const float* __restrict__ x, int n, const long* shape, float scale, double* out,
             double* best)
{
}
"#;
    let main = r#"
int main() {
  float x[2] = {1, 2};
  long shape[1] = {2};
  double out[2] = {1, 2}, best = 2;
  replay::capture c("fixtures/step0");
  c.function("scaled").sources({"src/no.cu", "src/loss.cu"}).strict(true);
  c.input("scale", 2.0f).input("x", x, {{"n", 2}}).input("shape", shape, {1}).ready();
  c.output("best", best).output("loss", 1.0f).output("out", out, {{"n", 2}});
}
"#;
    let folder = TempDir::new().expect("a folder");
    std::fs::create_dir(folder.path().join("src")).expect("a folder");
    std::fs::write(folder.path().join("src/loss.cu"), source).expect("a source");
    let program = compile(&compilers()[0], folder.path(), main, &[]);
    assert_eq!(run(&program, folder.path()), "");
    let harness = load(folder.path(), "fixtures/step0").harness.path;
    let text = std::fs::read_to_string(harness).expect("the harness");
    let call = text.lines().find(|line| line.starts_with("call"));
    insta::assert_snapshot!(call.expect("a call"), @r#"call = "loss = scaled(x, n, shape, scale, out, &best);""#);
    assert!(!text.contains("guess"), "{text}");
}

/// A training of a repository of its own, and what it compiles.
const TRAINING: &str = r#"
#include "kernel.cu"
int main() {
  const int rows = 3, columns = 4;
  float weights[rows * columns], gradient[rows * columns], losses[rows];
  int targets[rows] = {2, 0, 3};
  for (int i = 0; i < rows * columns; i++) weights[i] = 0.1f * static_cast<float>(i * 7 % 5);
  for (int step = 0; step < 3; step++) {
    replay::capture c("fixtures/step" + std::to_string(step), step > 0, __FILE__);
    c.function("square_loss").sources({"src/kernel.cu"}).step(step).strict(true);
    c.input("x", weights, {{"rows", rows}, {"columns", columns}});
    c.input("target", targets, {{"rows", rows}}).ready();
    square_loss(weights, targets, losses, gradient, rows, columns);
    c.output("losses", losses, {{"rows", rows}});
    c.gradient("grad_x", "x", gradient, {{"rows", rows}, {"columns", columns}});
    for (int i = 0; i < rows * columns; i++) weights[i] -= 0.2f * gradient[i];
  }
}
"#;

/// A kernel that is a loop where nothing compiles for CUDA. Its bits are those of any compiler.
const KERNEL: &str = r#"
#ifdef __CUDACC__
#define SHARED __host__ __device__
#else
#define SHARED
#endif
SHARED inline void row_loss(const float* x, const int* target, float* losses, float* grad_x, int row, int columns) {
  float sum = 0;
  for (int i = 0; i < columns; i++) {
    float off = x[row * columns + i] - (i == target[row] ? 1.0f : 0.0f);
    sum += off * off;
    grad_x[row * columns + i] = 2 * off;
  }
  losses[row] = sum;
}
#ifdef __CUDACC__
__global__ void loss_kernel(const float* x, const int* target, float* losses, float* grad_x, int columns) {
  row_loss(x, target, losses, grad_x, threadIdx.x, columns);
}
#endif
void square_loss(const float* x, const int* target, float* losses, float* grad_x, int rows, int columns) {
#ifdef __CUDACC__
  loss_kernel<<<1, rows>>>(x, target, losses, grad_x, columns);
#else
  for (int row = 0; row < rows; row++) row_loss(x, target, losses, grad_x, row, columns);
#endif
}
"#;

#[test]
fn a_captured_loop_gives_its_own_bits_and_then_finds_a_defect() {
    let folder = TempDir::new().expect("a folder");
    let source = folder.path().join("src");
    std::fs::create_dir(&source).expect("a folder");
    let commit = |kernel: &str, subject: &str| {
        std::fs::write(source.join("kernel.cu"), kernel).expect("a source");
        git(folder.path(), &["add", "src"]);
        git(folder.path(), &["commit", "--quiet", "-m", subject]);
        git(folder.path(), &["rev-parse", "--short=7", "HEAD"])
    };
    git(folder.path(), &["init", "--quiet", "."]);
    let good = commit(KERNEL, "add the loss");
    let options = ["-ffp-contract=off"];
    let program = compile_with_headers(&compilers()[0], &source, TRAINING, &options, &[&source]);
    assert_eq!(run(&program, folder.path()), "");

    let replay = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_replay"));
        command.current_dir(folder.path()).args(arguments);
        let output = command.env("REPLAY_CACHE_DIR", folder.path().join("cache")).output();
        let output = output.expect("replay");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, told, errors) = replay(&["fixtures/"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{told}");
    assert!(told.contains("  losses, grad_x are as captured, at both steps\n"), "{told}");

    commit(&KERNEL.replace("= 2 * off;", "= off + off;"), "add instead");
    let culprit = commit(&KERNEL.replace("= 2 * off;", "= 1.99f * off;"), "scale the gradient");
    git(folder.path(), &["commit", "--quiet", "--allow-empty", "-m", "end"]);
    let (code, found, errors) =
        replay(&["bisect", "fixtures/step2", "--good", &good, "--bad", "HEAD"]);
    assert_eq!(code, Some(0), "{found}{errors}");
    assert!(
        found.contains(&format!("{culprit} is the first bad commit: scale the gradient")),
        "{found}"
    );
    assert!(found.contains("grad_x diverged: wrong"), "{found}");
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments);
    let output = command.current_dir(folder).output().expect("git");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn a_crash_leaves_a_fixture_of_the_inputs_and_steps_share_a_harness() {
    let main = r#"
int main() {
  float x[2] = {1, 2};
  double out[2];
  for (int step = 0; step < 3; step++) {
    replay::capture c("fixtures/step" + std::to_string(step));
    c.function("scaled").strict(true).input("x", x, {{"n", 2}}).ready();
    if (step == 2) _exit(0);
    scaled(x, 1, out, 2);
    c.output("out", out, {{"n", 2}});
  }
}
"#;
    let (folder, stderr) = told(main);
    assert_eq!(stderr, "");
    for (step, outputs) in [("step0", 1), ("step1", 1), ("step2", 0)] {
        let fixture = load(folder.path(), &format!("fixtures/{step}"));
        assert_eq!(floats(&fixture, "x"), [1.0, 2.0]);
        assert_eq!(fixture.captured.len(), outputs, "{step}");
        assert!(fixture.harness.path.ends_with("harness-scaled/replay.toml"));
    }
}

#[test]
fn what_is_off_writes_and_reads_nothing() {
    let main = r#"
int main() {
  replay::capture c("fixtures/step0", false);
  const float* nowhere = nullptr;
  c.strict(true).input("x", nowhere, {{"n", 6}}).ready();
  c.output("out", nowhere, {{"n", 6}});
}
"#;
    let (folder, stderr) = told(main);
    assert_eq!(stderr, "");
    assert!(!folder.path().join("fixtures").exists());
}

#[test]
fn errors_are_told_once_and_stop_nothing() {
    let main = r#"
int main() {
  float x[4] = {1, 2, 3, 4};
  const float* nowhere = nullptr;
  std::FILE* file = std::fopen("file", "w");
  std::fclose(file);
  for (int again = 0; again < 2; again++) {
    replay::capture("a").input("x", x, {{"n", 4}}).input("x", x, {{"n", 4}});
    replay::capture("b").input("x", x, {{"n", 4}}).input("y", x, {{"n", 3}});
    replay::capture("c").input("x", nowhere, {{"n", 4}});
    replay::capture("d").input("my x", x, {{"n", 4}});
    replay::capture("e").input("x", x, {{"n", 2}, {"m", 2}}, {1});
    replay::capture("f").input("x", x, {4}).gradient("dy", "y", x, {4});
    replay::capture("file/step0").input("x", x, {4}).ready();
    replay::capture late("g");
    late.input("x", x, {4}).ready();
    late.input("y", x, {4});
    replay::capture("g").input("x", x, {4}).ready();
    replay::capture("h").ready();
    const long long huge = 1LL << 62;
    replay::capture("j").input("x", x, {huge});
    replay::capture("k").input("x", x, {8, 2}, {1, huge});
    replay::capture("l").input("x", x, {-1});
  }
  try {
    replay::capture("i").strict(true).input("", x, {4});
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "thrown: %s\n", error.what());
  }
}
"#;
    let (_folder, stderr) = told(main);
    insta::assert_snapshot!(stderr, @"
    replay: not captured: two tensors are called `x`
    replay: not captured: n is 4, but 3 by `y`
    replay: not captured: `x` is a null pointer
    replay: not captured: `my x` is not an identifier of C++, as names of tensors are
    replay: not captured: `x` has 1 strides for 2 dimensions
    replay: not captured: `dy` is the gradient of `y`, which is not an input
    replay: not captured: failed to make the folder file/step0: Not a directory
    replay: not captured: input `y` comes after ready() or an output
    replay: not captured: g holds a fixture already, which stays as it is
    replay: not captured: h has no inputs
    replay: not captured: `x` has more elements than memory has addresses
    replay: not captured: f holds a fixture already, which stays as it is
    thrown: `` is not an identifier of C++, as names of tensors are
    ");
}

#[test]
fn a_full_disk_leaves_whole_fixtures_only_and_is_told_once() {
    let main = r#"
#include <sys/resource.h>
int main() {
  // A file that grows beyond this fails as it does on a full disk; the signal for it would end the training.
  rlimit most{100000, 100000};
  setrlimit(RLIMIT_FSIZE, &most);
  std::vector<float> x(60000, 1);
  int counts[] = {10, 60000, 20, 50000};
  for (int step = 0; step < 4; step++) {
    replay::capture c("fixtures/step" + std::to_string(step));
    c.function("scaled").input("x", x.data(), {{"n", counts[step]}}).ready();
    c.output("out", x.data(), {{"n", counts[step]}});
  }
}
"#;
    let (folder, stderr) = told(main);
    insta::assert_snapshot!(stderr, @"replay: not captured: failed to write fixtures/step1/inputs.safetensors: File too large");
    for (step, count) in [("step0", 10), ("step2", 20)] {
        let fixture = load(folder.path(), &format!("fixtures/{step}"));
        assert_eq!(floats(&fixture, "x").len(), count);
        assert_eq!(fixture.captured.len(), 1, "{step}");
    }
    let mut names: Vec<_> = std::fs::read_dir(folder.path().join("fixtures"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    assert_eq!(names, ["harness-scaled", "step0", "step2"]);
}

#[test]
fn each_fixture_of_two_threads_on_one_folder_is_the_work_of_one() {
    let main = r#"
#include <atomic>
#include <thread>
int main() {
  std::atomic<int> ready{0};
  auto train = [&](float mine) {
    const int n = 3000;
    std::vector<float> x(n, mine);
    std::vector<double> out(n, 2 * mine);
    for (int step = 0; step < 20; step++) {
      ready++;
      while (ready < 2 * (step + 1)) std::this_thread::yield();
      replay::capture c("fixtures/" + std::to_string(step) + "/");
      c.function("scaled").input("x", x.data(), {{"n", n}}).input("mine", mine);
      c.ready();
      c.output("out", out.data(), {{"n", n}});
    }
  };
  // What a process left that died: while it wrote, and before folders appeared whole.
  std::vector<std::string> left;
  replay::detail::make_folder("fixtures/.0.7.part", left);
  replay::detail::make_folder("fixtures/0", left);
  std::fclose(std::fopen("fixtures/.0.7.part/inputs.safetensors", "w"));
  std::fclose(std::fopen("fixtures/0/expected.safetensors", "w"));
  std::thread other(train, 1.0f);
  train(2.0f);
  other.join();
}
"#;
    let (folder, stderr) = told(main);
    assert!(stderr.contains(" holds a fixture already, which stays as it is"), "{stderr}");
    for step in 0..20 {
        let fixture = load(folder.path(), &format!("fixtures/{step}"));
        let mine = floats(&fixture, "mine")[0];
        assert_eq!(floats(&fixture, "x"), vec![mine; 3000]);
        let out = fixture.captured[0].bytes().as_chunks().0;
        assert!(out.iter().all(|&bytes| f64::from_le_bytes(bytes) == f64::from(2.0 * mine)));
    }
    let entries = std::fs::read_dir(folder.path().join("fixtures")).expect("a folder");
    assert_eq!(entries.count(), 21, "20 steps and a harness");
}

#[test]
fn a_header_longer_than_its_room_moves_the_elements() {
    let main = r#"
int main() {
  replay::capture c("fixtures/step0");
  c.strict(true).input("flag", true);
  std::vector<double> x(3000000);
  for (std::size_t i = 0; i < x.size(); i++) x[i] = double(i);
  for (int i = 0; i < 60; i++) c.input("x" + std::to_string(i), x.data() + i, {{"n", 100}});
  c.input("turned", x.data(), {{"rows", 3}, {"columns", 2}}, {1, 3});
  c.input("large", x.data(), {x.size()}).ready();
  scaled(nullptr, 1, nullptr, 0);
  for (int i = 0; i < 60; i++) c.output("out" + std::to_string(i), x.data() + i, {{"n", 100}});
}
"#;
    let (folder, stderr) = told(main);
    assert_eq!(stderr, "");
    let fixture = load(folder.path(), "fixtures/step0");
    let doubles = |bytes: &[u8]| -> Vec<f64> {
        bytes.as_chunks().0.iter().map(|one| f64::from_le_bytes(*one)).collect()
    };
    let input = |name| {
        let found = fixture.inputs.iter().find(|input| input.name == name).expect(name);
        doubles(&found.packed().expect("elements"))
    };
    let last = fixture.captured.iter().find(|expected| expected.name == "out59").expect("out59");
    let from = |start: u32, count: u32| (start..start + count).map(f64::from).collect::<Vec<_>>();
    assert_eq!((input("x7"), doubles(last.bytes())), (from(7, 100), from(59, 100)));
    assert_eq!(input("turned"), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert_eq!(input("large"), from(0, 3_000_000));
}

#[test]
fn device_pointers_are_copied_by_the_cuda_runtime() {
    // Memory of this device lies a megabyte away from where its pointers point.
    let runtime = r#"
#pragma once
#include <cstring>
enum cudaError_t { cudaSuccess, cudaErrorInvalidValue };
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
struct cudaDeviceProp { char name[256]; };
static int synchronised = 0;
inline cudaError_t cudaDeviceSynchronize() { synchronised++; return cudaSuccess; }
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (kind != cudaMemcpyDefault || synchronised == 0) return cudaErrorInvalidValue;
  std::memcpy(to, static_cast<const char*>(from) + (1 << 20), bytes);
  return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* number) { *number = 0; return cudaSuccess; }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::strcpy(properties->name, "a device of this test");
  return cudaSuccess;
}
inline cudaError_t cudaRuntimeGetVersion(int* version) { *version = 13000; return cudaSuccess; }
inline cudaError_t cudaDriverGetVersion(int* version) { *version = 13020; return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t) { return "invalid value"; }
"#;
    let main = r#"
int main() {
  static float memory[(1 << 18) + 2] = {};
  memory[1 << 18] = 5;
  memory[(1 << 18) + 1] = 6;
  double out[2];
  replay::capture c("fixtures/step0");
  c.strict(true).input("x", memory, {{"n", 2}}).input("scale", 2.0f);
  scaled(memory, 2, out, 2);
  return c.output("loss", 1.0f).finish() ? 0 : 1;
}
"#;
    let folder = TempDir::new().expect("a folder");
    let headers = TempDir::new().expect("a folder");
    std::fs::write(headers.path().join("cuda_runtime_api.h"), runtime).expect("a header");
    let options = ["-DREPLAY_CAPTURE_CUDA"];
    let compiler = &compilers()[0];
    let program = compile_with_headers(compiler, folder.path(), main, &options, &[headers.path()]);
    assert_eq!(run(&program, folder.path()), "");
    let fixture = load(folder.path(), "fixtures/step0");
    assert_eq!(floats(&fixture, "x"), [5.0, 6.0]);
    assert_eq!(floats(&fixture, "scale"), [2.0]);
    let told = |key| fixture.provenance.entries().find(|(name, _)| *name == key).expect(key).1;
    assert_eq!((&*told("framework"), &*told("device")), ("CUDA", "a device of this test"));
    let versions = told("versions");
    assert!(versions.starts_with("compiler "), "{versions}");
    assert!(versions.ends_with(", cuda 13.0, driver_cuda 13.2"), "{versions}");
}

#[test]
fn kills_leave_no_half_fixture_that_can_be_loaded() {
    let main = r#"
#include <vector>
int main() {
  const int n = 30000;
  for (int step = 0;; step++) {
    if (step < 2) std::puts("step");
    std::fflush(stdout);
    std::vector<float> x(n, step);
    std::vector<double> out(n);
    replay::capture c("fixtures/" + std::to_string(step));
    c.strict(true).function("scaled").input("x", x.data(), {{"n", n}}).input("step", step).ready();
    scaled(x.data(), 2, out.data(), n);
    c.output("out", out.data(), {{"n", n}});
  }
}
"#;
    let folder = TempDir::new().expect("a folder");
    let program = compile(&compilers()[0], folder.path(), main, &[]);
    let mut whole = 0;
    let mut half = 0;
    for kill in 0..30u64 {
        let home = folder.path().join(format!("run{kill}"));
        std::fs::create_dir(&home).expect("a folder");
        let mut command = Command::new(&program);
        let mut training =
            command.current_dir(&home).stdout(Stdio::piped()).spawn().expect("a program");
        // Half of the kills come in the first step, however long the disk takes for it.
        let mut lines = BufReader::new(training.stdout.take().expect("a pipe")).lines();
        for _ in 0..=kill % 2 {
            lines.next().expect("a line").expect("a line");
        }
        // Moments that no step's duration divides.
        std::thread::sleep(Duration::from_micros(kill * 7919 % 200_000));
        training.kill().expect("a training that runs");
        training.wait().expect("its end");
        for entry in std::fs::read_dir(home.join("fixtures")).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(step) = name.parse::<u32>() else { continue };
            let fixture = match Fixture::load(&path) {
                Ok(fixture) => fixture,
                Err(error) => {
                    assert!(!path.join("fixture.toml").exists(), "{}: {error}", path.display());
                    half += 1;
                    continue;
                }
            };
            whole += 1;
            assert_eq!(floats(&fixture, "x"), vec![step as f32; 30_000]);
            for expected in &fixture.captured {
                let value = f64::from(2 * step).to_le_bytes();
                assert!(expected.bytes().as_chunks().0.iter().all(|one| *one == value));
            }
        }
    }
    assert!(whole > 0, "every kill came before the first step; {half} were refused");
}
