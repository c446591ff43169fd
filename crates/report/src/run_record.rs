//! The run that a report comes from, as every report that is kept names it.

use std::time::{Duration, SystemTime};

use super::spans::{ReportLine, Text};
use super::style::DIM;

/// What was run, by which version of this program, on which machine and when.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct RunRecord {
    /// The command line, quoted for a shell.
    pub command: String,
    /// The version of this program, with the commit and the compiler that it was built from.
    pub version: String,
    /// The name of the machine, its system and its processor.
    pub machine: String,
    /// The second at which the command began, in UTC, as RFC 3339 writes it.
    pub date: String,
}

impl RunRecord {
    /// The record in two lines: the command; version, machine and date.
    pub(super) fn lines(&self) -> [String; 2] {
        let RunRecord { command, version, machine, date } = self;
        [command.clone(), format!("replay {version}, {machine}, {date}")]
    }

    /// The head of a report in a file of text, which is `about` this.
    pub fn text(&self, about: &[ReportLine]) -> Text {
        let mut out = Text::new();
        self.lines().iter().for_each(|line| out.line(ReportLine::with_style(DIM, line)));
        about.iter().for_each(|line| out.line(line.clone()));
        out.line(ReportLine::new());
        out
    }
}

/// `time` in UTC, as RFC 3339 writes it; a time before 1970 is its first second.
pub fn utc_date(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let days = since / 86_400;
    let seconds = since % 86_400;
    // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days: years begin in
    // March, so that the leap day is the last of its year.
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let hour = seconds / 3600;
    let minute = seconds / 60 % 60;
    let second = seconds % 60;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds| utc_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_709_251_199), "2024-02-29T23:59:59Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}
