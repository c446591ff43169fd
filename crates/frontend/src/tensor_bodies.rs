//! What the body of a function of tensors tells of them: the names of its results, sizes by their names, types of
//! elements. And the names that an extension has in Python. Guesses for a draft: follows no calls.

use std::collections::BTreeMap;
use std::ops::Range;

use super::SourceUnit;
use super::lexer::{TokenKind, Tokens};
use super::source::Source;

/// What a body tells of the tensors in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorBody {
    /// The results of the longest `return`, of equal ones the last, in order; the name of a result that is an expression is empty.
    pub results: Vec<String>,
    /// By tensor, the names or numbers of its sizes; a name is empty where only later sizes are read.
    pub shapes: BTreeMap<String, Vec<String>>,
    /// By tensor, the tensor whose shape it was made with.
    pub models: BTreeMap<String, String>,
    /// By tensor, the type in `data_ptr<TYPE>()` or in an accessor.
    pub elements: BTreeMap<String, String>,
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
    ["accessor", "packed_accessor", "packed_accessor32", "packed_accessor64"];
/// Members of a tensor for one of the same shape and type.
const COPIES: [&str; 3] = ["contiguous", "clone", "detach"];
/// No tensor of interest has more dimensions.
const MOST_DIMENSIONS: usize = 8;

/// Whether the member `word` of a tensor leads to its elements.
pub(super) fn is_element_member(word: &str) -> bool {
    TYPED_MEMBERS.contains(&word) || ACCESSORS.contains(&word)
}

/// Reads the body in the tokens `body`.
pub(super) fn read_tensor_body(text: &str, tokens: &Tokens, body: Range<usize>) -> TensorBody {
    let mut found = TensorBody::default();
    let mut returns = Vec::new();
    for index in body.clone() {
        if tokens[index].kind != TokenKind::Ident {
            continue;
        }
        match tokens[index].text(text) {
            "return" => returns.push(index),
            "size" => found.read_size(text, tokens, index),
            word if is_element_member(word) => {
                found.read_element(text, tokens, index);
            }
            _ => {}
        }
    }
    for index in body.clone().filter(|&index| tokens.is_spelled_at(text, index, "=")) {
        found.read_copy(text, tokens, index);
        found.read_made_tensor(text, tokens, index);
    }
    // Early returns of an empty tensor are shorter than the usual one.
    let results = returns.into_iter().map(|index| read_results(text, tokens, index + 1, body.end));
    found.results = results.max_by_key(Vec::len).unwrap_or_default();
    found
}

impl TensorBody {
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
        let tensor = tokens[index - 2].text(text).to_owned();
        let is_named =
            tokens.is_spelled_at(text, start + 1, "=") && tokens[start].kind == TokenKind::Ident;
        let shape = self.shapes.entry(tensor).or_default();
        if shape.len() <= dimension {
            shape.resize(dimension + 1, String::new());
        }
        if is_named && shape[dimension].is_empty() {
            shape[dimension] = tokens[start].text(text).to_owned();
        }
    }

    /// Reads `TENSOR.data_ptr<TYPE>()` or `TENSOR.packed_accessor32<TYPE, DIMENSIONS>()` with the member at `index`.
    fn read_element(&mut self, text: &str, tokens: &Tokens, index: usize) {
        let Some(tensor) = index.checked_sub(2) else { return };
        let Some(end) = tokens.skip_angles(text, index + 1) else { return };
        if !tokens.is_spelled_at(text, index - 1, ".") || tokens[tensor].kind != TokenKind::Ident {
            return;
        }
        let tensor = tokens[tensor].text(text);
        let words: Vec<&str> = (index + 2..end - 1).map(|word| tokens[word].text(text)).collect();
        let mut arguments = words.split(|word| *word == ",");
        if let Some(ty) = arguments.next() {
            self.elements.entry(tensor.to_owned()).or_insert(ty.join(" "));
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
    if !is_list {
        return Vec::new();
    }
    let results = tokens.split_arguments(text, open + 1..stop - 1);
    results.into_iter().map(|result| result_name(text, tokens, result)).collect()
}

fn result_name(text: &str, tokens: &Tokens, result: Range<usize>) -> String {
    match tokens.get(result.start) {
        Some(token) if result.len() == 1 && token.kind == TokenKind::Ident => {
            token.text(text).to_owned()
        }
        _ => String::new(),
    }
}

/// The functions that `unit` binds for Python, `m.def("forward", &fused_forward)`.
pub fn find_python_names(unit: &SourceUnit) -> Vec<PythonName> {
    if !unit.text.contains("PYBIND11_MODULE") && !unit.text.contains("TORCH_LIBRARY") {
        return Vec::new();
    }
    let source = Source::new(unit);
    let text = source.text;
    let tokens = source.view(true);
    let mut names = Vec::new();
    for index in 1..tokens.len() {
        let is_binding = matches!(tokens.text_at(text, index), "def" | "impl")
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
  k<<<1, 1>>>(x.data_ptr<scalar_t>(), index.data<int64_t>(), dy.packed_accessor32<float, 3, torch::RestrictPtrTraits>());
  if (rows == 0) return {};
  return {dx, dw, like.t()};
}
std::tuple<at::Tensor, at::Tensor> pair(at::Tensor x) { auto y = x; return std::make_tuple(y, x); }
at::Tensor one(at::Tensor x) { return other(x); }
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
                let TensorBody { results, shapes, models, elements } = &function.tensors;
                format!("{} {results:?} {shapes:?} {models:?} {elements:?}", function.name)
            })
            .collect();
        insta::assert_snapshot!(told.join("\n"), @r#"
        backward ["dx", "dw", ""] {"dw": ["cols", "4", ""], "dy": ["", "", ""], "g": ["", "depth"], "g_": ["", "depth"], "w": ["", "", "heads"], "x": ["rows", "cols"]} {"dx": "x", "like": "dy"} {"dy": "float", "index": "int64_t", "x": "scalar_t"}
        pair ["y", "x"] {} {} {}
        one [] {} {} {}
        PYBIND11_MODULE [] {} {} {}
        "#);
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
        15 forward one
        17 backward backward
        ");
    }
}
