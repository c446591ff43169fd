//! The same sources and inputs give the same bits, whatever compiled them and however many threads
//! ran them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use replay::fixture::Fixture;
use replay::history::{History, SourceSpec};
use replay::trial::Subject;

use super::project::{Machine, cache, lab};

/// Both reduce in shared memory; the second sums with Kahan's correction, which any optimisation
/// that is not exact destroys.
const REVISIONS: [&str; 2] = ["396b00e", "61b3d97"];

/// A command that compiles with `level`, though the toolchain asks for another one.
fn compiler(program: &str, level: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compilers");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{program}{level}"));
    if !path.exists() {
        let script = tempfile::NamedTempFile::new_in(&folder).unwrap();
        fs::write(&script, format!("#!/bin/sh\nexec {program} \"$@\" {level}\n")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        // Closed before it is run: a file open for writing cannot be.
        script.into_temp_path().persist(&path).unwrap();
    }
    path.to_str().unwrap().to_owned()
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The checksums of all outputs at all revisions.
fn checksums(compiler: &str, threads: usize) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let subject = Arc::new(Subject::new(Fixture::load(&root.join("fixtures/step0")).unwrap()));
    let harness = &subject.fixture.harness;
    let cache = cache();
    let repository = harness.repository.as_ref().unwrap();
    let history = History::open_with_cache(repository, cache.root()).unwrap();
    let spec = SourceSpec {
        sources: harness.sources.clone(),
        include: harness.include.clone(),
        ..SourceSpec::default()
    };
    let lab = lab(compiler, Machine { threads, ..Machine::PLAIN });
    let mut checksums = Vec::new();
    for revision in REVISIONS {
        let sources = history.source_set(&history.resolve(revision).unwrap(), &spec).unwrap();
        let trial = lab.trial(&subject, &sources.into());
        let outcome = trial.outcome().unwrap();
        assert_eq!(outcome.outputs.len(), 2, "{compiler} at {revision}: {:?}", outcome.status);
        for output in &outcome.outputs {
            checksums.push(format!("{revision} {} {}", output.name, output.summary.checksum));
        }
    }
    checksums
}

#[test]
fn compilers_levels_and_threads_change_no_bit() {
    let mut expected: Option<Vec<String>> = None;
    let mut check = |compiler: &str, threads| {
        let got = checksums(compiler, threads);
        let expected = expected.get_or_insert_with(|| got.clone());
        assert_eq!(&got, expected, "{compiler}, {threads} threads");
    };
    for program in ["g++", "clang++"].into_iter().filter(|program| is_installed(program)) {
        for level in ["-O0", "-O1", "-O2", "-O3"] {
            check(&compiler(program, level), 2);
        }
        for threads in [1, 5] {
            check(&compiler(program, "-O2"), threads);
        }
    }
    assert!(expected.is_some(), "no compiler was found");
}
