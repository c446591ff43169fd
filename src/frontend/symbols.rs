//! The names of kernels over a whole source set.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::bounds::{self, Bounds};
use super::instances;
use super::lexer::{Kind, Tokens};
use super::macros;
use super::outline::{ItemKind, is_attribute, outline};
use super::packs;
use super::reach::Reach;
use super::source::Source;
use super::{Kernel, Unit};
use crate::block_form::Facts;

/// The declarations of all files of a source set on which the translation of one file depends.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    kernels: BTreeMap<String, Known>,
    device_macros: BTreeSet<String>,
    block_facts: Facts,
    /// The names of functions and types that are no kernels.
    other_names: BTreeSet<String>,
    /// The macros that stand for launch bounds.
    bounds: BTreeMap<String, Bounds>,
    reach: Reach,
    /// Whether numbers are moved as integers of 16 bytes anywhere.
    packs: bool,
}

/// The facts about all kernels with one name.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Whether it is a template.
    template: bool,
    /// How many template arguments a launch must give if it is to leave none without a default to be
    /// deduced.
    required: usize,
    /// How many functions of this name are kernels and no templates.
    plain: usize,
    /// Declarations that have no companion, less those that have one.
    bare: isize,
    /// How many arguments a launch may leave out, and how many parameters there are in all.
    defaults: usize,
    parameters: usize,
}

impl Symbols {
    /// Whether `name`, without namespaces, is a `__global__` function.
    pub fn is_kernel(&self, name: &str) -> bool {
        self.kernels.contains_key(name)
    }

    /// Whether the kernel `name` with `given` template arguments leaves some to be deduced, or a
    /// function to be chosen among those of one name.
    pub(super) fn deduces(&self, name: &str, given: usize) -> bool {
        self.kernels.get(name).is_some_and(|known| {
            let is_left_open = given < known.required || (known.template && given == 0);
            is_left_open || (given == 0 && self.is_overloaded(name, known))
        })
    }

    /// Whether a launch of `name` can leave it open which function is meant, and each of its
    /// declarations can have a companion that tells it.
    pub(super) fn has_companions(&self, name: &str) -> bool {
        self.kernels.get(name).is_some_and(|known| {
            known.bare == 0 && (known.template || self.is_overloaded(name, known))
        })
    }

    /// Whether `name` alone does not identify a kernel: there are several, or other functions too.
    fn is_overloaded(&self, name: &str, known: &Known) -> bool {
        known.plain > 1 || self.other_names.contains(name)
    }

    /// Whether a launch of the kernel `name` leaves some of its arguments to their defaults; `given`
    /// counts those of the launch.
    pub(super) fn leaves_out(&self, name: &str, given: impl Fn() -> usize) -> bool {
        let known = self.kernels.get(name).filter(|known| known.defaults > 0);
        known.is_some_and(|known| {
            (known.parameters - known.defaults..known.parameters).contains(&given())
        })
    }

    /// The names of the sources that can be reached from `code`, its own included.
    pub fn reached(&self, code: &str) -> BTreeSet<String> {
        self.reach.from(code)
    }

    /// Whether numbers are moved as integers of 16 bytes anywhere.
    pub(super) fn packs(&self) -> bool {
        self.packs
    }

    fn add(&mut self, kernel: Declared) {
        let known = self.kernels.entry(kernel.name).or_default();
        known.required = kernel.required.max(known.required);
        known.template |= kernel.template;
        known.plain += usize::from(kernel.defined && !kernel.template);
        if (1..=kernel.parameters).contains(&kernel.defaults) {
            (known.defaults, known.parameters) = (kernel.defaults, kernel.parameters);
        }
        // Specialisations need none: the primary template is what deduction finds.
        known.bare += isize::from(!kernel.specialises);
    }

    /// Notes the functions and types of `source` that are no kernels.
    fn add_other_names(&mut self, source: &Source) {
        let text = source.text;
        for first in [true, false] {
            if !first && !source.has_alternatives() {
                continue;
            }
            let tokens = source.view(first);
            for item in outline(text, &tokens) {
                match item.kind {
                    ItemKind::Function | ItemKind::Prototype => {
                        if !item.has(text, &tokens, "__global__") {
                            self.other_names.insert(item.name);
                        }
                    }
                    ItemKind::Type => {
                        let head = tokens[item.tokens].iter().take_while(|it| !it.is(text, "{"));
                        let idents = head.filter(|token| token.kind == Kind::Ident);
                        self.other_names.extend(idents.map(|it| it.text(text).to_owned()));
                    }
                    ItemKind::Other => {}
                }
            }
        }
    }

    /// The facts that decide which kernels can be put into block form.
    pub(super) fn block_facts(&self) -> &Facts {
        &self.block_facts
    }

    /// The launch bounds that the macro `name` stands for, if it does.
    pub(super) fn bounds(&self, name: &str) -> Option<&Bounds> {
        self.bounds.get(name)
    }

    /// Whether `name` is a macro whose body declares something for the device.
    pub(super) fn is_device_macro(&self, name: &str) -> bool {
        self.device_macros.contains(name)
    }
}

/// Collects the names of the `__global__` functions that `units` declare or define.
pub fn scan(units: &[Unit]) -> Symbols {
    let sources: Vec<Source> = units.iter().map(Source::without_main).collect();
    let mut symbols = Symbols::default();
    for source in &sources {
        symbols.block_facts.add(source);
        symbols.reach.add(source);
        symbols.packs |= packs::any(source);
        symbols.add_other_names(source);
        symbols.bounds.extend(bounds::macros(source));
        let tokens = Tokens::new(source.text, source.tokens.clone());
        kernels(source.text, &tokens).into_iter().for_each(|kernel| symbols.add(kernel));
        for declaration in instances::declarations(source.text, &source.view(true)) {
            if let Some(known) = symbols.kernels.get_mut(&declaration.name) {
                known.bare -= 1;
            }
        }
        for &directive in source.tokens.iter().filter(|token| token.kind == Kind::Directive) {
            let Some(defined) = macros::definition(source.text, directive) else { continue };
            let marks = ["__global__", "__device__", "__constant__"];
            let mut words = defined.body.iter().map(|token| token.text(source.text));
            if words.any(|word| marks.contains(&word) || symbols.device_macros.contains(word)) {
                symbols.device_macros.insert(defined.name.to_owned());
            }
            let found = kernels(source.text, &defined.body).into_iter();
            let plain = found.filter(|kernel| !defined.is_parameter(&kernel.name));
            plain.for_each(|kernel| symbols.add(kernel));
        }
    }
    symbols.block_facts.finish();
    symbols
}

/// A kernel's declaration.
struct Declared {
    name: String,
    at: usize,
    template: bool,
    /// As of [`Known`].
    required: usize,
    defined: bool,
    /// Its parameters, and how many of them have a default.
    parameters: usize,
    defaults: usize,
    /// Whether it gives template arguments of its own: a specialisation or an instantiation.
    specialises: bool,
}

/// The kernels that `source` defines, in order.
pub(super) fn defined(source: &Source) -> Vec<Kernel> {
    let tokens = Tokens::new(source.text, source.tokens.clone());
    let found = kernels(source.text, &tokens).into_iter().filter(|kernel| kernel.defined);
    let line = |at| source.line(at);
    found
        .map(|kernel| Kernel {
            name: kernel.name,
            line: line(kernel.at),
            template: kernel.template,
        })
        .collect()
}

fn kernels(text: &str, tokens: &Tokens) -> Vec<Declared> {
    let globals = (0..tokens.len()).filter(|&index| tokens.is(text, index, "__global__"));
    globals.filter_map(|index| kernel(text, tokens, index)).collect()
}

/// The kernel whose declaration holds `__global__` at `global`.
fn kernel(text: &str, tokens: &Tokens, global: usize) -> Option<Declared> {
    let mut at = global + 1;
    loop {
        let token = tokens.get(at)?;
        let word = token.text(text);
        if token.kind != Kind::Ident || word == "__global__" {
            if matches!(word, ";" | "{" | "}" | "(" | "__global__") {
                return None;
            }
            at += 1;
            continue;
        }
        let arguments = tokens.skip_angles(text, at + 1).filter(|_| tokens.is(text, at + 1, "<"));
        let open = arguments.unwrap_or(at + 1);
        if !tokens.is(text, open, "(") {
            at = open;
            continue;
        }
        let after = tokens.skip_group(open)?;
        if is_attribute(word) {
            at = after;
            continue;
        }
        let head = template_head(text, tokens, global);
        let empty = head.is_some_and(|head| self::arguments(text, tokens, head + 1).is_empty());
        return Some(Declared {
            name: word.to_owned(),
            at: token.start,
            template: head.is_some(),
            required: head.map_or(0, |head| required(text, tokens, head)),
            defined: tokens.is(text, after, "{"),
            parameters: count(text, tokens, open, ","),
            defaults: count(text, tokens, open, "=").saturating_sub(1),
            specialises: arguments.is_some() || empty,
        });
    }
}

/// How many parts the tokens in the parentheses that open at `open` have, if each `separator` there
/// begins one; 0 if there are none.
pub(super) fn count(text: &str, tokens: &Tokens, open: usize, separator: &str) -> usize {
    let Some(close) = tokens.skip_group(open).map(|after| after - 1) else { return 0 };
    let (mut at, mut parts) = (open + 1, usize::from(open + 1 < close));
    while at < close {
        parts += usize::from(tokens.is(text, at, separator));
        let inner = match tokens.is(text, at, "<") {
            true => tokens.skip_angles(text, at),
            false => tokens.skip_group(at),
        };
        at = inner.unwrap_or(at + 1);
    }
    parts
}

/// The `template` of the declaration around `at`, the one next to it if there are several.
pub(super) fn template_head(text: &str, tokens: &Tokens, at: usize) -> Option<usize> {
    for (index, token) in tokens[..at].iter().enumerate().rev() {
        let ends = token.kind == Kind::Directive
            || matches!(token.text(text), ";" | "{" | "}" | "__global__");
        if ends {
            return None;
        }
        if token.is(text, "template") {
            return Some(index);
        }
    }
    None
}

/// The number of the last parameter without a default of the template head at `head`, from 1.
fn required(text: &str, tokens: &Tokens, head: usize) -> usize {
    let parameters = arguments(text, tokens, head + 1);
    let is_plain =
        |range: &Range<usize>| !tokens[range.clone()].iter().any(|token| token.is(text, "="));
    parameters.iter().rposition(is_plain).map_or(0, |last| last + 1)
}

/// The arguments of the template list that opens at `open`, as ranges of tokens.
pub(super) fn arguments(text: &str, tokens: &Tokens, open: usize) -> Vec<Range<usize>> {
    let Some(after) = tokens.skip_angles(text, open).filter(|after| *after > open + 2) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let (mut index, mut start) = (open + 1, open + 1);
    while index < after - 1 {
        if tokens.is(text, index, ",") {
            found.push(start..index);
            start = index + 1;
        }
        let inner = match tokens.is(text, index, "<") {
            true => tokens.skip_angles(text, index),
            false => tokens.skip_group(index),
        };
        index = inner.unwrap_or(index + 1);
    }
    found.push(start..after - 1);
    found
}
