//! Cache, compiler and devices of replaying commands. Options are parsed into [`SessionArgs`], become part of the
//! [`Settings`], and one [`Session`] is built of these.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::replay::backend::cuda::DeviceError;
use ::replay::backend::{Backend, CpuBackend, Cuda, DeviceName, Host, Programs};
use ::replay::cache::Cache;
use ::replay::compile::{Compiler, Toolchain};
use ::replay::cuda::sanitizer::{Sanitizer, Tool};
use ::replay::cuda::{self, SearchPath};
use ::replay::environment::EnvironmentError;
use ::replay::foreign::Keeper;
use ::replay::harness::Harness;
use ::replay::process::walls::WallOffer;
use ::replay::program::{self, Runner};
use ::replay::trial::{GradientEffort, GradientWatcher, Lab};
use clap::{Args, ValueEnum};

use super::error::{CliResult, CommandError, ErrorContext};
use super::progress;
use super::settings::values::{
    DeviceArg, SandboxArg, format_devices, parse_bytes_arg, parse_device_arg, parse_gradients_arg,
    parse_seconds_arg, parse_threads_arg,
};
use super::settings::{Key, Layer, Origin, Setting, Settings};

/// Options of every replaying command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Replays")]
pub struct SessionArgs {
    /// Where kernels run: cpu, cuda (all GPUs of the first one's kind) or cuda:N; cpu,cuda compares
    /// them [default: cpu]
    #[arg(short, long, value_name = "DEVICE", value_parser = parse_device_arg, value_delimiter = ',')]
    backend: Option<Vec<DeviceArg>>,
    /// Repeat every replay on a GPU under NVIDIA's compute-sanitizer, and fail on what it finds
    #[arg(long, value_enum, value_name = "TOOL")]
    sanitize: Option<SanitizeArg>,
    /// Seconds that one replay may take [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds_arg, allow_negative_numbers = true)]
    timeout: Option<Duration>,
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
    /// How replayed code is kept from the rest of the machine: `replay help sandbox` [default: default]
    #[arg(long, value_enum, value_name = "MODE")]
    sandbox: Option<SandboxArg>,
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

impl SessionArgs {
    /// The settings among these options.
    pub fn layer(&self) -> Layer {
        Layer {
            backend: Setting::from_flag(self.backend.clone(), "--backend"),
            timeout: Setting::from_flag(self.timeout, "--timeout"),
            memory: Setting::from_flag(self.memory, "--memory"),
            threads: Setting::from_flag(self.threads, "--threads"),
            gradients: Setting::from_flag(self.gradients, "--gradients"),
            sandbox: Setting::from_flag(self.sandbox, "--sandbox"),
            ..Layer::default()
        }
    }

    /// Complains about a sanitizer without a GPU to use it on.
    fn require_gpu_to_sanitize(&self, backend: &[DeviceArg]) -> CliResult<()> {
        let is_on_cpu = backend.iter().all(|device| *device == DeviceArg::Cpu);
        if self.sanitize.is_some() && is_on_cpu {
            return Err(CommandError::new("--sanitize is for replays on a GPU").with_hint(
                "add --backend cuda; the CPU finds unwritten and out-of-bounds memory itself",
            ));
        }
        Ok(())
    }
}

/// Complains about a strict sandbox on a GPU, or on a system without a wall.
fn require_walls(settings: &Settings) -> CliResult<()> {
    if settings.sandbox.value != SandboxArg::Strict {
        return Ok(());
    }
    if settings.backend.value.iter().any(|device| *device != DeviceArg::Cpu) {
        return Err(CommandError::new("--sandbox=strict: a GPU's driver needs more")
            .with_hint("replay on the CPU, or with --sandbox=default")
            .with_hints(settings.sandbox.origin.hint()));
    }
    refuse_lacking_walls(WallOffer::of_this_system())
        .map_err(|error| error.with_hints(settings.sandbox.origin.hint()))
}

/// The means of replaying, built once of a command's options.
pub struct Session {
    settings: Settings,
    /// The tool for repetitions on a GPU.
    sanitize: Option<SanitizeArg>,
    /// Whether outcomes in the cache are left alone.
    fresh: bool,
    cache: Cache,
    /// The labs of harnesses with a call, one a device. Made when the first such harness is met.
    kernels: OnceCell<Vec<Arc<Lab>>>,
    /// The same of harnesses with a program.
    programs: OnceCell<Vec<Arc<Lab>>>,
}

impl Session {
    /// Opens the cache. Looks for neither compiler nor device yet.
    pub fn open(options: &SessionArgs, settings: Settings) -> CliResult<Session> {
        options.require_gpu_to_sanitize(&settings.backend.value)?;
        require_walls(&settings)?;
        let cache = open_session_cache(&settings)?;
        Ok(Session {
            settings,
            sanitize: options.sanitize,
            fresh: options.fresh,
            cache,
            kernels: OnceCell::new(),
            programs: OnceCell::new(),
        })
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How thoroughly gradients are checked.
    pub fn gradient_effort(&self) -> GradientEffort {
        self.settings.gradients.value
    }

    /// The cache of this session.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Removes what the cache holds beyond its size, if it has a limit.
    pub fn keep_cache_size(&self) {
        let Some(most_bytes) = self.settings.cache_size.value else { return };
        // The answer of the command stands whether or not there is room for the next one.
        match self.cache.shrink(most_bytes) {
            Ok(removed) => tracing::debug!(entries = removed.entries, "shrunk the cache"),
            Err(error) => CommandError::from(error).print(),
        }
    }

    /// Cores for thread blocks.
    pub fn threads(&self) -> usize {
        self.settings.threads()
    }

    /// Complains about several devices for a command of one.
    pub fn require_one_device(&self) -> CliResult<()> {
        self.one_device().map(|_| ())
    }

    /// The option that names the devices, with a blank before it, where this command has it: for the next command.
    pub fn backend_option(&self) -> String {
        let backend = &self.settings.backend;
        match backend.origin {
            Origin::Flag(name) => format!(" {name} {}", format_devices(&backend.value)),
            _ => String::new(),
        }
    }

    /// Whether one device was named.
    pub fn is_on_one_device(&self) -> bool {
        self.settings.backend.value.len() == 1
    }

    /// The classes of the named devices, as in outcomes.
    pub fn device_classes(&self) -> CliResult<String> {
        let mut classes = Vec::with_capacity(self.settings.backend.value.len());
        for device in &self.settings.backend.value {
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

    fn one_device(&self) -> CliResult<DeviceArg> {
        match self.settings.backend.value.as_slice() {
            &[device] => Ok(device),
            _ => Err(CommandError::new("this command takes one --backend")
                .with_hint("`replay FIXTURE --backend cpu,cuda` compares devices")
                .with_hints(self.settings.backend.origin.hint())),
        }
    }

    /// Complains about a harness that widens a strict sandbox: a checkout of a stranger's revision brings its own.
    fn require_closed_sandbox(&self, harness: &Harness) -> CliResult<()> {
        let widened = harness.program.as_ref().filter(|program| !program.sandbox.is_closed());
        if self.settings.sandbox.value != SandboxArg::Strict || widened.is_none() {
            return Ok(());
        }
        let path = harness.path.display();
        Err(CommandError::new(format!("--sandbox=strict: `[sandbox]` in {path} asks for more"))
            .with_hint("drop it there, or replay with --sandbox=default if you trust the harness")
            .with_hints(self.settings.sandbox.origin.hint()))
    }

    /// A lab for `harness` on each named device.
    pub fn labs_for(&self, harness: &Harness) -> CliResult<&[Arc<Lab>]> {
        self.require_closed_sandbox(harness)?;
        let runner = RevisionRunner::from_harness(harness);
        let known_labs = match runner {
            RevisionRunner::Kernels => &self.kernels,
            RevisionRunner::Program => &self.programs,
        };
        if let Some(labs) = known_labs.get() {
            return Ok(labs);
        }
        let mut labs = Vec::new();
        for &device in &self.settings.backend.value {
            labs.push(self.make_lab(runner, device, self.threads(), self.fresh)?);
        }
        Ok(known_labs.get_or_init(|| labs))
    }

    /// The lab for `harness`, of a command of one device.
    pub fn lab_for(&self, harness: &Harness) -> CliResult<&Arc<Lab>> {
        self.require_one_device()?;
        Ok(self.labs_for(harness)?.first().expect("a device was named"))
    }

    /// The C++ compiler `cxx` of an axis, run by `keeper`.
    ///
    /// # Errors
    /// [`EnvironmentError`] if it cannot be used.
    pub fn find_compiler(&self, cxx: &str, keeper: &Keeper) -> Result<Compiler, EnvironmentError> {
        let compiler = Compiler::find_known(Some(cxx), keeper, Some(&self.cache))?;
        let timeout = self.settings.timeout.value.saturating_mul(COMPILER_SHARE);
        Ok(compiler.with_timeout(timeout))
    }

    /// The labs of a search over trials of `harnesses`, with a share of the cores: one with the results of the cache, and
    /// one without.
    pub fn search_labs(&self, harnesses: &[&Harness], threads: usize) -> CliResult<[Arc<Lab>; 2]> {
        let device = self.one_device()?;
        for harness in harnesses {
            self.require_closed_sandbox(harness)?;
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
        let fresh = self.fresh;
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

    /// A lab for kernels on the CPU, whatever the device is.
    pub fn make_cpu_lab(&self) -> CliResult<Arc<Lab>> {
        self.make_lab(RevisionRunner::Kernels, DeviceArg::Cpu, self.threads(), self.fresh)
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
        let settings = &self.settings;
        if self.sanitize.is_some() {
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
        let limits = settings.limits();
        let runner = create_program_runner(settings, place, settings.threads(), &self.cache)?;
        let host = Host::new(own_file()?, limits, threads, self.cache.temporary());
        Ok(Arc::new(Programs::new(runner, host, name, device_bytes)))
    }

    /// Kernels compiled here, on `device`.
    fn kernel_backend(&self, device: DeviceArg, threads: usize) -> CliResult<Arc<dyn Backend>> {
        let settings = &self.settings;
        let cache = &self.cache;
        let compiler = find_session_compiler(settings, Some(cache))?
            .with_timeout(settings.timeout.value.saturating_mul(COMPILER_SHARE));
        let host = Host::new(own_file()?, settings.limits(), threads, cache.temporary());
        let host = host.with_sandbox(settings.sandbox.value.into());
        let cpu = CpuBackend::new(Toolchain::new(compiler, cache), host);
        let DeviceArg::Cuda(ordinal) = device else { return Ok(Arc::new(cpu)) };
        let search = search_path();
        let cuda = Cuda::new(cpu, ordinal, settings.memory.value, &search, cache)?;
        Ok(Arc::new(match self.sanitize {
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
    settings: &Settings,
    device: program::ProgramDevice,
    processes: usize,
    cache: &Cache,
) -> CliResult<Runner> {
    let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    // A program may keep a cache of its own beside replay's.
    if let Some(folder) = settings.cache_folder_of_file() {
        environment.retain(|(name, _)| name != Key::CacheDir.variable());
        environment.push((Key::CacheDir.variable().into(), folder.into()));
    }
    let limits = settings.limits();
    let setting = program::ProgramSettings { device, limits, environment, processes };
    let keeper = Keeper::new(&own_file()?).with_sandbox(settings.sandbox.value.into());
    Ok(Runner::new(keeper, cache.clone(), setting))
}

/// The cache, made if it does not exist.
pub fn open_session_cache(settings: &Settings) -> CliResult<Cache> {
    let cache = Cache::open(&settings.cache_folder()?)?;
    match settings.shared_cache_folder()? {
        Some(shared_folder) => Ok(cache.sharing(&shared_folder)?),
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

/// The C++ compiler of the settings, else the system's; `cache` may know it already.
pub fn find_session_compiler(settings: &Settings, cache: Option<&Cache>) -> CliResult<Compiler> {
    let cxx = settings.cxx.value.clone().map(OsString::into_string).transpose();
    let cxx = cxx.map_err(|cxx| {
        CommandError::new(format!("CXX is no text: {}", cxx.display()))
            .with_hint("name the compiler by a path that is UTF-8, such as a link to it")
    })?;
    find_named_compiler(settings, cxx.as_deref(), cache)
}

/// The same for `cxx` as the value of `CXX`.
pub fn find_named_compiler(
    settings: &Settings,
    cxx: Option<&str>,
    cache: Option<&Cache>,
) -> CliResult<Compiler> {
    let keeper = Keeper::new(&own_file()?).with_sandbox(settings.sandbox.value.into());
    Ok(Compiler::find_known(cxx, &keeper, cache)?)
}

/// This program's own file.
pub fn own_file() -> CliResult<PathBuf> {
    std::env::current_exe().context(|| "cannot find this program's own file")
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
