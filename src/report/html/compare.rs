//! The page of `replay diff FIXTURE... REV REV`.

use maud::{Markup, html};

use super::super::judgement::verdict_reason;
use super::super::numbers::count;
use super::super::spans::Line;
use super::super::{Entry, Refused, Revision, RunRecord, Standing, accesses, standing};
use super::shell::{Head, Mood, badge, document, refusals};
use super::table::table;
use super::words::revision;
use super::{findings, launches, outputs, replay};
use crate::judge::{Accesses, Judgement, OutputPicture, Verdict};

/// Two revisions that were compared on one fixture.
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
    pub(in crate::report) fn as_replay(&self) -> Entry {
        Entry {
            fixture: self.fixture.clone(),
            revision: self.got.clone(),
            outcome: self.judgement.got.clone(),
            filled: Vec::new(),
            captured: Vec::new(),
            captured_at: None,
            oracle: Vec::new(),
            gradients: Vec::new(),
            orders: Vec::new(),
            accesses: self.accesses.clone(),
            trusted: self.base.clone(),
            judgement: Some(self.judgement.clone()),
            base_lacks: None,
            pictures: Vec::new(),
            culprit: None,
            snapshot: None,
        }
    }

    /// The verdict on outputs and accesses together.
    pub fn verdict(&self) -> Verdict {
        let new = self.accesses.as_ref().is_some_and(Accesses::has_new);
        self.judgement.verdict.max(if new { Verdict::Failed } else { Verdict::Identical })
    }

    /// Whether wrong is not told from imprecise, or races are not looked for.
    fn has_unchecked(&self) -> bool {
        let reason = self.accesses.as_ref().and_then(Accesses::reason);
        self.judgement.without_shadow.is_some() || reason.is_some()
    }

    /// Good only if all was checked.
    fn mood(&self) -> Mood {
        Mood::from(self.verdict()).as_far_as_checked(self.has_unchecked())
    }

    /// The verdict in a line.
    pub fn verdict_line(&self) -> Line {
        let judged = || super::super::verdict_line(&self.judgement);
        match &self.accesses {
            Some(found) if self.judgement.verdict < Verdict::Failed => {
                accesses::new_access(found).unwrap_or_else(judged)
            }
            _ => judged(),
        }
    }
}

/// The page on `compared`, on the fixtures whose sources are `new`, and on those on which nothing could be
/// compared.
pub fn diff_html(
    compared: &[Compared],
    new: &[Entry],
    refused: &[Refused],
    run: &RunRecord,
) -> String {
    let body = html! {
        @if compared.len() > 1 { (overview(compared)) }
        @for (number, one) in compared.iter().enumerate() { (section(number, one)) }
        @for (number, one) in new.iter().enumerate() { (replay::section(compared.len() + number, one)) }
        (refusals(refused))
    };
    document(&head(compared, new, refused), &body, run)
}

fn head(compared: &[Compared], new: &[Entry], refused: &[Refused]) -> Head {
    let standings = compared.iter().map(|one| Standing::from(one.verdict()));
    let standings: Vec<Standing> = standings.chain(new.iter().map(Standing::of)).collect();
    let mood = match standings.iter().max() {
        Some(&worst) if worst.is_wrong() || refused.is_empty() => {
            let has_unchecked = compared.iter().any(Compared::has_unchecked)
                || new.iter().any(replay::has_unchecked);
            Mood::from(worst).as_far_as_checked(has_unchecked)
        }
        _ => Mood::Untold,
    };
    let short = |revision: &Option<Revision>| {
        revision.as_ref().map_or("the working tree".to_owned(), |known| known.short.clone())
    };
    let sides = compared.first().map(|one| format!("{} -> {}", short(&one.base), short(&one.got)));
    let sides = sides.unwrap_or_default();
    let (about, verdict) = match (compared, new, refused) {
        ([one], [], []) => (format!("{}, {sides}", one.fixture), one.verdict_line()),
        ([], [one], []) => (one.fixture.clone(), standing::verdict(one)),
        _ => {
            let all = count((standings.len() + refused.len()) as u64, "fixture");
            (format!("{all}, {sides}"), standing::tally(standings, refused.len()).into())
        }
    };
    Head { kind: "replay diff", about: about.into(), mood, verdict, notes: Vec::new() }
}

fn overview(compared: &[Compared]) -> Markup {
    let rows = html! {
        @for (number, one) in compared.iter().enumerate() {
            tr {
                th scope="row" { a href={ "#f" (number) } { (one.fixture) } }
                td { (badge(one.mood(), Standing::from(one.verdict()).name())) }
                td { (verdict_reason(&one.judgement)) }
            }
        }
    };
    html! {
        section class="card" { h2 { "Fixtures" } (table("fixtures", &["fixture", "verdict", "what"], &rows)) }
    }
}

fn section(number: usize, one: &Compared) -> Markup {
    let verdict = one.verdict();
    html! {
        section class="card" id={ "f" (number) } {
            h2 { (one.fixture) " " (badge(one.mood(), Standing::from(verdict).name())) }
            dl class="sides" {
                dt { "before" } dd { (revision(one.base.as_ref())) }
                dt { "after" } dd { (revision(one.got.as_ref())) }
            }
            p { (super::words::line(&one.verdict_line())) }
            @if let Some(reason) = &one.judgement.without_shadow {
                p class="dim" { "wrong is not told from imprecise: " (reason) }
            }
            (launches::both(&one.judgement))
            (outputs::judged(&one.judgement, &one.pictures, &format!("f{number}")))
            (findings::accesses(one.accesses.as_ref()))
            (findings::printed(&one.judgement.got.printed))
        }
    }
}
