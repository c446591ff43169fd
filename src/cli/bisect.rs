//! `replay bisect FIXTURE... --good REV... --bad REV...`: finds the first bad commit.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use ::replay::bisect::{
    Bisection, Event, Findings, Look, On, Report, SearchEnd, SearchTarget, Trusted,
};
use ::replay::harness::Harness;
use ::replay::history::{Commit, CommitId, History};
use ::replay::report::{self, Blame, Line, Origin};
use ::replay::trial::Check;
use clap::ValueEnum;

use super::bisect_log;
use super::cluster::{self, ClusterArgs};
use super::error::{CliResult, CommandError};
use super::exit;
use super::fixtures;
use super::messages;
use super::out::{print, println};
use super::progress::Progress;
use super::project::Project;
use super::recorded::{Recorded, SNAPSHOT};
use super::replay::CheckArg;
use super::report_file::{FileFormat, ReportFile};
use super::session::{self, SessionArgs, jobs};
use super::snapshot::must_be_there;

/// More jobs than this hardly save rounds.
const MOST_JOBS: usize = 8;

/// The arguments of `replay bisect`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folders of captured tensors; a commit is bad if it is on any of them
    #[arg(required = true, value_name = "FIXTURE")]
    fixtures: Vec<PathBuf>,
    /// Revisions without the defect; outputs are compared with those of the first
    ///
    /// `snapshot` stands for the accepted snapshot: the search is for the commit at which the outcome
    /// left it. It goes back to the other revisions that are named; if none is, to the commit that
    /// last touched the snapshot, or, where the snapshot is not in the history of the sources,
    /// to the first commit that has them.
    #[arg(long, required = true, num_args = 1.., value_name = "REV")]
    good: Vec<String>,
    /// Revisions with the defect
    #[arg(long, required = true, num_args = 1.., value_name = "REV")]
    bad: Vec<String>,
    /// What makes a commit bad
    #[arg(long, value_enum, default_value = "wrong", value_name = "WHAT")]
    on: OnArg,
    /// Commits that are tested at a time [default: one a core, at most 8]
    #[arg(short, long, value_name = "N", value_parser = jobs, allow_negative_numbers = true)]
    jobs: Option<NonZeroUsize>,
    /// Follow only the first parent of merges
    #[arg(long)]
    first_parent: bool,
    /// The folder of accepted snapshots [default: the nearest `snapshots` above the fixture]
    #[arg(long, value_name = "DIR")]
    snapshots: Option<PathBuf>,
    /// Whether accesses to memory of the culprit and of its parent are checked; with --on race those of
    /// every commit are, however long it takes
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    check: CheckArg,
    /// How the result is written; JSON is one event a line
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: SearchFormat,
    /// Write the answer to a file too; its ending names the format: .html, .md
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// How the answer of a search is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SearchFormat {
    /// For people
    Text,
    /// For programs; docs/schema.md describes it
    Json,
    /// For a comment on a pull request: at most 60 kB
    Markdown,
    /// A page to look at, in one file
    Html,
}

/// The condition under which a commit is bad.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OnArg {
    /// An output beyond noise and not closer to the truth, or one that depends on the order of blocks
    /// and threads, or a failure
    Wrong,
    /// An output beyond noise, or one that depends on the order of blocks and threads, or a failure
    Changed,
    /// An output with other bits, or a failure
    Bits,
    /// An access to memory that is wrong in a checked replay (a race, a read of what nobody wrote, an
    /// access out of bounds) and not so at the good end, or a failure
    Race,
    /// A failure
    Failed,
}

impl From<OnArg> for On {
    fn from(on: OnArg) -> On {
        match on {
            OnArg::Wrong => On::Wrong,
            OnArg::Changed => On::Changed,
            OnArg::Bits => On::Bits,
            OnArg::Race => On::Race,
            OnArg::Failed => On::Failed,
        }
    }
}

/// Searches, and prints the answer.
pub fn run(args: &Args, session: &SessionArgs) -> CliResult<u8> {
    let file =
        ReportFile::named(args.report.as_deref(), &[FileFormat::Html, FileFormat::Markdown])?;
    let progress = Progress::start();
    progress.say("reading the history");
    let (history, targets) = open(&fixtures::expand(&args.fixtures))?;
    if args.cluster.on_cluster.is_some() {
        drop(progress);
        return run_on_cluster(args, session, &history, &targets);
    }
    let Search { mut bisection, good, bad, origin } = search(args, session, &history, targets)?;
    bisection.illustrated = args.format == SearchFormat::Html || ReportFile::is_page(&file);
    if let (Some(origin), SearchFormat::Json) = (&origin, args.format) {
        println!("{}", report::recorded_json(&origin.snapshot, &good));
    }
    let mut watcher = Watcher { progress: &progress, format: args.format, busy: BTreeSet::new() };
    let report = bisection.search(&good, &bad, &mut |event| watcher.hear(&event))?;
    drop(progress);
    messages::end_with(bisect_log::text(&report, args.first_parent));
    print!("{}", written(args.format, &report, origin.as_ref(), report::COMMENT_BYTES));
    if let Some(file) = file {
        let format = match file.format {
            FileFormat::Markdown => SearchFormat::Markdown,
            _ => SearchFormat::Html,
        };
        file.write(&written(format, &report, origin.as_ref(), report::SUMMARY_BYTES))?;
    }
    Ok(match report.ending() {
        SearchEnd::Found => exit::SUCCESS,
        SearchEnd::Hidden => exit::UNTESTABLE,
        SearchEnd::Refused => exit::FAILED,
    })
}

/// The answer, of at most `limit` bytes where a format has a limit.
fn written(format: SearchFormat, found: &Report, origin: Option<&Origin>, limit: usize) -> String {
    match format {
        SearchFormat::Json => format!("{}\n", report::bisect_json(found)),
        SearchFormat::Markdown => report::bisect_markdown(found, origin, limit),
        SearchFormat::Html => report::bisect_html(found, origin),
        SearchFormat::Text => {
            let origin = origin.map(|origin| format!("{}\n", origin.line()));
            format!("{}{}", report::bisect(found), origin.unwrap_or_default())
        }
    }
}

/// A search as the command line asks for it.
struct Search<'h> {
    bisection: Bisection<'h>,
    good: Vec<Commit>,
    bad: Vec<Commit>,
    /// Where it begins, if that is a snapshot.
    origin: Option<report::Origin>,
}

/// The good and the bad ends that are revisions.
fn ends(args: &Args, history: &History) -> CliResult<(Vec<Commit>, Vec<Commit>)> {
    let resolve = |revs: &mut dyn Iterator<Item = &String>| -> CliResult<Vec<Commit>> {
        Ok(revs.map(|rev| history.resolve(rev)).collect::<Result<_, _>>()?)
    };
    let good = resolve(&mut args.good.iter().filter(|rev| *rev != SNAPSHOT))?;
    Ok((good, resolve(&mut args.bad.iter())?))
}

/// Whether commits are compared with accepted snapshots.
fn is_recorded(args: &Args) -> bool {
    args.good.iter().any(|rev| rev == SNAPSHOT)
}

fn search<'h>(
    args: &Args,
    session: &SessionArgs,
    history: &'h History,
    targets: Vec<SearchTarget>,
) -> CliResult<Search<'h>> {
    let (mut good, bad) = ends(args, history)?;
    let mut bisection =
        bisection(history, targets, args.on.into(), args.jobs, args.first_parent, session)?;
    bisection.check = check(args)?;
    let mut origin = None;
    if is_recorded(args) {
        if let Some(folder) = &args.snapshots {
            must_be_there(folder)?;
        }
        let recorded =
            Recorded::open(&bisection.targets, &bisection.lab, args.snapshots.as_deref())?;
        let mut why = Vec::new();
        if good.is_empty() {
            for (end, reason) in recorded.lower_ends(history, &bisection.targets, &bad)? {
                why.push(format!("{}, {reason}", end.short));
                good.push(end);
            }
        } else {
            why.extend(good.iter().map(|end| end.short.clone()));
        }
        let (snapshot, back_to) = (recorded.names(), why.join("; "));
        origin = Some(report::Origin { snapshot, back_to });
        bisection.trusted = Trusted::Snapshots(recorded.snapshots);
    }
    Ok(Search { bisection, good, bad, origin })
}

/// The same with tests on a cluster. Unless snapshots are compared with, this machine needs no device for it.
fn run_on_cluster(
    args: &Args,
    session: &SessionArgs,
    history: &History,
    targets: &[SearchTarget],
) -> CliResult<u8> {
    check(args)?;
    let (good, bad) = match is_recorded(args) {
        true => {
            let search = search(args, session, history, targets.to_vec())?;
            (search.good, search.bad)
        }
        false => ends(args, history)?,
    };
    let jobs = args.jobs.map(NonZeroUsize::get);
    cluster::bisect(&args.cluster, history, targets, (&good, &bad, args.first_parent), jobs)
}

/// Makes one test of the search.
pub fn look(args: &Args, session: &SessionArgs, look: Look) -> CliResult<Findings> {
    let (history, targets) = open(&fixtures::expand(&args.fixtures))?;
    let Search { bisection, good, bad, .. } = search(args, session, &history, targets)?;
    Ok(bisection.look(&good, &bad, look)?)
}

/// Compiles a commit that the search may test.
pub fn compile(args: &Args, session: &SessionArgs, commit: CommitId) -> CliResult<()> {
    let (history, targets) = open(&fixtures::expand(&args.fixtures))?;
    let on = args.on.into();
    let bisection = bisection(&history, targets, on, args.jobs, args.first_parent, session)?;
    Ok(bisection.compile(commit)?)
}

/// Whether accesses of the culprit are checked: a search for races has done so by then.
fn check(args: &Args) -> CliResult<Check> {
    match (On::from(args.on), args.check) {
        (On::Race, CheckArg::Off) => {
            Err(CommandError::new("--on race checks accesses to memory, and --check=off does not")
                .with_hint("leave --check out"))
        }
        (On::Race, _) => Ok(Check::Always),
        (_, check) => Ok(check.into()),
    }
}

/// The commit between `good` and `target` that `on` calls bad on the fixture at `path`.
pub fn blame(
    path: &Path,
    good: &str,
    target: &super::project::RequestedRevision,
    project: &Project,
    on: On,
    illustrated: bool,
    session: &SessionArgs,
) -> CliResult<Blame> {
    let bad = match &target.commit {
        Some(commit) => commit.clone(),
        None => {
            let head = project.history.head()?;
            if project.commit_target(head.clone())?.sources != target.sources {
                let text = "what changed is not committed: the working tree differs from HEAD";
                return Ok(Blame { commit: None, text: text.to_owned(), lineage: None });
            }
            head
        }
    };
    let (history, targets) = open(&[path.to_owned()])?;
    let good = history.resolve(good)?;
    let mut bisection = bisection(&history, targets, on, None, false, session)?;
    bisection.illustrated = illustrated;
    let report = bisection.search(&[good], &[bad], &mut |_| {})?;
    Ok(report::blame(&report))
}

/// Loads the fixtures, which must share a history.
pub fn open(fixtures: &[PathBuf]) -> CliResult<(History, Vec<SearchTarget>)> {
    let cache = session::cache()?;
    let mut history: Option<(History, &Path)> = None;
    let mut targets = Vec::new();
    for path in fixtures {
        let Project { subject, history: own, spec, .. } = Project::open(path, &cache)?;
        match &history {
            None => history = Some((own, path)),
            Some((known, first)) if known.path() != own.path() => {
                return Err(CommandError::new(format!(
                    "{} and {} are of different histories: {} and {}",
                    first.display(),
                    path.display(),
                    known.path().display(),
                    own.path().display()
                ))
                .with_hint("search each of them by itself"));
            }
            Some(_) => {}
        }
        targets.push(SearchTarget { subject, spec });
    }
    let (history, _) = history.ok_or_else(|| CommandError::new("no fixture was named"))?;
    Ok((history, targets))
}

/// Makes a search of its parts; its jobs share the cores.
pub fn bisection<'h>(
    history: &'h History,
    targets: Vec<SearchTarget>,
    on: On,
    jobs: Option<NonZeroUsize>,
    first_parent: bool,
    session: &SessionArgs,
) -> CliResult<Bisection<'h>> {
    let cores = session.threads();
    let jobs = jobs.or(NonZeroUsize::new(cores.clamp(1, MOST_JOBS))).unwrap_or(NonZeroUsize::MIN);
    let threads = (cores / jobs).max(1);
    let harnesses: Vec<&Harness> =
        targets.iter().map(|target| &target.subject.fixture.harness).collect();
    let [lab, repeater] = session.search_labs(&harnesses, threads)?;
    let trusted = Trusted::GoodEnd;
    let (check, illustrated) = (Check::Off, false);
    Ok(Bisection {
        history,
        targets,
        lab,
        repeater,
        on,
        trusted,
        jobs,
        first_parent,
        check,
        illustrated,
    })
}

/// Shows the events of a search as they happen.
struct Watcher<'p> {
    progress: &'p Progress,
    format: SearchFormat,
    busy: BTreeSet<String>,
}

impl Watcher<'_> {
    fn hear(&mut self, event: &Event) {
        if self.format == SearchFormat::Json {
            println!("{}", report::event_json(event));
        }
        match event {
            Event::Planned { commits, candidates, jobs } => {
                self.progress.expect(*candidates);
                self.note(format!(
                    "{candidates} of {commits} commits change a kernel, {jobs} tested at a time"
                ));
            }
            Event::Started { commit, state } => {
                self.busy.insert(commit.short.clone());
                self.show(state.candidates, state.rounds);
            }
            Event::Tested { commit, answer, seen, state } => {
                self.busy.remove(&commit.short);
                self.show(state.candidates, state.rounds);
                self.note(report::tested_line(commit, *answer, seen));
            }
            Event::Flaky { commit } => {
                self.busy.clear();
                self.note(format!(
                    "{} does not always show the same: tests are repeated and counted",
                    commit.short
                ));
            }
        }
    }

    fn show(&self, left: usize, rounds: u32) {
        let busy: Vec<&str> = self.busy.iter().map(String::as_str).collect();
        self.progress.left(left);
        self.progress.say(format!(
            "{left} commits left, about {rounds} rounds; testing {}",
            busy.join(", ")
        ));
    }

    fn note(&self, line: impl Into<Line>) {
        self.progress.note(&line.into());
    }
}
