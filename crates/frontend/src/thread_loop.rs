//! Kernels in thread-loop form: one call runs all threads of a block, each from wait to wait.
//!
//! A second pass over host C++. A kernel that waits only at statements becomes a loop over the threads
//! of the block: at `__syncthreads();`, at chains of shuffles, and in front of atomics, which let other threads run.
//! A thread that comes to one leaves its variables in a frame and jumps to the end of the loop; its
//! next turn jumps back. So threads run exactly as on stacks of their own, in the same order, at the
//! cost of a jump. A kernel that is not understood in every detail is left as it is. Wherever they
//! stand, chains of shuffles become one wait.

mod declarations;
mod emit;
mod facts;
mod grid_stride;
mod halving;
mod in_turn;
mod inlining;
mod names;
mod plan;
mod reason;
mod regions;
mod shuffle_reduction;
mod single_shuffles;
mod statements;
mod uses;
mod vector_code;
mod yield_points;

pub(crate) use facts::Facts;
pub use reason::{ShuffleReason, StackReason};

use std::ops::Range;

use self::in_turn::InTurnLoop;
use self::inlining::WaitingFunctions;
use self::plan::ThreadLoopPlan;
use self::reason::StackRefusal;
use self::shuffle_reduction::Shuffles;
use crate::syntax::SourceUnit;
use crate::syntax::edits::Edits;
use crate::syntax::lexer::{Token, TokenKind, Tokens};
use crate::syntax::outline::{Item, ItemKind, outline_items};
use crate::syntax::source::Source;

/// How the threads of a block of one kernel are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelForm {
    /// Its name without namespaces.
    pub kernel: String,
    /// The 1-based line of the name.
    pub line: usize,
    /// How its threads are run.
    pub threads: ThreadForm,
}

impl KernelForm {
    /// Whether a loop of it may run for several threads at once.
    pub fn has_strided_loops(&self) -> bool {
        matches!(&self.threads, ThreadForm::Block { strided, .. } if !strided.is_empty())
    }

    /// Why its threads keep stacks of their own; none if one call runs them, or nothing waits.
    pub fn why_stacks(&self) -> Option<&StackReason> {
        match &self.threads {
            ThreadForm::Stacks { why, .. } => Some(why),
            ThreadForm::InTurn | ThreadForm::Block { .. } => None,
        }
    }
}

/// How the threads of a block are run. All lines are 1-based.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadForm {
    /// One after the other, each to its end: nothing in the kernel waits for another thread.
    InTurn,
    /// By one call of the kernel, each thread from wait to wait.
    Block {
        /// The lines of the barriers of loops in which ever fewer threads have something to do, and which run for
        /// those alone.
        halving: Vec<usize>,
        /// The lines of loops that may run for several threads at once.
        strided: Vec<usize>,
    },
    /// Each on a stack of its own, which is switched where it waits.
    Stacks {
        /// Why they are not run by one call.
        why: StackReason,
        /// Where this stands, unless it is about the kernel or its file as a whole.
        line: Option<usize>,
    },
}

/// A shuffle, or a chain of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShuffleSite {
    /// The function that it stands in, without namespaces.
    pub function: String,
    /// Its 1-based line.
    pub line: usize,
    /// Why it is a wait of its own; none for a chain, which is one wait.
    pub alone: Option<ShuffleReason>,
}

/// A file whose kernels have been put into thread-loop form where that is possible.
#[derive(Debug)]
pub(crate) struct Rewritten {
    pub text: String,
    /// Every kernel with a body, in order.
    pub kernels: Vec<KernelForm>,
    /// Every shuffle in a function, in order.
    pub shuffles: Vec<ShuffleSite>,
}

/// Puts the kernels of `text`, a translation of [`crate::translate_for_host`], into thread-loop form where
/// that is possible. With `lanes`, their strided loops run for several threads at once. `other_files` are the paths and
/// translations of files with functions that wait.
pub(crate) fn rewrite_thread_loops(
    path: &str,
    text: &str,
    facts: &Facts,
    other_files: &[(String, String)],
    lanes: bool,
) -> Rewritten {
    let source = Source::new(&SourceUnit { path, text });
    let tokens = source.view(true);
    let source_check = check_source(&source, &tokens);
    let has_shuffles = text.contains("__shfl");
    let mut waiting_functions = WaitingFunctions::default();
    waiting_functions.add_own_file(&source, &tokens, facts);
    for (path, text) in other_files {
        let other_source = Source::new(&SourceUnit { path, text });
        waiting_functions.add_file(&other_source, &other_source.view(true), facts);
    }
    let mut edits = Edits::default();
    let mut kernels = Vec::new();
    let mut shuffle_sites = Vec::new();
    for item in outline_items(text, &tokens) {
        if item.kind != ItemKind::Function || item.body.is_empty() {
            continue;
        }
        let shuffles = match &source_check {
            _ if !has_shuffles => Shuffles::default(),
            Ok(()) => Shuffles::find_shuffle_reductions(&source, &tokens, facts, &item, false),
            Err(_) => Shuffles::refuse_all(text, &tokens, &item),
        };
        shuffle_sites.extend(list_shuffles(&source, &tokens, &item, &shuffles));
        let planned = if item.has_specifier(text, &tokens, "__global__") {
            choose_kernel_form(
                &source,
                &tokens,
                facts,
                &item,
                &shuffles,
                source_check.clone(),
                lanes,
            )
        } else {
            KernelPlan::InTurn(None)
        };
        if matches!(planned, KernelPlan::Stacks(_)) && source_check.is_ok() {
            let inlined = waiting_functions.inline_into(&source, &tokens, &item);
            let kernel_text = inlined.or_else(|| {
                let start = tokens[item.tokens.start].start;
                let own = &text[start..tokens[item.body.end - 1].end];
                own.contains("__shfl").then(|| "\n".repeat(source.line(start) - 1) + own)
            });
            let rewritten = kernel_text.and_then(|text| rewrite_one_kernel(path, &text, facts));
            if let Some((kernel, threads)) = rewritten {
                let bytes = tokens[item.tokens.start].start..tokens[item.body.end - 1].end;
                edits.replace(bytes, kernel);
                let line = line_of(&source, &tokens, item.name_at);
                kernels.push(KernelForm { kernel: item.name.clone(), line, threads });
                continue;
            }
        }
        match &planned {
            KernelPlan::Block(plan) => {
                emit::emit_thread_loop(&source, &tokens, facts, plan, &mut edits)
            }
            KernelPlan::InTurn(Some(plan)) => in_turn::emit_in_turn_loop(&tokens, plan, &mut edits),
            KernelPlan::InTurn(None) | KernelPlan::Stacks(_) => {
                shuffle_reduction::rewrite_shuffle_reductions(
                    &source,
                    &tokens,
                    &shuffles.folds,
                    &mut edits,
                );
            }
        }
        if item.has_specifier(text, &tokens, "__global__") {
            let threads = planned.describe(&source, &tokens);
            let line = line_of(&source, &tokens, item.name_at);
            kernels.push(KernelForm { kernel: item.name.clone(), line, threads });
        }
    }
    Rewritten { text: edits.apply(text), kernels, shuffles: shuffle_sites }
}

/// The one kernel in `text`, behind empty lines, in thread-loop form; none if it has none.
fn rewrite_one_kernel(path: &str, text: &str, facts: &Facts) -> Option<(String, ThreadForm)> {
    let whole = Source::new(&SourceUnit { path, text });
    let whole_tokens = whole.view(true);
    let [item] = &outline_items(text, &whole_tokens)[..] else { return None };
    let text = &single_shuffles::split_shuffles(text, &whole_tokens, item);
    let source = Source::new(&SourceUnit { path, text });
    let tokens = source.view(true);
    let [item] = &outline_items(text, &tokens)[..] else { return None };
    let shuffles = Shuffles::find_shuffle_reductions(&source, &tokens, facts, item, true);
    let plan = plan::plan_kernel(text, &tokens, facts, item, &shuffles, false).ok()?;
    let mut edits = Edits::default();
    emit::emit_thread_loop(&source, &tokens, facts, &plan, &mut edits);
    let threads = KernelPlan::Block(Box::new(plan)).describe(&source, &tokens);
    Some((edits.apply(text).trim_start_matches('\n').to_owned(), threads))
}

/// How a kernel is to be written.
enum KernelPlan<'t> {
    /// Nothing in it waits: a loop over the threads, or none where the body must stay as it is.
    InTurn(Option<InTurnLoop>),
    Block(Box<ThreadLoopPlan<'t>>),
    /// As it is: each thread has a stack.
    Stacks(StackRefusal),
}

impl KernelPlan<'_> {
    fn describe(&self, source: &Source, tokens: &Tokens) -> ThreadForm {
        let line_of = |at: usize| line_of(source, tokens, at);
        match self {
            KernelPlan::InTurn(_) => ThreadForm::InTurn,
            KernelPlan::Block(plan) => {
                let halving = plan.halvings.iter().map(|halving| line_of(halving.barrier));
                let strided = plan.strided.iter().map(|strided| line_of(strided.tokens.start));
                let (mut halving, mut strided): (Vec<_>, Vec<_>) =
                    (halving.collect(), strided.collect());
                halving.sort_unstable();
                strided.sort_unstable();
                ThreadForm::Block { halving, strided }
            }
            KernelPlan::Stacks(StackRefusal { why, at }) => {
                ThreadForm::Stacks { why: why.clone(), line: at.map(line_of) }
            }
        }
    }
}

/// Plans the kernel `item`.
fn choose_kernel_form<'t>(
    source: &'t Source,
    tokens: &'t Tokens,
    facts: &'t Facts,
    item: &'t Item,
    shuffles: &'t Shuffles<'t>,
    checked: Result<(), StackRefusal>,
    lanes: bool,
) -> KernelPlan<'t> {
    let text = source.text;
    let is_barrier = |token: &Token| token.is_spelled(text, "__syncthreads");
    if shuffles.folds.is_empty() && !tokens[item.body.clone()].iter().any(is_barrier) {
        if let Some(refusal) = names::find_wait(text, tokens, facts, item, shuffles) {
            return KernelPlan::Stacks(refusal);
        }
        let plan =
            checked.ok().and_then(|()| in_turn::plan_in_turn_loop(text, tokens, facts, item));
        return KernelPlan::InTurn(plan);
    }
    match checked.and_then(|()| plan::plan_kernel(text, tokens, facts, item, shuffles, lanes)) {
        Ok(plan) => KernelPlan::Block(Box::new(plan)),
        Err(refusal) => KernelPlan::Stacks(refusal),
    }
}

/// The shuffles of the function `item`, each chain once, in order.
fn list_shuffles(
    source: &Source,
    tokens: &Tokens,
    item: &Item,
    shuffles: &Shuffles,
) -> Vec<ShuffleSite> {
    let site = |line, alone| ShuffleSite { function: item.name.clone(), line, alone };
    let chains = shuffles.folds.iter().map(|fold| site(fold.line(source, tokens), None));
    let alone = shuffles.refused.iter();
    let alone = alone.map(|(&at, why)| site(line_of(source, tokens, at), Some(why.clone())));
    let mut sites: Vec<ShuffleSite> = chains.chain(alone).collect();
    sites.sort_by_key(|site| site.line);
    sites
}

/// The line of the file in which token `at` stands: a `#line` directive stands in front of its lines. That of a wait from a
/// function that was put into a kernel is its line there.
fn line_of(source: &Source, tokens: &Tokens, at: usize) -> usize {
    match inlining::place_of_wait(source.text, tokens[at].start) {
        Some((_, line)) => line,
        None => source.line(tokens[at].start) - 1,
    }
}

/// Refuses files in which a line or a bracket may not be what it seems.
fn check_source(source: &Source, tokens: &Tokens) -> Result<(), StackRefusal> {
    let renumbers = |directive: &str| {
        let line = directive.trim_start_matches('#').trim_start();
        line.starts_with("line") || line.starts_with(|c: char| c.is_ascii_digit())
    };
    let mut directives = tokens.iter().filter(|token| token.kind == TokenKind::Directive).skip(1);
    if directives.any(|token| renumbers(token.text(source.text))) {
        return Err(StackReason::LineDirective.into());
    }
    if source.has_alternatives() {
        return Err(StackReason::BracketAlternatives.into());
    }
    Ok(())
}

/// The tokens of a kernel without its body: from its first specifier to its parameters' end.
fn kernel_head_tokens(item: &Item) -> Range<usize> {
    item.tokens.start..item.body.start
}
