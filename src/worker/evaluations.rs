//! Values of one output at several places, in one process on a GPU: context and inputs are there once.
#![allow(unsafe_code)]

use std::fs::File;
use std::time::{Duration, Instant};

use super::child::{ChildError, microseconds, processor_time};
use super::inputs::Common;
use super::run::{Declared, OutputTensor};
use super::tensors::{Tensors, scales};
use super::{Job, Part, Stepped};
use crate::fixture::Fixture;
use crate::runtime::artifact::LoadedArtifact;
use crate::runtime::report::Report;
use crate::runtime::{self, Runtime};
use crate::tensor::step::{Scales, Step};

/// Makes the evaluations of `job`, and writes the output of each to its place in `memory`.
pub(super) fn make(
    job: &Job,
    fixture: &Fixture,
    artifact: &LoadedArtifact,
    runtime: &'static Runtime,
    memory: File,
) -> Result<(), ChildError> {
    let begun = Instant::now();
    let declared = Declared::of(fixture, job, &Common::default());
    let told = declared.layout(&job.part);
    let scales = scales(job, fixture, &memory, told.end())?;
    let tensors = Tensors::new(&memory, told.bytes)?;
    // Replayed code finds no descriptor to change its size by.
    drop(memory);
    runtime::cpu::code_runs();
    let all = declared.layout(&Part::Whole).outputs;
    let mut evaluating =
        Evaluating { job, fixture, artifact, runtime, all, tensors, call: Duration::ZERO };
    let begun_cpu = processor_time();
    for (step, output) in job.evaluations.iter().zip(&told.outputs) {
        evaluating.make(step.as_ref(), scales.as_ref(), output)?;
    }
    let (device, reporter) = (&*runtime.device, runtime.reporter);
    for detail in device.overruns() {
        reporter.send(&Report::Overrun { detail });
    }
    let call_us = evaluating.call.as_micros() as u64;
    reporter.send(&Report::Done {
        launches: reporter.launches(),
        last_write: None,
        inputs_us: microseconds(begun).saturating_sub(call_us),
        call_us,
        cpu_us: (processor_time() - begun_cpu).as_micros() as u64,
        outputs_us: 0,
    });
    Ok(())
}

struct Evaluating<'e> {
    job: &'e Job,
    fixture: &'e Fixture,
    artifact: &'e LoadedArtifact,
    runtime: &'static Runtime,
    /// All outputs.
    all: Vec<OutputTensor>,
    /// The arguments of the call, made anew for each.
    tensors: Tensors,
    /// The time that calls took.
    call: Duration,
}

impl Evaluating<'_> {
    /// Makes the call on inputs moved by `step`, and writes `output` to its place.
    fn make(
        &mut self,
        step: Option<&Step>,
        scales: Option<&Scales>,
        output: &OutputTensor,
    ) -> Result<(), ChildError> {
        let Evaluating { job, fixture, artifact, runtime, .. } = *self;
        let (device, tensors) = (&*runtime.device, &mut self.tensors);
        let moved = |stepped: &Stepped| Some(Stepped { step: step?.clone(), ..stepped.clone() });
        let job = Job { step: job.step.as_ref().and_then(moved), ..job.clone() };
        for input in &fixture.inputs {
            tensors.add_input(device, input, None, &job, scales)?;
        }
        let first = tensors.pointers.len();
        for output in &self.all {
            tensors.add_output(device, output, None, &job)?;
        }
        let sizes: Vec<i64> = fixture.sizes.values().map(|&size| size as i64).collect();
        let strides: Vec<*const i64> = tensors.strides.iter().map(|s| s.as_ptr()).collect();
        let begun = Instant::now();
        device.run_host(true);
        // SAFETY: the artifact was compiled for this fixture's signature, in this order.
        unsafe { artifact.call(&tensors.pointers, &sizes, &strides) };
        device.run_host(false);
        if let Err(error) = device.synchronize() {
            runtime::end("device error", error.to_string(), None);
        }
        self.call += begun.elapsed();
        let place = self.all.iter().position(|one| one.name == output.name);
        if let Some(place) = place {
            tensors.copy_out(device, output, tensors.pointers[first + place].cast());
        }
        tensors.clear(device);
        Ok(())
    }
}
