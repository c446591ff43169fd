//! Launch bounds and default arguments, which launches need and kernels in thread-loop form do not lose.

use replay::frontend::{self, FrontendError, Precision, SourceUnit, Threads};

fn translated(text: &str) -> Result<String, FrontendError> {
    let unit = SourceUnit { path: "k.cu", text };
    let symbols = frontend::scan_symbols(&[unit]);
    frontend::translate_for_host(&unit, &symbols, Precision::Native, Threads::Stacks)
        .map(|made| made.text)
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
fn launch_bounds_do_not_keep_a_kernel_from_thread_loop() {
    let text = "template <int N> __global__ void __launch_bounds__(N) k(float* x) {\n  \
                __shared__ float s[N];\n  s[threadIdx.x] = x[threadIdx.x];\n  __syncthreads();\n  \
                x[threadIdx.x] = s[0];\n}\n";
    let unit = SourceUnit { path: "k.cu", text };
    let symbols = frontend::scan_symbols(&[unit]);
    let made =
        frontend::translate_for_host(&unit, &symbols, Precision::Native, Threads::Blocks).unwrap();
    assert_eq!(made.kernel_forms.len(), 1);
    assert_eq!(made.kernel_forms[0].why_stacks(), None);
    assert!(made.text.contains("static_assert(::replay_rt::bounded<"));
}

#[test]
fn launches_that_leave_arguments_to_their_defaults_are_passed_on() {
    let text = "__global__ void k(float* x, int n = 3, float2 p = {1, 2});\n\
                void h(float* x) { k<<<1, 1>>>(x); k<<<1, 1>>>(x, 2); k<<<1, 1>>>(x, 2, {3, 4}); }\n";
    insta::assert_snapshot!(translated(text).unwrap(), @r#"
    #line 1 "k.cu"
    __global__ void k(float* x, int n = 3, float2 p = {1, 2});
    void h(float* x) { ::replay_rt::kernel_call([&](auto... replay_arguments) { (k)(replay_arguments...); }, "k", "k.cu", 2).on(1, 1).run(x); ::replay_rt::kernel_call([&](auto... replay_arguments) { (k)(replay_arguments...); }, "k", "k.cu", 2).on(1, 1).run(x, 2); ::replay_rt::kernel<&k>("k", "k.cu", 2).on(1, 1).run(x, 2, {3, 4}); }
    "#);
}
