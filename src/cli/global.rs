//! `-C DIR`, `--color WHEN` and `--no-config`: options of every command, in front of it or behind.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Command, ValueEnum};

use super::error::{CliResult, CommandError};
use super::settings::values::ColorArg;
use super::settings::{Layer, Setting, Settings};

/// The options of every command.
#[derive(Debug, clap::Args)]
pub struct GlobalArgs {
    /// Begin in this folder, as if the command had been typed there
    #[arg(short = 'C', value_name = "DIR", global = true, help_heading = "Everywhere")]
    begin_in: Option<PathBuf>,
    /// When text is coloured [default: auto]
    #[arg(long, value_enum, value_name = "WHEN", global = true, help_heading = "Everywhere")]
    pub color: Option<ColorArg>,
    /// Read no file of settings: `replay help configuration`
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub no_config: bool,
}

/// Decides about colours for `words` that were not parsed: help and complaints about words obey, too.
pub fn settle_color_of_words(words: &[OsString]) {
    let words = words.iter().filter_map(|word| word.to_str()).take_while(|word| *word != "--");
    let mut color = None;
    let mut reads_files = true;
    let mut is_value = false;
    for word in words {
        let value = if is_value { Some(word) } else { word.strip_prefix("--color=") };
        color = value.and_then(|value| ColorArg::from_str(value, false).ok()).or(color);
        reads_files &= word != "--no-config";
        is_value = word == "--color";
    }
    let flags = Layer { color: Setting::from_flag(color, "--color"), ..Layer::default() };
    // The words have a complaint already: one about settings comes with the next command.
    match Settings::load(flags, reads_files) {
        Ok(settings) => settings.color.value.settle(),
        Err(_) => color.unwrap_or_default().settle(),
    }
}

impl GlobalArgs {
    /// Goes to the folder, for the rest of the process.
    pub fn enter_folder(&self) -> CliResult<()> {
        let Some(folder) = &self.begin_in else { return Ok(()) };
        std::env::set_current_dir(folder).map_err(|error| {
            CommandError::from_error(&error)
                .context(format!("cannot begin in {}", folder.display()))
        })
    }
}

/// `words` with the options of every command behind the command where they stand in front of one, as
/// `git -C DIR log` has them: in front of it they would be those of a replay.
pub fn put_behind_command(
    words: impl IntoIterator<Item = OsString>,
    command: &Command,
) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.into_iter().collect();
    let mut end = 1;
    while let Some(word) = words.get(end).and_then(|word| word.to_str()) {
        match word {
            "-C" | "--color" => end += 2,
            "--no-config" => end += 1,
            _ if word.starts_with("--color=") || word.starts_with("-C") => end += 1,
            _ => break,
        }
    }
    if end > 1
        && let Some(word) = words.get(end).and_then(|word| word.to_str())
        && command.find_subcommand(word).is_some()
    {
        words[1..=end].rotate_right(1);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_every_command_go_behind_it_and_those_of_a_replay_stay() {
        let command = Command::new("replay").subcommand(Command::new("log"));
        let put = |words: &str| {
            let words = words.split(' ').map(OsString::from);
            let words = put_behind_command(words, &command).into_iter();
            words.map(|word| word.into_string().expect("text")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(put("replay -C a --color never log x"), "replay log -C a --color never x");
        assert_eq!(put("replay --color=never -Ca log x"), "replay log --color=never -Ca x");
        assert_eq!(put("replay --no-config log x"), "replay log --no-config x");
        assert_eq!(put("replay -C log x"), "replay -C log x");
        assert_eq!(put("replay -C a x log"), "replay -C a x log");
        assert_eq!(put("replay log -C a"), "replay log -C a");
        assert_eq!(put("replay -C"), "replay -C");
    }
}
