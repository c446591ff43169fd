//! Finds the declarations of a file at namespace and class scope, functions above all, by matching brackets. Knows no
//! types and trusts the brackets. It skips declarations in unknown forms.

use std::ops::Range;

use super::lexer::{MOST_ARGUMENTS, Token, TokenKind, Tokens};

/// One declaration of a file.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub kind: ItemKind,
    /// Indices of its tokens, from the first specifier to the closing brace or semicolon.
    pub tokens: Range<usize>,
    /// A function's name, else empty.
    pub name: String,
    /// Index of the name's token.
    pub name_at: usize,
    /// Whether it is a member of a class.
    pub member: bool,
    /// Whether a template head precedes it.
    pub template: bool,
    /// Indices of a function's body, braces included; empty for anything else.
    pub body: Range<usize>,
}

/// The kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemKind {
    /// A function with its body.
    Function,
    /// A function without its body.
    Prototype,
    /// A class, structure, union or enumeration with its members.
    Type,
    /// Anything else: variables, aliases, assertions.
    Other,
}

impl Item {
    /// Whether `word` stands among the specifiers before the function's parameters.
    pub(crate) fn has_specifier(&self, text: &str, tokens: &[Token], word: &str) -> bool {
        let head = self.tokens.start..self.name_at.max(self.tokens.start);
        tokens[head].iter().any(|token| token.is_spelled(text, word))
    }

    /// Whether the function runs on the device.
    pub(crate) fn on_device(&self, text: &str, tokens: &[Token]) -> bool {
        self.has_specifier(text, tokens, "__global__")
            || self.has_specifier(text, tokens, "__device__")
    }
}

/// Names in front of parentheses other than functions.
const ATTRIBUTES: [&str; 16] = [
    "__launch_bounds__",
    "__maxnreg__",
    "__block_size__",
    "__cluster_dims__",
    "__align__",
    "__attribute__",
    "__declspec",
    "alignas",
    "decltype",
    "noexcept",
    "explicit",
    "requires",
    "typeof",
    "__typeof__",
    "throw",
    "sizeof",
];

/// Whether `word` takes parentheses without being a function's name.
pub(crate) fn is_attribute(word: &str) -> bool {
    ATTRIBUTES.contains(&word)
}

/// More braces in one declaration than this are passed over, since each is judged by everything
/// before it.
const MOST_BRACES: usize = 64;

/// Classes in deeper scopes are passed over with their members, since a member belongs to every
/// class around it.
const MOST_SCOPES: usize = 64;

/// The items of a file, outer before inner, in order.
pub(crate) fn outline_items(text: &str, tokens: &Tokens) -> Vec<Item> {
    let scopes = Vec::new();
    let items = Vec::new();
    Outline { text, tokens, at: 0, head: 0, braces: 0, scopes, items }.run()
}

/// An open scope: a namespace, or the class of an item.
enum OutlineScope {
    Namespace,
    Class(usize),
}

struct Outline<'t> {
    text: &'t str,
    tokens: &'t Tokens,
    at: usize,
    /// Where the current declaration starts.
    head: usize,
    /// The number of its braces.
    braces: usize,
    scopes: Vec<OutlineScope>,
    items: Vec<Item>,
}

impl Outline<'_> {
    fn run(mut self) -> Vec<Item> {
        while let Some(token) = self.tokens.get(self.at) {
            match (token.kind, token.text(self.text)) {
                (TokenKind::Directive, _) if self.head == self.at => self.restart(self.at + 1),
                (TokenKind::Punct, ";") => self.end_declaration(),
                (TokenKind::Punct, "{") => self.open(),
                (TokenKind::Punct, "}") => self.close(),
                (TokenKind::Punct, "(" | "[") => self.skip(self.tokens.skip_group(self.at)),
                (TokenKind::Ident, "template") => {
                    self.skip(self.tokens.skip_angles(self.text, self.at + 1));
                }
                (TokenKind::Ident, "public" | "private" | "protected")
                    if self.head == self.at && self.is_spelled_at(self.at + 1, ":") =>
                {
                    self.restart(self.at + 2);
                }
                _ => self.at += 1,
            }
        }
        self.items
    }

    fn is_spelled_at(&self, token_index: usize, spelling: &str) -> bool {
        self.tokens.is_spelled_at(self.text, token_index, spelling)
    }

    fn skip(&mut self, next_index: Option<usize>) {
        self.at = next_index.unwrap_or(self.at + 1);
    }

    fn restart(&mut self, token_index: usize) {
        self.at = token_index;
        self.head = token_index;
        self.braces = 0;
    }

    fn item(&self, kind: ItemKind, end: usize) -> Item {
        let head = &self.tokens[self.head..self.at];
        Item {
            kind,
            tokens: self.head..end,
            name: String::new(),
            name_at: self.head,
            member: matches!(self.scopes.last(), Some(OutlineScope::Class(_))),
            template: head.iter().any(|token| token.is_spelled(self.text, "template")),
            body: 0..0,
        }
    }

    fn end_declaration(&mut self) {
        let end = self.at + 1;
        if self.head < self.at {
            // A class's own item ends with the declarators after its brace.
            let kind = match self.function_name() {
                Some(_) => ItemKind::Prototype,
                None => ItemKind::Other,
            };
            let mut item = self.item(kind, end);
            self.set_name(&mut item);
            self.items.push(item);
        }
        self.restart(end);
    }

    fn set_name(&self, item: &mut Item) {
        if let Some(name_index) = self.function_name() {
            item.name_at = name_index;
            item.name = self.tokens[name_index].text(self.text).to_owned();
        }
    }

    fn open(&mut self) {
        let group_end = self.tokens.skip_group(self.at).unwrap_or(self.tokens.len());
        self.braces += 1;
        if self.braces > MOST_BRACES {
            self.at = group_end;
        } else if self.opens_namespace() {
            self.scopes.push(OutlineScope::Namespace);
            self.restart(self.at + 1);
        } else if self.is_initialiser() {
            self.at = group_end;
        } else if self.function_name().is_some() {
            let mut item = self.item(ItemKind::Function, group_end);
            self.set_name(&mut item);
            item.body = self.at..group_end;
            self.items.push(item);
            self.restart(group_end);
        } else if self.scopes.len() < MOST_SCOPES && self.opens_class() {
            let item = self.item(ItemKind::Type, group_end);
            self.scopes.push(OutlineScope::Class(self.items.len()));
            self.items.push(item);
            self.restart(self.at + 1);
        } else if self.head == self.at || self.is_spelled_at(group_end, "{") {
            self.restart(group_end);
        } else {
            self.at = group_end;
        }
    }

    fn close(&mut self) {
        let close_index = self.at;
        match self.scopes.pop() {
            Some(OutlineScope::Class(item)) => {
                // Declarators may follow the brace; they belong to the type.
                let semicolon =
                    (close_index..self.tokens.len()).find(|&next| self.is_spelled_at(next, ";"));
                let end = semicolon.map_or(self.tokens.len(), |semicolon| semicolon + 1);
                self.items[item].tokens.end = end;
                self.restart(end);
            }
            _ => self.restart(close_index + 1),
        }
    }

    fn head_words(&self) -> impl Iterator<Item = (usize, &Token)> {
        (self.head..self.at).map(|index| (index, &self.tokens[index]))
    }

    fn opens_namespace(&self) -> bool {
        let mut words = self.head_words().filter(|(_, token)| token.kind != TokenKind::Directive);
        let Some((_, first)) = words.next() else { return false };
        let first = if first.is_spelled(self.text, "inline") {
            words.next().map_or(first, |(_, token)| token)
        } else {
            first
        };
        let linkage = words.next().is_some_and(|(_, token)| token.kind == TokenKind::Text);
        first.is_spelled(self.text, "namespace")
            || (first.is_spelled(self.text, "extern") && linkage && words.next().is_none())
    }

    /// Whether the brace after the head starts an initialiser: `= {`, or a member's in a
    /// constructor's list.
    fn is_initialiser(&self) -> bool {
        let Some(previous) = self.at.checked_sub(1).filter(|&token_index| token_index >= self.head)
        else {
            return false;
        };
        if self.is_spelled_at(previous, "=") || self.is_spelled_at(previous, "return") {
            return true;
        }
        let in_list = self.top_level().windows(2).any(|pair| {
            self.is_spelled_at(pair[0], ")") && self.is_spelled_at(pair[1], ":")
                || self.is_spelled_at(pair[0], "noexcept") && self.is_spelled_at(pair[1], ":")
        });
        let ends_name =
            self.tokens[previous].kind == TokenKind::Ident || self.is_spelled_at(previous, ">");
        in_list && ends_name
    }

    fn opens_class(&self) -> bool {
        self.top_level().into_iter().any(|token_index| {
            ["class", "struct", "union", "enum"]
                .iter()
                .any(|&word| self.is_spelled_at(token_index, word))
        })
    }

    /// Indices of the head's tokens outside brackets and template heads; of a group in
    /// parentheses, the opening and the closing one.
    fn top_level(&self) -> Vec<usize> {
        let mut top_indices = Vec::new();
        let mut token_index = self.head;
        while token_index < self.at {
            let text = self.tokens[token_index].text(self.text);
            if self.tokens[token_index].kind == TokenKind::Directive {
                token_index += 1;
                continue;
            }
            top_indices.push(token_index);
            let group_end = match text {
                "(" | "[" | "{" => self.tokens.skip_group(token_index),
                "template" => self.tokens.skip_angles(self.text, token_index + 1),
                _ => None,
            };
            token_index = match group_end {
                Some(group_end) if group_end <= self.at => {
                    top_indices.push(group_end - 1);
                    group_end
                }
                _ => token_index + 1,
            };
        }
        top_indices
    }

    /// The index of the name of the function in the head, if it declares one.
    fn function_name(&self) -> Option<usize> {
        let top = self.top_level();
        for (place, &token_index) in top.iter().enumerate() {
            if self.is_spelled_at(token_index, "=") {
                return None;
            }
            if self.is_spelled_at(token_index, "operator") {
                return Some(token_index);
            }
            if !self.is_spelled_at(token_index, "(") || place == 0 {
                continue;
            }
            let index_before = top[place - 1];
            let name = self.name_before(index_before)?;
            let word = self.tokens[name].text(self.text);
            let nameless = self.tokens[name].kind != TokenKind::Ident;
            if nameless || is_attribute(word) || !self.ends_parameters(top.get(place + 2).copied())
            {
                continue;
            }
            return Some(name);
        }
        None
    }

    /// The identifier up to `token_index`: itself, or the template name before its arguments.
    fn name_before(&self, token_index: usize) -> Option<usize> {
        if self.is_spelled_at(token_index, ">") {
            let mut depth = 0usize;
            for index in (self.head..=token_index).rev().take(MOST_ARGUMENTS) {
                depth += usize::from(self.is_spelled_at(index, ">"));
                depth -= usize::from(self.is_spelled_at(index, "<") && depth > 0);
                if depth == 0 {
                    let operator = (index > self.head).then(|| index - 1)?;
                    return Some(operator);
                }
            }
        }
        Some(token_index)
    }

    /// Whether the token at `next` may follow a function's parameters.
    fn ends_parameters(&self, next: Option<usize>) -> bool {
        let Some(next) = next else { return true };
        let follows = [
            "const",
            "volatile",
            "noexcept",
            "override",
            "final",
            "try",
            "requires",
            "->",
            ":",
            "&",
            "=",
            "__attribute__",
            "throw",
            "[",
        ];
        follows.iter().any(|&word| self.is_spelled_at(next, word))
    }
}
