//! The page of `replay FIXTURE...`.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::super::numbers::count;
use super::super::spans::Line;
use super::super::style::{BOLD, DIM};
use super::super::{Entry, Refused, RunRecord, Standing, standing};
use super::history::Graph;
use super::shell::{Head, Mood, badge, document, refusals};
use super::table::table;
use super::words::revision;
use super::{findings, launches, outputs};
use crate::trial::Status;

/// The page on `entries`, and on the fixtures that could not be replayed.
pub fn html(entries: &[Entry], refused: &[Refused], run: &RunRecord) -> String {
    let body = html! {
        @if entries.len() > 1 { (overview(entries)) }
        @for (number, entry) in entries.iter().enumerate() { (section(number, entry)) }
        (refusals(refused))
    };
    document(&head(entries, refused), &body, run)
}

fn head(entries: &[Entry], refused: &[Refused]) -> Head {
    let worst = entries.iter().map(Standing::of).max();
    let mood = match worst {
        Some(worst) if worst.is_wrong() || refused.is_empty() => {
            Mood::from(worst).as_far_as_checked(entries.iter().any(has_unchecked))
        }
        _ => Mood::Untold,
    };
    let [entry] = entries else {
        let standings = entries.iter().map(Standing::of);
        let tally = standing::tally(standings, refused.len());
        let all = count((entries.len() + refused.len()) as u64, "replay");
        let verdict = Line::from(format!("{all}: {tally}"));
        let names: BTreeSet<&str> = entries.iter().map(|entry| entry.fixture.as_str()).collect();
        let about = match names.len() {
            1..=4 => Line::from(names.into_iter().collect::<Vec<_>>().join(", ")),
            all => Line::from(count(all as u64, "fixture")),
        };
        return Head { kind: "replay", about, mood, verdict, notes: Vec::new() };
    };
    let about = super::super::text::heading(&entry.fixture, entry.revision.as_ref());
    let blamed = entry.culprit.iter().map(|culprit| culprit.text.as_str().into());
    let verdict = match refused {
        [] => standing::verdict(entry),
        _ => standing::tally([Standing::of(entry)], refused.len()).into(),
    };
    let trusted = super::super::text::trusted(entry);
    let notes = trusted.into_iter().chain(blamed).collect();
    Head { kind: "replay", about, mood, verdict, notes }
}

/// The mood of a replay: good only if all of it was checked.
fn mood(entry: &Entry) -> Mood {
    Mood::from(Standing::of(entry)).as_far_as_checked(has_unchecked(entry))
}

pub(super) fn has_unchecked(entry: &Entry) -> bool {
    !standing::unchecked(entry).is_empty()
}

/// Who broke what: a row for each replay, which leads to its part of the page.
fn overview(entries: &[Entry]) -> Markup {
    let rows = html! {
        @for (number, entry) in entries.iter().enumerate() {
            @let standing = Standing::of(entry);
            tr {
                th scope="row" { a href={ "#" (id(number)) } { (entry.fixture) } }
                td { (entry.outcome.device) }
                td { (badge(mood(entry), standing.name())) }
                td { (standing::reasons(entry).first().map_or("", String::as_str)) }
                td { (blamed(entry)) }
            }
        }
    };
    html! {
        section class="card" {
            h2 { "Fixtures" }
            (table("fixtures", &["fixture", "device", "verdict", "why", "culprit"], &rows))
        }
    }
}

fn blamed(entry: &Entry) -> Markup {
    html! {
        @match entry.culprit.as_ref() {
            Some(blame) if blame.commit.is_some() => (revision(blame.commit.as_ref())),
            Some(_) => span class="dim" { "none named" },
            None => {},
        }
    }
}

/// The place of an entry on the page.
fn id(number: usize) -> String {
    format!("f{number}")
}

/// All about one replay.
pub(super) fn section(number: usize, entry: &Entry) -> Markup {
    let standing = Standing::of(entry);
    let outcome = &entry.outcome;
    let call = outcome.call.filter(|&call| call > 0);
    html! {
        (searched(number, entry))
        section class="card" id=(id(number)) {
            h2 {
                (entry.fixture) " at " (revision(entry.revision.as_ref())) " "
                (badge(mood(entry), standing.name()))
            }
            p class="dim" {
                (outcome.device_description) ", " (outcome.compiler)
                @if let Some(call) = call { ", call number " (call + 1) " of the harness" }
            }
            (why(entry))
            @match &entry.judgement {
                Some(judged) => {
                    (launches::both(judged))
                    (outputs::judged(judged, &entry.pictures, &id(number)))
                },
                None => (launches::launches(outcome)),
            }
            (outputs::oracle(&entry.oracle))
            (outputs::captured(&entry.captured))
            @if entry.judgement.is_none() { (outputs::alone(&outcome.outputs, &entry.pictures)) }
            (findings::gradients(&entry.gradients))
            (findings::orders(&entry.orders))
            (findings::accesses(entry.accesses.as_ref()))
            (findings::snapshot(entry.snapshot.as_ref()))
            (outputs::outputs(&outcome.outputs))
            (findings::printed(&outcome.printed))
        }
    }
}

/// The history that was searched for a culprit.
fn searched(number: usize, entry: &Entry) -> Markup {
    let blame = entry.culprit.as_ref();
    let lineage = blame.and_then(|blame| blame.lineage.as_ref());
    let id = blame.and_then(|blame| blame.commit.as_ref()).map(|commit| commit.id.as_str());
    let Some(lineage) = lineage else { return html! {} };
    let culprit = lineage.commits.iter().map(|kin| kin.commit.id);
    let culprit = culprit.into_iter().find(|known| Some(known.to_string().as_str()) == id);
    Graph { lineage, culprit, anchor: &format!("h{number}"), words: &|_| None }.card()
}

/// Why the entry stands as it does, and what could not be checked.
fn why(entry: &Entry) -> Markup {
    let reasons = standing::reasons(entry).into_iter().map(Line::from);
    let unchecked = standing::unchecked(entry);
    let unchecked =
        unchecked.into_iter().map(|line| Line::of(BOLD, "not checked: ").styled(DIM, line));
    let lines: Vec<Line> = reasons.chain(unchecked).collect();
    html! {
        (super::words::list(&lines))
        @if let Status::Untestable { hint: Some(hint), .. } = &entry.outcome.status {
            p class="dim" { "hint: " (hint) }
        }
    }
}
