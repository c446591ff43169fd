//! Whether outputs depend on the order of blocks and threads.

use serde::{Deserialize, Serialize};

use crate::backend::{Ability, Mode, ReplayError, Variant};
use crate::trial::{Failure, ORDERS, OrderDependence, Outcome, Status, Trial, failure_of};
use crate::worker::Run;
use replay_base::summary::{POISON_A, summarize_tensor};
use replay_runtime::cpu::order::Order;

/// The replays in other orders of blocks and threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OrderCheck {
    /// The outputs that depend on the order.
    pub dependences: Vec<OrderDependence>,
    /// The end of the call in another order, where it has no outputs to compare.
    pub failure: Option<Failure>,
}

/// Replays `trial` in other orders, if it completed. Where they give the same bits, nothing else is replayed.
///
/// # Errors
/// [`ReplayError`] if the machine or the fixture is at fault.
pub fn check_orders(trial: &Trial) -> Result<OrderCheck, ReplayError> {
    let outcome = trial.outcome()?;
    let Some(variant) = trial.variant()?.filter(|_| outcome.status == Status::Completed) else {
        return Ok(OrderCheck::default());
    };
    trial.lab().remember(&trial.key_of("orders")?, || {
        if !variant.for_noise().can(Ability::Order) {
            return Ok(OrderCheck::default());
        }
        // A reference with other orders has bits of its own.
        let by_bits = variant.reference().is_none() && trial.known_noise()?.is_none();
        let bits = if by_bits { compare_bits(trial, variant)? } else { OrderedBits::Differ };
        match bits {
            OrderedBits::Same => Ok(OrderCheck::default()),
            OrderedBits::Failed(failure) => {
                Ok(OrderCheck { dependences: Vec::new(), failure: Some(failure) })
            }
            OrderedBits::Differ => {
                let noises = trial.noise()?.into_iter();
                let dependences = noises.filter_map(|noise| noise.order).collect();
                Ok(OrderCheck { dependences, failure: None })
            }
        }
    })
}

/// The bits of the outputs in other orders, beside those in the order of the indices.
enum OrderedBits {
    Same,
    Differ,
    /// In one of them the call has no outputs.
    Failed(Failure),
}

fn compare_bits(trial: &Trial, variant: &dyn Variant) -> Result<OrderedBits, ReplayError> {
    let _span = tracing::info_span!("orders", message = trial.fixture().name);
    let outcome = trial.outcome()?;
    // Each replay of a program takes a process, and the opposite order turns every pair around.
    let is_program = trial.fixture().harness.program.is_some();
    let orders: &[u64] = if is_program { &[Order::REVERSED.0] } else { &ORDERS };
    let modes: Vec<Mode> =
        orders.iter().map(|&order| Mode { order, ..Mode::plain(POISON_A) }).collect();
    // Blocks that wait for earlier ones come to no end in any other order, each as late as the first.
    let (first, others) = modes.split_at(1);
    for part in [first, others] {
        let mut failure = None;
        let mut all_same = true;
        variant.run_each(part, variant.at_once(None), &mut |_, run| {
            match failure_of(&run.ending) {
                Some(end) => failure = Some(end),
                None => all_same &= has_outputs_of(&run, outcome),
            }
            Ok(())
        })?;
        if let Some(failure) = failure {
            return Ok(OrderedBits::Failed(failure));
        }
        if !all_same {
            return Ok(OrderedBits::Differ);
        }
    }
    Ok(OrderedBits::Same)
}

/// Whether all outputs of `run` have the bits of `outcome`.
fn has_outputs_of(run: &Run, outcome: &Outcome) -> bool {
    run.outputs().all(|(output, view)| {
        let plain_record = outcome.outputs.iter().find(|record| record.name == output.name);
        plain_record.is_some_and(|plain_record| {
            plain_record.summary.checksum == summarize_tensor(&view, None).checksum
        })
    })
}
