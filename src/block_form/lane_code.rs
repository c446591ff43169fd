//! Translates the body of a strided loop into code for eight threads at once, on top of
//! `replay/lanes.h`: a small typed translation of assignments and expressions.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::declarations::{Declared, declared};
use super::plan::Planner;
use super::strided::Known;
use crate::syntax::lexer::Kind;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Float,
    Int,
    /// All bits of an int alike: a condition.
    Mask,
}

impl Class {
    fn vector(self) -> &'static str {
        match self {
            Class::Float => "::replay_rt::lanes::f32",
            Class::Int | Class::Mask => "::replay_rt::lanes::i32",
        }
    }
}

/// The body of a loop.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// Variables of the thread that it reads.
    pub values: Vec<String>,
    /// Pointers whose element it reads.
    pub reads: Vec<String>,
    /// Pointers whose element it stores.
    pub writes: Vec<String>,
    /// Variables of the thread that it changes.
    pub changes: Vec<(String, Class)>,
    /// The tokens that name the pointers of stores.
    pub store_sites: Vec<usize>,
    /// The code of one iteration.
    pub code: String,
}

/// Functions of one or two floats that `replay/lanes.h` has.
const FUNCTIONS: [(&str, usize); 4] = [("expf", 1), ("fabsf", 1), ("fmaxf", 2), ("fminf", 2)];

/// Deeper expressions are left alone.
const MOST_LEVELS: usize = 64;

/// A value as code.
struct Value {
    code: String,
    class: Class,
}

impl Value {
    fn new(code: impl Into<String>, class: Class) -> Value {
        Value { code: code.into(), class }
    }

    /// The value as one of `class`, as the language converts it.
    fn into(self, class: Class) -> Option<String> {
        match (self.class, class) {
            (Class::Int, Class::Float) => {
                Some(format!("::replay_rt::lanes::to_f32({})", self.code))
            }
            (from, to) if from == to => Some(self.code),
            _ => None,
        }
    }
}

/// Translates one body.
pub(super) struct Writer<'p, 't> {
    planner: &'p Planner<'t>,
    known: &'p BTreeMap<&'t str, Known>,
    /// The loop's variable.
    index: &'t str,
    /// Variables that the body declares.
    locals: BTreeMap<&'t str, Class>,
    body: Body,
    at: usize,
    end: usize,
    levels: usize,
}

impl<'p, 't> Writer<'p, 't> {
    /// A writer for the body of a loop over `index`.
    pub(super) fn new(
        planner: &'p Planner<'t>,
        known: &'p BTreeMap<&'t str, Known>,
        index: &'t str,
    ) -> Self {
        let (locals, body) = (BTreeMap::new(), Body::default());
        Writer { planner, known, index, locals, body, at: 0, end: 0, levels: 0 }
    }

    /// Translates `statements`, without their semicolons; none if one is not understood.
    pub(super) fn write(mut self, statements: &[Range<usize>]) -> Option<Body> {
        let own = self.declared_in(statements);
        statements.iter().for_each(|range| self.note_change(range, &own));
        for range in statements {
            (self.at, self.end) = (range.start, range.end);
            match declared(self.planner.text, self.planner.tokens, range.clone()) {
                Declared::Nothing => self.assignment()?,
                Declared::Variables(made) => {
                    let [one] = &made.declarators[..] else { return None };
                    let mut words = made.base.clone().map(|at| self.planner.word(at));
                    let class = match words.find(|&word| word != "const")? {
                        "float" => Class::Float,
                        "int" => Class::Int,
                        _ => return None,
                    };
                    let plain = one.pointer.is_empty()
                        && one.dimensions.is_empty()
                        && words.all(|word| word == "const");
                    let name = self.planner.word(one.name);
                    let fresh = name != self.index && !self.planner.facts.is_macro(name);
                    self.at = one.initialiser.start;
                    if !plain || !fresh || !self.takes("=") {
                        return None;
                    }
                    let value = self.whole(class)?;
                    let vector = class.vector();
                    self.body.code += &format!("{vector} replay_x_{name} = {value}; ");
                    self.locals.insert(name, class);
                }
                Declared::Other(_) => return None,
            }
        }
        Some(self.body)
    }

    /// The names that `statements` declare.
    fn declared_in(&self, statements: &[Range<usize>]) -> BTreeSet<&'t str> {
        let planner = self.planner;
        let made = |range: &Range<usize>| declared(planner.text, planner.tokens, range.clone());
        let names = statements.iter().map(made).flat_map(|made| match made {
            Declared::Variables(made) => made.declarators,
            Declared::Nothing | Declared::Other(_) => Vec::new(),
        });
        names.map(|one| planner.word(one.name)).collect()
    }

    /// Notes the variable of the thread that the statement `range` changes. A read before it sees
    /// the value of the previous iteration.
    fn note_change(&mut self, range: &Range<usize>, own: &BTreeSet<&str>) {
        let planner = self.planner;
        let made = declared(planner.text, planner.tokens, range.clone());
        let assigns = matches!(made, Declared::Nothing)
            && !planner.is(range.start + 1, "[")
            && !own.contains(planner.word(range.start));
        if let Some(Known::Scalar(class)) = self.known.get(planner.word(range.start))
            && assigns
        {
            let name = planner.word(range.start).to_owned();
            if !self.body.changes.iter().any(|(change, _)| *change == name) {
                self.body.changes.push((name, *class));
            }
        }
    }

    fn is(&self, spelling: &str) -> bool {
        self.at < self.end && self.planner.is(self.at, spelling)
    }

    /// The text of the token at hand, which is not punctuation; empty otherwise.
    fn word(&self, kind: Kind) -> &'t str {
        let there = self.at < self.end && self.planner.tokens[self.at].kind == kind;
        if there { self.planner.word(self.at) } else { "" }
    }

    /// Passes `operator`, whose characters stand without a gap, if it stands here.
    fn takes(&mut self, operator: &str) -> bool {
        let tokens = self.planner.tokens;
        let here = (0..operator.len()).all(|k| {
            let at = self.at + k;
            at < self.end
                && tokens.is(self.planner.text, at, &operator[k..=k])
                && (k == 0 || tokens[at - 1].end == tokens[at].start)
        });
        self.at += if here { operator.len() } else { 0 };
        here
    }

    /// An expression to the end of the statement, as one of `class`.
    fn whole(&mut self, class: Class) -> Option<String> {
        let value = self.expression()?;
        if self.at == self.end { value.into(class) } else { None }
    }

    fn assignment(&mut self) -> Option<()> {
        if self.at == self.end {
            return Some(());
        }
        let (site, name) = (self.at, self.word(Kind::Ident));
        self.at += 1;
        if self.is("[") {
            return self.store(site, name);
        }
        let (place, class) = self.place(name)?;
        let operator = ["+=", "-=", "*=", "/="].into_iter().find(|&sign| self.takes(sign));
        if operator.is_none() && (!self.takes("=") || self.is("=")) {
            return None;
        }
        let value = self.expression()?;
        let value = match operator {
            Some(operator) => {
                let old = Value::new(self.read_place(&place, class), class);
                arithmetic(&operator[..1], old, value)?
            }
            None => value,
        };
        if self.at != self.end {
            return None;
        }
        let value = value.into(class)?;
        self.body.code += &match place {
            Place::Local(name) => format!("replay_x_{name} = {value}; "),
            Place::Change(k) => {
                format!("replay_change[{k}] = ::replay_rt::lanes::bits({value}); ")
            }
        };
        Some(())
    }

    fn store(&mut self, site: usize, name: &str) -> Option<()> {
        let Some(Known::Pointer { class, constant: false, .. }) = self.known.get(name) else {
            return None;
        };
        self.subscript()?;
        if !self.takes("=") || self.is("=") || self.body.writes.iter().any(|one| one == name) {
            return None;
        }
        let value = self.whole(*class)?;
        let offset = 32 * self.body.writes.len();
        self.body.code +=
            &format!("::replay_rt::lanes::store(replay_stores + {offset}, {value}); ");
        self.body.writes.push(name.to_owned());
        self.body.store_sites.push(site);
        Some(())
    }

    /// Passes `[i]`.
    fn subscript(&mut self) -> Option<()> {
        let index = self.takes("[") && self.word(Kind::Ident) == self.index;
        self.at += 1;
        (index && self.takes("]")).then_some(())
    }

    /// The target of an assignment to `name`, and its class.
    fn place(&mut self, name: &'t str) -> Option<(Place<'t>, Class)> {
        if let Some(&class) = self.locals.get(name) {
            return Some((Place::Local(name), class));
        }
        let Some(Known::Scalar(class)) = self.known.get(name) else { return None };
        let number = self.body.changes.iter().position(|(change, _)| change == name)?;
        Some((Place::Change(number), *class))
    }

    fn read_place(&self, place: &Place, class: Class) -> String {
        match place {
            Place::Local(name) => format!("replay_x_{name}"),
            Place::Change(k) => bits_as(class, format!("replay_change[{k}]")),
        }
    }

    fn expression(&mut self) -> Option<Value> {
        self.levels += 1;
        if self.levels > MOST_LEVELS {
            return None;
        }
        let condition = self.binary(0)?;
        let value = if self.takes("?") {
            let condition = condition.into(Class::Mask)?;
            let first = self.expression()?;
            if !self.takes(":") {
                return None;
            }
            let second = self.expression()?;
            let class = common(&first, &second)?;
            let (first, second) = (first.into(class)?, second.into(class)?);
            Value::new(format!("::replay_rt::lanes::choose({condition}, {first}, {second})"), class)
        } else {
            condition
        };
        self.levels -= 1;
        Some(value)
    }

    /// An expression of operators that bind at least as `level`.
    fn binary(&mut self, level: usize) -> Option<Value> {
        const LEVELS: [&[&str]; 6] =
            [&["||"], &["&&"], &["==", "!="], &["<=", ">=", "<", ">"], &["+", "-"], &["*", "/"]];
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(&operator) = operators.iter().find(|&&operator| self.takes(operator)) {
            let right = self.binary(level + 1)?;
            left = match level {
                0 | 1 => {
                    let (left, right) = (left.into(Class::Mask)?, right.into(Class::Mask)?);
                    Value::new(format!("({left} {} {right})", &operator[..1]), Class::Mask)
                }
                2 | 3 => {
                    let class = common(&left, &right)?;
                    let (left, right) = (left.into(class)?, right.into(class)?);
                    let mask = Class::Mask.vector();
                    Value::new(format!("({mask})({left} {operator} {right})"), Class::Mask)
                }
                _ => arithmetic(operator, left, right)?,
            };
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Value> {
        if self.takes("-") {
            let Value { code, class } = self.unary()?;
            return (class != Class::Mask).then(|| Value::new(format!("(-{code})"), class));
        }
        if self.takes("!") {
            let mask = self.unary()?.into(Class::Mask)?;
            return Some(Value::new(format!("(~{mask})"), Class::Mask));
        }
        if self.takes("(") {
            let class = match self.word(Kind::Ident) {
                "float" => Some(Class::Float),
                "int" => Some(Class::Int),
                _ => None,
            };
            if let Some(class) = class {
                self.at += 1;
                if !self.takes(")") {
                    return None;
                }
                let value = self.unary()?.into(class)?;
                return Some(Value::new(value, class));
            }
            let Value { code, class } = self.expression()?;
            return self.takes(")").then(|| Value::new(format!("({code})"), class));
        }
        self.primary()
    }

    fn primary(&mut self) -> Option<Value> {
        let number = self.word(Kind::Number);
        if !number.is_empty() {
            self.at += 1;
            return literal(number);
        }
        let name = self.word(Kind::Ident);
        if name.is_empty() {
            return None;
        }
        self.at += 1;
        if name == self.index {
            let code = "(::replay_rt::lanes::lane_numbers() + (int)replay_i)";
            return Some(Value::new(code, Class::Int));
        }
        if let Some(&class) = self.locals.get(name) {
            return Some(Value::new(format!("replay_x_{name}"), class));
        }
        if self.is("(") {
            return self.call(name);
        }
        match self.known.get(name)? {
            Known::Scalar(class) => {
                if let Some(k) = self.body.changes.iter().position(|(change, _)| change == name) {
                    return Some(Value::new(
                        bits_as(*class, format!("replay_change[{k}]")),
                        *class,
                    ));
                }
                let k = number_of(name, &mut self.body.values);
                let code = format!("::replay_rt::lanes::all(replay_in.value[{k}])");
                Some(Value::new(bits_as(*class, code), *class))
            }
            Known::Pointer { class, constant: true, .. } => {
                self.subscript()?;
                let k = number_of(name, &mut self.body.reads);
                let code = format!(
                    "::replay_rt::lanes::load(replay_in.read[{k}], replay_i, replay_active)"
                );
                Some(Value::new(bits_as(*class, code), *class))
            }
            Known::Pointer { constant: false, .. } => None,
        }
    }

    fn call(&mut self, name: &str) -> Option<Value> {
        let &(function, count) = FUNCTIONS.iter().find(|(function, _)| *function == name)?;
        if self.planner.facts.is_defined(name) || self.planner.names.contains_key(name) {
            return None;
        }
        self.at += 1;
        let mut arguments = Vec::new();
        for k in 0..count {
            if k > 0 && !self.takes(",") {
                return None;
            }
            arguments.push(self.expression()?.into(Class::Float)?);
        }
        let arguments = arguments.join(", ");
        self.takes(")").then(|| {
            let code = format!("::replay_rt::lanes::{function}({arguments}, replay_doubt)");
            Value::new(code, Class::Float)
        })
    }
}

/// The target of an assignment.
enum Place<'t> {
    /// A variable of the body.
    Local(&'t str),
    /// A variable of the thread, by number.
    Change(usize),
}

/// The number of `name` in `list`, to which it is added if it is not there.
fn number_of(name: &str, list: &mut Vec<String>) -> usize {
    list.iter().position(|one| one == name).unwrap_or_else(|| {
        list.push(name.to_owned());
        list.len() - 1
    })
}

fn bits_as(class: Class, code: String) -> String {
    match class {
        Class::Float => format!("::replay_rt::lanes::floats({code})"),
        Class::Int | Class::Mask => code,
    }
}

/// The class in which two values are compared or added.
fn common(left: &Value, right: &Value) -> Option<Class> {
    match (left.class, right.class) {
        (Class::Mask, _) | (_, Class::Mask) => None,
        (Class::Int, Class::Int) => Some(Class::Int),
        _ => Some(Class::Float),
    }
}

fn arithmetic(operator: &str, left: Value, right: Value) -> Option<Value> {
    let class = common(&left, &right)?;
    if operator == "/" && class == Class::Int {
        return None;
    }
    let (left, right) = (left.into(class)?, right.into(class)?);
    Some(Value::new(format!("({left} {operator} {right})"), class))
}

/// A number as written: a float with its suffix, or a decimal int.
fn literal(number: &str) -> Option<Value> {
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    if digits && number.parse::<i32>().is_ok() && (number == "0" || !number.starts_with('0')) {
        return Some(Value::new(format!("::replay_rt::lanes::all({number})"), Class::Int));
    }
    let decimal = number.strip_suffix(['f', 'F'])?;
    let known =
        |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'-' | b'+');
    let point = decimal.contains(['.', 'e', 'E']);
    (point && decimal.bytes().all(known)).then(|| {
        let bits = format!("::replay_rt::same_bits<unsigned>({number})");
        Value::new(bits_as(Class::Float, format!("::replay_rt::lanes::all({bits})")), Class::Float)
    })
}
