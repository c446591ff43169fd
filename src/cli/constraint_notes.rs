//! Notes on captured inputs off their declared constraint: gradients are checked along it as if they lay on it.

use ::replay::fixture::{Fixture, Input};
use ::replay::report::ReportLine;
use ::replay::tensor::constraint::Constraint;
use ::replay::tensor::{TensorView, unravel_index};

use super::error::CliResult;
use super::progress::Progress;

/// Notes the inputs of `fixture` with a group off their constraint, on standard error.
pub fn note_broken_constraints(fixture: &Fixture) -> CliResult<()> {
    for input in &fixture.inputs {
        if let Some(words) = describe_broken_constraint(input)? {
            let file = match fixture.files.as_slice() {
                [only] => only.path.display().to_string(),
                _ => fixture.name.clone(),
            };
            Progress::start().note(&ReportLine::from(format!("note: {file}: {words}")));
        }
    }
    Ok(())
}

/// The first group of `input` off its constraint, in words; none if all lie on it.
pub fn describe_broken_constraint(input: &Input) -> CliResult<Option<String>> {
    let Some(constraint) = input.constraint.filter(|_| input.present) else { return Ok(None) };
    let shape = input.shape();
    let Some(group_len) = constraint.group_len(&shape).filter(|length| *length > 0) else {
        return Ok(None);
    };
    let packed = input.packed()?;
    let view = TensorView { dtype: input.dtype, shape: &shape, bytes: &packed };
    let count = view.len() / group_len;
    let mut point = vec![0.0; group_len];
    let mut broken_count = 0;
    let mut first_words = None;
    for group in 0..count {
        view.read(group * group_len, &mut point);
        if !constraint.holds(&point) {
            broken_count += 1;
            first_words.get_or_insert_with(|| {
                describe_group(&input.name, &shape, constraint, group, &point)
            });
        }
    }
    Ok(first_words.map(|words| {
        format!(
            "{words}, and its constraint is \"{constraint}\": {broken_count} of {count} lie off it, and gradients are \
             checked along it there too"
        )
    }))
}

/// What keeps `point`, the group number `group`, off `constraint`.
fn describe_group(
    name: &str,
    shape: &[usize],
    constraint: Constraint,
    group: usize,
    point: &[f64],
) -> String {
    let tied_dimensions = if constraint == Constraint::Symmetric { 2 } else { 1 };
    let index = unravel_index(group, &shape[..shape.len() - tied_dimensions]);
    let place = if index.is_empty() { String::new() } else { format!("{index:?}") };
    match constraint {
        Constraint::Unit => {
            let norm = point.iter().map(|x| x * x).sum::<f64>().sqrt();
            format!("{name}{place} has the norm {norm:.4}")
        }
        Constraint::Simplex => {
            let lowest = point.iter().copied().fold(f64::INFINITY, f64::min);
            let sum = point.iter().sum::<f64>();
            format!("{name}{place} has the sum {sum:.4}, and {lowest:.4} as its smallest element")
        }
        Constraint::Symmetric => format!("{name}{place} is not its own transpose"),
    }
}
