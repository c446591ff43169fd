//! Sizes in bytes for the runtime API. A `float` is twice as wide in the float64 shadow, so a size without
//! `sizeof` counts half of it there.

use std::ops::Range;

use super::host::HostContext;
use super::launches;
use super::lexer::{TokenKind, Tokens, lex_directive, normalise_spacing};
use super::source::Source;
use super::{ByteCount, edits::Edits};

/// Functions with a size in bytes: the indices of the pointer to the memory and of the size.
const SIZED: [(&str, usize, usize); 14] = [
    ("cudaMalloc", 0, 1),
    ("cudaMallocAsync", 0, 1),
    ("cudaMallocManaged", 0, 1),
    ("cudaMallocHost", 0, 1),
    ("cudaHostAlloc", 0, 1),
    ("cudaMemset", 0, 2),
    ("cudaMemsetAsync", 0, 2),
    ("cudaMemcpy", 0, 2),
    ("cudaMemcpyAsync", 0, 2),
    ("cudaMemcpyToSymbol", 1, 2),
    ("cudaMemcpyFromSymbol", 0, 2),
    ("malloc", 0, 0),
    ("memcpy", 0, 2),
    ("memset", 0, 2),
];
/// The index of the shared bytes in the configuration of a launch.
const SHARED_BYTES: usize = 2;
/// Possible sizes of a floating-point number, or of a vector of some, as literals.
const ELEMENT_BYTES: [u32; 4] = [2, 4, 8, 16];

/// A size in bytes among the tokens, and the pointer to its memory.
struct SizedCall {
    pointer: Option<Range<usize>>,
    size: Range<usize>,
}

/// The sizes in bytes of `source` without a `sizeof`.
pub(super) fn find_byte_counts(source: &Source) -> Vec<ByteCount> {
    let text = source.text;
    let code = source.view(true);
    let directives = source.tokens.iter().filter(|token| token.kind == TokenKind::Directive);
    let mut counts = Vec::new();
    for tokens in std::iter::once(code).chain(directives.map(|&line| lex_directive(text, line))) {
        for call in sized_calls(text, &tokens) {
            let meant = find_initialiser(text, &tokens, &call.size).unwrap_or(call.size.clone());
            if mentions_word(text, &tokens, &meant, "sizeof") || is_zero(text, &tokens, &meant) {
                continue;
            }
            let has_literal = meant.clone().any(|at| {
                integer_literal(text, &tokens, at)
                    .is_some_and(|value| ELEMENT_BYTES.contains(&value))
            });
            counts.push(ByteCount {
                line: source.line(tokens[meant.start].start),
                written: normalise_spacing(text, &tokens[meant]),
                has_literal,
            });
        }
    }
    counts
}

/// Lets each literal 4 for the bytes of a `float` count those of a double. The compiler decides by the type of
/// the pointer.
pub(super) fn widen_byte_counts(context: &HostContext, edits: &mut Edits) {
    let text = context.source.text;
    let tokens = &context.tokens;
    for call in sized_calls(text, tokens) {
        let Some(pointer) = call.pointer.and_then(|range| plain_pointer(text, tokens, range))
        else {
            continue;
        };
        if let Some(at) = float_bytes(text, tokens, &call.size) {
            let pointer =
                edits.applied(text, tokens[pointer.start].start..tokens[pointer.end - 1].end);
            let width = format!(" * ::replay_rt::float_width<decltype({pointer})>)");
            let width = width.replace(['\n', '\r'], " ");
            edits.insert(tokens[at].start, "(");
            edits.insert(tokens[at].end, width);
        }
    }
}

/// The calls with a size in bytes among `tokens`.
fn sized_calls(text: &str, tokens: &Tokens) -> Vec<SizedCall> {
    let mut calls = Vec::new();
    for at in 0..tokens.len() {
        let function = SIZED.iter().find(|(name, ..)| tokens.is_spelled_at(text, at, name));
        let Some(&(_, pointer, size)) = function else { continue };
        let Some(after) =
            tokens.skip_group(at + 1).filter(|_| tokens.is_spelled_at(text, at + 1, "("))
        else {
            continue;
        };
        let mut arguments = tokens.split_arguments(text, at + 2..after - 1);
        arguments.retain(|part| !part.is_empty());
        let Some(size_range) = arguments.get(size) else { continue };
        let pointer = arguments.get(pointer).filter(|_| pointer != size);
        calls.push(SizedCall { pointer: pointer.cloned(), size: size_range.clone() });
    }
    for launch in launches::find_launch_syntax(text, tokens) {
        let configuration = tokens.index_at(launch.open.end)..tokens.index_at(launch.close.start);
        let parts = tokens.split_arguments(text, configuration).into_iter();
        if let Some(size) = parts.filter(|part| !part.is_empty()).nth(SHARED_BYTES) {
            calls.push(SizedCall { pointer: None, size });
        }
    }
    calls
}

/// The last value before `size` of the variable `size`; none if `size` is more than a name.
fn find_initialiser(text: &str, tokens: &Tokens, size: &Range<usize>) -> Option<Range<usize>> {
    let name = tokens[size.start];
    if size.len() != 1 || name.kind != TokenKind::Ident {
        return None;
    }
    let set = (1..size.start).rev().find(|&at| {
        tokens.is_spelled_at(text, at, "=") && tokens[at - 1].is_spelled(text, name.text(text))
    })?;
    let mut end = set + 1;
    while end < tokens.len()
        && ![";", ",", ")"].iter().any(|stop| tokens.is_spelled_at(text, end, stop))
    {
        end = tokens.skip_group(end).unwrap_or(end + 1);
    }
    (end > set + 1).then_some(set + 1..end)
}

fn mentions_word(text: &str, tokens: &Tokens, range: &Range<usize>, word: &str) -> bool {
    tokens[range.clone()].iter().any(|token| token.is_spelled(text, word))
}

fn is_zero(text: &str, tokens: &Tokens, range: &Range<usize>) -> bool {
    range.len() == 1 && integer_literal(text, tokens, range.start) == Some(0)
}

/// The value of the integer literal at `at`.
fn integer_literal(text: &str, tokens: &Tokens, at: usize) -> Option<u32> {
    let token = tokens.get(at).filter(|token| token.kind == TokenKind::Number)?;
    token.text(text).trim_end_matches(['u', 'U', 'l', 'L']).parse().ok()
}

/// The tokens of `pointer` without the cast before it, if its type can be asked for again.
fn plain_pointer(text: &str, tokens: &Tokens, pointer: Range<usize>) -> Option<Range<usize>> {
    let mut begin = pointer.start;
    if let Some(after) = tokens.skip_group(begin).filter(|&after| after < pointer.end)
        && tokens.is_spelled_at(text, after - 2, "*")
    {
        begin = after;
    }
    let is_plain = tokens[begin..pointer.end].iter().all(|token| match token.kind {
        TokenKind::Ident | TokenKind::Number => true,
        TokenKind::Punct => {
            ["&", "*", ".", "->", "+", "[", "]", "(", ")", "::"].contains(&token.text(text))
        }
        TokenKind::Text | TokenKind::Directive => false,
    });
    (is_plain && begin < pointer.end).then_some(begin..pointer.end)
}

/// The factor 4 of the product `size`. A product with an 8 may count doubles and has none.
fn float_bytes(text: &str, tokens: &Tokens, size: &Range<usize>) -> Option<usize> {
    if mentions_word(text, tokens, size, "sizeof") {
        return None;
    }
    let mut four = None;
    let mut at = size.start;
    while at < size.end {
        let starts_factor = at == size.start || tokens.is_spelled_at(text, at - 1, "*");
        if let Some(after) = tokens.skip_group(at) {
            // A cast stands before a factor.
            at = after;
            continue;
        }
        let token = tokens[at];
        match integer_literal(text, tokens, at) {
            Some(8) => return None,
            Some(4) if starts_factor => four = four.or(Some(at)),
            _ if matches!(token.kind, TokenKind::Ident | TokenKind::Number) => {}
            _ if ["*", ".", "->", "::"].iter().any(|spelling| token.is_spelled(text, spelling)) => {
            }
            _ => return None,
        }
        at += 1;
    }
    four.filter(|&at| at + 1 == size.end || tokens.is_spelled_at(text, at + 1, "*"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Precision, SourceUnit, Threads, scan_symbols, translate_for_host};

    fn counts(text: &str) -> Vec<(usize, String, bool)> {
        let counts = find_byte_counts(&Source::new(&SourceUnit { path: "a.cu", text }));
        counts.into_iter().map(|count| (count.line, count.written, count.has_literal)).collect()
    }

    fn shadow_of(statement: &str) -> String {
        let text = format!("void f(float* p, int n) {{ {statement} }}");
        let unit = SourceUnit { path: "a.cu", text: &text };
        let made =
            translate_for_host(&unit, &scan_symbols(&[unit]), Precision::Shadow, Threads::Stacks)
                .unwrap();
        let (_, body) = made.text.split_once("{ ").unwrap();
        body.trim_end_matches(" }").to_owned()
    }

    #[test]
    fn a_size_that_follows_sizeof_is_not_doubted() {
        let text = "__global__ void k();\nvoid f(float* p, int n) {\n\
                    size_t bytes = n * sizeof(float);\ncudaMalloc(&p, bytes);\n\
                    cudaMemset(p, 0, n * sizeof(*p));\nk<<<1, 2, 0>>>();\n\
                    k<<<1, 2>>>(); k<<<1, 2, n * sizeof(float)>>>(); }";
        assert_eq!(counts(text), []);
    }

    #[test]
    fn a_size_without_sizeof_is_named_where_it_is_written() {
        let text = "#define COPY(a, b, n) cudaMemcpy(a, b, (n) * 4, 0)\n\
                    __global__ void k();\nvoid f(float* p, int n, size_t bytes) {\n\
                    int own = 16 * n;\ncudaMalloc((void**)&p, own); cudaMemset(p, 0, bytes);\n\
                    k<<<1, n,\n64 * 4>>>(); }";
        let expected = [(4, "16 * n", true), (5, "bytes", false), (7, "64 * 4", true)];
        let macros = (1, "(n) * 4", true);
        let expected = expected.into_iter().chain([macros]);
        let expected = expected.map(|(line, text, literal)| (line, text.to_owned(), literal));
        assert_eq!(counts(text), expected.collect::<Vec<_>>());
    }

    #[test]
    fn a_factor_4_counts_the_bytes_of_what_the_pointer_points_to() {
        let width = "::replay_rt::float_width";
        assert_eq!(
            shadow_of("cudaMalloc((void**)&p, (size_t)n * 4u);"),
            format!("cudaMalloc((void**)&p, (size_t)n * (4u * {width}<decltype(&p)>));")
        );
        assert_eq!(
            shadow_of("cudaMemcpy(p + n, p, 4, cudaMemcpyDeviceToHost);"),
            format!(
                "cudaMemcpy(p + n, p, (4 * {width}<decltype(p + n)>), cudaMemcpyDeviceToHost);"
            )
        );
    }

    #[test]
    fn what_is_no_product_with_a_factor_4_stays() {
        for size in [
            "n * 4 + 16",
            "n << 2",
            "4 * 8",
            "4 * sizeof(*p)",
            "(n + 4) * n",
            "f(4)",
            "n / 4",
            "n * 4 / 2",
            "n - 4",
            "40 * n",
            "n ? 4 : 2",
        ] {
            let statement = format!("cudaMemset(p, 0, {size});");
            assert_eq!(shadow_of(&statement), statement);
        }
    }
}
