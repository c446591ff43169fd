//! One file as tokens, without the code certainly dropped by the preprocessor.

use std::ops::Range;

use super::SourceUnit;
use super::lexer::{Token, TokenKind, Tokens, lex_directive, lex_tokens};

/// A file and its tokens.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub path: &'a str,
    /// The text without a byte-order mark.
    pub text: &'a str,
    /// All tokens outside `#if 0` and the like.
    pub tokens: Vec<Token>,
    /// For each token: whether a condition on `__CUDA_ARCH__` decides about it.
    by_arch: Vec<bool>,
    /// For each token, its branch of conditionals with unequal brackets.
    branch: Vec<Branch>,
    lines: Vec<usize>,
    /// For each token: how many more brackets open than close before it.
    depths: Vec<isize>,
    /// The bytes of the program's own `main`, if its tokens are left out: nothing here runs it.
    pub main: Option<Range<usize>>,
}

/// Where a token lies when alternatives of a conditional open or close brackets differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Branch {
    Always,
    First,
    Later,
}

/// An open conditional group.
struct OpenConditional {
    decided: bool,
    dead: bool,
    parent_dead: bool,
    arch: bool,
    /// Index of the first kept token of each live branch.
    starts: Vec<usize>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(unit: &SourceUnit<'a>) -> Self {
        let text = unit.text.strip_prefix('\u{feff}').unwrap_or(unit.text);
        let lines = text.match_indices('\n').map(|(newline_offset, _)| newline_offset).collect();
        let mut source = Source {
            path: unit.path,
            text,
            tokens: Vec::new(),
            by_arch: Vec::new(),
            branch: Vec::new(),
            lines,
            depths: Vec::new(),
            main: None,
        };
        source.preprocess();
        source
    }

    /// The same without the program's own `main`.
    pub(crate) fn without_main(unit: &SourceUnit<'a>) -> Self {
        let mut source = Source::new(unit);
        source.leave_out_main();
        source
    }

    /// The 1-based line of byte `byte_offset`.
    pub(crate) fn line(&self, byte_offset: usize) -> usize {
        1 + self.lines.partition_point(|&newline| newline < byte_offset)
    }

    /// Whether a condition on `__CUDA_ARCH__` decides about the token at byte `byte_offset`.
    pub(crate) fn by_arch(&self, byte_offset: usize) -> bool {
        let index = self.tokens.partition_point(|token| token.start < byte_offset);
        self.by_arch.get(index).copied().unwrap_or(false)
    }

    /// The tokens with one branch chosen of every conditional whose branches differ in brackets.
    pub(crate) fn view(&self, first: bool) -> Tokens {
        let hidden = if first { Branch::Later } else { Branch::First };
        let visible_tokens =
            self.tokens.iter().zip(&self.branch).filter(|(_, branch)| **branch != hidden);
        Tokens::new(self.text, visible_tokens.map(|(token, _)| *token).collect())
    }

    /// Whether any conditional's branches differ in brackets.
    pub(crate) fn has_alternatives(&self) -> bool {
        self.branch.contains(&Branch::Later)
    }

    fn preprocess(&mut self) {
        let mut groups: Vec<OpenConditional> = Vec::new();
        for token in lex_tokens(self.text) {
            if token.kind == TokenKind::Directive {
                self.directive(token, &mut groups);
            }
            if !groups.last().is_some_and(|group| group.dead) {
                self.depths.push(self.depth());
                self.tokens.push(token);
                self.by_arch.push(groups.last().is_some_and(|group| group.arch));
                self.branch.push(Branch::Always);
            }
        }
    }

    fn directive(&mut self, token: Token, groups: &mut Vec<OpenConditional>) {
        let words = lex_directive(self.text, token);
        let Some((name, condition)) = words.split_first() else { return };
        let next = self.tokens.len();
        let mentions_arch =
            condition.iter().any(|word| word.text(self.text).starts_with("__CUDA_ARCH"));
        match name.text(self.text) {
            "if" | "ifdef" | "ifndef" => {
                let parent_dead = groups.last().is_some_and(|group| group.dead);
                let parent_arch = groups.last().is_some_and(|group| group.arch);
                let constant = self.constant(condition);
                let dead = parent_dead || constant == Some(false);
                groups.push(OpenConditional {
                    decided: constant == Some(true),
                    dead,
                    parent_dead,
                    arch: parent_arch || mentions_arch,
                    starts: if dead { vec![] } else { vec![next] },
                });
            }
            branch @ ("elif" | "elifdef" | "elifndef" | "else") => {
                let Some(group) = groups.last_mut() else { return };
                let constant = if branch == "else" { None } else { self.constant(condition) };
                group.dead = group.parent_dead || group.decided || constant == Some(false);
                group.decided |= constant == Some(true);
                group.arch |= mentions_arch;
                if !group.dead {
                    group.starts.push(next);
                }
            }
            "endif" => {
                let Some(group) = groups.pop() else { return };
                self.mark_alternatives(&group.starts);
            }
            _ => {}
        }
    }

    /// Takes the definition of `main` out of the tokens, where one reads it without doubt.
    fn leave_out_main(&mut self) {
        let Some(main_range) = self.main_definition() else { return };
        self.main = Some(self.tokens[main_range.start].start..self.tokens[main_range.end - 1].end);
        self.tokens.drain(main_range.clone());
        self.by_arch.drain(main_range.clone());
        self.branch.drain(main_range.clone());
        self.depths.drain(main_range);
    }

    fn is_spelled_at(&self, token_index: usize, word: &str) -> bool {
        self.tokens.get(token_index).is_some_and(|token| token.is_spelled(self.text, word))
    }

    /// The tokens of `int main(...) {...}` at namespace scope.
    fn main_definition(&self) -> Option<Range<usize>> {
        let start = (0..self.tokens.len()).find(|&token_index| {
            self.is_spelled_at(token_index, "int")
                && self.is_spelled_at(token_index + 1, "main")
                && self.is_spelled_at(token_index + 2, "(")
                && self.depths[token_index] == 0
        })?;
        let tokens = Tokens::new(self.text, self.tokens[start..].to_vec());
        let body =
            tokens.skip_group(2).filter(|&body| tokens.is_spelled_at(self.text, body, "{"))?;
        let range = start..start + tokens.skip_group(body)?;
        let is_plain = self.branch[range.clone()].iter().all(|branch| *branch == Branch::Always);
        (is_plain && !self.is_spelled_at(start.wrapping_sub(1), "extern")).then_some(range)
    }

    /// The value of a condition, if it is known without macros.
    fn constant(&self, condition: &[Token]) -> Option<bool> {
        let words: Vec<&str> = condition.iter().map(|word| word.text(self.text)).collect();
        match words.as_slice() {
            ["0" | "false"] => Some(false),
            ["0" | "false", "&", "&", other_words @ ..] if !other_words.contains(&"|") => {
                Some(false)
            }
            ["1" | "true"] => Some(true),
            _ => None,
        }
    }

    /// Marks the branches from `starts` if they open or close brackets.
    fn mark_alternatives(&mut self, starts: &[usize]) {
        let ends = starts.iter().skip(1).copied().chain([self.tokens.len()]);
        let ranges: Vec<_> = starts.iter().copied().zip(ends).collect();
        if ranges.len() < 2 || ranges.iter().all(|&(start, end)| self.depth_change(start, end) == 0)
        {
            return;
        }
        let last = ranges.len() - 1;
        for (index, (start, end)) in ranges.into_iter().enumerate() {
            let branch = if index == last { Branch::Later } else { Branch::First };
            let branch = if index > 0 && index < last { Branch::Later } else { branch };
            self.branch[start..end].fill(branch);
        }
    }

    fn depth_change(&self, start: usize, end: usize) -> isize {
        self.depth_before(end) - self.depth_before(start)
    }

    /// The depth in front of the token at `token_index`, or at the end of the file.
    fn depth_before(&self, token_index: usize) -> isize {
        self.depths.get(token_index).copied().unwrap_or_else(|| self.depth())
    }

    /// How many more brackets open than close up to here.
    fn depth(&self) -> isize {
        let (Some(last), Some(depth_before)) = (self.tokens.last(), self.depths.last()) else {
            return 0;
        };
        match last.text(self.text) {
            "(" | "[" | "{" if last.kind == TokenKind::Punct => depth_before + 1,
            ")" | "]" | "}" if last.kind == TokenKind::Punct => depth_before - 1,
            _ => *depth_before,
        }
    }
}
