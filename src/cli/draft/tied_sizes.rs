//! Which sizes of tensors have to be equal, by trying. Pure: what accepts sizes is given.

use std::collections::{BTreeMap, BTreeSet};

use super::measured_shapes::MOST_SIZES as MEASURED_SIZES;
use super::shape_search::{AcceptedShapes, Attempt, CallFlaws, Supposition};

/// More sizes that do not move alone have too many sets.
const MOST_SIZES: usize = 16;
/// So many tries are made at most.
const MOST_TRIES: usize = 400;

/// A size that follows from another: `factor * size + offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinearForm {
    pub factor: usize,
    pub offset: usize,
}

impl LinearForm {
    /// The size where the other one has this `number`.
    pub fn of(self, number: usize) -> usize {
        self.factor * number + self.offset
    }
}

/// Sizes that are equal, and follow from another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowingSizes {
    pub names: Vec<String>,
    /// The name of the group that they follow from.
    pub base: String,
    pub form: LinearForm,
}

/// What is known of sizes by trying.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TiedSizes {
    /// Sizes that have to be equal, a group each.
    pub groups: Vec<Vec<String>>,
    /// Sizes that follow from those of a group.
    pub following: Vec<FollowingSizes>,
    /// Those of tensors with more elements than a size of another has: products.
    pub roomy: Vec<String>,
    /// Those that are numbers.
    pub numbers: BTreeMap<String, usize>,
    /// With this number for all others a call came to its end, and fast.
    pub usual: usize,
}

impl TiedSizes {
    /// A name for each size that may be chosen.
    pub fn names(&self) -> Vec<String> {
        self.groups.iter().map(|group| group[0].clone()).collect()
    }

    /// The names of sizes that have to be equal, those of a group each.
    pub fn list_equal(&self) -> impl Iterator<Item = &Vec<String>> {
        self.groups.iter().chain(self.following.iter().map(|following| &following.names))
    }

    /// A name and a number for each size that is no product: `numbers` by the names of the groups, and those that follow.
    pub fn add_following(&self, numbers: &BTreeMap<String, usize>) -> BTreeMap<String, usize> {
        let following = self.following.iter().filter_map(|following| {
            let number = numbers.get(&following.base)?;
            Some((following.names[0].clone(), following.form.of(*number)))
        });
        numbers.clone().into_iter().chain(following).collect()
    }

    /// The numbers of all sizes: `numbers` by the names of the groups, and `room` for those of products.
    pub fn expand(
        &self,
        numbers: &BTreeMap<String, usize>,
        room: usize,
    ) -> BTreeMap<String, usize> {
        let known = self.add_following(numbers);
        let in_groups = self.list_equal().flat_map(|group| {
            let number = known.get(&group[0]).copied();
            group.iter().filter_map(move |name| Some((name.clone(), number?)))
        });
        let roomy = self.roomy.iter().map(|name| (name.clone(), room));
        in_groups.chain(roomy).chain(self.numbers.clone()).collect()
    }
}

/// Groups the sizes of which the supposition of `accepted` says nothing into those that have to be equal: the smallest sets
/// that may be twice as large as the others, and half as large, without a flaw that the call has not with all alike. A set with
/// such a flaw counts where none with one size more is without. A size that moves in no set is a number, and so are sizes
/// beyond those that a measurement tells apart. `attempt` tries a call with sizes; products get `room`.
///
/// # Errors
/// Those of `attempt`.
pub fn tie_sizes<E>(
    accepted: &AcceptedShapes,
    room: usize,
    attempt: impl FnMut(&BTreeMap<String, usize>) -> Result<Attempt, E>,
) -> Result<TiedSizes, E> {
    let AcceptedShapes { supposition, call, fast } = accepted;
    let flaws = call.flaws();
    let mut mover = SizeMover { supposition, flaws, room, attempt, tries_left: MOST_TRIES };
    let names = supposition.open_sizes();
    let chosen = supposition.choose(&[], supposition.usual, room);
    let mut groups = Vec::new();
    let mut rest = Vec::new();
    let mut flawed = BTreeSet::new();
    for name in &names {
        match mover.try_move(std::slice::from_ref(name))? {
            SizeMove::Free => groups.push(vec![name.clone()]),
            SizeMove::Flawed => {
                flawed.insert(name);
                rest.push(name);
            }
            SizeMove::Refused => rest.push(name),
        }
    }
    let mut numbers = supposition.numbers.clone();
    while !rest.is_empty() {
        let name = rest.remove(0);
        match mover.find_group(name, &rest, flawed.contains(name))? {
            Some(group) => {
                rest.retain(|other| !group.contains(other));
                groups.push(group);
            }
            None => {
                numbers.insert(name.clone(), chosen[name]);
            }
        }
    }
    groups.sort_by_key(|group| names.iter().position(|name| *name == group[0]));
    let mut tied =
        TiedSizes { roomy: supposition.roomy.clone(), usual: *fast, ..TiedSizes::default() };
    for group in groups {
        let split = split_by_forms(group, supposition);
        let count = tied.list_equal().count() + 1 + split.following.len();
        if count <= MEASURED_SIZES {
            tied.groups.push(split.equal);
            tied.following.extend(split.following);
        } else {
            let following = split.following.into_iter().flat_map(|following| following.names);
            let beyond = split.equal.into_iter().chain(following);
            numbers.extend(beyond.map(|name| (name.clone(), chosen[&name])));
        }
    }
    Ok(TiedSizes { numbers, ..tied })
}

/// Sizes that move together.
#[derive(Default)]
struct SplitGroup {
    /// Those that are equal.
    equal: Vec<String>,
    following: Vec<FollowingSizes>,
}

/// Splits a group of sizes that move together into equal ones and those that `supposition` lets follow from them. Where all
/// follow in one way they are equal.
fn split_by_forms(group: Vec<String>, supposition: &Supposition) -> SplitGroup {
    let mut split = SplitGroup::default();
    let forms = group.iter().map(|name| supposition.forms.get(name).copied());
    let forms: Vec<Option<LinearForm>> = forms.collect();
    let base_form = if forms.contains(&None) { None } else { forms[0] };
    let base = forms.iter().position(|form| *form == base_form).map(|place| group[place].clone());
    for (name, form) in group.into_iter().zip(forms) {
        match (form, &base) {
            (Some(form), Some(base)) if base_form != Some(form) => {
                let mut earlier = split.following.iter_mut();
                match earlier.find(|earlier| earlier.form == form) {
                    Some(earlier) => earlier.names.push(name),
                    None => split.following.push(FollowingSizes {
                        names: vec![name],
                        base: base.clone(),
                        form,
                    }),
                }
            }
            _ => split.equal.push(name),
        }
    }
    split
}

/// What a call says of some sizes that differ from the others, the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SizeMove {
    Refused,
    /// The call has a flaw then that it had not before.
    Flawed,
    Free,
}

/// Tries a call with some sizes moved.
struct SizeMover<'s, A> {
    supposition: &'s Supposition,
    /// What the call has with no size moved.
    flaws: CallFlaws,
    room: usize,
    attempt: A,
    tries_left: usize,
}

impl<E, A: FnMut(&BTreeMap<String, usize>) -> Result<Attempt, E>> SizeMover<'_, A> {
    /// Tries the sizes of `moved` larger and smaller than all others.
    fn try_move(&mut self, moved: &[String]) -> Result<SizeMove, E> {
        let usual = self.supposition.usual;
        let mut worst = SizeMove::Free;
        for number in [2 * usual, usual / 2] {
            if self.tries_left == 0 {
                return Ok(SizeMove::Refused);
            }
            self.tries_left -= 1;
            let sizes = self.supposition.choose(moved, number, self.room);
            worst = match (self.attempt)(&sizes)? {
                Attempt::Accepted(call) if call.flaws() <= self.flaws => worst,
                Attempt::Accepted(_) => SizeMove::Flawed,
                _ => return Ok(SizeMove::Refused),
            };
        }
        Ok(worst)
    }

    /// The smallest set of `name` and others that moves; `is_flawed` says whether it moves alone with a flaw.
    fn find_group(
        &mut self,
        name: &str,
        others: &[&String],
        is_flawed: bool,
    ) -> Result<Option<Vec<String>>, E> {
        let mut flawed_group = is_flawed.then(|| vec![name.to_owned()]);
        if others.len() > MOST_SIZES {
            return Ok(flawed_group);
        }
        for count in 1..=others.len() {
            if flawed_group.as_ref().is_some_and(|group| group.len() < count) {
                break;
            }
            for companions in list_combinations(others, count) {
                let names = [name].into_iter().chain(companions.into_iter().map(String::as_str));
                let group: Vec<String> = names.map(str::to_owned).collect();
                match self.try_move(&group)? {
                    SizeMove::Free => return Ok(Some(group)),
                    SizeMove::Flawed => _ = flawed_group.get_or_insert(group),
                    SizeMove::Refused => {}
                }
            }
        }
        Ok(flawed_group)
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
    use super::super::shape_search::tests::{accept_call, draft_function};
    use super::super::shape_search::{AcceptedCall, ShapeFault};
    use super::*;

    /// The groups of sizes where `accepts` sees them, a roomy one with `!`, numbers with their number, and the count of tries.
    /// Each of `names` is a tensor of one dimension; the last is written. Those that end in `z` have room.
    fn group<const N: usize>(
        names: [&str; N],
        accepts: impl Fn([usize; N]) -> bool,
    ) -> (Vec<String>, usize) {
        group_results(names, |sizes| accepts(sizes).then_some(0))
    }

    /// The same, where a call that comes to its end leaves `count_unwritten` elements of its results as they are.
    fn group_results<const N: usize>(
        names: [&str; N],
        count_unwritten: impl Fn([usize; N]) -> Option<usize>,
    ) -> (Vec<String>, usize) {
        let parameters = names.map(|name| format!("at::Tensor {name}")).join(", ");
        let sizes = names.map(|name| format!("{name}_0"));
        let roomy = sizes.iter().filter(|size| size.ends_with("z_0")).cloned().collect();
        let supposition = Supposition {
            draft: draft_function(&parameters, ""),
            usual: 32,
            numbers: BTreeMap::new(),
            forms: BTreeMap::new(),
            roomy,
        };
        let mut tries = 0;
        let accepted = AcceptedShapes { supposition, call: AcceptedCall::default(), fast: 32 };
        let tied = tie_sizes(&accepted, 1 << 20, |numbers| {
            tries += 1;
            let unwritten = count_unwritten(sizes.clone().map(|size| numbers[&size]));
            Ok::<Attempt, ()>(match unwritten {
                Some(unwritten) => {
                    Attempt::Accepted(AcceptedCall { unwritten, ..AcceptedCall::default() })
                }
                None => Attempt::Fault(ShapeFault::default()),
            })
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
    fn sizes_after_which_a_result_is_written_in_part_are_tied_to_those_that_write_the_rest() {
        // Rows of `a` beyond those of `b` stay as they are, and so they do where `c` has more.
        let (groups, _) = group_results(["a", "b", "c"], |[a, b, _]| Some(a.abs_diff(b)));
        assert_eq!(groups, ["b_0=a_0", "c_0"]);
        let (groups, _) =
            group_results(["a", "b", "c"], |[a, b, c]| (a == b || a == c).then_some(a.abs_diff(c)));
        assert_eq!(groups, ["b_0", "c_0=a_0"]);
    }

    #[test]
    fn a_size_that_leaves_a_result_in_part_whatever_the_others_are_is_free() {
        let (groups, tries) =
            group_results(["k", "l", "m", "n"], |[k, ..]| Some(usize::from(k != 32)));
        assert_eq!(groups, ["k_0", "l_0", "m_0", "n_0"]);
        assert!(tries < 20, "{tries}");
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
    fn sizes_that_follow_from_others_move_with_them_and_keep_their_names() {
        let form = LinearForm { factor: 3, offset: 0 };
        let supposition = Supposition {
            draft: draft_function("at::Tensor a, at::Tensor b, at::Tensor c, at::Tensor x", ""),
            usual: 16,
            numbers: BTreeMap::new(),
            forms: BTreeMap::from([("a_0".to_owned(), form)]),
            roomy: Vec::new(),
        };
        let accepted = AcceptedShapes { supposition, call: AcceptedCall::default(), fast: 32 };
        let tied = tie_sizes(&accepted, 1 << 20, |numbers| {
            let [a, b, c] = ["a_0", "b_0", "c_0"].map(|name| numbers[name]);
            Ok::<Attempt, ()>(accept_call(a == 3 * b && b == c))
        });
        let tied = tied.unwrap();
        let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        assert_eq!(tied.groups, [names(["b_0", "c_0"]), vec!["x_0".to_owned()]]);
        let following =
            FollowingSizes { names: vec!["a_0".to_owned()], base: "b_0".to_owned(), form };
        assert_eq!(tied.following, [following]);
        let numbers = BTreeMap::from([("b_0".to_owned(), 20), ("x_0".to_owned(), 7)]);
        let expanded = tied.expand(&numbers, 1);
        assert_eq!(["a_0", "b_0", "c_0", "x_0"].map(|name| expanded[name]), [60, 20, 20, 7]);
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
