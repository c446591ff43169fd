//! The findings of a checked replay, in words.

use super::numbers::count;
use super::spans::{Line, Text};
use super::style::{DIM, GREEN, RED, YELLOW};
use crate::judge::Accesses;
use crate::runtime::report::{Found, FoundKind, FoundSpot};

/// The finding in a line, which begins with the word for its kind.
pub(super) fn sentence(found: &Found) -> String {
    let second = spot(&found.second);
    let (first, place) = (found.first.as_ref().map(spot).unwrap_or_default(), place(found));
    let times = match found.count {
        0 | 1 => String::new(),
        n => format!(" ({n} times)"),
    };
    match found.kind {
        FoundKind::Race => {
            let between = if found.between_streams { " between streams" } else { "" };
            format!("race{between} on {place}: {first}; {second}{times}")
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
        FoundKind::UndefinedLane | FoundKind::UnusedLane => {
            format!("{}: {second}{times}", found.kind.words(&found.memory))
        }
        FoundKind::HostAccess => format!("host access to device memory: {second}, {place}{times}"),
        FoundKind::DeviceAccess => {
            format!("device access to host memory: {second}, {}{times}", found.memory)
        }
    }
}

/// What is wrong, in a few words: the memory, and no places.
pub(super) fn wrong(found: &Found) -> String {
    found.kind.words(found.memory_without_line())
}

/// Such as `src/a.cu:7 writes in sum, block (0, 0, 0), thread (3, 0, 0)`.
fn spot(spot: &FoundSpot) -> String {
    let verb = match (spot.writes, spot.atomic) {
        (false, false) => "reads",
        (true, false) => "writes",
        (false, true) => "reads atomically",
        (true, true) => "writes atomically",
    };
    let site = if spot.site.is_empty() { "a call of the runtime" } else { spot.site.as_str() };
    let mut text = format!("{site} {verb} in {}", spot.name);
    if let (Some([bx, by, bz]), Some([tx, ty, tz])) = (spot.block, spot.thread) {
        text += &format!(", block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz})");
    }
    text
}

/// Such as `dx[3, 7]`, or `4 bytes at byte 16 of shared memory`.
fn place(found: &Found) -> String {
    let Found { memory, offset, bytes, index, .. } = found;
    let bytes = count(*bytes, "byte");
    match (index, found.kind, *offset) {
        (Some(index), ..) => format!("{memory}{index:?}"),
        (None, FoundKind::OutOfBounds, before @ ..0) => {
            format!("{bytes} from {} before {memory}", count(before.unsigned_abs(), "byte"))
        }
        (None, FoundKind::OutOfBounds, _) if memory == "shared memory" => {
            format!("{bytes} of shared memory beside every variable")
        }
        (None, _, offset) => format!("{bytes} at byte {offset} of {memory}"),
    }
}

/// A line for each finding, and the reason if accesses were not checked.
pub(super) fn access_lines(found: &Accesses) -> Vec<Line> {
    let finding = |(found, known): (&Found, bool)| {
        let (style, mark) = match (found.is_failure(), known) {
            (true, false) => (RED, ""),
            (true, true) => (DIM, "on both sides: "),
            (false, _) => (YELLOW, "note: "),
        };
        Line::of(style, format!("{mark}{}", sentence(found)))
    };
    let mut lines: Vec<Line> = found.findings().map(finding).collect();
    if found.left_out() > 0 {
        lines.push(format!("and {} more", count(found.left_out(), "finding")).into());
    }
    let reason = found.reason();
    lines.extend(reason.map(|why| Line::of(YELLOW, format!("races are not looked for: {why}"))));
    lines
}

/// The section of a report: failures, and habits that do no harm. Empty if there are none.
pub(super) fn accesses(found: &Accesses) -> Text {
    let (mut out, lines) = (Text::new(), access_lines(found));
    if !lines.is_empty() {
        out.section("accesses");
    }
    for line in lines {
        out.line(Line::from("  ").and(line));
    }
    out
}

/// The same where both sides were checked in any case, with what is gone.
pub fn accesses_compared(found: &Accesses) -> Text {
    let mut out = accesses(found);
    let gone: Vec<Line> = gone_lines(found).collect();
    if out.is_empty() && !gone.is_empty() {
        out.section("accesses");
    }
    gone.into_iter().for_each(|line| out.line(Line::from("  ").and(line)));
    out
}

/// A line for each finding that the trusted side alone has.
pub(super) fn gone_lines(found: &Accesses) -> impl Iterator<Item = Line> {
    found.gone().map(|found| Line::of(GREEN, "no longer").and(format!(": {}", sentence(found))))
}

/// The verdict where accesses are wrong that are not at the trusted side; none where none are.
pub fn new_access(found: &Accesses) -> Option<Line> {
    let first = found.failures().next()?;
    Some(Line::of(RED, "failed").and(format!(": {}", sentence(first))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Checked;

    fn race(kind: FoundKind) -> Found {
        let spot = |line: u32, writes, thread| FoundSpot {
            writes,
            atomic: false,
            site: format!("src/a.cu:{line}"),
            name: "sum".to_owned(),
            block: Some([0, 0, 0]),
            thread: Some([thread, 0, 0]),
        };
        Found {
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

    fn done(findings: Vec<Found>) -> Checked {
        Checked::Done { findings, left_out: 0 }
    }

    #[test]
    fn a_finding_names_places_threads_and_the_element() {
        insta::assert_snapshot!(sentence(&race(FoundKind::Race)), @"race on dx[0, 7]: src/a.cu:7 writes in sum, block (0, 0, 0), thread (3, 0, 0); src/a.cu:9 reads in sum, block (0, 0, 0), thread (4, 0, 0) (12 times)");
        let stray = |offset, memory: &str| {
            let (index, first, memory) = (None, None, memory.to_owned());
            sentence(&Found {
                offset,
                index,
                first,
                memory,
                count: 1,
                ..race(FoundKind::OutOfBounds)
            })
        };
        insta::assert_snapshot!(stray(400, "x"), @"out of bounds: src/a.cu:9 reads in sum, block (0, 0, 0), thread (4, 0, 0), 4 bytes at byte 400 of x");
        insta::assert_snapshot!(stray(-4, "x"), @"out of bounds: src/a.cu:9 reads in sum, block (0, 0, 0), thread (4, 0, 0), 4 bytes from 4 bytes before x");
        insta::assert_snapshot!(stray(0, "shared memory"), @"out of bounds: src/a.cu:9 reads in sum, block (0, 0, 0), thread (4, 0, 0), 4 bytes of shared memory beside every variable");
        let apart = Found { between_streams: true, ..race(FoundKind::Race) };
        assert!(sentence(&apart).starts_with("race between streams on dx[0, 7]: "));
        let unwritten = Found { first: None, ..race(FoundKind::Unwritten) };
        insta::assert_snapshot!(sentence(&unwritten), @"nobody has written dx[0, 7]: src/a.cu:9 reads in sum, block (0, 0, 0), thread (4, 0, 0) (12 times)");
    }

    #[test]
    fn a_race_on_both_sides_is_not_the_difference() {
        let moved = |line: &str| {
            let mut race = race(FoundKind::Race);
            race.second.site = line.to_owned();
            race
        };
        let against = |base| Accesses { checked: done(vec![race(FoundKind::Race)]), base };
        assert_eq!(against(None).failures().count(), 1);
        assert_eq!(against(Some(done(Vec::new()))).failures().count(), 1);
        let elsewhere = |memory: &str| Found { memory: memory.to_owned(), ..race(FoundKind::Race) };
        assert!(elsewhere("cudaMalloc at a.cu:7").is_like(&elsewhere("cudaMalloc at a.cu:9")));
        assert!(!elsewhere("cudaMalloc at a.cu:7").is_like(&elsewhere("cudaMalloc at b.cu:7")));
        let alike = against(Some(done(vec![moved("src/a.cu:99")])));
        assert_eq!(alike.failures().count(), 0);
        assert!(accesses(&alike).words().join("\n").contains("on both sides"));
    }

    #[test]
    fn a_habit_is_a_note_and_silence_means_that_nothing_was_found() {
        let habit = Accesses { checked: done(vec![race(FoundKind::SameValue)]), base: None };
        assert_eq!(habit.failures().count(), 0);
        assert!(accesses(&habit).words().join("\n").contains("note: the same value"));
        let flag = Accesses { checked: done(vec![race(FoundKind::Flag)]), base: None };
        assert_eq!(flag.failures().count(), 0);
        insta::assert_snapshot!(accesses(&flag).words().join("\n"), @"
        accesses
          note: waits on memory (flag) dx[0, 7]: src/a.cu:7 writes in sum, block (0, 0, 0), thread (3, 0, 0); src/a.cu:9 reads in sum, block (0, 0, 0), thread (4, 0, 0) (12 times): what other threads published is checked only as far as fences order it
        ");
        let clean = Accesses { checked: done(Vec::new()), base: None };
        assert!(accesses(&clean).words().is_empty());
        let not = Checked::Not { reason: "the call takes 900 ms, more than 100 ms".to_owned() };
        let told = accesses(&Accesses { checked: not, base: None }).words().join("\n");
        assert!(told.contains("races are not looked for: the call takes 900 ms"), "{told}");
    }
}
