//! What the generators of fixtures share: their argument, how a file is written or compared, and random numbers
//! that are the same on every platform.

// Each generator uses a part of this.
#![allow(dead_code)]

mod rng;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

pub use rng::Rng;

/// Whether files are compared instead of written: the one argument is `--check`.
pub fn is_check() -> Result<bool> {
    match std::env::args().nth(1).as_deref() {
        None => Ok(false),
        Some("--check") => Ok(true),
        Some(other) => bail!("unexpected argument `{other}`: only `--check` is known"),
    }
}

/// Writes a file of a fixture, or compares it with what would be written.
pub fn put(path: &Path, bytes: &[u8], check: bool) -> Result<()> {
    if check { compare(path, bytes) } else { write(path, bytes) }
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().context("a fixture's file lies in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

fn compare(path: &Path, bytes: &[u8]) -> Result<()> {
    let found = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(found == bytes, "{} is not what the generator writes", path.display());
    Ok(())
}

impl Rng {
    /// A multiple of 2^-24 in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 40) as f64 / f64::from(1 << 24)
    }

    /// Close to the standard normal distribution: the sum of twelve uniform numbers.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    /// An index, with a probability in proportion to its weight.
    pub fn pick(&mut self, weights: &[f64]) -> usize {
        let mut left = self.unit() * weights.iter().sum::<f64>();
        let index = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        index.unwrap_or(weights.len() - 1)
    }
}
