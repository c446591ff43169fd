//! Splits a function's body into statements, as ranges of tokens, by brackets and keywords alone.

use std::cell::Cell;
use std::ops::Range;

use super::reason::{StackReason, StackRefusal};
use crate::syntax::lexer::{TokenKind, Tokens};

/// One statement.
#[derive(Debug)]
pub(super) struct KernelStatement {
    /// Its tokens, up to its semicolon or closing brace.
    pub tokens: Range<usize>,
    pub form: StatementForm,
    /// Whether a barrier stands in it.
    pub waits: bool,
}

/// The kind of a statement.
#[derive(Debug)]
pub(super) enum StatementForm {
    /// `{ ... }`
    List(Vec<KernelStatement>),
    /// `if` with its branches; the tokens in its parentheses.
    If { head: Range<usize>, constant: bool, branches: Vec<KernelStatement> },
    /// `for` and `while`; the tokens in the parentheses.
    Loop { head: Range<usize>, is_for: bool, body: Box<KernelStatement> },
    /// `do body while (...)`
    Do { body: Box<KernelStatement> },
    /// `switch`; the tokens in its parentheses.
    Switch { head: Range<usize>, body: Box<KernelStatement> },
    /// `case x:` or `default:`
    Label,
    /// `__syncthreads();`, or one of the caller's waits.
    Barrier,
    /// `return;`
    Return,
    /// Everything else: expressions, declarations, `break`, `continue`, nothing.
    Simple,
}

/// Words outside of simple statements.
const STRUCTURE: [&str; 20] = [
    "if", "else", "for", "while", "do", "switch", "case", "default", "return", "break", "continue",
    "goto", "try", "catch", "throw", "struct", "class", "union", "enum", "template",
];

/// The statements between the braces of the body from token `open_brace`; `waits` has the tokens of the waits other than
/// barriers.
pub(super) fn parse_kernel_body(
    text: &str,
    tokens: &Tokens,
    open_brace: usize,
    waits: &[Range<usize>],
) -> Result<Vec<KernelStatement>, StackRefusal> {
    let depth = Cell::new(0);
    StatementParser { text, tokens, waits, depth }.list(open_brace).map(|(list, _)| list)
}

/// Deeper statements are left alone.
const MOST_LEVELS: usize = 64;

struct StatementParser<'t> {
    text: &'t str,
    tokens: &'t Tokens,
    waits: &'t [Range<usize>],
    /// How many statements are open.
    depth: Cell<usize>,
}

type StatementResult<T> = Result<(T, usize), StackRefusal>;

impl StatementParser<'_> {
    fn is_spelled_at(&self, token_index: usize, spelling: &str) -> bool {
        self.tokens.is_spelled_at(self.text, token_index, spelling)
    }

    fn word(&self, token_index: usize) -> &str {
        self.tokens.get(token_index).map_or("", |token| token.text(self.text))
    }

    fn group(&self, open: usize, bracket: &str) -> Result<usize, StackRefusal> {
        let group_end = self.tokens.skip_group(open).filter(|_| self.is_spelled_at(open, bracket));
        group_end.ok_or_else(|| StackReason::Statement.at(open))
    }

    /// The statements of the list whose brace is at `open_brace`, and the index after it.
    fn list(&self, open_brace: usize) -> StatementResult<Vec<KernelStatement>> {
        let list_end = self.group(open_brace, "{")?;
        let mut statements = Vec::new();
        let mut token_index = open_brace + 1;
        loop {
            token_index = self.skip_pragmas(token_index)?;
            if token_index + 1 >= list_end {
                return Ok((statements, list_end));
            }
            let (statement, next) = self.statement(token_index)?;
            if next >= list_end {
                return Err(StackReason::Statement.at(token_index));
            }
            statements.push(statement);
            token_index = next;
        }
    }

    fn skip_pragmas(&self, mut at: usize) -> Result<usize, StackRefusal> {
        while let Some(token) = self.tokens.get(at).filter(|t| t.kind == TokenKind::Directive) {
            let line = token.text(self.text).trim_start_matches('#').trim_start();
            if !line.starts_with("pragma") {
                return Err(StackReason::Directive.at(at));
            }
            at += 1;
        }
        Ok(at)
    }

    fn statement(&self, start: usize) -> StatementResult<KernelStatement> {
        if self.depth.get() == MOST_LEVELS {
            return Err(StackReason::Depth(MOST_LEVELS).at(start));
        }
        self.depth.set(self.depth.get() + 1);
        let parsed = self.one_statement(start);
        self.depth.set(self.depth.get() - 1);
        parsed
    }

    fn one_statement(&self, start: usize) -> StatementResult<KernelStatement> {
        let start = self.skip_pragmas(start)?;
        let known_wait = self.waits.iter().find(|wait| wait.start == start);
        let (form, end) = match self.word(start) {
            _ if known_wait.is_some() => {
                (StatementForm::Barrier, known_wait.map_or(start, |wait| wait.end))
            }
            "{" => {
                let (list, end) = self.list(start)?;
                (StatementForm::List(list), end)
            }
            "if" => self.conditional(start)?,
            word @ ("for" | "while") => {
                let group_end = self.group(start + 1, "(")?;
                let (body, end) = self.statement(group_end)?;
                let head = start + 2..group_end - 1;
                (StatementForm::Loop { head, is_for: word == "for", body: Box::new(body) }, end)
            }
            "do" => {
                let (body, end) = self.statement(start + 1)?;
                let group_end = self.group(end + 1, "(")?;
                if !self.is_spelled_at(end, "while") || !self.is_spelled_at(group_end, ";") {
                    return Err(StackReason::Statement.at(start));
                }
                (StatementForm::Do { body: Box::new(body) }, group_end + 1)
            }
            "switch" => {
                let group_end = self.group(start + 1, "(")?;
                let (body, end) = self.statement(group_end)?;
                (
                    StatementForm::Switch { head: start + 2..group_end - 1, body: Box::new(body) },
                    end,
                )
            }
            "case" | "default" => self.label(start)?,
            "return" if self.is_spelled_at(start + 1, ";") => (StatementForm::Return, start + 2),
            "__syncthreads" => {
                let group_end = self.group(start + 1, "(")?;
                if group_end != start + 3 || !self.is_spelled_at(group_end, ";") {
                    return Err(StackReason::BarrierInExpression.at(start));
                }
                (StatementForm::Barrier, group_end + 1)
            }
            _ => (StatementForm::Simple, self.simple(start)?),
        };
        let waits = match &form {
            StatementForm::Barrier => true,
            StatementForm::List(list) | StatementForm::If { branches: list, .. } => {
                list.iter().any(|statement| statement.waits)
            }
            StatementForm::Loop { body, .. }
            | StatementForm::Do { body }
            | StatementForm::Switch { body, .. } => body.waits,
            StatementForm::Label | StatementForm::Return | StatementForm::Simple => false,
        };
        Ok((KernelStatement { tokens: start..end, form, waits }, end))
    }

    fn conditional(&self, start: usize) -> StatementResult<StatementForm> {
        let constant = self.is_spelled_at(start + 1, "constexpr");
        let open_parenthesis = start + 1 + usize::from(constant);
        let condition_end = self.group(open_parenthesis, "(")?;
        let (first, mut end) = self.statement(condition_end)?;
        let mut branches = vec![first];
        if self.is_spelled_at(end, "else") {
            let (second, branch_end) = self.statement(end + 1)?;
            branches.push(second);
            end = branch_end;
        }
        Ok((
            StatementForm::If { head: open_parenthesis + 1..condition_end - 1, constant, branches },
            end,
        ))
    }

    fn label(&self, start: usize) -> StatementResult<StatementForm> {
        for token_index in start + 1..self.tokens.len() {
            if self.is_spelled_at(token_index, ":") {
                return Ok((StatementForm::Label, token_index + 1));
            }
            if matches!(self.word(token_index), ";" | "{" | "}" | "?") {
                break;
            }
        }
        Err(StackReason::Label.at(start))
    }

    /// The index after the semicolon of the statement at `start`.
    fn simple(&self, start: usize) -> Result<usize, StackRefusal> {
        let mut token_index = start;
        if matches!(self.word(token_index), "break" | "continue")
            && self.is_spelled_at(token_index + 1, ";")
        {
            return Ok(token_index + 2);
        }
        if self.tokens[start].kind == TokenKind::Ident && self.is_spelled_at(start + 1, ":") {
            return Err(StackReason::Label.at(start));
        }
        while token_index < self.tokens.len() {
            let token = self.tokens[token_index];
            let word = token.text(self.text);
            if token.kind == TokenKind::Directive {
                return Err(StackReason::Directive.at(token_index));
            }
            // `x.template get<T>()` is the one use of the word inside a statement.
            let qualified = word == "template"
                && token_index > start
                && self.is_spelled_at(token_index - 1, ".");
            if word == "}" || !qualified && STRUCTURE.contains(&word) {
                return Err(StackReason::Statement.at(token_index));
            }
            if word == ";" {
                return Ok(token_index + 1);
            }
            token_index = match self.tokens.skip_group(token_index) {
                Some(group_end) => {
                    self.check_group(start, token_index, group_end)?;
                    group_end
                }
                None => token_index + 1,
            };
        }
        Err(StackReason::Statement.at(start))
    }

    /// Refuses code in a possible macro of several statements, and statements inside of others.
    fn check_group(&self, start: usize, open: usize, after: usize) -> Result<(), StackRefusal> {
        let called = open == start + 1 && self.is_spelled_at(open, "(");
        let next = self.tokens.get(after);
        let follows = next
            .is_some_and(|next| next.kind == TokenKind::Ident || next.is_spelled(self.text, "{"));
        let inner = &self.tokens[open..after];
        let nested = inner.iter().any(|token| {
            let word = token.text(self.text);
            token.kind == TokenKind::Directive
                || STRUCTURE.contains(&word) && word != "template"
                || word == ";"
        });
        if called && follows || nested {
            return Err(StackReason::Statement.at(open));
        }
        Ok(())
    }
}
