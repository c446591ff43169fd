//! Makes replays: starts a program within limits, and tells how it ended.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::ProgramError;
use super::answer::{Answer, Effect};
use super::error::{Told, last_line, system};
use super::inputs::{self, Change};
use super::outputs::{self, Found};
use super::project::{self, Project, is_lacking};
use super::request::{Device, Places, Request, variables};
use super::startup;
use super::tree::{Tree, lacks};
use crate::cache::{Cache, CacheError};
use crate::fixture::{AnswerFile, Fixture, FixtureError};
use crate::foreign::{Bounds, Finished, Keeper, ProgramEnd};
use crate::harness::Harness;
use crate::history::SourceSet;
use crate::process::tree::End;
use crate::runtime::cpu::Rounding;
use crate::runtime::report;
use crate::tensor::step::Along;
use crate::tensor::{DType, TensorView};
use crate::worker::{Ending, Limits, NOTE, Narrow, Run, Stepped, WorkerError};

/// A move of inputs by digits that no native format of 32 bits or fewer holds.
const BESIDE: Along = Along { by: 1, exponent: 30 };
/// How many times as long as a replay a build may take.
const BUILD_SHARE: u32 = 10;
/// The exit status by which a program says that it cannot do what it was asked for.
const CANNOT: i32 = 125;
/// How long the command `identity` may take.
const IDENTITY_TIME: Duration = Duration::from_secs(60);
/// The most bytes of a file that a program writes: its outputs, and the caches of compilers.
const FILE_BYTES: u64 = 64 << 30;

/// Where and within which limits programs run.
#[derive(Debug)]
pub struct Setting {
    /// Where they compute.
    pub device: Device,
    /// Limits of time and memory.
    pub limits: Limits,
    /// The user's environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The most processes of one program that stay.
    pub processes: usize,
}

/// Runs programs.
#[derive(Debug)]
pub struct Runner {
    pub(super) keeper: Keeper,
    pub(super) cache: Cache,
    setting: Setting,
    projects: Mutex<HashMap<PathBuf, Arc<Project>>>,
    /// Trees that were found whole, by key.
    pub(super) trees: Mutex<HashMap<String, Tree>>,
}

/// Why there is no run.
#[derive(Debug)]
pub enum Fault {
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
        $(impl From<$error> for Fault {
            fn from(error: $error) -> Fault {
                Fault::$variant(error)
            }
        })*
    };
}

from!(ProgramError as Program, FixtureError as Fixture, CacheError as Cache, WorkerError as Worker);

/// One replay of a revision on a fixture.
pub struct Replay<'r> {
    pub project: &'r Project,
    pub fixture: &'r Fixture,
    /// The revision's files.
    pub sources: &'r SourceSet,
    /// What is asked of the program.
    pub request: &'r Request,
    /// A change of one input.
    pub step: Option<&'r Stepped>,
    /// Moves a tenth of the elements of all inputs by a unit in the last place.
    pub nudge: Option<u64>,
    /// Moves all inputs along a line.
    pub along: Option<Along>,
    /// The series of replays that it belongs to: those that one process may make after one another.
    pub series: Option<u64>,
}

/// How a replay ended, and what the program told.
struct Ended {
    finished: Finished,
    answer: Answer,
}

impl Runner {
    /// Runs programs by `keeper`, in `setting`; trees and temporary files lie in `cache`.
    pub fn new(keeper: Keeper, cache: Cache, setting: Setting) -> Runner {
        let (projects, trees) = Default::default();
        Runner { keeper, cache, setting, projects, trees }
    }

    /// The program of `harness`, resolved once.
    ///
    /// # Errors
    /// [`ProgramError`] if it is not there or does not say who it is.
    pub fn project(&self, harness: &Harness) -> Result<Arc<Project>, ProgramError> {
        let mut known = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(project) = known.get(&harness.path) {
            return Ok(project.clone());
        }
        let bounds = Bounds { timeout: IDENTITY_TIME, ..self.bounds() };
        let mut made = Project::open(harness, &self.setting, (&self.keeper, &bounds))?;
        if made.spec.preload.is_some() && made.spec.identity.is_none() {
            let told = made.servers.identity(&made, &self.keeper, &self.bounds())?;
            made.extend_identity(&told);
        }
        let made = Arc::new(made);
        known.insert(harness.path.clone(), made.clone());
        Ok(made)
    }

    /// Finds the program of `harness`, and waits for its first word if it is one that stays.
    ///
    /// # Errors
    /// [`ProgramError`] if it is not there or does not answer.
    pub fn answers(&self, harness: &Harness) -> Result<(), ProgramError> {
        let project = self.project(harness)?;
        match project.spec.preload {
            Some(_) => project.servers.identity(&project, &self.keeper, &self.bounds()).map(drop),
            None => Ok(()),
        }
    }

    /// Where programs compute.
    pub fn device(&self) -> Device {
        self.setting.device
    }

    fn bounds(&self) -> Bounds {
        let limits = &self.setting.limits;
        let tree_bytes = match self.setting.device {
            Device::Cpu => limits.memory_bytes,
            // Its tensors lie on the device.
            Device::Cuda(_) => u64::MAX,
        };
        // Interpreters and their libraries reserve more addresses than they use.
        let memory_bytes = u64::MAX;
        Bounds { timeout: limits.timeout, memory_bytes, tree_bytes, file_bytes: FILE_BYTES }
    }

    pub(super) fn build_bounds(&self) -> Bounds {
        let timeout = self.setting.limits.timeout.saturating_mul(BUILD_SHARE);
        Bounds { timeout, ..self.bounds() }
    }

    /// Makes `replay`.
    ///
    /// # Errors
    /// [`Fault`] if there is no outcome: the revision cannot be run, or something else is at fault.
    pub fn run(&self, replay: &Replay<'_>) -> Result<Run, Fault> {
        let tree = self.tree(replay.project, replay.sources)?;
        let work = self.cache.scratch()?;
        let place = |name: &str| work.path().join(name);
        let places = Places {
            inputs: place("inputs.safetensors"),
            tree: tree.path(),
            outputs: place("outputs.safetensors"),
            answer: place("answer.json"),
            temporary: place("tmp"),
        };
        std::fs::create_dir(&places.temporary).map_err(system("make a folder"))?;
        let step = replay.step.map(Change::Step);
        let change = step.or(replay.nudge.map(Change::Nudge)).or(replay.along.map(Change::Along));
        inputs::write(&places.inputs, replay.fixture, replay.request.wide, change)?;
        let begun = Instant::now();
        let ended = self.start(replay, &places);
        let call = begun.elapsed();
        let made = ended.and_then(|ended| self.run_of(replay, ended, &places));
        let changed = tree.changed();
        if changed.is_some() {
            tree.discard();
        }
        let mut run = match made {
            // It may have failed for want of its tree.
            Err(Fault::Program(_)) if changed.is_some() => Run::default(),
            made => made?,
        };
        (run.call, run.call_cpu) = (call, call);
        if let Some(path) = changed {
            run.refuse(format!("it changed the revision's tree, at `{path}`"));
        }
        Ok(run)
    }

    /// Starts the program for one replay, and waits for its end.
    fn start(&self, replay: &Replay<'_>, places: &Places) -> Result<Ended, Fault> {
        let project = replay.project;
        let bounds = self.bounds();
        let (finished, notes) = match project.spec.preload {
            Some(_) => {
                let terms = (&self.keeper, &bounds);
                project.servers.run(project, terms, (replay.request, replay.series), places)?
            }
            None => {
                let more = variables(replay.request, places);
                let program = project.command(project.words.clone(), None, &more);
                (project::run(&self.keeper, &bounds, program)?, Vec::new())
            }
        };
        let mut answer = match finished.ending {
            ProgramEnd::TimedOut
            | ProgramEnd::TookMemory(_)
            | ProgramEnd::Ended(End::Killed(_)) => Answer::default(),
            ProgramEnd::Ended(End::Exited(_)) => Answer::read(&places.answer)?,
        };
        // A copy may say again what its process has said.
        answer.notes.retain(|note| !notes.contains(note));
        answer.notes.splice(0..0, notes);
        Ok(Ended { finished, answer })
    }

    /// The run that ended so.
    fn run_of(&self, replay: &Replay<'_>, ended: Ended, places: &Places) -> Result<Run, Fault> {
        let Ended { finished, answer } = ended;
        let printed = printed(&finished, &answer.notes);
        let ending = match finished.ending {
            ProgramEnd::TimedOut => {
                Ending::TimedOut(self.setting.limits.timeout, Some(still_running()))
            }
            ProgramEnd::TookMemory(excess) => Ending::TookMemory(excess),
            ProgramEnd::Ended(End::Killed(libc::SIGKILL)) => {
                let (signal, memory_ran_out) = (libc::SIGKILL, false);
                return Err(WorkerError::Killed { signal, memory_ran_out }.into());
            }
            // So ends a program that sends itself SIGKILL: see `shield`.
            ProgramEnd::Ended(End::Killed(libc::SIGSYS)) => Ending::Killed(libc::SIGKILL),
            ProgramEnd::Ended(End::Killed(signal)) => Ending::Killed(signal),
            ProgramEnd::Ended(End::Exited(code)) => {
                match self.told(replay, code, &finished, answer)? {
                    Ok(answer) => return self.completed(replay, &answer, places, printed),
                    Err(ending) => ending,
                }
            }
        };
        let mut run = Run::without_outputs(ending);
        run.printed = printed;
        Ok(run)
    }

    /// What a program says that exited with `code`: an answer with outputs, or another ending.
    fn told(
        &self,
        replay: &Replay<'_>,
        code: i32,
        finished: &Finished,
        mut answer: Answer,
    ) -> Result<Result<Answer, Ending>, ProgramError> {
        if let Some(complaint) = answer.error.take() {
            return Err(complaint.error(lacks(replay.sources)));
        }
        let stderr = String::from_utf8_lossy(&finished.stderr);
        let message = last_line(&stderr);
        let source = Told::beside(message.as_deref(), &stderr);
        match code {
            // What was computed in the usual rounding tells nothing of another.
            0 if replay.request.rounding != Rounding::Nearest
                && answer.rounding.is_some_and(|effect| effect != Effect::Applied) =>
            {
                Ok(Err(Ending::Status(CANNOT)))
            }
            0 => Ok(Ok(answer)),
            CANNOT => Err(ProgramError::Revision {
                message: message
                    .unwrap_or_else(|| "the program says that it cannot be run".to_owned()),
                source,
                hint: lacks(replay.sources),
            }),
            _ if is_lacking(End::Exited(code)) => Err(ProgramError::Environment {
                message: message
                    .unwrap_or_else(|| format!("the program ended with exit status {code}")),
                source,
                hint: None,
            }),
            _ => match startup::broken(replay.project, code, &stderr) {
                Some(error) => Err(error),
                None => Ok(Err(Ending::Status(code))),
            },
        }
    }

    /// The outputs of a wide replay that were computed in their native formats. Numbers that fit these may
    /// be copies of inputs: beside the captured inputs, copies fit no longer.
    fn doubted(
        &self,
        replay: &Replay<'_>,
        file: &AnswerFile,
        found: &[Found],
    ) -> Result<Vec<String>, Fault> {
        let fits = |name: &str, view: &TensorView| {
            declared(replay.fixture, name).is_none_or(|native| outputs::fits(view, native))
        };
        let fitting = found.iter().filter(|one| {
            let bytes = &file.bytes()[one.range.clone()];
            fits(&one.name, &TensorView { dtype: one.dtype, shape: &one.shape, bytes })
        });
        let mut doubted: Vec<String> = fitting.map(|one| one.name.clone()).collect();
        if doubted.is_empty() {
            return Ok(doubted);
        }
        let beside = self.run(&Replay { along: Some(BESIDE), ..*replay })?;
        doubted.retain(|name| beside.output(name).is_none_or(|view| fits(name, &view)));
        Ok(doubted)
    }

    fn completed(
        &self,
        replay: &Replay<'_>,
        answer: &Answer,
        places: &Places,
        printed: String,
    ) -> Result<Run, Fault> {
        let wide = replay.request.wide;
        let (file, mut found) = match outputs::read(&places.outputs, replay.fixture, wide.is_some())
        {
            Ok(read) => read,
            Err(problem) => {
                let mut run = Run::without_outputs(Ending::Unfit(problem));
                run.printed = printed;
                return Ok(run);
            }
        };
        let mut narrow = Vec::new();
        // Beside the captured inputs nothing is held against the native outputs.
        if let Some(wide) = wide
            && replay.step.is_none()
            && replay.along.is_none()
        {
            let doubted = self.doubted(replay, &file, &found)?;
            found.retain(|one| {
                let says_so = answer.twins.get(&one.name) == Some(&false);
                let is_narrow = says_so || doubted.contains(&one.name);
                if is_narrow {
                    let reason = why_narrow(one, says_so, replay, wide);
                    narrow.push(Narrow { output: one.name.clone(), reason });
                }
                !is_narrow
            });
        }
        let tensors = found.into_iter().map(|one| (one.name, one.dtype, one.shape, one.range));
        let mut run = Run::of_bytes(file.bytes(), tensors, wide, &self.cache.temporary())?;
        run.narrow = narrow;
        run.is_unpoisoned = answer.surroundings.is_some_and(|effect| effect != Effect::Applied);
        run.printed = printed;
        Ok(run)
    }
}

/// Why `output` of the `wide` computation of `replay` is none, if the program `says_so` or its numbers do.
fn why_narrow(output: &Found, says_so: bool, replay: &Replay<'_>, wide: DType) -> String {
    let native = declared(replay.fixture, &output.name).unwrap_or(output.dtype);
    let mut reason = match says_so {
        true => format!("the program says that it is not computed in {wide}"),
        false if output.dtype.size() < wide.size() => {
            format!("the program returns it in {}", output.dtype)
        }
        false => format!("all its numbers fit {native}: they were rounded to it on the way"),
    };
    if wide == DType::F64 && !replay.project.spec.widen_casts {
        reason.push_str(" (`widen_casts` is false)");
    }
    reason
}

/// The dtype that `fixture` declares for output `name`.
fn declared(fixture: &Fixture, name: &str) -> Option<DType> {
    fixture.outputs.iter().find(|output| output.name == name).map(|output| output.dtype)
}

/// Where a program was when its time was over: nobody knows more.
fn still_running() -> report::Fault {
    report::Fault {
        what: "still running".to_owned(),
        detail: String::new(),
        kernel: Some("the program".to_owned()),
        block: None,
        thread: None,
    }
}

/// What a program printed, its notes last.
fn printed(finished: &Finished, notes: &[String]) -> String {
    let mut text = String::new();
    let streams = [&finished.stdout, &finished.stderr];
    for (stream, left_out) in streams.into_iter().zip(finished.left_out) {
        text.push_str(&crate::worker::shortened(stream, left_out));
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
    }
    for note in notes {
        text.push_str(&format!("{NOTE}{note}\n"));
    }
    text
}
