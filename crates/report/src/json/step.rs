//! `replay step --format json`.

use serde::Serialize;

use crate::step::{
    StepBeside, StepEntry, StepVerdict, conclude_step, describe_part_finding, pass_word,
};
use crate::{Revision, RunRecord};
use replay_base::summary::{Number, OptionalNumber};
use replay_step::{Blame, Direction, PartFinding, PartFindingKind, PartState, compare_orders};

/// The version of the document; it grows when a field changes its meaning or goes.
const SCHEMA: &str = "replay-step/1";

/// The document that `replay step --format json` writes; docs/schema.md explains the fields.
#[derive(Serialize, schemars::JsonSchema)]
#[schemars(title = "replay step --format json")]
struct StepDocument<'a> {
    #[schemars(extend("const" = SCHEMA))]
    schema: &'a str,
    run: &'a RunRecord,
    fixture: &'a str,
    model: &'a str,
    /// The number of the step.
    step: i64,
    revision: Option<&'a Revision>,
    against: Option<&'a Revision>,
    /// The step of another run that it was compared with; null where there is none.
    against_run: Option<OtherRunTold<'a>>,
    verdict: StepVerdict,
    /// The verdict as text reports tell it.
    text: String,
    /// The place in `parts` of the first finding in the forward; null where there is none.
    first_forward: Option<usize>,
    /// The same in the backward, which goes the other way round.
    first_backward: Option<usize>,
    /// The calls of modules, in the order in which they began.
    parts: Vec<StepPartTold<'a>>,
    left_out: Vec<LeftOutTold<'a>>,
}

/// The step of a trusted run, and what it does not have in common with this one.
#[derive(Serialize, schemars::JsonSchema)]
struct OtherRunTold<'a> {
    fixture: &'a str,
    model: &'a str,
    step: i64,
    /// The folders of the calls that this step lacks.
    only_there: Vec<&'a str>,
    /// The place in `parts` from which on its calls come in another order; null where they do not.
    other_order_from: Option<usize>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct StepPartTold<'a> {
    /// The folder of its fixture, in that of the step.
    folder: &'a str,
    /// The path of the module in the model; that of the model is empty.
    module: &'a str,
    kind: &'a str,
    /// The place of the call around it; null for the outermost.
    inside: Option<usize>,
    blame: StepBlameWord,
    /// The place of the call inside that is at fault; null unless the blame is `consequence`.
    consequence_of: Option<usize>,
    /// A word for the forward, as text reports have it.
    forward: &'static str,
    /// A word for the backward.
    backward: &'static str,
    /// How far the outputs of the forward lie off at most, as a multiple of the noise; null where it is not known.
    #[serde(with = "OptionalNumber")]
    forward_distance: Option<f64>,
    /// The same of the backward.
    #[serde(with = "OptionalNumber")]
    backward_distance: Option<f64>,
    /// Whether a gradient reached its outputs, or none can.
    reached: bool,
    findings: Vec<StepFindingTold<'a>>,
    /// Why it could not be replayed; null where it was.
    untestable: Option<&'a str>,
    /// Whether the other run has no such call.
    only_here: bool,
    /// The outputs that the other run has in another form, in words.
    not_comparable: &'a [String],
}

#[derive(Clone, Copy, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum StepBlameWord {
    Well,
    /// Its own code is at fault.
    Own,
    /// A call inside of it is.
    Consequence,
    /// Its outputs part from those of the other run because its inputs do.
    FollowsInputs,
}

#[derive(Clone, Copy, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum StepPass {
    Forward,
    Backward,
}

#[derive(Serialize, schemars::JsonSchema)]
struct StepFindingTold<'a> {
    pass: StepPass,
    text: String,
    output: Option<&'a str>,
    /// A multiple of the noise, or relative to the norm, as the text says; 0 where it means nothing.
    #[serde(with = "Number")]
    distance: f64,
}

#[derive(Serialize, schemars::JsonSchema)]
struct LeftOutTold<'a> {
    module: &'a str,
    reason: &'a str,
}

/// The document for one step.
pub fn render_step_json(entry: &StepEntry<'_>, run: &RunRecord) -> String {
    let left_out = entry.order.left_out.iter();
    let document = StepDocument {
        schema: SCHEMA,
        run,
        fixture: entry.fixture,
        model: &entry.order.model,
        step: entry.order.step,
        revision: entry.revision,
        against: match entry.beside {
            StepBeside::Revision(trusted) => trusted,
            StepBeside::Captured | StepBeside::Run(_) => None,
        },
        against_run: build_json_run(entry),
        verdict: entry.verdict(),
        text: conclude_step(entry).words(),
        first_forward: entry.first(Direction::Forward),
        first_backward: entry.first(Direction::Backward),
        parts: (0..entry.order.parts.len()).map(|place| build_json_part(entry, place)).collect(),
        left_out: left_out
            .map(|left_out| LeftOutTold { module: &left_out.module, reason: &left_out.reason })
            .collect(),
    };
    serde_json::to_string_pretty(&document).expect("values are plain data")
}

fn build_json_run<'a>(entry: &'a StepEntry<'_>) -> Option<OtherRunTold<'a>> {
    let other = entry.other_run()?;
    let difference = compare_orders(entry.order, other.order);
    let only_there = difference.only_in_other.into_iter();
    Some(OtherRunTold {
        fixture: other.fixture,
        model: &other.order.model,
        step: other.order.step,
        only_there: only_there.map(|place| other.order.name(place)).collect(),
        other_order_from: difference.first_moved,
    })
}

fn build_json_part<'a>(entry: &'a StepEntry<'_>, place: usize) -> StepPartTold<'a> {
    let part = &entry.order.parts[place];
    let reading = &entry.readings[place];
    let (blame, consequence_of) = match entry.blames[place] {
        Blame::Well => (StepBlameWord::Well, None),
        Blame::Own => (StepBlameWord::Own, None),
        Blame::Consequence { of } => (StepBlameWord::Consequence, Some(of)),
        Blame::FollowsInputs => (StepBlameWord::FollowsInputs, None),
    };
    let findings = reading.findings.iter();
    StepPartTold {
        folder: &part.folder,
        module: &part.module,
        kind: &part.kind,
        inside: part.inside,
        blame,
        consequence_of,
        forward: pass_word(entry, place, Direction::Forward).1,
        backward: pass_word(entry, place, Direction::Backward).1,
        forward_distance: reading.forward.and_then(|pass| pass.distance),
        backward_distance: reading.backward.and_then(|pass| pass.distance),
        reached: part.reached,
        findings: findings.map(|finding| build_json_finding(entry, finding)).collect(),
        untestable: match &reading.state {
            PartState::Untestable { reason } => Some(reason),
            PartState::Replayed | PartState::Alone => None,
        },
        only_here: reading.state == PartState::Alone,
        not_comparable: &reading.not_comparable,
    }
}

fn build_json_finding<'a>(entry: &StepEntry<'_>, finding: &'a PartFinding) -> StepFindingTold<'a> {
    let (output, distance) = match &finding.kind {
        PartFindingKind::Replayed(replayed) => (replayed.output.as_deref(), replayed.distance),
        PartFindingKind::NotAsCaptured { output, distance }
        | PartFindingKind::PartsFromRun { output, distance, .. } => {
            (Some(output.as_str()), *distance)
        }
    };
    let pass = match finding.direction {
        Direction::Forward => StepPass::Forward,
        Direction::Backward => StepPass::Backward,
    };
    StepFindingTold { pass, text: describe_part_finding(entry, finding), output, distance }
}

#[cfg(test)]
mod tests {
    use super::StepDocument;
    use crate::schema;

    #[test]
    fn the_schema_is_what_the_types_say() {
        schema::assert_schema_file::<StepDocument<'_>>("step-1");
    }
}
