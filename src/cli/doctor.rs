//! `replay doctor`: compilers, cache, memory; what works here and what to do about the rest.

use std::path::{Path, PathBuf};

use ::replay::backend::ReplayError;
use ::replay::cache::Cache;
use ::replay::cuda::blas::BlasFiles;
use ::replay::cuda::sanitizer::{Sanitizer, Tool};
use ::replay::cuda::{self, LibraryError, Nvrtc, SearchPath, random};
use ::replay::harness::Harness;
use ::replay::history::History;
use ::replay::program;
use ::replay::report::Line;
use ::replay::tensor::cores;
use ::replay::worker::Limits;
use anstyle::{AnsiColor, Color, Style};

use super::cache::size;
use super::error::{CliResult, CommandError};
use super::exit;
use super::out::println;
use super::project::replaced_words;
use super::session::{cache_folder, compiler, compiler_named, folders, runner, search_path};

/// The harness whose program is asked for.
const HARNESS: &str = "replay.toml";

/// The arguments of `replay doctor`: none.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// One line of the report.
struct Finding {
    what: &'static str,
    works: bool,
    needed: bool,
    detail: String,
    advice: Option<String>,
}

/// Checks everything; the exit code is 0 if replays on the CPU have all that they need.
pub fn run(_args: &Args) -> CliResult<u8> {
    let mut findings = vec![main_compiler(), cache(), processor()];
    for name in ["g++", "clang++"] {
        if let Ok(found) = compiler_named(Some(name), None) {
            findings.push(Finding {
                what: "also here",
                works: true,
                needed: false,
                detail: format!("{name}: {}", found.version()),
                advice: None,
            });
        }
    }
    findings.extend(gpus());
    let search = search_path();
    findings.extend(device_compiler(&search));
    let folders = search.folders();
    findings.push(library("cuBLAS", BlasFiles::find(&folders).map(|files| files.blas)));
    findings.push(library("cuRAND", random::find(&folders)));
    findings.push(sanitizer(&search));
    findings.extend(own_program());
    findings.extend(replaced_history());
    for finding in &findings {
        print(finding);
    }
    let usable = findings.iter().all(|finding| finding.works || !finding.needed);
    Ok(if usable { exit::SUCCESS } else { exit::NOT_ABOUT_THE_KERNEL })
}

fn print(finding: &Finding) {
    let (colour, mark) = match (finding.works, finding.needed) {
        (true, _) => (AnsiColor::Green, "ok"),
        (false, true) => (AnsiColor::Red, "missing"),
        (false, false) => (AnsiColor::Yellow, "none"),
    };
    let style = Style::new().bold().fg_color(Some(Color::Ansi(colour)));
    let words = format!("{:14}{}", finding.what, finding.detail);
    println!("{}", Line::of(style, format!("{mark:8}")).and(words));
    if let Some(advice) = &finding.advice {
        println!("{}", Line::from(format!("{:22}{advice}", "")));
    }
}

/// The hints of an error, in a line.
fn advice(error: &CommandError) -> Option<String> {
    (!error.hints().is_empty()).then(|| error.hints().join("; "))
}

fn main_compiler() -> Finding {
    let (works, detail, advice) = match compiler(None) {
        Ok(found) => (true, format!("{}: {}", found.name(), found.version()), None),
        Err(error) => (false, error.in_a_line(), advice(&error)),
    };
    Finding { what: "C++ compiler", works, needed: true, detail, advice }
}

fn cache() -> Finding {
    let opened = cache_folder().and_then(|folder| -> CliResult<Cache> {
        let cache = Cache::open(&folder)?;
        // Opening finds folders that exist; only writing shows that they can be written.
        cache.scratch()?;
        Ok(cache)
    });
    let (works, detail, advice) = match opened {
        Ok(cache) => {
            let total: u64 =
                cache.usage().unwrap_or_default().iter().map(|(_, usage)| usage.bytes).sum();
            (true, format!("{}, {}", cache.root().display(), size(total)), None)
        }
        Err(error) => (false, error.in_a_line(), advice(&error)),
    };
    Finding { what: "cache", works, needed: true, detail, advice }
}

/// The driver and its GPUs.
fn gpus() -> Vec<Finding> {
    let finding =
        |works, detail, advice| Finding { what: "GPU", works, needed: false, detail, advice };
    match cuda::devices() {
        Err(error) => vec![finding(false, error.to_string(), error.hint())],
        Ok(devices) if devices.is_empty() => {
            vec![finding(false, "the driver works and finds no device".to_owned(), None)]
        }
        Ok(devices) => devices
            .iter()
            .map(|device| {
                let memory = size(device.memory_bytes as u64);
                let detail = format!(
                    "cuda:{}: {}, {}, {memory}",
                    device.ordinal,
                    device.describe(),
                    device.architecture
                );
                finding(true, detail, None)
            })
            .collect(),
    }
}

/// NVRTC and the headers that go with it.
fn device_compiler(search: &SearchPath) -> Vec<Finding> {
    let finding =
        |what, works, detail, advice| Finding { what, works, needed: false, detail, advice };
    match Nvrtc::find(search) {
        Err(error) => vec![finding("NVRTC", false, error.to_string(), error.hint())],
        Ok(nvrtc) => {
            let (major, minor) = nvrtc.version();
            let detail = format!("{major}.{minor}, {}", nvrtc.path().display());
            let folders = search.header_folders(nvrtc.path());
            let list: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
            let headers = match list.is_empty() {
                false => finding("CUDA headers", true, list.join(", "), None),
                true => {
                    let advice = "pip install nvidia-cuda-runtime nvidia-cuda-cccl; without them \
                                  kernels cannot include cuda_fp16.h and its like";
                    let detail = "none beside NVRTC and in CUDA's usual folders".to_owned();
                    finding("CUDA headers", false, detail, Some(advice.to_owned()))
                }
            };
            vec![finding("NVRTC", true, detail, None), headers]
        }
    }
}

/// A library of NVIDIA's, which calls of it need on a GPU.
fn library(what: &'static str, found: Result<PathBuf, LibraryError>) -> Finding {
    let (works, detail, advice) = match found {
        Ok(file) => (true, file.display().to_string(), None),
        Err(error) => (false, error.to_string(), Some(error.hint())),
    };
    Finding { what, works, needed: false, detail, advice }
}

/// NVIDIA's compute-sanitizer, for `--sanitize`.
fn sanitizer(search: &SearchPath) -> Finding {
    let (works, detail, advice) = match Sanitizer::find(&folders("PATH"), search, Tool::Memcheck) {
        Ok(found) => {
            let version = found.version().unwrap_or_else(|| "of unknown version".to_owned());
            (true, format!("{version}, {}", found.program().display()), None)
        }
        Err(error) => {
            let detail = "compute-sanitizer is neither in PATH nor in CUDA's usual folders";
            (false, detail.to_owned(), error.hint())
        }
    };
    Finding { what: "sanitizer", works, needed: false, detail, advice }
}

/// The program that the harness in this folder names, if there is one.
fn own_program() -> Option<Finding> {
    let harness = Harness::load(Path::new(HARNESS)).ok()?;
    let spec = harness.program.as_ref()?;
    let asked = || -> CliResult<()> {
        let cache = Cache::open(&cache_folder()?)?;
        let runner = runner(program::Device::Cpu, Limits::default(), 1, &cache)?;
        Ok(runner.answers(&harness).map_err(ReplayError::from)?)
    };
    let words = spec.words.join(" ");
    let (works, detail, advice) = match asked() {
        Ok(()) if spec.preload.is_some() => (true, format!("{words} answers"), None),
        Ok(()) => (true, format!("{words} is here; it is started for each replay"), None),
        Err(error) => (false, error.in_a_line(), advice(&error)),
    };
    Some(Finding { what: "program", works, needed: true, detail, advice })
}

/// What is to be known of the history of the harness in this folder, or of the repository around it.
fn replaced_history() -> Option<Finding> {
    let named = Harness::load(Path::new(HARNESS)).ok().and_then(|harness| harness.repository);
    let history = match named {
        Some(repository) => History::open(&repository),
        None => History::discover(Path::new(HARNESS)),
    };
    let detail = replaced_words(&history.ok()?)?;
    let advice = Some("git for-each-ref refs/replace lists them".to_owned());
    Some(Finding { what: "history", works: true, needed: false, detail, advice })
}

fn processor() -> Finding {
    let limits = Limits::default();
    let detail = format!(
        "{}, {} threads, at most {} and {} s a replay",
        std::env::consts::ARCH,
        cores(),
        size(limits.memory_bytes),
        limits.timeout.as_secs_f64()
    );
    Finding { what: "CPU", works: true, needed: true, detail, advice: None }
}
