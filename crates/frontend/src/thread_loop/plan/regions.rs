//! Cuts a kernel at its waits into regions, each of which is a loop over threads.
//!
//! What lies between two waits of a warp is a piece. Where a condition or a loop stands around a wait, all threads of the
//! block, or of the warp, must agree. Where they may not, a place to resume stands in the other form: all threads go on
//! there. A kernel is refused if another thread could tell that a piece before such a condition runs for all threads
//! before a piece behind it runs for one.

use std::collections::BTreeSet;
use std::ops::Range;

use super::{Planner, Variable, VariableHome, YieldPoint};
use crate::syntax::lexer::TokenKind;
use crate::thread_loop::statements::{KernelStatement, StatementForm};
use crate::thread_loop::uses::{Use, is_value_function};
use crate::thread_loop::yield_points::ATOMICS;

/// A kernel as regions.
#[derive(Debug)]
pub(in crate::thread_loop) struct Regions {
    pub nodes: Vec<RegionNode>,
    /// The variables with an element a thread.
    pub shared: BTreeSet<usize>,
    /// Whether threads wait for lanes of their warp.
    pub has_warps: bool,
}

/// A part of a kernel. Numbers are those of the places where threads can go on in the other form.
#[derive(Debug)]
pub(in crate::thread_loop) enum RegionNode {
    /// Statements without a wait.
    Leaf(RegionPiece),
    /// `__syncthreads();`
    Barrier,
    /// A chain of shuffles, or one whose distance is each lane's own.
    Fold { tokens: Range<usize>, distance: Option<Range<usize>>, before: usize },
    /// What runs warp by warp.
    Warps { nodes: Vec<RegionNode>, before: usize, after: Option<usize> },
    /// The rest of the kernel runs in the other form.
    Rest { before: usize },
    /// `if`: its condition and its branches.
    If { head: Range<usize>, touches: bool, before: Option<usize>, branches: Vec<Vec<RegionNode>> },
    /// `for`, `while` and `do`.
    Loop(Box<RegionLoop>),
}

/// Statements without a wait.
#[derive(Debug)]
pub(in crate::thread_loop) struct RegionPiece {
    /// The tokens of statements behind each other, with those of the list that they stand in.
    pub parts: Vec<[Range<usize>; 2]>,
    /// Where the others go on if some threads return.
    pub after: Option<usize>,
    /// Whether it may use memory: a fault is that of the running thread.
    pub touches: bool,
    /// Whether a function in it may ask for the thread's index.
    pub asks_index: bool,
}

/// A loop around a wait.
#[derive(Debug)]
pub(in crate::thread_loop) struct RegionLoop {
    /// The tokens of the three parts of its head; a `while` has a condition alone.
    pub first: Range<usize>,
    pub condition: Range<usize>,
    pub step: Range<usize>,
    /// The variable that its head declares.
    pub variable: Option<usize>,
    /// Whether all threads have one value of its variable, and one condition.
    pub is_uniform: bool,
    /// Whether its condition may use memory.
    pub touches: bool,
    pub before: usize,
    pub at_end: usize,
    pub body: Vec<RegionNode>,
}

/// What runs as one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Block,
    Warp,
}

/// The memory that a piece reads and writes, as far as other threads see it: shared, global, or both.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Touch {
    reads: u8,
    writes: u8,
}

const SHARED: u8 = 1;
const GLOBAL: u8 = 2;
const ANY: u8 = SHARED | GLOBAL;

impl Touch {
    const NOTHING: Touch = Touch { reads: 0, writes: 0 };
    const ALL: Touch = Touch { reads: ANY, writes: ANY };

    fn reads(memory: u8) -> Touch {
        Touch { reads: memory, writes: 0 }
    }

    fn writes(memory: u8) -> Touch {
        Touch { reads: 0, writes: memory }
    }

    fn and(self, other: Touch) -> Touch {
        Touch { reads: self.reads | other.reads, writes: self.writes | other.writes }
    }

    /// Whether a piece with this may run for all threads behind pieces that did `since`, which it joins.
    fn shows_behind(self, since: &mut Touch) -> bool {
        let shows =
            self.writes & (since.reads | since.writes) != 0 || self.reads & since.writes != 0;
        *since = since.and(self);
        shows
    }
}

/// The tokens of what is run as one.
type Unit = Vec<Range<usize>>;

/// A statement of a list, with the tokens of the innermost list around it.
struct Listed<'s> {
    statement: &'s KernelStatement,
    scope: Range<usize>,
}

/// The statements of a list, those of inner lists with waits among them.
fn flatten<'s>(statements: &'s [KernelStatement], scope: &Range<usize>) -> Vec<Listed<'s>> {
    let mut list = Vec::new();
    for statement in statements {
        match &statement.form {
            StatementForm::List(inner) if statement.waits => {
                let scope = statement.tokens.start + 1..statement.tokens.end - 1;
                list.extend(flatten(inner, &scope));
            }
            _ => list.push(Listed { statement, scope: scope.clone() }),
        }
    }
    list
}

/// A kernel without regions.
pub(super) struct NoRegions;

type RegionResult<T> = Result<T, NoRegions>;

impl Planner<'_> {
    /// The regions of the kernel of `statements`, with places to resume among the waits of the plan.
    pub(super) fn plan_regions(&mut self, statements: &[KernelStatement]) -> RegionResult<Regions> {
        let body = self.item.body.clone();
        let scope = body.start + 1..body.end - 1;
        let list = flatten(statements, &scope);
        let nodes = self.region_list(Level::Block, &list, &mut Vec::new(), true)?;
        if !self.runs_a_wait(&nodes) || self.order_shows(&nodes, &mut Touch::default()) {
            return Err(NoRegions);
        }
        let mut units: Vec<Unit> = Vec::new();
        collect_units(&nodes, &mut units);
        let has_warps = nodes.iter().any(|node| self.has_warps(node));
        let shared = self.shared_variables(&units)?;
        Ok(Regions { nodes, shared, has_warps })
    }

    fn has_warps(&self, node: &RegionNode) -> bool {
        match node {
            RegionNode::Warps { .. } | RegionNode::Fold { .. } => true,
            RegionNode::Leaf(_) | RegionNode::Barrier | RegionNode::Rest { .. } => false,
            RegionNode::If { branches, .. } => branches.iter().flatten().any(|n| self.has_warps(n)),
            RegionNode::Loop(region) => region.body.iter().any(|node| self.has_warps(node)),
        }
    }

    /// Whether the kernel waits before its rest.
    fn runs_a_wait(&self, nodes: &[RegionNode]) -> bool {
        let barriers = self.plan.barriers.iter();
        let mut starts = barriers.filter(|wait| wait.check.is_none()).map(|wait| wait.tokens.start);
        let rest = nodes.iter().find_map(|node| match node {
            RegionNode::Rest { before } => Some(self.plan.barriers[before - 1].tokens.start),
            _ => None,
        });
        starts.any(|start| rest.is_none_or(|rest| start < rest))
    }

    fn holds(&self, statement: &KernelStatement, words: &[&str]) -> bool {
        statement.tokens.clone().any(|at| words.contains(&self.word(at)))
    }

    /// Notes a place where threads can go on, in front of token `at` or at its end. Returns its number.
    fn check(&mut self, at: usize, check: Check, loops: &[Range<usize>]) -> RegionResult<usize> {
        let kept = self.kept_from(at, loops).map_err(|_| NoRegions)?;
        let check = Some(check);
        self.plan.barriers.push(YieldPoint { tokens: at..at, kept, arguments: None, check });
        Ok(self.plan.barriers.len())
    }

    /// The parts of a list of statements. `is_end`: whether the kernel ends behind it.
    fn region_list(
        &mut self,
        level: Level,
        list: &[Listed],
        loops: &mut Vec<Range<usize>>,
        is_end: bool,
    ) -> RegionResult<Vec<RegionNode>> {
        let mut nodes = Vec::new();
        let mut index = 0;
        while index < list.len() {
            let is_inside = |planner: &Self, statement: &KernelStatement| match level {
                Level::Block => !planner.holds(statement, &["__syncthreads"]),
                Level::Warp => !statement.waits,
            };
            let rest = &list[index..];
            let count = rest.iter().take_while(|listed| is_inside(self, listed.statement)).count();
            if count == 0 {
                let is_end = is_end && index + 1 == list.len();
                self.region_statement(level, list[index].statement, loops, is_end, &mut nodes)?;
                index += 1;
                continue;
            }
            let group = &rest[..count];
            index += count;
            let is_last = is_end && index == list.len();
            if !group.iter().any(|listed| listed.statement.waits) {
                nodes.push(self.leaf(group, loops, is_last)?);
                continue;
            }
            let before = self.check(group[0].statement.tokens.start, Check::Before, loops)?;
            if group.iter().any(|listed| self.holds(listed.statement, &ATOMICS)) {
                for listed in group {
                    self.visit(listed, loops)?;
                }
                nodes.push(RegionNode::Rest { before });
                continue;
            }
            let inner = self.region_list(Level::Warp, group, loops, is_last)?;
            let end = group[count - 1].statement.tokens.end;
            let after = if is_last { None } else { Some(self.check(end, Check::After, loops)?) };
            nodes.push(RegionNode::Warps { nodes: inner, before, after });
        }
        Ok(nodes)
    }

    /// A statement of a list whose threads are not followed any further.
    fn visit(&mut self, listed: &Listed, loops: &mut Vec<Range<usize>>) -> RegionResult<()> {
        let count = self.plan.declarations.len();
        let visited = match listed.statement.form {
            StatementForm::Simple => self.simple(listed.statement, &listed.scope),
            _ => self.statement(listed.statement, loops),
        };
        visited.map_err(|_| NoRegions)?;
        let mut constants = Vec::new();
        for placed in &self.plan.declarations[count..] {
            for (declarator, &k) in placed.declaration.declarators.iter().zip(&placed.variables) {
                let Variable { name, home, .. } = &self.plan.variables[k];
                let value = declarator.initialiser.clone().skip(1);
                let is_constant = *home == VariableHome::Constant
                    && self.names.get(name.as_str()).is_some_and(|places| places.len() == 1)
                    && value.into_iter().all(|at| self.is_uniform_token(at));
                constants.extend(is_constant.then(|| name.clone()));
            }
        }
        self.uniform.extend(constants);
        Ok(())
    }

    fn leaf(
        &mut self,
        group: &[Listed],
        loops: &mut Vec<Range<usize>>,
        is_last: bool,
    ) -> RegionResult<RegionNode> {
        let mut parts: Vec<[Range<usize>; 2]> = Vec::new();
        for listed in group {
            self.visit(listed, loops)?;
            if self.leaves_loop(listed.statement) {
                return Err(NoRegions);
            }
            let tokens = listed.statement.tokens.clone();
            match parts.last_mut() {
                Some([last, scope]) if *scope == listed.scope => last.end = tokens.end,
                _ => parts.push([tokens, listed.scope.clone()]),
            }
        }
        let tokens = || parts.iter().flat_map(|[tokens, _]| tokens.clone());
        let returns = tokens().any(|at| self.is_spelled_at(at, "return"));
        let qualified = |at: usize| {
            ["threadIdx", "blockIdx", "blockDim", "gridDim"].contains(&self.word(at))
                && self.is_spelled_at(at - 1, "::")
        };
        // One object, which a copy of the statement would double.
        let is_static = |at: usize| {
            self.is_spelled_at(at, "static")
                && !self.plan.hoisted.iter().any(|hoisted| hoisted.contains(&at))
        };
        // An atomic in an expression may let other threads run.
        let yields = |at: usize| ATOMICS.contains(&self.word(at));
        if tokens().any(|at| qualified(at) || is_static(at) || yields(at)) {
            return Err(NoRegions);
        }
        let asks_index = tokens().any(|at| {
            let word = self.word(at);
            word != "threadIdx" && self.facts.asks_index(word)
        });
        let after = if returns && !is_last {
            Some(self.check(parts[parts.len() - 1][0].end, Check::After, loops)?)
        } else {
            None
        };
        let touches = asks_index || self.touch_of(&parts) != Touch::NOTHING;
        Ok(RegionNode::Leaf(RegionPiece { parts, after, touches, asks_index }))
    }

    fn touch_of(&self, parts: &[[Range<usize>; 2]]) -> Touch {
        let touches = parts.iter().map(|[tokens, _]| self.touch(tokens.clone()));
        touches.fold(Touch::NOTHING, Touch::and)
    }

    /// Whether `break` or `continue` in it belong to a loop around it.
    fn leaves_loop(&self, statement: &KernelStatement) -> bool {
        match &statement.form {
            StatementForm::List(list) | StatementForm::If { branches: list, .. } => {
                list.iter().any(|inner| self.leaves_loop(inner))
            }
            StatementForm::Switch { .. } => self.holds(statement, &["continue"]),
            StatementForm::Simple => {
                matches!(self.word(statement.tokens.start), "break" | "continue")
            }
            StatementForm::Loop { .. }
            | StatementForm::Do { .. }
            | StatementForm::Label
            | StatementForm::Barrier
            | StatementForm::Return => false,
        }
    }

    /// A statement with a wait of `level` in it.
    fn region_statement(
        &mut self,
        level: Level,
        statement: &KernelStatement,
        loops: &mut Vec<Range<usize>>,
        is_end: bool,
        nodes: &mut Vec<RegionNode>,
    ) -> RegionResult<()> {
        let tokens = statement.tokens.clone();
        match &statement.form {
            StatementForm::Barrier if self.is_spelled_at(tokens.start, "__syncthreads") => {
                self.barrier(tokens, loops).map_err(|_| NoRegions)?;
                nodes.push(RegionNode::Barrier);
            }
            StatementForm::Barrier => {
                let start = tokens.start;
                let before = self.check(start, Check::Before, loops)?;
                self.barrier(tokens, loops).map_err(|_| NoRegions)?;
                let folds = self.folds();
                let fold = folds.iter().find(|fold| fold.tokens.start == start).ok_or(NoRegions)?;
                let is_uniform = fold.variables.iter().all(|name| self.is_uniform_name(name));
                let lanes_agree = fold.lanes().into_iter().all(|range| self.is_uniform(range));
                let distance = fold.only_distance().filter(|_| !is_uniform);
                if !lanes_agree || !is_uniform && distance.is_none() {
                    return Err(NoRegions);
                }
                nodes.push(RegionNode::Fold { tokens: fold.tokens.clone(), distance, before });
            }
            StatementForm::If { head, constant, branches } => {
                if *constant || self.declares_in(head.clone()) || !self.is_pure(head.clone()) {
                    return Err(NoRegions);
                }
                let before = if self.is_uniform(head.clone()) {
                    None
                } else {
                    Some(self.check(tokens.start, Check::Before, loops)?)
                };
                let mut parts = Vec::new();
                for branch in branches {
                    let mut part = Vec::new();
                    self.region_branch(level, branch, loops, is_end, &mut part)?;
                    parts.push(part);
                }
                let touches = self.touch(head.clone()) != Touch::NOTHING;
                let head = head.clone();
                nodes.push(RegionNode::If { head, touches, before, branches: parts });
            }
            StatementForm::Loop { head, is_for, body } => {
                let node =
                    self.region_loop(level, statement, head.clone(), *is_for, body, loops)?;
                nodes.push(node);
            }
            StatementForm::List(_)
            | StatementForm::Do { .. }
            | StatementForm::Switch { .. }
            | StatementForm::Label
            | StatementForm::Return
            | StatementForm::Simple => return Err(NoRegions),
        }
        Ok(())
    }

    /// A branch or the body of a loop.
    fn region_branch(
        &mut self,
        level: Level,
        statement: &KernelStatement,
        loops: &mut Vec<Range<usize>>,
        is_end: bool,
        nodes: &mut Vec<RegionNode>,
    ) -> RegionResult<()> {
        if let StatementForm::List(list) = &statement.form {
            let visible = self.visible.len();
            let inner = statement.tokens.start + 1..statement.tokens.end - 1;
            let list = flatten(list, &inner);
            nodes.extend(self.region_list(level, &list, loops, is_end)?);
            self.visible.truncate(visible);
            return Ok(());
        }
        // A place to resume needs a list around it.
        if statement.waits {
            return Err(NoRegions);
        }
        let listed = Listed { statement, scope: statement.tokens.clone() };
        nodes.push(self.leaf(&[listed], loops, is_end)?);
        Ok(())
    }

    fn region_loop(
        &mut self,
        level: Level,
        statement: &KernelStatement,
        head: Range<usize>,
        is_for: bool,
        body: &KernelStatement,
        loops: &mut Vec<Range<usize>>,
    ) -> RegionResult<RegionNode> {
        let tokens = statement.tokens.clone();
        if !matches!(body.form, StatementForm::List(_)) {
            return Err(NoRegions);
        }
        let visible = self.visible.len();
        let before = self.check(tokens.start, Check::Before, loops)?;
        let declared = self.plan.variables.len();
        self.loop_head(tokens.clone(), head.clone(), is_for).map_err(|_| NoRegions)?;
        let none = head.end..head.end;
        let mut parts = [none.clone(), head.clone(), none];
        if is_for {
            let ends: Vec<usize> = head.clone().filter(|&at| self.is_spelled_at(at, ";")).collect();
            let &[one, two] = &ends[..] else { return Err(NoRegions) };
            parts = [head.start..one, one + 1..two, two + 1..head.end];
        }
        let [first, condition, step] = parts;
        let variable = match self.plan.variables.len() - declared {
            0 if first.is_empty() => None,
            1 => Some(declared),
            _ => return Err(NoRegions),
        };
        if !self.is_pure(condition.clone()) || condition.is_empty() {
            return Err(NoRegions);
        }
        let is_uniform = self.is_uniform_loop(variable, &first, &condition, &step, &body.tokens);
        let name = variable.map(|k| self.plan.variables[k].name.clone());
        if let Some(name) = &name {
            // Another loop's variable of this name may be one for all threads.
            if is_uniform {
                self.uniform.insert(name.clone());
            } else {
                self.uniform.remove(name);
            }
        }
        loops.push(tokens.clone());
        let mut nodes = Vec::new();
        self.region_branch(level, body, loops, false, &mut nodes)?;
        let at_end = self.check(body.tokens.end - 1, Check::Before, loops)?;
        loops.pop();
        if let Some(name) = name.filter(|_| is_uniform) {
            self.uniform.remove(&name);
        }
        self.visible.truncate(visible);
        let touches = self.touch(condition.clone()) != Touch::NOTHING;
        let region = RegionLoop {
            first,
            condition,
            step,
            variable,
            is_uniform,
            touches,
            before,
            at_end,
            body: nodes,
        };
        Ok(RegionNode::Loop(Box::new(region)))
    }

    /// Whether all threads have the same values in the loop's head: its variable changes there alone.
    fn is_uniform_loop(
        &self,
        variable: Option<usize>,
        first: &Range<usize>,
        condition: &Range<usize>,
        step: &Range<usize>,
        body: &Range<usize>,
    ) -> bool {
        let Some(k) = variable else {
            return step.is_empty() && self.is_uniform(condition.clone());
        };
        let variable = &self.plan.variables[k];
        let name = variable.name.as_str();
        let value = first.clone().find(|&at| self.is_spelled_at(at, "=")).map(|at| at + 1);
        let assigned = step.clone().filter(|&at| self.tokens[at].kind == TokenKind::Ident);
        let names: Vec<usize> = assigned.collect();
        let is_one = names.first().is_some_and(|&at| self.word(at) == name);
        let other = names.iter().all(|&at| self.word(at) == name || self.is_uniform_token(at));
        let signs = step.clone().any(|at| matches!(self.word(at), "[" | "(" | "," | "->"));
        variable.home == VariableHome::Local
            && self.worst(name, body.clone()) == Use::Read
            && value.is_some_and(|value| self.is_uniform(value..first.end))
            && is_one
            && other
            && !signs
            && condition.clone().all(|at| self.word(at) == name || self.is_uniform_token(at))
    }

    fn is_uniform(&self, range: Range<usize>) -> bool {
        range.clone().all(|at| self.is_uniform_token(at))
    }

    /// Whether the token at `at` of an expression has one value for all threads of a block.
    fn is_uniform_token(&self, at: usize) -> bool {
        let word = self.word(at);
        match self.tokens[at].kind {
            TokenKind::Number => true,
            TokenKind::Punct => {
                let operand =
                    matches!(self.tokens[at - 1].kind, TokenKind::Ident | TokenKind::Number)
                        || self.is_spelled_at(at - 1, ")");
                !matches!(word, "[" | "{" | "->") && (operand || !matches!(word, "*" | "&"))
            }
            TokenKind::Ident if self.is_spelled_at(at - 1, ".") => true,
            TokenKind::Ident => {
                let is_call = self.is_spelled_at(at + 1, "(");
                let is_value = is_value_function(self.facts, word);
                if is_call { is_value } else { self.is_uniform_name(word) }
            }
            TokenKind::Text | TokenKind::Directive => false,
        }
    }

    fn is_uniform_name(&self, word: &str) -> bool {
        if self.uniform.contains(word) {
            return true;
        }
        if self.facts.is_macro(word) {
            let words = self.facts.expansion(word);
            return words
                .iter()
                .all(|word| word.starts_with(|c: char| !c.is_alphabetic() && c != '_'));
        }
        if self.names.contains_key(word) {
            return !self.moved.contains(word) && self.is_shared_by_threads(word);
        }
        word != "threadIdx" && !self.facts.is_device_variable(word) && !self.facts.asks_index(word)
    }

    /// Whether an expression changes nothing, so that it may be evaluated again.
    fn is_pure(&self, range: Range<usize>) -> bool {
        range.clone().all(|at| {
            let word = self.word(at);
            let next = if at + 1 < range.end { self.word(at + 1) } else { "" };
            let before = self.word(at - 1);
            let assigns = word == "=" && next != "=" && !matches!(before, "=" | "!" | "<" | ">");
            let steps = matches!(word, "+" | "-") && next == word;
            let calls = self.tokens[at].kind == TokenKind::Ident
                && next == "("
                && !is_value_function(self.facts, word);
            !assigns && !steps && !calls && word != "{"
        })
    }

    /// What the tokens of `range` do to memory.
    fn touch(&self, range: Range<usize>) -> Touch {
        let mut all = Touch::NOTHING;
        for at in range.clone() {
            if self.plan.hoisted.iter().any(|hoisted| hoisted.contains(&at)) {
                continue;
            }
            let word = self.word(at);
            let next = self.word(at + 1);
            let touch = match self.tokens[at].kind {
                TokenKind::Ident if matches!(self.word(at - 1), "." | "->") => Touch::NOTHING,
                TokenKind::Ident if next == "(" && is_value_function(self.facts, word) => {
                    Touch::NOTHING
                }
                TokenKind::Ident if next == "(" && self.plan.template_types.contains(word) => {
                    Touch::NOTHING
                }
                TokenKind::Ident if next == "(" => Touch::ALL,
                TokenKind::Ident => self.touch_of_name(word, at),
                TokenKind::Punct if word == "=" && next != "=" => self.touch_of_assignment(at),
                TokenKind::Punct if matches!(word, "+" | "-") && next == word => {
                    self.touch_of_assignment(at)
                }
                _ => Touch::NOTHING,
            };
            all = all.and(touch);
        }
        all
    }

    /// Of a mention: memory behind pointers, shared memory, device variables.
    fn touch_of_name(&self, word: &str, at: usize) -> Touch {
        let is_memory =
            ["[", "->"].iter().any(|sign| self.is_spelled_at(at + 1, sign)) || self.is_target(at);
        let is_shared = self.moved.contains(word);
        if is_shared && self.is_address(at) {
            Touch::NOTHING
        } else if is_shared || is_memory && !self.is_own_array(word) {
            Touch::reads(self.memory_behind(word))
        } else if self.facts.is_device_variable(word)
            || self.facts.is_macro(word) && !self.is_uniform_name(word)
        {
            Touch::reads(ANY)
        } else {
            Touch::NOTHING
        }
    }

    /// Whether `*` in front of the name at `at` means what it points to.
    fn is_target(&self, at: usize) -> bool {
        let operand = matches!(self.tokens[at - 2].kind, TokenKind::Ident | TokenKind::Number)
            || matches!(self.word(at - 2), ")" | "]");
        self.is_spelled_at(at - 1, "*") && (!operand || self.is_spelled_at(at - 2, ")"))
    }

    /// Whether all variables of this name are no pointers.
    fn is_own_array(&self, word: &str) -> bool {
        let mut variables = self.plan.variables.iter().filter(|variable| variable.name == word);
        let is_parameter = || self.is_uniform_name(word);
        variables.clone().next().is_some() && variables.all(|variable| variable.pointer.is_empty())
            || !self.names.contains_key(word) && !is_parameter()
    }

    /// The memory that a pointer by this name leads to: a parameter to global memory.
    fn memory_behind(&self, word: &str) -> u8 {
        let places = self.names.get(word).map_or(&[][..], Vec::as_slice);
        let is_parameter = |&at: &usize| at < self.item.body.start;
        match places {
            _ if self.moved.contains(word) => SHARED,
            [] => ANY,
            _ if places.iter().all(is_parameter) => GLOBAL,
            [at] if self.is_spelled_at(at + 1, "=") && self.moved.contains(self.word(at + 2)) => {
                let is_fixed = self.worst(word, *at + 1..self.item.body.end) == Use::Read;
                if self.is_address(at + 2) && is_fixed { SHARED } else { ANY }
            }
            _ => ANY,
        }
    }

    /// Whether the name at `at` is the value of a pointer that is declared: `T* p = name;`.
    fn is_address(&self, at: usize) -> bool {
        self.is_spelled_at(at - 1, "=")
            && self.is_spelled_at(at + 1, ";")
            && self.is_spelled_at(at - 3, "*")
            && self.declares_pointer(at - 2)
    }

    /// Of an assignment: nothing if its target is a variable of the thread.
    fn touch_of_assignment(&self, sign: usize) -> Touch {
        if matches!(self.word(sign - 1), "=" | "!" | "<" | ">") && self.word(sign) == "=" {
            return Touch::NOTHING;
        }
        let mut at = sign;
        while matches!(self.word(at - 1), "+" | "-" | "*" | "/" | "%" | "&" | "|" | "^" | "<" | ">")
        {
            at -= 1;
        }
        let mut target = at - 1;
        let mut is_behind = false;
        loop {
            let open = match self.word(target) {
                "]" => {
                    (0..target).rev().find(|&open| self.tokens.skip_group(open) == Some(target + 1))
                }
                _ => None,
            };
            if let Some(open) = open {
                is_behind = true;
                target = open - 1;
            } else if target > 2 && self.is_spelled_at(target - 1, ".") {
                target -= 2;
            } else {
                break;
            }
        }
        let name = self.word(target);
        if self.tokens[target].kind != TokenKind::Ident || self.is_spelled_at(target - 1, "->") {
            return Touch::writes(ANY);
        }
        if self.moved.contains(name) {
            return Touch::writes(SHARED);
        }
        is_behind |= self.is_target(target) && !self.declares_pointer(target);
        if self.names.contains_key(name) && (!is_behind || self.is_own_array(name)) {
            return Touch::NOTHING;
        }
        Touch::writes(self.memory_behind(name))
    }

    /// Whether `*` in front of the name at `at` belongs to its declaration.
    fn declares_pointer(&self, at: usize) -> bool {
        self.names.get(self.word(at)).is_some_and(|places| places.contains(&at))
    }

    /// Whether another thread could tell that pieces between two waits run one after the other for all threads. `since` is
    /// what has been touched since the last wait.
    fn order_shows(&self, nodes: &[RegionNode], since: &mut Touch) -> bool {
        nodes.iter().any(|node| self.order_shows_in(node, since))
    }

    fn comes(&self, range: Range<usize>, since: &mut Touch) -> bool {
        self.touch(range).shows_behind(since)
    }

    fn order_shows_in(&self, node: &RegionNode, since: &mut Touch) -> bool {
        match node {
            RegionNode::Leaf(piece) => self.touch_of(&piece.parts).shows_behind(since),
            RegionNode::Fold { .. } | RegionNode::Barrier => {
                *since = Touch::NOTHING;
                false
            }
            RegionNode::Rest { .. } => false,
            RegionNode::Warps { nodes, .. } => {
                let mut units = Vec::new();
                collect_units(nodes, &mut units);
                let units = units.into_iter().flatten().map(|range| self.touch(range));
                let all = units.fold(Touch::NOTHING, Touch::and);
                let mut inner = Touch::NOTHING;
                // The warp's own pieces, then the warps one after the other as one piece.
                self.order_shows(nodes, &mut inner) || all.shows_behind(since)
            }
            RegionNode::If { head, before, branches, .. } => {
                if before.is_some() && self.comes(head.clone(), since) {
                    return true;
                }
                let start = *since;
                let mut behind = if branches.len() == 1 { start } else { Touch::NOTHING };
                for branch in branches {
                    let mut own = start;
                    if self.order_shows(branch, &mut own) {
                        return true;
                    }
                    behind = behind.and(own);
                }
                *since = behind;
                false
            }
            RegionNode::Loop(region) => {
                if !region.first.is_empty() && self.comes(region.first.clone(), since) {
                    return true;
                }
                for _ in 0..2 {
                    let head = region.step.start.min(region.condition.start)
                        ..region.step.end.max(region.condition.end);
                    let start = *since;
                    if !region.is_uniform && self.comes(head, since)
                        || self.order_shows(&region.body, since)
                    {
                        return true;
                    }
                    let runs = region.is_uniform && self.runs_once(region);
                    *since = if runs { *since } else { since.and(start) };
                }
                false
            }
        }
    }

    /// Whether a loop runs once at least: its variable begins as a number, and is compared with a number.
    fn runs_once(&self, region: &RegionLoop) -> bool {
        let number = |at: usize| self.word(at).parse::<u64>().ok();
        let begins = region.first.len().checked_sub(2).and_then(|_| number(region.first.end - 1));
        let sign = region.condition.start + 1;
        let is_equal = self.is_spelled_at(sign + 1, "=");
        let bound = number(region.condition.end - 1);
        let length = 3 + usize::from(is_equal);
        match (begins, self.word(sign), bound) {
            _ if region.condition.len() != length
                || !self.is_spelled_at(region.first.end - 2, "=") =>
            {
                false
            }
            (Some(begins), "<", Some(bound)) => begins < bound || is_equal && begins == bound,
            (Some(begins), ">", Some(bound)) => begins > bound || is_equal && begins == bound,
            _ => false,
        }
    }

    /// The variables that several of `units` mention.
    fn shared_variables(&self, units: &[Unit]) -> RegionResult<BTreeSet<usize>> {
        let mut shared = BTreeSet::new();
        for (k, variable) in self.plan.variables.iter().enumerate() {
            let name = variable.name.as_str();
            let is_mentioned = |range: &Range<usize>| {
                let start = range.start.max(variable.scope.start);
                let end = range.end.min(variable.scope.end);
                start < end && self.is_mentioned(name, start..end)
            };
            let mentioned = units.iter().filter(|unit| unit.iter().any(is_mentioned));
            if !variable.crosses && !variable.parameter && mentioned.count() < 2 {
                continue;
            }
            let scope = variable.scope.clone();
            if variable.home == VariableHome::Frame && self.worst(name, scope) == Use::Escape {
                return Err(NoRegions);
            }
            let same = self.plan.variables.iter().filter(|other| {
                other.name == name
                    && other.scope.start < variable.scope.end
                    && variable.scope.start < other.scope.end
            });
            if same.count() != 1 {
                return Err(NoRegions);
            }
            shared.insert(k);
        }
        Ok(shared)
    }
}

/// Collects the tokens of all parts of `nodes` that are run as one.
fn collect_units(nodes: &[RegionNode], units: &mut Vec<Unit>) {
    for node in nodes {
        match node {
            RegionNode::Leaf(piece) => {
                units.push(piece.parts.iter().map(|[tokens, _]| tokens.clone()).collect());
            }
            RegionNode::Fold { tokens, .. } => units.push(vec![tokens.clone()]),
            RegionNode::Barrier | RegionNode::Rest { .. } => {}
            RegionNode::Warps { nodes, .. } => collect_units(nodes, units),
            RegionNode::If { head, branches, .. } => {
                units.push(vec![head.clone()]);
                branches.iter().for_each(|branch| collect_units(branch, units));
            }
            RegionNode::Loop(region) => {
                let head = [&region.first, &region.condition, &region.step];
                units.extend(head.map(|range| vec![range.clone()]));
                collect_units(&region.body, units);
            }
        }
    }
}

/// Where threads can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::thread_loop) enum Check {
    /// In front of the token.
    Before,
    /// Behind the one before it.
    After,
}
