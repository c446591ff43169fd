//! The reasons of refused searches, in words, and advice.

use super::accesses::name_access_fault;
use super::bisect::{observation_line, render_commit_name};
use super::captured_by::outside_advice;
use super::judgement::render_gradient_line;
use super::spans::{ReportLine, Text};
use super::style::{COMMIT, DIM, RED};
use super::text::caused_by;
use replay_bisect::{Direction, Oldest, On, SearchReport, Seen, SharedDefect};
use replay_engine::judge::Verdict;
use replay_engine::trial::Status;
use replay_search::EndsRefusal;

/// The source of the claim about an end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// The user, who named them.
    Named,
    /// Nobody: the good ends are the oldest commits that can be tested.
    Assumed,
    /// A snapshot. The good ends must agree with it.
    Recorded,
    /// A comparison, whose two sides are the ends.
    Compared,
}

impl Claim {
    /// The words for a good end with the defect, and for a bad end without it.
    fn words(self) -> [&'static str; 2] {
        match self {
            Claim::Named => ["was said to be good", "was said to be bad"],
            Claim::Assumed => {
                ["is the oldest commit that can be tested, and bad already", "was said to be bad"]
            }
            Claim::Recorded => ["does not agree with the snapshot", "was said to be bad"],
            Claim::Compared => ["is trusted and shows the same", "shows nothing to search for"],
        }
    }
}

/// The reason of the refusal, with the results at the ends, and advice.
pub(super) fn render_refusal_text(report: &SearchReport, refusal: &EndsRefusal) -> Text {
    let claim = match (report.recorded, report.has_named_good) {
        (true, _) => Claim::Recorded,
        (false, true) => Claim::Named,
        (false, false) => Claim::Assumed,
    };
    let (refusal_lines, advice) = refusal_words(report, refusal, claim);
    let is_lost =
        matches!(refusal, EndsRefusal::EndsDisagree { bad_is_good, .. } if !bad_is_good.is_empty());
    let outside = outside_advice(&report.captured).filter(|_| is_lost);
    let advice = outside.unwrap_or(advice);
    let untestable = match refusal {
        EndsRefusal::UntestableEnds { ends } => ends.as_slice(),
        _ => &[],
    };
    let mut out = Text::new();
    for (number, line) in refusal_lines.into_iter().enumerate() {
        out.line(match number {
            0 => ReportLine::with_style(RED, "refused").and(": ").and(line),
            _ => ReportLine::from("         ").and(line),
        });
        let end = untestable.get(number).and_then(|&end| report.test_result(end));
        for line in end.map(list_long_causes).unwrap_or_default() {
            out.line(format!("           {line}"));
        }
    }
    out.line(ReportLine::with_style(DIM, "hint:").and(format!(" {advice}")));
    out
}

/// The causes of many lines, such as tracebacks, of an untestable end.
fn list_long_causes(test_result: &Seen) -> Vec<String> {
    let outcomes =
        test_result.observations.iter().filter_map(|observation| observation.outcome.as_ref());
    let causes = outcomes.flat_map(|outcome| match &outcome.status {
        Status::Untestable { causes, .. } => causes.as_slice(),
        _ => &[],
    });
    causes
        .filter(|cause| cause.lines().nth(1).is_some())
        .flat_map(|cause| caused_by(cause))
        .collect()
}

/// `a, b, c`.
pub(super) fn join_report_lines(lines: impl Iterator<Item = ReportLine>) -> ReportLine {
    lines.enumerate().fold(ReportLine::new(), |joined_line, (number, line)| match number {
        0 => line,
        _ => joined_line.and(", ").and(line),
    })
}

/// Commits, each behind its words.
fn render_end_pair(report: &SearchReport, ends: [(&str, &u32); 2]) -> ReportLine {
    ends.into_iter().fold(ReportLine::new(), |line, (words, &end)| {
        line.and(words).and(render_commit_name(report, end))
    })
}

/// The problem with the ends, and advice.
pub(super) fn refusal_words(
    report: &SearchReport,
    refusal: &EndsRefusal,
    claim: Claim,
) -> (Vec<ReportLine>, String) {
    match refusal {
        EndsRefusal::SameVariant { good, bad } => (
            vec![render_end_pair(report, [("good ", good), (" and bad ", bad)]).and(" have the same sources")],
            "what differs lies outside of the harness's `sources` and `include`: name it there, \
             or look at the inputs"
                .to_owned(),
        ),
        EndsRefusal::Reversed { good, bad } if claim == Claim::Compared => (
            vec![
                render_end_pair(report, [("", bad), (" is an ancestor of ", good)]).and(", which is trusted"),
            ],
            "trust the older of the two".to_owned(),
        ),
        EndsRefusal::Reversed { good, bad } if good == bad => (
            vec![render_commit_name(report, *good).and(" was said to be both good and bad")],
            "name two revisions".to_owned(),
        ),
        EndsRefusal::Reversed { good, bad } if report.direction == Direction::Changes => (
            vec![render_end_pair(report, [("new ", bad), (" is an ancestor of old ", good)])],
            "swap --old and --new".to_owned(),
        ),
        EndsRefusal::Reversed { good, bad } => (
            vec![render_end_pair(report, [("bad ", bad), (" is an ancestor of good ", good)])],
            "name ends of which all bad ones are older than the good ones, or all newer".to_owned(),
        ),
        EndsRefusal::EndsDisagree { good_is_bad, bad_is_good } => match report.direction {
            // In terms of the search the older ends are good.
            Direction::Repairs => explain_disagreeing_ends(report, claim, bad_is_good, good_is_bad),
            Direction::Breaks | Direction::Changes => {
                explain_disagreeing_ends(report, claim, good_is_bad, bad_is_good)
            }
        },
        EndsRefusal::UntestableEnds { ends } => explain_unclear_ends(report, claim, ends),
        EndsRefusal::BadMergeBase { base } if report.direction == Direction::Repairs => (
            vec![end_line(report, *base, "is the common ancestor of the ends, and good")],
            "the defect came on the way to the bad end, and nothing was repaired on the way to the good \
             one: name them with --good and --bad"
                .to_owned(),
        ),
        EndsRefusal::BadMergeBase { base } => (
            vec![end_line(report, *base, "is the common ancestor of the ends, and bad")],
            "the defect was fixed on the way to the good end: name a good commit before it, or \
             swap the ends to find the fix"
                .to_owned(),
        ),
        EndsRefusal::Indistinguishable { good, bad } => (
            vec![ReportLine::from(format!(
                "the ends cannot be told apart: {} of {} tests of the good end and {} of {} tests \
                 of the bad end were bad",
                good.0, good.1, bad.0, bad.1
            ))],
            "find inputs on which the defect shows more often".to_owned(),
        ),
    }
}

/// Untestable ends, and ends with another defect than the one searched for. The bad ends define the defect:
/// only good ends can show another.
fn explain_unclear_ends(
    report: &SearchReport,
    claim: Claim,
    ends: &[u32],
) -> (Vec<ReportLine>, String) {
    let mut lines = Vec::new();
    let mut worst_verdict = None;
    for &end in ends {
        let verdict = report.test_result(end).map_or(Verdict::Untestable, Seen::verdict);
        worst_verdict = worst_verdict.max(Some(verdict));
        let [said_good, _] =
            if claim == Claim::Assumed { claim.words() } else { Claim::Named.words() };
        let words = match verdict {
            // The bad ends are untestable: nothing is known of them.
            Verdict::Failed if report.wanted.is_empty() => said_good.to_owned(),
            Verdict::Failed | Verdict::Diverged => {
                format!("{said_good}, and shows something else than the bad end")
            }
            _ => "is neither good nor bad".to_owned(),
        };
        lines.push(end_line(report, end, &words));
    }
    let known_hint = ends.iter().filter_map(|&end| report.test_result(end)).find_map(Seen::hint);
    let advice = match worst_verdict {
        Some(Verdict::Untestable) if let Some(hint) = known_hint => hint,
        Some(Verdict::Failed) => {
            "name a good end that completes; the first commit at which it does is shown by `replay log`"
        }
        _ => "name other ends; `replay FIXTURE --rev REV` shows one commit in detail",
    };
    (lines, advice.to_owned())
}

/// Ends with another answer than claimed.
fn explain_disagreeing_ends(
    report: &SearchReport,
    claim: Claim,
    good_is_bad: &[u32],
    bad_is_good: &[u32],
) -> (Vec<ReportLine>, String) {
    let [said_good, said_bad] = match report.direction {
        Direction::Changes => ["is not as the old end", "is not changed"],
        Direction::Breaks | Direction::Repairs => claim.words(),
    };
    let good_lines = good_is_bad.iter().map(|&end| end_line(report, end, said_good));
    let bad_lines = bad_is_good.iter().map(|&end| end_line(report, end, said_bad));
    let mut refusal_lines: Vec<ReportLine> = good_lines.chain(bad_lines).collect();
    if let Some(shared_defect) = &report.shared {
        refusal_lines.extend(shared_lines(shared_defect));
        return (refusal_lines, shared_advice(shared_defect));
    }
    let verdicts: Vec<Verdict> =
        bad_is_good.iter().filter_map(|&end| report.test_result(end)).map(Seen::verdict).collect();
    let new_access = report.accesses.iter().flat_map(|(_, found)| found.failures()).next();
    let advice = match verdicts.iter().max() {
        _ if !good_is_bad.is_empty() && claim == Claim::Recorded => {
            "accept the snapshot anew if it is out of date, or go back to a commit that agrees with \
             it: `--good snapshot REV`"
        }
        _ if !good_is_bad.is_empty() && claim == Claim::Assumed => {
            "no older commit can be tested: name a later one that is good with --good, if there is one; \
             else the defect was there from the start"
        }
        _ if !good_is_bad.is_empty() && bad_is_good.is_empty() => {
            "name a good commit that does not show what the bad one shows"
        }
        _ if let Some(found) = new_access => {
            let access = name_access_fault(found);
            return (
                refusal_lines,
                format!("a check of the bad end finds {access}: --on race names the commit"),
            );
        }
        _ if bad_is_good.iter().filter_map(|&end| report.test_result(end)).any(depends_alike) => {
            "the good end has the same race or lacks the same barrier: name a good end that does not"
        }
        _ if report.on == On::Failed
            && report.tested.iter().any(|tested| is_failed_commit(report, tested.commit)) =>
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
        Some(Verdict::Equivalent | Verdict::Unchecked) => {
            "they differ within noise only: --on bits finds where the bits change"
        }
        _ => {
            "on this fixture nothing is wrong there: capture inputs on which the defect shows, or \
             search for races that move no number with --on race"
        }
    };
    (refusal_lines, advice.to_owned())
}

/// The defect of both ends: a line for each gradient.
fn shared_lines(shared_defect: &SharedDefect) -> Vec<ReportLine> {
    let mut lines = Vec::new();
    for (fixture, checks) in &shared_defect.gradients {
        for check in checks {
            let good = ReportLine::with_style(COMMIT, &shared_defect.good.short);
            let line = good.and(", the good end, has a defect already: ");
            let line = line.and(format!("on {fixture} {} ", check.output));
            lines.push(line.and(render_gradient_line(check)));
        }
    }
    lines
}

/// Advice on a defect of both ends.
fn shared_advice(shared_defect: &SharedDefect) -> String {
    match &shared_defect.oldest {
        Some(Oldest { commit, is_right: true }) => format!(
            "name an older good revision: at {short}, the oldest that can be tested, it matches; \
             `--on gradient --good {short}` finds the commit",
            short = commit.short
        ),
        Some(Oldest { commit, is_right: false }) => format!(
            "{}, the oldest revision that can be tested, does not show a gradient that matches either: \
             name a revision between them at which `replay gradcheck` is content, for `--on gradient`",
            commit.short
        ),
        None => format!(
            "{} has the sources of the oldest revision that can be tested: the defect was there from the start",
            shared_defect.good.short
        ),
    }
}

fn is_failed_commit(report: &SearchReport, commit: u32) -> bool {
    report.test_result(commit).is_some_and(|test_result| test_result.verdict() == Verdict::Failed)
}

fn depends_alike(test_result: &Seen) -> bool {
    test_result.observations.iter().any(|observation| {
        !observation.ordered_alike.is_empty() || observation.accesses_alike().next().is_some()
    })
}

fn end_line(report: &SearchReport, end: u32, claim: &str) -> ReportLine {
    let observed_words =
        report.test_result(end).map_or("was not tested".to_owned(), observation_line);
    render_commit_name(report, end).and(format!(" {claim}: {observed_words}"))
}
