//! Folds: chains of shuffles as one wait. In each step a lane combines its value with another lane's.
//!
//! `for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(mask, x, d);`, and statements of this form behind each
//! other. The engine can do all steps once the last lane has come. Until then the lanes wait by bookkeeping alone
//! (`replay/folds.h`). The original code stays beside it for unsuitable steps and types: only the compiler and the run
//! know them. Other code stays as it is, doubtful code too.

use std::collections::BTreeMap;
use std::ops::Range;

use super::facts::Facts;
use super::inlining::place_of_wait;
use super::line_of;
use super::reason::ShuffleReason;
use crate::syntax::edits::Edits;
use crate::syntax::escape_c_string;
use crate::syntax::lexer::{TokenKind, Tokens, normalise_spacing};
use crate::syntax::outline::Item;
use crate::syntax::source::Source;

/// The shuffles between lanes at a distance, and their names in the headers.
const SHUFFLES: [(&str, &str); 3] = [
    ("__shfl_xor_sync", "fold_xor"),
    ("__shfl_down_sync", "fold_down"),
    ("__shfl_up_sync", "fold_up"),
];
/// The shuffle from a lane of a number, as a wait of its own alone.
const INDEXED: (&str, &str) = ("__shfl_sync", "fold_indexed");
/// The functions to combine two values.
const FUNCTIONS: [&str; 8] =
    ["fmaxf", "fminf", "fmax", "fmin", "max", "min", "greater_replay", "less_replay"];
/// The operators to combine two values, and their names in the headers for `x OP= y` and `x = x OP y`.
const OPERATORS: [(&str, &str, Option<&str>); 5] = [
    ("+", "add_to", Some("add")),
    ("*", "multiply_to", Some("multiply")),
    ("&", "and_to", None),
    ("|", "or_to", None),
    ("^", "xor_to", None),
];
/// Words of an expression other than variables.
const PLAIN_WORDS: [&str; 9] =
    ["int", "unsigned", "long", "short", "signed", "uint32_t", "int32_t", "size_t", "warpSize"];

/// One statement: it combines a variable with another lane's.
#[derive(Debug)]
struct ShuffleStep {
    /// Its tokens, the semicolon included.
    tokens: Range<usize>,
    variable: usize,
    /// The name of the shuffle.
    shuffle: usize,
    /// The name of the combination in the headers.
    combine: String,
    mask: Range<usize>,
    distance: Range<usize>,
    width: Option<Range<usize>>,
}

/// A fold in the sources.
#[derive(Debug)]
pub(super) struct ShuffleReduction<'r> {
    pub tokens: Range<usize>,
    /// The code to collect its steps.
    steps: String,
    /// One of its steps; the others differ in their distances alone.
    step: ShuffleStep,
    /// The variables behind the steps: other threads must not change one.
    pub variables: Vec<&'r str>,
}

/// The shuffles in a function.
#[derive(Debug, Default)]
pub(super) struct Shuffles<'r> {
    /// The chains.
    pub folds: Vec<ShuffleReduction<'r>>,
    /// The tokens of those in no chain, and why they are in none.
    pub refused: BTreeMap<usize, ShuffleReason>,
}

impl<'r> Shuffles<'r> {
    /// The shuffles in the function `item`; with `singles`, one alone counts as a chain, and so does `x = shuffle(x)`.
    pub(super) fn find_shuffle_reductions(
        source: &'r Source<'r>,
        tokens: &'r Tokens,
        facts: &'r Facts,
        item: &'r Item,
        singles: bool,
    ) -> Shuffles<'r> {
        let variables = Vec::new();
        let mut reader = ShuffleReader { source, tokens, facts, item, singles, variables };
        let mut shuffles = Shuffles::default();
        let mut at = item.body.start + 1;
        while at + 1 < item.body.end {
            reader.variables.clear();
            at = match reader.fold(at) {
                Ok((tokens, steps, step)) => {
                    let end = tokens.end;
                    let variables = reader.variables.clone();
                    shuffles.folds.push(ShuffleReduction { tokens, steps, step, variables });
                    end
                }
                Err(NoFold::Refused { shuffle, why }) => {
                    shuffles.refused.entry(shuffle).or_insert(why);
                    at + 1
                }
                Err(NoFold::NoStep) => at + 1,
            };
        }
        shuffles.refuse_others(source.text, tokens, item, &ShuffleReason::NotCombined);
        shuffles
    }

    /// The shuffles of the function `item` in a file left alone: its directives may change it.
    pub(super) fn refuse_all(text: &str, tokens: &Tokens, item: &Item) -> Shuffles<'r> {
        let mut shuffles = Shuffles::default();
        shuffles.refuse_others(text, tokens, item, &ShuffleReason::Directive);
        shuffles
    }

    /// Refuses the shuffles outside of chains, unless they are refused already.
    fn refuse_others(&mut self, text: &str, tokens: &Tokens, item: &Item, why: &ShuffleReason) {
        for at in item.body.clone() {
            if !tokens[at].text(text).starts_with("__shfl") {
                continue;
            }
            let behind = self.folds.partition_point(|fold| fold.tokens.start <= at);
            if !self.folds[..behind].last().is_some_and(|fold| fold.tokens.contains(&at)) {
                self.refused.entry(at).or_insert_with(|| why.clone());
            }
        }
    }
}

/// Why no fold starts at a token.
enum NoFold {
    /// No statement there combines a variable with a shuffle.
    NoStep,
    /// One does, but is no chain.
    Refused {
        /// The token of its shuffle.
        shuffle: usize,
        why: ShuffleReason,
    },
}

impl NoFold {
    fn refused(shuffle: usize, why: ShuffleReason) -> NoFold {
        NoFold::Refused { shuffle, why }
    }
}

/// Whether `word` of an expression is no variable.
fn is_plain_word(word: &str) -> bool {
    let is_number = word.starts_with(|c: char| c.is_ascii_digit());
    let is_sign = word.len() == 1 && "()+-*/%~&|^<>".contains(word);
    is_number || is_sign || PLAIN_WORDS.contains(&word)
}

/// Has `folds` done as one wait, in a function whose threads have stacks of their own.
pub(super) fn rewrite_shuffle_reductions(
    source: &Source,
    tokens: &Tokens,
    folds: &[ShuffleReduction],
    edits: &mut Edits,
) {
    for fold in folds {
        let written_fold = fold.written(source, tokens);
        let line = fold.line(source, tokens);
        let ReductionText { value, collected, types, kind, combine, mask, width, shuffle } =
            written_fold;
        let code_before = format!(
            "{{ ::replay_rt::fold_steps replay_steps; {collected} \
             if (::replay_rt::by_value<{types}>::value && \
             replay_steps.suit<decltype({value}), decltype({shuffle}(0u, {value}, 0))>({width})) \
             {value} = ::replay_rt::fold<::replay_rt::{kind}, ::replay_rt::{combine}>\
             ({mask}, {value}, replay_steps, {width}, __builtin_FILE(), {line}); else {{ "
        );
        // A pragma stays the line before the loop.
        let pragmas = (0..fold.tokens.start).rev();
        let first = pragmas
            .take_while(|&token_index| tokens[token_index].kind == TokenKind::Directive)
            .last();
        let place = match first {
            Some(first) => tokens[first - 1].end,
            None => tokens[fold.tokens.start].start,
        };
        edits.insert(place, code_before);
        edits.insert(tokens[fold.tokens.end - 1].end, " } }");
    }
}

/// The parts of a fold as text.
struct ReductionText<'w> {
    value: &'w str,
    shuffle: &'w str,
    collected: &'w str,
    types: String,
    kind: &'static str,
    combine: &'w str,
    mask: String,
    width: String,
}

impl ShuffleReduction<'_> {
    /// The combined variable.
    pub(super) fn value<'t>(&self, text: &'t str, tokens: &Tokens) -> &'t str {
        tokens[self.step.variable].text(text)
    }

    /// The line of the first shuffle.
    pub(super) fn line(&self, source: &Source, tokens: &Tokens) -> usize {
        line_of(source, tokens, self.step.shuffle)
    }

    /// The fold as wait `number` of a kernel in thread-loop form. The code `out` puts the thread's variables into its
    /// frame; `back` takes them from there.
    pub(super) fn as_turn(
        &self,
        source: &Source,
        tokens: &Tokens,
        number: usize,
        out: &str,
        back: &str,
    ) -> String {
        let shuffle_start = tokens[self.step.shuffle].start;
        let line = self.line(source, tokens);
        let file = match place_of_wait(source.text, shuffle_start) {
            Some((path, _)) => format!("\"{}\"", escape_c_string(path)),
            None => "__builtin_FILE()".to_owned(),
        };
        let ReductionText { value, collected, types, kind, combine, mask, width, .. } =
            self.written(source, tokens);
        let [first, later] = ["0", "replay_frame->replay_fold.done"].map(|done_steps| {
            format!(
                "{{ ::replay_rt::fold_part<::replay_rt::by_value<{types}>::value ? REPLAY_FOLD_MOST : 1> \
                 replay_steps({done_steps}); {collected} if (!replay_steps.any()) break; {out}\
                 replay_block.template fold<::replay_rt::{kind}, ::replay_rt::{combine}>\
                 (*replay_frame, {number}, replay_steps, {mask}, {value}, {width}, {file}, {line}); \
                 goto replay_next; }}"
            )
        });
        // A loop, since a pragma for one may stand in front of it.
        format!(
            "do {{ replay_frame->replay_fold.done = 0; {first} replay_{number}:;{back} \
             if (!replay_block.template unfold<::replay_rt::{combine}>(*replay_frame, {value})) break; \
             {later} }} while (0);"
        )
    }

    /// Its mask and its width.
    pub(super) fn lanes(&self) -> [Range<usize>; 2] {
        let mask = self.step.mask.clone();
        [mask, self.step.width.clone().unwrap_or(0..0)]
    }

    /// The distance of its only shuffle; none for a chain.
    pub(super) fn only_distance(&self) -> Option<Range<usize>> {
        let is_single = self.steps.matches("replay_steps.add").count() == 1;
        (is_single && !self.steps.starts_with("for")).then(|| self.step.distance.clone())
    }

    /// The code for a whole warp where each lane has its own distance; `distances` fills an array of them.
    pub(super) fn for_lanes(
        &self,
        source: &Source,
        tokens: &Tokens,
        [type_name, values, others, distances]: [&str; 4],
    ) -> String {
        let ReductionText { kind, combine, mask, width, .. } = self.written(source, tokens);
        format!(
            "{{ const int replay_width = {width}; \
             if (!::replay_rt::is_whole_warp({mask}, replay_width)) {others} \
             unsigned replay_distances[32]; {distances} \
             ::replay_rt::warp_steps<::replay_rt::{kind}, ::replay_rt::{combine}, {type_name}>\
             ({values}, replay_width).take(replay_distances); }} "
        )
    }

    /// The fold for the lanes of one warp at once: their values are those of `type_name` at `values`. Where it is none for
    /// all of them, `others` runs.
    pub(super) fn for_warp(
        &self,
        source: &Source,
        tokens: &Tokens,
        type_name: &str,
        values: &str,
        others: &str,
    ) -> String {
        let ReductionText { collected, kind, combine, mask, width, .. } =
            self.written(source, tokens);
        // All steps are known to the compiler, if they are numbers.
        let unroll = if collected.starts_with("for") { "_Pragma(\"GCC unroll 8\") " } else { "" };
        format!(
            "{{ const int replay_width = {width}; \
             if (!::replay_rt::is_whole_warp({mask}, replay_width)) {others} \
             ::replay_rt::warp_steps<::replay_rt::{kind}, ::replay_rt::{combine}, {type_name}> \
             replay_steps({values}, replay_width); {unroll}{collected} }} "
        )
    }

    fn written<'w>(&'w self, source: &'w Source, tokens: &Tokens) -> ReductionText<'w> {
        let text = source.text;
        let shuffle = tokens[self.step.shuffle].text(text);
        let width = self.step.width.clone();
        let kinds = SHUFFLES.iter().chain([&INDEXED]);
        let kind = kinds.into_iter().find(|(name, _)| *name == shuffle);
        let kind = kind.map_or("", |(_, kind)| *kind);
        let types: Vec<String> =
            self.variables.iter().map(|name| format!("decltype({name})")).collect();
        ReductionText {
            value: tokens[self.step.variable].text(text),
            shuffle,
            collected: &self.steps,
            types: types.join(", "),
            kind,
            combine: &self.step.combine,
            mask: normalise_spacing(text, &tokens[self.step.mask.clone()]),
            width: width.map_or("32".to_owned(), |width| normalise_spacing(text, &tokens[width])),
        }
    }
}

struct ShuffleReader<'r> {
    source: &'r Source<'r>,
    tokens: &'r Tokens,
    facts: &'r Facts,
    item: &'r Item,
    /// Whether a shuffle alone counts as a chain.
    singles: bool,
    /// The variables behind the steps: other threads must not change one.
    variables: Vec<&'r str>,
}

impl<'r> ShuffleReader<'r> {
    fn is_spelled_at(&self, token_index: usize, spelling: &str) -> bool {
        self.tokens.is_spelled_at(self.source.text, token_index, spelling)
    }

    fn word(&self, token_index: usize) -> &'r str {
        self.tokens.get(token_index).map_or("", |token| token.text(self.source.text))
    }

    fn is_name(&self, token_index: usize) -> bool {
        self.tokens.get(token_index).is_some_and(|token| token.kind == TokenKind::Ident)
    }

    fn folded(&self, range: Range<usize>) -> String {
        normalise_spacing(self.source.text, &self.tokens[range])
    }

    /// The fold at `at`: its tokens, the code to collect its steps, and one of them.
    fn fold(&mut self, at: usize) -> Result<(Range<usize>, String, ShuffleStep), NoFold> {
        if self.is_spelled_at(at, "for") { self.loop_at(at) } else { self.sequence_at(at) }
    }

    /// `for (int d = A; B; C) STEP`, where each turn changes `d` alone.
    fn loop_at(&mut self, at: usize) -> Result<(Range<usize>, String, ShuffleStep), NoFold> {
        let after = self.tokens.skip_group(at + 1).filter(|_| self.is_spelled_at(at + 1, "("));
        let head = at + 2..after.ok_or(NoFold::NoStep)? - 1;
        let braced = self.is_spelled_at(head.end + 1, "{");
        let step = self.step(head.end + 1 + usize::from(braced))?;
        let shuffle = step.shuffle;
        let tokens_before = (0..at).rev().map(|token_index| self.tokens[token_index]);
        let mut lines = tokens_before.take_while(|token| token.kind == TokenKind::Directive);
        if lines.any(|line| !is_pragma(line.text(self.source.text))) {
            return Err(NoFold::refused(shuffle, ShuffleReason::Directive));
        }
        let end = step.tokens.end + usize::from(braced);
        if braced && !self.is_spelled_at(end - 1, "}") {
            return Err(NoFold::refused(shuffle, ShuffleReason::LongLoop));
        }
        if step.distance.len() != 1 {
            return Err(NoFold::refused(
                shuffle,
                ShuffleReason::Distance(self.folded(step.distance.clone())),
            ));
        }
        let distance = self.word(step.distance.start);
        if self.head(head.clone(), distance).is_none() {
            return Err(NoFold::refused(shuffle, ShuffleReason::LoopHead(self.folded(head))));
        }
        let variable = self.word(step.variable);
        if self.variables.contains(&distance) {
            return Err(NoFold::refused(shuffle, ShuffleReason::LoopVariable(distance.to_owned())));
        }
        if variable == distance || self.variables.contains(&variable) {
            return Err(NoFold::refused(shuffle, ShuffleReason::LoopVariable(variable.to_owned())));
        }
        let head = self.folded(head);
        if self.word(shuffle) == INDEXED.0 {
            return Err(NoFold::refused(shuffle, ShuffleReason::NotCombined));
        }
        let steps = format!("for ({head}) replay_steps.add({distance});");
        Ok((at..end, steps, step))
    }

    /// Whether `head` declares `counter` and does nothing but change it.
    fn head(&mut self, head: Range<usize>, counter: &str) -> Option<()> {
        let mut ends = head.clone().filter(|&token_index| self.is_spelled_at(token_index, ";"));
        let first = ends.next()?;
        let second = ends.next()?;
        let declared_index =
            head.clone().take_while(|&token_index| self.is_name(token_index)).last()?;
        let declares = declared_index > head.start && self.word(declared_index) == counter;
        if ends.next().is_some() || !declares || !self.is_spelled_at(declared_index + 1, "=") {
            return None;
        }
        self.constant(declared_index + 2..first, counter)?;
        let compared = self.without_comparisons(first + 1..second);
        self.constant(compared.0, counter)?;
        self.constant(compared.1, counter)?;
        // `d /= 2`, `d >>= 1`, `d = d / 2`.
        let set =
            (second + 2..head.end).find(|&token_index| self.is_spelled_at(token_index, "="))?;
        let operator =
            (second + 2..set).map(|token_index| self.word(token_index)).collect::<String>();
        if self.word(second + 1) != counter || !matches!(&*operator, "" | "/" | "*" | ">>" | "<<") {
            return None;
        }
        self.constant(set + 1..head.end, counter)
    }

    /// The two sides of a comparison; all of it and nothing if it is none.
    fn without_comparisons(&self, range: Range<usize>) -> (Range<usize>, Range<usize>) {
        let sign_index =
            range.clone().find(|&token_index| matches!(self.word(token_index), "<" | ">" | "!"));
        let Some(token_index) = sign_index else {
            return (range.clone(), range.end..range.end);
        };
        let bound_start = token_index + 1 + usize::from(self.is_spelled_at(token_index + 1, "="));
        (range.start..token_index, bound_start..range.end)
    }

    /// Two or more steps behind each other with different distances and the same of all else.
    fn sequence_at(&mut self, at: usize) -> Result<(Range<usize>, String, ShuffleStep), NoFold> {
        let begins_statement = ["{", "}", ";"].iter().any(|sign| self.is_spelled_at(at - 1, sign));
        if !begins_statement {
            return Err(NoFold::NoStep);
        }
        let first = self.step(at)?;
        let mut steps = String::new();
        let mut end = at;
        let mut count = 0;
        while let Ok(next) = self.step(end) {
            let distance = next.distance.clone();
            if !self.same(&first, &next) || self.constant(distance.clone(), "").is_none() {
                break;
            }
            let distance = self.folded(distance);
            steps += &if self.word(first.shuffle) == INDEXED.0 {
                format!("replay_steps.add(({distance}) & 31); ")
            } else {
                format!("replay_steps.add({distance}); ")
            };
            (end, count) = (next.tokens.end, count + 1);
        }
        let variable = self.word(first.variable);
        let why = match count {
            0 => ShuffleReason::Distance(self.folded(first.distance.clone())),
            1 if !self.singles => ShuffleReason::Single,
            _ if self.variables.contains(&variable) => {
                ShuffleReason::LoopVariable(variable.to_owned())
            }
            _ => return Ok((at..end, steps, first)),
        };
        Err(NoFold::Refused { shuffle: first.shuffle, why })
    }

    fn same(&self, left_step: &ShuffleStep, right_step: &ShuffleStep) -> bool {
        let [left_width, right_width] =
            [left_step, right_step].map(|step| step.width.clone().map(|width| self.folded(width)));
        self.word(left_step.variable) == self.word(right_step.variable)
            && self.word(left_step.shuffle) == self.word(right_step.shuffle)
            && left_step.combine == right_step.combine
            && self.folded(left_step.mask.clone()) == self.folded(right_step.mask.clone())
            && left_width == right_width
    }

    /// The step whose statement starts at `at`.
    fn step(&mut self, at: usize) -> Result<ShuffleStep, NoFold> {
        if !self.is_name(at) {
            return Err(NoFold::NoStep);
        }
        let name = self.word(at);
        let (shuffle, combine, after) = self.combination(at, name).ok_or(NoFold::NoStep)?;
        // A member may lie in shared memory.
        let parameter =
            (self.item.tokens.start..self.item.body.start).any(|p| self.word(p) == name);
        let member = self.item.member && !parameter;
        if member || self.facts.is_macro(name) || self.facts.is_device_variable(name) {
            return Err(NoFold::refused(shuffle, ShuffleReason::SharedVariable(name.to_owned())));
        }
        let arguments = self.arguments(shuffle).unwrap_or_default();
        let (mask, value, distance, width) = match &arguments[..] {
            [mask, value, distance] => (mask, value, distance, None),
            [mask, value, distance, width] => (mask, value, distance, Some(width.clone())),
            _ => return Err(NoFold::refused(shuffle, ShuffleReason::NotCombined)),
        };
        if !self.is_spelled_at(after, ";") || value.len() != 1 || self.word(value.start) != name {
            return Err(NoFold::refused(shuffle, ShuffleReason::NotCombined));
        }
        if self.constant(mask.clone(), "").is_none() {
            return Err(NoFold::refused(shuffle, ShuffleReason::Mask(self.folded(mask.clone()))));
        }
        if let Some(width) = width.clone()
            && self.constant(width.clone(), "").is_none()
        {
            return Err(NoFold::refused(shuffle, ShuffleReason::Width(self.folded(width))));
        }
        let mask = mask.clone();
        let distance = distance.clone();
        Ok(ShuffleStep {
            tokens: at..after + 1,
            variable: at,
            shuffle,
            combine,
            mask,
            distance,
            width,
        })
    }

    /// The combination of `name`, at `at`, with a shuffle: the shuffle, the combination's name in the headers, and the
    /// index after it.
    fn combination(&self, at: usize, name: &str) -> Option<(usize, String, usize)> {
        let operator = OPERATORS.iter().find(|(sign, ..)| self.is_spelled_at(at + 1, sign));
        match operator {
            Some((_, assigns, _)) if self.is_spelled_at(at + 2, "=") => {
                Some((at + 3, format!("by_{assigns}"), self.call(at + 3)?))
            }
            None if self.is_spelled_at(at + 1, "=") => self.combined(at + 2, name),
            _ => None,
        }
    }

    /// The headers' name of the combination by the operator at `operator_index`.
    fn combining_operator(&self, operator_index: usize) -> Option<&'static str> {
        let (_, _, combines) =
            OPERATORS.iter().find(|(sign, ..)| self.is_spelled_at(operator_index, sign))?;
        *combines
    }

    /// `x OP shuffle`, `shuffle OP x`, `f(x, shuffle)` or `f(shuffle, x)` at `token_index`: the shuffle, the combination's
    /// name in the headers, and the index after it.
    fn combined(&self, token_index: usize, name: &str) -> Option<(usize, String, usize)> {
        if self.is_spelled_at(token_index, name) {
            let combine = self.combining_operator(token_index + 1)?;
            return Some((token_index + 2, format!("by_{combine}"), self.call(token_index + 2)?));
        }
        if let Some(call_end) = self.call(token_index) {
            if self.singles && self.is_spelled_at(call_end, ";") {
                return Some((token_index, "by_take".to_owned(), call_end));
            }
            let combine = self.combining_operator(call_end)?;
            let swapped = format!("swapped<::replay_rt::by_{combine}>");
            return self.is_spelled_at(call_end + 1, name).then_some((
                token_index,
                swapped,
                call_end + 2,
            ));
        }
        let function = self.word(token_index);
        let is_combining = FUNCTIONS.contains(&function) && self.is_builtin(function);
        let group_end = self
            .tokens
            .skip_group(token_index + 1)
            .filter(|_| is_combining && self.is_spelled_at(token_index + 1, "("))?;
        if self.is_spelled_at(token_index + 2, name)
            && self.is_spelled_at(token_index + 3, ",")
            && self.call(token_index + 4)? + 1 == group_end
        {
            return Some((token_index + 4, format!("by_{function}"), group_end));
        }
        let argument_end = self.call(token_index + 2)?;
        let is_swapped = self.is_spelled_at(argument_end, ",")
            && self.is_spelled_at(argument_end + 1, name)
            && argument_end + 3 == group_end;
        is_swapped
            .then(|| (token_index + 2, format!("swapped<::replay_rt::by_{function}>"), group_end))
    }

    fn is_builtin(&self, name: &str) -> bool {
        !self.facts.is_macro(name) && !self.facts.is_defined(name)
    }

    /// The index after the call of a shuffle at `token_index`.
    fn call(&self, token_index: usize) -> Option<usize> {
        let name = self.word(token_index);
        let is_known = SHUFFLES.iter().any(|(shuffle, _)| *shuffle == name)
            || self.singles && name == INDEXED.0;
        let is_shuffle = is_known && self.is_builtin(name);
        self.tokens
            .skip_group(token_index + 1)
            .filter(|_| is_shuffle && self.is_spelled_at(token_index + 1, "("))
    }

    /// The arguments of the call at `token_index`.
    fn arguments(&self, token_index: usize) -> Option<Vec<Range<usize>>> {
        let close_parenthesis = self.tokens.skip_group(token_index + 1)? - 1;
        Some(self.tokens.split_arguments(self.source.text, token_index + 2..close_parenthesis))
    }

    /// Whether `range` has the same value each time, unless `counter` or one of `variables` is changed. Adds its variables
    /// to `variables`.
    fn constant(&mut self, range: Range<usize>, counter: &str) -> Option<()> {
        for token_index in range.clone() {
            let word = self.word(token_index);
            let kind = self.tokens[token_index].kind;
            let next = if token_index + 1 < range.end { self.word(token_index + 1) } else { "" };
            match kind {
                TokenKind::Number => {}
                TokenKind::Punct => {
                    let twice = matches!(word, "+" | "-" | "&") && next == word;
                    let is_arithmetic = "()+-*/%~&|^<>".contains(word) && word != "<<<";
                    let pointer =
                        matches!(word, "*" | "&") && !self.ends_operand(token_index, &range);
                    if twice || !is_arithmetic || pointer {
                        return None;
                    }
                }
                TokenKind::Ident => self.name(word, next, token_index, &range, counter)?,
                TokenKind::Text | TokenKind::Directive => return None,
            }
        }
        Some(())
    }

    /// Whether an operand ends in front of `token_index`.
    fn ends_operand(&self, token_index: usize, range: &Range<usize>) -> bool {
        let Some(index_before) =
            token_index.checked_sub(1).filter(|index_before| range.contains(index_before))
        else {
            return false;
        };
        matches!(self.tokens[index_before].kind, TokenKind::Ident | TokenKind::Number)
            || self.is_spelled_at(index_before, ")")
    }

    /// The same as [`ShuffleReader::constant`] for a name in front of `next`.
    fn name(
        &mut self,
        word: &'r str,
        next: &str,
        token_index: usize,
        range: &Range<usize>,
        counter: &str,
    ) -> Option<()> {
        let is_called = next == "(" && !is_plain_word(word);
        if is_called
            || matches!(next, "[" | "." | "->" | "::")
            || self.facts.is_device_variable(word)
        {
            return None;
        }
        if self.facts.is_macro(word) {
            let expansion = self.facts.expansion(word);
            let all_plain =
                expansion.iter().all(|word| is_plain_word(word) || self.facts.is_macro(word));
            return all_plain.then_some(());
        }
        if word == counter || is_plain_word(word) {
            return Some(());
        }
        // A name alone in parentheses may be a type; so may one in front of another name.
        let alone = range.contains(&(token_index.wrapping_sub(1)))
            && self.is_spelled_at(token_index - 1, "(")
            && next == ")";
        if alone || self.is_name(token_index + 1) || next == "<" {
            return None;
        }
        self.variables.push(word);
        Some(())
    }
}

fn is_pragma(line: &str) -> bool {
    line.trim_start_matches('#').trim_start().starts_with("pragma")
}
