//! The text that `git bisect log` would print and that `git bisect replay` accepts.

use std::fmt::Write;

/// The mark of a commit in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogMark {
    /// The failure is not there.
    Good,
    /// The failure is there.
    Bad,
    /// The commit could not be tested, or failed in another way.
    Skip,
}

/// One answered commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry<'a> {
    /// The mark that its answer gives it.
    pub mark: LogMark,
    /// The full commit id.
    pub id: &'a str,
    /// The first line of the commit's message; control characters are blanked.
    pub subject: &'a str,
}

/// Writes `entries` in order, and `culprit` (id and subject) as git's closing comment.
pub fn git_bisect_log(
    entries: &[LogEntry],
    culprit: Option<(&str, &str)>,
    first_parent: bool,
) -> String {
    let mut out = "git bisect start".to_owned();
    out.push_str(if first_parent { " '--first-parent'\n" } else { "\n" });
    for entry in entries {
        let word = match entry.mark {
            LogMark::Good => "good",
            LogMark::Bad => "bad",
            LogMark::Skip => "skip",
        };
        let subject = one_line(entry.subject);
        let _ = writeln!(out, "# {word}: [{id}] {subject}\ngit bisect {word} {id}", id = entry.id);
    }
    if let Some((id, subject)) = culprit {
        let _ = writeln!(out, "# first bad commit: [{id}] {}", one_line(subject));
    }
    out
}

/// A line break in a subject would start a command of its own.
fn one_line(subject: &str) -> String {
    subject.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_reads_like_gits_own_and_a_subject_cannot_start_a_command() {
        let entries = [
            LogEntry { mark: LogMark::Bad, id: "b0", subject: "Rewrite\ngit bisect good b0" },
            LogEntry { mark: LogMark::Good, id: "a0", subject: "Start" },
            LogEntry { mark: LogMark::Skip, id: "a1", subject: "Break the build" },
        ];
        insta::assert_snapshot!(git_bisect_log(&entries, Some(("b0", "Rewrite")), true), @r"
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
