//! The findings of a checked replay, in words.

use super::numbers::format_noun_count;
use super::spans::{ReportLine, Text};
use super::style::{DIM, GREEN, RED, YELLOW};
use replay_engine::judge::{AccessStory, Accesses, JudgedAccess};
use replay_runtime::report::{AccessFinding, FoundKind, FoundSpot};

/// The finding in a line. The word for its kind comes first.
pub(super) fn describe_access(finding: &AccessFinding) -> String {
    let second = describe_spot(&finding.second);
    let first = finding.first.as_ref().map(describe_spot).unwrap_or_default();
    let place = describe_memory_place(finding);
    let times = match finding.count {
        0 | 1 => String::new(),
        n => format!(" ({n} times)"),
    };
    match finding.kind {
        FoundKind::Race => {
            let between_streams = if finding.between_streams { " between streams" } else { "" };
            format!("race{between_streams} on {place}: {first}; {second}{times}")
        }
        FoundKind::SameValue => {
            format!("the same value is written by several to {place}: {first}; {second}{times}")
        }
        FoundKind::Flag => format!(
            "waits on memory (flag) {place}: {first}; {second}{times}: what other threads \
             published is checked only as far as fences order it"
        ),
        FoundKind::Unwritten => format!("nobody has written {place}: {second}{times}"),
        FoundKind::OutOfBounds => format!("out of bounds: {second}, {place}{times}"),
        FoundKind::Misaligned => format!(
            "misaligned: {second}, {place}{times}: the address is no multiple of {}",
            finding.bytes
        ),
        FoundKind::UndefinedLane | FoundKind::UnusedLane => {
            format!("{}: {second}{times}", finding.kind.words(&finding.memory))
        }
        FoundKind::HostAccess => format!("host access to device memory: {second}, {place}{times}"),
        FoundKind::DeviceAccess => {
            format!("device access to host memory: {second}, {}{times}", finding.memory)
        }
    }
}

/// The fault in a few words, with the memory and without places.
pub(super) fn name_access_fault(finding: &AccessFinding) -> String {
    finding.kind.words(finding.memory_without_line())
}

/// Such as `src/a.cu:7 writes in sum, block (0, 0, 0), thread (3, 0, 0)`.
fn describe_spot(spot: &FoundSpot) -> String {
    let verb = match (spot.writes, spot.atomic) {
        (false, false) => "reads",
        (true, false) => "writes",
        (false, true) => "reads atomically",
        (true, true) => "writes atomically",
    };
    let site = if spot.site.is_empty() { "a call of the runtime" } else { spot.site.as_str() };
    let mut text = format!("{site} {verb} in {}", spot.name);
    match (spot.block, spot.thread) {
        (Some([bx, by, bz]), Some([tx, ty, tz])) => {
            text += &format!(", block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz})");
        }
        (Some([x, y, z]), None) => text += &format!(", program ({x}, {y}, {z})"),
        (None, _) => {}
    }
    text
}

/// Such as `dx[3, 7]`, or `4 bytes at byte 16 of shared memory`.
fn describe_memory_place(finding: &AccessFinding) -> String {
    let AccessFinding { memory, offset, bytes, index, .. } = finding;
    let bytes = format_noun_count(*bytes, "byte");
    match (index, finding.kind, *offset) {
        (Some(index), ..) => format!("{memory}{index:?}"),
        (None, FoundKind::OutOfBounds, negative_offset @ ..0) => {
            format!(
                "{bytes} from {} before {memory}",
                format_noun_count(negative_offset.unsigned_abs(), "byte")
            )
        }
        (None, FoundKind::OutOfBounds, _) if memory == "shared memory" => {
            format!("{bytes} of shared memory beside every variable")
        }
        (None, _, offset) => format!("{bytes} at byte {offset} of {memory}"),
    }
}

/// A line for each finding, and the reason if accesses were not checked.
pub(super) fn access_lines(accesses: &Accesses) -> Vec<ReportLine> {
    let mut lines: Vec<ReportLine> = accesses.findings.iter().map(access_line).collect();
    lines.extend(left_out_line(accesses));
    let reason = describe_unchecked_side(accesses);
    lines.extend(reason.map(|reason| ReportLine::with_style(YELLOW, reason)));
    lines
}

/// A line for each finding without a failure of the code under test, and the number of findings left out.
pub(super) fn access_note_lines(accesses: &Accesses) -> Vec<ReportLine> {
    let notes = accesses.findings.iter().filter(|judged| !judged.story.is_failure());
    let mut lines: Vec<ReportLine> = notes.map(access_line).collect();
    lines.extend(left_out_line(accesses));
    lines
}

fn access_line(judged: &JudgedAccess) -> ReportLine {
    let (style, mark) = match judged.story {
        AccessStory::New | AccessStory::Alone => (RED, ""),
        AccessStory::NotCompared => (RED, "not compared: "),
        AccessStory::Known => (DIM, "on both sides: "),
        AccessStory::Habit { .. } => (YELLOW, "note: "),
    };
    ReportLine::with_style(style, format!("{mark}{}", describe_access(&judged.finding)))
}

/// Why accesses were not checked, in a sentence, if they were not.
pub(super) fn describe_unchecked_side(accesses: &Accesses) -> Option<String> {
    let unchecked_side = accesses.unchecked.as_ref()?;
    Some(format!("races are not looked for: {unchecked_side}"))
}

/// The number of findings beyond the listed ones.
fn left_out_line(accesses: &Accesses) -> Option<ReportLine> {
    match accesses.left_out {
        0 => None,
        left_out => Some(format!("and {} more", format_noun_count(left_out, "finding")).into()),
    }
}

/// The section of a report: failures and harmless habits. Empty if there are none.
pub(super) fn render_access_section(accesses: &Accesses) -> Text {
    let mut out = Text::new();
    let lines = access_lines(accesses);
    if !lines.is_empty() {
        out.section("accesses");
    }
    for line in lines {
        out.line(ReportLine::from("  ").and(line));
    }
    out
}

/// The section for a comparison of two checked sides, with the findings of the trusted side alone.
pub fn render_access_comparison(compared_accesses: &Accesses) -> Text {
    let mut out = render_access_section(compared_accesses);
    let resolved_lines: Vec<ReportLine> = gone_lines(compared_accesses).collect();
    if out.is_empty() && !resolved_lines.is_empty() {
        out.section("accesses");
    }
    resolved_lines.into_iter().for_each(|line| out.line(ReportLine::from("  ").and(line)));
    out
}

/// A line for each finding of the trusted side alone.
pub(super) fn gone_lines(accesses: &Accesses) -> impl Iterator<Item = ReportLine> {
    accesses.gone.iter().map(|finding| {
        ReportLine::with_style(GREEN, "no longer").and(format!(": {}", describe_access(finding)))
    })
}

/// The verdict on wrong accesses of the side under test; none where there are none.
pub fn new_access(accesses: &Accesses) -> Option<ReportLine> {
    let first = accesses.failures().next()?;
    Some(ReportLine::with_style(RED, "failed").and(format!(": {}", describe_access(first))))
}

/// A finding of `kind` on an element of `dx`.
#[cfg(test)]
pub(super) fn create_sample_finding(kind: FoundKind) -> AccessFinding {
    let spot = |line: u32, writes, thread| FoundSpot {
        writes,
        atomic: false,
        site: format!("src/a.cu:{line}"),
        name: "sum".to_owned(),
        block: Some([0, 0, 0]),
        thread: Some([thread, 0, 0]),
    };
    AccessFinding {
        kind,
        between_streams: false,
        first: Some(spot(7, true, 3)),
        second: spot(9, false, 4),
        memory: "dx".to_owned(),
        offset: 28,
        index: Some(vec![0, 7]),
        bytes: 4,
        count: 12,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_engine::judge::TrustedReplay;
    use replay_engine::trial::CheckedReplay;

    fn done(findings: Vec<AccessFinding>) -> CheckedReplay {
        CheckedReplay::Done { findings, left_out: 0 }
    }

    #[test]
    fn a_finding_names_places_threads_and_the_element() {
        insta::assert_snapshot!(describe_access(&create_sample_finding(FoundKind::Race)), @"race on dx[0, 7]: src/a.cu:7 writes in sum, block (0, 0, 0), thread (3, 0, 0); src/a.cu:9 reads in sum, block (0, 0, 0), thread (4, 0, 0) (12 times)");
        let stray = |offset, memory: &str| {
            let index = None;
            let first = None;
            let memory = memory.to_owned();
            describe_access(&AccessFinding {
                offset,
                index,
                first,
                memory,
                count: 1,
                ..create_sample_finding(FoundKind::OutOfBounds)
            })
        };
        insta::assert_snapshot!(stray(400, "x"), @"out of bounds: src/a.cu:9 reads in sum, block (0, 0, 0), thread (4, 0, 0), 4 bytes at byte 400 of x");
        insta::assert_snapshot!(stray(-4, "x"), @"out of bounds: src/a.cu:9 reads in sum, block (0, 0, 0), thread (4, 0, 0), 4 bytes from 4 bytes before x");
        insta::assert_snapshot!(stray(0, "shared memory"), @"out of bounds: src/a.cu:9 reads in sum, block (0, 0, 0), thread (4, 0, 0), 4 bytes of shared memory beside every variable");
        let apart =
            AccessFinding { between_streams: true, ..create_sample_finding(FoundKind::Race) };
        assert!(describe_access(&apart).starts_with("race between streams on dx[0, 7]: "));
        let unwritten =
            AccessFinding { first: None, ..create_sample_finding(FoundKind::Unwritten) };
        insta::assert_snapshot!(describe_access(&unwritten), @"nobody has written dx[0, 7]: src/a.cu:9 reads in sum, block (0, 0, 0), thread (4, 0, 0) (12 times)");
    }

    #[test]
    fn a_race_on_both_sides_is_not_the_difference() {
        let moved = |line: &str| {
            let mut race = create_sample_finding(FoundKind::Race);
            race.second.site = line.to_owned();
            race
        };
        let against =
            |trusted| Accesses::new(done(vec![create_sample_finding(FoundKind::Race)]), trusted);
        assert_eq!(against(TrustedReplay::Absent).failures().count(), 1);
        let trusted = TrustedReplay::Checked(done(Vec::new()));
        assert_eq!(against(trusted).failures().count(), 1);
        let elsewhere = |memory: &str| AccessFinding {
            memory: memory.to_owned(),
            ..create_sample_finding(FoundKind::Race)
        };
        assert!(elsewhere("cudaMalloc at a.cu:7").is_like(&elsewhere("cudaMalloc at a.cu:9")));
        assert!(!elsewhere("cudaMalloc at a.cu:7").is_like(&elsewhere("cudaMalloc at b.cu:7")));
        let alike = against(TrustedReplay::Checked(done(vec![moved("src/a.cu:99")])));
        assert_eq!(alike.failures().count(), 0);
        assert!(render_access_section(&alike).words().join("\n").contains("on both sides"));
    }

    #[test]
    fn a_side_that_was_not_checked_neither_shares_a_race_nor_has_lost_one() {
        let race = || done(vec![create_sample_finding(FoundKind::Race)]);
        let unchecked = || CheckedReplay::Not { reason: "the backend cannot".to_owned() };
        let alone = Accesses::new(race(), TrustedReplay::Checked(unchecked()));
        assert_eq!(alone.failures().count(), 1);
        let section = render_access_section(&alone).words().join("\n");
        assert!(section.contains("\n  not compared: race on dx[0, 7]: "), "{section}");
        let reason = "races are not looked for: at the trusted side the backend cannot";
        assert!(section.ends_with(reason), "{section}");
        assert_eq!(Accesses::new(race(), TrustedReplay::Endless).findings, alone.findings);
        let unknown = Accesses::new(unchecked(), TrustedReplay::Checked(race()));
        assert_eq!(gone_lines(&unknown).count(), 0);
        let mended = Accesses::new(done(Vec::new()), TrustedReplay::Checked(race()));
        assert_eq!(gone_lines(&mended).count(), 1);
    }

    #[test]
    fn a_habit_is_a_note_and_silence_means_that_nothing_was_found() {
        let by_itself = |checked| Accesses::new(checked, TrustedReplay::Absent);
        let habit = by_itself(done(vec![create_sample_finding(FoundKind::SameValue)]));
        assert_eq!(habit.failures().count(), 0);
        assert!(render_access_section(&habit).words().join("\n").contains("note: the same value"));
        let flag = by_itself(done(vec![create_sample_finding(FoundKind::Flag)]));
        assert_eq!(flag.failures().count(), 0);
        insta::assert_snapshot!(render_access_section(&flag).words().join("\n"), @"
        accesses
          note: waits on memory (flag) dx[0, 7]: src/a.cu:7 writes in sum, block (0, 0, 0), thread (3, 0, 0); src/a.cu:9 reads in sum, block (0, 0, 0), thread (4, 0, 0) (12 times): what other threads published is checked only as far as fences order it
        ");
        assert!(render_access_section(&by_itself(done(Vec::new()))).words().is_empty());
        let not =
            CheckedReplay::Not { reason: "the call takes 900 ms, more than 100 ms".to_owned() };
        let told = render_access_section(&by_itself(not)).words().join("\n");
        assert!(told.contains("races are not looked for: the call takes 900 ms"), "{told}");
    }
}
