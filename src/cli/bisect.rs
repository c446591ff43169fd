//! `replay bisect FIXTURE... --good REV... --bad REV...`: finds the commit behind a defect, or behind its repair.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use ::replay::bisect::{
    Along, BisectEnds, Bisection, BothEnds, BothReport, Direction, Event, GoodEnds, HunkSearch,
    Look, On, SearchEnd, SearchReport, SearchTarget, Side, TestFindings, Trusted,
};
use ::replay::cache::Cache;
use ::replay::harness::Harness;
use ::replay::history::{Commit, CommitId, History, SourceSpec};
use ::replay::report::{self, Blame, OutputBlame, ReportLine, SearchRequest, SearchedAxis};
use ::replay::trial::{AccessCheck, GradientEffort};
use clap::ValueEnum;

use super::accepted_snapshots::{AcceptedSnapshots, SNAPSHOT};
use super::bisect_log;
use super::cluster::{self, ClusterArgs};
use super::completions::{fixture_completer, revision_completer};
use super::environments::{AxisEnds, RequestedAxis, RequestedPairs};
use super::error::{CliResult, CommandError};
use super::exit;
use super::fixtures;
use super::messages;
use super::out::print;
use super::patch_file::PatchFile;
use super::progress::Progress;
use super::project::{Project, RequestedRevision};
use super::replay::CheckArg;
use super::report_file::{FileFormat, ReportFiles};
use super::run_record::{self, run_record};
use super::session::Session;
use super::settings::values::parse_jobs_arg;
use super::snapshot::must_be_there;

/// The formats of the answer of a search in a file.
pub const FILES: [FileFormat; 3] = [FileFormat::Html, FileFormat::Json, FileFormat::Markdown];

/// The arguments of `replay bisect`.
#[derive(Debug, clap::Args)]
pub struct BisectArgs {
    /// Folders of captured tensors; a commit is bad if it is on any of them
    #[arg(required = true, value_name = "FIXTURE", add = fixture_completer())]
    fixtures: Vec<PathBuf>,
    /// Revisions without the defect; outputs are compared with those of the first
    ///
    /// `snapshot` stands for the accepted snapshot: the search is for the commit at which the outcome
    /// left it. It goes back to the other revisions that are named; if none is, to the commit that
    /// last touched the snapshot, or, where the snapshot is not in the history of the sources,
    /// to the first commit that has them.
    ///
    /// Where they are newer than the bad ones, the commit is found that repaired the defect.
    ///
    /// REV@AXIS=VALUE is a revision in an environment (`replay help environments`), at both ends: the search finds
    /// whether the change lies in the code or in the environment, and then the commit or the value.
    #[arg(long, required_unless_present_any = ["old", "on"], num_args = 1.., value_name = "REV",
          add = revision_completer())]
    good: Vec<String>,
    /// Revisions with the defect
    #[arg(long, required_unless_present = "old", num_args = 1.., value_name = "REV",
          add = revision_completer())]
    bad: Vec<String>,
    /// Older revisions, where it is not known which end is right: the replays tell
    #[arg(long, requires = "new", conflicts_with_all = ["good", "bad"], num_args = 1.., value_name = "REV",
          add = revision_completer())]
    old: Vec<String>,
    /// Newer revisions, which differ from the older ones
    #[arg(long, requires = "old", num_args = 1.., value_name = "REV", add = revision_completer())]
    new: Vec<String>,
    /// Search along this axis of environments and not along the history: --good and --bad, or --old and
    /// --new, name its values (`replay help environments`)
    #[arg(
        long, value_name = "AXIS",
        conflicts_with_all = ["hunks", "patch", "first_parent", "snapshots", "on_cluster"]
    )]
    over: Option<String>,
    /// The revision of all environments [default: the working tree]
    #[arg(long, requires = "over", value_name = "REV", add = revision_completer())]
    rev: Option<String>,
    /// What makes a commit bad
    #[arg(long, value_enum, default_value = "wrong", value_name = "WHAT")]
    on: OnArg,
    /// Commits that are tested at a time [default: one a core, at most 8]
    #[arg(short, long, value_name = "N", value_parser = parse_jobs_arg, allow_negative_numbers = true)]
    pub jobs: Option<NonZeroUsize>,
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
    /// Write the answer to a file too, or to several; the ending names the format: .html, .json, .md
    #[arg(long, value_name = "FILE")]
    report: Vec<PathBuf>,
    /// Find the hunks of the culprit that carry the defect as well, and whether reversing them mends the bad end
    ///
    /// It takes at most about twice as many tests as the search. `replay blame` does the same for one
    /// commit, without a limit.
    #[arg(long)]
    hunks: bool,
    /// Write the patch that reverses these hunks on the bad end; `git apply` takes it. Implies --hunks
    #[arg(long, value_name = "FILE")]
    patch: Option<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl BisectArgs {
    fn search_options(&self) -> SearchOptions {
        SearchOptions { on: self.on.into(), first_parent: self.first_parent }
    }

    /// The axis to search along, with the values at its ends, if one is named.
    fn requested_axis(&self) -> CliResult<Option<RequestedAxis<'_>>> {
        let Some(axis) = &self.over else { return Ok(None) };
        let rev = self.rev.as_deref();
        let ends = match [&self.good, &self.bad, &self.old, &self.new].map(Vec::as_slice) {
            [[good], [bad], [], []] => AxisEnds::Claimed { good, bad },
            [[], [], [old], [new]] => AxisEnds::Unclaimed { old, new },
            _ => {
                return Err(CommandError::new("--over takes one value at each end").with_hint(
                    format!("`--over {axis} --good A --bad B`, or --old and --new without a claim"),
                ));
            }
        };
        Ok(Some(RequestedAxis { axis, rev, ends }))
    }

    /// Refuses what does not go with ends that are commits in environments.
    fn refuse_beside_pairs(&self) -> CliResult<()> {
        let refused_words = [
            (self.patch.is_some(), "--patch"),
            (self.snapshots.is_some(), "--snapshots"),
            (self.cluster.on_cluster.is_some(), "--on-cluster"),
        ];
        match refused_words.into_iter().find(|(is_given, _)| *is_given) {
            Some((_, word)) => {
                Err(CommandError::new(format!("{word} does not go with ends in environments"))
                    .with_hint("leave it out; or search in the session's own environment"))
            }
            None => Ok(()),
        }
    }

    /// Refuses a search for gradients without a check of them.
    fn refuse_unchecked_gradients(&self, session: &Session) -> CliResult<()> {
        let is_unchecked = session.gradient_effort() == GradientEffort::Off;
        if !matches!(self.on, OnArg::Gradient) || !is_unchecked {
            return Ok(());
        }
        Err(CommandError::new(
            "`--on gradient` searches by gradients, and `--gradients off` leaves them out",
        )
        .with_hint("leave out `--gradients off`, or search by outputs: `--on wrong`")
        .with_hints(session.settings().gradients.origin.hint()))
    }

    /// Where the answer goes.
    fn output(&self, files: ReportFiles, patch_file: Option<PatchFile>) -> SearchOutput {
        let &BisectArgs { format, first_parent, .. } = self;
        SearchOutput { format, files, patch_file, first_parent }
    }

    /// Loads the named fixtures.
    fn load_targets(&self, session: &Session) -> CliResult<(History, Vec<SearchTarget>)> {
        load_search_targets(&fixtures::expand_fixtures(&self.fixtures), session.cache())
    }
}

/// How the answer of a search is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SearchFormat {
    /// For people
    Text,
    /// For programs; docs/schema.md describes it
    Json,
    /// For a comment on a pull request: at most 60 kB
    Markdown,
    /// A page to look at, in one file
    Html,
}

/// The condition for a bad commit.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum OnArg {
    /// An output beyond noise and not closer to the truth, or one that depends on the order of blocks
    /// and threads, or a failure
    Wrong,
    /// An output beyond noise, or one that depends on the order of blocks and threads, or a failure
    Changed,
    /// An output with other bits, or a failure
    Bits,
    /// An access to memory that is wrong in a checked replay (a race, a read of what nobody wrote, an
    /// access out of bounds) and not so on the good side, or a failure
    Race,
    /// A gradient that does not match its loss, or a failure: no values are compared. A search without a
    /// good end begins at the oldest commit that can be tested
    Gradient,
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
            OnArg::Gradient => On::Gradient,
            OnArg::Failed => On::Failed,
        }
    }
}

/// Searches, and prints the answer.
pub fn run_bisect(args: &BisectArgs, session: &Session) -> CliResult<u8> {
    let files = ReportFiles::named(&args.report, &FILES)?;
    let patch_file = args.patch.as_deref().map(PatchFile::named).transpose()?;
    args.refuse_unchecked_gradients(session)?;
    let requested_axis = args.requested_axis()?;
    let progress = Progress::start();
    progress.say("reading the history");
    let (history, targets) = args.load_targets(session)?;
    if let Some(requested_axis) = requested_axis {
        let check = choose_access_check(args)?;
        let (axis, ends) = requested_axis.open(session, &targets)?;
        let searched = SearchedAxis { name: axis.axis.name.clone(), place: axis.place.clone() };
        let mut bisection = create_bisection(&history, targets, args.search_options(), session)?;
        bisection.check = check;
        bisection.along = Along::Environments(axis);
        let fixtures = SearchTarget::names(&bisection.targets);
        let request = SearchRequest { fixtures, ends: &ends, origin: None, axis: Some(searched) };
        return answer_search(bisection, &request, &args.output(files, patch_file), progress);
    }
    RequestedPairs::refuse_unclaimed(&history, &[args.old.as_slice(), &args.new].concat())?;
    if let Some(requested_pairs) = RequestedPairs::read(&history, &args.good, &args.bad)? {
        args.refuse_beside_pairs()?;
        let check = choose_access_check(args)?;
        let both = requested_pairs.open(session, &history, &targets)?;
        let mut bisection = create_bisection(&history, targets, args.search_options(), session)?;
        bisection.check = check;
        bisection.hunk_search = args.hunks.then_some(HunkSearch { is_brief: true, onto: None });
        return answer_both(bisection, &both, &args.output(files, None), progress);
    }
    if args.cluster.on_cluster.is_some() {
        drop(progress);
        return run_on_cluster(args, session, &history, &targets);
    }
    let RequestedSearch { mut bisection, ends, origin } =
        create_requested_search(args, session, &history, targets)?;
    let asks_for_hunks = args.hunks || args.patch.is_some();
    bisection.hunk_search = asks_for_hunks.then_some(HunkSearch { is_brief: true, onto: None });
    let fixtures = SearchTarget::names(&bisection.targets);
    let request = SearchRequest { fixtures, ends: &ends, origin, axis: None };
    answer_search(bisection, &request, &args.output(files, patch_file), progress)
}

/// Where the answer of a search goes.
pub struct SearchOutput {
    pub format: SearchFormat,
    pub files: ReportFiles,
    pub patch_file: Option<PatchFile>,
    /// Whether the search follows only first parents.
    pub first_parent: bool,
}

/// Searches as `request` says, and writes the answer.
pub fn answer_search(
    mut bisection: Bisection<'_>,
    request: &SearchRequest<'_>,
    output: &SearchOutput,
    progress: Progress,
) -> CliResult<u8> {
    bisection.illustrated = output.wants_page();
    let ends = request.ends;
    let noun = if request.axis.is_some() { ENVIRONMENTS } else { COMMITS };
    let mut watcher = Watcher::start(&progress, noun, output);
    watcher.tell_event(|| report::render_begin_json(request, run_record()));
    if let (Some(origin), BisectEnds::Claimed { good, .. }) = (&request.origin, ends) {
        watcher.tell_event(|| report::render_recorded_json(&origin.snapshot, good));
    }
    let report = bisection.search(ends, &mut |event| watcher.hear(&event))?;
    let earlier_events = watcher.kept_events.unwrap_or_default();
    drop(progress);
    if report.axis.is_none() {
        messages::set_log_end(bisect_log::format_git_bisect_log(&report, output.first_parent));
    }
    output.write(request, &earlier_events, |format, limit| {
        format_search_result(format, &report, request, limit)
    })?;
    if let Some(patch_file) = &output.patch_file {
        patch_file.write(&report)?;
    }
    Ok(choose_exit_code(report.ending()))
}

/// Searches between ends that are commits in environments, and writes the answer.
fn answer_both<'s>(
    mut bisection: Bisection<'s>,
    both: &BothEnds<'s>,
    output: &SearchOutput,
    progress: Progress,
) -> CliResult<u8> {
    bisection.illustrated = output.wants_page();
    let [good, bad] = [Side::Good, Side::Bad].map(|side| vec![both.name_pair(side, side)]);
    let ends = BisectEnds::Claimed { good, bad };
    let fixtures = SearchTarget::names(&bisection.targets);
    let request = SearchRequest { fixtures, ends: &ends, origin: None, axis: None };
    let mut watcher = Watcher::start(&progress, PAIRS, output);
    watcher.tell_event(|| report::render_begin_json(&request, run_record()));
    let report = bisection.search_both(both, &mut |event| watcher.hear(&event))?;
    let earlier_events = watcher.kept_events.unwrap_or_default();
    drop(progress);
    for search in report.list_searches() {
        if search.axis.is_none() && search.ending() != SearchEnd::Refused {
            messages::set_log_end(bisect_log::format_git_bisect_log(search, output.first_parent));
        }
    }
    output.write(&request, &earlier_events, |format, limit| match format {
        SearchFormat::Json => match &report {
            BothReport::Refused(refused) => format!("{}\n", report::render_bisect_json(refused)),
            // Each search has told its answer.
            BothReport::Searched { .. } => String::new(),
        },
        SearchFormat::Markdown => report::both_markdown(&report, &request, run_record(), limit),
        SearchFormat::Html => report::both_html(&report, &request, run_record()),
        SearchFormat::Text => report::render_both_text(&report).to_string(),
    })?;
    Ok(choose_exit_code(report.ending()))
}

/// The exit code of a search.
fn choose_exit_code(ending: SearchEnd) -> u8 {
    match ending {
        SearchEnd::Found => exit::SUCCESS,
        SearchEnd::Ambiguous => exit::UNTESTABLE,
        SearchEnd::Refused => exit::FAILED,
    }
}

impl SearchOutput {
    /// Whether a page is among what is written.
    fn wants_page(&self) -> bool {
        self.format == SearchFormat::Html || self.files.have_page()
    }

    /// Prints the answer and writes its files. `render` makes it in a format, of at most so many bytes where the format has
    /// a limit.
    fn write(
        &self,
        request: &SearchRequest<'_>,
        earlier_events: &str,
        render: impl Fn(SearchFormat, usize) -> String,
    ) -> CliResult<()> {
        if self.format == SearchFormat::Text {
            run_record::print_record_head(&[request.line()]);
        }
        print!("{}", render(self.format, report::COMMENT_BYTES));
        self.files.write(|format| {
            let (format, before) = match format {
                FileFormat::Markdown => (SearchFormat::Markdown, ""),
                FileFormat::Json => (SearchFormat::Json, earlier_events),
                _ => (SearchFormat::Html, ""),
            };
            before.to_owned() + &render(format, report::SUMMARY_BYTES)
        })
    }
}

/// The answer, of at most `limit` bytes where a format has a limit.
fn format_search_result(
    format: SearchFormat,
    search_report: &SearchReport,
    request: &SearchRequest<'_>,
    limit: usize,
) -> String {
    match format {
        SearchFormat::Json => format!("{}\n", report::render_bisect_json(search_report)),
        SearchFormat::Markdown => {
            report::bisect_markdown(search_report, request, run_record(), limit)
        }
        SearchFormat::Html => report::bisect_html(search_report, request, run_record()),
        SearchFormat::Text => {
            let origin = request.origin.as_ref().map(|origin| format!("{}\n", origin.line()));
            format!("{}{}", report::render_bisect_text(search_report), origin.unwrap_or_default())
        }
    }
}

/// A search as the command line asks for it.
struct RequestedSearch<'h> {
    bisection: Bisection<'h>,
    ends: BisectEnds,
    /// Its beginning, if it is a snapshot.
    origin: Option<report::Origin>,
}

/// The named good and bad revisions. A search without comparisons needs no good one.
fn named_ends(args: &BisectArgs, history: &History) -> CliResult<(Vec<Commit>, Vec<Commit>)> {
    let named_revisions: Vec<&String> = args.good.iter().filter(|rev| *rev != SNAPSHOT).collect();
    let good = resolve_search_revisions(history, &named_revisions)?;
    let bad = resolve_search_revisions(history, &args.bad)?;
    if args.good.is_empty() && On::from(args.on).minds_values() {
        return Err(CommandError::new("there is no good end to compare with").with_hint(
            "name one with --good; `--on gradient` needs none, and `--old A --new B` makes no claim",
        ));
    }
    Ok((good, bad))
}

/// The commits that stand for good ends where none is named: the oldest behind `bad` that can be tested.
fn find_good_ends(bisection: &Bisection<'_>, bad: &[Commit]) -> CliResult<Vec<Commit>> {
    let mut good = Vec::new();
    for end in bad {
        match bisection.find_oldest_testable(end)? {
            Some(oldest) => good.push(oldest),
            // The search tells why none can be tested.
            None => good.extend(first_with_sources(&bisection.targets, bisection.history, end)?),
        }
    }
    good.dedup_by_key(|end| end.id);
    Ok(good)
}

/// The first commit with the sources of `targets` among `end` and its ancestors.
fn first_with_sources(
    targets: &[SearchTarget],
    history: &History,
    end: &Commit,
) -> CliResult<Option<Commit>> {
    let specs: Vec<&SourceSpec> = targets.iter().map(|target| &target.spec).collect();
    Ok(history.first_with_sources(end, &specs)?)
}

/// The ends without claims.
fn unclaimed_ends(args: &BisectArgs, history: &History) -> CliResult<BisectEnds> {
    Ok(BisectEnds::unclaimed(
        history,
        resolve_search_revisions(history, &args.old)?,
        resolve_search_revisions(history, &args.new)?,
    )?)
}

fn resolve_search_revisions(history: &History, revs: &[impl AsRef<str>]) -> CliResult<Vec<Commit>> {
    Ok(revs.iter().map(|rev| history.resolve(rev.as_ref())).collect::<Result<_, _>>()?)
}

/// Whether commits are compared with accepted snapshots.
fn is_recorded(args: &BisectArgs) -> bool {
    args.good.iter().any(|rev| rev == SNAPSHOT)
}

fn create_requested_search<'h>(
    args: &BisectArgs,
    session: &Session,
    history: &'h History,
    targets: Vec<SearchTarget>,
) -> CliResult<RequestedSearch<'h>> {
    let check = choose_access_check(args)?;
    if !args.old.is_empty() {
        let ends = unclaimed_ends(args, history)?;
        let mut bisection = create_bisection(history, targets, args.search_options(), session)?;
        bisection.trusted = Trusted::GoodEnd(GoodEnds::Unclaimed);
        bisection.check = check;
        return Ok(RequestedSearch { bisection, ends, origin: None });
    }
    let (mut good, bad) = named_ends(args, history)?;
    let mut bisection = create_bisection(history, targets, args.search_options(), session)?;
    bisection.check = check;
    if args.good.is_empty() {
        good = find_good_ends(&bisection, &bad)?;
        bisection.trusted = Trusted::GoodEnd(GoodEnds::Oldest);
    }
    let mut origin = None;
    if is_recorded(args) {
        if let Some(folder) = &args.snapshots {
            must_be_there(folder)?;
        }
        let recorded =
            AcceptedSnapshots::open(&bisection.targets, &bisection.lab, args.snapshots.as_deref())?;
        let mut end_reasons = Vec::new();
        if good.is_empty() {
            for (end, reason) in recorded.lower_ends(history, &bisection.targets, &bad)? {
                end_reasons.push(format!("{}, {reason}", end.short));
                good.push(end);
            }
        } else {
            end_reasons.extend(good.iter().map(|end| end.short.clone()));
        }
        let snapshot = recorded.names();
        let back_to = end_reasons.join("; ");
        origin = Some(report::Origin { snapshot, back_to });
        bisection.trusted = Trusted::Snapshots(recorded.snapshots);
    }
    Ok(RequestedSearch { bisection, ends: BisectEnds::Claimed { good, bad }, origin })
}

/// The same with tests on a cluster. Unless snapshots are compared with, this machine needs no device for it.
fn run_on_cluster(
    args: &BisectArgs,
    session: &Session,
    history: &History,
    targets: &[SearchTarget],
) -> CliResult<u8> {
    choose_access_check(args)?;
    let ends = if !args.old.is_empty() {
        unclaimed_ends(args, history)?
    } else if is_recorded(args) {
        create_requested_search(args, session, history, targets.to_vec())?.ends
    } else {
        let (mut good, bad) = named_ends(args, history)?;
        if args.good.is_empty() {
            // No replay tells here which can be tested.
            for end in &bad {
                good.extend(first_with_sources(targets, history, end)?);
            }
            good.dedup_by_key(|end| end.id);
        }
        BisectEnds::Claimed { good, bad }
    };
    cluster::run_bisect_on_cluster(
        &args.cluster,
        session,
        history,
        targets,
        &ends,
        args.first_parent,
    )
}

/// Finds the defective end of a search without claims.
pub fn find_direction(args: &BisectArgs, session: &Session) -> CliResult<Direction> {
    args.refuse_unchecked_gradients(session)?;
    let (history, targets) = args.load_targets(session)?;
    let RequestedSearch { bisection, ends, .. } =
        create_requested_search(args, session, &history, targets)?;
    match ends {
        BisectEnds::Unclaimed { old, new } => Ok(bisection.find_direction(&old, &new)?),
        BisectEnds::Claimed { .. } => {
            Err(CommandError::new("the words of the command name a good end"))
        }
    }
}

/// Makes one test of the search.
pub fn run_search_test(
    args: &BisectArgs,
    session: &Session,
    look: Look,
) -> CliResult<TestFindings> {
    let (history, targets) = args.load_targets(session)?;
    let RequestedSearch { bisection, ends, .. } =
        create_requested_search(args, session, &history, targets)?;
    Ok(bisection.look(&ends, look)?)
}

/// Compiles a commit for a likely test.
pub fn compile_search_commit(
    args: &BisectArgs,
    session: &Session,
    commit: CommitId,
) -> CliResult<()> {
    let (history, targets) = args.load_targets(session)?;
    let bisection = create_bisection(&history, targets, args.search_options(), session)?;
    Ok(bisection.compile(commit)?)
}

/// Whether accesses of the culprit are checked: a search for races has done so by then.
fn choose_access_check(args: &BisectArgs) -> CliResult<AccessCheck> {
    match (On::from(args.on), args.check) {
        (On::Race, CheckArg::Off) => {
            Err(CommandError::new("--on race checks accesses to memory, and --check=off does not")
                .with_hint("leave --check out"))
        }
        (On::Race, _) => Ok(AccessCheck::Always),
        (_, check) => Ok(check.into()),
    }
}

/// The change whose commit is asked for.
pub struct Sought<'a> {
    /// The trusted revision.
    pub trusted: &'a str,
    /// The revision with the difference.
    pub target: &'a RequestedRevision,
    /// The condition for a bad commit.
    pub on: On,
    /// The diverged outputs.
    pub outputs: Vec<String>,
    /// Whether pictures of the change are asked for.
    pub illustrated: bool,
}

/// Finds the commits behind the difference between both revisions on the fixture of `project`.
pub fn find_fixture_culprit(
    project: &Project,
    sought: &Sought<'_>,
    session: &Session,
) -> CliResult<Blame> {
    let history = &project.origin.history;
    let bad_end = match &sought.target.commit {
        Some(commit) => commit.clone(),
        None => {
            let head = history.head()?;
            if project.origin.commit_target(head.clone())?.sources != sought.target.sources {
                let text = "what changed is not committed: the working tree differs from HEAD";
                return Ok(Blame::nobody(text, &sought.outputs));
            }
            head
        }
    };
    let targets =
        vec![SearchTarget { subject: project.subject.clone(), spec: project.origin.spec.clone() }];
    let good_end = history.resolve(sought.trusted)?;
    let options = SearchOptions { on: sought.on, first_parent: false };
    let mut bisection = create_bisection(history, targets, options, session)?;
    bisection.illustrated = sought.illustrated;
    let ends = BisectEnds::Claimed { good: vec![good_end], bad: vec![bad_end] };
    let report = bisection.search(&ends, &mut |_| {})?;
    let mut blame = report::assign_blame(&report);
    // Outputs unchanged by the found commit get searches of their own. Their replays are in the cache.
    bisection.illustrated = false;
    for output in &sought.outputs {
        let output_blame = if report.changes(output) || report.ending() == SearchEnd::Refused {
            OutputBlame::new(output, &blame)
        } else {
            bisection.output = Some(output.clone());
            let output_report = bisection.search(&ends, &mut |_| {})?;
            OutputBlame::new(output, &report::assign_blame(&output_report))
        };
        blame.outputs.push(output_blame);
    }
    Ok(blame)
}

/// Loads the fixtures. They must share a history.
pub fn load_search_targets(
    fixtures: &[PathBuf],
    cache: &Cache,
) -> CliResult<(History, Vec<SearchTarget>)> {
    let mut history: Option<(History, &Path)> = None;
    let mut targets = Vec::new();
    for path in fixtures {
        let Project { subject, origin } = Project::open(path, cache)?;
        let own = origin.history;
        match &history {
            None => history = Some((own, path)),
            Some((known_history, first)) if known_history.path() != own.path() => {
                return Err(CommandError::new(format!(
                    "{} and {} are of different histories: {} and {}",
                    first.display(),
                    path.display(),
                    known_history.path().display(),
                    own.path().display()
                ))
                .with_hint("search each of them by itself"));
            }
            Some(_) => {}
        }
        targets.push(SearchTarget { subject, spec: origin.spec });
    }
    let (history, _) = history.ok_or_else(|| CommandError::new("no fixture was named"))?;
    Ok((history, targets))
}

/// How commits are searched or surveyed.
#[derive(Clone, Copy, Debug)]
pub struct SearchOptions {
    /// The condition for a bad commit.
    pub on: On,
    /// Whether only first parents are followed.
    pub first_parent: bool,
}

/// Makes a search of its parts; its jobs share the cores.
pub fn create_bisection<'h>(
    history: &'h History,
    targets: Vec<SearchTarget>,
    options: SearchOptions,
    session: &Session,
) -> CliResult<Bisection<'h>> {
    let SearchOptions { on, first_parent } = options;
    let jobs = session.settings().jobs();
    let threads = (session.threads() / jobs).max(1);
    let harnesses: Vec<&Harness> =
        targets.iter().map(|target| &target.subject.fixture.harness).collect();
    let [lab, repeater] = session.search_labs(&harnesses, threads)?;
    Ok(Bisection {
        history,
        along: Along::History(None),
        targets,
        lab,
        repeater,
        on,
        trusted: Trusted::GoodEnd(GoodEnds::Named),
        output: None,
        jobs,
        first_parent,
        check: AccessCheck::Off,
        illustrated: false,
        hunk_search: None,
    })
}

/// What a search tests, in a word.
const COMMITS: &str = "commits";
const ENVIRONMENTS: &str = "environments";
const PAIRS: &str = "pairs";

/// Shows the events of a search as they happen.
struct Watcher<'p> {
    progress: &'p Progress,
    /// What is tested: commits, environments, or pairs of both.
    noun: &'static str,
    format: SearchFormat,
    busy: BTreeSet<String>,
    /// The events in JSON, one a line, if a file wants them.
    kept_events: Option<String>,
}

impl<'p> Watcher<'p> {
    /// One of a search that tests what `noun` names.
    fn start(progress: &'p Progress, noun: &'static str, output: &SearchOutput) -> Watcher<'p> {
        Watcher {
            progress,
            noun,
            format: output.format,
            busy: BTreeSet::new(),
            kept_events: output.files.have(FileFormat::Json).then(String::new),
        }
    }

    /// Prints and keeps an event in JSON, where that is wanted.
    fn tell_event(&mut self, render: impl FnOnce() -> String) {
        let is_printed = self.format == SearchFormat::Json;
        if !is_printed && self.kept_events.is_none() {
            return;
        }
        let line = render() + "\n";
        if is_printed {
            print!("{line}");
        }
        if let Some(kept_events) = &mut self.kept_events {
            kept_events.push_str(&line);
        }
    }

    fn hear(&mut self, event: &Event) {
        self.tell_event(|| report::render_event_json(event));
        match event {
            Event::Planned { commits, candidates, jobs } => {
                self.progress.expect(*candidates);
                self.note(match self.noun {
                    COMMITS => format!(
                        "{candidates} of {commits} commits change a kernel, {jobs} tested at a time"
                    ),
                    noun if *candidates == 1 => {
                        format!("1 {}, {jobs} tested at a time", noun.trim_end_matches('s'))
                    }
                    noun => format!("{candidates} {noun}, {jobs} tested at a time"),
                });
            }
            Event::Started { commit, state } => {
                self.busy.insert(commit.short.clone());
                self.show_remaining(state.candidates, state.rounds);
            }
            Event::Tested { commit, answer, seen, state } => {
                self.busy.remove(&commit.short);
                self.show_remaining(state.candidates, state.rounds);
                self.note(report::tested_line(commit, *answer, seen));
            }
            Event::Cornered { .. } => self.busy.clear(),
            Event::Along { axis, place } => {
                self.noun = if axis.is_some() { ENVIRONMENTS } else { COMMITS };
                self.note(*place);
            }
            Event::Searched { .. } => self.busy.clear(),
            Event::StartedHunks { hunks, of } => {
                self.progress.say(format!("which hunk: testing {hunks} of {of}"));
            }
            Event::TestedHunks { hunks, answer, seen } => {
                self.note(report::hunks_tested_line(hunks, *answer, seen));
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

    fn show_remaining(&self, left: usize, rounds: u32) {
        let busy: Vec<&str> = self.busy.iter().map(String::as_str).collect();
        self.progress.left(left);
        self.progress.say(format!(
            "{left} {} left, about {rounds} rounds; testing {}",
            self.noun,
            busy.join(", ")
        ));
    }

    fn note(&self, line: impl Into<ReportLine>) {
        self.progress.note(&line.into());
    }
}
