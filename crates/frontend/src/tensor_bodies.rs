//! What the body of a function of tensors tells of them: the names of its results, sizes by their names, types of
//! elements. And the names that an extension has in Python. Guesses for a draft: follows no calls.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::SourceUnit;
use super::lexer::{TokenKind, Tokens};
use super::source::Source;

/// What a body tells of the tensors in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorBody {
    /// The results of the longest `return`, of equal ones the last, in order; the name of a result that is an expression is empty.
    pub results: Vec<String>,
    /// Where no result is named, the function of a last `return f(...);`.
    pub forwards_to: Option<String>,
    /// By tensor, the names or numbers of its sizes; a name is empty where only later sizes are read.
    pub shapes: BTreeMap<String, Vec<String>>,
    /// By tensor, the tensor whose shape it was made with.
    pub models: BTreeMap<String, String>,
    /// By tensor, the type in `data_ptr<TYPE>()` or in an accessor.
    pub elements: BTreeMap<String, String>,
    /// Tensors that get other sizes: `NAME.resize_(...)`.
    pub resized: BTreeSet<String>,
    /// Tensors whose elements host code reads: `NAME.data_ptr<int>()[0]`, `NAME.accessor<int, 1>()`, `CHECK_CPU(NAME)`.
    pub on_host: BTreeSet<String>,
    /// By list of lists, how many it has at least: `NAME[3][0]`, or `apply<4>(NAME)`.
    pub list_counts: BTreeMap<String, usize>,
}

/// A function with another name in Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PythonName {
    /// The name in Python.
    pub name: String,
    /// The function of C++.
    pub function: String,
    /// The 1-based line of the binding.
    pub line: usize,
}

/// Functions for a tensor shaped like another.
const LIKE: [&str; 6] =
    ["empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"];
/// Functions for a tensor of listed sizes.
const OF_SIZES: [&str; 6] = ["empty", "zeros", "ones", "full", "new_empty", "new_zeros"];
/// Members of a tensor whose template's first argument is the type of the elements.
const TYPED_MEMBERS: [&str; 4] = ["data_ptr", "const_data_ptr", "mutable_data_ptr", "data"];
/// The same with the number of dimensions as second argument.
const ACCESSORS: [&str; 4] =
    [HOST_ACCESSOR, "packed_accessor", "packed_accessor32", "packed_accessor64"];
/// The one of them for tensors in memory of the host.
const HOST_ACCESSOR: &str = "accessor";
/// Members of a tensor for one of the same shape and type.
const COPIES: [&str; 4] = ["contiguous", "clone", "detach", "value"];
/// The same, and for one of the same shape with other elements.
const SAME_SHAPE: [&str; 7] = ["contiguous", "clone", "detach", "to", "toType", "type", "type_as"];
/// No function of interest takes more lists of tensors in one.
const MOST_LISTS: usize = 8;
/// No tensor of interest has more dimensions.
const MOST_DIMENSIONS: usize = 8;

/// Whether the member `word` of a tensor leads to its elements.
pub(super) fn is_element_member(word: &str) -> bool {
    TYPED_MEMBERS.contains(&word) || ACCESSORS.contains(&word)
}

/// Reads the body in the tokens `body`.
pub(super) fn read_tensor_body(text: &str, tokens: &Tokens, body: Range<usize>) -> TensorBody {
    let mut found = TensorBody::default();
    // By name, the tensor whose sizes it holds.
    let mut lists_of_sizes: BTreeMap<&str, &str> = BTreeMap::new();
    let mut returns = Vec::new();
    // By tensor, the name of its last size; empty for none.
    let mut last_sizes: BTreeMap<&str, &str> = BTreeMap::new();
    let mut counted = BTreeSet::new();
    for index in body.clone() {
        if tokens[index].kind != TokenKind::Ident {
            continue;
        }
        match tokens[index].text(text) {
            "return" => returns.push(index),
            "size" => {
                found.read_size(text, tokens, index);
                last_sizes.extend(read_last_size(text, tokens, index));
            }
            "numel" => counted.extend(find_tensor_of_member(text, tokens, index)),
            "sizes" => lists_of_sizes.extend(read_list_of_sizes(text, tokens, index)),
            word if word.contains("CHECK") && word.contains("SHAPE") => {
                found.read_checked_shape(text, tokens, index);
            }
            word if word.contains("CHECK") && word.contains("CPU") => {
                found.on_host.extend(read_only_argument(text, tokens, index));
            }
            word if lists_of_sizes.contains_key(word) => {
                found.read_listed_size(text, tokens, index, lists_of_sizes[word]);
            }
            word if is_element_member(word) => {
                found.read_element(text, tokens, index);
            }
            "resize_" | "resize_as_" => {
                let tensor = find_tensor_of_member(text, tokens, index);
                found.resized.extend(tensor.map(str::to_owned));
            }
            word if tokens.is_spelled_at(text, index + 1, "[") => {
                found.read_list_index(word, text, tokens, index);
            }
            _ if tokens.is_spelled_at(text, index + 1, "<") => {
                found.read_list_count(text, tokens, index);
            }
            _ => {}
        }
    }
    // What is counted as rows of a last size has rows.
    for (tensor, size) in last_sizes.into_iter().filter(|(tensor, _)| counted.contains(tensor)) {
        let shape = vec![String::new(), size.to_owned()];
        found.shapes.entry(tensor.to_owned()).or_insert(shape);
    }
    for index in body.clone().filter(|&index| tokens.is_spelled_at(text, index, "=")) {
        found.read_copy(text, tokens, index);
        found.read_made_tensor(text, tokens, index);
    }
    let last_return = returns.last().copied();
    // Early returns of an empty tensor are shorter than the usual one.
    let results = returns.into_iter().map(|index| read_results(text, tokens, index + 1, body.end));
    found.results = results.max_by_key(Vec::len).unwrap_or_default();
    if let [list] = &found.results[..]
        && let Some(results) = read_listed_results(text, tokens, body, list)
    {
        found.results = results;
    }
    if found.results.is_empty() {
        found.forwards_to =
            last_return.and_then(|index| read_forwarded_call(text, tokens, index + 1));
    }
    found
}

impl TensorBody {
    /// Reads `NAME = SIZES[NUMBER]` with its `SIZES`, those of `tensor`, at `index`.
    fn read_listed_size(&mut self, text: &str, tokens: &Tokens, index: usize, tensor: &str) {
        let Some(start) = index.checked_sub(2) else { return };
        let is_read = tokens.is_spelled_at(text, index + 1, "[")
            && tokens.is_spelled_at(text, index + 3, "]")
            && tokens.is_spelled_at(text, index - 1, "=")
            && tokens[start].kind == TokenKind::Ident;
        if let Ok(dimension) = tokens.text_at(text, index + 2).parse::<usize>()
            && is_read
            && dimension < MOST_DIMENSIONS
        {
            self.name_size(tensor, dimension, tokens[start].text(text));
        }
    }

    /// Reads `LIST[NUMBER][...]` with its `list` at `index`.
    fn read_list_index(&mut self, list: &str, text: &str, tokens: &Tokens, index: usize) {
        let is_of_list = tokens.is_spelled_at(text, index + 3, "]")
            && tokens.is_spelled_at(text, index + 4, "[");
        if let Ok(number) = tokens.text_at(text, index + 2).parse::<usize>()
            && is_of_list
        {
            self.count_lists(list, number + 1);
        }
    }

    /// Reads `FUNCTION<COUNT>(..., LIST, ...)` with the function at `index`.
    fn read_list_count(&mut self, text: &str, tokens: &Tokens, index: usize) {
        let is_call = tokens.is_spelled_at(text, index + 3, ">")
            && tokens.is_spelled_at(text, index + 4, "(");
        let Ok(count) = tokens.text_at(text, index + 2).parse::<usize>() else { return };
        let Some(end) = tokens.skip_group(index + 4).filter(|_| is_call) else { return };
        for argument in tokens.split_arguments(text, index + 5..end - 1) {
            if argument.len() == 1 && tokens[argument.start].kind == TokenKind::Ident {
                self.count_lists(tokens[argument.start].text(text), count);
            }
        }
    }

    /// Notes that `list` has at least `count` lists.
    fn count_lists(&mut self, list: &str, count: usize) {
        if count <= MOST_LISTS {
            let known = self.list_counts.entry(list.to_owned()).or_default();
            *known = count.max(*known);
        }
    }

    /// Reads a macro as in `CHECK_SHAPE(TENSOR, SIZE, ...)`, whose name is at `index`.
    fn read_checked_shape(&mut self, text: &str, tokens: &Tokens, index: usize) {
        let Some(end) = tokens.skip_group(index + 1) else { return };
        let arguments = tokens.split_arguments(text, index + 2..end - 1);
        let [tensor, sizes @ ..] = &arguments[..] else { return };
        if tensor.len() != 1 || sizes.len() > MOST_DIMENSIONS {
            return;
        }
        for (dimension, size) in sizes.iter().enumerate() {
            let name = self.size_name(text, tokens, size.clone());
            self.name_size(tokens.text_at(text, tensor.start), dimension, &name);
        }
    }

    /// Notes that this size of `tensor` is called `name`, unless it has a name; empty for none.
    fn name_size(&mut self, tensor: &str, dimension: usize, name: &str) {
        let shape = self.shapes.entry(tensor.to_owned()).or_default();
        if shape.len() <= dimension {
            shape.resize(dimension + 1, String::new());
        }
        if shape[dimension].is_empty() {
            name.clone_into(&mut shape[dimension]);
        }
    }

    /// Reads `NAME = TENSOR.size(NUMBER)` with its `size` at `index`.
    fn read_size(&mut self, text: &str, tokens: &Tokens, index: usize) {
        let Some(start) = index.checked_sub(4) else { return };
        let is_read = tokens.is_spelled_at(text, index - 1, ".")
            && tokens.is_spelled_at(text, index + 1, "(")
            && tokens.is_spelled_at(text, index + 3, ")")
            && tokens[index - 2].kind == TokenKind::Ident;
        let Ok(dimension) = tokens.text_at(text, index + 2).parse::<usize>() else { return };
        if !is_read || dimension >= MOST_DIMENSIONS {
            return;
        }
        let is_named =
            tokens.is_spelled_at(text, start + 1, "=") && tokens[start].kind == TokenKind::Ident;
        let name = if is_named { tokens[start].text(text) } else { "" };
        self.name_size(tokens[index - 2].text(text), dimension, name);
    }

    /// Reads `TENSOR.data_ptr<TYPE>()` or `TENSOR.packed_accessor32<TYPE, DIMENSIONS>()` with the member at `index`.
    fn read_element(&mut self, text: &str, tokens: &Tokens, index: usize) {
        let Some(end) = tokens.skip_angles(text, index + 1) else { return };
        let Some(tensor) = find_tensor_of_member(text, tokens, index) else { return };
        let words: Vec<&str> = (index + 2..end - 1).map(|word| tokens[word].text(text)).collect();
        let mut arguments = words.split(|word| *word == ",");
        if let Some(ty) = arguments.next() {
            self.elements.entry(tensor.to_owned()).or_insert(ty.join(" "));
        }
        let is_read =
            tokens.skip_group(end).is_some_and(|next| tokens.is_spelled_at(text, next, "["));
        if tokens.is_spelled_at(text, index, HOST_ACCESSOR) || is_read {
            self.on_host.insert(tensor.to_owned());
        }
        if ACCESSORS.contains(&tokens[index].text(text))
            && let Some([dimensions]) = arguments.next()
            && let Ok(dimensions) = dimensions.parse::<usize>()
            && dimensions <= MOST_DIMENSIONS
        {
            let shape = self.shapes.entry(tensor.to_owned()).or_default();
            if shape.len() < dimensions {
                shape.resize(dimensions, String::new());
            }
        }
    }

    /// Reads `NAME = TENSOR.contiguous()` with its `=` at `index`: what is read of the copy tells of the tensor.
    fn read_copy(&mut self, text: &str, tokens: &Tokens, index: usize) {
        let word = |place: usize| tokens.text_at(text, place);
        let is_copy = word(index + 2) == "." && COPIES.contains(&word(index + 3));
        let Some(target) = index.checked_sub(1).filter(|_| is_copy) else { return };
        let (copy, tensor) = (word(target), word(index + 1));
        if let Some(shape) = self.shapes.get(copy).cloned() {
            self.shapes.entry(tensor.to_owned()).or_insert(shape);
        }
        if let Some(element) = self.elements.get(copy).cloned() {
            self.elements.entry(tensor.to_owned()).or_insert(element);
        }
    }

    /// Reads `TENSOR = torch::empty_like(OTHER)` or `TENSOR = torch::empty({SIZE, ...})` with its `=` at `index`.
    fn read_made_tensor(&mut self, text: &str, tokens: &Tokens, index: usize) {
        let Some(target) = index.checked_sub(1) else { return };
        if tokens[target].kind != TokenKind::Ident {
            return;
        }
        let name = tokens[target].text(text);
        let Some(open) = (index + 1..tokens.len().min(index + 6))
            .find(|&open| tokens.is_spelled_at(text, open, "("))
        else {
            return;
        };
        let maker = tokens[open - 1].text(text);
        let first = tokens.text_at(text, open + 1);
        if LIKE.contains(&maker) {
            self.models.entry(name.to_owned()).or_insert_with(|| first.to_owned());
        } else if OF_SIZES.contains(&maker)
            && first == "{"
            && let Some(end) = tokens.skip_group(open + 1)
        {
            let sizes = tokens.split_arguments(text, open + 2..end - 1).into_iter();
            let shape = sizes.map(|size| self.size_name(text, tokens, size)).collect();
            self.shapes.entry(name.to_owned()).or_insert(shape);
        }
    }

    /// The name or number that a size is written as; empty for any other expression.
    fn size_name(&self, text: &str, tokens: &Tokens, size: Range<usize>) -> String {
        let word = |offset: usize| tokens.text_at(text, size.start + offset);
        let is_plain = size.len() == 1
            && (tokens[size.start].kind == TokenKind::Ident || word(0).parse::<u64>().is_ok());
        if is_plain {
            return word(0).to_owned();
        }
        if size.len() == 6 && word(1) == "." && word(2) == "size" {
            let dimension = word(4).parse::<usize>().ok();
            let shape = self.shapes.get(word(0));
            let name = shape.zip(dimension).and_then(|(shape, dimension)| shape.get(dimension));
            return name.cloned().unwrap_or_default();
        }
        String::new()
    }
}

/// The tensor and the name of `NAME = TENSOR.size(-1)` with its `size` at `index`; the name is empty where there is none.
fn read_last_size<'t>(text: &'t str, tokens: &Tokens, index: usize) -> Option<(&'t str, &'t str)> {
    let mut words = ["(", "-", "1", ")"].into_iter().enumerate();
    let is_last = words.all(|(place, word)| tokens.text_at(text, index + 1 + place) == word);
    let tensor = find_tensor_of_member(text, tokens, index).filter(|_| is_last)?;
    let is_named = tokens.is_spelled_at(text, index.checked_sub(3)?, "=");
    let name = index.checked_sub(4).filter(|_| is_named);
    Some((tensor, name.map_or("", |name| tokens.text_at(text, name))))
}

/// The `NAME` of `MACRO(NAME)` with the macro at `index`.
fn read_only_argument(text: &str, tokens: &Tokens, index: usize) -> Option<String> {
    let is_only =
        tokens.is_spelled_at(text, index + 1, "(") && tokens.is_spelled_at(text, index + 3, ")");
    let argument = tokens.get(index + 2).filter(|_| is_only)?;
    (argument.kind == TokenKind::Ident).then(|| argument.text(text).to_owned())
}

/// The name and the tensor of `NAME = TENSOR.sizes()` with its `sizes` at `index`.
fn read_list_of_sizes<'t>(
    text: &'t str,
    tokens: &Tokens,
    index: usize,
) -> Option<(&'t str, &'t str)> {
    let start = index.checked_sub(4)?;
    let is_list = tokens.is_spelled_at(text, start + 1, "=")
        && tokens.is_spelled_at(text, index - 1, ".")
        && tokens.is_spelled_at(text, index + 3, ";");
    is_list.then(|| (tokens[start].text(text), tokens[start + 2].text(text)))
}

/// The results behind a `return`: `x`, `{x, y}`, `std::make_tuple(x, y)`, `std::tuple<...>(x, y)`.
fn read_results(text: &str, tokens: &Tokens, start: usize, end: usize) -> Vec<String> {
    let Some(stop) = (start..end).find(|&index| tokens.is_spelled_at(text, index, ";")) else {
        return Vec::new();
    };
    if stop == start + 1 {
        return vec![result_name(text, tokens, start..stop)];
    }
    let is_last = |open: usize| tokens.skip_group(open) == Some(stop);
    let mut opens = (start..stop)
        .filter(|&open| ["{", "("].iter().any(|bracket| tokens.is_spelled_at(text, open, bracket)));
    let Some(open) = opens.find(|&open| is_last(open)) else { return Vec::new() };
    let is_list = tokens.is_spelled_at(text, open, "{")
        || (start..open).any(|index| tokens.text_at(text, index).ends_with("tuple"))
        || (start..open).any(|index| tokens.text_at(text, index).ends_with("pair"));
    if !is_list || open + 2 == stop {
        return Vec::new();
    }
    let results = tokens.split_arguments(text, open + 1..stop - 1);
    results.into_iter().map(|result| result_name(text, tokens, result)).collect()
}

/// The function in `f(...);`, or in `f<...>(...);`, from the token `start` on.
fn read_forwarded_call(text: &str, tokens: &Tokens, start: usize) -> Option<String> {
    let mut name = start;
    while tokens.is_spelled_at(text, name + 1, "::") {
        name += 2;
    }
    let mut open = name + 1;
    if tokens.is_spelled_at(text, open, "<") {
        open = tokens.skip_angles(text, open)?;
    }
    let end = tokens.skip_group(open)?;
    let is_call = tokens.get(name)?.kind == TokenKind::Ident
        && tokens.is_spelled_at(text, open, "(")
        && tokens.is_spelled_at(text, end, ";");
    is_call.then(|| tokens[name].text(text).to_owned())
}

/// What the tokens `body` put into `list`: `std::vector<Tensor> list = {x, y}; list.push_back(z);`.
fn read_listed_results(
    text: &str,
    tokens: &Tokens,
    body: Range<usize>,
    list: &str,
) -> Option<Vec<String>> {
    let is_spelled = |index: usize, word: &str| tokens.is_spelled_at(text, index, word);
    let mut results = None;
    for index in body.filter(|&index| is_spelled(index, list)) {
        if is_spelled(index + 1, "=") && is_spelled(index + 2, "{") {
            let end = tokens.skip_group(index + 2)?;
            let items = tokens.split_arguments(text, index + 3..end - 1).into_iter();
            results = Some(items.map(|item| result_name(text, tokens, item)).collect());
        } else if is_spelled(index + 2, "push_back") && is_spelled(index + 1, ".") {
            let end = tokens.skip_group(index + 3)?;
            let added = result_name(text, tokens, index + 4..end - 1);
            results.get_or_insert_with(Vec::new).push(added);
        }
    }
    results
}

/// The name of a result: that of the variable itself, or with other elements or other memory: `x.to(...)`. Of
/// `is_given ? x : y` it is the first's.
fn result_name(text: &str, tokens: &Tokens, mut result: Range<usize>) -> String {
    let is_spelled = |index: usize, word: &str| tokens.is_spelled_at(text, index, word);
    if let Some(question) = result.clone().find(|&index| is_spelled(index, "?")) {
        let colon = (question..result.end).find(|&index| is_spelled(index, ":"));
        result = question + 1..colon.unwrap_or(result.end);
    }
    let start = result.start;
    let is_plain = result.len() == 1;
    let is_conversion = is_spelled(start + 1, ".")
        && SAME_SHAPE.contains(&tokens.text_at(text, start + 2))
        && tokens.skip_group(start + 3) == Some(result.end);
    match tokens.get(start) {
        Some(token) if token.kind == TokenKind::Ident && (is_plain || is_conversion) => {
            token.text(text).to_owned()
        }
        _ => String::new(),
    }
}

/// Whether `text` may bind functions for Python.
pub fn binds_functions(text: &str) -> bool {
    ["PYBIND11_MODULE", "TORCH_LIBRARY", "RegisterOperators"].iter().any(|word| text.contains(word))
}

/// The functions that `unit` binds for Python, `m.def("forward", &fused_forward)`.
pub fn find_python_names(unit: &SourceUnit) -> Vec<PythonName> {
    if !binds_functions(unit.text) {
        return Vec::new();
    }
    let source = Source::new(unit);
    let text = source.text;
    let tokens = source.view(true);
    let mut names = Vec::new();
    for index in 1..tokens.len() {
        let is_binding = matches!(tokens.text_at(text, index), "def" | "impl" | "op")
            && tokens.is_spelled_at(text, index - 1, ".")
            && tokens.is_spelled_at(text, index + 1, "(");
        let Some(end) = tokens.skip_group(index + 1).filter(|_| is_binding) else { continue };
        let arguments = tokens.split_arguments(text, index + 2..end - 1);
        let name = tokens.text_at(text, index + 2).trim_matches('"');
        let Some(argument) = arguments.get(1).filter(|_| !name.is_empty()) else { continue };
        let words = argument.clone().rev().map(|word| tokens[word]);
        let function = words
            .take_while(|word| !word.is_spelled(text, "&"))
            .find(|word| word.kind == TokenKind::Ident);
        if let Some(function) = function {
            let name = name.split('(').next().unwrap_or(name).to_owned();
            let function = function.text(text).to_owned();
            names.push(PythonName { name, function, line: source.line(tokens[index].start) });
        }
    }
    names
}

/// The tensor whose member is at `index`, perhaps of a copy: `x` in `x.contiguous().data_ptr`.
fn find_tensor_of_member<'t>(text: &'t str, tokens: &Tokens, index: usize) -> Option<&'t str> {
    let mut end = index.checked_sub(1)?;
    if !tokens.is_spelled_at(text, end, ".") {
        return None;
    }
    while end > 2 && tokens.is_spelled_at(text, end - 1, ")") {
        let copy = tokens.group_start(end - 1)?.checked_sub(1)?;
        end = copy.checked_sub(1)?;
        if !COPIES.contains(&tokens.text_at(text, copy)) || !tokens.is_spelled_at(text, end, ".") {
            return None;
        }
    }
    let tensor = tokens[end.checked_sub(1)?];
    (tensor.kind == TokenKind::Ident).then(|| tensor.text(text))
}

#[cfg(test)]
mod tests {
    use super::super::{find_function_signatures, scan_symbols};
    use super::*;

    const EXTENSION: &str = "\
std::vector<torch::Tensor> backward(torch::Tensor dy, torch::Tensor x, torch::Tensor w, torch::Tensor index) {
  const int rows = x.size(0), cols = x.size(1);
  const auto heads = w.size(2);
  auto g_ = g.contiguous(); const int depth = g_.size(1);
  auto dx = torch::empty_like(x);
  auto dw = torch::zeros({x.size(1), 4, rows * 2}, x.options());
  auto like = at::empty_like(dy);
  k<<<1, 1>>>(x.data_ptr<scalar_t>(), index.contiguous().data<int64_t>(), dy.packed_accessor32<float, 3, torch::RestrictPtrTraits>());
  if (rows == 0) return {};
  return {dx, dw.to(w.dtype()), like.t(), has_bias ? db.to(kFloat) : at::Tensor()};
}
std::tuple<at::Tensor, at::Tensor> pair(at::Tensor x) { auto y = x; return std::make_tuple(y, x); }
at::Tensor one(at::Tensor x) { return other(x); }
std::tuple<at::Tensor, at::Tensor> both(at::Tensor x) { return std::make_tuple(x, x.to(kInt)); }
std::tuple<at::Tensor, at::Tensor> again(at::Tensor x) { if (x.dim()) return {}; return ns::both<float>(x); }
at::Tensor checked(at::Tensor x, c10::optional<at::Tensor> b_) {
  const auto sizes = x.sizes(); const int batch = sizes[0]; const int width = sizes[1];
  auto b = b_.value(); CHECK_SHAPE(b, width, 2 * batch, 4); CHECK_SHAPE(x, batch, width, length);
  std::vector<at::Tensor> all = {x, b.value()}; if (batch) { all.push_back(b_); } return all;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def(\"forward\", &ns::one, \"a forward pass\");
  m.def(\"scale(Tensor x) -> Tensor\");
  m.def(\"backward\", backward, py::arg(\"dy\"));
}
";

    #[test]
    fn a_body_names_results_sizes_and_elements() {
        let unit = SourceUnit { path: "a.cu", text: EXTENSION };
        let found = find_function_signatures(&unit, &scan_symbols(&[unit]));
        let told: Vec<String> = found
            .iter()
            .map(|function| {
                let TensorBody { results, shapes, models, elements, forwards_to, .. } =
                    &function.tensors;
                let callee = forwards_to.as_deref().unwrap_or_default();
                let name = &function.name;
                let told =
                    format!("{name} {results:?} {shapes:?} {models:?} {elements:?} {callee}");
                told.trim_end().to_owned()
            })
            .collect();
        insta::assert_snapshot!(told.join("\n"), @r#"
        backward ["dx", "dw", "", "db"] {"dw": ["cols", "4", ""], "dy": ["", "", ""], "g": ["", "depth"], "g_": ["", "depth"], "w": ["", "", "heads"], "x": ["rows", "cols"]} {"dx": "x", "like": "dy"} {"dy": "float", "index": "int64_t", "x": "scalar_t"}
        pair ["y", "x"] {} {} {}
        one [] {} {} {} other
        both ["x", "x"] {} {} {}
        again ["x", "x"] {} {} {} both
        checked ["x", "", "b_"] {"b": ["width", "", "4"], "b_": ["width", "", "4"], "x": ["batch", "width", "length"]} {} {}
        PYBIND11_MODULE [] {} {} {}
        "#);
    }

    #[test]
    fn a_body_tells_how_many_lists_of_tensors_it_takes() {
        let text = "void step(TensorLists lists, TensorLists others, Tensor x) {\n\
                    f(lists[2][0], x[7], others[0][1], values[999][0]); DISPATCH(g<4>(x, others, n + 1));\n}\n";
        let unit = SourceUnit { path: "a.cu", text };
        let found = find_function_signatures(&unit, &scan_symbols(&[unit]));
        let counts: Vec<(&str, usize)> = found[0]
            .tensors
            .list_counts
            .iter()
            .map(|(list, count)| (list.as_str(), *count))
            .collect();
        assert_eq!(counts, [("lists", 3), ("others", 4), ("x", 4)]);
    }

    /// What a function with this `body` tells of its tensors.
    fn read_body(body: &str) -> TensorBody {
        let text = format!("void f(Tensor x, Tensor y, Tensor z) {{ {body} }}");
        let unit = SourceUnit { path: "a.cu", text: &text };
        find_function_signatures(&unit, &scan_symbols(&[unit])).remove(0).tensors
    }

    #[test]
    fn a_tensor_with_elements_by_its_last_size_has_rows() {
        let body = "int hidden = x.size(-1); int rows = x.numel() / hidden; int w = y.size(-1);\n\
                    int n = z.numel() / z.size(-1);";
        let shapes = read_body(body).shapes;
        let shape = |tensor: &str| shapes.get(tensor).map(|shape| shape.join(" "));
        assert_eq!(shape("x").as_deref(), Some(" hidden"));
        assert_eq!(shape("z").as_deref(), Some(" "));
        assert_eq!(shape("y"), None, "it may be one row");
    }

    #[test]
    fn tensors_that_host_code_reads_lie_in_its_memory() {
        let body =
            "int n = x.data_ptr<int>()[3]; CHECK_CPU(y); k<<<1, 1>>>(z.data_ptr<float>() + 1);";
        assert_eq!(read_body(body).on_host, ["x", "y"].map(str::to_owned).into());
        let body = "auto a = x.accessor<float, 2>(); auto b = y.packed_accessor32<float, 2>();";
        assert_eq!(read_body(body).on_host, ["x".to_owned()].into());
    }

    #[test]
    fn names_in_python_are_those_of_functions() {
        let unit = SourceUnit { path: "a.cu", text: EXTENSION };
        let names = find_python_names(&unit);
        let told: Vec<String> = names
            .iter()
            .map(|PythonName { name, function, line }| format!("{line} {name} {function}"))
            .collect();
        insta::assert_snapshot!(told.join("\n"), @"
        22 forward one
        24 backward backward
        ");
    }

    #[test]
    fn registered_operators_are_bound_too() {
        let text = "static auto registry = torch::RegisterOperators()\n\
                    .op(\"scatter::sum\", &sum_csr).op(\"scatter::mean\", &mean_csr);\n";
        let names = find_python_names(&SourceUnit { path: "a.cpp", text });
        let told: Vec<(&str, &str)> =
            names.iter().map(|bound| (&*bound.name, &*bound.function)).collect();
        assert_eq!(told, [("scatter::sum", "sum_csr"), ("scatter::mean", "mean_csr")]);
    }
}
