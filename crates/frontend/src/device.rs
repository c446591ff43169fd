//! Device CUDA C++ for NVRTC: a file without its host code.
//!
//! Host functions, host variables and host headers become blanks. Declarations for kernels stay as they are,
//! line for line.

use std::collections::BTreeSet;
use std::ops::Range;

use super::Precision;
use super::device_shadow;
use super::edits::Edits;
use super::escape_c_string;
use super::includes::{Fate, decide_include_fate};
use super::lexer::{TokenKind, Tokens, lex_directive};
use super::outline::{Item, ItemKind, outline_items};
use super::source::Source;
use super::symbols::Symbols;

/// Namespaces of the host alone.
const HOST_NAMESPACES: [&str; 4] = ["at", "c10", "thrust", "torch"];

/// Names of PyTorch for kernels too.
const DEVICE_TORCH: [&str; 13] = [
    "AccumulateType",
    "BFloat16",
    "DefaultPtrTraits",
    "GenericPackedTensorAccessor",
    "Half",
    "OpMathType",
    "PackedTensorAccessor32",
    "PackedTensorAccessor64",
    "RestrictPtrTraits",
    "TensorAccessor",
    "acc_type",
    "ceil_div",
    "opmath_type",
];

/// The namespace of PyTorch's names for kernels: `at::cuda::detail::TensorInfo`.
const DEVICE_TORCH_NAMESPACE: [&str; 3] = ["cuda", "::", "detail"];

/// Types of the host alone.
const HOST_TYPES: [&str; 10] = [
    "FILE",
    "cudaDeviceProp",
    "cudaEvent_t",
    "cudaGraph_t",
    "cudaGraphExec_t",
    "cudaLaunchConfig_t",
    "cudaMemPool_t",
    "cudnnHandle_t",
    "curandGenerator_t",
    "ncclComm_t",
];

/// Names of `std` in the headers of `runtime/nvrtc`.
const DEVICE_STD: [&str; 69] = [
    "abs",
    "add_const_t",
    "aligned_storage",
    "aligned_storage_t",
    "bool_constant",
    "ceil",
    "clamp",
    "conditional",
    "conditional_t",
    "cos",
    "declval",
    "decay",
    "decay_t",
    "enable_if",
    "enable_if_t",
    "exp",
    "exp2",
    "fabs",
    "false_type",
    "fill",
    "floor",
    "fma",
    "fmax",
    "fmin",
    "fmod",
    "forward",
    "int16_t",
    "int32_t",
    "int64_t",
    "int8_t",
    "integral_constant",
    "is_base_of",
    "is_const",
    "is_convertible",
    "is_floating_point",
    "is_integral",
    "is_pointer",
    "is_same",
    "is_same_v",
    "is_signed",
    "is_trivially_copyable",
    "is_unsigned",
    "is_void",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log1p",
    "log2",
    "max",
    "min",
    "move",
    "numeric_limits",
    "pow",
    "ptrdiff_t",
    "remove_const_t",
    "remove_cv_t",
    "remove_pointer_t",
    "remove_reference",
    "remove_reference_t",
    "sin",
    "size_t",
    "sqrt",
    "swap",
    "tanh",
    "true_type",
    "uint16_t",
    "uint32_t",
    "uint64_t",
];

/// The device code of `source`; see [`super::device`].
pub(super) fn translate_device_source(
    source: &Source,
    symbols: &Symbols,
    precision: Precision,
) -> String {
    let mut edits = Edits::default();
    let includes_cub = rewrite_device_includes(source, &mut edits);
    if let Some(main) = source.main.clone() {
        edits.remove(source.text, main);
    }
    for first in [true, false] {
        if first || source.has_alternatives() {
            let tokens = source.view(first);
            let items = outline_items(source.text, &tokens);
            let gone = BTreeSet::new();
            DeviceTranslator { source, symbols, tokens: &tokens, items: &items, gone }
                .edit(&mut edits);
        }
    }
    let path = escape_c_string(source.path);
    let translated_source = edits.apply(source.text);
    let cub_operators = if includes_cub { "#include <replay_nvrtc/cub_operators>\n" } else { "" };
    let prelude = format!("#include <replay_nvrtc/prelude>\n{cub_operators}");
    match precision {
        Precision::Native | Precision::Checked => {
            format!("{prelude}#line 1 \"{path}\"\n{translated_source}")
        }
        Precision::Shadow => {
            let shadow_include = "#include <replay_nvrtc/shadow>\n";
            let widened_source = device_shadow::widen_device_code(&translated_source);
            format!("{prelude}{shadow_include}#line 1 \"{path}\"\n{widened_source}")
        }
    }
}

/// Puts the device's headers in the place of the host's; whether CUB's are among them.
fn rewrite_device_includes(source: &Source, edits: &mut Edits) -> bool {
    let text = source.text;
    let mut includes_cub = false;
    for &directive in source.tokens.iter().filter(|token| token.kind == TokenKind::Directive) {
        let words = lex_directive(text, directive);
        let ([first, name_token, ..], Some(last)) = (&words[..], words.last()) else { continue };
        if !first.is_spelled(text, "include") {
            continue;
        }
        let name = text[name_token.start..last.end].trim();
        let quoted = name.starts_with('"');
        let header = name.trim_matches(['<', '>', '"']);
        includes_cub |= header.starts_with("cub/");
        match decide_include_fate(header, quoted) {
            Fate::Kept => {}
            Fate::Removed => edits.blank(text, directive.start..directive.end),
            Fate::Replaced(with) => {
                edits.replace(name_token.start..last.end, format!("<replay_nvrtc/{with}>"));
            }
        }
    }
    includes_cub
}

struct DeviceTranslator<'s> {
    source: &'s Source<'s>,
    symbols: &'s Symbols,
    tokens: &'s Tokens,
    items: &'s [Item],
    /// Names of host functions.
    gone: BTreeSet<&'s str>,
}

impl<'s> DeviceTranslator<'s> {
    fn edit(mut self, edits: &mut Edits) {
        let host = self.host_items();
        self.mark(&host, edits);
        self.declare_std(edits);
        // Preprocessor lines stay: later code may depend on them.
        for token in host.iter().flat_map(|range| &self.tokens[range.clone()]) {
            if token.kind != TokenKind::Directive {
                edits.blank(self.source.text, token.start..token.end);
            }
        }
    }

    /// Marks `constexpr` and `virtual` functions. nvcc lets device code call them unmarked; NVRTC refuses the call.
    fn mark(&self, blanked: &[Range<usize>], edits: &mut Edits) {
        let text = self.source.text;
        let functions = self.items.iter().filter(|item| {
            let is_function = matches!(item.kind, ItemKind::Function | ItemKind::Prototype);
            is_function && !item.on_device(text, self.tokens)
        });
        for item in functions {
            let ranges_before = blanked.partition_point(|range| range.start <= item.tokens.start);
            let is_blanked =
                blanked[..ranges_before].last().is_some_and(|last| item.tokens.start < last.end);
            let head = item.tokens.start..item.name_at;
            let marked_token = self.tokens[head].iter().find(|token| {
                token.is_spelled(text, "constexpr") || token.is_spelled(text, "virtual")
            });
            if let Some(token) = marked_token.filter(|_| !is_blanked) {
                let marked = format!("__host__ __device__ {}", token.text(text));
                edits.replace(token.start..token.end, marked);
            }
        }
    }

    /// `using namespace std` needs a namespace, whichever headers are left.
    fn declare_std(&self, edits: &mut Edits) {
        for three in self.tokens.windows(3) {
            let spelled = ["using", "namespace", "std"];
            let text = self.source.text;
            if three.iter().zip(spelled).all(|(token, word)| token.is_spelled(text, word)) {
                edits.replace(three[0].start..three[0].end, "namespace std {} using");
            }
        }
    }

    /// The tokens of the code for the host alone.
    fn host_items(&mut self) -> Vec<Range<usize>> {
        let functions = self.items.iter().filter(|item| item.kind == ItemKind::Function);
        let host = functions.filter(|item| !item.member && self.is_host(item));
        self.gone = host.map(|item| item.name.as_str()).collect();
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for item in self.items {
            let is_nested = ranges.last().is_some_and(|last| item.tokens.start < last.end);
            if !is_nested && self.is_host(item) {
                ranges.push(item.tokens.clone());
            }
        }
        ranges
    }

    /// Whether `word` is one of the specifiers of the function `item`.
    fn is_specified(&self, item: &Item, word: &str) -> bool {
        item.has_specifier(self.source.text, self.tokens, word)
    }

    /// Whether one of `words` is a token of `item`.
    fn mentions_any(&self, item: &Item, words: &[&str]) -> bool {
        let mut tokens = self.tokens[item.tokens.clone()].iter();
        tokens.any(|token| words.iter().any(|word| token.is_spelled(self.source.text, word)))
    }

    fn is_host(&self, item: &Item) -> bool {
        let on_device =
            item.on_device(self.source.text, self.tokens) || self.is_specified(item, "constexpr");
        match item.kind {
            // No kernel can call a function with types of the host's libraries.
            ItemKind::Function
                if self.is_specified(item, "__host__") && self.names_library(&item.tokens) =>
            {
                true
            }
            ItemKind::Function if item.member => !on_device && !self.is_specified(item, "virtual"),
            ItemKind::Function => !on_device && !self.is_device_macro(item),
            ItemKind::Prototype if item.member => {
                // After `=` stands default, delete or a pure virtual's zero.
                let assigned = self.tokens[item.tokens.clone()].iter().rev().nth(2);
                let is_assigned =
                    assigned.is_some_and(|token| token.is_spelled(self.source.text, "="));
                !on_device && !self.is_specified(item, "virtual") && !is_assigned
            }
            ItemKind::Prototype => {
                let instance = item.template && self.symbols.is_kernel(&item.name);
                !on_device && !instance && !self.is_device_macro(item)
            }
            ItemKind::Type => self.is_host_type(item),
            // NVRTC refuses static members open to changes by the host.
            ItemKind::Other if item.member => {
                self.mentions_any(item, &["static"])
                    && !self.mentions_any(item, &["const", "constexpr"])
            }
            ItemKind::Other => self.is_host_variable(item),
        }
    }

    /// Whether a class has host types among its bases or data. No kernel can use it then.
    fn is_host_type(&self, item: &Item) -> bool {
        let start = item.tokens.start;
        let open_brace = (start..item.tokens.end)
            .find(|&token_index| self.tokens.is_spelled_at(self.source.text, token_index, "{"));
        let bases = self.names_host(&(start..open_brace.unwrap_or(start)));
        // The items come in the order of their starts.
        let first = self.items.partition_point(|member| member.tokens.start <= start);
        let items_inside =
            self.items[first..].iter().take_while(|member| member.tokens.start < item.tokens.end);
        let members = items_inside.filter(|member| {
            member.kind == ItemKind::Other && member.member && member.tokens.end < item.tokens.end
        });
        bases || members.into_iter().any(|member| self.names_host(&member.tokens))
    }

    /// Whether the declaration of a variable, a type or an assertion is of use to the host alone.
    fn is_host_variable(&self, item: &Item) -> bool {
        let text = self.source.text;
        let tokens = &self.tokens[item.tokens.clone()];
        if self.mentions_any(item, &["__device__", "__constant__", "__managed__", "__shared__"]) {
            return false;
        }
        let types = ["using", "typedef", "static_assert", "struct", "class", "union", "enum"];
        let declares = self.mentions_any(item, &types)
            || self.mentions_any(item, &["namespace", "template", "concept"]);
        // `const char* name` is still a variable: only the words behind the last star count.
        let end =
            tokens.iter().position(|token| token.is_spelled(text, "=")).unwrap_or(tokens.len());
        let star = tokens[..end].iter().rposition(|token| token.is_spelled(text, "*")).unwrap_or(0);
        let fixed = tokens[star..end].iter().any(|token| token.is_spelled(text, "const"));
        let constant = fixed || self.mentions_any(item, &["constexpr"]);
        // The address of a kernel is the host's own.
        let host_value = tokens.iter().any(|token| self.gone.contains(token.text(text)))
            || tokens[end..].iter().any(|token| self.symbols.is_kernel(token.text(text)));
        self.names_host(&item.tokens) || !(declares || constant && !host_value)
    }

    /// Whether the item is the use of a macro with device code in its body.
    fn is_device_macro(&self, item: &Item) -> bool {
        item.name_at == item.tokens.start && self.symbols.is_device_macro(&item.name)
    }

    /// Whether any of the tokens begins the name of something in a library of the host.
    fn names_library(&self, range: &Range<usize>) -> bool {
        let text = self.source.text;
        range.clone().any(|token_index| {
            let qualifies = self.tokens.is_spelled_at(text, token_index + 1, "::");
            let name = self.tokens.get(token_index + 2).map_or("", |token| token.text(text));
            let mut path = DEVICE_TORCH_NAMESPACE.iter().enumerate();
            let is_detail = path.all(|(place, word)| {
                self.tokens.is_spelled_at(text, token_index + 2 + place, word)
            });
            qualifies
                && !is_detail
                && !DEVICE_TORCH.contains(&name)
                && HOST_NAMESPACES.contains(&self.tokens[token_index].text(text))
        })
    }

    /// Whether one of the tokens is a name of the host alone.
    fn names_host(&self, range: &Range<usize>) -> bool {
        let text = self.source.text;
        let has_library_name = self.names_library(range);
        has_library_name
            || range.clone().any(|token_index| {
                let word = self.tokens[token_index].text(text);
                let std = self.tokens.is_spelled_at(text, token_index, "std")
                    && self.tokens.is_spelled_at(text, token_index + 1, "::");
                let is_device_std = self
                    .tokens
                    .get(token_index + 2)
                    .is_some_and(|name| DEVICE_STD.contains(&name.text(text)));
                let blas = word
                    .strip_prefix("cublas")
                    .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
                let host = blas || HOST_TYPES.contains(&word);
                (std && !is_device_std)
                    || (self.tokens[token_index].kind == TokenKind::Ident && host)
            })
    }
}
