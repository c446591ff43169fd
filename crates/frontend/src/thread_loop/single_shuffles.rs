//! Cuts a statement with one shuffle in two: `float y = x + 1; y = shuffle(y);` for `float y = shuffle(x + 1);`. Such
//! shuffles are waits of a kernel in thread-loop form.

use std::ops::Range;

use crate::syntax::edits::Edits;
use crate::syntax::lexer::{TokenKind, Tokens, normalise_spacing};
use crate::syntax::outline::Item;

const SHUFFLES: [&str; 4] =
    ["__shfl_sync", "__shfl_xor_sync", "__shfl_down_sync", "__shfl_up_sync"];

/// The text with the shuffles of its kernel `item` in statements of their own.
pub(super) fn split_shuffles(text: &str, tokens: &Tokens, item: &Item) -> String {
    let mut edits = Edits::default();
    for at in item.body.clone() {
        if SHUFFLES.contains(&tokens[at].text(text)) {
            split_shuffle(text, tokens, at, &mut edits);
        }
    }
    edits.apply(text)
}

/// Cuts the statement of the shuffle at token `at`, if it is `T y = shuffle;` or `y = shuffle;`.
fn split_shuffle(text: &str, tokens: &Tokens, at: usize, edits: &mut Edits) {
    let word = |at: usize| tokens[at].text(text);
    let Some(end) = tokens.skip_group(at + 1) else { return };
    if word(at - 1) != "=" || tokens[at - 2].kind != TokenKind::Ident || word(end) != ";" {
        return;
    }
    let name = word(at - 2);
    let is_start = |at: usize| matches!(word(at), ";" | "{" | "}");
    let is_type = |at: usize| tokens[at].kind == TokenKind::Ident || word(at) == "::";
    let Some(before) = (0..at - 2).rev().find(|&at| !is_type(at)).filter(|&at| is_start(at)) else {
        return;
    };
    let declared = before + 1..at - 2;
    let arguments = tokens.split_arguments(text, at + 2..end - 1);
    let [mask, value, others @ ..] = &arguments[..] else { return };
    let mentions = |range: &Range<usize>| range.clone().any(|at| word(at) == name);
    let is_whole = value.len() == 1 && word(value.start) == name;
    if is_whole
        || mentions(mask)
        || others.iter().any(mentions)
        || declared.len() == 1 && word(before + 1) == "return"
    {
        return;
    }
    for at in declared.filter(|&at| word(at) == "const") {
        edits.replace(tokens[at].start..tokens[at].end, "");
    }
    let value_text = normalise_spacing(text, &tokens[value.clone()]);
    edits.insert(tokens[at - 2].end, format!(" = {value_text}; {name}"));
    edits.insert(tokens[value.start].start, name);
    edits.remove(text, tokens[value.start].start..tokens[value.end - 1].end);
}
