//! What a measurement needs of a draft that calls functions of tensors: their arguments with sizes to vary, and room for
//! results of any shape.

use std::collections::BTreeMap;

use ::replay::fixture::InputDraw;
use ::replay::tensor::DType;

use super::super::random_fixture::InputDraws;
use super::tied_sizes::TiedSizes;
use super::{Draft, DraftedCall, DraftedTensor, ShapeDoubt, is_number};

/// No tensor gets more dimensions by a supposition.
pub(super) const MOST_DIMENSIONS: usize = 5;
/// No result has more dimensions.
const MOST_RESULT_DIMENSIONS: usize = 6;
/// A number of dimensions is a size by this much more: random integers lie below the smallest size.
const DIMENSION_OFFSET: usize = 1 << 20;

impl Draft {
    /// Whether its functions take tensors, whose shapes they see.
    pub fn calls_with_tensors(&self) -> bool {
        self.calls_with_tensors
    }

    /// This draft with outputs that measure every tensor that a function returns, each with `room`. The result itself keeps
    /// its name, for other calls to take.
    pub(super) fn with_measured_results(&self, room: usize) -> Draft {
        let mut measuring = self.clone();
        for call in &mut measuring.calls {
            let results = std::mem::take(&mut call.results);
            let kept: Vec<&str> =
                results.iter().map(String::as_str).filter(|name| self.is_returned(name)).collect();
            if kept.is_empty() {
                call.results = results;
                continue;
            }
            let slots = results.iter().map(|name| {
                if self.is_returned(name) {
                    let extents: Vec<String> = name_extents(name).collect();
                    let (ty, extents) = (name_type(name), extents.join(", "));
                    let unwritten = name_unwritten(name);
                    let measures = format!("{ty}, {{{extents}}}, {unwritten}, {room}");
                    format!("::replay_torch::with_measures({name:?}, {measures}, {name})")
                } else {
                    format!("::replay_torch::output({name:?}, {name})")
                }
            });
            call.callee = format!(
                "at::Tensor {}; ::replay_torch::results({}) = {}",
                kept.join(", "),
                slots.collect::<Vec<_>>().join(", "),
                call.callee
            );
        }
        for name in self.list_returned() {
            if let Some(tensor) = measuring.outputs.shift_remove(&name) {
                let shape = vec![room.to_string()];
                let measure = DraftedTensor { shape, dtype: Some(DType::U8), ..tensor };
                for measured in name_extents(&name).chain([name_type(&name), name_unwritten(&name)])
                {
                    measuring.outputs.insert(measured, measure.clone());
                }
            }
        }
        measuring
    }

    /// This draft with shapes that a fixture's sizes tell, so that one build serves a search for them: for each tensor that
    /// functions take its elements, its dimensions, and their sizes.
    pub fn with_open_shapes(&self) -> Draft {
        let mut open = self.clone();
        let mut shapings = Vec::new();
        for name in self.argument_tensors() {
            let own_sizes = self.shape_of(&name).iter().cloned();
            let more_sizes = (self.shape_of(&name).len()..MOST_DIMENSIONS)
                .map(|dimension| name_dimension(&name, dimension));
            let sizes: Vec<String> = own_sizes.chain(more_sizes).collect();
            let dimensions = name_dimension_count(&name);
            for size in sizes.iter().filter(|size| !is_number(size)).chain([&dimensions]) {
                if !open.sizes.contains(size) {
                    open.sizes.push(size.clone());
                }
            }
            shapings.push(DraftedCall {
                results: Vec::new(),
                callee: "::replay_torch::reshape_argument".to_owned(),
                arguments: vec![
                    name.clone(),
                    format!("{dimensions} - {DIMENSION_OFFSET}"),
                    format!("{{{}}}", sizes.join(", ")),
                ],
                guesses: Vec::new(),
            });
            if let Some(tensor) = open.inputs.get_mut(&name).or(open.outputs.get_mut(&name)) {
                tensor.shape = vec![name_elements(&name)];
            }
        }
        shapings.append(&mut open.calls);
        open.calls = shapings;
        open
    }

    /// The sizes with which `with_open_shapes` of the draft that a search began with has the shapes of this one, where its
    /// sizes have these `numbers`.
    pub fn open_shape_sizes(&self, numbers: &BTreeMap<String, usize>) -> BTreeMap<String, usize> {
        let mut sizes = numbers.clone();
        let largest = numbers.values().copied().max().unwrap_or(1);
        for name in self.argument_tensors() {
            let shape = self.shape_of(&name);
            sizes.insert(name_elements(&name), multiply_sizes(shape, numbers));
            // As large as no smallest size, below which random integers lie.
            sizes.insert(name_dimension_count(&name), DIMENSION_OFFSET + shape.len());
            for dimension in 0..MOST_DIMENSIONS {
                let extent = shape.get(dimension..=dimension);
                let extent = extent.map_or(largest, |size| multiply_sizes(size, numbers));
                sizes.entry(name_dimension(&name, dimension)).or_insert(extent);
            }
        }
        sizes
    }

    /// The number that the last dimension of the tensor `name` is, though a call took a larger one: in each place of the
    /// dimensions before it, which have these `sizes`, so many elements were touched.
    pub(super) fn last_number(
        &self,
        name: &str,
        sizes: &BTreeMap<String, usize>,
        reach: &BTreeMap<String, usize>,
    ) -> Option<(String, usize)> {
        let (last, front) = self.shape_of(name).split_last()?;
        if front.is_empty() || *last != name_dimension(name, front.len()) {
            return None;
        }
        let places = multiply_sizes(front, sizes);
        let elements = *reach.get(name)?;
        let number = elements.checked_div(places)?;
        // Half of a size may be half of it for any number.
        let is_small = number > 0 && 2 * number < *sizes.get(last)?;
        (is_small && number * places == elements).then(|| (last.clone(), number))
    }

    /// This draft with the dtypes of the tensors of `other` with the same names, its random numbers and its sizes.
    pub fn with_elements_of(&self, other: &Draft) -> Draft {
        let mut draft = self.clone();
        for size in &other.sizes {
            draft.make_size(size);
        }
        for (name, tensor) in draft.inputs.iter_mut().chain(&mut draft.outputs) {
            if let Some(other_tensor) = other.find_tensor(name) {
                tensor.dtype = other_tensor.dtype;
                tensor.draw = other_tensor.draw;
            }
        }
        draft
    }

    /// With inputs between 0 and 1 in the place of usual ones, where they hold floats; none if that is no change.
    pub fn with_small_inputs(&self) -> Option<Draft> {
        let mut draft = self.clone();
        for tensor in draft.inputs.values_mut() {
            if tensor.draw == InputDraw::Usual && tensor.is_float() && !tensor.is_scalar() {
                tensor.draw = InputDraw::Small;
            }
        }
        (draft != *self).then_some(draft)
    }

    /// With the shapes of outputs that functions return for what flows into them, and those of arguments for the gradients that Python
    /// returns for them; none if that is no change.
    pub fn with_aligned_upstreams(&self) -> Option<Draft> {
        let mut draft = self.clone();
        for (of, upstream) in self.flows() {
            let shape = self.shape_of(&of).to_vec();
            if let Some(input) = draft.inputs.get_mut(&upstream).filter(|_| self.is_returned(&of)) {
                input.shape = shape;
            }
        }
        // What names alone pair may have other shapes.
        let told = if self.told.is_some() { self.list_returned() } else { Vec::new() };
        for name in told {
            let primal = draft.outputs.get(&name).and_then(|tensor| draft.primal_of(&name, tensor));
            let shape = primal.map(|primal| draft.shape_of(primal).to_vec());
            if let (Some(shape), Some(output)) = (shape, draft.outputs.get_mut(&name)) {
                output.shape = shape;
            }
        }
        (draft != *self).then_some(draft)
    }

    /// With integers of which none comes twice; none if that is no change.
    pub fn with_distinct_indices(&self) -> Option<Draft> {
        let mut draft = self.clone();
        for tensor in draft.inputs.values_mut() {
            if tensor.draw != InputDraw::Absent && tensor.holds_indices() {
                tensor.draw = InputDraw::Distinct;
            }
        }
        (draft != *self).then_some(draft)
    }

    /// What random inputs are like, by the names of those that are no usual ones.
    pub(super) fn list_draws(&self) -> BTreeMap<String, InputDraw> {
        let drawn = self.inputs.iter().filter(|(_, tensor)| tensor.draw != InputDraw::Usual);
        drawn.map(|(name, tensor)| (name.clone(), tensor.draw)).collect()
    }

    /// What its random inputs are like.
    pub fn input_draws(&self) -> InputDraws {
        InputDraws { by_name: self.list_draws(), do_threads_meet: self.do_threads_meet }
    }

    /// Notes that threads meet on its random inputs.
    pub fn note_meeting_threads(&mut self) {
        self.do_threads_meet = true;
    }

    /// The integers among the inputs that the sources do not count with.
    pub(super) fn list_integers(&self) -> Vec<String> {
        let integers =
            self.inputs.iter().filter(|(_, tensor)| tensor.is_scalar() && tensor.is_integer());
        integers.map(|(name, _)| name.clone()).collect()
    }

    /// Whether the input `name` has integers that may be indices.
    pub(super) fn holds_indices(&self, name: &str) -> bool {
        self.inputs.get(name).is_some_and(DraftedTensor::holds_indices)
    }

    /// Makes the integer `name` among the inputs a size.
    pub(super) fn make_size(&mut self, name: &str) {
        if self.inputs.shift_remove(name).is_some() {
            self.sizes.push(name.to_owned());
        }
    }

    /// Whether a fixture may leave the input `name` out.
    pub(super) fn is_optional(&self, name: &str) -> bool {
        self.inputs.get(name).is_some_and(|tensor| tensor.is_optional)
    }

    /// What the random numbers of the input `name` are like.
    pub(super) fn draw_of(&self, name: &str) -> InputDraw {
        self.inputs.get(name).map(|tensor| tensor.draw).unwrap_or_default()
    }

    /// Gives the input `name` this `draw`.
    pub(super) fn set_draw(&mut self, name: &str, draw: InputDraw) {
        if let Some(tensor) = self.inputs.get_mut(name) {
            tensor.draw = draw;
        }
    }

    /// The tensors that functions take of which the sources do not tell the dtype.
    pub(super) fn list_guessed_dtypes(&self) -> Vec<String> {
        let mut names = self.argument_tensors();
        names.retain(|name| self.find_tensor(name).is_some_and(|tensor| tensor.is_dtype_guessed));
        names
    }

    /// Whether the elements of the tensor `name` are floating-point numbers.
    pub(super) fn holds_floats(&self, name: &str) -> bool {
        self.find_tensor(name).is_some_and(DraftedTensor::is_float)
    }

    /// Gives the tensors `names` this `dtype`.
    pub(super) fn set_dtypes(&mut self, names: &[String], dtype: DType) {
        for name in names {
            let tensor = self.inputs.get_mut(name).or_else(|| self.outputs.get_mut(name));
            if let Some(tensor) = tensor {
                tensor.dtype = Some(dtype);
            }
        }
    }

    /// The elements of the largest tensor of several sizes that functions take, where its sizes have these `numbers`.
    pub fn largest_product(&self, numbers: &BTreeMap<String, usize>) -> usize {
        let tensors = self.argument_tensors();
        let shapes = tensors.iter().map(|name| self.shape_of(name));
        let products = shapes.filter(|shape| shape.len() > 1);
        products.map(|shape| multiply_sizes(shape, numbers)).max().unwrap_or_default()
    }

    /// Whether the output `name` is a tensor that a function returns.
    pub(super) fn is_returned(&self, name: &str) -> bool {
        let is_tensor = self.outputs.get(name).is_some_and(|tensor| !tensor.is_scalar());
        is_tensor && self.calls.iter().any(|call| call.results.iter().any(|result| result == name))
    }

    /// The tensors that functions of tensors return.
    pub(super) fn list_returned(&self) -> Vec<String> {
        self.outputs.keys().filter(|name| self.is_returned(name)).cloned().collect()
    }

    /// The elements of results that nobody wrote, by the `reach` of a replay that measured them.
    pub fn count_unwritten(&self, reach: &BTreeMap<String, usize>) -> usize {
        let results = self.list_returned();
        results.iter().filter_map(|name| reach.get(&name_unwritten(name))).sum()
    }

    /// The named sizes that functions of tensors take: their numbers, and the dimensions of their tensors.
    pub fn argument_sizes(&self) -> Vec<String> {
        let arguments = self.tensors().filter(|(name, _)| !self.is_returned(name));
        let in_shapes = arguments.flat_map(|(_, tensor)| &tensor.shape);
        let in_shapes = in_shapes.filter(|size| !is_number(size));
        let mut sizes: Vec<String> = Vec::new();
        for size in self.sizes.iter().chain(in_shapes) {
            if !sizes.contains(size) {
                sizes.push(size.clone());
            }
        }
        sizes
    }

    /// The tensors that functions of tensors take.
    pub(super) fn argument_tensors(&self) -> Vec<String> {
        let arguments =
            self.tensors().filter(|(name, tensor)| !tensor.is_scalar() && !self.is_returned(name));
        arguments.map(|(name, _)| name.clone()).collect()
    }

    /// The shape of the tensor `name`.
    pub(super) fn shape_of(&self, name: &str) -> &[String] {
        self.find_tensor(name).map_or(&[], |tensor| tensor.shape.as_slice())
    }

    /// Gives the tensor `name` further dimensions, to be `count` in all, its gradient with it, and the output that it flows into.
    pub(super) fn set_dimensions(&mut self, name: &str, count: usize) {
        let tensor = self.inputs.get_mut(name).or_else(|| self.outputs.get_mut(name));
        let Some(tensor) = tensor else { return };
        for dimension in tensor.shape.len()..count {
            tensor.shape.push(name_dimension(name, dimension));
        }
        let shape = tensor.shape.clone();
        let flow = self.flows().into_iter().find(|(_, upstream)| upstream == name);
        if let Some(output) = flow.and_then(|(of, _)| self.outputs.get_mut(&of)) {
            output.shape = shape;
        }
        self.align_gradients();
    }

    /// The sizes of `argument_sizes` that stand alone in the shape of a tensor, of which the sources tell nothing.
    pub fn only_sizes(&self) -> Vec<String> {
        let tensors = self.tensors().filter(|(name, tensor)| {
            tensor.shape == [name_only_size(name)] && !self.is_returned(name)
        });
        tensors.map(|(name, _)| name_only_size(name)).collect()
    }

    /// Gives the sizes of each group one name, and those of shapes alone that are numbers their number. What functions of
    /// tensors take has its shapes then without doubt, but for numbers, which may be of this try alone, and for tensors with
    /// room: measurements tell their shapes.
    pub fn take_tied_sizes(&mut self, tied: &TiedSizes) {
        let rename = |size: &mut String| {
            if let Some(group) = tied.list_equal().find(|group| group.contains(size)) {
                size.clone_from(&group[0]);
            }
        };
        let is_in_doubt =
            |size: &String| tied.roomy.contains(size) || tied.numbers.contains_key(size);
        for tensor in self.inputs.values_mut() {
            let is_certain = self.calls_with_tensors && !tensor.shape.iter().any(is_in_doubt);
            if is_certain && tensor.doubt == Some(ShapeDoubt::Pointer) {
                tensor.doubt = None;
            }
        }
        self.sizes.iter_mut().for_each(rename);
        self.sizes.dedup();
        for tensor in self.inputs.values_mut().chain(self.outputs.values_mut()) {
            for size in &mut tensor.shape {
                rename(size);
                if let Some(number) = tied.numbers.get(size).filter(|_| !self.sizes.contains(size))
                {
                    *size = number.to_string();
                }
            }
        }
    }
}

/// The size of the tensor `name` of which the sources tell nothing.
fn name_only_size(name: &str) -> String {
    name_dimension(name, 0)
}

/// The elements of a tensor of `shape`, where its sizes have these `numbers`.
fn multiply_sizes(shape: &[String], numbers: &BTreeMap<String, usize>) -> usize {
    let extents = shape.iter().map(|size| match size.parse() {
        Ok(number) => number,
        Err(_) => numbers.get(size).copied().unwrap_or(1),
    });
    extents.fold(1, usize::saturating_mul)
}

/// The number of elements of the tensor `name` in a search for shapes.
fn name_elements(name: &str) -> String {
    format!("{name}_count")
}

/// The number of dimensions of the tensor `name` in a search for shapes, and the offset.
fn name_dimension_count(name: &str) -> String {
    format!("{name}_dimensions")
}

/// The size along a `dimension` of the tensor `name` for which the sources have no name.
pub(super) fn name_dimension(name: &str, dimension: usize) -> String {
    format!("{name}_{dimension}")
}

/// The output whose reach tells the dtype of the result `name`: by its name the gradient of nothing.
pub(super) fn name_type(name: &str) -> String {
    format!("{name}_type")
}

/// The output whose reach tells how many elements of the result `name` nobody wrote.
fn name_unwritten(name: &str) -> String {
    format!("{name}_unwritten")
}

/// The outputs whose reaches tell the sizes of the result `name`, along each dimension.
pub(super) fn name_extents(name: &str) -> impl Iterator<Item = String> {
    (0..MOST_RESULT_DIMENSIONS).map(move |dimension| format!("{name}_extent_{dimension}"))
}
