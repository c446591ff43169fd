//! Lets the host compiler deduce the template arguments of a launch. Behind each declaration of a kernel
//! stands its companion: a function with the same parameters that returns the kernel's instance.
//!
//! Knows no types: the compiler resolves overloads and deduces arguments.

use std::ops::Range;

use super::edits::Edits;
use super::lexer::{Kind, Token, Tokens};
use super::outline::is_attribute;
use super::symbols::{arguments, template_head};

/// The prefix that turns a kernel's name into its companion's.
pub(super) const COMPANION: &str = "replay_instance_";

/// A kernel's declaration, taken apart.
#[derive(Clone, Debug)]
pub(super) struct Declaration {
    pub name: String,
    /// `template <class T, int N = 4>`; empty if the kernel is no template.
    head: Vec<Token>,
    /// `T`, `N`: the template parameters as arguments.
    arguments: Vec<String>,
    /// Each parameter, without its default.
    types: Vec<Vec<Token>>,
    /// All parameters with their defaults, without the parentheses.
    parameters: Vec<Token>,
    /// The byte behind its semicolon or body.
    pub end: usize,
}

impl Declaration {
    /// Takes apart the declaration of the kernel whose name is token `name` and whose template
    /// head, if it has one, begins at token `head`. None where a part has no name to repeat, where
    /// the end is not seen, and for a specialisation.
    pub(super) fn of(
        text: &str,
        tokens: &Tokens,
        name: usize,
        head: Option<usize>,
    ) -> Option<Declaration> {
        let after = tokens.skip_group(name + 1)?;
        let end = if tokens.is(text, after, "{") { tokens.skip_group(after)? } else { after + 1 };
        let closes = tokens.get(end - 1)?;
        if !matches!(closes.text(text), ";" | "}") {
            return None;
        }
        let mut found = Declaration {
            name: tokens[name].text(text).to_owned(),
            head: Vec::new(),
            arguments: Vec::new(),
            types: types(text, tokens, name + 2..after - 1),
            parameters: tokens[name + 2..after - 1].to_vec(),
            end: closes.end,
        };
        if let Some(head) = head {
            let close = tokens.skip_angles(text, head + 1)?;
            found.head = tokens[head..close].to_vec();
            for parameter in arguments(text, tokens, head + 1) {
                found.arguments.push(argument(text, tokens, parameter)?);
            }
            if found.arguments.is_empty() {
                return None;
            }
        }
        let mut repeated = found.head.iter().chain(&found.parameters);
        let fits_a_line =
            |token: &Token| token.kind != Kind::Directive && !token.text(text).contains('\n');
        repeated.all(fits_a_line).then_some(found)
    }

    /// The companion's declaration, with `edits` made in the parts that it repeats.
    pub(super) fn companion(&self, text: &str, edits: &Edits) -> String {
        let first = self.head.first().or(self.parameters.first());
        let edits = &edits.within(&(first.map_or(self.end, |token| token.start)..self.end));
        let repeated = |tokens: &[Token]| repeated(text, tokens, edits);
        let (head, parameters) = (repeated(&self.head), repeated(&self.parameters));
        let (instance, name) = (self.instance(text, edits), &self.name);
        format!(" {head} ::replay_rt::instance<{instance}> {COMPANION}{name}({parameters});")
    }

    /// The instance of the kernel that its own template parameters name, with `edits` made in its
    /// parameters.
    pub(super) fn instance(&self, text: &str, edits: &Edits) -> String {
        let types = self.types.iter().map(|tokens| repeated(text, tokens, edits));
        let types: Vec<String> = types.collect();
        let (types, name) = (types.join(", "), &self.name);
        let given = match self.head.is_empty() {
            false => format!("<{}>", self.arguments.join(", ")),
            true => String::new(),
        };
        format!("static_cast<void (*)({types})>(&{name}{given})")
    }
}

/// The text of `tokens` on one line, without comments and with `edits` made.
fn repeated(text: &str, tokens: &[Token], edits: &Edits) -> String {
    let mut out = String::new();
    let mut end = None;
    for token in tokens {
        if end.is_some_and(|end| end < token.start) {
            out.push(' ');
        }
        out.push_str(&edits.applied(text, token.start..token.end));
        end = Some(token.end);
    }
    out
}

/// The name of the template parameter in the tokens `range`, with `...` behind that of a pack.
fn argument(text: &str, tokens: &Tokens, range: Range<usize>) -> Option<String> {
    let end = range.clone().find(|&at| tokens.is(text, at, "=")).unwrap_or(range.end);
    let last = end.checked_sub(1).filter(|&last| last > range.start)?;
    let token = tokens[last];
    let words = ["class", "typename", "int", "unsigned", "long", "short", "bool", "char", "auto"];
    if token.kind != Kind::Ident || words.contains(&token.text(text)) {
        return None;
    }
    let pack = tokens.is(text, last - 1, ".");
    Some(format!("{}{}", token.text(text), if pack { "..." } else { "" }))
}

/// Each parameter in the tokens `range`, without its default.
fn types(text: &str, tokens: &Tokens, range: Range<usize>) -> Vec<Vec<Token>> {
    let mut found = Vec::new();
    let (mut at, mut first, mut default) = (range.start, range.start, None);
    let mut add = |first: usize, end: usize| {
        if first < end {
            found.push(tokens[first..end].to_vec());
        }
    };
    while at < range.end {
        if tokens.is(text, at, ",") {
            add(first, default.take().unwrap_or(at));
            first = at + 1;
        } else if tokens.is(text, at, "=") {
            default = default.or(Some(at));
        }
        let inner = match tokens.is(text, at, "<") {
            true => tokens.skip_angles(text, at),
            false => tokens.skip_group(at),
        };
        at = inner.unwrap_or(at + 1);
    }
    add(first, default.unwrap_or(range.end));
    found
}

/// The declarations of kernels among `tokens` that can have companions.
pub(super) fn declarations(text: &str, tokens: &Tokens) -> Vec<Declaration> {
    let globals = (0..tokens.len()).filter(|&index| tokens.is(text, index, "__global__"));
    let declaration = |global| {
        let name = name_after(text, tokens, global)?;
        Declaration::of(text, tokens, name, template_head(text, tokens, global))
    };
    globals.filter_map(declaration).collect()
}

/// The name of the function that `__global__` at `global` declares; none for a specialisation.
pub(super) fn name_after(text: &str, tokens: &Tokens, global: usize) -> Option<usize> {
    let mut at = global + 1;
    loop {
        let token = tokens.get(at)?;
        let word = token.text(text);
        if token.kind != Kind::Ident || word == "__global__" {
            return None;
        }
        if !tokens.is(text, at + 1, "(") {
            at += 1;
        } else if is_attribute(word) {
            at = tokens.skip_group(at + 1)?;
        } else {
            return Some(at);
        }
    }
}
