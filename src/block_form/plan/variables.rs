//! Makes the variables of parameters and declarations, and gives each its home.

use std::ops::Range;

use super::{Home, Placed, Planner, Variable};
use crate::block_form::declarations::{Declaration, Declarator, Declared, declared, is_trivial};
use crate::block_form::reason::{StackReason, StackRefusal};
use crate::block_form::uses::Use;
use crate::syntax::lexer::Kind;

impl Planner<'_> {
    /// Finds the parameters that threads may change: each thread has its own.
    pub(super) fn parameters(&mut self) -> Result<(), StackRefusal> {
        for range in self.parameter_ranges() {
            if range.len() == 1 && self.is(range.start, "void") {
                continue;
            }
            let directive = |at: usize| self.tokens[at].kind == Kind::Directive;
            let end = range.clone().find(|&at| self.is(at, "=")).unwrap_or(range.end);
            let Declared::Variables(made) = declared(self.text, self.tokens, range.start..end)
            else {
                return Err(StackReason::Parameters.at(range.start));
            };
            if range.clone().any(directive) {
                return Err(StackReason::Parameters.at(range.start));
            }
            let [declarator] = &made.declarators[..] else {
                return Err(StackReason::Parameters.at(range.start));
            };
            if !declarator.dimensions.is_empty() || !declarator.initialiser.is_empty() {
                return Err(StackReason::Parameters.at(range.start));
            }
            self.parameter(&made, declarator);
        }
        Ok(())
    }

    fn parameter(&mut self, declaration: &Declaration, declarator: &Declarator) {
        let scope = self.item.body.clone();
        let mut variable = self.variable(declaration, declarator, scope.clone());
        let name = variable.name.clone();
        let constant = self.is_const(declaration, declarator);
        let worst = self.worst(&name, scope.clone());
        // An element of a member may be the parameter's own.
        let element = |at: usize| !variable.trivial && self.chain_ends_in_element(at);
        let shared = constant && variable.trivial
            || worst == Use::Read && !self.mentions_of(&name, scope).any(element);
        if shared {
            return;
        }
        variable.parameter = true;
        variable.crosses = true;
        variable.home = match worst {
            Use::Escape => Home::Frame,
            _ if !variable.trivial => Home::Frame,
            _ => Home::Local,
        };
        self.visible.push(self.plan.variables.len());
        self.plan.variables.push(variable);
    }

    fn chain_ends_in_element(&self, at: usize) -> bool {
        let mut last = at;
        while self.is(last + 1, ".") {
            last += 2;
        }
        self.is(last + 1, "[")
    }

    /// Makes the variables of a declaration whose names hold in `scope`.
    pub(super) fn place(
        &mut self,
        declaration: Declaration,
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
                _ if !variable.trivial || !variable.dimensions.is_empty() => Home::Frame,
                Use::Escape => Home::Frame,
                Use::Read if initialised => Home::Constant,
                _ => Home::Local,
            };
            self.visible.push(self.plan.variables.len());
            variables.push(self.plan.variables.len());
            self.plan.variables.push(variable);
        }
        Ok(Placed { declaration, variables, head_of })
    }

    fn check_type(&self, variable: &Variable, name_at: usize) -> Result<(), StackRefusal> {
        let words = variable.base.clone().chain(variable.dimensions.clone());
        let ends = |at: usize| self.facts.is_destroyed(self.word(at));
        if variable.base.clone().any(ends)
            || variable.base.clone().any(|at| self.is(at, "std")) && !variable.trivial
        {
            return Err(StackReason::Destructor(variable.name.clone()).at(name_at));
        }
        // Types are written in front of the loop, where no variable is known.
        let words = words.filter(|&at| self.tokens[at].kind == Kind::Ident);
        for at in words {
            let word = self.word(at);
            let local = self.names.contains_key(word) && !self.moved.contains(word);
            if local || self.facts.is_macro(word) && variable.base.contains(&at) {
                return Err(StackReason::TypeDependsOn(word.to_owned()).at(at));
            }
        }
        Ok(())
    }

    pub(super) fn is_const(&self, declaration: &Declaration, declarator: &Declarator) -> bool {
        match declarator.pointer.is_empty() {
            true => declaration.base.clone().any(|at| self.is(at, "const")),
            false => {
                let mut qualifiers = declarator.pointer.clone().rev();
                let star = qualifiers.find(|&at| self.is(at, "*")).unwrap_or(declarator.name);
                (star..declarator.pointer.end).any(|at| self.is(at, "const"))
            }
        }
    }

    fn variable(
        &self,
        declaration: &Declaration,
        declarator: &Declarator,
        scope: Range<usize>,
    ) -> Variable {
        let base = declaration.base.clone();
        let pointer = declarator.pointer.clone();
        let trivial = !pointer.is_empty() || is_trivial(base.clone().map(|at| self.word(at)));
        Variable {
            name: self.word(declarator.name).to_owned(),
            base,
            pointer,
            dimensions: declarator.dimensions.clone(),
            home: Home::Local,
            trivial,
            parameter: false,
            crosses: false,
            scope,
        }
    }
}
