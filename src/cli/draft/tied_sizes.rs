//! Which sizes of tensors have to be equal, by trying. Pure: what accepts sizes is given.

use std::collections::BTreeMap;

use super::measured_shapes::MOST_SIZES as MEASURED_SIZES;
use super::shape_search::Supposition;

/// More sizes that do not move alone have too many sets.
const MOST_SIZES: usize = 16;
/// So many tries are made at most.
const MOST_TRIES: usize = 400;

/// What is known of sizes by trying.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TiedSizes {
    /// Sizes that have to be equal, a group each.
    pub groups: Vec<Vec<String>>,
    /// Those of tensors with more elements than a size of another has: products.
    pub roomy: Vec<String>,
    /// Those that are numbers.
    pub numbers: BTreeMap<String, usize>,
}

impl TiedSizes {
    /// A name for each group.
    pub fn names(&self) -> Vec<String> {
        self.groups.iter().map(|group| group[0].clone()).collect()
    }

    /// The numbers of all sizes: `numbers` by the names of the groups, and `room` for those of products.
    pub fn expand(
        &self,
        numbers: &BTreeMap<String, usize>,
        room: usize,
    ) -> BTreeMap<String, usize> {
        let in_groups = self.groups.iter().flat_map(|group| {
            let number = numbers.get(&group[0]);
            group.iter().filter_map(move |name| Some((name.clone(), *number?)))
        });
        let roomy = self.roomy.iter().map(|name| (name.clone(), room));
        in_groups.chain(roomy).chain(self.numbers.clone()).collect()
    }
}

/// Groups the sizes of which `supposition` says nothing into those that have to be equal: the smallest sets that may be
/// twice as large as the others, and half as large. A size that moves in no set is a number, and so are sizes beyond those
/// that a measurement tells apart. `accepts` says whether a call
/// with sizes comes to its end; products get `room`.
///
/// # Errors
/// Those of `accepts`.
pub fn tie_sizes<E>(
    supposition: &Supposition,
    room: usize,
    accepts: impl FnMut(&BTreeMap<String, usize>) -> Result<bool, E>,
) -> Result<TiedSizes, E> {
    let mut mover = SizeMover { supposition, room, accepts, tries_left: MOST_TRIES };
    let names = supposition.open_sizes();
    let mut groups = Vec::new();
    let mut rest = Vec::new();
    for name in &names {
        let alone = vec![name.clone()];
        if mover.moves(&alone)? {
            groups.push(alone);
        } else {
            rest.push(name);
        }
    }
    let mut numbers = supposition.numbers.clone();
    while !rest.is_empty() {
        let name = rest.remove(0);
        match mover.find_group(name, &rest)? {
            Some(group) => {
                rest.retain(|other| !group.contains(other));
                groups.push(group);
            }
            None => {
                numbers.insert(name.clone(), supposition.usual);
            }
        }
    }
    groups.sort_by_key(|group| names.iter().position(|name| *name == group[0]));
    let beyond = groups.split_off(groups.len().min(MEASURED_SIZES));
    numbers.extend(beyond.into_iter().flatten().map(|name| (name, supposition.usual)));
    Ok(TiedSizes { groups, roomy: supposition.roomy.clone(), numbers })
}

/// Tries a call with some sizes moved.
struct SizeMover<'s, A> {
    supposition: &'s Supposition,
    room: usize,
    accepts: A,
    tries_left: usize,
}

impl<E, A: FnMut(&BTreeMap<String, usize>) -> Result<bool, E>> SizeMover<'_, A> {
    /// Whether the sizes of `moved` may be larger and smaller than all others.
    fn moves(&mut self, moved: &[String]) -> Result<bool, E> {
        let usual = self.supposition.usual;
        for number in [2 * usual, usual / 2] {
            if self.tries_left == 0 {
                return Ok(false);
            }
            self.tries_left -= 1;
            if !(self.accepts)(&self.supposition.choose(moved, number, self.room))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The smallest set of `name` and others that moves.
    fn find_group(&mut self, name: &str, others: &[&String]) -> Result<Option<Vec<String>>, E> {
        if others.len() > MOST_SIZES {
            return Ok(None);
        }
        for count in 1..=others.len() {
            for companions in list_combinations(others, count) {
                let names = [name].into_iter().chain(companions.into_iter().map(String::as_str));
                let group: Vec<String> = names.map(str::to_owned).collect();
                if self.moves(&group)? {
                    return Ok(Some(group));
                }
            }
        }
        Ok(None)
    }
}

/// All choices of `count` among `items`, in their order.
fn list_combinations<T: Copy>(items: &[T], count: usize) -> Vec<Vec<T>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let firsts = items.iter().enumerate();
    let choices = firsts.flat_map(|(place, first)| {
        let rests = list_combinations(&items[place + 1..], count - 1).into_iter();
        rests.map(|rest| [&[*first], rest.as_slice()].concat())
    });
    choices.collect()
}

#[cfg(test)]
mod tests {
    use super::super::shape_search::tests::draft_function;
    use super::*;

    /// The groups of sizes where `accepts` sees them, a roomy one with `!`, numbers with their number, and the count of tries.
    /// Each of `names` is a tensor of one dimension; the last is written. Those that end in `z` have room.
    fn group<const N: usize>(
        names: [&str; N],
        accepts: impl Fn([usize; N]) -> bool,
    ) -> (Vec<String>, usize) {
        let parameters = names.map(|name| format!("at::Tensor {name}")).join(", ");
        let sizes = names.map(|name| format!("{name}_0"));
        let roomy = sizes.iter().filter(|size| size.ends_with("z_0")).cloned().collect();
        let supposition = Supposition {
            draft: draft_function(&parameters, ""),
            usual: 32,
            numbers: BTreeMap::new(),
            roomy,
        };
        let mut tries = 0;
        let tied = tie_sizes(&supposition, 1 << 20, |numbers| {
            tries += 1;
            Ok::<bool, ()>(accepts(sizes.clone().map(|size| numbers[&size])))
        });
        let tied = tied.unwrap();
        let mut words: Vec<String> = tied.groups.iter().map(|group| group.join("=")).collect();
        words.extend(tied.roomy.iter().map(|name| format!("{name}!")));
        words.extend(tied.numbers.iter().map(|(name, number)| format!("{name}={number}")));
        words.sort();
        (words, tries)
    }

    #[test]
    fn sizes_that_only_move_together_are_equal() {
        let (groups, _) = group(["k", "l", "m", "n"], |[_, l, m, n]| l == m && m == n);
        assert_eq!(groups, ["k_0", "l_0=m_0=n_0"]);
        let (groups, _) = group(["k", "l", "m", "n"], |[k, l, m, n]| k == m && l == n);
        assert_eq!(groups, ["l_0=n_0", "m_0=k_0"]);
    }

    #[test]
    fn a_size_that_may_be_larger_alone_but_not_smaller_is_not_free() {
        let (groups, _) = group(["a", "b"], |[a, b]| a <= b);
        assert_eq!(groups, ["b_0=a_0"]);
    }

    #[test]
    fn a_product_has_room_while_the_others_move() {
        let (groups, _) = group(["a", "b", "z"], |[a, b, z]| z >= a * b);
        assert_eq!(groups, ["a_0", "b_0", "z_0!"]);
    }

    #[test]
    fn free_sizes_take_two_tries_each() {
        let (groups, tries) = group(["k", "l", "m", "n", "o", "p", "q", "r"], |_| true);
        assert_eq!((groups.len(), tries), (8, 16));
    }

    #[test]
    fn sizes_beyond_those_that_a_measurement_tells_apart_are_numbers() {
        let (groups, _) = group(["k", "l", "m", "n", "o", "p", "q", "r", "s"], |_| true);
        assert_eq!(groups.len(), MEASURED_SIZES + 1);
        assert!(groups.iter().filter(|group| group.ends_with("=32")).count() == 1, "{groups:?}");
    }

    #[test]
    fn what_moves_in_no_set_is_a_number() {
        assert_eq!(group(["a", "b"], |[a, _]| a == 32).0, ["a_0=32", "b_0"]);
        let (groups, tries) = group(["k", "l", "m", "n", "o", "p", "q", "r"], |sizes| {
            sizes.iter().all(|size| *size == 32)
        });
        assert_eq!(groups.len(), 8);
        assert!(tries <= MOST_TRIES, "{tries}");
    }
}
