//! The page of `replay gradcheck FIXTURE...`.

use maud::{Markup, html};

use super::super::numbers::{format_noun_count, format_short_number};
use super::super::spans::ReportLine;
use super::super::text::{describe_failure, render_replay_heading};
use super::super::{RefusedFixture, Revision, RunRecord, Standing, render_gradient_line, standing};
use super::findings::gradient_mood;
use super::launches;
use super::outputs;
use super::shell::{Mood, PageHead, render_badge, render_page, render_refusals};
use super::table::render_table;
use super::words::{render_line, render_revision};
use replay_engine::judge::{GradientCheck, GradientStory, GradientVerdict, OutputPicture};
use replay_engine::trial::{Outcome, Status};

/// The gradients of one fixture at one revision.
pub struct GradcheckEntry {
    /// The fixture's name.
    pub fixture: String,
    /// The revision; none for the working tree.
    pub revision: Option<Revision>,
    /// The outcome of the replay.
    pub outcome: Outcome,
    /// The gradients, compared with their loss.
    pub gradients: Vec<GradientCheck>,
    /// Pictures of the outputs, if a page was asked for.
    pub pictures: Vec<OutputPicture>,
}

impl GradcheckEntry {
    /// How the gradients stand. One that could not be checked is neither right nor wrong: beside right ones it leaves the
    /// question open.
    pub fn standing(&self) -> Standing {
        let worst = self.gradients.iter().map(|check| check.story.verdict()).max();
        match (&self.outcome.status, worst) {
            (Status::Failed(_), _) => Standing::Failed,
            (Status::Untestable { .. }, _) => Standing::Untestable,
            (_, Some(GradientVerdict::Imprecise | GradientVerdict::Mismatch)) => Standing::Diverged,
            (_, Some(GradientVerdict::Matches)) => Standing::Completed,
            (_, Some(GradientVerdict::Agrees | GradientVerdict::Unknown) | None) => {
                Standing::Unchecked
            }
        }
    }

    /// The gradients that could not be checked.
    fn unchecked(&self) -> Vec<&str> {
        let unchecked = standing::list_unchecked_gradients(&self.gradients);
        unchecked.map(|check| check.output.as_str()).collect()
    }

    /// Whether a gradient could not be checked.
    pub fn has_unchecked(&self) -> bool {
        !self.unchecked().is_empty()
    }

    /// The result in a line.
    pub fn verdict_line(&self) -> ReportLine {
        let standing = self.standing();
        ReportLine::with_style(standing.style(), standing.name())
            .and(format!(": {}", self.reason()))
    }

    /// The reason for the standing.
    fn reason(&self) -> String {
        match &self.outcome.status {
            Status::Failed(failures) => return describe_failure(&failures[0]),
            Status::Untestable { reason, .. } => return reason.clone(),
            Status::Completed => {}
        }
        let wrong = self.gradients.iter().filter(|check| standing::is_wrong(check));
        let wrong: Vec<&str> = wrong.map(|check| check.output.as_str()).collect();
        let unchecked = self.unchecked();
        if !wrong.is_empty() {
            let beside = match unchecked.as_slice() {
                [] => String::new(),
                names => format!("; {} could not be checked", names.join(", ")),
            };
            return format!("{} not as the loss has it{beside}", wrong.join(", "));
        }
        let total = self.gradients.len();
        match unchecked.len() {
            0 if self.gradients.iter().all(is_weakly_checked) => {
                "no gradient is far from differences of the native loss".to_owned()
            }
            0 if self.gradients.iter().any(is_weakly_checked) => {
                let weaker = standing::list_weakly_checked_gradients(&self.gradients);
                let names: Vec<&str> = weaker.map(|check| check.output.as_str()).collect();
                format!(
                    "{} by differences of the native loss alone, the others match their loss",
                    names.join(", ")
                )
            }
            0 if total == 1 => "the gradient matches its loss".to_owned(),
            0 => format!("all {total} gradients match their loss"),
            count if count == total => "no gradient could be checked".to_owned(),
            _ => format!(
                "{} could not be checked, the others match their loss",
                unchecked.join(", ")
            ),
        }
    }
}

/// The page on `checked`, and on the refused fixtures.
pub fn gradcheck_html(
    checked: &[GradcheckEntry],
    refused: &[RefusedFixture],
    run: &RunRecord,
) -> String {
    let body = html! {
        @for (number, one) in checked.iter().enumerate() { (render_gradcheck_entry(number, one)) }
        (render_refusals(refused))
    };
    render_page(&build_gradcheck_head(checked, refused), &body, run)
}

fn build_gradcheck_head(entries: &[GradcheckEntry], refused: &[RefusedFixture]) -> PageHead {
    let worst = entries.iter().map(GradcheckEntry::standing).max();
    let mood = match worst {
        Some(worst) if worst.is_wrong() || refused.is_empty() => {
            Mood::from(worst).as_far_as_checked(entries.iter().any(GradcheckEntry::has_unchecked))
        }
        _ => Mood::Untold,
    };
    let (about, verdict) = match (entries, refused) {
        ([entry], []) => {
            (render_replay_heading(&entry.fixture, entry.revision.as_ref()), entry.verdict_line())
        }
        _ => {
            let fixture_count =
                format_noun_count((entries.len() + refused.len()) as u64, "fixture");
            let tally = standing::tally_standings(
                entries.iter().map(GradcheckEntry::standing),
                refused.len(),
            );
            (ReportLine::from(fixture_count), tally.into())
        }
    };
    PageHead { kind: "replay gradcheck", about, mood, verdict, notes: Vec::new() }
}

/// `number` of `check`; nothing where nothing was measured.
fn format_measured_number(check: &GradientCheck, number: f64) -> String {
    match check.story {
        GradientStory::Unchecked(_) => String::new(),
        _ => format_short_number(number, 3),
    }
}

fn render_gradcheck_entry(number: usize, one: &GradcheckEntry) -> Markup {
    const COLUMNS: [&str; 8] = [
        "gradient",
        "verdict",
        "of",
        "by",
        "#directions",
        "#elements checked",
        "#worst rel.",
        "#noise",
    ];
    let standing = one.standing();
    let rows = html! {
        @for check in &one.gradients {
            tr {
                th scope="row" { (check.output) }
                td { (render_badge(gradient_mood(check.story.verdict()), gradient_verdict_name(check.story.verdict()))) }
                td { (check.loss_name()) }
                td { (check.gradient_of) }
                td class="number" { (check.directions) }
                td class="number" { (check.checked) " of " (check.elements) }
                td class="number" { (format_measured_number(check, check.worst)) }
                td class="number" { (format_measured_number(check, check.error)) }
            }
        }
    };
    html! {
        section class="card" id={ "f" (number) } {
            h2 {
                (one.fixture) " at " (render_revision(one.revision.as_ref())) " "
                (render_badge(Mood::from(standing).as_far_as_checked(one.has_unchecked()), standing.name()))
            }
            p class="dim" { (one.outcome.device_description) ", " (one.outcome.compiler) }
            p { (render_line(&one.verdict_line())) }
            @if !one.gradients.is_empty() { (render_table("gradients", &COLUMNS, &rows)) }
            ul class="lines" {
                @for check in &one.gradients {
                    li { strong { (check.output) } " " (render_line(&render_gradient_line(check))) }
                }
            }
            (outputs::render_replay_pictures(&one.outcome.outputs, &one.pictures))
            (launches::render_launches_table(&one.outcome))
            (outputs::render_outputs_table(&one.outcome))
        }
    }
}

fn is_weakly_checked(check: &GradientCheck) -> bool {
    check.story.verdict() == GradientVerdict::Agrees
}

fn gradient_verdict_name(verdict: GradientVerdict) -> &'static str {
    match verdict {
        GradientVerdict::Matches => "matches",
        GradientVerdict::Agrees => "agrees",
        GradientVerdict::Unknown => "not checked",
        GradientVerdict::Imprecise => "imprecise",
        GradientVerdict::Mismatch => "does not match",
    }
}
