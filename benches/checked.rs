//! Checked replays of the demonstrations' fixtures against plain ones of the same sources.
//!
//! Prints how many times longer the call takes; exits with 1 where that is beyond the bound. Both run on one
//! core: a checked replay does, and the ratio is not to depend on the machine.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use replay::backend::{Backend, CpuBackend, Host, Mode};
use replay::cache::Cache;
use replay::compile::{Compiler, Toolchain};
use replay::fixture::Fixture;
use replay::foreign::Keeper;
use replay::frontend::Precision;
use replay::history::{History, SourceSpec};
use replay::summary::POISON_A;
use replay::worker::{Ending, Limits};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A checked call may take so many times as long as a plain one: the goal is 20, and times vary.
const BOUND: f64 = 25.0;
/// The shortest of so many runs counts.
const RUNS: usize = 5;

const FIXTURES: [(&str, &str); 6] = [
    ("step0", "lm_loss"),
    ("step0-words", "lm_loss"),
    ("fused_xent-one", "fused_xent"),
    ("fused_xent", "fused_xent"),
    ("lazy_attention", "lazy_attention"),
    ("lazy_attention-long", "lazy_attention"),
];

fn main() -> Result<ExitCode> {
    // The benchmark may run on another machine than the one that built it.
    let carried = |name: &str, built: &str| {
        std::env::var_os(name).map_or_else(|| PathBuf::from(built), PathBuf::from)
    };
    let root = carried("REPLAY_TEST_ROOT", env!("CARGO_MANIFEST_DIR"));
    let program = carried("REPLAY_TEST_PROGRAM", env!("CARGO_BIN_EXE_replay"));
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let folder = if folder.is_dir() { folder } else { std::env::temp_dir() };
    let keeper = Keeper::new(&program);
    let compiler = Compiler::find(std::env::var("CXX").ok().as_deref(), &keeper)?;
    let cache = Cache::open(&folder.join("bench-cache"))?;
    let limits = Limits { timeout: Duration::from_secs(300), ..Limits::default() };
    let host = Host::new(program, limits, 1, cache.temporary());
    println!("checked replays against plain ones, one core: {}", compiler.version());
    println!("{:>20} {:>10} {:>10} {:>7}", "fixture", "plain us", "checked us", "ratio");
    let cpu = CpuBackend::new(Toolchain::new(compiler, &cache), host);
    let mut all_within = true;
    for (fixture, kernels) in FIXTURES {
        let loaded = Arc::new(Fixture::load(&root.join("fixtures").join(fixture))?);
        let harness = &loaded.harness;
        let spec = SourceSpec {
            sources: harness.sources.clone(),
            include: harness.include.clone(),
            ..SourceSpec::default()
        };
        let bundle = root.join("kernels").join(kernels).join("history.bundle");
        let history = History::open_with_cache(&bundle, cache.root())?;
        let sources = history.source_set(&history.head()?, &spec)?;
        let us = |precision| -> Result<f64> {
            let variant = cpu.prepare(&loaded, &sources, precision, &|| ())?;
            let mut best = f64::INFINITY;
            for _ in 0..RUNS {
                let run = variant.run(&Mode::plain(POISON_A))?;
                if run.ending != Ending::Completed || !run.findings.found.is_empty() {
                    return Err(format!("{fixture}: {:?} {:?}", run.ending, run.findings).into());
                }
                best = best.min(run.call.as_secs_f64() * 1e6);
            }
            Ok(best)
        };
        let plain = us(Precision::Native)?;
        let checked = us(Precision::Checked)?;
        let ratio = checked / plain;
        let mark = if ratio <= BOUND { "" } else { "  beyond" };
        all_within &= ratio <= BOUND;
        println!("{fixture:>20} {plain:>10.0} {checked:>10.0} {ratio:>7.1}{mark}");
    }
    Ok(if all_within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
