//! Makes the variables of parameters and declarations, and gives each its home.

use std::ops::Range;

use super::{Placed, Planner, Variable, VariableHome};
use crate::syntax::lexer::TokenKind;
use crate::thread_loop::declarations::{
    DeclarationKind, VariableDeclaration, VariableDeclarator, is_trivial, parse_declaration,
};
use crate::thread_loop::reason::{StackReason, StackRefusal};
use crate::thread_loop::uses::Use;

impl Planner<'_> {
    /// Finds the parameters open to changes by threads: each thread has its own.
    pub(super) fn parameters(&mut self) -> Result<(), StackRefusal> {
        for range in self.parameter_ranges() {
            if range.len() == 1 && self.is_spelled_at(range.start, "void") {
                continue;
            }
            let end = range
                .clone()
                .find(|&token_index| self.is_spelled_at(token_index, "="))
                .unwrap_or(range.end);
            let DeclarationKind::Variables(declaration) =
                parse_declaration(self.text, self.tokens, range.start..end)
            else {
                return Err(StackReason::Parameters.at(range.start));
            };
            if self.tokens[range.clone()].iter().any(|token| token.kind == TokenKind::Directive) {
                return Err(StackReason::Parameters.at(range.start));
            }
            let [declarator] = &declaration.declarators[..] else {
                return Err(StackReason::Parameters.at(range.start));
            };
            if !declarator.dimensions.is_empty() || !declarator.initialiser.is_empty() {
                return Err(StackReason::Parameters.at(range.start));
            }
            self.parameter(&declaration, declarator);
        }
        Ok(())
    }

    fn parameter(&mut self, declaration: &VariableDeclaration, declarator: &VariableDeclarator) {
        let scope = self.item.body.clone();
        let mut variable = self.variable(declaration, declarator, scope.clone());
        let name = variable.name.clone();
        let constant = self.is_const(declaration, declarator);
        let worst = self.worst(&name, scope.clone());
        // An element of a member may be the parameter's own.
        let has_elements = !variable.trivial
            && self.mentions_of(&name, scope).any(|at| self.chain_ends_in_element(at));
        let is_shared = constant && variable.trivial || worst == Use::Read && !has_elements;
        if is_shared {
            return;
        }
        variable.parameter = true;
        variable.crosses = true;
        variable.home = match worst {
            Use::Escape => VariableHome::Frame,
            _ if !variable.trivial => VariableHome::Frame,
            _ => VariableHome::Local,
        };
        self.visible.push(self.plan.variables.len());
        self.plan.variables.push(variable);
    }

    fn chain_ends_in_element(&self, token_index: usize) -> bool {
        let mut last = token_index;
        while self.is_spelled_at(last + 1, ".") {
            last += 2;
        }
        self.is_spelled_at(last + 1, "[")
    }

    /// Makes the variables of a declaration whose names hold in `scope`.
    pub(super) fn place(
        &mut self,
        declaration: VariableDeclaration,
        scope: &Range<usize>,
        head_of: Option<Range<usize>>,
    ) -> Result<Placed, StackRefusal> {
        let mut variables = Vec::new();
        for declarator in &declaration.declarators {
            let scope = declarator.name..scope.end;
            let mut variable = self.variable(&declaration, declarator, scope.clone());
            self.check_type(&variable, declarator.name)?;
            if declarator.dimensions.len() == 2 {
                return Err(StackReason::ArrayWithoutSize(variable.name).at(declarator.name));
            }
            let later = declarator.initialiser.end..scope.end;
            let worst = self.worst(&variable.name, later);
            let initialised = !declarator.initialiser.is_empty() && head_of.is_none();
            variable.home = match worst {
                _ if !variable.trivial || !variable.dimensions.is_empty() => VariableHome::Frame,
                Use::Escape => VariableHome::Frame,
                Use::Read if initialised => VariableHome::Constant,
                _ => VariableHome::Local,
            };
            self.visible.push(self.plan.variables.len());
            variables.push(self.plan.variables.len());
            self.plan.variables.push(variable);
        }
        Ok(Placed { declaration, variables, head_of })
    }

    fn check_type(&self, variable: &Variable, name_at: usize) -> Result<(), StackRefusal> {
        let words = variable.base.clone().chain(variable.dimensions.clone());
        let base_words = self.words(variable.base.clone());
        if base_words.iter().any(|word| self.facts.is_destroyed(word))
            || base_words.contains(&"std") && !variable.trivial
        {
            return Err(StackReason::Destructor(variable.name.clone()).at(name_at));
        }
        // Types are written in front of the loop, where no variable is known.
        let words = words.filter(|&token_index| self.tokens[token_index].kind == TokenKind::Ident);
        for token_index in words {
            let word = self.word(token_index);
            let local = self.names.contains_key(word) && !self.moved.contains(word);
            if local || self.facts.is_macro(word) && variable.base.contains(&token_index) {
                return Err(StackReason::TypeDependsOn(word.to_owned()).at(token_index));
            }
        }
        Ok(())
    }

    pub(super) fn is_const(
        &self,
        declaration: &VariableDeclaration,
        declarator: &VariableDeclarator,
    ) -> bool {
        if declarator.pointer.is_empty() {
            declaration.base.clone().any(|token_index| self.is_spelled_at(token_index, "const"))
        } else {
            let mut qualifiers = declarator.pointer.clone().rev();
            let star = qualifiers
                .find(|&token_index| self.is_spelled_at(token_index, "*"))
                .unwrap_or(declarator.name);
            (star..declarator.pointer.end)
                .any(|token_index| self.is_spelled_at(token_index, "const"))
        }
    }

    fn variable(
        &self,
        declaration: &VariableDeclaration,
        declarator: &VariableDeclarator,
        scope: Range<usize>,
    ) -> Variable {
        let base = declaration.base.clone();
        let pointer = declarator.pointer.clone();
        let trivial = !pointer.is_empty()
            || is_trivial(base.clone().map(|token_index| self.word(token_index)));
        Variable {
            name: self.word(declarator.name).to_owned(),
            base,
            pointer,
            dimensions: declarator.dimensions.clone(),
            home: VariableHome::Local,
            trivial,
            parameter: false,
            crosses: false,
            scope,
        }
    }
}
