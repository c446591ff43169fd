//! The answer of a search as Markdown, for a comment on a pull request: the verdict first, then the
//! evidence, with the diff folded.

use std::fmt::Write;

use super::RunRecord;
use super::accesses::access_lines;
use super::bisect::{
    SearchRequest, describe_acquittal, describe_culprit_effect, list_comparison_lines, name_parent,
    observation_line, other_change_line, other_changes, render_bisect_text,
};
use super::both::{list_corner_hints, list_corner_lines, render_both_headline};
use super::captured_by::captured_lines;
use super::hunks::describe_hunks;
use super::judgement::{finding_words, launch_change};
use super::markdown::{Page, build_output_row, changed_row, escape_markdown};
use replay_bisect::{BothReport, Culprit, Observation, SearchReport};
use replay_engine::judge::Verdict;
use replay_search::Conclusion;

/// The mark of the comment, for a workflow to update it.
const MARK: &str = "<!-- replay bisect -->";

/// The report on a search, at most `limit` bytes long. It counts the parts left out.
pub fn bisect_markdown(
    report: &SearchReport,
    request: &SearchRequest<'_>,
    run: &RunRecord,
    limit: usize,
) -> String {
    let mut page = Page::new(limit);
    page.must(&format!("{MARK}\n## replay bisect: {}\n\n", render_markdown_headline(report)));
    write_markdown_answer(&mut page, report);
    page.must(&format!("\n{}\n", escape_markdown(&request.line().words())));
    if let Some(origin) = &request.origin {
        page.must(&format!("\n{}\n", escape_markdown(&origin.line().words())));
    }
    page.run_record(run);
    page.finish()
}

/// The same on a search between ends that are commits in environments.
pub fn both_markdown(
    report: &BothReport,
    request: &SearchRequest<'_>,
    run: &RunRecord,
    limit: usize,
) -> String {
    let (corners, searches) = match report {
        BothReport::Refused(refused) => return bisect_markdown(refused, request, run, limit),
        BothReport::Searched { corners, searches } => (corners, searches),
    };
    let mut page = Page::new(limit);
    let headline = escape_markdown(&render_both_headline(report).words());
    page.must(&format!("{MARK}\n## replay bisect: {headline}\n\n"));
    if let Some(corners) = corners {
        for line in list_corner_lines(corners) {
            page.must(&format!("- {}\n", escape_markdown(&line.words())));
        }
        for hint in list_corner_hints(corners) {
            page.must(&format!("\nhint: {}\n", escape_markdown(&hint)));
        }
    }
    for search in searches {
        let place = escape_markdown(&search.place);
        page.must(&format!("\n### {place}: {}\n\n", render_markdown_headline(&search.report)));
        write_markdown_answer(&mut page, &search.report);
    }
    page.must(&format!("\n{}\n", escape_markdown(&request.line().words())));
    page.run_record(run);
    page.finish()
}

/// The evidence, or why there is none.
fn write_markdown_answer(page: &mut Page, report: &SearchReport) {
    match &report.culprit {
        Some(culprit) => write_markdown_conviction(page, report, culprit),
        None => page.code("text", &render_bisect_text(report).words().join("\n")),
    }
}

fn render_markdown_headline(report: &SearchReport) -> String {
    match (&report.conclusion, &report.culprit) {
        (_, Some(culprit)) => match report.commit(culprit.commit) {
            Some(commit) => {
                let [verb, object] = describe_culprit_effect(report);
                escape_markdown(&format!("{} {verb} {object}: {}", commit.short, commit.subject))
            }
            None => "found".to_owned(),
        },
        (Conclusion::Ambiguous { candidates }, None) => {
            let what = if report.axis.is_some() { "environments" } else { "commits" };
            format!("one of {} {what}, hidden by untestable ones", candidates.len())
        }
        (Conclusion::NotMonotone { .. }, None) => "no single commit is to blame".to_owned(),
        _ => "refused".to_owned(),
    }
}

fn write_markdown_conviction(page: &mut Page, report: &SearchReport, culprit: &Culprit) {
    let rows: Vec<Vec<String>> =
        culprit.seen.observations.iter().flat_map(collect_evidence_rows).collect();
    page.table(&rows, false);
    for line in list_conviction_lines(report, culprit) {
        page.may(&format!("- {}\n", escape_markdown(&line)), "line");
    }
    if !culprit.diff.is_empty() {
        let name = report.commit(culprit.commit).map_or("", |commit| commit.short.as_str());
        page.must(&format!("\n<details><summary>what {name} changed</summary>\n\n"));
        page.code("diff", &culprit.diff);
        page.must("\n</details>\n");
    }
}

/// The cells of a row for each output beyond noise.
fn collect_evidence_rows(observation: &Observation) -> Vec<Vec<String>> {
    let judged_rows = observation.judgement.iter().flat_map(|judgement| {
        let diverged = judgement.outputs.iter().filter(|o| o.story.verdict() == Verdict::Diverged);
        diverged.map(|output| build_output_row(&observation.fixture, judgement, output))
    });
    let recorded = observation.recorded.iter().flat_map(|comparison| &comparison.changes);
    judged_rows.chain(recorded.map(|change| changed_row(&observation.fixture, change))).collect()
}

/// The lines below the table.
fn list_conviction_lines(report: &SearchReport, culprit: &Culprit) -> Vec<String> {
    let mut lines = Vec::new();
    if let Conclusion::Probable { probability, .. } = report.conclusion {
        let percent = (100.0 * probability).min(99.99);
        lines.push(format!(
            "with a probability of {percent:.2} %: verdicts are not always the same"
        ));
    }
    lines.extend(list_comparison_lines(report));
    for observation in &culprit.seen.observations {
        let outputs = observation.judgement.iter().flat_map(|judgement| &judgement.outputs);
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
            let alone = replay_bisect::Seen { observations: vec![observation.clone()] };
            lines.push(format!("{}: {}", observation.fixture, observation_line(&alone)));
        }
    }
    for (fixture, accesses) in &culprit.accesses {
        let finding_lines = access_lines(accesses).into_iter();
        lines.extend(finding_lines.map(|line| format!("{fixture}: {}", line.words())));
    }
    let changes = culprit.launches.iter();
    lines.extend(changes.map(|change| format!("launch changed: {}", launch_change(change))));
    lines.extend(
        other_changes(report).map(|(place, other)| other_change_line(place, other).words()),
    );
    lines.extend(describe_hunks(report).iter().map(|line| line.words().trim().to_owned()));
    let other_acquitted =
        culprit.acquitted.iter().filter(|commit| !culprit.parents.contains(commit));
    let parents = culprit.parents.iter().map(|commit| (commit, name_parent(report)));
    for (commit, relation) in parents.chain(other_acquitted.map(|commit| (commit, ""))) {
        if let (Some(test_result), Some(commit)) =
            (report.test_result(*commit), report.commit(*commit))
        {
            lines.push(format!(
                "{}{relation} was tested: {}",
                commit.short,
                describe_acquittal(test_result)
            ));
        }
    }
    lines.extend(captured_lines(&report.captured));
    lines
}
