//! Judgements by values alone, which revisions with the same values share, and what the order of blocks and
//! threads adds to them.

use super::{Judgement, Verdict, launches};
use crate::trial::{OrderDependence, Outcome};

impl Judgement {
    /// The same without what depends on the order of blocks and threads.
    pub fn without_orders(mut self) -> Judgement {
        for output in &mut self.outputs {
            output.story = output.story.clone().without_order();
            output.order = None;
        }
        self.settle();
        self
    }

    /// The judgement on another replay, with the `outcome` of that, whose values are the same.
    pub fn of_same_values(&self, outcome: Outcome) -> Judgement {
        let launches = launches::diff_launches(&self.base.launches, &outcome.launches);
        Judgement { launches, got: outcome, ..self.clone() }
    }

    /// Adds what of the other side depends on the order of blocks and threads; what the trusted side has too, which
    /// is `known`, makes no difference.
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
        let worst = self.outputs.iter().map(|output| output.story.verdict()).max();
        self.verdict = match by_outcomes {
            Verdict::Identical | Verdict::Equivalent => worst.unwrap_or(by_outcomes),
            ended => ended,
        };
    }
}
