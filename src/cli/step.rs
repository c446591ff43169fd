//! `replay step FOLDER`: a captured step of a model, module by module.

use std::fs;
use std::path::{Path, PathBuf};

use ::replay::fixture::{Fixture, InputCut, NewTensor, write_file};
use ::replay::harness::find_nearest_word;
use ::replay::judge::ensure_evidence_room;
use ::replay::report::{
    OtherRun, Revision, StepBeside, StepEntry, StepVerdict, render_step_html, render_step_json,
    render_step_text,
};
use ::replay::step::{
    PartFinding, PartFindingKind, PartReading, StepOrder, StepPart, find_blames, read_part,
    read_part_beside, read_part_of_runs,
};
use glob::Pattern;
use indexmap::IndexMap;

use super::completions::{fixture_completer, revision_completer};
use super::derived_fixture::{begin_manifest, check_is_new, read_manifest, write_new_folder};
use super::error::{CliResult, CommandError, ErrorContext};
use super::exit;
use super::out::{print, println};
use super::patterns::compile_patterns;
use super::progress::Progress;
use super::project::{Project, RequestedRevision, TrustedSources};
use super::replay::{Format, target_name};
use super::report_file::{FILES, ReportFiles};
use super::run_record::{self, run_record};
use super::session::Session;

/// The arguments of `replay step`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct StepArgs {
    /// A folder that capture.model wrote
    #[arg(value_name = "STEP", add = fixture_completer())]
    step: PathBuf,
    /// The revision whose modules are replayed [default: the working tree]
    #[arg(short, long, value_name = "REV", add = revision_completer())]
    rev: Option<String>,
    /// A trusted revision: each module is compared with its own there, from the same captured inputs
    #[arg(short, long, value_name = "REV", add = revision_completer())]
    against: Option<String>,
    /// A captured step of a trusted run: the captured tensors of both are compared, call by call, in the noise of
    /// the code of --rev on the inputs of each
    #[arg(long, value_name = "STEP", conflicts_with = "against")]
    against_run: Option<PathBuf>,
    /// Replay these modules alone; a pattern such as 'layers.*.attn' names several
    #[arg(long, value_name = "MODULE")]
    module: Vec<String>,
    /// Write this module as a fixture of its own, with its tensors, and replay nothing
    #[arg(long, value_name = "MODULE", conflicts_with_all = ["rev", "against", "against_run", "module"])]
    extract: Option<String>,
    /// The folder of the extracted fixture; it must not be there [default: STEP-MODULE]
    #[arg(short, long, value_name = "DIR", requires = "extract")]
    output_dir: Option<PathBuf>,
    /// How the result is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    /// Write the result to a file too, or to several; the ending names the format: .html, .json
    #[arg(long, value_name = "FILE")]
    report: Vec<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  replay step fixtures/step0           which module does not give what was captured, or has a
                                       backward that is not that of its own forward
  replay step fixtures/step0 --rev BAD --against GOOD
                                       the first module in which two revisions part
  replay step fixtures/tuesday --against-run fixtures/monday
                                       the first module in which two runs part
  replay step fixtures/step0 --extract layers.3.attn -o fixtures/attn
                                       that module as a fixture, for `replay bisect`

Each call of a module begins from its captured inputs, so a finding is the module's own. A
module that holds another one with a finding is told to be a consequence of it. So is one whose
outputs differ from those of another run as its code gives them from other inputs.";

/// Reads the modules of a step one after the other.
pub fn run_step(args: &StepArgs, session: &Session) -> CliResult<u8> {
    let order = load_order(&args.step)?;
    if let Some(module) = &args.extract {
        return extract_module(args, &order, module);
    }
    let files = ReportFiles::named(&args.report, &FILES)?;
    session.require_one_device()?;
    let order = choose_parts(order, &args.module)?;
    if args.format == Format::Text {
        run_record::print_record_head(&[]);
    }
    let other = match &args.against_run {
        Some(run) => Some(load_other_run(run, &order, &args.module)?),
        None => None,
    };
    let other = other.as_ref();
    let mut reader = StepReader { args, session, other, revision: None, trusted: None };
    let readings = order
        .parts
        .iter()
        .map(|part| reader.read(part))
        .collect::<CliResult<Vec<PartReading>>>()?;
    let blames = find_blames(&order, &readings);
    let fixture = args.step.display().to_string();
    let entry = StepEntry {
        fixture: &fixture,
        order: &order,
        revision: reader.revision.as_ref(),
        beside: match other {
            Some(other) => StepBeside::Run(OtherRun { fixture: &other.name, order: &other.order }),
            None if args.against.is_some() => StepBeside::Revision(reader.trusted.as_ref()),
            None => StepBeside::Captured,
        },
        readings: &readings,
        blames: &blames,
    };
    match args.format {
        Format::Text => {
            print!("{}", render_step_text(&entry));
            print_next_commands(args, &entry, session)?;
        }
        format => println!("{}", format_step(format, &entry)),
    }
    files.write(|format| format_step(format.into(), &entry))?;
    Ok(match entry.verdict() {
        StepVerdict::Well => exit::SUCCESS,
        StepVerdict::Found => exit::FAILED,
        StepVerdict::Untestable => exit::UNTESTABLE,
    })
}

fn format_step(format: Format, entry: &StepEntry<'_>) -> String {
    match format {
        Format::Html => render_step_html(entry, run_record()),
        Format::Text | Format::Json => render_step_json(entry, run_record()),
    }
}

fn load_order(step: &Path) -> CliResult<StepOrder> {
    StepOrder::load(step).map_err(|error| {
        let hint = error.hint();
        CommandError::from_error(&error).with_hints(hint)
    })
}

/// The step of a trusted run.
struct TrustedRun {
    path: PathBuf,
    /// The folder, as the user named it.
    name: String,
    order: StepOrder,
}

/// The step in the folder `path`, which has a call in common with `order`.
fn load_other_run(path: &Path, order: &StepOrder, patterns: &[String]) -> CliResult<TrustedRun> {
    let other = keep_parts(load_order(path)?, &compile_patterns(patterns, "modules")?);
    let name = path.display().to_string();
    if !order.parts.iter().any(|part| other.find(&part.folder).is_some()) {
        return Err(CommandError::new(format!("{name} has none of the calls of this step"))
            .with_hint("calls are the same that have the same folder"));
    }
    Ok(TrustedRun { path: path.to_owned(), name, order: other })
}

/// The parts that `patterns` name, with those around them that are named, too.
fn choose_parts(order: StepOrder, patterns: &[String]) -> CliResult<StepOrder> {
    let matchers = compile_patterns(patterns, "modules")?;
    for (matcher, pattern) in matchers.iter().zip(patterns) {
        if !order.parts.iter().any(|part| matcher.matches(&part.folder)) {
            return Err(no_such_module(&order, pattern));
        }
    }
    Ok(keep_parts(order, &matchers))
}

/// The parts that one of `matchers` fits; all if there are none.
fn keep_parts(mut order: StepOrder, matchers: &[Pattern]) -> StepOrder {
    if matchers.is_empty() {
        return order;
    }
    let is_kept =
        |place: &usize| matchers.iter().any(|matcher| matcher.matches(&order.parts[*place].folder));
    let places: Vec<usize> = (0..order.parts.len()).filter(is_kept).collect();
    let mut parts = Vec::with_capacity(places.len());
    for &place in &places {
        let mut part = order.parts[place].clone();
        part.inside = places.iter().rposition(|outer| order.holds(*outer, place));
        parts.push(part);
    }
    order.parts = parts;
    order
}

fn no_such_module(order: &StepOrder, word: &str) -> CommandError {
    let error = CommandError::new(format!("the step has no module `{word}`"));
    if let Some(left_out) = order.left_out.iter().find(|left_out| left_out.module == word) {
        return error.with_hint(format!("it was left out: {}", left_out.reason));
    }
    match find_nearest_word(word, order.parts.iter().map(|part| part.folder.as_str())) {
        Some(nearest) => error.with_hint(format!("did you mean `{nearest}`?")),
        None => error.with_hint("`replay step STEP --format json` names the modules"),
    }
}

/// The commands to go on with, below the answer.
fn print_next_commands(args: &StepArgs, entry: &StepEntry<'_>, session: &Session) -> CliResult<()> {
    let Some(first) = entry.first_of_all() else { return Ok(()) };
    let name = entry.order.name(first);
    let part = args.step.join(name);
    let part = part.display();
    let rev = args.rev.as_deref().unwrap_or("HEAD");
    let is_captured =
        |finding: &PartFinding| matches!(finding.kind, PartFindingKind::NotAsCaptured { .. });
    let backend = session.backend_option();
    println!();
    let commits = match &args.against_run {
        Some(other) => find_other_commits(&args.step.join(name), &other.join(name))?,
        None => None,
    };
    match &args.against {
        None if let Some((good, bad)) = commits => {
            println!("replay bisect {part} --good {good} --bad {bad}{backend}");
        }
        None if args.against_run.is_some() => println!("replay {part}{backend}"),
        Some(good) => println!("replay bisect {part} --good {good} --bad {rev}{backend}"),
        // No commit is at fault: the code gives something else than it gave in the training.
        None if entry.readings[first].findings.iter().all(is_captured) => {
            println!("replay {part}{backend}");
        }
        None => println!("replay bisect {part} --good GOOD --bad {rev} --on gradient{backend}"),
    }
    println!("replay step {} --extract {name}", args.step.display());
    Ok(())
}

/// The commits of the trusted call and of this one, where the runs had different ones.
fn find_other_commits(this: &Path, trusted: &Path) -> CliResult<Option<(String, String)>> {
    let commit = |path: &Path| -> CliResult<Option<String>> {
        let named = Fixture::provenance_of(path)?.commit;
        Ok(named.map(|id| id.chars().take(10).collect()))
    };
    let commits = commit(trusted)?.zip(commit(this)?);
    Ok(commits.filter(|(good, bad)| good != bad))
}

/// Reads the parts of a step.
struct StepReader<'a> {
    args: &'a StepArgs,
    session: &'a Session,
    /// The trusted run, if it is compared with one.
    other: Option<&'a TrustedRun>,
    /// What the revisions are, once a part has named them.
    revision: Option<Revision>,
    trusted: Option<Revision>,
}

impl StepReader<'_> {
    fn read(&mut self, part: &StepPart) -> CliResult<PartReading> {
        let path = self.args.step.join(&part.folder);
        if self.other.is_some_and(|other| other.order.find(&part.folder).is_none()) {
            return Ok(PartReading::alone());
        }
        let progress = Progress::start();
        let project = Project::open(&path, self.session.cache())?;
        let target = project.target(self.args.rev.as_deref())?;
        progress.say(format!("replaying {} at {}", path.display(), target_name(&target)));
        self.revision = target.commit.clone().map(Revision::from);
        let lab = self.session.lab_for(project.harness())?;
        let trial = lab.trial(&project.subject, &target.sources);
        if let Some(other) = self.other {
            let base = Project::open(&other.path.join(&part.folder), self.session.cache())?;
            let base_target = base.target(self.args.rev.as_deref())?;
            let base = lab.trial(&base.subject, &base_target.sources);
            return Ok(read_part_of_runs(&base, &trial, part)?);
        }
        let Some(against) = &self.args.against else {
            ensure_evidence_room(&trial, false)?;
            return Ok(read_part(&trial, part, is_captured_code(&project, &target)?)?);
        };
        let base = match project.origin.trusted(against)? {
            TrustedSources::Found(base) => base,
            TrustedSources::Absent { reason } => return Ok(PartReading::untestable(reason)),
        };
        self.trusted = base.commit.clone().map(Revision::from);
        let base = lab.trial(&project.subject, &base.sources);
        ensure_evidence_room(&trial, true)?;
        Ok(read_part_beside(&base, &trial, part)?)
    }
}

/// Whether the replayed code is what was captured, as far as anybody can tell: other code may give something else.
fn is_captured_code(project: &Project, target: &RequestedRevision) -> CliResult<bool> {
    let captured = project.capture_revision(&target.sources)?;
    Ok(captured.is_none_or(|captured| {
        captured.same_sources || (captured.dirty && target.commit.is_none())
    }))
}

fn extract_module(args: &StepArgs, order: &StepOrder, module: &str) -> CliResult<u8> {
    let part = order.parts.iter().find(|part| part.folder == module);
    let part = part.ok_or_else(|| no_such_module(order, module))?;
    let folder = args.output_dir.clone().unwrap_or_else(|| {
        let name = args.step.file_name().unwrap_or_default().to_string_lossy().into_owned();
        args.step.with_file_name(format!("{name}-{module}"))
    });
    check_is_new(&folder, "name another folder: -o DIR")?;
    let fixture = Fixture::load(&args.step.join(&part.folder))?;
    write_new_folder(&folder, || write_extracted(&fixture, &folder))?;
    println!("{}", folder.display());
    Ok(exit::SUCCESS)
}

/// Writes `fixture` to `folder` with all tensors in files of its own.
fn write_extracted(fixture: &Fixture, folder: &Path) -> CliResult<()> {
    let mut manifest = begin_manifest(fixture, folder)?;
    let cut = InputCut::default();
    let inputs = fixture.cut_inputs(&cut, &IndexMap::new())?;
    let tables = fixture.write_cut(folder, &inputs, &cut)?;
    let shapes: Vec<Vec<usize>> = fixture.captured.iter().map(|output| output.shape()).collect();
    let captured: Vec<NewTensor<'_>> = fixture
        .captured
        .iter()
        .zip(&shapes)
        .map(|(output, shape)| (&*output.name, output.dtype, &shape[..], output.bytes()))
        .collect();
    if !captured.is_empty() {
        write_file(&folder.join("expected.safetensors"), &captured, &[])?;
    }
    let parsed = read_manifest(fixture)?;
    let mut kept = toml::Table::new();
    for key in ["provenance", "metrics"] {
        if let Some(table) = parsed.get(key) {
            kept.insert(key.to_owned(), table.clone());
        }
    }
    manifest.push_str(&format!("\n{kept}{tables}"));
    let path = folder.join("fixture.toml");
    fs::write(&path, manifest).context(|| format!("cannot write {}", path.display()))?;
    Fixture::load(folder)?;
    Ok(())
}
