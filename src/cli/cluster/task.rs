//! One task on a node.

use std::fs::File;
use std::path::Path;
use std::process::{Command as Process, ExitCode, Stdio};

use ::replay::bisect::Look;
use ::replay::cluster::{Failed, Report, end_with_parent, perform};
use clap::{CommandFactory, FromArgMatches};
use serde_json::Value;

use super::super::error::{CliResult, CommandError, Context};
use super::super::{Cli, Command, bisect, exit, log, replay, run_record};
use super::{What, Work};

/// Makes the task that the command line names: its array's folder, and its number.
pub fn work() -> ExitCode {
    let words: Vec<String> =
        std::env::args_os().skip(2).map(|word| word.to_string_lossy().into_owned()).collect();
    let [folder, number] = words.as_slice() else {
        return ExitCode::from(exit::NOT_ABOUT_THE_KERNEL);
    };
    let Ok(number) = number.parse() else { return ExitCode::from(exit::NOT_ABOUT_THE_KERNEL) };
    if !end_with_parent() {
        return ExitCode::from(exit::INTERRUPTED);
    }
    match perform(Path::new(folder), number, |work: Work| report(&work)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            CommandError::from(error).print();
            ExitCode::from(exit::NOT_ABOUT_THE_KERNEL)
        }
    }
}

fn report(work: &Work) -> Report<Value> {
    let (device, found) = match made(work) {
        Ok((device, found)) => (device, Ok(found)),
        Err(error) => {
            let hint = (!error.hints().is_empty()).then(|| error.hints().join("; "));
            (String::new(), Err(Failed { message: error.in_a_line(), hint }))
        }
    };
    Report { node: node(), device, found }
}

/// The name of this node, as the scheduler knows it.
fn node() -> String {
    let named = std::env::var("SLURMD_NODENAME").ok().filter(|name| !name.is_empty());
    named.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

/// Makes the task; returns the class of the device, and what was found.
fn made(work: &Work) -> CliResult<(String, Value)> {
    std::env::set_current_dir(&work.folder)
        .context(|| format!("cannot enter {}", work.folder.display()))?;
    let cli = parsed(&work.words)?;
    let device = device(&cli)?;
    let found = match (&work.what, &cli.command) {
        (What::Whole { stdout, stderr, colours }, _) => {
            whole(&work.words, stdout, stderr, *colours)?.into()
        }
        (What::Direction, Some(Command::Bisect(command))) => {
            serde_json::to_value(bisect::find_direction(&command.args, &command.session)?)?
        }
        (What::Test { commit, orders }, Some(Command::Bisect(command))) => {
            let look = Look { commit: parse(commit)?, orders: *orders };
            serde_json::to_value(bisect::look(&command.args, &command.session, look)?)?
        }
        (What::Compile { commit }, Some(Command::Bisect(command))) => {
            bisect::compile(&command.args, &command.session, parse(commit)?)?;
            Value::Null
        }
        (What::Variant { commit, fixture }, Some(Command::Log(command))) => {
            let found = log::replay_one(&command.args, &command.session, *fixture, parse(commit)?);
            found?.into()
        }
        (What::Judgement { commit, fixture }, Some(Command::Log(command))) => {
            log::judge_one(&command.args, &command.session, *fixture, parse(commit)?)?;
            Value::Null
        }
        (What::Fixture { path }, None) => {
            replay::run(&cli.replay.args.only(path), &cli.replay.session)?;
            Value::Null
        }
        _ => return Err(CommandError::new("the words of the command do not fit the task")),
    };
    Ok((device, found))
}

fn parse(commit: &str) -> CliResult<::replay::history::CommitId> {
    commit.parse().map_err(|_| CommandError::new(format!("`{commit}` names no commit")))
}

fn parsed(words: &[String]) -> CliResult<Cli> {
    let words = std::iter::once("replay").chain(words.iter().map(String::as_str));
    let matches = Cli::command().try_get_matches_from(words);
    matches
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .map_err(|error| CommandError::new(error.to_string()))
}

/// The class of the device that the command runs on here.
fn device(cli: &Cli) -> CliResult<String> {
    let session = match &cli.command {
        Some(Command::Bisect(command)) => &command.session,
        Some(Command::Log(command)) => &command.session,
        _ => &cli.replay.session,
    };
    session.device_classes()
}

/// Runs the command; returns its exit code.
fn whole(words: &[String], stdout: &Path, stderr: &Path, colours: bool) -> CliResult<u8> {
    let own = std::env::current_exe().context(|| "cannot find this program's own file")?;
    let file =
        |path: &Path| File::create(path).context(|| format!("cannot write {}", path.display()));
    let mut process = Process::new(own);
    process.args(words);
    // What the tests were answered has been told while they ran.
    let says = |word: &String| {
        word.starts_with("-v") || ["--verbose", "-q", "--quiet"].contains(&word.as_str())
    };
    if !words.iter().any(says) {
        process.arg("--quiet");
    }
    // The text is that of the command that was asked, which names its own run.
    process.env(run_record::WITHOUT_HEAD, "1");
    process.stdin(Stdio::null()).stdout(file(stdout)?).stderr(file(stderr)?);
    if colours {
        process.env("CLICOLOR_FORCE", "1");
    }
    let status = process.status().context(|| "cannot start the command")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.ok_or_else(|| CommandError::new(format!("the command was ended: {status}")))
}
