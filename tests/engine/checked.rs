//! Checked replays: what races is found, with both places; what CUDA orders is not.

use crate::common::checked_cases;

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use replay::backend::Mode;
use replay::frontend::Precision;
use replay::runtime::report::{AccessFinding, FoundKind};
use replay::summary::{POISON_A, POISON_B};
use replay::worker::{Ending, Run};

use super::project::{Machine, Project};

static CHECKED: LazyLock<Project> = LazyLock::new(|| {
    let tables = "[inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                  [outputs.out]\ndtype = \"f32\"\nshape = [\"n\"]\n";
    let input: Vec<f32> = (0..4096).map(|n| n as f32).collect();
    Project::new(&checked_cases::source(), "x, out", tables, &input)
});

fn run(case: &str) -> Run {
    CHECKED.run_as(Precision::Checked, case, &Mode::plain(POISON_A), Machine::PLAIN)
}

/// The findings of a replay of `case`, made once for all tests.
fn found(case: &str) -> &'static [AccessFinding] {
    static FOUND: LazyLock<HashMap<&str, OnceLock<Vec<AccessFinding>>>> = LazyLock::new(|| {
        CHECKED.cases().iter().map(|case| (case.as_str(), OnceLock::new())).collect()
    });
    FOUND[case].get_or_init(|| {
        let run = run(case);
        // The processor may refuse a misaligned access after it is found.
        let may_end = case.starts_with("misaligned_");
        assert!(run.ending == Ending::Completed || may_end, "{case}: {:?}", run.ending);
        assert_eq!(run.findings.refused, None, "{case}");
        run.findings.found
    })
}

fn cases(prefix: &str) -> impl Iterator<Item = &'static String> {
    CHECKED.cases().iter().filter(move |case| case.starts_with(prefix))
}

/// The cases with `prefix` in which nothing of `kind` is found, or something else.
fn missed(prefix: &str, kind: FoundKind) -> Vec<String> {
    let wrong = cases(prefix).filter_map(|case| {
        let found = found(case);
        let is_right = !found.is_empty() && found.iter().all(|found| found.kind == kind);
        (!is_right).then(|| format!("{case}: {found:?}"))
    });
    wrong.collect()
}

#[test]
fn every_race_is_found() {
    assert!(cases("race_").count() >= 40);
    let wrong = cases("race_").filter_map(|case| {
        let found = found(case);
        (!found.iter().any(|found| found.kind == FoundKind::Race))
            .then(|| format!("{case}: {found:?}"))
    });
    assert_eq!(wrong.collect::<Vec<_>>().join("\n"), "");
}

#[test]
fn what_cuda_orders_is_no_race() {
    let wrong = cases("good_").filter_map(|case| {
        let found = found(case);
        let is_wrong = found.iter().any(|found| found.kind != FoundKind::Flag);
        is_wrong.then(|| format!("{case}: {found:?}"))
    });
    assert_eq!(wrong.collect::<Vec<_>>().join("\n"), "");
}

#[test]
fn whoever_waits_on_a_flag_in_memory_is_noted_and_barriers_and_counters_are_no_flags() {
    let notes = |case: &str| found(case).iter().any(|found| found.kind == FoundKind::Flag);
    for case in ["good_flag_with_fences", "race_flag_without_fence", "good_value_before_the_fence"]
    {
        assert!(notes(case), "{case}");
    }
    for case in ["good_tree", "good_last_block", "good_counter_in_shared", "good_cluster_exchange"]
    {
        assert!(!notes(case), "{case}");
    }
}

#[test]
fn reads_of_what_nobody_wrote_are_found() {
    assert_eq!(missed("unwritten_", FoundKind::Unwritten).join("\n"), "");
}

#[test]
fn accesses_beside_an_allocation_are_found() {
    assert_eq!(missed("bounds_", FoundKind::OutOfBounds).join("\n"), "");
}

#[test]
fn vectors_at_addresses_that_are_no_multiple_of_theirs_are_found() {
    assert_eq!(cases("misaligned_").count(), 2);
    assert_eq!(missed("misaligned_", FoundKind::Misaligned).join("\n"), "");
    let bytes = |case: &str| found(case)[0].bytes;
    assert_eq!([bytes("misaligned_read"), bytes("misaligned_write")], [16, 8]);
}

#[test]
fn threads_that_write_the_same_value_are_told_apart() {
    assert_eq!(missed("same_", FoundKind::SameValue).join("\n"), "");
}

#[test]
fn shuffles_that_read_lanes_which_take_no_part_are_found() {
    assert_eq!(missed("stray_", FoundKind::UndefinedLane).join("\n"), "");
}

#[test]
fn whoever_reads_a_lane_that_takes_no_part_gets_poison_in_every_form_of_kernels() {
    let unused = ["stray_tail_of_a_reduction"];
    for case in cases("stray_") {
        let plain = |poison, machine| {
            let run = CHECKED.run_in(case, &Mode::plain(poison), machine);
            assert_eq!(run.ending, Ending::Completed, "{case}");
            run.output("out").unwrap().bytes.to_vec()
        };
        let [first, second] = [POISON_A, POISON_B].map(|poison| {
            let blocks = plain(poison, Machine::PLAIN);
            assert!(blocks == plain(poison, Machine::STACKS), "{case}");
            blocks
        });
        let untouched = [&POISON_A.pattern[..4], &POISON_B.pattern[..4]];
        let pairs = first.chunks(4).zip(second.chunks(4)).map(|(a, b)| [a, b]);
        // What poison is as a double is too large for a float, whichever it is.
        let shows =
            |[a, b]: [&[u8]; 2]| a != b || !f32::from_le_bytes(a.try_into().unwrap()).is_finite();
        let is_seen = pairs.filter(|pair| *pair != untouched).any(shows);
        assert_eq!(is_seen, !unused.contains(&case.as_str()), "{case}");
    }
}

/// The line of the cases that `src/cases.cu:N` names.
fn line(site: &str) -> &'static str {
    let number = site.strip_prefix("src/cases.cu:").and_then(|line| line.parse::<usize>().ok());
    let line = number.and_then(|line| checked_cases::TEXT.lines().nth(line - 1));
    line.unwrap_or_else(|| panic!("no line: {site:?}")).trim()
}

/// Whether `case` may end with what it shows.
fn may_end(case: &str) -> bool {
    ["host_", "device_", "beyond_", "ended_"].iter().any(|prefix| case.starts_with(prefix))
}

/// What a case shows that may end with the access itself.
fn crossings(prefix: &str, kind: FoundKind) -> String {
    let told = cases(prefix).map(|case| {
        let run = run(case);
        let [found] = run.findings.found.as_slice() else { panic!("{case}: {run:?}") };
        assert_eq!(found.kind, kind, "{case}");
        let line = line(&found.second.site);
        let ends = if run.ending == Ending::Completed { "goes on" } else { "ends" };
        let AccessFinding { second, memory, offset, .. } = found;
        let at = (second.block, second.thread);
        format!("{case} {ends}: {} {at:?}, byte {offset} of {memory}: {line}\n", second.name)
    });
    told.collect()
}

#[test]
fn host_code_that_touches_device_memory_is_found_with_its_line_on_every_page() {
    insta::assert_snapshot!(crossings("host_", FoundKind::HostAccess), @"
    host_reads_inside_of_a_large_allocation goes on: host code (None, None), byte 2097152 of cudaMalloc at src/cases.cu:12: float v = ((volatile float*)s)[1 << 19];
    host_writes_inside_of_a_large_allocation goes on: host code (None, None), byte 2097152 of cudaMalloc at src/cases.cu:12: s[1 << 19] = 1;
    host_reads_the_result ends: host code (None, None), byte 12 of out: float v = ((volatile float*)out)[3];
    ");
}

#[test]
fn kernels_that_touch_memory_of_the_host_are_found_with_their_line() {
    insta::assert_snapshot!(crossings("device_", FoundKind::DeviceAccess), @"
    device_reads_a_variable_of_the_host ends: get_kernel (Some([0, 0, 0]), Some([0, 0, 0])), byte 0 of argument 3 points to a variable on the stack of host code, which a GPU cannot reach: KERNEL(get) { out[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x]; }
    device_writes_to_the_heap ends: set_kernel (Some([0, 0, 0]), Some([0, 0, 0])), byte 0 of argument 3 points to memory that host code allocated, which a GPU cannot reach: KERNEL(set) { s[threadIdx.x] = x[threadIdx.x]; }
    ");
}

#[test]
fn an_access_that_ends_the_replay_is_found_with_its_line() {
    insta::assert_snapshot!(crossings("beyond_", FoundKind::OutOfBounds), @"
    beyond_the_end ends: beyond_the_end_kernel (Some([0, 0, 0]), Some([3, 0, 0])), byte 1073741824 of out: KERNEL(beyond_the_end) { if (threadIdx.x == 3) out[1 << 28] = x[0]; }
    beyond_the_begin ends: beyond_the_begin_kernel (Some([0, 0, 0]), Some([0, 0, 0])), byte -4194304 of cudaMalloc at src/cases.cu:12: KERNEL(beyond_the_begin) { out[0] = s[-(1 << 20)]; }
    beyond_null ends: beyond_null_kernel (Some([0, 0, 0]), Some([0, 0, 0])), byte 8 of the null pointer: KERNEL(beyond_null) { *((float* volatile*)&s) = nullptr; out[0] = s[2]; }
    ");
}

#[test]
fn a_race_before_a_trap_is_found() {
    insta::assert_snapshot!(crossings("ended_", FoundKind::Race), @"ended_by_a_trap ends: ended_by_a_trap_kernel (Some([0, 0, 0]), Some([1, 0, 0])), byte 4 of cudaMalloc at src/cases.cu:12: if (threadIdx.x < 2) s[1] = threadIdx.x;");
}

#[test]
fn work_of_two_streams_without_an_event_races_whichever_comes_first() {
    for case in ["race_two_streams", "race_two_streams_reader_first"] {
        let found = found(case);
        let [race] = found else { panic!("{case}: {found:?}") };
        let first = race.first.as_ref().expect("a race has two sides");
        let mut names = [first.name.as_str(), race.second.name.as_str()];
        names.sort_unstable();
        assert!(race.between_streams, "{case}: {race:?}");
        assert_eq!(names, ["get_kernel", "set_kernel"], "{case}");
    }
    let within = found("race_first_thread_broadcasts");
    assert!(within.iter().all(|found| !found.between_streams));
}

#[test]
fn a_finding_names_both_places_and_the_element() {
    let kernel = "KERNEL(race_first_thread_broadcasts)";
    let at = checked_cases::TEXT.lines().position(|line| line.starts_with(kernel));
    let line = |behind: usize| format!("src/cases.cu:{}", at.expect("the kernel") + 1 + behind);
    let found = found("race_first_thread_broadcasts");
    let [race] = found else { panic!("{found:?}") };
    let first = race.first.as_ref().expect("a race has two sides");
    assert_eq!((first.site.clone(), race.second.site.clone()), (line(2), line(3)));
    assert_eq!((first.writes, race.second.writes), (true, false));
    // Of a warp and of all others: the next warp is the example.
    assert_eq!((first.thread, race.second.thread), (Some([0, 0, 0]), Some([32, 0, 0])));
    assert_eq!((race.memory.as_str(), race.offset, race.bytes), ("shared memory best", 0, 4));
}

#[test]
fn every_finding_names_lines_of_the_sources_and_none_of_the_headers() {
    let mut atomics = 0;
    for case in CHECKED.cases().iter().filter(|case| !may_end(case)) {
        for finding in found(case) {
            let spots = finding.first.iter().chain([&finding.second]);
            // A copy by the driver has no thread.
            for spot in spots.filter(|spot| spot.thread.is_some()) {
                assert!(spot.site.starts_with("src/cases.cu:"), "{case}: {finding:?}");
                atomics += usize::from(spot.atomic);
            }
        }
    }
    assert!(atomics >= 10, "{atomics}");
}

#[test]
fn shared_memory_is_told_by_its_variable_and_from_its_begin() {
    for (case, memory) in [
        ("race_dynamic_shared", "dynamic shared memory"),
        ("race_second_shared_variable", "shared memory second"),
    ] {
        let found = found(case);
        let told = |race: &&AccessFinding| (race.memory.as_str(), race.offset) == (memory, 176);
        assert_eq!(found.iter().filter(told).count(), 1, "{case}: {found:?}");
    }
}

#[test]
fn a_thread_is_never_told_to_race_with_itself() {
    let own = cases("race_").filter_map(|case| {
        let alone = |found: &AccessFinding| {
            let Some(first) = &found.first else { return false };
            let second = &found.second;
            first.block.is_some()
                && !found.between_streams
                && (&first.name, first.block, first.thread)
                    == (&second.name, second.block, second.thread)
        };
        let found = found(case);
        found.iter().any(alone).then(|| format!("{case}: {found:?}"))
    });
    assert_eq!(own.collect::<Vec<_>>().join("\n"), "");
}
