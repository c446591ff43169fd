//! Properties that hold for any bytes from outside, a function for each format.
//!
//! Each function takes bytes as a fuzzer makes them and panics if its property does not hold. The
//! fuzzers in `fuzz/` call them, and so do the tests, over seeds and mutations of these. This
//! module is part of neither the library nor the program. `docs/fuzzing.md` lists each property.

mod frontend;
mod time;

#[cfg(test)]
mod tests;

use std::path::Path;

use crate::cache::{Cache, CacheKind};
use crate::cuda::sanitizer;
use crate::harness::Harness;
use crate::report::{self, ReportEntry};
use crate::search::{BisectTerms, LogEntry, LogMark, git_bisect_log};
use crate::snapshot::{Meta, Snapshot, SnapshotFile, SnapshotVerdict, compare_snapshots};
use crate::trial::{Outcome, Status};

use replay_base::fuzz::{FuzzDraw, check_error_text};

pub use crate::fixture::fuzz::{fixture_toml, fuzz_fixture, fuzz_safetensors, fuzz_tensors};
pub use crate::history::fuzz::bundle_header;
pub use crate::worker::fuzz::child_report;
pub use frontend::fuzz_frontend;
pub use time::frontend_time;

/// A format and its property.
#[derive(Clone, Copy, Debug)]
pub struct FuzzTarget {
    /// Its name: that of the fuzzer, and of the folder with its seeds.
    pub name: &'static str,
    /// Panics if the property does not hold for some bytes.
    pub check: fn(&[u8]),
}

/// Every format.
pub const TARGETS: [FuzzTarget; 14] = [
    FuzzTarget { name: "bisect_log", check: bisect_log },
    FuzzTarget { name: "bundle_header", check: bundle_header },
    FuzzTarget { name: "cache_entry", check: cache_entry },
    FuzzTarget { name: "child_report", check: child_report },
    FuzzTarget { name: "fixture", check: fuzz_fixture },
    FuzzTarget { name: "fixture_toml", check: fixture_toml },
    FuzzTarget { name: "frontend", check: fuzz_frontend },
    FuzzTarget { name: "frontend_time", check: frontend_time },
    FuzzTarget { name: "harness", check: fuzz_harness },
    FuzzTarget { name: "outcome", check: fuzz_outcome },
    FuzzTarget { name: "safetensors", check: fuzz_safetensors },
    FuzzTarget { name: "sanitizer_log", check: sanitizer_log },
    FuzzTarget { name: "snapshot", check: fuzz_snapshot },
    FuzzTarget { name: "tensors", check: fuzz_tensors },
];

/// A harness that is accepted has sources, outputs and a call, and survives its way to a child.
pub fn fuzz_harness(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Harness::parse(text, Path::new("kernels/replay.toml")) {
        Err(error) => check_error_text(&error, error.hint()),
        Ok(harness) => {
            assert!(!harness.outputs.is_empty());
            let is_program = harness.program.is_some();
            assert!(harness.sources.is_empty() == is_program);
            assert!(harness.calls.is_empty() == is_program);
            let sent = serde_json::to_string(&harness).expect("a harness is plain data");
            let received: Harness = serde_json::from_str(&sent).expect("what was just written");
            assert_eq!(harness, received);
        }
    }
}

/// A snapshot that is read and written is read back as the same, and written the same way.
pub fn fuzz_snapshot(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let path = Path::new("snapshots/step0.cpu.snap");
    match SnapshotFile::parse(text, path) {
        Err(error) => check_error_text(&error, error.hint()),
        Ok(file) => is_settled(&file, path),
    }
}

/// A written file is read back as the same, and written again to the letter.
fn is_settled(file: &SnapshotFile, path: &Path) {
    let once = file.to_string();
    let reparsed_file = match SnapshotFile::parse(&once, path) {
        Ok(parsed_file) => parsed_file,
        Err(error) => panic!("{error}, in what was just written:\n{once}"),
    };
    assert_eq!(reparsed_file.to_string(), once, "written, read and written again");
    assert_eq!(reparsed_file.meta, file.meta);
    let comparison = compare_snapshots(&file.snapshot, &reparsed_file.snapshot);
    assert_eq!(comparison.verdict, SnapshotVerdict::Matches, "{comparison:?}\n{once}");
    assert!(!comparison.sentence().is_empty());
}

/// An outcome from the cache can be told in every form, and makes a snapshot that is read back as
/// it was written.
pub fn fuzz_outcome(bytes: &[u8]) {
    let Ok(outcome) = serde_json::from_slice::<Outcome>(bytes) else { return };
    let kept_bytes = serde_json::to_vec(&outcome).expect("an outcome is plain data");
    let read_outcome: Outcome = serde_json::from_slice(&kept_bytes).expect("what was just written");
    assert_eq!(serde_json::to_vec(&read_outcome).expect("an outcome is plain data"), kept_bytes);
    let snapshot = Snapshot::from_outcome(&outcome, "step0", &"0".repeat(64), &[], &[], None);
    let entry = ReportEntry {
        fixture: "step0".to_owned(),
        revision: None,
        outcome,
        gradients: Vec::new(),
        orders: Default::default(),
        trusted: None,
        judgement: None,
        pictures: Vec::new(),
        base_lacks: None,
        culprit: None,
        accesses: None,
        snapshot: None,
        duration: None,
        captured: Vec::new(),
        captured_at: None,
        captured_with: Vec::new(),
        captured_settings: Vec::new(),
        oracle: Vec::new(),
    };
    assert!(!report::render_replay_text(&entry).is_empty());
    let entries = [entry];
    let run = report::RunRecord::default();
    assert!(!report::render_replay_markdown(&entries, &[], &run, report::COMMENT_BYTES).is_empty());
    assert!(!report::render_junit(&entries, &[], &run).is_empty());
    assert!(!report::render_replay_html(&entries, &[], &run).is_empty());
    let json = report::render_replay_json(&entries, &[], &run);
    let json: Result<serde_json::Value, _> = serde_json::from_str(&json);
    assert!(json.is_ok(), "{json:?}");
    if could_be_measured(&entries[0].outcome) {
        let meta = Meta {
            source: "fixtures/step0".to_owned(),
            description: None,
            expression: "replay fixtures/step0".to_owned(),
        };
        is_settled(&SnapshotFile { meta, snapshot }, Path::new("step0.cpu.snap"));
    }
}

/// Whether a replay could have given `outcome`: names and the device's class are words, statistics
/// are numbers, and the number of elements is that of the shape.
fn could_be_measured(outcome: &Outcome) -> bool {
    let is_name = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let is_norm = |norm: f64| norm >= 0.0;
    let outputs = outcome.outputs.iter().all(|output| {
        let summary = &output.summary;
        let sizes: Option<u64> =
            output.dims.iter().try_fold(1u64, |count, dim| count.checked_mul(dim.size as u64));
        let extremes = [summary.min, summary.max, summary.mean];
        is_name(&output.name)
            && output.dims.iter().all(|dim| dim.name.as_deref().is_none_or(is_name))
            && sizes == Some(summary.count)
            && is_norm(summary.norm)
            && is_norm(summary.max_abs)
            && extremes.into_iter().flatten().all(|value| value.is_finite())
            && output.slices.iter().all(|slices| {
                is_name(&slices.dim)
                    && !slices.norms.is_empty()
                    && slices.norms.iter().all(|&norm| is_norm(norm))
            })
    });
    let mut names: Vec<&str> = outcome.outputs.iter().map(|output| output.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let distinct = names.len() == outcome.outputs.len();
    let completed = matches!(outcome.status, Status::Completed) || outcome.outputs.is_empty();
    let call = outcome.call.unwrap_or(0) < usize::MAX;
    outputs && distinct && completed && call && is_name(&outcome.device)
}

/// Every finding in a sanitizer's log has words and a count; findings and complaints are different
/// lines.
pub fn sanitizer_log(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let transcript = sanitizer::parse_transcript(&text);
    assert!(transcript.findings.iter().all(|finding| finding.count > 0), "{transcript:?}");
    assert!(transcript.findings.iter().all(|finding| !finding.what.is_empty()), "{transcript:?}");
    assert!(transcript.findings.len() + transcript.complaints.len() <= text.lines().count());
    assert_eq!(transcript, sanitizer::parse_transcript(&text));
}

/// The log of a search holds one command for each answer, whatever commits are called.
pub fn bisect_log(bytes: &[u8]) {
    let mut draw = FuzzDraw::new(bytes);
    let first_parent = draw.flag();
    let answers: Vec<(LogMark, String, String)> = (0..draw.below(5))
        .map(|_| {
            let mark = [LogMark::Old, LogMark::New, LogMark::Skip][draw.below(3)];
            (mark, format!("{:040x}", draw.number()), draw.text(64))
        })
        .collect();
    let entries: Vec<LogEntry> =
        answers.iter().map(|(mark, id, subject)| LogEntry { mark: *mark, id, subject }).collect();
    let culprit = draw.text(64);
    let culprit = draw.flag().then_some(("c0ffee", culprit.as_str()));
    let log = git_bisect_log(&entries, culprit, first_parent, BisectTerms::BREAKS);
    let mut commands = log.lines().filter(|line| !line.starts_with('#'));
    let start = if first_parent { "git bisect start '--first-parent'" } else { "git bisect start" };
    assert_eq!(commands.next(), Some(start));
    let read_answers: Vec<(LogMark, String)> = commands
        .map(|command| {
            let words: Vec<&str> = command.split(' ').collect();
            let ["git", "bisect", word, id] = words[..] else { panic!("{command:?} in {log}") };
            let mark = match word {
                "good" => LogMark::Old,
                "bad" => LogMark::New,
                "skip" => LogMark::Skip,
                _ => panic!("{command:?} in {log}"),
            };
            (mark, id.to_owned())
        })
        .collect();
    let written_answers: Vec<(LogMark, String)> =
        answers.iter().map(|(mark, id, _)| (*mark, id.clone())).collect();
    assert_eq!(read_answers, written_answers, "{log}");
}

/// An entry of the cache is read as it was written; a changed one counts as absent.
pub fn cache_entry(bytes: &[u8]) {
    thread_local! {
        static CACHE: (tempfile::TempDir, Cache) = {
            let folder = tempfile::tempdir().expect("a folder for files");
            let cache = Cache::open(&folder.path().join("cache")).expect("a cache");
            (folder, cache)
        };
    }
    CACHE.with(|(_, cache)| {
        let mut draw = FuzzDraw::new(bytes);
        let kind = CacheKind::ALL[draw.below(CacheKind::ALL.len())];
        let change = draw.below(4);
        let drawn_number = draw.number() as usize;
        let bytes = draw.remaining_bytes();
        let path = cache.path(kind, "key");
        std::fs::write(&path, bytes).expect("a file");
        if let Some(payload) = cache.read(kind, "key") {
            assert!(bytes.starts_with(&payload));
        }
        cache.write(kind, "key", bytes).expect("an entry");
        assert_eq!(cache.read(kind, "key").as_deref(), Some(bytes));
        let mut changed_entry = std::fs::read(&path).expect("the entry");
        let position = drawn_number % changed_entry.len();
        match change {
            0 => changed_entry[position] ^= 1,
            1 => changed_entry.truncate(position),
            2 => changed_entry.insert(position, changed_entry[position].wrapping_add(1)),
            _ => drop(changed_entry.drain(..position.max(1))),
        }
        std::fs::write(&path, changed_entry).expect("a file");
        assert_eq!(cache.read(kind, "key"), None, "change {change} at {position}");
    });
}
