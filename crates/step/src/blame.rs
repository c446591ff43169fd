//! Which findings of a step are a module's own, and which come from a module inside of it.

use super::order::StepOrder;
use super::reading::{Direction, PartReading};

/// Why a call is not well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Nothing is found.
    Well,
    /// Its own code is at fault: nothing inside of it is.
    Own,
    /// It holds a call that is at fault.
    Consequence {
        /// That call, by its place among the parts.
        of: usize,
    },
    /// Its outputs part from those of another run because its inputs do.
    FollowsInputs,
}

/// The blame of each part.
pub fn find_blames(order: &StepOrder, readings: &[PartReading]) -> Vec<Blame> {
    (0..readings.len())
        .map(|place| {
            if readings[place].findings.is_empty() {
                let follows = readings[place].follows_inputs();
                return if follows { Blame::FollowsInputs } else { Blame::Well };
            }
            match innermost(order, readings, place) {
                of if of == place => Blame::Own,
                of => Blame::Consequence { of },
            }
        })
        .collect()
}

/// The first found part inside of that at `place` without any inside of its own, or the part itself.
fn innermost(order: &StepOrder, readings: &[PartReading], place: usize) -> usize {
    let inner = (0..readings.len())
        .find(|inner| order.holds(place, *inner) && !readings[*inner].findings.is_empty());
    inner.map_or(place, |inner| innermost(order, readings, inner))
}

/// The part whose own finding comes first in one pass: the forward goes through the parts in their order, the backward
/// the other way round.
pub fn find_first(
    readings: &[PartReading],
    blames: &[Blame],
    direction: Direction,
) -> Option<usize> {
    let mut own = (0..readings.len()).filter(|place| {
        blames[*place] == Blame::Own && readings[*place].findings_of(direction).next().is_some()
    });
    match direction {
        Direction::Forward => own.next(),
        Direction::Backward => own.next_back(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::StepPart;
    use crate::reading::{PartFinding, PartFindingKind, PartState};

    /// A model of two layers, each with an attention and a norm in it.
    fn order() -> StepOrder {
        let part = |folder: &str, inside| StepPart {
            folder: folder.to_owned(),
            module: folder.to_owned(),
            kind: String::new(),
            inside,
            gradients: Vec::new(),
            reached: true,
        };
        let parts = vec![
            part("model", None),
            part("0", Some(0)),
            part("0.attn", Some(1)),
            part("0.norm", Some(1)),
            part("1", Some(0)),
            part("1.attn", Some(4)),
        ];
        StepOrder { model: "model".to_owned(), step: 0, parts, left_out: Vec::new() }
    }

    fn readings(found: &[(usize, Direction)]) -> Vec<PartReading> {
        (0..order().parts.len())
            .map(|place| {
                let own = found.iter().filter(|(found, _)| *found == place);
                let findings = own.map(|&(_, direction)| {
                    let output = "out".to_owned();
                    let kind = PartFindingKind::NotAsCaptured { output, distance: 2.0 };
                    PartFinding { direction, kind }
                });
                PartReading {
                    state: PartState::Replayed,
                    findings: findings.collect(),
                    ..PartReading::untestable(String::new())
                }
            })
            .collect()
    }

    #[test]
    fn what_holds_a_faulty_module_is_not_at_fault() {
        use Direction::{Backward, Forward};
        let readings = readings(&[(0, Forward), (1, Forward), (2, Forward), (5, Backward)]);
        let blames = find_blames(&order(), &readings);
        let consequence = |of| Blame::Consequence { of };
        assert_eq!(
            blames,
            [consequence(2), consequence(2), Blame::Own, Blame::Well, Blame::Well, Blame::Own]
        );
    }

    #[test]
    fn the_backward_goes_the_other_way_round() {
        use Direction::{Backward, Forward};
        let readings = readings(&[(2, Forward), (2, Backward), (3, Backward), (5, Backward)]);
        let blames = find_blames(&order(), &readings);
        assert_eq!(find_first(&readings, &blames, Forward), Some(2));
        assert_eq!(find_first(&readings, &blames, Backward), Some(5));
        let nothing = self::readings(&[]);
        let blames = find_blames(&order(), &nothing);
        assert_eq!(find_first(&nothing, &blames, Forward), None);
    }

    #[test]
    fn a_layer_with_sound_modules_in_it_is_at_fault_itself() {
        let readings = readings(&[(0, Direction::Forward), (4, Direction::Forward)]);
        let blames = find_blames(&order(), &readings);
        assert_eq!((blames[0], blames[4]), (Blame::Consequence { of: 4 }, Blame::Own));
    }
}
