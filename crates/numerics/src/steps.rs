//! Whether an output moves in steps as its inputs move along a line: it is rounded on the way to a
//! format with fewer digits than it has itself.
//!
//! Five values at equal distances on a smooth curve have a fourth difference of next to nothing, and at
//! twice the distance one that is sixteen times as large. Rounding on the way errs by itself in each of
//! them, however near they are. So do ties, which fall one way or the other.

use super::cells::median_of;
use super::constants::{FEW_TIES, LEAST_ROW};
use super::noise::Spread;
use super::{CompareError, NumericsError, check_shapes};
use replay_base::scratch::{Scratch, ScratchNumbers};
use replay_base::tensor::TensorView;

/// The points beside the middle one.
pub const POINTS: [i8; 6] = [-4, -2, -1, 1, 2, 4];
/// The weights of a point in the fourth differences at the distance of one and of two.
fn difference_weights(point: i8) -> [f64; 2] {
    [1, 2].map(|distance: i8| match (point / distance).abs() {
        _ if point % distance != 0 => 0.0,
        0 => 6.0,
        1 => -4.0,
        2 => 1.0,
        _ => 0.0,
    })
}
/// The root of the sum of the squared weights: how far five errors that are independent of each other
/// add up.
const WEIGHT: f64 = 8.366_600_265_340_756;
/// How many times as large a smooth curve's fourth difference is at twice the distance.
const GROWTH: f64 = 16.0;
/// Adds up the fourth differences of each element of an output.
#[derive(Debug)]
pub struct Steps {
    near: ScratchNumbers<f64>,
    far: ScratchNumbers<f64>,
    scratch: Scratch,
}

impl Steps {
    /// The output `middle`, in the middle of the line.
    ///
    /// # Errors
    /// [`ScratchError`](replay_base::scratch::ScratchError) if there is no room.
    pub fn new(middle: &TensorView, scratch: &Scratch) -> Result<Steps, NumericsError> {
        let near = scratch.zeros(middle.len())?;
        let far = scratch.zeros(middle.len())?;
        let mut steps = Steps { near, far, scratch: scratch.clone() };
        steps.sum(middle, 0);
        Ok(steps)
    }

    /// Takes the output at `point`.
    ///
    /// # Errors
    /// [`CompareError::Shape`] if the shapes differ.
    pub fn add(
        &mut self,
        middle: &TensorView,
        view: &TensorView,
        point: i8,
    ) -> Result<(), CompareError> {
        check_shapes(middle, view, true)?;
        self.sum(view, point);
        Ok(())
    }

    fn sum(&mut self, view: &TensorView, point: i8) {
        let [near, far] = difference_weights(point);
        for index in 0..view.len() {
            let value = view.get_f64(index);
            self.near[index] += near * value;
            self.far[index] += far * value;
        }
    }

    /// The fourth differences of what `other` has more than these, on the same line, where each element is known to be
    /// larger by the share `growth` there: they vanish where both outputs move along one curve, however steep it is.
    ///
    /// # Errors
    /// [`ScratchError`](replay_base::scratch::ScratchError) if there is no room.
    pub fn between(
        &self,
        other: &Steps,
        growth: impl Fn(usize) -> f64,
    ) -> Result<Steps, NumericsError> {
        let mut steps_between = self.copied()?;
        for (sums, others) in
            [(&mut steps_between.near, &other.near), (&mut steps_between.far, &other.far)]
        {
            for (index, (sum, other)) in sums.iter_mut().zip(others.iter()).enumerate() {
                *sum = other - (1.0 + growth(index)) * *sum;
            }
        }
        Ok(steps_between)
    }

    /// The same sums once more.
    ///
    /// # Errors
    /// [`ScratchError`](replay_base::scratch::ScratchError) if there is no room.
    pub fn copied(&self) -> Result<Steps, NumericsError> {
        let mut near: ScratchNumbers<f64> = self.scratch.zeros(self.near.len())?;
        let mut far: ScratchNumbers<f64> = self.scratch.zeros(self.far.len())?;
        near.copy_from_slice(&self.near);
        far.copy_from_slice(&self.far);
        Ok(Steps { near, far, scratch: self.scratch.clone() })
    }

    /// How far each element is off by rounding on the way: as its own difference tells, as half of its
    /// row's do, or as those of most elements do at its magnitude and that of its row. Elements that are
    /// not finite do not move.
    ///
    /// # Errors
    /// [`ScratchError`](replay_base::scratch::ScratchError) if there is no room.
    pub fn finish(self, middle: &TensorView) -> Result<Spread, NumericsError> {
        let Steps { mut near, mut far, scratch } = self;
        let row = middle.shape.last().copied().unwrap_or(1).max(1);
        let magnitude = |index: usize| {
            let magnitude = middle.get_f64(index).abs();
            if magnitude.is_finite() { magnitude } else { 0.0 }
        };
        let mut values: ScratchNumbers<f64> = scratch.zeros(middle.len())?;
        values.iter_mut().enumerate().for_each(|(index, value)| *value = magnitude(index));
        let mut rows: ScratchNumbers<f64> = scratch.zeros(middle.len().div_ceil(row))?;
        rows.iter_mut().zip(values.chunks(row)).for_each(|(scale, row)| *scale = median_of(row));
        let scale = |index: usize| magnitude(index).max(rows[index / row]);
        for difference in near.iter_mut().chain(far.iter_mut()) {
            *difference = if difference.is_finite() { difference.abs() / WEIGHT } else { 0.0 };
        }
        let mut usual = |differences: &[f64]| {
            let mut count = 0;
            for (index, difference) in differences.iter().enumerate() {
                if scale(index) > 0.0 {
                    values[count] = difference / scale(index);
                    count += 1;
                }
            }
            of_most(&mut values[..count])
        };
        let usual_near = usual(&near);
        let usual_far = usual(&far);
        // What grows with the distance is the curve, the rest is rounding.
        let rounding_square = (GROWTH * usual_near).powi(2) - usual_far * usual_far;
        let rounding_size = (rounding_square.max(0.0) / (GROWTH * GROWTH - 1.0)).sqrt();
        let part = if usual_near > 0.0 { rounding_size / usual_near } else { 1.0 };
        near.iter_mut().for_each(|difference| *difference *= part.min(1.0));
        for (row_index, differences) in near.chunks_mut(row).enumerate() {
            let neighbours = if row < LEAST_ROW { 0.0 } else { median_of(differences) };
            for (index, difference) in (row_index * row..).zip(differences) {
                *difference = difference.max(neighbours).max(rounding_size * scale(index));
            }
        }
        Ok(Spread::Double(near))
    }
}

/// The root mean square of most of `values`, the smallest; puts them in order.
fn of_most(values: &mut [f64]) -> f64 {
    let most = (values.len() as f64 * FEW_TIES).ceil() as usize;
    if most == 0 {
        return 0.0;
    }
    values.sort_unstable_by(f64::total_cmp);
    let squares: f64 = values[..most].iter().map(|value| value * value).sum();
    (squares / most as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::constants::NOISE_FACTOR;
    use super::*;
    use replay_base::tensor::DType;

    fn seen<'v>(shape: &'v [usize], bytes: &'v [u8]) -> TensorView<'v> {
        TensorView { dtype: DType::F64, shape, bytes }
    }

    /// How far the elements `f` of 64 inputs step, relative to the largest, at inputs this near.
    fn stepped(f: impl Fn(f64) -> f64, near: f64) -> f64 {
        let values = |by: f64| -> Vec<u8> {
            let x = |at: i32| (1.0 + f64::from(at) / 40.0) * (1.0 + by * near);
            (0..64).flat_map(|at| f(x(at)).to_le_bytes()).collect()
        };
        let middle = values(0.0);
        let mut steps = Steps::new(&seen(&[8, 8], &middle), &Scratch::heap()).unwrap();
        for by in POINTS {
            let values = values(f64::from(by));
            steps.add(&seen(&[8, 8], &middle), &seen(&[8, 8], &values), by).unwrap();
        }
        let found = steps.finish(&seen(&[8, 8], &middle)).unwrap();
        let largest = f(2.6).abs();
        (0..64).map(|index| found.value_at(index) / largest).fold(0.0, f64::max)
    }

    #[test]
    fn a_smooth_function_has_no_steps() {
        assert!(stepped(f64::exp, 1.0 / 1024.0) < 1e-10);
        assert!(stepped(|x| (20.0 * x).sin() + 2.0, 1.0 / 1024.0) < 1e-6);
        assert!(stepped(f64::sqrt, 2f64.powi(-20)) < 1e-15);
    }

    #[test]
    fn rounding_on_the_way_shows_in_most_elements() {
        let narrow = |x: f64| f64::from(half::bf16::from_f64(x.sqrt()).to_f32()) * 3.0;
        let found = stepped(narrow, 1.0 / 1024.0);
        assert!((2f64.powi(-11)..2f64.powi(-6)).contains(&found), "{found}");
        let single = |x: f64| f64::from(x.exp() as f32) + 1e-9;
        let found = stepped(single, 2f64.powi(-20));
        assert!((2f64.powi(-27)..2f64.powi(-22)).contains(&found), "{found}");
    }

    /// How far elements step that are `f` and `g` of 64 inputs, at inputs this near, in what one has more than by
    /// `growth` of the other.
    fn stepped_between(f: fn(f64) -> f64, g: fn(f64) -> f64, growth: f64, near: f64) -> f64 {
        let bytes = |of: fn(f64) -> f64, by: f64| -> Vec<u8> {
            let x = |at: i32| (1.0 + f64::from(at) / 40.0) * (1.0 + by * near);
            (0..64).flat_map(|at| of(x(at)).to_le_bytes()).collect()
        };
        let middle = bytes(f, 0.0);
        let steps = [f, g].map(|of| {
            let own = bytes(of, 0.0);
            let mut steps = Steps::new(&seen(&[8, 8], &own), &Scratch::heap()).unwrap();
            for by in POINTS {
                let values = bytes(of, f64::from(by));
                steps.add(&seen(&[8, 8], &own), &seen(&[8, 8], &values), by).unwrap();
            }
            steps
        });
        let between = steps[0].between(&steps[1], |_| growth).unwrap();
        let found = between.finish(&seen(&[8, 8], &middle)).unwrap();
        (0..64).map(|index| found.value_at(index) / f(2.6).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn a_factor_has_no_steps_of_its_own_in_a_steep_function_and_rounding_does() {
        fn steep(x: f64) -> f64 {
            (200.0 * x).sin() + 2.0
        }
        fn scaled(x: f64) -> f64 {
            1.00001 * steep(x)
        }
        fn rounded(x: f64) -> f64 {
            f64::from(half::bf16::from_f64(steep(x)).to_f32())
        }
        assert!(stepped(steep, 1.0 / 512.0) > 1e-3);
        let found = stepped_between(steep, scaled, 0.0, 1.0 / 512.0);
        assert!(NOISE_FACTOR * found < 1e-5, "{found}");
        let found = stepped_between(steep, rounded, 0.0, 1.0 / 512.0);
        assert!((2f64.powi(-11)..2f64.powi(-6)).contains(&found), "{found}");
        // So far apart nothing is smooth, and only a factor that is known is no step.
        let found = stepped_between(steep, scaled, 0.0, 1.0 / 16.0);
        assert!(NOISE_FACTOR * found > 1e-5, "{found}");
        let found = stepped_between(steep, scaled, 0.00001, 1.0 / 16.0);
        assert!(found < 1e-15, "{found}");
        let found = stepped_between(steep, rounded, 0.00001, 1.0 / 16.0);
        assert!((2f64.powi(-11)..2f64.powi(-6)).contains(&found), "{found}");
    }

    #[test]
    fn a_kink_excuses_its_own_elements_alone() {
        let kink = |x: f64| (x - 1.5).max(0.0) + 1.0;
        assert!(stepped(kink, 1.0 / 1024.0) < 1e-3);
        let bytes: Vec<u8> = [1.0f64; 16].iter().flat_map(|x| x.to_le_bytes()).collect();
        let mut other = bytes.clone();
        other[..8].copy_from_slice(&2f64.to_le_bytes());
        let mut steps = Steps::new(&seen(&[16], &bytes), &Scratch::heap()).unwrap();
        for by in POINTS {
            let at = if by == 2 { &other } else { &bytes };
            steps.add(&seen(&[16], &bytes), &seen(&[16], at), by).unwrap();
        }
        let found = steps.finish(&seen(&[16], &bytes)).unwrap();
        assert!(found.value_at(0) > 0.1 && (1..16).all(|index| found.value_at(index) == 0.0));
    }
}
