//! `replay inspect FIXTURE... --format json`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{CaptureRevision, RefusedFixture, RunRecord};
use replay_base::summary::{Summary, summarize_tensor};
use replay_base::tensor::{DType, Dim, TensorView};
use replay_fixture::fixture::{Fixture, FixtureError, Input, KnownOutput};
use replay_series::Shift;

/// The version of the document; it grows when a field changes its meaning or goes.
const SCHEMA: &str = "replay-inspect/1";

/// The document that `replay inspect --format json` writes; docs/schema.md explains the fields.
#[derive(Serialize, schemars::JsonSchema)]
#[schemars(title = "replay inspect --format json")]
struct InspectDocument<'a> {
    #[schemars(extend("const" = SCHEMA))]
    schema: &'a str,
    run: &'a RunRecord,
    fixtures: &'a [Inspected],
    errors: &'a [RefusedFixture],
}

/// What a fixture holds.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Inspected {
    /// The folder's name.
    fixture: String,
    /// The folder, as it was named.
    folder: String,
    description: Option<String>,
    /// The file of the harness.
    harness: String,
    /// The sizes that `call` sees, by name.
    sizes: BTreeMap<String, usize>,
    /// The facts of `[provenance]` in `fixture.toml`.
    provenance: BTreeMap<&'static str, String>,
    files: Vec<InspectedFile>,
    inputs: Vec<InspectedInput>,
    /// Integer inputs that are others, shifted by one: the targets of a language model.
    shifts: Vec<InspectedShift>,
    outputs: Vec<DeclaredOutput>,
    captured: Vec<InspectedTensor>,
    /// The revision that gave what is captured, beside the sources of the working tree.
    captured_at: Option<CaptureRevision>,
    oracle: Vec<InspectedTensor>,
    /// The hash of all that the fixture holds.
    content: String,
}

#[derive(Serialize, schemars::JsonSchema)]
struct InspectedFile {
    path: String,
    bytes: u64,
    /// The recorded hash, which the file has.
    blake3: Option<String>,
    /// The part of the tensors that it holds, where they are split over files.
    part: Option<FilePart>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct FilePart {
    /// The place of this part, from 0.
    order: usize,
    axis: String,
}

#[derive(Serialize, schemars::JsonSchema)]
struct InspectedInput {
    name: String,
    dtype: DType,
    dims: Vec<Dim>,
    /// Elements between neighbours along each dimension, where the fixture records them.
    strides: Option<Vec<usize>>,
    /// The elements before its first one in the buffer that it was captured from.
    offset: usize,
    /// Whether it is kept as float32 that was widened without loss.
    widened: bool,
    /// How it is put together from several files.
    shards: Option<InspectedShards>,
    /// None for an optional input that the fixture lacks.
    summary: Option<Summary>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct InspectedShards {
    /// The size along which they are joined; none if all files have the same.
    axis: Option<String>,
    count: usize,
    /// Whether one more file has the tensor whole.
    whole: bool,
}

#[derive(Serialize, schemars::JsonSchema)]
struct InspectedShift {
    tokens: String,
    next: String,
    #[serde(flatten)]
    shift: Shift,
}

#[derive(Serialize, schemars::JsonSchema)]
struct DeclaredOutput {
    name: String,
    dtype: DType,
    dims: Vec<Dim>,
    gradient_of: Option<String>,
    /// The differentiated outputs.
    of: Vec<String>,
    /// The gradient flowing into each of them; empty means ones.
    upstream: Vec<String>,
    non_finite: bool,
}

#[derive(Serialize, schemars::JsonSchema)]
struct InspectedTensor {
    name: String,
    dtype: DType,
    dims: Vec<Dim>,
    #[serde(flatten)]
    summary: Summary,
}

impl Inspected {
    /// What `fixture` holds, whose captured outputs `captured_at` gave. `shifts` are pairs of names and how far the second
    /// input is the first one, shifted.
    ///
    /// # Errors
    /// [`FixtureError`] if a file changed since it was read.
    pub fn new(
        fixture: &Fixture,
        captured_at: Option<CaptureRevision>,
        shifts: Vec<(String, String, Shift)>,
    ) -> Result<Inspected, FixtureError> {
        let facts = fixture.provenance.entries().map(|(key, value)| (key, value.into_owned()));
        let shifts =
            shifts.into_iter().map(|(tokens, next, shift)| InspectedShift { tokens, next, shift });
        Ok(Inspected {
            fixture: fixture.name.clone(),
            folder: fixture.dir.display().to_string(),
            description: fixture.description.clone(),
            harness: fixture.harness.path.display().to_string(),
            sizes: fixture.sizes.iter().map(|(name, &size)| (name.clone(), size)).collect(),
            provenance: facts.collect(),
            files: list_inspected_files(fixture),
            inputs: fixture.inputs.iter().map(inspect_input).collect::<Result<_, _>>()?,
            shifts: shifts.collect(),
            outputs: list_declared_outputs(fixture),
            captured: fixture.captured.iter().map(known_tensor).collect(),
            captured_at,
            oracle: fixture.oracle.iter().map(known_tensor).collect(),
            content: fixture.content_hash()?.to_hex().to_string(),
        })
    }
}

fn list_inspected_files(fixture: &Fixture) -> Vec<InspectedFile> {
    let files = fixture.files.iter().map(|file| InspectedFile {
        path: file.path.display().to_string(),
        bytes: file.len,
        blake3: file.blake3.map(|hash| hash.to_hex().to_string()),
        part: file
            .shard
            .as_ref()
            .map(|shard| FilePart { order: shard.order, axis: shard.axis.clone() }),
    });
    files.collect()
}

fn inspect_input(input: &Input) -> Result<InspectedInput, FixtureError> {
    let summary = if input.present {
        let packed = input.packed()?;
        let shape = input.shape();
        let view = TensorView { dtype: input.dtype, shape: &shape, bytes: &packed };
        Some(summarize_tensor(&view, None))
    } else {
        None
    };
    let shards = input.shards.as_ref().map(|shards| InspectedShards {
        axis: shards.axis.clone(),
        count: shards.count,
        whole: shards.whole,
    });
    Ok(InspectedInput {
        name: input.name.clone(),
        dtype: input.dtype,
        dims: input.dims.clone(),
        strides: input.strides.clone(),
        offset: input.offset,
        widened: input.widened,
        shards,
        summary,
    })
}

fn list_declared_outputs(fixture: &Fixture) -> Vec<DeclaredOutput> {
    let outputs = fixture.outputs.iter().map(|output| DeclaredOutput {
        name: output.name.clone(),
        dtype: output.dtype,
        dims: output.dims.clone(),
        gradient_of: output.gradient_of.clone(),
        of: output.of.clone(),
        upstream: output.upstream.clone(),
        non_finite: output.non_finite,
    });
    outputs.collect()
}

fn known_tensor(output: &KnownOutput) -> InspectedTensor {
    let shape = output.shape();
    let view = TensorView { dtype: output.dtype, shape: &shape, bytes: output.bytes() };
    InspectedTensor {
        name: output.name.clone(),
        dtype: output.dtype,
        dims: output.dims.clone(),
        summary: summarize_tensor(&view, None),
    }
}

/// The document for the fixtures that are whole, and for those that are broken.
pub fn render_inspection_json(
    fixtures: &[Inspected],
    errors: &[RefusedFixture],
    run: &RunRecord,
) -> String {
    let document = InspectDocument { schema: SCHEMA, run, fixtures, errors };
    serde_json::to_string_pretty(&document).expect("values are plain data")
}

#[cfg(test)]
mod tests {
    use super::InspectDocument;
    use crate::schema;

    #[test]
    fn the_schema_is_what_the_types_say() {
        schema::assert_schema_file::<InspectDocument<'_>>("inspect-1");
    }
}
