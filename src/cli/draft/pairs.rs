//! Forward and backward functions of one operation, by their names: `norm_fwd` and `norm_bwd`.

/// Words for a direction in the name of a function.
const DIRECTIONS: [&str; 4] = ["forward", "backward", "fwd", "bwd"];

/// How a function fits others by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairFit {
    /// It is of the same operation.
    Same,
    /// It is of another one.
    Other,
    /// The names do not tell.
    Unknown,
}

/// How the function `name` fits `functions`.
pub fn fit_pair(functions: &[String], name: &str) -> PairFit {
    let operation = split_direction(name);
    let mut fit = PairFit::Unknown;
    for function in functions {
        let own_operation = split_direction(function);
        if operation.is_none() && own_operation.is_none() {
            continue;
        }
        // `attention` is the forward pass of `attention_backward`.
        let [own_name, other_name] =
            [(own_operation, function.as_str()), (operation, name)].map(|(operation, name)| {
                operation.unwrap_or(name.trim_end_matches(|c: char| c.is_ascii_digit()))
            });
        if own_name == other_name {
            return PairFit::Same;
        }
        if operation.is_some() && own_operation.is_some() {
            fit = PairFit::Other;
        }
    }
    fit
}

/// Whether the names of two files are those of a forward and of a backward pass of one operation.
pub fn are_passes_of_one(one: &str, other: &str) -> bool {
    is_backward(one) != is_backward(other)
        && fit_pair(&[one.to_lowercase()], &other.to_lowercase()) == PairFit::Same
}

/// The operation in the name of a function with a direction: the part in front of the direction, or behind it.
fn split_direction(name: &str) -> Option<&str> {
    let (start, direction) =
        DIRECTIONS.iter().find_map(|word| name.find(word).map(|start| (start, word)))?;
    let is_separator = |c: char| c == '_' || c.is_ascii_digit();
    let front = name[..start].trim_matches('_');
    let behind = name[start + direction.len()..].trim_matches(is_separator);
    Some(if front.is_empty() { behind } else { front })
}

/// Whether a function is a backward pass, by its name.
pub fn is_backward(name: &str) -> bool {
    let name = name.to_lowercase();
    ["backward", "bwd", "grad"].iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_two_passes_are_known_by_their_names() {
        for (one, other) in [
            ("norm_fwd", "norm_bwd"),
            ("norm_bwd", "norm_fwd"),
            ("forward", "backward"),
            ("attention", "attention_backward"),
            ("RMSNormForward", "RMSNormBackward"),
        ] {
            assert!(are_passes_of_one(one, other), "{one} and {other}");
        }
        for (one, other) in
            [("norm_fwd", "gelu_bwd"), ("norm_fwd", "norm_fwd2"), ("norm", "gradient"), ("a", "b")]
        {
            assert!(!are_passes_of_one(one, other), "{one} and {other}");
        }
    }

    #[test]
    fn pairs_are_known_by_their_names() {
        let fit = |one: &str, other: &str| fit_pair(&[one.to_owned()], other);
        for (one, other) in [
            ("norm_fwd", "norm_bwd"),
            ("rmsnorm_forward", "rmsnorm_backward"),
            ("rmsnorm_forward1", "rmsnorm_forward2"),
            ("layernorm_forward", "layernorm_backward_dx"),
            ("attention", "attention_backward"),
            ("forward", "backward"),
            ("fwd_norm", "bwd_norm"),
        ] {
            assert_eq!(fit(one, other), PairFit::Same, "{one} and {other}");
        }
        for (one, other) in [("norm_fwd", "gelu_bwd"), ("encoder_forward", "layernorm_forward")] {
            assert_eq!(fit(one, other), PairFit::Other, "{one} and {other}");
        }
        for (one, other) in [("loss", "loss_gradient"), ("scale", "scale"), ("adam", "norm_fwd")] {
            assert_eq!(fit(one, other), PairFit::Unknown, "{one} and {other}");
        }
    }
}
