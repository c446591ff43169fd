//! The kept numbers of one step. No tensors.

use serde::{Deserialize, Serialize};

use super::adam::Adam;
use super::alignment::Alignment;
use replay_base::summary::{Checksum, Number, OptionalNumber, Summary};
use replay_engine::judge::{GradientVerdict, Verdict};
use replay_engine::trial::Status;
use replay_numerics::oracle::Finding;

/// One step of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesStep {
    /// The fixture's name.
    pub fixture: String,
    /// The number of the step in its provenance.
    pub number: Option<i64>,
    /// Its numbers: captured, or of the replay where there is one.
    pub measured: StepNumbers,
    /// The replay, where one was asked for.
    pub replay: Option<StepReplay>,
}

/// The numbers of one step, in the order of its [`TensorCatalogue`](super::TensorCatalogue).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepNumbers {
    /// The tensors of one number each.
    pub scalars: Scalars,
    /// The tensors; none where one is not there.
    pub tensors: Vec<Option<TensorNumbers>>,
    /// By parameter, how far the step moves it.
    pub updates: Vec<Option<ParameterUpdate>>,
    /// By parameter, Adam's moments.
    pub adam: Vec<Option<Adam>>,
    /// How targets lie beside tokens.
    pub alignment: Option<Alignment>,
}

/// The single numbers of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Scalars {
    /// The loss.
    #[serde(with = "OptionalNumber", default)]
    pub loss: Option<f64>,
    /// The norm of all gradients together before they were clipped, as captured.
    #[serde(with = "OptionalNumber", default)]
    pub grad_norm: Option<f64>,
    /// The limit of clipping, as captured.
    #[serde(with = "OptionalNumber", default)]
    pub max_norm: Option<f64>,
    /// The learning rate.
    #[serde(with = "OptionalNumber", default)]
    pub lr: Option<f64>,
    /// Adam's decay of the first moment.
    #[serde(with = "OptionalNumber", default)]
    pub beta1: Option<f64>,
    /// Adam's decay of the second moment.
    #[serde(with = "OptionalNumber", default)]
    pub beta2: Option<f64>,
    /// Adam's epsilon.
    #[serde(with = "OptionalNumber", default)]
    pub eps: Option<f64>,
    /// How often Adam's moments were updated.
    #[serde(with = "OptionalNumber", default)]
    pub adam_step: Option<f64>,
}

/// The numbers of one tensor. Those of finite elements alone but for the counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TensorNumbers {
    /// The elements.
    pub count: u64,
    /// The L2 norm.
    #[serde(with = "Number")]
    pub norm: f64,
    /// The greatest magnitude.
    #[serde(with = "Number")]
    pub max_abs: f64,
    /// The mean; none where no element is finite.
    #[serde(with = "OptionalNumber", default)]
    pub mean: Option<f64>,
    /// Zeros.
    pub zeros: u64,
    /// NaNs.
    pub nan: u64,
    /// Infinities.
    pub inf: u64,
    /// 128 bits over dtype, shape and elements.
    pub checksum: Checksum,
}

impl From<&Summary> for TensorNumbers {
    fn from(summary: &Summary) -> TensorNumbers {
        let &Summary { count, norm, max_abs, mean, zeros, nan, inf, checksum, .. } = summary;
        TensorNumbers { count, norm, max_abs, mean, zeros, nan, inf, checksum }
    }
}

impl TensorNumbers {
    /// The root mean square of the elements.
    pub fn rms(&self) -> f64 {
        self.norm / (self.count.max(1) as f64).sqrt()
    }
}

/// How far a step moves a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ParameterUpdate {
    /// The norm of the step's addend.
    #[serde(with = "Number")]
    pub norm: f64,
    /// The norm of the parameter before.
    #[serde(with = "Number")]
    pub weight: f64,
}

impl ParameterUpdate {
    /// The update-to-weight ratio; none for a zero parameter.
    pub fn ratio(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.norm / self.weight)
    }
}

/// One step, replayed at a revision.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReplay {
    /// How it ended.
    pub status: Status,
    /// The declared gradients, held against their loss.
    pub gradients: Vec<StepGradient>,
    /// The verdict against the trusted revision, where there is one.
    pub against: Option<Verdict>,
    /// How far outputs lie from the captured ones, from the oracle, and from those of the trusted revision.
    pub distances: Vec<Distance>,
}

impl StepReplay {
    /// Whether a gradient was not held against its loss.
    pub fn has_unchecked_gradient(&self) -> bool {
        self.gradients.iter().any(|check| check.verdict == GradientVerdict::Unknown)
    }
}

/// A gradient held against its loss.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct StepGradient {
    /// The output.
    pub output: String,
    /// The verdict.
    pub verdict: GradientVerdict,
    /// The largest mismatch, relative to the gradient's norm.
    #[serde(with = "Number")]
    pub worst: f64,
    /// The error of the slopes, relative to the same.
    #[serde(with = "Number")]
    pub error: f64,
}

/// The other side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Other {
    /// The trusted revision.
    Trusted,
    /// The run's own output.
    Captured,
    /// The declared truth of the fixture.
    Oracle,
}

/// How far an output lies from another.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Distance {
    /// The other side.
    pub from: Other,
    /// The output.
    pub output: String,
    /// Whether the two agree.
    #[schemars(extend("enum" = ["identical", "equivalent", "unchecked", "diverged"]))]
    pub verdict: Verdict,
    /// `||got - base|| / ||base||`.
    #[serde(with = "Number")]
    pub relative: f64,
    /// Elements beyond noise.
    pub beyond: u64,
    /// All elements.
    pub count: u64,
    /// The meaning of the change, where an oracle tells.
    pub finding: Option<Finding>,
}
