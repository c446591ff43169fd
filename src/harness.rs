//! Reads `replay.toml`: how to call the kernels of one project, or the program to run them, for any
//! revision.
//!
//! Validates and resolves the content of the file; opens no repository and no tensor.
//! `docs/harness.md` describes the keys.

mod error;
mod gradients;
mod names;
mod paths;
mod program;
mod roles;
mod table;
mod text_spot;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use indexmap::{IndexMap, IndexSet};
use serde::{Deserialize, Serialize};

use self::paths::repository_path;
use crate::tensor::DType;

pub use error::HarnessError;
pub(crate) use paths::join_lexically;
pub use paths::{PathFault, SourcePath};
pub use program::ProgramSpec;
pub use roles::Role;
pub use table::TomlError;
pub(crate) use table::{
    Table, TomlDocument, TomlNumber, TomlValue, find_nearest_word, suggest_nearest_word,
};
pub use text_spot::TextSpot;
pub(crate) use text_spot::excerpt_line;

/// A validated `replay.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Harness {
    /// The file, as it was named when loading it.
    pub path: PathBuf,
    /// The repository or bundle; relative paths are resolved against the folder of the file.
    ///
    /// `None` means the repository around the file.
    pub repository: Option<PathBuf>,
    /// Files of a revision to compile; relative, inside the repository. Empty if a program
    /// runs the revision, and only then.
    pub sources: Vec<SourcePath>,
    /// Folders of a revision with headers; `.` is the root of the repository.
    pub include: Vec<SourcePath>,
    /// The folder of stand-in headers outside of the revisions, searched before `include`; resolved
    /// against the folder of the file.
    pub overlay: Option<PathBuf>,
    /// Macros, as `NAME` or `NAME=VALUE`.
    pub defines: Vec<String>,
    /// Macros of the compiler or of the runtime's headers to hide from the sources.
    pub undefine: Vec<String>,
    /// Sizes given by number in a fixture.
    pub sizes: Vec<String>,
    /// The tensors of a fixture, in the order of the file.
    pub inputs: IndexMap<String, InputSpec>,
    /// The tensors written by `call`, in the order of the file; never empty.
    pub outputs: IndexMap<String, OutputSpec>,
    /// The calls. A revision uses the first one to compile. Empty if a program runs the
    /// revision, and only then.
    pub calls: Vec<Call>,
    /// Statements before the call; the call sees their declarations.
    pub setup: Option<Call>,
    /// The program to run a revision, if it is not compiled and called here.
    pub program: Option<ProgramSpec>,
    /// The roles of tensors in a step of a training, by name, where the file gives them.
    #[serde(default)]
    pub roles: IndexMap<String, Role>,
}

/// CUDA C++ statements, and where they stand in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The statements.
    pub text: String,
    /// The line of their begin, from 1.
    pub line: usize,
    /// The column of their begin, in characters, from 1.
    pub column: usize,
    /// The lines of the file from there on, whole.
    pub written: String,
}

/// How many elements a dimension has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Extent {
    /// A number in the harness.
    Fixed(usize),
    /// The size of this name, equal in all of the fixture's tensors.
    Named(String),
}

/// A declared input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputSpec {
    /// The element type in `call`.
    pub dtype: DType,
    /// The dimensions, outermost first; empty for a C++ scalar.
    pub shape: Vec<Extent>,
    /// Whether a fixture may leave it out. `call` then sees a null pointer.
    pub optional: bool,
}

/// A declared output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputSpec {
    /// The element type written by `call`.
    pub dtype: DType,
    /// The dimensions, outermost first; empty for a C++ scalar.
    pub shape: Vec<Extent>,
    /// The input of the gradient.
    pub gradient_of: Option<String>,
    /// The differentiated output.
    ///
    /// Set where `gradient_of` is, unless the harness declares no loss to differentiate.
    pub of: Option<String>,
    /// The input with the gradient flowing into `of`; absent means one.
    pub upstream: Option<String>,
    /// Whether elements may be NaN or infinite though all inputs are finite.
    pub non_finite: bool,
    /// Its content before the call; none if the call writes all of it.
    pub init: Option<Init>,
}

/// The content of an output before the call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Init {
    Zero,
    /// A copy of this input.
    Copy(String),
}

impl Harness {
    /// Reads and validates the harness at `path`.
    ///
    /// # Errors
    /// [`HarnessError`]. It names the file, the key and the line.
    pub fn load(path: &Path) -> Result<Harness, HarnessError> {
        Harness::parse(&TomlDocument::read(path)?, path)
    }

    /// Validates `text` as the content of the harness at `path`. Does not read the file.
    ///
    /// # Errors
    /// [`HarnessError`]. It names the file, the key and the line.
    pub fn parse(text: &str, path: &Path) -> Result<Harness, HarnessError> {
        let document = TomlDocument { path, text };
        let parsed = document.parse()?;
        let root = document.root(&parsed);
        let known_keys: Vec<&str> =
            ["repository", "sizes", "inputs", "outputs", "program", "roles"]
                .into_iter()
                .chain(program::KERNEL_KEYS)
                .chain(program::KEYS)
                .collect();
        root.only(&known_keys)?;
        let program = program::parse_program_spec(&root)?;
        let sources = parse_source_paths(&root, "sources")?;
        if sources.is_empty() && program.is_none() {
            let key = root.require("sources")?;
            return Err(empty_call_error(&key));
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut harness = Harness {
            path: path.to_owned(),
            repository: root.string("repository")?.map(|path| join_lexically(folder, &path)),
            sources,
            include: parse_source_paths(&root, "include")?,
            overlay: parse_overlay_path(&root, folder)?,
            defines: parse_macro_defines(&root)?,
            undefine: parse_macro_undefines(&root)?,
            sizes: parse_size_names(&root)?,
            inputs: parse_tensor_specs(&root, "inputs", |name, table| {
                parse_input_spec(name, table, program.is_some())
            })?,
            outputs: parse_tensor_specs(&root, "outputs", parse_output_spec)?,
            calls: match &program {
                None => parse_harness_calls(&root.require("call")?)?,
                Some(_) => Vec::new(),
            },
            setup: root.get("setup").map(|value| parse_harness_call(&value)).transpose()?,
            program,
            roles: IndexMap::new(),
        };
        if harness.outputs.is_empty() {
            return Err(root
                .require("outputs")
                .map_or_else(Into::into, |value| empty_call_error(&value)));
        }
        let spot = |name: &str| locate_tensor_declaration(&root, name);
        harness.check_names(&spot)?;
        gradients::resolve_gradients(&mut harness, &spot)?;
        harness.check_inits(&spot)?;
        harness.roles = roles::parse_tensor_roles(&root, &harness)?;
        Ok(harness)
    }

    /// The loss: the scalar float output called `loss`, or else the only one besides gradients.
    pub fn loss(&self) -> Option<String> {
        gradients::find_loss_output(self)
    }

    /// The names of sizes, in the order of the inputs' shapes, then the others.
    pub(crate) fn size_names(&self) -> impl Iterator<Item = &str> {
        let mut seen_names = indexmap::IndexSet::new();
        for spec in self.inputs.values() {
            seen_names.extend(named_extents(&spec.shape));
        }
        seen_names.extend(self.sizes.iter().map(String::as_str));
        seen_names.into_iter()
    }

    /// The outputs with zeros or an input before the call.
    pub fn filled(&self) -> impl Iterator<Item = &str> {
        let filled = self.outputs.iter().filter(|(_, output)| output.init.is_some());
        filled.map(|(name, _)| name.as_str())
    }

    /// Refuses outputs with an impossible `init`.
    fn check_inits(&self, spot: &dyn Fn(&str) -> Box<TextSpot>) -> Result<(), HarnessError> {
        for (output, spec) in &self.outputs {
            let Some(init) = &spec.init else { continue };
            if let Some((problem, nearest)) = self.init_problem(spec, init) {
                let spot = spot(output);
                let output = output.clone();
                return Err(HarnessError::Init { spot, output, problem, nearest });
            }
        }
        Ok(())
    }

    /// Why an output of `spec` cannot begin as `init`, and a similar name.
    fn init_problem(&self, spec: &OutputSpec, init: &Init) -> Option<(String, Option<String>)> {
        if self.program.is_some() {
            return Some(("is for kernels, and this harness has a `program`".to_owned(), None));
        }
        let Init::Copy(name) = init else { return None };
        let Some(input) = self.inputs.get(name) else {
            let nearest = find_nearest_word(name, self.inputs.keys().map(String::as_str));
            return Some((format!("names `{name}`, which is no input"), nearest));
        };
        if input.optional {
            return Some((format!("names `{name}`, which is optional"), None));
        }
        if (input.dtype, &input.shape) != (spec.dtype, &spec.shape) {
            return Some((format!("names `{name}`, which has another dtype or shape"), None));
        }
        None
    }

    /// Refuses doubled names and output sizes without an input. `spot` returns the
    /// place of a tensor's declaration.
    fn check_names(&self, spot: &dyn Fn(&str) -> Box<TextSpot>) -> Result<(), HarnessError> {
        let sizes: HashSet<&str> = self.size_names().collect();
        for (output, spec) in &self.outputs {
            if self.inputs.contains_key(output) {
                let spot = spot(output);
                let name = output.clone();
                let first = "an input";
                return Err(HarnessError::Clash { spot, name, first, second: "an output" });
            }
            if let Some(size) = named_extents(&spec.shape).find(|size| !sizes.contains(size)) {
                return Err(HarnessError::UnknownSize {
                    spot: spot(output),
                    output: output.clone(),
                    size: size.to_owned(),
                    nearest: find_nearest_word(size, self.size_names()),
                });
            }
        }
        for size in self.size_names() {
            if self.inputs.contains_key(size) || self.outputs.contains_key(size) {
                let spot = spot(size);
                let name = size.to_owned();
                let first = "a tensor";
                return Err(HarnessError::Clash { spot, name, first, second: "a size" });
            }
        }
        let names = self.inputs.keys().chain(self.outputs.keys()).map(String::as_str);
        for name in names.chain(self.size_names()) {
            let base = name.strip_suffix("_stride").unwrap_or("");
            if self.inputs.contains_key(base) {
                return Err(HarnessError::Clash {
                    spot: spot(base),
                    name: name.to_owned(),
                    first: "a tensor or a size",
                    second: "the strides of an input",
                });
            }
        }
        Ok(())
    }
}

/// Where the tensor `name` is declared.
fn locate_tensor_declaration(root: &Table<'_>, name: &str) -> Box<TextSpot> {
    let tables = ["outputs", "inputs"].into_iter().filter_map(|kind| root.get(kind)?.table().ok());
    let declared_spot = tables.filter_map(|table| Some(table.get(name)?.key_spot())).next();
    declared_spot.unwrap_or_else(|| root.document.spot(0..0))
}

/// The names among the extents of a shape.
fn named_extents(shape: &[Extent]) -> impl Iterator<Item = &str> {
    shape.iter().filter_map(|extent| match extent {
        Extent::Named(name) => Some(name.as_str()),
        Extent::Fixed(_) => None,
    })
}

/// The tables under `name`, read by `read_spec`, in the order of the file.
fn parse_tensor_specs<T>(
    root: &Table<'_>,
    name: &str,
    read_spec: impl Fn(&str, &Table<'_>) -> Result<T, HarnessError>,
) -> Result<IndexMap<String, T>, HarnessError> {
    let Some(value) = root.get(name) else { return Ok(IndexMap::new()) };
    value
        .table()?
        .entries()
        .map(|entry| {
            check_name(&entry, entry.name)?;
            Ok((entry.name.to_owned(), read_spec(entry.name, &entry.table()?)?))
        })
        .collect()
}

/// An input. A scalar can be absent for a program, not for a call of C++.
fn parse_input_spec(
    name: &str,
    table: &Table<'_>,
    program: bool,
) -> Result<InputSpec, HarnessError> {
    table.only(&["dtype", "shape", "optional"])?;
    let spec = InputSpec {
        dtype: parse_tensor_dtype(name, table)?,
        shape: parse_tensor_shape(table)?,
        optional: parse_flag_key(table, "optional")?,
    };
    if spec.optional && spec.shape.is_empty() && !program {
        let spot = table.spot().unwrap_or_else(|| table.document.spot(0..0));
        return Err(HarnessError::OptionalScalar { spot, input: name.to_owned() });
    }
    Ok(spec)
}

fn parse_output_spec(name: &str, table: &Table<'_>) -> Result<OutputSpec, HarnessError> {
    table.only(&["dtype", "shape", "gradient_of", "of", "upstream", "non_finite", "init"])?;
    Ok(OutputSpec {
        dtype: parse_tensor_dtype(name, table)?,
        shape: parse_tensor_shape(table)?,
        gradient_of: table.string("gradient_of")?,
        of: table.string("of")?,
        upstream: table.string("upstream")?,
        non_finite: parse_flag_key(table, "non_finite")?,
        init: table.get("init").map(|value| parse_output_init(&value)).transpose()?,
    })
}

fn parse_output_init(value: &TomlValue<'_>) -> Result<Init, HarnessError> {
    if value.is_string() {
        return Ok(Init::Copy(value.string()?));
    }
    match value.count() {
        Ok(0) => Ok(Init::Zero),
        _ => Err(value.wrong_type("0 or the name of an input").into()),
    }
}

/// The boolean at `key`; false where it is absent.
fn parse_flag_key(table: &Table<'_>, key: &str) -> Result<bool, HarnessError> {
    Ok(table.get(key).map(|value| value.boolean()).transpose()?.unwrap_or(false))
}

fn parse_tensor_dtype(tensor: &str, table: &Table<'_>) -> Result<DType, HarnessError> {
    let value = table.require("dtype")?;
    let name = value.string()?;
    DType::parse(&name).ok_or_else(|| HarnessError::UnknownDtype {
        spot: value.spot(),
        tensor: tensor.to_owned(),
        nearest: meant_dtype(&name),
        dtype: name,
    })
}

/// The dtype meant by another library's name or a misspelling.
fn meant_dtype(name: &str) -> Option<String> {
    let bare_name = name.strip_prefix("torch.").unwrap_or(name);
    let dtype_name = match bare_name {
        "double" => "f64",
        "float" => "f32",
        "half" | "__half" => "f16",
        "__nv_bfloat16" => "bf16",
        "long" => "i64",
        "int" => "i32",
        "short" => "i16",
        "char" => "i8",
        "boolean" => "bool",
        _ => {
            let short_name = bare_name
                .replace("bfloat", "bf")
                .replace("float", "f")
                .replace("uint", "u")
                .replace("int", "i");
            return DType::parse(&short_name)
                .map(|dtype| dtype.name().to_owned())
                .or_else(|| find_nearest_word(name, DType::ALL.iter().map(|dtype| dtype.name())));
        }
    };
    Some(dtype_name.to_owned())
}

fn parse_tensor_shape(table: &Table<'_>) -> Result<Vec<Extent>, HarnessError> {
    const EXPECTED: &str = "a list of size names and integers";
    table.require("shape")?.list(EXPECTED)?.iter().map(parse_extent).collect()
}

fn parse_extent(item: &TomlValue<'_>) -> Result<Extent, HarnessError> {
    if item.is_string() {
        let name = item.string()?;
        check_name(item, &name)?;
        return Ok(Extent::Named(name));
    }
    match item.count()? {
        size if isize::try_from(size).is_err() => {
            Err(HarnessError::HugeExtent { spot: item.spot(), size })
        }
        size => Ok(Extent::Fixed(size)),
    }
}

fn check_name(value: &TomlValue<'_>, name: &str) -> Result<(), HarnessError> {
    let Some(reason) = names::name_objection(name) else { return Ok(()) };
    Err(HarnessError::BadName { spot: value.key_spot(), name: name.to_owned(), reason })
}

/// The paths at `key`. A list in the place of a path holds its names at different revisions.
fn parse_source_paths(root: &Table<'_>, key: &str) -> Result<Vec<SourcePath>, HarnessError> {
    const EXPECTED: &str = "a list of strings";
    let Some(list) = root.get(key) else { return Ok(Vec::new()) };
    let mut met = IndexSet::new();
    let mut paths = Vec::new();
    for item in list.list(EXPECTED)? {
        if !item.is_list() {
            paths.push(SourcePath::from(parse_source_path(&item, key, &mut met)?));
            continue;
        }
        let names = item.list(EXPECTED)?;
        let [first, other_names @ ..] = names.as_slice() else {
            return Err(empty_call_error(&item));
        };
        let mut path = SourcePath::from(parse_source_path(first, key, &mut met)?);
        for other_name in other_names {
            path = path.or(parse_source_path(other_name, key, &mut met)?);
        }
        paths.push(path);
    }
    Ok(paths)
}

/// A path in the list at `key`, unless it was `met` before.
fn parse_source_path(
    item: &TomlValue<'_>,
    key: &str,
    met: &mut IndexSet<String>,
) -> Result<String, HarnessError> {
    let value = item.string()?;
    let fault = match repository_path(&value, key != "sources") {
        Ok(path) if met.insert(path.clone()) => return Ok(path),
        Ok(_) => PathFault::Twice,
        Err(fault) => fault,
    };
    let value = escape_control_characters(&value);
    Err(HarnessError::BadPath { spot: item.spot(), key: key.to_owned(), value, reason: fault })
}

/// `text` with control characters as they are escaped.
fn escape_control_characters(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

fn parse_macro_defines(root: &Table<'_>) -> Result<Vec<String>, HarnessError> {
    root.strings("defines")?.iter().map(parse_macro_define).collect()
}

fn parse_macro_define(item: &TomlValue<'_>) -> Result<String, HarnessError> {
    let value = item.string()?;
    let name = value.split(['=', '(']).next().unwrap_or("");
    if names::is_identifier(name) && !value.contains(['\n', '\r', '\0']) {
        return Ok(value);
    }
    Err(HarnessError::BadDefine { spot: item.spot(), value: escape_control_characters(&value) })
}

fn parse_overlay_path(root: &Table<'_>, folder: &Path) -> Result<Option<PathBuf>, HarnessError> {
    let Some(value) = root.get("overlay") else { return Ok(None) };
    let path = value.string()?;
    let reason = match () {
        () if path.is_empty() => PathFault::Empty,
        () if path.contains(char::is_control) => PathFault::Control,
        () => return Ok(Some(join_lexically(folder, path))),
    };
    let spot = value.spot();
    let key = "overlay".to_owned();
    Err(HarnessError::BadPath { spot, key, value: escape_control_characters(&path), reason })
}

fn parse_size_names(root: &Table<'_>) -> Result<Vec<String>, HarnessError> {
    let mut size_names: Vec<String> = Vec::new();
    for item in root.strings("sizes")? {
        let name = item.string()?;
        check_name(&item, &name)?;
        if size_names.contains(&name) {
            let spot = item.spot();
            let kind = "a size";
            return Err(HarnessError::Clash { spot, name, first: kind, second: "another size" });
        }
        size_names.push(name);
    }
    Ok(size_names)
}

fn parse_macro_undefines(root: &Table<'_>) -> Result<Vec<String>, HarnessError> {
    root.strings("undefine")?.iter().map(parse_macro_undefine).collect()
}

fn parse_macro_undefine(item: &TomlValue<'_>) -> Result<String, HarnessError> {
    let value = item.string()?;
    if names::is_identifier(&value) {
        return Ok(value);
    }
    Err(HarnessError::BadUndefine { spot: item.spot(), value: escape_control_characters(&value) })
}

fn parse_harness_calls(value: &TomlValue<'_>) -> Result<Vec<Call>, HarnessError> {
    const EXPECTED: &str = "a string or a list of strings";
    if !value.is_string() && !value.is_list() {
        return Err(value.wrong_type(EXPECTED).into());
    }
    if value.is_string() {
        return Ok(vec![parse_harness_call(value)?]);
    }
    let items = value.list(EXPECTED)?;
    if items.is_empty() {
        return Err(empty_call_error(value));
    }
    items.iter().map(parse_harness_call).collect()
}

fn parse_harness_call(value: &TomlValue<'_>) -> Result<Call, HarnessError> {
    let text = value.string()?;
    if text.trim().is_empty() {
        return Err(empty_call_error(value));
    }
    let spot = value.spot();
    let written_value = value.written();
    let quotes = ["\"\"\"", "'''"].into_iter().find(|quotes| written_value.starts_with(quotes));
    // A line break right behind three quotes is not part of the text.
    let starts_below = quotes.is_some() && written_value[3..].starts_with(['\n', '\r']);
    let (line, column) = match (starts_below, quotes) {
        (true, _) => (spot.line + 1, 1),
        (false, quotes) => (spot.line, spot.column + quotes.map_or(1, str::len)),
    };
    let lines = value.lines();
    let written_lines =
        if starts_below { lines.split_once('\n').map_or("", |(_, rest)| rest) } else { lines };
    Ok(Call { text, line, column, written: written_lines.to_owned() })
}

fn empty_call_error(value: &TomlValue<'_>) -> HarnessError {
    HarnessError::Empty { spot: value.spot(), key: value.key.clone() }
}

#[cfg(test)]
mod tests;
