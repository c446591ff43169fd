//! Puts device functions that wait into the kernels that call them: `float m = warp_sum(x) / n;` becomes the body of
//! `warp_sum` and `float m = sum / n;`.
//!
//! A kernel in thread-loop form waits at its own statements alone, and everybody writes reductions as functions. This works
//! on the tokens of statements: a call stands in an assignment, in a declaration or alone, and the function ends with its
//! one `return`. Whatever is not understood stays a call, and the kernel keeps its stacks. Line breaks stay; a wait from
//! a function carries its own place in a comment ([`place_of_wait`]).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::declarations::{DeclarationKind, parse_declaration};
use super::facts::{Facts, is_waiting_function};
use super::statements::{KernelStatement, StatementForm, parse_kernel_body};
use crate::syntax::SourceUnit;
use crate::syntax::lexer::{TokenKind, Tokens};
use crate::syntax::outline::{Item, ItemKind, outline_items};
use crate::syntax::source::Source;

/// Functions in functions beyond this depth stay calls: recursion ends here.
const MOST_LEVELS: usize = 6;
/// The brace of a namespace stands among this many tokens.
const MOST_NAMESPACE_TOKENS: usize = 8;
/// A kernel does not grow beyond this many tokens.
const MOST_TOKENS: usize = 12_000;
/// Starts the comment in front of a wait from a function.
const PLACE: &str = "/*replay_at ";

/// A token of code that is put together anew.
#[derive(Clone, Debug, PartialEq)]
struct Word {
    text: String,
    is_name: bool,
    /// Its place in the sources, as a comment; written where it waits.
    place: String,
    /// Its line in the kernel's file; 0 for code that was put in.
    line: usize,
}

/// A device function that waits.
#[derive(Debug)]
struct Definition {
    /// Tells it from the others.
    number: usize,
    /// Its namespaces.
    scope: Vec<String>,
    /// The names of its template parameters and their defaults.
    template: Vec<(String, Vec<Word>)>,
    /// Its result type; empty for `void`.
    result: Vec<Word>,
    parameters: Vec<Parameter>,
    /// The statements of its body up to the last `return`.
    body: Vec<Word>,
    /// What it returns; empty for nothing.
    returned: Vec<Word>,
}

#[derive(Debug)]
struct Parameter {
    ty: Vec<Word>,
    name: String,
    default: Vec<Word>,
}

/// The device functions of a translated file and of the files beside it that can be put into kernels.
#[derive(Debug, Default)]
pub(super) struct WaitingFunctions {
    /// By name; none for a function that is not understood.
    definitions: BTreeMap<String, Vec<Option<Definition>>>,
    /// The number of functions so far.
    count: usize,
    /// The names that the file with the kernels defines.
    own_names: BTreeSet<String>,
    /// The macros with shuffles of the file with the kernels.
    macros: Vec<ShuffleMacro>,
    /// Its namespaces.
    own_namespaces: Vec<Namespace>,
}

impl WaitingFunctions {
    /// Adds the functions of `source`, a translated file with kernels.
    pub(super) fn add_own_file(&mut self, source: &Source, tokens: &Tokens, facts: &Facts) {
        self.add_file(source, tokens, facts);
        self.own_names = self.definitions.keys().cloned().collect();
        self.macros = find_shuffle_macros(source);
        self.own_namespaces = find_namespaces(source.text, tokens);
        let unit = SourceUnit { path: source.path, text: WARP_REDUCTION_SOURCE };
        let reductions = Source::new(&unit);
        let tokens = reductions.view(true);
        for item in outline_items(reductions.text, &tokens) {
            let definition = read_definition(&reductions, &tokens, &[], &item);
            self.definitions.insert(item.name, vec![definition]);
        }
    }

    /// Adds the functions of `source`, a translated file beside the own one, whose names come first.
    pub(super) fn add_file(&mut self, source: &Source, tokens: &Tokens, facts: &Facts) {
        let macros = find_shuffle_macros(source);
        let namespaces = find_namespaces(source.text, tokens);
        for item in outline_items(source.text, tokens) {
            let is_candidate = item.kind == ItemKind::Function
                && !item.has_specifier(source.text, tokens, "__global__")
                && facts.waits(&item.name)
                && !is_waiting_function(&item.name)
                && !self.own_names.contains(&item.name);
            if !is_candidate {
                continue;
            }
            let definition =
                if item.member { None } else { read_definition(source, tokens, &macros, &item) };
            let number = self.count;
            self.count += 1;
            let scope = scope_of(&namespaces, item.name_at);
            let definition =
                definition.map(|definition| Definition { number, scope, ..definition });
            self.definitions.entry(item.name.clone()).or_default().push(definition);
        }
    }

    /// The function `name` that code in `scope` means; none if there are several.
    fn find(&self, name: &str, scope: &[String]) -> Option<&Definition> {
        let known: Option<Vec<&Definition>> =
            self.definitions.get(name)?.iter().map(Option::as_ref).collect();
        let mut reachable = known?;
        reachable.retain(|definition| scope.starts_with(&definition.scope));
        match reachable[..] {
            [definition] => Some(definition),
            _ => None,
        }
    }

    /// The kernel `item` with its waiting functions put in, behind as many empty lines as there are before it; none if it
    /// calls none that can be.
    pub(super) fn inline_into(
        &self,
        source: &Source,
        tokens: &Tokens,
        item: &Item,
    ) -> Option<String> {
        let mentions_any = item.body.clone().any(|at| {
            let word = tokens[at].text(source.text);
            self.definitions.contains_key(word) || word == "this_thread_block"
        });
        if !mentions_any {
            return None;
        }
        let words = read_words(source, tokens, item.body.clone());
        let words = replace_groups(expand_macros(words, &self.macros)?);
        let context = Context {
            functions: self,
            scope: scope_of(&self.own_namespaces, item.name_at),
            own_names: declared_names(source.text, tokens, item.body.start)?,
            template_types: template_types(source.text, tokens, item),
        };
        let mut inliner = Inliner { context: &context, count: 0, tokens: 0, shared: Vec::new() };
        let mut body = inliner.expand_all(words, 0)?;
        body.splice(1..1, inliner.shared);
        let head_start = tokens[item.tokens.start].start;
        let head = &source.text[head_start..tokens[item.body.start].start];
        let lines_before = source.line(head_start) - 1;
        let body_line = source.line(tokens[item.body.start].start);
        Some("\n".repeat(lines_before) + head + &write_lines(&body, body_line))
    }
}

/// The file and line of the wait at byte `start` of `text`, if it comes from a function that was put in.
pub(super) fn place_of_wait(text: &str, start: usize) -> Option<(&str, usize)> {
    let before = text[..start].strip_suffix("*/")?;
    let comment = &before[before.rfind(PLACE)? + PLACE.len()..];
    let (line, path) = comment.split_once(' ')?;
    Some((path, line.parse().ok()?))
}

/// What holds for the whole kernel.
struct Context<'f> {
    functions: &'f WaitingFunctions,
    scope: Vec<String>,
    own_names: BTreeSet<String>,
    /// The template parameters that are types.
    template_types: BTreeSet<String>,
}

/// A call of a function that waits.
struct Call<'c> {
    /// The arguments of its template.
    template: Vec<Vec<Word>>,
    arguments: Vec<Vec<Word>>,
    /// The code before it.
    words_before: &'c [Word],
    /// Tells it from the other calls of the kernel.
    number: usize,
    /// How many functions it stands in.
    level: usize,
}

struct Inliner<'f> {
    context: &'f Context<'f>,
    /// The number of calls so far.
    count: usize,
    /// The tokens put in so far.
    tokens: usize,
    /// The declarations of shared memory.
    shared: Vec<Word>,
}

impl Inliner<'_> {
    /// The statement of `words` with the call at `call` put in.
    fn expand_statement(
        &mut self,
        words: &[Word],
        statement: Range<usize>,
        call: usize,
        level: usize,
    ) -> Option<Vec<Word>> {
        if level == MOST_LEVELS {
            return None;
        }
        let definition = self.context.functions.find(&words[call].text, &self.context.scope)?;
        if call > 0 && matches!(words[call - 1].text.as_str(), "::" | "." | "->" | "&") {
            return None;
        }
        let mut open = call + 1;
        let mut template = Vec::new();
        if is_word(words, open, "<") {
            let close = find_angle(words, open)?;
            template = split_at_commas(&words[open + 1..close]);
            open = close + 1;
        }
        if !is_word(words, open, "(") {
            return None;
        }
        let after = skip_brackets(words, open)?;
        let arguments = split_at_commas(&words[open + 1..after - 1]);
        check_rest(words, statement.clone(), call..after, self.context.functions)?;
        self.count += 1;
        let number = self.count;
        let call_site = Call { template, arguments, words_before: &words[..call], number, level };
        let (body, result) = self.expand_call(definition, &call_site)?;
        self.tokens += body.len();
        if self.tokens > MOST_TOKENS {
            return None;
        }
        let is_alone = statement.start == call && after + 1 == statement.end;
        let mut code = Vec::new();
        let in_list = words[..statement.start]
            .iter()
            .rev()
            .find(|word| !word.text.starts_with('#'))
            .is_none_or(|word| matches!(word.text.as_str(), ";" | "{" | "}"));
        let is_declaration = declares(words, statement.clone());
        if !in_list && is_declaration {
            return None;
        }
        if !in_list {
            code.push(sign("{"));
        }
        if !is_alone && definition.result.is_empty() {
            return None;
        }
        if !definition.result.is_empty() {
            code.extend(result.iter().cloned());
            code.extend([name(&format!("result_replay_{number}")), sign(";")]);
        }
        code.push(sign("{"));
        code.extend(body);
        code.push(sign("}"));
        if !is_alone {
            code.extend_from_slice(&words[statement.start..call]);
            code.push(name(&format!("result_replay_{number}")));
            code.extend_from_slice(&words[after..statement.end]);
        }
        if !in_list {
            code.push(sign("}"));
        }
        Some(code)
    }

    /// The type of the template parameter `parameter` from the arguments of `call`: one of them is a variable with a
    /// built-in type.
    fn deduce_type(&self, parameter: &str, definition: &Definition, call: &Call) -> Option<String> {
        const KNOWN: [&str; 8] =
            ["float", "double", "int", "unsigned", "uint32_t", "int32_t", "int64_t", "uint64_t"];
        let plain = |ty: &[Word]| {
            let words: Vec<&str> = ty.iter().map(|word| word.text.as_str()).collect();
            matches!(words[..], [word] | ["const", word] | [word, "&"] | ["const", word, "&"] if word == parameter)
        };
        let index = definition.parameters.iter().position(|candidate| plain(&candidate.ty))?;
        let [argument] = &call.arguments.get(index)?[..] else { return None };
        let words = call.words_before;
        let type_at = find_type(words, &argument.text)?;
        let ty = words[type_at].text.as_str();
        let is_whole =
            type_at < 1 || !words[type_at - 1].is_name || words[type_at - 1].text == "const";
        let is_known = KNOWN.contains(&ty) || self.context.template_types.contains(ty);
        (is_known && is_whole).then(|| ty.to_owned())
    }

    /// The body of `definition` for `call`, and the type of its result.
    fn expand_call(
        &mut self,
        definition: &Definition,
        call: &Call,
    ) -> Option<(Vec<Word>, Vec<Word>)> {
        let Call { template, arguments, number, level, .. } = call;
        let (number, level) = (*number, *level);
        if arguments.len() > definition.parameters.len()
            || template.len() > definition.template.len()
        {
            return None;
        }
        let mut replaced: BTreeMap<String, Vec<Word>> = BTreeMap::new();
        for (index, (parameter, default)) in definition.template.iter().enumerate() {
            let value = match template.get(index) {
                Some(given) => given.clone(),
                None => match self.deduce_type(parameter, definition, call) {
                    Some(deduced) => vec![name(&deduced)],
                    None if !default.is_empty() => default.clone(),
                    None => return None,
                },
            };
            replaced.insert(parameter.clone(), value);
        }
        let mut body = Vec::new();
        let mut names: BTreeMap<String, Vec<Word>> = replaced.clone();
        let text = format!("{{ {} }}", write_words(&definition.body));
        let unit = SourceUnit { path: "", text: &text };
        let source = Source::new(&unit);
        let tokens = source.view(true);
        let locals = declared_names(&text, &tokens, 0)?;
        for local in &locals {
            names.insert(local.clone(), vec![name(&renamed(local, number))]);
        }
        for (index, parameter) in definition.parameters.iter().enumerate() {
            let argument = match arguments.get(index) {
                Some(argument) => argument.clone(),
                None if !parameter.default.is_empty() => substitute(&parameter.default, &replaced),
                None => return None,
            };
            let is_reference = parameter.ty.last().is_some_and(|word| word.text == "&");
            let is_constant = parameter.ty.first().is_some_and(|word| word.text == "const");
            if is_reference && argument.len() == 1 && argument[0].is_name {
                names.insert(parameter.name.clone(), argument);
                continue;
            }
            if is_reference && !is_constant || parameter.name.is_empty() {
                return None;
            }
            let mut ty = substitute(&parameter.ty, &replaced);
            ty.retain(|word| !matches!(word.text.as_str(), "&" | "__restrict__" | "__restrict"));
            let own = renamed(&parameter.name, number);
            body.extend(ty);
            body.extend([name(&own), sign("=")]);
            body.extend(argument);
            body.push(sign(";"));
            names.insert(parameter.name.clone(), vec![name(&own)]);
        }
        // A name of the kernel would hide what the function means by it.
        let is_hidden =
            |name: &str| self.context.own_names.contains(name) && !names.contains_key(name);
        let mut free_names =
            mentioned_names(&definition.body).chain(mentioned_names(&definition.returned));
        if free_names.any(is_hidden) {
            return None;
        }
        let mut words = self.take_shared(definition, &replaced, &mut names)?;
        words = substitute(&words, &names);
        if !definition.returned.is_empty() {
            words.extend([name(&format!("result_replay_{number}")), sign("=")]);
            words.extend(substitute(&definition.returned, &names));
            words.push(sign(";"));
        }
        body.extend(words);
        let body = self.expand_all(body, level + 1)?;
        Some((body, substitute(&definition.result, &replaced)))
    }

    /// `words`, statements, with all calls of waiting functions put in.
    fn expand_all(&mut self, mut words: Vec<Word>, level: usize) -> Option<Vec<Word>> {
        let mut at = 0;
        while at < words.len() {
            if !words[at].is_name
                || !self.context.functions.definitions.contains_key(&words[at].text)
            {
                at += 1;
                continue;
            }
            let statement = statement_around(&words, at)?;
            let code = self.expand_statement(&words, statement.clone(), at, level)?;
            let count = code.len();
            let start = statement.start;
            words.splice(statement, code);
            at = start + count;
        }
        Some(words)
    }

    /// The body of `definition` without its shared memory, which the kernel declares once for all calls.
    fn take_shared(
        &mut self,
        definition: &Definition,
        replaced: &BTreeMap<String, Vec<Word>>,
        names: &mut BTreeMap<String, Vec<Word>>,
    ) -> Option<Vec<Word>> {
        let mut kept = Vec::new();
        let mut shared = Vec::new();
        let mut start = 0;
        let mut depth = 0usize;
        for at in 0..definition.body.len() {
            match definition.body[at].text.as_str() {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > 0 || !matches!(definition.body[at].text.as_str(), ";" | "}") {
                continue;
            }
            let statement = &definition.body[start..=at];
            start = at + 1;
            let is_shared = statement
                .iter()
                .any(|word| word.text == "shared_slot" || word.text.starts_with("replay_shared_"));
            if is_shared {
                shared.extend_from_slice(statement);
            } else {
                kept.extend_from_slice(statement);
            }
        }
        kept.extend_from_slice(&definition.body[start..]);
        if kept.iter().any(|word| word.text.starts_with("replay_")) {
            return None;
        }
        if shared.is_empty() {
            return Some(kept);
        }
        // The same arrays for the same instance.
        let key: String = replaced.values().map(|words| write_words(words)).collect();
        let key: String =
            key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let mut own: BTreeMap<String, Vec<Word>> = replaced.clone();
        for word in shared.iter().filter(|word| word.is_name) {
            if let Some(rest) = word.text.strip_prefix("replay_shared_") {
                let array = rest.trim_end_matches("_slot").trim_end_matches("_t");
                let arrays = format!("{}_{key}_replay", array);
                own.insert(
                    word.text.clone(),
                    vec![name(&format!("replay_shared_{}_{key}_{rest}", definition.number))],
                );
                let variable = format!("{arrays}_{}", definition.number);
                own.insert(array.to_owned(), vec![name(&variable)]);
                names.insert(array.to_owned(), vec![name(&variable)]);
            }
        }
        let declarations = substitute(&shared, &own);
        let declared = write_words(&declarations);
        if !write_words(&self.shared).contains(&declared) {
            self.shared.extend(declarations);
        }
        Some(kept)
    }
}

fn renamed(local: &str, number: usize) -> String {
    format!("{local}_replay_{number}")
}

fn name(text: &str) -> Word {
    Word { text: text.to_owned(), is_name: true, place: String::new(), line: 0 }
}

fn sign(text: &str) -> Word {
    Word { text: text.to_owned(), is_name: false, place: String::new(), line: 0 }
}

fn is_word(words: &[Word], at: usize, text: &str) -> bool {
    words.get(at).is_some_and(|word| word.text == text)
}

/// `words` as text. Operators of several characters stay together.
fn write_words(words: &[Word]) -> String {
    let mut text = String::new();
    for (at, word) in words.iter().enumerate() {
        if word.text == "__syncthreads" || word.text.starts_with("__shfl") {
            text += &word.place;
        }
        text += &word.text;
        let joins = !word.is_name
            && words.get(at + 1).is_some_and(|next| {
                let both = format!("{}{}", word.text, next.text);
                OPERATORS.contains(&both.as_str())
            });
        if !joins {
            text.push(' ');
        }
    }
    text
}

/// `words` as text whose lines are those of the words, from `line` on.
fn write_lines(words: &[Word], mut line: usize) -> String {
    let mut text = String::new();
    let mut start = 0;
    for at in 0..=words.len() {
        let begins_line = words.get(at).is_none_or(|word| word.line > line);
        if !begins_line {
            continue;
        }
        text += &write_words(&words[start..at]);
        line += words[start..at].iter().map(|word| word.text.matches('\n').count()).sum::<usize>();
        if let Some(word) = words.get(at) {
            text += &"\n".repeat(word.line.saturating_sub(line));
            line = word.line.max(line);
        }
        start = at;
    }
    text
}

/// The operators of two characters that tokens cut in two, and the starts of longer ones.
const OPERATORS: [&str; 19] = [
    "==", "!=", "<=", ">=", "&&", "||", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<", ">>",
    "++", "--", "##",
];

/// The names in `words`, but for members.
fn mentioned_names(words: &[Word]) -> impl Iterator<Item = &str> {
    words
        .iter()
        .enumerate()
        .filter(|&(at, word)| word.is_name && !is_member(words, at))
        .map(|(_, word)| word.text.as_str())
}

/// Whether the name at `at` is one of a member or behind a scope.
fn is_member(words: &[Word], at: usize) -> bool {
    at > 0 && matches!(words[at - 1].text.as_str(), "." | "->" | "::")
}

/// Every name mapped by `names` replaced, but for members.
fn substitute(words: &[Word], names: &BTreeMap<String, Vec<Word>>) -> Vec<Word> {
    let mut out = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match names.get(&word.text) {
            Some(replacement) if word.is_name && !is_member(words, at) => {
                out.extend(replacement.iter().cloned())
            }
            _ => out.push(word.clone()),
        }
    }
    out
}

/// The index behind the bracket at `open`.
fn skip_brackets(words: &[Word], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, word) in words.iter().enumerate().skip(open) {
        match word.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// The `>` of the template arguments at `open`, which are names and numbers.
fn find_angle(words: &[Word], open: usize) -> Option<usize> {
    let is_plain = |word: &&Word| {
        word.is_name || word.text == "," || word.text.starts_with(|c: char| c.is_ascii_digit())
    };
    let count = words[open + 1..].iter().take_while(is_plain).count();
    is_word(words, open + 1 + count, ">").then_some(open + 1 + count)
}

/// `words` split at their commas outside of brackets.
fn split_at_commas(words: &[Word]) -> Vec<Vec<Word>> {
    let mut pieces = vec![Vec::new()];
    let mut depth = 0usize;
    for word in words {
        match word.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            "," if depth == 0 => {
                pieces.push(Vec::new());
                continue;
            }
            _ => {}
        }
        pieces.last_mut().expect("there is one").push(word.clone());
    }
    if words.is_empty() { Vec::new() } else { pieces }
}

/// The statement of `words` around the name at `at`, its semicolon included; none below the head of a loop or a condition.
fn statement_around(words: &[Word], at: usize) -> Option<Range<usize>> {
    let mut start = at;
    let mut depth = 0usize;
    while start > 0 {
        let before = words[start - 1].text.as_str();
        match before {
            ")" | "]" => depth += 1,
            "(" | "[" if depth > 0 => {
                depth -= 1;
                if depth == 0
                    && start >= 2
                    && matches!(words[start - 2].text.as_str(), "if" | "for" | "while" | "switch")
                {
                    // The head of the statement in front of this one.
                    let head = start - 1;
                    start = skip_brackets(words, head)?;
                    break;
                }
            }
            "(" if start >= 2
                && matches!(
                    words[start - 2].text.as_str(),
                    "if" | "for" | "while" | "switch" | "decltype" | "sizeof"
                ) =>
            {
                return None;
            }
            ";" | "{" | "}" | "else" | "do" if depth == 0 => break,
            _ if before.starts_with('#') => break,
            ":" | "?" if depth == 0 => return None,
            _ => {}
        }
        start -= 1;
    }
    let mut end = at;
    loop {
        match words.get(end)?.text.as_str() {
            ";" => return Some(start..end + 1),
            "{" | "}" => return None,
            "(" | "[" => end = skip_brackets(words, end)?,
            _ => end += 1,
        }
    }
}

/// Functions that have no effect but their result.
const PURE: [&str; 10] =
    ["rsqrtf", "sqrtf", "expf", "logf", "fabsf", "fmaxf", "fminf", "float", "max", "min"];

/// Refuses the statement unless the rest of it may be computed behind the `call`: no memory is read, nothing else is
/// called, and no operator decides whether the call is made.
fn check_rest(
    words: &[Word],
    statement: Range<usize>,
    call: Range<usize>,
    functions: &WaitingFunctions,
) -> Option<()> {
    let has_other_call = statement
        .clone()
        .filter(|at| !call.contains(at))
        .any(|at| functions.definitions.contains_key(&words[at].text));
    let arguments = (call.start..call.end).find(|&at| words[at].text == "(")?..call.end;
    let waits_in_arguments =
        arguments.into_iter().any(|at| functions.definitions.contains_key(&words[at].text));
    // The argument may be a variable that the same declaration declares.
    let has_comma =
        statement.clone().filter(|at| !call.contains(at)).any(|at| words[at].text == ",");
    if has_other_call || waits_in_arguments || has_comma {
        return None;
    }
    // What is assigned to is looked up behind the right side.
    let assignment = (statement.start..call.start).rev().find(|&at| words[at].text == "=");
    let first = match assignment {
        Some(at) => at + 1,
        None => statement.start,
    };
    for at in (first..call.start).chain(call.end..statement.end - 1) {
        let word = &words[at];
        let text = word.text.as_str();
        let called = is_word(words, at + 1, "(");
        let is_fine = match text {
            "+" | "-" | "/" | "(" | ")" | "." => true,
            "*" => {
                at > first
                    && (words[at - 1].is_name
                        || words[at - 1].text == ")"
                        || is_number(&words[at - 1]))
            }
            "::" => false,
            _ if word.is_name => !called || PURE.contains(&text),
            _ => is_number(word),
        };
        if !is_fine {
            return None;
        }
    }
    Some(())
}

fn is_number(word: &Word) -> bool {
    word.text.starts_with(|c: char| c.is_ascii_digit())
}

/// Whether the statement declares a variable: two names in a row, or a pointer's name.
fn declares(words: &[Word], statement: Range<usize>) -> bool {
    let assignment = statement.clone().find(|&at| words[at].text == "=").unwrap_or(statement.end);
    let names = (statement.start..assignment).filter(|&at| words[at].is_name);
    names.clone().zip(names.skip(1)).any(|(one, other)| one + 1 == other)
}

/// The index of the last word of the type of `variable` in its declaration among `words`, the code before its use. What is
/// declared in a block that has ended is another variable; none, too, if the head of a loop declares one by this name.
fn find_type(words: &[Word], variable: &str) -> Option<usize> {
    let mut ended_blocks = 0usize;
    let mut ended_brackets = 0usize;
    for at in (1..words.len()).rev() {
        match words[at].text.as_str() {
            "}" => ended_blocks += 1,
            "{" => ended_blocks = ended_blocks.saturating_sub(1),
            ")" => ended_brackets += 1,
            "(" => ended_brackets = ended_brackets.saturating_sub(1),
            text if text == variable && ended_blocks == 0 => {
                let next = words.get(at + 1).map_or("", |next| next.text.as_str());
                let type_at = match words[at - 1].text.as_str() {
                    "," => find_type_of_list(words, at - 1),
                    _ => words[at - 1].is_name.then_some(at - 1),
                };
                if type_at.is_some() && matches!(next, "=" | ";" | ",") {
                    return type_at.filter(|_| ended_brackets == 0);
                }
            }
            _ => {}
        }
    }
    None
}

/// The index of the type in the list of variables with a comma at `comma`, if it is one: `float a = 0, b`.
fn find_type_of_list(words: &[Word], comma: usize) -> Option<usize> {
    let mut ended_brackets = 0usize;
    let mut start = 0;
    for at in (0..comma).rev() {
        match words[at].text.as_str() {
            ")" | "]" => ended_brackets += 1,
            "(" | "[" => ended_brackets = ended_brackets.checked_sub(1)?,
            ";" | "{" | "}" if ended_brackets == 0 => {
                start = at + 1;
                break;
            }
            _ => {}
        }
    }
    let is_keyword =
        ["return", "else", "do", "case", "const"].contains(&words[start].text.as_str());
    let declares = words[start].is_name
        && words[start + 1].is_name
        && matches!(words[start + 2].text.as_str(), "=" | ",");
    (declares && !is_keyword).then_some(start)
}

/// The tokens of `range` with the places of those that wait.
fn read_words(source: &Source, tokens: &Tokens, range: Range<usize>) -> Vec<Word> {
    range
        .map(|at| {
            let token = tokens[at];
            let text = token.text(source.text);
            let place = format!("{PLACE}{} {}*/", source.line(token.start).max(2) - 1, source.path);
            let is_name = token.kind == TokenKind::Ident;
            Word { text: text.to_owned(), is_name, place, line: source.line(token.start) }
        })
        .collect()
}

/// The template parameters of the function `item` that are types.
pub(super) fn template_types(text: &str, tokens: &Tokens, item: &Item) -> BTreeSet<String> {
    let mut types = BTreeSet::new();
    for at in item.tokens.start..item.name_at {
        let introduces =
            ["typename", "class"].iter().any(|word| tokens.is_spelled_at(text, at, word));
        if introduces && tokens[at + 1].kind == TokenKind::Ident {
            types.insert(tokens[at + 1].text(text).to_owned());
        }
    }
    types
}

/// A namespace of a file.
#[derive(Debug)]
struct Namespace {
    names: Vec<String>,
    /// The tokens of its members.
    members: Range<usize>,
}

/// The namespaces of a file in their order.
fn find_namespaces(text: &str, tokens: &Tokens) -> Vec<Namespace> {
    let starts = (0..tokens.len()).filter(|&at| tokens.is_spelled_at(text, at, "namespace"));
    let namespaces = starts.filter_map(|start| {
        let end = tokens.len().min(start + MOST_NAMESPACE_TOKENS);
        let brace = (start..end).find(|&at| tokens.is_spelled_at(text, at, "{"))?;
        let names = (start + 1..brace).map(|at| tokens[at].text(text));
        let names = names.filter(|word| *word != "::").map(str::to_owned).collect();
        Some(Namespace { names, members: brace..tokens.skip_group(brace)? })
    });
    namespaces.collect()
}

/// The names of the `namespaces` around token `at`.
fn scope_of(namespaces: &[Namespace], at: usize) -> Vec<String> {
    let around = namespaces.iter().filter(|namespace| namespace.members.contains(&at));
    around.flat_map(|namespace| namespace.names.iter().cloned()).collect()
}

/// The names declared by the statements behind the brace at `open`; none if they are not understood.
fn declared_names(text: &str, tokens: &Tokens, open: usize) -> Option<BTreeSet<String>> {
    let statements = parse_kernel_body(text, tokens, open, &[]).ok()?;
    let mut names = BTreeSet::new();
    let mut declare = |range: Range<usize>| match parse_declaration(text, tokens, range) {
        DeclarationKind::Nothing => {}
        DeclarationKind::Variables(declaration) => {
            let declarators = declaration.declarators.iter();
            names.extend(declarators.map(|one| tokens[one.name].text(text).to_owned()));
        }
        DeclarationKind::Other(list) => {
            names.extend(list.into_iter().map(|at| tokens[at].text(text).to_owned()));
        }
    };
    let mut pending: Vec<&KernelStatement> = statements.iter().collect();
    while let Some(statement) = pending.pop() {
        match &statement.form {
            StatementForm::List(list) => pending.extend(list),
            StatementForm::If { head, branches, .. } => {
                declare(head_declaration(text, tokens, head));
                pending.extend(branches);
            }
            StatementForm::Loop { head, body, .. } | StatementForm::Switch { head, body } => {
                declare(head_declaration(text, tokens, head));
                pending.push(body);
            }
            StatementForm::Do { body } => pending.push(body),
            StatementForm::Simple => declare(statement.tokens.start..statement.tokens.end - 1),
            StatementForm::Label | StatementForm::Barrier | StatementForm::Return => {}
        }
    }
    Some(names)
}

fn head_declaration(text: &str, tokens: &Tokens, head: &Range<usize>) -> Range<usize> {
    let semicolon = head.clone().find(|&at| tokens.is_spelled_at(text, at, ";"));
    head.start..semicolon.unwrap_or(head.end)
}

/// The name of the template parameter `piece`: a type, a value, or a function as `T (*NAME)(T)`; none for others.
fn template_parameter_name(piece: &[Word]) -> Option<String> {
    if piece.iter().any(|word| matches!(word.text.as_str(), "." | "template")) {
        return None;
    }
    let name = match piece.iter().position(|word| word.text == "(") {
        Some(open) => {
            let is_pointer = is_word(piece, open + 1, "*") && is_word(piece, open + 3, ")");
            piece.get(open + 2).filter(|_| is_pointer)
        }
        None => piece.last(),
    };
    name.filter(|word| word.is_name).map(|word| word.text.clone())
}

/// Words in front of a function's result type.
const SPECIFIERS: [&str; 10] = [
    "__device__",
    "__host__",
    "__forceinline__",
    "__inline__",
    "inline",
    "static",
    "constexpr",
    "__noinline__",
    "extern",
    "__inline",
];

/// The functions that `cg::reduce` of a warp becomes, by its operation, with the steps of the header.
const WARP_REDUCTIONS: [(&str, &str); 3] = [
    ("plus", "sum_of_warp_replay"),
    ("greater", "greatest_of_warp_replay"),
    ("less", "least_of_warp_replay"),
];
const WARP_REDUCTION_SOURCE: &str = "
template <typename T> __device__ T sum_of_warp_replay(T value) {
    for (unsigned distance = 16; distance > 0; distance /= 2)
        value = value + __shfl_xor_sync(0xffffffffu, value, distance);
    return value;
}
template <typename T> __device__ T greatest_of_warp_replay(T value) {
    for (unsigned distance = 16; distance > 0; distance /= 2)
        value = greater_replay(value, __shfl_xor_sync(0xffffffffu, value, distance));
    return value;
}
template <typename T> __device__ T least_of_warp_replay(T value) {
    for (unsigned distance = 16; distance > 0; distance /= 2)
        value = less_replay(value, __shfl_xor_sync(0xffffffffu, value, distance));
    return value;
}
";
/// The index of a thread in its block, and the number of threads, as groups count them.
const THREAD_RANK: &str = "(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z))";
const THREAD_COUNT: &str = "(blockDim.x * blockDim.y * blockDim.z)";

/// What a member function of a group of the whole block gives.
fn value_of_block(name: &str) -> Option<String> {
    let value = match name {
        "sync" => "__syncthreads()",
        "thread_rank" => THREAD_RANK,
        "thread_index" => "threadIdx",
        "group_index" => "blockIdx",
        "group_dim" | "dim_threads" => "blockDim",
        "size" | "num_threads" => THREAD_COUNT,
        _ => return None,
    };
    Some(value.to_owned())
}

/// The same of a group of a warp.
fn value_of_warp(name: &str) -> Option<String> {
    match name {
        "thread_rank" => Some(format!("({THREAD_RANK} % 32u)")),
        "meta_group_rank" => Some(format!("({THREAD_RANK} / 32u)")),
        "size" | "num_threads" => Some("32u".to_owned()),
        "meta_group_size" => Some(format!("(({THREAD_COUNT} + 31u) / 32u)")),
        _ => None,
    }
}

/// `words` with groups of a whole block and of whole warps replaced by what they stand for; unchanged if there are other
/// uses of them.
fn replace_groups(words: Vec<Word>) -> Vec<Word> {
    let mut blocks: BTreeSet<String> = BTreeSet::new();
    let mut warps: BTreeSet<String> = BTreeSet::new();
    let mut out: Vec<Word> = Vec::new();
    let mut at = 0;
    let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let replace = |out: &mut Vec<Word>, at: usize, text: &str| {
        let unit = SourceUnit { path: "", text };
        let source = Source::new(&unit);
        let mut code = read_words(&source, &source.view(true), 0..source.view(true).len());
        for word in &mut code {
            word.place = words[at].place.clone();
            word.line = words[at].line;
        }
        out.extend(code);
    };
    while at < words.len() {
        let rest = &texts[at..];
        let rest = if rest.len() > 2
            && matches!(rest[0], "cg" | "cooperative_groups")
            && rest[1] == "::"
        {
            &rest[2..]
        } else {
            rest
        };
        let start = texts.len() - rest.len();
        let value = match rest {
            [group, ".", name, "(", ")", ..] if blocks.contains(*group) => value_of_block(name),
            [group, ".", name, "(", ")", ..] if warps.contains(*group) => value_of_warp(name),
            _ => None,
        };
        if let Some(value) = value {
            replace(&mut out, at, &value);
            at = start + 5;
            continue;
        }
        let mut tile_types = [&["auto"][..], &["thread_block_tile", "<", "32", ">"]].into_iter();
        if let Some(
            [
                warp,
                "=",
                "cg" | "cooperative_groups",
                "::",
                "tiled_partition",
                "<",
                "32",
                ">",
                "(",
                block,
                ")",
                ";",
                behind @ ..,
            ],
        ) = tile_types.find_map(|words| rest.strip_prefix(words))
            && blocks.contains(*block)
        {
            warps.insert((*warp).to_owned());
            at = texts.len() - behind.len();
            continue;
        }
        match rest {
            [
                "thread_block" | "auto",
                block,
                "=",
                "cg" | "cooperative_groups",
                "::",
                "this_thread_block",
                "(",
                ")",
                ";",
                ..,
            ] => {
                blocks.insert((*block).to_owned());
                at = start + 9;
            }
            ["reduce", "(", warp, ",", ..] if start > at && warps.contains(*warp) => {
                let pieces = skip_brackets(&words, start + 1)
                    .map(|after| (after, split_at_commas(&words[start + 2..after - 1])));
                let reduction = pieces.as_ref().and_then(|(after, pieces)| match &pieces[..] {
                    [_, value, operation] => find_reduction(operation)
                        .filter(|(_, ty)| is_variable_of(value, ty, &words[..at]))
                        .map(|(function, ty)| (*after, value, function, ty)),
                    _ => None,
                });
                match reduction {
                    Some((after, value, function, ty)) => {
                        replace(&mut out, at, &format!("{function}<{ty}>("));
                        out.extend(value.iter().cloned());
                        out.push(Word { line: words[at].line, ..sign(")") });
                        at = after;
                    }
                    None => {
                        out.push(words[at].clone());
                        at += 1;
                    }
                }
            }
            _ => {
                out.push(words[at].clone());
                at += 1;
            }
        }
    }
    // A group that is asked for something else has to be there.
    if out.iter().any(|word| blocks.contains(&word.text) || warps.contains(&word.text)) {
        return words;
    }
    out
}

/// Whether `value` is a variable that the code before it declares with the type `ty`.
fn is_variable_of(value: &[Word], ty: &str, before: &[Word]) -> bool {
    let [variable] = value else { return false };
    find_type(before, &variable.text).is_some_and(|at| before[at].text == ty)
}

/// The function for `cg::plus<T>()` or `cg::plus<T>{}` and its like, and `T`.
fn find_reduction(operation: &[Word]) -> Option<(&'static str, String)> {
    let texts: Vec<&str> = operation.iter().map(|word| word.text.as_str()).collect();
    let ["cg" | "cooperative_groups", "::", name, "<", ty, ">", "(" | "{", ")" | "}"] = texts[..]
    else {
        return None;
    };
    let (_, function) = WARP_REDUCTIONS.iter().find(|(operation, _)| *operation == name)?;
    Some((function, ty.to_owned()))
}

/// A macro with parameters that shuffles.
#[derive(Debug)]
struct ShuffleMacro {
    name: String,
    parameters: Vec<String>,
    body: Vec<Word>,
}

/// The macros of `source` with parameters and a shuffle in them.
fn find_shuffle_macros(source: &Source) -> Vec<ShuffleMacro> {
    let mut found = Vec::new();
    for &token in source.tokens.iter().filter(|token| token.kind == TokenKind::Directive) {
        let text = token.text(source.text);
        let defined = text.trim_start_matches('#').trim_start().strip_prefix("define");
        let Some(defined) = defined.filter(|_| text.contains("__shfl")) else { continue };
        let joined = defined.replace("\\\n", " ");
        let unit = SourceUnit { path: source.path, text: &joined };
        let macro_source = Source::new(&unit);
        let tokens = macro_source.view(true);
        let Some(close) = (tokens.len() > 1).then(|| tokens.skip_group(1)).flatten() else {
            continue;
        };
        let is_function = tokens.is_spelled_at(&joined, 1, "(") && tokens[1].start == tokens[0].end;
        let body = read_words(&macro_source, &tokens, close..tokens.len());
        if !is_function || body.iter().any(|word| word.text.starts_with('#')) {
            continue;
        }
        let parameters = (2..close - 1).map(|at| tokens[at].text(&joined));
        let parameters = parameters.filter(|word| *word != ",").map(str::to_owned).collect();
        found.push(ShuffleMacro { name: tokens[0].text(&joined).to_owned(), parameters, body });
    }
    found
}

/// `words` with `macros` expanded.
fn expand_macros(words: Vec<Word>, macros: &[ShuffleMacro]) -> Option<Vec<Word>> {
    let mut out: Vec<Word> = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let Some(expanded) = macros.iter().find(|one| one.name == words[at].text) else {
            out.push(words[at].clone());
            at += 1;
            continue;
        };
        if !is_word(&words, at + 1, "(") {
            return None;
        }
        let after = skip_brackets(&words, at + 1)?;
        let arguments = split_at_commas(&words[at + 2..after - 1]);
        if arguments.len() != expanded.parameters.len() {
            return None;
        }
        let names = expanded.parameters.iter().cloned().zip(arguments).collect();
        // The place of the use.
        let mut body = substitute(&expanded.body, &names);
        for word in &mut body {
            word.place = words[at].place.clone();
            word.line = words[at].line;
        }
        out.extend(body);
        at = after;
    }
    Some(out)
}

/// The function `item`, its number and namespaces left open; none if it is not understood.
fn read_definition(
    source: &Source,
    tokens: &Tokens,
    macros: &[ShuffleMacro],
    item: &Item,
) -> Option<Definition> {
    let text = source.text;
    let body = item.body.start + 1..item.body.end - 1;
    let has_lines = item.tokens.clone().any(|at| {
        tokens[at].kind == TokenKind::Directive
            && !tokens[at].text(text).trim_start_matches('#').trim_start().starts_with("pragma")
    });
    if has_lines {
        return None;
    }
    let mut start = item.tokens.start;
    let mut template = Vec::new();
    while tokens.is_spelled_at(text, start, "template") {
        let after = tokens.skip_angles(text, start + 1)?;
        for piece in split_at_commas(&read_words(source, tokens, start + 2..after - 1)) {
            let end = piece.iter().position(|word| word.text == "=").unwrap_or(piece.len());
            let parameter = template_parameter_name(&piece[..end])?;
            template.push((parameter, piece.get(end + 1..).unwrap_or_default().to_vec()));
        }
        start = after;
    }
    let mut result: Vec<Word> = read_words(source, tokens, start..item.name_at)
        .into_iter()
        .filter(|word| !SPECIFIERS.contains(&word.text.as_str()))
        .collect();
    if result.is_empty() || result.iter().any(|word| !word.is_name) {
        return None;
    }
    let is_void = result.iter().any(|word| word.text == "void");
    let close = tokens.skip_group(item.name_at + 1)?;
    if !tokens.is_spelled_at(text, item.name_at + 1, "(") || close != item.body.start {
        return None;
    }
    let mut parameters = Vec::new();
    for piece in split_at_commas(&read_words(source, tokens, item.name_at + 2..close - 1)) {
        let end = piece.iter().position(|word| word.text == "=").unwrap_or(piece.len());
        let (last, ty) = piece[..end].split_last()?;
        let is_plain = |word: &Word| word.is_name || matches!(word.text.as_str(), "*" | "&");
        if !last.is_name || ty.is_empty() || !ty.iter().all(is_plain) {
            return None;
        }
        let default = piece.get(end + 1..).unwrap_or_default().to_vec();
        parameters.push(Parameter { ty: ty.to_vec(), name: last.text.clone(), default });
    }
    let is_code = |at: &usize| tokens[*at].kind != TokenKind::Directive;
    let indices: Vec<usize> = body.filter(is_code).collect();
    let words: Vec<Word> =
        indices.iter().flat_map(|&at| read_words(source, tokens, at..at + 1)).collect();
    let mut words = replace_groups(expand_macros(words, macros)?);
    words.iter_mut().for_each(|word| word.line = 0);
    for parameter in &mut parameters {
        parameter.ty.iter_mut().chain(&mut parameter.default).for_each(|word| word.line = 0);
    }
    let defaults = template.iter_mut().flat_map(|(_, default)| default);
    defaults.chain(&mut result).for_each(|word| word.line = 0);
    let returns: Vec<usize> = (0..words.len()).filter(|&at| words[at].text == "return").collect();
    let (body, returned) = match (&returns[..], is_void) {
        ([], true) => (words, Vec::new()),
        (&[at], false) if is_word(&words, words.len() - 1, ";") => {
            let value = words[at + 1..words.len() - 1].to_vec();
            let is_last = !value.iter().any(|word| word.text == ";");
            let is_statement = at == 0 || matches!(words[at - 1].text.as_str(), ";" | "}" | "{");
            if !is_last || !is_statement || value.is_empty() {
                return None;
            }
            (words[..at].to_vec(), value)
        }
        _ => return None,
    };
    let result = if is_void { Vec::new() } else { result };
    Some(Definition { number: 0, scope: Vec::new(), template, result, parameters, body, returned })
}
