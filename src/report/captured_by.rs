//! Which commits give the outputs that a fixture holds as captured, for people.

use super::known::OUTSIDE;
use crate::bisect::CapturedBy;
use crate::history::Commit;

/// More commits than these are only counted.
const SHOWN: usize = 6;

/// A line for each fixture that holds captured outputs.
pub(super) fn captured_lines(found: &[CapturedBy]) -> Vec<String> {
    let several = found.len() > 1;
    let line = |one: &CapturedBy| {
        let whose = if several { format!(" of {}", one.fixture) } else { String::new() };
        format!("captured outputs{whose} {}", sentence(one))
    };
    found.iter().map(line).collect()
}

fn sentence(found: &CapturedBy) -> String {
    match (found.given_by.as_slice(), found.not_by.as_slice(), &found.lost_at) {
        ([], _, Some(commit)) => format!(
            "are given by none of these commits, nor by {}, at which they were captured",
            commit.short
        ),
        ([], [], None) => "were compared with no commit".to_owned(),
        ([], not_by, None) => format!("are not given by {}", names(not_by)),
        (given_by, [], _) => format!("are given by {}", names(given_by)),
        (given_by, not_by, _) => {
            format!("are given by {}, not by {}", names(given_by), names(not_by))
        }
    }
}

/// What to do where the captured commit does not give what was captured there, if that is so.
pub(super) fn outside_advice(found: &[CapturedBy]) -> Option<String> {
    let lost = found.iter().find_map(|one| one.lost_at.as_ref())?;
    Some(format!(
        "{} does not give what was captured at it: {OUTSIDE}; make it an input, and capture again",
        lost.short
    ))
}

fn names(commits: &[Commit]) -> String {
    let shown: Vec<&str> = commits.iter().take(SHOWN).map(|commit| commit.short.as_str()).collect();
    let names = shown.join(", ");
    match commits.len() - shown.len() {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}
