//! Takes the casts to `void*` off the kernels that host code launches through the runtime API, so that
//! their parameters are known: `cudaLaunchKernel((void*)kernel, ...)`.

use super::edits::Edits;
use super::host::HostContext;
use super::lexer::Tokens;

/// The functions whose first argument is a kernel.
const LAUNCH: [&str; 2] = ["cudaLaunchKernel", "cudaLaunchCooperativeKernel"];

/// Removes the casts.
pub(super) fn remove_void_casts(context: &HostContext, edits: &mut Edits) {
    let text = context.source.text;
    let tokens = &context.tokens;
    for index in 0..tokens.len() {
        let launches = LAUNCH.iter().any(|name| tokens.is_spelled_at(text, index, name));
        if !launches || !tokens.is_spelled_at(text, index + 1, "(") {
            continue;
        }
        if let Some(end) = skip_void_cast(text, tokens, index + 2) {
            edits.remove(text, tokens[index + 2].start..tokens[end - 1].end);
        }
    }
}

/// The token behind the cast to `void*` that begins at token `token_index`.
fn skip_void_cast(text: &str, tokens: &Tokens, token_index: usize) -> Option<usize> {
    let token_is = |index: usize, word: &str| tokens.is_spelled_at(text, index, word);
    let (mut inner_index, closing_word) = match () {
        () if token_is(token_index, "(") => (token_index + 1, ")"),
        () if token_is(token_index, "reinterpret_cast") && token_is(token_index + 1, "<") => {
            (token_index + 2, ">")
        }
        () => return None,
    };
    let mut voids = 0;
    while token_is(inner_index, "const") || token_is(inner_index, "void") {
        voids += usize::from(token_is(inner_index, "void"));
        inner_index += 1;
    }
    (voids == 1 && token_is(inner_index, "*") && token_is(inner_index + 1, closing_word))
        .then_some(inner_index + 2)
}
