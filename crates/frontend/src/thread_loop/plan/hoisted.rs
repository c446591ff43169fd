//! Moves declarations in front of the loop over the threads, if they mean the same there.

use std::ops::Range;

use super::{Planner, refuse_ambiguous_name};
use crate::syntax::lexer::TokenKind;
use crate::thread_loop::declarations::{VariableDeclaration, is_trivial};
use crate::thread_loop::reason::{StackReason, StackRefusal};

impl Planner<'_> {
    /// Moves the declaration of `names` in front of the loop over the threads.
    pub(super) fn hoist(
        &mut self,
        tokens: Range<usize>,
        names: Vec<usize>,
    ) -> Result<(), StackRefusal> {
        for &token_index in &names {
            let name = self.word(token_index);
            let places = self.names.get(name).map_or(0, Vec::len);
            if places != 1 || self.mentioned_before(name, tokens.start) {
                return Err(refuse_ambiguous_name(name, token_index));
            }
            self.moved.insert(name);
        }
        for token_index in self.mentions(tokens.clone()) {
            let word = self.word(token_index);
            if self.names.contains_key(word) && !self.moved.contains(word) {
                return Err(StackReason::DeclarationDependsOn(word.to_owned()).at(token_index));
            }
        }
        self.plan.hoisted.push(tokens);
        Ok(())
    }

    /// Whether a declaration means the same in front of the loop over the threads: shared memory,
    /// types and constants.
    pub(super) fn moves(&self, range: Range<usize>) -> bool {
        let first = self.word(range.start);
        let words = self.words(range.clone());
        let types = matches!(first, "typedef" | "using" | "constexpr");
        let reference =
            first.starts_with("replay_shared_") && self.is_spelled_at(range.start + 1, "&");
        let constant = first == "static" && self.is_spelled_at(range.start + 1, "constexpr");
        types && !words.contains(&"auto")
            || words.contains(&"shared_slot") && words.contains(&"replay_rt")
            || reference
            || constant
    }

    /// Whether `declaration` is of the form `const int n = 4 * kWidth;`. The language may need it
    /// as a constant, and no thread can tell when it was computed.
    pub(super) fn is_constant(&self, declaration: &VariableDeclaration) -> bool {
        let [declarator] = &declaration.declarators[..] else { return false };
        let is_plain = declarator.pointer.is_empty()
            && declarator.dimensions.is_empty()
            && self.is_const(declaration, declarator)
            && is_trivial(declaration.base.clone().map(|token_index| self.word(token_index)));
        let mut initialiser = declarator.initialiser.clone();
        is_plain
            && !initialiser.is_empty()
            && initialiser.all(|token_index| self.is_constant_operand(token_index))
    }

    /// Whether the token at `token_index` of an initialiser has one value for all threads of all blocks.
    fn is_constant_operand(&self, token_index: usize) -> bool {
        match self.tokens[token_index].kind {
            TokenKind::Number => true,
            TokenKind::Punct => !matches!(self.word(token_index), "[" | "{" | "->" | "&" | "."),
            TokenKind::Ident => {
                let word = self.word(token_index);
                let builtin = ["threadIdx", "blockIdx", "blockDim", "gridDim"].contains(&word);
                let is_moved = self.moved.contains(word);
                let is_own = self.names.contains_key(word) && !is_moved;
                let called = self.is_spelled_at(token_index + 1, "(") && word != "sizeof";
                !builtin && !is_own && !called && !self.facts.is_device_variable(word)
            }
            TokenKind::Text | TokenKind::Directive => false,
        }
    }
}
