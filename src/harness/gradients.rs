//! Resolves the differentiated output and the upstream gradient.

use super::{Harness, HarnessError, OutputSpec, TextSpot, find_nearest_word};

/// Checks `gradient_of`, `of` and `upstream` of every output, and fills in `of` where only one
/// output is possible. `spot` returns the place where a tensor is declared.
pub(super) fn resolve_gradients(
    harness: &mut Harness,
    spot: &dyn Fn(&str) -> Box<TextSpot>,
) -> Result<(), HarnessError> {
    let loss = find_loss_output(harness);
    for index in 0..harness.outputs.len() {
        let name = &harness.outputs.keys()[index].clone();
        let spec = &harness.outputs[index];
        let differentiated_output = resolve_gradient_output(harness, name, spec, loss.as_deref())
            .map_err(|fault| {
            let GradientFault { problem, nearest } = fault;
            HarnessError::Gradient { spot: spot(name), output: name.clone(), problem, nearest }
        })?;
        harness.outputs[index].of = differentiated_output;
    }
    Ok(())
}

/// The scalar float output called `loss`, or else the only scalar float output besides gradients.
pub(super) fn find_loss_output(harness: &Harness) -> Option<String> {
    let outputs = harness.outputs.iter();
    let scalar_outputs = outputs.filter(|(_, spec)| {
        spec.shape.is_empty() && spec.dtype.is_float() && spec.gradient_of.is_none()
    });
    let mut scalars = scalar_outputs.map(|(name, _)| name);
    let first = scalars.next()?;
    match scalars.next() {
        None => Some(first.clone()),
        Some(second) => {
            [first, second].into_iter().chain(scalars).find(|name| *name == "loss").cloned()
        }
    }
}

/// A fault in the declaration of a gradient.
struct GradientFault {
    /// In words.
    problem: String,
    /// A similar name.
    nearest: Option<String>,
}

impl GradientFault {
    fn new(problem: impl Into<String>, nearest: Option<String>) -> GradientFault {
        GradientFault { problem: problem.into(), nearest }
    }
}

/// The differentiated output of the gradient `name`, if it is one.
fn resolve_gradient_output(
    harness: &Harness,
    name: &str,
    spec: &OutputSpec,
    loss: Option<&str>,
) -> Result<Option<String>, GradientFault> {
    let Some(input) = &spec.gradient_of else {
        return match (&spec.of, &spec.upstream) {
            (None, None) => Ok(None),
            (Some(_), _) => {
                Err(GradientFault::new("`of` means nothing without `gradient_of`", None))
            }
            (_, Some(_)) => {
                Err(GradientFault::new("`upstream` means nothing without `gradient_of`", None))
            }
        };
    };
    let Some(input_spec) = harness.inputs.get(input) else {
        let nearest_name = find_nearest_word(input, harness.inputs.keys().map(String::as_str));
        return Err(GradientFault::new(
            format!("`gradient_of` names `{input}`, which is not an input"),
            nearest_name,
        ));
    };
    if !input_spec.dtype.is_float() || !spec.dtype.is_float() {
        return Err(GradientFault::new(
            format!("it and `{input}` must both be floating point"),
            None,
        ));
    }
    if input_spec.shape != spec.shape {
        return Err(GradientFault::new(
            format!("it has another shape than `{input}`, whose gradient it is"),
            None,
        ));
    }
    let differentiated_output = spec.of.as_deref().or(loss);
    let Some(differentiated_output) = differentiated_output else {
        return match &spec.upstream {
            None => Ok(None),
            Some(_) => {
                Err(GradientFault::new("`upstream` needs `of`, the output it flows into", None))
            }
        };
    };
    let Some(of_spec) = harness.outputs.get(differentiated_output) else {
        let nearest_name =
            find_nearest_word(differentiated_output, harness.outputs.keys().map(String::as_str));
        return Err(GradientFault::new(
            format!("`of` names `{differentiated_output}`, which is not an output"),
            nearest_name,
        ));
    };
    if differentiated_output == name || !of_spec.dtype.is_float() {
        return Err(GradientFault::new(
            format!("`of` names `{differentiated_output}`, which cannot be differentiated"),
            None,
        ));
    }
    match upstream_fault(harness, spec, differentiated_output, of_spec) {
        None => Ok(Some(differentiated_output.to_owned())),
        Some(fault) => Err(fault),
    }
}

/// The fault in the upstream gradient of `spec`. It flows into `differentiated_output`.
fn upstream_fault(
    harness: &Harness,
    spec: &OutputSpec,
    differentiated_output: &str,
    of_spec: &OutputSpec,
) -> Option<GradientFault> {
    let Some(upstream) = &spec.upstream else {
        let problem =
            format!("`{differentiated_output}` is not a scalar, so `upstream` must name an input");
        return (!of_spec.shape.is_empty()).then_some(GradientFault::new(problem, None));
    };
    let Some(upstream_spec) = harness.inputs.get(upstream) else {
        let nearest_name = find_nearest_word(upstream, harness.inputs.keys().map(String::as_str));
        let problem = format!("`upstream` names `{upstream}`, which is not an input");
        return Some(GradientFault::new(problem, nearest_name));
    };
    let fits_output = upstream_spec.dtype.is_float() && upstream_spec.shape == of_spec.shape;
    (!fits_output).then(|| {
        let problem = format!(
            "`upstream` names `{upstream}`, which must be floating point and have the shape of `{differentiated_output}`"
        );
        GradientFault::new(problem, None)
    })
}
