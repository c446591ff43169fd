//! Reductions by halves: loops in which ever fewer threads of a block have something to do.
//!
//! `for (int s = E; s > 0; s >>= 1) { if (tid < s) { m[tid] += m[tid + s]; } __syncthreads(); }`, where
//! the branch stores to elements and changes no variable. Once all threads wait at the barrier and agree
//! on `s`, the rest of the loop is the branch, level by level, for the threads that take it, in their
//! order. The other threads do nothing in it. A loop that is not certainly of this form is left.

use std::fmt::Write;
use std::ops::Range;

use super::plan::{Home, Planner, Variable};
use super::statements::{Form, Statement};
use crate::syntax::lexer::Kind;

/// A loop as it is to be written.
#[derive(Debug)]
pub(super) struct Halving {
    /// The first token of its barrier.
    pub barrier: usize,
    /// The variable that is halved.
    level: usize,
    /// The variable that is compared with it; none for `threadIdx.x`.
    index: Option<usize>,
    /// The variables that the branch reads, the two above left out.
    reads: Vec<usize>,
    /// Whether the branch asks for `threadIdx`.
    asks_index: bool,
    /// The tokens of the branch.
    branch: Range<usize>,
}

/// The loops of this form in a kernel whose variables are planned.
pub(super) fn find(planner: &Planner, statements: &[Statement]) -> Vec<Halving> {
    let mut found = Vec::new();
    let mut open: Vec<&Statement> = statements.iter().collect();
    while let Some(statement) = open.pop() {
        match &statement.form {
            Form::List(list) | Form::If { branches: list, .. } => open.extend(list),
            Form::Loop { head, is_for, body } => {
                let halving = is_for.then(|| Reader { planner }.halving(head.clone(), body));
                found.extend(halving.flatten());
                open.push(body);
            }
            Form::Do { body } | Form::Switch { body, .. } => open.push(body),
            Form::Label | Form::Barrier | Form::Return | Form::Simple => {}
        }
    }
    found
}

impl Halving {
    /// The code behind the place to which threads return at the barrier. `text` returns the tokens
    /// of a range as they are written.
    pub(super) fn code(
        &self,
        variables: &[Variable],
        text: impl Fn(Range<usize>) -> String,
    ) -> String {
        let (level, k) = (&variables[self.level].name, self.level);
        let index = match self.index {
            Some(index) => format!(", &replay_frame_t::v{index}"),
            None => String::new(),
        };
        let mut names = format!("const replay_t{k} {level} = replay_level; (void){level}; ");
        for &read in self.reads.iter().chain(&self.index) {
            let name = &variables[read].name;
            let _ =
                write!(names, "const replay_t{read} {name} = replay_shown.v{read}; (void){name}; ");
        }
        let asks = self.asks_index;
        let branch = text(self.branch.clone());
        format!(
            " if (replay_block.halves({level}, &replay_frame_t::v{k}{index})) {{ \
             for (replay_t{k} replay_level = {level} >> 1; replay_level > 0; replay_level >>= 1) \
             for (unsigned replay_t = 0; replay_block.takes(replay_t, replay_level); replay_t++) {{ \
             const replay_frame_t& replay_shown = replay_block.show(replay_t, {asks}); \
             (void)replay_shown; {names}{branch} }} \
             replay_block.halved({level}, &replay_frame_t::v{k}, {asks}); }}"
        )
    }
}

struct Reader<'p, 't> {
    planner: &'p Planner<'t>,
}

impl Reader<'_, '_> {
    fn halving(&self, head: Range<usize>, body: &Statement) -> Option<Halving> {
        let planner = self.planner;
        let Form::List(list) = &body.form else { return None };
        let [conditional, barrier] = &list[..] else { return None };
        let (Form::If { head: condition, constant: false, branches }, Form::Barrier) =
            (&conditional.form, &barrier.form)
        else {
            return None;
        };
        let [branch] = &branches[..] else { return None };
        let level = self.level(head)?;
        let name = &planner.variables()[level].name;
        let words: Vec<&str> = condition.clone().map(|at| planner.word(at)).collect();
        let index = match words[..] {
            ["threadIdx", ".", "x", "<", last] if last == name => None,
            [first, "<", last] if last == name => Some(self.variable(first)?),
            _ => return None,
        };
        let statements = match &branch.form {
            Form::List(list) => &list[..],
            _ => std::slice::from_ref(branch),
        };
        if statements.iter().any(|one| !matches!(one.form, Form::Simple) || !self.stores(one)) {
            return None;
        }
        let tokens = branch.tokens.clone();
        let mut reads = Vec::new();
        for at in planner.mentions(tokens.clone()) {
            let word = planner.word(at);
            if planner.facts.is_macro(word) {
                return None;
            }
            let own = planner.names.contains_key(word) && !planner.is_shared_by_threads(word);
            if own && word != name {
                reads.push(self.variable(word)?);
            }
        }
        reads.sort_unstable();
        reads.dedup();
        reads.retain(|&read| Some(read) != index);
        let asks_index = planner.mentions(tokens.clone()).any(|at| planner.is(at, "threadIdx"));
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
        let semicolons: Vec<usize> = head.clone().filter(|&at| planner.is(at, ";")).collect();
        let &[first, second] = &semicolons[..] else { return None };
        let equals = (head.start..first).find(|&at| planner.is(at, "="))?;
        let name = planner.word(equals - 1);
        let level = planner.variables().iter().position(|one| one.scope.start == equals - 1)?;
        let words =
            |range: Range<usize>| -> Vec<&str> { range.map(|at| planner.word(at)).collect() };
        let base = words(head.start..equals - 1);
        let int = matches!(base[..], ["int"] | ["unsigned"] | ["unsigned", "int"]);
        let positive = words(first + 1..second) == [name, ">", "0"];
        let halved = [[name, ">", ">", "=", "1"].as_slice(), &[name, "/", "=", "2"]]
            .contains(&&words(second + 1..head.end)[..]);
        let single = !(equals..first).any(|at| planner.is(at, ","));
        let kept =
            planner.variables()[level].crosses && planner.variables()[level].home == Home::Local;
        (int && positive && halved && single && kept).then_some(level)
    }

    /// The variable called `name`, if its value lies in the frame while its thread waits.
    fn variable(&self, name: &str) -> Option<usize> {
        let planner = self.planner;
        if planner.names.get(name).is_none_or(|places| places.len() != 1) {
            return None;
        }
        planner.variables().iter().position(|variable| {
            variable.name == name && variable.crosses && variable.home != Home::Frame
        })
    }

    /// Whether `statement` is `m[...] = ...;` or the like, which changes nothing else.
    fn stores(&self, statement: &Statement) -> bool {
        let planner = self.planner;
        let Range { start, end } = statement.tokens;
        let Some(after) =
            planner.tokens.skip_group(start + 1).filter(|_| planner.is(start + 1, "["))
        else {
            return false;
        };
        let assigns = ["+", "-", "*"].iter().any(|sign| planner.is(after, sign));
        let equals = after + usize::from(assigns);
        let rest = equals + 1..end - 1;
        let pure = |at: usize| {
            let (word, kind) = (planner.word(at), planner.tokens[at].kind);
            let called = kind == Kind::Ident && planner.is(at + 1, "(");
            let known = matches!(word, "fmaxf" | "fminf" | "fabsf" | "max" | "min");
            let twice = matches!(word, "+" | "-") && planner.is(at + 1, word);
            word != "=" && !twice && (!called || known && !planner.facts.is_defined(word))
        };
        planner.tokens[start].kind == Kind::Ident
            && planner.is(equals, "=")
            && (start + 2..after - 1).chain(rest).all(pure)
    }
}
