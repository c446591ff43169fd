//! Kernels in which nothing waits, as a loop over the threads of a block (`replay/in_turn.h`).
//!
//! The body becomes a lambda that is called for each thread, so `return` ends the thread, in macros too. A parameter that
//! a thread may change is a copy of its own.

use std::ops::Range;

use super::declarations::{DeclarationKind, parse_declaration};
use super::facts::Facts;
use super::uses::{Use, classify_element_use, classify_variable_use};
use crate::syntax::edits::Edits;
use crate::syntax::lexer::{TokenKind, Tokens};
use crate::syntax::outline::Item;

/// How the body of such a kernel is written.
#[derive(Debug)]
pub(super) struct InTurnLoop {
    /// The tokens of the body, braces included.
    body: Range<usize>,
    /// Whether each thread takes copies of the parameters.
    copies_parameters: bool,
    /// Whether the built-in variables are parameters of the lambda.
    passes_builtins: bool,
    /// Whether functions of the kernel may ask for the thread's index.
    indexed: bool,
    /// Whether a thread may let others run.
    yields: bool,
}

/// Words for the name of the function that they stand in: it would be the lambda's.
const FUNCTION_NAMES: [&str; 5] =
    ["assert", "__func__", "__FUNCTION__", "__PRETTY_FUNCTION__", "__builtin_FUNCTION"];

/// Words that open a class, whose members see no variables of the function around it.
const CLASSES: [&str; 3] = ["struct", "class", "union"];

/// The loop for the kernel `item`, in which nothing waits; none if its body must stay as it is.
pub(super) fn plan_in_turn_loop(
    text: &str,
    tokens: &Tokens,
    facts: &Facts,
    item: &Item,
) -> Option<InTurnLoop> {
    let open_parenthesis = (item.name_at..item.body.start)
        .find(|&token_index| tokens.is_spelled_at(text, token_index, "("))?;
    let parameters = open_parenthesis + 1..tokens.skip_group(open_parenthesis)? - 1;
    let may_refer = parameters.clone().any(|token_index| {
        tokens.is_spelled_at(text, token_index, "&")
            || tokens[token_index].kind == TokenKind::Directive
    });
    let reader = BodyReader { text, tokens, facts, item };
    if may_refer || reader.mentions_any(&FUNCTION_NAMES) {
        return None;
    }
    let sees_no_variables = reader.has_closed_lambda() || reader.mentions_any(&CLASSES);
    let mut words = item.body.clone().map(|token_index| tokens[token_index].text(text));
    let yields = words.clone().any(|word| facts.yields(word));
    Some(InTurnLoop {
        body: item.body.clone(),
        copies_parameters: reader.changes_parameters(parameters),
        passes_builtins: !sees_no_variables,
        indexed: sees_no_variables
            || words.any(|word| word != "threadIdx" && facts.asks_index(word)),
        yields,
    })
}

/// Writes the kernel of `plan`.
pub(super) fn emit_in_turn_loop(tokens: &Tokens, plan: &InTurnLoop, edits: &mut Edits) {
    let capture = if plan.copies_parameters { "=" } else { "&" };
    let (parameters, arguments) = if plan.passes_builtins {
        (
            "uint3 threadIdx, uint3 blockIdx, dim3 blockDim, dim3 gridDim",
            "replay_turns.thread_index(), replay_turns.block_index(), replay_turns.block_shape(), \
             replay_turns.grid_shape()",
        )
    } else {
        ("", "")
    };
    let code_before = format!(
        " ::replay_rt::threads_in_turn<{}, {}> replay_turns; while (replay_turns.next()) \
         [{capture}]({parameters}) REPLAY_THREAD_BODY {{",
        plan.indexed, plan.yields
    );
    edits.insert(tokens[plan.body.start].end, code_before);
    edits.insert(tokens[plan.body.end - 1].start, format!("}}({arguments}); "));
}

struct BodyReader<'t> {
    text: &'t str,
    tokens: &'t Tokens,
    facts: &'t Facts,
    item: &'t Item,
}

impl BodyReader<'_> {
    fn word(&self, token_index: usize) -> &str {
        self.tokens[token_index].text(self.text)
    }

    fn is_spelled_at(&self, token_index: usize, spelling: &str) -> bool {
        self.tokens.is_spelled_at(self.text, token_index, spelling)
    }

    /// Whether the body mentions one of `words`, by a macro as well.
    fn mentions_any(&self, words: &[&str]) -> bool {
        self.item.body.clone().any(|token_index| {
            let word = self.word(token_index);
            words.contains(&word) || self.expands_to(word, words)
        })
    }

    /// Whether `word` is a macro with one of `words` in its expansion.
    fn expands_to(&self, word: &str, words: &[&str]) -> bool {
        if !self.facts.is_macro(word) {
            return false;
        }
        let expansion = self.facts.expansion(word);
        words.iter().any(|word| expansion.contains(word))
    }

    /// Whether a lambda in the body may see no variables around it.
    fn has_closed_lambda(&self) -> bool {
        self.item.body.clone().any(|token_index| {
            let captures_all =
                ["&", "="].iter().any(|sign| self.is_spelled_at(token_index + 1, sign));
            let opens = self.is_spelled_at(token_index, "[")
                && self.tokens.skip_group(token_index).is_some_and(|after| {
                    let is_template = after == token_index + 2 && self.is_spelled_at(after, "<");
                    is_template || ["(", "{"].iter().any(|sign| self.is_spelled_at(after, sign))
                });
            opens && !captures_all || self.expands_to(self.word(token_index), &["["])
        })
    }

    /// Whether a thread may change one of the `parameters`, a list of tokens.
    fn changes_parameters(&self, parameters: Range<usize>) -> bool {
        let mut names = Vec::new();
        let mut objects = Vec::new();
        for piece in self.tokens.split_parameters(self.text, parameters) {
            let end = piece.clone().find(|&token_index| self.is_spelled_at(token_index, "="));
            let range = piece.start..end.unwrap_or(piece.end);
            if range.is_empty() || range.len() == 1 && self.is_spelled_at(range.start, "void") {
                continue;
            }
            match parse_declaration(self.text, self.tokens, range) {
                DeclarationKind::Variables(declaration) => {
                    for declarator in &declaration.declarators {
                        let name = self.word(declarator.name);
                        names.push(name);
                        if declarator.pointer.is_empty() {
                            objects.push(name);
                        }
                    }
                }
                DeclarationKind::Nothing | DeclarationKind::Other(_) => return true,
            }
        }
        self.item.body.clone().any(|token_index| {
            let word = self.word(token_index);
            let change = |classify: fn(&str, &Tokens, &Facts, usize) -> Use| {
                classify(self.text, self.tokens, self.facts, token_index) != Use::Read
            };
            self.expands_to(word, &names)
                || names.contains(&word) && change(classify_variable_use)
                || objects.contains(&word) && change(classify_element_use)
        })
    }
}
