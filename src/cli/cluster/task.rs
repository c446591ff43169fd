//! One task on a node.

use std::fs::File;
use std::path::Path;
use std::process::{Command as Process, ExitCode, Stdio};

use ::replay::bisect::Look;
use ::replay::cluster::{TaskFailure, TaskReport, end_with_parent, perform_array_task};
use clap::{CommandFactory, FromArgMatches};
use serde_json::Value;

use super::super::error::{CliResult, CommandError, ErrorContext};
use super::super::session::{Session, SessionArgs};
use super::super::{Cli, Command, bisect, exit, load_settings, log, replay, run_record};
use super::{ClusterWork, ClusterWorkKind};

/// Makes the task on the command line: its array's folder, and its number.
pub fn run_cluster_task() -> ExitCode {
    let words: Vec<String> =
        std::env::args_os().skip(2).map(|word| word.to_string_lossy().into_owned()).collect();
    let [folder, number] = words.as_slice() else {
        return ExitCode::from(exit::NOT_ABOUT_THE_KERNEL);
    };
    let Ok(number) = number.parse() else { return ExitCode::from(exit::NOT_ABOUT_THE_KERNEL) };
    if !end_with_parent() {
        return ExitCode::from(exit::INTERRUPTED);
    }
    match perform_array_task(Path::new(folder), number, |work: ClusterWork| {
        report_cluster_work(&work)
    }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            CommandError::from(error).print();
            ExitCode::from(exit::NOT_ABOUT_THE_KERNEL)
        }
    }
}

fn report_cluster_work(work: &ClusterWork) -> TaskReport<Value> {
    let (device, found) = match perform_cluster_work(work) {
        Ok((device, answer)) => (device, Ok(answer)),
        Err(error) => {
            let hint = (!error.hints().is_empty()).then(|| error.hints().join("; "));
            (String::new(), Err(TaskFailure { message: error.in_a_line(), hint }))
        }
    };
    TaskReport { node: cluster_node_name(), device, found }
}

/// The name of this node, as the scheduler knows it.
fn cluster_node_name() -> String {
    let slurm_node = std::env::var("SLURMD_NODENAME").ok().filter(|name| !name.is_empty());
    slurm_node.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

/// Makes the task. Returns the class of the device, and the finding.
fn perform_cluster_work(work: &ClusterWork) -> CliResult<(String, Value)> {
    std::env::set_current_dir(&work.folder)
        .context(|| format!("cannot enter {}", work.folder.display()))?;
    let cli = parse_command_words(&work.words)?;
    let session = Session::open(command_session_options(&cli), load_settings(&cli)?)?;
    let device = session.device_classes()?;
    let answer = match (&work.what, &cli.command) {
        (ClusterWorkKind::Whole { stdout, stderr, colours }, _) => {
            run_whole_command(&work.words, stdout, stderr, *colours)?.into()
        }
        (ClusterWorkKind::Direction, Some(Command::Bisect(command))) => {
            serde_json::to_value(bisect::find_direction(&command.args, &session)?)?
        }
        (ClusterWorkKind::Test { commit, orders }, Some(Command::Bisect(command))) => {
            let look = Look { commit: parse_task_commit(commit)?, orders: *orders };
            serde_json::to_value(bisect::run_search_test(&command.args, &session, look)?)?
        }
        (ClusterWorkKind::Compile { commit }, Some(Command::Bisect(command))) => {
            bisect::compile_search_commit(&command.args, &session, parse_task_commit(commit)?)?;
            Value::Null
        }
        (ClusterWorkKind::Variant { commit, fixture }, Some(Command::Log(command))) => {
            let fingerprint =
                log::replay_for_log(&command.args, &session, *fixture, parse_task_commit(commit)?);
            fingerprint?.into()
        }
        (ClusterWorkKind::Judgement { commit, fixture }, Some(Command::Log(command))) => {
            log::judge_for_log(&command.args, &session, *fixture, parse_task_commit(commit)?)?;
            Value::Null
        }
        (ClusterWorkKind::Fixture { path }, None) => {
            replay::run_replay(&cli.replay.args.only(path), &session)?;
            Value::Null
        }
        _ => return Err(CommandError::new("the words of the command do not fit the task")),
    };
    Ok((device, answer))
}

fn parse_task_commit(commit: &str) -> CliResult<::replay::history::CommitId> {
    commit.parse().map_err(|_| CommandError::new(format!("`{commit}` names no commit")))
}

fn parse_command_words(words: &[String]) -> CliResult<Cli> {
    let words = std::iter::once("replay").chain(words.iter().map(String::as_str));
    let matches = Cli::command().try_get_matches_from(words);
    matches
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .map_err(|error| CommandError::new(error.to_string()))
}

/// The command's options of replays.
fn command_session_options(cli: &Cli) -> &SessionArgs {
    match &cli.command {
        Some(Command::Bisect(command)) => &command.session,
        Some(Command::Log(command)) => &command.session,
        _ => &cli.replay.session,
    }
}

fn create_output_file(path: &Path) -> CliResult<File> {
    File::create(path).context(|| format!("cannot write {}", path.display()))
}

/// Runs the command; returns its exit code.
fn run_whole_command(
    words: &[String],
    stdout: &Path,
    stderr: &Path,
    colours: bool,
) -> CliResult<u8> {
    let own_program = std::env::current_exe().context(|| "cannot find this program's own file")?;
    let mut process = Process::new(own_program);
    process.args(words);
    // What the tests were answered has been told while they ran.
    let sets_verbosity = words.iter().any(|word| {
        word.starts_with("-v") || ["--verbose", "-q", "--quiet"].contains(&word.as_str())
    });
    if !sets_verbosity {
        process.arg("--quiet");
    }
    // The text is that of the command that was asked, which names its own run.
    process.env(run_record::WITHOUT_HEAD, "1");
    process.stdin(Stdio::null());
    process.stdout(create_output_file(stdout)?).stderr(create_output_file(stderr)?);
    if colours {
        process.env("CLICOLOR_FORCE", "1");
    }
    let status = process.status().context(|| "cannot start the command")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.ok_or_else(|| CommandError::new(format!("the command was ended: {status}")))
}
