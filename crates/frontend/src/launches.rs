//! Finds `callee<<<configuration>>>(arguments)` by its tokens and their brackets.

use std::ops::Range;

use super::SourceUnit;
use super::lexer::{MOST_ARGUMENTS, Token, TokenKind, Tokens, normalise_spacing};
use super::source::Source;
use super::symbols::template_argument_ranges;

/// Where the parts of one launch lie, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LaunchSyntax {
    pub callee: Range<usize>,
    /// `<<<`
    pub open: Range<usize>,
    /// `>>>`
    pub close: Range<usize>,
}

/// The indices of `<<<` in code.
pub(super) fn find_launch_openings<'t>(
    text: &'t str,
    tokens: &'t [Token],
) -> impl Iterator<Item = usize> {
    (0..tokens.len()).filter(move |&index| {
        let operator = index > 0 && tokens[index - 1].is_spelled(text, "operator");
        tokens[index].is_spelled(text, "<<<") && !operator
    })
}

/// The launches among `tokens`. A `<<<` without the other parts of a launch is passed over.
pub(super) fn find_launch_syntax(text: &str, tokens: &Tokens) -> Vec<LaunchSyntax> {
    find_launch_openings(text, tokens)
        .filter_map(|opening_index| parse_launch(text, tokens, opening_index))
        .collect()
}

/// The callee of the only launch of `unit` that reaches over line number `line`.
pub fn find_launched_name(unit: &SourceUnit, line: usize) -> Option<String> {
    let source = Source::new(unit);
    let tokens = Tokens::new(source.text, source.tokens.clone());
    let mut launches_there =
        find_launch_syntax(source.text, &tokens).into_iter().filter(|launch| {
            let arguments = tokens.index_at(launch.close.end);
            let arguments_end = tokens.skip_group(arguments).map_or(arguments, |end| end - 1);
            (source.line(launch.callee.start)..=source.line(tokens[arguments_end].start))
                .contains(&line)
        });
    let launch = launches_there.next().filter(|_| launches_there.next().is_none())?;
    let callee = tokens.index_at(launch.callee.start)..tokens.index_at(launch.callee.end);
    Some(normalise_spacing(source.text, &tokens[callee]))
}

/// The launch whose `<<<` is the token at `opening_index`.
fn parse_launch(text: &str, tokens: &Tokens, opening_index: usize) -> Option<LaunchSyntax> {
    let callee = tokens[find_callee_start(text, tokens, opening_index)?].start
        ..tokens[opening_index - 1].end;
    let closing_index = find_launch_close(text, tokens, opening_index)?;
    let close = tokens[closing_index].start..tokens[closing_index + 2].end;
    let open = tokens[opening_index].start..tokens[opening_index].end;
    Some(LaunchSyntax { callee, open, close })
}

/// The index of the first `>` of the `>>>` behind the configuration from `opening_index`.
///
/// A `<` opens template arguments or compares. It compares if no end would be left otherwise.
fn find_launch_close(text: &str, tokens: &Tokens, opening_index: usize) -> Option<usize> {
    let mut otherwise = None;
    let mut angles = 0;
    let mut index = opening_index + 1;
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
                    |pair: &&[Token]| pair[1].is_spelled(text, ">") && pair[0].end == pair[1].start;
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

/// Whether an argument list stands at `token_index`, behind preprocessor lines perhaps.
fn has_arguments(text: &str, tokens: &Tokens, token_index: usize) -> bool {
    let directives =
        tokens[token_index..].iter().take_while(|token| token.kind == TokenKind::Directive);
    let open_parenthesis = token_index + directives.count();
    tokens.is_spelled_at(text, open_parenthesis, "(")
        && tokens.skip_group(open_parenthesis).is_some()
}

/// The index of the first token of the callee before `end`: of a name with its scopes and objects, template
/// arguments, indices and calls, or of an expression in parentheses.
fn find_callee_start(text: &str, tokens: &Tokens, end: usize) -> Option<usize> {
    let mut start = None;
    let mut token_index = end;
    while let Some(last) = token_index.checked_sub(1) {
        let word = tokens[last].text(text);
        match tokens[last].kind {
            TokenKind::Punct if word == ">" => match open_angle(text, tokens, last) {
                Some(angle_start) => token_index = angle_start,
                None => break,
            },
            TokenKind::Punct if matches!(word, ")" | "]") || (word == "}" && start.is_none()) => {
                let Some(open_bracket) = tokens.group_start(last) else { break };
                let head = open_bracket
                    .checked_sub(1)
                    .is_some_and(|head| is_head(tokens[head].text(text)));
                if head
                    || (tokens.is_spelled_at(text, open_bracket + 1, "void")
                        && open_bracket + 2 == last)
                {
                    break;
                }
                if word == ")" {
                    // The callee itself, unless a name stands before.
                    start = (open_bracket + 1 < last).then_some(open_bracket);
                }
                token_index = open_bracket;
            }
            TokenKind::Ident | TokenKind::Number if !is_callee_keyword(word) => {
                let word_before = last.checked_sub(1).map_or("", |index| tokens[index].text(text));
                if tokens[last].kind == TokenKind::Number && word_before != "##" {
                    break;
                }
                token_index = if word_before == "template" { last - 1 } else { last };
                let Some(connector) = token_index.checked_sub(1) else { return Some(token_index) };
                start = match tokens[connector].text(text) {
                    // Of the global scope, unless a name stands before.
                    "::" => Some(connector),
                    "." | "->" | "##" => None,
                    _ => return Some(token_index),
                };
                token_index = connector;
            }
            _ => break,
        }
    }
    start
}

/// The `<` of a name's template arguments with their `>` at `closing_angle`.
fn open_angle(text: &str, tokens: &Tokens, closing_angle: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut index = closing_angle;
    while index > 0 && closing_angle - index < MOST_ARGUMENTS {
        match tokens[index].text(text) {
            ">" => depth += 1,
            "<" => depth -= 1,
            ")" | "]" | "}" => index = tokens.group_start(index)?,
            ";" | "(" | "[" | "{" | "<<<" => return None,
            _ => {}
        }
        if depth == 0 {
            return (tokens[index - 1].kind == TokenKind::Ident).then_some(index);
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
fn is_callee_keyword(word: &str) -> bool {
    is_head(word)
        || matches!(word, "return" | "else" | "do" | "case" | "throw" | "co_return" | "co_yield")
}

/// The kind of a callee, by its tokens alone.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Callee {
    /// A name, possibly qualified or in parentheses: its last part, and the number of its template arguments.
    Name(String, usize),
    /// Any other expression.
    Expression,
}

/// `tokens` without parentheses around all of them.
pub(super) fn unwrap_parentheses<'t>(text: &str, tokens: &'t [Token]) -> &'t [Token] {
    let matched = Tokens::new(text, tokens.to_vec());
    let mut start = 0;
    let mut end = tokens.len();
    while matched.is_spelled_at(text, start, "(") && matched.skip_group(start) == Some(end) {
        (start, end) = (start + 1, end - 1);
    }
    &tokens[start..end]
}

/// Classifies the callee made of `tokens`.
pub(super) fn classify_callee(text: &str, tokens: &[Token]) -> Callee {
    let inner = Tokens::new(text, unwrap_parentheses(text, tokens).to_vec());
    let mut name = None;
    let mut argument_count = 0;
    let mut index = 0;
    while let Some(token) = inner.get(index) {
        let word = token.text(text);
        index = match (token.kind, word) {
            (TokenKind::Punct, "<") if name.is_some() => match inner.skip_angles(text, index) {
                Some(angles_end) => {
                    argument_count = template_argument_ranges(text, &inner, index).len();
                    angles_end
                }
                None => return Callee::Expression,
            },
            (TokenKind::Punct, "::" | "##") | (TokenKind::Ident, "template") => index + 1,
            (TokenKind::Ident, _) => {
                (name, argument_count) = (Some(word.to_owned()), 0);
                index + 1
            }
            _ => return Callee::Expression,
        };
    }
    name.map_or(Callee::Expression, |name| Callee::Name(name, argument_count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_kernel_that_it_launches_if_there_is_but_one() {
        let text = "void f() {\n  ns::k<4>\n    <<<g(1), 2>>>\n    (x,\n     y);\n  a<<<1, 2>>>(x); b<<<1, 2>>>(x);\n}\n\
                    #define L(k, ...) k<<<1, 2>>>(__VA_ARGS__)\n";
        let name = |line| find_launched_name(&SourceUnit { path: "a.cu", text }, line);
        for line in 2..=5 {
            assert_eq!(name(line).as_deref(), Some("ns::k<4>"), "{line}");
        }
        for line in [1, 6, 7, 8, 100] {
            assert_eq!(name(line), None, "{line}");
        }
    }
}
