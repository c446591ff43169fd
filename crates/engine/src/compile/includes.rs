//! The `#include` lines of a text, and all files within their reach.
//!
//! Lines below false conditions count too, and so does a name's file in each folder. So the result covers every file
//! the compiler reads, except for names from macros outside of the sources.

use std::collections::{BTreeMap, BTreeSet};
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

/// Which files of a source set may include which.
pub(super) struct IncludeGraph {
    paths: Vec<String>,
    /// For each file those that it may include; none where a name cannot be read from its text, so that it may be any.
    included: Vec<Option<Vec<usize>>>,
}

impl IncludeGraph {
    /// The graph of `files`, each with its path and text. A file may be meant whose path ends with an included name.
    pub(super) fn new<'f>(files: impl IntoIterator<Item = (&'f str, &'f [u8])>) -> IncludeGraph {
        let files: Vec<(&str, &[u8])> = files.into_iter().collect();
        let mut files_of_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, (path, _)) in files.iter().enumerate() {
            files_of_name.entry(last_component(path)).or_default().push(number);
        }
        let list_included = |text: &str| {
            let mut included = Vec::new();
            for (_, name) in find_include_names(text) {
                let named_files = files_of_name.get(last_component(name)).into_iter().flatten();
                let may_be_meant =
                    |other: &&usize| ends_with_components(files[**other].0, known_end(name));
                included.extend(named_files.filter(may_be_meant));
            }
            included
        };
        let included = files.iter().map(|(_, text)| {
            let text = String::from_utf8_lossy(text);
            (!has_hidden_name(&text)).then(|| list_included(&text))
        });
        IncludeGraph {
            included: included.collect(),
            paths: files.iter().map(|&(path, _)| path.to_owned()).collect(),
        }
    }

    /// The numbers of the files within reach of those at `paths`, and of these, in order.
    pub(super) fn reach(&self, paths: &[&str]) -> Vec<usize> {
        let all = 0..self.paths.len();
        let mut pending: Vec<usize> =
            all.clone().filter(|&number| paths.contains(&self.paths[number].as_str())).collect();
        let mut is_found = vec![false; self.paths.len()];
        while let Some(number) = pending.pop() {
            if std::mem::replace(&mut is_found[number], true) {
                continue;
            }
            match &self.included[number] {
                Some(included) => pending.extend(included),
                None => return all.collect(),
            }
        }
        all.filter(|&number| is_found[number]).collect()
    }
}

/// Whether `text` may read a file whose name does not stand in an `#include` line.
fn has_hidden_name(text: &str) -> bool {
    let is_hidden = |line: &str| {
        let directive = line.trim_start().strip_prefix('#').map(str::trim_start);
        let reads_file = directive.is_some_and(|words| {
            ["include", "import", "embed"].iter().any(|word| words.starts_with(word))
        });
        reads_file && name_in(line).is_none()
    };
    text.contains("__has_include") || text.contains("incbin") || text.lines().any(is_hidden)
}

fn last_component(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The end of the included `name` that a file's path must have: what follows the last `.` or `..`.
fn known_end(name: &str) -> &str {
    let dots = name.rfind("./").map_or(0, |dots| dots + "./".len());
    &name[dots..]
}

/// Whether `path` ends with the components of `end`.
pub(super) fn ends_with_components(path: &str, end: &str) -> bool {
    path.strip_suffix(end)
        .is_some_and(|leading_folders| leading_folders.is_empty() || leading_folders.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_set_are_found_by_the_end_of_their_paths_and_all_where_a_name_is_hidden() {
        let reach = |texts: &[(&str, &str)]| {
            let files = texts.iter().map(|&(path, text)| (path, text.as_bytes()));
            let found = IncludeGraph::new(files).reach(&["src/a.cu"]);
            let paths: Vec<&str> = found.into_iter().map(|number| texts[number].0).collect();
            paths.join(" ")
        };
        let headers = [
            ("include/lib/x.h", "#include \"./../y.h\"\n#if 0\n#include <z.h>\n#endif"),
            ("include/y.h", ""),
            ("other/lib/x.h", ""),
            ("src/b.cu", ""),
            ("xlib/x.h", ""),
            ("z.h", ""),
        ];
        let with = |text| reach(&[&[("src/a.cu", text)], &headers[..]].concat());
        let four = "src/a.cu include/lib/x.h include/y.h other/lib/x.h z.h";
        assert_eq!(with("#include <lib/x.h>"), four);
        assert_eq!(with("#include <x.h>"), format!("{} xlib/x.h z.h", &four[..four.len() - 4]));
        assert_eq!(with("#include <vector>\nint n;"), "src/a.cu");
        let all = "src/a.cu include/lib/x.h include/y.h other/lib/x.h src/b.cu xlib/x.h z.h";
        for hidden in [
            "# include NAME",
            "#include_next <q.h>",
            "#if __has_include(<q.h>)",
            "asm(\".incbin \\\"d\\\"\");",
            "#include /* */ <x.h>",
        ] {
            assert_eq!(with(hidden), all, "{hidden}");
        }
    }

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
