//! `replay init --random SIZES`: fixtures of random inputs for drafted harnesses, marked as synthetic.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use ::replay::files;
use ::replay::fixture::{
    InputDraw, NewTensor, RandomInput, RandomInputsError, draw_random_inputs, write_safetensors,
};
use ::replay::harness::Harness;
use ::replay::tensor::DType;

use super::derived_fixture::check_is_new;
use super::draft::quote_toml;
use super::error::{CliResult, CommandError, ErrorContext};

/// What random inputs are like.
#[derive(Clone, Default)]
pub struct InputDraws {
    /// By name; others are usual ones.
    pub by_name: BTreeMap<String, InputDraw>,
    /// Whether two threads of a kernel meet on them.
    pub do_threads_meet: bool,
}

/// What random inputs may do that others do not: such as indices that are a permutation only in a training.
const MEETING: &str = "threads meet on them, as they may not on captured ones";

/// The sizes of random inputs, by name.
#[derive(Clone)]
pub struct RandomSizes {
    sizes: BTreeMap<String, usize>,
    /// As the user gave them.
    words: String,
}

/// A fixture to write.
pub struct RandomFixture {
    /// Its folder.
    pub folder: PathBuf,
    do_threads_meet: bool,
    manifest: String,
    inputs: Vec<RandomInput>,
}

impl RandomSizes {
    /// Reads `rows=64,cols=768`.
    pub fn parse(words: &str) -> CliResult<RandomSizes> {
        let mut sizes = BTreeMap::new();
        for pair in words.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let size = pair.split_once('=').and_then(|(name, size)| {
                Some((name.trim().to_owned(), size.trim().parse::<usize>().ok()?))
            });
            let Some((name, size)) = size else {
                return Err(CommandError::new(format!("`{pair}` in --random is not NAME=SIZE"))
                    .with_hint(
                        "such as --random rows=64,cols=768; a source stands in front of it",
                    ));
            };
            if sizes.insert(name.clone(), size).is_some() {
                return Err(CommandError::new(format!("--random gives `{name}` twice")));
            }
        }
        Ok(RandomSizes { sizes, words: words.to_owned() })
    }

    /// These `sizes`.
    pub fn from_sizes(sizes: BTreeMap<String, usize>) -> RandomSizes {
        let pairs = sizes.iter().map(|(name, size)| format!("{name}={size}"));
        let words = pairs.collect::<Vec<_>>().join(",");
        RandomSizes { sizes, words }
    }

    /// Refuses sizes that are none of `known`.
    pub fn check_known<'n>(&self, known: impl Iterator<Item = &'n str>) -> CliResult<()> {
        let mut known: Vec<&str> = known.collect();
        known.sort_unstable();
        known.dedup();
        match self.sizes.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(CommandError::new(format!("no harness has a size `{name}`"))
                .with_hint(format!("the sizes are {}", known.join(", ")))),
        }
    }

    /// Inputs for `harness`, as `draws` says.
    ///
    /// # Errors
    /// [`RandomInputsError`].
    pub fn draw_inputs(
        &self,
        harness: &Harness,
        draws: &InputDraws,
    ) -> Result<Vec<RandomInput>, RandomInputsError> {
        draw_random_inputs(harness, &self.sizes, &draws.by_name)
    }

    /// The fixture for `harness`, its inputs as `draws` says, in the folder `fixtures/NAME` beside it.
    pub fn plan_fixture(
        &self,
        harness: &Harness,
        draws: &InputDraws,
        name: &str,
    ) -> CliResult<RandomFixture> {
        let inputs = self.draw_inputs(harness, draws).map_err(|error| {
            let needed: Vec<String> =
                harness.size_names().map(|size| format!("{size}=8")).collect();
            CommandError::from_error(&error)
                .context(format!("no random inputs for {}", harness.path.display()))
                .with_hint(format!("give every size: --random {}", needed.join(",")))
        })?;
        let fixture = self.place_fixture(harness, draws, inputs, name);
        check_is_new(&fixture.folder, "remove it, or leave --random out")?;
        Ok(fixture)
    }

    /// The fixture with `inputs` of these sizes for `harness`, drawn as `draws` says, in the folder `fixtures/NAME` beside it.
    pub fn place_fixture(
        &self,
        harness: &Harness,
        draws: &InputDraws,
        inputs: Vec<RandomInput>,
        name: &str,
    ) -> RandomFixture {
        let beside = harness.path.parent().unwrap_or(Path::new(""));
        let folder = beside.join("fixtures").join(name);
        let manifest = self.write_manifest(harness, draws);
        RandomFixture { folder, do_threads_meet: draws.do_threads_meet, manifest, inputs }
    }

    /// The text of `fixture.toml`.
    fn write_manifest(&self, harness: &Harness, draws: &InputDraws) -> String {
        let file = harness.path.file_name().unwrap_or_default().to_string_lossy();
        let command = quote_toml(&format!("replay init --random {}", self.words));
        let mut text = format!(
            "harness = {}\n\
             description = \"synthetic: random inputs, not captured ones{}\"\n\n\
             [provenance]\nframework = \"synthetic\"\ncommand = {command}\n",
            quote_toml(&format!("../../{file}")),
            describe_draws(draws)
        );
        let scalars: Vec<(&String, DType)> = harness
            .inputs
            .iter()
            .filter(|(_, spec)| spec.shape.is_empty())
            .map(|(name, spec)| (name, spec.dtype))
            .collect();
        if !scalars.is_empty() {
            text.push_str("\n[scalars]\n");
        }
        let mut unnamed_values = PLAIN_VALUES.iter().cycle();
        for (name, dtype) in scalars {
            let value = usual_scalar(name, dtype).or_else(|| unnamed_values.next().copied());
            let _ = writeln!(text, "{name} = {} # EDIT", value.unwrap_or("1"));
        }
        if !harness.sizes.is_empty() {
            text.push_str("\n[sizes]\n");
        }
        for name in &harness.sizes {
            let _ =
                writeln!(text, "{name} = {}", self.sizes.get(name).copied().unwrap_or_default());
        }
        text
    }
}

impl RandomFixture {
    /// The line about it, once it is written.
    pub fn describe(&self) -> String {
        let line = format!("wrote {}: random inputs, marked as synthetic", self.folder.display());
        if self.do_threads_meet { format!("{line}; {MEETING}") } else { line }
    }

    /// Writes the folder.
    pub fn write(&self) -> CliResult<()> {
        let folder = &self.folder;
        std::fs::create_dir_all(folder)
            .context(|| format!("cannot make the folder {}", folder.display()))?;
        let tensors: Vec<NewTensor<'_>> = self
            .inputs
            .iter()
            .map(|input| (&*input.name, input.dtype, &input.shape[..], &input.bytes[..]))
            .collect();
        if !tensors.is_empty() {
            write_safetensors(folder, &tensors, &[("synthetic", "random numbers")])?;
        }
        let manifest = folder.join("fixture.toml");
        files::create_new_file(&manifest, self.manifest.as_bytes())
            .context(|| format!("cannot write {}", manifest.display()))
    }
}

/// What of `draws` is not usual, behind other words.
fn describe_draws(draws: &InputDraws) -> String {
    let mut words = String::new();
    let kinds = [
        (InputDraw::Small, "between 0 and 1"),
        (InputDraw::Distinct, "no index twice"),
        (InputDraw::Absent, "left out"),
    ];
    for (draw, what) in kinds {
        let drawn = draws.by_name.iter().filter(|(_, other)| **other == draw);
        let names: Vec<&str> = drawn.map(|(name, _)| name.as_str()).collect();
        if !names.is_empty() {
            let _ = write!(words, "; {what}: {}", names.join(", "));
        }
    }
    if draws.do_threads_meet {
        let _ = write!(words, "; {MEETING}");
    }
    words
}

/// Values for scalars whose names say nothing: each once, and none is 1.0, under which a missing factor does not show.
const PLAIN_VALUES: [&str; 4] = ["0.75", "0.25", "0.625", "0.375"];

/// A value that a scalar of this name often has; none if its name says nothing.
fn usual_scalar(name: &str, dtype: DType) -> Option<&'static str> {
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    Some(match dtype {
        DType::Bool => "false",
        // Every tensor has a first dimension.
        dtype if !dtype.is_float() && ["dim", "axis"].contains(&name) => "0",
        dtype if !dtype.is_float() => "1",
        _ if has(&["eps"]) => "1e-5",
        _ if has(&["lr", "learning_rate", "decay"]) => "1e-3",
        _ if has(&["beta", "momentum"]) => "0.9",
        _ if has(&["drop"]) => "0.0",
        _ => return None,
    })
}
