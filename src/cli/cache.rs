//! `replay cache`: its place, its size, and means to shrink it.

use std::time::Duration;

use ::replay::cache::Cache;
use ::replay::report::format_byte_size;
use clap::Subcommand;

use super::error::CliResult;
use super::exit;
use super::out::println;
use super::session::{self, cache_folder};

/// The arguments of `replay cache`.
#[derive(Debug, clap::Args)]
pub struct CacheArgs {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the folder
    Path,
    /// Remove entries older than a number of days
    Gc {
        /// Entries written within this many days are kept
        #[arg(long, default_value_t = 30, value_name = "DAYS")]
        days: u32,
    },
    /// Remove everything
    Clear,
}

/// Shows, shrinks or clears the cache.
pub fn run_cache(args: &CacheArgs) -> CliResult<u8> {
    if let Some(Action::Path) = args.action {
        println!("{}", Cache::place(&cache_folder()?).display());
        return Ok(exit::SUCCESS);
    }
    let cache = session::open_session_cache()?;
    match args.action {
        Some(Action::Gc { days }) => {
            let age = Duration::from_secs(u64::from(days) * 24 * 60 * 60);
            let removed = cache.collect(age)?;
            println!("removed {} entries, {}", removed.entries, format_byte_size(removed.bytes));
        }
        Some(Action::Clear) => {
            cache.clear()?;
            println!("cleared {}", cache.root().display());
        }
        _ => {
            println!("{}", cache.root().display());
            for (kind, usage) in cache.usage()? {
                println!(
                    "  {:11} {:>7} entries  {:>10}",
                    kind.name(),
                    usage.entries,
                    format_byte_size(usage.bytes)
                );
            }
        }
    }
    Ok(exit::SUCCESS)
}
