//! Which chains of shuffles become one wait, and what they become.

use super::snapshot;
use replay::frontend::{Precision, SourceUnit, Threads, scan_symbols, translate_for_host};

fn translated(text: &str, threads: Threads) -> String {
    let unit = SourceUnit { path: "a.cu", text };
    translate_for_host(&unit, &scan_symbols(&[unit]), Precision::Native, threads).unwrap().text
}

/// Whether `code` in a function with the variables `v`, `w`, `p`, `m` and `n` is a fold; `before` stands in front.
fn is_fold(before: &str, code: &str) -> bool {
    let text = format!(
        "{before}\n__device__ float f(float v, float w, float* p, unsigned m, int n) {{ {code} return v; }}\n"
    );
    let made = translated(&text, Threads::Blocks);
    assert_eq!(made.lines().count(), text.lines().count() + 1, "{code}");
    let folds = made.contains("replay_rt::fold<");
    assert!(folds || made.contains(code), "what is no fold stays: {made}");
    folds
}

const SUMS: &str = "\
#define FULL 0xffffffffu
template <int Width>
__device__ float sums(float value, unsigned mask)
{
    #pragma unroll
    for (int offset = Width / 2;
         offset > 0; offset /= 2) {
        value += __shfl_xor_sync(FULL, value, offset);
    }
    value = fmaxf(__shfl_down_sync(mask, value, 2, 4), value);
    value = fmaxf(__shfl_down_sync(mask, value, 1, 4), value);
    return value;
}
";

#[test]
fn a_butterfly_and_statements_behind_each_other_become_one_wait() {
    snapshot("folds", "native", &translated(SUMS, Threads::Blocks));
}

#[test]
fn threads_with_stacks_wait_at_each_shuffle() {
    let made = translated(SUMS, Threads::Stacks);
    assert_eq!(made.split_once('\n').unwrap().1, SUMS);
}

#[test]
fn loops_that_only_combine_a_variable_with_another_lanes_are_folds() {
    for code in [
        "for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(m, v, d);",
        "for (int d = 16; d > 0; d >>= 1) { v += __shfl_down_sync(0xffffffff, v, d); }",
        "for (unsigned int d = 1; d < 32; d <<= 1) v *= __shfl_up_sync(~0u, v, d, 32);",
        "for (auto d = warpSize / 2; d; d = d / 2) v = v + __shfl_xor_sync((1u << 8) - 1, v, d, n);",
        "for (int d = n >> 1; d != 0; d /= 2) v = __shfl_xor_sync(m, v, d) + v;",
        "for (int d = 16; d >= 1; d >>= 1) v = max(v, __shfl_xor_sync(m, v, d));",
        "if (n) for (int d = 16; d > 0; d >>= 1) v = fminf(__shfl_xor_sync(m, v, d), v);",
        "\n#pragma unroll\nfor (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(m, v, d);",
        "v += __shfl_xor_sync(m, v, 2); v += __shfl_xor_sync(m, v, 1);",
    ] {
        assert!(is_fold("", code), "{code}");
    }
    let with_macro = "for (int d = WARP / 2; d > 0; d /= 2) v += __shfl_xor_sync(ALL, v, d);";
    assert!(is_fold("#define WARP 32\n#define ALL (~0u)", with_macro));
    assert!(is_fold("constexpr int WARP = 32; const unsigned ALL = 1;", with_macro));
}

#[test]
fn what_does_more_or_may_change_between_the_shuffles_is_no_fold() {
    for code in [
        "v += __shfl_xor_sync(m, v, 1);",
        "v += __shfl_xor_sync(m, v, 2); v += __shfl_down_sync(m, v, 1);",
        "v += __shfl_xor_sync(m, v, 2); v += __shfl_xor_sync(n, v, 1);",
        "v += __shfl_xor_sync(m, v, 2); w += __shfl_xor_sync(m, w, 1);",
        "v += __shfl_xor_sync(m, v, 2); v *= __shfl_xor_sync(m, v, 1);",
        "v -= __shfl_xor_sync(m, v, 2); v -= __shfl_xor_sync(m, v, 1);",
        "if (n) v += __shfl_xor_sync(m, v, 2); v += __shfl_xor_sync(m, v, 1);",
        "for (int d = 16; d > 0; d /= 2) v += w * __shfl_xor_sync(m, v, d);",
        "for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(m, w, d);",
        "for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(m, v, 1);",
        "for (int d = 16; d > 0; d /= 2) v += __shfl_sync(m, v, d);",
        "for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(__activemask(), v, d);",
        "for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(*p, v, d);",
        "for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(p[0], v, d);",
        "for (int d = 16; d > 0; d /= 2) { v += __shfl_xor_sync(m, v, d); p[d] = v; }",
        "for (int d = 16; d > v; d /= 2) v += __shfl_xor_sync(m, v, d);",
        "for (int d = 16; d > p[0]; d /= 2) v += __shfl_xor_sync(m, v, d);",
        "for (int d = 16; d > n--; d /= 2) v += __shfl_xor_sync(m, v, d);",
        "for (int d = 16; d > 0; d /= n = 2) v += __shfl_xor_sync(m, v, d);",
        "for (int d = 16; d > 0; d /= f(1, 2, p, 3, 4)) v += __shfl_xor_sync(m, v, d);",
        "for (n = 16; n > 0; n /= 2) v += __shfl_xor_sync(m, v, n);",
        "for (int d = 16; d > 0;) v += __shfl_xor_sync(m, v, d);",
        "p[0] += __shfl_xor_sync(m, p[0], 2); p[0] += __shfl_xor_sync(m, p[0], 1);",
    ] {
        assert!(!is_fold("", code), "{code}");
    }
    let code = "for (int d = 16; d > 0; d /= 2) v = max(v, __shfl_xor_sync(m, v, d));";
    for before in [
        "#define max(a, b) ((a) > (b) ? (a) : (b))",
        "__device__ float max(float a, float b) { return a * b; }",
        "#define __shfl_xor_sync(m, v, d) __shfl_sync(m, v, d)",
        "#define v (*p)",
        "__device__ unsigned m;",
    ] {
        assert!(!is_fold(before, code), "{before}");
    }
    let code = "for (int d = START; d > 0; d /= 2) v += __shfl_xor_sync(m, v, d);";
    assert!(!is_fold("#define START next(16)", code));
    let text = format!("struct S {{ float v; __device__ void f(unsigned m) {{ {code} }} }};");
    assert!(
        !translated(&text.replace("START", "16"), Threads::Blocks).contains("replay_rt::fold<")
    );
}
