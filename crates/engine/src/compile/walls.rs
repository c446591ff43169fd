//! What a compiler may reach: what it is made of, and the folders that its own words name. Sources reach nothing else by `#include`, `__has_include` and `.incbin`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::tools;
use replay_base::process::walls::{
    Connections, PROCESSES, Walls, list_entries, list_program_folders,
};

/// Commands before a compiler that reach others: servers, machines.
const CONNECTING: [&str; 3] = ["sccache", "distcc", "icecc"];

/// The walls of a compiler started by `words` in `environment`. The first `command_length` words are those of the user.
pub(super) fn compiler_walls(
    words: &[OsString],
    command_length: usize,
    environment: &[(OsString, OsString)],
) -> Walls {
    let value = |name: &str| {
        environment.iter().find(|(known_name, _)| known_name == name).map(|(_, value)| value)
    };
    let home = value("HOME").map(PathBuf::from).or_else(std::env::home_dir).unwrap_or_default();
    let programs: Vec<PathBuf> = words[..command_length]
        .iter()
        .filter_map(|word| tools::in_path(word.to_str()?))
        .flat_map(|program| [program.canonicalize().ok(), Some(program)])
        .flatten()
        .collect();
    let mut readable: Vec<PathBuf> =
        programs.iter().flat_map(|program| list_program_folders(program, &home)).collect();
    for name in ["PATH", "LD_LIBRARY_PATH"] {
        let folders = value(name).into_iter().flat_map(std::env::split_paths);
        let folders = folders.filter(|folder| folder.is_absolute());
        readable.extend(folders.flat_map(|folder| list_program_folders(&folder.join("x"), &home)));
    }
    readable.extend(words.iter().filter_map(|word| named_path(word)));
    readable.push(PROCESSES.into());
    let is_behind = |command: &str| {
        let names = programs.iter().filter_map(|program| program.file_name()?.to_str());
        names.into_iter().any(|name| name.contains(command))
    };
    if is_behind("ccache") {
        // Its settings; it keeps nothing.
        readable.extend([".ccache/ccache.conf", ".config/ccache"].map(|name| home.join(name)));
    }
    let is_connecting = CONNECTING.into_iter().any(is_behind);
    let connections = if is_connecting { Connections::All } else { Connections::None };
    Walls { readable, connections, ..Walls::default() }
}

/// What the system tells of the machine. What it tells of processes is left out: those of this process are its user's.
const MACHINE_FILES: [&str; 3] = ["/proc/cpuinfo", "/proc/meminfo", "/proc/stat"];

/// The walls of the NVRTC in `library`, which works in this process on `folder`, with headers in `include_folders`.
pub(super) fn nvrtc_walls(library: &Path, folder: &Path, include_folders: &[PathBuf]) -> Walls {
    let is_nvrtc = |name: &[u8]| name.starts_with(b"libnvrtc");
    let beside = library.parent().map(|folder| list_entries(folder, is_nvrtc));
    let search_path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let library_folders = std::env::split_paths(&search_path).filter(|folder| folder.is_absolute());
    let mut readable: Vec<PathBuf> = beside.into_iter().flatten().chain(library_folders).collect();
    readable.extend(MACHINE_FILES.map(PathBuf::from));
    readable.extend_from_slice(include_folders);
    Walls { readable, writable: vec![folder.to_owned()], ..Walls::default() }
}

/// The absolute path that a word of a command names, by itself or behind an option as in `-I/opt/include`.
fn named_path(word: &OsStr) -> Option<PathBuf> {
    let bytes = word.as_bytes();
    let start = bytes.iter().position(|&byte| byte == b'/')?;
    // A macro is no path.
    (start == 0 || !bytes.starts_with(b"-D"))
        .then(|| PathBuf::from(OsStr::from_bytes(&bytes[start..])))
        .filter(|path| start == 0 || is_option_beginning(&bytes[..start]) && path.is_absolute())
}

/// Whether `text` is an option up to its value, and no relative path.
fn is_option_beginning(text: &[u8]) -> bool {
    text.starts_with(b"-") && (text.len() == 2 || text.ends_with(b"="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_command_name_what_it_may_read() {
        let named =
            |word: &str| named_path(OsStr::new(word)).map(|path| path.display().to_string());
        assert_eq!(named("/opt/include").as_deref(), Some("/opt/include"));
        assert_eq!(named("-I/opt/include").as_deref(), Some("/opt/include"));
        assert_eq!(named("--sysroot=/opt/sdk").as_deref(), Some("/opt/sdk"));
        for word in ["-Itree/src", "-DHOME=/home/me", "unit.cpp", "-fdebug-prefix-map=a/b=."] {
            assert_eq!(named(word), None, "{word}");
        }
    }

    #[test]
    fn a_compiler_reads_its_installation_and_a_command_before_it_its_settings() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let home = folder.join("me");
        let path = format!("/tools/bin:{0}/.cargo/bin:{0}:bin", home.display());
        let environment = [("HOME".into(), home.clone().into()), ("PATH".into(), path.into())];
        std::fs::create_dir_all(home.join("gcc/bin")).unwrap();
        let walls = |name: &str| {
            let program = home.join("gcc/bin").join(name);
            std::fs::write(&program, "").unwrap();
            compiler_walls(&[program.into(), "-O2".into()], 1, &environment)
        };
        let plain = walls("g++");
        assert!(plain.readable.contains(&home.join("gcc")), "{plain:?}");
        assert!(plain.readable.contains(&"/tools".into()), "{plain:?}");
        assert!(plain.readable.contains(&home.join(".cargo/bin")), "{plain:?}");
        for hidden in [&home, &home.join(".cargo"), &home.join(".config/ccache")] {
            assert!(!plain.readable.contains(hidden), "{plain:?}");
        }
        assert!(plain.writable.is_empty() && plain.connections == Connections::None);
        assert!(walls("ccache").readable.contains(&home.join(".config/ccache")));
        assert_eq!(walls("sccache").connections, Connections::All);
    }
}
