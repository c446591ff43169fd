//! Splits a function's body into statements, as ranges of tokens, by brackets and keywords alone.

use std::cell::Cell;
use std::ops::Range;

use super::reason::{StackReason, StackRefusal};
use crate::syntax::lexer::{Kind, Tokens};

/// One statement.
#[derive(Debug)]
pub(super) struct Statement {
    /// Its tokens, up to its semicolon or closing brace.
    pub tokens: Range<usize>,
    pub form: Form,
    /// Whether a barrier stands in it.
    pub waits: bool,
}

/// The kind of a statement.
#[derive(Debug)]
pub(super) enum Form {
    /// `{ ... }`
    List(Vec<Statement>),
    /// `if` with its branches; the tokens in its parentheses.
    If { head: Range<usize>, constant: bool, branches: Vec<Statement> },
    /// `for` and `while`; the tokens in the parentheses.
    Loop { head: Range<usize>, is_for: bool, body: Box<Statement> },
    /// `do body while (...)`
    Do { body: Box<Statement> },
    /// `switch`; the tokens in its parentheses.
    Switch { head: Range<usize>, body: Box<Statement> },
    /// `case x:` or `default:`
    Label,
    /// `__syncthreads();`, or one of the waits that the caller knows.
    Barrier,
    /// `return;`
    Return,
    /// Everything else: expressions, declarations, `break`, `continue`, nothing.
    Simple,
}

/// Words that no simple statement holds.
const STRUCTURE: [&str; 20] = [
    "if", "else", "for", "while", "do", "switch", "case", "default", "return", "break", "continue",
    "goto", "try", "catch", "throw", "struct", "class", "union", "enum", "template",
];

/// The statements between the braces of the body that opens at token `open`; `waits` has the tokens of those that
/// wait and are no barriers.
pub(super) fn body(
    text: &str,
    tokens: &Tokens,
    open: usize,
    waits: &[Range<usize>],
) -> Result<Vec<Statement>, StackRefusal> {
    let depth = Cell::new(0);
    Parser { text, tokens, waits, depth }.list(open).map(|(list, _)| list)
}

/// Deeper statements are left alone.
const MOST_LEVELS: usize = 64;

struct Parser<'t> {
    text: &'t str,
    tokens: &'t Tokens,
    waits: &'t [Range<usize>],
    /// How many statements are open.
    depth: Cell<usize>,
}

type Parsed<T> = Result<(T, usize), StackRefusal>;

impl Parser<'_> {
    fn is(&self, at: usize, spelling: &str) -> bool {
        self.tokens.is(self.text, at, spelling)
    }

    fn word(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| token.text(self.text))
    }

    fn group(&self, open: usize, bracket: &str) -> Result<usize, StackRefusal> {
        let after = self.tokens.skip_group(open).filter(|_| self.is(open, bracket));
        after.ok_or_else(|| StackReason::Statement.at(open))
    }

    /// The statements of the list whose brace is at `open`, and the index after it.
    fn list(&self, open: usize) -> Parsed<Vec<Statement>> {
        let after = self.group(open, "{")?;
        let mut statements = Vec::new();
        let mut at = open + 1;
        loop {
            at = self.skip_pragmas(at)?;
            if at + 1 >= after {
                return Ok((statements, after));
            }
            let (statement, next) = self.statement(at)?;
            if next >= after {
                return Err(StackReason::Statement.at(at));
            }
            statements.push(statement);
            at = next;
        }
    }

    fn skip_pragmas(&self, mut at: usize) -> Result<usize, StackRefusal> {
        while let Some(token) = self.tokens.get(at).filter(|t| t.kind == Kind::Directive) {
            let line = token.text(self.text).trim_start_matches('#').trim_start();
            if !line.starts_with("pragma") {
                return Err(StackReason::Directive.at(at));
            }
            at += 1;
        }
        Ok(at)
    }

    fn statement(&self, start: usize) -> Parsed<Statement> {
        if self.depth.get() == MOST_LEVELS {
            return Err(StackReason::Depth(MOST_LEVELS).at(start));
        }
        self.depth.set(self.depth.get() + 1);
        let parsed = self.one_statement(start);
        self.depth.set(self.depth.get() - 1);
        parsed
    }

    fn one_statement(&self, start: usize) -> Parsed<Statement> {
        let start = self.skip_pragmas(start)?;
        let known = self.waits.iter().find(|wait| wait.start == start);
        let (form, end) = match self.word(start) {
            _ if known.is_some() => (Form::Barrier, known.map_or(start, |wait| wait.end)),
            "{" => {
                let (list, end) = self.list(start)?;
                (Form::List(list), end)
            }
            "if" => self.conditional(start)?,
            word @ ("for" | "while") => {
                let after = self.group(start + 1, "(")?;
                let (body, end) = self.statement(after)?;
                let head = start + 2..after - 1;
                (Form::Loop { head, is_for: word == "for", body: Box::new(body) }, end)
            }
            "do" => {
                let (body, end) = self.statement(start + 1)?;
                let after = self.group(end + 1, "(")?;
                if !self.is(end, "while") || !self.is(after, ";") {
                    return Err(StackReason::Statement.at(start));
                }
                (Form::Do { body: Box::new(body) }, after + 1)
            }
            "switch" => {
                let after = self.group(start + 1, "(")?;
                let (body, end) = self.statement(after)?;
                (Form::Switch { head: start + 2..after - 1, body: Box::new(body) }, end)
            }
            "case" | "default" => self.label(start)?,
            "return" if self.is(start + 1, ";") => (Form::Return, start + 2),
            "__syncthreads" => {
                let after = self.group(start + 1, "(")?;
                if after != start + 3 || !self.is(after, ";") {
                    return Err(StackReason::BarrierInExpression.at(start));
                }
                (Form::Barrier, after + 1)
            }
            _ => (Form::Simple, self.simple(start)?),
        };
        let waits = match &form {
            Form::Barrier => true,
            Form::List(list) | Form::If { branches: list, .. } => list.iter().any(|one| one.waits),
            Form::Loop { body, .. } | Form::Do { body } | Form::Switch { body, .. } => body.waits,
            Form::Label | Form::Return | Form::Simple => false,
        };
        Ok((Statement { tokens: start..end, form, waits }, end))
    }

    fn conditional(&self, start: usize) -> Parsed<Form> {
        let constant = self.is(start + 1, "constexpr");
        let open = start + 1 + usize::from(constant);
        let after = self.group(open, "(")?;
        let (first, mut end) = self.statement(after)?;
        let mut branches = vec![first];
        if self.is(end, "else") {
            let (second, after) = self.statement(end + 1)?;
            branches.push(second);
            end = after;
        }
        Ok((Form::If { head: open + 1..after - 1, constant, branches }, end))
    }

    fn label(&self, start: usize) -> Parsed<Form> {
        for at in start + 1..self.tokens.len() {
            if self.is(at, ":") {
                return Ok((Form::Label, at + 1));
            }
            if matches!(self.word(at), ";" | "{" | "}" | "?") {
                break;
            }
        }
        Err(StackReason::Label.at(start))
    }

    /// The index after the semicolon of the statement that starts at `start`.
    fn simple(&self, start: usize) -> Result<usize, StackRefusal> {
        let mut at = start;
        if matches!(self.word(at), "break" | "continue") && self.is(at + 1, ";") {
            return Ok(at + 2);
        }
        if self.tokens[start].kind == Kind::Ident && self.is(start + 1, ":") {
            return Err(StackReason::Label.at(start));
        }
        while at < self.tokens.len() {
            let token = self.tokens[at];
            let word = token.text(self.text);
            if token.kind == Kind::Directive {
                return Err(StackReason::Directive.at(at));
            }
            // `x.template get<T>()` is the one use of the word inside a statement.
            let qualified = word == "template" && at > start && self.is(at - 1, ".");
            if word == "}" || !qualified && STRUCTURE.contains(&word) {
                return Err(StackReason::Statement.at(at));
            }
            if word == ";" {
                return Ok(at + 1);
            }
            at = match self.tokens.skip_group(at) {
                Some(after) => {
                    self.check_group(start, at, after)?;
                    after
                }
                None => at + 1,
            };
        }
        Err(StackReason::Statement.at(start))
    }

    /// Refuses code that a macro may have made of several statements, and statements inside of others.
    fn check_group(&self, start: usize, open: usize, after: usize) -> Result<(), StackRefusal> {
        let called = open == start + 1 && self.is(open, "(");
        let next = self.tokens.get(after);
        let follows = next.is_some_and(|next| next.kind == Kind::Ident || next.is(self.text, "{"));
        let inner = &self.tokens[open..after];
        let nested = inner.iter().any(|token| {
            let word = token.text(self.text);
            token.kind == Kind::Directive
                || STRUCTURE.contains(&word) && word != "template"
                || word == ";"
        });
        if called && follows || nested {
            return Err(StackReason::Statement.at(open));
        }
        Ok(())
    }
}
