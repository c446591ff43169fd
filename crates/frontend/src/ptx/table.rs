//! The arithmetic instructions: each is a function of `replay/ptx.h`.

use std::collections::BTreeMap;

/// An instruction with one result, computed from values.
pub(super) struct Row {
    /// Its parts: a word, a choice `a|b`, `?a` if it may be missing, `$t:a|b` if the signature needs it.
    pattern: &'static str,
    /// The types of the result and of the operands: `t` is the match of `$t`.
    signature: &'static str,
    /// The function in C++.
    function: &'static str,
    /// Whether it looks at the bits of floating-point numbers.
    packs: bool,
}

const fn table_row(pattern: &'static str, signature: &'static str, function: &'static str) -> Row {
    Row { pattern, signature, function, packs: false }
}

const fn packed_row(pattern: &'static str, signature: &'static str, function: &'static str) -> Row {
    Row { pattern, signature, function, packs: true }
}

/// `add.rn.f32` is `?rn`: an instruction without a rounding goes to the nearest too. Other roundings are in no row.
const ROWS: [Row; 74] = [
    table_row("ex2 approx ?ftz f32", "f32 f32", "ex2<$ftz>"),
    table_row("lg2 approx ?ftz f32", "f32 f32", "lg2<$ftz>"),
    table_row("rsqrt approx ?ftz f32", "f32 f32", "rsqrt<$ftz>"),
    table_row("sqrt approx|rn ?ftz f32", "f32 f32", "sqrt<$ftz>"),
    table_row("sin approx ?ftz f32", "f32 f32", "sin<$ftz>"),
    table_row("cos approx ?ftz f32", "f32 f32", "cos<$ftz>"),
    table_row("tanh approx f32", "f32 f32", "tanh<false>"),
    table_row("rcp approx|rn ?ftz f32", "f32 f32", "rcp<$ftz>"),
    table_row("neg ?ftz f32", "f32 f32", "neg<$ftz>"),
    table_row("abs ?ftz f32", "f32 f32", "abs<$ftz>"),
    table_row("add ?rn ?ftz f32", "f32 f32 f32", "add<$ftz>"),
    table_row("sub ?rn ?ftz f32", "f32 f32 f32", "sub<$ftz>"),
    table_row("mul ?rn ?ftz f32", "f32 f32 f32", "mul<$ftz>"),
    table_row("div approx|full|rn ?ftz f32", "f32 f32 f32", "div<$ftz>"),
    table_row("min ?ftz f32", "f32 f32 f32", "min<$ftz>"),
    table_row("max ?ftz f32", "f32 f32 f32", "max<$ftz>"),
    table_row("fma rn ?ftz f32", "f32 f32 f32 f32", "fma<$ftz>"),
    table_row("add $t:u32|s32|u64|s64|u16|s16", "t t t", "iadd<$t>"),
    table_row("sub $t:u32|s32|u64|s64|u16|s16", "t t t", "isub<$t>"),
    table_row("mul lo $t:u32|s32|u64|s64", "t t t", "imul<$t>"),
    table_row("mul hi u32", "u32 u32 u32", "mul_hi"),
    table_row("mul hi s32", "s32 s32 s32", "mul_hi_s"),
    table_row("dp4a s32 s32", "s32 b32 b32 s32", "dp4a"),
    table_row("dp4a u32 u32", "u32 b32 b32 u32", "dp4a_u"),
    table_row("cvt rni s32 f32", "s32 f32", "nearest_s32"),
    table_row("cvt rzi s32 f32", "s32 f32", "cut_s32"),
    table_row("cvt rn f32 s32", "f32 s32", "from_s32"),
    table_row("cvt rn f32 u32", "f32 u32", "from_u32"),
    table_row("mul wide u32", "u64 u32 u32", "imul<$u64>"),
    table_row("mul wide s32", "s64 s32 s32", "imul<$s64>"),
    table_row("mad lo $t:u32|s32|u64|s64", "t t t t", "imad<$t>"),
    table_row("mad wide u32", "u64 u32 u32 u64", "imad<$u64>"),
    table_row("mad wide s32", "s64 s32 s32 s64", "imad<$s64>"),
    table_row("min $t:u32|s32|u64|s64", "t t t", "imin<$t>"),
    table_row("max $t:u32|s32|u64|s64", "t t t", "imax<$t>"),
    table_row("and $t:b16|b32|b64", "t t t", "and<$t>"),
    table_row("or $t:b16|b32|b64", "t t t", "or<$t>"),
    table_row("xor $t:b16|b32|b64", "t t t", "xor<$t>"),
    table_row("not $t:b16|b32|b64", "t t", "not<$t>"),
    table_row("shl $t:b16|b32|b64", "t t u32", "shl<$t>"),
    table_row("shr $t:b16|b32|b64|u16|u32|u64|s16|s32|s64", "t t u32", "shr<$t>"),
    table_row("lop3 b32", "b32 b32 b32 b32 u32", "lop3"),
    table_row("prmt b32", "b32 b32 b32 b32", "prmt"),
    table_row("bfe $t:u32|s32", "t t u32 u32", "bfe<$t>"),
    table_row("bfi b32", "b32 b32 b32 u32 u32", "bfi"),
    table_row("shf l wrap b32", "b32 b32 b32 u32", "shf<true, true>"),
    table_row("shf l clamp b32", "b32 b32 b32 u32", "shf<true, false>"),
    table_row("shf r wrap b32", "b32 b32 b32 u32", "shf<false, true>"),
    table_row("shf r clamp b32", "b32 b32 b32 u32", "shf<false, false>"),
    table_row("popc $t:b32|b64", "u32 t", "popc<$t>"),
    table_row("clz b32", "u32 b32", "clz"),
    table_row("brev b32", "b32 b32", "brev"),
    table_row(
        "setp $c:eq|ne|lt|le|gt|ge $t:u16|s16|u32|s32|u64|s64|b32|b64|f32|f64",
        "pred t t",
        "$c<$t>",
    ),
    table_row("selp $t:u32|s32|u64|s64|b32|b64|f32|f64", "t t t pred", "selp<$t>"),
    table_row("mov pred", "pred pred", "mov<$pred>"),
    table_row(
        "cvt $t:u32|s32|u64|s64|u16|s16|u8|s8 $s:u32|s32|u64|s64|u16|s16|u8|s8",
        "t s",
        "mov<$t>",
    ),
    table_row("cvta $t:global|local|const|param $s:u64", "s s", "mov<$s>"),
    table_row("cvta to $t:global|local|const|param $s:u64", "s s", "mov<$s>"),
    packed_row("cvt rna tf32 f32", "b32 f32", "to_tf32"),
    packed_row("cvt rn f16 f32", "b16 f32", "to_f16"),
    packed_row("cvt rn bf16 f32", "b16 f32", "to_bf16"),
    packed_row("cvt rn f16x2 f32", "b32 f32 f32", "to_f16x2"),
    packed_row("cvt rn bf16x2 f32", "b32 f32 f32", "to_bf16x2"),
    packed_row("cvt f32 f16", "f32 b16", "from_f16"),
    packed_row("cvt f32 bf16", "f32 b16", "from_bf16"),
    packed_row("add ?rn f16x2", "b32 b32 b32", "add_f16x2"),
    packed_row("sub ?rn f16x2", "b32 b32 b32", "sub_f16x2"),
    packed_row("mul ?rn f16x2", "b32 b32 b32", "mul_f16x2"),
    packed_row("fma rn f16x2", "b32 b32 b32 b32", "fma_f16x2"),
    packed_row("add ?rn bf16x2", "b32 b32 b32", "add_bf16x2"),
    packed_row("sub ?rn bf16x2", "b32 b32 b32", "sub_bf16x2"),
    packed_row("mul ?rn bf16x2", "b32 b32 b32", "mul_bf16x2"),
    packed_row("fma rn bf16x2", "b32 b32 b32 b32", "fma_bf16x2"),
    packed_row("mov b16", "b16 b16", "mov<$b16>"),
];

/// An instruction of the table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PtxFunction {
    /// The types of the result and of the operands.
    pub types: Vec<String>,
    /// The function in C++, with its template arguments.
    pub function: String,
    /// Whether it looks at the bits of floating-point numbers.
    pub packs: bool,
}

/// The instruction with these parts, if it is one of the table.
pub(super) fn find_ptx_function(parts: &[&str]) -> Option<PtxFunction> {
    ROWS.iter().find_map(|row| {
        let bound = match_ptx_pattern(row.pattern, parts)?;
        let words = row.signature.split(' ');
        let types = words.map(|word| bound.get(word).map_or(word, String::as_str).to_owned());
        let types = types.collect();
        Some(PtxFunction {
            types,
            function: fill_function_pattern(row.function, &bound),
            packs: row.packs,
        })
    })
}

/// The parts named in `pattern`, if it fits.
fn match_ptx_pattern(pattern: &str, parts: &[&str]) -> Option<BTreeMap<String, String>> {
    let mut bound = BTreeMap::new();
    let mut remaining_parts = parts.iter().copied().peekable();
    for want in pattern.split(' ') {
        if let Some(optional) = want.strip_prefix('?') {
            let is_present = remaining_parts.next_if_eq(&optional).is_some();
            bound.insert(optional.to_owned(), is_present.to_string());
            continue;
        }
        let (name, choices) = match want.strip_prefix('$').and_then(|rest| rest.split_once(':')) {
            Some((name, choices)) => (Some(name), choices),
            None => (None, want),
        };
        let part =
            remaining_parts.next_if(|part| choices.split('|').any(|choice| choice == *part))?;
        if let Some(name) = name {
            bound.insert(name.to_owned(), part.to_owned());
        }
    }
    remaining_parts.next().is_none().then_some(bound)
}

/// `function` with a value for each `$name`: a flag, or a type of `replay/ptx.h`.
fn fill_function_pattern(function: &str, bound: &BTreeMap<String, String>) -> String {
    let (name, arguments) = function.split_once('<').unwrap_or((function, ""));
    let name = match name.strip_prefix('$') {
        Some(name) => bound.get(name).cloned().unwrap_or_default(),
        None => name.to_owned(),
    };
    if arguments.is_empty() {
        return name;
    }
    let words = arguments.trim_end_matches('>').split(", ");
    let list: Vec<String> = words.map(|word| fill_template_argument(word, bound)).collect();
    format!("{name}<{}>", list.join(", "))
}

/// The template argument `word`, with its value if it is a `$name`.
fn fill_template_argument(word: &str, bound: &BTreeMap<String, String>) -> String {
    let Some(name) = word.strip_prefix('$') else { return word.to_owned() };
    match bound.get(name).map_or(name, String::as_str) {
        flag @ ("true" | "false") => flag.to_owned(),
        kind => super::ptx_type_name(kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(opcode: &str) -> Option<(String, Vec<String>)> {
        let parts: Vec<&str> = opcode.split('.').collect();
        find_ptx_function(&parts).map(|found| (found.function, found.types))
    }

    #[test]
    fn instructions_are_found_by_their_parts() {
        let (function, types) = of("ex2.approx.ftz.f32").unwrap();
        assert_eq!((function.as_str(), types.len()), ("ex2<true>", 2));
        assert_eq!(of("add.rn.f32").unwrap().0, "add<false>");
        let (function, types) = of("setp.ne.b32").unwrap();
        assert_eq!(function, "ne<::replay_ptx::ptx_b32>");
        assert_eq!(types, ["pred", "b32", "b32"]);
        assert_eq!(of("mul.wide.u32").unwrap().0, "imul<::replay_ptx::ptx_u64>");
        assert_eq!(of("cvt.u32.u64").unwrap().1, ["u32", "u64"]);
        for unknown in ["add.rz.f32", "add.sat.f32", "add", "ex2.approx.f32.x", "cvt.rz.f32.u32"] {
            assert_eq!(of(unknown), None, "{unknown}");
        }
    }
}
