//! Makes names of shared memory mean what they do in CUDA: variables that outlive every function.
//!
//! In host C++ a name in a function is a local reference, and a dynamic array at namespace scope is an object of a
//! class. Lambdas would copy the first, and a cast would read the bytes of the second.

use std::ops::Range;

use super::edits::Edits;
use super::host::HostContext;
use super::lexer::{Token, TokenKind, Tokens};

/// A name of shared memory, and the tokens of its scope.
pub(super) struct ScopedName<'t> {
    pub name: &'t str,
    pub scope: Range<usize>,
}

/// The tokens of a lambda, as indices.
struct Lambda {
    /// Those between the brackets.
    captures: Range<usize>,
    /// Those from the closing bracket to the body.
    head: Range<usize>,
    body: Range<usize>,
}

/// Lets the lambdas among `tokens` capture their names of shared memory by reference.
pub(super) fn capture_shared_names(
    text: &str,
    tokens: &Tokens,
    shared_names: &[ScopedName],
    edits: &mut Edits,
) {
    if shared_names.is_empty() {
        return;
    }
    for open_bracket in 0..tokens.len() {
        let Some(lambda) = parse_lambda(text, tokens, open_bracket) else { continue };
        let mut captures: Vec<String> = Vec::new();
        for ScopedName { name, scope } in shared_names {
            let redeclared = [lambda.captures.clone(), lambda.head.clone()]
                .into_iter()
                .any(|range| mentions_variable(text, tokens, range, name));
            if scope.contains(&open_bracket)
                && !redeclared
                && mentions_variable(text, tokens, lambda.body.clone(), name)
            {
                captures.push(format!("&{name}"));
            }
        }
        if !captures.is_empty() {
            let separator = if lambda.captures.is_empty() { "" } else { ", " };
            let list = captures.join(", ");
            edits.insert(tokens[lambda.captures.end].start, format!("{separator}{list}"));
        }
    }
}

/// The lambda whose captures open at `open_bracket`, unless it captures everything by reference.
fn parse_lambda(text: &str, tokens: &Tokens, open_bracket: usize) -> Option<Lambda> {
    if !tokens.is_spelled_at(text, open_bracket, "[") || !begins_operand(text, tokens, open_bracket)
    {
        return None;
    }
    let captures_end = tokens.skip_group(open_bracket)? - 1;
    let captures = open_bracket + 1..captures_end;
    let by_reference = tokens.is_spelled_at(text, captures.start, "&")
        && (captures.len() == 1 || tokens.is_spelled_at(text, captures.start + 1, ","));
    if by_reference {
        return None;
    }
    let mut index = captures_end + 1;
    while !tokens.is_spelled_at(text, index, "{") {
        let ends = [";", ",", ")", "]", "}", "="];
        if index >= tokens.len() || ends.iter().any(|end| tokens.is_spelled_at(text, index, end)) {
            return None;
        }
        index = tokens.skip_group_or_angles(text, index).unwrap_or(index + 1);
    }
    let body = index..tokens.skip_group(index)?;
    Some(Lambda { captures, head: captures_end + 1..index, body })
}

/// Whether the bracket at `open_bracket` begins an operand, and is no subscript, dimension or attribute.
fn begins_operand(text: &str, tokens: &Tokens, open_bracket: usize) -> bool {
    let Some(token_before) = open_bracket.checked_sub(1).map(|index| tokens[index]) else {
        return true;
    };
    let word = token_before.text(text);
    match token_before.kind {
        TokenKind::Ident => word == "return",
        TokenKind::Punct => {
            !matches!(word, ")" | "]" | "[" | ">")
                && !tokens.is_spelled_at(text, open_bracket + 1, "[")
        }
        _ => false,
    }
}

/// Whether a variable `name` is mentioned among the tokens of `range`.
fn mentions_variable(text: &str, tokens: &Tokens, mut range: Range<usize>, name: &str) -> bool {
    range.any(|index| {
        let is_member = index > 0
            && [".", "->", "::"].iter().any(|sign| tokens.is_spelled_at(text, index - 1, sign));
        !is_member && tokens.is_spelled_at(text, index, name)
    })
}

/// Writes the array for the names of dynamic arrays at namespace scope where they are cast, or their address is
/// taken.
pub(super) fn rewrite_global_operands(context: &HostContext, edits: &mut Edits) {
    let text = context.source.text;
    for (tokens, _) in context.token_lists() {
        for (index, token) in tokens.iter().enumerate() {
            if token.kind == TokenKind::Ident
                && context.symbols.is_global_shared_array(token.text(text))
                && is_cast_operand(text, tokens, index)
            {
                edits.insert(token.start, "::replay_rt::shared_array(");
                edits.insert(token.end, ")");
            }
        }
    }
}

/// Whether the variable at `index` is the whole operand of a cast or of the operator `&`.
fn is_cast_operand(text: &str, tokens: &Tokens, index: usize) -> bool {
    let Some(before) = index.checked_sub(1) else { return false };
    match tokens[before].text(text) {
        "&" => before.checked_sub(1).is_some_and(|index| !ends_type(text, &tokens[index])),
        ")" => {
            let open_parenthesis = tokens.group_start(before);
            let callee = open_parenthesis.and_then(|index| index.checked_sub(1));
            callee.is_some_and(|index| !ends_type(text, &tokens[index]))
        }
        "(" => {
            before > 0
                && tokens.is_spelled_at(text, before - 1, ">")
                && tokens.is_spelled_at(text, index + 1, ")")
        }
        _ => false,
    }
}

/// Whether `token` may be the last of a type, or a name in front of parentheses.
fn ends_type(text: &str, token: &Token) -> bool {
    match token.kind {
        TokenKind::Ident => token.text(text) != "return",
        _ => matches!(token.text(text), ">" | "*" | "&"),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Precision, SourceUnit, Threads, scan_symbols, translate_for_host};

    fn host_code(text: &str) -> String {
        let unit = SourceUnit { path: "a.cu", text };
        translate_for_host(&unit, &scan_symbols(&[unit]), Precision::Native, Threads::Stacks)
            .unwrap()
            .text
    }

    /// The lambda that ends a kernel, behind the declarations of `tile` and the dynamic `pool`.
    fn lambda(code: &str) -> String {
        let text = format!(
            "__global__ void k(float* x) {{ extern __shared__ int pool[]; __shared__ float tile[32];\n{code} }}"
        );
        host_code(&text).lines().last().unwrap().trim_end_matches(" }").to_owned()
    }

    #[test]
    fn a_lambda_refers_to_shared_memory() {
        let cases = [
            ("auto f = [=](int i) { return tile[i]; };", "[=, &tile](int i)"),
            ("auto f = [] { return tile[0] + pool[1]; };", "[&pool, &tile] {"),
            ("f([x](int i) -> float { return x[i] + tile[i]; });", "[x, &tile](int i)"),
            ("return [=]() mutable { tile[0] = 1; };", "[=, &tile]() mutable"),
            (
                "auto f = [=] { return [=] { return pool[0]; }; };",
                "[=, &pool] { return [=, &pool] {",
            ),
        ];
        for (code, expected) in cases {
            let made = lambda(code);
            assert!(made.contains(expected), "{made}");
        }
    }

    #[test]
    fn what_is_no_lambda_over_shared_memory_stays() {
        for code in [
            "auto f = [&](int i) { return tile[i]; };",
            "auto f = [&, x](int i) { return tile[i]; };",
            "auto f = [=](float* tile) { return tile[0]; };",
            "auto f = [=](S s) { return s.tile; };",
            "auto f = [=](int i) { return i; };",
            "x[tile[0] > 1] = {1};",
            "[[maybe_unused]] float first = tile[0];",
        ] {
            assert_eq!(lambda(code), code);
        }
    }

    #[test]
    fn a_global_array_is_itself_where_it_is_cast() {
        let text = "extern __shared__ char smem[];\n#define POOL reinterpret_cast<Pool*>(smem)\n\
                    __device__ void f(float* x) { Pair& p = (Pair&)smem; auto& q = reinterpret_cast<Pair&>(smem);\n\
                    Pair* r = (Pair*)&smem; x[0] = ((float*)smem)[1]; smem[2] = 3; g(smem); g(x, smem + 4); }\n\
                    __device__ void h(char* smem, T& smem2) { if (x) smem = 0; }";
        insta::assert_snapshot!(host_code(text), @r##"
        #line 1 "a.cu"
           static const ::replay_rt::dynamic_shared_array<char> smem;
        #define POOL reinterpret_cast<Pool*>(::replay_rt::shared_array(smem))
        __device__ void f(float* x) { Pair& p = (Pair&)::replay_rt::shared_array(smem); auto& q = reinterpret_cast<Pair&>(::replay_rt::shared_array(smem));
        Pair* r = (Pair*)&::replay_rt::shared_array(smem); x[0] = ((float*)::replay_rt::shared_array(smem))[1]; smem[2] = 3; g(smem); g(x, smem + 4); }
        __device__ void h(char* smem, T& smem2) { if (x) smem = 0; }
        "##);
    }
}
