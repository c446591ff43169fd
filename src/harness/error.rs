//! Why a harness is refused, with advice and the place in the file.

use super::{PathFault, TextSpot, TomlError, suggest_nearest_word};
use crate::tensor::DType;

/// Why `replay.toml` is refused.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    /// Not readable, not TOML, or an unknown key, a missing one or one of the wrong type.
    #[error(transparent)]
    Toml(#[from] TomlError),
    /// An empty value.
    #[error("`{key}` at {spot} is empty")]
    Empty { spot: Box<TextSpot>, key: String },
    /// An unknown dtype.
    #[error("unknown dtype `{dtype}` for `{tensor}` at {spot}{}", suggest_nearest_word(.nearest))]
    UnknownDtype {
        spot: Box<TextSpot>,
        tensor: String,
        /// The dtype as written.
        dtype: String,
        /// The dtype meant.
        nearest: Option<String>,
    },
    /// A tensor or size whose name cannot stand in `call`.
    #[error("`{name}` at {spot} cannot name a tensor or a size: {reason}")]
    BadName {
        spot: Box<TextSpot>,
        name: String,
        /// The fault of the name.
        reason: &'static str,
    },
    /// One name for two things.
    #[error("`{name}` at {spot} names both {first} and {second}")]
    Clash {
        /// One of the two.
        spot: Box<TextSpot>,
        name: String,
        /// One of the two.
        first: &'static str,
        second: &'static str,
    },
    /// An output's size without an input: nothing gives its value.
    #[error(
        "output `{output}` at {spot} has the size `{size}`, which no input has{}",
        suggest_nearest_word(.nearest)
    )]
    UnknownSize {
        spot: Box<TextSpot>,
        output: String,
        size: String,
        /// The size meant.
        nearest: Option<String>,
    },
    /// An optional scalar of a call. C++ has no null for it.
    #[error("input `{input}` at {spot} is a scalar and cannot be optional")]
    OptionalScalar { spot: Box<TextSpot>, input: String },
    /// A number of elements beyond any tensor.
    #[error("`{size}` at {spot} is more elements than a tensor can have")]
    HugeExtent {
        spot: Box<TextSpot>,
        /// The number as written.
        size: usize,
    },
    /// A path outside the repository, or to nowhere.
    #[error("`{value}` in `{key}` at {spot} {reason}")]
    BadPath {
        spot: Box<TextSpot>,
        key: String,
        /// The value as written.
        value: String,
        /// The fault of the path.
        reason: PathFault,
    },
    /// Text in the place of a macro definition.
    #[error("`{value}` in `defines` at {spot} is neither NAME nor NAME=VALUE")]
    BadDefine {
        spot: Box<TextSpot>,
        /// The value as written.
        value: String,
    },
    /// Text in the place of a macro's name.
    #[error("`{value}` in `undefine` at {spot} is not the name of a macro")]
    BadUndefine {
        spot: Box<TextSpot>,
        /// The value as written.
        value: String,
    },
    /// An impossible `init`.
    #[error("`init` of output `{output}` at {spot} {problem}{}", suggest_nearest_word(.nearest))]
    Init {
        /// The key, or the output.
        spot: Box<TextSpot>,
        output: String,
        problem: String,
        /// The input meant.
        nearest: Option<String>,
    },
    /// A key for kernels beside `program`.
    #[error("`{key}` at {spot} is for kernels, and this harness has a `program`")]
    BothKinds { spot: Box<TextSpot>, key: String },
    /// A key for programs without `program`.
    #[error("`{key}` at {spot} goes with `program`, which this harness does not have")]
    WithoutProgram { spot: Box<TextSpot>, key: String },
    /// A word or a value with a zero byte: no program can get it.
    #[error("the text at {spot} holds a zero byte")]
    ZeroByte { spot: Box<TextSpot> },
    /// Text in the place of a module's name.
    #[error("`{}` in `preload` at {spot} is not a name", .name.escape_debug())]
    BadPreload {
        spot: Box<TextSpot>,
        /// The value as written.
        name: String,
    },
    /// A precision other than those of twins.
    #[error("`precision` at {spot} is `{}`, not `float64` or `float32`", .name.escape_debug())]
    BadPrecision {
        spot: Box<TextSpot>,
        /// The value as written.
        name: String,
    },
    /// An environment variable out of reach of the harness.
    #[error("`{}` in `env` at {spot}: {reason}", .name.escape_debug())]
    BadVariable {
        spot: Box<TextSpot>,
        name: String,
        /// The fault of the name.
        reason: &'static str,
    },
    /// `gradient_of`, `of` and `upstream` do not fit together.
    #[error("output `{output}` at {spot}: {problem}{}", suggest_nearest_word(.nearest))]
    Gradient {
        spot: Box<TextSpot>,
        output: String,
        problem: String,
        /// The tensor meant.
        nearest: Option<String>,
    },
    /// An unfit role of a tensor.
    #[error("`{tensor}` in `roles` at {spot} {problem}{}", suggest_nearest_word(.nearest))]
    Role {
        /// The tensor, or its role.
        spot: Box<TextSpot>,
        tensor: String,
        problem: String,
        /// The tensor or the word meant.
        nearest: Option<String>,
    },
}

impl HarnessError {
    /// Advice to the user, where the message does not imply it.
    pub fn hint(&self) -> Option<String> {
        match self {
            HarnessError::Toml(error) => error.hint(),
            HarnessError::UnknownDtype { .. } => {
                Some(format!("the dtypes are {}", DType::ALL.map(DType::name).join(", ")))
            }
            HarnessError::UnknownSize { .. } => Some(
                "sizes are taken from the inputs; write a number, add an input that has it, or name it \
                 in `sizes`, so that fixture.toml gives it"
                    .to_owned(),
            ),
            HarnessError::Init { .. } => Some(
                "an output begins with zeros, `init = 0`, or as a copy of an input of its dtype and \
                 shape, `init = \"NAME\"`"
                    .to_owned(),
            ),
            HarnessError::BadPath { reason: PathFault::InGit, .. } => {
                Some("name files that are committed".to_owned())
            }
            HarnessError::BadPath { reason: PathFault::Pattern, .. } => {
                Some("name each file, or the folder they lie in".to_owned())
            }
            HarnessError::BothKinds { .. } => Some(
                "a harness either compiles `sources` and makes a `call`, or starts a `program` for \
                 the files in `tree`"
                    .to_owned(),
            ),
            HarnessError::WithoutProgram { .. } => {
                Some("name the program that runs a revision: program = [\"./step.sh\"]".to_owned())
            }
            HarnessError::BadPreload { .. } => {
                Some("name modules, one a string: preload = [\"numpy\", \"jax\"]".to_owned())
            }
            HarnessError::BadPath { key, .. } if key == "overlay" => {
                Some("it is a folder of headers, relative to this file".to_owned())
            }
            HarnessError::Role { .. } => Some(
                "docs/series.md lists the roles, such as \"lr\" or \"gradient of layers.0\"".to_owned(),
            ),
            HarnessError::BadPath { .. } => {
                Some("paths are relative to the root of the repository and stay inside it".into())
            }
            _ => None,
        }
    }

    /// Where in the file it is, if it is at one place.
    pub fn spot(&self) -> Option<&TextSpot> {
        match self {
            HarnessError::Toml(error) => error.spot(),
            HarnessError::Empty { spot, .. }
            | HarnessError::UnknownDtype { spot, .. }
            | HarnessError::BadName { spot, .. }
            | HarnessError::OptionalScalar { spot, .. }
            | HarnessError::BadPath { spot, .. }
            | HarnessError::BadDefine { spot, .. }
            | HarnessError::HugeExtent { spot, .. }
            | HarnessError::BothKinds { spot, .. }
            | HarnessError::WithoutProgram { spot, .. }
            | HarnessError::ZeroByte { spot }
            | HarnessError::BadPreload { spot, .. }
            | HarnessError::BadPrecision { spot, .. }
            | HarnessError::BadVariable { spot, .. }
            | HarnessError::Clash { spot, .. }
            | HarnessError::UnknownSize { spot, .. }
            | HarnessError::Init { spot, .. }
            | HarnessError::BadUndefine { spot, .. }
            | HarnessError::Gradient { spot, .. }
            | HarnessError::Role { spot, .. } => Some(spot),
        }
    }
}
