//! `--on-cluster`: the work of a command as tasks of a scheduler, and its answer from what they leave in the cache.
//!
//! Each task is this program, on a node, with the words of the command: it makes one test, one replay or one fixture
//! and leaves what it finds in the cache that all nodes share. The last task is the command itself, which finds all of
//! it there. Its output is the output.

mod settings;
mod task;

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ::replay::bisect::{Direction, Elsewhere, Ends, Findings, Look, Manner, Plan, narrow};
use ::replay::bisect::{LogStep, SearchTarget, work_of_log};
use ::replay::cache::Cache;
use ::replay::cluster::{ClusterError, Crew, Folder, Task};
use ::replay::history::{Commit, CommitId, History};
use ::replay::report;
use ::replay::search::{Answer, State};
use serde::{Deserialize, Serialize};

use super::error::{CliResult, CommandError, Context};
use super::exit;
use super::out;
use super::progress::Progress;
use super::session;

pub use self::settings::ClusterArgs;
use self::settings::Settings;
pub use self::task::work;

/// The argument with which a node starts a task; not for users.
pub const TASK_ARGUMENT: &str = "--replay-task";

/// One task, as it is handed to a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Work {
    /// The words of the command, without those about the cluster.
    words: Vec<String>,
    /// The folder that they are meant in.
    folder: PathBuf,
    what: What,
}

/// What a task does of a command.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum What {
    /// Which of two ends has a defect, where nothing is claimed of them.
    Direction,
    /// A test of a search.
    Test { commit: String, orders: bool },
    /// The compilation of a commit that a search may test.
    Compile { commit: String },
    /// A replay of a log, on the fixture with this number.
    Variant { commit: String, fixture: usize },
    /// The judgements of a log on what a commit changes, on the fixture with this number.
    Judgement { commit: String, fixture: usize },
    /// The command on one of its fixtures.
    Fixture { path: PathBuf },
    /// The command; its output goes to two files.
    Whole { stdout: PathBuf, stderr: PathBuf, colours: bool },
}

/// A command on a cluster.
struct Site<'s> {
    crew: Crew<'s, Work>,
    words: Vec<String>,
    folder: PathBuf,
    width: usize,
    progress: Progress,
    /// What is being done, for people.
    doing: String,
}

impl Site<'_> {
    /// Opens the folder of the tasks of this command, whose answer also depends on `parts`.
    fn open(settings: &Settings, parts: &[String]) -> CliResult<Site<'static>> {
        let words = settings::without_cluster(std::env::args_os().skip(1))?;
        let here = std::env::current_dir().context(|| "cannot find the working directory")?;
        let mut hasher = blake3::Hasher::new();
        let all = words.iter().chain(parts).map(String::as_bytes);
        for part in all.chain([here.as_os_str().as_encoded_bytes(), super::VERSION.as_bytes()]) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let name = format!("replay-{}", &hasher.finalize().to_hex()[..16]);
        let folder = Folder::open(&settings.folder.join(name))?;
        let (scheduler, width) = (settings.scheduler(), settings.width);
        let crew = Crew::open(folder, scheduler, worker(settings)?, width, &exit::is_interrupted)?;
        exit::note_interruptions();
        let doing = String::new();
        Ok(Site { crew, words, folder: here, width, progress: Progress::start(), doing })
    }

    fn task(&self, key: String, what: String, work: What) -> Task<Work> {
        let work = Work { words: self.words.clone(), folder: self.folder.clone(), what: work };
        Task { key, what, work, after: None }
    }

    /// Waits for the next result, and says how things stand meanwhile.
    fn wait<R: serde::de::DeserializeOwned>(
        &mut self,
    ) -> Result<Option<(String, R)>, ClusterError> {
        let Site { crew, progress, doing, .. } = self;
        let done = crew.wait(&mut |crew| {
            let (running, waiting, reason) = crew.standing();
            let why = reason.filter(|why| *why != "None").map(|why| format!(" ({why})"));
            let why = why.unwrap_or_default();
            progress.say(format!("{doing}: {running} tasks run, {waiting} wait{why}"));
        })?;
        Ok(done.map(|done| (done.key, done.found)))
    }

    /// Runs the command itself on a node, prints what it prints, and returns its exit code.
    fn answer(mut self) -> CliResult<u8> {
        let folder = self.crew.folder().to_owned();
        let (stdout, stderr) = (folder.join("stdout"), folder.join("stderr"));
        let colours = out::is_coloured();
        let what = What::Whole { stdout: stdout.clone(), stderr: stderr.clone(), colours };
        let task = self.task("whole".to_owned(), "the answer".to_owned(), what);
        self.doing = "the answer".to_owned();
        self.crew.start(vec![task])?;
        let found = self.wait::<u8>()?;
        let (_, code) = found.ok_or_else(|| CommandError::new("the answer never came"))?;
        drop(self.progress);
        let read =
            |path: &Path| std::fs::read(path).context(|| format!("cannot read {}", path.display()));
        let (result, told) = (read(&stdout)?, read(&stderr)?);
        out::tell(format_args!("{}", String::from_utf8_lossy(&told)));
        out::write(format_args!("{}", String::from_utf8_lossy(&result)));
        self.crew.finish();
        Ok(code)
    }
}

/// The words that start a task on a node. The cache is the one of this process, or the node's own with one behind it
/// in the folder of tasks.
fn worker(settings: &Settings) -> CliResult<Vec<OsString>> {
    let own = std::env::current_exe().context(|| "cannot find this program's own file")?;
    let variable = |name: &str, value: &Path| {
        let mut text = OsString::from(format!("{name}="));
        text.push(value);
        text
    };
    let mut words: Vec<OsString> = Vec::new();
    match &settings.cache {
        None => {
            words.push("env".into());
            words.push(variable("REPLAY_CACHE_DIR", &session::cache_folder()?));
        }
        Some(place) => {
            let script =
                format!("REPLAY_CACHE_DIR=\"{place}\"; export REPLAY_CACHE_DIR; exec \"$@\"");
            words.extend(["sh", "-euc", &script, "replay", "env"].map(OsString::from));
            words.push(variable(session::SHARED_CACHE, &settings.folder));
            Cache::open(&settings.folder)?;
        }
    }
    words.extend([own.into(), TASK_ARGUMENT.into()]);
    Ok(words)
}

/// What the results on `targets` depend on besides the words of the command.
fn identities(targets: &[SearchTarget]) -> CliResult<Vec<String>> {
    let cache = session::cache()?;
    Ok(targets.iter().map(|target| target.subject.identity(&cache)).collect::<Result<_, _>>()?)
}

/// `replay bisect` on a cluster: rounds of tests, then the command itself.
pub fn bisect(
    args: &ClusterArgs,
    history: &History,
    targets: &[SearchTarget],
    ends: &Ends,
    first_parent: bool,
    jobs: Option<usize>,
) -> CliResult<u8> {
    let settings = args.settings(jobs)?;
    let mut parts = identities(targets)?;
    let (Ends::Claimed { good: one, bad: other } | Ends::Unclaimed { old: one, new: other }) = ends;
    parts.extend(one.iter().chain(other).map(|end| end.id.to_string()));
    let mut site = Site::open(&settings, &parts)?;
    let plan = match ends {
        Ends::Claimed { good, bad } => Plan::claimed(history, targets, good, bad)?,
        Ends::Unclaimed { old, new } => {
            Plan::new(history, targets, old, new, site.find_direction()?)?
        }
    };
    let manner = Manner { first_parent, width: settings.width };
    let rounds = narrow(history, targets, plan, manner, &mut site)?;
    tracing::info!(rounds, "searched on the cluster");
    site.answer()
}

impl Elsewhere for Site<'_> {
    type Error = CommandError;

    fn start(&mut self, looks: &[Look]) -> CliResult<()> {
        let task = |look: &Look| {
            let commit = look.commit.to_string();
            let short = &commit[..7];
            let key = key_of(look.commit, look.orders);
            let work = What::Test { commit: commit.clone(), orders: look.orders };
            let task = self.task(key, format!("the test of {short}"), work);
            Task { after: Some(compiled_key(look.commit)), ..task }
        };
        let tasks = looks.iter().map(task).collect();
        self.doing = format!("testing {} commits", looks.len());
        Ok(self.crew.start(tasks)?)
    }

    fn room(&self) -> usize {
        // Less than a quarter is not worth an array.
        let room = self.crew.room();
        if room * 4 >= self.width { room } else { 0 }
    }

    fn compile_ahead(&mut self, commits: &[CommitId]) {
        let task = |&commit: &CommitId| {
            let what = What::Compile { commit: commit.to_string() };
            let name = format!("the compilation of {}", &commit.to_string()[..7]);
            self.task(compiled_key(commit), name, what)
        };
        let tasks = commits.iter().map(task).collect();
        self.crew.start_spare(tasks);
    }

    fn wait(&mut self) -> CliResult<(CommitId, Findings)> {
        let found = Site::wait(self)?;
        let (key, found) = found.ok_or_else(|| CommandError::new("no task is left to wait for"))?;
        Ok((commit_of(&key)?, found))
    }

    fn cancel(&mut self, commits: &[CommitId]) {
        let keys: Vec<String> =
            commits.iter().flat_map(|id| [key_of(*id, true), key_of(*id, false)]).collect();
        self.crew.cancel(&keys);
    }

    fn told(&mut self, commit: &Commit, answer: Answer, state: &State) {
        self.progress.note(&report::answered_line(commit, answer));
        self.doing = format!("{} commits left", state.candidates);
    }
}

/// The key of a test, which begins with the commit's id.
fn key_of(commit: CommitId, orders: bool) -> String {
    format!("{commit}-{}", if orders { "orders" } else { "plain" })
}

/// The key of a compilation ahead of a test.
fn compiled_key(commit: CommitId) -> String {
    format!("{commit}-compiled")
}

fn commit_of(key: &str) -> CliResult<CommitId> {
    let id = key.split('-').next().and_then(|id| id.parse().ok());
    id.ok_or_else(|| CommandError::new(format!("`{key}` names no commit")))
}

/// `replay log` on a cluster: a task for each variant on each fixture, one for each commit that changes what comes
/// out, then the command itself.
pub fn log(
    args: &ClusterArgs,
    history: &History,
    targets: &[SearchTarget],
    (range, first_parent): (&str, bool),
    jobs: Option<usize>,
) -> CliResult<u8> {
    let settings = args.settings(jobs)?;
    let work = work_of_log(history, targets, range, first_parent)?;
    let mut parts = identities(targets)?;
    parts.extend(work.runs.iter().map(CommitId::to_string));
    let mut site = Site::open(&settings, &parts)?;
    let name = |fixture: usize| &targets[fixture].subject.fixture.name;
    let key = |commit: CommitId, fixture: usize| format!("{commit}-{fixture}");
    let each = |commits: &[CommitId]| -> Vec<(CommitId, usize)> {
        let fixtures = 0..targets.len();
        fixtures.flat_map(|fixture| commits.iter().map(move |id| (*id, fixture))).collect()
    };
    let replay = |(commit, fixture): (CommitId, usize)| {
        let (at, key) = (commit.to_string(), key(commit, fixture));
        let what = format!("the replay of {} at {}", name(fixture), &at[..7]);
        site.task(key, what, What::Variant { commit: at, fixture })
    };
    let tasks = each(&work.runs).into_iter().map(replay).collect();
    let found: HashMap<String, Option<String>> = site.all(tasks, "replays")?.into_iter().collect();
    let differ = |step: &LogStep, fixture: usize| {
        let fingerprint = |run: Option<CommitId>| found.get(&key(run?, fixture))?.as_ref();
        let (before, after) = (fingerprint(step.before), fingerprint(step.after));
        before.is_none() || before != after
    };
    let steps = work.steps.iter().flat_map(|step| (0..targets.len()).map(move |f| (step, f)));
    let changed: BTreeSet<(usize, CommitId)> = steps
        .filter(|(step, fixture)| differ(step, *fixture))
        .map(|(step, fixture)| (fixture, step.commit))
        .collect();
    let judge = |(fixture, commit): (usize, CommitId)| {
        let (at, key) = (commit.to_string(), format!("{}-judged", key(commit, fixture)));
        let what = format!("the judgement on {} at {}", name(fixture), &at[..7]);
        site.task(key, what, What::Judgement { commit: at, fixture })
    };
    // One alone is made by the last task as soon.
    if changed.len() > 1 {
        let tasks = changed.into_iter().map(judge).collect();
        site.all::<()>(tasks, "judgements")?;
    }
    site.answer()
}

/// `replay FIXTURE...` on a cluster: a task for each fixture, then the command itself.
pub fn replay(args: &ClusterArgs, fixtures: &[PathBuf], parts: &[String]) -> CliResult<u8> {
    let settings = args.settings(None)?;
    let mut site = Site::open(&settings, parts)?;
    let task = |(number, path): (usize, &PathBuf)| {
        let what = format!("the replay of {}", path.display());
        site.task(format!("fixture-{number}"), what, What::Fixture { path: path.clone() })
    };
    let tasks = fixtures.iter().enumerate().map(task).collect();
    site.all::<()>(tasks, "replays")?;
    site.answer()
}

impl Site<'_> {
    /// Has a node find out which of the ends has a defect.
    fn find_direction(&mut self) -> CliResult<Direction> {
        let what = "the comparison of the ends".to_owned();
        let task = self.task("direction".to_owned(), what, What::Direction);
        let found = self.all(vec![task], "comparisons")?.pop();
        let (_, direction) =
            found.ok_or_else(|| CommandError::new("the ends were not compared"))?;
        Ok(direction)
    }

    /// Makes all of `tasks`, which are `things`; returns what each has found, by its key.
    fn all<R: serde::de::DeserializeOwned>(
        &mut self,
        tasks: Vec<Task<Work>>,
        things: &str,
    ) -> CliResult<Vec<(String, R)>> {
        let (all, mut found) = (tasks.len(), Vec::with_capacity(tasks.len()));
        self.crew.start(tasks)?;
        loop {
            self.doing = format!("{} of {all} {things} are made", all - self.crew.waiting());
            match self.wait()? {
                Some(done) => found.push(done),
                None => return Ok(found),
            }
        }
    }
}
