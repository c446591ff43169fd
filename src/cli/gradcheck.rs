//! `replay gradcheck FIXTURE... [--rev REV]`: does the gradient match the loss?

use std::path::PathBuf;

use ::replay::judge::{GradientCheck, GradientVerdict};
use ::replay::replay::Status;
use ::replay::report::{self, Revision};

use super::error::{CliResult, Complaint};
use super::exit;
use super::fixtures;
use super::out::{print, println};
use super::progress::Progress;
use super::project::Project;
use super::replay::{Format, name};
use super::session::GlobalArgs;

/// What to check.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folders of captured tensors
    #[arg(required = true, value_name = "FIXTURE")]
    fixtures: Vec<PathBuf>,
    /// The revision whose gradients are checked [default: the working tree]
    #[arg(long, value_name = "REV")]
    rev: Option<String>,
    /// How the result is written
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
}

/// Checks every gradient of every fixture.
pub fn run(args: &Args, global: &GlobalArgs) -> CliResult {
    let replayer = global.replayer()?;
    let cache = global.cache()?;
    let mut code = exit::SUCCESS;
    let mut documents = Vec::new();
    for path in &fixtures::expand(&args.fixtures) {
        let progress = Progress::start();
        let project = Project::open(path, &cache)?;
        let declared = &project.subject.fixture.outputs;
        if declared.iter().all(|output| output.gradient_of.is_none()) {
            return Err(Complaint {
                message: format!("no output of {} is declared to be a gradient", path.display()),
                hint: Some("name its input with `gradient_of` in the harness".to_owned()),
            }
            .into());
        }
        let target = project.target(args.rev.as_deref())?;
        progress.say(format!("checking {} at {}", path.display(), name(&target)));
        let outcome = replayer.replay(&project.subject, &target.sources)?;
        let checks = replayer.gradcheck(&project.subject, &target.sources)?;
        drop(progress);
        code = exit::worse(code, code_of(&checks));
        code = exit::worse(code, super::replay::code_of(&outcome));
        let fixture = project.subject.fixture.name.clone();
        let revision = target.commit.map(Revision::from);
        if args.format == Format::Json {
            documents.push(serde_json::json!({
                "fixture": fixture, "revision": revision, "gradients": checks
            }));
            continue;
        }
        println!("{}", report::heading(&fixture, revision.as_ref()));
        print!("{}", report::gradients(&checks));
        match &outcome.status {
            Status::Failed(failures) => println!("\nfailed: {}", report::failure(&failures[0])),
            Status::Untestable { reason, .. } => println!("\nuntestable: {reason}"),
            Status::Completed => {}
        }
    }
    if args.format == Format::Json {
        let document = serde_json::json!({ "schema": report::SCHEMA, "gradchecks": documents });
        println!("{}", serde_json::to_string_pretty(&document)?);
    }
    Ok(code)
}

/// The exit code that gradients alone stand for.
pub fn code_of(checks: &[GradientCheck]) -> u8 {
    let wrong = checks.iter().any(|check| check.verdict >= GradientVerdict::Imprecise);
    if wrong { exit::FAILED } else { exit::SUCCESS }
}
