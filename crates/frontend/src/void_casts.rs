//! Takes the casts to `void*` off kernels in launches through the runtime API, `cudaLaunchKernel((void*)kernel, ...)`.
//! Their types tell the parameters.

use super::edits::Edits;
use super::host::HostContext;
use super::lexer::Tokens;

/// The functions with a kernel among their arguments, and its number.
const LAUNCHES: [(&str, usize); 3] =
    [("cudaLaunchKernel", 0), ("cudaLaunchCooperativeKernel", 0), ("cudaLaunchKernelExC", 1)];

/// Removes the casts.
pub(super) fn remove_void_casts(context: &HostContext, edits: &mut Edits) {
    let text = context.source.text;
    let tokens = &context.tokens;
    for index in 0..tokens.len() {
        let launch = LAUNCHES.iter().find(|(name, _)| tokens.is_spelled_at(text, index, name));
        let Some((_, kernel_number)) = launch else { continue };
        let Some(list_end) = tokens.skip_group(index + 1) else { continue };
        let arguments = tokens.split_arguments(text, index + 2..list_end - 1);
        let Some(kernel) = arguments.get(*kernel_number) else { continue };
        if let Some(end) = skip_void_cast(text, tokens, kernel.start) {
            edits.remove(text, tokens[kernel.start].start..tokens[end - 1].end);
        }
    }
}

/// The token behind the cast to `void*` at token `token_index`.
fn skip_void_cast(text: &str, tokens: &Tokens, token_index: usize) -> Option<usize> {
    let mut inner_index = token_index + 1;
    let mut closing_word = ")";
    if tokens.text_at(text, token_index) == "reinterpret_cast"
        && tokens.text_at(text, token_index + 1) == "<"
    {
        inner_index = token_index + 2;
        closing_word = ">";
    } else if tokens.text_at(text, token_index) != "(" {
        return None;
    }
    let mut voids = 0;
    while matches!(tokens.text_at(text, inner_index), "const" | "void") {
        voids += usize::from(tokens.text_at(text, inner_index) == "void");
        inner_index += 1;
    }
    (voids == 1
        && tokens.text_at(text, inner_index) == "*"
        && tokens.text_at(text, inner_index + 1) == closing_word)
        .then_some(inner_index + 2)
}
