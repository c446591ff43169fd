//! Names of definitions that several sources have: those of later sources get a prefix, and symbols a suffix.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Begins such a name; the number of the source and an underscore follow.
const RENAMED: &str = "replay_";

/// The name for the definition `name` of the source with this number.
pub fn rename_definition(source_number: usize, name: &str) -> String {
    format!("{RENAMED}{source_number}_{name}")
}

/// What follows the symbol of a function in the object of source `number`, if an earlier object defines it as well.
pub fn symbol_suffix(number: usize) -> String {
    format!(".{number}")
}

/// `symbol` without such a suffix.
pub(crate) fn restore_symbol(symbol: &str) -> &str {
    let stem = symbol.trim_end_matches(|c: char| c.is_ascii_digit());
    stem.strip_suffix('.').filter(|_| stem.len() < symbol.len()).unwrap_or(symbol)
}

/// `text` with the names that the sources have.
pub fn restore_source_names(text: &str) -> Cow<'_, str> {
    let mut restored = String::new();
    let mut rest = text;
    while let Some(position) = rest.find(RENAMED) {
        let (before, found) = rest.split_at(position);
        restored.push_str(before);
        let begins_word = !restored.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let behind = &found[RENAMED.len()..];
        let name = behind.trim_start_matches(|c: char| c.is_ascii_digit());
        match name.strip_prefix('_').filter(|_| begins_word && name.len() < behind.len()) {
            Some(name) => rest = name,
            None => {
                restored.push_str(RENAMED);
                rest = behind;
            }
        }
    }
    if restored.len() + rest.len() == text.len() {
        return Cow::Borrowed(text);
    }
    restored.push_str(rest);
    Cow::Owned(restored)
}

/// The same for the name of a kernel.
pub(crate) fn restore_kernel_name(name: &'static str) -> &'static str {
    static KNOWN: Mutex<BTreeMap<&'static str, &'static str>> = Mutex::new(BTreeMap::new());
    if !name.contains(RENAMED) {
        return name;
    }
    let mut known_names = KNOWN.lock().expect("no code panics while it holds this");
    known_names.entry(name).or_insert_with(|| match restore_source_names(name) {
        Cow::Borrowed(restored) => restored,
        Cow::Owned(restored) => restored.leak(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_of_several_objects_is_that_of_the_function() {
        assert_eq!(restore_symbol(&format!("_Z1kPf{}", symbol_suffix(12))), "_Z1kPf");
        for symbol in ["_Z2k1", "k12", "k.", "_Z1kv"] {
            assert_eq!(restore_symbol(symbol), symbol);
        }
    }

    #[test]
    fn names_are_restored_wherever_they_stand_and_others_stay() {
        let renamed = rename_definition(12, "k");
        for (text, restored) in [
            (renamed.as_str(), "k"),
            ("ns::replay_1_k<replay_2_P*, 3>", "ns::k<P*, 3>"),
            ("no 'replay_1_replay_instance_k' here", "no 'replay_instance_k' here"),
            (
                "my_replay_1_k replay__k replay_k replay_1k replay_",
                "my_replay_1_k replay__k replay_k replay_1k replay_",
            ),
            ("replay_1_", ""),
        ] {
            assert_eq!(restore_source_names(text), restored);
        }
        assert_eq!(restore_kernel_name("replay_3_k<4>"), "k<4>");
    }
}
