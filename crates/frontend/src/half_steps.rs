//! Rounding to the nearest integer written as `floor(x + 0.5f)` or `ceil(x - 0.5f)`. The float64 shadow calls a function
//! of its own there, which passes `x` unchanged where such rounding is passed. By tokens alone: a half that is added
//! elsewhere is not seen.

use std::ops::Range;

use super::lexer::{TokenKind, Tokens};

/// Functions, the sign of the half, and the shadow's function.
const STEPS: [(&[&str], &str, &str); 2] = [
    (&["floor", "floorf"], "+", "::replay_rt::floor_of_half"),
    (&["ceil", "ceilf"], "-", "::replay_rt::ceil_of_half"),
];
/// Operators that bind less than a sum.
const LOOSER: [&str; 17] =
    [",", "?", ":", "=", "<", ">", "<=", ">=", "==", "!=", "&", "|", "^", "&&", "||", "<<", ">>"];

/// The place of the function's name at `index`, with `std::` and `::`, and its name in the shadow, where it rounds so.
pub(super) fn find_half_step(
    text: &str,
    tokens: &Tokens,
    index: usize,
) -> Option<(Range<usize>, &'static str)> {
    let name = tokens[index].text(text);
    let (_, sign, shadow_name) = STEPS.iter().find(|(names, ..)| names.contains(&name))?;
    if !tokens.is_spelled_at(text, index + 1, "(") {
        return None;
    }
    let close = tokens.skip_group(index + 1)? - 1;
    let mut outer_tokens = Vec::new();
    let mut argument = index + 2;
    while argument < close {
        outer_tokens.push(tokens[argument]);
        argument = tokens.skip_group(argument).unwrap_or(argument + 1);
    }
    let is_sum = outer_tokens.iter().all(|token| !LOOSER.contains(&token.text(text)));
    let is_half = |at: usize| {
        outer_tokens.get(at).is_some_and(|token| {
            let digits = token.text(text).trim_end_matches(['f', 'F']);
            token.kind == TokenKind::Number && digits.parse() == Ok(0.5)
        })
    };
    let is_sign =
        |at: usize| outer_tokens.get(at).is_some_and(|token| token.is_spelled(text, sign));
    let last = outer_tokens.len().checked_sub(1)?;
    let is_behind = last > 1 && is_half(last) && is_sign(last - 1);
    let is_in_front = *sign == "+" && is_half(0) && is_sign(1);
    let before = |distance| index.checked_sub(distance).map_or("", |at| tokens.text_at(text, at));
    if !is_sum || !is_behind && !is_in_front || matches!(before(1), "." | "->") {
        return None;
    }
    let first = match (before(1), before(2)) {
        ("::", "std") => index - 2,
        ("::", _) if index.checked_sub(2).is_none_or(|at| tokens[at].kind != TokenKind::Ident) => {
            index - 1
        }
        ("::", _) => return None,
        _ => index,
    };
    Some((tokens[first].start..tokens[index].end, shadow_name))
}

#[cfg(test)]
mod tests {
    use crate::{Precision, SourceUnit, Threads, scan_symbols, translate_for_host};

    /// `code` of a kernel in the shadow.
    fn in_shadow(code: &str) -> String {
        let text = format!("__global__ void k(float* x, float s) {{ x[0] = {code}; }}\n");
        let unit = SourceUnit { path: "a.cu", text: &text };
        let made =
            translate_for_host(&unit, &scan_symbols(&[unit]), Precision::Shadow, Threads::Stacks);
        let made = made.unwrap().text;
        let (_, behind) = made.split_once("x[0] = ").unwrap();
        behind.split_once(';').unwrap().0.to_owned()
    }

    #[test]
    fn a_floor_of_a_half_more_is_rounding_to_the_nearest() {
        for (code, shadow) in [
            ("floorf(x[1] / s + 0.5f)", "::replay_rt::floor_of_half(x[1] / s + 0.5)"),
            ("std::floor(.5F + x[1] * s)", "::replay_rt::floor_of_half(.5 + x[1] * s)"),
            ("2 * ::floorf(x[1] + 0.5f)", "2 * ::replay_rt::floor_of_half(x[1] + 0.5)"),
            ("ceilf(x[1] - 0.5f)", "::replay_rt::ceil_of_half(x[1] - 0.5)"),
        ] {
            assert_eq!(in_shadow(code), shadow);
        }
    }

    #[test]
    fn another_floor_stays_one() {
        for code in [
            "floorf(x[1])",
            "floorf(x[1] + 0.25f)",
            "floorf(x[1] - 0.5f)",
            "floorf(0.5f)",
            "floorf(s > 1 ? x[1] : x[2] + 0.5f)",
            "floorf(0.5f * x[1])",
            "mine::floorf(x[1] + 0.5f)",
        ] {
            assert!(!in_shadow(code).contains("of_half"), "{code}");
        }
    }
}
