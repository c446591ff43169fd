//! `replay diff FIXTURE... REV REV`: two revisions side by side.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::replay::environment::{Environment, hash_environment};
use ::replay::judge::{check_accesses_on_both, draw_output_pictures, judge_trial};
use ::replay::report::{
    self, Compared, RefusedFixture, ReportEntry, ReportLine, Revision, Standing, Text,
};
use ::replay::trial::{Lab, PlacedSources, Trial};
use clap::ValueEnum;

use super::completions::{fixture_or_revision_completer, revision_completer};
use super::dump::DumpFolder;
use super::environments::{NamedPair, describe_place, make_pair, parse_pair_arg};
use super::error::{CliResult, CommandError};
use super::exit;
use super::fixtures;
use super::out::print;
use super::progress::Progress;
use super::project::{Project, RequestedRevision, TrustedSources};
use super::replay::{
    CheckArg, create_fixture_refusal, judge_replayed_trial, print_replay_summary, target_name,
};
use super::report_file::{FileFormat, ReportFiles};
use super::run_record::{self, run_record};
use super::session::Session;

/// The arguments of `replay diff`.
#[derive(Debug, clap::Args)]
pub struct DiffArgs {
    /// Folders of captured tensors, then the revision that is trusted, then the other; or both as A..B
    #[arg(required = true, num_args = 1.., value_names = ["FIXTURE", "REV", "REV"],
          add = fixture_or_revision_completer())]
    words: Vec<String>,
    /// Compare two environments and not two revisions, the trusted one first: `replay help environments`
    #[arg(long, value_name = "AXIS=A,B", value_parser = parse_pair_arg, conflicts_with = "dump")]
    with: Option<NamedPair>,
    /// The revision of both environments [default: the working tree]
    #[arg(long, requires = "with", value_name = "REV", add = revision_completer())]
    rev: Option<String>,
    /// Whether accesses to memory are checked: races, reads of what nobody wrote, accesses out of bounds
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    check: CheckArg,
    /// How the result is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: DiffFormat,
    /// Write the result to a file too, or to several; the ending names the format: .html, .json, .md
    #[arg(long, value_name = "FILE")]
    report: Vec<PathBuf>,
    /// Write outputs, float64 twin and noise to DIR/FIXTURE/COMMIT.DEVICE/*.safetensors; no file is replaced
    #[arg(long, value_name = "DIR")]
    dump: Option<PathBuf>,
}

impl DiffArgs {
    /// The fixtures, and what is compared on them.
    fn split_words(&self) -> CliResult<(&[String], DiffSides<'_>)> {
        if let Some(pair) = &self.with {
            let sides = DiffSides::Environments { pair, rev: self.rev.as_deref() };
            return Ok((&self.words, sides));
        }
        let (fixtures, [trusted, other]) = split_diff_words(&self.words)?;
        Ok((fixtures, DiffSides::Revisions { trusted, other }))
    }
}

/// How comparisons are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DiffFormat {
    /// For people
    Text,
    /// For programs; docs/schema.md describes it
    Json,
    /// For a comment on a pull request: at most 60 kB
    Markdown,
    /// A page to look at, in one file
    Html,
}

/// The formats of a report in a file.
const FILES: [FileFormat; 3] = [FileFormat::Html, FileFormat::Json, FileFormat::Markdown];

/// The fixtures and the two revisions.
fn split_diff_words(words: &[String]) -> CliResult<(&[String], [&str; 2])> {
    if let [fixtures @ .., range] = words
        && let Some((trusted, other)) = range.split_once("..")
        && !fixtures.is_empty()
        && !Path::new(range).exists()
    {
        if other.starts_with('.') {
            return Err(CommandError::new(format!("{range} is not two revisions")).with_hint(
                "name the older one itself, which `git merge-base` tells: A..B or A B",
            ));
        }
        let sides = [trusted, other].map(|rev| if rev.is_empty() { "HEAD" } else { rev });
        return Ok((fixtures, sides));
    }
    match words {
        [fixtures @ .., trusted, other] if !fixtures.is_empty() => Ok((fixtures, [trusted, other])),
        _ => Err(CommandError::new("diff needs a fixture and two revisions").with_hint(
            "`replay diff FIXTURE A B`, or A..B; HEAD stands for a side that is left out",
        )),
    }
}

/// Compares on every fixture. The worst result decides about the exit code. A failed comparison does not stop the
/// others.
pub fn run_diff(args: &DiffArgs, session: &Session) -> CliResult<u8> {
    let (fixtures, sides) = args.split_words()?;
    let files = ReportFiles::named(&args.report, &FILES)?;
    let fixtures = fixtures::expand_fixtures(fixtures);
    session.require_one_device()?;
    let illustrated = args.format == DiffFormat::Html || files.have_page();
    let mut code = exit::SUCCESS;
    let mut results = DiffResults::default();
    let mut standings = Vec::new();
    if args.format == DiffFormat::Text {
        run_record::print_record_head(&[]);
    }
    for path in fixtures {
        let path = path.as_path();
        let fixture_diff = match Project::open(path, session.cache()) {
            Ok(project) => {
                let lab = session.lab_for(project.harness())?;
                let dump = args.dump.as_deref();
                let comparison = FixtureComparison { path, project, sides, dump };
                comparison.compare(session, lab, args.check, illustrated)
            }
            Err(error) => Err(error),
        };
        let (report_text, standing) = match fixture_diff {
            Ok(FixtureDiff::Compared(compared)) => {
                let text_and_standing =
                    (format_compared_fixture(&compared), Standing::from(compared.verdict()));
                results.compared.push(*compared);
                text_and_standing
            }
            Ok(FixtureDiff::New { base, entry }) => {
                let text_and_standing = (new_text(&base, &entry), Standing::from_entry(&entry));
                results.new.push(ReportEntry { trusted: Some(base), ..*entry });
                text_and_standing
            }
            Err(error) => {
                code = exit::worse_exit_code(code, error.exit_code());
                error.print();
                results.errors.push(create_fixture_refusal(path, &error));
                continue;
            }
        };
        if args.format == DiffFormat::Text {
            let gap = if standings.is_empty() { "" } else { "\n" };
            print!("{gap}{report_text}");
        }
        standings.push(standing);
    }
    match results.written(args.format) {
        Some(text) => print!("{text}"),
        None => print_replay_summary(&standings, results.errors.len()),
    }
    files.write(|format| match format {
        FileFormat::Markdown => results.markdown(report::SUMMARY_BYTES),
        FileFormat::Json => results.json(),
        _ => results.html(),
    })?;
    Ok(standings.into_iter().map(exit::standing_exit_code).fold(code, exit::worse_exit_code))
}

/// Two revisions on a fixture.
enum FixtureDiff {
    /// Both have the sources.
    Compared(Box<Compared>),
    /// The trusted one has no such sources: the other is judged by itself.
    New {
        /// The trusted one.
        base: Revision,
        entry: Box<ReportEntry>,
    },
}

/// All results.
#[derive(Default)]
struct DiffResults {
    compared: Vec<Compared>,
    /// Where the trusted revision has no such sources.
    new: Vec<ReportEntry>,
    errors: Vec<RefusedFixture>,
}

impl DiffResults {
    /// The whole report; none for text: it is printed as it comes.
    fn written(&self, format: DiffFormat) -> Option<String> {
        Some(match format {
            DiffFormat::Text => return None,
            DiffFormat::Json => self.json(),
            DiffFormat::Markdown => self.markdown(report::COMMENT_BYTES),
            DiffFormat::Html => self.html(),
        })
    }

    fn json(&self) -> String {
        report::render_diff_json(&self.compared, &self.new, &self.errors, run_record()) + "\n"
    }

    fn markdown(&self, limit: usize) -> String {
        report::diff_markdown(&self.compared, &self.new, &self.errors, run_record(), limit)
    }

    fn html(&self) -> String {
        report::diff_html(&self.compared, &self.new, &self.errors, run_record())
    }
}

/// What is compared.
#[derive(Clone, Copy)]
enum DiffSides<'a> {
    Revisions {
        trusted: &'a str,
        other: &'a str,
    },
    /// Two environments at one revision, or in the working tree.
    Environments {
        pair: &'a NamedPair,
        rev: Option<&'a str>,
    },
}

/// Two sides, to be compared on one fixture.
struct FixtureComparison<'a> {
    /// The fixture, as the user named it.
    path: &'a Path,
    project: Project,
    sides: DiffSides<'a>,
    /// The folder for the tensors of both.
    dump: Option<&'a Path>,
}

/// One side of a comparison, ready to be replayed.
struct ComparedSide {
    trial: Trial,
    /// As progress names it.
    name: String,
    /// As reports name it; none for the working tree.
    revision: Option<Revision>,
    dump: Option<DumpFolder>,
}

impl FixtureComparison<'_> {
    fn compare(
        &self,
        session: &Session,
        lab: &Arc<Lab>,
        check: CheckArg,
        illustrated: bool,
    ) -> CliResult<FixtureDiff> {
        match self.sides {
            DiffSides::Revisions { trusted, other } => {
                self.compare_revisions(lab, [trusted, other], check, illustrated)
            }
            DiffSides::Environments { pair, rev } => {
                let environments = make_pair(session, &self.project.subject.fixture, pair)?;
                let revision = self.project.target(rev)?;
                let sides = environments.map(|environment| self.place(lab, &revision, environment));
                self.judge(sides, check, illustrated)
            }
        }
    }

    /// The side of `revision` in `environment`.
    fn place(
        &self,
        lab: &Arc<Lab>,
        revision: &RequestedRevision,
        environment: Arc<Environment>,
    ) -> ComparedSide {
        let name = environment.name();
        let id = hash_environment(&environment.axis, &environment.value);
        let set = revision.sources.clone();
        let sources = PlacedSources { set, environment: Some(environment) };
        let trial = lab.placed_trial(&self.project.subject, &sources);
        let revision =
            Some(Revision { id, short: name.clone(), subject: describe_place(revision) });
        ComparedSide { trial, name, revision, dump: None }
    }

    fn compare_revisions(
        &self,
        lab: &Arc<Lab>,
        [trusted, other]: [&str; 2],
        check: CheckArg,
        illustrated: bool,
    ) -> CliResult<FixtureDiff> {
        let FixtureComparison { path, project, dump, .. } = self;
        let progress = Progress::start();
        let base = project.origin.trusted(trusted)?;
        let got = project.target(Some(other))?;
        let after_trial = lab.trial(&project.subject, &got.sources);
        let after_dump = DumpFolder::plan(*dump, &got, &after_trial)?;
        let base = match base {
            TrustedSources::Found(base) => base,
            TrustedSources::Absent { reason } => {
                progress.say(format!("replaying {} at {}", path.display(), target_name(&got)));
                let base: Revision = project.origin.history.resolve(trusted)?.into();
                let entry =
                    judge_replayed_trial(project, &got, &after_trial, None, check, illustrated)?;
                if let Some(dump) = &after_dump {
                    dump.write(&after_trial, &progress)?;
                }
                let entry = Box::new(ReportEntry { base_lacks: Some(reason), ..entry });
                return Ok(FixtureDiff::New { base, entry });
            }
        };
        drop(progress);
        let before_trial = lab.trial(&project.subject, &base.sources);
        let is_same = got.commit.is_some() && got.commit == base.commit;
        let before_dump =
            if is_same { None } else { DumpFolder::plan(*dump, &base, &before_trial)? };
        let before = ComparedSide {
            trial: before_trial,
            name: target_name(&base),
            revision: base.commit.map(Revision::from),
            dump: before_dump,
        };
        let after = ComparedSide {
            trial: after_trial,
            name: target_name(&got),
            revision: got.commit.map(Revision::from),
            dump: after_dump,
        };
        self.judge([before, after], check, illustrated)
    }

    /// Compares two sides.
    fn judge(
        &self,
        [before, after]: [ComparedSide; 2],
        check: CheckArg,
        illustrated: bool,
    ) -> CliResult<FixtureDiff> {
        let FixtureComparison { path, project, .. } = self;
        let progress = Progress::start();
        let path = path.display();
        progress.say(format!("comparing {path} at {} and {}", before.name, after.name));
        let ComparedSide { trial: before_trial, revision: base, dump: before_dump, .. } = before;
        let ComparedSide { trial: after_trial, revision: got, dump: after_dump, .. } = after;
        let judgement = judge_trial(&before_trial, &after_trial)?;
        for (dump, trial) in [(&before_dump, &before_trial), (&after_dump, &after_trial)] {
            if let Some(dump) = dump {
                dump.write(trial, &progress)?;
            }
        }
        let pictures = if illustrated {
            draw_output_pictures(Some(&before_trial), &after_trial)?
        } else {
            Vec::new()
        };
        let accesses = check_accesses_on_both(&after_trial, &before_trial, check.into())?;
        // Large tensors take time to give back.
        rayon::join(|| drop(before_trial), || drop(after_trial));
        Ok(FixtureDiff::Compared(Box::new(Compared {
            fixture: project.subject.fixture.name.clone(),
            base,
            got,
            judgement,
            pictures,
            accesses,
        })))
    }
}

/// A replay by itself, below the trusted revision without such sources.
fn new_text(base: &Revision, entry: &ReportEntry) -> Text {
    let mut text = Text::new();
    text.line(report::render_replay_heading(&entry.fixture, Some(base)));
    if let Some(reason) = &entry.base_lacks {
        text.line(format!("  {reason}"));
    }
    text.line(ReportLine::new());
    text.append(report::render_replay_text(entry));
    text
}

fn format_compared_fixture(compared: &Compared) -> Text {
    let Compared { fixture, base, got, judgement, accesses, .. } = compared;
    let mut text = Text::new();
    text.line(report::render_replay_heading(fixture, base.as_ref()));
    text.line(report::render_replay_heading(fixture, got.as_ref()));
    text.append(report::render_judgement_text(judgement));
    if let Some(compared_accesses) = accesses {
        text.append(report::render_access_comparison(compared_accesses));
    }
    text.line(ReportLine::new());
    text.line(compared.verdict_line());
    text
}
