//! An `asm` statement taken apart: the text of its instructions and its operands.

use std::ops::Range;

use crate::syntax::lexer::{TokenKind, Tokens};

/// An `asm` statement.
#[derive(Debug)]
pub(super) struct AsmStatement {
    /// The tokens from `asm` to the closing parenthesis.
    pub tokens: Range<usize>,
    /// The instructions, as the assembler gets them.
    pub template: String,
    /// In the order of their numbers.
    pub operands: Vec<AsmOperand>,
}

/// An operand of an `asm` statement.
#[derive(Debug)]
pub(super) struct AsmOperand {
    /// Its name in `%[name]`, if it has one.
    pub name: Option<String>,
    /// Its constraint: `=r`, `+f`, `l`, `n`.
    pub constraint: String,
    /// The tokens of its expression.
    pub expression: Range<usize>,
}

impl AsmOperand {
    /// Whether the instructions write it.
    pub(super) fn is_output(&self) -> bool {
        self.constraint.contains(['=', '+'])
    }

    /// Whether it is a floating-point register.
    pub(super) fn is_floating(&self) -> bool {
        self.constraint.contains(['f', 'd'])
    }
}

/// The `asm` statement at token `index`, if its instructions are literals.
pub(super) fn parse_asm_statement(
    text: &str,
    tokens: &Tokens,
    index: usize,
) -> Option<AsmStatement> {
    if !matches!(tokens.get(index)?.text(text), "asm" | "__asm__" | "__asm") {
        return None;
    }
    let mut open_parenthesis = index + 1;
    while matches!(
        tokens.get(open_parenthesis)?.text(text),
        "volatile" | "__volatile__" | "__volatile"
    ) {
        open_parenthesis += 1;
    }
    if !tokens.is_spelled_at(text, open_parenthesis, "(") {
        return None;
    }
    let end = tokens.skip_group(open_parenthesis)?;
    let mut token_index = open_parenthesis + 1;
    let mut template = String::new();
    while let Some(literal) =
        tokens[token_index..end - 1].first().filter(|token| token.kind == TokenKind::Text)
    {
        template.push_str(&decode_string_literal(literal.text(text)));
        token_index += 1;
    }
    let mut operands = Vec::new();
    let mut section = 0;
    while token_index < end - 1 {
        match tokens[token_index].text(text) {
            ":" => section += 1,
            "::" => section += 2,
            "," => {}
            _ if section > 2 => {}
            _ if section == 0 => return None,
            _ => {
                let (operand, operand_end) = parse_asm_operand(text, tokens, token_index)?;
                operands.push(operand);
                token_index = operand_end;
                continue;
            }
        }
        token_index += 1;
    }
    Some(AsmStatement { tokens: index..end, template, operands })
}

/// The operand at token `token_index`, and the token behind it.
fn parse_asm_operand(
    text: &str,
    tokens: &Tokens,
    mut token_index: usize,
) -> Option<(AsmOperand, usize)> {
    let mut name = None;
    if tokens.is_spelled_at(text, token_index, "[") {
        name = Some(tokens.get(token_index + 1)?.text(text).to_owned());
        token_index = tokens.skip_group(token_index)?;
    }
    let literal = tokens.get(token_index).filter(|token| token.kind == TokenKind::Text)?;
    let constraint = decode_string_literal(literal.text(text));
    let operand_end = tokens
        .is_spelled_at(text, token_index + 1, "(")
        .then(|| tokens.skip_group(token_index + 1))
        .flatten()?;
    Some((
        AsmOperand { name, constraint, expression: token_index + 2..operand_end - 1 },
        operand_end,
    ))
}

/// The characters of a string literal.
fn decode_string_literal(literal: &str) -> String {
    let Some(open_quote) = literal.find('"') else { return String::new() };
    let inner = literal[open_quote + 1..].trim_end_matches('"');
    if literal[..open_quote].ends_with('R') {
        let (Some(raw_start), Some(end)) = (inner.find('('), inner.rfind(')')) else {
            return String::new();
        };
        return inner.get(raw_start + 1..end).unwrap_or_default().to_owned();
    }
    let mut out = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n' | 'r') => out.push('\n'),
                Some('t') => out.push('\t'),
                // A continued line.
                Some('\n') | None => {}
                Some(escaped_character) => out.push(escaped_character),
            },
            _ => out.push(c),
        }
    }
    out
}

/// A line of PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PtxLine {
    /// A scope begins.
    Open,
    /// A scope ends.
    Close,
    /// An instruction or a declaration, up to its semicolon.
    Instruction(String),
}

/// The lines of `template`, comments left out.
pub(super) fn split_ptx_lines(template: &str) -> Vec<PtxLine> {
    let template = without_comments(template);
    let mut parsed_lines = Vec::new();
    let mut remaining_text = template.trim_start();
    while let Some(first) = remaining_text.chars().next() {
        let consumed_length = match first {
            '{' => {
                parsed_lines.push(PtxLine::Open);
                1
            }
            '}' => {
                parsed_lines.push(PtxLine::Close);
                1
            }
            ';' => 1,
            _ => {
                let end = remaining_text.find(';').unwrap_or(remaining_text.len());
                // The last instruction of a statement may lack its semicolon.
                parsed_lines.push(PtxLine::Instruction(remaining_text[..end].trim().to_owned()));
                end
            }
        };
        remaining_text = remaining_text[consumed_length..].trim_start();
    }
    parsed_lines
}

fn without_comments(template: &str) -> String {
    let mut out = String::new();
    let mut remaining_text = template;
    while let Some(comment_start) =
        remaining_text.find("//").into_iter().chain(remaining_text.find("/*")).min()
    {
        out.push_str(&remaining_text[..comment_start]);
        let line = remaining_text[comment_start..].starts_with("//");
        let (end, skip) = if line { ("\n", 0) } else { ("*/", 2) };
        remaining_text = remaining_text[comment_start..]
            .find(end)
            .map_or("", |length| &remaining_text[comment_start + length + skip..]);
        out.push(' ');
    }
    out + remaining_text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::lexer::lex_tokens;

    fn of(text: &str) -> Option<AsmStatement> {
        parse_asm_statement(text, &Tokens::new(text, lex_tokens(text)), 0)
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
            split_ptx_lines(&made.template),
            [
                PtxLine::Open,
                PtxLine::Instruction(".reg .pred p".to_owned()),
                PtxLine::Instruction("mov.u32 %0, %1".to_owned()),
                PtxLine::Close
            ]
        );
        assert_eq!(of("asm(\"bar.sync 0;\" ::: \"memory\")").unwrap().operands.len(), 0);
        assert_eq!(of("asm(\"a\" :: \"r\"(x))").unwrap().operands.len(), 1);
        assert!(of("asm(TEXT)").is_none());
    }

    #[test]
    fn comments_and_raw_literals_are_read() {
        assert_eq!(decode_string_literal("R\"x(a \"b\"\nc)x\""), "a \"b\"\nc");
        let found = split_ptx_lines("// one\nadd.u32 a, b, c; /* two */ sub.u32 a, b, c");
        assert_eq!(found.len(), 2);
        assert_eq!(found[1], PtxLine::Instruction("sub.u32 a, b, c".to_owned()));
    }
}
