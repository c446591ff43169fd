//! Which functions, classes and macros of a source set a piece of code can reach, by name alone: what
//! cannot be reached does not run.

use std::collections::{BTreeMap, BTreeSet};

use super::lexer::{Kind, Token, Tokens, lex};
use super::macros;
use super::outline::{Item, ItemKind, outline};
use super::source::Source;

/// Words before and behind the name of a type.
const HEADS: [&str; 7] = ["struct", "class", "union", "enum", "typedef", "static", "final"];

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
        ItemKind::Type => type_names(text, tokens, item),
        ItemKind::Other => {
            let idents = tokens[item.tokens.clone()].iter().filter(|it| it.kind == Kind::Ident);
            idents.map(|token| token.text(text)).collect()
        }
        ItemKind::Prototype => Vec::new(),
    }
}

/// The names in the head of the type `item`, without its template parameters and bases: its own is the last.
fn type_names<'t>(text: &'t str, tokens: &Tokens, item: &Item) -> Vec<&'t str> {
    let mut at = item.tokens.start;
    while tokens.is(text, at, "template")
        && let Some(after) = tokens.skip_angles(text, at + 1)
    {
        at = after;
    }
    let mut names = Vec::new();
    while at < item.tokens.end && !matches!(tokens[at].text(text), "{" | ":" | ";" | "<") {
        let takes = tokens.is(text, at + 1, "(");
        let word = tokens[at].text(text);
        if tokens[at].kind == Kind::Ident && !takes && !HEADS.contains(&word) {
            names.push(word);
        }
        at = tokens.skip_group(at).unwrap_or(at + 1);
    }
    names
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
        ItemKind::Type => type_names(text, tokens, item).pop().map(str::to_owned),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontend::Unit;

    #[test]
    fn a_type_is_reached_by_its_own_name_alone() {
        let text = "union Word { float f; int i; };\n\
                    template <class T, int N> struct alignas(16) Pack : Base<T> { T all[N]; };\n\
                    template <> struct Traits<float> { int bits; };\n\
                    template <class T, int N> __device__ T sum(Pack<T, N> x) { union { T t; } u; }\n";
        let source = Source::new(&Unit { path: "a.cu", text });
        let mut reach = Reach::default();
        reach.add(&source);
        let reached = reach.from("sum(x)");
        let is_reached = |name: &str| reached.contains(name);
        assert!(is_reached("Pack") && is_reached("Base") && is_reached("all"), "{reached:?}");
        assert!(!is_reached("Word") && !is_reached("Traits"), "{reached:?}");
        let tokens = source.view(true);
        let items = outline(text, &tokens);
        let holder = |what| holder(text, &tokens, &items, text.find(what).unwrap());
        assert_eq!(holder("float f"), Some("Word".to_owned()));
        assert_eq!(holder("all[N]"), Some("Pack".to_owned()));
        assert_eq!(holder("bits"), Some("Traits".to_owned()));
        assert_eq!(holder("union { T"), Some("sum".to_owned()));
    }
}
