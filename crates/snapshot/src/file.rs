//! insta's file around a snapshot: a front matter in YAML, then the text.
//!
//! insta 1.49 cannot make one from outside. This module reads the few forms of insta itself: one `key: value` a line,
//! the value plain or in double quotes.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use super::{Snapshot, SnapshotError, flatten_text, parse};
use replay_base::files;

/// insta's metadata on a snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meta {
    /// The fixture, relative to the folder beside the snapshots.
    pub source: String,
    /// Why it was accepted, in the words of the user.
    pub description: Option<String>,
    /// The command behind it.
    pub expression: String,
}

/// A snapshot as it lies in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotFile {
    /// The front matter.
    pub meta: Meta,
    /// The parsed text.
    pub snapshot: Snapshot,
}

const FENCE: &str = "---";

impl SnapshotFile {
    /// Reads the file `path`.
    ///
    /// # Errors
    /// [`SnapshotError`] with the wrong line.
    pub fn read(path: &Path) -> Result<SnapshotFile, SnapshotError> {
        let bytes = files::read_regular_file(path, files::TEXT_BYTES)
            .map_err(|source| SnapshotError::Io { doing: "read", path: path.to_owned(), source })?;
        let Ok(text) = String::from_utf8(bytes) else {
            return Err(foreign_file_error(path, "it is not text"));
        };
        SnapshotFile::parse(&text, path)
    }

    /// Reads `text`, the content of the file `path`.
    ///
    /// # Errors
    /// [`SnapshotError`] with the wrong line.
    pub fn parse(text: &str, path: &Path) -> Result<SnapshotFile, SnapshotError> {
        if let Some(index) = text.lines().position(is_conflict_mark) {
            return Err(SnapshotError::Conflict { path: path.to_owned(), line: index + 1 });
        }
        let mut lines = text.lines();
        if lines.next() != Some(FENCE) {
            return Err(foreign_file_error(path, "it does not start with `---`"));
        }
        let mut meta = Meta::default();
        let mut fences = 1;
        let mut front = 1;
        for line in lines.by_ref() {
            front += 1;
            if line == FENCE {
                fences += 1;
                break;
            }
            meta.parse_line(line);
        }
        if fences < 2 {
            return Err(foreign_file_error(path, "its front matter has no end"));
        }
        let body_lines: Vec<&str> = lines.collect();
        if !body_lines.first().is_some_and(|line| line.starts_with("format: ")) {
            return Err(foreign_file_error(path, "its text does not start with `format: `"));
        }
        if !text.ends_with('\n') {
            let line = front + body_lines.len();
            let expected = "the end of the line".to_owned();
            return Err(SnapshotError::Truncated { path: path.to_owned(), line, expected });
        }
        let snapshot = parse::parse_snapshot(&body_lines.join("\n"), path, front + 1)?;
        Ok(SnapshotFile { meta, snapshot })
    }
}

impl Display for SnapshotFile {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Meta { source, description, expression } = &self.meta;
        writeln!(f, "{FENCE}\nsource: {}", quote_yaml(source))?;
        if let Some(description) = description {
            writeln!(f, "description: {}", quote_yaml(description))?;
        }
        write!(f, "expression: {}\n{FENCE}\n{}", quote_yaml(expression), self.snapshot)
    }
}

impl Meta {
    /// Takes one line of a front matter. Ignores insta's own keys.
    fn parse_line(&mut self, line: &str) {
        let Some((key, value)) = line.split_once(": ") else { return };
        let value = flatten_text(&unquote_yaml(value));
        match key {
            "source" => self.source = value,
            "description" => self.description = Some(value),
            "expression" => self.expression = value,
            _ => {}
        }
    }
}

/// A string of YAML 1.2: plain where insta would write it so and nothing else could be meant, else
/// in double quotes as in JSON (section 7.3.1).
fn quote_yaml(text: &str) -> String {
    let text = flatten_text(text);
    let word = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.contains(['/', ' ']);
    if word && text.chars().all(|c| c.is_ascii_alphanumeric() || " /_-.".contains(c)) {
        text
    } else {
        serde_json::Value::String(text).to_string()
    }
}

fn unquote_yaml(value: &str) -> String {
    serde_json::from_str(value).unwrap_or_else(|_| value.to_owned())
}

/// Whether `line` is git's mark of a merge conflict: seven equal characters, and the name of a side where there is
/// one.
fn is_conflict_mark(line: &str) -> bool {
    ["<<<<<<<", "|||||||", "=======", ">>>>>>>"].iter().any(|mark| {
        line.strip_prefix(mark).is_some_and(|name| name.is_empty() || name.starts_with(' '))
    })
}

fn foreign_file_error(path: &Path, reason: &str) -> SnapshotError {
    SnapshotError::Foreign { path: path.to_owned(), reason: reason.to_owned() }
}
