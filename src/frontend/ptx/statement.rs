//! An `asm` statement taken apart: the text of its instructions and its operands.

use std::ops::Range;

use crate::syntax::lexer::{Kind, Tokens};

/// An `asm` statement.
#[derive(Debug)]
pub(super) struct Statement {
    /// The tokens from `asm` to the closing parenthesis.
    pub tokens: Range<usize>,
    /// The instructions, as the assembler gets them.
    pub template: String,
    /// In the order of their numbers.
    pub operands: Vec<Operand>,
}

/// An operand of an `asm` statement.
#[derive(Debug)]
pub(super) struct Operand {
    /// Its name in `%[name]`, if it has one.
    pub name: Option<String>,
    /// Its constraint: `=r`, `+f`, `l`, `n`.
    pub constraint: String,
    /// The tokens of its expression.
    pub expression: Range<usize>,
}

impl Operand {
    /// Whether the instructions write it.
    pub(super) fn is_output(&self) -> bool {
        self.constraint.contains(['=', '+'])
    }

    /// Whether it is a floating-point register.
    pub(super) fn is_floating(&self) -> bool {
        self.constraint.contains(['f', 'd'])
    }
}

/// The `asm` statement that starts at token `index`, if one does and its instructions are literals.
pub(super) fn read(text: &str, tokens: &Tokens, index: usize) -> Option<Statement> {
    if !matches!(tokens.get(index)?.text(text), "asm" | "__asm__" | "__asm") {
        return None;
    }
    let mut open = index + 1;
    while matches!(tokens.get(open)?.text(text), "volatile" | "__volatile__" | "__volatile") {
        open += 1;
    }
    if !tokens.is(text, open, "(") {
        return None;
    }
    let end = tokens.skip_group(open)?;
    let mut at = open + 1;
    let mut template = String::new();
    while let Some(literal) = tokens[at..end - 1].first().filter(|it| it.kind == Kind::Text) {
        template.push_str(&decoded(literal.text(text)));
        at += 1;
    }
    let mut operands = Vec::new();
    let mut section = 0;
    while at < end - 1 {
        match tokens[at].text(text) {
            ":" => section += 1,
            "::" => section += 2,
            "," => {}
            _ if section > 2 => {}
            _ if section == 0 => return None,
            _ => {
                let (operand, after) = operand(text, tokens, at)?;
                operands.push(operand);
                at = after;
                continue;
            }
        }
        at += 1;
    }
    Some(Statement { tokens: index..end, template, operands })
}

/// The operand at token `at`, and the token behind it.
fn operand(text: &str, tokens: &Tokens, mut at: usize) -> Option<(Operand, usize)> {
    let mut name = None;
    if tokens.is(text, at, "[") {
        name = Some(tokens.get(at + 1)?.text(text).to_owned());
        at = tokens.skip_group(at)?;
    }
    let literal = tokens.get(at).filter(|token| token.kind == Kind::Text)?;
    let constraint = decoded(literal.text(text));
    let after = tokens.is(text, at + 1, "(").then(|| tokens.skip_group(at + 1)).flatten()?;
    Some((Operand { name, constraint, expression: at + 2..after - 1 }, after))
}

/// The characters of a string literal.
fn decoded(literal: &str) -> String {
    let Some(open) = literal.find('"') else { return String::new() };
    let inner = literal[open + 1..].trim_end_matches('"');
    if literal[..open].ends_with('R') {
        let (Some(begin), Some(end)) = (inner.find('('), inner.rfind(')')) else {
            return String::new();
        };
        return inner.get(begin + 1..end).unwrap_or_default().to_owned();
    }
    let mut out = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n' | 'r') => out.push('\n'),
                Some('t') => out.push('\t'),
                // A line that goes on.
                Some('\n') | None => {}
                Some(other) => out.push(other),
            },
            _ => out.push(c),
        }
    }
    out
}

/// A line of PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A scope begins.
    Open,
    /// A scope ends.
    Close,
    /// Something that ends with a semicolon.
    Instruction(String),
}

/// The lines of `template`, comments left out.
pub(super) fn lines(template: &str) -> Vec<Line> {
    let template = without_comments(template);
    let mut found = Vec::new();
    let mut rest = template.trim_start();
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '{' => {
                found.push(Line::Open);
                1
            }
            '}' => {
                found.push(Line::Close);
                1
            }
            ';' => 1,
            _ => {
                let end = rest.find(';').unwrap_or(rest.len());
                // The last instruction of a statement may lack its semicolon.
                found.push(Line::Instruction(rest[..end].trim().to_owned()));
                end
            }
        };
        rest = rest[taken..].trim_start();
    }
    found
}

fn without_comments(template: &str) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some(at) = rest.find("//").into_iter().chain(rest.find("/*")).min() {
        out.push_str(&rest[..at]);
        let line = rest[at..].starts_with("//");
        let (end, skip) = if line { ("\n", 0) } else { ("*/", 2) };
        rest = rest[at..].find(end).map_or("", |length| &rest[at + length + skip..]);
        out.push(' ');
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::lexer::lex;

    fn of(text: &str) -> Option<Statement> {
        read(text, &Tokens::new(text, lex(text)), 0)
    }

    #[test]
    fn statements_are_taken_apart() {
        let text = "asm volatile(\"{ .reg .pred p;\\n\" \" mov.u32 %0, %1; }\" : [d] \"=r\"(a[c ? 1 : 2])\
                    : \"l\"(f(b)), \"n\"(16) : \"memory\")";
        let made = of(text).unwrap();
        let named: Vec<_> = made.operands.iter().map(|it| it.name.as_deref()).collect();
        assert_eq!(named, [Some("d"), None, None]);
        let constraints: Vec<_> = made.operands.iter().map(|it| it.constraint.as_str()).collect();
        assert_eq!(constraints, ["=r", "l", "n"]);
        assert_eq!(
            lines(&made.template),
            [
                Line::Open,
                Line::Instruction(".reg .pred p".to_owned()),
                Line::Instruction("mov.u32 %0, %1".to_owned()),
                Line::Close
            ]
        );
        assert_eq!(of("asm(\"bar.sync 0;\" ::: \"memory\")").unwrap().operands.len(), 0);
        assert_eq!(of("asm(\"a\" :: \"r\"(x))").unwrap().operands.len(), 1);
        assert!(of("asm(TEXT)").is_none());
    }

    #[test]
    fn comments_and_raw_literals_are_read() {
        assert_eq!(decoded("R\"x(a \"b\"\nc)x\""), "a \"b\"\nc");
        let found = lines("// one\nadd.u32 a, b, c; /* two */ sub.u32 a, b, c");
        assert_eq!(found.len(), 2);
        assert_eq!(found[1], Line::Instruction("sub.u32 a, b, c".to_owned()));
    }
}
