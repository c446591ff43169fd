//! GPUs of one kind. The reference machine, which runs the same host code, does what they cannot:
//! other roundings, other orders and float64 shadows.

mod pool;
mod sanitized;
mod variant;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use self::pool::Pool;
use self::variant::CudaVariant;
use super::{Backend, Cpu, DeviceName, Held, NoRoom, ReplayError, Variant, room};
use crate::cache::Cache;
use crate::compile::DeviceToolchain;
use crate::cuda::sanitizer::Sanitizer;
use crate::cuda::{self, DeviceInfo, GpuError, Nvrtc, NvrtcError, SearchPath};
use crate::fixture::Fixture;
use crate::frontend::Precision;
use crate::history::SourceSet;
use crate::tensor::DType;

/// GPUs of one kind, and the compiler for them.
#[derive(Clone, Debug)]
pub struct Cuda {
    shared: Arc<Shared>,
    /// The tool that every replay is repeated under.
    sanitizer: Option<Sanitizer>,
}

#[derive(Debug)]
struct Shared {
    /// The machine that the GPUs belong to.
    cpu: Cpu,
    /// The first of them.
    device: DeviceInfo,
    pool: Pool,
    toolchain: DeviceToolchain,
    search: SearchPath,
    /// The most bytes of a device's memory that one replay may have.
    memory_bytes: u64,
    cache: Cache,
}

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
    /// first, with the NVRTC that `search` finds. A replay may use `memory_bytes` of a device's
    /// memory, by default all.
    ///
    /// # Errors
    /// [`DeviceError`] if the driver, the device or NVRTC is missing.
    pub fn new(
        cpu: Cpu,
        ordinal: Option<usize>,
        memory_bytes: Option<u64>,
        search: &SearchPath,
        cache: &Cache,
    ) -> Result<Cuda, DeviceError> {
        let device = cuda::device(ordinal.unwrap_or(0))?;
        let ordinals = match ordinal {
            Some(ordinal) => vec![ordinal],
            None => like(&device, &cuda::devices()?),
        };
        let nvrtc = Nvrtc::find(search)?;
        let toolchain = DeviceToolchain::new(nvrtc, search, &device.architecture, cache);
        let memory_bytes = memory_bytes.unwrap_or(device.memory_bytes as u64);
        let (pool, cache) = (Pool::new(ordinals), cache.clone());
        let search = search.clone();
        let shared = Shared { cpu, device, pool, toolchain, search, memory_bytes, cache };
        Ok(Cuda { shared: Arc::new(shared), sanitizer: None })
    }

    /// The same, but every replay is repeated under `sanitizer`.
    pub fn sanitized(self, sanitizer: Sanitizer) -> Cuda {
        Cuda { sanitizer: Some(sanitizer), ..self }
    }
}

impl Shared {
    /// The modules that summarise the outputs of `fixture`.
    fn summaries(&self, fixture: &Fixture) -> Result<Vec<(DType, PathBuf)>, ReplayError> {
        let dtypes: BTreeSet<DType> = fixture.outputs.iter().map(|output| output.dtype).collect();
        let module = |dtype| Ok((dtype, self.toolchain.summary(dtype)?));
        dtypes.into_iter().map(module).collect()
    }
}

impl Shared {
    /// The folders with NVIDIA's libraries, if `sources` may call one of them.
    fn libraries(&self, sources: &SourceSet) -> Vec<PathBuf> {
        let calls = |text: &[u8]| text.windows(6).any(|word| word == b"cublas");
        let any = sources.files.iter().any(|file| calls(&file.content));
        if any { self.search.folders() } else { Vec::new() }
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
        let (device, memory) = (self.device().description, self.shared.memory_bytes);
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

    /// What GPUs cannot do is done by the machine that they belong to.
    fn room(&self, fixture: &Fixture, precision: Precision, held: Held) -> Result<(), NoRoom> {
        let Shared { cpu, device, memory_bytes, .. } = &*self.shared;
        if precision == Precision::Native {
            let all = device.memory_bytes as u64;
            room::on_device(fixture, precision, all.min(*memory_bytes), *memory_bytes >= all)?;
        }
        cpu.room(fixture, precision, held)
    }

    fn expect_many(&self) {
        self.shared.cpu.expect_many();
    }

    fn prepare(
        &self,
        fixture: &Arc<Fixture>,
        sources: &SourceSet,
        precision: Precision,
        meanwhile: &(dyn Fn() + Sync),
    ) -> Result<Arc<dyn Variant>, ReplayError> {
        let host = self.shared.cpu.variant(fixture, sources, precision, meanwhile)?;
        if precision != Precision::Native {
            return Ok(Arc::new(host));
        }
        let module = self.shared.toolchain.compile(&fixture.harness, sources)?;
        let (cuda, sanitizer) = (self.shared.clone(), self.sanitizer.clone());
        let libraries = self.shared.libraries(sources);
        let (fixture, sources) = (fixture.clone(), sources.clone());
        Ok(Arc::new(CudaVariant { cuda, sanitizer, fixture, sources, host, module, libraries }))
    }
}

/// The numbers of the devices that are of the kind of `device`, which modules are built for.
fn like(device: &DeviceInfo, all: &[DeviceInfo]) -> Vec<usize> {
    let same = |other: &&DeviceInfo| {
        (&other.name, &other.architecture) == (&device.name, &device.architecture)
    };
    all.iter().filter(same).map(|other| other.ordinal).collect()
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
        assert_eq!(like(&all[0], &all), [0, 2]);
        assert_eq!(like(&all[1], &all), [1]);
    }
}
