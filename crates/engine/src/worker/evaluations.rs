//! Values of one output at several places, in one process on a GPU: context and inputs are there once.
#![allow(unsafe_code)]

use std::fs::File;
use std::time::{Duration, Instant};

use super::child::{ChildError, elapsed_microseconds, process_cpu_time};
use super::inputs::Common;
use super::run::{DeclaredTensors, OutputTensor};
use super::tensors::{CallTensors, load_step_scales};
use super::{CallPart, Job, Stepped};
use replay_base::tensor::step::Step;
use replay_fixture::fixture::{Fixture, Input};
use replay_runtime::Runtime;
use replay_runtime::artifact::LoadedArtifact;
use replay_runtime::report::ChildReport;

/// Makes a call of `job` for each of `steps`, and writes the output of each to its place in `memory`.
pub(super) fn evaluate_job(
    job: &Job,
    steps: &[Option<Step>],
    fixture: &Fixture,
    artifact: &LoadedArtifact,
    runtime: &'static Runtime,
    memory: File,
) -> Result<(), ChildError> {
    let started_at = Instant::now();
    let declared_tensors = DeclaredTensors::from_fixture(fixture, job, &Common::default());
    let part_layout = declared_tensors.layout(&job.part);
    let scales = load_step_scales(job, fixture, &memory, part_layout.end())?;
    let tensors = CallTensors::new(&memory, part_layout.bytes)?;
    // Replayed code finds no descriptor to change its size by.
    drop(memory);
    replay_runtime::cpu::code_runs();
    let all = declared_tensors.layout(&CallPart::Whole).outputs;
    let mut calls =
        RepeatedCalls { fixture, artifact, runtime, all, tensors, time: Duration::ZERO };
    let begun_cpu = process_cpu_time();
    for (step, output) in steps.iter().zip(&part_layout.outputs) {
        let job = Job {
            step: job
                .step
                .as_ref()
                .and_then(|stepped| Some(Stepped { step: step.clone()?, ..stepped.clone() })),
            ..job.clone()
        };
        let device = &*runtime.device;
        let first = calls.run_call(&job, |tensors, _, input| {
            tensors.add_input(device, input, None, &job, scales.as_ref())
        })?;
        if let Some(place) =
            calls.all.iter().position(|known_output| known_output.name == output.name)
        {
            let pointer = calls.tensors.pointers[first + place];
            calls.tensors.copy_out(device, output, pointer.cast());
        }
        calls.tensors.clear(device);
    }
    calls.end(started_at, begun_cpu);
    Ok(())
}

/// Calls of one artifact, one after the other.
pub(super) struct RepeatedCalls<'e> {
    pub fixture: &'e Fixture,
    pub artifact: &'e LoadedArtifact,
    pub runtime: &'static Runtime,
    pub all: Vec<OutputTensor>,
    /// The arguments of the call, made anew for each.
    pub tensors: CallTensors,
    /// The time of all calls so far.
    pub time: Duration,
}

impl RepeatedCalls<'_> {
    /// Makes the call for `job`. `add` lays out each input by its number. Returns the number of the first output among the
    /// arguments.
    pub(super) fn run_call(
        &mut self,
        job: &Job,
        add: impl Fn(&mut CallTensors, usize, &Input) -> Result<(), ChildError>,
    ) -> Result<usize, ChildError> {
        let RepeatedCalls { fixture, artifact, runtime, .. } = *self;
        let device = &*runtime.device;
        let tensors = &mut self.tensors;
        for (place, input) in fixture.inputs.iter().enumerate() {
            add(tensors, place, input)?;
        }
        let first = tensors.pointers.len();
        for output in &self.all {
            tensors.add_output(device, output, None, job)?;
        }
        let sizes: Vec<i64> = fixture.sizes.values().map(|&size| size as i64).collect();
        let strides: Vec<*const i64> = tensors.strides.iter().map(|s| s.as_ptr()).collect();
        let started_at = Instant::now();
        device.run_host(true);
        // SAFETY: the artifact was compiled for this fixture's signature, in this order.
        unsafe { artifact.call(&tensors.pointers, &sizes, &strides) };
        device.run_host(false);
        if let Err(error) = device.synchronize() {
            replay_runtime::end_replay("device error", error.to_string(), None);
        }
        self.time += started_at.elapsed();
        Ok(first)
    }

    /// Reports the end of all calls. The first was made at `started_at`.
    pub(super) fn end(&self, started_at: Instant, begun_cpu: Duration) {
        let device = &*self.runtime.device;
        let reporter = self.runtime.reporter;
        for detail in device.overruns() {
            reporter.send(&ChildReport::Overrun { detail });
        }
        let call_us = self.time.as_micros() as u64;
        reporter.send(&ChildReport::Done {
            launches: reporter.launches(),
            last_write: None,
            inputs_us: elapsed_microseconds(started_at).saturating_sub(call_us),
            call_us,
            cpu_us: (process_cpu_time() - begun_cpu).as_micros() as u64,
            outputs_us: 0,
        });
    }
}
