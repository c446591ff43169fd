//! Lets the host compiler deduce the template arguments of a launch. Behind each declaration of a kernel
//! stands its companion: a function with the same parameters, whose return type is the kernel's instance.
//!
//! Knows no types: the compiler resolves overloads and deduces arguments.

use std::ops::Range;

use super::edits::Edits;
use super::lexer::{Token, TokenKind, Tokens};
use super::outline::is_attribute;
use super::symbols::{template_argument_ranges, template_head};

/// The prefix of a companion's name, in front of the kernel's.
pub(super) const COMPANION: &str = "replay_instance_";

/// A kernel's declaration, taken apart.
#[derive(Clone, Debug)]
pub(super) struct KernelDeclaration {
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

impl KernelDeclaration {
    /// Takes apart the declaration of the kernel whose name is token `name` and whose template
    /// head, if it has one, begins at token `head`. None where a part has no name to repeat, where
    /// the end is not seen, and for a specialisation.
    pub(super) fn parse(
        text: &str,
        tokens: &Tokens,
        name: usize,
        head: Option<usize>,
    ) -> Option<KernelDeclaration> {
        let parameters_end = tokens.skip_group(name + 1)?;
        let end = if tokens.is_spelled_at(text, parameters_end, "{") {
            tokens.skip_group(parameters_end)?
        } else {
            parameters_end + 1
        };
        let closes = tokens.get(end - 1)?;
        if !matches!(closes.text(text), ";" | "}") {
            return None;
        }
        let mut declaration = KernelDeclaration {
            name: tokens[name].text(text).to_owned(),
            head: Vec::new(),
            arguments: Vec::new(),
            types: split_parameter_types(text, tokens, name + 2..parameters_end - 1),
            parameters: tokens[name + 2..parameters_end - 1].to_vec(),
            end: closes.end,
        };
        if let Some(head) = head {
            let head_end = tokens.skip_angles(text, head + 1)?;
            declaration.head = tokens[head..head_end].to_vec();
            for parameter in template_argument_ranges(text, tokens, head + 1) {
                declaration.arguments.push(template_argument_name(text, tokens, parameter)?);
            }
            if declaration.arguments.is_empty() {
                return None;
            }
        }
        let mut repeated = declaration.head.iter().chain(&declaration.parameters);
        let fits_a_line =
            |token: &Token| token.kind != TokenKind::Directive && !token.text(text).contains('\n');
        repeated.all(fits_a_line).then_some(declaration)
    }

    /// The companion's declaration, with `edits` made in the repeated parts.
    pub(super) fn companion(&self, text: &str, edits: &Edits) -> String {
        let first = self.head.first().or(self.parameters.first());
        let edits = &edits.within(&(first.map_or(self.end, |token| token.start)..self.end));
        let head = copy_edited_tokens(text, &self.head, edits);
        let parameters = copy_edited_tokens(text, &self.parameters, edits);
        let instance = self.instance(text, edits);
        let name = &self.name;
        format!(" {head} ::replay_rt::instance<{instance}> {COMPANION}{name}({parameters});")
    }

    /// The instance of the kernel with its own template parameters as arguments, and with `edits` made in its parameters.
    pub(super) fn instance(&self, text: &str, edits: &Edits) -> String {
        let types = self.types.iter().map(|tokens| copy_edited_tokens(text, tokens, edits));
        let types: Vec<String> = types.collect();
        let types = types.join(", ");
        let name = &self.name;
        let template_arguments = if self.head.is_empty() {
            String::new()
        } else {
            format!("<{}>", self.arguments.join(", "))
        };
        format!("static_cast<void (*)({types})>(&{name}{template_arguments})")
    }
}

/// The text of `tokens` on one line, without comments and with `edits` made.
fn copy_edited_tokens(text: &str, tokens: &[Token], edits: &Edits) -> String {
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

/// The name of the template parameter in the tokens `range`, for a pack with `...` behind it.
fn template_argument_name(text: &str, tokens: &Tokens, range: Range<usize>) -> Option<String> {
    let end = range
        .clone()
        .find(|&token_index| tokens.is_spelled_at(text, token_index, "="))
        .unwrap_or(range.end);
    let last = end.checked_sub(1).filter(|&last| last > range.start)?;
    let token = tokens[last];
    let words = ["class", "typename", "int", "unsigned", "long", "short", "bool", "char", "auto"];
    if token.kind != TokenKind::Ident || words.contains(&token.text(text)) {
        return None;
    }
    let pack = tokens.is_spelled_at(text, last - 1, ".");
    Some(format!("{}{}", token.text(text), if pack { "..." } else { "" }))
}

/// Each parameter in the tokens `range`, without its default.
fn split_parameter_types(text: &str, tokens: &Tokens, range: Range<usize>) -> Vec<Vec<Token>> {
    let mut parameter_types = Vec::new();
    for parameter in tokens.split_parameters(text, range) {
        let mut end = parameter.start;
        while end < parameter.end && !tokens.is_spelled_at(text, end, "=") {
            end = tokens.skip_group_or_angles(text, end).unwrap_or(end + 1).min(parameter.end);
        }
        if parameter.start < end {
            parameter_types.push(tokens[parameter.start..end].to_vec());
        }
    }
    parameter_types
}

/// The declarations of kernels among `tokens`, as far as they can have companions.
pub(super) fn find_kernel_declarations(text: &str, tokens: &Tokens) -> Vec<KernelDeclaration> {
    let globals =
        (0..tokens.len()).filter(|&index| tokens.is_spelled_at(text, index, "__global__"));
    let declarations = globals.filter_map(|global| {
        let name = name_after(text, tokens, global)?;
        KernelDeclaration::parse(text, tokens, name, template_head(text, tokens, global))
    });
    declarations.collect()
}

/// The name of the function with its `__global__` at `global`; none for a specialisation.
pub(super) fn name_after(text: &str, tokens: &Tokens, global: usize) -> Option<usize> {
    let mut token_index = global + 1;
    loop {
        let token = tokens.get(token_index)?;
        let word = token.text(text);
        if token.kind != TokenKind::Ident || word == "__global__" {
            return None;
        }
        if !tokens.is_spelled_at(text, token_index + 1, "(") {
            token_index += 1;
        } else if is_attribute(word) {
            token_index = tokens.skip_group(token_index + 1)?;
        } else {
            return Some(token_index);
        }
    }
}
