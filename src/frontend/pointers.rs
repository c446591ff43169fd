//! Takes the casts to `void*` off the kernels that host code launches through the runtime API, so that
//! their parameters are known: `cudaLaunchKernel((void*)kernel, ...)`.

use super::edits::Edits;
use super::host::Context;
use super::lexer::Tokens;

/// The functions whose first argument is a kernel.
const LAUNCH: [&str; 2] = ["cudaLaunchKernel", "cudaLaunchCooperativeKernel"];

/// Removes the casts.
pub(super) fn rewrite(context: &Context, edits: &mut Edits) {
    let (text, tokens) = (context.source.text, &context.tokens);
    for index in 0..tokens.len() {
        let launches = LAUNCH.iter().any(|name| tokens.is(text, index, name));
        if !launches || !tokens.is(text, index + 1, "(") {
            continue;
        }
        if let Some(end) = cast(text, tokens, index + 2) {
            edits.remove(text, tokens[index + 2].start..tokens[end - 1].end);
        }
    }
}

/// The token behind the cast to `void*` that begins at token `at`.
fn cast(text: &str, tokens: &Tokens, at: usize) -> Option<usize> {
    let is = |at: usize, word: &str| tokens.is(text, at, word);
    let (mut at, close) = match () {
        () if is(at, "(") => (at + 1, ")"),
        () if is(at, "reinterpret_cast") && is(at + 1, "<") => (at + 2, ">"),
        () => return None,
    };
    let mut voids = 0;
    while is(at, "const") || is(at, "void") {
        voids += usize::from(is(at, "void"));
        at += 1;
    }
    (voids == 1 && is(at, "*") && is(at + 1, close)).then_some(at + 2)
}
