//! Decides whether a kernel can be put into thread-loop form, and how it is written then.
//!
//! The parts of the decision share the [`Planner`]: it holds the facts found so far, and answers
//! questions about the kernel's words.

mod hoisted;
pub(super) mod regions;
mod variables;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use self::regions::{Check, Regions};
use super::declarations::VariableDeclaration;
use super::facts::Facts;
use super::grid_stride::{self, GridStrideLoop};
use super::halving::{self, Halving};
use super::inlining::template_types;
use super::kernel_head_tokens;
use super::reason::{StackReason, StackRefusal};
use super::shuffle_reduction::{ShuffleReduction, Shuffles};
use super::statements::{KernelStatement, parse_kernel_body};
use super::uses::{Use, classify_variable_use};
use super::yield_points;
use crate::syntax::lexer::{TokenKind, Tokens};
use crate::syntax::outline::Item;

/// A kernel as it is to be written.
#[derive(Debug)]
pub(super) struct ThreadLoopPlan<'t> {
    /// The tokens of the body, braces included.
    pub body: Range<usize>,
    pub variables: Vec<Variable>,
    /// Statements to move in front of the loop over the threads.
    pub hoisted: Vec<Range<usize>>,
    /// Declarations, with the variables of each.
    pub declarations: Vec<Placed>,
    pub barriers: Vec<YieldPoint>,
    /// The `return` of every `return;`.
    pub returns: Vec<usize>,
    /// Whether a thread may ask for its index after a barrier.
    pub indexed: bool,
    /// Loops with work for ever fewer threads.
    pub halvings: Vec<Halving>,
    /// Loops for several threads at once.
    pub strided: Vec<GridStrideLoop>,
    /// Whether the engine says whose turn it is: there are waits besides barriers.
    pub turns: bool,
    /// The shuffles in the kernel.
    pub shuffles: &'t Shuffles<'t>,
    /// Its regions between waits, if it can be cut at them.
    pub regions: Option<Regions>,
    /// The parameters of its template that are types.
    pub template_types: BTreeSet<String>,
}

/// A declaration. A thread's return to a barrier jumps over it.
#[derive(Debug)]
pub(super) struct Placed {
    pub declaration: VariableDeclaration,
    /// The variable of each declarator.
    pub variables: Vec<usize>,
    /// The loop in whose head it stands.
    pub head_of: Option<Range<usize>>,
}

/// A variable other than a plain local one.
#[derive(Debug)]
pub(super) struct Variable {
    pub name: String,
    /// The tokens of its type before and behind the name.
    pub base: Range<usize>,
    pub pointer: Range<usize>,
    pub dimensions: Range<usize>,
    pub home: VariableHome,
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
pub(super) enum VariableHome {
    /// In a local variable; its value goes to the frame once, when it is initialised.
    Constant,
    /// In a local variable whose value goes to the frame at every barrier.
    Local,
    /// In the frame.
    Frame,
}

/// A `__syncthreads();`, a fold, or an atomic: a thread may let others run in front of it.
#[derive(Debug)]
pub(super) struct YieldPoint {
    pub tokens: Range<usize>,
    /// The variables in locals, if they are needed afterwards.
    pub kept: Vec<usize>,
    /// The address and the value of an atomic.
    pub arguments: Option<[Range<usize>; 2]>,
    /// Nobody waits here: threads that have run in regions go on here.
    pub check: Option<Check>,
}

/// Plans the kernel `item` with its `shuffles`; with `lanes` some loops run for several threads at once.
pub(super) fn plan_kernel<'t>(
    text: &'t str,
    tokens: &'t Tokens,
    facts: &'t Facts,
    item: &'t Item,
    shuffles: &'t Shuffles<'t>,
    lanes: bool,
) -> Result<ThreadLoopPlan<'t>, StackRefusal> {
    let waits = yield_points::find_yielding_statements(text, tokens, facts, item, &shuffles.folds);
    let statements = parse_kernel_body(text, tokens, item.body.start, &waits)?;
    let planner = || Planner::begin(text, tokens, facts, item, shuffles, waits.clone());
    let mut in_turns = planner();
    in_turns.check_kernel(&statements)?;
    let inner = item.body.start + 1..item.body.end - 1;
    in_turns.list(&statements, inner, &mut Vec::new())?;
    in_turns.check_names()?;
    in_turns.check_barriers()?;
    let (halvings, strided) = if in_turns.plan.turns {
        (Vec::new(), Vec::new())
    } else {
        let halvings = halving::find_halving_loops(&in_turns, &statements);
        let strided = if lanes {
            grid_stride::find_grid_stride_loops(&in_turns, &statements)
        } else {
            Vec::new()
        };
        (halvings, strided)
    };
    if halvings.is_empty() && strided.is_empty() {
        let mut in_regions = planner();
        in_regions.check_kernel(&statements)?;
        if let Ok(regions) = in_regions.plan_regions(&statements)
            && in_regions.check_names().is_ok()
            && in_regions.check_barriers().is_ok()
        {
            let plan = in_regions.plan;
            return Ok(ThreadLoopPlan { indexed: true, regions: Some(regions), ..plan });
        }
    }
    let waits = statements
        .iter()
        .find(|statement| statement.waits)
        .map_or(item.body.end, |statement| statement.tokens.start);
    let indexed = in_turns
        .mentions(waits..item.body.end)
        .any(|token_index| facts.asks_index(in_turns.word(token_index)));
    Ok(ThreadLoopPlan { indexed, halvings, strided, ..in_turns.plan })
}

/// A kernel on its way to a plan.
pub(super) struct Planner<'t> {
    pub(super) text: &'t str,
    pub(super) tokens: &'t Tokens,
    pub(super) facts: &'t Facts,
    pub(super) item: &'t Item,
    plan: ThreadLoopPlan<'t>,
    /// The tokens of the waits other than barriers.
    waits: Vec<Range<usize>>,
    /// Where the kernel declares each name.
    pub(super) names: BTreeMap<&'t str, Vec<usize>>,
    /// Where the kernel mentions each name, in order.
    places: BTreeMap<&'t str, Vec<usize>>,
    /// The names of declarations moved in front of the loop over the threads.
    moved: BTreeSet<&'t str>,
    /// The variables in scope, by index, during the walk over the statements.
    visible: Vec<usize>,
    /// The variables of loops with one value for all threads, during the walk.
    uniform: BTreeSet<String>,
}

impl<'t> Planner<'t> {
    fn begin(
        text: &'t str,
        tokens: &'t Tokens,
        facts: &'t Facts,
        item: &'t Item,
        shuffles: &'t Shuffles<'t>,
        waits: Vec<Range<usize>>,
    ) -> Planner<'t> {
        let plan = ThreadLoopPlan {
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
            regions: None,
            template_types: template_types(text, tokens, item),
        };
        let names = BTreeMap::new();
        let moved = BTreeSet::new();
        let places = BTreeMap::new();
        let visible = Vec::new();
        let uniform = BTreeSet::new();
        Planner { text, tokens, facts, item, plan, waits, names, places, moved, visible, uniform }
    }

    /// Finds the kernel's names and parameters, and refuses what no statement can hold.
    fn check_kernel(&mut self, statements: &[KernelStatement]) -> Result<(), StackRefusal> {
        self.check_words()?;
        self.collect_places();
        self.collect_names(statements)?;
        self.check_macros()?;
        self.parameters()
    }

    pub(super) fn is_spelled_at(&self, token_index: usize, spelling: &str) -> bool {
        self.tokens.is_spelled_at(self.text, token_index, spelling)
    }

    pub(super) fn word(&self, token_index: usize) -> &'t str {
        self.tokens[token_index].text(self.text)
    }

    pub(super) fn variables(&self) -> &[Variable] {
        &self.plan.variables
    }

    /// The variables in scope at the current statement of the walk.
    pub(super) fn visible(&self) -> impl Iterator<Item = &Variable> {
        self.visible.iter().map(|&index| &self.plan.variables[index])
    }

    /// The folds in the kernel.
    pub(super) fn folds(&self) -> &'t [ShuffleReduction<'t>] {
        &self.plan.shuffles.folds
    }

    /// The shuffles in the kernel.
    pub(super) fn shuffles(&self) -> &'t Shuffles<'t> {
        self.plan.shuffles
    }

    /// The waits other than barriers.
    pub(super) fn waits(&self) -> &[Range<usize>] {
        &self.waits
    }

    /// Whether the kernel's `name` is one variable for all threads.
    pub(super) fn is_shared_by_threads(&self, name: &str) -> bool {
        let parameter =
            self.names[name].iter().all(|&token_index| token_index < self.item.body.start);
        let is_own = self.plan.variables.iter().any(|variable| variable.name == name);
        self.moved.contains(name) || parameter && !is_own
    }

    /// The words of the tokens of `range`.
    pub(super) fn words(&self, range: Range<usize>) -> Vec<&'t str> {
        range.map(|token_index| self.word(token_index)).collect()
    }

    /// The identifiers among `range`, without the names of members.
    pub(super) fn mentions(&self, range: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        range.filter(|&token_index| {
            let member = token_index > 0
                && [".", "->", "::"].iter().any(|sign| self.is_spelled_at(token_index - 1, sign));
            self.tokens[token_index].kind == TokenKind::Ident && !member
        })
    }

    fn collect_places(&mut self) {
        let mentions: Vec<usize> =
            self.mentions(self.item.tokens.start..self.item.body.end).collect();
        for token_index in mentions {
            self.places.entry(self.word(token_index)).or_default().push(token_index);
        }
    }

    /// The mentions of `name` among `range`, tokens of the kernel.
    pub(super) fn mentions_of(
        &self,
        name: &str,
        range: Range<usize>,
    ) -> impl Iterator<Item = usize> + use<'_, 't> {
        let places = self.places.get(name).map_or(&[][..], Vec::as_slice);
        let first = places.partition_point(|&token_index| token_index < range.start);
        places[first..].iter().copied().take_while(move |&token_index| token_index < range.end)
    }

    /// Whether `name` is mentioned among `range`, tokens of the kernel.
    pub(super) fn is_mentioned(&self, name: &str, range: Range<usize>) -> bool {
        self.mentions_of(name, range).next().is_some()
    }

    pub(super) fn worst(&self, name: &str, range: Range<usize>) -> Use {
        let uses = self.mentions_of(name, range);
        uses.map(|token_index| {
            classify_variable_use(self.text, self.tokens, self.facts, token_index)
        })
        .max()
        .unwrap_or(Use::Read)
    }

    /// Refuses variables of the frame whose name means something else elsewhere.
    fn check_names(&self) -> Result<(), StackRefusal> {
        let variables = self.plan.variables.iter();
        for variable in
            variables.filter(|variable| variable.home == VariableHome::Frame && !variable.parameter)
        {
            let name = variable.name.as_str();
            let places = self.names.get(name).map_or(0, Vec::len);
            if places != 1 || self.mentioned_before(name, variable.scope.start) {
                return Err(refuse_ambiguous_name(name, variable.scope.start));
            }
        }
        Ok(())
    }

    /// Refuses barriers in places where no statement stands.
    fn check_barriers(&self) -> Result<(), StackRefusal> {
        let kernel_tokens = kernel_head_tokens(self.item).chain(self.item.body.clone());
        let barriers = kernel_tokens.filter(|&at| self.is_spelled_at(at, "__syncthreads"));
        let waits = barriers.chain(self.waits.iter().map(|wait| wait.start));
        let planned: BTreeSet<usize> =
            self.plan.barriers.iter().map(|barrier| barrier.tokens.start).collect();
        match waits.into_iter().find(|at| !planned.contains(at)) {
            Some(at) => Err(StackReason::BarrierInExpression.at(at)),
            None => Ok(()),
        }
    }

    fn mentioned_before(&self, name: &str, token_index: usize) -> bool {
        self.is_mentioned(name, self.item.body.start..token_index)
    }
}

/// The refusal of `name`, declared or known at token `at`.
fn refuse_ambiguous_name(name: &str, at: usize) -> StackRefusal {
    let shared = name.strip_prefix("replay_shared_").and_then(|name| name.strip_suffix("_t"));
    StackReason::DeclaredTwice(shared.unwrap_or(name).to_owned()).at(at)
}
