//! A series as a table of comma-separated values (RFC 4180): a line for each step.

use std::borrow::Cow;

use super::{Part, SeriesReport};
use crate::judge::GradientVerdict;
use crate::report::RunRecord;
use crate::report::judgement::verdict_name;
use crate::trial::Status;

/// The table, with the names of the columns in its first line. Empty cells have no value. The format has no comments: the
/// record of `run` is columns, the last ones, so that tables of several runs can be put together.
pub fn csv(report: &SeriesReport, run: &RunRecord) -> String {
    let mut columns = columns(report);
    let RunRecord { command, version, machine, date } = run;
    let record = [("command", command), ("version", version), ("machine", machine), ("date", date)];
    let count = report.series.steps.len();
    columns.extend(record.map(|(name, value)| (format!("run:{name}"), vec![value.clone(); count])));
    let mut out = line(columns.iter().map(|(name, _)| name.as_str()));
    for at in 0..report.series.steps.len() {
        out += &line(columns.iter().map(|(_, cells)| cells[at].as_str()));
    }
    out
}

fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    cells.map(quoted).collect::<Vec<_>>().join(",") + "\r\n"
}

fn quoted(cell: &str) -> Cow<'_, str> {
    match cell.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")).into(),
        false => cell.into(),
    }
}

/// The columns: a name, and a cell for each step.
fn columns(report: &SeriesReport) -> Vec<(String, Vec<String>)> {
    let steps = &report.series.steps;
    let number = |number: Option<i64>| number.map_or(String::new(), |number| number.to_string());
    let mut columns = vec![
        ("fixture".to_owned(), steps.iter().map(|step| step.fixture.clone()).collect()),
        ("step".to_owned(), steps.iter().map(|step| number(step.number)).collect()),
    ];
    for curve in report.curves() {
        let name = match curve.part {
            Part::Loss => "loss".to_owned(),
            Part::LearningRate => "lr".to_owned(),
            Part::NormBefore => "norm_before_clipping".to_owned(),
            Part::Clipping => "clipping_factor".to_owned(),
            Part::Gradients => format!("gradient_norm:{}", curve.name),
            Part::Updates => format!("update_ratio:{}", curve.name),
            Part::Adam => format!("adam_step:{}", curve.name),
            Part::FromTrusted => format!("from_trusted:{}", curve.name),
            Part::FromOracle => format!("from_oracle:{}", curve.name),
            Part::FromCaptured => format!("from_captured:{}", curve.name),
        };
        columns.push((name, curve.values.into_iter().map(value).collect()));
    }
    for (at, tensor) in report.series.roster.tensors.iter().enumerate() {
        let numbers = steps.iter().map(|step| step.measured.tensors.get(at)?.as_ref());
        let numbers: Vec<_> = numbers.collect();
        if numbers.iter().all(Option::is_none) {
            continue;
        }
        type Of = fn(&crate::series::Numbers) -> String;
        let statistics: [(&str, Of); 4] = [
            ("norm", |numbers| value(Some(numbers.norm))),
            ("max_abs", |numbers| value(Some(numbers.max_abs))),
            ("zeros", |numbers| numbers.zeros.to_string()),
            ("not_finite", |numbers| (numbers.nan + numbers.inf).to_string()),
        ];
        for (statistic, of) in statistics {
            let cells = numbers.iter().map(|one| one.map_or(String::new(), of)).collect();
            columns.push((format!("{statistic}:{}", tensor.name), cells));
        }
    }
    if report.replayed {
        columns.push(("status".to_owned(), steps.iter().map(status).collect()));
        columns.push(("gradients".to_owned(), steps.iter().map(gradients).collect()));
        columns.push(("against".to_owned(), steps.iter().map(against).collect()));
    }
    columns
}

/// The shortest text that is read as the same number.
fn value(x: Option<f64>) -> String {
    x.map_or(String::new(), |x| format!("{x:?}"))
}

fn status(step: &crate::series::Step) -> String {
    let word = |status: &Status| match status {
        Status::Completed => "completed",
        Status::Failed(_) => "failed",
        Status::Untestable { .. } => "untestable",
    };
    step.replay.as_ref().map_or(String::new(), |replay| word(&replay.status).to_owned())
}

/// The worst verdict on a gradient of the step.
fn gradients(step: &crate::series::Step) -> String {
    let worst =
        step.replay.iter().flat_map(|replay| &replay.gradients).map(|one| one.verdict).max();
    let word = |verdict| match verdict {
        GradientVerdict::Matches => "matches",
        GradientVerdict::Unknown => "unknown",
        GradientVerdict::Imprecise => "imprecise",
        GradientVerdict::Mismatch => "mismatch",
    };
    worst.map_or(String::new(), |verdict| word(verdict).to_owned())
}

fn against(step: &crate::series::Step) -> String {
    let verdict = step.replay.as_ref().and_then(|replay| replay.against);
    verdict.map_or(String::new(), |verdict| verdict_name(verdict).to_owned())
}
