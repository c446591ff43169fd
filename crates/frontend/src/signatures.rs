//! The signatures of a file's functions, and whether they launch kernels, for callers to be written. Knows no types:
//! a parameter's type is the words before its name.

use std::collections::BTreeSet;
use std::ops::Range;

use super::SourceUnit;
use super::lexer::{TokenKind, Tokens};
use super::macros::{self, Macro};
use super::outline::{Item, ItemKind, outline_items};
use super::parameter_access::{ParameterAccess, find_parameter_accesses};
use super::parameter_reader::FunctionBody;
use super::parameter_uses::{ParameterUse, find_parameter_uses};
use super::source::Source;
use super::symbols::{self, Symbols};
use super::tensor_bodies::{TensorBody, read_tensor_body};

/// A function with its body at namespace scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionSignature {
    /// Its name without namespaces.
    pub name: String,
    /// The namespaces, or the class, around it, each with `::`.
    pub scope: String,
    /// The 1-based line of the name.
    pub line: usize,
    /// Whether it is a `__global__` function.
    pub kernel: bool,
    /// Whether only device code can call it.
    pub device: bool,
    /// The parameters of its template; none if it is no template.
    pub template: Option<Vec<TemplateParameter>>,
    /// Whether other files cannot call it.
    pub local: bool,
    /// The words of its type before the name, without specifiers: `float`, `void`.
    pub returns: String,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
    /// Whether its body launches a kernel or has a library multiply matrices.
    pub launches: bool,
    /// What its body tells of tensors of PyTorch; empty in a file without any.
    pub tensors: TensorBody,
}

/// One parameter of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateParameter {
    /// The words before its name: `typename`, `int`, `bool`.
    pub ty: String,
    /// Its name; empty if it has none.
    pub name: String,
    /// Whether it need not be given.
    pub has_default: bool,
}

/// One parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The words of its type with one space between them, `const float *`; `__restrict__` left out.
    pub ty: String,
    /// Its name; empty if it has none.
    pub name: String,
    /// How the function's body uses it.
    pub body_use: ParameterUse,
    /// What the function does with the elements it leads to.
    pub access: ParameterAccess,
}

/// The functions of `unit` with their bodies at namespace scope, in order.
pub fn find_function_signatures(unit: &SourceUnit, symbols: &Symbols) -> Vec<FunctionSignature> {
    let source = Source::new(unit);
    let tokens = source.view(true);
    let items = outline_items(source.text, &tokens);
    let free_functions =
        items.iter().filter(|item| item.kind == ItemKind::Function && !item.member);
    let opens = (0..tokens.len())
        .filter(|&token_index| tokens.is_spelled_at(source.text, token_index, "{"));
    let braces: Vec<Range<usize>> = opens
        .filter_map(|token_index| tokens.skip_group(token_index).map(|end| token_index..end))
        .collect();
    let launching_words =
        LaunchingWords { symbols, macros: find_launching_macros(&source, symbols) };
    let mut signatures = Vec::new();
    let mut body_ranges = Vec::new();
    for item in free_functions {
        let signature =
            parse_function_signature(&source, (&tokens, &braces), item, &launching_words);
        if let Some(signature) = signature {
            signatures.push(signature);
            body_ranges.push(item.body.clone());
        }
    }
    let to_body = |(signature, body): (&FunctionSignature, Range<usize>)| FunctionBody {
        name: signature.name.clone(),
        parameters: signature.parameters.clone(),
        body,
    };
    let bodies: Vec<FunctionBody> = signatures.iter().zip(body_ranges).map(to_body).collect();
    let uses = find_parameter_uses(source.text, &tokens, &bodies);
    let accesses = find_parameter_accesses(source.text, &tokens, &bodies);
    for ((signature, uses), accesses) in signatures.iter_mut().zip(uses).zip(accesses) {
        for ((parameter, body_use), access) in
            signature.parameters.iter_mut().zip(uses).zip(accesses)
        {
            parameter.body_use = body_use;
            parameter.access = access;
        }
    }
    name_forwarded_results(&mut signatures);
    signatures
}

/// Gives a function that returns the results of another one of `signatures` their names.
fn name_forwarded_results(signatures: &mut [FunctionSignature]) {
    for index in 0..signatures.len() {
        let body = &signatures[index].tensors;
        let Some(callee) = body.forwards_to.as_ref().filter(|_| body.results.is_empty()) else {
            continue;
        };
        let mut callees = signatures.iter().filter(|signature| signature.name == *callee);
        let results = callees.find_map(|callee| {
            let results = &callee.tensors.results;
            (!results.is_empty()).then(|| results.clone())
        });
        signatures[index].tensors.results = results.unwrap_or_default();
    }
}

fn parse_function_signature(
    source: &Source,
    (tokens, braces): (&Tokens, &[Range<usize>]),
    item: &Item,
    launching_words: &LaunchingWords,
) -> Option<FunctionSignature> {
    let text = source.text;
    let is_for_device = item.has_specifier(text, tokens, "__device__");
    let is_for_host = item.has_specifier(text, tokens, "__host__");
    let launches = item
        .body
        .clone()
        .any(|token_index| launching_words.contains(tokens[token_index].text(text)));
    let qualifiers = list_qualifiers(text, tokens, item);
    let head = item.tokens.start..item.name_at - 2 * qualifiers.len();
    let namespaces = enclosing_namespaces(text, tokens, braces, item.tokens.start);
    Some(FunctionSignature {
        name: item.name.clone(),
        line: source.line(tokens[item.name_at].start),
        kernel: item.has_specifier(text, tokens, "__global__"),
        device: is_for_device && !is_for_host,
        template: item.template.then(|| parse_template_parameters(text, tokens, head.clone())),
        scope: qualifiers.iter().fold(namespaces, |scope, name| scope + name + "::"),
        local: item.has_specifier(text, tokens, "static"),
        returns: join_token_words(text, tokens, return_type_words(text, tokens, head)),
        parameters: parse_function_parameters(text, tokens, item)?,
        launches,
        tensors: if text.contains("Tensor") {
            read_tensor_body(text, tokens, item.body.clone())
        } else {
            TensorBody::default()
        },
    })
}

/// The names before that of the function `item`: `FORWARD` of `void FORWARD::render(...) {...}`.
fn list_qualifiers<'t>(text: &'t str, tokens: &Tokens, item: &Item) -> Vec<&'t str> {
    let mut qualifiers = Vec::new();
    let mut name_index = item.name_at;
    while name_index >= item.tokens.start + 2
        && tokens.is_spelled_at(text, name_index - 1, "::")
        && tokens[name_index - 2].kind == TokenKind::Ident
    {
        name_index -= 2;
        qualifiers.push(tokens[name_index].text(text));
    }
    qualifiers.reverse();
    qualifiers
}

/// The functions of `unit` whose bodies name one of `others`.
pub fn find_functions_that_name(unit: &SourceUnit, others: &BTreeSet<String>) -> BTreeSet<String> {
    let source = Source::new(unit);
    let tokens = source.view(true);
    let items = outline_items(source.text, &tokens);
    let naming = items.into_iter().filter(|item| {
        let mut body = item.body.clone();
        item.kind == ItemKind::Function
            && body.any(|token_index| others.contains(tokens[token_index].text(source.text)))
    });
    naming.map(|item| item.name).collect()
}

/// A function with its body at namespace scope, and the words in its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionWords {
    /// Its name without namespaces.
    pub name: String,
    /// Whether other files cannot call it.
    pub is_local: bool,
    pub words: BTreeSet<String>,
}

/// The functions of `unit` with their bodies at namespace scope, in order.
pub fn list_function_words(unit: &SourceUnit) -> Vec<FunctionWords> {
    let source = Source::new(unit);
    let text = source.text;
    let tokens = source.view(true);
    let items = outline_items(text, &tokens).into_iter();
    let free_functions = items.filter(|item| item.kind == ItemKind::Function && !item.member);
    let functions = free_functions.map(|item| {
        let body = tokens[item.body.clone()].iter();
        let words = body.filter(|token| token.kind == TokenKind::Ident);
        FunctionWords {
            is_local: item.has_specifier(text, &tokens, "static"),
            words: words.map(|token| token.text(text).to_owned()).collect(),
            name: item.name,
        }
    });
    functions.collect()
}

/// The words of a body that show a launch.
struct LaunchingWords<'a> {
    symbols: &'a Symbols,
    macros: BTreeSet<String>,
}

impl LaunchingWords<'_> {
    fn contains(&self, word: &str) -> bool {
        is_launch(word) || self.symbols.is_kernel(word) || self.macros.contains(word)
    }
}

/// The macros of `source` whose bodies launch, also through one another. Functions define and use them in their bodies.
fn find_launching_macros(source: &Source, symbols: &Symbols) -> BTreeSet<String> {
    let definitions = source.tokens.iter();
    let definitions: Vec<Macro> = definitions
        .filter_map(|&token| macros::parse_macro_definition(source.text, token))
        .collect();
    let mut launching_words = LaunchingWords { symbols, macros: BTreeSet::new() };
    loop {
        let launching = definitions.iter().filter(|defined| {
            let mut words = defined.body.iter().map(|token| token.text(source.text));
            words.any(|word| launching_words.contains(word))
        });
        let names: BTreeSet<String> = launching.map(|defined| defined.name.to_owned()).collect();
        if names == launching_words.macros {
            return names;
        }
        launching_words.macros = names;
    }
}

/// Whether `word` launches a kernel, or has a library do so.
fn is_launch(word: &str) -> bool {
    word == "<<<" || word.starts_with("cudaLaunch") || multiplies_matrices(word)
}

/// Whether a function in `text` can launch a kernel, by a search for words: most headers are told apart by it without a
/// reading.
pub fn may_launch(text: &str) -> bool {
    ["<<<", "cudaLaunch", "cublas", "__global__"].iter().any(|word| text.contains(word))
}

/// Whether `word` is a matrix product of cuBLAS or cuBLASLt.
fn multiplies_matrices(word: &str) -> bool {
    let products = ["gemm", "Gemm", "gemv"];
    let computes =
        word.starts_with("cublas") && products.iter().any(|product| word.contains(product));
    computes || word == "cublasLtMatmul"
}

/// The words of a function's type among those before its name.
fn return_type_words(
    text: &str,
    tokens: &Tokens,
    head: Range<usize>,
) -> impl Iterator<Item = usize> {
    let template =
        head.clone().rev().find(|&token_index| tokens.is_spelled_at(text, token_index, "template"));
    let template_end = template.and_then(|token_index| tokens.skip_angles(text, token_index + 1));
    let words = template_end.unwrap_or(head.start)..head.end;
    words.filter(|&token_index| !is_specifier(tokens[token_index].text(text)))
}

/// The parameters of the template whose head stands among the tokens of `head`.
fn parse_template_parameters(
    text: &str,
    tokens: &Tokens,
    head: Range<usize>,
) -> Vec<TemplateParameter> {
    let Some(template_index) = head
        .into_iter()
        .rev()
        .find(|&token_index| tokens.is_spelled_at(text, token_index, "template"))
    else {
        return Vec::new();
    };
    symbols::template_argument_ranges(text, tokens, template_index + 1)
        .into_iter()
        .filter_map(|range| parse_template_parameter(text, tokens, range))
        .collect()
}

/// The template parameter that the tokens of `range` declare.
fn parse_template_parameter(
    text: &str,
    tokens: &Tokens,
    mut range: Range<usize>,
) -> Option<TemplateParameter> {
    let start = range.start;
    let end = range.end;
    let default = range.find(|&token_index| tokens.is_spelled_at(text, token_index, "="));
    let last = default.unwrap_or(end).checked_sub(1)?;
    let is_named = last > start && tokens[last].kind == TokenKind::Ident;
    let type_end = if is_named { last } else { last + 1 };
    Some(TemplateParameter {
        ty: join_token_words(text, tokens, start..type_end),
        name: if is_named { tokens[last].text(text).to_owned() } else { String::new() },
        has_default: default.is_some(),
    })
}

/// The open namespaces at `token_index`, each with `::`; `braces` are all groups in braces.
fn enclosing_namespaces(
    text: &str,
    tokens: &Tokens,
    braces: &[Range<usize>],
    token_index: usize,
) -> String {
    let around = braces
        .iter()
        .take_while(|group| group.start < token_index)
        .filter(|group| group.end > token_index);
    let mut scope = String::new();
    for brace in around.map(|group| group.start) {
        let words_before = (0..brace).rev().take_while(|&word| {
            tokens[word].kind == TokenKind::Ident && !tokens.is_spelled_at(text, word, "namespace")
                || tokens.is_spelled_at(text, word, "::")
        });
        let name: Vec<usize> = words_before.collect();
        let index_before = brace.checked_sub(name.len() + 1);
        if index_before
            .is_some_and(|index_before| tokens.is_spelled_at(text, index_before, "namespace"))
            && !name.is_empty()
        {
            name.iter().rev().for_each(|&word| scope.push_str(tokens[word].text(text)));
            scope.push_str("::");
        }
    }
    scope
}

/// Whether `word` of a declaration lies outside of its type.
fn is_specifier(word: &str) -> bool {
    let specifiers = [
        "static",
        "inline",
        "extern",
        "\"C\"",
        "__host__",
        "__device__",
        "__global__",
        "constexpr",
    ];
    specifiers.contains(&word)
}

/// The parameters of the function `item`; none if its parentheses do not match.
pub(super) fn parse_function_parameters(
    text: &str,
    tokens: &Tokens,
    item: &Item,
) -> Option<Vec<Parameter>> {
    let open = (item.name_at..item.body.start)
        .find(|&token_index| tokens.is_spelled_at(text, token_index, "("))?;
    let close = tokens.skip_group(open)?.checked_sub(1)?;
    let parts = tokens.split_parameters(text, open + 1..close);
    let parameters = parts
        .into_iter()
        .filter_map(|part| parse_function_parameter(text, tokens, part.start, part.end));
    Some(parameters.collect())
}

fn parse_function_parameter(
    text: &str,
    tokens: &Tokens,
    start: usize,
    end: usize,
) -> Option<Parameter> {
    let default = (start..end).find(|&token_index| tokens.is_spelled_at(text, token_index, "="));
    let end = default.unwrap_or(end);
    let kept_places = (start..end).filter(|&token_index| {
        let token = tokens[token_index];
        token.kind != TokenKind::Directive
            && !matches!(token.text(text), "__restrict__" | "__restrict")
    });
    let mut places: Vec<usize> = kept_places.collect();
    if places.is_empty() || matches!(places[..], [at] if tokens.is_spelled_at(text, at, "void")) {
        return None;
    }
    // `float x[]` is a pointer.
    let array = places.iter().position(|&token_index| tokens.is_spelled_at(text, token_index, "["));
    if let Some(array) = array {
        places.truncate(array);
    }
    let last = *places.last()?;
    let is_named = places.len() > 1 && tokens[last].kind == TokenKind::Ident;
    if is_named {
        places.pop();
    }
    let mut ty = join_token_words(text, tokens, places.into_iter());
    if array.is_some() {
        ty.push_str(" *");
    }
    let name = if is_named { tokens[last].text(text).to_owned() } else { String::new() };
    Some(Parameter { ty, name, body_use: ParameterUse::Unknown, access: ParameterAccess::Unknown })
}

fn join_token_words(text: &str, tokens: &Tokens, places: impl Iterator<Item = usize>) -> String {
    places.map(|token_index| tokens[token_index].text(text)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::super::scan_symbols;
    use super::*;

    fn of(text: &str) -> Vec<FunctionSignature> {
        let unit = SourceUnit { path: "a.cu", text };
        find_function_signatures(&unit, &scan_symbols(&[unit]))
    }

    #[test]
    fn a_host_function_shows_what_it_takes_and_that_it_launches() {
        let found = of("__global__ void k(float* __restrict__ y, int n) { y[0] = n; }\n\
                        static __device__ int helper(int x) { return x; }\n\
                        float run(const float* x, unsigned char mask[], int n = 3, void (*)(int))\n\
                        { k<<<1, 2>>>(0, n); return 0; }\n\
                        static int count(void) { return 1; }\n");
        let told: Vec<String> = found
            .iter()
            .map(|f| {
                let parameters = f.parameters.iter().map(|p| format!("{}|{}", p.ty, p.name));
                let parameters: Vec<_> = parameters.collect();
                format!(
                    "{} {} {}({}) kernel {} local {} launches {}",
                    f.line,
                    f.returns,
                    f.name,
                    parameters.join(", "),
                    f.kernel,
                    f.local,
                    f.launches
                )
            })
            .collect();
        insta::assert_snapshot!(told.join("\n"), @"
        1 void k(float *|y, int|n) kernel true local false launches false
        2 int helper(int|x) kernel false local true launches false
        3 float run(const float *|x, unsigned char *|mask, int|n, void ( * ) ( int )|) kernel false local false launches true
        5 int count() kernel false local true launches false
        ");
    }

    #[test]
    fn a_function_names_others_and_launches_by_pointer() {
        let unit = SourceUnit {
            path: "a.cu",
            text: "void run(float* x) { launch_scale<float>(x, 3); }\n\
                   void point(float* x) { cudaLaunchKernel(kernel, 1, 1, nullptr, 0, 0); }\n\
                   void rest(float* x) { scale(x); }\n",
        };
        let launching: Vec<String> = find_function_signatures(&unit, &scan_symbols(&[unit]))
            .into_iter()
            .filter(|signature| signature.launches)
            .map(|signature| signature.name)
            .collect();
        assert_eq!(launching, ["point"]);
        let naming = find_functions_that_name(&unit, &BTreeSet::from(["launch_scale".to_owned()]));
        assert_eq!(naming, BTreeSet::from(["run".to_owned()]));
    }

    #[test]
    fn a_macro_in_a_body_launches() {
        let unit = SourceUnit {
            path: "a.cu",
            text: "template <int L> __global__ void k(float* x) { *x = L; }\n\
                   void run(float* x, int level) {\n  switch (level) {\n\
                   #define LAUNCH(L) k<L><<<1, 1>>>(x)\n\
                   #define CASE(L) \\\n    case L: LAUNCH(L); break;\n\
                     CASE(0) CASE(1)\n  }\n}\n\
                   void rest(float* x) { CHECK(x); }\n\
                   #define CHECK(x) if (!x) exit(1)\n",
        };
        let signatures = find_function_signatures(&unit, &scan_symbols(&[unit]));
        let launching = signatures.iter().filter(|signature| signature.launches);
        let names: Vec<&str> = launching.map(|signature| signature.name.as_str()).collect();
        assert_eq!(names, ["run"]);
    }

    /// What the bodies tell of each parameter that they tell something of.
    fn uses(text: &str) -> String {
        let found = of(text);
        let told = found.iter().flat_map(|function| {
            let known = function.parameters.iter().filter(|p| p.body_use != ParameterUse::Unknown);
            known.map(|p| format!("{} {} {:?}\n", function.name, p.name, p.body_use))
        });
        told.collect()
    }

    #[test]
    fn a_step_of_an_optimiser_is_a_number_and_what_bounds_a_loop_is_not() {
        let text = "__global__ void k(float* w, float beta, int t, int n) {\n\
                    int i = threadIdx.x; if (i < n) w[i] /= 1.0f - powf(beta, (float)t); }\n\
                    void adam(float* w, float beta, int t, int n) { k<<<(n + 255) / 256, 256>>>(w, beta, t, n); }\n\
                    void other(float* w, int seq, int mode, int m) {\n\
                    if (mode == 1) return; for (int t = 0; t < seq; t++) w[t * m] = pow(2, t + 1); }\n\
                    void away(int n, int m) { if (n != 0) unknown(n); s.m = x->m; }\n\
                    void along(Tensor x, int dim, int k) {\n\
                    TORCH_CHECK(k == 0 || (dim >= 0 && dim < x.dim()), 1); run(x.stride(dim), k); }\n";
        assert_snapshot!(uses(text), @"
        k beta Number
        k t Number
        adam beta Number
        adam t Number
        other mode Number
        along dim Number
        ");
    }

    #[test]
    fn a_pointer_to_one_element_is_told_from_one_to_many() {
        let text = "__global__ void mean(float* loss, float* rows, const float* x, int n) {\n\
                    rows[threadIdx.x] = x[threadIdx.x]; atomicAdd(loss, x[0] / n); }\n\
                    __global__ void last(float* out, float* all) { if (threadIdx.x == 0) out[0] = *all; all[1] = 0; }\n\
                    void run(float* total, float* rows, const float* x, float* kept, int n) {\n\
                    cudaMemset(total, 0, sizeof(float)); if (total) mean<<<1, n>>>(total, rows, x, n);\n\
                    if (kept != nullptr) last<<<1, 1>>>(kept, rows); }\n\
                    void at(float* sums) { atomicAdd(&sums[blockIdx.x], 1.0f); atomicAdd(sums + 1, 1.0f); }\n\
                    void scaled(float* y, const float* w, float a, int i) { y[i] = a * w[i] + x[i] * w[i]; }\n\
                    void again(float* y) { again(y); }\n";
        assert_snapshot!(uses(text), @"
        mean loss OneElement
        last out OneElement
        run total OneElement
        run kept OneElement
        ");
    }

    #[test]
    fn a_comma_in_a_template_argument_hides_no_argument_of_a_call() {
        let text = "void last(float* one, float* many, float* flag) { many[threadIdx.x] = *one; *flag = 1; }\n\
                    void run(float* workspace, int n) { last(make<int, float>(n), workspace, Pair<1, 2>::none); }\n\
                    void compare(float* kept, int a, int b) { last(a < b, all, kept); }\n";
        assert_snapshot!(uses(text), @"
        last one OneElement
        last flag OneElement
        compare kept OneElement
        ");
    }

    #[test]
    fn of_several_functions_with_one_name_none_speaks_for_the_others() {
        let text = "void add(float* y) { *y += 1; }\n\
                    void add(double* y) { y[threadIdx.x] += 1; }\n\
                    void run(double* sums) { add(sums); }\n";
        assert_snapshot!(uses(text), @"add y OneElement");
    }

    #[test]
    fn a_name_may_be_qualified_where_the_function_is_defined() {
        let found =
            of("namespace a { void Rasterizer::Inner::run(float* x) { k<<<1, 1>>>(x); } }\n\
             float one(float x) { return x; }\n");
        let told: Vec<_> = found.iter().map(|f| (&*f.returns, &*f.scope, &*f.name)).collect();
        assert_eq!(told, [("void", "a::Rasterizer::Inner::", "run"), ("float", "", "one")]);
    }

    #[test]
    fn the_words_of_a_body_are_those_of_its_function_alone() {
        let unit = SourceUnit {
            path: "a.cpp",
            text: "static int twice(int x) { return add(x, x); }\n\
                   struct S { int get() { return twice(n); } int n; };\n\
                   int S::all() { return get(); }\n",
        };
        let told = list_function_words(&unit);
        let told: Vec<_> = told
            .iter()
            .map(|f| {
                let words: Vec<&str> = f.words.iter().map(String::as_str).collect();
                (&*f.name, f.is_local, words.join(" "))
            })
            .collect();
        assert_eq!(
            told,
            [("twice", true, "add return x".to_owned()), ("all", false, "get return".to_owned())]
        );
    }

    #[test]
    fn templates_and_namespaces_are_told() {
        let found = of("namespace a { namespace b::c {\n\
             template <typename T, int WIDTH = 4, bool CAUSAL>\n\
             __global__ void k(T* out, const T* inp) { out[0] = inp[0]; }\n\
             } }\n\
             void run(float* out, const float* inp) { k<float, 4><<<1, 1>>>(out, inp); }\n");
        assert_eq!((&*found[0].scope, &*found[1].scope), ("a::b::c::", ""));
        assert_eq!(found[0].returns, "void");
        let template = found[0].template.as_ref().unwrap();
        let template: Vec<String> =
            template.iter().map(|p| format!("{} {} {}", p.ty, p.name, p.has_default)).collect();
        assert_eq!(template, ["typename T false", "int WIDTH true", "bool CAUSAL false"]);
    }
}
