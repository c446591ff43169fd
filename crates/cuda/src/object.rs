//! Shared objects: loaded by their path, and kept until the process ends.
//!
//! NVRTC, cuBLAS and cuRAND are called through it, with types declared beside the calls; cudarc serves for the driver
//! only. cudarc loads a library by its names on the default search path alone, 12 as its newest major version; these
//! libraries lie in Python's packages and `CUDA_HOME` too, in versions up to 13. Without a library or a function
//! cudarc panics. Its statuses are Rust enums: a number of a newer library would be undefined behaviour.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A loaded one.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedObject(*mut c_void);

// SAFETY: a handle of the loader's; any thread may use it.
unsafe impl Send for SharedObject {}
// SAFETY: as above.
unsafe impl Sync for SharedObject {}

impl SharedObject {
    /// Loads the one at `path`.
    ///
    /// # Errors
    /// The loader's words.
    pub(super) fn open(path: &Path) -> Result<SharedObject, String> {
        let c_path = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| "the path holds a null byte".to_owned())?;
        // SAFETY: a library of NVIDIA's; its initialisers are run, as any program's would be.
        let handle = unsafe { libc::dlopen(c_path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if !handle.is_null() {
            return Ok(SharedObject(handle));
        }
        // SAFETY: dlerror returns null or a C string, valid until the next call.
        let message = unsafe { libc::dlerror().as_ref().map(|text| CStr::from_ptr(text)) };
        let message = message.map(|text| text.to_string_lossy().into_owned());
        Err(message.unwrap_or_else(|| "unknown error".to_owned()))
    }

    /// The function called `symbol`.
    ///
    /// # Errors
    /// It has none.
    ///
    /// # Safety
    /// `F` must be the type of the function.
    pub(super) unsafe fn function<F: Copy>(&self, symbol: &CStr) -> Result<F, String> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the handle is open and stays so.
        let address = unsafe { libc::dlsym(self.0, symbol.as_ptr()) };
        if address.is_null() {
            return Err(format!("it has no {}", symbol.to_string_lossy()));
        }
        // SAFETY: promised by the caller; a function pointer is as large as any other.
        Ok(unsafe { std::mem::transmute_copy(&address) })
    }

    /// The file with the function called `symbol`.
    pub(super) fn file_of(&self, symbol: &CStr) -> Option<PathBuf> {
        // SAFETY: dladdr fills in the structure, with strings of the loader's, or returns 0.
        unsafe {
            let mut info: libc::Dl_info = std::mem::zeroed();
            let address = libc::dlsym(self.0, symbol.as_ptr());
            if libc::dladdr(address, &raw mut info) == 0 || info.dli_fname.is_null() {
                return None;
            }
            let path = CStr::from_ptr(info.dli_fname).to_bytes();
            Path::new(OsStr::from_bytes(path)).canonicalize().ok()
        }
    }
}
