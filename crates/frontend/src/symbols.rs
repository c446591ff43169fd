//! The names of kernels over a whole source set.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::bounds::{self, DeclaredBounds};
use super::instances;
use super::launch_macros;
use super::lexer::{TokenKind, Tokens};
use super::macros;
use super::outline::{ItemKind, is_attribute, outline_items};
use super::packed_casts;
use super::reachability::MentionGraph;
use super::shadow::MATH;
use super::source::Source;
use super::{Kernel, SourceUnit};
use crate::thread_loop::Facts;

/// The declarations of all files of a source set, as far as the translation of one file depends on them.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    kernels: BTreeMap<String, KernelFacts>,
    device_macros: BTreeSet<String>,
    /// The macros that launch a kernel given to them, which may be a template with arguments left to deduce.
    deducing_macros: BTreeSet<String>,
    block_facts: Facts,
    /// The names of functions and types, kernels left out.
    other_names: BTreeSet<String>,
    /// The macros for launch bounds.
    bounds: BTreeMap<String, DeclaredBounds>,
    reach: MentionGraph,
    /// Whether numbers are moved as integers of 16 bytes anywhere.
    packs: bool,
    /// The dynamic shared arrays at namespace scope.
    global_shared_arrays: BTreeSet<String>,
}

/// The facts about all kernels with one name.
#[derive(Clone, Debug, Default)]
struct KernelFacts {
    /// Whether it is a template.
    template: bool,
    /// How many template arguments a launch must give if it is to leave none without a default to be
    /// deduced.
    required: usize,
    /// How many functions of this name are kernels and no templates.
    plain: usize,
    /// The number of declarations without a companion.
    bare: isize,
    /// How many arguments a launch may leave out, and how many parameters there are in all.
    defaults: usize,
    parameters: usize,
}

impl Symbols {
    /// Whether a kernel is a template.
    pub fn has_kernel_templates(&self) -> bool {
        self.kernels.values().any(|kernel| kernel.template)
    }

    /// Whether `name`, without namespaces, is a `__global__` function.
    pub fn is_kernel(&self, name: &str) -> bool {
        self.kernels.contains_key(name)
    }

    /// Whether the kernel `name` with `argument_count` template arguments leaves some to be deduced, or a
    /// function to be chosen among those of one name.
    pub(super) fn deduces(&self, name: &str, argument_count: usize) -> bool {
        self.leaves_template_open(name, argument_count)
            || self.kernels.get(name).is_some_and(|known_kernel| {
                argument_count == 0 && self.is_overloaded(name, known_kernel)
            })
    }

    /// Whether the kernel `name` with `argument_count` template arguments leaves some to be deduced.
    fn leaves_template_open(&self, name: &str, argument_count: usize) -> bool {
        self.kernels.get(name).is_some_and(|known_kernel| {
            argument_count < known_kernel.required || (known_kernel.template && argument_count == 0)
        })
    }

    /// Whether a launch of `name` can leave the function open, and each of its declarations can have a companion to
    /// tell it.
    pub(super) fn has_companions(&self, name: &str) -> bool {
        self.kernels.get(name).is_some_and(|known_kernel| {
            known_kernel.bare == 0
                && (known_kernel.template || self.is_overloaded(name, known_kernel))
        })
    }

    /// Whether `name` alone does not identify a kernel: there are several, or other functions too.
    fn is_overloaded(&self, name: &str, known_kernel: &KernelFacts) -> bool {
        known_kernel.plain > 1 || self.other_names.contains(name) || is_math_function(name)
    }

    /// Whether a launch of the kernel `name` leaves some of its arguments to their defaults; `count_arguments`
    /// counts those of the launch.
    pub(super) fn leaves_out(&self, name: &str, count_arguments: impl Fn() -> usize) -> bool {
        let known_kernel = self.kernels.get(name).filter(|known_kernel| known_kernel.defaults > 0);
        known_kernel.is_some_and(|known_kernel| {
            (known_kernel.parameters - known_kernel.defaults..known_kernel.parameters)
                .contains(&count_arguments())
        })
    }

    /// The names of the sources within reach of `code`, its own included.
    pub fn reached(&self, code: &str) -> BTreeSet<String> {
        self.reach.from(code)
    }

    /// Whether numbers are moved as integers of 16 bytes anywhere.
    pub(super) fn packs(&self) -> bool {
        self.packs
    }

    /// Whether a dynamic shared array `name` is declared at namespace scope.
    pub(super) fn is_global_shared_array(&self, name: &str) -> bool {
        self.global_shared_arrays.contains(name)
    }

    fn add(&mut self, kernel: DeclaredKernel) {
        let known_kernel = self.kernels.entry(kernel.name).or_default();
        known_kernel.required = kernel.required.max(known_kernel.required);
        known_kernel.template |= kernel.template;
        known_kernel.plain += usize::from(kernel.defined && !kernel.template);
        if (1..=kernel.parameters).contains(&kernel.defaults) {
            (known_kernel.defaults, known_kernel.parameters) = (kernel.defaults, kernel.parameters);
        }
        // Specialisations need none: deduction finds the primary template.
        known_kernel.bare += isize::from(!kernel.specialises);
    }

    /// Notes the functions, types and dynamic shared arrays of `source`.
    fn add_declared_names(&mut self, source: &Source) {
        let text = source.text;
        for first in [true, false] {
            if !first && !source.has_alternatives() {
                continue;
            }
            let tokens = source.view(first);
            for item in outline_items(text, &tokens) {
                match item.kind {
                    ItemKind::Function | ItemKind::Prototype => {
                        if !item.has_specifier(text, &tokens, "__global__") {
                            self.other_names.insert(item.name);
                        }
                    }
                    ItemKind::Type => {
                        let head = tokens[item.tokens]
                            .iter()
                            .take_while(|token| !token.is_spelled(text, "{"));
                        let idents = head.filter(|token| token.kind == TokenKind::Ident);
                        self.other_names.extend(idents.map(|token| token.text(text).to_owned()));
                    }
                    ItemKind::Other => {
                        let name = global_shared_array(text, &tokens, item.tokens);
                        self.global_shared_arrays.extend(name.map(str::to_owned));
                    }
                }
            }
        }
    }

    /// The facts about kernels for their thread-loop form.
    pub(super) fn block_facts(&self) -> &Facts {
        &self.block_facts
    }

    /// The launch bounds behind the macro `name`, if it is one for bounds.
    pub(super) fn bounds(&self, name: &str) -> Option<&DeclaredBounds> {
        self.bounds.get(name)
    }

    /// Whether the macro `name` launches kernels with template arguments left to deduce.
    pub(super) fn is_deducing_macro(&self, name: &str) -> bool {
        self.deducing_macros.contains(name)
    }

    /// Whether `name` is a macro whose body declares something for the device.
    pub(super) fn is_device_macro(&self, name: &str) -> bool {
        self.device_macros.contains(name)
    }
}

/// The name of the dynamic shared array in the tokens of `declaration`, if it is one.
fn global_shared_array<'t>(
    text: &'t str,
    tokens: &Tokens,
    mut declaration: Range<usize>,
) -> Option<&'t str> {
    if !tokens.contains_spelling(text, declaration.clone(), "extern")
        || !tokens.contains_spelling(text, declaration.clone(), "__shared__")
    {
        return None;
    }
    let open_bracket =
        declaration.find(|&token_index| tokens.is_spelled_at(text, token_index, "["))?;
    Some(tokens[open_bracket.checked_sub(1)?].text(text))
}

/// Collects the names of the `__global__` functions of `units`, declared or defined.
pub fn scan_symbols(units: &[SourceUnit]) -> Symbols {
    let sources: Vec<Source> = units.iter().map(Source::without_main).collect();
    let mut symbols = Symbols::default();
    for source in &sources {
        symbols.block_facts.add(source);
        symbols.reach.add(source);
        symbols.packs |= packed_casts::has_packed_casts(source);
        symbols.add_declared_names(source);
        symbols.bounds.extend(bounds::find_bounds_macros(source));
        let tokens = Tokens::new(source.text, source.tokens.clone());
        find_declared_kernels(source.text, &tokens)
            .into_iter()
            .for_each(|kernel| symbols.add(kernel));
        for declaration in instances::find_kernel_declarations(source.text, &source.view(true)) {
            if let Some(known_kernel) = symbols.kernels.get_mut(&declaration.name) {
                known_kernel.bare -= 1;
            }
        }
        for &directive in source.tokens.iter().filter(|token| token.kind == TokenKind::Directive) {
            let Some(defined) = macros::parse_macro_definition(source.text, directive) else {
                continue;
            };
            let marks = ["__global__", "__device__", "__constant__"];
            let mut words = defined.body.iter().map(|token| token.text(source.text));
            if words.any(|word| marks.contains(&word) || symbols.device_macros.contains(word)) {
                symbols.device_macros.insert(defined.name.to_owned());
            }
            let macro_kernels = find_declared_kernels(source.text, &defined.body).into_iter();
            let named_kernels = macro_kernels.filter(|kernel| !defined.is_parameter(&kernel.name));
            named_kernels.for_each(|kernel| symbols.add(kernel));
        }
    }
    symbols.block_facts.finish();
    symbols.deducing_macros =
        launch_macros::find_deducing_macros(&sources, |name, argument_count| {
            symbols.leaves_template_open(name, argument_count)
        });
    symbols
}

/// A kernel's declaration.
struct DeclaredKernel {
    name: String,
    at: usize,
    template: bool,
    /// As of [`KernelFacts`].
    required: usize,
    defined: bool,
    /// Its parameters, and how many of them have a default.
    parameters: usize,
    defaults: usize,
    /// Whether it gives template arguments of its own: a specialisation or an instantiation.
    specialises: bool,
}

/// The kernels with their bodies in `source`, in order.
pub(super) fn find_defined_kernels(source: &Source) -> Vec<Kernel> {
    let tokens = Tokens::new(source.text, source.tokens.clone());
    let defined_kernels =
        find_declared_kernels(source.text, &tokens).into_iter().filter(|kernel| kernel.defined);
    defined_kernels
        .map(|kernel| Kernel {
            name: kernel.name,
            line: source.line(kernel.at),
            template: kernel.template,
        })
        .collect()
}

fn find_declared_kernels(text: &str, tokens: &Tokens) -> Vec<DeclaredKernel> {
    let globals =
        (0..tokens.len()).filter(|&index| tokens.is_spelled_at(text, index, "__global__"));
    globals.filter_map(|index| parse_declared_kernel(text, tokens, index)).collect()
}

/// The kernel whose declaration holds `__global__` at `global`.
fn parse_declared_kernel(text: &str, tokens: &Tokens, global: usize) -> Option<DeclaredKernel> {
    let mut token_index = global + 1;
    loop {
        let token = tokens.get(token_index)?;
        let word = token.text(text);
        if token.kind != TokenKind::Ident || word == "__global__" {
            if matches!(word, ";" | "{" | "}" | "(" | "__global__") {
                return None;
            }
            token_index += 1;
            continue;
        }
        let arguments = tokens
            .skip_angles(text, token_index + 1)
            .filter(|_| tokens.is_spelled_at(text, token_index + 1, "<"));
        let open_parenthesis = arguments.unwrap_or(token_index + 1);
        if !tokens.is_spelled_at(text, open_parenthesis, "(") {
            token_index = open_parenthesis;
            continue;
        }
        let group_end = tokens.skip_group(open_parenthesis)?;
        if is_attribute(word) {
            token_index = group_end;
            continue;
        }
        let head = template_head(text, tokens, global);
        let empty = head
            .is_some_and(|head| self::template_argument_ranges(text, tokens, head + 1).is_empty());
        return Some(DeclaredKernel {
            name: word.to_owned(),
            at: token.start,
            template: head.is_some(),
            required: head.map_or(0, |head| count_required_arguments(text, tokens, head)),
            defined: tokens.is_spelled_at(text, group_end, "{"),
            parameters: count_token_parts(text, tokens, open_parenthesis, ","),
            defaults: count_token_parts(text, tokens, open_parenthesis, "=").saturating_sub(1),
            specialises: arguments.is_some() || empty,
        });
    }
}

/// The number of parts in the parentheses from `open_bracket`, if each `separator` begins one; 0 if they are empty.
pub(super) fn count_token_parts(
    text: &str,
    tokens: &Tokens,
    open_bracket: usize,
    separator: &str,
) -> usize {
    let Some(close_bracket) = tokens.skip_group(open_bracket).map(|group_end| group_end - 1) else {
        return 0;
    };
    let mut token_index = open_bracket + 1;
    let mut parts = usize::from(open_bracket + 1 < close_bracket);
    while token_index < close_bracket {
        parts += usize::from(tokens.is_spelled_at(text, token_index, separator));
        token_index = tokens.skip_group_or_angles(text, token_index).unwrap_or(token_index + 1);
    }
    parts
}

/// The `template` of the declaration around `token_index`, the one next to it if there are several.
pub(super) fn template_head(text: &str, tokens: &Tokens, token_index: usize) -> Option<usize> {
    for (index, token) in tokens[..token_index].iter().enumerate().rev() {
        let ends = token.kind == TokenKind::Directive
            || matches!(token.text(text), ";" | "{" | "}" | "__global__");
        if ends {
            return None;
        }
        // `template <template <class> class Op>`
        let is_parameter = index > 0 && matches!(tokens[index - 1].text(text), "<" | ",");
        if token.is_spelled(text, "template") && !is_parameter {
            return Some(index);
        }
    }
    None
}

/// The number of the last parameter without a default of the template head at `head`, from 1.
fn count_required_arguments(text: &str, tokens: &Tokens, head: usize) -> usize {
    let parameters = template_argument_ranges(text, tokens, head + 1);
    parameters
        .iter()
        .rposition(|range| !tokens.contains_spelling(text, range.clone(), "="))
        .map_or(0, |last| last + 1)
}

/// The arguments of the template list from `open_bracket`, as ranges of tokens.
pub(super) fn template_argument_ranges(
    text: &str,
    tokens: &Tokens,
    open_bracket: usize,
) -> Vec<Range<usize>> {
    let Some(angles_end) =
        tokens.skip_angles(text, open_bracket).filter(|angles_end| *angles_end > open_bracket + 2)
    else {
        return Vec::new();
    };
    tokens.split_parameters(text, open_bracket + 1..angles_end - 1)
}

/// Whether CUDA's headers have a function `name`, with any arguments.
fn is_math_function(name: &str) -> bool {
    MATH.iter().any(|function| *function == name || function.strip_suffix('f') == Some(name))
}
