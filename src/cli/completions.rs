//! `replay completions SHELL` and `replay man DIR`: writes completion scripts and manual pages. Scripts ask this program at
//! each press of the key, so that completions know the fixtures and revisions that are there.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::replay::files;
use ::replay::fixture::Fixture;
use ::replay::harness::Harness;
use ::replay::history::History;
use clap::{CommandFactory, ValueEnum};
use clap_complete::CompleteEnv;
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh};

use super::error::{CliResult, ErrorContext};
use super::fixtures::is_fixture;
use super::out::print;
use super::project::open_harness_history;
use super::{Cli, exit};

/// The variable with which a script asks for completions.
const COMPLETION_VARIABLE: &str = "REPLAY_COMPLETE";

/// The arguments of `replay completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionArgs {
    /// The shell that completes commands, options, fixtures and revisions
    #[arg(value_enum, value_name = "SHELL")]
    shell: ShellArg,
}

/// The shells with completions.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ShellArg {
    /// source <(replay completions bash)
    Bash,
    /// eval (replay completions elvish | slurp)
    Elvish,
    /// replay completions fish | source
    Fish,
    /// replay completions powershell | Out-String | Invoke-Expression
    Powershell,
    /// source <(replay completions zsh)
    Zsh,
}

impl ShellArg {
    fn completer(self) -> &'static dyn EnvCompleter {
        match self {
            ShellArg::Bash => &Bash,
            ShellArg::Elvish => &Elvish,
            ShellArg::Fish => &Fish,
            ShellArg::Powershell => &Powershell,
            ShellArg::Zsh => &Zsh,
        }
    }
}

/// Prints the script for the shell.
pub fn run_completions(args: &CompletionArgs) -> CliResult<u8> {
    let mut script = Vec::new();
    args.shell
        .completer()
        .write_registration(COMPLETION_VARIABLE, "replay", "replay", "replay", &mut script)
        .context(|| "cannot write the script".to_owned())?;
    print!("{}", String::from_utf8_lossy(&script));
    Ok(exit::SUCCESS)
}

/// Answers the request of a script for completions, if this is one.
pub fn answer_completion_request() -> Option<ExitCode> {
    let working_folder = std::env::current_dir().ok();
    let answered = CompleteEnv::with_factory(Cli::command)
        .var(COMPLETION_VARIABLE)
        .bin("replay")
        .try_complete(std::env::args_os(), working_folder.as_deref());
    match answered {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        Err(error) => Some(exit::leave_with(exit::print_usage_error(&error, None))),
    }
}

/// Completes the folder of a fixture, or of several.
pub fn fixture_completer() -> ArgValueCompleter {
    ArgValueCompleter::new(PathCompleter::dir())
}

/// Completes a revision, or the last one of a range.
pub fn revision_completer() -> ArgValueCompleter {
    ArgValueCompleter::new(complete_revision)
}

/// Completes fixtures, then revisions.
pub fn fixture_or_revision_completer() -> ArgValueCompleter {
    ArgValueCompleter::new(complete_fixture_or_revision)
}

fn complete_fixture_or_revision(word: &OsStr) -> Vec<CompletionCandidate> {
    let mut candidates = PathCompleter::dir().complete(word);
    if find_named_fixture(std::env::args_os()).is_some() {
        candidates.extend(complete_revision(word));
    }
    candidates
}

fn complete_revision(word: &OsStr) -> Vec<CompletionCandidate> {
    let Some(word) = word.to_str() else { return Vec::new() };
    let (range_start, prefix) = match word.rfind("..") {
        Some(dots) => word.split_at(dots + word[dots..].len().min("..".len())),
        None => ("", word),
    };
    let Some(history) = open_history_of_words(std::env::args_os()) else { return Vec::new() };
    let names = history.complete_revision(prefix);
    names
        .into_iter()
        .map(|completed| {
            CompletionCandidate::new(format!("{range_start}{}", completed.name))
                .help(Some(completed.subject.into()))
        })
        .collect()
}

/// The repository of the fixture that is named on the command line, else the one around this folder.
fn open_history_of_words(words: impl IntoIterator<Item = OsString>) -> Option<History> {
    let Some(fixture) = find_named_fixture(words) else {
        return History::discover(Path::new(".")).ok();
    };
    let harness = Harness::load(&Fixture::harness_path(&fixture).ok()?).ok()?;
    open_harness_history(&harness, None).ok()
}

fn find_named_fixture(words: impl IntoIterator<Item = OsString>) -> Option<PathBuf> {
    words.into_iter().map(PathBuf::from).find(|path| is_fixture(path))
}

/// The arguments of `replay man`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// The folder for a page of each command, such as ~/.local/share/man/man1
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes the pages.
pub fn run_man(args: &ManArgs) -> CliResult<u8> {
    let folder = &args.folder;
    write_manual_pages(folder)
        .context(|| format!("cannot write manual pages to {}", folder.display()))?;
    Ok(exit::SUCCESS)
}

fn write_manual_pages(folder: &Path) -> std::io::Result<()> {
    // Pages go to the folder as files: a link there may lead anywhere.
    let temporary_folder = tempfile::tempdir()?;
    clap_mangen::generate_to(Cli::command(), &temporary_folder)?;
    std::fs::create_dir_all(folder)?;
    for page in std::fs::read_dir(&temporary_folder)? {
        let page = page?;
        files::replace_entry(&folder.join(page.file_name()), &std::fs::read(page.path())?)?;
    }
    Ok(())
}
