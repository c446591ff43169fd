//! Findings on a replay besides its outputs: gradients, orders, accesses, snapshots, its printed lines.

use maud::{Markup, html};

use super::super::SnapshotCheck;
use super::super::accesses::{access_lines, gone_lines};
use super::super::judgement::{describe_order_failure, order_lines, render_gradient_line};
use super::super::numbers::format_noun_count;
use super::super::spans::ReportLine;
use super::super::style::BOLD;
use super::shell::{Mood, render_badge};
use super::words::{render_line, render_line_list};
use replay_engine::judge::{Accesses, GradientCheck, GradientVerdict, OrderCheck};

/// The gradients beside their loss.
pub(super) fn render_gradients_table(checks: &[GradientCheck]) -> Markup {
    html! {
        @if !checks.is_empty() {
            h3 { "Gradients against the loss" }
            ul class="lines" {
                @for check in checks {
                    li {
                        (render_badge(gradient_mood(check.story.verdict()), &check.output)) " " (render_line(&render_gradient_line(check)))
                    }
                }
            }
        }
    }
}

/// The mood of a verdict on a gradient.
pub(super) fn gradient_mood(verdict: GradientVerdict) -> Mood {
    match verdict {
        GradientVerdict::Matches => Mood::Good,
        GradientVerdict::Agrees | GradientVerdict::Unknown => Mood::Untold,
        GradientVerdict::Imprecise | GradientVerdict::Mismatch => Mood::Bad,
    }
}

/// The outputs with a dependence on the order of blocks and threads, or why none was found.
pub(super) fn render_orders(orders: &OrderCheck) -> Markup {
    let lines = orders.dependences.iter().map(|dependence| {
        let [summary, numbers] = order_lines(dependence);
        ReportLine::with_style(BOLD, &dependence.output)
            .and(" ")
            .and(summary)
            .and(". ")
            .and(numbers)
    });
    let failure = orders.failure.iter().map(|failure| describe_order_failure(failure).into());
    let lines = lines.chain(failure);
    render_titled_list("Orders of blocks and threads", &lines.collect::<Vec<_>>())
}

/// The wrong accesses to memory, present and gone.
pub(super) fn render_access_findings(checked_accesses: Option<&Accesses>) -> Markup {
    let lines = checked_accesses
        .iter()
        .flat_map(|accesses| access_lines(accesses).into_iter().chain(gone_lines(accesses)));
    render_titled_list("Accesses to memory", &lines.collect::<Vec<_>>())
}

/// The comparison with the accepted snapshot.
pub(super) fn render_snapshot_check(check: Option<&SnapshotCheck>) -> Markup {
    html! {
        @if let Some(check) = check {
            h3 { "Accepted snapshot" }
            pre { (check.text().words().iter().skip(2).map(|line| format!("{}\n", line.trim())).collect::<String>()) }
        }
    }
}

/// The last lines printed by the code.
pub(super) fn render_printed_output(text: &str) -> Markup {
    /// The most lines to show.
    const LINES: usize = 200;
    let lines: Vec<&str> = text.lines().collect();
    let left_out = lines.len().saturating_sub(LINES);
    html! {
        @if !lines.is_empty() {
            details {
                summary { "printed by the code, " (format_noun_count(lines.len() as u64, "line")) }
                @if left_out > 0 { p class="dim" { "(" (format_noun_count(left_out as u64, "line")) " before these)" } }
                pre { @for line in &lines[left_out..] { (line) "\n" } }
            }
        }
    }
}

fn render_titled_list(title: &str, lines: &[ReportLine]) -> Markup {
    html! {
        @if !lines.is_empty() {
            h3 { (title) }
            (render_line_list(lines))
        }
    }
}
