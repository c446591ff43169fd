//! `replay env FIXTURE...`: how this machine differs from the one that captured the tensors.

use std::path::{Path, PathBuf};

use ::replay::environment::{
    RecordedEnvironment, RecordedSetting, RecordedVersion, SettingRelation, VersionRelation,
};
use ::replay::report::{RecordedFacts, ReportLine, Text, render_env_json};
use clap::ValueEnum;

use super::completions::fixture_completer;
use super::environments::read_recorded_environment;
use super::error::{CliResult, CommandError};
use super::exit;
use super::fixtures;
use super::other_checkout;
use super::out::{print, println};
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

/// How the environment is shown.
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
                print!("{}", render_facts(&read_facts(&path)?));
            }
        }
        EnvFormat::Json => {
            let recorded: Vec<RecordedFacts> =
                paths.iter().map(|path| read_facts(path)).collect::<Result<_, _>>()?;
            println!("{}", render_env_json(&recorded, run_record()));
        }
    }
    Ok(exit::SUCCESS)
}

/// What the fixture at `path` has recorded, beside what is here.
fn read_facts(path: &Path) -> CliResult<RecordedFacts> {
    let fixture = other_checkout::load_fixture(path)?;
    if fixture.harness.program.is_none() {
        return Err(CommandError::new(format!(
            "{} is of kernels, whose captures record no packages",
            path.display()
        ))
        .with_hint("`replay doctor` shows the compilers here"));
    }
    let RecordedEnvironment { versions, settings } = read_recorded_environment(&fixture)?;
    Ok(RecordedFacts {
        fixture: fixture.name,
        folder: path.display().to_string(),
        others: versions.iter().filter(|version| version.is_other()).count(),
        other_settings: settings.iter().filter(|setting| setting.is_other()).count(),
        versions,
        settings,
    })
}

fn render_facts(facts: &RecordedFacts) -> Text {
    let mut out = Text::new();
    out.line(describe_versions(facts));
    facts.versions.iter().for_each(|version| out.line(render_version(version)));
    if let Some(heading) = describe_settings(facts) {
        out.line(heading);
        facts.settings.iter().for_each(|setting| out.line(render_setting(setting)));
    }
    out
}

/// The line above the versions.
fn describe_versions(facts: &RecordedFacts) -> ReportLine {
    let RecordedFacts { fixture, others, versions, .. } = facts;
    let compared =
        versions.iter().filter(|version| version.relation != VersionRelation::NotCompared);
    ReportLine::from(match (compared.count(), others) {
        _ if versions.is_empty() => format!("{fixture} records no versions"),
        (known, 0) => format!("{fixture}: all {known} recorded versions are here"),
        (known, others) => {
            format!("{fixture}: {others} of {known} recorded versions are others here")
        }
    })
}

/// The line above the settings, if there are any.
fn describe_settings(facts: &RecordedFacts) -> Option<ReportLine> {
    let RecordedFacts { other_settings, settings, .. } = facts;
    let compared =
        settings.iter().filter(|setting| setting.relation != SettingRelation::NotCompared);
    let compared = compared.count();
    let words = match (compared, other_settings) {
        _ if settings.is_empty() => return None,
        (0, _) => "settings, which a program sets itself".to_owned(),
        (_, 0) => format!("settings: all {compared} that can be compared are the same here"),
        (_, others) => {
            format!("settings: {others} of {compared} that can be compared are others here")
        }
    };
    Some(ReportLine::from(words))
}

fn render_version(version: &RecordedVersion) -> ReportLine {
    let RecordedVersion { name, captured, here, .. } = version;
    ReportLine::from(match (version.relation, here) {
        (VersionRelation::OtherVersion, Some(here)) => format!("  {name} {captured}, here {here}"),
        (VersionRelation::OtherContents, _) => {
            format!("  {name} {captured}, here of other contents")
        }
        (VersionRelation::NotInstalled, _) => format!("  {name} {captured}, not installed here"),
        (VersionRelation::NotCompared, _) => format!("  {name} {captured}, not compared"),
        _ if version.is_editable() => {
            format!("  {name} {captured}, an editable installation: contents are not compared")
        }
        _ if version.captured_contents.is_some() && version.contents_here.is_none() => {
            format!("  {name} {captured}, contents are not known here")
        }
        _ => format!("  {name} {captured}"),
    })
}

fn render_setting(setting: &RecordedSetting) -> ReportLine {
    let RecordedSetting { name, captured, here, relation } = setting;
    ReportLine::from(match (captured, here) {
        (Some(captured), _) if *relation == SettingRelation::NotCompared => {
            format!("  {name} = {captured}, not compared")
        }
        (Some(captured), Some(here)) if captured != here => {
            format!("  {name} = {captured}, here {here}")
        }
        (Some(captured), Some(_)) => format!("  {name} = {captured}"),
        (Some(captured), None) => format!("  {name} = {captured}, not set here"),
        (None, here) => format!("  {name} not set, here {}", here.as_deref().unwrap_or_default()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(name: &str, relation: VersionRelation, contents: [&str; 2]) -> RecordedVersion {
        let [captured_contents, contents_here] =
            contents.map(|text| (!text.is_empty()).then(|| text.to_owned()));
        RecordedVersion {
            name: name.to_owned(),
            captured: "1.0".to_owned(),
            here: match relation {
                VersionRelation::Same | VersionRelation::OtherContents => Some("1.0".to_owned()),
                VersionRelation::OtherVersion => Some("2.0".to_owned()),
                VersionRelation::NotInstalled | VersionRelation::NotCompared => None,
            },
            captured_contents,
            contents_here,
            relation,
        }
    }

    fn setting(
        name: &str,
        values: [Option<&str>; 2],
        relation: SettingRelation,
    ) -> RecordedSetting {
        let [captured, here] = values.map(|value| value.map(str::to_owned));
        RecordedSetting { name: name.to_owned(), captured, here, relation }
    }

    fn facts(versions: Vec<RecordedVersion>, settings: Vec<RecordedSetting>) -> RecordedFacts {
        RecordedFacts {
            fixture: "step0".to_owned(),
            folder: "fixtures/step0".to_owned(),
            others: versions.iter().filter(|version| version.is_other()).count(),
            other_settings: settings.iter().filter(|setting| setting.is_other()).count(),
            versions,
            settings,
        }
    }

    #[test]
    fn every_difference_is_shown_and_what_is_not_compared_says_so() {
        let versions = vec![
            version("numpy", VersionRelation::Same, ["aa", "aa"]),
            version("torch", VersionRelation::OtherContents, ["aa", "bb"]),
            version("triton", VersionRelation::OtherVersion, ["aa", "bb"]),
            version("gone", VersionRelation::NotInstalled, ["aa", ""]),
            version("mine", VersionRelation::Same, ["editable", "bb"]),
            version("unknown", VersionRelation::Same, ["aa", ""]),
            version("cudnn", VersionRelation::NotCompared, ["", ""]),
        ];
        let (same, other) = (SettingRelation::Same, SettingRelation::Other);
        let settings = vec![
            setting("torch.get_num_threads()", [Some("8"), None], SettingRelation::NotCompared),
            setting("TRITON_F32_DEFAULT", [Some("ieee"), Some("ieee")], same),
            setting("XLA_FLAGS", [Some("--a"), Some("--b")], other),
            setting("NVIDIA_TF32_OVERRIDE", [Some("0"), None], other),
            setting("MKL_CBWR", [None, Some("AVX2")], other),
        ];
        insta::assert_snapshot!(render_facts(&facts(versions, settings)), @"
        step0: 3 of 6 recorded versions are others here
          numpy 1.0
          torch 1.0, here of other contents
          triton 1.0, here 2.0
          gone 1.0, not installed here
          mine 1.0, an editable installation: contents are not compared
          unknown 1.0, contents are not known here
          cudnn 1.0, not compared
        settings: 3 of 4 that can be compared are others here
          torch.get_num_threads() = 8, not compared
          TRITON_F32_DEFAULT = ieee
          XLA_FLAGS = --a, here --b
          NVIDIA_TF32_OVERRIDE = 0, not set here
          MKL_CBWR not set, here AVX2
        ");
    }

    #[test]
    fn headings_tell_that_nothing_differs_or_that_nothing_is_compared() {
        let versions = || vec![version("numpy", VersionRelation::Same, ["", ""])];
        let flag = setting("torch.f", [Some("true"), None], SettingRelation::NotCompared);
        let variable = setting("MKL_CBWR", [Some("A"), Some("A")], SettingRelation::Same);
        let shown = [
            facts(Vec::new(), Vec::new()),
            facts(versions(), vec![flag]),
            facts(versions(), vec![variable]),
        ];
        let shown = shown.map(|facts| render_facts(&facts).to_string());
        insta::assert_snapshot!(shown.concat(), @"
        step0 records no versions
        step0: all 1 recorded versions are here
          numpy 1.0
        settings, which a program sets itself
          torch.f = true, not compared
        step0: all 1 recorded versions are here
          numpy 1.0
        settings: all 1 that can be compared are the same here
          MKL_CBWR = A
        ");
    }
}
