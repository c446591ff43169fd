//! Sizes in bytes for the runtime API. A `float` is twice as wide in the float64 shadow, so a size without
//! `sizeof` counts half of it there.

use std::ops::Range;

use super::escape_c_string;
use super::host::HostContext;
use super::integer_variables::{SCALARS, names_doubles, names_floats, shares_floats_alone};
use super::launches;
use super::lexer::{TokenKind, Tokens, lex_directive, normalise_spacing};
use super::shadow::widen_text;
use super::source::Source;
use super::{ByteCount, edits::Edits};

/// Functions with a size in bytes: the indices of the pointer to the memory and of the size.
const SIZED: [(&str, usize, usize); 18] = [
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
    ("memmove", 0, 2),
    ("memset", 0, 2),
    ("__builtin_memcpy", 0, 2),
    ("__builtin_memmove", 0, 2),
    ("__builtin_memset", 0, 2),
];
/// Those of [`SIZED`] that write memory of any kind, in which nothing shows where a size covers a half.
pub(super) const COPIES: [&str; 6] =
    ["memcpy", "memmove", "memset", "__builtin_memcpy", "__builtin_memmove", "__builtin_memset"];
/// The index of the shared bytes in the configuration of a launch.
const SHARED_BYTES: usize = 2;
/// Possible sizes of a floating-point number, or of a vector of some, as literals.
const ELEMENT_BYTES: [u32; 4] = [2, 4, 8, 16];

/// A size in bytes among the tokens, and the pointer to its memory.
struct SizedCall {
    /// Its name or, in a launch, the first token of the size.
    start: usize,
    pointer: Option<Range<usize>>,
    /// What is copied from, or the value of `memset`.
    copied: Option<Range<usize>>,
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

/// Lets sizes in bytes for `float` count those of a double: a factor 4 behind a pointer that may lead there, where the
/// compiler decides by the type of the pointer, and any number of bytes behind one that is declared so. A copy of a
/// number of bytes behind another pointer ends the shadow if these are numbers, and so does that of a part of a class.
/// Shared bytes of launches count where the file shares floats alone.
pub(super) fn widen_byte_counts(context: &HostContext, edits: &mut Edits) {
    let text = context.source.text;
    let tokens = &context.tokens;
    let shares_floats = shares_floats_alone(context);
    for call in sized_calls(text, tokens) {
        if call.start == call.size.start {
            if shares_floats && counts_float_bytes(context, &call.size) {
                edits.insert(tokens[call.size.start].start, "(");
                edits.insert(tokens[call.size.end - 1].end, ") * 2");
            }
            continue;
        }
        let Some(pointer) = call.pointer.and_then(|range| plain_pointer(text, tokens, range))
        else {
            continue;
        };
        let size = &call.size;
        let spell = |range: Range<usize>| {
            let bytes = tokens[range.start].start..tokens[range.end - 1].end;
            let spelled = edits.applied(text, bytes.clone());
            // A cast in front of the range may be a call by now that ends in it.
            let count = |bracket| spelled.matches(bracket).count();
            let is_balanced = count('(') == count(')');
            let spelled = if is_balanced { spelled } else { widen_text(&text[bytes]) };
            spelled.replace(['\n', '\r'], " ")
        };
        let spelled = spell(pointer.clone());
        let pointers = &tokens[call.start.min(pointer.start)..size.start.max(pointer.end)];
        let factor = float_bytes(text, tokens, size).map(|at| at..at + 1);
        let is_whole = factor.is_none()
            && names_floats(context, pointers)
            && counts_float_bytes(context, size);
        let counted = factor.or_else(|| is_whole.then(|| size.clone()));
        let is_literal_copy = COPIES.contains(&tokens.text_at(text, call.start))
            && is_literal_product(text, tokens, size);
        if is_literal_copy {
            let is_known = counted.is_some() || names_doubles(context, pointers);
            let copied = call.copied.and_then(|range| plain_pointer(text, tokens, range));
            let copied = copied.map_or_else(|| spelled.clone(), spell);
            let what = normalise_spacing(text, &tokens[call.start..=size.end]);
            let (what, path) = (escape_c_string(&what), escape_c_string(context.source.path));
            let line = context.source.line(tokens[call.start].start);
            let guard = format!(
                "::replay_rt::literal_bytes<{is_known}, decltype({spelled}), decltype({copied})>\
                 (\"{what}\", \"{path}\", {line}, "
            );
            edits.insert(tokens[size.start].start, guard);
        }
        if let Some(counted) = &counted {
            let (open, close) = if counted.len() > 1 { ("((", ")") } else { ("(", "") };
            let width = format!("{close} * ::replay_rt::float_width<decltype({spelled})>)");
            edits.insert(tokens[counted.start].start, open);
            edits.insert(tokens[counted.end - 1].end, width);
        }
        if is_literal_copy {
            edits.insert(tokens[size.end - 1].end, ")");
        }
    }
}

/// Whether `size`, or the value of the variable that it is, is a number of bytes for whole floats, written without `sizeof`:
/// a product with a multiple of 4, or a shift by 2 and more.
fn counts_float_bytes(context: &HostContext, size: &Range<usize>) -> bool {
    let text = context.source.text;
    let tokens = &context.tokens;
    let meant = find_local_initialiser(context, tokens, size).unwrap_or(size.clone());
    let mut has_multiple = false;
    let mut at = meant.start;
    while at < meant.end {
        if let Some(after) = tokens.skip_group(at) {
            if !is_cast(text, tokens, at..after) {
                return false;
            }
            at = after;
            continue;
        }
        let shifts = is_shift(text, tokens, at);
        at += if shifts { 2 } else { 0 };
        match integer_literal(text, tokens, at) {
            Some(bits) if shifts => has_multiple |= bits >= 2,
            Some(value) => has_multiple |= value % 4 == 0,
            None if tokens.is_spelled_at(text, at, "sizeof") => return false,
            None if tokens[at].kind == TokenKind::Ident => {}
            None if ["*", ".", "->", "::"]
                .iter()
                .any(|spelling| tokens.is_spelled_at(text, at, spelling)) => {}
            None => return false,
        }
        at += 1;
    }
    has_multiple
}

/// Whether `<<` stands at `index`.
fn is_shift(text: &str, tokens: &Tokens, index: usize) -> bool {
    (index..index + 2).all(|sign| tokens.is_spelled_at(text, sign, "<"))
}

/// Whether the parentheses at `range` hold the name of an integer type.
fn is_cast(text: &str, tokens: &Tokens, range: Range<usize>) -> bool {
    let words = &tokens[range.start + 1..range.end - 1];
    !words.is_empty()
        && words.iter().all(|word| {
            SCALARS.contains(&word.text(text)) || ["std", "::"].contains(&word.text(text))
        })
}

/// Whether `size` is a product of literals, of a half or more.
fn is_literal_product(text: &str, tokens: &Tokens, size: &Range<usize>) -> bool {
    let mut product = 1;
    for at in size.clone() {
        match integer_literal(text, tokens, at) {
            Some(value) => product *= u64::from(value),
            None if tokens.is_spelled_at(text, at, "*") => {}
            None => return false,
        }
    }
    product > 1 && product % 2 == 0
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
        let call = SizedCall {
            start: at,
            pointer: pointer.cloned(),
            copied: arguments.get(1).cloned(),
            size: size_range.clone(),
        };
        calls.push(call);
    }
    for launch in launches::find_launch_syntax(text, tokens) {
        let configuration = tokens.index_at(launch.open.end)..tokens.index_at(launch.close.start);
        let parts = tokens.split_arguments(text, configuration).into_iter();
        if let Some(size) = parts.filter(|part| !part.is_empty()).nth(SHARED_BYTES) {
            calls.push(SizedCall { start: size.start, pointer: None, copied: None, size });
        }
    }
    calls
}

/// The value that [`find_initialiser`] finds, if it is in the function around `size`.
pub(super) fn find_local_initialiser(
    context: &HostContext,
    tokens: &Tokens,
    size: &Range<usize>,
) -> Option<Range<usize>> {
    let function_at =
        |index: usize| context.function(tokens[index].start).map(|function| function.tokens.start);
    find_initialiser(context.source.text, tokens, size)
        .filter(|value| function_at(value.start) == function_at(size.start))
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
    read_integer(token.text(text))
}

/// The value of an integer literal.
pub(super) fn read_integer(literal: &str) -> Option<u32> {
    literal.trim_end_matches(['u', 'U', 'l', 'L']).parse().ok()
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
    fn any_number_of_bytes_counts_what_a_pointer_to_float_points_to() {
        let width = "::replay_rt::float_width<decltype(p)>";
        for size in ["n << 2", "4 * 8", "4096", "n * 16", "(size_t)n * 8"] {
            assert_eq!(
                shadow_of(&format!("cudaMemset(p, 0, {size});")),
                format!("cudaMemset(p, 0, (({size}) * {width}));").replace("((4096)", "(4096")
            );
        }
        assert_eq!(
            shadow_of("size_t bytes = n * 4; cudaMemset(p, 0, bytes);"),
            format!("size_t bytes = n * 4; cudaMemset(p, 0, (bytes * {width}));")
        );
        let of_another = "size_t bytes = n * sizeof(float); cudaMemset(p, 0, bytes);";
        assert_eq!(shadow_of(of_another), of_another.replace("float", "double"));
    }

    #[test]
    fn a_copy_of_a_number_of_bytes_is_widened_or_ends_the_shadow_or_is_of_doubles() {
        let float = shadow_of("float v[4], u[4]; memcpy(u, v, 16);");
        assert!(float.ends_with(", 1, (16 * ::replay_rt::float_width<decltype(u)>)));"), "{float}");
        assert!(float.contains("literal_bytes<true, decltype(u), decltype(v)>"), "{float}");
        let double = shadow_of("double v[2], u[2]; memcpy(u, v, 16);");
        let part = shadow_of("memcpy(p, (char*)&p[n] + 2, 2);");
        assert!(part.contains("literal_bytes<false, decltype(p), decltype(&p[n] + 2)>"), "{part}");
        assert!(double.ends_with("literal_bytes<true, decltype(u), decltype(v)>(\"memcpy(u, v, 16)\", \"a.cu\", 1, 16));"), "{double}");
        let any = shadow_of("T v[4], u[4]; __builtin_memcpy(u, v, 16);");
        assert_eq!(
            any,
            "T v[4], u[4]; ::memcpy(u, v, ::replay_rt::literal_bytes<false, decltype(u), decltype(v)>(\"__builtin_memcpy(u, v, 16)\", \"a.cu\", 1, 16));"
        );
    }

    #[test]
    fn shared_bytes_of_a_launch_are_widened_where_the_file_shares_floats_alone() {
        let launch = |shared: &str| {
            let text = format!(
                "__global__ void k() {{ {shared} }}\nvoid f(int n) {{ int bytes = n * 4; k<<<1, n, bytes>>>(); }}"
            );
            let unit = SourceUnit { path: "a.cu", text: &text };
            let symbols = scan_symbols(&[unit]);
            translate_for_host(&unit, &symbols, Precision::Shadow, Threads::Stacks).unwrap().text
        };
        assert!(launch("extern __shared__ float s[];").contains("(bytes) * 2"));
        for other in [
            "",
            "extern __shared__ int s[];",
            "extern __shared__ float s[]; extern __shared__ char c[];",
        ] {
            assert!(!launch(other).contains("* 2"), "{other}");
        }
    }

    #[test]
    fn what_is_no_product_with_a_factor_4_stays() {
        for size in [
            "n * 4 + 16",
            "n * 3",
            "n << 1",
            "4 * sizeof(*p)",
            "(n + 4) * n",
            "f(4)",
            "n / 4",
            "n * 4 / 2",
            "n - 4",
            "6 * n",
            "n ? 4 : 2",
        ] {
            let statement = format!("cudaMemset(p, 0, {size});");
            assert_eq!(shadow_of(&statement), statement);
        }
    }
}
