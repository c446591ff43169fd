//! The mathematical functions of device code: correctly rounded in the current rounding mode
//! (CORE-MATH), and the rounding mode itself.
#![allow(unsafe_code)]

use super::cpu::Rounding;

macro_rules! table {
    ($type:ty: $($function:path),* $(,)?) => { [$($function as fn($type) -> $type),*] };
}

/// In the order of `replay_math1`.
static F1: [fn(f32) -> f32; 28] = table!(f32:
    core_math::acosf, core_math::acoshf, core_math::asinf, core_math::asinhf, core_math::atanf,
    core_math::atanhf, core_math::cbrtf, core_math::cosf, core_math::coshf, core_math::cospif,
    core_math::erff, core_math::erfcf, core_math::expf, core_math::exp10f, core_math::exp2f,
    core_math::expm1f, core_math::lgammaf, core_math::logf, core_math::log10f, core_math::log1pf,
    core_math::log2f, core_math::rsqrtf, core_math::sinf, core_math::sinhf, core_math::sinpif,
    core_math::tanf, core_math::tanhf, core_math::tgammaf,
);

/// In the order of `replay_math1`.
static D1: [fn(f64) -> f64; 28] = table!(f64:
    core_math::acos, core_math::acosh, core_math::asin, core_math::asinh, core_math::atan,
    core_math::atanh, core_math::cbrt, core_math::cos, core_math::cosh, core_math::cospi,
    core_math::erf, core_math::erfc, core_math::exp, core_math::exp10, core_math::exp2,
    core_math::expm1, core_math::lgamma, core_math::log, core_math::log10, core_math::log1p,
    core_math::log2, core_math::rsqrt, core_math::sin, core_math::sinh, core_math::sinpi,
    core_math::tan, core_math::tanh, core_math::tgamma,
);

/// In the order of `replay_math2`.
static F2: [fn(f32, f32) -> f32; 3] = [core_math::atan2f, core_math::hypotf, core_math::powf];
/// In the order of `replay_math2`.
static D2: [fn(f64, f64) -> f64; 3] = [core_math::atan2, core_math::hypot, core_math::pow];

pub(super) unsafe extern "C" fn call_unary_f32(function: u32, x: f32) -> f32 {
    F1[function as usize](x)
}
pub(crate) unsafe extern "C" fn call_unary_f64(function: u32, x: f64) -> f64 {
    D1[function as usize](x)
}
pub(crate) unsafe extern "C" fn call_binary_f32(function: u32, x: f32, y: f32) -> f32 {
    F2[function as usize](x, y)
}
pub(crate) unsafe extern "C" fn call_binary_f64(function: u32, x: f64, y: f64) -> f64 {
    D2[function as usize](x, y)
}
pub(crate) unsafe extern "C" fn multiply_add_f32(x: f32, y: f32, z: f32) -> f32 {
    x.mul_add(y, z)
}
pub(crate) unsafe extern "C" fn multiply_add_f64(x: f64, y: f64, z: f64) -> f64 {
    x.mul_add(y, z)
}

/// Sets the rounding mode of the calling operating-system thread.
#[cfg(target_arch = "x86_64")]
pub(crate) fn set_rounding(rounding: Rounding) {
    // Intel SDM volume 1, section 10.2.3.1: bits 13 and 14 of MXCSR.
    let bits = match rounding {
        Rounding::Nearest
        | Rounding::Passed
        | Rounding::Recorded
        | Rounding::RecordedInside
        | Rounding::Straight
        | Rounding::Held => 0u32,
        Rounding::Down => 1,
        Rounding::Up => 2,
        Rounding::TowardZero => 3,
    };
    let mut control = 0u32;
    // SAFETY: reads and writes the control register of this thread, exceptions stay masked.
    unsafe {
        std::arch::asm!("stmxcsr [{0}]", in(reg) &raw mut control);
        control = control & !(3 << 13) | bits << 13;
        std::arch::asm!("ldmxcsr [{0}]", in(reg) &raw const control);
    }
}

/// Sets the rounding mode of the calling operating-system thread.
#[cfg(target_arch = "aarch64")]
pub(crate) fn set_rounding(rounding: Rounding) {
    // Arm ARM, FPCR.RMode: bits 22 and 23.
    let bits = match rounding {
        Rounding::Nearest
        | Rounding::Passed
        | Rounding::Recorded
        | Rounding::RecordedInside
        | Rounding::Straight
        | Rounding::Held => 0u64,
        Rounding::Up => 1,
        Rounding::Down => 2,
        Rounding::TowardZero => 3,
    };
    // SAFETY: reads and writes the control register of this thread.
    unsafe {
        let mut control: u64;
        std::arch::asm!("mrs {0}, fpcr", out(reg) control);
        control = control & !(3 << 22) | bits << 22;
        std::arch::asm!("msr fpcr, {0}", in(reg) control);
    }
}
