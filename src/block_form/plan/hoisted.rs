//! Moves declarations that mean the same there in front of the loop over the threads.

use std::ops::Range;

use super::{Planner, ambiguous};
use crate::block_form::declarations::{Declaration, is_trivial};
use crate::block_form::reason::{StackReason, StackRefusal};
use crate::syntax::lexer::Kind;

impl Planner<'_> {
    /// Moves the declaration of `names` in front of the loop over the threads.
    pub(super) fn hoist(
        &mut self,
        tokens: Range<usize>,
        names: Vec<usize>,
    ) -> Result<(), StackRefusal> {
        for &at in &names {
            let name = self.word(at);
            let places = self.names.get(name).map_or(0, Vec::len);
            if places != 1 || self.mentioned_before(name, tokens.start) {
                return Err(ambiguous(name, at));
            }
            self.moved.insert(name);
        }
        for at in self.mentions(tokens.clone()) {
            let word = self.word(at);
            if self.names.contains_key(word) && !self.moved.contains(word) {
                return Err(StackReason::DeclarationDependsOn(word.to_owned()).at(at));
            }
        }
        self.plan.hoisted.push(tokens);
        Ok(())
    }

    /// Whether a declaration means the same in front of the loop over the threads: shared memory,
    /// types and constants.
    pub(super) fn moves(&self, range: Range<usize>) -> bool {
        let has = |word: &str| range.clone().any(|at| self.is(at, word));
        let first = self.word(range.start);
        let types = matches!(first, "typedef" | "using" | "constexpr");
        let shared = has("shared_slot") || has("dynamic_shared");
        let reference = first.starts_with("replay_shared_") && self.is(range.start + 1, "&");
        let constant = first == "static" && self.is(range.start + 1, "constexpr");
        types && !has("auto") || shared && has("replay_rt") || reference || constant
    }

    /// Whether `declaration` is of the form `const int n = 4 * kWidth;`. The language may need it
    /// as a constant, and no thread can tell when it was computed.
    pub(super) fn is_constant(&self, declaration: &Declaration) -> bool {
        let [declarator] = &declaration.declarators[..] else { return false };
        let plain = declarator.pointer.is_empty()
            && declarator.dimensions.is_empty()
            && self.is_const(declaration, declarator)
            && is_trivial(declaration.base.clone().map(|at| self.word(at)));
        let mut initialiser = declarator.initialiser.clone();
        let fixed = |at: usize| match self.tokens[at].kind {
            Kind::Number => true,
            Kind::Punct => !matches!(self.word(at), "[" | "{" | "->" | "&" | "."),
            Kind::Ident => {
                let word = self.word(at);
                let builtin = ["threadIdx", "blockIdx", "blockDim", "gridDim"].contains(&word);
                let moved = self.moved.contains(word);
                let own = self.names.contains_key(word) && !moved;
                let called = self.is(at + 1, "(") && word != "sizeof";
                !builtin && !own && !called && !self.facts.is_device_variable(word)
            }
            Kind::Text | Kind::Directive => false,
        };
        plain && !initialiser.is_empty() && initialiser.all(fixed)
    }
}
