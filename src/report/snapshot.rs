//! Snapshots for people: what a comparison came to, and a diff of two texts word by word.

use std::fmt::Write;
use std::path::PathBuf;

use anstyle::Style;
use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use super::style::{BOLD, DIM, GREEN, RED, YELLOW};
use crate::replay::{Outcome, Status};
use crate::snapshot::{Comparison, SnapshotVerdict};

/// The comparison of one replay with its accepted snapshot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SnapshotCheck {
    /// The file of the accepted snapshot, whether or not it exists.
    pub path: PathBuf,
    /// What was found.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// The file that was written, if one was.
    pub written: Option<PathBuf>,
}

/// How much of a text is shown around what changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// A few lines.
    Near,
    /// All of it.
    Whole,
}

impl SnapshotCheck {
    /// Whether the snapshot, and not the replay alone, is why something is wrong.
    pub(super) fn decides(&self, outcome: &Outcome) -> bool {
        matches!(outcome.status, Status::Completed)
            && self.comparison.verdict > SnapshotVerdict::New
    }

    /// The word for what was found.
    pub(super) fn verdict_name(&self) -> &'static str {
        self.comparison.verdict.name()
    }

    /// The verdict in one sentence, coloured.
    pub(super) fn styled_sentence(&self) -> String {
        let sentence = self.comparison.sentence();
        let name = self.verdict_name();
        let style = verdict_style(self.comparison.verdict);
        format!("{style}{name}{style:#}{}", sentence.strip_prefix(name).unwrap_or_default())
    }

    /// The block of a report.
    pub(super) fn text(&self) -> String {
        let mut out = format!("\n{BOLD}snapshot{BOLD:#}\n");
        let _ = writeln!(out, "  {DIM}{}{DIM:#}  {}", self.path.display(), self.styled_sentence());
        if let Some(written) = &self.written {
            let pending = written.extension().is_some_and(|extension| extension == "new");
            let _ = if pending {
                writeln!(out, "  pending: {}; `replay review` shows it", written.display())
            } else {
                writeln!(out, "  accepted without review: {}", written.display())
            };
        }
        out
    }
}

fn verdict_style(verdict: SnapshotVerdict) -> Style {
    match verdict {
        SnapshotVerdict::Matches | SnapshotVerdict::Equivalent => GREEN,
        SnapshotVerdict::New | SnapshotVerdict::Stale => YELLOW,
        SnapshotVerdict::Diverged => RED,
    }
}

/// The lines that changed from `old` to `new`, with the words that changed in them underlined.
pub fn snapshot_diff(old: &str, new: &str, context: Context) -> String {
    /// Lines around a change.
    const NEAR: usize = 2;
    let lines = match context {
        Context::Near => NEAR,
        Context::Whole => usize::MAX / 4,
    };
    let diff = TextDiff::from_lines(old, new);
    let mut out = String::new();
    for (number, group) in diff.grouped_ops(lines).iter().enumerate() {
        if number > 0 {
            let _ = writeln!(out, "{DIM}  ...{DIM:#}");
        }
        for change in group.iter().flat_map(|op| diff.iter_inline_changes(op)) {
            let (mark, style) = match change.tag() {
                ChangeTag::Delete => ('-', RED),
                ChangeTag::Insert => ('+', GREEN),
                ChangeTag::Equal => (' ', Style::new()),
            };
            let _ = write!(out, "{style}{mark} {style:#}");
            for (changed, text) in change.iter_strings_lossy() {
                let text = text.trim_end_matches('\n');
                let style = if changed { style.underline() } else { style };
                let _ = write!(out, "{style}{text}{style:#}");
            }
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_diff_shows_what_changed_with_a_few_lines_around_it() {
        let old = "a\nb\nc\nnorm 1.25\nd\ne\nf\ng\n";
        let new = old.replace("1.25", "1.5");
        insta::assert_snapshot!(plain(&snapshot_diff(old, &new, Context::Near)), @r"
          b
          c
        - norm 1.25
        + norm 1.5
          d
          e
        ");
        assert_eq!(plain(&snapshot_diff(old, &new, Context::Whole)).lines().count(), 9);
        assert_eq!(snapshot_diff(old, old, Context::Near), "");
    }
}
