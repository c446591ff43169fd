//! The dtypes that a project's names of types stand for.

use std::collections::HashMap;

use ::replay::tensor::DType;

/// Types of parameters that no fixture holds, with the arguments for them.
pub const VALUE_TYPES: [(&str, &str); 1] = [("cudaStream_t", "0")];

/// Names for types, as `typedef`, `using` and `#define` give them.
#[derive(Debug, Default)]
pub struct TypeNames {
    aliases: HashMap<String, String>,
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
    pub fn argument(&self, name: &str, is_const: bool) -> String {
        let qualifier = if is_const { "const " } else { "" };
        match &self.cast {
            Some(ty) => format!("reinterpret_cast<{qualifier}{ty}*>({name})"),
            None => name.to_owned(),
        }
    }
}

/// A name is not followed through more others than this.
const MOST_STEPS: usize = 8;

impl TypeNames {
    /// The names in `texts`. Of several meanings the last counts: mostly the branch without a condition.
    pub fn from_texts<'t>(texts: impl IntoIterator<Item = &'t str>) -> TypeNames {
        let lines = texts.into_iter().flat_map(str::lines);
        TypeNames { aliases: lines.filter_map(parse_type_alias).collect() }
    }

    /// The dtype of `words`; none if it is unknown.
    pub fn dtype(&self, words: &str) -> Option<DType> {
        let mut words = words.to_owned();
        for _ in 0..MOST_STEPS {
            if let Some(dtype) = parse_scalar_type(&words) {
                return Some(dtype);
            }
            words = self.aliases.get(&words)?.clone();
        }
        None
    }

    /// What a pointer to `words` points to.
    pub fn element(&self, words: &str) -> PointeeType {
        if let Some((dtype, lanes)) = parse_vector_type(words) {
            return PointeeType { dtype: Some(dtype), lanes, cast: Some(words.to_owned()) };
        }
        let dtype = self.dtype(words);
        // Where `int64_t` is `long`, it is not the `long long` of the harness.
        let is_wide = matches!(dtype, Some(DType::I64 | DType::U64));
        let is_long_long = matches!(words, "long long" | "unsigned long long" | "long long int");
        PointeeType { dtype, lanes: 1, cast: (is_wide && !is_long_long).then(|| words.to_owned()) }
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
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    (is_name && !meaning.is_empty() && name != meaning).then(|| (name.to_owned(), meaning))
}

fn parse_scalar_type(words: &str) -> Option<DType> {
    let unqualified = words.replace("std :: ", "").replace("std::", "");
    Some(match unqualified.as_str() {
        "float" => DType::F32,
        "double" => DType::F64,
        "__half" | "half" | "at :: Half" | "c10 :: Half" => DType::F16,
        "__nv_bfloat16" | "nv_bfloat16" | "at :: BFloat16" | "c10 :: BFloat16" => DType::BF16,
        "__nv_fp8_e4m3" | "c10 :: Float8_e4m3fn" => DType::F8E4M3,
        "__nv_fp8_e5m2" | "c10 :: Float8_e5m2" => DType::F8E5M2,
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

fn parse_vector_type(words: &str) -> Option<(DType, usize)> {
    Some(match words {
        "float2" => (DType::F32, 2),
        "float4" => (DType::F32, 4),
        "double2" => (DType::F64, 2),
        "half2" | "__half2" => (DType::F16, 2),
        "__nv_bfloat162" | "nv_bfloat162" => (DType::BF16, 2),
        "int2" => (DType::I32, 2),
        "int4" => (DType::I32, 4),
        "uchar4" => (DType::U8, 4),
        "char4" => (DType::I8, 4),
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
}
