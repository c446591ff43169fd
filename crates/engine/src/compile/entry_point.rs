//! The part of the translation unit besides the user's: the function with the harness's call.

use std::fmt::Write;
use std::ops::Range;

use replay_base::tensor::DType;
use replay_fixture::fixture::Fixture;
use replay_fixture::harness::{Call, Extent, Harness, Init, OutputSpec};
use replay_frontend::{CallTensors, FrontendError, Precision, StatementGives};

use super::call_parts::{PlacedStatement, VariableTypes};
use super::translation::Translation;

/// How messages of the compiler name the harness's call.
pub(super) const CALL: &str = "call in ";

/// The properties of a fixture with an effect on an artifact: the parameters of the call and the size of the tensors,
/// but no data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Inputs, then outputs.
    tensors: Vec<EntryParameter>,
    /// The names of the sizes, and whether one of them needs 64 bits.
    sizes: Vec<(String, bool)>,
    /// Whether the tensors are large enough to spend more of the compiler's time on kernels.
    pub(super) large: bool,
}

/// From this many bytes of tensors on it pays to compile strided loops for several threads at once as well. The compiler
/// takes 40 ms a loop for it; a replay saves 10 ns an element.
const LARGE_BYTES: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
struct EntryParameter {
    name: String,
    dtype: DType,
    scalar: bool,
    strides: bool,
    /// Whether its pointer is null: the fixture leaves it out.
    absent: bool,
}

impl Signature {
    /// The signature of a small fixture with all tensors of `harness`.
    pub fn from_harness(harness: &Harness) -> Signature {
        let inputs = harness.inputs.iter().map(|(name, spec)| (name, spec.dtype, &spec.shape));
        let outputs = harness.outputs.iter().map(|(name, spec)| (name, spec.dtype, &spec.shape));
        let mut sizes: Vec<(String, bool)> = Vec::new();
        let mut tensors = Vec::new();
        for (name, dtype, shape) in inputs.chain(outputs) {
            let scalar = shape.is_empty();
            let name = name.clone();
            tensors.push(EntryParameter { name, dtype, scalar, strides: false, absent: false });
            for extent in shape {
                if let Extent::Named(size) = extent
                    && !sizes.iter().any(|(known, _)| known == size)
                {
                    sizes.push((size.clone(), false));
                }
            }
        }
        for size in &harness.sizes {
            if !sizes.iter().any(|(known, _)| known == size) {
                sizes.push((size.clone(), false));
            }
        }
        Signature { tensors, sizes, large: false }
    }

    /// The signature of `fixture`.
    pub fn from_fixture(fixture: &Fixture) -> Signature {
        let inputs = fixture.inputs.iter().map(|input| EntryParameter {
            name: input.name.clone(),
            dtype: input.dtype,
            scalar: input.dims.is_empty(),
            strides: input.strides.is_some(),
            absent: !input.present,
        });
        let outputs = fixture.outputs.iter().map(|output| EntryParameter {
            name: output.name.clone(),
            dtype: output.dtype,
            scalar: output.dims.is_empty(),
            strides: false,
            absent: false,
        });
        let sizes = fixture.sizes.iter();
        let bytes = fixture.inputs.iter().map(|input| input.storage_bytes());
        let bytes: usize = bytes.chain(fixture.outputs.iter().map(|output| output.bytes())).sum();
        Signature {
            large: bytes >= LARGE_BYTES,
            tensors: inputs.chain(outputs).collect(),
            sizes: sizes
                .map(|(name, &size)| (name.clone(), i32::try_from(size).is_err()))
                .collect(),
        }
    }
}

/// How messages of the compiler name the file of the call.
pub(super) fn harness_origin(harness: &Harness) -> String {
    format!("{CALL}{}", harness_file_name(harness))
}

/// The harness's file, without its folder.
pub(super) fn harness_file_name(harness: &Harness) -> String {
    let path = &harness.path;
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The call with its line and column in the harness.
fn pad_call_to_position(call: &Call) -> String {
    let lines = call.line.saturating_sub(1);
    let columns = call.column.saturating_sub(1);
    format!("{}{}{}", "\n".repeat(lines), " ".repeat(columns), call.text)
}

/// The compiler's text of the call in `part`, from the first line of the harness on.
pub(super) fn find_call_statements<'u>(part: &'u str, harness: &Harness) -> Option<&'u str> {
    // The harness's set-up stands before.
    part.rsplit_once(&format!("#line 1 \"{}\"\n", harness_origin(harness))).map(|(_, rest)| rest)
}

/// The C++ type of `dtype`; in a shadow every floating-point type holds a double.
fn cpp_type_name(dtype: DType, precision: Precision) -> &'static str {
    match (dtype, precision) {
        (DType::F32, Precision::Shadow) => "double",
        _ => dtype.cuda_name(),
    }
}

/// The function with one of the calls of a harness, behind the user's sources.
pub(super) struct EntryPoint<'e> {
    pub harness: &'e Harness,
    /// The number of the call.
    pub call_number: usize,
    signature: &'e Signature,
    translated: &'e Translation,
    precision: Precision,
    /// At its place in the harness, as the call.
    setup: Option<String>,
    call: String,
}

/// The parameters of the entry point and of its parts.
const PARAMETERS: &str = "void* const* replay_tensors, const long long* replay_sizes, \
                          const long long* const* replay_strides";

impl<'e> EntryPoint<'e> {
    /// The entry point with call `call_number`.
    ///
    /// # Errors
    /// [`FrontendError`] if the call gives an argument by its name.
    pub(super) fn new(
        harness: &'e Harness,
        signature: &'e Signature,
        translated: &'e Translation,
        call_number: usize,
        precision: Precision,
    ) -> Result<EntryPoint<'e>, FrontendError> {
        let mut call = pad_call_to_position(&harness.calls[call_number]);
        if let Some(changed) = &translated.changed_tensors {
            let pointers = signature.tensors.iter().filter(|tensor| !tensor.scalar);
            let pointers: Vec<&str> = pointers.map(|tensor| tensor.name.as_str()).collect();
            let outputs: Vec<&str> = harness.outputs.keys().map(String::as_str).collect();
            let tensors = CallTensors { pointers: &pointers, outputs: &outputs, changed };
            call = replay_frontend::bind_call_tensors(&call, &harness_origin(harness), tensors)?;
        }
        let setup = harness.setup.as_ref().map(pad_call_to_position);
        Ok(EntryPoint { harness, call_number, signature, translated, precision, setup, call })
    }

    /// The set-up, if there is one, and the call; and whether each is the set-up.
    pub(super) fn texts(&self) -> impl Iterator<Item = (bool, &str)> {
        let setup = self.setup.iter().map(|setup| (true, setup.as_str()));
        setup.chain([(false, self.call.as_str())])
    }

    /// All of it.
    ///
    /// # Errors
    /// [`FrontendError`] if a statement cannot be translated.
    pub(super) fn generate_whole(&self) -> Result<String, FrontendError> {
        self.generate_main(&[], &[])
    }

    /// All of it, with calls of its parts in the place of some `statements`, by their numbers.
    ///
    /// # Errors
    /// As [`EntryPoint::generate_whole`].
    pub(super) fn generate_main(
        &self,
        statements: &[PlacedStatement],
        part_calls: &[(usize, String)],
    ) -> Result<String, FrontendError> {
        let mut text = format!(
            "{}extern \"C\" __attribute__((visibility(\"default\"))) void replay_call({PARAMETERS}) noexcept {{\n",
            self.include_types()
        );
        if self.precision == Precision::Shadow {
            text.push_str("  ::replay_rt::begin_shadow();\n");
        }
        text.push_str(&self.declare_tensors_and_sizes());
        if self.translated.changed_tensors.is_some() {
            text.push_str(&declare_call_tensors(self.harness, self.signature));
        }
        for (name, spec) in &self.harness.outputs {
            let tensors = &self.signature.tensors;
            text.push_str(&initialise_output_statement(name, spec, |input| {
                tensors.iter().any(|parameter| parameter.name == input && parameter.strides)
            }));
        }
        for (is_setup, statement_text) in self.texts() {
            let mut statement_text = statement_text.to_owned();
            for (number, part_call) in part_calls.iter().rev() {
                let placed = &statements[*number];
                if placed.is_setup == is_setup {
                    let range = placed.statement.range.clone();
                    let declared = match placed.types {
                        VariableTypes::GivenLater => placed.declaration(),
                        VariableTypes::Free | VariableTypes::Bound => None,
                    };
                    let declared = declared
                        .map_or(String::new(), |range| format!("{};", &statement_text[range]));
                    let blank = blank_text(&statement_text[range.clone()]);
                    statement_text.replace_range(range, &(blank + &declared + part_call));
                }
            }
            text.push_str(&self.translate(&statement_text)?);
            text.push_str("\n;\n");
        }
        text.push_str("}\n");
        Ok(text)
    }

    /// The declaration of the part `function`.
    pub(super) fn declare_part(function: &str) -> String {
        format!("extern \"C\" void {function}({PARAMETERS}, void* const* replay_locals)")
    }

    /// The part `function` with statement `number` of `statements`, which uses the variables `locals` of earlier ones. Code
    /// that never runs repeats their declarations: it tells the types.
    ///
    /// # Errors
    /// As [`EntryPoint::generate_whole`].
    pub(super) fn generate_part(
        &self,
        function: &str,
        statements: &[PlacedStatement],
        number: usize,
        locals: &[&String],
    ) -> Result<String, FrontendError> {
        let given = &statements[..=number];
        let declarations = given.iter().filter(|placed| {
            placed.types == VariableTypes::GivenLater || !std::ptr::eq(*placed, &statements[number])
        });
        let declarations =
            declarations.filter_map(|placed| Some((placed.is_setup, placed.declaration()?)));
        let declarations = self.translate_some(declarations)?;
        let mut text = format!(
            "{}{} {{\n{}",
            self.include_types(),
            Self::declare_part(function),
            self.declare_tensors_and_sizes()
        );
        for (index, name) in locals.iter().enumerate() {
            let _ = writeln!(
                text,
                "  auto replay_local_{index} = [&] {{\n{declarations}return &{name};}};\n  auto& {name} = \
                 *static_cast<decltype(replay_local_{index}())>(replay_locals[{index}]);"
            );
        }
        let is_needed = |placed: &&PlacedStatement| {
            placed.statement.gives == StatementGives::Repeatable
                || std::ptr::eq(*placed, &statements[number])
        };
        let needed = given.iter().filter(is_needed);
        text.push_str(
            &self.translate_some(needed.map(|placed| (placed.is_setup, placed.action())))?,
        );
        text.push_str("}\n");
        Ok(text)
    }

    /// The bytes in some ranges of the set-up and of the call, each ended as a statement, translated and at its place.
    fn translate_some(
        &self,
        kept: impl Iterator<Item = (bool, Range<usize>)>,
    ) -> Result<String, FrontendError> {
        let kept: Vec<(bool, Range<usize>)> = kept.collect();
        let mut text = String::new();
        for (is_setup, statement_text) in self.texts() {
            let mut kept_text = String::new();
            for (_, range) in kept.iter().filter(|(is_of_setup, _)| *is_of_setup == is_setup) {
                // `kept_text` has so far the length of what it stands for.
                let skipped = statement_text.get(kept_text.len()..range.start).unwrap_or_default();
                kept_text.push_str(&blank_text(skipped));
                kept_text.push_str(&statement_text[range.clone()]);
                if !kept_text.ends_with([';', '}']) {
                    kept_text.push(';');
                }
            }
            if !kept_text.is_empty() {
                text.push_str(&self.translate(&kept_text)?);
                text.push_str("\n;\n");
            }
        }
        Ok(text)
    }

    fn translate(&self, statements: &str) -> Result<String, FrontendError> {
        let origin = harness_origin(self.harness);
        let symbols = &self.translated.symbols;
        replay_frontend::translate_harness_call(statements, &origin, symbols, self.precision)
    }

    /// The includes of the tensors' types.
    fn include_types(&self) -> String {
        let mut text = String::new();
        for tensor in &self.signature.tensors {
            match tensor.dtype {
                DType::F16 => text.push_str("#include <cuda_fp16.h>\n"),
                DType::BF16 => text.push_str("#include <cuda_bf16.h>\n"),
                DType::F8E4M3 | DType::F8E5M2 => text.push_str("#include <cuda_fp8.h>\n"),
                _ => {}
            }
        }
        text
    }

    /// The statements to declare tensors, strides and sizes out of the parameters.
    fn declare_tensors_and_sizes(&self) -> String {
        let mut text = String::new();
        for (index, tensor) in self.signature.tensors.iter().enumerate() {
            let EntryParameter { name, dtype, scalar, strides, .. } = tensor;
            let ty = cpp_type_name(*dtype, self.precision);
            let _ = if *scalar {
                writeln!(
                    text,
                    "  {ty}& {name} = *static_cast<{ty}*>(replay_tensors[{index}]); (void){name};"
                )
            } else {
                writeln!(
                    text,
                    "  {ty}* {name} = static_cast<{ty}*>(replay_tensors[{index}]); (void){name};"
                )
            };
            if *strides {
                let _ = writeln!(
                    text,
                    "  const long long* {name}_stride = replay_strides[{index}]; (void){name}_stride;"
                );
            }
        }
        for (index, (name, is_wide)) in self.signature.sizes.iter().enumerate() {
            let ty = if *is_wide { "long long" } else { "int" };
            let _ =
                writeln!(text, "  const {ty} {name} = ({ty})replay_sizes[{index}]; (void){name};");
        }
        text
    }
}

/// `text` with a blank for each byte but line breaks.
fn blank_text(text: &str) -> String {
    text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect()
}

/// The statements to tell the small PyTorch of the fixture's tensors: their pointers stand for them in the call. An absent
/// one has no size of its own, and would read as one without elements.
fn declare_call_tensors(harness: &Harness, signature: &Signature) -> String {
    let mut text = "  ::replay_torch::begin_call();\n".to_owned();
    for tensor in signature.tensors.iter().filter(|tensor| !tensor.scalar && !tensor.absent) {
        let EntryParameter { name, dtype, strides, .. } = tensor;
        let input_shape = harness.inputs.get(name).map(|spec| &spec.shape);
        let output_shape = harness.outputs.get(name).map(|spec| &spec.shape);
        let extents =
            input_shape.or(output_shape).into_iter().flatten().map(|extent| match extent {
                Extent::Fixed(size) => size.to_string(),
                Extent::Named(size) => size.clone(),
            });
        let sizes = extents.collect::<Vec<_>>().join(", ");
        let strides = if *strides { format!("{name}_stride") } else { "nullptr".to_owned() };
        let scalar_type = torch_type_name(*dtype);
        let _ = writeln!(
            text,
            "  ::replay_torch::add_call_tensor(\"{name}\", {name}, ::c10::ScalarType::{scalar_type}, \
             {{{sizes}}}, {strides});"
        );
    }
    text
}

/// PyTorch's name of `dtype`.
fn torch_type_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "Double",
        DType::F32 => "Float",
        DType::F16 => "Half",
        DType::BF16 => "BFloat16",
        DType::F8E4M3 => "Float8_e4m3fn",
        DType::F8E5M2 => "Float8_e5m2",
        DType::I64 => "Long",
        DType::I32 => "Int",
        DType::I16 => "Short",
        DType::I8 => "Char",
        DType::U64 => "UInt64",
        DType::U32 => "UInt32",
        DType::U16 => "UInt16",
        DType::U8 => "Byte",
        DType::Bool => "Bool",
    }
}

/// The statement to fill the output `name` before the call, if it begins with a value. `has_strides` tells of inputs.
fn initialise_output_statement(
    name: &str,
    spec: &OutputSpec,
    has_strides: impl Fn(&str) -> bool,
) -> String {
    let extents = spec.shape.iter().map(|extent| match extent {
        Extent::Fixed(size) => format!(" * {size}ull"),
        Extent::Named(size) => format!(" * (unsigned long long){size}"),
    });
    let bytes = format!("sizeof(*{name}){}", extents.collect::<String>());
    match &spec.init {
        None => String::new(),
        Some(Init::Zero) if spec.shape.is_empty() => format!("  {name} = 0;\n"),
        Some(Init::Zero) => format!("  cudaMemset({name}, 0, {bytes});\n"),
        Some(Init::Copy(input)) if spec.shape.is_empty() => format!("  {name} = {input};\n"),
        Some(Init::Copy(input)) if has_strides(input) => format!(
            "  static_assert(sizeof(*{name}) == 0, \"init of {name}: {input} has strides, and an output \
             has none\");\n"
        ),
        Some(Init::Copy(input)) => {
            format!("  cudaMemcpy({name}, {input}, {bytes}, cudaMemcpyDeviceToDevice);\n")
        }
    }
}
