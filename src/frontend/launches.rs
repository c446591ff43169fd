//! Finds `callee<<<configuration>>>(arguments)` by its tokens and their brackets.

use std::ops::Range;

use super::lexer::{Kind, MOST_ARGUMENTS, Token, Tokens};
use super::symbols::arguments;

/// Where the parts of one launch lie, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Launch {
    pub callee: Range<usize>,
    /// `<<<`
    pub open: Range<usize>,
    /// `>>>`
    pub close: Range<usize>,
}

/// The indices of `<<<` in code.
pub(super) fn openings<'t>(text: &'t str, tokens: &'t [Token]) -> impl Iterator<Item = usize> {
    (0..tokens.len()).filter(move |&index| {
        let operator = index > 0 && tokens[index - 1].is(text, "operator");
        tokens[index].is(text, "<<<") && !operator
    })
}

/// The launches among `tokens`. A `<<<` without the other parts of a launch is passed over.
pub(super) fn find(text: &str, tokens: &Tokens) -> Vec<Launch> {
    let launch = |open: usize| {
        let callee = tokens[callee(text, tokens, open)?].start..tokens[open - 1].end;
        let close = close(text, tokens, open)?;
        let close = tokens[close].start..tokens[close + 2].end;
        Some(Launch { callee, open: tokens[open].start..tokens[open].end, close })
    };
    openings(text, tokens).filter_map(launch).collect()
}

/// The index of the first `>` of the `>>>` that ends the configuration behind `open`.
///
/// A `<` opens template arguments or compares. It compares if no end would be left otherwise.
fn close(text: &str, tokens: &Tokens, open: usize) -> Option<usize> {
    let mut otherwise = None;
    let mut angles = 0;
    let mut index = open + 1;
    while let Some(token) = tokens.get(index) {
        match token.text(text) {
            "(" | "[" | "{" => {
                index = tokens.skip_group(index)?;
                continue;
            }
            ";" | ")" | "]" | "}" | "<<<" => break,
            "<" => angles += 1,
            ">" => {
                let adjacent =
                    |pair: &&[Token]| pair[1].is(text, ">") && pair[0].end == pair[1].start;
                let run = 1 + tokens[index..].windows(2).take_while(adjacent).count();
                index += run;
                if run >= 3 && has_arguments(text, tokens, index) {
                    if run >= angles + 3 {
                        return Some(index - 3);
                    }
                    otherwise.get_or_insert(index - 3);
                }
                angles = angles.saturating_sub(run);
                continue;
            }
            _ => {}
        }
        index += 1;
    }
    otherwise
}

/// Whether an argument list stands at `at`, behind preprocessor lines perhaps.
fn has_arguments(text: &str, tokens: &Tokens, at: usize) -> bool {
    let directives = tokens[at..].iter().take_while(|token| token.kind == Kind::Directive);
    let open = at + directives.count();
    tokens.is(text, open, "(") && tokens.skip_group(open).is_some()
}

/// The index of the first token of the callee that ends before `end`: of a name with its scopes
/// and objects, template arguments, indices and calls, or of an expression in parentheses.
fn callee(text: &str, tokens: &Tokens, end: usize) -> Option<usize> {
    let mut start = None;
    let mut at = end;
    while let Some(last) = at.checked_sub(1) {
        let is = |at: Option<usize>, word: &str| at.is_some_and(|at| tokens.is(text, at, word));
        let word = tokens[last].text(text);
        match tokens[last].kind {
            Kind::Punct if word == ">" => match open_angle(text, tokens, last) {
                Some(open) => at = open,
                None => break,
            },
            Kind::Punct if matches!(word, ")" | "]") || (word == "}" && start.is_none()) => {
                let Some(open) = tokens.group_start(last) else { break };
                let head = open.checked_sub(1).is_some_and(|head| is_head(tokens[head].text(text)));
                if head || (tokens.is(text, open + 1, "void") && open + 2 == last) {
                    break;
                }
                if word == ")" {
                    // The callee itself, unless a name stands before.
                    start = (open + 1 < last).then_some(open);
                }
                at = open;
            }
            Kind::Ident | Kind::Number if !is_keyword(word) => {
                let before = |at: usize| at.checked_sub(1);
                if tokens[last].kind == Kind::Number && !is(before(last), "##") {
                    break;
                }
                at = if is(before(last), "template") { last - 1 } else { last };
                let Some(connector) = before(at) else { return Some(at) };
                start = match tokens[connector].text(text) {
                    // Of the global scope, unless a name stands before.
                    "::" => Some(connector),
                    "." | "->" | "##" => None,
                    _ => return Some(at),
                };
                at = connector;
            }
            _ => break,
        }
    }
    start
}

/// The `<` of the template arguments of a name that end with the `>` at `close`.
fn open_angle(text: &str, tokens: &Tokens, close: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut index = close;
    while index > 0 && close - index < MOST_ARGUMENTS {
        match tokens[index].text(text) {
            ">" => depth += 1,
            "<" => depth -= 1,
            ")" | "]" | "}" => index = tokens.group_start(index)?,
            ";" | "(" | "[" | "{" | "<<<" => return None,
            _ => {}
        }
        if depth == 0 {
            return (tokens[index - 1].kind == Kind::Ident).then_some(index);
        }
        index = index.saturating_sub(1);
    }
    None
}

/// Whether a condition or the like in parentheses follows `word`.
fn is_head(word: &str) -> bool {
    matches!(word, "if" | "constexpr" | "while" | "for" | "switch")
}

/// Whether `word` may stand before a callee and is no part of it.
fn is_keyword(word: &str) -> bool {
    is_head(word)
        || matches!(word, "return" | "else" | "do" | "case" | "throw" | "co_return" | "co_yield")
}

/// The kind of a callee, by its tokens alone.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Callee {
    /// A name, possibly qualified or in parentheses: its last part, and how many template
    /// arguments follow that.
    Name(String, usize),
    /// Any other expression.
    Expression,
}

/// `tokens` without parentheses around all of them.
pub(super) fn unwrapped<'t>(text: &str, tokens: &'t [Token]) -> &'t [Token] {
    let matched = Tokens::new(text, tokens.to_vec());
    let (mut start, mut end) = (0, tokens.len());
    while matched.is(text, start, "(") && matched.skip_group(start) == Some(end) {
        (start, end) = (start + 1, end - 1);
    }
    &tokens[start..end]
}

/// Classifies the callee made of `tokens`.
pub(super) fn classify(text: &str, tokens: &[Token]) -> Callee {
    let inner = Tokens::new(text, unwrapped(text, tokens).to_vec());
    let mut name = None;
    let mut given = 0;
    let mut index = 0;
    while let Some(token) = inner.get(index) {
        let word = token.text(text);
        index = match (token.kind, word) {
            (Kind::Punct, "<") if name.is_some() => match inner.skip_angles(text, index) {
                Some(after) => {
                    given = arguments(text, &inner, index).len();
                    after
                }
                None => return Callee::Expression,
            },
            (Kind::Punct, "::" | "##") | (Kind::Ident, "template") => index + 1,
            (Kind::Ident, _) => {
                (name, given) = (Some(word.to_owned()), 0);
                index + 1
            }
            _ => return Callee::Expression,
        };
    }
    name.map_or(Callee::Expression, |name| Callee::Name(name, given))
}
