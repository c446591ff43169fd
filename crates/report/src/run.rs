//! The steps of a run for people: one heading, and a line for each thing that is not well, at whichever steps, and for
//! the captured outputs.

use super::known;
use super::numbers::format_noun_count;
use super::spans::{ReportLine, Text};
use super::style::{BOLD, DIM};
use super::{ReportEntry, Standing, standing};

/// The steps of the run `name`, replayed on one device; `refused_count` of them could not be replayed.
pub fn render_run_text(name: &str, entries: &[ReportEntry], refused_count: usize) -> Text {
    let mut out = Text::new();
    let steps = format_noun_count((entries.len() + refused_count) as u64, "step");
    let standings = entries.iter().map(Standing::from_entry);
    let tally = standing::tally_standings(standings, refused_count);
    let title = match entries.first() {
        Some(entry) => standing::format_title(name, entry),
        None => name.to_owned(),
    };
    out.line(ReportLine::with_style(BOLD, title).and(format!(": {steps}: {tally}")));
    let mut faults = StepLines::default();
    let mut captured = StepLines::default();
    let mut unchecked = StepLines::default();
    let mut written_count = 0;
    for (place, entry) in entries.iter().enumerate() {
        if Standing::from_entry(entry) > Standing::Equivalent {
            for reason in standing::list_standing_reasons(entry) {
                faults.add(place, reason.into());
            }
        }
        if let Some(sentence) = known::captured_sentence(&entry.captured) {
            captured.add(place, ReportLine::with_style(DIM, sentence));
        }
        for missing_check in standing::list_missing_checks(entry) {
            let line = ReportLine::with_style(DIM, format!("not checked: {missing_check}"));
            unchecked.add(place, line);
        }
        let written_path = entry.snapshot.as_ref().and_then(|check| check.written.as_ref());
        written_count += usize::from(written_path.is_some());
    }
    faults.write_to(&mut out, entries);
    captured.write_to(&mut out, entries);
    unchecked.write_to(&mut out, entries);
    if written_count > 0 {
        let snapshots = format_noun_count(written_count as u64, "snapshot");
        out.line(format!("  {snapshots} written; `replay review` shows what is pending"));
    }
    if !faults.0.is_empty() {
        out.line("  hint: `replay series` shows the run, --full each step whole");
    }
    out
}

/// Lines, each with the places of the steps that it is about.
#[derive(Default)]
struct StepLines(Vec<(ReportLine, Vec<usize>)>);

impl StepLines {
    /// Adds the step at `place` to the line that differs from `line` in numbers alone.
    fn add(&mut self, place: usize, line: ReportLine) {
        let key = mask_numbers(&line.words());
        match self.0.iter_mut().find(|(known_line, _)| mask_numbers(&known_line.words()) == key) {
            Some((_, places)) if places.last() == Some(&place) => {}
            Some((_, places)) => places.push(place),
            None => self.0.push((line, vec![place])),
        }
    }

    fn write_to(&self, out: &mut Text, entries: &[ReportEntry]) {
        for (line, places) in &self.0 {
            let steps = describe_steps(places, entries);
            out.line(ReportLine::from("  ").and(line.clone()).and(format!(", {steps}")));
        }
    }
}

/// `at both steps`, `at all 20 steps`, `at step7`, `at 3 of 20 steps, first at step7`.
fn describe_steps(places: &[usize], entries: &[ReportEntry]) -> String {
    let total = entries.len();
    let first = places.first().map_or("", |&place| entries[place].fixture.as_str());
    match places.len() {
        2 if total == 2 => "at both steps".to_owned(),
        count if count == total && total > 1 => format!("at all {total} steps"),
        1 => format!("at {first}"),
        count => format!("at {count} of {total} steps, first at {first}"),
    }
}

/// `words` with `#` for each number.
fn mask_numbers(words: &str) -> String {
    let mut masked = String::new();
    let mut is_in_number = false;
    for character in words.chars() {
        let is_part = character.is_ascii_digit() || (is_in_number && ".e-".contains(character));
        if is_part && !is_in_number {
            masked.push('#');
        } else if !is_part {
            masked.push(character);
        }
        is_in_number = is_part;
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_differ_in_numbers_alone_are_one() {
        let first = "diverged: y moved by rel. 5.3e-7 (noise 2e-9)";
        assert_eq!(mask_numbers(first), "diverged: y moved by rel. # (noise #)");
        assert_ne!(mask_numbers("y differs"), mask_numbers("z differs"));
        let mut lines = StepLines::default();
        lines.add(0, first.into());
        lines.add(1, "diverged: y moved by rel. 12 (noise 3e-9)".into());
        lines.add(1, "failed: 3 elements".into());
        let places: Vec<&[usize]> = lines.0.iter().map(|(_, places)| places.as_slice()).collect();
        assert_eq!(places, [&[0, 1][..], &[1]]);
    }
}
