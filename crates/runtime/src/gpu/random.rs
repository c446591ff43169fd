//! Calls of cuRAND's host API, answered by NVIDIA's library.
//!
//! The artifact passes them as launches under the function's name; `include/curand.h` has the same
//! structure. The library is loaded by the first call.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::Mutex;

use super::library::library_refusal;
use crate::{Launch, REPORT_IT, end_with_report, refuse_replay};
use replay_cuda::LibraryError;
use replay_cuda::random::{Generator, GeneratorAnswer, Random, RandomDistribution, find_curand};

/// `replay_rt::curand_call`.
#[derive(Clone, Copy)]
#[repr(C)]
struct RandomCall {
    status: *mut i32,
    /// Tells generators apart.
    generator: u64,
    seed: u64,
    offset: u64,
    count: u64,
    out: *mut c_void,
    kind: i32,
    mean: f32,
    deviation: f32,
    /// Whether the seed was set since the last call, and whether the offset was.
    sets_seed: bool,
    sets_offset: bool,
}

#[derive(Default)]
struct OpenedRandom {
    random: Option<Random>,
    generators: HashMap<u64, Generator>,
}

/// The library of this process, once a call has needed it.
pub(super) struct RandomCalls {
    folders: Vec<PathBuf>,
    opened: Mutex<OpenedRandom>,
}

impl RandomCalls {
    /// Calls of the library in one of `folders`.
    pub(super) fn new(folders: Vec<PathBuf>) -> RandomCalls {
        RandomCalls { folders, opened: Mutex::default() }
    }

    /// Makes the call in `launch`. Ends the process if there is no such library.
    pub(super) fn run(&self, launch: &Launch) {
        let numbers = match launch.kernel {
            "curandGenerate" => RandomDistribution::Bits,
            "curandGenerateUniform" => RandomDistribution::Uniform,
            "curandGenerateNormal" => RandomDistribution::Normal,
            _ => refuse_unknown_random(launch.kernel),
        };
        // SAFETY: the artifact passes a structure of this size.
        let call = unsafe {
            if *launch.arg_sizes != size_of::<RandomCall>() {
                refuse_unknown_random(launch.kernel);
            }
            *(*launch.args).cast::<RandomCall>()
        };
        let mut opened_library = self.opened.lock().expect("no code panics while it holds this");
        // SAFETY: the artifact passes memory of the device.
        let answer = unsafe { self.answer(&mut opened_library, numbers, &call) };
        match answer {
            // SAFETY: a variable of the artifact.
            Ok(status) => unsafe { *call.status = status },
            Err(error) => end_with_report(&library_refusal(launch.kernel, &error)),
        }
    }

    /// The library's status.
    ///
    /// # Safety
    /// The destination of `call` must be memory of the device.
    unsafe fn answer(
        &self,
        opened_library: &mut OpenedRandom,
        numbers: RandomDistribution,
        call: &RandomCall,
    ) -> Result<i32, LibraryError> {
        if opened_library.random.is_none() {
            opened_library.random = Some(Random::open(find_curand(&self.folders)?)?);
        }
        let random = opened_library.random.as_ref().expect("opened just now");
        let generator = match opened_library.generators.get(&call.generator) {
            Some(&generator) => generator,
            None => match random.create(call.kind)? {
                GeneratorAnswer::Made(generator) => {
                    *opened_library.generators.entry(call.generator).or_insert(generator)
                }
                GeneratorAnswer::Refused(status) => return Ok(status),
            },
        };
        let seed = call.sets_seed.then_some(call.seed);
        let status = random.set(generator, seed, call.sets_offset.then_some(call.offset))?;
        if status != 0 {
            return Ok(status);
        }
        let room = (call.out, call.count as usize);
        // SAFETY: promised by the caller.
        unsafe { random.generate(generator, numbers, room, (call.mean, call.deviation)) }
    }
}

fn refuse_unknown_random(function: &str) -> ! {
    let message = format!("{function} was called, and no call of cuRAND is known by this name");
    refuse_replay(message, Some(REPORT_IT.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ChildReport;

    #[test]
    fn a_call_without_the_library_names_the_function_and_the_way_out() {
        let error = find_curand(&["/usr/lib64/none".into()]).unwrap_err();
        let ChildReport::Refused { message, hint } =
            library_refusal("curandGenerateUniform", &error)
        else {
            panic!("the machine is at fault, not the kernel");
        };
        insta::assert_snapshot!(message, @"curandGenerateUniform was called: no libcurand: looked in /usr/lib64/none");
        insta::assert_snapshot!(hint.unwrap(), @"install it with `pip install nvidia-curand` for CUDA 13, `pip install nvidia-curand-cu12` for CUDA 12, or name CUDA's folder in CUDA_HOME");
    }
}
