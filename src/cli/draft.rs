//! Drafts a `replay.toml` from the functions of a CUDA source. Pure: text in, text out. What a
//! signature and a body cannot tell is guessed and marked.

mod allocated;
mod conditions;
mod launch;
mod roles;
mod shapes;
mod types;

use std::fmt::Write;

use ::replay::frontend::{Parameter, Signature};
use ::replay::tensor::DType;
use indexmap::IndexMap;

use allocated::Allocated;
pub use conditions::kept;
use launch::statement;
pub use roles::Project;
use roles::{Begin, Extent, Role, is_choice};
use shapes::Scene;
pub use types::Types;

/// The mark behind every guess.
pub const MARK: &str = "# EDIT";

/// The content of one `replay.toml`.
#[derive(Debug, Default)]
pub struct Draft {
    /// Sizes that the functions take, in the order in which they take them.
    sizes: Vec<String>,
    /// Tensors and scalars that are read.
    pub inputs: IndexMap<String, Tensor>,
    /// Tensors and scalars that are written.
    pub outputs: IndexMap<String, Tensor>,
    /// One statement for each function.
    pub calls: Vec<String>,
    /// The functions that are called.
    pub functions: Vec<String>,
    /// Why they are not called together with those of the previous draft.
    pub apart: Option<String>,
    /// Statements before the calls.
    setup: Vec<String>,
    /// Which function named a size, an input or an output first.
    owners: IndexMap<String, String>,
}

/// A tensor, as far as a parameter tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// None where the type's name is the project's own.
    dtype: Option<DType>,
    /// The names and numbers of its shape; empty for a scalar.
    shape: Vec<String>,
    /// What it holds before the call, if it is an output.
    begin: Begin,
    /// Whether an infinity is written to it.
    infinite: bool,
}

impl Tensor {
    /// Whether it has no dimensions.
    pub fn is_scalar(&self) -> bool {
        self.shape.is_empty()
    }

    fn is_float(&self) -> bool {
        self.dtype.is_none_or(DType::is_float)
    }
}

/// A parameter as the draft has it: the argument, what it stands for, and a guess to be checked.
struct Drafted {
    argument: String,
    entry: Entry,
    guess: Option<String>,
}

/// What a parameter adds to a draft.
#[derive(Clone)]
enum Entry {
    Size(String),
    Input(String, Tensor),
    Output(String, Tensor),
    Nothing,
}

impl Draft {
    /// Drafts that call every one of `functions`. Versions of one function share a draft, and so do functions
    /// of one loss or operator that use names alike.
    pub fn all(functions: &[&Signature], project: &Project) -> Vec<Draft> {
        let mut drafts: Vec<Draft> = Vec::new();
        for function in functions {
            let mut clash = None;
            let related = |draft: &&mut Draft| draft.is_related(&function.name);
            let taken =
                drafts.iter_mut().filter(related).any(|draft| match draft.add(function, project) {
                    Ok(()) => true,
                    Err(why) => {
                        clash.get_or_insert(why);
                        false
                    }
                });
            if !taken {
                let mut draft = Draft { apart: clash, ..Draft::default() };
                // Parameters of one function have different names.
                let _ = draft.add(function, project);
                drafts.push(draft);
            }
        }
        drafts
    }

    /// Whether the function `name` belongs to those that are called.
    fn is_related(&self, name: &str) -> bool {
        let (numbered, first) = (version(name), &self.functions[0]);
        match (numbered, version(first)) {
            (Some((stem, _)), Some((other, _))) => stem == other,
            (None, None) => operator(name) == operator(first),
            _ => false,
        }
    }

    /// Calls `function` too, or says which of its names stands for something else already.
    fn add(&mut self, function: &Signature, project: &Project) -> Result<(), String> {
        let drafted = drafted(function, project);
        for Drafted { entry, .. } in &drafted {
            self.check(entry, &function.name)?;
        }
        for name in project.preparations().filter(|_| !function.kernel) {
            self.set_up(&format!("{name}();"));
        }
        let mut arguments = Vec::new();
        let mut guesses = Vec::new();
        let mut sizes = Vec::new();
        for Drafted { argument, entry, guess } in drafted {
            match argument.as_str() {
                "handle" => self.set_up("cublasHandle_t handle; cublasCreate(&handle);"),
                "lt_handle" => {
                    self.set_up("cublasLtHandle_t lt_handle; cublasLtCreate(&lt_handle);")
                }
                _ => {}
            }
            arguments.push(argument);
            guesses.extend(guess);
            if let Entry::Size(name) = &entry {
                sizes.push(name.clone());
            }
            self.take(entry, &function.name);
        }
        self.prepare(function, project);
        let result = self.result(function, project);
        let arguments = arguments.join(", ");
        let text = statement(function, &arguments, &sizes, result.as_deref(), &guesses);
        self.calls.push(text);
        self.functions.push(function.name.clone());
        Ok(())
    }

    /// Does before the call what `main` does before it calls `function`.
    fn prepare(&mut self, function: &Signature, project: &Project) {
        if function.kernel {
            return;
        }
        let tensors = self.inputs.values().chain(self.outputs.values());
        let shapes = tensors.flat_map(|tensor| &tensor.shape);
        let sizes: Vec<String> = self.sizes.iter().chain(shapes).cloned().collect();
        let runs = |other: &&Signature| other.launches || other.kernel || dispatches(other);
        let calls = |word: &str| {
            let mut named = project.functions.iter().filter(|other| other.name == word);
            word == function.name || word != "main" && named.any(runs)
        };
        let taken = |name: &str| self.inputs.contains_key(name) || self.outputs.contains_key(name);
        let prepared = project.program.prepares(calls, &sizes, taken);
        for statement in prepared.into_iter().map(str::to_owned).collect::<Vec<_>>() {
            self.set_up(&statement);
        }
    }

    fn set_up(&mut self, statements: &str) {
        if !self.setup.iter().any(|known| known == statements) {
            self.setup.push(statements.to_owned());
        }
    }

    fn take(&mut self, entry: Entry, function: &str) {
        let (Entry::Size(name) | Entry::Input(name, _) | Entry::Output(name, _)) = &entry else {
            return;
        };
        self.owners.entry(name.clone()).or_insert_with(|| function.to_owned());
        match entry {
            Entry::Size(name) if !self.sizes.contains(&name) => self.sizes.push(name),
            Entry::Input(name, tensor) => _ = self.inputs.insert(name, tensor),
            Entry::Output(name, tensor) => {
                if tensor.begin == Begin::Copy {
                    self.inputs.insert(before(&name), tensor.clone());
                }
                self.outputs.insert(name, tensor);
            }
            _ => {}
        }
    }

    /// Refuses `entry` of `function` if its name stands for something else.
    fn check(&self, entry: &Entry, function: &str) -> Result<(), String> {
        let (Entry::Size(name) | Entry::Input(name, _) | Entry::Output(name, _)) = entry else {
            return Ok(());
        };
        let (input, output) = (self.inputs.get(name), self.outputs.get(name));
        let size = self.sizes.iter().any(|size| size == name);
        let known = match (size, input, output) {
            (true, ..) => "a size",
            (_, Some(_), _) => "an input",
            (_, _, Some(_)) => "an output",
            _ => return Ok(()),
        };
        let (own, same) = match entry {
            Entry::Size(_) => ("a size", size),
            Entry::Input(_, tensor) => ("an input", input == Some(tensor)),
            Entry::Output(_, tensor) => ("an output", output == Some(tensor)),
            Entry::Nothing => return Ok(()),
        };
        if same {
            return Ok(());
        }
        let owner = self.owners.get(name).map_or("another function", String::as_str);
        let of = if own == known { " of another type or shape" } else { "" };
        Err(format!("`{name}` is {known} of {owner} and {own}{of} of {function}"))
    }

    /// The output that takes what `function` returns.
    fn result(&mut self, function: &Signature, project: &Project) -> Option<String> {
        let dtype = project.types.dtype(&function.returns).filter(|dtype| dtype.is_float())?;
        let name = if function.name.contains("loss") { "loss" } else { &function.name };
        let taken = self.inputs.contains_key(name) || self.outputs.contains_key(name);
        let name = match taken || name == function.name {
            true => format!("{name}_result"),
            false => name.to_owned(),
        };
        let (shape, begin) = (Vec::new(), Begin::Anything);
        let tensor = Tensor { dtype: Some(dtype), shape, begin, infinite: false };
        self.outputs.insert(name.clone(), tensor);
        Some(name)
    }

    /// The text of `replay.toml`.
    pub fn text(&self, source: &str, include: &[String]) -> String {
        let mut text = format!(
            "# How to call the kernels of {source}, whatever the revision. A draft by `replay init`:\n\
             # what is marked EDIT was guessed from names and has to be checked.\n\
             sources = [{}]\n\
             include = [{}]\n",
            quoted(source),
            include.iter().map(|folder| quoted(folder)).collect::<Vec<_>>().join(", ")
        );
        let sizes = self.sizes_by_number();
        if !sizes.is_empty() {
            let _ = writeln!(text, "sizes = {sizes:?}");
        }
        if !self.setup.is_empty() {
            let _ = writeln!(text, "setup = {:?}", self.setup.join(" "));
        }
        text.push_str("call = \"\"\"\n");
        text.push_str(&self.call());
        text.push_str("\"\"\"\n");
        self.tables(&mut text);
        text
    }

    /// The statements: one after the other, or the one that the scalar `kernel` chooses.
    fn call(&self) -> String {
        if !self.chooses() {
            return self.calls.iter().map(|call| format!("{call}\n")).collect();
        }
        let mut text = format!("switch ({CHOICE}) {{\n");
        for (call, function) in self.calls.iter().zip(&self.functions) {
            let number = version(function).map_or(0, |(_, number)| number);
            let _ = writeln!(text, "case {number}: {}", call.replacen("; //", "; break; //", 1));
            if !call.contains("; //") {
                text.truncate(text.len() - 1);
                text.push_str(" break;\n");
            }
        }
        text.push_str("}\n");
        text
    }

    /// Whether the calls are versions of one function, of which a scalar chooses one.
    fn chooses(&self) -> bool {
        self.functions.len() > 1 && version(&self.functions[0]).is_some()
    }

    fn tables(&self, text: &mut String) {
        if self.chooses() {
            let numbers = self.functions.iter().filter_map(|name| version(name));
            let numbers: Vec<String> = numbers.map(|(_, number)| number.to_string()).collect();
            let _ = writeln!(text, "\n[inputs.{CHOICE}] # {}", numbers.join(", "));
            text.push_str("dtype = \"i32\"\nshape = []\n");
        }
        for (name, tensor) in &self.inputs {
            table(text, "inputs", name, tensor);
            if name.contains("mask") && !tensor.is_scalar() {
                let _ = writeln!(text, "optional = true {MARK}: may `call` take a null pointer?");
            }
        }
        // A returned scalar comes first, for the others are its gradients.
        let (scalars, arrays): (Vec<_>, Vec<_>) =
            self.outputs.iter().partition(|(_, tensor)| tensor.is_scalar());
        for (name, tensor) in scalars.into_iter().chain(arrays) {
            table(text, "outputs", name, tensor);
            match tensor.begin {
                Begin::Anything => {}
                Begin::Undecided => {
                    let _ =
                        writeln!(text, "# init = 0 {MARK}: if the call need not write all of it");
                }
                Begin::Zeros => {
                    let _ =
                        writeln!(text, "init = 0 {MARK}: the call adds to it, or leaves it alone");
                }
                Begin::Copy => _ = writeln!(text, "init = {:?}", before(name)),
            }
            if tensor.infinite {
                let _ = writeln!(text, "non_finite = true {MARK}: an infinity is written");
            }
            if let Some(of) = self.gradient_of(name, tensor) {
                let _ = writeln!(text, "gradient_of = {of:?} {MARK}");
            }
        }
    }

    /// The sizes that no input's shape tells.
    pub fn sizes_by_number(&self) -> Vec<&str> {
        let shapes = self.inputs.values().flat_map(|tensor| &tensor.shape);
        let outputs = self.outputs.values().flat_map(|tensor| &tensor.shape);
        let is_name = |size: &&String| !size.starts_with(|c: char| c.is_ascii_digit());
        let told: Vec<&String> = shapes.collect();
        let mut sizes: Vec<&str> = Vec::new();
        for size in self.sizes.iter().chain(outputs.filter(is_name)) {
            if !told.contains(&size) && !sizes.contains(&size.as_str()) {
                sizes.push(size);
            }
        }
        sizes
    }

    /// The scalars that a fixture may give by number.
    pub fn scalars(&self) -> Vec<&str> {
        let choice = self.chooses().then_some(CHOICE);
        let scalars = self.inputs.iter().filter(|(_, tensor)| tensor.is_scalar());
        choice.into_iter().chain(scalars.map(|(name, _)| name.as_str())).collect()
    }

    /// `logits` for `grad_logits`, `dlogits` and the like.
    fn gradient_of(&self, name: &str, tensor: &Tensor) -> Option<&str> {
        let bare = ["grad_", "d_", "d"].iter().filter_map(|prefix| name.strip_prefix(prefix));
        let mut bare = bare.chain(name.strip_suffix("_grad"));
        bare.find_map(|bare| {
            let (of, input) = self.inputs.get_key_value(bare)?;
            let alike = (input.dtype, &input.shape) == (tensor.dtype, &tensor.shape);
            (alike && !input.is_scalar() && input.is_float()).then_some(of.as_str())
        })
    }
}

/// The scalar that chooses among versions of a function.
const CHOICE: &str = "kernel";

/// The input that holds what the output `name` begins as.
fn before(name: &str) -> String {
    format!("{name}_before")
}

/// `softmax_forward` and 3 of `softmax_forward3`, `softmax_forward_v3` or `softmax_forward_kernel3`.
fn version(name: &str) -> Option<(&str, u32)> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name[stem.len()..].parse().ok()?;
    let bare = stem.strip_suffix("_v").or_else(|| stem.strip_suffix('_')).unwrap_or(stem);
    (!bare.is_empty()).then_some((bare, number))
}

/// What a function computes, without the direction.
fn operator(name: &str) -> String {
    let words =
        ["forward", "backward", "fwd", "bwd", "loss", "grad", "gradient", "kernel", "launch"];
    let kept = name.split('_').filter(|word| !words.contains(word));
    kept.collect::<Vec<_>>().join("_")
}

/// The parameters of `function` as a draft has them.
fn drafted(function: &Signature, project: &Project) -> Vec<Drafted> {
    let roles: Vec<Role> =
        function.parameters.iter().map(|parameter| project.role(function, parameter)).collect();
    let names: Vec<String> = function.parameters.iter().enumerate().map(name).collect();
    let named = |wanted: fn(&Role) -> bool| {
        let both = names.iter().zip(&roles);
        both.filter(|(_, role)| wanted(role)).map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let sizes = named(|role| matches!(role, Role::Size));
    let tensors = named(|role| matches!(role, Role::Input(..) | Role::Output(..)));
    let scene = Scene { sizes: &sizes, function: &function.name, tensors: &tensors };
    let allocated = Allocated { passed: &project.passed(function), names: &names, sizes: &sizes };
    let places = function.parameters.iter().zip(&names).zip(roles).enumerate();
    let drafted = places.map(|(place, ((parameter, name), role))| {
        let told = allocated.shape(place);
        let mut drafted = one(name.clone(), role, &scene, told);
        if let Entry::Output(_, tensor) = &mut drafted.entry {
            tensor.infinite = project.writes_infinity(&parameter.uses);
        }
        drafted
    });
    drafted.collect()
}

/// `told` is the shape that an allocation tells.
fn one(name: String, role: Role, scene: &Scene, told: Option<Vec<String>>) -> Drafted {
    let plain = |argument: String, entry| Drafted { argument, entry, guess: None };
    match role {
        Role::Size => plain(name.clone(), Entry::Size(name)),
        Role::Scalar(dtype) => {
            let tensor = Tensor {
                dtype: Some(dtype),
                shape: Vec::new(),
                begin: Begin::Anything,
                infinite: false,
            };
            plain(name.clone(), Entry::Input(name, tensor))
        }
        Role::Literal(text, guessed) => match text.as_str() {
            "cublasHandle_t" => plain("handle".to_owned(), Entry::Nothing),
            "cublasLtHandle_t" => plain("lt_handle".to_owned(), Entry::Nothing),
            _ => {
                let guess = guessed.then(|| format!("{text} for {name}"));
                Drafted { argument: text, entry: Entry::Nothing, guess }
            }
        },
        Role::Input(element, extent) => {
            let (shape, _) = shape(&name, &element, extent, scene, told, false);
            let argument = cast(&name, element.cast.as_deref(), "const ");
            let begin = Begin::Anything;
            let tensor = Tensor { dtype: element.dtype, shape, begin, infinite: false };
            plain(argument, Entry::Input(name, tensor))
        }
        Role::Output(element, extent, begin) => {
            let (shape, certain) = shape(&name, &element, extent, scene, told, true);
            let begin = match begin {
                Begin::Anything if !certain || scene.leaves_gaps(&shape) => Begin::Undecided,
                begin => begin,
            };
            let argument = cast(&name, element.cast.as_deref(), "");
            let tensor = Tensor { dtype: element.dtype, shape, begin, infinite: false };
            plain(argument, Entry::Output(name, tensor))
        }
    }
}

fn shape(
    name: &str,
    element: &types::Element,
    extent: Extent,
    scene: &Scene,
    told: Option<Vec<String>>,
    output: bool,
) -> shapes::Guess {
    if extent == Extent::One {
        return (vec![element.lanes.to_string()], true);
    }
    // Integers that are read choose or mask rows, but for quantised numbers.
    let float = output || element.dtype.is_none_or(|dtype| dtype.is_float() || dtype == DType::I8);
    let (mut shape, certain) = scene.shape(name, float, output);
    if let Some(told) = told.filter(|_| element.lanes == 1) {
        // Names know the order of the same factors; what is larger than they suggest need not be written whole.
        let sorted = |shape: &[String]| {
            let mut sizes = shape.to_vec();
            sizes.sort();
            sizes
        };
        let same = sorted(&told) == sorted(&shape);
        return if same { (shape, certain) } else { (told, false) };
    }
    if element.lanes > 1 {
        shape.push(element.lanes.to_string());
    }
    (shape, certain)
}

/// The argument `name`, as a pointer to vectors if there is a `vector`.
fn cast(name: &str, vector: Option<&str>, qualifier: &str) -> String {
    match vector {
        Some(vector) => format!("reinterpret_cast<{qualifier}{vector}*>({name})"),
        None => name.to_owned(),
    }
}

fn table(text: &mut String, kind: &str, name: &str, tensor: &Tensor) {
    let dtype = tensor.dtype.unwrap_or(DType::F32).name();
    let guessed = if tensor.dtype.is_none() { " # EDIT: a type of the project's own" } else { "" };
    let _ = writeln!(text, "\n[{kind}.{name}]\ndtype = {dtype:?}{guessed}");
    let mark = if tensor.is_scalar() { String::new() } else { format!(" {MARK}") };
    let extent = |size: &String| match size.starts_with(|c: char| c.is_ascii_digit()) {
        true => size.clone(),
        false => format!("{size:?}"),
    };
    let shape: Vec<String> = tensor.shape.iter().map(extent).collect();
    let _ = writeln!(text, "shape = [{}]{mark}", shape.join(", "));
}

/// `text` as a string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn name((place, parameter): (usize, &Parameter)) -> String {
    match parameter.name.as_str() {
        "" => format!("argument_{place}"),
        name => name.to_owned(),
    }
}

/// Whether `function` chooses among versions of itself by a number that it takes.
pub fn dispatches(function: &Signature) -> bool {
    function.parameters.iter().any(|parameter| is_choice(&parameter.name.to_lowercase()))
}

/// The function of which `name` is a version.
pub fn unversioned(name: &str) -> Option<&str> {
    version(name).map(|(stem, _)| stem)
}

#[cfg(test)]
mod tests;
