//! Replays as a JUnit report, which CI servers read: one test case for each fixture.

use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};

use super::spans::clean;
use super::standing::{Standing, reasons, title, unchecked};
use super::{Entry, Refused, RunRecord};

/// The report on `entries`, and on the fixtures that could not be replayed.
pub fn junit(entries: &[Entry], refused: &[Refused], run: &RunRecord) -> String {
    let mut suite = TestSuite::new("replay");
    let RunRecord { command, version, machine, date } = run;
    for (name, value) in
        [("command", command), ("version", version), ("machine", machine), ("date", date)]
    {
        suite.add_property(Property::new(name, clean(value).as_ref()));
    }
    suite.add_test_cases(entries.iter().map(case));
    suite.add_test_cases(refused.iter().map(refused_case));
    let mut report = Report::new("replay");
    report.add_test_suite(suite);
    report.to_string().expect("text without control characters can be written as XML")
}

fn case(entry: &Entry) -> TestCase {
    let standing = Standing::of(entry);
    let status = match standing {
        standing if standing.is_wrong() => failed(NonSuccessKind::Failure, standing, entry),
        standing if standing.is_untold() => failed(NonSuccessKind::Error, standing, entry),
        _ => TestCaseStatus::success(),
    };
    let mut case = named(&title(entry), status);
    let mut told = unchecked(entry);
    told.extend(entry.outcome.printed.lines().map(str::to_owned));
    if !told.is_empty() {
        case.set_system_out(lines(&told));
    }
    case
}

fn failed(kind: NonSuccessKind, standing: Standing, entry: &Entry) -> TestCaseStatus {
    non_success(kind, standing.name(), &reasons(entry))
}

fn refused_case(refused: &Refused) -> TestCase {
    let told: Vec<String> = [&refused.message]
        .into_iter()
        .chain(&refused.causes)
        .cloned()
        .chain(refused.hint.iter().map(|hint| format!("hint: {hint}")))
        .collect();
    named(&refused.fixture, non_success(NonSuccessKind::Error, "refused", &told))
}

fn named(name: &str, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(clean(name).as_ref(), status);
    case.set_classname("replay");
    case
}

fn non_success(kind: NonSuccessKind, word: &str, told: &[String]) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_type(word);
    status.set_message(told.first().map_or(String::new(), |line| lines(&[line])));
    status.set_description(lines(told));
    status
}

/// The lines of `told`, without characters that XML 1.0 cannot write or that are invisible.
fn lines(told: &[impl AsRef<str>]) -> String {
    let told = told.iter().flat_map(|text| text.as_ref().lines());
    told.map(clean).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_stays_text() {
        let hostile = "a]]><x y=\"z\"> & 'q'\u{1}\u{1b}[31m\u{202e}\u{fffe}\nb";
        let refused = Refused {
            fixture: hostile.to_owned(),
            message: hostile.to_owned(),
            causes: vec![hostile.to_owned()],
            hint: None,
        };
        let told = junit(&[], &[refused], &RunRecord::default());
        let read = Report::deserialize_from_str(&told).expect("a report");
        let case = &read.test_suites[0].test_cases[0];
        assert_eq!(case.name.as_str(), "a]]><x y=\"z\"> & 'q' b");
        assert!(told.chars().all(|c| c == '\n' || !c.is_control()), "{told}");
        assert!(!told.contains(['\u{202e}', '\u{fffe}']), "{told}");
    }
}
