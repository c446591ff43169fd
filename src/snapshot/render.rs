//! A snapshot as text; `parse` reads it back.

use std::fmt::{self, Display, Formatter};

use super::number::{format_sketch, format_snapshot_number, format_steady_number};
use super::{OutputSnapshot, Snapshot, shadow};
use crate::tensor::Dim;

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

impl Display for OutputSnapshot {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let summary = &self.summary;
        // A statistic moves by no more than all elements together; the mean by less.
        let noise = self.noise * summary.norm;
        let extreme = |x: Option<f64>, noise: f64, least_digits: i32| {
            x.map_or("none".to_owned(), |x| format_steady_number(x, noise, least_digits))
        };
        let in_mean = noise / (summary.count.max(1) as f64).sqrt();
        let in_element = self.noise * summary.max_abs;
        writeln!(f, "output {}: {} {}", self.name, self.dtype, Dims(&self.dims))?;
        writeln!(f, "  checksum {}", summary.checksum)?;
        writeln!(f, "  noise {}", format_snapshot_number(self.noise, 2))?;
        writeln!(f, "  norm {}", format_steady_number(summary.norm, noise, 3))?;
        writeln!(f, "  min {}", extreme(summary.min, in_element, 0))?;
        writeln!(f, "  max {}", extreme(summary.max, in_element, 0))?;
        writeln!(f, "  mean {}", extreme(summary.mean, in_mean, 0))?;
        let zeros = summary.zeros;
        let nan = summary.nan;
        let inf = summary.inf;
        writeln!(f, "  zeros {zeros}, NaN {nan}, Inf {inf}, unwritten {}", summary.unwritten)?;
        for slices in &self.slices {
            let norms: Vec<String> =
                slices.norms.iter().map(|&x| format_steady_number(x, noise, 0)).collect();
            writeln!(f, "  norm by {}: {}", slices.dim, norms.join(" "))?;
        }
        writeln!(f, "  sketch {}", format_sketch(&summary.sketch, noise))
    }
}

impl OutputSnapshot {
    fn write_shadow(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(shadow) = &self.shadow else { return writeln!(f, "  shadow none") };
        let mut lines = shadow::render_imprint_lines(shadow, &self.name).into_iter();
        lines.try_for_each(|line| writeln!(f, "  shadow {line}"))
    }
}

/// `[batch 8, seq 32]`, or `scalar`.
struct Dims<'a>(&'a [Dim]);

impl Display for Dims<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("scalar");
        }
        let dim_text = |dim: &Dim| match &dim.name {
            Some(name) => format!("{name} {}", dim.size),
            None => dim.size.to_string(),
        };
        write!(f, "[{}]", self.0.iter().map(dim_text).collect::<Vec<_>>().join(", "))
    }
}
