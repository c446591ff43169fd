//! Snapshots for people: the verdict of a comparison, and a diff of two texts word by word.

use std::path::PathBuf;

use anstyle::Style;
use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use super::numbers::format_noun_count;
use super::spans::{ReportLine, Text};
use super::style::{DIM, GREEN, RED, YELLOW};
use replay_snapshot::{SnapshotComparison, SnapshotVerdict};

/// The comparison of one replay with its accepted snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SnapshotCheck {
    /// The file of the accepted snapshot, whether or not it exists.
    pub path: PathBuf,
    /// The comparison.
    #[serde(flatten)]
    pub comparison: SnapshotComparison,
    /// The file that was written, if one was.
    pub written: Option<PathBuf>,
}

/// How much of a text is shown around a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffContext {
    /// A few lines.
    Near,
    Whole,
}

impl SnapshotCheck {
    /// The verdict in one sentence.
    fn sentence(&self) -> ReportLine {
        render_snapshot_sentence(&self.comparison)
    }

    /// Advice where a required snapshot is missing.
    pub(super) fn hint(&self) -> Option<&'static str> {
        match self.comparison.verdict {
            SnapshotVerdict::Missing => Some(
                "replay it where CI is not set, accept the snapshot with `replay review`, and \
                 commit it",
            ),
            _ => None,
        }
    }

    /// The written file, and the words for a review.
    pub(super) fn written_line(&self) -> Option<String> {
        let written_path = self.written.as_ref()?;
        let is_pending = written_path.extension().is_some_and(|extension| extension == "new");
        let displayed_path = written_path.display();
        Some(if is_pending {
            format!("pending: {displayed_path}; `replay review` shows it")
        } else {
            format!("accepted without review: {displayed_path}")
        })
    }

    /// The block of a report.
    pub(super) fn text(&self) -> Text {
        let mut out = Text::new();
        out.section("snapshot");
        let path = self.path.display().to_string();
        let line = ReportLine::from("  ").styled(DIM, path).and("  ");
        match self.comparison.reasons().as_slice() {
            [] | [_] => out.line(line.and(self.sentence())),
            reasons => {
                let verdict = self.comparison.verdict;
                out.line(line.styled(snapshot_verdict_style(verdict), verdict.name()).and(":"));
                reasons.iter().for_each(|reason| out.line(format!("    {reason}")));
            }
        }
        self.written_line().into_iter().for_each(|line| out.line(format!("  {line}")));
        out
    }
}

/// The result of a comparison, in one sentence. The verdict comes first.
pub fn render_snapshot_sentence(comparison: &SnapshotComparison) -> ReportLine {
    let verdict = comparison.verdict;
    let reason = comparison.reason().map_or(String::new(), |reason| format!(": {reason}"));
    ReportLine::with_style(snapshot_verdict_style(verdict), verdict.name()).and(reason)
}

fn snapshot_verdict_style(verdict: SnapshotVerdict) -> Style {
    match verdict {
        SnapshotVerdict::Matches | SnapshotVerdict::Equivalent => GREEN,
        SnapshotVerdict::Unchecked
        | SnapshotVerdict::New
        | SnapshotVerdict::Missing
        | SnapshotVerdict::Stale => YELLOW,
        SnapshotVerdict::Diverged => RED,
    }
}

/// The beginnings of lines without a meaning for people: projections of an output, and words of its shadow.
const FOLDED: [&str; 4] = ["sketch ", "shadow rounding ", "shadow signed ", "shadow weighted "];

/// `text` without the lines in [`FOLDED`], and these.
fn fold_snapshot_lines(text: &str) -> (String, Vec<&str>) {
    let (folded, shown_lines): (Vec<&str>, Vec<&str>) =
        text.split_inclusive('\n').partition(|line| {
            FOLDED.iter().any(|folded_prefix| line.trim_start().starts_with(folded_prefix))
        });
    (shown_lines.concat(), folded)
}

/// The lines with a change from `old` to `new`, changed words underlined. Near a change, sketches and shadow
/// words are only counted.
pub fn snapshot_diff(old: &str, new: &str, context: DiffContext) -> Text {
    if context == DiffContext::Whole {
        return line_diff(old, new, context);
    }
    let (old, old_folded) = fold_snapshot_lines(old);
    let (new, new_folded) = fold_snapshot_lines(new);
    let mut out = line_diff(&old, &new, context);
    let hidden_changes = new_folded.iter().filter(|line| !old_folded.contains(line)).count();
    if hidden_changes > 0 {
        let lines = format_noun_count(hidden_changes as u64, "line");
        out.line(ReportLine::with_style(DIM, format!("  and {lines} of sketches and shadows")));
    }
    out
}

fn line_diff(old: &str, new: &str, context: DiffContext) -> Text {
    /// Lines around a change.
    const NEAR: usize = 2;
    let lines = match context {
        DiffContext::Near => NEAR,
        DiffContext::Whole => usize::MAX / 4,
    };
    let diff = TextDiff::from_lines(old, new);
    let mut out = Text::new();
    for (number, group) in diff.grouped_ops(lines).iter().enumerate() {
        if number > 0 {
            out.line(ReportLine::with_style(DIM, "  ..."));
        }
        for change in group.iter().flat_map(|op| diff.iter_inline_changes(op)) {
            let (mark, style) = match change.tag() {
                ChangeTag::Delete => ("- ", RED),
                ChangeTag::Insert => ("+ ", GREEN),
                ChangeTag::Equal => ("  ", Style::new()),
            };
            let mut line = ReportLine::with_style(style, mark);
            for (is_changed, text) in change.iter_strings_lossy() {
                let style = if is_changed { style.underline() } else { style };
                line = line.styled(style, text.trim_end_matches('\n'));
            }
            out.line(line);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &Text) -> String {
        text.words().join("\n")
    }

    #[test]
    fn a_diff_shows_what_changed_with_a_few_lines_around_it() {
        let old = "a\nb\nc\nnorm 1.25\nd\ne\nf\ng\n";
        let new = old.replace("1.25", "1.5");
        insta::assert_snapshot!(plain(&snapshot_diff(old, &new, DiffContext::Near)), @r"
          b
          c
        - norm 1.25
        + norm 1.5
          d
          e
        ");
        assert_eq!(snapshot_diff(old, &new, DiffContext::Whole).words().len(), 9);
        assert!(snapshot_diff(old, old, DiffContext::Near).is_empty());
    }

    #[test]
    fn sketches_and_shadow_words_are_counted_near_a_change_and_shown_in_the_whole() {
        let old = "norm 1\n  sketch 1 2\n  shadow signed a\n  shadow weighted b\nzeros 0\n";
        let new =
            old.replace("norm 1", "norm 2").replace("1 2", "3 4").replace("signed a", "signed c");
        insta::assert_snapshot!(plain(&snapshot_diff(old, &new, DiffContext::Near)), @"
        - norm 1
        + norm 2
          zeros 0
          and 2 lines of sketches and shadows
        ");
        let whole = plain(&snapshot_diff(old, &new, DiffContext::Whole));
        assert!(whole.contains("+   sketch 3 4") && whole.contains("shadow weighted b"), "{whole}");
    }
}
