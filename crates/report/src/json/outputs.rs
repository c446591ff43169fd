//! One output of one revision against another, in every document that compares revisions.

use serde::Serialize;

use crate::judgement::estimate_significant_digits;

use replay_base::tensor::{DType, Dim};
use replay_engine::judge::{Judgement, OutputJudgement, Verdict};
use replay_engine::trial::{Nondeterminism, OrderDependence, Probe};
use replay_numerics::compare::Comparison;
use replay_numerics::drift::Drift;
use replay_numerics::noise::NoiseSummary;
use replay_numerics::oracle::{Accuracy, Finding};
use replay_numerics::shadow::ShadowChange;
use replay_numerics::slices::Location;

/// One output of one revision against another.
#[derive(Serialize, schemars::JsonSchema)]
#[schemars(rename = "OutputJudgement")]
pub(super) struct JudgedOutput<'a> {
    /// Its name.
    name: &'a str,
    /// The element type.
    dtype: DType,
    /// The dimensions.
    dims: &'a [Dim],
    /// Whether the two sides agree.
    verdict: Verdict,
    /// The elements that either side left unwritten: the verdict is on the others.
    unwritten: u64,
    /// The comparison, element by element.
    comparison: &'a Comparison,
    /// The noise of the trusted side.
    base_noise: &'a NoiseSummary,
    /// The noise of the other side.
    got_noise: &'a NoiseSummary,
    /// The meaning of the change; none where no truth is known.
    finding: Option<Finding>,
    /// The trusted side against the oracle, or the trusted shadow where none is declared.
    base_accuracy: Option<&'a Accuracy>,
    /// The other side against the same.
    got_accuracy: Option<&'a Accuracy>,
    /// Where no truth is known, about how many decimal digits hold of the trusted side and of the other one, by the furthest
    /// of the replays with other rounding.
    significant_digits: Option<[f64; 2]>,
    /// Whether the accuracies are against an oracle that the fixture declares.
    by_oracle: bool,
    /// How the float64 shadow changed.
    shadow: Option<&'a ShadowChange>,
    /// Why one of both sides has no shadow of this output, if so and others have one.
    without_shadow: Option<&'a str>,
    /// A shift of many elements that none of them shows, where there are no shadows of both sides.
    drift: Option<&'a Drift>,
    /// The location of the elements beyond noise; of those whose shadow moved, where rounding hides it.
    location: Option<&'a Location>,
    /// The location in words.
    place: Option<&'a str>,
    /// Whole slices that are zero where the trusted side is not, in words.
    zero_slices: &'a [String],
    /// The location as a picture: rows are the leading dimensions, columns the last; none if the
    /// words say as much.
    map: Option<&'a str>,
    /// How two identical replays of the other side differ, if they do.
    nondeterminism: Option<&'a Nondeterminism>,
    /// What moved it on either side, and so told its noise.
    probes: &'a [Probe],
    /// How the other side depends on the order of blocks and threads, if it does.
    order: Option<&'a OrderDependence>,
}

/// The outputs of `judgement`, as documents have them.
pub(super) fn judged_outputs(judgement: &Judgement) -> Vec<JudgedOutput<'_>> {
    judgement.outputs.iter().map(judged_output).collect()
}

fn judged_output(output: &OutputJudgement) -> JudgedOutput<'_> {
    JudgedOutput {
        name: &output.name,
        dtype: output.dtype,
        dims: &output.dims,
        verdict: output.story.verdict(),
        unwritten: output.unwritten,
        comparison: &output.comparison,
        base_noise: &output.base_noise,
        got_noise: &output.got_noise,
        finding: output.story.finding(),
        base_accuracy: output.base_accuracy.as_ref(),
        got_accuracy: output.got_accuracy.as_ref(),
        significant_digits: estimate_significant_digits(output),
        by_oracle: output.by_oracle,
        shadow: output.shadow.as_ref(),
        without_shadow: output.without_shadow.as_deref(),
        drift: output.story.drift(),
        location: output.location.as_ref(),
        place: output.place.as_deref(),
        zero_slices: &output.zero_slices,
        map: output.map.as_deref(),
        nondeterminism: output.nondeterminism.as_ref(),
        probes: &output.probes,
        order: output.order.as_ref(),
    }
}
