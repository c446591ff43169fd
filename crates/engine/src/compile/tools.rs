//! The files of a compiler, and its linked files.

use std::path::PathBuf;

use super::{CompilerError, Toolchain};

/// The programs started by a compiler.
const PROGRAMS: [&str; 5] = ["cc1plus", "as", "collect2", "ld", "ld.gold"];

impl Toolchain {
    /// The programs behind a compilation, found once for each process.
    pub(super) fn tools(&self) -> Result<&[PathBuf], CompilerError> {
        if let Some(known_tools) = self.once.tools.get() {
            return Ok(known_tools);
        }
        let own_folders = match self.compiler().answer("-print-search-dirs", Some(&self.cache)) {
            Ok(answer) => search_folders(&answer),
            // If the compiler does not know the question, only PATH is searched.
            Err(CompilerError::NotACompiler { .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        let folders: Vec<PathBuf> = own_folders.into_iter().chain(path_folders()).collect();
        let started = PROGRAMS.iter().filter_map(|name| find_compiler_tool(name, &folders));
        let named_programs = self.compiler().words().iter().filter_map(|word| in_path(word));
        Ok(self.once.tools.get_or_init(|| named_programs.chain(started).collect()))
    }
}

fn path_folders() -> Vec<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect()
}

/// The program `word`: a path, or a name in `PATH`.
pub(super) fn in_path(word: &str) -> Option<PathBuf> {
    find_compiler_tool(word, &path_folders())
}

/// The compiler's folders of programs, in `text`, its answer.
fn search_folders(text: &str) -> Vec<PathBuf> {
    let line = text.lines().find_map(|line| line.strip_prefix("programs:"));
    let list = line.unwrap_or_default().trim().trim_start_matches('=');
    std::env::split_paths(list).filter(|folder| folder.is_absolute()).collect()
}

/// The program `name`: a path, or one of `folders`.
fn find_compiler_tool(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The files from outside in `trace`, a linker's list of its inputs: each line is a path, or an
/// archive in parentheses and its member.
pub(super) fn parse_linked_files(trace: &[u8]) -> Vec<PathBuf> {
    let text = String::from_utf8_lossy(trace);
    let paths = text.lines().map(|line| {
        let line = line.trim();
        let archive_text = line.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        PathBuf::from(archive_text.map_or(line, |(archive, _)| archive))
    });
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.is_absolute() && path.is_file()).collect();
    files.sort();
    files.dedup();
    files
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn programs_are_looked_for_where_the_compiler_says() {
        let text = "install: /usr/lib/gcc/\nprograms: =/usr/lib/gcc/:/usr/bin/\nlibraries: =/lib\n";
        assert_eq!(search_folders(text), [Path::new("/usr/lib/gcc/"), Path::new("/usr/bin/")]);
        assert_eq!(search_folders("no such option"), [] as [PathBuf; 0]);
    }

    #[test]
    fn what_was_linked_is_read_from_either_linkers_list() {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("libx.a");
        let object = folder.path().join("crt.o");
        std::fs::write(&archive, "").unwrap();
        std::fs::write(&object, "").unwrap();
        let trace = format!(
            "{}\nunit.o\n({})member.o\n/nonexistent/lib.so\n",
            object.display(),
            archive.display()
        );
        assert_eq!(parse_linked_files(trace.as_bytes()), [object, archive]);
    }
}
