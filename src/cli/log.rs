//! `replay log FIXTURE... RANGE`: every commit at which an output changes.

use std::num::NonZeroUsize;

use ::replay::bisect::{On, survey_range};
use ::replay::report;

use super::bisect::{bisection, open};
use super::error::{CliResult, CommandError};
use super::exit;
use super::fixtures;
use super::out::{print, println};
use super::progress::Progress;
use super::replay::{CheckArg, Format};
use super::session::{SessionArgs, jobs};

/// The arguments of `replay log`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folders of captured tensors, then commits as `git log` takes them, such as A..B
    #[arg(required = true, num_args = 2.., value_names = ["FIXTURE", "RANGE"])]
    words: Vec<String>,
    /// Commits that are replayed at a time [default: one a core, at most 8]
    #[arg(short, long, value_name = "N", value_parser = jobs, allow_negative_numbers = true)]
    jobs: Option<NonZeroUsize>,
    /// Follow only the first parent of merges
    #[arg(long)]
    first_parent: bool,
    /// Whether accesses to memory of every variant are checked: one more compilation for each
    #[arg(long, value_enum, default_value = "off", value_name = "WHEN")]
    check: CheckArg,
    /// How the result is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
}

/// Replays every variant of the range. The exit code is 0 whatever it finds, for it is a report,
/// unless nothing could be tested.
pub fn run(args: &Args, session: &SessionArgs) -> CliResult<u8> {
    let [fixtures @ .., range] = args.words.as_slice() else {
        return Err(CommandError::new("log needs a range"));
    };
    let fixtures = fixtures::expand(fixtures);
    let progress = Progress::start();
    progress.say("reading the history");
    let (history, targets) = open(&fixtures)?;
    let mut bisection =
        bisection(&history, targets, On::Changed, args.jobs, args.first_parent, session)?;
    bisection.check = args.check.into();
    let found = survey_range(&bisection, range, &mut |commit, done, all| {
        progress.say(format!("replaying {}, {} of {all}", commit.short, done + 1));
    })?;
    drop(progress);
    match args.format {
        Format::Json => println!("{}", serde_json::to_string_pretty(&report::log_json(&found))?),
        Format::Text => print!("{}", report::log(&found)),
    }
    let untested = found.variants > 0 && found.untested == found.variants;
    Ok(if untested { exit::UNTESTABLE } else { exit::SUCCESS })
}
