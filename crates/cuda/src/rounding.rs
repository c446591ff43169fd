//! Directed rounding in PTX, text to text (PTX ISA, "Instruction Set").
//!
//! A GPU has no rounding mode; each instruction has its own. Instructions with rounding to nearest are rewritten:
//! arithmetic and conversions, and additions to memory as loops of compare and exchange. Approximations cannot
//! round otherwise: their results are moved by a unit in the last place instead. Code without an alternative to
//! rounding to nearest (half precision, tensor cores) is refused. Pure: no driver, no files.

use std::fmt::Write;

/// A direction other than the nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectedRounding {
    /// To negative infinity.
    Down,
    /// To positive infinity.
    Up,
    /// To zero.
    TowardZero,
}

impl DirectedRounding {
    fn modifier(self) -> &'static str {
        match self {
            DirectedRounding::Down => "rm",
            DirectedRounding::Up => "rp",
            DirectedRounding::TowardZero => "rz",
        }
    }

    /// The factor to move a result by a unit in the last place: 1 - 2^-24 or 1 + 2^-23.
    fn neighbour_of_one(self) -> &'static str {
        match self {
            DirectedRounding::Up => "0f3F800001",
            DirectedRounding::Down | DirectedRounding::TowardZero => "0f3F7FFFFF",
        }
    }
}

/// The code `ptx`, rounding in `direction`; or the first instruction unable to.
///
/// # Errors
/// The instruction, with its modifiers.
pub fn round_ptx(ptx: &str, direction: DirectedRounding) -> Result<String, String> {
    let mut writer = PtxWriter {
        direction,
        rest: ptx,
        out: String::with_capacity(ptx.len() + ptx.len() / 8),
        loops: 0,
    };
    writer.write()?;
    Ok(writer.out)
}

/// The treatment of an instruction.
#[derive(Debug, PartialEq, Eq)]
enum PtxRewrite {
    Keep,
    /// It rounds by a modifier: the instruction with another one.
    Modifier(String),
    /// Its result is moved.
    Move,
    /// It adds to memory: the same access as a compare and exchange, and the addition.
    Loop {
        exchange: String,
        add: String,
        bits: u32,
        /// Whether it gives the old value.
        returns: bool,
    },
    Refuse,
}

struct PtxWriter<'p> {
    direction: DirectedRounding,
    rest: &'p str,
    out: String,
    loops: usize,
}

impl<'p> PtxWriter<'p> {
    fn write(&mut self) -> Result<(), String> {
        // Whether a statement may begin here.
        let mut may_begin = true;
        while let Some(next) = self.rest.chars().next() {
            match next {
                '/' if self.rest.starts_with("//") => self.copy_through("\n", 2),
                '/' if self.rest.starts_with("/*") => self.copy_through("*/", 2),
                '"' => {
                    self.copy_through("\"", 1);
                    may_begin = false;
                }
                '\n' | ';' | '{' | '}' => {
                    self.copy(1);
                    may_begin = true;
                }
                _ if next.is_whitespace() => self.copy(next.len_utf8()),
                '@' | '_' | '$' | 'a'..='z' | 'A'..='Z' if may_begin => {
                    may_begin = self.statement()?;
                }
                _ => {
                    self.copy(next.len_utf8());
                    may_begin = false;
                }
            }
        }
        Ok(())
    }

    /// The next `bytes` of the text.
    fn advance(&mut self, bytes: usize) -> &'p str {
        let (taken_text, remaining_text) = self.rest.split_at(bytes);
        self.rest = remaining_text;
        taken_text
    }

    fn copy(&mut self, bytes: usize) {
        let taken_text = self.advance(bytes);
        self.out.push_str(taken_text);
    }

    /// Copies the text up to `end`, searched behind `skipped` bytes.
    fn copy_through(&mut self, end: &str, skipped: usize) {
        let end_index = self.rest[skipped..].find(end);
        self.copy(end_index.map_or(self.rest.len(), |offset| skipped + offset + end.len()));
    }

    /// A label, or an instruction up to its end. Whether another statement may begin next.
    fn statement(&mut self) -> Result<bool, String> {
        let guard = if self.rest.starts_with('@') {
            let remaining_bytes = self.rest.len();
            let name = self.rest.find(char::is_whitespace).unwrap_or(remaining_bytes);
            let guard = self.advance(name);
            let space = self.rest.len() - self.rest.trim_start().len();
            self.advance(space);
            guard
        } else {
            ""
        };
        let word_end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && !"_.$:%".contains(c));
        let word = self.advance(word_end.unwrap_or(self.rest.len()));
        if word.ends_with(':') || word.is_empty() {
            self.out.push_str(guard);
            self.out.push_str(word);
            return Ok(!word.is_empty());
        }
        let end = self.rest.find(';').unwrap_or(self.rest.len());
        let operands = self.advance(end);
        self.instruction(guard, word, operands)?;
        Ok(false)
    }

    fn instruction(&mut self, guard: &str, word: &str, operands: &str) -> Result<(), String> {
        let change = choose_ptx_rewrite(word, self.direction);
        let space = if guard.is_empty() { "" } else { " " };
        match change {
            PtxRewrite::Refuse => return Err(word.to_owned()),
            PtxRewrite::Loop { exchange, add, bits, returns } => {
                self.add_to_memory(guard, operands, (&exchange, &add), bits, returns)?;
                // A block ends without a semicolon.
                self.advance(usize::from(self.rest.starts_with(';')));
            }
            PtxRewrite::Modifier(word) => self.push([guard, space, &word, operands]),
            PtxRewrite::Keep => self.push([guard, space, word, operands]),
            PtxRewrite::Move => {
                self.push([guard, space, word, operands]);
                let result = operands.split(',').next().unwrap_or_default().trim();
                let modifier = self.direction.modifier();
                let factor = self.direction.neighbour_of_one();
                let rounding_code =
                    format!(";\n{guard}{space}mul.{modifier}.f32 {result}, {result}, {factor}");
                self.out.push_str(&rounding_code);
            }
        }
        Ok(())
    }

    fn push(&mut self, parts: [&str; 4]) {
        parts.into_iter().for_each(|part| self.out.push_str(part));
    }

    /// Adds to memory by `exchange`; it reads by exchanging 0 for 0.
    fn add_to_memory(
        &mut self,
        guard: &str,
        operands: &str,
        (exchange, add): (&str, &str),
        bits: u32,
        returns: bool,
    ) -> Result<(), String> {
        let unread = || format!("{add} with the operands {operands}");
        let opening_bracket = operands.find('[').ok_or_else(unread)?;
        let closing_bracket = operands.find(']').ok_or_else(unread)?;
        let address = &operands[opening_bracket..=closing_bracket];
        let added = operands[closing_bracket + 1..].trim_start_matches([',', ' ', '\t']).trim_end();
        let result = operands[..opening_bracket].trim().trim_end_matches(',').trim_end();
        if added.is_empty() || added.contains(',') {
            return Err(unread());
        }
        let number = self.loops;
        self.loops += 1;
        let done = format!("$replay_done_{number}");
        let again = format!("$replay_again_{number}");
        let mut text = format!(
            "{{\n.reg .pred %replay_p;\n.reg .b{bits} %replay_seen, %replay_old, %replay_sum;\n"
        );
        if !guard.is_empty() {
            let not = match guard.strip_prefix("@!") {
                Some(name) => format!("@{name}"),
                None => format!("@!{}", &guard[1..]),
            };
            let _ = writeln!(text, "{not} bra {done};");
        }
        let _ = write!(
            text,
            "{exchange} %replay_seen, {address}, 0, 0;\n\
             {again}:\n\
             mov.b{bits} %replay_old, %replay_seen;\n\
             {add} %replay_sum, %replay_old, {added};\n\
             {exchange} %replay_seen, {address}, %replay_old, %replay_sum;\n\
             setp.ne.b{bits} %replay_p, %replay_seen, %replay_old;\n\
             @%replay_p bra {again};\n"
        );
        if returns && result != "_" {
            let _ = writeln!(text, "mov.b{bits} {result}, %replay_old;");
        }
        let _ = write!(text, "{done}:\n}}");
        self.out.push_str(&text);
        Ok(())
    }
}

/// Types of fewer bits than float32, whose arithmetic has no direction.
const HALVES: [&str; 4] = ["f16", "f16x2", "bf16", "bf16x2"];
/// Types whose arithmetic has all directions.
const SINGLES: [&str; 3] = ["f32", "f32x2", "f64"];

/// The treatment of the instruction `word` for results rounded in `direction`.
fn choose_ptx_rewrite(word: &str, direction: DirectedRounding) -> PtxRewrite {
    let parts: Vec<&str> = word.split('.').collect();
    let name = parts[0];
    let modifiers = &parts[1..];
    let is_float = has_any_part(modifiers, &SINGLES) || has_any_part(modifiers, &HALVES);
    let adds = is_float && modifiers.contains(&"add");
    match name {
        "add" | "sub" | "mul" | "mad" | "fma" | "div" | "rcp" | "sqrt" if is_float => {
            rewrite_arithmetic(&parts, direction)
        }
        "ex2" | "lg2" | "sin" | "cos" | "tanh" | "rsqrt" => match () {
            () if has_any_part(modifiers, &HALVES) => PtxRewrite::Refuse,
            () if modifiers.contains(&"f32") => PtxRewrite::Move,
            // The first guess of an iteration.
            () => PtxRewrite::Keep,
        },
        "cvt" if modifiers.contains(&"rn") => rewrite_conversion(&parts, direction),
        "atom" | "red" if adds => rewrite_atomic_add(&parts, direction),
        "multimem" | "cp" | "redux" if adds => PtxRewrite::Refuse,
        "wmma" if modifiers.contains(&"mma") => PtxRewrite::Refuse,
        "mma" | "wgmma" | "tcgen05" => PtxRewrite::Refuse,
        _ => PtxRewrite::Keep,
    }
}

fn has_any_part(parts: &[&str], wanted_parts: &[&str]) -> bool {
    parts.iter().any(|part| wanted_parts.contains(part))
}

fn rewrite_arithmetic(parts: &[&str], direction: DirectedRounding) -> PtxRewrite {
    if has_any_part(parts, &HALVES) {
        return PtxRewrite::Refuse;
    }
    if has_any_part(parts, &["rm", "rp", "rz"]) {
        return PtxRewrite::Keep;
    }
    if has_any_part(parts, &["approx", "full"]) {
        // In float64 it is the first guess of an iteration.
        return if parts.contains(&"f32") { PtxRewrite::Move } else { PtxRewrite::Keep };
    }
    let modifiers = parts[1..].iter().filter(|part| **part != "rn");
    let all_parts = [parts[0], direction.modifier()].into_iter().chain(modifiers.copied());
    PtxRewrite::Modifier(all_parts.collect::<Vec<_>>().join("."))
}

/// A conversion with rounding to nearest: from float64 to float32, from an integer, or to half precision.
fn rewrite_conversion(parts: &[&str], direction: DirectedRounding) -> PtxRewrite {
    let [.., to_type, from_type] = *parts else { return PtxRewrite::Keep };
    let saturates = parts.iter().any(|part| ["relu", "satfinite"].contains(part));
    match to_type {
        "f32" | "f64" => replace_rounding(parts, direction.modifier()),
        "f16" if !saturates => replace_rounding(parts, direction.modifier()),
        // These have one direction besides the nearest.
        "f16" | "f16x2" | "bf16" | "bf16x2" if from_type == "f32" => match direction {
            DirectedRounding::TowardZero => replace_rounding(parts, "rz"),
            DirectedRounding::Down | DirectedRounding::Up => PtxRewrite::Keep,
        },
        _ => PtxRewrite::Refuse,
    }
}

/// The instruction with `modifier` in the place of rounding to nearest.
fn replace_rounding(parts: &[&str], modifier: &str) -> PtxRewrite {
    let parts = parts.iter().map(|part| if *part == "rn" { modifier } else { part });
    PtxRewrite::Modifier(parts.collect::<Vec<_>>().join("."))
}

fn rewrite_atomic_add(parts: &[&str], direction: DirectedRounding) -> PtxRewrite {
    let bits = match parts.last() {
        Some(&"f32") => 32,
        Some(&"f64") => 64,
        _ => return PtxRewrite::Refuse,
    };
    let access = &parts[1..parts.len() - 2];
    // Vectors, hints for caches, and asynchronous operations.
    let is_special = access.iter().any(|part| part.starts_with('v'))
        || has_any_part(access, &["async", "cache_hint", "noftz"]);
    if parts[parts.len() - 2] != "add" || is_special {
        return PtxRewrite::Refuse;
    }
    let access: String = access.iter().map(|part| format!(".{part}")).collect();
    PtxRewrite::Loop {
        exchange: format!("atom{access}.cas.b{bits}"),
        add: format!("add.{}.f{bits}", direction.modifier()),
        bits,
        returns: parts[0] == "atom",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down(ptx: &str) -> String {
        round_ptx(ptx, DirectedRounding::Down).unwrap()
    }

    #[test]
    fn arithmetic_that_rounds_to_nearest_rounds_as_told() {
        for (before, after) in [
            ("add.f32 %f1, %f2, %f3;", "add.rm.f32 %f1, %f2, %f3;"),
            ("add.rn.f32 %f1, %f2, %f3;", "add.rm.f32 %f1, %f2, %f3;"),
            ("sub.ftz.f32 %f1, %f2, %f3;", "sub.rm.ftz.f32 %f1, %f2, %f3;"),
            ("add.sat.f32 %f1, %f2, %f3;", "add.rm.sat.f32 %f1, %f2, %f3;"),
            ("mul.f64 %fd1, %fd2, %fd3;", "mul.rm.f64 %fd1, %fd2, %fd3;"),
            ("mul.rn.f32x2 %rd1, %rd2, %rd3;", "mul.rm.f32x2 %rd1, %rd2, %rd3;"),
            ("mad.rn.f32 %f1, %f2, %f3, %f4;", "mad.rm.f32 %f1, %f2, %f3, %f4;"),
            ("fma.rn.f32 %f1, %f2, %f3, %f4;", "fma.rm.f32 %f1, %f2, %f3, %f4;"),
            ("fma.rn.ftz.sat.f32 %f1, %f2, %f3, %f4;", "fma.rm.ftz.sat.f32 %f1, %f2, %f3, %f4;"),
            ("div.rn.f32 %f1, %f2, %f3;", "div.rm.f32 %f1, %f2, %f3;"),
            ("rcp.rn.f64 %fd1, %fd2;", "rcp.rm.f64 %fd1, %fd2;"),
            ("sqrt.rn.f32 %f1, %f2;", "sqrt.rm.f32 %f1, %f2;"),
        ] {
            assert_eq!(down(before), after);
        }
        let add = "\tadd.f32 \t%f1, %f2, %f3;\n";
        assert_eq!(
            round_ptx(add, DirectedRounding::Up).unwrap(),
            "\tadd.rp.f32 \t%f1, %f2, %f3;\n"
        );
        assert_eq!(
            round_ptx(add, DirectedRounding::TowardZero).unwrap(),
            "\tadd.rz.f32 \t%f1, %f2, %f3;\n"
        );
    }

    #[test]
    fn conversions_round_as_told_as_far_as_they_can() {
        for (before, down, up, zero) in [
            ("cvt.rn.f32.f64", "cvt.rm.f32.f64", "cvt.rp.f32.f64", "cvt.rz.f32.f64"),
            ("cvt.rn.f32.s32", "cvt.rm.f32.s32", "cvt.rp.f32.s32", "cvt.rz.f32.s32"),
            ("cvt.rn.f64.u64", "cvt.rm.f64.u64", "cvt.rp.f64.u64", "cvt.rz.f64.u64"),
            ("cvt.rn.f16.f32", "cvt.rm.f16.f32", "cvt.rp.f16.f32", "cvt.rz.f16.f32"),
            ("cvt.rn.bf16.f32", "cvt.rn.bf16.f32", "cvt.rn.bf16.f32", "cvt.rz.bf16.f32"),
            ("cvt.rn.f16x2.f32", "cvt.rn.f16x2.f32", "cvt.rn.f16x2.f32", "cvt.rz.f16x2.f32"),
            (
                "cvt.rn.relu.f16.f32",
                "cvt.rn.relu.f16.f32",
                "cvt.rn.relu.f16.f32",
                "cvt.rz.relu.f16.f32",
            ),
        ] {
            let all = [DirectedRounding::Down, DirectedRounding::Up, DirectedRounding::TowardZero];
            let told = all.map(|to| round_ptx(&format!("{before} %a, %b;"), to).unwrap());
            assert_eq!(told, [down, up, zero].map(|word| format!("{word} %a, %b;")));
        }
    }

    #[test]
    fn what_does_not_round_to_nearest_is_left_alone() {
        let kept = "\
//
.version 9.5
.target sm_90
.visible .entry mul(
	.param .u64 mul_param_0
)
{
	.reg .f32 	%f<5>; // add.f32 in words
	.loc	1 20 3
	/* add.f32 %f1, %f1, %f1; */
	add.s32 %r1, %r2, %r3;
	mad.lo.s32 %r1, %r2, %r3, %r4;
	mul.wide.u32 %rd1, %r2, 4;
	div.u32 %r1, %r2, %r3;
	fma.rm.f32 %f1, %f2, %f3, %f4;
	add.rz.f32 %f1, %f2, %f3;
	neg.f32 %f1, %f2;
	setp.lt.f32 %p1, %f1, %f2;
	cvt.f64.f32 %fd1, %f1;
	cvt.rni.f32.f32 %f1, %f2;
	cvt.rzi.s32.f32 %r1, %f1;
	cvt.sat.f32.f32 %f1, %f2;
	rcp.approx.ftz.f64 %fd1, %fd2;
	atom.global.add.u32 %r1, [%rd1], %r2;
	ld.global.L1::evict_last.f32 %f1, [%rd1+4];
	st.global.v2.f32 [%rd1], {%f1, %f2};
	call.uni (retval0),
	vprintf,
	(param0, param1);
	.pragma \"nounroll; add.f32 %f1, %f1, %f1;\";
	max.f32 %f1, %f2, %f3;
	bra.uni $L__BB0_2;
	ret;
}
";
        assert_eq!(down(kept), kept);
    }

    #[test]
    fn a_result_of_an_approximation_moves_by_a_unit() {
        assert_eq!(
            down("ex2.approx.ftz.f32 %f2, %f1;"),
            "ex2.approx.ftz.f32 %f2, %f1;\nmul.rm.f32 %f2, %f2, 0f3F7FFFFF;"
        );
        let up = |ptx: &str| round_ptx(ptx, DirectedRounding::Up).unwrap();
        assert_eq!(
            up("@%p1 div.full.f32 %f3, %f1, %f2;"),
            "@%p1 div.full.f32 %f3, %f1, %f2;\n@%p1 mul.rp.f32 %f3, %f3, 0f3F800001;"
        );
        for word in ["lg2.approx.f32", "sin.approx.f32", "cos.approx.f32", "tanh.approx.f32"] {
            assert!(up(&format!("{word} %f1, %f1;")).contains("mul.rp.f32 %f1, %f1"), "{word}");
        }
        for word in ["rsqrt.approx.f32", "rcp.approx.f32", "sqrt.approx.ftz.f32", "div.approx.f32"]
        {
            assert!(up(&format!("{word} %f1, %f1;")).contains("mul.rp.f32 %f1, %f1"), "{word}");
        }
    }

    #[test]
    fn an_addition_to_memory_becomes_a_loop_that_rounds_as_told() {
        insta::assert_snapshot!(down("@!%p2 atom.global.add.f32 %f2, [%rd1+8], %f1;"), @r"
        {
        .reg .pred %replay_p;
        .reg .b32 %replay_seen, %replay_old, %replay_sum;
        @%p2 bra $replay_done_0;
        atom.global.cas.b32 %replay_seen, [%rd1+8], 0, 0;
        $replay_again_0:
        mov.b32 %replay_old, %replay_seen;
        add.rm.f32 %replay_sum, %replay_old, %f1;
        atom.global.cas.b32 %replay_seen, [%rd1+8], %replay_old, %replay_sum;
        setp.ne.b32 %replay_p, %replay_seen, %replay_old;
        @%replay_p bra $replay_again_0;
        mov.b32 %f2, %replay_old;
        $replay_done_0:
        }
        ");
        let reduced = down("red.shared.add.f64 [%r1], %fd1;");
        assert!(reduced.contains("atom.shared.cas.b64 %replay_seen, [%r1], 0, 0;"), "{reduced}");
        assert!(!reduced.contains("mov.b64 %fd"), "{reduced}");
        let both = down("red.global.add.f32 [%rd1], %f1;\nred.global.add.f32 [%rd1], %f1;");
        assert!(both.contains("$replay_done_0:") && both.contains("$replay_done_1:"), "{both}");
    }

    #[test]
    fn statements_are_found_behind_labels_guards_and_braces() {
        assert_eq!(
            down(
                "$L__BB0_1:\n\t@%p1 add.f32 %f1, %f1, %f2;\n{sub.f32 %f1,%f2,%f3;}\nL2: mul.f32 %f1, %f2, %f3;"
            ),
            "$L__BB0_1:\n\t@%p1 add.rm.f32 %f1, %f1, %f2;\n{sub.rm.f32 %f1,%f2,%f3;}\nL2: mul.rm.f32 %f1, %f2, %f3;"
        );
    }

    #[test]
    fn what_rounds_to_nearest_alone_is_refused_by_its_name() {
        for word in [
            "add.f16",
            "fma.rn.f16x2",
            "mul.bf16x2",
            "fma.rn.relu.bf16",
            "ex2.approx.f16",
            "tanh.approx.bf16x2",
            "cvt.rn.satfinite.e4m3x2.f32",
            "cvt.rn.tf32.f32",
            "atom.global.add.noftz.f16x2",
            "red.global.add.noftz.bf16",
            "red.global.v2.f32.add",
            "atom.global.v4.f32.add",
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
            "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32",
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32",
        ] {
            assert_eq!(
                round_ptx(&format!("{word} %a, %b;"), DirectedRounding::Up),
                Err(word.to_owned())
            );
        }
    }
}
