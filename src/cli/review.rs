//! `replay review`: one pending snapshot after the other, with the verdict and a diff.

use ::replay::report::{Context, Line, clean, count, snapshot_diff, snapshot_sentence};
use ::replay::snapshot::{self, Before, Pending, SnapshotComparison};
use anstyle::Style;

use super::error::CliResult;
use super::exit;
use super::keys::{Answers, Key};
use super::out::{print, println};
use super::snapshot::{Selection, shown};

/// The arguments of `replay review`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    selection: Selection,
}

/// The user's choice of what comes next.
enum Step {
    Next,
    /// The rest is accepted unseen, for this reason.
    AcceptRest(String),
    Quit,
    Interrupt,
}

const BOLD: Style = Style::new().bold();

/// Shows each selected snapshot. Decisions stay made, however the review ends.
pub fn run(args: &Args) -> CliResult<u8> {
    let selected = args.selection.pending()?;
    if selected.is_empty() {
        println!("nothing is pending");
    }
    for orphan in args.selection.orphans()? {
        let path = shown(&orphan.path).display().to_string();
        println!(
            "{}",
            Line::of(BOLD, path).and(format!(
                " is orphaned: its fixture {} is not there; remove it with `git rm`",
                orphan.source
            ))
        );
    }
    let pending = &selected.pending;
    let mut accept_rest: Option<String> = None;
    let mut answers = Answers::open();
    for (number, one) in pending.iter().enumerate() {
        if let Some(reason) = &accept_rest {
            snapshot::accept(one, Some(reason))?;
            let accepted = format!("accepted {}", shown(&one.path).display());
            println!("{}", Line::from(accepted + &replaced_damage(one)));
            continue;
        }
        let place = format!(" ({} of {})", number + 1, pending.len());
        let name = Line::of(BOLD, shown(&one.path).display().to_string()).and(place);
        println!("\n{name}");
        match review(one, &name, &mut answers)? {
            Step::Next => {}
            Step::AcceptRest(reason) => accept_rest = Some(reason),
            Step::Interrupt => {
                println!();
                return Ok(exit::INTERRUPTED);
            }
            Step::Quit => {
                let left = pending.len() - number;
                println!("\n{} still pending", count(left as u64, "snapshot"));
                break;
            }
        }
    }
    Ok(selected.complain())
}

/// Asks about one snapshot. Long text scrolls away, so that name and verdict stand above it and
/// again above the question.
fn review(pending: &Pending, name: &Line, answers: &mut Answers) -> CliResult<Step> {
    let verdict = verdict(pending);
    println!("{verdict}");
    if let Before::Accepted(old) = &pending.old
        && let Some(reason) = &old.meta.description
    {
        println!("the accepted one was accepted because: {}", clean(reason));
    }
    let remind = |scrolled: bool| {
        if scrolled {
            println!("\n{name}\n{verdict}");
        }
    };
    remind(show(pending, Context::Near));
    loop {
        match answers.key(format_args!(
            "\n{BOLD}a{BOLD:#}ccept  {BOLD}r{BOLD:#}eject  {BOLD}s{BOLD:#}kip  accept this and the rest ({BOLD}y{BOLD:#})  show more ({BOLD}d{BOLD:#})  {BOLD}q{BOLD:#}uit > "
        )) {
            Some(Key::Letter(letter @ ('a' | 'y'), reason)) => {
                let reason = reason.or_else(|| answers.line("reason (none if empty): "));
                let Some(reason) = reason else { return Ok(Step::Quit) };
                snapshot::accept(pending, Some(&reason))?;
                println!("accepted");
                return Ok(if letter == 'y' { Step::AcceptRest(reason) } else { Step::Next });
            }
            Some(Key::Letter('r', _)) => {
                snapshot::reject(pending)?;
                println!("rejected");
                return Ok(Step::Next);
            }
            Some(Key::Letter('s', _)) => {
                println!("skipped");
                return Ok(Step::Next);
            }
            Some(Key::Letter('d', _)) => {
                remind(show(pending, Context::Whole));
            }
            Some(Key::Letter('q', _)) | None => return Ok(Step::Quit),
            Some(Key::Interrupt) => return Ok(Step::Interrupt),
            Some(Key::Letter(..)) => println!("a, r, s, y, d or q"),
        }
    }
}

/// That the snapshot which `pending` took the place of could not be read, if so.
fn replaced_damage(pending: &Pending) -> String {
    match &pending.old {
        Before::Damaged(why) => format!("; the one that it replaced could not be read: {why}"),
        Before::Nothing | Before::Accepted(_) => String::new(),
    }
}

/// The effect of accepting it, in a line.
fn verdict(pending: &Pending) -> Line {
    match &pending.old {
        Before::Nothing => snapshot_sentence(&SnapshotComparison::unseen(false)),
        Before::Damaged(why) => {
            let what = "the accepted snapshot cannot be read, and would be replaced";
            format!("{what}: {why}").into()
        }
        Before::Accepted(old) => {
            snapshot_sentence(&snapshot::compare(&old.snapshot, &pending.new.snapshot))
        }
    }
}

/// Shows what changed. Returns whether that may have scrolled the lines above it out of sight.
fn show(pending: &Pending, context: Context) -> bool {
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
