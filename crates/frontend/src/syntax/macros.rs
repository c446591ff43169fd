//! The definitions of macros: their names, parameters and bodies.

use super::lexer::{Token, TokenKind, Tokens, lex_directive};

/// One `#define`.
#[derive(Debug)]
pub(crate) struct Macro<'t> {
    pub name: &'t str,
    /// The first byte of the name.
    pub name_at: usize,
    /// The parameters of a function-like macro.
    pub parameters: Option<Vec<&'t str>>,
    pub body: Tokens,
}

/// The macro of `directive`, if it is a `#define`.
pub(crate) fn parse_macro_definition<'t>(text: &'t str, directive: Token) -> Option<Macro<'t>> {
    if directive.kind != TokenKind::Directive {
        return None;
    }
    let words = lex_directive(text, directive);
    let [define, name, ..] = &*words else { return None };
    if !define.is_spelled(text, "define") {
        return None;
    }
    let open_parenthesis = words.get(2).filter(|open_parenthesis| {
        open_parenthesis.is_spelled(text, "(") && open_parenthesis.start == name.end
    });
    let start = if open_parenthesis.is_some() { words.skip_group(2)? } else { 2 };
    let parameters = open_parenthesis.map(|_| {
        let list = words[3..start].iter().filter(|word| word.kind == TokenKind::Ident);
        let mut names: Vec<&str> = list.map(|word| word.text(text)).collect();
        names.push("__VA_ARGS__");
        names
    });
    let body = Tokens::new(text, words[start..].to_vec());
    Some(Macro { name: name.text(text), name_at: name.start, parameters, body })
}

impl Macro<'_> {
    /// Whether `word` is one of the parameters.
    pub(crate) fn is_parameter(&self, word: &str) -> bool {
        self.parameters.as_ref().is_some_and(|names| names.contains(&word))
    }
}
