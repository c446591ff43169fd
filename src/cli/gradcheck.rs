//! `replay gradcheck FIXTURE... [--rev REV]`: does the gradient match the loss?

use std::path::{Path, PathBuf};

use ::replay::cache::Cache;
use ::replay::fixture::Fixture;
use ::replay::judge::{gradients, pictures, room};
use ::replay::report::{self, Checked, Line, Refused, Revision, Standing, Text};

use super::error::{CliResult, CommandError};
use super::exit;
use super::fixtures;
use super::out::print;
use super::progress::Progress;
use super::project::Project;
use super::replay::{Format, name, refused, summary};
use super::report_file::{FILES, ReportFiles};
use super::run_record::{self, run_record};
use super::session::{self, Labs, SessionArgs};

/// The arguments of `replay gradcheck`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folders of captured tensors
    #[arg(required = true, value_name = "FIXTURE")]
    fixtures: Vec<PathBuf>,
    /// The revision whose gradients are checked [default: the working tree]
    #[arg(short, long, value_name = "REV")]
    rev: Option<String>,
    /// How the result is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    /// Write the result to a file too, or to several; the ending names the format: .html, .json
    #[arg(long, value_name = "FILE")]
    report: Vec<PathBuf>,
}

/// Checks every gradient of every fixture. A fixture that cannot be checked does not stop the others.
pub fn run(args: &Args, session: &SessionArgs) -> CliResult<u8> {
    let files = ReportFiles::named(&args.report, &FILES)?;
    let fixtures = fixtures::expand(&args.fixtures);
    let labs = session.labs_on_one(&fixtures)?;
    let cache = session::cache()?;
    let illustrated = args.format == Format::Html || files.have_page();
    let mut code = exit::SUCCESS;
    if args.format == Format::Text {
        run_record::head(&[]);
    }
    let (mut all, mut errors) = (Vec::new(), Vec::new());
    for path in &fixtures {
        match one(path, args.rev.as_deref(), illustrated, &labs, &cache) {
            Ok(checked) => {
                if args.format == Format::Text {
                    let gap = if all.is_empty() { "" } else { "\n" };
                    print!("{gap}{}", text(&checked));
                }
                all.push(checked);
            }
            Err(error) => {
                code = exit::worse(code, error.exit_code());
                error.print();
                errors.push(refused(path, &error));
            }
        }
    }
    let standings: Vec<Standing> = all.iter().map(Checked::standing).collect();
    match written(args.format, &all, &errors) {
        Some(text) => print!("{text}"),
        None => summary(&standings, errors.len()),
    }
    files.write(|format| written(format.into(), &all, &errors).unwrap_or_default())?;
    Ok(standings.into_iter().map(exit::code_of).fold(code, exit::worse))
}

/// The whole report; none for text, which is printed as it comes.
fn written(format: Format, all: &[Checked], errors: &[Refused]) -> Option<String> {
    Some(match format {
        Format::Text => return None,
        Format::Json => report::gradcheck_json(all, errors, run_record()) + "\n",
        Format::Html => report::gradcheck_html(all, errors, run_record()),
    })
}

fn one(
    path: &Path,
    rev: Option<&str>,
    illustrated: bool,
    labs: &Labs,
    cache: &Cache,
) -> CliResult<Checked> {
    let progress = Progress::start();
    let project = Project::open(path, cache)?;
    has_something_to_check(path, &project.subject.fixture)?;
    let lab = labs.one_of(&project.subject.fixture.harness);
    let target = project.target(rev)?;
    progress.say(format!("checking {} at {}", path.display(), name(&target)));
    let trial = lab.trial(&project.subject, &target.sources);
    room(&trial, false)?;
    let (outcome, gradients) = (trial.outcome()?.clone(), gradients(&trial)?);
    let pictures = if illustrated { pictures(None, &trial)? } else { Vec::new() };
    let fixture = project.subject.fixture.name.clone();
    let revision = target.commit.map(Revision::from);
    Ok(Checked { fixture, revision, outcome, gradients, pictures })
}

/// Complains where nothing can be checked, whatever the revision: silence would pass for a check.
fn has_something_to_check(path: &Path, fixture: &Fixture) -> CliResult<()> {
    let mut gradients = fixture.outputs.iter().filter(|output| output.gradient_of.is_some());
    let (message, hint) = match gradients.next() {
        None => (
            format!("no output of {} is declared to be a gradient", path.display()),
            "name its input with `gradient_of` in the harness",
        ),
        Some(first) if first.of.is_none() && gradients.all(|output| output.of.is_none()) => (
            format!(
                "no loss is declared of which {} of {} is the gradient",
                first.name,
                path.display()
            ),
            "name the output that is differentiated with `of` in the harness, and declare it if it \
             is no output yet",
        ),
        Some(_) => return Ok(()),
    };
    Err(CommandError::new(message).with_hint(hint.to_owned()))
}

fn text(checked: &Checked) -> Text {
    let mut text = Text::new();
    text.line(report::heading(&checked.fixture, checked.revision.as_ref()));
    text.append(report::gradients(&checked.gradients));
    if let Some(last) = checked.untold() {
        text.line(Line::new());
        text.line(last);
    }
    text
}
