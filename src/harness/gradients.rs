//! Resolves which output is differentiated, and the upstream gradient.

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
        let differentiated_output =
            resolve_gradient_output(harness, name, spec, loss.as_deref(), spot)?;
        harness.outputs[index].of = differentiated_output;
    }
    Ok(())
}

/// The scalar float output called `loss`, or else the only scalar float output that is no gradient.
pub(super) fn find_loss_output(harness: &Harness) -> Option<String> {
    let scalars = |(_, spec): &(&String, &OutputSpec)| {
        spec.shape.is_empty() && spec.dtype.is_float() && spec.gradient_of.is_none()
    };
    let mut scalars = harness.outputs.iter().filter(scalars).map(|(name, _)| name);
    let first = scalars.next()?;
    match scalars.next() {
        None => Some(first.clone()),
        Some(second) => {
            [first, second].into_iter().chain(scalars).find(|name| *name == "loss").cloned()
        }
    }
}

/// The output that `name` is a gradient of, if it is one.
fn resolve_gradient_output(
    harness: &Harness,
    name: &str,
    spec: &OutputSpec,
    loss: Option<&str>,
    spot: &dyn Fn(&str) -> Box<TextSpot>,
) -> Result<Option<String>, HarnessError> {
    let fail = |problem: String, nearest| {
        let spot = spot(name);
        let output = name.to_owned();
        Err(HarnessError::Gradient { spot, output, problem, nearest })
    };
    let Some(input) = &spec.gradient_of else {
        return match (&spec.of, &spec.upstream) {
            (None, None) => Ok(None),
            (Some(_), _) => fail("`of` means nothing without `gradient_of`".into(), None),
            (_, Some(_)) => fail("`upstream` means nothing without `gradient_of`".into(), None),
        };
    };
    let Some(input_spec) = harness.inputs.get(input) else {
        let nearest_name = find_nearest_word(input, harness.inputs.keys().map(String::as_str));
        return fail(format!("`gradient_of` names `{input}`, which is not an input"), nearest_name);
    };
    if !input_spec.dtype.is_float() || !spec.dtype.is_float() {
        return fail(format!("it and `{input}` must both be floating point"), None);
    }
    if input_spec.shape != spec.shape {
        return fail(format!("it has another shape than `{input}`, whose gradient it is"), None);
    }
    let differentiated_output = spec.of.as_deref().or(loss);
    let Some(differentiated_output) = differentiated_output else {
        return match &spec.upstream {
            None => Ok(None),
            Some(_) => fail("`upstream` needs `of`, the output it flows into".into(), None),
        };
    };
    let Some(of_spec) = harness.outputs.get(differentiated_output) else {
        let nearest_name =
            find_nearest_word(differentiated_output, harness.outputs.keys().map(String::as_str));
        return fail(
            format!("`of` names `{differentiated_output}`, which is not an output"),
            nearest_name,
        );
    };
    if differentiated_output == name || !of_spec.dtype.is_float() {
        return fail(
            format!("`of` names `{differentiated_output}`, which cannot be differentiated"),
            None,
        );
    }
    match upstream_fault(harness, spec, differentiated_output, of_spec) {
        None => Ok(Some(differentiated_output.to_owned())),
        Some((problem, nearest_name)) => fail(problem, nearest_name),
    }
}

/// Why what `spec` says of the gradient that flows into its output `differentiated_output` does not fit, with the name that
/// may have been meant.
fn upstream_fault(
    harness: &Harness,
    spec: &OutputSpec,
    differentiated_output: &str,
    of_spec: &OutputSpec,
) -> Option<(String, Option<String>)> {
    let Some(upstream) = &spec.upstream else {
        let problem =
            format!("`{differentiated_output}` is not a scalar, so `upstream` must name an input");
        return (!of_spec.shape.is_empty()).then_some((problem, None));
    };
    let Some(upstream_spec) = harness.inputs.get(upstream) else {
        let nearest_name = find_nearest_word(upstream, harness.inputs.keys().map(String::as_str));
        return Some((
            format!("`upstream` names `{upstream}`, which is not an input"),
            nearest_name,
        ));
    };
    let fits_output = upstream_spec.dtype.is_float() && upstream_spec.shape == of_spec.shape;
    let problem = || {
        format!(
            "`upstream` names `{upstream}`, which must be floating point and have the shape of `{differentiated_output}`"
        )
    };
    (!fits_output).then(|| (problem(), None))
}
