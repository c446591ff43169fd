//! The page of `replay bisect FIXTURE...`.

use maud::{Markup, html};

use super::super::RunRecord;
use super::super::bisect::{
    Origin, SearchRequest, answer_name, list_truth_lines, observation_line, render_bisect_text,
    render_search_headline,
};
use super::super::hunks::{describe_hunks, render_hunk_code};
use super::super::judgement::verdict_name;
use super::super::numbers::format_noun_count;
use super::super::spans::ReportLine;
use super::diff::render_source_diff;
use super::findings;
use super::history::LineageGraph;
use super::shell::{Mood, PageHead, render_badge, render_page};
use super::table::{fixtures_by_commits, render_table};
use super::words::render_commit;
use super::{launches, outputs};
use replay_bisect::{Culprit, Observation, SearchEnd, SearchReport, Tested};
use replay_history::Commit;
use replay_search::{Conclusion, TestAnswer};

/// The page on a search.
pub fn bisect_html(report: &SearchReport, request: &SearchRequest<'_>, run: &RunRecord) -> String {
    let body = html! {
        (render_search_history(report))
        @match &report.culprit {
            Some(culprit) => (render_conviction(report, culprit)),
            None => section class="card" {
                h2 { "Why no commit is named" }
                pre { (render_bisect_text(report).words().join("\n")) }
            },
        }
        (render_tests_matrix(report))
        (render_tests_table(report))
    };
    render_page(&build_search_head(report, request), &body, run)
}

/// The commits between the ends as a graph.
fn render_search_history(report: &SearchReport) -> Markup {
    let Some(lineage) = &report.lineage else { return html! {} };
    let culprit = report.culprit.as_ref().and_then(|culprit| report.commit(culprit.commit));
    let culprit = culprit.map(|commit| commit.id);
    LineageGraph { lineage, culprit, anchor: "h", words: &|_| None }.card()
}

fn build_search_head(report: &SearchReport, request: &SearchRequest<'_>) -> PageHead {
    let mood = match report.ending() {
        SearchEnd::Found => Mood::Bad,
        SearchEnd::Ambiguous => Mood::Caution,
        SearchEnd::Refused => Mood::Untold,
    };
    let mut notes: Vec<ReportLine> =
        list_truth_lines(report).into_iter().map(ReportLine::from).collect();
    if let Conclusion::Probable { probability, .. } = report.conclusion {
        let percent = (100.0 * probability).min(99.99);
        notes.push(ReportLine::from(format!(
            "with a probability of {percent:.2} %: verdicts are not always the same"
        )));
    }
    notes.extend(request.origin.as_ref().map(Origin::line));
    notes.extend(super::super::bisect::render_search_warnings(report));
    let noun = if report.axis.is_some() { "environment" } else { "commit" };
    let tested = format_noun_count(report.tested.len() as u64, noun);
    let about = request.line().and(format!(", {tested} tested"));
    // A refusal has its reason in the same line.
    let verdict = match (&report.culprit, render_bisect_text(report).words().into_iter().next()) {
        (None, Some(first)) => first.trim_end_matches(':').into(),
        _ => render_search_headline(report),
    };
    PageHead { kind: "replay bisect", about, mood, verdict, notes }
}

/// The evidence against the culprit, fixture by fixture.
fn render_conviction(report: &SearchReport, culprit: &Culprit) -> Markup {
    html! {
        @for (number, observation) in culprit.seen.observations.iter().enumerate() {
            (render_evidence(number, observation, culprit))
        }
        (render_hunks(report))
        @if !culprit.diff.is_empty() {
            section class="card" {
                h2 { "What " (render_known_commit(report.commit(culprit.commit))) " changed" }
                (render_source_diff(&culprit.diff))
            }
        }
    }
}

/// Which hunks carry the defect, where it was asked.
fn render_hunks(report: &SearchReport) -> Markup {
    let lines = describe_hunks(report);
    let code = render_hunk_code(report).words();
    html! {
        @if !lines.is_empty() {
            section class="card" {
                h2 { "Which hunk" }
                @for line in &lines {
                    p { (line.words().trim()) }
                }
                @if !code.is_empty() {
                    pre { (code.join("\n").trim_start()) }
                }
            }
        }
    }
}

fn render_evidence(number: usize, observation: &Observation, culprit: &Culprit) -> Markup {
    let verdict = observation.verdict;
    let alone = replay_bisect::Seen { observations: vec![observation.clone()] };
    let pictures = culprit.pictures.iter().find(|(fixture, _)| *fixture == observation.fixture);
    let pictures = pictures.map_or(&[][..], |(_, pictures)| pictures);
    let accesses = culprit.accesses.iter().find(|(fixture, _)| *fixture == observation.fixture);
    html! {
        section class="card" id={ "f" (number) } {
            h2 { (observation.fixture) " " (render_badge(verdict.into(), verdict_name(verdict))) }
            p { (observation_line(&alone)) }
            @if number == 0 && !culprit.launches.is_empty() {
                h3 { "Launches before and after" }
                (launches::render_launch_changes(&culprit.launches))
            }
            @if let Some(judged) = &observation.judgement {
                (outputs::render_output_comparison(judged, pictures, &format!("f{number}")))
            }
            (findings::render_access_findings(accesses.map(|(_, found)| found)))
        }
    }
}

fn render_known_commit(known: Option<&Commit>) -> Markup {
    html! { @if let Some(known) = known { (render_commit(known)) } }
}

/// Fixtures by tested commits, where there are several fixtures.
fn render_tests_matrix(report: &SearchReport) -> Markup {
    let mut test_results =
        report.tested.iter().filter_map(|tested| report.test_result(tested.commit));
    let Some(first) = test_results.find(|test_result| test_result.observations.len() > 1) else {
        return html! {};
    };
    let fixtures: Vec<&str> =
        first.observations.iter().map(|observation| observation.fixture.as_str()).collect();
    let culprit = report.culprit.as_ref().map(|culprit| culprit.commit);
    let rows = html! {
        @for one in &report.tested {
            tr class=[(Some(one.commit) == culprit).then_some("culprit")] {
                th scope="row" { (render_known_commit(report.commit(one.commit))) }
                @for (number, seen) in
                    report.test_result(one.commit).iter().flat_map(|s| &s.observations).enumerate()
                {
                    td { (render_test_cell(one, seen, number, culprit)) }
                }
            }
        }
    };
    fixtures_by_commits("Who broke what", &fixtures, &rows)
}

/// The answer of a commit on one fixture; leads to the evidence, or to its row of the table of tests.
fn render_test_cell(
    tested: &Tested,
    seen: &Observation,
    number: usize,
    culprit: Option<u32>,
) -> Markup {
    let place = if Some(tested.commit) == culprit {
        format!("#f{number}")
    } else {
        format!("#t{}", tested.commit)
    };
    html! { a href=(place) { (render_badge(seen.verdict.into(), verdict_name(seen.verdict))) } }
}

/// The tests, in the order of their answers.
fn render_tests_table(report: &SearchReport) -> Markup {
    let rows = html! {
        @for (number, one) in report.tested.iter().enumerate() {
            tr id={ "t" (one.commit) } {
                td class="number" { (number + 1) }
                th scope="row" { (render_known_commit(report.commit(one.commit))) }
                td { (render_badge(answer_mood(one.answer), answer_name(one.answer))) }
                td { (report.test_result(one.commit).map(observation_line).unwrap_or_default()) }
            }
        }
    };
    html! {
        @if !report.tested.is_empty() {
            section class="card" {
                h2 { "Tests" }
                (render_table("tests", &["#", "commit", "answer", "what was seen"], &rows))
            }
        }
    }
}

/// How good an answer is.
pub(super) fn answer_mood(answer: TestAnswer) -> Mood {
    match answer {
        TestAnswer::Good => Mood::Good,
        TestAnswer::Bad => Mood::Bad,
        TestAnswer::Skip => Mood::Untold,
        TestAnswer::Other => Mood::Caution,
    }
}
