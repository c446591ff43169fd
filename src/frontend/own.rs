//! The names that a file defines for itself, as another file of the same program may too.

use super::Own;
use super::lexer::{Kind, Tokens};
use super::macros;
use super::outline::{Item, ItemKind, outline};
use super::source::Source;
use super::spaces;

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
            let variables = spaces::variables(text, tokens, item);
            variables.into_iter().map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}
