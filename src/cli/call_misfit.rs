//! Refuses a replay whose call differs from the functions that it calls: the harness's fault, unless a trusted revision
//! ran with it.

use ::replay::fixture::Fixture;
use ::replay::trial::Outcome;

use super::error::{CliResult, CommandError};

/// The error for `outcome`, a replay of `fixture`, if its call does not fit. Beside a trusted `base` that ran with the
/// same call, the revision is at fault, and there is no error.
pub fn refuse_call_misfit(
    fixture: &Fixture,
    outcome: &Outcome,
    base: Option<&Outcome>,
) -> CliResult<()> {
    let has_fitted = base.is_some_and(|base| base.call_misfit().is_none());
    match outcome.call_misfit().filter(|_| !has_fitted) {
        Some(detail) => {
            let harness = fixture.harness.path.display();
            let hint = "give each result a name in the call, `_` for one that is no output; give a tensor the dtype and the \
                        shape of the function in the harness and in the fixture, or convert it in the call: \
                        `at::Tensor(x).to(at::kHalf)`";
            Err(CommandError::new(format!("the call of {harness} does not fit: {detail}"))
                .with_hint(hint))
        }
        None => Ok(()),
    }
}
