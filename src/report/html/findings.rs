//! Findings on a replay besides its outputs: gradients, orders, accesses, snapshots, what it printed.

use maud::{Markup, html};

use super::super::SnapshotCheck;
use super::super::accesses::{access_lines, gone_lines};
use super::super::judgement::{gradient, order_lines};
use super::super::numbers::count;
use super::super::spans::Line;
use super::super::style::BOLD;
use super::shell::{Mood, badge};
use super::words::{line, list};
use crate::judge::{Accesses, GradientCheck, GradientVerdict};
use crate::trial::OrderDependence;

/// The gradients beside their loss.
pub(super) fn gradients(checks: &[GradientCheck]) -> Markup {
    html! {
        @if !checks.is_empty() {
            h3 { "Gradients against the loss" }
            ul class="lines" {
                @for check in checks {
                    li {
                        (badge(mood(check.story.verdict()), &check.output)) " " (line(&gradient(check)))
                    }
                }
            }
        }
    }
}

/// How good it is that a gradient stands so.
pub(super) fn mood(verdict: GradientVerdict) -> Mood {
    match verdict {
        GradientVerdict::Matches => Mood::Good,
        GradientVerdict::Unknown => Mood::Untold,
        GradientVerdict::Imprecise | GradientVerdict::Mismatch => Mood::Bad,
    }
}

/// The outputs that depend on the order of blocks and threads.
pub(super) fn orders(found: &[OrderDependence]) -> Markup {
    let lines = found.iter().map(|one| {
        let [what, numbers] = order_lines(one);
        Line::of(BOLD, &one.output).and(" ").and(what).and(". ").and(numbers)
    });
    titled("Orders of blocks and threads", &lines.collect::<Vec<_>>())
}

/// The accesses to memory that are wrong, and those that no longer are.
pub(super) fn accesses(found: Option<&Accesses>) -> Markup {
    let lines =
        found.iter().flat_map(|found| access_lines(found).into_iter().chain(gone_lines(found)));
    titled("Accesses to memory", &lines.collect::<Vec<_>>())
}

/// The comparison with the accepted snapshot.
pub(super) fn snapshot(check: Option<&SnapshotCheck>) -> Markup {
    html! {
        @if let Some(check) = check {
            h3 { "Accepted snapshot" }
            pre { (check.text().words().iter().skip(2).map(|line| format!("{}\n", line.trim())).collect::<String>()) }
        }
    }
}

/// What the code printed, its last lines.
pub(super) fn printed(text: &str) -> Markup {
    /// Lines of it that are shown.
    const LINES: usize = 200;
    let lines: Vec<&str> = text.lines().collect();
    let left_out = lines.len().saturating_sub(LINES);
    html! {
        @if !lines.is_empty() {
            details {
                summary { "printed by the code, " (count(lines.len() as u64, "line")) }
                @if left_out > 0 { p class="dim" { "(" (count(left_out as u64, "line")) " before these)" } }
                pre { @for line in &lines[left_out..] { (line) "\n" } }
            }
        }
    }
}

fn titled(title: &str, lines: &[Line]) -> Markup {
    html! {
        @if !lines.is_empty() {
            h3 { (title) }
            (list(lines))
        }
    }
}
