//! Makes replays: starts a program within limits, and tells how it ended.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::ProgramError;
use super::answer::{AnsweredAccesses, CallState, Effect, ProgramAnswer};
use super::error::{PrintedTail, last_line, program_system_error};
use super::image::ProgramImage;
use super::inputs;
use super::opened::{OpenedFiles, TreeWatch};
use super::outputs::{self, AnsweredOutput, ProgramOutputs};
use super::project::{self, HarnessProgram, ProgramFolders, is_lacking};
use super::request::{Places, ProgramDevice, ProgramRequest, request_variables};
use super::server::ServedReplay;
use super::startup;
use super::tree::{ProgramTree, describe_missing_files};
use crate::worker::{Ending, InputChange, Limits, NOTE, Narrow, Run, WorkerError};
use replay_base::cache::{Cache, CacheError, WorkFolder};
use replay_base::files::open_unlinked_file;
use replay_base::foreign::{Finished, Keeper, ProgramBounds, ProgramEnd};
use replay_base::process::tracer::RefusedCall;
use replay_base::process::tree::End;
use replay_base::process::walls::Sandbox;
use replay_base::tensor::step::LinePoint;
use replay_base::tensor::{DType, TensorView};
use replay_fixture::fixture::{AnswerFile, Fixture, FixtureError};
use replay_fixture::harness::Harness;
use replay_history::SourceSet;
use replay_runtime::cpu::Rounding;
use replay_runtime::cpu::order::Order;
use replay_runtime::report;

/// A move of inputs by digits beyond every native format of 32 bits or fewer.
const BESIDE: LinePoint = LinePoint { by: 1, exponent: 30 };
/// How many times as long as a replay a build may take.
const BUILD_SHARE: u32 = 10;
/// The exit status of a program for a request beyond its abilities.
const CANNOT: i32 = 125;
/// How long the command `identity` may take.
const IDENTITY_TIME: Duration = Duration::from_secs(60);
/// The most bytes of a file from a program: its outputs, and the caches of compilers.
const FILE_BYTES: u64 = 64 << 30;

/// The device, the limits and the environment of programs.
#[derive(Debug)]
pub struct ProgramSettings {
    /// Where they compute.
    pub device: ProgramDevice,
    /// Limits of time and memory.
    pub limits: Limits,
    /// The user's environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The most staying processes of one program.
    pub processes: usize,
}

/// Runs programs.
#[derive(Debug)]
pub struct Runner {
    pub(super) keeper: Keeper,
    pub(super) cache: Cache,
    setting: ProgramSettings,
    /// The programs by the folder of their harness and by what it says of them, with their image: harnesses in one folder
    /// with equal words share a program and its staying processes.
    projects: Mutex<HashMap<(PathBuf, String), Arc<HarnessProgram>>>,
    /// Trees known to be whole, by key.
    pub(super) trees: Mutex<HashMap<String, ProgramTree>>,
}

/// Why there is no run.
#[derive(Debug)]
pub enum ProgramFault {
    /// The program, its environment or the revision.
    Program(ProgramError),
    /// The fixture cannot be read.
    Fixture(FixtureError),
    /// The cache cannot be used.
    Cache(CacheError),
    Worker(WorkerError),
}

macro_rules! from {
    ($($error:ident as $variant:ident),*) => {
        $(impl From<$error> for ProgramFault {
            fn from(error: $error) -> ProgramFault {
                ProgramFault::$variant(error)
            }
        })*
    };
}

from!(ProgramError as Program, FixtureError as Fixture, CacheError as Cache, WorkerError as Worker);

/// One replay of a revision on a fixture.
pub struct ProgramReplay<'r> {
    pub project: &'r HarnessProgram,
    pub fixture: &'r Fixture,
    /// The revision's files.
    pub sources: &'r SourceSet,
    /// The request to the program.
    pub request: &'r ProgramRequest,
    /// The move of the inputs away from their captured values.
    pub change: &'r InputChange,
    /// Its series: replays for one process, in turn.
    pub series: Option<u64>,
    /// Takes what it opens of the tree.
    pub opened: &'r OpenedFiles,
}

/// The folder in `scratch` in which one process makes all replays of `series`.
pub(super) fn name_series_folder(scratch: &Path, series: u64) -> PathBuf {
    scratch.join(format!("series{series}"))
}

/// A new folder in `scratch` for the files of one replay, of `series` if it is one of several.
fn make_work_folder(scratch: &Path, series: Option<u64>) -> std::io::Result<TempDir> {
    let Some(series) = series else { return tempfile::tempdir_in(scratch) };
    let folder = name_series_folder(scratch, series);
    std::fs::create_dir_all(&folder)?;
    tempfile::tempdir_in(folder)
}

/// Where a program finds the record of roundings `kept_record`, or writes it: it reads the folder `handed`, and writes in
/// the folder `work` alone.
fn hand_record(
    kept_record: &Path,
    rounding: Rounding,
    [handed, work]: [&Path; 2],
) -> std::io::Result<PathBuf> {
    if rounding.is_recorded() {
        return Ok(work.join("record"));
    }
    let record = handed.join("record");
    std::fs::copy(kept_record, &record)?;
    Ok(record)
}

/// Takes the `record` that a program wrote over to `kept_record`, if it wrote one: a file, and no link to one.
fn keep_record(record: &Path, kept_record: &Path) -> std::io::Result<()> {
    if let Some((mut written, _)) = open_unlinked_file(record) {
        std::io::copy(&mut written, &mut std::fs::File::create(kept_record)?)?;
    }
    Ok(())
}

/// How a replay ended, and the words of the program.
struct Ended {
    finished: Finished,
    answer: ProgramAnswer,
    /// Whether its process had made others of its series before.
    continues: bool,
}

/// The meaning of a program's exit.
enum ExitMeaning {
    /// It answered: outputs are there to be read.
    Answered(ProgramAnswer),
    /// It ended without outputs.
    Failed(Ending),
}

impl Runner {
    /// Runs programs by `keeper`, in `setting`; trees and temporary files lie in `cache`.
    pub fn new(keeper: Keeper, cache: Cache, setting: ProgramSettings) -> Runner {
        let (projects, trees) = Default::default();
        Runner { keeper, cache, setting, projects, trees }
    }

    /// The program of `harness`, in `image` if there is one, resolved once.
    ///
    /// # Errors
    /// [`ProgramError`] if it is not there or does not say who it is.
    pub fn project(
        &self,
        harness: &Harness,
        image: Option<&ProgramImage>,
    ) -> Result<Arc<HarnessProgram>, ProgramError> {
        let mut known_projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = harness.path.parent().unwrap_or(Path::new("")).to_owned();
        let key = (folder, format!("{:?}", (&harness.program, image)));
        if let Some(project) = known_projects.get(&key) {
            return Ok(project.clone());
        }
        let bounds = ProgramBounds { timeout: IDENTITY_TIME, ..self.bounds() };
        let folders = ProgramFolders {
            scratch: self.make_scratch()?,
            handed: self.make_scratch()?,
            trees: self.shelf(),
        };
        let keeping = (&self.keeper, &bounds);
        let opened_project =
            HarnessProgram::open((harness, image), &self.setting, keeping, folders);
        let mut opened_project =
            opened_project.map_err(|error| self.advise_on_refusal(error, Vec::new))?;
        if opened_project.spec.preload.is_some() && opened_project.spec.identity.is_none() {
            let reported_identity = self.reported_identity(&opened_project)?;
            opened_project.extend_identity(&reported_identity);
        }
        let shared_project = Arc::new(opened_project);
        known_projects.insert(key, shared_project.clone());
        Ok(shared_project)
    }

    fn make_scratch(&self) -> Result<WorkFolder, ProgramError> {
        let scratch = self.cache.scratch();
        scratch.map_err(|error| program_system_error("make a folder")(std::io::Error::other(error)))
    }

    /// Finds the program of `harness`, and waits for the first word of a staying one.
    ///
    /// # Errors
    /// [`ProgramError`] if it is not there or does not answer.
    pub fn answers(&self, harness: &Harness) -> Result<(), ProgramError> {
        let project = self.project(harness, None)?;
        match project.spec.preload {
            Some(_) => self.reported_identity(&project).map(drop),
            None => Ok(()),
        }
    }

    /// What the staying program of `project` says of itself.
    fn reported_identity(&self, project: &HarnessProgram) -> Result<String, ProgramError> {
        let identity = project.servers.identity(project, &self.keeper, &self.bounds());
        identity.map_err(|error| self.advise_on_refusal(error, Vec::new))
    }

    /// Whether programs stand behind walls.
    fn has_walls(&self) -> bool {
        self.keeper.sandbox() == Sandbox::AsOffered
    }

    /// `error`, with advice if the walls may have made the program fail.
    fn advise_on_refusal(
        &self,
        error: ProgramError,
        find_refused_calls: impl FnOnce() -> Vec<RefusedCall>,
    ) -> ProgramError {
        if self.has_walls() { error.advise_on_refusal(find_refused_calls) } else { error }
    }

    /// Where programs compute.
    pub fn device(&self) -> ProgramDevice {
        self.setting.device
    }

    fn bounds(&self) -> ProgramBounds {
        let limits = &self.setting.limits;
        let tree_memory_bytes = match self.setting.device {
            ProgramDevice::Cpu => limits.memory_limit_bytes,
            // Its tensors lie on the device.
            ProgramDevice::Cuda(_) => u64::MAX,
        };
        // Interpreters and their libraries reserve more addresses than they use.
        let address_space_bytes = u64::MAX;
        ProgramBounds {
            timeout: limits.timeout,
            address_space_bytes,
            tree_memory_bytes,
            file_bytes: FILE_BYTES,
        }
    }

    pub(super) fn build_bounds(&self) -> ProgramBounds {
        let timeout = self.setting.limits.timeout.saturating_mul(BUILD_SHARE);
        ProgramBounds { timeout, ..self.bounds() }
    }

    /// Makes `replay`.
    ///
    /// # Errors
    /// [`ProgramFault`] if there is no outcome: the revision cannot be run, or something else is at fault.
    pub fn run(&self, replay: &ProgramReplay<'_>) -> Result<Run, ProgramFault> {
        let kept_record = replay.request.record.as_deref();
        // Without a tree nobody knows what a replay would open; what a build opened shows in none.
        let tree = self.tree(replay.project, replay.sources);
        let tree = tree.map_err(|error| self.advise_on_refusal(error, Vec::new));
        let tree = tree.inspect_err(|_| replay.opened.add(None))?;
        let watch = if replay.project.spec.build.is_none() { tree.watch() } else { None };
        let ProgramFolders { handed, scratch, .. } = &replay.project.folders;
        let handed = tempfile::tempdir_in(handed.path());
        let handed = handed.map_err(program_system_error("make a folder"))?;
        let work = make_work_folder(scratch.path(), replay.series);
        let work = work.map_err(program_system_error("make a folder"))?;
        let mut places = Places::make(tree.path(), handed.path(), work.path())
            .map_err(program_system_error("make a folder"))?;
        if let Some(series) = replay.series {
            places.own = name_series_folder(scratch.path(), series);
        }
        inputs::write_program_inputs(
            &places.inputs,
            replay.fixture,
            replay.request.wide,
            replay.change,
        )?;
        let mut request = replay.request.clone();
        if let Some(kept_record) = kept_record {
            let record = hand_record(kept_record, request.rounding, [handed.path(), work.path()]);
            request.record = Some(record.map_err(program_system_error("hand over the record"))?);
        }
        let replay = &ProgramReplay { request: &request, ..*replay };
        let start_time = Instant::now();
        let ended = self.start(replay, &places);
        let call = start_time.elapsed();
        if let (Some(kept_record), Some(record)) = (kept_record, &request.record)
            && request.rounding.is_recorded()
        {
            let kept = keep_record(record, kept_record);
            kept.map_err(program_system_error("keep the record of roundings"))?;
        }
        replay.opened.add(watch.and_then(TreeWatch::finish));
        let ending = ended.as_ref().ok().map(|ended| ended.finished.ending);
        let continues = ended.as_ref().is_ok_and(|ended| ended.continues);
        let run_result = ended.and_then(|ended| self.run_of(replay, ended, &places));
        let changed_path = tree.changed();
        if changed_path.is_some() {
            tree.discard();
        }
        let find_refused_calls = || match ending {
            Some(ending) if changed_path.is_none() => {
                self.find_refused_calls(replay, &tree, handed.path(), ending).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        let mut run = match run_result {
            // It may have failed for want of its tree.
            Err(ProgramFault::Program(_)) if changed_path.is_some() => Run::default(),
            Err(ProgramFault::Program(error)) => {
                return Err(self.advise_on_refusal(error, find_refused_calls).into());
            }
            run_result => run_result?,
        };
        if self.has_walls() && run.tells_of_refusal() {
            run.note_refusal(&find_refused_calls());
        }
        (run.call, run.call_cpu) = (call, call);
        run.continues_series = continues;
        if let Some(path) = changed_path {
            run.refuse(format!("it changed the revision's tree, at `{path}`"));
        }
        Ok(run)
    }

    /// Starts the program for one replay, and waits for its end.
    fn start(&self, replay: &ProgramReplay<'_>, places: &Places) -> Result<Ended, ProgramFault> {
        let project = replay.project;
        let bounds = self.bounds();
        let ServedReplay { finished, notes, continues } = match project.spec.preload {
            Some(_) => {
                let terms = (&self.keeper, &bounds);
                project.servers.run(project, terms, (replay.request, replay.series), places)?
            }
            None => {
                let replay_variables = request_variables(replay.request, places);
                let own = Some(&*places.own);
                let program = project.command(project.words.clone(), &replay_variables, own);
                let finished = project::run_program(&self.keeper, &bounds, program)?;
                ServedReplay { finished, notes: Vec::new(), continues: false }
            }
        };
        let mut answer = match finished.ending {
            // Its end may have cut its words off.
            ProgramEnd::TimedOut => {
                let call = ProgramAnswer::read(&places.answer).ok().and_then(|answer| answer.call);
                ProgramAnswer { call, ..ProgramAnswer::default() }
            }
            ProgramEnd::TookMemory(_) | ProgramEnd::Ended(End::Killed(_)) => {
                ProgramAnswer::default()
            }
            ProgramEnd::Ended(End::Exited(_)) => ProgramAnswer::read(&places.answer)?,
        };
        // A copy may repeat the words of its process.
        answer.notes.retain(|note| !notes.contains(note));
        answer.notes.splice(0..0, notes);
        Ok(Ended { finished, answer, continues })
    }

    /// The run behind `ended`.
    fn run_of(
        &self,
        replay: &ProgramReplay<'_>,
        ended: Ended,
        places: &Places,
    ) -> Result<Run, ProgramFault> {
        let Ended { finished, answer, .. } = ended;
        let printed = join_printed_streams(&finished, &answer.notes);
        let ending = match finished.ending {
            ProgramEnd::TimedOut if answer.call == Some(CallState::Waiting) => {
                let stays = replay.project.spec.preload.is_some();
                let timeout = self.setting.limits.timeout;
                return Err(ProgramError::LateCall { timeout, stays }.into());
            }
            ProgramEnd::TimedOut => {
                Ending::TimedOut(self.setting.limits.timeout, Some(still_running()))
            }
            ProgramEnd::TookMemory(excess) => Ending::TookMemory(excess),
            ProgramEnd::Ended(End::Killed(libc::SIGKILL)) => {
                let signal = libc::SIGKILL;
                let memory_ran_out = false;
                return Err(WorkerError::KilledFromOutside { signal, memory_ran_out }.into());
            }
            // So ends a program that sends itself SIGKILL: see `shield`.
            ProgramEnd::Ended(End::Killed(libc::SIGSYS)) => Ending::Killed(libc::SIGKILL),
            ProgramEnd::Ended(End::Killed(signal)) => Ending::Killed(signal),
            ProgramEnd::Ended(End::Exited(code)) => {
                match self.interpret_exit(replay, code, &finished, answer)? {
                    ExitMeaning::Answered(mut answer) => {
                        let accesses = answer.accesses.take();
                        let mut run = self.completed(replay, &answer, places, printed)?;
                        if replay.request.checks_accesses {
                            run.findings = AnsweredAccesses::findings_of(accesses);
                        }
                        return Ok(run);
                    }
                    ExitMeaning::Failed(ending) => ending,
                }
            }
        };
        let mut run = Run::without_outputs(ending);
        run.printed = printed;
        Ok(run)
    }

    /// What walls refuse to `replay`, which ended by itself with `ending`: it is made once more, and its keeper looks on.
    /// None if it ends otherwise then.
    fn find_refused_calls(
        &self,
        replay: &ProgramReplay<'_>,
        tree: &ProgramTree,
        handed: &Path,
        ending: ProgramEnd,
    ) -> Option<Vec<RefusedCall>> {
        if !matches!(ending, ProgramEnd::Ended(_)) || self.setting.device != ProgramDevice::Cpu {
            return None;
        }
        let project = replay.project;
        let work = tempfile::tempdir_in(project.folders.scratch.path()).ok()?;
        let places = Places::make(tree.path(), handed, work.path()).ok()?;
        // A staying program can make a replay alone, too.
        let replay_variables = request_variables(replay.request, &places);
        let own = Some(&*places.own);
        let program = project.command(project.words.clone(), &replay_variables, own);
        let finished = self.keeper.tracing().run(&program, &self.bounds()).ok()?;
        (finished.ending == ending).then_some(finished.refused_calls)
    }

    /// The meaning of a program's exit with `code`.
    fn interpret_exit(
        &self,
        replay: &ProgramReplay<'_>,
        code: i32,
        finished: &Finished,
        mut answer: ProgramAnswer,
    ) -> Result<ExitMeaning, ProgramError> {
        if let Some(complaint) = answer.error.take() {
            return Err(complaint.error(describe_missing_files(replay.sources)));
        }
        let stderr = String::from_utf8_lossy(&finished.stderr);
        let message = last_line(&stderr);
        let source = PrintedTail::beside(message.as_deref(), &stderr);
        let is_directed =
            matches!(replay.request.rounding, Rounding::Down | Rounding::Up | Rounding::TowardZero);
        if code == 0 && is_directed && answer.call == Some(CallState::Waiting) {
            replay.project.note_ignored_roundings();
        }
        match code {
            // Results of the usual rounding or order tell nothing of another.
            0 if replay.request.rounding != Rounding::Nearest
                && answer.rounding.is_some_and(|effect| effect != Effect::Applied)
                || replay.request.order != Order::LINEAR
                    && answer.order != Some(Effect::Applied) =>
            {
                Ok(ExitMeaning::Failed(Ending::Status(CANNOT)))
            }
            0 => Ok(ExitMeaning::Answered(answer)),
            CANNOT => Err(ProgramError::Revision {
                message: message
                    .unwrap_or_else(|| "the program says that it cannot be run".to_owned()),
                source,
                hint: describe_missing_files(replay.sources),
            }),
            _ if is_lacking(End::Exited(code)) => Err(ProgramError::Environment {
                message: message
                    .unwrap_or_else(|| format!("the program ended with exit status {code}")),
                source,
                hint: None,
            }),
            _ => match startup::diagnose_startup_failure(replay.project, code, &stderr) {
                Some(error) => Err(error),
                None => Ok(ExitMeaning::Failed(Ending::Status(code))),
            },
        }
    }

    /// The outputs of a wide replay with the marks of a native computation. Numbers of a native format may be copies of
    /// inputs: with inputs beside the captured ones, copies fit no longer.
    fn doubted(
        &self,
        replay: &ProgramReplay<'_>,
        file: &AnswerFile,
        answered_outputs: &[AnsweredOutput],
    ) -> Result<Vec<String>, ProgramFault> {
        let fitting = answered_outputs.iter().filter(|answered_output| {
            let bytes = &file.bytes()[answered_output.range.clone()];
            fits_declared_format(
                replay.fixture,
                &answered_output.name,
                &TensorView { dtype: answered_output.dtype, shape: &answered_output.shape, bytes },
            )
        });
        let mut doubted: Vec<String> =
            fitting.map(|answered_output| answered_output.name.clone()).collect();
        if doubted.is_empty() {
            return Ok(doubted);
        }
        let change = &InputChange::Line(BESIDE);
        let neighbour_run = self.run(&ProgramReplay { change, ..*replay })?;
        doubted.retain(|name| {
            let view = neighbour_run.output(name);
            view.is_none_or(|view| fits_declared_format(replay.fixture, name, &view))
        });
        Ok(doubted)
    }

    fn completed(
        &self,
        replay: &ProgramReplay<'_>,
        answer: &ProgramAnswer,
        places: &Places,
        printed: String,
    ) -> Result<Run, ProgramFault> {
        let wide_dtype = replay.request.wide;
        let ProgramOutputs { file, answered, unfit } = match outputs::read_program_outputs(
            &places.outputs,
            replay.fixture,
            wide_dtype.is_some(),
        ) {
            Ok(written_outputs) => written_outputs,
            Err(problem) => {
                let mut run = Run::without_outputs(Ending::Unfit(problem));
                run.printed = printed;
                return Ok(run);
            }
        };
        let mut answered_outputs = answered;
        let mut narrow = Vec::new();
        // Beside the captured inputs nothing is held against the native outputs.
        if let Some(wide_dtype) = wide_dtype
            && !matches!(replay.change, InputChange::Step(_) | InputChange::Line(_))
        {
            let doubted = self.doubted(replay, &file, &answered_outputs)?;
            answered_outputs.retain(|answered_output| {
                let says_so = answer.twins.get(&answered_output.name) == Some(&false);
                let is_narrow = says_so || doubted.contains(&answered_output.name);
                if is_narrow {
                    let reason =
                        explain_narrow_output(answered_output, says_so, replay, wide_dtype);
                    narrow.push(Narrow { output: answered_output.name.clone(), reason });
                }
                !is_narrow
            });
        }
        let tensors = answered_outputs.into_iter().map(|answered_output| {
            (
                answered_output.name,
                answered_output.dtype,
                answered_output.shape,
                answered_output.range,
            )
        });
        let mut run = Run::of_bytes(file.bytes(), tensors, wide_dtype, &self.cache.temporary())?;
        run.narrow = narrow;
        run.unfit = unfit;
        run.is_unpoisoned = answer.surroundings.is_some_and(|effect| effect != Effect::Applied);
        run.is_unwritten_unknown = answer.unwritten != Some(Effect::Applied);
        run.has_other_roundings = answer.other_roundings;
        run.is_ordered = answer.order == Some(Effect::Applied);
        run.settings = answer.settings.clone();
        run.printed = printed;
        Ok(run)
    }
}

/// Why `output` of the `wide_dtype` computation of `replay` is none, if the program `says_so` or its numbers do.
fn explain_narrow_output(
    output: &AnsweredOutput,
    says_so: bool,
    replay: &ProgramReplay<'_>,
    wide_dtype: DType,
) -> String {
    let native = declared_output_dtype(replay.fixture, &output.name).unwrap_or(output.dtype);
    let mut reason = match says_so {
        true => format!("the program says that it is not computed in {wide_dtype}"),
        false if output.dtype.size() < wide_dtype.size() => {
            format!("the program returns it in {}", output.dtype)
        }
        false => format!("all its numbers fit {native}: they were rounded to it on the way"),
    };
    if wide_dtype == DType::F64 && !replay.project.spec.widen_casts {
        reason.push_str(" (`widen_casts` is false)");
    }
    reason
}

/// Whether all numbers of `view` fit the declared dtype of output `name`, or nothing is declared.
fn fits_declared_format(fixture: &Fixture, name: &str, view: &TensorView) -> bool {
    declared_output_dtype(fixture, name)
        .is_none_or(|native| outputs::fits_native_format(view, native))
}

/// The declared dtype of output `name` of `fixture`.
fn declared_output_dtype(fixture: &Fixture, name: &str) -> Option<DType> {
    fixture.outputs.iter().find(|output| output.name == name).map(|output| output.dtype)
}

/// Where a program was when its time was over: nobody knows more.
fn still_running() -> report::ReplayFault {
    report::ReplayFault {
        what: "still running".to_owned(),
        detail: String::new(),
        kernel: Some("the program".to_owned()),
        block: None,
        thread: None,
    }
}

/// The output of a program, its notes last.
fn join_printed_streams(finished: &Finished, notes: &[String]) -> String {
    let mut text = String::new();
    let streams = [&finished.stdout, &finished.stderr];
    for (stream, left_out) in streams.into_iter().zip(finished.left_out) {
        text.push_str(&crate::worker::shorten_printed_text(stream, left_out));
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
    }
    for note in notes {
        text.push_str(&format!("{NOTE}{note}\n"));
    }
    text
}
