//! Host C++ from CUDA C++: combines the edits of all rewritings.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::edits::Edits;
use super::instances;
use super::integer_variables::{Declaration, collect_declarations, collect_shared_bytes};
use super::launches::{self, Callee, LaunchSyntax};
use super::lexer::{Token, TokenKind, Tokens, normalise_spacing};
use super::macros::{self, Macro};
use super::outline::{Item, ItemKind, outline_items};
use super::source::Source;
use super::{FrontendError, LaunchSite, Precision, Symbols, Translated};
use super::{
    bounds, brackets, byte_counts, double_twins, escape_c_string, in_place, native_sizes,
    plain_integers, ptx, shadow, shared, size_assertions, symbols, typenames, unsupported,
    void_casts,
};

/// The surroundings of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostScope {
    /// A file: declarations.
    File,
    /// The body of a function: statements.
    Body,
}

/// A file in translation, with its structure.
pub(super) struct HostContext<'s, 'a> {
    pub source: &'s Source<'a>,
    pub symbols: &'s Symbols,
    pub precision: Precision,
    pub place: HostScope,
    /// The tokens behind the indices in `functions`.
    pub tokens: Tokens,
    /// All tokens of the file.
    pub code: Tokens,
    /// The functions with a body in the file; none for the body of a function.
    pub functions: Vec<Item>,
    /// The definitions of macros.
    pub macros: Vec<Macro<'a>>,
    /// The declarations of each name, for the float64 shadow.
    pub declarations: HashMap<&'a str, Vec<Declaration>>,
    /// The arrays of bytes in shared memory, for the float64 shadow.
    pub shared_bytes: HashSet<&'a str>,
    /// The constants that count bytes of memory, for the float64 shadow.
    pub byte_constants: HashSet<&'a str>,
    /// The tokens of integers of 16 bytes that are no packs of numbers, by their first bytes, for the float64 shadow.
    pub plain_integers: HashSet<usize>,
}

impl<'a> HostContext<'_, 'a> {
    /// The tokens of the body of each macro, with the macro, and those of the file.
    pub(super) fn token_lists(&self) -> impl Iterator<Item = (&Tokens, Option<&Macro<'a>>)> {
        let bodies = self.macros.iter().map(|defined| (&defined.body, Some(defined)));
        bodies.chain([(&self.code, None)])
    }

    /// The function in whose body byte `byte_offset` lies.
    pub(super) fn function(&self, byte_offset: usize) -> Option<&Item> {
        // Functions come in order and do not nest: the last one to start before is the one.
        let functions_before = self
            .functions
            .partition_point(|item| self.tokens[item.body.start].start <= byte_offset);
        let item = self.functions[..functions_before].last()?;
        (byte_offset < self.tokens[item.body.end - 1].end).then_some(item)
    }
}

/// Translates `source`; see [`super::host`].
///
/// # Errors
/// Every refusal, if there is one.
pub(super) fn translate_host_source(
    source: &Source,
    symbols: &Symbols,
    precision: Precision,
    place: HostScope,
) -> Result<Translated, Vec<FrontendError>> {
    let tokens = source.view(true);
    let items = match place {
        HostScope::File => outline_items(source.text, &tokens),
        HostScope::Body => Vec::new(),
    };
    let directives = source.tokens.iter().filter(|token| token.kind == TokenKind::Directive);
    let macros = directives
        .filter_map(|&token| macros::parse_macro_definition(source.text, token))
        .collect();
    let mut declarations = HashMap::new();
    let mut shared_bytes = HashSet::new();
    let mut byte_constants = HashSet::new();
    let mut plain_integers = HashSet::new();
    if precision == Precision::Shadow {
        if symbols.packs() {
            plain_integers = plain_integers::find_plain_integers(source.text, &tokens, &items);
        }
        declarations = collect_declarations(source.text, &tokens);
        shared_bytes = collect_shared_bytes(source.text, &tokens);
        byte_constants = native_sizes::collect_byte_constants(source.text, &tokens);
    }
    let code = Tokens::new(source.text, source.tokens.clone());
    let functions = items.into_iter().filter(|item| item.kind == ItemKind::Function).collect();
    let context = HostContext {
        source,
        symbols,
        precision,
        place,
        tokens,
        code,
        functions,
        macros,
        declarations,
        shared_bytes,
        byte_constants,
        plain_integers,
    };
    let mut refusals = Vec::new();
    unsupported::refuse_unsupported_features(&context, &mut refusals);
    let mut edits = Edits::default();
    let launches = rewrite_launches(&context, &mut edits, &mut refusals);
    shared::rewrite_shared_memory(&context, &mut edits, &mut refusals);
    void_casts::rewrite_void_casts(&context, &mut edits);
    rename_noinline(&context, &mut edits);
    typenames::mark_dependent_types(&context, &mut edits);
    let mut shadow_obstacles = match precision {
        Precision::Native | Precision::Checked => Vec::new(),
        Precision::Shadow => shadow::rewrite_for_shadow(&context, &mut edits),
    };
    if precision == Precision::Shadow {
        byte_counts::widen_byte_counts(&context, &mut edits);
        size_assertions::rewrite_size_assertions(&context, &mut edits);
        native_sizes::rewrite_deciding_sizes(&context, &mut edits);
    }
    if precision == Precision::Checked {
        in_place::copy_call_results(&context, &mut edits);
    }
    let packed = ptx::rewrite_asm_statements(&context, &mut edits, &mut refusals);
    refusals.sort_by_key(|refusal| refusal.place().1);
    refusals.dedup();
    let refusals = brackets::blame_unclosed_bracket(source, refusals);
    if !refusals.is_empty() {
        return Err(refusals);
    }
    shadow_obstacles.extend(packed);
    shadow_obstacles.sort_by_key(|obstacle| obstacle.line);
    if precision == Precision::Shadow && place == HostScope::File {
        double_twins::leave_out_double_twins(&context, &mut edits);
    }
    if let Some(main) = source.main.clone() {
        edits.remove(source.text, main);
    }
    bounds::rewrite_launch_bounds(&context, &mut edits);
    add_companions(&context, &mut edits);
    let line = format!("#line 1 \"{}\"\n", escape_c_string(source.path));
    Ok(Translated {
        text: line + &edits.apply(source.text),
        launches,
        kernel_forms: Vec::new(),
        shuffles: Vec::new(),
        kernels: symbols::find_defined_kernels(source),
        shadow_obstacles,
    })
}

/// Puts a companion behind each kernel, to tell the instance of a launch with deduced arguments, and one behind each
/// `using` of a kernel.
fn add_companions(context: &HostContext, edits: &mut Edits) {
    let text = context.source.text;
    let mut kernel_declarations = instances::find_kernel_declarations(text, &context.tokens);
    kernel_declarations.retain(|declaration| context.symbols.has_companions(&declaration.name));
    for declaration in kernel_declarations {
        let companion = declaration.companion(text, edits);
        edits.insert(declaration.end, companion);
    }
    let tokens = &context.tokens;
    for start in (0..tokens.len()).filter(|&index| tokens.is_spelled_at(text, index, "using")) {
        // `using lib::detail::kernel;`
        let is_name = |index: &usize| {
            tokens[*index].kind == TokenKind::Ident || tokens.is_spelled_at(text, *index, "::")
        };
        let end = start + (start..tokens.len()).take_while(is_name).count();
        let name = tokens.text_at(text, end - 1);
        if end > start + 2
            && tokens.is_spelled_at(text, end, ";")
            && tokens.is_spelled_at(text, end - 2, "::")
            && context.symbols.has_companions(name)
        {
            let scope = normalise_spacing(text, &tokens[start..end - 1]);
            edits.insert(tokens[end].end, format!(" {scope}{}{name};", instances::COMPANION));
        }
    }
}

/// The standard library uses `__noinline__` as an attribute, so it cannot be a macro here.
fn rename_noinline(context: &HostContext, edits: &mut Edits) {
    let text = context.source.text;
    let lists = context.macros.iter().map(|defined| &*defined.body);
    for tokens in lists.chain([&context.source.tokens[..]]) {
        for (index, token) in tokens.iter().enumerate() {
            let attribute = index > 0 && matches!(tokens[index - 1].text(text), "(" | ",");
            if token.is_spelled(text, "__noinline__") && !attribute {
                edits.replace(token.start..token.end, "__attribute__((noinline))");
            }
        }
    }
}

fn rewrite_launches(
    context: &HostContext,
    edits: &mut Edits,
    refusals: &mut Vec<FrontendError>,
) -> Vec<LaunchSite> {
    let source = context.source;
    let mut sites = BTreeMap::new();
    let launches_by_offset = find_launches(context, refusals);
    let mut locals = Locals::new(context);
    for launch in launches_by_offset.values() {
        refusals.extend(refuse_caller(context, launch));
        let callee = tokens_within(&source.tokens, &launch.callee);
        let name =
            normalise_spacing(source.text, launches::unwrap_parentheses(source.text, callee));
        let form = match launches::classify_callee(source.text, callee) {
            Callee::Name(name, argument_count)
                if context.symbols.is_kernel(&name)
                    && (is_qualified(source.text, callee) || !locals.declare(launch, &name)) =>
            {
                if context.symbols.leaves_out(&name, || {
                    let list = argument_list(source, launch);
                    symbols::count_token_parts(source.text, &list, 0, ",")
                }) {
                    LaunchForm::Passed
                } else {
                    LaunchForm::for_kernel(context, &name, argument_count)
                }
            }
            _ => LaunchForm::Pointer,
        };
        let line = source.line(launch.callee.start);
        if form == LaunchForm::Deduced {
            name_companion(source.text, callee, edits);
        }
        if matches!(form, LaunchForm::Deduced | LaunchForm::Passed) {
            write_null_pointers(source.text, &argument_list(source, launch), edits);
        }
        let site = format!("\"{}\", {line}", escape_c_string(source.path));
        write_launch(edits, launch, form, "", &format!("\"{}\"", escape_c_string(&name)), &site);
        sites.insert(launch.open.start, LaunchSite { line, callee: name });
    }
    for defined in &context.macros {
        for launch in find_macro_launches(source, defined, refusals) {
            let callee = tokens_within(&defined.body, &launch.callee);
            let pasted = callee.iter().any(|token| token.is_spelled(source.text, "##"));
            let form = match launches::classify_callee(source.text, callee) {
                Callee::Name(name, 0)
                    if defined.is_parameter(&name)
                        && context.symbols.is_deducing_macro(defined.name) =>
                {
                    LaunchForm::Passed
                }
                Callee::Name(name, _) if pasted || defined.is_parameter(&name) => {
                    let unwrapped = launches::unwrap_parentheses(source.text, callee);
                    LaunchForm::Given(normalise_spacing(source.text, unwrapped))
                }
                Callee::Name(name, argument_count) if context.symbols.is_kernel(&name) => {
                    LaunchForm::for_kernel(context, &name, argument_count)
                }
                _ => LaunchForm::Pointer,
            };
            if form == LaunchForm::Deduced {
                name_companion(source.text, callee, edits);
            }
            let name = spell_macro_callee(
                source.text,
                defined,
                launches::unwrap_parentheses(source.text, callee),
            );
            write_launch(edits, &launch, form, RESERVED, &name, "__FILE__, __LINE__");
            let line = source.line(launch.callee.start);
            let callee = normalise_spacing(source.text, callee);
            sites.insert(launch.open.start, LaunchSite { line, callee });
        }
    }
    sites.into_values().collect()
}

/// The tokens from the opening parenthesis of the arguments of `launch`.
fn argument_list(source: &Source, launch: &LaunchSyntax) -> Tokens {
    let open_parenthesis = source.tokens.partition_point(|token| token.start < launch.close.end);
    // A list of arguments is short: the rest of the file need not be matched.
    let end = source.tokens.len().min(open_parenthesis + 4096);
    Tokens::new(source.text, source.tokens[open_parenthesis..end].to_vec())
}

/// Writes `nullptr` for each argument `NULL`: passed on to a function, `NULL` is an integer.
fn write_null_pointers(text: &str, list: &Tokens, edits: &mut Edits) {
    let Some(list_end) = list.skip_group(0) else { return };
    let mut token_index = 1;
    while token_index + 1 < list_end {
        let ends = [",", ")"].iter().any(|end| list.is_spelled_at(text, token_index + 1, end));
        let begins_argument =
            ["(", ","].iter().any(|sign| list.is_spelled_at(text, token_index - 1, sign));
        if begins_argument && ends && list.is_spelled_at(text, token_index, "NULL") {
            edits.replace(list[token_index].start..list[token_index].end, "nullptr".to_owned());
        }
        token_index = list.skip_group(token_index).unwrap_or(token_index + 1);
    }
}

/// How a launch is written for the host compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LaunchForm {
    /// The callee is a kernel, identified by its name and template arguments.
    Kernel,
    /// The callee is a kernel whose template arguments follow from those of the launch; its
    /// companion tells them.
    Deduced,
    /// The same, but the kernel has no companion: the instance cannot be told.
    Passed,
    /// The callee is an expression.
    Pointer,
    /// The callee, spelled so, is what a macro is given: a kernel or an expression. The compiler tells which.
    Given(String),
}

impl LaunchForm {
    fn for_kernel(context: &HostContext, name: &str, argument_count: usize) -> Self {
        match context.symbols.deduces(name, argument_count) {
            false => LaunchForm::Kernel,
            true if context.symbols.has_companions(name) => LaunchForm::Deduced,
            true => LaunchForm::Passed,
        }
    }
}

/// Begins the names in the code of a launch in a macro: `kernel`, `on` and `run` may be parameters of the macro.
const RESERVED: &str = "replay_";

fn write_launch(
    edits: &mut Edits,
    launch: &LaunchSyntax,
    form: LaunchForm,
    prefix: &str,
    name: &str,
    site: &str,
) {
    let given;
    let (function, code_before, code_after) = match form {
        LaunchForm::Kernel => ("kernel", "<&", format!(">({name}, {site})")),
        LaunchForm::Deduced => (
            "kernel_deduced",
            "([&](auto... replay_arguments) -> decltype(",
            format!("(replay_arguments...)) {{ return {{}}; }}, {name}, {site})"),
        ),
        LaunchForm::Passed => (
            "kernel_call",
            "([&](auto... replay_arguments) { (",
            format!(")(replay_arguments...); }}, {name}, {site})"),
        ),
        LaunchForm::Pointer => ("kernel_at", "(", format!(", {name}, {site})")),
        LaunchForm::Given(callee) => {
            let names_kernel =
                format!("::replay_rt::replay_names_kernel<decltype({callee})>({name})");
            given = format!("<({names_kernel} ? {callee} : nullptr)>(");
            ("callee", given.as_str(), format!(", {name}, {site})"))
        }
    };
    edits.insert(launch.callee.start, format!("::replay_rt::{prefix}{function}{code_before}"));
    edits.replace(launch.open.clone(), format!("{code_after}.{prefix}on("));
    edits.replace(launch.close.clone(), format!(").{prefix}run"));
}

/// Puts the companion's name into `callee` for the kernel's.
fn name_companion(text: &str, callee: &[Token], edits: &mut Edits) {
    for (token_index, token) in callee.iter().enumerate() {
        let goes_on = callee
            .get(token_index + 1)
            .is_some_and(|next| next.is_spelled(text, "::") || next.is_spelled(text, "##"));
        if token.kind == TokenKind::Ident && !goes_on && !token.is_spelled(text, "template") {
            let replaced = format!("{}{}", instances::COMPANION, token.text(text));
            edits.replace(token.start..token.end, replaced);
            return;
        }
    }
}

/// All launches outside macros by the place of `<<<`. Other places of it are added to `refusals`.
fn find_launches(
    context: &HostContext,
    refusals: &mut Vec<FrontendError>,
) -> BTreeMap<usize, LaunchSyntax> {
    let source = context.source;
    let mut found_launches = Vec::new();
    if source.has_alternatives() {
        found_launches = launches::find_launch_syntax(source.text, &source.view(false));
    }
    found_launches.extend(launches::find_launch_syntax(source.text, &context.tokens));
    let launches_by_offset: BTreeMap<usize, LaunchSyntax> =
        found_launches.into_iter().map(|launch| (launch.open.start, launch)).collect();
    let starts = launches::find_launch_openings(source.text, &source.tokens)
        .map(|token_index| source.tokens[token_index].start);
    let unseen_starts = starts.filter(|start| !launches_by_offset.contains_key(start));
    refusals.extend(unseen_starts.map(|start| FrontendError::UnseenLaunch {
        path: source.path.to_owned(),
        line: source.line(start),
    }));
    launches_by_offset
}

/// The launches in the body of the macro `defined`. A `<<<` elsewhere in it is added to `refusals`.
fn find_macro_launches(
    source: &Source,
    defined: &Macro,
    refusals: &mut Vec<FrontendError>,
) -> Vec<LaunchSyntax> {
    let launches_in_macro = launches::find_launch_syntax(source.text, &defined.body);
    let openings = launches::find_launch_openings(source.text, &defined.body);
    let starts = openings.map(|opening| defined.body[opening].start);
    let unseen_starts =
        starts.filter(|start| !launches_in_macro.iter().any(|launch| launch.open.start == *start));
    refusals.extend(unseen_starts.map(|start| FrontendError::UnseenMacroLaunch {
        name: defined.name.to_owned(),
        path: source.path.to_owned(),
        line: source.line(start),
    }));
    launches_in_macro
}

/// The refusal of `launch`, if it is in device code.
fn refuse_caller(context: &HostContext, launch: &LaunchSyntax) -> Option<FrontendError> {
    let text = context.source.text;
    let launch_offset = launch.open.start;
    let function = context.function(launch_offset)?;
    let device = function.on_device(text, &context.tokens)
        && !function.has_specifier(text, &context.tokens, "__host__");
    if !device || context.source.by_arch(launch_offset) {
        return None;
    }
    Some(FrontendError::DeviceLaunch {
        function: function.name.clone(),
        path: context.source.path.to_owned(),
        line: context.source.line(launch_offset),
    })
}

/// Whether `callee` names a scope, and therefore no variable of a function.
fn is_qualified(text: &str, callee: &[Token]) -> bool {
    launches::unwrap_parentheses(text, callee)
        .iter()
        .take(2)
        .any(|token| token.is_spelled(text, "::"))
}

/// The names declared in functions: there they mean no kernel.
struct Locals<'c> {
    context: &'c HostContext<'c, 'c>,
    /// The tokens of the last function, and for each name the byte behind its first declaration.
    read: Option<(std::ops::Range<usize>, BTreeMap<&'c str, usize>)>,
}

impl<'c> Locals<'c> {
    fn new(context: &'c HostContext<'c, 'c>) -> Self {
        Locals { context, read: None }
    }

    /// Whether the function around `launch` declares `name` before it.
    fn declare(&mut self, launch: &LaunchSyntax, name: &str) -> bool {
        let range = match self.context.function(launch.open.start) {
            Some(function) => function.name_at..function.body.end,
            None if self.context.place == HostScope::Body => 0..self.context.tokens.len(),
            None => return false,
        };
        if self.read.as_ref().is_none_or(|(known_range, _)| *known_range != range) {
            let declared_names =
                find_declared_names(self.context.source.text, &self.context.tokens[range.clone()]);
            self.read = Some((range, declared_names));
        }
        let declaration_end =
            self.read.as_ref().and_then(|(_, declared_names)| declared_names.get(name));
        declaration_end.is_some_and(|&end_offset| end_offset < launch.callee.start)
    }
}

/// The names declared in `tokens`, each with the byte behind its first declaration.
fn find_declared_names<'t>(text: &'t str, tokens: &[Token]) -> BTreeMap<&'t str, usize> {
    let mut declared_names = BTreeMap::new();
    for three in tokens.windows(3) {
        let [previous, token, next] = three else { continue };
        let word = previous.text(text);
        let statement = matches!(word, "return" | "else" | "do" | "template" | "case" | "goto");
        let declares = match previous.kind {
            TokenKind::Ident => !statement,
            _ => matches!(word, "*" | ">" | "&"),
        };
        if matches!(token.kind, TokenKind::Ident)
            && declares
            && matches!(next.text(text), "=" | ")" | "," | ";" | "{")
            && !(matches!(word, "&") && matches!(next.text(text), ")" | "," | ";"))
        {
            declared_names.entry(token.text(text)).or_insert(next.start);
        }
    }
    declared_names
}

/// The tokens in a range of bytes.
fn tokens_within<'t>(tokens: &'t [Token], range: &std::ops::Range<usize>) -> &'t [Token] {
    let start = tokens.partition_point(|token| token.start < range.start);
    let end = tokens.partition_point(|token| token.start < range.end);
    &tokens[start..end]
}

/// A C string for the callee in a macro's body: parameters are spelled as the caller gave them.
fn spell_macro_callee(text: &str, defined: &Macro, callee: &[Token]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut plain_text = String::new();
    for token in callee {
        let word = token.text(text);
        if word == "##" {
            continue;
        }
        if defined.is_parameter(word) {
            if !plain_text.is_empty() {
                parts.push(format!("\"{}\"", escape_c_string(&std::mem::take(&mut plain_text))));
            }
            parts.push(format!("#{word}"));
        } else {
            plain_text.push_str(word);
        }
    }
    if !plain_text.is_empty() || parts.is_empty() {
        parts.push(format!("\"{}\"", escape_c_string(&plain_text)));
    }
    parts.join(" ")
}
