//! Which sizes of tensors have to be equal, by trying. Pure: what accepts sizes is given.

use std::collections::BTreeMap;

/// Numbers for all sizes at once, one after the other until they are accepted: warps need multiples of 32, some heads
/// smaller ones.
const ALIKE: [usize; 3] = [32, 64, 8];
/// More sizes have too many subsets.
const MOST_SIZES: usize = 8;

/// What is known of sizes by trying.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TiedSizes {
    /// Sizes that have to be equal, a group each.
    pub groups: Vec<Vec<String>>,
    /// Those of tensors with more elements than a size of another has: products.
    pub roomy: Vec<String>,
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
        in_groups.chain(self.roomy.iter().map(|name| (name.clone(), room))).collect()
    }
}

/// Sizes to try.
#[derive(Clone, Copy, Debug)]
pub struct UntiedSizes<'s> {
    pub names: &'s [String],
    /// Those among the names that may be of products: the only ones of their tensors.
    pub only_sizes: &'s [String],
    /// The number for a product.
    pub room: usize,
}

impl UntiedSizes<'_> {
    /// Groups the sizes into those that have to be equal: the smallest sets that may be twice as large as the others, and
    /// half as large. None where no number for all of them is accepted, or where one moves in no set. `accepts` says whether
    /// a call with sizes comes to its end.
    ///
    /// # Errors
    /// Those of `accepts`.
    pub fn tie<E>(
        &self,
        mut accepts: impl FnMut(&BTreeMap<String, usize>) -> Result<bool, E>,
    ) -> Result<Option<TiedSizes>, E> {
        let Some((usual, roomy)) = self.find_usual_sizes(&mut accepts)? else { return Ok(None) };
        let mut rest: Vec<&String> =
            self.names.iter().filter(|name| !roomy.contains(name)).collect();
        let mut groups = Vec::new();
        while !rest.is_empty() {
            let name = rest.remove(0);
            let mut group = None;
            for companions in list_subsets(&rest) {
                let moved: Vec<String> = [name].into_iter().chain(companions).cloned().collect();
                if accepts(&self.choose(usual, &roomy, &moved, 2 * usual))?
                    && accepts(&self.choose(usual, &roomy, &moved, usual / 2))?
                {
                    group = Some(moved);
                    break;
                }
            }
            let Some(group) = group else { return Ok(None) };
            rest.retain(|other| !group.contains(other));
            groups.push(group);
        }
        Ok(Some(TiedSizes { groups, roomy }))
    }

    /// The sets of sizes that may be of products, likely ones first: all, where there are too many sizes otherwise.
    fn list_roomy_sets(&self) -> Vec<Vec<&String>> {
        let only_sizes: Vec<&String> = self.only_sizes.iter().collect();
        if self.names.len() <= MOST_SIZES {
            list_subsets(&only_sizes)
        } else if self.names.len() - only_sizes.len() <= MOST_SIZES {
            vec![only_sizes]
        } else {
            Vec::new()
        }
    }

    /// A number that is accepted for all sizes at once, but for those of products.
    fn find_usual_sizes<E>(
        &self,
        accepts: &mut impl FnMut(&BTreeMap<String, usize>) -> Result<bool, E>,
    ) -> Result<Option<(usize, Vec<String>)>, E> {
        for roomy in self.list_roomy_sets() {
            let roomy: Vec<String> = roomy.into_iter().cloned().collect();
            for number in ALIKE {
                if accepts(&self.choose(number, &roomy, &[], number))? {
                    return Ok(Some((number, roomy)));
                }
            }
        }
        Ok(None)
    }

    /// `usual` for every size but the `roomy` ones, and `number` for those that are `moved`.
    fn choose(
        &self,
        usual: usize,
        roomy: &[String],
        moved: &[String],
        number: usize,
    ) -> BTreeMap<String, usize> {
        let choose = |name: &String| {
            if roomy.contains(name) {
                self.room
            } else if moved.contains(name) {
                number
            } else {
                usual
            }
        };
        self.names.iter().map(|name| (name.clone(), choose(name))).collect()
    }
}

/// All subsets of `items`, small ones first, else in their order.
fn list_subsets<T: Copy>(items: &[T]) -> Vec<Vec<T>> {
    let mut subsets: Vec<Vec<T>> = vec![Vec::new()];
    for item in items {
        let with_item = subsets.iter().map(|subset| [subset.as_slice(), &[*item]].concat());
        subsets = subsets.iter().cloned().chain(with_item.collect::<Vec<_>>()).collect();
    }
    subsets.sort_by_key(Vec::len);
    subsets
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The groups of the sizes `names` where `accepts` sees their numbers, a roomy one with `!`, and the number of tries.
    /// Names of capitals are the only sizes of their tensors.
    fn group<const N: usize>(
        names: [&str; N],
        accepts: impl Fn([usize; N]) -> bool,
    ) -> (Option<Vec<String>>, usize) {
        let names = names.map(str::to_owned);
        let only_sizes: Vec<String> =
            names.iter().filter(|name| name.to_uppercase() == **name).cloned().collect();
        let mut tries = 0;
        let untied = UntiedSizes { names: &names, only_sizes: &only_sizes, room: 1 << 20 };
        let tied = untied.tie(|sizes| {
            tries += 1;
            Ok::<bool, ()>(accepts(names.clone().map(|name| sizes[&name])))
        });
        let words = tied.unwrap().map(|tied| {
            let groups = tied.groups.iter().map(|group| group.join("="));
            groups.chain(tied.roomy.iter().map(|name| format!("{name}!"))).collect()
        });
        (words, tries)
    }

    #[test]
    fn sizes_that_only_move_together_are_equal() {
        let (groups, _) = group(["x_0", "x_1", "w_0", "b_0"], |[_, x1, w, b]| x1 == w && w == b);
        assert_eq!(groups.unwrap(), ["x_0", "x_1=w_0=b_0"]);
        let (groups, _) = group(["a", "b", "c", "d"], |[a, b, c, d]| a == c && b == d);
        assert_eq!(groups.unwrap(), ["a=c", "b=d"]);
    }

    #[test]
    fn a_size_that_may_be_larger_alone_but_not_smaller_is_not_free() {
        let (groups, _) = group(["x_1", "w_0"], |[x1, w]| x1 <= w);
        assert_eq!(groups.unwrap(), ["x_1=w_0"]);
    }

    #[test]
    fn a_tensor_with_more_elements_than_a_size_gets_room() {
        let (groups, _) = group(["x_0", "x_1", "Z", "W"], |[x0, x1, z, w]| z >= x0 * x1 && w == x1);
        assert_eq!(groups.unwrap(), ["x_0", "x_1=W", "Z!"]);
    }

    #[test]
    fn free_sizes_take_two_tries_each() {
        let (groups, tries) = group(["a", "b", "c"], |_| true);
        assert_eq!((groups.unwrap(), tries), (["a", "b", "c"].map(str::to_owned).to_vec(), 7));
    }

    #[test]
    fn a_kernel_that_needs_other_numbers_gets_them() {
        let (groups, _) = group(["heads", "dim"], |[heads, _]| heads <= 16);
        assert_eq!(groups.unwrap(), ["heads", "dim"]);
    }

    #[test]
    fn what_accepts_nothing_has_no_groups() {
        assert_eq!(group(["a", "b"], |_| false), (None, 3));
        assert_eq!(group(["a"], |[a]| a == 32).0, None, "a size that is a number");
        assert_eq!(group(["a"; 9], |_| true), (None, 0));
        let (groups, _) =
            group(["a", "A", "B", "C", "D", "E", "F", "G", "H"], |[_, a, ..]| a > 100);
        assert_eq!(groups.unwrap()[..2], ["a", "A!"], "nine, of which one is surely a size");
    }
}
