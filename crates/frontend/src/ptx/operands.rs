//! The operands of an instruction, written for C++.

use super::statement::AsmStatement;

/// An operand of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PtxArgument {
    /// A C++ expression, and the number of the statement's operand behind it, if any.
    Value(String, Option<usize>),
    /// `{a, b}`: several registers.
    Vector(Vec<PtxArgument>),
    /// `[a + 16]`: a place in memory.
    Address(String, i64),
    /// `_`: nothing.
    Sink,
}

impl PtxArgument {
    /// The C++ expression, if it is one value.
    pub(super) fn value(&self) -> Option<&str> {
        match self {
            PtxArgument::Value(text, _) => Some(text),
            _ => None,
        }
    }

    /// Its values.
    pub(super) fn values(&self) -> Option<Vec<&str>> {
        match self {
            PtxArgument::Value(text, _) => Some(vec![text]),
            PtxArgument::Vector(parts) => parts.iter().map(PtxArgument::value).collect(),
            _ => None,
        }
    }

    /// Whether a floating-point register of the statement is part of it.
    pub(super) fn is_floating(&self, statement: &AsmStatement) -> bool {
        match self {
            PtxArgument::Value(_, Some(number)) => statement.operands[*number].is_floating(),
            PtxArgument::Vector(parts) => parts.iter().any(|part| part.is_floating(statement)),
            _ => false,
        }
    }
}

/// The operands in `list`, separated by commas; `None` if one is not understood.
pub(super) fn parse_ptx_arguments(
    list: &str,
    statement: &AsmStatement,
) -> Option<Vec<PtxArgument>> {
    split_outside_brackets(list)?
        .into_iter()
        .map(|part| parse_ptx_argument(part, statement))
        .collect()
}

/// `list` cut at the commas outside of brackets.
fn split_outside_brackets(list: &str) -> Option<Vec<&str>> {
    let mut list_parts = Vec::new();
    let mut depth = 0i32;
    let mut start = 0;
    for (byte_offset, c) in list.char_indices() {
        match c {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth -= 1,
            ',' if depth == 0 => {
                list_parts.push(list[start..byte_offset].trim());
                start = byte_offset + 1;
            }
            _ => {}
        }
    }
    let last = list[start..].trim();
    if !last.is_empty() || !list_parts.is_empty() {
        list_parts.push(last);
    }
    (depth == 0).then_some(list_parts)
}

fn parse_ptx_argument(text: &str, statement: &AsmStatement) -> Option<PtxArgument> {
    if text == "_" {
        return Some(PtxArgument::Sink);
    }
    if let Some(inner) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        return parse_ptx_arguments(inner, statement).map(PtxArgument::Vector);
    }
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let (base, offset) = match inner.rsplit_once('+') {
            Some((base, offset)) => (base.trim(), parse_ptx_integer(offset.trim())?),
            None => (inner.trim(), 0),
        };
        let PtxArgument::Value(base, _) = parse_ptx_argument(base, statement)? else { return None };
        return Some(PtxArgument::Address(base, offset));
    }
    parse_ptx_value(text, statement)
}

/// A register, a number or a special register.
fn parse_ptx_value(text: &str, statement: &AsmStatement) -> Option<PtxArgument> {
    if let Some(register_name) = text.strip_prefix("%%") {
        return special_register(register_name).or_else(|| {
            register_argument(register_name).filter(|_| !is_predefined(register_name))
        });
    }
    if let Some(operand_text) = text.strip_prefix('%') {
        if let Some(name) = operand_text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let mut operands = statement.operands.iter();
            return operands
                .position(|operand| operand.name.as_deref() == Some(name))
                .map(operand_argument);
        }
        if let Ok(number) = operand_text.parse::<usize>() {
            return (number < statement.operands.len()).then(|| operand_argument(number));
        }
        // Without operands a statement is not searched for them.
        return special_register(operand_text)
            .or_else(|| register_argument(operand_text).filter(|_| !is_predefined(operand_text)));
    }
    if let Some(digits) = text.strip_prefix("0f").or_else(|| text.strip_prefix("0F")) {
        let bits = u32::from_str_radix(digits, 16).ok()?;
        return Some(value_argument(format!("::replay_rt::bits<float>({bits:#x}u)")));
    }
    if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        let number = match parse_ptx_integer(text) {
            Some(number) => format!("{number}ll"),
            None => format!("{:?}", text.parse::<f64>().ok()?),
        };
        return Some(value_argument(number));
    }
    register_argument(text)
}

fn value_argument(text: String) -> PtxArgument {
    PtxArgument::Value(text, None)
}

/// The variable for operand `number` of the statement.
fn operand_argument(number: usize) -> PtxArgument {
    PtxArgument::Value(operand_variable(number), Some(number))
}

/// The name of the variable for operand `number` of a statement.
pub(super) fn operand_variable(number: usize) -> String {
    format!("replay_ptx_{number}")
}

/// A register declared in the statement.
pub(super) fn register_argument(name: &str) -> Option<PtxArgument> {
    let first = name.chars().next()?;
    let is_valid_name = (first.is_ascii_alphabetic() || matches!(first, '_' | '$'))
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$'));
    is_valid_name.then(|| value_argument(format!("replay_ptx_r_{}", name.replace('$', "_"))))
}

/// Whether `name` is a special register (PTX ISA, "Special Registers"). No statement declares one.
fn is_predefined(name: &str) -> bool {
    const NAMES: [&str; 17] = [
        "gridid",
        "clusterid",
        "nclusterid",
        "cluster_ctaid",
        "cluster_nctaid",
        "cluster_ctarank",
        "cluster_nctarank",
        "is_explicit_cluster",
        "clock_hi",
        "globaltimer_hi",
        "total_smem_size",
        "aggr_smem_size",
        "dynamic_smem_size",
        "current_graph_exec",
        "tid",
        "ntid",
        "ctaid",
    ];
    let base = name.split('.').next().unwrap_or(name);
    let number = base.strip_prefix("envreg").or(base.strip_prefix("pm"));
    NAMES.contains(&base)
        || base.starts_with("reserved_smem_")
        || number.is_some_and(|number| number.trim_end_matches("_64").parse::<u8>().is_ok())
}

fn special_register(name: &str) -> Option<PtxArgument> {
    let text = match name {
        "laneid" | "warpid" | "nwarpid" | "smid" | "nsmid" | "lanemask_eq" | "lanemask_lt"
        | "lanemask_le" | "lanemask_gt" | "lanemask_ge" => format!("::replay_ptx::ptx_{name}()"),
        "cluster_ctarank" => "::__clusterRelativeBlockRank()".to_owned(),
        "cluster_nctarank" => "::__clusterSizeInBlocks()".to_owned(),
        "clock" | "clock64" | "globaltimer" | "globaltimer_lo" => {
            "::replay_ptx::ptx_clock()".to_owned()
        }
        _ => {
            let (vector, member) = name.split_once('.')?;
            let vector = match vector {
                "tid" => "threadIdx",
                "ntid" => "blockDim",
                "ctaid" => "blockIdx",
                "nctaid" => "gridDim",
                "clusterid" => "::__clusterIdx()",
                "nclusterid" => "::__clusterGridDimInClusters()",
                "cluster_ctaid" => "::__clusterRelativeBlockIdx()",
                "cluster_nctaid" => "::__clusterDim()",
                _ => return None,
            };
            matches!(member, "x" | "y" | "z").then(|| format!("{vector}.{member}"))?
        }
    };
    Some(value_argument(text))
}

fn parse_ptx_integer(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let digits = digits.trim_end_matches(['U', 'u']);
    let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hexadecimal) => i64::from_str_radix(hexadecimal, 16).ok()?,
        None => digits.parse::<i64>().ok()?,
    };
    Some(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_registers_are_known_or_refused_and_never_taken_for_those_of_the_statement() {
        for known in ["laneid", "tid.x", "globaltimer", "cluster_ctarank", "clusterid.x"] {
            assert!(special_register(known).is_some(), "{known}");
        }
        for unknown in ["is_explicit_cluster", "gridid", "envreg3", "pm0", "pm7_64"] {
            assert!(special_register(unknown).is_none() && is_predefined(unknown), "{unknown}");
        }
        for own in ["p", "pmask", "r1", "tmp", "envregs"] {
            assert!(register_argument(own).is_some() && !is_predefined(own), "{own}");
        }
    }
}
