//! Where a name stands in the body of a function: as an argument of which call, behind which operator.

use std::ops::Range;

use super::lexer::{TokenKind, Tokens};

/// A launch has no more tokens between its `<<<` and `>>>`, and a call no more tokens before one of its arguments.
const MOST_TOKENS: usize = 1024;

/// The tokens of a file.
#[derive(Clone, Copy)]
pub(super) struct BodyTokens<'t> {
    pub text: &'t str,
    pub tokens: &'t Tokens,
}

/// The argument of a call in which a name stands.
pub(super) struct CallArgument<'t> {
    pub callee: &'t str,
    pub number: usize,
    pub tokens: Range<usize>,
}

impl<'t> BodyTokens<'t> {
    /// Whether the token at `index` is the variable `name` and no member of that name.
    pub(super) fn is_variable(&self, index: usize, name: &str) -> bool {
        let is_member =
            [".", "->", "::"].iter().any(|operator| self.is_spelled_before(index, operator));
        self.is_spelled(index, name) && !is_member
    }

    /// Whether a `*` before the pointer at `index` reads it, and multiplies nothing.
    pub(super) fn is_dereferenced(&self, index: usize) -> bool {
        let Some(before) = index.checked_sub(2).map(|before| self.tokens[before]) else {
            return false;
        };
        let ends_operand = match before.kind {
            TokenKind::Ident => before.text(self.text) != "return",
            TokenKind::Number => true,
            _ => [")", "]"].contains(&before.text(self.text)),
        };
        self.is_spelled_before(index, "*") && !ends_operand
    }

    /// Whether `==` or `!=` stands beside `index`.
    pub(super) fn is_compared_for_equality(&self, index: usize) -> bool {
        let is_equality = |first: usize| {
            (self.is_spelled(first, "=") || self.is_spelled(first, "!"))
                && self.is_spelled(first + 1, "=")
        };
        is_equality(index + 1) || index.checked_sub(2).is_some_and(is_equality)
    }

    /// The argument around `index` in the innermost parentheses around it; none outside of parentheses.
    pub(super) fn enclosing_argument(&self, index: usize) -> Option<CallArgument<'t>> {
        let mut open = index;
        loop {
            open = open.checked_sub(1).filter(|&open| open + MOST_TOKENS > index)?;
            match self.tokens[open].text(self.text) {
                ")" | "]" | "}" => {
                    open =
                        self.tokens.group_start(open).filter(|&open| open + MOST_TOKENS > index)?;
                }
                "(" => break,
                "[" | "{" | ";" => return None,
                _ => {}
            }
        }
        let close = self.tokens.skip_group(open)?.checked_sub(1)?;
        if close - open > MOST_TOKENS {
            return None;
        }
        let arguments = self.tokens.split_call_arguments(self.text, open + 1..close);
        let number = arguments.iter().position(|range| range.contains(&index))?;
        let callee = self.callee_before(open).unwrap_or_default();
        Some(CallArgument { callee, number, tokens: arguments[number].clone() })
    }

    /// Whether a check's parentheses stand around `index`, at any depth: `TORCH_CHECK(...)`, `CHECK_EQ(...)`, `assert(...)`.
    pub(super) fn is_in_check(&self, index: usize) -> bool {
        let mut before = index;
        while let Some(open) = before.checked_sub(1).filter(|&open| open + MOST_TOKENS > index) {
            before = open;
            match self.tokens[open].text(self.text) {
                ")" | "]" | "}" => match self.tokens.group_start(open) {
                    Some(start) => before = start,
                    None => return false,
                },
                "(" if self.callee_before(open).is_some_and(is_check) => return true,
                ";" | "{" => return false,
                _ => {}
            }
        }
        false
    }

    /// The name of the function whose arguments open at `open`, behind the template arguments and the configuration of
    /// a launch; of a cast, its type.
    pub(super) fn callee_before(&self, open: usize) -> Option<&'t str> {
        let last = open.checked_sub(1)?;
        let is_launch = last >= 2 && (last - 2..=last).all(|index| self.is_spelled(index, ">"));
        let mut name = last;
        if is_launch {
            let first = last.saturating_sub(MOST_TOKENS);
            name = (first..last).rev().find(|&index| self.is_spelled(index, "<<<"))?;
            name = name.checked_sub(1)?;
        }
        if self.is_spelled(name, ">") {
            let first = name.saturating_sub(MOST_TOKENS);
            let open_angle = (first..name).rev().find(|&index| self.is_spelled(index, "<"))?;
            let before = open_angle.checked_sub(1)?;
            name = if self.is_spelled(before, "static_cast") { open_angle + 1 } else { before };
        }
        (self.tokens[name].kind == TokenKind::Ident).then(|| self.tokens[name].text(self.text))
    }

    pub(super) fn is_spelled(&self, index: usize, spelling: &str) -> bool {
        self.tokens.is_spelled_at(self.text, index, spelling)
    }

    pub(super) fn is_spelled_before(&self, index: usize, spelling: &str) -> bool {
        index.checked_sub(1).is_some_and(|before| self.is_spelled(before, spelling))
    }
}

/// Whether a function or macro checks its arguments, by its name.
fn is_check(name: &str) -> bool {
    let lower = name.to_lowercase();
    lower.contains("check") || lower.contains("assert")
}
