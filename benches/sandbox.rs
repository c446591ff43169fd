//! What the walls of the sandbox add to a replay whose kernels are compiled: `replay fixtures/step0`
//! behind them and without, in turn, in one run.
//!
//! Prints medians of the differences and their bound; exits with 1 if one is beyond.

use std::error::Error;
use std::process::{Command, ExitCode};
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The most milliseconds that walls may add, of time and of processor time.
const BOUND: f64 = 3.0;
const PAIRS: usize = 41;

/// Milliseconds of one replay.
struct ReplayTime {
    wall: f64,
    processor: f64,
}

fn main() -> Result<ExitCode> {
    let cache = tempfile::tempdir()?;
    let replay = |sandbox: &str| -> Result<ReplayTime> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_replay"));
        command.args(["fixtures/step0", "--rev", "396b00e", "--fresh"]).arg(sandbox);
        command.current_dir(env!("CARGO_MANIFEST_DIR"));
        command.env("REPLAY_CACHE_DIR", cache.path());
        let processor_before = children_processor_milliseconds();
        let start = Instant::now();
        let output = command.output()?;
        let wall = start.elapsed().as_secs_f64() * 1e3;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        let processor = children_processor_milliseconds() - processor_before;
        Ok(ReplayTime { wall, processor })
    };
    replay("--sandbox=default")?;
    replay("--sandbox=off")?;
    let mut wall_differences = Vec::new();
    let mut processor_differences = Vec::new();
    let mut wall_times = Vec::new();
    for _ in 0..PAIRS {
        let behind_walls = replay("--sandbox=default")?;
        let without = replay("--sandbox=off")?;
        wall_differences.push(behind_walls.wall - without.wall);
        processor_differences.push(behind_walls.processor - without.processor);
        wall_times.push(without.wall);
    }
    let plain = median(&mut wall_times);
    println!(
        "what walls add to a replay of step0 ({plain:.1} ms without), median of {PAIRS} pairs"
    );
    let mut all_within = true;
    for (name, differences) in
        [("time", &mut wall_differences), ("processor time", &mut processor_differences)]
    {
        let added = median(differences);
        let is_within = added <= BOUND;
        let note = if is_within { "" } else { "  beyond its bound" };
        println!("{name:>15} {added:>6.2} ms, at most {BOUND} ms{note}");
        all_within &= is_within;
    }
    Ok(if all_within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Processor time of the children that have ended, in milliseconds.
fn children_processor_milliseconds() -> f64 {
    // SAFETY: fills in a struct that lives on the stack.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let milliseconds = |time: libc::timeval| time.tv_sec as f64 * 1e3 + time.tv_usec as f64 / 1e3;
    milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime)
}
