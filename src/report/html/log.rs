//! The page of `replay log FIXTURE... RANGE`.

use maud::{Markup, html};

use super::super::captured_by::captured_lines;
use super::super::changes::{NOT_CHECKED, change_lines, leaves_races_open, summary, verdict};
use super::super::judgement::{launch_line, verdict_name};
use super::super::spans::Line;
use super::super::{LogRequest, RunRecord};
use super::history::Graph;
use super::shell::{Head, Mood, badge, document};
use super::table::fixtures_by_commits;
use super::words::{commit, line, list};
use super::{launches, outputs};
use crate::bisect::{Change, Kin, LogReport};
use crate::history::Commit;
use crate::judge::Verdict;

/// The page on the changes of a range.
pub fn log_html(report: &LogReport, request: &LogRequest<'_>, run: &RunRecord) -> String {
    let body = html! {
        (history(report))
        (changes(report))
        (others(report))
    };
    document(&head(report, request), &body, run)
}

fn head(report: &LogReport, request: &LogRequest<'_>) -> Head {
    let worst = report.changes.iter().filter(|change| change.is_worse());
    let worst = worst.map(Change::verdict).max();
    let nothing = report.variants > 0 && report.untested == report.variants;
    let mood = match worst {
        _ if nothing => Mood::Untold,
        Some(worst) => worst.into(),
        None => Mood::Good,
    };
    let verdict = match report.commits {
        0 => "the range has no commits".into(),
        _ => summary(report),
    };
    let notes = captured_lines(&report.captured).into_iter().map(Line::from).collect();
    Head { kind: "replay log", about: request.line(), mood, verdict, notes }
}

/// The commits of the range as a graph.
fn history(report: &LogReport) -> Markup {
    let Some(lineage) = &report.lineage else { return html! {} };
    let words = |kin: &Kin| {
        let own = |commit: &Commit| commit.id == kin.commit.id;
        let changes = report.changes.iter().filter(|change| own(&change.commit));
        let mut words: Vec<String> = changes
            .map(|change| format!("{}: {}", change.fixture, verdict(change).words()))
            .collect();
        let untested = report.untestable.iter().filter(|found| own(&found.commit));
        words.extend(untested.map(|found| format!("{}: {}", found.fixture, found.reason)));
        if words.is_empty() && report.acquitted.iter().any(own) {
            words.push("changes sources and no output".to_owned());
        }
        (!words.is_empty()).then(|| words.join("; "))
    };
    Graph { lineage, culprit: None, anchor: "h", words: &words }.card()
}

/// The changes, those of one fixture beside each other where there are several.
fn changes(report: &LogReport) -> Markup {
    html! {
        @if report.changes.iter().any(|change| change.fixture != report.changes[0].fixture) {
            (who_broke_what(report))
        }
        @for (number, change) in report.changes.iter().enumerate() { (section(number, change)) }
    }
}

/// Fixtures by commits: each cell leads to the change.
fn who_broke_what(report: &LogReport) -> Markup {
    let mut fixtures: Vec<&str> = Vec::new();
    let mut commits: Vec<&Commit> = Vec::new();
    for change in &report.changes {
        if !fixtures.contains(&change.fixture.as_str()) {
            fixtures.push(&change.fixture);
        }
        if commits.iter().all(|known| known.id != change.commit.id) {
            commits.push(&change.commit);
        }
    }
    let of = |fixture: &str, commit: &Commit| {
        let same = |change: &Change| change.fixture == fixture && change.commit.id == commit.id;
        report.changes.iter().position(same)
    };
    let rows = html! {
        @for known in &commits {
            tr {
                th scope="row" { (commit(known)) }
                @for fixture in &fixtures { td { (cell(report, of(fixture, known))) } }
            }
        }
    };
    fixtures_by_commits("Who changed what", &fixtures, &rows)
}

fn cell(report: &LogReport, at: Option<usize>) -> Markup {
    html! {
        @match at {
            Some(at) => {
                @let (mood, word) = standing(&report.changes[at]);
                a href={ "#c" (at) } { (badge(mood, word)) }
            },
            None => span class="dim" { "same" },
        }
    }
}

/// The word for a change, and how good it is.
fn standing(change: &Change) -> (Mood, &'static str) {
    match &change.repair {
        Some(repair) if repair.of_defect => (Mood::Good, "repaired"),
        Some(_) => (Mood::Good, "taken back"),
        None if change.completes() => (Mood::Good, "completes"),
        None if !change.mended.is_empty() => (Mood::Good, "repaired"),
        None => {
            let verdict = change.verdict();
            (verdict.into(), verdict_name(verdict))
        }
    }
}

fn section(number: usize, change: &Change) -> Markup {
    let (mood, word) = standing(change);
    // The launches are told in a table.
    let launches: Vec<String> = change.judgement.launches.iter().map(launch_line).collect();
    let mut lines = change_lines(change);
    lines.retain(|line| !launches.contains(&line.words()));
    html! {
        section class="card" id={ "c" (number) } {
            h2 {
                (commit(&change.commit)) " " (badge(mood, word))
            }
            p class="dim" { (change.fixture) }
            p { (line(&verdict(change))) }
            (list(&lines[1..]))
            @if change.judgement.verdict != Verdict::Untestable {
                @if !change.judgement.launches.is_empty() {
                    h3 { "Launches before and after" }
                    (launches::changes(&change.judgement.launches))
                }
                @if change.repair.is_none() { (outputs::judged(&change.judgement, &change.pictures, &format!("c{number}"))) }
            }
        }
    }
}

/// The commits that changed sources and no output, and those that could not be tested.
fn others(report: &LogReport) -> Markup {
    html! {
        @if !report.acquitted.is_empty() {
            section class="card" {
                h2 { "Changed sources and no output" }
                ul class="lines" {
                    @for known in &report.acquitted {
                        li { (commit(known)) }
                    }
                }
            }
        }
        @if !report.untestable.is_empty() {
            section class="card" {
                h2 { "Could not be tested" }
                ul class="lines" {
                    @for found in &report.untestable {
                        li {
                            (commit(&found.commit))
                            " (" (found.fixture) ")"
                            pre { (found.reason) }
                        }
                    }
                }
            }
        }
        @if let Some((number, reason)) = &report.unchecked {
            p class="note" { "races are not looked for in " (number) " variants: " (reason) }
        }
        @if leaves_races_open(report) {
            p class="note" { (NOT_CHECKED) ": " code { "--check auto" } " looks for them" }
        }
    }
}
