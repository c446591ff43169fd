//! Strict reading of TOML tables: unknown keys, missing keys and wrong types are errors with a line.
//!
//! Knows nothing of what the tables mean; `replay.toml` and `fixture.toml` are both read with it.

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Why a TOML file could not be read, whatever it describes.
#[derive(Debug, thiserror::Error)]
pub enum TomlError {
    /// The file could not be read.
    #[error("failed to read {path}")]
    Read {
        /// The file, as the user gave it.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{path} is not valid TOML")]
    Syntax {
        /// The file, as the user gave it.
        path: PathBuf,
        /// The parser's message, with the line.
        source: toml::de::Error,
    },
    /// A key that means nothing here.
    #[error("unknown key `{key}` at {path}:{line}{}", did_you_mean(.nearest))]
    UnknownKey {
        /// The file, as the user gave it.
        path: PathBuf,
        /// The line of the key, from 1.
        line: usize,
        /// The key with the tables that lead to it.
        key: String,
        /// The known key that looks most like it.
        nearest: Option<String>,
        /// Every key known in this table.
        known: Vec<String>,
    },
    /// A key that must be there is not.
    #[error("missing key `{key}` in {path}")]
    MissingKey {
        /// The file, as the user gave it.
        path: PathBuf,
        /// The key with the tables that lead to it.
        key: String,
    },
    /// A value of another type than the key takes.
    #[error("`{key}` at {path}:{line} must be {expected}, not {found}")]
    WrongType {
        /// The file, as the user gave it.
        path: PathBuf,
        /// The line of the value, from 1.
        line: usize,
        /// The key with the tables that lead to it.
        key: String,
        /// What the key takes.
        expected: &'static str,
        /// What stands there.
        found: &'static str,
    },
}

impl TomlError {
    /// What the user can do about it, where that is not plain from the message.
    pub fn hint(&self) -> Option<String> {
        match self {
            TomlError::UnknownKey { known, .. } if known.len() == 1 => {
                Some(format!("the only key known there is `{}`", known[0]))
            }
            TomlError::UnknownKey { known, .. } => {
                Some(format!("the keys known there are {}", known.join(", ")))
            }
            _ => None,
        }
    }
}

/// `, did you mean ...?`, or nothing where no name is near.
pub(crate) fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or(String::new(), |name| format!(", did you mean `{name}`?"))
}

/// The candidate that looks most like `word`, unless all of them look quite different.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&lower, &name.to_lowercase()), name))
        .filter(|&(distance, name)| distance <= name.len().max(word.len()).div_ceil(3))
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, name)| name.to_owned())
}

/// A TOML file's path and text, from which lines are counted.
#[derive(Clone, Copy)]
pub(crate) struct Document<'a> {
    pub(crate) path: &'a Path,
    pub(crate) text: &'a str,
}

impl<'a> Document<'a> {
    /// Reads the text of the file at `path`.
    pub(crate) fn read(path: &Path) -> Result<String, TomlError> {
        std::fs::read_to_string(path)
            .map_err(|source| TomlError::Read { path: path.to_owned(), source })
    }

    /// Parses the text; the result holds what [`Document::root`] needs.
    pub(crate) fn parse(&self) -> Result<Spanned<DeTable<'a>>, TomlError> {
        DeTable::parse(self.text)
            .map_err(|source| TomlError::Syntax { path: self.path.to_owned(), source })
    }

    /// The outermost table.
    pub(crate) fn root(self, table: &'a Spanned<DeTable<'a>>) -> Table<'a> {
        Table { document: self, key: String::new(), line: 1, entries: table.get_ref() }
    }

    fn line(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
    }
}

/// One table of a document.
pub(crate) struct Table<'a> {
    pub(crate) document: Document<'a>,
    key: String,
    pub(crate) line: usize,
    entries: &'a DeTable<'a>,
}

impl<'a> Table<'a> {
    /// Refuses every key that is not among `known`.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), TomlError> {
        match self.entries().find(|value| !known.contains(&value.name)) {
            None => Ok(()),
            Some(value) => Err(TomlError::UnknownKey {
                path: self.document.path.to_owned(),
                line: value.key_line,
                nearest: nearest(value.name, known.iter().copied()),
                key: value.key,
                known: known.iter().map(|&name| name.to_owned()).collect(),
            }),
        }
    }

    /// Every entry, in the order of the file.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Value<'a>> {
        self.entries.iter().map(|(name, value)| Value {
            document: self.document,
            name: name.get_ref(),
            key: self.dotted(name.get_ref()),
            key_line: self.document.line(name.span().start),
            line: self.document.line(value.span().start),
            value: value.get_ref(),
        })
    }

    /// The value of `name`, if the table has it.
    pub(crate) fn get(&self, name: &str) -> Option<Value<'a>> {
        self.entries().find(|value| value.name == name)
    }

    /// The value of `name`, which must be there.
    pub(crate) fn require(&self, name: &str) -> Result<Value<'a>, TomlError> {
        self.get(name).ok_or_else(|| TomlError::MissingKey {
            path: self.document.path.to_owned(),
            key: self.dotted(name),
        })
    }

    /// The string under `name`, if the table has it.
    pub(crate) fn string(&self, name: &str) -> Result<Option<String>, TomlError> {
        self.get(name).map(|value| value.string()).transpose()
    }

    /// The list of strings under `name`; empty if the table does not have it.
    pub(crate) fn strings(&self, name: &str) -> Result<Vec<Value<'a>>, TomlError> {
        let Some(list) = self.get(name) else { return Ok(Vec::new()) };
        let items = list.list("a list of strings")?;
        items.iter().try_for_each(|item| item.string().map(drop))?;
        Ok(items)
    }

    fn dotted(&self, name: &str) -> String {
        if self.key.is_empty() { name.to_owned() } else { format!("{}.{name}", self.key) }
    }
}

/// One value of a document, with the key that leads to it.
pub(crate) struct Value<'a> {
    pub(crate) document: Document<'a>,
    pub(crate) name: &'a str,
    pub(crate) key: String,
    pub(crate) key_line: usize,
    pub(crate) line: usize,
    value: &'a DeValue<'a>,
}

impl<'a> Value<'a> {
    /// The string that stands here.
    pub(crate) fn string(&self) -> Result<String, TomlError> {
        match self.value {
            DeValue::String(text) => Ok(text.to_string()),
            _ => Err(self.wrong_type("a string")),
        }
    }

    /// The boolean that stands here.
    pub(crate) fn boolean(&self) -> Result<bool, TomlError> {
        match self.value {
            DeValue::Boolean(value) => Ok(*value),
            _ => Err(self.wrong_type("true or false")),
        }
    }

    /// The integer that stands here; it must be at least 0 and fit in memory's size type.
    pub(crate) fn count(&self) -> Result<usize, TomlError> {
        let parsed = match self.value {
            DeValue::Integer(number) => usize::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        parsed.ok_or_else(|| self.wrong_type("an integer of at least 0"))
    }

    /// The scalar that stands here, as text.
    pub(crate) fn scalar(&self) -> Result<String, TomlError> {
        match self.value {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) => Ok(number.to_string()),
            DeValue::Float(number) => Ok(number.as_str().to_owned()),
            DeValue::Boolean(value) => Ok(value.to_string()),
            DeValue::Datetime(when) => Ok(when.to_string()),
            DeValue::Array(_) | DeValue::Table(_) => {
                Err(self.wrong_type("a string, a number or a boolean"))
            }
        }
    }

    /// The values of the list that stands here.
    pub(crate) fn list(&self, expected: &'static str) -> Result<Vec<Value<'a>>, TomlError> {
        let DeValue::Array(items) = self.value else { return Err(self.wrong_type(expected)) };
        let item = |(index, value): (usize, &'a Spanned<DeValue<'a>>)| {
            let line = self.document.line(value.span().start);
            let key = format!("{}[{index}]", self.key);
            let (document, name, value) = (self.document, self.name, value.get_ref());
            Value { document, name, key, key_line: line, line, value }
        };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// The table that stands here.
    pub(crate) fn table(&self) -> Result<Table<'a>, TomlError> {
        let DeValue::Table(entries) = self.value else { return Err(self.wrong_type("a table")) };
        Ok(Table { document: self.document, key: self.key.clone(), line: self.key_line, entries })
    }

    /// Whether a string stands here.
    pub(crate) fn is_string(&self) -> bool {
        matches!(self.value, DeValue::String(_))
    }

    /// Whether a list stands here.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.value, DeValue::Array(_))
    }

    /// The error that something else than `expected` stands here.
    pub(crate) fn wrong_type(&self, expected: &'static str) -> TomlError {
        let found = match self.value {
            DeValue::String(_) => "a string",
            DeValue::Integer(number) if number.as_str().starts_with('-') => "a negative integer",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        TomlError::WrongType {
            path: self.document.path.to_owned(),
            line: self.line,
            key: self.key.clone(),
            expected,
            found,
        }
    }
}
