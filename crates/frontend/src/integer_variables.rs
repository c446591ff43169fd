//! Finds variables of integers by their declarations. A cast of such a variable to another integer type looks at no
//! float.

use std::collections::{HashMap, HashSet};

use super::host::HostContext;
use super::lexer::{Token, TokenKind, Tokens};
use super::packed_casts::VECTORS;

/// Scalar integer types but those of bytes without a sign: in these anything may lie, and `int8_t` holds quantised
/// numbers. Pairs and more may pack floats.
pub(super) const SCALARS: [&str; 19] = [
    "int",
    "unsigned",
    "signed",
    "short",
    "long",
    "int8_t",
    "int16_t",
    "uint16_t",
    "int32_t",
    "uint32_t",
    "int64_t",
    "uint64_t",
    "uint",
    "ushort",
    "ulong",
    "size_t",
    "ptrdiff_t",
    "intptr_t",
    "uintptr_t",
];

/// Words before a name without a declaration.
const NO_TYPES: [&str; 8] =
    ["return", "else", "do", "case", "goto", "sizeof", "delete", "co_return"];

/// Whether the operand of a cast at `index` of `tokens` is made of a variable of integers: `x`, `&x`, `x[i]` or
/// `&x[i]`, with or without parentheses around it.
pub(super) fn is_integer_operand(context: &HostContext, tokens: &Tokens, mut index: usize) -> bool {
    let text = context.source.text;
    while ["(", "&"].iter().any(|sign| tokens.is_spelled_at(text, index, sign)) {
        index += 1;
    }
    let Some(variable) = tokens.get(index).filter(|token| token.kind == TokenKind::Ident) else {
        return false;
    };
    let mut operand_end = index + 1;
    while tokens.is_spelled_at(text, operand_end, "[") {
        let Some(subscript_end) = tokens.skip_group(operand_end) else { return false };
        operand_end = subscript_end;
    }
    let goes_on = [".", "->", "::", "("];
    !goes_on.iter().any(|sign| tokens.is_spelled_at(text, operand_end, sign))
        && holds_integers(context, variable)
}

/// Whether the operand of a cast at `index` of `tokens` is made of a variable declared as `double` by the sources.
pub(super) fn is_double_operand(context: &HostContext, tokens: &Tokens, index: usize) -> bool {
    let operand = tokens[index.min(tokens.len())..].iter().take(4);
    let variable = operand.clone().find(|token| token.kind == TokenKind::Ident);
    variable.is_some_and(|variable| {
        declarations_in_reach(context, variable).iter().any(|declaration| declaration.is_double)
    })
}

/// Whether a name among `tokens` is declared by the sources as `float`, and none as `double`.
pub(super) fn names_floats(context: &HostContext, tokens: &[Token]) -> bool {
    let declared = declared_names(context, tokens);
    declared.iter().any(|declaration| declaration.is_float)
        && !declared.iter().any(|declaration| declaration.is_double)
}

/// Whether a name among `tokens` is declared by the sources as `double`.
pub(super) fn names_doubles(context: &HostContext, tokens: &[Token]) -> bool {
    declared_names(context, tokens).iter().any(|declaration| declaration.is_double)
}

/// Whether a name among `tokens` is declared by the sources as bytes or a pointer to them.
pub(super) fn names_bytes(context: &HostContext, tokens: &[Token]) -> bool {
    declared_names(context, tokens).iter().any(|declaration| declaration.is_byte)
}

/// Whether `name` is an array of bytes, outside of shared memory, whose length is a number.
pub(super) fn is_array_of_numbered_bytes(context: &HostContext, name: &Token) -> bool {
    let text = context.source.text;
    let tokens = &context.tokens;
    let is_shared = |declared: usize| {
        let words = tokens[..declared].iter().rev().map(|word| word.text(text));
        words.take_while(|word| !matches!(*word, ";" | "{" | "}")).any(|word| word == "__shared__")
    };
    let has_numbered_length = |declared: usize| {
        let length_end = tokens.skip_group(declared + 1).unwrap_or(declared + 1);
        let length = &tokens[declared + 1..length_end];
        length.first().is_some_and(|open| open.is_spelled(text, "["))
            && length.iter().any(|word| word.kind == TokenKind::Number)
            && !length.iter().any(|word| word.is_spelled(text, "sizeof"))
    };
    declarations_in_reach(context, name).iter().any(|declaration| {
        declaration.is_byte
            && has_numbered_length(declaration.index)
            && !is_shared(declaration.index)
    })
}

/// The declarations in reach of the names among `tokens`.
fn declared_names<'c>(context: &'c HostContext, tokens: &[Token]) -> Vec<&'c Declaration> {
    let names = tokens.iter().filter(|token| token.kind == TokenKind::Ident);
    names.flat_map(|name| declarations_in_reach(context, name)).collect()
}

/// Types of a byte.
pub(super) const BYTES: [&str; 4] = ["char", "uint8_t", "int8_t", "byte"];

/// Whether the operand of a cast at `index` of `tokens` is a part of shared memory declared as bytes: all of it, or from
/// an offset that follows the sizes of its other parts.
pub(super) fn carves_bytes(context: &HostContext, tokens: &Tokens, index: usize) -> bool {
    let text = context.source.text;
    let mut end = index;
    while tokens.is_spelled_at(text, end, "&") {
        end += 1;
    }
    end = tokens.skip_group(end).unwrap_or(end + 1);
    while tokens.is_spelled_at(text, end, "[") {
        let Some(subscript_end) = tokens.skip_group(end) else { return false };
        end = subscript_end;
    }
    let operand = &tokens[index.min(tokens.len())..end.min(tokens.len())];
    let Some(array) = operand.iter().find(|token| token.kind == TokenKind::Ident) else {
        return false;
    };
    let is_whole = operand
        .iter()
        .all(|token| token.start == array.start || matches!(token.text(text), "(" | ")" | "&"));
    let follows_sizes = operand.iter().any(|token| {
        token.is_spelled(text, "sizeof") || context.byte_constants.contains(token.text(text))
    });
    (is_whole || follows_sizes) && context.shared_bytes.contains(array.text(text))
}

/// The names that `code` declares as arrays of bytes in shared memory. Made once: casts ask for one after the other.
pub(super) fn collect_shared_bytes<'t>(text: &'t str, code: &[Token]) -> HashSet<&'t str> {
    let mut names = HashSet::new();
    for (index, token) in code.iter().enumerate() {
        if !token.is_spelled(text, "__shared__") {
            continue;
        }
        let words: Vec<&str> =
            code[index..].iter().take(16).map(|token| token.text(text)).collect();
        let arrays = words.windows(3).filter(|words| BYTES.contains(&words[0]) && words[2] == "[");
        names.extend(arrays.map(|words| words[1]));
    }
    names
}

/// Whether the file declares dynamic shared memory, and all of it as floats.
pub(super) fn shares_floats_alone(context: &HostContext) -> bool {
    let text = context.source.text;
    let tokens = &context.tokens;
    let mut types =
        (0..tokens.len()).filter(|&at| tokens.is_spelled_at(text, at, "extern")).filter_map(|at| {
            let end = (at..tokens.len()).find(|&end| tokens.is_spelled_at(text, end, ";"))?;
            let is_shared = (at..end).any(|word| tokens.is_spelled_at(text, word, "__shared__"));
            let open = (at..end).find(|&open| tokens.is_spelled_at(text, open, "["))?;
            is_shared.then(|| tokens.text_at(text, open - 2))
        });
    let is_float = |word: &str| word == "float" || VECTORS.contains(&word);
    types.next().is_some_and(is_float) && types.all(is_float)
}

/// Whether all declarations of `variable` in the function around it, or without any there in the file, are those of
/// integers, pointers to integers or arrays of integers.
fn holds_integers(context: &HostContext, variable: &Token) -> bool {
    let declarations = declarations_in_reach(context, variable);
    !declarations.is_empty() && are_all_integers(declarations)
}

/// The declarations of `variable` in the function around it, or without any there in the file.
fn declarations_in_reach<'c>(context: &'c HostContext, variable: &Token) -> &'c [Declaration] {
    let name = variable.text(context.source.text);
    let Some(declarations) = context.declarations.get(name) else { return &[] };
    if let Some(function) = context.function(variable.start) {
        let range = function.tokens.clone();
        let first = declarations.partition_point(|declaration| declaration.index < range.start);
        let end = declarations.partition_point(|declaration| declaration.index < range.end);
        if first < end {
            return &declarations[first..end];
        }
    }
    declarations
}

/// A declaration of a name.
pub(super) struct Declaration {
    /// The token of the name.
    index: usize,
    is_integer: bool,
    is_double: bool,
    is_float: bool,
    is_byte: bool,
    /// The declarations of the name up to here, this one included, of anything but integers.
    others: usize,
}

/// Whether all of `declarations` of one name, of which there is one, are those of integers.
fn are_all_integers(declarations: &[Declaration]) -> bool {
    let (first, last) = (&declarations[0], &declarations[declarations.len() - 1]);
    first.is_integer && first.others == last.others
}

/// The declarations in `tokens` by name, each in the order of the tokens. Made once: casts ask for one after the other.
pub(super) fn collect_declarations<'t>(
    text: &'t str,
    tokens: &[Token],
) -> HashMap<&'t str, Vec<Declaration>> {
    let mut by_name: HashMap<&str, Vec<Declaration>> = HashMap::new();
    // The last word that is no sign of a declarator.
    let mut last_word: Option<&Token> = None;
    for (index, token) in tokens.iter().enumerate() {
        let word = token.text(text);
        if token.kind == TokenKind::Ident
            && let Some(type_word) = last_word
            && (type_word.kind == TokenKind::Ident || type_word.is_spelled(text, ">"))
            && !NO_TYPES.contains(&type_word.text(text))
        {
            let declarations = by_name.entry(word).or_default();
            let is_integer = SCALARS.contains(&type_word.text(text));
            let others_before = declarations.last().map_or(0, |last| last.others);
            let others = others_before + usize::from(!is_integer);
            declarations.push(Declaration {
                index,
                is_integer,
                is_double: type_word.is_spelled(text, "double"),
                is_float: type_word.is_spelled(text, "float"),
                is_byte: BYTES.contains(&type_word.text(text)),
                others,
            });
        }
        if !is_declarator_sign(word) {
            last_word = Some(token);
        }
    }
    by_name
}

/// Whether `word` may stand between a type and the declared name.
fn is_declarator_sign(word: &str) -> bool {
    matches!(word, "*" | "&" | "const" | "volatile" | "__restrict__" | "__restrict")
}

#[cfg(test)]
mod tests {
    use crate::{Precision, SourceUnit, Threads, scan_symbols, translate_for_host};

    /// The obstacles of a kernel with `code`.
    fn obstacles(code: &str) -> Vec<String> {
        let text = format!(
            "extern __shared__ int pool[];\n\
             template <class T> __global__ void k(float* x, const int* __restrict__ n, T* t, unsigned char* raw) \
             {{ {code} }}"
        );
        let unit = SourceUnit { path: "a.cu", text: &text };
        let made =
            translate_for_host(&unit, &scan_symbols(&[unit]), Precision::Shadow, Threads::Stacks);
        made.unwrap().shadow_obstacles.into_iter().map(|obstacle| obstacle.what).collect()
    }

    #[test]
    fn a_cast_from_integers_to_integers_looks_at_no_float() {
        for code in [
            "extern __shared__ int s[]; int32_t* p = (int32_t*)s;",
            "__shared__ unsigned s[32]; int* p = (int*)&s[4]; long long* q = (long long*)&s;",
            "uint32_t* p = (uint32_t*)n;",
            "auto p = reinterpret_cast<const unsigned*>(n); auto q = reinterpret_cast<int*>(&pool[1]);",
            "const int8_t* q = codes(); const int* p = (const int*)(q + 4 * *n); p = reinterpret_cast<const int*>(q);",
            "long long m = 1; unsigned lower = *(unsigned*)&m; int& r = reinterpret_cast<int&>(m);",
            "constexpr int bytes = 32 * sizeof(T); constexpr int more = 2 * bytes; extern __shared__ char s[]; int* p = (int*)(s + more);",
        ] {
            assert_eq!(obstacles(code), [""; 0], "{code}");
        }
    }

    #[test]
    fn a_cast_from_anything_else_may_look_at_floats() {
        for code in [
            "unsigned* p = (unsigned*)x;",
            "int* p = (int*)&x[1];",
            "int* p = (int*)t;",
            "int* p = (int*)raw;",
            "int* p = reinterpret_cast<int*>(x + 1);",
            "int* p = reinterpret_cast<int*>(f(n));",
            "int* p = (int*)&n->x;",
            "int s; { float s = x[0]; s += *(int*)&s; }",
            "int4 four; int* p = (int*)&four;",
            "constexpr int count = 16 / sizeof(T); extern __shared__ char s[]; int* p = (int*)(s + count);",
        ] {
            assert_eq!(obstacles(code).len(), 1, "{code}");
        }
    }

    #[test]
    fn narrow_numbers_in_a_vector_of_floats_are_an_obstacle() {
        for code in [
            "float4 four; half2* p = reinterpret_cast<half2*>(&four);",
            "float2 two; __half* p = (__half*)&two;",
        ] {
            assert_eq!(obstacles(code).len(), 1, "{code}");
        }
        let vector = "half2 pair; half* p = reinterpret_cast<half*>(&pair);";
        assert_eq!(obstacles(vector), [""; 0]);
    }
}
