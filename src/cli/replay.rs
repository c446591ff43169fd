//! `replay FIXTURE... [--rev REV]`: the main job.

use std::path::{Path, PathBuf};

use ::replay::cache::Cache;
use ::replay::judge::Verdict;
use ::replay::replay::{Outcome, Replayer, Status};
use ::replay::report::{self, Entry, Refused, Revision};
use clap::ValueEnum;

use super::error::{self, CliResult, Complaint};
use super::exit;
use super::fixtures;
use super::out::{print, println};
use super::progress::Progress;
use super::project::{Project, Target};
use super::session::GlobalArgs;
use super::snapshot::Settings;

/// What to replay.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folders of captured tensors, each with a fixture.toml; or a folder of such folders
    #[arg(required = true, value_name = "FIXTURE")]
    fixtures: Vec<PathBuf>,
    /// The revision whose kernels are run, anything git understands [default: the working tree]
    #[arg(long, value_name = "REV")]
    rev: Option<String>,
    /// A revision that is trusted, to compare with
    #[arg(long, value_name = "REV")]
    against: Option<String>,
    /// Name the commit that made the difference to the trusted revision, where there is one
    #[arg(long, requires = "against")]
    culprit: bool,
    /// How the result is written
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: OutcomeFormat,
    /// The folder of accepted snapshots [default: the nearest `snapshots` above the fixture]
    #[arg(long, value_name = "DIR")]
    snapshots: Option<PathBuf>,
    /// Compare with the accepted snapshot also where --rev names a revision
    #[arg(long)]
    snapshot: bool,
}

/// How replays are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutcomeFormat {
    /// For people
    Text,
    /// For programs; docs/schema.md describes it
    Json,
    /// For a comment on a pull request: at most 60 kB
    Markdown,
    /// For the summary of a job: at most 1,000 kB
    MarkdownSummary,
    /// For CI servers
    Junit,
}

/// How a result is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// For programs; docs/schema.md describes it
    Json,
}

/// Replays every fixture; the worst of them decides about the exit code. A fixture that cannot be
/// replayed does not keep the others from it.
pub fn run(args: &Args, global: &GlobalArgs) -> CliResult {
    let replayers = global.replayers()?;
    let cache = global.cache()?;
    let snapshots = Settings::from_environment(args.snapshots.clone())?;
    let mut code = exit::SUCCESS;
    let (mut entries, mut errors) = (Vec::new(), Vec::new());
    for path in &fixtures::expand(&args.fixtures) {
        let on_devices = replayers.iter();
        let on_devices =
            on_devices.map(|replayer| one(path, args, global, replayer, &cache, &snapshots));
        match on_devices.collect::<anyhow::Result<Vec<Entry>>>() {
            Ok(on_devices) => {
                for entry in &on_devices {
                    code = exit::worse(code, code_of_entry(entry));
                }
                if args.format == OutcomeFormat::Text {
                    let gap = if entries.is_empty() { "" } else { "\n" };
                    print!("{gap}{}", text(&on_devices));
                }
                entries.extend(on_devices);
            }
            Err(error) => {
                code = exit::worse(code, error::exit_code(&error));
                error::print(&error);
                errors.push(refused(path, &error));
            }
        }
    }
    match args.format {
        OutcomeFormat::Text => {}
        OutcomeFormat::Json => println!("{}", report::json(&entries, &errors)),
        OutcomeFormat::Markdown => {
            print!("{}", report::markdown(&entries, &errors, report::COMMENT_BYTES));
        }
        OutcomeFormat::MarkdownSummary => {
            print!("{}", report::markdown(&entries, &errors, report::SUMMARY_BYTES));
        }
        OutcomeFormat::Junit => print!("{}", report::junit(&entries, &errors)),
    }
    Ok(code)
}

/// One fixture on every device, and what the devices tell of each other.
fn text(on_devices: &[Entry]) -> String {
    let mut texts: Vec<String> = on_devices.iter().map(report::text).collect();
    if on_devices.len() > 1 {
        texts.push(report::devices(on_devices));
    }
    texts.join("\n")
}

fn one(
    path: &Path,
    args: &Args,
    global: &GlobalArgs,
    replayer: &Replayer,
    cache: &Cache,
    snapshots: &Settings,
) -> anyhow::Result<Entry> {
    let progress = Progress::start();
    progress.say(format!("loading {}", path.display()));
    let project = Project::open(path, cache).map_err(|error| misspelt_command(path, error))?;
    let target = project.target(args.rev.as_deref())?;
    progress.say(format!("replaying {} at {}", path.display(), name(&target)));
    let (outcome, gradients) = replayer.replay_and_check(&project.subject, &target.sources)?;
    // Against a trusted revision only a dependence that is new counts.
    let orders = match (&outcome.status, &args.against) {
        (Status::Completed, None) => {
            replayer.orders(&project.subject, &target.sources, &outcome)?
        }
        _ => Vec::new(),
    };
    let judgement = match &args.against {
        Some(trusted) => Some(super::diff::against(replayer, &project, trusted, &target)?),
        None => None,
    };
    let culprit = match &judgement {
        Some(judged) if args.culprit && judged.verdict >= Verdict::Diverged => {
            progress.say(format!("searching for what changed {}", path.display()));
            let trusted = args.against.as_deref().unwrap_or_default();
            Some(super::bisect::blame(path, trusted, &target, &project, global)?)
        }
        _ => None,
    };
    let snapshot = match args.rev.is_none() || args.snapshot {
        true => snapshots.check(replayer, &project, &target.sources, &outcome)?,
        false => None,
    };
    Ok(Entry {
        fixture: project.subject.fixture.name.clone(),
        revision: target.commit.map(Revision::from),
        outcome,
        gradients,
        orders,
        judgement,
        culprit,
        snapshot,
    })
}

/// Turns "no such fixture" into advice where a command was meant.
fn misspelt_command(path: &Path, error: anyhow::Error) -> anyhow::Error {
    let word = path.to_str().filter(|word| !path.exists() && !word.contains(['/', '.']));
    let Some(word) = word else { return error };
    let (message, hint) = match super::nearest_command(word) {
        Some(meant) if meant == word => (
            format!("the command `{word}` comes first, options behind it"),
            format!("`replay {word} ...`, or ./{word} for a fixture of that name"),
        ),
        Some(meant) => (
            format!("there is neither a command nor a fixture folder `{word}`"),
            format!("did you mean `replay {meant}`?"),
        ),
        None => return error,
    };
    Complaint { message, hint: Some(hint) }.into()
}

/// What a target is called in passing.
pub fn name(target: &Target) -> String {
    target.commit.as_ref().map_or("the working tree".to_owned(), |commit| commit.short.clone())
}

fn refused(path: &Path, error: &anyhow::Error) -> Refused {
    Refused {
        fixture: path.display().to_string(),
        message: error.to_string(),
        causes: error.chain().skip(1).map(ToString::to_string).collect(),
        hint: error::hint(error),
    }
}

fn code_of_entry(entry: &Entry) -> u8 {
    let judged = entry.judgement.as_ref().map_or(exit::SUCCESS, super::diff::code_of);
    let gradients = super::gradcheck::code_of(&entry.gradients);
    let snapshot = entry.snapshot.as_ref().map_or(exit::SUCCESS, super::snapshot::code_of);
    let orders = if entry.orders.is_empty() { exit::SUCCESS } else { exit::FAILED };
    [judged, gradients, orders, snapshot].into_iter().fold(code_of(&entry.outcome), exit::worse)
}

/// The exit code that an outcome alone stands for.
pub fn code_of(outcome: &Outcome) -> u8 {
    match outcome.status {
        Status::Completed => exit::SUCCESS,
        Status::Failed(_) => exit::FAILED,
        Status::Untestable { .. } => exit::UNTESTABLE,
    }
}
