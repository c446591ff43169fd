//! `replay gradcheck FIXTURE... [--rev REV]`: does the gradient match the loss?

use std::path::{Path, PathBuf};

use ::replay::cache::Cache;
use ::replay::fixture::Fixture;
use ::replay::judge::{GradientCheck, GradientVerdict, gradients};
use ::replay::report::{self, Line, Revision, Standing, Text};
use ::replay::trial::{Outcome, Status};
use serde_json::{Value, json};

use super::error::{CliResult, CommandError};
use super::exit;
use super::fixtures;
use super::out::{print, println};
use super::progress::Progress;
use super::project::Project;
use super::replay::{Format, name, refused, summary};
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
}

/// Checks every gradient of every fixture. A fixture that cannot be checked does not stop the others.
pub fn run(args: &Args, session: &SessionArgs) -> CliResult<u8> {
    let fixtures = fixtures::expand(&args.fixtures);
    let labs = session.labs_on_one(&fixtures)?;
    let cache = session::cache()?;
    let mut code = exit::SUCCESS;
    let (mut documents, mut errors, mut standings) = (Vec::new(), Vec::new(), Vec::new());
    for path in &fixtures {
        match one(path, args.rev.as_deref(), &labs, &cache) {
            Ok(checked) => {
                standings.push(checked.standing());
                match args.format {
                    Format::Json => documents.push(document(&checked)),
                    Format::Text => {
                        let gap = if standings.len() > 1 { "\n" } else { "" };
                        print!("{gap}{}", text(&checked));
                    }
                }
            }
            Err(error) => {
                code = exit::worse(code, error.exit_code());
                error.print();
                errors.push(refused(path, &error));
            }
        }
    }
    match args.format {
        Format::Text => summary(&standings, errors.len()),
        Format::Json => {
            let document =
                json!({ "schema": report::SCHEMA, "gradchecks": documents, "errors": errors });
            println!("{}", serde_json::to_string_pretty(&document)?);
        }
    }
    Ok(standings.into_iter().map(exit::code_of).fold(code, exit::worse))
}

/// The gradients of one fixture at one revision.
struct Checked {
    fixture: String,
    revision: Option<Revision>,
    outcome: Outcome,
    gradients: Vec<GradientCheck>,
}

impl Checked {
    /// How the gradients stand: if none could be checked, they are neither right nor wrong.
    fn standing(&self) -> Standing {
        let worst = self.gradients.iter().map(|check| check.verdict).max();
        let told = |check: &GradientCheck| check.verdict != GradientVerdict::Unknown;
        match (&self.outcome.status, worst) {
            (Status::Failed(_), _) => Standing::Failed,
            (Status::Untestable { .. }, _) => Standing::Untestable,
            (_, Some(worst)) if worst >= GradientVerdict::Imprecise => Standing::Diverged,
            _ if self.gradients.iter().any(told) => Standing::Completed,
            _ => Standing::Untestable,
        }
    }
}

fn one(path: &Path, rev: Option<&str>, labs: &Labs, cache: &Cache) -> CliResult<Checked> {
    let progress = Progress::start();
    let project = Project::open(path, cache)?;
    has_something_to_check(path, &project.subject.fixture)?;
    let lab = labs.one_of(&project.subject.fixture.harness);
    let target = project.target(rev)?;
    progress.say(format!("checking {} at {}", path.display(), name(&target)));
    let trial = lab.trial(&project.subject, &target.sources);
    let (outcome, gradients) = (trial.outcome()?.clone(), gradients(&trial)?);
    let fixture = project.subject.fixture.name.clone();
    Ok(Checked { fixture, revision: target.commit.map(Revision::from), outcome, gradients })
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
    let last = match &checked.outcome.status {
        Status::Failed(failures) => Some(format!("failed: {}", report::failure(&failures[0]))),
        Status::Untestable { reason, .. } => Some(format!("untestable: {reason}")),
        Status::Completed if checked.standing() == Standing::Untestable => {
            Some("untestable: no gradient could be checked".to_owned())
        }
        Status::Completed => None,
    };
    if let Some(last) = last {
        text.line(Line::new());
        text.line(last);
    }
    text
}

fn document(checked: &Checked) -> Value {
    let Checked { fixture, revision, outcome, gradients } = checked;
    json!({
        "fixture": fixture,
        "revision": revision,
        "verdict": checked.standing().name(),
        "status": outcome.status,
        "gradients": gradients,
    })
}
