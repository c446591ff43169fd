//! Snapshots of what the front end makes of small CUDA files, and its promises about any text.

mod folds;
mod launch_bounds;
mod thread_loop;

use std::path::Path;

use replay::frontend::{self, Precision, SourceUnit, Symbols, Threads, Translated};

/// Scans and translates one text.
fn host(path: &str, text: &str, precision: Precision) -> Translated {
    let unit = SourceUnit { path, text };
    frontend::translate_for_host(
        &unit,
        &frontend::scan_symbols(&[unit]),
        precision,
        Threads::Stacks,
    )
    .unwrap()
}

/// The message of the error that translating `text` gives.
fn refused(text: &str) -> String {
    let unit = SourceUnit { path: "src/loss.cu", text };
    let error = frontend::translate_for_host(
        &unit,
        &frontend::scan_symbols(&[unit]),
        Precision::Native,
        Threads::Stacks,
    )
    .unwrap_err();
    assert!(error.hint().is_some());
    error.to_string()
}

/// Calls `check` with the name and text of every file of the corpus.
fn each_file(mut check: impl FnMut(&str, &str)) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frontend");
    let mut files: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| {
        path.extension().is_some_and(|end| end == "cu" || end == "cuh" || end == "cpp")
    });
    files.sort();
    assert!(files.len() >= 25);
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        check(name, &std::fs::read_to_string(&file).unwrap());
    }
}

fn snapshot(kind: &str, name: &str, text: &str) {
    insta::with_settings!({ snapshot_path => "frontend/snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(format!("{kind}_{name}"), text);
    });
}

/// A translation with everything that comes with it.
fn rendered(made: &Translated) -> String {
    let mut out = made.text.clone();
    out.push_str("\n---\n");
    for launch in &made.launches {
        out.push_str(&format!("launch {}: {}\n", launch.line, launch.callee));
    }
    for kernel in &made.kernels {
        let template = if kernel.template { " template" } else { "" };
        out.push_str(&format!("kernel {}: {}{template}\n", kernel.line, kernel.name));
    }
    for obstacle in &made.shadow_obstacles {
        out.push_str(&format!("obstacle {}: {}\n", obstacle.line, obstacle.what));
    }
    out
}

#[test]
fn host_translations_are_as_reviewed() {
    each_file(|name, text| {
        let made = host(name, text, Precision::Native);
        snapshot("host", name, &rendered(&made));
    });
}

#[test]
fn shadow_translations_are_as_reviewed() {
    for name in [
        "shadow.cu",
        "shadow_packs.cu",
        "shared_static.cu",
        "launch_template.cu",
        "shadow_macros.cu",
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frontend").join(name);
        let text = std::fs::read_to_string(path).unwrap();
        snapshot("shadow", name, &rendered(&host(name, &text, Precision::Shadow)));
    }
}

/// With `REPLAY_TEST_DEVICE_OUT` set, the device sources are also written to that folder, where
/// a machine with NVRTC can compile them.
#[test]
fn device_sources_are_as_reviewed_and_keep_the_lines() {
    each_file(|name, text| {
        let unit = SourceUnit { path: name, text };
        let made = frontend::translate_for_device(
            &unit,
            &frontend::scan_symbols(&[unit]),
            Precision::Native,
        )
        .unwrap();
        assert_eq!(made.matches('\n').count(), text.matches('\n').count() + 2, "{name}");
        snapshot("device", name, &made);
        if let Some(folder) = std::env::var_os("REPLAY_TEST_DEVICE_OUT") {
            std::fs::write(Path::new(&folder).join(name), &made).unwrap();
        }
    });
}

#[test]
fn every_translation_keeps_the_lines() {
    each_file(|name, text| {
        for precision in [Precision::Native, Precision::Shadow] {
            let made = host(name, text, precision).text;
            let expected = text.matches('\n').count() + 1;
            assert_eq!(made.matches('\n').count(), expected, "{name} {precision:?}");
        }
    });
}

#[test]
fn launches_that_cannot_be_rewritten_are_refused() {
    insta::assert_snapshot!(
        refused("void f() {\n  k<<<1, 2;\n}\n"),
        @"a launch at src/loss.cu:2 cannot be seen"
    );
    insta::assert_snapshot!(
        refused("\n#define HALF(k) k<<<1, \\\n  2\n#define REST >>>(0)\n"),
        @"a launch in the body of macro HALF at src/loss.cu:2 cannot be seen"
    );
}

#[test]
fn callee_and_configuration_are_told_from_what_stands_around_them() {
    let statements = [
        "if (n) (*p)<<<1, 1>>>(x);",
        "if constexpr (N) k<<<1, 1>>>(x);",
        "return (p)<<<1, 1>>>(x);",
        "(void)(p)<<<1, 1>>>(x);",
        "(void)::a::k<<<1, 1>>>(x);",
        "{} (p)<<<1, 1>>>(x);",
        "[[likely]] (p)<<<1, 1>>>(x);",
        "f(n)(m)<<<1, 1>>>(x);",
        "(*this).table[n].get<int>()<<<1, 1>>>(x);",
        "Table<int>{n}.first()<<<1, 1>>>(x);",
        "A<f<int>>::template k<T><<<1, 1>>>(x);",
        "return ::a::k<<<1, 1>>>(x);",
        "k<<<n < 4 ? 16 : 2, f<int>()>>>(x);",
        "k<<<n < 4 ? 16 : 2, 1>>>(f<g<h<int>>>(3));",
        "k<<<1, size<float>>>>(x);",
        "k<<<f<g<h<int>>>(3), 1>>>(x);",
        "k<<<n << 2, n >> 1>>>(x), (n > 3 ? j : k)<<<1, 1>>>(x);",
        "k<<<1, 1>>>\n#ifdef A\n(x)\n#endif\n;",
        "std::operator<<<char>(out, c);",
    ];
    let rewritten = statements.map(|statement| {
        let made = host("a.cu", &format!("void f() {{ {statement} }}"), Precision::Native).text;
        let body = made.split_once("{ ").unwrap().1.strip_suffix(" }").unwrap();
        body.replace("::replay_rt::kernel_at(", "AT(").replace(", \"a.cu\", 1)", ")")
    });
    insta::assert_snapshot!(rewritten.join("\n"), @r##"
    if (n) AT((*p), "*p").on(1, 1).run(x);
    if constexpr (N) AT(k, "k").on(1, 1).run(x);
    return AT((p), "p").on(1, 1).run(x);
    (void)AT((p), "p").on(1, 1).run(x);
    (void)AT(::a::k, "::a::k").on(1, 1).run(x);
    {} AT((p), "p").on(1, 1).run(x);
    [[likely]] AT((p), "p").on(1, 1).run(x);
    AT(f(n)(m), "f(n)(m)").on(1, 1).run(x);
    AT((*this).table[n].get<int>(), "(*this).table[n].get<int>()").on(1, 1).run(x);
    AT(Table<int>{n}.first(), "Table<int>{n}.first()").on(1, 1).run(x);
    AT(A<f<int>>::template k<T>, "A<f<int>>::template k<T>").on(1, 1).run(x);
    return AT(::a::k, "::a::k").on(1, 1).run(x);
    AT(k, "k").on(n < 4 ? 16 : 2, f<int>()).run(x);
    AT(k, "k").on(n < 4 ? 16 : 2, 1).run(f<g<h<int>>>(3));
    AT(k, "k").on(1, size<float>).run(x);
    AT(k, "k").on(f<g<h<int>>>(3), 1).run(x);
    AT(k, "k").on(n << 2, n >> 1).run(x), AT((n > 3 ? j : k), "n > 3 ? j : k").on(1, 1).run(x);
    AT(k, "k").on(1, 1).run
    #ifdef A
    (x)
    #endif
    ;
    std::operator<<<char>(out, c);
    "##);
    for statement in ["k<<<1, 1>>> x;", "f(<<<1, 1>>>(x));", "return <<<1, 1>>>(x);"] {
        let text = refused(&format!("void f() {{ {statement} }}"));
        assert_eq!(text, "a launch at src/loss.cu:1 cannot be seen", "{statement}");
    }
    assert_eq!(
        refused("void f() { k<<<(1>>>(x); }"),
        "the bracket `(` at src/loss.cu:1 is never closed"
    );
}

#[test]
fn what_a_cpu_cannot_do_is_refused() {
    insta::assert_snapshot!(
        refused("__device__ void f() {\n  asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");\n}\n"),
        @"PTX (wgmma.fence.sync.aligned) in f at src/loss.cu:2 is not supported on the CPU"
    );
    insta::assert_snapshot!(
        refused("__global__ void k(int n) { asm(\"@p bra L; L: mov.u32 %0, %%laneid;\" : \"=r\"(n)); }"),
        @"PTX (bra) in k at src/loss.cu:1 is not supported on the CPU"
    );
    insta::assert_snapshot!(
        refused("__global__ void k(int n) { asm(\"mov.u32 %0, %%gridid;\" : \"=r\"(n)); }"),
        @"PTX (mov.u32) in k at src/loss.cu:1 is not supported on the CPU"
    );
    insta::assert_snapshot!(
        refused("__global__ void k(int n) { asm(\"mov\" SUFFIX \" %0, 1;\" : \"=r\"(n)); }"),
        @"PTX (not a literal) in k at src/loss.cu:1 is not supported on the CPU"
    );
    insta::assert_snapshot!(
        refused("__global__ void k(cudaTextureObject_t t, float* x) { x[0] = tex2D<float>(t, 0, 0); }"),
        @"the texture fetch tex2D in k at src/loss.cu:1 is not supported on the CPU"
    );
    insta::assert_snapshot!(
        refused("__global__ void k(cudaSurfaceObject_t s) { surf2Dwrite(1.f, s, 0, 0); }"),
        @"the surface access surf2Dwrite in k at src/loss.cu:1 is not supported on the CPU"
    );
    insta::assert_snapshot!(
        refused("__global__ void a();\n__global__ void b() {\n  a<<<1, 1>>>();\n}"),
        @"a launch from device code (dynamic parallelism) in b at src/loss.cu:3 is not supported on the CPU"
    );
    insta::assert_snapshot!(
        refused("void f() { cudaLaunchCooperativeKernelMultiDevice(0, 1); }"),
        @"the cooperative launch cudaLaunchCooperativeKernelMultiDevice in f at src/loss.cu:1 is not supported on the CPU"
    );
}

#[test]
fn casts_of_kernels_to_void_keep_their_types() {
    let text = "template <class T, int N> __global__ void k(T* x) {}\nnamespace a { __global__ void b() {} }\n\
                const void* all[] = {(void*)&a::b, reinterpret_cast<const void*>(k<float, (1 > 0)>), (void*)x};\n\
                void f(void** a) {\n  cudaLaunchKernel((const void *)k, 1, 1, a);\n  \
                cudaLaunchCooperativeKernel(reinterpret_cast<void*>(k<float>), 1, 1, a);\n  \
                cudaLaunchKernel(k, 1, 1, (void**)a);\n  other((void*)k);\n}\n";
    let made = host("a.cu", text, Precision::Native).text;
    let squeezed: Vec<String> = made.lines().skip(1).map(|line| line.replace(' ', "")).collect();
    insta::assert_snapshot!(squeezed[2..].join("\n"), @r"
    constvoid*all[]={::replay_rt::untyped_pointer(&a::b),::replay_rt::untyped_pointer((k<float,(1>0)>)),(void*)x};
    voidf(void**a){
    cudaLaunchKernel(k,1,1,a);
    cudaLaunchCooperativeKernel((k<float>),1,1,a);
    cudaLaunchKernel(k,1,1,(void**)a);
    other(::replay_rt::untyped_pointer(k));
    }
    ");
}

#[test]
fn what_has_a_type_of_cublas_or_the_address_of_a_kernel_is_for_the_host() {
    let text = "static const cublasOperation_t both[] = {CUBLAS_OP_N, CUBLAS_OP_T};\n\
                static const void* const all[] = {(const void*)k, (const void*)&k};\n\
                struct Product { cublasLtMatmulDesc_t desc; };\n\
                static const int cublasless = 3;\n__global__ void k(int* x) { *x = cublasless; }\n";
    let unit = SourceUnit { path: "a.cu", text };
    let made =
        frontend::translate_for_device(&unit, &frontend::scan_symbols(&[unit]), Precision::Native)
            .unwrap();
    let kept: Vec<&str> = made.lines().skip(2).filter(|line| !line.trim().is_empty()).collect();
    assert_eq!(
        kept,
        ["static const int cublasless = 3;", "__global__ void k(int* x) { *x = cublasless; }"]
    );
}

#[test]
fn functions_with_pytorch_s_types_for_kernels_are_for_the_device_too() {
    let text = "__host__ __device__ int row(int i, const at::cuda::detail::TensorInfo<float, int>& x) { return i * x.strides[0]; }\n\
                __host__ __device__ int rows(const at::Tensor& x) { return x.size(0); }\n";
    let unit = SourceUnit { path: "a.cu", text };
    let made =
        frontend::translate_for_device(&unit, &frontend::scan_symbols(&[unit]), Precision::Native)
            .unwrap();
    let kept: Vec<&str> = made.lines().skip(2).filter(|line| !line.trim().is_empty()).collect();
    assert_eq!(kept, text.lines().take(1).collect::<Vec<_>>());
}

#[test]
fn ptx_that_may_stay_unused_is_a_call_that_does_not_compile() {
    let fence = "asm volatile(\"wgmma.fence.sync.aligned;\")";
    for text in [
        format!("#define FENCE() {fence}"),
        format!("__device__ __forceinline__ void fence() {{ {fence}; }}"),
        format!("template <int N> __device__ void fence() {{ {fence}; }}"),
        format!("#if __CUDA_ARCH__ >= 900\n__device__ void fence() {{ {fence}; }}\n#endif"),
    ] {
        let made = host("a.cu", &text, Precision::Native).text;
        let call =
            "REPLAY_UNSUPPORTED(\"PTX (wgmma.fence.sync.aligned) is not supported on the CPU\")";
        assert!(made.contains(call), "{made}");
    }
}

#[test]
fn ptx_becomes_calls_on_the_lines_where_it_stood() {
    let text = "#define COPY(dst, src) asm volatile( \\\n  \"cp.async.ca.shared.global [%0], [%1], 4;\" \\\n  :: \"r\"(dst), \"l\"(src))\n\
                __device__ void f(float* x) {\n  asm(\"{ .reg .pred p;\\n\"\n\"setp.lt.f32 p, %0, 0f00000000;\"\n\
                \"@!p neg.f32 %0, %0; }\" // back\n : \"+f\"(*x));\n}";
    insta::assert_snapshot!(host("a.cu", text, Precision::Native).text, @r#"
    #line 1 "a.cu"
    #define COPY(dst, src) do { const auto replay_ptx_0 = (dst); const auto replay_ptx_1 = (src); { ::replay_ptx::ptx_cp_async(::replay_ptx::ptx_at<::replay_ptx::ptx_shared>(replay_ptx_0, 0, __FILE__, __LINE__), ::replay_ptx::ptx_at<::replay_ptx::ptx_generic>(replay_ptx_1, 0, __FILE__, __LINE__), 4ll, 4ll, __FILE__, __LINE__); } } while (0)\
    \

    __device__ void f(float* x) {
      do { auto&& replay_ptx_0 = (*x); { ::replay_ptx::ptx_pred replay_ptx_r_p = {}; { ::replay_ptx::ptx_put(replay_ptx_r_p, ::replay_ptx::ptx_lt<::replay_ptx::ptx_f32>(::replay_ptx::ptx_as<::replay_ptx::ptx_f32>(replay_ptx_0), ::replay_ptx::ptx_as<::replay_ptx::ptx_f32>(::replay_rt::bits<float>(0x0u)))); } if (!replay_ptx_r_p) { ::replay_ptx::ptx_put(replay_ptx_0, ::replay_ptx::ptx_neg<false>(::replay_ptx::ptx_as<::replay_ptx::ptx_f32>(replay_ptx_0))); } } } while (0)


    ;
    }
    "#);
}

#[test]
fn what_only_looks_unsupported_is_left_alone() {
    for text in [
        "// asm(\"mov\")\n__device__ void f() { const char* s = \"tex2D(t)\"; }",
        "#if 0\n__device__ void f() { asm(\"mov\"); }\n#endif\n",
        "#ifdef __CUDA_ARCH__\n__device__ void f() { asm(\"mov\"); }\n#endif\n",
        "__device__ void f() { asm volatile(\"\" ::: \"memory\"); }",
        "void pause() { asm volatile(\"pause\"); }",
        "#define PAUSE asm volatile(\"pause\")",
        "struct S { int tex2D; }; int f(S s) { return s.tex2D; }",
    ] {
        let made = host("a.cu", text, Precision::Native).text;
        assert_eq!(made.split_once('\n').unwrap().1, text);
    }
}

#[test]
fn shared_memory_in_unknown_forms_is_refused() {
    insta::assert_snapshot!(
        refused("\n__shared__ float s[8];\n"),
        @"shared memory at src/loss.cu:2 cannot be translated: it is declared outside of a function"
    );
    insta::assert_snapshot!(
        refused("__global__ void k() { __shared__ float s[2] = {1, 2}; }"),
        @"shared memory at src/loss.cu:1 cannot be translated: it has an initialiser"
    );
    insta::assert_snapshot!(
        refused("__global__ void k() { __shared__ int n{0}; }"),
        @"shared memory at src/loss.cu:1 cannot be translated: it has an initialiser"
    );
    insta::assert_snapshot!(
        refused("__global__ void k() { extern __shared__ float s; }"),
        @"shared memory at src/loss.cu:1 cannot be translated: dynamic shared memory must be an array []"
    );
    insta::assert_snapshot!(
        refused("#define SHARED __shared__\n"),
        @"shared memory at src/loss.cu:1 cannot be translated: it declares no name"
    );
    insta::assert_snapshot!(
        refused("__global__ void k() { __shared__ float s[2] }"),
        @"shared memory at src/loss.cu:1 cannot be translated: its end cannot be found"
    );
    insta::assert_snapshot!(
        refused("extern __shared__ float a[], b[];"),
        @"shared memory at src/loss.cu:1 cannot be translated: it declares several names"
    );
    insta::assert_snapshot!(
        refused("extern __shared__ float a[][2];"),
        @"shared memory at src/loss.cu:1 cannot be translated: it has several dimensions"
    );
}

#[test]
fn a_call_is_translated_as_the_body_of_a_function() {
    let units = [SourceUnit { path: "a.cu", text: "__global__ void k(float*, int);" }];
    let symbols = frontend::scan_symbols(&units);
    let call = |precision| {
        let statements = "k<<<batch * seq, 256, 2 * 256 * sizeof(float)>>>(x, 3);\nhost(x, 1.0f);";
        frontend::translate_harness_call(statements, "lm/replay.toml: call[0]", &symbols, precision)
            .unwrap()
    };
    insta::assert_snapshot!(call(Precision::Native), @r#"
    #line 1 "lm/replay.toml: call[0]"
    ::replay_rt::kernel<&k>("k", "lm/replay.toml: call[0]", 1).on(batch * seq, 256, 2 * 256 * sizeof(float)).run(x, 3);
    host(x, 1.0f);
    "#);
    insta::assert_snapshot!(call(Precision::Shadow), @r#"
    #line 1 "lm/replay.toml: call[0]"
    ::replay_rt::kernel<&k>("k", "lm/replay.toml: call[0]", 1).on(batch * seq, 256, 2 * 256 * sizeof(double)).run(x, 3);
    host(x, 1.0);
    "#);
}

#[test]
fn paths_are_escaped_in_line_directives_and_launches() {
    let text = "__global__ void k(); void f() { k<<<1, 1>>>(); }";
    insta::assert_snapshot!(host("a \"b\\c\n.cu", text, Precision::Native).text, @r#"
    #line 1 "a \"b\\c\n.cu"
    __global__ void k(); void f() { ::replay_rt::kernel<&k>("k", "a \"b\\c\n.cu", 1).on(1, 1).run(); }
    "#);
}

#[test]
fn deep_nesting_and_large_files_are_no_danger() {
    let deep = format!(
        "__global__ void k(int); void f() {{ k<<<1, 1>>>({}1{}); }}",
        "(".repeat(10_000),
        ")".repeat(10_000)
    );
    assert_eq!(host("deep.cu", &deep, Precision::Native).launches.len(), 1);
    let braces = format!("void f() {}{}", "{".repeat(10_000), "}".repeat(10_000));
    assert!(host("braces.cu", &braces, Precision::Native).text.ends_with(&braces));
    let function = "void f() { k<<<1, 1>>>(2 * 3, x[4]); int a = 1 << 2; g(a, \"text\"); }\n";
    let large = "__global__ void k(int, int);\n".to_owned() + &function.repeat(1_000_000 / 72);
    assert_eq!(host("large.cu", &large, Precision::Shadow).launches.len(), 1_000_000 / 72);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Any text at all: no panic, and what is translated keeps its lines.
    #[test]
    fn any_text_keeps_its_lines(pieces in proptest::collection::vec(0..PIECES.len(), 0..60)) {
        let text: String = pieces.into_iter().map(|piece| PIECES[piece]).collect();
        let unit = SourceUnit { path: "a.cu", text: &text };
        let symbols = frontend::scan_symbols(&[unit]);
        let lines = text.matches('\n').count();
        for precision in [Precision::Native, Precision::Shadow] {
            if let Ok(made) = frontend::translate_for_host(&unit, &symbols, precision, Threads::Stacks) {
                proptest::prop_assert_eq!(made.text.matches('\n').count(), lines + 1);
            }
            let _ = frontend::translate_harness_call(&text, "a.toml", &symbols, precision);
        }
        let device = frontend::translate_for_device(&unit, &symbols, Precision::Native).unwrap();
        proptest::prop_assert_eq!(device.matches('\n').count(), lines + 2);
    }

    /// Text without CUDA's words comes out as it went in.
    #[test]
    fn plain_text_stays_as_it_is(pieces in proptest::collection::vec(0..PLAIN, 0..60)) {
        let text: String = pieces.into_iter().map(|piece| PIECES[piece]).collect();
        let made = host("a.cpp", &text, Precision::Native).text;
        proptest::prop_assert_eq!(made.split_once('\n').unwrap().1, text);
    }
}

/// Pieces that texts are made of at random; the first `PLAIN` are plain C++.
const PIECES: [&str; 48] = [
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ";",
    ",",
    " ",
    "\n",
    "\r\n",
    "a",
    "b",
    " = ",
    "float ",
    "int ",
    "1.5f",
    "< ",
    ">",
    "::",
    "template <typename T>",
    "namespace n {",
    "struct S {",
    "void f(",
    "\"text\"",
    "'c'",
    "// note\n",
    "/* note */",
    "#define M(x) x\n",
    "#if 0\n",
    "#else\n",
    "#endif\n",
    "é",
    "R\"(",
    "\\\n",
    "operator",
    "__shared__ ",
    "extern ",
    "<<<",
    ">>>",
    "<<<1, 2>>>(",
    "__global__ void k(",
    "alignas(16) ",
    "__device__ ",
    "asm(",
    "using namespace std;",
    "#define L k<<<1, 2>>>(0)\n",
    "constexpr ",
];
const PLAIN: usize = 36;

#[test]
fn symbols_know_kernels_of_every_file() {
    let units = [
        SourceUnit { path: "a.cuh", text: "namespace n { __global__ void a(int); }" },
        SourceUnit { path: "b.cu", text: "void f() { n::a<<<1, 1>>>(0); }" },
    ];
    let symbols: Symbols = frontend::scan_symbols(&units);
    assert!(symbols.is_kernel("a") && !symbols.is_kernel("f"));
    let made =
        frontend::translate_for_host(&units[1], &symbols, Precision::Native, Threads::Stacks)
            .unwrap();
    assert!(made.text.contains("::replay_rt::kernel<&n::a>("), "{}", made.text);
}
