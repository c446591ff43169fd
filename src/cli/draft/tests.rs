use std::path::Path;

use ::replay::frontend::{SourceUnit, find_function_signatures, scan_symbols};
use ::replay::harness::Harness;

use super::*;

fn build_of_one_source() -> DraftedBuild {
    DraftedBuild { sources: vec!["k.cu".to_owned()], ..DraftedBuild::default() }
}

/// The drafts for all functions of `text`.
fn draft(text: &str) -> String {
    let unit = SourceUnit { path: "k.cu", text };
    let found = find_function_signatures(&unit, &scan_symbols(&[unit]));
    let functions: Vec<&FunctionSignature> = found.iter().collect();
    let drafts = Draft::from_functions(&functions, &TypeNames::from_texts([text]));
    let texts = drafts.iter().map(|draft| {
        let text = draft.text(&build_of_one_source());
        Harness::parse(&text, Path::new("replay.toml")).unwrap();
        text
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// The same without the comment at the top.
fn draft_below_comment(text: &str) -> String {
    draft(text).lines().filter(|line| !line.starts_with("# ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_kernel_without_a_host_function_is_launched() {
    insta::assert_snapshot!(draft(
        "__global__ void scale(const __nv_bfloat16* x, float *out, float by, size_t n) {}"
    ), @r#"
    # How to call the kernels of k.cu, whatever the revision. A draft by `replay init`:
    # what is marked EDIT has to be checked, shapes above all. An output to which the call adds gets
    # init = 0; one that it changes in place begins as an input does: init = "INPUT".
    sources = ["k.cu"]
    include = []
    call = """
    scale<<<1, 256>>>(x, out, by, n); // EDIT: grid, block
    """

    [inputs.x]
    dtype = "bf16"
    shape = ["n"] # EDIT

    [inputs.by]
    dtype = "f32"
    shape = []

    [outputs.out]
    dtype = "f32"
    shape = ["n"] # EDIT
    "#);
}

#[test]
fn what_one_function_writes_and_the_next_reads_flows_between_them() {
    insta::assert_snapshot!(draft_below_comment(
        "void forward(const float* x, float* rms, int rows, int cols) {}\n\
         void backward(float* dx, const float* x, const float* rms, int rows, int cols) {}\n"
    ), @r#"
    sources = ["k.cu"]
    include = []
    call = """
    forward(x, rms, rows, cols);
    backward(dx, x, rms, rows, cols);
    """

    [inputs.x]
    dtype = "f32"
    shape = ["rows", "cols"] # EDIT

    [outputs.rms]
    dtype = "f32"
    shape = ["rows", "cols"] # EDIT

    [outputs.dx]
    dtype = "f32"
    shape = ["rows", "cols"] # EDIT
    gradient_of = "x" # EDIT
    "#);
}

#[test]
fn a_name_that_stands_for_two_things_takes_two_harnesses() {
    let text = draft(
        "void forward(const float* x, float* y, int n) {}\n\
         void of_integers(const int* x, float* y, int n) {}\n\
         void with_y_as_size(const float* x, float* z, int y) {}\n\
         void writes_x(float* x, const float* y, int n) {}\n",
    );
    let calls = text.lines().filter(|line| line.ends_with(");") || line.starts_with("sources"));
    insta::assert_snapshot!(calls.collect::<Vec<_>>().join("\n"), @r#"
    sources = ["k.cu"]
    forward(x, y, n);
    sources = ["k.cu"]
    of_integers(x, y, n);
    sources = ["k.cu"]
    with_y_as_size(x, z, y);
    sources = ["k.cu"]
    writes_x(x, y, n);
    "#);
}

#[test]
fn types_of_the_projects_own_and_what_no_fixture_holds_are_marked() {
    insta::assert_snapshot!(draft_below_comment(
        "void backward(floatX* dq, const floatX* q, float4* v, const int64_t* index, float** rows,\n\
                       cudaStream_t stream, cublasHandle_t blas, bool causal, Config config) {}\n\
         template <class T, int WIDTH, bool CAUSAL = true> __global__ void k(T* y) {}\n\
         float mean_loss(const float* logits, float* const probs) { return 0; }\n"
    ), @r#"
    sources = ["k.cu"]
    include = []
    setup = "cublasHandle_t handle; cublasCreate(&handle);"
    call = """
    backward(dq, q, reinterpret_cast<float4*>(v), reinterpret_cast<int64_t*>(index), nullptr, 0, handle, causal, {}); // EDIT: nullptr for rows, {} for config
    """

    [inputs.q]
    dtype = "f32" # EDIT: a type of the project's own
    shape = ["n"] # EDIT

    [inputs.index]
    dtype = "i64"
    shape = ["n"] # EDIT

    [inputs.causal]
    dtype = "bool"
    shape = []

    [outputs.dq]
    dtype = "f32" # EDIT: a type of the project's own
    shape = ["n"] # EDIT
    gradient_of = "q" # EDIT

    [outputs.v]
    dtype = "f32"
    shape = ["n", 4] # EDIT

    sources = ["k.cu"]
    include = []
    sizes = ["n"]
    call = """
    k<float, 32><<<1, 256>>>(y); // EDIT: template arguments, grid, block
    """

    [outputs.y]
    dtype = "f32"
    shape = ["n"] # EDIT

    sources = ["k.cu"]
    include = []
    call = """
    loss = mean_loss(logits, probs);
    """

    [inputs.logits]
    dtype = "f32"
    shape = ["n"] # EDIT

    [outputs.loss]
    dtype = "f32"
    shape = []

    [outputs.probs]
    dtype = "f32"
    shape = ["n"] # EDIT
    "#);
}

#[test]
fn the_threads_of_a_block_are_no_dimension() {
    let text = "__global__ void twice_kernel(const float* x, float* y, int n) {}\n\
                void twice(const float* x, float* y, int n, const int block_size)\n\
                { twice_kernel<<<(n + block_size - 1) / block_size, block_size>>>(x, y, n); }\n\
                void thrice(const float* x, float* z, int n, int threadsPerBlock) {}\n";
    insta::assert_snapshot!(draft_below_comment(text), @r#"
    sources = ["k.cu"]
    include = []
    call = """
    twice_kernel<<<1, 256>>>(x, y, n); // EDIT: grid, block
    thrice(x, z, n, 256); // EDIT: 256 for threadsPerBlock
    """

    [inputs.x]
    dtype = "f32"
    shape = ["n"] # EDIT

    [outputs.y]
    dtype = "f32"
    shape = ["n"] # EDIT

    [outputs.z]
    dtype = "f32"
    shape = ["n"] # EDIT

    sources = ["k.cu"]
    include = []
    call = """
    twice(x, y, n, 256); // EDIT: 256 for block_size
    """

    [inputs.x]
    dtype = "f32"
    shape = ["n"] # EDIT

    [outputs.y]
    dtype = "f32"
    shape = ["n"] # EDIT
    "#);
}

#[test]
fn a_step_is_a_number_and_a_loss_of_one_element_a_scalar() {
    let text = "__global__ void adam_kernel(float* w, const float* grad, float beta, int t, int n)\n\
                { int i = threadIdx.x; if (i < n) w[i] -= grad[i] / (1.0f - powf(beta, t)); }\n\
                void adam(float* w, const float* grad, float beta, int t, long seed, int n)\n\
                { adam_kernel<<<1, n>>>(w, grad, beta, t, n); }\n\
                __global__ void mean(float* loss, float* probs, const float* x, const float* scale, int n)\n\
                { probs[threadIdx.x] = x[threadIdx.x]; atomicAdd(loss, x[threadIdx.x] / n * *scale); }\n\
                void mean_loss(float* loss, float* probs, const float* x, const float* scale, int n)\n\
                { mean<<<1, n>>>(loss, probs, x, scale, n); }\n";
    insta::assert_snapshot!(draft_below_comment(text), @r#"
    sources = ["k.cu"]
    include = []
    call = """
    adam_kernel<<<1, 256>>>(w, grad, beta, t, n); // EDIT: grid, block
    """

    [inputs.grad]
    dtype = "f32"
    shape = ["n"] # EDIT

    [inputs.beta]
    dtype = "f32"
    shape = []

    [inputs.t]
    dtype = "i32"
    shape = [] # EDIT: a number, not a size

    [outputs.w]
    dtype = "f32"
    shape = ["n"] # EDIT

    sources = ["k.cu"]
    include = []
    call = """
    adam(w, grad, beta, t, seed, n);
    """

    [inputs.grad]
    dtype = "f32"
    shape = ["n"] # EDIT

    [inputs.beta]
    dtype = "f32"
    shape = []

    [inputs.t]
    dtype = "i32"
    shape = [] # EDIT: a number, not a size

    [inputs.seed]
    dtype = "i64"
    shape = [] # EDIT: a number, not a size

    [outputs.w]
    dtype = "f32"
    shape = ["n"] # EDIT

    sources = ["k.cu"]
    include = []
    setup = "float* loss_on_device; cudaMalloc(&loss_on_device, sizeof(float)); cudaMemset(loss_on_device, 0, sizeof(float));"
    call = """
    mean<<<1, 256>>>(loss_on_device, probs, x, scale, n); // EDIT: grid, block
    cudaMemcpy(&loss, loss_on_device, sizeof(float), cudaMemcpyDeviceToHost);
    """

    [inputs.x]
    dtype = "f32"
    shape = ["n"] # EDIT

    [inputs.scale]
    dtype = "f32"
    shape = [1] # EDIT: one element is accessed

    [outputs.loss]
    dtype = "f32"
    shape = [] # EDIT: one element is accessed

    [outputs.probs]
    dtype = "f32"
    shape = ["n"] # EDIT

    sources = ["k.cu"]
    include = []
    setup = "float* loss_on_device; cudaMalloc(&loss_on_device, sizeof(float)); cudaMemset(loss_on_device, 0, sizeof(float));"
    call = """
    mean_loss(loss_on_device, probs, x, scale, n);
    cudaMemcpy(&loss, loss_on_device, sizeof(float), cudaMemcpyDeviceToHost);
    """

    [inputs.x]
    dtype = "f32"
    shape = ["n"] # EDIT

    [inputs.scale]
    dtype = "f32"
    shape = [1] # EDIT: one element is accessed

    [outputs.loss]
    dtype = "f32"
    shape = [] # EDIT: one element is accessed

    [outputs.probs]
    dtype = "f32"
    shape = ["n"] # EDIT
    "#);
}

#[test]
fn forward_and_backward_are_one_call_with_the_outputs_and_what_flows_into_them() {
    let text = "void norm_forward(float* y, float* rms, const float* x, int rows, int cols) {}\n\
                void norm_backward(float* dx, const float* dy, const float* x, const float* rms, int rows, int cols) {}\n\
                void attention(float* out, float* lse, const float* q, int heads, int width) {}\n\
                void attention_backward(const float* grad_output, const float* dlse, const float* q, float* grad_q, int heads) {}\n";
    insta::assert_snapshot!(draft_below_comment(text), @r#"
    sources = ["k.cu"]
    include = []
    call = """
    norm_forward(y, rms, x, rows, cols);
    norm_backward(dx, dy, x, rms, rows, cols);
    """

    [inputs.x]
    dtype = "f32"
    shape = ["rows", "cols"] # EDIT

    [inputs.dy]
    dtype = "f32"
    shape = ["rows", "cols"] # EDIT

    [outputs.y]
    dtype = "f32"
    shape = ["rows", "cols"] # EDIT

    [outputs.rms]
    dtype = "f32"
    shape = ["rows", "cols"] # EDIT

    [outputs.dx]
    dtype = "f32"
    shape = ["rows", "cols"] # EDIT
    gradient_of = "x" # EDIT
    of = "y" # EDIT
    upstream = "dy" # EDIT

    sources = ["k.cu"]
    include = []
    call = """
    attention(out, lse, q, heads, width);
    attention_backward(grad_output, dlse, q, grad_q, heads);
    """

    [inputs.q]
    dtype = "f32"
    shape = ["heads", "width"] # EDIT

    [inputs.grad_output]
    dtype = "f32"
    shape = ["heads", "width"] # EDIT

    [inputs.dlse]
    dtype = "f32"
    shape = ["heads", "width"] # EDIT

    [outputs.out]
    dtype = "f32"
    shape = ["heads", "width"] # EDIT

    [outputs.lse]
    dtype = "f32"
    shape = ["heads", "width"] # EDIT

    [outputs.grad_q]
    dtype = "f32"
    shape = ["heads", "width"] # EDIT
    gradient_of = "q" # EDIT
    of = ["out", "lse"] # EDIT
    upstream = ["grad_output", "dlse"] # EDIT
    "#);
}

#[test]
fn functions_of_tensors_are_called_as_python_calls_them() {
    insta::assert_snapshot!(draft_below_comment(
        "torch::Tensor forward(const torch::Tensor& x, torch::Tensor w, c10::optional<at::Tensor> bias, double eps) {\n\
         const int rows = x.size(0), cols = x.size(1); auto out = torch::empty_like(x); return out; }\n\
         std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor x, torch::Tensor w) {\n\
         auto dx = torch::empty_like(x); auto dw = at::zeros({w.size(0)}, w.options()); return {dx, dw}; }\n\
         torch::Tensor again(at::Tensor x, bool exact) { at::Tensor out; return out; }\n"
    ), @r#"
    sources = ["k.cu"]
    include = []
    call = """
    out = forward(x, w, bias, eps);
    dx, dw = backward(grad_out, x, w);
    """

    [inputs.x]
    dtype = "f32"
    shape = ["rows", "cols"] # EDIT

    [inputs.w]
    dtype = "f32"
    shape = ["w_0"] # EDIT

    [inputs.bias]
    dtype = "f32"
    shape = ["bias_0"] # EDIT
    optional = true

    [inputs.eps]
    dtype = "f64"
    shape = []

    [inputs.grad_out]
    dtype = "f32"
    shape = ["rows", "cols"] # EDIT

    [outputs.out]
    dtype = "f32"
    shape = ["rows", "cols"] # EDIT

    [outputs.dx]
    dtype = "f32"
    shape = ["rows", "cols"] # EDIT
    gradient_of = "x" # EDIT
    of = "out" # EDIT
    upstream = "grad_out" # EDIT

    [outputs.dw]
    dtype = "f32"
    shape = ["w_0"] # EDIT
    gradient_of = "w" # EDIT
    of = "out" # EDIT
    upstream = "grad_out" # EDIT

    sources = ["k.cu"]
    include = []
    sizes = ["out_0"]
    call = """
    out = again(x, exact);
    """

    [inputs.x]
    dtype = "f32"
    shape = ["x_0"] # EDIT

    [inputs.exact]
    dtype = "bool"
    shape = []

    [outputs.out]
    dtype = "f32"
    shape = ["out_0"] # EDIT
    "#);
}

#[test]
fn lists_of_tensors_have_two_each_and_what_is_in_them_after_the_call_is_an_output() {
    insta::assert_snapshot!(draft_below_comment(
        "void step(at::Tensor noop, std::vector<std::vector<at::Tensor>> lists, const std::string& mode) {\n\
         if (mode == \"plain\") apply<2>(noop, lists); }\n\
         at::Tensor norm(at::TensorList values) { return total(values); }\n"
    ), @r#"
    sources = ["k.cu"]
    include = []
    call = """
    step(noop, {{lists_0a, lists_0b}, {lists_1a, lists_1b}}, "plain"); // EDIT: two tensors a list for lists, "plain" for mode
    lists_0a_out = at::Tensor(lists_0a);
    lists_0b_out = at::Tensor(lists_0b);
    lists_1a_out = at::Tensor(lists_1a);
    lists_1b_out = at::Tensor(lists_1b);
    """

    [inputs.noop]
    dtype = "f32"
    shape = ["noop_0"] # EDIT

    [inputs.lists_0a]
    dtype = "f32"
    shape = ["lists_0"] # EDIT

    [inputs.lists_0b]
    dtype = "f32"
    shape = ["lists_0"] # EDIT

    [inputs.lists_1a]
    dtype = "f32"
    shape = ["lists_0"] # EDIT

    [inputs.lists_1b]
    dtype = "f32"
    shape = ["lists_0"] # EDIT

    [outputs.lists_0a_out]
    dtype = "f32"
    shape = ["lists_0"] # EDIT

    [outputs.lists_0b_out]
    dtype = "f32"
    shape = ["lists_0"] # EDIT

    [outputs.lists_1a_out]
    dtype = "f32"
    shape = ["lists_0"] # EDIT

    [outputs.lists_1b_out]
    dtype = "f32"
    shape = ["lists_0"] # EDIT

    sources = ["k.cu"]
    include = []
    sizes = ["out_0"]
    call = """
    out = norm({values_a, values_b}); // EDIT: two tensors a list for values
    """

    [inputs.values_a]
    dtype = "f32"
    shape = ["values_0"] # EDIT

    [inputs.values_b]
    dtype = "f32"
    shape = ["values_0"] # EDIT

    [outputs.out]
    dtype = "f32"
    shape = ["out_0"] # EDIT
    "#);
}

#[test]
fn a_tensor_that_a_function_resizes_is_taken_from_an_empty_one_and_numbers_among_results_are_scalars()
 {
    insta::assert_snapshot!(draft_below_comment(
        "void scan_forward(at::Tensor& x, at::Tensor& total) { int n = x.size(0); total.resize_({n, 2}); }\n\
         void scan_backward(at::Tensor& gradTotal, at::Tensor& x, at::Tensor& total, at::Tensor& gradX) {\n\
         total.resize_as_(gradTotal); gradX.resize_as_(x); }\n\
         std::tuple<int64_t, at::Tensor> count(at::Tensor x) { return std::make_tuple(number, counts); }\n"
    ), @r#"
    sources = ["k.cu"]
    include = []
    sizes = ["counts_0"]
    call = """
    at::Tensor total_resized = at::empty({0}, at::Tensor(x).options());
    scan_forward(x, total_resized);
    total = at::Tensor(total_resized);
    at::Tensor gradX_resized = at::empty({0}, at::Tensor(gradTotal).options());
    scan_backward(gradTotal, x, total_resized, gradX_resized);
    gradX = at::Tensor(gradX_resized);
    number, counts = count(x);
    """

    [inputs.x]
    dtype = "f32"
    shape = ["n"] # EDIT

    [inputs.gradTotal]
    dtype = "f32"
    shape = ["total_0"] # EDIT

    [outputs.number]
    dtype = "i64"
    shape = []

    [outputs.total]
    dtype = "f32"
    shape = ["total_0"] # EDIT

    [outputs.gradX]
    dtype = "f32"
    shape = ["n"] # EDIT
    gradient_of = "x" # EDIT
    of = "total" # EDIT
    upstream = "gradTotal" # EDIT

    [outputs.counts]
    dtype = "f32"
    shape = ["counts_0"] # EDIT
    "#);
}

#[test]
fn a_function_of_tensors_without_a_result_writes_one_by_its_name() {
    insta::assert_snapshot!(draft_below_comment(
        "void rotate(at::Tensor& out, at::Tensor& index, const at::Tensor& x, std::vector<at::Tensor> more) {\n\
         int64_t n = x.size(0); k<<<1, 1>>>(index.data_ptr<int64_t>()); }\n\
         void scale_(torch::Tensor values, int64_t times) {}\n\
         std::tuple<at::Tensor, at::Tensor> split(at::Tensor values) { return halves(values); }\n"
    ), @r#"
    sources = ["k.cu"]
    include = []
    sizes = ["out_0"]
    call = """
    rotate(out, index, x, {more_a, more_b}); // EDIT: two tensors a list for more
    """

    [inputs.index]
    dtype = "i64"
    shape = ["index_0"] # EDIT

    [inputs.x]
    dtype = "f32"
    shape = ["n"] # EDIT

    [inputs.more_a]
    dtype = "f32"
    shape = ["more_0"] # EDIT

    [inputs.more_b]
    dtype = "f32"
    shape = ["more_0"] # EDIT

    [outputs.out]
    dtype = "f32"
    shape = ["out_0"] # EDIT: written in place, by its name

    sources = ["k.cu"]
    include = []
    sizes = ["times", "values_0", "out_0_0", "out_1_0"]
    call = """
    scale_(values, times);
    out_0, out_1 = split(values); // EDIT: the results
    """

    [outputs.values]
    dtype = "f32"
    shape = ["values_0"] # EDIT: written in place, by its name

    [outputs.out_0]
    dtype = "f32"
    shape = ["out_0_0"] # EDIT

    [outputs.out_1]
    dtype = "f32"
    shape = ["out_1_0"] # EDIT
    "#);
}

#[test]
fn functions_that_write_one_name_have_harnesses_of_their_own() {
    for kind in ["__global__ ", ""] {
        let text = draft(&format!(
            "{kind}void first(const float* x, float* out, int n) {{}}\n\
             {kind}void second(const float* x, float* out, int n) {{}}\n\
             {kind}void third(const float* out, float* sum, int n) {{}}\n"
        ));
        let calls: Vec<Vec<&str>> = text
            .split("call = ")
            .skip(1)
            .map(|harness| {
                harness
                    .lines()
                    .filter(|line| line.ends_with("n);") || line.contains("n); //"))
                    .collect()
            })
            .collect();
        let is_call = |line: &str, function: &str| line.starts_with(function);
        let [one, other] = calls.as_slice() else { panic!("{text}") };
        assert!(is_call(one[0], "first") && is_call(one[1], "third") && one.len() == 2, "{text}");
        assert!(is_call(other[0], "second") && other.len() == 1, "{text}");
    }
}

#[test]
fn the_fields_of_a_structure_are_filled_from_tensors_and_numbers() {
    insta::assert_snapshot!(draft_below_comment(
        "struct NormParams { const float* x; const float* weight; float* y; int rows, cols; float eps; cudaStream_t stream; };\n\
         void norm(const NormParams& params, int blocks) {}\n"
    ), @r#"
    sources = ["k.cu"]
    include = []
    sizes = ["blocks"]
    setup = "NormParams params{}; params.x = x; params.weight = weight; params.y = y; params.rows = rows; params.cols = cols; params.eps = eps; params.stream = 0;"
    call = """
    norm(params, blocks);
    """

    [inputs.x]
    dtype = "f32"
    shape = ["rows", "cols"] # EDIT

    [inputs.weight]
    dtype = "f32"
    shape = ["rows", "cols"] # EDIT

    [inputs.eps]
    dtype = "f32"
    shape = []

    [outputs.y]
    dtype = "f32"
    shape = ["rows", "cols"] # EDIT
    "#);
}

#[test]
fn each_pair_has_a_harness_of_its_own_and_other_kernels_of_a_pass_are_named() {
    let text = draft(
        "void encoder_forward(float* out, const int* inp, const float* wte, int B, int T, int C) {}\n\
         void norm_fwd(float* out, const float* inp, int B, int T, int C) {}\n\
         void norm_fwd2(float* out, const float* inp, int B, int T, int C) {}\n\
         void gelu_forward(float* out, const float* inp, int N) {}\n\
         void encoder_backward(float* dwte, const float* dout, const int* inp, int B, int T, int C) {}\n\
         void norm_bwd(float* dinp, const float* dout, const float* inp, int B, int T, int C) {}\n\
         void gelu_backward(float* dinp, const float* inp, const float* dout, int N) {}\n",
    );
    let lines = text.lines().filter(|line| {
        line.ends_with(");")
            || line.starts_with("# In the place")
            || line.contains("_of = ")
            || line.starts_with("upstream")
    });
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r#"
    encoder_forward(out, inp, wte, B, T, C);
    encoder_backward(dwte, dout, inp, B, T, C);
    gradient_of = "wte" # EDIT
    upstream = "dout" # EDIT
    # In the place of norm_fwd, norm_bwd there are: norm_fwd2.
    norm_fwd(out, inp, B, T, C);
    norm_bwd(dinp, dout, inp, B, T, C);
    gradient_of = "inp" # EDIT
    upstream = "dout" # EDIT
    gelu_forward(out, inp, N);
    gelu_backward(dinp, inp, dout, N);
    gradient_of = "inp" # EDIT
    upstream = "dout" # EDIT
    "#);
}

#[test]
fn a_measurement_calls_functions_of_tensors_with_outputs_for_the_types_and_sizes_of_their_results()
{
    let text = "at::Tensor forward(at::Tensor x, at::Tensor w) { const int rows = x.size(0), cols = x.size(1); auto y = torch::empty_like(x); return y; }\n\
         std::vector<at::Tensor> backward(at::Tensor dy, at::Tensor x, at::Tensor w, at::Tensor y) {\n\
         auto dx = torch::empty_like(x); auto dw = at::zeros_like(w); return {dx, dw}; }\n";
    let unit = SourceUnit { path: "k.cu", text };
    let found = find_function_signatures(&unit, &scan_symbols(&[unit]));
    let functions: Vec<&FunctionSignature> = found.iter().collect();
    let mut drafts = Draft::from_functions(&functions, &TypeNames::from_texts([text]));
    let [draft] = drafts.as_mut_slice() else { panic!("{drafts:?}") };
    assert_eq!(draft.argument_sizes(), ["rows", "cols", "w_0"]);
    let roomy = draft.with_room(1 << 20);
    let text = roomy.text(&build_of_one_source());
    let harness = Harness::parse(&text, Path::new("replay.toml")).unwrap();
    assert_eq!(harness.outputs.len(), 3 * 8, "a type, six dimensions and a count of each result");
    let calls = text.lines().filter(|line| line.ends_with(';'));
    let calls: Vec<String> = calls.map(|line| line.replace("extent_", "e")).collect();
    insta::assert_snapshot!(calls.join("\n"), @r#"
    at::Tensor y; ::replay_torch::results(::replay_torch::with_measures("y", y_type, {y_e0, y_e1, y_e2, y_e3, y_e4, y_e5}, y_unwritten, 1048576, y)) = forward(x, w);
    at::Tensor dx, dw; ::replay_torch::results(::replay_torch::with_measures("dx", dx_type, {dx_e0, dx_e1, dx_e2, dx_e3, dx_e4, dx_e5}, dx_unwritten, 1048576, dx), ::replay_torch::with_measures("dw", dw_type, {dw_e0, dw_e1, dw_e2, dw_e3, dw_e4, dw_e5}, dw_unwritten, 1048576, dw)) = backward(dy, x, w, y);
    "#);
    let groups = vec![vec!["rows".to_owned()], vec!["cols".to_owned(), "w_0".to_owned()]];
    draft.take_tied_sizes(&TiedSizes { groups, ..TiedSizes::default() });
    assert_eq!(draft.argument_sizes(), ["rows", "cols"]);
}

#[test]
fn integers_are_not_what_a_function_of_tensors_writes_if_it_takes_floats() {
    let text = draft(
        "void rotate(at::Tensor& positions, at::Tensor& query) {\n\
         k<<<1, 1>>>(positions.data_ptr<int64_t>(), query.data_ptr<float>()); }\n",
    );
    assert!(text.contains("[inputs.positions]") && text.contains("[outputs.query]"), "{text}");
}

#[test]
fn what_kernels_only_read_is_an_input_without_any_const_and_what_they_write_an_output() {
    let text = draft_below_comment(
        "__global__ void k(const float* w, float* y, int n) { y[threadIdx.x] = w[threadIdx.x]; }\n\
         void forward(int n, float* w, float* y) { k<<<1, n>>>(w, y, n); }\n\
         void tensors_forward(at::Tensor a, at::Tensor b) { k<<<1, 1>>>(a.data_ptr<float>(), b.data_ptr<float>(), 1); }\n",
    );
    let tables: Vec<&str> = text.lines().filter(|line| line.starts_with('[')).collect();
    let of_kernel_and_launcher = ["[inputs.w]", "[outputs.y]"];
    assert_eq!(tables[..2], of_kernel_and_launcher, "{text}");
    assert_eq!(tables[2..4], of_kernel_and_launcher, "{text}");
    assert_eq!(tables[4..], ["[inputs.a]", "[outputs.b]"], "{text}");
    assert!(!text.contains("by its name"), "{text}");
}

#[test]
fn a_tensor_of_another_shape_is_no_gradient() {
    let text = "__global__ void k(const float* w, float* gw, int n, int m) { gw[0] = w[0]; }\n\
         void backward(int n, int m, float* w, float* gw) { k<<<1, n>>>(w, gw, n, m); }\n";
    let unit = SourceUnit { path: "k.cu", text };
    let found = find_function_signatures(&unit, &scan_symbols(&[unit]));
    let functions: Vec<&FunctionSignature> =
        found.iter().filter(|function| !function.kernel).collect();
    let mut draft = Draft::from_functions(&functions, &TypeNames::from_texts([text])).remove(0);
    let probes = choose_size_sets(&["n".to_owned(), "m".to_owned()], 32).into_iter().take(2);
    let probes = probes.map(|sizes| {
        let [n, m] = ["n", "m"].map(|name| sizes[name]);
        let reach = [("w".to_owned(), n), ("gw".to_owned(), n * m)].into();
        ShapeProbe { sizes, reach }
    });
    draft.take_measured_shapes(&draft.parameter_sizes(), &probes.collect::<Vec<_>>());
    let text = draft.text(&build_of_one_source());
    let (_, tables) = text.split_once("[inputs.w]").unwrap();
    insta::assert_snapshot!(tables, @r#"
    dtype = "f32"
    shape = ["n"]

    [outputs.gw]
    dtype = "f32"
    shape = ["n", "m"]
    # EDIT: no gradient of w, whose shape is another
    "#);
}

#[test]
fn one_build_serves_a_search_for_shapes_also_where_gradients_get_further_dimensions() {
    let text = "void f(at::Tensor xyz, at::Tensor grad_xyz, at::Tensor y) {\n\
         const int n = xyz.size(0); k<<<1, 1>>>(grad_xyz.data_ptr<float>()); }\n\
         __global__ void k(float* x) { x[0] = 1; }\n";
    let unit = SourceUnit { path: "k.cu", text };
    let found = find_function_signatures(&unit, &scan_symbols(&[unit]));
    let functions: Vec<&FunctionSignature> = found.iter().take(1).collect();
    let mut draft = Draft::from_functions(&functions, &TypeNames::from_texts([text])).remove(0);
    let open = draft.with_open_shapes();
    draft.set_dimensions("xyz", 3);
    assert_eq!(draft.shape_of("grad_xyz"), ["n", "xyz_1", "xyz_2"]);
    let numbers = draft.argument_sizes().into_iter().zip(7..).collect();
    let sizes = draft.open_shape_sizes(&numbers);
    let missing: Vec<&str> =
        open.named_sizes().into_iter().filter(|name| !sizes.contains_key(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(sizes["grad_xyz_2"], sizes["xyz_2"]);
}

#[test]
fn a_result_that_is_written_in_its_first_columns_alone_has_so_many_columns() {
    let text = "at::Tensor f(at::Tensor x, at::Tensor grid) {\n\
                auto grad_grid = torch::empty_like(grid);\nreturn grad_grid;\n}\n";
    let unit = SourceUnit { path: "k.cu", text };
    let found = find_function_signatures(&unit, &scan_symbols(&[unit]));
    let functions: Vec<&FunctionSignature> = found.iter().collect();
    let mut draft = Draft::from_functions(&functions, &TypeNames::default()).remove(0);
    draft.inputs["grid"].shape = vec!["n".to_owned(), "c".to_owned()];
    draft.outputs["grad_grid"].shape = vec!["n".to_owned(), "c".to_owned()];
    let unwritten = |first: &[usize]| vec![("grad_grid".to_owned(), first.to_vec())];
    let narrow = draft.with_written_columns(&unwritten(&[0, 2])).unwrap();
    assert_eq!(narrow.inputs["grid"].shape, ["n", "2"]);
    assert_eq!(narrow.outputs["grad_grid"].shape, ["n", "2"]);
    // Nothing is written, or only some rows are.
    assert_eq!(draft.with_written_columns(&unwritten(&[0, 0])), None);
    assert_eq!(draft.with_written_columns(&unwritten(&[3, 2])), None);
    // The size is one of rows, too.
    draft.inputs["x"].shape = vec!["c".to_owned(), "k".to_owned()];
    assert_eq!(draft.with_written_columns(&unwritten(&[0, 2])), None);
}

#[test]
fn copies_that_a_function_does_not_change_are_left_out_unless_nothing_else_is_left() {
    let mut draft = shape_search::tests::draft_function(
        "std::vector<std::vector<at::Tensor>> lists",
        "apply<1>(lists);",
    );
    let copies = draft.list_copies();
    let names = ["lists_0a", "lists_0b"].map(|input| (input.to_owned(), format!("{input}_out")));
    assert_eq!(copies, names);
    let first_output = ["lists_0a_out".to_owned()];
    draft.leave_out_copies(&first_output);
    assert_eq!(draft.list_copies(), names[1..]);
    draft.leave_out_copies(&["lists_0b_out".to_owned()]);
    assert_eq!(draft.list_copies(), names[1..]);
}

#[test]
fn a_result_keeps_its_measured_shape_where_its_upstream_gradient_has_another_and_gives_it_its_own()
{
    let text = "at::Tensor f_forward(at::Tensor x) { return output; }\n\
                at::Tensor f_backward(at::Tensor x, at::Tensor grad_output) {\n\
                int n = x.size(0), m = x.size(1);\n\
                auto g = grad_output.view({n, m});\nauto grad_x = at::zeros_like(x);\nreturn grad_x; }";
    let unit = SourceUnit { path: "k.cu", text };
    let functions = find_function_signatures(&unit, &scan_symbols(&[unit]));
    let mut draft =
        Draft::from_functions(&functions.iter().collect::<Vec<_>>(), &TypeNames::default())
            .remove(0);
    for input in ["x", "grad_output"] {
        draft.inputs[input].shape = vec!["n".to_owned(), "m".to_owned()];
    }
    draft.inputs["grad_output"].doubt = None;
    let groups = ["n", "m"].map(|size| vec![size.to_owned()]).to_vec();
    let tied = TiedSizes { groups, ..TiedSizes::default() };
    let probes = [(12, 20), (20, 28)].map(|(n, m)| ShapeProbe {
        sizes: [("n".to_owned(), n), ("m".to_owned(), m)].into(),
        reach: [
            ("output_type".to_owned(), 7),
            ("output_extent_0".to_owned(), n * m + 1),
            ("grad_x_type".to_owned(), 7),
            ("grad_x_extent_0".to_owned(), n + 1),
            ("grad_x_extent_1".to_owned(), m + 1),
        ]
        .into(),
    });
    draft.take_measured_shapes(&tied, &probes);
    assert_eq!(draft.outputs["output"].shape, ["output_0"]);
    let aligned = draft.with_aligned_upstreams().unwrap();
    assert_eq!(aligned.inputs["grad_output"].shape, ["output_0"]);
    assert_eq!(aligned.outputs["grad_x"].shape, ["n", "m"]);
}

#[test]
fn a_gradient_of_a_tensor_with_room_has_the_shape_that_is_measured_of_that() {
    let text = "at::Tensor f_backward(at::Tensor w, at::Tensor grad_output) {\n\
                auto grad_w = at::zeros_like(w);\nreturn grad_w; }";
    let unit = SourceUnit { path: "k.cu", text };
    let functions = find_function_signatures(&unit, &scan_symbols(&[unit]));
    let mut draft =
        Draft::from_functions(&functions.iter().collect::<Vec<_>>(), &TypeNames::default())
            .remove(0);
    let roomy = draft.inputs["w"].shape.clone();
    draft.inputs["grad_output"].shape = vec!["n".to_owned(), "m".to_owned()];
    let groups = ["n", "m"].map(|size| vec![size.to_owned()]).to_vec();
    let tied = TiedSizes { groups, roomy, ..TiedSizes::default() };
    let probes = [(12, 20), (20, 28)].map(|(n, m)| ShapeProbe {
        sizes: [("n".to_owned(), n), ("m".to_owned(), m)].into(),
        reach: [("w".to_owned(), n * m), ("grad_w_type".to_owned(), 7)].into(),
    });
    draft.take_measured_shapes(&tied, &probes);
    assert_eq!(draft.inputs["w"].shape, ["n", "m"]);
    assert_eq!(draft.outputs["grad_w"].shape, ["n", "m"]);
}

#[test]
fn a_result_that_a_call_leaves_absent_is_no_output() {
    let text = "std::tuple<at::Tensor, at::optional<at::Tensor>> f(at::Tensor x) {\n\
                return std::make_tuple(out, arg_out); }";
    let unit = SourceUnit { path: "k.cu", text };
    let functions = find_function_signatures(&unit, &scan_symbols(&[unit]));
    let mut draft =
        Draft::from_functions(&functions.iter().collect::<Vec<_>>(), &TypeNames::default())
            .remove(0);
    let tied = TiedSizes { groups: vec![vec!["x_0".to_owned()]], ..TiedSizes::default() };
    let probes = [12, 20].map(|number| ShapeProbe {
        sizes: [("x_0".to_owned(), number)].into(),
        // 6 is float, and each number is larger by one.
        reach: [("out_type".to_owned(), 7), ("out_extent_0".to_owned(), number + 1)].into(),
    });
    draft.take_measured_shapes(&tied, &probes);
    assert_eq!(draft.calls[0].statement(), "out, _ = f(x); // EDIT: arg_out is none in this call");
    assert_eq!(draft.outputs.keys().collect::<Vec<_>>(), ["out"]);
    assert_eq!(draft.named_sizes(), ["x_0"]);
}
