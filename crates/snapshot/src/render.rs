//! A snapshot as text; `parse` reads it back.

use std::fmt::{self, Display, Formatter};

use super::number::{format_sketch, format_snapshot_number, format_steady_number, parse_sketch};
use super::{OutputSnapshot, Snapshot, shadow};
use replay_base::tensor::Dim;

impl Display for Snapshot {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "format: {}", self.format())?;
        writeln!(f, "fixture: {}", self.fixture)?;
        writeln!(f, "content: {}", self.content)?;
        writeln!(f, "device: {}", self.device)?;
        if let Some(made_with) = &self.made_with {
            writeln!(f, "made with: {made_with}")?;
        }
        if self.call > 0 {
            writeln!(f, "call: {}", self.call + 1)?;
        }
        writeln!(f, "status: {}", self.status)?;
        write_indented_lines(f, &self.failures)?;
        writeln!(f, "launches: {}", self.launch_count)?;
        write_indented_lines(f, &self.launches)?;
        writeln!(f, "outputs: {}", self.outputs.len())?;
        self.outputs.iter().try_for_each(|output| {
            write!(f, "\n{output}")?;
            if self.knows_shadows() { output.write_shadow(f) } else { Ok(()) }
        })
    }
}

fn write_indented_lines(f: &mut Formatter<'_>, lines: &[String]) -> fmt::Result {
    lines.iter().try_for_each(|line| writeln!(f, "  {line}"))
}

/// The numbers of an output, in the digits above noise.
struct OutputNumbers {
    norm: String,
    min: String,
    max: String,
    mean: String,
    /// The norms of each list of slices.
    slices: Vec<Vec<String>>,
    sketch: String,
}

impl Display for OutputSnapshot {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let summary = &self.summary;
        let numbers = self.numbers();
        writeln!(f, "output {}: {} {}", self.name, self.dtype, Dims(&self.dims))?;
        writeln!(f, "  checksum {}", summary.checksum)?;
        writeln!(f, "  noise {}", format_snapshot_number(self.noise, 2))?;
        writeln!(f, "  norm {}", numbers.norm)?;
        writeln!(f, "  min {}", numbers.min)?;
        writeln!(f, "  max {}", numbers.max)?;
        writeln!(f, "  mean {}", numbers.mean)?;
        let zeros = summary.zeros;
        let nan = summary.nan;
        let inf = summary.inf;
        writeln!(f, "  zeros {zeros}, NaN {nan}, Inf {inf}, unwritten {}", summary.unwritten)?;
        for (slices, norms) in self.slices.iter().zip(&numbers.slices) {
            writeln!(f, "  norm by {}: {}", slices.dim, norms.join(" "))?;
        }
        writeln!(f, "  sketch {}", numbers.sketch)
    }
}

impl OutputSnapshot {
    fn numbers(&self) -> OutputNumbers {
        let summary = &self.summary;
        // A statistic moves by no more than all elements together; the mean by less.
        let noise = self.noise * summary.norm;
        let in_mean = noise / (summary.count.max(1) as f64).sqrt();
        let in_element = self.noise * summary.max_abs;
        let slices = self.slices.iter().map(|slices| {
            slices.norms.iter().map(|&norm| format_steady_number(norm, noise, 0)).collect()
        });
        OutputNumbers {
            norm: format_steady_number(summary.norm, noise, 3),
            min: format_statistic(summary.min, in_element),
            max: format_statistic(summary.max, in_element),
            mean: format_statistic(summary.mean, in_mean),
            slices: slices.collect(),
            sketch: format_sketch(&summary.sketch, noise),
        }
    }

    /// The same with the numbers of its text. Whatever is computed of it stays equal once it lay in a file.
    pub(super) fn in_written_digits(mut self) -> OutputSnapshot {
        let numbers = self.numbers();
        let summary = &mut self.summary;
        summary.norm = read_number(&numbers.norm);
        summary.min = summary.min.map(|_| read_number(&numbers.min));
        summary.max = summary.max.map(|_| read_number(&numbers.max));
        summary.mean = summary.mean.map(|_| read_number(&numbers.mean));
        summary.max_abs = largest_magnitude(summary.min, summary.max);
        for (slices, norms) in self.slices.iter_mut().zip(&numbers.slices) {
            slices.norms = norms.iter().map(|norm| read_number(norm)).collect();
        }
        let (_, sketch) = parse_sketch(&numbers.sketch).expect("a sketch that was just written");
        summary.sketch = sketch;
        self
    }

    fn write_shadow(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(shadow) = &self.shadow else { return writeln!(f, "  shadow none") };
        let mut lines = shadow::render_imprint_lines(shadow, &self.name).into_iter();
        lines.try_for_each(|line| writeln!(f, "  shadow {line}"))
    }
}

/// A number with its noise, or `none`.
fn format_statistic(x: Option<f64>, noise: f64) -> String {
    x.map_or("none".to_owned(), |x| format_steady_number(x, noise, 0))
}

fn read_number(text: &str) -> f64 {
    text.parse().expect("a number that was just written")
}

/// The largest magnitude of elements between `min` and `max`.
pub(super) fn largest_magnitude(min: Option<f64>, max: Option<f64>) -> f64 {
    [min, max].into_iter().flatten().fold(0.0, |largest: f64, x| largest.max(x.abs()))
}

/// `[batch 8, seq 32]`, or `scalar`.
struct Dims<'a>(&'a [Dim]);

impl Display for Dims<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("scalar");
        }
        write!(f, "[{}]", self.0.iter().map(format_dim).collect::<Vec<_>>().join(", "))
    }
}

fn format_dim(dim: &Dim) -> String {
    match &dim.name {
        Some(name) => format!("{name} {}", dim.size),
        None => dim.size.to_string(),
    }
}
