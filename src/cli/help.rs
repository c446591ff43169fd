//! `replay help [COMMAND or TOPIC]`: the options of a command, or a page of the documentation.

use clap::CommandFactory;

use super::error::{CliResult, CommandError};
use super::out::print;
use super::{Cli, exit, markdown};

/// The pages of documentation in the program.
const TOPICS: [Topic; 4] = [
    Topic { name: "verdicts", page: include_str!("../../docs/verdicts.md") },
    Topic { name: "harness", page: include_str!("../../docs/harness.md") },
    Topic { name: "fixture", page: include_str!("../../docs/fixture.md") },
    Topic { name: "exit-codes", page: include_str!("../../docs/exit-codes.md") },
];

/// The longest line, however wide the terminal is.
const WIDEST: usize = 100;

struct Topic {
    name: &'static str,
    /// Markdown.
    page: &'static str,
}

/// The arguments of `replay help`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A command, or one of the topics verdicts, harness, fixture, exit-codes
    #[arg(value_name = "COMMAND or TOPIC")]
    words: Vec<String>,
}

/// Prints what was asked for.
pub fn run(args: &Args) -> CliResult<u8> {
    if let Some(topic) = TOPICS.iter().find(|topic| topic.name == args.words.join("-")) {
        print!("{}", markdown::render(topic.page, width()));
        return Ok(exit::SUCCESS);
    }
    let root = Cli::command();
    args.words.iter().try_fold(&root, |command, word| {
        command.find_subcommand(word).ok_or_else(|| unknown(word))
    })?;
    let words = args.words.iter().map(String::as_str);
    let asked = ["replay"].into_iter().chain(words).chain(["--help"]);
    let help = root.try_get_matches_from(asked).err();
    Ok(help.map_or(exit::SUCCESS, |help| exit::usage(&help, None)))
}

fn unknown(word: &str) -> CommandError {
    let topics: Vec<&str> = TOPICS.iter().map(|topic| topic.name).collect();
    let near = super::nearest_command(word);
    CommandError::new(format!("there is neither a command nor a topic `{word}`")).with_hint(
        match near {
            Some(meant) => format!("did you mean `replay help {meant}`?"),
            None => format!("the topics are {}", topics.join(", ")),
        },
    )
}

/// The columns of the terminal.
fn width() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let measured = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    told.or_else(measured).unwrap_or(WIDEST).clamp(40, WIDEST)
}
