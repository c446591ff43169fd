//! Random data of several kinds, the bits of float32 in all of them.

use crate::corpus::inputs::Random;

/// What data look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bell-shaped.
    Ordinary,
    /// One logit of a row far above the others; rows whose mean is far above their deviation.
    Confident,
    /// A few elements 10,000 times larger.
    Outlier,
    /// Masks of minus infinity and -1e9, rows with a single key, rows of one value.
    Edge,
    /// Padding: whole rows of zeros, and zeros elsewhere.
    Padded,
    /// Multiples of an eighth.
    Coarse,
    /// Denormals of float32, or nearly.
    Tiny,
    /// On the jumps and kinks of a family that has some: ties of a rounding, the bound of a clamp,
    /// the corner of a rectifier. Rounding decides there, in float64 too.
    Tie,
}

impl Kind {
    pub const ALL: [Kind; 8] = [
        Kind::Ordinary,
        Kind::Confident,
        Kind::Outlier,
        Kind::Edge,
        Kind::Padded,
        Kind::Coarse,
        Kind::Tiny,
        Kind::Tie,
    ];
}

/// Draws the inputs of a problem.
pub struct Draw {
    pub kind: Kind,
    random: Random,
}

impl Draw {
    pub fn new(kind: Kind, seed: u64) -> Draw {
        Draw { kind, random: Random(seed) }
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound)
    }

    /// Uniform between 0 and 1.
    pub fn unit(&mut self) -> f64 {
        (self.random.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    /// Bell-shaped, whatever the kind.
    pub fn bell(&mut self, count: usize, deviation: f64) -> Vec<f64> {
        (0..count).map(|_| single(deviation * self.random.bell())).collect()
    }

    /// Values of a tensor that is not the main one: on a grid where the kind says so.
    pub fn side(&mut self, count: usize, deviation: f64) -> Vec<f64> {
        let mut values = self.bell(count, deviation);
        match self.kind {
            Kind::Coarse | Kind::Tie => {
                values.iter_mut().for_each(|value| *value = (*value * 8.0).round() / 8.0)
            }
            Kind::Padded => values.iter_mut().step_by(5).for_each(|value| *value = 0.0),
            _ => {}
        }
        values
    }

    /// Values of a main tensor in rows of `columns`.
    pub fn rows(&mut self, rows: usize, columns: usize, deviation: f64) -> Vec<f64> {
        let mut values = self.bell(rows * columns, deviation);
        match self.kind {
            Kind::Ordinary => {}
            Kind::Confident => values.iter_mut().for_each(|x| *x = single(3.0 + *x * 0.01)),
            Kind::Outlier => self.outliers(&mut values),
            Kind::Edge => self.rows_of_one_value(&mut values, columns),
            Kind::Padded => self.padding(&mut values, columns),
            Kind::Coarse | Kind::Tie => {
                values.iter_mut().for_each(|x| *x = (*x * 8.0).round() / 8.0)
            }
            Kind::Tiny => values.iter_mut().for_each(|x| *x = single(*x * 1e-38)),
        }
        values
    }

    /// Logits in rows of `columns`.
    pub fn logits(&mut self, rows: usize, columns: usize) -> Vec<f64> {
        let mut values = self.bell(rows * columns, 2.0);
        match self.kind {
            Kind::Ordinary => {}
            Kind::Confident => values.iter_mut().for_each(|x| *x = single(*x * 10.0)),
            Kind::Outlier => self.outliers(&mut values),
            Kind::Edge => self.masks(&mut values, columns),
            Kind::Padded => self.padding(&mut values, columns),
            Kind::Coarse | Kind::Tie => {
                values.iter_mut().for_each(|x| *x = (*x * 8.0).round() / 8.0)
            }
            Kind::Tiny => values.iter_mut().for_each(|x| *x = single(*x * 1e-38)),
        }
        values
    }

    /// For each row of `logits` the index of one that is not masked.
    pub fn targets(&mut self, logits: &[f64], columns: usize) -> Vec<f64> {
        let of_row = |row: &[f64]| {
            let open: Vec<usize> = (0..columns).filter(|&i| row[i] > -1e8).collect();
            if open.is_empty() { self.below(columns) as f64 } else { self.one_of(&open) as f64 }
        };
        logits.chunks(columns).map(of_row).collect()
    }

    fn outliers(&mut self, values: &mut [f64]) {
        for value in &mut *values {
            if self.chance(50) {
                *value = single(*value * 1e4);
            }
        }
        let at = self.below(values.len());
        values[at] = single(values[at] * 1e4);
    }

    fn padding(&mut self, values: &mut [f64], columns: usize) {
        for (at, row) in values.chunks_mut(columns).enumerate() {
            if at % 3 == 1 {
                row.fill(0.0);
            } else {
                row.iter_mut().skip(1).step_by(4).for_each(|value| *value = 0.0);
            }
        }
    }

    fn rows_of_one_value(&mut self, values: &mut [f64], columns: usize) {
        for row in values.chunks_mut(columns) {
            let first = row[0];
            let with = self.below(4);
            match with {
                0 => row.fill(first),
                1 => row.iter_mut().step_by(2).for_each(|x| *x = first),
                2 => row.fill(0.0),
                _ => row.iter_mut().skip(1).for_each(|x| *x = 0.0),
            }
        }
    }

    fn masks(&mut self, values: &mut [f64], columns: usize) {
        for row in values.chunks_mut(columns) {
            let first = row[0];
            let with = self.below(5);
            let kept = self.below(columns);
            let mask = self.one_of(&[f64::NEG_INFINITY, -1e9]);
            match with {
                0 => row.fill(first),
                1 => (0..columns).filter(|&i| i != kept).for_each(|i| row[i] = mask),
                2 => row.fill(0.0),
                _ => row[1 + kept * (columns - 1) / columns..].fill(mask),
            }
        }
    }
}

/// The nearest float32.
pub fn single(value: f64) -> f64 {
    f64::from(value as f32)
}
