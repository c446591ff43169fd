//! The page of `replay FIXTURE...`.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::super::numbers::format_noun_count;
use super::super::spans::ReportLine;
use super::super::style::{BOLD, DIM};
use super::super::{RefusedFixture, ReportEntry, RunRecord, Standing, standing};
use super::history::LineageGraph;
use super::shell::{Mood, PageHead, render_badge, render_page, render_refusals};
use super::table::render_table;
use super::words::render_revision;
use super::{findings, launches, outputs};
use replay_engine::trial::Status;

/// The page on `entries`, and on the refused fixtures.
pub fn render_replay_html(
    entries: &[ReportEntry],
    refused: &[RefusedFixture],
    run: &RunRecord,
) -> String {
    let body = html! {
        @if entries.len() > 1 { (render_replay_overview(entries)) }
        @for (number, entry) in entries.iter().enumerate() { (render_entry_section(number, entry)) }
        (render_refusals(refused))
    };
    render_page(&build_replay_head(entries, refused), &body, run)
}

fn build_replay_head(entries: &[ReportEntry], refused: &[RefusedFixture]) -> PageHead {
    let worst = entries.iter().map(Standing::from_entry).max();
    let mood = match worst {
        Some(worst) if worst.is_wrong() || refused.is_empty() => {
            Mood::from(worst).as_far_as_checked(entries.iter().any(has_unchecked))
        }
        _ => Mood::Untold,
    };
    let [entry] = entries else {
        let standings = entries.iter().map(Standing::from_entry);
        let tally = standing::tally_standings(standings, refused.len());
        let replay_count = format_noun_count((entries.len() + refused.len()) as u64, "replay");
        let verdict = ReportLine::from(format!("{replay_count}: {tally}"));
        let names: BTreeSet<&str> = entries.iter().map(|entry| entry.fixture.as_str()).collect();
        let about = match names.len() {
            1..=4 => ReportLine::from(names.into_iter().collect::<Vec<_>>().join(", ")),
            fixture_count => ReportLine::from(format_noun_count(fixture_count as u64, "fixture")),
        };
        return PageHead { kind: "replay", about, mood, verdict, notes: Vec::new() };
    };
    let about = super::super::text::render_replay_heading(&entry.fixture, entry.revision.as_ref());
    let blamed = entry.culprit.iter().map(|culprit| culprit.text.as_str().into());
    let verdict = match refused {
        [] => standing::render_entry_verdict(entry),
        _ => standing::tally_standings([Standing::from_entry(entry)], refused.len()).into(),
    };
    let trusted = super::super::text::render_trusted_line(entry);
    let notes = trusted.into_iter().chain(blamed).collect();
    PageHead { kind: "replay", about, mood, verdict, notes }
}

/// The mood of a replay: good only if all of it was checked.
fn entry_mood(entry: &ReportEntry) -> Mood {
    Mood::from(Standing::from_entry(entry)).as_far_as_checked(has_unchecked(entry))
}

pub(super) fn has_unchecked(entry: &ReportEntry) -> bool {
    !standing::list_missing_checks(entry).is_empty()
}

/// The culprits: a row for each replay, with a link to its part of the page.
fn render_replay_overview(entries: &[ReportEntry]) -> Markup {
    let rows = html! {
        @for (number, entry) in entries.iter().enumerate() {
            @let standing = Standing::from_entry(entry);
            tr {
                th scope="row" { a href={ "#" (entry_anchor(number)) } { (entry.fixture) } }
                td { (entry.outcome.device) }
                td { (render_badge(entry_mood(entry), standing.name())) }
                td { (format_first_reason(entry)) }
                td { (render_blamed_commit(entry)) }
            }
        }
    };
    html! {
        section class="card" {
            h2 { "Fixtures" }
            (render_table("fixtures", &["fixture", "device", "verdict", "why", "culprit"], &rows))
        }
    }
}

/// The worst that is known of a replay, or else the first check left out.
fn format_first_reason(entry: &ReportEntry) -> String {
    let reasons = standing::list_standing_reasons(entry);
    let reasons = reasons.into_iter().chain(standing::list_missing_checks(entry));
    reasons.into_iter().next().unwrap_or_default()
}

fn render_blamed_commit(entry: &ReportEntry) -> Markup {
    html! {
        @match entry.culprit.as_ref() {
            Some(blame) if blame.commit.is_some() => (render_revision(blame.commit.as_ref())),
            Some(_) => span class="dim" { "none named" },
            None => {},
        }
    }
}

/// The place of an entry on the page.
fn entry_anchor(number: usize) -> String {
    format!("f{number}")
}

/// All about one replay.
pub(super) fn render_entry_section(number: usize, entry: &ReportEntry) -> Markup {
    let standing = Standing::from_entry(entry);
    let outcome = &entry.outcome;
    let call = outcome.call.filter(|&call| call > 0);
    html! {
        (render_entry_history(number, entry))
        section class="card" id=(entry_anchor(number)) {
            h2 {
                (entry.fixture) " at " (render_revision(entry.revision.as_ref())) " "
                (render_badge(entry_mood(entry), standing.name()))
            }
            p class="dim" {
                (outcome.device_description) ", " (outcome.compiler)
                @if let Some(call) = call { ", call number " (call + 1) " of the harness" }
            }
            (render_entry_reasons(entry))
            @match &entry.judgement {
                Some(judged) => {
                    (launches::render_launch_comparison(judged))
                    (outputs::render_output_comparison(judged, &entry.pictures, &entry_anchor(number)))
                },
                None => (launches::render_launches_table(outcome)),
            }
            (outputs::render_oracle_checks(&entry.oracle))
            (outputs::render_captured_checks(&entry.captured))
            @if entry.judgement.is_none() { (outputs::render_replay_pictures(&outcome.outputs, &entry.pictures)) }
            (findings::render_gradients_table(&entry.gradients))
            (findings::render_orders(&entry.orders))
            (findings::render_access_findings(entry.accesses.as_ref()))
            (findings::render_snapshot_check(entry.snapshot.as_ref()))
            (outputs::render_outputs_table(outcome))
            (findings::render_printed_output(&outcome.printed))
        }
    }
}

/// The searched history of a culprit.
fn render_entry_history(number: usize, entry: &ReportEntry) -> Markup {
    let blame = entry.culprit.as_ref();
    let lineage = blame.and_then(|blame| blame.lineage.as_ref());
    let id = blame.and_then(|blame| blame.commit.as_ref()).map(|commit| commit.id.as_str());
    let Some(lineage) = lineage else { return html! {} };
    let culprit = lineage.commits.iter().map(|kin| kin.commit.id);
    let culprit = culprit.into_iter().find(|commit_id| Some(commit_id.to_string().as_str()) == id);
    LineageGraph { lineage, culprit, anchor: &format!("h{number}"), words: &|_| None }.card()
}

/// The reasons of the entry's standing, and the checks left out.
fn render_entry_reasons(entry: &ReportEntry) -> Markup {
    let reasons = standing::list_standing_reasons(entry).into_iter().map(ReportLine::from);
    let unchecked = standing::list_missing_checks(entry);
    let unchecked = unchecked
        .into_iter()
        .map(|line| ReportLine::with_style(BOLD, "not checked: ").styled(DIM, line));
    let lines: Vec<ReportLine> = reasons.chain(unchecked).collect();
    html! {
        (super::words::render_line_list(&lines))
        @if let Status::Untestable { hint: Some(hint), .. } = &entry.outcome.status {
            p class="dim" { "hint: " (hint) }
        }
    }
}
