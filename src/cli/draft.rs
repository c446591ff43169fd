//! Drafts a `replay.toml` from the functions of a CUDA source. Pure: text in, text out. Names, types, `const` and bodies
//! tell inputs from outputs and numbers from sizes. Nothing in them tells shapes: each is marked, unless replays have
//! measured it.

mod build_macros;
mod build_standard;
mod measured_shapes;
mod pairs;
mod python_draft;
mod python_numbers;
mod python_passes;
mod python_syntax;
mod shape_search;
mod size_orders;
mod tensor_calls;
mod tensor_probe;
mod text_literals;
mod tied_sizes;
mod types;

use std::collections::BTreeMap;
use std::fmt::Write;

use ::replay::fixture::InputDraw;
use ::replay::frontend::{
    FunctionSignature, Parameter, ParameterAccess, ParameterUse, PlainStruct, TemplateParameter,
};
use ::replay::harness::CppStandard;
use ::replay::tensor::DType;
use indexmap::IndexMap;

pub use build_macros::{BuildMacro, find_build_macros, find_number_macros};
pub use build_standard::{find_build_standard, find_command_standard};
pub use measured_shapes::{ShapeProbe, choose_size_sets, choose_usual_sizes};
use pairs::{PairFit, fit_pair};
pub use pairs::{are_passes_of_one, is_backward};
use python_draft::ToldGradients;
pub use python_numbers::PythonNumbers;
pub use python_passes::{BoundResults, find_python_passes};
pub use shape_search::{AcceptedCall, Attempt, ShapeFault, find_supposition, split_words};
pub use size_orders::{SizeOrder, list_size_orders};
pub use tensor_calls::takes_tensors;
use tied_sizes::LinearForm;
pub use tied_sizes::{TiedSizes, tie_sizes};
pub use types::TypeNames;
use types::{PointeeType, VALUE_TYPES, element_words};

/// The mark behind every guess.
const MARK: &str = "# EDIT";

/// The content of one `replay.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    /// The sizes among the functions' parameters, in their order.
    sizes: Vec<String>,
    /// Tensors and scalars to read.
    pub inputs: IndexMap<String, DraftedTensor>,
    /// Tensors and scalars to write.
    pub outputs: IndexMap<String, DraftedTensor>,
    /// One for each function, in the order of the source.
    pub calls: Vec<DraftedCall>,
    /// The called functions.
    pub functions: Vec<String>,
    /// Functions that write what a called one writes, such as another kernel for the same pass.
    alternatives: Vec<String>,
    /// Statements before the calls.
    setup: Vec<String>,
    /// Statements behind the calls: they copy scalars from the device.
    copies: Vec<String>,
    /// Whether the functions take tensors of PyTorch.
    calls_with_tensors: bool,
    /// Whether a kernel is called with a grid that nothing tells.
    guesses_grids: bool,
    /// The order of two sizes that replays showed to be needed.
    size_order: Option<SizeOrder>,
    /// The sizes for which Python passes a number.
    known_numbers: BTreeMap<String, usize>,
    /// The sizes that follow from others by what Python computes.
    known_forms: BTreeMap<String, LinearForm>,
    /// The pairs of gradients that Python tells; otherwise names do.
    told: Option<ToldGradients>,
    /// Whether replays showed that threads meet on its random inputs.
    do_threads_meet: bool,
}

/// How the sources of a draft are compiled.
#[derive(Clone, Debug, Default)]
pub struct DraftedBuild {
    /// The sources, from the root of the repository.
    pub sources: Vec<String>,
    /// The folders that their headers are named from.
    pub include: Vec<String>,
    /// The same of other repositories.
    pub system_include: Vec<String>,
    pub standard: CppStandard,
    pub defines: Vec<BuildMacro>,
}

/// The call of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftedCall {
    /// The outputs that take its results.
    results: Vec<String>,
    /// The function, with all that stands in front of its arguments.
    callee: String,
    arguments: Vec<String>,
    /// What of it is guessed.
    guesses: Vec<String>,
}

impl DraftedCall {
    /// The statement in a harness.
    pub fn statement(&self) -> String {
        let results = self.results.join(", ");
        let assigned = if results.is_empty() { results } else { format!("{results} = ") };
        let comment = if self.guesses.is_empty() {
            String::new()
        } else {
            format!(" // {}: {}", &MARK[2..], self.guesses.join(", "))
        };
        format!("{assigned}{}({});{comment}", self.callee, self.arguments.join(", "))
    }
}

/// A tensor, as far as a parameter tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftedTensor {
    /// None where the type's name is the project's own.
    dtype: Option<DType>,
    /// Whether the sources do not tell the dtype.
    is_dtype_guessed: bool,
    /// The names and numbers of its shape; empty for a scalar.
    shape: Vec<String>,
    /// Why the shape has to be checked; none where it is certain.
    doubt: Option<ShapeDoubt>,
    /// Whether a fixture may leave it out.
    is_optional: bool,
    /// What random numbers a call of it needs.
    draw: InputDraw,
    /// What a replay showed of it.
    traits: Vec<OutputTrait>,
}

/// What a replay shows of an output, and its harness has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputTrait {
    /// The call reads what it holds before.
    ReadBefore,
    /// The same, and of zeros it makes nothing but zeros: it begins as an input.
    ChangedInPlace,
    /// The call leaves some elements as they are.
    Partial,
    /// Some elements are infinite, though all inputs are finite.
    Infinite,
}

impl OutputTrait {
    /// Whether the lines of both have one key of a harness.
    fn is_same_key(self, other: OutputTrait) -> bool {
        (self == OutputTrait::Infinite) == (other == OutputTrait::Infinite)
    }

    /// The line of a harness for output `name`.
    fn line(self, name: &str) -> String {
        match self {
            OutputTrait::ChangedInPlace => {
                format!("init = {:?} {MARK}: it is changed in place", name_beginning(name))
            }
            OutputTrait::ReadBefore => format!("init = 0 {MARK}: what it holds before is read"),
            OutputTrait::Partial => format!("init = 0 {MARK}: some elements are not written"),
            OutputTrait::Infinite => format!("non_finite = true {MARK}: elements are infinite"),
        }
    }
}

/// The input with which the output `name` begins.
fn name_beginning(name: &str) -> String {
    format!("{name}_before")
}

/// Why a drafted shape has to be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShapeDoubt {
    /// A pointer does not tell it.
    Pointer,
    /// The sources access the first element alone.
    OneElement,
    /// An integer without anything to count, by the sources or by its name.
    Number,
    /// A tensor that a function may write in place, by its name.
    InPlace,
}

impl ShapeDoubt {
    /// The comment behind the shape.
    fn comment(self) -> String {
        match self {
            ShapeDoubt::Pointer => MARK.to_owned(),
            ShapeDoubt::OneElement => format!("{MARK}: one element is accessed"),
            ShapeDoubt::Number => format!("{MARK}: a number, not a size"),
            ShapeDoubt::InPlace => format!("{MARK}: written in place, by its name"),
        }
    }
}

impl DraftedTensor {
    fn scalar(dtype: DType) -> DraftedTensor {
        DraftedTensor {
            dtype: Some(dtype),
            is_dtype_guessed: false,
            shape: Vec::new(),
            doubt: None,
            is_optional: false,
            draw: InputDraw::Usual,
            traits: Vec::new(),
        }
    }

    /// Whether it has no dimensions.
    pub fn is_scalar(&self) -> bool {
        self.shape.is_empty()
    }

    fn is_float(&self) -> bool {
        self.dtype.is_none_or(DType::is_float)
    }

    /// Whether its elements are integers, bytes apart.
    fn is_integer(&self) -> bool {
        self.dtype.is_some_and(|dtype| !dtype.is_float() && dtype.size() > 1)
    }

    /// Whether it is a tensor whose elements may be indices.
    fn holds_indices(&self) -> bool {
        self.is_integer() && !self.is_scalar()
    }
}

/// The role of a function's parameter in a harness.
enum ParameterRole {
    /// The number of elements along a dimension.
    Size,
    /// A number from the fixture.
    Scalar { dtype: DType, doubt: Option<ShapeDoubt> },
    /// A tensor: unless the function only reads it, it is an output.
    Tensor { element: PointeeType, is_read: bool, has_one_element: bool },
    /// A handle of cuBLAS: the call makes it.
    Handle,
    /// A text in the call: no fixture holds it.
    Literal { text: String, is_guess: bool },
}

impl ParameterRole {
    /// A guessed argument.
    fn guess(text: &str) -> ParameterRole {
        ParameterRole::Literal { text: text.to_owned(), is_guess: true }
    }
}

impl Draft {
    /// Drafts with calls of every one of `functions`, those with gradients first. A function joins an earlier draft if they
    /// are a pair by their names, or share a tensor and write others, and agree about every name: an output of the one is
    /// then an input of the next. Of several functions for one pass the first is called, and the others are named.
    pub fn from_functions(functions: &[&FunctionSignature], types: &TypeNames) -> Vec<Draft> {
        let mut drafts: Vec<Draft> = Vec::new();
        for function in functions {
            let mut own_draft = Draft::default();
            own_draft.add_call(function, types);
            match drafts.iter_mut().find(|draft| draft.accepts(&function.name, &own_draft)) {
                Some(draft) if draft.has_alternative(&function.name, &own_draft) => {
                    draft.alternatives.push(function.name.clone());
                }
                Some(draft) => draft.add_call(function, types),
                None => drafts.push(own_draft),
            }
        }
        drafts.iter_mut().for_each(Draft::align_gradients);
        drafts.sort_by_key(|draft| !draft.has_gradients());
        drafts
    }

    /// Whether the draft `other` of the function `name` alone can be a part of this one.
    fn accepts(&self, name: &str, other: &Draft) -> bool {
        match fit_pair(&self.functions, name) {
            PairFit::Same => self.is_consistent_with(other),
            PairFit::Other => false,
            PairFit::Unknown => {
                self.shares_tensor(other)
                    && !self.writes_what_is_written_by(other)
                    && self.is_consistent_with(other)
            }
        }
    }

    /// Whether a function for the same pass as `name`, whose own draft is `other`, is called and writes the same.
    fn has_alternative(&self, name: &str, other: &Draft) -> bool {
        fit_pair(&self.functions, name) == PairFit::Same
            && self.functions.iter().any(|function| is_backward(function) == is_backward(name))
            && self.writes_what_is_written_by(other)
    }

    /// Whether a name is that of an output of both: of two tensors, if the names of their functions do not join them.
    fn writes_what_is_written_by(&self, other: &Draft) -> bool {
        other.outputs.keys().any(|output| self.outputs.contains_key(output))
    }

    /// Whether something stands in its calls that nothing tells, such as the arguments of a template.
    pub fn guesses_calls(&self) -> bool {
        self.guesses_grids || self.calls.iter().any(|call| !call.guesses.is_empty())
    }

    /// Takes in what Python passes for integers. Functions of tensors take sizes from these, so that theirs are modes; of others
    /// a zero alone is no size.
    pub fn take_python_numbers(&mut self, numbers: &PythonNumbers) {
        for name in self.list_integers() {
            if numbers.find(&name).is_some_and(|number| number > 1) {
                self.make_size(&name);
            }
        }
        for size in &self.sizes {
            if let Some(number) = numbers.find(size)
                && (self.calls_with_tensors || number == 0)
            {
                self.known_numbers.insert(size.clone(), number);
            }
        }
    }

    fn has_gradients(&self) -> bool {
        self.outputs.iter().any(|(name, tensor)| self.primal_of(name, tensor).is_some())
    }

    /// Gives each gradient the shape of the tensor whose gradient it is.
    fn align_gradients(&mut self) {
        for (of, upstream) in self.flows() {
            if let Some(shape) = self.outputs.get(&of).map(|output| output.shape.clone())
                && let Some(input) = self.inputs.get_mut(&upstream)
            {
                input.shape = shape;
            }
        }
        let gradients: Vec<(String, String)> = self
            .outputs
            .iter()
            .filter_map(|(name, tensor)| {
                Some((name.clone(), self.primal_of(name, tensor)?.to_owned()))
            })
            .collect();
        for (name, input) in gradients {
            if let Some(shape) = self.inputs.get(&input).map(|input| input.shape.clone())
                && let Some(output) = self.outputs.get_mut(&name)
            {
                output.shape = shape;
            }
        }
    }

    /// The outputs with an input for the gradient that flows into them, each with that input: `out` with `dout`.
    fn flows(&self) -> Vec<(String, String)> {
        if let Some(told) = &self.told {
            let is_drafted = |(of, upstream): &&(String, String)| {
                let output = self.outputs.get(of).filter(|output| output.is_float());
                let input = self.inputs.get(upstream);
                output.zip(input).is_some_and(|(output, input)| output.dtype == input.dtype)
            };
            return told.flows.iter().filter(is_drafted).cloned().collect();
        }
        let outputs = self
            .outputs
            .iter()
            .filter(|(name, tensor)| tensor.is_float() && self.primal_of(name, tensor).is_none());
        let flows = outputs.filter_map(|(name, tensor)| {
            let (upstream, _) = self.inputs.iter().find(|(input_name, input)| {
                primal_names(input_name).any(|primal| primal.eq_ignore_ascii_case(name))
                    && input.dtype == tensor.dtype
                    && input.is_scalar() == tensor.is_scalar()
            })?;
            Some((name.clone(), upstream.clone()))
        });
        let flows: Vec<(String, String)> = flows.collect();
        match self.only_flow() {
            Some(flow) if flows.is_empty() && self.calls_with_tensors => vec![flow],
            _ => flows,
        }
    }

    fn shares_tensor(&self, other: &Draft) -> bool {
        let mut tensors = other.tensors();
        tensors.any(|(name, tensor)| !tensor.is_scalar() && self.find_tensor(name).is_some())
    }

    /// Whether no name stands for two things in this draft and in that of one function, `other`.
    fn is_consistent_with(&self, other: &Draft) -> bool {
        let has_same_types = other.tensors().all(|(name, tensor)| {
            !self.sizes.contains(name)
                && self.find_tensor(name).is_none_or(|own_tensor| {
                    own_tensor.dtype == tensor.dtype && own_tensor.is_scalar() == tensor.is_scalar()
                })
        });
        let is_written_late = other.outputs.keys().any(|name| self.inputs.contains_key(name));
        let has_same_sizes = other.sizes.iter().all(|size| self.find_tensor(size).is_none());
        has_same_types && has_same_sizes && !is_written_late
    }

    /// The inputs, then the outputs.
    fn tensors(&self) -> impl Iterator<Item = (&String, &DraftedTensor)> {
        self.inputs.iter().chain(&self.outputs)
    }

    /// The input or output `name`.
    fn find_tensor(&self, name: &str) -> Option<&DraftedTensor> {
        self.inputs.get(name).or_else(|| self.outputs.get(name))
    }

    /// Calls `function`, too.
    fn add_call(&mut self, function: &FunctionSignature, types: &TypeNames) {
        if takes_tensors(function) {
            return self.add_tensor_call(function, types);
        }
        let roles: Vec<ParameterRole> =
            function.parameters.iter().map(|parameter| types.role(function, parameter)).collect();
        let names: Vec<String> =
            function.parameters.iter().enumerate().map(parameter_name).collect();
        let sizes =
            names.iter().zip(&roles).filter(|(_, role)| matches!(role, ParameterRole::Size));
        let sizes: Vec<String> = sizes.map(|(name, _)| name.clone()).collect();
        let mut guesses = Vec::new();
        let mut arguments = Vec::new();
        let mut objects = Vec::new();
        for ((name, role), parameter) in names.into_iter().zip(roles).zip(&function.parameters) {
            if let Some(object) = types.plain_struct(&parameter.ty) {
                objects.push((name.clone(), object.clone()));
                let is_pointer = parameter.ty.contains('*');
                arguments.push(if is_pointer { format!("&{name}") } else { name });
                continue;
            }
            arguments.push(self.add_parameter(name, role, &sizes, &mut guesses));
        }
        for (name, object) in objects {
            self.add_object(&name, &object, types, &mut guesses);
        }
        let results = self.add_result(function, types).into_iter().collect();
        self.guesses_grids |= function.kernel;
        self.functions.push(function.name.clone());
        self.calls.push(draft_call(function, arguments, results, guesses));
    }

    /// Fills an object `name` of `object` from tensors and numbers, a field each.
    fn add_object(
        &mut self,
        name: &str,
        object: &PlainStruct,
        types: &TypeNames,
        guesses: &mut Vec<String>,
    ) {
        let fields: Vec<(String, ParameterRole)> = object
            .fields
            .iter()
            .map(|field| (field.name.clone(), types.role_of_type(&field.ty, &field.name)))
            .collect();
        let sizes = fields.iter().filter(|(_, role)| matches!(role, ParameterRole::Size));
        let sizes: Vec<String> = sizes.map(|(field, _)| field.clone()).collect();
        let mut statements = vec![format!("{} {name}{{}};", object.name)];
        for (field, role) in fields {
            let argument = self.add_parameter(field.clone(), role, &sizes, guesses);
            statements.push(format!("{name}.{field} = {argument};"));
        }
        self.add_setup(statements.join(" "));
    }

    /// Takes in a parameter; gives the argument for it.
    fn add_parameter(
        &mut self,
        name: String,
        role: ParameterRole,
        sizes: &[String],
        guesses: &mut Vec<String>,
    ) -> String {
        match role {
            ParameterRole::Size => {
                if !self.sizes.contains(&name) {
                    self.sizes.push(name.clone());
                }
                name
            }
            ParameterRole::Scalar { dtype, doubt } => {
                let tensor = DraftedTensor { doubt, ..DraftedTensor::scalar(dtype) };
                self.inputs.entry(name.clone()).or_insert(tensor);
                name
            }
            ParameterRole::Tensor { element, is_read, has_one_element } => {
                if let Some(dtype) = element.scalar_dtype()
                    && has_one_element
                    && !is_read
                {
                    return self.add_scalar_output(name, dtype);
                }
                let argument = element.argument(&name);
                let tensor = draft_tensor(&element, sizes, has_one_element);
                let is_written_before = self.outputs.contains_key(&name);
                if is_read && !is_written_before {
                    self.inputs.entry(name).or_insert(tensor);
                } else {
                    self.outputs.entry(name).or_insert(tensor);
                }
                argument
            }
            ParameterRole::Handle => {
                self.add_setup("cublasHandle_t handle; cublasCreate(&handle);".to_owned());
                "handle".to_owned()
            }
            ParameterRole::Literal { text, is_guess } => {
                guesses.extend(is_guess.then(|| format!("{text} for {name}")));
                text
            }
        }
    }

    /// Adds a scalar written through a pointer to the device, such as a loss. Returns the pointer.
    fn add_scalar_output(&mut self, name: String, dtype: DType) -> String {
        let pointer = format!("{name}_on_device");
        let ty = dtype.cuda_name();
        self.add_setup(format!(
            "{ty}* {pointer}; cudaMalloc(&{pointer}, sizeof({ty})); cudaMemset({pointer}, 0, sizeof({ty}));"
        ));
        let copy = format!("cudaMemcpy(&{name}, {pointer}, sizeof({ty}), cudaMemcpyDeviceToHost);");
        if !self.copies.contains(&copy) {
            self.copies.push(copy);
        }
        let doubt = Some(ShapeDoubt::OneElement);
        self.outputs.entry(name).or_insert(DraftedTensor { doubt, ..DraftedTensor::scalar(dtype) });
        pointer
    }

    fn add_setup(&mut self, statements: String) {
        if !self.setup.contains(&statements) {
            self.setup.push(statements);
        }
    }

    /// The output for the result of `function`.
    fn add_result(&mut self, function: &FunctionSignature, types: &TypeNames) -> Option<String> {
        let dtype = types.dtype(&function.returns).filter(|dtype| dtype.is_float())?;
        let usual_name = if function.name.contains("loss") { "loss" } else { "result" };
        let name = match self.find_tensor(usual_name) {
            Some(_) => format!("{}_result", function.name),
            None => usual_name.to_owned(),
        };
        self.outputs.insert(name.clone(), DraftedTensor::scalar(dtype));
        Some(name)
    }

    /// The text of `replay.toml`.
    pub fn text(&self, build: &DraftedBuild) -> String {
        let mut text = format!(
            "# How to call the kernels of {}, whatever the revision. A draft by `replay init`:\n\
             # what is marked EDIT has to be checked, shapes above all. An output to which the call adds gets\n\
             # init = 0; one that it changes in place begins as an input does: init = \"INPUT\".\n\
             {}sources = [{}]\n\
             include = [{}]\n",
            build.sources.join(" and "),
            self.alternatives_comment(),
            quote_toml_list(&build.sources),
            quote_toml_list(&build.include)
        );
        if !build.system_include.is_empty() {
            let folders = quote_toml_list(&build.system_include);
            let _ =
                writeln!(text, "system_include = [{folders}] {MARK}: submodules, checked out here");
        }
        if build.standard != CppStandard::default() {
            let _ = writeln!(text, "standard = {:?}", build.standard.name());
        }
        if !build.defines.is_empty() {
            let definitions: Vec<String> =
                build.defines.iter().map(BuildMacro::definition).collect();
            let guessed = build.defines.iter().filter(|defined| defined.is_guessed);
            let guessed: Vec<&str> = guessed.map(|defined| defined.name.as_str()).collect();
            let comment = if guessed.is_empty() {
                String::new()
            } else {
                format!(" {MARK}: the build computes {}", guessed.join(", "))
            };
            let _ = writeln!(text, "defines = [{}]{comment}", quote_toml_list(&definitions));
        }
        let sizes = self.sizes_by_number();
        if !sizes.is_empty() {
            let _ = writeln!(text, "sizes = {sizes:?}");
        }
        if let Some(SizeOrder { smaller, larger }) = &self.size_order {
            let _ = writeln!(
                text,
                "{MARK}: {smaller} <= {larger} is assumed: rows overlap where {smaller} is larger"
            );
        }
        if !self.setup.is_empty() {
            let _ = writeln!(text, "setup = {:?}", self.setup.join(" "));
        }
        text.push_str("call = \"\"\"\n");
        for call in &self.calls {
            let _ = writeln!(text, "{}", call.statement());
        }
        for statement in &self.copies {
            let _ = writeln!(text, "{statement}");
        }
        text.push_str("\"\"\"\n");
        for (name, tensor) in &self.inputs {
            write_table(&mut text, "inputs", name, tensor);
        }
        let mut flows = self.flows();
        flows.retain(|(of, upstream)| self.have_one_shape(of, upstream));
        // A returned scalar comes first, for the others are its gradients.
        let (scalars, arrays): (Vec<_>, Vec<_>) =
            self.outputs.iter().partition(|(_, tensor)| tensor.is_scalar());
        for (name, tensor) in scalars.into_iter().chain(arrays) {
            write_table(&mut text, "outputs", name, tensor);
            match self.primal_of(name, tensor) {
                Some(input_name) if self.have_one_shape(name, input_name) => {
                    let _ = writeln!(text, "gradient_of = {input_name:?} {MARK}");
                    write_flows(&mut text, &flows);
                }
                Some(input_name) => {
                    let _ = writeln!(
                        text,
                        "{MARK}: no gradient of {input_name}, whose shape is another"
                    );
                }
                None => {}
            }
        }
        text
    }

    /// A line about the functions that are not called, if there are any.
    fn alternatives_comment(&self) -> String {
        if self.alternatives.is_empty() {
            return String::new();
        }
        let called = self.functions.join(", ");
        let alternatives = self.alternatives.join(", ");
        format!("# In the place of {called} there are: {alternatives}.\n")
    }

    /// The sizes outside of all inputs' shapes.
    pub fn sizes_by_number(&self) -> Vec<&str> {
        let input_sizes: Vec<&String> =
            self.inputs.values().flat_map(|tensor| &tensor.shape).collect();
        let mut sizes = self.named_sizes();
        sizes.retain(|size| !input_sizes.iter().any(|known| known == size));
        sizes
    }

    /// All sizes with a name: parameters, then those of shapes alone.
    pub fn named_sizes(&self) -> Vec<&str> {
        let in_shapes = self.tensors().flat_map(|(_, tensor)| &tensor.shape);
        let in_shapes = in_shapes.filter(|size| !is_number(size));
        let mut sizes: Vec<&str> = Vec::new();
        for size in self.sizes.iter().chain(in_shapes) {
            if !sizes.contains(&size.as_str()) {
                sizes.push(size);
            }
        }
        sizes
    }

    /// The scalars for a fixture to give by number.
    pub fn scalars(&self) -> Vec<&str> {
        let scalars = self.inputs.iter().filter(|(_, tensor)| tensor.is_scalar());
        scalars.map(|(name, _)| name.as_str()).collect()
    }

    fn have_one_shape(&self, one: &str, other: &str) -> bool {
        let shape = |name: &str| self.find_tensor(name).map(|tensor| &tensor.shape);
        shape(one) == shape(other)
    }

    /// `logits` for `grad_logits`, `dlogits` and the like; also `logits_`, as optional parameters are called.
    fn primal_of(&self, name: &str, tensor: &DraftedTensor) -> Option<&str> {
        if let Some(told) = &self.told {
            let (input_name, input) = self.inputs.get_key_value(told.primals.get(name)?)?;
            let is_alike = input.dtype == tensor.dtype && !input.is_scalar() && input.is_float();
            return is_alike.then_some(input_name.as_str());
        }
        primal_names(name).find_map(|bare_name| {
            let has_name = |(input_name, _): &(&String, &DraftedTensor)| {
                let input_name = input_name.trim_end_matches('_');
                input_name.eq_ignore_ascii_case(bare_name.trim_end_matches('_'))
            };
            let exact = self.inputs.get_key_value(bare_name);
            let (input_name, input) = exact.or_else(|| self.inputs.iter().find(has_name))?;
            let is_alike = input.dtype == tensor.dtype && !input.is_scalar() && input.is_float();
            is_alike.then_some(input_name.as_str())
        })
    }
}

/// The possible names of the tensor whose gradient is called `name`.
fn primal_names(name: &str) -> impl Iterator<Item = &str> {
    let bare_names = ["grad_", "grad", "d_", "d", "g"]
        .into_iter()
        .filter_map(|prefix| name.strip_prefix(prefix));
    let bare_names = bare_names.chain(name.strip_suffix("_grad"));
    bare_names.flat_map(|bare_name| match bare_name {
        "out" | "output" => ["out", "output"],
        _ => [bare_name; 2],
    })
}

/// Writes the outputs of which an output is the gradient, with what flows into them.
fn write_flows(text: &mut String, flows: &[(String, String)]) {
    let _ = match flows {
        [] => Ok(()),
        [(of, upstream)] => writeln!(text, "of = {of:?} {MARK}\nupstream = {upstream:?} {MARK}"),
        flows => {
            let (of, upstream): (Vec<&str>, Vec<&str>) =
                flows.iter().map(|(of, upstream)| (of.as_str(), upstream.as_str())).unzip();
            writeln!(text, "of = {of:?} {MARK}\nupstream = {upstream:?} {MARK}")
        }
    };
}

impl TypeNames {
    /// The role of `parameter` of `function`.
    fn role(&self, function: &FunctionSignature, parameter: &Parameter) -> ParameterRole {
        let words: Vec<&str> = parameter.ty.split(' ').collect();
        if is_text_type(&parameter.ty)
            && let Some(literal) = self.literal(&parameter.name)
        {
            return ParameterRole::guess(&format!("\"{literal}\""));
        }
        let mut element = element_words(&parameter.ty);
        if function.template.iter().flatten().any(|parameter| parameter.name == element) {
            element = "float".to_owned();
        }
        match words.iter().filter(|&&word| word == "*").count() {
            0 => self.role_of_value(&element, parameter),
            1 => {
                let element = self.element(&element);
                let is_read = parameter.access == ParameterAccess::Read;
                let has_one_element = parameter.body_use == ParameterUse::OneElement;
                ParameterRole::Tensor { element, is_read, has_one_element }
            }
            _ => ParameterRole::guess("nullptr"),
        }
    }

    /// The role of a field `name` of the type `ty`.
    fn role_of_type(&self, ty: &str, name: &str) -> ParameterRole {
        let parameter = Parameter {
            ty: ty.to_owned(),
            name: name.to_owned(),
            body_use: ParameterUse::Unknown,
            access: ParameterAccess::Unknown,
        };
        let words: Vec<&str> = ty.split(' ').collect();
        let element = element_words(ty);
        match words.iter().filter(|&&word| word == "*").count() {
            0 => self.role_of_value(&element, &parameter),
            1 => {
                let is_read = words.iter().take_while(|&&word| word != "*").any(|&w| w == "const");
                let element = self.element(&element);
                ParameterRole::Tensor { element, is_read, has_one_element: false }
            }
            _ => ParameterRole::guess("nullptr"),
        }
    }

    fn role_of_value(&self, ty: &str, parameter: &Parameter) -> ParameterRole {
        if ty == "cublasHandle_t" {
            return ParameterRole::Handle;
        }
        if let Some((_, text)) = VALUE_TYPES.iter().find(|(name, _)| *name == ty) {
            return ParameterRole::Literal { text: (*text).to_owned(), is_guess: false };
        }
        match self.dtype(ty) {
            Some(dtype) if dtype.is_float() || dtype == DType::Bool => {
                ParameterRole::Scalar { dtype, doubt: None }
            }
            Some(_) if is_block_size(&parameter.name) => ParameterRole::guess("256"),
            Some(dtype) if counts_nothing(parameter) => {
                ParameterRole::Scalar { dtype, doubt: Some(ShapeDoubt::Number) }
            }
            Some(_) => ParameterRole::Size,
            None => ParameterRole::guess("{}"),
        }
    }
}

/// Whether `ty` is of a text: `const std::string&`, `const char*`.
fn is_text_type(ty: &str) -> bool {
    let words: Vec<&str> = ty.split(' ').collect();
    words.iter().any(|word| matches!(*word, "string" | "string_view"))
        || words.starts_with(&["const", "char", "*"])
}

/// Whether an integer is the number of threads of a block, by its name.
fn is_block_size(name: &str) -> bool {
    let letters: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    ["blocksize", "blockdim", "numthreads", "nthreads", "threadsperblock", "blockthreads"]
        .contains(&letters.to_lowercase().as_str())
}

/// Whether an integer is a number rather than a size: the sources count nothing with it, or its name says so.
fn counts_nothing(parameter: &Parameter) -> bool {
    const NUMBERS: [&str; 6] = ["step", "iter", "iteration", "epoch", "seed", "rank"];
    parameter.body_use == ParameterUse::Number || NUMBERS.contains(&parameter.name.as_str())
}

/// A tensor of `element`, of one element or of as many as `sizes` say.
fn draft_tensor(element: &PointeeType, sizes: &[String], has_one_element: bool) -> DraftedTensor {
    let mut shape = match sizes {
        _ if has_one_element => vec!["1".to_owned()],
        [] => vec!["n".to_owned()],
        sizes => sizes.to_vec(),
    };
    shape.extend((element.lanes > 1).then(|| element.lanes.to_string()));
    let doubt = if has_one_element { ShapeDoubt::OneElement } else { ShapeDoubt::Pointer };
    DraftedTensor {
        dtype: element.dtype,
        is_dtype_guessed: false,
        shape,
        doubt: Some(doubt),
        is_optional: false,
        draw: InputDraw::Usual,
        traits: Vec::new(),
    }
}

/// The call of `function` with `arguments`. `results` take its value, `guesses` are guessed arguments.
fn draft_call(
    function: &FunctionSignature,
    arguments: Vec<String>,
    results: Vec<String>,
    mut guesses: Vec<String>,
) -> DraftedCall {
    let FunctionSignature { name, scope, .. } = function;
    let mut launch = "";
    if function.kernel {
        launch = "<<<1, 256>>>";
        guesses.insert(0, "grid, block".to_owned());
    }
    let template = template_arguments(function);
    if !template.is_empty() {
        guesses.insert(0, "template arguments".to_owned());
    }
    DraftedCall { results, callee: format!("{scope}{name}{template}{launch}"), arguments, guesses }
}

/// The explicit template arguments of the call: of kernels all, of functions those beyond deduction.
fn template_arguments(function: &FunctionSignature) -> String {
    let Some(parameters) = &function.template else { return String::new() };
    let last_needed = parameters
        .iter()
        .rposition(|parameter| !parameter.has_default && !deduces_argument(function, parameter));
    let Some(last) = last_needed else { return String::new() };
    let arguments = parameters[..=last].iter().map(|parameter| match parameter.ty.as_str() {
        "typename" | "class" => "float",
        "bool" => "false",
        _ => "32",
    });
    format!("<{}>", arguments.collect::<Vec<_>>().join(", "))
}

/// Whether a call of `function` deduces the argument of its template from the arguments of the call.
fn deduces_argument(function: &FunctionSignature, template_parameter: &TemplateParameter) -> bool {
    let mut type_words = function.parameters.iter().flat_map(|parameter| parameter.ty.split(' '));
    !function.kernel && type_words.any(|word| word == template_parameter.name)
}

/// Whether a size of a shape is a number, and no name.
fn is_number(size: &str) -> bool {
    size.starts_with(|c: char| c.is_ascii_digit())
}

fn write_table(text: &mut String, kind: &str, name: &str, tensor: &DraftedTensor) {
    let dtype = tensor.dtype.unwrap_or(DType::F32).name();
    let guessed = if tensor.dtype.is_none() { " # EDIT: a type of the project's own" } else { "" };
    let _ = writeln!(text, "\n[{kind}.{name}]\ndtype = {dtype:?}{guessed}");
    let extents = tensor
        .shape
        .iter()
        .map(|size| if is_number(size) { size.clone() } else { format!("{size:?}") });
    let extents = extents.collect::<Vec<_>>().join(", ");
    let comment = tensor.doubt.map_or(String::new(), |doubt| format!(" {}", doubt.comment()));
    let _ = writeln!(text, "shape = [{extents}]{comment}");
    if tensor.is_optional {
        text.push_str("optional = true\n");
    }
    for output_trait in &tensor.traits {
        let _ = writeln!(text, "{}", output_trait.line(name));
    }
}

/// The strings of a list of TOML.
fn quote_toml_list(texts: &[String]) -> String {
    texts.iter().map(|text| quote_toml(text)).collect::<Vec<_>>().join(", ")
}

/// `text` as a string of TOML.
pub(super) fn quote_toml(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn parameter_name((place, parameter): (usize, &Parameter)) -> String {
    match parameter.name.as_str() {
        "" => format!("argument_{place}"),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
