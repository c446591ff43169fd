//! `replay doctor`: compilers, cache, memory. Says how they stand, and how to mend the rest.

use std::path::{Path, PathBuf};

use ::replay::backend::ReplayError;
use ::replay::cache::Cache;
use ::replay::cuda::blas::BlasFiles;
use ::replay::cuda::sanitizer::{Sanitizer, Tool};
use ::replay::cuda::{self, LibraryError, Nvrtc, SearchPath, random};
use ::replay::environment::{EnvironmentError, Python};
use ::replay::harness::{Axis, AxisKind, AxisValues, Harness, is_image_path, is_nvrtc_path};
use ::replay::history::History;
use ::replay::process::walls::WallOffer;
use ::replay::program;
use ::replay::report::{ReportLine, format_byte_size};
use anstyle::{AnsiColor, Color, Style};

use super::environments::open_user_shell;
use super::error::{CliResult, CommandError};
use super::exit;
use super::out::println;
use super::project::{open_harness_history, replaced_words};
use super::session::{
    create_program_runner, describe_lacking_walls, find_named_compiler, find_session_compiler,
    list_env_folders, search_path,
};
use super::settings::Settings;

/// Every system has it: it stands for the files of an image.
const ANY_FOLDER: &str = "/usr";
/// The harness whose program is asked for.
const HARNESS: &str = "replay.toml";

/// The arguments of `replay doctor`: none.
#[derive(Debug, clap::Args)]
pub struct DoctorArgs {}

/// One line of the report.
struct DoctorCheck {
    what: &'static str,
    works: bool,
    needed: bool,
    detail: String,
    advice: Option<String>,
}

/// Checks everything, with `settings` if they can be read. The exit code is 0 if replays on the CPU are possible.
pub fn run_doctor(_args: &DoctorArgs, settings: CliResult<Settings>) -> CliResult<u8> {
    let settings_check = check_settings(&settings);
    let settings = settings.unwrap_or_else(|_| Settings::without_sources());
    let settings = &settings;
    let mut findings = vec![
        main_compiler(settings),
        check_cache(settings),
        describe_processor(settings),
        check_sandbox(),
        settings_check,
    ];
    for name in ["g++", "clang++"] {
        if let Ok(compiler) = find_named_compiler(settings, Some(name), None) {
            findings.push(DoctorCheck {
                what: "also here",
                works: true,
                needed: false,
                detail: format!("{name}: {}", compiler.version()),
                advice: None,
            });
        }
    }
    findings.extend(check_gpus());
    let search = search_path();
    findings.extend(device_compiler(&search));
    let folders = search.folders();
    findings.push(check_library("cuBLAS", BlasFiles::find(&folders).map(|files| files.blas)));
    findings.push(check_library("cuRAND", random::find_curand(&folders)));
    findings.push(check_sanitizer(&search));
    findings.extend(own_program(settings));
    findings.extend(check_axes(settings));
    findings.extend(replaced_history());
    for finding in &findings {
        print_doctor_check(finding);
    }
    let usable = findings.iter().all(|finding| finding.works || !finding.needed);
    Ok(if usable { exit::SUCCESS } else { exit::NOT_ABOUT_THE_KERNEL })
}

fn print_doctor_check(finding: &DoctorCheck) {
    let (colour, mark) = match (finding.works, finding.needed) {
        (true, _) => (AnsiColor::Green, "ok"),
        (false, true) => (AnsiColor::Red, "missing"),
        (false, false) => (AnsiColor::Yellow, "none"),
    };
    let style = Style::new().bold().fg_color(Some(Color::Ansi(colour)));
    let words = format!("{:14}{}", finding.what, finding.detail);
    println!("{}", ReportLine::with_style(style, format!("{mark:8}")).and(words));
    if let Some(advice) = &finding.advice {
        println!("{}", ReportLine::from(format!("{:22}{advice}", "")));
    }
}

/// The hints of an error, in a line.
fn join_error_hints(error: &CommandError) -> Option<String> {
    (!error.hints().is_empty()).then(|| error.hints().join("; "))
}

/// The files of settings in force.
fn check_settings(settings: &CliResult<Settings>) -> DoctorCheck {
    let (works, detail, advice) = match settings {
        Ok(settings) => {
            let files = &settings.files;
            let files = files.repository.iter().chain(&files.user);
            let paths: Vec<String> = files.map(|path| path.display().to_string()).collect();
            let detail = match paths.as_slice() {
                [] => "no file is read".to_owned(),
                paths => format!("{} (replay config)", paths.join(", ")),
            };
            (true, detail, None)
        }
        Err(error) => (false, error.in_a_line(), join_error_hints(error)),
    };
    DoctorCheck { what: "settings", works, needed: true, detail, advice }
}

fn main_compiler(settings: &Settings) -> DoctorCheck {
    let (works, detail, advice) = match find_session_compiler(settings, None) {
        Ok(host_compiler) => {
            (true, format!("{}: {}", host_compiler.name(), host_compiler.version()), None)
        }
        Err(error) => (false, error.in_a_line(), join_error_hints(&error)),
    };
    DoctorCheck { what: "C++ compiler", works, needed: true, detail, advice }
}

fn check_cache(settings: &Settings) -> DoctorCheck {
    let opened_cache = settings.cache_folder().and_then(|folder| -> CliResult<Cache> {
        let cache = Cache::open(&folder)?;
        // Opening finds existing folders. Only writing shows the permission to write.
        cache.scratch()?;
        Ok(cache)
    });
    let (works, detail, advice) = match opened_cache {
        Ok(cache) => {
            let total: u64 =
                cache.usage().unwrap_or_default().iter().map(|(_, usage)| usage.bytes).sum();
            (true, format!("{}, {}", cache.root().display(), format_byte_size(total)), None)
        }
        Err(error) => (false, error.in_a_line(), join_error_hints(&error)),
    };
    DoctorCheck { what: "cache", works, needed: true, detail, advice }
}

/// The driver and its GPUs.
fn check_gpus() -> Vec<DoctorCheck> {
    match cuda::list_gpus() {
        Err(error) => vec![make_optional_check("GPU", false, error.to_string(), error.hint())],
        Ok(devices) if devices.is_empty() => {
            let detail = "the driver works and finds no device".to_owned();
            vec![make_optional_check("GPU", false, detail, None)]
        }
        Ok(devices) => devices
            .iter()
            .map(|device| {
                let memory = format_byte_size(device.memory_bytes as u64);
                let detail = format!(
                    "cuda:{}: {}, {}, {memory}",
                    device.ordinal,
                    device.describe(),
                    device.architecture
                );
                make_optional_check("GPU", true, detail, None)
            })
            .collect(),
    }
}

/// A finding about an optional part of the machine.
fn make_optional_check(
    what: &'static str,
    works: bool,
    detail: String,
    advice: Option<String>,
) -> DoctorCheck {
    DoctorCheck { what, works, needed: false, detail, advice }
}

/// NVRTC and its headers.
fn device_compiler(search: &SearchPath) -> Vec<DoctorCheck> {
    match Nvrtc::find(search) {
        Err(error) => vec![make_optional_check("NVRTC", false, error.to_string(), error.hint())],
        Ok(nvrtc) => {
            let (major, minor) = nvrtc.version();
            let detail = format!("{major}.{minor}, {}", nvrtc.path().display());
            let folders = search.header_folders(nvrtc.path());
            let list: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
            let headers = if list.is_empty() {
                let advice = "pip install nvidia-cuda-runtime nvidia-cuda-cccl; without them \
                                  kernels cannot include cuda_fp16.h and its like";
                let detail = "none beside NVRTC and in CUDA's usual folders".to_owned();
                make_optional_check("CUDA headers", false, detail, Some(advice.to_owned()))
            } else {
                make_optional_check("CUDA headers", true, list.join(", "), None)
            };
            vec![make_optional_check("NVRTC", true, detail, None), headers]
        }
    }
}

/// A library of NVIDIA's, for calls of it on a GPU.
fn check_library(what: &'static str, library_file: Result<PathBuf, LibraryError>) -> DoctorCheck {
    let (works, detail, advice) = match library_file {
        Ok(file) => (true, file.display().to_string(), None),
        Err(error) => (false, error.to_string(), Some(error.hint())),
    };
    DoctorCheck { what, works, needed: false, detail, advice }
}

/// NVIDIA's compute-sanitizer, for `--sanitize`.
fn check_sanitizer(search: &SearchPath) -> DoctorCheck {
    let (works, detail, advice) =
        match Sanitizer::find(&list_env_folders("PATH"), search, Tool::Memcheck) {
            Ok(sanitizer) => {
                let version =
                    sanitizer.version().unwrap_or_else(|| "of unknown version".to_owned());
                (true, format!("{version}, {}", sanitizer.program().display()), None)
            }
            Err(error) => {
                let detail = "compute-sanitizer is neither in PATH nor in CUDA's usual folders";
                (false, detail.to_owned(), error.hint())
            }
        };
    DoctorCheck { what: "sanitizer", works, needed: false, detail, advice }
}

/// The program of the harness in this folder, if there is one.
fn own_program(settings: &Settings) -> Option<DoctorCheck> {
    let harness = Harness::load(Path::new(HARNESS)).ok()?;
    let spec = harness.program.as_ref()?;
    let words = spec.words.join(" ");
    let (works, detail, advice) = match ask_program(settings, &harness) {
        Ok(()) if spec.preload.is_some() => (true, format!("{words} answers"), None),
        Ok(()) => (true, format!("{words} is here; it is started for each replay"), None),
        Err(error) => (false, error.in_a_line(), join_error_hints(&error)),
    };
    Some(DoctorCheck { what: "program", works, needed: true, detail, advice })
}

/// The axes of the harness in this folder, as far as they can be used here.
fn check_axes(settings: &Settings) -> Vec<DoctorCheck> {
    let Ok(harness) = Harness::load(Path::new(HARNESS)) else { return Vec::new() };
    harness.axes.iter().map(|axis| check_axis(settings, &harness, axis)).collect()
}

fn check_axis(settings: &Settings, harness: &Harness, axis: &Axis) -> DoctorCheck {
    let name = &axis.name;
    match (&axis.kind, &axis.values) {
        (AxisKind::Compiler, AxisValues::Listed(values)) => {
            let find = |value: &String| find_named_compiler(settings, Some(value), None);
            let (here, absent): (Vec<&String>, Vec<&String>) =
                values.iter().partition(|value| find(value).is_ok());
            let words = [(here, "here"), (absent.clone(), "not here")];
            let words = words.iter().filter(|(values, _)| !values.is_empty());
            let words: Vec<String> = words
                .map(|(values, place)| {
                    let values: Vec<&str> = values.iter().map(|value| value.as_str()).collect();
                    format!("{} {place}", values.join(", "))
                })
                .collect();
            let detail = format!("{name}: {}", words.join("; "));
            make_optional_check("axis", absent.is_empty(), detail, None)
        }
        (AxisKind::Nvrtc, AxisValues::Listed(values))
            if values.iter().any(|value| is_nvrtc_path(value)) =>
        {
            check_nvrtc_paths(harness, name, values)
        }
        (AxisKind::Nvrtc, _) => check_package_axis(harness, name, "NVRTC"),
        (AxisKind::Package(package) | AxisKind::Nightly { package, .. }, _) => {
            check_package_axis(harness, name, package)
        }
        (
            AxisKind::Compiler
            | AxisKind::Define(_)
            | AxisKind::NvrtcOption(_)
            | AxisKind::Variable(_),
            _,
        ) => make_optional_check("axis", true, format!("{name}: nothing more is needed"), None),
        (AxisKind::Image, AxisValues::Listed(values)) => check_image_axis(harness, name, values),
        (AxisKind::Image, AxisValues::Between { .. }) => unreachable!("images have no ranges"),
        (AxisKind::Command(words), _) => {
            make_optional_check("axis", true, format!("{name}: by `{}`", words.join(" ")), None)
        }
    }
}

/// Whether the interpreter of `harness` has what asks for versions of `package`.
fn check_package_axis(harness: &Harness, name: &str, package: &str) -> DoctorCheck {
    let pip = open_user_shell()
        .and_then(|shell| Ok(Python::of_program(&shell, harness)?.describe_installer(&shell)?));
    match pip {
        Ok(pip) => {
            let detail = format!("{name}: versions of {package} by {pip}");
            make_optional_check("axis", true, detail, None)
        }
        Err(error) => {
            let detail = format!("{name}: {}", error.in_a_line());
            make_optional_check("axis", false, detail, join_error_hints(&error))
        }
    }
}

/// Whether programs start in images here, and what exports those of `values`.
fn check_image_axis(harness: &Harness, name: &str, values: &[String]) -> DoctorCheck {
    let shell = match open_user_shell() {
        Ok(shell) => shell,
        Err(error) => return make_optional_check("axis", false, error.in_a_line(), None),
    };
    if let Some(reason) = shell.try_root(Path::new(ANY_FOLDER)) {
        let error = EnvironmentError::NoRoot { reason };
        let detail = format!("{name}: {error}");
        return make_optional_check("axis", false, detail, error.hint());
    }
    let (paths, references): (Vec<&String>, Vec<&String>) =
        values.iter().partition(|value| is_image_path(value));
    let absent = paths.iter().filter(|path| !harness.folder().join(path).exists());
    let mut words: Vec<String> = absent.map(|path| format!("{path} is not here")).collect();
    let mut works = words.is_empty();
    let mut advice = None;
    if !references.is_empty() {
        match shell.find_container_runtime() {
            Ok(runtime) => words.push(format!("{} exports images", runtime.name)),
            Err(error) => {
                works = false;
                words.push(error.in_a_line());
                advice = error.hint();
            }
        }
    }
    words.push("programs start in them".to_owned());
    make_optional_check("axis", works, format!("{name}: {}", words.join("; ")), advice)
}

/// The installations of NVRTC among `values`.
fn check_nvrtc_paths(harness: &Harness, name: &str, values: &[String]) -> DoctorCheck {
    let paths = values.iter().filter(|value| is_nvrtc_path(value));
    let found = paths.map(|path| (path, Nvrtc::open(&harness.folder().join(path))));
    let mut works = true;
    let words: Vec<String> = found
        .map(|(path, nvrtc)| match nvrtc {
            Ok(nvrtc) => {
                let (major, minor) = nvrtc.version();
                format!("{path} is {major}.{minor}")
            }
            Err(error) => {
                works = false;
                error.to_string()
            }
        })
        .collect();
    make_optional_check("axis", works, format!("{name}: {}", words.join("; ")), None)
}

/// Finds the program of `harness`, and waits for the first word of a staying one.
fn ask_program(settings: &Settings, harness: &Harness) -> CliResult<()> {
    let cache = Cache::open(&settings.cache_folder()?)?;
    let device = program::ProgramDevice::Cpu;
    let runner = create_program_runner(settings, device, 1, &cache)?;
    Ok(runner.answers(harness).map_err(ReplayError::from)?)
}

/// The notice on the history of the harness in this folder, or of the repository around it.
fn replaced_history() -> Option<DoctorCheck> {
    let history = match Harness::load(Path::new(HARNESS)) {
        Ok(harness) => open_harness_history(&harness, None),
        Err(_) => History::discover(Path::new(HARNESS)),
    };
    let detail = replaced_words(&history.ok()?)?;
    let advice = Some("git for-each-ref refs/replace lists them".to_owned());
    Some(DoctorCheck { what: "history", works: true, needed: false, detail, advice })
}

/// The walls around replayed code.
fn check_sandbox() -> DoctorCheck {
    let lacking = describe_lacking_walls(WallOffer::of_this_system());
    let works = lacking.is_empty();
    let (detail, advice) = if works {
        ("walls around files, connections and signals".to_owned(), None)
    } else {
        let advice = "run code from strangers on Linux 6.12 with Landlock, or in a container";
        (format!("this system lacks {}", lacking.join(", ")), Some(advice.to_owned()))
    };
    make_optional_check("sandbox", works, detail, advice)
}

fn describe_processor(settings: &Settings) -> DoctorCheck {
    let limits = settings.limits();
    let detail = format!(
        "{}, {} threads, at most {} and {} s a replay",
        std::env::consts::ARCH,
        settings.threads(),
        format_byte_size(limits.memory_limit_bytes),
        limits.timeout.as_secs_f64()
    );
    DoctorCheck { what: "CPU", works: true, needed: true, detail, advice: None }
}
