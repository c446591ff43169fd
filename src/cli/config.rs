//! `replay config`: the settings in force, and where they come from.

use ::replay::report::{
    ConfigFilePaths, ConfigOrigin, ConfigSetting, ReportLine, render_config_json, sanitise_line,
};
use anstyle::Style;
use clap::ValueEnum;

use super::error::{CliResult, CommandError};
use super::exit;
use super::out::println;
use super::run_record::run_record;
use super::settings::{Key, Origin, SettingLine, Settings, nearest_key};

/// The arguments of `replay config`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct ConfigArgs {
    /// A setting: its value alone is written
    #[arg(value_name = "KEY")]
    key: Option<String>,
    /// How the result is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: ConfigFormat,
}

/// How settings are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ConfigFormat {
    /// For people
    Text,
    /// For programs; docs/schema.md describes it
    Json,
}

const AFTER_HELP: &str = "\
Settings come from options, then from variables such as REPLAY_TIMEOUT, then from the repository's
replay.config.toml or [tool.replay] of its pyproject.toml, then from ~/.config/replay/config.toml.
`replay help configuration` lists the keys, and what a repository may set.";

/// Shows the settings, or one of them.
pub fn run_config(args: &ConfigArgs, settings: &Settings) -> CliResult<u8> {
    let key = args.key.as_deref().map(find_key).transpose()?;
    let lines = match key {
        Some(key) => vec![settings.line(key)],
        None => settings.lines(),
    };
    match (args.format, key) {
        (ConfigFormat::Json, _) => {
            let files = ConfigFilePaths {
                repository: settings.files.repository.as_ref().map(|p| p.display().to_string()),
                user: settings.files.user.as_ref().map(|p| p.display().to_string()),
            };
            let settings: Vec<ConfigSetting> = lines.into_iter().map(describe_setting).collect();
            println!("{}", render_config_json(&files, &settings, run_record()));
        }
        (ConfigFormat::Text, Some(_)) => {
            let values = lines.iter().filter_map(|line| line.value.as_deref());
            values.for_each(|value| println!("{}", sanitise_line(value)));
        }
        (ConfigFormat::Text, None) => print_settings(&lines),
    }
    Ok(exit::SUCCESS)
}

/// The key of this name.
fn find_key(name: &str) -> CliResult<Key> {
    Key::from_name(name).ok_or_else(|| {
        let nearest = nearest_key(name).map(|nearest| format!(", did you mean `{nearest}`?"));
        let message = format!("there is no setting `{name}`{}", nearest.unwrap_or_default());
        let names = Key::ALL.map(Key::name).join(", ");
        CommandError::new(message).with_hint(format!("the settings are {names}"))
    })
}

/// Prints a line for each setting: its key, its value, and where this comes from.
fn print_settings(lines: &[SettingLine]) {
    /// A longer value moves its own line alone.
    const WIDEST: usize = 32;
    let values: Vec<String> = lines
        .iter()
        .map(|line| line.value.as_deref().map_or("-".into(), sanitise_line).into_owned())
        .collect();
    let widths = values.iter().map(|value| value.chars().count());
    let width = widths.filter(|width| *width <= WIDEST).max().unwrap_or_default();
    for (line, value) in lines.iter().zip(&values) {
        let words = format!("{:14}{value:width$}  ", line.key.name());
        let style = match line.origin {
            Origin::Default => Style::new().dimmed(),
            _ => Style::new(),
        };
        println!(
            "{}",
            ReportLine::from(words).and(ReportLine::with_style(style, line.origin.to_string()))
        );
    }
}

/// `line`, for programs.
fn describe_setting(line: SettingLine) -> ConfigSetting {
    let (origin, name, place) = match line.origin {
        Origin::Flag(name) => (ConfigOrigin::Option, Some(name), None),
        Origin::Variable(name) => (ConfigOrigin::Variable, Some(name), None),
        Origin::Repository(place) => (ConfigOrigin::Repository, None, Some(place)),
        Origin::User(place) => (ConfigOrigin::User, None, Some(place)),
        Origin::Default => (ConfigOrigin::Default, None, None),
    };
    let (path, line_number) =
        place.map(|place| (place.path.display().to_string(), place.line)).unzip();
    ConfigSetting { key: line.key.name(), value: line.value, origin, name, path, line: line_number }
}
