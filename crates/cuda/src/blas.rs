//! cuBLAS and cuBLASLt, NVIDIA's libraries for products of matrices: found, loaded and called.
//!
//! They work on the current context, in its default stream, with a workspace of their own and without
//! atomics: equal calls then have equal bits on equal devices (cuBLAS Library, "Results
//! Reproducibility").
#![allow(unsafe_code)]

mod lt;

use std::ffi::{CStr, CString, c_int, c_void};
use std::path::{Path, PathBuf};

pub use self::lt::{MatrixLayout, Product};

use super::driver::Address;
use super::library::{Called, LibraryError, files_in, identify_library};
use super::object::SharedObject;

/// Its description in errors.
pub static CALLED: Called = Called {
    file: "libcublas",
    package: "nvidia-cublas",
    known: "cuBLAS 12 and 13 are known to work",
};

/// The files of cuBLAS and of cuBLASLt, in one folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlasFiles {
    pub blas: PathBuf,
    pub lt: PathBuf,
}

impl BlasFiles {
    /// The newest in the first of `folders` with both.
    ///
    /// # Errors
    /// [`LibraryError::Missing`] names the folders.
    pub fn find(folders: &[PathBuf]) -> Result<BlasFiles, LibraryError> {
        let files = folders.iter().find_map(|folder| find_blas_pair(folder));
        files.ok_or_else(|| CALLED.missing(folders))
    }
}

/// The newest cuBLAS in `folder` with its cuBLASLt beside it.
fn find_blas_pair(folder: &Path) -> Option<BlasFiles> {
    files_in(folder, CALLED.file).into_iter().find_map(|blas| {
        let lt_name = blas.file_name()?.to_string_lossy().replace("libcublas", "libcublasLt");
        let lt = folder.join(lt_name);
        lt.is_file().then_some(BlasFiles { blas, lt })
    })
}

impl BlasFiles {
    /// Their paths, sizes and times: results may depend on them.
    pub fn identity(&self) -> String {
        [&self.blas, &self.lt].map(|path| identify_library(path)).join("\n")
    }
}

/// `cublasStatus_t`.
pub(crate) type BlasStatus = c_int;
pub(crate) const SUCCESS: BlasStatus = 0;
type Handle = *mut c_void;
type Pointer = *const c_void;

/// The loaded libraries, and a handle of each in the current context.
#[derive(Debug)]
pub struct Blas {
    files: BlasFiles,
    blas: SharedObject,
    lt: SharedObject,
    handle: Handle,
    lt_handle: Handle,
}

// SAFETY: the handles are used by one call at a time, on the thread of the context.
unsafe impl Send for Blas {}
// SAFETY: as above.
unsafe impl Sync for Blas {}

/// How the handle computes the next call.
#[derive(Clone, Copy, Debug)]
pub struct BlasSettings {
    /// Whether factors and results lie on the device.
    pub on_device: bool,
    /// `cublasMath_t`.
    pub math: i32,
}

/// The numbers and operands of a product of matrices. A batch by pointers has the arrays of pointers
/// as data.
#[derive(Clone, Copy, Debug)]
pub struct Gemm {
    pub operations: [c_int; 2],
    pub sizes: [c_int; 3],
    pub alpha: Pointer,
    pub a: BlasOperand,
    pub b: BlasOperand,
    pub beta: Pointer,
    pub c: BlasOperand,
    pub batches: c_int,
    pub compute: c_int,
    pub algorithm: c_int,
}

/// A matrix, a vector whose elements lie `ld` apart, or a batch.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BlasOperand {
    pub data: Pointer,
    pub ld: i64,
    pub step: i64,
    /// `cudaDataType_t`.
    pub kind: c_int,
}

impl BlasOperand {
    fn ld(&self) -> c_int {
        self.ld as c_int
    }

    fn data(&self) -> *mut c_void {
        self.data.cast_mut()
    }
}

impl Blas {
    /// Loads `files`, and makes handles with `workspace`.
    ///
    /// # Errors
    /// [`LibraryError::Unusable`].
    pub fn open(files: BlasFiles, workspace: (Address, usize)) -> Result<Blas, LibraryError> {
        // libcublas finds libcublasLt among the loaded libraries.
        let lt = SharedObject::open(&files.lt);
        let lt = lt.map_err(|reason| CALLED.unusable(&files.lt, reason))?;
        let blas = SharedObject::open(&files.blas);
        let blas = blas.map_err(|reason| CALLED.unusable(&files.blas, reason))?;
        let null = std::ptr::null_mut();
        let mut opened_library = Blas { files, blas, lt, handle: null, lt_handle: null };
        let started = opened_library.start(workspace);
        started.map_err(|reason| CALLED.unusable(&opened_library.files.blas, reason))?;
        Ok(opened_library)
    }

    fn start(&mut self, (workspace, bytes): (Address, usize)) -> Result<(), String> {
        type Create = unsafe extern "C" fn(*mut Handle) -> BlasStatus;
        // SAFETY: the documented types; a context is current, the workspace is memory of it.
        unsafe {
            let create: Create = self.blas.function(c"cublasCreate_v2")?;
            check_blas_status("cublasCreate", create(&raw mut self.handle))?;
            let create: Create = self.lt.function(c"cublasLtCreate")?;
            check_blas_status("cublasLtCreate", create(&raw mut self.lt_handle))?;
            let set: unsafe extern "C" fn(Handle, *mut c_void, usize) -> BlasStatus =
                self.blas.function(c"cublasSetWorkspace_v2")?;
            check_blas_status(
                "cublasSetWorkspace",
                set(self.handle, workspace as *mut c_void, bytes),
            )?;
            // CUBLAS_ATOMICS_NOT_ALLOWED.
            let set: unsafe extern "C" fn(Handle, c_int) -> BlasStatus =
                self.blas.function(c"cublasSetAtomicsMode")?;
            check_blas_status("cublasSetAtomicsMode", set(self.handle, 0))
        }
    }

    /// The function of libcublas called `name` and `suffix`.
    ///
    /// # Safety
    /// `F` must be its type.
    unsafe fn function<F: Copy>(&self, name: &str, suffix: &str) -> Result<F, LibraryError> {
        let symbol = CString::new(format!("{name}{suffix}")).unwrap_or_default();
        // SAFETY: promised by the caller.
        unsafe { lookup_symbol(&self.blas, &self.files.blas, &symbol) }
    }

    fn set(&self, settings: BlasSettings) -> Result<BlasStatus, LibraryError> {
        type Set = unsafe extern "C" fn(Handle, c_int) -> BlasStatus;
        // SAFETY: the documented types.
        unsafe {
            let pointers: Set = self.function("cublasSetPointerMode", "_v2")?;
            let math: Set = self.function("cublasSetMathMode", "")?;
            let status = pointers(self.handle, settings.on_device.into());
            Ok(if status == SUCCESS { math(self.handle, settings.math) } else { status })
        }
    }

    /// A product by the function `name` of the family of `cublasSgemm` and `cublasGemmEx`; none for
    /// another name.
    ///
    /// # Errors
    /// [`LibraryError::Unusable`] if the library lacks it.
    ///
    /// # Safety
    /// Factors must be readable where `settings` says.
    pub unsafe fn gemm(
        &self,
        name: &str,
        settings: BlasSettings,
        gemm: &Gemm,
    ) -> Result<Option<BlasStatus>, LibraryError> {
        let status = self.set(settings)?;
        if status != SUCCESS {
            return Ok(Some(status));
        }
        let Some(family) = Family::from_name(name) else { return Ok(None) };
        // SAFETY: promised by the caller; `Family` names the function's type.
        unsafe {
            Ok(Some(match family {
                Family::Typed => self.typed(name, gemm)?,
                Family::Mixed => self.mixed(name, gemm)?,
            }))
        }
    }

    /// `cublas<t>gemm`, `gemmStridedBatched` and `gemmBatched`.
    #[rustfmt::skip]
    unsafe fn typed(&self, name: &str, gemm: &Gemm) -> Result<BlasStatus, LibraryError> {
        type I = c_int;
        type P = Pointer;
        type One =
            unsafe extern "C" fn(Handle, I, I, I, I, I, P, P, I, P, I, P, *mut c_void, I) -> BlasStatus;
        type Strided = unsafe extern "C" fn(
            Handle, I, I, I, I, I, P, P, I, i64, P, I, i64, P, *mut c_void, I, i64, I,
        ) -> BlasStatus;
        type Batched = unsafe extern "C" fn(
            Handle, I, I, I, I, I, P, P, I, P, I, P, *mut c_void, I, I,
        ) -> BlasStatus;
        let Gemm { operations: [ta, tb], sizes: [m, n, k], alpha, a, b, beta, c, batches, .. } =
            *gemm;
        let handle = self.handle;
        // SAFETY: promised by the caller; float and double pointers are passed alike.
        Ok(unsafe {
            if name.ends_with("gemmStridedBatched") {
                let f: Strided = self.function(name, "")?;
                f(
                    handle, ta, tb, m, n, k, alpha, a.data, a.ld(), a.step, b.data, b.ld(), b.step,
                    beta, c.data(), c.ld(), c.step, batches,
                )
            } else if name.ends_with("gemmBatched") {
                let f: Batched = self.function(name, "")?;
                f(
                    handle, ta, tb, m, n, k, alpha, a.data, a.ld(), b.data, b.ld(), beta, c.data(),
                    c.ld(), batches,
                )
            } else {
                let f: One = self.function(name, "_v2")?;
                f(
                    handle, ta, tb, m, n, k, alpha, a.data, a.ld(), b.data, b.ld(), beta, c.data(),
                    c.ld(),
                )
            }
        })
    }

    /// `cublasGemmEx`, `GemmStridedBatchedEx` and `GemmBatchedEx`.
    #[rustfmt::skip]
    unsafe fn mixed(&self, name: &str, gemm: &Gemm) -> Result<BlasStatus, LibraryError> {
        type I = c_int;
        type P = Pointer;
        type One = unsafe extern "C" fn(
            Handle, I, I, I, I, I, P, P, I, I, P, I, I, P, *mut c_void, I, I, I, I,
        ) -> BlasStatus;
        type Strided = unsafe extern "C" fn(
            Handle, I, I, I, I, I, P, P, I, I, i64, P, I, I, i64, P, *mut c_void, I, I, i64, I, I, I,
        ) -> BlasStatus;
        type Batched = unsafe extern "C" fn(
            Handle, I, I, I, I, I, P, P, I, I, P, I, I, P, *mut c_void, I, I, I, I, I,
        ) -> BlasStatus;
        let Gemm { operations: [ta, tb], sizes: [m, n, k], alpha, a, b, beta, c, .. } = *gemm;
        let Gemm { batches, compute, algorithm, .. } = *gemm;
        let handle = self.handle;
        // SAFETY: promised by the caller.
        Ok(unsafe {
            if name.ends_with("StridedBatchedEx") {
                let f: Strided = self.function(name, "")?;
                f(
                    handle, ta, tb, m, n, k, alpha, a.data, a.kind, a.ld(), a.step, b.data, b.kind,
                    b.ld(), b.step, beta, c.data(), c.kind, c.ld(), c.step, batches, compute,
                    algorithm,
                )
            } else if name.ends_with("BatchedEx") {
                let f: Batched = self.function(name, "")?;
                f(
                    handle, ta, tb, m, n, k, alpha, a.data, a.kind, a.ld(), b.data, b.kind, b.ld(),
                    beta, c.data(), c.kind, c.ld(), batches, compute, algorithm,
                )
            } else {
                let f: One = self.function(name, "")?;
                f(
                    handle, ta, tb, m, n, k, alpha, a.data, a.kind, a.ld(), b.data, b.kind, b.ld(),
                    beta, c.data(), c.kind, c.ld(), compute, algorithm,
                )
            }
        })
    }

    /// A function of vectors, whose operands are `a`, `b` and `c` in their order, with `sizes[1]`
    /// elements, or with the sizes of the matrix; none for another name.
    ///
    /// # Errors
    /// [`LibraryError::Unusable`] if the library lacks it.
    ///
    /// # Safety
    /// Factors must be readable where `settings` says.
    #[rustfmt::skip]
    pub unsafe fn vectors(
        &self,
        name: &str,
        settings: BlasSettings,
        call: &Gemm,
    ) -> Result<Option<BlasStatus>, LibraryError> {
        type I = c_int;
        type P = Pointer;
        type M = *mut c_void;
        let status = self.set(settings)?;
        if status != SUCCESS {
            return Ok(Some(status));
        }
        let Gemm { operations: [operation, _], sizes: [m, n, _], alpha, a, b, beta, c, .. } = *call;
        let handle = self.handle;
let v2 = "_v2";
        let Some(function_name) = name.strip_prefix("cublas").and_then(|suffix| suffix.get(1..)) else {
            return Ok(None);
        };
        // SAFETY: promised by the caller; float and double pointers are passed alike.
        Ok(Some(unsafe {
            match function_name {
                "scal" => {
                    let f: unsafe extern "C" fn(Handle, I, P, M, I) -> BlasStatus =
                        self.function(name, v2)?;
                    f(handle, n, alpha, a.data(), a.ld())
                }
                "axpy" => {
                    let f: unsafe extern "C" fn(Handle, I, P, P, I, M, I) -> BlasStatus =
                        self.function(name, v2)?;
                    f(handle, n, alpha, a.data, a.ld(), b.data(), b.ld())
                }
                "copy" | "swap" => {
                    let f: unsafe extern "C" fn(Handle, I, M, I, M, I) -> BlasStatus =
                        self.function(name, v2)?;
                    f(handle, n, a.data(), a.ld(), b.data(), b.ld())
                }
                "dot" => {
                    let f: unsafe extern "C" fn(Handle, I, P, I, P, I, M) -> BlasStatus =
                        self.function(name, v2)?;
                    f(handle, n, a.data, a.ld(), b.data, b.ld(), c.data())
                }
                "nrm2" | "asum" => {
                    let f: unsafe extern "C" fn(Handle, I, P, I, M) -> BlasStatus =
                        self.function(name, v2)?;
                    f(handle, n, a.data, a.ld(), c.data())
                }
                "gemv" => {
                    let f: unsafe extern "C" fn(
                        Handle, I, I, I, P, P, I, P, I, P, M, I,
                    ) -> BlasStatus = self.function(name, v2)?;
                    f(
                        handle, operation, m, n, alpha, a.data, a.ld(), b.data, b.ld(), beta,
                        c.data(), c.ld(),
                    )
                }
                "ger" => {
                    let f: unsafe extern "C" fn(Handle, I, I, P, P, I, P, I, M, I) -> BlasStatus =
                        self.function(name, v2)?;
                    f(handle, m, n, alpha, a.data, a.ld(), b.data, b.ld(), c.data(), c.ld())
                }
                _ => return Ok(None),
            }
        }))
    }
}

/// The two forms of products.
enum Family {
    /// One type, named by a letter.
    Typed,
    /// Types and the accumulator's as arguments.
    Mixed,
}

impl Family {
    fn from_name(name: &str) -> Option<Family> {
        match name.strip_prefix("cublas")? {
            "GemmEx" | "GemmStridedBatchedEx" | "GemmBatchedEx" => Some(Family::Mixed),
            "Sgemm"
            | "Dgemm"
            | "SgemmStridedBatched"
            | "DgemmStridedBatched"
            | "SgemmBatched"
            | "DgemmBatched" => Some(Family::Typed),
            _ => None,
        }
    }
}

fn check_blas_status(function: &str, status: BlasStatus) -> Result<(), String> {
    if status == SUCCESS { Ok(()) } else { Err(format!("{function} failed with status {status}")) }
}

/// The function of `object` called `symbol`.
///
/// # Safety
/// `F` must be its type.
unsafe fn lookup_symbol<F: Copy>(
    object: &SharedObject,
    path: &Path,
    symbol: &CStr,
) -> Result<F, LibraryError> {
    // SAFETY: promised by the caller.
    let found_function = unsafe { object.function(symbol) };
    found_function.map_err(|message| CALLED.unusable(path, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_libraries_come_from_the_first_folder_that_has_them_the_newest_first() {
        let root = tempfile::tempdir().unwrap();
        let folders = ["none", "half", "whole"].map(|name| root.path().join(name));
        folders.iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
        let touch = |folder: &Path, name: &str| std::fs::write(folder.join(name), "").unwrap();
        touch(&folders[1], "libcublas.so.13");
        for name in ["libcublas.so.12", "libcublas.so.13", "libcublasLt.so.12", "libcublasLt.so.13"]
        {
            touch(&folders[2], name);
        }
        let found = BlasFiles::find(&folders).unwrap();
        assert_eq!(found.blas, folders[2].join("libcublas.so.13"));
        assert_eq!(found.lt, folders[2].join("libcublasLt.so.13"));
    }

    #[test]
    fn a_machine_without_cublas_is_told_where_it_was_looked_for_and_what_to_install() {
        let error = BlasFiles::find(&["/opt/cuda/lib64".into(), "/usr/lib64/none".into()]);
        let error = error.unwrap_err();
        let hint = error.hint();
        insta::assert_snapshot!(format!("{error}\n{hint}"), @r"
        no libcublas: looked in /opt/cuda/lib64, /usr/lib64/none
        install it with `pip install nvidia-cublas` for CUDA 13, `pip install nvidia-cublas-cu12` for CUDA 12, or name CUDA's folder in CUDA_HOME
        ");
    }

    #[test]
    fn what_is_no_library_is_refused_with_the_loader_s_words() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["libcublas.so.13", "libcublasLt.so.13"] {
            std::fs::write(folder.path().join(name), "no library").unwrap();
        }
        let files = BlasFiles::find(&[folder.path().to_owned()]).unwrap();
        let Err(LibraryError::Unusable { path, message, .. }) = Blas::open(files, (0, 0)) else {
            panic!("a text was loaded");
        };
        assert!(path.ends_with("libcublasLt.so.13"), "{path}");
        assert!(message.contains("file too short") || message.contains("ELF"), "{message}");
    }
}
