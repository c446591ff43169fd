//! The folders in which an artifact asks for its libraries: compilers outside of the system write their own there.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::LittleEndian;
use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn, FileHeader};

/// The absolute run paths of `artifact`, but for folders with `home` in them; none of a file that is no ELF file.
pub(super) fn list_run_paths(artifact: &Path, home: &Path) -> Vec<PathBuf> {
    let bytes = std::fs::read(artifact).unwrap_or_default();
    let mut run_paths = parse_run_paths(&bytes).unwrap_or_default();
    run_paths.retain(|folder| folder.is_absolute() && !home.starts_with(folder));
    run_paths
}

fn parse_run_paths(bytes: &[u8]) -> Result<Vec<PathBuf>, object::Error> {
    let header = FileHeader64::<LittleEndian>::parse(bytes)?;
    let sections = header.sections(LittleEndian, bytes)?;
    let Some((entries, strings)) = sections.dynamic(LittleEndian, bytes)? else {
        return Ok(Vec::new());
    };
    let strings = sections.strings(LittleEndian, bytes, strings)?;
    let mut run_paths = Vec::new();
    for entry in entries {
        let tag = entry.d_tag(LittleEndian);
        if [elf::DT_RPATH, elf::DT_RUNPATH].contains(&tag) {
            let list = entry.string(LittleEndian, strings)?;
            run_paths.extend(std::env::split_paths(OsStr::from_bytes(list)));
        }
    }
    Ok(run_paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_paths_of_a_library_are_those_that_the_linker_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let [source, library] = ["a.cpp", "a.so"].map(|name| folder.path().join(name));
        std::fs::write(&source, "int one() { return 1; }").unwrap();
        let flags = ["-shared", "-fPIC", "-Wl,-rpath,/opt/a/lib:$ORIGIN:/home/me/env/lib:/home"];
        let mut compiler = std::process::Command::new("g++");
        compiler.args(flags).arg(&source).arg("-o").arg(&library);
        assert!(compiler.status().unwrap().success());
        let run_paths = list_run_paths(&library, Path::new("/home/me"));
        assert_eq!(run_paths, ["/opt/a/lib", "/home/me/env/lib"].map(PathBuf::from));
        assert_eq!(list_run_paths(&source, Path::new("/home/me")), [""; 0].map(PathBuf::from));
    }
}
