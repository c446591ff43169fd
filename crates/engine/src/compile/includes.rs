//! The `#include` lines of a text, and all files within their reach.
//!
//! Lines below false conditions count too, and so does a name's file in each folder. So the result covers every file
//! the compiler reads, except for names from macros.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::encoding::decode_source;
use super::outside_files::normalise_lexically;

/// The included names of `text`, each with its line.
pub(super) fn find_include_names(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().zip(1..).filter_map(|(line, number)| Some((number, name_in(line)?)))
}

fn name_in(line: &str) -> Option<&str> {
    let include_text = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
    let include_text = include_text.trim_start();
    let closing_quote = match include_text.as_bytes().first()? {
        b'"' => '"',
        b'<' => '>',
        _ => return None,
    };
    include_text[1..].split_once(closing_quote).map(|(name, _)| name)
}

/// The files included by `texts`, directly or through other files, in `folders` or at absolute paths.
pub(super) fn find_reachable_files<'t>(
    texts: impl IntoIterator<Item = &'t str>,
    folders: &[PathBuf],
) -> BTreeSet<PathBuf> {
    let mut found_paths = BTreeSet::new();
    let mut pending_paths = Vec::new();
    for text in texts {
        pending_paths.extend(list_included_files(text, None, folders));
    }
    while let Some(path) = pending_paths.pop() {
        if found_paths.contains(&path) {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        let text = decode_source(&bytes).text;
        pending_paths.extend(list_included_files(&text, path.parent(), folders));
        found_paths.insert(path);
    }
    found_paths
}

/// The files included by `text` itself, from the folder of `text` where it is known, and from `folders`.
fn list_included_files(
    text: &str,
    including_folder: Option<&Path>,
    folders: &[PathBuf],
) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for (_, name) in find_include_names(text) {
        for folder in including_folder.into_iter().chain(folders.iter().map(PathBuf::as_path)) {
            // An absolute path stays absolute.
            paths.push(normalise_lexically(&folder.join(name)));
        }
    }
    paths.retain(|path| path.is_file());
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_headers_include_is_found_through_folders_and_beside_them() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        };
        let one = write("cuda/one.h", "#include \"parts/two.h\"\n# include <three.h>\n");
        let two = write("cuda/parts/two.h", "#include \"../one.h\"\n#include \"near.h\"\n");
        let near = write("cuda/parts/near.h", "");
        std::fs::write(&near, b"// \xff #include <other.h>\n").unwrap();
        let three = write("more/three.h", "#include MACRO\n#include <absent.h>\n");
        write("cuda/other.h", "");
        let alone = write("alone.h", "");
        let text = format!("#include <one.h>\n#include \"{}\"\n", alone.display());
        let folders = [folder.path().join("cuda"), folder.path().join("more")];
        let expected = BTreeSet::from([one, two, near, three, alone]);
        assert_eq!(find_reachable_files([text.as_str()], &folders), expected);
    }
}
