//! A series for programs: a versioned document. docs/schema/series-1.json is its JSON Schema, made from
//! these types.

use serde::Serialize;

use super::SeriesReport;
use super::words::sentence;
use crate::judge::Verdict;
use crate::report::{Refused, Revision, RunRecord, Standing};
use crate::series::{
    Adam, Alignment, Checked, Clipping, Distance, Finding, Numbering, Numbers, Scalars, Step,
    Update,
};
use crate::summary::OptionalNumber;
use crate::trial::Status;

/// The version of the document; it grows when a field changes its meaning or goes.
const SCHEMA: &str = "replay-series/1";

/// The document that `replay series --format json` writes; docs/series.md explains the fields.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(title = "replay series --format json"))]
struct Document<'a> {
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    schema: &'a str,
    run: &'a RunRecord,
    replayed: bool,
    revision: Option<&'a Revision>,
    against: Option<&'a Revision>,
    verdict: Standing,
    findings: Vec<Found<'a>>,
    numbering: &'a Numbering,
    steps: Vec<StepTold<'a>>,
    errors: &'a [Refused],
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Found<'a> {
    text: String,
    #[serde(flatten)]
    finding: &'a Finding,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StepTold<'a> {
    fixture: &'a str,
    step: Option<i64>,
    #[serde(flatten)]
    scalars: &'a Scalars,
    /// The norm of all gradients together, as they were captured or replayed.
    #[serde(with = "OptionalNumber")]
    gradient_norm: Option<f64>,
    clipping: Option<&'a Clipping>,
    tensors: Vec<Tensor<'a>>,
    parameters: Vec<ParameterTold<'a>>,
    alignment: Option<&'a Alignment>,
    replay: Option<ReplayTold<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Tensor<'a> {
    name: &'a str,
    #[serde(flatten)]
    numbers: &'a Numbers,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ParameterTold<'a> {
    path: &'a str,
    update: Option<&'a Update>,
    adam: Option<&'a Adam>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReplayTold<'a> {
    #[cfg_attr(test, schemars(extend("enum" = ["completed", "failed", "untestable"])))]
    status: &'static str,
    gradients: &'a [Checked],
    against: Option<Verdict>,
    distances: &'a [Distance],
}

/// The document for `report`.
pub fn json(report: &SeriesReport, run: &RunRecord) -> String {
    let (norms, clipping) = (report.series.gradient_norms(""), report.series.clipping());
    let steps = report.series.steps.iter().enumerate();
    let document = Document {
        schema: SCHEMA,
        run,
        replayed: report.replayed,
        revision: report.revision.as_ref(),
        against: report.against.as_ref(),
        verdict: report.standing(),
        findings: report.findings.iter().map(|finding| found(report, finding)).collect(),
        numbering: &report.series.numbering,
        steps: steps.map(|(at, one)| step(report, one, norms[at], clipping[at].as_ref())).collect(),
        errors: &report.errors,
    };
    serde_json::to_string_pretty(&document).expect("values are plain data")
}

fn found<'a>(report: &SeriesReport, finding: &'a Finding) -> Found<'a> {
    Found { text: sentence(report, &finding.kind), finding }
}

fn step<'a>(
    report: &'a SeriesReport,
    step: &'a Step,
    gradient_norm: Option<f64>,
    clipping: Option<&'a Clipping>,
) -> StepTold<'a> {
    let measured = &step.measured;
    let roster = &report.series.roster;
    let tensors = roster.tensors.iter().zip(&measured.tensors);
    let tensors = tensors.filter_map(|(tensor, numbers)| {
        Some(Tensor { name: &tensor.name, numbers: numbers.as_ref()? })
    });
    let told = |(at, parameter): (usize, &'a crate::series::Parameter)| {
        let update = measured.updates.get(at).and_then(Option::as_ref);
        let adam = measured.adam.get(at).and_then(Option::as_ref);
        let is_told = update.is_some() || adam.is_some();
        is_told.then_some(ParameterTold { path: &parameter.path, update, adam })
    };
    StepTold {
        fixture: &step.fixture,
        step: step.number,
        scalars: &measured.scalars,
        gradient_norm,
        clipping,
        tensors: tensors.collect(),
        parameters: roster.parameters.iter().enumerate().filter_map(told).collect(),
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
    use super::Document;
    use crate::report::schema;

    #[test]
    fn the_schema_is_what_the_types_say() {
        schema::is_kept::<Document<'_>>("series-1");
    }
}
