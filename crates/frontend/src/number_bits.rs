//! Bits of numbers in the float64 shadow (`replay/number_bits.h`): which declarations of a source hold them, so that the
//! number itself comes along.

use std::collections::BTreeSet;
use std::ops::Range;

use super::edits::Edits;
use super::host::HostContext;
use super::lexer::{Token, TokenKind, Tokens};
use super::outline::Item;
use super::reachability::is_generic;
use super::shadow::{FLOATS, INTEGERS, find_cast_type, names_any};

/// The types of a word as wide as a float.
const WORDS: [&str; 6] = ["int", "unsigned", "int32_t", "uint32_t", "uint", "signed"];

/// Functions from bits to numbers and back.
const CONVERSIONS: [&str; 4] =
    ["__float_as_int", "__float_as_uint", "__int_as_float", "__uint_as_float"];

/// Functions from numbers to bits.
const TO_BITS: [&str; 2] = ["__float_as_int", "__float_as_uint"];
/// Functions that take bits of a number as an argument.
const TAKES_BITS: [&str; 6] =
    ["__int_as_float", "__uint_as_float", "atomicMax", "atomicMin", "atomicExch", "atomicCAS"];

/// Gives the integers of the union whose brace opens at `open_brace` the type of a number's bits, if all members are
/// single floats and words. Whether they are.
pub(super) fn share_union(
    text: &str,
    tokens: &Tokens,
    open_brace: usize,
    edits: &mut Edits,
) -> bool {
    let Some(union_end) = tokens.skip_group(open_brace) else { return false };
    let mut words = Vec::new();
    let mut start = open_brace + 1;
    while start < union_end - 1 {
        let Some(end) = (start..union_end).find(|&index| tokens.is_spelled_at(text, index, ";"))
        else {
            return false;
        };
        let [types @ .., name] = &tokens[start..end] else { return false };
        if name.kind != TokenKind::Ident || types.is_empty() {
            return false;
        }
        let all = |names: &[&str]| types.iter().all(|word| names.contains(&word.text(text)));
        if all(&WORDS) {
            words.push(types[0].start..types[types.len() - 1].end);
        } else if !all(&["float"]) || types.len() > 1 {
            return false;
        }
        start = end + 1;
    }
    for word in words {
        edits.insert(word.start, "::replay_rt::bits_member<");
        edits.insert(word.end, ">");
    }
    true
}

/// Gives the variables of each function by which bits go to an atomic, or become a number again, a type that keeps the
/// number, and pointers made by a cast of numbers the type of the cast.
pub(super) fn keep_numbers_in_words(context: &HostContext, edits: &mut Edits) {
    let text = context.source.text;
    let tokens = &context.tokens;
    for function in &context.functions {
        let body = function.body.clone();
        let has =
            |name: &str| tokens[body.clone()].iter().any(|token| token.is_spelled(text, name));
        if !CONVERSIONS.iter().any(|name| has(name)) {
            continue;
        }
        let mut carrying = swapped_names(text, tokens, body.clone());
        carrying.extend(carried_names(text, tokens, body.clone()));
        let mut index = body.start;
        while index < body.end {
            let types = word_type(text, tokens, index);
            if types.is_empty() {
                index += 1;
                continue;
            }
            if tokens.is_spelled_at(text, types.end, "*") {
                if casts_to_word(text, tokens, types.end + 1) {
                    edits.replace(tokens[types.start].start..tokens[types.end].end, "auto");
                }
            } else if declared_names(text, tokens, types.end).any(|name| carrying.contains(name)) {
                edits.insert(tokens[types.start].start, "::replay_rt::bits_word<");
                edits.insert(tokens[types.end - 1].end, ">");
            }
            index = types.end;
        }
    }
}

/// The places of functions that swap the bits of `double`s of the sources in an atomic, and have no narrower numbers: these are
/// the same in the shadow.
pub(super) fn find_swaps_of_doubles(context: &HostContext, items: &[Item]) -> Vec<Range<usize>> {
    let text = context.source.text;
    let tokens = &context.tokens;
    let swaps_doubles = |function: &&Item| {
        let words = &tokens[function.tokens.clone()];
        let has = |name: &str| words.iter().any(|word| word.is_spelled(text, name));
        has("atomicCAS")
            && has("double")
            && !has("auto")
            && !FLOATS.iter().any(|names| names_any(text, words, names))
            && !is_generic(tokens, items, words[0].start)
    };
    let functions = context.functions.iter().filter(swaps_doubles);
    functions
        .map(|function| tokens[function.tokens.start].start..tokens[function.tokens.end - 1].end)
        .collect()
}

/// The function that takes the place of `name` there.
pub(super) fn spell_bits_of_double(name: &str) -> Option<&'static str> {
    match name {
        "__double_as_longlong" => Some("::replay_rt::bits<long long, double>"),
        "__longlong_as_double" => Some("::replay_rt::bits<double, long long>"),
        _ => None,
    }
}

/// Whether the cast at `index` is one to a pointer to integers as wide as a `double`.
pub(super) fn is_double_word_cast(text: &str, tokens: &Tokens, index: usize) -> bool {
    find_cast_type(text, tokens, index).is_some_and(|words| {
        let words = &tokens[words];
        let count = |name: &str| words.iter().filter(|word| word.is_spelled(text, name)).count();
        words.last().is_some_and(|sign| sign.is_spelled(text, "*"))
            && (count("long") == 2 || count("int64_t") + count("uint64_t") == 1)
    })
}

/// The variables in `body` compared by an `atomicCAS` or assigned from one.
fn swapped_names<'t>(text: &'t str, tokens: &Tokens, body: Range<usize>) -> BTreeSet<&'t str> {
    let mut names = BTreeSet::new();
    for index in body.filter(|&index| tokens.is_spelled_at(text, index, "atomicCAS")) {
        if let Some(call_end) = tokens.skip_group(index + 1) {
            let arguments = tokens.split_arguments(text, index + 2..call_end - 1);
            if let Some(compared) = arguments.get(1).filter(|argument| argument.len() == 1) {
                names.insert(tokens[compared.start].text(text));
            }
        }
        let assigned = if tokens.text_at(text, index - 1) == "::" { index - 1 } else { index };
        if tokens.text_at(text, assigned - 1) == "=" {
            names.insert(tokens.text_at(text, assigned - 2));
        }
    }
    names
}

/// The variables in `body` that begin as the bits of a number, and go to an atomic or become a number again.
fn carried_names<'t>(text: &'t str, tokens: &Tokens, body: Range<usize>) -> BTreeSet<&'t str> {
    let mut begun = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for index in body {
        let word = tokens.text_at(text, index);
        if TO_BITS.contains(&word) && tokens.is_spelled_at(text, index - 1, "=") {
            begun.insert(tokens.text_at(text, index - 2));
        }
        if TAKES_BITS.contains(&word)
            && let Some(call_end) = tokens.skip_group(index + 1)
        {
            let arguments = tokens.split_arguments(text, index + 2..call_end - 1);
            let names = arguments.into_iter().filter(|argument| argument.len() == 1);
            taken.extend(names.map(|argument| tokens.text_at(text, argument.start)));
        }
    }
    begun.intersection(&taken).copied().collect()
}

/// The tokens of a word's type at `index`, at the start of a statement; empty if there are none.
fn word_type(text: &str, tokens: &Tokens, index: usize) -> Range<usize> {
    let before = tokens.text_at(text, index.wrapping_sub(1));
    let starts = matches!(before, ";" | "{" | "}" | "const");
    let mut end = index;
    while starts && WORDS.contains(&tokens.text_at(text, end)) {
        end += 1;
    }
    index..end
}

/// The names declared by a statement whose declarators start at `index`.
fn declared_names<'t>(
    text: &'t str,
    tokens: &'t Tokens,
    index: usize,
) -> impl Iterator<Item = &'t str> {
    let mut names = Vec::new();
    let mut at = index;
    let mut expected = true;
    while at < tokens.len() && !tokens.is_spelled_at(text, at, ";") {
        if expected && tokens[at].kind == TokenKind::Ident {
            names.push(tokens[at].text(text));
        }
        expected = tokens.is_spelled_at(text, at, ",");
        at = tokens.skip_group(at).unwrap_or(at + 1);
    }
    names.into_iter()
}

/// Whether `NAME = (int*)...;` stands at `index`, with no other declarator.
fn casts_to_word(text: &str, tokens: &Tokens, index: usize) -> bool {
    let operand = index + 2;
    let is_cast = match tokens.text_at(text, operand) {
        "(" => tokens.skip_group(operand).is_some_and(|cast_end| {
            tokens.text_at(text, cast_end - 2) == "*"
                && WORDS.contains(&tokens.text_at(text, operand + 1))
        }),
        "reinterpret_cast" => WORDS.contains(&tokens.text_at(text, operand + 2)),
        _ => false,
    };
    let is_only = declared_names(text, tokens, index).count() == 1;
    tokens.is_spelled_at(text, index + 1, "=") && is_cast && is_only
}

/// The names of types that may be integers only for some arguments of a template, as in
/// `using vec_t = typename bytes<sizeof(T)>::type`.
pub(super) fn open_type_names<'t>(text: &'t str, tokens: &Tokens) -> BTreeSet<&'t str> {
    let mut names = BTreeSet::new();
    for index in 0..tokens.len() {
        if !tokens.is_spelled_at(text, index, "using")
            || !tokens.is_spelled_at(text, index + 2, "=")
        {
            continue;
        }
        let definition =
            tokens[index + 3..].iter().take_while(|token| !token.is_spelled(text, ";"));
        if definition.take(64).any(|token| is_open(token.text(text))) {
            names.insert(tokens[index + 1].text(text));
        }
    }
    names
}

fn is_open(word: &str) -> bool {
    word == "typename" || INTEGERS.contains(&word)
}

/// Whether the type in `words` may be an integer, though it does not name one.
pub(super) fn is_open_type(text: &str, words: &[Token], open_names: &BTreeSet<&str>) -> bool {
    words
        .iter()
        .any(|word| word.is_spelled(text, "typename") || open_names.contains(word.text(text)))
}
