//! Shapes of a draft from measurements. Pure: a tensor of which two replays with other sizes touch `n * vocab` elements has
//! the shape `[n, vocab]`.

use std::collections::BTreeMap;

use ::replay::tensor::DType;

use super::tensor_probe::{name_dimension, name_extents, name_type};
use super::tied_sizes::TiedSizes;
use super::types::find_dtype_by_torch_number;
use super::{
    Draft, DraftedCall, DraftedTensor, OutputTrait, ShapeDoubt, SizeOrder, name_beginning,
};

/// What stands in a call for a result that is no output.
const IGNORED_RESULT: &str = "_";

/// A replay with chosen sizes.
#[derive(Clone, Debug)]
pub struct ShapeProbe {
    /// The number of each size.
    pub sizes: BTreeMap<String, usize>,
    /// By tensor, the elements up to the last one that was touched.
    pub reach: BTreeMap<String, usize>,
}

/// Sizes that are tried for a draft with `names`, one after the other until two replays come to their ends. Odd factors of
/// their own tell the factors of a product, vectors need multiples of four, warps such of 32, and heads divide a width. The
/// smallest sizes come first where `usual`, with which all of them alike were accepted, is small: a kernel has much to do.
pub fn choose_size_sets(names: &[String], usual: usize) -> Vec<BTreeMap<String, usize>> {
    if names.len() > MOST_SIZES {
        return Vec::new();
    }
    let mut sets: Vec<&[usize]> = SIZE_SETS.iter().map(|set| &set[..names.len()]).collect();
    if usual < SMALL {
        sets.sort_by_key(|set| set.iter().product::<usize>());
    }
    let sets = sets.into_iter().map(|set| names.iter().cloned().zip(set.iter().copied()));
    sets.map(Iterator::collect).collect()
}

/// Sizes for `names` where nothing is measured.
pub fn choose_usual_sizes(names: &[String]) -> BTreeMap<String, usize> {
    names.iter().cloned().zip(SIZE_SETS[0].iter().copied().cycle()).collect()
}

/// Below it a size is small.
const SMALL: usize = 16;

const SIZE_SETS: [[usize; MOST_SIZES]; 8] = [
    [12, 20, 84, 28, 44, 52, 4, 36],
    [20, 28, 132, 12, 44, 68, 8, 60],
    [32, 96, 160, 64, 128, 192, 16, 8],
    [64, 32, 16, 8, 4, 2, 12, 24],
    [4, 8, 16, 32, 64, 128, 12, 24],
    [2, 3, 5, 7, 11, 13, 17, 19],
    [4, 12, 8, 20, 28, 6, 10, 14],
    [6, 4, 12, 8, 20, 10, 14, 22],
];

/// More sizes have too many products.
pub(super) const MOST_SIZES: usize = 8;
/// A size may stand in a shape twice, as in an attention matrix.
const MOST_TIMES: usize = 2;
/// Numbers besides sizes, such as the three of query, key and value.
const NUMBERS: [usize; 7] = [1, 2, 3, 4, 6, 8, 16];

/// A possible shape: some sizes, and perhaps a number in front of the last, or of the pair of one twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShapeCandidate<'n> {
    names: Vec<&'n str>,
    number: usize,
}

impl ShapeCandidate<'_> {
    pub(super) fn elements(&self, sizes: &BTreeMap<String, usize>) -> usize {
        let numbers = self.names.iter().map(|name| sizes.get(*name).copied().unwrap_or(1));
        // Eight sizes twice are more than a number holds, and no tensor has so many elements.
        numbers.fold(self.number, usize::saturating_mul)
    }

    /// How much has to be supposed for it: smaller is likelier.
    fn oddity(&self) -> (bool, usize, usize) {
        (self.number != 1 && !self.names.is_empty(), self.repeated(), self.number)
    }

    /// The names that stand in it twice.
    fn repeated(&self) -> usize {
        self.names.windows(2).filter(|pair| pair[0] == pair[1]).count()
    }

    fn shape(&self) -> Vec<String> {
        let is_repeated =
            |name: &&str| self.names.iter().filter(|other| *other == name).count() > 1;
        let (repeated, mut shape): (Vec<&str>, Vec<&str>) =
            self.names.iter().copied().partition(is_repeated);
        let number = self.number.to_string();
        let has_number = self.number != 1 || self.names.is_empty();
        if has_number {
            let front = shape.len() - usize::from(repeated.is_empty() && !shape.is_empty());
            shape.insert(front, &number);
        }
        shape.into_iter().chain(repeated).map(str::to_owned).collect()
    }
}

pub(super) fn list_candidates(names: &[String]) -> Vec<ShapeCandidate<'_>> {
    let mut candidates = Vec::new();
    for choice in 0..(MOST_TIMES + 1).pow(names.len() as u32) {
        let mut chosen = Vec::new();
        let mut rest = choice;
        for name in names {
            chosen.extend(std::iter::repeat_n(name.as_str(), rest % (MOST_TIMES + 1)));
            rest /= MOST_TIMES + 1;
        }
        candidates.extend(NUMBERS.map(|number| ShapeCandidate { names: chosen.clone(), number }));
    }
    candidates.sort_by_key(ShapeCandidate::oddity);
    candidates
}

/// A shape, and whether the probes leave no doubt about it.
type MeasuredShape = (Vec<String>, bool);

/// The shape of the tensor `name`; none where it was not touched.
fn find_shape(
    name: &str,
    candidates: &[ShapeCandidate<'_>],
    probes: &[ShapeProbe],
) -> Option<MeasuredShape> {
    let reaches: Vec<usize> =
        probes.iter().map(|probe| probe.reach.get(name).copied().unwrap_or_default()).collect();
    if reaches.iter().all(|reach| *reach == 0) {
        return None;
    }
    let elements = |candidate: &ShapeCandidate<'_>| -> Vec<usize> {
        probes.iter().map(|probe| candidate.elements(&probe.sizes)).collect()
    };
    let mut exact = candidates.iter().filter(|candidate| elements(candidate) == reaches);
    if let Some(best) = exact.next() {
        let is_ambiguous = exact.next().is_some_and(|next| next.oddity() == best.oddity());
        return Some((best.shape(), probes.len() > 1 && !is_ambiguous));
    }
    // An index may reach some rows of a table alone.
    let covering = candidates.iter().filter(|candidate| {
        !candidate.names.is_empty()
            && candidate.repeated() == 0
            && elements(candidate).iter().zip(&reaches).all(|(own, reach)| own >= reach)
    });
    let smallest = covering
        .min_by_key(|candidate| elements(candidate).into_iter().fold(0, usize::saturating_add))?;
    Some((smallest.shape(), false))
}

/// What probes tell of a result.
struct MeasuredResult {
    tensor: DraftedTensor,
    /// The sizes of its own, with their numbers in the first probe.
    own_sizes: BTreeMap<String, usize>,
}

/// The result `name`, drafted as `tensor`, as `probes` with these `sizes` tell of it; none where the call gave none. A
/// dimension that is no size in all of them, and no number, is a size of its own.
fn measure_result(
    name: &str,
    tensor: &DraftedTensor,
    sizes: &[String],
    probes: &[ShapeProbe],
) -> Option<MeasuredResult> {
    let measured = |output: &str| -> Vec<usize> {
        let reaches = probes.iter().map(|probe| probe.reach.get(output).copied());
        reaches.map(|reach| reach.unwrap_or_default()).collect()
    };
    let type_reach = measured(&name_type(name)).first().copied()?;
    let mut tensor = tensor.clone();
    let mut own_sizes = BTreeMap::new();
    tensor.dtype = find_dtype_by_torch_number(type_reach.checked_sub(1)?).or(tensor.dtype);
    tensor.shape.clear();
    for (dimension, output) in name_extents(name).enumerate() {
        let reaches = measured(&output);
        let extents: Option<Vec<usize>> =
            reaches.iter().map(|reach| reach.checked_sub(1)).collect();
        let Some(extents) = extents else { break };
        let is_size = |size: &&String| {
            let numbers = probes.iter().map(|probe| probe.sizes.get(*size).copied());
            numbers.eq(extents.iter().copied().map(Some))
        };
        let size = match sizes.iter().find(is_size) {
            Some(size) => size.clone(),
            None if extents.iter().all(|extent| *extent == extents[0]) => extents[0].to_string(),
            None => {
                let own_size = name_dimension(name, dimension);
                own_sizes.insert(own_size.clone(), extents[0]);
                own_size
            }
        };
        tensor.shape.push(size);
    }
    if tensor.shape.is_empty() {
        tensor.shape.push("1".to_owned());
    }
    let is_certain = probes.len() > 1 && own_sizes.is_empty();
    tensor.doubt = (!is_certain).then_some(ShapeDoubt::Pointer);
    Some(MeasuredResult { tensor, own_sizes })
}

impl Draft {
    /// This draft with `elements` for every tensor of which a replay tells the shape, whatever that is.
    pub fn with_room(&self, elements: usize) -> Draft {
        if self.calls_with_tensors {
            return self.with_measured_results(elements);
        }
        let mut roomy = self.clone();
        for tensor in roomy.arrays_mut() {
            tensor.shape = vec![elements.to_string()];
        }
        roomy
    }

    /// The sizes among the functions' parameters, in their order, each by itself.
    pub fn parameter_sizes(&self) -> TiedSizes {
        let numbers = self.known_numbers.clone();
        let open_sizes = self.sizes.iter().filter(|size| !numbers.contains_key(*size));
        let groups = open_sizes.map(|size| vec![size.clone()]).collect();
        TiedSizes { groups, numbers, usual: SMALL, ..TiedSizes::default() }
    }

    /// Takes in the order of two sizes that replays showed to be needed.
    pub fn take_size_order(&mut self, order: Option<SizeOrder>) {
        self.size_order = order;
    }

    /// Whether a kernel is called with a grid that nothing tells.
    pub fn guesses_grids(&self) -> bool {
        self.guesses_grids
    }

    /// Takes the shapes that `probes` tell, products of `tied` sizes. Those without doubt lose their mark. An output and its
    /// upstream gradient have one shape, as have a tensor and its gradient: of two that differ the one without doubt counts, and two without doubt
    /// are no such pair. The numbers are those of results' own sizes in the first probe.
    pub fn take_measured_shapes(
        &mut self,
        tied: &TiedSizes,
        probes: &[ShapeProbe],
    ) -> BTreeMap<String, usize> {
        let sizes: Vec<String> = tied.list_equal().map(|names| names[0].clone()).collect();
        let candidates = list_candidates(&sizes);
        let returned = self.list_returned();
        let mut own_sizes = BTreeMap::new();
        let mut absent_results = Vec::new();
        for (name, tensor) in self.inputs.iter_mut().chain(&mut self.outputs) {
            if returned.contains(name) {
                match measure_result(name, tensor, &sizes, probes) {
                    Some(mut measured) => {
                        // One like a tensor with room has more elements than a measurement counts.
                        let is_uncounted = measured.tensor.shape == ["1"];
                        if is_uncounted && !tied.roomy.is_empty() {
                            measured.tensor.doubt = Some(ShapeDoubt::Pointer);
                        }
                        *tensor = measured.tensor;
                        own_sizes.extend(measured.own_sizes);
                    }
                    None => absent_results.push(name.clone()),
                }
                continue;
            }
            let has_room = tensor.shape.iter().any(|size| tied.roomy.contains(size));
            if tensor.is_scalar() || self.calls_with_tensors && !has_room {
                continue;
            }
            match find_shape(name, &candidates, probes) {
                Some((shape, is_certain)) => {
                    tensor.shape = shape;
                    tensor.doubt = (!is_certain).then_some(ShapeDoubt::Pointer);
                }
                None if sizes.is_empty() || has_room => tensor.shape = vec!["1".to_owned()],
                None => {}
            }
        }
        for name in absent_results {
            if self.is_among_results(&name) {
                self.leave_out_result(&name, "is none in this call");
            }
        }
        self.sizes.extend(own_sizes.keys().cloned());
        let gradients = self.outputs.iter().filter_map(|(name, tensor)| {
            Some((name.clone(), self.primal_of(name, tensor)?.to_owned()))
        });
        let gradients: Vec<(String, String)> = gradients.collect();
        // What a function returns has the shape that was measured, whatever views it takes of what flows into it.
        let mut flows = self.flows();
        flows.retain(|(output, _)| !returned.contains(output));
        for (output, input) in flows.into_iter().chain(gradients) {
            self.unite_shapes(&output, &input);
        }
        own_sizes
    }

    /// This draft with a number for the last dimension of each result of which only the first columns are written, and of all
    /// tensors with this size; none without such a result. `unwritten` is the index of its first other element, by result.
    pub fn with_written_columns(&self, unwritten: &[(String, Vec<usize>)]) -> Option<Draft> {
        let mut narrow = self.clone();
        for (result, first) in unwritten {
            let Some((columns, front)) = first.split_last() else { continue };
            let Some(size) = self.shape_of(result).last() else { continue };
            let is_last_alone = self.tensors().all(|(_, tensor)| {
                tensor.shape.iter().rev().skip(1).all(|other_size| other_size != size)
            });
            let is_narrow = *columns > 0 && front.iter().all(|index| *index == 0);
            if !is_narrow
                || !is_last_alone
                || !self.is_returned(result)
                || self.sizes.contains(size)
            {
                continue;
            }
            for tensor in narrow.arrays_mut() {
                if let Some(last) = tensor.shape.last_mut().filter(|last| *last == size) {
                    *last = columns.to_string();
                    tensor.doubt = Some(ShapeDoubt::Pointer);
                }
            }
        }
        (narrow != *self).then_some(narrow)
    }

    /// Gives `output` and `input` one shape, unless both have theirs without doubt.
    fn unite_shapes(&mut self, output: &str, input: &str) {
        let (Some(output), Some(input)) =
            (self.outputs.get_mut(output), self.inputs.get_mut(input))
        else {
            return;
        };
        let are_certain = output.doubt.is_none() && input.doubt.is_none();
        let are_equal = output.shape == input.shape;
        if are_certain || are_equal || output.is_scalar() || input.is_scalar() {
            return;
        }
        let (right, wrong) = if input.doubt.is_none() && output.doubt.is_some() {
            (input, output)
        } else {
            (output, input)
        };
        wrong.shape.clone_from(&right.shape);
        wrong.doubt = Some(ShapeDoubt::Pointer);
    }

    /// Takes in what replays showed of outputs, what counts more first. Working memory among results is no output.
    pub fn add_output_traits(&mut self, traits: &[(String, OutputTrait)]) {
        for (output, output_trait) in traits {
            if *output_trait == OutputTrait::Partial && self.is_buffer_among_results(output) {
                self.leave_out_result(output, "is not written as a whole");
            } else if let Some(tensor) = self.outputs.get_mut(output)
                && !tensor.traits.iter().any(|known| known.is_same_key(*output_trait))
            {
                tensor.traits.push(*output_trait);
            }
        }
    }

    /// The arrays of numbers that begin as zeros since the call reads what they hold before, and that are no gradients, which are
    /// added up from zeros.
    pub fn list_zero_beginnings(&self) -> Vec<String> {
        let beginnings = self.outputs.iter().filter(|(name, tensor)| {
            tensor.traits.contains(&OutputTrait::ReadBefore)
                && tensor.is_float()
                && !tensor.is_scalar()
                && self.primal_of(name, tensor).is_none()
                && !self.inputs.contains_key(&name_beginning(name))
        });
        beginnings.map(|(name, _)| name.clone()).collect()
    }

    /// With an input as the beginning of each of `outputs`; none if there are none.
    pub fn with_beginnings(&self, outputs: &[String]) -> Option<Draft> {
        let mut draft = self.clone();
        for name in outputs {
            let tensor = draft.outputs.get_mut(name)?;
            let beginning = DraftedTensor { traits: Vec::new(), ..tensor.clone() };
            for output_trait in &mut tensor.traits {
                if *output_trait == OutputTrait::ReadBefore {
                    *output_trait = OutputTrait::ChangedInPlace;
                }
            }
            draft.inputs.insert(name_beginning(name), beginning);
        }
        (draft != *self).then_some(draft)
    }

    /// The inputs that lists hold, each with the output that is its copy behind the calls.
    pub fn list_copies(&self) -> Vec<(String, String)> {
        let copies =
            self.calls.iter().filter_map(|call| match (&call.arguments[..], &call.results[..]) {
                ([input], [output]) if self.inputs.contains_key(input) && call.copies_tensor() => {
                    Some((input.clone(), output.clone()))
                }
                _ => None,
            });
        copies.collect()
    }

    /// Drops `unchanged` copies of inputs, unless no output is left.
    pub fn leave_out_copies(&mut self, unchanged: &[String]) {
        if self.outputs.keys().all(|output| unchanged.contains(output)) {
            return;
        }
        self.outputs.retain(|output, _| !unchanged.contains(output));
        self.calls.retain(|call| !call.results.iter().any(|result| unchanged.contains(result)));
    }

    /// Whether the output `name` is bytes among the results of a call, which no call takes.
    fn is_buffer_among_results(&self, name: &str) -> bool {
        let is_of_bytes =
            self.outputs.get(name).is_some_and(|tensor| tensor.dtype == Some(DType::U8));
        is_of_bytes && self.is_among_results(name)
    }

    /// Whether the output `name` is one of several results of a call, and no call takes it.
    fn is_among_results(&self, name: &str) -> bool {
        let is_name = |word: &String| word == name;
        let is_among =
            |call: &DraftedCall| call.results.len() > 1 && call.results.iter().any(is_name);
        self.calls.iter().any(is_among)
            && !self.calls.iter().any(|call| call.arguments.iter().any(is_name))
    }

    /// Drops the result `name` of a call, for `reason`.
    fn leave_out_result(&mut self, name: &str, reason: &str) {
        self.outputs.shift_remove(name);
        for call in &mut self.calls {
            if let Some(result) = call.results.iter_mut().find(|result| *result == name) {
                *result = IGNORED_RESULT.to_owned();
                call.guesses.push(format!("{name} {reason}"));
            }
        }
    }

    fn arrays_mut(&mut self) -> impl Iterator<Item = &mut DraftedTensor> {
        let tensors = self.inputs.values_mut().chain(self.outputs.values_mut());
        tensors.filter(|tensor| !tensor.is_scalar())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = ["B", "T", "C"];

    /// The shape of a tensor of so many elements by the three sizes.
    fn measured(elements: impl Fn(usize, usize, usize) -> usize) -> Option<(String, bool)> {
        let names = NAMES.map(str::to_owned);
        let probes: Vec<ShapeProbe> = choose_size_sets(&names, SMALL)
            .into_iter()
            .take(2)
            .map(|sizes| {
                let [b, t, c] = NAMES.map(|name| sizes[name]);
                let reach = BTreeMap::from([("x".to_owned(), elements(b, t, c))]);
                ShapeProbe { sizes, reach }
            })
            .collect();
        let shape = find_shape("x", &list_candidates(&names), &probes);
        shape.map(|(shape, is_certain)| (shape.join(" "), is_certain))
    }

    #[test]
    fn two_probes_tell_the_factors_of_a_shape() {
        let certain = |shape: &str| Some((shape.to_owned(), true));
        assert_eq!(measured(|b, t, c| b * t * c), certain("B T C"));
        assert_eq!(measured(|b, t, _| b * t), certain("B T"));
        assert_eq!(measured(|_, _, c| c), certain("C"));
        assert_eq!(measured(|b, t, c| b * t * 3 * c), certain("B T 3 C"));
        assert_eq!(measured(|_, _, c| 4 * c * c), certain("4 C C"));
        assert_eq!(measured(|b, t, _| b * t * t), certain("B T T"));
        assert_eq!(measured(|b, t, c| b * t * t * c), certain("B C T T"));
        assert_eq!(measured(|_, _, _| 1), certain("1"));
        assert_eq!(measured(|_, _, _| 2), certain("2"));
    }

    /// The dtype and the shape of a result with these `extents` by the three sizes, whether it is certain, and its own sizes.
    fn measured_result<const N: usize>(
        type_number: usize,
        extents: impl Fn(usize, usize, usize) -> [usize; N],
    ) -> (Option<DType>, String, bool, BTreeMap<String, usize>) {
        let names = NAMES.map(str::to_owned);
        let probes = choose_size_sets(&names, SMALL).into_iter().take(2).map(|sizes| {
            let [b, t, c] = NAMES.map(|name| sizes[name]);
            let own = extents(b, t, c).map(|extent| extent + 1);
            let mut reach: BTreeMap<String, usize> = name_extents("y").zip(own).collect();
            reach.insert(name_type("y"), type_number + 1);
            ShapeProbe { sizes, reach }
        });
        let probes: Vec<ShapeProbe> = probes.collect();
        let drafted = DraftedTensor::scalar(DType::F32);
        let MeasuredResult { tensor, own_sizes } =
            measure_result("y", &drafted, &names, &probes).unwrap();
        (tensor.dtype, tensor.shape.join(" "), tensor.doubt.is_none(), own_sizes)
    }

    #[test]
    fn a_result_has_the_type_and_the_dimensions_that_it_is_measured_with_in_their_order() {
        let none = BTreeMap::new();
        let found = measured_result(5, |b, t, c| [c, b, 3, t]);
        assert_eq!(found, (Some(DType::F16), "C B 3 T".to_owned(), true, none.clone()));
        let found = measured_result(4, |_, _, _| []);
        assert_eq!(found, (Some(DType::I64), "1".to_owned(), true, none));
        let own_sizes = BTreeMap::from([("y_0".to_owned(), 12 * 20), ("y_1".to_owned(), 85)]);
        let found = measured_result(6, |b, t, c| [b * t, c + 1, c]);
        assert_eq!(found, (Some(DType::F32), "y_0 y_1 C".to_owned(), false, own_sizes));
        let probe = ShapeProbe { sizes: BTreeMap::new(), reach: BTreeMap::new() };
        assert!(measure_result("y", &DraftedTensor::scalar(DType::F32), &[], &[probe]).is_none());
    }

    #[test]
    fn what_is_no_product_stays_in_doubt() {
        let doubtful = |shape: &str| Some((shape.to_owned(), false));
        assert_eq!(measured(|_, t, c| (t - 1) * c), doubtful("T C"), "rows that an index reached");
        assert_eq!(measured(|b, _, _| b.div_ceil(5)), doubtful("B"));
        assert_eq!(measured(|_, _, _| 0), None);
    }

    #[test]
    fn products_of_all_sizes_are_no_overflow() {
        let names: Vec<String> = ["a", "b", "c", "d", "e", "f"].map(str::to_owned).into();
        let probes: Vec<ShapeProbe> = choose_size_sets(&names, SMALL)
            .into_iter()
            .take(2)
            .map(|sizes| {
                let reach = BTreeMap::from([("x".to_owned(), sizes["a"] * sizes["f"] - 1)]);
                ShapeProbe { sizes, reach }
            })
            .collect();
        let shape = find_shape("x", &list_candidates(&names), &probes);
        assert_eq!(shape.map(|(shape, _)| shape.join(" ")), Some("a f".to_owned()));
    }

    #[test]
    fn one_probe_is_not_enough() {
        let names = NAMES.map(str::to_owned);
        let sizes = choose_size_sets(&names, SMALL).remove(0);
        let reach = BTreeMap::from([("x".to_owned(), 12 * 20)]);
        let probe = ShapeProbe { sizes, reach };
        let shape = find_shape("x", &list_candidates(&names), &[probe]);
        assert_eq!(shape, Some((vec!["B".to_owned(), "T".to_owned()], false)));
    }
}
