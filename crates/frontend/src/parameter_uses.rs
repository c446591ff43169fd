//! How a function's body uses its parameters: whether an integer counts anything, whether a pointer leads to more
//! than one element. Follows arguments into functions of the same file.

use super::body_tokens::BodyTokens;
use super::lexer::{TokenKind, Tokens};
use super::parameter_reader::{FunctionBody, ParameterReader};
use super::signatures::Parameter;

/// How a body uses a parameter, as far as its tokens tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParameterUse {
    /// Nothing tells.
    #[default]
    Unknown,
    /// A number of arithmetic or a choice: nothing is counted or indexed with it.
    Number,
    /// A pointer of which the first element alone is accessed.
    OneElement,
}

/// Functions and keywords in whose parentheses an integer is a number.
const OF_NUMBERS: [&str; 12] = [
    "pow", "powf", "__powf", "exp", "expf", "log", "logf", "sqrtf", "float", "double", "if",
    "switch",
];

/// Members of a tensor that take the number of a dimension.
const OF_DIMENSIONS: [&str; 4] = ["size", "stride", "unsqueeze", "select"];

/// How each of `bodies` uses each of its parameters, by number.
pub(super) fn find_parameter_uses(
    text: &str,
    tokens: &Tokens,
    bodies: &[FunctionBody],
) -> Vec<Vec<ParameterUse>> {
    let body_tokens = BodyTokens { text, tokens };
    ParameterReader::new(body_tokens, bodies, UseReader::read_use).find_all()
}

type UseReader<'t> = ParameterReader<'t, ParameterUse>;

impl UseReader<'_> {
    fn read_use(&mut self, function: &FunctionBody, parameter: &Parameter) -> ParameterUse {
        let Parameter { ty, name, .. } = parameter;
        let is_pointer = ty.contains('*');
        let mut common_use = None;
        for index in function.body.clone() {
            if !self.body_tokens.is_variable(index, name) {
                continue;
            }
            let use_here =
                if is_pointer { self.use_of_pointer(index) } else { self.use_of_integer(index) };
            match (use_here, common_use) {
                (None, _) => {}
                (Some(use_here), None) => common_use = Some(use_here),
                (Some(use_here), Some(other_use)) if use_here == other_use => {}
                (Some(_), Some(_)) => return ParameterUse::Unknown,
            }
        }
        common_use.unwrap_or_default()
    }

    /// What the integer at `index` tells; none if nothing.
    fn use_of_integer(&mut self, index: usize) -> Option<ParameterUse> {
        if self.body_tokens.is_in_check(index) {
            return None;
        }
        if self.is_cast_to_float(index) || self.body_tokens.is_compared_for_equality(index) {
            return Some(ParameterUse::Number);
        }
        let Some(argument) = self.body_tokens.enclosing_argument(index) else {
            return Some(ParameterUse::Unknown);
        };
        let is_of_constants =
            argument.tokens.clone().filter(|&other| other != index).all(|other| {
                let is_sign = self.body_tokens.is_spelled(other, "+")
                    || self.body_tokens.is_spelled(other, "-");
                is_sign || self.body_tokens.tokens[other].kind == TokenKind::Number
            });
        if is_of_constants && OF_NUMBERS.contains(&argument.callee) {
            return Some(ParameterUse::Number);
        }
        if OF_DIMENSIONS.contains(&argument.callee) && argument.number == 0 {
            return Some(ParameterUse::Number);
        }
        if argument.tokens.len() == 1 {
            return Some(self.find_in_callee(argument.callee, argument.number));
        }
        Some(ParameterUse::Unknown)
    }

    /// What the pointer at `index` tells; none if nothing.
    fn use_of_pointer(&mut self, index: usize) -> Option<ParameterUse> {
        let is_first_element = self.body_tokens.is_spelled(index + 1, "[")
            && self
                .body_tokens
                .tokens
                .get(index + 2)
                .is_some_and(|token| token.text(self.body_tokens.text) == "0")
            && self.body_tokens.is_spelled(index + 3, "]");
        if is_first_element || self.body_tokens.is_dereferenced(index) {
            return Some(ParameterUse::OneElement);
        }
        if self.body_tokens.is_compared_for_equality(index) {
            return None;
        }
        let Some(argument) = self.body_tokens.enclosing_argument(index) else {
            return Some(ParameterUse::Unknown);
        };
        match argument.callee {
            _ if argument.tokens.len() != 1 => Some(ParameterUse::Unknown),
            // How many bytes they set or copy is not read.
            callee if callee.starts_with("cudaMem") => None,
            callee if callee.starts_with("atomic") => Some(ParameterUse::OneElement),
            "if" => None,
            _ => Some(self.find_in_callee(argument.callee, argument.number)),
        }
    }

    /// Whether `(float)` or `(double)` stands before `index`.
    fn is_cast_to_float(&self, index: usize) -> bool {
        let Some(start) = index.checked_sub(3) else { return false };
        let is_float = self.body_tokens.is_spelled(start + 1, "float")
            || self.body_tokens.is_spelled(start + 1, "double");
        self.body_tokens.is_spelled(start, "(")
            && is_float
            && self.body_tokens.is_spelled(start + 2, ")")
    }
}
