//! Finds where device code takes floating-point numbers to integers: conversions by name, casts and declarations. By
//! tokens alone: a conversion without a word of floating point beside it is not seen.

use std::collections::HashSet;
use std::ops::Range;

use super::IntegerConversion;
use super::lexer::{TokenKind, Tokens, lex_directive, normalise_spacing};
use super::macros::parse_macro_definition;
use super::outline::outline_items;
use super::source::Source;

/// Names of CUDA's conversions up to the integer type.
const CONVERSIONS: [&str; 4] = ["__float2", "__double2", "__half2", "__bfloat162"];
/// The integer types in these names.
const CONVERTED: [&str; 8] =
    ["int_", "uint_", "ll_", "ull_", "short_", "ushort_", "char_", "uchar_"];
/// Functions of C with an integer for a result.
const TO_LONG: [&str; 8] =
    ["lrint", "lrintf", "llrint", "llrintf", "lround", "lroundf", "llround", "llroundf"];
/// Functions of C with a number for a result, here without `f` at the end.
const NUMBERS: [&str; 12] = [
    "round",
    "rint",
    "nearbyint",
    "floor",
    "ceil",
    "trunc",
    "fmin",
    "fmax",
    "fabs",
    "fma",
    "__fdividef",
    "__fmul_rn",
];
/// Words of integer types.
const INTEGERS: [&str; 16] = [
    "int", "char", "short", "long", "signed", "unsigned", "int8_t", "uint8_t", "int16_t",
    "uint16_t", "int32_t", "uint32_t", "int64_t", "uint64_t", "uint", "uchar",
];
/// Words of floating-point types.
const FLOATS: [&str; 7] =
    ["float", "double", "half", "__half", "__nv_bfloat16", "scalar_t", "floatX"];
/// Where an operand ends, outside of its brackets.
const OPERAND_ENDS: [&str; 19] =
    [";", ",", ")", "]", "}", "?", ":", "*", "/", "+", "-", "%", "<", ">", "=", "&", "|", "^", "{"];

/// The conversions in device code and in macros of `source`, by line.
pub(super) fn find_integer_conversions(source: &Source) -> Vec<IntegerConversion> {
    let text = source.text;
    let code = source.view(true);
    let mut found = Vec::new();
    for item in outline_items(text, &code) {
        if item.on_device(text, &code) {
            let is_before = |range: &Range<usize>| item.tokens.contains(&range.start);
            let ranges = list_conversions(text, &code, item.tokens.clone());
            found.extend(ranges.into_iter().filter(is_before).map(|range| IntegerConversion {
                line: source.line(code[range.start].start),
                written: normalise_spacing(text, &code[range]),
            }));
        }
    }
    for directive in source.tokens.iter().filter(|token| token.kind == TokenKind::Directive) {
        if parse_macro_definition(text, *directive).is_some() {
            let tokens = lex_directive(text, *directive);
            for range in list_conversions(text, &tokens, 0..tokens.len()) {
                found.push(IntegerConversion {
                    line: source.line(tokens[range.start].start),
                    written: normalise_spacing(text, &tokens[range]),
                });
            }
        }
    }
    found.sort_by_key(|conversion| conversion.line);
    found.dedup();
    found
}

/// The conversions among `range` of `tokens`, the outermost of each expression.
fn list_conversions(text: &str, tokens: &Tokens, range: Range<usize>) -> Vec<Range<usize>> {
    let floats = collect_floats(text, tokens, range.clone());
    let is_floating = |part: Range<usize>| {
        part.into_iter().any(|at| {
            let word = tokens.text_at(text, at);
            match tokens[at].kind {
                TokenKind::Ident => floats.contains(word) || is_number_function(word),
                TokenKind::Number => is_float_literal(word),
                _ => false,
            }
        })
    };
    let mut conversions = Vec::new();
    let mut at = range.start;
    while at < range.end.min(tokens.len()) {
        let word = tokens.text_at(text, at);
        let conversion = if is_conversion(word) {
            tokens.skip_group(at + 1).map(|end| at..end)
        } else if word == "static_cast" && tokens.is_spelled_at(text, at + 1, "<") {
            tokens
                .skip_angles(text, at + 1)
                .filter(|&open| is_integer_type(text, tokens, at + 2..open - 1))
                .and_then(|open| Some((open, tokens.skip_group(open)?)))
                .filter(|&(open, end)| is_floating(open..end))
                .map(|(_, end)| at..end)
        } else if word == "(" {
            tokens
                .skip_group(at)
                .filter(|&operand| is_integer_type(text, tokens, at + 1..operand - 1))
                .map(|operand| (operand, find_operand_end(text, tokens, operand)))
                .filter(|&(operand, end)| is_floating(operand..end))
                .map(|(_, end)| at..end)
        } else if INTEGERS.contains(&word) {
            find_declared_value(text, tokens, at)
                .filter(|value| is_number_function(tokens.text_at(text, value.start)))
        } else {
            None
        };
        match conversion {
            Some(conversion) => {
                at = conversion.end;
                conversions.push(conversion);
            }
            None => at += 1,
        }
    }
    conversions
}

/// The value behind `=` of a declaration of one integer whose type has a word at `index`, without `std::` in front.
fn find_declared_value(text: &str, tokens: &Tokens, index: usize) -> Option<Range<usize>> {
    let is_declaration = tokens.get(index + 1)?.kind == TokenKind::Ident
        && tokens.is_spelled_at(text, index + 2, "=");
    if !is_declaration {
        return None;
    }
    let mut start = index + 3;
    while tokens.is_spelled_at(text, start, "::") || tokens.is_spelled_at(text, start, "std") {
        start += 1;
    }
    let call_end = tokens.skip_group(start + 1)?;
    tokens.is_spelled_at(text, call_end, ";").then_some(start..call_end)
}

/// The names declared as numbers, pointers to numbers or arrays of them.
fn collect_floats<'t>(text: &'t str, tokens: &Tokens, range: Range<usize>) -> HashSet<&'t str> {
    let mut names = HashSet::new();
    let mut is_type = false;
    for at in range {
        let word = tokens.text_at(text, at);
        match tokens[at].kind {
            TokenKind::Ident if FLOATS.contains(&word) => is_type = true,
            TokenKind::Ident if matches!(word, "const" | "__restrict__" | "__restrict") => {}
            TokenKind::Ident if is_type => {
                names.insert(word);
                is_type = false;
            }
            TokenKind::Punct if matches!(word, "*" | "&") => {}
            _ => is_type = false,
        }
    }
    names
}

/// Where the operand of a cast at `index` ends.
fn find_operand_end(text: &str, tokens: &Tokens, index: usize) -> usize {
    let mut end = index;
    while ["-", "+", "::"].iter().any(|sign| tokens.is_spelled_at(text, end, sign)) {
        end += 1;
    }
    while end < tokens.len() && !OPERAND_ENDS.contains(&tokens.text_at(text, end)) {
        end = tokens.skip_group(end).unwrap_or(end + 1);
    }
    end
}

fn is_integer_type(text: &str, tokens: &Tokens, range: Range<usize>) -> bool {
    let mut words = range.map(|at| tokens.text_at(text, at)).filter(|word| *word != "const");
    let first = words.next();
    first.is_some_and(|word| INTEGERS.contains(&word)) && words.all(|word| INTEGERS.contains(&word))
}

fn is_conversion(word: &str) -> bool {
    let is_cuda = CONVERSIONS.iter().any(|start| {
        word.strip_prefix(start)
            .is_some_and(|rest| CONVERTED.iter().any(|integer| rest.starts_with(integer)))
    });
    is_cuda || TO_LONG.contains(&word)
}

fn is_number_function(word: &str) -> bool {
    NUMBERS.contains(&word) || word.strip_suffix('f').is_some_and(|word| NUMBERS.contains(&word))
}

fn is_float_literal(word: &str) -> bool {
    !word.starts_with("0x") && (word.contains('.') || word.ends_with(['f', 'F']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceUnit;

    fn conversions(text: &str) -> Vec<(usize, String)> {
        let found = find_integer_conversions(&Source::new(&SourceUnit { path: "a.cu", text }));
        found.into_iter().map(|found| (found.line, found.written)).collect()
    }

    #[test]
    fn numbers_go_to_integers_by_name_by_cast_and_by_declaration() {
        for code in [
            "__float2int_rn(v / s)",
            "__half2short_rz(h)",
            "std::lrintf(v)",
            "lroundf(v)",
            "(int8_t)roundf(v / s)",
            "(unsigned char)(v * 255)",
            "(int)x[i]",
            "static_cast<const int8_t>(fminf(v, 127))",
            "static_cast<int>(n * 0.5f)",
            "(long long)-v",
        ] {
            let text = format!(
                "__global__ void k(const float* __restrict__ x, int8_t* q, float s, half h, int i, int n)\n\
                 {{ float v = x[i];\nq[i] = {code}; }}"
            );
            let written = code.trim_start_matches("std::").to_owned();
            assert_eq!(conversions(&text), [(3, written)], "{code}");
        }
        let declared = "__device__ int f(float v) {\nint8_t q = std::roundf(v);\nreturn q; }";
        assert_eq!(conversions(declared), [(2, "roundf(v)".to_owned())]);
        let in_macro = "#define Q(v) ((int)rintf(v))\n";
        assert_eq!(conversions(in_macro), [(1, "(int)rintf(v)".to_owned())]);
    }

    #[test]
    fn integers_host_code_and_looks_at_bits_are_none() {
        for text in [
            "__global__ void k(const float* x, long n) { int i = (int)n; int j = (int)(n / 2); }",
            "__global__ void k(const float* x) { const int* p = (const int*)x; }",
            "__global__ void k(float v) { int bits = __float_as_int(v); float w = (float)bits; }",
            "__global__ void k(float v) { float w = roundf(v); }",
            "void f(float v) { int n = (int)ceilf(v); }",
        ] {
            assert_eq!(conversions(text), [], "{text}");
        }
    }
}
