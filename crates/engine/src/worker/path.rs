//! Paths in messages: as text where they are text, else by their bytes.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A name of the system.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum SystemName {
    Text(String),
    Bytes(Vec<u8>),
}

impl SystemName {
    fn from_os_str(name: &OsStr) -> SystemName {
        name.to_str().map_or_else(
            || SystemName::Bytes(name.as_bytes().to_vec()),
            |t| SystemName::Text(t.into()),
        )
    }

    fn into_name(self) -> OsString {
        match self {
            SystemName::Text(text) => text.into(),
            SystemName::Bytes(bytes) => OsString::from_vec(bytes),
        }
    }
}

/// Writes one.
pub(super) fn serialize<S: Serializer>(
    path: &impl AsRef<OsStr>,
    out: S,
) -> Result<S::Ok, S::Error> {
    SystemName::from_os_str(path.as_ref()).serialize(out)
}

/// Reads one.
pub(crate) fn deserialize<'d, P: From<OsString>, D: Deserializer<'d>>(
    deserializer: D,
) -> Result<P, D::Error> {
    Ok(SystemName::deserialize(deserializer)?.into_name().into())
}

/// Several of them.
pub(super) mod all {
    use super::*;

    /// Writes them.
    pub(crate) fn serialize<S: Serializer>(
        names: &[impl AsRef<OsStr>],
        out: S,
    ) -> Result<S::Ok, S::Error> {
        out.collect_seq(names.iter().map(|name| SystemName::from_os_str(name.as_ref())))
    }

    /// Reads them.
    pub(crate) fn deserialize<'d, P: From<OsString>, D: Deserializer<'d>>(
        deserializer: D,
    ) -> Result<Vec<P>, D::Error> {
        let names = Vec::<SystemName>::deserialize(deserializer)?.into_iter();
        Ok(names.map(|name| name.into_name().into()).collect())
    }
}

/// One for each of some dtypes.
pub(super) mod by_dtype {
    use std::path::PathBuf;

    use super::*;
    use replay_base::tensor::DType;

    /// Writes them.
    pub(crate) fn serialize<S: Serializer>(
        dtype_paths: &[(DType, PathBuf)],
        out: S,
    ) -> Result<S::Ok, S::Error> {
        out.collect_seq(
            dtype_paths
                .iter()
                .map(|(dtype, path)| (*dtype, SystemName::from_os_str(path.as_os_str()))),
        )
    }

    /// Reads them.
    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(
        deserializer: D,
    ) -> Result<Vec<(DType, PathBuf)>, D::Error> {
        let dtype_names = Vec::<(DType, SystemName)>::deserialize(deserializer)?;
        Ok(dtype_names.into_iter().map(|(dtype, name)| (dtype, name.into_name().into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use replay_base::tensor::DType;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Names {
        #[serde(with = "super")]
        one: PathBuf,
        #[serde(with = "super::all")]
        all: Vec<OsString>,
        #[serde(with = "super::by_dtype")]
        by_dtype: Vec<(DType, PathBuf)>,
    }

    #[test]
    fn names_that_are_no_text_come_through() {
        let odd = || OsString::from_vec(b"caf\xe9/\xff".to_vec());
        for name in [odd(), "plain \"text\"".into(), OsString::new()] {
            let names = Names {
                one: name.clone().into(),
                all: vec![name.clone(), odd()],
                by_dtype: vec![(DType::F32, name.into())],
            };
            let text = serde_json::to_vec(&names).unwrap();
            assert_eq!(serde_json::from_slice::<Names>(&text).unwrap(), names);
        }
    }
}
