//! `replay reject [GLOB...]`: removes pending snapshots; the accepted ones stay.

use ::replay::report::Line;
use ::replay::snapshot;

use super::error::CliResult;
use super::exit;
use super::out::println;
use super::snapshot::{Selection, shown};

/// The arguments of `replay reject`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    selection: Selection,
}

/// Rejects what was selected.
pub fn run(args: &Args) -> CliResult<u8> {
    let selected = args.selection.pending()?;
    for pending in &selected.pending {
        snapshot::reject(pending)?;
        let path = shown(&pending.path);
        println!("{}", Line::from(format!("rejected what was pending for {}", path.display())));
    }
    for (path, _) in &selected.damaged {
        snapshot::discard(path)?;
        let path = shown(path);
        let words = format!("removed what was pending for {} and damaged", path.display());
        println!("{}", Line::from(words));
    }
    if selected.is_empty() {
        println!("nothing is pending");
    }
    Ok(exit::SUCCESS)
}
