//! Products by cuBLASLt: descriptors, the algorithm that its heuristic names first, and the call.

use std::ffi::{CStr, c_int, c_void};

use super::{Blas, Handle, LibraryError, Pointer, SUCCESS, Status, lookup};

/// A matrix.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Layout {
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
pub(crate) struct Product {
    pub compute: u32,
    pub scale: u32,
    pub on_device: bool,
    pub operations: [i32; 2],
    pub epilogue: u32,
    pub bias: Pointer,
    /// Below 0: that of d.
    pub bias_kind: i32,
    pub auxiliary: Pointer,
    pub auxiliary_ld: i64,
    pub auxiliary_step: i64,
    /// Below 0: that of d.
    pub auxiliary_kind: i32,
    pub alpha: Pointer,
    pub beta: Pointer,
    pub data: [Pointer; 4],
    pub layouts: [Layout; 4],
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

const NOT_SUPPORTED: Status = 15;
/// The bit of an epilogue that reads or writes the auxiliary matrix.
const WITH_AUXILIARY: u32 = 128;

/// `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
#[derive(Default)]
struct Found {
    algorithm: [u64; 8],
    workspace_bytes: usize,
    state: Status,
    waves: f32,
    reserved: [c_int; 4],
}

type Set = unsafe extern "C" fn(Handle, c_int, *const c_void, usize) -> Status;
type Destroy = unsafe extern "C" fn(Handle) -> Status;

/// A descriptor of cuBLASLt, destroyed when dropped.
struct Descriptor {
    handle: Handle,
    set: Set,
    destroy: Destroy,
}

impl Descriptor {
    /// # Safety
    /// `T` must be the type of `attribute`.
    unsafe fn set<T>(&self, attribute: i32, value: &T) -> Result<(), Failed> {
        // SAFETY: promised by the caller.
        let status = unsafe {
            (self.set)(self.handle, attribute, std::ptr::from_ref(value).cast(), size_of::<T>())
        };
        if status == SUCCESS { Ok(()) } else { Err(Failed::With(status)) }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: made by the function that goes with `destroy`.
        unsafe { (self.destroy)(self.handle) };
    }
}

/// Why there is no product.
enum Failed {
    /// cuBLASLt's answer.
    With(Status),
    Library(LibraryError),
}

impl From<LibraryError> for Failed {
    fn from(error: LibraryError) -> Failed {
        Failed::Library(error)
    }
}

fn checked(status: Status) -> Result<(), Failed> {
    if status == SUCCESS { Ok(()) } else { Err(Failed::With(status)) }
}

impl Blas {
    /// `cublasLtMatmul`.
    ///
    /// # Errors
    /// [`LibraryError::Unusable`] if the library lacks a function.
    ///
    /// # Safety
    /// Factors must be readable where `product` says.
    pub(crate) unsafe fn product(&self, product: &Product) -> Result<Status, LibraryError> {
        // SAFETY: promised by the caller.
        match unsafe { self.multiply(product) } {
            Ok(()) => Ok(SUCCESS),
            Err(Failed::With(status)) => Ok(status),
            Err(Failed::Library(error)) => Err(error),
        }
    }

    /// # Safety
    /// `F` must be the type of the function called `symbol`.
    unsafe fn lt_function<F: Copy>(&self, symbol: &CStr) -> Result<F, LibraryError> {
        // SAFETY: promised by the caller.
        unsafe { lookup(&self.lt, &self.files.lt, symbol) }
    }

    fn layout(&self, of: &Layout) -> Result<Descriptor, Failed> {
        type Create = unsafe extern "C" fn(*mut Handle, c_int, u64, u64, i64) -> Status;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the documented types.
        unsafe {
            let create: Create = self.lt_function(c"cublasLtMatrixLayoutCreate")?;
            let set = self.lt_function(c"cublasLtMatrixLayoutSetAttribute")?;
            let destroy = self.lt_function(c"cublasLtMatrixLayoutDestroy")?;
            checked(create(&raw mut handle, of.kind as c_int, of.rows, of.columns, of.ld))?;
            let made = Descriptor { handle, set, destroy };
            made.set(layout::ORDER, &of.order)?;
            made.set(layout::BATCH_COUNT, &of.batches)?;
            made.set(layout::BATCH_STEP, &of.batch_step)?;
            Ok(made)
        }
    }

    fn operation(&self, product: &Product) -> Result<Descriptor, Failed> {
        type Create = unsafe extern "C" fn(*mut Handle, c_int, c_int) -> Status;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the documented types.
        unsafe {
            let create: Create = self.lt_function(c"cublasLtMatmulDescCreate")?;
            let set = self.lt_function(c"cublasLtMatmulDescSetAttribute")?;
            let destroy = self.lt_function(c"cublasLtMatmulDescDestroy")?;
            let (compute, scale) = (product.compute as c_int, product.scale as c_int);
            checked(create(&raw mut handle, compute, scale))?;
            let made = Descriptor { handle, set, destroy };
            made.set(desc::POINTER_MODE, &i32::from(product.on_device))?;
            for (attribute, operation) in desc::OPERATIONS.into_iter().zip(product.operations) {
                made.set(attribute, &operation)?;
            }
            made.set(desc::EPILOGUE, &product.epilogue)?;
            if !product.bias.is_null() {
                made.set(desc::BIAS_POINTER, &product.bias)?;
            }
            if product.bias_kind >= 0 {
                made.set(desc::BIAS_TYPE, &product.bias_kind)?;
            }
            if product.epilogue & WITH_AUXILIARY != 0 {
                made.set(desc::AUXILIARY_POINTER, &product.auxiliary)?;
                made.set(desc::AUXILIARY_LD, &product.auxiliary_ld)?;
                made.set(desc::AUXILIARY_BATCH_STRIDE, &product.auxiliary_step)?;
                if product.auxiliary_kind >= 0 {
                    made.set(desc::AUXILIARY_TYPE, &product.auxiliary_kind)?;
                }
            }
            Ok(made)
        }
    }

    /// What limits the algorithm: the workspace, and where the matrices lie.
    fn preference(&self, product: &Product) -> Result<Descriptor, Failed> {
        type Create = unsafe extern "C" fn(*mut Handle) -> Status;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the documented types.
        unsafe {
            let create: Create = self.lt_function(c"cublasLtMatmulPreferenceCreate")?;
            let set = self.lt_function(c"cublasLtMatmulPreferenceSetAttribute")?;
            let destroy = self.lt_function(c"cublasLtMatmulPreferenceDestroy")?;
            checked(create(&raw mut handle))?;
            let made = Descriptor { handle, set, destroy };
            made.set(preference::WORKSPACE_BYTES, &product.workspace_bytes)?;
            for (attribute, data) in preference::ALIGNMENTS.into_iter().zip(product.data) {
                made.set(attribute, &alignment(data as usize))?;
            }
            Ok(made)
        }
    }

    #[rustfmt::skip]
    unsafe fn multiply(&self, product: &Product) -> Result<(), Failed> {
        type H = Handle;
        type P = Pointer;
        type Ask =
            unsafe extern "C" fn(H, H, H, H, H, H, H, c_int, *mut Found, *mut c_int) -> Status;
        type Multiply = unsafe extern "C" fn(
            H, H, P, P, H, P, H, P, P, H, *mut c_void, H, P, *mut c_void, usize, H,
        ) -> Status;
        let operation = self.operation(product)?;
        let preference = self.preference(product)?;
        let [a, b, c, d] = &product.layouts;
        let layouts = [self.layout(a)?, self.layout(b)?, self.layout(c)?, self.layout(d)?];
        let [la, lb, lc, ld] = [0, 1, 2, 3].map(|k: usize| layouts[k].handle);
        let [a, b, c, d] = product.data;
        let (mut found, mut count) = (Found::default(), 0);
        // SAFETY: the documented types; the factors are promised by the caller.
        unsafe {
            let ask: Ask = self.lt_function(c"cublasLtMatmulAlgoGetHeuristic")?;
            checked(ask(
                self.lt_handle, operation.handle, la, lb, lc, ld, preference.handle, 1,
                &raw mut found, &raw mut count,
            ))?;
            if count == 0 {
                return Err(Failed::With(NOT_SUPPORTED));
            }
            checked(found.state)?;
            let multiply: Multiply = self.lt_function(c"cublasLtMatmul")?;
            checked(multiply(
                self.lt_handle, operation.handle, product.alpha, a, la, b, lb, product.beta, c, lc,
                d.cast_mut(), ld, (&raw const found.algorithm).cast(), product.workspace,
                product.workspace_bytes, std::ptr::null_mut(),
            ))
        }
    }
}

/// The greatest power of two up to 256 that divides `address`.
fn alignment(address: usize) -> u32 {
    1 << address.trailing_zeros().min(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_aligned_to_the_greatest_power_of_two_that_divides_it() {
        assert_eq!([0x1000, 0x1010, 0x1004, 0x1006].map(alignment), [256, 16, 4, 2]);
    }

    #[test]
    fn the_result_of_the_heuristic_has_cublaslt_s_size() {
        assert_eq!(size_of::<Found>(), 96);
    }
}
