//! `replay env FIXTURE...`: how this machine differs from the one that captured the tensors.

use std::path::{Path, PathBuf};

use ::replay::environment::RecordedVersion;
use ::replay::report::{RecordedVersions, ReportLine, render_env_json};
use clap::ValueEnum;

use super::completions::fixture_completer;
use super::environments::list_recorded_versions;
use super::error::{CliResult, CommandError};
use super::exit;
use super::fixtures;
use super::other_checkout;
use super::out::println;
use super::run_record::run_record;

/// The arguments of `replay env`.
#[derive(Debug, clap::Args)]
pub struct EnvArgs {
    /// Folders of captured tensors
    #[arg(required = true, value_name = "FIXTURE", add = fixture_completer())]
    fixtures: Vec<PathBuf>,
    /// How the result is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: EnvFormat,
}

/// How versions are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EnvFormat {
    /// For people
    Text,
    /// For programs; docs/schema.md describes it
    Json,
}

/// Shows what each fixture has recorded, beside what is here.
pub fn run_env(args: &EnvArgs) -> CliResult<u8> {
    let paths = fixtures::expand_fixtures(&args.fixtures);
    match args.format {
        EnvFormat::Text => {
            for path in paths {
                print_versions(&read_versions(&path)?);
            }
        }
        EnvFormat::Json => {
            let recorded: Vec<RecordedVersions> =
                paths.iter().map(|path| read_versions(path)).collect::<Result<_, _>>()?;
            println!("{}", render_env_json(&recorded, run_record()));
        }
    }
    Ok(exit::SUCCESS)
}

/// What the fixture at `path` has recorded, beside what is here.
fn read_versions(path: &Path) -> CliResult<RecordedVersions> {
    let fixture = other_checkout::load_fixture(path)?;
    if fixture.harness.program.is_none() {
        return Err(CommandError::new(format!(
            "{} is of kernels, whose captures record no packages",
            path.display()
        ))
        .with_hint("`replay doctor` shows the compilers here"));
    }
    let versions = list_recorded_versions(&fixture)?;
    let others = versions.iter().filter(|version| !version.is_same()).count();
    let folder = path.display().to_string();
    Ok(RecordedVersions { fixture: fixture.name, folder, others, versions })
}

fn print_versions(recorded: &RecordedVersions) {
    println!("{}", describe_versions(recorded));
    for version in &recorded.versions {
        println!("{}", render_version(version));
    }
}

/// The line above the versions.
fn describe_versions(recorded: &RecordedVersions) -> ReportLine {
    let RecordedVersions { fixture, others, versions, .. } = recorded;
    ReportLine::from(match (versions.len(), others) {
        (0, _) => format!("{fixture} records no versions"),
        (known, 0) => format!("{fixture}: all {known} recorded versions are here"),
        (known, others) => {
            format!("{fixture}: {others} of {known} recorded versions are others here")
        }
    })
}

fn render_version(version: &RecordedVersion) -> ReportLine {
    let RecordedVersion { name, captured, here } = version;
    ReportLine::from(match here {
        _ if version.is_same() => format!("  {name} {captured}"),
        Some(here) => format!("  {name} {captured}, here {here}"),
        None => format!("  {name} {captured}, not installed here"),
    })
}
