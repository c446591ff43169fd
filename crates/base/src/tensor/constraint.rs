//! Constraints between the elements of a tensor, and the directions along them.
//!
//! A function of unit vectors, symmetric matrices or probabilities has derivatives along its constraint alone. They are
//! those of its gradient, projected orthogonally onto the tangent space (Absil, Mahony and Sepulchre, *Optimization
//! Algorithms on Matrix Manifolds*, section 3.6).

use std::fmt;

use serde::{Deserialize, Serialize};

/// A constraint between elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Constraint {
    /// Each vector along the last dimension has the norm 1.
    Unit,
    /// Each matrix of the last two dimensions is its own transpose.
    Symmetric,
    /// Each vector along the last dimension has the sum 1.
    Simplex,
}

/// A vector this near to its constraint lies on it: narrow formats round it off.
const NEAR: f64 = 1e-2;

impl Constraint {
    /// All of them.
    pub const ALL: [Constraint; 3] = [Constraint::Unit, Constraint::Symmetric, Constraint::Simplex];

    /// The name in a harness.
    pub const fn name(self) -> &'static str {
        match self {
            Constraint::Unit => "unit",
            Constraint::Symmetric => "symmetric",
            Constraint::Simplex => "simplex",
        }
    }

    /// The elements that it ties together in a tensor of `shape`: consecutive ones. None if it does not fit the shape.
    pub fn group_len(self, shape: &[usize]) -> Option<usize> {
        match (self, shape) {
            (Constraint::Unit | Constraint::Simplex, [.., columns]) => Some(*columns),
            (Constraint::Symmetric, [.., rows, columns]) if rows == columns => Some(rows * columns),
            _ => None,
        }
    }

    /// Projects `vector` onto the tangent space at `point`. Both are one group.
    ///
    /// At `x`, a vector `v` becomes `v - x <x, v> / <x, x>` for unit vectors, `(v + v^T) / 2` for symmetric matrices, and
    /// `v - mean(v)` for probabilities.
    pub fn project(self, point: &[f64], vector: &mut [f64]) {
        match self {
            Constraint::Unit => {
                let square = inner_product(point, point);
                if square > 0.0 {
                    let share = inner_product(point, vector) / square;
                    vector.iter_mut().zip(point).for_each(|(v, x)| *v -= share * x);
                }
            }
            Constraint::Symmetric => {
                let size = vector.len().isqrt();
                for row in 0..size {
                    for column in 0..row {
                        let (one, other) = (row * size + column, column * size + row);
                        let mean = (vector[one] + vector[other]) / 2.0;
                        vector[one] = mean;
                        vector[other] = mean;
                    }
                }
            }
            Constraint::Simplex => {
                let mean = vector.iter().sum::<f64>() / vector.len() as f64;
                vector.iter_mut().for_each(|v| *v -= mean);
            }
        }
    }

    /// Whether the group `point` lies on the constraint, as far as narrow formats can tell.
    pub fn holds(self, point: &[f64]) -> bool {
        match self {
            Constraint::Unit => (inner_product(point, point) - 1.0).abs() <= NEAR,
            Constraint::Symmetric => {
                let size = point.len().isqrt();
                (0..point.len()).all(|index| {
                    let (row, column) = (index / size, index % size);
                    point[index] == point[column * size + row]
                })
            }
            Constraint::Simplex => {
                point.iter().all(|x| *x >= 0.0) && (point.iter().sum::<f64>() - 1.0).abs() <= NEAR
            }
        }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn inner_product(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(x, y)| x * y).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_projected_vector_is_tangential_and_projecting_it_again_changes_nothing() {
        let unit = [0.6, 0.0, -0.8];
        let mut vector = [1.0, 2.0, 3.0];
        Constraint::Unit.project(&unit, &mut vector);
        assert!(inner_product(&unit, &vector).abs() < 1e-15, "{vector:?}");
        let once = vector;
        Constraint::Unit.project(&unit, &mut vector);
        assert!(vector.iter().zip(once).all(|(again, once)| (again - once).abs() < 1e-15));

        let mut matrix = [1.0, 2.0, 4.0, 3.0];
        Constraint::Symmetric.project(&[0.0; 4], &mut matrix);
        assert_eq!(matrix, [1.0, 3.0, 3.0, 3.0]);

        let mut shares = [1.0, 2.0, 6.0];
        Constraint::Simplex.project(&[0.2, 0.3, 0.5], &mut shares);
        assert_eq!(shares, [-2.0, -1.0, 3.0]);
    }

    #[test]
    fn a_zero_vector_has_no_sphere_and_stays() {
        let mut vector = [1.0, 2.0];
        Constraint::Unit.project(&[0.0; 2], &mut vector);
        assert_eq!(vector, [1.0, 2.0]);
    }

    #[test]
    fn a_constraint_fits_some_shapes_alone() {
        assert_eq!(Constraint::Unit.group_len(&[5, 4]), Some(4));
        assert_eq!(Constraint::Simplex.group_len(&[]), None);
        assert_eq!(Constraint::Symmetric.group_len(&[7, 3, 3]), Some(9));
        assert_eq!(Constraint::Symmetric.group_len(&[3, 4]), None);
    }

    #[test]
    fn points_on_a_constraint_are_known_in_narrow_formats() {
        assert!(Constraint::Unit.holds(&[0.6, 0.0, -0.8]));
        assert!(!Constraint::Unit.holds(&[0.6, 0.1, -0.8]));
        assert!(Constraint::Simplex.holds(&[0.25, 0.75]));
        assert!(!Constraint::Simplex.holds(&[-0.25, 1.25]));
        assert!(Constraint::Symmetric.holds(&[1.0, 2.0, 2.0, 5.0]));
        assert!(!Constraint::Symmetric.holds(&[1.0, 2.0, 3.0, 5.0]));
    }
}
