//! `replay accept [GLOB...]`: makes pending snapshots the accepted ones, without showing them.

use ::replay::report::ReportLine;
use ::replay::snapshot;

use super::error::CliResult;
use super::out::println;
use super::snapshot::{SnapshotSelection, relative_path};

/// The arguments of `replay accept`.
#[derive(Debug, clap::Args)]
pub struct AcceptArgs {
    #[command(flatten)]
    selection: SnapshotSelection,
    /// Why, kept with the snapshots
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Accepts the selected snapshots.
pub fn run_accept(args: &AcceptArgs) -> CliResult<u8> {
    let selected = args.selection.pending()?;
    for pending in &selected.pending {
        snapshot::accept_snapshot(pending, args.reason.as_deref())?;
        println!(
            "{}",
            ReportLine::from(format!("accepted {}", relative_path(&pending.path).display()))
        );
    }
    if selected.is_empty() {
        println!("nothing is pending");
    }
    Ok(selected.complain())
}
