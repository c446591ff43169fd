//! Drafts the call of an operation as Python makes it: the names, the literals and the pairs of gradients are those of its passes.

use std::collections::BTreeMap;

use ::replay::frontend::{FunctionSignature, ParameterAccess};

use super::python_passes::{
    BoundResults, PassedCall, PassedSize, PassedTensor, PassedValue, PythonPasses,
};
use super::tensor_calls::{names_tensor, names_tensor_list};
use super::tensor_probe::name_dimension;
use super::tied_sizes::LinearForm;
use super::types::{TypeNames, find_dtype_by_python_name};
use super::{Draft, is_number};

/// The pairs that Python tells of a draft.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ToldGradients {
    /// By gradient, the input whose gradient it is.
    pub primals: BTreeMap<String, String>,
    /// An output, and the input for the gradient that flows into it.
    pub flows: Vec<(String, String)>,
}

/// The names in a draft of what Python passes.
struct PassedNames<'p> {
    passes: &'p PythonPasses,
    /// Those of tensors and other arguments, by their number.
    tensors: Vec<String>,
    /// The parameters for sizes.
    sizes: BTreeMap<PassedSize, String>,
}

impl BoundResults {
    /// What `function` returns: names that are not told are empty.
    pub fn of(function: &FunctionSignature) -> BoundResults {
        if !names_tensor(&function.returns) {
            return BoundResults::default();
        }
        let mut names = function.tensors.results.clone();
        if names.is_empty() {
            let count = function.returns.split(' ').filter(|word| *word == "Tensor").count();
            names = vec![String::new(); count];
        }
        BoundResults { names, is_list: names_tensor_list(&function.returns) }
    }
}

impl Draft {
    /// The draft of `passes`, each of whose calls is of one of `functions`; none where Python tells no gradient.
    pub fn from_python_passes(
        passes: &PythonPasses,
        functions: &[&FunctionSignature],
        types: &TypeNames,
    ) -> Option<Draft> {
        let names = PassedNames::new(passes, functions);
        if !names.are_gradients_told(functions) {
            return None;
        }
        let mut draft = Draft::default();
        for (call, function) in passes.calls.iter().zip(functions) {
            let given = names.list_given(call, function);
            let renamed = names.rename_parameters(&draft, call, function);
            draft.add_given_tensor_call(&renamed, types, &given);
        }
        for name in names.sizes.values() {
            draft.make_size(name);
        }
        draft.take_passed_shapes(&names);
        draft.shape_primals(&names);
        draft.told = Some(names.tell_gradients());
        draft.align_gradients();
        (draft.has_gradients() && !draft.flows().is_empty()).then_some(draft)
    }

    /// Gives arguments of unknown shapes those of the gradients that Python makes for them, of listed sizes.
    fn shape_primals(&mut self, names: &PassedNames<'_>) {
        for (gradient, primal) in &names.passes.gradients {
            let is_listed = names.passes.tensors[*gradient].shape.len() > 1;
            let (gradient, primal) = (&names.tensors[*gradient], &names.tensors[*primal]);
            let shape = self.outputs.get(gradient).map(|output| output.shape.clone());
            if let (Some(shape), Some(input)) = (shape, self.inputs.get_mut(primal))
                && is_listed
                && input.shape == [name_dimension(primal, 0)]
            {
                input.shape = shape;
            }
        }
    }

    /// Gives tensors the shapes that Python tells, as far as these are known.
    fn take_passed_shapes(&mut self, names: &PassedNames<'_>) {
        for (number, tensor) in names.passes.tensors.iter().enumerate() {
            let name = &names.tensors[number];
            let Some(own_shape) = self.find_tensor(name).map(|tensor| tensor.shape.clone()) else {
                continue;
            };
            let mut shape = Vec::new();
            for (dimension, size) in tensor.shape.iter().enumerate() {
                shape.extend(self.spell_size(names, number, dimension, size, &own_shape));
            }
            shape.extend(own_shape.get(shape.len()..).unwrap_or_default().iter().cloned());
            let dtype = tensor.dtype.as_deref().and_then(find_dtype_by_python_name);
            if let Some(tensor) = self.inputs.get_mut(name).or(self.outputs.get_mut(name)) {
                tensor.shape = shape;
                if let Some(dtype) = dtype.filter(|_| tensor.is_dtype_guessed) {
                    tensor.dtype = Some(dtype);
                    tensor.is_dtype_guessed = false;
                }
            }
        }
    }

    /// The sizes in a shape for the `size` of tensor `number` along `dimension`, whose shape is `own_shape` otherwise.
    fn spell_size(
        &mut self,
        names: &PassedNames<'_>,
        number: usize,
        dimension: usize,
        size: &PassedSize,
        own_shape: &[String],
    ) -> Vec<String> {
        let own_name = name_dimension(&names.tensors[number], dimension);
        let own_size = own_shape.get(dimension).unwrap_or(&own_name).clone();
        match size {
            PassedSize::Number(size) => vec![size.to_string()],
            PassedSize::Product(factors) => {
                let factors = factors.iter();
                factors
                    .flat_map(|size| self.spell_size(names, number, dimension, size, own_shape))
                    .collect()
            }
            PassedSize::Of { tensor, dimension: usize::MAX, .. } => {
                self.shape_of(&names.tensors[*tensor]).to_vec()
            }
            PassedSize::Of { tensor, dimension, offset } => {
                if let Some(name) = names.sizes.get(size) {
                    return vec![name.clone()];
                }
                let followed = names.sizes.iter().find_map(|(known, name)| match known {
                    PassedSize::Of {
                        tensor: other,
                        dimension: other_dimension,
                        offset: known_offset,
                    } if other == tensor && other_dimension == dimension => {
                        Some((name.clone(), usize::try_from(offset - known_offset).ok()?))
                    }
                    _ => None,
                });
                if let Some((_, offset)) = followed {
                    self.known_forms.insert(own_size.clone(), LinearForm { factor: 1, offset });
                    return vec![own_size];
                }
                if *tensor == number || *offset != 0 {
                    return vec![own_size];
                }
                let shape = self.shape_of(&names.tensors[*tensor]);
                vec![shape.get(*dimension).cloned().unwrap_or(own_size)]
            }
            PassedSize::Argument(argument) => {
                let name = &names.tensors[*argument];
                vec![if self.sizes.contains(name) { name.clone() } else { own_size }]
            }
            PassedSize::Unknown => vec![own_size],
        }
    }
}

impl<'p> PassedNames<'p> {
    fn new(passes: &'p PythonPasses, functions: &[&FunctionSignature]) -> PassedNames<'p> {
        let tensors = passes.tensors.iter().map(|tensor| tensor.name.clone()).collect();
        let mut names = PassedNames { passes, tensors, sizes: BTreeMap::new() };
        for (call, function) in passes.calls.iter().zip(functions) {
            for (place, number) in call.results.iter().enumerate() {
                let result = function.tensors.results.get(place).filter(|name| !name.is_empty());
                let usual = format!("out_{place}");
                names.name_tensor(*number, result.unwrap_or(&usual));
            }
            for (place, parameter) in function.parameters.iter().enumerate() {
                match find_argument(call, function, place) {
                    Some(PassedValue::Tensor(number)) => {
                        names.name_tensor(*number, &parameter.name);
                    }
                    Some(PassedValue::Size(size)) if !names.sizes.contains_key(size) => {
                        let name = names.name_apart(&parameter.name);
                        names.sizes.insert(size.clone(), name);
                    }
                    _ => {}
                }
            }
        }
        names
    }

    /// Whether the backward pass takes what the forward pass took, was given or gave: what Python computes of it is not known, and
    /// an integer of another name alone may be anything.
    fn are_gradients_told(&self, functions: &[&FunctionSignature]) -> bool {
        let (forward, backward) =
            functions.split_at(self.passes.forward_calls.min(functions.len()));
        let mut earlier = forward.iter().flat_map(|function| &function.parameters);
        let calls = self.passes.calls.iter().skip(self.passes.forward_calls).zip(backward);
        let mut unknown = calls.flat_map(|(call, function)| {
            let parameters = function.parameters.iter().enumerate();
            parameters.filter(|(place, _)| {
                matches!(find_argument(call, function, *place), Some(PassedValue::Unknown))
            })
        });
        unknown.all(|(_, parameter)| {
            let is_number = ["int", "bool", "long"].iter().any(|word| parameter.ty.contains(word));
            is_number
                && !names_tensor(&parameter.ty)
                && earlier.all(|own| own.name != parameter.name)
        })
    }

    /// Gives tensor `number` a name like `name`, if it has none.
    fn name_tensor(&mut self, number: usize, name: &str) {
        if self.passes.tensors[number].is_unnamed()
            && self.tensors[number] == self.passes.tensors[number].name
        {
            self.tensors[number] = self.name_apart(name);
        }
    }

    fn name_apart(&self, name: &str) -> String {
        let is_taken = |name: &String| {
            self.tensors.contains(name) || self.sizes.values().any(|size| size == name)
        };
        let first = name.to_owned();
        let mut numbered = (2..).map(|number| format!("{name}_{number}"));
        match is_taken(&first) {
            true => numbered.find(|name| !is_taken(name)).unwrap_or(first),
            false => first,
        }
    }

    /// Whether a call returns the tensor or number `number`.
    fn is_result(&self, number: usize) -> bool {
        self.passes.calls.iter().any(|call| call.results.contains(&number))
    }

    /// The arguments of `call` that stand in it as texts, by their places.
    fn list_given(
        &self,
        call: &PassedCall,
        function: &FunctionSignature,
    ) -> BTreeMap<usize, String> {
        let mut given = BTreeMap::new();
        let first_tensor = call.arguments.iter().find_map(|(_, value)| match value {
            PassedValue::Tensor(number) if !self.passes.tensors[*number].is_empty => {
                Some(self.tensors[*number].clone())
            }
            _ => None,
        });
        for (place, parameter) in function.parameters.iter().enumerate() {
            let is_tensor = names_tensor(&parameter.ty);
            let text = match find_argument(call, function, place) {
                Some(PassedValue::Literal(text)) if !is_tensor && !is_fraction(text) => {
                    Some(text.clone())
                }
                Some(PassedValue::None) if parameter.ty.contains("optional") => {
                    Some("c10::nullopt".to_owned())
                }
                Some(PassedValue::None) if is_tensor => Some("at::Tensor()".to_owned()),
                Some(PassedValue::Tensor(number)) if !is_tensor && self.is_result(*number) => {
                    Some(self.tensors[*number].clone())
                }
                Some(PassedValue::Tensor(number))
                    if is_tensor
                        && self.passes.tensors[*number].is_empty
                        && !function.tensors.resized.contains(&parameter.name) =>
                {
                    let model = first_tensor.as_ref();
                    model.map(|model| format!("at::empty({{0}}, at::Tensor({model}).options())"))
                }
                _ => None,
            };
            given.extend(text.map(|text| (place, text)));
        }
        given
    }

    /// `function` with the names of Python for its parameters, its results and the tensors of its body. A tensor that Python made is written
    /// by the first call that takes it.
    fn rename_parameters(
        &self,
        draft: &Draft,
        call: &PassedCall,
        function: &FunctionSignature,
    ) -> FunctionSignature {
        let mut renamed = function.clone();
        let mut new_names = BTreeMap::new();
        let is_told = function.parameters.iter().enumerate().any(|(place, _)| {
            matches!(find_argument(call, function, place), Some(PassedValue::Tensor(number))
                if self.passes.tensors[*number].is_made && !self.passes.tensors[*number].is_empty)
        });
        for (place, parameter) in renamed.parameters.iter_mut().enumerate() {
            let old_name = parameter.name.clone();
            match find_argument(call, function, place) {
                Some(PassedValue::Tensor(number)) => {
                    let PassedTensor { is_made, .. } = &self.passes.tensors[*number];
                    parameter.name.clone_from(&self.tensors[*number]);
                    let is_resized = function.tensors.resized.contains(&old_name);
                    if is_told && !is_resized && names_tensor(&parameter.ty) {
                        let is_first = draft.find_tensor(&parameter.name).is_none();
                        let is_read = parameter.access == ParameterAccess::Read;
                        parameter.access = if *is_made && is_first && !is_read {
                            ParameterAccess::Written
                        } else {
                            ParameterAccess::Read
                        };
                    }
                }
                Some(PassedValue::Size(size)) => {
                    if let Some(name) = self.sizes.get(size) {
                        parameter.name.clone_from(name);
                    }
                }
                // What Python computes is no argument of its own by the same name.
                _ if self.tensors.contains(&old_name) => {
                    parameter.name = self.name_apart(&old_name);
                }
                _ => {}
            }
            new_names.insert(old_name, parameter.name.clone());
        }
        for (place, number) in call.results.iter().enumerate() {
            let name = self.tensors[*number].clone();
            match renamed.tensors.results.get_mut(place) {
                Some(result) => {
                    new_names.insert(result.clone(), name.clone());
                    *result = name;
                }
                None => renamed.tensors.results.push(name),
            }
        }
        rename_body(&mut renamed, &new_names);
        renamed
    }

    /// The pairs of gradients, by their names.
    fn tell_gradients(&self) -> ToldGradients {
        let name = |number: &usize| self.tensors[*number].clone();
        let pair = |(one, other): &(usize, usize)| (name(one), name(other));
        ToldGradients {
            primals: self.passes.gradients.iter().map(pair).collect(),
            flows: self.passes.flows.iter().map(pair).collect(),
        }
    }
}

/// What Python passes for the parameter at `place`.
fn find_argument<'c>(
    call: &'c PassedCall,
    function: &FunctionSignature,
    place: usize,
) -> Option<&'c PassedValue> {
    let name = &function.parameters.get(place)?.name;
    let named = call.arguments.iter().find(|(keyword, _)| keyword.as_ref() == Some(name));
    let positional = call.arguments.get(place).filter(|(keyword, _)| keyword.is_none());
    named.or(positional).map(|(_, value)| value)
}

/// Whether a literal is a number that is no integer: it stays an input.
fn is_fraction(text: &str) -> bool {
    is_number(text.trim_start_matches('-')) && text.parse::<i64>().is_err()
}

/// Puts `new_names` in the place of the names in what the body of `function` tells.
fn rename_body(function: &mut FunctionSignature, new_names: &BTreeMap<String, String>) {
    let rename = |name: &mut String| {
        if !name.is_empty()
            && let Some(new_name) = new_names.get(name)
        {
            name.clone_from(new_name);
        }
    };
    let rename_owned = |mut name: String| {
        rename(&mut name);
        name
    };
    let body = &mut function.tensors;
    body.shapes = std::mem::take(&mut body.shapes)
        .into_iter()
        .map(|(tensor, mut shape)| {
            shape.iter_mut().for_each(rename);
            (rename_owned(tensor), shape)
        })
        .collect();
    body.models = std::mem::take(&mut body.models)
        .into_iter()
        .map(|(tensor, model)| (rename_owned(tensor), rename_owned(model)))
        .collect();
    body.elements = std::mem::take(&mut body.elements)
        .into_iter()
        .map(|(tensor, element)| (rename_owned(tensor), element))
        .collect();
    body.resized = std::mem::take(&mut body.resized).into_iter().map(rename_owned).collect();
    body.on_host = std::mem::take(&mut body.on_host).into_iter().map(rename_owned).collect();
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ::replay::frontend::{SourceUnit, find_function_signatures, scan_symbols};
    use ::replay::harness::Harness;

    use super::super::{DraftedBuild, find_python_passes};
    use super::*;

    /// The draft of the operation in `python` with the functions of `cuda`, from its call on.
    fn draft(cuda: &str, python: &str) -> Option<String> {
        let unit = SourceUnit { path: "k.cu", text: cuda };
        let found = find_function_signatures(&unit, &scan_symbols(&[unit]));
        let find = |name: &str| found.iter().find(|function| function.name == name);
        let find_results = |name: &str, _: usize| find(name).map(BoundResults::of);
        let passes = find_python_passes(&[python.to_owned()], &find_results).remove(0);
        let functions: Vec<&FunctionSignature> =
            passes.calls.iter().filter_map(|call| find(&call.function)).collect();
        let types = TypeNames::from_texts([cuda]);
        let draft = Draft::from_python_passes(&passes, &functions, &types)?;
        let build = DraftedBuild { sources: vec!["k.cu".to_owned()], ..DraftedBuild::default() };
        let text = draft.text(&build);
        Harness::parse(&text, Path::new("replay.toml")).unwrap();
        Some(text.split_once("call = ").unwrap().1.to_owned())
    }

    #[test]
    fn one_function_for_both_passes_is_called_twice_with_what_python_passes() {
        let cuda = "at::Tensor act(const at::Tensor& input, const at::Tensor& bias, const at::Tensor& refer, int act, int grad, float alpha) {\n\
                        auto y = at::empty_like(input);\n\
                        k<<<1, 1>>>(y.data_ptr<float>(), input.data_ptr<float>(), bias.data_ptr<float>(), act, grad, alpha);\n\
                        return y;\n\
                    }\n";
        let python = "\
class Act(Function):
    def forward(ctx, x, bias, slope):
        empty = x.new_empty(0)
        out = ext.act(x, bias, empty, 3, 0, slope)
        ctx.save_for_backward(out)
        ctx.slope = slope
        return out
    def backward(ctx, grad_output):
        out, = ctx.saved_tensors
        empty = out.new_empty(0)
        grad_input = ext.act(grad_output, empty, out, 3, 1, ctx.slope)
        return grad_input, grad_input.sum(0), None
";
        insta::assert_snapshot!(draft(cuda, python).unwrap(), @r#"
        """
        out = act(x, bias, at::empty({0}, at::Tensor(x).options()), 3, 0, slope);
        grad_input = act(grad_output, at::empty({0}, at::Tensor(grad_output).options()), out, 3, 1, slope);
        """

        [inputs.x]
        dtype = "f32"
        shape = ["x_0"] # EDIT

        [inputs.bias]
        dtype = "f32"
        shape = ["bias_0"] # EDIT

        [inputs.slope]
        dtype = "f32"
        shape = []

        [inputs.grad_output]
        dtype = "f32"
        shape = ["x_0"] # EDIT

        [outputs.out]
        dtype = "f32"
        shape = ["x_0"] # EDIT

        [outputs.grad_input]
        dtype = "f32"
        shape = ["x_0"] # EDIT
        gradient_of = "x" # EDIT
        of = "out" # EDIT
        upstream = "grad_output" # EDIT
    "#);
    }

    #[test]
    fn tensors_that_python_makes_are_outputs_of_its_shapes() {
        let cuda = "void encode(const at::Tensor inputs, const at::Tensor table, const at::Tensor offsets, at::Tensor outputs, at::optional<at::Tensor> dy_dx, const uint32_t B, const uint32_t D, const uint32_t C, const uint32_t L) {\n\
                        k<<<B, L>>>(inputs.data_ptr<float>(), table.data_ptr<float>(), offsets.data_ptr<int>(), outputs.data_ptr<float>(), D, C);\n\
                    }\n\
                    void encode_grad(const at::Tensor grad, const at::Tensor inputs, const at::Tensor offsets, at::Tensor d, const uint32_t n, const uint32_t C, const uint32_t L) {\n\
                        k<<<n, L>>>(grad.data_ptr<float>(), inputs.data_ptr<float>(), offsets.data_ptr<int>(), d.data_ptr<float>(), C);\n\
                    }\n";
        let python = "\
class Encode(Function):
    def forward(ctx, x, table, offsets):
        B, D = x.shape
        L = offsets.shape[0] - 1
        C = table.shape[1]
        outputs = torch.empty(L, B, C)
        ext.encode(x, table, offsets, outputs, None, B, D, C, L)
        ctx.save_for_backward(x, table, offsets)
        ctx.dims = [B, C, L]
        return outputs.permute(1, 0, 2).reshape(B, L * C)
    def backward(ctx, grad):
        x, table, offsets = ctx.saved_tensors
        B, C, L = ctx.dims
        grad = grad.view(B, L, C).permute(1, 0, 2).contiguous()
        grad_table = torch.zeros_like(table)
        ext.encode_grad(grad, x, offsets, grad_table, B, C, L)
        return None, grad_table, None
";
        insta::assert_snapshot!(draft(cuda, python).unwrap(), @r#"
        """
        encode(x, table, offsets, outputs, c10::nullopt, B, D, C, L);
        encode_grad(grad, x, offsets, grad_table, B, C, L);
        """

        [inputs.x]
        dtype = "f32"
        shape = ["B", "D"] # EDIT

        [inputs.table]
        dtype = "f32"
        shape = ["table_0", "C"] # EDIT

        [inputs.offsets]
        dtype = "i32"
        shape = ["offsets_0"] # EDIT

        [inputs.grad]
        dtype = "f32"
        shape = ["L", "B", "C"] # EDIT

        [outputs.outputs]
        dtype = "f32"
        shape = ["L", "B", "C"] # EDIT

        [outputs.grad_table]
        dtype = "f32"
        shape = ["table_0", "C"] # EDIT
        gradient_of = "table" # EDIT
        of = "outputs" # EDIT
        upstream = "grad" # EDIT
    "#);
    }

    #[test]
    fn nothing_is_drafted_where_python_computes_what_the_backward_pass_takes() {
        let cuda = "at::Tensor blur(at::Tensor x, at::Tensor kernel) {\n\
                        auto y = at::empty_like(x);\n\
                        k<<<1, 1>>>(y.data_ptr<float>(), x.data_ptr<float>(), kernel.data_ptr<float>());\n\
                        return y;\n\
                    }\n";
        let python = |kernel: &str| {
            format!(
                "class Blur(Function):\n\
                \x20   def forward(ctx, x, kernel):\n\
                \x20       ctx.save_for_backward(kernel)\n\
                \x20       return ext.blur(x, kernel)\n\
                \x20   def backward(ctx, grad):\n\
                \x20       kernel, = ctx.saved_tensors\n\
                \x20       return ext.blur(grad, {kernel}), None\n"
            )
        };
        assert_eq!(draft(cuda, &python("torch.flip(kernel, [0, 1])")), None);
        assert!(draft(cuda, &python("kernel")).is_some());
    }
}
