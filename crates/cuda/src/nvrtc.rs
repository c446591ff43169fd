//! NVRTC, NVIDIA's compiler for device code as a library: found, loaded and called.
//!
//! Text in, machine code out; `compile::nvrtc` decides about its input and the place of its output. Needs
//! no device and no driver.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::library::{SearchPath, files_in, format_searched_places, list_installation_folders};
use super::object::SharedObject;

/// Why NVRTC cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NvrtcError {
    /// It was found nowhere.
    #[error("no libnvrtc: looked in {}", format_searched_places(.looked))]
    Missing {
        /// The searched places.
        looked: Vec<String>,
    },
    /// It was found, and the system's loader refused it.
    #[error("cannot load {path}: {message}")]
    Load {
        path: String,
        /// The loader's words.
        message: String,
    },
    /// It lacks a function, or a function failed for no reason in the source.
    #[error("{function} of {path} failed: {message}")]
    Call {
        path: String,
        function: &'static str,
        /// NVRTC's words.
        message: String,
    },
    /// Another of the same version is in use.
    #[error("{path} is NVRTC {major}.{minor}, and so is {used}, which this process works with")]
    Mixed {
        path: String,
        major: i32,
        minor: i32,
        /// The one in use.
        used: String,
    },
}

impl NvrtcError {
    /// A hint for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            NvrtcError::Missing { .. } | NvrtcError::Load { .. } => {
                "install it with `pip install nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-cccl`, \
                 or name CUDA's folder in CUDA_HOME"
                    .to_owned()
            }
            NvrtcError::Call { .. } => "NVRTC 12 and 13 are known to work".to_owned(),
            NvrtcError::Mixed { .. } => {
                "their built-in code is in files of the same name: name one of each version".to_owned()
            }
        })
    }
}

type NvrtcProgram = *mut c_void;
type NvrtcStatus = c_int;

/// The functions of NVRTC (NVRTC documentation, "User Interface").
#[derive(Clone, Copy)]
struct Functions {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> NvrtcStatus,
    error_string: unsafe extern "C" fn(NvrtcStatus) -> *const c_char,
    create: unsafe extern "C" fn(
        *mut NvrtcProgram,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> NvrtcStatus,
    destroy: unsafe extern "C" fn(*mut NvrtcProgram) -> NvrtcStatus,
    add_name: unsafe extern "C" fn(NvrtcProgram, *const c_char) -> NvrtcStatus,
    compile: unsafe extern "C" fn(NvrtcProgram, c_int, *const *const c_char) -> NvrtcStatus,
    lowered_name:
        unsafe extern "C" fn(NvrtcProgram, *const c_char, *mut *const c_char) -> NvrtcStatus,
    log_size: unsafe extern "C" fn(NvrtcProgram, *mut usize) -> NvrtcStatus,
    log: unsafe extern "C" fn(NvrtcProgram, *mut c_char) -> NvrtcStatus,
    image_size: unsafe extern "C" fn(NvrtcProgram, *mut usize) -> NvrtcStatus,
    image: unsafe extern "C" fn(NvrtcProgram, *mut c_char) -> NvrtcStatus,
    ptx_size: unsafe extern "C" fn(NvrtcProgram, *mut usize) -> NvrtcStatus,
    ptx: unsafe extern "C" fn(NvrtcProgram, *mut c_char) -> NvrtcStatus,
}

const SUCCESS: NvrtcStatus = 0;
/// `NVRTC_ERROR_COMPILATION`.
const COMPILATION: NvrtcStatus = 6;

/// The loaded library; it stays loaded until the process ends.
#[derive(Clone)]
pub struct Nvrtc {
    path: PathBuf,
    version: (i32, i32),
    functions: Functions,
}

/// Two are the same if their files are.
impl PartialEq for Nvrtc {
    fn eq(&self, other: &Nvrtc) -> bool {
        self.path == other.path
    }
}

impl Eq for Nvrtc {}

impl std::fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nvrtc").field("path", &self.path).field("version", &self.version).finish()
    }
}

/// The result of compiling a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Machine code (a cubin).
    pub code: Vec<u8>,
    /// The PTX before its assembly.
    pub ptx: String,
    /// The name in the code of each requested expression, in the same order.
    pub names: Vec<String>,
}

/// NVRTC's result for a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NvrtcAnswer {
    /// It compiles.
    Compiled(Image),
    /// It does not: NVRTC's log says why.
    Rejected {
        /// The log.
        log: String,
    },
}

impl Nvrtc {
    /// Loads the libnvrtc of `search`, else the one of the system's loader.
    ///
    /// # Errors
    /// [`NvrtcError::Missing`] names every place; [`NvrtcError::Load`] if the found one does not
    /// load.
    pub fn find(search: &SearchPath) -> Result<Nvrtc, NvrtcError> {
        let mut looked = vec!["the default search path".to_owned()];
        for name in ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"] {
            if let Ok(nvrtc) = Nvrtc::load(Path::new(name)) {
                return Ok(nvrtc);
            }
        }
        let mut first_error = None;
        for folder in search.library_folders() {
            for path in files_in(&folder, "libnvrtc") {
                match Nvrtc::load(&path) {
                    Ok(nvrtc) => return Ok(nvrtc),
                    Err(error) => first_error = first_error.or(Some(error)),
                }
            }
            looked.push(folder.display().to_string());
        }
        Err(first_error.unwrap_or(NvrtcError::Missing { looked }))
    }

    /// Loads the libnvrtc at `place`: the library itself, a folder with it, an installation of CUDA, or a folder of Python's
    /// packages.
    ///
    /// # Errors
    /// [`NvrtcError::Missing`] names the folders; [`NvrtcError::Load`] if the found one does not load;
    /// [`NvrtcError::Mixed`] if this process works with another of the same version.
    pub fn open(place: &Path) -> Result<Nvrtc, NvrtcError> {
        let folders = list_installation_folders(place);
        let file = if place.is_file() {
            Some(place.to_owned())
        } else {
            folders.iter().flat_map(|folder| files_in(folder, "libnvrtc")).next()
        };
        let looked = || folders.iter().map(|folder| folder.display().to_string()).collect();
        let nvrtc = Nvrtc::load(&file.ok_or_else(|| NvrtcError::Missing { looked: looked() })?)?;
        nvrtc.claim_version()?;
        Ok(nvrtc)
    }

    /// Takes its version for this process, and loads its built-in code. NVRTC itself loads that by a name with the version alone:
    /// a second one of this version would work with that of the first, and one outside of the search path with none.
    fn claim_version(&self) -> Result<(), NvrtcError> {
        static IN_USE: Mutex<BTreeMap<(i32, i32), PathBuf>> = Mutex::new(BTreeMap::new());
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        let (major, minor) = self.version;
        let used = in_use.entry(self.version).or_insert_with(|| {
            let built_in =
                self.path.with_file_name(format!("libnvrtc-builtins.so.{major}.{minor}"));
            // Where it lies elsewhere, NVRTC finds it by itself.
            let _ = SharedObject::open(&built_in);
            self.path.clone()
        });
        if *used == self.path {
            return Ok(());
        }
        let path = self.path.display().to_string();
        Err(NvrtcError::Mixed { path, major, minor, used: used.display().to_string() })
    }

    fn load(path: &Path) -> Result<Nvrtc, NvrtcError> {
        let name = path.display().to_string();
        let load_error = |message: String| NvrtcError::Load { path: name.clone(), message };
        let object = SharedObject::open(path).map_err(load_error)?;
        // SAFETY: NVRTC's documentation gives these functions these types.
        let functions = unsafe {
            Functions {
                version: object.function(c"nvrtcVersion").map_err(load_error)?,
                error_string: object.function(c"nvrtcGetErrorString").map_err(load_error)?,
                create: object.function(c"nvrtcCreateProgram").map_err(load_error)?,
                destroy: object.function(c"nvrtcDestroyProgram").map_err(load_error)?,
                add_name: object.function(c"nvrtcAddNameExpression").map_err(load_error)?,
                compile: object.function(c"nvrtcCompileProgram").map_err(load_error)?,
                lowered_name: object.function(c"nvrtcGetLoweredName").map_err(load_error)?,
                log_size: object.function(c"nvrtcGetProgramLogSize").map_err(load_error)?,
                log: object.function(c"nvrtcGetProgramLog").map_err(load_error)?,
                image_size: object.function(c"nvrtcGetCUBINSize").map_err(load_error)?,
                image: object.function(c"nvrtcGetCUBIN").map_err(load_error)?,
                ptx_size: object.function(c"nvrtcGetPTXSize").map_err(load_error)?,
                ptx: object.function(c"nvrtcGetPTX").map_err(load_error)?,
            }
        };
        let path = object.file_of(c"nvrtcVersion").unwrap_or_else(|| path.to_owned());
        let mut nvrtc = Nvrtc { path, version: (0, 0), functions };
        let major = &mut nvrtc.version.0;
        let minor = &mut nvrtc.version.1;
        // SAFETY: fills in two integers.
        let status = unsafe { (functions.version)(major, minor) };
        nvrtc.check("nvrtcVersion", status)?;
        Ok(nvrtc)
    }

    /// The library's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Major and minor version.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    fn check(&self, function: &'static str, status: NvrtcStatus) -> Result<(), NvrtcError> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: NVRTC returns a literal for any number.
        let message = unsafe { CStr::from_ptr((self.functions.error_string)(status)) };
        let message = message.to_string_lossy().into_owned();
        Err(NvrtcError::Call { path: self.path.display().to_string(), function, message })
    }

    /// Compiles `source` with each of `expressions` (a kernel, or `&` and a variable) as part
    /// of the result.
    ///
    /// # Errors
    /// [`NvrtcError::Call`] if NVRTC fails for another reason; [`NvrtcError::Mixed`] as for [`Nvrtc::open`].
    pub fn compile(
        &self,
        source: &str,
        options: &[String],
        expressions: &[String],
    ) -> Result<NvrtcAnswer, NvrtcError> {
        self.claim_version()?;
        let program = OpenProgram::new(self, source)?;
        let expressions = c_strings(expressions);
        for expression in &expressions {
            // SAFETY: the program is open, the expression a C string.
            let status = unsafe { (self.functions.add_name)(program.handle, expression.as_ptr()) };
            self.check("nvrtcAddNameExpression", status)?;
        }
        let options = c_strings(options);
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = pointers.len() as c_int;
        // SAFETY: as many C strings as the count says.
        let status = unsafe { (self.functions.compile)(program.handle, count, pointers.as_ptr()) };
        if status == COMPILATION {
            return Ok(NvrtcAnswer::Rejected { log: program.log()? });
        }
        self.check("nvrtcCompileProgram", status)?;
        let names = expressions.iter().map(|expression| program.lowered_name(expression));
        let names = names.collect::<Result<_, _>>()?;
        let code = program.bytes("nvrtcGetCUBIN", self.functions.image_size, self.functions.image);
        let ptx = program.bytes("nvrtcGetPTX", self.functions.ptx_size, self.functions.ptx)?;
        let ptx = String::from_utf8_lossy(&ptx).trim_end_matches('\0').to_owned();
        Ok(NvrtcAnswer::Compiled(Image { code: code?, ptx, names }))
    }
}

/// The C strings of `texts`, each cut at its first null byte; no valid text has one.
fn c_strings(texts: &[String]) -> Vec<CString> {
    let valid_texts = texts.iter().map(|text| text.split('\0').next().unwrap_or_default());
    valid_texts.map(|text| CString::new(text).unwrap_or_default()).collect()
}

struct OpenProgram<'n> {
    nvrtc: &'n Nvrtc,
    handle: NvrtcProgram,
}

impl<'n> OpenProgram<'n> {
    fn new(nvrtc: &'n Nvrtc, source: &str) -> Result<OpenProgram<'n>, NvrtcError> {
        let source = CString::new(source.replace('\0', " ")).unwrap_or_default();
        let mut handle = std::ptr::null_mut();
        let no_headers = std::ptr::null();
        // SAFETY: C strings, copied by NVRTC, and no headers.
        let status = unsafe {
            let name = c"unit.cu".as_ptr();
            (nvrtc.functions.create)(
                &raw mut handle,
                source.as_ptr(),
                name,
                0,
                no_headers,
                no_headers,
            )
        };
        nvrtc.check("nvrtcCreateProgram", status)?;
        Ok(OpenProgram { nvrtc, handle })
    }

    fn lowered_name(&self, expression: &CStr) -> Result<String, NvrtcError> {
        let mut name = std::ptr::null();
        // SAFETY: the program is compiled; the name lives as long as it.
        let status = unsafe {
            (self.nvrtc.functions.lowered_name)(self.handle, expression.as_ptr(), &raw mut name)
        };
        self.nvrtc.check("nvrtcGetLoweredName", status)?;
        // SAFETY: set by the successful call above.
        Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }

    fn log(&self) -> Result<String, NvrtcError> {
        let functions = &self.nvrtc.functions;
        let log = self.bytes("nvrtcGetProgramLog", functions.log_size, functions.log)?;
        Ok(String::from_utf8_lossy(&log).trim_end_matches(['\0', '\n']).to_owned())
    }

    fn bytes(
        &self,
        function: &'static str,
        size: unsafe extern "C" fn(NvrtcProgram, *mut usize) -> NvrtcStatus,
        get: unsafe extern "C" fn(NvrtcProgram, *mut c_char) -> NvrtcStatus,
    ) -> Result<Vec<u8>, NvrtcError> {
        let mut bytes = 0;
        // SAFETY: fills in a size.
        self.nvrtc.check(function, unsafe { size(self.handle, &raw mut bytes) })?;
        let mut buffer = vec![0u8; bytes];
        // SAFETY: the buffer is as large as the call above said.
        self.nvrtc.check(function, unsafe { get(self.handle, buffer.as_mut_ptr().cast()) })?;
        Ok(buffer)
    }
}

impl Drop for OpenProgram<'_> {
    fn drop(&mut self) {
        // SAFETY: destroyed once. A failure would leave memory behind, nothing else.
        unsafe { (self.nvrtc.functions.destroy)(&raw mut self.handle) };
    }
}
