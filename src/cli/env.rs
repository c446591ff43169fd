//! `replay env FIXTURE...`: how this machine differs from the one that captured the tensors.

use std::path::PathBuf;

use ::replay::environment::RecordedVersion;
use ::replay::report::ReportLine;

use super::completions::fixture_completer;
use super::environments::list_recorded_versions;
use super::error::{CliResult, CommandError};
use super::exit;
use super::fixtures;
use super::other_checkout;
use super::out::println;

/// The arguments of `replay env`.
#[derive(Debug, clap::Args)]
pub struct EnvArgs {
    /// Folders of captured tensors
    #[arg(required = true, value_name = "FIXTURE", add = fixture_completer())]
    fixtures: Vec<PathBuf>,
}

/// Prints what each fixture has recorded, beside what is here.
pub fn run_env(args: &EnvArgs) -> CliResult<u8> {
    for path in fixtures::expand_fixtures(&args.fixtures) {
        let fixture = other_checkout::load_fixture(&path)?;
        if fixture.harness.program.is_none() {
            return Err(CommandError::new(format!(
                "{} is of kernels, whose captures record no packages",
                path.display()
            ))
            .with_hint("`replay doctor` shows the compilers here"));
        }
        let versions = list_recorded_versions(&fixture)?;
        println!("{}", describe_versions(&fixture.name, &versions));
        for version in &versions {
            println!("{}", render_version(version));
        }
    }
    Ok(exit::SUCCESS)
}

/// The line above the versions of the fixture `name`.
fn describe_versions(name: &str, versions: &[RecordedVersion]) -> ReportLine {
    let others = versions.iter().filter(|version| !version.is_same()).count();
    ReportLine::from(match (versions.len(), others) {
        (0, _) => format!("{name} records no versions"),
        (known, 0) => format!("{name}: all {known} recorded versions are here"),
        (known, others) => format!("{name}: {others} of {known} recorded versions are others here"),
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
