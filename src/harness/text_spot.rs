//! A place in a text file, shown as `FILE:LINE:COLUMN`, and the line with a caret.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A place in a text file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextSpot {
    /// The file, as the user gave it.
    pub path: PathBuf,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// The line with a caret under the place; of a long line, the part around it.
    excerpt: String,
}

impl TextSpot {
    /// The place of `range`, in bytes, in `text`, the content of the file at `path`.
    pub(crate) fn new(path: &Path, text: &str, range: Range<usize>) -> Box<TextSpot> {
        let start = floor_char_boundary(text, range.start);
        let text_before = &text[..start];
        let line = 1 + text_before.bytes().filter(|&byte| byte == b'\n').count();
        let line_start = text_before.rfind('\n').map_or(0, |newline_offset| newline_offset + 1);
        let content = text[line_start..].lines().next().unwrap_or("");
        let column = 1 + text_before[line_start..].chars().count();
        let end = floor_char_boundary(text, range.end)
            .clamp(start, line_start + content.len().max(start - line_start));
        let width = text[start..end].chars().count();
        let excerpt = excerpt_line(line, content, column, width);
        Box::new(TextSpot { path: path.to_owned(), line, column, excerpt })
    }

    /// The place of `range`, in bytes, in `text`, the content of the file at `path`.
    pub fn of_text(path: &Path, text: &str, range: Range<usize>) -> TextSpot {
        *TextSpot::new(path, text, range)
    }

    /// The line with its number and a caret under the place, in three lines without the last break.
    pub fn excerpt(&self) -> &str {
        &self.excerpt
    }
}

impl fmt::Display for TextSpot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.path.display(), self.line, self.column)
    }
}

/// The line number `line` with `width` carets from `column` on, both in characters.
///
/// Of a long line, shows the part around the column. Control characters are replaced by spaces.
pub(crate) fn excerpt_line(line: usize, content: &str, column: usize, width: usize) -> String {
    /// The most characters of a line in an excerpt.
    const MOST: usize = 100;
    let left = if column > MOST * 3 / 4 { column - MOST / 2 } else { 1 };
    let shown_characters: Vec<char> = content.chars().skip(left - 1).take(MOST).collect();
    let cut = shown_characters.len() == MOST && content.chars().nth(left - 1 + MOST).is_some();
    let shown_text: String =
        shown_characters.into_iter().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let head = if left > 1 { "..." } else { "" };
    let tail = if cut { "..." } else { "" };
    let number = line.to_string();
    let gutter = " ".repeat(number.len());
    let indent = " ".repeat(head.len() + column - left);
    let carets = "^".repeat(width.clamp(1, (MOST + left - column).max(1)));
    let line = format!("{number} | {head}{}{tail}", shown_text.trim_end());
    format!("{gutter} |\n{}\n{gutter} | {indent}{carets}", line.trim_end())
}

/// The nearest place at or before byte `byte_offset` where a character begins.
fn floor_char_boundary(text: &str, byte_offset: usize) -> usize {
    (0..=byte_offset.min(text.len()))
        .rev()
        .find(|&byte_offset| text.is_char_boundary(byte_offset))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, range: Range<usize>) -> String {
        let spot = TextSpot::new(Path::new("replay.toml"), text, range);
        format!("{spot}\n{}", spot.excerpt())
    }

    #[test]
    fn the_line_is_shown_with_a_caret_under_the_place() {
        insta::assert_snapshot!(shown("one\nsorces = 3\nthree", 4..10), @r"
        replay.toml:2:1
          |
        2 | sorces = 3
          | ^^^^^^
        ");
        insta::assert_snapshot!(shown("é = \t3\r\n", 6..7), @r"
        replay.toml:1:6
          |
        1 | é =  3
          |      ^
        ");
    }

    #[test]
    fn a_place_behind_the_end_of_a_line_or_the_text_is_shown_there() {
        insta::assert_snapshot!(shown("call = ", 7..7), @r"
        replay.toml:1:8
          |
        1 | call =
          |        ^
        ");
        insta::assert_snapshot!(shown("a\nb", 1..99), @r"
        replay.toml:1:2
          |
        1 | a
          |  ^
        ");
        insta::assert_snapshot!(shown("", 5..9), @"
        replay.toml:1:1
          |
        1 |
          | ^
        ");
    }

    #[test]
    fn of_a_long_line_the_part_around_the_place_is_shown() {
        let text = format!("{}x{}", "a".repeat(1 << 20), "b".repeat(1 << 20));
        let shown = shown(&text, (1 << 20)..(1 << 20) + 5000);
        assert!(shown.len() < 400 && shown.contains("...aaa") && shown.contains("bbb..."));
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[2].find('x'), lines[3].find('^'), "{shown}");
    }

    #[test]
    fn bytes_within_a_character_are_its_own() {
        assert_eq!(TextSpot::new(Path::new("a"), "é=", 1..2).column, 1);
    }
}
