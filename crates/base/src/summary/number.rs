//! Floating-point numbers in JSON: NaN and infinities become strings.
//!
//! The types stand in `#[serde(with = "...")]` on the results of this library, and give its schema.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number.
pub struct Number;

/// A number, or none.
pub struct OptionalNumber;

/// A list of `N` numbers.
pub(crate) struct Numbers<const N: usize>;

/// A number as it is written: itself, or one of the strings `NaN`, `inf`, `-inf`.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum NumberForm {
    Finite(f64),
    Other(String),
}

impl From<f64> for NumberForm {
    fn from(value: f64) -> NumberForm {
        if value.is_finite() {
            NumberForm::Finite(value)
        } else {
            NumberForm::Other(value.to_string())
        }
    }
}

impl NumberForm {
    fn value<E: Error>(self) -> Result<f64, E> {
        match self {
            NumberForm::Finite(value) => Ok(value),
            NumberForm::Other(text) => match text.as_str() {
                "NaN" => Ok(f64::NAN),
                "inf" => Ok(f64::INFINITY),
                "-inf" => Ok(f64::NEG_INFINITY),
                _ => Err(E::custom(format!("`{text}` is not a number"))),
            },
        }
    }
}

impl Number {
    /// A number of JSON, or the name of one that JSON lacks.
    pub fn serialize<S: Serializer>(value: &f64, s: S) -> Result<S::Ok, S::Error> {
        NumberForm::from(*value).serialize(s)
    }

    /// The number that [`Number::serialize`] wrote.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
        NumberForm::deserialize(d)?.value()
    }
}

impl OptionalNumber {
    /// As [`Number::serialize`], and null for none.
    pub fn serialize<S: Serializer>(value: &Option<f64>, s: S) -> Result<S::Ok, S::Error> {
        value.map(NumberForm::from).serialize(s)
    }

    /// The value that [`OptionalNumber::serialize`] wrote.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<f64>, D::Error> {
        Option::<NumberForm>::deserialize(d)?.map(NumberForm::value).transpose()
    }
}

impl<const N: usize> Numbers<N> {
    pub(crate) fn serialize<S: Serializer>(values: &[f64; N], s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(values.iter().map(|&value| NumberForm::from(value)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<[f64; N], D::Error> {
        let numbers = Vec::<NumberForm>::deserialize(d)?;
        let values = numbers.into_iter().map(NumberForm::value).collect::<Result<Vec<f64>, _>>()?;
        let value_count = values.len();
        values
            .try_into()
            .map_err(|_| D::Error::custom(format!("{value_count} numbers instead of {N}")))
    }
}

mod schema {
    use std::borrow::Cow;

    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

    use super::{Number, Numbers, OptionalNumber};

    impl JsonSchema for Number {
        fn schema_name() -> Cow<'static, str> {
            "Number".into()
        }

        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({
                "description": "A number, or the name of one that JSON lacks.",
                "anyOf": [{ "type": "number" }, { "enum": ["NaN", "inf", "-inf"] }],
            })
        }
    }

    impl JsonSchema for OptionalNumber {
        fn inline_schema() -> bool {
            true
        }

        fn schema_name() -> Cow<'static, str> {
            "OptionalNumber".into()
        }

        fn json_schema(generator: &mut SchemaGenerator) -> Schema {
            generator.subschema_for::<Option<Number>>()
        }
    }

    impl<const N: usize> JsonSchema for Numbers<N> {
        fn inline_schema() -> bool {
            true
        }

        fn schema_name() -> Cow<'static, str> {
            "Numbers".into()
        }

        fn json_schema(generator: &mut SchemaGenerator) -> Schema {
            let items = generator.subschema_for::<Number>();
            json_schema!({ "type": "array", "items": items, "minItems": N, "maxItems": N })
        }
    }
}
