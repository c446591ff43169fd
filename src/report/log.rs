//! Where outputs change along a history, for people and for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use super::judgement::{ORDER, launch_line, order_lines, output_lines, verdict_line, verdict_name};
use super::numbers::count;
use super::style::{COMMIT, DIM, GREEN};
use super::text::failure;
use super::{Revision, SCHEMA};
use crate::hunt::{Change, LogReport};
use crate::judge::Verdict;
use crate::replay::Status;

/// Every change, the oldest first.
pub fn log(report: &LogReport) -> String {
    let mut out = String::new();
    let several = report.changes.iter().any(|c| c.fixture != report.changes[0].fixture);
    for change in &report.changes {
        let name =
            if several { format!(" {DIM}({}){DIM:#}", change.fixture) } else { String::new() };
        let commit = &change.commit;
        let _ = writeln!(out, "{COMMIT}{}{COMMIT:#} {}{name}", commit.short, commit.subject);
        for line in change_lines(change) {
            let _ = writeln!(out, "  {line}");
        }
        out.push('\n');
    }
    if !report.acquitted.is_empty() {
        let _ = writeln!(out, "changed sources and no output:");
        for commit in &report.acquitted {
            let _ = writeln!(out, "  {COMMIT}{}{COMMIT:#} {}", commit.short, commit.subject);
        }
        out.push('\n');
    }
    if report.commits == 0 {
        return "the range has no commits\n".to_owned();
    }
    let (commits, variants) = (report.commits as u64, report.variants as u64);
    let _ = writeln!(
        out,
        "{} at {} of {}, {} replayed",
        count(report.changes.len() as u64, "change"),
        count(distinct(report), "commit"),
        count(commits, "commit"),
        count(variants, "variant"),
    );
    out
}

fn distinct(report: &LogReport) -> u64 {
    let mut ids: Vec<_> = report.changes.iter().map(|change| change.commit.id).collect();
    ids.dedup();
    ids.len() as u64
}

fn change_lines(change: &Change) -> Vec<String> {
    let judgement = &change.judgement;
    let mut lines = vec![match &change.repair {
        Some(repair) => format!(
            "{GREEN}repaired{GREEN:#}: {} {}, as before {}",
            match repair.verdict {
                Verdict::Identical => "identical to",
                _ => "equivalent to",
            },
            repair.like.short,
            repair.of.short
        ),
        None => match (&judgement.base.status, &judgement.got.status) {
            // There is nothing to compare with.
            (Status::Failed(failures), Status::Completed) => {
                format!("completes, where {} failed: {}", change.base.short, failure(&failures[0]))
            }
            _ => verdict_line(judgement),
        },
    }];
    if change.repair.is_none() && judgement.base.status == Status::Completed {
        for output in judgement.outputs.iter().filter(|o| o.verdict != Verdict::Identical) {
            if let (Some(found), true) = (&output.order, output.by_order_alone()) {
                let [_, place] = order_lines(found);
                lines.push(format!("{}: {place}", output.name));
                continue;
            }
            // The verdict is in the first line; the picture belongs to a closer look.
            let words = output_lines(output).into_iter().skip(1).filter(|l| !l.contains('|'));
            lines.extend(words.take(1).map(|line| format!("{}: {line}", output.name)));
        }
    }
    let settled = change.settled.iter();
    lines.extend(settled.map(|name| format!("{name} no longer {ORDER}")));
    // What could not be run launched nothing; that is not a change of the code's.
    if judgement.verdict != Verdict::Untestable {
        lines.extend(judgement.launches.iter().map(launch_line));
    }
    let base = &change.base.short;
    lines.push(match &change.skipped {
        Some(skipped) => {
            format!("{DIM}against {base}: {} cannot be tested{DIM:#}", skipped.short)
        }
        None => format!("{DIM}against {base}{DIM:#}"),
    });
    lines
}

/// The same as one document.
pub fn log_json(report: &LogReport) -> Value {
    let change = |change: &Change| {
        let judgement = &change.judgement;
        let (untestable, reason) = match &judgement.got.status {
            Status::Untestable { reason, .. } => (true, Some(reason)),
            _ => (false, None),
        };
        json!({
            "fixture": change.fixture,
            "commit": Revision::from(change.commit.clone()),
            "base": Revision::from(change.base.clone()),
            "untestable_parent": change.skipped.clone().map(Revision::from),
            "verdict": verdict_name(judgement.verdict),
            "untestable": untestable,
            "reason": reason,
            "outputs": judgement.outputs,
            "launches_changed": judgement.launches,
            "no_longer_order_dependent": change.settled,
            "status": judgement.got.status,
            "repairs": change.repair.as_ref().map(|repair| json!({
                "commit": Revision::from(repair.of.clone()),
                "like": Revision::from(repair.like.clone()),
                "verdict": repair.verdict,
            })),
        })
    };
    json!({
        "schema": SCHEMA,
        "commits": report.commits,
        "variants": report.variants,
        "changes": report.changes.iter().map(change).collect::<Vec<_>>(),
        "changed_nothing": report.acquitted.iter().cloned().map(Revision::from).collect::<Vec<_>>(),
    })
}
