//! Finds strided loops that may run for several threads at once, and writes their code for
//! `replay/lanes.h`.
//!
//! `for (int i = E; i < N; i += S)` without a barrier, whose body is a list of assignments of floats and
//! ints. It assigns to variables of the body or of the thread, and to element `i` of memory behind a
//! restricted pointer that nothing else in the kernel touches. It reads variables, and element `i` of
//! memory behind restricted pointers to constants. A loop that is not certainly of this form is left.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::declarations::{Declaration, Declarator, Declared, declared};
use super::lane_code::{Body, Class, Writer};
use super::plan::Planner;
use super::statements::{Form, Statement};
use super::uses::Use;
use crate::syntax::lexer::Kind;

/// A loop as it is to be written.
#[derive(Debug)]
pub(super) struct Strided {
    pub tokens: Range<usize>,
    /// The tokens of its start, its end and its step.
    start: Range<usize>,
    end: Range<usize>,
    step: Range<usize>,
    body: Body,
}

/// A name that a kernel declares once.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// A variable of the thread.
    Scalar(Class),
    /// A restricted pointer, to constants if `constant`, and the parameter that it comes from.
    Pointer { class: Class, constant: bool, parameter: String },
}

/// The loops of the kernel that may run for several threads at once.
pub(super) fn find(planner: &Planner, statements: &[Statement]) -> Vec<Strided> {
    let mut finder = Finder { planner, known: BTreeMap::new(), derivations: Vec::new() };
    finder.learn(statements);
    let mut found = Vec::new();
    finder.walk(statements, &mut found);
    finder.keep_exclusive(found)
}

/// The code around a loop.
impl Strided {
    /// The class of the loop, for in front of the loop over the threads.
    pub(super) fn declaration(&self, number: usize) -> String {
        let Body { values, reads, writes, changes, code, .. } = &self.body;
        let (values, reads) = (values.len(), reads.len());
        let (writes, changes) = (writes.len(), changes.len());
        format!(
            "struct replay_loop_{number} : \
             ::replay_rt::strided_loop<{values}, {reads}, {writes}, {changes}> {{ \
             REPLAY_LANE_BODY(replay_loop_{number}) {{ {code}}} }}; \
             ::replay_rt::spread<replay_loop_{number}> replay_spread_{number}; "
        )
    }

    /// The code in front of the loop, and behind it. `text` returns the tokens of a range as they
    /// are written.
    pub(super) fn around(
        &self,
        number: usize,
        text: impl Fn(Range<usize>) -> String,
    ) -> (String, &'static str) {
        let Body { values, reads, writes, changes, .. } = &self.body;
        let bits = |name: &str| format!("::replay_rt::same_bits<unsigned>({name})");
        let values: Vec<String> = values.iter().map(|name| bits(name)).collect();
        let starts: Vec<String> = changes.iter().map(|(name, _)| bits(name)).collect();
        let lists = [&values, reads, writes, &starts];
        let lists = lists.map(|list| format!("{{{}}}", list.join(", "))).join(", ");
        let [start, end, step] = [&self.start, &self.end, &self.step].map(|one| text(one.clone()));
        let mut results = String::new();
        for (k, (name, _)) in changes.iter().enumerate() {
            results += &format!("replay_spread_{number}.change({name}, {k}, replay_lane); ");
        }
        let before = format!(
            "{{ const int replay_i = {start}, replay_end = {end}, replay_step = (int)({step}); \
             if (replay_i < replay_end) {{ \
             const unsigned replay_lane = replay_spread_{number}.enter(\
             {{{{replay_i, replay_end, replay_step, {lists}}}}}, replay_block, replay_stores); \
             if (replay_lane < ::replay_rt::lanes::group) {{ {results}}} else "
        );
        (before, " } }")
    }

    /// Whether it stores anything.
    pub(super) fn stores(&self) -> bool {
        !self.body.writes.is_empty()
    }
}

struct Finder<'p, 't> {
    planner: &'p Planner<'t>,
    known: BTreeMap<&'t str, Known>,
    /// The tokens in which pointers are made of parameters.
    derivations: Vec<Range<usize>>,
}

impl<'t> Finder<'_, 't> {
    /// Learns what the kernel's parameters and variables are.
    fn learn(&mut self, statements: &[Statement]) {
        let planner = self.planner;
        for range in planner.parameter_ranges() {
            if let Declared::Variables(made) = declared(planner.text, planner.tokens, range) {
                made.declarators.iter().for_each(|one| self.declare(&made, one, true));
            }
        }
        let mut open: Vec<&Statement> = statements.iter().rev().collect();
        while let Some(statement) = open.pop() {
            match &statement.form {
                Form::List(list) | Form::If { branches: list, .. } => {
                    open.extend(list.iter().rev())
                }
                Form::Loop { body, .. } | Form::Do { body } | Form::Switch { body, .. } => {
                    open.push(body);
                }
                Form::Simple => {
                    let range = statement.tokens.start..statement.tokens.end - 1;
                    let made = declared(planner.text, planner.tokens, range);
                    if let Declared::Variables(made) = made {
                        made.declarators.iter().for_each(|one| self.declare(&made, one, false));
                    }
                }
                Form::Label | Form::Barrier | Form::Return => {}
            }
        }
    }

    fn declare(&mut self, made: &Declaration, one: &Declarator, parameter: bool) {
        let planner = self.planner;
        let name = planner.word(one.name);
        let once = planner.names.get(name).is_some_and(|places| places.len() == 1);
        // Where it cannot be named, something of the file may have its name.
        let elsewhere = planner.facts.is_macro(name) || planner.facts.is_defined(name);
        if !once || !one.dimensions.is_empty() || elsewhere {
            return;
        }
        let Some(class) = self.class(made.base.clone()) else { return };
        if one.pointer.is_empty() {
            self.known.insert(name, Known::Scalar(class));
            return;
        }
        let constant = made.base.clone().any(|at| planner.is(at, "const"));
        let mut marks = one.pointer.clone();
        let stars = marks.clone().filter(|&at| planner.is(at, "*")).count();
        let changed = planner.worst(name, one.initialiser.end..planner.item.body.end) != Use::Read;
        if stars != 1 || changed {
            return;
        }
        let root = match parameter {
            true => marks
                .any(|at| planner.is(at, "__restrict__") || planner.is(at, "__restrict"))
                .then(|| name.to_owned()),
            false => self.root(one.initialiser.clone(), class, constant),
        };
        if let Some(parameter) = root {
            self.derivations.push(one.name..one.initialiser.end);
            self.known.insert(name, Known::Pointer { class, constant, parameter });
        }
    }

    /// The parameter of which `initialiser` makes a pointer by adding numbers to it.
    fn root(&self, initialiser: Range<usize>, class: Class, constant: bool) -> Option<String> {
        let planner = self.planner;
        if initialiser.is_empty() || !planner.is(initialiser.start, "=") {
            return None;
        }
        let mut root = None;
        for at in planner.mentions(initialiser.start + 1..initialiser.end) {
            let word = planner.word(at);
            match self.known.get(word) {
                Some(Known::Scalar(_)) => {}
                Some(Known::Pointer { class: of, constant: is_constant, parameter })
                    if root.is_none() && (*of, *is_constant) == (class, constant) =>
                {
                    root = Some(parameter.clone());
                }
                Some(Known::Pointer { .. }) => return None,
                None if is_builtin(word) || is_integer_type(word) => {}
                None => return None,
            }
        }
        let plain = |at: usize| match planner.tokens[at].kind {
            Kind::Punct => matches!(planner.word(at), "+" | "-" | "*" | "(" | ")" | "." | "::"),
            kind => matches!(kind, Kind::Ident | Kind::Number),
        };
        root.filter(|_| (initialiser.start + 1..initialiser.end).all(plain))
    }

    fn class(&self, base: Range<usize>) -> Option<Class> {
        let words = base.map(|at| self.planner.word(at)).filter(|&word| word != "const");
        match words.collect::<Vec<_>>()[..] {
            ["float"] => Some(Class::Float),
            ["int"] => Some(Class::Int),
            _ => None,
        }
    }

    fn walk(&self, statements: &[Statement], found: &mut Vec<Strided>) {
        for statement in statements {
            match &statement.form {
                Form::List(list) | Form::If { branches: list, .. } => self.walk(list, found),
                Form::Loop { head, is_for: true, body } if !statement.waits => {
                    match self.strided(statement, head.clone(), body) {
                        Some(strided) => found.push(strided),
                        None => self.walk(std::slice::from_ref(&**body), found),
                    }
                }
                Form::Loop { body, .. } | Form::Do { body } | Form::Switch { body, .. } => {
                    self.walk(std::slice::from_ref(&**body), found);
                }
                Form::Label | Form::Barrier | Form::Return | Form::Simple => {}
            }
        }
    }

    fn strided(
        &self,
        statement: &Statement,
        head: Range<usize>,
        body: &Statement,
    ) -> Option<Strided> {
        let planner = self.planner;
        let semicolons: Vec<usize> = head.clone().filter(|&at| planner.is(at, ";")).collect();
        let &[first, second] = &semicolons[..] else { return None };
        let name_at = head.start + 1;
        let name = planner.word(name_at);
        let named = |at: usize| planner.word(at) == name;
        let shape = planner.is(head.start, "int")
            && planner.tokens[name_at].kind == Kind::Ident
            && planner.is(name_at + 1, "=")
            && named(first + 1)
            && planner.is(first + 2, "<")
            && named(second + 1)
            && planner.is(second + 2, "+")
            && planner.is(second + 3, "=");
        if !shape || planner.facts.is_macro(name) {
            return None;
        }
        let (start, end, step) = (name_at + 2..first, first + 3..second, second + 4..head.end);
        let statements = match &body.form {
            Form::List(list) => &list[..],
            _ => std::slice::from_ref(body),
        };
        let ranges = statements.iter().map(|one| match one.form {
            Form::Simple => Some(one.tokens.start..one.tokens.end - 1),
            _ => None,
        });
        let ranges = ranges.collect::<Option<Vec<_>>>()?;
        let body = Writer::new(planner, &self.known, name).write(&ranges)?;
        let changed: BTreeSet<&str> = body.changes.iter().map(|(name, _)| &name[..]).collect();
        let pure = |range: &Range<usize>, built_in| self.is_pure(range.clone(), built_in, &changed);
        let pure = pure(&start, true) && pure(&end, false) && pure(&step, true);
        let tokens = statement.tokens.clone();
        pure.then_some(Strided { tokens, start, end, step, body })
    }

    /// Whether `range` is a sum or product of ints that may be computed once more and that the loop
    /// does not change. Unsigned built-in variables are allowed if `built_in`.
    fn is_pure(&self, range: Range<usize>, built_in: bool, changed: &BTreeSet<&str>) -> bool {
        let planner = self.planner;
        let int = |word: &str| matches!(self.known.get(word), Some(Known::Scalar(Class::Int)));
        !range.is_empty()
            && range.clone().all(|at| {
                let word = planner.word(at);
                match planner.tokens[at].kind {
                    Kind::Ident if is_builtin(word) => built_in && planner.is(at + 1, "."),
                    Kind::Ident if planner.is(at - 1, ".") => true,
                    Kind::Ident => word == "int" || int(word) && !changed.contains(word),
                    Kind::Number => word.bytes().all(|byte| byte.is_ascii_digit()),
                    Kind::Punct => matches!(word, "+" | "-" | "*" | "(" | ")" | "."),
                    Kind::Text | Kind::Directive => false,
                }
            })
            && !["+", "-"].iter().any(|sign| {
                // `++` and `--` change their operand.
                range.clone().any(|at| planner.is(at, sign) && planner.is(at + 1, sign))
            })
    }

    /// Those of `found` that store only behind pointers which nothing but the stores of such loops
    /// uses. So nobody can tell when a store reaches memory.
    fn keep_exclusive(&self, mut found: Vec<Strided>) -> Vec<Strided> {
        loop {
            let sites: BTreeSet<usize> =
                found.iter().flat_map(|one| one.body.store_sites.iter().copied()).collect();
            let shared: BTreeSet<&str> = self
                .known
                .iter()
                .filter(|(name, _)| self.has_other_uses(name, &sites))
                .filter_map(|(_, known)| match known {
                    Known::Pointer { parameter, constant: false, .. } => Some(&parameter[..]),
                    _ => None,
                })
                .collect();
            let before = found.len();
            found.retain(|one| {
                one.body.writes.iter().all(|name| match &self.known[&name[..]] {
                    Known::Pointer { parameter, .. } => !shared.contains(&parameter[..]),
                    Known::Scalar(_) => false,
                })
            });
            if found.len() == before {
                return found;
            }
        }
    }

    /// Whether the kernel mentions `name` other than where pointers are made and at `sites`.
    fn has_other_uses(&self, name: &str, sites: &BTreeSet<usize>) -> bool {
        let body = self.planner.item.body.clone();
        self.planner.mentions_of(name, body).any(|at| {
            !sites.contains(&at) && !self.derivations.iter().any(|range| range.contains(&at))
        })
    }
}

/// The built-in variables, whose members are unsigned.
fn is_builtin(word: &str) -> bool {
    matches!(word, "threadIdx" | "blockIdx" | "blockDim" | "gridDim")
}

fn is_integer_type(word: &str) -> bool {
    matches!(word, "size_t" | "int" | "long" | "unsigned" | "int64_t" | "uint64_t" | "std")
}
