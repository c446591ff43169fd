//! Explains the front end's results for a source set, on the way to a faster form or a float64 shadow. Runs no
//! compiler.

use super::entry_point::Signature;
use super::translation::{
    CodeScope, Translation, TranslationRequest, create_source_units, decode_source_texts,
    translate_sources,
};
use super::{CompileError, join_harness_statements, threads_of};
use replay_fixture::harness::Harness;
use replay_frontend::{KernelForm, Precision, ShuffleSite};
use replay_history::SourceSet;

/// The front end's results for a source set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// The files of CUDA C++, in order.
    pub files: Vec<ExplainedFile>,
}

/// The front end's results for a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExplainedFile {
    /// Its path in the revision.
    pub path: String,
    /// How the threads of each kernel are run, in order.
    pub kernels: Vec<KernelForm>,
    /// Its shuffles, in order.
    pub shuffles: Vec<ShuffleSite>,
    /// The constructs whose meaning changes if `float` means `double`, in order.
    pub shadow_obstacles: Vec<ShadowObstacle>,
    /// The obstacle in it to a shadow on a GPU; none if there is none.
    pub device_shadow_obstacle: Option<&'static str>,
}

/// A construct whose meaning changes if `float` means `double`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShadowObstacle {
    /// 1-based.
    pub line: usize,
    /// The construct, as written.
    pub construct: String,
    /// The function, class or macro around it; none if it always counts.
    pub within: Option<String>,
    /// Its effect on the shadow.
    pub effect: ObstacleEffect,
}

/// The effect of an obstacle on the shadow of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ObstacleEffect {
    /// There is no shadow.
    NoShadow,
    /// The shadow ends where the construct is run.
    EndsWhereRun,
    /// Nothing: the names in the call do not lead to it.
    NotReached,
}

/// A build of a source set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// Host C++, `float` as it is.
    Native,
    /// Host C++, `float` meaning `double`.
    Shadow,
    /// Host C++ with a report of each access to memory.
    Checked,
    /// Device code for NVRTC.
    Device,
}

impl Explanation {
    /// The front end's results for `sources` and the calls of `harness`. Without a signature they are those for small
    /// tensors.
    ///
    /// # Errors
    /// [`CompileError`] if the front end refuses the sources.
    pub fn new(
        harness: &Harness,
        signature: Option<&Signature>,
        sources: &SourceSet,
    ) -> Result<Explanation, CompileError> {
        let native = translate_for_precision(harness, signature, sources, Precision::Native)?;
        let shadow = translate_for_precision(harness, signature, sources, Precision::Shadow)?;
        let texts = decode_source_texts(sources, harness)?;
        let calls: Vec<String> =
            (0..harness.calls.len()).map(|call| join_harness_statements(harness, call)).collect();
        let mut files: Vec<ExplainedFile> = Vec::new();
        for (forms, unit) in native.forms.into_iter().zip(create_source_units(&texts)) {
            files.push(ExplainedFile {
                path: forms.path,
                kernels: forms.kernels,
                shuffles: forms.shuffles,
                shadow_obstacles: Vec::new(),
                device_shadow_obstacle: replay_frontend::device_shadow_obstacle(&unit),
            });
        }
        for (path, obstacle, effect) in shadow.obstacle_effects(&calls.join("\n")) {
            let file = files.iter_mut().find(|file| file.path == *path);
            file.expect("the shadow is of the same files").shadow_obstacles.push(ShadowObstacle {
                line: obstacle.line,
                construct: obstacle.what.clone(),
                within: obstacle.within.clone(),
                effect,
            });
        }
        Ok(Explanation { files })
    }

    /// The results about `name`: a file by its path or the end of it, a kernel, or another function with a shuffle or an
    /// obstacle. None if nothing has this name.
    pub fn about(&self, name: &str) -> Option<Explanation> {
        let mut named_files = self.files.clone();
        named_files.retain(|file| {
            let folders = file.path.strip_suffix(name);
            folders.is_some_and(|folders| folders.is_empty() || folders.ends_with('/'))
        });
        if !named_files.is_empty() {
            return Some(Explanation { files: named_files });
        }
        let mut files = self.files.clone();
        for file in &mut files {
            file.kernels.retain(|form| form.kernel == name);
            file.shuffles.retain(|shuffle| shuffle.function == name);
            file.shadow_obstacles.retain(|obstacle| obstacle.within.as_deref() == Some(name));
        }
        files.retain(|file| {
            let parts = [file.kernels.len(), file.shuffles.len(), file.shadow_obstacles.len()];
            parts.iter().any(|&count| count > 0)
        });
        (!files.is_empty()).then_some(Explanation { files })
    }

    /// The names of all kernels, in order.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.files.iter().flat_map(|file| &file.kernels).map(|form| form.kernel.as_str())
    }
}

/// The files of CUDA C++ in `sources`, rewritten for `build`: path and text.
///
/// # Errors
/// [`CompileError`] if the front end refuses the sources.
pub fn rewritten_sources(
    harness: &Harness,
    signature: Option<&Signature>,
    sources: &SourceSet,
    build: Build,
) -> Result<Vec<(String, Vec<u8>)>, CompileError> {
    let precision = match build {
        Build::Native | Build::Device => Precision::Native,
        Build::Shadow => Precision::Shadow,
        Build::Checked => Precision::Checked,
    };
    let host = translate_for_precision(harness, signature, sources, precision)?;
    let texts = decode_source_texts(sources, harness)?;
    if build == Build::Device {
        let mut files = Vec::new();
        for (unit, (path, decoded)) in create_source_units(&texts).iter().zip(&texts) {
            let text = replay_frontend::translate_for_device(unit, &host.symbols, precision)?;
            files.push(((*path).to_owned(), decoded.encode(text)));
        }
        return Ok(files);
    }
    let mut files = host.files;
    files.retain(|(path, _)| texts.iter().any(|(read_path, _)| read_path == path));
    Ok(files)
}

fn translate_for_precision(
    harness: &Harness,
    signature: Option<&Signature>,
    sources: &SourceSet,
    precision: Precision,
) -> Result<Translation, CompileError> {
    let large = signature.is_some_and(|signature| signature.large);
    let threads = threads_of(precision, large);
    let whole = TranslationRequest {
        sources,
        harness,
        scope: CodeScope::Whole,
        precision,
        threads,
        refused: &[],
    };
    // A kernel that no call reaches may be refused: it does no harm.
    translate_sources(whole).or_else(|refusal| {
        translate_sources(TranslationRequest { scope: CodeScope::Reached, ..whole })
            .map_err(|_| refusal)
    })
}
