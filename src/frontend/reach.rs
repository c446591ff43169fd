//! Which functions, classes and macros of a source set a piece of code can reach, by name alone: what
//! cannot be reached does not run.

use std::collections::{BTreeMap, BTreeSet};

use super::lexer::{Kind, Token, Tokens, lex};
use super::macros;
use super::outline::{Item, ItemKind, outline};
use super::source::Source;
use super::spaces;

/// The words that the definition of each name mentions.
#[derive(Clone, Debug, Default)]
pub(super) struct Reach {
    mentions: BTreeMap<String, BTreeSet<String>>,
}

impl Reach {
    /// Adds the definitions of `source`.
    pub(super) fn add(&mut self, source: &Source) {
        let text = source.text;
        for &token in &source.tokens {
            if let Some(defined) = macros::definition(text, token) {
                self.mention(defined.name, text, &defined.body);
            }
        }
        for first in [true, false] {
            if first || source.has_alternatives() {
                let tokens = source.view(first);
                for item in outline(text, &tokens) {
                    for name in names(text, &tokens, &item) {
                        self.mention(name, text, &tokens[item.tokens.clone()]);
                    }
                }
            }
        }
    }

    fn mention(&mut self, name: &str, text: &str, tokens: &[Token]) {
        let idents = tokens.iter().filter(|token| token.kind == Kind::Ident);
        let words = idents.map(|token| token.text(text)).filter(|word| *word != name);
        let known = self.mentions.entry(name.to_owned()).or_default();
        known.extend(words.map(str::to_owned));
    }

    /// The words of `code` and of all that they lead to.
    pub(super) fn from(&self, code: &str) -> BTreeSet<String> {
        let tokens = lex(code);
        let idents = tokens.iter().filter(|token| token.kind == Kind::Ident);
        let mut open: Vec<&str> = idents.map(|token| token.text(code)).collect();
        let mut found: BTreeSet<String> = open.iter().map(|&word| word.to_owned()).collect();
        while let Some(word) = open.pop() {
            for next in self.mentions.get(word).into_iter().flatten() {
                if found.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        found
    }
}

/// The names by which `item` is reached.
fn names<'t>(text: &'t str, tokens: &Tokens, item: &'t Item) -> Vec<&'t str> {
    match item.kind {
        ItemKind::Function => vec![item.name.as_str()],
        ItemKind::Type => spaces::type_names(text, tokens, item),
        ItemKind::Other => {
            let idents = tokens[item.tokens.clone()].iter().filter(|it| it.kind == Kind::Ident);
            idents.map(|token| token.text(text)).collect()
        }
        ItemKind::Prototype => Vec::new(),
    }
}

/// The name by which the code at byte `at` is reached; none if it counts always.
pub(super) fn holder(text: &str, tokens: &Tokens, items: &[Item], at: usize) -> Option<String> {
    let holds = |item: &&Item| {
        let range = &tokens[item.tokens.clone()];
        range.first().is_some_and(|first| first.start <= at)
            && range.last().is_some_and(|last| at < last.end)
    };
    let item = items.iter().find(holds)?;
    match item.kind {
        ItemKind::Function if item.name != "operator" => Some(item.name.clone()),
        ItemKind::Type => {
            let open = |&at: &usize| matches!(tokens[at].text(text), "{" | ":" | "<");
            let head = item.tokens.clone();
            let end = head.clone().find(open).unwrap_or(head.end);
            let mut names = tokens[head.start..end].iter().rev();
            let name = names.find(|token| token.kind == Kind::Ident)?.text(text);
            (!matches!(name, "struct" | "class" | "union" | "final")).then(|| name.to_owned())
        }
        _ => None,
    }
}

/// Whether the byte `at` lies in a template.
pub(super) fn is_generic(tokens: &Tokens, items: &[Item], at: usize) -> bool {
    items.iter().any(|item| {
        let range = &tokens[item.tokens.clone()];
        let holds = |first: &Token, last: &Token| first.start <= at && at < last.end;
        item.template && range.first().zip(range.last()).is_some_and(|(a, b)| holds(a, b))
    })
}
