//! Rewrites CUDA C++ into host C++ and device CUDA C++. Text in, text out: no files, processes
//! or devices.
//!
//! [`translate_for_host`] turns launches and shared memory into calls of the headers in `runtime/include`;
//! [`translate_for_device`] leaves the code for NVRTC. Both keep every line where it was. `docs/frontend.md` tells
//! the limits of the rewriting.
#![deny(unreachable_pub)]
#![deny(unsafe_code)]

mod body_tokens;
mod bounds;
mod brackets;
mod byte_casts;
mod byte_counts;
mod call_statements;
mod call_tensors;
mod code_lines;
mod conditions;
mod device;
mod device_shadow;
mod double_twins;
mod error;
mod guards;
mod half_steps;
mod host;
mod in_place;
mod includes;
mod instances;
mod integer_conversions;
mod integer_variables;
mod launch_macros;
mod launches;
mod literals;
mod loose_launches;
mod native_sizes;
mod number_bits;
mod own_names;
mod packed_casts;
mod parameter_access;
mod parameter_reader;
mod parameter_uses;
mod plain_integers;
mod ptx;
mod reachability;
mod shadow;
mod shared;
mod shared_names;
mod signatures;
mod size_assertions;
mod struct_fields;
mod symbols;
mod syntax;
mod tensor_bodies;
mod thread_loop;
mod torch_extension;
mod traps;
mod typenames;
mod unreached_kernels;
mod unsupported;
mod void_casts;

pub use call_statements::{CallStatement, StatementGives, split_call_statements};
pub use call_tensors::{CallTensors, bind_call_tensors};
pub use code_lines::{find_function_lines, is_same_code};
pub use error::FrontendError;
pub use launches::find_launched_name;
pub use parameter_access::ParameterAccess;
pub use parameter_uses::ParameterUse;
pub use signatures::{
    FunctionSignature, FunctionWords, Parameter, TemplateParameter, find_function_signatures,
    find_functions_that_name, list_function_words, may_launch,
};
pub use struct_fields::{PlainStruct, StructField, find_plain_structs};
pub use symbols::{Symbols, scan_symbols};
pub use tensor_bodies::{PythonName, TensorBody, binds_functions, find_python_names};
pub use torch_extension::{find_changed_tensors, keep_called_tensor_code, uses_tensors};
pub use traps::{RefusedLine, trap_refused_lines};
pub use unreached_kernels::{ReachedSources, UnreachedKernel, leave_out_unreached_kernels};

pub use crate::syntax::SourceUnit;
pub use crate::thread_loop::{KernelForm, ShuffleReason, ShuffleSite, StackReason, ThreadForm};

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::syntax::source::Source;
use crate::syntax::{edits, escape_c_string, lexer, macros, outline, source};

/// The meaning of `float` in the translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Precision {
    /// The meaning in the source.
    Native,
    /// `double`: the float64 shadow of the source.
    Shadow,
    /// The meaning in the source; in addition, the engine is told of each access to memory.
    Checked,
}

/// How the threads of a block are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Threads {
    /// Each on a stack of its own.
    Stacks,
    /// By one call of the kernel, where the front end understands it in every detail; else each on a stack of its own.
    /// Their order is the same.
    Blocks,
    /// The same, and strided loops run for several threads at once (`replay/lanes.h`).
    Lanes,
}

/// A file as host C++.
#[derive(Clone, Debug)]
pub struct Translated {
    /// A `#line` directive and the rewritten file, line for line.
    pub text: String,
    /// Every launch, in order.
    pub launches: Vec<LaunchSite>,
    /// Every kernel with a body in the file, in order.
    pub kernels: Vec<Kernel>,
    /// How the threads of each kernel with a body are run, in order; empty with [`Threads::Stacks`].
    pub kernel_forms: Vec<KernelForm>,
    /// Every shuffle in a function, in order; empty with [`Threads::Stacks`].
    pub shuffles: Vec<ShuffleSite>,
    /// Why the float64 shadow may not mean the same as the source; empty without a shadow.
    pub shadow_obstacles: Vec<Obstacle>,
}

/// A launch in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchSite {
    /// 1-based.
    pub line: usize,
    /// The callee as written, white space folded.
    pub callee: String,
}

/// A `__global__` function with its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its name without namespaces.
    pub name: String,
    /// The 1-based line of the name.
    pub line: usize,
    /// Whether it is a template or a specialisation of one.
    pub template: bool,
}

/// A construct whose meaning changes if `float` means `double`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// 1-based.
    pub line: usize,
    /// The construct, as written.
    pub what: String,
    /// The function, class or macro around it. None: it always counts.
    pub within: Option<String>,
    /// Whether the shadow ends itself, with this reason, before it runs such code. Else it counts wherever
    /// the names in a call lead to `within`.
    pub guarded: bool,
}

/// A size in bytes without a `sizeof`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteCount {
    /// 1-based.
    pub line: usize,
    /// The expression, white space folded.
    pub written: String,
    /// Whether one of its numbers may be the size of a floating-point number.
    pub has_literal: bool,
}

/// The sizes in bytes without a `sizeof` in calls of the runtime API by `unit`.
pub fn unit_byte_counts(unit: &SourceUnit) -> Vec<ByteCount> {
    byte_counts::find_byte_counts(&Source::without_main(unit))
}

/// Code that takes a floating-point number to an integer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntegerConversion {
    /// 1-based.
    pub line: usize,
    /// The expression, white space folded.
    pub written: String,
}

/// The conversions of floating-point numbers to integers in device code and in macros of `unit`.
pub fn unit_integer_conversions(unit: &SourceUnit) -> Vec<IntegerConversion> {
    integer_conversions::find_integer_conversions(&Source::without_main(unit))
}

/// Translates one file for the host compiler.
///
/// Launches become calls of `::replay_rt::kernel` or `::replay_rt::kernel_at`, shared memory
/// becomes references into the block's memory, and with [`Precision::Shadow`] `float` becomes
/// `double`; `threads` says how kernels run. The first line of the result is `#line 1 "PATH"`; the
/// file's lines follow.
///
/// # Errors
/// [`FrontendError`] if a launch cannot be rewritten or a feature is not supported on the CPU.
pub fn translate_for_host(
    unit: &SourceUnit,
    symbols: &Symbols,
    precision: Precision,
    threads: Threads,
) -> Result<Translated, FrontendError> {
    let mut translated = host::translate_host_source(
        &Source::without_main(unit),
        symbols,
        precision,
        host::HostScope::File,
    )
    .map_err(first_refusal)?;
    if threads != Threads::Stacks {
        let lanes = threads == Threads::Lanes;
        let facts = symbols.block_facts();
        let translate_other = |(path, text): (&str, &str)| {
            let source = Source::without_main(&SourceUnit { path, text });
            let translated =
                host::translate_host_source(&source, symbols, precision, host::HostScope::File);
            translated.ok().map(|translated| (path.to_owned(), translated.text))
        };
        let other_files: Vec<(String, String)> = if unit.text.contains("__global__") {
            let files = facts.files_with_waits(unit.text).into_iter();
            files.filter(|(path, _)| *path != unit.path).filter_map(translate_other).collect()
        } else {
            Vec::new()
        };
        let rewritten = thread_loop::rewrite_thread_loops(
            unit.path,
            &translated.text,
            facts,
            &other_files,
            lanes,
        );
        translated.text = rewritten.text;
        translated.kernel_forms = rewritten.kernels;
        translated.shuffles = rewritten.shuffles;
    }
    translated.text = bounds::uncover_bounds_entries(translated.text);
    Ok(translated)
}

/// Translates the statements of a harness's `call` for the body of a function.
///
/// `origin` names them in messages. The result starts with a `#line` directive, like [`translate_for_host`]'s.
///
/// # Errors
/// As [`translate_for_host`].
pub fn translate_harness_call(
    statements: &str,
    origin: &str,
    symbols: &Symbols,
    precision: Precision,
) -> Result<String, FrontendError> {
    let source = Source::new(&SourceUnit { path: origin, text: statements });
    host::translate_host_source(&source, symbols, precision, host::HostScope::Body)
        .map(|translated| translated.text)
        .map_err(first_refusal)
}

/// Every reason why `unit` cannot be translated for the host compiler: [`translate_for_host`] gives the first one.
pub fn find_refusals(
    unit: &SourceUnit,
    symbols: &Symbols,
    precision: Precision,
) -> Vec<FrontendError> {
    let source = Source::without_main(unit);
    let translated =
        host::translate_host_source(&source, symbols, precision, host::HostScope::File);
    translated.err().unwrap_or_default()
}

fn first_refusal(refusals: Vec<FrontendError>) -> FrontendError {
    refusals.into_iter().next().expect("a refused file has a refusal")
}

/// The part of one file for NVRTC: its kernels, device functions, types, constants and macros. Host functions,
/// variables and headers are blank, so every line stays where it was.
///
/// Standard headers for kernels become `<replay_nvrtc/NAME>`, the headers in `runtime/nvrtc`. The result starts
/// with an `#include` of the prelude there and with `#line 1 "PATH"`; the file's lines follow. With
/// [`Precision::Shadow`] `float` becomes `double`.
///
/// # Errors
/// None at present: NVRTC reports its own.
pub fn translate_for_device(
    unit: &SourceUnit,
    symbols: &Symbols,
    precision: Precision,
) -> Result<String, FrontendError> {
    Ok(device::translate_device_source(&Source::without_main(unit), symbols, precision))
}

/// Why `unit` has no device code in float64 to fit its host code in float64; none if it may have some.
pub fn device_shadow_obstacle(unit: &SourceUnit) -> Option<&'static str> {
    device_shadow::find_device_obstacle(&Source::without_main(unit))
}

/// `define`, a macro of a command line as `NAME` or `NAME=VALUE`, in the float64 shadow.
pub fn widen_macro(define: &str) -> String {
    shadow::widen_text(define)
}

/// The device shadow's name for `name`, the native name in a launch or a copy.
pub fn device_shadow_name(name: &str) -> String {
    device_shadow::widen_device_code(name)
}

/// The names of one file alone.
#[derive(Clone, Debug, Default)]
pub struct OwnNames {
    /// Its functions, variables and types at namespace scope.
    pub defined: BTreeSet<String>,
    /// Those of them that are `static`.
    pub internal: BTreeSet<String>,
    /// The types of the parameters of its functions that other files may call, by name; kernels are left out.
    pub parameter_lists: BTreeMap<String, BTreeSet<String>>,
    /// Its namespaces.
    pub namespaces: BTreeSet<String>,
    /// Its names with functions without a body, and with functions of classes.
    pub declared: BTreeSet<String>,
    /// The identifiers behind `.`, `->` or `::`.
    pub member_words: BTreeSet<String>,
    /// Its macros, and whether they may mean something to other code: all but guards against a second inclusion.
    pub macros: BTreeMap<String, bool>,
    /// The identifiers in its code and in its conditions.
    pub words: BTreeSet<String>,
}

/// A `static` variable at namespace scope that is not `const`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticVariable {
    pub name: String,
    /// Whether it is `__device__` or `__managed__`.
    pub is_device: bool,
    /// Whether it is `__constant__`.
    pub is_constant: bool,
    /// Whether it has an initial value.
    pub is_given: bool,
}

/// The `static` variables of `unit`.
pub fn list_static_variables(unit: &SourceUnit) -> Vec<StaticVariable> {
    own_names::list_static_variables(&Source::without_main(unit))
}

/// The names of `unit` alone.
pub fn collect_own_names(unit: &SourceUnit) -> OwnNames {
    own_names::find_own_names(&Source::without_main(unit))
}

/// The macros that `unit` defines, in order: the 1-based line, the name, and the words of the definition.
pub fn list_macro_definitions(unit: &SourceUnit) -> Vec<(usize, String, String)> {
    let source = Source::without_main(unit);
    let text = source.text;
    let mut definitions = Vec::new();
    for &token in &source.tokens {
        if let Some(definition) = macros::parse_macro_definition(text, token) {
            let words = lexer::lex_directive(text, token);
            let words: Vec<&str> = words.iter().map(|word| word.text(text)).collect();
            let line = source.line(definition.name_at);
            definitions.push((line, definition.name.to_owned(), words.join(" ")));
        }
    }
    definitions
}

/// The name of the function beside the kernel `name` that tells the instance of a launch with deduced arguments.
pub fn companion_name(name: &str) -> String {
    format!("{}{name}", instances::COMPANION)
}

/// `text` with launches written as `k << <g, b>> >(x)` closed up, if it has any; no byte moves beyond
/// them.
pub fn tighten_launches(text: &str) -> Option<String> {
    loose_launches::tighten_launch_signs(text)
}

/// The identifiers in `unit`, each once; comments, literals and code under `#if 0` left out.
pub fn collect_identifiers(unit: &SourceUnit) -> BTreeSet<String> {
    let source = Source::new(unit);
    let text = source.text;
    let mut identifier_words = BTreeSet::new();
    for &token in &source.tokens {
        let inner_tokens = match token.kind {
            lexer::TokenKind::Directive => lexer::lex_directive(text, token).to_vec(),
            _ => vec![token],
        };
        let identifier_tokens =
            inner_tokens.iter().filter(|token| token.kind == lexer::TokenKind::Ident);
        identifier_words.extend(identifier_tokens.map(|token| token.text(text).to_owned()));
    }
    identifier_words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(text: &str, precision: Precision) -> Translated {
        let unit = SourceUnit { path: "a.cu", text };
        translate_for_host(&unit, &scan_symbols(&[unit]), precision, Threads::Lanes).unwrap()
    }

    #[test]
    fn literals_of_several_lines_leave_the_lines_behind_them_where_they_were() {
        let text = "template <class T, int N = sizeof(\"a\\\nb\")> __global__ void k(T* x) {\n\
                    __shared__ __attribute__((section(\"c\\\nd\"))) float fixed[2];\n\
                    extern __shared__ decltype(\"e\\\nf\"[0]) dynamic[];\n}\n\
                    extern __shared__ __attribute__((section(\"g\\\nh\"))) float global[];\n\
                    void run(float* x) { k<<<1, 2>>>(x); } // last";
        let last = text.lines().count();
        for precision in [Precision::Native, Precision::Shadow] {
            let made = translated(text, precision).text;
            let place = made.lines().position(|line| line.ends_with("// last"));
            assert_eq!(place, Some(last), "behind a #line directive:\n{made}");
        }
    }

    #[test]
    fn shared_memory_that_is_marked_twice_is_rewritten_once() {
        let made =
            translated("__global__ void k() { __shared__ __shared__ int a; }", Precision::Native);
        assert_eq!(made.text.matches("typedef").count(), 1, "{}", made.text);
        assert_eq!(made.text.matches("shared_slot").count(), 1, "{}", made.text);
    }

    #[test]
    fn a_word_that_is_repeated_does_not_hide_the_kernel_behind_it() {
        let text = "__global__ __global__ void k(int n);\nvoid run() { k<<<1, 2>>>(3); }";
        let made = translated(text, Precision::Native);
        assert!(made.text.contains("kernel<&k>"), "{}", made.text);
    }

    #[test]
    fn a_kernel_with_the_name_of_a_function_of_cuda_is_chosen_by_its_arguments() {
        for name in ["norm", "hypotf"] {
            let text = format!(
                "__global__ void {name}(const float* x, float* y) {{}}\n\
                 void run(float* x) {{ {name}<<<1, 2>>>(x, x); }}"
            );
            let made = translated(&text, Precision::Native).text;
            let launch = format!(
                "kernel_deduced([&](auto... replay_arguments) -> decltype(replay_instance_{name}"
            );
            assert!(made.contains(&launch), "{made}");
        }
    }

    #[test]
    fn a_kernel_with_open_arguments_that_using_names_brings_its_companion() {
        let text = "namespace a { template <class T> __global__ void k(T* x) {} }\n\
                    using ::a::k;\nusing number = a::k;\n\
                    void run(float* x) { k<<<1, 2>>>(x); }";
        let made = translated(text, Precision::Native).text;
        assert!(made.contains("using ::a::k; using ::a::replay_instance_k;\n"), "{made}");
        assert_eq!(made.matches("::replay_instance_k;").count(), 1, "{made}");
    }

    #[test]
    fn kernels_in_calls_of_the_runtime_api_lose_their_casts_to_void() {
        let text = "void run() {\ncudaLaunchKernel((void*)k, 1, 2, a);\n\
                    cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(&k), a);\n\
                    cudaLaunchKernelExC((void*)config);\ncudaLaunchKernel();\n}";
        let made = translated(text, Precision::Native).text;
        assert!(made.contains("cudaLaunchKernel(k, 1, 2, a);"), "{made}");
        assert!(made.contains("cudaLaunchKernelExC(&config, (&k), a);"), "{made}");
        assert!(made.contains("cudaLaunchKernelExC((void*)config);"), "{made}");
    }

    #[test]
    fn members_of_classes_nested_too_deep_are_passed_over() {
        let nested = |levels: usize| {
            let text =
                format!("{}void f(int n) {{}}{}", "struct A {".repeat(levels), "};".repeat(levels));
            let unit = SourceUnit { path: "a.cu", text: &text };
            let made =
                translate_for_device(&unit, &scan_symbols(&[unit]), Precision::Native).unwrap();
            made.contains("void f(int n)")
        };
        // Members of the host are blank.
        assert!(!nested(3));
        assert!(nested(1000));
    }

    #[test]
    fn identifiers_are_those_of_code_and_macros_alone() {
        let text =
            "// logf\n#define E(x) expf(x)\n#if 0\ntanhf\n#endif\nfloat y = \"erff\" + E(z);";
        let found = collect_identifiers(&SourceUnit { path: "a.cu", text });
        let names: Vec<&str> = found.iter().map(String::as_str).collect();
        assert_eq!(names, ["E", "define", "endif", "expf", "float", "x", "y", "z"]);
    }
}
