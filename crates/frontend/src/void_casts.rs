//! Keeps the types of kernels that are cast to `void*`: they tell the parameters. In launches through the runtime API,
//! `cudaLaunchKernel((void*)kernel, ...)`, the casts come off. Elsewhere, as in `return (void*)kernel<T, 1>;`, a
//! function of the runtime takes their place.

use std::collections::BTreeSet;

use super::edits::Edits;
use super::host::HostContext;
use super::lexer::Tokens;

/// The functions with a kernel among their arguments, and its number.
const LAUNCHES: [(&str, usize); 3] =
    [("cudaLaunchKernel", 0), ("cudaLaunchCooperativeKernel", 0), ("cudaLaunchKernelExC", 1)];

/// Rewrites the casts.
pub(super) fn rewrite_void_casts(context: &HostContext, edits: &mut Edits) {
    let text = context.source.text;
    let tokens = &context.tokens;
    let launched_arguments = find_launched_arguments(text, tokens);
    for cast_index in 0..tokens.len() {
        let Some(cast_end) = skip_void_cast(text, tokens, cast_index) else { continue };
        let cast = tokens[cast_index].start..tokens[cast_end - 1].end;
        if launched_arguments.contains(&cast_index) {
            edits.remove(text, cast);
        } else if let Some(kernel_end) = skip_kernel(context, cast_end) {
            edits.remove(text, cast);
            edits.insert(tokens[cast_end].start, "::replay_rt::untyped_pointer(");
            edits.insert(tokens[kernel_end - 1].end, ")");
        }
    }
}

/// The first tokens of the kernels in launches through the runtime API.
fn find_launched_arguments(text: &str, tokens: &Tokens) -> BTreeSet<usize> {
    let mut arguments_launched = BTreeSet::new();
    for index in 0..tokens.len() {
        let launch = LAUNCHES.iter().find(|(name, _)| tokens.is_spelled_at(text, index, name));
        let Some((_, kernel_number)) = launch else { continue };
        let Some(list_end) = tokens.skip_group(index + 1) else { continue };
        let arguments = tokens.split_arguments(text, index + 2..list_end - 1);
        arguments_launched.extend(arguments.get(*kernel_number).map(|kernel| kernel.start));
    }
    arguments_launched
}

/// The token behind the kernel at `token_index`: `k`, `&a::k<T, 1>` or one of these in parentheses.
fn skip_kernel(context: &HostContext, mut token_index: usize) -> Option<usize> {
    let text = context.source.text;
    let tokens = &context.tokens;
    if tokens.text_at(text, token_index) == "(" {
        let group_end = tokens.skip_group(token_index)?;
        let kernel_end = skip_kernel(context, token_index + 1)?;
        return (kernel_end + 1 == group_end).then_some(group_end);
    }
    if tokens.text_at(text, token_index) == "&" {
        token_index += 1;
    }
    if tokens.text_at(text, token_index) == "::" {
        token_index += 1;
    }
    while tokens.text_at(text, token_index + 1) == "::" {
        token_index += 2;
    }
    let is_kernel = context.symbols.is_kernel(tokens.text_at(text, token_index));
    let name_end = token_index + 1;
    is_kernel.then(|| tokens.skip_angles(text, name_end).unwrap_or(name_end))
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
