//! `replay diff FIXTURE... REV REV`: two revisions side by side.

use std::path::{Path, PathBuf};

use ::replay::cache::Cache;
use ::replay::judge::{accesses_of_both, judge, pictures};
use ::replay::report::{self, Compared, Entry, Line, Refused, Revision, Standing, Text};

use clap::ValueEnum;

use super::error::{CliResult, CommandError};
use super::exit;
use super::fixtures;
use super::out::print;
use super::progress::Progress;
use super::project::Project;
use super::replay::{CheckArg, judged, name, refused, summary};
use super::report_file::{FileFormat, ReportFiles};
use super::run_record::{self, run_record};
use super::session::{self, Labs, SessionArgs};

/// The arguments of `replay diff`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folders of captured tensors, then the revision that is trusted, then the other; or both as A..B
    #[arg(required = true, num_args = 2.., value_names = ["FIXTURE", "REV", "REV"])]
    words: Vec<String>,
    /// Whether accesses to memory are checked: races, reads of what nobody wrote, accesses out of bounds
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    check: CheckArg,
    /// How the result is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: DiffFormat,
    /// Write the result to a file too, or to several; the ending names the format: .html, .json, .md
    #[arg(long, value_name = "FILE")]
    report: Vec<PathBuf>,
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
fn parse_words(words: &[String]) -> CliResult<(&[String], [&str; 2])> {
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

/// Compares on every fixture; the worst result decides about the exit code. A fixture on which the
/// revisions cannot be compared does not stop the others.
pub fn run(args: &Args, session: &SessionArgs) -> CliResult<u8> {
    let (fixtures, [trusted, other]) = parse_words(&args.words)?;
    let files = ReportFiles::named(&args.report, &FILES)?;
    let fixtures = fixtures::expand(fixtures);
    let labs = session.labs_on_one(&fixtures)?;
    let cache = session::cache()?;
    let illustrated = args.format == DiffFormat::Html || files.have_page();
    let mut code = exit::SUCCESS;
    let (mut found, mut standings) = (Found::default(), Vec::new());
    if args.format == DiffFormat::Text {
        run_record::head(&[]);
    }
    for path in fixtures {
        let path = path.as_path();
        let (told, standing) =
            match one(path, [trusted, other], args.check, illustrated, &labs, &cache) {
                Ok(Side::Compared(compared)) => {
                    let told = (text(&compared), Standing::from(compared.verdict()));
                    found.compared.push(*compared);
                    told
                }
                Ok(Side::New { base, entry }) => {
                    let told = (new_text(&base, &entry), Standing::of(&entry));
                    found.new.push(Entry { trusted: Some(base), ..*entry });
                    told
                }
                Err(error) => {
                    code = exit::worse(code, error.exit_code());
                    error.print();
                    found.errors.push(refused(path, &error));
                    continue;
                }
            };
        if args.format == DiffFormat::Text {
            let gap = if standings.is_empty() { "" } else { "\n" };
            print!("{gap}{told}");
        }
        standings.push(standing);
    }
    match found.written(args.format) {
        Some(text) => print!("{text}"),
        None => summary(&standings, found.errors.len()),
    }
    files.write(|format| match format {
        FileFormat::Markdown => found.markdown(report::SUMMARY_BYTES),
        FileFormat::Json => found.json(),
        _ => found.html(),
    })?;
    Ok(standings.into_iter().map(exit::code_of).fold(code, exit::worse))
}

/// What two revisions are on a fixture.
enum Side {
    /// Both have the sources.
    Compared(Box<Compared>),
    /// The trusted one has no such sources: the other is judged by itself.
    New {
        /// The trusted one.
        base: Revision,
        entry: Box<Entry>,
    },
}

/// All that was found.
#[derive(Default)]
struct Found {
    compared: Vec<Compared>,
    /// Where the trusted revision has no such sources.
    new: Vec<Entry>,
    errors: Vec<Refused>,
}

impl Found {
    /// The whole report; none for text, which is printed as it comes.
    fn written(&self, format: DiffFormat) -> Option<String> {
        Some(match format {
            DiffFormat::Text => return None,
            DiffFormat::Json => self.json(),
            DiffFormat::Markdown => self.markdown(report::COMMENT_BYTES),
            DiffFormat::Html => self.html(),
        })
    }

    fn json(&self) -> String {
        report::diff_json(&self.compared, &self.new, &self.errors, run_record()) + "\n"
    }

    fn markdown(&self, limit: usize) -> String {
        report::diff_markdown(&self.compared, &self.new, &self.errors, run_record(), limit)
    }

    fn html(&self) -> String {
        report::diff_html(&self.compared, &self.new, &self.errors, run_record())
    }
}

fn one(
    path: &Path,
    [trusted, other]: [&str; 2],
    check: CheckArg,
    illustrated: bool,
    labs: &Labs,
    cache: &Cache,
) -> CliResult<Side> {
    let progress = Progress::start();
    let project = Project::open(path, cache)?;
    let lab = labs.one_of(&project.subject.fixture.harness);
    let base = project.origin.trusted(trusted)?;
    let got = project.target(Some(other))?;
    let after = lab.trial(&project.subject, &got.sources);
    let base = match base {
        Ok(base) => base,
        Err(reason) => {
            progress.say(format!("replaying {} at {}", path.display(), name(&got)));
            let base: Revision = project.origin.history.resolve(trusted)?.into();
            let entry = judged(&project, &got, &after, None, check, illustrated)?;
            let entry = Box::new(Entry { base_lacks: Some(reason), ..entry });
            return Ok(Side::New { base, entry });
        }
    };
    let (from, to) = (name(&base), name(&got));
    progress.say(format!("comparing {} at {from} and {to}", path.display()));
    let before = lab.trial(&project.subject, &base.sources);
    let judgement = judge(&before, &after)?;
    let pictures = if illustrated { pictures(Some(&before), &after)? } else { Vec::new() };
    let accesses = accesses_of_both(&after, &before, check.into())?;
    // Large tensors take time to give back.
    rayon::join(|| drop(before), || drop(after));
    Ok(Side::Compared(Box::new(Compared {
        fixture: project.subject.fixture.name.clone(),
        base: base.commit.map(Revision::from),
        got: got.commit.map(Revision::from),
        judgement,
        pictures,
        accesses,
    })))
}

/// A replay by itself, below the trusted revision that has no such sources.
fn new_text(base: &Revision, entry: &Entry) -> Text {
    let mut text = Text::new();
    text.line(report::heading(&entry.fixture, Some(base)));
    if let Some(reason) = &entry.base_lacks {
        text.line(format!("  {reason}"));
    }
    text.line(Line::new());
    text.append(report::text(entry));
    text
}

fn text(compared: &Compared) -> Text {
    let Compared { fixture, base, got, judgement, accesses, .. } = compared;
    let mut text = Text::new();
    text.line(report::heading(fixture, base.as_ref()));
    text.line(report::heading(fixture, got.as_ref()));
    text.append(report::judgement(judgement));
    if let Some(found) = accesses {
        text.append(report::accesses_compared(found));
    }
    text.line(Line::new());
    text.line(compared.verdict_line());
    text
}
