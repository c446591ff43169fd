//! Drafts calls of functions of tensors, as Python writes them: `dx, dw = backward(dy, x, w);`. Their bodies tell the names of
//! results, and some sizes.

use std::collections::BTreeMap;

use ::replay::fixture::InputDraw;
use ::replay::frontend::{FunctionSignature, Parameter, ParameterAccess, TensorBody};
use ::replay::tensor::DType;

use super::tensor_probe::name_dimension;
use super::types::TypeNames;
use super::{
    Draft, DraftedCall, DraftedTensor, ParameterRole, ShapeDoubt, draft_call, parameter_name,
    primal_names,
};

/// Names and their beginnings for tensors that a function writes in place.
const OUTPUT_NAMES: [&str; 7] = ["out", "output", "result", "dst", "dest", "y", "ret"];
/// What gives an output the elements of a tensor, in front of that.
const COPY: &str = "at::Tensor";
/// The dtype of a tensor about which the body tells nothing.
const USUAL_DTYPE: DType = DType::F32;

/// Whether a function takes or returns tensors of PyTorch.
pub fn takes_tensors(function: &FunctionSignature) -> bool {
    names_tensor(&function.returns)
        || function.parameters.iter().any(|parameter| names_tensor(&parameter.ty))
}

/// Whether `ty` is of a tensor.
pub(super) fn names_tensor(ty: &str) -> bool {
    ty.split(' ').any(|word| matches!(word, "Tensor" | "TensorList"))
}

/// Whether `ty` is of several tensors.
pub(super) fn names_tensor_list(ty: &str) -> bool {
    ty.split(' ').any(|word| matches!(word, "TensorList" | "vector" | "ArrayRef" | "tuple"))
}

/// Whether `ty` is of several lists of tensors: `std::vector<std::vector<at::Tensor>>`.
fn is_list_of_lists(ty: &str) -> bool {
    let is_list = |word: &&str| matches!(*word, "TensorList" | "vector" | "ArrayRef");
    ty.split(' ').filter(is_list).count() > 1
}

/// The types of the results of a function that returns a tuple: `std::tuple<int, at::Tensor>`.
fn list_result_types(returns: &str) -> Vec<String> {
    let words: Vec<&str> = returns.split(' ').collect();
    let open = words.iter().position(|word| *word == "<");
    let close = words.iter().rposition(|word| *word == ">");
    match (open, close) {
        (Some(open), Some(close)) if words.contains(&"tuple") && open < close => {
            words[open + 1..close].split(|word| *word == ",").map(|ty| ty.join(" ")).collect()
        }
        _ => Vec::new(),
    }
}

/// The tensor of the call that becomes the output `name`.
fn name_resized(name: &str) -> String {
    format!("{name}_resized")
}

/// What makes this tensor, in front of its arguments.
fn make_resized(name: &str) -> String {
    format!("at::Tensor {} = at::empty", name_resized(name))
}

/// Names for the tensors of a `parameter` called `name`, two for each of its lists. `body` tells how many lists there are.
fn name_listed_tensors(name: &str, parameter: &Parameter, body: &TensorBody) -> Vec<Vec<String>> {
    let name_pair = |prefix: &str| ["a", "b"].map(|end| format!("{prefix}{end}")).to_vec();
    if is_list_of_lists(&parameter.ty) {
        let count = body.list_counts.get(&parameter.name).copied().unwrap_or(1);
        (0..count).map(|list| name_pair(&format!("{name}_{list}"))).collect()
    } else {
        vec![name_pair(&format!("{name}_"))]
    }
}

/// The argument for `lists` of tensors: the first one, or all of them.
fn spell_lists(lists: &[Vec<String>], are_all: bool) -> String {
    let spelled = lists.iter().map(|list| format!("{{{}}}", list.join(", ")));
    let spelled = spelled.collect::<Vec<_>>().join(", ");
    if are_all { format!("{{{spelled}}}") } else { spelled }
}

/// Whether `ty` is of several sizes: `at::IntArrayRef`, `std::vector<int64_t>`.
fn is_size_list(ty: &str) -> bool {
    let words: Vec<&str> = ty.split(' ').collect();
    words.contains(&"IntArrayRef")
        || words.contains(&"IntList")
        || words.iter().any(|word| matches!(*word, "vector" | "ArrayRef"))
            && words.iter().any(|word| matches!(*word, "int" | "long" | "int64_t"))
}

/// What a parameter of a function of tensors takes.
enum ArgumentKind {
    /// Several sizes.
    Sizes,
    /// No tensor.
    Value,
    /// A tuple: nothing tells what it holds.
    Tuple,
    /// Lists of tensors.
    Lists { is_changed: bool },
    /// A tensor that gets its sizes in the call.
    Resized,
    /// A tensor that is written in place.
    Written,
    /// A tensor in memory of the host.
    OnHost,
    /// Any other tensor.
    Read,
}

/// A call of a function of tensors that is being drafted.
struct TensorCall<'f> {
    function: &'f FunctionSignature,
    types: &'f TypeNames,
    /// The places of the parameters that are written in place.
    written: Vec<usize>,
    guesses: Vec<String>,
    /// Inputs in lists that the call changes.
    changed: Vec<String>,
    /// Outputs that get their sizes in the call.
    resized: Vec<String>,
}

/// The argument for the tensor `name` as `parameter`, which may be a pointer to it.
fn spell_tensor(name: &str, parameter: &Parameter) -> String {
    if parameter.ty.contains('*') { format!("&{name}") } else { name.to_owned() }
}

impl DraftedCall {
    /// Whether it gives an output the elements of a tensor.
    pub(super) fn copies_tensor(&self) -> bool {
        self.callee == COPY
    }
}

impl Draft {
    /// Calls `function`, which takes or returns tensors, too.
    pub(super) fn add_tensor_call(&mut self, function: &FunctionSignature, types: &TypeNames) {
        self.add_given_tensor_call(function, types, &BTreeMap::new());
    }

    /// Calls `function`, which takes or returns tensors, too; `given` are texts for arguments, by their places.
    pub(super) fn add_given_tensor_call(
        &mut self,
        function: &FunctionSignature,
        types: &TypeNames,
        given: &BTreeMap<usize, String>,
    ) {
        self.calls_with_tensors = true;
        let mut call = TensorCall {
            function,
            types,
            written: find_written_parameters(function, types),
            guesses: Vec::new(),
            changed: Vec::new(),
            resized: Vec::new(),
        };
        let mut arguments = Vec::new();
        for (place, parameter) in function.parameters.iter().enumerate() {
            if let Some(text) = given.get(&place) {
                arguments.push(text.clone());
                continue;
            }
            let name = self.name_of_result(parameter_name((place, parameter)));
            arguments.push(match self.kind_of_argument(&call, place, &name) {
                ArgumentKind::Sizes => self.add_size_list(&name, &mut call.guesses),
                ArgumentKind::Value => {
                    let role = types.role(function, parameter);
                    self.add_parameter(name, role, &[], &mut call.guesses)
                }
                ArgumentKind::Tuple => {
                    self.add_parameter(name, ParameterRole::guess("{}"), &[], &mut call.guesses)
                }
                ArgumentKind::Lists { is_changed } => {
                    self.add_lists(&name, parameter, is_changed, &mut call)
                }
                ArgumentKind::Resized => self.add_resized_output(name, &mut call),
                ArgumentKind::Written => self.add_written_tensor(&name, parameter, &call),
                ArgumentKind::OnHost => {
                    self.add_read_tensor(&name, parameter, &call);
                    format!("at::Tensor({name}).cpu()")
                }
                ArgumentKind::Read => self.add_read_tensor(&name, parameter, &call),
            });
        }
        let TensorCall { mut guesses, changed, resized, .. } = call;
        let results = self.add_results(function, types, &mut guesses);
        self.functions.push(function.name.clone());
        self.calls.push(draft_call(function, arguments, results, guesses));
        for name in resized {
            self.take_resized_output(&name);
        }
        for name in changed {
            self.add_copy(&name);
        }
    }

    /// What the parameter at `place` of the function of `call`, drafted as `name`, takes.
    fn kind_of_argument(&self, call: &TensorCall<'_>, place: usize, name: &str) -> ArgumentKind {
        let Parameter { ty, name: own_name, .. } = &call.function.parameters[place];
        let TensorBody { resized, on_host, .. } = &call.function.tensors;
        let is_written = call.written.contains(&place);
        if is_size_list(ty) {
            ArgumentKind::Sizes
        } else if !names_tensor(ty) {
            ArgumentKind::Value
        } else if ty.split(' ').any(|word| word == "tuple") {
            ArgumentKind::Tuple
        } else if names_tensor_list(ty) {
            let may_be_written = call.written.is_empty()
                && !names_tensor(&call.function.returns)
                && !ty.starts_with("const ");
            ArgumentKind::Lists { is_changed: is_written || may_be_written }
        } else if resized.contains(own_name)
            && (self.find_tensor(name).is_none() || self.makes_resized(name))
        {
            ArgumentKind::Resized
        } else if is_written && !self.is_returned(name) {
            ArgumentKind::Written
        } else if on_host.contains(own_name) {
            ArgumentKind::OnHost
        } else {
            // What an earlier function returns by this name is changed further.
            ArgumentKind::Read
        }
    }

    /// Adds a size for the list `name` of sizes. Returns the argument.
    fn add_size_list(&mut self, name: &str, guesses: &mut Vec<String>) -> String {
        let size = name_dimension(name, 0);
        guesses.push(format!("one size for {name}"));
        let argument = format!("{{{size}}}");
        if !self.sizes.contains(&size) {
            self.sizes.push(size);
        }
        argument
    }

    /// Adds inputs for the tensors in the lists of `parameter`. Returns the argument.
    fn add_lists(
        &mut self,
        name: &str,
        parameter: &Parameter,
        is_changed: bool,
        call: &mut TensorCall<'_>,
    ) -> String {
        call.guesses.push(format!("two tensors a list for {name}"));
        let lists = name_listed_tensors(name, parameter, &call.function.tensors);
        let tensor = self.draft_body_tensor(name, call.types, call.function);
        for listed in lists.concat() {
            self.inputs.entry(listed).or_insert_with(|| tensor.clone());
        }
        if is_changed {
            call.changed.extend(lists.concat());
        }
        spell_lists(&lists, is_list_of_lists(&parameter.ty))
    }

    /// Adds an output for a tensor that the call writes in place. Returns the argument.
    fn add_written_tensor(
        &mut self,
        name: &str,
        parameter: &Parameter,
        call: &TensorCall<'_>,
    ) -> String {
        let own_name = self.name_apart(call.function, name);
        let doubt = match parameter.access {
            ParameterAccess::Written => ShapeDoubt::Pointer,
            ParameterAccess::Unknown | ParameterAccess::Read => ShapeDoubt::InPlace,
        };
        let tensor = self.draft_body_tensor(name, call.types, call.function);
        let argument = spell_tensor(&own_name, parameter);
        self.outputs.insert(own_name, DraftedTensor { doubt: Some(doubt), ..tensor });
        argument
    }

    /// Adds an input for a tensor that is neither written by the call nor by an earlier one. Returns the argument.
    fn add_read_tensor(
        &mut self,
        name: &str,
        parameter: &Parameter,
        call: &TensorCall<'_>,
    ) -> String {
        if self.find_tensor(name).is_none() {
            let tensor = DraftedTensor {
                is_optional: parameter.ty.contains("optional"),
                ..self.draft_body_tensor(name, call.types, call.function)
            };
            self.inputs.insert(name.to_owned(), tensor);
        }
        spell_tensor(name, parameter)
    }

    /// Adds the output `name`, to which the function of `call` gives its sizes. Returns the argument, an empty tensor like
    /// another argument.
    fn add_resized_output(&mut self, name: String, call: &mut TensorCall<'_>) -> String {
        let resized = name_resized(&name);
        if !self.makes_resized(&name) {
            let function = call.function;
            let is_model = |parameter: &&Parameter| {
                names_tensor(&parameter.ty) && !function.tensors.resized.contains(&parameter.name)
            };
            let model = function.parameters.iter().find(is_model);
            let options = match model {
                Some(model) => format!("at::Tensor({}).options()", model.name),
                None => "at::kCUDA".to_owned(),
            };
            let tensor = self.draft_body_tensor(&name, call.types, function);
            self.calls.push(DraftedCall {
                results: Vec::new(),
                callee: make_resized(&name),
                arguments: vec!["{0}".to_owned(), options],
                guesses: Vec::new(),
            });
            self.outputs.insert(name.clone(), tensor);
        }
        call.resized.push(name);
        resized
    }

    /// Whether a call makes the tensor that becomes the output `name`.
    fn makes_resized(&self, name: &str) -> bool {
        self.calls.iter().any(|call| call.callee == make_resized(name))
    }

    /// Gives the output `name` what its tensor holds after the calls before.
    fn take_resized_output(&mut self, name: &str) {
        if !self.is_returned(name) {
            self.calls.push(DraftedCall {
                results: vec![name.to_owned()],
                callee: COPY.to_owned(),
                arguments: vec![name_resized(name)],
                guesses: Vec::new(),
            });
        }
    }

    /// Adds an output for what the calls before leave in the input `name`.
    fn add_copy(&mut self, name: &str) {
        let output = format!("{name}_out");
        if let Some(input) = self.inputs.get(name).filter(|_| self.find_tensor(&output).is_none()) {
            self.outputs.insert(output.clone(), input.clone());
            self.calls.push(DraftedCall {
                results: vec![output],
                callee: COPY.to_owned(),
                arguments: vec![name.to_owned()],
                guesses: Vec::new(),
            });
        }
    }

    /// The outputs for the results of `function`, in order.
    fn add_results(
        &mut self,
        function: &FunctionSignature,
        types: &TypeNames,
        guesses: &mut Vec<String>,
    ) -> Vec<String> {
        if !names_tensor(&function.returns) {
            return Vec::new();
        }
        let mut names = function.tensors.results.clone();
        if names.is_empty() {
            let count = function.returns.split(' ').filter(|word| *word == "Tensor").count();
            names = vec![String::new(); count];
            if names_tensor_list(&function.returns) {
                guesses.push("the results".to_owned());
            }
        }
        let count = names.len();
        let result_types = list_result_types(&function.returns);
        let mut outputs = Vec::new();
        for (place, name) in names.into_iter().enumerate() {
            let name = match name.as_str() {
                "" if count == 1 => "out".to_owned(),
                "" => format!("out_{place}"),
                _ => name,
            };
            let number = result_types.get(place).and_then(|ty| types.dtype(ty));
            let tensor = match number {
                Some(dtype) => DraftedTensor::scalar(dtype),
                None => self.draft_body_tensor(&name, types, function),
            };
            let own_name = self.name_apart(function, &name);
            self.outputs.insert(own_name.clone(), tensor);
            outputs.push(own_name);
        }
        outputs
    }

    /// The name of the result that a parameter `name` is, if it only has more underscores at its end; otherwise `name`.
    fn name_of_result(&self, name: String) -> String {
        let result = name.trim_end_matches('_');
        if self.is_returned(result) { result.to_owned() } else { name }
    }

    /// A name for the tensor `name` that `function` writes, apart from all others.
    fn name_apart(&self, function: &FunctionSignature, name: &str) -> String {
        let names = [name.to_owned(), format!("{name}_out"), format!("{}_{name}", function.name)];
        let [first, of_input, of_function] = names;
        if self.find_tensor(&first).is_none() && !self.named_sizes().contains(&first.as_str()) {
            first
        } else if self.inputs.contains_key(&first) && self.find_tensor(&of_input).is_none() {
            of_input
        } else {
            of_function
        }
    }

    /// The tensor `name` as the body of `function` tells of it: otherwise of one dimension.
    fn draft_body_tensor(
        &self,
        name: &str,
        types: &TypeNames,
        function: &FunctionSignature,
    ) -> DraftedTensor {
        let body = &function.tensors;
        let model = body.models.get(name).map_or(name, String::as_str);
        let drafted_model = self.find_tensor(model).filter(|_| model != name);
        let element = body.elements.get(name).and_then(|ty| types.dtype(ty));
        let dtype = element.or(drafted_model.and_then(|tensor| tensor.dtype));
        let mut shape = match (body.shapes.get(model), drafted_model) {
            (_, Some(tensor)) => tensor.shape.clone(),
            (Some(shape), None) => shape.clone(),
            (None, None) => vec![String::new()],
        };
        let is_tensor = |size: &str| {
            self.find_tensor(size).is_some()
                || function
                    .parameters
                    .iter()
                    .any(|parameter| parameter.name == size && types.dtype(&parameter.ty).is_none())
        };
        for (dimension, size) in shape.iter_mut().enumerate() {
            if size.is_empty() || is_tensor(size) {
                *size = name_dimension(name, dimension);
            }
        }
        DraftedTensor {
            dtype: Some(dtype.unwrap_or(USUAL_DTYPE)),
            is_dtype_guessed: element.is_none(),
            shape,
            doubt: Some(ShapeDoubt::Pointer),
            is_optional: false,
            draw: InputDraw::Usual,
            traits: Vec::new(),
        }
    }

    /// The only output that is no gradient, with the only input that is named as one.
    pub(super) fn only_flow(&self) -> Option<(String, String)> {
        let mut outputs = self.outputs.iter().filter(|(name, tensor)| {
            tensor.is_float() && !tensor.is_scalar() && self.primal_of(name, tensor).is_none()
        });
        let mut upstreams = self.inputs.iter().filter(|(name, tensor)| {
            tensor.is_float()
                && !tensor.is_scalar()
                && is_gradient_name(name)
                && !primal_names(name).any(|primal| self.find_tensor(primal).is_some())
        });
        let flow = (outputs.next()?.0.clone(), upstreams.next()?.0.clone());
        let is_only = outputs.next().is_none() && upstreams.next().is_none();
        is_only.then_some(flow)
    }
}

/// Whether a tensor is a gradient by its name.
fn is_gradient_name(name: &str) -> bool {
    let name = name.trim_end_matches(['_', 's']);
    name.starts_with("grad") || name.ends_with("_grad") || name.starts_with('d') && name.len() <= 4
}

/// The places of the tensors that `function` writes in place: those that its body tells of, or else, where it returns none,
/// those that are named so.
fn find_written_parameters(function: &FunctionSignature, types: &TypeNames) -> Vec<usize> {
    let parameters = function.parameters.iter().enumerate();
    let tensors: Vec<(usize, &Parameter)> =
        parameters.filter(|(_, parameter)| names_tensor(&parameter.ty)).collect();
    let written = tensors.iter().filter(|(_, tensor)| tensor.access == ParameterAccess::Written);
    let written: Vec<usize> = written.map(|(place, _)| *place).collect();
    if !written.is_empty() || names_tensor(&function.returns) {
        return written;
    }
    let names: Vec<&str> = tensors.iter().map(|(_, parameter)| parameter.name.as_str()).collect();
    let is_output = |parameter: &Parameter| {
        let name = parameter.name.as_str();
        OUTPUT_NAMES.iter().any(|word| name == *word || name.starts_with(&format!("{word}_")))
            || name.ends_with("_out")
            || primal_names(name).any(|primal| names.contains(&primal))
    };
    let open_tensors = tensors.iter().filter(|(_, tensor)| {
        !tensor.ty.starts_with("const ") && tensor.access != ParameterAccess::Read
    });
    let open_tensors: Vec<&(usize, &Parameter)> = open_tensors.collect();
    let named = open_tensors.iter().filter(|(_, tensor)| is_output(tensor));
    let named: Vec<usize> = named.map(|(place, _)| *place).collect();
    // What lists hold is an output each.
    if named.is_empty() && open_tensors.iter().any(|(_, tensor)| names_tensor_list(&tensor.ty)) {
        return Vec::new();
    }
    if named.is_empty() {
        let holds_integers = |parameter: &Parameter| {
            let element = function.tensors.elements.get(&parameter.name);
            element.and_then(|ty| types.dtype(ty)).is_some_and(|dtype| !dtype.is_float())
        };
        let first = open_tensors.iter().find(|(_, tensor)| !holds_integers(tensor));
        return first.map(|(place, _)| *place).into_iter().collect();
    }
    named
}
