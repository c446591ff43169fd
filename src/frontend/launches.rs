//! Finds `callee<<<configuration>>>(arguments)` with tree-sitter, in function bodies and macros.
//!
//! The parser sees a text of the same length in which comments, literals, preprocessor lines and
//! CUDA's attributes are neutral, one body at a time, so that nothing else can mislead it.

use std::ops::Range;

use tree_sitter::{Node, Parser};

use super::lexer::{Kind, Token, Tokens};
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

/// The launches among `tokens`, which are the statements of one body or of several functions.
pub(super) fn find(text: &str, tokens: &Tokens, wrap: bool) -> Vec<Launch> {
    let Some((first, last)) = tokens.first().zip(tokens.last()) else { return Vec::new() };
    let range = first.start..last.end;
    let (prefix, suffix) = if wrap { ("void f(){", "\n;}") } else { ("", "") };
    let masked = format!("{prefix}{}{suffix}", mask(text, tokens, range.clone()));
    let mut parser = Parser::new();
    if parser.set_language(&tree_sitter_cuda::LANGUAGE.into()).is_err() {
        return Vec::new();
    }
    let Some(tree) = parser.parse(&masked, None) else { return Vec::new() };
    let mut launches = Vec::new();
    let mut cursor = tree.walk();
    // A walk without recursion: depth is the user's.
    loop {
        if let Some(launch) = launch(cursor.node()) {
            let shift = |part: Range<usize>| {
                part.start + range.start - prefix.len()..part.end + range.start - prefix.len()
            };
            launches.push(Launch {
                callee: shift(launch.callee),
                open: shift(launch.open),
                close: shift(launch.close),
            });
        }
        if cursor.goto_first_child() || cursor.goto_next_sibling() {
            continue;
        }
        loop {
            if !cursor.goto_parent() {
                return launches;
            }
            if cursor.goto_next_sibling() {
                break;
            }
        }
    }
}

/// The parts of the launch that `node` is, if it is one.
fn launch(node: Node) -> Option<Launch> {
    if node.kind() != "call_expression" {
        return None;
    }
    let syntax = (0..node.child_count())
        .filter_map(|index| node.child(index))
        .find(|child| child.kind() == "kernel_call_syntax")?;
    let open = syntax.child(0)?.byte_range();
    let close = syntax.child(syntax.child_count().checked_sub(1)?)?.byte_range();
    let callee = callee(node.child_by_field_name("function")?)?.byte_range();
    (open.len() == 3 && close.len() == 3).then_some(Launch { callee, open, close })
}

/// The callee without the casts and operators that the grammar counts to it.
fn callee(mut node: Node) -> Option<Node> {
    loop {
        node = match node.kind() {
            "cast_expression" => node.child_by_field_name("value")?,
            "pointer_expression" | "unary_expression" => node.child_by_field_name("argument")?,
            "binary_expression" | "assignment_expression" | "comma_expression" => {
                node.child_by_field_name("right")?
            }
            _ => return Some(node),
        };
    }
}

/// The bytes of `range` with everything but the tokens that matter made neutral.
fn mask(text: &str, tokens: &Tokens, range: Range<usize>) -> String {
    let mut bytes = vec![b' '; range.len()];
    let mut index = 0;
    while let Some(&token) = tokens.get(index) {
        let at = token.start - range.start;
        let word = token.text(text);
        match token.kind {
            Kind::Directive => {}
            Kind::Text => mask_literal(&mut bytes[at..at + word.len()], word),
            _ if is_neutral(word) => {
                index = neutral_end(text, tokens, index);
                continue;
            }
            Kind::Punct if word == "##" => paste(text, tokens, index, &mut bytes, range.start),
            Kind::Punct if word == "#" => {}
            _ => {
                for (offset, byte) in word.bytes().enumerate() {
                    bytes[at + offset] = if byte.is_ascii() { byte } else { b'u' };
                }
            }
        }
        index += 1;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A literal of the same length and sort without its content.
fn mask_literal(bytes: &mut [u8], word: &str) {
    match bytes {
        [first, middle @ .., last] if !word.ends_with('\'') => {
            (*first, *last) = (b'"', b'"');
            middle.fill(b'_');
        }
        _ => bytes.fill(b'1'),
    }
}

/// Joins the tokens on both sides of `##` into one identifier.
fn paste(text: &str, tokens: &Tokens, index: usize, bytes: &mut [u8], start: usize) {
    let from = index.checked_sub(1).map_or(tokens[index].start, |before| tokens[before].end);
    let to = tokens.get(index + 1).map_or(tokens[index].end, |after| after.start);
    if !text[from..to].is_empty() {
        bytes[from - start..to - start].fill(b'_');
    }
}

/// Specifiers that decide nothing about expressions and that grammars stumble over.
fn is_neutral(word: &str) -> bool {
    takes_arguments(word) || is_bare(word)
}

/// Neutral specifiers that arguments in parentheses follow.
fn takes_arguments(word: &str) -> bool {
    matches!(
        word,
        "__align__"
            | "alignas"
            | "__launch_bounds__"
            | "__maxnreg__"
            | "__block_size__"
            | "__cluster_dims__"
            | "__attribute__"
            | "__declspec"
    )
}

/// Neutral specifiers that stand alone.
fn is_bare(word: &str) -> bool {
    matches!(
        word,
        "__restrict__"
            | "__restrict"
            | "__noinline__"
            | "__forceinline__"
            | "__global__"
            | "__device__"
            | "__host__"
            | "__shared__"
            | "__constant__"
            | "__managed__"
            | "__grid_constant__"
            | "__extension__"
    )
}

/// The index after the neutral specifier at `index` and its arguments.
fn neutral_end(text: &str, tokens: &Tokens, index: usize) -> usize {
    let followed = takes_arguments(tokens[index].text(text));
    let arguments = followed.then(|| tokens.skip_group(index + 1)).flatten();
    arguments.unwrap_or(index + 1)
}

/// What is known about a callee from its tokens alone.
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
