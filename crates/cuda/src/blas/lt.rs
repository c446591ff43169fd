//! Products by cuBLASLt: descriptors, its heuristic's first algorithm, and the call.

use std::ffi::{CStr, c_int, c_void};

use super::{Blas, BlasStatus, Handle, LibraryError, Pointer, SUCCESS, lookup_symbol};

/// A matrix.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MatrixLayout {
    /// `cudaDataType_t`.
    pub kind: u32,
    /// `cublasLtOrder_t`.
    pub order: i32,
    pub rows: u64,
    pub columns: u64,
    pub ld: i64,
    pub batches: i32,
    pub batch_step: i64,
}

/// A product with its epilogue. The matrices are a, b, c and d.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    pub compute: u32,
    pub scale: u32,
    pub on_device: bool,
    pub operations: [i32; 2],
    pub epilogue: u32,
    pub bias: Pointer,
    /// Below 0: the same as of d.
    pub bias_kind: i32,
    pub auxiliary: Pointer,
    pub auxiliary_ld: i64,
    pub auxiliary_step: i64,
    /// Below 0: the same as of d.
    pub auxiliary_kind: i32,
    pub alpha: Pointer,
    pub beta: Pointer,
    pub data: [Pointer; 4],
    pub layouts: [MatrixLayout; 4],
    pub workspace: *mut c_void,
    pub workspace_bytes: usize,
}

/// Attributes of a `cublasLtMatmulDesc_t`.
mod desc {
    pub(super) const POINTER_MODE: i32 = 2;
    pub(super) const OPERATIONS: [i32; 2] = [3, 4];
    pub(super) const EPILOGUE: i32 = 7;
    pub(super) const BIAS_POINTER: i32 = 8;
    pub(super) const AUXILIARY_POINTER: i32 = 11;
    pub(super) const AUXILIARY_LD: i32 = 12;
    pub(super) const AUXILIARY_BATCH_STRIDE: i32 = 13;
    pub(super) const AUXILIARY_TYPE: i32 = 22;
    pub(super) const BIAS_TYPE: i32 = 26;
}

/// Attributes of a `cublasLtMatrixLayout_t`.
mod layout {
    pub(super) const ORDER: i32 = 1;
    pub(super) const BATCH_COUNT: i32 = 5;
    pub(super) const BATCH_STEP: i32 = 6;
}

/// Attributes of a `cublasLtMatmulPreference_t`.
mod preference {
    pub(super) const WORKSPACE_BYTES: i32 = 1;
    /// Of a, b, c and d.
    pub(super) const ALIGNMENTS: [i32; 4] = [5, 6, 7, 8];
}

const NOT_SUPPORTED: BlasStatus = 15;
/// The bit of an epilogue with reads or writes of the auxiliary matrix.
const WITH_AUXILIARY: u32 = 128;

/// `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
#[derive(Default)]
struct LtHeuristic {
    algorithm: [u64; 8],
    workspace_bytes: usize,
    state: BlasStatus,
    waves: f32,
    reserved: [c_int; 4],
}

type Set = unsafe extern "C" fn(Handle, c_int, *const c_void, usize) -> BlasStatus;
type Destroy = unsafe extern "C" fn(Handle) -> BlasStatus;

/// A descriptor of cuBLASLt, destroyed when dropped.
struct Descriptor {
    handle: Handle,
    set: Set,
    destroy: Destroy,
}

impl Descriptor {
    /// # Safety
    /// `T` must be the type of `attribute`.
    unsafe fn set<T>(&self, attribute: i32, value: &T) -> Result<(), ProductFailure> {
        // SAFETY: promised by the caller.
        let status = unsafe {
            (self.set)(self.handle, attribute, std::ptr::from_ref(value).cast(), size_of::<T>())
        };
        if status == SUCCESS { Ok(()) } else { Err(ProductFailure::With(status)) }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: made by the counterpart of `destroy`.
        unsafe { (self.destroy)(self.handle) };
    }
}

/// Why there is no product.
enum ProductFailure {
    /// cuBLASLt's answer.
    With(BlasStatus),
    Library(LibraryError),
}

impl From<LibraryError> for ProductFailure {
    fn from(error: LibraryError) -> ProductFailure {
        ProductFailure::Library(error)
    }
}

fn check_lt_status(status: BlasStatus) -> Result<(), ProductFailure> {
    if status == SUCCESS { Ok(()) } else { Err(ProductFailure::With(status)) }
}

impl Blas {
    /// `cublasLtMatmul`.
    ///
    /// # Errors
    /// [`LibraryError::Unusable`] if the library lacks a function.
    ///
    /// # Safety
    /// Factors must be readable where `product` says.
    pub unsafe fn product(&self, product: &Product) -> Result<BlasStatus, LibraryError> {
        // SAFETY: promised by the caller.
        match unsafe { self.multiply(product) } {
            Ok(()) => Ok(SUCCESS),
            Err(ProductFailure::With(status)) => Ok(status),
            Err(ProductFailure::Library(error)) => Err(error),
        }
    }

    /// # Safety
    /// `F` must be the type of the function called `symbol`.
    unsafe fn lt_function<F: Copy>(&self, symbol: &CStr) -> Result<F, LibraryError> {
        // SAFETY: promised by the caller.
        unsafe { lookup_symbol(&self.lt, &self.files.lt, symbol) }
    }

    fn layout(&self, matrix_layout: &MatrixLayout) -> Result<Descriptor, ProductFailure> {
        type Create = unsafe extern "C" fn(*mut Handle, c_int, u64, u64, i64) -> BlasStatus;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the documented types.
        unsafe {
            let create: Create = self.lt_function(c"cublasLtMatrixLayoutCreate")?;
            let set = self.lt_function(c"cublasLtMatrixLayoutSetAttribute")?;
            let destroy = self.lt_function(c"cublasLtMatrixLayoutDestroy")?;
            check_lt_status(create(
                &raw mut handle,
                matrix_layout.kind as c_int,
                matrix_layout.rows,
                matrix_layout.columns,
                matrix_layout.ld,
            ))?;
            let descriptor = Descriptor { handle, set, destroy };
            descriptor.set(layout::ORDER, &matrix_layout.order)?;
            descriptor.set(layout::BATCH_COUNT, &matrix_layout.batches)?;
            descriptor.set(layout::BATCH_STEP, &matrix_layout.batch_step)?;
            Ok(descriptor)
        }
    }

    fn operation(&self, product: &Product) -> Result<Descriptor, ProductFailure> {
        type Create = unsafe extern "C" fn(*mut Handle, c_int, c_int) -> BlasStatus;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the documented types.
        unsafe {
            let create: Create = self.lt_function(c"cublasLtMatmulDescCreate")?;
            let set = self.lt_function(c"cublasLtMatmulDescSetAttribute")?;
            let destroy = self.lt_function(c"cublasLtMatmulDescDestroy")?;
            let compute = product.compute as c_int;
            let scale = product.scale as c_int;
            check_lt_status(create(&raw mut handle, compute, scale))?;
            let descriptor = Descriptor { handle, set, destroy };
            descriptor.set(desc::POINTER_MODE, &i32::from(product.on_device))?;
            for (attribute, operation) in desc::OPERATIONS.into_iter().zip(product.operations) {
                descriptor.set(attribute, &operation)?;
            }
            descriptor.set(desc::EPILOGUE, &product.epilogue)?;
            if !product.bias.is_null() {
                descriptor.set(desc::BIAS_POINTER, &product.bias)?;
            }
            if product.bias_kind >= 0 {
                descriptor.set(desc::BIAS_TYPE, &product.bias_kind)?;
            }
            if product.epilogue & WITH_AUXILIARY != 0 {
                descriptor.set(desc::AUXILIARY_POINTER, &product.auxiliary)?;
                descriptor.set(desc::AUXILIARY_LD, &product.auxiliary_ld)?;
                descriptor.set(desc::AUXILIARY_BATCH_STRIDE, &product.auxiliary_step)?;
                if product.auxiliary_kind >= 0 {
                    descriptor.set(desc::AUXILIARY_TYPE, &product.auxiliary_kind)?;
                }
            }
            Ok(descriptor)
        }
    }

    /// The limits of the algorithm: the workspace, and the alignment of the matrices.
    fn preference(&self, product: &Product) -> Result<Descriptor, ProductFailure> {
        type Create = unsafe extern "C" fn(*mut Handle) -> BlasStatus;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the documented types.
        unsafe {
            let create: Create = self.lt_function(c"cublasLtMatmulPreferenceCreate")?;
            let set = self.lt_function(c"cublasLtMatmulPreferenceSetAttribute")?;
            let destroy = self.lt_function(c"cublasLtMatmulPreferenceDestroy")?;
            check_lt_status(create(&raw mut handle))?;
            let descriptor = Descriptor { handle, set, destroy };
            descriptor.set(preference::WORKSPACE_BYTES, &product.workspace_bytes)?;
            for (attribute, data) in preference::ALIGNMENTS.into_iter().zip(product.data) {
                descriptor.set(attribute, &address_alignment(data as usize))?;
            }
            Ok(descriptor)
        }
    }

    #[rustfmt::skip]
    unsafe fn multiply(&self, product: &Product) -> Result<(), ProductFailure> {
        type H = Handle;
        type P = Pointer;
        type Ask =
            unsafe extern "C" fn(H, H, H, H, H, H, H, c_int, *mut LtHeuristic, *mut c_int) -> BlasStatus;
        type Multiply = unsafe extern "C" fn(
            H, H, P, P, H, P, H, P, P, H, *mut c_void, H, P, *mut c_void, usize, H,
        ) -> BlasStatus;
        let operation = self.operation(product)?;
        let preference = self.preference(product)?;
        let [a, b, c, d] = &product.layouts;
        let layouts = [self.layout(a)?, self.layout(b)?, self.layout(c)?, self.layout(d)?];
        let [la, lb, lc, ld] = [0, 1, 2, 3].map(|k: usize| layouts[k].handle);
        let [a, b, c, d] = product.data;
        let mut heuristic = LtHeuristic::default();
let mut count = 0;
        // SAFETY: the documented types; the factors are promised by the caller.
        unsafe {
            let ask: Ask = self.lt_function(c"cublasLtMatmulAlgoGetHeuristic")?;
            check_lt_status(ask(
                self.lt_handle, operation.handle, la, lb, lc, ld, preference.handle, 1,
                &raw mut heuristic, &raw mut count,
            ))?;
            if count == 0 {
                return Err(ProductFailure::With(NOT_SUPPORTED));
            }
            check_lt_status(heuristic.state)?;
            let multiply: Multiply = self.lt_function(c"cublasLtMatmul")?;
            check_lt_status(multiply(
                self.lt_handle, operation.handle, product.alpha, a, la, b, lb, product.beta, c, lc,
                d.cast_mut(), ld, (&raw const heuristic.algorithm).cast(), product.workspace,
                product.workspace_bytes, std::ptr::null_mut(),
            ))
        }
    }
}

/// The greatest power of two up to 256 among the divisors of `address`.
fn address_alignment(address: usize) -> u32 {
    1 << address.trailing_zeros().min(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_aligned_to_the_greatest_power_of_two_that_divides_it() {
        assert_eq!([0x1000, 0x1010, 0x1004, 0x1006].map(address_alignment), [256, 16, 4, 2]);
    }

    #[test]
    fn the_result_of_the_heuristic_has_cublaslt_s_size() {
        assert_eq!(size_of::<LtHeuristic>(), 96);
    }
}
