//! Replays as a JUnit report for CI servers: one test case for each fixture.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};

use super::accesses::access_note_lines;
use super::spans::sanitise_line;
use super::standing::{
    Standing, format_entry_title, list_missing_checks, list_standing_reasons, render_entry_verdict,
};
use super::{RefusedFixture, ReportEntry, RunRecord};

/// The report on `entries`, and on the refused fixtures.
pub fn render_junit(
    entries: &[ReportEntry],
    refused: &[RefusedFixture],
    run: &RunRecord,
) -> String {
    let mut suite = TestSuite::new("replay");
    let RunRecord { command, version, machine, date } = run;
    for (name, value) in
        [("command", command), ("version", version), ("machine", machine), ("date", date)]
    {
        suite.add_property(Property::new(name, sanitise_line(value).as_ref()));
    }
    suite.add_test_cases(entries.iter().map(build_test_case));
    let duration: Duration = entries.iter().filter_map(|entry| entry.duration).sum();
    suite.set_time(duration);
    suite.add_test_cases(refused.iter().map(refused_case));
    let mut report = Report::new("replay");
    report.add_test_suite(suite);
    report.to_string().expect("text without control characters can be written as XML")
}

fn build_test_case(entry: &ReportEntry) -> TestCase {
    let standing = Standing::from_entry(entry);
    let status = match standing {
        standing if standing.is_wrong() => {
            build_failure_status(NonSuccessKind::Failure, standing, entry)
        }
        standing if standing.is_untold() => {
            build_failure_status(NonSuccessKind::Error, standing, entry)
        }
        // CI servers count a test passed or skipped, and this one has not passed in full.
        Standing::Unchecked => build_skipped_status(entry),
        _ => TestCaseStatus::success(),
    };
    let mut case = create_test_case(&format_entry_title(entry), status);
    if let Some(duration) = entry.duration {
        case.set_time(duration);
    }
    let missing_checks = list_missing_checks(entry).into_iter();
    let mut output_lines: Vec<String> =
        missing_checks.map(|line| format!("not checked: {line}")).collect();
    let notes = entry.accesses.iter().flat_map(access_note_lines);
    output_lines.extend(notes.map(|line| line.words()));
    output_lines.extend(entry.outcome.printed.lines().map(str::to_owned));
    if !output_lines.is_empty() {
        case.set_system_out(clean_junit_lines(&output_lines));
    }
    case
}

fn build_failure_status(
    kind: NonSuccessKind,
    standing: Standing,
    entry: &ReportEntry,
) -> TestCaseStatus {
    non_success(kind, standing.name(), &list_standing_reasons(entry))
}

/// The status of a replay with checks left out: their reasons stand in the output.
fn build_skipped_status(entry: &ReportEntry) -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_type(Standing::Unchecked.name());
    status.set_message(clean_junit_lines(&[render_entry_verdict(entry).words()]));
    status
}

fn refused_case(refused: &RefusedFixture) -> TestCase {
    let message_lines: Vec<String> = [&refused.message]
        .into_iter()
        .chain(&refused.causes)
        .cloned()
        .chain(refused.hint.iter().map(|hint| format!("hint: {hint}")))
        .collect();
    create_test_case(
        &refused.fixture,
        non_success(NonSuccessKind::Error, "refused", &message_lines),
    )
}

fn create_test_case(name: &str, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(sanitise_line(name).as_ref(), status);
    case.set_classname("replay");
    case
}

fn non_success(kind: NonSuccessKind, word: &str, description: &[String]) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_type(word);
    status
        .set_message(description.first().map_or(String::new(), |line| clean_junit_lines(&[line])));
    status.set_description(clean_junit_lines(description));
    status
}

/// The lines of `texts`, without characters invisible or impossible in XML 1.0.
fn clean_junit_lines(texts: &[impl AsRef<str>]) -> String {
    let text_lines = texts.iter().flat_map(|text| text.as_ref().lines());
    text_lines.map(sanitise_line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_stays_text() {
        let hostile = "a]]><x y=\"z\"> & 'q'\u{1}\u{1b}[31m\u{202e}\u{fffe}\nb";
        let refused = RefusedFixture {
            fixture: hostile.to_owned(),
            message: hostile.to_owned(),
            causes: vec![hostile.to_owned()],
            hint: None,
        };
        let told = render_junit(&[], &[refused], &RunRecord::default());
        let read = Report::deserialize_from_str(&told).expect("a report");
        let case = &read.test_suites[0].test_cases[0];
        assert_eq!(case.name.as_str(), "a]]><x y=\"z\"> & 'q' b");
        assert!(told.chars().all(|c| c == '\n' || !c.is_control()), "{told}");
        assert!(!told.contains(['\u{202e}', '\u{fffe}']), "{told}");
    }
}
