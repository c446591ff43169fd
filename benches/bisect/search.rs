//! A search in 1,000 commits of which 200 change the kernel, against `git bisect run` with a script
//! that does by hand what each step needs: rewrite the launches, compile the sources with the
//! runtime and the harness's call, run, and compare with a recorded gradient by a tolerance.
//!
//! The script is spared what a user would have to write: the front end rewrites for it, and the
//! engine runs for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use replay::fixture::{Fixture, InputElements};
use replay::frontend::{self, Precision, SourceUnit, Threads};
use replay::history::{History, SourceSpec};
use replay::runtime::headers;
use replay::summary::POISON_A;
use replay::trial::Subject;
use replay::worker::{self, DeviceJob, Job, Limits};

use super::Result;
use super::importer::{Importer, git, run};

/// The arguments that make this program a part of the script.
pub const TRANSLATE: &str = "translate";
pub const COMPARE: &str = "compare";

const COMMITS: u32 = 1_000;
/// Every so many commits the kernel changes.
const EVERY: u32 = 5;
const CULPRIT: u32 = 137 * EVERY;
/// Kernel changes after which it divides by the sum in another way.
const STRETCH: u32 = 40;
/// The most time of our first search, as a part of that of `git bisect run`.
const FIRST: f64 = 0.5;
/// How many times faster than the first the second search must be.
const SECOND: f64 = 20.0;
/// Runs of which the shortest counts.
const RUNS: usize = 3;

/// Wall and processor time.
#[derive(Clone, Copy)]
struct Time {
    wall: f64,
    cpu: f64,
}

impl Time {
    fn min(self, other: Option<Time>) -> Time {
        let other = other.unwrap_or(self);
        Time { wall: self.wall.min(other.wall), cpu: self.cpu.min(other.cpu) }
    }
}

/// Searches both ways several times, prints the shortest, and says whether they are within their
/// bounds.
pub fn measure() -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let project = Project::new(folder.path())?;
    let mut first = None;
    let mut second = None;
    let mut by_hand = None;
    for number in 0..RUNS {
        let cache = folder.path().join(format!("cache{number}"));
        first = Some(project.search(&cache)?.min(first));
        for _ in 0..RUNS {
            second = Some(project.search(&cache)?.min(second));
        }
        by_hand = Some(project.by_hand()?.min(by_hand));
    }
    let (Some(first), Some(second), Some(by_hand)) = (first, second, by_hand) else {
        return Ok(false);
    };
    let of_hand = first.wall / by_hand.wall;
    let again = first.wall / second.wall;
    println!(
        "first search: {:.2} s, by hand {:.2} s: {of_hand:.2} x (bound {FIRST}); of processor time \
         {:.2} s and {:.2} s, {:.2} x{}",
        first.wall,
        by_hand.wall,
        first.cpu,
        by_hand.cpu,
        first.cpu / by_hand.cpu,
        if of_hand <= FIRST { "" } else { "  beyond" }
    );
    println!(
        "second search: {:.3} s, {again:.0} times faster than the first (bound {SECOND}){}",
        second.wall,
        if again >= SECOND { "" } else { "  beyond" }
    );
    Ok(of_hand <= FIRST && again >= SECOND)
}

/// A repository with a harness and a fixture beside it.
struct Project {
    folder: PathBuf,
    culprit: String,
    good: String,
}

impl Project {
    fn new(folder: &Path) -> Result<Project> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let repository = folder.join("repository");
        write_history(&repository, here)?;
        let harness = fs::read_to_string(here.join("kernels/lm_loss/replay.toml"))?;
        fs::write(folder.join("replay.toml"), harness.replace("history.bundle", "repository"))?;
        let fixture = folder.join("step0");
        fs::create_dir(&fixture)?;
        fs::copy(
            here.join("fixtures/step0/inputs.safetensors"),
            fixture.join("inputs.safetensors"),
        )?;
        fs::write(fixture.join("fixture.toml"), "harness = \"../replay.toml\"\n")?;
        headers::write_headers(&folder.join("headers"))?;
        run(git(&repository).args(["checkout", "-q", "main"]))?;
        let rev = |name: String| {
            Ok::<_, Box<dyn std::error::Error>>(
                run(git(&repository).args(["rev-parse", &name]))?.trim().to_owned(),
            )
        };
        let good = rev(format!("main~{}", COMMITS - 1))?;
        let culprit = rev(format!("main~{}", COMMITS - 1 - CULPRIT))?;
        Ok(Project { folder: folder.to_owned(), culprit, good })
    }

    /// `replay bisect` with this cache.
    fn search(&self, cache: &Path) -> Result<Time> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_replay"));
        command.arg("bisect").arg(self.folder.join("step0")).args(["--good", &self.good]);
        command.args(["--bad", "main"]).env("REPLAY_CACHE_DIR", cache);
        let (time, text) = timed(&mut command)?;
        if text.starts_with(&self.culprit[..7]) {
            Ok(time)
        } else {
            Err(format!("not {}: {text}", self.culprit).into())
        }
    }

    /// `git bisect run` with a script.
    fn by_hand(&self) -> Result<Time> {
        let repository = self.folder.join("repository");
        let script = self.folder.join("step.sh");
        let this = std::env::current_exe()?;
        let folder = self.folder.display().to_string();
        fs::write(
            &script,
            format!(
                "set -e\n\
                 '{this}' {TRANSLATE} . '{folder}/unit'\n\
                 cd '{folder}/unit'\n\
                 ${{CXX:-g++}} -std=c++17 -O1 -x c++ -w -fPIC -ffp-contract=off -fno-fast-math \
                 -frounding-math -fno-builtin -fsigned-char -fwrapv -fno-strict-aliasing \
                 -include cuda_runtime.h -I '{folder}/headers' -I include -shared \
                 -Wl,-Bsymbolic -o step.so unit.cpp || exit 125\n\
                 '{this}' {COMPARE} step.so '{folder}/step0' '{folder}/gradient'\n",
                this = this.display()
            ),
        )?;
        // The gradient of the good end is recorded by the comparison that finds none.
        let _ = fs::remove_file(self.folder.join("gradient"));
        run(git(&repository).args(["checkout", "-q", &self.good]))?;
        run(Command::new("sh").arg(&script).current_dir(&repository))?;
        run(git(&repository).args(["bisect", "start", "main", &self.good]))?;
        let mut command = git(&repository);
        command.args(["bisect", "run", "sh"]).arg(&script);
        let (time, text) = timed(&mut command)?;
        run(git(&repository).args(["bisect", "reset"]))?;
        if text.contains(&format!("{} is the first bad commit", self.culprit)) {
            Ok(time)
        } else {
            Err(format!("not {}: {text}", self.culprit).into())
        }
    }
}

/// Runs a command to its end. Returns the time that it and its children took, and its output.
fn timed(command: &mut Command) -> Result<(Time, String)> {
    let before = super::processor_seconds(libc::RUSAGE_CHILDREN);
    let begin = Instant::now();
    let output = command.stdin(Stdio::null()).output()?;
    let wall = begin.elapsed().as_secs_f64();
    let cpu = super::processor_seconds(libc::RUSAGE_CHILDREN) - before;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok((Time { wall, cpu }, text))
    } else {
        Err(format!("{text}{}", String::from_utf8_lossy(&output.stderr)).into())
    }
}

/// Kernel changes of every kind: most change no bits, some change them within noise, one goes wrong.
fn write_history(repository: &Path, here: &Path) -> Result<()> {
    let bundle = History::open(&here.join("kernels/lm_loss/history.bundle"))?;
    let spec = SourceSpec {
        sources: vec!["src/loss.cu".into()],
        include: vec!["include".into()],
        ..SourceSpec::default()
    };
    let files = bundle.source_set(&bundle.resolve("main")?, &spec)?.files;
    let texts: Vec<(String, String)> = files
        .iter()
        .map(|file| (file.path.clone(), String::from_utf8_lossy(&file.content).into_owned()))
        .collect();
    let kernel = texts.iter().find(|(path, _)| path == "src/loss.cu").ok_or("no kernel")?;
    let all: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (&**path, &**text)).collect();
    let mut importer = Importer::new(repository)?;
    let mut tip = importer.commit(&[], &all)?;
    for number in 1..COMMITS {
        let note = format!("Day {number}\n");
        tip = match number % EVERY {
            0 => {
                let text = variant(&kernel.1, number)?;
                importer.commit(&[tip], &[("src/loss.cu", &text)])?
            }
            _ => importer.commit(&[tip], &[("notes.md", &note)])?,
        };
    }
    importer.finish()
}

fn variant(kernel: &str, number: u32) -> Result<String> {
    let change = |text: &str, from: &str, to: &str| {
        let changed = text.replacen(from, to, 1);
        if changed == text { Err(format!("the kernel has no `{from}`")) } else { Ok(changed) }
    };
    let mut text = format!("// Revision {number}\n{kernel}");
    if number / EVERY / STRETCH % 2 == 1 {
        text = change(&text, "max_logit) / sum", "max_logit) * (1.0f / sum)")?;
    }
    if number >= CULPRIT {
        text = change(&text, "1.0f / count :", "1.0f / positions :")?;
    }
    Ok(text)
}

/// Writes the checkout's sources with rewritten launches, and a unit around them, to `out`.
pub fn translate(checkout: &Path, out: &Path) -> Result<()> {
    let names = ["src/loss.cu", "include/loss.h", "include/cuda_check.h"];
    let read = |name: &str| fs::read_to_string(checkout.join(name));
    let texts = names.map(read).into_iter().collect::<std::io::Result<Vec<String>>>()?;
    let units: Vec<SourceUnit> =
        names.iter().zip(&texts).map(|(path, text)| SourceUnit { path, text }).collect();
    let symbols = frontend::scan_symbols(&units);
    for unit in &units {
        let path = out.join(unit.path);
        fs::create_dir_all(path.parent().ok_or("no folder")?)?;
        fs::write(
            path,
            frontend::translate_for_host(unit, &symbols, Precision::Native, Threads::Blocks)?.text,
        )?;
    }
    fs::write(out.join("unit.cpp"), UNIT)?;
    Ok(())
}

const UNIT: &str = r#"
#include "replay/runtime_definitions.h"
#include "replay/print_definitions.h"
#include "src/loss.cu"
extern "C" __attribute__((visibility("default"))) void replay_call(
    void* const* tensors, const long long* sizes, const long long* const*) noexcept {
  const float* logits = static_cast<float*>(tensors[0]);
  const int* targets = static_cast<int*>(tensors[1]);
  const unsigned char* mask = static_cast<unsigned char*>(tensors[2]);
  int batch = (int)sizes[0], seq = (int)sizes[1], vocab = (int)sizes[2];
  *static_cast<float*>(tensors[3]) =
      lm_cross_entropy_loss(logits, targets, mask, batch, seq, vocab);
  lm_cross_entropy_gradient(logits, targets, static_cast<float*>(tensors[4]), batch, seq, vocab,
                            mask);
}
"#;

/// Runs the artifact on the fixture. Returns whether its gradient is the recorded one within a
/// tolerance.
pub fn compare(artifact: &Path, fixture: &Path, recorded: &Path) -> Result<bool> {
    let subject = Subject::new(Fixture::load(fixture)?);
    let limits = Limits::default();
    let job = Job {
        artifact: fs::canonicalize(artifact)?,
        fixture: fixture.to_owned(),
        elements: InputElements::Captured,
        precision: Precision::Native,
        device: DeviceJob::Cpu {
            threads: std::thread::available_parallelism()?.get(),
            order: 0,
            rounding: replay::runtime::cpu::Rounding::Nearest,
            record: PathBuf::new(),
        },
        poison: POISON_A,
        memory_limit_bytes: limits.memory_limit_bytes,
        folder: std::env::temp_dir(),
        step: None,
        part: worker::CallPart::Whole,
        calls: worker::JobCalls::Once,
    };
    let program = PathBuf::from(env!("CARGO_BIN_EXE_replay"));
    let run = worker::ReplayWorkers::new(program).run(&job, &subject.fixture, limits, None)?;
    let gradient = run.output("grad_logits").ok_or("the gradient is missing")?;
    let elements: Vec<f64> = (0..gradient.len()).map(|at| gradient.get_f64(at)).collect();
    let Ok(known) = fs::read_to_string(recorded) else {
        let lines: Vec<String> = elements.iter().map(f64::to_string).collect();
        fs::write(recorded, lines.join("\n"))?;
        return Ok(true);
    };
    let known: Vec<f64> = known.lines().map(str::parse).collect::<std::result::Result<_, _>>()?;
    let largest = known.iter().fold(0.0f64, |max, value| max.max(value.abs()));
    Ok(elements.iter().zip(&known).all(|(a, b)| (a - b).abs() <= 1e-3 * largest))
}
