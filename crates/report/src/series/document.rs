//! A series for programs: a versioned document. docs/schema/series-1.json is its JSON Schema, made from
//! these types.

use serde::Serialize;

use super::SeriesReport;
use super::words::describe_series_finding;
use crate::{RefusedFixture, Revision, RunRecord, Standing};
use replay_base::summary::OptionalNumber;
use replay_engine::judge::Verdict;
use replay_engine::trial::Status;
use replay_series::{
    Adam, Alignment, Clipping, Distance, Numbering, ParameterUpdate, Scalars, SeriesFinding,
    SeriesStep, Severity, StepGradient, TensorNumbers,
};

/// The version of the document; it grows when a field changes its meaning or goes.
const SCHEMA: &str = "replay-series/1";

/// The document that `replay series --format json` writes; docs/series.md explains the fields.
#[derive(Serialize, schemars::JsonSchema)]
#[schemars(title = "replay series --format json")]
struct SeriesDocument<'a> {
    #[schemars(extend("const" = SCHEMA))]
    schema: &'a str,
    run: &'a RunRecord,
    replayed: bool,
    revision: Option<&'a Revision>,
    against: Option<&'a Revision>,
    verdict: Standing,
    findings: Vec<JsonFinding<'a>>,
    numbering: &'a Numbering,
    steps: Vec<StepTold<'a>>,
    errors: &'a [RefusedFixture],
}

#[derive(Serialize, schemars::JsonSchema)]
struct JsonFinding<'a> {
    text: String,
    /// How bad it is.
    severity: Severity,
    #[serde(flatten)]
    finding: &'a SeriesFinding,
}

#[derive(Serialize, schemars::JsonSchema)]
struct StepTold<'a> {
    fixture: &'a str,
    step: Option<i64>,
    #[serde(flatten)]
    scalars: &'a Scalars,
    /// The norm of all gradients together, as they were captured or replayed.
    #[serde(with = "OptionalNumber")]
    gradient_norm: Option<f64>,
    clipping: Option<&'a Clipping>,
    tensors: Vec<JsonTensor<'a>>,
    parameters: Vec<ParameterTold<'a>>,
    alignment: Option<&'a Alignment>,
    replay: Option<ReplayTold<'a>>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct JsonTensor<'a> {
    name: &'a str,
    #[serde(flatten)]
    numbers: &'a TensorNumbers,
}

#[derive(Serialize, schemars::JsonSchema)]
struct ParameterTold<'a> {
    path: &'a str,
    update: Option<&'a ParameterUpdate>,
    adam: Option<&'a Adam>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct ReplayTold<'a> {
    #[schemars(extend("enum" = ["completed", "failed", "untestable"]))]
    status: &'static str,
    gradients: &'a [StepGradient],
    against: Option<Verdict>,
    distances: &'a [Distance],
}

/// The document for `report`.
pub fn render_series_json(report: &SeriesReport, run: &RunRecord) -> String {
    let norms = report.series.gradient_norms("");
    let clipping = report.series.clipping();
    let steps = report.series.steps.iter().enumerate();
    let document = SeriesDocument {
        schema: SCHEMA,
        run,
        replayed: report.replayed,
        revision: report.revision.as_ref(),
        against: report.against.as_ref(),
        verdict: report.standing(),
        findings: report
            .findings
            .iter()
            .map(|finding| build_json_finding(report, finding))
            .collect(),
        numbering: &report.series.numbering,
        steps: steps
            .map(|(index, series_step)| {
                build_json_step(report, series_step, norms[index], clipping[index].as_ref())
            })
            .collect(),
        errors: &report.errors,
    };
    serde_json::to_string_pretty(&document).expect("values are plain data")
}

fn build_json_finding<'a>(report: &SeriesReport, finding: &'a SeriesFinding) -> JsonFinding<'a> {
    JsonFinding {
        text: describe_series_finding(report, finding),
        severity: finding.severity(),
        finding,
    }
}

fn build_json_step<'a>(
    report: &'a SeriesReport,
    step: &'a SeriesStep,
    gradient_norm: Option<f64>,
    clipping: Option<&'a Clipping>,
) -> StepTold<'a> {
    let measured = &step.measured;
    let catalogue = &report.series.catalogue;
    let tensors = catalogue.tensors.iter().zip(&measured.tensors);
    let tensors = tensors.filter_map(|(tensor, numbers)| {
        Some(JsonTensor { name: &tensor.name, numbers: numbers.as_ref()? })
    });
    let mut parameters = Vec::new();
    for (index, parameter) in catalogue.parameters.iter().enumerate() {
        let update = measured.updates.get(index).and_then(Option::as_ref);
        let adam = measured.adam.get(index).and_then(Option::as_ref);
        if update.is_some() || adam.is_some() {
            parameters.push(ParameterTold { path: &parameter.path, update, adam });
        }
    }
    StepTold {
        fixture: &step.fixture,
        step: step.number,
        scalars: &measured.scalars,
        gradient_norm,
        clipping,
        tensors: tensors.collect(),
        parameters,
        alignment: measured.alignment.as_ref(),
        replay: step.replay.as_ref().map(|replay| ReplayTold {
            status: match replay.status {
                Status::Completed => "completed",
                Status::Failed(_) => "failed",
                Status::Untestable { .. } => "untestable",
            },
            gradients: &replay.gradients,
            against: replay.against,
            distances: &replay.distances,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::SeriesDocument;
    use crate::schema;

    #[test]
    fn the_schema_is_what_the_types_say() {
        schema::assert_schema_file::<SeriesDocument<'_>>("series-1");
    }
}
