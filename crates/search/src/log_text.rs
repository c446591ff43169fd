//! The text of `git bisect log`, as accepted by `git bisect replay`.

use std::fmt::Write;

/// The mark of a commit in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogMark {
    /// It is as the older ends are.
    Old,
    /// It is as the newer ends are.
    New,
    /// The commit could not be tested, or failed in another way.
    Skip,
}

/// One answered commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry<'a> {
    /// The mark for its answer.
    pub mark: LogMark,
    /// The full commit id.
    pub id: &'a str,
    /// The first line of the commit's message; control characters are blanked.
    pub subject: &'a str,
}

/// The words for older and newer commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BisectTerms {
    /// The term for older commits.
    pub old: &'static str,
    /// The term for newer commits.
    pub new: &'static str,
}

impl BisectTerms {
    /// A failure came.
    pub const BREAKS: BisectTerms = BisectTerms { old: "good", new: "bad" };
    /// A failure went; git keeps `good` and `bad` for the other way.
    pub const REPAIRS: BisectTerms = BisectTerms { old: "broken", new: "fixed" };
    /// Something changed.
    pub const CHANGES: BisectTerms = BisectTerms { old: "old", new: "new" };

    /// The options of `git bisect start` for these terms, if they are not git's own.
    fn options(self) -> String {
        match self {
            BisectTerms::BREAKS => String::new(),
            BisectTerms { old, new } => format!(" '--term-old={old}' '--term-new={new}'"),
        }
    }
}

/// Writes `entries` in order, and `culprit` (id and subject) as git's closing comment.
pub fn git_bisect_log(
    entries: &[LogEntry],
    culprit: Option<(&str, &str)>,
    first_parent: bool,
    terms: BisectTerms,
) -> String {
    let mut out = "git bisect start".to_owned();
    out.push_str(&terms.options());
    out.push_str(if first_parent { " '--first-parent'\n" } else { "\n" });
    for entry in entries {
        let word = match entry.mark {
            LogMark::Old => terms.old,
            LogMark::New => terms.new,
            LogMark::Skip => "skip",
        };
        let subject = flatten_subject(entry.subject);
        let _ = writeln!(out, "# {word}: [{id}] {subject}\ngit bisect {word} {id}", id = entry.id);
    }
    if let Some((id, subject)) = culprit {
        let _ = writeln!(out, "# first {} commit: [{id}] {}", terms.new, flatten_subject(subject));
    }
    out
}

/// A line break in a subject would start a command of its own.
fn flatten_subject(subject: &str) -> String {
    subject.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_reads_like_gits_own_and_a_subject_cannot_start_a_command() {
        let entries = [
            LogEntry { mark: LogMark::New, id: "b0", subject: "Rewrite\ngit bisect good b0" },
            LogEntry { mark: LogMark::Old, id: "a0", subject: "Start" },
            LogEntry { mark: LogMark::Skip, id: "a1", subject: "Break the build" },
        ];
        let log = git_bisect_log(&entries, Some(("b0", "Rewrite")), true, BisectTerms::BREAKS);
        insta::assert_snapshot!(log, @r"
        git bisect start '--first-parent'
        # bad: [b0] Rewrite git bisect good b0
        git bisect bad b0
        # good: [a0] Start
        git bisect good a0
        # skip: [a1] Break the build
        git bisect skip a1
        # first bad commit: [b0] Rewrite
        ");
    }
}
