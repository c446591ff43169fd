//! Problems as a fixture on disk, and its trials.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use replay::fixture::{Fixture, NewTensor, write_safetensors};
use replay::frontend::Threads;
use replay::history::{SourceSet, SourceSpec, source_set_from_dir};
use replay::tensor::DType;
use replay::trial::{Lab, Subject, Trial};
use replay::worker::Limits;
use tempfile::TempDir;

use super::{Change, Elements, Family, Output, Problem};
use crate::corpus::families;

/// The element types of the outputs.
pub const DTYPES: [DType; 3] = [DType::F32, DType::BF16, DType::F16];

/// The name of one problem's output in the harness.
pub fn name_of(output: &Output, dtype: DType, problem: usize) -> String {
    format!("{}_{}_{problem}", output.name, dtype.name())
}

/// Where trials are made: results are not remembered beyond the test.
pub struct Bench {
    lab: Arc<Lab>,
    folder: TempDir,
}

impl Bench {
    pub fn new() -> Bench {
        // Thousands of small files that are synchronised: in memory where there is such a folder.
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        let folder = folder.expect("a temporary folder");
        let cache = replay::cache::Cache::open(&folder.path().join("cache")).expect("a cache");
        let backend = Arc::new(families::cpu(Limits::TIMEOUT, Threads::Lanes));
        Bench { lab: Lab::new(backend, cache, true), folder }
    }
}

/// Problems of one family and size, in one call.
pub struct Batch<'b> {
    pub family: &'static Family,
    pub problems: Vec<Problem>,
    bench: &'b Bench,
    folder: PathBuf,
    sources: Arc<SourceSet>,
    /// Whether the harness declares gradients; for a single problem.
    gradients: bool,
}

impl Batch<'_> {
    /// A folder for `problems`, which have the same sizes. `id` is its name, given once.
    pub fn new<'b>(
        bench: &'b Bench,
        family: &'static Family,
        problems: Vec<Problem>,
        id: &str,
    ) -> Batch<'b> {
        let folder = bench.folder.path().join(format!("{}-{id}", family.name));
        Batch { family, problems, bench, folder, sources: sources(family), gradients: false }
    }

    /// The same with one problem, whose gradients are declared.
    pub fn with_gradients<'b>(
        bench: &'b Bench,
        family: &'static Family,
        problem: Problem,
        id: &str,
    ) -> Batch<'b> {
        Batch { gradients: true, ..Batch::new(bench, family, vec![problem], id) }
    }

    /// The trial of `change`. Its files go with [`Batch::clear`].
    pub fn trial(&self, change: &Change, id: usize) -> Trial {
        let folder = self.folder.join(id.to_string());
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("replay.toml"), self.harness()).expect("a harness");
        fs::write(folder.join("fixture.toml"), "harness = \"replay.toml\"\n").expect("a fixture");
        self.write_inputs(change, &folder);
        let fixture = Fixture::load(&folder);
        let fixture = fixture.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        self.bench.lab.trial(&Subject::new(fixture).into(), &self.sources)
    }

    /// Removes the files of all trials.
    pub fn clear(&self) {
        fs::remove_dir_all(&self.folder).expect("the folder can be removed");
    }

    fn write_inputs(&self, change: &Change, folder: &Path) {
        let sizes = &self.problems[0].sizes;
        let bytes: Vec<Vec<u8>> = (0..self.family.inputs.len())
            .map(|at| {
                let elements = self.family.inputs[at].elements;
                let values = self.problems.iter().flat_map(|problem| &problem.inputs[at]);
                values.flat_map(|&value| elements.bytes(value)).collect()
            })
            .collect();
        let shapes: Vec<Vec<usize>> = (self.family.inputs.iter())
            .map(|input| {
                let inner = input.shape.iter().map(|name| sizes.get(name));
                let outer = (!self.gradients).then_some(self.problems.len());
                outer.into_iter().chain(inner).collect()
            })
            .collect();
        let tensors = self.family.inputs.iter().zip(&shapes).zip(&bytes);
        let tensors =
            tensors.map(|((i, shape), bytes)| (i.name, i.elements.dtype(), &shape[..], &bytes[..]));
        let [form, site, row, column] =
            [change.form, change.site, change.row, change.column].map(i32::to_le_bytes);
        let factor = change.factor.to_le_bytes();
        let scalars: [NewTensor; 5] = [
            ("form", DType::I32, &[], &form),
            ("site", DType::I32, &[], &site),
            ("factor", DType::F64, &[], &factor),
            ("row", DType::I32, &[], &row),
            ("column", DType::I32, &[], &column),
        ];
        let tensors: Vec<NewTensor> = tensors.chain(scalars).collect();
        write_safetensors(folder, &tensors, &[]).expect("a fixture can be written");
    }

    fn harness(&self) -> String {
        let family = self.family;
        let list = |shape: &[&str]| format!("{shape:?}");
        let mut text = format!(
            "sources = [\"{}.cu\"]\ninclude = [\"include\"]\ncall = \"\"\"\n{}\"\"\"\n",
            family.name,
            self.call()
        );
        for (name, dtype) in
            [("form", "i32"), ("site", "i32"), ("factor", "f64"), ("row", "i32"), ("column", "i32")]
        {
            text += &format!("[inputs.{name}]\ndtype = \"{dtype}\"\nshape = []\n");
        }
        for input in family.inputs {
            let mut shape = input.shape.to_vec();
            if !self.gradients {
                shape.insert(0, "problems");
            }
            let name = input.name;
            let dtype = input.elements.dtype().name();
            text += &format!("[inputs.{name}]\ndtype = \"{dtype}\"\nshape = {}\n", list(&shape));
        }
        for (problem, dtype, output) in self.outputs() {
            let name = name_of(output, dtype, problem);
            let shape = list(output.shape);
            text += &format!("[outputs.{name}]\ndtype = \"{}\"\nshape = {shape}\n", dtype.name());
            if let (true, Some(gradient)) = (self.gradients, &output.gradient) {
                text += &format!(
                    "gradient_of = \"{}\"\nof = \"{}_{}_0\"\nupstream = \"{}\"\n",
                    gradient.input,
                    gradient.of,
                    dtype.name(),
                    gradient.upstream
                );
            }
        }
        text
    }

    /// A line for each problem and dtype.
    fn call(&self) -> String {
        let mut lines = String::new();
        for (problem, dtype) in self.calls() {
            let offset = |input: &super::Input| {
                let sizes = input.shape.join(" * ");
                format!("{} + {problem} * {sizes}", input.name)
            };
            let inputs = self.family.inputs.iter().map(offset);
            let outputs = self.family.outputs.iter().map(|o| name_of(o, dtype, problem));
            let sizes = self.family.sizes.iter().map(|&size| size.to_owned());
            let arguments: Vec<String> = inputs.chain(outputs).chain(sizes).collect();
            lines += &format!(
                "{}({{form, site, factor, row, column}}, {});\n",
                self.family.name,
                arguments.join(", ")
            );
        }
        lines
    }

    fn calls(&self) -> impl Iterator<Item = (usize, DType)> {
        let dtypes = if self.gradients { &DTYPES[..1] } else { &DTYPES[..] };
        let problems = 0..self.problems.len();
        problems.flat_map(move |problem| dtypes.iter().map(move |&dtype| (problem, dtype)))
    }

    /// All outputs, in the order of the harness.
    pub fn outputs(&self) -> impl Iterator<Item = (usize, DType, &'static Output)> {
        let outputs = self.family.outputs;
        let calls = self.calls();
        calls.flat_map(move |(problem, dtype)| outputs.iter().map(move |o| (problem, dtype, o)))
    }
}

impl Elements {
    fn dtype(self) -> DType {
        match self {
            Elements::Floats => DType::F32,
            Elements::Integers => DType::I32,
        }
    }

    fn bytes(self, value: f64) -> [u8; 4] {
        match self {
            Elements::Floats => (value as f32).to_le_bytes(),
            Elements::Integers => (value as i32).to_le_bytes(),
        }
    }
}

fn sources(family: &Family) -> Arc<SourceSet> {
    let spec = SourceSpec {
        sources: vec![format!("{}.cu", family.name).into()],
        include: vec!["include".into()],
        tree: Vec::new(),
        ..SourceSpec::default()
    };
    let folder = families::folder("sized").join("kernels");
    source_set_from_dir(&folder, &spec).expect("the sources of a family").into()
}
