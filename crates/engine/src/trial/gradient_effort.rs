//! How much work the check of a gradient may be, and word of its progress.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use replay_numerics::constants::{NATIVE_SLOPE_BUDGET, QUICK_SLOPE_EFFORT, SLOPE_EFFORT};

/// The time of [`GradientEffort::Usual`] where the command does not have one of its own.
const USUAL_LIMIT: Duration = Duration::from_secs(120);

/// How much work the check of gradients may be. Results with [`GradientEffort::Quick`] and
/// [`GradientEffort::Full`] rest on numbers of evaluations alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GradientEffort {
    /// No gradient is checked.
    Off,
    /// A few directions.
    Quick,
    /// All directions and every kink, however long it takes.
    Full,
    /// As much as fits into this time for all gradients of a fixture: all, a few directions, or nothing.
    Within(Duration),
    /// The same within the time that suits the command: nobody has named an effort.
    #[default]
    Usual,
}

/// The directions of one gradient and the most evaluations of its loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlopeEffort {
    pub directions: u64,
    pub budget: usize,
}

impl SlopeEffort {
    /// All of it for an input of `elements`.
    pub(crate) fn full(elements: usize) -> SlopeEffort {
        let &(_, directions, budget) = SLOPE_EFFORT
            .iter()
            .find(|(most_elements, ..)| elements <= *most_elements)
            .expect("the last takes any");
        SlopeEffort { directions, budget }
    }

    /// The same for differences of the native loss.
    pub(crate) fn native(elements: usize) -> SlopeEffort {
        let SlopeEffort { directions, budget } = SlopeEffort::full(elements);
        SlopeEffort { directions, budget: budget.min(NATIVE_SLOPE_BUDGET) }
    }

    /// A few directions of it.
    pub(crate) fn quick(elements: usize) -> SlopeEffort {
        let full = SlopeEffort::full(elements);
        let (directions, budget) = QUICK_SLOPE_EFFORT;
        SlopeEffort { directions: directions.min(full.directions), budget: budget.min(full.budget) }
    }
}

impl GradientEffort {
    /// This one, or where it is the usual one, the same within `limit`.
    pub(crate) fn or_within(self, limit: Duration) -> GradientEffort {
        if self == GradientEffort::Usual { GradientEffort::Within(limit) } else { self }
    }

    /// The time for all gradients of a fixture, if it is limited.
    pub(crate) fn limit(self) -> Option<Duration> {
        match self {
            GradientEffort::Off | GradientEffort::Quick | GradientEffort::Full => None,
            GradientEffort::Within(limit) => Some(limit),
            GradientEffort::Usual => Some(USUAL_LIMIT),
        }
    }
}

impl fmt::Display for GradientEffort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GradientEffort::Off => f.write_str("off"),
            GradientEffort::Quick => f.write_str("quick"),
            GradientEffort::Full => f.write_str("full"),
            GradientEffort::Within(limit) => write!(f, "{}", limit.as_secs_f64()),
            GradientEffort::Usual => write!(f, "{}", USUAL_LIMIT.as_secs_f64()),
        }
    }
}

/// The work on one gradient so far.
#[derive(Clone, Debug)]
pub struct GradientWork<'w> {
    /// The fixture.
    pub fixture: &'w str,
    /// The gradient.
    pub output: &'w str,
    /// Evaluations of the loss so far.
    pub done: usize,
    /// The most evaluations to come to.
    pub most: usize,
    /// The fewest evaluations for this gradient and those to come.
    pub fewest: usize,
    /// The time of one.
    pub each: Duration,
    /// The time of all gradients of the fixture so far.
    pub elapsed: Duration,
}

/// Hears of the work on gradients, before the first evaluation of a loss and after each.
pub type GradientWatcher = Arc<dyn Fn(&GradientWork) + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_shortens_only_an_effort_that_nobody_named() {
        let short = Duration::from_secs(3);
        assert_eq!(GradientEffort::Usual.or_within(short), GradientEffort::Within(short));
        let usual_time = GradientEffort::Within(USUAL_LIMIT);
        for named in [usual_time, GradientEffort::Off, GradientEffort::Quick, GradientEffort::Full]
        {
            assert_eq!(named.or_within(short), named);
        }
    }
}
