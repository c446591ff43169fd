//! Writes the regions of a kernel in front of its loop over threads: all on one line, since the kernel's own lines follow.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Range;
use std::slice;

use super::Facts;
use super::plan::regions::{RegionLoop, RegionNode, RegionPiece, Regions};
use super::plan::{ThreadLoopPlan, Variable, VariableHome};
use super::uses::{Use, classify_variable_use};
use crate::syntax::lexer::{TokenKind, Tokens, normalise_spacing};
use crate::syntax::source::Source;

/// The place of a thread that has ended.
const ENDED: &str = "0xffffffffu";

/// The most threads of a block.
const MOST_THREADS: usize = 1024;

/// The type with an element a thread of each variable.
pub(super) fn declare_arrays(regions: &Regions) -> String {
    let mut text =
        String::from("struct replay_arrays_t { ::replay_rt::thread_indices replay_index; ");
    for k in &regions.shared {
        let _ = write!(
            text,
            "alignas(::replay_rt::local_alignment<replay_t{k}>::value) replay_t{k} a{k}[{MOST_THREADS}]; "
        );
    }
    text += "unsigned replay_last; }; ";
    text
}

/// The code of `regions`.
pub(super) fn write_regions(
    source: &Source,
    tokens: &Tokens,
    facts: &Facts,
    plan: &ThreadLoopPlan,
    regions: &Regions,
) -> String {
    let mut writer = RegionWriter {
        source,
        tokens,
        facts,
        plan,
        regions,
        out: String::new(),
        uniform: Vec::new(),
        warps: None,
        labels: 0,
    };
    writer.kernel();
    writer.out
}

/// The warps of a region: where threads before it, behind it go on, and its number.
#[derive(Clone, Copy)]
struct WarpPlaces {
    before: usize,
    after: Option<usize>,
    label: usize,
}

struct RegionWriter<'w> {
    source: &'w Source<'w>,
    tokens: &'w Tokens,
    facts: &'w Facts,
    plan: &'w ThreadLoopPlan<'w>,
    regions: &'w Regions,
    out: String,
    /// The variables of loops around the current node with one value for all threads; whether for a warp alone.
    uniform: Vec<(usize, bool)>,
    /// The region around the current node, inside its warps.
    warps: Option<WarpPlaces>,
    labels: usize,
}

impl RegionWriter<'_> {
    fn kernel(&mut self) {
        let warps = self.regions.has_warps;
        let mut saved = String::new();
        for &k in &self.regions.shared {
            let Variable { crosses, home, .. } = self.plan.variables[k];
            if crosses && home == VariableHome::Frame {
                let _ = write!(
                    saved,
                    "__builtin_memcpy(replay_frame.v{k}, &replay_a.a{k}[replay_t], sizeof replay_frame.v{k}); "
                );
            } else if crosses {
                let _ = write!(saved, "replay_frame.v{k} = replay_a.a{k}[replay_t]; ");
            }
        }
        let _ = write!(
            self.out,
            "if (replay_block.is_in_order({warps})) {{ \
             replay_arrays_t& replay_a = *reinterpret_cast<replay_arrays_t*>(replay_block.scratch()); \
             replay_frame_t* const replay_frames = replay_block.frames(); \
             const unsigned replay_from = 0, replay_to = replay_block.count(); \
             const uint3 blockIdx = ::blockIdx; const dim3 blockDim = ::blockDim, gridDim = ::gridDim; \
             (void)blockIdx, (void)blockDim, (void)gridDim; \
             replay_a.replay_index.fill(replay_block.threads(), replay_to); \
             const auto replay_save = [](replay_frame_t* replay_frames, replay_arrays_t& replay_a, \
             unsigned replay_at, unsigned replay_from, unsigned replay_to) {{ \
             for (unsigned replay_t = replay_from; replay_t < replay_to; replay_t++) {{ \
             replay_frame_t& replay_frame = replay_frames[replay_t]; \
             if (replay_frame.replay_at == {ENDED}) continue; \
             replay_frame.replay_at = replay_at; {saved}}} (void)replay_a; }}; (void)replay_save; "
        );
        for (k, variable) in self.plan.variables.iter().enumerate() {
            if !variable.parameter {
                continue;
            }
            let name = &variable.name;
            let _ = write!(
                self.out,
                "for (unsigned replay_t = 0; replay_t < replay_to; replay_t++) \
                 __builtin_memcpy(&replay_a.a{k}[replay_t], &{name}, sizeof {name}); "
            );
        }
        let ends = self.nodes(&self.regions.nodes);
        if !ends {
            self.out += "replay_block.finish(); return; ";
        }
        self.out += "} replay_others:; ::replay_rt::block.running = nullptr; ";
    }

    /// Writes `nodes`; whether the other form runs what is behind them.
    fn nodes(&mut self, nodes: &[RegionNode]) -> bool {
        for node in nodes {
            match node {
                RegionNode::Leaf(piece) => self.leaf(piece),
                RegionNode::Barrier => {}
                RegionNode::Fold { tokens, distance, before } => {
                    self.fold(tokens, distance.as_ref(), *before);
                }
                RegionNode::Warps { nodes, before, after } => self.warps(nodes, *before, *after),
                RegionNode::Rest { before } => {
                    self.others(*before);
                    return true;
                }
                RegionNode::If { head, touches, before, branches } => {
                    self.conditional(head, *touches, *before, branches);
                }
                RegionNode::Loop(region) => self.region_loop(region),
            }
        }
        false
    }

    fn label(&mut self) -> usize {
        self.labels += 1;
        self.labels
    }

    /// All threads go on in the other form: those of the current node at place `number`.
    fn others(&mut self, number: usize) {
        let text = self.others_text(number);
        self.out += &text;
    }

    fn others_text(&self, number: usize) -> String {
        let mut text = String::from("{ ");
        for &(k, of_warp) in &self.uniform {
            if !self.plan.variables[k].crosses {
                continue;
            }
            let name = &self.plan.variables[k].name;
            let range = if of_warp {
                "replay_from; replay_t < replay_to"
            } else {
                "0; replay_t < replay_block.count()"
            };
            let _ = write!(
                text,
                "for (unsigned replay_t = {range}; replay_t++) replay_a.a{k}[replay_t] = {name}; "
            );
        }
        let save = |text: &mut String, at: String, from: &str, to: &str| {
            let _ = write!(text, "replay_save(replay_frames, replay_a, {at}, {from}, {to}); ");
        };
        if let Some(WarpPlaces { before, after, .. }) = self.warps {
            let after = after.map_or(ENDED.to_owned(), |number| number.to_string());
            save(&mut text, after, "0", "replay_from");
            save(&mut text, before.to_string(), "replay_to", "replay_block.count()");
        }
        save(&mut text, number.to_string(), "replay_from", "replay_to");
        text + "goto replay_others; } "
    }

    /// The variables with an element a thread that the tokens of `range` mention.
    fn mentioned(&self, range: &Range<usize>) -> Vec<usize> {
        let words: BTreeSet<&str> = range
            .clone()
            .filter(|&at| self.tokens[at].kind == TokenKind::Ident)
            .map(|at| self.tokens[at].text(self.source.text))
            .collect();
        let is_mentioned = |k: &usize| {
            let variable = &self.plan.variables[*k];
            variable.scope.start < range.end
                && range.start < variable.scope.end
                && words.contains(variable.name.as_str())
        };
        self.regions.shared.iter().copied().filter(is_mentioned).collect()
    }

    fn mentions(&self, range: &Range<usize>, word: &str) -> bool {
        range.clone().any(|at| self.tokens.is_spelled_at(self.source.text, at, word))
    }

    fn is_uniform(&self, k: usize) -> bool {
        self.uniform.iter().any(|&(variable, _)| variable == k)
    }

    /// A loop over the threads of the current node: `code`, in which the variables that `range` mentions have their names.
    fn for_threads(
        &mut self,
        ranges: &[Range<usize>],
        touches: bool,
        asks_index: bool,
        code: &str,
        behind: &str,
    ) {
        self.out += "for (unsigned replay_t = replay_from; replay_t < replay_to; replay_t++) { ";
        if touches {
            self.out += "::replay_rt::block.running = replay_block.threads() + replay_t; ";
        }
        if ranges.iter().any(|range| self.mentions(range, "threadIdx")) || asks_index {
            self.out +=
                "const uint3 threadIdx = replay_a.replay_index.at(replay_t); (void)threadIdx; ";
        }
        if asks_index {
            self.out += "::threadIdx = threadIdx; ";
        }
        let mentioned: BTreeSet<usize> =
            ranges.iter().flat_map(|range| self.mentioned(range)).collect();
        for k in mentioned {
            let Variable { name, home, scope, .. } = &self.plan.variables[k];
            let is_declared = ranges.iter().any(|range| range.contains(&scope.start));
            if is_declared || self.is_uniform(k) {
                continue;
            }
            let _ = match home {
                VariableHome::Frame if !self.is_copied(k) => {
                    write!(self.out, "replay_c{k}& {name} = replay_a.a{k}[replay_t]; ")
                }
                VariableHome::Constant => {
                    write!(self.out, "replay_c{k} {name} = replay_a.a{k}[replay_t]; ")
                }
                VariableHome::Frame | VariableHome::Local => {
                    write!(self.out, "replay_t{k} {name} = replay_a.a{k}[replay_t]; ")
                }
            };
        }
        self.out += "{ ";
        self.out += code;
        self.out += "} ";
        self.out += behind;
        self.out += "} ";
    }

    /// Whether the variable of a frame is a number: of a type that is a parameter of the kernel's template.
    fn is_copied(&self, k: usize) -> bool {
        let Variable { base, dimensions, .. } = &self.plan.variables[k];
        let mut words = base.clone().map(|at| self.tokens[at].text(self.source.text));
        dimensions.is_empty()
            && words.all(|word| word == "const" || self.plan.template_types.contains(word))
    }

    /// Gives the variables that `range` may change back to their elements.
    fn stores(&self, ranges: &[Range<usize>]) -> String {
        let mut text = String::new();
        let mentioned: BTreeSet<usize> =
            ranges.iter().flat_map(|range| self.mentioned(range)).collect();
        let end = ranges.last().map_or(0, |range| range.end);
        for k in mentioned {
            let Variable { name, home, scope, .. } = &self.plan.variables[k];
            let is_changed = ranges.iter().flat_map(Clone::clone).any(|at| {
                self.tokens.is_spelled_at(self.source.text, at, name)
                    && (at == scope.start
                        || classify_variable_use(self.source.text, self.tokens, self.facts, at)
                            != Use::Read)
            });
            let declared = ranges.iter().any(|range| range.contains(&scope.start));
            let by_reference = *home == VariableHome::Frame && !self.is_copied(k);
            if scope.end < end || self.is_uniform(k) || !declared && (!is_changed || by_reference) {
                continue;
            }
            let _ = match home {
                VariableHome::Frame if by_reference => write!(
                    text,
                    "__builtin_memcpy(&replay_a.a{k}[replay_t], &{name}, sizeof {name}); "
                ),
                _ => write!(text, "replay_a.a{k}[replay_t] = {name}; "),
            };
        }
        text
    }

    /// The tokens of `range` as one line, without what stands in front of the loop over threads; `left` in place of
    /// `return`.
    fn text(&self, range: &Range<usize>, left: &str) -> String {
        let mut text = String::new();
        let mut start = range.start;
        let mut at = range.start;
        let flush = |text: &mut String, from: usize, to: usize| {
            if from < to {
                *text += &normalise_spacing(self.source.text, &self.tokens[from..to]);
                text.push(' ');
            }
        };
        while at < range.end {
            let hoisted = self.plan.hoisted.iter().find(|hoisted| hoisted.start == at);
            let is_directive = self.tokens[at].kind == TokenKind::Directive;
            let returns = self.plan.returns.contains(&at);
            if hoisted.is_none() && !is_directive && !returns {
                at += 1;
                continue;
            }
            flush(&mut text, start, at);
            if returns {
                text += left;
            }
            at = hoisted.map_or(at + 1, |hoisted| hoisted.end);
            start = at;
        }
        flush(&mut text, start, range.end);
        text
    }

    fn leaf(&mut self, piece: &RegionPiece) {
        let ranges: Vec<Range<usize>> =
            piece.parts.iter().map(|[tokens, _]| tokens.clone()).collect();
        let returns = self.plan.returns.iter().any(|at| ranges.iter().any(|r| r.contains(at)));
        let label = self.label();
        let left = format!(
            "{{ replay_frames[replay_t].replay_at = {ENDED}; replay_gone++; goto replay_out_{label}; }}"
        );
        let mut code = String::new();
        let mut scopes: Vec<&Range<usize>> = Vec::new();
        for [tokens, scope] in &piece.parts {
            while scopes.last().is_some_and(|open| open.end < tokens.start) {
                scopes.pop();
                code += "} ";
            }
            if scopes.last() != Some(&scope) {
                scopes.push(scope);
                code += "{ ";
            }
            code += &self.text(tokens, &left);
        }
        code += &self.stores(&ranges);
        code += &"} ".repeat(scopes.len());
        if !returns {
            return self.for_threads(&ranges, piece.touches, piece.asks_index, &code, "");
        }
        self.out += "{ unsigned replay_gone = 0; ";
        let out = format!("replay_out_{label}:; ");
        self.for_threads(&ranges, piece.touches, piece.asks_index, &code, &out);
        if let Some(after) = piece.after {
            match self.warps {
                None => {
                    self.out += "if (replay_gone == replay_to) { replay_block.finish(); return; } ";
                }
                Some(WarpPlaces { label, .. }) => {
                    let _ = write!(
                        self.out,
                        "if (replay_gone == 32) {{ replay_ended += 32; goto replay_warp_{label}; }} "
                    );
                }
            }
            self.out += "if (replay_gone != 0) ";
            self.others(after);
        }
        self.out += "} ";
    }

    /// Names the variables of one value for all threads that `ranges` mention, for code of the block or the warp.
    fn name_constants(&mut self, ranges: &[&Range<usize>], except: Option<usize>) {
        let mentioned: BTreeSet<usize> =
            ranges.iter().flat_map(|range| self.mentioned(range)).collect();
        for k in mentioned {
            let Variable { name, home, .. } = &self.plan.variables[k];
            if *home == VariableHome::Constant && Some(k) != except && !self.is_uniform(k) {
                let _ = write!(
                    self.out,
                    "const replay_t{k} {name} = replay_a.a{k}[replay_from]; (void){name}; "
                );
            }
        }
    }

    fn fold(&mut self, tokens: &Range<usize>, distance: Option<&Range<usize>>, before: usize) {
        let folds = &self.plan.shuffles.folds;
        let Some(fold) = folds.iter().find(|fold| fold.tokens == *tokens) else { return };
        let name = fold.value(self.source.text, self.tokens);
        let mentioned = self.mentioned(tokens);
        let Some(k) = mentioned.into_iter().find(|&k| self.plan.variables[k].name == name) else {
            return;
        };
        let others = self.others_text(before);
        let values = format!("replay_a.a{k} + replay_from");
        self.out += "{ ";
        let lanes = fold.lanes();
        match distance {
            Some(_) => self.name_constants(&[&lanes[0], &lanes[1]], Some(k)),
            None => self.name_constants(&[tokens], Some(k)),
        }
        let type_name = format!("replay_t{k}");
        if let Some(distance) = distance {
            let code = format!(
                "replay_distances[replay_t - replay_from] = {}; ",
                self.text(distance, "").trim()
            );
            let before_loop = std::mem::take(&mut self.out);
            self.for_threads(slice::from_ref(distance), false, false, &code, "");
            let distances = std::mem::replace(&mut self.out, before_loop);
            let parts = [type_name.as_str(), &values, &others, &distances];
            self.out += &fold.for_lanes(self.source, self.tokens, parts);
            self.out += "} ";
            return;
        }
        self.out += &fold.for_warp(self.source, self.tokens, &type_name, &values, &others);
        self.out += "} ";
    }

    fn warps(&mut self, nodes: &[RegionNode], before: usize, after: Option<usize>) {
        let label = self.label();
        let _ = write!(
            self.out,
            "{{ unsigned replay_ended = 0; \
             for (unsigned replay_warp = 0; replay_warp < replay_block.count(); replay_warp += 32) {{ \
             {{ const unsigned replay_from = replay_warp, replay_to = replay_warp + 32; "
        );
        self.warps = Some(WarpPlaces { before, after, label });
        self.nodes(nodes);
        self.warps = None;
        let _ = write!(self.out, "}} replay_warp_{label}:; }} ");
        if let Some(after) = after {
            self.out += "if (replay_ended != 0) { if (replay_ended == replay_to) { replay_block.finish(); return; } ";
            self.others(after);
            self.out += "} ";
        }
        self.out += "(void)replay_ended; } ";
    }

    /// Sets `replay_taken` to the condition at `range`; threads that differ go on at `number`.
    fn condition(
        &mut self,
        range: &Range<usize>,
        step: Option<&Range<usize>>,
        touches: bool,
        number: usize,
    ) {
        self.out += "{ unsigned replay_true = 0; ";
        let step_text = step.map(|step| self.text(step, "") + "; ").unwrap_or_default();
        let code = format!("{step_text}replay_true += ({}) ? 1 : 0; ", self.text(range, "").trim());
        let mut both = vec![range.clone()];
        both.extend(step.cloned());
        self.for_threads(&both, touches, false, &code, "");
        self.out += "if (replay_true != 0 && replay_true != replay_to - replay_from) ";
        self.others(number);
        self.out += "replay_taken = replay_true != 0; } ";
    }

    fn conditional(
        &mut self,
        head: &Range<usize>,
        touches: bool,
        before: Option<usize>,
        branches: &[Vec<RegionNode>],
    ) {
        match before {
            None => {
                self.out += "{ bool replay_taken; { ";
                self.name_constants(&[head], None);
                let head = self.text(head, "");
                let _ = write!(self.out, "replay_taken = ({}); }} ", head.trim());
            }
            Some(before) => {
                self.out += "{ bool replay_taken; ";
                self.condition(head, None, touches, before);
            }
        }
        for (branch, word) in branches.iter().zip(["if (replay_taken) { ", "else { "]) {
            self.out += word;
            self.nodes(branch);
            self.out += "} ";
        }
        self.out += "} ";
    }

    fn region_loop(&mut self, region: &RegionLoop) {
        let RegionLoop { first, condition, step, variable, touches, before, at_end, body, .. } =
            region;
        if region.is_uniform {
            self.out += "{ ";
            self.name_constants(&[first, condition, step], None);
            let [first, condition, step] =
                [first, condition, step].map(|range| self.text(range, ""));
            let _ = write!(self.out, "for ({first}; {condition}; {step}) {{ ");
            if let Some(k) = *variable {
                self.uniform.push((k, self.warps.is_some()));
            }
            self.nodes(body);
            if variable.is_some() {
                self.uniform.pop();
            }
            self.out += "} } ";
            return;
        }
        if !first.is_empty() {
            let code = self.text(first, "") + "; " + &self.stores(slice::from_ref(first));
            self.for_threads(slice::from_ref(first), true, false, &code, "");
        }
        self.out += "{ bool replay_taken; ";
        self.condition(condition, None, *touches, *before);
        self.out += "while (replay_taken) { ";
        self.nodes(body);
        let has_step = !step.is_empty();
        self.condition(condition, has_step.then_some(step), *touches, *at_end);
        if has_step {
            let code = self.text(step, "") + "; " + &self.stores(slice::from_ref(step));
            self.for_threads(slice::from_ref(step), true, false, &code, "");
        }
        self.out += "} } ";
    }
}
