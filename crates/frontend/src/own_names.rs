//! The names of a file at namespace scope. Another file of the same program may define them too.

use std::collections::BTreeSet;
use std::ops::Range;

use super::lexer::{TokenKind, Tokens, lex_directive};
use super::macros;
use super::outline::{Item, ItemKind, outline_items};
use super::signatures::parse_function_parameters;
use super::source::Source;
use super::{OwnNames, StaticVariable};

/// The names of `source`.
pub(super) fn find_own_names(source: &Source) -> OwnNames {
    let text = source.text;
    let mut own_names = OwnNames::default();
    for first in [true, false] {
        if first || source.has_alternatives() {
            let tokens = source.view(first);
            for item in outline_items(text, &tokens) {
                let names = names_defined_by_item(text, &tokens, &item);
                own_names.declared.extend(names.iter().cloned());
                if !item.member {
                    if is_static(text, &tokens, &item) {
                        own_names.internal.extend(names.iter().cloned());
                    } else if let Some(types) = list_parameter_types(text, &tokens, &item) {
                        for name in &names {
                            let lists = own_names.parameter_lists.entry(name.clone()).or_default();
                            lists.insert(types.clone());
                        }
                    }
                    own_names.defined.extend(names);
                }
                if !item.name.is_empty() {
                    own_names.declared.insert(item.name);
                }
            }
        }
    }
    let mut is_used = false;
    for pair in source.tokens.windows(2) {
        if pair[0].is_spelled(text, "namespace") && pair[1].kind == TokenKind::Ident && !is_used {
            own_names.namespaces.insert(pair[1].text(text).to_owned());
        }
        is_used = pair[0].is_spelled(text, "using");
        let is_member = matches!(pair[0].text(text), "." | "->" | "::");
        if is_member && pair[1].kind == TokenKind::Ident {
            own_names.member_words.insert(pair[1].text(text).to_owned());
        }
    }
    let mut guards = BTreeSet::new();
    for &token in &source.tokens {
        match (token.kind, macros::parse_macro_definition(text, token)) {
            (TokenKind::Directive, Some(macro_definition)) => {
                let name = macro_definition.name;
                let is_guard = macro_definition.body.is_empty() && guards.contains(name);
                own_names.macros.insert(name.to_owned(), !is_guard);
            }
            (TokenKind::Directive, None) => {
                let words = lex_directive(text, token);
                let Some(directive) = words.first().map(|word| word.text(text)) else { continue };
                if directive != "include" {
                    let identifiers = words.iter().filter(|word| word.kind == TokenKind::Ident);
                    own_names.words.extend(identifiers.map(|word| word.text(text).to_owned()));
                }
                let is_negative =
                    directive == "ifndef" || words.iter().any(|word| word.is_spelled(text, "!"));
                if is_negative {
                    guards.extend(words.iter().map(|word| word.text(text)));
                }
            }
            (TokenKind::Ident, _) => {
                own_names.words.insert(token.text(text).to_owned());
            }
            _ => {}
        }
    }
    own_names
}

/// The types of the parameters of the function `item`, in order. None for kernels and for what is no function with a body.
fn list_parameter_types(text: &str, tokens: &Tokens, item: &Item) -> Option<String> {
    if item.kind != ItemKind::Function || item.has_specifier(text, tokens, "__global__") {
        return None;
    }
    let parameters = parse_function_parameters(text, tokens, item)?;
    let types = parameters.iter().map(|parameter| {
        let is_value = !parameter.ty.contains(['*', '&']);
        // A function cannot be overloaded by the `const` of a value.
        parameter.ty.strip_prefix("const ").filter(|_| is_value).unwrap_or(&parameter.ty)
    });
    Some(types.collect::<Vec<_>>().join(", "))
}

/// The `static` variables of `source` at namespace scope that code may change, each with its qualifiers and whether it has
/// an initial value.
pub(super) fn list_static_variables(source: &Source) -> Vec<StaticVariable> {
    let text = source.text;
    let tokens = source.view(true);
    let mut variables = Vec::new();
    for item in outline_items(text, &tokens) {
        let range = item.tokens.start..item.tokens.end;
        let has = |word: &str| tokens.contains_spelling(text, range.clone(), word);
        let is_variable = !item.member && item.kind == ItemKind::Other && has("static");
        if !is_variable || has("const") || has("constexpr") {
            continue;
        }
        let is_device = has("__device__") || has("__managed__");
        let is_constant = has("__constant__");
        let is_given = has("=") || has("{");
        for name in names_defined_by_item(text, &tokens, &item) {
            variables.push(StaticVariable { name, is_device, is_constant, is_given });
        }
    }
    variables
}

/// Whether the function or variable `item` is declared as `static`.
fn is_static(text: &str, tokens: &Tokens, item: &Item) -> bool {
    let head = match item.kind {
        ItemKind::Function => item.tokens.start..item.name_at,
        ItemKind::Other => item.tokens.start..item.tokens.end,
        ItemKind::Type | ItemKind::Prototype => return false,
    };
    tokens.contains_spelling(text, head, "static")
}

/// Whether `word` begins the declaration of a type.
fn is_type_keyword(word: &str) -> bool {
    matches!(word, "struct" | "class" | "union" | "enum")
}

/// The names defined by `item`.
pub(super) fn names_defined_by_item(text: &str, tokens: &Tokens, item: &Item) -> Vec<String> {
    let range = item.tokens.start..item.tokens.end;
    match item.kind {
        ItemKind::Function if item.name != "operator" => {
            let is_scoped = item.name_at > 0 && tokens.is_spelled_at(text, item.name_at - 1, "::");
            if is_scoped { Vec::new() } else { vec![item.name.clone()] }
        }
        ItemKind::Type => {
            let head = tokens[range.clone()]
                .iter()
                .skip_while(|token| !is_type_keyword(token.text(text)))
                .take_while(|token| !token.is_spelled(text, "{"));
            let mut names = head.filter(|token| {
                token.kind == TokenKind::Ident && !is_type_keyword(token.text(text))
            });
            names.next().map_or(Vec::new(), |token| vec![token.text(text).to_owned()])
        }
        ItemKind::Other if !tokens.contains_spelling(text, range.clone(), "extern") => {
            let variables = variables_of_item(text, tokens, item);
            variables.into_iter().map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

/// The names of the variables in the declaration `item`.
fn variables_of_item<'t>(text: &'t str, tokens: &Tokens, item: &Item) -> Vec<&'t str> {
    let range = item.tokens.start..item.tokens.end - 1;
    let no_variable = [
        "using",
        "typedef",
        "template",
        "static_assert",
        "friend",
        "namespace",
        "asm",
        "struct",
        "class",
        "union",
        "enum",
        "operator",
        "concept",
    ];
    let mut words = range.clone().map(|token_index| tokens[token_index].text(text));
    if words.any(|word| no_variable.contains(&word)) {
        Vec::new()
    } else {
        declared_variable_names(text, tokens, range)
    }
}

/// The declared names in the tokens `range` of a declaration without its semicolon.
fn declared_variable_names<'t>(
    text: &'t str,
    tokens: &Tokens,
    range: Range<usize>,
) -> Vec<&'t str> {
    let mut declared_names = Vec::new();
    let mut name = None;
    let mut words = 0;
    let mut ended = false;
    let mut token_index = range.start;
    while token_index < range.end {
        let token = tokens[token_index];
        match token.text(text) {
            "," => {
                declared_names.extend(name.take());
                ended = false;
            }
            "=" | "[" | "{" => ended = true,
            "(" => (name, ended) = (None, true),
            word if token.kind == TokenKind::Ident && !ended => {
                words += 1;
                name = (words > 1).then_some(word);
            }
            _ => {}
        }
        token_index = tokens.skip_group_or_angles(text, token_index).unwrap_or(token_index + 1);
    }
    declared_names.extend(name);
    declared_names
}
