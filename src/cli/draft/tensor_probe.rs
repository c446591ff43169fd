//! What a measurement needs of a draft that calls functions of tensors: their arguments with sizes to vary, and room for
//! results of any shape.

use super::tied_sizes::TiedSizes;
use super::{Draft, DraftedTensor, ShapeDoubt};

impl Draft {
    /// Whether its functions take tensors, whose shapes they see.
    pub fn calls_with_tensors(&self) -> bool {
        self.calls_with_tensors
    }

    /// This draft with an output of `elements` for every tensor that a function returns: the result is copied to its
    /// beginning. The result itself keeps its name, for other calls to take.
    pub(super) fn with_roomy_results(&self, elements: usize) -> Draft {
        let mut roomy = self.clone();
        for call in &mut roomy.calls {
            let results = std::mem::take(&mut call.results);
            let kept: Vec<&str> =
                results.iter().map(String::as_str).filter(|name| self.is_returned(name)).collect();
            if kept.is_empty() {
                call.results = results;
                continue;
            }
            let slots = results.iter().map(|name| {
                if self.is_returned(name) {
                    format!("::replay_torch::with_room({name:?}, {}, {name})", name_room(name))
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
            if let Some(tensor) = roomy.outputs.shift_remove(&name) {
                let shape = vec![elements.to_string()];
                roomy.outputs.insert(name_room(&name), DraftedTensor { shape, ..tensor });
            }
        }
        roomy
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

    /// The named sizes that functions of tensors take: their numbers, and the dimensions of their tensors.
    pub fn argument_sizes(&self) -> Vec<String> {
        let arguments = self.tensors().filter(|(name, _)| !self.is_returned(name));
        let in_shapes = arguments.flat_map(|(_, tensor)| &tensor.shape);
        let in_shapes = in_shapes.filter(|size| !size.starts_with(|c: char| c.is_ascii_digit()));
        let mut sizes: Vec<String> = Vec::new();
        for size in self.sizes.iter().chain(in_shapes) {
            if !sizes.contains(size) {
                sizes.push(size.clone());
            }
        }
        sizes
    }

    /// The sizes of `argument_sizes` that stand alone in the shape of a tensor, of which the sources tell nothing.
    pub fn only_sizes(&self) -> Vec<String> {
        let tensors = self.tensors().filter(|(name, tensor)| {
            tensor.shape == [name_only_size(name)] && !self.is_returned(name)
        });
        tensors.map(|(name, _)| name_only_size(name)).collect()
    }

    /// Gives the sizes of each group one name. What functions of tensors take has its shapes then without doubt, but for
    /// tensors with room: measurements tell their shapes.
    pub fn take_tied_sizes(&mut self, tied: &TiedSizes) {
        let rename = |size: &mut String| {
            if let Some(group) = tied.groups.iter().find(|group| group.contains(size)) {
                size.clone_from(&group[0]);
            }
        };
        let calls_with_tensors = self.calls_with_tensors;
        for tensor in self.inputs.values_mut().chain(self.outputs.values_mut()) {
            tensor.shape.iter_mut().for_each(rename);
        }
        for tensor in self.inputs.values_mut() {
            let has_room = tensor.shape.iter().any(|size| tied.roomy.contains(size));
            if calls_with_tensors && !has_room && tensor.doubt == Some(ShapeDoubt::Pointer) {
                tensor.doubt = None;
            }
        }
        self.sizes.iter_mut().for_each(rename);
        self.sizes.dedup();
    }
}

/// The size of the tensor `name` of which the sources tell nothing.
pub(super) fn name_only_size(name: &str) -> String {
    format!("{name}_0")
}

/// The output for the elements of the result `name`: by its name the gradient of nothing.
pub(super) fn name_room(name: &str) -> String {
    format!("{name}_elements")
}
