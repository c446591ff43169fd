//! Why a search was refused, in words, and what to do about it.

use super::accesses::wrong;
use super::bisect::{observation_line, shown};
use super::captured_by::outside_advice;
use super::judgement::gradient;
use super::spans::{Line, Text};
use super::style::{COMMIT, DIM, RED};
use super::text::caused_by;
use crate::bisect::{Direction, Observation, Oldest, On, Report, Seen, SharedDefect};
use crate::judge::{GradientCheck, Verdict};
use crate::search::Refusal;
use crate::trial::Status;

/// The source of the claim that an end is good or bad.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// The user, who named them.
    Named,
    /// A snapshot, which the good ends must agree with.
    Recorded,
    /// A comparison, whose two sides are the ends.
    Compared,
}

impl Claim {
    /// The words for a good end that shows the defect, and for a bad end that does not.
    fn words(self) -> [&'static str; 2] {
        match self {
            Claim::Named => ["was said to be good", "was said to be bad"],
            Claim::Recorded => ["does not agree with the snapshot", "was said to be bad"],
            Claim::Compared => ["is trusted and shows the same", "shows nothing to search for"],
        }
    }
}

/// Why the ends do not allow a search, with what was seen there, and what to do.
pub(super) fn refused(report: &Report, refusal: &Refusal) -> Text {
    let claim = if report.recorded { Claim::Recorded } else { Claim::Named };
    let (what, advice) = refusal_words(report, refusal, claim);
    let is_lost =
        matches!(refusal, Refusal::EndsDisagree { bad_is_good, .. } if !bad_is_good.is_empty());
    let outside = outside_advice(&report.captured).filter(|_| is_lost);
    let advice = outside.unwrap_or(advice);
    let untestable = match refusal {
        Refusal::UntestableEnds { ends } => ends.as_slice(),
        _ => &[],
    };
    let mut out = Text::new();
    for (number, line) in what.into_iter().enumerate() {
        out.line(match number {
            0 => Line::of(RED, "refused").and(": ").and(line),
            _ => Line::from("         ").and(line),
        });
        let end = untestable.get(number).and_then(|&end| report.seen(end));
        for line in end.map(causes).unwrap_or_default() {
            out.line(format!("           {line}"));
        }
    }
    out.line(Line::of(DIM, "hint:").and(format!(" {advice}")));
    out
}

/// The causes of many lines, such as tracebacks, for which an end cannot be tested.
fn causes(seen: &Seen) -> Vec<String> {
    let outcomes = seen.observations.iter().filter_map(|one| one.outcome.as_ref());
    let causes = outcomes.flat_map(|outcome| match &outcome.status {
        Status::Untestable { causes, .. } => causes.as_slice(),
        _ => &[],
    });
    causes.filter(|cause| cause.lines().nth(1).is_some()).flat_map(|one| caused_by(one)).collect()
}

/// `a, b, c`.
pub(super) fn joined(lines: impl Iterator<Item = Line>) -> Line {
    lines.enumerate().fold(Line::new(), |all, (number, line)| match number {
        0 => line,
        _ => all.and(", ").and(line),
    })
}

/// Commits, each behind its words.
fn ends(report: &Report, ends: [(&str, &u32); 2]) -> Line {
    let line = |line: Line, (words, &end): (&str, &u32)| line.and(words).and(shown(report, end));
    ends.into_iter().fold(Line::new(), line)
}

/// The problem with the ends, and advice.
pub(super) fn refusal_words(
    report: &Report,
    refusal: &Refusal,
    claim: Claim,
) -> (Vec<Line>, String) {
    match refusal {
        Refusal::SameVariant { good, bad } => (
            vec![ends(report, [("good ", good), (" and bad ", bad)]).and(" have the same sources")],
            "what differs lies outside of the harness's `sources` and `include`: name it there, \
             or look at the inputs"
                .to_owned(),
        ),
        Refusal::Reversed { good, bad } if claim == Claim::Compared => (
            vec![
                ends(report, [("", bad), (" is an ancestor of ", good)]).and(", which is trusted"),
            ],
            "trust the older of the two".to_owned(),
        ),
        Refusal::Reversed { good, bad } if good == bad => (
            vec![shown(report, *good).and(" was said to be both good and bad")],
            "name two revisions".to_owned(),
        ),
        Refusal::Reversed { good, bad } if report.direction == Direction::Changes => (
            vec![ends(report, [("new ", bad), (" is an ancestor of old ", good)])],
            "swap --old and --new".to_owned(),
        ),
        Refusal::Reversed { good, bad } => (
            vec![ends(report, [("bad ", bad), (" is an ancestor of good ", good)])],
            "name ends of which all bad ones are older than the good ones, or all newer".to_owned(),
        ),
        Refusal::EndsDisagree { good_is_bad, bad_is_good } => match report.direction {
            // In terms of the search good is what the older ends are.
            Direction::Repairs => disagreement(report, claim, bad_is_good, good_is_bad),
            Direction::Breaks | Direction::Changes => {
                disagreement(report, claim, good_is_bad, bad_is_good)
            }
        },
        Refusal::UntestableEnds { ends } => neither(report, ends),
        Refusal::BadMergeBase { base } if report.direction == Direction::Repairs => (
            vec![end_line(report, *base, "is the common ancestor of the ends, and good")],
            "the defect came on the way to the bad end, and nothing was repaired on the way to the good \
             one: name them with --good and --bad"
                .to_owned(),
        ),
        Refusal::BadMergeBase { base } => (
            vec![end_line(report, *base, "is the common ancestor of the ends, and bad")],
            "the defect was fixed on the way to the good end: name a good commit before it, or \
             swap the ends to find the fix"
                .to_owned(),
        ),
        Refusal::Indistinguishable { good, bad } => (
            vec![Line::from(format!(
                "the ends cannot be told apart: {} of {} tests of the good end and {} of {} tests \
                 of the bad end were bad",
                good.0, good.1, bad.0, bad.1
            ))],
            "find inputs on which the defect shows more often".to_owned(),
        ),
    }
}

/// Ends that cannot be tested, or show another defect than the one searched for. The bad ends
/// define that defect, so that only good ends can show another.
fn neither(report: &Report, ends: &[u32]) -> (Vec<Line>, String) {
    let verdict = |end: u32| report.seen(end).map_or(Verdict::Untestable, Seen::verdict);
    let line = |&end: &u32| {
        let claim = match verdict(end) {
            // Nothing is known of the bad ends, which could not be tested.
            Verdict::Failed if report.wanted.is_empty() => "was said to be good",
            Verdict::Failed | Verdict::Diverged => {
                "was said to be good, and shows something else than the bad end"
            }
            _ => "is neither good nor bad",
        };
        end_line(report, end, claim)
    };
    let known = ends.iter().filter_map(|&end| report.seen(end)).find_map(Seen::hint);
    let advice = match ends.iter().map(|&end| verdict(end)).max() {
        Some(Verdict::Untestable) if let Some(hint) = known => hint,
        Some(Verdict::Failed) => {
            "name a good end that completes; the first commit at which it does is shown by `replay log`"
        }
        _ => "name other ends; `replay FIXTURE --rev REV` shows one commit in detail",
    };
    (ends.iter().map(line).collect(), advice.to_owned())
}

/// Ends that tested otherwise than claimed.
fn disagreement(
    report: &Report,
    claim: Claim,
    good_is_bad: &[u32],
    bad_is_good: &[u32],
) -> (Vec<Line>, String) {
    let [said_good, said_bad] = match report.direction {
        Direction::Changes => ["is not as the old end", "is not changed"],
        Direction::Breaks | Direction::Repairs => claim.words(),
    };
    let good = good_is_bad.iter().map(|&end| end_line(report, end, said_good));
    let bad = bad_is_good.iter().map(|&end| end_line(report, end, said_bad));
    let mut what: Vec<Line> = good.chain(bad).collect();
    if let Some(shared) = &report.shared {
        what.extend(shared_lines(shared));
        return (what, shared_advice(shared));
    }
    let verdicts: Vec<Verdict> =
        bad_is_good.iter().filter_map(|&end| report.seen(end)).map(Seen::verdict).collect();
    let new_access = report.accesses.iter().flat_map(|(_, found)| found.failures()).next();
    let advice = match verdicts.iter().max() {
        _ if !good_is_bad.is_empty() && claim == Claim::Recorded => {
            "accept the snapshot anew if it is out of date, or go back to a commit that agrees with \
             it: `--good snapshot REV`"
        }
        _ if !good_is_bad.is_empty() && bad_is_good.is_empty() => {
            "name a good commit that does not show what the bad one shows"
        }
        _ if let Some(found) = new_access => {
            let access = wrong(found);
            return (
                what,
                format!("a check of the bad end finds {access}: --on race names the commit"),
            );
        }
        _ if bad_is_good.iter().filter_map(|&end| report.seen(end)).any(depends_alike) => {
            "the good end has the same race or lacks the same barrier: name a good end that does not"
        }
        _ if report.on == On::Failed
            && report.tested.iter().any(|one| fails(report, one.commit)) =>
        {
            "the good end fails, and the bad one does not: swap --good and --bad"
        }
        _ if report.on == On::Failed => {
            "it does not fail: without `--on failed` its outputs are compared with the good end's"
        }
        _ if report.on == On::Gradient => {
            "its gradients match their loss: `replay gradcheck` shows them in detail"
        }
        _ if report.on == On::Race => {
            "its accesses to memory are in order: capture inputs on which the race shows"
        }
        _ if report.on == On::Bits => {
            "its bits are those of the good end: capture inputs on which they differ"
        }
        Some(Verdict::Diverged) => {
            "it differs, but is no worse than the good end: swap --good and --bad if they are the \
             wrong way round, or search with --on changed"
        }
        Some(Verdict::Equivalent) => {
            "they differ within noise only: --on bits finds where the bits change"
        }
        _ => {
            "on this fixture nothing is wrong there: capture inputs on which the defect shows, or \
             search for races that move no number with --on race"
        }
    };
    (what, advice.to_owned())
}

/// What both ends have: a line for each gradient.
fn shared_lines(shared: &SharedDefect) -> Vec<Line> {
    let of_fixture = |(fixture, checks): &(String, Vec<GradientCheck>)| {
        let line = |check: &GradientCheck| {
            let begun =
                Line::of(COMMIT, &shared.good.short).and(", the good end, has a defect already: ");
            begun.and(format!("on {fixture} {} ", check.output)).and(gradient(check))
        };
        checks.iter().map(line).collect::<Vec<Line>>()
    };
    shared.gradients.iter().flat_map(of_fixture).collect()
}

/// Where to look for a defect that both ends have.
fn shared_advice(shared: &SharedDefect) -> String {
    match &shared.oldest {
        Some(Oldest { commit, is_right: true }) => format!(
            "name an older good revision: at {short}, the first with the sources, it matches; \
             `--on gradient --good {short}` finds the commit",
            short = commit.short
        ),
        Some(Oldest { commit, is_right: false }) => format!(
            "{}, the first revision with the sources, does not show a gradient that matches either: \
             name a revision between them at which `replay gradcheck` is content, for `--on gradient`",
            commit.short
        ),
        None => format!(
            "{} has the sources of the first revision that has any: the defect was there from the start",
            shared.good.short
        ),
    }
}

fn fails(report: &Report, commit: u32) -> bool {
    report.seen(commit).is_some_and(|seen| seen.verdict() == Verdict::Failed)
}

fn depends_alike(seen: &Seen) -> bool {
    let alike = |seen: &Observation| {
        !seen.ordered_alike.is_empty() || seen.accesses_alike().next().is_some()
    };
    seen.observations.iter().any(alike)
}

fn end_line(report: &Report, end: u32, claim: &str) -> Line {
    let seen = report.seen(end).map_or("was not tested".to_owned(), observation_line);
    shown(report, end).and(format!(" {claim}: {seen}"))
}
