//! `replay init --random`: shapes that replays measure, and random inputs that replay at once.

use crate::common::env::TestEnv;

/// A project with one source, and what `replay init --random` says and writes.
fn drafted(source: &str) -> (TestEnv, String, String) {
    let env = TestEnv::new();
    env.repo.write("k.cu", source);
    env.repo.commit("A kernel");
    let run = env.replay(&["init", "--random"]);
    let harness = std::fs::read_to_string(env.path("replay.toml")).unwrap_or_default();
    (env, run.text(), harness)
}

/// The shapes of a harness, and what follows them, a line for each tensor.
fn shapes(harness: &str) -> String {
    let tables = harness.split("\n[").skip(1);
    let lines = tables.map(|table| {
        let (name, rest) = table.split_once("]\n").expect("a table");
        let keys = rest.lines().filter(|line| !line.starts_with("dtype") && !line.is_empty());
        format!("{name}: {}\n", keys.collect::<Vec<_>>().join("; "))
    });
    lines.collect()
}

/// Causal attention, with the layout of queries, keys and values that one matrix multiplication gives.
const ATTENTION: &str = "
#include <math.h>
__global__ void scores(float* before, const float* inp, int B, int T, int C, int NH)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= B * NH * T * T) return;
    int to = idx % T, from = idx / T % T, head = idx / (T * T) % NH, b = idx / (NH * T * T);
    if (to > from) { before[idx] = -INFINITY; return; }
    int size = C / NH;
    const float* q = inp + (b * T + from) * 3 * C + head * size;
    const float* k = inp + (b * T + to) * 3 * C + C + head * size;
    float sum = 0;
    for (int i = 0; i < size; i++) sum += q[i] * k[i];
    before[idx] = sum * rsqrtf(size);
}
__global__ void rows(float* att, const float* before, int n, int T)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    float most = -INFINITY, sum = 0;
    for (int i = 0; i < T; i++) most = fmaxf(most, before[row * T + i]);
    for (int i = 0; i < T; i++) sum += expf(before[row * T + i] - most);
    for (int i = 0; i < T; i++) att[row * T + i] = expf(before[row * T + i] - most) / sum;
}
void attention_weights(float* before, float* att, const float* inp, int B, int T, int C, int NH)
{
    scores<<<(B * NH * T * T + 255) / 256, 256>>>(before, inp, B, T, C, NH);
    rows<<<(B * NH * T + 255) / 256, 256>>>(att, before, B * NH * T, T);
}
";

/// A product that is scaled and added to, and then written over.
const OVERWRITTEN: &str = "
__global__ void scaled(float* c, const float* a, float beta, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + beta * c[i];
}
__global__ void plain(float* c, const float* a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = 2 * a[i];
}
void add_scaled(float* c, const float* a, float beta, int n) { scaled<<<(n + 63) / 64, 64>>>(c, a, beta, n); }
void twice(float* c, const float* a, int n) { plain<<<(n + 63) / 64, 64>>>(c, a, n); }
";

/// Rows of a table by index, and their gradients, which are added to what is there.
const EMBEDDING: &str = "
__global__ void forward(float* out, const int* token, const float* table, int n, int width)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * width) out[i] = table[token[i / width] * width + i % width];
}
__global__ void backward(float* dtable, const float* dout, const int* token, int n, int width)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * width) atomicAdd(&dtable[token[i / width] * width + i % width], dout[i]);
}
void embedding_forward(float* out, const int* token, const float* table, int n, int width)
{
    forward<<<(n * width + 63) / 64, 64>>>(out, token, table, n, width);
}
void embedding_backward(float* dtable, const float* dout, const int* token, int n, int width)
{
    backward<<<(n * width + 63) / 64, 64>>>(dtable, dout, token, n, width);
}
";

#[test]
fn shapes_are_products_of_sizes_that_replays_touch() {
    let (env, text, harness) = drafted(ATTENTION);
    insta::assert_snapshot!(text, @"
    exit code 0
    --- stdout
    wrote replay.toml, which calls k.cu:
      attention_weights(before, att, inp, B, T, C, NH);
    wrote fixtures/random: random inputs, marked as synthetic

    next:
      1. replay fixtures/random
      2. check every line marked EDIT, before you believe a finding
      3. capture one step in its place: random inputs tell nothing of a training
    ");
    insta::assert_snapshot!(shapes(&harness), @r#"
    inputs.inp: shape = ["B", "T", 3, "C"] # EDIT
    outputs.before: shape = ["B", "NH", "T", "T"]; non_finite = true # EDIT: elements are infinite
    outputs.att: shape = ["B", "NH", "T", "T"]
    "#);
    let run = env.replay(&["fixtures/random"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
}

#[test]
fn what_no_product_explains_keeps_its_mark_and_what_is_added_to_begins_as_zeros() {
    let (env, _, harness) = drafted(EMBEDDING);
    insta::assert_snapshot!(shapes(&harness), @r#"
    inputs.token: shape = ["n"]
    inputs.table: shape = ["n", "width"] # EDIT
    inputs.dout: shape = ["n", "width"]
    outputs.out: shape = ["n", "width"]
    outputs.dtable: shape = ["n", "width"] # EDIT; init = 0 # EDIT: what it holds before is read; gradient_of = "table" # EDIT; of = "out" # EDIT; upstream = "dout" # EDIT
    "#);
    let run = env.replay(&["fixtures/random"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    assert!(run.stdout.contains("dtable  matches d out / d table"), "{}", run.text());
}

#[test]
fn an_output_that_is_read_before_it_is_written_begins_as_zeros() {
    let (env, _, harness) = drafted(OVERWRITTEN);
    assert!(harness.contains("init = 0 # EDIT: what it holds before is read"), "{harness}");
    let run = env.replay(&["fixtures/random"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
}

#[test]
fn sizes_that_a_kernel_refuses_give_way_to_others() {
    let (env, text, harness) = drafted(
        "__global__ void warp(const float* x, float* y, int n)
{
    float sum = x[blockIdx.x * n + threadIdx.x];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
void sums(const float* x, float* y, int rows, int n)
{
    assert(n % 32 == 0 && n < 1024);
    warp<<<rows, n>>>(x, y, n);
}
",
    );
    assert!(text.contains("wrote fixtures/random"), "{text}");
    insta::assert_snapshot!(shapes(&harness), @r#"
    inputs.x: shape = ["rows", "n"]
    outputs.y: shape = ["rows"]
    "#);
    assert_eq!(env.replay(&["fixtures/random"]).code, Some(0));
}

#[test]
fn why_nothing_was_measured_is_said() {
    let faulty = "__global__ void k(const float* x, float* y, int n) { y[1 << 28] = x[0]; }
void f(const float* x, float* y, int n) { k<<<1, 1>>>(x, y, n); }
";
    let broken = "__global__ void k(const float* x, float* y, int n) { y[0] = nowhere; }
void f(const float* x, float* y, int n) { k<<<1, 1>>>(x, y, n); }
";
    let bare = "__global__ void k(const float* x, float* y, int n) { y[0] = x[0]; }\n";
    let texts = [faulty, broken, bare].map(|source| {
        let (_, text, harness) = drafted(source);
        assert!(harness.contains("# EDIT"), "{harness}");
        text
    });
    insta::assert_snapshot!(texts.join(""), @r#"
    exit code 0
    --- stdout
    wrote replay.toml, which calls k.cu:
      f(x, y, n);

    left out:
      random inputs for replay.toml: out of bounds of y

    next:
      1. check every line marked EDIT: pointers do not tell shapes
      2. capture one step into fixtures/NAME/inputs.safetensors: x
      3. write fixtures/NAME/fixture.toml: harness = "../../replay.toml"
         with numbers for n in [sizes]
      4. replay inspect fixtures/NAME, then replay fixtures/NAME: y
    exit code 0
    --- stdout
    wrote replay.toml, which calls k.cu:
      f(x, y_on_device, n);

    left out:
      random inputs for replay.toml: k.cu:1:61: error: 'nowhere' was not declared in this scope

    next:
      1. check every line marked EDIT: pointers do not tell shapes
      2. capture one step into fixtures/NAME/inputs.safetensors: x
      3. write fixtures/NAME/fixture.toml: harness = "../../replay.toml"
      4. replay inspect fixtures/NAME, then replay fixtures/NAME: y
    exit code 0
    --- stdout
    wrote replay.toml, which calls k.cu:
      k<<<1, 256>>>(x, y_on_device, n); // EDIT: grid, block

    left out:
      random inputs for replay.toml: its grid has to be edited first

    next:
      1. check every line marked EDIT: pointers do not tell shapes
      2. capture one step into fixtures/NAME/inputs.safetensors: x
      3. write fixtures/NAME/fixture.toml: harness = "../../replay.toml"
         with numbers for n in [sizes]
      4. replay inspect fixtures/NAME, then replay fixtures/NAME: y
    "#);
}

#[test]
fn a_harness_that_is_there_gets_random_inputs_of_chosen_sizes() {
    let (env, _, _) = drafted(EMBEDDING);
    std::fs::remove_dir_all(env.path("fixtures")).expect("a folder");
    insta::assert_snapshot!(env.replay(&["init", "replay.toml", "--random"]).text(), @"
    exit code 0
    --- stdout
    wrote fixtures/random: random inputs, marked as synthetic

    next:
      1. replay fixtures/random
      2. capture one step in its place: random inputs tell nothing of a training
    ");
    assert_eq!(env.replay(&["fixtures/random"]).code, Some(0));
}

const EXTENSION: &str = "#include <torch/extension.h>
__global__ void scale_rows(const float* x, const float* gain, float* y, float* sums, int cols, float* mask) {
    int row = blockIdx.x, col = threadIdx.x;
    y[row * cols + col] = gain[col] * x[row * cols + col] * mask[row * cols + col];
    atomicAdd(&sums[row], x[row * cols + col]);
}
__global__ void scale_rows_back(const float* dy, const float* gain, const float* mask, float* dx, int cols) {
    int i = blockIdx.x * cols + threadIdx.x;
    dx[i] = dy[i] * gain[threadIdx.x] * mask[i];
}
std::vector<at::Tensor> scale_forward(at::Tensor x, at::Tensor gain, at::Tensor mask) {
    const int rows = x.size(0), cols = x.size(1);
    TORCH_CHECK(gain.numel() == cols, \"one gain a column\");
    auto y = torch::empty_like(x);
    auto sums = torch::zeros({rows}, x.options());
    scale_rows<<<rows, cols>>>(x.data_ptr<float>(), gain.data_ptr<float>(), y.data_ptr<float>(), sums.data_ptr<float>(), cols, mask.data_ptr<float>());
    return {y, sums};
}
at::Tensor scale_backward(at::Tensor dy, at::Tensor gain, at::Tensor mask) {
    auto dx = torch::empty_like(dy);
    const int rows = dy.size(0), cols = dy.size(1);
    scale_rows_back<<<rows, cols>>>(dy.data_ptr<float>(), gain.data_ptr<float>(), mask.data_ptr<float>(), dx.data_ptr<float>(), cols);
    return dx;
}
";

#[test]
fn functions_of_tensors_tell_which_sizes_are_equal_and_the_shapes_of_their_results() {
    let (env, text, harness) = drafted(EXTENSION);
    assert!(text.contains("wrote fixtures/random"), "{text}");
    insta::assert_snapshot!(shapes(&harness), @r#"
    inputs.x: shape = ["rows", "cols"]
    inputs.gain: shape = ["cols"]
    inputs.mask: shape = ["rows", "cols"]
    inputs.dy: shape = ["rows", "cols"]
    outputs.y: shape = ["rows", "cols"]
    outputs.sums: shape = ["rows"]
    outputs.dx: shape = ["rows", "cols"]; gradient_of = "x" # EDIT; of = "y" # EDIT; upstream = "dy" # EDIT
    "#);
    let replay = env.replay(&["fixtures/random"]);
    assert_eq!(replay.code, Some(0), "{}", replay.text());
    assert!(replay.stdout.contains("dx matches its loss"), "{}", replay.text());
}

#[test]
fn functions_of_tensors_that_take_no_chosen_size_say_why() {
    let source = EXTENSION.replace("gain.numel() == cols", "cols == 1000");
    let (_, text, _) = drafted(&source);
    let reason = text.lines().find(|line| line.contains("random inputs for")).unwrap_or(&text);
    insta::assert_snapshot!(
        reason,
        @"  random inputs for replay.toml: host code stopped itself: one gain a column at k.cu:13"
    );
}

/// Distances of points to others, in the manner of an extension: nothing but checks and the kernel tells that points have
/// three coordinates, that weights are a matrix, and that the scale is one number.
const POINTS: &str = "
#include <torch/extension.h>
__global__ void distances(const float* a, const float* b, const float* weight, const float* scale, float* out, int n, int m) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float sum = 0;
        for (int j = 0; j < m; j++) {
            float x = a[i * 3] - b[j * 3], y = a[i * 3 + 1] - b[j * 3 + 1], z = a[i * 3 + 2] - b[j * 3 + 2];
            sum += weight[i * m + j] * (x * x + y * y + z * z);
        }
        out[i] = *scale * sum;
    }
}
void point_distances(torch::Tensor a, torch::Tensor b, torch::Tensor weight, torch::Tensor scale, torch::Tensor sums) {
    TORCH_CHECK(scale.numel() == 1, \"one scale\");
    TORCH_CHECK(weight.dim() == 2, \"weights are a matrix\");
    const int n = a.size(0), m = b.size(0);
    distances<<<1, 64>>>(a.data_ptr<float>(), b.data_ptr<float>(), weight.data_ptr<float>(), scale.data_ptr<float>(),
                         sums.data_ptr<float>(), n, m);
}
";

#[test]
fn dimensions_and_numbers_that_only_checks_and_kernels_tell_are_found() {
    let (env, text, harness) = drafted(POINTS);
    assert!(text.contains("wrote fixtures/random"), "{text}");
    insta::assert_snapshot!(shapes(&harness), @r#"
    inputs.a: shape = ["n", 3] # EDIT
    inputs.b: shape = ["m", 3] # EDIT
    inputs.weight: shape = ["n", "m"]
    inputs.scale: shape = [1] # EDIT
    outputs.sums: shape = ["n"] # EDIT
    "#);
    let replay = env.replay(&["fixtures/random"]);
    assert_eq!(replay.code, Some(0), "{}", replay.text());
}

/// For half precision alone, with a result whose sizes are in another order, and one of them is none of the input's.
const TRANSPOSED: &str = "
#include <torch/extension.h>
template <class T>
__global__ void transpose(T* out, const T* in, int rows, int cols) {
    for (int i = threadIdx.x; i < (rows + 1) * cols; i += blockDim.x) {
        int c = i / (rows + 1), r = i % (rows + 1);
        out[i] = r < rows ? in[r * cols + c] : T(0.f);
    }
}
torch::Tensor transposed(torch::Tensor x_) {
    auto x = x_.contiguous();
    const int rows = x.size(0), cols = x.size(1);
    auto out = torch::empty({cols, rows + 1}, x.options());
    AT_DISPATCH_SWITCH(x.scalar_type(), \"transposed\", AT_DISPATCH_CASE(at::ScalarType::Half, [&] {
        transpose<scalar_t><<<1, 64>>>(out.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(), rows, cols);
    }));
    return out;
}
";

#[test]
fn the_type_that_a_dispatch_takes_and_the_sizes_of_a_result_are_found() {
    let (env, text, harness) = drafted(TRANSPOSED);
    assert!(text.contains("wrote fixtures/random"), "{text}");
    assert_eq!(harness.matches("dtype = \"f16\"").count(), 2, "{harness}");
    insta::assert_snapshot!(shapes(&harness), @r#"
    inputs.x_: shape = ["rows", "cols"]
    outputs.out: shape = ["cols", "out_1"] # EDIT
    "#);
    let replay = env.replay(&["fixtures/random"]);
    assert_eq!(replay.code, Some(0), "{}", replay.text());
}

/// Sums over segments in the manner of an extension: offsets are one more than the segments, a place is a float, and a
/// tensor for the result is refused.
const SEGMENTS: &str = "
#include <torch/extension.h>
__global__ void sum_segments(const float* x, const long* indptr, const float* places, float* out, int segments) {
    for (int i = threadIdx.x; i < segments; i += blockDim.x) {
        float sum = x[(int)places[i]];
        for (long k = indptr[i]; k < indptr[i + 1]; k++) sum += x[k];
        out[i] = sum;
    }
}
torch::Tensor segment_sums(torch::Tensor x, torch::Tensor places, torch::Tensor indptr, torch::optional<torch::Tensor> result) {
    TORCH_CHECK(!result.has_value(), \"result is not filled yet\");
    const int segments = places.size(0);
    auto out = torch::empty({segments}, x.options());

    TORCH_CHECK(indptr.numel() == segments + 1, \"one offset more\");

    sum_segments<<<1, 64>>>(x.data_ptr<float>(), indptr.data_ptr<int64_t>(), places.data_ptr<float>(), out.data_ptr<float>(),
                            segments);
    return out;
}
";

#[test]
fn offsets_indices_among_floats_and_tensors_that_are_left_out_are_found() {
    let (env, text, harness) = drafted(SEGMENTS);
    assert!(text.contains("wrote fixtures/random"), "{text}");
    insta::assert_snapshot!(shapes(&harness), @r#"
    inputs.x: shape = ["x_0"]
    inputs.places: shape = ["segments"]
    inputs.indptr: shape = ["indptr_0"]
    inputs.result: shape = ["result_0"]; optional = true
    outputs.out: shape = ["segments"]
    "#);
    let manifest = std::fs::read_to_string(env.path("fixtures/random/fixture.toml")).unwrap();
    insta::assert_snapshot!(manifest.lines().nth(1).unwrap(), @r#"description = "synthetic: random inputs, not captured ones; between 0 and 1: places; left out: result""#);
    let replay = env.replay(&["fixtures/random", "--check=always"]);
    assert_eq!(replay.code, Some(0), "{}", replay.text());
}

#[test]
fn inputs_of_a_root_lie_between_0_and_1() {
    let source = "__global__ void root_kernel(const float* x, float* out, int n) {\n\
                  int i = threadIdx.x;\n  if (i < n) out[i] = sqrtf(x[i]);\n}\n\
                  void root(const float* x, float* out, int n) { root_kernel<<<1, n>>>(x, out, n); }\n";
    let (env, text, _) = drafted(source);
    assert!(text.contains("wrote fixtures/random"), "{text}");
    let manifest = std::fs::read_to_string(env.path("fixtures/random/fixture.toml")).unwrap();
    insta::assert_snapshot!(manifest.lines().nth(1).unwrap(), @r#"description = "synthetic: random inputs, not captured ones; between 0 and 1: x""#);
    let replay = env.replay(&["fixtures/random"]);
    assert_eq!(replay.code, Some(0), "{}", replay.text());
}

/// Rays in the manner of a renderer: each row names its pixel, and its samples.
const RAYS: &str = "
#include <torch/extension.h>
__global__ void composite(const float* sigmas, const int* rays, float* weights, int n, int m) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int pixel = rays[3 * i], offset = rays[3 * i + 1], steps = rays[3 * i + 2];
    float sum = 0;
    for (int k = offset; k < offset + steps && k < m; k++) sum += sigmas[k];
    weights[pixel] = sum;
}
torch::Tensor composite_rays(torch::Tensor sigmas, torch::Tensor rays) {
    const int m = sigmas.size(0), n = rays.size(0);
    TORCH_CHECK(rays.size(1) == 3, \"rays must be [N, 3]\");
    TORCH_CHECK(rays.scalar_type() == at::kInt, \"rays must be int\");
    auto weights = torch::zeros({n}, sigmas.options());
    composite<<<(n + 31) / 32, 32>>>(sigmas.data_ptr<float>(), rays.data_ptr<int>(), weights.data_ptr<float>(), n, m);
    return weights;
}
";

#[test]
fn indices_that_would_make_two_threads_meet_are_drawn_once_each() {
    let (env, text, _) = drafted(RAYS);
    assert!(text.contains("wrote fixtures/random"), "{text}");
    let manifest = std::fs::read_to_string(env.path("fixtures/random/fixture.toml")).unwrap();
    insta::assert_snapshot!(manifest.lines().nth(1).unwrap(), @r#"description = "synthetic: random inputs, not captured ones; no index twice: rays""#);
    let replay = env.replay(&["fixtures/random", "--check=always"]);
    assert_eq!(replay.code, Some(0), "{}", replay.text());
}

/// A number of dimensions that the sources know as cases alone, and levels whose offsets may not be equal.
const GRID: &str = "
#include <stdexcept>
#include <torch/extension.h>
template <int D>
__global__ void look_up(const float* table, const int* offsets, float* out, int levels) {
    const int level = threadIdx.x;
    if (level >= levels) return;
    const int count = offsets[level + 1] - offsets[level];
    out[level] = table[offsets[level] + D * level % count];
}
void grid_encode(at::Tensor table, at::Tensor offsets, at::Tensor out, const uint32_t D) {
    const int levels = out.size(0);
    TORCH_CHECK(offsets.size(0) == levels + 1, \"one offset more\");
    auto t = table.data_ptr<float>();
    auto o = offsets.data_ptr<int>();
    switch (D) {
        case 2: look_up<2><<<1, 64>>>(t, o, out.data_ptr<float>(), levels); break;
        case 3: look_up<3><<<1, 64>>>(t, o, out.data_ptr<float>(), levels); break;
        default: throw std::runtime_error{\"grid_encode: D must be 2 or 3.\"};
    }
}
";

#[test]
fn a_number_that_an_exception_names_and_offsets_of_which_no_two_are_equal_are_found() {
    let (env, text, harness) = drafted(GRID);
    assert!(text.contains("wrote fixtures/random"), "{text}");
    insta::assert_snapshot!(harness.lines().find(|line| line.starts_with("sizes")).unwrap(), @r#"sizes = ["D"]"#);
    let manifest = std::fs::read_to_string(env.path("fixtures/random/fixture.toml")).unwrap();
    let description = manifest.lines().nth(1).unwrap();
    insta::assert_snapshot!(description, @r#"description = "synthetic: random inputs, not captured ones; no index twice: offsets""#);
    let replay = env.replay(&["fixtures/random", "--check=always"]);
    assert_eq!(replay.code, Some(0), "{}", replay.text());
}

#[test]
fn a_launcher_gets_the_source_that_defines_the_kernels_of_its_header() {
    let env = TestEnv::new();
    env.repo.write(
        "csrc/kernels.cuh",
        "#pragma once\ntemplate <class T> __global__ void scale(const T* x, T* out, int n);\n",
    );
    env.repo.write(
        "csrc/kernels.cu",
        "#include \"kernels.cuh\"\n\
         template <class T> __global__ void scale(const T* x, T* out, int n) {\n\
         int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = 2 * x[i];\n}\n\
         template __global__ void scale<float>(const float* x, float* out, int n);\n",
    );
    env.repo.write(
        "csrc/ops.cu",
        "#include \"kernels.cuh\"\nvoid scale_rows(const float* x, float* out, int n) {\n\
         scale<float><<<(n + 255) / 256, 256>>>(x, out, n);\n}\n",
    );
    // Nothing of the others calls it.
    env.repo.write("csrc/other.cu", "__global__ void other(float* x, int n) { x[n] = 0; }\n");
    env.repo.commit("Kernels apart from their launchers");
    assert_eq!(env.replay(&["init", "csrc/ops.cu", "--random"]).code, Some(0));
    let harness = std::fs::read_to_string(env.path("replay.toml")).unwrap();
    let sources = harness.lines().find(|line| line.starts_with("sources")).unwrap();
    insta::assert_snapshot!(sources, @r#"sources = ["csrc/ops.cu", "csrc/kernels.cu"]"#);
    let replay = env.replay(&["fixtures/random"]);
    assert_eq!(replay.code, Some(0), "{}", replay.text());
}

/// A gradient of sequences: the caller makes it zeros, and the kernel writes up to each length alone.
const LENGTHS: &str = "
__global__ void add_up(const float* x, const int* lengths, float* sums, float* grads, int N, int T) {
    const int row = blockIdx.x;
    for (int t = threadIdx.x; t < T; t += 32) {
        if (t >= lengths[row]) continue;
        atomicAdd(&sums[row], x[row * T + t]);
        grads[row * T + t] = 2 * x[row * T + t];
    }
}
void sum_sequences(const float* x, const int* lengths, float* sums, float* grads, int N, int T) {
    add_up<<<N, 32>>>(x, lengths, sums, grads, N, T);
}
";

#[test]
fn an_output_of_which_a_part_is_written_begins_as_zeros() {
    let (env, text, harness) = drafted(LENGTHS);
    assert!(text.contains("wrote fixtures/random"), "{text}");
    insta::assert_snapshot!(shapes(&harness), @r#"
    inputs.x: shape = ["N", "T"] # EDIT
    inputs.lengths: shape = ["N"]
    outputs.sums: shape = ["N"]; init = 0 # EDIT: what it holds before is read
    outputs.grads: shape = ["N", "T"] # EDIT; init = 0 # EDIT: some elements are not written
    "#);
    let replay = env.replay(&["fixtures/random"]);
    assert_eq!(replay.code, Some(0), "{}", replay.text());
}

/// Rows of `cols` numbers, `stride` numbers apart: each becomes exponents, divided by their sum.
const PADDED_ROWS: &str = "
__global__ void divided(float* rows, int stride, int cols)
{
    float* row = rows + blockIdx.x * stride;
    float sum = 0;
    for (int i = 0; i < cols; i++) sum += expf(row[i]);
    __syncthreads();
    for (int i = threadIdx.x; i < cols; i += blockDim.x) row[i] = expf(row[i]) / sum - (i == blockIdx.x);
}
void softmax(float* rows, int n, int stride, int cols) { divided<<<n, 64>>>(rows, stride, cols); }
";

#[test]
fn columns_are_no_more_than_the_distance_of_rows_where_blocks_would_meet() {
    let (env, text, harness) = drafted(PADDED_ROWS);
    assert!(text.contains("wrote fixtures/random"), "{text}");
    let assumed = "# EDIT: cols <= stride is assumed: rows overlap where cols is larger\n";
    assert!(harness.contains(assumed), "{harness}");
    insta::assert_snapshot!(shapes(&harness), @r#"outputs.rows: shape = ["n", "stride"] # EDIT; init = 0 # EDIT: what it holds before is read"#);
    let run = env.replay(&["fixtures/random"]);
    assert_eq!(run.code, Some(0), "{}", run.text());
    let (_, _, with_own_race) = drafted(&PADDED_ROWS.replace("__syncthreads();", ""));
    assert!(with_own_race.contains(assumed), "{with_own_race}");
}

/// A sum in shared memory without a barrier: warps meet, with more than 32 columns.
const UNORDERED_SUM: &str = "
__global__ void sums(float* out, const float* in, int rows, int cols)
{
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += in[blockIdx.x * cols + i];
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
void row_sums(float* out, const float* in, int rows, int cols) { sums<<<rows, 256>>>(out, in, rows, cols); }
";

#[test]
fn no_order_of_sizes_hides_a_race() {
    let (env, text, harness) = drafted(UNORDERED_SUM);
    assert!(!harness.contains("is assumed"), "{harness}");
    let meeting = "; threads meet on them, as they may not on captured ones";
    let manifest = std::fs::read_to_string(env.path("fixtures/random/fixture.toml")).unwrap();
    assert!(text.contains(meeting) && manifest.contains(meeting), "{text}{manifest}");
    let run = env.replay(&["fixtures/random"]);
    assert!(run.text().contains("race"), "{}", run.text());
}

/// A rotation of pairs in place, and sums to which its angles are added.
const IN_PLACE: &str = "
__global__ void rotate(float* x, const float* angle, float* sums, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float even = x[2 * i], odd = x[2 * i + 1];
    x[2 * i] = even * cosf(angle[i]) - odd * sinf(angle[i]);
    x[2 * i + 1] = even * sinf(angle[i]) + odd * cosf(angle[i]);
    sums[i] += angle[i];
}
void rotate_rows(float* x, const float* angle, float* sums, int n) { rotate<<<(n + 63) / 64, 64>>>(x, angle, sums, n); }
";

#[test]
fn what_is_changed_in_place_begins_as_an_input_where_zeros_stay_zeros() {
    let (env, _, harness) = drafted(IN_PLACE);
    insta::assert_snapshot!(shapes(&harness), @r#"
    inputs.angle: shape = ["n"]
    inputs.x_before: shape = [2, "n"]
    outputs.x: shape = [2, "n"]; init = "x_before" # EDIT: it is changed in place
    outputs.sums: shape = ["n"]; init = 0 # EDIT: what it holds before is read
    "#);
    let replayed = env.replay(&["fixtures/random"]).text();
    assert!(replayed.contains("completed"), "{replayed}");
    assert!(!replayed.contains("norm 0 "), "{replayed}");
}

#[test]
fn init_draws_offsets_apart_where_the_zero_between_two_equal_ones_ends_the_call() {
    let (env, text, _) = drafted(
        "__global__ void spread(int* places, const int* offsets, const int* points, int levels, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int level = 0; level < levels - 1; level++) places[i] = points[i] % (offsets[level + 1] - offsets[level]);
}
void spread_points(int* places, const int* offsets, const int* points, int levels, int n)
{
    spread<<<(n + 63) / 64, 64>>>(places, offsets, points, levels, n);
}
",
    );
    assert!(text.contains("wrote fixtures/random"), "{text}");
    let fixture = std::fs::read_to_string(env.path("fixtures/random/fixture.toml")).unwrap();
    assert!(fixture.contains("no index twice: offsets, points"), "{fixture}");
    assert_eq!(env.replay(&["fixtures/random"]).code, Some(0));
}

#[test]
fn one_order_is_enough_where_blocks_wait_for_earlier_ones() {
    let (env, text, _) = drafted(
        "__global__ void chain(float* y, unsigned* done, const float* x, int n)
{
    int block = blockIdx.x;
    if (block > 0) while (atomicAdd(done + block - 1, 0u) == 0) {}
    y[block] = x[block];
    __threadfence();
    atomicAdd(done + block, 1u);
}
void copy_in_order(float* y, unsigned* done, const float* x, int n) { chain<<<n, 1>>>(y, done, x, n); }
",
    );
    assert!(text.contains("wrote fixtures/random"), "{text}");
    let args = ["fixtures/random", "--timeout", "3", "--check=off", "--trace", "trace.json"];
    let run = env.replay(&args);
    assert_eq!(run.code, Some(0), "{}", run.text());
    let trace = std::fs::read_to_string(env.path("trace.json")).unwrap();
    assert_eq!(trace.matches("order 5eed").count(), 1, "{trace}");
}

#[test]
fn inputs_lie_between_0_and_1_where_usual_ones_leave_nearly_all_results_zeros() {
    let sample = |bounds: &str| {
        let (env, said, _) = drafted(&format!(
            "__global__ void sample_kernel(const float* points, const float* table, float* out, int n, int cells)\n\
             {{\n\
                 int i = blockIdx.x * blockDim.x + threadIdx.x;\n\
                 if (i >= n) return;\n\
                 float sum = 0;\n\
                 for (int d = 0; d < 3; d++) {{\n\
                     float p = points[3 * i + d];\n\
                     if ({bounds}) {{ out[i] = 0; return; }}\n\
                     sum += table[min(max(int(p * cells), 0), cells - 1)];\n\
                 }}\n\
                 out[i] = sum;\n\
             }}\n\
             void sample(const float* points, const float* table, float* out, int n, int cells)\n\
             {{\n\
                 sample_kernel<<<(n + 63) / 64, 64>>>(points, table, out, n, cells);\n\
             }}\n"
        ));
        let fixture = std::fs::read_to_string(env.path("fixtures/random/fixture.toml"));
        fixture.unwrap_or_else(|_| panic!("{said}"))
    };
    let inside = sample("p < 0 || p > 1");
    assert!(inside.contains("; between 0 and 1: points, table\""), "{inside}");
    let anywhere = sample("p > 4");
    assert!(!anywhere.contains("between 0 and 1"), "{anywhere}");
    // No inputs of either kind do better.
    let nowhere = sample("p < 2");
    assert!(!nowhere.contains("between 0 and 1"), "{nowhere}");
}
