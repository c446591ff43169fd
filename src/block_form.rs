//! Kernels in block form: one call runs all threads of a block, each from wait to wait.
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
mod folds;
mod halving;
mod lane_code;
mod names;
mod plan;
mod statements;
mod strided;
mod turns;
mod uses;

pub(crate) use facts::Facts;

use crate::syntax::Unit;
use crate::syntax::edits::Edits;
use crate::syntax::lexer::{Kind, Token, Tokens};
use crate::syntax::outline::{Item, ItemKind, outline};
use crate::syntax::source::Source;

/// The outcome for one kernel with a barrier or a fold: its block form, or the obstacle to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockForm {
    /// Its name without namespaces.
    pub kernel: String,
    /// The 1-based line of the name.
    pub line: usize,
    /// Why its threads keep stacks of their own, for developers; none if it has block form.
    pub obstacle: Option<String>,
    /// How many of its loops may run for several threads at once.
    pub loops: usize,
}

/// Why a kernel keeps a stack for each thread.
#[derive(Clone, Debug)]
struct Refusal(String);

impl Refusal {
    fn new(why: impl Into<String>) -> Self {
        Refusal(why.into())
    }
}

/// Puts the kernels of `text`, a translation of [`crate::frontend::host`], into block form where
/// that is possible. Returns the outcome for each kernel with a barrier or a fold. With `lanes`, their
/// strided loops run for several threads at once.
pub(crate) fn rewrite(
    path: &str,
    text: &str,
    facts: &Facts,
    lanes: bool,
) -> (String, Vec<BlockForm>) {
    let source = Source::new(&Unit { path, text });
    let tokens = source.view(true);
    let mut edits = Edits::default();
    let mut forms = Vec::new();
    let checked = check_source(&source, &tokens);
    let shuffles = checked.is_ok() && text.contains("__shfl_");
    for item in outline(text, &tokens) {
        let function = item.kind == ItemKind::Function && !item.body.is_empty();
        let folds = match shuffles && function {
            true => folds::find(&source, &tokens, facts, &item),
            false => Vec::new(),
        };
        let waits = || {
            let barrier = |token: &Token| token.is(text, "__syncthreads");
            !folds.is_empty() || tokens[item.body.clone()].iter().any(barrier)
        };
        if !function || !item.has(text, &tokens, "__global__") || !waits() {
            folds::rewrite(&source, &tokens, &folds, &mut edits);
            continue;
        }
        let planned =
            checked.clone().and_then(|()| plan::plan(text, &tokens, facts, &item, &folds, lanes));
        let (obstacle, loops) = match planned {
            Ok(plan) => {
                emit::emit(&source, &tokens, &plan, &mut edits);
                (None, plan.strided.len())
            }
            Err(Refusal(why)) => {
                folds::rewrite(&source, &tokens, &folds, &mut edits);
                (Some(why), 0)
            }
        };
        // A `#line` directive stands in front of the file's lines.
        let line = source.line(tokens[item.name_at].start) - 1;
        forms.push(BlockForm { kernel: item.name.clone(), line, obstacle, loops });
    }
    (edits.apply(text), forms)
}

/// Refuses files in which a line or a bracket may not be what it seems.
fn check_source(source: &Source, tokens: &Tokens) -> Result<(), Refusal> {
    let renumbers = |directive: &str| {
        let line = directive.trim_start_matches('#').trim_start();
        line.starts_with("line") || line.starts_with(|c: char| c.is_ascii_digit())
    };
    let directives = tokens.iter().filter(|token| token.kind == Kind::Directive);
    if directives.skip(1).any(|token| renumbers(token.text(source.text))) {
        return Err(Refusal::new("a #line directive in the file"));
    }
    match source.has_alternatives() {
        true => Err(Refusal::new("a bracket that depends on the preprocessor")),
        false => Ok(()),
    }
}

/// The tokens of a kernel without its body: from its first specifier to its parameters' end.
fn head(item: &Item) -> std::ops::Range<usize> {
    item.tokens.start..item.body.start
}
