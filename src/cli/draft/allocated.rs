//! The shapes of tensors by the memory that a source's own `main` gives its functions.

use ::replay::frontend::Passed;

/// A function as `main` calls it.
pub struct Allocated<'a> {
    /// The arguments.
    pub passed: &'a [Passed],
    /// The names of its parameters.
    pub names: &'a [String],
    /// Those that are sizes.
    pub sizes: &'a [String],
}

impl Allocated<'_> {
    /// The shape of parameter number `place`, in the function's own names; what `main` alone has a name for
    /// keeps it.
    pub fn shape(&self, place: usize) -> Option<Vec<String>> {
        let elements = self.passed.get(place)?.elements.as_deref()?;
        if elements.is_empty() {
            return Some(vec!["1".to_owned()]);
        }
        let mut shape = Vec::new();
        let mut rest = elements;
        while let Some(first) = rest.first() {
            let (name, taken) = self.size_of(rest).unwrap_or((first, 1));
            let is_number = name.starts_with(|c: char| c.is_ascii_digit());
            let is_size = self.sizes.contains(name);
            if is_number && name.parse::<u64>().is_err()
                || !is_number && !is_size && self.names.contains(name)
            {
                return None;
            }
            shape.push(name.clone());
            rest = &rest[taken..];
        }
        Some(shape)
    }

    /// The size whose value is the product that `elements` begin with, and how many of them.
    fn size_of<'s>(&'s self, elements: &[String]) -> Option<(&'s String, usize)> {
        let sizes =
            self.names.iter().zip(self.passed).filter(|(name, _)| self.sizes.contains(name));
        let values = sizes.filter_map(|(name, passed)| Some((name, passed.value.as_deref()?)));
        let begins = values.filter(|(_, value)| !value.is_empty() && elements.starts_with(value));
        begins.map(|(name, value)| (name, value.len())).max_by_key(|(_, taken)| *taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn told(function: &str, sizes: &str, call: &[(&str, &str)]) -> String {
        let passed = |(elements, value): &(&str, &str)| Passed {
            ty: None,
            elements: (*elements != "-").then(|| words(elements)),
            value: (!value.is_empty()).then(|| words(value)),
        };
        let passed: Vec<Passed> = call.iter().map(passed).collect();
        let (names, sizes) = (words(function), words(sizes));
        let allocated = Allocated { passed: &passed, names: &names, sizes: &sizes };
        let shape = |place| allocated.shape(place).map_or("?".to_owned(), |shape| shape.join("x"));
        (0..names.len()).map(shape).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn allocations_tell_shapes_in_the_names_of_the_function() {
        let call = [("B T C", ""), ("V C", ""), ("", ""), ("1024", ""), ("-", "B T"), ("-", "C")];
        assert_eq!(told("out wte one part n cols", "n cols", &call), "nxcols Vxcols 1 1024 ? ?");
        let call = [("B T 3 C", ""), ("out C", ""), ("-", "B"), ("-", "T"), ("-", "64")];
        assert_eq!(told("out inp B T C", "B T C", &call), "BxTx3xC ? ? ? ?");
    }
}
