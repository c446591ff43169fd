//! `replay series FIXTURE... [--rev REV] [--against REV]`: a run as a series of steps.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::replay::cache::Cache;
use ::replay::fixture::Fixture;
use ::replay::harness::Harness;
use ::replay::report::{self, RefusedFixture, Revision, SeriesReport};
use ::replay::series::{self, NamedStep, Series, SeriesStep, TensorCatalogue};
use ::replay::trial::Lab;
use clap::ValueEnum;

use super::completions::{fixture_completer, revision_completer};
use super::error::{CliResult, CommandError};
use super::exit;
use super::fixtures;
use super::out::{print, println};
use super::progress::Progress;
use super::project::Project;
use super::replay::{create_fixture_refusal, target_name};
use super::report_file::{FILES, FileFormat, ReportFiles};
use super::run_record::{self, run_record};
use super::session::Session;

/// The arguments of `replay series`.
#[derive(Debug, clap::Args)]
pub struct SeriesArgs {
    /// Folders of captured tensors, one a step; or a folder of such folders
    #[arg(required = true, value_name = "FIXTURE", add = fixture_completer())]
    fixtures: Vec<PathBuf>,
    /// The revision at which outputs are replayed [default: as captured]
    #[arg(short, long, value_name = "REV", add = revision_completer())]
    rev: Option<String>,
    /// A revision that is trusted, to compare each step with
    #[arg(short, long, value_name = "REV", add = revision_completer())]
    against: Option<String>,
    /// The norm above which the training clips its gradients [default: as captured]
    #[arg(long, value_name = "NORM", value_parser = parse_norm_arg, allow_negative_numbers = true)]
    clip: Option<f64>,
    /// How the result is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: SeriesFormat,
    /// Write the result to a file too, or to several; the ending names the format: .html, .json
    #[arg(long, value_name = "FILE")]
    report: Vec<PathBuf>,
}

/// How a series is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SeriesFormat {
    /// For people
    Text,
    /// For programs; docs/series.md describes it
    Json,
    /// A table with a line for each step
    Csv,
    /// One page to look at
    Html,
}

/// A norm, as the user says it.
fn parse_norm_arg(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(norm) if norm.is_finite() && norm > 0.0 => Ok(norm),
        Ok(norm) if norm <= 0.0 => Err("must be more than 0".to_owned()),
        _ => Err("not a number".to_owned()),
    }
}

/// Takes the numbers of one step after the other, and prints the findings. A failed step does not stop the others.
pub fn run_series(args: &SeriesArgs, session: &Session) -> CliResult<u8> {
    let files = ReportFiles::named(&args.report, &FILES)?;
    let (steps, numbering, mut errors) =
        name_series_steps(&fixtures::expand_fixtures(&args.fixtures));
    let harness = harness_of_all(&steps)?;
    let catalogue =
        harness.as_ref().map_or_else(TensorCatalogue::default, TensorCatalogue::from_harness);
    let replays = args.rev.is_some() || args.against.is_some();
    let lab = match &harness {
        Some(harness) if replays => Some(session.lab_for(harness)?),
        _ => None,
    };
    let cache = session.cache();
    let mut walk = SeriesWalk { args, cache, lab, revision: None, against: None, device: None };
    let mut measured_steps = Vec::new();
    let progress = Progress::start();
    for (index, step) in steps.iter().enumerate() {
        let progress_words = format!("{} of {}: {}", index + 1, steps.len(), step.path.display());
        match walk.step(step, &progress, &progress_words) {
            Ok(step) => measured_steps.push(step),
            Err(error) => {
                progress.hidden(|| error.print());
                errors.push((create_fixture_refusal(&step.path, &error), error.exit_code()));
            }
        }
    }
    drop(progress);
    let series = Series { catalogue, steps: measured_steps, numbering, clip: args.clip };
    let code = errors.iter().map(|(_, code)| *code).fold(exit::SUCCESS, exit::worse_exit_code);
    let report = SeriesReport {
        findings: series::analyse_series(&series),
        series,
        replayed: replays,
        revision: walk.revision,
        against: walk.against,
        device: walk.device,
        errors: errors.into_iter().map(|(refusal, _)| refusal).collect(),
    };
    match args.format {
        SeriesFormat::Text if report.series.steps.is_empty() => {}
        SeriesFormat::Text => {
            run_record::print_record_head(&[]);
            print!("{}", report::render_series_text(&report));
        }
        SeriesFormat::Json => println!("{}", report::render_series_json(&report, run_record())),
        SeriesFormat::Csv => print!("{}", report::render_series_csv(&report, run_record())),
        SeriesFormat::Html => print!("{}", report::series_html(&report, run_record())),
    }
    files.write(|format| match format {
        FileFormat::Json => format!("{}\n", report::render_series_json(&report, run_record())),
        _ => report::series_html(&report, run_record()),
    })?;
    Ok(exit::worse_exit_code(code, exit::standing_exit_code(report.standing())))
}

/// The steps in their order; those whose `fixture.toml` cannot be read are printed, with their exit codes.
fn name_series_steps(
    paths: &[PathBuf],
) -> (Vec<NamedStep>, series::Numbering, Vec<(RefusedFixture, u8)>) {
    let mut steps = Vec::new();
    let mut errors = Vec::new();
    for path in paths {
        match Fixture::provenance_of(path).map_err(CommandError::from) {
            Ok(provenance) => {
                let number = series::parse_step_number(provenance.step.as_deref());
                steps.push(NamedStep { path: path.clone(), number });
            }
            Err(error) => {
                error.print();
                errors.push((create_fixture_refusal(path, &error), error.exit_code()));
            }
        }
    }
    let (steps, numbering) = series::order_steps(steps);
    (steps, numbering, errors)
}

/// The harness of all steps; none where there are no steps.
fn harness_of_all(steps: &[NamedStep]) -> CliResult<Option<Harness>> {
    let mut first_harness: Option<(PathBuf, PathBuf)> = None;
    for step in steps {
        let path = Fixture::harness_path(&step.path)?;
        match &first_harness {
            None => first_harness = Some((path, step.path.clone())),
            Some((first, _)) if is_same(first, &path) => {}
            Some((first, first_step)) => {
                return Err(CommandError::new(format!(
                    "{} and {} are steps of different harnesses: {} and {}",
                    first_step.display(),
                    step.path.display(),
                    first.display(),
                    path.display()
                ))
                .with_hint("a series is of one function: name the steps of one harness"));
            }
        }
    }
    Ok(first_harness.map(|(path, _)| Harness::load(&path)).transpose()?)
}

/// Whether two paths lead to the same harness, or to copies of it.
fn is_same(one: &Path, other: &Path) -> bool {
    if one == other {
        return true;
    }
    let leads_to_same = match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    };
    let has_same_text = match (std::fs::read(one), std::fs::read(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    };
    leads_to_same || has_same_text
}

/// The state between steps.
struct SeriesWalk<'a> {
    args: &'a SeriesArgs,
    cache: &'a Cache,
    /// The lab of the replays; none where captured outputs are shown.
    lab: Option<&'a Arc<Lab>>,
    revision: Option<Revision>,
    against: Option<Revision>,
    device: Option<(String, String)>,
}

impl SeriesWalk<'_> {
    /// The numbers of one step. Its tensors are dropped when this returns.
    fn step(
        &mut self,
        step: &NamedStep,
        progress: &Progress,
        progress_words: &str,
    ) -> CliResult<SeriesStep> {
        let Some(lab) = self.lab else {
            progress.say(format!("reading {progress_words}"));
            let (measured, fixture) = series::load_captured_numbers(&step.path, self.cache)?;
            return Ok(SeriesStep { fixture, number: step.number, measured, replay: None });
        };
        progress.say(format!("loading {progress_words}"));
        let project = Project::open(&step.path, self.cache)?;
        let target = project.target(self.args.rev.as_deref())?;
        let trusted = self.args.against.as_deref();
        let base = trusted.map(|trusted| project.target(Some(trusted))).transpose()?;
        progress.say(format!("replaying {progress_words} at {}", target_name(&target)));
        let trial = lab.trial(&project.subject, &target.sources);
        let base_trial = base.as_ref().map(|base| lab.trial(&project.subject, &base.sources));
        let (measured, replay) = series::replay_series_step(&trial, base_trial.as_ref())?;
        let outcome = trial.outcome()?;
        let device = (outcome.device_description.clone(), outcome.compiler.clone());
        self.device.get_or_insert(device);
        self.revision = target.commit.map(Revision::from);
        self.against = base.and_then(|base| base.commit).map(Revision::from);
        let fixture = project.subject.fixture.name.clone();
        Ok(SeriesStep { fixture, number: step.number, measured, replay: Some(replay) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_norm_is_a_number_above_0() {
        assert_eq!(parse_norm_arg("1.5"), Ok(1.5));
        let told =
            ["0", "-1", "x", "inf", "nan", ""].map(|text| format!("{:?}", parse_norm_arg(text)));
        insta::assert_snapshot!(told.join("\n"), @r#"
        Err("must be more than 0")
        Err("must be more than 0")
        Err("not a number")
        Err("not a number")
        Err("not a number")
        Err("not a number")
        "#);
    }
}
