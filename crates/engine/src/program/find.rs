//! Finds the programs and files behind the words of a command.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::ProgramError;

/// Endings of scripts: a word with one of them is a file.
const SCRIPTS: [&str; 9] = ["py", "sh", "bash", "pl", "rb", "jl", "lua", "js", "r"];

/// The executable behind `word`: a path is relative to `folder`, a bare name is searched in `path`.
pub(super) fn find_program_executable(
    word: &str,
    folder: &Path,
    path: Option<&OsStr>,
) -> Result<PathBuf, ProgramError> {
    if word.contains('/') {
        let named_file = folder.join(word);
        return if named_file.is_file() {
            Ok(named_file)
        } else {
            Err(ProgramError::NotFound { program: word.to_owned(), looked: None })
        };
    }
    let path = path.map(OsString::from).unwrap_or_default();
    let candidates = std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty());
    let program_file = candidates.map(|folder| folder.join(word)).find(|file| can_be_run(file));
    program_file.ok_or_else(|| ProgramError::NotFound {
        program: word.to_owned(),
        looked: Some(path.to_string_lossy().into_owned()),
    })
}

fn can_be_run(file: &Path) -> bool {
    std::fs::metadata(file)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// The files of a command: those its words name. A script in the harness's folder may load others of its kind
/// beside it: they belong to the command too.
pub(super) fn find_command_files(
    words: &[String],
    folder: &Path,
) -> Result<Vec<PathBuf>, ProgramError> {
    let mut files = Vec::new();
    for (number, word) in words.iter().enumerate() {
        let path = folder.join(word);
        let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default().to_owned();
        let is_script = SCRIPTS.contains(&extension.as_str()) && !word.starts_with('-');
        if path.is_file() && (number > 0 || word.contains('/')) {
            if is_script && let Some(script_folder) = path.parent() {
                files.extend(list_sibling_scripts(script_folder, &extension));
            }
            files.push(path);
        } else if number > 0 && is_script && !path.exists() {
            return Err(ProgramError::NoFile { path });
        }
    }
    files.sort();
    files.dedup();
    Ok(files)
}

/// The files in `folder` with this extension.
fn list_sibling_scripts(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.extension().and_then(OsStr::to_str) == Some(extension))
        .filter(|path| path.is_file())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_brings_its_neighbours_and_must_exist() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["step.py", "helper.py", "notes.txt"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let names = |words: &[String]| {
            let found = find_command_files(words, folder.path()).unwrap();
            let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
            found.iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(names(&words(&["python3", "step.py", "--fast"])), ["helper.py", "step.py"]);
        assert_eq!(names(&words(&["cat", "notes.txt"])), ["notes.txt"]);
        assert_eq!(names(&words(&["python3", "-m", "step"])), Vec::<String>::new());
        let error = find_command_files(&words(&["python3", "stpe.py"]), folder.path()).unwrap_err();
        assert!(matches!(error, ProgramError::NoFile { .. }), "{error}");
    }

    #[test]
    fn a_bare_name_is_looked_for_where_path_says() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tool");
        std::fs::write(&file, "").unwrap();
        let path = folder.path().as_os_str();
        let found = || find_program_executable("tool", Path::new("/"), Some(path));
        assert!(found().is_err(), "it cannot be run");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(found().unwrap(), file);
        assert_eq!(
            find_program_executable("./tool", folder.path(), None).unwrap(),
            folder.path().join("./tool")
        );
        assert!(find_program_executable("../tool", folder.path(), Some(path)).is_err());
    }
}
