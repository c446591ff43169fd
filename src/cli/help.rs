//! `replay help [COMMAND or TOPIC]`: the options of a command, or a page of the documentation.

use clap::CommandFactory;

use super::error::{CliResult, CommandError};
use super::out::{print, println};
use super::{Cli, exit, markdown};

/// The pages of documentation in the program.
const TOPICS: [Topic; 34] = [
    Topic { name: "architecture", page: include_str!("../../docs/architecture.md") },
    Topic { name: "benchmarks", page: include_str!("../../docs/benchmarks.md") },
    Topic { name: "bisect", page: include_str!("../../docs/bisect.md") },
    Topic { name: "cache", page: include_str!("../../docs/cache.md") },
    Topic { name: "capture", page: include_str!("../../docs/capture.md") },
    Topic { name: "checksum", page: include_str!("../../docs/checksum.md") },
    Topic { name: "cluster", page: include_str!("../../docs/cluster.md") },
    Topic { name: "comparison", page: include_str!("../../docs/comparison.md") },
    Topic { name: "configuration", page: include_str!("../../docs/configuration.md") },
    Topic {
        name: "continuous-integration",
        page: include_str!("../../docs/continuous-integration.md"),
    },
    Topic { name: "cuda-support", page: include_str!("../../docs/cuda-support.md") },
    Topic { name: "environments", page: include_str!("../../docs/environments.md") },
    Topic { name: "exit-codes", page: include_str!("../../docs/exit-codes.md") },
    Topic { name: "fixture", page: include_str!("../../docs/fixture.md") },
    Topic { name: "formats", page: include_str!("../../docs/formats.md") },
    Topic { name: "frontend", page: include_str!("../../docs/frontend.md") },
    Topic { name: "fuzzing", page: include_str!("../../docs/fuzzing.md") },
    Topic { name: "getting-started", page: include_str!("../../docs/getting-started.md") },
    Topic { name: "glossary", page: include_str!("../../docs/glossary.md") },
    Topic { name: "gpu", page: include_str!("../../docs/gpu.md") },
    Topic { name: "harness", page: include_str!("../../docs/harness.md") },
    Topic { name: "pages", page: include_str!("../../docs/pages.md") },
    Topic { name: "programs", page: include_str!("../../docs/programs.md") },
    Topic { name: "python", page: include_str!("../../docs/python.md") },
    Topic { name: "races", page: include_str!("../../docs/races.md") },
    Topic { name: "recipes", page: include_str!("../../docs/recipes.md") },
    Topic { name: "sandbox", page: include_str!("../../docs/sandbox.md") },
    Topic { name: "schema", page: include_str!("../../docs/schema.md") },
    Topic { name: "series", page: include_str!("../../docs/series.md") },
    Topic { name: "shrink", page: include_str!("../../docs/shrink.md") },
    Topic { name: "snapshots", page: include_str!("../../docs/snapshots.md") },
    Topic { name: "step", page: include_str!("../../docs/step.md") },
    Topic { name: "troubleshooting", page: include_str!("../../docs/troubleshooting.md") },
    Topic { name: "verdicts", page: include_str!("../../docs/verdicts.md") },
];

/// The longest line, however wide the terminal is.
const WIDEST: usize = 100;

struct Topic {
    name: &'static str,
    page: &'static str,
}

/// The arguments of `replay help`.
#[derive(Debug, clap::Args)]
pub struct HelpArgs {
    /// A command, or a page of the documentation: `replay help topics` names them
    #[arg(value_name = "COMMAND or TOPIC")]
    words: Vec<String>,
}

/// Prints the requested help.
pub fn run_help(args: &HelpArgs) -> CliResult<u8> {
    if args.words == ["topics"] {
        let width = TOPICS.iter().map(|topic| topic.name.len() + 2).max().unwrap_or_default();
        for topic in &TOPICS {
            println!("{:width$}{}", topic.name, page_title(topic.page));
        }
        return Ok(exit::SUCCESS);
    }
    // The page with a command's name stands behind it: `replay help page bisect`.
    let (words, page_alone) = match args.words.as_slice() {
        [first, page_words @ ..] if first == "page" => (page_words, true),
        words => (words, false),
    };
    let is_command = !page_alone && Cli::command().find_subcommand(words.join("-")).is_some();
    if !is_command && let Some(topic) = TOPICS.iter().find(|topic| topic.name == words.join("-")) {
        print!("{}", markdown::render_markdown_page(topic.page, terminal_width()));
        return Ok(exit::SUCCESS);
    }
    let root = Cli::command();
    words.iter().try_fold(&root, |command, word| {
        command.find_subcommand(word).ok_or_else(|| unknown_topic_error(word))
    })?;
    let words = words.iter().map(String::as_str);
    let help_words = ["replay"].into_iter().chain(words).chain(["--help"]);
    let help = root.try_get_matches_from(help_words).err();
    Ok(help.map_or(exit::SUCCESS, |help| exit::print_usage_error(&help, None)))
}

/// The title of a page.
fn page_title(page: &str) -> &str {
    page.lines().next().unwrap_or_default().trim_start_matches("# ")
}

fn unknown_topic_error(word: &str) -> CommandError {
    let nearest = super::nearest_command(word);
    CommandError::new(format!("there is neither a command nor a topic `{word}`")).with_hint(
        match nearest {
            Some(meant) => format!("did you mean `replay help {meant}`?"),
            None => "`replay help topics` names the pages of the documentation".to_owned(),
        },
    )
}

/// The columns of the terminal.
fn terminal_width() -> usize {
    let environment_width = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let width = environment_width
        .or_else(|| terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)));
    width.unwrap_or(WIDEST).clamp(40, WIDEST)
}
