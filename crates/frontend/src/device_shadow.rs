//! The float64 shadow of device CUDA C++. It widens the same as [`super::shadow`], and also the float32 names of
//! CUDA's own headers. On the CPU the headers widen those.

use super::byte_counts::COPIES;
use super::edits::Edits;
use super::integer_variables::BYTES;
use super::lexer::{Token, TokenKind, lex_directive, lex_tokens};
use super::outline::outline_items;
use super::packed_casts::{self, NARROW};
use super::shadow::{MATH, widen_token};
use super::source::Source;

/// Headers, by the beginnings of their names, whose types and functions have no float64 form on a device.
const NARROW_HEADERS: [&str; 8] =
    ["cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "cublas", "curand", "cub/", "thrust/", "mma.h"];

/// Functions and types of float32 by their forms in float64. `runtime/nvrtc/shadow` defines `replay_shadow...`.
const NAMES: [(&str, &str); 33] = [
    ("FLT_EPSILON", "REPLAY_SHADOW_FLT_EPSILON"),
    ("FLT_MAX", "REPLAY_SHADOW_FLT_MAX"),
    ("FLT_MIN", "REPLAY_SHADOW_FLT_MIN"),
    ("FLT_TRUE_MIN", "REPLAY_SHADOW_FLT_TRUE_MIN"),
    ("HUGE_VALF", "REPLAY_SHADOW_INFINITY"),
    ("INFINITY", "REPLAY_SHADOW_INFINITY"),
    ("NAN", "REPLAY_SHADOW_NAN"),
    ("__cosf", "replay_shadow_cosf"),
    ("__exp10f", "replay_shadow_exp10f"),
    ("__expf", "replay_shadow_expf"),
    ("__fdividef", "replay_shadow_divide"),
    ("__frsqrt_rn", "replay_shadow_rsqrtf"),
    ("__log10f", "replay_shadow_log10f"),
    ("__log2f", "replay_shadow_log2f"),
    ("__logf", "replay_shadow_logf"),
    ("__powf", "replay_shadow_powf"),
    ("__saturatef", "replay_shadow_saturate"),
    ("__sincosf", "replay_shadow_sincosf"),
    ("__sinf", "replay_shadow_sinf"),
    ("__tanf", "replay_shadow_tanf"),
    ("__tanhf", "replay_shadow_tanhf"),
    ("__double2float_rn", "replay_shadow_same"),
    ("fdividef", "replay_shadow_divide"),
    ("float1", "double1"),
    ("float2", "double2"),
    ("float3", "double3"),
    ("float4", "double4"),
    ("__int2float_rd", "__int2double_rn"),
    ("__int2float_ru", "__int2double_rn"),
    ("__int2float_rz", "__int2double_rn"),
    ("__uint2float_rd", "__uint2double_rn"),
    ("__uint2float_ru", "__uint2double_rn"),
    ("__uint2float_rz", "__uint2double_rn"),
];
/// The beginnings of further names. Their ends stay.
const BEGINNINGS: [(&str, &str); 16] = [
    ("__fadd_r", "__dadd_r"),
    ("__fsub_r", "__dsub_r"),
    ("__fmul_r", "__dmul_r"),
    ("__fdiv_r", "__ddiv_r"),
    ("__frcp_r", "__drcp_r"),
    ("__fsqrt_r", "__dsqrt_r"),
    ("__fmaf_r", "__fma_r"),
    ("__float2int_r", "__double2int_r"),
    ("__float2uint_r", "__double2uint_r"),
    ("__float2ll_r", "__double2ll_r"),
    ("__float2ull_r", "__double2ull_r"),
    ("__int2float_rn", "__int2double_rn"),
    ("__uint2float_rn", "__uint2double_rn"),
    ("__ll2float_r", "__ll2double_r"),
    ("__ull2float_r", "__ull2double_r"),
    ("make_float", "make_double"),
];

/// Functions without a form of one signature in `runtime/nvrtc/shadow`: they lose their `f` alone.
const OVERLOADED: [&str; 10] = [
    "jnf",
    "nanf",
    "nexttowardf",
    "norm4df",
    "normf",
    "powif",
    "rnorm4df",
    "rnormf",
    "signbitf",
    "ynf",
];

/// Constants of `math_constants.h` about the format float32 itself.
const FINITE_BOUNDS: [&str; 2] = ["CUDART_MIN_DENORM_F", "CUDART_MAX_NORMAL_F"];

/// `text`, device code or a name in it, with `float` meaning `double`. No line moves.
pub(super) fn widen_device_code(text: &str) -> String {
    let mut edits = Edits::default();
    for token in lex_tokens(text) {
        if token.kind != TokenKind::Directive {
            widen_device_token(token, text, &mut edits);
            continue;
        }
        let words = lex_directive(text, token);
        if !words.first().is_some_and(|word| word.is_spelled(text, "include")) {
            words.iter().for_each(|&word| widen_device_token(word, text, &mut edits));
        }
    }
    edits.apply(text)
}

fn widen_device_token(token: Token, text: &str, edits: &mut Edits) {
    let known_form =
        (token.kind == TokenKind::Ident).then(|| wide_device_name(token.text(text))).flatten();
    if let Some(wide_form) = known_form.or_else(|| widen_token(token, text)) {
        edits.replace(token.start..token.end, wide_form);
    }
}

/// The float64 form of a name of CUDA's.
fn wide_device_name(word: &str) -> Option<String> {
    if let Some((_, wide_name)) = NAMES.iter().find(|(name, _)| *name == word) {
        return Some((*wide_name).to_owned());
    }
    if MATH.contains(&word) && !OVERLOADED.contains(&word) {
        return Some(format!("replay_shadow_{word}"));
    }
    let constant = word.strip_suffix("_F").filter(|_| !FINITE_BOUNDS.contains(&word));
    if let Some(wide_name) = constant.filter(|wide_name| wide_name.starts_with("CUDART_")) {
        return Some(wide_name.to_owned());
    }
    let (name, wide_prefix) = BEGINNINGS.iter().find(|(name, _)| word.starts_with(name))?;
    Some(word.replacen(name, wide_prefix, 1))
}

/// Whether a directive of `source` includes `header`.
fn includes(source: &Source, header: &str) -> bool {
    source.tokens.iter().filter(|token| token.kind == TokenKind::Directive).any(|directive| {
        let line = directive.text(source.text);
        line.contains("include") && line.contains(header)
    })
}

/// Whether code of `source` mentions `name`.
fn mentions_name(source: &Source, name: &str) -> bool {
    source.tokens.iter().any(|token| token.is_spelled(source.text, name))
}

/// Why the device code of `source` has no float64 form to fit the host's; none if it may have one.
pub(super) fn find_device_obstacle(source: &Source) -> Option<&'static str> {
    if let Some(header) = NARROW_HEADERS.into_iter().find(|header| includes(source, header)) {
        return Some(header);
    }
    if ["asm", "__asm", "__asm__"].iter().any(|word| mentions_name(source, word)) {
        return Some("inline PTX");
    }
    if has_numbered_bytes(source) {
        return Some("sizes in bytes");
    }
    let mut narrow_names = NARROW.into_iter().filter(|name| name.starts_with("__"));
    narrow_names.find(|name| mentions_name(source, name)).or_else(|| {
        packed_casts::has_packed_casts(source).then_some("numbers packed into integers")
    })
}

/// Whether device code of `source` copies a number of bytes without `sizeof`, or shares an array of bytes: these are
/// widened on the CPU alone.
fn has_numbered_bytes(source: &Source) -> bool {
    let text = source.text;
    let code = source.view(true);
    let follows_no_size = |index: usize| {
        code.skip_group(index + 1).is_some_and(|end| {
            !code[index + 1..end].iter().any(|word| word.is_spelled(text, "sizeof"))
        })
    };
    let shares_bytes = |index: usize| {
        let types = code[index + 1..].iter().take(2);
        code.is_spelled_at(text, index, "__shared__")
            && types.into_iter().any(|word| BYTES.contains(&word.text(text)))
    };
    outline_items(text, &code)
        .iter()
        .filter(|item| item.on_device(text, &code))
        .flat_map(|item| item.tokens.clone())
        .any(|index| {
            COPIES.contains(&code.text_at(text, index)) && follows_no_size(index)
                || shares_bytes(index)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceUnit;

    #[test]
    fn names_of_float32_become_those_of_float64_and_no_line_moves() {
        let text = "#include <float4.h>\n#define E(x) __expf(x) * 1.0f\n__device__ float4 f(float x) {\n\
                    return make_float4(__fadd_rn(x, 1e-3f), expf(x), __float2int_rz(x), CUDART_PI_F); }";
        insta::assert_snapshot!(widen_device_code(text), @r"
        #include <float4.h>
        #define E(x) replay_shadow_expf(x) * 1.0
        __device__ double4 f(double x) {
        return make_double4(__dadd_rn(x, 1e-3), replay_shadow_expf(x), __double2int_rz(x), CUDART_PI); }
        ");
        assert_eq!(widen_device_code("ns::k<float, 2>"), "ns::k<double, 2>");
    }

    #[test]
    fn half_formats_and_packed_integers_are_left_to_the_cpu() {
        let found = |text| find_device_obstacle(&Source::new(&SourceUnit { path: "a.cu", text }));
        assert_eq!(found("#include <cuda_bf16.h>\n"), Some("cuda_bf16.h"));
        assert_eq!(found("void f(__half* x);"), Some("__half"));
        assert_eq!(found("#include <cublas_v2.h>\n"), Some("cublas"));
        assert_eq!(found("__device__ void f() { asm volatile(\"nop;\"); }"), Some("inline PTX"));
        let packed = "__device__ void f(float* x) { *(int4*)x = int4(); }";
        assert_eq!(found(packed), Some("numbers packed into integers"));
        let copied = "__device__ void f(float* x, float* y) { memcpy(x, y, 16); }";
        assert_eq!(found(copied), Some("sizes in bytes"));
        let shared = "__global__ void f() { __shared__ unsigned char s[512]; g((float*)s); }";
        assert_eq!(found(shared), Some("sizes in bytes"));
        let sized = "void h(float* x) { memset(x, 0, 16); }\n\
                     __device__ void f(float* x, float* y) { memcpy(x, y, sizeof(float)); }";
        assert_eq!(found(sized), None);
        let summed = "for (int half = blockDim.x / 2; half > 0; half /= 2) s[i] += s[i + half];";
        assert_eq!(found(summed), None);
    }
}
