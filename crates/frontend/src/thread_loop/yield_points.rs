//! The waits of a kernel in thread-loop form besides barriers: folds, and atomics with an unused result.
//!
//! An atomic lets other threads run if there were many before it (`replay/thread.h`, `may_be_waiting`). The kernel
//! does so in front of the statement, and keeps the arguments.

use std::ops::Range;

use super::facts::Facts;
use super::inlining::template_types;
use super::plan::Planner;
use super::reason::{StackReason, StackRefusal};
use super::shuffle_reduction::ShuffleReduction;
use crate::syntax::lexer::{Tokens, normalise_spacing};
use crate::syntax::outline::Item;
use crate::syntax::source::Source;

/// The functions whose statements are such atomics.
pub(super) const ATOMICS: [&str; 8] = [
    "atomicAdd",
    "atomicSub",
    "atomicMin",
    "atomicMax",
    "atomicAnd",
    "atomicOr",
    "atomicXor",
    "atomicExch",
];
/// The words of types for shuffles without a conversion.
const WHOLE_TYPES: [&str; 14] = [
    "float", "double", "int", "unsigned", "signed", "long", "int32_t", "uint32_t", "int64_t",
    "uint64_t", "size_t", "uint", "std", "::",
];

/// The tokens of all such statements of the kernel `item`; `folds` are its own.
pub(super) fn find_yielding_statements(
    text: &str,
    tokens: &Tokens,
    facts: &Facts,
    item: &Item,
    folds: &[ShuffleReduction],
) -> Vec<Range<usize>> {
    let mut wait_ranges: Vec<Range<usize>> = folds.iter().map(|fold| fold.tokens.clone()).collect();
    for token_index in item.body.clone().skip(1) {
        let begins_statement = [";", "{", "}", ")", "else"]
            .iter()
            .any(|sign| tokens.is_spelled_at(text, token_index - 1, sign));
        let word = tokens[token_index].text(text);
        let is_atomic = ATOMICS.contains(&word) && !facts.is_defined(word) && !facts.is_macro(word);
        if !begins_statement || !is_atomic || !tokens.is_spelled_at(text, token_index + 1, "(") {
            continue;
        }
        let Some(group_end) = tokens.skip_group(token_index + 1) else { continue };
        if tokens.is_spelled_at(text, group_end, ";") {
            wait_ranges.push(token_index..group_end + 1);
        }
    }
    wait_ranges
}

/// The code in front of the atomic whose statement starts at `start`, wait `number`, and behind it; `out` and `back`
/// are as for a fold, `arguments` are its address and its value.
pub(super) fn around_atomic(
    source: &Source,
    tokens: &Tokens,
    start: usize,
    arguments: &[Range<usize>; 2],
    number: usize,
    [out, back]: [&str; 2],
) -> (String, &'static str) {
    let name = tokens[start].text(source.text);
    let address = normalise_spacing(source.text, &tokens[arguments[0].clone()]);
    let value = normalise_spacing(source.text, &tokens[arguments[1].clone()]);
    let code_before = format!(
        "{{ if (replay_block.yields()) {{ replay_block.keep({address}, {value}); {out}\
         replay_block.yield(*replay_frame, {number}); goto replay_next; replay_{number}:;{back} \
         replay_block.yielded(); {name}(replay_block.template kept_address<decltype(({address}) + 0)>(), \
         replay_block.template kept_value<decltype({value})>()); }} else "
    );
    (code_before, " }")
}

impl Planner<'_> {
    /// Refuses the fold at `start`, if there is one, unless its variable is the thread's own and shuffles take its type
    /// without a conversion.
    pub(super) fn check_fold(&self, start: usize) -> Result<(), StackRefusal> {
        let Some(fold) = self.folds().iter().find(|fold| fold.tokens.start == start) else {
            return Ok(());
        };
        let name = fold.value(self.text, self.tokens);
        // An instance whose values do not fit into a shuffle does not compile without this form, either.
        let types = template_types(self.text, self.tokens, self.item);
        let own_variables = self.visible().filter(|variable| variable.name == name);
        let fitting_types = own_variables.map(|variable| {
            let mut words = variable.base.clone().map(|token_index| self.word(token_index));
            let scalar = variable.pointer.is_empty() && variable.dimensions.is_empty();
            scalar && words.all(|word| WHOLE_TYPES.contains(&word) || types.contains(word))
        });
        match fitting_types.collect::<Vec<_>>()[..] {
            [true] => Ok(()),
            _ => Err(StackReason::ShuffledVariable(name.to_owned()).at(start)),
        }
    }

    /// The address and the value of the atomic whose statement is at `tokens`; none for barriers and folds.
    ///
    /// # Errors
    /// If one of them may wait, or there are others.
    pub(super) fn atomic(
        &self,
        tokens: Range<usize>,
    ) -> Result<Option<[Range<usize>; 2]>, StackRefusal> {
        let name = self.word(tokens.start);
        if !ATOMICS.contains(&name) {
            return Ok(None);
        }
        let arguments = tokens.start + 2..tokens.end - 2;
        let is_refused = arguments.clone().any(|token_index| {
            self.facts.waits(self.word(token_index)) || self.is_spelled_at(token_index, "{")
        });
        match <[Range<usize>; 2]>::try_from(self.pieces(arguments.clone())) {
            Ok(argument_pair) if !is_refused => Ok(Some(argument_pair)),
            _ => Err(StackReason::AtomicArguments(name.to_owned()).at(tokens.start)),
        }
    }
}
