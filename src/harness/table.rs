//! Strict reading of TOML tables: unknown keys, missing keys and wrong types are errors with a line.
//!
//! The tables are not interpreted here; `replay.toml` and `fixture.toml` are both read with it.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::text_spot::TextSpot;
use crate::files;

/// Why a TOML file could not be read, whatever it describes.
#[derive(Debug, thiserror::Error)]
pub enum TomlError {
    /// The file could not be read.
    #[error("failed to read {path}")]
    Read {
        /// The file, as the user gave it.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is a Git LFS pointer.
    #[error("{path} is a Git LFS pointer, not the file")]
    LfsPointer {
        /// The file, as the user gave it.
        path: PathBuf,
    },
    /// The file is not TOML.
    #[error("{} is not valid TOML", .spot.as_ref().map_or(.path.display().to_string(), |s| s.to_string()))]
    Syntax {
        /// The file, as the user gave it.
        path: PathBuf,
        /// Where the parser gave up, if it says so.
        spot: Option<Box<TextSpot>>,
        /// The parser's message.
        source: SyntaxCause,
    },
    /// A key without a meaning here.
    #[error("unknown key `{key}` at {spot}{}", suggest_nearest_word(.nearest))]
    UnknownKey {
        spot: Box<TextSpot>,
        /// The key with its tables.
        key: String,
        /// The most similar known key.
        nearest: Option<String>,
        /// Every key known in this table.
        known: Vec<String>,
    },
    /// A required key is missing.
    #[error("missing key `{key}` in {path}")]
    MissingKey {
        /// The file, as the user gave it.
        path: PathBuf,
        /// The table without it; none for the outermost.
        spot: Option<Box<TextSpot>>,
        /// The key with its tables.
        key: String,
    },
    /// A value of another type than the key takes.
    #[error("`{key}` at {spot} must be {expected}, not {found}")]
    WrongType {
        spot: Box<TextSpot>,
        /// The key with its tables.
        key: String,
        /// The type of the key.
        expected: &'static str,
        /// The type of the value.
        found: &'static str,
    },
}

/// The TOML parser's message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SyntaxCause(String);

impl TomlError {
    /// Advice to the user, where the message does not imply it.
    pub fn hint(&self) -> Option<String> {
        match self {
            TomlError::UnknownKey { known, .. } if known.len() == 1 => {
                Some(format!("the only key known there is `{}`", known[0]))
            }
            TomlError::UnknownKey { known, .. } => {
                Some(format!("the keys known there are {}", known.join(", ")))
            }
            TomlError::LfsPointer { .. } => Some("fetch the file: git lfs pull".to_owned()),
            _ => None,
        }
    }

    /// Where in the file it is, if it is at one place.
    pub fn spot(&self) -> Option<&TextSpot> {
        match self {
            TomlError::UnknownKey { spot, .. } | TomlError::WrongType { spot, .. } => Some(spot),
            TomlError::MissingKey { spot, .. } | TomlError::Syntax { spot, .. } => spot.as_deref(),
            TomlError::Read { .. } | TomlError::LfsPointer { .. } => None,
        }
    }
}

/// `, did you mean ...?`, or nothing where no name is near.
pub(crate) fn suggest_nearest_word(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or(String::new(), |name| format!(", did you mean `{name}`?"))
}

/// The candidate most similar to `word`, unless all of them are quite different.
pub(crate) fn find_nearest_word<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    /// Longer names are not typing errors, and the distance takes time by the product of the lengths.
    const LONGEST: usize = 100;
    if word.len() > LONGEST {
        return None;
    }
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .filter(|name| name.len() <= LONGEST)
        .map(|name| (strsim::damerau_levenshtein(&lower, &name.to_lowercase()), name))
        .filter(|&(distance, name)| distance <= name.len().max(word.len()).div_ceil(3))
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, name)| name.to_owned())
}

/// A TOML file's path and text, for the count of lines.
#[derive(Clone, Copy)]
pub(crate) struct TomlDocument<'a> {
    pub(crate) path: &'a Path,
    pub(crate) text: &'a str,
}

impl<'a> TomlDocument<'a> {
    /// Reads the text of the file at `path`.
    pub(crate) fn read(path: &Path) -> Result<String, TomlError> {
        let text = files::read_text(path, files::TEXT_BYTES)
            .map_err(|source| TomlError::Read { path: path.to_owned(), source })?;
        if text.as_bytes().starts_with(files::LFS_SIGNATURE) {
            Err(TomlError::LfsPointer { path: path.to_owned() })
        } else {
            Ok(text)
        }
    }

    /// Parses the text; the result owns the data of [`TomlDocument::root`].
    pub(crate) fn parse(&self) -> Result<Spanned<DeTable<'a>>, TomlError> {
        DeTable::parse(self.text).map_err(|error| TomlError::Syntax {
            path: self.path.to_owned(),
            spot: error.span().map(|span| self.spot(span)),
            source: SyntaxCause(error.message().to_owned()),
        })
    }

    /// The outermost table.
    pub(crate) fn root(self, table: &'a Spanned<DeTable<'a>>) -> Table<'a> {
        Table { document: self, key: String::new(), span: None, entries: table.get_ref() }
    }

    /// The place of `range` in the file.
    pub(crate) fn spot(&self, range: Range<usize>) -> Box<TextSpot> {
        TextSpot::new(self.path, self.text, range)
    }
}

/// One table of a document.
pub(crate) struct Table<'a> {
    pub(crate) document: TomlDocument<'a>,
    key: String,
    /// The key of the table; none for the outermost.
    span: Option<Range<usize>>,
    entries: &'a DeTable<'a>,
}

impl<'a> Table<'a> {
    /// Refuses every key outside of `known_keys`.
    pub(crate) fn only(&self, known_keys: &[&str]) -> Result<(), TomlError> {
        let unknown = self.entries.keys().find(|key| !known_keys.contains(&key.get_ref().as_ref()));
        match unknown {
            None => Ok(()),
            Some(key) => Err(TomlError::UnknownKey {
                spot: self.document.spot(key.span()),
                nearest: find_nearest_word(key.get_ref(), known_keys.iter().copied()),
                key: self.dotted(key.get_ref()),
                known: known_keys.iter().map(|&name| name.to_owned()).collect(),
            }),
        }
    }

    /// Every entry, in the order of the file.
    pub(crate) fn entries(&self) -> impl Iterator<Item = TomlValue<'a>> {
        self.entries.iter().map(|(key, value)| self.entry(key, value))
    }

    /// The value of `name`, if the table has it.
    pub(crate) fn get(&self, name: &str) -> Option<TomlValue<'a>> {
        self.entries.get_key_value(name).map(|(key, value)| self.entry(key, value))
    }

    fn entry(
        &self,
        key: &'a Spanned<DeString<'a>>,
        value: &'a Spanned<DeValue<'a>>,
    ) -> TomlValue<'a> {
        TomlValue {
            document: self.document,
            name: key.get_ref(),
            key: self.dotted(key.get_ref()),
            key_span: key.span(),
            span: value.span(),
            value: value.get_ref(),
        }
    }

    /// The value of `name`. It must be there.
    pub(crate) fn require(&self, name: &str) -> Result<TomlValue<'a>, TomlError> {
        self.get(name).ok_or_else(|| TomlError::MissingKey {
            path: self.document.path.to_owned(),
            spot: self.spot(),
            key: self.dotted(name),
        })
    }

    /// Where the table begins; none for the outermost.
    pub(crate) fn spot(&self) -> Option<Box<TextSpot>> {
        self.span.clone().map(|span| self.document.spot(span))
    }

    /// The string under `name`, if the table has it.
    pub(crate) fn string(&self, name: &str) -> Result<Option<String>, TomlError> {
        self.get(name).map(|value| value.string()).transpose()
    }

    /// The list of strings under `name`; empty if the table does not have it.
    pub(crate) fn strings(&self, name: &str) -> Result<Vec<TomlValue<'a>>, TomlError> {
        let Some(list) = self.get(name) else { return Ok(Vec::new()) };
        let items = list.list("a list of strings")?;
        items.iter().try_for_each(|item| item.string().map(drop))?;
        Ok(items)
    }

    fn dotted(&self, name: &str) -> String {
        if self.key.is_empty() { name.to_owned() } else { format!("{}.{name}", self.key) }
    }
}

/// A number or a boolean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TomlNumber {
    Integer(i128),
    Float(f64),
    Boolean(bool),
}

/// One value of a document, with its key.
pub(crate) struct TomlValue<'a> {
    pub(crate) document: TomlDocument<'a>,
    pub(crate) name: &'a str,
    pub(crate) key: String,
    key_span: Range<usize>,
    span: Range<usize>,
    value: &'a DeValue<'a>,
}

impl<'a> TomlValue<'a> {
    /// The string here.
    pub(crate) fn string(&self) -> Result<String, TomlError> {
        match self.value {
            DeValue::String(text) => Ok(text.to_string()),
            _ => Err(self.wrong_type("a string")),
        }
    }

    /// The boolean here.
    pub(crate) fn boolean(&self) -> Result<bool, TomlError> {
        match self.value {
            DeValue::Boolean(value) => Ok(*value),
            _ => Err(self.wrong_type("true or false")),
        }
    }

    /// The value as an integer; it must be at least 0 and fit into `usize`.
    pub(crate) fn count(&self) -> Result<usize, TomlError> {
        let parsed = match self.value {
            DeValue::Integer(number) => usize::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        parsed.ok_or_else(|| self.wrong_type("an integer of at least 0"))
    }

    /// The number or boolean here.
    pub(crate) fn number(&self) -> Result<TomlNumber, TomlError> {
        let parsed = match self.value {
            DeValue::Integer(number) => {
                i128::from_str_radix(number.as_str(), number.radix()).ok().map(TomlNumber::Integer)
            }
            DeValue::Float(number) => number.as_str().parse().ok().map(TomlNumber::Float),
            DeValue::Boolean(value) => Some(TomlNumber::Boolean(*value)),
            _ => None,
        };
        parsed.ok_or_else(|| self.wrong_type("a number, true or false"))
    }

    /// The scalar value as text.
    pub(crate) fn scalar(&self) -> Result<String, TomlError> {
        match self.value {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) => Ok(number.to_string()),
            DeValue::Float(number) => Ok(number.as_str().to_owned()),
            DeValue::Boolean(value) => Ok(value.to_string()),
            DeValue::Datetime(date_time) => Ok(date_time.to_string()),
            DeValue::Array(_) | DeValue::Table(_) => {
                Err(self.wrong_type("a string, a number or a boolean"))
            }
        }
    }

    /// The values of a list.
    pub(crate) fn list(&self, expected: &'static str) -> Result<Vec<TomlValue<'a>>, TomlError> {
        let DeValue::Array(items) = self.value else { return Err(self.wrong_type(expected)) };
        Ok(items
            .iter()
            .enumerate()
            .map(|(index, value)| {
                let span = value.span();
                let key = format!("{}[{index}]", self.key);
                let document = self.document;
                let name = self.name;
                let value = value.get_ref();
                TomlValue { document, name, key, key_span: span.clone(), span, value }
            })
            .collect())
    }

    /// The table here.
    pub(crate) fn table(&self) -> Result<Table<'a>, TomlError> {
        let DeValue::Table(entries) = self.value else { return Err(self.wrong_type("a table")) };
        let key = self.key.clone();
        let span = Some(self.key_span.clone());
        Ok(Table { document: self.document, key, span, entries })
    }

    /// Where the value stands.
    pub(crate) fn spot(&self) -> Box<TextSpot> {
        self.document.spot(self.span.clone())
    }

    /// Where the key stands.
    pub(crate) fn key_spot(&self) -> Box<TextSpot> {
        self.document.spot(self.key_span.clone())
    }

    /// The whole lines around the value.
    pub(crate) fn lines(&self) -> &'a str {
        let text = self.document.text;
        let start =
            text[..self.span.start].rfind('\n').map_or(0, |newline_offset| newline_offset + 1);
        let end = text[self.span.end..]
            .find('\n')
            .map_or(text.len(), |newline_offset| self.span.end + newline_offset);
        &text[start..end]
    }

    /// The value as it is written.
    pub(crate) fn written(&self) -> &'a str {
        &self.document.text[self.span.clone()]
    }

    /// Whether a string stands here.
    pub(crate) fn is_string(&self) -> bool {
        matches!(self.value, DeValue::String(_))
    }

    /// Whether a list stands here.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.value, DeValue::Array(_))
    }

    /// The error for a value other than the `expected` one.
    pub(crate) fn wrong_type(&self, expected: &'static str) -> TomlError {
        /// Up to the largest size of memory.
        const MOST_DIGITS: usize = 19;
        let found = match self.value {
            DeValue::String(_) => "a string",
            DeValue::Integer(number) if number.as_str().starts_with('-') => "a negative integer",
            DeValue::Integer(number) if number.as_str().len() > MOST_DIGITS => {
                "one that is too large"
            }
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        TomlError::WrongType { spot: self.spot(), key: self.key.clone(), expected, found }
    }
}
