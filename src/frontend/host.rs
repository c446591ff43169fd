//! Host C++ from CUDA C++: combines the edits of all rewritings.

use std::collections::BTreeMap;

use super::edits::Edits;
use super::instances;
use super::launches::{self, Callee, Launch};
use super::lexer::{Kind, Token, Tokens, folded};
use super::macros::{self, Macro};
use super::outline::{Item, ItemKind, outline};
use super::source::Source;
use super::{FrontendError, LaunchSite, Precision, Symbols, Translated};
use super::{bounds, byte_counts, escape, pointers, ptx, shadow, shared, symbols, unsupported};

/// The context in which a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A file: declarations.
    File,
    /// The body of a function: statements.
    Body,
}

/// A file in translation, with its structure.
pub(super) struct Context<'s, 'a> {
    pub source: &'s Source<'a>,
    pub symbols: &'s Symbols,
    pub precision: Precision,
    pub place: Place,
    /// The tokens that `functions` count.
    pub tokens: Tokens,
    /// The functions that the file defines; none for the body of a function.
    pub functions: Vec<Item>,
    /// The definitions of macros.
    pub macros: Vec<Macro<'a>>,
}

impl Context<'_, '_> {
    /// The function in whose body byte `at` lies.
    pub(super) fn function(&self, at: usize) -> Option<&Item> {
        // They come in order and do not nest, so the last that starts before is the one.
        let start = |item: &&Item| self.tokens[item.body.start].start;
        let after = self.functions.partition_point(|item| start(&item) <= at);
        let item = self.functions[..after].last()?;
        (at < self.tokens[item.body.end - 1].end).then_some(item)
    }
}

/// Translates `source`; see [`super::host`].
pub(super) fn translate(
    source: &Source,
    symbols: &Symbols,
    precision: Precision,
    place: Place,
) -> Result<Translated, FrontendError> {
    let tokens = source.view(true);
    let mut functions = match place {
        Place::File => outline(source.text, &tokens),
        Place::Body => Vec::new(),
    };
    functions.retain(|item| item.kind == ItemKind::Function);
    let directives = source.tokens.iter().filter(|token| token.kind == Kind::Directive);
    let macros = directives.filter_map(|&token| macros::definition(source.text, token)).collect();
    let context = Context { source, symbols, precision, place, tokens, functions, macros };
    unsupported::check(&context)?;
    let mut edits = Edits::default();
    let launches = rewrite_launches(&context, &mut edits)?;
    shared::rewrite(&context, &mut edits)?;
    pointers::rewrite(&context, &mut edits);
    rename_noinline(&context, &mut edits);
    let mut shadow_obstacles = match precision {
        Precision::Native | Precision::Checked => Vec::new(),
        Precision::Shadow => shadow::rewrite(&context, &mut edits),
    };
    if precision == Precision::Shadow {
        byte_counts::widen(&context, &mut edits);
    }
    let packed = ptx::rewrite(&context, &mut edits)?;
    shadow_obstacles.extend(packed);
    shadow_obstacles.sort_by_key(|obstacle| obstacle.line);
    if let Some(main) = source.main.clone() {
        edits.remove(source.text, main);
    }
    bounds::rewrite(&context, &mut edits);
    add_companions(&context, &mut edits);
    let line = format!("#line 1 \"{}\"\n", escape(source.path));
    Ok(Translated {
        text: line + &edits.apply(source.text),
        launches,
        kernel_forms: Vec::new(),
        shuffles: Vec::new(),
        kernels: symbols::defined(source),
        shadow_obstacles,
    })
}

/// Puts a companion behind each kernel, which tells the instance that a launch deduces.
fn add_companions(context: &Context, edits: &mut Edits) {
    let text = context.source.text;
    let mut found = instances::declarations(text, &context.tokens);
    found.retain(|declaration| context.symbols.has_companions(&declaration.name));
    for declaration in found {
        let companion = declaration.companion(text, edits);
        edits.insert(declaration.end, companion);
    }
}

/// The standard library uses `__noinline__` as an attribute, so it cannot be a macro here.
fn rename_noinline(context: &Context, edits: &mut Edits) {
    let text = context.source.text;
    let lists = context.macros.iter().map(|defined| &*defined.body);
    for tokens in lists.chain([&context.source.tokens[..]]) {
        for (index, token) in tokens.iter().enumerate() {
            let attribute = index > 0 && matches!(tokens[index - 1].text(text), "(" | ",");
            if token.is(text, "__noinline__") && !attribute {
                edits.replace(token.start..token.end, "__attribute__((noinline))");
            }
        }
    }
}

fn rewrite_launches(
    context: &Context,
    edits: &mut Edits,
) -> Result<Vec<LaunchSite>, FrontendError> {
    let source = context.source;
    let mut sites = BTreeMap::new();
    let found = find_launches(context)?;
    let mut locals = Locals::new(context);
    for launch in found.values() {
        check_caller(context, launch)?;
        let callee = tokens_within(&source.tokens, &launch.callee);
        let name = folded(source.text, launches::unwrapped(source.text, callee));
        let form = match launches::classify(source.text, callee) {
            Callee::Name(name, given)
                if context.symbols.is_kernel(&name)
                    && (is_qualified(source.text, callee) || !locals.declare(launch, &name)) =>
            {
                let count = || {
                    let list = argument_list(source, launch);
                    symbols::count(source.text, &list, 0, ",")
                };
                match context.symbols.leaves_out(&name, count) {
                    true => Form::Passed,
                    false => Form::of(context, &name, given),
                }
            }
            _ => Form::Pointer,
        };
        let line = source.line(launch.callee.start);
        if form == Form::Deduced {
            name_companion(source.text, callee, edits);
        }
        if matches!(form, Form::Deduced | Form::Passed) {
            write_null_pointers(source.text, &argument_list(source, launch), edits);
        }
        let site = format!("\"{}\", {line}", escape(source.path));
        write_launch(edits, launch, form, "", &format!("\"{}\"", escape(&name)), &site);
        sites.insert(launch.open.start, LaunchSite { line, callee: name });
    }
    for defined in &context.macros {
        for launch in macro_launches(source, defined)? {
            let callee = tokens_within(&defined.body, &launch.callee);
            let pasted = callee.iter().any(|token| token.is(source.text, "##"));
            let form = match launches::classify(source.text, callee) {
                Callee::Name(name, given) if context.symbols.is_kernel(&name) => {
                    Form::of(context, &name, given)
                }
                Callee::Name(name, _) if pasted || defined.is_parameter(&name) => Form::Kernel,
                _ => Form::Pointer,
            };
            if form == Form::Deduced {
                name_companion(source.text, callee, edits);
            }
            let name = spelled(source.text, defined, launches::unwrapped(source.text, callee));
            write_launch(edits, &launch, form, RESERVED, &name, "__FILE__, __LINE__");
            let line = source.line(launch.callee.start);
            let callee = folded(source.text, callee);
            sites.insert(launch.open.start, LaunchSite { line, callee });
        }
    }
    Ok(sites.into_values().collect())
}

/// The tokens from the parenthesis that opens the arguments of `launch`.
fn argument_list(source: &Source, launch: &Launch) -> Tokens {
    let open = source.tokens.partition_point(|token| token.start < launch.close.end);
    // A list of arguments is short: the rest of the file need not be matched.
    let end = source.tokens.len().min(open + 4096);
    Tokens::new(source.text, source.tokens[open..end].to_vec())
}

/// Writes `nullptr` for each argument `NULL`: passed on to a function, `NULL` is an integer.
fn write_null_pointers(text: &str, list: &Tokens, edits: &mut Edits) {
    let Some(after) = list.skip_group(0) else { return };
    let mut at = 1;
    while at + 1 < after {
        let ends = [",", ")"].iter().any(|end| list.is(text, at + 1, end));
        let begins = ["(", ","].iter().any(|begin| list.is(text, at - 1, begin));
        if begins && ends && list.is(text, at, "NULL") {
            edits.replace(list[at].start..list[at].end, "nullptr".to_owned());
        }
        at = list.skip_group(at).unwrap_or(at + 1);
    }
}

/// How a launch is written for the host compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The callee is a kernel that its name and template arguments identify.
    Kernel,
    /// The callee is a kernel whose template arguments follow from those of the launch; its
    /// companion tells them.
    Deduced,
    /// The same, but the kernel has no companion: the instance cannot be told.
    Passed,
    /// The callee is an expression.
    Pointer,
}

impl Form {
    fn of(context: &Context, name: &str, given: usize) -> Self {
        match context.symbols.deduces(name, given) {
            false => Form::Kernel,
            true if context.symbols.has_companions(name) => Form::Deduced,
            true => Form::Passed,
        }
    }
}

/// Begins the names that a launch in a macro's body uses: `kernel`, `on` and `run` may be parameters
/// of the macro.
const RESERVED: &str = "replay_";

fn write_launch(
    edits: &mut Edits,
    launch: &Launch,
    form: Form,
    prefix: &str,
    name: &str,
    site: &str,
) {
    let (function, before, after) = match form {
        Form::Kernel => ("kernel", "<&", format!(">({name}, {site})")),
        Form::Deduced => (
            "kernel_deduced",
            "([&](auto... replay_arguments) -> decltype(",
            format!("(replay_arguments...)) {{ return {{}}; }}, {name}, {site})"),
        ),
        Form::Passed => (
            "kernel_call",
            "([&](auto... replay_arguments) { ",
            format!("(replay_arguments...); }}, {name}, {site})"),
        ),
        Form::Pointer => ("kernel_at", "(", format!(", {name}, {site})")),
    };
    edits.insert(launch.callee.start, format!("::replay_rt::{prefix}{function}{before}"));
    edits.replace(launch.open.clone(), format!("{after}.{prefix}on("));
    edits.replace(launch.close.clone(), format!(").{prefix}run"));
}

/// Puts the companion's name into `callee` for the kernel's.
fn name_companion(text: &str, callee: &[Token], edits: &mut Edits) {
    let is_name = |&at: &usize| {
        callee[at].kind == Kind::Ident
            && !callee.get(at + 1).is_some_and(|next| next.is(text, "::") || next.is(text, "##"))
            && !callee[at].is(text, "template")
    };
    if let Some(at) = (0..callee.len()).find(is_name) {
        let name = callee[at].text(text);
        let replaced = format!("{}{name}", instances::COMPANION);
        edits.replace(callee[at].start..callee[at].end, replaced);
    }
}

/// All launches outside macros by the place of `<<<`.
fn find_launches(context: &Context) -> Result<BTreeMap<usize, Launch>, FrontendError> {
    let source = context.source;
    let place = |launch: Launch| (launch.open.start, launch);
    let mut found = BTreeMap::new();
    if source.has_alternatives() {
        found.extend(launches::find(source.text, &source.view(false)).into_iter().map(place));
    }
    found.extend(launches::find(source.text, &context.tokens).into_iter().map(place));
    let mut starts =
        launches::openings(source.text, &source.tokens).map(|at| source.tokens[at].start);
    match starts.find(|start| !found.contains_key(start)) {
        None => Ok(found),
        Some(start) => Err(FrontendError::UnseenLaunch {
            path: source.path.to_owned(),
            line: source.line(start),
        }),
    }
}

fn macro_launches(source: &Source, defined: &Macro) -> Result<Vec<Launch>, FrontendError> {
    let found = launches::find(source.text, &defined.body);
    let openings = launches::openings(source.text, &defined.body);
    let mut starts = openings.map(|opening| defined.body[opening].start).enumerate();
    // Both in the order of the text.
    match starts.find(|&(number, start)| found.get(number).is_none_or(|l| l.open.start != start)) {
        None => Ok(found),
        Some((_, start)) => Err(FrontendError::UnseenMacroLaunch {
            name: defined.name.to_owned(),
            path: source.path.to_owned(),
            line: source.line(start),
        }),
    }
}

/// Refuses launches from device code.
fn check_caller(context: &Context, launch: &Launch) -> Result<(), FrontendError> {
    let text = context.source.text;
    let at = launch.open.start;
    let Some(function) = context.function(at) else { return Ok(()) };
    let device = function.on_device(text, &context.tokens)
        && !function.has(text, &context.tokens, "__host__");
    if !device || context.source.by_arch(at) {
        return Ok(());
    }
    Err(FrontendError::Unsupported {
        what: format!("a launch from device code (dynamic parallelism) in {}", function.name),
        path: context.source.path.to_owned(),
        line: context.source.line(at),
    })
}

/// Whether `callee` names a scope, so that no variable of a function is meant.
fn is_qualified(text: &str, callee: &[Token]) -> bool {
    launches::unwrapped(text, callee).iter().take(2).any(|token| token.is(text, "::"))
}

/// The names that functions declare themselves and that therefore mean no kernel.
struct Locals<'c> {
    context: &'c Context<'c, 'c>,
    /// The tokens that were read last, and for each name the byte behind its first declaration.
    read: Option<(std::ops::Range<usize>, BTreeMap<&'c str, usize>)>,
}

impl<'c> Locals<'c> {
    fn new(context: &'c Context<'c, 'c>) -> Self {
        Locals { context, read: None }
    }

    /// Whether the function around `launch` declares `name` before it.
    fn declare(&mut self, launch: &Launch, name: &str) -> bool {
        let range = match self.context.function(launch.open.start) {
            Some(function) => function.name_at..function.body.end,
            None if self.context.place == Place::Body => 0..self.context.tokens.len(),
            None => return false,
        };
        if self.read.as_ref().is_none_or(|(known, _)| *known != range) {
            let declared = declared(self.context.source.text, &self.context.tokens[range.clone()]);
            self.read = Some((range, declared));
        }
        let declared = self.read.as_ref().and_then(|(_, declared)| declared.get(name));
        declared.is_some_and(|&behind| behind < launch.callee.start)
    }
}

/// The names that `tokens` declare, each with the byte behind its first declaration.
fn declared<'t>(text: &'t str, tokens: &[Token]) -> BTreeMap<&'t str, usize> {
    let mut found = BTreeMap::new();
    for three in tokens.windows(3) {
        let [previous, token, next] = three else { continue };
        let word = previous.text(text);
        let statement = matches!(word, "return" | "else" | "do" | "template" | "case" | "goto");
        let declares = match previous.kind {
            Kind::Ident => !statement,
            _ => matches!(word, "*" | ">" | "&"),
        };
        if matches!(token.kind, Kind::Ident)
            && declares
            && matches!(next.text(text), "=" | ")" | "," | ";" | "{")
            && !(matches!(word, "&") && matches!(next.text(text), ")" | "," | ";"))
        {
            found.entry(token.text(text)).or_insert(next.start);
        }
    }
    found
}

/// The tokens in a range of bytes.
fn tokens_within<'t>(tokens: &'t [Token], range: &std::ops::Range<usize>) -> &'t [Token] {
    let start = tokens.partition_point(|token| token.start < range.start);
    let end = tokens.partition_point(|token| token.start < range.end);
    &tokens[start..end]
}

/// A C string for the callee in a macro's body: parameters are spelled as the caller gave them.
fn spelled(text: &str, defined: &Macro, callee: &[Token]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut plain = String::new();
    for token in callee {
        let word = token.text(text);
        if word == "##" {
            continue;
        }
        if defined.is_parameter(word) {
            if !plain.is_empty() {
                parts.push(format!("\"{}\"", escape(&std::mem::take(&mut plain))));
            }
            parts.push(format!("#{word}"));
        } else {
            plain.push_str(word);
        }
    }
    if !plain.is_empty() || parts.is_empty() {
        parts.push(format!("\"{}\"", escape(&plain)));
    }
    parts.join(" ")
}
