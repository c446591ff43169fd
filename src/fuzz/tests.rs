//! Every target over its seeds and over mutations of these: a bounded number of the same ones, or,
//! where `REPLAY_FUZZ_SECONDS` is set, new ones for that long.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

use super::{FuzzTarget, TARGETS};

/// Mutations of each target's seeds where no time is given.
const CASES: u32 = 256;

/// The same for a target that works on long texts.
const FEW_CASES: u32 = 32;

/// Longer seeds are for the fuzzers.
const MOST: usize = 16 << 10;

fn fuzzers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

/// The files below `folder`.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

fn seeds(target: &FuzzTarget) -> Vec<Vec<u8>> {
    let mut paths = Vec::new();
    files(&fuzzers().join("seeds").join(target.name), &mut paths);
    paths.sort();
    assert!(!paths.is_empty(), "{} has no seeds", target.name);
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// The words that the target's dictionary lists.
fn words(target: &FuzzTarget) -> Vec<Vec<u8>> {
    let path = fuzzers().join("dictionaries").join(format!("{}.dict", target.name));
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let quoted = text.lines().filter_map(|line| line.strip_prefix('"')?.strip_suffix('"'));
    let plain =
        |word: &str| word.replace("\\\"", "\"").replace("\\x0a", "\n").replace("\\\\", "\\");
    quoted.map(|word| plain(word).into_bytes()).collect()
}

/// One change of a text.
#[derive(Clone, Debug)]
enum Change {
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Word(Index, Index),
    Remove(Index, u8),
    Repeat(Index, u8, u8),
    Splice(Index, Index, Index),
    Truncate(Index),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (at(), vec(any::<u8>(), 1..4)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (at(), at()).prop_map(|(at, word)| Change::Word(at, word)),
        (at(), any::<u8>()).prop_map(|(at, count)| Change::Remove(at, count)),
        (at(), any::<u8>(), 1..8u8).prop_map(|(at, count, times)| Change::Repeat(at, count, times)),
        (at(), at(), at()).prop_map(|(at, seed, from)| Change::Splice(at, seed, from)),
        at().prop_map(Change::Truncate),
    ]
}

impl Change {
    fn make(&self, bytes: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[Vec<u8>]) {
        let place = |at: &Index| at.index(bytes.len() + 1);
        match self {
            Change::Set(at, byte) => {
                let at = place(at);
                if let Some(found) = bytes.get_mut(at) {
                    *found = *byte;
                }
            }
            Change::Insert(at, new) => drop(bytes.splice(place(at)..place(at), new.clone())),
            Change::Word(at, word) if !words.is_empty() => {
                let at = place(at);
                drop(bytes.splice(at..at, word.get(words).clone()));
            }
            Change::Word(..) => {}
            Change::Remove(at, count) => {
                let at = place(at);
                drop(bytes.drain(at..bytes.len().min(at + usize::from(*count))));
            }
            Change::Repeat(at, count, times) => {
                let at = place(at);
                let end = bytes.len().min(at + usize::from(*count));
                let piece = bytes[at..end].repeat(usize::from(*times));
                drop(bytes.splice(at..at, piece));
            }
            Change::Splice(at, seed, from) => {
                let other = seed.get(seeds);
                bytes.truncate(place(at));
                bytes.extend_from_slice(&other[from.index(other.len() + 1)..]);
            }
            Change::Truncate(at) => bytes.truncate(place(at)),
        }
    }
}

/// Checks the seeds of the target called `name`, then mutations of them.
fn holds(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target");
    let mut seeds = seeds(target);
    let words = words(target);
    seeds.iter().for_each(|seed| (target.check)(seed));
    seeds.retain(|seed| seed.len() <= MOST);
    let mutated = (any::<Index>(), vec(change(), 1..6)).prop_map(|(seed, changes)| {
        let mut bytes = seed.get(&seeds).clone();
        changes.iter().for_each(|change| change.make(&mut bytes, &seeds, &words));
        bytes
    });
    let check = |bytes: Vec<u8>| {
        (target.check)(&bytes);
        Ok(())
    };
    let run = |mut runner: TestRunner| {
        if let Err(error) = runner.run(&mutated, check) {
            panic!("{name}: {error}");
        }
    };
    let cases = if name == "frontend_time" { FEW_CASES } else { CASES };
    let config = || Config { cases, failure_persistence: None, ..Config::default() };
    let seconds = std::env::var("REPLAY_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let Some(seconds) = seconds.map(Duration::from_secs) else {
        let rng = proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        );
        return run(TestRunner::new_with_rng(config(), rng));
    };
    let begun = Instant::now();
    while begun.elapsed() < seconds {
        run(TestRunner::new(config()));
    }
}

/// A test for each target, by its name.
macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            holds(stringify!($name));
        })*

        #[test]
        fn every_target_is_tested_and_fuzzed() {
            let tested = [$(stringify!($name)),*];
            assert_eq!(TARGETS.map(|target| target.name), tested);
            let manifest = std::fs::read_to_string(fuzzers().join("Cargo.toml")).unwrap();
            for name in tested {
                assert!(manifest.contains(&format!("name = \"{name}\"\n")), "{name}");
            }
        }
    };
}

targets! {
    bisect_log
    bundle_header
    cache_entry
    child_report
    fixture
    fixture_toml
    frontend
    frontend_time
    harness
    outcome
    safetensors
    sanitizer_log
    snapshot
    tensors
}
