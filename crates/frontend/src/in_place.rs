//! Has checked builds copy what a call returns into an object that is made in place.
//!
//! In C++17 the result of a call that initialises an object, or a member of one, is made in the object itself (C++17,
//! [dcl.init]/17.6.1). g++ tells its thread instrumentation nothing of it, but does of a copy. `REPLAY_BY_COPY`, around
//! such a call, makes its result a temporary. Objects made in place are those of `new`, and members in the
//! initialisers of constructors. Default initialisers of members keep their calls, and so does a `new` in a macro the calls
//! among the arguments of the macro.

use std::ops::Range;

use super::edits::Edits;
use super::host::HostContext;
use super::lexer::{TokenKind, Tokens};

/// Rewrites the initialisers of `new` and of constructors, in the file and in its macros.
pub(super) fn copy_call_results(context: &HostContext, edits: &mut Edits) {
    let text = context.source.text;
    for (tokens, _) in context.token_lists() {
        let mut copier = ResultCopier { text, tokens, edits };
        for index in 0..tokens.len() {
            if tokens.is_spelled_at(text, index, "new") {
                copier.copy_in_new_expression(index);
            }
        }
    }
    let mut copier = ResultCopier { text, tokens: &context.tokens, edits };
    for function in &context.functions {
        copier.copy_in_member_initialisers(function.name_at, function.body.start);
    }
}

/// The list of tokens that initialisers stand in.
struct ResultCopier<'c> {
    text: &'c str,
    tokens: &'c Tokens,
    edits: &'c mut Edits,
}

impl ResultCopier<'_> {
    fn is_spelled_at(&self, token_index: usize, spelling: &str) -> bool {
        self.tokens.is_spelled_at(self.text, token_index, spelling)
    }

    /// The expression whose `new` stands at `new_index`.
    fn copy_in_new_expression(&mut self, new_index: usize) {
        let mut type_start = new_index + 1;
        if self.is_spelled_at(type_start, "(") {
            let Some(place_end) = self.tokens.skip_group(type_start) else { return };
            type_start = place_end;
        }
        let initialiser = self.skip_type(type_start);
        if initialiser > type_start {
            self.copy_in_initialiser(initialiser);
        }
    }

    /// The initialisers of a constructor's members, behind the parameters of the function that is named at `name_at`
    /// and whose body begins at `body_start`.
    fn copy_in_member_initialisers(&mut self, name_at: usize, body_start: usize) {
        let mut index = name_at;
        while index < body_start && !self.is_spelled_at(index, ":") {
            index = self.tokens.skip_group(index).unwrap_or(index + 1);
        }
        while index < body_start {
            let initialiser = self.skip_type(index + 1);
            self.copy_in_initialiser(initialiser);
            let Some(end) = self.tokens.skip_group(initialiser) else { return };
            index = end;
            while self.is_spelled_at(index, ".") {
                index += 1;
            }
        }
    }

    /// The first token behind the type, or the name of a member, that begins at `start`.
    fn skip_type(&self, start: usize) -> usize {
        let mut index = start;
        while let Some(token) = self.tokens.get(index) {
            let after = match token.text(self.text) {
                "decltype" => self.tokens.skip_group(index + 1),
                "<" => self.tokens.skip_angles(self.text, index),
                "[" => self.tokens.skip_group(index),
                "::" | "*" | "&" | "##" => Some(index + 1),
                _ => (token.kind == TokenKind::Ident).then_some(index + 1),
            };
            let Some(after) = after else { break };
            index = after;
        }
        index
    }

    /// `(value)` or `{values}`, if it opens at `open_bracket`. Several values in parentheses are the arguments of a
    /// constructor.
    fn copy_in_initialiser(&mut self, open_bracket: usize) {
        let Some(end) = self.tokens.skip_group(open_bracket) else { return };
        let is_list = self.is_spelled_at(open_bracket, "{");
        if !is_list && !self.is_spelled_at(open_bracket, "(") {
            return;
        }
        let values = self.tokens.split_parameters(self.text, open_bracket + 1..end - 1);
        if is_list || values.len() == 1 {
            values.into_iter().for_each(|value| self.copy_value(value));
        }
    }

    /// One value of an initialiser, `.member = value` or a list of its own among them.
    fn copy_value(&mut self, mut value: Range<usize>) {
        if self.is_spelled_at(value.start, ".") && self.is_spelled_at(value.start + 2, "=") {
            value.start += 3;
        }
        if self.is_spelled_at(value.start, "{") {
            return self.copy_in_initialiser(value.start);
        }
        let has_call = value.clone().any(|index| self.is_spelled_at(index, "("));
        let holds_directive =
            self.tokens[value.clone()].iter().any(|token| token.kind == TokenKind::Directive);
        let (Some(first), Some(last)) = (value.clone().next(), value.last()) else { return };
        // The points of `values...` are tokens of their own.
        if has_call && !holds_directive && !self.is_spelled_at(last, ".") {
            self.edits.insert(self.tokens[first].start, "REPLAY_BY_COPY(");
            self.edits.insert(self.tokens[last].end, ")");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Precision, SourceUnit, Threads, scan_symbols, translate_for_host};

    fn checked_build(text: &str) -> String {
        let unit = SourceUnit { path: "a.cu", text };
        let symbols = scan_symbols(&[unit]);
        let made = translate_for_host(&unit, &symbols, Precision::Checked, Threads::Stacks);
        made.unwrap().text.split_once('\n').unwrap().1.to_owned()
    }

    #[test]
    fn calls_whose_results_are_made_in_place_are_wrapped() {
        insta::assert_snapshot!(checked_build("\
#define MAKE(at, f) new (at) W(merge(f))
void f() {
  new (p) W(merge(a, b));
  ::new (p) ns::T<int, 4>{merge(a), 1, {b, first(c)}, .w = merge(d)};
  new (p) W[2]{merge(a), b};
  new (p) W(new (q) V(merge(a)));
  new W(merge(a));
}
struct S {
  S(float f) : w(merge(f)), N::Base<2>{f, merge(f)}, n(f) {}
};
"), @"
        #define MAKE(at, f) new (at) W(REPLAY_BY_COPY(merge(f)))
        void f() {
          new (p) W(REPLAY_BY_COPY(merge(a, b)));
          ::new (p) ns::T<int, 4>{REPLAY_BY_COPY(merge(a)), 1, {b, REPLAY_BY_COPY(first(c))}, .w = REPLAY_BY_COPY(merge(d))};
          new (p) W[2]{REPLAY_BY_COPY(merge(a)), b};
          new (p) W(REPLAY_BY_COPY(new (q) V(REPLAY_BY_COPY(merge(a)))));
          new W(REPLAY_BY_COPY(merge(a)));
        }
        struct S {
          S(float f) : w(REPLAY_BY_COPY(merge(f))), N::Base<2>{f, REPLAY_BY_COPY(merge(f))}, n(f) {}
        };
        ");
    }

    #[test]
    fn what_calls_nothing_or_is_no_initialiser_stays_as_it_is() {
        let text = "\
#define MAKE(at, T, ...) new (at) T(__VA_ARGS__)
void* operator new(size_t n, P p) { return at(p); }
void f() {
  new (p) W;
  new (p) W(a);
  new (p) W{};
  new (p) W(a, merge(b));
  new (p) W(merge(a)...);
  float* q = new float[size(a)];
  int n = c ? f(a) : g(b);
  for (auto v : list(a)) {}
}
struct S { int n : width(3); void f() const noexcept(g(1)) {} };
";
        assert_eq!(checked_build(text), text);
    }
}
