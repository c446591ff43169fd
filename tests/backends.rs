//! One suite for every backend: what a variant claims to be able to do, it does.
//!
//! A backend passes it by saying truthfully what it can do: what it does not claim is not asked of
//! it, and the claims of the backends that there are stand below.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::common::gpu_lab;
use crate::common::gpu_lab::{MINUTE, shared_cache};
use replay::backend::{Ability, Backend, DeviceName, Host, Mode, Programs, Variant};
use replay::fixture::{self, Fixture};
use replay::foreign::Keeper;
use replay::frontend::Precision;
use replay::history::{SourceSet, SourceSpec, source_set_from_dir};
use replay::program::{self, ProgramSettings, Runner};
use replay::runtime::cpu::Rounding;
use replay::summary::{POISON_A, POISON_B, Poison, summarize_tensor};
use replay::tensor::step::{Scales, Step, StepClass, StepUnit, draw_sign};
use replay::tensor::{DType, TensorView};
use replay::worker::{CallPart, Ending, InputChange, Limits, OutputTransfer, Run, Stepped};

const N: usize = 64;

/// Each output shows one ability.
const SOURCE: &str = "\
#include <stdio.h>
__global__ void first(const float* x, float* copy, float* third, float* half, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  copy[i] = x[i];
  third[i] = x[i] / 3.0f;
  if (2 * i < n) half[i] = 1.0f;
}
__global__ void count(int* counter, int* places) {
  int place = atomicAdd(counter, 1);
  places[place] = blockIdx.x * blockDim.x + threadIdx.x;
  if (place == 0) printf(\"counted\\n\");
}
static void call(const float* x, float* copy, float* third, float* half, int* places, int n) {
  first<<<n / 8, 8>>>(x, copy, third, half, n);
  int* counter;
  cudaMalloc(&counter, sizeof(int));
  cudaMemset(counter, 0, sizeof(int));
  count<<<n / 8, 8>>>(counter, places);
  cudaFree(counter);
}
";

/// What a revision does.
#[derive(Clone, Copy)]
enum Work {
    /// Everything that a rule asks for.
    Everything,
    /// Nothing: it does not build.
    DoesNotBuild,
    /// It ends the process with status 3.
    Exits,
}

/// What revisions are written in.
#[derive(Clone, Copy)]
enum Language {
    /// CUDA C++.
    Kernels,
    /// The words of `programs/speaker.cpp`.
    Program,
}

struct Project {
    folder: tempfile::TempDir,
    language: Language,
    fixture: Arc<Fixture>,
}

impl Project {
    fn new(language: Language, work: Work) -> Project {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let head = match language {
            Language::Kernels => kernels(root, work),
            Language::Program => words(root, work),
        };
        let outputs = [("copy", "f32"), ("third", "f32"), ("half", "f32"), ("places", "i32")];
        let outputs = outputs.map(|(name, dtype)| {
            format!("[outputs.{name}]\ndtype = \"{dtype}\"\nshape = [\"n\"]\n")
        });
        let harness =
            format!("{head}[inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n{}", outputs.concat());
        std::fs::write(root.join("replay.toml"), harness).unwrap();
        let dir = root.join("fixture");
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("fixture.toml"), "harness = \"../replay.toml\"\n").unwrap();
        let x: Vec<u8> = (0..N).flat_map(|i| (1.0 + i as f32).to_le_bytes()).collect();
        fixture::write_safetensors(&dir, &[("x", DType::F32, &[N], &x)], &[]).unwrap();
        let fixture = Arc::new(Fixture::load(&dir).unwrap());
        Project { folder, language, fixture }
    }

    fn sources(&self) -> SourceSet {
        let spec = match self.language {
            Language::Kernels => {
                SourceSpec { sources: vec!["kernel.cu".into()], ..SourceSpec::default() }
            }
            Language::Program => {
                SourceSpec { tree: vec!["kernel.txt".into()], ..SourceSpec::default() }
            }
        };
        let root: &Path = self.folder.path();
        source_set_from_dir(root, &spec).unwrap()
    }

    fn variant(&self, backend: &dyn Backend, precision: Precision) -> Arc<dyn Variant> {
        backend.prepare(&self.fixture, &self.sources(), precision, &|| ()).unwrap()
    }
}

/// Writes the sources to `root`; the keys of their harness.
fn kernels(root: &Path, work: Work) -> String {
    let (source, call) = match work {
        Work::Everything => (SOURCE, "call(x, copy, third, half, places, n);"),
        Work::DoesNotBuild => ("static void call() { return 1; }\n", "call();"),
        Work::Exits => ("#include <stdlib.h>\nstatic void call() { exit(3); }\n", "call();"),
    };
    std::fs::write(root.join("kernel.cu"), source).unwrap();
    format!("sources = [\"kernel.cu\"]\ncall = \"{call}\"\n")
}

/// The same for the program.
fn words(root: &Path, work: Work) -> String {
    let (words, more) = match work {
        Work::Everything => ("abilities", ""),
        Work::DoesNotBuild => ("abilities", "build = [\"sh\", \"-c\", \"exit 1\"]\n"),
        Work::Exits => ("exit 3", ""),
    };
    std::fs::write(root.join("kernel.txt"), words).unwrap();
    format!("program = [\"{}\"]\n{more}", crate::common::speaker::speaker().display())
}

/// A backend that passes the suite, or does not.
struct Given {
    backend: Box<dyn Backend>,
    language: Language,
    /// The project of [`Work::Everything`].
    plain: OnceLock<Project>,
}

impl Given {
    fn new(language: Language, backend: impl Backend + 'static) -> Given {
        Given { backend: Box::new(backend), language, plain: OnceLock::new() }
    }

    fn variant(&self, precision: Precision) -> Arc<dyn Variant> {
        let plain = self.plain.get_or_init(|| Project::new(self.language, Work::Everything));
        plain.variant(&*self.backend, precision)
    }

    fn native(&self) -> Arc<dyn Variant> {
        self.variant(Precision::Native)
    }

    fn launches(&self) -> u64 {
        match self.language {
            Language::Kernels => 2,
            Language::Program => 0,
        }
    }
}

fn bytes<'r>(run: &'r Run, output: &str) -> &'r [u8] {
    run.output(output).unwrap_or_else(|| panic!("{output}: {:?}", run.ending)).bytes
}

fn element(run: &Run, output: &str, index: usize) -> f64 {
    run.output(output).unwrap_or_else(|| panic!("{output}: {:?}", run.ending)).get_f64(index)
}

fn a_plain_run_computes_what_the_sources_say_and_names_the_device(given: &Given) {
    let run = given.native().run(&Mode::plain(POISON_A)).unwrap();
    assert_eq!(run.ending, Ending::Completed, "{}", run.printed);
    for index in 0..N {
        assert_eq!(element(&run, "copy", index), 1.0 + index as f64);
    }
    let device = given.backend.device();
    assert_eq!(run.device, Some((device.description, device.class)));
    assert_eq!(run.launch_count, given.launches());
}

/// Whether the memory of a run held `poison`, or tensors lay in what stands for it.
fn shows(variant: &dyn Variant, run: &Run, poison: Poison) -> bool {
    if variant.can(Ability::PoisonAround) {
        let is_nan = |index| element(run, "half", index).is_nan();
        return (N / 2..N).all(|index| is_nan(index) == (poison == POISON_B));
    }
    bytes(run, "half")[N / 2 * 4..].chunks(8).all(|bytes| bytes == poison.pattern)
}

fn memory_holds_the_poison_that_was_asked_for(given: &Given) {
    let variant = given.native();
    assert!(variant.can(Ability::Poison));
    for poison in [POISON_A, POISON_B] {
        let run = variant.run(&Mode::plain(poison)).unwrap();
        assert!(shows(&*variant, &run, poison), "{poison:?}");
    }
}

fn what_a_variant_repeats_has_the_same_bits(given: &Given) {
    let variant = given.native();
    let plain = Mode::plain(POISON_A);
    let (one, other) = variant.run_pair([plain.clone(), plain]).unwrap();
    // Places are taken in the order that a device chooses, if it does.
    let outputs = ["copy", "third", "half", "places"];
    let count = if variant.can(Ability::Repetition) { outputs.len() } else { outputs.len() - 1 };
    for output in &outputs[..count] {
        assert_eq!(bytes(&one, output), bytes(&other, output), "{output}");
    }
}

fn noise_is_measured_by_other_roundings_and_orders(given: &Given) {
    let variant = given.native();
    let variant = variant.for_noise();
    assert!(variant.can(Ability::Rounding));
    let run = |mode| variant.run(&mode).unwrap();
    let rounded = |rounding| run(Mode { rounding, ..Mode::plain(POISON_A) });
    let down = rounded(Rounding::Down);
    let up = rounded(Rounding::Up);
    let third = |run: &Run| element(run, "third", 0);
    assert!(third(&down) < 1.0 / 3.0 && third(&up) > 1.0 / 3.0);
    assert_eq!(third(&rounded(Rounding::TowardZero)), third(&down));
    // No other order is known of what a program computes.
    assert_eq!(variant.can(Ability::Order), matches!(given.language, Language::Kernels));
    if !variant.can(Ability::Order) {
        return;
    }
    let ordered = |order| run(Mode { order, ..Mode::plain(POISON_A) });
    let plain = ordered(0);
    let other = ordered(0x5eed);
    let in_order = (0..N).all(|index| element(&plain, "places", index) == index as f64);
    assert!(in_order && bytes(&plain, "places") != bytes(&other, "places"));
    assert_eq!(bytes(&plain, "third"), bytes(&other, "third"));
}

fn a_shadow_computes_in_float64_beside_inputs_that_were_stepped(given: &Given) {
    let shadow = given.variant(Precision::Shadow);
    assert_ne!(shadow.key(), given.native().key());
    assert!(shadow.obstacles().is_empty());
    assert!(shadow.can(Ability::Step));
    let out = 2..4;
    let step = Step {
        seed: 3,
        class: StepClass::Ordinary,
        among: 0..N,
        without: Vec::from_iter([out.clone()]),
        unit: StepUnit::Own,
        length: (2f64).powi(-40),
        constraint: None,
    };
    let x: Vec<u8> = (0..N).flat_map(|index| (1.0 + index as f32).to_le_bytes()).collect();
    let scales = Scales::measure(&TensorView { dtype: DType::F32, shape: &[N], bytes: &x }, 1);
    let stepped = Stepped { input: "x".to_owned(), step, scales: Arc::new(scales) };
    let run =
        shadow.run(&Mode { change: InputChange::Step(stepped), ..Mode::plain(POISON_A) }).unwrap();
    for index in 0..N {
        let x = 1.0 + index as f64;
        let scale = x.log2().floor().exp2() * (2f64).powi(-40);
        let moved = if out.contains(&index) { 0.0 } else { scale * draw_sign(3, index as u64) };
        let x = x + moved;
        assert_eq!((element(&run, "copy", index), element(&run, "third", index)), (x, x / 3.0));
    }
}

fn a_part_of_the_call_tells_of_the_output_that_it_is_made_for(given: &Given) {
    let shadow = given.variant(Precision::Shadow);
    assert_eq!(shadow.can(Ability::CallPart), matches!(given.language, Language::Kernels));
    if !shadow.can(Ability::CallPart) {
        return;
    }
    let run = |part| shadow.run(&Mode { part, ..Mode::plain(POISON_A) }).unwrap();
    let whole = run(CallPart::Watched("copy".to_owned()));
    assert_eq!((whole.last_write, whole.printed.as_str()), (Some(1), "counted\n"));
    let part = run(CallPart::Before { launch: 1, output: "copy".to_owned() });
    assert_eq!((&part.ending, part.printed.as_str()), (&Ending::Completed, ""));
    assert_eq!(bytes(&part, "copy"), bytes(&whole, "copy"));
}

fn summaries_that_are_made_on_the_device_are_those_of_the_outputs(given: &Given) {
    let variant = given.native();
    let can_summarize = variant.can(Ability::Summary);
    let outputs = if can_summarize { OutputTransfer::Summaries } else { OutputTransfer::Elements };
    let mode = Mode { outputs, ..Mode::plain(POISON_A) };
    let run = variant.run(&mode).unwrap();
    let plain = variant.run(&Mode::plain(POISON_A)).unwrap();
    assert_eq!(run.summaries.is_empty(), !can_summarize);
    for (output, summary) in &run.summaries {
        let view = plain.output(output).unwrap();
        if output != "places" {
            assert_eq!(summary.checksum, summarize_tensor(&view, None).checksum, "{output}");
        }
    }
}

fn several_runs_are_handed_over_in_the_order_of_their_modes(given: &Given) {
    let variant = given.native();
    let poisons = [POISON_A, POISON_B, POISON_B, POISON_A, POISON_B];
    let mut seen = Vec::new();
    let mut take = |index: usize, run: Run| {
        let held = [POISON_A, POISON_B].into_iter().find(|held| shows(&*variant, &run, *held));
        seen.push((index, held.expect("one of them")));
        Ok(())
    };
    variant.run_each(&poisons.map(Mode::plain), variant.at_once(None), &mut take).unwrap();
    let expected = poisons.into_iter().enumerate();
    assert_eq!(seen, expected.collect::<Vec<_>>());
}

fn sources_that_do_not_build_are_refused_and_nobody_else_is_blamed(given: &Given) {
    let project = Project::new(given.language, Work::DoesNotBuild);
    let fixture = &project.fixture;
    let sources = project.sources();
    let made = given.backend.prepare(fixture, &sources, Precision::Native, &|| ());
    // A program's tree is built when it is wanted.
    let run = made.and_then(|variant| variant.run(&Mode::plain(POISON_A)));
    let error = run.expect_err("it does not build");
    let refusal = error.refusal().expect("the sources are at fault");
    match given.language {
        Language::Kernels => assert!(refusal.first_error.unwrap().starts_with("kernel.cu:1:")),
        Language::Program => {
            assert_eq!(refusal.reason, "`sh -c exit 1` fails with exit status 1");
        }
    }
}

fn a_call_that_ends_the_process_is_an_ending_and_no_error(given: &Given) {
    let project = Project::new(given.language, Work::Exits);
    let variant = project.variant(&*given.backend, Precision::Native);
    let run = variant.run(&Mode::plain(POISON_A)).unwrap();
    let expected = match given.language {
        Language::Kernels => Ending::Exited(3),
        Language::Program => Ending::Status(3),
    };
    assert_eq!(run.ending, expected);
}

/// The suite for one backend.
macro_rules! suite {
    ($name:ident, $given:expr, $native:expr $(, $attribute:meta)?) => {
        mod $name {
            use super::*;

            macro_rules! case {
                ($case:ident) => {
                    #[test]
                    $(#[$attribute])?
                    fn $case() {
                        super::$case(&$given);
                    }
                };
            }

            #[test]
            $(#[$attribute])?
            fn its_native_variants_claim_what_is_known_of_it() {
                let variant = $given.native();
                let mut abilities = Ability::ALL.to_vec();
                abilities.retain(|ability| variant.can(*ability));
                assert_eq!(abilities, $native);
            }

            case!(a_plain_run_computes_what_the_sources_say_and_names_the_device);
            case!(memory_holds_the_poison_that_was_asked_for);
            case!(what_a_variant_repeats_has_the_same_bits);
            case!(noise_is_measured_by_other_roundings_and_orders);
            case!(a_shadow_computes_in_float64_beside_inputs_that_were_stepped);
            case!(a_part_of_the_call_tells_of_the_output_that_it_is_made_for);
            case!(summaries_that_are_made_on_the_device_are_those_of_the_outputs);
            case!(several_runs_are_handed_over_in_the_order_of_their_modes);
            case!(sources_that_do_not_build_are_refused_and_nobody_else_is_blamed);
            case!(a_call_that_ends_the_process_is_an_ending_and_no_error);
        }
    };
}

fn cpu() -> replay::backend::CpuBackend {
    gpu_lab::cpu(&shared_cache(), &gpu_lab::program(), MINUTE)
}

/// Programs on the CPU.
fn programs() -> Programs {
    let cache = shared_cache();
    let program = gpu_lab::program();
    let limits = Limits { timeout: MINUTE, ..Limits::default() };
    let host = Host::new(program.clone(), limits, 2, cache.temporary());
    let setting = ProgramSettings {
        device: program::ProgramDevice::Cpu,
        limits,
        environment: std::env::vars_os().collect(),
        processes: 2,
    };
    let runner = Runner::new(Keeper::new(&program), cache, setting);
    let name = DeviceName { class: "cpu".to_owned(), description: "CPU".to_owned() };
    Programs::new(runner, host, name, None)
}

suite!(
    on_the_cpu,
    Given::new(Language::Kernels, cpu()),
    [
        Ability::Poison,
        Ability::Rounding,
        Ability::Order,
        Ability::Step,
        Ability::CallPart,
        Ability::SingleOutput,
        Ability::Repetition,
    ]
);

suite!(
    of_programs,
    Given::new(Language::Program, programs()),
    // No replay has shown yet that it has no grid of Triton's.
    [
        Ability::Poison,
        Ability::PoisonAround,
        Ability::Rounding,
        Ability::Order,
        Ability::Step,
        Ability::Nudge,
        Ability::SharedDevice,
    ]
);

suite!(
    on_a_gpu,
    Given::new(Language::Kernels, gpu_lab::cuda(&shared_cache(), cpu())),
    [Ability::Poison, Ability::SingleOutput, Ability::Summary, Ability::SharedDevice],
    ignore = "needs a GPU"
);
