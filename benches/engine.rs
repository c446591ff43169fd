//! The CPU engine against a plain serial loop of the same mathematics, compiled with the same
//! compiler and timed in the same run: 256 rows, 256 threads, two tree reductions. Behind it the shapes of
//! kernels in `engine/shapes.rs`, and a set of kernels as other people write them in `engine/kernels.rs`; `cargo bench
//! --bench engine -- shapes` and `-- kernels` measure these alone.
//!
//! Prints ratios and their bounds; exits with 1 if one is beyond. Wall time counts, the shortest of
//! several runs. It means little on a busy machine: there the ratio of processor time, spread over
//! the threads, says what an idle one would give.

#[path = "engine/kernels.rs"]
mod kernels;
#[path = "engine/shapes.rs"]
mod shapes;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use replay::backend::{Backend, CpuBackend, Host, Mode};
use replay::cache::Cache;
use replay::compile::{Compiler, Toolchain};
use replay::fixture::{self, Fixture};
use replay::foreign::Keeper;
use replay::frontend::Precision;
use replay::history::{History, SourceSpec, source_set_from_dir};
use replay::summary::POISON_A;
use replay::tensor::DType;
use replay::worker::{Limits, Run};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const ROWS: usize = 256;
/// The gradient with 256 threads a position and tree reductions in shared memory.
const REVISION: &str = "396b00e";

struct Row {
    vocab: usize,
    repetitions: usize,
    /// The most time of the engine, as a multiple of the serial loop's.
    bound: f64,
}

const TABLE: [Row; 3] = [
    Row { vocab: 34, repetitions: 400, bound: 36.0 },
    Row { vocab: 2004, repetitions: 100, bound: 0.65 },
    Row { vocab: 32_000, repetitions: 12, bound: 0.31 },
];

fn main() -> Result<ExitCode> {
    let keeper = Keeper::new(Path::new(env!("CARGO_BIN_EXE_replay")));
    let compiler = Compiler::find(std::env::var("CXX").ok().as_deref(), &keeper)?;
    let is_asked_for = |part: &str| std::env::args().any(|argument| argument == part);
    let is_part = is_asked_for("shapes") || is_asked_for("kernels");
    let gradients_within = is_part || gradients(&compiler)?;
    let shapes_within = is_part && !is_asked_for("shapes") || shapes::all_within(compiler.clone())?;
    let kernels_within = is_part && !is_asked_for("kernels") || kernels::all_within(compiler)?;
    let all_within = gradients_within && shapes_within && kernels_within;
    Ok(if all_within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether the gradient stays within its bounds.
fn gradients(compiler: &Compiler) -> Result<bool> {
    let threads = std::thread::available_parallelism()?.get();
    println!("engine against a serial loop: {}, {threads} threads", compiler.version());
    println!(
        "{:>8} {:>12} {:>12} {:>8} {:>10} {:>8}",
        "vocab", "serial us", "engine us", "ratio", "cpu ratio", "bound"
    );
    let folder = tempfile::tempdir()?;
    lay_out_project(folder.path())?;
    let serial = compile_serial(folder.path(), compiler, "serial.cpp")?;
    let cpu = cpu(compiler.clone(), threads)?;
    let mut all_within = true;
    for row in &TABLE {
        let (serial_us, serial_cpu_us) = serial_us(&serial, row)?;
        let (engine_us, engine_cpu_us) = engine_us(&cpu, folder.path(), row)?;
        let ratio = engine_us / serial_us;
        let cpu_ratio = engine_cpu_us / threads as f64 / serial_cpu_us;
        let mark = if ratio <= row.bound { "" } else { "  beyond" };
        all_within &= ratio <= row.bound;
        println!(
            "{:>8} {serial_us:>12.1} {engine_us:>12.1} {ratio:>8.3} {cpu_ratio:>10.3} {:>8.2}{mark}",
            row.vocab, row.bound
        );
    }
    Ok(all_within)
}

/// The sources of the revision, with a clock, and a harness that times the call.
fn lay_out_project(folder: &Path) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let spec = SourceSpec {
        sources: vec!["src/loss.cu".into()],
        include: vec!["include".into()],
        ..SourceSpec::default()
    };
    let cache = cache()?;
    let history =
        History::open_with_cache(&root.join("kernels/lm_loss/history.bundle"), cache.root())?;
    for file in history.source_set(&history.resolve(REVISION)?, &spec)?.files {
        let path = folder.join(&file.path);
        fs::create_dir_all(path.parent().expect("a file lies in a folder"))?;
        fs::write(path, &file.content)?;
    }
    fs::copy(root.join("benches/engine/clock.h"), folder.join("src/clock.cu"))?;
    fs::write(
        folder.join("replay.toml"),
        r#"
sources = ["src/loss.cu", "src/clock.cu"]
include = ["include"]
call = """
time_us = best_us(repetitions, cpu_us, [&] {
    lm_cross_entropy_gradient(logits, targets, grad_logits, rows, 1, vocab, NULL);
});
"""
[inputs.logits]
dtype = "f32"
shape = ["rows", "vocab"]
[inputs.targets]
dtype = "i32"
shape = ["rows"]
[inputs.repetitions]
dtype = "i32"
shape = []
[outputs.time_us]
dtype = "f64"
shape = []
[outputs.cpu_us]
dtype = "f64"
shape = []
[outputs.grad_logits]
dtype = "f32"
shape = ["rows", "vocab"]
gradient_of = "logits"
"#,
    )?;
    Ok(())
}

fn cache() -> Result<Cache> {
    Ok(Cache::open(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-cache"))?)
}

fn cpu(compiler: Compiler, threads: usize) -> Result<CpuBackend> {
    let cache = cache()?;
    let limits = Limits { timeout: Duration::from_secs(120), ..Limits::default() };
    let program = PathBuf::from(env!("CARGO_BIN_EXE_replay"));
    let host = Host::new(program, limits, threads, cache.temporary());
    Ok(CpuBackend::new(Toolchain::new(compiler, &cache), host))
}

/// The program of the serial loops in `source`, a path or the name of a file beside the shapes.
fn compile_serial(folder: &Path, compiler: &Compiler, source: impl AsRef<Path>) -> Result<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/engine");
    let program = folder.join("serial");
    let name = compiler.name();
    let mut words = name.split_whitespace();
    let status = Command::new(words.next().unwrap_or("g++"))
        .args(words)
        .args(["-O2", "-o"])
        .arg(&program)
        .arg("-I")
        .arg(&beside)
        .arg(beside.join(source))
        .status()?;
    if status.success() { Ok(program) } else { Err("the serial loop does not compile".into()) }
}

/// Wall and processor time.
fn serial_us(program: &Path, row: &Row) -> Result<(f64, f64)> {
    let arguments = [ROWS, row.vocab, row.repetitions].map(|number| number.to_string());
    let output = Command::new(program).args(arguments).output()?;
    let text = String::from_utf8(output.stdout)?;
    let (wall, cpu) = text.trim().split_once(' ').ok_or("the serial loop printed no times")?;
    Ok((wall.parse()?, cpu.parse()?))
}

/// Wall and processor time.
fn engine_us(cpu: &CpuBackend, folder: &Path, row: &Row) -> Result<(f64, f64)> {
    let dir = folder.join(format!("vocab-{}", row.vocab));
    write_fixture(&dir, row)?;
    let run = run(cpu, folder, &dir)?;
    let time = |name| run.output(name).ok_or_else(|| format!("{:?}", run.ending));
    Ok((time("time_us")?.get_f64(0), time("cpu_us")?.get_f64(0)))
}

/// A plain replay of the fixture in `dir`, with the sources in `folder`.
fn run(cpu: &CpuBackend, folder: &Path, dir: &Path) -> Result<Run> {
    let fixture = Arc::new(Fixture::load(dir)?);
    let spec = SourceSpec {
        sources: fixture.harness.sources.clone(),
        include: fixture.harness.include.clone(),
        ..SourceSpec::default()
    };
    let sources = source_set_from_dir(folder, &spec)?;
    let variant = cpu.prepare(&fixture, &sources, Precision::Native, &|| ())?;
    Ok(variant.run(&Mode::plain(POISON_A))?)
}

/// The same numbers as in `serial.cpp`.
fn write_fixture(dir: &Path, row: &Row) -> Result<()> {
    fs::create_dir(dir)?;
    fs::write(dir.join("fixture.toml"), "harness = \"../replay.toml\"\n")?;
    let logit = |i: usize| (i as u32).wrapping_mul(2_654_435_761) % 4096;
    let logits: Vec<u8> =
        (0..ROWS * row.vocab).flat_map(|i| (logit(i) as f32 / 256.0 - 8.0).to_le_bytes()).collect();
    let targets: Vec<u8> = (0..ROWS).flat_map(|r| ((r % row.vocab) as i32).to_le_bytes()).collect();
    let repetitions = (row.repetitions as i32).to_le_bytes();
    fixture::write_safetensors(
        dir,
        &[
            ("logits", DType::F32, &[ROWS, row.vocab], &logits),
            ("targets", DType::I32, &[ROWS], &targets),
            ("repetitions", DType::I32, &[], &repetitions),
        ],
        &[],
    )?;
    Ok(())
}
