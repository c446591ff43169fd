//! A compiled variant, loaded into this process.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::abi::{Abi, BindFn, CallFn, ThreadFn, ThreadPointers};

/// Why an artifact cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The system's loader refused it.
    #[error("cannot load {path}: {message}")]
    Open {
        path: String,
        /// The loader's words.
        message: String,
    },
    /// It is not an artifact of this version.
    #[error("{path} was built for another version of replay")]
    Version { path: String },
}

/// The entry points of an artifact; it stays loaded until the process ends.
#[derive(Clone, Copy)]
pub struct LoadedArtifact {
    bind: BindFn,
    thread: ThreadFn,
    call: CallFn,
}

impl LoadedArtifact {
    /// Loads the shared object at `path`.
    ///
    /// # Errors
    /// [`LoadError`] if it is not a shared object with the entry points.
    pub fn load(path: &Path) -> Result<LoadedArtifact, LoadError> {
        let name = path.display().to_string();
        let c_path = CString::new(path.as_os_str().as_bytes()).map_err(|_| LoadError::Open {
            path: name.clone(),
            message: "the path holds a null byte".to_owned(),
        })?;
        // SAFETY: runs the initialisers of the replayed code, as this process exists to do.
        let handle = unsafe { libc::dlopen(c_path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(LoadError::Open { path: name, message: last_error() });
        }
        // SAFETY: the headers define these functions with these types.
        unsafe {
            Ok(LoadedArtifact {
                bind: std::mem::transmute::<*mut c_void, BindFn>(find_symbol(
                    handle,
                    c"replay_bind",
                    &name,
                )?),
                thread: std::mem::transmute::<*mut c_void, ThreadFn>(find_symbol(
                    handle,
                    c"replay_thread",
                    &name,
                )?),
                call: std::mem::transmute::<*mut c_void, CallFn>(find_symbol(
                    handle,
                    c"replay_call",
                    &name,
                )?),
            })
        }
    }

    /// Hands the table to the artifact.
    ///
    /// # Errors
    /// [`LoadError::Version`] if the artifact's table has another size.
    pub fn bind(&self, abi: &'static Abi, rounding: i32, path: &Path) -> Result<(), LoadError> {
        // SAFETY: the table lives as long as the process.
        let status = unsafe { (self.bind)(abi, size_of::<Abi>(), rounding) };
        if status == 0 {
            Ok(())
        } else {
            Err(LoadError::Version { path: path.display().to_string() })
        }
    }

    /// The addresses of the built-in variables of the calling operating-system thread.
    pub fn thread_pointers(&self) -> ThreadPointers {
        let null = std::ptr::null_mut();
        let mut pointers = ThreadPointers {
            thread_idx: null,
            block_idx: null,
            block_dim: null,
            grid_dim: null,
            block: null.cast(),
            managed: [std::ptr::null_mut(); 2],
            has_host_algorithms: false,
        };
        // SAFETY: fills in the addresses of thread-local variables.
        unsafe { (self.thread)(&raw mut pointers) };
        pointers
    }

    /// Runs the harness's statements.
    ///
    /// # Safety
    /// `tensors`, `sizes` and `strides` must fit the artifact: pointers to
    /// tensors and scalars in the harness's order, sizes in the order of their names.
    pub unsafe fn call(&self, tensors: &[*mut c_void], sizes: &[i64], strides: &[*const i64]) {
        // SAFETY: promised by the caller.
        unsafe { (self.call)(tensors.as_ptr(), sizes.as_ptr(), strides.as_ptr()) };
    }
}

/// The address of `symbol` in the artifact at `path`, open as `handle`.
fn find_symbol(handle: *mut c_void, symbol: &CStr, path: &str) -> Result<*mut c_void, LoadError> {
    // SAFETY: the handle is open and stays so.
    let address = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
    if address.is_null() { Err(LoadError::Version { path: path.to_owned() }) } else { Ok(address) }
}

fn last_error() -> String {
    // SAFETY: dlerror returns null or a C string, valid until the next call.
    unsafe {
        let message = libc::dlerror();
        if message.is_null() {
            return "unknown error of the loader".to_owned();
        }
        CStr::from_ptr(message).to_string_lossy().into_owned()
    }
}
