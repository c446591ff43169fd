//! The sources of a set, one by one or several in a translation unit. Two definitions under one name get two names. In a
//! common unit macros of one source do not reach the next.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use replay_frontend::{FunctionSignature, OwnNames, Precision, SourceUnit, Symbols};
use replay_runtime::renamed::rename_definition;

/// The sources of a set, in order. A definition under the name of an earlier one gets a name of its own, and so does a
/// `static` one under the name of any other that is not. The first that keeps its name is the one that a harness's call
/// means. Names that headers declare stay, and so do the macros that the harness `defines`.
pub(super) struct SourceUnits {
    sources: Vec<UnitSource>,
    /// The identifiers of all headers; empty for a source alone.
    header_words: BTreeSet<String>,
    /// The names of the harness's macros.
    defines: BTreeSet<String>,
    /// The headers with names that the harness's calls may mean, each with these names.
    called_headers: Vec<(String, BTreeSet<String>)>,
}

/// A source, compiled by itself or with others.
struct UnitSource {
    path: String,
    /// Empty for a source alone.
    own_names: OwnNames,
    /// Its names that are changed.
    renamed: Vec<String>,
    /// Its functions that overload one of another source, for a harness's call.
    overloads: Vec<Overload>,
}

/// A function that shares its name with one of another source, but not the types of its parameters.
struct Overload {
    name: String,
    /// The words of the types of its parameters.
    parameter_types: String,
    /// For other translation units, in the precision of the calls.
    declaration: String,
}

impl SourceUnits {
    /// The sources at `paths`, which are among `units`. `called` are the identifiers in the harness's calls, which are
    /// compiled in `precision`.
    pub(super) fn new(
        units: &[SourceUnit],
        paths: Vec<String>,
        symbols: &Symbols,
        defines: &[String],
        called: &BTreeSet<String>,
        precision: Precision,
    ) -> SourceUnits {
        if paths.len() < 2 {
            let alone = |path| UnitSource {
                path,
                own_names: OwnNames::default(),
                renamed: Vec::new(),
                overloads: Vec::new(),
            };
            return SourceUnits {
                sources: paths.into_iter().map(alone).collect(),
                header_words: BTreeSet::new(),
                defines: BTreeSet::new(),
                called_headers: Vec::new(),
            };
        }
        let headers: Vec<&SourceUnit> =
            units.iter().filter(|unit| !paths.iter().any(|path| path == unit.path)).collect();
        let mut header_words = BTreeSet::new();
        let mut called_headers = Vec::new();
        for header in &headers {
            let words = replay_frontend::collect_identifiers(header);
            if !words.is_disjoint(called) {
                let OwnNames { declared, macros, .. } = replay_frontend::collect_own_names(header);
                let mut names: BTreeSet<String> =
                    declared.into_iter().chain(macros.into_keys()).collect();
                names.retain(|name| called.contains(name));
                called_headers.push((header.path.to_owned(), names));
            }
            header_words.extend(words);
        }
        called_headers.retain(|(_, names)| !names.is_empty());
        let mut files = Vec::new();
        for path in &paths {
            let unit = units.iter().find(|unit| unit.path == path);
            files.push(unit.map(replay_frontend::collect_own_names).unwrap_or_default());
        }
        let is_in_headers =
            |name: &String| called_headers.iter().any(|(_, names)| names.contains(name));
        let is_shared = |name: &&String| {
            files.iter().filter(|file| file.defined.contains(*name)).count() > 1
                && !is_in_headers(name)
        };
        let shared_names: BTreeSet<&String> = called.iter().filter(is_shared).collect();
        let overloads = list_overloads(units, &paths, &shared_names, symbols, precision);
        let renamed = list_renamed(&files, &headers, &header_words, symbols);
        let sources = paths.into_iter().zip(files).zip(renamed).zip(overloads);
        SourceUnits {
            sources: sources
                .map(|(((path, own_names), renamed), overloads)| UnitSource {
                    path,
                    own_names,
                    renamed,
                    overloads,
                })
                .collect(),
            header_words,
            defines: defines
                .iter()
                .filter_map(|define| define.split(['=', '(']).next())
                .map(str::to_owned)
                .collect(),
            called_headers,
        }
    }

    /// The number of sources.
    pub(super) fn len(&self) -> usize {
        self.sources.len()
    }

    /// The path of source `number`.
    pub(super) fn path(&self, number: usize) -> &str {
        &self.sources[number].path
    }

    /// The sources that code with the identifiers `words` needs in its translation unit: the first that defines all names of
    /// sources in it, or else the first of each; and for each name of headers one with such a header. `reaches` tells whether a source, by its number, may
    /// include a file.
    pub(super) fn list_needed(
        &self,
        words: &BTreeSet<String>,
        reaches: impl Fn(usize, &str) -> bool,
    ) -> BTreeSet<usize> {
        let mut needed = BTreeSet::new();
        let mut header_names: BTreeSet<&String> =
            self.called_headers.iter().flat_map(|(_, names)| names).collect();
        header_names.retain(|name| words.contains(*name));
        let all = 0..self.sources.len();
        let is_defined = |word: &&String| all.clone().any(|number| self.defines(number, word));
        let defined_words: Vec<&String> = words.iter().filter(is_defined).collect();
        let defines_all =
            |&number: &usize| defined_words.iter().all(|word| self.defines(number, word));
        match all.clone().find(defines_all).filter(|_| !defined_words.is_empty()) {
            Some(number) => {
                needed.insert(number);
            }
            None => needed.extend(
                defined_words
                    .iter()
                    .filter_map(|word| all.clone().find(|&number| self.defines(number, word))),
            ),
        }
        header_names.retain(|name| !defined_words.contains(name));
        for name in header_names {
            let sees = |&number: &usize| {
                self.called_headers
                    .iter()
                    .any(|(path, names)| names.contains(name) && reaches(number, path))
            };
            if !needed.iter().any(sees) {
                needed.extend((0..self.sources.len()).find(|number| sees(number)));
            }
        }
        needed
    }

    /// Whether source `number` is one that defines `word` (a function, a variable, a type, a namespace or a macro) for a
    /// call: a `static` definition gives way to an external one of another source.
    fn defines(&self, number: usize, word: &str) -> bool {
        let OwnNames { defined, internal, namespaces, macros, .. } =
            &self.sources[number].own_names;
        let is_external = |source: &UnitSource| {
            source.own_names.defined.contains(word) && !source.own_names.internal.contains(word)
        };
        let gives_way = || internal.contains(word) && self.sources.iter().any(is_external);
        macros.contains_key(word)
            || namespaces.contains(word)
            || defined.contains(word) && !gives_way()
    }

    /// The lines to include all sources in one unit.
    pub(super) fn include_all(&self) -> String {
        self.include(&(0..self.sources.len()).collect(), "")
    }

    /// The lines to include the sources with these `numbers` in one unit, in front of `behind`. Behind a source alone its
    /// names have their meaning there. `behind` may call all overloads of a function that the unit defines.
    pub(super) fn include(&self, numbers: &BTreeSet<usize>, behind: &str) -> String {
        let mut out = String::new();
        let mut hidden = Vec::new();
        let is_joined = numbers.len() > 1;
        for &number in numbers {
            let UnitSource { path, own_names, renamed, overloads } = &self.sources[number];
            let is_overload = |name: &&String| overloads.iter().any(|other| other.name == **name);
            // Alone, an overload keeps its name: its parameters tell it apart.
            let renamed = renamed.iter().filter(|name| is_joined || !is_overload(name));
            for name in renamed.clone() {
                let _ = writeln!(out, "#define {name} {}", rename_definition(number, name));
            }
            let _ = writeln!(out, "#include \"tree/{path}\"");
            if is_joined {
                for name in renamed {
                    let _ = writeln!(out, "#undef {name}");
                }
            }
            let later = numbers.range(number + 1..).map(|&later| &self.sources[later].own_names);
            let later: Vec<&OwnNames> = later.collect();
            for name in find_leaking_macros(own_names, &later, &self.header_words) {
                if self.defines.contains(name) {
                    continue;
                }
                let _ = writeln!(out, "#pragma push_macro(\"{name}\")\n#undef {name}");
                hidden.push(name);
            }
        }
        for name in hidden.iter().rev() {
            let _ = writeln!(out, "#pragma pop_macro(\"{name}\")");
        }
        if !behind.is_empty() {
            out.push_str(&self.declare_overloads(numbers));
        }
        out + behind
    }

    /// The declarations of the functions that overload one of the sources with these `numbers` and are none of them.
    fn declare_overloads(&self, numbers: &BTreeSet<usize>) -> String {
        let of_unit = numbers.iter().flat_map(|&number| &self.sources[number].overloads);
        let of_unit: Vec<&Overload> = of_unit.collect();
        let mut declarations = String::new();
        for (number, source) in self.sources.iter().enumerate() {
            let needed = source.overloads.iter().filter(|overload| {
                let mut same_name = of_unit.iter().filter(|other| other.name == overload.name);
                !numbers.contains(&number)
                    && same_name.clone().next().is_some()
                    && same_name.all(|other| other.parameter_types != overload.parameter_types)
            });
            declarations.extend(needed.map(|overload| overload.declaration.as_str()));
        }
        declarations
    }
}

/// For each of `paths` among `units`, its functions called one of `names` that another unit can declare: with external
/// linkage, at global scope, of types that need no declaration, and with other parameters than those of earlier sources.
fn list_overloads(
    units: &[SourceUnit],
    paths: &[String],
    names: &BTreeSet<&String>,
    symbols: &Symbols,
    precision: Precision,
) -> Vec<Vec<Overload>> {
    let list_functions = |path: &String| {
        let unit = units.iter().find(|unit| unit.path == path);
        let signatures = unit
            .map(|unit| replay_frontend::find_function_signatures(unit, symbols))
            .unwrap_or_default();
        let callable = signatures.into_iter().filter(|signature| {
            let is_plain = signature.template.is_none() && signature.scope.is_empty();
            names.contains(&signature.name)
                && is_plain
                && !(signature.kernel || signature.device || signature.local)
        });
        callable
            .filter_map(|signature| declare_overload(&signature, path, symbols, precision))
            .collect()
    };
    if names.is_empty() {
        return paths.iter().map(|_| Vec::new()).collect();
    }
    let mut known = BTreeSet::new();
    let mut overloads = Vec::new();
    for path in paths {
        let mut functions: Vec<Overload> = list_functions(path);
        functions.retain(|Overload { name, parameter_types, .. }| {
            known.insert((name.clone(), parameter_types.clone()))
        });
        overloads.push(functions);
    }
    overloads
}

/// The overload that `signature` in the file at `path` is; none if its types are no built-in ones, or cannot be translated.
fn declare_overload(
    signature: &FunctionSignature,
    path: &str,
    symbols: &Symbols,
    precision: Precision,
) -> Option<Overload> {
    let FunctionSignature { name, returns, parameters, .. } = signature;
    let types = parameters.iter().map(|parameter| {
        let is_value = !parameter.ty.contains(['*', '&']);
        // The `const` of a value tells no functions apart.
        parameter.ty.strip_prefix("const ").filter(|_| is_value).unwrap_or(&parameter.ty)
    });
    let parameter_types = types.collect::<Vec<_>>().join(", ");
    let mut words = returns.split(' ').chain(parameter_types.split([' ', ',']));
    if !words.all(|word| BUILT_IN_WORDS.contains(&word)) {
        return None;
    }
    let declaration = format!("{returns} {name}({parameter_types});\n");
    let declaration =
        replay_frontend::translate_harness_call(&declaration, path, symbols, precision).ok()?;
    Some(Overload { name: name.clone(), parameter_types, declaration })
}

/// The words of types that need no declaration; an empty one stands between two signs.
const BUILT_IN_WORDS: [&str; 22] = [
    "", "*", "&", "const", "void", "bool", "char", "signed", "unsigned", "short", "int", "long",
    "float", "double", "size_t", "int8_t", "uint8_t", "int16_t", "int32_t", "uint32_t", "int64_t",
    "uint64_t",
];

/// For each of `files`, the sources, its names that are changed.
fn list_renamed(
    files: &[OwnNames],
    headers: &[&SourceUnit],
    header_words: &BTreeSet<String>,
    symbols: &Symbols,
) -> Vec<Vec<String>> {
    // Seldom asked for, and a library has hundreds of headers.
    let header_names = LazyCell::new(|| {
        let declared =
            headers.iter().flat_map(|header| replay_frontend::collect_own_names(header).declared);
        declared.collect::<BTreeSet<String>>()
    });
    let mut renamed_by_file = Vec::new();
    let mut defined_names = BTreeSet::new();
    for (number, own_names) in files.iter().enumerate() {
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
        defined_names.extend(own_names.defined.iter().filter(|name| !renamed.contains(name)));
        renamed_by_file.push(renamed);
    }
    renamed_by_file
}

/// The macros of `own_names` with an effect on the meaning of `later` files, or of headers with `header_words`.
fn find_leaking_macros<'o>(
    own_names: &'o OwnNames,
    later: &[&OwnNames],
    header_words: &BTreeSet<String>,
) -> Vec<&'o String> {
    let macros: &BTreeMap<String, bool> = &own_names.macros;
    let with_meaning = macros.iter().filter(|&(_, &has_meaning)| has_meaning).map(|(name, _)| name);
    with_meaning
        .filter(|name| {
            let is_mentioned =
                |file: &&OwnNames| file.words.contains(*name) || file.macros.contains_key(*name);
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
        let symbols = replay_frontend::scan_symbols(&units);
        SourceUnits::new(&units, sources, &symbols, &[], &BTreeSet::new(), Precision::Native)
            .include_all()
    }

    #[test]
    fn code_needs_the_first_source_that_defines_a_name_and_one_that_sees_a_header() {
        let files = [
            ("a.cu", "static int twice(int n) { return n; }\n#define RUN(x) run(x)"),
            ("b.cu", "int twice(int n) { return n; }\nint other(int n) { return n; }"),
            ("c.cu", "namespace ns { struct Plan { int n; }; }"),
            ("c.h", "template <class T> void fill(T* x) {}\nvoid run();"),
        ];
        let units: Vec<SourceUnit> =
            files.iter().map(|&(path, text)| SourceUnit { path, text }).collect();
        let called = ["twice", "other", "RUN", "Plan", "fill", "run", "unknown"];
        let called: BTreeSet<String> = called.map(str::to_owned).into();
        let paths = ["a.cu", "b.cu", "c.cu"].map(str::to_owned).into();
        let symbols = replay_frontend::scan_symbols(&units);
        let sources = SourceUnits::new(&units, paths, &symbols, &[], &called, Precision::Native);
        let needed = |words: &[&str]| {
            let words = words.iter().map(|&word| word.to_owned()).collect();
            let needed = sources.list_needed(&words, |number, path| number > 0 && path == "c.h");
            needed.into_iter().map(|number| sources.path(number)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(needed(&["unknown", "x"]), "");
        assert_eq!(needed(&["twice"]), "b.cu", "no static one");
        assert_eq!(needed(&["twice", "other"]), "b.cu", "the one that defines both");
        assert_eq!(needed(&["ns", "Plan"]), "c.cu");
        assert_eq!(needed(&["RUN", "other"]), "a.cu b.cu");
        assert_eq!(needed(&["Plan", "fill"]), "c.cu");
        assert_eq!(needed(&["fill"]), "b.cu");
        assert_eq!(needed(&["RUN", "fill"]), "a.cu b.cu");
    }

    #[test]
    fn a_call_sees_the_overloads_of_all_sources_that_no_header_declares() {
        let files = [
            ("a.cu", "int f(int n) { return n; }\nint same(int n) { return n; }"),
            (
                "b.cu",
                "int f(const float x, const float* y) { return 2; }\nint same(int m) { return 2; }",
            ),
            (
                "c.cu",
                "struct P {};\nint f(P p) { return 3; }\nstatic int f(double x) { return 3; }",
            ),
            ("d.cu", "int f(unsigned n) { return n; }\nint declared(float x) { return 4; }"),
            ("e.cu", "int declared(int n) { return n; }"),
            ("e.h", "int declared(int n);"),
        ];
        let units: Vec<SourceUnit> =
            files.iter().map(|&(path, text)| SourceUnit { path, text }).collect();
        let paths = ["a.cu", "b.cu", "c.cu", "d.cu", "e.cu"].map(str::to_owned).into();
        let symbols = replay_frontend::scan_symbols(&units);
        let called = ["f", "same", "declared"].map(str::to_owned).into();
        let sources = SourceUnits::new(&units, paths, &symbols, &[], &called, Precision::Native);
        insta::assert_snapshot!(sources.include(&[0].into(), "call"), @r#"
        #include "tree/a.cu"
        #line 1 "b.cu"
        int f(float, const float *);
        #line 1 "d.cu"
        int f(unsigned);
        call
        "#);
        insta::assert_snapshot!(sources.include(&[1].into(), "call"), @r#"
        #define same replay_1_same
        #include "tree/b.cu"
        #line 1 "a.cu"
        int f(int);
        #line 1 "d.cu"
        int f(unsigned);
        call
        "#);
        insta::assert_snapshot!(sources.include(&[0, 1].into(), "call"), @r#"
        #include "tree/a.cu"
        #define f replay_1_f
        #define same replay_1_same
        #include "tree/b.cu"
        #undef f
        #undef same
        #line 1 "d.cu"
        int f(unsigned);
        call
        "#);
        insta::assert_snapshot!(sources.include(&[4].into(), "call"), @r#"
        #include "tree/e.cu"
        call
        "#);
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
        let given = SourceUnits::new(
            &units,
            sources.into(),
            &symbols,
            &defines,
            &BTreeSet::new(),
            Precision::Native,
        );
        assert_eq!(given.include_all(), "#include \"tree/a.cu\"\n#include \"tree/b.cu\"\n");
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
