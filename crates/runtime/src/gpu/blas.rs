//! Calls of cuBLAS and cuBLASLt, answered by NVIDIA's libraries.
//!
//! The artifact passes them as launches under the function's name; `include/replay/blas_call.h` and
//! `include/cublasLt.h` have the same structures. The libraries are loaded by the first call.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::Mutex;

use super::library::library_refusal;
use crate::{Launch, REPORT_IT, end_with_report, refuse_replay};
use replay_cuda::LibraryError;
use replay_cuda::blas::{
    Blas, BlasFiles, BlasOperand, BlasSettings, CALLED, Gemm, MatrixLayout, Product,
};
use replay_cuda::driver::Context;

/// The libraries' workspace: cuBLAS's own default on a device of compute capability 9.0.
const WORKSPACE_BYTES: usize = 32 << 20;

/// A factor, on the device or by its bits.
#[derive(Clone, Copy)]
#[repr(C)]
struct Factor {
    device: *const c_void,
    bits: u64,
}

impl Factor {
    fn pointer(&self) -> *const c_void {
        if self.device.is_null() { (&raw const self.bits).cast() } else { self.device }
    }
}

/// `replay_rt::blas_call`.
#[derive(Clone, Copy)]
#[repr(C)]
struct BlasCall {
    status: *mut i32,
    alpha: Factor,
    beta: Factor,
    a: BlasOperand,
    b: BlasOperand,
    c: BlasOperand,
    operations: [i32; 2],
    sizes: [i32; 3],
    batches: i32,
    compute: i32,
    algorithm: i32,
    math: i32,
}

/// `cublasLtMatmulDescOpaque_t` of the artifact.
#[derive(Clone, Copy)]
#[repr(C)]
struct Desc {
    compute: u32,
    scale: u32,
    pointer_mode: i32,
    operations: [i32; 2],
    epilogue: u32,
    bias: *const c_void,
    bias_kind: i32,
    auxiliary: *const c_void,
    auxiliary_ld: i64,
    auxiliary_step: i64,
    auxiliary_kind: i32,
}

/// `replay_rt::lt_call`.
#[derive(Clone, Copy)]
#[repr(C)]
struct LtCall {
    status: *mut i32,
    alpha: Factor,
    beta: Factor,
    data: [*const c_void; 4],
    desc: Desc,
    layouts: [MatrixLayout; 4],
    workspace: *mut c_void,
    workspace_bytes: usize,
}

/// The libraries of this process, once a call has needed them.
pub(super) struct BlasCalls {
    folders: Vec<PathBuf>,
    opened: Mutex<Option<Blas>>,
}

impl BlasCalls {
    /// Calls of the libraries in one of `folders`.
    pub(super) fn new(folders: Vec<PathBuf>) -> BlasCalls {
        BlasCalls { folders, opened: Mutex::new(None) }
    }

    /// Makes the call in `launch`. Ends the process if there is no such library.
    pub(super) fn run(&self, context: &Context, launch: &Launch) {
        let mut opened_library = self.opened.lock().expect("no code panics while it holds this");
        if opened_library.is_none() {
            *opened_library = Some(
                self.open(context).unwrap_or_else(|error| end_without_library(launch, &error)),
            );
        }
        let blas = opened_library.as_ref().expect("opened just now");
        // SAFETY: the artifact passes a structure of this size.
        let (status, place) = unsafe {
            let call_pointer = *launch.args;
            match (launch.kernel, *launch.arg_sizes) {
                ("cublasLtMatmul", bytes) if bytes == size_of::<LtCall>() => {
                    let call = *call_pointer.cast::<LtCall>();
                    (blas.product(&build_lt_product(&call)).map(Some), call.status)
                }
                (_, bytes) if bytes == size_of::<BlasCall>() => {
                    let call = *call_pointer.cast::<BlasCall>();
                    (answer_blas_call(blas, launch.kernel, &call), call.status)
                }
                _ => (Ok(None), std::ptr::null_mut()),
            }
        };
        match status {
            // SAFETY: a variable of the artifact.
            Ok(Some(status)) => unsafe { *place = status },
            Ok(None) => refuse_replay(
                format!(
                    "{} was called, and no call of cuBLAS is known by this name",
                    launch.kernel
                ),
                Some(REPORT_IT.to_owned()),
            ),
            Err(error) => end_without_library(launch, &error),
        }
    }

    fn open(&self, context: &Context) -> Result<Blas, LibraryError> {
        let files = BlasFiles::find(&self.folders)?;
        let workspace = context.allocate(WORKSPACE_BYTES).map_err(|error| {
            CALLED.unusable(&files.blas, format!("no memory for its workspace: {error}"))
        })?;
        Blas::open(files, (workspace, WORKSPACE_BYTES))
    }
}

/// # Safety
/// Factors must lie where `call` says.
unsafe fn answer_blas_call(
    blas: &Blas,
    name: &str,
    call: &BlasCall,
) -> Result<Option<i32>, LibraryError> {
    let on_device = !call.alpha.device.is_null();
    let gemm = Gemm {
        operations: call.operations,
        sizes: call.sizes,
        alpha: call.alpha.pointer(),
        a: call.a,
        b: call.b,
        beta: call.beta.pointer(),
        c: call.c,
        batches: call.batches,
        compute: call.compute,
        algorithm: call.algorithm,
    };
    let settings = BlasSettings { on_device, math: call.math };
    if name.contains("emm") {
        // SAFETY: promised by the caller.
        return unsafe { blas.gemm(name, settings, &gemm) };
    }
    // The results of sums always go to the device.
    let on_device = on_device || ["dot", "nrm2", "asum"].iter().any(|sum| name.ends_with(sum));
    // SAFETY: promised by the caller.
    unsafe { blas.vectors(name, BlasSettings { on_device, ..settings }, &gemm) }
}

fn build_lt_product(call: &LtCall) -> Product {
    let Desc { compute, scale, operations, epilogue, bias, bias_kind, .. } = call.desc;
    let Desc { auxiliary, auxiliary_ld, auxiliary_step, auxiliary_kind, .. } = call.desc;
    Product {
        compute,
        scale,
        on_device: !call.alpha.device.is_null(),
        operations,
        epilogue,
        bias,
        bias_kind,
        auxiliary,
        auxiliary_ld,
        auxiliary_step,
        auxiliary_kind,
        alpha: call.alpha.pointer(),
        beta: call.beta.pointer(),
        data: call.data,
        layouts: call.layouts,
        workspace: call.workspace,
        workspace_bytes: call.workspace_bytes,
    }
}

fn end_without_library(launch: &Launch, error: &LibraryError) -> ! {
    end_with_report(&library_refusal(launch.kernel, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ChildReport;

    #[test]
    fn a_call_without_the_library_names_the_function_and_the_way_out() {
        let error = BlasFiles::find(&["/usr/lib64/none".into()]).unwrap_err();
        let ChildReport::Refused { message, hint } = library_refusal("cublasSgemm", &error) else {
            panic!("the machine is at fault, not the kernel");
        };
        insta::assert_snapshot!(message, @"cublasSgemm was called: no libcublas: looked in /usr/lib64/none");
        insta::assert_snapshot!(hint.unwrap(), @"install it with `pip install nvidia-cublas` for CUDA 13, `pip install nvidia-cublas-cu12` for CUDA 12, or name CUDA's folder in CUDA_HOME");
    }
}
