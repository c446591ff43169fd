//! `replay accept [GLOB...]`: makes pending snapshots the accepted ones, without showing them.

use ::replay::report::Line;
use ::replay::snapshot;

use super::error::CliResult;
use super::out::println;
use super::snapshot::{Selection, shown};

/// The arguments of `replay accept`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    selection: Selection,
    /// Why, kept with the snapshots
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Accepts what was selected.
pub fn run(args: &Args) -> CliResult<u8> {
    let selected = args.selection.pending()?;
    for pending in &selected.pending {
        snapshot::accept(pending, args.reason.as_deref())?;
        println!("{}", Line::from(format!("accepted {}", shown(&pending.path).display())));
    }
    if selected.is_empty() {
        println!("nothing is pending");
    }
    Ok(selected.complain())
}
