//! The commits with the captured outputs of a fixture, for people.

use super::known::OUTSIDE;
use replay_bisect::CapturedBy;
use replay_history::Commit;

/// More commits than these are only counted.
const SHOWN: usize = 6;

/// A line for each fixture with captured outputs.
pub(super) fn captured_lines(captures: &[CapturedBy]) -> Vec<String> {
    let lines = captures.iter().map(|capture| {
        let words = describe_captured_by(capture);
        match captures.len() {
            1 => format!("captured outputs {words}"),
            _ => format!("captured outputs of {} {words}", capture.fixture),
        }
    });
    lines.collect()
}

fn describe_captured_by(capture: &CapturedBy) -> String {
    match (capture.given_by.as_slice(), capture.not_by.as_slice(), &capture.lost_at) {
        ([], _, Some(commit)) => format!(
            "are given by none of these commits, nor by {}, at which they were captured",
            commit.short
        ),
        ([], [], None) => "were compared with no commit".to_owned(),
        ([], not_by, None) => format!("are not given by {}", join_commit_names(not_by)),
        (given_by, [], _) => format!("are given by {}", join_commit_names(given_by)),
        (given_by, not_by, _) => {
            format!(
                "are given by {}, not by {}",
                join_commit_names(given_by),
                join_commit_names(not_by)
            )
        }
    }
}

/// Advice where the captured commit does not give the captured outputs.
pub(super) fn outside_advice(captures: &[CapturedBy]) -> Option<String> {
    let lost = captures.iter().find_map(|capture| capture.lost_at.as_ref())?;
    Some(format!(
        "{} does not give what was captured at it: {OUTSIDE}; make it an input, and capture again",
        lost.short
    ))
}

fn join_commit_names(commits: &[Commit]) -> String {
    let first_names: Vec<&str> =
        commits.iter().take(SHOWN).map(|commit| commit.short.as_str()).collect();
    let names = first_names.join(", ");
    match commits.len() - first_names.len() {
        0 => names,
        left_out => format!("{names} and {left_out} more"),
    }
}
