//! `replay explain --format json`.

use serde::Serialize;

use crate::{Explained, Revision, RunRecord};
use replay_engine::compile::{CompileObstacles, ExplainedFile, ObstacleEffect, ShadowObstacle};
use replay_frontend::{KernelForm, ShuffleReason, ShuffleSite, StackReason, ThreadForm};

/// The version of the document; it grows when a field changes its meaning or goes.
const SCHEMA: &str = "replay-explain/1";

/// The document that `replay explain --format json` writes; docs/schema.md explains the fields.
#[derive(Serialize, schemars::JsonSchema)]
#[schemars(title = "replay explain --format json")]
struct ExplainDocument<'a> {
    #[schemars(extend("const" = SCHEMA))]
    schema: &'a str,
    run: &'a RunRecord,
    fixture: Option<&'a str>,
    harness: &'a str,
    revision: Option<&'a Revision>,
    files: Vec<FileDocument<'a>>,
    /// What keeps the sources from being compiled; null where it was not looked for, as for a part of them.
    obstacles: Option<Vec<CompileObstacleDocument<'a>>>,
    /// The functions with tensors of PyTorch and the kernels that no call of the harness reaches.
    left_out: Vec<LeftOutDocument<'a>>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct CompileObstacleDocument<'a> {
    place: &'a str,
    more_places: usize,
    message: &'a str,
    hint: Option<&'a str>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct LeftOutDocument<'a> {
    path: &'a str,
    line: usize,
    name: &'a str,
}

#[derive(Serialize, schemars::JsonSchema)]
struct FileDocument<'a> {
    path: &'a str,
    kernels: Vec<KernelDocument<'a>>,
    shuffles: Vec<ShuffleDocument<'a>>,
    shadow_obstacles: Vec<ObstacleDocument<'a>>,
    device_shadow_obstacle: Option<&'a str>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct KernelDocument<'a> {
    name: &'a str,
    line: usize,
    form: FormName,
    halving_loops: &'a [usize],
    strided_loops: &'a [usize],
    why_not_block: Option<Why<'a, StackReason>>,
}

#[derive(Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum FormName {
    InTurn,
    Block,
    Stacks,
}

#[derive(Serialize, schemars::JsonSchema)]
struct Why<'a, R> {
    line: Option<usize>,
    text: String,
    reason: &'a R,
}

#[derive(Serialize, schemars::JsonSchema)]
struct ShuffleDocument<'a> {
    function: &'a str,
    line: usize,
    why_no_chain: Option<Why<'a, ShuffleReason>>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct ObstacleDocument<'a> {
    line: usize,
    construct: &'a str,
    within: Option<&'a str>,
    effect: ObstacleEffect,
}

/// The document for `explained`.
pub fn render_explanation_json(explained: &Explained, run: &RunRecord) -> String {
    let document = ExplainDocument {
        schema: SCHEMA,
        run,
        fixture: explained.fixture.as_deref(),
        harness: &explained.harness,
        revision: explained.revision.as_ref(),
        files: explained.explanation.files.iter().map(document_file).collect(),
        obstacles: explained.obstacles.as_ref().map(document_obstacles),
        left_out: explained.obstacles.as_ref().map_or(Vec::new(), document_left_out),
    };
    serde_json::to_string_pretty(&document).expect("values are plain data")
}

fn document_obstacles(found: &CompileObstacles) -> Vec<CompileObstacleDocument<'_>> {
    let documents = found.obstacles.iter().map(|obstacle| CompileObstacleDocument {
        place: &obstacle.place,
        more_places: obstacle.more_places,
        message: &obstacle.message,
        hint: obstacle.hint.as_deref(),
    });
    documents.collect()
}

fn document_left_out(found: &CompileObstacles) -> Vec<LeftOutDocument<'_>> {
    let functions = found.left_out.iter();
    let documents = functions.map(|function| LeftOutDocument {
        path: &function.path,
        line: function.line,
        name: &function.name,
    });
    documents.collect()
}

fn document_file(file: &ExplainedFile) -> FileDocument<'_> {
    FileDocument {
        path: &file.path,
        kernels: file.kernels.iter().map(document_kernel).collect(),
        shuffles: file.shuffles.iter().map(document_shuffle).collect(),
        shadow_obstacles: file.shadow_obstacles.iter().map(document_obstacle).collect(),
        device_shadow_obstacle: file.device_shadow_obstacle,
    }
}

fn document_kernel(kernel: &KernelForm) -> KernelDocument<'_> {
    let mut document = KernelDocument {
        name: &kernel.kernel,
        line: kernel.line,
        form: FormName::InTurn,
        halving_loops: &[],
        strided_loops: &[],
        why_not_block: None,
    };
    match &kernel.threads {
        ThreadForm::InTurn => {}
        ThreadForm::Block { halving, strided } => {
            document.form = FormName::Block;
            document.halving_loops = halving;
            document.strided_loops = strided;
        }
        ThreadForm::Stacks { why, line } => {
            document.form = FormName::Stacks;
            document.why_not_block = Some(Why { line: *line, text: why.to_string(), reason: why });
        }
    }
    document
}

fn document_shuffle(shuffle: &ShuffleSite) -> ShuffleDocument<'_> {
    let why = shuffle.alone.as_ref();
    ShuffleDocument {
        function: &shuffle.function,
        line: shuffle.line,
        why_no_chain: why.map(|why| Why {
            line: Some(shuffle.line),
            text: why.to_string(),
            reason: why,
        }),
    }
}

fn document_obstacle(obstacle: &ShadowObstacle) -> ObstacleDocument<'_> {
    ObstacleDocument {
        line: obstacle.line,
        construct: &obstacle.construct,
        within: obstacle.within.as_deref(),
        effect: obstacle.effect,
    }
}

#[cfg(test)]
mod tests {
    use super::ExplainDocument;
    use crate::schema;

    #[test]
    fn the_schema_is_what_the_types_say() {
        schema::assert_schema_file::<ExplainDocument<'_>>("explain-1");
    }
}
