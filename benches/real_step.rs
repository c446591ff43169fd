//! A step of a real size through `replay`, gradient check included: the loss and gradient of
//! kernels/lm_loss on logits of one sequence and a vocabulary of 50,257.
//!
//! `cargo bench --bench real_step [cuda] [POSITIONS...]`; 1,024 positions unless it says otherwise. On the
//! CPU the time is compared with a plain serial loop of the same mathematics, timed in turns with it; on a GPU it
//! stands beside a goal in seconds. Kernels are compiled, the inputs in memory, and no outcome is known.
//! Exits with 1 if a bound is exceeded; a goal is not a bound yet. Wall time counts, the shortest of several runs. It
//! means little on a busy machine: there the ratio of processor time, spread over the cores, says what an idle one
//! would give.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const VOCAB: usize = 50_257;
/// The gradient with 256 threads a position, and the one with another reduction.
const REVISIONS: [&str; 2] = ["396b00e", "61b3d97"];
/// The most time of `replay` on two cores, as a multiple of the serial loop's.
const RATIO: f64 = 10.0;
/// The most bytes that it may write to disk.
const WRITTEN: f64 = 1e9;
/// The goal for `replay` and `replay diff` on a GPU in seconds, by positions.
const GOALS: [(usize, f64); 2] = [(1024, 2.0), (4096, 5.0)];
/// The shortest of so many runs counts.
const RUNS: usize = 2;

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let on_gpu = arguments.iter().any(|argument| argument == "cuda");
    let mut sizes: Vec<usize> = arguments.iter().filter_map(|text| text.parse().ok()).collect();
    if sizes.is_empty() {
        sizes.push(1024);
    }
    let folder = tempfile::tempdir()?;
    let mut all_within = true;
    for positions in sizes {
        let fixture = folder.path().join(format!("step-{positions}"));
        write_fixture(&fixture, positions)?;
        if on_gpu {
            gpu(&fixture, positions, folder.path())?
        } else {
            all_within &= cpu(&fixture, positions, folder.path())?
        }
        fs::remove_dir_all(&fixture)?;
    }
    Ok(if all_within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether the CPU stays within its bounds.
fn cpu(fixture: &Path, positions: usize, folder: &Path) -> Result<bool> {
    let serial = Serial::compiled(fixture, positions, folder)?;
    let mut loops = Vec::new();
    let mut replays = Vec::new();
    // The first one compiles.
    run(folder, &[text(fixture), "--rev", REVISIONS[0]])?;
    for _ in 0..RUNS {
        loops.push(serial.run()?);
        replays.push(run(folder, &[text(fixture), "--rev", REVISIONS[0]])?);
    }
    let serial = best(&loops);
    let replay = best(&replays);
    let threads = std::thread::available_parallelism()?.get();
    let least = |costs: &[Cost]| costs.iter().map(|cost| cost.processor).fold(f64::MAX, f64::min);
    let ratio = replay.wall / serial.wall;
    let processor = least(&replays);
    let cpu_ratio = processor / threads as f64 / least(&loops);
    let is_within = ratio <= RATIO && replay.written <= WRITTEN;
    println!("one step of {positions} positions on {threads} cores, kernels compiled");
    println!(
        "| serial loop | `replay` | ratio | bound | processor time | system | cpu ratio | written | bound |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    println!(
        "| {:.2} s | {:.2} s | {ratio:.1} | {RATIO} | {processor:.1} s | {:.1} s | {cpu_ratio:.1} | {:.0} MB | {:.0} MB |{}",
        serial.wall,
        replay.wall,
        replay.system,
        replay.written / 1e6,
        WRITTEN / 1e6,
        if is_within { "" } else { "  beyond" }
    );
    Ok(is_within)
}

/// What a GPU takes.
fn gpu(fixture: &Path, positions: usize, folder: &Path) -> Result<()> {
    let goal = GOALS.iter().find(|(size, _)| *size == positions);
    let goal = goal.map_or("none".to_owned(), |(_, goal)| format!("{goal} s"));
    let fixture = text(fixture);
    let alone = ["--backend", "cuda", fixture, "--rev", REVISIONS[0]];
    let diff = ["diff", "--backend", "cuda", fixture, REVISIONS[0], REVISIONS[1]];
    println!("one step of {positions} positions on a GPU, kernels compiled");
    println!("| `replay --backend cuda` | `diff --backend cuda` | goal |");
    println!("| --- | --- | --- |");
    let alone = replay(folder, &alone)?.wall;
    let diff = replay(folder, &diff)?.wall;
    println!("| {alone:.2} s | {diff:.2} s | {goal} |");
    Ok(())
}

/// What a command took.
#[derive(Clone, Copy)]
struct Cost {
    wall: f64,
    processor: f64,
    system: f64,
    written: f64,
}

/// The cheapest run of `replay` with these arguments and no known outcome, after one that compiles.
fn replay(folder: &Path, arguments: &[&str]) -> Result<Cost> {
    run(folder, arguments)?;
    let runs = (0..RUNS).map(|_| run(folder, arguments)).collect::<Result<Vec<Cost>>>()?;
    Ok(best(&runs))
}

/// One run of `replay` with these arguments and no known outcome.
fn run(folder: &Path, arguments: &[&str]) -> Result<Cost> {
    let begin = Instant::now();
    let before = usage();
    let mut command = Command::new(program());
    command.args(arguments).args(["--fresh", "--timeout", "600"]);
    command.current_dir(root()).env("REPLAY_CACHE_DIR", folder.join("cache"));
    let output = command.output()?;
    let wall = begin.elapsed().as_secs_f64();
    let after = usage();
    // What it finds is not the question here.
    if !matches!(output.status.code(), Some(0 | 1)) {
        let told = [output.stdout, output.stderr].concat();
        return Err(String::from_utf8_lossy(&told).into());
    }
    let system = after.system - before.system;
    let processor = after.user - before.user + system;
    Ok(Cost { wall, processor, system, written: after.written - before.written })
}

/// The one that took the shortest time.
fn best(costs: &[Cost]) -> Cost {
    let shortest = costs.iter().copied().min_by(|one, other| one.wall.total_cmp(&other.wall));
    shortest.expect("there was a run")
}

/// What ended children of this process have used, with theirs.
struct Usage {
    user: f64,
    system: f64,
    written: f64,
}

fn usage() -> Usage {
    // SAFETY: fills in a struct that lives on the stack.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Usage {
        user: seconds(usage.ru_utime),
        system: seconds(usage.ru_stime),
        written: usage.ru_oublock as f64 * 512.0,
    }
}

/// The serial loop on the fixture's logits.
struct Serial {
    program: PathBuf,
    arguments: Vec<String>,
}

impl Serial {
    fn compiled(fixture: &Path, positions: usize, folder: &Path) -> Result<Serial> {
        let program = folder.join("serial");
        let compiler = std::env::var("CXX").unwrap_or_else(|_| "g++".to_owned());
        let source = root().join("benches/real_step/serial.cpp");
        let mut command = Command::new(compiler);
        let status = command.args(["-O2", "-o"]).arg(&program).arg(source).status()?;
        if !status.success() {
            return Err("the serial loop does not compile".into());
        }
        let inputs = text(&fixture.join("inputs.safetensors")).to_owned();
        let numbers = [positions, VOCAB, 3].map(|number| number.to_string());
        let arguments = [inputs].into_iter().chain(numbers).collect();
        Ok(Serial { program, arguments })
    }

    /// The shortest time of a few loops; only the times are known.
    fn run(&self) -> Result<Cost> {
        let output = Command::new(&self.program).args(&self.arguments).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        let times = String::from_utf8(output.stdout)?;
        let (wall, processor) =
            times.trim().split_once(' ').ok_or("the serial loop printed no times")?;
        let wall = wall.parse()?;
        let processor = processor.parse()?;
        Ok(Cost { wall, processor, system: 0.0, written: 0.0 })
    }
}

/// The logits, targets and mask of a step in `folder`: a level, the frequency of each item by Zipf's law, noise,
/// and a raised target. A sixteenth of the positions is padding.
fn write_fixture(folder: &Path, positions: usize) -> Result<()> {
    fs::create_dir_all(folder)?;
    let harness = root().join("kernels/lm_loss/replay.toml");
    fs::write(folder.join("fixture.toml"), format!("harness = {:?}\n", text(&harness)))?;
    let logits = positions * VOCAB * 4;
    let targets = positions * 4;
    let entry = |name: &str, dtype: &str, shape: &[usize], begin: usize, bytes: usize| {
        let end = begin + bytes;
        format!(
            r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#
        )
    };
    let entries = [
        entry("logits", "F32", &[1, positions, VOCAB], 0, logits),
        entry("targets", "I32", &[1, positions], logits, targets),
        entry("mask", "U8", &[1, positions], logits + targets, positions),
    ];
    let mut header = format!("{{{}}}", entries.join(","));
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    let mut file =
        BufWriter::with_capacity(1 << 20, File::create(folder.join("inputs.safetensors"))?);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    let mut random = Random(2192);
    let bias: Vec<f64> = (0..VOCAB)
        .scan(5.0, |bias, rank| {
            *bias -= 1.0 / (rank + 1) as f64;
            Some(*bias)
        })
        .collect();
    let mut targets = Vec::with_capacity(positions);
    for _ in 0..positions {
        let level = 1.5 * random.normal();
        let target = ((VOCAB as f64).powf(random.unit()) as usize - 1).min(VOCAB - 1);
        let certainty = random.unit();
        for (item, bias) in bias.iter().enumerate() {
            let raised = if item == target { 1.0 + 6.0 * certainty * certainty } else { 0.0 };
            let logit = (level + bias + random.normal() + raised) as f32;
            file.write_all(&logit.to_le_bytes())?;
        }
        targets.push(target as i32);
    }
    targets.iter().try_for_each(|target| file.write_all(&target.to_le_bytes()))?;
    let counts = |position: usize| u8::from(position < positions - positions / 16);
    file.write_all(&(0..positions).map(counts).collect::<Vec<_>>())?;
    file.flush()?;
    Ok(())
}

/// SplitMix64.
struct Random(u64);

impl Random {
    /// In [0, 1).
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Close to the standard normal distribution.
    fn normal(&mut self) -> f64 {
        ((0..3).map(|_| self.unit()).sum::<f64>() - 1.5) * 2.0
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of this bench are text")
}

/// This package, or where it was carried to.
fn root() -> PathBuf {
    std::env::var_os("REPLAY_TEST_ROOT")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

fn program() -> PathBuf {
    std::env::var_os("REPLAY_TEST_PROGRAM")
        .map_or_else(|| env!("CARGO_BIN_EXE_replay").into(), PathBuf::from)
}
