//! How far directed rounding moves the outputs of a call, measured on a GPU in one process.
#![allow(unsafe_code)]

use std::fs::File;
use std::time::{Duration, Instant};

use super::child::{ChildError, copy_error, process_cpu_time};
use super::evaluations::RepeatedCalls;
use super::inputs::Common;
use super::run::{DeclaredTensors, bytes_of};
use super::tensors::CallTensors;
use super::{CallPart, Job, JobCalls};
use replay_cuda::DirectedRounding;
use replay_fixture::fixture::{Fixture, Input};
use replay_runtime::artifact::LoadedArtifact;
use replay_runtime::{Deviating, DeviationPass, Device, Runtime};

/// Makes the calls of `job`, and writes the deviations of each output to its place in `memory`.
pub(super) fn measure_job_deviations(
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
    let started_at = Instant::now();
    let deviation_layout =
        DeclaredTensors::from_fixture(fixture, job, &Common::default()).layout(&CallPart::Whole);
    let plain_job = Job { calls: JobCalls::Once, ..job.clone() };
    let all = DeclaredTensors::from_fixture(fixture, &plain_job, &Common::default())
        .layout(&CallPart::Whole)
        .outputs;
    let tensors = CallTensors::new(&memory, deviation_layout.bytes)?;
    // Replayed code finds no descriptor to change its size by.
    drop(memory);
    replay_runtime::cpu::code_runs();
    let mut calls =
        RepeatedCalls { fixture, artifact, runtime, all, tensors, time: Duration::ZERO };
    let begun_cpu = process_cpu_time();
    let rounded_passes =
        [DirectedRounding::Down, DirectedRounding::Up, DirectedRounding::TowardZero]
            .map(DeviationPass::Rounded);
    for pass in [DeviationPass::Plain]
        .into_iter()
        .chain(rounded_passes)
        .chain([DeviationPass::Again { jump }])
    {
        device.begin(pass).map_err(ChildError::Deviations)?;
        let first = std::thread::scope(|scope| {
            if pass == DeviationPass::Plain {
                // Without a thread for it, memory comes on first use.
                let _ = std::thread::Builder::new().spawn_scoped(scope, || device.prepare());
            }
            calls.run_call(&plain_job, |tensors, place, input| {
                tensors.add_again(&*runtime.device, (place, input), &plain_job, device, pass)
            })
        })?;
        let unsteady = absorb_outputs(&calls, device, first, pass)?;
        if unsteady > 0 {
            // It keeps something from call to call, or races.
            let reason =
                format!("a repetition moves {unsteady} elements further than rounding does");
            return Err(ChildError::Deviations(reason));
        }
        calls.tensors.clear(&*runtime.device);
    }
    for output in &deviation_layout.outputs {
        let place = calls.all.iter().position(|known_output| known_output.name == output.name);
        let Some(place) = place.filter(|_| !output.range().is_empty()) else { continue };
        let destination = calls.tensors.place(output);
        // SAFETY: a part of the mapping, as long as the deviations.
        unsafe { device.read(place, destination) }.map_err(copy_error(&output.name))?;
    }
    calls.end(started_at, begun_cpu);
    Ok(())
}

impl CallTensors {
    /// Adds the `input` with a number for one of several passes: only the first of them lays it out.
    fn add_again(
        &mut self,
        device: &dyn Device,
        (place, input): (usize, &Input),
        job: &Job,
        deviating: &dyn Deviating,
        pass: DeviationPass,
    ) -> Result<(), ChildError> {
        let bytes = bytes_of(input, job.is_shadow());
        if !input.present || input.dims.is_empty() || bytes == 0 {
            return self.add_input(device, input, None, job, None);
        }
        if pass == DeviationPass::Plain {
            self.add_input(device, input, None, job, None)?;
            let tensor = self.pointers.last().copied().unwrap_or(std::ptr::null_mut());
            return deviating
                .keep(place, tensor.cast_const().cast(), bytes)
                .map_err(copy_error(&input.name));
        }
        let strides = input.strides.iter().flatten().map(|&stride| stride as i64).collect();
        self.strides.push(strides);
        let pointer = device
            .malloc(bytes, input.name.clone())
            .map_err(|error| ChildError::Memory { tensor: input.name.clone(), bytes, error })?;
        self.pointers.push(pointer.cast());
        deviating.restore(place, pointer, bytes).map_err(copy_error(&input.name))
    }
}

/// Has `device` take in the outputs of `pass`. Argument number `first` is the first of them. Returns how many elements a
/// repetition moved too far.
fn absorb_outputs(
    calls: &RepeatedCalls,
    device: &dyn Deviating,
    first: usize,
    pass: DeviationPass,
) -> Result<u64, ChildError> {
    let mut unsteady = 0;
    let outputs = calls.all.iter().enumerate();
    for (place, output) in outputs.filter(|(_, output)| output.dtype.is_float()) {
        let count: usize = output.shape.iter().product();
        if count == 0 {
            continue;
        }
        let tensor = calls.tensors.pointers[first + place].cast_const().cast();
        let newly_unsteady = device.absorb_output(
            place,
            (tensor, output.shape.is_empty()),
            output.dtype,
            count,
            pass,
        );
        unsteady += newly_unsteady
            .map_err(|error| ChildError::Deviations(format!("{}: {error}", output.name)))?;
    }
    Ok(unsteady)
}
