//! The dtypes that a project's names of types stand for.

use std::collections::{BTreeMap, HashMap};

use ::replay::frontend::{PlainStruct, SourceUnit, find_plain_structs};
use ::replay::tensor::DType;

use super::shape_search::is_word_character;
use super::text_literals::find_compared_literals;

/// Types of parameters that no fixture holds, with the arguments for them.
pub const VALUE_TYPES: [(&str, &str); 1] = [("cudaStream_t", "0")];

/// Names for types, as `typedef`, `using` and `#define` give them.
#[derive(Debug, Default)]
pub struct TypeNames {
    aliases: HashMap<String, String>,
    /// Structures that a call can fill, by name.
    structs: HashMap<String, PlainStruct>,
    /// The first text that a variable is compared with, by its name.
    literals: BTreeMap<String, String>,
}

/// The words of the type `ty` without what refers to it.
pub fn element_words(ty: &str) -> String {
    let qualifiers = ["const", "*", "&", "struct", "volatile"];
    ty.split(' ').filter(|word| !qualifiers.contains(word)).collect::<Vec<_>>().join(" ")
}

/// What a pointer points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointeeType {
    /// None where the type is not known.
    pub dtype: Option<DType>,
    /// How many numbers it has.
    pub lanes: usize,
    /// The type to which a pointer to its numbers is cast, where the harness has another.
    cast: Option<String>,
}

impl PointeeType {
    /// The dtype of a number that a scalar of the call can hold; none of vectors and types of the project's own.
    pub fn scalar_dtype(&self) -> Option<DType> {
        self.dtype.filter(|dtype| dtype.is_float() && self.lanes == 1 && self.cast.is_none())
    }

    /// The argument for the tensor `name`.
    pub fn argument(&self, name: &str) -> String {
        match &self.cast {
            Some(ty) => format!("reinterpret_cast<{ty}*>({name})"),
            None => name.to_owned(),
        }
    }
}

/// A name is not followed through more others than this.
const MOST_STEPS: usize = 8;

impl TypeNames {
    /// The names in `texts`. Of several meanings the last counts: mostly the branch without a condition.
    pub fn from_texts<'t>(texts: impl IntoIterator<Item = &'t str>) -> TypeNames {
        let texts: Vec<&str> = texts.into_iter().collect();
        let mut types =
            TypeNames { literals: find_compared_literals(&texts), ..TypeNames::default() };
        for text in texts {
            types.aliases.extend(text.lines().filter_map(parse_type_alias));
            let structs = find_plain_structs(&SourceUnit { path: "", text });
            types.structs.extend(structs.into_iter().map(|found| (found.name.clone(), found)));
        }
        types
    }

    /// The first text that the variable `name` is compared with.
    pub fn literal(&self, name: &str) -> Option<&str> {
        self.literals.get(name).map(String::as_str)
    }

    /// The structure behind `ty`, an object, a reference or a pointer to one; none if it holds no tensor.
    pub fn plain_struct(&self, ty: &str) -> Option<&PlainStruct> {
        let element = element_words(ty);
        let name = element.rsplit(' ').next()?;
        let has_tensors =
            |found: &&PlainStruct| found.fields.iter().any(|field| field.ty.contains('*'));
        let stars = ty.matches('*').count();
        self.structs.get(name).filter(has_tensors).filter(|_| stars < 2)
    }

    /// The dtype of `words`; none if it is unknown.
    pub fn dtype(&self, words: &str) -> Option<DType> {
        parse_scalar_type(&self.meaning(words))
    }

    /// The type that `words` stand for, followed through other names to a known one.
    fn meaning(&self, words: &str) -> String {
        let mut meaning = words.to_owned();
        for _ in 0..MOST_STEPS {
            let is_known =
                parse_scalar_type(&meaning).is_some() || parse_vector_type(&meaning).is_some();
            match self.aliases.get(&meaning).filter(|_| !is_known) {
                Some(next) => meaning.clone_from(next),
                None => break,
            }
        }
        meaning
    }

    /// What a pointer to `words` points to.
    pub fn element(&self, words: &str) -> PointeeType {
        let meaning = self.meaning(words);
        if let Some((dtype, lanes)) = parse_vector_type(&meaning) {
            return PointeeType { dtype: Some(dtype), lanes, cast: Some(words.to_owned()) };
        }
        let dtype = self.dtype(words);
        // Where `int64_t` is `long`, it is not the `long long` of the harness.
        let is_wide = matches!(dtype, Some(DType::I64 | DType::U64));
        let is_long_long = matches!(words, "long long" | "unsigned long long" | "long long int");
        // PyTorch's narrow floats are types of their own.
        let is_of_torch = ["at", "c10", "torch"].iter().any(|scope| meaning.starts_with(scope));
        let is_cast = is_wide && !is_long_long || dtype.is_some() && is_of_torch;
        PointeeType { dtype, lanes: 1, cast: is_cast.then(|| words.to_owned()) }
    }
}

/// The name and the meaning that `line` gives it.
fn parse_type_alias(line: &str) -> Option<(String, String)> {
    let line = line.split("//").next()?.trim();
    let words: Vec<&str> = line.split_whitespace().collect();
    let (name, meaning) = match words.as_slice() {
        ["#define", name, meaning @ ..] => (*name, meaning.join(" ")),
        ["typedef", meaning @ .., name] => (name.strip_suffix(';')?, meaning.join(" ")),
        ["using", name, "=", meaning @ ..] => {
            (*name, meaning.join(" ").strip_suffix(';')?.trim().to_owned())
        }
        _ => return None,
    };
    let is_name = !name.is_empty() && name.chars().all(is_word_character);
    (is_name && !meaning.is_empty() && name != meaning).then(|| (name.to_owned(), meaning))
}

fn parse_scalar_type(words: &str) -> Option<DType> {
    let unqualified = words.replace(" :: ", "::").replace("std::", "");
    Some(match unqualified.as_str() {
        "float" => DType::F32,
        "double" => DType::F64,
        "__half" | "half" | "at::Half" | "c10::Half" | "torch::Half" => DType::F16,
        "__nv_bfloat16" | "nv_bfloat16" | "at::BFloat16" | "c10::BFloat16" | "torch::BFloat16" => {
            DType::BF16
        }
        "__nv_fp8_e4m3" | "c10::Float8_e4m3fn" => DType::F8E4M3,
        "__nv_fp8_e5m2" | "c10::Float8_e5m2" => DType::F8E5M2,
        "int64_t" | "long" | "long int" | "long long" | "long long int" | "ptrdiff_t" => DType::I64,
        "int" | "int32_t" | "signed" => DType::I32,
        "short" | "int16_t" => DType::I16,
        "signed char" | "int8_t" | "char" => DType::I8,
        "uint64_t"
        | "size_t"
        | "unsigned long"
        | "unsigned long long"
        | "unsigned long long int" => DType::U64,
        "unsigned" | "unsigned int" | "uint32_t" | "uint" => DType::U32,
        "unsigned short" | "uint16_t" => DType::U16,
        "unsigned char" | "uint8_t" => DType::U8,
        "bool" => DType::Bool,
        _ => return None,
    })
}

/// The dtype and the number of lanes of one of CUDA's vector types, such as `uint4`.
fn parse_vector_type(words: &str) -> Option<(DType, usize)> {
    match words {
        "half2" | "__half2" => return Some((DType::F16, 2)),
        "__nv_bfloat162" | "nv_bfloat162" => return Some((DType::BF16, 2)),
        _ => {}
    }
    // The alignment of a type is no part of its numbers.
    let name = words.trim_end_matches("_16a").trim_end_matches("_32a");
    let lanes = name.chars().next_back()?.to_digit(10).filter(|lanes| (1..=4).contains(lanes))?;
    let dtype = match &name[..name.len() - 1] {
        "float" => DType::F32,
        "double" => DType::F64,
        "char" => DType::I8,
        "uchar" => DType::U8,
        "short" => DType::I16,
        "ushort" => DType::U16,
        "int" => DType::I32,
        "uint" => DType::U32,
        "long" | "longlong" => DType::I64,
        "ulong" | "ulonglong" => DType::U64,
        _ => return None,
    };
    Some((dtype, lanes as usize))
}

/// The dtype with this number in PyTorch (c10/core/ScalarType.h).
pub(super) fn find_dtype_by_torch_number(number: usize) -> Option<DType> {
    Some(match number {
        0 => DType::U8,
        1 => DType::I8,
        2 => DType::I16,
        3 => DType::I32,
        4 => DType::I64,
        5 => DType::F16,
        6 => DType::F32,
        7 => DType::F64,
        11 => DType::Bool,
        15 => DType::BF16,
        23 => DType::F8E5M2,
        24 => DType::F8E4M3,
        27 => DType::U16,
        28 => DType::U32,
        29 => DType::U64,
        _ => return None,
    })
}

/// The dtype that a constant of PyTorch names, as checks of dtypes spell it.
pub(super) fn find_dtype_by_torch_constant(word: &str) -> Option<DType> {
    Some(match word {
        "kHalf" | "kFloat16" | "Half" => DType::F16,
        "kBFloat16" | "BFloat16" => DType::BF16,
        "kFloat" | "kFloat32" | "Float" => DType::F32,
        "kDouble" | "kFloat64" | "Double" => DType::F64,
        "kInt" | "kInt32" | "Int" => DType::I32,
        "kLong" | "kInt64" | "Long" => DType::I64,
        "kByte" | "kUInt8" | "Byte" => DType::U8,
        "kBool" | "Bool" => DType::Bool,
        _ => return None,
    })
}

/// The dtype with this name in Python: `torch.int32`.
pub(super) fn find_dtype_by_python_name(name: &str) -> Option<DType> {
    Some(match name {
        "half" | "float16" => DType::F16,
        "bfloat16" => DType::BF16,
        "float" | "float32" => DType::F32,
        "double" | "float64" => DType::F64,
        "int8" => DType::I8,
        "int" | "int32" => DType::I32,
        "long" | "int64" => DType::I64,
        "uint8" => DType::U8,
        "bool" => DType::Bool,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types_are_followed_to_their_last_meaning() {
        let text = "#if defined(ENABLE_BF16)\ntypedef __nv_bfloat16 floatX;\n#else\n\
                    typedef float floatX; // default\n#endif\nusing scalar = floatX;\n\
                    #define REAL scalar\n#define LOOP LOOP2\n#define LOOP2 LOOP\n#define f(x) x\n";
        let types = TypeNames::from_texts([text]);
        assert_eq!(types.dtype("floatX"), Some(DType::F32));
        assert_eq!(types.dtype("REAL"), Some(DType::F32));
        assert_eq!(types.dtype("std :: size_t"), Some(DType::U64));
        assert_eq!((types.dtype("LOOP"), types.dtype("Config")), (None, None));
        assert_eq!(types.element("float4").lanes, 4);
    }

    #[test]
    fn narrow_floats_of_pytorch_are_cast_to() {
        let types = TypeNames::from_texts(["typedef at::BFloat16 bf16;\n"]);
        let element = types.element("bf16");
        assert_eq!((element.dtype, element.cast.as_deref()), (Some(DType::BF16), Some("bf16")));
        assert_eq!(types.element("at :: Half").cast.as_deref(), Some("at :: Half"));
        assert_eq!(types.element("__half").cast, None);
    }

    #[test]
    fn all_vector_types_of_cuda_are_known() {
        let types = TypeNames::from_texts(["typedef uint4 packed;\n"]);
        let found = |words| {
            let element = types.element(words);
            (element.dtype, element.lanes)
        };
        for (words, dtype, lanes) in [
            ("uint2", DType::U32, 2),
            ("packed", DType::U32, 4),
            ("double2", DType::F64, 2),
            ("double4_32a", DType::F64, 4),
            ("ushort4", DType::U16, 4),
            ("longlong2", DType::I64, 2),
            ("ulonglong2", DType::U64, 2),
            ("float3", DType::F32, 3),
            ("char1", DType::I8, 1),
            ("__half2", DType::F16, 2),
        ] {
            assert_eq!(found(words), (Some(dtype), lanes), "{words}");
        }
        for words in ["float5", "dim3", "config2", "float", "4"] {
            assert_eq!(found(words).1, 1, "{words}");
        }
    }
}
