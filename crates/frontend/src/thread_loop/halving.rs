//! Reductions by halves: loops with work for ever fewer threads of a block.
//!
//! `for (int s = E; s > 0; s >>= 1) { if (tid < s) { m[tid] += m[tid + s]; } __syncthreads(); }`. The branch stores to
//! elements and changes no variable. Once all threads wait at the barrier and agree on `s`, the rest of the loop is the
//! branch, level by level, for its threads in their order. The other threads do nothing in it. Other loops stay as they
//! are, doubtful ones too.

use std::fmt::Write;
use std::ops::Range;

use super::plan::{Planner, Variable, VariableHome};
use super::statements::{KernelStatement, StatementForm};
use crate::syntax::lexer::TokenKind;

/// A loop as it is to be written.
#[derive(Debug)]
pub(super) struct Halving {
    /// The first token of its barrier.
    pub barrier: usize,
    /// The halved variable.
    level: usize,
    /// The variable in the comparison with it; none for `threadIdx.x`.
    index: Option<usize>,
    /// The variables read in the branch, the two above left out.
    reads: Vec<usize>,
    /// Whether the branch asks for `threadIdx`.
    asks_index: bool,
    /// The tokens of the branch.
    branch: Range<usize>,
}

/// The loops of this form in a kernel whose variables are planned.
pub(super) fn find_halving_loops(
    planner: &Planner,
    statements: &[KernelStatement],
) -> Vec<Halving> {
    let mut halvings = Vec::new();
    let mut pending_statements: Vec<&KernelStatement> = statements.iter().collect();
    while let Some(statement) = pending_statements.pop() {
        match &statement.form {
            StatementForm::List(list) | StatementForm::If { branches: list, .. } => {
                pending_statements.extend(list)
            }
            StatementForm::Loop { head, is_for, body } => {
                let halving = is_for.then(|| HalvingReader { planner }.halving(head.clone(), body));
                halvings.extend(halving.flatten());
                pending_statements.push(body);
            }
            StatementForm::Do { body } | StatementForm::Switch { body, .. } => {
                pending_statements.push(body)
            }
            StatementForm::Label
            | StatementForm::Barrier
            | StatementForm::Return
            | StatementForm::Simple => {}
        }
    }
    halvings
}

impl Halving {
    /// The code behind the return from the barrier. `text` returns the tokens of a range as they are written.
    pub(super) fn code(
        &self,
        variables: &[Variable],
        text: impl Fn(Range<usize>) -> String,
    ) -> String {
        let level = &variables[self.level].name;
        let k = self.level;
        let index = match self.index {
            Some(index) => format!(", &replay_frame_t::v{index}"),
            None => String::new(),
        };
        let mut names = format!("const replay_t{k} {level} = replay_level; (void){level}; ");
        for &variable_index in self.reads.iter().chain(&self.index) {
            let name = &variables[variable_index].name;
            let _ = write!(
                names,
                "const replay_t{variable_index} {name} = replay_shown.v{variable_index}; (void){name}; "
            );
        }
        let asks_index = self.asks_index;
        let branch = text(self.branch.clone());
        format!(
            " if (replay_block.halves({level}, &replay_frame_t::v{k}{index})) {{ \
             for (replay_t{k} replay_level = {level} >> 1; replay_level > 0; replay_level >>= 1) \
             for (unsigned replay_t = 0; replay_block.takes(replay_t, replay_level); replay_t++) {{ \
             const replay_frame_t& replay_shown = replay_block.show(replay_t, {asks_index}); \
             (void)replay_shown; {names}{branch} }} \
             replay_block.halved({level}, &replay_frame_t::v{k}, {asks_index}); }}"
        )
    }
}

struct HalvingReader<'p, 't> {
    planner: &'p Planner<'t>,
}

impl HalvingReader<'_, '_> {
    fn halving(&self, head: Range<usize>, body: &KernelStatement) -> Option<Halving> {
        let planner = self.planner;
        let StatementForm::List(list) = &body.form else { return None };
        let [conditional, barrier] = &list[..] else { return None };
        let (
            StatementForm::If { head: condition, constant: false, branches },
            StatementForm::Barrier,
        ) = (&conditional.form, &barrier.form)
        else {
            return None;
        };
        let [branch] = &branches[..] else { return None };
        let level = self.level(head)?;
        let name = &planner.variables()[level].name;
        let words: Vec<&str> =
            condition.clone().map(|token_index| planner.word(token_index)).collect();
        let index = match words[..] {
            ["threadIdx", ".", "x", "<", last] if last == name => None,
            [first, "<", last] if last == name => Some(self.variable(first)?),
            _ => return None,
        };
        let statements = match &branch.form {
            StatementForm::List(list) => &list[..],
            _ => std::slice::from_ref(branch),
        };
        if statements.iter().any(|statement| {
            !matches!(statement.form, StatementForm::Simple) || !self.stores(statement)
        }) {
            return None;
        }
        let tokens = branch.tokens.clone();
        let mut reads = Vec::new();
        for token_index in planner.mentions(tokens.clone()) {
            let word = planner.word(token_index);
            if planner.facts.is_macro(word) {
                return None;
            }
            let is_own = planner.names.contains_key(word) && !planner.is_shared_by_threads(word);
            if is_own && word != name {
                reads.push(self.variable(word)?);
            }
        }
        reads.sort_unstable();
        reads.dedup();
        reads.retain(|&variable_index| Some(variable_index) != index);
        let asks_index = planner
            .mentions(tokens.clone())
            .any(|token_index| planner.is_spelled_at(token_index, "threadIdx"));
        Some(Halving {
            barrier: barrier.tokens.start,
            level,
            index,
            reads,
            asks_index,
            branch: tokens,
        })
    }

    /// The variable of `int s = E; s > 0; s >>= 1`, or with `/= 2`.
    fn level(&self, head: Range<usize>) -> Option<usize> {
        let planner = self.planner;
        let semicolons: Vec<usize> =
            head.clone().filter(|&token_index| planner.is_spelled_at(token_index, ";")).collect();
        let &[first, second] = &semicolons[..] else { return None };
        let equals =
            (head.start..first).find(|&token_index| planner.is_spelled_at(token_index, "="))?;
        let name = planner.word(equals - 1);
        let level =
            planner.variables().iter().position(|variable| variable.scope.start == equals - 1)?;
        let base = planner.words(head.start..equals - 1);
        let int = matches!(base[..], ["int"] | ["unsigned"] | ["unsigned", "int"]);
        let positive = planner.words(first + 1..second) == [name, ">", "0"];
        let halved = [[name, ">", ">", "=", "1"].as_slice(), &[name, "/", "=", "2"]]
            .contains(&&planner.words(second + 1..head.end)[..]);
        let single = !(equals..first).any(|token_index| planner.is_spelled_at(token_index, ","));
        let crosses_locally = planner.variables()[level].crosses
            && planner.variables()[level].home == VariableHome::Local;
        (int && positive && halved && single && crosses_locally).then_some(level)
    }

    /// The variable called `name`, if its value lies in the frame while its thread waits.
    fn variable(&self, name: &str) -> Option<usize> {
        let planner = self.planner;
        if planner.names.get(name).is_none_or(|places| places.len() != 1) {
            return None;
        }
        planner.variables().iter().position(|variable| {
            variable.name == name && variable.crosses && variable.home != VariableHome::Frame
        })
    }

    /// Whether `statement` is `m[...] = ...;` or the like, and changes nothing else.
    fn stores(&self, statement: &KernelStatement) -> bool {
        let planner = self.planner;
        let Range { start, end } = statement.tokens;
        let Some(subscript_end) =
            planner.tokens.skip_group(start + 1).filter(|_| planner.is_spelled_at(start + 1, "["))
        else {
            return false;
        };
        let assigns = ["+", "-", "*"].iter().any(|sign| planner.is_spelled_at(subscript_end, sign));
        let equals = subscript_end + usize::from(assigns);
        let value_range = equals + 1..end - 1;
        let mut operands = (start + 2..subscript_end - 1).chain(value_range);
        planner.tokens[start].kind == TokenKind::Ident
            && planner.is_spelled_at(equals, "=")
            && operands.all(|token_index| {
                let word = planner.word(token_index);
                let kind = planner.tokens[token_index].kind;
                let called =
                    kind == TokenKind::Ident && planner.is_spelled_at(token_index + 1, "(");
                let is_pure_call = matches!(word, "fmaxf" | "fminf" | "fabsf" | "max" | "min");
                let twice =
                    matches!(word, "+" | "-") && planner.is_spelled_at(token_index + 1, word);
                word != "="
                    && !twice
                    && (!called || is_pure_call && !planner.facts.is_defined(word))
            })
    }
}
