//! The answers of a search, as `git bisect replay` takes them.

use ::replay::bisect::{Direction, SearchReport};
use ::replay::search::{BisectTerms, Conclusion, LogEntry, LogMark, TestAnswer, git_bisect_log};

/// The answered tests, in the form of `git bisect log`.
pub fn format_git_bisect_log(report: &SearchReport, first_parent: bool) -> String {
    let ids: Vec<(LogMark, String, String)> = report
        .tested
        .iter()
        .filter_map(|tested| {
            let commit = report.commit(tested.commit)?;
            let mark = match (tested.answer, report.direction) {
                (TestAnswer::Skip | TestAnswer::Other, _) => LogMark::Skip,
                (TestAnswer::Good, Direction::Repairs) => LogMark::New,
                (TestAnswer::Bad, Direction::Repairs) => LogMark::Old,
                (TestAnswer::Good, _) => LogMark::Old,
                (TestAnswer::Bad, _) => LogMark::New,
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
        Direction::Breaks => BisectTerms::BREAKS,
        Direction::Repairs => BisectTerms::REPAIRS,
        Direction::Changes => BisectTerms::CHANGES,
    };
    git_bisect_log(&entries, culprit, first_parent, terms)
}
