//! Definitions for `double` beside those for `float`. In the float64 shadow both are for `double`, so the second kind is
//! left out: sources call the one for `float`.

use std::collections::BTreeMap;
use std::ops::Range;

use super::edits::Edits;
use super::host::HostContext;
use super::lexer::{TokenKind, Tokens};
use super::outline::{Item, ItemKind, outline_items};

/// Removes the definitions and declarations for `double` with a twin for `float` in the same scope.
pub(super) fn leave_out_double_twins(context: &HostContext, edits: &mut Edits) {
    let text = context.source.text;
    let tokens = &context.tokens;
    let scopes = enclosing_braces(text, tokens);
    let mut twins: BTreeMap<(usize, String), Vec<Definition>> = BTreeMap::new();
    for item in outline_items(text, tokens) {
        let words = head_words(text, tokens, &item);
        let has = |name: &str| words.contains(&name);
        if has("float") == has("double") {
            continue;
        }
        let for_double = has("double");
        let key = words.iter().map(|word| if *word == "float" { "double" } else { word });
        let key = format!("{:?} {}", item.kind, key.collect::<Vec<_>>().join(" "));
        let scope = scopes[item.tokens.start];
        twins
            .entry((scope, key))
            .or_default()
            .push(Definition { tokens: item.tokens.clone(), for_double });
    }
    for definitions in twins.into_values() {
        if definitions.iter().all(|definition| definition.for_double) {
            continue;
        }
        for Definition { tokens: range, .. } in
            definitions.iter().filter(|definition| definition.for_double)
        {
            edits.remove(text, tokens[range.start].start..tokens[range.end - 1].end);
        }
    }
}

/// A definition for one of both types.
struct Definition {
    /// Indices of its tokens.
    tokens: Range<usize>,
    for_double: bool,
}

/// The index of the open brace around each token, plus one; zero outside of all.
fn enclosing_braces(text: &str, tokens: &Tokens) -> Vec<usize> {
    let mut open_braces = Vec::new();
    let mut scopes = Vec::with_capacity(tokens.len());
    for (index, token) in tokens.iter().enumerate() {
        if token.is_spelled(text, "}") {
            open_braces.pop();
        }
        scopes.push(open_braces.last().map_or(0, |brace| brace + 1));
        if token.is_spelled(text, "{") {
            open_braces.push(index);
        }
    }
    scopes
}

/// The words of `item` that tell it from others of its name: those before its body, without names of parameters.
fn head_words<'t>(text: &'t str, tokens: &Tokens, item: &Item) -> Vec<&'t str> {
    let range = item.tokens.clone();
    let ends_head = |index: usize| match item.kind {
        ItemKind::Function => index >= item.body.start,
        ItemKind::Type => matches!(tokens[index].text(text), "{" | ":"),
        ItemKind::Prototype | ItemKind::Other => false,
    };
    let mut words = Vec::new();
    for index in range.clone().take_while(|&index| !ends_head(index)) {
        let is_name = tokens[index].kind == TokenKind::Ident
            && index > item.name_at
            && matches!(item.kind, ItemKind::Function | ItemKind::Prototype)
            && matches!(tokens.text_at(text, index + 1), "," | ")" | "=" | "[")
            && index > range.start
            && (tokens[index - 1].kind == TokenKind::Ident
                || matches!(tokens.text_at(text, index - 1), "*" | "&" | ">"));
        let before = tokens.text_at(text, index.wrapping_sub(1));
        let is_type_word = matches!(tokens[index].text(text), "float" | "double" | "int");
        if !is_name || is_type_word || before == "const" && index < item.name_at {
            words.push(tokens[index].text(text));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use crate::{Precision, SourceUnit, Threads, scan_symbols, translate_for_host};

    fn shadow_code(text: &str) -> String {
        let unit = SourceUnit { path: "a.cu", text };
        let made =
            translate_for_host(&unit, &scan_symbols(&[unit]), Precision::Shadow, Threads::Stacks);
        made.unwrap().text
    }

    #[test]
    fn of_two_definitions_for_float_and_double_the_first_stays() {
        let text = "template <> struct Of<double> { int a; };\ntemplate <> struct Of<float> { int b; };\n\
                    __device__ float f(float x) { return x; }\n__device__ double f(double y) { return y; }\n\
                    template void run<float>(int);\ntemplate void run<double>(int);\n\
                    namespace n { double g(double); }\nfloat g(float);\nfloat h(float, int);\ndouble h(double);\n";
        insta::assert_snapshot!(shadow_code(text), @r#"
        #line 1 "a.cu"

        template <> struct Of<double> { int b; };
        __device__ double f(double x) { return x; }

        template void run<double>(int);

        namespace n { double g(double); }
        double g(double);
        double h(double, int);
        double h(double);
        "#);
    }
}
