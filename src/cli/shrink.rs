//! `replay shrink FIXTURE`: the smallest fixture that still shows a finding.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ::replay::fixture::{CUT_FILE, Fixture};
use ::replay::process::interruption;
use ::replay::report::{
    self, Revision, ShrinkEntry, WrittenFixture, describe_finding, list_cut_facts,
    render_shrink_json, render_shrink_text, shrink_tried_line,
};
use ::replay::search::TestAnswer;
use ::replay::shrink::{CutEnd, CutReport, FixtureShrinker, ShrinkAnswer};
use clap::ValueEnum;

use super::completions::{fixture_completer, revision_completer};
use super::derived_fixture::{begin_manifest, check_is_new, read_manifest, write_new_folder};
use super::error::{CliResult, CommandError, ErrorContext, ErrorOwner};
use super::exit;
use super::out::{print, println};
use super::progress::Progress;
use super::project::{Project, RequestedRevision, TrustedSources};
use super::replay::CheckArg;
use super::report_file::{FileFormat, ReportFiles};
use super::run_record::run_record;
use super::session::Session;

/// The arguments of `replay shrink`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct ShrinkArgs {
    /// A folder of captured tensors
    #[arg(value_name = "FIXTURE", add = fixture_completer())]
    fixture: PathBuf,
    /// The revision with the finding [default: the working tree]
    #[arg(long, value_name = "REV", add = revision_completer())]
    rev: Option<String>,
    /// The trusted revision beside it; without one the finding is one of the revision alone
    #[arg(long, value_name = "REV", add = revision_completer())]
    against: Option<String>,
    /// The folder of the smallest fixture; it must not be there [default: FIXTURE-small]
    #[arg(short, long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// The output whose finding is kept [default: the one that is furthest off]
    #[arg(long, value_name = "NAME")]
    output: Option<String>,
    /// When accesses to memory are checked
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    check: CheckArg,
    /// The smaller fixtures to replay at most
    #[arg(long, value_name = "N", default_value = "200", value_parser = parse_tries_arg,
          allow_negative_numbers = true)]
    max_tries: NonZeroUsize,
    /// How the result is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: ShrinkFormat,
    /// Write the result to a file too; its ending names the format: .json
    #[arg(long, value_name = "FILE")]
    report: Vec<PathBuf>,
}

/// How the answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ShrinkFormat {
    /// For people
    Text,
    /// For programs; docs/schema.md describes it
    Json,
}

const AFTER_HELP: &str = "\
Examples:
  replay shrink fixtures/step0 --rev 61b3d97 --against 37707d4
                                       keeps what 61b3d97 does otherwise than 37707d4
  replay shrink fixtures/step0 --rev 61b3d97 -o fixtures/wrong_gradient
                                       keeps what is wrong with 61b3d97 by itself
  replay shrink fixtures/step0 --rev A --against B --output grad_logits
                                       keeps the finding on one output

Whole slices are cut along the named sizes of the harness, and integers that count along a cut size
go with them. A cut is kept if the same output shows the same kind of finding, at least a tenth as
far off. Then inputs get simple values. What the finding needs of each size is told with the
lengths that were tried. The fixture itself is not touched. Ctrl-C writes the smallest one so far.";

fn parse_tries_arg(text: &str) -> Result<NonZeroUsize, String> {
    /// More tries take days.
    const MOST: usize = 1_000_000;
    match text.parse::<usize>() {
        Ok(number) if number > MOST => Err(format!("at most {MOST}")),
        Ok(number) => NonZeroUsize::new(number).ok_or_else(|| "must be at least 1".to_owned()),
        Err(_) => Err("not a whole number of at least 1".to_owned()),
    }
}

/// Cuts the fixture, and writes the smallest one.
pub fn run_shrink(args: &ShrinkArgs, session: &Session) -> CliResult<u8> {
    let folder = choose_folder(args)?;
    let files = ReportFiles::named(&args.report, &[FileFormat::Json])?;
    let progress = Progress::start();
    progress.say(format!("reading {}", args.fixture.display()));
    let project = Project::open(&args.fixture, session.cache())?;
    let fixture = project.subject.fixture.clone();
    check_output_name(args.output.as_deref(), &fixture)?;
    let target = project.target(args.rev.as_deref())?;
    let trusted = args.against.as_deref().map(|rev| find_trusted(&project, rev)).transpose()?;
    let [lab, fresh_lab] = session.search_labs(&[project.harness()], session.threads())?;
    let shrinker = FixtureShrinker {
        fixture: &fixture,
        sources: target.sources.clone(),
        trusted: trusted.as_ref().map(|trusted| trusted.sources.clone()),
        lab,
        fresh_lab,
        output: args.output.clone(),
        check: args.check.into(),
        most_tries: args.max_tries.get(),
        is_interrupted: &|| interruption::noted_signal().is_some(),
    };
    progress.say(format!("replaying {}", args.fixture.display()));
    let answer = shrinker.shrink(&mut |tried| {
        if tried.answer == TestAnswer::Bad {
            // From here on there is something to write.
            interruption::note_interruptions();
        }
        progress.say(shrink_tried_line(tried));
    })?;
    let revision = target.commit.map(Revision::from);
    let trusted = trusted.and_then(|trusted| trusted.commit).map(Revision::from);
    let written = match &answer {
        ShrinkAnswer::Cut(report) => {
            let origin = CutOrigin {
                fixture: &fixture,
                content: session.lab_for(&fixture.harness)?.content(&project.subject)?.to_owned(),
                revision: revision.as_ref(),
                trusted: trusted.as_ref(),
            };
            Some(origin.write(report, &folder)?)
        }
        _ => None,
    };
    drop(progress);
    let entry = ShrinkEntry {
        fixture: &fixture.name,
        revision: revision.as_ref(),
        trusted: trusted.as_ref(),
        answer: &answer,
        bytes: fixture.files.iter().map(|file| file.len).sum(),
        written,
    };
    let render_json = || render_shrink_json(&entry, run_record());
    files.write(|_| render_json())?;
    match args.format {
        ShrinkFormat::Json => println!("{}", render_json()),
        ShrinkFormat::Text => {
            print!("{}", render_shrink_text(&entry));
            print_next_commands(args, &entry, session);
        }
    }
    Ok(answer_exit_code(&answer))
}

fn answer_exit_code(answer: &ShrinkAnswer) -> u8 {
    if interruption::noted_signal().is_some() {
        return exit::INTERRUPTED;
    }
    match answer {
        ShrinkAnswer::Cut(_) => exit::SUCCESS,
        ShrinkAnswer::NoFinding | ShrinkAnswer::NothingSmaller { .. } => exit::FAILED,
        ShrinkAnswer::Unsteady { .. } | ShrinkAnswer::Untestable { .. } => exit::UNTESTABLE,
    }
}

/// The commands to go on with, below the answer.
fn print_next_commands(args: &ShrinkArgs, entry: &ShrinkEntry<'_>, session: &Session) {
    let Some(written) = &entry.written else {
        if matches!(entry.answer, ShrinkAnswer::NoFinding) && args.against.is_none() {
            println!("hint: --against REV keeps what differs from a trusted revision");
        }
        if let ShrinkAnswer::NothingSmaller { end: CutEnd::OutOfTries, .. } = entry.answer {
            println!("hint: --max-tries N allows more");
        }
        return;
    };
    let rev = args.rev.as_ref().map_or(String::new(), |rev| format!(" --rev {rev}"));
    let against = args.against.as_ref().map_or(String::new(), |rev| format!(" --against {rev}"));
    let folder = &written.folder;
    println!();
    let backend = session.backend_option();
    println!("replay {folder}{rev}{against}{backend}");
    println!("replay {folder}{rev}{backend} --snapshot && replay accept");
}

/// The folder to write; refused where something is there.
fn choose_folder(args: &ShrinkArgs) -> CliResult<PathBuf> {
    let folder = match &args.output_dir {
        Some(folder) => folder.clone(),
        None => {
            // `.` has a name, too.
            let named = match args.fixture.file_name() {
                Some(_) => args.fixture.clone(),
                None => args.fixture.canonicalize().unwrap_or_else(|_| args.fixture.clone()),
            };
            let name = named.file_name().unwrap_or_default().to_string_lossy().into_owned();
            named.with_file_name(format!("{name}-small"))
        }
    };
    check_is_new(&folder, "name another folder: -o DIR")?;
    Ok(folder)
}

fn check_output_name(output: Option<&str>, fixture: &Fixture) -> CliResult<()> {
    let Some(name) = output else { return Ok(()) };
    if fixture.outputs.iter().any(|output| output.name == name) {
        return Ok(());
    }
    let names: Vec<&str> = fixture.outputs.iter().map(|output| output.name.as_str()).collect();
    let message = format!("{} has no output `{name}`", fixture.harness.path.display());
    Err(CommandError::new(message).with_hint(format!("the outputs are {}", names.join(", "))))
}

fn find_trusted(project: &Project, rev: &str) -> CliResult<RequestedRevision> {
    match project.origin.trusted(rev)? {
        TrustedSources::Found(trusted) => Ok(trusted),
        TrustedSources::Absent { reason } => Err(CommandError::new(reason)
            .with_hint("leave --against out: the finding is then one of the revision alone")
            .of_kind(ErrorOwner::Revision)),
    }
}

/// Where a smallest fixture comes from.
struct CutOrigin<'a> {
    fixture: &'a Fixture,
    /// The content hash of the whole fixture.
    content: String,
    revision: Option<&'a Revision>,
    trusted: Option<&'a Revision>,
}

impl CutOrigin<'_> {
    /// Writes the fixture of `report` to `folder`, as a whole or not at all.
    fn write(&self, report: &CutReport, folder: &Path) -> CliResult<WrittenFixture> {
        let bytes = write_new_folder(folder, || self.write_files(report, folder))?;
        Ok(WrittenFixture { folder: folder.display().to_string(), bytes })
    }

    /// Writes the files, and returns their bytes.
    fn write_files(&self, report: &CutReport, folder: &Path) -> CliResult<u64> {
        let mut text = begin_manifest(self.fixture, folder)?;
        let tables = self.fixture.write_cut(folder, &report.inputs, &report.cut)?;
        if let Ok(file) = fs::File::open(folder.join(CUT_FILE)) {
            file.sync_all().context(|| format!("cannot write {}", folder.display()))?;
        }
        let manifest = folder.join("fixture.toml");
        text.push_str("\n[provenance]\n");
        for (key, value) in self.list_facts(report)? {
            text.push_str(&format!("{key} = {value}\n"));
        }
        text.push_str(&tables);
        fs::write(&manifest, text).context(|| format!("cannot write {}", manifest.display()))?;
        let written = Fixture::load(folder)?;
        Ok(written.files.iter().map(|file| file.len).sum())
    }

    /// The provenance of the whole fixture and of the cut, as TOML.
    fn list_facts(&self, report: &CutReport) -> CliResult<Vec<(String, toml::Value)>> {
        let parsed = read_manifest(self.fixture)?;
        let known = parsed.get("provenance").and_then(toml::Value::as_table).cloned();
        let mut facts: Vec<(String, toml::Value)> = known.unwrap_or_default().into_iter().collect();
        // Of a fixture that was cut twice the last cut is told.
        facts.retain(|(key, _)| !key.starts_with("cut") && key != "finding" && key != "date");
        let name = |revision: Option<&Revision>| {
            revision.map_or("the working tree".to_owned(), |revision| revision.short.clone())
        };
        let mut finding = format!("{} at {}", describe_finding(&report.kept), name(self.revision));
        if self.trusted.is_some() {
            finding.push_str(&format!(" against {}", name(self.trusted)));
        }
        let cut: toml::Table =
            list_cut_facts(report).into_iter().map(|(key, kept)| (key, kept.into())).collect();
        let date = report::utc_date(SystemTime::now());
        let own: [(&str, toml::Value); 5] = [
            ("cut_from", self.fixture.name.clone().into()),
            ("cut_content", self.content.clone().into()),
            ("cut", cut.into()),
            ("finding", finding.into()),
            ("date", date.into()),
        ];
        facts.extend(own.map(|(key, value)| (key.to_owned(), value)));
        Ok(facts)
    }
}
