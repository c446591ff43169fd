//! Floating-point numbers in JSON, which has no NaN and no infinity: those become strings.
//!
//! For `#[serde(with = "...")]` on the results of this library; nothing else.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number, or one of the strings `NaN`, `inf`, `-inf`.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Number {
    Finite(f64),
    Other(String),
}

impl From<f64> for Number {
    fn from(value: f64) -> Number {
        if value.is_finite() { Number::Finite(value) } else { Number::Other(value.to_string()) }
    }
}

impl Number {
    fn value<E: serde::de::Error>(self) -> Result<f64, E> {
        match self {
            Number::Finite(value) => Ok(value),
            Number::Other(text) => match text.as_str() {
                "NaN" => Ok(f64::NAN),
                "inf" => Ok(f64::INFINITY),
                "-inf" => Ok(f64::NEG_INFINITY),
                _ => Err(E::custom(format!("`{text}` is not a number"))),
            },
        }
    }
}

/// Writes a number, or the name of one that JSON lacks.
pub(crate) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    Number::from(*value).serialize(serializer)
}

/// Reads what [`serialize`] writes.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Number::deserialize(deserializer)?.value()
}

/// The same for a number that may be absent.
pub(crate) mod option {
    use super::{Deserialize, Deserializer, Number, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &Option<f64>, s: S) -> Result<S::Ok, S::Error> {
        value.map(Number::from).serialize(s)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<f64>, D::Error> {
        Option::<Number>::deserialize(d)?.map(Number::value).transpose()
    }
}

/// The same for a list of known length.
pub(crate) mod array {
    use super::{Deserialize, Deserializer, Number, Serializer};
    use serde::de::Error;

    pub(crate) fn serialize<S: Serializer, const N: usize>(
        values: &[f64; N],
        s: S,
    ) -> Result<S::Ok, S::Error> {
        s.collect_seq(values.iter().map(|&value| Number::from(value)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, const N: usize>(
        d: D,
    ) -> Result<[f64; N], D::Error> {
        let numbers = Vec::<Number>::deserialize(d)?;
        let values = numbers.into_iter().map(Number::value).collect::<Result<Vec<f64>, _>>()?;
        let found = values.len();
        values.try_into().map_err(|_| D::Error::custom(format!("{found} numbers instead of {N}")))
    }
}
