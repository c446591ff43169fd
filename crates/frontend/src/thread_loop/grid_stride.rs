//! Finds strided loops for several threads at once, and writes their code for `replay/lanes.h`.
//!
//! `for (int i = E; i < N; i += S)` without a barrier: its body is a list of assignments of floats and ints. It
//! assigns to variables of the body or of the thread, and to element `i` of memory behind a restricted pointer without
//! other uses in the kernel. It reads variables, and element `i` of memory behind restricted pointers to constants.
//! Other loops stay as they are, doubtful ones too.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::declarations::{
    DeclarationKind, VariableDeclaration, VariableDeclarator, parse_declaration,
};
use super::plan::Planner;
use super::statements::{KernelStatement, StatementForm};
use super::uses::Use;
use super::vector_code::{VectorBody, VectorClass, VectorWriter};
use crate::syntax::lexer::TokenKind;

/// The code of the bits of `value`.
pub(super) fn same_bits(value: &str) -> String {
    format!("::replay_rt::same_bits<unsigned>({value})")
}

/// A loop as it is to be written.
#[derive(Debug)]
pub(super) struct GridStrideLoop {
    pub tokens: Range<usize>,
    /// The tokens of its start, its end and its step.
    start: Range<usize>,
    end: Range<usize>,
    step: Range<usize>,
    body: VectorBody,
}

/// A name declared once in a kernel.
#[derive(Clone, Debug)]
pub(super) enum LoopOperand {
    /// A variable of the thread.
    Scalar(VectorClass),
    /// A restricted pointer, to constants if `constant`, and the parameter at its root.
    Pointer { class: VectorClass, constant: bool, parameter: String },
}

/// The loops of the kernel for several threads at once.
pub(super) fn find_grid_stride_loops(
    planner: &Planner,
    statements: &[KernelStatement],
) -> Vec<GridStrideLoop> {
    let mut finder = Finder { planner, known: BTreeMap::new(), derivations: Vec::new() };
    finder.learn(statements);
    let mut found_loops = Vec::new();
    finder.walk(statements, &mut found_loops);
    finder.keep_exclusive(found_loops)
}

/// The code around a loop.
impl GridStrideLoop {
    /// The class of the loop, for in front of the loop over the threads.
    pub(super) fn declaration(&self, number: usize) -> String {
        let VectorBody { values, reads, writes, changes, code, .. } = &self.body;
        let values = values.len();
        let reads = reads.len();
        let writes = writes.len();
        let changes = changes.len();
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
        let VectorBody { values, reads, writes, changes, .. } = &self.body;
        let values: Vec<String> = values.iter().map(|name| same_bits(name)).collect();
        let starts: Vec<String> = changes.iter().map(|(name, _)| same_bits(name)).collect();
        let lists = [&values, reads, writes, &starts];
        let lists = lists.map(|list| format!("{{{}}}", list.join(", "))).join(", ");
        let [start, end, step] =
            [&self.start, &self.end, &self.step].map(|range| text(range.clone()));
        let mut results = String::new();
        for (k, (name, _)) in changes.iter().enumerate() {
            results += &format!("replay_spread_{number}.change({name}, {k}, replay_lane); ");
        }
        let code_before = format!(
            "{{ const int replay_i = {start}, replay_end = {end}, replay_step = (int)({step}); \
             if (replay_i < replay_end) {{ \
             const unsigned replay_lane = replay_spread_{number}.enter(\
             {{{{replay_i, replay_end, replay_step, {lists}}}}}, replay_block, replay_stores); \
             if (replay_lane < ::replay_rt::lanes::group) {{ {results}}} else "
        );
        (code_before, " } }")
    }

    /// Whether it stores anything.
    pub(super) fn stores(&self) -> bool {
        !self.body.writes.is_empty()
    }
}

struct Finder<'p, 't> {
    planner: &'p Planner<'t>,
    known: BTreeMap<&'t str, LoopOperand>,
    /// The tokens of derivations of pointers from parameters.
    derivations: Vec<Range<usize>>,
}

impl<'t> Finder<'_, 't> {
    /// Learns the kinds of the kernel's parameters and variables.
    fn learn(&mut self, statements: &[KernelStatement]) {
        let planner = self.planner;
        for range in planner.parameter_ranges() {
            if let DeclarationKind::Variables(declaration) =
                parse_declaration(planner.text, planner.tokens, range)
            {
                declaration
                    .declarators
                    .iter()
                    .for_each(|declarator| self.declare(&declaration, declarator, true));
            }
        }
        let mut pending_statements: Vec<&KernelStatement> = statements.iter().rev().collect();
        while let Some(statement) = pending_statements.pop() {
            match &statement.form {
                StatementForm::List(list) | StatementForm::If { branches: list, .. } => {
                    pending_statements.extend(list.iter().rev())
                }
                StatementForm::Loop { body, .. }
                | StatementForm::Do { body }
                | StatementForm::Switch { body, .. } => {
                    pending_statements.push(body);
                }
                StatementForm::Simple => {
                    let range = statement.tokens.start..statement.tokens.end - 1;
                    let parsed_declaration = parse_declaration(planner.text, planner.tokens, range);
                    if let DeclarationKind::Variables(declaration) = parsed_declaration {
                        declaration
                            .declarators
                            .iter()
                            .for_each(|declarator| self.declare(&declaration, declarator, false));
                    }
                }
                StatementForm::Label | StatementForm::Barrier | StatementForm::Return => {}
            }
        }
    }

    fn declare(
        &mut self,
        declaration: &VariableDeclaration,
        declarator: &VariableDeclarator,
        parameter: bool,
    ) {
        let planner = self.planner;
        let name = planner.word(declarator.name);
        let once = planner.names.get(name).is_some_and(|places| places.len() == 1);
        // Where it cannot be named, something of the file may have its name.
        let elsewhere = planner.facts.is_macro(name) || planner.facts.is_defined(name);
        if !once || !declarator.dimensions.is_empty() || elsewhere {
            return;
        }
        let Some(class) = self.class(declaration.base.clone()) else { return };
        if declarator.pointer.is_empty() {
            self.known.insert(name, LoopOperand::Scalar(class));
            return;
        }
        let constant =
            declaration.base.clone().any(|token_index| planner.is_spelled_at(token_index, "const"));
        let mut marks = declarator.pointer.clone();
        let stars =
            marks.clone().filter(|&token_index| planner.is_spelled_at(token_index, "*")).count();
        let is_changed =
            planner.worst(name, declarator.initialiser.end..planner.item.body.end) != Use::Read;
        if stars != 1 || is_changed {
            return;
        }
        let root = if parameter {
            marks
                .any(|token_index| {
                    planner.is_spelled_at(token_index, "__restrict__")
                        || planner.is_spelled_at(token_index, "__restrict")
                })
                .then(|| name.to_owned())
        } else {
            self.root(declarator.initialiser.clone(), class, constant)
        };
        if let Some(parameter) = root {
            self.derivations.push(declarator.name..declarator.initialiser.end);
            self.known.insert(name, LoopOperand::Pointer { class, constant, parameter });
        }
    }

    /// The parameter at the root of `initialiser`, a pointer plus numbers.
    fn root(
        &self,
        initialiser: Range<usize>,
        class: VectorClass,
        constant: bool,
    ) -> Option<String> {
        let planner = self.planner;
        if initialiser.is_empty() || !planner.is_spelled_at(initialiser.start, "=") {
            return None;
        }
        let mut root = None;
        for token_index in planner.mentions(initialiser.start + 1..initialiser.end) {
            let word = planner.word(token_index);
            match self.known.get(word) {
                Some(LoopOperand::Scalar(_)) => {}
                Some(LoopOperand::Pointer {
                    class: known_class,
                    constant: is_constant,
                    parameter,
                }) if root.is_none() && (*known_class, *is_constant) == (class, constant) => {
                    root = Some(parameter.clone());
                }
                Some(LoopOperand::Pointer { .. }) => return None,
                None if is_builtin(word) || is_integer_type(word) => {}
                None => return None,
            }
        }
        let mut value = initialiser.start + 1..initialiser.end;
        let is_plain = value.all(|token_index| match planner.tokens[token_index].kind {
            TokenKind::Punct => {
                matches!(planner.word(token_index), "+" | "-" | "*" | "(" | ")" | "." | "::")
            }
            kind => matches!(kind, TokenKind::Ident | TokenKind::Number),
        });
        root.filter(|_| is_plain)
    }

    fn class(&self, base: Range<usize>) -> Option<VectorClass> {
        let words =
            base.map(|token_index| self.planner.word(token_index)).filter(|&word| word != "const");
        match words.collect::<Vec<_>>()[..] {
            ["float"] => Some(VectorClass::Float),
            ["int"] => Some(VectorClass::Int),
            _ => None,
        }
    }

    fn walk(&self, statements: &[KernelStatement], found_loops: &mut Vec<GridStrideLoop>) {
        for statement in statements {
            match &statement.form {
                StatementForm::List(list) | StatementForm::If { branches: list, .. } => {
                    self.walk(list, found_loops)
                }
                StatementForm::Loop { head, is_for: true, body } if !statement.waits => {
                    match self.strided(statement, head.clone(), body) {
                        Some(strided) => found_loops.push(strided),
                        None => self.walk(std::slice::from_ref(&**body), found_loops),
                    }
                }
                StatementForm::Loop { body, .. }
                | StatementForm::Do { body }
                | StatementForm::Switch { body, .. } => {
                    self.walk(std::slice::from_ref(&**body), found_loops);
                }
                StatementForm::Label
                | StatementForm::Barrier
                | StatementForm::Return
                | StatementForm::Simple => {}
            }
        }
    }

    fn strided(
        &self,
        statement: &KernelStatement,
        head: Range<usize>,
        body: &KernelStatement,
    ) -> Option<GridStrideLoop> {
        let planner = self.planner;
        let semicolons: Vec<usize> =
            head.clone().filter(|&token_index| planner.is_spelled_at(token_index, ";")).collect();
        let &[first, second] = &semicolons[..] else { return None };
        let name_at = head.start + 1;
        let name = planner.word(name_at);
        let shape = planner.is_spelled_at(head.start, "int")
            && planner.tokens[name_at].kind == TokenKind::Ident
            && planner.is_spelled_at(name_at + 1, "=")
            && planner.word(first + 1) == name
            && planner.is_spelled_at(first + 2, "<")
            && planner.word(second + 1) == name
            && planner.is_spelled_at(second + 2, "+")
            && planner.is_spelled_at(second + 3, "=");
        if !shape || planner.facts.is_macro(name) {
            return None;
        }
        let start = name_at + 2..first;
        let end = first + 3..second;
        let step = second + 4..head.end;
        let statements = match &body.form {
            StatementForm::List(list) => &list[..],
            _ => std::slice::from_ref(body),
        };
        let ranges = statements.iter().map(|inner_statement| match inner_statement.form {
            StatementForm::Simple => {
                Some(inner_statement.tokens.start..inner_statement.tokens.end - 1)
            }
            _ => None,
        });
        let ranges = ranges.collect::<Option<Vec<_>>>()?;
        let body = VectorWriter::new(planner, &self.known, name).write(&ranges)?;
        let changed_names: BTreeSet<&str> =
            body.changes.iter().map(|(name, _)| &name[..]).collect();
        let pure =
            |range: &Range<usize>, built_in| self.is_pure(range.clone(), built_in, &changed_names);
        let pure = pure(&start, true) && pure(&end, false) && pure(&step, true);
        let tokens = statement.tokens.clone();
        pure.then_some(GridStrideLoop { tokens, start, end, step, body })
    }

    /// Whether `range` is a sum or product of ints, may be computed once more, and has one value in the whole loop.
    /// Unsigned built-in variables are allowed if `built_in`.
    fn is_pure(&self, range: Range<usize>, built_in: bool, changed_names: &BTreeSet<&str>) -> bool {
        let planner = self.planner;
        !range.is_empty()
            && range.clone().all(|token_index| {
                let word = planner.word(token_index);
                match planner.tokens[token_index].kind {
                    TokenKind::Ident if is_builtin(word) => {
                        built_in && planner.is_spelled_at(token_index + 1, ".")
                    }
                    TokenKind::Ident if planner.is_spelled_at(token_index - 1, ".") => true,
                    TokenKind::Ident if word == "int" => true,
                    TokenKind::Ident => {
                        let operand = self.known.get(word);
                        matches!(operand, Some(LoopOperand::Scalar(VectorClass::Int)))
                            && !changed_names.contains(word)
                    }
                    TokenKind::Number => word.bytes().all(|byte| byte.is_ascii_digit()),
                    TokenKind::Punct => matches!(word, "+" | "-" | "*" | "(" | ")" | "."),
                    TokenKind::Text | TokenKind::Directive => false,
                }
            })
            && !["+", "-"].iter().any(|sign| {
                // `++` and `--` change their operand.
                range.clone().any(|token_index| {
                    planner.is_spelled_at(token_index, sign)
                        && planner.is_spelled_at(token_index + 1, sign)
                })
            })
    }

    /// The loops with stores behind pointers of their own: the kernel uses them in such stores alone. So nobody can tell
    /// when a store reaches memory.
    fn keep_exclusive(&self, mut found_loops: Vec<GridStrideLoop>) -> Vec<GridStrideLoop> {
        loop {
            let sites: BTreeSet<usize> = found_loops
                .iter()
                .flat_map(|strided_loop| strided_loop.body.store_sites.iter().copied())
                .collect();
            let shared_parameters: BTreeSet<&str> = self
                .known
                .iter()
                .filter(|(name, _)| self.has_other_uses(name, &sites))
                .filter_map(|(_, known_value)| match known_value {
                    LoopOperand::Pointer { parameter, constant: false, .. } => Some(&parameter[..]),
                    _ => None,
                })
                .collect();
            let count_before = found_loops.len();
            found_loops.retain(|strided_loop| {
                strided_loop.body.writes.iter().all(|name| match &self.known[&name[..]] {
                    LoopOperand::Pointer { parameter, .. } => {
                        !shared_parameters.contains(&parameter[..])
                    }
                    LoopOperand::Scalar(_) => false,
                })
            });
            if found_loops.len() == count_before {
                return found_loops;
            }
        }
    }

    /// Whether the kernel mentions `name` other than where pointers are made and at `sites`.
    fn has_other_uses(&self, name: &str, sites: &BTreeSet<usize>) -> bool {
        let body = self.planner.item.body.clone();
        self.planner.mentions_of(name, body).any(|token_index| {
            !sites.contains(&token_index)
                && !self.derivations.iter().any(|range| range.contains(&token_index))
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
