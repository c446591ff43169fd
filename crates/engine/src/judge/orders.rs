//! Whether outputs depend on the order of blocks and threads.

use crate::backend::{Ability, Mode, ReplayError, Variant};
use crate::trial::{ORDERS, OrderDependence, Outcome, Status, Trial};
use crate::worker::{Ending, Run};
use replay_base::summary::{POISON_A, summarize_tensor};
use replay_runtime::cpu::order::Order;

/// The outputs of `trial` that depend on the order of blocks and threads; none if it did not
/// complete. Where other orders give the same bits, nothing else is replayed.
///
/// # Errors
/// [`ReplayError`] if the machine or the fixture is at fault.
pub fn find_order_dependences(trial: &Trial) -> Result<Vec<OrderDependence>, ReplayError> {
    let outcome = trial.outcome()?;
    let Some(variant) = trial.variant()?.filter(|_| outcome.status == Status::Completed) else {
        return Ok(Vec::new());
    };
    trial.lab().remember(&trial.key_of("orders")?, || {
        if !variant.for_noise().can(Ability::Order) {
            return Ok(Vec::new());
        }
        // A reference with other orders has bits of its own.
        let by_bits = variant.reference().is_none() && trial.known_noise()?.is_none();
        if by_bits && same_in_all_orders(trial, variant)? {
            return Ok(Vec::new());
        }
        Ok(trial.noise()?.into_iter().filter_map(|noise| noise.order).collect())
    })
}

fn same_in_all_orders(trial: &Trial, variant: &dyn Variant) -> Result<bool, ReplayError> {
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
        let mut go_on = true;
        let mut all_same = true;
        variant.run_each(part, variant.at_once(None), &mut |_, run| {
            go_on &= !matches!(run.ending, Ending::TimedOut(..));
            all_same &= has_outputs_of(&run, outcome);
            Ok(())
        })?;
        if !all_same || !go_on {
            return Ok(all_same);
        }
    }
    Ok(true)
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
