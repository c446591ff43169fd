//! The corpus along the axis of C++ compilers: on the reference machine none of them changes a bit.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use replay::compile::Compiler;
use replay::environment::{Environment, EnvironmentChange};
use replay::foreign::Keeper;
use replay::trial::{PlacedSources, Trial};

use super::families::Corpus;
use super::{failures, wanted};

/// The environment with the compiler `name`.
fn with_compiler(name: &str) -> Arc<Environment> {
    let program: PathBuf = env!("CARGO_BIN_EXE_replay").into();
    let compiler = Compiler::find(Some(name), &Keeper::new(&program)).expect("a compiler");
    let change = EnvironmentChange::Compiler(compiler);
    Arc::new(Environment { axis: "cxx".to_owned(), value: name.to_owned(), change })
}

/// How a replay ends, and the checksum of each of its outputs.
fn outcome_words(trial: &Trial) -> String {
    let ending = failures(trial);
    let outputs = &trial.outcome().expect("the machine can replay").outputs;
    let checksums: Vec<String> = outputs
        .iter()
        .map(|output| format!("{} {}", output.name, output.summary.checksum))
        .collect();
    format!("{ending:?} {checksums:?}")
}

#[test]
#[ignore = "needs clang++"]
fn clang_gives_every_variant_of_the_corpus_the_bits_that_gcc_gives() {
    let corpus = Corpus::new();
    let environments = ["g++", "clang++"].map(with_compiler);
    let compared = AtomicUsize::new(0);
    corpus.each(wanted, |case| {
        let [with_gcc, with_clang] = environments.each_ref().map(|environment| {
            let set = case.sources.clone();
            let sources = PlacedSources { set, environment: Some(environment.clone()) };
            outcome_words(&corpus.lab.placed_trial(&case.captured.subject, &sources))
        });
        assert_eq!(with_gcc, with_clang, "{case}");
        compared.fetch_add(1, Ordering::Relaxed);
    });
    assert!(compared.into_inner() > 50);
}
