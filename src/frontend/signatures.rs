//! The signatures of a file's functions, and whether they launch kernels, for code that is to call
//! them. Knows no types: a parameter's type is the words before its name.

use super::Unit;
use super::lexer::{Kind, Tokens};
use super::outline::{Item, ItemKind, outline};
use super::source::Source;
use super::symbols::Symbols;

/// A function that a file defines at namespace scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Its name without namespaces.
    pub name: String,
    /// The 1-based line of the name.
    pub line: usize,
    /// Whether it is a `__global__` function.
    pub kernel: bool,
    /// Whether it is a template.
    pub template: bool,
    /// Whether other files cannot call it.
    pub local: bool,
    /// The words of its type before the name, without specifiers: `float`, `void`.
    pub returns: String,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
    /// Whether its body launches a kernel.
    pub launches: bool,
}

/// One parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The words of its type with one space between them, `const float *`; `__restrict__` left out.
    pub ty: String,
    /// Its name; empty if it has none.
    pub name: String,
}

/// The host functions and kernels that `unit` defines at namespace scope, in order.
pub fn signatures(unit: &Unit, symbols: &Symbols) -> Vec<Signature> {
    let source = Source::new(unit);
    let tokens = source.view(true);
    let items = outline(source.text, &tokens);
    let wanted = items.iter().filter(|item| item.kind == ItemKind::Function && !item.member);
    wanted.filter_map(|item| signature(&source, &tokens, item, symbols)).collect()
}

fn signature(
    source: &Source,
    tokens: &Tokens,
    item: &Item,
    symbols: &Symbols,
) -> Option<Signature> {
    let text = source.text;
    let has = |word| item.has(text, tokens, word);
    let kernel = has("__global__");
    if has("__device__") && !has("__host__") {
        return None;
    }
    let open = (item.name_at..item.body.start).find(|&at| tokens.is(text, at, "("))?;
    let close = tokens.skip_group(open)?.checked_sub(1)?;
    let launches = item
        .body
        .clone()
        .any(|at| tokens.is(text, at, "<<<") || symbols.is_kernel(tokens[at].text(text)));
    let head = item.tokens.start..item.name_at;
    Some(Signature {
        name: item.name.clone(),
        line: source.line(tokens[item.name_at].start),
        kernel,
        template: item.template,
        local: has("static"),
        returns: words(text, tokens, head.filter(|&at| !is_specifier(tokens[at].text(text)))),
        parameters: parameters(text, tokens, open + 1, close),
        launches,
    })
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
        insta::assert_snapshot!(told.join("\n"), @r"
        1 void k(float *|y, int|n) kernel true local false launches false
        3 float run(const float *|x, unsigned char *|mask, int|n, void ( * ) ( int )|) kernel false local false launches true
        5 int count() kernel false local true launches false
        ");
    }
}
