//! A place in a text file, shown as `FILE:LINE:COLUMN`, and the line with a caret.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A place in a text file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The file, as the user gave it.
    pub path: PathBuf,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// The line with a caret under the place; of a long line, the part around it.
    excerpt: String,
}

impl Spot {
    /// The place of `range`, in bytes, in `text`, the content of the file at `path`.
    pub(crate) fn new(path: &Path, text: &str, range: Range<usize>) -> Box<Spot> {
        let start = floor(text, range.start);
        let before = &text[..start];
        let line = 1 + before.bytes().filter(|&byte| byte == b'\n').count();
        let begin = before.rfind('\n').map_or(0, |at| at + 1);
        let content = text[begin..].lines().next().unwrap_or("");
        let column = 1 + before[begin..].chars().count();
        let end = floor(text, range.end).clamp(start, begin + content.len().max(start - begin));
        let width = text[start..end].chars().count();
        let excerpt = excerpt(line, content, column, width);
        Box::new(Spot { path: path.to_owned(), line, column, excerpt })
    }

    /// The place of `range`, in bytes, in `text`, the content of the file at `path`.
    pub fn of_text(path: &Path, text: &str, range: Range<usize>) -> Spot {
        *Spot::new(path, text, range)
    }

    /// The line with its number and a caret under the place, in three lines without the last break.
    pub fn excerpt(&self) -> &str {
        &self.excerpt
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.path.display(), self.line, self.column)
    }
}

/// The line number `line` with `width` carets from `column` on, both in characters.
///
/// Of a long line, shows the part around the column. Control characters are replaced by spaces.
pub(crate) fn excerpt(line: usize, content: &str, column: usize, width: usize) -> String {
    /// The most characters of a line that are shown.
    const MOST: usize = 100;
    let left = if column > MOST * 3 / 4 { column - MOST / 2 } else { 1 };
    let shown: Vec<char> = content.chars().skip(left - 1).take(MOST).collect();
    let cut = shown.len() == MOST && content.chars().nth(left - 1 + MOST).is_some();
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let shown: String = shown.into_iter().map(plain).collect();
    let (head, tail) = (if left > 1 { "..." } else { "" }, if cut { "..." } else { "" });
    let number = line.to_string();
    let gutter = " ".repeat(number.len());
    let indent = " ".repeat(head.len() + column - left);
    let carets = "^".repeat(width.clamp(1, (MOST + left - column).max(1)));
    let line = format!("{number} | {head}{}{tail}", shown.trim_end());
    format!("{gutter} |\n{}\n{gutter} | {indent}{carets}", line.trim_end())
}

/// The nearest place at or before byte `at` where a character begins.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, range: Range<usize>) -> String {
        let spot = Spot::new(Path::new("replay.toml"), text, range);
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
        assert_eq!(Spot::new(Path::new("a"), "é=", 1..2).column, 1);
    }
}
