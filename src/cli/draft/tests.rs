use std::path::Path;

use ::replay::frontend::{Program, Unit, scan, signatures};
use ::replay::harness::Harness;

use super::*;

fn draft(text: &str) -> String {
    drafts(text, |_| true)
}

/// The draft for the function `name` alone.
fn draft_of(name: &str, text: &str) -> String {
    drafts(text, |function| function.name == name)
}

fn drafts(text: &str, wanted: impl Fn(&Signature) -> bool) -> String {
    let unit = Unit { path: "k.cu", text };
    let found = signatures(&unit, &scan(&[unit]));
    let (types, functions) = (Types::of([], text), found.iter().collect::<Vec<_>>());
    let program = Program::of([], text);
    let project = Project { functions: &functions, types: &types, program: &program };
    let called: Vec<&Signature> = functions.iter().copied().filter(|f| wanted(f)).collect();
    let drafts = Draft::all(&called, &project);
    let texts = drafts.iter().map(|draft| {
        let text = draft.text("k.cu", &[]);
        Harness::parse(&text, Path::new("replay.toml")).unwrap();
        let apart = draft.apart.as_ref().map_or(String::new(), |why| format!("{why}\n"));
        apart + &text
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_kernel_without_a_host_function_is_launched() {
    insta::assert_snapshot!(draft(
        "__global__ void scale(const __nv_bfloat16* x, float *out, float by, size_t n) {}"
    ), @r#"
    # How to call the kernels of k.cu, whatever the revision. A draft by `replay init`:
    # what is marked EDIT was guessed from names and has to be checked.
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
fn types_of_the_projects_own_are_marked_and_gradients_recognised() {
    insta::assert_snapshot!(draft(
        "template <typename T> __global__ void k(T* y) {}\n\
         void backward(floatX* dq, const floatX* q, const int *index, int rows, int cols,\n\
                       cudaStream_t stream, Config config) { k<<<1, 1>>>(dq); }"
    ).lines().skip(4).collect::<Vec<_>>().join("\n"), @r#"
    sizes = ["n"]
    call = """
    k<float><<<1, 256>>>(y); // EDIT: template arguments, grid, block
    """

    [outputs.y]
    dtype = "f32"
    shape = ["n"] # EDIT
    # init = 0 # EDIT: if the call need not write all of it

    # How to call the kernels of k.cu, whatever the revision. A draft by `replay init`:
    # what is marked EDIT was guessed from names and has to be checked.
    sources = ["k.cu"]
    include = []
    call = """
    backward(dq, q, index, rows, cols, 0, {});
    """

    [inputs.q]
    dtype = "f32" # EDIT: a type of the project's own
    shape = ["rows", "cols"] # EDIT

    [inputs.index]
    dtype = "i32"
    shape = ["rows"] # EDIT

    [outputs.dq]
    dtype = "f32" # EDIT: a type of the project's own
    shape = ["rows", "cols"] # EDIT
    # init = 0 # EDIT: if the call need not write all of it
    gradient_of = "q" # EDIT
    "#);
}

#[test]
fn what_is_an_output_of_one_function_and_an_input_of_another_is_called_apart() {
    let text = draft(
        "__global__ void k(float* y) {}\n\
         void forward(const float* x, float* rms, int n) { k<<<1, 1>>>(rms); }\n\
         void backward(const float* rms, float* dx, int n) { k<<<1, 1>>>(dx); }\n",
    );
    let kept = |line: &&str| ["`", "forward", "backward", "["].iter().any(|w| line.starts_with(w));
    insta::assert_snapshot!(text.lines().filter(kept).collect::<Vec<_>>().join("\n"), @"
    [outputs.y]
    forward(x, rms, n);
    [inputs.x]
    [outputs.rms]
    `rms` is an output of forward and an input of backward
    backward(rms, dx, n);
    [inputs.rms]
    [outputs.dx]
    ");
}

#[test]
fn a_name_of_another_type_is_said_to_be_one() {
    let text = draft(
        "__global__ void k(float* y) {}\n\
         void f_forward(const float* x, float* y, int n) { k<<<1, 1>>>(y); }\n\
         void f_backward(const int* x, float* y, int n) { k<<<1, 1>>>(y); }\n\
         void f_loss(const float* w, float* z, int y) { k<<<1, 1>>>(z); }\n",
    );
    let kept = |line: &&str| line.starts_with('`');
    insta::assert_snapshot!(text.lines().filter(kept).collect::<Vec<_>>().join("\n"), @"
    `x` is an input of f_forward and an input of another type or shape of f_backward
    `y` is an output of f_forward and a size of f_loss
    ");
}

#[test]
fn versions_share_a_call_and_a_scalar_chooses() {
    let text = draft(
        "__global__ void k(float* y) {}\n\
         void norm1(float* out, const float* inp, int rows, int cols, int block_size) { k<<<1, 1>>>(out); }\n\
         void norm2(float* out, const float* inp, int rows, int cols) { k<<<1, 1>>>(out); }\n",
    );
    let last = text.rsplit("# How to call").next().unwrap_or_default();
    let shown = last.lines().skip(4).take(11).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(shown, @r#"
    call = """
    switch (kernel) {
    case 1: norm1(out, inp, rows, cols, 256); break; // EDIT: 256 for block_size
    case 2: norm2(out, inp, rows, cols); break;
    }
    """

    [inputs.kernel] # 1, 2
    dtype = "i32"
    shape = []

    "#);
}

#[test]
fn what_a_function_changes_begins_as_the_fixture_has_it() {
    let text = draft(
        "__global__ void k(float* p, float* m, const float* g, float* total, int n) {\n\
           int i = threadIdx.x; m[i] = 0.9f * m[i] + g[i]; p[i] -= m[i]; atomicAdd(total, m[i]); }\n\
         void step(float* p, float* m, const float* g, float* total, int n, float lr, cublasHandle_t h) {\n\
           k<<<1, n>>>(p, m, g, total, n); }\n",
    );
    insta::assert_snapshot!(text.lines().skip(4).collect::<Vec<_>>().join("\n"), @r#"
    call = """
    k<<<1, 256>>>(p, m, g, total, n); // EDIT: grid, block
    """

    [inputs.p_before]
    dtype = "f32"
    shape = ["n"] # EDIT

    [inputs.m_before]
    dtype = "f32"
    shape = ["n"] # EDIT

    [inputs.g]
    dtype = "f32"
    shape = ["n"] # EDIT

    [outputs.p]
    dtype = "f32"
    shape = ["n"] # EDIT
    init = "p_before"

    [outputs.m]
    dtype = "f32"
    shape = ["n"] # EDIT
    init = "m_before"

    [outputs.total]
    dtype = "f32"
    shape = [1] # EDIT
    init = 0 # EDIT: the call adds to it, or leaves it alone

    # How to call the kernels of k.cu, whatever the revision. A draft by `replay init`:
    # what is marked EDIT was guessed from names and has to be checked.
    sources = ["k.cu"]
    include = []
    setup = "cublasHandle_t handle; cublasCreate(&handle);"
    call = """
    step(p, m, g, total, n, lr, handle);
    """

    [inputs.p_before]
    dtype = "f32"
    shape = ["n"] # EDIT

    [inputs.m_before]
    dtype = "f32"
    shape = ["n"] # EDIT

    [inputs.g]
    dtype = "f32"
    shape = ["n"] # EDIT

    [inputs.lr]
    dtype = "f32"
    shape = []

    [outputs.p]
    dtype = "f32"
    shape = ["n"] # EDIT
    init = "p_before"

    [outputs.m]
    dtype = "f32"
    shape = ["n"] # EDIT
    init = "m_before"

    [outputs.total]
    dtype = "f32"
    shape = [1] # EDIT
    init = 0 # EDIT: the call adds to it, or leaves it alone
    "#);
}

#[test]
fn a_path_is_quoted_as_toml_has_it() {
    assert_eq!(quoted("a\"b\u{1}"), r#""a\"b\u0001""#);
}

#[test]
fn what_main_prepares_is_done_before_the_call() {
    let text = "void setup_main() {}\nvoid test_all() { setup_main(); }\n\
                void scale(float* y, const float* x, int n) { k<<<blocks, 32>>>(y, x, n); }\n\
                int main() { setup_main(); test_all(); init(1); }";
    assert!(draft_of("scale", text).contains("\nsetup = \"setup_main();\"\n"));
}

#[test]
fn main_tells_shapes_types_and_what_it_prepares() {
    let text = draft_of(
        "fill",
        "static float* sums; bool first = true;\n\
         __global__ void k(float* y) {}\n\
         template <class T> void fill(T* out, float* total, int rows, int width) {\n\
           k<<<rows, 32>>>(sums); if (first) cublasSgemm(handle, sums); total[rows] = 1; out[rows] = 2; }\n\
         int main(int argc, char** argv) {\n\
           int B = 2, T = 8, C = 64; int wide = argc > 1 ? atoi(argv[1]) : 0;\n\
           cublasCreate(&handle); cudaMalloc(&sums, width * 4 * sizeof(float)); cudaMalloc(&first, wide);\n\
           double* d_out; cudaMalloc(&d_out, B * T * 3 * C * sizeof(double));\n\
           float* d_total; cudaMalloc(&d_total, 16 * sizeof(float));\n\
           fill(d_out, d_total, B * T, C); first = false; }\n\
         cublasHandle_t handle;\n",
    );
    insta::assert_snapshot!(text.lines().skip(4).collect::<Vec<_>>().join("\n"), @r#"
    sizes = ["rows", "width"]
    setup = "cublasCreate(&handle); cudaMalloc(&sums, width * 4 * sizeof(float));"
    call = """
    fill(out, total, rows, width);
    """

    [outputs.out]
    dtype = "f64"
    shape = ["rows", 3, "width"] # EDIT
    # init = 0 # EDIT: if the call need not write all of it

    [outputs.total]
    dtype = "f32"
    shape = [16] # EDIT
    # init = 0 # EDIT: if the call need not write all of it
    "#);
}

#[test]
fn what_a_version_leaves_or_adds_to_begins_as_zero_and_what_is_a_guess_is_not_filled() {
    let text = draft(
        "__global__ void k(float* p, float* q) { p[0] = 1; q[0] += 1; }\n\
         __global__ void mask(float* p, int i) { p[i] = i ? -INFINITY : 0; }\n\
         void f1(float* out, float* sum, float* att) { k<<<1, 1>>>(out, sum); mask<<<1, 1>>>(att, 1); }\n\
         void f2(float* out, float* sum) { k<<<1, 1>>>(out, sum); k<<<1, 1>>>(sum, out); }\n\
         void f(int kernel_num, float* out, float* sum, float* att, const float* inp, int B, int NH, int T) {\n\
           switch (kernel_num) { case 1: f1(out, sum, att); break; case 2: f2(out, sum); } }\n\
         void product(float* c, float* d, const float* a, int M, int N, int K) {\n\
           float one = 1.0f, zero = 0.0f;\n\
           cublasSgemm(handle, N, T, M, N, K, &one, a, K, a, K, &zero, c, N);\n\
           cublasSgemm(handle, N, T, M, N, K, &one, c, K, a, K, &one, d, N); }\n\
         template <class Step> void chosen(float* e, Step step, int n) {\n\
           step(e, n); cublasSgemm(handle, N, T, n, n, n, &one, e, n, e, n, &zero, 0, n); k<<<1, 1>>>(0, 0); }\n",
    );
    let kept = |line: &&str| {
        ["[outputs", "init", "# init", "non_finite"].iter().any(|w| line.starts_with(w))
    };
    insta::assert_snapshot!(text.lines().filter(kept).collect::<Vec<_>>().join("\n"), @"
    [outputs.p]
    [outputs.q]
    init = 0 # EDIT: the call adds to it, or leaves it alone
    [outputs.p]
    # init = 0 # EDIT: if the call need not write all of it
    non_finite = true # EDIT: an infinity is written
    [outputs.out]
    [outputs.sum]
    init = 0 # EDIT: the call adds to it, or leaves it alone
    [outputs.att]
    # init = 0 # EDIT: if the call need not write all of it
    non_finite = true # EDIT: an infinity is written
    [outputs.out]
    [outputs.sum]
    init = 0 # EDIT: the call adds to it, or leaves it alone
    [outputs.att]
    init = 0 # EDIT: the call adds to it, or leaves it alone
    non_finite = true # EDIT: an infinity is written
    [outputs.c]
    [outputs.d]
    init = 0 # EDIT: the call adds to it, or leaves it alone
    [outputs.e]
    # init = 0 # EDIT: if the call need not write all of it
    ");
}
