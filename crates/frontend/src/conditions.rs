//! Decides what code the preprocessor keeps, as far as the known names tell.

use std::ops::Range;

use super::lexer::{TokenKind, lex_directive};
use super::source::Source;

/// The groups of `#if` around the current line.
#[derive(Debug, Default)]
struct Conditions {
    groups: Vec<ConditionBranch>,
}

/// A group of `#if`. None: unknown.
#[derive(Debug)]
struct ConditionBranch {
    /// Whether the current branch is kept.
    kept: Option<bool>,
    /// Whether an earlier branch was.
    earlier: Option<bool>,
}

impl Conditions {
    /// Whether the preprocessor certainly leaves out the current line.
    fn leave_out(&self) -> bool {
        self.groups.iter().any(|group| group.kept == Some(false))
    }

    /// Takes in `line`, if it begins or ends a branch.
    fn read(&mut self, line: &str) {
        let Some((directive, condition_text)) = split_directive(line) else { return };
        match directive {
            "if" => self.open(evaluate_condition(condition_text)),
            "ifdef" => self.open(leading_identifier(condition_text).and_then(is_defined)),
            "ifndef" => {
                self.open(known_not(leading_identifier(condition_text).and_then(is_defined)))
            }
            "elif" => self.next(evaluate_condition(condition_text)),
            "else" => self.next(Some(true)),
            "endif" => _ = self.groups.pop(),
            _ => {}
        }
    }

    fn open(&mut self, kept: Option<bool>) {
        self.groups.push(ConditionBranch { kept, earlier: Some(false) });
    }

    fn next(&mut self, condition_value: Option<bool>) {
        let Some(group) = self.groups.last_mut() else { return };
        group.earlier = known_or(group.earlier, group.kept);
        group.kept = known_not(known_or(group.earlier, known_not(condition_value)));
    }
}

/// Whether `condition` holds.
fn evaluate_condition(condition: &str) -> Option<bool> {
    let mut condition_parser = Condition { text: condition };
    let value = condition_parser.any()?;
    condition_parser.text.trim().is_empty().then_some(value != 0)
}

/// The name of the directive on `line` and its arguments, without a comment at the end.
fn split_directive(line: &str) -> Option<(&str, &str)> {
    let directive_text = line.trim_start().strip_prefix('#')?.trim_start();
    let directive_text = directive_text.split("//").next()?;
    let end = directive_text.find(|c: char| !c.is_alphanumeric()).unwrap_or(directive_text.len());
    Some(directive_text.split_at(end))
}

/// The name at the start of `text`.
fn leading_identifier(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0).then(|| &text[..end])
}

/// The macros of the headers for the CPU (`runtime/include/replay/qualifiers.h`). Sources may define any others.
const SHIM: [(&str, i64); 9] = [
    ("__CUDACC__", 1),
    ("__NVCC__", 1),
    ("__CUDA_ARCH__", 900),
    ("__CUDACC_VER_MAJOR__", 12),
    ("__CUDACC_VER_MINOR__", 8),
    ("CUDART_VERSION", 12080),
    ("CUDA_VERSION", 12080),
    ("EIGEN_NO_CUDA", 1),
    ("EIGEN_DONT_VECTORIZE", 1),
];

/// Whether `name` is defined; None if unknown.
fn is_defined(name: &str) -> Option<bool> {
    shim_macro_value(name).map(|_| true)
}

/// The number behind the macro `name`, if known.
fn shim_macro_value(name: &str) -> Option<i64> {
    SHIM.iter().find(|(macro_name, _)| *macro_name == name).map(|(_, value)| *value)
}

/// The code of `source` left out under any definitions of the sources, in bytes.
pub(super) fn find_dropped_code(source: &Source) -> Vec<Range<usize>> {
    let mut conditions = Conditions::default();
    let mut dropped_start = None;
    let mut dropped_ranges = Vec::new();
    for token in source.tokens.iter().filter(|token| token.kind == TokenKind::Directive) {
        conditions.read(token.text(source.text));
        match (dropped_start, conditions.leave_out()) {
            (None, true) => dropped_start = Some(token.end),
            (Some(range_start), false) => {
                dropped_ranges.push(range_start..token.start);
                dropped_start = None;
            }
            _ => {}
        }
    }
    dropped_ranges
}

/// The unread rest of a condition. A value is None if it is unknown or the condition is not understood.
struct Condition<'t> {
    text: &'t str,
}

impl<'t> Condition<'t> {
    fn consume_word(&mut self, word: &str) -> bool {
        let text = self.text.trim_start();
        let text_after = text.strip_prefix(word);
        self.text = text_after.unwrap_or(text);
        text_after.is_some()
    }

    fn any(&mut self) -> Option<i64> {
        let mut value = self.parse_conjunction().map(|value| value != 0);
        while self.consume_word("||") {
            value = known_or(value, self.parse_conjunction().map(|value| value != 0));
        }
        value.map(i64::from)
    }

    fn parse_conjunction(&mut self) -> Option<i64> {
        let mut value = self.compared().map(|value| value != 0);
        while self.consume_word("&&") {
            let next_operand = self.compared().map(|value| value != 0);
            value = known_not(known_or(known_not(value), known_not(next_operand)));
        }
        value.map(i64::from)
    }

    fn compared(&mut self) -> Option<i64> {
        let left = self.value();
        let operator =
            ["==", "!=", "<=", ">=", "<", ">"].into_iter().find(|word| self.consume_word(word));
        let Some(operator) = operator else { return left };
        let right = self.value();
        let left = left?;
        let right = right?;
        Some(i64::from(match operator {
            "==" => left == right,
            "!=" => left != right,
            "<=" => left <= right,
            ">=" => left >= right,
            "<" => left < right,
            _ => left > right,
        }))
    }

    fn value(&mut self) -> Option<i64> {
        if self.consume_word("!") {
            return self.value().map(|value| i64::from(value == 0));
        }
        if self.consume_word("(") {
            let value = self.any();
            return if self.consume_word(")") { value } else { self.give_up() };
        }
        let word = self.word();
        if word == "defined" {
            let in_parentheses = self.consume_word("(");
            let name = self.word();
            if in_parentheses && !self.consume_word(")") {
                return self.give_up();
            }
            return is_defined(name).map(i64::from);
        }
        if word.is_empty() {
            return self.give_up();
        }
        word.parse().ok().or_else(|| shim_macro_value(word))
    }

    fn word(&mut self) -> &'t str {
        let text = self.text.trim_start();
        let word = leading_identifier(text).unwrap_or_default();
        self.text = &text[word.len()..];
        word
    }

    /// Drops the rest, so that no parse succeeds.
    fn give_up(&mut self) -> Option<i64> {
        self.text = "";
        None
    }
}

fn known_or(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

fn known_not(value: Option<bool>) -> Option<bool> {
    value.map(|value| !value)
}

/// How many conditionals of the preprocessor begin in the bytes of `range` and end behind it; none if one around its
/// start ends in it, or goes on with another branch.
pub(super) fn count_open_conditionals(source: &Source, range: Range<usize>) -> Option<usize> {
    let mut open_conditionals = 0usize;
    for &token in source.tokens.iter().filter(|token| range.contains(&token.start)) {
        if token.kind != TokenKind::Directive {
            continue;
        }
        let words = lex_directive(source.text, token);
        match words.first().map_or("", |word| word.text(source.text)) {
            "if" | "ifdef" | "ifndef" => open_conditionals += 1,
            "else" | "elif" | "elifdef" | "elifndef" if open_conditionals == 0 => return None,
            "endif" => open_conditionals = open_conditionals.checked_sub(1)?,
            _ => {}
        }
    }
    Some(open_conditionals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceUnit;

    #[test]
    fn conditions_on_what_the_shim_defines_are_decided_and_no_others() {
        let cases = [
            ("__CUDA_ARCH__ >= 800", Some(true)),
            ("__CUDA_ARCH__ == 800 || __CUDA_ARCH__ < 700", Some(false)),
            ("defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 800)", Some(false)),
            ("!defined __CUDACC__ && defined(ENABLE_BF16)", Some(false)),
            (
                "defined(ENABLE_BF16) && (__CUDACC_VER_MAJOR__ < 12) && \
                 !((__CUDA_ARCH__ >= 800) || !defined(__CUDA_ARCH__))",
                Some(false),
            ),
            ("defined(ENABLE_BF16)", None),
            ("ENABLE || __CUDA_ARCH__", Some(true)),
            ("CUDART_VERSION >= 11000", Some(true)),
            ("__CUDA_ARCH__ / 100 < 8", None),
            ("__has_include(<x>) && 0", None),
            ("0", Some(false)),
            ("(1", None),
        ];
        for (condition, expected) in cases {
            assert_eq!(evaluate_condition(condition), expected, "{condition}");
        }
    }

    #[test]
    fn branches_that_are_never_compiled_are_left_out() {
        let text = "a\n#if __CUDA_ARCH__ < 600\nb\n#ifdef X\nc\n#else\nd\n#endif\n#elif defined(Y)\ne\n#else\nf\n\
                    #endif\n#ifndef __CUDACC__\ng\n#else\nh\n#endif\n#else\n";
        let source = Source::new(&SourceUnit { path: "a.cu", text });
        let mut kept = text.to_owned();
        let mut ranges = find_dropped_code(&source);
        ranges.sort_by_key(|range| range.start);
        ranges.iter().rev().for_each(|range| kept.replace_range(range.clone(), "\n"));
        let kept: String = kept.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(kept, "aefh");
    }
}
