//! Sizes that decide something in the float64 shadow: a trait, the width of a vector, a template. There the size of a
//! type is the native one. Sizes that count bytes of memory follow the shadow.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use super::edits::Edits;
use super::host::HostContext;
use super::lexer::{TokenKind, Tokens};
use super::macros;
use super::shadow;

/// Bytes of a load, or of a number.
const LOADS: [&str; 8] = ["1", "2", "4", "8", "16", "32", "64", "128"];

/// The value of a constant that counts bytes has no more tokens.
const LONGEST_VALUE: usize = 256;

/// Templates whose arguments count bytes of memory.
const STORAGE: [&str; 4] = ["aligned_storage", "aligned_storage_t", "aligned_union", "array"];

/// Tokens from the name of a template to an argument.
const MOST_ARGUMENT_TOKENS: usize = 32;

/// Gives deciding sizes in the file and in its macros their native values.
pub(super) fn rewrite_deciding_sizes(context: &HostContext, edits: &mut Edits) {
    rewrite_size_constants(context, edits);
    let text = context.source.text;
    for (tokens, _) in context.token_lists() {
        let mut assertion_end = 0;
        for index in 0..tokens.len() {
            if tokens.is_spelled_at(text, index, "static_assert") {
                assertion_end = tokens.skip_group(index + 1).unwrap_or(index);
            }
            if index < assertion_end || !tokens.is_spelled_at(text, index, "sizeof") {
                continue;
            }
            let Some(operand_end) = tokens.skip_group(index + 1) else { continue };
            let operand = index + 2..operand_end - 1;
            let is_double =
                operand.len() == 1 && tokens.is_spelled_at(text, operand.start, "double");
            if !is_double && decides(context, tokens, index..operand_end) {
                let word = tokens[index];
                edits.replace(word.start..word.end, "(::replay_rt::deciding_size<__typeof__");
                edits.insert(tokens[operand_end - 1].end, ">)");
            }
        }
    }
}

/// Gives constants that are the size of a type, as in `static constexpr int kBytes = sizeof(T);`, a second one with the native
/// size, which stands where the constant decides.
fn rewrite_size_constants(context: &HostContext, edits: &mut Edits) {
    let text = context.source.text;
    let tokens = &context.code;
    let mut names = BTreeSet::new();
    for index in 0..tokens.len() {
        if let Some(constant) = find_size_constant(text, tokens, index) {
            names.insert(tokens.text_at(text, index));
            let words = tokens[constant.declaration].iter().map(|word| word.text(text));
            let declaration = words.collect::<Vec<&str>>().join(" ");
            let operand = tokens[constant.operand].iter();
            let operand: Vec<_> =
                operand.map(|token| shadow::spell_token(context, *token)).collect();
            let operand = operand.join(" ");
            let name = spell_native_name(tokens.text_at(text, index));
            edits.insert(
                tokens[constant.end - 1].end,
                format!(
                    " {declaration} {name} = ::replay_rt::deciding_size<__typeof__({operand})>;"
                ),
            );
        }
    }
    names.retain(|name| {
        let mut values = (0..tokens.len()).filter(|index| {
            tokens.is_spelled_at(text, *index, name)
                && tokens.is_spelled_at(text, index + 1, "=")
                && !tokens.is_spelled_at(text, index + 2, "=")
        });
        values.all(|index| find_size_constant(text, tokens, index).is_some())
    });
    for index in 0..tokens.len() {
        if names.contains(tokens.text_at(text, index))
            && decides(context, tokens, find_qualifier(text, tokens, index)..index + 1)
        {
            let word = tokens[index];
            edits.replace(word.start..word.end, spell_native_name(word.text(text)));
        }
    }
}

/// Where the qualified name begins that ends at `index`.
fn find_qualifier(text: &str, tokens: &Tokens, index: usize) -> usize {
    let mut start = index;
    while start >= 2
        && tokens.is_spelled_at(text, start - 1, "::")
        && tokens[start - 2].kind == TokenKind::Ident
    {
        start -= 2;
    }
    start
}

/// The name of the native size behind the constant `name`.
fn spell_native_name(name: &str) -> String {
    format!("replay_native_{name}")
}

/// Tokens of the declaration of a constant that is the size of a type.
struct SizeConstant {
    /// Before its name.
    declaration: Range<usize>,
    /// Within the parentheses of `sizeof`.
    operand: Range<usize>,
    /// Behind the semicolon.
    end: usize,
}

/// The constant whose name is at `index`, if it is there declared as the size of a type.
fn find_size_constant(text: &str, tokens: &Tokens, index: usize) -> Option<SizeConstant> {
    let is_size = tokens.get(index)?.kind == TokenKind::Ident
        && tokens.is_spelled_at(text, index + 1, "=")
        && tokens.is_spelled_at(text, index + 2, "sizeof")
        && tokens.is_spelled_at(text, index + 3, "(");
    if !is_size {
        return None;
    }
    let operand_end = tokens.skip_group(index + 3)?;
    let is_declared = |word: usize| tokens[word].kind == TokenKind::Ident;
    let start = (0..index).rev().take_while(|word| is_declared(*word)).last()?;
    let is_constant = (start..index).any(|word| tokens.is_spelled_at(text, word, "constexpr"));
    let ends = tokens.is_spelled_at(text, operand_end, ";");
    (is_constant && ends).then_some(SizeConstant {
        declaration: start..index,
        operand: index + 4..operand_end - 1,
        end: operand_end + 1,
    })
}

/// The constants of a file that count bytes of memory: what is made of a `sizeof`, or of another such constant, and decides by
/// none.
pub(super) fn collect_byte_constants<'t>(text: &'t str, tokens: &Tokens) -> HashSet<&'t str> {
    let mut names = HashSet::new();
    let assignments = (0..tokens.len()).filter(|index| tokens.is_spelled_at(text, *index, "="));
    for equals in assignments {
        let Some(name) = equals.checked_sub(1) else { continue };
        let is_constant = (name.saturating_sub(3)..name)
            .any(|word| tokens.is_spelled_at(text, word, "constexpr"));
        if !is_constant {
            continue;
        }
        let mut words = equals + 1..tokens.len().min(equals + LONGEST_VALUE);
        if let Some(end) = words.find(|word| tokens.is_spelled_at(text, *word, ";"))
            && counts_bytes(text, tokens, equals + 1..end, &names)
        {
            names.insert(tokens.text_at(text, name));
        }
    }
    names
}

/// Whether the tokens `value` are made of a `sizeof` or of a constant of `names`, and neither compare nor divide by one.
fn counts_bytes(text: &str, tokens: &Tokens, value: Range<usize>, names: &HashSet<&str>) -> bool {
    let is_size = |word: &usize| {
        tokens.is_spelled_at(text, *word, "sizeof") || names.contains(tokens.text_at(text, *word))
    };
    let sizes: Vec<usize> = value.clone().filter(is_size).collect();
    let is_sign = |word: usize| {
        value.contains(&word) && matches!(tokens.text_at(text, word), "=" | "<" | ">" | "!" | "/")
    };
    let decides = |size: &usize| {
        let end = tokens.skip_group(size + 1).unwrap_or(size + 1);
        is_sign(size - 1) || is_sign(end)
    };
    !sizes.is_empty() && !sizes.iter().any(decides)
}

/// Whether the size in `range` is compared with a number, divides the bytes of a load, or is an argument of a template.
fn decides(context: &HostContext, tokens: &Tokens, range: Range<usize>) -> bool {
    let text = context.source.text;
    let word = |index: usize| tokens.text_at(text, index);
    let before = |back: usize| range.start.checked_sub(back).map_or("", word);
    let after = |ahead: usize| word(range.end + ahead);
    let is_operand = |word: &str| LOADS.contains(&word) || word == "sizeof";
    let is_comparison =
        |first: &str, second: &str| second == "=" && matches!(first, "=" | "!" | "<" | ">");
    if is_comparison(after(0), after(1)) && is_operand(after(2))
        || matches!(after(0), "<" | ">") && is_operand(after(1))
        || is_comparison(before(2), before(1)) && LOADS.contains(&before(3))
        || before(1) == "(" && before(2) == "switch"
    {
        return true;
    }
    if before(1) == "/" && (LOADS.contains(&before(2)) || is_load_constant(context, before(2))) {
        return true;
    }
    let scales = after(0) == "*"
        && tokens
            .get(range.end + 1)
            .is_some_and(|token| matches!(token.kind, TokenKind::Ident | TokenKind::Number));
    let closes = if scales { after(2) } else { after(0) };
    matches!(closes, ">" | ",") && is_template_argument(text, tokens, range.start)
}

/// Whether an argument of a template, but one that counts memory, begins at `index`, behind the name of the template.
fn is_template_argument(text: &str, tokens: &Tokens, index: usize) -> bool {
    if !matches!(tokens.text_at(text, index.wrapping_sub(1)), "<" | ",") {
        return false;
    }
    let no_argument = |open: &usize| {
        !matches!(tokens.text_at(text, *open), ";" | "{" | "}" | "(" | ")" | "=" | "?")
    };
    let mut opens = (1..index).rev().take(MOST_ARGUMENT_TOKENS).take_while(no_argument);
    opens.any(|open| {
        tokens.is_spelled_at(text, open, "<")
            && tokens[open - 1].kind == TokenKind::Ident
            && !STORAGE.contains(&tokens.text_at(text, open - 1))
            && tokens.skip_angles(text, open).is_some_and(|end| end > index)
    })
}

/// Whether `name` is a constant of the file for the bytes of a load.
fn is_load_constant(context: &HostContext, name: &str) -> bool {
    let text = context.source.text;
    let tokens = &context.tokens;
    let is_variable = tokens.windows(4).any(|four| {
        four[0].is_spelled(text, name)
            && four[1].is_spelled(text, "=")
            && LOADS.contains(&four[2].text(text))
            && four[3].is_spelled(text, ";")
    });
    let is_macro = |defined: &macros::Macro| {
        defined.name == name
            && defined.body.len() == 1
            && LOADS.contains(&defined.body[0].text(text))
    };
    !name.is_empty() && (is_variable || context.macros.iter().any(is_macro))
}

#[cfg(test)]
mod tests {
    use crate::{Precision, SourceUnit, Threads, scan_symbols, translate_for_host};

    #[test]
    fn a_size_that_decides_is_the_native_one_and_a_size_of_memory_is_not() {
        let shadow_code = |text: &str| {
            let unit = SourceUnit { path: "a.cu", text };
            let symbols = scan_symbols(&[unit]);
            let made = translate_for_host(&unit, &symbols, Precision::Shadow, Threads::Stacks);
            made.unwrap().text
        };
        for text in [
            "int n = 16 / sizeof(T);",
            "#define LOAD 16\nint n = LOAD / sizeof(T);",
            "bool wide = sizeof(T) == 4, wider = 2 < sizeof(U) ;",
            "using V = typename Bytes<sizeof(T) * N>::type;",
            "AtomicAdd<T, sizeof(T)>()(address, value);",
        ] {
            assert!(shadow_code(text).contains("deciding_size<__typeof__(T)>"), "{text}");
        }
        let text = "struct Traits {\n  static constexpr int kBytes = sizeof(T);\n  \
                    static_assert(kBytes == 2 || kBytes == 4);\n  static constexpr int kCount = kBytes == 4 ? 4 : 8;\n  \
                    using V = typename Bytes<kBytes * kCount>::Type;\n  static constexpr int kShared = kBytes * kCount;\n};\n\
                    int f() { return 16 / Traits::kBytes; }";
        insta::assert_snapshot!(shadow_code(text), @r#"
        #line 1 "a.cu"
        struct Traits {
          static constexpr int kBytes = sizeof(T); static constexpr int replay_native_kBytes = ::replay_rt::deciding_size<__typeof__(T)>;
          static_assert(replay_native_kBytes == 2 || replay_native_kBytes == 4);
          static constexpr int kCount = replay_native_kBytes == 4 ? 4 : 8;
          using V = typename Bytes<replay_native_kBytes * kCount>::Type;
          static constexpr int kShared = kBytes * kCount;
        };
        int f() { return 16 / Traits::replay_native_kBytes; }
        "#);
        let other = "struct A { static constexpr int k = sizeof(T); };\nstruct B { static constexpr int k = 4; };\nbool b = B::k == 4;";
        assert!(shadow_code(other).ends_with("bool b = B::k == 4;"));
        for text in [
            "size_t bytes = n * sizeof(T);",
            "int n = sizeof(int4) / sizeof(T);",
            "bool wide = sizeof(double) == 8;",
            "char* end = smem + sizeof(T) * 32;",
            "alignas(sizeof(T) * 4) T x[4];",
            "f(a < b, sizeof(T));",
            "std::aligned_storage<sizeof(T), alignof(T)>::type raw;",
            "std::array<char, sizeof(T)> raw;",
        ] {
            assert!(!shadow_code(text).contains("deciding_size"), "{text}");
        }
    }
}
