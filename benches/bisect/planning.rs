//! The work before the first test: reading 100,000 commits of which 10,000 matter, 1,000 of them
//! merges, and choosing where to begin.
//!
//! The work is done in a child, so that its peak of memory is its own.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use replay::bisect::{Plan, SearchTarget};
use replay::fixture::Fixture;
use replay::history::{History, SourceSpec};
use replay::search::{Options, Search};
use replay::trial::Subject;

use super::Result;
use super::importer::{Importer, git, run};

/// The argument that makes this program the child.
pub const CHILD: &str = "plan";

const BLOCKS: u32 = 1_000;
const COMMITS: u32 = 100 * BLOCKS;
const RELEVANT: usize = 10 * BLOCKS as usize;
/// The time that planning may take.
const BOUND: Duration = Duration::from_secs(2);
/// The memory that it may hold, in KiB.
const BOUND_KB: u64 = 500 * 1024;
/// Runs of which the shortest counts.
const RUNS: usize = 5;

/// Plans several times, prints the shortest, and says whether it is within its bounds.
pub fn measure() -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let repository = folder.path().join("long");
    write_history(&repository)?;
    let first = run(git(&repository).args(["rev-list", "--max-parents=0", "main"]))?;
    run(git(&repository).args(["tag", "first", first.trim()]))?;
    let git_s = seconds_of_git(&repository)?;
    let mut best: Option<(f64, f64, u64)> = None;
    for _ in 0..RUNS {
        let child = Command::new(std::env::current_exe()?).arg(CHILD).arg(&repository).output()?;
        let text = String::from_utf8_lossy(&child.stdout).into_owned();
        let numbers: Vec<f64> = text.split_whitespace().flat_map(str::parse).collect();
        let [wall, cpu, peak_kb] = numbers[..] else {
            return Err(format!("{text}{}", String::from_utf8_lossy(&child.stderr)).into());
        };
        let peak_kb = (peak_kb as u64).max(best.map_or(0, |(_, _, peak)| peak));
        let (wall, cpu) = best.map_or((wall, cpu), |(w, c, _)| (wall.min(w), cpu.min(c)));
        best = Some((wall, cpu, peak_kb));
    }
    let Some((wall, cpu, peak_kb)) = best else { return Ok(false) };
    let within = wall <= BOUND.as_secs_f64() && peak_kb <= BOUND_KB;
    println!(
        "planning {COMMITS} commits: {wall:.2} s (bound {:.0}), {cpu:.2} s of processor time, {:.2} x \
         `git rev-list --bisect-all` ({git_s:.2} s), {} MB (bound {}){}",
        BOUND.as_secs_f64(),
        wall / git_s,
        peak_kb / 1024,
        BOUND_KB / 1024,
        if within { "" } else { "  beyond" }
    );
    Ok(within)
}

/// Prints wall time, processor time and peak memory of one plan.
pub fn child(repository: &Path) -> Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let subject = Subject::new(Fixture::load(&here.join("fixtures/step0"))?).into();
    let begin = Instant::now();
    let history = History::open(repository)?;
    let spec = SourceSpec {
        sources: vec!["src/loss.cu".into()],
        include: vec!["include".into()],
        ..SourceSpec::default()
    };
    let good = [history.resolve("first")?];
    let bad = [history.resolve("main")?];
    let plan = Plan::claimed(&history, &[SearchTarget { subject, spec }], &good, &bad)?;
    let options = Options { trust_ends: true, ..Options::default() };
    let mut search = Search::new(plan.graph.clone(), &plan.old, &plan.new, options)?;
    let picks = search.next(2, &|_| false);
    let wall = begin.elapsed();
    if plan.between != COMMITS as usize - 1
        || search.state().candidates != RELEVANT
        || picks.len() != 2
    {
        let candidates = search.state().candidates;
        return Err(format!("{} commits, {candidates} candidates", plan.between).into());
    }
    println!(
        "{} {} {}",
        wall.as_secs_f64(),
        super::processor_seconds(libc::RUSAGE_SELF),
        peak_kb()?
    );
    Ok(())
}

/// Blocks of 100 commits: a strand of ten leaves the main line and is merged at the end.
fn write_history(repository: &Path) -> Result<()> {
    let mut importer = Importer::new(repository)?;
    let mut tip = first_commit(&mut importer)?;
    for block in 0..BLOCKS {
        let first = if block == 0 { 1 } else { 0 };
        let mut side = tip;
        for number in first..89 {
            tip = ordinary(&mut importer, tip, block, number, number % 11 == 5)?;
            if number == 40 {
                side = tip;
            }
        }
        let header = format!("// block {block}\n");
        for number in 89..99 {
            side = match number {
                95 => importer.commit(&[side], &[("include/loss.h", &header)])?,
                _ => ordinary(&mut importer, side, block, number, false)?,
            };
        }
        tip = importer.commit(&[tip, side], &[("include/loss.h", &header)])?;
    }
    importer.finish()
}

/// As many files as a small project has.
fn first_commit(importer: &mut Importer) -> Result<u32> {
    let mut files: Vec<(String, String)> = (0..200)
        .map(|n| (format!("lib/part{}/file{n}.py", n % 20), format!("print({n})\n")))
        .collect();
    files.extend((0..20).map(|n| (format!("notes{n}.md"), format!("# Notes {n}\n"))));
    files.push(("src/loss.cu".into(), "// first\n".into()));
    files.push(("include/loss.h".into(), "// first\n".into()));
    let files: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    importer.commit(&[], &files)
}

/// A commit that changes the kernel, or something that does not matter.
fn ordinary(
    importer: &mut Importer,
    parent: u32,
    block: u32,
    number: u32,
    relevant: bool,
) -> Result<u32> {
    let text = format!("// {block} {number}\n");
    let file = (block * 7 + number * 13) % 200;
    if relevant {
        importer.commit(&[parent], &[("src/loss.cu", &text)])
    } else {
        let path = format!("lib/part{}/file{file}.py", file % 20);
        importer.commit(&[parent], &[(&path, &text)])
    }
}

/// The time that git takes to list the candidates with their weights, in seconds.
fn seconds_of_git(repository: &Path) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..2 {
        let begin = Instant::now();
        run(git(repository).args(["rev-list", "--bisect-all", "main", "--", "src", "include"]))?;
        best = best.min(begin.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// The most memory that this process ever held.
fn peak_kb() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()).ok_or("no VmHWM")?;
    Ok(number.parse()?)
}
