//! Judges one output of one revision by the same output of a trusted one.

use super::masks::Masks;
use super::side::Side;
use super::{OutputJudgement, Verdict};
use crate::backend::ReplayError;
use crate::fixture::Fixture;
use crate::numerics::compare::{Agreement, beyond_noise, compare};
use crate::numerics::constants::{ERROR_RATIO, NARROW_ROUNDING};
use crate::numerics::noise::{NoiseRef, NoiseSummary, Spread};
use crate::numerics::oracle::{
    Accuracy, Evidence, Finding, ShadowChange, against_oracle, finding, shadow_change,
};
use crate::numerics::slices::{Location, block_map, describe, has_shape, locate};
use crate::numerics::zeros::zero_slices;
use crate::scratch::Scratch;
use crate::tensor::{Dim, TensorView};
use crate::trial::room;

/// One output of both sides, with everything known about them.
pub(super) struct Pair<'a> {
    /// The fixture that both sides were replayed on.
    pub(super) fixture: &'a Fixture,
    /// The trusted side.
    pub(super) base: &'a Side<'a>,
    /// The other side.
    pub(super) got: &'a Side<'a>,
    /// The output that the trusted side gave.
    pub(super) base_view: TensorView<'a>,
    /// The output that the other side gave.
    pub(super) got_view: TensorView<'a>,
    /// Space for values of every element.
    pub(super) scratch: &'a Scratch,
}

impl Pair<'_> {
    /// Judges the output, which has `name` and `dims`.
    ///
    /// # Errors
    /// [`ReplayError`] if there is no room for what is computed of every element.
    pub(super) fn judge(&self, name: &str, dims: &[Dim]) -> Result<OutputJudgement, ReplayError> {
        let noise = NoiseRef {
            base: self.base.measured.noise_of(name),
            got: self.got.measured.noise_of(name),
        };
        let comparison = compare(&self.base_view, &self.got_view, &noise)
            .expect("two runs of one fixture have outputs of one shape");
        let agreement = comparison.verdict;
        let truth = (agreement != Agreement::Identical).then(|| self.truth(name)).flatten();
        let base_noise = self.base.measured.noise_summary(name);
        let imprecise = truth.as_ref().is_some_and(|truth| truth.is_imprecise(&base_noise));
        let verdict = match agreement {
            Agreement::Identical => Verdict::Identical,
            Agreement::Equivalent if imprecise => Verdict::Diverged,
            Agreement::Equivalent => Verdict::Equivalent,
            Agreement::Diverged => Verdict::Diverged,
        };
        let order = self.got.measured.ordered_of(name);
        // A dependence of both sides is no change.
        let new_order = order.is_some() && self.base.measured.ordered_of(name).is_none();
        let verdict = if new_order { Verdict::Diverged } else { verdict };
        let mut judged = OutputJudgement {
            name: name.to_owned(),
            dtype: self.base_view.dtype,
            dims: dims.to_vec(),
            verdict,
            comparison,
            got_noise: self.got.measured.noise_summary(name),
            finding: None,
            base_accuracy: None,
            got_accuracy: None,
            shadow: None,
            location: None,
            place: None,
            zero_slices: Vec::new(),
            map: None,
            nondeterminism: self.got.measured.nondeterminism_of(name),
            order,
            base_noise,
        };
        if let Some(truth) = truth {
            // Within noise the order alone convicts: that it is as accurate as before says nothing.
            let order_alone = new_order && agreement != Agreement::Diverged && !imprecise;
            judged.finding = (!order_alone).then(|| truth.finding(&judged.base_noise));
            judged.base_accuracy = Some(truth.base);
            judged.got_accuracy = Some(truth.got);
            judged.shadow = truth.shadow;
        }
        if agreement == Agreement::Diverged || imprecise {
            // An output that is only imprecise lies within the noise of both sides, not of the
            // trusted one.
            let noise = if imprecise { NoiseRef { got: None, ..noise } } else { noise };
            self.find_place(&mut judged, &noise)?;
        }
        Ok(judged)
    }

    fn find_place(
        &self,
        judged: &mut OutputJudgement,
        noise: &NoiseRef,
    ) -> Result<(), ReplayError> {
        let (base, got, scratch) = (&self.base_view, &self.got_view, self.scratch);
        let beyond = room(beyond_noise(base, got, noise, scratch))?;
        let masks = Masks::of(self.fixture, &judged.dims);
        judged.location = locate(&beyond, &judged.dims, &masks.as_masks(), scratch)?;
        judged.place = judged.location.as_ref().map(describe);
        judged.zero_slices = zero_slices(base, got, &judged.dims, scratch)?;
        let told = judged.location.as_ref().is_none_or(Location::is_exact);
        if judged.dims.len() >= 2 && !told {
            judged.map = Some(block_map(&beyond, base.shape)).filter(|map| has_shape(map));
        }
        Ok(())
    }

    /// How far both sides lie from the captured output, else from the trusted side's shadow.
    fn truth(&self, name: &str) -> Option<Truth> {
        let native = self.base_view.dtype;
        if !native.is_float() {
            return None;
        }
        let noise = NoiseRef {
            base: self.base.measured.noise_of(name),
            got: self.got.measured.noise_of(name),
        };
        let shadows = self.base.shadow_of(name).zip(self.got.shadow_of(name));
        let shadow =
            shadows.and_then(|(base, got)| shadow_change(&base, &got, native, &noise).ok());
        let expected = self.fixture.expected.iter().find(|expected| expected.name == name);
        let shape = expected.map(|expected| expected.shape());
        let oracle = match (expected, &shape) {
            (Some(expected), Some(shape)) => {
                TensorView { dtype: expected.dtype, shape, bytes: expected.bytes() }
            }
            _ => self.base.shadow_of(name)?,
        };
        let against = |view: &TensorView, own: Option<&Spread>| {
            against_oracle(view, &oracle, &NoiseRef { base: own, got: None }).ok()
        };
        Some(Truth {
            base: against(&self.base_view, noise.base)?,
            got: against(&self.got_view, noise.base)?,
            shadow,
            independent_oracle: expected.is_some(),
        })
    }
}

/// How far both sides lie from the oracle.
struct Truth {
    base: Accuracy,
    got: Accuracy,
    shadow: Option<ShadowChange>,
    independent_oracle: bool,
}

impl Truth {
    fn finding(&self, base_noise: &NoiseSummary) -> Finding {
        finding(&Evidence {
            shadow: self.shadow,
            base_error: self.base.relative_l2,
            got_error: self.got.relative_l2,
            noise: base_noise.relative_l2,
            independent_oracle: self.independent_oracle,
        })
    }

    /// Whether the other side lost more than arithmetic in float32 loses: it rounds to a narrow
    /// format where the trusted side does not. Its own noise is then as large as its error, and
    /// would excuse it.
    fn is_imprecise(&self, base_noise: &NoiseSummary) -> bool {
        let before = self.base.relative_l2.max(base_noise.relative_l2);
        self.got.relative_l2 > NARROW_ROUNDING && self.got.relative_l2 > ERROR_RATIO * before
    }
}
