//! A series as a table of comma-separated values (RFC 4180): a line for each step.

use std::borrow::Cow;

use super::{SeriesPart, SeriesReport};
use crate::RunRecord;
use crate::judgement::verdict_name;
use replay_engine::judge::GradientVerdict;
use replay_engine::trial::Status;

/// The table, with the names of the columns in its first line. Empty cells have no value. The format has no
/// comments: the record of `run` is in the last columns, and tables of several runs can be put together.
pub fn render_series_csv(report: &SeriesReport, run: &RunRecord) -> String {
    let mut columns = build_csv_columns(report);
    let RunRecord { command, version, machine, date } = run;
    let record = [("command", command), ("version", version), ("machine", machine), ("date", date)];
    let count = report.series.steps.len();
    columns.extend(record.map(|(name, value)| (format!("run:{name}"), vec![value.clone(); count])));
    let mut out = join_csv_cells(columns.iter().map(|(name, _)| name.as_str()));
    for row in 0..report.series.steps.len() {
        out += &join_csv_cells(columns.iter().map(|(_, cells)| cells[row].as_str()));
    }
    out
}

fn join_csv_cells<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    cells.map(quote_csv_cell).collect::<Vec<_>>().join(",") + "\r\n"
}

fn quote_csv_cell(cell: &str) -> Cow<'_, str> {
    if cell.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\"")).into()
    } else {
        cell.into()
    }
}

/// The columns: a name, and a cell for each step.
fn build_csv_columns(report: &SeriesReport) -> Vec<(String, Vec<String>)> {
    let steps = &report.series.steps;
    let fixtures = steps.iter().map(|step| step.fixture.clone()).collect();
    let numbers = steps.iter().map(|step| match step.number {
        Some(number) => number.to_string(),
        None => String::new(),
    });
    let mut columns =
        vec![("fixture".to_owned(), fixtures), ("step".to_owned(), numbers.collect())];
    for curve in report.curves() {
        let name = match curve.part {
            SeriesPart::Loss => "loss".to_owned(),
            SeriesPart::LearningRate => "lr".to_owned(),
            SeriesPart::NormBefore => "norm_before_clipping".to_owned(),
            SeriesPart::Clipping => "clipping_factor".to_owned(),
            SeriesPart::Gradients => format!("gradient_norm:{}", curve.name),
            SeriesPart::Updates => format!("update_ratio:{}", curve.name),
            SeriesPart::Adam => format!("adam_step:{}", curve.name),
            SeriesPart::FromTrusted => format!("from_trusted:{}", curve.name),
            SeriesPart::FromOracle => format!("from_oracle:{}", curve.name),
            SeriesPart::FromCaptured => format!("from_captured:{}", curve.name),
        };
        columns.push((name, curve.values.into_iter().map(format_csv_value).collect()));
    }
    for (index, tensor) in report.series.catalogue.tensors.iter().enumerate() {
        let numbers = steps.iter().map(|step| step.measured.tensors.get(index)?.as_ref());
        let numbers: Vec<_> = numbers.collect();
        if numbers.iter().all(Option::is_none) {
            continue;
        }
        type Of = fn(&replay_series::TensorNumbers) -> String;
        let statistics: [(&str, Of); 4] = [
            ("norm", |numbers| format_csv_value(Some(numbers.norm))),
            ("max_abs", |numbers| format_csv_value(Some(numbers.max_abs))),
            ("zeros", |numbers| numbers.zeros.to_string()),
            ("not_finite", |numbers| (numbers.nan + numbers.inf).to_string()),
        ];
        for (statistic, format_statistic) in statistics {
            let cells = numbers
                .iter()
                .map(|step_numbers| step_numbers.map_or(String::new(), format_statistic))
                .collect();
            columns.push((format!("{statistic}:{}", tensor.name), cells));
        }
    }
    if report.replayed {
        columns.push(("status".to_owned(), steps.iter().map(format_step_status).collect()));
        columns.push(("gradients".to_owned(), steps.iter().map(format_worst_gradient).collect()));
        columns.push(("against".to_owned(), steps.iter().map(format_step_verdict).collect()));
    }
    columns
}

/// The shortest text for the same number.
fn format_csv_value(x: Option<f64>) -> String {
    x.map_or(String::new(), |x| format!("{x:?}"))
}

fn format_step_status(step: &replay_series::SeriesStep) -> String {
    let word = match step.replay.as_ref().map(|replay| &replay.status) {
        Some(Status::Completed) => "completed",
        Some(Status::Failed(_)) => "failed",
        Some(Status::Untestable { .. }) => "untestable",
        None => "",
    };
    word.to_owned()
}

/// The worst verdict on a gradient of the step.
fn format_worst_gradient(step: &replay_series::SeriesStep) -> String {
    let worst =
        step.replay.iter().flat_map(|replay| &replay.gradients).map(|check| check.verdict).max();
    let word = match worst {
        Some(GradientVerdict::Matches) => "matches",
        Some(GradientVerdict::Agrees) => "agrees",
        Some(GradientVerdict::Unknown) => "unknown",
        Some(GradientVerdict::Imprecise) => "imprecise",
        Some(GradientVerdict::Mismatch) => "mismatch",
        None => "",
    };
    word.to_owned()
}

fn format_step_verdict(step: &replay_series::SeriesStep) -> String {
    let verdict = step.replay.as_ref().and_then(|replay| replay.against);
    verdict.map_or(String::new(), |verdict| verdict_name(verdict).to_owned())
}
