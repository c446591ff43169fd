//! Decides whether a kernel can be put into block form, and how it is written then.
//!
//! The parts of the decision share the [`Planner`]: it holds the facts found so far, and answers
//! questions about the kernel's words.

mod hoisted;
mod variables;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::declarations::Declaration;
use super::facts::Facts;
use super::folds::{Fold, Shuffles};
use super::halving::{self, Halving};
use super::head;
use super::reason::{StackReason, StackRefusal};
use super::statements::body;
use super::strided::{self, Strided};
use super::turns;
use super::uses::{Use, judge};
use crate::syntax::lexer::{Kind, Tokens};
use crate::syntax::outline::Item;

/// A kernel as it is to be written.
#[derive(Debug)]
pub(super) struct Plan<'t> {
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
    /// Whether the engine says whose turn it is: there are waits besides barriers.
    pub turns: bool,
    /// The shuffles in the kernel.
    pub shuffles: &'t Shuffles<'t>,
}

/// A declaration that a thread's return to a barrier jumps over.
#[derive(Debug)]
pub(super) struct Placed {
    pub declaration: Declaration,
    /// The variable of each declarator.
    pub variables: Vec<usize>,
    /// The loop in whose head it stands.
    pub head_of: Option<Range<usize>>,
}

/// A variable that is more than a plain local one.
#[derive(Debug)]
pub(super) struct Variable {
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
pub(super) enum Home {
    /// In a local variable; its value goes to the frame once, when it is initialised.
    Constant,
    /// In a local variable whose value goes to the frame at every barrier.
    Local,
    /// In the frame.
    Frame,
}

/// A `__syncthreads();`, a fold, or an atomic, in front of which a thread may let others run.
#[derive(Debug)]
pub(super) struct Barrier {
    pub tokens: Range<usize>,
    /// The variables that are needed afterwards and live in local variables.
    pub kept: Vec<usize>,
    /// The address and the value of an atomic.
    pub arguments: Option<[Range<usize>; 2]>,
}

/// Plans the kernel `item` with its `shuffles`; with `lanes` some loops run for several threads at once.
pub(super) fn plan<'t>(
    text: &'t str,
    tokens: &'t Tokens,
    facts: &'t Facts,
    item: &'t Item,
    shuffles: &'t Shuffles<'t>,
    lanes: bool,
) -> Result<Plan<'t>, StackRefusal> {
    let waits = turns::waits(text, tokens, facts, item, &shuffles.folds);
    let statements = body(text, tokens, item.body.start, &waits)?;
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
        turns: !waits.is_empty(),
        shuffles,
    };
    let names = BTreeMap::new();
    let moved = BTreeSet::new();
    let (places, visible) = (BTreeMap::new(), Vec::new());
    let mut planner =
        Planner { text, tokens, facts, item, plan, waits, names, places, moved, visible };
    planner.check_words()?;
    planner.collect_places();
    planner.collect_names(&statements)?;
    planner.check_macros()?;
    planner.parameters()?;
    let inner = item.body.start + 1..item.body.end - 1;
    planner.list(&statements, inner, &mut Vec::new())?;
    planner.check_names()?;
    planner.check_barriers()?;
    if planner.plan.turns {
        return Ok(planner.plan);
    }
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
    plan: Plan<'t>,
    /// The tokens of the statements that wait and are no barriers.
    waits: Vec<Range<usize>>,
    /// Where the kernel declares each name.
    pub(super) names: BTreeMap<&'t str, Vec<usize>>,
    /// Where the kernel mentions each name, in order.
    places: BTreeMap<&'t str, Vec<usize>>,
    /// The names of declarations that move in front of the loop over the threads.
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

    /// The variables that can be named where the walk over the statements is.
    pub(super) fn visible(&self) -> impl Iterator<Item = &Variable> {
        self.visible.iter().map(|&index| &self.plan.variables[index])
    }

    /// The folds in the kernel.
    pub(super) fn folds(&self) -> &'t [Fold<'t>] {
        &self.plan.shuffles.folds
    }

    /// The shuffles in the kernel.
    pub(super) fn shuffles(&self) -> &'t Shuffles<'t> {
        self.plan.shuffles
    }

    /// The statements that wait and are no barriers.
    pub(super) fn waits(&self) -> &[Range<usize>] {
        &self.waits
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

    fn collect_places(&mut self) {
        let mentions: Vec<usize> =
            self.mentions(self.item.tokens.start..self.item.body.end).collect();
        for at in mentions {
            self.places.entry(self.word(at)).or_default().push(at);
        }
    }

    /// The mentions of `name` among `range`, tokens of the kernel.
    pub(super) fn mentions_of(
        &self,
        name: &str,
        range: Range<usize>,
    ) -> impl Iterator<Item = usize> + use<'_, 't> {
        let places = self.places.get(name).map_or(&[][..], Vec::as_slice);
        let first = places.partition_point(|&at| at < range.start);
        places[first..].iter().copied().take_while(move |&at| at < range.end)
    }

    pub(super) fn worst(&self, name: &str, range: Range<usize>) -> Use {
        let uses = self.mentions_of(name, range);
        uses.map(|at| judge(self.text, self.tokens, self.facts, at)).max().unwrap_or(Use::Read)
    }

    /// Refuses variables of the frame whose name means something else elsewhere.
    fn check_names(&self) -> Result<(), StackRefusal> {
        let variables = self.plan.variables.iter();
        for variable in variables.filter(|one| one.home == Home::Frame && !one.parameter) {
            let name = variable.name.as_str();
            let places = self.names.get(name).map_or(0, Vec::len);
            if places != 1 || self.mentioned_before(name, variable.scope.start) {
                return Err(ambiguous(name, variable.scope.start));
            }
        }
        Ok(())
    }

    /// Refuses barriers in places where no statement stands.
    fn check_barriers(&self) -> Result<(), StackRefusal> {
        let all = head(self.item).chain(self.item.body.clone());
        let barriers = all.filter(|&at| self.is(at, "__syncthreads"));
        let waits = barriers.chain(self.waits.iter().map(|wait| wait.start));
        let planned: BTreeSet<usize> =
            self.plan.barriers.iter().map(|barrier| barrier.tokens.start).collect();
        match waits.into_iter().find(|at| !planned.contains(at)) {
            Some(at) => Err(StackReason::BarrierInExpression.at(at)),
            None => Ok(()),
        }
    }

    fn mentioned_before(&self, name: &str, at: usize) -> bool {
        self.mentions_of(name, self.item.body.start..at).next().is_some()
    }
}

/// The refusal of `name`, which is declared at or known to the code at token `at`.
fn ambiguous(name: &str, at: usize) -> StackRefusal {
    let shared = name.strip_prefix("replay_shared_").and_then(|name| name.strip_suffix("_t"));
    StackReason::DeclaredTwice(shared.unwrap_or(name).to_owned()).at(at)
}
