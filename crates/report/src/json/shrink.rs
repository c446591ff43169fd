//! `replay shrink --format json`.

use serde::Serialize;

use crate::shrink::{
    ShrinkEntry, conclude_shrinking, describe_finding, describe_need, describe_tried,
    describe_tried_values, describe_value_need, describe_values,
};
use crate::{Revision, RunRecord};
use replay_base::summary::Number;
use replay_base::tensor::unravel_index;
use replay_engine::judge::Finding;
use replay_fixture::fixture::ElementValue;
use replay_search::TestAnswer;
use replay_shrink::{CutEnd, CutReport, ShrinkAnswer, ShrunkSize, ValueNeed};

/// The version of the document; it grows when a field changes its meaning or goes.
const SCHEMA: &str = "replay-shrink/1";

/// The document that `replay shrink --format json` writes; docs/schema.md explains the fields.
#[derive(Serialize, schemars::JsonSchema)]
#[schemars(title = "replay shrink --format json")]
struct ShrinkDocument<'a> {
    #[schemars(extend("const" = SCHEMA))]
    schema: &'a str,
    run: &'a RunRecord,
    fixture: &'a str,
    revision: Option<&'a Revision>,
    against: Option<&'a Revision>,
    answer: ShrinkAnswerWord,
    /// The answer as text reports tell it.
    text: String,
    /// The finding on the whole fixture; null where there is none.
    finding: Option<ShrinkFindingTold<'a>>,
    /// The same on the smallest fixture; null where none was found.
    kept: Option<ShrinkFindingTold<'a>>,
    sizes: Vec<ShrunkSizeTold<'a>>,
    /// The inputs with simple values.
    values: Vec<SimpleValuesTold<'a>>,
    /// What the finding needs of values that are not simple, or must be as simple.
    needs: Vec<ValueNeedTold<'a>>,
    tries: usize,
    end: Option<ShrinkEndWord>,
    /// The bytes of the whole fixture's files.
    bytes: u64,
    written: Option<WrittenFixtureTold<'a>>,
}

#[derive(Clone, Copy, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ShrinkAnswerWord {
    /// A smaller fixture was found.
    Cut,
    NothingSmaller,
    NoFinding,
    /// The finding comes and goes.
    Unsteady,
    Untestable,
}

#[derive(Clone, Copy, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ShrinkEndWord {
    Complete,
    OutOfTries,
    Interrupted,
}

impl From<CutEnd> for ShrinkEndWord {
    fn from(end: CutEnd) -> ShrinkEndWord {
        match end {
            CutEnd::Complete => ShrinkEndWord::Complete,
            CutEnd::OutOfTries => ShrinkEndWord::OutOfTries,
            CutEnd::Interrupted => ShrinkEndWord::Interrupted,
        }
    }
}

#[derive(Serialize, schemars::JsonSchema)]
struct ShrinkFindingTold<'a> {
    text: String,
    output: Option<&'a str>,
    /// A multiple of the noise, or relative to the norm, as the text says; 0 where it means nothing.
    #[serde(with = "Number")]
    distance: f64,
}

impl<'a> From<&'a Finding> for ShrinkFindingTold<'a> {
    fn from(finding: &'a Finding) -> ShrinkFindingTold<'a> {
        ShrinkFindingTold {
            text: describe_finding(finding),
            output: finding.output.as_deref(),
            distance: finding.distance,
        }
    }
}

#[derive(Serialize, schemars::JsonSchema)]
struct ShrunkSizeTold<'a> {
    name: &'a str,
    before: usize,
    after: usize,
    /// The slices that are left, from 0; null for a number without slices.
    slices: Option<&'a [usize]>,
    /// What the finding needs of it, with the tries behind it.
    text: String,
    /// Other lengths that were tried, with all else as in the smallest fixture.
    tried: Vec<TriedLengthTold>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct TriedLengthTold {
    length: usize,
    answer: TryAnswer,
}

#[derive(Clone, Copy, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TryAnswer {
    /// The finding is there.
    Shown,
    Gone,
    /// The finding is there, and less than a tenth as far off.
    Weaker,
    Untestable,
}

impl From<TestAnswer> for TryAnswer {
    fn from(answer: TestAnswer) -> TryAnswer {
        match answer {
            TestAnswer::Bad => TryAnswer::Shown,
            TestAnswer::Good => TryAnswer::Gone,
            TestAnswer::Other => TryAnswer::Weaker,
            TestAnswer::Skip => TryAnswer::Untestable,
        }
    }
}

#[derive(Serialize, schemars::JsonSchema)]
struct SimpleValuesTold<'a> {
    input: &'a str,
    text: String,
}

#[derive(Serialize, schemars::JsonSchema)]
struct ValueNeedTold<'a> {
    input: &'a str,
    /// What the finding needs, with the tries behind it.
    text: String,
    /// The index of each element, along each dimension.
    places: Vec<Vec<usize>>,
    /// The scalar input that has to have the same value; null where there is none.
    equal_to: Option<&'a str>,
    /// Other values that were tried there, with all else as in the smallest fixture.
    tried: Vec<TriedValueTold>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct TriedValueTold {
    #[serde(with = "Number")]
    value: f64,
    answer: TryAnswer,
}

#[derive(Serialize, schemars::JsonSchema)]
struct WrittenFixtureTold<'a> {
    folder: &'a str,
    /// The bytes of its files.
    bytes: u64,
}

/// The document for one fixture.
pub fn render_shrink_json(entry: &ShrinkEntry<'_>, run: &RunRecord) -> String {
    let (answer, finding, tries, end) = match entry.answer {
        ShrinkAnswer::NoFinding => (ShrinkAnswerWord::NoFinding, None, 0, None),
        ShrinkAnswer::Untestable { .. } => (ShrinkAnswerWord::Untestable, None, 0, None),
        ShrinkAnswer::NothingSmaller { finding, tries, end } => {
            (ShrinkAnswerWord::NothingSmaller, Some(finding), *tries, Some((*end).into()))
        }
        ShrinkAnswer::Unsteady { finding, tries } => {
            (ShrinkAnswerWord::Unsteady, Some(finding), *tries, None)
        }
        ShrinkAnswer::Cut(report) => {
            (ShrinkAnswerWord::Cut, Some(&report.finding), report.tries, Some(report.end.into()))
        }
    };
    let report: Option<&CutReport> = match entry.answer {
        ShrinkAnswer::Cut(report) => Some(report),
        _ => None,
    };
    let values = report.into_iter().flat_map(|report| &report.values);
    let document = ShrinkDocument {
        schema: SCHEMA,
        run,
        fixture: entry.fixture,
        revision: entry.revision,
        against: entry.trusted,
        answer,
        text: conclude_shrinking(entry).words(),
        finding: finding.map(ShrinkFindingTold::from),
        kept: report.map(|report| ShrinkFindingTold::from(&report.kept)),
        sizes: report.into_iter().flat_map(|report| &report.sizes).map(build_json_size).collect(),
        values: values
            .map(|(input, values)| SimpleValuesTold { input, text: describe_values(values) })
            .collect(),
        needs: report.into_iter().flat_map(|report| &report.needs).map(build_json_need).collect(),
        tries,
        end,
        bytes: entry.bytes,
        written: entry
            .written
            .as_ref()
            .map(|written| WrittenFixtureTold { folder: &written.folder, bytes: written.bytes }),
    };
    serde_json::to_string_pretty(&document).expect("values are plain data")
}

fn build_json_size(size: &ShrunkSize) -> ShrunkSizeTold<'_> {
    let tried = size
        .tried
        .iter()
        .map(|&(length, answer)| TriedLengthTold { length, answer: answer.into() });
    let need = describe_need(size);
    let tries = describe_tried(size);
    ShrunkSizeTold {
        name: &size.name,
        before: size.before,
        after: size.kept.len(),
        slices: size.has_slices.then_some(&size.kept),
        text: if tries.is_empty() { need } else { format!("{need}; {tries}") },
        tried: tried.collect(),
    }
}

fn build_json_need(need: &ValueNeed) -> ValueNeedTold<'_> {
    let tried = need.tried.iter().map(|&(value, answer)| TriedValueTold {
        value: match value {
            ElementValue::Whole(number) => number as f64,
            ElementValue::Real(number) => number,
        },
        answer: answer.into(),
    });
    ValueNeedTold {
        input: &need.input,
        text: format!("{}; {}", describe_value_need(need), describe_tried_values(need)),
        places: need.places.iter().map(|place| unravel_index(*place, &need.shape)).collect(),
        equal_to: need.equal_to.as_deref(),
        tried: tried.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::ShrinkDocument;
    use crate::schema;

    #[test]
    fn the_schema_is_what_the_types_say() {
        schema::assert_schema_file::<ShrinkDocument<'_>>("shrink-1");
    }
}
