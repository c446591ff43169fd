//! A comparison of two revisions against plain replays of both, in one run, on the fixtures of the
//! demonstrations; and a whole `replay diff` of the first, as a user waits for it.
//!
//! Prints ratios, times and their bounds; exits with 1 if one is beyond. The shortest of several runs
//! counts. Each run begins with nothing but what is compiled: no child waits for its next replay.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use replay::backend::{CpuBackend, Host, Mode};
use replay::cache::Cache;
use replay::compile::{Compiler, Toolchain};
use replay::fixture::Fixture;
use replay::foreign::Keeper;
use replay::frontend::Precision;
use replay::history::{History, SourceSet, SourceSpec};
use replay::judge::judge_trial;
use replay::summary::POISON_A;
use replay::trial::{Lab, Subject};
use replay::worker::Limits;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The most time that noise, shadow and comparison may add to a plain replay of both sides, as a
/// multiple of it.
const COMPARISON: f64 = 8.0;
/// The most time of `replay diff` on step0, with compiled kernels.
const DIFF: Duration = Duration::from_millis(250);
const ROUNDS: usize = 7;

/// A fixture and two revisions of the kernels that it fits.
const TRIALS: [(&str, &str, &str); 4] = [
    ("step0", "37707d4", "396b00e"),
    ("step0-words", "396b00e", "61b3d97"),
    ("fused_xent", "c1d01eb", "aaf0207"),
    ("lazy_attention-long", "3aa8181", "5025e30"),
];

fn main() -> Result<ExitCode> {
    let threads = std::thread::available_parallelism()?.get();
    println!("what a comparison adds to plain replays of both sides, {threads} threads");
    println!(
        "{:>20} {:>10} {:>14} {:>7} {:>6} {:>10}",
        "fixture", "plain ms", "comparison ms", "ratio", "bound", "cpu ratio"
    );
    let mut all_within = true;
    for (fixture, base, got) in TRIALS {
        let (plain, comparison) = times(fixture, base, got, threads)?;
        let ratio = comparison.wall / plain.wall - 1.0;
        all_within &= report(ratio <= COMPARISON, || {
            let wall = plain.wall * 1e3;
            let other = comparison.wall * 1e3;
            let cpu = comparison.cpu / plain.cpu - 1.0;
            format!(
                "{fixture:>20} {wall:>10.1} {other:>14.1} {ratio:>7.2} {COMPARISON:>6} {cpu:>10.2}"
            )
        });
    }
    let (fixture, base, got) = TRIALS[0];
    for (what, fresh) in [("compiled kernels", true), ("everything cached", false)] {
        let time = diff(fixture, base, got, fresh)?;
        all_within &= report(time <= DIFF, || {
            format!("diff of {fixture}, {what}: {:.1} ms, at most {}", ms(time), ms(DIFF))
        });
    }
    Ok(if all_within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report(within: bool, line: impl FnOnce() -> String) -> bool {
    println!("{}{}", line(), if within { "" } else { "  beyond" });
    within
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Seconds of a clock, and of processors: of this process and of its children that have ended.
#[derive(Clone, Copy)]
struct Time {
    wall: f64,
    cpu: f64,
}

impl Time {
    fn of(run: impl FnOnce() -> Result<()>) -> Result<Time> {
        let begin = Instant::now();
        let cpu = processor_seconds();
        run()?;
        Ok(Time { wall: begin.elapsed().as_secs_f64(), cpu: processor_seconds() - cpu })
    }

    fn min(self, other: Time) -> Time {
        Time { wall: self.wall.min(other.wall), cpu: self.cpu.min(other.cpu) }
    }
}

fn processor_seconds() -> f64 {
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let used = |whose| {
        // SAFETY: fills in a struct that lives on the stack.
        let usage = unsafe {
            let mut usage = std::mem::zeroed::<libc::rusage>();
            libc::getrusage(whose, &raw mut usage);
            usage
        };
        seconds(usage.ru_utime) + seconds(usage.ru_stime)
    };
    used(libc::RUSAGE_SELF) + used(libc::RUSAGE_CHILDREN)
}

/// The shortest time of a plain replay of both sides, and of judging one by the other.
fn times(fixture: &str, base: &str, got: &str, threads: usize) -> Result<(Time, Time)> {
    let fixture = Fixture::load(&root().join("fixtures").join(fixture))?;
    let subject = Arc::new(Subject::new(fixture));
    let harness = &subject.fixture.harness;
    let spec = SourceSpec {
        sources: harness.sources.clone(),
        include: harness.include.clone(),
        ..SourceSpec::default()
    };
    let repository = harness.repository.as_ref().ok_or("a demonstration has a history")?;
    let history = History::open_with_cache(repository, cache()?.root())?;
    let sources = |rev: &str| -> Result<Arc<SourceSet>> {
        Ok(history.source_set(&history.resolve(rev)?, &spec)?.into())
    };
    let base = sources(base)?;
    let got = sources(got)?;
    let plain = |lab: Arc<Lab>| -> Result<Time> {
        let prepare =
            |sources| lab.backend().prepare(&subject.fixture, sources, Precision::Native, &|| ());
        let variants = [prepare(&base)?, prepare(&got)?];
        Time::of(|| {
            for variant in &variants {
                variant.run(&Mode::plain(POISON_A))?;
            }
            Ok(())
        })
    };
    let judged = |lab: Arc<Lab>| -> Result<()> {
        judge_trial(&lab.trial(&subject, &base), &lab.trial(&subject, &got))?;
        Ok(())
    };
    // The first comparison compiles the shadows.
    judged(lab(threads)?)?;
    let never = Time { wall: f64::INFINITY, cpu: f64::INFINITY };
    let mut shortest = (never, never);
    for _ in 0..ROUNDS {
        let labs = (lab(threads)?, lab(threads)?);
        shortest.0 = shortest.0.min(plain(labs.0)?);
        shortest.1 = shortest.1.min(Time::of(|| judged(labs.1))?);
    }
    Ok(shortest)
}

/// The shortest time of a whole `replay diff`; `fresh` runs with compiled kernels and nothing else.
fn diff(fixture: &str, base: &str, got: &str, fresh: bool) -> Result<Duration> {
    let run = || -> Result<()> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_replay"));
        command.current_dir(root()).env("REPLAY_CACHE_DIR", cache_folder());
        command.args(["diff", &format!("fixtures/{fixture}"), base, got]);
        if fresh {
            command.arg("--fresh");
        }
        let output = command.output()?;
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into())
        }
    };
    run()?;
    let mut shortest = Duration::MAX;
    for _ in 0..ROUNDS {
        shortest = shortest.min(time(run)?);
    }
    Ok(shortest)
}

fn time(run: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let start = Instant::now();
    run()?;
    Ok(start.elapsed())
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn cache_folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-cache")
}

fn cache() -> Result<Cache> {
    Ok(Cache::open(&cache_folder())?)
}

fn lab(threads: usize) -> Result<Arc<Lab>> {
    let cache = cache()?;
    let keeper = Keeper::new(Path::new(env!("CARGO_BIN_EXE_replay")));
    let compiler = Compiler::find(std::env::var("CXX").ok().as_deref(), &keeper)?;
    let program = PathBuf::from(env!("CARGO_BIN_EXE_replay"));
    let limits = Limits { timeout: Duration::from_secs(120), ..Limits::default() };
    let host = Host::new(program, limits, threads, cache.temporary());
    let cpu = CpuBackend::new(Toolchain::new(compiler, &cache), host);
    Ok(Lab::new(Arc::new(cpu), cache, true))
}
