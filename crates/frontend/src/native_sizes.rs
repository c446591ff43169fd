//! Sizes that decide something in the float64 shadow: a trait, the width of a vector, a template. There the size of a
//! type is the native one. Sizes that count bytes of memory follow the shadow.

use std::ops::Range;

use super::edits::Edits;
use super::host::HostContext;
use super::lexer::{TokenKind, Tokens};
use super::macros;

/// Bytes of a load, or of a number.
const LOADS: [&str; 8] = ["1", "2", "4", "8", "16", "32", "64", "128"];

/// Gives deciding sizes in the file and in its macros their native values.
pub(super) fn rewrite_deciding_sizes(context: &HostContext, edits: &mut Edits) {
    let text = context.source.text;
    for (tokens, _) in context.token_lists() {
        let mut assertion_end = 0;
        for index in 0..tokens.len() {
            if tokens.is_spelled_at(text, index, "static_assert") {
                assertion_end = tokens.skip_group(index + 1).unwrap_or(index);
            }
            if index < assertion_end || !tokens.is_spelled_at(text, index, "sizeof") {
                continue;
            }
            let Some(operand_end) = tokens.skip_group(index + 1) else { continue };
            let operand = index + 2..operand_end - 1;
            let is_double =
                operand.len() == 1 && tokens.is_spelled_at(text, operand.start, "double");
            if !is_double && decides(context, tokens, index..operand_end) {
                let word = tokens[index];
                edits.replace(word.start..word.end, "(::replay_rt::deciding_size<__typeof__");
                edits.insert(tokens[operand_end - 1].end, ">)");
            }
        }
    }
}

/// Whether the size in `range` is compared with a number, divides the bytes of a load, or is an argument of a template.
fn decides(context: &HostContext, tokens: &Tokens, range: Range<usize>) -> bool {
    let text = context.source.text;
    let word = |index: usize| tokens.text_at(text, index);
    let before = |back: usize| range.start.checked_sub(back).map_or("", word);
    let after = |ahead: usize| word(range.end + ahead);
    let is_operand = |word: &str| LOADS.contains(&word) || word == "sizeof";
    let is_comparison =
        |first: &str, second: &str| second == "=" && matches!(first, "=" | "!" | "<" | ">");
    if is_comparison(after(0), after(1)) && is_operand(after(2))
        || matches!(after(0), "<" | ">") && is_operand(after(1))
        || is_comparison(before(2), before(1)) && LOADS.contains(&before(3))
        || before(1) == "(" && before(2) == "switch"
    {
        return true;
    }
    if before(1) == "/" && (LOADS.contains(&before(2)) || is_load_constant(context, before(2))) {
        return true;
    }
    let scales = after(0) == "*"
        && tokens
            .get(range.end + 1)
            .is_some_and(|token| matches!(token.kind, TokenKind::Ident | TokenKind::Number));
    let closes = if scales { after(2) } else { after(0) };
    let opens =
        before(1) == "<" && range.start >= 2 && tokens[range.start - 2].kind == TokenKind::Ident;
    opens && matches!(closes, ">" | ",")
}

/// Whether `name` is a constant of the file for the bytes of a load.
fn is_load_constant(context: &HostContext, name: &str) -> bool {
    let text = context.source.text;
    let tokens = &context.tokens;
    let is_variable = tokens.windows(4).any(|four| {
        four[0].is_spelled(text, name)
            && four[1].is_spelled(text, "=")
            && LOADS.contains(&four[2].text(text))
            && four[3].is_spelled(text, ";")
    });
    let is_macro = |defined: &macros::Macro| {
        defined.name == name
            && defined.body.len() == 1
            && LOADS.contains(&defined.body[0].text(text))
    };
    !name.is_empty() && (is_variable || context.macros.iter().any(is_macro))
}

#[cfg(test)]
mod tests {
    use crate::{Precision, SourceUnit, Threads, scan_symbols, translate_for_host};

    #[test]
    fn a_size_that_decides_is_the_native_one_and_a_size_of_memory_is_not() {
        let shadow_code = |text: &str| {
            let unit = SourceUnit { path: "a.cu", text };
            let symbols = scan_symbols(&[unit]);
            let made = translate_for_host(&unit, &symbols, Precision::Shadow, Threads::Stacks);
            made.unwrap().text
        };
        for text in [
            "int n = 16 / sizeof(T);",
            "#define LOAD 16\nint n = LOAD / sizeof(T);",
            "bool wide = sizeof(T) == 4, wider = 2 < sizeof(U) ;",
            "using V = typename Bytes<sizeof(T) * N>::type;",
        ] {
            assert!(shadow_code(text).contains("deciding_size<__typeof__(T)>"), "{text}");
        }
        for text in [
            "size_t bytes = n * sizeof(T);",
            "int n = sizeof(int4) / sizeof(T);",
            "bool wide = sizeof(double) == 8;",
            "char* end = smem + sizeof(T) * 32;",
            "alignas(sizeof(T) * 4) T x[4];",
        ] {
            assert!(!shadow_code(text).contains("deciding_size"), "{text}");
        }
    }
}
