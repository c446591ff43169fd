//! Launchers of PyTorch extensions, called by the harness as Python calls them, right and with a defect.

use std::fs;
use std::path::Path;

use replay::fixture::NewTensor;
use replay::tensor::DType;

use crate::common::env::{Run, TestEnv};

/// `count` numbers between -1 and 1.
fn numbers(count: usize, seed: usize) -> Vec<u8> {
    let number = |i: usize| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0;
    (0..count).flat_map(|i| number(i).to_le_bytes()).collect()
}

/// The project `tests/engine/public/FOLDER` with `source`, committed, and then with `right` replaced by `wrong`.
fn project(
    [folder, source]: [&str; 2],
    harness: &str,
    tensors: &[NewTensor],
    [right, wrong]: [&str; 2],
) -> TestEnv {
    let env = TestEnv::new();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/public").join(folder);
    for entry in shipped.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        env.repo.write(&format!("csrc/{name}"), fs::read_to_string(&path).unwrap());
    }
    let head = format!("sources = [\"csrc/{source}\"]\ninclude = [\"csrc\"]\n");
    env.repo.write("replay.toml", head + harness);
    env.repo.write(".gitignore", "fixtures\n");
    env.write_fixture("step", tensors);
    env.repo.commit("A right launcher");
    let text = fs::read_to_string(shipped.join(source)).unwrap();
    assert!(text.contains(right));
    env.repo.write(&format!("csrc/{source}"), text.replace(right, wrong));
    env.repo.commit("A launcher with a defect");
    env
}

fn assert_told(env: &TestEnv, words: &str) {
    let run = env.replay(&["fixtures/step", "--rev", "HEAD~1", "--check=always"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    let run = env.replay(&["fixtures/step", "--rev", "HEAD", "--against", "HEAD~1"]);
    assert_eq!(run.code, Some(1), "{}", run.text());
    assert!(run.stdout.contains(words), "{}", run.text());
}

#[test]
fn a_layer_norm_with_a_wrong_gradient_is_told_by_its_own_loss() {
    let harness = "call = \"\"\"\n\
        y, mean, rstd = layer_norm_forward(x, weight, bias, 1e-5);\n\
        dx, dweight, _ = layer_norm_backward(dy, x, mean, rstd, weight);\"\"\"\n\
        inputs.x = { dtype = \"f32\", shape = [\"rows\", \"columns\"] }\n\
        inputs.dy = { dtype = \"f32\", shape = [\"rows\", \"columns\"] }\n\
        inputs.weight = { dtype = \"f32\", shape = [\"columns\"] }\n\
        inputs.bias = { dtype = \"f32\", shape = [\"columns\"] }\n\
        outputs.y = { dtype = \"f32\", shape = [\"rows\", \"columns\"] }\n\
        outputs.mean = { dtype = \"f32\", shape = [\"rows\"] }\n\
        outputs.rstd = { dtype = \"f32\", shape = [\"rows\"] }\n\
        outputs.dx = { dtype = \"f32\", shape = [\"rows\", \"columns\"], gradient_of = \"x\", of = \"y\", upstream = \"dy\" }\n\
        outputs.dweight = { dtype = \"f32\", shape = [\"columns\"], gradient_of = \"weight\", of = \"y\", upstream = \"dy\" }\n";
    let (x, dy) = (numbers(4 * 40, 1), numbers(4 * 40, 2));
    let (weight, bias) = (numbers(40, 3), numbers(40, 4));
    let tensors: [NewTensor; 4] = [
        ("x", DType::F32, &[4, 40], &x),
        ("dy", DType::F32, &[4, 40], &dy),
        ("weight", DType::F32, &[40], &weight),
        ("bias", DType::F32, &[40], &bias),
    ];
    let change = ["(g - mean_g - normal * mean_gn)", "(g - mean_g)"];
    let source = ["tensor_layer_norm", "layer_norm_cuda.cu"];
    let env = project(source, harness, &tensors, change);
    assert_told(&env, "dx       does not match d y / d x");
}

#[test]
fn a_mask_that_is_turned_round_is_told() {
    let harness = "call = \"image, counts, _ = splat::draw(points, colors, mask, 30);\"\n\
        inputs.points = { dtype = \"f32\", shape = [\"n\", 3] }\n\
        inputs.colors = { dtype = \"f32\", shape = [\"n\", 2], optional = true }\n\
        inputs.mask = { dtype = \"bool\", shape = [\"n\"], optional = true }\n\
        outputs.image = { dtype = \"f32\", shape = [30, 1] }\n\
        outputs.counts = { dtype = \"i32\", shape = [30] }\n";
    let places = [3.5f32, 2.0, 0.5, 9.0, 1.5, 1.0, 17.25, 4.0, 0.75, 25.0, 2.5, 0.25];
    let points: Vec<u8> = places.iter().flat_map(|x| x.to_le_bytes()).collect();
    let tensors: [NewTensor; 2] =
        [("points", DType::F32, &[4, 3], &points), ("mask", DType::Bool, &[4], &[1, 0, 1, 1])];
    let change = ["!mask[n]", "mask[n]"];
    let env = project(["tensor_splat", "splat.cu"], harness, &tensors, change);
    assert_told(&env, "image   diverged");
}

#[test]
fn a_view_that_begins_one_column_early_is_told() {
    let harness = "call = \"leaky_halves(x, 0.25, true)\"\n\
        inputs.x = { dtype = \"f32\", shape = [\"rows\", \"columns\"] }\n\
        outputs.out = { dtype = \"f32\", shape = [\"rows\", 2, 4] }\n";
    let x = numbers(5 * 8, 5);
    let change = ["in.slice(-1, half)", "in.slice(-1, half - 1, 2 * half - 1)"];
    let source = ["tensor_activation", "activation.cu"];
    let env = project(source, harness, &[("x", DType::F32, &[5, 8], &x)], change);
    assert_told(&env, "out  diverged");
}

#[test]
fn a_function_of_pytorch_itself_is_named_with_its_line() {
    let env = TestEnv::new();
    env.repo.write(
        "k.cu",
        "#include <torch/extension.h>\ntorch::Tensor total(torch::Tensor x) {\n  return torch::softmax(x, 0);\n}\n",
    );
    let harness = "sources = [\"k.cu\"]\ncall = \"total(x)\"\n\
                   [inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                   [outputs.y]\ndtype = \"f32\"\nshape = [1]\n";
    env.repo.write("replay.toml", harness);
    env.write_tiny();
    env.repo.commit("An operator of PyTorch");
    let run: Run = env.replay(&["fixtures/tiny"]);
    assert_eq!(run.code, Some(125), "{}", run.text());
    assert!(run.stdout.contains("k.cu:3:"), "{}", run.text());
    assert!(
        run.stdout.contains("this part of PyTorch is not among the tensors here"),
        "{}",
        run.text()
    );
}

const TWO_RESULTS: &str = "\
#include <torch/extension.h>
__global__ void twice_kernel(float* y, const float* x, int n) {
  int i = threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
std::vector<at::Tensor> twice(at::Tensor x) {
  auto y = at::empty_like(x);
  twice_kernel<<<1, 64>>>(y.data_ptr<float>(), x.data_ptr<float>(), x.numel());
  return {y, y};
}
at::Tensor pick(at::Tensor x, at::Tensor index) {
  TORCH_CHECK(index.numel() < 2, \"one index alone\");
  return x;
}
at::Tensor gather(at::Tensor x, at::Tensor index) {
  (void)index.data_ptr<int64_t>();
  return at::empty_like(x);
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def(\"forward\", &twice); }
";

/// The replay of [`TWO_RESULTS`] with `call`, its output `y` of `shape`.
fn replay_twice(call: &str, shape: &str) -> Run {
    let env = TestEnv::new();
    env.repo.write("k.cu", TWO_RESULTS);
    let harness = format!(
        "sources = [\"k.cu\"]\ncall = \"{call}\"\n\
         [inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
         [outputs.y]\ndtype = \"f32\"\nshape = [{shape}]\n"
    );
    env.repo.write("replay.toml", harness);
    env.write_tiny();
    env.repo.commit("Two results");
    env.replay(&["fixtures/tiny"])
}

#[test]
fn a_call_that_does_not_fit_is_a_fault_of_the_harness() {
    insta::assert_snapshot!(replay_twice("y = twice(x);", "\"n\"").text(), @"
    exit code 128
    --- stderr
    error: the call of replay.toml does not fit: the call gives 2 results for 1 names: `a, _, b = f(...)` says which is which
    hint: give each result a name in the call, `_` for one that is no output; give a tensor the dtype and the shape of the function in the harness and in the fixture, or convert it in the call: `at::Tensor(x).to(at::kHalf)`
    ");
    insta::assert_snapshot!(replay_twice("y, _ = twice(x);", "2").text(), @"
    exit code 128
    --- stderr
    error: the call of replay.toml does not fit: the call gives Float [4] for the output `y`, in the harness Float [2]
    hint: give each result a name in the call, `_` for one that is no output; give a tensor the dtype and the shape of the function in the harness and in the fixture, or convert it in the call: `at::Tensor(x).to(at::kHalf)`
    ");
    insta::assert_snapshot!(replay_twice("y = gather(x, x);", "\"n\"").text(), @"
    exit code 128
    --- stderr
    error: the call of replay.toml does not fit: expected scalar type Long but found Float in `x` of the harness at k.cu:16
    hint: give each result a name in the call, `_` for one that is no output; give a tensor the dtype and the shape of the function in the harness and in the fixture, or convert it in the call: `at::Tensor(x).to(at::kHalf)`
    ");
}

#[test]
fn a_failed_check_of_the_sources_says_once_that_it_is_in_host_code() {
    let run = replay_twice("y = pick(x, at::Tensor(x).to(at::kLong));", "\"n\"");
    assert_eq!(run.code, Some(1), "{}", run.text());
    let failed = run.stdout.lines().find(|line| line.contains("failed"));
    insta::assert_snapshot!(failed.unwrap_or_default().trim(), @"failed: host code stopped itself: one index alone at k.cu:12");
}

#[test]
fn a_name_of_python_in_the_call_is_told_from_that_of_the_function() {
    let run = replay_twice("y, _ = forward(x);", "\"n\"");
    assert_eq!(run.code, Some(125), "{}", run.text());
    let hint = run.stdout.lines().find(|line| line.contains("Python"));
    insta::assert_snapshot!(hint.unwrap_or_default().trim(), @"hint: `forward` is the name in Python: k.cu:19 binds it to `twice`, and the call names the function; the whole log: [CACHE]/refusals/[KEY]");
}

#[test]
fn init_drafts_the_launchers_of_an_extension_and_replays_them() {
    let env = TestEnv::new();
    env.repo.write("csrc/op.cpp", BINDINGS);
    env.repo.write("csrc/op.cu", LAUNCHERS);
    env.repo.commit("An extension");
    insta::assert_snapshot!(env.replay(&["init", "csrc/op.cpp"]).text(), @"
    exit code 128
    --- stderr
    error: csrc/op.cpp launches no kernel itself: it uses fused_forward, fused_backward of csrc/op.cu
    hint: `replay init csrc/op.cu` drafts the call of them
    ");
    insta::assert_snapshot!(env.replay(&["init", "--random", "rows=4,cols=8,w_0=8"]).text(), @"
    exit code 0
    --- stdout
    wrote replay.toml, which calls csrc/op.cu:
      out = fused_forward(x, w, eps);
      dx, dw = fused_backward(dy, x, w);
    wrote fixtures/random: random inputs, marked as synthetic

    next:
      1. replay fixtures/random
      2. check every line marked EDIT, before you believe a finding
      3. capture one step in its place: random inputs tell nothing of a training
    ");
    let run = env.replay(&["fixtures/random"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.contains("dw  matches d out / d w"), "{}", run.text());
}

/// A loss with its gradient and a sum of squares, of functions that give their outputs sizes, take lists, return numbers
/// and check what they are given.
const UNUSUAL_ARGUMENTS: &str = "\
#include <cassert>
#include <torch/extension.h>
__global__ void squares(const float* x, const float* scale, float* y, int columns)
{
    int i = blockIdx.x * columns + threadIdx.x;
    y[i] = x[i] * x[i] * scale[blockIdx.x];
}
__global__ void slopes(const float* dy, const float* x, const float* scale, float* dx, int columns)
{
    int i = blockIdx.x * columns + threadIdx.x;
    dx[i] = 2 * dy[i] * x[i] * scale[blockIdx.x];
}
std::tuple<int, at::Tensor> square_forward(at::Tensor x, at::Tensor scale, at::Tensor& y, std::string mode)
{
    int rows = x.size(0), columns = x.size(1);
    assert(scale.size(0) == rows);
    if (mode == \"plain\") y.resize_({rows, columns});
    squares<<<rows, columns>>>(x.data_ptr<float>(), scale.data_ptr<float>(), y.data_ptr<float>(), columns);
    at::Tensor largest = y.max();
    return {rows, largest};
}
void square_backward(at::Tensor gradY, at::Tensor x, at::Tensor scale, at::Tensor& gradX)
{
    gradX.resize_as_(x);
    int rows = gradY.size(0), columns = gradY.size(1);
    slopes<<<rows, columns>>>(gradY.data_ptr<float>(), x.data_ptr<float>(), scale.data_ptr<float>(), gradX.data_ptr<float>(), columns);
}
__global__ void halve(float* x) { x[threadIdx.x] /= 2; }
void halve_all(std::vector<std::vector<at::Tensor>> lists)
{
    TORCH_CHECK(lists.size() == 2 && lists[1].size() == 2);
    for (at::Tensor& x : lists[1]) halve<<<1, x.numel()>>>(x.data_ptr<float>());
    lists[0][0].copy_(lists[1][0]);
}
";

#[test]
fn init_calls_functions_that_size_their_outputs_take_lists_and_return_numbers() {
    let env = TestEnv::new();
    env.repo.write("k.cu", UNUSUAL_ARGUMENTS);
    env.repo.commit("Squares");
    let text = env.replay(&["init", "--random"]).text();
    for call in [
        "y_resized, \"plain\");",
        "  y = at::Tensor(y_resized);",
        "  halve_all({{lists_0a, lists_0b}, {lists_1a, lists_1b}});",
    ] {
        assert!(text.contains(call), "{text}");
    }
    let run = env.replay(&["fixtures/random"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.contains("gradX  matches d y / d x"), "{}", run.text());
    // The largest element of `y`, by the report.
    let after = |name: &str, word: &str| {
        let told = run.stdout.split(name).nth(1).and_then(|text| text.split(word).nth(1));
        told.and_then(|text| text.split_whitespace().next()).unwrap_or_default().to_owned()
    };
    assert_eq!(after("  largest ", "mean "), after("  y ", "max "), "{}", run.text());
    assert_eq!(env.replay(&["fixtures/random-halve_all"]).code, Some(0));
}

#[test]
fn init_calls_the_forward_pass_alone_where_both_come_to_no_end() {
    let env = TestEnv::new();
    env.repo.write(
        "k.cu",
        "#include <torch/extension.h>
__global__ void twice(const float* x, float* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
at::Tensor scale_forward(at::Tensor x)
{
    at::Tensor y = at::empty_like(x);
    twice<<<1, x.numel()>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}
at::Tensor scale_backward(at::Tensor dy)
{
    TORCH_CHECK(false, \"not written yet\");
    at::Tensor dx = at::empty_like(dy);
    twice<<<1, dy.numel()>>>(dy.data_ptr<float>(), dx.data_ptr<float>());
    return dx;
}
",
    );
    env.repo.commit("A forward pass");
    insta::assert_snapshot!(env.replay(&["init", "--random"]).text(), @"
    exit code 0
    --- stdout
    wrote replay.toml, which calls k.cu:
      y = scale_forward(x);
    wrote fixtures/random: random inputs, marked as synthetic

    left out:
      scale_backward in replay.toml: host code stopped itself: not written yet at k.cu:11

    next:
      1. replay fixtures/random
      2. check every line marked EDIT, before you believe a finding
      3. capture one step in its place: random inputs tell nothing of a training
    ");
    assert_eq!(env.replay(&["fixtures/random"]).code, Some(0));
}

#[test]
fn init_leaves_working_memory_among_results_out() {
    let env = TestEnv::new();
    env.repo.write(
        "k.cu",
        "#include <torch/extension.h>
__global__ void twice(const float* x, float* y, unsigned char* work)
{
    y[threadIdx.x] = 2 * x[threadIdx.x];
    work[threadIdx.x] = 1;
}
std::tuple<int, at::Tensor, at::Tensor> scale(at::Tensor x)
{
    at::Tensor y = at::empty_like(x);
    at::Tensor work = at::empty({x.numel() + 128}, x.options().dtype(at::kByte));
    int count = x.numel();
    twice<<<1, count>>>(x.data_ptr<float>(), y.data_ptr<float>(), work.data_ptr<unsigned char>());
    return std::make_tuple(count, y, work);
}
",
    );
    env.repo.commit("A buffer among results");
    insta::assert_snapshot!(env.replay(&["init", "--random"]).text(), @"
    exit code 0
    --- stdout
    wrote replay.toml, which calls k.cu:
      count, y, _ = scale(x); // EDIT: work is not written as a whole
    wrote fixtures/random: random inputs, marked as synthetic

    next:
      1. replay fixtures/random
      2. check every line marked EDIT, before you believe a finding
      3. capture one step in its place: random inputs tell nothing of a training
    ");
    assert_eq!(env.replay(&["fixtures/random"]).code, Some(0));
}

#[test]
fn init_ties_sizes_where_others_would_leave_a_result_in_part() {
    let env = TestEnv::new();
    env.repo.write(
        "k.cu",
        "#include <torch/extension.h>
__global__ void scale_rows(const float* x, const float* w, float* y, int x_rows, int rows, int columns)
{
    int row = blockIdx.x;
    if (row < x_rows && row < rows) y[row * columns + threadIdx.x] = x[row * columns + threadIdx.x] * w[row];
}
at::Tensor scale(at::Tensor x, at::Tensor w)
{
    int columns = x.size(1), rows = w.size(0);
    at::Tensor y = at::empty_like(x);
    scale_rows<<<x.numel() / columns, columns>>>(x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(),
                                                 x.numel() / columns, rows, columns);
    return y;
}
",
    );
    env.repo.commit("Rows of two tensors");
    assert_eq!(env.replay(&["init", "--random"]).code, Some(0));
    let harness = std::fs::read_to_string(env.path("replay.toml")).unwrap();
    let shapes: Vec<&str> = harness.lines().filter(|line| line.starts_with("shape")).collect();
    insta::assert_snapshot!(shapes.join("\n"), @r#"
    shape = ["x_0", "columns"]
    shape = ["x_0"]
    shape = ["x_0", "columns"]
    "#);
    assert_eq!(env.replay(&["fixtures/random"]).code, Some(0));
}

#[test]
fn init_calls_with_the_modes_that_python_passes() {
    let env = TestEnv::new();
    env.repo.write(
        "act.cu",
        "#include <torch/extension.h>
__global__ void activate(float* y, const float* x, int act, int grad, float slope, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    switch (act * 10 + grad) {
        case 30: y[i] = x[i] > 0 ? x[i] : x[i] * slope; break;
        default: y[i] = 0;
    }
}
at::Tensor fused_act(at::Tensor x, int act, int grad, float slope)
{
    at::Tensor y = at::empty_like(x);
    activate<<<1, x.numel()>>>(y.data_ptr<float>(), x.data_ptr<float>(), act, grad, slope, x.numel());
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def(\"act\", &fused_act); }
",
    );
    env.repo
        .write("act.py", "import ext\ndef act(x, slope):\n    return ext.act(x, 3, 0, slope)\n");
    env.repo.commit("A function with modes");
    assert_eq!(env.replay(&["init", "--random"]).code, Some(0));
    let fixture = std::fs::read_to_string(env.path("fixtures/random/fixture.toml")).unwrap();
    assert!(fixture.ends_with("[sizes]\nact = 3\ngrad = 0\n"), "{fixture}");
    let run = env.replay(&["fixtures/random"]);
    assert!(run.code == Some(0) && run.stdout.contains("zeros 0"), "{}", run.text());
}

#[test]
fn init_calls_with_a_tensor_in_memory_of_the_host_where_host_code_reads_it() {
    let env = TestEnv::new();
    env.repo.write(
        "k.cu",
        "#include <torch/extension.h>
__global__ void shift(const float* x, float* y, int by) { y[threadIdx.x] = x[threadIdx.x] + by; }
at::Tensor shift_all(at::Tensor x, at::Tensor steps)
{
    at::Tensor y = at::empty_like(x);
    shift<<<1, x.numel()>>>(x.data_ptr<float>(), y.data_ptr<float>(), steps.data_ptr<int>()[0]);
    return y;
}
",
    );
    env.repo.commit("A step on the host");
    let init = env.replay(&["init", "--random"]);
    assert!(
        init.stdout.contains("  y = shift_all(x, at::Tensor(steps).cpu());"),
        "{}",
        init.text()
    );
    assert_eq!(env.replay(&["fixtures/random"]).code, Some(0));
}

const BINDINGS: &str = "\
#include <torch/extension.h>
at::Tensor fused_forward(at::Tensor x, at::Tensor w, double eps);
std::vector<at::Tensor> fused_backward(at::Tensor dy, at::Tensor x, at::Tensor w);
at::Tensor op_forward(at::Tensor x, at::Tensor w, double eps) { return fused_forward(x, w, eps); }
std::vector<at::Tensor> op_backward(at::Tensor dy, at::Tensor x, at::Tensor w) { return fused_backward(dy, x, w); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def(\"forward\", &op_forward);
  m.def(\"backward\", &op_backward);
}
";

const LAUNCHERS: &str = "\
#include <torch/extension.h>
template <typename scalar_t>
__global__ void forward_kernel(const scalar_t* x, const scalar_t* w, scalar_t* out, int rows, int cols, float eps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows * cols) out[i] = x[i] * w[i % cols] + eps;
}
template <typename scalar_t>
__global__ void backward_kernel(const scalar_t* dy, const scalar_t* x, const scalar_t* w, scalar_t* dx, scalar_t* out,
                                int rows, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  scalar_t sum = 0;
  for (int r = 0; r < rows; r++) {
    dx[r * cols + c] = dy[r * cols + c] * w[c];
    sum += dy[r * cols + c] * x[r * cols + c];
  }
  out[c] = sum;
}
at::Tensor fused_forward(at::Tensor x, at::Tensor w, double eps) {
  const int rows = x.size(0), cols = x.size(1);
  auto out = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), \"forward\", ([&] {
    forward_kernel<scalar_t><<<(rows * cols + 255) / 256, 256>>>(
        x.data_ptr<scalar_t>(), w.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), rows, cols, eps);
  }));
  return out;
}
std::vector<at::Tensor> fused_backward(at::Tensor dy, at::Tensor x, at::Tensor w) {
  const int rows = x.size(0), cols = x.size(1);
  auto dx = at::empty_like(x);
  auto dw = at::empty_like(w);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), \"backward\", ([&] {
    backward_kernel<scalar_t><<<(cols + 255) / 256, 256>>>(
        dy.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(), w.data_ptr<scalar_t>(), dx.data_ptr<scalar_t>(),
        dw.data_ptr<scalar_t>(), rows, cols);
  }));
  return {dx, dw};
}
";

#[test]
fn a_commit_whose_functions_the_call_does_not_fit_is_untestable_in_a_search() {
    let env = TestEnv::new();
    let harness = "sources = [\"k.cu\"]\ncall = \"y, _ = twice(x);\"\n\
                   [inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                   [outputs.y]\ndtype = \"f32\"\nshape = [\"n\"]\n";
    env.repo.write("replay.toml", harness);
    env.repo.write(".gitignore", "fixtures\n");
    env.write_tiny();
    let one_result = TWO_RESULTS.replace("{y, y}", "{y}");
    let more_parameters = TWO_RESULTS.replace("twice(at::Tensor x)", "twice(at::Tensor x, int n)");
    let wrong = TWO_RESULTS.replace("2 * x", "3 * x");
    let revisions = [
        (TWO_RESULTS, "Two results"),
        (&one_result, "One result"),
        (&more_parameters, "A count"),
        (&format!("{TWO_RESULTS}// again\n"), "Two results again"),
        (&wrong, "Three times"),
        (&format!("{wrong}// more\n"), "Three times, with more words"),
    ];
    for (source, message) in revisions {
        env.repo.commit_file("k.cu", source, message);
    }
    let search = env.replay(&["bisect", "fixtures/tiny", "--good", "HEAD~5", "--bad", "HEAD"]);
    assert_eq!(search.code, Some(0), "{}", search.text());
    let answer = search.stdout.lines().next().unwrap_or_default();
    assert!(answer.ends_with("is the first bad commit: Three times"), "{}", search.text());
    let log = env.replay(&["log", "fixtures/tiny", "HEAD~5..HEAD"]);
    let misfit =
        "untestable: the call of the harness does not fit: the call gives 1 results for 2 names";
    assert!(log.stdout.contains(&format!("One result\n  {misfit}")), "{}", log.text());
    assert!(log.stdout.contains(" 2 could not be tested\n"), "{}", log.text());
    let refused = env.replay(&["bisect", "fixtures/tiny", "--good", "HEAD~5", "--bad", "HEAD~4"]);
    assert!(
        refused.stdout.contains(&format!("is neither good nor bad: {misfit}")),
        "{}",
        refused.text()
    );
    assert_eq!(refused.code, Some(1));
}

/// What extensions take from ATen's details, and an atomicAdd of their own for a type of PyTorch's.
const DETAILS: &str = "\
#include <torch/extension.h>
#include <ATen/cuda/detail/TensorInfo.cuh>
#include <ATen/cuda/detail/KernelUtils.h>
using namespace at::cuda::detail;
__device__ inline at::Half atomicAdd(at::Half* address, at::Half value) { return *address = *address + value; }
template <typename T>
__global__ void copy_kernel(TensorInfo<T, int> to, TensorInfo<T, int> from, int n) {
  CUDA_KERNEL_LOOP(i, n) {
    atomicAdd(&to.data[IndexToOffset<T, int, -1>::get(i, to)], from.data[IndexToOffset<T, int, 2>::get(i, from)]);
  }
}
at::Tensor joined(at::Tensor x, at::Tensor w) {
  at::TensorArg x_arg{x, \"x\", 1}, w_arg{w, \"w\", 2};
  at::checkAllSameGPU(\"joined\", {x_arg, w_arg});
  at::checkAllSameType(\"joined\", {x_arg, w_arg});
  auto both = torch::cat({x, w}, /*dim=*/1).t();
  auto y = torch::zeros({both.size(0), both.size(1)}, x.options());
  const int n = both.numel();
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), \"joined\", ([&] {
    copy_kernel<scalar_t><<<GET_BLOCKS(n), CUDA_NUM_THREADS>>>(
        getTensorInfo<scalar_t, int>(y), getTensorInfo<scalar_t, int>(both), n);
  }));
  // The sums of rows, by a product of matrices and by sums.
  auto nothing = torch::addmm(x.sum(1).mul(-1), torch::ones({y.size(0), x.size(1)}, x.options()), x.t());
  return y.add_(both, -0.5).add(nothing);
}
at::Tensor expected(at::Tensor x, at::Tensor w) {
  auto y = torch::empty({x.size(1) + w.size(1), x.size(0)}, x.options());
  for (int64_t row = 0; row < y.size(0); row++)
    y[row].copy_(row < x.size(1) ? x.select(1, row) : w.select(1, row - x.size(1)));
  return y;
}
";

#[test]
fn details_of_aten_are_there_and_an_extensions_own_functions_come_first() {
    for dtype in ["f32", "f16"] {
        let env = TestEnv::new();
        env.repo.write("k.cu", DETAILS);
        env.repo.write(
            "replay.toml",
            format!(
                "sources = [\"k.cu\"]\ncall = \"rest = joined(x, w).mul(2).sub(expected(x, w));\"\n\
                 sizes = [\"both\"]\n\
                 [inputs]\nx = {{ dtype = \"{dtype}\", shape = [\"rows\", 3] }}\n\
                 w = {{ dtype = \"{dtype}\", shape = [\"rows\", 2] }}\n\
                 [outputs.rest]\ndtype = \"{dtype}\"\nshape = [\"both\", \"rows\"]\n"
            ),
        );
        env.repo.commit("An extension");
        let drawn = env.replay(&["init", "replay.toml", "--random", "rows=4,both=5"]);
        assert_eq!(drawn.code, Some(0), "{}", drawn.text());
        let run: Run = env.replay(&["fixtures/random"]);
        assert_eq!(run.code, Some(0), "{}", run.text());
        assert!(run.stdout.contains("zeros 20"), "{dtype}: {}", run.text());
    }
}

const ACTIVATION: &str = "\
#include <torch/extension.h>
__global__ void act_kernel(float* out, const float* x, const float* b, const float* ref, int act, int grad, float alpha, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  if (b) v += b[i % cols];
  float r = ref ? ref[i] : 0.f;
  switch (act * 10 + grad) {
    case 30: out[i] = v > 0.f ? v : v * alpha; break;
    case 31: out[i] = r > 0.f ? v : v * alpha; break;
    default: out[i] = v;
  }
}
at::Tensor fused_act(const at::Tensor& input, const at::Tensor& bias, const at::Tensor& refer, int act, int grad, float alpha) {
  auto x = input.contiguous();
  auto y = at::empty_like(x);
  const float* b = bias.numel() ? bias.data_ptr<float>() : nullptr;
  const float* ref = refer.numel() ? refer.data_ptr<float>() : nullptr;
  int n = x.numel();
  act_kernel<<<(n + 63) / 64, 64>>>(y.data_ptr<float>(), x.data_ptr<float>(), b, ref, act, grad, alpha, n, bias.numel());
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def(\"fused_act\", &fused_act); }
";

const ACTIVATION_IN_PYTHON: &str = "\
import torch
from torch.autograd import Function
import ext


class FusedActBackward(Function):
    @staticmethod
    def forward(ctx, grad_output, out, slope):
        empty = grad_output.new_empty(0)
        grad_input = ext.fused_act(grad_output.contiguous(), empty, out, 3, 1, slope)
        return grad_input, grad_input.sum(0)

    @staticmethod
    def backward(ctx, gradgrad_input, gradgrad_bias):
        return ext.fused_act(gradgrad_input, gradgrad_bias, gradgrad_input, 3, 1, 0.2), None, None


class FusedAct(Function):
    @staticmethod
    def forward(ctx, input, bias, slope):
        empty = input.new_empty(0)
        out = ext.fused_act(input, bias, empty, 3, 0, slope)
        ctx.save_for_backward(out)
        ctx.slope = slope
        return out

    @staticmethod
    def backward(ctx, grad_output):
        out, = ctx.saved_tensors
        grad_input, grad_bias = FusedActBackward.apply(grad_output, out, ctx.slope)
        return grad_input, grad_bias, None
";

#[test]
fn init_calls_both_passes_as_python_does_and_a_wrong_gradient_of_one_function_is_told() {
    let replay_random = |text: String| {
        let env = TestEnv::new();
        env.repo.write("csrc/act.cu", text);
        env.repo.write("ops/act.py", ACTIVATION_IN_PYTHON);
        env.repo.commit("An activation");
        let init = env.replay(&["init", "--random"]);
        for call in [
            "out = fused_act(input, bias, at::empty({0}, at::Tensor(input).options()), 3, 0, slope);",
            "grad_input = fused_act(grad_output, at::empty({0}, at::Tensor(grad_output).options()), \
             out, 3, 1, slope);",
            "wrote fixtures/random:",
        ] {
            assert!(init.stdout.contains(call), "{}", init.text());
        }
        env.replay(&["fixtures/random"])
    };
    let right = replay_random(ACTIVATION.to_owned());
    assert_eq!(right.code, Some(0), "{}", right.text());
    assert!(right.stdout.contains("grad_input  matches d out / d input"), "{}", right.text());
    let wrong = replay_random(ACTIVATION.replace("r > 0.f ? v", "v > 0.f ? v"));
    assert_eq!(wrong.code, Some(1), "{}", wrong.text());
    assert!(
        wrong.stdout.contains("grad_input  does not match d out / d input"),
        "{}",
        wrong.text()
    );
}
