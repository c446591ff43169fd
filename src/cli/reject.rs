//! `replay reject [GLOB...]`: removes pending snapshots; the accepted ones stay.

use ::replay::snapshot;
use anstream::println;

use super::error::CliResult;
use super::exit;
use super::snapshot::{Selection, shown};

/// What to reject.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    selection: Selection,
}

/// Rejects what was selected.
pub fn run(args: &Args) -> CliResult {
    let pending = args.selection.pending()?;
    for pending in &pending {
        snapshot::reject(pending)?;
        println!("rejected what was pending for {}", shown(&pending.path).display());
    }
    if pending.is_empty() {
        println!("nothing is pending");
    }
    Ok(exit::SUCCESS)
}
