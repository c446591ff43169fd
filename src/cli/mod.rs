//! The command line: only here are printing, colours, the environment and exit codes. A file per command, its arguments
//! beside its function.

mod accept;
mod accepted_snapshots;
mod bisect;
mod bisect_log;
mod blame;

mod cache;
mod call_misfit;
mod callable_source;
mod cluster;
mod completions;
mod config;
mod constraint_notes;
mod derived_fixture;
mod diff;
mod doctor;
mod draft;
mod draft_measurement;
mod dump;
mod early_end;
mod env;
mod environments;
mod error;
mod exit;
mod explain;
mod fixtures;
mod global;
mod gradcheck;
mod growing_file;
mod help;
mod init;
mod inspect;
mod limits;
mod log;
mod markdown;
mod messages;
mod other_checkout;
mod out;
mod patch_file;
mod patterns;
mod progress;
mod project;
mod prompt;
mod random_fixture;
mod reject;
mod replay;
mod report_file;
mod review;
mod run_record;
mod series;
mod session;
mod settings;
mod shrink;
mod snapshot;
mod source_index;
mod step;
mod trace;

use std::ffi::OsString;
use std::process::ExitCode;

use ::replay::{foreign, worker};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use self::error::CliResult;
use self::global::GlobalArgs;
use self::messages::MessageArgs;
use self::session::{Session, SessionArgs};
use self::settings::{Layer, Setting, Settings};

/// The version of this program, its commit, and its compiler.
pub const VERSION: &str = env!("REPLAY_VERSION");

/// Replays captured inputs through the loss and gradient kernels of any revision.
#[derive(Debug, Parser)]
#[command(
    name = "replay",
    version = VERSION,
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true,
    subcommand_negates_reqs = true,
    override_usage = "replay [OPTIONS] FIXTURE... [--rev REV]\n       replay <COMMAND>",
    after_help = AFTER_HELP,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(flatten)]
    replay: Replaying<replay::ReplayArgs>,
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

/// The arguments of a replaying command.
#[derive(Debug, Args)]
struct Replaying<T: Args> {
    #[command(flatten)]
    args: T,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    messages: MessageArgs,
}

impl<T: Args> Replaying<T> {
    /// Runs the command, with the requested messages.
    fn run(
        &self,
        settings: Settings,
        run: impl FnOnce(&T, &Session) -> CliResult<u8>,
    ) -> CliResult<u8> {
        messages::start_messages(&self.messages)?;
        let code = Session::open(&self.session, settings).and_then(|session| {
            let code = run(&self.args, &session);
            session.keep_cache_size();
            code
        });
        let messages_result = messages::finish_messages();
        let code = code?;
        messages_result.map(|()| code)
    }
}

const AFTER_HELP: &str = "\
Examples:
  replay fixtures/step0 --rev 396b00e   one captured step through the kernels of one commit
  replay fixtures/step0                 through the files of the working tree, committed or not
  replay fixtures/* --format json       every fixture, for programs
  replay fixtures/* --report page.html  the same as a page to look at, beside the text
  replay diff fixtures/step0 A B        two commits, tensor by tensor
  replay bisect fixtures/step0 --good A --bad B
                                        the commit that broke it
  replay blame fixtures/step0 REV       the hunks of a commit that carry its defect
  replay shrink fixtures/step0 --rev BAD --against GOOD
                                        the smallest fixture that still shows it
  replay step fixtures/step0            the modules of a captured model, one by one
  replay log fixtures/step0 A..B        every commit at which an output changes
  replay series fixtures/run/*          the steps of a run, one after the other
  replay inspect fixtures/step0         what a fixture holds, and whether it is whole
  replay explain fixtures/step0         what was made of its kernels, and why not a faster form
  replay init                           a first replay.toml for this repository
  replay doctor                         what works on this machine
  replay config                         the settings in force, and where they come from
  replay help verdicts                  a page of the documentation; `replay help topics` names them

A fixture is a folder with captured tensors (*.safetensors) and fixture.toml, which names the
harness: replay.toml says which sources are compiled and how they are called. Sources come from
the object database of the harness's repository; your checkout is never touched. Results go to
stdout, everything else to stderr.

Exit codes are made for `git bisect run replay FIXTURE`: 0 if nothing diverged or failed, 1 if
something did, 125 if the revision cannot be tested or a snapshot is stale, or missing in CI, 128
and more if it is not about the kernel. `replay help exit-codes` says more.

A fixture folder that is named like a command is reached as ./NAME.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Find the commit that broke a kernel
    Bisect(Replaying<bisect::BisectArgs>),
    /// Find the hunks of a commit that carry its defect, and reverse them
    Blame(Replaying<blame::BlameArgs>),
    /// Cut a fixture to the smallest one that still shows the finding
    Shrink(Replaying<shrink::ShrinkArgs>),
    /// Show which module of a captured step of a model is not well
    Step(Replaying<step::StepArgs>),
    /// Show every commit at which an output changes, with its verdict against the one before
    Log(Replaying<log::LogArgs>),
    /// Compare two revisions, tensor by tensor and slice by slice
    Diff(Replaying<diff::DiffArgs>),
    /// Hold the gradients against the loss, by finite differences on the float64 shadow
    Gradcheck(Replaying<gradcheck::GradcheckArgs>),
    /// Show a run as a series of steps: losses, gradients, clipping, spikes
    Series(Replaying<series::SeriesArgs>),
    /// Show pending snapshots one by one, to accept or reject them
    Review(review::ReviewArgs),
    /// Accept pending snapshots
    Accept(accept::AcceptArgs),
    /// Reject pending snapshots
    Reject(reject::RejectArgs),
    /// Show the tensors of a fixture: dtypes, shapes, statistics, provenance, integrity
    Inspect(inspect::InspectArgs),
    /// Show how this machine differs from the one that captured a fixture
    Env(env::EnvArgs),
    /// Show what the front end makes of kernels, and why not a faster form
    Explain(explain::ExplainArgs),
    /// Write a first replay.toml for the CUDA sources of this repository
    Init(Replaying<init::InitArgs>),
    /// Show what works on this machine, and what to do about the rest
    Doctor(doctor::DoctorArgs),
    /// Show the settings in force, and where they come from
    Config(config::ConfigArgs),
    /// Show, shrink or clear the cache
    Cache(cache::CacheArgs),
    /// Explain a command, or show a page of the documentation
    Help(help::HelpArgs),
    /// Write the completions of a shell to standard output
    Completions(completions::CompletionArgs),
    /// Write manual pages to a folder
    Man(completions::ManArgs),
}

/// Whether another process of this program started this one to make one replay.
pub fn is_worker() -> bool {
    is_first_argument(worker::CHILD_ARGUMENT)
}

/// Whether another process of this program started this one to keep a foreign program.
pub fn is_keeper() -> bool {
    is_first_argument(foreign::KEEPER_ARGUMENT)
}

fn is_first_argument(word: &str) -> bool {
    std::env::args_os().nth(1).is_some_and(|argument| argument == word)
}

/// Whether a scheduler started this process on a node, to make one task.
pub fn is_task() -> bool {
    is_first_argument(cluster::TASK_ARGUMENT)
}

/// Makes the task on the command line.
pub fn make_task() -> ExitCode {
    exit::on_signals();
    settle_threads();
    cluster::run_cluster_task()
}

/// Makes one replay for the parent process.
pub fn run_worker() -> ExitCode {
    ExitCode::from(worker::run_child() as u8)
}

/// Keeps a program for the parent process.
pub fn run_keeper() -> ExitCode {
    ExitCode::from(foreign::run_program_keeper())
}

/// Runs the command line.
pub fn run_command_line() -> ExitCode {
    if let Some(code) = completions::answer_completion_request() {
        return code;
    }
    exit::on_signals();
    exit::end_with_parent();
    exit::leave_with(early_end::catch_early_end(|| {
        if let Err(error) = limits::raise_process_limits() {
            error.print();
            return error.exit_code();
        }
        let words = global::put_behind_command(std::env::args_os(), &Cli::command());
        let matches = Cli::command().try_get_matches_from(&words);
        match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
            Ok(cli) => {
                settle_threads();
                cli.global.enter_folder().and_then(|()| dispatch_command(cli)).unwrap_or_else(
                    |error| {
                        error.print();
                        error.exit_code()
                    },
                )
            }
            Err(error) => {
                global::settle_color_of_words(&words);
                exit::print_usage_error(&error, find_misspelt_command(&words).as_deref())
            }
        }
    }))
}

/// Falls back to this thread where the system has no other.
fn settle_threads() {
    if rayon::ThreadPoolBuilder::new().build_global().is_err() {
        let single_thread = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread();
        // There is nothing left to be tried.
        let _ = single_thread.build_global();
    }
}

/// The settings on the command line.
fn flag_layer(cli: &Cli) -> Layer {
    let (layer, jobs) = match &cli.command {
        None => (cli.replay.session.layer(), None),
        Some(Command::Bisect(command)) => (command.session.layer(), command.args.jobs),
        Some(Command::Blame(command)) => (command.session.layer(), command.args.jobs),
        Some(Command::Log(command)) => (command.session.layer(), command.args.jobs),
        Some(Command::Shrink(command)) => (command.session.layer(), None),
        Some(Command::Step(command)) => (command.session.layer(), None),
        Some(Command::Diff(command)) => (command.session.layer(), None),
        Some(Command::Gradcheck(command)) => (command.session.layer(), None),
        Some(Command::Init(command)) => (command.session.layer(), None),
        Some(Command::Series(command)) => (command.session.layer(), None),
        Some(
            Command::Review(_)
            | Command::Accept(_)
            | Command::Reject(_)
            | Command::Inspect(_)
            | Command::Env(_)
            | Command::Explain(_)
            | Command::Doctor(_)
            | Command::Config(_)
            | Command::Help(_)
            | Command::Completions(_)
            | Command::Man(_),
        ) => (Layer::default(), None),
        Some(Command::Cache(args)) => (args.layer(), None),
    };
    Layer {
        color: Setting::from_flag(cli.global.color, "--color"),
        jobs: Setting::from_flag(jobs, "--jobs"),
        ..layer
    }
}

/// The settings of `cli`.
fn load_settings(cli: &Cli) -> CliResult<Settings> {
    Settings::load(flag_layer(cli), !cli.global.no_config)
}

fn dispatch_command(cli: Cli) -> CliResult<u8> {
    let settings = load_settings(&cli);
    if let Ok(settings) = &settings {
        settings.color.value.settle();
    }
    match cli.command {
        None => cli.replay.run(settings?, replay::run_replay),
        Some(Command::Bisect(args)) => args.run(settings?, bisect::run_bisect),
        Some(Command::Blame(args)) => args.run(settings?, blame::run_blame),
        Some(Command::Shrink(args)) => args.run(settings?, shrink::run_shrink),
        Some(Command::Step(args)) => args.run(settings?, step::run_step),
        Some(Command::Log(args)) => args.run(settings?, log::run_log),
        Some(Command::Diff(args)) => args.run(settings?, diff::run_diff),
        Some(Command::Gradcheck(args)) => args.run(settings?, gradcheck::run_gradcheck),
        Some(Command::Series(args)) => args.run(settings?, series::run_series),
        Some(Command::Review(args)) => settings.and_then(|_| review::run_review(&args)),
        Some(Command::Accept(args)) => settings.and_then(|_| accept::run_accept(&args)),
        Some(Command::Reject(args)) => settings.and_then(|_| reject::run_reject(&args)),
        Some(Command::Inspect(args)) => inspect::run_inspect(&args, &settings?),
        Some(Command::Env(args)) => settings.and_then(|_| env::run_env(&args)),
        Some(Command::Explain(args)) => explain::run_explain(&args, &settings?),
        Some(Command::Init(command)) => command.run(settings?, init::run_init),
        // These help with settings that cannot be read.
        Some(Command::Doctor(args)) => doctor::run_doctor(&args, settings),
        Some(Command::Help(args)) => help::run_help(&args),
        Some(Command::Config(args)) => config::run_config(&args, &settings?),
        Some(Command::Cache(args)) => cache::run_cache(&args, &settings?),
        Some(Command::Completions(args)) => completions::run_completions(&args),
        Some(Command::Man(args)) => completions::run_man(&args),
    }
}

/// The command nearest to the first argument, if this is neither a command nor a path.
fn find_misspelt_command(words: &[OsString]) -> Option<String> {
    let word = words.get(1)?.to_string_lossy().into_owned();
    let word = Some(word).filter(|word| !std::path::Path::new(word).exists())?;
    nearest_command(&word).filter(|meant| *meant != word)
}

/// The command whose name is nearly `word`.
fn nearest_command(word: &str) -> Option<String> {
    let command = Cli::command();
    let command_names = command.get_subcommands().map(clap::Command::get_name);
    let (distance, nearest) = command_names
        .map(|name| (strsim::damerau_levenshtein(word, name), name))
        .min_by_key(|(distance, _)| *distance)?;
    (distance <= 2 && distance < word.len()).then(|| nearest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
