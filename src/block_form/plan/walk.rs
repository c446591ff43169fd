//! Walks the statements of a kernel. Notes what a thread's return to a barrier jumps over, and what
//! the thread needs there.

use std::ops::Range;

use super::{Barrier, Home, Planner, ambiguous};
use crate::block_form::declarations::{Declared, declared};
use crate::block_form::reason::{StackReason, StackRefusal};
use crate::block_form::statements::{Form, Statement};

impl Planner<'_> {
    /// Walks the statements of a list whose scope is `scope`; `loops` are those around it.
    pub(super) fn list(
        &mut self,
        statements: &[Statement],
        scope: Range<usize>,
        loops: &mut Vec<Range<usize>>,
    ) -> Result<(), StackRefusal> {
        let visible = self.visible.len();
        let last = statements.iter().rposition(|statement| statement.waits);
        for (index, statement) in statements.iter().enumerate() {
            if last.is_some_and(|last| index < last) && matches!(statement.form, Form::Simple) {
                self.simple(statement, &scope)?;
            } else {
                self.statement(statement, loops)?;
            }
        }
        self.visible.truncate(visible);
        Ok(())
    }

    /// A statement that may hold barriers.
    fn statement(
        &mut self,
        statement: &Statement,
        loops: &mut Vec<Range<usize>>,
    ) -> Result<(), StackRefusal> {
        let tokens = statement.tokens.clone();
        match &statement.form {
            Form::List(list) => {
                return self.list(list, tokens.start + 1..tokens.end - 1, loops);
            }
            Form::Return => self.plan.returns.push(tokens.start),
            Form::Barrier => self.barrier(tokens, loops)?,
            Form::Label | Form::Simple => {}
            Form::If { head, constant, branches } => {
                if statement.waits && (*constant || self.declares_in(head.clone())) {
                    return Err(StackReason::Condition.at(head.start));
                }
                for branch in branches {
                    self.statement(branch, loops)?;
                }
            }
            Form::Switch { body, .. } => {
                if statement.waits {
                    return Err(StackReason::BarrierInSwitch.at(tokens.start));
                }
                self.statement(body, loops)?;
            }
            Form::Do { body } => {
                loops.push(tokens);
                self.statement(body, loops)?;
                loops.pop();
            }
            Form::Loop { head, is_for, body } => {
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

    fn declares_in(&self, head: Range<usize>) -> bool {
        let semicolon = head.clone().any(|at| self.is(at, ";"));
        semicolon || !matches!(declared(self.text, self.tokens, head), Declared::Nothing)
    }

    /// The head of a loop that holds barriers.
    fn loop_head(
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
        let semicolons: Vec<usize> = head.clone().filter(|&at| self.is(at, ";")).collect();
        let &[first, second] = &semicolons[..] else {
            return Err(StackReason::LoopOverRange.at(statement.start));
        };
        if !matches!(declared(self.text, self.tokens, first + 1..second), Declared::Nothing) {
            return Err(StackReason::Condition.at(first + 1));
        }
        let unknown = StackReason::Declaration(self.word(head.start).to_owned()).at(head.start);
        match declared(self.text, self.tokens, head.start..first) {
            Declared::Nothing => Ok(()),
            Declared::Other(_) => Err(unknown),
            Declared::Variables(made) => {
                let simple = made
                    .declarators
                    .iter()
                    .all(|one| one.dimensions.is_empty() && self.is(one.initialiser.start, "="));
                let placed = self.place(made, &statement, Some(statement.clone()))?;
                let trivial = placed.variables.iter().all(|&k| self.plan.variables[k].trivial);
                self.plan.declarations.push(placed);
                if simple && trivial { Ok(()) } else { Err(unknown) }
            }
        }
    }

    /// A simple statement that a jump to a barrier passes by.
    fn simple(&mut self, statement: &Statement, scope: &Range<usize>) -> Result<(), StackRefusal> {
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
        match declared(self.text, self.tokens, range.clone()) {
            Declared::Nothing => Ok(()),
            Declared::Other(names) if self.moves(range.clone()) => self.hoist(tokens, names),
            Declared::Other(_) => Err(StackReason::Declaration(first.to_owned()).at(range.start)),
            Declared::Variables(made) if self.moves(range) || self.is_constant(&made) => {
                let names = made.declarators.iter().map(|one| one.name).collect();
                self.hoist(tokens, names)
            }
            Declared::Variables(made) => {
                let placed = self.place(made, scope, None)?;
                self.plan.declarations.push(placed);
                Ok(())
            }
        }
    }

    fn barrier(
        &mut self,
        tokens: Range<usize>,
        loops: &[Range<usize>],
    ) -> Result<(), StackRefusal> {
        self.check_fold(tokens.start)?;
        let arguments = self.atomic(tokens.clone())?;
        // Other waits are statements that go on with their variables.
        let behind = if self.is(tokens.start, "__syncthreads") { tokens.end } else { tokens.start };
        let mut kept = Vec::new();
        for &index in &self.visible {
            let variable = &self.plan.variables[index];
            let repeats = |one: &&Range<usize>| {
                let inside = variable.scope.start < one.start || variable.parameter;
                // The head of its own loop repeats with the loop.
                let own = one.start <= variable.scope.start && one.end == variable.scope.end;
                inside || own
            };
            let after = behind..variable.scope.end;
            let mentioned =
                |range: Range<usize>| self.mentions_of(&variable.name, range).next().is_some();
            let needed = mentioned(after) || loops.iter().filter(repeats).cloned().any(mentioned);
            if needed || variable.parameter {
                kept.push(index);
            }
        }
        for &index in &kept {
            self.plan.variables[index].crosses = true;
            let name = &self.plan.variables[index].name;
            let same =
                self.visible.iter().filter(|&&other| self.plan.variables[other].name == *name);
            if same.count() != 1 {
                return Err(ambiguous(name, self.plan.variables[index].scope.start));
            }
        }
        kept.retain(|&index| self.plan.variables[index].home != Home::Frame);
        self.plan.barriers.push(Barrier { tokens, kept, arguments });
        Ok(())
    }
}
