//! Recognises declarations of variables by their shape alone.

use std::ops::Range;

use crate::syntax::lexer::{TokenKind, Tokens};

/// The kind of a simple statement as a declaration.
#[derive(Debug)]
pub(super) enum DeclarationKind {
    /// Nothing: it is an expression.
    Nothing,
    /// Variables of one type.
    Variables(VariableDeclaration),
    /// Perhaps a declaration of variables, types or functions: the names it may declare.
    Other(Vec<usize>),
}

/// `const T *a = 1, b[2];`
#[derive(Debug)]
pub(super) struct VariableDeclaration {
    /// The tokens of the common type of all declarators.
    pub base: Range<usize>,
    pub declarators: Vec<VariableDeclarator>,
}

/// One of the declared names.
#[derive(Debug)]
pub(super) struct VariableDeclarator {
    /// Asterisks and their qualifiers.
    pub pointer: Range<usize>,
    pub name: usize,
    /// The dimensions of an array, brackets included.
    pub dimensions: Range<usize>,
    /// The tokens from `=`, `(` or `{` to the end of the initialiser.
    pub initialiser: Range<usize>,
}

/// Words at the start of a statement without a declaration.
const NO_TYPE: [&str; 9] =
    ["return", "break", "continue", "delete", "new", "sizeof", "case", "else", "this"];

/// Words of built-in types and of their qualifiers.
const BUILTIN: [&str; 13] = [
    "const", "int", "unsigned", "signed", "long", "short", "char", "bool", "float", "double",
    "wchar_t", "char16_t", "char32_t",
];

/// Names of scalar types, and of vectors without a constructor.
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
    let mut has_type_word = false;
    for word in words {
        has_type_word |= word != "const";
        if !BUILTIN.contains(&word) && !TRIVIAL.contains(&word) && !matches!(word, "::" | "std") {
            return false;
        }
    }
    has_type_word
}

/// The declaration in the tokens of `range`, without its semicolon.
pub(super) fn parse_declaration(
    text: &str,
    tokens: &Tokens,
    range: Range<usize>,
) -> DeclarationKind {
    let reader = DeclarationReader { text, tokens, end: range.end };
    reader.declared(range.start)
}

struct DeclarationReader<'t> {
    text: &'t str,
    tokens: &'t Tokens,
    end: usize,
}

impl DeclarationReader<'_> {
    fn is_spelled_at(&self, token_index: usize, spelling: &str) -> bool {
        token_index < self.end && self.tokens.is_spelled_at(self.text, token_index, spelling)
    }

    fn word(&self, token_index: usize) -> &str {
        if token_index < self.end { self.tokens[token_index].text(self.text) } else { "" }
    }

    fn is_name(&self, token_index: usize) -> bool {
        token_index < self.end && self.tokens[token_index].kind == TokenKind::Ident
    }

    fn declared(&self, start: usize) -> DeclarationKind {
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
            return self.parse_unknown_declaration(start);
        }
        let Some(base_end) = self.base(start) else { return DeclarationKind::Nothing };
        if (start..base_end).any(|token_index| special.contains(&self.word(token_index))) {
            return self.parse_unknown_declaration(start);
        }
        let pointer = self.pointer(base_end);
        if self.is_spelled_at(pointer, "&") {
            // A reference, unless an expression combines bits: then no name follows a type, and
            // taking it for a reference only leaves the kernel alone.
            return self.parse_unknown_declaration(start);
        }
        if self.parenthesised(start, base_end) {
            return self.parse_unknown_declaration(start);
        }
        if !self.is_name(pointer) || !self.ends_declarator(pointer + 1) {
            let declares_other = self.is_name(base_end)
                || start + 1 < base_end && self.is_spelled_at(base_end - 1, "const");
            return if declares_other {
                self.parse_unknown_declaration(start)
            } else {
                DeclarationKind::Nothing
            };
        }
        match self.declarators(base_end) {
            Some(declarators) => DeclarationKind::Variables(VariableDeclaration {
                base: start..base_end,
                declarators,
            }),
            None => self.parse_unknown_declaration(start),
        }
    }

    /// The possibly declared names: the last word before each initialiser or comma, bindings, and names in parentheses
    /// behind an asterisk.
    fn parse_unknown_declaration(&self, start: usize) -> DeclarationKind {
        let mut names = Vec::new();
        let mut last = None;
        let mut token_index = start;
        let mut initialised = false;
        while token_index < self.end {
            let ends = matches!(self.word(token_index), "=" | "," | "{");
            if ends && !initialised {
                names.extend(last.take());
            }
            initialised = (initialised || ends) && !self.is_spelled_at(token_index, ",");
            let bindings = self.is_spelled_at(token_index, "[")
                && matches!(self.word(token_index - 1), "auto" | "&");
            let pointer = self.is_spelled_at(token_index, "(")
                && matches!(self.word(token_index + 1), "*" | "&");
            if self.is_name(token_index) && !initialised {
                last = Some(token_index);
            }
            let group_end = self.tokens.skip_group_or_angles(self.text, token_index);
            if let Some(group_end) = group_end.filter(|_| (bindings || pointer) && !initialised) {
                names.extend((token_index..group_end).filter(|&inner| self.is_name(inner)));
            }
            token_index = group_end.unwrap_or(token_index + 1);
        }
        names.extend(last.filter(|_| !initialised));
        DeclarationKind::Other(names)
    }

    /// Whether a declarator in parentheses follows the type: `float (*rows)[32]`.
    fn parenthesised(&self, start: usize, base_end: usize) -> bool {
        let Some(end) =
            self.tokens.skip_group(base_end).filter(|_| self.is_spelled_at(base_end, "("))
        else {
            return false;
        };
        let builtin =
            (start..base_end).all(|token_index| BUILTIN.contains(&self.word(token_index)));
        let starred = matches!(self.word(base_end + 1), "*" | "&");
        builtin || starred && matches!(self.word(end), "[" | "(")
    }

    /// The index after the words of a type, if one stands at `start`.
    fn base(&self, start: usize) -> Option<usize> {
        let mut token_index = start;
        let mut builtin = false;
        let mut is_named = false;
        loop {
            let word = self.word(token_index);
            if BUILTIN.contains(&word) {
                builtin |= word != "const";
                token_index += 1;
            } else if is_named || builtin {
                return Some(token_index);
            } else if self.is_spelled_at(token_index, "typename")
                || self.is_spelled_at(token_index, "::")
            {
                token_index += 1;
            } else if self.is_name(token_index) && !NO_TYPE.contains(&word) {
                token_index = self.qualified(token_index)?;
                is_named = true;
            } else {
                return None;
            }
        }
    }

    /// The index after a name with its scopes and template arguments.
    fn qualified(&self, mut token_index: usize) -> Option<usize> {
        loop {
            if !self.is_name(token_index) {
                return None;
            }
            token_index += 1;
            if self.is_spelled_at(token_index, "<") {
                token_index = self
                    .tokens
                    .skip_angles(self.text, token_index)
                    .filter(|&angles_end| angles_end <= self.end)?;
            }
            if !self.is_spelled_at(token_index, "::") {
                return Some(token_index);
            }
            token_index += 1;
            if self.is_spelled_at(token_index, "template") {
                token_index += 1;
            }
        }
    }

    fn pointer(&self, mut token_index: usize) -> usize {
        while matches!(self.word(token_index), "*" | "const" | "__restrict__" | "__restrict") {
            token_index += 1;
        }
        token_index
    }

    fn ends_declarator(&self, token_index: usize) -> bool {
        token_index == self.end || matches!(self.word(token_index), "=" | "," | "[" | "(" | "{")
    }

    fn declarators(&self, mut token_index: usize) -> Option<Vec<VariableDeclarator>> {
        let mut parsed_declarators = Vec::new();
        loop {
            let name = self.pointer(token_index);
            let pointer = token_index..name;
            if !self.is_name(name) || !self.ends_declarator(name + 1) {
                return None;
            }
            let mut dimensions_end = name + 1;
            while self.is_spelled_at(dimensions_end, "[") {
                dimensions_end = self.tokens.skip_group(dimensions_end)?;
            }
            let dimensions = name + 1..dimensions_end;
            let end = self.initialiser(dimensions_end)?;
            parsed_declarators.push(VariableDeclarator {
                pointer,
                name,
                dimensions,
                initialiser: dimensions_end..end,
            });
            if end == self.end {
                return Some(parsed_declarators);
            }
            token_index = end + 1;
        }
    }

    /// The index of the comma or end after the initialiser at `start`, if there is one.
    fn initialiser(&self, start: usize) -> Option<usize> {
        if start == self.end || self.is_spelled_at(start, ",") {
            return Some(start);
        }
        if matches!(self.word(start), "(" | "{") {
            let group_end = self.tokens.skip_group(start)?;
            // Parentheses without arguments, or around a type, declare a function.
            let first = self.word(start + 1);
            if self.is_spelled_at(start, "(")
                && (group_end == start + 2 || BUILTIN.contains(&first))
            {
                return None;
            }
            return (group_end == self.end || self.is_spelled_at(group_end, ","))
                .then_some(group_end);
        }
        if !self.is_spelled_at(start, "=") || start + 1 == self.end {
            return None;
        }
        let mut token_index = start + 1;
        while token_index < self.end && !self.is_spelled_at(token_index, ",") {
            if self.is_spelled_at(token_index, "<") {
                let angles = self.tokens.skip_angles(self.text, token_index);
                let called =
                    |&angles_end: &usize| matches!(self.word(angles_end), "(" | "{" | "::");
                token_index = angles.filter(called).unwrap_or(token_index + 1);
                continue;
            }
            token_index = self.tokens.skip_group(token_index).unwrap_or(token_index + 1);
        }
        (token_index <= self.end).then_some(token_index)
    }
}
