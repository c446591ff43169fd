//! The texts that variables are compared with. Pure: texts of sources in, texts by name out.

use std::collections::BTreeMap;

use super::shape_search::is_word_character;

/// By variable, the first text that one of `texts` compares it with, or that begins a table in which it is looked up:
/// `mode == "sum"`, `strcmp(mode, "sum")`, `TABLE.at(mode)`.
pub fn find_compared_literals(texts: &[&str]) -> BTreeMap<String, String> {
    let mut literals = BTreeMap::new();
    let mut note = |name: &str, literal: Option<&str>| {
        if let Some(literal) = literal.filter(|_| !name.is_empty()) {
            literals.entry(name.to_owned()).or_insert_with(|| literal.to_owned());
        }
    };
    for text in texts {
        for (place, sign) in text.match_indices("==") {
            note(last_word(&text[..place]), read_literal(&text[place + sign.len()..]));
        }
        for (place, call) in text.match_indices("strcmp(") {
            let arguments = &text[place + call.len()..];
            let name = first_word(arguments);
            let rest = arguments[name.len()..].trim_start().strip_prefix(',');
            note(name, rest.and_then(read_literal));
        }
        for (place, call) in text.match_indices(".at(") {
            let name = first_word(&text[place + call.len()..]);
            let table = last_word(&text[..place]);
            note(name, texts.iter().find_map(|text| find_first_key(text, table)));
        }
    }
    literals
}

/// The first text in the braces behind the name `table`.
fn find_first_key<'t>(text: &'t str, table: &str) -> Option<&'t str> {
    let mut places = text.match_indices(table).filter(|_| !table.is_empty());
    places.find_map(|(place, _)| {
        let rest = text[place + table.len()..].trim_start();
        let rest = rest.strip_prefix('=').unwrap_or(rest).trim_start();
        let keys = rest.strip_prefix('{')?.trim_start();
        read_literal(keys.strip_prefix('{').unwrap_or(keys))
    })
}

/// The text in quotes that `text` begins with, if it is a plain one.
fn read_literal(text: &str) -> Option<&str> {
    let quoted = text.trim_start().strip_prefix('"')?;
    let literal = quoted.split('"').next()?;
    literal.chars().all(|c| c.is_ascii_graphic() && c != '\\').then_some(literal)
}

/// The name that `text` ends with.
fn last_word(text: &str) -> &str {
    let text = text.trim_end();
    let start = text
        .rfind(|c| !is_word_character(c))
        .map_or(0, |place| place + text[place..].chars().next().map_or(0, char::len_utf8));
    &text[start..]
}

/// The name that `text` begins with.
fn first_word(text: &str) -> &str {
    &text[..text.find(|c| !is_word_character(c)).unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_compared_with_literals_or_looked_up_in_a_table() {
        let found = find_compared_literals(&[
            "if (mode == \"mean\") f(); else if (mode == \"sum\") g(); if (n == 3) h();",
            "return !strcmp(kind , \"fast\") || path == \"a\\n\";\n#define DISPATCH(reduce) TABLE.at(reduce)",
            "const std::map<std::string, int> TABLE = {\n  {\"min\", 1}, {\"max\", 2}};",
        ]);
        let words: Vec<(&str, &str)> =
            found.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(words, [("kind", "fast"), ("mode", "mean"), ("reduce", "min")]);
    }
}
