//! `replay FIXTURE... [--rev REV]`: the main job.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use ::replay::bisect::On;
use ::replay::cache::Cache;
use ::replay::environment::{RecordedEnvironment, RecordedSetting, RecordedVersion};
use ::replay::history::History;
use ::replay::judge::{
    Accesses, Judgement, OrderCheck, Verdict, check_captured, check_oracle, check_orders,
    check_trial_accesses, draw_output_pictures, ensure_evidence_room, judge_trial,
    outcome_and_gradients,
};
use ::replay::report::{self, RefusedFixture, ReportEntry, ReportLine, Revision, Standing, Text};
use ::replay::trial::{AccessCheck, Lab, Trial};
use clap::ValueEnum;

use super::bisect::{Sought, find_fixture_culprit};
use super::call_misfit::refuse_call_misfit;
use super::cluster::{self, ClusterArgs};
use super::completions::{fixture_completer, revision_completer};
use super::constraint_notes::note_broken_constraints;
use super::dump::DumpFolder;
use super::environments::read_recorded_environment;
use super::error::{CliResult, CommandError};
use super::exit;
use super::fixtures::{self, FixtureGroup};
use super::out::{print, println};
use super::progress::Progress;
use super::project::{Project, RequestedRevision, TrustedSources};
use super::report_file::{FileFormat, ReportFiles};
use super::run_record::{self, run_record};
use super::session::Session;
use super::snapshot::SnapshotSettings;

/// The heading of the options for comparisons.
const COMPARISON: &str = "Comparisons";

/// The arguments of `replay`.
#[derive(Clone, Debug, clap::Args)]
pub struct ReplayArgs {
    /// Folders of captured tensors, each with a fixture.toml; or a folder of such folders
    #[arg(required = true, value_name = "FIXTURE", add = fixture_completer())]
    fixtures: Vec<PathBuf>,
    /// The revision whose kernels are run, anything git understands [default: the working tree]
    #[arg(short, long, value_name = "REV", add = revision_completer())]
    rev: Option<String>,
    /// A revision that is trusted, to compare with
    #[arg(short, long, value_name = "REV", help_heading = COMPARISON, add = revision_completer())]
    against: Option<String>,
    /// Name the commit that made the difference to the trusted revision, where there is one
    #[arg(long, requires = "against", help_heading = COMPARISON)]
    culprit: bool,
    /// Whether accesses to memory are checked: races, reads of what nobody wrote, accesses out of bounds
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    check: CheckArg,
    /// How the result is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: OutcomeFormat,
    /// Write the result to a file too, or to several; the ending names the format: .html, .json, .md, .xml
    #[arg(long, value_name = "FILE")]
    report: Vec<PathBuf>,
    /// Write outputs, float64 twin and noise to DIR/FIXTURE/COMMIT.DEVICE/*.safetensors; no file is replaced
    #[arg(long, value_name = "DIR")]
    dump: Option<PathBuf>,
    /// Show each fixture whole also where there are several
    #[arg(long, conflicts_with = "short")]
    full: bool,
    /// Show each fixture in a line, and below it what is not well, also where there is one
    #[arg(long)]
    short: bool,
    /// The folder of accepted snapshots [default: the nearest `snapshots` above the fixture]
    #[arg(long, value_name = "DIR", help_heading = COMPARISON)]
    snapshots: Option<PathBuf>,
    /// Compare with the accepted snapshot also where --rev names a revision; so does --snapshots
    #[arg(long, help_heading = COMPARISON)]
    snapshot: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl ReplayArgs {
    /// The same for one fixture alone, without files.
    pub fn only(&self, fixture: &Path) -> ReplayArgs {
        let fixtures = vec![fixture.to_owned()];
        ReplayArgs { fixtures, report: Vec::new(), dump: None, ..self.clone() }
    }
}

/// When accesses to memory are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckArg {
    /// Where the call takes so little time that it is hardly noticed
    Auto,
    /// However long it takes, up to the limit of time
    Always,
    /// Never
    Off,
}

impl From<CheckArg> for AccessCheck {
    fn from(check: CheckArg) -> AccessCheck {
        match check {
            CheckArg::Auto => AccessCheck::Auto,
            CheckArg::Always => AccessCheck::Always,
            CheckArg::Off => AccessCheck::Off,
        }
    }
}

/// How replays are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutcomeFormat {
    /// For people
    Text,
    /// For programs; docs/schema.md describes it
    Json,
    /// For a comment on a pull request: at most 60 kB
    Markdown,
    /// For the summary of a job: at most 1,000 kB
    MarkdownSummary,
    /// For CI servers
    Junit,
    /// A page to look at, in one file
    Html,
}

impl From<FileFormat> for OutcomeFormat {
    fn from(format: FileFormat) -> OutcomeFormat {
        match format {
            FileFormat::Html => OutcomeFormat::Html,
            FileFormat::Json => OutcomeFormat::Json,
            FileFormat::Markdown => OutcomeFormat::MarkdownSummary,
            FileFormat::Junit => OutcomeFormat::Junit,
        }
    }
}

/// How a result is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// For programs; docs/schema.md describes it
    Json,
    /// A page to look at, in one file
    Html,
}

/// The formats of a report in a file.
const FILES: [FileFormat; 4] =
    [FileFormat::Html, FileFormat::Json, FileFormat::Markdown, FileFormat::Junit];

/// Replays every fixture. The worst result decides about the exit code. A failed replay does not stop the others.
pub fn run_replay(args: &ReplayArgs, session: &Session) -> CliResult<u8> {
    let files = ReportFiles::named(&args.report, &FILES)?;
    let groups = fixtures::group_fixtures(&args.fixtures);
    let fixtures: Vec<PathBuf> = groups.iter().flat_map(FixtureGroup::paths).cloned().collect();
    if args.cluster.on_cluster.is_some() {
        return cluster::run_replay_on_cluster(
            &args.cluster,
            session,
            &fixtures,
            &list_fixture_identities(args, &fixtures, session.cache()),
        );
    }
    let run = ReplayRun {
        args,
        session,
        snapshots: SnapshotSettings::from_environment(args.snapshots.clone())?,
        illustrated: args.format == OutcomeFormat::Html || files.have_page(),
    };
    let is_short = args.short || (fixtures.len() > 1 && !args.full);
    if args.format == OutcomeFormat::Text {
        run_record::print_record_head(&[]);
    }
    let mut results = ReplayResults { several: fixtures.len() > 1, ..ReplayResults::default() };
    for group in &groups {
        match group {
            FixtureGroup::Run { name, steps } if is_short && session.is_on_one_device() => {
                run.replay_series_of_steps(name, steps, &mut results)?;
            }
            FixtureGroup::Run { .. } | FixtureGroup::Single(_) => {
                for path in group.paths() {
                    run.replay_single(path, is_short, &mut results)?;
                }
            }
        }
    }
    let ReplayResults { entries, errors, standings, mut short_texts, code, .. } = results;
    short_texts.sort_by_key(|(standing, _)| std::cmp::Reverse(*standing));
    short_texts.iter().for_each(|(_, text)| print!("{text}"));
    let code = standings
        .iter()
        .map(|&standing| exit::standing_exit_code(standing))
        .fold(code, exit::worse_exit_code);
    match format_replay_result(args.format, &entries, &errors) {
        Some(text) => print!("{text}"),
        None => print_replay_summary(&standings, errors.len()),
    }
    files.write(|format| {
        format_replay_result(format.into(), &entries, &errors).unwrap_or_default()
    })?;
    Ok(code)
}

/// The dependences of the results on `fixtures`, besides the words of the command.
fn list_fixture_identities(args: &ReplayArgs, fixtures: &[PathBuf], cache: &Cache) -> Vec<String> {
    let mut identities = Vec::with_capacity(fixtures.len());
    for path in fixtures {
        let identity = identify_fixture(path, args.rev.as_deref(), cache);
        identities.push(identity.unwrap_or_else(|error| error.in_a_line()));
    }
    identities
}

/// The dependences of the result on the fixture at `path` and on its sources.
fn identify_fixture(path: &Path, revision: Option<&str>, cache: &Cache) -> CliResult<String> {
    let project = Project::open(path, cache)?;
    let target = project.target(revision)?;
    Ok(format!("{} {:?}", project.subject.identity(cache)?, target.sources.id))
}

/// The whole report; none for text: it is printed as it comes.
fn format_replay_result(
    format: OutcomeFormat,
    entries: &[ReportEntry],
    errors: &[RefusedFixture],
) -> Option<String> {
    let run = run_record();
    Some(match format {
        OutcomeFormat::Text => return None,
        OutcomeFormat::Json => report::render_replay_json(entries, errors, run) + "\n",
        OutcomeFormat::Markdown => {
            report::render_replay_markdown(entries, errors, run, report::COMMENT_BYTES)
        }
        OutcomeFormat::MarkdownSummary => {
            report::render_replay_markdown(entries, errors, run, report::SUMMARY_BYTES)
        }
        OutcomeFormat::Junit => report::render_junit(entries, errors, run),
        OutcomeFormat::Html => report::render_replay_html(entries, errors, run),
    })
}

/// One fixture on every device, and the devices compared.
fn format_replayed_fixture(on_devices: &[ReportEntry], is_short: bool) -> Text {
    if is_short {
        let mut whole_text = Text::new();
        on_devices.iter().for_each(|entry| whole_text.append(report::short_text(entry)));
        if on_devices.len() > 1 {
            whole_text.append(report::compare_devices(on_devices));
        }
        return whole_text;
    }
    let mut texts: Vec<Text> = on_devices.iter().map(report::render_replay_text).collect();
    if on_devices.len() > 1 {
        texts.push(report::compare_devices(on_devices));
    }
    let mut whole_text = Text::new();
    for (number, text) in texts.into_iter().enumerate() {
        if number > 0 {
            whole_text.line(ReportLine::new());
        }
        whole_text.append(text);
    }
    whole_text
}

/// The last line of a report on several fixtures; `refused_count` could not be reported on.
pub fn print_replay_summary(standings: &[Standing], refused_count: usize) {
    if let Some(line) = report::render_fixtures_tally(standings, refused_count) {
        let gap = if standings.is_empty() { "" } else { "\n" };
        println!("{gap}{line}");
    }
}

/// The fixture at `path`, with its history.
fn load_project(path: &Path, cache: &Cache) -> CliResult<Project> {
    let progress = Progress::start();
    progress.say(format!("loading {}", path.display()));
    Project::open(path, cache).map_err(|error| explain_misspelt_command(path, error))
}

/// All results.
#[derive(Default)]
struct ReplayResults {
    entries: Vec<ReportEntry>,
    errors: Vec<RefusedFixture>,
    /// How each fixture or run stands, the worst of its devices and steps.
    standings: Vec<Standing>,
    /// Short texts, each with how its fixture or run stands: the worst is printed first, at the end.
    short_texts: Vec<(Option<Standing>, Text)>,
    /// Whether there are several fixtures.
    several: bool,
    /// The worst exit code of fixtures without a replay.
    code: u8,
}

/// The common ground of the replays of all fixtures.
struct ReplayRun<'a> {
    args: &'a ReplayArgs,
    session: &'a Session,
    snapshots: SnapshotSettings,
    /// Whether a page with pictures is asked for.
    illustrated: bool,
}

impl ReplayRun<'_> {
    /// Replays the fixture at `path` by itself, and prints the text of it.
    fn replay_single(
        &self,
        path: &Path,
        is_short: bool,
        results: &mut ReplayResults,
    ) -> CliResult<()> {
        let on_devices = self.replay_on_devices(path, results)?;
        if on_devices.is_empty() {
            return Ok(());
        }
        let standing = on_devices.iter().map(Standing::from_entry).max();
        if self.args.format == OutcomeFormat::Text {
            let text = format_replayed_fixture(&on_devices, is_short);
            if is_short {
                results.short_texts.push((standing, text));
            } else {
                let gap = if results.entries.is_empty() { "" } else { "\n" };
                print!("{gap}{text}");
            }
        }
        results.standings.extend(standing);
        results.entries.extend(on_devices);
        Ok(())
    }

    /// Replays the steps of the run `name`, and prints the text of all of them together.
    fn replay_series_of_steps(
        &self,
        name: &str,
        steps: &[PathBuf],
        results: &mut ReplayResults,
    ) -> CliResult<()> {
        let refused_before = results.errors.len();
        let mut step_entries = Vec::new();
        for path in steps {
            step_entries.extend(self.replay_on_devices(path, results)?);
        }
        let refused_count = results.errors.len() - refused_before;
        let standing = step_entries.iter().map(Standing::from_entry).max();
        if self.args.format == OutcomeFormat::Text {
            let text = report::render_run_text(name, &step_entries, refused_count);
            results.short_texts.push((standing, text));
        }
        results.standings.extend(standing);
        results.entries.extend(step_entries);
        Ok(())
    }

    /// Replays the fixture at `path` on each device. A failed replay is printed, and has no entries. An error ends the
    /// command: no lab can be made.
    fn replay_on_devices(
        &self,
        path: &Path,
        results: &mut ReplayResults,
    ) -> CliResult<Vec<ReportEntry>> {
        let replayed_entries: CliResult<Vec<ReportEntry>> =
            match load_project(path, self.session.cache()) {
                Ok(project) => {
                    note_broken_constraints(&project.subject.fixture)?;
                    let labs = self.session.labs_for(project.harness())?.iter();
                    labs.map(|lab| {
                        let begin = Instant::now();
                        let entry = self.replay_fixture(path, &project, lab)?;
                        Ok(ReportEntry { duration: Some(begin.elapsed()), ..entry })
                    })
                    .collect()
                }
                Err(error) => Err(error),
            };
        Ok(replayed_entries.unwrap_or_else(|error| {
            results.code = exit::worse_exit_code(results.code, error.exit_code());
            results.errors.push(create_fixture_refusal(path, &error));
            if results.several { error.about_fixture(path) } else { error }.print();
            Vec::new()
        }))
    }

    /// Replays the fixture at `path` in `lab`, and compares it as the arguments say.
    fn replay_fixture(
        &self,
        path: &Path,
        project: &Project,
        lab: &Arc<Lab>,
    ) -> CliResult<ReportEntry> {
        let args = self.args;
        let progress = Progress::start();
        let target = project.target(args.rev.as_deref())?;
        progress.say(format!("replaying {} at {}", path.display(), target_name(&target)));
        let trial = lab.trial(&project.subject, &target.sources);
        let trusted = args.against.as_deref().map(|rev| project.origin.trusted(rev)).transpose()?;
        let dump = DumpFolder::plan(args.dump.as_deref(), &target, &trial)?;
        let mut base_dump = None;
        let (base, base_lacks) = match trusted {
            Some(TrustedSources::Found(base)) => {
                let base_trial = lab.trial(&project.subject, &base.sources);
                if base.commit != target.commit {
                    base_dump = DumpFolder::plan(args.dump.as_deref(), &base, &base_trial)?;
                }
                (Some(base_trial), None)
            }
            Some(TrustedSources::Absent { reason }) => (None, Some(reason)),
            None => (None, None),
        };
        let judged_entry = judge_replayed_trial(
            project,
            &target,
            &trial,
            base.as_ref(),
            args.check,
            self.illustrated,
        )?;
        if let Some(dump) = &dump {
            dump.write(&trial, &progress)?;
        }
        if let Some((dump, base)) = base_dump.as_ref().zip(base.as_ref()) {
            dump.write(base, &progress)?;
        }
        drop(base);
        let judgement = judged_entry.judgement.as_ref();
        let culprit = if args.culprit
            && let Some(on) = choose_culprit_criterion(judgement, judged_entry.accesses.as_ref())
        {
            progress.say(format!("searching for what changed {}", path.display()));
            let sought = Sought {
                trusted: args.against.as_deref().unwrap_or_default(),
                target: &target,
                on,
                outputs: list_diverged_outputs(judgement),
                illustrated: self.illustrated,
            };
            Some(find_fixture_culprit(project, &sought, self.session)?)
        } else {
            None
        };
        // A named folder is there for a comparison.
        let asks_for_snapshot = args.snapshot || args.snapshots.is_some();
        let snapshot = if args.rev.is_none() || asks_for_snapshot {
            self.snapshots.check(&trial, asks_for_snapshot)?
        } else {
            None
        };
        let trusted =
            args.against.as_deref().map(|rev| project.origin.history.resolve(rev)).transpose()?;
        let trusted = trusted.map(Revision::from);
        Ok(ReportEntry { trusted, base_lacks, culprit, snapshot, ..judged_entry })
    }
}

/// The judgement of `trial`, a replay of `target`, by itself and beside `base`; without snapshots.
pub fn judge_replayed_trial(
    project: &Project,
    target: &RequestedRevision,
    trial: &Trial,
    base: Option<&Trial>,
    check: CheckArg,
    illustrated: bool,
) -> CliResult<ReportEntry> {
    ensure_evidence_room(trial, base.is_some())?;
    let (outcome, gradients) = outcome_and_gradients(trial)?;
    let base_outcome = base.map(|base| base.outcome()).transpose()?;
    refuse_call_misfit(&project.subject.fixture, outcome, base_outcome)?;
    let checked_accesses = check_trial_accesses(trial, base, check.into())?;
    let captured = check_captured(trial)?;
    let oracle = check_oracle(trial)?;
    // Against a trusted revision only a new dependence counts.
    let orders = if base.is_none() { check_orders(trial)? } else { OrderCheck::default() };
    let judgement = match base {
        Some(base) => Some(judge_trial(base, trial)?),
        None => None,
    };
    let pictures = if illustrated { draw_output_pictures(base, trial)? } else { Vec::new() };
    let captured_at =
        if captured.is_empty() { None } else { project.capture_revision(&target.sources)? };
    let is_missed = captured.iter().any(|check| check.verdict > Verdict::Equivalent);
    let mut recorded = RecordedEnvironment::default();
    if is_missed {
        let fixture = &project.subject.fixture;
        // An interpreter that does not answer has no advice to give.
        recorded = read_recorded_environment(fixture).unwrap_or_default();
        recorded.take_settings(fixture, &outcome.settings);
        recorded.versions.retain(RecordedVersion::is_other);
        recorded.settings.retain(RecordedSetting::is_other);
    }
    Ok(ReportEntry {
        fixture: project.subject.fixture.name.clone(),
        revision: target.commit.clone().map(Revision::from),
        outcome: outcome.clone(),
        captured,
        captured_at,
        captured_with: recorded.versions,
        captured_settings: recorded.settings,
        oracle,
        gradients,
        orders,
        accesses: checked_accesses,
        trusted: None,
        judgement,
        base_lacks: None,
        pictures,
        culprit: None,
        snapshot: None,
        duration: None,
    })
}

/// The diverged outputs.
fn list_diverged_outputs(judgement: Option<&Judgement>) -> Vec<String> {
    let outputs = judgement.into_iter().flat_map(|judgement| &judgement.outputs);
    let outputs = outputs.filter(|output| output.story.verdict() >= Verdict::Diverged);
    outputs.map(|output| output.name.clone()).collect()
}

/// The condition for the commit behind the difference to the trusted revision, if there is a difference.
fn choose_culprit_criterion(
    judgement: Option<&Judgement>,
    accesses: Option<&Accesses>,
) -> Option<On> {
    let has_diverged = judgement?.verdict >= Verdict::Diverged;
    let races = accesses.is_some_and(Accesses::has_failures).then_some(On::Race);
    if has_diverged { Some(On::Changed) } else { races }
}

/// Turns "no such fixture" into advice where a command or a revision was meant.
fn explain_misspelt_command(path: &Path, error: CommandError) -> CommandError {
    let Some(word) = path.to_str().filter(|_| !path.exists()) else { return error };
    if let Some(hint) = revision_advice(word) {
        return CommandError::new(error.message()).with_hint(hint);
    }
    if word.contains(['/', '.']) {
        return error;
    }
    let (message, hint) = match super::nearest_command(word) {
        Some(meant) if meant == word => (
            format!("the command `{word}` comes first, options behind it"),
            format!("`replay {word} ...`, or ./{word} for a fixture of that name"),
        ),
        Some(meant) => (
            format!("there is neither a command nor a fixture folder `{word}`"),
            format!("did you mean `replay {meant}`?"),
        ),
        None => return error,
    };
    CommandError::new(message).with_hint(hint)
}

/// Advice where `word` names a revision of the repository around this folder.
fn revision_advice(word: &str) -> Option<String> {
    let history = History::discover(Path::new(".")).ok()?;
    let (range, rev) = match word.split_once("..") {
        Some((older, newer)) if history.resolve(older).is_ok() => (Some(older), newer),
        _ => (None, word),
    };
    history.resolve(rev).ok()?;
    Some(match range {
        Some(older) => {
            format!(
                "{word} are revisions: `--rev {rev} --against {older}`, or `replay diff FIXTURE {word}`"
            )
        }
        None => format!("{word} is a revision: --rev {word}"),
    })
}

/// The short name of a target.
pub fn target_name(target: &RequestedRevision) -> String {
    target.commit.as_ref().map_or("the working tree".to_owned(), |commit| commit.short.clone())
}

/// The report on a fixture without a replay.
pub fn create_fixture_refusal(path: &Path, error: &CommandError) -> RefusedFixture {
    RefusedFixture {
        fixture: path.display().to_string(),
        message: error.message().to_owned(),
        causes: error.causes().to_owned(),
        hint: (!error.hints().is_empty()).then(|| error.hints().join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rayon::prelude::*;

    use ::replay::judge::{
        Accesses, GradientCheck, GradientStory, GradientVerdict, Judgement, KnownCheck,
        TrustedReplay, UncheckedGradient, Verdict,
    };
    use ::replay::numerics::compare;
    use ::replay::numerics::noise::NoiseSummary;
    use ::replay::report::SnapshotCheck;
    use ::replay::runtime::report::{AccessFinding, FoundKind, FoundSpot};
    use ::replay::snapshot::{SnapshotComparison, SnapshotVerdict};
    use ::replay::summary::Checksum;
    use ::replay::tensor::DType;
    use ::replay::trial::{CheckedReplay, Failure, OrderDependence, Outcome, Status};
    use serde_json::Value;

    use super::*;

    fn outcome(status: &Status) -> Outcome {
        Outcome {
            device: "cpu".to_owned(),
            device_description: "CPU".to_owned(),
            compiler: "a compiler".to_owned(),
            call: Some(0),
            status: status.clone(),
            launches: Vec::new(),
            launch_count: 0,
            outputs: Vec::new(),
            settings: Default::default(),
            printed: String::new(),
        }
    }

    fn judgement(verdict: Verdict, status: &Status) -> Judgement {
        let outputs = Vec::new();
        let launches = Vec::new();
        let without_shadow = None;
        let base = outcome(&Status::Completed);
        let got = outcome(status);
        Judgement { verdict, outputs, launches, base, got, without_shadow }
    }

    fn snapshot(verdict: SnapshotVerdict) -> SnapshotCheck {
        let changes = Vec::new();
        let launches_changed = false;
        let ending = None;
        let comparison = SnapshotComparison { verdict, changes, launches_changed, ending };
        SnapshotCheck { path: PathBuf::from("a.cpu.snap"), comparison, written: None }
    }

    fn gradient(verdict: GradientVerdict) -> GradientCheck {
        let story = match verdict {
            GradientVerdict::Matches => GradientStory::Matches,
            GradientVerdict::Agrees => GradientStory::NearDifferences {
                why: UncheckedGradient::FixedShadow,
                dtype: DType::F32,
            },
            GradientVerdict::Unknown => GradientStory::Unchecked(UncheckedGradient::NotSmooth),
            GradientVerdict::Imprecise => GradientStory::ImpreciseOutput,
            GradientVerdict::Mismatch => GradientStory::Mismatch,
        };
        GradientCheck {
            output: "g".to_owned(),
            gradient_of: "x".to_owned(),
            of: vec!["loss".to_owned()],
            constraint: None,
            matches_along: None,
            straight_through: None,
            story,
            directions: 8,
            of_directions: 8,
            elements: 3,
            checked: 3,
            worst: 0.5,
            error: 0.0,
            place: None,
            native_error: 0.0,
            native_ratio: 0.0,
        }
    }

    fn known(verdict: Verdict) -> KnownCheck {
        let comparison = compare::Comparison {
            agreement: compare::Agreement::Identical,
            count: 1,
            differing: 0,
            beyond: 0,
            undecided: 0,
            nan_mismatch: 0,
            inf_mismatch: 0,
            relative_l2: 0.0,
            max_abs: 0.0,
            worst: None,
        };
        KnownCheck {
            output: "y".to_owned(),
            dtype: DType::F32,
            dims: Vec::new(),
            verdict,
            checksum: "0".repeat(32).parse::<Checksum>().expect("a checksum"),
            comparison,
            noise: NoiseSummary::default(),
            imprecision: None,
            place: None,
        }
    }

    fn order() -> OrderDependence {
        OrderDependence {
            output: "y".to_owned(),
            elements: 1,
            count: 1,
            index: vec![0],
            value: 1.0,
            other: 2.0,
            rounding: 0.1,
            place: None,
        }
    }

    fn checked(kind: FoundKind) -> Accesses {
        let second = FoundSpot {
            writes: true,
            atomic: false,
            site: "src/a.cu:7".to_owned(),
            name: "sum".to_owned(),
            block: Some([0; 3]),
            thread: Some([1, 0, 0]),
        };
        let memory = "y".to_owned();
        let index = Some(vec![0]);
        let first = Some(second.clone());
        let between_streams = false;
        let count = 1;
        let found = AccessFinding {
            kind,
            between_streams,
            first,
            second,
            memory,
            offset: 0,
            index,
            bytes: 4,
            count,
        };
        let checked = CheckedReplay::Done { findings: vec![found], left_out: 0 };
        Accesses::new(checked, TrustedReplay::Absent)
    }

    fn some<T: Copy>(all: &[T]) -> Vec<Option<T>> {
        std::iter::once(None).chain(all.iter().copied().map(Some)).collect()
    }

    /// Whether outputs depend on the order, and what the accesses do.
    const DEPENDENCE: [(bool, Option<FoundKind>); 4] = [
        (false, None),
        (true, None),
        (false, Some(FoundKind::SameValue)),
        (false, Some(FoundKind::Race)),
    ];

    /// An entry for every combination of what can be known of a replay.
    fn all_entries() -> Vec<ReportEntry> {
        let untestable = Status::Untestable {
            reason: "it does not compile".to_owned(),
            causes: Vec::new(),
            hint: Some("look".to_owned()),
        };
        let failed = Status::Failed(vec![Failure::Exit { code: 3 }]);
        let judged = [
            Verdict::Identical,
            Verdict::Equivalent,
            Verdict::Unchecked,
            Verdict::Unknown,
            Verdict::Untestable,
            Verdict::Diverged,
            Verdict::Failed,
        ];
        let compared = [
            SnapshotVerdict::Matches,
            SnapshotVerdict::Equivalent,
            SnapshotVerdict::Unchecked,
            SnapshotVerdict::New,
            SnapshotVerdict::Missing,
            SnapshotVerdict::Stale,
            SnapshotVerdict::Diverged,
        ];
        let held = [
            GradientVerdict::Matches,
            GradientVerdict::Agrees,
            GradientVerdict::Unknown,
            GradientVerdict::Imprecise,
            GradientVerdict::Mismatch,
        ];
        // The oracle's verdict, and whether outputs are as captured.
        let held_beside = [
            (None, None),
            (Some(Verdict::Identical), None),
            (Some(Verdict::Equivalent), Some(Verdict::Diverged)),
            (Some(Verdict::Diverged), Some(Verdict::Identical)),
        ];
        let mut entries = Vec::new();
        for status in [Status::Completed, failed, untestable] {
            for verdict in some(&judged) {
                for comparison in some(&compared) {
                    for check in some(&held) {
                        for (oracle, captured) in held_beside {
                            for (ordered, accesses) in DEPENDENCE {
                                entries.push(ReportEntry {
                                    fixture: "tiny".to_owned(),
                                    revision: None,
                                    outcome: outcome(&status),
                                    captured: captured.map(known).into_iter().collect(),
                                    captured_at: None,
                                    captured_with: Vec::new(),
                                    captured_settings: Vec::new(),
                                    oracle: oracle.map(known).into_iter().collect(),
                                    gradients: check.map(gradient).into_iter().collect(),
                                    orders: OrderCheck {
                                        dependences: ordered.then(order).into_iter().collect(),
                                        failure: None,
                                    },
                                    accesses: accesses.map(checked),
                                    pictures: Vec::new(),
                                    trusted: None,
                                    judgement: verdict.map(|v| judgement(v, &status)),
                                    base_lacks: None,
                                    culprit: None,
                                    snapshot: comparison.map(snapshot),
                                    duration: None,
                                });
                            }
                        }
                    }
                }
            }
        }
        entries
    }

    #[test]
    fn what_was_captured_makes_no_replay_better_or_worse() {
        for mut entry in all_entries() {
            let standing = Standing::from_entry(&entry);
            for verdict in [Verdict::Identical, Verdict::Equivalent, Verdict::Diverged] {
                entry.captured = vec![known(verdict)];
                assert_eq!(Standing::from_entry(&entry), standing, "{verdict:?}: {entry:?}");
            }
        }
    }

    #[test]
    fn text_json_markdown_junit_html_and_the_exit_code_agree_on_every_combination() {
        let run = report::RunRecord::default();
        all_entries().par_iter().for_each(|entry| {
            let told = std::slice::from_ref(entry);
            let text = report::render_replay_text(entry).words();
            let json: Value = serde_json::from_str(&report::render_replay_json(told, &[], &run))
                .expect("a document");
            let word = json["replays"][0]["verdict"].as_str().expect("a word").to_owned();
            let standing = Standing::from_entry(entry);

            assert_eq!(word, standing.name(), "{word}: {entry:?}");
            let verdicts = text.iter().filter(|line| {
                let before = line.split(':').next().unwrap_or_default();
                Standing::ALL.iter().any(|standing| standing.name() == before)
            });
            let verdicts: Vec<&String> = verdicts.collect();
            assert!(
                verdicts.len() == 1 && verdicts[0].starts_with(&format!("{word}: ")),
                "{word}: {entry:?}"
            );
            let below = text.iter().rev().take_while(|line| *line != verdicts[0]);
            assert!(below.into_iter().all(|line| line.starts_with("hint: ")), "{word}: {entry:?}");

            let markdown = report::render_replay_markdown(told, &[], &run, report::COMMENT_BYTES);
            assert!(
                markdown.contains(&format!("## replay: 1 {word}\n")),
                "{markdown} {word}: {entry:?}"
            );

            let junit = report::render_junit(told, &[], &run);
            let element = match exit::standing_exit_code(standing) {
                exit::FAILED => "<failure ",
                exit::UNTESTABLE => "<error ",
                _ => "<testcase ",
            };
            assert!(junit.contains(element), "{junit} {word}: {entry:?}");
            let wrong = junit.contains("<failure ") || junit.contains("<error ");
            assert_eq!(
                wrong,
                exit::standing_exit_code(standing) != exit::SUCCESS,
                "{junit} {word}: {entry:?}"
            );
            assert!(
                !wrong || junit.contains(&format!("type=\"{word}\"")),
                "{junit} {word}: {entry:?}"
            );

            let page = report::render_replay_html(told, &[], &run);
            assert!(page.contains(&format!("<title>replay: {word}: ")), "{page} {word}: {entry:?}");

            let unchecked = entry
                .gradients
                .iter()
                .any(|check| check.story.verdict() == GradientVerdict::Unknown);
            for format in [text.join("\n"), markdown, junit, page] {
                assert_eq!(format.contains("not checked"), unchecked, "{format} {word}: {entry:?}");
            }
        });
    }
}
