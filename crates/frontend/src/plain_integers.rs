//! Integers of 16 bytes that a function looks into, as masks and indices are: they hold no numbers in the shadow.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::lexer::{TokenKind, Tokens};
use super::outline::{Item, ItemKind};
use super::packed_casts::{MOST_TOKENS, WIDE, is_vector_member};

/// The types and variables of integers in memory that functions among `items` look into, as masks and indices are. Each
/// of their tokens is told by its first byte. They take as many bytes as natively. Values alone show at run time whether
/// they are integers or numbers. A function that is declared elsewhere in `items`, too, has none: all of its
/// declarations have the same types.
pub(super) fn find_plain_integers(text: &str, tokens: &Tokens, items: &[Item]) -> HashSet<usize> {
    let others = items.iter().filter(|item| item.kind != ItemKind::Function);
    let declared: HashSet<&str> = others
        .flat_map(|item| tokens[item.tokens.clone()].iter().map(|token| token.text(text)))
        .collect();
    let functions = items.iter().filter(|item| item.kind == ItemKind::Function);
    functions
        .filter(|function| !declared.contains(function.name.as_str()))
        .flat_map(|function| FunctionIntegers::read(text, tokens, function).find_plain())
        .collect()
}

/// The variables of integers of 16 bytes in one function.
struct FunctionIntegers<'t> {
    text: &'t str,
    tokens: &'t Tokens,
    /// The tokens before the body.
    head: Range<usize>,
    /// The tokens of each statement of the body.
    statements: Vec<Range<usize>>,
    /// By name: the tokens of the types in declarations.
    declarations: HashMap<&'t str, Vec<usize>>,
    /// The names of pointers, references and arrays.
    in_memory: HashSet<&'t str>,
}

impl<'t> FunctionIntegers<'t> {
    fn read(text: &'t str, tokens: &'t Tokens, function: &Item) -> FunctionIntegers<'t> {
        let mut statements = Vec::new();
        let mut start = function.body.start;
        for index in function.body.clone() {
            if matches!(tokens.text_at(text, index), ";" | "{" | "}") {
                statements.push(start..index);
                start = index + 1;
            }
        }
        let head = function.tokens.start..function.body.start;
        let mut integers = FunctionIntegers {
            text,
            tokens,
            head,
            statements,
            declarations: HashMap::new(),
            in_memory: HashSet::new(),
        };
        for index in function.tokens.clone() {
            if WIDE.contains(&integers.word(index)) {
                integers.add_declaration(index, function.tokens.end);
            }
        }
        integers
    }

    /// Adds the variable of the type at `index`, if it is declared there.
    fn add_declaration(&mut self, index: usize, end: usize) {
        let is_qualifier =
            |word: &str| matches!(word, "*" | "&" | "const" | "__restrict__" | "__restrict");
        let name_index = (index + 1..end).find(|&next| !is_qualifier(self.word(next)));
        let Some(name_index) =
            name_index.filter(|&name| self.tokens[name].kind == TokenKind::Ident)
        else {
            return;
        };
        let name = self.word(name_index);
        self.declarations.entry(name).or_default().push(index);
        let is_indirect =
            (index + 1..name_index).any(|between| matches!(self.word(between), "*" | "&"));
        if is_indirect || self.word(name_index + 1) == "[" {
            self.in_memory.insert(name);
        }
    }

    fn find_plain(&self) -> HashSet<usize> {
        let plain_names = self.find_plain_names();
        let types = plain_names.iter().flat_map(|name| &self.declarations[name]).copied();
        let names = self.head.clone().filter(|&index| plain_names.contains(self.word(index)));
        let mut plain: HashSet<usize> = types.chain(names).collect();
        for statement in &self.statements {
            let has_plain_cast = self.looks_into_cast(statement)
                || self.names(statement).any(|name| plain_names.contains(name));
            plain.extend(statement.clone().filter(|&index| {
                let word = self.word(index);
                plain_names.contains(word) || has_plain_cast && WIDE.contains(&word)
            }));
        }
        plain.into_iter().map(|index| self.tokens[index].start).collect()
    }

    /// The names that are in memory and looked into, and those that get values from them or give them some.
    fn find_plain_names(&self) -> HashSet<&'t str> {
        let assignments = self.statements.iter().filter(|statement| self.assigns(statement));
        let mut tied: HashMap<&str, Vec<&Range<usize>>> = HashMap::new();
        for statement in assignments {
            for name in self.names(statement) {
                tied.entry(name).or_default().push(statement);
            }
        }
        let looked: HashSet<&str> = self
            .statements
            .iter()
            .flat_map(|statement| self.names_looked_into(statement))
            .collect();
        let mut seen = HashSet::new();
        let mut plain = HashSet::new();
        for &first in self.declarations.keys() {
            let mut group = Vec::new();
            let mut pending = vec![first];
            while let Some(name) = pending.pop() {
                if seen.insert(name) {
                    group.push(name);
                    // Each statement leads to its names once.
                    let statements = tied.remove(name).unwrap_or_default();
                    pending.extend(statements.into_iter().flat_map(|range| self.names(range)));
                }
            }
            let is_plain = group.iter().any(|name| looked.contains(name))
                && group.iter().any(|name| self.in_memory.contains(name));
            if is_plain {
                plain.extend(group);
            }
        }
        plain
    }

    fn word(&self, index: usize) -> &'t str {
        self.tokens.text_at(self.text, index)
    }

    /// The variables in `statement`.
    fn names(&self, statement: &Range<usize>) -> impl Iterator<Item = &'t str> {
        let words = statement.clone().map(|index| self.word(index));
        words.filter(|word| self.declarations.contains_key(word))
    }

    /// Whether `statement` gives a value to something.
    fn assigns(&self, statement: &Range<usize>) -> bool {
        statement.clone().any(|index| self.word(index) == "=")
    }

    fn is_member(&self, index: usize) -> bool {
        is_vector_member(self.text, self.tokens, index)
    }

    /// The variables whose members `statement` may name.
    fn names_looked_into(&self, statement: &Range<usize>) -> Vec<&'t str> {
        let members = statement.clone().skip(1).filter(|&index| self.is_member(index));
        let mut names = Vec::new();
        for index in members {
            match self.word(index - 1) {
                "]" | ")" => {
                    let open = self.tokens.group_start(index - 1).unwrap_or(index);
                    let first = open.saturating_sub(1).max(index.saturating_sub(MOST_TOKENS));
                    names.extend(self.names(&(first.max(statement.start)..index)));
                }
                name => names.extend(self.declarations.get_key_value(name).map(|(name, _)| *name)),
            }
        }
        names
    }

    /// Whether `statement` names a member of what a cast to such integers gives.
    fn looks_into_cast(&self, statement: &Range<usize>) -> bool {
        let is_named = |index: usize| self.declarations.contains_key(self.word(index));
        let looks = statement.clone().skip(1).any(|index| {
            self.is_member(index) && matches!(self.word(index - 1), "]" | ")") && !is_named(index)
        });
        looks && statement.clone().any(|index| WIDE.contains(&self.word(index)))
    }
}
