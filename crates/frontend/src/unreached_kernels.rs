//! Leaves out the kernels that no call reaches, and the bodies of functions that launch them. Lines stay where they were.
//!
//! Code is reached by name from the calls, and from all code in a form that is not plain: such code always counts. C++
//! also finds functions that nobody names, such as `swap` by the types of arguments. So a function stays declared: overload
//! resolution chooses as before, and a function without its body does not link where it is used. Explicit instantiations
//! of kernels and of such functions go as well: in one translation unit each use makes the instance that it needs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::SourceUnit;
use super::conditions::count_open_conditionals;
use super::edits::Edits;
use super::lexer::{TokenKind, Tokens, lex_directive, lex_tokens};
use super::macros;
use super::outline::{Item, ItemKind, outline_items};
use super::reachability::MentionGraph;
use super::source::Source;

/// A kernel with a body that no call reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreachedKernel {
    /// The file.
    pub path: String,
    /// The 1-based line of its name.
    pub line: usize,
    /// Its name.
    pub name: String,
}

/// A source set without the code that its calls do not need.
#[derive(Clone, Debug)]
pub struct ReachedSources {
    /// The text of each unit, in order.
    pub texts: Vec<String>,
    /// The kernels left out, in order.
    pub unreached: Vec<UnreachedKernel>,
}

/// `units` without the code that `calls` do not need. None if they need all of it, or if a macro pastes names together:
/// any name may be meant.
pub fn leave_out_unreached_kernels(units: &[SourceUnit], calls: &str) -> Option<ReachedSources> {
    if !units.iter().any(|unit| unit.text.contains("__global__")) {
        return None;
    }
    let sources: Vec<Source> = units.iter().map(Source::without_main).collect();
    let macros = MacroNames::find(&sources)?;
    let files: Vec<KernelFile> =
        sources.iter().map(|source| KernelFile::new(source, &macros)).collect();
    let reached = find_reached_words(&files, calls);
    let removed_parts = find_removed_parts(&files, &reached);
    if removed_parts.iter().all(BTreeSet::is_empty) {
        return None;
    }
    let mut texts = Vec::new();
    let mut unreached = Vec::new();
    for (file, removed_parts) in files.iter().zip(removed_parts) {
        let mut edits = Edits::default();
        for part in removed_parts.into_iter().map(|index| &file.parts[index]) {
            if part.kind == PartKind::Function {
                let body = file.bytes(&part.body);
                edits.replace(body.start..body.start + 1, ";");
                edits.blank(file.source.text, body.start + 1..body.end);
                continue;
            }
            edits.blank(file.source.text, file.bytes(&part.tokens));
            if part.kind == PartKind::Kernel && !part.body.is_empty() {
                unreached.push(UnreachedKernel {
                    path: file.source.path.to_owned(),
                    line: file.source.line(file.tokens[part.name_at].start),
                    name: part.name.clone(),
                });
            }
        }
        texts.push(edits.apply(file.source.text));
    }
    Some(ReachedSources { texts, unreached })
}

/// The macros of a source set.
struct MacroNames<'s> {
    /// By name: whether it stands for specifiers alone, such as `inline` or `__launch_bounds__(256)`.
    only_specifiers: BTreeMap<&'s str, bool>,
}

impl<'s> MacroNames<'s> {
    /// The macros of `sources`; none if one of them pastes names together.
    fn find(sources: &'s [Source]) -> Option<MacroNames<'s>> {
        let mut only_specifiers = BTreeMap::new();
        for source in sources {
            for &token in &source.tokens {
                let Some(defined) = macros::parse_macro_definition(source.text, token) else {
                    continue;
                };
                let words: Vec<&str> =
                    defined.body.iter().map(|token| token.text(source.text)).collect();
                let pastes = words.iter().filter(|word| **word == "##").count();
                let variadic_pastes = words
                    .windows(3)
                    .filter(|three| matches!(three, [",", "##", "__VA_ARGS__"]))
                    .count();
                if pastes > variadic_pastes {
                    return None;
                }
                let is_specifier = !words.iter().any(|word| {
                    matches!(*word, ";" | "{" | "}" | "[" | "=" | "__global__" | "__attribute__")
                });
                *only_specifiers.entry(defined.name).or_insert(true) &= is_specifier;
            }
        }
        Some(MacroNames { only_specifiers })
    }

    fn contains(&self, word: &str) -> bool {
        self.only_specifiers.contains_key(word)
    }

    /// Whether `word` may be a macro for more than specifiers.
    fn may_declare(&self, word: &str) -> bool {
        self.only_specifiers.get(word) == Some(&false)
    }
}

/// The kind of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartKind {
    Kernel,
    /// Another function with its body.
    Function,
    /// An explicit instantiation of a function.
    Instantiation,
    /// Another function without its body. It always counts, but for its name.
    Declaration,
}

/// A declaration that is reached by its name alone.
struct FilePart {
    kind: PartKind,
    name: String,
    name_at: usize,
    tokens: Range<usize>,
    /// Its body, braces included; empty if there is none.
    body: Range<usize>,
}

/// A file and its parts, in order.
struct KernelFile<'s> {
    source: &'s Source<'s>,
    tokens: Tokens,
    parts: Vec<FilePart>,
    /// The templates with variables of the program: an instance of a function that uses one may run code before any call.
    /// None if they are not known.
    variable_owners: Option<BTreeSet<&'s str>>,
}

impl<'s> KernelFile<'s> {
    fn new(source: &'s Source<'s>, macros: &MacroNames) -> KernelFile<'s> {
        // With branches that share a bracket no definition has a certain end.
        if source.has_alternatives() {
            let tokens = Tokens::new(source.text, source.tokens.clone());
            return KernelFile { source, tokens, parts: Vec::new(), variable_owners: None };
        }
        let tokens = source.view(true);
        let items = outline_items(source.text, &tokens);
        let parts = items.iter().filter_map(|item| parse_part(source, &tokens, item, macros));
        let parts = parts.collect();
        let templates = items.iter().filter(|item| item.template);
        let variable_owners =
            templates.filter_map(|item| find_variable_owner(source.text, &tokens, item)).collect();
        KernelFile { source, tokens, parts, variable_owners: Some(variable_owners) }
    }

    /// The bytes of a range of tokens.
    fn bytes(&self, range: &Range<usize>) -> Range<usize> {
        self.tokens[range.start].start..self.tokens[range.end - 1].end
    }

    /// The identifiers of `part` without its name.
    fn part_words(&self, part: &FilePart) -> impl Iterator<Item = &str> {
        let indices = part.tokens.clone().filter(|&index| index != part.name_at);
        self.words_at(indices)
    }

    fn words_at(&self, indices: impl Iterator<Item = usize>) -> impl Iterator<Item = &str> {
        let idents = indices.filter(|&index| self.tokens[index].kind == TokenKind::Ident);
        idents.map(|index| self.tokens[index].text(self.source.text))
    }

    /// The identifiers of the code that always counts, with the heads of functions, which stay.
    fn counting_words(&self) -> BTreeSet<&str> {
        let mut words = BTreeSet::new();
        let mut start = 0;
        for part in &self.parts {
            words.extend(self.words_at(start..part.tokens.start));
            match part.kind {
                PartKind::Declaration => words.extend(self.part_words(part)),
                PartKind::Function => {
                    let head = part.tokens.start..part.body.start;
                    words.extend(self.words_at(head.filter(|&index| index != part.name_at)));
                }
                PartKind::Kernel | PartKind::Instantiation => {}
            }
            start = part.tokens.end;
        }
        words.extend(self.words_at(start..self.tokens.len()));
        words
    }
}

/// `item` as a part, if it is plain.
fn parse_part(
    source: &Source,
    tokens: &Tokens,
    item: &Item,
    macros: &MacroNames,
) -> Option<FilePart> {
    let text = source.text;
    let is_function = matches!(item.kind, ItemKind::Function | ItemKind::Prototype);
    if !is_function || item.member || macros.contains(&item.name) {
        return None;
    }
    if !has_plain_head(text, tokens, item, macros)
        || !keeps_whole_conditionals(source, tokens, item)
    {
        return None;
    }
    let has_body = item.kind == ItemKind::Function;
    // A body that is never closed holds whatever stands behind it.
    let is_closed = tokens.skip_group(item.body.start) == Some(item.body.end);
    if has_body && !(tokens.is_spelled_at(text, item.body.start, "{") && is_closed) {
        return None;
    }
    let kind = if is_instantiation(text, tokens, item) {
        PartKind::Instantiation
    } else if item.has_specifier(text, tokens, "__global__") {
        PartKind::Kernel
    } else if has_body {
        PartKind::Function
    } else {
        PartKind::Declaration
    };
    Some(FilePart {
        kind,
        name: item.name.clone(),
        name_at: item.name_at,
        tokens: item.tokens.clone(),
        body: item.body.clone(),
    })
}

/// The name of the templated `item`, if it is a variable or a class with variables of its own; for the definition of a
/// member, its class.
fn find_variable_owner<'s>(text: &'s str, tokens: &Tokens, item: &Item) -> Option<&'s str> {
    let head_start = tokens.skip_angles(text, item.tokens.start + 1)?;
    let indices = head_start..item.tokens.end;
    let is_spelled = |index: usize, word: &str| tokens.is_spelled_at(text, index, word);
    let name_at = match item.kind {
        ItemKind::Type => {
            let is_static = |index: &usize| is_spelled(*index, "static");
            let has_variables = indices.clone().filter(is_static).any(|index| {
                is_spelled(index + 1, "inline") || is_spelled(index.saturating_sub(1), "inline")
            });
            let is_class = |index: &usize| {
                ["struct", "class", "union"].iter().any(|word| is_spelled(*index, word))
            };
            indices.clone().find(is_class).filter(|_| has_variables)? + 1
        }
        ItemKind::Other if is_spelled(head_start, "using") => return None,
        ItemKind::Other => {
            let ends = ["=", ";", "{", "(", "<", "::"];
            let is_end = |index: &usize| ends.iter().any(|word| is_spelled(*index, word));
            indices.clone().find(is_end)?.checked_sub(1)?
        }
        ItemKind::Function | ItemKind::Prototype => return None,
    };
    Some(tokens[name_at].text(text))
}

/// Whether `item` is an explicit instantiation.
fn is_instantiation(text: &str, tokens: &Tokens, item: &Item) -> bool {
    let extern_words = usize::from(tokens.is_spelled_at(text, item.tokens.start, "extern"));
    let first = item.tokens.start + extern_words;
    item.kind == ItemKind::Prototype
        && tokens.is_spelled_at(text, first, "template")
        && !tokens.is_spelled_at(text, first + 1, "<")
}

/// Specifiers with arguments that change nothing but the code of a function.
const SPECIFIER_CALLS: [&str; 7] = [
    "__launch_bounds__",
    "__maxnreg__",
    "__block_size__",
    "__cluster_dims__",
    "decltype",
    "noexcept",
    "requires",
];

/// Words in front of a function besides its type.
const SPECIFIERS: [&str; 9] = [
    "static",
    "inline",
    "extern",
    "constexpr",
    "template",
    "__host__",
    "__device__",
    "__forceinline__",
    "__noinline__",
];

/// Whether the function `item` is used by its name alone: it has a type, no scope, no attributes, and no unknown macros.
fn has_plain_head(text: &str, tokens: &Tokens, item: &Item, macros: &MacroNames) -> bool {
    let mut has_type = false;
    let mut index = item.tokens.start;
    while index < item.name_at {
        let token = tokens[index];
        let word = token.text(text);
        let is_call = tokens.is_spelled_at(text, index + 1, "(");
        match token.kind {
            TokenKind::Directive => {}
            TokenKind::Ident if word == "template" => {
                index = tokens.skip_angles(text, index + 1).unwrap_or(index + 1);
                continue;
            }
            TokenKind::Ident if is_call => {
                let is_known = SPECIFIER_CALLS.contains(&word) || macros.contains(word);
                let Some(group_end) = tokens.skip_group(index + 1) else { return false };
                if !is_known || macros.may_declare(word) {
                    return false;
                }
                index = group_end;
                continue;
            }
            TokenKind::Ident => {
                if macros.may_declare(word) || matches!(word, "operator" | "friend") {
                    return false;
                }
                has_type |= !SPECIFIERS.contains(&word);
            }
            TokenKind::Punct if matches!(word, "(" | ")" | "[" | "]" | "=" | "~") => return false,
            TokenKind::Punct if word == "::" && index + 1 == item.name_at => return false,
            TokenKind::Punct | TokenKind::Number | TokenKind::Text => {}
        }
        index += 1;
    }
    let head_end = if item.body.is_empty() { item.tokens.end } else { item.body.start };
    let has_attributes = ["__attribute__", "__declspec"]
        .iter()
        .any(|word| tokens.contains_spelling(text, item.tokens.start..head_end, word));
    let is_named = tokens[item.name_at].kind == TokenKind::Ident && item.name != "operator";
    has_type && is_named && !has_attributes
}

/// Whether `item` holds conditionals as a whole or not at all, and no directive with an effect behind it.
fn keeps_whole_conditionals(source: &Source, tokens: &Tokens, item: &Item) -> bool {
    let range = tokens[item.tokens.start].start..tokens[item.tokens.end - 1].end;
    let mut directives =
        tokens[item.tokens.clone()].iter().filter(|token| token.kind == TokenKind::Directive);
    let has_effect = directives.any(|&directive| {
        let words = lex_directive(source.text, directive);
        matches!(words.text_at(source.text, 0), "define" | "undef" | "include" | "line")
    });
    !has_effect && count_open_conditionals(source, range) == Some(0)
}

/// The words within reach of `calls` and of the code that always counts.
fn find_reached_words(files: &[KernelFile], calls: &str) -> BTreeSet<String> {
    let mut graph = MentionGraph::default();
    let call_tokens = lex_tokens(calls);
    let mut words: BTreeSet<&str> = BTreeSet::new();
    words.extend(call_tokens.iter().map(|token| token.text(calls)));
    for file in files {
        graph.add_macros(file.source);
        for part in &file.parts {
            if matches!(part.kind, PartKind::Kernel | PartKind::Function) {
                graph.mention(&part.name, file.source.text, &file.tokens[part.tokens.clone()]);
            }
        }
        words.extend(file.counting_words());
    }
    let variable_owners: Option<BTreeSet<&str>> = files
        .iter()
        .map(|file| file.variable_owners.clone())
        .collect::<Option<Vec<_>>>()
        .map(|owners_of_files| owners_of_files.into_iter().flatten().collect());
    let kernel_names = list_kernel_names(files);
    let instances = files.iter().flat_map(|file| &file.parts);
    let instance_names: BTreeSet<&str> = instances
        .filter(|part| part.kind == PartKind::Instantiation)
        .map(|part| part.name.as_str())
        .collect();
    for name in instance_names.difference(&kernel_names) {
        let used_words = graph.reach_from(BTreeSet::from([*name]));
        let uses_variables = variable_owners
            .as_ref()
            .is_none_or(|owners| used_words.iter().any(|word| owners.contains(word.as_str())));
        if uses_variables {
            words.insert(name);
        }
    }
    graph.reach_from(words)
}

/// The names of kernels with bodies that no other function with a body has.
fn list_kernel_names<'f>(files: &'f [KernelFile]) -> BTreeSet<&'f str> {
    let definitions =
        || files.iter().flat_map(|file| &file.parts).filter(|part| !part.body.is_empty());
    let names_of = |is_kernel: bool| -> BTreeSet<&'f str> {
        definitions()
            .filter(|part| (part.kind == PartKind::Kernel) == is_kernel)
            .map(|part| part.name.as_str())
            .collect()
    };
    names_of(true).difference(&names_of(false)).copied().collect()
}

/// For each file, its parts that go: kernels out of reach, functions out of reach that mention one that goes, and
/// explicit instantiations of kernels and of such functions.
fn find_removed_parts(files: &[KernelFile], reached: &BTreeSet<String>) -> Vec<BTreeSet<usize>> {
    let all_parts = || files.iter().flat_map(|file| &file.parts);
    let mut removed_names: BTreeSet<&str> = all_parts()
        .filter(|part| part.kind == PartKind::Kernel && !reached.contains(&part.name))
        .map(|part| part.name.as_str())
        .collect();
    let mut removed_functions: BTreeSet<&str> = BTreeSet::new();
    // Each turn takes the users of the names of the turn before.
    loop {
        let count_before = removed_functions.len();
        for file in files {
            let functions = file.parts.iter().filter(|part| part.kind == PartKind::Function);
            for part in functions.filter(|part| !reached.contains(&part.name)) {
                if file.part_words(part).any(|word| removed_names.contains(word)) {
                    removed_functions.insert(&part.name);
                }
            }
        }
        removed_names.extend(&removed_functions);
        if removed_functions.len() == count_before {
            break;
        }
    }
    let kernel_names = list_kernel_names(files);
    let is_removed = |part: &FilePart| match part.kind {
        PartKind::Kernel => !reached.contains(&part.name),
        PartKind::Function => removed_functions.contains(part.name.as_str()),
        PartKind::Instantiation => {
            let name = part.name.as_str();
            removed_functions.contains(name) || kernel_names.contains(name)
        }
        PartKind::Declaration => false,
    };
    files
        .iter()
        .map(|file| (0..file.parts.len()).filter(|&index| is_removed(&file.parts[index])).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_out(files: &[(&str, &str)], calls: &str) -> Option<ReachedSources> {
        let units: Vec<SourceUnit> =
            files.iter().map(|&(path, text)| SourceUnit { path, text }).collect();
        leave_out_unreached_kernels(&units, calls)
    }

    /// The names of the kernels left out of `text`.
    fn unreached_names(text: &str, calls: &str) -> Vec<String> {
        let found = left_out(&[("a.cu", text)], calls);
        let unreached = found.map_or(Vec::new(), |found| found.unreached);
        unreached.into_iter().map(|kernel| kernel.name).collect()
    }

    #[test]
    fn kernels_out_of_reach_go_with_their_launchers_and_lines_stay() {
        let text = "#include \"h.cuh\"\n\
                    __device__ float twice(float x) { return 2 * x; }\n\
                    template <class T>\n\
                    __global__ void a(T* x) {\n\
                    #pragma unroll\n\
                    x[0] = twice(x[0]); }\n\
                    template __global__ void a<float>(float*);\n\
                    template __global__ void a<double>(double*);\n\
                    __global__ void __launch_bounds__(256) b(float* x);\n\
                    static __global__ void b(float* x) { x[0] = 1; }\n\
                    void launch_a(float* x) { a<<<1, 1>>>(x); }\n\
                    template <class T> void launch_b(T* x) { b<<<1, 1>>>(x); }\n\
                    template void launch_b<float>(float*);\n\
                    void run(int number, float* x) { if (number) launch_b(x); }\n\
                    int blocks(int n) { return (n + 255) / 256; }\n\
                    int main() { b<<<1, 1>>>(nullptr); }\n";
        let found = left_out(&[("a.cu", text)], "launch_a(x);").unwrap();
        assert_eq!(found.texts[0].lines().count(), text.lines().count());
        let kept: Vec<String> = found.texts[0]
            .lines()
            .zip(1..)
            .filter(|(line, _)| !line.trim().is_empty())
            .map(|(line, number)| format!("{number} {}", line.trim_end()))
            .collect();
        insta::assert_snapshot!(kept.join("\n"), @r#"
        1 #include "h.cuh"
        2 __device__ float twice(float x) { return 2 * x; }
        3 template <class T>
        4 __global__ void a(T* x) {
        5 #pragma unroll
        6 x[0] = twice(x[0]); }
        11 void launch_a(float* x) { a<<<1, 1>>>(x); }
        12 template <class T> void launch_b(T* x) ;
        14 void run(int number, float* x) ;
        15 int blocks(int n) { return (n + 255) / 256; }
        16 int main() { b<<<1, 1>>>(nullptr); }
        "#);
        let expected = UnreachedKernel { path: "a.cu".into(), line: 10, name: "b".into() };
        assert_eq!(found.unreached, [expected]);
    }

    #[test]
    fn a_kernel_stays_where_anything_may_lead_to_it() {
        let kernel = "__global__ void k(float* x) {}\n";
        for (other_code, why) in [
            ("void run() { k<<<1, 1>>>(0); }", "the call names the function"),
            ("#define KERNEL k\nvoid run() { KERNEL<<<1, 1>>>(0); }", "a macro names it"),
            ("#define LAUNCH(f) f<<<1, 1>>>(0)\nvoid run() { LAUNCH(k); }", "a macro launches it"),
            ("auto pointer = &k;", "a variable of the program holds it"),
            ("struct Launcher { void go() { k<<<1, 1>>>(0); } };", "a class launches it"),
            ("void Launcher::go() { k<<<1, 1>>>(0); }", "a member launches it"),
            ("Launcher operator+(Launcher a, int) { k<<<1, 1>>>(0); }", "an operator launches it"),
            ("__attribute__((constructor)) void go() { k<<<1, 1>>>(0); }", "it runs by itself"),
            ("[[gnu::constructor]] void go() { k<<<1, 1>>>(0); }", "it runs by itself"),
            ("TEST(group, name) { k<<<1, 1>>>(0); }", "a macro defines the function"),
            ("void TEST(name)(int n) { k<<<1, 1>>>(0); }", "a macro names the function"),
            (
                "#define START __attribute__((constructor))\nSTART void go() { k<<<1, 1>>>(0); }",
                "it runs by itself",
            ),
            (
                "#define PASTE(a, b) a##b\nvoid run() { PASTE(, k)<<<1, 1>>>(0); }",
                "names are pasted",
            ),
            (
                "#if A\nvoid go(int n) {\n#else\nvoid go() {\n#endif\nk<<<1, 1>>>(0); }",
                "a definition has two beginnings",
            ),
            (
                "void go()\n#if A\n{ k<<<1, 1>>>(0); }\n#else\n;\n#endif",
                "half of a definition is conditional",
            ),
            ("void go(void (*f)(float*) = k);", "it is a default"),
            (
                "void go(void (*f)(float*) = k) { k<<<1, 1>>>(0); }",
                "it is the default of a function",
            ),
            (
                "#define END(...) end_##__VA_ARGS__\nvoid end_it() { k<<<1, 1>>>(0); }",
                "names are pasted",
            ),
            (
                "template <class T> struct Table { static bool done; };\n\
                 template <class T> bool Table<T>::done = true;\n\
                 template <class T> void go() { Table<T>::done; k<<<1, 1>>>(0); }\n\
                 template void go<float>();",
                "an instance may fill a table that launches it",
            ),
            (
                "template <class T> struct Table { inline static bool done = true; };\n\
                 template <class T> void go() { Table<T>::done; k<<<1, 1>>>(0); }\n\
                 template void go<float>();",
                "an instance may fill a table that launches it",
            ),
            (
                "template <class T> bool done = true;\n\
                 template <class T> void go() { done<T>; k<<<1, 1>>>(0); }\n\
                 template void go<float>();",
                "an instance may fill a table that launches it",
            ),
            ("INSTANTIATE(k)", "an unknown macro names it"),
            ("using alias = decltype(&k);", "a type is made of it"),
        ] {
            let text = format!("{kernel}{other_code}\n");
            assert!(unreached_names(&text, "run();").is_empty(), "{why}: {other_code}");
        }
        let without = format!("{kernel}void run() {{}}\n");
        assert_eq!(unreached_names(&without, "run();"), ["k"]);
        assert!(unreached_names(&without, "k<<<1, 1>>>(x);").is_empty());
    }

    #[test]
    fn a_kernel_in_a_form_that_is_not_plain_stays() {
        for kernel in [
            "__global__ __attribute__((used)) void k(float* x) {}",
            "#define DECLARE int n; __global__\nDECLARE void k(float* x) {}",
            "#define KERNEL(name) __global__ void name(float* x)\nKERNEL(k) {}",
            "__global__ void k(float* x) {\n#define N 3\n}",
            "#if A\n__global__ void k(float* x)\n#endif\n{}",
            "UNKNOWN(256) __global__ void k(float* x) {}",
        ] {
            let text = format!("{kernel}\n__global__ void other(int* x) {{}}\n");
            let expected: &[&str] = &["other"];
            assert_eq!(unreached_names(&text, "run();"), expected, "{kernel}");
        }
    }

    #[test]
    fn a_kernel_that_is_never_closed_stays_with_the_code_behind_it() {
        let text = "__global__ void k(float* x) {\nif (x) {\n}\nvoid run() {}\n";
        assert!(unreached_names(text, "run();").is_empty());
    }

    #[test]
    fn pasted_variadic_arguments_hide_no_name() {
        let text =
            "#define SAY(format, ...) printf(format, ##__VA_ARGS__)\n__global__ void k() {}\n";
        assert_eq!(unreached_names(text, "run();"), ["k"]);
    }

    #[test]
    fn a_kernel_of_one_file_is_reached_from_another() {
        let header = "template <class T> __global__ void k(T* x) {}\n__global__ void other() {}\n";
        let source = "#include \"k.cuh\"\nvoid run(float* x) { k<<<1, 1>>>(x); }\n";
        let found = left_out(&[("k.cuh", header), ("a.cu", source)], "run(x);").unwrap();
        let names: Vec<&str> = found.unreached.iter().map(|kernel| kernel.name.as_str()).collect();
        assert_eq!(names, ["other"]);
        assert_eq!(found.texts[1], source);
    }

    #[test]
    fn nothing_is_left_out_where_all_is_reached() {
        assert!(left_out(&[("a.cu", "__global__ void k() {}")], "k<<<1, 1>>>();").is_none());
        assert!(left_out(&[("a.c", "int add(int a, int b) { return a + b; }")], "").is_none());
    }
}
