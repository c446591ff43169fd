//! The keys of a harness whose revisions are run by a program of the user's own.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::table::{Table, TomlValue};
use super::{Harness, HarnessError, SourcePath, empty_call_error, parse_source_paths};
use crate::tensor::DType;

/// How a program runs a revision's files on captured inputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramSpec {
    /// The program and its arguments, started in the folder of `replay.toml`; never empty.
    pub words: Vec<String>,
    /// Files and folders of a revision to lay out for it; `.` is all of it.
    pub tree: Vec<SourcePath>,
    /// Modules to load once, before the program copies itself for each replay; none for a program
    /// started for each.
    pub preload: Option<Vec<String>>,
    /// Environment variables of the program besides the user's.
    pub env: IndexMap<String, String>,
    /// The precision of its twin: float64 or float32.
    pub precision: DType,
    /// Whether its twin in float64 widens explicit casts to float32.
    pub widen_casts: bool,
    /// The command to build a tree, once for each.
    pub build: Option<Vec<String>>,
    /// The command with the identity of the program in its output.
    pub identity: Option<Vec<String>>,
}

/// The keys for `program` alone.
pub(super) const KEYS: [&str; 7] =
    ["tree", "preload", "env", "precision", "widen_casts", "build", "identity"];
/// The keys for kernels, not for `program`.
pub(super) const KERNEL_KEYS: [&str; 7] =
    ["sources", "include", "overlay", "defines", "undefine", "setup", "call"];
/// Variables with this beginning are how replay speaks to the program.
const OWN_PREFIX: &str = "REPLAY_";

/// The program of the harness; none in a harness of kernels.
pub(super) fn parse_program_spec(root: &Table<'_>) -> Result<Option<ProgramSpec>, HarnessError> {
    let Some(program) = root.get("program") else {
        return match KEYS.iter().find_map(|key| root.get(key)) {
            Some(alone) => Err(HarnessError::WithoutProgram {
                spot: alone.key_spot(),
                key: alone.name.to_owned(),
            }),
            None => Ok(None),
        };
    };
    if let Some(kernel) = KERNEL_KEYS.iter().find_map(|key| root.get(key)) {
        return Err(HarnessError::BothKinds {
            spot: kernel.key_spot(),
            key: kernel.name.to_owned(),
        });
    }
    let tree = match root.get("tree") {
        None => vec![SourcePath::from(".")],
        Some(value) => match parse_source_paths(root, "tree")? {
            listed if listed.is_empty() => return Err(empty_call_error(&value)),
            listed => listed,
        },
    };
    Ok(Some(ProgramSpec {
        words: parse_command_line(&program)?,
        tree,
        preload: parse_preload_names(root)?,
        env: parse_environment_table(root)?,
        precision: parse_twin_precision(root)?,
        widen_casts: root.get("widen_casts").map_or(Ok(true), |value| value.boolean())?,
        build: parse_command(root, "build")?,
        identity: parse_command(root, "identity")?,
    }))
}

/// The command at `key`, if there is one.
fn parse_command(root: &Table<'_>, key: &str) -> Result<Option<Vec<String>>, HarnessError> {
    root.get(key).map(|value| parse_command_line(&value)).transpose()
}

/// The words of a command. The first names a program.
fn parse_command_line(value: &TomlValue<'_>) -> Result<Vec<String>, HarnessError> {
    let items = value.list("a list of strings")?;
    let words: Vec<String> = items.iter().map(TomlValue::string).collect::<Result<_, _>>()?;
    if words.first().is_none_or(|first| first.trim().is_empty()) {
        return Err(empty_call_error(value));
    }
    match items.iter().zip(&words).find(|(_, word)| word.contains('\0')) {
        Some((item, _)) => Err(HarnessError::ZeroByte { spot: item.spot() }),
        None => Ok(words),
    }
}

/// The names of the modules to load once. They go to the program in one list, apart by commas.
fn parse_preload_names(root: &Table<'_>) -> Result<Option<Vec<String>>, HarnessError> {
    if root.get("preload").is_none() {
        return Ok(None);
    }
    root.strings("preload")?
        .iter()
        .map(|item| {
            let name = item.string()?;
            if name.is_empty() || name.contains([',', '\0']) || name.contains(char::is_whitespace) {
                Err(HarnessError::BadPreload { spot: item.spot(), name })
            } else {
                Ok(name)
            }
        })
        .collect::<Result<_, _>>()
        .map(Some)
}

/// The precision of twins.
fn parse_twin_precision(root: &Table<'_>) -> Result<DType, HarnessError> {
    let Some(value) = root.get("precision") else { return Ok(DType::F64) };
    match value.string()?.as_str() {
        "float64" => Ok(DType::F64),
        "float32" => Ok(DType::F32),
        unknown_name => {
            Err(HarnessError::BadPrecision { spot: value.spot(), name: unknown_name.to_owned() })
        }
    }
}

fn parse_environment_table(root: &Table<'_>) -> Result<IndexMap<String, String>, HarnessError> {
    let Some(table) = root.get("env") else { return Ok(IndexMap::new()) };
    table.table()?.entries().map(|entry| parse_environment_variable(&entry)).collect()
}

fn parse_environment_variable(entry: &TomlValue<'_>) -> Result<(String, String), HarnessError> {
    let name = entry.name.to_owned();
    let value = entry.string()?;
    let reason = if name.is_empty() || name.contains(['=', '\0']) {
        "no variable can have this name"
    } else if name.starts_with(OWN_PREFIX) {
        "replay itself sets the variables that begin with REPLAY_"
    } else if value.contains('\0') {
        return Err(HarnessError::ZeroByte { spot: entry.spot() });
    } else {
        return Ok((name, value));
    };
    Err(HarnessError::BadVariable { spot: entry.key_spot(), name, reason })
}

impl Harness {
    /// The files and folders of a revision for a program; none for kernels.
    pub fn tree(&self) -> &[SourcePath] {
        self.program.as_ref().map_or(&[], |program| &program.tree)
    }
}
