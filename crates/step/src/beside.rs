//! The calls of two captured steps beside each other.

use super::order::StepOrder;

/// What two steps of a model do not have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderDifference {
    /// The calls of the other step that this one lacks, by their places there.
    pub only_in_other: Vec<usize>,
    /// The first call of this step, by its place, that began before one which precedes it in the other step.
    pub first_moved: Option<usize>,
}

/// What `this` step and the `other` one do not have in common. Calls are the same that have the same folder.
pub fn compare_orders(this: &StepOrder, other: &StepOrder) -> OrderDifference {
    let places: Vec<Option<usize>> =
        this.parts.iter().map(|part| other.find(&part.folder)).collect();
    let only_in_other =
        (0..other.parts.len()).filter(|place| this.find(other.name(*place)).is_none()).collect();
    let first_moved = (0..places.len()).find(|&place| {
        let later = places[place + 1..].iter().flatten();
        places[place].is_some_and(|there| later.into_iter().any(|later| *later < there))
    });
    OrderDifference { only_in_other, first_moved }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::StepPart;

    fn order(folders: &[&str]) -> StepOrder {
        let parts = folders.iter().map(|folder| StepPart {
            folder: (*folder).to_owned(),
            module: (*folder).to_owned(),
            kind: String::new(),
            inside: None,
            gradients: Vec::new(),
            reached: true,
        });
        let parts = parts.collect();
        StepOrder { model: "lm".to_owned(), step: 0, parts, left_out: Vec::new() }
    }

    #[test]
    fn calls_of_one_step_and_another_order_are_found() {
        let this = order(&["embed", "attn", "feed", "head"]);
        assert_eq!(compare_orders(&this, &this), OrderDifference::default());
        let other = order(&["embed", "feed", "norm", "attn"]);
        let difference = compare_orders(&this, &other);
        assert_eq!(difference.only_in_other, [2]);
        assert_eq!(difference.first_moved, Some(1));
    }
}
