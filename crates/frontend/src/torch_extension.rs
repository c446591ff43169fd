//! Makes a PyTorch extension's sources fit the small PyTorch of `runtime/include/replay/torch.h`: its headers take the
//! place of PyTorch's, and host code with tensors stays where the call reaches it by name. The rest may use any part
//! of PyTorch and is left out. Kernels and device functions stay. Lines stay where they were.

use std::collections::{BTreeMap, BTreeSet};

use super::SourceUnit;
use super::edits::Edits;
use super::lexer::{Token, TokenKind, Tokens};
use super::outline::{Item, ItemKind, outline_items};
use super::own_names::names_defined_by_item;
use super::reachability::MentionGraph;
use super::signatures::find_function_signatures;
use super::source::Source;
use super::symbols::Symbols;

/// The folders of PyTorch's headers, and of its library for Python modules.
const FOLDERS: [&str; 6] = ["torch/", "ATen/", "c10/", "pybind11/", "caffe2/", "THC/"];
/// The header in the place of PyTorch's.
const STAND_IN: &str = "#include <replay/torch.h>";
/// Beginnings of PyTorch's macros.
const MACROS: [&str; 7] =
    ["AT_DISPATCH", "TORCH_", "PYBIND11_", "AT_ERROR", "AT_ASSERT", "AT_CUDA", "C10_CUDA"];
/// PyTorch's namespaces.
const NAMESPACES: [&str; 5] = ["torch", "at", "c10", "py", "pybind11"];

/// Whether `text` uses the small PyTorch.
pub fn uses_tensors(text: &str) -> bool {
    text.contains(STAND_IN)
}

/// The texts of `units` for the small PyTorch, if one of them includes a header of PyTorch: without the host code with
/// tensors that `calls` do not reach. `has_header` tells whether the sources have a header of this name, such as a
/// stand-in of the user's: includes of it stay.
pub fn keep_called_tensor_code(
    units: &[SourceUnit],
    calls: &str,
    has_header: impl Fn(&str) -> bool,
) -> Option<Vec<String>> {
    if !units.iter().any(|unit| FOLDERS.iter().any(|folder| unit.text.contains(folder))) {
        return None;
    }
    let sources: Vec<Source> = units.iter().map(Source::new).collect();
    let mut all_edits: Vec<Edits> = Vec::new();
    let mut stands_in = false;
    for source in &sources {
        let mut edits = Edits::default();
        stands_in |= replace_includes(source, &has_header, &mut edits);
        all_edits.push(edits);
    }
    if !stands_in {
        return None;
    }
    let files: Vec<ExtensionFile> = sources.iter().map(ExtensionFile::new).collect();
    let reached = ReachedNames::find(&sources, &files, calls);
    for ((file, removed_items), edits) in
        files.iter().zip(find_unused_items(&files, &reached)).zip(&mut all_edits)
    {
        for index in removed_items {
            let range = file.items[index].tokens.clone();
            edits.blank(file.text, file.tokens[range.start].start..file.tokens[range.end - 1].end);
        }
    }
    let texts = all_edits.into_iter().zip(&sources).map(|(edits, source)| edits.apply(source.text));
    Some(texts.collect())
}

/// For each function of `units`, the parameters that refer to a tensor open to changes, by their places.
pub fn find_changed_tensors(
    units: &[SourceUnit],
    symbols: &Symbols,
) -> BTreeMap<String, BTreeSet<usize>> {
    let mut changed_tensors: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for unit in units.iter().filter(|unit| unit.text.contains("Tensor")) {
        for signature in find_function_signatures(unit, symbols) {
            let places = signature.parameters.iter().enumerate();
            let changed = places.filter(|(_, parameter)| is_changed_tensor(&parameter.ty));
            let changed: Vec<usize> = changed.map(|(place, _)| place).collect();
            if !changed.is_empty() {
                changed_tensors.entry(signature.name).or_default().extend(changed);
            }
        }
    }
    changed_tensors
}

/// Whether `ty` is a reference to a tensor, or to an optional one.
fn is_changed_tensor(ty: &str) -> bool {
    let words: Vec<&str> = ty
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    ty.trim_end().ends_with('&')
        && !ty.trim_end().ends_with("& &")
        && !ty.trim_end().ends_with("&&")
        && words.last() == Some(&"Tensor")
        && !words.contains(&"const")
        && (!ty.contains('<') || words.contains(&"optional"))
}

/// Replaces the includes of PyTorch's headers in `source`; tells whether there are any.
fn replace_includes(
    source: &Source,
    has_header: &impl Fn(&str) -> bool,
    edits: &mut Edits,
) -> bool {
    let text = source.text;
    let mut stands_in = false;
    for &token in source.tokens.iter().filter(|token| token.kind == TokenKind::Directive) {
        let Some(name) = included_name(&text[token.start..token.end]) else { continue };
        if FOLDERS.iter().any(|folder| name.starts_with(folder)) && !has_header(name) {
            edits.replace(token.start..token.end, STAND_IN);
            stands_in = true;
        }
    }
    stands_in
}

/// The name of the header in the directive `line`.
fn included_name(line: &str) -> Option<&str> {
    let include_text = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
    let include_text = include_text.trim_start();
    let closing_quote = if include_text.starts_with('<') { '>' } else { '"' };
    include_text.get(1..)?.split_once(closing_quote).map(|(name, _)| name)
}

/// A file of an extension with its declarations.
struct ExtensionFile<'s> {
    text: &'s str,
    tokens: Tokens,
    /// Those at namespace scope.
    items: Vec<Item>,
}

impl<'s> ExtensionFile<'s> {
    fn new(source: &'s Source) -> ExtensionFile<'s> {
        let tokens = source.view(true);
        let mut items = outline_items(source.text, &tokens);
        items.retain(|item| !item.member);
        ExtensionFile { text: source.text, tokens, items }
    }

    fn words(&self, item: &Item) -> &[Token] {
        &self.tokens[item.tokens.clone()]
    }

    /// Whether the declaration of `item` opens a namespace to names that may be used anywhere.
    fn opens_namespace(&self, item: &Item) -> bool {
        let start = item.tokens.start;
        let is_spelled = |index, word| self.tokens.is_spelled_at(self.text, index, word);
        is_spelled(start, "namespace")
            || is_spelled(start, "using") && is_spelled(start + 1, "namespace")
    }

    /// The names by which other code uses `item`.
    fn names(&self, item: &Item) -> Vec<String> {
        let first = self.tokens.text_at(self.text, item.tokens.start);
        match item.kind {
            ItemKind::Function | ItemKind::Prototype => vec![item.name.clone()],
            ItemKind::Other if matches!(first, "using" | "typedef") => {
                let words = self.words(item).iter().map(|token| token.text(self.text));
                let words = words.filter(|word| *word != first && !NAMESPACES.contains(word));
                words.map(str::to_owned).collect()
            }
            ItemKind::Type | ItemKind::Other => {
                names_defined_by_item(self.text, &self.tokens, item)
            }
        }
    }
}

/// The names within reach, which stay.
struct ReachedNames {
    from_calls: BTreeSet<String>,
    /// Device code can name a type, but no function of tensors.
    from_device_code: BTreeSet<String>,
}

impl ReachedNames {
    fn find(sources: &[Source], files: &[ExtensionFile], calls: &str) -> ReachedNames {
        let mut graph = MentionGraph::default();
        let mut host_graph = MentionGraph::default();
        for source in sources {
            graph.add(source);
            host_graph.add_host_code(source);
        }
        let mut device_words = String::new();
        for file in files {
            for item in file.items.iter().filter(|item| item.on_device(file.text, &file.tokens)) {
                for token in file.words(item).iter().filter(|token| token.kind == TokenKind::Ident)
                {
                    device_words.push(' ');
                    device_words.push_str(token.text(file.text));
                }
            }
        }
        let from_device_code = graph.from(&device_words);
        ReachedNames { from_calls: host_graph.from(calls), from_device_code }
    }

    fn reach(&self, file: &ExtensionFile, item: &Item) -> bool {
        let is_function = matches!(item.kind, ItemKind::Function | ItemKind::Prototype);
        file.names(item).iter().any(|name| {
            self.from_calls.contains(name) || !is_function && self.from_device_code.contains(name)
        })
    }
}

/// For each file, the items with tensors out of reach, and their users.
fn find_unused_items(files: &[ExtensionFile], reached: &ReachedNames) -> Vec<BTreeSet<usize>> {
    let mut removed_items = vec![BTreeSet::new(); files.len()];
    let mut names: BTreeSet<&str> = BTreeSet::new();
    // Each turn takes the users of the names of the turn before.
    loop {
        let count_before: usize = removed_items.iter().map(BTreeSet::len).sum();
        for (file, removed_items) in files.iter().zip(&mut removed_items) {
            for (index, item) in file.items.iter().enumerate() {
                let words = file.words(item);
                let mut idents = words.iter().filter(|token| token.kind == TokenKind::Ident);
                let is_kept = removed_items.contains(&index)
                    || item.on_device(file.text, &file.tokens)
                    || file.opens_namespace(item)
                    || reached.reach(file, item);
                if !is_kept
                    && (names_tensors(file.text, words)
                        || idents.any(|token| names.contains(token.text(file.text))))
                {
                    removed_items.insert(index);
                    let is_function = matches!(item.kind, ItemKind::Function | ItemKind::Prototype);
                    if is_function && !kept_elsewhere(&file.items, removed_items, &item.name) {
                        names.insert(item.name.as_str());
                    }
                }
            }
        }
        if removed_items.iter().map(BTreeSet::len).sum::<usize>() == count_before {
            break;
        }
    }
    removed_items
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
        token.kind == TokenKind::Ident
            && (word == "Tensor"
                || MACROS.iter().any(|beginning| word.starts_with(beginning))
                || NAMESPACES.contains(&word) && is_scope)
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

    /// The lines of [`EXTENSION`] for the call `calls`, with their numbers.
    fn kept_lines(calls: &str) -> String {
        let unit = SourceUnit { path: "a.cu", text: EXTENSION };
        let found = keep_called_tensor_code(&[unit], calls, |_| false).unwrap().remove(0);
        assert_eq!(found.lines().count(), EXTENSION.lines().count());
        let kept: Vec<String> = found
            .lines()
            .zip(1..)
            .filter(|(line, _)| !line.trim().is_empty())
            .map(|(line, number)| format!("{number} {}", line.trim_end()))
            .collect();
        kept.join("\n")
    }

    #[test]
    fn tensor_code_out_of_reach_goes_and_lines_stay() {
        insta::assert_snapshot!(kept_lines("launch(y, x, n);"), @r#"
        1 #include <replay/torch.h>
        2 #include <replay/torch.h>
        3 #include <cuda_runtime.h>
        4 #define CHECK_INPUT(x) TORCH_CHECK(x.is_cuda(), #x " must be on the GPU")
        5 using namespace torch;
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
    fn a_function_of_tensors_in_the_call_stays() {
        let lines = kept_lines("y = twice_cuda(x);");
        assert!(lines.contains("14 torch::Tensor twice_cuda(torch::Tensor x) {"), "{lines}");
        assert!(!lines.contains("PYBIND11_MODULE"), "{lines}");
    }

    #[test]
    fn a_function_of_tensors_with_the_name_of_a_device_function_is_out_of_reach() {
        let text = "#include <torch/extension.h>\n\
                    __device__ float relu(float x);\n\
                    __global__ void k(float* x) { *x = relu(*x); }\n\
                    at::Tensor relu(at::Tensor x) { return at::relu(x); }\n";
        let unit = SourceUnit { path: "a.cu", text };
        let kept = keep_called_tensor_code(&[unit], "k<<<1, 1>>>(x);", |_| false).unwrap();
        assert!(!kept[0].contains("at::relu"), "{}", kept[0]);
        assert!(kept[0].contains("*x = relu(*x)"), "{}", kept[0]);
    }

    #[test]
    fn a_header_that_is_there_is_used() {
        let kept = |text, has_header: bool| {
            keep_called_tensor_code(&[SourceUnit { path: "a.cu", text }], "", |_| has_header)
        };
        assert_eq!(kept(EXTENSION, true), None);
        assert_eq!(kept("#include <torch_like.h>\nint Tensor;", false), None);
        assert_eq!(kept("// as torch/extension.h has it\nint a;", false), None);
    }
}
