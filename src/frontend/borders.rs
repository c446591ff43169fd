//! Refuses code that CUDA's compiler refuses and a compiler for the host takes: calls and variables
//! across the border between host and device, and constructs that kernels and device code may not hold
//! (CUDA C++ Programming Guide, "C++ Language Support", "Function Execution Space Specifiers").
//!
//! Knows names and no types. A name that may mean something else is left to the compiler: nothing
//! is refused that CUDA takes.

mod code;
mod kernels;
mod names;

use std::collections::BTreeSet;
use std::ops::Range;

use self::code::Code;
use super::FrontendError;
use super::host::{self, Context};
use super::lexer::{Kind, Tokens};
use super::outline::{Item, ItemKind, outline};
use super::spaces::{Space, Spaces};

/// Refuses uses of names on the wrong side of the border in the file.
pub(super) fn check(context: &Context) -> Result<(), FrontendError> {
    let (source, tokens) = (context.source, &context.tokens);
    let spaces = context.symbols.spaces();
    let file = File { context, tokens, spaces };
    if context.place == host::Place::Body {
        return file.check_code("the call", Space::Host, 0..0, 0..tokens.len());
    }
    let items = outline(source.text, tokens);
    kernels::check(&file, &items)?;
    for item in items.iter().filter(|item| item.kind == ItemKind::Function) {
        let head = item.tokens.start..item.body.start;
        let space = match spaces.runs_on(source.text, tokens, item) {
            // A function that both sides may have is not held to either's rules.
            Space::Anywhere if !file.is_for_both(item) => continue,
            space => space,
        };
        file.check_code(&item.name, space, head, item.body.clone())?;
    }
    Ok(())
}

/// One file, with the facts of its source set.
struct File<'c> {
    context: &'c Context<'c, 'c>,
    tokens: &'c Tokens,
    spaces: &'c Spaces,
}

impl<'c> File<'c> {
    fn text(&self) -> &'c str {
        self.context.source.text
    }

    fn is(&self, at: usize, spelling: &str) -> bool {
        self.tokens.is(self.text(), at, spelling)
    }

    fn word(&self, at: usize) -> &'c str {
        self.tokens.get(at).map_or("", |token| token.text(self.text()))
    }

    fn is_ident(&self, at: usize) -> bool {
        let keywords = ["if", "while", "for", "switch", "return"];
        self.tokens[at].kind == Kind::Ident && !keywords.contains(&self.word(at))
    }

    /// The word before token `at`.
    fn before(&self, at: usize) -> &'c str {
        at.checked_sub(1).map_or("", |before| self.word(before))
    }

    fn refused(&self, at: usize, what: String, hint: &'static str) -> FrontendError {
        let source = self.context.source;
        let line = source.line(self.tokens[at].start);
        let path = source.path.to_owned();
        FrontendError::Restriction { what, path, line, why: "CUDA refuses it", hint }
    }

    /// Whether `item` is marked as `__host__ __device__`, and host code calls it. Of templates CUDA
    /// sees only the instances.
    fn is_for_both(&self, item: &Item) -> bool {
        let has = |word| item.has(self.text(), self.tokens, word);
        let plain = !has("constexpr") && !item.template && !item.member;
        has("__host__") && has("__device__") && plain && self.spaces.is_called_by_host(&item.name)
    }

    /// Checks the tokens `body` of a function whose name and parameters are the tokens `head`.
    fn check_code(
        &self,
        name: &str,
        space: Space,
        head: Range<usize>,
        body: Range<usize>,
    ) -> Result<(), FrontendError> {
        let mut local = BTreeSet::new();
        self.declared(head, &mut local);
        self.declared(body.clone(), &mut local);
        let code = Code { file: self, name, space, local };
        let mut at = body.start;
        while at < body.end {
            if let Some(after) = self.skipped(at, space) {
                at = after;
                continue;
            }
            let by_arch = || self.context.source.by_arch(self.tokens[at].start);
            if self.tokens[at].kind == Kind::Ident && !by_arch() {
                code.check(at)?;
            }
            at += 1;
        }
        Ok(())
    }

    /// The index after code at `at` that is not run there: operands that are not evaluated and, in
    /// host code, a lambda or class for the device.
    fn skipped(&self, at: usize, space: Space) -> Option<usize> {
        let unevaluated = ["decltype", "sizeof", "alignof", "noexcept", "__typeof__"];
        if unevaluated.contains(&self.word(at)) {
            return self.tokens.skip_group(at + 1);
        }
        let marked = space == Space::Host && self.is(at, "__device__");
        let open =
            || (at..self.tokens.len()).find(|&next| self.is(next, "{") || self.is(next, ";"));
        let open = marked.then(open).flatten()?;
        self.tokens.skip_group(open).or(Some(open))
    }

    /// Adds the names that the tokens of `range` may declare.
    fn declared(&self, range: Range<usize>, names: &mut BTreeSet<&'c str>) {
        for at in range.start + 1..range.end {
            if self.tokens[at].kind == Kind::Ident && self.may_declare(at) {
                names.insert(self.word(at));
            }
        }
    }

    /// Whether the identifier at `at` may be the name of a declaration.
    fn may_declare(&self, at: usize) -> bool {
        let no_type = [
            "return",
            "else",
            "do",
            "case",
            "goto",
            "throw",
            "new",
            "delete",
            "sizeof",
            "typename",
            "co_return",
            "co_await",
            "co_yield",
            "and",
            "or",
            "not",
        ];
        let next = self.word(at + 1);
        let ends = matches!(next, "=" | ";" | "," | ")" | "[" | "{" | ":" | "]" | ">");
        match self.before(at) {
            "*" | "&" if next == ")" && at > 1 && self.before(at - 1) == "(" => true,
            "*" | "&" | ">" => ends && self.begins_declaration(at - 1),
            // `auto [a, b]`, `[a = 1]`, `int a, b`
            "," | "[" => ends && (next == "=" && !self.is(at + 2, "=") || self.in_binding(at)),
            word if self.tokens[at - 1].kind == Kind::Ident => {
                !no_type.contains(&word) && (ends || next == "(")
            }
            _ => false,
        }
    }

    /// Whether the `*`, `&` or `>` at `at` may end the type of a declaration: whether that begins
    /// where a statement, a parameter or a list does.
    fn begins_declaration(&self, mut at: usize) -> bool {
        while matches!(self.word(at), "*" | "&" | "const" | "__restrict__" | "volatile") {
            let Some(before) = at.checked_sub(1) else { return false };
            at = before;
        }
        if self.is(at, ">") {
            let mut depth = 0usize;
            while at > 0 {
                depth += usize::from(self.is(at, ">"));
                depth = depth.saturating_sub(usize::from(self.is(at, "<")));
                at -= 1;
                if depth == 0 {
                    break;
                }
            }
        }
        while at > 1 && self.is(at - 1, "::") {
            at -= 2;
        }
        let is_type = self.tokens[at].kind == Kind::Ident;
        let starts = |word: &str| matches!(word, ";" | "{" | "}" | "(" | "," | "");
        let before = at.checked_sub(1).map(|before| self.tokens[before]);
        let follows_word =
            before.is_some_and(|token| matches!(token.kind, Kind::Ident | Kind::Directive));
        is_type && (starts(self.before(at)) || follows_word && self.before(at) != "return")
    }

    /// Whether token `at` stands in `auto [...]` or is a later name of `T a, b`.
    fn in_binding(&self, at: usize) -> bool {
        let bracket = (at.saturating_sub(16)..at).rev().find(|&open| self.is(open, "["));
        let binding = |open: usize| {
            let word = self.before(open);
            word == "auto" || word == "&" && open > 1 && self.before(open - 1) == "auto"
        };
        bracket.is_some_and(binding) || {
            let start =
                (0..at).rev().find(|&start| matches!(self.word(start), ";" | "{" | "}" | "("));
            start.is_some_and(|start| {
                self.tokens.get(start + 1).is_some_and(|token| token.kind == Kind::Ident)
                    && self.tokens.get(start + 2).is_some_and(|token| token.kind == Kind::Ident)
                    && !matches!(self.word(start + 1), "return" | "else")
            })
        }
    }

    /// Whether the name at `at` is called: by arguments, or by those of a template and arguments.
    fn is_called(&self, at: usize) -> bool {
        if self.is(at + 1, "(") {
            return true;
        }
        let after = || self.tokens.skip_angles(self.text(), at + 1);
        self.is(at + 1, "<") && after().is_some_and(|after| self.is(after, "("))
    }
}
