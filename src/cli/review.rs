//! `replay review`: one pending snapshot after the other, with the verdict and a diff.

use ::replay::report::{Context, count, snapshot_diff};
use ::replay::snapshot::{self, Before, Comparison, Pending};
use anstyle::Style;

use super::error::CliResult;
use super::exit;
use super::keys::{Answers, Key};
use super::out::{print, println};
use super::snapshot::{Selection, shown};

/// What to review.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    selection: Selection,
}

/// What the user wants next.
enum Step {
    Next,
    Quit,
    Interrupt,
}

const BOLD: Style = Style::new().bold();

/// Shows what was selected, one after the other. What was decided stays decided, however it ends.
pub fn run(args: &Args) -> CliResult {
    let selected = args.selection.pending()?;
    if selected.is_empty() {
        println!("nothing is pending");
    }
    let pending = &selected.pending;
    let mut answers = Answers::open();
    for (number, one) in pending.iter().enumerate() {
        println!(
            "\n{BOLD}{}{BOLD:#} ({} of {})",
            shown(&one.path).display(),
            number + 1,
            pending.len()
        );
        match review(one, &mut answers)? {
            Step::Next => {}
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

fn review(pending: &Pending, answers: &mut Answers) -> anyhow::Result<Step> {
    let new = &pending.new.snapshot;
    match &pending.old {
        Before::Nothing => println!("{}", Comparison::unseen().sentence()),
        Before::Damaged(why) => {
            println!("the accepted snapshot cannot be read, and would be replaced: {why}");
        }
        Before::Accepted(old) => {
            println!("{}", snapshot::compare(&old.snapshot, new).sentence());
            if let Some(reason) = &old.meta.description {
                println!("the accepted one was accepted because: {reason}");
            }
        }
    }
    show(pending, Context::Near);
    loop {
        print!(
            "\n{BOLD}a{BOLD:#}ccept  {BOLD}r{BOLD:#}eject  {BOLD}s{BOLD:#}kip  show more ({BOLD}d{BOLD:#})  {BOLD}q{BOLD:#}uit > "
        );
        match answers.key() {
            Some(Key::Letter('a', reason)) => {
                let reason = reason.or_else(|| answers.line("reason (none if empty): "));
                let Some(reason) = reason else { return Ok(Step::Quit) };
                snapshot::accept(pending, Some(&reason))?;
                println!("accepted");
                return Ok(Step::Next);
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
                println!();
                show(pending, Context::Whole);
            }
            Some(Key::Letter('q', _)) | None => return Ok(Step::Quit),
            Some(Key::Interrupt) => return Ok(Step::Interrupt),
            Some(Key::Letter(..)) => println!("a, r, s, d or q"),
        }
    }
}

fn show(pending: &Pending, context: Context) {
    let old = match &pending.old {
        Before::Accepted(old) => old.snapshot.to_string(),
        Before::Nothing | Before::Damaged(_) => String::new(),
    };
    let new = pending.new.snapshot.to_string();
    println!();
    print!("{}", snapshot_diff(&old, &new, context));
}
