//! `replay diff FIXTURE... REV REV`: two revisions side by side.

use std::path::Path;
use std::sync::Arc;

use ::replay::cache::Cache;
use ::replay::judge::{Judgement, judge};
use ::replay::report::{self, Line, Revision, Standing, Text};
use ::replay::trial::{Lab, Trial};
use serde_json::{Value, json};

use super::error::{CliResult, CommandError};
use super::exit;
use super::fixtures;
use super::out::{print, println};
use super::progress::Progress;
use super::project::{Project, RequestedRevision};
use super::replay::{Format, name, refused, summary};
use super::session::{self, SessionArgs};

/// The arguments of `replay diff`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folders of captured tensors, then the revision that is trusted, then the other
    #[arg(required = true, num_args = 3.., value_names = ["FIXTURE", "REV", "REV"])]
    words: Vec<String>,
    /// How the result is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
}

/// Compares on every fixture; the worst result decides about the exit code. A fixture on which the
/// revisions cannot be compared does not stop the others.
pub fn run(args: &Args, session: &SessionArgs) -> CliResult<u8> {
    let [fixtures @ .., trusted, other] = args.words.as_slice() else {
        return Err(CommandError::new("diff needs two revisions"));
    };
    let lab = session.lab()?;
    let cache = session::cache()?;
    let mut code = exit::SUCCESS;
    let (mut documents, mut errors, mut standings) = (Vec::new(), Vec::new(), Vec::new());
    for path in fixtures::expand(fixtures) {
        let path = path.as_path();
        match one(path, [trusted, other], &lab, &cache) {
            Ok(compared) => {
                standings.push(Standing::from(compared.judgement.verdict));
                match args.format {
                    Format::Json => documents.push(document(&compared)),
                    Format::Text => {
                        let gap = if standings.len() > 1 { "\n" } else { "" };
                        print!("{gap}{}", text(&compared));
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
                json!({ "schema": report::SCHEMA, "diffs": documents, "errors": errors });
            println!("{}", serde_json::to_string_pretty(&document)?);
        }
    }
    Ok(standings.into_iter().map(exit::code_of).fold(code, exit::worse))
}

/// Two revisions that were compared on one fixture.
struct Compared {
    fixture: String,
    base: Option<Revision>,
    got: Option<Revision>,
    judgement: Judgement,
}

fn one(
    path: &Path,
    [trusted, other]: [&str; 2],
    lab: &Arc<Lab>,
    cache: &Cache,
) -> CliResult<Compared> {
    let progress = Progress::start();
    let project = Project::open(path, cache)?;
    let base = project.target(Some(trusted))?;
    let got = project.target(Some(other))?;
    let (from, to) = (name(&base), name(&got));
    progress.say(format!("comparing {} at {from} and {to}", path.display()));
    let trial = |target: &RequestedRevision| lab.trial(&project.subject, &target.sources);
    let judgement = judge(&trial(&base), &trial(&got))?;
    Ok(Compared {
        fixture: project.subject.fixture.name.clone(),
        base: base.commit.map(Revision::from),
        got: got.commit.map(Revision::from),
        judgement,
    })
}

/// Compares `trial` with the revision `trusted`; for `--against`.
pub fn against(project: &Project, trusted: &str, trial: &Trial) -> CliResult<Judgement> {
    let base = project.target(Some(trusted))?;
    Ok(judge(&trial.lab().trial(&project.subject, &base.sources), trial)?)
}

fn text(compared: &Compared) -> Text {
    let Compared { fixture, base, got, judgement } = compared;
    let mut text = Text::new();
    text.line(report::heading(fixture, base.as_ref()));
    text.line(report::heading(fixture, got.as_ref()));
    text.append(report::judgement(judgement));
    text.line(Line::new());
    text.line(report::verdict_line(judgement));
    text
}

fn document(compared: &Compared) -> Value {
    let Compared { fixture, base, got, judgement } = compared;
    json!({
        "fixture": fixture,
        "base": base,
        "got": got,
        "verdict": judgement.verdict,
        "outputs": judgement.outputs,
        "launches_changed": judgement.launches,
        "without_shadow": judgement.without_shadow,
        "base_status": judgement.base.status,
        "got_status": judgement.got.status,
    })
}
