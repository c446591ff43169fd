//! Sizes in bytes that sources write as numbers: the float64 shadow follows them, or there is none.

use crate::common::env::TestEnv;

const KERNEL: &str = "\
__global__ void square(const float* x, float* y, int n) { int i = threadIdx.x; if (i < n) y[i] = x[i] * x[i]; }
__global__ void sum(const float* y, float* loss, int n)
{
    extern __shared__ float s[];
    s[threadIdx.x] = threadIdx.x < n ? y[threadIdx.x] : 0.0f;
    __syncthreads();
    if (threadIdx.x == 0) { float t = 0.0f; for (int k = 0; k < 64; k++) t += s[k]; *loss = t; }
}
__global__ void slope(const float* x, float* dx, int n) { int i = threadIdx.x; if (i < n) dx[i] += 2.0f * x[i]; }
void step(const float* x, float* dx, float* loss, int n)
{
    float *y, *d, host;
    cudaMalloc(&y, n * sizeof(float));
    cudaMalloc(&d, sizeof(float));
    cudaMemset(dx, 0, n * sizeof(float));
    square<<<1, 64>>>(x, y, n);
    sum<<<1, 64, 64 * sizeof(float)>>>(y, d, n);
    slope<<<1, 64>>>(x, dx, n);
    cudaMemcpy(&host, d, sizeof(float), cudaMemcpyDeviceToHost);
    *loss = host;
    cudaFree(y);
    cudaFree(d);
}
";

const HARNESS: &str = "\
sources = [\"k.cu\"]
call = \"step(x, dx, &loss, n);\"
[inputs.x]
dtype = \"f32\"
shape = [\"n\"]
[outputs.dx]
dtype = \"f32\"
shape = [\"n\"]
gradient_of = \"x\"
[outputs.loss]
dtype = \"f32\"
shape = []
";

/// The project with `before` in its kernels replaced by `after`.
fn project(before: &str, after: &str) -> TestEnv {
    assert!(KERNEL.contains(before));
    let env = TestEnv::new().with_kernel(&KERNEL.replace(before, after), "");
    env.repo.write("replay.toml", HARNESS);
    env
}

/// What `replay gradcheck` says of the gradient, and its exit code.
fn gradient(env: &TestEnv) -> String {
    let run = env.replay(&["gradcheck", "fixtures/tiny"]);
    let lines = run.stdout.lines().filter(|line| line.trim_start().starts_with("dx "));
    format!("{} [{}]", lines.collect::<Vec<_>>().join(" | ").trim(), run.code.unwrap_or(-1))
}

#[test]
fn bytes_written_as_numbers_count_doubles_where_the_shadow_has_them() {
    let cases = [
        ("cudaMemset(dx, 0, n * sizeof(float))", "cudaMemset(dx, 0, n * 4)"),
        ("cudaMalloc(&y, n * sizeof(float))", "cudaMalloc((void**)&y, 4 * n)"),
        ("cudaMemcpy(&host, d, sizeof(float)", "cudaMemcpy(&host, d, 4"),
        ("cudaMemset(dx, 0, n * sizeof(float))", "size_t bytes = n << 2; cudaMemset(dx, 0, bytes)"),
        ("64 * sizeof(float)", "64 * 4"),
    ];
    for (before, after) in cases {
        let said = gradient(&project(before, after));
        assert!(said.starts_with("dx  matches") && said.ends_with("[0]"), "{after}: {said}");
    }
}

#[test]
fn a_shadow_that_reads_what_nobody_wrote_in_it_convicts_nothing_and_names_the_size() {
    let set = "cudaMemset(dx, 0, n * sizeof(float))";
    let through_void = project(set, "[](void* to, int n) { cudaMemset(to, 0, n * 4); }(dx, n)");
    insta::assert_snapshot!(gradient(&through_void), @"dx  agrees with float32 differences of loss to within 1 %; small errors do not show: no float64 shadow: it reads memory that nobody wrote in it; `n * 4` at k.cu:15 may count bytes of float32: write sizeof(float) [0]");
    let named = project(set, "size_t bytes = n * 4 + 0; cudaMemset(dx, 0, bytes)");
    insta::assert_snapshot!(gradient(&named), @"dx  agrees with float32 differences of loss to within 1 %; small errors do not show: no float64 shadow: it reads memory that nobody wrote in it; `n * 4 + 0` at k.cu:15 may count bytes of float32: write sizeof(float) [0]");
    let shared = project("64 * sizeof(float)", "64 * 4 + 0");
    insta::assert_snapshot!(gradient(&shared), @"dx  agrees with float32 differences of loss to within 1 %; small errors do not show: the float64 shadow does not run to its end: out-of-bounds access in sum: past the end of dynamic shared memory; `64 * 4 + 0` at k.cu:17 may count bytes of float32: write sizeof(float) [0]");
}
