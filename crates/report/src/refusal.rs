//! The reasons of refused searches, in words, and advice.

use super::accesses::name_access_fault;
use super::bisect::{observation_line, render_commit_name};
use super::captured_by::outside_advice;
use super::judgement::render_gradient_line;
use super::spans::{ReportLine, Text};
use super::style::{COMMIT, DIM, RED};
use super::text::caused_by;
use replay_bisect::{Direction, GoodEnds, Oldest, On, SearchReport, Seen, SharedDefect};
use replay_engine::judge::Verdict;
use replay_engine::trial::Status;
use replay_history::LinelessChange;
use replay_search::{EndsRefusal, UnclearEnd};

/// The source of the claim about an end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// The user, who named them.
    Named,
    /// The user, who named the bad end. The good ends are the oldest commits that can be tested.
    Oldest,
    /// The user, who named the bad end. The good end is its parent.
    Parent,
    /// Nobody: the ends are an older and a newer side.
    Nobody,
    /// A snapshot. The good ends must agree with it.
    Recorded,
    /// A comparison, whose two sides are the ends.
    Compared,
}

impl Claim {
    fn of_search(report: &SearchReport) -> Claim {
        match report.good_ends {
            None => Claim::Recorded,
            Some(GoodEnds::Named) => Claim::Named,
            Some(GoodEnds::Oldest) => Claim::Oldest,
            Some(GoodEnds::Parent) => Claim::Parent,
            Some(GoodEnds::Unclaimed) => Claim::Nobody,
        }
    }

    /// The words for a good end with the defect.
    fn bad_already(self) -> &'static str {
        match self {
            Claim::Named => "was said to be good",
            Claim::Oldest => "is the oldest commit that can be tested, and bad already",
            Claim::Parent => "is the parent, and bad already",
            Claim::Nobody => "shows the same as the other end",
            Claim::Recorded => "does not agree with the snapshot",
            Claim::Compared => "is trusted and shows the same",
        }
    }

    /// The words for a good end with another defect.
    fn bad_otherwise(self) -> &'static str {
        match self {
            Claim::Named => "was said to be good, and shows something else than the bad end",
            Claim::Oldest => {
                "is the oldest commit that can be tested, and shows something else than the bad end"
            }
            Claim::Parent => "is the parent, and shows something else",
            Claim::Nobody => "shows something else than the other end",
            Claim::Recorded => {
                "does not agree with the snapshot, and shows something else than the bad end"
            }
            Claim::Compared => "is trusted and shows something else",
        }
    }

    /// The words for a bad end without a defect.
    fn not_bad(self) -> &'static str {
        match self {
            Claim::Named | Claim::Oldest | Claim::Recorded => "was said to be bad",
            Claim::Parent => "is no worse than its parent",
            Claim::Nobody => "is no worse than the other end",
            Claim::Compared => "shows nothing to search for",
        }
    }

    /// The name of the good end beside the bad one.
    fn good_end(self) -> &'static str {
        match self {
            Claim::Named | Claim::Oldest => "the good end",
            Claim::Recorded => "the snapshot",
            Claim::Parent => "the parent",
            Claim::Nobody => "the other end",
            Claim::Compared => "the trusted side",
        }
    }
}

/// The reason of the refusal, with the results at the ends, and advice.
pub(super) fn render_refusal_text(report: &SearchReport, refusal: &EndsRefusal) -> Text {
    let (refusal_lines, advice) = refusal_words(report, refusal, Claim::of_search(report));
    let is_lost =
        matches!(refusal, EndsRefusal::EndsDisagree { bad_is_good, .. } if !bad_is_good.is_empty());
    let outside = outside_advice(&report.captured).filter(|_| is_lost);
    let lineless = report.lineless.as_ref().filter(|change| explains_refusal(change, refusal));
    let advice = lineless.map(advise_on_lineless).or(outside).unwrap_or(advice);
    let unclear: Vec<&UnclearEnd> = match refusal {
        EndsRefusal::UnclearEnds { good, bad } => good.iter().chain(bad).collect(),
        _ => Vec::new(),
    };
    let mut out = Text::new();
    for (number, line) in refusal_lines.into_iter().enumerate() {
        out.line(match number {
            0 => ReportLine::with_style(RED, "refused").and(": ").and(line),
            _ => ReportLine::from("         ").and(line),
        });
        let end = unclear.get(number).and_then(|end| report.test_result(end.commit));
        for line in end.map(list_long_causes).unwrap_or_default() {
            out.line(format!("           {line}"));
        }
    }
    out.line(ReportLine::with_style(DIM, "hint:").and(format!(" {advice}")));
    out
}

/// Whether the same sources, or a commit that is no worse than its parent, come of a change without lines.
fn explains_refusal(change: &LinelessChange, refusal: &EndsRefusal) -> bool {
    match refusal {
        EndsRefusal::SameVariant { .. } => {
            matches!(change, LinelessChange::Nothing | LinelessChange::Submodule { .. })
        }
        EndsRefusal::EndsDisagree { good_is_bad, .. } => good_is_bad.is_empty(),
        _ => false,
    }
}

/// What to do about a commit that changes no line.
fn advise_on_lineless(change: &LinelessChange) -> String {
    const OTHER: &str =
        "`replay bisect FIXTURE --good REV --bad REV` finds the commit with the defect";
    match change {
        LinelessChange::Nothing => format!("it changes no file: {OTHER}"),
        LinelessChange::Names => format!("it renames files and changes no line: {OTHER}"),
        LinelessChange::Modes => format!("it changes modes of files and no line: {OTHER}"),
        LinelessChange::Submodule { path, old: Some(old), new: Some(new) } => format!(
            "it moves the submodule {path}, whose files no replay reads: search there, from {old} to \
             {new}, with a harness that names the submodule's own `repository`"
        ),
        LinelessChange::Submodule { path, .. } => format!(
            "it adds or removes the submodule {path}, whose files no replay reads: name a folder of \
             its headers in `system_include`, or a copy in `overlay`"
        ),
    }
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
            vec![render_end_pair(report, [("", good), (" and ", bad)]).and(" have the same sources")],
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
            vec![render_commit_name(report, *good).and(" is at both ends")],
            "name two revisions".to_owned(),
        ),
        EndsRefusal::Reversed { good, bad } if claim == Claim::Nobody => (
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
        EndsRefusal::UnclearEnds { good, bad } => match report.direction {
            Direction::Repairs => explain_unclear_ends(report, claim, bad, good),
            Direction::Breaks | Direction::Changes => {
                explain_unclear_ends(report, claim, good, bad)
            }
        },
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

/// Ends that cannot be tested, and ends with another defect than the one searched for.
fn explain_unclear_ends(
    report: &SearchReport,
    claim: Claim,
    good: &[UnclearEnd],
    bad: &[UnclearEnd],
) -> (Vec<ReportLine>, String) {
    // Where the bad ends are untestable nothing is known of them.
    let words_of_good =
        if report.wanted.is_empty() { claim.bad_already() } else { claim.bad_otherwise() };
    let good_ends = good.iter().map(|end| (end, words_of_good));
    let bad_ends = bad.iter().map(|end| (end, "shows something else than what is searched for"));
    let lines = good_ends.chain(bad_ends).map(|(end, words)| {
        let words = if end.is_untestable { "is neither good nor bad" } else { words };
        end_line(report, end.commit, words)
    });
    let lines = lines.collect();
    let mut untestable_ends = good.iter().chain(bad).filter(|end| end.is_untestable);
    let known_hint =
        untestable_ends.find_map(|end| report.test_result(end.commit).and_then(Seen::hint));
    let has_failed_good =
        good.iter().any(|end| !end.is_untestable && is_failed_commit(report, end.commit));
    let advice = match claim {
        _ if let Some(hint) = known_hint => hint,
        Claim::Parent if has_failed_good => {
            "`replay log FIXTURE` shows since when the parent fails, `replay FIXTURE --rev REV` one \
             commit in detail"
        }
        Claim::Parent => "`replay FIXTURE --rev REV` shows one commit in detail",
        Claim::Nobody if has_failed_good => {
            "name ends that complete; `replay log` shows the first commit that does"
        }
        _ if has_failed_good => {
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
    let good_lines = good_is_bad.iter().map(|&end| end_line(report, end, claim.bad_already()));
    let bad_lines = bad_is_good.iter().map(|&end| end_line(report, end, claim.not_bad()));
    let mut refusal_lines: Vec<ReportLine> = good_lines.chain(bad_lines).collect();
    if let Some(shared_defect) = &report.shared {
        refusal_lines.extend(shared_lines(claim, shared_defect));
        return (refusal_lines, shared_advice(claim, shared_defect));
    }
    let advice = match advise_on_bad_already(claim, good_is_bad, bad_is_good) {
        Some(advice) => advice.to_owned(),
        None => advise_on_not_bad(report, claim, bad_is_good),
    };
    (refusal_lines, advice)
}

/// Advice where good ends have the defect; none if the bad ends tell more.
fn advise_on_bad_already(
    claim: Claim,
    good_is_bad: &[u32],
    bad_is_good: &[u32],
) -> Option<&'static str> {
    if good_is_bad.is_empty() {
        return None;
    }
    match claim {
        Claim::Recorded => Some(
            "accept the snapshot anew if it is out of date, or go back to a commit that agrees with \
             it: `--good snapshot REV`",
        ),
        Claim::Oldest => Some(
            "no older commit can be tested: name a later one that is good with --good, if there is one; \
             else the defect was there from the start",
        ),
        Claim::Parent => Some(
            "an older commit brought it: `replay bisect FIXTURE --good REV --bad REV` finds it",
        ),
        Claim::Nobody => Some("name an end that does not show it"),
        Claim::Named | Claim::Compared if bad_is_good.is_empty() => {
            Some("name a good commit that does not show what the bad one shows")
        }
        Claim::Named | Claim::Compared => None,
    }
}

/// Advice where bad ends do not have a defect.
fn advise_on_not_bad(report: &SearchReport, claim: Claim, bad_is_good: &[u32]) -> String {
    let bad_results: Vec<&Seen> =
        bad_is_good.iter().filter_map(|&end| report.test_result(end)).collect();
    let good_end = claim.good_end();
    let new_access = report.accesses.iter().flat_map(|(_, found)| found.failures()).next();
    let has_failed = report.tested.iter().any(|tested| is_failed_commit(report, tested.commit));
    match bad_results.iter().map(|result| result.verdict()).max() {
        _ if let Some(found) = new_access => {
            let access = name_access_fault(found);
            format!("a check of the bad end finds {access}: --on race names the commit")
        }
        _ if bad_results.into_iter().any(depends_alike) => {
            let advice = match claim {
                Claim::Parent => "an older commit brought it",
                _ => "name a good end that does not",
            };
            format!("{good_end} has the same race or lacks the same barrier: {advice}")
        }
        _ if report.on == On::Failed && has_failed && claim == Claim::Parent => {
            "the parent fails, and it does not: it repairs something".to_owned()
        }
        _ if report.on == On::Failed && has_failed => {
            "the good end fails, and the bad one does not: swap --good and --bad".to_owned()
        }
        _ if report.on == On::Failed => format!(
            "it does not fail: without `--on failed` its outputs are compared with those of {good_end}"
        ),
        _ if report.on == On::Gradient => {
            "its gradients match their loss: `replay gradcheck` shows them in detail".to_owned()
        }
        _ if report.on == On::Race => {
            "its accesses to memory are in order: capture inputs on which the race shows".to_owned()
        }
        _ if report.on == On::Bits => {
            format!("its bits are those of {good_end}: capture inputs on which they differ")
        }
        Some(Verdict::Diverged) if claim == Claim::Named => {
            "it differs, but is no worse than the good end: swap --good and --bad if they are the \
             wrong way round, or search with --on changed"
                .to_owned()
        }
        Some(Verdict::Diverged) => {
            format!("it differs, but is no worse than {good_end}: --on changed asks for any change")
        }
        Some(Verdict::Equivalent | Verdict::Unchecked) => {
            "they differ within noise only: --on bits finds where the bits change".to_owned()
        }
        _ => {
            "on this fixture nothing is wrong there: capture inputs on which the defect shows, or \
              search for races that move no number with --on race"
                .to_owned()
        }
    }
}

/// The defect of both ends: a line for each gradient.
fn shared_lines(claim: Claim, shared_defect: &SharedDefect) -> Vec<ReportLine> {
    let mut lines = Vec::new();
    for (fixture, checks) in &shared_defect.gradients {
        for check in checks {
            let good = ReportLine::with_style(COMMIT, &shared_defect.good.short);
            let line = good.and(format!(", {}, has a defect already: ", claim.good_end()));
            let line = line.and(format!("on {fixture} {} ", check.output));
            lines.push(line.and(render_gradient_line(check)));
        }
    }
    lines
}

/// Advice on a defect of both ends.
fn shared_advice(claim: Claim, shared_defect: &SharedDefect) -> String {
    match &shared_defect.oldest {
        Some(Oldest { commit, is_right: true }) if claim == Claim::Parent => format!(
            "at {older}, the oldest revision that can be tested, it matches: `replay bisect FIXTURE --on \
             gradient --good {older} --bad {}` finds the commit",
            shared_defect.good.short,
            older = commit.short
        ),
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
