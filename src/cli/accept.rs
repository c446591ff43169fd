//! `replay accept [GLOB...]`: makes pending snapshots the accepted ones, without showing them.

use ::replay::snapshot;
use anstream::println;

use super::error::CliResult;
use super::exit;
use super::snapshot::{Selection, shown};

/// What to accept.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    selection: Selection,
    /// Why, kept with the snapshots
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Accepts what was selected.
pub fn run(args: &Args) -> CliResult {
    let pending = args.selection.pending()?;
    for pending in &pending {
        snapshot::accept(pending, args.reason.as_deref())?;
        println!("accepted {}", shown(&pending.path).display());
    }
    if pending.is_empty() {
        println!("nothing is pending");
    }
    Ok(exit::SUCCESS)
}
