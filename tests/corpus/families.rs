//! The corpus: variants of small kernels, each with its truth, and the inputs they are replayed on.
//!
//! A family is a folder: `replay.toml`, `base.cu`, `include/`, the variants in `benign/` and
//! `defect/`, and `corpus.toml`, which says at which fixtures a defect changes the mathematics.
//! Judges nothing itself: [`Corpus::confusion`] takes the judge.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use replay::backend::{Backend, CpuBackend, Host};
use replay::cache::Cache;
use replay::compile::{Compiler, Toolchain};
use replay::fixture::Fixture;
use replay::foreign::Keeper;
use replay::frontend::Threads;
use replay::history::{SourceSet, SourceSpec, source_set_from_dir};
use replay::judge::Verdict;
use replay::trial::{Lab, Subject, Trial};
use replay::worker::Limits;
use serde::Deserialize;
use tempfile::TempDir;

use super::inputs::{self, Inputs};
use super::matrix::Confusion;

/// What a variant is, whatever a judge says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Truth {
    /// The same mathematics as the base.
    Benign,
    /// Other mathematics at some fixtures.
    Defect,
}

/// What a variant changes at one fixture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing but rounding.
    Rounding,
    /// Nothing in the order of the indices, the mathematics in others.
    OtherOrders,
    /// The mathematics.
    Mathematics,
}

/// One entry of `corpus.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// The source, relative to the family's folder.
    pub file: String,
    /// What it is.
    pub truth: Truth,
    /// The fixtures at which a defect changes the mathematics.
    #[serde(default)]
    pub at: BTreeSet<String>,
    /// The fixtures at which it does so only where blocks and threads do not run in the order of
    /// their indices.
    #[serde(default)]
    pub in_other_orders: BTreeSet<String>,
    /// Whether it is replayed where only a part of the corpus is.
    #[serde(default)]
    pub quick: bool,
    /// What was changed, in words.
    pub why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    variants: Vec<Variant>,
}

/// The kernels of the corpus.
pub const FAMILIES: [&str; 7] =
    ["lm_loss", "linear_loss", "softmax", "layernorm", "matmul_bias", "embedding", "attention"];

/// The folder `tests` of this package: the tests may run on another machine than the one that built them.
pub fn tests_folder() -> PathBuf {
    let root = std::env::var_os("REPLAY_TEST_ROOT");
    root.map_or(env!("CARGO_MANIFEST_DIR").into(), PathBuf::from).join("tests")
}

pub fn folder(family: &str) -> PathBuf {
    tests_folder().join("corpus").join(family)
}

/// The cache of the corpus, which outlives the test.
pub fn cache() -> Cache {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = if folder.is_dir() { folder.to_owned() } else { std::env::temp_dir() };
    Cache::open(&folder.join("corpus-cache")).expect("a cache")
}

/// The reference machine, where a replay takes at most `timeout` and the threads of a block are run as
/// `threads` says.
pub fn cpu(timeout: Duration, threads: Threads) -> CpuBackend {
    let cache = cache();
    let carried = std::env::var_os("REPLAY_TEST_PROGRAM").map(PathBuf::from);
    let program = carried.unwrap_or_else(|| env!("CARGO_BIN_EXE_replay").into());
    let keeper = Keeper::new(&program);
    let compiler =
        Compiler::find(std::env::var("CXX").ok().as_deref(), &keeper).expect("a compiler");
    let toolchain = Toolchain::new(compiler, &cache).with_threads(threads);
    // One thread: an unsynchronised sum over blocks must not depend on the machine's mood.
    let limits = Limits { timeout, memory_limit_bytes: 1 << 30 };
    CpuBackend::new(toolchain, Host::new(program, limits, 1, cache.temporary()))
}

/// Trials on `backend`.
pub fn lab(backend: impl Backend + 'static) -> Arc<Lab> {
    Lab::new(Arc::new(backend), cache(), false)
}

/// A trial in `lab` of the fixture in `folder`; the sources that its harness names lie below `sources_folder`.
pub fn trial(lab: &Arc<Lab>, folder: &Path, sources_folder: &Path) -> Trial {
    let fixture = Fixture::load(folder).unwrap_or_else(|error| panic!("{error}"));
    let spec = SourceSpec {
        sources: fixture.harness.sources.clone(),
        include: fixture.harness.include.clone(),
        ..SourceSpec::default()
    };
    let sources = source_set_from_dir(sources_folder, &spec).expect("the sources");
    lab.trial(&Subject::new(fixture).into(), &sources.into())
}

/// The variants of `family`, as its `corpus.toml` lists them.
pub fn variants(family: &str) -> Vec<Variant> {
    let path = folder(family).join("corpus.toml");
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let manifest: Manifest =
        toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    manifest.variants
}

/// The files of `family` that hold a variant, relative to its folder.
pub fn files(family: &str) -> BTreeSet<String> {
    let list = |kind: &str| {
        let entries = fs::read_dir(folder(family).join(kind)).expect("a folder of variants");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        names.map(|name| format!("{kind}/{}", name.to_string_lossy())).collect::<Vec<_>>()
    };
    ["benign", "defect"].into_iter().flat_map(list).collect()
}

/// The text of one file of `family`.
pub fn text(family: &str, file: &str) -> String {
    fs::read_to_string(folder(family).join(file)).unwrap_or_else(|e| panic!("{family}/{file}: {e}"))
}

/// The source set in which `file` takes the place of the harness's sources.
pub fn source_set(family: &str, file: &str) -> Arc<SourceSet> {
    let spec = SourceSpec {
        sources: vec![file.into()],
        include: vec!["include".into()],
        ..SourceSpec::default()
    };
    source_set_from_dir(&folder(family), &spec).expect("the files of a variant").into()
}

/// A fixture on disk, ready to be replayed.
pub struct Captured {
    /// The tensors.
    pub inputs: Inputs,
    /// The fixture as the lab sees it.
    pub subject: Arc<Subject>,
}

/// A family with its fixtures and its base.
pub struct Family {
    /// The name of its folder.
    pub name: &'static str,
    /// Its fixtures.
    pub fixtures: Vec<Captured>,
    /// What every variant is compared to.
    pub base: Arc<SourceSet>,
}

/// One variant on one fixture.
pub struct Case<'a> {
    /// The family.
    pub family: &'a Family,
    /// The variant.
    pub variant: &'a Variant,
    /// The variant's sources.
    pub sources: &'a Arc<SourceSet>,
    /// The fixture.
    pub captured: &'a Captured,
}

impl Case<'_> {
    /// Its base and itself as trials of `lab`.
    pub fn trials(&self, lab: &Arc<Lab>) -> (Trial, Trial) {
        let trial = |sources| lab.trial(&self.captured.subject, sources);
        (trial(&self.family.base), trial(self.sources))
    }

    /// What the variant changes here, by `corpus.toml`.
    pub fn effect(&self) -> Effect {
        let here = self.captured.inputs.name;
        match self.variant {
            variant if variant.at.contains(here) => Effect::Mathematics,
            variant if variant.in_other_orders.contains(here) => Effect::OtherOrders,
            _ => Effect::Rounding,
        }
    }
}

impl std::fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{} on {}", self.family.name, self.variant.file, self.captured.inputs.name)
    }
}

/// Everything that is needed to replay the corpus.
pub struct Corpus {
    /// Replays, with a cache that outlives the test.
    pub lab: Arc<Lab>,
    /// The families.
    pub families: Vec<Family>,
    _fixtures: TempDir,
}

impl Corpus {
    /// Writes the fixtures of all families and opens the cache.
    pub fn new() -> Corpus {
        let fixtures = TempDir::new().expect("a temporary folder");
        let families = FAMILIES.map(|name| Family {
            name,
            fixtures: inputs::fixtures(name)
                .into_iter()
                .map(|inputs| capture(fixtures.path(), name, inputs))
                .collect(),
            base: source_set(name, "base.cu"),
        });
        let lab = lab(cpu(Limits::TIMEOUT, Threads::Lanes));
        Corpus { lab, families: families.into(), _fixtures: fixtures }
    }

    /// Calls `visit` for every variant for which `wanted` holds, on every fixture of its family.
    pub fn each(&self, wanted: impl Fn(&Variant) -> bool, visit: impl Fn(&Case) + Sync) {
        let work: Vec<(&Family, Variant)> = self
            .families
            .iter()
            .flat_map(|family| variants(family.name).into_iter().map(move |v| (family, v)))
            .filter(|(_, variant)| wanted(variant))
            .collect();
        let next = AtomicUsize::new(0);
        let take = || {
            while let Some((family, variant)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                let sources = &source_set(family.name, &variant.file);
                for captured in &family.fixtures {
                    visit(&Case { family, variant, sources, captured });
                }
            }
        };
        // Threads of their own: a judge may not be called by work that rayon schedules.
        std::thread::scope(|scope| {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            (0..threads).for_each(|_| drop(scope.spawn(take)));
        });
    }

    /// What `judge` says of every variant, against what it should say.
    pub fn confusion(
        &self,
        wanted: impl Fn(&Variant) -> bool,
        judge: impl Fn(&Arc<Lab>, &Case) -> Verdict + Sync,
    ) -> Confusion {
        let matrix = Mutex::new(Confusion::default());
        self.each(wanted, |case| {
            let verdict = judge(&self.lab, case);
            let case = (case.effect(), case.to_string());
            matrix.lock().expect("no judge panics").count(case.0, verdict, case.1);
        });
        matrix.into_inner().expect("no judge panics")
    }
}

fn capture(root: &Path, family: &str, inputs: Inputs) -> Captured {
    let dir = root.join(family).join(inputs.name);
    fs::create_dir_all(&dir).expect("a folder");
    inputs.write(&dir);
    let harness = folder(family).join("replay.toml");
    fs::write(dir.join("fixture.toml"), format!("harness = {:?}\n", harness.to_string_lossy()))
        .expect("a fixture.toml");
    let fixture = Fixture::load(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    Captured { inputs, subject: Subject::new(fixture).into() }
}
