//! The words and names of a kernel: forbidden words, and declared names.

use std::collections::BTreeSet;
use std::ops::Range;

use super::declarations::{DeclarationKind, parse_declaration};
use super::facts::{Facts, Way};
use super::kernel_head_tokens;
use super::plan::Planner;
use super::reason::{StackReason, StackRefusal};
use super::shuffle_reduction::Shuffles;
use super::statements::{KernelStatement, StatementForm};
use crate::syntax::lexer::{TokenKind, Tokens};
use crate::syntax::outline::Item;

/// Longer kernels are left alone, since each variable is looked for in the whole kernel.
const MOST_TOKENS: usize = 20_000;

/// Kernels with more declarations of one name are left alone: each declaration is judged by all mentions of its name.
const MOST_DECLARATIONS: usize = 256;

/// Why the kernel `item` without a barrier or a chain among its `shuffles` keeps its stacks; none if it never waits for
/// another thread.
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
    if facts.operators_wait_for_threads() {
        return Some(StackReason::OperatorWaits.into());
    }
    // Any macro may leave its statement where threads run in turn.
    let at = find_word(text, tokens, item, |_, word| facts.waits_for_threads(word))?;
    Some(reason_to_wait(tokens[at].text(text), at, facts, shuffles).at(at))
}

/// The first word of the kernel `item` for a wait elsewhere than at a barrier or in the statements `waits`.
pub(super) fn find_waiting_word(
    text: &str,
    tokens: &Tokens,
    facts: &Facts,
    item: &Item,
    waits: &[Range<usize>],
) -> Option<usize> {
    find_word(text, tokens, item, |at, word| {
        facts.waits(word)
            && word != "__syncthreads"
            && !waits.iter().any(|wait| wait.contains(&at))
            && !is_variable(text, tokens, item, at)
    })
}

/// Whether the word at `at` is a variable of the kernel by the name of a function elsewhere.
fn is_variable(text: &str, tokens: &Tokens, item: &Item, at: usize) -> bool {
    let word = tokens[at].text(text);
    let is_whole = |at: usize| {
        !tokens.is_spelled_at(text, at + 1, "(") && !tokens.is_spelled_at(text, at - 1, "::")
    };
    let is_declared = |place: usize| {
        tokens[place - 1].kind == TokenKind::Ident
            && !tokens.is_spelled_at(text, place - 1, "return")
            && tokens.is_spelled_at(text, place + 1, "=")
    };
    let mut places = item.body.start + 1..at + 1;
    is_whole(at)
        && places.any(|place| tokens.is_spelled_at(text, place, word) && is_declared(place))
}

/// The first token of the kernel `item` that is a word and fits.
fn find_word(
    text: &str,
    tokens: &Tokens,
    item: &Item,
    fits: impl Fn(usize, &str) -> bool,
) -> Option<usize> {
    let mut words = kernel_head_tokens(item).chain(item.body.clone());
    words.find(|&at| tokens[at].kind == TokenKind::Ident && fits(at, tokens[at].text(text)))
}

/// Why a kernel keeps its stacks: `word` at token `at` waits.
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
    /// Refuses words for waits, and words without a known meaning.
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
        let kernel_tokens = kernel_head_tokens(self.item).chain(self.item.body.clone());
        for token_index in
            kernel_tokens.filter(|&token_index| self.tokens[token_index].kind == TokenKind::Ident)
        {
            let word = self.word(token_index);
            let ours = word.starts_with("replay_")
                && !word.starts_with("replay_shared_")
                && word != "replay_rt";
            if ours || matches!(word, "_Pragma" | "__pragma" | "operator") {
                return Err(StackReason::ReservedWord(word.to_owned()).at(token_index));
            }
        }
        for at in kernel_head_tokens(self.item).chain(self.item.body.clone()) {
            let token = self.tokens[at];
            if token.kind != TokenKind::Directive && token.text(self.text).contains('\n') {
                return Err(StackReason::LongLiteral.at(at));
            }
        }
        for token_index in self.item.body.clone() {
            let lambda = self.is_spelled_at(token_index, "[")
                && (self.tokens[token_index - 1].kind == TokenKind::Punct
                    && !matches!(self.word(token_index - 1), ")" | "]" | "}" | ">" | "*" | "&")
                    || matches!(self.word(token_index - 1), "return" | "auto"));
            if lambda {
                return Err(StackReason::Lambda.at(token_index));
            }
        }
        Ok(())
    }

    /// Collects every declared name of the kernel.
    pub(super) fn collect_names(
        &mut self,
        statements: &[KernelStatement],
    ) -> Result<(), StackRefusal> {
        if self.parameter_list().is_none() {
            return Err(StackReason::Parameters.into());
        }
        for range in self.parameter_ranges() {
            self.declares(range);
        }
        let mut pending_statements: Vec<&KernelStatement> = statements.iter().collect();
        while let Some(statement) = pending_statements.pop() {
            match &statement.form {
                StatementForm::List(list) => pending_statements.extend(list),
                StatementForm::If { head, branches, .. } => {
                    self.head_declares(head.clone());
                    pending_statements.extend(branches);
                }
                StatementForm::Loop { head, body, .. } | StatementForm::Switch { head, body } => {
                    self.head_declares(head.clone());
                    pending_statements.push(body);
                }
                StatementForm::Do { body } => pending_statements.push(body),
                StatementForm::Simple => {
                    let range = statement.tokens.clone();
                    self.declares(range.start..range.end - 1);
                }
                StatementForm::Label | StatementForm::Barrier | StatementForm::Return => {}
            }
        }
        match self.names.values().find(|places| places.len() > MOST_DECLARATIONS) {
            Some(places) => Err(StackReason::ManyDeclarations(MOST_DECLARATIONS).at(places[0])),
            None => Ok(()),
        }
    }

    fn head_declares(&mut self, head: Range<usize>) {
        let semicolon = head.clone().find(|&token_index| self.is_spelled_at(token_index, ";"));
        self.declares(head.start..semicolon.unwrap_or(head.end));
    }

    fn declares(&mut self, range: Range<usize>) {
        let declared_indices = match parse_declaration(self.text, self.tokens, range) {
            DeclarationKind::Nothing => Vec::new(),
            DeclarationKind::Variables(declaration) => {
                declaration.declarators.iter().map(|declarator| declarator.name).collect()
            }
            DeclarationKind::Other(names) => names,
        };
        for token_index in declared_indices {
            self.names.entry(self.word(token_index)).or_default().push(token_index);
        }
    }

    /// The tokens between the parentheses of the kernel's parameters.
    fn parameter_list(&self) -> Option<Range<usize>> {
        let open_parenthesis = (self.item.name_at..self.item.body.start)
            .find(|&token_index| self.is_spelled_at(token_index, "("))?;
        Some(open_parenthesis + 1..self.tokens.skip_group(open_parenthesis)? - 1)
    }

    /// The tokens of each parameter.
    pub(super) fn parameter_ranges(&self) -> Vec<Range<usize>> {
        self.parameter_list().map_or_else(Vec::new, |list| self.pieces(list))
    }

    /// `range` split at its commas outside of brackets.
    pub(super) fn pieces(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let mut pieces = self.tokens.split_parameters(self.text, range);
        if pieces.last().is_some_and(Range::is_empty) {
            pieces.pop();
        }
        pieces
    }

    /// Refuses macros with one of the kernel's own names in their expansion.
    pub(super) fn check_macros(&self) -> Result<(), StackRefusal> {
        let mut seen_macros = BTreeSet::new();
        for token_index in kernel_head_tokens(self.item).chain(self.item.body.clone()) {
            let word = self.word(token_index);
            let defined =
                self.tokens[token_index].kind == TokenKind::Ident && self.facts.is_macro(word);
            if !defined || !seen_macros.insert(word) {
                continue;
            }
            let expansion = self.facts.expansion(word);
            if self.names.contains_key(word)
                || self.names.keys().any(|name| expansion.contains(name))
            {
                return Err(StackReason::MacroNames(word.to_owned()).at(token_index));
            }
        }
        Ok(())
    }
}
