//! The device that kernels run on, and the compiler for it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::ReplayError;
use super::pool::Pool;
use crate::cache::Cache;
use crate::compile::DeviceToolchain;
use crate::fixture::Fixture;
use crate::runtime::gpu::{self, DeviceInfo, GpuError, Nvrtc, NvrtcError, SearchPath};
use crate::sanitizer::Sanitizer;
use crate::tensor::DType;

/// The device that kernels run on.
#[derive(Clone, Debug)]
pub enum Backend {
    /// The reference machine.
    Cpu,
    /// GPUs. What they cannot do, other roundings and orders and float64 shadows, runs on the CPU.
    Cuda(Arc<Cuda>),
}

/// GPUs of one kind, and the compiler for them.
#[derive(Debug)]
pub struct Cuda {
    /// The first of them.
    device: DeviceInfo,
    pub(super) pool: Pool,
    pub(super) toolchain: DeviceToolchain,
    /// The most bytes of a device's memory that one replay may have.
    pub(super) memory_bytes: u64,
    /// What every replay is repeated under.
    pub(super) sanitizer: Option<Sanitizer>,
}

/// Why a GPU cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// No driver, or no such device.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// No compiler for it.
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
}

impl BackendError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            BackendError::Gpu(error) => error.hint(),
            BackendError::Nvrtc(error) => error.hint(),
        }
    }
}

impl Cuda {
    /// The modules that summarise the outputs of `fixture`.
    pub(super) fn summaries(
        &self,
        fixture: &Fixture,
    ) -> Result<Vec<(DType, PathBuf)>, ReplayError> {
        let dtypes: BTreeSet<DType> = fixture.outputs.iter().map(|output| output.dtype).collect();
        let module = |dtype| Ok((dtype, self.toolchain.summary(dtype)?));
        dtypes.into_iter().map(module).collect::<Result<_, _>>().map_err(ReplayError::Compile)
    }
}

impl Backend {
    /// GPU number `ordinal`, or without a number every GPU that is like the first, with the NVRTC
    /// that `search` finds; all of a device's memory unless `memory_bytes` says otherwise.
    ///
    /// # Errors
    /// [`BackendError`] if the driver, the device or NVRTC is missing.
    pub fn cuda(
        ordinal: Option<usize>,
        memory_bytes: Option<u64>,
        search: &SearchPath,
        cache: &Cache,
    ) -> Result<Backend, BackendError> {
        let device = gpu::device(ordinal.unwrap_or(0))?;
        let ordinals = match ordinal {
            Some(ordinal) => vec![ordinal],
            None => like(&device, &gpu::devices()?),
        };
        let nvrtc = Nvrtc::find(search)?;
        let toolchain = DeviceToolchain::new(nvrtc, search, &device.architecture, cache);
        let memory_bytes = memory_bytes.unwrap_or(device.memory_bytes as u64);
        let pool = Pool::new(ordinals);
        Ok(Backend::Cuda(Arc::new(Cuda { device, pool, toolchain, memory_bytes, sanitizer: None })))
    }

    /// The same, but every replay is repeated under `sanitizer`; the CPU has its own checks.
    pub fn sanitized(self, sanitizer: Sanitizer) -> Backend {
        match self {
            Backend::Cpu => Backend::Cpu,
            Backend::Cuda(cuda) => Backend::Cuda(Arc::new(Cuda {
                device: cuda.device.clone(),
                pool: Pool::new(cuda.pool.ordinals()),
                toolchain: cuda.toolchain.clone(),
                memory_bytes: cuda.memory_bytes,
                sanitizer: Some(sanitizer),
            })),
        }
    }

    /// How many replays can run at a time without sharing a device.
    pub fn devices(&self) -> usize {
        match self {
            Backend::Cpu => 1,
            Backend::Cuda(cuda) => cuda.pool.len(),
        }
    }

    /// The device's class, `cpu` or `sm_90`, and its description for people.
    pub(super) fn describe(&self) -> (String, String) {
        match self {
            Backend::Cpu => ("cpu".to_owned(), "CPU".to_owned()),
            Backend::Cuda(cuda) => (cuda.device.architecture.clone(), cuda.device.describe()),
        }
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
