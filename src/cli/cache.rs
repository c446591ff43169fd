//! `replay cache`: its place, its size, and means to shrink it.

use std::time::Duration;

use ::replay::cache::{Cache, FolderKind, Usage};
use ::replay::report::format_byte_size;
use clap::Subcommand;

use super::error::CliResult;
use super::exit;
use super::out::println;
use super::session;
use super::settings::values::parse_bytes_arg;
use super::settings::{Layer, Setting, Settings};

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
    /// Remove entries older than a number of days, then the oldest ones beyond a size
    Gc {
        /// Entries written within this many days are kept
        #[arg(long, default_value_t = 30, value_name = "DAYS")]
        days: u32,
        /// The others may have this many bytes, such as 500M or 20G [default: no limit]
        #[arg(long, value_name = "BYTES", value_parser = parse_bytes_arg, allow_negative_numbers = true)]
        size: Option<u64>,
    },
    /// Remove everything
    Clear,
}

impl CacheArgs {
    /// The settings among these options.
    pub fn layer(&self) -> Layer {
        let size = match self.action {
            Some(Action::Gc { size, .. }) => size,
            _ => None,
        };
        Layer { cache_size: Setting::from_flag(size, "--size"), ..Layer::default() }
    }
}

/// Shows, shrinks or clears the cache.
pub fn run_cache(args: &CacheArgs, settings: &Settings) -> CliResult<u8> {
    if let Some(Action::Path) = args.action {
        println!("{}", Cache::place(&settings.cache_folder()?).display());
        return Ok(exit::SUCCESS);
    }
    let cache = session::open_session_cache(settings)?;
    match args.action {
        Some(Action::Gc { days, .. }) => {
            let age = Duration::from_secs(u64::from(days) * 24 * 60 * 60);
            let mut removed = cache.collect(age)?;
            if let Some(most_bytes) = settings.cache_size.value {
                let beyond = cache.shrink(most_bytes)?;
                removed.entries += beyond.entries;
                removed.bytes += beyond.bytes;
            }
            println!("removed {} entries, {}", removed.entries, format_byte_size(removed.bytes));
        }
        Some(Action::Clear) => {
            cache.clear()?;
            println!("cleared {}", cache.root().display());
        }
        _ => {
            println!("{}", cache.root().display());
            let usage = cache.usage()?.into_iter().map(|(kind, usage)| (kind.name(), usage));
            let mut usage: Vec<(&str, Usage)> = usage.collect();
            for kind in FolderKind::ALL {
                usage.push((kind.name(), cache.folder_usage(kind)?));
            }
            for (name, usage) in usage {
                println!(
                    "  {name:11} {:>7} entries  {:>10}",
                    usage.entries,
                    format_byte_size(usage.bytes)
                );
            }
        }
    }
    Ok(exit::SUCCESS)
}
