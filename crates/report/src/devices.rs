//! One revision on several devices: tells a defect of the source from one of a device.

use super::ReportEntry;
use super::numbers::format_short_number;
use super::spans::{ReportLine, Text};
use super::standing::Standing;
use super::style::BOLD;
use replay_base::summary::estimate_distance;

/// Compares the entries of one fixture and revision, a device each; the first is the reference.
pub fn compare_devices(entries: &[ReportEntry]) -> Text {
    let mut text = Text::new();
    let [reference, other_entries @ ..] = entries else { return text };
    text.line(ReportLine::with_style(BOLD, "devices"));
    for other_entry in other_entries {
        for output in &other_entry.outcome.outputs {
            let mut reference_outputs = reference.outcome.outputs.iter();
            let Some(expected) =
                reference_outputs.find(|reference_output| reference_output.name == output.name)
            else {
                continue;
            };
            let distance = estimate_distance(&output.summary, &expected.summary).relative;
            let distance = match distance {
                0.0 => "the same bits".to_owned(),
                _ if distance.is_infinite() => "not comparable".to_owned(),
                _ => format!("rel. {} apart (estimated)", format_short_number(distance, 2)),
            };
            let reference_device = &reference.outcome.device;
            let other_device = &other_entry.outcome.device;
            text.line(format!(
                "  {}  {reference_device} and {other_device}: {distance}",
                output.name
            ));
        }
    }
    text.line(ReportLine::new());
    text.line(summarise_devices(entries));
    text
}

fn summarise_devices(entries: &[ReportEntry]) -> String {
    let mut wrong: Vec<&str> = Vec::new();
    let mut untold: Vec<&str> = Vec::new();
    let mut right: Vec<&str> = Vec::new();
    for entry in entries {
        let devices = match Standing::from_entry(entry) {
            standing if standing.is_wrong() => &mut wrong,
            standing if standing.is_untold() => &mut untold,
            _ => &mut right,
        };
        devices.push(&entry.outcome.device);
    }
    let [wrong, untold, right] = [wrong, untold, right].map(|devices| devices.join(" and "));
    let words = match (wrong.as_str(), right.as_str()) {
        ("", "") => "nothing can be told on any device".to_owned(),
        ("", right) => format!("nothing wrong on {right}"),
        (wrong, "") if untold.is_empty() => format!("wrong on {wrong}: it is in the source"),
        (wrong, "") => format!("wrong on {wrong}"),
        (wrong, right) => format!(
            "wrong on {wrong}, not on {right}: it is in the device, its compiler, or a race"
        ),
    };
    match untold.as_str() {
        "" => words,
        _ if wrong.is_empty() && right.is_empty() => words,
        untold => format!("{words}; nothing can be told on {untold}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create_sample_entry;
    use replay_engine::trial::{Failure, Status};

    fn told(statuses: [&Status; 2]) -> String {
        let [mut one, mut two] = statuses.map(|status| create_sample_entry(status.clone()));
        one.outcome.device = "cpu".to_owned();
        two.outcome.device = "sm_90".to_owned();
        compare_devices(&[one, two]).words().pop().unwrap_or_default()
    }

    #[test]
    fn a_device_on_which_nothing_could_be_run_is_not_called_wrong() {
        let failed = Status::Failed(vec![Failure::Exit { code: 1 }]);
        let untold = Status::Untestable { reason: "no".to_owned(), causes: Vec::new(), hint: None };
        let all = [&Status::Completed, &failed, &untold];
        let pairs = all.iter().flat_map(|one| all.iter().map(move |two| told([one, two])));
        insta::assert_snapshot!(pairs.collect::<Vec<_>>().join("\n"), @"
        nothing wrong on cpu and sm_90
        wrong on sm_90, not on cpu: it is in the device, its compiler, or a race
        nothing wrong on cpu; nothing can be told on sm_90
        wrong on cpu, not on sm_90: it is in the device, its compiler, or a race
        wrong on cpu and sm_90: it is in the source
        wrong on cpu; nothing can be told on sm_90
        nothing wrong on sm_90; nothing can be told on cpu
        wrong on sm_90; nothing can be told on cpu
        nothing can be told on any device
        ");
    }
}
