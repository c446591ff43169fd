//! Leaves PyTorch out of the source of an extension, since its headers are not here: the includes of them, and the
//! host code with tensors at namespace scope. Kernels and device functions stay. Lines stay where they were.

use std::collections::BTreeSet;

use super::SourceUnit;
use super::edits::Edits;
use super::lexer::{Token, TokenKind, Tokens};
use super::outline::{Item, ItemKind, outline_items};
use super::source::Source;

/// The folders of PyTorch's headers, and of its library for Python modules.
const FOLDERS: [&str; 5] = ["torch/", "ATen/", "c10/", "pybind11/", "caffe2/"];
/// The header with names of types for kernels.
const STAND_IN: &str = "#include <replay/extension.h>";
/// Beginnings of PyTorch's macros.
const MACROS: [&str; 7] =
    ["AT_DISPATCH", "TORCH_", "PYBIND11_", "AT_ERROR", "AT_ASSERT", "AT_CUDA", "C10_CUDA"];
/// PyTorch's namespaces.
const NAMESPACES: [&str; 5] = ["torch", "at", "c10", "py", "pybind11"];

/// `text` without PyTorch, if it includes a header of PyTorch. `has_header` tells whether the sources have a header of
/// this name, such as a stand-in of the user's: includes of it stay.
pub fn without_tensors(text: &str, has_header: impl Fn(&str) -> bool) -> Option<String> {
    if !FOLDERS.iter().any(|folder| text.contains(folder)) {
        return None;
    }
    let source = Source::new(&SourceUnit { path: "", text });
    let text = source.text;
    let tokens = source.view(true);
    let mut edits = Edits::default();
    let mut stands_in = false;
    for &token in tokens.iter().filter(|token| token.kind == TokenKind::Directive) {
        let Some(name) = included_name(&text[token.start..token.end]) else { continue };
        if FOLDERS.iter().any(|folder| name.starts_with(folder)) && !has_header(name) {
            edits.remove(text, token.start..token.end);
            if !stands_in {
                edits.insert(token.start, STAND_IN);
            }
            stands_in = true;
        }
    }
    if !stands_in {
        return None;
    }
    for item in find_tensor_code(text, &tokens) {
        edits.blank(text, tokens[item.start].start..tokens[item.end - 1].end);
    }
    Some(edits.apply(text))
}

/// The name of the header in the directive `line`.
fn included_name(line: &str) -> Option<&str> {
    let include_text = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
    let include_text = include_text.trim_start();
    let closing_quote = if include_text.starts_with('<') { '>' } else { '"' };
    include_text.get(1..)?.split_once(closing_quote).map(|(name, _)| name)
}

/// The tokens of the code with tensors, and of its users.
fn find_tensor_code(text: &str, tokens: &Tokens) -> Vec<std::ops::Range<usize>> {
    let items: Vec<Item> =
        outline_items(text, tokens).into_iter().filter(|item| !item.member).collect();
    let mut removed_items = BTreeSet::new();
    let mut names = BTreeSet::new();
    // Each turn takes the users of the names of the turn before.
    loop {
        let count_before = removed_items.len();
        for (index, item) in items.iter().enumerate() {
            let words = &tokens[item.tokens.clone()];
            let mut idents = words.iter().filter(|token| token.kind == TokenKind::Ident);
            if !removed_items.contains(&index)
                && !item.on_device(text, tokens)
                && (names_tensors(text, words)
                    || idents.any(|token| names.contains(token.text(text))))
            {
                removed_items.insert(index);
                let is_function = matches!(item.kind, ItemKind::Function | ItemKind::Prototype);
                if is_function && !kept_elsewhere(&items, &removed_items, &item.name) {
                    names.insert(item.name.as_str());
                }
            }
        }
        if removed_items.len() == count_before {
            break;
        }
    }
    removed_items.into_iter().map(|index| items[index].tokens.clone()).collect()
}

/// Whether another function `name` stays.
fn kept_elsewhere(items: &[Item], removed_items: &BTreeSet<usize>, name: &str) -> bool {
    let stays =
        |(index, item): (usize, &Item)| !removed_items.contains(&index) && item.name == name;
    items.iter().enumerate().any(stays)
}

/// Whether one of `words` is PyTorch's.
fn names_tensors(text: &str, words: &[Token]) -> bool {
    words.iter().enumerate().any(|(word_index, token)| {
        let word = token.text(text);
        let is_scope = words.get(word_index + 1).is_some_and(|next| next.is_spelled(text, "::"));
        let is_used = word_index > 0 && words[word_index - 1].is_spelled(text, "namespace");
        token.kind == TokenKind::Ident
            && (word == "Tensor"
                || MACROS.iter().any(|beginning| word.starts_with(beginning))
                || NAMESPACES.contains(&word) && (is_scope || is_used))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENSION: &str = "\
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_runtime.h>
#define CHECK_INPUT(x) TORCH_CHECK(x.is_cuda(), #x \" must be on the GPU\")
using namespace torch;
template <typename scalar_t>
__device__ scalar_t twice(scalar_t x) { return x + x; }
template <typename scalar_t>
__global__ void twice_kernel(scalar_t* y, const scalar_t* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = twice<scalar_t>((at::opmath_type<scalar_t>)x[i]);
}
int blocks(int n) { return (n + 255) / 256; }
torch::Tensor twice_cuda(torch::Tensor x) {
    auto y = torch::empty_like(x);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), \"twice\", ([&] {
        twice_kernel<scalar_t><<<blocks(x.numel()), 256>>>(y.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(), x.numel());
    }));
    return y;
}
void launch(float* y, const float* x, int n) { twice_kernel<float><<<blocks(n), 256>>>(y, x, n); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def(\"twice\", &twice_cuda, \"twice (CUDA)\");
}
int main() { twice_cuda({}); }
";

    #[test]
    fn what_names_tensors_goes_and_lines_stay() {
        let found = without_tensors(EXTENSION, |_| false).unwrap();
        assert_eq!(found.lines().count(), EXTENSION.lines().count());
        let kept: Vec<String> = found
            .lines()
            .zip(1..)
            .filter(|(line, _)| !line.trim().is_empty())
            .map(|(line, number)| format!("{number} {}", line.trim_end()))
            .collect();
        insta::assert_snapshot!(kept.join("\n"), @r#"
        1 #include <replay/extension.h>
        3 #include <cuda_runtime.h>
        4 #define CHECK_INPUT(x) TORCH_CHECK(x.is_cuda(), #x " must be on the GPU")
        6 template <typename scalar_t>
        7 __device__ scalar_t twice(scalar_t x) { return x + x; }
        8 template <typename scalar_t>
        9 __global__ void twice_kernel(scalar_t* y, const scalar_t* x, int n) {
        10     int i = blockIdx.x * blockDim.x + threadIdx.x;
        11     if (i < n) y[i] = twice<scalar_t>((at::opmath_type<scalar_t>)x[i]);
        12 }
        13 int blocks(int n) { return (n + 255) / 256; }
        21 void launch(float* y, const float* x, int n) { twice_kernel<float><<<blocks(n), 256>>>(y, x, n); }
        "#);
    }

    #[test]
    fn a_header_that_is_there_is_used() {
        assert_eq!(without_tensors(EXTENSION, |_| true), None);
        assert_eq!(without_tensors("#include <torch_like.h>\nint Tensor;", |_| false), None);
        assert_eq!(without_tensors("// as torch/extension.h has it\nint a;", |_| false), None);
    }
}
