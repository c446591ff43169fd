//! The launches of one side, or of both beside each other.

use maud::{Markup, html};

use super::super::numbers::plural;
use super::super::text::launch_shape;
use super::table::table;
use crate::judge::{Judgement, LaunchChange};
use crate::runtime::report::LaunchRecord;
use crate::trial::{Outcome, Status};

/// More launches than this are only counted.
const SHOWN: usize = 64;

/// The launches of one outcome.
pub(super) fn launches(outcome: &Outcome) -> Markup {
    let shown = &outcome.launches[..outcome.launches.len().min(SHOWN)];
    let rows = html! {
        @for (number, launch) in shown.iter().enumerate() {
            tr {
                td class="number" { (number + 1) }
                td { code { (launch.kernel) } }
                td { (shape(Some(launch))) }
                td class="dim" { (launch.site) }
            }
        }
    };
    html! {
        @if !shown.is_empty() {
            h3 { "Launches" }
            (table("launches", &["#", "kernel", "configuration", "site"], &rows))
            (more(outcome.launch_count, shown.len()))
        }
    }
}

/// The launches that changed, before and after, and how many there are on each side.
pub(super) fn both(judgement: &Judgement) -> Markup {
    let untestable = |outcome: &Outcome| matches!(outcome.status, Status::Untestable { .. });
    let (base, got) = (&judgement.base, &judgement.got);
    // A side that could not be run launched nothing; that is no change.
    if untestable(base) || untestable(got) || base.launches.is_empty() && got.launches.is_empty() {
        return html! {};
    }
    html! {
        h3 { "Launches before and after" }
        @if judgement.launches.is_empty() {
            p { "The same on both sides: " (plural(got.launch_count, "launch", "launches")) "." }
            details { summary { "all launches" } (launches(got)) }
        } @else {
            (changes(&judgement.launches))
            p class="dim" {
                (plural(base.launch_count, "launch", "launches")) " before, "
                (got.launch_count) " after; those that did not change are left out."
            }
        }
    }
}

/// A row for each change of a launch.
pub(super) fn changes(changes: &[LaunchChange]) -> Markup {
    let shown = &changes[..changes.len().min(SHOWN)];
    let rows = html! {
        @for change in shown {
            @let known = change.after.as_ref().or(change.before.as_ref());
            tr {
                td { code { (known.map_or("", |launch| launch.kernel.as_str())) } }
                td { (shape(change.before.as_ref())) }
                td { (shape(change.after.as_ref())) }
                td class="dim" { (known.map_or("", |launch| launch.site.as_str())) }
            }
        }
    };
    html! {
        @if !shown.is_empty() {
            (table("launches that changed", &["kernel", "before", "after", "site"], &rows))
            (more(changes.len() as u64, shown.len()))
        }
    }
}

fn shape(launch: Option<&LaunchRecord>) -> Markup {
    html! {
        @match launch {
            Some(launch) => {
                code { (launch_shape(launch)) }
                @if let Some(error) = &launch.error { " " span class="is-bad" { (error) } }
            },
            None => span class="dim" { "not launched" },
        }
    }
}

fn more(all: u64, shown: usize) -> Markup {
    let more = all.saturating_sub(shown as u64);
    html! { @if more > 0 { p class="dim" { "and " (plural(more, "launch", "launches")) " more" } } }
}
