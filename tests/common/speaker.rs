//! A program that speaks the protocol of programs, in C++: `programs/speaker.cpp`.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The program, compiled once for its sources and the compiler.
pub fn speaker() -> &'static Path {
    static SPEAKER: OnceLock<PathBuf> = OnceLock::new();
    SPEAKER.get_or_init(|| {
        // Another machine may run the tests.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        fs::create_dir_all(folder).expect("a folder");
        let root = std::env::var_os("REPLAY_TEST_ROOT");
        let root = root.map_or(env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let sources = root.join("tests/programs");
        let cxx = std::env::var("CXX").unwrap_or("g++".to_owned());
        let mut hasher = DefaultHasher::new();
        cxx.hash(&mut hasher);
        for name in ["speaker.cpp", "attacks.h"] {
            fs::read(sources.join(name)).expect("a source").hash(&mut hasher);
        }
        let path = folder.join(format!("speaker-{:016x}", hasher.finish()));
        if path.exists() {
            return path;
        }
        let new = folder.join(format!("speaker-{}", std::process::id()));
        let mut words = cxx.split_whitespace();
        let mut command = Command::new(words.next().expect("a compiler"));
        command.args(words).args(["-std=c++17", "-O1", "-frounding-math", "-o"]).arg(&new);
        assert!(command.arg(sources.join("speaker.cpp")).status().expect("a compiler").success());
        fs::rename(new, &path).expect("a program");
        path
    })
}
