//! The statements besides barriers at which a thread of a kernel in block form lets others run: folds, and atomics
//! whose result nobody uses.
//!
//! An atomic lets other threads run if there were many before it (`replay/thread.h`, `may_be_waiting`). The kernel
//! does so in front of the statement, with the value that the atomic gets; the address must be the same afterwards.

use std::ops::Range;

use super::Refusal;
use super::facts::Facts;
use super::folds::Fold;
use super::plan::Planner;
use crate::syntax::lexer::{Kind, Tokens, folded};
use crate::syntax::outline::Item;
use crate::syntax::source::Source;

/// The functions whose statements are such atomics.
const ATOMICS: [&str; 8] = [
    "atomicAdd",
    "atomicSub",
    "atomicMin",
    "atomicMax",
    "atomicAnd",
    "atomicOr",
    "atomicXor",
    "atomicExch",
];
/// The words of types that shuffles take as they are.
const WHOLE_TYPES: [&str; 14] = [
    "float", "double", "int", "unsigned", "signed", "long", "int32_t", "uint32_t", "int64_t",
    "uint64_t", "size_t", "uint", "std", "::",
];

/// The tokens of all such statements of the kernel `item`, in which `folds` stand.
pub(super) fn waits(
    text: &str,
    tokens: &Tokens,
    facts: &Facts,
    item: &Item,
    folds: &[Fold],
) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = folds.iter().map(|fold| fold.tokens.clone()).collect();
    for at in item.body.clone().skip(1) {
        let begins = [";", "{", "}", ")", "else"].iter().any(|sign| tokens.is(text, at - 1, sign));
        let word = tokens[at].text(text);
        let known = ATOMICS.contains(&word) && !facts.is_defined(word) && !facts.is_macro(word);
        if !begins || !known || !tokens.is(text, at + 1, "(") {
            continue;
        }
        let Some(after) = tokens.skip_group(at + 1) else { continue };
        if tokens.is(text, after, ";") {
            found.push(at..after + 1);
        }
    }
    found
}

/// The code in front of the atomic in `statement`, wait `number`, and behind it; `out` and `back` are as for a fold.
pub(super) fn around_atomic(
    source: &Source,
    tokens: &Tokens,
    statement: Range<usize>,
    number: usize,
    out: &str,
    back: &str,
) -> (String, &'static str) {
    let value = (statement.start + 2..statement.end - 2).find_map(|at| {
        let inside = tokens[statement.start + 2..at].iter();
        let depth = inside.fold(0i32, |depth, token| match token.text(source.text) {
            "(" | "[" => depth + 1,
            ")" | "]" => depth - 1,
            _ => depth,
        });
        (depth == 0 && tokens.is(source.text, at, ",")).then_some(at + 1..statement.end - 2)
    });
    let value = folded(source.text, &tokens[value.unwrap_or(0..0)]);
    let start = statement.start;
    let address = folded(source.text, &tokens[start..statement.end - 2])
        .strip_suffix(&value)
        .unwrap_or_default()
        .to_owned();
    let before = format!(
        "{{ if (replay_block.yields()) {{ replay_block.keep(*replay_frame, {value}); {out}\
         replay_block.yield(*replay_frame, {number}); goto replay_next; replay_{number}:;{back} \
         replay_block.yielded(); {address} replay_block.template kept<decltype({value})>(*replay_frame)); }} else "
    );
    (before, " }")
}

impl Planner<'_> {
    /// Refuses the fold that starts at `start`, if one does, unless its variable is the thread's own and of a type
    /// that shuffles take as it is.
    pub(super) fn check_fold(&self, start: usize) -> Result<(), Refusal> {
        let Some(fold) = self.folds().iter().find(|fold| fold.tokens.start == start) else {
            return Ok(());
        };
        let name = fold.value(self.text, self.tokens);
        let own = self.visible().filter(|variable| variable.name == name);
        let fits = own.map(|variable| {
            let mut words = variable.base.clone().map(|at| self.word(at));
            let scalar = variable.pointer.is_empty() && variable.dimensions.is_empty();
            scalar && words.all(|word| WHOLE_TYPES.contains(&word))
        });
        match fits.collect::<Vec<_>>()[..] {
            [true] => Ok(()),
            _ => Err(Refusal::new(format!("a chain of shuffles of {name}"))),
        }
    }

    /// Refuses atomics whose address other threads may change, or whose arguments wait.
    pub(super) fn check_atomics(&self) -> Result<(), Refusal> {
        for wait in self.waits().iter().filter(|wait| ATOMICS.contains(&self.word(wait.start))) {
            let arguments = self.pieces(wait.start + 2..wait.end - 2);
            let fits = match &arguments[..] {
                [address, value] => {
                    address.clone().all(|at| self.is_own(at))
                        && !value.clone().any(|at| self.facts.waits(self.word(at)))
                        && !value.clone().any(|at| self.is(at, "{"))
                }
                _ => false,
            };
            if !fits {
                let name = self.word(wait.start);
                return Err(Refusal::new(format!("the arguments of {name}")));
            }
        }
        Ok(())
    }

    /// Whether the token at `at`, in the address of an atomic, reads nothing but variables of the thread.
    fn is_own(&self, at: usize) -> bool {
        let (word, before) = (self.word(at), self.word(at - 1));
        let begins = matches!(before, "(" | "," | "[") || "+-*/%<>?:&|!~=".contains(before);
        match self.tokens[at].kind {
            Kind::Number => true,
            // An element is read unless its address is taken.
            Kind::Punct if word == "[" => {
                let chain = (0..at).rev().find(|&k| self.is(k, "&") || self.is(k, ","));
                chain.is_some_and(|k| {
                    self.is(k, "&") && matches!(self.word(k - 1), "(" | ",") && k + 2 == at
                })
            }
            Kind::Punct if word == "*" || word == "&" => {
                !begins || word == "&" && matches!(before, "(" | ",")
            }
            Kind::Punct => "()],.+-/%<>?:|!~^".contains(word),
            Kind::Ident => {
                let addressed = before == "&" && matches!(self.word(at - 2), "(" | ",");
                let shared = self.moved.contains(word) || self.facts.is_device_variable(word);
                let called = self.is(at + 1, "(") && before != ",";
                !self.facts.waits(word)
                    && !called
                    && (addressed || !shared)
                    && !self.facts.is_macro(word)
            }
            Kind::Text | Kind::Directive => false,
        }
    }
}
