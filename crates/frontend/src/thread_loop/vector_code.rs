//! Translates the body of a strided loop into code for eight threads at once, on top of
//! `replay/lanes.h`: a small typed translation of assignments and expressions.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::declarations::{DeclarationKind, parse_declaration};
use super::grid_stride::{LoopOperand, same_bits};
use super::plan::Planner;
use crate::syntax::lexer::TokenKind;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VectorClass {
    Float,
    Int,
    /// All bits of an int alike: a condition.
    Mask,
}

impl VectorClass {
    fn vector(self) -> &'static str {
        match self {
            VectorClass::Float => "::replay_rt::lanes::f32",
            VectorClass::Int | VectorClass::Mask => "::replay_rt::lanes::i32",
        }
    }
}

/// The body of a loop.
#[derive(Debug, Default)]
pub(super) struct VectorBody {
    /// The thread's variables it reads.
    pub values: Vec<String>,
    /// Pointers whose element it reads.
    pub reads: Vec<String>,
    /// Pointers whose element it stores.
    pub writes: Vec<String>,
    /// The thread's variables it changes.
    pub changes: Vec<(String, VectorClass)>,
    /// The tokens of the pointers in stores.
    pub store_sites: Vec<usize>,
    /// The code of one iteration.
    pub code: String,
}

/// Functions of one or two floats in `replay/lanes.h`.
const FUNCTIONS: [(&str, usize); 4] = [("expf", 1), ("fabsf", 1), ("fmaxf", 2), ("fminf", 2)];

/// Deeper expressions are left alone.
const MOST_LEVELS: usize = 64;

/// A value as code.
struct VectorValue {
    code: String,
    class: VectorClass,
}

impl VectorValue {
    fn new(code: impl Into<String>, class: VectorClass) -> VectorValue {
        VectorValue { code: code.into(), class }
    }

    /// The value as one of `class`, as the language converts it.
    fn into(self, class: VectorClass) -> Option<String> {
        match (self.class, class) {
            (VectorClass::Int, VectorClass::Float) => {
                Some(format!("::replay_rt::lanes::to_f32({})", self.code))
            }
            (from_class, to_class) if from_class == to_class => Some(self.code),
            _ => None,
        }
    }
}

/// Translates one body.
pub(super) struct VectorWriter<'p, 't> {
    planner: &'p Planner<'t>,
    known: &'p BTreeMap<&'t str, LoopOperand>,
    /// The loop's variable.
    index: &'t str,
    /// Variables of the body.
    locals: BTreeMap<&'t str, VectorClass>,
    body: VectorBody,
    at: usize,
    end: usize,
    levels: usize,
}

impl<'p, 't> VectorWriter<'p, 't> {
    /// A writer for the body of a loop over `index`.
    pub(super) fn new(
        planner: &'p Planner<'t>,
        known: &'p BTreeMap<&'t str, LoopOperand>,
        index: &'t str,
    ) -> Self {
        let locals = BTreeMap::new();
        let body = VectorBody::default();
        VectorWriter { planner, known, index, locals, body, at: 0, end: 0, levels: 0 }
    }

    /// Translates `statements`, without their semicolons; none if one is not understood.
    pub(super) fn write(mut self, statements: &[Range<usize>]) -> Option<VectorBody> {
        let own_names = self.declared_in(statements);
        statements.iter().for_each(|range| self.note_change(range, &own_names));
        for range in statements {
            (self.at, self.end) = (range.start, range.end);
            match parse_declaration(self.planner.text, self.planner.tokens, range.clone()) {
                DeclarationKind::Nothing => self.assignment()?,
                DeclarationKind::Variables(declaration) => {
                    let [declarator] = &declaration.declarators[..] else { return None };
                    let mut words =
                        declaration.base.clone().map(|token_index| self.planner.word(token_index));
                    let class = match words.find(|&word| word != "const")? {
                        "float" => VectorClass::Float,
                        "int" => VectorClass::Int,
                        _ => return None,
                    };
                    let is_plain = declarator.pointer.is_empty()
                        && declarator.dimensions.is_empty()
                        && words.all(|word| word == "const");
                    let name = self.planner.word(declarator.name);
                    let fresh = name != self.index && !self.planner.facts.is_macro(name);
                    self.at = declarator.initialiser.start;
                    if !is_plain || !fresh || !self.consume_operator("=") {
                        return None;
                    }
                    let value = self.parse_whole_expression(class)?;
                    let vector = class.vector();
                    self.body.code += &format!("{vector} replay_x_{name} = {value}; ");
                    self.locals.insert(name, class);
                }
                DeclarationKind::Other(_) => return None,
            }
        }
        Some(self.body)
    }

    /// The names declared in `statements`.
    fn declared_in(&self, statements: &[Range<usize>]) -> BTreeSet<&'t str> {
        let planner = self.planner;
        let read_declaration =
            |range: &Range<usize>| parse_declaration(planner.text, planner.tokens, range.clone());
        let names = statements.iter().map(read_declaration).flat_map(|parsed_declaration| {
            match parsed_declaration {
                DeclarationKind::Variables(declaration) => declaration.declarators,
                DeclarationKind::Nothing | DeclarationKind::Other(_) => Vec::new(),
            }
        });
        names.map(|declarator| planner.word(declarator.name)).collect()
    }

    /// Notes the change of a thread's variable by the statement `range`. A read before it sees the value of the previous
    /// iteration.
    fn note_change(&mut self, range: &Range<usize>, own_names: &BTreeSet<&str>) {
        let planner = self.planner;
        let declaration = parse_declaration(planner.text, planner.tokens, range.clone());
        let assigns = matches!(declaration, DeclarationKind::Nothing)
            && !planner.is_spelled_at(range.start + 1, "[")
            && !own_names.contains(planner.word(range.start));
        if let Some(LoopOperand::Scalar(class)) = self.known.get(planner.word(range.start))
            && assigns
        {
            let name = planner.word(range.start).to_owned();
            if !self.body.changes.iter().any(|(change, _)| *change == name) {
                self.body.changes.push((name, *class));
            }
        }
    }

    fn is_spelled(&self, spelling: &str) -> bool {
        self.at < self.end && self.planner.is_spelled_at(self.at, spelling)
    }

    /// The text of the current token; empty if it is punctuation.
    fn word(&self, kind: TokenKind) -> &'t str {
        let is_kind = self.at < self.end && self.planner.tokens[self.at].kind == kind;
        if is_kind { self.planner.word(self.at) } else { "" }
    }

    /// Passes `operator`, whose characters stand without a gap, if it stands here.
    fn consume_operator(&mut self, operator: &str) -> bool {
        let tokens = self.planner.tokens;
        let is_operator = (0..operator.len()).all(|k| {
            let token_index = self.at + k;
            token_index < self.end
                && tokens.is_spelled_at(self.planner.text, token_index, &operator[k..=k])
                && (k == 0 || tokens[token_index - 1].end == tokens[token_index].start)
        });
        self.at += if is_operator { operator.len() } else { 0 };
        is_operator
    }

    /// An expression to the end of the statement, as one of `class`.
    fn parse_whole_expression(&mut self, class: VectorClass) -> Option<String> {
        let value = self.expression()?;
        if self.at == self.end { value.into(class) } else { None }
    }

    fn assignment(&mut self) -> Option<()> {
        if self.at == self.end {
            return Some(());
        }
        let site = self.at;
        let name = self.word(TokenKind::Ident);
        self.at += 1;
        if self.is_spelled("[") {
            return self.store(site, name);
        }
        let (place, class) = self.place(name)?;
        let operator =
            ["+=", "-=", "*=", "/="].into_iter().find(|&sign| self.consume_operator(sign));
        if operator.is_none() && (!self.consume_operator("=") || self.is_spelled("=")) {
            return None;
        }
        let value = self.expression()?;
        let value = match operator {
            Some(operator) => {
                let old = VectorValue::new(self.read_place(&place, class), class);
                write_vector_arithmetic(&operator[..1], old, value)?
            }
            None => value,
        };
        if self.at != self.end {
            return None;
        }
        let value = value.into(class)?;
        self.body.code += &match place {
            AssignmentTarget::Local(name) => format!("replay_x_{name} = {value}; "),
            AssignmentTarget::Change(k) => {
                format!("replay_change[{k}] = ::replay_rt::lanes::bits({value}); ")
            }
        };
        Some(())
    }

    fn store(&mut self, site: usize, name: &str) -> Option<()> {
        let Some(LoopOperand::Pointer { class, constant: false, .. }) = self.known.get(name) else {
            return None;
        };
        self.subscript()?;
        if !self.consume_operator("=")
            || self.is_spelled("=")
            || self.body.writes.iter().any(|written_name| written_name == name)
        {
            return None;
        }
        let value = self.parse_whole_expression(*class)?;
        let offset = 32 * self.body.writes.len();
        self.body.code +=
            &format!("::replay_rt::lanes::store(replay_stores + {offset}, {value}); ");
        self.body.writes.push(name.to_owned());
        self.body.store_sites.push(site);
        Some(())
    }

    /// Passes `[i]`.
    fn subscript(&mut self) -> Option<()> {
        let index = self.consume_operator("[") && self.word(TokenKind::Ident) == self.index;
        self.at += 1;
        (index && self.consume_operator("]")).then_some(())
    }

    /// The target of an assignment to `name`, and its class.
    fn place(&mut self, name: &'t str) -> Option<(AssignmentTarget<'t>, VectorClass)> {
        if let Some(&class) = self.locals.get(name) {
            return Some((AssignmentTarget::Local(name), class));
        }
        let Some(LoopOperand::Scalar(class)) = self.known.get(name) else { return None };
        let number = self.body.changes.iter().position(|(change, _)| change == name)?;
        Some((AssignmentTarget::Change(number), *class))
    }

    fn read_place(&self, place: &AssignmentTarget, class: VectorClass) -> String {
        match place {
            AssignmentTarget::Local(name) => format!("replay_x_{name}"),
            AssignmentTarget::Change(k) => bits_as(class, format!("replay_change[{k}]")),
        }
    }

    fn expression(&mut self) -> Option<VectorValue> {
        self.levels += 1;
        if self.levels > MOST_LEVELS {
            return None;
        }
        let condition = self.binary(0)?;
        let value = if self.consume_operator("?") {
            let condition = condition.into(VectorClass::Mask)?;
            let first = self.expression()?;
            if !self.consume_operator(":") {
                return None;
            }
            let second = self.expression()?;
            let class = common_vector_class(&first, &second)?;
            let first = first.into(class)?;
            let second = second.into(class)?;
            VectorValue::new(
                format!("::replay_rt::lanes::choose({condition}, {first}, {second})"),
                class,
            )
        } else {
            condition
        };
        self.levels -= 1;
        Some(value)
    }

    /// An expression of operators with at least the precedence `level`.
    fn binary(&mut self, level: usize) -> Option<VectorValue> {
        const LEVELS: [&[&str]; 6] =
            [&["||"], &["&&"], &["==", "!="], &["<=", ">=", "<", ">"], &["+", "-"], &["*", "/"]];
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(&operator) =
            operators.iter().find(|&&operator| self.consume_operator(operator))
        {
            let right = self.binary(level + 1)?;
            left = match level {
                0 | 1 => {
                    let left = left.into(VectorClass::Mask)?;
                    let right = right.into(VectorClass::Mask)?;
                    VectorValue::new(
                        format!("({left} {} {right})", &operator[..1]),
                        VectorClass::Mask,
                    )
                }
                2 | 3 => {
                    let class = common_vector_class(&left, &right)?;
                    let left = left.into(class)?;
                    let right = right.into(class)?;
                    let mask = VectorClass::Mask.vector();
                    VectorValue::new(
                        format!("({mask})({left} {operator} {right})"),
                        VectorClass::Mask,
                    )
                }
                _ => write_vector_arithmetic(operator, left, right)?,
            };
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<VectorValue> {
        if self.consume_operator("-") {
            let VectorValue { code, class } = self.unary()?;
            return (class != VectorClass::Mask)
                .then(|| VectorValue::new(format!("(-{code})"), class));
        }
        if self.consume_operator("!") {
            let mask = self.unary()?.into(VectorClass::Mask)?;
            return Some(VectorValue::new(format!("(~{mask})"), VectorClass::Mask));
        }
        if self.consume_operator("(") {
            let class = match self.word(TokenKind::Ident) {
                "float" => Some(VectorClass::Float),
                "int" => Some(VectorClass::Int),
                _ => None,
            };
            if let Some(class) = class {
                self.at += 1;
                if !self.consume_operator(")") {
                    return None;
                }
                let value = self.unary()?.into(class)?;
                return Some(VectorValue::new(value, class));
            }
            let VectorValue { code, class } = self.expression()?;
            return self
                .consume_operator(")")
                .then(|| VectorValue::new(format!("({code})"), class));
        }
        self.primary()
    }

    fn primary(&mut self) -> Option<VectorValue> {
        let number = self.word(TokenKind::Number);
        if !number.is_empty() {
            self.at += 1;
            return parse_number_literal(number);
        }
        let name = self.word(TokenKind::Ident);
        if name.is_empty() {
            return None;
        }
        self.at += 1;
        if name == self.index {
            let code = "(::replay_rt::lanes::lane_numbers() + (int)replay_i)";
            return Some(VectorValue::new(code, VectorClass::Int));
        }
        if let Some(&class) = self.locals.get(name) {
            return Some(VectorValue::new(format!("replay_x_{name}"), class));
        }
        if self.is_spelled("(") {
            return self.call(name);
        }
        match self.known.get(name)? {
            LoopOperand::Scalar(class) => {
                if let Some(k) = self.body.changes.iter().position(|(change, _)| change == name) {
                    return Some(VectorValue::new(
                        bits_as(*class, format!("replay_change[{k}]")),
                        *class,
                    ));
                }
                let k = intern_name(name, &mut self.body.values);
                let code = format!("::replay_rt::lanes::all(replay_in.value[{k}])");
                Some(VectorValue::new(bits_as(*class, code), *class))
            }
            LoopOperand::Pointer { class, constant: true, .. } => {
                self.subscript()?;
                let k = intern_name(name, &mut self.body.reads);
                let code = format!(
                    "::replay_rt::lanes::load(replay_in.read[{k}], replay_i, replay_active)"
                );
                Some(VectorValue::new(bits_as(*class, code), *class))
            }
            LoopOperand::Pointer { constant: false, .. } => None,
        }
    }

    fn call(&mut self, name: &str) -> Option<VectorValue> {
        let &(function, count) = FUNCTIONS.iter().find(|(function, _)| *function == name)?;
        if self.planner.facts.is_defined(name) || self.planner.names.contains_key(name) {
            return None;
        }
        self.at += 1;
        let mut arguments = Vec::new();
        for k in 0..count {
            if k > 0 && !self.consume_operator(",") {
                return None;
            }
            arguments.push(self.expression()?.into(VectorClass::Float)?);
        }
        let arguments = arguments.join(", ");
        self.consume_operator(")").then(|| {
            let code = format!("::replay_rt::lanes::{function}({arguments}, replay_doubt)");
            VectorValue::new(code, VectorClass::Float)
        })
    }
}

/// The target of an assignment.
enum AssignmentTarget<'t> {
    /// A variable of the body.
    Local(&'t str),
    /// A variable of the thread, by number.
    Change(usize),
}

/// The number of `name` in `list`. Adds a missing name.
fn intern_name(name: &str, list: &mut Vec<String>) -> usize {
    list.iter().position(|listed_name| listed_name == name).unwrap_or_else(|| {
        list.push(name.to_owned());
        list.len() - 1
    })
}

fn bits_as(class: VectorClass, code: String) -> String {
    match class {
        VectorClass::Float => format!("::replay_rt::lanes::floats({code})"),
        VectorClass::Int | VectorClass::Mask => code,
    }
}

/// The class for a comparison or sum of two values.
fn common_vector_class(left: &VectorValue, right: &VectorValue) -> Option<VectorClass> {
    match (left.class, right.class) {
        (VectorClass::Mask, _) | (_, VectorClass::Mask) => None,
        (VectorClass::Int, VectorClass::Int) => Some(VectorClass::Int),
        _ => Some(VectorClass::Float),
    }
}

fn write_vector_arithmetic(
    operator: &str,
    left: VectorValue,
    right: VectorValue,
) -> Option<VectorValue> {
    let class = common_vector_class(&left, &right)?;
    if operator == "/" && class == VectorClass::Int {
        return None;
    }
    let left = left.into(class)?;
    let right = right.into(class)?;
    Some(VectorValue::new(format!("({left} {operator} {right})"), class))
}

/// A number as written: a float with its suffix, or a decimal int.
fn parse_number_literal(number: &str) -> Option<VectorValue> {
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    if digits && number.parse::<i32>().is_ok() && (number == "0" || !number.starts_with('0')) {
        return Some(VectorValue::new(
            format!("::replay_rt::lanes::all({number})"),
            VectorClass::Int,
        ));
    }
    let decimal = number.strip_suffix(['f', 'F'])?;
    let is_number_byte =
        |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'-' | b'+');
    let point = decimal.contains(['.', 'e', 'E']);
    (point && decimal.bytes().all(is_number_byte)).then(|| {
        let bits = same_bits(number);
        VectorValue::new(
            bits_as(VectorClass::Float, format!("::replay_rt::lanes::all({bits})")),
            VectorClass::Float,
        )
    })
}
