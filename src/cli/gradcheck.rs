//! `replay gradcheck FIXTURE... [--rev REV]`: does the gradient match the loss?

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::replay::fixture::Fixture;
use ::replay::judge::{check_gradients, draw_output_pictures, ensure_evidence_room};
use ::replay::report::{
    self, GradcheckEntry, RefusedFixture, ReportLine, Revision, Standing, Text,
};
use ::replay::trial::Lab;

use super::call_misfit::refuse_call_misfit;
use super::completions::{fixture_completer, revision_completer};
use super::constraint_notes::note_broken_constraints;
use super::error::{CliResult, CommandError};
use super::exit;
use super::fixtures;
use super::out::print;
use super::progress::Progress;
use super::project::Project;
use super::replay::{Format, create_fixture_refusal, print_replay_summary, target_name};
use super::report_file::{FILES, ReportFiles};
use super::run_record::{self, run_record};
use super::session::Session;

/// The arguments of `replay gradcheck`.
#[derive(Debug, clap::Args)]
pub struct GradcheckArgs {
    /// Folders of captured tensors
    #[arg(required = true, value_name = "FIXTURE", add = fixture_completer())]
    fixtures: Vec<PathBuf>,
    /// The revision whose gradients are checked [default: the working tree]
    #[arg(short, long, value_name = "REV", add = revision_completer())]
    rev: Option<String>,
    /// How the result is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    /// Write the result to a file too, or to several; the ending names the format: .html, .json
    #[arg(long, value_name = "FILE")]
    report: Vec<PathBuf>,
}

/// Checks every gradient of every fixture. A failed check does not stop the others.
pub fn run_gradcheck(args: &GradcheckArgs, session: &Session) -> CliResult<u8> {
    let files = ReportFiles::named(&args.report, &FILES)?;
    let fixtures = fixtures::expand_fixtures(&args.fixtures);
    session.require_one_device()?;
    let illustrated = args.format == Format::Html || files.have_page();
    let mut code = exit::SUCCESS;
    if args.format == Format::Text {
        run_record::print_record_head(&[]);
    }
    let mut entries = Vec::new();
    let mut errors = Vec::new();
    for path in &fixtures {
        let checked_entry = match Project::open(path, session.cache()) {
            Ok(project) => {
                let lab = session.lab_for(project.harness())?;
                gradcheck_fixture(path, &project, args.rev.as_deref(), illustrated, lab)
            }
            Err(error) => Err(error),
        };
        match checked_entry {
            Ok(entry) => {
                if args.format == Format::Text {
                    let gap = if entries.is_empty() { "" } else { "\n" };
                    print!("{gap}{}", format_checked_gradients(&entry));
                }
                entries.push(entry);
            }
            Err(error) => {
                code = exit::worse_exit_code(code, error.exit_code());
                error.print();
                errors.push(create_fixture_refusal(path, &error));
            }
        }
    }
    let standings: Vec<Standing> = entries.iter().map(GradcheckEntry::standing).collect();
    match format_gradcheck_result(args.format, &entries, &errors) {
        Some(text) => print!("{text}"),
        None => print_replay_summary(&standings, errors.len()),
    }
    files.write(|format| {
        format_gradcheck_result(format.into(), &entries, &errors).unwrap_or_default()
    })?;
    Ok(entries.iter().map(gradcheck_exit_code).fold(code, exit::worse_exit_code))
}

/// The exit code for gradients. The whole question is whether they match: without an answer it is open. The weaker check
/// is one, too.
fn gradcheck_exit_code(entry: &GradcheckEntry) -> u8 {
    match entry.standing() {
        Standing::Unchecked if entry.has_unchecked() => exit::UNTESTABLE,
        standing => exit::standing_exit_code(standing),
    }
}

/// The whole report; none for text: it is printed as it comes.
fn format_gradcheck_result(
    format: Format,
    entries: &[GradcheckEntry],
    errors: &[RefusedFixture],
) -> Option<String> {
    Some(match format {
        Format::Text => return None,
        Format::Json => report::render_gradcheck_json(entries, errors, run_record()) + "\n",
        Format::Html => report::gradcheck_html(entries, errors, run_record()),
    })
}

fn gradcheck_fixture(
    path: &Path,
    project: &Project,
    rev: Option<&str>,
    illustrated: bool,
    lab: &Arc<Lab>,
) -> CliResult<GradcheckEntry> {
    let progress = Progress::start();
    has_something_to_check(path, &project.subject.fixture)?;
    note_broken_constraints(&project.subject.fixture)?;
    let target = project.target(rev)?;
    progress.say(format!("checking {} at {}", path.display(), target_name(&target)));
    let trial = lab.trial(&project.subject, &target.sources);
    ensure_evidence_room(&trial, false)?;
    let outcome = trial.outcome()?.clone();
    refuse_call_misfit(&project.subject.fixture, &outcome, None)?;
    let gradients = check_gradients(&trial)?;
    let pictures = if illustrated { draw_output_pictures(None, &trial)? } else { Vec::new() };
    let fixture = project.subject.fixture.name.clone();
    let revision = target.commit.map(Revision::from);
    Ok(GradcheckEntry { fixture, revision, outcome, gradients, pictures })
}

/// Complains where nothing can be checked, whatever the revision: silence would pass for a check.
fn has_something_to_check(path: &Path, fixture: &Fixture) -> CliResult<()> {
    let mut gradients = fixture.outputs.iter().filter(|output| output.gradient_of.is_some());
    let (message, hint) = match gradients.next() {
        None => (
            format!("no output of {} is declared to be a gradient", path.display()),
            "name its input with `gradient_of` in the harness",
        ),
        Some(first) if first.of.is_empty() && gradients.all(|output| output.of.is_empty()) => (
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

fn format_checked_gradients(entry: &GradcheckEntry) -> Text {
    let mut text = Text::new();
    text.line(report::render_replay_heading(&entry.fixture, entry.revision.as_ref()));
    text.append(report::render_gradients_text(&entry.gradients));
    text.line(ReportLine::new());
    text.line(entry.verdict_line());
    text
}
