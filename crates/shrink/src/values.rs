//! Simple values for the inputs of a cut that is as small as it gets.

use replay_fixture::fixture::{CutInput, SimpleValues};
use replay_fixture::harness::Harness;

/// Tries at the elements of one input.
const MOST_ELEMENT_TRIES: usize = 8;

/// The values to try for `input`, the simplest first; the first one that does is taken.
pub(super) fn list_simple_values(input: &CutInput, harness: &Harness) -> Vec<SimpleValues> {
    let Some(spec) = harness.inputs.get(&input.name) else { return Vec::new() };
    let mut values = Vec::new();
    if spec.optional {
        values.push(SimpleValues::Absent);
    }
    // A vector of zeros is no unit vector. Whole scalars are numbers that were cut.
    let is_number = input.shape.is_empty() && !input.dtype.is_float();
    if spec.constraint.is_none() && !is_number {
        values.push(SimpleValues::Zeros);
        if input.dtype.is_float() {
            values.extend([SimpleValues::Ones, SimpleValues::Whole]);
        }
    }
    // All elements are so already.
    values
        .retain(|value| *value == SimpleValues::Absent || with_values(input, value) != input.bytes);
    values
}

/// The elements of `input` with `values`.
fn with_values(input: &CutInput, values: &SimpleValues) -> Vec<u8> {
    let mut simple = input.clone();
    simple.simplify(values);
    simple.bytes
}

/// Halves of elements that may have another value: each is cut in two where it may not.
pub(super) struct ElementHalves {
    open: Vec<std::ops::Range<usize>>,
    replaced: Vec<std::ops::Range<usize>>,
    tries_left: usize,
}

impl ElementHalves {
    pub(super) fn new(count: usize) -> ElementHalves {
        let halves = vec![0..count / 2, count / 2..count];
        let open = if count > 1 { halves } else { Vec::new() };
        ElementHalves { open, replaced: Vec::new(), tries_left: MOST_ELEMENT_TRIES }
    }

    /// The elements to replace next; none if all was tried.
    pub(super) fn next_ranges(&self) -> Option<Vec<std::ops::Range<usize>>> {
        let next = self.open.first().filter(|_| self.tries_left > 0)?;
        let mut ranges: Vec<std::ops::Range<usize>> =
            self.replaced.iter().chain([next]).cloned().collect();
        ranges.sort_by_key(|range| range.start);
        Some(ranges)
    }

    /// Notes whether the finding stayed with [`ElementHalves::next_ranges`].
    pub(super) fn note(&mut self, is_kept: bool) {
        if self.open.is_empty() {
            return;
        }
        let part = self.open.remove(0);
        self.tries_left -= 1;
        if is_kept {
            self.replaced.push(part);
        } else if part.len() > 1 {
            let middle = part.start + part.len() / 2;
            self.open.extend([part.start..middle, middle..part.end]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_that_do_stay_replaced_and_others_are_cut_in_two() {
        // Element 5 of 8 is needed.
        let mut halves = ElementHalves::new(8);
        let mut last_kept = None;
        while let Some(ranges) = halves.next_ranges() {
            let is_kept = !ranges.iter().any(|range| range.contains(&5));
            halves.note(is_kept);
            if is_kept {
                last_kept = Some(ranges);
            }
        }
        assert_eq!(last_kept, Some(vec![0..4, 4..5, 6..8]));
    }

    #[test]
    fn a_single_element_has_no_halves() {
        assert_eq!(ElementHalves::new(1).next_ranges(), None);
        assert_eq!(ElementHalves::new(0).next_ranges(), None);
    }
}
