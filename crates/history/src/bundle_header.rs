//! The text at the beginning of a bundle, as git's `gitformat-bundle` describes it.
//!
//! Only parses; the pack behind it is left in the reader.

use std::{
    io::{BufRead, Read},
    path::Path,
};

use git2::Oid;

use super::HistoryError;

/// Longer lines than this are damage: a reference's name is at most a path long.
const MAX_LINE_BYTES: u64 = 64 * 1024;

/// A longer header is not a list of branches and tags; it is held in memory.
const MAX_HEADER_BYTES: u64 = 64 * 1024 * 1024;

/// The header of a complete bundle.
pub(super) struct BundleHeader {
    /// Ids and full names, `HEAD` among them, in the bundle's order.
    pub references: Vec<(Oid, String)>,
    /// Where the pack begins.
    pub size_bytes: u64,
}

impl BundleHeader {
    /// Reads up to and including the empty line before the pack.
    pub(super) fn read(
        path: &Path,
        reader: &mut impl BufRead,
    ) -> Result<BundleHeader, HistoryError> {
        let mut lines = BundleLines { path, reader, number: 0, size_bytes: 0 };
        let has_capabilities = read_version(&mut lines)?;
        let mut references = Vec::new();
        let mut missing = Vec::new();
        loop {
            let line = lines.next()?;
            if line.is_empty() {
                break;
            } else if let Some(capability) = line.strip_prefix('@') {
                if !has_capabilities {
                    return Err(lines.corrupt("a capability in version 2"));
                }
                check_capability(path, capability)?;
            } else if let Some(prerequisite) = line.strip_prefix('-') {
                lines.parse_id(prerequisite)?;
                missing.push(prerequisite.trim_end().to_owned());
            } else {
                references.push(lines.parse_reference(&line)?);
            }
        }
        if !missing.is_empty() {
            return Err(HistoryError::BundlePrerequisites { path: path.to_owned(), missing });
        }
        if references.is_empty() {
            return Err(lines.corrupt("it names no reference"));
        }
        Ok(BundleHeader { references, size_bytes: lines.size_bytes })
    }
}

/// Whether the version has lines with capabilities.
fn read_version(lines: &mut BundleLines<'_, impl BufRead>) -> Result<bool, HistoryError> {
    let signature = lines.next()?;
    match signature.strip_prefix("# v").and_then(|rest| rest.strip_suffix(" git bundle")) {
        Some("2") => Ok(false),
        Some("3") => Ok(true),
        Some(version) => Err(unsupported_bundle(lines.path, format!("version {version}"))),
        None => Err(lines.corrupt("not a bundle's first line")),
    }
}

fn check_capability(path: &Path, capability: &str) -> Result<(), HistoryError> {
    match capability {
        "object-format=sha1" => Ok(()),
        "object-format=sha256" => Err(HistoryError::Sha256 { path: path.to_owned() }),
        unknown_capability => {
            Err(unsupported_bundle(path, format!("capability `{unknown_capability}`")))
        }
    }
}

fn unsupported_bundle(path: &Path, what: String) -> HistoryError {
    HistoryError::BundleUnsupported { path: path.to_owned(), what }
}

struct BundleLines<'a, R> {
    path: &'a Path,
    reader: &'a mut R,
    number: usize,
    size_bytes: u64,
}

impl<R: BufRead> BundleLines<'_, R> {
    fn next(&mut self) -> Result<String, HistoryError> {
        self.number += 1;
        let mut line = Vec::new();
        let read_result = self.reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
        let length = read_result.map_err(|source| HistoryError::Io {
            doing: "read",
            path: self.path.to_owned(),
            source,
        })?;
        self.size_bytes += length as u64;
        if self.size_bytes > MAX_HEADER_BYTES {
            return Err(self.corrupt("its header does not end"));
        }
        if line.pop() != Some(b'\n') {
            return Err(self.corrupt("it ends within its header"));
        }
        String::from_utf8(line).map_err(|_| self.corrupt("not UTF-8"))
    }

    fn parse_id(&self, text: &str) -> Result<Oid, HistoryError> {
        let id = text.split(' ').next().unwrap_or_default();
        if id.len() != 40 {
            return Err(self.corrupt("no object id of 40 digits"));
        }
        Oid::from_str(id).map_err(|_| self.corrupt("no object id of 40 digits"))
    }

    fn parse_reference(&self, line: &str) -> Result<(Oid, String), HistoryError> {
        let id = self.parse_id(line)?;
        match line.split_once(' ') {
            Some((_, name)) if !name.is_empty() => Ok((id, name.to_owned())),
            _ => Err(self.corrupt("an id without a reference")),
        }
    }

    fn corrupt(&self, complaint: &str) -> HistoryError {
        HistoryError::BundleHeader {
            path: self.path.to_owned(),
            what: format!("line {}: {complaint}", self.number),
        }
    }
}
