//! Decides whether a kernel can be put into block form, and where each of its variables lives.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::declarations::{Declaration, Declarator, Declared, declared, is_trivial};
use super::facts::Facts;
use super::halving::{self, Halving};
use super::statements::{Form, Statement, body};
use super::strided::{self, Strided};
use super::uses::{Use, judge};
use super::{Refusal, head};
use crate::frontend::lexer::{Kind, Tokens};
use crate::frontend::outline::Item;

/// A kernel as it is to be written.
#[derive(Debug)]
pub struct Plan {
    /// The tokens of the body, braces included.
    pub body: Range<usize>,
    pub variables: Vec<Variable>,
    /// Statements that move in front of the loop over the threads.
    pub hoisted: Vec<Range<usize>>,
    /// Declarations, as the variables that each makes.
    pub declarations: Vec<Placed>,
    pub barriers: Vec<Barrier>,
    /// The `return` of every `return;`.
    pub returns: Vec<usize>,
    /// Whether a thread may ask for its index after a barrier.
    pub indexed: bool,
    /// Loops in which ever fewer threads have something to do.
    pub halvings: Vec<Halving>,
    /// Loops that may run for several threads at once.
    pub strided: Vec<Strided>,
}

/// A declaration that a thread's return to a barrier jumps over.
#[derive(Debug)]
pub struct Placed {
    pub declaration: Declaration,
    /// The variable of each declarator.
    pub variables: Vec<usize>,
    /// The loop in whose head it stands.
    pub head_of: Option<Range<usize>>,
}

/// A variable that is more than a plain local one.
#[derive(Debug)]
pub struct Variable {
    pub name: String,
    /// The tokens of its type before and behind the name.
    pub base: Range<usize>,
    pub pointer: Range<usize>,
    pub dimensions: Range<usize>,
    pub home: Home,
    /// Whether it is a scalar or a vector without a constructor.
    pub trivial: bool,
    pub parameter: bool,
    /// Whether its value is needed after a barrier.
    pub crosses: bool,
    /// Where it can be named, from its name on.
    pub scope: Range<usize>,
}

/// Where a variable lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// In a local variable; its value goes to the frame once, when it is initialised.
    Constant,
    /// In a local variable whose value goes to the frame at every barrier.
    Local,
    /// In the frame.
    Frame,
}

/// A `__syncthreads();`
#[derive(Debug)]
pub struct Barrier {
    pub tokens: Range<usize>,
    /// The variables that are needed afterwards and live in local variables.
    pub kept: Vec<usize>,
}

/// Plans the kernel `item`; with `lanes` some loops run for several threads at once.
pub fn plan(
    text: &str,
    tokens: &Tokens,
    facts: &Facts,
    item: &Item,
    lanes: bool,
) -> Result<Plan, Refusal> {
    let statements = body(text, tokens, item.body.start)?;
    let plan = Plan {
        body: item.body.clone(),
        variables: Vec::new(),
        hoisted: Vec::new(),
        declarations: Vec::new(),
        barriers: Vec::new(),
        returns: Vec::new(),
        indexed: false,
        halvings: Vec::new(),
        strided: Vec::new(),
    };
    let names = BTreeMap::new();
    let moved = BTreeSet::new();
    let mut planner =
        Planner { text, tokens, facts, item, plan, names, moved, visible: Vec::new() };
    planner.check_words()?;
    planner.collect_names(&statements)?;
    planner.check_macros()?;
    planner.parameters()?;
    let inner = item.body.start + 1..item.body.end - 1;
    planner.list(&statements, inner, &mut Vec::new())?;
    planner.check_names()?;
    planner.check_barriers()?;
    let waits =
        statements.iter().find(|one| one.waits).map_or(item.body.end, |one| one.tokens.start);
    let indexed =
        planner.mentions(waits..item.body.end).any(|at| facts.asks_index(planner.word(at)));
    let halvings = halving::find(&planner, &statements);
    let strided = if lanes { strided::find(&planner, &statements) } else { Vec::new() };
    Ok(Plan { indexed, halvings, strided, ..planner.plan })
}

/// A kernel on its way to a plan.
pub(super) struct Planner<'t> {
    pub(super) text: &'t str,
    pub(super) tokens: &'t Tokens,
    pub(super) facts: &'t Facts,
    pub(super) item: &'t Item,
    plan: Plan,
    /// Where the kernel declares each name.
    pub(super) names: BTreeMap<&'t str, Vec<usize>>,
    /// The names of what moves in front of the loop over the threads.
    moved: BTreeSet<&'t str>,
    /// The variables that can be named, by index, while the statements are walked.
    visible: Vec<usize>,
}

impl<'t> Planner<'t> {
    pub(super) fn is(&self, at: usize, spelling: &str) -> bool {
        self.tokens.is(self.text, at, spelling)
    }

    pub(super) fn word(&self, at: usize) -> &'t str {
        self.tokens[at].text(self.text)
    }

    pub(super) fn variables(&self) -> &[Variable] {
        &self.plan.variables
    }

    /// Whether `name`, which the kernel declares, is one variable for all threads.
    pub(super) fn is_shared_by_threads(&self, name: &str) -> bool {
        let parameter = self.names[name].iter().all(|&at| at < self.item.body.start);
        let own = self.plan.variables.iter().any(|variable| variable.name == name);
        self.moved.contains(name) || parameter && !own
    }

    /// The identifiers among `range` that do not name a member.
    pub(super) fn mentions(&self, range: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        range.filter(|&at| {
            let member = at > 0 && [".", "->", "::"].iter().any(|sign| self.is(at - 1, sign));
            self.tokens[at].kind == Kind::Ident && !member
        })
    }

    pub(super) fn mentions_of<'a>(
        &'a self,
        name: &'a str,
        range: Range<usize>,
    ) -> impl Iterator<Item = usize> + 'a {
        self.mentions(range).filter(move |&at| self.word(at) == name)
    }

    /// Finds the parameters that threads may change: each thread has its own.
    fn parameters(&mut self) -> Result<(), Refusal> {
        let unknown = || Refusal::new("parameters that are not understood");
        for range in self.parameter_ranges() {
            if range.len() == 1 && self.is(range.start, "void") {
                continue;
            }
            let directive = |at: usize| self.tokens[at].kind == Kind::Directive;
            let end = range.clone().find(|&at| self.is(at, "=")).unwrap_or(range.end);
            let Declared::Variables(made) = declared(self.text, self.tokens, range.start..end)
            else {
                return Err(unknown());
            };
            if range.clone().any(directive) {
                return Err(unknown());
            }
            let [declarator] = &made.declarators[..] else { return Err(unknown()) };
            if !declarator.dimensions.is_empty() || !declarator.initialiser.is_empty() {
                return Err(unknown());
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

    pub(super) fn worst(&self, name: &str, range: Range<usize>) -> Use {
        let uses = self.mentions_of(name, range);
        uses.map(|at| judge(self.text, self.tokens, self.facts, at)).max().unwrap_or(Use::Read)
    }

    fn is_const(&self, declaration: &Declaration, declarator: &Declarator) -> bool {
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

    /// Walks the statements of a list whose scope is `scope`; `loops` are those around it.
    fn list(
        &mut self,
        statements: &[Statement],
        scope: Range<usize>,
        loops: &mut Vec<Range<usize>>,
    ) -> Result<(), Refusal> {
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
    ) -> Result<(), Refusal> {
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
                    return Err(Refusal::new("a condition that declares or is constant"));
                }
                for branch in branches {
                    self.statement(branch, loops)?;
                }
            }
            Form::Switch { body, .. } => {
                if statement.waits {
                    return Err(Refusal::new("a switch around a barrier"));
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
    ) -> Result<(), Refusal> {
        if !is_for {
            return match self.declares_in(head) {
                true => Err(Refusal::new("a condition that declares or is constant")),
                false => Ok(()),
            };
        }
        let semicolons: Vec<usize> = head.clone().filter(|&at| self.is(at, ";")).collect();
        let &[first, second] = &semicolons[..] else {
            return Err(Refusal::new("a loop over a range"));
        };
        if !matches!(declared(self.text, self.tokens, first + 1..second), Declared::Nothing) {
            return Err(Refusal::new("a condition that declares or is constant"));
        }
        match declared(self.text, self.tokens, head.start..first) {
            Declared::Nothing => Ok(()),
            Declared::Other(_) => Err(Refusal::new("a declaration that is not understood")),
            Declared::Variables(made) => {
                let simple = made
                    .declarators
                    .iter()
                    .all(|one| one.dimensions.is_empty() && self.is(one.initialiser.start, "="));
                let placed = self.place(made, &statement, Some(statement.clone()))?;
                let trivial = placed.variables.iter().all(|&k| self.plan.variables[k].trivial);
                self.plan.declarations.push(placed);
                match simple && trivial {
                    true => Ok(()),
                    false => Err(Refusal::new("a declaration that is not understood")),
                }
            }
        }
    }

    /// A simple statement that a jump to a barrier passes by.
    fn simple(&mut self, statement: &Statement, scope: &Range<usize>) -> Result<(), Refusal> {
        let tokens = statement.tokens.clone();
        let range = tokens.start..tokens.end - 1;
        let first = if range.is_empty() { "" } else { self.word(range.start) };
        if self.facts.is_macro(first) {
            let expansion = self.facts.expansion(first);
            let statement = expansion.contains("do") || expansion.contains("if");
            if !statement {
                return Err(Refusal::new(format!("the macro {first}, which may declare")));
            }
        }
        match declared(self.text, self.tokens, range.clone()) {
            Declared::Nothing => Ok(()),
            Declared::Other(names) => match self.moves(range) {
                true => self.hoist(tokens, names),
                false => {
                    Err(Refusal::new(format!("a declaration that is not understood, {first}")))
                }
            },
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

    /// Moves the declaration of `names` in front of the loop over the threads.
    fn hoist(&mut self, tokens: Range<usize>, names: Vec<usize>) -> Result<(), Refusal> {
        for &at in &names {
            let name = self.word(at);
            let places = self.names.get(name).map_or(0, Vec::len);
            if places != 1 || self.mentioned_before(name, tokens.start) {
                return Err(ambiguous(name));
            }
            self.moved.insert(name);
        }
        for at in self.mentions(tokens.clone()) {
            let word = self.word(at);
            if self.names.contains_key(word) && !self.moved.contains(word) {
                return Err(Refusal::new(format!("a declaration that depends on {word}")));
            }
        }
        self.plan.hoisted.push(tokens);
        Ok(())
    }

    /// Whether a declaration means the same in front of the loop over the threads: shared memory,
    /// types and constants.
    fn moves(&self, range: Range<usize>) -> bool {
        let has = |word: &str| range.clone().any(|at| self.is(at, word));
        let first = self.word(range.start);
        let types = matches!(first, "typedef" | "using" | "constexpr");
        let shared = has("shared_slot") || has("dynamic_shared");
        let reference = first.starts_with("replay_shared_") && self.is(range.start + 1, "&");
        let constant = first == "static" && self.is(range.start + 1, "constexpr");
        types && !has("auto") || shared && has("replay_rt") || reference || constant
    }

    /// Makes the variables of a declaration whose names hold in `scope`.
    fn place(
        &mut self,
        declaration: Declaration,
        scope: &Range<usize>,
        head_of: Option<Range<usize>>,
    ) -> Result<Placed, Refusal> {
        let mut variables = Vec::new();
        for declarator in &declaration.declarators {
            let scope = declarator.name..scope.end;
            let mut variable = self.variable(&declaration, declarator, scope.clone());
            self.check_type(&variable)?;
            if declarator.dimensions.len() == 2 {
                return Err(Refusal::new("an array without a size"));
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

    fn check_type(&self, variable: &Variable) -> Result<(), Refusal> {
        let words = variable.base.clone().chain(variable.dimensions.clone());
        let ends = |at: usize| self.facts.is_destroyed(self.word(at));
        if variable.base.clone().any(ends)
            || variable.base.clone().any(|at| self.is(at, "std")) && !variable.trivial
        {
            return Err(Refusal::new("a type with a destructor, perhaps"));
        }
        // Types are written in front of the loop, where no variable is known.
        let words = words.filter(|&at| self.tokens[at].kind == Kind::Ident);
        for at in words {
            let word = self.word(at);
            let local = self.names.contains_key(word) && !self.moved.contains(word);
            if local || self.facts.is_macro(word) && variable.base.contains(&at) {
                return Err(Refusal::new(format!("a type that depends on {word}")));
            }
        }
        Ok(())
    }

    /// Whether `declaration` is `const int n = 4 * kWidth;`: the language may want it as a constant,
    /// and no thread can tell when it was computed.
    fn is_constant(&self, declaration: &Declaration) -> bool {
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

    fn barrier(&mut self, tokens: Range<usize>, loops: &[Range<usize>]) -> Result<(), Refusal> {
        let mut kept = Vec::new();
        for &index in &self.visible {
            let variable = &self.plan.variables[index];
            let repeats = |one: &&Range<usize>| {
                let inside = variable.scope.start < one.start || variable.parameter;
                // The head of its own loop repeats with the loop.
                let own = one.start <= variable.scope.start && one.end == variable.scope.end;
                inside || own
            };
            let after = tokens.end..variable.scope.end;
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
                return Err(ambiguous(name));
            }
        }
        kept.retain(|&index| self.plan.variables[index].home != Home::Frame);
        self.plan.barriers.push(Barrier { tokens, kept });
        Ok(())
    }

    /// Refuses variables of the frame whose name means something else elsewhere.
    fn check_names(&self) -> Result<(), Refusal> {
        let variables = self.plan.variables.iter();
        for variable in variables.filter(|one| one.home == Home::Frame && !one.parameter) {
            let name = variable.name.as_str();
            let places = self.names.get(name).map_or(0, Vec::len);
            if places != 1 || self.mentioned_before(name, variable.scope.start) {
                return Err(ambiguous(name));
            }
        }
        Ok(())
    }

    /// Refuses barriers in places where no statement stands.
    fn check_barriers(&self) -> Result<(), Refusal> {
        let all = head(self.item).chain(self.item.body.clone());
        let mentions = all.filter(|&at| self.is(at, "__syncthreads")).count();
        match mentions == self.plan.barriers.len() {
            true => Ok(()),
            false => Err(Refusal::new("a barrier that is not a statement")),
        }
    }

    fn mentioned_before(&self, name: &str, at: usize) -> bool {
        self.mentions_of(name, self.item.body.start..at).next().is_some()
    }
}

fn ambiguous(name: &str) -> Refusal {
    Refusal::new(format!("{name}, which is declared twice"))
}
