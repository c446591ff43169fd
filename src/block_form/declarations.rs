//! Recognises declarations of variables by their shape alone.

use std::ops::Range;

use crate::syntax::lexer::{Kind, Tokens};

/// The kind of declaration that a simple statement is.
#[derive(Debug)]
pub(super) enum Declared {
    /// Nothing: it is an expression.
    Nothing,
    /// Variables of one type.
    Variables(Declaration),
    /// Something else that may declare variables, types or functions: the names that it may declare.
    Other(Vec<usize>),
}

/// `const T *a = 1, b[2];`
#[derive(Debug)]
pub(super) struct Declaration {
    /// The tokens of the type that all declarators share.
    pub base: Range<usize>,
    pub declarators: Vec<Declarator>,
}

/// One of the declared names.
#[derive(Debug)]
pub(super) struct Declarator {
    /// Asterisks and their qualifiers.
    pub pointer: Range<usize>,
    pub name: usize,
    /// The dimensions of an array, brackets included.
    pub dimensions: Range<usize>,
    /// The tokens from `=`, `(` or `{` to the end of the initialiser.
    pub initialiser: Range<usize>,
}

/// Words that begin no declaration.
const NO_TYPE: [&str; 9] =
    ["return", "break", "continue", "delete", "new", "sizeof", "case", "else", "this"];

/// Words of the types that the language has, and of their qualifiers.
const BUILTIN: [&str; 13] = [
    "const", "int", "unsigned", "signed", "long", "short", "char", "bool", "float", "double",
    "wchar_t", "char16_t", "char32_t",
];

/// Names of scalar types, and of vectors that are made without a constructor.
const TRIVIAL: [&str; 26] = [
    "size_t",
    "ssize_t",
    "ptrdiff_t",
    "intptr_t",
    "uintptr_t",
    "int8_t",
    "int16_t",
    "int32_t",
    "int64_t",
    "uint8_t",
    "uint16_t",
    "uint32_t",
    "uint64_t",
    "uint",
    "float2",
    "float3",
    "float4",
    "double2",
    "double4",
    "int2",
    "int3",
    "int4",
    "uint2",
    "uint3",
    "uint4",
    "uchar4",
];

/// Whether a jump may pass a variable of a type made of `words` without initialising it.
pub(super) fn is_trivial<'t>(words: impl Iterator<Item = &'t str>) -> bool {
    let mut any = false;
    for word in words {
        any |= word != "const";
        if !BUILTIN.contains(&word) && !TRIVIAL.contains(&word) && !matches!(word, "::" | "std") {
            return false;
        }
    }
    any
}

/// The declaration in the tokens of `range`, which ends before the semicolon.
pub(super) fn declared(text: &str, tokens: &Tokens, range: Range<usize>) -> Declared {
    let reader = Reader { text, tokens, end: range.end };
    reader.declared(range.start)
}

struct Reader<'t> {
    text: &'t str,
    tokens: &'t Tokens,
    end: usize,
}

impl Reader<'_> {
    fn is(&self, at: usize, spelling: &str) -> bool {
        at < self.end && self.tokens.is(self.text, at, spelling)
    }

    fn word(&self, at: usize) -> &str {
        if at < self.end { self.tokens[at].text(self.text) } else { "" }
    }

    fn is_name(&self, at: usize) -> bool {
        at < self.end && self.tokens[at].kind == Kind::Ident
    }

    fn declared(&self, start: usize) -> Declared {
        let special = [
            "auto",
            "static",
            "extern",
            "typedef",
            "using",
            "constexpr",
            "register",
            "decltype",
            "namespace",
            "alignas",
            "__align__",
            "__attribute__",
            "static_assert",
            "void",
            "union",
            "__typeof__",
            "typeof",
            "mutable",
            "inline",
            "thread_local",
        ];
        if self.is_name(start) && special.contains(&self.word(start)) {
            return self.other(start);
        }
        let Some(after) = self.base(start) else { return Declared::Nothing };
        if (start..after).any(|at| special.contains(&self.word(at))) {
            return self.other(start);
        }
        let pointer = self.pointer(after);
        if self.is(pointer, "&") {
            // A reference, unless an expression combines bits: then no name follows a type, and
            // taking it for a reference only leaves the kernel alone.
            return self.other(start);
        }
        if self.parenthesised(start, after) {
            return self.other(start);
        }
        if !self.is_name(pointer) || !self.ends_declarator(pointer + 1) {
            let plain = self.is_name(after) || start + 1 < after && self.is(after - 1, "const");
            return if plain { self.other(start) } else { Declared::Nothing };
        }
        match self.declarators(after) {
            Some(declarators) => {
                Declared::Variables(Declaration { base: start..after, declarators })
            }
            None => self.other(start),
        }
    }

    /// The names that may be declared: the last word before each initialiser or comma, bindings,
    /// and names in parentheses behind an asterisk.
    fn other(&self, start: usize) -> Declared {
        let mut names = Vec::new();
        let mut last = None;
        let mut at = start;
        let mut initialised = false;
        while at < self.end {
            let ends = matches!(self.word(at), "=" | "," | "{");
            if ends && !initialised {
                names.extend(last.take());
            }
            initialised = (initialised || ends) && !self.is(at, ",");
            let bindings = self.is(at, "[") && matches!(self.word(at - 1), "auto" | "&");
            let pointer = self.is(at, "(") && matches!(self.word(at + 1), "*" | "&");
            if self.is_name(at) && !initialised {
                last = Some(at);
            }
            let angles = match self.is(at, "<") {
                true => self.tokens.skip_angles(self.text, at),
                false => None,
            };
            let after = angles.or(self.tokens.skip_group(at));
            if let Some(after) = after.filter(|_| (bindings || pointer) && !initialised) {
                names.extend((at..after).filter(|&inner| self.is_name(inner)));
            }
            at = after.unwrap_or(at + 1);
        }
        names.extend(last.filter(|_| !initialised));
        Declared::Other(names)
    }

    /// Whether a declarator in parentheses follows the type: `float (*rows)[32]`.
    fn parenthesised(&self, start: usize, after: usize) -> bool {
        let Some(end) = self.tokens.skip_group(after).filter(|_| self.is(after, "(")) else {
            return false;
        };
        let builtin = (start..after).all(|at| BUILTIN.contains(&self.word(at)));
        let starred = matches!(self.word(after + 1), "*" | "&");
        builtin || starred && matches!(self.word(end), "[" | "(")
    }

    /// The index after the words of a type, if one stands at `start`.
    fn base(&self, start: usize) -> Option<usize> {
        let mut at = start;
        let mut builtin = false;
        let mut named = false;
        loop {
            let word = self.word(at);
            if BUILTIN.contains(&word) {
                builtin |= word != "const";
                at += 1;
            } else if named || builtin {
                return Some(at);
            } else if self.is(at, "typename") || self.is(at, "::") {
                at += 1;
            } else if self.is_name(at) && !NO_TYPE.contains(&word) {
                at = self.qualified(at)?;
                named = true;
            } else {
                return None;
            }
        }
    }

    /// The index after a name with its scopes and template arguments.
    fn qualified(&self, mut at: usize) -> Option<usize> {
        loop {
            if !self.is_name(at) {
                return None;
            }
            at += 1;
            if self.is(at, "<") {
                at = self.tokens.skip_angles(self.text, at).filter(|&after| after <= self.end)?;
            }
            if !self.is(at, "::") {
                return Some(at);
            }
            at += 1;
            if self.is(at, "template") {
                at += 1;
            }
        }
    }

    fn pointer(&self, mut at: usize) -> usize {
        while matches!(self.word(at), "*" | "const" | "__restrict__" | "__restrict") {
            at += 1;
        }
        at
    }

    fn ends_declarator(&self, at: usize) -> bool {
        at == self.end || matches!(self.word(at), "=" | "," | "[" | "(" | "{")
    }

    fn declarators(&self, mut at: usize) -> Option<Vec<Declarator>> {
        let mut found = Vec::new();
        loop {
            let name = self.pointer(at);
            let pointer = at..name;
            if !self.is_name(name) || !self.ends_declarator(name + 1) {
                return None;
            }
            let mut after = name + 1;
            while self.is(after, "[") {
                after = self.tokens.skip_group(after)?;
            }
            let dimensions = name + 1..after;
            let end = self.initialiser(after)?;
            found.push(Declarator { pointer, name, dimensions, initialiser: after..end });
            if end == self.end {
                return Some(found);
            }
            at = end + 1;
        }
    }

    /// The index of the comma or end after the initialiser that starts at `start`, if any does.
    fn initialiser(&self, start: usize) -> Option<usize> {
        if start == self.end || self.is(start, ",") {
            return Some(start);
        }
        if matches!(self.word(start), "(" | "{") {
            let after = self.tokens.skip_group(start)?;
            // Parentheses without arguments, or around a type, declare a function.
            let first = self.word(start + 1);
            if self.is(start, "(") && (after == start + 2 || BUILTIN.contains(&first)) {
                return None;
            }
            return (after == self.end || self.is(after, ",")).then_some(after);
        }
        if !self.is(start, "=") || start + 1 == self.end {
            return None;
        }
        let mut at = start + 1;
        while at < self.end && !self.is(at, ",") {
            if self.is(at, "<") {
                let angles = self.tokens.skip_angles(self.text, at);
                let called = |&after: &usize| matches!(self.word(after), "(" | "{" | "::");
                at = angles.filter(called).unwrap_or(at + 1);
                continue;
            }
            at = self.tokens.skip_group(at).unwrap_or(at + 1);
        }
        (at <= self.end).then_some(at)
    }
}
