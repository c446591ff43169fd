//! One revision on several devices: tells a defect of the source from one of a device.

use super::Entry;
use super::numbers::short;
use super::spans::{Line, Text};
use super::standing::Standing;
use super::style::BOLD;
use crate::summary::estimate;

/// Compares the entries of one fixture and revision, a device each; the first is the reference.
pub fn devices(entries: &[Entry]) -> Text {
    let mut text = Text::new();
    let [reference, others @ ..] = entries else { return text };
    text.line(Line::of(BOLD, "devices"));
    for other in others {
        for output in &other.outcome.outputs {
            let mut known = reference.outcome.outputs.iter();
            let Some(expected) = known.find(|known| known.name == output.name) else { continue };
            let distance = estimate(&output.summary, &expected.summary).relative;
            let distance = match distance {
                0.0 => "the same bits".to_owned(),
                _ if distance.is_infinite() => "not comparable".to_owned(),
                _ => format!("rel. {} apart (estimated)", short(distance, 2)),
            };
            let (one, two) = (&reference.outcome.device, &other.outcome.device);
            text.line(format!("  {}  {one} and {two}: {distance}", output.name));
        }
    }
    text.line(Line::new());
    text.line(conclusion(entries));
    text
}

fn conclusion(entries: &[Entry]) -> String {
    let named = |wanted: fn(Standing) -> bool| -> Vec<&str> {
        let found = entries.iter().filter(|entry| wanted(Standing::of(entry)));
        found.map(|entry| entry.outcome.device.as_str()).collect()
    };
    let wrong = named(Standing::is_wrong).join(" and ");
    let untold = named(Standing::is_untold).join(" and ");
    let right = named(|standing| !standing.is_wrong() && !standing.is_untold()).join(" and ");
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
    use crate::report::made_up;
    use crate::trial::{Failure, Status};

    fn told(statuses: [&Status; 2]) -> String {
        let [mut one, mut two] = statuses.map(|status| made_up(status.clone()));
        one.outcome.device = "cpu".to_owned();
        two.outcome.device = "sm_90".to_owned();
        devices(&[one, two]).words().pop().unwrap_or_default()
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
