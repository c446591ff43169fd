//! The answer of a search, for people and as events for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use super::judgement::{
    ORDER, launch_line, output_lines, verdict_line, verdict_name, verdict_style,
};
use super::log;
use super::numbers::count;
use super::refusal::{Claim, refusal_words, refused};
use super::style::{BOLD, COMMIT, DIM, GREEN, RED, YELLOW};
use super::text::failure;
use super::{Blame, Revision, SCHEMA};
use crate::bisect::{Answer, Conclusion, Warning};
use crate::history::Commit;
use crate::hunt::{Culprit, Event, Report, Seen, Sight, Tested};
use crate::judge::{Judgement, Verdict};
use crate::replay::Status;

/// The word for an answer.
pub fn answer_name(answer: Answer) -> &'static str {
    match answer {
        Answer::Good => "good",
        Answer::Bad => "bad",
        Answer::Skip => "untestable",
        Answer::Other => "fails otherwise",
    }
}

/// What a test showed, in a line.
pub fn sight_line(seen: &Seen) -> String {
    let several = seen.sights.len() > 1;
    let one = |sight: &Sight| {
        let name = if several { format!("{}: ", sight.fixture) } else { String::new() };
        let what = sight_words(sight);
        match sight.ordered_alike.first() {
            Some(output) => format!("{name}{what}; {output} {ORDER}, as at the good end"),
            None => format!("{name}{what}"),
        }
    };
    seen.sights.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn sight_words(sight: &Sight) -> String {
    if let Some(reason) = &sight.untestable {
        return format!("untestable: {reason}");
    }
    let status = sight.outcome.as_ref().map(|outcome| &outcome.status);
    if let Some(Status::Failed(failures)) = status {
        return format!("failed: {}", failures.first().map(failure).unwrap_or_default());
    }
    if let Some(comparison) = &sight.recorded {
        return comparison.sentence();
    }
    match &sight.judgement {
        Some(judgement) => anstream::adapter::strip_str(&verdict_line(judgement)).to_string(),
        None if sight.symptoms.is_empty()
            && sight.verdict == Verdict::Equivalent
            && !sight.compared =>
        {
            "completed".to_owned()
        }
        None if sight.symptoms.is_empty() => verdict_name(sight.verdict).to_owned(),
        None => {
            let symptoms: Vec<String> = sight.symptoms.iter().map(ToString::to_string).collect();
            symptoms.join(", ")
        }
    }
}

/// A test that has its answer, in a line.
pub fn tested_line(commit: &Commit, answer: Answer, seen: &Seen) -> String {
    let style = match answer {
        Answer::Good => GREEN,
        Answer::Bad => RED,
        Answer::Skip | Answer::Other => YELLOW,
    };
    let (name, line) = (answer_name(answer), sight_line(seen));
    let line = match answer {
        Answer::Skip => line.strip_prefix("untestable: ").unwrap_or(&line).to_owned(),
        _ => line,
    };
    format!("{COMMIT}{}{COMMIT:#} {style}{name}{style:#}: {line}", commit.short)
}

/// The answer in short, where the ends are the two sides of a comparison.
pub fn blame(report: &Report) -> Blame {
    let commit = report.culprit.as_ref().and_then(|culprit| report.commit(culprit.commit));
    if let Conclusion::Refused(refusal) = &report.conclusion {
        let (what, _) = refusal_words(report, refusal, Claim::Compared);
        let text = format!("no commit can be named: {}", what.join("; "));
        return Blame { commit: None, text: anstream::adapter::strip_str(&text).to_string() };
    }
    let whole = anstream::adapter::strip_str(&bisect(report)).to_string();
    let text = whole.lines().next().unwrap_or_default().trim_end_matches(':').to_owned();
    Blame { commit: commit.cloned().map(Revision::from), text }
}

/// The whole answer.
pub fn bisect(report: &Report) -> String {
    let mut out = String::new();
    match (&report.conclusion, &report.culprit) {
        (Conclusion::Found { unconfirmed_parents, .. }, Some(culprit)) => {
            convicted(&mut out, report, culprit, None);
            for &parent in unconfirmed_parents {
                let parent = shown(report, parent);
                let _ = writeln!(
                    out,
                    "  its parent {parent} could not be tested, and is good only if every defect stays"
                );
            }
            rest(&mut out, report, culprit);
        }
        (Conclusion::Probable { probability, .. }, Some(culprit)) => {
            convicted(&mut out, report, culprit, Some(*probability));
            rest(&mut out, report, culprit);
        }
        (Conclusion::Hidden { candidates }, _) => hidden(&mut out, report, candidates),
        (Conclusion::NotMonotone { commit, bad_parents }, _) => {
            not_monotone(&mut out, report, *commit, bad_parents);
        }
        (Conclusion::Refused(refusal), _) => out += &refused(report, refusal),
        _ => {}
    }
    for warning in &report.warnings {
        let _ = writeln!(out, "{YELLOW}note:{YELLOW:#} {}", warning_words(report, warning));
    }
    out
}

fn convicted(out: &mut String, report: &Report, culprit: &Culprit, probability: Option<f64>) {
    let Some(commit) = report.commit(culprit.commit) else { return };
    let _ = writeln!(
        out,
        "{COMMIT}{}{COMMIT:#} is {BOLD}the first bad commit{BOLD:#}: {}",
        commit.short, commit.subject
    );
    if let Some(probability) = probability {
        let tests = count(report.tested.len() as u64, "test");
        let _ = writeln!(
            out,
            "  with a probability of {:.2} %, after {tests} whose verdicts are not always the same",
            (100.0 * probability).min(99.99)
        );
    }
    let several = culprit.seen.sights.len() > 1;
    for sight in &culprit.seen.sights {
        if several {
            let _ = writeln!(out, "  {BOLD}{}{BOLD:#}", sight.fixture);
        }
        evidence(out, sight);
    }
}

/// What one fixture says about the culprit.
fn evidence(out: &mut String, sight: &Sight) {
    match &sight.judgement {
        Some(judgement) if !judgement.outputs.is_empty() => judged(out, judgement),
        _ => {
            let style = verdict_style(sight.verdict);
            let _ = writeln!(out, "  {style}{}{style:#}", sight_words(sight));
        }
    }
}

fn judged(out: &mut String, judgement: &Judgement) {
    if let Status::Failed(failures) = &judgement.got.status {
        for found in failures {
            let _ = writeln!(out, "  {RED}failed{RED:#}: {}", failure(found));
        }
    }
    let worse = judgement.outputs.iter().filter(|output| output.verdict == Verdict::Diverged);
    for output in worse {
        // The picture of where belongs to `replay diff`.
        let lines = output_lines(output).into_iter().filter(|line| !line.contains('|'));
        for (number, line) in lines.enumerate() {
            let name = if number == 0 { output.name.as_str() } else { "" };
            let _ = writeln!(out, "  {BOLD}{name:0$}{BOLD:#} {line}", output.name.len());
        }
    }
}

fn rest(out: &mut String, report: &Report, culprit: &Culprit) {
    for &parent in &culprit.parents {
        if let (Some(seen), Some(commit)) = (report.seen(parent), report.commit(parent)) {
            let words = acquittal(seen);
            let _ = writeln!(
                out,
                "  {COMMIT}{}{COMMIT:#}, its parent, was tested: {words}",
                commit.short
            );
        }
    }
    for &innocent in &culprit.acquitted {
        if let (Some(seen), Some(commit)) = (report.seen(innocent), report.commit(innocent))
            && !culprit.parents.contains(&innocent)
        {
            let words = acquittal(seen);
            let _ = writeln!(
                out,
                "  {COMMIT}{}{COMMIT:#} was tested: {words} {DIM}({}){DIM:#}",
                commit.short, commit.subject
            );
        }
    }
    for change in &culprit.launches {
        let _ = writeln!(out, "  {}", launch_line(change));
    }
    if !culprit.diff.is_empty() {
        out.push('\n');
        out.push_str(&coloured(&culprit.diff));
    }
}

/// The verdict on an innocent commit.
pub(super) fn acquittal(seen: &Seen) -> String {
    let verdict = seen.verdict();
    match seen.sights.as_slice() {
        [sight] if sight.untestable.is_none() && verdict <= Verdict::Equivalent => {
            match !sight.compared && verdict == Verdict::Equivalent {
                true => "completed".to_owned(),
                false => verdict_name(verdict).to_owned(),
            }
        }
        _ => sight_line(seen),
    }
}

/// A unified diff in git's colours.
fn coloured(diff: &str) -> String {
    let mut out = String::new();
    for line in diff.lines() {
        let style = match line.as_bytes().first() {
            _ if line.starts_with("+++") || line.starts_with("---") => BOLD,
            Some(b'+') => GREEN,
            Some(b'-') => RED,
            Some(b'@') => COMMIT,
            Some(b' ') | None => {
                let _ = writeln!(out, "{line}");
                continue;
            }
            _ => BOLD,
        };
        let _ = writeln!(out, "{style}{line}{style:#}");
    }
    out
}

pub(super) fn shown(report: &Report, commit: u32) -> String {
    match report.commit(commit) {
        Some(commit) => format!("{COMMIT}{}{COMMIT:#}", commit.short),
        None => format!("commit #{commit}"),
    }
}

fn hidden(out: &mut String, report: &Report, candidates: &[u32]) {
    let other = |&&commit: &&u32| {
        let tested = |tested: &&Tested| tested.commit == commit && tested.answer == Answer::Other;
        report.tested.iter().any(|one| tested(&one))
    };
    let other = candidates.iter().find(other);
    let why = match other {
        Some(_) => "commits that are neither good nor bad hide",
        None => "untestable commits hide",
    };
    let _ = writeln!(
        out,
        "{why} the first bad commit; it is {BOLD}one of these {}{BOLD:#}:",
        candidates.len()
    );
    for &candidate in candidates {
        let Some(commit) = report.commit(candidate) else { continue };
        let _ = writeln!(out, "  {COMMIT}{}{COMMIT:#} {}", commit.short, commit.subject);
        let seen = report.seen(candidate).map(sight_line);
        let words = seen.unwrap_or_else(|| "was not tested".to_owned());
        let _ = writeln!(out, "    {DIM}{words}{DIM:#}");
    }
    if let Some(&other) = other {
        let wanted: Vec<String> = report.wanted.iter().map(ToString::to_string).collect();
        let _ = writeln!(
            out,
            "{DIM}hint:{DIM:#} the search was for what the bad end shows ({}); for the other, name {} \
             as bad",
            wanted.join(", "),
            shown(report, other)
        );
    }
}

fn not_monotone(out: &mut String, report: &Report, commit: u32, bad_parents: &[u32]) {
    let parents: Vec<String> = bad_parents.iter().map(|&parent| shown(report, parent)).collect();
    let _ = writeln!(
        out,
        "{BOLD}no single commit is to blame{BOLD:#}: good turns bad more than once between the \
         ends"
    );
    if parents.is_empty() {
        let _ = writeln!(out, "  the search ended at {}", shown(report, commit));
    } else {
        let parents = parents.join(", ");
        let _ = writeln!(
            out,
            "  the search ended at {}, whose parent {parents} is bad too",
            shown(report, commit)
        );
    }
    if let Some(found) = &report.log {
        out.push('\n');
        out.push_str(&log::log(found));
    }
}

fn warning_words(report: &Report, warning: &Warning) -> String {
    match *warning {
        Warning::UntestableMergeBase { base } => format!(
            "{} is a common ancestor of the ends and could not be tested; it is taken to be good",
            shown(report, base)
        ),
        Warning::Contradiction { commit } => {
            format!("{} was once good and once bad", shown(report, commit))
        }
        Warning::Unexplained { bad } => format!(
            "{} does not contain this commit: it is bad for another reason",
            shown(report, bad)
        ),
    }
}

/// What stands for the good side of a search that compares with snapshots, and the commits that it
/// goes back to, as one line of JSON.
pub fn recorded_json(snapshots: &str, back_to: &[Commit]) -> Value {
    let back_to: Vec<Revision> = back_to.iter().cloned().map(Revision::from).collect();
    json!({ "schema": SCHEMA, "event": "recorded", "good": snapshots, "back_to": back_to })
}

/// An event of a search, as one line of JSON.
pub fn event_json(event: &Event) -> Value {
    match event {
        Event::Planned { commits, candidates, jobs } => json!({
            "schema": SCHEMA, "event": "planned",
            "commits": commits, "candidates": candidates, "jobs": jobs,
        }),
        Event::Started { commit, state } => json!({
            "event": "started", "commit": Revision::from((*commit).clone()),
            "candidates_left": state.candidates, "rounds_left": state.rounds,
        }),
        Event::Tested { commit, answer, seen, state } => json!({
            "event": "tested", "commit": Revision::from((*commit).clone()),
            "answer": answer_name(*answer), "text": sight_line(seen), "fixtures": sights(seen),
            "candidates_left": state.candidates, "rounds_left": state.rounds,
        }),
        Event::Flaky { commit } => {
            json!({ "event": "flaky", "commit": Revision::from((*commit).clone()) })
        }
    }
}

fn sights(seen: &Seen) -> Vec<Value> {
    let one = |sight: &Sight| {
        json!({
            "fixture": sight.fixture,
            "verdict": sight.verdict,
            "symptoms": sight.symptoms,
            "untestable": sight.untestable,
        })
    };
    seen.sights.iter().map(one).collect()
}

/// The answer of a search, as one line of JSON.
pub fn bisect_json(report: &Report) -> Value {
    let revision = |commit: u32| report.commit(commit).cloned().map(Revision::from);
    let list = |commits: &[u32]| commits.iter().map(|&c| revision(c)).collect::<Vec<_>>();
    let (name, details) = match &report.conclusion {
        Conclusion::Found { unconfirmed_parents, .. } => {
            ("found", json!({ "unconfirmed_parents": list(unconfirmed_parents) }))
        }
        Conclusion::Probable { probability, .. } => {
            ("probable", json!({ "probability": probability }))
        }
        Conclusion::Hidden { candidates } => {
            let reasons: Vec<Value> = candidates
                .iter()
                .map(|&c| json!({ "commit": revision(c), "text": report.seen(c).map(sight_line) }))
                .collect();
            ("hidden", json!({ "candidates": reasons }))
        }
        Conclusion::NotMonotone { commit, bad_parents } => (
            "not_monotone",
            json!({
                "commit": revision(*commit),
                "bad_parents": list(bad_parents),
                "log": report.log.as_ref().map(log::log_json),
            }),
        ),
        Conclusion::Refused(refusal) => {
            let text = refused(report, refusal);
            ("refused", json!({ "text": anstream::adapter::strip_str(&text).to_string() }))
        }
    };
    let warnings: Vec<String> = report
        .warnings
        .iter()
        .map(|w| anstream::adapter::strip_str(&warning_words(report, w)).to_string())
        .collect();
    let mut value = json!({
        "schema": SCHEMA, "event": "concluded", "conclusion": name,
        "tested": report.tested.len(), "wanted": report.wanted, "flaky": report.flaky,
        "warnings": warnings, "culprit": report.culprit.as_ref().map(|c| culprit_json(report, c)),
    });
    if let (Some(value), Value::Object(details)) = (value.as_object_mut(), details) {
        value.extend(details);
    }
    value
}

fn culprit_json(report: &Report, culprit: &Culprit) -> Value {
    let tested = |commit: &u32| {
        json!({
            "commit": report.commit(*commit).cloned().map(Revision::from),
            "verdict": report.seen(*commit).map(Seen::verdict),
            "text": report.seen(*commit).map(sight_line),
        })
    };
    let judgements: Vec<Value> = culprit
        .seen
        .sights
        .iter()
        .map(|sight| {
            json!({
                "fixture": sight.fixture,
                "verdict": sight.verdict,
                "symptoms": sight.symptoms,
                "status": sight.outcome.as_ref().map(|outcome| &outcome.status),
                "outputs": sight.judgement.as_ref().map(|judgement| &judgement.outputs),
            })
        })
        .collect();
    json!({
        "commit": report.commit(culprit.commit).cloned().map(Revision::from),
        "fixtures": judgements,
        "launches_changed": culprit.launches,
        "parents": culprit.parents.iter().map(tested).collect::<Vec<_>>(),
        "acquitted": culprit.acquitted.iter().map(tested).collect::<Vec<_>>(),
        "diff": culprit.diff,
    })
}
