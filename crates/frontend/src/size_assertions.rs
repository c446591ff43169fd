//! Static assertions about sizes, in the float64 shadow: they hold for the sizes of the sources.
//!
//! A `double` of the shadow is a `float` or a `double` of the sources, and a class may be as large as there, or twice or
//! four times as large. So the condition is written once for the sizes of the shadow and once for each ratio. One of
//! them must hold.

use std::collections::BTreeSet;
use std::ops::Range;

use super::edits::Edits;
use super::host::HostContext;
use super::lexer::{TokenKind, Tokens};
use super::shadow;

/// How many times as large as in the sources a class may be.
const RATIOS: [usize; 3] = [1, 2, 4];

/// Rewrites the assertions in the file and in its macros.
pub(super) fn rewrite_size_assertions(context: &HostContext, edits: &mut Edits) {
    let text = context.source.text;
    for (tokens, _) in context.token_lists() {
        for index in 0..tokens.len() {
            if tokens.is_spelled_at(text, index, "static_assert")
                && let Some(condition) = size_condition(text, tokens, index + 1)
            {
                rewrite_condition(context, tokens, condition, edits);
            }
        }
    }
}

/// The condition of the assertion whose parentheses open at `open_parenthesis`, if it asks for the size of a type
/// or an expression in parentheses.
fn size_condition(text: &str, tokens: &Tokens, open_parenthesis: usize) -> Option<Range<usize>> {
    let arguments = open_parenthesis + 1..tokens.skip_group(open_parenthesis)? - 1;
    let condition = tokens.split_parameters(text, arguments).into_iter().next()?;
    let pastes = condition.clone().any(|index| tokens[index].text(text).starts_with('#'));
    let asks = condition.clone().any(|index| size_operand(text, tokens, index).is_some());
    (asks && !pastes).then_some(condition)
}

/// The parentheses behind the `sizeof` at `index`, brackets included.
fn size_operand(text: &str, tokens: &Tokens, index: usize) -> Option<Range<usize>> {
    let is_operator =
        tokens.is_spelled_at(text, index, "sizeof") && tokens.is_spelled_at(text, index + 1, "(");
    if is_operator { Some(index + 1..tokens.skip_group(index + 1)?) } else { None }
}

/// Adds to `condition` the same condition for the sizes of the sources, by each ratio.
fn rewrite_condition(
    context: &HostContext,
    tokens: &Tokens,
    condition: Range<usize>,
    edits: &mut Edits,
) {
    edits.insert(tokens[condition.start].start, "(");
    let mut others = ")".to_owned();
    for ratio in RATIOS {
        let other = spell_condition(context, tokens, condition.clone(), ratio);
        others.push_str(&format!(" || ({other})"));
    }
    edits.insert(tokens[condition.end - 1].end, others);
}

/// `condition` for one ratio, on one line, as the shadow has it.
fn spell_condition(
    context: &HostContext,
    tokens: &Tokens,
    condition: Range<usize>,
    ratio: usize,
) -> String {
    let text = context.source.text;
    let mut spelled = String::new();
    let mut operand_ends = BTreeSet::new();
    let mut previous_end = tokens[condition.start].start;
    for index in condition {
        let token = tokens[index];
        if token.kind == TokenKind::Directive {
            continue;
        }
        if previous_end < token.start {
            spelled.push(' ');
        }
        previous_end = token.end;
        if let Some(operand) = size_operand(text, tokens, index) {
            operand_ends.insert(operand.end);
            spelled.push_str("(::replay_rt::native_size<__typeof__");
        } else {
            spelled.push_str(&shadow::spell_token(context, token));
        }
        if operand_ends.contains(&(index + 1)) {
            spelled.push_str(&format!(", {ratio}>)"));
        }
    }
    spelled
}

#[cfg(test)]
mod tests {
    use crate::{Precision, SourceUnit, Threads, scan_symbols, translate_for_host};

    fn shadow_code(text: &str) -> String {
        let unit = SourceUnit { path: "a.cu", text };
        translate_for_host(&unit, &scan_symbols(&[unit]), Precision::Shadow, Threads::Stacks)
            .unwrap()
            .text
    }

    #[test]
    fn an_assertion_about_a_size_may_hold_for_any_ratio() {
        let text = "static_assert(sizeof(float) * N ==\n  16, \"a, b\");\n#define WIDE(T) static_assert(sizeof(T) > 2)\n";
        insta::assert_snapshot!(shadow_code(text), @r##"
        #line 1 "a.cu"
        static_assert((sizeof(double) * N ==
          16) || ((::replay_rt::native_size<__typeof__(double), 1>) * N == 16) || ((::replay_rt::native_size<__typeof__(double), 2>) * N == 16) || ((::replay_rt::native_size<__typeof__(double), 4>) * N == 16), "a, b");
        #define WIDE(T) static_assert((sizeof(T) > 2) || ((::replay_rt::native_size<__typeof__(T), 1>) > 2) || ((::replay_rt::native_size<__typeof__(T), 2>) > 2) || ((::replay_rt::native_size<__typeof__(T), 4>) > 2))
        "##);
    }

    #[test]
    fn other_assertions_stay() {
        for text in [
            "static_assert(N == 16, \"\");",
            "static_assert(sizeof...(T) == 2, \"\");",
            "int bytes = sizeof(T);",
        ] {
            assert_eq!(shadow_code(text), format!("#line 1 \"a.cu\"\n{text}"));
        }
    }
}
