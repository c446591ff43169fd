//! Where in the sources an instruction of an artifact stands, by its tables of lines.

use std::path::Path;

use addr2line::Loader;

use super::image;

/// The tables of one artifact.
pub(super) struct LineTable {
    loader: Loader,
    base: usize,
}

impl LineTable {
    /// Those of the loaded artifact at `path`.
    pub(super) fn load(path: &Path) -> Option<LineTable> {
        let base = image::find_load_bias(path)?;
        Some(LineTable { loader: Loader::new(path).ok()?, base })
    }

    /// `file:line` of the call before the return address `address`, in the innermost of the user's functions.
    pub(super) fn site(&self, address: usize) -> Option<String> {
        // The call ends before its return address.
        let probe = address.checked_sub(1)?.checked_sub(self.base)? as u64;
        let mut frames = self.loader.find_frames(probe).ok()?;
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
            let Some(location) = frame.location else { continue };
            let (Some(file), Some(line)) = (location.file, location.line) else { continue };
            if let Some(file) = of_the_user(file)
                && !name.is_some_and(|name| copies_an_object(&name))
            {
                return Some(format!("{file}:{line}"));
            }
        }
        None
    }
}

/// Whether the function with the linkage name `name` copies or moves an object of a class (Itanium C++ ABI,
/// "Mangling"). g++ makes such functions for plain copies, with the line of the class: their caller is named instead.
fn copies_an_object(name: &str) -> bool {
    let Some((function, parameter)) = name.rsplit_once('E') else { return false };
    let is_it = ["C1", "C2", "C4", "aS"].iter().any(|kind| function.ends_with(kind));
    let class = parameter.strip_prefix("RK").or_else(|| parameter.strip_prefix('O'));
    is_it && class.is_some_and(|class| class.starts_with('S') && class.ends_with('_'))
}

/// The user's name of `file`; none for our headers and the system's.
fn of_the_user(file: &str) -> Option<&str> {
    let file = file.trim_start_matches("./");
    (!file.starts_with('/') && !file.starts_with("headers/"))
        .then(|| file.trim_start_matches("tree/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_ours_and_of_the_system_are_no_files_of_the_user() {
        assert_eq!(of_the_user("./tree/src/a.cu"), Some("src/a.cu"));
        assert_eq!(of_the_user("unit.cpp"), Some("unit.cpp"));
        for file in ["./headers/replay/atomics.h", "headers/cuda_fp16.h", "/usr/include/math.h"] {
            assert_eq!(of_the_user(file), None, "{file}");
        }
    }

    #[test]
    fn functions_that_copy_an_object_are_known_by_their_names() {
        for name in ["_ZN7WelfordC2ERKS_", "_ZN7WelfordaSEOS_", "_ZN2cu3VecIfEC1ERKS1_"] {
            assert!(copies_an_object(name), "{name}");
        }
        for name in ["_ZN3SumC2E7Welford", "_Z5merge7WelfordS_", "_ZN3SumplERKS_", "main", ""] {
            assert!(!copies_an_object(name), "{name}");
        }
    }
}
