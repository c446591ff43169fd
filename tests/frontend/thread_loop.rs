//! Which kernels take thread-loop form, and what they become.

use super::snapshot;
use replay::frontend::{
    Precision, SourceUnit, ThreadForm, Threads, Translated, scan_symbols, translate_for_host,
};

fn translated(text: &str, precision: Precision) -> Translated {
    let unit = SourceUnit { path: "a.cu", text };
    translate_for_host(&unit, &scan_symbols(&[unit]), precision, Threads::Blocks).unwrap()
}

fn words(threads: &ThreadForm) -> String {
    match threads {
        ThreadForm::InTurn => "in turn".to_owned(),
        ThreadForm::Block { .. } => "none".to_owned(),
        ThreadForm::Stacks { why, line: Some(line) } => format!("{line}: {why}"),
        ThreadForm::Stacks { why, line: None } => why.to_string(),
    }
}

/// Why a kernel with the parameters `float* x, int n` and this body keeps stacks, if it does;
/// `before` stands in front of it.
fn obstacle(before: &str, body: &str) -> String {
    let text = format!("{before}\n__global__ void k(float* x, int n) {{ {body} }}\n");
    let made = translated(&text, Precision::Native);
    let [form] = &made.kernel_forms[..] else { panic!("{:?}", made.kernel_forms) };
    assert_eq!((form.kernel.as_str(), form.line), ("k", 1 + before.matches('\n').count() + 1));
    words(&form.threads)
}

const REDUCTION: &str = "\
__global__ void sum(const float* x, float* y, int n)
{
    extern __shared__ float part[];
    int t = threadIdx.x; // in the block
    float own = 0.0f, *mine = &part[t];
    for (int i = t; i < n; i += blockDim.x) own += x[i];
    *mine = own;
    __syncthreads();
    for (int s = blockDim.x / 2;
         s > 0; s >>= 1) {
        if (t < s) *mine += part[t + s];
        __syncthreads();
    }
    if (t != 0) return;
    float all = part[0];
    y[blockIdx.x] = all;
}
";

#[test]
fn a_reduction_becomes_a_loop_over_the_threads() {
    for (name, precision) in [("native", Precision::Native), ("shadow", Precision::Shadow)] {
        snapshot("thread_loop", name, &translated(REDUCTION, precision).text);
    }
}

const SUMS: &str = "\
__global__ void sums(const float* __restrict__ x, float* __restrict__ y, int n,
                     float* all)
{
    extern __shared__ float part[];
    int t = threadIdx.x;
    float own = 0.0f;
    for (int i = t; i < n; i += blockDim.x) {
        float scaled = x[i] * 2.0f;
        own += scaled;
        y[i] = scaled;
    }
    part[t] = own;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (t < s) {
            part[t] += part[t + s];
        }
        __syncthreads();
    }
    all[t] = part[0];
}
";

#[test]
fn strided_loops_and_halvings_are_calls_of_the_runtime() {
    let unit = SourceUnit { path: "a.cu", text: SUMS };
    let made = translate_for_host(&unit, &scan_symbols(&[unit]), Precision::Native, Threads::Lanes)
        .unwrap();
    snapshot("thread_loop", "lanes", &made.text);
}

const COLUMNS: &str = "\
template <class T>
__global__ void columns(float* sums, const float* x, int n)
{
    __shared__ float part[32];
    int t = threadIdx.x;
    float own = x[t];
#pragma unroll
    for (int d = warpSize / 2;
         d > 0; d /= 2) // all lanes
        own += __shfl_xor_sync(0xffffffffu, own, d);
    if (t % 32 == 0) part[t / 32] = own;
    __syncthreads();
    if (t >= 32) return;
    own = part[t];
    own += __shfl_down_sync(0xffffffffu, own, 2, n);
    own += __shfl_down_sync(0xffffffffu, own, 1, n);
    if (t == 0)
        atomicAdd(&sums[blockIdx.x], own / (T)n);
}
";

#[test]
fn waits_for_lanes_and_atomics_are_turns() {
    snapshot("thread_loop", "turns", &translated(COLUMNS, Precision::Native).text);
}

#[test]
fn thread_loop_keeps_the_lines() {
    for text in [
        REDUCTION,
        COLUMNS,
        include_str!("../engine/blocks.cu"),
        include_str!("../engine/turns.cu"),
    ] {
        let made = translated(text, Precision::Native);
        assert!(made.kernel_forms.iter().all(|form| form.why_stacks().is_none()));
        let stacks = translate_for_host(
            &SourceUnit { path: "a.cu", text },
            &scan_symbols(&[SourceUnit { path: "a.cu", text }]),
            Precision::Native,
            Threads::Stacks,
        );
        assert_eq!(made.text.lines().count(), stacks.unwrap().text.lines().count());
    }
}

#[test]
fn what_jumps_and_frames_can_hold_takes_thread_loop() {
    for (before, body) in [
        ("", "__syncthreads();"),
        ("", "do { __syncthreads(); if (n == 2) break; } while (--n);"),
        ("", "for (;;) { if (x[0] > 1) return; __syncthreads(); }"),
        ("", "float a[2] = {1, 2}, *p = a; __syncthreads(); x[0] = *p;"),
        ("struct S { int a; };", "S s; s.a = n; __syncthreads(); x[0] = s.a;"),
        ("", "{ int n = 1; x[0] = n; } __syncthreads(); x[1] = n;"),
        ("", "atomicAdd(x, 1.0f); __syncthreads();"),
        ("", "atomicAdd(&x[n * 2], x[1] + x[2]); __syncthreads();"),
        ("__device__ int at(int i);", "atomicAdd(x + at(1), fmaxf(x[1], 2)); __syncthreads();"),
        (
            "",
            "int m = n; for (int d = n; d > 0; d /= 2) m += __shfl_xor_sync(~0u, m, d); x[0] = m;",
        ),
        ("", "const int m = 4; __syncthreads(); float a[m]; x[0] = a[0] = 1;"),
        ("#define HALF(a) ((a) / 2)", "int m = HALF(n); __syncthreads(); x[0] = m;"),
        ("", "\n#pragma unroll\nfor (int i = 0; i < 4; i++) { x[i] = 0; }\n__syncthreads();"),
        (
            "__device__ float f(float v) { return v + 1; }",
            "float y = f(n); __syncthreads(); x[0] = y;",
        ),
    ] {
        assert_eq!(obstacle(before, body), "none", "{before} {body}");
    }
}

#[test]
fn a_kernel_in_which_nothing_waits_is_a_loop_over_the_threads() {
    let cases = [
        ("reads its parameters alone", "x[threadIdx.x + n] = 0;"),
        ("changes its parameters", "x += n; *x = 0;"),
        ("has functions that ask for the index", "x[whose()] = 0;"),
        ("has a class that asks for it", "struct S { int i = threadIdx.x; }; x[S().i] = 0;"),
        ("names itself", "assert(n > 0); x[n] = 0;"),
        ("has atomics", "atomicAdd(x, 1.0f);"),
    ];
    let mut lines = Vec::new();
    for (what, body) in cases {
        let text = format!(
            "__device__ int whose() {{ return threadIdx.x; }}\n__global__ void k(float* x, int n) {{ {body} }}"
        );
        let made = translated(&text, Precision::Native);
        assert_eq!(words(&made.kernel_forms[0].threads), "in turn", "{what}");
        lines.push(format!("{what}:\n{}", made.text.lines().last().expect("a kernel")));
    }
    insta::assert_snapshot!(lines.join("\n"));
}

const FUNCTIONS: &str = "\
#define SHUFFLE(x, d) __shfl_xor_sync(~0u, x, d)
namespace a {
template <class T> __device__ T warp_sum(T x) {
    for (int d = 16; d > 0; d /= 2)
        x += SHUFFLE(x, d);
    return x;
}
__device__ float block_sum(float x, const int& lanes) {
    __shared__ float part[32];
    x = warp_sum(x);
    if (threadIdx.x % lanes == 0) part[threadIdx.x / lanes] = x;
    __syncthreads();
    return warp_sum<float>(part[threadIdx.x % lanes]);
}
__global__ void k(float* y,
                  int n) {
    cooperative_groups::thread_block block = cooperative_groups::this_thread_block();
    float own = y[threadIdx.x]; // one
    float mean = block_sum(own, n) / n;
    block.sync();
    own = mean * 2.0f;

    if (n > 1)
        own = block_sum(own, 32);
    y[threadIdx.x] = own;
}
}
";

#[test]
fn functions_that_wait_become_part_of_their_kernel() {
    let made = translated(FUNCTIONS, Precision::Native);
    assert_eq!(words(&made.kernel_forms[0].threads), "none");
    assert_eq!(made.text.lines().count(), 1 + FUNCTIONS.lines().count());
    let kernel = made.text.lines().skip_while(|line| !line.contains("__global__"));
    insta::assert_snapshot!(kernel.collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_call_that_is_not_understood_keeps_its_stacks() {
    let before = "template <class T> __device__ T sum(T x) { \
                  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d); return x; }\n\
                  __device__ float early(float x) { if (x > 1) return 0; __syncthreads(); return x; }\n\
                  __device__ float again(float x) { x = again(x); __syncthreads(); return x; }\n\
                  __device__ float scale;\n\
                  __device__ float scaled(float x) { __syncthreads(); return x * scale; }\n\
                  namespace b { __device__ float hidden(float x) { __syncthreads(); return x; } }";
    let cases = [
        "float v = *x; v = sum(v);",
        "float v = *x; if (sum(v) > 1) x[0] = v;",
        "float v = *x; v = x[1] + sum(v);",
        "float v = *x; v = n > 1 ? sum(v) : 0;",
        "float v = *x; v = sum(v) * sum(v);",
        "float v = *x; v = sum(sum(v));",
        "float v = *x; v = sum(x[1]);",
        "float v = *x; v = early(v);",
        "float v = *x; v = again(v);",
        "float v = *x, scale = 2; v = scaled(v) + scale;",
        "float v = *x; v = b::hidden(v);",
        "float v = *x; for (v = sum(v); v < 9; v++) x[0] = v;",
        "float v = *x, w = sum(v);",
    ];
    let lines = cases.map(|body| format!("{body}\n    {}", obstacle(before, body)));
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_kernel_that_waits_in_a_function_tells_by_which_names() {
    let before = "__device__ float warp(float v) { return v + __shfl_xor_sync(~0u, v, 1); }\n\
                  __device__ float block(float v) { v = warp(v); __syncthreads(); return v; }";
    let kernel = "\nx[0] = 1;\nx[n] = block(x[n]);";
    insta::assert_snapshot!(obstacle(before, kernel), @"5: block > __syncthreads may wait elsewhere than at a barrier of the kernel");
    assert_eq!(obstacle(before, "atomicAdd(x, 1.0f);"), "in turn");
}

#[test]
fn a_shuffle_that_is_a_wait_of_its_own_tells_why() {
    let cases = [
        "v += __shfl_xor_sync(~0u, v, 1); v += __shfl_xor_sync(~0u, v, 2);",
        "for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);",
        "v += __shfl_xor_sync(~0u, v, 1);",
        "v = __shfl_sync(~0u, v, 0);",
        "v += __shfl_xor_sync(~0u, w, 1); v += __shfl_xor_sync(~0u, w, 2);",
        "for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(masks[d], v, d);",
        "for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d, widths[0]);",
        "for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d * 2);",
        "v += __shfl_xor_sync(~0u, v, w()); v += __shfl_xor_sync(~0u, v, w());",
        "for (int d = 16, e = 1; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);",
        "for (int d = v; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);",
        "for (int d = 16; d > 0; d /= 2) { v += __shfl_xor_sync(~0u, v, d); w = v; }",
        "all += __shfl_xor_sync(~0u, all, 1); all += __shfl_xor_sync(~0u, all, 2);",
        "\n#if N\n#endif\nfor (int d = 9; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);",
    ];
    let mut lines = Vec::new();
    for body in cases {
        let text = format!("__device__ float all;\n__device__ void f(float v) {{ {body} }}\n");
        for site in translated(&text, Precision::Native).shuffles {
            let why = site.alone.map_or("one wait".to_owned(), |why| why.to_string());
            lines.push(format!("{}:{}: {why}", site.function, site.line));
        }
        lines.push(format!("    {}", body.replace('\n', "\\n")));
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    f:2: one wait
        v += __shfl_xor_sync(~0u, v, 1); v += __shfl_xor_sync(~0u, v, 2);
    f:2: one wait
        for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    f:2: one step alone, neither in a loop of its own nor behind another
        v += __shfl_xor_sync(~0u, v, 1);
    f:2: its result is not combined with the lane's own value in one statement
        v = __shfl_sync(~0u, v, 0);
    f:2: its result is not combined with the lane's own value in one statement
    f:2: its result is not combined with the lane's own value in one statement
        v += __shfl_xor_sync(~0u, w, 1); v += __shfl_xor_sync(~0u, w, 2);
    f:2: the mask masks[d] may change between steps
        for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(masks[d], v, d);
    f:2: the width widths[0] may change between steps
        for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d, widths[0]);
    f:2: the distance d * 2 may change between steps
        for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d * 2);
    f:2: the distance w() may change between steps
    f:2: the distance w() may change between steps
        v += __shfl_xor_sync(~0u, v, w()); v += __shfl_xor_sync(~0u, v, w());
    f:2: the loop does not only count a variable of its own: (int d = 16, e = 1; d > 0; d /= 2)
        for (int d = 16, e = 1; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    f:2: v decides about the steps and changes in them
        for (int d = v; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    f:2: its loop does more than this step
        for (int d = 16; d > 0; d /= 2) { v += __shfl_xor_sync(~0u, v, d); w = v; }
    f:2: all may be more than a variable of the thread
    f:2: all may be more than a variable of the thread
        all += __shfl_xor_sync(~0u, all, 1); all += __shfl_xor_sync(~0u, all, 2);
    f:5: a preprocessor line that may change what stands here
        \n#if N\n#endif\nfor (int d = 9; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    "#);
}

#[test]
fn what_is_not_understood_keeps_stacks() {
    let cases = [
        ("", "if (n) __syncthreads_count(1); __syncthreads();"),
        ("", "__syncwarp(); __syncthreads();"),
        ("", "x[0] = __shfl_down_sync(~0u, x[0], 1); __syncthreads();"),
        ("", "n = atomicAdd(x, 1.0f); __syncthreads();"),
        ("", "atomicAdd(x, atomicAdd(x, 1.0f)); __syncthreads();"),
        ("", "atomicAdd(x, {1.0f}); __syncthreads();"),
        ("__device__ int at() { __syncwarp(); }", "atomicAdd(x + at(), 1.0f); __syncthreads();"),
        ("", "atomicCAS((int*)x, 1, 2); __syncthreads();"),
        ("__device__ void atomicAdd(float* x, float y) {}", "atomicAdd(x, 1.0f); __syncthreads();"),
        (
            "",
            "short s = n; for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(~0u, s, d); x[0] = s;",
        ),
        (
            "",
            "__shared__ float s; for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(~0u, s, d); x[0] = s;",
        ),
        ("", "__threadfence(); __syncthreads();"),
        ("", "while (*(volatile float*)x == 0) {} __syncthreads();"),
        ("", "asm(\"\"); __syncthreads();"),
        (
            "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;",
            "cg::sync(n); __syncthreads();",
        ),
        (
            "__device__ void all() { if (threadIdx.x > 9) return; __syncthreads(); }",
            "all(); __syncthreads();",
        ),
        (
            "__device__ void all() { if (threadIdx.x > 9) return; __syncthreads(); }\n#define ALL all()",
            "ALL; __syncthreads();",
        ),
        ("struct S { __device__ void come() { __syncwarp(); } };", "S s; __syncthreads();"),
        ("struct S { __device__ void operator()() { __syncwarp(); } };", "__syncthreads();"),
        ("#define LEAVE if (n) return", "LEAVE; __syncthreads();"),
        ("#define OPEN for (;;) {", "OPEN __syncthreads(); }"),
        ("#define INDEX int i = threadIdx.x", "INDEX; __syncthreads(); x[i] = 0;"),
        ("#define NEXT(a) ((a) + m)", "int m = 1; __syncthreads(); x[0] = NEXT(m);"),
        ("", "switch (n) { case 1: __syncthreads(); }"),
        ("", "if (int m = n) __syncthreads();"),
        ("", "if constexpr (sizeof(n) == 4) { __syncthreads(); }"),
        ("", "for (int i : {1, 2}) __syncthreads();"),
        ("", "auto m = n; __syncthreads(); x[0] = m;"),
        ("", "int& m = n; __syncthreads(); x[0] = m;"),
        ("", "static int m; __syncthreads(); x[0] = m;"),
        ("", "auto [a, b] = x; __syncthreads();"),
        ("", "auto f = [&] { __syncthreads(); }; f();"),
        ("", "struct L { int a; } l; __syncthreads();"),
        ("struct S { ~S(); };", "S s; __syncthreads();"),
        ("", "std::array<int, 2> a; __syncthreads();"),
        ("", "int m = 1; { float m = 2; __syncthreads(); x[0] = m; } x[1] = m;"),
        ("", "int m[2]; { x[0] = m[0]; } { int m[3]; __syncthreads(); x[0] = m[0]; }"),
        ("", "float a[] = {1, 2}; __syncthreads(); x[0] = a[0];"),
        ("", "int m = n; decltype(m) o = 1; __syncthreads(); x[0] = o;"),
        (
            "",
            "{ __shared__ int s[2]; s[0] = 1; __syncthreads(); } { __shared__ int s[3]; __syncthreads(); }",
        ),
        ("", "again: __syncthreads(); if (n) goto again;"),
        ("", "n ? __syncthreads() : (void)0;"),
        ("", "int replay_at = 1; __syncthreads();"),
        ("", "\n#if N\nx[0] = 1;\n#endif\n__syncthreads();"),
        ("#line 7\n", "__syncthreads();"),
    ];
    let lines: Vec<String> = cases
        .iter()
        .map(|(before, body)| {
            let text = format!("{before} | {body}").replace('\n', "\\n");
            let why = if before.starts_with("#line") {
                let text = format!("{before}__global__ void k() {{ {body} }}");
                words(&translated(&text, Precision::Native).kernel_forms[0].threads)
            } else {
                obstacle(before, body)
            };
            assert_ne!(why, "none", "{text}");
            format!("{text}\n    {why}")
        })
        .collect();
    snapshot("thread_loop", "obstacles", &lines.join("\n"));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Any kernel at all: no panic, and the lines stay.
    #[test]
    fn any_kernel_keeps_its_lines(pieces in proptest::collection::vec(0..PIECES.len(), 0..40)) {
        let body: String = pieces.into_iter().map(|piece| PIECES[piece]).collect();
        for ends in ["}", ""] {
            let text = format!("__global__ void k(float* x, int n, S s) {{ {body} __syncthreads(); x[0] = n; {ends}");
            let unit = SourceUnit { path: "a.cu", text: &text };
            if let Ok(made) = translate_for_host(&unit, &scan_symbols(&[unit]), Precision::Native, Threads::Lanes) {
                let lines = made.text.matches('\n').count();
                proptest::prop_assert_eq!(lines, text.matches('\n').count() + 1);
            }
        }
    }
}

/// Pieces that kernels are made of at random.
const PIECES: [&str; 56] = [
    "int a = n;",
    "float b(2), *c = &b;",
    "S d{n};",
    "T e[2] = {1,\n2};",
    "const int f = 4;",
    "a",
    "b",
    "n",
    "s",
    "=",
    "+=",
    "++",
    "&",
    "*",
    "<",
    ">",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ";",
    ":",
    "::",
    ".",
    "->",
    "?",
    "1",
    "if (n)",
    "else",
    "for (int i = 0; i < n; i++)",
    "for (;;)",
    "while (a)",
    "do",
    "while (n);",
    "switch (n)",
    "case 1:",
    "return;",
    "break;",
    "__syncthreads();",
    "__syncthreads",
    "__shared__ int g[4];",
    "\n",
    "\n#pragma unroll\n",
    "\n#if 1\n",
    "\n#endif\n",
    "// c\n",
    "\"t\"",
    "R\"(\n)\"",
    "auto",
    "using U = int;",
    "constexpr int h = 2;",
    "typedef int V;",
    "static",
];

#[test]
fn deep_and_long_kernels_keep_stacks() {
    let deep = format!("{}__syncthreads();{}", "{".repeat(10_000), "}".repeat(10_000));
    assert_eq!(obstacle("", &deep), "2: statements nested deeper than 64 levels");
    let long = format!("{} __syncthreads();", "x[n] = n;".repeat(100_000));
    assert_eq!(obstacle("", &long), "a kernel of more than 20000 words");
}
