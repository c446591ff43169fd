//! Looks of device code at the bytes of one number, as in `((unsigned char*)&x)[3]`. The float64 shadow asks the
//! compiler what is cast (`replay/number_casts.h`). Pointers into arrays stay: sources carve memory by bytes.

use super::byte_counts;
use super::guards::skip_operand;
use super::host::HostContext;
use super::integer_variables::{
    BYTES, is_array_of_numbered_bytes, is_integer_operand, names_bytes,
};
use super::lexer::{Token, TokenKind, Tokens};
use super::shadow::{FLOATS, find_cast_type, is_on_device, names_any};

/// Whether the type in `words` is a pointer to bytes.
pub(super) fn is_byte_pointer(text: &str, words: &[Token]) -> bool {
    let Some((star, words)) = words.split_last() else { return false };
    let is_byte = |word: &Token| BYTES.contains(&word.text(text));
    star.is_spelled(text, "*")
        && words.iter().filter(|word| is_byte(word)).count() == 1
        && words.iter().all(|word| {
            let word = word.text(text);
            matches!(word, "const" | "volatile" | "unsigned" | "signed" | "std" | "::")
                || BYTES.contains(&word)
        })
}

/// The index after a cast at `index` of the address of one number, or of an array that is read at once, to a pointer to
/// bytes, in device code or a macro.
pub(super) fn skip_byte_cast(
    context: &HostContext,
    tokens: &Tokens,
    index: usize,
    in_macro: bool,
) -> Option<usize> {
    let text = context.source.text;
    let cast_type = find_cast_type(text, tokens, index)?;
    let cast_end = cast_type.end + 1;
    let may_run_on_device = in_macro || is_on_device(context, tokens[index].start);
    if !may_run_on_device
        || !is_byte_pointer(text, tokens.get(cast_type)?)
        || is_integer_operand(context, tokens, cast_end)
    {
        return None;
    }
    let is_named_cast = tokens.is_spelled_at(text, index, "reinterpret_cast");
    let operand_end = if is_named_cast {
        tokens.skip_group(cast_end)?
    } else {
        skip_operand(text, tokens, cast_end)?
    };
    let last_of_operand = operand_end - 1 - usize::from(is_named_cast);
    let address = cast_end + usize::from(is_named_cast);
    let takes_address = tokens.is_spelled_at(text, address, "&");
    let of_element = tokens.is_spelled_at(text, last_of_operand, "]");
    let is_read = is_read_at_once(text, tokens, index, operand_end);
    (takes_address && !of_element || is_read).then_some(cast_end)
}

/// The index after a cast at `index` of memory in bytes to a pointer to numbers, from an offset, or of a length, that is
/// written as a number: there is another number here.
pub(super) fn skip_numbered_cast(
    context: &HostContext,
    tokens: &Tokens,
    index: usize,
) -> Option<usize> {
    let text = context.source.text;
    let cast_type = find_cast_type(text, tokens, index)?;
    let cast_end = cast_type.end + 1;
    let (sign, words) = tokens.get(cast_type)?.split_last()?;
    let is_pointer = ["*", "&"].iter().any(|spelling| sign.is_spelled(text, spelling));
    if !is_pointer || !FLOATS.iter().any(|names| names_any(text, words, names)) {
        return None;
    }
    let is_named_cast = tokens.is_spelled_at(text, index, "reinterpret_cast");
    let operand_end = if is_named_cast {
        tokens.skip_group(cast_end)?
    } else {
        skip_operand(text, tokens, cast_end)?
    };
    let operand = tokens.get(cast_end..operand_end)?;
    let base = operand.iter().find(|token| token.kind == TokenKind::Ident)?;
    if !names_bytes(context, std::slice::from_ref(base)) {
        return None;
    }
    if is_array_of_numbered_bytes(context, base) {
        return Some(cast_end);
    }
    let last_name = (cast_end..operand_end)
        .rev()
        .find(|&at| tokens[at].kind == TokenKind::Ident && tokens[at].start != base.start);
    let variable = last_name
        .and_then(|at| byte_counts::find_local_initialiser(context, tokens, &(at..at + 1)));
    let offset = [operand, variable.map_or(&[], |value| &tokens[value])];
    let mut words = offset.into_iter().flatten();
    let follows_sizes = words.clone().any(|word| {
        word.is_spelled(text, "sizeof") || context.byte_constants.contains(word.text(text))
    });
    let is_count =
        |word: &Token| byte_counts::read_integer(word.text(text)).is_some_and(|value| value > 1);
    let is_numbered = words.any(|word| word.kind == TokenKind::Number && is_count(word));
    (is_numbered && !follows_sizes).then_some(cast_end)
}

/// Whether the cast from `index` to `operand_end` has a `*` in front of it, or an index behind it.
fn is_read_at_once(text: &str, tokens: &Tokens, index: usize, operand_end: usize) -> bool {
    let before = |distance| index.checked_sub(distance).map_or("", |at| tokens.text_at(text, at));
    let is_unary = !matches!(before(2), ")" | "]")
        && index.checked_sub(2).is_none_or(|at| tokens[at].kind != TokenKind::Ident)
        || before(2) == "return";
    let is_closed = before(1) == "(" && tokens.is_spelled_at(text, operand_end, ")");
    let behind = operand_end + usize::from(is_closed);
    before(1) == "*" && is_unary || tokens.is_spelled_at(text, behind, "[")
}

#[cfg(test)]
mod tests {
    use crate::{Precision, SourceUnit, Threads, scan_symbols, translate_for_host};

    /// The obstacles of a kernel with `code`.
    fn obstacles(code: &str) -> Vec<String> {
        let text = format!(
            "struct S {{ float x; }};\n\
             __global__ void k(float* x, S s, int n, char* raw) {{ float v = x[0]; {code} }}\n\
             void host(float v) {{ write((char*)&v, 4); }}"
        );
        let unit = SourceUnit { path: "a.cu", text: &text };
        let made =
            translate_for_host(&unit, &scan_symbols(&[unit]), Precision::Shadow, Threads::Stacks);
        let obstacles = made.unwrap().shadow_obstacles.into_iter();
        obstacles.map(|obstacle| obstacle.what).collect()
    }

    #[test]
    fn a_look_at_the_bytes_of_one_number_is_told_from_memory_in_bytes() {
        for code in [
            "unsigned char b = ((unsigned char*)&v)[3];",
            "const uint8_t* p = reinterpret_cast<const uint8_t*>(&v);",
            "char c = *(char*)&v;",
            "char c = *((const char*)&s.x);",
            "char c = ((char*)x)[n];",
            "char c = reinterpret_cast<char*>(x)[n];",
            "memcpy(raw, (char*)&v + 2, 2);",
            "auto p = reinterpret_cast<std::byte*>(&v);",
        ] {
            assert_eq!(obstacles(code).len(), 1, "{code}");
        }
        for code in [
            "char* p = (char*)x + n * sizeof(float);",
            "char* p = (char*)&x[n];",
            "int m = n * (char)v;",
            "unsigned char b = ((unsigned char*)&n)[3];",
            "char c = n * (char*)x - raw;",
        ] {
            assert_eq!(obstacles(code), [""; 0], "{code}");
        }
    }

    #[test]
    fn numbers_in_bytes_at_an_offset_or_of_a_length_without_sizes_are_obstacles() {
        for code in [
            "float* p = (float*)(raw + n * 4);",
            "float* p = reinterpret_cast<float*>(raw + 512);",
            "half* p = (half*)&raw[16];",
            "int offset = n * 4; float4* p = (float4*)(raw + offset);",
            "char own[16]; float* p = (float*)own;",
        ] {
            assert_eq!(obstacles(code).len(), 1, "{code}");
        }
        for code in [
            "float* p = (float*)raw;",
            "float* p = (float*)(raw + n);",
            "float* p = (float*)(raw + 4 * n * sizeof(float));",
            "int offset = 4 * n * sizeof(float); float* p = (float*)(raw + offset);",
            "float4* p = (float4*)(x + 4 * n);",
            "char own[4 * sizeof(float)]; float* p = (float*)own;",
        ] {
            assert_eq!(obstacles(code), [""; 0], "{code}");
        }
    }

    #[test]
    fn a_macro_may_run_on_the_device() {
        let text = "#define TOP(x) (((unsigned char*)&(x))[3])\n";
        let unit = SourceUnit { path: "a.cu", text };
        let made =
            translate_for_host(&unit, &scan_symbols(&[unit]), Precision::Shadow, Threads::Stacks);
        insta::assert_snapshot!(made.unwrap().text, @r##"
        #line 1 "a.cu"
        #define TOP(x) ((::replay_rt::byte_cast<unsigned char*>("(unsigned char*)", "a.cu", 1)(&(x)))[3])
        "##);
    }
}
