//! The roles of tensors: declared by a harness, or told by names.
//!
//! docs/series.md lists the names.

use indexmap::IndexMap;

use super::path::to_parameter_path;
use replay_base::tensor::DType;
use replay_fixture::harness::{Harness, Role};

/// The tensors of a harness, by their roles in a step of a training.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TensorCatalogue {
    /// The floating-point tensors with kept numbers: inputs, then outputs.
    pub tensors: Vec<Tracked>,
    /// The parameters, and whatever else has a gradient, in the order of the harness.
    pub parameters: Vec<ParameterTensors>,
    /// The tensors of one number each, by role.
    scalars: Vec<(Role, String)>,
    /// The tokens, the targets, and the mask of counting ones.
    pub(super) language: Option<Language>,
}

/// A tensor with kept numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracked {
    /// Its name in the harness.
    pub name: String,
    /// Whether it is an output.
    pub is_output: bool,
}

/// The tensors of one parameter, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParameterTensors {
    /// Its name, with dots between the parts.
    pub path: String,
    /// The parameter itself.
    pub weight: Option<String>,
    /// The same after the step.
    pub after: Option<String>,
    /// The step's addend to it.
    pub update: Option<String>,
    /// The gradient with respect to it.
    pub gradient: Option<String>,
    /// Adam's first moment.
    pub exp_avg: Option<String>,
    /// Adam's second moment.
    pub exp_avg_sq: Option<String>,
}

impl ParameterTensors {
    /// Whether it is trained, as far as the tensors show: it changes, or Adam keeps moments of it. Anything else with a
    /// gradient is a value on the way, such as logits.
    pub fn is_trained(&self) -> bool {
        let related_names = [&self.after, &self.update, &self.exp_avg, &self.exp_avg_sq];
        self.gradient.is_none() || related_names.iter().any(|name| name.is_some())
    }
}

/// The tensors of a language model's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Language {
    pub(super) tokens: String,
    pub(super) targets: String,
    pub(super) mask: Option<String>,
}

/// A role with the path of its parameter.
type AffixRole = fn(String) -> Role;

/// A declared tensor of a harness.
struct HarnessTensor<'h> {
    name: &'h str,
    dtype: DType,
    is_scalar: bool,
    is_output: bool,
    gradient_of: Option<&'h str>,
}

impl TensorCatalogue {
    /// The catalogue of the declared tensors of `harness`.
    pub fn from_harness(harness: &Harness) -> TensorCatalogue {
        let inputs = harness.inputs.iter().map(|(name, spec)| HarnessTensor {
            name,
            dtype: spec.dtype,
            is_scalar: spec.shape.is_empty(),
            is_output: false,
            gradient_of: None,
        });
        let outputs = harness.outputs.iter().map(|(name, spec)| HarnessTensor {
            name,
            dtype: spec.dtype,
            is_scalar: spec.shape.is_empty(),
            is_output: true,
            gradient_of: spec.gradient_of.as_deref(),
        });
        let declared_tensors: Vec<HarnessTensor<'_>> = inputs.chain(outputs).collect();
        let mut catalogue = TensorCatalogue::default();
        let mut parameters: IndexMap<String, ParameterTensors> = IndexMap::new();
        let mut language = [None, None];
        let loss = harness.loss();
        for declared in &declared_tensors {
            let role = harness.roles.get(declared.name).cloned();
            let role =
                role.unwrap_or_else(|| infer_tensor_role(declared, harness, loss.as_deref()));
            match &role {
                Role::Tokens => language[0] = Some(declared.name.to_owned()),
                Role::Targets => language[1] = Some(declared.name.to_owned()),
                role if role.is_scalar() => {
                    catalogue.scalars.push((role.clone(), declared.name.to_owned()))
                }
                _ => note_parameter_role(&mut parameters, &role, declared.name),
            }
            if declared.dtype.is_float() && !role.is_scalar() {
                let name = declared.name.to_owned();
                let is_output = declared.is_output;
                catalogue.tensors.push(Tracked { name, is_output });
            }
        }
        settle_weights(&mut parameters, &declared_tensors, harness);
        catalogue.parameters = parameters.into_values().collect();
        if let [Some(tokens), Some(targets)] = language {
            let mask = declared_tensors
                .iter()
                .find(|declared| declared.name == "mask")
                .map(|declared| declared.name.to_owned());
            catalogue.language = Some(Language { tokens, targets, mask });
        }
        catalogue
    }

    /// The name of the tensor of one number with `role`.
    pub(super) fn scalar(&self, role: &Role) -> Option<&str> {
        self.scalars
            .iter()
            .find(|(known_role, _)| known_role == role)
            .map(|(_, name)| name.as_str())
    }

    /// The place of `name` among the tensors with kept numbers.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.tensors.iter().position(|tensor| tensor.name == name)
    }

    /// The gradients in the norm of the whole step: those of trained parameters, or all where no trained parameter is
    /// known. With the places of their tensors.
    pub fn gradients(&self) -> Vec<(&ParameterTensors, usize)> {
        let gradients = self.parameters.iter().filter_map(|parameter| {
            let place = self.place(parameter.gradient.as_ref()?)?;
            Some((parameter, place))
        });
        let gradients: Vec<(&ParameterTensors, usize)> = gradients.collect();
        let trained = gradients.iter().any(|(parameter, _)| parameter.is_trained());
        gradients.into_iter().filter(|(parameter, _)| parameter.is_trained() || !trained).collect()
    }
}

/// Notes the `role` of `name`.
fn note_parameter_role(
    parameters: &mut IndexMap<String, ParameterTensors>,
    role: &Role,
    name: &str,
) {
    let (path, slot): (&String, fn(&mut ParameterTensors) -> &mut Option<String>) = match role {
        Role::Weight(path) => (path, |parameter| &mut parameter.weight),
        Role::WeightAfter(path) => (path, |parameter| &mut parameter.after),
        Role::Update(path) => (path, |parameter| &mut parameter.update),
        Role::Gradient(path) => (path, |parameter| &mut parameter.gradient),
        Role::ExpAvg(path) => (path, |parameter| &mut parameter.exp_avg),
        Role::ExpAvgSq(path) => (path, |parameter| &mut parameter.exp_avg_sq),
        _ => return,
    };
    let path = to_parameter_path(path);
    let entry = parameters.entry(path.clone());
    let parameter =
        entry.or_insert_with(|| ParameterTensors { path, ..ParameterTensors::default() });
    *slot(parameter) = Some(name.to_owned());
}

/// Finds the parameters themselves among the inputs, by their names.
fn settle_weights(
    parameters: &mut IndexMap<String, ParameterTensors>,
    declared_tensors: &[HarnessTensor<'_>],
    harness: &Harness,
) {
    let inputs = declared_tensors
        .iter()
        .filter(|declared| !declared.is_output && declared.dtype.is_float() && !declared.is_scalar);
    for input in inputs.filter(|input| !harness.roles.contains_key(input.name)) {
        if let Some(parameter) = parameters.get_mut(&to_parameter_path(input.name)) {
            parameter.weight.get_or_insert_with(|| input.name.to_owned());
        }
    }
}

/// The role of a tensor by its name, or by its declaration as an output.
fn infer_tensor_role(declared: &HarnessTensor<'_>, harness: &Harness, loss: Option<&str>) -> Role {
    if declared.is_scalar {
        return infer_scalar_role(declared.name, declared.dtype, loss);
    }
    if let Some(weight_path) = declared.gradient_of {
        return Role::Gradient(weight_path.to_owned());
    }
    if !declared.dtype.is_float() {
        return match declared.name {
            "tokens" | "input_ids" => Role::Tokens,
            "targets" | "labels" => Role::Targets,
            _ => Role::None,
        };
    }
    /// Prefixes and suffixes of parameters' names, the longest first.
    const AFFIXES: [(&str, AffixRole); 4] = [
        ("exp_avg_sq", Role::ExpAvgSq),
        ("exp_avg", Role::ExpAvg),
        ("update", Role::Update),
        ("grad", Role::Gradient),
    ];
    for (affix, role) in AFFIXES {
        if let Some(path) = strip_affix(declared.name, affix) {
            return role(path.to_owned());
        }
    }
    match declared.name.strip_suffix("_after").filter(|path| harness.inputs.contains_key(*path)) {
        Some(path) if declared.is_output => Role::WeightAfter(path.to_owned()),
        _ => Role::None,
    }
}

/// The part of `name` behind the prefix `affix_`, or before the suffix `_affix`; none if it is empty.
fn strip_affix<'n>(name: &'n str, affix: &str) -> Option<&'n str> {
    let path_after_prefix = name.strip_prefix(affix).and_then(|rest| rest.strip_prefix('_'));
    let path = path_after_prefix.or_else(|| name.strip_suffix(affix)?.strip_suffix('_'))?;
    (!path.is_empty()).then_some(path)
}

/// The role of a metric, by its name.
pub(super) fn infer_metric_role(name: &str) -> Role {
    infer_scalar_role(name, DType::F64, None)
}

/// The role of one number, by its name.
fn infer_scalar_role(name: &str, dtype: DType, loss: Option<&str>) -> Role {
    match name {
        name if loss == Some(name) => Role::Loss,
        "adam_step" => Role::AdamStep,
        _ if !dtype.is_float() => Role::None,
        "loss" if loss.is_none() => Role::Loss,
        "grad_norm" | "total_norm" => Role::GradNorm,
        "max_norm" => Role::MaxNorm,
        "lr" | "learning_rate" => Role::LearningRate,
        "beta1" => Role::Beta1,
        "beta2" => Role::Beta2,
        "eps" => Role::Epsilon,
        _ => Role::None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The harness with these inputs and outputs, `name: dtype shape`, and more lines.
    pub(crate) fn harness(
        inputs: &[(&str, &str)],
        outputs: &[(&str, &str)],
        more: &str,
    ) -> Harness {
        let table = |kind: &str, (name, keys): &(&str, &str)| format!("[{kind}.{name}]\n{keys}\n");
        let inputs: String = inputs.iter().map(|one| table("inputs", one)).collect();
        let outputs: String = outputs.iter().map(|one| table("outputs", one)).collect();
        let text = format!("sources = [\"a.cu\"]\ncall = \"f();\"\n{inputs}{outputs}{more}");
        Harness::parse(&text, Path::new("replay.toml")).expect("a harness")
    }

    const VECTOR: &str = "dtype = \"f32\"\nshape = [\"n\"]";
    const SCALAR: &str = "dtype = \"f32\"\nshape = []";
    const WORDS: &str = "dtype = \"i32\"\nshape = [\"n\"]";

    #[test]
    fn names_and_gradient_of_tell_the_roles() {
        let inputs = [
            ("layers_0_w", VECTOR),
            ("layers_0_w_exp_avg", VECTOR),
            ("exp_avg_sq_layers_0_w", VECTOR),
            ("lr", SCALAR),
            ("grad_norm", SCALAR),
            ("tokens", WORDS),
            ("targets", WORDS),
            ("logits", VECTOR),
        ];
        let gradient = format!("{VECTOR}\ngradient_of = \"logits\"");
        let outputs = [
            ("loss", SCALAR),
            ("grad_layers_0_w", VECTOR),
            ("layers_0_w_after", VECTOR),
            ("dlogits", gradient.as_str()),
        ];
        let catalogue = TensorCatalogue::from_harness(&harness(&inputs, &outputs, ""));
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(
            catalogue.parameters,
            [
                ParameterTensors {
                    path: "layers.0.w".to_owned(),
                    weight: name("layers_0_w"),
                    after: name("layers_0_w_after"),
                    update: None,
                    gradient: name("grad_layers_0_w"),
                    exp_avg: name("layers_0_w_exp_avg"),
                    exp_avg_sq: name("exp_avg_sq_layers_0_w"),
                },
                ParameterTensors {
                    path: "logits".to_owned(),
                    weight: name("logits"),
                    gradient: name("dlogits"),
                    ..ParameterTensors::default()
                },
            ]
        );
        assert_eq!(catalogue.scalar(&Role::Loss), Some("loss"));
        assert_eq!(catalogue.scalar(&Role::GradNorm), Some("grad_norm"));
        assert_eq!(catalogue.scalar(&Role::LearningRate), Some("lr"));
        assert!(catalogue.language.is_some());
        let global: Vec<&str> =
            catalogue.gradients().iter().map(|(one, _)| one.path.as_str()).collect();
        assert_eq!(global, ["layers.0.w"]);
    }

    #[test]
    fn what_a_harness_declares_wins_over_names() {
        let roles = "[roles]\ngrad_x = \"none\"\ng = \"gradient of net.1\"\nrate = \"lr\"\n";
        let inputs = [("x", VECTOR), ("rate", SCALAR), ("lr", SCALAR)];
        let outputs = [("grad_x", VECTOR), ("g", VECTOR)];
        let catalogue = TensorCatalogue::from_harness(&harness(&inputs, &outputs, roles));
        let paths: Vec<&str> = catalogue.parameters.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, ["net.1"]);
        assert_eq!(catalogue.scalar(&Role::LearningRate), Some("rate"));
    }

    #[test]
    fn without_parameters_every_gradient_counts() {
        let gradient = format!("{VECTOR}\ngradient_of = \"logits\"");
        let outputs = [("loss", SCALAR), ("grad_logits", gradient.as_str())];
        let catalogue =
            TensorCatalogue::from_harness(&harness(&[("logits", VECTOR)], &outputs, ""));
        assert_eq!(catalogue.gradients().len(), 1);
    }
}
