//! The launches of one side, or of both beside each other.

use maud::{Markup, html};

use super::super::numbers::format_plural_count;
use super::super::text::launch_shape;
use super::table::render_table;
use replay_engine::judge::{Judgement, LaunchChange};
use replay_engine::trial::{Outcome, Status};
use replay_runtime::report::LaunchRecord;

/// More launches than this are only counted.
const SHOWN: usize = 64;

/// The launches of one outcome.
pub(super) fn render_launches_table(outcome: &Outcome) -> Markup {
    let shown = &outcome.launches[..outcome.launches.len().min(SHOWN)];
    let rows = html! {
        @for (number, launch) in shown.iter().enumerate() {
            tr {
                td class="number" { (number + 1) }
                td { code { (launch.kernel) } }
                td { (render_launch_shape(Some(launch))) }
                td class="dim" { (launch.site) }
            }
        }
    };
    html! {
        @if !shown.is_empty() {
            h3 { "Launches" }
            (render_table("launches", &["#", "kernel", "configuration", "site"], &rows))
            (render_launch_remainder(outcome.launch_count, shown.len()))
        }
    }
}

/// The changed launches, before and after, and the number of all on each side.
pub(super) fn render_launch_comparison(judgement: &Judgement) -> Markup {
    let base = &judgement.base;
    let got = &judgement.got;
    // A side without a run launched nothing; this is no change.
    let is_untestable =
        [base, got].iter().any(|outcome| matches!(outcome.status, Status::Untestable { .. }));
    if is_untestable || base.launches.is_empty() && got.launches.is_empty() {
        return html! {};
    }
    html! {
        h3 { "Launches before and after" }
        @if judgement.launches.is_empty() {
            p { "The same on both sides: " (format_plural_count(got.launch_count, "launch", "launches")) "." }
            details { summary { "all launches" } (render_launches_table(got)) }
        } @else {
            (render_launch_changes(&judgement.launches))
            p class="dim" {
                (format_plural_count(base.launch_count, "launch", "launches")) " before, "
                (got.launch_count) " after; those that did not change are left out."
            }
        }
    }
}

/// A row for each change of a launch.
pub(super) fn render_launch_changes(changes: &[LaunchChange]) -> Markup {
    let shown = &changes[..changes.len().min(SHOWN)];
    let rows = html! {
        @for change in shown {
            @let known = change.after.as_ref().or(change.before.as_ref());
            tr {
                td { code { (known.map_or("", |launch| launch.kernel.as_str())) } }
                td { (render_launch_shape(change.before.as_ref())) }
                td { (render_launch_shape(change.after.as_ref())) }
                td class="dim" { (known.map_or("", |launch| launch.site.as_str())) }
            }
        }
    };
    html! {
        @if !shown.is_empty() {
            (render_table("launches that changed", &["kernel", "before", "after", "site"], &rows))
            (render_launch_remainder(changes.len() as u64, shown.len()))
        }
    }
}

fn render_launch_shape(launch: Option<&LaunchRecord>) -> Markup {
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

fn render_launch_remainder(total: u64, shown_count: usize) -> Markup {
    let more = total.saturating_sub(shown_count as u64);
    html! { @if more > 0 { p class="dim" { "and " (format_plural_count(more, "launch", "launches")) " more" } } }
}
