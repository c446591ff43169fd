//! Headers that mean something else to each of several sources: in a common translation unit the first source would decide.

use std::collections::BTreeMap;
use std::fmt;

use super::includes::{IncludeGraph, find_include_names};
use replay_frontend::{
    SourceUnit, StaticVariable, collect_identifiers, list_macro_definitions, list_static_variables,
};

/// A header that is not the same thing in two sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DividedHeader {
    /// Its path.
    pub header: String,
    /// What differs.
    pub difference: Difference,
    /// Two of the sources.
    pub sources: [String; 2],
    /// Why they are compiled together.
    pub reason: JoinReason,
}

/// How a header differs from source to source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// It depends on this macro, and they define it otherwise.
    Macro(String),
    /// It has this `static` variable, and each source has its own.
    Variable(String),
}

/// Why sources are compiled together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinReason {
    /// Device code is one translation unit.
    Gpu,
    /// A statement of the call names both, or the call cannot be cut.
    Call,
}

impl DividedHeader {
    /// Advice to the user.
    pub(super) fn hint(&self) -> String {
        match self.reason {
            JoinReason::Gpu => format!(
                "the CPU compiles each source by itself; for the GPU give {} and {} a harness each",
                self.sources[0], self.sources[1]
            ),
            JoinReason::Call => "let each statement of the call name one source, also in loops and conditions, and declare \
                                 variables with their types; without `return`, `goto`, `static` and lambdas in variables"
                .to_owned(),
        }
    }
}

impl fmt::Display for DividedHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DividedHeader { header, difference, sources: [one, other], reason } = self;
        f.write_str(match reason {
            JoinReason::Gpu => "on a GPU sources are compiled together",
            JoinReason::Call => "the call needs several sources at once",
        })?;
        match difference {
            Difference::Macro(name) => write!(
                f,
                ", and {header} means something else in {one} than in {other}: they define {name} otherwise"
            ),
            Difference::Variable(name) => {
                write!(f, ", and {header} gives {one} and {other} a `static` {name} each")
            }
        }
    }
}

/// Words of device code.
const DEVICE_WORDS: [&str; 4] = ["__global__", "__device__", "__constant__", "__shared__"];

/// The first such header of `units` for the sources at `paths`, compiled together for this `reason`, if there is one. On a
/// GPU device code counts alone.
///
/// Definitions in front of the last `#include` of a source count, whatever conditions they are below.
pub(super) fn find_divided_header(
    units: &[SourceUnit],
    paths: &[&str],
    reason: JoinReason,
) -> Option<DividedHeader> {
    if paths.len() < 2 {
        return None;
    }
    let graph = IncludeGraph::new(units.iter().map(|unit| (unit.path, unit.text.as_bytes())));
    let mut reached_by_source = Vec::new();
    for &path in paths {
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
    for header in units.iter().filter(|unit| !paths.contains(&unit.path)) {
        let includers: Vec<_> = reached_by_source
            .iter()
            .filter(|(_, _, reached)| reached.contains(&header.path))
            .collect();
        let is_device = DEVICE_WORDS.iter().any(|word| header.text.contains(word));
        if includers.len() < 2 || reason == JoinReason::Gpu && !is_device {
            continue;
        }
        let (first, first_definitions, _) = includers[0];
        let divided = |difference, other: &str| DividedHeader {
            header: header.path.to_owned(),
            difference,
            sources: [(*first).to_owned(), other.to_owned()],
            reason,
        };
        for name in collect_identifiers(header) {
            let differs =
                includers.iter().find(|other| other.1.get(&name) != first_definitions.get(&name));
            if let Some((other, _, _)) = differs {
                return Some(divided(Difference::Macro(name), other));
            }
        }
        for variable in list_static_variables(header) {
            if may_change(&variable, units, reason) {
                return Some(divided(Difference::Variable(variable.name), includers[1].0));
            }
        }
    }
    None
}

/// Whether code of `units` may change `variable` so that it matters which of several it is.
fn may_change(variable: &StaticVariable, units: &[SourceUnit], reason: JoinReason) -> bool {
    let StaticVariable { name, is_device, is_constant, is_given } = variable;
    let is_copied = || {
        units.iter().any(|unit| {
            unit.text.match_indices("Symbol").any(|(position, _)| {
                let arguments: String = unit.text[position..].chars().take(120).collect();
                let mut words = arguments.split(|c: char| !c.is_alphanumeric() && c != '_');
                words.any(|word| word == name)
            })
        })
    };
    match (is_constant, is_device, reason) {
        (true, _, _) => !is_given || is_copied(),
        (false, true, _) => true,
        // The host's code is compiled by source.
        (false, false, JoinReason::Gpu) => false,
        (false, false, JoinReason::Call) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::CompileError;

    fn divided_for(reason: JoinReason, files: &[(&str, &str)]) -> String {
        let units: Vec<SourceUnit> =
            files.iter().map(|&(path, text)| SourceUnit { path, text }).collect();
        let sources = files.iter().map(|file| file.0.to_owned());
        let sources: Vec<String> = sources.filter(|path| path.ends_with(".cu")).collect();
        let paths: Vec<&str> = sources.iter().map(String::as_str).collect();
        match find_divided_header(&units, &paths, reason) {
            Some(DividedHeader { header, difference, sources, .. }) => {
                let (Difference::Macro(name) | Difference::Variable(name)) = difference;
                format!("{header} {name} {}", sources.join(" "))
            }
            None => "none".to_owned(),
        }
    }

    fn divided(files: &[(&str, &str)]) -> String {
        divided_for(JoinReason::Gpu, files)
    }

    #[test]
    fn a_header_is_divided_by_a_static_variable_that_code_may_change() {
        let with = |reason, variable: &str, code: &str| {
            let include = "#include \"h.cuh\"\n";
            let b = format!("{include}{code}");
            divided_for(reason, &[("a.cu", include), ("b.cu", &b), ("h.cuh", variable)])
        };
        let gpu = JoinReason::Gpu;
        let call = JoinReason::Call;
        let divided = "h.cuh s a.cu b.cu";
        for reason in [gpu, call] {
            assert_eq!(with(reason, "static __device__ float s = 1;", ""), divided);
            assert_eq!(with(reason, "static __constant__ float s[2];", ""), divided);
            let table = "static __constant__ float s[2] = {1, 2};";
            assert_eq!(with(reason, table, ""), "none");
            let copied = "void f(float* x) { cudaMemcpyToSymbol(s, x, 8); }";
            assert_eq!(with(reason, table, copied), divided);
            for constant in [
                "static const float s = 1;",
                "static constexpr int s = 1;",
                "static int s() { return 1; }",
                "__device__ float s();",
            ] {
                assert_eq!(with(reason, constant, ""), "none", "{constant}");
            }
        }
        assert_eq!(with(gpu, "static int s = 0; __device__ float f();", ""), "none");
        assert_eq!(with(call, "static int s = 0;", ""), divided);
    }

    #[test]
    fn a_divided_header_is_told_with_a_way_on() {
        let told = |difference, reason| {
            let sources = ["a.cu".to_owned(), "b.cu".to_owned()];
            let header = "h.cuh".to_owned();
            let error =
                CompileError::DividedHeader(DividedHeader { header, difference, sources, reason });
            assert!(error.is_revision_fault());
            format!("{error}\nhint: {}", error.hint().unwrap())
        };
        let by_macro = told(Difference::Macro("BLOCK".to_owned()), JoinReason::Gpu);
        let by_variable = told(Difference::Variable("state".to_owned()), JoinReason::Call);
        insta::assert_snapshot!(format!("{by_macro}\n{by_variable}"), @r"
        on a GPU sources are compiled together, and h.cuh means something else in a.cu than in b.cu: they define BLOCK otherwise
        hint: the CPU compiles each source by itself; for the GPU give a.cu and b.cu a harness each
        the call needs several sources at once, and h.cuh gives a.cu and b.cu a `static` state each
        hint: let each statement of the call name one source, also in loops and conditions, and declare variables with their types; without `return`, `goto`, `static` and lambdas in variables
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
        let one = block("1");
        let two = block("2");
        let files = [("a.cu", one.as_str()), ("b.cu", two.as_str()), host];
        assert_eq!(divided(&files), "none", "host code is compiled by source");
        assert_eq!(divided_for(JoinReason::Call, &files), "h.cuh BLOCK a.cu b.cu");
    }
}
