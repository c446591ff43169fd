//! Judges the effect of one mention of a variable by the tokens around it. A mention counts as the worst unless it
//! is certainly harmless.

use super::facts::Facts;
use super::yield_points::ATOMICS;
use crate::syntax::lexer::{TokenKind, Tokens};

/// The effect of a mention, from the harmless to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    /// Its value is read.
    Read,
    /// It is given a value, here and now.
    Write,
    /// Its address or a reference to it may be kept.
    Escape,
}

/// Functions of CUDA and C: they take their arguments by value, or do not keep them.
const BY_VALUE: [&str; 64] = [
    "abs",
    "ceil",
    "ceilf",
    "cosf",
    "cos",
    "erff",
    "erf",
    "exp",
    "exp2f",
    "expf",
    "expm1f",
    "fabs",
    "fabsf",
    "floor",
    "floorf",
    "fma",
    "fmaf",
    "fmax",
    "fmaxf",
    "fmin",
    "fminf",
    "fmod",
    "fmodf",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log1pf",
    "log2f",
    "logf",
    "make_float2",
    "make_float4",
    "make_int2",
    "make_int4",
    "max",
    "min",
    "pow",
    "powf",
    "roundf",
    "rsqrt",
    "rsqrtf",
    "sin",
    "sinf",
    "sqrt",
    "sqrtf",
    "tanh",
    "tanhf",
    "printf",
    "__ldg",
    "__ldcs",
    "__stcs",
    "__stcg",
    "__expf",
    "__logf",
    "__fdividef",
    "__fsqrt_rn",
    "__float2bfloat16",
    "__float2half",
    "__popc",
    "__saturatef",
    "__shfl_sync",
    "__shfl_xor_sync",
    "__shfl_down_sync",
    "__shfl_up_sync",
];

/// Words before parentheses without a call.
const KEYWORDS: [&str; 19] = [
    "if", "while", "switch", "return", "sizeof", "for", "int", "float", "double", "unsigned",
    "long", "short", "char", "bool", "size_t", "int64_t", "uint64_t", "int32_t", "uint32_t",
];

/// Judges the mention at token `token_index`.
pub(super) fn classify_variable_use(
    text: &str,
    tokens: &Tokens,
    facts: &Facts,
    token_index: usize,
) -> Use {
    Mention { text, tokens, facts }.judge(token_index)
}

/// Whether `word` in front of parentheses is a function of the headers that does nothing but return a value, or no
/// function.
pub(super) fn is_value_function(facts: &Facts, word: &str) -> bool {
    let is_effect = ["printf", "__st", "__shfl"].iter().any(|prefix| word.starts_with(prefix));
    let is_pure = BY_VALUE.contains(&word) && !is_effect;
    KEYWORDS.contains(&word) || is_pure && !facts.is_defined(word) && !facts.is_macro(word)
}

/// Judges the effect of the mention at token `token_index` on the elements of an object and of its members.
pub(super) fn classify_element_use(
    text: &str,
    tokens: &Tokens,
    facts: &Facts,
    token_index: usize,
) -> Use {
    Mention { text, tokens, facts }.judge_element(token_index)
}

struct Mention<'t> {
    text: &'t str,
    tokens: &'t Tokens,
    facts: &'t Facts,
}

impl Mention<'_> {
    /// The text of the token at `token_index`; empty outside of the tokens.
    fn word(&self, token_index: Option<usize>) -> &str {
        token_index
            .and_then(|index| self.tokens.get(index))
            .map_or("", |token| token.text(self.text))
    }

    fn adjacent(&self, token_index: usize) -> bool {
        self.tokens
            .get(token_index + 1)
            .is_some_and(|next| next.start == self.tokens[token_index].end)
    }

    /// Whether the tokens from `token_index` are those of `operator`, without a gap.
    fn operator(&self, token_index: usize, operator: &str) -> bool {
        let count = operator.len();
        (0..count).all(|k| {
            self.word(Some(token_index + k)) == &operator[k..=k]
                && (k + 1 == count || self.adjacent(token_index + k))
        })
    }

    fn assigns(&self, token_index: usize) -> bool {
        let plain_assignment =
            self.word(Some(token_index)) == "=" && !self.operator(token_index, "==");
        let compound = ["+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"];
        plain_assignment || compound.iter().any(|operator| self.operator(token_index, operator))
    }

    fn judge(&self, token_index: usize) -> Use {
        let mut last = token_index;
        while self.word(Some(last + 1)) == "." {
            last += 2;
        }
        let index_before = token_index.checked_sub(1);
        let before2 = token_index.checked_sub(2);
        let previous = self.word(index_before);
        let next = self.word(Some(last + 1));
        if self.facts.is_macro(previous) || self.facts.is_macro(next) {
            return Use::Escape;
        }
        if last > token_index && next == "(" {
            return Use::Escape;
        }
        // A change to the target of a pointer leaves the pointer as it is.
        let steps = self.operator(last + 1, "++") || self.operator(last + 1, "--");
        let target = previous == "*" && !steps;
        let is_stepped =
            before2.is_some_and(|two| self.operator(two, "++") || self.operator(two, "--"));
        if self.assigns(last + 1) && !target || is_stepped {
            return Use::Write;
        }
        let element = matches!(next, "[" | "->");
        match previous {
            "&" => self.after_ampersand(token_index, element),
            "=" if self.initialises_reference(token_index) && !element => Use::Escape,
            ")" if self.word(before2) == "&" => Use::Escape,
            "{" if !element => Use::Escape,
            "?" | ":" if !element => self.enclosed(token_index),
            "(" | "," if matches!(next, ")" | "," | "}") => self.argument(token_index),
            _ if matches!(next, ":") => self.enclosed(token_index),
            _ => Use::Read,
        }
    }

    /// `x.a[i] = 1`, `&x.a[i]` or `++x[i]`.
    fn judge_element(&self, token_index: usize) -> Use {
        let mut end = token_index + 1;
        loop {
            if self.word(Some(end)) == "." {
                end += 2;
            } else if self.word(Some(end)) == "[" {
                match self.tokens.skip_group(end) {
                    Some(after) => end = after,
                    None => return Use::Escape,
                }
            } else {
                break;
            }
        }
        if end == token_index + 1 {
            return Use::Read;
        }
        let before2 = token_index.checked_sub(2);
        let is_stepped =
            before2.is_some_and(|two| self.operator(two, "++") || self.operator(two, "--"));
        if self.assigns(end) || is_stepped {
            return Use::Write;
        }
        match self.word(token_index.checked_sub(1)) {
            "&" if !before2.is_some_and(|two| self.operator(two, "&&")) => Use::Escape,
            _ => Use::Read,
        }
    }

    /// `T& r = x`, or `{.r = x}`, whose member may be a reference.
    fn initialises_reference(&self, token_index: usize) -> bool {
        let sign = self.word(token_index.checked_sub(3));
        let opener = self.word(token_index.checked_sub(4));
        sign == "&" || sign == "." && matches!(opener, "{" | ",")
    }

    /// `&x`, `a & x` or `a && x`.
    fn after_ampersand(&self, token_index: usize, element: bool) -> Use {
        let Some(two) = token_index.checked_sub(2) else { return Use::Escape };
        if element || self.operator(two, "&&") {
            return Use::Read;
        }
        let operand = match self.tokens[two].kind {
            TokenKind::Ident => !matches!(self.word(Some(two)), "return" | "case" | "else"),
            TokenKind::Number => true,
            _ => self.word(Some(two)) == "]",
        };
        if operand { Use::Read } else { Use::Escape }
    }

    /// The open bracket at `token_index`.
    fn bracket(&self, token_index: usize) -> Option<usize> {
        (0..token_index).rev().find(|&open_bracket| {
            self.tokens.skip_group(open_bracket).is_some_and(|group_end| group_end > token_index)
        })
    }

    /// One operand of a choice: the whole expression may refer to it.
    fn enclosed(&self, token_index: usize) -> Use {
        match self
            .bracket(token_index)
            .map(|open_bracket| (open_bracket, self.word(Some(open_bracket))))
        {
            Some((_, "[")) => Use::Read,
            Some((open_bracket, "{")) => {
                // A statement: it keeps a reference only if it declares one.
                let start = (open_bracket..token_index)
                    .rev()
                    .find(|&k| matches!(self.word(Some(k)), ";" | "{" | "}"));
                let mut words =
                    (start.unwrap_or(open_bracket)..token_index).map(|k| self.word(Some(k)));
                if words.any(|word| word == "&") { Use::Escape } else { Use::Read }
            }
            _ => Use::Escape,
        }
    }

    /// Whether the bracket at `open` is that of `static_cast<T>(x)` to a value.
    fn is_value_cast(&self, open: usize) -> bool {
        let mut words = (0..open).rev().map(|at| self.word(Some(at)));
        words.next() == Some(">")
            && words.find(|word| matches!(*word, "static_cast" | "&" | ";" | "(" | "{"))
                == Some("static_cast")
    }

    /// The whole of one argument, or of a pair of parentheses.
    fn argument(&self, token_index: usize) -> Use {
        let Some(open_bracket) = self.bracket(token_index) else { return Use::Escape };
        if self.is_value_cast(open_bracket) {
            return Use::Read;
        }
        let callee = self.word(open_bracket.checked_sub(1));
        // Another scope's function of this name may be another function.
        let qualified = self.word(open_bracket.checked_sub(2)) == "::";
        let ident = open_bracket > 0 && self.tokens[open_bracket - 1].kind == TokenKind::Ident;
        let is_value_callee = KEYWORDS.contains(&callee)
            || (BY_VALUE.contains(&callee) || ATOMICS.contains(&callee))
                && !self.facts.is_defined(callee)
            || self.facts.takes_values(callee) && !qualified;
        let safe = self.word(Some(open_bracket)) == "("
            && ident
            && !self.facts.is_macro(callee)
            && is_value_callee;
        if safe { Use::Read } else { Use::Escape }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::SourceUnit;
    use crate::syntax::source::Source;

    /// The worst that `statement` may do to `v`.
    fn worst(statement: &str) -> Use {
        let defined = "#define INC(x) x++\nvoid value(int a); void refer(int& a);\n";
        let mut facts = Facts::default();
        facts.add(&Source::new(&SourceUnit { path: "a.cu", text: defined }));
        facts.finish();
        let text = format!("{{ {statement} }}");
        let tokens = Source::new(&SourceUnit { path: "a.cu", text: &text }).view(true);
        let mentions = (0..tokens.len()).filter(|&at| tokens.is_spelled_at(&text, at, "v"));
        mentions
            .map(|at| classify_variable_use(&text, &tokens, &facts, at))
            .max()
            .expect("a mention of v")
    }

    #[test]
    fn reading_a_variable_is_told_from_changing_it() {
        let cases = [
            (
                Use::Read,
                "a = v; | b = a == v; | b = v == a; | b = v <= a; | a = v + 1; | a = b & v; | if (v) a = 1; | \
                 a[v] = 1; | *v = 1; | v[1] = 2; | v->x = 3; | a = v.x; | value(v); | \
                 fmaxf(a, v); | a = c ? v : b; | a = &v[2]; | a = b && v; | a = float(v); | \
                 for (int i = v; i < v; i++) a = i; | return v;",
            ),
            (
                Use::Write,
                "v = a; | v += a; | v >>= 1; | v++; | -- v; | v.x = 1; | v.x++; | a = v = b; | \
                 if ((v = a)) b = 1; | *v++ = 1; | (int)v = 1;",
            ),
            (
                Use::Escape,
                "a = &v; | a = (char*)&v; | refer(v); | unknown(v); | unknown(a, v.x); | INC(v); | \
                 std::value(v); | int& r = v; | int& r = (int&)v; | S s = {a, v}; | S s = {.r = v}; | \
                 S s{v}; | int& r = c ? v : a; | for (int& r : v) r = 1; | (v) = 1; | v.f(); | \
                 f<int&>(v); | a = &v.x;",
            ),
        ];
        for (expected, statements) in cases {
            for statement in statements.split(" | ") {
                assert_eq!(worst(statement), expected, "{statement}");
            }
        }
    }

    #[test]
    fn a_change_to_an_element_of_a_member_is_told_from_reading_it() {
        let cases = [
            ("v.a[1] = 2;", Use::Write),
            ("v.a[1].b += 2;", Use::Write),
            ("++v.a[1];", Use::Write),
            ("v[1][2] = 3;", Use::Write),
            ("x = &v.a[1];", Use::Escape),
            ("x = v.a[1] == 2;", Use::Read),
            ("x = y & v.a[1];", Use::Escape),
            ("x = y && v.a[1];", Use::Read),
            ("x = v;", Use::Read),
        ];
        for (statement, expected) in cases {
            let text = format!("{{ {statement} }}");
            let tokens = Source::new(&SourceUnit { path: "a.cu", text: &text }).view(true);
            let mut facts = Facts::default();
            facts.finish();
            let at = (0..tokens.len()).find(|&at| tokens.is_spelled_at(&text, at, "v"));
            let got = classify_element_use(&text, &tokens, &facts, at.expect("a mention of v"));
            assert_eq!(got, expected, "{statement}");
        }
    }
}
