//! The C++ headers of artifacts and modules, embedded in the binary.
//!
//! A macro of the user's sources means nothing in them: every word of a header is undefined
//! while the compiler reads it, unless it is a macro of these headers or of the system's.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::LazyLock;
use std::{fs, io};

use include_dir::{Dir, include_dir};

static INCLUDE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/include");
static NVRTC: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/nvrtc");
/// The headers for the host compiler that NVRTC reads too.
const SHARED: [&str; 1] = ["replay/torch_kernels.h"];

/// A hash over the names and contents of the headers for the host compiler, and over what guards them.
pub fn hash_headers() -> blake3::Hash {
    static IDENTITY: LazyLock<blake3::Hash> = LazyLock::new(|| {
        let mut hasher = blake3::Hasher::new();
        hasher.update(hash_header_folder(&INCLUDE).as_bytes());
        hasher.update(include_bytes!("headers.rs"));
        hasher.finalize()
    });
    *IDENTITY
}

/// A hash over the names and contents of the headers for NVRTC.
pub fn device_identity() -> blake3::Hash {
    static IDENTITY: LazyLock<blake3::Hash> = LazyLock::new(|| {
        let mut hasher = blake3::Hasher::new();
        hasher.update(hash_header_folder(&NVRTC).as_bytes());
        for (_, content) in shared_headers() {
            hasher.update(content);
        }
        hasher.finalize()
    });
    *IDENTITY
}

fn hash_header_folder(dir: &Dir<'_>) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for_each(dir, &mut |path, content| {
        hasher.update(path.to_string_lossy().as_bytes());
        hasher.update(&(content.len() as u64).to_le_bytes());
        hasher.update(content);
        Ok(())
    })
    .expect("hashing does not fail");
    hasher.finalize()
}

/// Writes the headers for the host compiler into `folder`.
///
/// # Errors
/// The error of the file system.
pub fn write_headers(folder: &Path) -> io::Result<()> {
    static GUARDED: LazyLock<Vec<(&Path, Vec<u8>)>> = LazyLock::new(guard_headers);
    GUARDED.iter().try_for_each(|(path, content)| write_one(&folder.join(path), content))
}

/// A hash over the headers for the host compiler as they lie in `folder`.
///
/// # Errors
/// The error of the file system: one that is not there is among them.
pub fn hash_written_headers(folder: &Path) -> io::Result<blake3::Hash> {
    let mut files = Vec::new();
    collect_headers(&INCLUDE, &mut files);
    let guards = [Path::new(GUARD_BEGIN), Path::new(GUARD_END)];
    let mut hasher = blake3::Hasher::new();
    for path in files.iter().map(|file| file.path()).chain(guards) {
        let content = fs::read(folder.join(path))?;
        hasher.update(&(content.len() as u64).to_le_bytes());
        hasher.update(&content);
    }
    Ok(hasher.finalize())
}

/// The headers for the host compiler, each with the user's macros kept out.
fn guard_headers() -> Vec<(&'static Path, Vec<u8>)> {
    let mut files = Vec::new();
    collect_headers(&INCLUDE, &mut files);
    let texts: Vec<&str> =
        files.iter().map(|file| file.contents_utf8().unwrap_or_default()).collect();
    let own_macros: HashSet<&str> = texts.iter().copied().flat_map(header_macros).collect();
    let definition_words = texts.iter().copied().flat_map(macro_definitions).flat_map(header_words);
    let shared_names: BTreeSet<&str> =
        definition_words.filter(|word| needs_guard(word, &own_macros)).collect();
    let mut guarded_files = vec![
        (Path::new(GUARD_BEGIN), save_macros(&shared_names).into_bytes()),
        (Path::new(GUARD_END), restore_macros(&shared_names).into_bytes()),
    ];
    for (file, text) in files.iter().zip(texts) {
        let guarded_text = guard_header(text, &own_macros, &shared_names);
        guarded_files.push((file.path(), guarded_text.into_bytes()));
    }
    guarded_files
}

fn collect_headers<'d>(dir: &'d Dir<'d>, files: &mut Vec<&'d include_dir::File<'d>>) {
    files.extend(dir.files());
    dir.dirs().for_each(|dir| collect_headers(dir, files));
}

/// The headers with the lines for the words of these headers' macros, at the beginning and at the end of each other one.
const GUARD_BEGIN: &str = "replay/guard_begin.h";
const GUARD_END: &str = "replay/guard_end.h";

/// The headers' macros from the system's headers, and operators: no macro can be an operator.
const KEPT: [&str; 25] = [
    "and",
    "and_eq",
    "bitand",
    "bitor",
    "compl",
    "not",
    "not_eq",
    "or",
    "or_eq",
    "xor",
    "xor_eq",
    "CLOCKS_PER_SEC",
    "CLOCK_PROCESS_CPUTIME_ID",
    "INT32_MAX",
    "NULL",
    "assert",
    "defined",
    "errno",
    "stderr",
    "stdin",
    "stdout",
    "va_arg",
    "va_copy",
    "va_end",
    "va_start",
];

/// The names of the macros defined in `text`.
fn header_macros(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(defined_macro).filter_map(|definition| header_words(definition).next())
}

/// The lines of the definitions of macros in `text`.
fn macro_definitions(text: &str) -> impl Iterator<Item = &str> {
    let mut goes_on = false;
    text.lines().filter(move |line| {
        let is_part = goes_on || defined_macro(line).is_some();
        goes_on = is_part && line.ends_with('\\');
        is_part
    })
}

/// The macro defined by the line, if any.
fn defined_macro(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("define ")
}

/// The words of `code`.
fn header_words(code: &str) -> impl Iterator<Item = &str> {
    let parts = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    parts.filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}

/// `text` between lines that undefine its words and `shared_names`, the words of the headers' macros, and lines that
/// restore them.
fn guard_header(text: &str, own_macros: &HashSet<&str>, shared_names: &BTreeSet<&str>) -> String {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let code = code.filter(|line| !line.trim_start().starts_with("#include"));
    let names: BTreeSet<&str> = code
        .flat_map(header_words)
        .filter(|word| !shared_names.contains(word) && needs_guard(word, own_macros))
        .collect();
    let (saved, restored) = (save_macros(&names), restore_macros(&names));
    format!(
        "#include \"{GUARD_BEGIN}\"\n{saved}#line 1\n{text}\n{restored}#include \"{GUARD_END}\"\n"
    )
}

/// The lines to undefine the macros `names` until [`restore_macros`].
fn save_macros(names: &BTreeSet<&str>) -> String {
    let mut lines = String::new();
    for name in names {
        lines += &format!("#pragma push_macro(\"{name}\")\n#undef {name}\n");
    }
    lines
}

/// The lines to restore the macros `names`.
fn restore_macros(names: &BTreeSet<&str>) -> String {
    let mut lines = String::new();
    for name in names {
        lines += &format!("#pragma pop_macro(\"{name}\")\n");
    }
    lines
}

/// Whether a macro of the user's may be called `word`. Names with a prefix of CUDA's, of these headers or of the
/// compiler's stay as they are, and so do `own_macros`.
fn needs_guard(word: &str, own_macros: &HashSet<&str>) -> bool {
    !is_reserved_word(word) && !own_macros.contains(word) && !KEPT.contains(&word)
}

/// Whether `word` begins as the names of the compiler, of CUDA and of these headers do.
fn is_reserved_word(word: &str) -> bool {
    ["__", "cu", "CU", "replay", "REPLAY"].iter().any(|prefix| word.starts_with(prefix))
}

/// Writes the headers for NVRTC into `replay_nvrtc` in `folder`.
///
/// # Errors
/// The error of the file system.
pub fn write_device(folder: &Path) -> io::Result<()> {
    let folder = folder.join("replay_nvrtc");
    write_header_folder(&NVRTC, &folder)?;
    shared_headers().try_for_each(|(name, content)| write_one(&folder.join(name), content))
}

/// The names and contents of [`SHARED`].
fn shared_headers() -> impl Iterator<Item = (&'static std::ffi::OsStr, &'static [u8])> {
    SHARED.iter().filter_map(|path| INCLUDE.get_file(path)).filter_map(|file| {
        let name = file.path().file_name()?;
        Some((name, file.contents()))
    })
}

fn write_header_folder(dir: &Dir<'_>, folder: &Path) -> io::Result<()> {
    for_each(dir, &mut |path, content| write_one(&folder.join(path), content))
}

fn write_one(path: &Path, content: &[u8]) -> io::Result<()> {
    match fs::write(path, content) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(path.parent().expect("a header lies in a folder"))?;
            fs::write(path, content)
        }
        written => written,
    }
}

fn for_each(
    dir: &Dir<'_>,
    visit: &mut impl FnMut(&Path, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    for file in dir.files() {
        visit(file.path(), file.contents())?;
    }
    dir.dirs().try_for_each(|dir| for_each(dir, visit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_of_the_user_end_where_a_header_begins() {
        let own = HashSet::from(["REAL"]);
        let text =
            "#include <stdio.h>\ntemplate <class T> REAL f(T x); // by hand\n__device__ int n;";
        let shared = BTreeSet::from(["f"]);
        insta::assert_snapshot!(guard_header(text, &own, &shared), @r#"
        #include "replay/guard_begin.h"
        #pragma push_macro("T")
        #undef T
        #pragma push_macro("class")
        #undef class
        #pragma push_macro("int")
        #undef int
        #pragma push_macro("n")
        #undef n
        #pragma push_macro("template")
        #undef template
        #pragma push_macro("x")
        #undef x
        #line 1
        #include <stdio.h>
        template <class T> REAL f(T x); // by hand
        __device__ int n;
        #pragma pop_macro("T")
        #pragma pop_macro("class")
        #pragma pop_macro("int")
        #pragma pop_macro("n")
        #pragma pop_macro("template")
        #pragma pop_macro("x")
        #include "replay/guard_end.h"
        "#);
        insta::assert_snapshot!(save_macros(&shared), @r#"
        #pragma push_macro("f")
        #undef f
        "#);
    }
}
