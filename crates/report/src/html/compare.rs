//! The page of `replay diff FIXTURE... REV REV`.

use maud::{Markup, html};

use super::super::judgement::verdict_reason;
use super::super::numbers::format_noun_count;
use super::super::spans::ReportLine;
use super::super::{
    RefusedFixture, ReportEntry, Revision, RunRecord, Standing, accesses::new_access, standing,
};
use super::shell::{Mood, PageHead, render_badge, render_page, render_refusals};
use super::table::render_table;
use super::words::render_revision;
use super::{findings, launches, outputs, replay};
use replay_engine::judge::{Accesses, Judgement, OrderCheck, OutputPicture, Verdict};

/// A comparison of two revisions on one fixture.
pub struct Compared {
    /// The fixture's name.
    pub fixture: String,
    /// The trusted revision; none for the working tree.
    pub base: Option<Revision>,
    /// The other revision.
    pub got: Option<Revision>,
    /// The comparison.
    pub judgement: Judgement,
    /// Pictures of the outputs, if a page was asked for.
    pub pictures: Vec<OutputPicture>,
    /// The wrong accesses to memory on both sides, if they were checked.
    pub accesses: Option<Accesses>,
}

impl Compared {
    /// The same as the replay of the other side, compared with the trusted one.
    pub(crate) fn as_replay(&self) -> ReportEntry {
        ReportEntry {
            fixture: self.fixture.clone(),
            revision: self.got.clone(),
            outcome: self.judgement.got.clone(),
            captured: Vec::new(),
            captured_at: None,
            captured_with: Vec::new(),
            captured_settings: Vec::new(),
            oracle: Vec::new(),
            gradients: Vec::new(),
            orders: OrderCheck::default(),
            accesses: self.accesses.clone(),
            trusted: self.base.clone(),
            judgement: Some(self.judgement.clone()),
            base_lacks: None,
            pictures: Vec::new(),
            culprit: None,
            snapshot: None,
            duration: None,
        }
    }

    /// The verdict on outputs and accesses together.
    pub fn verdict(&self) -> Verdict {
        let has_new = self.accesses.as_ref().is_some_and(Accesses::has_failures);
        self.judgement.verdict.max(if has_new { Verdict::Failed } else { Verdict::Identical })
    }

    /// Whether wrong is not told from imprecise, or races are not looked for.
    fn has_unchecked(&self) -> bool {
        let unchecked_side =
            self.accesses.as_ref().and_then(|accesses| accesses.unchecked.as_ref());
        self.judgement.without_shadow.is_some() || unchecked_side.is_some()
    }

    /// Good only if all was checked.
    fn mood(&self) -> Mood {
        Mood::from(self.verdict()).as_far_as_checked(self.has_unchecked())
    }

    /// The verdict in a line.
    pub fn verdict_line(&self) -> ReportLine {
        let new_access = match &self.accesses {
            Some(accesses) if self.judgement.verdict < Verdict::Failed => new_access(accesses),
            _ => None,
        };
        new_access.unwrap_or_else(|| super::super::verdict_line(&self.judgement))
    }
}

/// The page on `compared`, on the fixtures with `new` sources, and on the refused ones.
pub fn diff_html(
    compared: &[Compared],
    new: &[ReportEntry],
    refused: &[RefusedFixture],
    run: &RunRecord,
) -> String {
    let body = html! {
        @if compared.len() > 1 { (render_diff_overview(compared)) }
        @for (number, one) in compared.iter().enumerate() { (render_compared_fixture(number, one)) }
        @for (number, one) in new.iter().enumerate() { (replay::render_entry_section(compared.len() + number, one)) }
        (render_refusals(refused))
    };
    render_page(&build_diff_head(compared, new, refused), &body, run)
}

fn build_diff_head(
    compared: &[Compared],
    new_entries: &[ReportEntry],
    refused: &[RefusedFixture],
) -> PageHead {
    let standings = compared.iter().map(|comparison| Standing::from(comparison.verdict()));
    let standings: Vec<Standing> =
        standings.chain(new_entries.iter().map(Standing::from_entry)).collect();
    let mood = match standings.iter().max() {
        Some(&worst) if worst.is_wrong() || refused.is_empty() => {
            let has_unchecked = compared.iter().any(Compared::has_unchecked)
                || new_entries.iter().any(replay::has_unchecked);
            Mood::from(worst).as_far_as_checked(has_unchecked)
        }
        _ => Mood::Untold,
    };
    let sides = match compared.first() {
        Some(Compared { base, got, .. }) => {
            format!("{} -> {}", name_side(base.as_ref()), name_side(got.as_ref()))
        }
        None => String::new(),
    };
    let (about, verdict) = match (compared, new_entries, refused) {
        ([comparison], [], []) => {
            (format!("{}, {sides}", comparison.fixture), comparison.verdict_line())
        }
        ([], [new_entry], []) => {
            (new_entry.fixture.clone(), standing::render_entry_verdict(new_entry))
        }
        _ => {
            let fixture_count =
                format_noun_count((standings.len() + refused.len()) as u64, "fixture");
            (
                format!("{fixture_count}, {sides}"),
                standing::tally_standings(standings, refused.len()).into(),
            )
        }
    };
    PageHead { kind: "replay diff", about: about.into(), mood, verdict, notes: Vec::new() }
}

fn render_diff_overview(compared: &[Compared]) -> Markup {
    let rows = html! {
        @for (number, one) in compared.iter().enumerate() {
            tr {
                th scope="row" { a href={ "#f" (number) } { (one.fixture) } }
                td { (render_badge(one.mood(), Standing::from(one.verdict()).name())) }
                td { (verdict_reason(&one.judgement)) }
            }
        }
    };
    html! {
        section class="card" { h2 { "Fixtures" } (render_table("fixtures", &["fixture", "verdict", "what"], &rows)) }
    }
}

fn render_compared_fixture(number: usize, one: &Compared) -> Markup {
    let verdict = one.verdict();
    html! {
        section class="card" id={ "f" (number) } {
            h2 { (one.fixture) " " (render_badge(one.mood(), Standing::from(verdict).name())) }
            dl class="sides" {
                dt { "before" } dd { (render_revision(one.base.as_ref())) }
                dt { "after" } dd { (render_revision(one.got.as_ref())) }
            }
            p { (super::words::render_line(&one.verdict_line())) }
            @if let Some(reason) = &one.judgement.without_shadow {
                p class="dim" { "wrong is not told from imprecise: " (reason) }
            }
            (launches::render_launch_comparison(&one.judgement))
            (outputs::render_output_comparison(&one.judgement, &one.pictures, &format!("f{number}")))
            (findings::render_access_findings(one.accesses.as_ref()))
            (findings::render_printed_output(&one.judgement.got.printed))
        }
    }
}

fn name_side(revision: Option<&Revision>) -> &str {
    revision.map_or("the working tree", |revision| &revision.short)
}
