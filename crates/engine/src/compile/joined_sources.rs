//! Separate sources in one translation unit. Two definitions under one name get two names, and macros of one source do
//! not reach the next.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use replay_frontend::{OwnNames, SourceUnit, Symbols};
use replay_runtime::renamed::rename_definition;

/// The lines to include `sources`, which are among `units`. A definition under the name of an earlier one gets a name of
/// its own, and so does a `static` one under the name of any other that is not. The first that keeps its name is the one
/// that a harness's call means. Names that headers declare stay, and so do the macros that the harness `defines`.
pub(super) fn include_joined_sources(
    units: &[SourceUnit],
    sources: &[String],
    symbols: &Symbols,
    defines: &[String],
) -> String {
    if sources.len() < 2 {
        return sources.iter().map(|path| include_source_line(path)).collect();
    }
    let headers = || units.iter().filter(|unit| !sources.iter().any(|path| path == unit.path));
    let header_words: BTreeSet<String> =
        headers().flat_map(replay_frontend::collect_identifiers).collect();
    // Seldom asked for, and a library has hundreds of headers.
    let header_names = LazyCell::new(|| {
        let declared =
            headers().flat_map(|header| replay_frontend::collect_own_names(header).declared);
        declared.collect::<BTreeSet<String>>()
    });
    let mut files = Vec::new();
    for path in sources {
        let unit = units.iter().find(|unit| unit.path == path);
        files.push(unit.map(replay_frontend::collect_own_names).unwrap_or_default());
    }
    let mut out = String::new();
    let mut defined_names = BTreeSet::new();
    let mut hidden = Vec::new();
    for (number, (path, own_names)) in sources.iter().zip(&files).enumerate() {
        let is_twice = |name: &&String| {
            let is_external_elsewhere = |(other, file): (usize, &OwnNames)| {
                other != number && file.defined.contains(*name) && !file.internal.contains(*name)
            };
            defined_names.contains(*name)
                || own_names.internal.contains(*name)
                    && files.iter().enumerate().any(is_external_elsewhere)
        };
        let mut renamed = Vec::new();
        for name in own_names.defined.iter().filter(is_twice) {
            // A class of a header may have a member of this name.
            let may_be_member =
                header_words.contains(name) && own_names.member_words.contains(name);
            if own_names.macros.contains_key(name) || may_be_member || header_names.contains(name) {
                continue;
            }
            renamed.push(name.clone());
            if symbols.is_kernel(name) {
                renamed.push(replay_frontend::companion_name(name));
            }
        }
        for name in &renamed {
            let _ = writeln!(out, "#define {name} {}", rename_definition(number, name));
        }
        out.push_str(&include_source_line(path));
        for name in &renamed {
            let _ = writeln!(out, "#undef {name}");
        }
        for name in find_leaking_macros(own_names, &files[number + 1..], &header_words) {
            if defines.iter().any(|define| define.split(['=', '(']).next() == Some(name)) {
                continue;
            }
            let _ = writeln!(out, "#pragma push_macro(\"{name}\")\n#undef {name}");
            hidden.push(name);
        }
        defined_names.extend(own_names.defined.iter().filter(|name| !renamed.contains(name)));
    }
    for name in hidden.iter().rev() {
        let _ = writeln!(out, "#pragma pop_macro(\"{name}\")");
    }
    out
}

/// The line to include the source at `path`.
fn include_source_line(path: &str) -> String {
    format!("#include \"tree/{path}\"\n")
}

/// The macros of `own_names` with an effect on the meaning of `later` files, or of headers with `header_words`.
fn find_leaking_macros<'o>(
    own_names: &'o OwnNames,
    later: &[OwnNames],
    header_words: &BTreeSet<String>,
) -> Vec<&'o String> {
    let macros: &BTreeMap<String, bool> = &own_names.macros;
    let with_meaning = macros.iter().filter(|&(_, &has_meaning)| has_meaning).map(|(name, _)| name);
    with_meaning
        .filter(|name| {
            let is_mentioned =
                |file: &OwnNames| file.words.contains(*name) || file.macros.contains_key(*name);
            later.iter().any(is_mentioned) || !later.is_empty() && header_words.contains(*name)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(files: &[(&str, &str)]) -> String {
        let units: Vec<SourceUnit> =
            files.iter().map(|&(path, text)| SourceUnit { path, text }).collect();
        let sources = files.iter().map(|file| file.0.to_owned());
        let sources: Vec<String> = sources.filter(|path| path.ends_with(".cu")).collect();
        include_joined_sources(&units, &sources, &replay_frontend::scan_symbols(&units), &[])
    }

    #[test]
    fn a_source_alone_is_included_as_it_is() {
        assert_eq!(joined(&[("a.cu", "#define N 1\nstatic int n;")]), "#include \"tree/a.cu\"\n");
    }

    #[test]
    fn what_two_sources_define_is_told_apart_and_macros_stay_with_their_source() {
        let a = "#define BLOCK 128\n#define SEEN\n#include \"c.h\"\nstatic int state = 1;\n\
                 __device__ float sum(float x) { return x; }\nvoid one();\nstruct P { int n; };";
        let b = "static int state = 2;\n__device__ float sum(float x) { return 2 * x; }\n\
                 void one() {}\nvoid shared() {}\nstruct P { float n; };\nint use = BLOCK;";
        let c = "void shared();";
        insta::assert_snapshot!(joined(&[("a.cu", a), ("b.cu", b), ("c.h", c)]), @r#"
        #include "tree/a.cu"
        #pragma push_macro("BLOCK")
        #undef BLOCK
        #define P replay_1_P
        #define state replay_1_state
        #define sum replay_1_sum
        #include "tree/b.cu"
        #undef P
        #undef state
        #undef sum
        #pragma pop_macro("BLOCK")
        "#);
    }

    #[test]
    fn a_macro_that_conditions_of_later_sources_or_headers_ask_for_ends_with_its_source() {
        let a = "#ifndef A_CU\n#define A_CU\n#define FAST 1\n#define FLAG\n#define WIDE 2\n#define OWN 3\n#endif\n";
        let b = "#ifdef FAST\n#endif\n#if defined(FLAG)\n#elif A_CU\n#endif\n#include \"c.h\"\n";
        let c = "#if WIDE == 2\n#endif\n";
        insta::assert_snapshot!(joined(&[("a.cu", a), ("b.cu", b), ("c.h", c)]), @r#"
        #include "tree/a.cu"
        #pragma push_macro("FAST")
        #undef FAST
        #pragma push_macro("FLAG")
        #undef FLAG
        #pragma push_macro("WIDE")
        #undef WIDE
        #include "tree/b.cu"
        #pragma pop_macro("WIDE")
        #pragma pop_macro("FLAG")
        #pragma pop_macro("FAST")
        "#);
        let units = [SourceUnit { path: "a.cu", text: a }, SourceUnit { path: "b.cu", text: b }];
        let sources = ["a.cu".to_owned(), "b.cu".to_owned()];
        let defines = ["FAST=1".to_owned(), "FLAG".to_owned()];
        let symbols = replay_frontend::scan_symbols(&units);
        let given = include_joined_sources(&units, &sources, &symbols, &defines);
        assert_eq!(given, "#include \"tree/a.cu\"\n#include \"tree/b.cu\"\n");
    }

    #[test]
    fn a_static_name_gives_way_to_that_of_another_source_which_all_may_declare() {
        let a = "static int twice(int n) { return n; }\nstatic float scale = 2;";
        let b = "int twice(int n);\nextern float scale;\nint use(int n) { return twice(n); }";
        let c = "int twice(int n) { return 2 * n; }\nfloat scale = 3;";
        insta::assert_snapshot!(joined(&[("a.cu", a), ("b.cu", b), ("c.cu", c)]), @r#"
        #define scale replay_0_scale
        #define twice replay_0_twice
        #include "tree/a.cu"
        #undef scale
        #undef twice
        #include "tree/b.cu"
        #include "tree/c.cu"
        "#);
    }

    #[test]
    fn a_kernel_that_two_sources_have_gets_a_name_with_its_companion_in_the_second() {
        let source = "#include \"c.h\"\nstatic __global__ void k(float* x) {}\n";
        let c = "inline int count(int k) { return k; }\nvoid run();\nstruct P { int run; };";
        let joined = joined(&[("a.cu", source), ("b.cu", source), ("c.h", c)]);
        insta::assert_snapshot!(joined, @r#"
        #include "tree/a.cu"
        #define k replay_1_k
        #define replay_instance_k replay_1_replay_instance_k
        #include "tree/b.cu"
        #undef k
        #undef replay_instance_k
        "#);
    }

    #[test]
    fn a_name_that_a_header_declares_or_gives_to_a_member_stays() {
        let source = "#include \"c.h\"\nstatic int run(int n) { return n; }\n\
                      static int size(P p) { return p.size; }\nstatic int own(P p);\n";
        let c = "void run();\nstruct P { int size; };";
        let joined = joined(&[("a.cu", source), ("b.cu", source), ("c.h", c)]);
        assert_eq!(joined, "#include \"tree/a.cu\"\n#include \"tree/b.cu\"\n");
    }
}
