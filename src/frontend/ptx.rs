//! Inline PTX: `asm` statements become calls of `replay/ptx.h`, as far as their instructions are known.

mod instructions;
mod memory;
mod operands;
mod statement;
mod table;

use super::Obstacle;
use super::edits::Edits;
use super::escape;
use super::guards;
use super::host::Context;
use super::lexer::{Kind, Token, Tokens, lex};
use super::outline::{Item, outline};
use super::reach::holder;
use super::{FrontendError, Precision};
use instructions::Written;
use statement::{Line, Statement};

/// Writes every `asm` statement with PTX as C++, and lists those that the shadow cannot hold.
///
/// # Errors
/// An instruction that the CPU does not have, in a function that is compiled even if nobody calls it.
/// In macros, templates and inline functions it becomes a call that does not compile.
pub(super) fn rewrite(
    context: &Context,
    edits: &mut Edits,
) -> Result<Vec<Obstacle>, FrontendError> {
    let source = context.source;
    let code = Tokens::new(source.text, source.tokens.clone());
    let bodies = context.macros.iter().map(|defined| (&defined.body, Some(defined.name)));
    let mut items: Option<Vec<Item>> = None;
    let mut obstacles = Vec::new();
    for (tokens, macro_name) in bodies.chain([(&code, None)]) {
        let mut at = 0;
        while at < tokens.len() {
            let index = at;
            at += 1;
            if !is_asm(source.text, tokens[index]) {
                continue;
            }
            let start = tokens[index].start;
            let Some(statement) = statement::read(source.text, tokens, index) else {
                unread(context, tokens, index, macro_name.is_some())?;
                continue;
            };
            at = statement.tokens.end;
            let lines = statement::lines(&statement.template);
            if !is_ptx(&lines) || macro_name.is_none() && is_for_host(context, start) {
                continue;
            }
            let (mut code, packs) = match instructions::write(&lines, &statement) {
                Ok(Written { code, packs }) => {
                    (whole(context, tokens, &statement, edits, &code), packs)
                }
                Err(opcode) => {
                    refuse(context, start, &opcode, macro_name.is_some())?;
                    (refusal(source.line(start), &opcode), false)
                }
            };
            let range = start..tokens[statement.tokens.end - 1].end;
            if packs && context.precision == Precision::Shadow {
                let items = items.get_or_insert_with(|| outline(source.text, &context.tokens));
                let within = match macro_name {
                    Some(name) => Some(name.to_owned()),
                    None => holder(source.text, &context.tokens, items, start),
                };
                let what = statement.template.split_whitespace().collect::<Vec<_>>().join(" ");
                let found = Obstacle { line: source.line(start), what, within, guarded: true };
                code = format!("do {{ {} {code}; }} while (0)", guards::ending(context, &found));
                obstacles.push(found);
            }
            edits.replace(range.clone(), code + &line_ends(&source.text[range]));
        }
    }
    Ok(obstacles)
}

fn is_asm(text: &str, token: Token) -> bool {
    token.kind == Kind::Ident && matches!(token.text(text), "asm" | "__asm__" | "__asm")
}

/// Whether some line is an instruction of a GPU: their names have dots.
fn is_ptx(lines: &[Line]) -> bool {
    lines.iter().any(|line| match line {
        Line::Instruction(text) => {
            let (guard, opcode, _) = instructions::opcode(text);
            let dotted = !opcode.starts_with('.') && opcode.contains('.');
            let plain = matches!(opcode, ".reg" | "trap" | "exit" | "brkpt" | "bra");
            guard.is_some() || dotted || plain
        }
        _ => false,
    })
}

/// Whether the byte `at` lies in a function of the host, whose assembler is another one.
fn is_for_host(context: &Context, at: usize) -> bool {
    let function = context.function(at);
    function.is_some_and(|item| !item.on_device(context.source.text, &context.tokens))
}

/// A statement whose instructions are no literals.
fn unread(
    context: &Context,
    tokens: &Tokens,
    index: usize,
    in_macro: bool,
) -> Result<(), FrontendError> {
    let text = context.source.text;
    let literal = tokens[index + 1..].iter().take(4).find(|token| token.kind == Kind::Text);
    match literal.is_some_and(|literal| literal.text(text) != "\"\"") {
        true if !is_for_host(context, tokens[index].start) => {
            refuse(context, tokens[index].start, "not a literal", in_macro)
        }
        _ => Ok(()),
    }
}

/// Refuses `opcode` at byte `at`, if its function is compiled whether or not it is called.
fn refuse(context: &Context, at: usize, opcode: &str, in_macro: bool) -> Result<(), FrontendError> {
    let (source, text) = (context.source, context.source.text);
    let Some(function) = context.function(at).filter(|_| !in_macro && !source.by_arch(at)) else {
        return Ok(());
    };
    let marks = ["inline", "__inline__", "__forceinline__", "static", "template"];
    if marks.iter().any(|mark| function.has(text, &context.tokens, mark)) {
        return Ok(());
    }
    let (what, path) = (format!("PTX ({opcode}) in {}", function.name), source.path.to_owned());
    Err(FrontendError::Unsupported { what, path, line: source.line(at) })
}

/// A call that does not compile, and says why.
fn refusal(line: usize, opcode: &str) -> String {
    let message = escape(&format!("PTX ({opcode}) is not supported on the CPU"));
    let name = format!("replay_ptx_refused_{line}");
    format!("do {{ void {name}() REPLAY_UNSUPPORTED(\"{message}\"); {name}(); }} while (0)")
}

/// The statement in C++: its operands as variables, then its instructions.
fn whole(
    context: &Context,
    tokens: &Tokens,
    statement: &Statement,
    edits: &Edits,
    code: &str,
) -> String {
    let mut out = "do { ".to_owned();
    for (number, operand) in statement.operands.iter().enumerate() {
        let (first, last) = (operand.expression.start, operand.expression.end);
        let range = tokens[first].start..tokens[last - 1].end;
        let made = edits.applied(context.source.text, range);
        let kind = if operand.is_output() { "auto&&" } else { "const auto" };
        out += &format!("{kind} {} = ({}); ", operands::variable(number), on_one_line(&made));
    }
    out + code + "} while (0)"
}

/// `code` on one line and without comments.
fn on_one_line(code: &str) -> String {
    let (mut out, mut end) = (String::new(), 0);
    for token in lex(code) {
        if token.start > end && !out.is_empty() {
            out.push(' ');
        }
        out.push_str(token.text(code));
        end = token.end;
    }
    out
}

/// The line breaks of `text`, with the backslash of lines that go on.
fn line_ends(text: &str) -> String {
    let ends = text.split_inclusive('\n').filter(|piece| piece.ends_with('\n'));
    let end = |line: &'_ str| if line.trim_end().ends_with('\\') { "\\\n" } else { "\n" };
    ends.map(end).collect()
}

/// The type of `replay/ptx.h` for PTX's type `kind`.
fn type_name(kind: &str) -> String {
    format!("::replay_ptx::ptx_{kind}")
}
