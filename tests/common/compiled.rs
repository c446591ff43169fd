//! What tests compile by themselves, kept for their next run by content.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

/// With more entries than this all are made anew.
const MOST_KEPT: usize = 400;

/// A source to compile.
pub struct Compilation<'a> {
    /// The compiler, perhaps with options.
    pub compiler: &'a str,
    pub options: &'a [&'a str],
    /// The folders of its own headers.
    pub include: &'a [&'a Path],
    pub text: &'a str,
}

impl Compilation<'_> {
    /// The program, or the object file if the options say so.
    ///
    /// # Errors
    /// What the compiler says when it refuses the source.
    pub fn compile(&self) -> Result<PathBuf, String> {
        let place = kept_folder().join(self.key());
        if place.exists() {
            return Ok(place);
        }
        let folder = tempfile::tempdir_in(kept_folder()).expect("a folder");
        let source = folder.path().join("source.cpp");
        let made = folder.path().join("made");
        fs::write(&source, self.text).expect("a file");
        let mut command = start_command(self.compiler);
        command.args(self.options);
        for include in self.include {
            command.arg("-I").arg(include);
        }
        let output = command.arg(&source).arg("-o").arg(&made).output().expect("the compiler");
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        fs::rename(made, &place).expect("what was compiled");
        Ok(place)
    }

    fn key(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let version = version_of(self.compiler);
        for part in [self.compiler, &version, self.text].iter().chain(self.options) {
            hasher.update(&part.len().to_le_bytes()).update(part.as_bytes());
        }
        for include in self.include {
            hasher.update(hash_of(include).as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}

fn kept_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled");
        if fs::read_dir(&folder).is_ok_and(|entries| entries.count() > MOST_KEPT) {
            fs::remove_dir_all(&folder).expect("a folder");
        }
        fs::create_dir_all(&folder).expect("a folder");
        folder
    })
}

/// A command of `compiler`, with its own options.
fn start_command(compiler: &str) -> Command {
    let mut words = compiler.split_whitespace();
    let mut command = Command::new(words.next().expect("a compiler"));
    command.args(words);
    command
}

/// What `compiler` says of itself.
fn version_of(compiler: &str) -> String {
    static VERSIONS: Mutex<Option<HashMap<String, String>>> = Mutex::new(None);
    let mut versions = VERSIONS.lock().expect("no panic");
    let version = versions.get_or_insert_default().entry(compiler.to_owned());
    let version = version.or_insert_with(|| {
        let output = start_command(compiler).arg("--version").output().expect("the compiler");
        String::from_utf8_lossy(&output.stdout).into_owned()
    });
    version.clone()
}

/// The hash of all files below `folder`.
fn hash_of(folder: &Path) -> blake3::Hash {
    static HASHES: Mutex<Option<HashMap<PathBuf, blake3::Hash>>> = Mutex::new(None);
    let mut hashes = HASHES.lock().expect("no panic");
    *hashes.get_or_insert_default().entry(folder.to_owned()).or_insert_with(|| {
        let mut hasher = blake3::Hasher::new();
        add_files(folder, folder, &mut hasher);
        hasher.finalize()
    })
}

/// Adds the files below `folder` with their paths from `root`.
fn add_files(root: &Path, folder: &Path, hasher: &mut blake3::Hasher) {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            add_files(root, &path, hasher);
        } else {
            let content = blake3::hash(&fs::read(&path).expect("a file"));
            let name = path.strip_prefix(root).expect("it lies below").as_os_str();
            hasher.update(name.as_encoded_bytes()).update(content.as_bytes());
        }
    }
}

/// A line for the script of a compiler that counts its calls: without the linker gold each first link is tried twice.
pub fn refuse_missing_gold() -> &'static str {
    let mut command = start_command(&std::env::var("CXX").unwrap_or("g++".to_owned()));
    let asked = command.args(["-fuse-ld=gold", "-Wl,--version"]).output();
    if asked.is_ok_and(|asked| asked.status.success()) {
        return "";
    }
    "case \"$*\" in *-fuse-ld=gold*) exit 1;; esac\n"
}
