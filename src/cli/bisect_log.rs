//! The answers of a search, as `git bisect replay` takes them.

use ::replay::bisect::{Direction, Report};
use ::replay::search::{Answer, Conclusion, LogEntry, LogMark, Terms, git_bisect_log};

/// The answered tests, in the form of `git bisect log`.
pub fn text(report: &Report, first_parent: bool) -> String {
    let ids: Vec<(LogMark, String, String)> = report
        .tested
        .iter()
        .filter_map(|tested| {
            let commit = report.commit(tested.commit)?;
            let mark = match (tested.answer, report.direction) {
                (Answer::Skip | Answer::Other, _) => LogMark::Skip,
                (Answer::Good, Direction::Repairs) => LogMark::New,
                (Answer::Bad, Direction::Repairs) => LogMark::Old,
                (Answer::Good, _) => LogMark::Old,
                (Answer::Bad, _) => LogMark::New,
            };
            Some((mark, commit.id.to_string(), commit.subject.clone()))
        })
        .collect();
    let entries: Vec<LogEntry> =
        ids.iter().map(|(mark, id, subject)| LogEntry { mark: *mark, id, subject }).collect();
    let culprit = match report.conclusion {
        Conclusion::Found { culprit, .. } | Conclusion::Probable { culprit, .. } => {
            report.commit(culprit).map(|commit| (commit.id.to_string(), commit.subject.as_str()))
        }
        _ => None,
    };
    let culprit = culprit.as_ref().map(|(id, subject)| (id.as_str(), *subject));
    let terms = match report.direction {
        Direction::Breaks => Terms::BREAKS,
        Direction::Repairs => Terms::REPAIRS,
        Direction::Changes => Terms::CHANGES,
    };
    git_bisect_log(&entries, culprit, first_parent, terms)
}
