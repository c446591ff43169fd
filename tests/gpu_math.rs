//! The device's mathematical functions against the errors that `crates/cuda/src/math_errors.rs`
//! gives them: over all float32 arguments, or over many pairs of them.
//!
//! `ci/test-gpu` runs it.

use std::fmt::Write;

use crate::common::gpu_lab;
use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use replay::cuda::{self, NvrtcAnswer, math_error_ulps};

/// A function: its name, the same in float64, and the arguments for which the error holds.
struct Function {
    name: &'static str,
    float: &'static str,
    double: &'static str,
    holds: &'static str,
    /// Whether the error is in units of 1, not of the result: of functions near their zeros.
    absolute: bool,
}

const fn of(name: &'static str, float: &'static str, double: &'static str) -> Function {
    Function { name, float, double, holds: "true", absolute: false }
}

const fn within(
    name: &'static str,
    float: &'static str,
    double: &'static str,
    holds: &'static str,
) -> Function {
    Function { name, float, double, holds, absolute: false }
}

const fn about_1(
    name: &'static str,
    float: &'static str,
    double: &'static str,
    holds: &'static str,
) -> Function {
    Function { name, float, double, holds, absolute: true }
}

/// `x` and `y` are the arguments, `dx` and `dy` the same in float64, `r` is the true result.
const FUNCTIONS: [Function; 53] = [
    of("acos", "acosf(x)", "acos(dx)"),
    of("acosh", "acoshf(x)", "acosh(dx)"),
    of("asin", "asinf(x)", "asin(dx)"),
    of("asinh", "asinhf(x)", "asinh(dx)"),
    of("atan", "atanf(x)", "atan(dx)"),
    of("atan2", "atan2f(x, y)", "atan2(dx, dy)"),
    of("atanh", "atanhf(x)", "atanh(dx)"),
    of("cbrt", "cbrtf(x)", "cbrt(dx)"),
    of("cos", "cosf(x)", "cos(dx)"),
    of("cosh", "coshf(x)", "cosh(dx)"),
    of("cospi", "cospif(x)", "cospi(dx)"),
    of("erf", "erff(x)", "erf(dx)"),
    of("erfc", "erfcf(x)", "erfc(dx)"),
    of("erfcinv", "erfcinvf(x)", "erfcinv(dx)"),
    of("erfcx", "erfcxf(x)", "erfcx(dx)"),
    of("erfinv", "erfinvf(x)", "erfinv(dx)"),
    of("exp", "expf(x)", "exp(dx)"),
    of("exp10", "exp10f(x)", "exp10(dx)"),
    of("exp2", "exp2f(x)", "exp2(dx)"),
    of("expm1", "expm1f(x)", "expm1(dx)"),
    of("hypot", "hypotf(x, y)", "hypot(dx, dy)"),
    within("j0", "j0f(x)", "j0(dx)", "fabsf(x) < 8"),
    within("j1", "j1f(x)", "j1(dx)", "fabsf(x) < 8"),
    within("lgamma", "lgammaf(x)", "lgamma(dx)", "x < -10.001f || x > -2.264f"),
    of("log", "logf(x)", "log(dx)"),
    of("log10", "log10f(x)", "log10(dx)"),
    of("log1p", "log1pf(x)", "log1p(dx)"),
    of("log2", "log2f(x)", "log2(dx)"),
    of("normcdf", "normcdff(x)", "normcdf(dx)"),
    of("normcdfinv", "normcdfinvf(x)", "normcdfinv(dx)"),
    of("pow", "powf(x, y)", "pow(dx, dy)"),
    of("rcbrt", "rcbrtf(x)", "rcbrt(dx)"),
    of("rhypot", "rhypotf(x, y)", "rhypot(dx, dy)"),
    of("rsqrt", "rsqrtf(x)", "rsqrt(dx)"),
    of("sin", "sinf(x)", "sin(dx)"),
    of("sincos", "sine(x)", "sin(dx)"),
    of("sinh", "sinhf(x)", "sinh(dx)"),
    of("sinpi", "sinpif(x)", "sinpi(dx)"),
    of("tan", "tanf(x)", "tan(dx)"),
    of("tanh", "tanhf(x)", "tanh(dx)"),
    of("tgamma", "tgammaf(x)", "tgamma(dx)"),
    within("y0", "y0f(x)", "y0(dx)", "fabsf(x) < 8"),
    about_1("__cosf", "__cosf(x)", "cos(dx)", "fabsf(x) <= 3.1415927f"),
    within("__exp10f", "__exp10f(x)", "exp10(dx)", "fabsf(x) <= 25"),
    within("__expf", "__expf(x)", "exp(dx)", "fabsf(x) <= 25"),
    within(
        "__fdividef",
        "__fdividef(x, y)",
        "dx / dy",
        "fabsf(y) >= 0x1p-126f && fabsf(y) <= 0x1p126f",
    ),
    within("__log10f", "__log10f(x)", "log10(dx)", "x < 0.5f || x > 2"),
    within("__log2f", "__log2f(x)", "log2(dx)", "x < 0.5f || x > 2"),
    within("__logf", "__logf(x)", "log(dx)", "x < 0.5f || x > 2"),
    within(
        "__powf",
        "__powf(x, y)",
        "pow(dx, dy)",
        "(x > 2 || x > 0 && x < 0.5f) && fabs(log2(r)) <= 25",
    ),
    about_1("__sincosf", "intrinsic_sine(x)", "sin(dx)", "fabsf(x) <= 3.1415927f"),
    about_1("__sinf", "__sinf(x)", "sin(dx)", "fabsf(x) <= 3.1415927f"),
    about_1("__tanf", "__tanf(x)", "tan(dx)", "fabsf(x) <= 0.7853982f"),
];

/// The greatest error and where it is: in the upper half the error as a float, in the lower `x`.
/// A normal result that the function gives as 0 or infinite counts as what it is.
const KERNEL: &str = r#"
__device__ float sine(float x) { float s, c; sincosf(x, &s, &c); return s; }
__device__ float intrinsic_sine(float x) { float s, c; __sincosf(x, &s, &c); return s; }
__device__ unsigned mixed(unsigned long long z) {
    z = (z + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return (unsigned)(z >> 32);
}
extern "C" __global__ void measure(unsigned long long* worst) {
    const double largest = 3.4028234663852886e38;
    unsigned long long found = 0;
    unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i >> 32 == 0; i += stride) {
        float x = __uint_as_float((unsigned)i), y = __uint_as_float(mixed(i));
        double dx = x, dy = y, r = DOUBLE;
        if (isnan(r) || fabs(r) > largest || isinf(x) || isinf(y) || !(HOLDS)) continue;
        double got = FLOAT;
        if (isinf(got)) got = copysign(3.402823669209385e38, got);
        int exponent = r == 0 ? -126 : max(ilogb(r), -126);
        double unit = ABSOLUTE ? 0x1p-23 : scalbn(1.0, exponent - 23);
        double error = isnan(got) ? 1e30 : fabs(got - r) / unit;
        unsigned long long packed =
            (unsigned long long)__float_as_uint((float)error) << 32 | (unsigned)i;
        if (packed > found) found = packed;
    }
    atomicMax(worst, found);
}
"#;

#[test]
#[ignore = "needs a GPU"]
fn no_function_of_the_device_errs_by_more_than_the_table_says() {
    let device = cuda::find_gpu(0).unwrap_or_else(|error| panic!("needs a GPU: {error}"));
    let nvrtc = gpu_lab::nvrtc();
    let context = CudaContext::new(0).unwrap();
    let stream = context.default_stream();
    let mut wrong = Vec::new();
    let mut table =
        "| function | arguments | measured | table |\n| --- | --- | --- | --- |\n".to_owned();
    for function in &FUNCTIONS {
        let options = [
            "--std=c++17".to_owned(),
            format!("--gpu-architecture={}", device.architecture),
            format!("--define-macro=FLOAT={}", function.float),
            format!("--define-macro=DOUBLE={}", function.double),
            format!("--define-macro=HOLDS={}", function.holds),
            format!("--define-macro=ABSOLUTE={}", i32::from(function.absolute)),
        ];
        let image = match nvrtc.compile(KERNEL, &options, &[]).unwrap() {
            NvrtcAnswer::Compiled(image) => image,
            NvrtcAnswer::Rejected { log } => panic!("{}: {log}", function.name),
        };
        let module = context.load_module(Ptx::from_binary(image.code)).unwrap();
        let kernel = module.load_function("measure").unwrap();
        let mut worst = stream.alloc_zeros::<u64>(1).unwrap();
        let shape =
            LaunchConfig { grid_dim: (2112, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&mut worst);
        // SAFETY: the argument is that of the kernel.
        unsafe { launch.launch(shape) }.unwrap();
        let packed = stream.clone_dtoh(&worst).unwrap()[0];
        let error = f32::from_bits((packed >> 32) as u32);
        let at = f32::from_bits(packed as u32);
        let documented = math_error_ulps(function.name).expect("the table has it");
        let holds = if function.holds == "true" { "all" } else { function.holds };
        let unit = if function.absolute { " of 1" } else { "" };
        writeln!(
            table,
            "| {} | {holds} | {error:.2}{unit}, at {at:e} | {documented} |",
            function.name
        )
        .unwrap();
        // The nearest float32 is half a unit away from what is documented as correctly rounded.
        if f64::from(error) > documented + 0.5 {
            wrong.push(format!("{}: {error} at {at:e}, not {documented}", function.name));
        }
    }
    println!("{table}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
