//! `replay reject [GLOB...]`: removes pending snapshots; the accepted ones stay.

use ::replay::report::ReportLine;
use ::replay::snapshot;

use super::error::CliResult;
use super::exit;
use super::out::println;
use super::snapshot::{SnapshotSelection, relative_path};

/// The arguments of `replay reject`.
#[derive(Debug, clap::Args)]
pub struct RejectArgs {
    #[command(flatten)]
    selection: SnapshotSelection,
}

/// Rejects the selected snapshots.
pub fn run_reject(args: &RejectArgs) -> CliResult<u8> {
    let selected = args.selection.pending()?;
    for pending in &selected.pending {
        snapshot::reject_snapshot(pending)?;
        let path = relative_path(&pending.path);
        println!(
            "{}",
            ReportLine::from(format!("rejected what was pending for {}", path.display()))
        );
    }
    for (path, _) in &selected.damaged {
        snapshot::discard_pending(path)?;
        let path = relative_path(path);
        let words = format!("removed what was pending for {} and damaged", path.display());
        println!("{}", ReportLine::from(words));
    }
    if selected.is_empty() {
        println!("nothing is pending");
    }
    Ok(exit::SUCCESS)
}
