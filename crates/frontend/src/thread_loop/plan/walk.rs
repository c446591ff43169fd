//! Walks the statements of a kernel. Notes the declarations passed by a jump to a barrier, and the variables needed
//! there.

use std::ops::Range;

use super::{Planner, VariableHome, YieldPoint, refuse_ambiguous_name};
use crate::thread_loop::declarations::{DeclarationKind, parse_declaration};
use crate::thread_loop::reason::{StackReason, StackRefusal};
use crate::thread_loop::statements::{KernelStatement, StatementForm};

impl Planner<'_> {
    /// Walks the statements of a list whose scope is `scope`; `loops` are those around it.
    pub(super) fn list(
        &mut self,
        statements: &[KernelStatement],
        scope: Range<usize>,
        loops: &mut Vec<Range<usize>>,
    ) -> Result<(), StackRefusal> {
        let visible = self.visible.len();
        let last = statements.iter().rposition(|statement| statement.waits);
        for (index, statement) in statements.iter().enumerate() {
            if last.is_some_and(|last| index < last)
                && matches!(statement.form, StatementForm::Simple)
            {
                self.simple(statement, &scope)?;
            } else {
                self.statement(statement, loops)?;
            }
        }
        self.visible.truncate(visible);
        Ok(())
    }

    /// A statement, perhaps with barriers in it.
    pub(super) fn statement(
        &mut self,
        statement: &KernelStatement,
        loops: &mut Vec<Range<usize>>,
    ) -> Result<(), StackRefusal> {
        let tokens = statement.tokens.clone();
        match &statement.form {
            StatementForm::List(list) => {
                return self.list(list, tokens.start + 1..tokens.end - 1, loops);
            }
            StatementForm::Return => self.plan.returns.push(tokens.start),
            StatementForm::Barrier => self.barrier(tokens, loops)?,
            StatementForm::Label | StatementForm::Simple => {}
            StatementForm::If { head, constant, branches } => {
                if statement.waits && (*constant || self.declares_in(head.clone())) {
                    return Err(StackReason::Condition.at(head.start));
                }
                for branch in branches {
                    self.statement(branch, loops)?;
                }
            }
            StatementForm::Switch { body, .. } => {
                if statement.waits {
                    return Err(StackReason::BarrierInSwitch.at(tokens.start));
                }
                self.statement(body, loops)?;
            }
            StatementForm::Do { body } => {
                loops.push(tokens);
                self.statement(body, loops)?;
                loops.pop();
            }
            StatementForm::Loop { head, is_for, body } => {
                let visible = self.visible.len();
                if statement.waits {
                    self.loop_head(tokens.clone(), head.clone(), *is_for)?;
                }
                loops.push(tokens);
                self.statement(body, loops)?;
                loops.pop();
                self.visible.truncate(visible);
            }
        }
        Ok(())
    }

    pub(super) fn declares_in(&self, head: Range<usize>) -> bool {
        let semicolon = head.clone().any(|token_index| self.is_spelled_at(token_index, ";"));
        semicolon
            || !matches!(parse_declaration(self.text, self.tokens, head), DeclarationKind::Nothing)
    }

    /// The head of a loop with barriers.
    pub(super) fn loop_head(
        &mut self,
        statement: Range<usize>,
        head: Range<usize>,
        is_for: bool,
    ) -> Result<(), StackRefusal> {
        if !is_for {
            if self.declares_in(head.clone()) {
                return Err(StackReason::Condition.at(head.start));
            }
            return Ok(());
        }
        let semicolons: Vec<usize> =
            head.clone().filter(|&token_index| self.is_spelled_at(token_index, ";")).collect();
        let &[first, second] = &semicolons[..] else {
            return Err(StackReason::LoopOverRange.at(statement.start));
        };
        if !matches!(
            parse_declaration(self.text, self.tokens, first + 1..second),
            DeclarationKind::Nothing
        ) {
            return Err(StackReason::Condition.at(first + 1));
        }
        let unknown = StackReason::Declaration(self.word(head.start).to_owned()).at(head.start);
        match parse_declaration(self.text, self.tokens, head.start..first) {
            DeclarationKind::Nothing => Ok(()),
            DeclarationKind::Other(_) => Err(unknown),
            DeclarationKind::Variables(declaration) => {
                let simple = declaration.declarators.iter().all(|declarator| {
                    declarator.dimensions.is_empty()
                        && self.is_spelled_at(declarator.initialiser.start, "=")
                });
                let placed = self.place(declaration, &statement, Some(statement.clone()))?;
                let trivial = placed.variables.iter().all(|&k| self.plan.variables[k].trivial);
                self.plan.declarations.push(placed);
                if simple && trivial { Ok(()) } else { Err(unknown) }
            }
        }
    }

    /// A simple statement. A jump to a barrier passes it by.
    pub(super) fn simple(
        &mut self,
        statement: &KernelStatement,
        scope: &Range<usize>,
    ) -> Result<(), StackRefusal> {
        let tokens = statement.tokens.clone();
        let range = tokens.start..tokens.end - 1;
        let first = if range.is_empty() { "" } else { self.word(range.start) };
        if self.facts.is_macro(first) {
            let expansion = self.facts.expansion(first);
            let statement = expansion.contains("do") || expansion.contains("if");
            if !statement {
                return Err(StackReason::MacroDeclares(first.to_owned()).at(range.start));
            }
        }
        match parse_declaration(self.text, self.tokens, range.clone()) {
            DeclarationKind::Nothing => Ok(()),
            DeclarationKind::Other(names) if self.moves(range.clone()) => self.hoist(tokens, names),
            DeclarationKind::Other(_) => {
                Err(StackReason::Declaration(first.to_owned()).at(range.start))
            }
            DeclarationKind::Variables(declaration)
                if self.moves(range) || self.is_constant(&declaration) =>
            {
                let names =
                    declaration.declarators.iter().map(|declarator| declarator.name).collect();
                self.hoist(tokens, names)
            }
            DeclarationKind::Variables(declaration) => {
                let placed = self.place(declaration, scope, None)?;
                self.plan.declarations.push(placed);
                Ok(())
            }
        }
    }

    pub(super) fn barrier(
        &mut self,
        tokens: Range<usize>,
        loops: &[Range<usize>],
    ) -> Result<(), StackRefusal> {
        self.check_fold(tokens.start)?;
        let arguments = self.atomic(tokens.clone())?;
        // Other waits are statements: their own variables count too.
        let crossing_start = if self.is_spelled_at(tokens.start, "__syncthreads") {
            tokens.end
        } else {
            tokens.start
        };
        let kept = self.kept_from(crossing_start, loops)?;
        self.plan.barriers.push(YieldPoint { tokens, kept, arguments, check: None });
        Ok(())
    }

    /// The variables in locals whose values are needed from token `crossing_start` on, inside `loops`.
    pub(super) fn kept_from(
        &mut self,
        crossing_start: usize,
        loops: &[Range<usize>],
    ) -> Result<Vec<usize>, StackRefusal> {
        let mut kept = Vec::new();
        for &index in &self.visible {
            let variable = &self.plan.variables[index];
            if variable.scope.end <= crossing_start {
                continue;
            }
            let range_after = crossing_start..variable.scope.end;
            let mut is_needed = self.is_mentioned(&variable.name, range_after);
            for loop_range in loops {
                let is_inside = variable.scope.start < loop_range.start || variable.parameter;
                // The head of its own loop repeats with the loop.
                let is_own_loop = loop_range.start <= variable.scope.start
                    && loop_range.end == variable.scope.end;
                if is_inside || is_own_loop {
                    is_needed |= self.is_mentioned(&variable.name, loop_range.clone());
                }
            }
            if is_needed || variable.parameter {
                kept.push(index);
            }
        }
        for &index in &kept {
            self.plan.variables[index].crosses = true;
            let name = &self.plan.variables[index].name;
            let same_named = self
                .visible
                .iter()
                .map(|&other_index| &self.plan.variables[other_index])
                .filter(|other| other.name == *name && other.scope.end > crossing_start);
            if same_named.count() != 1 {
                return Err(refuse_ambiguous_name(name, self.plan.variables[index].scope.start));
            }
        }
        kept.retain(|&index| self.plan.variables[index].home != VariableHome::Frame);
        Ok(kept)
    }
}
