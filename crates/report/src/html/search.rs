//! The page of `replay bisect FIXTURE...`.

use maud::{Markup, html};

use super::super::RunRecord;
use super::super::bisect::{
    Origin, SearchRequest, answer_name, list_truth_lines, observation_line, render_bisect_text,
    render_search_headline, render_search_warnings,
};
use super::super::both::{list_corner_hints, render_both_headline};
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
use replay_bisect::{BothReport, Corners, Culprit, Observation, SearchEnd, SearchReport, Tested};
use replay_history::Commit;
use replay_search::{Conclusion, TestAnswer};

/// The page on a search.
pub fn bisect_html(report: &SearchReport, request: &SearchRequest<'_>, run: &RunRecord) -> String {
    let body = render_search_body(report, "");
    render_page(&build_search_head(report, request), &body, run)
}

/// The page on a search between ends that are commits in environments.
pub fn both_html(report: &BothReport, request: &SearchRequest<'_>, run: &RunRecord) -> String {
    let (corners, searches) = match report {
        BothReport::Refused(refused) => return bisect_html(refused, request, run),
        BothReport::Searched { corners, searches } => (corners, searches),
    };
    let body = html! {
        @if let Some(corners) = corners {
            (render_corners(corners))
        }
        @for (number, search) in searches.iter().enumerate() {
            section class="card" {
                h2 { (search.place) }
                p { (render_search_headline(&search.report).words()) }
                @for line in render_search_warnings(&search.report) {
                    p class="dim" { (line.words()) }
                }
            }
            (render_search_body(&search.report, &format!("s{number}-")))
        }
    };
    let head = PageHead {
        kind: "replay bisect",
        about: request.line(),
        mood: choose_mood(report.ending()),
        verdict: render_both_headline(report),
        notes: {
            let corners = corners.as_deref().into_iter();
            corners.flat_map(list_corner_hints).map(ReportLine::from).collect()
        },
    };
    render_page(&head, &body, run)
}

/// The pairs of two commits and two environments.
fn render_corners(corners: &Corners) -> Markup {
    let Corners { good, bad, code, environment, .. } = corners;
    let rows = html! {
        @for pair in [good, bad, code, environment] {
            tr {
                th scope="row" { (render_commit(&pair.commit)) }
                td { (render_badge(answer_mood(pair.answer), answer_name(pair.answer))) }
                td { (pair.seen.as_ref().map(observation_line).unwrap_or_default()) }
            }
        }
    };
    html! {
        section class="card" {
            h2 { "Where it lies" }
            (render_table("tests", &["commit and environment", "answer", "what was seen"], &rows))
        }
    }
}

/// What a search has found, and its tests. The names of places on the page begin with `anchor`.
fn render_search_body(report: &SearchReport, anchor: &str) -> Markup {
    html! {
        (render_search_history(report, anchor))
        @match &report.culprit {
            Some(culprit) => (render_conviction(report, culprit, anchor)),
            None => section class="card" {
                h2 { "Why no commit is named" }
                pre { (render_bisect_text(report).words().join("\n")) }
            },
        }
        (render_tests_matrix(report, anchor))
        (render_tests_table(report, anchor))
    }
}

/// The commits between the ends as a graph.
fn render_search_history(report: &SearchReport, anchor: &str) -> Markup {
    let Some(lineage) = &report.lineage else { return html! {} };
    let culprit = report.culprit.as_ref().and_then(|culprit| report.commit(culprit.commit));
    let culprit = culprit.map(|commit| commit.id);
    let anchor = &format!("{anchor}h");
    LineageGraph { lineage, culprit, anchor, words: &|_| None }.card()
}

fn build_search_head(report: &SearchReport, request: &SearchRequest<'_>) -> PageHead {
    let mood = choose_mood(report.ending());
    let mut notes: Vec<ReportLine> =
        list_truth_lines(report).into_iter().map(ReportLine::from).collect();
    if let Conclusion::Probable { probability, .. } = report.conclusion {
        let percent = (100.0 * probability).min(99.99);
        notes.push(ReportLine::from(format!(
            "with a probability of {percent:.2} %: verdicts are not always the same"
        )));
    }
    notes.extend(request.origin.as_ref().map(Origin::line));
    notes.extend(render_search_warnings(report));
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

/// How a page looks at its first glance.
fn choose_mood(ending: SearchEnd) -> Mood {
    match ending {
        SearchEnd::Found => Mood::Bad,
        SearchEnd::Ambiguous => Mood::Caution,
        SearchEnd::Refused => Mood::Untold,
    }
}

/// The evidence against the culprit, fixture by fixture.
fn render_conviction(report: &SearchReport, culprit: &Culprit, anchor: &str) -> Markup {
    html! {
        @for (number, observation) in culprit.seen.observations.iter().enumerate() {
            (render_evidence(&format!("{anchor}f{number}"), number == 0, observation, culprit))
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

/// The evidence of one fixture, at `place` on the page.
fn render_evidence(
    place: &str,
    is_first: bool,
    observation: &Observation,
    culprit: &Culprit,
) -> Markup {
    let verdict = observation.verdict;
    let alone = replay_bisect::Seen { observations: vec![observation.clone()] };
    let pictures = culprit.pictures.iter().find(|(fixture, _)| *fixture == observation.fixture);
    let pictures = pictures.map_or(&[][..], |(_, pictures)| pictures);
    let accesses = culprit.accesses.iter().find(|(fixture, _)| *fixture == observation.fixture);
    html! {
        section class="card" id=(place) {
            h2 { (observation.fixture) " " (render_badge(verdict.into(), verdict_name(verdict))) }
            p { (observation_line(&alone)) }
            @if is_first && !culprit.launches.is_empty() {
                h3 { "Launches before and after" }
                (launches::render_launch_changes(&culprit.launches))
            }
            @if let Some(judged) = &observation.judgement {
                (outputs::render_output_comparison(judged, pictures, place))
            }
            (findings::render_access_findings(accesses.map(|(_, found)| found)))
        }
    }
}

fn render_known_commit(known: Option<&Commit>) -> Markup {
    html! { @if let Some(known) = known { (render_commit(known)) } }
}

/// Fixtures by tested commits, where there are several fixtures.
fn render_tests_matrix(report: &SearchReport, anchor: &str) -> Markup {
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
                    td { (render_test_cell(one, seen, (anchor, number), culprit)) }
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
    (anchor, number): (&str, usize),
    culprit: Option<u32>,
) -> Markup {
    let place = if Some(tested.commit) == culprit {
        format!("#{anchor}f{number}")
    } else {
        format!("#{anchor}t{}", tested.commit)
    };
    html! { a href=(place) { (render_badge(seen.verdict.into(), verdict_name(seen.verdict))) } }
}

/// The tests, in the order of their answers.
fn render_tests_table(report: &SearchReport, anchor: &str) -> Markup {
    let rows = html! {
        @for (number, one) in report.tested.iter().enumerate() {
            tr id={ (anchor) "t" (one.commit) } {
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
