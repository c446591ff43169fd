//! The operands of an instruction, written for C++.

use super::statement::{Operand, Statement};

/// An operand of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    /// A C++ expression, and the number of the statement's operand that it is, if it is one.
    Value(String, Option<usize>),
    /// `{a, b}`: several registers.
    Vector(Vec<Argument>),
    /// `[a + 16]`: a place in memory.
    Address(String, i64),
    /// `_`: nothing.
    Sink,
}

impl Argument {
    /// The C++ expression, if it is one value.
    pub(super) fn value(&self) -> Option<&str> {
        match self {
            Argument::Value(text, _) => Some(text),
            _ => None,
        }
    }

    /// The values that it consists of.
    pub(super) fn values(&self) -> Option<Vec<&str>> {
        match self {
            Argument::Value(text, _) => Some(vec![text]),
            Argument::Vector(parts) => parts.iter().map(Argument::value).collect(),
            _ => None,
        }
    }

    /// Whether a floating-point register of the statement is part of it.
    pub(super) fn is_floating(&self, statement: &Statement) -> bool {
        match self {
            Argument::Value(_, Some(number)) => statement.operands[*number].is_floating(),
            Argument::Vector(parts) => parts.iter().any(|part| part.is_floating(statement)),
            _ => false,
        }
    }
}

/// The operands in `list`, separated by commas; `None` if one is not understood.
pub(super) fn read(list: &str, statement: &Statement) -> Option<Vec<Argument>> {
    parts(list)?.into_iter().map(|part| argument(part, statement)).collect()
}

/// `list` cut at the commas outside of brackets.
fn parts(list: &str) -> Option<Vec<&str>> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0i32, 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth -= 1,
            ',' if depth == 0 => {
                found.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = list[start..].trim();
    if !last.is_empty() || !found.is_empty() {
        found.push(last);
    }
    (depth == 0).then_some(found)
}

fn argument(text: &str, statement: &Statement) -> Option<Argument> {
    if text == "_" {
        return Some(Argument::Sink);
    }
    if let Some(inner) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        return read(inner, statement).map(Argument::Vector);
    }
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let (base, offset) = match inner.rsplit_once('+') {
            Some((base, offset)) => (base.trim(), integer(offset.trim())?),
            None => (inner.trim(), 0),
        };
        let Argument::Value(base, _) = argument(base, statement)? else { return None };
        return Some(Argument::Address(base, offset));
    }
    value(text, statement)
}

/// A register, a number or a special register.
fn value(text: &str, statement: &Statement) -> Option<Argument> {
    if let Some(rest) = text.strip_prefix("%%") {
        return special(rest).or_else(|| register(rest).filter(|_| !is_predefined(rest)));
    }
    if let Some(rest) = text.strip_prefix('%') {
        if let Some(name) = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let named = |it: &Operand| it.name.as_deref() == Some(name);
            return statement.operands.iter().position(named).map(operand);
        }
        if let Ok(number) = rest.parse::<usize>() {
            return (number < statement.operands.len()).then(|| operand(number));
        }
        // Without operands a statement is not searched for them.
        return special(rest).or_else(|| register(rest).filter(|_| !is_predefined(rest)));
    }
    if let Some(digits) = text.strip_prefix("0f").or_else(|| text.strip_prefix("0F")) {
        let bits = u32::from_str_radix(digits, 16).ok()?;
        return Some(plain(format!("::replay_rt::bits<float>({bits:#x}u)")));
    }
    if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        let number = match integer(text) {
            Some(number) => format!("{number}ll"),
            None => format!("{:?}", text.parse::<f64>().ok()?),
        };
        return Some(plain(number));
    }
    register(text)
}

fn plain(text: String) -> Argument {
    Argument::Value(text, None)
}

/// The variable for operand `number` of the statement.
fn operand(number: usize) -> Argument {
    Argument::Value(variable(number), Some(number))
}

/// The name of the variable for operand `number` of a statement.
pub(super) fn variable(number: usize) -> String {
    format!("replay_ptx_{number}")
}

/// A register that the statement itself declares.
pub(super) fn register(name: &str) -> Option<Argument> {
    let first = name.chars().next()?;
    let fits = (first.is_ascii_alphabetic() || matches!(first, '_' | '$'))
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$'));
    fits.then(|| plain(format!("replay_ptx_r_{}", name.replace('$', "_"))))
}

/// Whether a name is that of a special register (PTX ISA, "Special Registers"): no statement declares one.
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
    let numbered = |of: &str| {
        let number = base.strip_prefix(of).map(|number| number.trim_end_matches("_64"));
        number.is_some_and(|number| number.parse::<u8>().is_ok())
    };
    NAMES.contains(&base)
        || base.starts_with("reserved_smem_")
        || numbered("envreg")
        || numbered("pm")
}

fn special(name: &str) -> Option<Argument> {
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
    Some(plain(text))
}

fn integer(text: &str) -> Option<i64> {
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
            assert!(special(known).is_some(), "{known}");
        }
        for unknown in ["is_explicit_cluster", "gridid", "envreg3", "pm0", "pm7_64"] {
            assert!(special(unknown).is_none() && is_predefined(unknown), "{unknown}");
        }
        for own in ["p", "pmask", "r1", "tmp", "envregs"] {
            assert!(register(own).is_some() && !is_predefined(own), "{own}");
        }
    }
}
