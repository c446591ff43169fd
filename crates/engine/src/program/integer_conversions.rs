//! Finds where Python code of a tree takes arrays to integers: conversions to a dtype of at most 32 bits, by lines alone.
//! Indices of 64 bits and those made of program numbers are none.

use replay_history::{SourceSet, TreeReader};

/// Calls with a dtype among their arguments.
const CONVERSIONS: [&str; 5] = [".to(", ".astype(", ".type(", ".cast(", "convert_element_type("];
/// The dtypes, without a `u` in front.
const INTEGERS: [&str; 3] = ["int8", "int16", "int32"];
/// Calls of PyTorch without arguments.
const SHORT_CONVERSIONS: [&str; 4] = [".int()", ".char()", ".byte()", ".short()"];
/// Words of lines about indices.
const INDICES: [&str; 3] = ["program_id", "arange", "shape"];
/// Characters of a line that are shown.
const SHOWN: usize = 64;

/// Files, lines and their text. Files that cannot be read have none.
pub fn tree_integer_conversions(sources: &SourceSet) -> Vec<String> {
    let mut reader = TreeReader::default();
    let mut places = Vec::new();
    for file in sources.tree.iter().filter(|file| file.path.ends_with(".py")) {
        let Ok(content) = reader.read(file) else { continue };
        let text = String::from_utf8_lossy(&content);
        for (index, line) in text.lines().enumerate() {
            let code = line.split('#').next().unwrap_or_default().trim();
            if takes_to_integers(code) {
                let shown: String = code.chars().take(SHOWN).collect();
                places.push(format!("{}:{}: {shown}", file.path, index + 1));
            }
        }
    }
    places
}

fn takes_to_integers(code: &str) -> bool {
    let is_named = CONVERSIONS.iter().any(|call| {
        code.split_once(call).is_some_and(|(_, arguments)| {
            INTEGERS.iter().any(|integer| arguments.contains(integer))
        })
    });
    let is_short = SHORT_CONVERSIONS.iter().any(|call| code.contains(call));
    (is_named || is_short) && !INDICES.iter().any(|word| code.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_to_narrow_integers_are_those_of_numbers() {
        for code in [
            "q = tl.minimum(q, 127).to(tl.int8)",
            "q = torch.round(x / s).to(dtype=torch.uint8)",
            "q = np.rint(x / s).astype(np.int32) - zero",
            "q = lax.convert_element_type(x, jnp.int8)",
            "q = x.round().char()",
        ] {
            assert!(takes_to_integers(code), "{code}");
        }
    }

    #[test]
    fn indices_and_other_dtypes_are_none() {
        for code in [
            "row = tl.program_id(0).to(tl.int32)",
            "at = torch.arange(n).to(torch.int32)",
            "labels = labels.to(torch.int64)",
            "y = x.to(tl.float32)",
            "def f(x: int32): pass",
        ] {
            assert!(!takes_to_integers(code), "{code}");
        }
    }
}
