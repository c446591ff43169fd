//! Cuts C++ text into tokens, just finely enough to tell code from comments, strings and
//! preprocessor lines. Pure: no grammar, no preprocessing.

use std::ops::Range;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// An identifier or keyword.
    Ident,
    /// A preprocessing number.
    Number,
    /// A string or character literal with its prefix, raw strings included.
    Text,
    /// One character of punctuation, or one of `::`, `->`, `<<<`, `##`.
    Punct,
    /// A whole preprocessor line with its continuations.
    Directive,
}

/// A token and the bytes it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub kind: TokenKind,
    pub start: usize,
    pub end: usize,
}

impl Token {
    /// The token's text in `text`, the text it was cut from.
    pub(crate) fn text<'t>(&self, text: &'t str) -> &'t str {
        &text[self.start..self.end]
    }

    /// Whether this is code spelled exactly `spelling`.
    pub(crate) fn is_spelled(&self, text: &str, spelling: &str) -> bool {
        matches!(self.kind, TokenKind::Ident | TokenKind::Punct) && self.text(text) == spelling
    }
}

/// No template argument list has more tokens; the limit keeps hostile text from taking quadratic
/// time.
pub(crate) const MOST_ARGUMENTS: usize = 1024;

/// Every token of `text`, comments left out.
pub(crate) fn lex_tokens(text: &str) -> Vec<Token> {
    Lexer { bytes: text.as_bytes(), at: 0, end: text.len(), line_start: true }.run()
}

/// The tokens after the `#` of `directive`.
pub(crate) fn lex_directive(text: &str, directive: Token) -> Tokens {
    let hash =
        text[directive.start..directive.end].find('#').map_or(0, |hash_offset| hash_offset + 1);
    let bytes = text.as_bytes();
    let lexer = Lexer { bytes, at: directive.start + hash, end: directive.end, line_start: false };
    Tokens::new(text, lexer.run())
}

/// Tokens with their brackets matched.
#[derive(Clone, Debug)]
pub(crate) struct Tokens {
    list: Vec<Token>,
    /// For each bracket among the tokens, the index of its partner.
    partners: Vec<Option<usize>>,
}

impl std::ops::Deref for Tokens {
    type Target = [Token];

    fn deref(&self) -> &[Token] {
        &self.list
    }
}

impl Tokens {
    /// Matches the brackets of `list`, tokens of `text`.
    pub(crate) fn new(text: &str, list: Vec<Token>) -> Self {
        let mut partners = vec![None; list.len()];
        let mut open_brackets = Vec::new();
        for (index, token) in list.iter().enumerate().filter(|(_, t)| t.kind == TokenKind::Punct) {
            match token.text(text) {
                "(" | "[" | "{" => open_brackets.push(index),
                ")" | "]" | "}" => {
                    if let Some(opener) = open_brackets.pop() {
                        partners[opener] = Some(index);
                        partners[index] = Some(opener);
                    }
                }
                _ => {}
            }
        }
        Tokens { list, partners }
    }

    /// The index after the group from `open_bracket`, or `None` if nothing opens there or it never closes.
    pub(crate) fn skip_group(&self, open_bracket: usize) -> Option<usize> {
        let close_bracket = self.partners.get(open_bracket).copied().flatten();
        close_bracket
            .filter(|&close_bracket| close_bracket > open_bracket)
            .map(|close_bracket| close_bracket + 1)
    }

    /// The index of the opening bracket of `close_bracket`, or `None` if there is none.
    pub(crate) fn group_start(&self, close_bracket: usize) -> Option<usize> {
        self.partners
            .get(close_bracket)
            .copied()
            .flatten()
            .filter(|&open_bracket| open_bracket < close_bracket)
    }

    /// The index after the template argument list from `open_angle` (`<`), or `None`.
    pub(crate) fn skip_angles(&self, text: &str, open_angle: usize) -> Option<usize> {
        let mut depth = 0usize;
        let mut index = open_angle;
        while index < self.list.len().min(open_angle + MOST_ARGUMENTS) {
            let token = self.list[index];
            match token.text(text) {
                "<" => depth += 1,
                ">" => depth = depth.checked_sub(1)?,
                "(" | "[" | "{" if token.kind == TokenKind::Punct => {
                    index = self.skip_group(index)?;
                    continue;
                }
                ";" | ")" | "]" | "}" | "<<<" => return None,
                _ => {}
            }
            index += 1;
            if depth == 0 {
                return (index > open_angle + 1).then_some(index);
            }
        }
        None
    }

    /// The index after the group or the template argument list from `index`, or `None`.
    pub(crate) fn skip_group_or_angles(&self, text: &str, index: usize) -> Option<usize> {
        if self.is_spelled_at(text, index, "<") {
            self.skip_angles(text, index)
        } else {
            self.skip_group(index)
        }
    }

    /// The parts of `range` between its commas. Groups stay whole; `<` compares.
    pub(crate) fn split_arguments(&self, text: &str, range: Range<usize>) -> Vec<Range<usize>> {
        self.split_at_commas(text, range, |index| self.skip_group(index))
    }

    /// The parts of `range` between its commas. Groups stay whole, and so does a template argument list in front of
    /// the arguments of a call, of braces or of `::`; another `<` compares.
    pub(crate) fn split_call_arguments(
        &self,
        text: &str,
        range: Range<usize>,
    ) -> Vec<Range<usize>> {
        self.split_at_commas(text, range, |index| {
            let is_named =
                index.checked_sub(1).is_some_and(|name| self.list[name].kind == TokenKind::Ident);
            let list_end = if is_named { self.skip_angles(text, index) } else { None };
            let is_list = list_end.is_some_and(|end| {
                ["(", "{", "::"].iter().any(|next| self.is_spelled_at(text, end, next))
            });
            if is_list { list_end } else { self.skip_group(index) }
        })
    }

    /// The parts of `range` between its commas. Groups and template argument lists stay whole.
    pub(crate) fn split_parameters(&self, text: &str, range: Range<usize>) -> Vec<Range<usize>> {
        self.split_at_commas(text, range, |index| self.skip_group_or_angles(text, index))
    }

    /// The parts of `range` between its commas, as far as `skip_brackets` does not pass over them.
    fn split_at_commas(
        &self,
        text: &str,
        range: Range<usize>,
        skip_brackets: impl Fn(usize) -> Option<usize>,
    ) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let mut start = range.start;
        let mut index = range.start;
        while index < range.end {
            if self.is_spelled_at(text, index, ",") {
                parts.push(start..index);
                start = index + 1;
            }
            index = skip_brackets(index).unwrap_or(index + 1);
        }
        parts.push(start..range.end);
        parts
    }

    /// The index of the first token at byte `byte_offset` or later.
    pub(crate) fn index_at(&self, byte_offset: usize) -> usize {
        self.list.partition_point(|token| token.start < byte_offset)
    }

    /// Whether a token of `range` is code spelled exactly `spelling`.
    pub(crate) fn contains_spelling(
        &self,
        text: &str,
        range: Range<usize>,
        spelling: &str,
    ) -> bool {
        self.list[range].iter().any(|token| token.is_spelled(text, spelling))
    }

    /// The text of the token at `token_index`; nothing outside of the list.
    pub(crate) fn text_at<'t>(&self, text: &'t str, token_index: usize) -> &'t str {
        self.list.get(token_index).map_or("", |token| token.text(text))
    }

    /// Whether the token at `token_index` is code spelled exactly `spelling`.
    pub(crate) fn is_spelled_at(&self, text: &str, token_index: usize, spelling: &str) -> bool {
        self.list.get(token_index).is_some_and(|token| token.is_spelled(text, spelling))
    }
}

struct Lexer<'t> {
    bytes: &'t [u8],
    at: usize,
    end: usize,
    line_start: bool,
}

impl Lexer<'_> {
    fn run(mut self) -> Vec<Token> {
        let mut tokens = Vec::new();
        while self.at < self.end {
            let start = self.at;
            let byte = self.bytes[start];
            if byte == b'\n' {
                self.line_start = true;
                self.at += 1;
            } else if byte.is_ascii_whitespace() {
                self.at += 1;
            } else if self.continuation() > 0 {
                self.at += self.continuation();
            } else if !self.comment() {
                let kind = self.token();
                self.line_start = false;
                tokens.push(Token { kind, start, end: self.at });
            }
        }
        tokens
    }

    fn peek(&self, ahead: usize) -> u8 {
        if self.at + ahead < self.end { self.bytes[self.at + ahead] } else { 0 }
    }

    /// The length of a backslash and line break at the current place, or 0.
    fn continuation(&self) -> usize {
        match (self.peek(0), self.peek(1), self.peek(2)) {
            (b'\\', b'\n', _) => 2,
            (b'\\', b'\r', b'\n') => 3,
            _ => 0,
        }
    }

    fn comment(&mut self) -> bool {
        match (self.peek(0), self.peek(1)) {
            (b'/', b'/') => self.line_comment(),
            (b'/', b'*') => self.block_comment(),
            _ => return false,
        }
        true
    }

    fn line_comment(&mut self) {
        while self.at < self.end && self.peek(0) != b'\n' {
            self.at += self.continuation().max(1);
        }
    }

    fn block_comment(&mut self) {
        self.at += 2;
        while self.at < self.end && (self.peek(0), self.peek(1)) != (b'*', b'/') {
            self.at += 1;
        }
        self.at = (self.at + 2).min(self.end);
    }

    fn token(&mut self) -> TokenKind {
        let byte = self.peek(0);
        match byte {
            b'#' if self.line_start => self.directive(),
            b'"' | b'\'' => self.quoted(byte),
            b'0'..=b'9' => self.number(),
            b'.' if self.peek(1).is_ascii_digit() => self.number(),
            _ if is_ident(byte) => self.word(),
            _ => self.punctuation(),
        }
    }

    fn directive(&mut self) -> TokenKind {
        while self.at < self.end && self.peek(0) != b'\n' {
            if self.continuation() > 0 {
                self.at += self.continuation();
            } else if (self.peek(0), self.peek(1)) == (b'/', b'/') {
                self.line_comment();
            } else if self.comment() {
            } else if matches!(self.peek(0), b'"' | b'\'') {
                self.quoted(self.peek(0));
            } else {
                self.at += 1;
            }
        }
        TokenKind::Directive
    }

    /// A quoted literal. Without a closing quote it ends with its line.
    fn quoted(&mut self, quote: u8) -> TokenKind {
        self.at += 1;
        while self.at < self.end && self.peek(0) != b'\n' {
            if self.continuation() > 0 {
                self.at += self.continuation();
                continue;
            }
            let byte = self.peek(0);
            self.at = (self.at + if byte == b'\\' { 2 } else { 1 }).min(self.end);
            if byte == quote {
                break;
            }
        }
        TokenKind::Text
    }

    fn raw_string(&mut self) -> TokenKind {
        self.at += 1;
        let remaining_bytes = &self.bytes[self.at..self.end];
        let Some(open_parenthesis) = remaining_bytes.iter().take(17).position(|&byte| byte == b'(')
        else {
            self.at -= 1;
            return self.quoted(b'"');
        };
        let closing_delimiter = [b")", &remaining_bytes[..open_parenthesis], b"\""].concat();
        let closing_offset = remaining_bytes
            .windows(closing_delimiter.len())
            .position(|window| window == closing_delimiter);
        self.at = closing_offset
            .map_or(self.end, |closing_offset| self.at + closing_offset + closing_delimiter.len());
        TokenKind::Text
    }

    fn number(&mut self) -> TokenKind {
        loop {
            let byte = self.peek(0);
            let exponent = matches!(byte, b'e' | b'E' | b'p' | b'P');
            if exponent && matches!(self.peek(1), b'+' | b'-') {
                self.at += 2;
            } else if is_ident(byte) || byte == b'.' {
                self.at += 1;
            } else if byte == b'\'' && self.peek(1).is_ascii_alphanumeric() {
                self.at += 2;
            } else {
                return TokenKind::Number;
            }
        }
    }

    fn word(&mut self) -> TokenKind {
        let start = self.at;
        while is_ident(self.peek(0)) {
            self.at += 1;
        }
        match (&self.bytes[start..self.at], self.peek(0)) {
            (b"R" | b"u8R" | b"uR" | b"UR" | b"LR", b'"') => self.raw_string(),
            (b"u8" | b"u" | b"U" | b"L", quote @ (b'"' | b'\'')) => self.quoted(quote),
            _ => TokenKind::Ident,
        }
    }

    fn punctuation(&mut self) -> TokenKind {
        let length = match (self.peek(0), self.peek(1), self.peek(2)) {
            (b'<', b'<', b'<') => 3,
            (b':', b':', _) | (b'-', b'>', _) | (b'#', b'#', _) => 2,
            _ => 1,
        };
        self.at += length;
        TokenKind::Punct
    }
}

/// Whether `byte` may stand in an identifier; every byte of a character beyond ASCII may.
fn is_ident(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// The tokens' text with comments dropped and every gap as one space.
pub(crate) fn normalise_spacing(text: &str, tokens: &[Token]) -> String {
    let mut out = String::new();
    let mut end = None;
    for token in tokens {
        if end.is_some_and(|end| end < token.start) {
            out.push(' ');
        }
        out.push_str(token.text(text));
        end = Some(token.end);
    }
    out
}
