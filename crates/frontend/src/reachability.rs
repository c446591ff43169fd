//! Finds the functions, classes and macros of a source set within reach of a piece of code, by name alone. Code out
//! of reach does not run.

use std::collections::{BTreeMap, BTreeSet};

use super::lexer::{Token, TokenKind, Tokens, lex_tokens};
use super::macros;
use super::outline::{Item, ItemKind, outline_items};
use super::source::Source;

/// Words before and behind the name of a type.
const HEADS: [&str; 7] = ["struct", "class", "union", "enum", "typedef", "static", "final"];

/// The words mentioned in the definition of each name.
#[derive(Clone, Debug, Default)]
pub(super) struct MentionGraph {
    mentions: BTreeMap<String, BTreeSet<String>>,
}

impl MentionGraph {
    /// Adds the definitions of `source`.
    pub(super) fn add(&mut self, source: &Source) {
        self.add_items(source, |_, _| true);
    }

    /// Adds the definitions of `source` other than device code.
    pub(super) fn add_host_code(&mut self, source: &Source) {
        self.add_items(source, |tokens, item| !item.on_device(source.text, tokens));
    }

    /// Adds the macros of `source`.
    pub(super) fn add_macros(&mut self, source: &Source) {
        for &token in &source.tokens {
            if let Some(defined) = macros::parse_macro_definition(source.text, token) {
                self.mention(defined.name, source.text, &defined.body);
            }
        }
    }

    fn add_items(&mut self, source: &Source, counts: impl Fn(&Tokens, &Item) -> bool) {
        let text = source.text;
        self.add_macros(source);
        for first in [true, false] {
            if first || source.has_alternatives() {
                let tokens = source.view(first);
                for item in outline_items(text, &tokens) {
                    if !counts(&tokens, &item) {
                        continue;
                    }
                    let definition = &tokens[item.tokens.clone()];
                    match &names_reaching_item(text, &tokens, &item)[..] {
                        [name] => self.mention(name, text, definition),
                        names => self.mention_by_all(names, source, definition),
                    }
                }
            }
        }
    }

    /// Adds the words of `tokens` to the definition of `name`.
    pub(super) fn mention(&mut self, name: &str, text: &str, tokens: &[Token]) {
        let idents = tokens.iter().filter(|token| token.kind == TokenKind::Ident);
        let words = idents.map(|token| token.text(text)).filter(|word| *word != name);
        let mentioned_words = self.mentions.entry(name.to_owned()).or_default();
        mentioned_words.extend(words.map(str::to_owned));
    }

    /// Adds the words of `definition` to that of each of `names`, through a word for all of it: `path:byte`, which is
    /// no identifier.
    fn mention_by_all(&mut self, names: &[&str], source: &Source, definition: &[Token]) {
        let Some(first) = definition.first() else { return };
        let whole = format!("{}:{}", source.path, first.start);
        for &name in names {
            self.mentions.entry(name.to_owned()).or_default().insert(whole.clone());
        }
        self.mention(&whole, source.text, definition);
    }

    /// The words of `code` and all words within their reach.
    pub(super) fn from(&self, code: &str) -> BTreeSet<String> {
        let tokens = lex_tokens(code);
        let idents = tokens.iter().filter(|token| token.kind == TokenKind::Ident);
        self.reach_from(idents.map(|token| token.text(code)).collect())
    }

    /// `words` and all words within their reach.
    pub(super) fn reach_from(&self, words: BTreeSet<&str>) -> BTreeSet<String> {
        let mut reached_words: BTreeSet<String> =
            words.iter().map(|&word| word.to_owned()).collect();
        let mut pending_words: Vec<&str> = words.into_iter().collect();
        while let Some(word) = pending_words.pop() {
            for next in self.mentions.get(word).into_iter().flatten() {
                if reached_words.insert(next.clone()) {
                    pending_words.push(next);
                }
            }
        }
        reached_words
    }
}

/// The names of `item` for code to reach it.
fn names_reaching_item<'t>(text: &'t str, tokens: &Tokens, item: &'t Item) -> Vec<&'t str> {
    match item.kind {
        ItemKind::Function => vec![item.name.as_str()],
        ItemKind::Type => names_in_type_head(text, tokens, item),
        ItemKind::Other => {
            let idents =
                tokens[item.tokens.clone()].iter().filter(|token| token.kind == TokenKind::Ident);
            idents.map(|token| token.text(text)).collect()
        }
        ItemKind::Prototype => Vec::new(),
    }
}

/// The names in the head of the type `item`, without its template parameters and bases: its own is the last.
fn names_in_type_head<'t>(text: &'t str, tokens: &Tokens, item: &Item) -> Vec<&'t str> {
    let mut token_index = item.tokens.start;
    while tokens.is_spelled_at(text, token_index, "template")
        && let Some(angles_end) = tokens.skip_angles(text, token_index + 1)
    {
        token_index = angles_end;
    }
    let mut names = Vec::new();
    while token_index < item.tokens.end
        && !matches!(tokens[token_index].text(text), "{" | ":" | ";" | "<")
    {
        let has_arguments = tokens.is_spelled_at(text, token_index + 1, "(");
        let word = tokens[token_index].text(text);
        if tokens[token_index].kind == TokenKind::Ident && !has_arguments && !HEADS.contains(&word)
        {
            names.push(word);
        }
        token_index = tokens.skip_group(token_index).unwrap_or(token_index + 1);
    }
    names
}

/// The name for code to reach byte `byte_offset`; none if that byte always counts.
pub(super) fn find_enclosing_name(
    text: &str,
    tokens: &Tokens,
    items: &[Item],
    byte_offset: usize,
) -> Option<String> {
    let item = items.iter().find(|item| contains_byte(tokens, item, byte_offset))?;
    match item.kind {
        ItemKind::Function if item.name != "operator" => Some(item.name.clone()),
        ItemKind::Type => names_in_type_head(text, tokens, item).pop().map(str::to_owned),
        _ => None,
    }
}

/// Whether the byte `byte_offset` lies in a template.
pub(super) fn is_generic(tokens: &Tokens, items: &[Item], byte_offset: usize) -> bool {
    items.iter().any(|item| item.template && contains_byte(tokens, item, byte_offset))
}

/// Whether the byte `byte_offset` lies in `item`.
fn contains_byte(tokens: &Tokens, item: &Item, byte_offset: usize) -> bool {
    let range = &tokens[item.tokens.clone()];
    range.first().is_some_and(|first| first.start <= byte_offset)
        && range.last().is_some_and(|last| byte_offset < last.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceUnit;

    #[test]
    fn a_type_is_reached_by_its_own_name_alone() {
        let text = "union Word { float f; int i; };\n\
                    template <class T, int N> struct alignas(16) Pack : Base<T> { T all[N]; };\n\
                    template <> struct Traits<float> { int bits; };\n\
                    template <class T, int N> __device__ T sum(Pack<T, N> x) { union { T t; } u; }\n";
        let source = Source::new(&SourceUnit { path: "a.cu", text });
        let mut reach = MentionGraph::default();
        reach.add(&source);
        let reached = reach.from("sum(x)");
        let is_reached = |name: &str| reached.contains(name);
        assert!(is_reached("Pack") && is_reached("Base") && is_reached("all"), "{reached:?}");
        assert!(!is_reached("Word") && !is_reached("Traits"), "{reached:?}");
        let tokens = source.view(true);
        let items = outline_items(text, &tokens);
        let holder = |what| find_enclosing_name(text, &tokens, &items, text.find(what).unwrap());
        assert_eq!(holder("float f"), Some("Word".to_owned()));
        assert_eq!(holder("all[N]"), Some("Pack".to_owned()));
        assert_eq!(holder("bits"), Some("Traits".to_owned()));
        assert_eq!(holder("union { T"), Some("sum".to_owned()));
    }
}
