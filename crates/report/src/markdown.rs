//! Replays as Markdown, for a comment on a pull request or the summary of a job. The verdict comes first, then
//! the worst fixtures; unchanged ones are folded, and the text is cut to its limit.

use std::fmt::Write;

use super::accesses::{access_note_lines, gone_lines};
use super::judgement::{launch_change, name_output_verdict, verdict_name};
use super::known::captured_word;
use super::numbers::{format_noun_count, format_short_number};
use super::spans::sanitise_line;
use super::standing::{
    Standing, format_entry_title, list_missing_checks, list_standing_reasons, tally_standings,
};
use super::{Blame, Compared, RefusedFixture, ReportEntry, RunRecord};
use replay_base::tensor::{Dim, unravel_index};
use replay_engine::judge::{Judgement, KnownCheck, OutputJudgement, Verdict};
use replay_engine::trial::Outcome;
use replay_numerics::compare::Comparison;
use replay_snapshot::OutputChange;

/// The most bytes of a comment; GitHub takes 65,536 characters.
pub const COMMENT_BYTES: usize = 60_000;
/// The most bytes of the summary of a job; GitHub takes 1 MiB.
pub const SUMMARY_BYTES: usize = 1_000_000;

/// The mark of the comment, for a workflow to update it.
const MARK: &str = "<!-- replay -->";

const COLUMNS: [&str; 7] =
    ["fixture", "output", "verdict", "checksum", "distance", "beyond noise", "worst element"];
/// The heading of an additional column, where culprits were asked for.
const CULPRIT: &str = "culprit";

/// The report on `entries` and on the refused fixtures, at most `limit` bytes long. It counts the parts left out.
pub fn render_replay_markdown(
    entries: &[ReportEntry],
    refused: &[RefusedFixture],
    run: &RunRecord,
    limit: usize,
) -> String {
    let mut standings: Vec<(Standing, &ReportEntry)> =
        entries.iter().map(|entry| (Standing::from_entry(entry), entry)).collect();
    standings.sort_by_key(|(standing, _)| std::cmp::Reverse(*standing));
    let mut page = Page::new(limit);
    let tally_text =
        tally_standings(standings.iter().map(|(standing, _)| *standing), refused.len());
    page.must(&format!("{MARK}\n## replay: {tally_text}\n\n"));
    refused.iter().for_each(|refused| page.may(&render_refusal_block(refused), "fixture"));
    let split = standings.partition_point(|(standing, _)| *standing > Standing::Identical);
    let (changed, unchanged) = standings.split_at(split);
    let rows: Vec<Vec<String>> =
        changed.iter().flat_map(|(_, entry)| collect_changed_rows(entry)).collect();
    let culprits = entries.iter().any(|entry| entry.culprit.is_some());
    page.table(&rows, culprits);
    for (standing, entry) in changed {
        page.may(&render_entry_details(*standing, entry), "fixture");
    }
    for (_, entry) in unchanged.iter().filter(|(_, entry)| !list_missing_checks(entry).is_empty()) {
        page.may(&not_checked(entry), "fixture");
    }
    if !unchanged.is_empty() {
        let summary = tally_standings(unchanged.iter().map(|(standing, _)| *standing), 0);
        page.must(&format!("<details><summary>{summary}</summary>\n\n"));
        for (_, entry) in unchanged {
            page.may(&render_unchanged_item(entry), "fixture");
        }
        page.must("\n</details>\n");
    }
    page.run_record(run);
    page.finish()
}

/// The report on the comparisons `compared`, on replays of `new` sources, and on the refused fixtures, as
/// [`render_replay_markdown`].
pub fn diff_markdown(
    compared: &[Compared],
    new: &[ReportEntry],
    refused: &[RefusedFixture],
    run: &RunRecord,
    limit: usize,
) -> String {
    let entries = compared.iter().map(Compared::as_replay).chain(new.iter().cloned());
    render_replay_markdown(&entries.collect::<Vec<_>>(), refused, run, limit)
}

/// The checks left out on an unchanged fixture.
fn not_checked(entry: &ReportEntry) -> String {
    let mut out = format!("**not checked** {}\n", escape_markdown(&format_entry_title(entry)));
    for line in list_missing_checks(entry) {
        let _ = writeln!(out, "- {}", escape_markdown(&line));
    }
    out.push('\n');
    out
}

/// The block about a refused fixture.
fn render_refusal_block(refused: &RefusedFixture) -> String {
    let mut out = format!("**not replayed** {}\n", escape_markdown(&refused.fixture));
    for line in [&refused.message].into_iter().chain(&refused.causes) {
        let _ = writeln!(out, "- {}", escape_markdown(line));
    }
    if let Some(hint) = &refused.hint {
        let _ = writeln!(out, "- hint: {}", escape_markdown(hint));
    }
    out.push('\n');
    out
}

/// The cells of a row for each changed output.
fn collect_changed_rows(entry: &ReportEntry) -> Vec<Vec<String>> {
    let judged_outputs = entry.judgement.iter().flat_map(|judgement| &judgement.outputs);
    let judged = judged_outputs
        .filter(|output| output.story.verdict() != Verdict::Identical || output.unwritten > 0);
    let judged_outputs: Vec<&OutputJudgement> = judged.collect();
    let changes = entry.snapshot.iter().flat_map(|check| &check.comparison.changes);
    let mut rows = Vec::new();
    if let Some(judgement) = &entry.judgement {
        rows.extend(
            judged_outputs.iter().map(|output| build_output_row(&entry.fixture, judgement, output)),
        );
    }
    let other_changes =
        changes.filter(|change| judged_outputs.iter().all(|output| output.name != change.name));
    rows.extend(other_changes.map(|change| changed_row(&entry.fixture, change)));
    for check in entry.oracle.iter().filter(|check| check.verdict != Verdict::Identical) {
        rows.push(known_row(entry, check, "oracle", verdict_name(check.verdict)));
    }
    for check in entry.captured.iter().filter(|check| check.verdict != Verdict::Identical) {
        rows.push(known_row(entry, check, "captured", captured_word(check.verdict)));
    }
    if let Some(culprit) = &entry.culprit {
        rows.iter_mut().for_each(|cells| cells.push(culprit_cell(culprit, &cells[1])));
    }
    rows
}

/// The commit behind the change of `output`; empty without a search.
fn culprit_cell(culprit: &Blame, output: &str) -> String {
    let blame = culprit.outputs.iter().find(|output_blame| output_blame.output == output);
    match blame.map(|output_blame| &output_blame.commit) {
        Some(Some(commit)) => commit.short.clone(),
        Some(None) => "none named".to_owned(),
        None => String::new(),
    }
}

/// The cells of the row of one output of a comparison.
pub(super) fn build_output_row(
    fixture: &str,
    judgement: &Judgement,
    output: &OutputJudgement,
) -> Vec<String> {
    let sums = format_checksum_pair(
        find_checksum(&judgement.base, &output.name),
        find_checksum(&judgement.got, &output.name),
    );
    let mut cells =
        vec![fixture.to_owned(), output.name.clone(), name_output_verdict(output), sums];
    cells.extend(build_distance_cells(&output.dims, &output.comparison));
    cells
}

/// The cells of the row of one output beside that of the fixture.
fn known_row(entry: &ReportEntry, check: &KnownCheck, known_side: &str, word: &str) -> Vec<String> {
    let sums = format_checksum_pair(
        Some(check.checksum.to_string()),
        find_checksum(&entry.outcome, &check.output),
    );
    let mut cells = vec![
        entry.fixture.clone(),
        format!("{} ({known_side})", check.output),
        word.to_owned(),
        sums,
    ];
    cells.extend(build_distance_cells(&check.dims, &check.comparison));
    cells
}

/// The cells for the distance of two outputs: relative, elements, the worst of them.
fn build_distance_cells(dims: &[Dim], compared: &Comparison) -> [String; 3] {
    let shape: Vec<usize> = dims.iter().map(|dim| dim.size).collect();
    let worst = compared.worst.as_ref().map_or(String::new(), |worst| {
        let index = unravel_index(worst.index as usize, &shape);
        format!(
            "{index:?}: {} → {}",
            format_short_number(worst.base, 9),
            format_short_number(worst.got, 9)
        )
    });
    [
        format!("rel. {}", format_short_number(compared.relative_l2, 2)),
        format!("{} of {}", compared.beyond, compared.count),
        worst,
    ]
}

/// The cells of the row of one output of a comparison with a snapshot.
pub(super) fn changed_row(fixture: &str, change: &OutputChange) -> Vec<String> {
    let distance = change.distance.map_or(String::new(), |distance| {
        format!(
            "about rel. {} (noise {})",
            format_short_number(distance.relative, 2),
            format_short_number(change.noise, 2)
        )
    });
    vec![
        fixture.to_owned(),
        change.name.clone(),
        change.verdict.name().to_owned(),
        format_checksum_pair(
            change.before.map(|sum| sum.to_string()),
            change.after.map(|sum| sum.to_string()),
        ),
        distance,
        String::new(),
        change.notes.join(", "),
    ]
}

fn find_checksum(outcome: &Outcome, output: &str) -> Option<String> {
    let record = outcome.outputs.iter().find(|record| record.name == output)?;
    Some(record.summary.checksum.to_string())
}

/// Both checksums, abbreviated.
fn format_checksum_pair(before: Option<String>, after: Option<String>) -> String {
    format!("{} → {}", shorten_checksum(before), shorten_checksum(after))
}

fn shorten_checksum(checksum: Option<String>) -> String {
    /// Hexadecimal digits to show.
    const DIGITS: usize = 8;
    checksum.map_or("none".to_owned(), |digits| digits.chars().take(DIGITS).collect())
}

/// A row of `width` cells; missing ones are empty.
fn format_markdown_row(cells: &[String], width: usize) -> String {
    let cells = (0..width)
        .map(|column| cells.get(column).map_or(String::new(), |cell| escape_markdown(cell)));
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

/// The block about one fixture below the table.
fn render_entry_details(standing: Standing, entry: &ReportEntry) -> String {
    let mut lines = list_standing_reasons(entry);
    lines.extend(list_missing_checks(entry).into_iter().map(|line| format!("not checked: {line}")));
    if let Some(judgement) = &entry.judgement {
        let changes =
            judgement.launches.iter().map(|change| format!("launch {}", launch_change(change)));
        lines.extend(changes);
    }
    let notes = entry.accesses.iter().flat_map(access_note_lines);
    let gone = entry.accesses.iter().flat_map(gone_lines);
    lines.extend(notes.chain(gone).map(|line| line.words()));
    let mut out =
        format!("**{}** {}\n", standing.name(), escape_markdown(&format_entry_title(entry)));
    write_list(&mut out, "", &lines);
    out.push('\n');
    out
}

/// The item of an unchanged fixture, with the notes on its accesses below it.
fn render_unchanged_item(entry: &ReportEntry) -> String {
    let mut item = format!("- {}\n", escape_markdown(&format_entry_title(entry)));
    let notes = entry.accesses.iter().flat_map(access_note_lines);
    write_list(&mut item, "  ", &notes.map(|line| line.words()).collect::<Vec<_>>());
    item
}

/// Writes an item for each of `lines`, behind `indent`: launches, failures and findings may be thousands.
fn write_list(out: &mut String, indent: &str, lines: &[String]) {
    /// Lines about one fixture.
    const LINES: usize = 40;
    for line in lines.iter().take(LINES) {
        let _ = writeln!(out, "{indent}- {}", escape_markdown(line));
    }
    if lines.len() > LINES {
        let more_lines = format_noun_count((lines.len() - LINES) as u64, "more line");
        let _ = writeln!(out, "{indent}- and {more_lines}");
    }
}

/// Text without a meaning in Markdown and HTML: no markup, no mentions, no references, no links.
pub(super) fn escape_markdown(text: &str) -> String {
    let text = sanitise_line(text);
    let mut out = String::with_capacity(text.len());
    for (offset, c) in text.char_indices() {
        let before = &text.as_bytes()[..offset];
        let after = &text[offset + c.len_utf8()..];
        let links = (c == ':' && after.starts_with("//"))
            || (c == '.' && before[before.len().saturating_sub(3)..].eq_ignore_ascii_case(b"www"));
        match c {
            '\t' => out.push(' '),
            // GitHub looks for mentions and references after it has decoded entities: a zero-width space must
            // part the mark from the name or number.
            '@' | '#' => {
                let _ = write!(out, "&#{};&#8203;", c as u32);
            }
            c if !links && (c.is_alphanumeric() || " .,;:+-=/()%→".contains(c)) => out.push(c),
            c => {
                let _ = write!(out, "&#{};", c as u32);
            }
        }
    }
    out
}

/// A text within a limit.
pub(super) struct Page {
    text: String,
    limit: usize,
    /// The kinds of pieces left out, and the number of each.
    cut: Vec<(&'static str, u64)>,
}

/// The longest command at the end of a page.
const COMMAND_BYTES: usize = 1024;

/// Bytes kept free for the ends of folds, for the run and for the count of pieces left out.
const RESERVE: usize = 1024 + COMMAND_BYTES;

impl Page {
    pub(super) fn new(limit: usize) -> Page {
        Page { text: String::new(), limit: limit.saturating_sub(RESERVE), cut: Vec::new() }
    }

    /// Adds a short, necessary piece, whatever the limit.
    pub(super) fn must(&mut self, piece: &str) {
        self.text.push_str(piece);
    }

    /// Adds the table of changes, with a column for culprits if asked; none without rows.
    pub(super) fn table(&mut self, rows: &[Vec<String>], culprits: bool) {
        if rows.is_empty() {
            return;
        }
        let width = COLUMNS.len() + usize::from(culprits);
        let head = COLUMNS.iter().chain([&CULPRIT]).take(width).map(|name| name.to_string());
        self.must(&format_markdown_row(&head.collect::<Vec<_>>(), width));
        self.must(&format!("|{}\n", " --- |".repeat(width)));
        rows.iter().for_each(|cells| self.may(&format_markdown_row(cells, width), "row"));
        self.must("\n");
    }

    /// Adds as many lines of `text` as fit, in a block of code of `language`.
    pub(super) fn code(&mut self, language: &str, text: &str) {
        // Cleaning may remove the characters between backticks.
        let ticks = text.lines().map(|line| sanitise_line(line).matches('`').count());
        let fence = "`".repeat(ticks.max().unwrap_or(0).max(2) + 1);
        self.must(&format!("{fence}{language}\n"));
        text.lines().for_each(|line| self.may(&format!("{}\n", sanitise_line(line)), "line"));
        self.must(&format!("{fence}\n"));
    }

    /// Adds `piece` if it fits; it counts as one `piece_kind`.
    pub(super) fn may(&mut self, piece: &str, piece_kind: &'static str) {
        if self.text.len() + piece.len() <= self.limit {
            self.text.push_str(piece);
            return;
        }
        match self.cut.iter_mut().find(|(kind, _)| *kind == piece_kind) {
            Some((_, times)) => *times += 1,
            None => self.cut.push((piece_kind, 1)),
        }
    }

    /// Adds the run behind the page; a very long command is left out.
    pub(super) fn run_record(&mut self, run: &RunRecord) {
        let [command, about] = run.lines().map(|line| escape_markdown(&line));
        let command = match command.len() {
            ..=COMMAND_BYTES => command + "<br>",
            _ => String::new(),
        };
        let gap = if self.text.ends_with("\n\n") { "" } else { "\n" };
        self.must(&format!("{gap}<sub>{command}{about}</sub>\n"));
    }

    pub(super) fn finish(mut self) -> String {
        if !self.cut.is_empty() {
            let cut: Vec<String> =
                self.cut.iter().map(|(kind, n)| format_noun_count(*n, kind)).collect();
            let _ = writeln!(
                self.text,
                "\nCut for length: {}. `--format json` has everything.",
                cut.join(", ")
            );
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SnapshotCheck;
    use crate::accesses::create_sample_finding;
    use crate::{create_sample_entry, render_junit};
    use replay_engine::judge::{Accesses, TrustedReplay};
    use replay_engine::trial::{CheckedReplay, Status};
    use replay_runtime::report::FoundKind;
    use replay_snapshot::{SnapshotComparison, SnapshotVerdict};

    /// A fixture whose snapshot says `verdict` of one output.
    fn entry(number: usize, verdict: SnapshotVerdict) -> ReportEntry {
        let change = OutputChange {
            name: "grad".to_owned(),
            verdict,
            before: None,
            after: None,
            distance: None,
            noise: 0.0,
            shadow: None,
            notes: vec!["is new".to_owned()],
        };
        let changes = if verdict == SnapshotVerdict::Matches { vec![] } else { vec![change] };
        let comparison =
            SnapshotComparison { verdict, changes, launches_changed: false, ending: None };
        let path = "snapshots/x.cpu.snap".into();
        let snapshot = Some(SnapshotCheck { path, comparison, written: None });
        let made_up = create_sample_entry(Status::Completed);
        ReportEntry { fixture: format!("step{number}"), snapshot, ..made_up }
    }

    #[test]
    fn thousands_of_fixtures_fit_worst_first_and_what_was_cut_is_counted() {
        let verdict = |number: usize| match number % 3 {
            0 => SnapshotVerdict::Matches,
            1 => SnapshotVerdict::Equivalent,
            _ => SnapshotVerdict::Diverged,
        };
        let entries: Vec<ReportEntry> =
            (0..30_000).map(|number| entry(number, verdict(number))).collect();
        for limit in [COMMENT_BYTES, SUMMARY_BYTES] {
            let page = render_replay_markdown(&entries, &[], &RunRecord::default(), limit);
            assert!(page.len() <= limit && page.len() > limit - 2 * RESERVE, "{}", page.len());
            let head =
                "<!-- replay -->\n## replay: 10000 diverged, 10000 equivalent, 10000 identical";
            assert!(page.starts_with(head), "{}", &page[..200]);
            let rows = page.lines().filter(|line| line.starts_with("| step")).count();
            let last = page.lines().last().unwrap_or_default();
            let cut = format!("Cut for length: {} rows, ", 20_000 - rows);
            assert!(last.starts_with(&cut) && last.ends_with("everything."), "{last}");
            assert!(page.contains("</details>"), "the fold is closed");
            let worst = page.find("| diverged |").expect("the worst is there");
            assert!(page.find("| equivalent |").is_none_or(|at| at > worst));
        }
    }

    #[test]
    fn notes_on_accesses_are_told_of_changed_and_of_unchanged_fixtures() {
        let found = |kind, left_out| {
            let findings = vec![create_sample_finding(kind)];
            let checked = CheckedReplay::Done { findings, left_out };
            Some(Accesses::new(checked, TrustedReplay::Absent))
        };
        let mut changed = entry(1, SnapshotVerdict::Diverged);
        changed.accesses = found(FoundKind::SameValue, 2);
        let mut unchanged = entry(2, SnapshotVerdict::Matches);
        unchanged.accesses = found(FoundKind::Flag, 0);
        let run = RunRecord::default();
        let entries = [changed, unchanged];
        let page = render_replay_markdown(&entries, &[], &run, COMMENT_BYTES);
        let line_after = |line: &str| {
            let mut lines = page.lines().skip_while(|other| !other.contains(line)).skip(1);
            lines.next().unwrap_or_default().to_owned()
        };
        assert!(line_after("- snapshot ").starts_with("- note: the same value is"), "{page}");
        assert_eq!(line_after("- note: the same value"), "- and 2 findings more", "{page}");
        assert!(line_after("- step2 at ").starts_with("  - note: waits on memory"), "{page}");
        let cases = render_junit(&entries, &[], &run);
        assert_eq!(cases.matches("note: ").count(), 2, "{cases}");
    }

    #[test]
    fn hostile_text_is_neither_markup_nor_a_mention() {
        let hostile =
            "a|b `c` *d* <img> @everyone #1 [x](y) \\ \n_z_ \u{1b}[1m\u{202e}<!-- replay -->";
        let escaped = escape_markdown(hostile);
        for c in ['|', '`', '*', '<', '>', '@', '[', ']', '\\', '\n', '_', '\u{1b}', '\u{202e}'] {
            assert!(!escaped.contains(c), "{c} in {escaped}");
        }
        assert!(escaped.contains("&#64;&#8203;everyone"));
        assert!(escaped.contains("&#35;&#8203;1"));
        assert!(!escaped.contains("&#8238;"));
        assert_eq!(escape_markdown("https://a.b/c"), "https&#58;//a.b/c");
        assert_eq!(escape_markdown("WWW.a.b: c"), "WWW&#46;a.b: c");
    }

    #[test]
    fn a_block_of_code_is_not_ended_by_what_it_holds() {
        let mut page = Page::new(SUMMARY_BYTES);
        page.code("diff", "+ `\u{200b}``\n+ ````\n@everyone\u{1b}[8m");
        assert_eq!(page.finish(), "`````diff\n+ ```\n+ ````\n@everyone\n`````\n");
    }

    #[test]
    fn a_page_does_not_grow_beyond_its_limit_and_says_what_it_cut() {
        let mut page = Page::new(RESERVE + 100);
        page.must("head\n");
        for _ in 0..50 {
            page.may("| a row |\n", "row");
        }
        let text = page.finish();
        assert!(text.len() <= RESERVE + 100);
        assert!(
            text.ends_with("Cut for length: 41 rows. `--format json` has everything.\n"),
            "{text}"
        );
    }
}
