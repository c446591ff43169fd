//! What every commit of every demonstration gives on every fixture of it, bit by bit, on the CPU:
//! the same on every machine and with every compiler (`CXX=clang++ cargo test --test integration snapshots::`).
//!
//! A history below `kernels/` takes part with the fixtures below `fixtures/` that name its harness.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use replay::backend::{CpuBackend, Host};
use replay::cache::Cache;
use replay::compile::{Compiler, Toolchain};
use replay::fixture::Fixture;
use replay::foreign::Keeper;
use replay::history::{Commit, History, SourceSpec};
use replay::snapshot::Snapshot;
use replay::trial::{Lab, Subject};
use replay::worker::Limits;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Artifacts are shared with the next run; outcomes are made anew.
fn lab() -> Arc<Lab> {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("snapshots-cache");
    let cache = Cache::open(&cache).expect("a folder");
    let program = PathBuf::from(env!("CARGO_BIN_EXE_replay"));
    let compiler = Compiler::find(std::env::var("CXX").ok().as_deref(), &Keeper::new(&program));
    let toolchain = Toolchain::new(compiler.expect("a compiler"), &cache);
    let host = Host::new(program, Limits::default(), 2, cache.temporary());
    Lab::new(Arc::new(CpuBackend::new(toolchain, host)), cache, true)
}

fn fixtures() -> Vec<PathBuf> {
    let folders = fs::read_dir(root().join("fixtures")).expect("a folder");
    let mut folders: Vec<PathBuf> = folders.map(|entry| entry.expect("an entry").path()).collect();
    // The steps of a run have snapshots of their own findings: tests/cli/series.rs.
    folders.retain(|folder| folder.join("fixture.toml").exists());
    folders.sort();
    folders
}

/// Commits whose sources are the same.
struct Variant {
    key: replay::history::SourceKey,
    commits: Vec<Commit>,
}

fn variants(history: &History, spec: &SourceSpec) -> Vec<Variant> {
    let head = history.head().expect("a head");
    let mut variants: Vec<Variant> = Vec::new();
    for commit in history.range(&head.id.to_string()).expect("a range") {
        let key = history.source_key(&commit, spec).expect("a key");
        match variants.iter_mut().find(|variant| variant.key == key) {
            Some(variant) => variant.commits.push(commit),
            None => variants.push(Variant { key, commits: vec![commit] }),
        }
    }
    variants
}

#[test]
fn every_commit_of_every_demonstration_gives_the_recorded_bits() {
    let lab = lab();
    let mut held = BTreeSet::new();
    for folder in fixtures() {
        let fixture = Fixture::load(&folder).expect("a fixture");
        let harness = &fixture.harness;
        // What programs need is not there where Rust, git and a compiler are.
        if harness.program.is_some() {
            continue;
        }
        let Some(repository) = &harness.repository else { continue };
        let history = History::open_with_cache(repository, lab.cache().root()).expect("a history");
        let spec = SourceSpec {
            sources: harness.sources.clone(),
            include: harness.include.clone(),
            ..SourceSpec::default()
        };
        let subject = Arc::new(Subject::new(fixture));
        for variant in variants(&history, &spec) {
            let sources = match history.source_set(&variant.commits[0], &spec) {
                Ok(sources) => sources,
                // The kernels are not all there yet: there is nothing to run, so nothing to hold.
                Err(error) if error.is_revision_fault() => continue,
                Err(error) => panic!("{error}"),
            };
            let trial = lab.trial(&subject, &sources.into());
            let outcome = trial.outcome().expect("the machine can replay");
            let noise = trial.noise().expect("the machine can replay");
            let content = trial.content().expect("a hash");
            let name = &subject.fixture.name;
            let snapshot = Snapshot::from_outcome(outcome, name, content, &noise, &[], None);
            held.insert(hold(&subject, &variant, &snapshot));
        }
    }
    // A commit that is gone must not leave a snapshot that nothing holds.
    assert_eq!(held, recorded());
}

/// The snapshots of histories: all in folders below `snapshots/`.
fn recorded() -> BTreeSet<PathBuf> {
    let folders = fs::read_dir(root().join("snapshots")).expect("a folder");
    let folders = folders.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir());
    let files = folders.flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    let files = files.map(|entry| entry.expect("an entry").path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "snap")).collect()
}

/// Compares with the recorded snapshot; gives its file.
fn hold(subject: &Subject, variant: &Variant, snapshot: &Snapshot) -> PathBuf {
    let harness = subject.fixture.harness.path.parent().and_then(Path::file_name);
    let kernels = harness.expect("a harness in a folder").to_string_lossy();
    let commits =
        variant.commits.iter().map(|commit| format!("{} {}", commit.short, commit.subject));
    let mut settings = insta::Settings::clone_current();
    let folder = root().join("snapshots").join(&*kernels);
    settings.set_snapshot_path(&folder);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_description(commits.collect::<Vec<_>>().join("; "));
    let name = format!("{}@{}.cpu", subject.fixture.name, variant.commits[0].short);
    settings.bind(|| insta::assert_snapshot!(name.as_str(), snapshot.to_string()));
    folder.join(format!("{name}.snap"))
}
