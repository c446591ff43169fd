//! Which of two sizes is at most the other, such as the columns of a matrix and the distance of its rows, from a measurement.
//! Pure.

use std::collections::BTreeMap;

use super::measured_shapes::list_candidates;

/// A size that is at most another one: with a larger one rows overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeOrder {
    pub smaller: String,
    pub larger: String,
}

impl SizeOrder {
    /// `numbers`, with those of the two sizes exchanged where they have the other order.
    pub fn arrange(&self, mut numbers: BTreeMap<String, usize>) -> BTreeMap<String, usize> {
        if let (Some(&own), Some(&other)) = (numbers.get(&self.smaller), numbers.get(&self.larger))
            && own > other
        {
            numbers.insert(self.smaller.clone(), other);
            numbers.insert(self.larger.clone(), own);
        }
        numbers
    }
}

/// The orders that sizes of these `numbers` lack by what a replay touched: a tensor whose last row begins a product of sizes
/// behind the first, and reaches further than from one row to the next. `reach` is, by tensor, the elements up to the last one that was
/// touched.
pub fn list_size_orders(
    numbers: &BTreeMap<String, usize>,
    reach: &BTreeMap<String, usize>,
) -> Vec<SizeOrder> {
    let names: Vec<String> = numbers.keys().cloned().collect();
    let candidates = list_candidates(&names);
    let is_product =
        |rows: usize| candidates.iter().any(|candidate| candidate.elements(numbers) == rows);
    let mut orders = Vec::new();
    for elements in reach.values() {
        for (smaller, columns) in numbers {
            for (larger, distance) in numbers.iter().filter(|(_, distance)| *distance < columns) {
                let Some(rest) = elements.checked_sub(*columns).filter(|rest| *rest > 0) else {
                    continue;
                };
                let order = SizeOrder { smaller: smaller.clone(), larger: larger.clone() };
                let is_row = rest % distance == 0 && is_product(rest / distance + 1);
                if is_row && !orders.contains(&order) {
                    orders.push(order);
                }
            }
        }
    }
    orders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers<const N: usize>(pairs: [(&str, usize); N]) -> BTreeMap<String, usize> {
        BTreeMap::from(pairs.map(|(name, number)| (name.to_owned(), number)))
    }

    #[test]
    fn rows_that_reach_into_the_next_one_tell_the_order_of_columns_and_distance() {
        let sizes = numbers([("B", 12), ("P", 28), ("T", 20), ("V", 84)]);
        let reach = numbers([("logits", (12 * 20 - 1) * 28 + 84), ("losses", 12 * 20)]);
        let orders = list_size_orders(&sizes, &reach);
        let order = SizeOrder { smaller: "V".to_owned(), larger: "P".to_owned() };
        assert_eq!(orders, std::slice::from_ref(&order));
        let arranged = order.arrange(sizes);
        assert_eq!(arranged, numbers([("B", 12), ("P", 84), ("T", 20), ("V", 28)]));
        assert_eq!(order.arrange(arranged.clone()), arranged);
    }

    #[test]
    fn rows_one_behind_the_other_tell_no_order() {
        let sizes = numbers([("B", 12), ("T", 20), ("C", 84)]);
        let reach = numbers([("x", 12 * 20 * 84), ("y", 84), ("z", 20)]);
        assert_eq!(list_size_orders(&sizes, &reach), []);
        // Rows of which a part is used.
        let padded = numbers([("x", (12 - 1) * 84 + 20)]);
        assert_eq!(list_size_orders(&sizes, &padded), []);
    }
}
