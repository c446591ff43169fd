//! The definitions of macros: their names, parameters and bodies.

use super::lexer::{Kind, Token, Tokens, lex_directive};

/// One `#define`.
#[derive(Debug)]
pub(crate) struct Macro<'t> {
    pub name: &'t str,
    /// The byte at which the name starts.
    pub name_at: usize,
    /// The parameters of a function-like macro.
    pub parameters: Option<Vec<&'t str>>,
    pub body: Tokens,
}

/// The macro that `directive` defines, if it is a `#define`.
pub(crate) fn definition<'t>(text: &'t str, directive: Token) -> Option<Macro<'t>> {
    if directive.kind != Kind::Directive {
        return None;
    }
    let words = lex_directive(text, directive);
    let [define, name, ..] = &*words else { return None };
    if !define.is(text, "define") {
        return None;
    }
    let open = words.get(2).filter(|open| open.is(text, "(") && open.start == name.end);
    let start = if open.is_some() { words.skip_group(2)? } else { 2 };
    let parameters = open.map(|_| {
        let list = words[3..start].iter().filter(|word| word.kind == Kind::Ident);
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
