//! GPUs of one kind. The reference machine runs the same host code. It provides other roundings, other orders, and the
//! float64 shadows without device code.

mod pool;
mod sanitized;
mod shadow;
mod variant;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use self::pool::DevicePool;
use self::shadow::CudaShadow;
use self::variant::CudaVariant;
use super::{Backend, CpuBackend, DeviceName, Held, NoRoom, ReplayError, Variant, room};
use crate::compile::{Artifact, DeviceModule, DeviceToolchain};
use crate::environment::{Environment, place_fixture};
use crate::worker::tensor_bytes;
use replay_base::cache::Cache;
use replay_base::concurrent::run_both;
use replay_base::tensor::DType;
use replay_cuda::sanitizer::Sanitizer;
use replay_cuda::{DeviceInfo, GpuError, Nvrtc, NvrtcError, SearchPath};
use replay_fixture::fixture::Fixture;
use replay_frontend::Precision;
use replay_history::SourceSet;

/// GPUs of one kind, and the compiler for them.
#[derive(Clone, Debug)]
pub struct Cuda {
    shared: Arc<CudaShared>,
    /// The tool for a repetition of every replay.
    sanitizer: Option<Sanitizer>,
}

#[derive(Debug)]
struct CudaShared {
    /// The machine of the GPUs.
    cpu: CpuBackend,
    /// The first of them.
    device: DeviceInfo,
    pool: Arc<DevicePool>,
    toolchain: DeviceToolchain,
    /// Where it is not the session's own.
    environment: Option<Arc<Environment>>,
    search: SearchPath,
    /// The most bytes of a device's memory for one replay.
    memory_limit_bytes: u64,
    /// From how many bytes of tensors on, in float64, shadows and other roundings run on the device.
    evidence_from: u64,
    cache: Cache,
}

/// From how many bytes of tensors on, in float64, shadows and other roundings run on the device. A replay on the CPU takes less
/// time than a context where the tensors are smaller.
const EVIDENCE_FROM: u64 = 256 << 20;

/// Why a GPU cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// No driver, or no such device.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// No compiler for it.
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
}

impl DeviceError {
    /// Advice to the user, if there is any.
    pub fn hint(&self) -> Option<String> {
        match self {
            DeviceError::Gpu(error) => error.hint(),
            DeviceError::Nvrtc(error) => error.hint(),
        }
    }
}

impl Cuda {
    /// GPU number `ordinal` of the machine of `cpu`, or without a number every GPU of the kind of the
    /// first, with NVRTC from `search`. A replay may use `memory_limit_bytes` of a device's
    /// memory, by default all.
    ///
    /// # Errors
    /// [`DeviceError`] if the driver, the device or NVRTC is missing.
    pub fn new(
        cpu: CpuBackend,
        ordinal: Option<usize>,
        memory_limit_bytes: Option<u64>,
        search: &SearchPath,
        cache: &Cache,
    ) -> Result<Cuda, DeviceError> {
        let device = replay_cuda::find_gpu(ordinal.unwrap_or(0))?;
        let ordinals = match ordinal {
            Some(ordinal) => vec![ordinal],
            None => find_like_devices(&device, &replay_cuda::list_gpus()?),
        };
        let nvrtc = Nvrtc::find(search)?;
        let toolchain = DeviceToolchain::new(nvrtc, search, &device.architecture, cache)
            .with_sandbox(cpu.host().sandbox());
        let memory_limit_bytes = memory_limit_bytes.unwrap_or(device.memory_bytes as u64);
        let pool = Arc::new(DevicePool::new(ordinals));
        let cache = cache.clone();
        let search = search.clone();
        let evidence_from = EVIDENCE_FROM;
        let cuda_shared = CudaShared {
            cpu,
            device,
            pool,
            toolchain,
            environment: None,
            search,
            memory_limit_bytes,
            evidence_from,
            cache,
        };
        Ok(Cuda { shared: Arc::new(cuda_shared), sanitizer: None })
    }

    /// The same, but shadows and other roundings run on the device from so many bytes of tensors on. For tests.
    ///
    /// # Panics
    /// If variants were prepared already.
    pub fn with_evidence_from(mut self, bytes: u64) -> Cuda {
        let cuda_shared = Arc::get_mut(&mut self.shared).expect("no variant was prepared");
        cuda_shared.evidence_from = bytes;
        self
    }

    /// The same, but every replay is repeated under `sanitizer`.
    pub fn sanitized(self, sanitizer: Sanitizer) -> Cuda {
        Cuda { sanitizer: Some(sanitizer), ..self }
    }
}

impl CudaShared {
    /// The modules for summaries of the outputs of `fixture`.
    fn summaries(&self, fixture: &Fixture) -> Result<Vec<(DType, PathBuf)>, ReplayError> {
        let dtypes: BTreeSet<DType> = fixture.outputs.iter().map(|output| output.dtype).collect();
        dtypes.into_iter().map(|dtype| Ok((dtype, self.toolchain.summary(dtype)?))).collect()
    }

    /// The module of the shadow of `sources` for the device, if it is worth while there and can run there.
    fn shadow(
        &self,
        fixture: &Fixture,
        sources: &SourceSet,
        host: &Artifact,
    ) -> Result<Option<DeviceModule>, ReplayError> {
        let bytes = wide_bytes(fixture);
        // Inputs lie there as they are stored, too.
        let (stored_bytes, _) = tensor_bytes(fixture, false);
        let room = self.memory_limit_bytes.min(self.device.memory_bytes as u64);
        if bytes < self.evidence_from || bytes.saturating_add(stored_bytes) > room {
            return Ok(None);
        }
        match self.toolchain.compile_shadow(&fixture.harness, sources, Some(host))? {
            Ok(module) => Ok(Some(module)),
            Err(why) => {
                tracing::info!("the float64 shadow runs on the CPU: {why}");
                Ok(None)
            }
        }
    }
}

impl CudaShared {
    /// Whether the device has room for all tensors of two revisions at a time.
    pub(super) fn has_room_for_both(&self, fixture: &Fixture) -> bool {
        let (wide_inputs, wide_outputs) = tensor_bytes(fixture, true);
        let (inputs, outputs) = tensor_bytes(fixture, false);
        // Deviations take the inputs twice, the outputs of two calls, and two numbers for each element; the shadow its
        // inputs as they are stored, too.
        let deviations = [inputs, inputs, outputs, outputs, wide_outputs, wide_outputs];
        let shadow = [inputs, wide_inputs, wide_outputs];
        let wanted_bytes = deviations.into_iter().chain(shadow).fold(0, u64::saturating_add);
        wanted_bytes.saturating_mul(2)
            <= self.memory_limit_bytes.min(self.device.memory_bytes as u64)
    }

    /// Whether the device measures how far directed rounding moves the outputs of `module` on `fixture`.
    fn deviates(&self, fixture: &Fixture, module: &DeviceModule) -> bool {
        if wide_bytes(fixture) < self.evidence_from || !self.has_room_for_both(fixture) {
            return false;
        }
        let mut floats = fixture.outputs.iter().filter(|output| output.dtype.is_float());
        if let Some(output) = floats.find(|output| !DEVIATING.contains(&output.dtype)) {
            tracing::info!("rounding is the CPU's: {} is {}", output.name, output.dtype);
            return false;
        }
        match module.rounding_obstacle() {
            None => true,
            Some(obstacle) => {
                tracing::info!("rounding is the CPU's: {obstacle}");
                false
            }
        }
    }

    /// The folders with NVIDIA's libraries, if `sources` may call one of them.
    fn libraries(&self, sources: &SourceSet) -> Vec<PathBuf> {
        let mut words = sources.files.iter().flat_map(|file| file.content.windows(6));
        if words.any(|word| matches!(word, b"cublas" | b"curand")) {
            self.search.folders()
        } else {
            Vec::new()
        }
    }
}

impl Backend for Cuda {
    fn device(&self) -> DeviceName {
        let device = &self.shared.device;
        DeviceName { class: device.architecture.clone(), description: device.describe() }
    }

    fn compiler(&self) -> &str {
        self.shared.cpu.compiler()
    }

    fn identity(&self) -> String {
        let device = self.device().description;
        let memory = self.shared.memory_limit_bytes;
        format!("{device} {memory} {}", self.shared.cpu.identity())
    }

    fn has_given_up(&self) -> bool {
        self.shared.cpu.has_given_up()
    }

    fn timeouts(&self) -> u64 {
        self.shared.cpu.timeouts()
    }

    fn checker(&self) -> Option<String> {
        let sanitizer = self.sanitizer.as_ref()?;
        let version = sanitizer.version().unwrap_or_default();
        Some(format!("{} {version}", sanitizer.tool().name()))
    }

    /// The machine of the GPUs does the rest of the work, so it needs room as well.
    fn room(
        &self,
        fixture: &Fixture,
        precision: Precision,
        held_evidence: Held,
    ) -> Result<(), NoRoom> {
        if precision == Precision::Native {
            let CudaShared { device, memory_limit_bytes, .. } = &*self.shared;
            let device_bytes = device.memory_bytes as u64;
            room::on_device(
                fixture,
                precision,
                device_bytes.min(*memory_limit_bytes),
                *memory_limit_bytes >= device_bytes,
            )?;
        }
        self.shared.cpu.room(fixture, precision, held_evidence)
    }

    fn expect_many(&self) {
        self.shared.cpu.expect_many();
    }

    fn in_environment(&self, environment: &Arc<Environment>) -> Arc<dyn Backend> {
        let CudaShared { cpu, device, pool, toolchain, search, cache, .. } = &*self.shared;
        let shared = CudaShared {
            cpu: cpu.changed(environment),
            device: device.clone(),
            pool: pool.clone(),
            toolchain: match environment.nvrtc() {
                Some(nvrtc) => toolchain.clone().with_nvrtc(nvrtc.clone(), search),
                None => toolchain.clone(),
            },
            environment: Some(environment.clone()),
            search: search.clone(),
            memory_limit_bytes: self.shared.memory_limit_bytes,
            evidence_from: self.shared.evidence_from,
            cache: cache.clone(),
        };
        Arc::new(Cuda { shared: Arc::new(shared), sanitizer: self.sanitizer.clone() })
    }

    fn prepare(
        &self,
        fixture: &Arc<Fixture>,
        sources: &SourceSet,
        precision: Precision,
        meanwhile: &(dyn Fn() + Sync),
    ) -> Result<Arc<dyn Variant>, ReplayError> {
        let CudaShared { cpu, toolchain, environment, .. } = &*self.shared;
        let fixture = &place_fixture(environment.as_deref(), fixture);
        let harness = &fixture.harness;
        let (early_module, host) = run_both(
            || match precision {
                Precision::Native => toolchain.compile_early(harness, sources),
                Precision::Shadow | Precision::Checked => Ok(None),
            },
            || cpu.variant(fixture, sources, precision, meanwhile),
        );
        let host = host?;
        let module = match precision {
            Precision::Native => match early_module? {
                Some(module) => module,
                None => toolchain.compile(harness, sources, Some(&host.artifact))?,
            },
            Precision::Shadow if host.obstacles().is_empty() && !host.artifact.may_end => {
                match self.shared.shadow(fixture, sources, &host.artifact)? {
                    Some(module) => {
                        let cuda = self.shared.clone();
                        let fixture = fixture.clone();
                        return Ok(Arc::new(CudaShadow::new(cuda, fixture, host, module)));
                    }
                    None => return Ok(Arc::new(host)),
                }
            }
            Precision::Shadow | Precision::Checked => return Ok(Arc::new(host)),
        };
        let cuda = self.shared.clone();
        let sanitizer = self.sanitizer.clone();
        let libraries = self.shared.libraries(sources);
        // NVIDIA's libraries round to nearest.
        let deviates = libraries.is_empty() && self.shared.deviates(fixture, &module);
        let deviates = AtomicBool::new(deviates);
        let fixture = fixture.clone();
        let sources = sources.clone();
        Ok(Arc::new(CudaVariant {
            cuda,
            sanitizer,
            fixture,
            sources,
            host,
            module,
            libraries,
            deviates,
        }))
    }
}

/// The bytes of the tensors of `fixture` in float64.
fn wide_bytes(fixture: &Fixture) -> u64 {
    let (inputs, outputs) = tensor_bytes(fixture, true);
    inputs.saturating_add(outputs)
}

/// The elements whose deviations a device measures.
const DEVIATING: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

/// The numbers of the devices of the same kind as `device`. Modules are built for one kind.
fn find_like_devices(device: &DeviceInfo, all_devices: &[DeviceInfo]) -> Vec<usize> {
    all_devices
        .iter()
        .filter(|other_device| {
            (&other_device.name, &other_device.architecture) == (&device.name, &device.architecture)
        })
        .map(|like_device| like_device.ordinal)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_devices_of_one_kind_share_the_work() {
        let device = |ordinal, name: &str, architecture: &str| DeviceInfo {
            ordinal,
            name: name.to_owned(),
            architecture: architecture.to_owned(),
            driver: (13, 0),
            memory_bytes: 1 << 30,
        };
        let all = [
            device(0, "NVIDIA H200", "sm_90"),
            device(1, "NVIDIA T4", "sm_75"),
            device(2, "NVIDIA H200", "sm_90"),
        ];
        assert_eq!(find_like_devices(&all[0], &all), [0, 2]);
        assert_eq!(find_like_devices(&all[1], &all), [1]);
    }
}
