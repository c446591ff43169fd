//! Outputs with a dependence on the order of blocks and threads: a race, or a missing barrier.
//!
//! Another order moves a sum by rounding. An element that moves by far more than rounding, in the
//! order of the indices and in the other order, depends on the order: the sources do not determine
//! its value.

use serde::{Deserialize, Serialize};

use super::Trial;
use super::measurement::{accumulate_deviations, convert_numerics_error};
use crate::backend::{Ability, Mode, ReplayError, Variant};
use crate::worker::Run;
use replay_base::scratch::Scratch;
use replay_base::summary::{Number, POISON_A};
use replay_base::tensor::{TensorView, unravel_index};
use replay_fixture::fixture::Fixture;
use replay_numerics::bitmap::Bitmap;
use replay_numerics::constants::ORDER_FACTOR;
use replay_numerics::noise::{NoiseAccumulator, NoiseSource, Ordered, Spread};
use replay_numerics::slices::{describe_location, locate_elements};
use replay_runtime::cpu::Rounding;

/// An output with a dependence on the order of blocks and threads beyond rounding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct OrderDependence {
    /// The output.
    pub output: String,
    /// The number of dependent elements.
    pub elements: u64,
    /// The number of all its elements.
    pub count: u64,
    /// The element with the largest move, in multiples of its rounding.
    pub index: Vec<usize>,
    /// Its value in the order of the indices.
    #[serde(with = "Number")]
    pub value: f64,
    /// Its value in another order.
    #[serde(with = "Number")]
    pub other: f64,
    /// How far rounding alone moves it.
    #[serde(with = "Number")]
    pub rounding: f64,
    /// The location of the elements, in words.
    pub place: Option<String>,
}

impl Trial {
    /// The outputs that depend on the order, with the elements that do. Elements that the replays
    /// in `accumulators` make suspect are also compared with rounding in the other `orders`.
    pub(super) fn ordered(
        &self,
        variant: &dyn Variant,
        centre: &Run,
        accumulators: &[(String, NoiseAccumulator)],
        orders: &[u64],
    ) -> Result<Vec<(Ordered, OrderDependence)>, ReplayError> {
        let mut suspects: Vec<Suspect> = Vec::new();
        for (name, accumulator) in accumulators {
            let Some(view) = centre.output(name) else { continue };
            if let Some(ordered) = convert_numerics_error(accumulator.ordered(&view))? {
                suspects.push(Suspect { name, ordered, confirmed: Vec::new(), worst: None });
            }
        }
        let can_measure = variant.can(Ability::Order) && variant.can(Ability::Rounding);
        if suspects.is_empty() || !can_measure {
            return Ok(Vec::new());
        }
        let scratch = self.lab.scratch();
        for &order in orders {
            let nearest = Mode { order, rounding: Rounding::Nearest, ..Mode::plain(POISON_A) };
            let nearest_run = variant.run(&nearest)?;
            let mut rounded_accumulators = self.accumulators(&nearest_run, |name| {
                suspects.iter().any(|suspect| suspect.name == name)
            })?;
            for rounding in [Rounding::Down, Rounding::Up] {
                let rounded_run =
                    variant.run(&Mode { order, rounding, ..Mode::plain(POISON_A) })?;
                accumulate_deviations(
                    &mut rounded_accumulators,
                    &nearest_run,
                    &rounded_run,
                    NoiseSource::Rounding,
                );
            }
            for suspect in &mut suspects {
                suspect.confirm(centre, &nearest_run, &rounded_accumulators, scratch)?;
            }
        }
        let mut dependences = Vec::new();
        for suspect in suspects {
            dependences.extend(suspect.convict(self.fixture(), centre, scratch)?);
        }
        Ok(dependences)
    }
}

/// An output moved by another order.
struct Suspect<'a> {
    name: &'a str,
    ordered: Ordered,
    confirmed: Vec<Bitmap>,
    worst: Option<LargestMove>,
}

#[derive(Clone, Copy)]
struct LargestMove {
    index: usize,
    value: f64,
    other: f64,
    rounding: f64,
    ratio: f64,
}

impl Suspect<'_> {
    /// Keeps the suspect elements moved by `nearest_run`, a replay in another order, further than
    /// rounding explains in its order.
    fn confirm(
        &mut self,
        centre: &Run,
        nearest_run: &Run,
        rounded_accumulators: &[(String, NoiseAccumulator)],
        scratch: &Scratch,
    ) -> Result<(), ReplayError> {
        let accumulator = rounded_accumulators.iter().find(|(name, _)| name == self.name);
        let (Some(base), Some(nearest_view), Some((_, accumulator))) =
            (centre.output(self.name), nearest_run.output(self.name), accumulator)
        else {
            return Ok(());
        };
        let other_rounding = convert_numerics_error(accumulator.rounding(&nearest_view))?;
        let base_rounding = &self.ordered.rounding;
        let judge = |index: usize| {
            measure_move(&base, &nearest_view, index, base_rounding, &other_rounding)
        };
        let confirmed_elements = Bitmap::in_scratch(scratch, base.len(), |index| {
            self.ordered.elements.contains(index) && judge(index).ratio > ORDER_FACTOR
        })?;
        for worst in confirmed_elements.ones().map(judge) {
            if self.worst.is_none_or(|known_worst| worst.ratio > known_worst.ratio) {
                self.worst = Some(worst);
            }
        }
        self.confirmed.push(confirmed_elements);
        Ok(())
    }

    fn convict(
        self,
        fixture: &Fixture,
        centre: &Run,
        scratch: &Scratch,
    ) -> Result<Option<(Ordered, OrderDependence)>, ReplayError> {
        let output = fixture.outputs.iter().find(|output| output.name == self.name);
        let (Some(worst), Some(view), Some(output)) =
            (self.worst, centre.output(self.name), output)
        else {
            return Ok(None);
        };
        let elements = Bitmap::in_scratch(scratch, view.len(), |index| {
            self.confirmed.iter().any(|confirmed_elements| confirmed_elements.contains(index))
        })?;
        let location = locate_elements(&elements, &output.dims, &[], scratch)?;
        let dependence = OrderDependence {
            output: self.name.to_owned(),
            elements: elements.count(),
            count: view.len() as u64,
            index: unravel_index(worst.index, view.shape),
            value: worst.value,
            other: worst.other,
            rounding: worst.rounding,
            place: location.as_ref().map(describe_location),
        };
        Ok(Some((Ordered { elements, rounding: self.ordered.rounding }, dependence)))
    }
}

/// How far element `index` moved, as a multiple of its rounding: the larger one of both orders.
fn measure_move(
    base: &TensorView,
    other_view: &TensorView,
    index: usize,
    base_rounding: &Spread,
    other_rounding: &Spread,
) -> LargestMove {
    let value = base.get_f64(index);
    let other = other_view.get_f64(index);
    let rounding = base_rounding.value_at(index).max(other_rounding.value_at(index));
    let difference = if value.is_finite() == other.is_finite() && value.is_finite() {
        (value - other).abs()
    } else if value.to_bits() == other.to_bits() || (value.is_nan() && other.is_nan()) {
        0.0
    } else {
        f64::INFINITY
    };
    let ratio = if rounding.is_infinite() { 0.0 } else { difference / rounding };
    LargestMove { index, value, other, rounding, ratio }
}
