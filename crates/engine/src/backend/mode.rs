//! The ways to run a variant, and the abilities for each.

use std::path::PathBuf;

use crate::worker::{CallPart, InputChange, OutputTransfer};
use replay_base::summary::{POISON_A, Poison};
use replay_runtime::cpu::Rounding;

/// One way to run a variant. [`Mode::plain`] is the device's own.
#[derive(Clone, Debug, PartialEq)]
pub struct Mode {
    /// The pattern in memory before the code writes to it.
    pub poison: Poison,
    /// The pattern around the given tensors.
    pub around: Poison,
    /// How operations round.
    pub rounding: Rounding,
    /// The file with the record of roundings to integers, where `rounding` has one.
    pub record: Option<PathBuf>,
    /// The order of blocks and threads; 0 is that of their indices.
    pub order: u64,
    /// The move of the inputs away from their captured values.
    pub change: InputChange,
    /// The part of the call to run.
    pub part: CallPart,
    /// How outputs come back from the device.
    pub outputs: OutputTransfer,
}

impl Mode {
    /// The device's own mode, with `poison` in memory and around the given tensors.
    pub fn plain(poison: Poison) -> Mode {
        Mode {
            poison,
            around: poison,
            rounding: Rounding::Nearest,
            record: None,
            order: 0,
            change: InputChange::None,
            part: CallPart::Whole,
            outputs: OutputTransfer::Elements,
        }
    }

    /// The abilities of a variant for a run in this mode.
    pub fn needed_abilities(&self) -> Vec<Ability> {
        let Mode { poison, around, rounding, record: _, order, change, part, outputs } = self;
        let mut needed = Vec::new();
        if *poison != POISON_A {
            needed.push(Ability::Poison);
        }
        if around != poison {
            needed.push(Ability::PoisonAround);
        }
        match rounding {
            Rounding::Nearest => {}
            Rounding::Down | Rounding::Up | Rounding::TowardZero => needed.push(Ability::Rounding),
            Rounding::Passed
            | Rounding::Recorded
            | Rounding::RecordedInside
            | Rounding::Straight
            | Rounding::Held => {
                needed.push(Ability::PassedRounding);
            }
        }
        if *order != 0 {
            needed.push(Ability::Order);
        }
        needed.extend(match change {
            InputChange::None => None,
            InputChange::Step(_) => Some(Ability::Step),
            InputChange::Nudge { .. } => Some(Ability::Nudge),
            InputChange::Line(_) => Some(Ability::Line),
        });
        needed.extend(match part {
            CallPart::Whole => None,
            CallPart::Told(_) => Some(Ability::SingleOutput),
            CallPart::Watched(_) | CallPart::Before { .. } => Some(Ability::CallPart),
        });
        needed.extend(match outputs {
            OutputTransfer::Elements => None,
            OutputTransfer::Summaries | OutputTransfer::SummariesAndElements => {
                Some(Ability::Summary)
            }
        });
        needed
    }
}

/// An ability of a variant beyond one plain run with [`POISON_A`] in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Memory can hold any pattern before it is written.
    Poison,
    /// The pattern lies around the tensors, and not in memory of the code. If a result moves with the pattern,
    /// the code reads outside of a tensor.
    PoisonAround,
    /// Operations can round in another direction.
    Rounding,
    /// Functions that round to an integer can pass their argument unchanged, or write and read a record of results.
    PassedRounding,
    /// Blocks and threads can run in another order.
    Order,
    /// An input can be moved by a step.
    Step,
    /// Inputs can be moved by a unit in the last place, for code out of reach of other roundings.
    Nudge,
    /// Inputs can be moved along a line.
    Line,
    /// A part of the call can be run, and an output can be watched.
    CallPart,
    /// A run can report one output alone.
    SingleOutput,
    /// The device can summarise outputs.
    Summary,
    /// Runs check every access to memory.
    AccessCheck,
    /// The device can measure how far directed rounding moves outputs.
    Deviations,
    /// The device has room for runs of another revision at the same time, and they are no slower for it.
    SharedDevice,
    /// Two runs in one mode have the same bits, unless the code asks the clock, the system or unwritten memory.
    Repetition,
}

impl Ability {
    /// Every ability.
    pub const ALL: [Ability; 15] = [
        Ability::Poison,
        Ability::PoisonAround,
        Ability::Rounding,
        Ability::PassedRounding,
        Ability::Order,
        Ability::Step,
        Ability::Nudge,
        Ability::Line,
        Ability::CallPart,
        Ability::SingleOutput,
        Ability::Summary,
        Ability::AccessCheck,
        Ability::Deviations,
        Ability::SharedDevice,
        Ability::Repetition,
    ];
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::worker::Stepped;
    use replay_base::summary::POISON_B;
    use replay_base::tensor::step::{LinePoint, Step, StepClass, StepUnit};

    #[test]
    fn each_mode_that_is_not_plain_takes_an_ability_of_its_own() {
        let plain = Mode::plain(POISON_A);
        assert_eq!(plain.needed_abilities(), []);
        let step = Step {
            seed: 1,
            class: StepClass::Ordinary,
            among: 0..1,
            without: Vec::new(),
            unit: StepUnit::Row,
            length: 0.5,
            constraint: None,
        };
        let step = Stepped { input: "x".to_owned(), step, scales: Arc::default() };
        let point = LinePoint { by: 1, exponent: 20 };
        let loss = "loss".to_owned();
        let change = |change| Mode { change, ..Mode::plain(POISON_A) };
        let part = |part| Mode { part, ..Mode::plain(POISON_A) };
        let outputs = |outputs| Mode { outputs, ..Mode::plain(POISON_A) };
        for (mode, ability) in [
            (Mode::plain(POISON_B), Ability::Poison),
            (Mode { rounding: Rounding::Up, ..plain.clone() }, Ability::Rounding),
            (Mode { rounding: Rounding::Passed, ..plain.clone() }, Ability::PassedRounding),
            (Mode { order: 7, ..plain.clone() }, Ability::Order),
            (change(InputChange::Step(step)), Ability::Step),
            (change(InputChange::Nudge { seed: 1 }), Ability::Nudge),
            (change(InputChange::Line(point)), Ability::Line),
            (part(CallPart::Watched(loss.clone())), Ability::CallPart),
            (part(CallPart::Before { launch: 1, output: loss.clone() }), Ability::CallPart),
            (part(CallPart::Told(loss)), Ability::SingleOutput),
            (outputs(OutputTransfer::Summaries), Ability::Summary),
            (outputs(OutputTransfer::SummariesAndElements), Ability::Summary),
        ] {
            assert_eq!(mode.needed_abilities(), [ability], "{mode:?}");
        }
        let both = Mode { order: 7, rounding: Rounding::Up, ..plain };
        assert_eq!(both.needed_abilities(), [Ability::Rounding, Ability::Order]);
    }
}
