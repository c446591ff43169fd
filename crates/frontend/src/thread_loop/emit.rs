//! Writes a kernel in thread-loop form, as edits of its text. New text stands on existing lines.

use std::fmt::Write;
use std::ops::Range;

use super::Facts;
use super::grid_stride::GridStrideLoop;
use super::inlining::place_of_wait;
use super::plan::regions::Check;
use super::plan::{Placed, ThreadLoopPlan, Variable, VariableHome, YieldPoint};
use super::regions::{declare_arrays, write_regions};
use super::yield_points::around_atomic;
use crate::syntax::edits::Edits;
use crate::syntax::escape_c_string;
use crate::syntax::lexer::normalise_spacing;
use crate::syntax::lexer::{TokenKind, Tokens};
use crate::syntax::source::Source;

/// Bytes for waiting stores of strided loops; they fit in a core's second-level cache, with room.
const STORES_BYTES: usize = 256 << 10;

/// Writes the kernel of `plan`.
pub(super) fn emit_thread_loop(
    source: &Source,
    tokens: &Tokens,
    facts: &Facts,
    plan: &ThreadLoopPlan,
    edits: &mut Edits,
) {
    let mut writer = ThreadLoopWriter { source, tokens, plan, edits };
    writer.frame(facts);
    for (index, barrier) in plan.barriers.iter().enumerate() {
        if let Some(check) = barrier.check {
            writer.check(index + 1, barrier, check);
        }
    }
    for range in &plan.hoisted {
        writer.erase(range.clone());
    }
    for placed in &plan.declarations {
        writer.declaration(placed);
    }
    for (index, barrier) in plan.barriers.iter().enumerate() {
        if barrier.check.is_none() {
            writer.barrier(index + 1, barrier);
        }
    }
    for (number, strided) in plan.strided.iter().enumerate() {
        writer.strided(number, strided);
    }
    for &token_index in &plan.returns {
        writer.replace(token_index, "goto replay_end");
    }
}

struct ThreadLoopWriter<'w> {
    source: &'w Source<'w>,
    tokens: &'w Tokens,
    plan: &'w ThreadLoopPlan<'w>,
    edits: &'w mut Edits,
}

impl ThreadLoopWriter<'_> {
    fn replace(&mut self, token_index: usize, text: impl Into<String>) {
        let token = self.tokens[token_index];
        self.edits.replace(token.start..token.end, text);
    }

    fn erase(&mut self, range: Range<usize>) {
        range.for_each(|token_index| self.replace(token_index, ""));
    }

    /// The tokens of `range` as one line.
    fn folded(&self, range: Range<usize>) -> String {
        normalise_spacing(self.source.text, &self.tokens[range])
    }

    /// The same without restrict qualifiers.
    fn type_text(&self, range: Range<usize>) -> String {
        self.folded(range).replace("__restrict__", "").replace("__restrict", "")
    }

    /// Inserts the code before and behind the statements of the body.
    fn frame(&mut self, facts: &Facts) {
        let mut code_before = String::from(" ");
        for range in &self.plan.hoisted {
            code_before += &self.folded(range.clone());
            code_before.push(' ');
        }
        let mut members = String::new();
        let mut starts = String::new();
        let mut names = String::new();
        for (k, variable) in self.plan.variables.iter().enumerate() {
            self.types(k, variable, &mut code_before);
            write_member(k, variable, &mut members);
            write_names(k, variable, &mut starts, &mut names);
        }
        let mut sites = Vec::new();
        let mut jumps = String::new();
        for (index, barrier) in self.plan.barriers.iter().enumerate() {
            let start = self.tokens[barrier.tokens.start].start;
            let (path, line) = place_of_wait(self.source.text, start)
                .unwrap_or((self.source.path, self.source.line(start) - 1));
            sites.push(format!("{{\"{}\", {line}}}", escape_c_string(path)));
            let number = index + 1;
            let _ = write!(jumps, "case {number}: goto replay_{number}; ");
        }
        if !starts.is_empty() {
            starts = format!("if (replay_frame->replay_at == 0) {{ {starts}}} ");
        }
        let sites = sites.join(", ");
        if self.plan.turns {
            members += "::replay_rt::fold_place replay_fold; ";
        }
        let _ = write!(
            code_before,
            "struct replay_frame_t {{ unsigned replay_at; {members}}}; \
             static const replay_site replay_sites[] = {{{sites}}}; "
        );
        let mut scratch = self.scratch_bytes().to_string();
        if let Some(regions) = &self.plan.regions {
            code_before += &declare_arrays(regions);
            scratch = "sizeof(replay_arrays_t)".to_owned();
            jumps += "case 0xffffffffu: goto replay_end; ";
        }
        let _ = match (self.plan.turns, self.plan.indexed) {
            (true, _) => {
                write!(
                    code_before,
                    "::replay_rt::block_turns<replay_frame_t> replay_block(replay_sites, {scratch}); "
                )
            }
            (false, indexed) => write!(
                code_before,
                "::replay_rt::whole_block<replay_frame_t, {indexed}> \
                 replay_block(replay_sites, {scratch}); "
            ),
        };
        let flush = if self.plan.strided.is_empty() { "" } else { "replay_stores.flush(); " };
        if !flush.is_empty() {
            let _ = write!(
                code_before,
                "::replay_rt::stores replay_stores{{replay_block.scratch(), {scratch}}}; "
            );
        }
        for (number, strided) in self.plan.strided.iter().enumerate() {
            code_before += &strided.declaration(number);
        }
        if let Some(regions) = &self.plan.regions {
            code_before += &write_regions(self.source, self.tokens, facts, self.plan, regions);
        }
        let _ = write!(
            code_before,
            "while (replay_frame_t* const replay_frame = replay_block.next([&] {{ {flush}}})) \
             {{ {starts}{{ {names}switch (replay_block.at()) {{ {jumps}}} {{"
        );
        let body = self.plan.body.clone();
        self.edits.insert(self.tokens[body.start].end, code_before);
        let code_after = "} replay_end:; replay_block.end(*replay_frame); } replay_next:; } ";
        self.edits.insert(self.tokens[body.end - 1].start, code_after);
    }

    /// Bytes of memory for waiting stores; none without a store in a strided loop.
    fn scratch_bytes(&self) -> usize {
        if self.plan.strided.iter().any(GridStrideLoop::stores) { STORES_BYTES } else { 0 }
    }

    /// Puts the attempt to run a loop for several threads at once in front of it.
    fn strided(&mut self, number: usize, strided: &GridStrideLoop) {
        let (code_before, code_after) = strided.around(number, |range| self.folded(range));
        self.insert_around(strided.tokens.clone(), code_before, code_after);
    }

    /// The types of variable `k`: as written, and without `const`.
    fn types(&self, k: usize, variable: &Variable, out: &mut String) {
        let mut base = self.type_text(variable.base.clone());
        if !variable.pointer.is_empty() {
            base = base + " " + &self.type_text(variable.pointer.clone());
        }
        let dimensions = self.folded(variable.dimensions.clone());
        let _ = write!(
            out,
            "typedef {base} replay_c{k}{dimensions}; \
             typedef typename ::replay_rt::plain<replay_c{k}>::type replay_t{k}; "
        );
    }

    fn declaration(&mut self, placed: &Placed) {
        self.erase(placed.declaration.base.clone());
        for (declarator, &k) in placed.declaration.declarators.iter().zip(&placed.variables) {
            self.erase(declarator.pointer.clone());
            let variable = &self.plan.variables[k];
            if placed.head_of.is_some() {
                continue;
            }
            let name = declarator.name;
            let initialiser = declarator.initialiser.clone();
            match variable.home {
                VariableHome::Frame if !variable.dimensions.is_empty() => {
                    self.array(k, variable, name, initialiser.clone());
                }
                VariableHome::Frame => self.object(k, variable, name, initialiser.clone()),
                VariableHome::Constant | VariableHome::Local => {
                    self.local(k, variable, name, initialiser.clone())
                }
            }
            if self.tokens.is_spelled_at(self.source.text, initialiser.end, ",") {
                self.replace(initialiser.end, ";");
            }
        }
        if let Some(statement) = placed.head_of.clone() {
            self.head(placed, statement);
        }
    }

    /// A variable in a local of its own: declared without a value, so a jump may pass by.
    fn local(&mut self, k: usize, variable: &Variable, name: usize, initialiser: Range<usize>) {
        let mut text = format!("replay_t{k} {}", variable.name);
        if !initialiser.is_empty() {
            text.push_str("; ");
            if variable.home == VariableHome::Constant && variable.crosses {
                let _ = write!(text, "replay_frame->v{k} = ");
            }
            text.push_str(&variable.name);
            if !self.tokens.is_spelled_at(self.source.text, initialiser.start, "=") {
                let _ = write!(text, " = replay_t{k}");
            }
        }
        self.replace(name, text);
    }

    /// An object in the frame.
    fn object(&mut self, k: usize, variable: &Variable, name: usize, initialiser: Range<usize>) {
        if initialiser.is_empty() && variable.trivial {
            return self.replace(name, "");
        }
        self.replace(name, format!("new (::replay_rt::storage{{replay_frame->v{k}}}) replay_t{k}"));
        if !self.tokens.is_spelled_at(self.source.text, initialiser.start, "=") {
            return;
        }
        if self.tokens.is_spelled_at(self.source.text, initialiser.start + 1, "{") {
            return self.replace(initialiser.start, "");
        }
        self.replace(initialiser.start, "(");
        self.edits.insert(self.tokens[initialiser.end - 1].end, ")");
    }

    /// An array in the frame.
    fn array(&mut self, k: usize, variable: &Variable, name: usize, initialiser: Range<usize>) {
        self.erase(variable.dimensions.clone());
        if initialiser.is_empty() && variable.trivial {
            return self.replace(name, "");
        }
        let copy = format!(
            "; __builtin_memcpy(replay_frame->v{k}, &replay_value, sizeof replay_value); }}"
        );
        self.replace(name, format!("{{ replay_c{k} replay_value"));
        // Behind the dimensions if there is no initialiser.
        self.edits.insert(self.tokens[initialiser.end - 1].end, copy);
    }

    /// The variables from the head of a loop: declared in front of it.
    fn head(&mut self, placed: &Placed, statement: Range<usize>) {
        let mut text = String::from("{ ");
        for &k in &placed.variables {
            let variable = &self.plan.variables[k];
            if variable.home != VariableHome::Frame {
                let _ = write!(text, "replay_t{k} {}; ", variable.name);
            }
        }
        self.insert_around(statement, text, " }");
    }

    /// A place where threads that have run in regions go on.
    fn check(&mut self, number: usize, place: &YieldPoint, check: Check) {
        let mut back = String::new();
        for &k in &place.kept {
            let Variable { name, parameter, .. } = &self.plan.variables[k];
            if !parameter {
                let _ = write!(back, " {name} = replay_frame->v{k};");
            }
        }
        let start = place.tokens.start;
        let byte_offset = match check {
            Check::Before => self.place_before(start),
            Check::After => self.tokens[start - 1].end,
        };
        self.edits.insert(byte_offset, format!(" if (false) {{ replay_{number}:;{back} }} "));
    }

    /// Puts `code_before` in front of a loop, and `code_after` behind it.
    fn insert_around(&mut self, statement: Range<usize>, code_before: String, code_after: &str) {
        self.edits.insert(self.place_before(statement.start), code_before);
        self.edits.insert(self.tokens[statement.end - 1].end, code_after);
    }

    /// Where code in front of the statement at token `start` begins: a pragma stays the line before a loop.
    fn place_before(&self, start: usize) -> usize {
        let pragmas = (0..start).rev();
        let first = pragmas
            .take_while(|&token_index| self.tokens[token_index].kind == TokenKind::Directive)
            .last();
        match first {
            Some(first) => self.tokens[first - 1].end,
            None => self.tokens[start].start,
        }
    }

    fn barrier(&mut self, number: usize, barrier: &YieldPoint) {
        let mut out = String::new();
        let mut back = String::new();
        for &k in &barrier.kept {
            let Variable { name, home, parameter, .. } = &self.plan.variables[k];
            if *home == VariableHome::Local {
                let _ = write!(out, "replay_frame->v{k} = {name}; ");
            }
            if !parameter {
                let _ = write!(back, " {name} = replay_frame->v{k};");
            }
        }
        let start = barrier.tokens.start;
        if let Some(fold) = self.plan.shuffles.folds.iter().find(|fold| fold.tokens.start == start)
        {
            let text = fold.as_turn(self.source, self.tokens, number, &out, &back);
            self.erase(barrier.tokens.clone());
            return self.edits.insert(self.tokens[start].start, text);
        }
        if let Some(arguments) = &barrier.arguments {
            let variables = [out.as_str(), back.as_str()];
            let (code_before, code_after) =
                around_atomic(self.source, self.tokens, start, arguments, number, variables);
            self.edits.insert(self.tokens[start].start, code_before);
            return self.edits.insert(self.tokens[barrier.tokens.end - 1].end, code_after);
        }
        let halving =
            self.plan.halvings.iter().find(|candidate| candidate.barrier == barrier.tokens.start);
        let halving_code = halving.map(|chosen_halving| {
            chosen_halving.code(&self.plan.variables, |range| self.folded(range))
        });
        let halving_code = halving_code.unwrap_or_default();
        self.erase(barrier.tokens.clone());
        self.edits.insert(
            self.tokens[barrier.tokens.start].start,
            format!(
                "{{ {out}replay_block.wait(*replay_frame, {number}); goto replay_next; \
                 replay_{number}:;{back}{halving_code} }}"
            ),
        );
    }
}

fn write_member(k: usize, variable: &Variable, out: &mut String) {
    let _ = match variable.home {
        VariableHome::Frame => {
            write!(
                out,
                "alignas(::replay_rt::local_alignment<replay_t{k}>::value) \
                 unsigned char v{k}[sizeof(replay_t{k})]; "
            )
        }
        VariableHome::Constant | VariableHome::Local if variable.crosses => {
            write!(out, "replay_t{k} v{k}; ")
        }
        VariableHome::Constant | VariableHome::Local => Ok(()),
    };
}

/// Writes the code of a variable's names for the body: its value at the start of a thread, and its declaration.
fn write_names(k: usize, variable: &Variable, starts: &mut String, names: &mut String) {
    let name = &variable.name;
    if variable.home == VariableHome::Frame {
        let _ = write!(
            names,
            "replay_c{k}& {name} = *reinterpret_cast<replay_c{k}*>(replay_frame->v{k}); "
        );
    }
    if !variable.parameter {
        return;
    }
    let _ = match variable.home {
        VariableHome::Frame => {
            write!(starts, "new (::replay_rt::storage{{replay_frame->v{k}}}) replay_t{k}({name}); ")
        }
        VariableHome::Constant | VariableHome::Local => {
            write!(starts, "replay_frame->v{k} = {name}; ")
        }
    };
    if variable.home == VariableHome::Local {
        let _ = write!(names, "replay_t{k} {name} = replay_frame->v{k}; ");
    }
}
