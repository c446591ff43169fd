//! How a function's body uses its parameters: whether an integer counts anything, whether a pointer leads to more
//! than one element. Follows arguments into functions of the same file.

use std::collections::HashMap;
use std::ops::Range;

use super::lexer::{TokenKind, Tokens};
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

/// A function with its body, among the tokens of a file.
pub(super) struct FunctionBody {
    pub name: String,
    pub parameters: Vec<Parameter>,
    pub body: Range<usize>,
}

/// A launch has no more tokens between its `<<<` and `>>>`, and a call no more tokens before one of its arguments.
const MOST_TOKENS: usize = 1024;
/// No function of interest has more parameters; the limit keeps hostile text from taking quadratic time.
const MOST_PARAMETERS: usize = 64;

/// Functions and keywords in whose parentheses an integer is a number.
const OF_NUMBERS: [&str; 12] = [
    "pow", "powf", "__powf", "exp", "expf", "log", "logf", "sqrtf", "float", "double", "if",
    "switch",
];

/// How each of `bodies` uses each of its parameters, by number.
pub(super) fn find_parameter_uses(
    text: &str,
    tokens: &Tokens,
    bodies: &[FunctionBody],
) -> Vec<Vec<ParameterUse>> {
    let mut numbers: HashMap<&str, Vec<usize>> = HashMap::new();
    for (number, body) in bodies.iter().enumerate() {
        numbers.entry(body.name.as_str()).or_default().push(number);
    }
    let mut reader = UseReader { text, tokens, bodies, numbers, known: HashMap::new() };
    let uses_of = |(function, body): (usize, &FunctionBody)| {
        (0..body.parameters.len()).map(|parameter| reader.use_of(function, parameter)).collect()
    };
    bodies.iter().enumerate().map(uses_of).collect()
}

struct UseReader<'t> {
    text: &'t str,
    tokens: &'t Tokens,
    bodies: &'t [FunctionBody],
    /// The numbers of the functions of each name among the bodies.
    numbers: HashMap<&'t str, Vec<usize>>,
    /// By function and parameter. A parameter that is under way is unknown, so that recursion ends.
    known: HashMap<(usize, usize), ParameterUse>,
}

/// The argument of a call in which a name stands.
struct CallArgument<'t> {
    callee: &'t str,
    number: usize,
    tokens: Range<usize>,
}

impl<'t> UseReader<'t> {
    fn use_of(&mut self, function: usize, parameter: usize) -> ParameterUse {
        if let Some(&known_use) = self.known.get(&(function, parameter)) {
            return known_use;
        }
        self.known.insert((function, parameter), ParameterUse::Unknown);
        let found_use = self.read_use(function, parameter);
        self.known.insert((function, parameter), found_use);
        found_use
    }

    fn read_use(&mut self, function: usize, parameter: usize) -> ParameterUse {
        let bodies = self.bodies;
        let body = &bodies[function];
        let Some(Parameter { ty, name, .. }) = body.parameters.get(parameter) else {
            return ParameterUse::Unknown;
        };
        if parameter >= MOST_PARAMETERS {
            return ParameterUse::Unknown;
        }
        let is_pointer = ty.contains('*');
        let mut common_use = None;
        for index in body.body.clone() {
            if !self.is_variable(index, name) {
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

    /// Whether the token at `index` is the variable `name` and no member of that name.
    fn is_variable(&self, index: usize, name: &str) -> bool {
        let is_member =
            [".", "->", "::"].iter().any(|operator| self.is_spelled_before(index, operator));
        self.is_spelled(index, name) && !is_member
    }

    /// What the integer at `index` tells; none if nothing.
    fn use_of_integer(&mut self, index: usize) -> Option<ParameterUse> {
        if self.is_cast_to_float(index) || self.is_compared_for_equality(index) {
            return Some(ParameterUse::Number);
        }
        let Some(argument) = self.enclosing_argument(index) else {
            return Some(ParameterUse::Unknown);
        };
        let is_of_constants =
            argument.tokens.clone().filter(|&other| other != index).all(|other| {
                let is_sign = self.is_spelled(other, "+") || self.is_spelled(other, "-");
                is_sign || self.tokens[other].kind == TokenKind::Number
            });
        if is_of_constants && OF_NUMBERS.contains(&argument.callee) {
            return Some(ParameterUse::Number);
        }
        if argument.tokens.len() == 1 {
            return Some(self.use_in_callee(&argument));
        }
        Some(ParameterUse::Unknown)
    }

    /// Whether a `*` before the pointer at `index` reads it, and multiplies nothing.
    fn is_dereferenced(&self, index: usize) -> bool {
        let Some(before) = index.checked_sub(2).map(|before| self.tokens[before]) else {
            return false;
        };
        let ends_operand = match before.kind {
            TokenKind::Ident => before.text(self.text) != "return",
            TokenKind::Number => true,
            _ => [")", "]"].contains(&before.text(self.text)),
        };
        self.is_spelled_before(index, "*") && !ends_operand
    }

    /// What the pointer at `index` tells; none if nothing.
    fn use_of_pointer(&mut self, index: usize) -> Option<ParameterUse> {
        let is_first_element = self.is_spelled(index + 1, "[")
            && self.tokens.get(index + 2).is_some_and(|token| token.text(self.text) == "0")
            && self.is_spelled(index + 3, "]");
        if is_first_element || self.is_dereferenced(index) {
            return Some(ParameterUse::OneElement);
        }
        if self.is_compared_for_equality(index) {
            return None;
        }
        let Some(argument) = self.enclosing_argument(index) else {
            return Some(ParameterUse::Unknown);
        };
        match argument.callee {
            _ if argument.tokens.len() != 1 => Some(ParameterUse::Unknown),
            // How many bytes they set or copy is not read.
            callee if callee.starts_with("cudaMem") => None,
            callee if callee.starts_with("atomic") => Some(ParameterUse::OneElement),
            "if" => None,
            _ => Some(self.use_in_callee(&argument)),
        }
    }

    /// How the function that `argument` is passed to uses it.
    fn use_in_callee(&mut self, argument: &CallArgument<'_>) -> ParameterUse {
        let callees = self.numbers.get(argument.callee).cloned().unwrap_or_default();
        // Of several functions with one name the call does not tell which it means.
        let mut uses = callees.into_iter().map(|callee| self.use_of(callee, argument.number));
        let Some(first_use) = uses.next() else { return ParameterUse::Unknown };
        if uses.all(|other_use| other_use == first_use) { first_use } else { ParameterUse::Unknown }
    }

    /// Whether `(float)` or `(double)` stands before `index`.
    fn is_cast_to_float(&self, index: usize) -> bool {
        let Some(start) = index.checked_sub(3) else { return false };
        let is_float = self.is_spelled(start + 1, "float") || self.is_spelled(start + 1, "double");
        self.is_spelled(start, "(") && is_float && self.is_spelled(start + 2, ")")
    }

    /// Whether `==` or `!=` stands beside `index`.
    fn is_compared_for_equality(&self, index: usize) -> bool {
        let is_equality = |first: usize| {
            (self.is_spelled(first, "=") || self.is_spelled(first, "!"))
                && self.is_spelled(first + 1, "=")
        };
        is_equality(index + 1) || index.checked_sub(2).is_some_and(is_equality)
    }

    /// The argument around `index` in the innermost parentheses around it; none outside of parentheses.
    fn enclosing_argument(&self, index: usize) -> Option<CallArgument<'t>> {
        let mut open = index;
        loop {
            open = open.checked_sub(1).filter(|&open| open + MOST_TOKENS > index)?;
            match self.tokens[open].text(self.text) {
                ")" | "]" | "}" => {
                    open =
                        self.tokens.group_start(open).filter(|&open| open + MOST_TOKENS > index)?;
                }
                "(" => break,
                "[" | "{" | ";" => return None,
                _ => {}
            }
        }
        let close = self.tokens.skip_group(open)?.checked_sub(1)?;
        if close - open > MOST_TOKENS {
            return None;
        }
        let arguments = self.tokens.split_call_arguments(self.text, open + 1..close);
        let number = arguments.iter().position(|range| range.contains(&index))?;
        let callee = self.callee_before(open).unwrap_or_default();
        Some(CallArgument { callee, number, tokens: arguments[number].clone() })
    }

    /// The name of the function whose arguments open at `open`, behind the template arguments and the configuration of
    /// a launch; of a cast, its type.
    fn callee_before(&self, open: usize) -> Option<&'t str> {
        let last = open.checked_sub(1)?;
        let is_launch = last >= 2 && (last - 2..=last).all(|index| self.is_spelled(index, ">"));
        let mut name = last;
        if is_launch {
            let first = last.saturating_sub(MOST_TOKENS);
            name = (first..last).rev().find(|&index| self.is_spelled(index, "<<<"))?;
            name = name.checked_sub(1)?;
        }
        if self.is_spelled(name, ">") {
            let first = name.saturating_sub(MOST_TOKENS);
            let open_angle = (first..name).rev().find(|&index| self.is_spelled(index, "<"))?;
            let before = open_angle.checked_sub(1)?;
            name = if self.is_spelled(before, "static_cast") { open_angle + 1 } else { before };
        }
        (self.tokens[name].kind == TokenKind::Ident).then(|| self.tokens[name].text(self.text))
    }

    fn is_spelled(&self, index: usize, spelling: &str) -> bool {
        self.tokens.is_spelled_at(self.text, index, spelling)
    }

    fn is_spelled_before(&self, index: usize, spelling: &str) -> bool {
        index.checked_sub(1).is_some_and(|before| self.is_spelled(before, spelling))
    }
}
