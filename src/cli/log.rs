//! `replay log FIXTURE... RANGE`: every commit with a changed output.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use ::replay::bisect::{BisectError, Bisection, LogReport, On, SearchTarget, survey_range};
use ::replay::history::{CommitId, History, SourceSpec};
use ::replay::report::{self, LogRequest};

use super::bisect::{SearchOptions, create_bisection, load_search_targets};
use super::cluster::{self, ClusterArgs};
use super::completions::fixture_or_revision_completer;
use super::error::{CliResult, CommandError};
use super::exit;
use super::fixtures;
use super::out::{print, println};
use super::progress::Progress;
use super::replay::{CheckArg, Format};
use super::report_file::{FILES, ReportFiles};
use super::run_record::{self, run_record};
use super::session::Session;
use super::settings::values::parse_jobs_arg;

/// The commits of a log without a range that change the sources.
const CHOSEN_CHANGES: usize = 20;

/// The arguments of `replay log`.
#[derive(Debug, clap::Args)]
pub struct LogArgs {
    /// Folders of captured tensors, then commits as `git log` takes them, such as A..B [default: the last 20 that
    /// change the sources]
    #[arg(required = true, num_args = 1.., value_names = ["FIXTURE", "RANGE"],
          add = fixture_or_revision_completer())]
    words: Vec<String>,
    /// Commits that are replayed at a time [default: one a core, at most 8]
    #[arg(short, long, value_name = "N", value_parser = parse_jobs_arg, allow_negative_numbers = true)]
    pub jobs: Option<NonZeroUsize>,
    /// Follow only the first parent of merges
    #[arg(long)]
    first_parent: bool,
    /// Whether accesses to memory of every variant are checked: one more compilation for each
    #[arg(long, value_enum, default_value = "off", value_name = "WHEN")]
    check: CheckArg,
    /// How the result is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: Format,
    /// Write the result to a file too, or to several; the ending names the format: .html, .json
    #[arg(long, value_name = "FILE")]
    report: Vec<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl LogArgs {
    fn search_options(&self) -> SearchOptions {
        SearchOptions { on: On::Changed, first_parent: self.first_parent }
    }
}

/// The fixtures and the range, if one is named: the last word, unless it is a folder or the only one.
fn split_log_words(args: &LogArgs) -> (Vec<PathBuf>, Option<&str>) {
    match args.words.as_slice() {
        [fixtures @ .., range] if !fixtures.is_empty() && !Path::new(range).is_dir() => {
            (fixtures::expand_fixtures(fixtures), Some(range))
        }
        fixtures => (fixtures::expand_fixtures(fixtures), None),
    }
}

/// The commits of a log.
struct LogRange {
    /// As the user wrote them, or as they were chosen.
    words: String,
    /// How many commits that change the sources were chosen, if no range was named.
    chosen: Option<usize>,
}

impl LogRange {
    /// The commits of `named`, or the last ones of `history` that change the sources of `targets`.
    fn choose(
        named: Option<&str>,
        history: &History,
        targets: &[SearchTarget],
    ) -> CliResult<LogRange> {
        if let Some(range) = named {
            return Ok(LogRange { words: range.to_owned(), chosen: None });
        }
        let specs: Vec<&SourceSpec> = targets.iter().map(|target| &target.spec).collect();
        let (words, count) = history.last_changes(&specs, CHOSEN_CHANGES)?;
        Ok(LogRange { words, chosen: Some(count) })
    }
}

/// Makes one replay of a log: of `commit`, on the fixture with this number.
pub fn replay_for_log(
    args: &LogArgs,
    session: &Session,
    fixture: usize,
    commit: CommitId,
) -> CliResult<Option<String>> {
    with_log_target(args, session, fixture, |bisection, target, _| {
        bisection.replay_for_log(target, commit)
    })
}

/// Judges the changes of one commit of the range on the fixture with this number.
pub fn judge_for_log(
    args: &LogArgs,
    session: &Session,
    fixture: usize,
    commit: CommitId,
) -> CliResult<()> {
    with_log_target(args, session, fixture, |bisection, target, range| {
        bisection.judge_for_log(target, range, commit)
    })
}

/// Does `work` with the parts of a log, the fixture with this number and the range.
fn with_log_target<T>(
    args: &LogArgs,
    session: &Session,
    fixture: usize,
    work: impl FnOnce(&Bisection<'_>, &SearchTarget, &str) -> Result<T, BisectError>,
) -> CliResult<T> {
    let (fixtures, range) = split_log_words(args);
    let (history, targets) = load_search_targets(&fixtures, session.cache())?;
    let range = LogRange::choose(range, &history, &targets)?;
    let target = targets.get(fixture).cloned();
    let target = target.ok_or_else(|| CommandError::new("there is no such fixture"))?;
    let mut bisection = create_bisection(&history, targets, args.search_options(), session)?;
    bisection.check = args.check.into();
    Ok(work(&bisection, &target, &range.words)?)
}

/// Replays every variant of the range. The exit code is 0 whatever it finds, for it is a report,
/// unless nothing could be tested.
pub fn run_log(args: &LogArgs, session: &Session) -> CliResult<u8> {
    let (fixtures, range) = split_log_words(args);
    let files = ReportFiles::named(&args.report, &FILES)?;
    let progress = Progress::start();
    progress.say("reading the history");
    let (history, targets) = load_search_targets(&fixtures, session.cache())?;
    let LogRange { words, chosen } = LogRange::choose(range, &history, &targets)?;
    let range = words.as_str();
    if args.cluster.on_cluster.is_some() {
        drop(progress);
        return cluster::run_log_on_cluster(
            &args.cluster,
            session,
            &history,
            &targets,
            (range, args.first_parent),
        );
    }
    let names = SearchTarget::names(&targets);
    let mut bisection = create_bisection(&history, targets, args.search_options(), session)?;
    bisection.check = args.check.into();
    bisection.illustrated = args.format == Format::Html || files.have_page();
    let log_report = survey_range(&bisection, range, &mut |commit, done_count, total| {
        progress.say(format!("replaying {}, {} of {total}", commit.short, done_count + 1));
    })?;
    drop(progress);
    let request = LogRequest { fixtures: names, range, chosen };
    if args.format == Format::Text {
        match chosen {
            None => run_record::print_record_head(&[request.line()]),
            Some(_) => {
                run_record::print_record_head(&[]);
                println!("{}\n", request.line());
            }
        }
    }
    print!("{}", format_log_result(args.format, &log_report, &request));
    files.write(|format| format_log_result(format.into(), &log_report, &request))?;
    let untested = log_report.variants > 0 && log_report.untested == log_report.variants;
    Ok(if untested { exit::UNTESTABLE } else { exit::SUCCESS })
}

fn format_log_result(format: Format, log_report: &LogReport, request: &LogRequest<'_>) -> String {
    match format {
        Format::Text => report::render_log_text(log_report).to_string(),
        Format::Json => report::render_log_json(log_report, request, run_record()) + "\n",
        Format::Html => report::log_html(log_report, request, run_record()),
    }
}
