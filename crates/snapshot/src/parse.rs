//! Reads a snapshot's text strictly, line by line: no damage passes for a number.

use std::collections::HashSet;
use std::path::Path;

use super::number::{format_snapshot_number, parse_sketch, unit_fits};
use super::render::largest_magnitude;
use super::{FORMAT, OutputSnapshot, Snapshot, SnapshotError, WITHOUT_SHADOWS, shadow};
use replay_base::summary::{Checksum, Summary};
use replay_base::tensor::{DType, Dim};
use replay_engine::trial::Slices;
use replay_numerics::imprint::Imprint;

/// Reads the text of the file `path`; its first line is line `first` of the file.
pub(super) fn parse_snapshot(
    text: &str,
    path: &Path,
    first: usize,
) -> Result<Snapshot, SnapshotError> {
    SnapshotParser { path, lines: text.lines().collect(), at: 0, first, has_shadows: false }
        .snapshot()
}

struct SnapshotParser<'a> {
    path: &'a Path,
    lines: Vec<&'a str>,
    at: usize,
    first: usize,
    /// Whether outputs tell of their shadows.
    has_shadows: bool,
}

type SnapshotResult<T> = Result<T, SnapshotError>;

impl<'a> SnapshotParser<'a> {
    fn snapshot(mut self) -> SnapshotResult<Snapshot> {
        let format = self.field("format: ")?;
        self.has_shadows = format == FORMAT.to_string();
        if !self.has_shadows && format != WITHOUT_SHADOWS.to_string() {
            return Err(SnapshotError::Version {
                path: self.path.to_owned(),
                line: self.first + self.at - 1,
                found: format.to_owned(),
            });
        }
        let fixture = self.field("fixture: ")?.to_owned();
        let content = self.value("content: ", "a hash in 64 hexadecimal digits", |text| {
            let digits = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            digits.then(|| text.to_owned())
        })?;
        let device = self.field("device: ")?.to_owned();
        let made_with = self.optional("made with: ").map(str::to_owned);
        let call = match self.peek().filter(|line| line.starts_with("call: ")) {
            Some(_) => {
                self.value("call: ", "the number of a call, 2 or more", |text| {
                    text.parse::<usize>().ok().filter(|&call| call > 1)
                })? - 1
            }
            None => 0,
        };
        let status = self.value("status: ", "completed, failed or untestable", |text| {
            let is_known = ["completed", "failed", "untestable"].contains(&text);
            is_known.then(|| text.to_owned())
        })?;
        let failures = self.list();
        let launch_count = self.value("launches: ", "a number of launches", |t| t.parse().ok())?;
        let launches = self.list();
        let outputs = self.value("outputs: ", "a number of outputs", |t| t.parse().ok())?;
        let outputs = self.outputs(outputs)?;
        self.end()?;
        Ok(Snapshot {
            fixture,
            content,
            device,
            made_with,
            call,
            status,
            failures,
            launch_count,
            launches,
            outputs,
        })
    }

    fn outputs(&mut self, count: usize) -> SnapshotResult<Vec<OutputSnapshot>> {
        let mut outputs = Vec::new();
        let mut names = HashSet::new();
        for _ in 0..count {
            let empty = self.at;
            let output = self.output()?;
            if !names.insert(output.name.clone()) {
                self.at = empty + 1;
                return Err(self.wrong("an output of another name", &output.name));
            }
            outputs.push(output);
        }
        Ok(outputs)
    }

    fn output(&mut self) -> SnapshotResult<OutputSnapshot> {
        self.value("", "another output", |text| text.is_empty().then_some(()))?;
        let head = "`output` with a name, a dtype and a shape";
        let (name, dtype, dims, count) = self.value("output ", head, |text| {
            let (name, kind) = text.split_once(": ")?;
            let (dtype, dims) = kind.split_once(' ')?;
            let dims = parse_dims(dims)?;
            let count = dims.iter().try_fold(1u64, |n, dim| n.checked_mul(dim.size as u64))?;
            Some((name.to_owned(), DType::parse(dtype)?, dims, count))
        })?;
        let checksum: Checksum =
            self.value("  checksum ", "32 hexadecimal digits", |text| text.parse().ok())?;
        let noise = self.value("  noise ", "a finite number, 0 or more", |text| {
            parse_snapshot_number(text).filter(|noise| *noise >= 0.0 && noise.is_finite())
        })?;
        let norm = self.value("  norm ", "a number", parse_snapshot_number)?;
        let min = self.value("  min ", "a number or `none`", parse_statistic)?.number();
        let max = self.value("  max ", "a number or `none`", parse_statistic)?.number();
        let mean = self.value("  mean ", "a number or `none`", parse_statistic)?.number();
        let counts = "numbers of zeros, NaN, Inf and unwritten elements";
        let [zeros, nan, inf, unwritten] = self.value("  ", counts, parse_counts)?;
        let mut slices = Vec::new();
        while self.peek().is_some_and(|line| line.starts_with("  norm by ")) {
            slices.push(self.value("  norm by ", "a name and its norms", parse_slices)?);
        }
        let (unit, sketch) = self.value("  sketch ", "a unit and 16 numbers", parse_sketch)?;
        if !unit_fits(unit, noise * norm) {
            // A raised noise would excuse every later change.
            self.at -= 1;
            let expected =
                format!("a unit that fits the noise {}", format_snapshot_number(noise, 2));
            return Err(self.wrong(&expected, &format!("{unit:e}")));
        }
        let max_abs = largest_magnitude(min, max);
        #[rustfmt::skip]
        let summary = Summary {
            checksum, count, norm, min, max, mean, max_abs, zeros, nan, inf, unwritten, sketch,
        };
        let shadow = if self.has_shadows { self.shadow(&name)? } else { None };
        Ok(OutputSnapshot { name, dtype, dims, summary, noise, slices, shadow })
    }

    /// The shadow of the output `name`.
    fn shadow(&mut self, name: &str) -> SnapshotResult<Option<Imprint>> {
        if self.peek() == Some("  shadow none") {
            self.at += 1;
            return Ok(None);
        }
        let head = self.at;
        let (rounding, seal) =
            self.value("  shadow ", "a rounding and a seal", shadow::parse_head)?;
        let words = "16 words of 8 hexadecimal digits";
        let signed = self.value("  shadow signed ", words, shadow::parse_imprint_words)?;
        let weighted = self.value("  shadow weighted ", words, shadow::parse_imprint_words)?;
        let imprint = Imprint { rounding, signed, weighted };
        let [sealed, ..] = shadow::render_imprint_lines(&imprint, name);
        if !sealed.ends_with(&format!(", seal {seal}")) {
            self.at = head;
            return Err(self.wrong("the seal of a shadow that belongs to the output", &seal));
        }
        Ok(Some(imprint))
    }

    /// Passes over empty lines at the end. Nothing else may follow.
    fn end(&mut self) -> SnapshotResult<()> {
        while let Some(line) = self.peek() {
            if !line.trim().is_empty() {
                return Err(self.wrong("the end of the file", line));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    /// The indented lines from here on.
    fn list(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(line) = self.optional("  ") {
            lines.push(line.to_owned());
        }
        lines
    }

    fn optional(&mut self, prefix: &str) -> Option<&'a str> {
        let rest = self.peek()?.strip_prefix(prefix)?;
        self.at += 1;
        Some(rest)
    }

    /// The rest of a line behind `prefix`.
    fn field(&mut self, prefix: &str) -> SnapshotResult<&'a str> {
        self.expect_prefix(prefix, &format!("`{}`", prefix.trim()))
    }

    /// The same. `expected` describes the line in errors.
    fn expect_prefix(&mut self, prefix: &str, expected: &str) -> SnapshotResult<&'a str> {
        let Some(line) = self.peek() else {
            return Err(SnapshotError::Truncated {
                path: self.path.to_owned(),
                line: self.first + self.at,
                expected: expected.to_owned(),
            });
        };
        let rest = line.strip_prefix(prefix).ok_or_else(|| self.wrong(expected, line))?;
        self.at += 1;
        Ok(rest)
    }

    fn value<T>(
        &mut self,
        prefix: &str,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> SnapshotResult<T> {
        let text = match prefix.trim() {
            "" => self.expect_prefix(prefix, expected)?,
            _ => self.field(prefix)?,
        };
        parse(text).ok_or_else(|| {
            self.at -= 1;
            self.wrong(expected, text)
        })
    }

    fn wrong(&self, expected: &str, found: &str) -> SnapshotError {
        /// Characters of a wrong line in an error.
        const SHOWN: usize = 60;
        SnapshotError::Line {
            path: self.path.to_owned(),
            line: self.first + self.at,
            expected: expected.to_owned(),
            found: found.chars().take(SHOWN).collect::<String>().escape_debug().to_string(),
        }
    }
}

fn parse_snapshot_number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|x: &f64| !x.is_nan())
}

/// A statistic in a snapshot.
enum Statistic {
    /// `none`: no element counts.
    Nothing,
    Number(f64),
}

impl Statistic {
    fn number(self) -> Option<f64> {
        match self {
            Statistic::Nothing => None,
            Statistic::Number(number) => Some(number),
        }
    }
}

fn parse_statistic(text: &str) -> Option<Statistic> {
    if text == "none" {
        return Some(Statistic::Nothing);
    }
    parse_snapshot_number(text).map(Statistic::Number)
}

fn parse_dims(text: &str) -> Option<Vec<Dim>> {
    if text == "scalar" {
        return Some(Vec::new());
    }
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    inner.split(", ").map(parse_dim).collect()
}

fn parse_dim(text: &str) -> Option<Dim> {
    let (name, size) = match text.rsplit_once(' ') {
        Some((name, size)) => (Some(name.to_owned()), size),
        None => (None, text),
    };
    Some(Dim { name, size: size.parse().ok()? })
}

fn parse_counts(text: &str) -> Option<[u64; 4]> {
    let names = ["zeros ", "NaN ", "Inf ", "unwritten "];
    let parts: Vec<&str> = text.split(", ").collect();
    let counts: Option<Vec<u64>> = (parts.len() == names.len())
        .then_some(parts)?
        .iter()
        .zip(names)
        .map(|(part, name)| part.strip_prefix(name)?.parse().ok())
        .collect();
    counts?.try_into().ok()
}

fn parse_slices(text: &str) -> Option<Slices> {
    let (dim, norms) = text.split_once(": ")?;
    let norms: Option<Vec<f64>> = norms.split(' ').map(parse_snapshot_number).collect();
    Some(Slices { dim: dim.to_owned(), norms: norms? })
}
