//! The words and names of a kernel: which it may not hold, and which it declares.

use std::collections::BTreeSet;
use std::ops::Range;

use super::declarations::{Declared, declared};
use super::plan::Planner;
use super::statements::{Form, Statement};
use super::{Refusal, head};
use crate::syntax::lexer::Kind;

/// Longer kernels are left alone, since each variable is looked for in the whole kernel.
const MOST_TOKENS: usize = 20_000;

/// Kernels that declare one name more often are left alone, since each declaration is judged by all
/// mentions of its name.
const MOST_DECLARATIONS: usize = 256;

impl Planner<'_> {
    /// Refuses words that wait, and words that are not understood.
    pub(super) fn check_words(&self) -> Result<(), Refusal> {
        if self.item.tokens.len() > MOST_TOKENS {
            return Err(Refusal::new("a kernel of so many words"));
        }
        if self.facts.operators_wait() {
            return Err(Refusal::new("an operator of the sources that waits"));
        }
        let all = head(self.item).chain(self.item.body.clone());
        for at in all.filter(|&at| self.tokens[at].kind == Kind::Ident) {
            let word = self.word(at);
            let ours = word.starts_with("replay_")
                && !word.starts_with("replay_shared_")
                && word != "replay_rt";
            let known = || self.waits().iter().any(|wait| wait.contains(&at));
            let waits = self.facts.waits(word) && word != "__syncthreads" && !known();
            if waits || ours || matches!(word, "_Pragma" | "__pragma" | "operator") {
                return Err(Refusal::new(format!("the word {word}")));
            }
        }
        let breaks = |at: usize| {
            let token = self.tokens[at];
            token.kind != Kind::Directive && token.text(self.text).contains('\n')
        };
        if head(self.item).chain(self.item.body.clone()).any(breaks) {
            return Err(Refusal::new("a literal of several lines"));
        }
        for at in self.item.body.clone() {
            let lambda = self.is(at, "[")
                && (self.tokens[at - 1].kind == Kind::Punct
                    && !matches!(self.word(at - 1), ")" | "]" | "}" | ">" | "*" | "&")
                    || matches!(self.word(at - 1), "return" | "auto"));
            if lambda {
                return Err(Refusal::new("a lambda or an attribute"));
            }
        }
        Ok(())
    }

    /// Collects every name that the kernel declares.
    pub(super) fn collect_names(&mut self, statements: &[Statement]) -> Result<(), Refusal> {
        if self.parameter_list().is_none() {
            return Err(Refusal::new("parameters that are not understood"));
        }
        for range in self.parameter_ranges() {
            self.declares(range);
        }
        let mut open: Vec<&Statement> = statements.iter().collect();
        while let Some(statement) = open.pop() {
            match &statement.form {
                Form::List(list) => open.extend(list),
                Form::If { head, branches, .. } => {
                    self.head_declares(head.clone());
                    open.extend(branches);
                }
                Form::Loop { head, body, .. } | Form::Switch { head, body } => {
                    self.head_declares(head.clone());
                    open.push(body);
                }
                Form::Do { body } => open.push(body),
                Form::Simple => {
                    let range = statement.tokens.clone();
                    self.declares(range.start..range.end - 1);
                }
                Form::Label | Form::Barrier | Form::Return => {}
            }
        }
        match self.names.values().any(|places| places.len() > MOST_DECLARATIONS) {
            true => Err(Refusal::new("a name that is declared so often")),
            false => Ok(()),
        }
    }

    fn head_declares(&mut self, head: Range<usize>) {
        let semicolon = head.clone().find(|&at| self.is(at, ";"));
        self.declares(head.start..semicolon.unwrap_or(head.end));
    }

    fn declares(&mut self, range: Range<usize>) {
        let found = match declared(self.text, self.tokens, range) {
            Declared::Nothing => Vec::new(),
            Declared::Variables(made) => made.declarators.iter().map(|one| one.name).collect(),
            Declared::Other(names) => names,
        };
        for at in found {
            self.names.entry(self.word(at)).or_default().push(at);
        }
    }

    /// The tokens between the parentheses of the kernel's parameters.
    fn parameter_list(&self) -> Option<Range<usize>> {
        let open = (self.item.name_at..self.item.body.start).find(|&at| self.is(at, "("))?;
        Some(open + 1..self.tokens.skip_group(open)? - 1)
    }

    /// The tokens of each parameter.
    pub(super) fn parameter_ranges(&self) -> Vec<Range<usize>> {
        self.parameter_list().map_or_else(Vec::new, |list| self.pieces(list))
    }

    /// `range` split at its commas outside of brackets.
    pub(super) fn pieces(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let (mut found, mut start, mut at) = (Vec::new(), range.start, range.start);
        while at < range.end {
            if self.is(at, ",") {
                found.push(start..at);
                start = at + 1;
            }
            let angles = match self.is(at, "<") {
                true => self.tokens.skip_angles(self.text, at),
                false => None,
            };
            at = angles.or(self.tokens.skip_group(at)).unwrap_or(at + 1);
        }
        if start < range.end {
            found.push(start..range.end);
        }
        found
    }

    /// Refuses macros that may mean one of the kernel's own names.
    pub(super) fn check_macros(&self) -> Result<(), Refusal> {
        let mut seen = BTreeSet::new();
        for at in head(self.item).chain(self.item.body.clone()) {
            let word = self.word(at);
            let defined = self.tokens[at].kind == Kind::Ident && self.facts.is_macro(word);
            if !defined || !seen.insert(word) {
                continue;
            }
            let expansion = self.facts.expansion(word);
            if self.names.contains_key(word)
                || self.names.keys().any(|name| expansion.contains(name))
            {
                return Err(Refusal::new(format!("the macro {word}, which names a variable")));
            }
        }
        Ok(())
    }
}
