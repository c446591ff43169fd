//! Cache, compiler and limits of replaying commands, from options and environment. Options are parsed into
//! [`SessionArgs`], and one [`Session`] is built of them.

use std::cell::OnceCell;
use std::num::NonZeroUsize;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::replay::backend::cuda::DeviceError;
use ::replay::backend::{Backend, CpuBackend, Cuda, DeviceName, Host, Programs};
use ::replay::cache::Cache;
use ::replay::compile::{Compiler, Toolchain};
use ::replay::cuda::sanitizer::{Sanitizer, Tool};
use ::replay::cuda::{self, SearchPath};
use ::replay::foreign::Keeper;
use ::replay::harness::Harness;
use ::replay::process::walls::{Sandbox, WallOffer};
use ::replay::program::{self, Runner};
use ::replay::tensor::count_cores;
use ::replay::trial::{GradientEffort, GradientWatcher, Lab};
use ::replay::worker::Limits;
use clap::{Args, ValueEnum};

use super::error::{CliResult, CommandError, ErrorContext};
use super::progress;

/// Options of every replaying command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Replays")]
pub struct SessionArgs {
    /// Where kernels run: cpu, cuda (all GPUs of the first one's kind) or cuda:N; cpu,cuda compares
    /// them
    #[arg(short, long, value_name = "DEVICE", default_value = "cpu",
          value_parser = parse_device_arg, value_delimiter = ',')]
    backend: Vec<DeviceArg>,
    /// Repeat every replay on a GPU under NVIDIA's compute-sanitizer, and fail on what it finds
    #[arg(long, value_enum, value_name = "TOOL")]
    sanitize: Option<SanitizeArg>,
    /// Seconds that one replay may take
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = parse_seconds_arg,
          allow_negative_numbers = true)]
    timeout: Duration,
    /// Device memory that one replay may have, and as much for its host code; all memory that a program may have on the
    /// CPU; such as 512M or 64G [default: 16G]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes_arg, allow_negative_numbers = true)]
    memory: Option<u64>,
    /// Cores that run thread blocks; the outcome does not depend on them [default: all]
    #[arg(long, value_name = "N", value_parser = parse_threads_arg, allow_negative_numbers = true)]
    threads: Option<NonZeroUsize>,
    /// How thoroughly gradients are held against their loss: off, quick (two directions), full (all directions, every
    /// kink), or the seconds for those of a fixture, in which as much of it is done as there is time for [default: 120]
    #[arg(long, value_name = "EFFORT", value_parser = parse_gradients_arg, allow_negative_numbers = true)]
    gradients: Option<GradientEffort>,
    /// Replay again, also where the outcome is in the cache
    #[arg(long)]
    fresh: bool,
    /// How replayed code is kept from the rest of the machine: `replay help sandbox`
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    sandbox: SandboxArg,
}

/// The degrees of the sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum SandboxArg {
    /// Behind all walls, or not at all where this system lacks one
    Strict,
    /// Behind the walls that this system has
    #[default]
    Default,
    /// Without walls
    Off,
}

impl From<SandboxArg> for Sandbox {
    fn from(mode: SandboxArg) -> Sandbox {
        match mode {
            SandboxArg::Strict | SandboxArg::Default => Sandbox::AsOffered,
            SandboxArg::Off => Sandbox::Off,
        }
    }
}

/// The tools of compute-sanitizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SanitizeArg {
    /// Accesses out of bounds and misaligned ones
    Memcheck,
    /// Races on shared memory
    Racecheck,
    /// Reads of device memory that nobody wrote
    Initcheck,
    /// Wrong uses of barriers
    Synccheck,
}

impl From<SanitizeArg> for Tool {
    fn from(tool: SanitizeArg) -> Tool {
        match tool {
            SanitizeArg::Memcheck => Tool::Memcheck,
            SanitizeArg::Racecheck => Tool::Racecheck,
            SanitizeArg::Initcheck => Tool::Initcheck,
            SanitizeArg::Synccheck => Tool::Synccheck,
        }
    }
}

/// Where kernels run, as the user says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceArg {
    /// The reference machine.
    Cpu,
    /// The GPU with this number, or all of the first one's kind.
    Cuda(Option<usize>),
}

fn parse_device_arg(text: &str) -> Result<DeviceArg, String> {
    let device = match text.split_once(':') {
        None if text == "cpu" => Some(DeviceArg::Cpu),
        None if text == "cuda" => Some(DeviceArg::Cuda(None)),
        Some(("cuda", number)) => number.parse().ok().map(|n| DeviceArg::Cuda(Some(n))),
        _ => None,
    };
    device.ok_or_else(|| "the devices are cpu, cuda and cuda:N".to_owned())
}

/// Seconds, as a number with or without a point.
fn parse_seconds_arg(text: &str) -> Result<Duration, String> {
    /// A year: even an endless limit has to be a number.
    const MOST: f64 = 31_536_000.0;
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    match seconds {
        _ if seconds.is_nan() => Err("not a number of seconds".to_owned()),
        _ if seconds > MOST => Err(format!("more than a year; at most {MOST}")),
        _ if seconds <= 0.0 => Err("must be more than 0".to_owned()),
        _ => match Duration::from_secs_f64(seconds) {
            Duration::ZERO => Err("less than a nanosecond".to_owned()),
            duration => Ok(duration),
        },
    }
}

/// The effort of a check of gradients.
fn parse_gradients_arg(text: &str) -> Result<GradientEffort, String> {
    match text {
        "off" => Ok(GradientEffort::Off),
        "quick" => Ok(GradientEffort::Quick),
        "full" => Ok(GradientEffort::Full),
        seconds if seconds.parse::<f64>().is_ok() => {
            parse_seconds_arg(seconds).map(GradientEffort::Within)
        }
        _ => Err("it is off, quick, full or a number of seconds".to_owned()),
    }
}

/// Bytes with an optional K, M, G or T, of 1024 each.
pub fn parse_bytes_arg(text: &str) -> Result<u64, String> {
    /// The address space of x86-64 and AArch64.
    const MOST: u128 = 1 << 47;
    let bare_text = text.trim().trim_end_matches(['B', 'b']).trim_end_matches('i');
    let (digits, shift) = match bare_text.char_indices().next_back() {
        Some((end, unit)) if unit.is_ascii_alphabetic() && !has_letters(&bare_text[..end]) => {
            let place = "KMGT".find(unit.to_ascii_uppercase()).ok_or("the units are K, M, G, T")?;
            (&bare_text[..end], 10 * (place as u32 + 1))
        }
        _ => (bare_text, 0),
    };
    let number: u64 = match digits.parse() {
        Ok(number) => number,
        Err(_) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            u64::MAX
        }
        Err(_) => return Err("not a whole number of bytes, such as 512M or 64G".to_owned()),
    };
    match u128::from(number) << shift {
        0 => Err("must be more than 0".to_owned()),
        bytes if bytes > MOST => Err("more than any machine has; at most 128T".to_owned()),
        bytes => Ok(bytes as u64),
    }
}

fn has_letters(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_alphabetic())
}

/// Cores for thread blocks.
fn parse_threads_arg(text: &str) -> Result<NonZeroUsize, String> {
    parse_number_arg(text, 1024)
}

/// The number of concurrent tests.
pub fn parse_jobs_arg(text: &str) -> Result<NonZeroUsize, String> {
    parse_number_arg(text, 256)
}

/// A whole number from 1 to `limit`.
fn parse_number_arg(text: &str, limit: usize) -> Result<NonZeroUsize, String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("not a whole number".to_owned());
    }
    let number = if text.starts_with('-') { 0 } else { digits.parse().unwrap_or(usize::MAX) };
    match NonZeroUsize::new(number) {
        None => Err("must be at least 1".to_owned()),
        Some(number) if number.get() > limit => Err(format!("at most {limit}")),
        Some(number) => Ok(number),
    }
}

impl SessionArgs {
    /// The limits of one child process.
    fn limits(&self) -> Limits {
        let memory_limit_bytes = self.memory.unwrap_or(Limits::MEMORY_LIMIT_BYTES);
        Limits { timeout: self.timeout, memory_limit_bytes }
    }

    /// Cores for thread blocks.
    fn threads(&self) -> usize {
        self.threads.map_or_else(count_cores, NonZeroUsize::get)
    }

    /// The classes of the named devices, as in outcomes.
    pub fn device_classes(&self) -> CliResult<String> {
        let mut classes = Vec::with_capacity(self.backend.len());
        for device in &self.backend {
            classes.push(match device {
                DeviceArg::Cpu => "cpu".to_owned(),
                DeviceArg::Cuda(ordinal) => {
                    let gpu = cuda::find_gpu(ordinal.unwrap_or(0)).map_err(DeviceError::from)?;
                    gpu.architecture
                }
            });
        }
        Ok(classes.join(","))
    }

    /// Complains about a sanitizer without a GPU to use it on.
    fn require_gpu_to_sanitize(&self) -> CliResult<()> {
        let is_on_cpu = self.backend.iter().all(|device| *device == DeviceArg::Cpu);
        if self.sanitize.is_some() && is_on_cpu {
            return Err(CommandError::new("--sanitize is for replays on a GPU").with_hint(
                "add --backend cuda; the CPU finds unwritten and out-of-bounds memory itself",
            ));
        }
        Ok(())
    }

    /// Complains about a strict sandbox on a GPU, or on a system without a wall.
    fn require_walls(&self) -> CliResult<()> {
        if self.sandbox != SandboxArg::Strict {
            return Ok(());
        }
        if self.backend.iter().any(|device| *device != DeviceArg::Cpu) {
            return Err(CommandError::new("--sandbox=strict: a GPU's driver needs more")
                .with_hint("replay on the CPU, or with --sandbox=default"));
        }
        refuse_lacking_walls(WallOffer::of_this_system())
    }

    /// Complains about a harness that widens a strict sandbox: a checkout of a stranger's revision brings its own.
    fn require_closed_sandbox(&self, harness: &Harness) -> CliResult<()> {
        let widened = harness.program.as_ref().filter(|program| !program.sandbox.is_closed());
        if self.sandbox != SandboxArg::Strict || widened.is_none() {
            return Ok(());
        }
        let path = harness.path.display();
        Err(CommandError::new(format!("--sandbox=strict: `[sandbox]` in {path} asks for more"))
            .with_hint("drop it there, or replay with --sandbox=default if you trust the harness"))
    }

    fn one_device(&self) -> CliResult<DeviceArg> {
        match self.backend.as_slice() {
            &[device] => Ok(device),
            _ => Err(CommandError::new("this command takes one --backend")
                .with_hint("`replay FIXTURE --backend cpu,cuda` compares devices")),
        }
    }
}

/// The means of replaying, built once of a command's options.
pub struct Session {
    options: SessionArgs,
    cache: Cache,
    /// The labs of harnesses with a call, one a device. Made when the first such harness is met.
    kernels: OnceCell<Vec<Arc<Lab>>>,
    /// The same of harnesses with a program.
    programs: OnceCell<Vec<Arc<Lab>>>,
}

impl Session {
    /// Opens the cache. Looks for neither compiler nor device yet.
    pub fn open(options: &SessionArgs) -> CliResult<Session> {
        options.require_gpu_to_sanitize()?;
        options.require_walls()?;
        Ok(Session {
            options: options.clone(),
            cache: open_session_cache()?,
            kernels: OnceCell::new(),
            programs: OnceCell::new(),
        })
    }

    /// How thoroughly gradients are checked.
    pub fn gradient_effort(&self) -> GradientEffort {
        self.options.gradients.unwrap_or_default()
    }

    /// The cache of this session.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Cores for thread blocks.
    pub fn threads(&self) -> usize {
        self.options.threads()
    }

    /// Complains about several devices for a command of one.
    pub fn require_one_device(&self) -> CliResult<()> {
        self.options.one_device().map(|_| ())
    }

    /// Whether one device was named.
    pub fn is_on_one_device(&self) -> bool {
        self.options.backend.len() == 1
    }

    /// A lab for `harness` on each named device.
    pub fn labs_for(&self, harness: &Harness) -> CliResult<&[Arc<Lab>]> {
        self.options.require_closed_sandbox(harness)?;
        let runner = RevisionRunner::from_harness(harness);
        let known_labs = match runner {
            RevisionRunner::Kernels => &self.kernels,
            RevisionRunner::Program => &self.programs,
        };
        if let Some(labs) = known_labs.get() {
            return Ok(labs);
        }
        let mut labs = Vec::new();
        for &device in &self.options.backend {
            labs.push(self.make_lab(runner, device, self.threads(), self.options.fresh)?);
        }
        Ok(known_labs.get_or_init(|| labs))
    }

    /// The lab for `harness`, of a command of one device.
    pub fn lab_for(&self, harness: &Harness) -> CliResult<&Arc<Lab>> {
        self.require_one_device()?;
        Ok(self.labs_for(harness)?.first().expect("a device was named"))
    }

    /// The labs of a search over trials of `harnesses`, with a share of the cores: one with the results of the cache, and
    /// one without.
    pub fn search_labs(&self, harnesses: &[&Harness], threads: usize) -> CliResult<[Arc<Lab>; 2]> {
        let device = self.options.one_device()?;
        for harness in harnesses {
            self.options.require_closed_sandbox(harness)?;
        }
        let runner =
            RevisionRunner::from_harness(harnesses.first().expect("a search has a fixture"));
        if let Some(other_harness) =
            harnesses.iter().find(|harness| RevisionRunner::from_harness(harness) != runner)
        {
            let first = harnesses[0].path.display();
            let other_path = other_harness.path.display();
            return Err(CommandError::new(format!(
                "{first} and {other_path} cannot be searched together: one starts a program, the other \
                 makes a call"
            ))
            .with_hint("search each of them by itself"));
        }
        let fresh = self.options.fresh;
        match runner {
            RevisionRunner::Kernels => Ok([
                self.make_lab(runner, device, threads, fresh)?,
                self.make_lab(runner, device, threads, true)?,
            ]),
            RevisionRunner::Program => {
                // One for both: a loaded program serves either.
                let backend = self.program_backend(device, threads)?;
                Ok([fresh, true].map(|fresh| self.equip_lab(backend.clone(), fresh)))
            }
        }
    }

    fn make_lab(
        &self,
        runner: RevisionRunner,
        device: DeviceArg,
        threads: usize,
        fresh: bool,
    ) -> CliResult<Arc<Lab>> {
        let backend = match runner {
            RevisionRunner::Kernels => self.kernel_backend(device, threads)?,
            RevisionRunner::Program => self.program_backend(device, threads)?,
        };
        Ok(self.equip_lab(backend, fresh))
    }

    fn equip_lab(&self, backend: Arc<dyn Backend>, fresh: bool) -> Arc<Lab> {
        let effort = self.gradient_effort();
        let watcher: GradientWatcher = Arc::new(progress::show_gradient_work);
        Lab::with_gradient_effort(backend, self.cache.clone(), fresh, effort, Some(watcher))
    }

    /// Programs on `device`.
    fn program_backend(&self, device: DeviceArg, threads: usize) -> CliResult<Arc<dyn Backend>> {
        let options = &self.options;
        if options.sanitize.is_some() {
            return Err(CommandError::new("--sanitize is for kernels that replay launches itself")
                .with_hint("this harness starts a program: run it under compute-sanitizer"));
        }
        let (place, name, device_bytes) = match device {
            DeviceArg::Cpu => {
                let class = "cpu".to_owned();
                let description = "CPU".to_owned();
                (program::ProgramDevice::Cpu, DeviceName { class, description }, None)
            }
            DeviceArg::Cuda(ordinal) => {
                let cuda_device =
                    cuda::find_gpu(ordinal.unwrap_or(0)).map_err(DeviceError::from)?;
                let class = cuda_device.architecture.clone();
                let description = cuda_device.describe();
                let name = DeviceName { class, description };
                (program::ProgramDevice::Cuda(ordinal), name, Some(cuda_device.memory_bytes as u64))
            }
        };
        let limits = options.limits();
        let sandbox = options.sandbox.into();
        let runner = create_program_runner(place, limits, options.threads(), &self.cache, sandbox)?;
        let host = Host::new(own_file()?, limits, threads, self.cache.temporary());
        Ok(Arc::new(Programs::new(runner, host, name, device_bytes)))
    }

    /// Kernels compiled here, on `device`.
    fn kernel_backend(&self, device: DeviceArg, threads: usize) -> CliResult<Arc<dyn Backend>> {
        let options = &self.options;
        let cache = &self.cache;
        let sandbox = options.sandbox.into();
        let compiler = find_session_compiler(Some(cache), sandbox)?
            .with_timeout(options.timeout.saturating_mul(COMPILER_SHARE));
        let host = Host::new(own_file()?, options.limits(), threads, cache.temporary());
        let host = host.with_sandbox(sandbox);
        let cpu = CpuBackend::new(Toolchain::new(compiler, cache), host);
        let DeviceArg::Cuda(ordinal) = device else { return Ok(Arc::new(cpu)) };
        let search = search_path();
        let cuda = Cuda::new(cpu, ordinal, options.memory, &search, cache)?;
        Ok(Arc::new(match options.sanitize {
            Some(tool) => {
                cuda.sanitized(Sanitizer::find(&list_env_folders("PATH"), &search, tool.into())?)
            }
            None => cuda,
        }))
    }
}

/// The means to run the revisions of a harness.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RevisionRunner {
    /// A call of kernels compiled here.
    Kernels,
    /// A program of the user's own.
    Program,
}

impl RevisionRunner {
    fn from_harness(harness: &Harness) -> RevisionRunner {
        if harness.program.is_some() { RevisionRunner::Program } else { RevisionRunner::Kernels }
    }
}

/// Complains about a system with `offer` where a wall is missing.
fn refuse_lacking_walls(offer: WallOffer) -> CliResult<()> {
    let lacking = describe_lacking_walls(offer);
    if lacking.is_empty() {
        return Ok(());
    }
    let message = format!("--sandbox=strict: this system lacks {}", lacking.join(", "));
    Err(CommandError::new(message)
        .with_hint("Linux 6.12 with Landlock has all; --sandbox=default takes what is there"))
}

/// What the walls of a system with `offer` do not keep apart.
pub fn describe_lacking_walls(offer: WallOffer) -> Vec<&'static str> {
    let walls = [
        (offer.files, "walls around files"),
        (offer.connections, "walls around connections"),
        (offer.signals, "walls around signals"),
    ];
    walls.into_iter().filter(|(is_there, _)| !is_there).map(|(_, words)| words).collect()
}

/// A runner for programs on `device`, in the user's environment. At most `processes` of each stay.
pub fn create_program_runner(
    device: program::ProgramDevice,
    limits: Limits,
    processes: usize,
    cache: &Cache,
    sandbox: Sandbox,
) -> CliResult<Runner> {
    let environment = std::env::vars_os().collect();
    let setting = program::ProgramSettings { device, limits, environment, processes };
    let keeper = Keeper::new(&own_file()?).with_sandbox(sandbox);
    Ok(Runner::new(keeper, cache.clone(), setting))
}

/// The variable for the folder of a shared cache behind the cache.
pub const SHARED_CACHE: &str = "REPLAY_SHARED_CACHE_DIR";

/// The cache, made if it does not exist.
pub fn open_session_cache() -> CliResult<Cache> {
    let cache = Cache::open(&cache_folder()?)?;
    match std::env::var_os(SHARED_CACHE).filter(|path| !path.is_empty()) {
        Some(shared_folder) => Ok(cache.sharing(&std::path::absolute(&shared_folder)?)?),
        None => Ok(cache),
    }
}

/// The places of CUDA by the user's environment.
pub fn search_path() -> SearchPath {
    let roots =
        ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"].into_iter().flat_map(list_env_folders).collect();
    let python = Some("python3".to_owned());
    SearchPath { libraries: list_env_folders("LD_LIBRARY_PATH"), roots, python }
}

/// The folders in the environment variable `name`.
pub fn list_env_folders(name: &str) -> Vec<PathBuf> {
    let value = std::env::var_os(name).unwrap_or_default();
    std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()).collect()
}

/// How many times as long as a replay the compiler may take.
const COMPILER_SHARE: u32 = 5;

/// The C++ compiler of `CXX`, else the system's; `cache` may know it already. It is kept as `sandbox` says.
pub fn find_session_compiler(cache: Option<&Cache>, sandbox: Sandbox) -> CliResult<Compiler> {
    let cxx = std::env::var_os("CXX").map(|cxx| cxx.into_string()).transpose();
    let cxx = cxx.map_err(|cxx| {
        CommandError::new(format!("CXX is no text: {}", cxx.display()))
            .with_hint("name the compiler by a path that is UTF-8, such as a link to it")
    })?;
    find_named_compiler(cxx.as_deref(), cache, sandbox)
}

/// The same for `cxx` as the value of `CXX`.
pub fn find_named_compiler(
    cxx: Option<&str>,
    cache: Option<&Cache>,
    sandbox: Sandbox,
) -> CliResult<Compiler> {
    let keeper = Keeper::new(&own_file()?).with_sandbox(sandbox);
    Ok(Compiler::find_known(cxx, &keeper, cache)?)
}

/// This program's own file.
fn own_file() -> CliResult<PathBuf> {
    std::env::current_exe().context(|| "cannot find this program's own file")
}

/// The folder around the cache's own: `REPLAY_CACHE_DIR`, else the one for caches in the XDG Base Directory
/// Specification.
pub fn cache_folder() -> CliResult<PathBuf> {
    let chosen_folder = read_env_path("REPLAY_CACHE_DIR")
        .or_else(|| read_env_path("XDG_CACHE_HOME").filter(|path| path.is_absolute()))
        .or_else(|| read_env_path("HOME").map(|home| home.join(".cache")));
    let chosen_folder = chosen_folder.ok_or_else(|| {
        CommandError::new("no place for the cache: neither REPLAY_CACHE_DIR nor HOME is set")
            .with_hint("set REPLAY_CACHE_DIR to a folder that can be written")
    })?;
    Ok(resolve_parents(&std::path::absolute(&chosen_folder)?))
}

/// `path` without `..`: a compiler names its files without them, and the paths of a cache are compared with those. What
/// stands before the last `..` is resolved as the system does it, links included.
fn resolve_parents(path: &Path) -> PathBuf {
    let components: Vec<Component> = path.components().collect();
    let Some(last) = components.iter().rposition(|part| *part == Component::ParentDir) else {
        return path.to_owned();
    };
    let (before, behind) = components.split_at(last + 1);
    match before.iter().collect::<PathBuf>().canonicalize() {
        Ok(folder) => folder.join(behind.iter().collect::<PathBuf>()),
        // Making the folder says what is wrong with it.
        Err(_) => path.to_owned(),
    }
}

/// The path in the variable `name`; none if it is unset or empty.
fn read_env_path(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| !path.as_os_str().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_units_of_1024() {
        assert_eq!(parse_bytes_arg("512"), Ok(512));
        assert_eq!(parse_bytes_arg("2K"), Ok(2048));
        assert_eq!(parse_bytes_arg("3MiB"), Ok(3 << 20));
        assert_eq!(parse_bytes_arg("8g"), Ok(8 << 30));
    }

    #[test]
    fn a_path_without_its_parents_leads_to_the_same_folder() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(real.join("a/b")).unwrap();
        std::os::unix::fs::symlink(real.join("a/b"), real.join("link")).unwrap();
        let resolved = |path: &str| resolve_parents(&real.join(path));
        assert_eq!(resolved("a/../cache/new"), real.join("cache/new"));
        assert_eq!(resolved("link/../cache"), real.join("a/cache"));
        assert_eq!(resolved("link/cache"), real.join("link/cache"));
        assert_eq!(resolved("missing/../cache"), real.join("missing/../cache"));
    }

    #[test]
    fn a_strict_sandbox_names_the_walls_that_are_missing() {
        let offer = WallOffer { files: true, connections: false, signals: false };
        let error = refuse_lacking_walls(offer).unwrap_err();
        insta::assert_snapshot!(format!("{}\nhint: {}", error.in_a_line(), error.hints().join("; ")), @"
        --sandbox=strict: this system lacks walls around connections, walls around signals
        hint: Linux 6.12 with Landlock has all; --sandbox=default takes what is there
        ");
        let whole = WallOffer { connections: true, signals: true, ..offer };
        assert!(refuse_lacking_walls(whole).is_ok());
    }

    /// The error for each text.
    fn refused<T: std::fmt::Debug>(
        read: impl Fn(&str) -> Result<T, String>,
        texts: &[&str],
    ) -> String {
        let told = texts.iter().map(|text| format!("{text}: {}\n", read(text).unwrap_err()));
        told.collect::<String>()
    }

    #[test]
    fn numbers_are_refused_for_what_they_are() {
        let sizes =
            ["", "G", "1X", "-1", "1.5G", "1e99", "inf", "0", "0G", "129T", "99999999999999999999"];
        insta::assert_snapshot!(refused(parse_bytes_arg, &sizes), @"
        : not a whole number of bytes, such as 512M or 64G
        G: not a whole number of bytes, such as 512M or 64G
        1X: the units are K, M, G, T
        -1: not a whole number of bytes, such as 512M or 64G
        1.5G: not a whole number of bytes, such as 512M or 64G
        1e99: not a whole number of bytes, such as 512M or 64G
        inf: not a whole number of bytes, such as 512M or 64G
        0: must be more than 0
        0G: must be more than 0
        129T: more than any machine has; at most 128T
        99999999999999999999: more than any machine has; at most 128T
        ");
        let times = ["", "1m", "nan", "-nan", "inf", "1e10", "-inf", "-1", "-0", "0", "1e-12"];
        insta::assert_snapshot!(refused(parse_seconds_arg, &times), @"
        : not a number of seconds
        1m: not a number of seconds
        nan: not a number of seconds
        -nan: not a number of seconds
        inf: more than a year; at most 31536000
        1e10: more than a year; at most 31536000
        -inf: must be more than 0
        -1: must be more than 0
        -0: must be more than 0
        0: must be more than 0
        1e-12: less than a nanosecond
        ");
        let counts = ["", "-", "x", "1.5", "0", "-1", "-0", "65535", "99999999999999999999"];
        insta::assert_snapshot!(refused(parse_threads_arg, &counts), @"
        : not a whole number
        -: not a whole number
        x: not a whole number
        1.5: not a whole number
        0: must be at least 1
        -1: must be at least 1
        -0: must be at least 1
        65535: at most 1024
        99999999999999999999: at most 1024
        ");
        assert_eq!(parse_jobs_arg("256").map(NonZeroUsize::get), Ok(256));
    }

    #[test]
    fn the_effort_for_gradients_is_a_word_or_seconds() {
        let words = ["off", "quick", "full", "90", "0.5"];
        let told = words.map(|word| parse_gradients_arg(word).map(|effort| effort.to_string()));
        assert_eq!(told, words.map(|word| Ok(word.to_owned())));
        insta::assert_snapshot!(refused(parse_gradients_arg, &["", "some", "0", "-1"]), @"
        : it is off, quick, full or a number of seconds
        some: it is off, quick, full or a number of seconds
        0: must be more than 0
        -1: must be more than 0
        ");
    }

    #[test]
    fn a_device_is_the_cpu_or_a_gpu_with_a_number() {
        assert_eq!(parse_device_arg("cpu"), Ok(DeviceArg::Cpu));
        assert_eq!(parse_device_arg("cuda"), Ok(DeviceArg::Cuda(None)));
        assert_eq!(parse_device_arg("cuda:3"), Ok(DeviceArg::Cuda(Some(3))));
        for wrong in ["", "gpu", "cuda:", "cuda:x", "cpu:0", "cuda:-1"] {
            assert!(parse_device_arg(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_timeout_is_a_number_of_seconds() {
        assert_eq!(parse_seconds_arg("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_seconds_arg("1e-9"), Ok(Duration::from_nanos(1)));
    }
}
