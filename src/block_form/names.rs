//! The words and names of a kernel: which it may not hold, and which it declares.

use std::collections::BTreeSet;
use std::ops::Range;

use super::declarations::{Declared, declared};
use super::facts::{Facts, Way};
use super::folds::Shuffles;
use super::head;
use super::plan::Planner;
use super::reason::{StackReason, StackRefusal};
use super::statements::{Form, Statement};
use super::turns;
use crate::syntax::lexer::{Kind, Tokens};
use crate::syntax::outline::Item;

/// Longer kernels are left alone, since each variable is looked for in the whole kernel.
const MOST_TOKENS: usize = 20_000;

/// Kernels that declare one name more often are left alone, since each declaration is judged by all
/// mentions of its name.
const MOST_DECLARATIONS: usize = 256;

/// Why the kernel `item`, which has neither a barrier nor a chain among its `shuffles`, keeps its stacks; none if nothing
/// in it waits. Atomics whose result nobody uses are no waits.
pub(super) fn find_wait(
    text: &str,
    tokens: &Tokens,
    facts: &Facts,
    item: &Item,
    shuffles: &Shuffles,
) -> Option<StackRefusal> {
    if item.tokens.len() > MOST_TOKENS {
        return Some(StackReason::Length(MOST_TOKENS).into());
    }
    if facts.operators_wait() {
        return Some(StackReason::OperatorWaits.into());
    }
    let atomics = turns::waits(text, tokens, facts, item, &[]);
    let at = find_waiting_word(text, tokens, facts, item, &atomics)?;
    Some(reason_to_wait(tokens[at].text(text), at, facts, shuffles).at(at))
}

/// The first word of the kernel `item` by which a thread waits, or lets others run, elsewhere than at a
/// barrier; `waits` are the statements that may.
pub(super) fn find_waiting_word(
    text: &str,
    tokens: &Tokens,
    facts: &Facts,
    item: &Item,
    waits: &[Range<usize>],
) -> Option<usize> {
    let mut words = head(item).chain(item.body.clone());
    words.find(|&at| {
        let word = tokens[at].text(text);
        tokens[at].kind == Kind::Ident
            && facts.waits(word)
            && word != "__syncthreads"
            && !waits.iter().any(|wait| wait.contains(&at))
    })
}

/// Why a kernel that mentions `word`, which waits, at token `at` keeps its stacks.
pub(super) fn reason_to_wait(
    word: &str,
    at: usize,
    facts: &Facts,
    shuffles: &Shuffles,
) -> StackReason {
    if let Some(why) = shuffles.refused.get(&at) {
        return StackReason::Shuffle { shuffle: word.to_owned(), why: why.clone() };
    }
    let word = word.to_owned();
    match facts.way_to_wait(&word) {
        Way::Waits(through) => StackReason::Waits { word, through },
        Way::LeavesStatement(through) => StackReason::MacroLeaves { word, through },
    }
}

impl Planner<'_> {
    /// Refuses words that wait, and words that are not understood.
    pub(super) fn check_words(&self) -> Result<(), StackRefusal> {
        if self.item.tokens.len() > MOST_TOKENS {
            return Err(StackReason::Length(MOST_TOKENS).into());
        }
        if self.facts.operators_wait() {
            return Err(StackReason::OperatorWaits.into());
        }
        let waiting =
            find_waiting_word(self.text, self.tokens, self.facts, self.item, self.waits());
        if let Some(at) = waiting {
            return Err(reason_to_wait(self.word(at), at, self.facts, self.shuffles()).at(at));
        }
        let all = head(self.item).chain(self.item.body.clone());
        for at in all.filter(|&at| self.tokens[at].kind == Kind::Ident) {
            let word = self.word(at);
            let ours = word.starts_with("replay_")
                && !word.starts_with("replay_shared_")
                && word != "replay_rt";
            if ours || matches!(word, "_Pragma" | "__pragma" | "operator") {
                return Err(StackReason::ReservedWord(word.to_owned()).at(at));
            }
        }
        let breaks = |at: usize| {
            let token = self.tokens[at];
            token.kind != Kind::Directive && token.text(self.text).contains('\n')
        };
        if let Some(at) = head(self.item).chain(self.item.body.clone()).find(|&at| breaks(at)) {
            return Err(StackReason::LongLiteral.at(at));
        }
        for at in self.item.body.clone() {
            let lambda = self.is(at, "[")
                && (self.tokens[at - 1].kind == Kind::Punct
                    && !matches!(self.word(at - 1), ")" | "]" | "}" | ">" | "*" | "&")
                    || matches!(self.word(at - 1), "return" | "auto"));
            if lambda {
                return Err(StackReason::Lambda.at(at));
            }
        }
        Ok(())
    }

    /// Collects every name that the kernel declares.
    pub(super) fn collect_names(&mut self, statements: &[Statement]) -> Result<(), StackRefusal> {
        if self.parameter_list().is_none() {
            return Err(StackReason::Parameters.into());
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
        match self.names.values().find(|places| places.len() > MOST_DECLARATIONS) {
            Some(places) => Err(StackReason::ManyDeclarations(MOST_DECLARATIONS).at(places[0])),
            None => Ok(()),
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
    pub(super) fn check_macros(&self) -> Result<(), StackRefusal> {
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
                return Err(StackReason::MacroNames(word.to_owned()).at(at));
            }
        }
        Ok(())
    }
}
