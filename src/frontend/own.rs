//! The names that a file defines for itself, as another file of the same program may too.

use std::ops::Range;

use super::Own;
use super::lexer::{Kind, Tokens};
use super::macros;
use super::outline::{Item, ItemKind, outline};
use super::source::Source;

/// The names of `source`.
pub(super) fn of(source: &Source) -> Own {
    let text = source.text;
    let mut own = Own::default();
    for first in [true, false] {
        if first || source.has_alternatives() {
            let tokens = source.view(first);
            for item in outline(text, &tokens).iter().filter(|item| !item.member) {
                own.defined.extend(defined(text, &tokens, item));
            }
        }
    }
    for &token in &source.tokens {
        match (token.kind, macros::definition(text, token)) {
            (Kind::Directive, Some(found)) => {
                own.macros.insert(found.name.to_owned(), !found.body.is_empty());
            }
            (Kind::Ident, _) => {
                own.words.insert(token.text(text).to_owned());
            }
            _ => {}
        }
    }
    own
}

/// The names that `item` defines.
fn defined(text: &str, tokens: &Tokens, item: &Item) -> Vec<String> {
    let range = item.tokens.start..item.tokens.end;
    let words = || tokens[range.clone()].iter().map(|token| token.text(text));
    match item.kind {
        ItemKind::Function if item.name != "operator" => {
            let is_scoped = item.name_at > 0 && tokens.is(text, item.name_at - 1, "::");
            if is_scoped { Vec::new() } else { vec![item.name.clone()] }
        }
        ItemKind::Type => {
            let is_head = |at: &usize| {
                let word = tokens[*at].text(text);
                tokens[*at].kind == Kind::Ident
                    && !matches!(word, "struct" | "class" | "union" | "enum")
            };
            let name = range.clone().skip_while(|&at| {
                !matches!(tokens[at].text(text), "struct" | "class" | "union" | "enum")
            });
            name.take_while(|&at| !tokens.is(text, at, "{"))
                .find(is_head)
                .map_or(Vec::new(), |at| vec![tokens[at].text(text).to_owned()])
        }
        ItemKind::Other if !words().any(|word| word == "extern") => {
            let variables = variables(text, tokens, item);
            variables.into_iter().map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

/// The names of the variables that `item` declares.
fn variables<'t>(text: &'t str, tokens: &Tokens, item: &Item) -> Vec<&'t str> {
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
    let mut words = range.clone().map(|at| tokens[at].text(text));
    if words.any(|word| no_variable.contains(&word)) {
        Vec::new()
    } else {
        declarators(text, tokens, range)
    }
}

/// The names that the declaration in the tokens `range`, without its semicolon, declares.
fn declarators<'t>(text: &'t str, tokens: &Tokens, range: Range<usize>) -> Vec<&'t str> {
    let mut found = Vec::new();
    let (mut name, mut words, mut ended) = (None, 0, false);
    let mut at = range.start;
    while at < range.end {
        let token = tokens[at];
        match token.text(text) {
            "," => {
                found.extend(name.take());
                ended = false;
            }
            "=" | "[" | "{" => ended = true,
            "(" => (name, ended) = (None, true),
            word if token.kind == Kind::Ident && !ended => {
                words += 1;
                name = (words > 1).then_some(word);
            }
            _ => {}
        }
        let inner = match tokens.is(text, at, "<") {
            true => tokens.skip_angles(text, at),
            false => tokens.skip_group(at),
        };
        at = inner.unwrap_or(at + 1);
    }
    found.extend(name);
    found
}
