//! Inline PTX: `asm` statements become calls of `replay/ptx.h`, as far as their instructions are known.

mod instructions;
mod memory;
mod operands;
mod statement;
mod table;

use super::Obstacle;
use super::edits::Edits;
use super::escape_c_string;
use super::guards;
use super::host::HostContext;
use super::lexer::{Token, TokenKind, Tokens, lex_tokens};
use super::outline::{Item, outline_items};
use super::reachability::find_enclosing_name;
use super::{FrontendError, Precision};
use instructions::PtxCode;
use statement::{AsmStatement, PtxLine};

/// Writes every `asm` statement with PTX as C++, and lists the obstacles to the shadow among them.
///
/// An unknown instruction in a function compiled without a caller is added to `refusals`. In macros, templates and inline
/// functions the instruction becomes a call of an unsupported function: it fails to compile if somebody calls it.
pub(super) fn rewrite_asm_statements(
    context: &HostContext,
    edits: &mut Edits,
    refusals: &mut Vec<FrontendError>,
) -> Vec<Obstacle> {
    let source = context.source;
    let mut items: Option<Vec<Item>> = None;
    let mut obstacles = Vec::new();
    for (tokens, within) in context.token_lists() {
        let macro_name = within.map(|defined| defined.name);
        let mut next_index = 0;
        while next_index < tokens.len() {
            let index = next_index;
            next_index += 1;
            if !is_asm(source.text, tokens[index]) {
                continue;
            }
            let start = tokens[index].start;
            let Some(statement) = statement::parse_asm_statement(source.text, tokens, index) else {
                let in_macro = macro_name.is_some();
                refusals.extend(refuse_unread_statement(context, tokens, index, in_macro));
                continue;
            };
            next_index = statement.tokens.end;
            let lines = statement::split_ptx_lines(&statement.template);
            if !is_ptx(&lines) || macro_name.is_none() && is_for_host(context, start) {
                continue;
            }
            let (mut code, packs) = match instructions::write_ptx_code(&lines, &statement) {
                Ok(PtxCode { code, packs }) => {
                    (write_asm_statement(context, tokens, &statement, edits, &code), packs)
                }
                Err(opcode) => {
                    refusals.extend(refuse_opcode(context, start, &opcode, macro_name.is_some()));
                    (refused_ptx_call(source.line(start), &opcode), false)
                }
            };
            let range = start..tokens[statement.tokens.end - 1].end;
            if packs && context.precision == Precision::Shadow {
                let items =
                    items.get_or_insert_with(|| outline_items(source.text, &context.tokens));
                let within = match macro_name {
                    Some(name) => Some(name.to_owned()),
                    None => find_enclosing_name(source.text, &context.tokens, items, start),
                };
                let what = statement.template.split_whitespace().collect::<Vec<_>>().join(" ");
                let obstacle = Obstacle { line: source.line(start), what, within, guarded: true };
                code = format!(
                    "do {{ {} {code}; }} while (0)",
                    guards::obstacle_statement(source, &obstacle)
                );
                obstacles.push(obstacle);
            }
            edits.replace(range.clone(), code + &line_ends(&source.text[range]));
        }
    }
    obstacles
}

fn is_asm(text: &str, token: Token) -> bool {
    token.kind == TokenKind::Ident && matches!(token.text(text), "asm" | "__asm__" | "__asm")
}

/// Whether some line is an instruction of a GPU: their names have dots.
fn is_ptx(lines: &[PtxLine]) -> bool {
    lines.iter().any(|line| match line {
        PtxLine::Instruction(text) => {
            let (guard, opcode, _) = instructions::split_opcode(text);
            let dotted = !opcode.starts_with('.') && opcode.contains('.');
            let is_plain_opcode = matches!(opcode, ".reg" | "trap" | "exit" | "brkpt" | "bra");
            guard.is_some() || dotted || is_plain_opcode
        }
        _ => false,
    })
}

/// Whether the byte `byte_offset` lies in a function of the host, whose assembler is another one.
fn is_for_host(context: &HostContext, byte_offset: usize) -> bool {
    let function = context.function(byte_offset);
    function.is_some_and(|item| !item.on_device(context.source.text, &context.tokens))
}

/// The refusal of a statement whose instructions are no literals.
fn refuse_unread_statement(
    context: &HostContext,
    tokens: &Tokens,
    index: usize,
    in_macro: bool,
) -> Option<FrontendError> {
    let text = context.source.text;
    let literal = tokens[index + 1..].iter().take(4).find(|token| token.kind == TokenKind::Text);
    match literal.is_some_and(|literal| literal.text(text) != "\"\"") {
        true if !is_for_host(context, tokens[index].start) => {
            refuse_opcode(context, tokens[index].start, "not a literal", in_macro)
        }
        _ => None,
    }
}

/// The refusal of `opcode` at byte `byte_offset`, if its function is compiled whether or not it is called.
fn refuse_opcode(
    context: &HostContext,
    byte_offset: usize,
    opcode: &str,
    in_macro: bool,
) -> Option<FrontendError> {
    let source = context.source;
    let text = context.source.text;
    let function =
        context.function(byte_offset).filter(|_| !in_macro && !source.by_arch(byte_offset))?;
    let marks = ["inline", "__inline__", "__forceinline__", "static", "template"];
    if marks.iter().any(|mark| function.has_specifier(text, &context.tokens, mark)) {
        return None;
    }
    let what = format!("PTX ({opcode}) in {}", function.name);
    let path = source.path.to_owned();
    Some(FrontendError::Unsupported { what, path, line: source.line(byte_offset) })
}

/// A call of an unsupported function, with the reason.
fn refused_ptx_call(line: usize, opcode: &str) -> String {
    let message = escape_c_string(&format!("PTX ({opcode}) is not supported on the CPU"));
    let name = format!("replay_ptx_refused_{line}");
    format!("do {{ void {name}() REPLAY_UNSUPPORTED(\"{message}\"); {name}(); }} while (0)")
}

/// The statement in C++: its operands as variables, then its instructions.
fn write_asm_statement(
    context: &HostContext,
    tokens: &Tokens,
    statement: &AsmStatement,
    edits: &Edits,
    code: &str,
) -> String {
    let mut out = "do { ".to_owned();
    for (number, operand) in statement.operands.iter().enumerate() {
        let first = operand.expression.start;
        let last = operand.expression.end;
        let range = tokens[first].start..tokens[last - 1].end;
        let operand_text = edits.applied(context.source.text, range);
        let kind = if operand.is_output() { "auto&&" } else { "const auto" };
        out += &format!(
            "{kind} {} = ({}); ",
            operands::operand_variable(number),
            on_one_line(&operand_text)
        );
    }
    out + code + "} while (0)"
}

/// `code` on one line and without comments.
fn on_one_line(code: &str) -> String {
    let mut out = String::new();
    let mut end = 0;
    for token in lex_tokens(code) {
        if token.start > end && !out.is_empty() {
            out.push(' ');
        }
        out.push_str(token.text(code));
        end = token.end;
    }
    out
}

/// The line breaks of `text`, with the backslash of continued lines.
fn line_ends(text: &str) -> String {
    let ends = text.split_inclusive('\n').filter(|piece| piece.ends_with('\n'));
    ends.map(|line| if line.trim_end().ends_with('\\') { "\\\n" } else { "\n" }).collect()
}

/// The type of `replay/ptx.h` for PTX's type `kind`.
fn ptx_type_name(kind: &str) -> String {
    format!("::replay_ptx::ptx_{kind}")
}
