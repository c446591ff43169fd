//! `replay diff FIXTURE... REV REV`: two revisions side by side.

use ::replay::judge::{Judgement, Verdict};
use ::replay::replay::Replayer;
use ::replay::report::{self, Revision};
use serde_json::{Value, json};

use super::error::{CliResult, Complaint};
use super::exit;
use super::fixtures;
use super::out::{print, println};
use super::progress::Progress;
use super::project::{Project, Target};
use super::replay::{Format, name};
use super::session::GlobalArgs;

/// What to compare.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folders of captured tensors, then the revision that is trusted, then the other
    #[arg(required = true, num_args = 3.., value_names = ["FIXTURE", "REV", "REV"])]
    words: Vec<String>,
    /// How the result is written
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
}

/// Compares on every fixture; the worst of them decides about the exit code.
pub fn run(args: &Args, global: &GlobalArgs) -> CliResult {
    let [fixtures @ .., trusted, other] = args.words.as_slice() else {
        return Err(Complaint { message: "diff needs two revisions".to_owned(), hint: None }.into());
    };
    let replayer = global.replayer()?;
    let cache = global.cache()?;
    let mut code = exit::SUCCESS;
    let mut documents = Vec::new();
    for path in fixtures::expand(fixtures) {
        let progress = Progress::start();
        let project = Project::open(&path, &cache)?;
        let base = project.target(Some(trusted))?;
        let got = project.target(Some(other))?;
        progress.say(format!("comparing {} at {} and {}", path.display(), name(&base), name(&got)));
        let judgement = replayer.judge(&project.subject, &base.sources, &got.sources)?;
        drop(progress);
        code = exit::worse(code, code_of(&judgement));
        match args.format {
            Format::Json => documents.push(document(&project, base, got, &judgement)),
            Format::Text => show(&project, base, got, &judgement),
        }
    }
    if args.format == Format::Json {
        let document = json!({ "schema": report::SCHEMA, "diffs": documents });
        println!("{}", serde_json::to_string_pretty(&document)?);
    }
    Ok(code)
}

/// Compares `target` with the revision `trusted` and prints what changed; for `--against`.
pub fn against(
    replayer: &Replayer,
    project: &Project,
    trusted: &str,
    target: &Target,
) -> anyhow::Result<Judgement> {
    let base = project.target(Some(trusted))?;
    Ok(replayer.judge(&project.subject, &base.sources, &target.sources)?)
}

fn show(project: &Project, base: Target, got: Target, judgement: &Judgement) {
    let (base, got) = (base.commit.map(Revision::from), got.commit.map(Revision::from));
    println!("{}", report::heading(&project.subject.fixture.name, base.as_ref()));
    println!("{}", report::heading(&project.subject.fixture.name, got.as_ref()));
    print!("{}", report::judgement(judgement));
    println!("\n{}", report::verdict_line(judgement));
}

fn document(project: &Project, base: Target, got: Target, judgement: &Judgement) -> Value {
    json!({
        "fixture": project.subject.fixture.name,
        "base": base.commit.map(Revision::from),
        "got": got.commit.map(Revision::from),
        "verdict": judgement.verdict,
        "outputs": judgement.outputs,
        "launches_changed": judgement.launches,
        "without_shadow": judgement.without_shadow,
        "base_status": judgement.base.status,
        "got_status": judgement.got.status,
    })
}

/// The exit code that a judgement stands for.
pub fn code_of(judgement: &Judgement) -> u8 {
    match judgement.verdict {
        Verdict::Identical | Verdict::Equivalent => exit::SUCCESS,
        Verdict::Untestable => exit::UNTESTABLE,
        Verdict::Diverged | Verdict::Failed => exit::FAILED,
    }
}
