//! Judges one output of one revision by the same output of a trusted one.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use super::masks::Masks;
use super::side::Side;
use super::{OutputJudgement, Verdict};
use crate::backend::ReplayError;
use crate::fixture::Fixture;
use crate::numerics::bitmap::Bitmap;
use crate::numerics::compare::{
    Agreement, Unexplained, beyond_noise, compare, is_unexplained, share_beyond,
};
use crate::numerics::constants::{ERROR_RATIO, LOSS_RATIO, LOST_SHARE, NARROW_ROUNDING};
use crate::numerics::drift::{Drift, drift};
use crate::numerics::measure::ulp;
use crate::numerics::noise::{NoiseRef, NoiseSummary, Spread};
use crate::numerics::oracle::{Accuracy, Evidence, Finding, against_oracle, finding};
use crate::numerics::shadow::{Errors, ShadowChange, Shadows, error_without_ties};
use crate::numerics::slices::{Location, block_map, describe, has_shape, locate};
use crate::numerics::zeros::zero_slices;
use crate::scratch::Scratch;
use crate::tensor::{DType, Dim, TensorView};
use crate::trial::{Probe, Reach, both, room, steps_between};

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
    /// How far the difference of the shadows steps, where it was asked for.
    pub(super) steps: OnceLock<Option<Spread>>,
}

impl Pair<'_> {
    /// Judges the output, which has `name` and `dims`.
    ///
    /// # Errors
    /// [`ReplayError`] if the machine or the fixture is at fault.
    pub(super) fn judge(&self, name: &str, dims: &[Dim]) -> Result<OutputJudgement, ReplayError> {
        let noise = self.noise(name);
        let comparison = compare(&self.base_view, &self.got_view, &noise)
            .expect("two runs of one fixture have outputs of one shape");
        let agreement = comparison.verdict;
        let base_noise = self.base.measured.noise_summary(name);
        let rounding = self.rounding(name, &base_noise);
        let found = self.found(name, dims, agreement, rounding)?;
        let verdict = found.verdict(agreement);
        let order = self.got.measured.ordered_of(name);
        // A dependence of both sides is no change.
        let new_order = order.is_some() && self.base.measured.ordered_of(name).is_none();
        // Within noise the order alone convicts: that it is as accurate as before says nothing.
        let order_alone = new_order && verdict != Verdict::Diverged;
        let is_unsteady = self.base.trial.outcome()?.is_unsteady(name)
            || self.got.trial.outcome()?.is_unsteady(name);
        let mut judged = OutputJudgement {
            name: name.to_owned(),
            dtype: self.base_view.dtype,
            dims: dims.to_vec(),
            verdict: match verdict {
                _ if is_unsteady => Verdict::Unknown,
                _ if new_order => Verdict::Diverged,
                verdict => verdict,
            },
            comparison,
            got_noise: self.got.measured.noise_summary(name),
            finding: None,
            base_accuracy: None,
            got_accuracy: None,
            by_oracle: false,
            shadow: None,
            without_shadow: self.why_narrow(name).filter(|_| agreement != Agreement::Identical),
            drift: found.drift.clone(),
            location: None,
            place: None,
            zero_slices: Vec::new(),
            map: None,
            probes: self.probes(name),
            nondeterminism: self.got.measured.nondeterminism_of(name),
            order,
            base_noise,
        };
        if let Some(truth) = &found.truth {
            judged.finding = (!order_alone).then(|| found.finding(truth, verdict, rounding));
            judged.base_accuracy = Some(truth.base.clone());
            judged.got_accuracy = Some(truth.got.clone());
            judged.by_oracle = truth.by_oracle;
            judged.shadow = truth.shadow;
        }
        if found.truth.is_none() && agreement == Agreement::Equivalent {
            judged.shadow = found.shadows.as_ref().map(|shown| shown.change);
            judged.finding = found.finding_without_truth();
        }
        let is_by_value = agreement == Agreement::Diverged && verdict == Verdict::Diverged;
        if is_by_value && judged.order.is_none() && self.is_unexplained(&noise, judged.finding) {
            judged.finding = Some(Finding::Wrong);
        }
        if is_unsteady {
            judged.finding = None;
        } else if let Some(drift) = &found.drift {
            let slice = drift.slice.as_ref();
            judged.place =
                Some(slice.map_or("everywhere".to_owned(), |(dim, at)| format!("{dim} {at}")));
        } else if verdict == Verdict::Diverged {
            let elements = self.elements(&noise, agreement, &found)?;
            self.find_place(&mut judged, &elements)?;
        }
        Ok(judged)
    }

    /// Why one of both sides has no shadow of output `name`, where it has others.
    fn why_narrow(&self, name: &str) -> Option<String> {
        let runs = [self.base, self.got].into_iter().filter_map(|side| side.shadow.ok());
        runs.filter_map(|run| run.why_narrow(name)).next().map(str::to_owned)
    }

    /// What moved the output on either side.
    fn probes(&self, name: &str) -> Vec<Probe> {
        let sides = [self.base, self.got].map(|side| side.measured.probes_of(name));
        let both: BTreeSet<Probe> = sides.concat().into_iter().collect();
        both.into_iter().collect()
    }

    /// All that tells how output `name` stands besides the comparison, which came to `agreement`.
    fn found(
        &self,
        name: &str,
        dims: &[Dim],
        agreement: Agreement,
        rounding: f64,
    ) -> Result<Found<'_>, ReplayError> {
        if agreement == Agreement::Identical {
            return Ok(Found::default());
        }
        let noise = self.noise(name);
        // Integers beyond noise are no rounding's, whatever their shadows do.
        let is_told = !self.base_view.dtype.is_float() && agreement == Agreement::Diverged;
        let shadows = if is_told { None } else { self.shadows(name, noise)? };
        let shadows_are_missing = shadows.is_none();
        let mut shadows = self.shown(name, agreement, shadows)?;
        let mut truth = self.truth(name, &noise, agreement, shadows.as_ref());
        let drift = match agreement {
            Agreement::Equivalent if shadows.is_none() => {
                drift(&self.base_view, &self.got_view, &noise, dims)
            }
            _ => None,
        };
        let newly_rounded = shadows.as_mut().filter(|shadows| shadows.newly_rounded);
        let by_noise = agreement == Agreement::Equivalent && shadows_are_missing;
        let got_rounding = self.got.measured.noise_summary(name).relative_l2;
        let narrower = by_noise && self.is_lost(noise, [rounding, got_rounding], noise.base);
        let imprecise = match (&mut truth, newly_rounded) {
            // Its own shadow, rounded alike, would say that nothing is lost.
            (Some(truth), Some(shown)) if truth.is_imprecise(truth.got.relative_l2, rounding) => {
                shown.change.lay_to_rounding();
                truth.shadow = Some(shown.change);
                true
            }
            (Some(truth), None) if truth.is_imprecise(truth.got.relative_l2, rounding) => {
                let error = self.error_without_ties(self.got, self.got_view, name, agreement)?;
                error.is_none_or(|error| truth.is_imprecise(error, rounding))
            }
            _ => false,
        };
        let refined = match &truth {
            Some(truth) if truth.is_refined(truth.base.relative_l2, got_rounding) => {
                let error = self.error_without_ties(self.base, self.base_view, name, agreement)?;
                error.is_none_or(|error| truth.is_refined(error, got_rounding))
            }
            _ => by_noise && self.is_lost(noise, [got_rounding, rounding], noise.got),
        };
        let rounded = shadows.as_ref().is_some_and(|shadows| shadows.change.rounded);
        let unmoved = is_told || shadows.as_ref().is_some_and(|shadows| shadows.change.moved == 0);
        Ok(Found {
            imprecise: imprecise || narrower,
            narrower,
            refined: refined && !narrower,
            err_alike: agreement == Agreement::Diverged
                && unmoved
                && self.errs_alike(name, noise, rounded),
            shadows,
            truth,
            drift,
        })
    }

    /// How far rounding moves output `name` of the trusted side, relative, in L2. Inputs moved by a unit
    /// in the last place tell that only by their condition; the error against the shadow then tells it
    /// better, and rounds once at least.
    fn rounding(&self, name: &str, base_noise: &NoiseSummary) -> f64 {
        match self.base.measured.probes_of(name) {
            [Probe::Inputs] => ulp(self.base_view.dtype, 1.0),
            _ => base_noise.relative_l2,
        }
    }

    /// How far rounding moves output `name` on both sides.
    fn noise(&self, name: &str) -> NoiseRef<'_> {
        NoiseRef { base: self.base.measured.noise_of(name), got: self.got.measured.noise_of(name) }
    }

    /// The shadows of output `name`, if both sides have one.
    fn shadows<'s>(
        &'s self,
        name: &str,
        noise: NoiseRef<'s>,
    ) -> Result<Option<Shadows<'s>>, ReplayError> {
        let (native, scratch) = (self.base_view.dtype, self.scratch);
        let Some((base, got)) = self.base.shadow_of(name).zip(self.got.shadow_of(name)) else {
            return Ok(None);
        };
        let shadows = room(Shadows::new(base, got, native, noise, scratch))?;
        let shadows = shadows.with_outputs(self.base_view, self.got_view);
        Ok(Some(shadows.expect("a shadow has the shape of its output")))
    }

    /// `shadows` with their change. Where the native outputs agree and the shadows do not, rounding in
    /// float64 is measured too: it may decide a tie. So is how far they step, where they may be rounded on
    /// the way.
    fn shown<'s>(
        &'s self,
        name: &str,
        agreement: Agreement,
        shadows: Option<Shadows<'s>>,
    ) -> Result<Option<Shown<'s>>, ReplayError> {
        let Some(shadows) = shadows else { return Ok(None) };
        const SHAPE: &str = "a shadow has the shape of its output";
        let change = shadows.change();
        let shadows = shadows.with_growth(&change);
        let raw = shadows.change();
        let shown = match agreement == Agreement::Equivalent && raw.moved > 0 {
            true => {
                let shadows = shadows.with_noise(self.shadow_noise(name)?).expect(SHAPE);
                let change = shadows.change();
                Shown { shadows, change, newly_rounded: false }
            }
            false => Shown { shadows, change: raw, newly_rounded: false },
        };
        if agreement == Agreement::Equivalent && self.is_roundoff(name, &shown)? {
            let mut change = shown.change;
            change.lay_to_roundoff();
            return Ok(Some(Shown { change, ..shown }));
        }
        // One in float32 errs by its own rounding wherever it differs.
        let may_step = raw.moved > 0 || shown.change.changed > 0 && !shown.shadows.is_wide();
        if !may_step {
            return Ok(Some(shown));
        }
        let reach = Reach::of(raw.moved_by);
        let steps = self.shadow_steps(name, reach)?;
        // Kinks and ties that both have explain no change that shows.
        let both_step = steps.base_has_its_share();
        if agreement == Agreement::Diverged && reach == Reach::Narrow && both_step {
            return Ok(Some(shown));
        }
        let between = self.steps_between(name, reach, &shown.shadows)?;
        let shadows = shown.shadows.with_steps(between).expect(SHAPE);
        let mut change = shadows.change();
        if shadows.is_wide() {
            // Steps say what a change means, not that there is none.
            (change.changed, change.changed_by, change.first) =
                (raw.changed, raw.changed_by, raw.first);
        }
        let before = shown.change.moved;
        change.rounded = before > 0 && change.moved == 0;
        let mostly = before > 0 && shadows.mostly_step(before);
        let newly_rounded =
            (change.moved == 0 || mostly) && !both_step && raw.moved > 0 && shadows.steps_explain();
        // Where the outputs show a change, all that is left to say is what it means.
        if agreement == Agreement::Diverged && mostly {
            change.lay_to_rounding();
        }
        Ok(Some(Shown { shadows, change, newly_rounded }))
    }

    /// How far what the other shadow of output `name` has more than the trusted one steps as inputs move.
    fn steps_between(
        &self,
        name: &str,
        reach: Reach,
        shadows: &Shadows,
    ) -> Result<NoiseRef<'_>, ReplayError> {
        let growth = |index: usize| shadows.growth_of(index);
        let between = steps_between(self.base.trial, self.got.trial, name, reach, growth)?;
        let between = self.steps.get_or_init(|| between).as_ref();
        Ok(NoiseRef { base: between, got: None })
    }

    /// Whether the shadows of output `name` moved by no more than the rounding of a constant explains: no element
    /// further than a roundoff of the inputs moves it, and the other side errs no further around the trusted
    /// shadow than rounding makes either side err.
    fn is_roundoff(&self, name: &str, shown: &Shown) -> Result<bool, ReplayError> {
        let both = self.base.shadow_of(name).zip(self.got.shadow_of(name));
        let is_single = self.base_view.dtype.is_float() && self.base_view.dtype != DType::F64;
        let (Some((base, got)), Ok(centre)) = (both, self.base.shadow) else { return Ok(false) };
        if shown.change.moved == 0 || !shown.shadows.is_wide() || !is_single {
            return Ok(false);
        }
        let noises =
            [self.base, self.got].map(|side| side.measured.noise_summary(name).relative_l2);
        let own = relative_error(&self.base_view, &base).max(relative_error(&self.got_view, &got));
        let rounding = noises.into_iter().fold(own, f64::max);
        if relative_error(&self.got_view, &base) > ERROR_RATIO * rounding {
            return Ok(false);
        }
        let trial = self.base.trial;
        let Ok(shadow) = trial.shadow()? else { return Ok(false) };
        if !shadow.abilities().step {
            return Ok(false);
        }
        let moved = trial.condition(shadow, centre, name)?;
        Ok(moved.is_some_and(|moved| {
            !shown
                .shadows
                .move_beyond(&moved.per_element)
                .expect("a shadow has the shape of its output")
        }))
    }

    /// How far the shadows of output `name` step as their inputs move.
    fn shadow_steps(&self, name: &str, reach: Reach) -> Result<NoiseRef<'_>, ReplayError> {
        let (base, got) = both(
            || self.base.trial.shadow_steps(name, reach),
            || self.got.trial.shadow_steps(name, reach),
        );
        Ok(NoiseRef { base: base?, got: got? })
    }

    /// How far rounding in float64 moves the shadows of output `name`.
    fn shadow_noise(&self, name: &str) -> Result<NoiseRef<'_>, ReplayError> {
        let (base, got) =
            both(|| self.base.trial.shadow_noise(name), || self.got.trial.shadow_noise(name));
        Ok(NoiseRef { base: base?, got: got? })
    }

    /// The error of `side`, which gave `view`, against its shadow, but for ties, where outputs that agree within
    /// noise have shadows.
    fn error_without_ties(
        &self,
        side: &Side,
        view: TensorView,
        name: &str,
        agreement: Agreement,
    ) -> Result<Option<f64>, ReplayError> {
        match side.shadow_of(name) {
            Some(shadow) if agreement == Agreement::Equivalent => {
                let own = self.shadow_noise(name)?;
                Ok(error_without_ties(&view, &shadow, &own).ok())
            }
            _ => Ok(None),
        }
    }

    /// Whether roundings move one side so much further than the other, and so many elements lie beyond the noise of that
    /// other, `own`, that one of them rounds to fewer digits. `rounding` moves first the precise side, relative, in L2.
    fn is_lost(&self, noise: NoiseRef, rounding: [f64; 2], own: Option<&Spread>) -> bool {
        let [precise, coarse] = rounding;
        let (base, got) = (&self.base_view, &self.got_view);
        if !base.dtype.is_float() || coarse <= LOSS_RATIO * precise.max(unit_roundoff(base.dtype)) {
            return false;
        }
        let own = NoiseRef { base: own.or(noise.base), got: None };
        share_beyond(base, got, &own, LOSS_RATIO)
            .expect("two runs of one fixture have outputs of one shape")
            >= LOST_SHARE
    }

    /// Whether both sides err alike, each around its own shadow; around the trusted one where the other
    /// is `rounded` as the output is.
    fn errs_alike(&self, name: &str, noise: NoiseRef, rounded: bool) -> bool {
        let both = self.base.shadow_of(name).zip(self.got.shadow_of(name));
        both.is_some_and(|(base_shadow, got_shadow)| {
            let got_shadow = if rounded { base_shadow } else { got_shadow };
            let (base, got) = (self.base_view, self.got_view);
            let errors = Errors { base, got, base_shadow, got_shadow, noise };
            if base.dtype.is_float() { errors.are_alike() } else { errors.are_alike_in_integers() }
        })
    }

    /// Whether the output lies further off than any rounding explains, where `finding` does not say that it is wrong.
    fn is_unexplained(&self, noise: &NoiseRef, finding: Option<Finding>) -> bool {
        let which = match finding {
            None | Some(Finding::LessAccurate) => Unexplained::Any,
            Some(Finding::Imprecise) => Unexplained::NewOrReversed,
            Some(Finding::Wrong | Finding::MoreAccurate | Finding::AsAccurate) => return false,
        };
        is_unexplained(&self.base_view, &self.got_view, noise, which)
            .expect("two runs of one fixture have outputs of one shape")
    }

    /// The elements that make the output diverge.
    fn elements(
        &self,
        noise: &NoiseRef,
        agreement: Agreement,
        found: &Found,
    ) -> Result<Bitmap, ReplayError> {
        let (base, got, scratch) = (&self.base_view, &self.got_view, self.scratch);
        match &found.shadows {
            Some(shown) if agreement == Agreement::Equivalent && !found.imprecise => {
                room(shown.shadows.moved(scratch))
            }
            // It lies within the noise of both sides, not of the trusted one.
            _ if agreement == Agreement::Equivalent => {
                room(beyond_noise(base, got, &NoiseRef { got: None, ..*noise }, scratch))
            }
            _ => room(beyond_noise(base, got, noise, scratch)),
        }
    }

    fn find_place(&self, judged: &mut OutputJudgement, of: &Bitmap) -> Result<(), ReplayError> {
        let (base, got, scratch) = (&self.base_view, &self.got_view, self.scratch);
        let masks = Masks::of(self.fixture, &judged.dims);
        judged.location = locate(of, &judged.dims, &masks.as_masks(), scratch)?;
        judged.place = judged.location.as_ref().map(describe);
        judged.zero_slices = zero_slices(base, got, &judged.dims, scratch)?;
        let told = judged.location.as_ref().is_none_or(Location::is_exact);
        if judged.dims.len() >= 2 && !told {
            judged.map = Some(block_map(of, base.shape)).filter(|map| has_shape(map));
        }
        Ok(())
    }

    /// How far both sides lie from the declared oracle, else from the trusted side's shadow.
    fn truth(
        &self,
        name: &str,
        noise: &NoiseRef,
        agreement: Agreement,
        shadows: Option<&Shown>,
    ) -> Option<Truth> {
        if !self.base_view.dtype.is_float() {
            return None;
        }
        let declared = self.fixture.oracle.iter().find(|output| output.name == name);
        let shape = declared.map(|output| output.shape());
        let oracle = match (declared, &shape) {
            (Some(output), Some(shape)) => {
                TensorView { dtype: output.dtype, shape, bytes: output.bytes() }
            }
            _ => self.base.shadow_of(name)?,
        };
        let against = |view: &TensorView, own: Option<&Spread>| {
            against_oracle(view, &oracle, &NoiseRef { base: own, got: None }).ok()
        };
        Some(Truth {
            base: against(&self.base_view, noise.base)?,
            got: against(&self.got_view, noise.base)?,
            shadow: shadows.map(|shown| shown.change),
            agrees: agreement == Agreement::Equivalent,
            unit_roundoff: unit_roundoff(self.base_view.dtype),
            by_oracle: declared.is_some(),
        })
    }
}

/// The evidence on one output besides the comparison of its elements.
#[derive(Default)]
struct Found<'a> {
    shadows: Option<Shown<'a>>,
    truth: Option<Truth>,
    drift: Option<Drift>,
    /// Whether the other side lost accuracy, though its own noise may excuse it.
    imprecise: bool,
    /// Whether the noise of both sides says so, where there are no shadows of both.
    narrower: bool,
    /// Whether it gained as much.
    refined: bool,
    /// Whether elements lie beyond noise, and both sides err alike around one shadow.
    err_alike: bool,
}

impl Found<'_> {
    /// The meaning of a change that came to `verdict`, where rounding moves the trusted side by `rounding`. Within noise a
    /// loss or gain counts from where it is told.
    fn finding(&self, truth: &Truth, verdict: Verdict, rounding: f64) -> Finding {
        match truth.finding(rounding) {
            _ if self.narrower => Finding::Imprecise,
            Finding::AsAccurate | Finding::MoreAccurate if self.refined => Finding::MoreAccurate,
            Finding::Wrong => Finding::Wrong,
            _ if truth.agrees && verdict != Verdict::Diverged => Finding::AsAccurate,
            found => found,
        }
    }

    /// The same where there is no truth to hold errors against: roundings alone speak, and shadows of integers.
    fn finding_without_truth(&self) -> Option<Finding> {
        match (self.moves(), self.imprecise, self.refined) {
            (true, _, _) => Some(Finding::Wrong),
            (false, true, _) => Some(Finding::Imprecise),
            (false, false, true) => Some(Finding::MoreAccurate),
            (false, false, false) => None,
        }
    }

    /// Whether the mathematics is another one.
    fn moves(&self) -> bool {
        self.shadows.as_ref().is_some_and(|shown| shown.change.moved > 0)
    }

    /// The verdict on an output whose elements come to `agreement`.
    fn verdict(&self, agreement: Agreement) -> Verdict {
        match agreement {
            Agreement::Identical => Verdict::Identical,
            Agreement::Equivalent if self.imprecise || self.moves() || self.drift.is_some() => {
                Verdict::Diverged
            }
            Agreement::Equivalent => Verdict::Equivalent,
            Agreement::Diverged if self.err_alike => Verdict::Equivalent,
            Agreement::Diverged => Verdict::Diverged,
        }
    }
}

/// The shadows of both sides.
struct Shown<'a> {
    shadows: Shadows<'a>,
    change: ShadowChange,
    /// Whether most of the change is that the other side's is rounded on the way to a format of fewer digits, as
    /// the trusted one is not.
    newly_rounded: bool,
}

/// How far both sides lie from the oracle.
struct Truth {
    base: Accuracy,
    got: Accuracy,
    shadow: Option<ShadowChange>,
    /// Whether the native outputs agree within noise.
    agrees: bool,
    /// That of the output's dtype.
    unit_roundoff: f64,
    /// Whether it is a declared oracle, which owes nothing to the trusted side.
    by_oracle: bool,
}

impl Truth {
    /// The meaning of the change, where rounding moves the trusted side by `rounding`.
    fn finding(&self, rounding: f64) -> Finding {
        finding(&Evidence {
            shadow: self.shadow,
            base_error: self.base.relative_l2,
            got_error: self.got.relative_l2,
            noise: rounding,
            hidden: self.is_hidden(),
            independent_oracle: self.by_oracle,
        })
    }

    /// Whether the mathematics changed and the native outputs do not show it.
    fn is_hidden(&self) -> bool {
        self.agrees && self.shadow.is_some_and(|shadow| shadow.moved > 0)
    }

    /// Whether the other side lost accuracy: its error is `got_error`, and rounding moves the trusted one by `rounding`.
    fn is_imprecise(&self, got_error: f64, rounding: f64) -> bool {
        self.is_loss(self.base.relative_l2.max(rounding), got_error)
    }

    /// Whether it gained accuracy: the reverse of [`Truth::is_imprecise`], where the error of the trusted side is `base_error`.
    fn is_refined(&self, base_error: f64, got_rounding: f64) -> bool {
        let unmoved = self.shadow.is_some_and(|shadow| shadow.moved == 0);
        unmoved && self.is_loss(self.got.relative_l2.max(got_rounding), base_error)
    }

    /// Whether an error that grew from `before` to `after` is a loss: by so much that no other order of operations costs it,
    /// or by less to as much as a narrow format costs. The noise of that side is then as large as its error, and would
    /// excuse it.
    fn is_loss(&self, before: f64, after: f64) -> bool {
        after > LOSS_RATIO * before.max(self.unit_roundoff)
            || after > NARROW_ROUNDING && after > ERROR_RATIO * before
    }
}

/// The error of `output` against `shadow`, which has its shape, relative, in L2.
fn relative_error(output: &TensorView, shadow: &TensorView) -> f64 {
    let accuracy = against_oracle(output, shadow, &NoiseRef::default());
    accuracy.map_or(f64::INFINITY, |accuracy| accuracy.relative_l2)
}

/// The unit roundoff of `dtype`.
fn unit_roundoff(dtype: DType) -> f64 {
    ulp(dtype, 1.0) / 2.0
}
