//! Judgements by values alone, shared by revisions with the same values, and the part of the order of blocks and
//! threads; judgements where both sides fail alike.

use super::{Judgement, Verdict, launches};
use crate::trial::{Failure, OrderDependence, Outcome, Status};

impl Judgement {
    /// The same without dependence on the order of blocks and threads.
    pub fn without_orders(mut self) -> Judgement {
        for output in &mut self.outputs {
            output.story = output.story.clone().without_order();
            output.order = None;
        }
        self.settle();
        self
    }

    /// The judgement on another replay with the same values and its own `outcome`.
    pub fn of_same_values(&self, outcome: Outcome) -> Judgement {
        let launches = launches::diff_launches(&self.base.launches, &outcome.launches);
        Judgement { launches, got: outcome, ..self.clone() }
    }

    /// Adds what of the other side depends on the order of blocks and threads; what the trusted side has too, which
    /// is `known_dependences`, makes no difference.
    pub fn add_orders(
        &mut self,
        dependences: &[OrderDependence],
        known_dependences: &[OrderDependence],
    ) {
        for dependence in dependences {
            let is_new = known_dependences
                .iter()
                .all(|known_dependence| known_dependence.output != dependence.output);
            let Some(output) =
                self.outputs.iter_mut().find(|output| output.name == dependence.output)
            else {
                continue;
            };
            output.order = Some(dependence.clone());
            output.story = output.story.clone().with_order(is_new);
        }
        self.settle();
    }

    /// Takes the worst verdict of the outputs. A failure stays one, whatever they say.
    pub(super) fn settle(&mut self) {
        let by_outcomes = Judgement::verdict_of(&self.base, &self.got);
        self.verdict = match by_outcomes {
            Verdict::Identical | Verdict::Equivalent | Verdict::Unchecked => {
                self.worst_of_outputs().unwrap_or(by_outcomes)
            }
            ended => ended,
        };
    }

    /// The failures of the other side where the trusted one fails alike, in kind and place. Outputs were compared
    /// nevertheless.
    pub fn inherited_failures(&self) -> &[Failure] {
        match (&self.base.status, &self.got.status) {
            (Status::Failed(before), Status::Failed(after))
                if before == after
                    && !self.outputs.is_empty()
                    && !self.got.can_be_compared_with(&self.base) =>
            {
                after
            }
            _ => &[],
        }
    }

    /// The same by the outputs alone where the trusted side fails alike: an inherited failure is no change.
    pub fn without_inherited_failures(mut self) -> Judgement {
        if !self.inherited_failures().is_empty() {
            self.verdict = self.worst_of_outputs().unwrap_or(self.verdict);
        }
        self
    }

    fn worst_of_outputs(&self) -> Option<Verdict> {
        self.outputs.iter().map(|output| output.story.verdict()).max()
    }
}
