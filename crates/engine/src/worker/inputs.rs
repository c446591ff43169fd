//! Large inputs common to all replays of a fixture: they are laid out in memory once. Each replay maps this memory
//! privately, so no other replay sees its writes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::Job;
use super::memory::{self, OutputMemory};
use super::run::{ALIGNMENT, bytes_of};
use replay_base::process;
use replay_base::scratch::Budget;
use replay_base::tensor::parallel;
use replay_fixture::fixture::{Fixture, Input};
use replay_runtime::cpu::pages_of;

/// The places of such inputs.
#[derive(Clone, Debug, Default)]
pub(super) struct Common {
    /// By name, with the offsets of their pages.
    places: Vec<(String, usize)>,
    bytes: usize,
}

impl Common {
    /// Those of `fixture` in replays like `job`: large inputs as the fixture holds them. Strided ones are not among them: the
    /// gaps between their elements hold the poison, and it differs between replays.
    pub(super) fn from_fixture(fixture: &Fixture, job: &Job) -> Common {
        let mut common = Common::default();
        for input in fixture.inputs.iter().filter(|input| is_common(input, job)) {
            let pages = common.bytes.next_multiple_of(ALIGNMENT);
            common.bytes = pages + pages_of(bytes_of(input, job.is_shadow())).0;
            common.places.push((input.name.clone(), pages));
        }
        // Shared memory is a file to this limit.
        if common.bytes as u64 <= process::file_limit() { common } else { Common::default() }
    }

    /// Where the pages of the input called `name` begin.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.places.iter().find(|(known_name, _)| known_name == name).map(|(_, pages)| *pages)
    }
}

fn is_common(input: &Input, job: &Job) -> bool {
    let is_here = input.present && !input.dims.is_empty() && !job.device.is_gpu();
    let is_as_captured = input.strides.is_none() && !(job.is_shadow() && input.dtype.is_float());
    is_here && is_as_captured && bytes_of(input, job.is_shadow()) >= memory::REUSED
}

/// The common inputs of one fixture, as a series has them laid out.
pub(super) struct Captured {
    /// Two with the same text hold the same elements.
    identity: String,
    pub(super) common: Common,
    inputs: Vec<Input>,
}

impl Captured {
    pub(super) fn from_fixture(fixture: &Fixture, job: &Job) -> Captured {
        let common = Common::from_fixture(fixture, job);
        let inputs: Vec<Input> = fixture
            .inputs
            .iter()
            .filter(|input| common.place(&input.name).is_some())
            .cloned()
            .collect();
        // A shadow shares integers only, so it has fewer common inputs.
        let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
        let dir = fixture.dir.display();
        let identity = format!("{dir}\n{}{names:?}", fixture.stat_identity());
        Captured { identity, common, inputs }
    }

    /// Writes their elements to `file`.
    fn write(&self, file: &File) -> io::Result<()> {
        for input in &self.inputs {
            let packed = input.packed().map_err(io::Error::other)?;
            let pages = self.common.place(&input.name).unwrap_or_default();
            write_in_parallel(file, pages + pages_of(packed.len()).1, &packed)?;
        }
        Ok(())
    }
}

/// Writes `bytes` to `file` from `file_offset` on, on all cores: most of the time goes into making its pages.
fn write_in_parallel(file: &File, file_offset: usize, bytes: &[u8]) -> io::Result<()> {
    const STRETCH: usize = 4 << 20;
    let mut write_results: Vec<io::Result<()>> = Vec::new();
    write_results.resize_with(bytes.len().div_ceil(STRETCH), || Ok(()));
    parallel::fill_in_parallel(
        parallel::count_cores(),
        &mut write_results,
        1,
        STRETCH,
        |first, part_results| {
            for (number, result) in part_results.iter_mut().enumerate() {
                let offset = (first + number) * STRETCH;
                let stretch = &bytes[offset..bytes.len().min(offset + STRETCH)];
                *result = file.write_all_at(stretch, (file_offset + offset) as u64);
            }
        },
    );
    write_results.into_iter().collect()
}

/// The inputs in memory at the moment.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    /// By their identity, the last used at the end.
    laid_out: Mutex<Vec<(String, Arc<OutputMemory>)>>,
}

/// Of so many fixtures they are kept.
const KEPT: usize = 2;

impl Inputs {
    /// Memory with the inputs of `captured`. The first caller lays it out, in a file in `folder` if memory is short. None if
    /// nothing is common or there is no room: replays then have inputs of their own.
    pub(super) fn lay_out(&self, captured: &Captured, folder: &Path) -> Option<Arc<OutputMemory>> {
        if captured.inputs.is_empty() {
            return None;
        }
        // Others wait: they most likely want the same.
        let mut all_memories = self.lock();
        let known_index =
            all_memories.iter().position(|(identity, _)| *identity == captured.identity);
        let entry = match known_index {
            Some(index) => all_memories.remove(index),
            None => {
                let first = (all_memories.len() + 1).saturating_sub(KEPT);
                all_memories.drain(..first);
                let begun = Instant::now();
                let bytes = captured.common.bytes;
                let memory = OutputMemory::written(bytes, folder, |file| captured.write(file));
                let memory = memory
                    .inspect_err(|error| tracing::debug!(%error, "laid no inputs out"))
                    .ok()?;
                tracing::debug!(bytes, time = ?begun.elapsed(), "laid the inputs out");
                (captured.identity.clone(), Arc::new(memory))
            }
        };
        let memory = entry.1.clone();
        all_memories.push(entry);
        Some(memory)
    }

    /// Gives unused ones up if memory has no room for `bytes` more.
    pub(super) fn make_room(&self, bytes: usize) {
        if bytes >= memory::LARGE_OUTPUTS && Budget::of_process().left() < bytes {
            self.lock().retain(|(_, memory)| Arc::strong_count(memory) > 1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(String, Arc<OutputMemory>)>> {
        self.laid_out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::run::DeclaredTensors;
    use crate::worker::{CallPart, DeviceJob, JobCalls};
    use replay_base::summary::POISON_A;
    use replay_base::tensor::DType;
    use replay_fixture::fixture::{self, InputElements};
    use replay_frontend::Precision;
    use replay_runtime::cpu::Rounding;

    /// Elements of 4 bytes that are large together.
    const LARGE: usize = (4 << 20) / 4 + 3;

    fn written(value: u8) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let harness = "sources = [\"a.cu\"]\ncall = \"run(x, k, few);\"\n\
             [inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
             [inputs.k]\ndtype = \"i32\"\nshape = [\"n\"]\n\
             [inputs.few]\ndtype = \"f32\"\nshape = [2]\n\
             [outputs.out]\ndtype = \"f32\"\nshape = [\"n\"]\n";
        std::fs::write(folder.path().join("replay.toml"), harness).unwrap();
        let toml = "harness = \"replay.toml\"\n";
        std::fs::write(folder.path().join("fixture.toml"), toml).unwrap();
        let x = vec![value; 4 * LARGE];
        let k = vec![3; 4 * LARGE];
        let tensors: [fixture::NewTensor; 3] = [
            ("x", DType::F32, &[LARGE], &x),
            ("k", DType::I32, &[LARGE], &k),
            ("few", DType::F32, &[2], &[0; 8]),
        ];
        fixture::write_safetensors(folder.path(), &tensors, &[]).unwrap();
        folder
    }

    fn job(folder: &Path, is_shadow: bool) -> Job {
        let threads = 1;
        let order = 0;
        let rounding = Rounding::Nearest;
        Job {
            artifact: "unused".into(),
            fixture: folder.to_owned(),
            elements: InputElements::Captured,
            precision: if is_shadow { Precision::Shadow } else { Precision::Native },
            device: DeviceJob::Cpu { threads, order, rounding, record: std::path::PathBuf::new() },
            poison: POISON_A,
            memory_limit_bytes: 1 << 30,
            folder: folder.to_owned(),
            step: None,
            part: CallPart::Whole,
            calls: JobCalls::Once,
        }
    }

    fn captured(folder: &Path, shadow: bool) -> Captured {
        Captured::from_fixture(&Fixture::load(folder).unwrap(), &job(folder, shadow))
    }

    fn names(captured: &Captured) -> Vec<&str> {
        captured.inputs.iter().map(|input| input.name.as_str()).collect()
    }

    #[test]
    fn large_inputs_are_laid_out_once_for_all_replays_that_have_them_as_captured() {
        let one = written(1);
        let other = written(2);
        let inputs = Inputs::default();
        let of = |captured: &Captured| inputs.lay_out(captured, one.path()).unwrap();
        let native = captured(one.path(), false);
        let again = captured(one.path(), false);
        let shadow = captured(one.path(), true);
        let other = captured(other.path(), false);
        assert_eq!((names(&native), names(&shadow)), (vec!["x", "k"], vec!["k"]));
        let first = of(&native);
        assert!(Arc::ptr_eq(&first, &of(&again)));
        assert!(!Arc::ptr_eq(&first, &of(&shadow)) && !Arc::ptr_eq(&first, &of(&other)));
        for (name, value) in [("x", 1), ("k", 3)] {
            let mut bytes = vec![0; 4 * LARGE];
            let begin = native.common.place(name).unwrap() + pages_of(bytes.len()).1;
            first.file().read_exact_at(&mut bytes, begin as u64).unwrap();
            assert!(bytes.iter().all(|&byte| byte == value), "{name}");
        }
        let refused = first.file().write_all_at(&[9], 0).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn a_replay_s_own_inputs_lie_apart_from_its_outputs() {
        let folder = written(1);
        let fixture = Fixture::load(folder.path()).unwrap();
        let shadow = job(folder.path(), true);
        let layout = |job: &Job, common: &Common, part: &CallPart| {
            let layout = DeclaredTensors::from_fixture(&fixture, job, common).layout(part);
            let inputs: Vec<String> = layout.inputs.into_iter().map(|(name, _)| name).collect();
            (inputs, layout.input_bytes, layout.bytes)
        };
        let common = Common::from_fixture(&fixture, &shadow);
        let (inputs, input_bytes, bytes) = layout(&shadow, &common, &CallPart::Whole);
        assert_eq!(inputs, ["x"]);
        let wide = pages_of(8 * LARGE).0;
        assert_eq!((input_bytes, bytes), (wide, wide));
        let told = CallPart::Told("none".to_owned());
        assert_eq!(layout(&shadow, &common, &told), (inputs, wide, 0));
        let native = job(folder.path(), false);
        let (inputs, input_bytes, _) =
            layout(&native, &Common::from_fixture(&fixture, &native), &told);
        assert_eq!((inputs.len(), input_bytes), (0, 0));
    }

    #[test]
    fn memory_that_is_short_takes_the_inputs_that_no_replay_uses() {
        let one = written(1);
        let other = written(2);
        let inputs = Inputs::default();
        let used = inputs.lay_out(&captured(one.path(), false), one.path()).unwrap();
        drop(inputs.lay_out(&captured(other.path(), false), one.path()).unwrap());
        inputs.make_room(1);
        assert_eq!(inputs.lock().len(), 2);
        inputs.make_room(usize::MAX);
        assert!(Arc::ptr_eq(&inputs.lock()[0].1, &used));
        assert_eq!(inputs.lock().len(), 1);
    }
}
