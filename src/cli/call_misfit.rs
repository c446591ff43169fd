//! Refuses a replay whose call differs from the functions that it calls: the harness's fault, unless a trusted revision
//! ran with it.

use ::replay::fixture::Fixture;
use ::replay::runtime::report::CALL_MISFIT;
use ::replay::trial::{Failure, Outcome, Status};

use super::error::{CliResult, CommandError};

/// The error for `outcome`, a replay of `fixture`, if its call does not fit. Beside a trusted `base` that ran with the
/// same call, the revision is at fault, and there is no error.
pub fn refuse_call_misfit(
    fixture: &Fixture,
    outcome: &Outcome,
    base: Option<&Outcome>,
) -> CliResult<()> {
    let has_fitted = base.is_some_and(|base| find_misfit(base).is_none());
    match find_misfit(outcome).filter(|_| !has_fitted) {
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

/// How the call of `outcome` differs from its functions, in words.
fn find_misfit(outcome: &Outcome) -> Option<&str> {
    let Status::Failed(failures) = &outcome.status else { return None };
    failures.iter().find_map(|failure| match failure {
        Failure::Fault { fault } if fault.what == CALL_MISFIT => Some(fault.detail.as_str()),
        _ => None,
    })
}
