//! docs/architecture.md against the code: floors, purity, and where `unsafe` lives.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    env!("CARGO_MANIFEST_DIR").into()
}

/// The lines of the block called `name` on the page.
fn block(name: &str) -> Vec<String> {
    let page = fs::read_to_string(root().join("docs/architecture.md")).expect("the page");
    let fence = format!("```{name}");
    let lines = page.lines().skip_while(|line| line.trim() != fence).skip(1);
    let lines = lines.take_while(|line| line.trim() != "```").map(|line| line.trim().to_owned());
    let lines: Vec<String> = lines.collect();
    assert!(!lines.is_empty(), "docs/architecture.md has no block `{name}`");
    lines
}

/// The first word of each line of a block.
fn first_words(name: &str) -> Vec<String> {
    let lines = block(name).into_iter();
    lines.map(|line| line.split_whitespace().next().expect("a word").to_owned()).collect()
}

/// The parts and where each lies, from the root of the repository, as the page says.
fn part_places() -> Vec<(String, PathBuf)> {
    let mut places = Vec::new();
    for line in block("parts") {
        let mut words = line.split_whitespace();
        let part = words.next().expect("a part").to_owned();
        places.push((part, words.next().expect("its place").into()));
    }
    places
}

/// A file of the program or of a crate, without its comments and its tests.
struct Source {
    /// From the root of the repository.
    path: PathBuf,
    part: String,
    code: String,
}

impl Source {
    /// How far below the root of its crate its module lies.
    fn depth(&self) -> usize {
        let modules = self.path.iter().skip_while(|name| *name != "src").skip(1).count();
        if self.path.ends_with("mod.rs") { modules - 1 } else { modules }
    }
}

fn sources() -> Vec<Source> {
    let mut paths = Vec::new();
    list_sources(&root().join("src"), &mut paths);
    list_sources(&root().join("crates"), &mut paths);
    let places = part_places();
    let mut sources = Vec::new();
    for file in paths {
        let path = file.strip_prefix(root()).expect("below the root").to_owned();
        // A module that is a part of its own lies below another part.
        let module = path.with_extension("");
        let around = places.iter().filter(|(_, place)| module.starts_with(place));
        let innermost = around.max_by_key(|(_, place)| place.iter().count());
        let part = innermost.map_or_else(String::new, |(part, _)| part.clone());
        let code = without_comments_and_tests(&fs::read_to_string(&file).expect("a source"));
        sources.push(Source { path, part, code });
    }
    sources
}

/// The Rust files below `folder` but for tests, fuzzed properties and the list of a crate's parts.
fn list_sources(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        if ["tests", "fuzz", "build"].contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            list_sources(&path, paths);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            paths.push(path);
        }
    }
}

/// Whether `path` only lists the parts of its crate.
fn is_list_of_parts(path: &Path) -> bool {
    path.ends_with("src/lib.rs")
}

fn without_comments_and_tests(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The modules of this package that `code` names by their path from the root, which lies `depth`
/// modules above.
fn uses(code: &str, depth: usize) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for root in ["crate::", "::replay::", &"super::".repeat(depth)] {
        for (at, _) in code.match_indices(root) {
            // Not the middle of another path, such as `$crate::`.
            let before = code[..at].chars().next_back();
            if before.is_none_or(|c| !c.is_alphanumeric() && !":$_".contains(c)) {
                found.extend(first_segments(&code[at + root.len()..]));
            }
        }
    }
    found
}

/// The first segment of the path that `code` begins with, or of each in its braces.
fn first_segments(code: &str) -> Vec<String> {
    let name = |code: &str| -> String {
        code.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(group) = code.strip_prefix('{') else { return vec![name(code)] };
    let mut depth = 0;
    let mut begins = 0;
    let mut found = Vec::new();
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                found.push(name(&group[begins..at]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(name(&group[begins..at]));
                begins = at + 1;
            }
            _ => {}
        }
    }
    found
}

#[test]
fn the_page_names_every_part_once() {
    let mut parts = BTreeSet::new();
    let mut places = BTreeSet::new();
    for (part, place) in part_places() {
        let exists = [place.clone(), place.with_extension("rs")]
            .iter()
            .any(|path| root().join(path).exists());
        assert!(exists, "{part} does not lie in {}", place.display());
        assert!(parts.insert(part.clone()), "{part} is named twice");
        assert!(places.insert(place), "two parts lie where {part} lies");
    }
    for source in sources() {
        let is_in_a_part = parts.contains(&source.part) || is_list_of_parts(&source.path);
        assert!(is_in_a_part, "{} is in no part", source.path.display());
    }
}

/// Cargo holds the arrows between crates; this holds those inside one.
#[test]
fn every_part_uses_only_those_below_it() {
    let places = part_places();
    let floor = |part: &str| places.iter().position(|(known, _)| known == part);
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for source in sources().iter().filter(|source| !is_list_of_parts(&source.path)) {
        for used in uses(&source.code, source.depth()) {
            let (Some(from), Some(to)) = (floor(&source.part), floor(&used)) else { continue };
            if to < from && is_module_of_same_crate(source, &places[to].1) {
                let part = &source.part;
                wrong.push(format!(
                    "{}: {part} uses {used}, which lies above",
                    source.path.display()
                ));
            }
            seen.insert((from, to));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen.len() > 20, "too few uses were found: {seen:?}");
}

/// Whether the part at `place` lies in the crate of `source`; in another, a module may have its name.
fn is_module_of_same_crate(source: &Source, place: &Path) -> bool {
    let crate_of = |path: &Path| path.iter().take_while(|name| *name != "src").collect::<PathBuf>();
    crate_of(&source.path) == crate_of(place)
}

#[test]
fn unsafe_lives_where_the_page_says() {
    let places = first_words("unsafe");
    let has_unsafe = |source: &Source| {
        let words = source.code.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.into_iter().any(|word| word == "unsafe" || word == "unsafe_code")
    };
    let found: Vec<PathBuf> = sources()
        .iter()
        .filter(|source| !is_list_of_parts(&source.path) && has_unsafe(source))
        .map(|source| source.path.clone())
        .collect();
    for path in &found {
        let named = places.iter().any(|place| path.starts_with(place));
        assert!(named, "{} has unsafe code, which the page does not say", path.display());
    }
    for place in places {
        let used = found.iter().any(|path| path.starts_with(&place));
        assert!(used, "the page names {place}, which has no unsafe code");
    }
}

#[test]
fn pure_parts_use_nothing_of_the_system() {
    let pure = first_words("pure");
    let parts = first_words("parts");
    for part in &pure {
        assert!(parts.contains(part), "{part} is no part");
    }
    const SYSTEM: [&str; 8] = [
        "std::fs",
        "std::process",
        "std::env",
        "std::net",
        "std::os",
        "libc::",
        "tempfile::",
        "memmap2::",
    ];
    for source in sources().iter().filter(|source| pure.contains(&source.part)) {
        for word in SYSTEM {
            assert!(!source.code.contains(word), "{} uses {word}", source.path.display());
        }
    }
}

#[test]
fn only_the_command_line_prints() {
    const PRINTS: [&str; 5] = ["println!", "eprintln!", "print!(", "eprint!(", "dbg!"];
    for source in sources().iter().filter(|source| source.part != "cli") {
        for word in PRINTS {
            assert!(!source.code.contains(word), "{} uses {word}", source.path.display());
        }
    }
}

#[test]
fn public_functions_and_types_say_what_they_are_for() {
    let mut undocumented = Vec::new();
    for source in sources() {
        let text = fs::read_to_string(root().join(&source.path)).expect("a source");
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (number, line) in lines.iter().enumerate() {
            if is_public_function_or_type(line) && !has_documentation(&lines[..number]) {
                undocumented.push(format!("{}:{}: {line}", source.path.display(), number + 1));
            }
        }
    }
    assert!(undocumented.is_empty(), "no documentation:\n{}", undocumented.join("\n"));
}

fn is_public_function_or_type(line: &str) -> bool {
    let Some(declaration) = line.strip_prefix("pub ") else { return false };
    let words = declaration.split_whitespace();
    let kind =
        words.into_iter().find(|word| !["const", "unsafe", "extern", "\"C\""].contains(word));
    kind.is_some_and(|kind| ["fn", "struct", "enum", "trait", "union"].contains(&kind))
}

/// Whether the item that follows `lines` has a documentation comment; attributes may stand between.
fn has_documentation(lines: &[&str]) -> bool {
    let mut above = lines.iter().rev().skip_while(|line| {
        !line.starts_with("///") && !line.is_empty() && !line.ends_with(['{', '}', ';'])
    });
    above.next().is_some_and(|line| line.starts_with("///"))
}

#[test]
fn paths_are_found_in_groups_and_in_the_middle_of_code() {
    let code = "use crate::{cache::Cache, a::{b, c}, fixture};\nlet x = crate::tensor::DType::F32;\n\
                use crate::harness::Harness; $crate::never; use ::replay::judge::Verdict;";
    let expected = ["a", "cache", "fixture", "harness", "judge", "tensor"];
    assert_eq!(uses(code, 9), expected.map(str::to_owned).into());
    let code = "use super::near; use super::super::far;";
    assert_eq!(uses(code, 2), ["far".to_owned()].into());
    assert_eq!(uses(code, 1), ["near".to_owned(), "super".to_owned()].into());
    assert_eq!(without_comments_and_tests("a // crate::b\n/// crate::c\nd\n"), "a \n\nd");
}
