//! The signatures of a file's functions, and whether they launch kernels, for code that is to call
//! them. Knows no types: a parameter's type is the words before its name.

use std::ops::Range;

use super::Unit;
use super::lexer::{Kind, Tokens};
use super::outline::{Item, ItemKind, outline};
use super::source::Source;
use super::symbols::{self, Symbols};

/// A function that a file defines at namespace scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Its name without namespaces.
    pub name: String,
    /// The namespaces around it, each with `::`.
    pub scope: String,
    /// The 1-based line of the name.
    pub line: usize,
    /// Whether it is a `__global__` function.
    pub kernel: bool,
    /// Whether only device code can call it.
    pub device: bool,
    /// The parameters of its template; none if it is no template.
    pub template: Option<Vec<TemplateParameter>>,
    /// Whether other files cannot call it.
    pub local: bool,
    /// The words of its type before the name, without specifiers: `float`, `void`.
    pub returns: String,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
    /// Whether its body launches a kernel or has a library multiply matrices.
    pub launches: bool,
}

/// One parameter of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateParameter {
    /// The words before its name: `typename`, `int`, `bool`.
    pub ty: String,
    /// Its name; empty if it has none.
    pub name: String,
    /// Whether it need not be given.
    pub has_default: bool,
}

/// One parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The words of its type with one space between them, `const float *`; `__restrict__` left out.
    pub ty: String,
    /// Its name; empty if it has none.
    pub name: String,
}

/// The functions that `unit` defines at namespace scope, in order.
pub fn signatures(unit: &Unit, symbols: &Symbols) -> Vec<Signature> {
    let source = Source::new(unit);
    let tokens = source.view(true);
    let items = outline(source.text, &tokens);
    let wanted = items.iter().filter(|item| item.kind == ItemKind::Function && !item.member);
    let opens = (0..tokens.len()).filter(|&at| tokens.is(source.text, at, "{"));
    let braces: Vec<Range<usize>> =
        opens.filter_map(|at| tokens.skip_group(at).map(|end| at..end)).collect();
    wanted.filter_map(|item| signature(&source, (&tokens, &braces), item, symbols)).collect()
}

fn signature(
    source: &Source,
    (tokens, braces): (&Tokens, &[Range<usize>]),
    item: &Item,
    symbols: &Symbols,
) -> Option<Signature> {
    let text = source.text;
    let has = |word| item.has(text, tokens, word);
    let kernel = has("__global__");
    let open = (item.name_at..item.body.start).find(|&at| tokens.is(text, at, "("))?;
    let close = tokens.skip_group(open)?.checked_sub(1)?;
    let launches = item.body.clone().any(|at| {
        let word = tokens[at].text(text);
        word == "<<<" || symbols.is_kernel(word) || multiplies_matrices(word)
    });
    let head = item.tokens.start..item.name_at;
    Some(Signature {
        name: item.name.clone(),
        line: source.line(tokens[item.name_at].start),
        kernel,
        device: has("__device__") && !has("__host__"),
        template: item.template.then(|| template(text, tokens, head.clone())),
        scope: scope(text, tokens, braces, item.tokens.start),
        local: has("static"),
        returns: words(text, tokens, returned(text, tokens, head)),
        parameters: parameters(text, tokens, open + 1, close),
        launches,
    })
}

/// Whether `word` is a function of cuBLAS or cuBLASLt that computes a product.
fn multiplies_matrices(word: &str) -> bool {
    let products = ["gemm", "Gemm", "gemv"];
    let computes =
        word.starts_with("cublas") && products.iter().any(|product| word.contains(product));
    computes || word == "cublasLtMatmul"
}

/// The words of a function's type among those before its name.
fn returned(text: &str, tokens: &Tokens, head: Range<usize>) -> impl Iterator<Item = usize> {
    let template = head.clone().rev().find(|&at| tokens.is(text, at, "template"));
    let behind = template.and_then(|at| tokens.skip_angles(text, at + 1));
    let words = behind.unwrap_or(head.start)..head.end;
    words.filter(|&at| !is_specifier(tokens[at].text(text)))
}

/// The parameters of the template whose head stands among the tokens of `head`.
fn template(text: &str, tokens: &Tokens, head: Range<usize>) -> Vec<TemplateParameter> {
    let Some(open) = head.into_iter().rev().find(|&at| tokens.is(text, at, "template")) else {
        return Vec::new();
    };
    let one = |range: Range<usize>| {
        let default = range.clone().find(|&at| tokens.is(text, at, "="));
        let last = default.unwrap_or(range.end).checked_sub(1)?;
        let named = last > range.start && tokens[last].kind == Kind::Ident;
        let end = if named { last } else { last + 1 };
        Some(TemplateParameter {
            ty: words(text, tokens, range.start..end),
            name: if named { tokens[last].text(text).to_owned() } else { String::new() },
            has_default: default.is_some(),
        })
    };
    symbols::arguments(text, tokens, open + 1).into_iter().filter_map(one).collect()
}

/// The namespaces that are open at `at`, each with `::`; `braces` are all groups in braces.
fn scope(text: &str, tokens: &Tokens, braces: &[Range<usize>], at: usize) -> String {
    let around = braces.iter().take_while(|group| group.start < at).filter(|group| group.end > at);
    let mut scope = String::new();
    for brace in around.map(|group| group.start) {
        let is_name = |&word: &usize| {
            tokens[word].kind == Kind::Ident && !tokens.is(text, word, "namespace")
                || tokens.is(text, word, "::")
        };
        let name: Vec<usize> = (0..brace).rev().take_while(is_name).collect();
        let before = brace.checked_sub(name.len() + 1);
        if before.is_some_and(|before| tokens.is(text, before, "namespace")) && !name.is_empty() {
            name.iter().rev().for_each(|&word| scope.push_str(tokens[word].text(text)));
            scope.push_str("::");
        }
    }
    scope
}

/// Words of a declaration that do not belong to its type.
fn is_specifier(word: &str) -> bool {
    let specifiers = [
        "static",
        "inline",
        "extern",
        "\"C\"",
        "__host__",
        "__device__",
        "__global__",
        "constexpr",
    ];
    specifiers.contains(&word)
}

fn parameters(text: &str, tokens: &Tokens, start: usize, end: usize) -> Vec<Parameter> {
    let mut found = Vec::new();
    let (mut at, mut first) = (start, start);
    while at < end {
        if tokens.is(text, at, ",") {
            found.extend(parameter(text, tokens, first, at));
            first = at + 1;
        }
        let inner = match tokens.is(text, at, "<") {
            true => tokens.skip_angles(text, at),
            false => tokens.skip_group(at),
        };
        at = inner.unwrap_or(at + 1);
    }
    found.extend(parameter(text, tokens, first, end));
    found
}

fn parameter(text: &str, tokens: &Tokens, start: usize, end: usize) -> Option<Parameter> {
    let default = (start..end).find(|&at| tokens.is(text, at, "="));
    let end = default.unwrap_or(end);
    let kept = |at: &usize| {
        let word = tokens[*at].text(text);
        tokens[*at].kind != Kind::Directive && !matches!(word, "__restrict__" | "__restrict")
    };
    let mut places: Vec<usize> = (start..end).filter(kept).collect();
    if places.is_empty() || matches!(places[..], [at] if tokens.is(text, at, "void")) {
        return None;
    }
    // `float x[]` is a pointer.
    let array = places.iter().position(|&at| tokens.is(text, at, "["));
    if let Some(array) = array {
        places.truncate(array);
    }
    let last = *places.last()?;
    let named = places.len() > 1 && tokens[last].kind == Kind::Ident;
    if named {
        places.pop();
    }
    let mut ty = words(text, tokens, places.into_iter());
    if array.is_some() {
        ty.push_str(" *");
    }
    let name = if named { tokens[last].text(text).to_owned() } else { String::new() };
    Some(Parameter { ty, name })
}

fn words(text: &str, tokens: &Tokens, places: impl Iterator<Item = usize>) -> String {
    places.map(|at| tokens[at].text(text)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::scan;
    use super::*;

    fn of(text: &str) -> Vec<Signature> {
        let unit = Unit { path: "a.cu", text };
        signatures(&unit, &scan(&[unit]))
    }

    #[test]
    fn a_host_function_shows_what_it_takes_and_that_it_launches() {
        let found = of("__global__ void k(float* __restrict__ y, int n) { y[0] = n; }\n\
                        static __device__ int helper(int x) { return x; }\n\
                        float run(const float* x, unsigned char mask[], int n = 3, void (*)(int))\n\
                        { k<<<1, 2>>>(0, n); return 0; }\n\
                        static int count(void) { return 1; }\n");
        let told: Vec<String> = found
            .iter()
            .map(|f| {
                let parameters = f.parameters.iter().map(|p| format!("{}|{}", p.ty, p.name));
                let parameters: Vec<_> = parameters.collect();
                format!(
                    "{} {} {}({}) kernel {} local {} launches {}",
                    f.line,
                    f.returns,
                    f.name,
                    parameters.join(", "),
                    f.kernel,
                    f.local,
                    f.launches
                )
            })
            .collect();
        insta::assert_snapshot!(told.join("\n"), @"
        1 void k(float *|y, int|n) kernel true local false launches false
        2 int helper(int|x) kernel false local true launches false
        3 float run(const float *|x, unsigned char *|mask, int|n, void ( * ) ( int )|) kernel false local false launches true
        5 int count() kernel false local true launches false
        ");
    }

    #[test]
    fn templates_and_namespaces_are_told() {
        let found = of("namespace a { namespace b::c {\n\
             template <typename T, int WIDTH = 4, bool CAUSAL>\n\
             __global__ void k(T* out, const T* inp) { out[0] = inp[0]; }\n\
             } }\n\
             void run(float* out, const float* inp) { k<float, 4><<<1, 1>>>(out, inp); }\n");
        assert_eq!((&*found[0].scope, &*found[1].scope), ("a::b::c::", ""));
        assert_eq!(found[0].returns, "void");
        let template = found[0].template.as_ref().unwrap();
        let template: Vec<String> =
            template.iter().map(|p| format!("{} {} {}", p.ty, p.name, p.has_default)).collect();
        assert_eq!(template, ["typename T false", "int WIDTH true", "bool CAUSAL false"]);
    }
}
