//! Ends the float64 shadow before an obstacle runs: the function around it starts with a statement for this. An
//! obstacle in code off the call's path does no harm.

use std::ops::Range;

use super::Obstacle;
use super::byte_casts;
use super::conditions::count_open_conditionals;
use super::edits::Edits;
use super::escape_c_string;
use super::host::{HostContext, HostScope};
use super::lexer::{TokenKind, Tokens};
use super::shadow::{find_cast_type, is_in_constant_function, is_on_device};
use super::source::Source;

/// Lets the function around byte `byte_offset` end the replay for `obstacle`. Returns whether a function there can.
pub(super) fn guard_function(
    context: &HostContext,
    byte_offset: usize,
    obstacle: &Obstacle,
    edits: &mut Edits,
) -> bool {
    let Some(function) = context.function(byte_offset) else { return false };
    let body_start = context.tokens[function.body.start].end;
    // The preprocessor keeps the body's start wherever it keeps the obstacle.
    let are_together = count_open_conditionals(context.source, body_start..byte_offset).is_some();
    if is_in_constant_function(context, byte_offset) || !are_together {
        return false;
    }
    edits.insert(body_start, obstacle_statement(context.source, obstacle));
    true
}

/// Lets a cast, whose first tokens are those of `part`, end the replay for `obstacle`; whether it is a cast.
pub(super) fn guard_cast(
    context: &HostContext,
    tokens: &Tokens,
    part: Range<usize>,
    obstacle: &Obstacle,
    edits: &mut Edits,
) -> bool {
    let text = context.source.text;
    let first = tokens[part.start];
    let reason = obstacle_arguments(context.source, obstacle);
    let Some(cast_type) = find_cast_type(text, tokens, part.start) else { return false };
    let last = tokens[cast_type.end];
    let in_host_code = context.place == HostScope::Body
        || context.function(first.start).is_some() && !is_on_device(context, first.start);
    let cast = if byte_casts::is_byte_pointer(text, &tokens[cast_type]) {
        "::replay_rt::byte_cast"
    } else if in_host_code {
        "::replay_rt::host_bits_cast"
    } else {
        "::replay_rt::bits_cast"
    };
    if first.kind == TokenKind::Ident {
        edits.replace(first.start..first.end, cast);
        edits.replace(last.start..last.end, format!(">{reason}"));
        return true;
    }
    let operand_start = tokens.index_at(last.end);
    let Some(operand_end) = skip_operand(text, tokens, operand_start) else { return false };
    edits.replace(first.start..first.end, format!("{cast}<"));
    edits.replace(last.start..last.end, format!(">{reason}("));
    // A replacement, as an `asm` statement around it takes no insertions over.
    let operand_last = tokens[operand_end - 1];
    edits.replace(operand_last.start..operand_last.end, format!("{})", operand_last.text(text)));
    true
}

/// The index after the operand of a cast at `index`.
pub(super) fn skip_operand(text: &str, tokens: &Tokens, index: usize) -> Option<usize> {
    let mut at = index;
    while matches!(tokens.text_at(text, at), "&" | "*" | "-" | "~" | "!") {
        at += 1;
    }
    at = tokens.skip_group(at).unwrap_or(at + 1);
    loop {
        at = match tokens.text_at(text, at) {
            "(" | "[" => tokens.skip_group(at)?,
            "." | "->" | "::" => at + 2,
            _ => return (at <= tokens.len()).then_some(at),
        };
    }
}

/// A statement to end the replay for `obstacle`.
pub(super) fn obstacle_statement(source: &Source, obstacle: &Obstacle) -> String {
    format!("::replay_rt::no_shadow{};", obstacle_arguments(source, obstacle))
}

/// The construct and its place, as arguments.
pub(super) fn obstacle_arguments(source: &Source, obstacle: &Obstacle) -> String {
    let obstacle_text = escape_c_string(&obstacle.what);
    let path = escape_c_string(source.path);
    format!("(\"{obstacle_text}\", \"{path}\", {})", obstacle.line)
}

#[cfg(test)]
mod tests {
    use crate::{Precision, SourceUnit, Threads, scan_symbols, translate_for_host};

    /// The shadow of `text`, and which of its obstacles it guards.
    fn shadow(text: &str) -> (String, Vec<bool>) {
        let unit = SourceUnit { path: "a.cu", text };
        let made =
            translate_for_host(&unit, &scan_symbols(&[unit]), Precision::Shadow, Threads::Lanes)
                .unwrap();
        let guarded = made.shadow_obstacles.iter().map(|obstacle| obstacle.guarded).collect();
        (made.text, guarded)
    }

    #[test]
    fn a_cast_to_integers_asks_what_is_cast_and_a_double_ends_the_shadow() {
        let text = "__device__ int f(float x) {\n  if (x > 0) return 1;\n  return *(int*)&x;\n}\n\
                    struct S { __device__ int g(float& x) { return reinterpret_cast<int&>(x); } };\n\
                    __device__ int h(double y) { return *(int*)&y; }\n";
        let (made, guarded) = shadow(text);
        assert_eq!(guarded, [true, true, true]);
        insta::assert_snapshot!(made, @r##"
        #line 1 "a.cu"
        __device__ int f(double x) {
          if (x > 0) return 1;
          return *::replay_rt::bits_cast<int*>("(int*)&", "a.cu", 3)(&x);
        }
        struct S { __device__ int g(double& x) { return ::replay_rt::bits_cast<int&>("reinterpret_cast<int&>", "a.cu", 5)(x); } };
        __device__ int h(double y) {::replay_rt::no_shadow("(int*)&", "a.cu", 6); return *(int*)&y; }
        "##);
    }

    #[test]
    fn a_cast_in_a_macro_ends_the_shadow_where_it_is_made() {
        let text = "#define BITS(x) (*(int*)&(x))\n#define AS_INT(x) reinterpret_cast<int&>(x)\n";
        let (made, guarded) = shadow(text);
        assert_eq!(guarded, [true, true]);
        insta::assert_snapshot!(made, @r##"
        #line 1 "a.cu"
        #define BITS(x) (*::replay_rt::bits_cast<int*>("(int*)&", "a.cu", 1)(&(x)))
        #define AS_INT(x) ::replay_rt::bits_cast<int&>("reinterpret_cast<int&>", "a.cu", 2)(x)
        "##);
    }

    #[test]
    fn obstacles_where_no_statement_can_stand_are_told_from_those_that_are_guarded() {
        for (text, expected) in [
            ("union B { float f; int i; };", vec![true]),
            ("union B { float f[2]; int i; };", vec![false]),
            ("#define BITS(x) union { float f; int i; } x", vec![true]),
            ("constexpr int f(float x) { return *(int*)&x; }", vec![false]),
            ("#define BITS(x) (*(int*)&(x))", vec![true]),
            // Calls end the replay themselves.
            ("#define BITS(x) __float_as_int(x)", vec![true]),
            ("const int bits = __float_as_int(1.0f);", vec![true]),
            (
                "#ifdef A\nint f(float x) {\n#else\nint f(double x) {\n#endif\nunion { float f[2]; int i; } u; }",
                vec![false],
            ),
            (
                "#ifdef A\nint f(float x) {\n#ifdef B\nx = 1;\n#endif\nunion { float f[2]; int i; } u; }\n#endif",
                vec![true],
            ),
        ] {
            assert_eq!(shadow(text).1, expected, "{text}");
        }
    }
}
