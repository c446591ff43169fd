//! The `#include` lines of a text, and all files that they can lead to.
//!
//! Lines that conditions leave out count too, and so does each folder in which a name is found, so
//! that every file that is read is among the result. A name that comes from a macro is not seen.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::encoding::decode;
use super::outside::lexically;

/// The names that `text` includes, each with its line.
pub(super) fn names(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().zip(1..).filter_map(|(line, number)| Some((number, name_in(line)?)))
}

fn name_in(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
    let rest = rest.trim_start();
    let close = match rest.as_bytes().first()? {
        b'"' => '"',
        b'<' => '>',
        _ => return None,
    };
    rest[1..].split_once(close).map(|(name, _)| name)
}

/// The files that `texts` include, directly or through other files: those in `folders`, or at
/// absolute paths.
pub(super) fn reachable<'t>(
    texts: impl IntoIterator<Item = &'t str>,
    folders: &[PathBuf],
) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = Vec::new();
    let mut meet = |name: &str, beside: Option<&Path>, open: &mut Vec<PathBuf>| {
        // An absolute path stays absolute.
        let all = beside.into_iter().chain(folders.iter().map(PathBuf::as_path));
        let paths = all.map(|folder| lexically(&folder.join(name)));
        for path in paths.filter(|path| path.is_file()) {
            if found.insert(path.clone()) {
                open.push(path);
            }
        }
    };
    for text in texts {
        names(text).for_each(|(_, name)| meet(name, None, &mut open));
    }
    while let Some(path) = open.pop() {
        let bytes = std::fs::read(&path).unwrap_or_default();
        names(&decode(&bytes).text).for_each(|(_, name)| meet(name, path.parent(), &mut open));
    }
    found
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
        assert_eq!(reachable([text.as_str()], &folders), expected);
    }
}
