//! Headers with device code that mean something else to each of several sources: in a common translation unit the first
//! source would decide.

use std::collections::BTreeMap;

use super::includes::{IncludeGraph, find_include_names};
use replay_frontend::{SourceUnit, collect_identifiers, list_macro_definitions};

/// A header that depends on a macro of which two sources have different definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DividedHeader {
    /// Its path.
    pub header: String,
    /// The macro.
    pub name: String,
    /// Two of the sources.
    pub sources: [String; 2],
}

/// Words of device code.
const DEVICE_WORDS: [&str; 4] = ["__global__", "__device__", "__constant__", "__shared__"];

/// The first such header of `units` for the sources at `paths`, if there is one.
///
/// Definitions in front of the last `#include` of a source count, whatever conditions they are below.
pub(super) fn find_divided_header(units: &[SourceUnit], paths: &[String]) -> Option<DividedHeader> {
    if paths.len() < 2 {
        return None;
    }
    let files: Vec<(String, Vec<u8>)> =
        units.iter().map(|unit| (unit.path.to_owned(), unit.text.into())).collect();
    let graph = IncludeGraph::new(&files);
    let mut reached_by_source = Vec::new();
    for path in paths {
        let unit = units.iter().find(|unit| unit.path == path)?;
        let last_include = find_include_names(unit.text).map(|(line, _)| line).last();
        let mut definitions = BTreeMap::new();
        for (line, name, text) in list_macro_definitions(unit) {
            if Some(line) < last_include {
                definitions.insert(name, text);
            }
        }
        let reached: Vec<&str> =
            graph.reach(&[path]).into_iter().map(|number| units[number].path).collect();
        reached_by_source.push((path, definitions, reached));
    }
    for header in units.iter().filter(|unit| !paths.iter().any(|path| path == unit.path)) {
        let includers: Vec<_> = reached_by_source
            .iter()
            .filter(|(_, _, reached)| reached.contains(&header.path))
            .collect();
        if includers.len() < 2 || !DEVICE_WORDS.iter().any(|word| header.text.contains(word)) {
            continue;
        }
        let (first, first_definitions, _) = includers[0];
        for name in collect_identifiers(header) {
            let differs =
                includers.iter().find(|other| other.1.get(&name) != first_definitions.get(&name));
            if let Some((other, _, _)) = differs {
                return Some(DividedHeader {
                    header: header.path.to_owned(),
                    name,
                    sources: [(*first).clone(), (*other).clone()],
                });
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::CompileError;

    fn divided(files: &[(&str, &str)]) -> String {
        let units: Vec<SourceUnit> =
            files.iter().map(|&(path, text)| SourceUnit { path, text }).collect();
        let sources = files.iter().map(|file| file.0.to_owned());
        let sources: Vec<String> = sources.filter(|path| path.ends_with(".cu")).collect();
        match find_divided_header(&units, &sources) {
            Some(DividedHeader { header, name, sources }) => {
                format!("{header} {name} {}", sources.join(" "))
            }
            None => "none".to_owned(),
        }
    }

    #[test]
    fn a_divided_header_is_told_with_a_way_on() {
        let sources = ["a.cu".to_owned(), "b.cu".to_owned()];
        let error = CompileError::DividedHeader(DividedHeader {
            header: "h.cuh".to_owned(),
            name: "BLOCK".to_owned(),
            sources,
        });
        assert!(error.is_revision_fault());
        insta::assert_snapshot!(format!("{error}\nhint: {}", error.hint().unwrap()), @r"
        on a GPU sources are compiled together, and h.cuh means something else in a.cu than in b.cu: they define BLOCK otherwise
        hint: the CPU compiles each source by itself; for the GPU give a.cu and b.cu a harness each
        ");
    }

    #[test]
    fn a_header_is_divided_by_a_macro_of_its_own_that_two_sources_define_otherwise() {
        let header =
            ("h.cuh", "template <int N> __device__ float f(float x) { return x * BLOCK; }");
        let with = |one: &str, other: &str| divided(&[("a.cu", one), ("b.cu", other), header]);
        let include = "#include \"h.cuh\"\n";
        let block = |size: &str| format!("#define BLOCK {size}\n{include}");
        assert_eq!(with(&block("128"), &block("256")), "h.cuh BLOCK a.cu b.cu");
        assert_eq!(with(&block("128"), include), "h.cuh BLOCK a.cu b.cu");
        assert_eq!(with(&block("128"), &block(" 128 // same")), "none");
        assert_eq!(with(&block("128"), "#define BLOCK 256\nint n;"), "none", "not included");
        let behind = format!("{include}#define BLOCK 256\n");
        assert_eq!(with(include, &behind), "none", "defined behind the header");
        let other = format!("#define OTHER 1\n{include}");
        assert_eq!(with(&other, include), "none", "not in the header");
        let host = ("h.cuh", "inline float f(float x) { return x * BLOCK; }");
        let host = divided(&[("a.cu", &block("1")), ("b.cu", &block("2")), host]);
        assert_eq!(host, "none", "host code is compiled by source");
    }
}
