//! Adam's moments of one parameter, element by element (Kingma and Ba 2015, algorithm 1).

use serde::{Deserialize, Serialize};

use replay_base::summary::Number;
use replay_base::tensor::TensorView;
use replay_numerics::constants::{LEAST_MOMENT, MOMENT_SLACK};

/// Adam's numbers of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AdamSetting {
    /// The decay of the first moment.
    pub(super) beta1: f64,
    /// The decay of the second moment.
    pub(super) beta2: f64,
    /// The addend to the root of the second moment.
    pub(super) epsilon: f64,
    /// How often the moments were updated; none where it is not known: biases then stay.
    pub(super) step: Option<f64>,
}

/// PyTorch's own, where none were captured.
pub(super) const DEFAULT: AdamSetting =
    AdamSetting { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, step: None };

/// The figures of the moments of one parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Adam {
    /// The elements.
    pub count: u64,
    /// The root mean square of the steps, `m / (sqrt(v) + eps)`, in units of the learning rate.
    #[serde(with = "Number")]
    pub step: f64,
    /// The greatest of them.
    #[serde(with = "Number")]
    pub largest: f64,
    /// Elements moved by less than half as far as without epsilon.
    pub damped: u64,
    /// Elements whose second moment is negative.
    pub negative: u64,
    /// Elements whose first moment is larger than any gradients can make it beside their second one.
    pub unrelated: u64,
}

/// Elements in one read.
const BLOCK: usize = 1 << 10;

impl AdamSetting {
    /// The square of the largest `|m| / sqrt(v)` of any gradients, by the Cauchy-Schwarz inequality. Infinite where
    /// there is no bound.
    fn most(&self) -> f64 {
        let ratio = self.beta1 * self.beta1 / self.beta2;
        if ratio < 1.0 && self.beta2 < 1.0 {
            (1.0 - self.beta1).powi(2) / (1.0 - self.beta2) / (1.0 - ratio)
        } else {
            f64::INFINITY
        }
    }

    /// The factors against the bias of both moments.
    fn corrections(&self) -> (f64, f64) {
        (self.compute_bias_factor(self.beta1), self.compute_bias_factor(self.beta2))
    }

    /// The factor against the bias of the moment with the decay rate `beta`.
    fn compute_bias_factor(&self, beta: f64) -> f64 {
        match self.step {
            Some(step) if step > 0.0 => 1.0 / (1.0 - beta.powf(step)),
            _ => 1.0,
        }
    }
}

/// The figures of two moments; none if their numbers of elements differ.
pub(super) fn measure_adam(
    first: &TensorView,
    second: &TensorView,
    setting: &AdamSetting,
) -> Option<Adam> {
    if first.len() != second.len() || first.is_empty() {
        return None;
    }
    let (of_first, of_second) = setting.corrections();
    let most = setting.most();
    let mut statistics = Adam { count: first.len() as u64, ..Adam::default() };
    let mut m = [0.0; BLOCK];
    let mut v = [0.0; BLOCK];
    let mut squares = 0.0;
    for block_start in (0..first.len()).step_by(BLOCK) {
        let length = BLOCK.min(first.len() - block_start);
        first.read(block_start, &mut m[..length]);
        second.read(block_start, &mut v[..length]);
        for (&m, &v) in m[..length].iter().zip(&v[..length]) {
            statistics.negative += u64::from(v < 0.0);
            statistics.unrelated +=
                u64::from(m.abs() > LEAST_MOMENT && v >= 0.0 && m * m > MOMENT_SLACK * most * v);
            let root = (v.max(0.0) * of_second).sqrt();
            statistics.damped += u64::from(m != 0.0 && root <= setting.epsilon);
            let step = (m * of_first / (root + setting.epsilon)).abs();
            if step.is_finite() {
                squares += step * step;
                statistics.largest = statistics.largest.max(step);
            }
        }
    }
    statistics.step = (squares / first.len() as f64).sqrt();
    Some(statistics)
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_base::tensor::DType;

    fn told(m: &[f64], v: &[f64], setting: AdamSetting) -> Adam {
        let bytes = |x: &[f64]| x.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let (m, v, shape) = (bytes(m), bytes(v), [m.len()]);
        let view = |bytes| TensorView { dtype: DType::F64, shape: &shape, bytes };
        measure_adam(&view(&m), &view(&v), &setting).expect("moments of one shape")
    }

    /// The moments after `gradients`, element by element.
    fn moments(gradients: &[f64], setting: AdamSetting) -> (f64, f64) {
        gradients.iter().fold((0.0, 0.0), |(m, v), g| {
            (
                setting.beta1 * m + (1.0 - setting.beta1) * g,
                setting.beta2 * v + (1.0 - setting.beta2) * g * g,
            )
        })
    }

    #[test]
    fn the_first_step_has_the_length_of_the_learning_rate() {
        let setting = AdamSetting { step: Some(1.0), ..DEFAULT };
        let (m, v) = moments(&[0.25], setting);
        let told = told(&[m, -m], &[v, v], setting);
        assert!((told.step - 1.0).abs() < 1e-6, "{told:?}");
        assert_eq!((told.damped, told.negative, told.unrelated), (0, 0, 0));
    }

    #[test]
    fn moments_of_any_gradients_are_related_and_others_are_not() {
        // Gradients that grow by beta2 / beta1 a step bring the ratio to its bound.
        let worst: Vec<f64> = (0..400).map(|i| (0.999f64 / 0.9).powi(i - 400)).collect();
        let series = [worst, vec![1.0; 50], vec![1.0, -1.0, 0.5], vec![0.0, 0.0, 3.0]];
        for gradients in series {
            let (m, v) = moments(&gradients, DEFAULT);
            assert_eq!(told(&[m], &[v], DEFAULT).unrelated, 0, "{gradients:?}");
        }
        assert_eq!(told(&[1.0], &[0.018], DEFAULT).unrelated, 1);
        assert_eq!(told(&[1.0], &[-1e-9], DEFAULT).negative, 1);
    }

    #[test]
    fn where_epsilon_is_larger_than_the_root_it_damps() {
        let told = told(&[1e-9, 1e-3], &[1e-18, 1e-6], DEFAULT);
        assert_eq!(told.damped, 1);
    }
}
