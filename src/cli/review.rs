//! `replay review`: one pending snapshot after the other, with the verdict and a diff.

use ::replay::report::{
    DiffContext, ReportLine, format_noun_count, render_snapshot_sentence, sanitise_line,
    snapshot_diff,
};
use ::replay::snapshot::{self, Before, PendingSnapshot, SnapshotComparison};
use anstyle::Style;

use super::error::CliResult;
use super::exit;
use super::out::{print, println};
use super::prompt::{AnswerKey, Answers};
use super::snapshot::{SnapshotSelection, relative_path};

/// The arguments of `replay review`.
#[derive(Debug, clap::Args)]
pub struct ReviewArgs {
    #[command(flatten)]
    selection: SnapshotSelection,
}

/// The user's choice of the next step.
enum ReviewStep {
    Next,
    /// The rest is accepted unseen, for this reason.
    AcceptRest(String),
    Quit,
    Interrupt,
}

const BOLD: Style = Style::new().bold();

/// Shows each selected snapshot. Decisions stay made, however the review ends.
pub fn run_review(args: &ReviewArgs) -> CliResult<u8> {
    let selected = args.selection.pending()?;
    if selected.is_empty() {
        println!("nothing is pending");
    }
    for orphan in args.selection.orphans()? {
        let path = relative_path(&orphan.path).display().to_string();
        println!(
            "{}",
            ReportLine::with_style(BOLD, path).and(format!(
                " is orphaned: its fixture {} is not there; remove it with `git rm`",
                orphan.source
            ))
        );
    }
    let pending = &selected.pending;
    let mut accept_rest: Option<String> = None;
    let mut answers = Answers::open();
    for (number, pending_snapshot) in pending.iter().enumerate() {
        if let Some(reason) = &accept_rest {
            snapshot::accept_snapshot(pending_snapshot, Some(reason))?;
            let accepted = format!("accepted {}", relative_path(&pending_snapshot.path).display());
            println!("{}", ReportLine::from(accepted + &replaced_damage(pending_snapshot)));
            continue;
        }
        let place = format!(" ({} of {})", number + 1, pending.len());
        let name = ReportLine::with_style(
            BOLD,
            relative_path(&pending_snapshot.path).display().to_string(),
        )
        .and(place);
        println!("\n{name}");
        match review_pending(pending_snapshot, &name, &mut answers)? {
            ReviewStep::Next => {}
            ReviewStep::AcceptRest(reason) => accept_rest = Some(reason),
            ReviewStep::Interrupt => {
                println!();
                return Ok(exit::INTERRUPTED);
            }
            ReviewStep::Quit => {
                let left = pending.len() - number;
                println!("\n{} still pending", format_noun_count(left as u64, "snapshot"));
                break;
            }
        }
    }
    Ok(selected.complain())
}

/// Asks about one snapshot. Long text scrolls away: name and verdict stand above it and again above the question.
fn review_pending(
    pending: &PendingSnapshot,
    name: &ReportLine,
    answers: &mut Answers,
) -> CliResult<ReviewStep> {
    let verdict = describe_acceptance(pending);
    println!("{verdict}");
    if let Before::Accepted(old) = &pending.old
        && let Some(reason) = &old.meta.description
    {
        println!("the accepted one was accepted because: {}", sanitise_line(reason));
    }
    if show_pending_changes(pending, DiffContext::Near) {
        println!("\n{name}\n{verdict}");
    }
    loop {
        match answers.key(format_args!(
            "\n{BOLD}a{BOLD:#}ccept  {BOLD}r{BOLD:#}eject  {BOLD}s{BOLD:#}kip  accept this and the rest ({BOLD}y{BOLD:#})  show more ({BOLD}d{BOLD:#})  {BOLD}q{BOLD:#}uit > "
        )) {
            Some(AnswerKey::Letter(letter @ ('a' | 'y'), reason)) => {
                let reason = reason.or_else(|| answers.line("reason (none if empty): "));
                let Some(reason) = reason else { return Ok(ReviewStep::Quit) };
                snapshot::accept_snapshot(pending, Some(&reason))?;
                println!("accepted");
                return Ok(if letter == 'y' { ReviewStep::AcceptRest(reason) } else { ReviewStep::Next });
            }
            Some(AnswerKey::Letter('r', _)) => {
                snapshot::reject_snapshot(pending)?;
                println!("rejected");
                return Ok(ReviewStep::Next);
            }
            Some(AnswerKey::Letter('s', _)) => {
                println!("skipped");
                return Ok(ReviewStep::Next);
            }
            Some(AnswerKey::Letter('d', _)) => {
                if show_pending_changes(pending, DiffContext::Whole) {
                    println!("\n{name}\n{verdict}");
                }
            }
            Some(AnswerKey::Letter('q', _)) | None => return Ok(ReviewStep::Quit),
            Some(AnswerKey::Interrupt) => return Ok(ReviewStep::Interrupt),
            Some(AnswerKey::Letter(..)) => println!("a, r, s, y, d or q"),
        }
    }
}

/// The note on an unreadable snapshot in the place of `pending`, if it was one.
fn replaced_damage(pending: &PendingSnapshot) -> String {
    match &pending.old {
        Before::Damaged(why) => format!("; the one that it replaced could not be read: {why}"),
        Before::Nothing | Before::Accepted(_) => String::new(),
    }
}

/// The effect of accepting it, in a line.
fn describe_acceptance(pending: &PendingSnapshot) -> ReportLine {
    match &pending.old {
        Before::Nothing => render_snapshot_sentence(&SnapshotComparison::unseen(false)),
        Before::Damaged(damage) => {
            let consequence = "the accepted snapshot cannot be read, and would be replaced";
            format!("{consequence}: {damage}").into()
        }
        Before::Accepted(old) => render_snapshot_sentence(&snapshot::compare_snapshots(
            &old.snapshot,
            &pending.new.snapshot,
        )),
    }
}

/// Shows the changes. Returns whether they may have scrolled the lines above out of sight.
fn show_pending_changes(pending: &PendingSnapshot, context: DiffContext) -> bool {
    /// Lines of a small terminal, less those of the question.
    const IN_SIGHT: usize = 20;
    let old = match &pending.old {
        Before::Accepted(old) => old.snapshot.to_string(),
        Before::Nothing | Before::Damaged(_) => String::new(),
    };
    let diff = snapshot_diff(&old, &pending.new.snapshot.to_string(), context);
    print!("\n{diff}");
    diff.words().len() > IN_SIGHT
}
