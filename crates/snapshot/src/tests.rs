//! Snapshots of outcomes that are made up here: no kernel is run.

use std::path::Path;

use super::*;
use replay_base::summary::{POISON_A, summarize_tensor};
use replay_base::tensor::TensorView;
use replay_engine::trial::{Failure, OutputImprint, OutputNoise};
use replay_numerics::imprint::Imprint;
use replay_numerics::noise::{NoiseRef, NoiseSummary};
use replay_runtime::report::LaunchRecord;

const ROWS: usize = 4;
const COLUMNS: usize = 500;

fn launch(kernel: &str, block: u32) -> LaunchRecord {
    let grid = [1; 3];
    let block = [block, 1, 1];
    let site = "k.cu:7".to_owned();
    LaunchRecord { kernel: kernel.to_owned(), grid, block, shared_bytes: 0, site, error: None }
}

/// An outcome whose only output has `values`.
fn outcome(values: &[f32]) -> Outcome {
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    let view = TensorView { dtype: DType::F32, shape: &[ROWS, COLUMNS], bytes: &bytes };
    let dim = |name: &str, size| Dim { name: Some(name.to_owned()), size };
    let dims = vec![dim("head", ROWS), dim("item", COLUMNS)];
    let norms = replay_base::summary::slice_norms(&view, 0);
    Outcome {
        device: "cpu".to_owned(),
        device_description: "CPU".to_owned(),
        compiler: "a compiler".to_owned(),
        call: Some(0),
        status: Status::Completed,
        launches: vec![launch("k", 32); 3],
        launch_count: 3,
        outputs: vec![OutputRecord {
            name: "grad".to_owned(),
            dtype: DType::F32,
            dims,
            summary: summarize_tensor(&view, Some(&POISON_A)),
            shows_unwritten: true,
            slices: vec![Slices { dim: "head".to_owned(), norms }],
        }],
        settings: Default::default(),
        printed: String::new(),
    }
}

/// Values without a pattern, between -1 and 1.
fn values() -> Vec<f32> {
    (0..ROWS * COLUMNS).map(|i| ((i * 7919 + 13) % 2003) as f32 / 1001.5 - 1.0).collect()
}

/// Every value moved by a part of it, up or down without a pattern.
fn moved(part: f32) -> Vec<f32> {
    let sign = |i: usize| if (i * 31 + i / 7).is_multiple_of(2) { part } else { -part };
    values().iter().enumerate().map(|(i, x)| x * (1.0 + sign(i))).collect()
}

fn noise(relative_l2: f64) -> Vec<OutputNoise> {
    let noise = NoiseSummary { relative_l2, ..NoiseSummary::default() };
    vec![OutputNoise { name: "grad".to_owned(), noise, order: None, probes: Vec::new() }]
}

fn content() -> String {
    "0".repeat(64)
}

fn of(values: &[f32], relative_noise: f64) -> Snapshot {
    Snapshot::from_outcome(&outcome(values), "tiny", &content(), &noise(relative_noise), &[], None)
}

/// A shadow of the values, scaled by `factor`.
fn shadows(factor: f64) -> Vec<OutputImprint> {
    let scaled = values().into_iter().map(|x| f64::from(x) * factor);
    let bytes: Vec<u8> = scaled.flat_map(f64::to_le_bytes).collect();
    let view = TensorView { dtype: DType::F64, shape: &[ROWS, COLUMNS], bytes: &bytes };
    let none = NoiseRef { base: None, got: None };
    let imprint = Imprint::from_shadow(&view, DType::F32, &none, &none).expect("there is no noise");
    vec![OutputImprint { name: "grad".to_owned(), imprint }]
}

fn with_shadow(factor: f64) -> Snapshot {
    Snapshot::from_outcome(
        &outcome(&values()),
        "tiny",
        &content(),
        &noise(6e-8),
        &shadows(factor),
        None,
    )
}

/// The snapshot as it comes back from its file.
fn filed(snapshot: Snapshot) -> Snapshot {
    let file = SnapshotFile { meta: Meta::default(), snapshot };
    SnapshotFile::parse(&file.to_string(), Path::new("x.cpu.snap")).expect("a snapshot").snapshot
}

fn verdict(base: &Snapshot, values: &[f32], relative_noise: f64) -> SnapshotVerdict {
    compare_outcome(base, &outcome(values), &noise(relative_noise), &[]).verdict
}

#[test]
fn a_text_that_was_read_is_written_the_same() {
    for relative_noise in [0.0, 1e-16, 6e-8, 1e-3, 3.0] {
        let snapshot = of(&values(), relative_noise);
        let read = filed(snapshot.clone());
        assert_eq!(read.to_string(), snapshot.to_string(), "{relative_noise}");
        assert!(read.is_exactly(&outcome(&values())));
    }
}

#[test]
fn a_comparison_is_the_same_before_and_after_its_snapshots_lie_in_files() {
    let accepted = filed(of(&values(), 6e-8));
    for part in [3e-8, 6e-8, 2e-7, 1e-3, 0.5] {
        let outcome = outcome(&moved(part));
        let got = Snapshot::from_outcome(
            &outcome,
            "tiny",
            &content(),
            &noise(6e-8),
            &[],
            Some(&accepted),
        );
        let compared = compare_snapshots(&accepted, &got);
        assert_eq!(compared, compare_snapshots(&accepted, &filed(got)), "{part}");
        assert_eq!(compared, compare_outcome(&accepted, &outcome, &noise(6e-8), &[]), "{part}");
    }
}

#[test]
fn a_shadow_survives_its_text_and_stands_there_until_it_changes() {
    let base = with_shadow(1.0);
    assert!(base.to_string().starts_with("format: 2\n"));
    let read = filed(base.clone());
    assert_eq!(read.to_string(), base.to_string());
    let again = |shadows: &[OutputImprint]| {
        let outcome = outcome(&moved(6e-8));
        let got = Snapshot::from_outcome(
            &outcome,
            "tiny",
            &content(),
            &noise(6e-8),
            shadows,
            Some(&read),
        );
        got.outputs[0].shadow.clone()
    };
    assert_eq!(again(&shadows(1.0 + 1e-13)), read.outputs[0].shadow);
    assert_eq!(again(&shadows(1.01)), filed(with_shadow(1.01)).outputs[0].shadow);
    assert_eq!(again(&[]), None);
    let same =
        Snapshot::from_outcome(&outcome(&values()), "tiny", &content(), &[], &[], Some(&read));
    assert_eq!(same.to_string(), read.to_string());
}

#[test]
fn a_shadow_that_moved_diverges_within_noise_and_a_smaller_change_is_a_note() {
    let base = filed(with_shadow(1.0));
    let told = |base: &Snapshot, values: &[f32], shadows: &[OutputImprint]| {
        compare_outcome(base, &outcome(values), &noise(6e-8), shadows).sentence()
    };
    let near = moved(6e-8);
    insta::assert_snapshot!(told(&base, &near, &shadows(1.0 + 1e-6)), @"diverged: grad moved by rel. 8.3e-8 (noise 1.2e-7), hidden by rounding on this fixture: the float64 shadow moves by about rel. 1.5e-6");
    insta::assert_snapshot!(told(&base, &near, &shadows(1.0 + 2e-8)), @"equivalent: grad moved by rel. 8.3e-8 (noise 1.2e-7), the float64 shadow changed by about rel. 2.9e-8, less than the output can hold");
    insta::assert_snapshot!(told(&base, &near, &shadows(1.0)), @"equivalent: grad moved by rel. 8.3e-8 (noise 1.2e-7), the float64 shadow is the same");
    insta::assert_snapshot!(told(&base, &moved(1e-4), &shadows(1.0)), @"diverged: grad moved by rel. 8.5e-5 (noise 1.2e-7), the float64 shadow did not move");
    insta::assert_snapshot!(told(&base, &moved(1e-4), &shadows(1.02)), @"diverged: grad moved by rel. 8.5e-5 (noise 1.2e-7), the float64 shadow moves too");
    insta::assert_snapshot!(told(&base, &near, &[]), @"unchecked: grad moved by rel. 8.3e-8 (noise 1.2e-7), there is no float64 shadow now");
    assert_eq!(told(&base, &values(), &shadows(1.02)), "matches");
    let old = filed(of(&values(), 6e-8));
    assert!(old.to_string().starts_with("format: 1\n"));
    insta::assert_snapshot!(told(&old, &near, &shadows(1.02)), @"unchecked: grad moved by rel. 8.3e-8 (noise 1.2e-7), the snapshot has no float64 shadow");
    insta::assert_snapshot!(told(&old, &near, &[]), @"unchecked: grad moved by rel. 8.3e-8 (noise 1.2e-7), without float64 shadows");
}

#[test]
fn ties_that_rounding_decides_in_float64_are_no_loss_of_precision() {
    let tied = |rounding: f64| {
        let mut snapshot = with_shadow(1.0);
        let shadow = snapshot.outputs[0].shadow.as_mut().expect("it has a shadow");
        shadow.rounding = rounding;
        filed(snapshot)
    };
    let mut got = of(&moved(2e-3), 4e-3);
    got.outputs[0].shadow = with_shadow(1.0).outputs[0].shadow.clone();
    let verdict = |rounding: f64| compare_snapshots(&tied(rounding), &got).verdict;
    assert_eq!(verdict(1e9), SnapshotVerdict::Equivalent);
    assert_eq!(verdict(1e3), SnapshotVerdict::Diverged);
}

#[test]
fn a_shadow_that_was_edited_or_is_of_another_output_is_refused() {
    let text = SnapshotFile { meta: Meta::default(), snapshot: with_shadow(1.0) }.to_string();
    let at = text.find("shadow rounding ").expect("it has a shadow");
    let (before, shadow) = text.split_at(at);
    let rounding = shadow.split([' ', ',']).nth(2).expect("a number");
    let (_, words) = shadow.split_once("signed ").expect("it has words");
    let edited = [
        format!("{before}{}", shadow.replacen(rounding, "inf", 1)),
        format!(
            "{before}{}",
            shadow.replacen("signed ", "signed 00000000 ", 1).replacen(&words[..9], "", 1)
        ),
        text.replacen("output grad", "output gate", 1),
    ];
    for edited in edited {
        assert_ne!(edited, text);
        let error = SnapshotFile::parse(&edited, Path::new("x.cpu.snap")).unwrap_err();
        assert!(error.to_string().contains("the seal of a shadow"), "{error}");
    }
    insta::assert_snapshot!(
        SnapshotFile::parse(&text.replacen("output grad", "output gate", 1), Path::new("x.snap")).unwrap_err(),
        @"x.snap:24: the seal of a shadow that belongs to the output is expected, not `c223446e`"
    );
    let none = text[..at].to_owned() + "shadow none\n";
    let read = SnapshotFile::parse(&none, Path::new("x.cpu.snap")).expect("a snapshot").snapshot;
    assert!(read.outputs[0].shadow.is_none());
    let absent = text[..at].trim_end().to_owned() + "\n";
    assert!(SnapshotFile::parse(&absent, Path::new("x.cpu.snap")).is_err());
    let newer = text.replacen("format: 2", "format: 3", 1);
    let error = SnapshotFile::parse(&newer, Path::new("x.cpu.snap")).unwrap_err();
    assert_eq!(error.to_string(), "x.cpu.snap:5: format 3 is not known");
}

#[test]
fn what_is_not_finite_survives_its_text() {
    let mut odd = values();
    (odd[3], odd[5], odd[6]) = (f32::NAN, f32::INFINITY, f32::MAX);
    for values in [odd, vec![f32::NAN; ROWS * COLUMNS], vec![0.0; ROWS * COLUMNS]] {
        let snapshot = of(&values, 6e-8);
        assert_eq!(filed(snapshot.clone()).to_string(), snapshot.to_string());
        assert_eq!(verdict(&filed(snapshot), &values, 6e-8), SnapshotVerdict::Matches);
    }
}

#[test]
fn rounding_is_equivalent_and_more_than_that_is_not() {
    let base = filed(of(&values(), 6e-8));
    assert_eq!(verdict(&base, &values(), 6e-8), SnapshotVerdict::Matches);
    assert_eq!(verdict(&base, &moved(6e-8), 6e-8), SnapshotVerdict::Unchecked);
    assert_eq!(verdict(&base, &moved(1e-5), 6e-8), SnapshotVerdict::Diverged);
    let mut one = values();
    one[1234] += 1e-2;
    assert_eq!(verdict(&base, &one, 6e-8), SnapshotVerdict::Diverged);
}

#[test]
fn the_estimate_is_that_of_the_tensors() {
    let base = filed(of(&values(), 6e-8));
    let got = compare_outcome(&base, &outcome(&moved(1e-4)), &noise(6e-8), &[]);
    let distance = got.changes[0].distance.expect("dtype and shape are the same");
    assert!((0.5e-4..2e-4).contains(&distance.relative), "{distance:?}");
    assert!(distance.low < 1e-4 && 1e-4 < distance.high, "{distance:?}");
}

#[test]
fn noise_that_grew_with_the_error_excuses_nothing() {
    let base = filed(of(&values(), 6e-8));
    assert_eq!(verdict(&base, &moved(2e-3), 4e-3), SnapshotVerdict::Diverged);
    let narrow = filed(of(&values(), 4e-3));
    assert_eq!(verdict(&narrow, &moved(2e-3), 4e-3), SnapshotVerdict::Unchecked);
}

#[test]
fn integers_have_no_noise() {
    let mut base = of(&values(), 0.0);
    base.outputs[0].dtype = DType::I32;
    let mut got = of(&moved(1e-6), 1.0);
    got.outputs[0].dtype = DType::I32;
    assert_eq!(compare_snapshots(&base, &got).verdict, SnapshotVerdict::Diverged);
}

#[test]
fn heads_that_became_zero_are_named() {
    let base = filed(of(&values(), 6e-8));
    let mut got = values();
    got[COLUMNS..].fill(0.0);
    let found = compare_outcome(&base, &outcome(&got), &noise(6e-8), &[]);
    insta::assert_snapshot!(
        found.sentence(),
        @"diverged: grad moved by rel. 0.76 (noise 1.2e-7), now all zero at head 1, 2, 3"
    );
}

#[test]
fn another_ending_diverges_whatever_the_bits() {
    let base = filed(of(&values(), 6e-8));
    let mut got = outcome(&values());
    got.status = Status::Failed(vec![Failure::Exit { code: 3 }]);
    insta::assert_snapshot!(
        compare_outcome(&base, &got, &noise(6e-8), &[]).sentence(),
        @"diverged: completed became failed (exit: the code called exit(3) before the call returned)"
    );
}

#[test]
fn outputs_that_come_and_go_diverge() {
    let base = filed(of(&values(), 6e-8));
    let mut got = outcome(&values());
    got.outputs[0].name = "other".to_owned();
    insta::assert_snapshot!(
        compare_outcome(&base, &got, &noise(6e-8), &[]).sentence(),
        @"diverged: grad is gone; other is new"
    );
    let mut got = outcome(&values());
    got.outputs[0].dtype = DType::I32;
    insta::assert_snapshot!(
        compare_outcome(&base, &got, &noise(6e-8), &[]).sentence(),
        @"diverged: grad has another dtype or shape"
    );
}

#[test]
fn another_fixture_is_stale() {
    let base = filed(of(&values(), 6e-8));
    let mut got = of(&moved(1.0), 6e-8);
    got.content = "1".repeat(64);
    assert_eq!(compare_snapshots(&base, &got).verdict, SnapshotVerdict::Stale);
}

#[test]
fn launches_with_other_shapes_are_told_and_do_not_diverge() {
    let base = filed(of(&values(), 6e-8));
    let mut got = outcome(&values());
    got.launches[1] = launch("k", 64);
    let found = compare_outcome(&base, &got, &[], &[]);
    assert_eq!(found.sentence(), "matches: launches changed");
    assert!(base.has_bits_of(&got) && !base.is_exactly(&got));
}

#[test]
fn noise_of_the_same_size_is_told_as_before() {
    let base = filed(of(&values(), 6e-8));
    let near = Snapshot::from_outcome(
        &outcome(&values()),
        "tiny",
        &content(),
        &noise(2e-7),
        &[],
        Some(&base),
    );
    assert_eq!(near.to_string(), base.to_string());
    let far = Snapshot::from_outcome(
        &outcome(&values()),
        "tiny",
        &content(),
        &noise(2e-6),
        &[],
        Some(&base),
    );
    assert_eq!(far.outputs[0].noise, 2e-6);
}

#[test]
fn hostile_names_stay_on_their_line() {
    let mut hostile = outcome(&values());
    hostile.launches[0].kernel = "k\nformat: 2\r<<<<<<< HEAD".to_owned();
    let snapshot =
        Snapshot::from_outcome(&hostile, "a\n---\nb", &content(), &noise(6e-8), &[], None);
    let read = filed(snapshot.clone());
    assert_eq!(read, filed(read.clone()));
    assert_eq!(read.launches[0], "k format: 2 <<<<<<< HEAD<<<1, 32>>>");
    assert_eq!(read.fixture, "a --- b");
}

#[test]
fn a_text_that_ends_anywhere_is_refused() {
    let meta = Meta { source: "a/b".into(), description: None, expression: "replay a/b".into() };
    let file = SnapshotFile { meta, snapshot: with_shadow(1.0) };
    let text = file.to_string();
    for end in 0..text.len() {
        let read = SnapshotFile::parse(&text[..end], Path::new("x.cpu.snap"));
        assert!(read.is_err(), "{}", &text[..end]);
    }
    assert_eq!(SnapshotFile::parse(&text, Path::new("x")).expect("it is whole").meta, file.meta);
}

#[test]
fn a_line_that_is_lost_or_twice_is_refused() {
    let file = SnapshotFile { meta: Meta::default(), snapshot: with_shadow(1.0) };
    let text = file.to_string();
    let lines: Vec<&str> = text.lines().collect();
    // The front matter is insta's; launches and norms by slice are lists of any length.
    let fixed = |line: &str| !line.contains("<<<") && !line.contains("norm by");
    for index in (4..lines.len()).filter(|&index| fixed(lines[index])) {
        for copies in [0, 2] {
            let mut edited = lines.clone();
            edited.splice(index..=index, vec![lines[index]; copies]);
            let edited = edited.join("\n") + "\n";
            let read = SnapshotFile::parse(&edited, Path::new("x.cpu.snap"));
            assert!(read.is_err(), "{copies} x {}", lines[index]);
        }
    }
}

#[test]
fn two_runs_at_once_leave_one_whole_pending_snapshot() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.cpu.snap");
    let file = |part: f32| SnapshotFile { meta: Meta::default(), snapshot: of(&moved(part), 6e-8) };
    let files: Vec<SnapshotFile> = (1..5).map(|i| file(i as f32 * 1e-3)).collect();
    std::thread::scope(|scope| {
        for file in &files {
            let path = &path;
            scope.spawn(move || {
                for _ in 0..20 {
                    write_snapshot(path, file, Write::Pending { over: true })
                        .expect("it can be written");
                }
            });
        }
        for _ in 0..50 {
            if let Some(found) = open_pending(&path).expect("every state is whole") {
                assert!(files.iter().any(|file| file.to_string() == found.new.to_string()));
            }
        }
    });
    let names: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").flatten().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn what_another_run_put_in_place_is_neither_accepted_nor_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.cpu.snap");
    let file = |part: f32| SnapshotFile { meta: Meta::default(), snapshot: of(&moved(part), 6e-8) };
    let how = Write::Pending { over: true };
    write_snapshot(&path, &file(1e-3), how).expect("it can be written");
    let reviewed = open_pending(&path).expect("it is whole").expect("one is pending");
    write_snapshot(&path, &file(2e-3), how).expect("it can be written");
    accept_snapshot(&reviewed, Some("seen")).expect("it can be written");
    let accepted = SnapshotFile::read(&path).expect("it was accepted");
    assert_eq!(accepted.snapshot.to_string(), file(1e-3).snapshot.to_string());
    assert_eq!(accepted.meta.description.as_deref(), Some("seen"));
    assert_eq!(list_pending_snapshots(folder.path()).expect("a folder"), [path.as_path()]);
    let left = open_pending(&path).expect("it is whole").expect("the other is pending");
    assert_eq!(left.new.snapshot.to_string(), file(2e-3).snapshot.to_string());
}

#[test]
fn without_leave_to_write_over_the_first_file_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.cpu.snap");
    let file = |part: f32| SnapshotFile { meta: Meta::default(), snapshot: of(&moved(part), 6e-8) };
    let how = Write::Accepted { over: false };
    assert_eq!(
        write_snapshot(&path, &file(1e-3), how).expect("it can be written"),
        Some(path.clone())
    );
    assert_eq!(write_snapshot(&path, &file(2e-3), how).expect("it stays"), None);
    let kept = SnapshotFile::read(&path).expect("a snapshot").snapshot;
    assert_eq!(kept.to_string(), file(1e-3).snapshot.to_string());
}

#[test]
fn snapshots_lie_beside_the_folder_of_fixtures() {
    let root = tempfile::tempdir().expect("a folder");
    let root = root.path().canonicalize().expect("a path");
    let fixture = root.join("fixtures/a/b");
    std::fs::create_dir_all(&fixture).expect("a folder");
    std::fs::create_dir(root.join(".git")).expect("a folder");
    assert_eq!(Store::find(&fixture, None), None);
    std::fs::create_dir(root.join("snapshots")).expect("a folder");
    let store = Store::find(&fixture, None).expect("a store");
    assert_eq!(store.path("sm_90"), root.join("snapshots/a/b.sm_90.snap"));
    assert_eq!(store.meta().source, "fixtures/a/b");
    let named = Store::find(&fixture, Some(&root.join("fixtures/kept"))).expect("a store");
    assert_eq!(named.path("cpu"), root.join("fixtures/kept/b.cpu.snap"));
}

#[test]
fn a_search_for_snapshots_does_not_leave_the_repository() {
    let root = tempfile::tempdir().expect("a folder");
    let repository = root.path().join("repository");
    std::fs::create_dir_all(root.path().join("snapshots")).expect("a folder");
    std::fs::create_dir_all(repository.join("fixtures/a")).expect("a folder");
    std::fs::create_dir(repository.join(".git")).expect("a folder");
    assert_eq!(find_snapshot_folder(&repository.join("fixtures/a")), None);
}

#[test]
fn numbers_are_those_of_their_checksums() {
    for relative_noise in [0.0, 1e-16, 6e-8, 1e-3, 3.0] {
        let read = filed(of(&values(), relative_noise));
        assert_eq!(find_contradiction(&read, &outcome(&values())), None, "{relative_noise}");
    }
    let read = filed(of(&values(), 6e-8));
    let edits: [fn(&mut OutputSnapshot); 6] = [
        |output| output.summary.norm *= 1.01,
        |output| output.summary.max = None,
        |output| output.summary.mean = Some(0.5),
        |output| output.summary.zeros += 1,
        |output| output.slices[0].norms[2] = 0.0,
        |output| output.summary.sketch.0[7] += 1e-3,
    ];
    for (number, edit) in edits.into_iter().enumerate() {
        let mut edited = read.clone();
        edit(&mut edited.outputs[0]);
        assert!(find_contradiction(&edited, &outcome(&values())).is_some(), "{number}");
    }
}

#[test]
fn a_folder_that_is_read_only_has_a_hint() {
    for kind in [std::io::ErrorKind::PermissionDenied, std::io::ErrorKind::ReadOnlyFilesystem] {
        let path = "snapshots/x.cpu.snap.new".into();
        let error = SnapshotError::Io { doing: "write", path, source: kind.into() };
        assert_eq!(error.to_string(), "cannot write snapshots/x.cpu.snap.new");
        assert_eq!(error.hint().as_deref(), Some("REPLAY_UPDATE=no compares without writing"));
    }
}

#[test]
fn control_characters_of_a_front_matter_are_left_out() {
    let text = filed(of(&values(), 1e-7));
    let text = SnapshotFile { meta: Meta::default(), snapshot: text }.to_string();
    let text = text.replacen("source: \"\"", "source: \"a\\u001b[31m\\nb  c\"", 1);
    let read = SnapshotFile::parse(&text, Path::new("a.snap")).unwrap();
    assert_eq!(read.meta.source, "a [31m b c");
    let again = SnapshotFile::parse(&read.to_string(), Path::new("a.snap")).unwrap();
    assert_eq!(again.meta, read.meta);
}

#[test]
fn an_output_that_stands_twice_is_refused() {
    let mut snapshot = of(&values(), 1e-7);
    snapshot.outputs.push(snapshot.outputs[0].clone());
    let text = SnapshotFile { meta: Meta::default(), snapshot }.to_string();
    let error = SnapshotFile::parse(&text, Path::new("a.snap")).unwrap_err();
    insta::assert_snapshot!(error, @"a.snap:25: an output of another name is expected, not `grad`");
}

#[test]
fn infinite_noise_of_a_change_is_a_word_in_json() {
    let change = super::OutputChange {
        name: "dx".to_owned(),
        verdict: super::SnapshotVerdict::Equivalent,
        before: None,
        after: None,
        distance: None,
        noise: f64::INFINITY,
        shadow: None,
        notes: Vec::new(),
    };
    assert_eq!(serde_json::to_value(change).unwrap()["noise"], "inf");
}
