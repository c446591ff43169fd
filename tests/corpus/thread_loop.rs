//! Thread-loop form against a stack for each thread, on every variant of the corpus and at every revision
//! of the demonstration histories.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use replay::backend::{Mode, Variant};
use replay::fixture::Fixture;
use replay::frontend::{
    KernelForm, Precision, SourceUnit, ThreadForm, Threads, scan_symbols, translate_for_host,
};
use replay::history::{History, SourceSet, SourceSpec};
use replay::summary::POISON_A;
use replay::trial::{Lab, Subject};
use replay::worker::Limits;

use super::families::{Corpus, cache, cpu, lab};

/// The kernels of `sources` that take thread-loop form, with their files.
fn in_thread_loop(sources: &SourceSet) -> BTreeSet<String> {
    let texts: Vec<(&str, String)> = sources
        .files
        .iter()
        .map(|file| (file.path.as_str(), String::from_utf8_lossy(&file.content).into_owned()))
        .collect();
    let units: Vec<SourceUnit> =
        texts.iter().map(|(path, text)| SourceUnit { path, text }).collect();
    let symbols = scan_symbols(&units);
    let mut found = BTreeSet::new();
    for unit in &units {
        let made = translate_for_host(unit, &symbols, Precision::Native, Threads::Lanes)
            .expect("it translates");
        let is_block = |form: &&KernelForm| matches!(form.threads, ThreadForm::Block { .. });
        for form in made.kernel_forms.iter().filter(is_block) {
            found.insert(format!("{}: {}", unit.path, form.kernel));
        }
    }
    found
}

/// Both ways to run the threads of a block.
struct Both {
    blocks: Arc<Lab>,
    stacks: Arc<Lab>,
}

impl Both {
    fn new() -> Both {
        let lab = |threads| lab(cpu(Limits::TIMEOUT, threads));
        Both { blocks: lab(Threads::Lanes), stacks: lab(Threads::Stacks) }
    }

    /// Checks that outputs and endings are the same at either precision and in several orders.
    fn compare(&self, name: &str, subject: &Arc<Subject>, sources: &Arc<SourceSet>) {
        for precision in [Precision::Native, Precision::Shadow] {
            let [blocks, stacks] = [&self.blocks, &self.stacks].map(|lab| {
                let variant = lab.backend().prepare(&subject.fixture, sources, precision, &|| ());
                variant.unwrap_or_else(|error| panic!("{name}: {error}: {:?}", error.hint()))
            });
            let keys = [blocks.key(), stacks.key()];
            assert_ne!(keys[0], keys[1], "{name}: a translation of its own has a key of its own");
            for order in 0..4 {
                let [blocks, stacks] = [&blocks, &stacks].map(|variant| shown(&**variant, order));
                assert!(blocks == stacks, "{name}, {precision:?}, order {order}");
            }
        }
    }
}

/// The outputs of a run, bit by bit, and how it ended.
fn shown(variant: &dyn Variant, order: u64) -> (Vec<(String, Vec<u64>)>, String) {
    let mode = Mode { order, ..Mode::plain(POISON_A) };
    let run = variant.run(&mode).expect("the machine can replay");
    let bits = |(output, view): (&replay::worker::OutputTensor, replay::tensor::TensorView)| {
        let bits = (0..view.len()).map(|index| view.get_f64(index).to_bits()).collect();
        (output.name.clone(), bits)
    };
    (run.outputs().map(bits).collect(), format!("{:?}", run.ending))
}

#[test]
fn thread_loop_changes_no_bit_of_the_corpus() {
    let corpus = Corpus::new();
    let both = Both::new();
    let compared = AtomicUsize::new(0);
    corpus.each(
        |_| true,
        |case| {
            if !in_thread_loop(case.sources).is_empty() {
                both.compare(&case.to_string(), &case.captured.subject, case.sources);
                compared.fetch_add(1, Ordering::Relaxed);
            }
        },
    );
    let compared = compared.into_inner();
    println!("{compared} replays of the corpus run kernels in thread-loop form");
    assert!(compared >= 18);
}

#[test]
fn thread_loop_changes_no_bit_of_the_demonstrations() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let both = Both::new();
    let mut seen = BTreeSet::new();
    for project in ["lm_loss", "fused_xent", "lazy_attention"] {
        let snapshots = fs::read_dir(root.join("snapshots").join(project)).expect("snapshots");
        for snapshot in snapshots {
            let name = snapshot.expect("an entry").file_name().to_string_lossy().into_owned();
            let (fixture, rest) = name.split_once('@').expect("FIXTURE@REVISION");
            let revision = rest.split('.').next().expect("a revision");
            let fixture = Fixture::load(&root.join("fixtures").join(fixture)).expect("a fixture");
            let harness = &fixture.harness;
            let repository = harness.repository.as_ref().expect("a bundle");
            let history = History::open_with_cache(repository, cache().root()).expect("a history");
            let spec = SourceSpec {
                sources: harness.sources.clone(),
                include: harness.include.clone(),
                ..SourceSpec::default()
            };
            let commit = history.resolve(revision).expect("a revision");
            let sources = history.source_set(&commit, &spec).expect("sources");
            let forms = in_thread_loop(&sources);
            if !forms.is_empty() {
                both.compare(&name, &Subject::new(fixture).into(), &sources.into());
                seen.extend(forms.into_iter().map(|form| format!("{project} {revision} {form}")));
            }
        }
    }
    println!("{}", seen.iter().map(|form| format!("{form}\n")).collect::<String>());
    assert!(seen.len() >= 4, "{seen:?}");
}
