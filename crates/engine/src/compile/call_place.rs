//! Finds the place in `replay.toml` of a compiler error in the call. Pure: text in, text out.
//!
//! The compiler sees the translated call, with longer launches. Its column is a column of the translated line.

use std::fmt;

use replay_fixture::harness::{Call, excerpt_line};

/// The line of the harness with the error, and a caret where the column is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPlace {
    file: String,
    line: usize,
    excerpt: String,
}

impl fmt::Display for CallPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of {}\n{}", self.line, self.file, self.excerpt)
    }
}

impl std::error::Error for CallPlace {}

/// Returns `message` (`ORIGIN:LINE:COLUMN: ...`) with the column in the harness, and the line.
///
/// `translated` is the call as compiled. Returns none if the message has another form.
pub(super) fn locate_call_error(
    message: &str,
    origin: &str,
    file: &str,
    call: &Call,
    translated: &str,
) -> Option<(String, CallPlace)> {
    let position_text = message.strip_prefix(origin)?.strip_prefix(':')?;
    let (line, column_text) = position_text.split_once(':')?;
    let (column, message_text) = column_text.split_once(':')?;
    let (line, column): (usize, usize) = (line.parse().ok()?, column.parse().ok()?);
    let written_line = call.written.lines().nth(line.checked_sub(call.line)?)?;
    let column_and_width =
        locate_written_word(translated.lines().nth(line.checked_sub(1)?)?, column, written_line);
    let (excerpt_column, width) = column_and_width.unwrap_or((1, 0));
    let message = match column_and_width {
        Some((found_column, _)) => format!("{origin}:{line}:{found_column}:{message_text}"),
        None => format!("{origin}:{line}:{message_text}"),
    };
    let place = CallPlace {
        file: file.to_owned(),
        line,
        excerpt: render_call_line(line, written_line, excerpt_column, width),
    };
    Some((message, place))
}

/// The line, with carets unless `width` is 0.
fn render_call_line(line: usize, written_line: &str, column: usize, width: usize) -> String {
    let text = excerpt_line(line, written_line, column, width);
    match width {
        0 => text.lines().take(2).collect::<Vec<_>>().join("\n"),
        _ => text,
    }
}

/// The column and the width in `written_line` of the word at `column` of `translated`.
///
/// The words after it are the same in both, so it is counted from the end.
fn locate_written_word(
    translated: &str,
    column: usize,
    written_line: &str,
) -> Option<(usize, usize)> {
    let start = translated.char_indices().nth(column.checked_sub(1)?)?.0;
    // A missing token is reported after a word, before the next one.
    let start = start + translated[start..].find(|c: char| !c.is_whitespace())?;
    let word = word_at(translated, start)?;
    let later = find_word_positions(&translated[start..], word).count();
    let all_places: Vec<usize> = find_word_positions(written_line, word).collect();
    let byte_offset = match all_places.as_slice() {
        // A translated launch names its kernel more than once.
        [only] => *only,
        all_places => *all_places.get(all_places.len().checked_sub(later)?)?,
    };
    Some((1 + written_line[..byte_offset].chars().count(), word.chars().count()))
}

/// The identifier or number at byte `start`, or the one character.
fn word_at(text: &str, start: usize) -> Option<&str> {
    let remaining_text = &text[start..];
    let first = remaining_text.chars().next()?;
    let end = if is_word(first) {
        remaining_text.find(|c| !is_word(c)).unwrap_or(remaining_text.len())
    } else {
        first.len_utf8()
    };
    Some(&remaining_text[..end])
}

/// The position of `word` in `text`, but not inside of another word.
fn find_word_positions<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let whole_words = word.chars().next().is_some_and(is_word);
    text.match_indices(word).map(|(byte_offset, _)| byte_offset).filter(move |&byte_offset| {
        let character_before = text[..byte_offset].chars().next_back();
        let character_after = text[byte_offset + word.len()..].chars().next();
        !whole_words
            || !character_before.is_some_and(is_word) && !character_after.is_some_and(is_word)
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(line: usize, written: &str) -> Call {
        Call { text: String::new(), line, column: 9, written: written.to_owned() }
    }

    fn told(message: &str, call: &Call, translated: &str) -> String {
        let translated = format!("{}{translated}", "\n".repeat(call.line - 1));
        let told = locate_call_error(message, "call in r.toml", "r.toml", call, &translated);
        let (message, place) = told.expect("a place");
        format!("{message}\n{place}")
    }

    #[test]
    fn a_name_in_a_translated_launch_is_found_in_the_harness() {
        let call = call(3, "call = \"twice<<<1, n>>>(x, y, m);\"");
        let translated = "::rt::launch(\"m\", [&] { twice(n, x, y, m); });";
        let column = 1 + translated.rfind("m)").expect("the name");
        insta::assert_snapshot!(told(&format!("call in r.toml:3:{column}: error: no m"), &call, translated), @r#"
        call in r.toml:3:31: error: no m
        line 3 of r.toml
          |
        3 | call = "twice<<<1, n>>>(x, y, m);"
          |                               ^
        "#);
    }

    #[test]
    fn what_the_harness_does_not_hold_is_shown_without_a_column() {
        let call = call(12, "  f(x);\n  g(x)");
        insta::assert_snapshot!(told("call in r.toml:12:3: error: no", &call, "  h(x);"), @r"
        call in r.toml:12: error: no
        line 12 of r.toml
           |
        12 |   f(x);
        ");
    }

    #[test]
    fn a_message_about_something_else_has_no_place() {
        let call = call(3, "f();");
        for message in [
            "k.cu:1:2: error",
            "call in r.toml",
            "call in r.toml:x:1: y",
            "call in r.toml:1:1: y",
            "call in r.toml:9:1: y",
        ] {
            assert_eq!(
                locate_call_error(message, "call in r.toml", "r.toml", &call, "\n\nf();"),
                None,
                "{message}"
            );
        }
    }
}
