//! The float64 shadow: `float` becomes `double`, in types, literals and the names of functions.
//!
//! Sound only if a source does not look at the bits of its numbers. Such looks are listed as obstacles, as far as
//! tokens show them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use super::Obstacle;
use super::byte_casts;
use super::conditions;
use super::edits::Edits;
use super::guards::{guard_cast, guard_function};
use super::half_steps;
use super::host::HostContext;
use super::integer_variables::{carves_bytes, is_double_operand, is_integer_operand};
use super::lexer::{Token, TokenKind, Tokens, lex_tokens};
use super::literals;
use super::number_bits;
use super::outline::outline_items;
use super::packed_casts::{NARROW, PackedVariables, VECTORS, widen_packed_token};
use super::reachability::{find_enclosing_name, is_generic};

/// C99's functions and CUDA's own with an `f` at the end for float and without it for double.
pub(super) const MATH: [&str; 84] = [
    "acosf",
    "acoshf",
    "asinf",
    "asinhf",
    "atan2f",
    "atanf",
    "atanhf",
    "cbrtf",
    "ceilf",
    "copysignf",
    "cosf",
    "coshf",
    "cospif",
    "erfcf",
    "erfcinvf",
    "erfcxf",
    "erff",
    "erfinvf",
    "exp10f",
    "exp2f",
    "expf",
    "expm1f",
    "fabsf",
    "fdimf",
    "floorf",
    "fmaf",
    "fmaxf",
    "fminf",
    "fmodf",
    "frexpf",
    "hypotf",
    "ilogbf",
    "j0f",
    "j1f",
    "jnf",
    "ldexpf",
    "lgammaf",
    "llrintf",
    "llroundf",
    "log10f",
    "log1pf",
    "log2f",
    "logbf",
    "logf",
    "lrintf",
    "lroundf",
    "modff",
    "nanf",
    "nearbyintf",
    "nextafterf",
    "norm3df",
    "norm4df",
    "normcdff",
    "normcdfinvf",
    "normf",
    "powf",
    "powif",
    "rcbrtf",
    "remainderf",
    "remquof",
    "rhypotf",
    "rintf",
    "rnorm3df",
    "rnorm4df",
    "rnormf",
    "roundf",
    "rsqrtf",
    "scalblnf",
    "scalbnf",
    "signbitf",
    "sincosf",
    "sincospif",
    "sinf",
    "sinhf",
    "sinpif",
    "sqrtf",
    "tanf",
    "tanhf",
    "tgammaf",
    "truncf",
    "y0f",
    "y1f",
    "ynf",
    "nexttowardf",
];

/// Functions on the bits of a number. In the shadow a call of one ends the replay.
const BIT_CASTS: [&str; 17] = [
    "__float_as_int",
    "__float_as_uint",
    "__int_as_float",
    "__uint_as_float",
    "__double_as_longlong",
    "__longlong_as_double",
    "__double2hiint",
    "__double2loint",
    "__hiloint2double",
    "__half_as_short",
    "__half_as_ushort",
    "__short_as_half",
    "__ushort_as_half",
    "__bfloat16_as_short",
    "__bfloat16_as_ushort",
    "__short_as_bfloat16",
    "__ushort_as_bfloat16",
];
/// Other names for looks at the bits of a number.
const BIT_NAMES: [&str; 2] = ["__half_raw", "bit_cast"];

/// Functions from bits to numbers. From constant bits they make the same number in the shadow.
const OF_BITS: [&str; 6] = [
    "__int_as_float",
    "__uint_as_float",
    "__short_as_half",
    "__ushort_as_half",
    "__short_as_bfloat16",
    "__ushort_as_bfloat16",
];
/// Stands before their names in the shadow, if the bits are constant.
const CONSTANT: &str = "replay_constant";

/// Integer types for looks at the bits of numbers. `char` is none: sources pass raw memory around as bytes.
pub(super) const INTEGERS: [&str; 28] = [
    "int",
    "unsigned",
    "short",
    "long",
    "int16_t",
    "uint16_t",
    "int32_t",
    "uint32_t",
    "int64_t",
    "uint64_t",
    "uint",
    "ushort",
    "ulong",
    "int1",
    "int2",
    "int3",
    "int4",
    "uint1",
    "uint2",
    "uint3",
    "uint4",
    "short2",
    "short4",
    "ushort2",
    "ushort4",
    "longlong2",
    "ulonglong2",
    "ulonglong4",
];

/// Types with a wider form in the shadow.
pub(super) const FLOATS: [&[&str]; 3] = [&["float"], &VECTORS, &NARROW];

/// Widens every token of float32, and lists the obstacles to the shadow.
pub(super) fn rewrite_for_shadow(context: &HostContext, edits: &mut Edits) -> Vec<Obstacle> {
    let source = context.source;
    let items = outline_items(source.text, &context.tokens);
    let packed = PackedVariables::find(context);
    let left_out = conditions::find_dropped_code(source);
    let open_names = number_bits::open_type_names(source.text, &context.tokens);
    number_bits::keep_numbers_in_words(context, edits);
    let of_doubles = number_bits::find_swaps_of_doubles(context, &items);
    let mut obstacles = Vec::new();
    for (tokens, within) in context.token_lists() {
        let name = within.map(|defined| defined.name);
        for (index, token) in tokens.iter().enumerate() {
            let half_step = half_steps::find_half_step(source.text, tokens, index);
            if let Some((name, shadow_name)) = half_step {
                edits.replace(name, shadow_name);
                continue;
            }
            if let Some(text) = widen_token(*token, source.text) {
                edits.replace(token.start..token.end, text);
            }
            if let Some((range, number)) = constant_float(source.text, tokens, index) {
                edits.replace(range, number);
                continue;
            }
            if is_constant(source.text, tokens, index) {
                edits.replace(token.start..token.start, CONSTANT.to_owned());
                continue;
            }
            let swaps_doubles = of_doubles.iter().any(|range| range.contains(&token.start));
            if swaps_doubles
                && let Some(bits) = number_bits::spell_bits_of_double(token.text(source.text))
            {
                edits.replace(token.start..token.end, bits.to_owned());
                continue;
            }
            if context.symbols.packs() {
                let generic = is_generic(&context.tokens, &items, token.start);
                packed.rewrite(tokens, index, generic, edits);
            }
            let mut end = if context.symbols.packs() {
                packed.look(tokens, index)
            } else {
                packed.look_into_floats(tokens, index)
            };
            let looks_into_pack = end.is_some();
            if !context.symbols.packs() || !packed.is_cast(tokens, index) {
                end = end.or_else(|| skip_shadow_obstacle(context, tokens, index));
                end = end.or_else(|| skip_open_cast(context, tokens, index, &open_names));
                end = end.or_else(|| skip_float_cast(context, tokens, index));
                end = end.or_else(|| {
                    byte_casts::skip_byte_cast(context, tokens, index, within.is_some())
                });
            }
            let mut is_numbered = false;
            if end.is_none() {
                end = byte_casts::skip_numbered_cast(context, tokens, index);
                is_numbered = end.is_some();
            }
            if swaps_doubles
                && end.is_some_and(|end| is_double_operand(context, tokens, end.saturating_sub(1)))
                && number_bits::is_double_word_cast(source.text, tokens, index)
            {
                end = None;
            }
            if let Some(end) = end
                && !left_out.iter().any(|range| range.contains(&token.start))
            {
                let within = match name {
                    Some(name) => Some(name.to_owned()),
                    None => find_enclosing_name(source.text, &context.tokens, &items, token.start),
                };
                let part = index..end.min(tokens.len());
                let mut new_obstacle =
                    create_shadow_obstacle(context, &tokens[part.clone()], within);
                let within_constant =
                    name.is_none() && is_in_constant_function(context, token.start);
                let carries_numbers = BIT_CASTS.contains(&token.text(source.text))
                    || token.is_spelled(source.text, "union")
                        && number_bits::share_union(source.text, tokens, end, edits);
                let asks_for_type = !carries_numbers
                    && !looks_into_pack
                    && !is_numbered
                    && !within_constant
                    && !is_double_operand(context, tokens, end.saturating_sub(1));
                let asks_variable =
                    looks_into_pack && packed.variable_of_member(tokens, index).is_some();
                new_obstacle.guarded = carries_numbers
                    || asks_variable
                    || asks_for_type && guard_cast(context, tokens, part, &new_obstacle, edits)
                    || name.is_none() && guard_function(context, token.start, &new_obstacle, edits);
                obstacles.push(new_obstacle);
            }
        }
    }
    // Names of macros are renamed where they are used, so also where they are defined.
    for defined in &context.macros {
        if MATH.contains(&defined.name) {
            let end = defined.name_at + defined.name.len();
            edits.replace(end - 1..end, "");
        }
    }
    obstacles.sort_by_key(|obstacle| obstacle.line);
    obstacles
}

/// The obstacle made of `tokens`.
pub(super) fn create_shadow_obstacle(
    context: &HostContext,
    tokens: &[Token],
    within: Option<String>,
) -> Obstacle {
    let text = context.source.text;
    let start = tokens[0].start;
    let end = tokens[tokens.len() - 1].end;
    let what = text[start..end].split_whitespace().collect::<Vec<_>>().join(" ");
    Obstacle { line: context.source.line(start), what, within, guarded: false }
}

/// `text` with every token widened, for repeated code.
pub(super) fn widen_text(text: &str) -> String {
    let mut edits = Edits::default();
    for token in lex_tokens(text) {
        if let Some(wide_text) = widen_token(token, text) {
            edits.replace(token.start..token.end, wide_text);
        }
    }
    edits.apply(text)
}

/// `token` as the shadow has it.
pub(super) fn spell_token<'a>(context: &HostContext<'_, 'a>, token: Token) -> Cow<'a, str> {
    let text = context.source.text;
    let packed = if context.symbols.packs() { widen_packed_token(context, token) } else { None };
    let widened = packed.or_else(|| widen_token(token, text));
    widened.map_or(Cow::Borrowed(token.text(text)), Cow::Owned)
}

/// The text for `token` in the shadow, if it is another one.
pub(super) fn widen_token(token: Token, text: &str) -> Option<String> {
    let word = token.text(text);
    match token.kind {
        TokenKind::Ident if word == "float" => Some("double".to_owned()),
        // By this name numbers are told from words (`replay/number_bits.h`).
        TokenKind::Ident if word == "__builtin_memcpy" => Some("::memcpy".to_owned()),
        TokenKind::Ident if MATH.contains(&word) => word.strip_suffix('f').map(str::to_owned),
        TokenKind::Number => literals::in_shadow(word),
        _ => None,
    }
}

/// The place of `__int_as_float(0x3fb8aa3b)` at `index`, a float made of one literal, and its text in the shadow.
fn constant_float(text: &str, tokens: &Tokens, index: usize) -> Option<(Range<usize>, String)> {
    let makes_float = ["__int_as_float", "__uint_as_float"].contains(&tokens[index].text(text));
    let [open_parenthesis, number, close_parenthesis] = tokens.get(index + 1..index + 4)? else {
        return None;
    };
    if !makes_float
        || !open_parenthesis.is_spelled(text, "(")
        || !close_parenthesis.is_spelled(text, ")")
        || number.kind != TokenKind::Number
    {
        return None;
    }
    let digits = number.text(text).trim_end_matches(['u', 'U']);
    let bits = u32::from_str_radix(digits.strip_prefix("0x").or(digits.strip_prefix("0X"))?, 16);
    Some((tokens[index].start..close_parenthesis.end, literals::widen_float_bits(bits.ok()?)?))
}

/// Whether the token at `index` makes a number of literal bits.
fn is_constant(text: &str, tokens: &Tokens, index: usize) -> bool {
    if !OF_BITS.contains(&tokens[index].text(text)) || !tokens.is_spelled_at(text, index + 1, "(") {
        return false;
    }
    let Some(group_end) = tokens.skip_group(index + 1) else { return false };
    let argument_tokens = &tokens[index + 1..group_end];
    argument_tokens.iter().any(|token| token.kind == TokenKind::Number)
        && argument_tokens.iter().all(|token| match token.kind {
            TokenKind::Number => true,
            TokenKind::Ident => {
                matches!(token.text(text), "int" | "unsigned" | "short" | "uint16_t" | "uint32_t")
            }
            _ => matches!(token.text(text), "(" | ")" | "-"),
        })
}

/// The index after the obstacle at `index`, if there is one.
fn skip_shadow_obstacle(context: &HostContext, tokens: &Tokens, index: usize) -> Option<usize> {
    let text = context.source.text;
    let token = tokens[index];
    if token.kind == TokenKind::Ident {
        return match token.text(text) {
            word if BIT_CASTS.contains(&word) || BIT_NAMES.contains(&word) => Some(index + 1),
            "reinterpret_cast" => {
                let angles_end = tokens.skip_angles(text, index + 1)?;
                let looks = names_integers(text, &tokens[index + 2..angles_end - 1])
                    && !is_integer_operand(context, tokens, angles_end)
                    && !carves_bytes(context, tokens, angles_end);
                looks.then_some(angles_end)
            }
            "union" => {
                let open_brace = (index + 1..index + 3)
                    .find(|&token_index| tokens.is_spelled_at(text, token_index, "{"))?;
                let members = &tokens[open_brace..tokens.skip_group(open_brace)?];
                let mixed = names_any(text, members, &INTEGERS)
                    && FLOATS.iter().any(|floats| names_any(text, members, floats));
                mixed.then_some(open_brace)
            }
            _ => None,
        };
    }
    c_cast(context, tokens, index)
}

/// The tokens of the type in a cast at `index`, `reinterpret_cast<T>` or `(T)`; the cast's last token is behind them.
pub(super) fn find_cast_type(text: &str, tokens: &Tokens, index: usize) -> Option<Range<usize>> {
    match tokens.text_at(text, index) {
        "reinterpret_cast" => Some(index + 2..tokens.skip_angles(text, index + 1)? - 1),
        "(" => Some(index + 1..tokens.skip_group(index)? - 1),
        _ => None,
    }
}

/// The index after a cast at `index` that takes the bits of one variable for a float, as in `*(float*)&bits`.
fn skip_float_cast(context: &HostContext, tokens: &Tokens, index: usize) -> Option<usize> {
    let text = context.source.text;
    let cast_type = find_cast_type(text, tokens, index)?;
    let cast_end = cast_type.end + 1;
    let (sign, words) = tokens.get(cast_type)?.split_last()?;
    let is_float = words.iter().any(|word| word.is_spelled(text, "float"))
        && words.iter().all(|word| matches!(word.text(text), "float" | "const" | "volatile"));
    let mut operand = cast_end;
    if tokens.is_spelled_at(text, index, "reinterpret_cast") {
        operand += 1;
    }
    let takes_address = tokens.is_spelled_at(text, operand, "&");
    let is_reference = sign.is_spelled(text, "&") && operand > cast_end;
    if !is_float || !(takes_address && sign.is_spelled(text, "*") || is_reference) {
        return None;
    }
    operand += usize::from(takes_address);
    let is_variable = tokens.get(operand)?.kind == TokenKind::Ident
        && !matches!(tokens.text_at(text, operand + 1), "[" | "." | "->" | "::" | "(")
        && (is_reference || !tokens.is_spelled_at(text, operand + 1, "+"));
    is_variable.then_some(cast_end)
}

/// The index after a cast at `index` to a type that may be an integer.
fn skip_open_cast(
    context: &HostContext,
    tokens: &Tokens,
    index: usize,
    open_names: &BTreeSet<&str>,
) -> Option<usize> {
    let text = context.source.text;
    let cast_type = find_cast_type(text, tokens, index)?;
    let cast_end = cast_type.end + 1;
    let (sign, words) = tokens.get(cast_type)?.split_last()?;
    let is_pointer = sign.is_spelled(text, "*")
        || (sign.is_spelled(text, "&") && tokens.is_spelled_at(text, index, "reinterpret_cast"));
    let is_followed = tokens
        .get(cast_end)
        .is_some_and(|next| next.kind == TokenKind::Ident || matches!(next.text(text), "(" | "&"));
    let is_open = number_bits::is_open_type(text, words, open_names);
    let carves = carves_bytes(context, tokens, cast_end);
    (is_pointer && is_followed && is_open && !carves).then_some(cast_end)
}

/// Whether byte `byte_offset` lies in device code.
pub(super) fn is_on_device(context: &HostContext, byte_offset: usize) -> bool {
    context
        .function(byte_offset)
        .is_some_and(|function| function.on_device(context.source.text, &context.tokens))
}

/// Whether byte `byte_offset` lies in a function for constant expressions.
pub(super) fn is_in_constant_function(context: &HostContext, byte_offset: usize) -> bool {
    let text = context.source.text;
    context.function(byte_offset).is_some_and(|function| {
        ["constexpr", "consteval"]
            .iter()
            .any(|word| function.has_specifier(text, &context.tokens, word))
    })
}

/// The index after a cast like `(int*)&x`, or in device code `(unsigned*)x`.
fn c_cast(context: &HostContext, tokens: &Tokens, index: usize) -> Option<usize> {
    let text = context.source.text;
    if !tokens.is_spelled_at(text, index, "(") {
        return None;
    }
    let cast_end = tokens.skip_group(index)?;
    let (star, words) = tokens[index + 1..cast_end - 1].split_last()?;
    if !star.is_spelled(text, "*")
        || !words.iter().all(|word| word.kind == TokenKind::Ident)
        || is_integer_operand(context, tokens, cast_end)
        || carves_bytes(context, tokens, cast_end)
    {
        return None;
    }
    let operand = tokens.get(cast_end)?;
    let takes_address = operand.is_spelled(text, "&") && names_integers(text, words);
    let on_device = is_on_device(context, operand.start);
    // Functions of host code return memory without a type.
    let is_operand = if on_device {
        operand.kind == TokenKind::Ident || operand.is_spelled(text, "(")
    } else {
        operand.kind == TokenKind::Ident && !tokens.is_spelled_at(text, cast_end + 1, "(")
    };
    let pointer = is_operand && names_integers(text, words);
    (takes_address || pointer).then_some(cast_end + 1)
}

/// Whether `tokens` name a type of integers wider than a byte.
fn names_integers(text: &str, tokens: &[Token]) -> bool {
    names_any(text, tokens, &INTEGERS) && !names_any(text, tokens, &["char"])
}

pub(super) fn names_any(text: &str, tokens: &[Token], names: &[&str]) -> bool {
    tokens.iter().any(|token| token.kind == TokenKind::Ident && names.contains(&token.text(text)))
}
