//! The two passes of an operation as Python calls them: of each `torch.autograd.Function`, which tensors it passes to functions
//! of C++, which of their results it returns, and which gradient it returns for which argument. Pure: texts of Python in.

use std::collections::BTreeMap;

use super::python_syntax::{
    PythonArgument, PythonExpression, PythonLine, list_python_lines, parse_python, split_assignment,
};

/// A function that calls another is followed through no more than these.
const MOST_CALLERS: usize = 4;
/// Members that give a tensor with the same elements, in another place, order or shape.
const VIEWS: [&str; 22] = [
    "contiguous",
    "detach",
    "clone",
    "cuda",
    "to",
    "type_as",
    "type",
    "float",
    "half",
    "bfloat16",
    "double",
    "int",
    "long",
    "view",
    "reshape",
    "permute",
    "transpose",
    "flatten",
    "squeeze",
    "unsqueeze",
    "expand",
    "view_as",
];

/// Both passes of one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PythonPasses {
    /// The calls of functions of C++, in order.
    pub calls: Vec<PassedCall>,
    /// So many of them are of the forward pass.
    pub forward_calls: usize,
    /// All tensors and other arguments of Python, by their number.
    pub tensors: Vec<PassedTensor>,
    /// A gradient, and the argument whose gradient it is.
    pub gradients: Vec<(usize, usize)>,
    /// What the forward pass returns, and the gradient that flows into it.
    pub flows: Vec<(usize, usize)>,
}

/// A call of a function of C++.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedCall {
    /// The function's name in Python.
    pub function: String,
    /// Each with its keyword, if it has one.
    pub arguments: Vec<(Option<String>, PassedValue)>,
    /// The tensors that it returns.
    pub results: Vec<usize>,
}

/// A tensor, or another argument of which Python does not tell what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedTensor {
    /// Apart from all others.
    pub name: String,
    /// Whether Python makes it for the call to write into.
    pub is_made: bool,
    /// Whether it has no element before the call.
    pub is_empty: bool,
    /// Its sizes, as far as they are known.
    pub shape: Vec<PassedSize>,
    /// The name of its dtype in Python, where that tells one.
    pub dtype: Option<String>,
}

/// What Python passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassedValue {
    /// The tensor of this number.
    Tensor(usize),
    /// A literal, as C++ writes it.
    Literal(String),
    None,
    Size(PassedSize),
    List(Vec<PassedValue>),
    /// All sizes of the tensor of this number.
    Shape(usize),
    Unknown,
}

/// A size, as Python computes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PassedSize {
    Number(usize),
    /// The size of a tensor along a dimension, and so much more.
    Of {
        tensor: usize,
        dimension: usize,
        offset: isize,
    },
    /// The argument of this number.
    Argument(usize),
    Product(Vec<PassedSize>),
    Unknown,
}

/// What a function of C++ returns: the names of its results, and whether Python gets them as one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoundResults {
    pub names: Vec<String>,
    pub is_list: bool,
}

/// A function of Python.
#[derive(Debug)]
struct PythonFunction {
    /// Each with its default.
    parameters: Vec<(String, Option<PythonExpression>)>,
    body: Vec<PythonLine>,
}

/// The functions of one text.
#[derive(Debug, Default)]
struct PythonModule {
    functions: BTreeMap<String, PythonFunction>,
    /// By class, its methods.
    classes: Vec<(String, BTreeMap<String, PythonFunction>)>,
}

/// Both passes of each operation in `texts` that calls functions of C++ forward and backward. `find_results` says what the
/// function with a name of Python and so many arguments returns; none if that is none of C++.
pub fn find_python_passes(
    texts: &[String],
    find_results: &dyn Fn(&str, usize) -> Option<BoundResults>,
) -> Vec<PythonPasses> {
    let mut found = Vec::new();
    for text in texts.iter().filter(|text| text.contains("backward")) {
        let module = read_module(text);
        for (class, methods) in &module.classes {
            let (Some(forward), Some(backward)) = (methods.get("forward"), methods.get("backward"))
            else {
                continue;
            };
            let mut reader = PassReader {
                module: &module,
                find_results,
                passes: PythonPasses::default(),
                context: BTreeMap::new(),
                callers: 0,
            };
            // What another operation applies is its gradient, whose own arguments depend on one another.
            let is_applied = module.classes.iter().any(|(_, others)| applies(others, class));
            if !is_applied && reader.read_operation(forward, backward) {
                found.push(reader.passes);
            }
        }
    }
    found
}

/// Whether one of `methods` applies the operation `class`.
fn applies(methods: &BTreeMap<String, PythonFunction>, class: &str) -> bool {
    let application = format!("{class}.apply(");
    let mut lines = methods.values().flat_map(|function| &function.body);
    lines.any(|line| line.text.contains(&application))
}

fn read_module(text: &str) -> PythonModule {
    let lines = list_python_lines(text);
    let mut module = PythonModule::default();
    let mut place = 0;
    while let Some(line) = lines.get(place) {
        let end = find_block_end(&lines, place);
        if let Some((name, function)) = read_function(line, &lines[place + 1..end]) {
            module.functions.insert(name, function);
        } else if let Some(header) = line.text.strip_prefix("class ") {
            let name: String = header.chars().take_while(|c| is_word(*c)).collect();
            if header[name.len()..].contains("Function") {
                module.classes.push((name, read_methods(&lines[place + 1..end])));
            }
        }
        place = end;
    }
    module
}

fn read_methods(lines: &[PythonLine]) -> BTreeMap<String, PythonFunction> {
    let mut methods = BTreeMap::new();
    let mut place = 0;
    while let Some(line) = lines.get(place) {
        let end = find_block_end(lines, place);
        methods.extend(read_function(line, &lines[place + 1..end]));
        place = end;
    }
    methods
}

/// The place behind the block of the line at `place`.
fn find_block_end(lines: &[PythonLine], place: usize) -> usize {
    let indent = lines[place].indent;
    let block = lines[place + 1..].iter().take_while(|line| line.indent > indent);
    place + 1 + block.count()
}

fn read_function(line: &PythonLine, body: &[PythonLine]) -> Option<(String, PythonFunction)> {
    let header = line.text.strip_prefix("def ")?;
    let name: String = header.chars().take_while(|c| is_word(*c)).collect();
    let list = header[name.len()..].strip_prefix('(')?;
    let list = &list[..find_close(list)?];
    let mut parameters = Vec::new();
    for parameter in split_commas(list) {
        let (typed, default) = match parameter.split_once('=') {
            Some((typed, default)) => (typed, Some(parse_python(default))),
            None => (parameter, None),
        };
        let own_name = typed.split(':').next().unwrap_or_default().trim();
        if !own_name.is_empty() {
            parameters.push((own_name.to_owned(), default));
        }
    }
    Some((name, PythonFunction { parameters, body: body.to_vec() }))
}

/// The place of the bracket that closes what stands before `text`.
fn find_close(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (place, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' if depth == 0 => return Some(place),
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// The parts of `text` between commas outside of brackets.
fn split_commas(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut depth = 0_usize;
    let mut begin = 0;
    for (place, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[begin..place]);
                begin = place + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    parts
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Words that begin lines with a condition for those in them, and the other branches of these.
const CONDITIONS: [&str; 4] = ["if", "for", "while", "try"];
const BRANCHES: [&str; 4] = ["else", "elif", "except", "finally"];

/// A line with a condition around others.
struct PythonBranch {
    indent: usize,
    /// The calls before it.
    calls: usize,
    /// Whether an earlier branch has called what this one calls in another way.
    is_skipped: bool,
}

/// The names that a function of Python knows.
#[derive(Clone, Debug, Default)]
struct Scope {
    values: BTreeMap<String, PassedValue>,
    /// What calls its context: the first parameter of a pass.
    context: Option<String>,
}

/// Follows the passes of an operation.
struct PassReader<'m> {
    module: &'m PythonModule,
    find_results: &'m dyn Fn(&str, usize) -> Option<BoundResults>,
    passes: PythonPasses,
    /// What the forward pass keeps, by attribute; saved tensors among them.
    context: BTreeMap<String, PassedValue>,
    callers: usize,
}

/// The attribute of a context with what `save_for_backward` took.
const SAVED: &str = "saved_tensors";

impl PassReader<'_> {
    /// Follows `forward` and `backward`. Whether both call a function of C++.
    fn read_operation(&mut self, forward: &PythonFunction, backward: &PythonFunction) -> bool {
        let mut scope = Scope::default();
        let mut primals = Vec::new();
        for (place, (name, _)) in forward.parameters.iter().enumerate() {
            if place == 0 {
                scope.context = Some(name.clone());
                continue;
            }
            let tensor = self.add_tensor(name, false);
            primals.push(tensor);
            scope.values.insert(name.clone(), PassedValue::Tensor(tensor));
        }
        let returned = flatten(self.run(&forward.body, &mut scope));
        self.passes.forward_calls = self.passes.calls.len();
        if self.passes.forward_calls == 0 {
            return false;
        }
        let mut scope = Scope::default();
        for (place, (name, _)) in backward.parameters.iter().enumerate() {
            if place == 0 {
                scope.context = Some(name.clone());
                continue;
            }
            let upstream = self.add_tensor(name.trim_start_matches('*'), false);
            if let Some(PassedValue::Tensor(output)) = returned.get(place - 1) {
                self.passes.flows.push((*output, upstream));
            }
            let value = PassedValue::Tensor(upstream);
            let value = if name.starts_with('*') { PassedValue::List(vec![value]) } else { value };
            scope.values.insert(name.trim_start_matches('*').to_owned(), value);
        }
        let gradients = flatten(self.run(&backward.body, &mut scope));
        for (gradient, primal) in gradients.into_iter().zip(primals) {
            if let PassedValue::Tensor(gradient) = gradient {
                self.passes.gradients.push((gradient, primal));
            }
        }
        self.passes.calls.len() > self.passes.forward_calls
    }

    /// Adds a tensor, whose name is `name` or alike.
    fn add_tensor(&mut self, name: &str, is_made: bool) -> usize {
        let name = self.name_apart(name);
        let tensor =
            PassedTensor { name, is_made, is_empty: false, shape: Vec::new(), dtype: None };
        self.passes.tensors.push(tensor);
        self.passes.tensors.len() - 1
    }

    fn name_apart(&self, name: &str) -> String {
        let is_taken = |name: &str| self.passes.tensors.iter().any(|tensor| tensor.name == name);
        if !is_taken(name) {
            return name.to_owned();
        }
        let mut numbered = (2..).map(|number| format!("{name}_{number}"));
        numbered.find(|name| !is_taken(name)).unwrap_or_default()
    }

    /// Follows the lines of a function. Gives what it returns.
    fn run(&mut self, body: &[PythonLine], scope: &mut Scope) -> PassedValue {
        let mut returned = None;
        let mut branches: Vec<PythonBranch> = Vec::new();
        for line in body {
            let is_other = BRANCHES.iter().any(|word| starts_with_word(&line.text, word));
            while branches.last().is_some_and(|branch| {
                branch.indent > line.indent || branch.indent == line.indent && !is_other
            }) {
                branches.pop();
            }
            if CONDITIONS.iter().any(|word| starts_with_word(&line.text, word)) {
                let calls = self.passes.calls.len();
                branches.push(PythonBranch { indent: line.indent, calls, is_skipped: false });
                continue;
            }
            if is_other && let Some(branch) = branches.last_mut() {
                branch.is_skipped = self.passes.calls.len() > branch.calls;
            }
            let is_skipped = branches.iter().any(|branch| branch.is_skipped);
            if is_skipped || is_other || starts_with_word(&line.text, "with") {
                continue;
            }
            let is_conditional = !branches.is_empty();
            if let Some(asserted) = line.text.strip_prefix("assert ") {
                self.take_assertion(asserted, scope);
                continue;
            }
            if let Some(value) = line.text.strip_prefix("return") {
                let value = self.evaluate(&parse_python(value), scope);
                if !is_conditional || returned.is_none() {
                    returned = Some(value);
                }
                continue;
            }
            self.run_statement(&line.text, scope, is_conditional);
        }
        returned.unwrap_or(PassedValue::Unknown)
    }

    fn run_statement(&mut self, text: &str, scope: &mut Scope, is_conditional: bool) {
        let Some((targets, expression)) = split_assignment(text) else {
            let expression = parse_python(text);
            if let PythonExpression::Call(callee, arguments) = &expression
                && let PythonExpression::Attribute(object, name) = &**callee
                && name == "save_for_backward"
                && is_context(object, scope)
            {
                let saved = self.evaluate_arguments(arguments, scope);
                let saved = saved.into_iter().map(|(_, value)| value).collect();
                self.context.insert(SAVED.to_owned(), PassedValue::List(saved));
                return;
            }
            self.evaluate(&expression, scope);
            return;
        };
        // Another branch has given it.
        if is_conditional && targets.iter().any(|target| is_known(target, scope)) {
            return;
        }
        let value = self.evaluate(&expression, scope);
        for target in &targets {
            self.assign(target, value.clone(), scope);
        }
    }

    fn assign(&mut self, target: &PythonExpression, value: PassedValue, scope: &mut Scope) {
        match target {
            PythonExpression::Name(name) => {
                // What Python computes before the first call is as good as an argument.
                let value = match value {
                    PassedValue::Unknown if self.passes.calls.is_empty() => {
                        PassedValue::Tensor(self.add_tensor(name, false))
                    }
                    value => value,
                };
                self.take_name(&value, name);
                scope.values.insert(name.clone(), value);
            }
            PythonExpression::Attribute(object, name) if is_context(object, scope) => {
                self.context.insert(name.clone(), value);
            }
            PythonExpression::List(targets) => {
                let values = match value {
                    PassedValue::List(values) => values,
                    PassedValue::Shape(tensor) => (0..targets.len())
                        .map(|dimension| self.size_of(tensor, dimension))
                        .collect(),
                    // An argument that is a tuple.
                    PassedValue::Tensor(_) => (0..targets.len())
                        .map(|_| PassedValue::Tensor(self.add_tensor(PROVISIONAL, false)))
                        .collect(),
                    _ => Vec::new(),
                };
                for (place, target) in targets.iter().enumerate() {
                    let value = values.get(place).cloned().unwrap_or(PassedValue::Unknown);
                    self.assign(target, value, scope);
                }
            }
            // A tensor that Python fills is none for a call to write.
            PythonExpression::Index(object, _) | PythonExpression::Slice(object, _, _) => {
                if let PassedValue::Tensor(tensor) = self.evaluate(object, scope) {
                    self.passes.tensors[tensor].is_made = false;
                }
            }
            _ => {}
        }
    }

    /// Names a tensor that has no name but that of a result.
    fn take_name(&mut self, value: &PassedValue, name: &str) {
        let PassedValue::Tensor(tensor) = value else { return };
        let is_provisional = self.passes.tensors[*tensor].name.starts_with(PROVISIONAL);
        if is_provisional {
            self.passes.tensors[*tensor].name = self.name_apart(name);
        }
    }

    /// The size of `tensor` along `dimension`, which it has then.
    fn size_of(&mut self, tensor: usize, dimension: usize) -> PassedValue {
        let shape = &mut self.passes.tensors[tensor].shape;
        while shape.len() <= dimension {
            let dimension = shape.len();
            shape.push(PassedSize::Of { tensor, dimension, offset: 0 });
        }
        PassedValue::Size(shape[dimension].clone())
    }

    fn evaluate(&mut self, expression: &PythonExpression, scope: &mut Scope) -> PassedValue {
        match expression {
            PythonExpression::Name(name) => match name.as_str() {
                "None" => PassedValue::None,
                "True" => PassedValue::Literal("true".to_owned()),
                "False" => PassedValue::Literal("false".to_owned()),
                name => scope.values.get(name).cloned().unwrap_or(PassedValue::Unknown),
            },
            PythonExpression::Number(number) => PassedValue::Literal(number.clone()),
            PythonExpression::Text(text) => PassedValue::Literal(format!("{text:?}")),
            PythonExpression::List(elements) => {
                let mut values = Vec::new();
                for element in elements {
                    match element {
                        PythonExpression::Starred(inner) => {
                            values.extend(self.list_elements(inner, scope));
                        }
                        element => values.push(self.evaluate(element, scope)),
                    }
                }
                PassedValue::List(values)
            }
            PythonExpression::Attribute(object, name) => {
                self.evaluate_attribute(object, name, scope)
            }
            PythonExpression::Call(callee, arguments) => {
                self.evaluate_call(callee, arguments, scope)
            }
            PythonExpression::Index(indexed, index) => {
                let indexed = self.evaluate(indexed, scope);
                let index = self.evaluate(index, scope);
                self.take_element(indexed, &index)
            }
            PythonExpression::Slice(sliced, begin, end) => {
                let sliced = self.evaluate(sliced, scope);
                let mut bound = |bound: &Option<Box<PythonExpression>>| match bound {
                    Some(bound) => read_index(&self.evaluate(bound, scope)).map(Some),
                    None => Some(None),
                };
                match (sliced, bound(begin), bound(end)) {
                    (PassedValue::List(values), Some(begin), Some(end)) => {
                        let begin = begin.unwrap_or(0).min(values.len());
                        let end = end.unwrap_or(values.len()).clamp(begin, values.len());
                        PassedValue::List(values[begin..end].to_vec())
                    }
                    _ => PassedValue::Unknown,
                }
            }
            PythonExpression::Binary(sign, left, right) => {
                let left = self.evaluate(left, scope);
                let right = self.evaluate(right, scope);
                compute(*sign, left, right)
            }
            PythonExpression::Choice(one, other) => {
                let one = self.evaluate(one, scope);
                match one {
                    PassedValue::None | PassedValue::Unknown => self.evaluate(other, scope),
                    one => one,
                }
            }
            PythonExpression::Starred(_) | PythonExpression::Other => PassedValue::Unknown,
        }
    }

    /// The elements of what `expression` gives.
    fn list_elements(
        &mut self,
        expression: &PythonExpression,
        scope: &mut Scope,
    ) -> Vec<PassedValue> {
        flatten(self.evaluate(expression, scope))
    }

    fn evaluate_attribute(
        &mut self,
        object: &PythonExpression,
        name: &str,
        scope: &mut Scope,
    ) -> PassedValue {
        if is_context(object, scope) {
            return self.context.get(name).cloned().unwrap_or(PassedValue::Unknown);
        }
        match (self.evaluate(object, scope), name) {
            (PassedValue::Tensor(tensor), "shape") => PassedValue::Shape(tensor),
            (PassedValue::Tensor(tensor), "data") => PassedValue::Tensor(tensor),
            _ => PassedValue::Unknown,
        }
    }

    fn take_element(&mut self, indexed: PassedValue, index: &PassedValue) -> PassedValue {
        match (indexed, read_index(index)) {
            (PassedValue::Shape(tensor), Some(dimension)) => self.size_of(tensor, dimension),
            (PassedValue::List(values), Some(place)) => {
                values.get(place).cloned().unwrap_or(PassedValue::Unknown)
            }
            _ => PassedValue::Unknown,
        }
    }

    /// The arguments of a call, starred ones among them, each with its keyword.
    fn evaluate_arguments(
        &mut self,
        arguments: &[PythonArgument],
        scope: &mut Scope,
    ) -> Vec<(Option<String>, PassedValue)> {
        let mut values = Vec::new();
        for PythonArgument { keyword, value } in arguments {
            match value {
                PythonExpression::Starred(inner) => {
                    let elements = self.list_elements(inner, scope).into_iter();
                    values.extend(elements.map(|element| (None, element)));
                }
                value => values.push((keyword.clone(), self.evaluate(value, scope))),
            }
        }
        values
    }

    fn evaluate_call(
        &mut self,
        callee: &PythonExpression,
        arguments: &[PythonArgument],
        scope: &mut Scope,
    ) -> PassedValue {
        match callee {
            PythonExpression::Name(name) => {
                if let Some(function) = self.module.functions.get(name) {
                    return self.call_python(function, arguments, scope, 0);
                }
                if name == "len" {
                    let [PythonArgument { value, .. }] = arguments else {
                        return PassedValue::Unknown;
                    };
                    return match self.evaluate(value, scope) {
                        PassedValue::Tensor(tensor) => self.size_of(tensor, 0),
                        _ => PassedValue::Unknown,
                    };
                }
                if matches!(name.as_str(), "tuple" | "list" | "int")
                    && let [PythonArgument { value, .. }] = arguments
                {
                    return self.evaluate(value, scope);
                }
                self.call_bound(name, arguments, scope)
            }
            PythonExpression::Attribute(object, name) => {
                self.call_member(object, name, arguments, scope)
            }
            _ => PassedValue::Unknown,
        }
    }

    fn call_member(
        &mut self,
        object: &PythonExpression,
        name: &str,
        arguments: &[PythonArgument],
        scope: &mut Scope,
    ) -> PassedValue {
        if let PythonExpression::Name(class) = object
            && name == "apply"
            && let Some((_, methods)) = self.module.classes.iter().find(|(own, _)| own == class)
            && let Some(forward) = methods.get("forward")
        {
            return self.call_python(forward, arguments, scope, 1);
        }
        let is_module = matches!(object, PythonExpression::Name(name) if name == "torch");
        match name {
            "empty_like" | "zeros_like" => {
                let model = arguments.first().map(|model| self.evaluate(&model.value, scope));
                let made = self.add_tensor(PROVISIONAL, true);
                if let Some(PassedValue::Tensor(model)) = model {
                    self.take_shape(made, model);
                }
                return PassedValue::Tensor(made);
            }
            "empty" | "zeros" if is_module => return self.make_tensor(arguments, scope),
            "new_empty" | "new_zeros" | "new" => return self.make_tensor(arguments, scope),
            _ => {}
        }
        let own_value = self.evaluate(object, scope);
        match (own_value, name) {
            (PassedValue::Tensor(tensor), "size") => match arguments {
                [] => PassedValue::Shape(tensor),
                [PythonArgument { value, .. }] => {
                    let dimension = self.evaluate(value, scope);
                    self.take_element(PassedValue::Shape(tensor), &dimension)
                }
                _ => PassedValue::Unknown,
            },
            (PassedValue::Tensor(tensor), name) if VIEWS.contains(&name) => {
                self.take_cast(tensor, name, arguments);
                PassedValue::Tensor(tensor)
            }
            (PassedValue::Tensor(tensor), name) => {
                if name.ends_with('_') && name != "zero_" {
                    self.passes.tensors[tensor].is_made = false;
                }
                PassedValue::Unknown
            }
            _ => self.call_bound(name, arguments, scope),
        }
    }

    /// Takes in the type to which the view `name` with `arguments` casts `tensor`, if it is one of integers: another may depend on
    /// a mode.
    fn take_cast(&mut self, tensor: usize, name: &str, arguments: &[PythonArgument]) {
        let first = arguments.first().and_then(|argument| read_dtype(&argument.value));
        let cast = match name {
            "int" | "long" => Some(name.to_owned()),
            "to" | "type" => first,
            _ => None,
        };
        let cast = cast.filter(|name| name.starts_with("int") || name == "long");
        if cast.is_some() {
            self.passes.tensors[tensor].dtype = cast;
        }
    }

    /// Takes in what `assert x.dtype == torch.int32` tells.
    fn take_assertion(&mut self, text: &str, scope: &Scope) {
        let sides = text.split(',').next().and_then(|asserted| asserted.split_once("=="));
        let Some((tensor, dtype)) = sides else { return };
        let tensor = tensor.trim().strip_suffix(".dtype").and_then(|name| scope.values.get(name));
        if let (Some(PassedValue::Tensor(tensor)), Some(dtype)) =
            (tensor, read_dtype(&parse_python(dtype)))
        {
            self.passes.tensors[*tensor].dtype = Some(dtype);
        }
    }

    /// A tensor for a call to write into, of the sizes in `arguments`.
    fn make_tensor(&mut self, arguments: &[PythonArgument], scope: &mut Scope) -> PassedValue {
        let positional: Vec<PythonArgument> =
            arguments.iter().filter(|argument| argument.keyword.is_none()).cloned().collect();
        let values = self.evaluate_arguments(&positional, scope);
        let mut values: Vec<PassedValue> = values.into_iter().map(|(_, value)| value).collect();
        if let [PassedValue::List(listed)] = &values[..] {
            values = listed.clone();
        }
        if let [PassedValue::Shape(model)] = values[..] {
            let made = self.add_tensor(PROVISIONAL, true);
            self.take_shape(made, model);
            return PassedValue::Tensor(made);
        }
        let is_empty = values.is_empty() || values == [PassedValue::Literal("0".to_owned())];
        let made = self.add_tensor(PROVISIONAL, true);
        self.passes.tensors[made].is_empty = is_empty;
        if !is_empty {
            self.passes.tensors[made].shape = values.iter().map(read_size).collect();
        }
        let is_dtype = |argument: &&PythonArgument| argument.keyword.as_deref() == Some("dtype");
        let dtype = arguments.iter().find(is_dtype);
        self.passes.tensors[made].dtype = dtype.and_then(|dtype| read_dtype(&dtype.value));
        PassedValue::Tensor(made)
    }

    /// Gives the tensor `made` the shape of `model`.
    fn take_shape(&mut self, made: usize, model: usize) {
        let mut shape = self.passes.tensors[model].shape.clone();
        if shape.is_empty() {
            shape = vec![PassedSize::Of { tensor: model, dimension: usize::MAX, offset: 0 }];
        }
        self.passes.tensors[made].shape = shape;
    }

    /// Follows `function` of Python with `arguments` behind its first `skipped` parameters.
    fn call_python(
        &mut self,
        function: &PythonFunction,
        arguments: &[PythonArgument],
        scope: &mut Scope,
        skipped: usize,
    ) -> PassedValue {
        if self.callers == MOST_CALLERS {
            return PassedValue::Unknown;
        }
        let values = self.evaluate_arguments(arguments, scope);
        let mut own_scope = Scope::default();
        for (name, default) in &function.parameters[skipped.min(function.parameters.len())..] {
            if let Some(default) = default {
                let value = self.evaluate(default, &mut Scope::default());
                own_scope.values.insert(name.clone(), value);
            }
        }
        for (place, (keyword, value)) in values.into_iter().enumerate() {
            let name = match keyword {
                Some(keyword) => Some(keyword),
                None => function.parameters.get(skipped + place).map(|(name, _)| name.clone()),
            };
            own_scope.values.extend(name.map(|name| (name, value)));
        }
        // Another operation keeps what it needs in a context of its own.
        let kept = std::mem::take(&mut self.context);
        if skipped > 0 {
            own_scope.context = function.parameters.first().map(|(name, _)| name.clone());
        }
        self.callers += 1;
        let returned = self.run(&function.body, &mut own_scope);
        self.callers -= 1;
        self.context = kept;
        returned
    }

    /// Notes a call of a function of C++ called `name` in Python, if there is one.
    fn call_bound(
        &mut self,
        name: &str,
        arguments: &[PythonArgument],
        scope: &mut Scope,
    ) -> PassedValue {
        let arguments = self.evaluate_arguments(arguments, scope);
        let Some(bound) = (self.find_results)(name, arguments.len()) else {
            return PassedValue::Unknown;
        };
        let mut results = Vec::new();
        for _ in &bound.names {
            let result = self.add_tensor(PROVISIONAL, false);
            results.push(result);
        }
        let call = PassedCall { function: name.to_owned(), arguments, results: results.clone() };
        self.passes.calls.push(call);
        match &results[..] {
            [single] if !bound.is_list => PassedValue::Tensor(*single),
            results => PassedValue::List(
                results.iter().map(|result| PassedValue::Tensor(*result)).collect(),
            ),
        }
    }
}

/// The name of a tensor without one begins so.
const PROVISIONAL: &str = "?";

impl PassedTensor {
    /// Whether Python gives it no name.
    pub fn is_unnamed(&self) -> bool {
        self.name.starts_with(PROVISIONAL)
    }
}

fn starts_with_word(text: &str, word: &str) -> bool {
    text.strip_prefix(word).is_some_and(|rest| !rest.starts_with(is_word))
}

fn is_context(object: &PythonExpression, scope: &Scope) -> bool {
    matches!(object, PythonExpression::Name(name) if scope.context.as_ref() == Some(name))
}

/// Whether `target` has a value.
fn is_known(target: &PythonExpression, scope: &Scope) -> bool {
    match target {
        PythonExpression::Name(name) => scope
            .values
            .get(name)
            .is_some_and(|value| !matches!(value, PassedValue::None | PassedValue::Unknown)),
        PythonExpression::List(targets) => targets.iter().any(|target| is_known(target, scope)),
        _ => false,
    }
}

/// The elements of `value`, or itself.
fn flatten(value: PassedValue) -> Vec<PassedValue> {
    match value {
        PassedValue::List(values) => values,
        value => vec![value],
    }
}

/// The name of the dtype in `torch.NAME`.
fn read_dtype(expression: &PythonExpression) -> Option<String> {
    match expression {
        PythonExpression::Attribute(module, name) if matches!(&**module, PythonExpression::Name(name) if name == "torch") => {
            Some(name.clone())
        }
        _ => None,
    }
}

fn read_index(value: &PassedValue) -> Option<usize> {
    match value {
        PassedValue::Literal(text) => text.parse().ok(),
        _ => None,
    }
}

fn read_size(value: &PassedValue) -> PassedSize {
    match value {
        PassedValue::Size(size) => size.clone(),
        PassedValue::Tensor(argument) => PassedSize::Argument(*argument),
        PassedValue::Literal(text) => text.parse().map_or(PassedSize::Unknown, PassedSize::Number),
        _ => PassedSize::Unknown,
    }
}

/// What an operation of arithmetic makes of two values: of lists and of sizes.
fn compute(sign: char, left: PassedValue, right: PassedValue) -> PassedValue {
    match (sign, left, right) {
        ('+', PassedValue::List(mut left), PassedValue::List(right)) => {
            left.extend(right);
            PassedValue::List(left)
        }
        ('+' | '-', PassedValue::Size(PassedSize::Of { tensor, dimension, offset }), right) => {
            let Some(number) = read_index(&right).and_then(|number| isize::try_from(number).ok())
            else {
                return PassedValue::Unknown;
            };
            let offset = if sign == '+' { offset + number } else { offset - number };
            PassedValue::Size(PassedSize::Of { tensor, dimension, offset })
        }
        ('*', left, right) => {
            let factors =
                [read_size(&left), read_size(&right)].into_iter().flat_map(|size| match size {
                    PassedSize::Product(factors) => factors,
                    size => vec![size],
                });
            let factors: Vec<PassedSize> = factors.collect();
            // A product of tensors is none of sizes.
            let are_sizes = factors
                .iter()
                .all(|size| matches!(size, PassedSize::Number(_) | PassedSize::Of { .. }));
            if are_sizes {
                PassedValue::Size(PassedSize::Product(factors))
            } else {
                PassedValue::Unknown
            }
        }
        _ => PassedValue::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calls, the gradients and the flows of the operations in `text`, as words. `f` and `g` of the module `ext` are functions of C++:
    /// `f` returns two tensors, `g` one, and `h` none.
    fn read(text: &str) -> Vec<String> {
        let find_results = |name: &str, _: usize| {
            let results = match name {
                "f" => ["y", "z"].map(str::to_owned).to_vec(),
                "g" => vec![String::new()],
                "h" => Vec::new(),
                _ => return None,
            };
            Some(BoundResults { is_list: results.len() > 1, names: results })
        };
        let mut words = Vec::new();
        for passes in find_python_passes(&[text.to_owned()], &find_results) {
            let name = |number: &usize| passes.tensors[*number].name.clone();
            for call in &passes.calls {
                let arguments = call.arguments.iter().map(|(keyword, value)| {
                    let word = match value {
                        PassedValue::Tensor(number) => name(number),
                        PassedValue::Literal(text) => text.clone(),
                        PassedValue::Size(size) => spell_size(size, &name),
                        PassedValue::None => "None".to_owned(),
                        _ => "unknown".to_owned(),
                    };
                    keyword.iter().map(|keyword| format!("{keyword}=")).collect::<String>() + &word
                });
                let arguments = arguments.collect::<Vec<_>>().join(", ");
                let results = call.results.iter().map(name).collect::<Vec<_>>().join(", ");
                words.push(format!("{results} = {}({arguments})", call.function));
            }
            for tensor in &passes.tensors {
                let dtype = tensor.dtype.iter();
                words.extend(dtype.map(|dtype| format!("{} of {dtype}", tensor.name)));
            }
            let made = passes.tensors.iter().filter(|tensor| tensor.is_made && !tensor.is_empty);
            let made: Vec<&str> = made.map(|tensor| tensor.name.as_str()).collect();
            if !made.is_empty() {
                words.push(format!("made {}", made.join(", ")));
            }
            let pairs = |pairs: &[(usize, usize)]| {
                let pairs =
                    pairs.iter().map(|(one, other)| format!("{} of {}", name(one), name(other)));
                pairs.collect::<Vec<_>>().join(", ")
            };
            words.push(format!("gradients {}", pairs(&passes.gradients)));
            words.push(format!("flows {}", pairs(&passes.flows)));
        }
        words
    }

    fn spell_size(size: &PassedSize, name: &dyn Fn(&usize) -> String) -> String {
        match size {
            PassedSize::Number(number) => number.to_string(),
            PassedSize::Of { tensor, dimension, offset } => {
                format!("{}[{dimension}]{offset:+}", name(tensor))
            }
            PassedSize::Product(factors) => {
                let factors = factors.iter().map(|factor| spell_size(factor, name));
                factors.collect::<Vec<_>>().join("*")
            }
            PassedSize::Argument(argument) => name(argument),
            PassedSize::Unknown => "unknown".to_owned(),
        }
    }

    #[test]
    fn tensors_are_followed_from_the_forward_pass_through_the_context_to_the_backward_pass() {
        let text = "\
class Cell(Function):
    @staticmethod
    def forward(ctx, x, w, *, eps=1e-5):
        '''backward'''
        outputs = ext.f(x.contiguous(), w, eps)
        y = outputs[0]
        ctx.save_for_backward(*(outputs[1:] + [w]))
        ctx.mode = 3
        return y.view(-1)

    @staticmethod
    def backward(ctx, grad_y):
        z, w = ctx.saved_tensors
        if not ctx.needs_input_grad[0]:
            return None
        dx = ext.g(grad_y.contiguous(), z, w, ctx.mode)
        return dx, None, None
";
        assert_eq!(
            read(text),
            [
                "y, z = f(x, w, eps)",
                "dx = g(grad_y, z, w, 3)",
                "gradients dx of x",
                "flows y of grad_y"
            ]
        );
    }

    #[test]
    fn sizes_and_tensors_that_python_makes_are_known() {
        let text = "\
class Grid(torch.autograd.Function):
    def forward(ctx, x, offsets, table):
        B, D = x.shape
        L = offsets.shape[0] - 1
        S = np.log2(B)
        lengths = torch.zeros_like(offsets)
        lengths[:-1] = offsets[1:]
        ones = x.new_empty(B)
        ones.fill_(1)
        assert table.dtype == torch.bfloat16, 'narrow'
        assert table.is_contiguous()
        if B > 1:
            out = torch.empty(L, B, table.size(1), device=x.device).to(torch.int)
        else:
            out = None
        with torch.no_grad():
            ext.h(x, offsets, out, B, D=D, C=table.size(1), n=L * B, S=S)
        late = out * 2
        ctx.save_for_backward(x, offsets, late)
        ctx.dims = [B, L, S]
        return out.permute(1, 0, 2)
    def backward(ctx, grad):
        x, offsets, late = ctx.saved_tensors
        B, L, S = ctx.dims
        d_table = torch.zeros(8, L * B, dtype=torch.int64)
        dx = torch.zeros_like(x)
        if x.is_cuda:
            ext.h(grad.reshape(2), x, dx, d_table, B, L, S, late)
        else:
            ext.h(x)
        return dx, None, d_table
";
        assert_eq!(
            read(text),
            [
                " = h(x, offsets, out, x[0]+0, D=x[1]+0, C=table[1]+0, n=offsets[0]-1*x[0]+0, S=S)",
                " = h(grad, x, dx, d_table, x[0]+0, offsets[0]-1, S, unknown)",
                "table of bfloat16",
                "out of int",
                "d_table of int64",
                "made out, d_table, dx",
                "gradients dx of x, d_table of table",
                "flows out of grad"
            ]
        );
    }

    #[test]
    fn functions_of_python_between_are_followed_and_an_operation_that_another_applies_is_none_of_its_own()
     {
        let text = "\
def run(x, scale=2, act=None):
    return ext.g(x, act or x, scale)
class Backward(Function):
    def forward(ctx, grad, y, slope):
        empty = grad.new_empty(0)
        dx = ext.g(grad, empty, slope)
        return dx, dx.sum(0)
    def backward(ctx, gg):
        return ext.g(gg, gg, 1)
class Act(Function):
    def forward(ctx, x, slope):
        y = run(x, slope)
        ctx.save_for_backward(y)
        ctx.slope = slope
        return y
    def backward(ctx, grad):
        y, = ctx.saved_tensors
        dx, db = Backward.apply(grad, y, ctx.slope)
        return dx, db
class Lonely(Function):
    def forward(ctx, x):
        return ext.g(x)
    def backward(ctx, grad):
        return grad * 2
";
        assert_eq!(
            read(text),
            [
                "y = g(x, unknown, slope)",
                "dx = g(grad, empty, slope)",
                "gradients dx of x",
                "flows y of grad"
            ]
        );
    }

    #[test]
    fn a_function_that_calls_itself_comes_to_an_end() {
        let text = "\
def f1(x):
    return f1(x)
class Act(Function):
    def forward(ctx, x):
        return ext.g(f1(x))
    def backward(ctx, grad):
        return ext.g(grad, ctx.nothing)
";
        assert_eq!(
            read(text),
            [
                "?_3 = g(unknown)".replace("?_3", "?"),
                "?_2 = g(grad, unknown)".to_owned(),
                "gradients ?_2 of x".to_owned(),
                "flows ? of grad".to_owned()
            ]
        );
    }
}
