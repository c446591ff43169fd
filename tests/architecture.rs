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

/// A file of src/, without its comments and its tests.
struct Source {
    /// From src/.
    path: String,
    /// The folder or file directly in src/.
    part: String,
    code: String,
}

impl Source {
    /// How far below the root of the package its module lies.
    fn depth(&self) -> usize {
        let modules = Path::new(&self.path).iter().count();
        if self.path.ends_with("/mod.rs") { modules - 1 } else { modules }
    }
}

fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    walk(&root().join("src"), &mut found);
    found
}

fn walk(folder: &Path, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        // `fuzz` stands beside the parts, in tests and fuzzers alone.
        if ["tests", "fuzz"].contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            let inside = path.strip_prefix(root().join("src")).expect("below src/");
            let first = inside.iter().next().expect("a name").to_string_lossy();
            let text = fs::read_to_string(&path).expect("a source");
            found.push(Source {
                path: inside.display().to_string(),
                part: first.trim_end_matches(".rs").to_owned(),
                code: without_comments_and_tests(&text),
            });
        }
    }
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
    let mut parts = first_words("parts");
    let in_code: BTreeSet<String> =
        sources().into_iter().map(|source| source.part).filter(|part| part != "lib").collect();
    let on_page: BTreeSet<String> = parts.iter().cloned().collect();
    assert_eq!(on_page, in_code);
    parts.sort();
    assert_eq!(parts, on_page.into_iter().collect::<Vec<_>>(), "a part is named twice");
}

#[test]
fn every_part_uses_only_those_below_it() {
    let parts = first_words("parts");
    let floor = |part: &str| parts.iter().position(|known| known == part);
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for source in sources() {
        for used in uses(&source.code, source.depth()) {
            let (Some(from), Some(to)) = (floor(&source.part), floor(&used)) else { continue };
            if to < from {
                let part = &source.part;
                wrong.push(format!("src/{}: {part} uses {used}, which lies above", source.path));
            }
            seen.insert((from, to));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen.len() > parts.len(), "too few uses were found: {seen:?}");
}

#[test]
fn unsafe_lives_where_the_page_says() {
    let places = first_words("unsafe");
    let lies_in = |path: &str, place: &str| {
        path == place || path.strip_prefix(place).is_some_and(|rest| rest.starts_with('/'))
    };
    let has_unsafe = |source: &Source| {
        let words = source.code.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.into_iter().any(|word| word == "unsafe" || word == "unsafe_code")
    };
    let found: Vec<String> = sources()
        .iter()
        .filter(|source| source.part != "lib" && has_unsafe(source))
        .map(|source| source.path.clone())
        .collect();
    for path in &found {
        let named = places.iter().any(|place| lies_in(path, place));
        assert!(named, "src/{path} has unsafe code, which the page does not say");
    }
    for place in places {
        let used = found.iter().any(|path| lies_in(path, &place));
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
            assert!(!source.code.contains(word), "src/{} uses {word}", source.path);
        }
    }
}

#[test]
fn only_the_command_line_prints() {
    const PRINTS: [&str; 5] = ["println!", "eprintln!", "print!(", "eprint!(", "dbg!"];
    for source in sources().iter().filter(|source| source.part != "cli") {
        for word in PRINTS {
            assert!(!source.code.contains(word), "src/{} uses {word}", source.path);
        }
    }
}

#[test]
fn public_functions_and_types_say_what_they_are_for() {
    let mut undocumented = Vec::new();
    for source in sources() {
        let text = fs::read_to_string(root().join("src").join(&source.path)).expect("a source");
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (number, line) in lines.iter().enumerate() {
            if is_public_function_or_type(line) && !has_documentation(&lines[..number]) {
                undocumented.push(format!("src/{}:{}: {line}", source.path, number + 1));
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
