//! The page of `replay bisect FIXTURE...`.

use maud::{Markup, html};

use super::super::RunRecord;
use super::super::bisect::{
    Origin, SearchRequest, answer_name, bisect, headline, observation_line,
};
use super::super::judgement::verdict_name;
use super::super::numbers::count;
use super::super::spans::Line;
use super::diff::diff;
use super::findings;
use super::history::Graph;
use super::shell::{Head, Mood, badge, document};
use super::table::{fixtures_by_commits, table};
use super::words::commit;
use super::{launches, outputs};
use crate::bisect::{Culprit, Observation, Report, SearchEnd, Tested};
use crate::history::Commit;
use crate::search::{Answer, Conclusion};

/// The page on a search.
pub fn bisect_html(report: &Report, request: &SearchRequest<'_>, run: &RunRecord) -> String {
    let body = html! {
        (history(report))
        @match &report.culprit {
            Some(culprit) => (convicted(report, culprit)),
            None => section class="card" {
                h2 { "Why no commit is named" }
                pre { (bisect(report).words().join("\n")) }
            },
        }
        (who_broke_what(report))
        (tested(report))
    };
    document(&head(report, request), &body, run)
}

/// The commits between the ends as a graph.
fn history(report: &Report) -> Markup {
    let Some(lineage) = &report.lineage else { return html! {} };
    let culprit = report.culprit.as_ref().and_then(|culprit| report.commit(culprit.commit));
    let culprit = culprit.map(|commit| commit.id);
    Graph { lineage, culprit, anchor: "h", words: &|_| None }.card()
}

fn head(report: &Report, request: &SearchRequest<'_>) -> Head {
    let mood = match report.ending() {
        SearchEnd::Found => Mood::Bad,
        SearchEnd::Hidden => Mood::Caution,
        SearchEnd::Refused => Mood::Untold,
    };
    let mut notes = Vec::new();
    if let Conclusion::Probable { probability, .. } = report.conclusion {
        let percent = (100.0 * probability).min(99.99);
        notes.push(Line::from(format!(
            "with a probability of {percent:.2} %: verdicts are not always the same"
        )));
    }
    notes.extend(request.origin.as_ref().map(Origin::line));
    notes.extend(super::super::bisect::warnings(report));
    let tested = count(report.tested.len() as u64, "commit");
    let about = request.line().and(format!(", {tested} tested"));
    // A refusal has its reason in the same line.
    let verdict = match (&report.culprit, bisect(report).words().into_iter().next()) {
        (None, Some(first)) => first.trim_end_matches(':').into(),
        _ => headline(report),
    };
    Head { kind: "replay bisect", about, mood, verdict, notes }
}

/// The evidence against the culprit, fixture by fixture.
fn convicted(report: &Report, culprit: &Culprit) -> Markup {
    html! {
        @for (number, observation) in culprit.seen.observations.iter().enumerate() {
            (evidence(number, observation, culprit))
        }
        @if !culprit.diff.is_empty() {
            section class="card" {
                h2 { "What " (name(report.commit(culprit.commit))) " changed" }
                (diff(&culprit.diff))
            }
        }
    }
}

fn evidence(number: usize, observation: &Observation, culprit: &Culprit) -> Markup {
    let verdict = observation.verdict;
    let alone = crate::bisect::Seen { observations: vec![observation.clone()] };
    let pictures = culprit.pictures.iter().find(|(fixture, _)| *fixture == observation.fixture);
    let pictures = pictures.map_or(&[][..], |(_, pictures)| pictures);
    let accesses = culprit.accesses.iter().find(|(fixture, _)| *fixture == observation.fixture);
    html! {
        section class="card" id={ "f" (number) } {
            h2 { (observation.fixture) " " (badge(verdict.into(), verdict_name(verdict))) }
            p { (observation_line(&alone)) }
            @if number == 0 && !culprit.launches.is_empty() {
                h3 { "Launches before and after" }
                (launches::changes(&culprit.launches))
            }
            @if let Some(judged) = &observation.judgement {
                (outputs::judged(judged, pictures, &format!("f{number}")))
            }
            (findings::accesses(accesses.map(|(_, found)| found)))
        }
    }
}

fn name(known: Option<&Commit>) -> Markup {
    html! { @if let Some(known) = known { (commit(known)) } }
}

/// Fixtures by tested commits, where there are several fixtures.
fn who_broke_what(report: &Report) -> Markup {
    let several =
        |one: &Tested| report.seen(one.commit).is_some_and(|seen| seen.observations.len() > 1);
    let Some(first) = report.tested.iter().find(|one| several(one)) else { return html! {} };
    let fixtures: Vec<&str> = report.seen(first.commit).map_or(Vec::new(), |seen| {
        seen.observations.iter().map(|observation| observation.fixture.as_str()).collect()
    });
    let culprit = report.culprit.as_ref().map(|culprit| culprit.commit);
    let rows = html! {
        @for one in &report.tested {
            tr class=[(Some(one.commit) == culprit).then_some("culprit")] {
                th scope="row" { (name(report.commit(one.commit))) }
                @for (number, seen) in
                    report.seen(one.commit).iter().flat_map(|s| &s.observations).enumerate()
                {
                    td { (cell(one, seen, number, culprit)) }
                }
            }
        }
    };
    fixtures_by_commits("Who broke what", &fixtures, &rows)
}

/// What a commit does on one fixture; leads to the evidence, or to its row of the table of tests.
fn cell(one: &Tested, seen: &Observation, number: usize, culprit: Option<u32>) -> Markup {
    let place = match Some(one.commit) == culprit {
        true => format!("#f{number}"),
        false => format!("#t{}", one.commit),
    };
    html! { a href=(place) { (badge(seen.verdict.into(), verdict_name(seen.verdict))) } }
}

/// The tests, in the order of their answers.
fn tested(report: &Report) -> Markup {
    let rows = html! {
        @for (number, one) in report.tested.iter().enumerate() {
            tr id={ "t" (one.commit) } {
                td class="number" { (number + 1) }
                th scope="row" { (name(report.commit(one.commit))) }
                td { (badge(mood(one.answer), answer_name(one.answer))) }
                td { (report.seen(one.commit).map(observation_line).unwrap_or_default()) }
            }
        }
    };
    html! {
        @if !report.tested.is_empty() {
            section class="card" {
                h2 { "Tests" }
                (table("tests", &["#", "commit", "answer", "what was seen"], &rows))
            }
        }
    }
}

/// How good an answer is.
pub(super) fn mood(answer: Answer) -> Mood {
    match answer {
        Answer::Good => Mood::Good,
        Answer::Bad => Mood::Bad,
        Answer::Skip => Mood::Untold,
        Answer::Other => Mood::Caution,
    }
}
