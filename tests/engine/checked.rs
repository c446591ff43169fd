//! Checked replays: what races is found, with both places; what CUDA orders is not.

use std::sync::LazyLock;

use replay::backend::Mode;
use replay::frontend::Precision;
use replay::runtime::report::{Found, FoundKind};
use replay::summary::POISON_A;
use replay::worker::Ending;

use super::project::{Machine, Project};

static CHECKED: LazyLock<Project> = LazyLock::new(|| {
    let tables = "[inputs.x]\ndtype = \"f32\"\nshape = [\"n\"]\n\
                  [outputs.out]\ndtype = \"f32\"\nshape = [\"n\"]\n";
    let input: Vec<f32> = (0..4096).map(|n| n as f32).collect();
    let text: String = include_str!("checked.cases").lines().map(expanded).collect();
    Project::new(&text, "x, out", tables, &input)
});

/// A line of the cases, with what stands for a case made one.
fn expanded(line: &str) -> String {
    let case = |list: &str, zero: bool| {
        let mut words = list.trim_end_matches(')').split(", ");
        let mut word = || words.next().expect("a name, a grid and a block");
        let (name, grid, block) = (word(), word(), word());
        format!(
            "static void case_{name}(const float* x, float* out) {{ \
             {name}_kernel<<<{grid}, {block}>>>(x, out, scratch(8192, {zero})); }}\n"
        )
    };
    if let Some(list) = line.strip_prefix("RUN(") {
        return case(list, true);
    }
    if let Some(list) = line.strip_prefix("RAW(") {
        return case(list, false);
    }
    match line.strip_prefix("KERNEL(").and_then(|rest| rest.split_once(')')) {
        Some((name, rest)) => {
            format!("__global__ void {name}_kernel(const float* x, float* out, float* s){rest}\n")
        }
        None => format!("{line}\n"),
    }
}

fn found(case: &str) -> Vec<Found> {
    let mode = Mode::plain(POISON_A);
    let run = CHECKED.run_as(Precision::Checked, case, &mode, Machine::PLAIN);
    assert_eq!(run.ending, Ending::Completed, "{case}");
    assert_eq!(run.findings.refused, None, "{case}");
    run.findings.found
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
        (!found.is_empty()).then(|| format!("{case}: {found:?}"))
    });
    assert_eq!(wrong.collect::<Vec<_>>().join("\n"), "");
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
fn threads_that_write_the_same_value_are_told_apart() {
    assert_eq!(missed("same_", FoundKind::SameValue).join("\n"), "");
}

#[test]
fn a_finding_names_both_places_and_the_element() {
    let kernel = "KERNEL(race_first_thread_broadcasts)";
    let at = include_str!("checked.cases").lines().position(|line| line.starts_with(kernel));
    let line = |behind: usize| format!("src/cases.cu:{}", at.expect("the kernel") + 1 + behind);
    let found = found("race_first_thread_broadcasts");
    let [race] = found.as_slice() else { panic!("{found:?}") };
    let first = race.first.as_ref().expect("a race has two sides");
    assert_eq!((first.site.clone(), race.second.site.clone()), (line(2), line(3)));
    assert_eq!((first.writes, race.second.writes), (true, false));
    assert_eq!((first.thread, race.second.thread), (Some([0, 0, 0]), Some([1, 0, 0])));
    assert_eq!((race.memory.as_str(), race.offset, race.bytes), ("shared memory", 0, 4));
}

#[test]
fn a_thread_is_never_told_to_race_with_itself() {
    let own = cases("race_").filter_map(|case| {
        let alone = |found: &Found| {
            let Some(first) = &found.first else { return false };
            let second = &found.second;
            first.block.is_some()
                && (&first.name, first.block, first.thread)
                    == (&second.name, second.block, second.thread)
        };
        let found = found(case);
        found.iter().any(alone).then(|| format!("{case}: {found:?}"))
    });
    assert_eq!(own.collect::<Vec<_>>().join("\n"), "");
}
