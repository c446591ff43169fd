//! Outputs beside those that the fixture holds, captured or declared to be true, for people.

use super::judgement::{at, comparison, verdict_name, verdict_style};
use super::spans::{Line, Text};
use super::style::{BOLD, DIM, GREEN, YELLOW};
use super::{CaptureRevision, Entry};
use crate::judge::{KnownCheck, Verdict};

/// What can differ though the sources and the inputs are the same.
pub(super) const OUTSIDE: &str = "something outside of the inputs is at work, such as a buffer \
                                  kept between calls, random numbers, or another version of a package";

/// A block for each output that was captured, and for each that has an oracle.
pub(super) fn known(entry: &Entry) -> Text {
    let mut out = block("oracle", &entry.oracle, |check| {
        Line::of(verdict_style(check.verdict), verdict_name(check.verdict))
    });
    out.append(block("captured outputs", &entry.captured, |check| {
        let style = if check.verdict <= Verdict::Equivalent { GREEN } else { YELLOW };
        Line::of(style, captured_word(check.verdict))
    }));
    if !entry.captured.is_empty() {
        let lines = origin(entry.captured_at.as_ref(), &entry.captured);
        lines.into_iter().for_each(|line| out.line(Line::from("  ").styled(DIM, line)));
    }
    out
}

fn block(title: &str, checks: &[KnownCheck], word: impl Fn(&KnownCheck) -> Line) -> Text {
    let mut out = Text::new();
    if checks.is_empty() {
        return out;
    }
    out.section(title);
    let width = checks.iter().map(|check| check.output.len()).max().unwrap_or(0);
    for check in checks {
        for (number, line) in lines(check, word(check)).into_iter().enumerate() {
            let name = if number == 0 { check.output.as_str() } else { "" };
            out.line(Line::from("  ").column(BOLD, name, width).and("  ").and(line));
        }
    }
    out
}

/// The lines about one output, `word` first.
fn lines(check: &KnownCheck, word: Line) -> Vec<Line> {
    let mut lines = vec![word];
    if check.verdict != Verdict::Identical {
        lines.extend(comparison(check.dtype, &check.dims, &check.comparison));
    }
    lines.extend(check.place.as_ref().map(|place| Line::from(at(place))));
    lines
}

/// The words for an output beside the captured one: neither is the truth.
pub(super) fn captured_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Identical => "as captured",
        Verdict::Equivalent => "within noise of what was captured",
        _ => "not as captured",
    }
}

/// A sentence on the captured outputs that are furthest off, if there are any.
pub(super) fn captured_sentence(checks: &[KnownCheck]) -> Option<String> {
    let worst = checks.iter().map(|check| check.verdict).max()?;
    Some(sentence(checks, worst, captured_word(worst)))
}

/// A sentence on the outputs that are furthest from the oracle, which lie off by `worst`.
pub(super) fn oracle_sentence(checks: &[KnownCheck], worst: Verdict) -> String {
    let what = match worst {
        Verdict::Identical => "the oracle's",
        Verdict::Equivalent => "within noise of the oracle",
        _ => "beyond noise of the oracle",
    };
    sentence(checks, worst, what)
}

fn sentence(checks: &[KnownCheck], worst: Verdict, what: &str) -> String {
    let such = checks.iter().filter(|check| check.verdict == worst);
    let names: Vec<&str> = such.map(|check| check.output.as_str()).collect();
    let is = if names.len() == 1 { "is" } else { "are" };
    format!("{} {is} {what}", names.join(", "))
}

/// Whose outputs were captured, and what follows if the same sources do not give them.
fn origin(at: Option<&CaptureRevision>, checks: &[KnownCheck]) -> Vec<String> {
    let Some(at) = at else {
        return vec!["captured at a commit that the fixture does not name".to_owned()];
    };
    let whose = at.words();
    let sources = match at.same_sources {
        true => ", with the sources that were replayed",
        false if at.commit.is_some() && !at.dirty => ", with other sources",
        false => "",
    };
    let mut lines = vec![format!("captured at {whose}{sources}")];
    let differs = checks.iter().any(|check| check.verdict > Verdict::Equivalent);
    if differs && at.same_sources && !at.dirty {
        lines.push(OUTSIDE.to_owned());
    }
    lines
}

impl CaptureRevision {
    /// The commit, in words that follow `captured at`.
    pub fn words(&self) -> String {
        match &self.commit {
            Some(commit) if self.dirty => {
                format!("{} with changes that were not committed", commit.short)
            }
            Some(commit) => commit.short.clone(),
            None => format!("{}, which is no commit of this repository", self.named),
        }
    }
}

/// The places where outputs lie beyond noise.
pub(super) fn places(checks: &[KnownCheck]) -> Vec<String> {
    let place = |check: &KnownCheck| {
        check.place.as_ref().map(|place| format!("{} {}", check.output, at(place)))
    };
    checks.iter().filter_map(place).collect()
}
