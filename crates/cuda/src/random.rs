//! cuRAND's host API, NVIDIA's library of random numbers: found, loaded and called.
//!
//! It works on the current context, in its default stream.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::path::PathBuf;

use super::library::{Called, LibraryError, files_in};
use super::object::SharedObject;

/// Its description in errors.
static CALLED: Called =
    Called { file: "libcurand", package: "nvidia-curand", known: "cuRAND 10 is known to work" };

/// The newest libcurand in the first of `folders` with one.
///
/// # Errors
/// [`LibraryError::Missing`] names the folders.
pub fn find_curand(folders: &[PathBuf]) -> Result<PathBuf, LibraryError> {
    let library_path =
        folders.iter().find_map(|folder| files_in(folder, CALLED.file).into_iter().next());
    library_path.ok_or_else(|| CALLED.missing(folders))
}

/// `curandStatus_t`.
pub(crate) type CurandStatus = c_int;
const SUCCESS: CurandStatus = 0;

/// The library's answer to a request for a generator.
pub enum GeneratorAnswer {
    Made(Generator),
    Refused(CurandStatus),
}

/// A generator of the library.
#[derive(Clone, Copy, Debug)]
pub struct Generator(*mut c_void);

// SAFETY: a handle, used by one call at a time on the thread of the context.
unsafe impl Send for Generator {}

/// The distribution of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RandomDistribution {
    /// 32 random bits.
    Bits,
    /// Uniform floats above 0, up to 1.
    Uniform,
    /// Normal floats.
    Normal,
}

/// The loaded library.
#[derive(Debug)]
pub struct Random {
    path: PathBuf,
    object: SharedObject,
}

impl Random {
    /// Loads the library at `path`.
    ///
    /// # Errors
    /// [`LibraryError::Unusable`].
    pub fn open(path: PathBuf) -> Result<Random, LibraryError> {
        let object =
            SharedObject::open(&path).map_err(|message| CALLED.unusable(&path, message))?;
        Ok(Random { path, object })
    }

    /// # Safety
    /// `F` must be the type of the function.
    unsafe fn function<F: Copy>(&self, symbol: &CStr) -> Result<F, LibraryError> {
        // SAFETY: promised by the caller.
        let found_function = unsafe { self.object.function(symbol) };
        found_function.map_err(|message| CALLED.unusable(&self.path, message))
    }

    /// A generator of this `curandRngType_t`, or the library's status.
    ///
    /// # Errors
    /// [`LibraryError::Unusable`] if the library lacks it.
    pub fn create(&self, kind: c_int) -> Result<GeneratorAnswer, LibraryError> {
        let mut generator = std::ptr::null_mut();
        // SAFETY: the documented type; fills in a handle.
        let status = unsafe {
            let create: unsafe extern "C" fn(*mut *mut c_void, c_int) -> CurandStatus =
                self.function(c"curandCreateGenerator")?;
            create(&raw mut generator, kind)
        };
        Ok(if status == SUCCESS {
            GeneratorAnswer::Made(Generator(generator))
        } else {
            GeneratorAnswer::Refused(status)
        })
    }

    /// Sets the seed, or the place in the sequence.
    ///
    /// # Errors
    /// [`LibraryError::Unusable`] if the library lacks the function.
    pub fn set(
        &self,
        generator: Generator,
        seed: Option<u64>,
        offset: Option<u64>,
    ) -> Result<CurandStatus, LibraryError> {
        type Set = unsafe extern "C" fn(*mut c_void, u64) -> CurandStatus;
        let changes =
            [(c"curandSetPseudoRandomGeneratorSeed", seed), (c"curandSetGeneratorOffset", offset)];
        for (symbol, value) in changes {
            if let Some(value) = value {
                // SAFETY: the documented type.
                let status = unsafe { self.function::<Set>(symbol)?(generator.0, value) };
                if status != SUCCESS {
                    return Ok(status);
                }
            }
        }
        Ok(SUCCESS)
    }

    /// Writes `count` numbers of four bytes to `out`, normal ones of this mean and deviation.
    ///
    /// # Errors
    /// [`LibraryError::Unusable`] if the library lacks the function.
    ///
    /// # Safety
    /// `out` must be memory of the device with room for them.
    pub unsafe fn generate(
        &self,
        generator: Generator,
        numbers: RandomDistribution,
        (out, count): (*mut c_void, usize),
        (mean, deviation): (f32, f32),
    ) -> Result<CurandStatus, LibraryError> {
        type Plain = unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> CurandStatus;
        type Normal =
            unsafe extern "C" fn(*mut c_void, *mut c_void, usize, f32, f32) -> CurandStatus;
        let Generator(handle) = generator;
        // SAFETY: the documented types; the rest is promised by the caller.
        Ok(unsafe {
            match numbers {
                RandomDistribution::Bits => {
                    self.function::<Plain>(c"curandGenerate")?(handle, out, count)
                }
                RandomDistribution::Uniform => {
                    self.function::<Plain>(c"curandGenerateUniform")?(handle, out, count)
                }
                RandomDistribution::Normal => {
                    let normal: Normal = self.function(c"curandGenerateNormal")?;
                    normal(handle, out, count, mean, deviation)
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_curand_is_told_where_it_was_looked_for_and_what_to_install() {
        let error = find_curand(&["/opt/cuda/lib64".into(), "/usr/lib64/none".into()]).unwrap_err();
        let hint = error.hint();
        insta::assert_snapshot!(format!("{error}\n{hint}"), @r"
        no libcurand: looked in /opt/cuda/lib64, /usr/lib64/none
        install it with `pip install nvidia-curand` for CUDA 13, `pip install nvidia-curand-cu12` for CUDA 12, or name CUDA's folder in CUDA_HOME
        ");
    }

    #[test]
    fn what_is_no_library_is_refused_with_the_loader_s_words() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("libcurand.so.10"), "no library").unwrap();
        let path = find_curand(&[folder.path().to_owned()]).unwrap();
        let Err(LibraryError::Unusable { path, message, .. }) = Random::open(path) else {
            panic!("a text was loaded");
        };
        assert!(path.ends_with("libcurand.so.10"), "{path}");
        assert!(message.contains("file too short") || message.contains("ELF"), "{message}");
    }
}
