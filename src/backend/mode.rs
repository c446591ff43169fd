//! The ways to run a variant, and the abilities that they need.

use crate::runtime::cpu::Rounding;
use crate::summary::{POISON_A, Poison};
use crate::tensor::step::LinePoint;
use crate::worker::{CallPart, Stepped};

/// One way to run a variant; the plain one is [`Mode::plain`].
#[derive(Clone, Debug, PartialEq)]
pub struct Mode {
    /// The pattern that memory holds before it is written.
    pub poison: Poison,
    /// How operations round.
    pub rounding: Rounding,
    /// The order of blocks and threads; 0 is that of their indices.
    pub order: u64,
    /// A change of one input.
    pub step: Option<Stepped>,
    /// Moves a tenth of the elements of all inputs by a unit in the last place; the seed draws them.
    pub nudge: Option<u64>,
    /// A small move of all inputs along one line.
    pub along: Option<LinePoint>,
    /// The part of the call that is run.
    pub part: CallPart,
    /// Whether outputs may stay on the device, summarised there.
    pub summarized: bool,
    /// Whether those that are summarised are brought back as well.
    pub fetched: bool,
}

impl Mode {
    /// The device's own mode, on memory that holds `poison`.
    pub fn plain(poison: Poison) -> Mode {
        let rounding = Rounding::Nearest;
        let part = CallPart::Whole;
        let step = None;
        let nudge = None;
        let along = None;
        let summarized = false;
        let fetched = false;
        Mode { poison, rounding, order: 0, step, nudge, along, part, summarized, fetched }
    }
}

/// The abilities of a variant beyond a plain run on memory that holds [`POISON_A`], and the
/// guarantees of its runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Memory can hold any pattern before it is written.
    pub poison: bool,
    /// The pattern lies around tensors, not in memory that the code has to write: what moves with it was
    /// read outside of its tensors.
    pub surroundings: bool,
    /// Operations can round in another direction.
    pub rounding: bool,
    /// Blocks and threads can run in another order.
    pub order: bool,
    /// An input can be changed by a step.
    pub step: bool,
    /// Inputs can be moved by a unit in the last place: for those that other roundings do not reach.
    pub nudge: bool,
    /// Inputs can be moved along a line.
    pub along: bool,
    /// A part of the call can be run, and an output can be watched.
    pub part: bool,
    /// One output alone can be told of.
    pub told: bool,
    /// Outputs can be summarised where they are computed.
    pub summary: bool,
    /// Its runs can check every access to memory.
    pub check: bool,
    /// Two runs in one mode have the same bits, unless the code asks the clock, the system or memory
    /// that nobody wrote.
    pub repeats: bool,
}

impl Abilities {
    /// Whether a variant with these abilities can run in `mode`.
    pub fn allow(&self, mode: &Mode) -> bool {
        (self.poison || mode.poison == POISON_A)
            && (self.rounding || mode.rounding == Rounding::Nearest)
            && (self.order || mode.order == 0)
            && (self.step || mode.step.is_none())
            && (self.nudge || mode.nudge.is_none())
            && (self.along || mode.along.is_none())
            && self.allows_part(&mode.part)
            && (self.summary || !mode.summarized)
    }

    fn allows_part(&self, part: &CallPart) -> bool {
        match part {
            CallPart::Whole => true,
            CallPart::Told(_) => self.told,
            CallPart::Watched(_) | CallPart::Before { .. } => self.part,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::summary::POISON_B;
    use crate::tensor::step::{Step, StepClass, StepUnit};

    #[test]
    fn each_mode_that_is_not_plain_takes_an_ability_of_its_own() {
        let plain = Mode::plain(POISON_A);
        let step = Step {
            seed: 1,
            class: StepClass::Ordinary,
            among: 0..1,
            without: Vec::new(),
            unit: StepUnit::Row,
            length: 0.5,
        };
        let step = Stepped { input: "x".to_owned(), step, scales: Arc::default() };
        let modes = [
            Mode::plain(POISON_B),
            Mode { rounding: Rounding::Up, ..plain.clone() },
            Mode { order: 7, ..plain.clone() },
            Mode { step: Some(step), ..plain.clone() },
            Mode { part: CallPart::Watched("loss".to_owned()), ..plain.clone() },
            Mode { summarized: true, ..plain.clone() },
            Mode { nudge: Some(1), ..plain.clone() },
            Mode { along: Some(LinePoint { by: 1, exponent: 20 }), ..plain.clone() },
            Mode { part: CallPart::Told("loss".to_owned()), ..plain.clone() },
        ];
        let able = |which: usize| Abilities {
            poison: which == 0,
            surroundings: false,
            rounding: which == 1,
            order: which == 2,
            step: which == 3,
            nudge: which == 6,
            along: which == 7,
            part: which == 4,
            told: which == 8,
            summary: which == 5,
            check: false,
            repeats: true,
        };
        for which in 0..modes.len() {
            let allowed: Vec<bool> = modes.iter().map(|mode| able(which).allow(mode)).collect();
            let expected: Vec<bool> = (0..modes.len()).map(|mode| mode == which).collect();
            assert_eq!(allowed, expected);
        }
        assert!(able(modes.len()).allow(&plain));
    }
}
