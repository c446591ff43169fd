//! Where the functions and variables of a source set may be used: on the host, on the device, or on
//! both. By name alone: a name that stands for several things counts as usable everywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::lexer::{Kind, Tokens};
use super::macros::{self, Macro};
use super::outline::{Item, ItemKind, outline};
use super::source::Source;

/// Where a function may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Host,
    Device,
    /// A `__global__` function: launched, never called.
    Kernel,
    /// Both, or it is not known.
    Anywhere,
}

/// Where a variable of namespace scope lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Host,
    /// `__device__`
    Device,
    /// `__constant__`
    Constant,
    /// Wherever it is used, or it is not known.
    Anywhere,
}

/// The functions, variables and macros of a source set.
#[derive(Clone, Debug, Default)]
pub(super) struct Spaces {
    functions: BTreeMap<String, Space>,
    variables: BTreeMap<String, Place>,
    /// For each macro, the words of its definitions that say where something may be used.
    macros: BTreeMap<String, BTreeSet<String>>,
    /// The functions that host functions call.
    called_by_host: BTreeSet<String>,
}

/// The words that say where a function or variable may be used.
const MARKS: [&str; 7] = [
    "__global__",
    "__device__",
    "__host__",
    "__constant__",
    "__managed__",
    "__shared__",
    "constexpr",
];

impl Spaces {
    /// Collects the declarations of `sources`.
    pub(super) fn of(sources: &[Source]) -> Spaces {
        let mut spaces = Spaces::default();
        let directives = |source: &Source| source.tokens.clone().into_iter();
        for source in sources {
            let found = directives(source).filter_map(|it| macros::definition(source.text, it));
            found.for_each(|defined| spaces.add_macro(source.text, &defined));
        }
        spaces.resolve_macros();
        for source in sources {
            for first in [true, false] {
                if first || source.has_alternatives() {
                    spaces.add_items(source, &source.view(first));
                }
            }
        }
        spaces
    }

    /// Where the function `name` may be called; none if the sources declare none.
    pub(super) fn function(&self, name: &str) -> Option<Space> {
        self.functions.get(name).copied().filter(|_| !self.is_macro(name))
    }

    /// Where the variable `name` lies; none if the sources declare none.
    pub(super) fn variable(&self, name: &str) -> Option<Place> {
        self.variables.get(name).copied().filter(|_| !self.is_macro(name))
    }

    /// Whether the sources declare `name` themselves.
    pub(super) fn declares(&self, name: &str) -> bool {
        self.functions.contains_key(name)
            || self.variables.contains_key(name)
            || self.is_macro(name)
    }

    /// Whether a host function of the sources calls a function `name`.
    pub(super) fn is_called_by_host(&self, name: &str) -> bool {
        self.called_by_host.contains(name)
    }

    fn is_macro(&self, name: &str) -> bool {
        self.macros.contains_key(name)
    }

    fn add_macro(&mut self, text: &str, defined: &Macro) {
        let words = self.macros.entry(defined.name.to_owned()).or_default();
        let idents = defined.body.iter().filter(|token| token.kind == Kind::Ident);
        words.extend(idents.map(|token| token.text(text).to_owned()));
    }

    /// Replaces the names of macros in the bodies of others by their expansions.
    fn resolve_macros(&mut self) {
        // Deeper nests of names are not seen through.
        for _ in 0..4 {
            let known = self.macros.clone();
            for words in self.macros.values_mut() {
                let inner = words.iter().filter_map(|word| known.get(word)).flatten();
                let inner: Vec<String> = inner.cloned().collect();
                words.extend(inner);
            }
        }
        for words in self.macros.values_mut() {
            words.retain(|word| MARKS.contains(&word.as_str()));
        }
    }

    fn add_items(&mut self, source: &Source, tokens: &Tokens) {
        for item in outline(source.text, tokens) {
            match item.kind {
                ItemKind::Function | ItemKind::Prototype => {
                    self.add_calls(source.text, tokens, &item);
                    let space = self.space(source.text, tokens, &item);
                    let known = self.functions.entry(item.name.clone()).or_insert(space);
                    if *known != space {
                        *known = Space::Anywhere;
                    }
                }
                ItemKind::Type => {
                    let names = type_names(source.text, tokens, &item);
                    for name in names {
                        self.functions.insert(name.to_owned(), Space::Anywhere);
                    }
                }
                ItemKind::Other => {
                    for (name, place) in self.declared(source.text, tokens, &item) {
                        // In the functions of a class its members come first.
                        let place = if item.member { Place::Anywhere } else { place };
                        let known = self.variables.entry(name).or_insert(place);
                        if *known != place {
                            *known = Place::Anywhere;
                        }
                    }
                }
            }
        }
        self.add_constants(source.text, tokens);
    }

    /// Notes the calls of the host function `item`.
    fn add_calls(&mut self, text: &str, tokens: &Tokens, item: &Item) {
        if self.runs_on(text, tokens, item) == Space::Host {
            let calls = item.body.clone().filter(|&at| tokens.is(text, at + 1, "("));
            let idents = calls.filter(|&at| tokens[at].kind == Kind::Ident);
            self.called_by_host.extend(idents.map(|at| tokens[at].text(text).to_owned()));
        }
    }

    /// Makes the names of template parameters and enumerators stand for no variable.
    fn add_constants(&mut self, text: &str, tokens: &Tokens) {
        for at in 0..tokens.len() {
            let end = match tokens[at].text(text) {
                "template" => tokens.skip_angles(text, at + 1),
                "enum" => (at..tokens.len().min(at + 8))
                    .find(|&open| tokens.is(text, open, "{"))
                    .and_then(|open| tokens.skip_group(open)),
                _ => None,
            };
            let inside = tokens[at..end.unwrap_or(at)].iter();
            for token in inside.filter(|token| token.kind == Kind::Ident) {
                self.variables.insert(token.text(text).to_owned(), Place::Anywhere);
            }
        }
    }

    /// Where the function `item` may be called, as far as a name tells.
    fn space(&self, text: &str, tokens: &Tokens, item: &Item) -> Space {
        let is_qualified = item.name_at > 0 && tokens.is(text, item.name_at - 1, "::");
        let has_type = item.name_at > item.tokens.start;
        if item.member || is_qualified || !has_type || item.name == "operator" {
            return Space::Anywhere;
        }
        self.runs_on(text, tokens, item)
    }

    /// Where the body of the function `item` runs.
    pub(super) fn runs_on(&self, text: &str, tokens: &Tokens, item: &Item) -> Space {
        let Some(marks) = self.marks(text, tokens, item.tokens.start..item.name_at) else {
            return Space::Anywhere;
        };
        let has = |mark: &str| marks.contains(mark);
        match (has("__global__"), has("__device__"), has("__host__")) {
            (true, ..) => Space::Kernel,
            (_, true, true) => Space::Anywhere,
            _ if has("constexpr") => Space::Anywhere,
            (_, true, false) => Space::Device,
            _ => Space::Host,
        }
    }

    /// The marks in the tokens `head`; none if a word in it may be a macro of somebody else.
    fn marks(&self, text: &str, tokens: &Tokens, head: Range<usize>) -> Option<BTreeSet<&str>> {
        let mut marks = BTreeSet::new();
        let mut at = head.start;
        while at < head.end {
            let token = tokens[at];
            let word = token.text(text);
            if word == "template" {
                at = tokens.skip_angles(text, at + 1).unwrap_or(at + 1);
                continue;
            }
            at += 1;
            if token.kind != Kind::Ident {
                continue;
            }
            if let Some(mark) = MARKS.iter().find(|mark| **mark == word) {
                marks.insert(*mark);
            } else if let Some(words) = self.macros.get(word) {
                marks.extend(words.iter().map(String::as_str));
            } else if looks_like_macro(word) {
                return None;
            }
        }
        Some(marks)
    }

    /// The variables that `item` declares.
    fn declared(&self, text: &str, tokens: &Tokens, item: &Item) -> Vec<(String, Place)> {
        let range = item.tokens.start..item.tokens.end - 1;
        let words = || range.clone().map(|at| tokens[at].text(text));
        let marks = self.marks(text, tokens, range.clone());
        let has = |mark: &str| marks.as_ref().is_some_and(|marks| marks.contains(mark));
        let fixed = has("constexpr") || words().any(|word| word == "const");
        let place = if marks.is_none() || fixed || has("__managed__") || has("__shared__") {
            Place::Anywhere
        } else if has("__constant__") {
            Place::Constant
        } else if has("__device__") {
            Place::Device
        } else {
            Place::Host
        };
        let found = variables(text, tokens, item).into_iter();
        found.map(|name| (name.to_owned(), place)).collect()
    }
}

/// The names of the variables that `item` declares.
pub(super) fn variables<'t>(text: &'t str, tokens: &Tokens, item: &Item) -> Vec<&'t str> {
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
    match words.any(|word| no_variable.contains(&word)) {
        true => Vec::new(),
        false => declarators(text, tokens, range),
    }
}

/// Whether `word` is spelled as macros are.
fn looks_like_macro(word: &str) -> bool {
    let upper = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    word.len() > 1 && word.chars().all(upper) && word.contains(|c: char| c.is_ascii_uppercase())
}

/// The names in the head of the type `item`.
fn type_names<'t>(text: &'t str, tokens: &Tokens, item: &Item) -> Vec<&'t str> {
    let range = item.tokens.clone();
    let open = range.clone().find(|&at| tokens.is(text, at, "{")).unwrap_or(range.end);
    let idents = tokens[range.start..open].iter().filter(|token| token.kind == Kind::Ident);
    idents.map(|token| token.text(text)).collect()
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
