//! The page of `replay log FIXTURE... RANGE`.

use maud::{Markup, html};

use super::super::captured_by::captured_lines;
use super::super::changes::{
    NOT_CHECKED, change_lines, failing_lines, leaves_races_open, render_change_verdict,
    summarise_log,
};
use super::super::judgement::{describe_launch_change, verdict_name};
use super::super::spans::ReportLine;
use super::super::{LogRequest, RunRecord};
use super::history::LineageGraph;
use super::shell::{Mood, PageHead, render_badge, render_page};
use super::table::fixtures_by_commits;
use super::words::{render_commit, render_line, render_line_list};
use super::{launches, outputs};
use replay_bisect::{LogChange, LogReport};
use replay_engine::judge::Verdict;
use replay_history::Commit;

/// The page on the changes of a range.
pub fn log_html(report: &LogReport, request: &LogRequest<'_>, run: &RunRecord) -> String {
    let body = html! {
        (render_log_history(report))
        (render_log_changes(report))
        (render_unchanged_commits(report))
    };
    render_page(&build_log_head(report, request), &body, run)
}

fn build_log_head(report: &LogReport, request: &LogRequest<'_>) -> PageHead {
    let worst = report.changes.iter().filter(|change| change.is_worse());
    let worst = worst.map(LogChange::verdict).max();
    let nothing = report.variants > 0 && report.untested == report.variants;
    let mood = match worst {
        _ if nothing => Mood::Untold,
        Some(worst) => worst.into(),
        None if !report.failing.is_empty() => Verdict::Failed.into(),
        None => Mood::Good,
    };
    let verdict = match report.commits {
        0 => "the range has no commits".into(),
        _ => summarise_log(report),
    };
    let notes = captured_lines(&report.captured).into_iter().map(ReportLine::from).collect();
    PageHead { kind: "replay log", about: request.line(), mood, verdict, notes }
}

/// The commits of the range as a graph.
fn render_log_history(report: &LogReport) -> Markup {
    let Some(lineage) = &report.lineage else { return html! {} };
    LineageGraph {
        lineage,
        culprit: None,
        anchor: "h",
        words: &|kin| describe_logged_commit(report, &kin.commit),
    }
    .card()
}

/// The words of the log on `commit`, if there are some.
fn describe_logged_commit(report: &LogReport, commit: &Commit) -> Option<String> {
    let mut words = Vec::new();
    for change in report.changes.iter().filter(|change| change.commit.id == commit.id) {
        words.push(format!("{}: {}", change.fixture, render_change_verdict(change).words()));
    }
    for untested in report.untestable.iter().filter(|untested| untested.commit.id == commit.id) {
        words.push(format!("{}: {}", untested.fixture, untested.reason));
    }
    if words.is_empty() && report.acquitted.iter().any(|acquitted| acquitted.id == commit.id) {
        words.push("changes sources and no output".to_owned());
    }
    if words.is_empty() { None } else { Some(words.join("; ")) }
}

/// The changes, those of one fixture beside each other where there are several.
fn render_log_changes(report: &LogReport) -> Markup {
    html! {
        @if report.changes.iter().any(|change| change.fixture != report.changes[0].fixture) {
            (render_changes_matrix(report))
        }
        @for (number, change) in report.changes.iter().enumerate() { (render_change_section(number, change)) }
    }
}

/// Fixtures by commits: each cell leads to the change.
fn render_changes_matrix(report: &LogReport) -> Markup {
    let mut fixtures: Vec<&str> = Vec::new();
    let mut commits: Vec<&Commit> = Vec::new();
    for change in &report.changes {
        if !fixtures.contains(&change.fixture.as_str()) {
            fixtures.push(&change.fixture);
        }
        if commits.iter().all(|listed_commit| listed_commit.id != change.commit.id) {
            commits.push(&change.commit);
        }
    }
    let rows = html! {
        @for known in &commits {
            tr {
                th scope="row" { (render_commit(known)) }
                @for fixture in &fixtures { td { (render_change_cell(report, find_change(report, fixture, known))) } }
            }
        }
    };
    fixtures_by_commits("Who changed what", &fixtures, &rows)
}

/// The place of the change of `commit` on `fixture`.
fn find_change(report: &LogReport, fixture: &str, commit: &Commit) -> Option<usize> {
    let mut changes = report.changes.iter();
    changes.position(|change| change.fixture == fixture && change.commit.id == commit.id)
}

fn render_change_cell(report: &LogReport, at: Option<usize>) -> Markup {
    html! {
        @match at {
            Some(at) => {
                @let (mood, word) = rate_change(&report.changes[at]);
                a href={ "#c" (at) } { (render_badge(mood, word)) }
            },
            None => span class="dim" { "same" },
        }
    }
}

/// The word for a change, and how good it is.
fn rate_change(change: &LogChange) -> (Mood, &'static str) {
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

fn render_change_section(number: usize, change: &LogChange) -> Markup {
    let (mood, word) = rate_change(change);
    // The launches are told in a table.
    let launches: Vec<String> =
        change.judgement.launches.iter().map(describe_launch_change).collect();
    let mut lines = change_lines(change);
    lines.retain(|line| !launches.contains(&line.words()));
    html! {
        section class="card" id={ "c" (number) } {
            h2 {
                (render_commit(&change.commit)) " " (render_badge(mood, word))
            }
            p class="dim" { (change.fixture) }
            p { (render_line(&render_change_verdict(change))) }
            (render_line_list(&lines[1..]))
            @if change.judgement.verdict != Verdict::Untestable {
                @if !change.judgement.launches.is_empty() {
                    h3 { "Launches before and after" }
                    (launches::render_launch_changes(&change.judgement.launches))
                }
                @if change.repair.is_none() { (outputs::render_output_comparison(&change.judgement, &change.pictures, &format!("c{number}"))) }
            }
        }
    }
}

/// The commits with changed sources and no changed output, and the untestable ones.
fn render_unchanged_commits(report: &LogReport) -> Markup {
    html! {
        @if !report.acquitted.is_empty() {
            section class="card" {
                h2 { "Changed sources and no output" }
                ul class="lines" {
                    @for known in &report.acquitted {
                        li {
                            (render_commit(known))
                            @for line in failing_lines(report, known) { pre { (line) } }
                        }
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
                            (render_commit(&found.commit))
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
