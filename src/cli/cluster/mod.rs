//! `--on-cluster`: the work of a command as tasks of a scheduler, and its answer from the results in the cache.
//!
//! Each task is this program, on a node, with the words of the command. It makes one test, one replay or one fixture, and
//! leaves the result in the cache of all nodes. The last task is the command itself: it finds all results there. Its
//! output is the output.

mod settings;
mod task;

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use ::replay::bisect::{
    BisectEnds, Direction, Look, Manner, Plan, RemoteTester, TestFindings, search_remotely,
};
use ::replay::bisect::{LogStep, SearchTarget, list_log_work};
use ::replay::cache::Cache;
use ::replay::cluster::{ClusterError, Folder, Task, TaskPool};
use ::replay::history::{Commit, CommitId, History};
use ::replay::process::interruption;
use ::replay::report;
use ::replay::search::{SearchState, TestAnswer};
use serde::{Deserialize, Serialize};

use super::error::{CliResult, CommandError, ErrorContext};
use super::out;
use super::progress::Progress;
use super::session::Session;
use super::settings::Key;

pub use self::settings::ClusterArgs;
use self::settings::ClusterSettings;
pub use self::task::run_cluster_task;

/// The argument for a task on a node; not for users.
pub const TASK_ARGUMENT: &str = "--replay-task";

/// One task, as it is handed to a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ClusterWork {
    /// The words of the command, without those about the cluster.
    words: Vec<String>,
    /// Their working folder.
    folder: PathBuf,
    what: ClusterWorkKind,
}

/// The part of a command in a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum ClusterWorkKind {
    /// The search for the defective one of two ends without claims.
    Direction,
    /// A test of a search.
    Test { commit: String, orders: bool },
    /// The compilation of a commit for a likely test.
    Compile { commit: String },
    /// A replay of a log, on the fixture with this number.
    Variant { commit: String, fixture: usize },
    /// The judgements of a log on a commit's changes, on the fixture with this number.
    Judgement { commit: String, fixture: usize },
    /// The command on one of its fixtures.
    Fixture { path: PathBuf },
    /// The command; its output goes to two files.
    Whole { stdout: PathBuf, stderr: PathBuf, colours: bool },
}

/// A command on a cluster.
struct ClusterCommand<'s> {
    task_pool: TaskPool<'s, ClusterWork>,
    words: Vec<String>,
    folder: PathBuf,
    width: usize,
    progress: Progress,
    /// The current action, for people.
    doing: String,
}

impl ClusterCommand<'_> {
    /// Opens the folder of the tasks of this command, whose answer also depends on `parts`.
    fn open(settings: &ClusterSettings, parts: &[String]) -> CliResult<ClusterCommand<'static>> {
        let words = settings::without_cluster(std::env::args_os().skip(1))?;
        let working_folder =
            std::env::current_dir().context(|| "cannot find the working directory")?;
        let mut hasher = blake3::Hasher::new();
        let variables = settings.in_force.variables();
        let hashed_parts = words.iter().chain(parts).map(String::as_bytes);
        let hashed_variables = variables.iter().map(|(_, value)| value.as_encoded_bytes());
        for part in hashed_parts
            .chain(hashed_variables)
            .chain([working_folder.as_os_str().as_encoded_bytes(), super::VERSION.as_bytes()])
        {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let name = format!("replay-{}", &hasher.finalize().to_hex()[..16]);
        let folder = Folder::open(&settings.folder.join(name))?;
        let scheduler = settings.scheduler();
        let width = settings.width;
        let task_pool =
            TaskPool::open(folder, scheduler, worker_command_words(settings)?, width, &|| {
                interruption::noted_signal().is_some()
            })?;
        interruption::note_interruptions();
        let doing = String::new();
        Ok(ClusterCommand {
            task_pool,
            words,
            folder: working_folder,
            width,
            progress: Progress::start(),
            doing,
        })
    }

    fn task(&self, key: String, what: String, work: ClusterWorkKind) -> Task<ClusterWork> {
        let work =
            ClusterWork { words: self.words.clone(), folder: self.folder.clone(), what: work };
        Task { key, what, work, after: None }
    }

    /// Waits for the next result, and says how things stand meanwhile.
    fn wait<R: serde::de::DeserializeOwned>(
        &mut self,
    ) -> Result<Option<(String, R)>, ClusterError> {
        let ClusterCommand { task_pool, progress, doing, .. } = self;
        let finished = task_pool.wait(&mut |task_pool| {
            let (running, waiting, reason) = task_pool.standing();
            let reason_note = reason
                .filter(|pending_reason| *pending_reason != "None")
                .map(|pending_reason| format!(" ({pending_reason})"));
            let reason_note = reason_note.unwrap_or_default();
            progress.say(format!("{doing}: {running} tasks run, {waiting} wait{reason_note}"));
        })?;
        Ok(finished.map(|finished_task| (finished_task.key, finished_task.found)))
    }

    /// Runs the command itself on a node, prints its output, and returns its exit code.
    fn answer(mut self) -> CliResult<u8> {
        let folder = self.task_pool.folder().to_owned();
        let stdout = folder.join("stdout");
        let stderr = folder.join("stderr");
        let colours = out::is_coloured();
        let work_kind =
            ClusterWorkKind::Whole { stdout: stdout.clone(), stderr: stderr.clone(), colours };
        let task = self.task("whole".to_owned(), "the answer".to_owned(), work_kind);
        self.doing = "the answer".to_owned();
        self.task_pool.start(vec![task])?;
        let code_answer = self.wait::<u8>()?;
        let (_, code) = code_answer.ok_or_else(|| CommandError::new("the answer never came"))?;
        drop(self.progress);
        let result = read_task_output(&stdout)?;
        let messages = read_task_output(&stderr)?;
        out::write_stderr(format_args!("{}", String::from_utf8_lossy(&messages)));
        out::write_stdout(format_args!("{}", String::from_utf8_lossy(&result)));
        self.task_pool.finish();
        Ok(code)
    }
}

fn read_task_output(path: &Path) -> CliResult<Vec<u8>> {
    std::fs::read(path).context(|| format!("cannot read {}", path.display()))
}

/// The words to start a task on a node. The cache is the one of this process, or the node's own with one behind it in
/// the folder of tasks.
fn worker_command_words(settings: &ClusterSettings) -> CliResult<Vec<OsString>> {
    let own_program = std::env::current_exe().context(|| "cannot find this program's own file")?;
    let mut words: Vec<OsString> = Vec::new();
    match &settings.cache {
        None => {
            words.push("env".into());
            let folder = settings.in_force.cache_folder()?;
            words.push(format_env_word(Key::CacheDir.variable(), folder.as_os_str()));
        }
        Some(place) => {
            let script =
                format!("REPLAY_CACHE_DIR=\"{place}\"; export REPLAY_CACHE_DIR; exec \"$@\"");
            words.extend(["sh", "-euc", &script, "replay", "env"].map(OsString::from));
            Cache::open(&settings.folder)?;
        }
    }
    for (name, value) in settings.in_force.variables() {
        words.push(format_env_word(name, &value));
    }
    if settings.cache.is_some() {
        let folder = settings.folder.as_os_str();
        words.push(format_env_word(Key::CacheShared.variable(), folder));
    }
    words.extend([own_program.into(), TASK_ARGUMENT.into()]);
    Ok(words)
}

/// A variable and its value, as a word for `env`.
fn format_env_word(name: &str, value: &OsStr) -> OsString {
    let mut word = OsString::from(format!("{name}="));
    word.push(value);
    word
}

/// The dependences of the results on `targets`, besides the words of the command.
fn list_target_identities(targets: &[SearchTarget], cache: &Cache) -> CliResult<Vec<String>> {
    Ok(targets.iter().map(|target| target.subject.identity(cache)).collect::<Result<_, _>>()?)
}

/// `replay bisect` on a cluster: rounds of tests, then the command itself.
pub fn run_bisect_on_cluster(
    args: &ClusterArgs,
    session: &Session,
    history: &History,
    targets: &[SearchTarget],
    ends: &BisectEnds,
    first_parent: bool,
) -> CliResult<u8> {
    let settings = args.settings(session.settings())?;
    let mut parts = list_target_identities(targets, session.cache())?;
    let (BisectEnds::Claimed { good: first_ends, bad: second_ends }
    | BisectEnds::Unclaimed { old: first_ends, new: second_ends }) = ends;
    parts.extend(first_ends.iter().chain(second_ends).map(|end| end.id.to_string()));
    let mut site = ClusterCommand::open(&settings, &parts)?;
    let plan = match ends {
        BisectEnds::Claimed { good, bad } => Plan::claimed(history, targets, good, bad)?,
        BisectEnds::Unclaimed { old, new } => {
            Plan::new(history, targets, old, new, site.find_direction()?)?
        }
    };
    let manner = Manner { first_parent, width: settings.width };
    let rounds = search_remotely(history, targets, plan, manner, &mut site)?;
    tracing::info!(rounds, "searched on the cluster");
    site.answer()
}

impl RemoteTester for ClusterCommand<'_> {
    type Error = CommandError;

    fn start(&mut self, looks: &[Look]) -> CliResult<()> {
        let mut tasks = Vec::with_capacity(looks.len());
        for look in looks {
            let commit = look.commit.to_string();
            let short_commit = &commit[..7];
            let key = format_test_key(look.commit, look.orders);
            let work = ClusterWorkKind::Test { commit: commit.clone(), orders: look.orders };
            let task = self.task(key, format!("the test of {short_commit}"), work);
            tasks.push(Task { after: Some(compiled_key(look.commit)), ..task });
        }
        self.doing = format!("testing {} commits", looks.len());
        Ok(self.task_pool.start(tasks)?)
    }

    fn room(&self) -> usize {
        // Less than a quarter is not worth an array.
        let room = self.task_pool.room();
        if room * 4 >= self.width { room } else { 0 }
    }

    fn compile_ahead(&mut self, commits: &[CommitId]) {
        let mut tasks = Vec::with_capacity(commits.len());
        for &commit in commits {
            let work_kind = ClusterWorkKind::Compile { commit: commit.to_string() };
            let name = format!("the compilation of {}", &commit.to_string()[..7]);
            tasks.push(self.task(compiled_key(commit), name, work_kind));
        }
        self.task_pool.start_spare(tasks);
    }

    fn wait(&mut self) -> CliResult<(CommitId, TestFindings)> {
        let finished_task = ClusterCommand::wait(self)?;
        let (key, findings) =
            finished_task.ok_or_else(|| CommandError::new("no task is left to wait for"))?;
        Ok((parse_test_key(&key)?, findings))
    }

    fn cancel(&mut self, commits: &[CommitId]) {
        let keys: Vec<String> = commits
            .iter()
            .flat_map(|id| [format_test_key(*id, true), format_test_key(*id, false)])
            .collect();
        self.task_pool.cancel(&keys);
    }

    fn report_answer(&mut self, commit: &Commit, answer: TestAnswer, state: &SearchState) {
        self.progress.note(&report::answered_line(commit, answer));
        self.doing = format!("{} commits left", state.candidates);
    }
}

/// The key of a test. It begins with the commit's id.
fn format_test_key(commit: CommitId, orders: bool) -> String {
    format!("{commit}-{}", if orders { "orders" } else { "plain" })
}

/// The key of a compilation ahead of a test.
fn compiled_key(commit: CommitId) -> String {
    format!("{commit}-compiled")
}

fn parse_test_key(key: &str) -> CliResult<CommitId> {
    let id = key.split('-').next().and_then(|id| id.parse().ok());
    id.ok_or_else(|| CommandError::new(format!("`{key}` names no commit")))
}

/// `replay log` on a cluster: a task for each variant on each fixture, one for each commit with other results, then the
/// command itself.
pub fn run_log_on_cluster(
    args: &ClusterArgs,
    session: &Session,
    history: &History,
    targets: &[SearchTarget],
    (range, first_parent): (&str, bool),
) -> CliResult<u8> {
    let settings = args.settings(session.settings())?;
    let work = list_log_work(history, targets, range, first_parent)?;
    let mut parts = list_target_identities(targets, session.cache())?;
    parts.extend(work.runs.iter().map(CommitId::to_string));
    let mut site = ClusterCommand::open(&settings, &parts)?;
    let mut replays = Vec::with_capacity(targets.len() * work.runs.len());
    for (fixture, target) in targets.iter().enumerate() {
        let name = &target.subject.fixture.name;
        for &commit in &work.runs {
            let key = format_variant_key(commit, fixture);
            let commit = commit.to_string();
            let task_name = format!("the replay of {name} at {}", &commit[..7]);
            replays.push(site.task(key, task_name, ClusterWorkKind::Variant { commit, fixture }));
        }
    }
    let fingerprints: HashMap<String, Option<String>> =
        site.run_tasks(replays, "replays")?.into_iter().collect();
    let mut changed_pairs: BTreeSet<(usize, CommitId)> = BTreeSet::new();
    for step in &work.steps {
        for fixture in 0..targets.len() {
            if changes_fingerprint(step, fixture, &fingerprints) {
                changed_pairs.insert((fixture, step.commit));
            }
        }
    }
    // One alone is made by the last task as soon.
    if changed_pairs.len() > 1 {
        let mut judgements = Vec::with_capacity(changed_pairs.len());
        for (fixture, commit) in changed_pairs {
            let name = &targets[fixture].subject.fixture.name;
            let key = format!("{}-judged", format_variant_key(commit, fixture));
            let commit = commit.to_string();
            let task_name = format!("the judgement on {name} at {}", &commit[..7]);
            let work_kind = ClusterWorkKind::Judgement { commit, fixture };
            judgements.push(site.task(key, task_name, work_kind));
        }
        site.run_tasks::<()>(judgements, "judgements")?;
    }
    site.answer()
}

/// The key of a replay of a log.
fn format_variant_key(commit: CommitId, fixture: usize) -> String {
    format!("{commit}-{fixture}")
}

/// Whether a commit's replay of a fixture differs from its parent's, or its parent has none.
fn changes_fingerprint(
    step: &LogStep,
    fixture: usize,
    fingerprints: &HashMap<String, Option<String>>,
) -> bool {
    let before = find_variant_fingerprint(fingerprints, step.before, fixture);
    let after = find_variant_fingerprint(fingerprints, step.after, fixture);
    before.is_none() || before != after
}

fn find_variant_fingerprint(
    fingerprints: &HashMap<String, Option<String>>,
    run: Option<CommitId>,
    fixture: usize,
) -> Option<&String> {
    fingerprints.get(&format_variant_key(run?, fixture))?.as_ref()
}

/// `replay FIXTURE...` on a cluster: a task for each fixture, then the command itself.
pub fn run_replay_on_cluster(
    args: &ClusterArgs,
    session: &Session,
    fixtures: &[PathBuf],
    parts: &[String],
) -> CliResult<u8> {
    let settings = args.settings(session.settings())?;
    let mut site = ClusterCommand::open(&settings, parts)?;
    let mut tasks = Vec::with_capacity(fixtures.len());
    for (number, path) in fixtures.iter().enumerate() {
        let key = format!("fixture-{number}");
        let task_name = format!("the replay of {}", path.display());
        tasks.push(site.task(key, task_name, ClusterWorkKind::Fixture { path: path.clone() }));
    }
    site.run_tasks::<()>(tasks, "replays")?;
    site.answer()
}

impl ClusterCommand<'_> {
    /// Has a node find the defective end.
    fn find_direction(&mut self) -> CliResult<Direction> {
        let task_name = "the comparison of the ends".to_owned();
        let task = self.task("direction".to_owned(), task_name, ClusterWorkKind::Direction);
        let comparison = self.run_tasks(vec![task], "comparisons")?.pop();
        let (_, direction) =
            comparison.ok_or_else(|| CommandError::new("the ends were not compared"))?;
        Ok(direction)
    }

    /// Makes all of `tasks`, called `things` for people. Returns the finding of each, by its key.
    fn run_tasks<R: serde::de::DeserializeOwned>(
        &mut self,
        tasks: Vec<Task<ClusterWork>>,
        things: &str,
    ) -> CliResult<Vec<(String, R)>> {
        let task_count = tasks.len();
        let mut answers = Vec::with_capacity(tasks.len());
        self.task_pool.start(tasks)?;
        loop {
            self.doing = format!(
                "{} of {task_count} {things} are made",
                task_count - self.task_pool.waiting()
            );
            match self.wait()? {
                Some(answer) => answers.push(answer),
                None => return Ok(answers),
            }
        }
    }
}
