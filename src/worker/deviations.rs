//! How far directed rounding moves the outputs of a call, measured on a GPU in one process.
#![allow(unsafe_code)]

use std::fs::File;
use std::time::{Duration, Instant};

use super::child::{ChildError, processor_time};
use super::evaluations::Calls;
use super::inputs::Common;
use super::run::{Declared, bytes_of};
use super::tensors::Tensors;
use super::{Job, Part};
use crate::cuda::Direction;
use crate::fixture::{Fixture, Input};
use crate::runtime::artifact::LoadedArtifact;
use crate::runtime::{self, Deviating, Device, Pass, Runtime};

/// Makes the calls of `job`, and writes the deviations of each output to its place in `memory`.
pub(super) fn make(
    job: &Job,
    jump: f64,
    fixture: &Fixture,
    artifact: &LoadedArtifact,
    runtime: &'static Runtime,
    memory: File,
) -> Result<(), ChildError> {
    let Some(device) = runtime.device.deviating() else {
        return Err(ChildError::Deviations("the device measures none".to_owned()));
    };
    let begun = Instant::now();
    let told = Declared::of(fixture, job, &Common::default()).layout(&Part::Whole);
    let plain = Job { deviations: None, ..job.clone() };
    let all = Declared::of(fixture, &plain, &Common::default()).layout(&Part::Whole).outputs;
    let tensors = Tensors::new(&memory, told.bytes)?;
    // Replayed code finds no descriptor to change its size by.
    drop(memory);
    runtime::cpu::code_runs();
    let mut calls = Calls { fixture, artifact, runtime, all, tensors, time: Duration::ZERO };
    let begun_cpu = processor_time();
    let rounded = [Direction::Down, Direction::Up, Direction::TowardZero].map(Pass::Rounded);
    for pass in [Pass::Plain].into_iter().chain(rounded).chain([Pass::Again { jump }]) {
        device.begin(pass).map_err(ChildError::Deviations)?;
        let first = std::thread::scope(|scope| {
            if pass == Pass::Plain {
                // What has no thread for it comes on first use.
                let prepare = || device.prepare();
                let _ = std::thread::Builder::new().spawn_scoped(scope, prepare);
            }
            calls.make(&plain, |tensors, place, input| {
                tensors.add_again(&*runtime.device, (place, input), &plain, device, pass)
            })
        })?;
        let unsteady = taken(&calls, device, first, pass)?;
        if unsteady > 0 {
            // It keeps something from call to call, or races.
            let why = format!("a repetition moves {unsteady} elements further than rounding does");
            return Err(ChildError::Deviations(why));
        }
        calls.tensors.clear(&*runtime.device);
    }
    for output in &told.outputs {
        let place = calls.all.iter().position(|one| one.name == output.name);
        let Some(place) = place.filter(|_| !output.range().is_empty()) else { continue };
        let to = calls.tensors.place(output);
        // SAFETY: a part of the mapping, as long as the deviations.
        unsafe { device.read(place, to) }
            .map_err(|error| ChildError::Copy { tensor: output.name.clone(), error })?;
    }
    calls.end(begun, begun_cpu);
    Ok(())
}

impl Tensors {
    /// Adds the `input` with a number for one of several passes: only the first of them lays it out.
    fn add_again(
        &mut self,
        device: &dyn Device,
        (place, input): (usize, &Input),
        job: &Job,
        kept: &dyn Deviating,
        pass: Pass,
    ) -> Result<(), ChildError> {
        let bytes = bytes_of(input, job.shadow);
        let failed = |error| ChildError::Copy { tensor: input.name.clone(), error };
        if !input.present || input.dims.is_empty() || bytes == 0 {
            return self.add_input(device, input, None, job, None);
        }
        if pass == Pass::Plain {
            self.add_input(device, input, None, job, None)?;
            let tensor = self.pointers.last().copied().unwrap_or(std::ptr::null_mut());
            return kept.keep(place, tensor.cast_const().cast(), bytes).map_err(failed);
        }
        let strides = input.strides.iter().flatten().map(|&stride| stride as i64).collect();
        self.strides.push(strides);
        let pointer = device
            .malloc(bytes, input.name.clone())
            .map_err(|error| ChildError::Memory { tensor: input.name.clone(), bytes, error })?;
        self.pointers.push(pointer.cast());
        kept.restore(place, pointer, bytes).map_err(failed)
    }
}

/// Has `device` take in what `pass` left in the outputs, the first of which is argument number `first`. Returns how
/// many elements a repetition moved too far.
fn taken(
    calls: &Calls,
    device: &dyn Deviating,
    first: usize,
    pass: Pass,
) -> Result<u64, ChildError> {
    let mut unsteady = 0;
    let outputs = calls.all.iter().enumerate();
    for (place, output) in outputs.filter(|(_, output)| output.dtype.is_float()) {
        let count: usize = output.shape.iter().product();
        if count == 0 {
            continue;
        }
        let tensor = calls.tensors.pointers[first + place].cast_const().cast();
        let taken =
            device.take(place, (tensor, output.shape.is_empty()), output.dtype, count, pass);
        unsteady +=
            taken.map_err(|error| ChildError::Deviations(format!("{}: {error}", output.name)))?;
    }
    Ok(unsteady)
}
