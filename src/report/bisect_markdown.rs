//! The answer of a search as Markdown, for a comment on a pull request: the verdict first, then the
//! evidence, with the diff folded.

use std::fmt::Write;

use super::RunRecord;
use super::accesses::access_lines;
use super::bisect::{
    SearchRequest, UNCLAIMED, acquittal, bisect, deed, observation_line, other_change_line,
    other_changes,
};
use super::captured_by::captured_lines;
use super::judgement::{finding_words, launch_change};
use super::markdown::{Page, changed_row, escape, judged_row};
use crate::bisect::{Culprit, Direction, Observation, Report};
use crate::judge::Verdict;
use crate::search::Conclusion;

/// The mark by which a workflow finds the comment to update.
const MARK: &str = "<!-- replay bisect -->";

/// The report on a search, at most `limit` bytes long; it says what was cut.
pub fn bisect_markdown(
    report: &Report,
    request: &SearchRequest<'_>,
    run: &RunRecord,
    limit: usize,
) -> String {
    let mut page = Page::new(limit);
    page.must(&format!("{MARK}\n## replay bisect: {}\n\n", headline(report)));
    match &report.culprit {
        Some(culprit) => convicted(&mut page, report, culprit),
        None => page.code("text", &bisect(report).words().join("\n")),
    }
    page.must(&format!("\n{}\n", escape(&request.line().words())));
    if let Some(origin) = &request.origin {
        page.must(&format!("\n{}\n", escape(&origin.line().words())));
    }
    page.run_record(run);
    page.finish()
}

fn headline(report: &Report) -> String {
    match (&report.conclusion, &report.culprit) {
        (_, Some(culprit)) => match report.commit(culprit.commit) {
            Some(commit) => {
                let [verb, what] = deed(report);
                escape(&format!("{} {verb} {what}: {}", commit.short, commit.subject))
            }
            None => "found".to_owned(),
        },
        (Conclusion::Hidden { candidates }, None) => {
            format!("one of {} commits, hidden by untestable ones", candidates.len())
        }
        (Conclusion::NotMonotone { .. }, None) => "no single commit is to blame".to_owned(),
        _ => "refused".to_owned(),
    }
}

fn convicted(page: &mut Page, report: &Report, culprit: &Culprit) {
    let rows: Vec<Vec<String>> = culprit.seen.observations.iter().flat_map(rows).collect();
    page.table(&rows, false);
    for line in lines(report, culprit) {
        page.may(&format!("- {}\n", escape(&line)), "line");
    }
    if !culprit.diff.is_empty() {
        let name = report.commit(culprit.commit).map_or("", |commit| commit.short.as_str());
        page.must(&format!("\n<details><summary>what {name} changed</summary>\n\n"));
        page.code("diff", &culprit.diff);
        page.must("\n</details>\n");
    }
}

/// The cells of a row for each output that went beyond noise.
fn rows(observation: &Observation) -> Vec<Vec<String>> {
    let judged = observation.judgement.iter().flat_map(|judged| {
        let diverged = judged.outputs.iter().filter(|o| o.story.verdict() == Verdict::Diverged);
        diverged.map(|output| judged_row(&observation.fixture, judged, output))
    });
    let recorded = observation.recorded.iter().flat_map(|comparison| &comparison.changes);
    judged.chain(recorded.map(|change| changed_row(&observation.fixture, change))).collect()
}

/// The lines below the table.
fn lines(report: &Report, culprit: &Culprit) -> Vec<String> {
    let mut lines = Vec::new();
    if let Conclusion::Probable { probability, .. } = report.conclusion {
        let percent = (100.0 * probability).min(99.99);
        lines.push(format!(
            "with a probability of {percent:.2} %: verdicts are not always the same"
        ));
    }
    match report.direction {
        Direction::Breaks => {}
        Direction::Repairs => lines.push("before it, compared with the good end:".to_owned()),
        Direction::Changes => lines.push(format!("{UNCLAIMED}; compared with the old end:")),
    }
    for observation in &culprit.seen.observations {
        let outputs = observation.judgement.iter().flat_map(|judged| &judged.outputs);
        for output in outputs.filter(|output| output.story.verdict() == Verdict::Diverged) {
            let mut line = format!("{}: {}", observation.fixture, output.name);
            if let Some(words) = finding_words(&output.story) {
                let _ = write!(line, " is {words}");
            }
            if let Some(place) = &output.place {
                let _ = write!(line, ", {place}");
            }
            lines.push(line);
        }
        if observation.judgement.is_none() && observation.recorded.is_none() {
            let alone = crate::bisect::Seen { observations: vec![observation.clone()] };
            lines.push(format!("{}: {}", observation.fixture, observation_line(&alone)));
        }
    }
    for (fixture, found) in &culprit.accesses {
        let told = access_lines(found).into_iter();
        lines.extend(told.map(|line| format!("{fixture}: {}", line.words())));
    }
    let changes = culprit.launches.iter();
    lines.extend(changes.map(|change| format!("launch changed: {}", launch_change(change))));
    lines.extend(
        other_changes(report).map(|(place, other)| other_change_line(place, other).words()),
    );
    let others = culprit.acquitted.iter().filter(|commit| !culprit.parents.contains(commit));
    let parents = culprit.parents.iter().map(|commit| (commit, ", its parent,"));
    for (commit, what) in parents.chain(others.map(|commit| (commit, ""))) {
        if let (Some(seen), Some(commit)) = (report.seen(*commit), report.commit(*commit)) {
            lines.push(format!("{}{what} was tested: {}", commit.short, acquittal(seen)));
        }
    }
    lines.extend(captured_lines(&report.captured));
    lines
}
