//! What CUDA's compiler refuses is refused, and what it takes is not. Where nvcc 13.0 itself differs is said in
//! `docs/cuda-support.md`.

use replay::frontend::{self, FrontendError, Precision, Threads, Unit};

fn translated(text: &str) -> Result<String, FrontendError> {
    let unit = Unit { path: "k.cu", text };
    let symbols = frontend::scan(&[unit]);
    frontend::host(&unit, &symbols, Precision::Native, Threads::Stacks).map(|made| made.text)
}

/// The message for `text`, or `taken`.
fn said(text: &str) -> String {
    match translated(text) {
        Ok(_) => "taken".to_owned(),
        Err(error) => {
            assert!(error.hint().is_some());
            error.to_string()
        }
    }
}

fn all(cases: &[&str]) -> String {
    cases.iter().map(|case| format!("{}\n", said(case))).collect()
}

#[test]
fn device_code_calls_no_function_of_the_host() {
    insta::assert_snapshot!(all(&[
        "int h(int a) { return a; }\n__global__ void k(int* x) { *x = h(2); }",
        "static inline int h(int a) { return a; }\n__device__ int d(int a) { return h(a); }",
        "template <class T> T h(T a) { return a; }\n__global__ void k(int* x) { *x = h<int>(2); }",
        "int h(int);\n#define DEV __device__ inline\nDEV int d(int a) {\n  return h(a);\n}",
        "#include <stdio.h>\n__global__ void k(int* x) { FILE* f = fopen(\"a\", \"r\"); }",
        "__global__ void k(int* x) { exit(*x); }",
        "__global__ void k(int* x) { *x = std::rand(); }",
        "__global__ void k(int* x) { std::vector<int> v(3); }",
        "__global__ void k(int* x) { std::sort(x, x + 3); }",
        "__global__ void k(int* x) { std::cout << *x; }",
        "__global__ void k(int* x) { cudaMemcpy(x, x, 4, cudaMemcpyDeviceToDevice); }",
        "__global__ void k(int* x) { *x = strlen(\"a\"); }",
    ]), @r"
    device code in k calls the host function h at k.cu:2: CUDA refuses it
    device code in d calls the host function h at k.cu:2: CUDA refuses it
    device code in k calls the host function h at k.cu:2: CUDA refuses it
    device code in d calls the host function h at k.cu:4: CUDA refuses it
    device code in k uses fopen, which is for host code alone, at k.cu:2: CUDA refuses it
    device code in k uses exit, which is for host code alone, at k.cu:1: CUDA refuses it
    device code in k uses std::rand, which is for host code alone, at k.cu:1: CUDA refuses it
    device code in k uses std::vector, which is for host code alone, at k.cu:1: CUDA refuses it
    device code in k uses std::sort, which is for host code alone, at k.cu:1: CUDA refuses it
    device code in k uses std::cout, which is for host code alone, at k.cu:1: CUDA refuses it
    device code in k uses cudaMemcpy, which is for host code alone, at k.cu:1: CUDA refuses it
    device code in k uses strlen, which is for host code alone, at k.cu:1: CUDA refuses it
    ");
}

#[test]
fn host_code_calls_no_function_of_the_device() {
    insta::assert_snapshot!(all(&[
        "__device__ int d(int a) { return a; }\nint h() { return d(1); }",
        "__device__ int d(int a) { return a; }\n__host__ __device__ int both(int a) { return d(a); }\nint h() { return both(1); }",
        "void h(int* x) { atomicAdd(x, 1); }",
        "void h() { __syncthreads(); }",
        "int h(int x) { return __shfl_xor_sync(0xffffffff, x, 1); }",
        "float h(const float* x) { return __ldg(x) + __expf(*x); }",
        "float h(float x) { return rsqrtf(x) + __int_as_float(3); }",
        "int h() { return threadIdx.x; }",
        "void h() { __shared__ int s[3]; s[0] = 1; }",
        "__global__ void k(int* x) {}\nvoid h(int* x) { k(x); }",
        "__global__ void k(int* x) {}\n__device__ void d(int* x) { k(x); }",
        "template <int N> __global__ void k(int* x) {}\nvoid h(int* x) { k<3>(x); }",
    ]), @r"
    host code in h calls the device function d at k.cu:2: CUDA refuses it
    host code in both calls the device function d at k.cu:2: CUDA refuses it
    host code in h calls atomicAdd, which is for device code alone, at k.cu:1: CUDA refuses it
    host code in h calls __syncthreads, which is for device code alone, at k.cu:1: CUDA refuses it
    host code in h calls __shfl_xor_sync, which is for device code alone, at k.cu:1: CUDA refuses it
    host code in h calls __ldg, which is for device code alone, at k.cu:1: CUDA refuses it
    host code in h calls __int_as_float, which is for device code alone, at k.cu:1: CUDA refuses it
    host code in h uses threadIdx, which is for device code alone, at k.cu:1: CUDA refuses it
    host code in h declares shared memory at k.cu:1: CUDA refuses it
    host code in h calls the kernel k without <<<...>>> at k.cu:2: CUDA refuses it
    device code in d calls the kernel k without <<<...>>> at k.cu:2: CUDA refuses it
    host code in h calls the kernel k without <<<...>>> at k.cu:2: CUDA refuses it
    ");
}

#[test]
fn variables_stay_on_their_side() {
    insta::assert_snapshot!(all(&[
        "int g = 3;\n__global__ void k(int* x) { *x = g; }",
        "static float table[4], *rows;\n__global__ void k(float* x) { *x = table[0]; }",
        "__device__ int g;\nint h() { return g; }",
        "__device__ int g;\nvoid h() { g = 3; }",
        "__device__ float t[4];\n__global__ void k(float* x) {}\nvoid h() { k<<<1, 1>>>(t); }",
        "__constant__ int c;\n__global__ void k(int* x) { c = 1; }",
        "__constant__ int c[4];\n__global__ void k(int* x) { c[*x] += 1; }",
        "__constant__ int c;\n__device__ int d() { return ++c; }",
        "__global__ void k(int* x) { __constant__ int c; *x = c; }",
    ]), @r"
    device code in k uses the host variable g at k.cu:2: CUDA refuses it
    device code in k uses the host variable table at k.cu:2: CUDA refuses it
    host code in h uses the device variable g at k.cu:2: on a GPU that is a copy which no kernel sees
    host code in h uses the device variable g at k.cu:2: on a GPU that is a copy which no kernel sees
    host code in h uses the device variable t at k.cu:3: on a GPU that is a copy which no kernel sees
    device code in k writes the __constant__ variable c at k.cu:2: CUDA refuses it
    device code in k writes the __constant__ variable c at k.cu:2: CUDA refuses it
    device code in d writes the __constant__ variable c at k.cu:2: CUDA refuses it
    device code in k uses __constant__ at k.cu:1: CUDA refuses it
    ");
}

#[test]
fn kernels_are_declared_as_kernels_may_be() {
    insta::assert_snapshot!(all(&[
        "__global__ int k(int* x) { return 0; }",
        "struct S { __global__ void k(int* x) {} };",
        "struct S { static __global__ void k(int* x) {} };",
        "__global__ void k(int n, ...) {}",
        "__global__ void k(int&& n) {}",
        "__global__ void a() { extern __shared__ float s[]; }\n__global__ void b() { extern __shared__ int s[]; }",
    ]), @r"
    the kernel k returns int at k.cu:1: CUDA refuses it
    the kernel k is a member of a class at k.cu:1: CUDA refuses it
    the kernel k is a member of a class at k.cu:1: CUDA refuses it
    the kernel k has a variable number of arguments at k.cu:1: CUDA refuses it
    the kernel k has an rvalue reference as a parameter at k.cu:1: CUDA refuses it
    the dynamic shared memory s is of type int in b and of type float before at k.cu:2: CUDA refuses it
    ");
}

#[test]
fn device_code_has_no_exceptions_and_no_types_at_run_time() {
    insta::assert_snapshot!(all(&[
        "__global__ void k(int* x) { if (*x) throw 1; }",
        "__global__ void k(int* x) { try { *x = 1; } catch (...) {} }",
        "__global__ void k(int* x) { *x = typeid(int) == typeid(float); }",
        "struct A {}; __global__ void k(A* x) { dynamic_cast<A*>(x); }",
        "__global__ void k(int* x) { thread_local int t = 0; *x = ++t; }",
    ]), @r"
    device code in k uses throw at k.cu:1: CUDA refuses it
    device code in k uses try at k.cu:1: CUDA refuses it
    device code in k uses typeid at k.cu:1: CUDA refuses it
    device code in k uses dynamic_cast at k.cu:1: CUDA refuses it
    device code in k uses thread_local at k.cu:1: CUDA refuses it
    ");
}

#[test]
fn what_cuda_takes_is_taken() {
    for text in [
        // Functions that both sides have.
        "constexpr int h(int a) { return a; }\n__global__ void k(int* x) { *x = h(*x); }",
        "__host__ __device__ int h(int a) { return a; }\n__global__ void k(int* x) { *x = h(*x); }\nint f() { return h(1); }",
        "#define HD __host__ __device__\nHD int h(int a) { return a; }\n__global__ void k(int* x) { *x = h(*x); }\nint f() { return h(1); }",
        "#ifdef __CUDACC__\n#define HD __host__ __device__\n#else\n#define HD\n#endif\nHD int h(int a) { return a; }\n__global__ void k(int* x) { *x = h(1); }",
        "SOME_HD int h(int a) { return a; }\n__global__ void k(int* x) { *x = h(*x); }",
        "int h(int a) { return a; }\n__host__ __device__ int hd(int a) { return h(a); }",
        "int h(int a) { return a; }\ntemplate <class T> __host__ __device__ T hd(T a) { return h(a); }",
        "__device__ int d(int a) { return a; }\n__host__ __device__ int hd(int a) {\n#ifdef __CUDA_ARCH__\n  return d(a);\n#else\n  return a;\n#endif\n}",
        // Overloads, and names that mean something else.
        "int h(int a) { return a; }\n__device__ float h(float a) { return a; }\n__global__ void k(float* x) { *x = h(*x); }\nint f() { return h(1); }",
        "namespace cpu { float gelu(float x); }\nnamespace gpu { __device__ float gelu(float x); }\n__global__ void k(float* x) { *x = gpu::gelu(*x); }",
        "void softmax(float* x);\n__global__ void softmax(float* x, int n) {}\nvoid softmax(float* x) { softmax<<<1, 1>>>(x, 1); }\nvoid f(float* x) { softmax(x); }",
        "int size(int a) { return a; }\nstruct V { __device__ int size(int) const; };\n__global__ void k(V v, int* x) { *x = v.size(1); }",
        "float scale(float x);\n__global__ void k(float* x) { auto scale = [](float y) { return y; }; *x = scale(*x); }",
        "int index(int a);\n__global__ void k(int* x, int index) { *x = index; }",
        "int rand(int);\nstruct G { __device__ int rand(); };\n__global__ void k(G g, int* x) { *x = g.rand(); }",
        "__device__ unsigned rand(unsigned s) { return s; }\n__global__ void k(unsigned* x) { *x = rand(*x); }",
        "__device__ float max3(float a);\n__global__ void k(float* x) { *x = max3(*x); }\nfloat max(float a, float b, float c);\n__global__ void j(float* x) { *x = max(*x, 1.f); }",
        // The libraries of device code.
        "__global__ void k(float* x) { *x = std::exp(x[0]) + std::abs(x[1]) + std::pow(x[1], 2.0f) + fmaxf(x[0], 1); }",
        "__global__ void k(int* x) { *x = std::min(x[0], 3) + std::numeric_limits<int>::max(); }",
        "__global__ void k(int* x) { int* p = (int*)malloc(4); memcpy(p, x, 4); memset(x, 0, 4); free(p); printf(\"%d\", *x); assert(*x); }",
        "__global__ void k(long long* x) { *x = clock64() + clock(); }",
        "__global__ void k(float* x) { float a = std::move(x[1]); x[0] = a; }",
        // Host code with device code in it.
        "__device__ int d(int a) { return a; }\nvoid h() { auto f = [=] __device__ (int a) { return d(a) + threadIdx.x; }; each(f); }",
        "__device__ int d(int a) { return a; }\nvoid h() { struct F { __device__ int operator()(int a) { return d(a); } }; each(F()); }",
        "__device__ int d(int a) { return a; }\nusing R = decltype(d(1));\nvoid h() { decltype(d(1)) x = 1; }",
        "int h(int x) { return max(x, 3) + min(x, 4); }",
        "float h(float x) { __half a = __float2half(x); return __half2float(__hadd(a, a)); }",
        "float h(float x) { return rsqrtf(x); }",
        // Kernels as values, declarations in functions.
        "__global__ void k(int* y) {}\nvoid (*h())(int*) { return k; }",
        "__global__ void k(int* y) {}\nvoid h() { cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, 1); }",
        "void h(int* x) { void k(int*); k<<<1, 1>>>(x); }\n__global__ void k(int* y) {}",
        "template <class T> __global__ void k(T* y) {}\ntemplate __global__ void k<int>(int*);\nvoid h(int* y) { k<int><<<1, 1>>>(y); }",
        "struct S { friend __global__ void k(S s); };\n__global__ void k(S s) {}",
        "template <class... T> __global__ void k(T... values) {}",
        "template <int N, class T = float> __global__ void __launch_bounds__(N) k(T* x) {}",
        "__global__ void k(int& x) { x = 1; }",
        // Variables.
        "const int g = 3;\nstatic const float f = 2.5f;\nconstexpr int e = 3;\n__global__ void k(float* x) { *x = g + f + e; }",
        "__managed__ int g;\nint h() { return g; }\n__global__ void k(int* x) { *x = g; }",
        "__device__ int g;\nint* h() { int v; cudaMemcpyFromSymbol(&v, g, sizeof(g)); CHECK(cudaMemcpyToSymbol(g, &v, sizeof(int))); return &g; }",
        "__constant__ int c[4];\n__global__ void k(int* x) { *x = c[1] == 3 ? c[0] - -1 : c[2]; if (c[0] <= 1) *x = c[3]; }",
        "int n = 3;\n__global__ void k(int* x, int n) { for (int i = 0; i < n; i++) x[i] = n; }",
        "int n = 3;\nstruct P { int n; };\n__global__ void k(int* x, P p, const P* q) { *x = p.n + q->n; }",
        "float eps;\n__global__ void k(float* x) { float a = 1, eps = 2; *x = a * eps; }",
        "std::vector<float> rows;\n__global__ void k(float* rows, int n) { rows[n] = 1; }",
        "int verbose = 0;\nvoid h() { if (verbose) puts(\"x\"); }",
        "int t = 1;\n__global__ void k(int2* x) { auto [t, u] = *x; x->x = t + u; }",
        "int n;\ntemplate <int n> __global__ void k(int* x) { *x = n; }",
        "int n;\ntemplate <int n> struct S { __device__ int f() { return n; } };",
        "int n;\nstruct S { int n; __device__ int f() { return n; } };",
        "int row[3];\n__device__ int d(const int (&row)[3]) { return row[0]; }",
        "__device__ int g;\ntemplate <class T> void upload(const T& symbol, T v) { cudaMemcpyToSymbol(symbol, &v, sizeof(T)); }\nvoid h() { upload(g, 3); }",
        "__device__ int d(int a) { return a; }\n__host__ __device__ int both(int a) { return d(a); }\n__global__ void k(int* x) { *x = both(*x); }",
        // The rest.
        "void h() { try { throw 1; } catch (int) {} }",
        "__global__ void k(int* x) { static int t = 0; *x = ++t; if (*x) goto end; *x = 2; end:; }",
        "template <class T> __global__ void a() { extern __shared__ T s[]; }\n__global__ void b() { extern __shared__ float s[]; }",
        "__device__ void d(__shared__ float* s) { s[0] = 1; }",
    ] {
        assert_eq!(said(text), "taken", "{text}");
    }
}

#[test]
fn a_call_of_a_harness_is_host_code() {
    let units = [Unit { path: "a.cu", text: "__global__ void k(float*);\n__device__ int d(int);" }];
    let symbols = frontend::scan(&units);
    let call = |text| {
        frontend::call(text, "call in replay.toml", &symbols, Precision::Native)
            .unwrap_err()
            .to_string()
    };
    insta::assert_snapshot!(call("int n = 1;\nk(x);"), @"host code in the call calls the kernel k without <<<...>>> at call in replay.toml:2: CUDA refuses it");
    insta::assert_snapshot!(call("n = d(1);"), @"host code in the call calls the device function d at call in replay.toml:1: CUDA refuses it");
}

#[test]
fn a_border_between_files_is_one_too() {
    let header = Unit { path: "h.cuh", text: "__device__ int d(int a);\nint h(int a);\n" };
    let file = Unit {
        path: "k.cu",
        text: "__global__ void k(int* x) { *x = d(*x); }\nint f() {\n  return d(1);\n}\n",
    };
    let symbols = frontend::scan(&[header, file]);
    let error = frontend::host(&file, &symbols, Precision::Native, Threads::Stacks).unwrap_err();
    insta::assert_snapshot!(error.to_string(), @"host code in f calls the device function d at k.cu:3: CUDA refuses it");
}

/// The sources of each folder below `folder` that has any.
fn source_sets(folder: &std::path::Path, sets: &mut Vec<Vec<(String, String)>>) {
    let mut files = Vec::new();
    for entry in folder.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
        let is_code =
            entry.extension().is_some_and(|end| end == "cu" || end == "cuh" || end == "h");
        if entry.is_dir() {
            source_sets(&entry, sets);
        } else if is_code {
            let text = std::fs::read_to_string(&entry).unwrap();
            files.push((entry.display().to_string(), text));
        }
    }
    sets.push(files);
}

#[test]
fn nothing_in_the_corpora_is_refused() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sets = Vec::new();
    for folder in ["kernels", "tests/corpus", "tests/engine", "benches"] {
        source_sets(&root.join(folder), &mut sets);
    }
    let files: Vec<&(String, String)> = sets.iter().flatten().collect();
    assert!(files.len() > 100);
    for (path, text) in files {
        // As the compiler does it.
        let closed_up = frontend::tightened(text);
        let unit = Unit { path, text: closed_up.as_deref().unwrap_or(text) };
        let symbols = frontend::scan(&[unit]);
        let made = frontend::host(&unit, &symbols, Precision::Native, Threads::Stacks);
        assert!(!matches!(made, Err(FrontendError::Restriction { .. })), "{made:?}");
    }
}

#[test]
fn kernels_with_launch_bounds_name_their_entry_in_the_list() {
    let text = "#define B __launch_bounds__(64 * 2, 1)\n\
                __global__ void __launch_bounds__(128) a(float* x, int n = 3) { x[0] = n; }\n\
                template <class T, int N = 4> B __global__ void b(T* x) {}\n\
                __global__ void __cluster_dims__(2, 1, 1) c() {}\n\
                __global__ void __launch_bounds__(9) declared(float* x);\n";
    insta::assert_snapshot!(translated(text).unwrap(), @r#"
    #line 1 "k.cu"
    #define B __launch_bounds__(64 * 2, 1)
    __global__ void __launch_bounds__(128) a(float* x, int n = 3) {static_assert(::replay_rt::bounded<static_cast<void (*)(float* x, int n)>(&a), (128)>::known, ""); x[0] = n; }
    template <class T, int N = 4> B __global__ void b(T* x) {static_assert(::replay_rt::bounded<static_cast<void (*)(T* x)>(&b<T, N>), (64 * 2)>::known, "");} template <class T, int N = 4> ::replay_rt::instance<static_cast<void (*)(T* x)>(&b<T, N>)> replay_instance_b(T* x);
    __global__ void __cluster_dims__(2, 1, 1) c() {static_assert(::replay_rt::bounded<static_cast<void (*)()>(&c), (0), 2 , 1 , 1>::known, "");}
    __global__ void __launch_bounds__(9) declared(float* x);
    "#);
}

#[test]
fn launch_bounds_do_not_keep_a_kernel_from_block_form() {
    let text = "template <int N> __global__ void __launch_bounds__(N) k(float* x) {\n  \
                __shared__ float s[N];\n  s[threadIdx.x] = x[threadIdx.x];\n  __syncthreads();\n  \
                x[threadIdx.x] = s[0];\n}\n";
    let unit = Unit { path: "k.cu", text };
    let symbols = frontend::scan(&[unit]);
    let made = frontend::host(&unit, &symbols, Precision::Native, Threads::Blocks).unwrap();
    assert_eq!(made.block_forms.len(), 1);
    assert_eq!(made.block_forms[0].obstacle, None);
    assert!(made.text.contains("static_assert(::replay_rt::bounded<"));
}

#[test]
fn launches_that_leave_arguments_to_their_defaults_are_passed_on() {
    let text = "__global__ void k(float* x, int n = 3, float2 p = {1, 2});\n\
                void h(float* x) { k<<<1, 1>>>(x); k<<<1, 1>>>(x, 2); k<<<1, 1>>>(x, 2, {3, 4}); }\n";
    insta::assert_snapshot!(translated(text).unwrap(), @r#"
    #line 1 "k.cu"
    __global__ void k(float* x, int n = 3, float2 p = {1, 2});
    void h(float* x) { ::replay_rt::kernel_call([&](auto... replay_arguments) { k(replay_arguments...); }, "k", "k.cu", 2).on(1, 1).run(x); ::replay_rt::kernel_call([&](auto... replay_arguments) { k(replay_arguments...); }, "k", "k.cu", 2).on(1, 1).run(x, 2); ::replay_rt::kernel<&k>("k", "k.cu", 2).on(1, 1).run(x, 2, {3, 4}); }
    "#);
}
