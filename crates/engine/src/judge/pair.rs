//! Measures one output of one revision beside the same output of a trusted one, and lets [`story`](super::story) judge.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use super::OutputJudgement;
use super::masks::Masks;
use super::side::MeasuredTrial;
use super::story::{
    ErrorEvidence, Evidence, OrderEvidence, ShadowEvidence, StepEvidence, Story, tell_story,
};
use crate::backend::{Ability, ReplayError};
use crate::trial::{Probe, Shadow, StepReach, convert_numerics_error, steps_between};
use replay_base::concurrent::run_both;
use replay_base::scratch::Scratch;
use replay_base::tensor::{DType, Dim, TensorView};
use replay_fixture::fixture::Fixture;
use replay_numerics::bitmap::Bitmap;
use replay_numerics::compare::{
    Agreement, Unexplained, beyond_noise, compare_outputs, is_unexplained, share_beyond,
};
use replay_numerics::constants::{ERROR_RATIO_BEYOND_NOISE, ERROR_RATIO_WITHIN_NOISE};
use replay_numerics::drift::find_drift;
use replay_numerics::measure::{count_nonzero, relative_half_unit, ulp};
use replay_numerics::noise::{NoiseRef, Spread};
use replay_numerics::oracle::{Accuracy, against_oracle, measure_accuracies};
use replay_numerics::shadow::{Errors, ShadowChange, Shadows, error_without_ties};
use replay_numerics::slices::{Location, block_map, describe_location, has_shape, locate_elements};
use replay_numerics::zeros::zero_slices;

/// One output of both sides, with everything known about them.
pub(super) struct Pair<'a> {
    /// The fixture of both sides.
    pub(super) fixture: &'a Fixture,
    /// The trusted side.
    pub(super) base: &'a MeasuredTrial<'a>,
    /// The other side.
    pub(super) got: &'a MeasuredTrial<'a>,
    /// The output of the trusted side.
    pub(super) base_view: TensorView<'a>,
    /// The output of the other side.
    pub(super) got_view: TensorView<'a>,
    /// The elements that either side left unwritten.
    pub(super) unwritten: u64,
    /// The float64 shadow of the trusted side.
    pub(super) base_shadow: Option<TensorView<'a>>,
    /// The float64 shadow of the other side.
    pub(super) got_shadow: Option<TensorView<'a>>,
    /// The truth declared by the fixture.
    pub(super) oracle: Option<TensorView<'a>>,
    /// Space for values of every element.
    pub(super) scratch: &'a Scratch,
    /// Why a shadow of it is none, if so.
    pub(super) false_twin: Option<String>,
    /// How far the difference of the shadows steps, where it was asked for.
    pub(super) steps: OnceLock<Option<Spread>>,
}

/// Everything known about a pair, with its story.
struct Told<'a> {
    evidence: Evidence,
    story: Story,
    /// The shadows of both sides.
    shadows: Option<Shadows<'a>>,
    /// How far both sides lie from the truth.
    accuracies: Option<Accuracies>,
}

/// How far both sides lie from the declared oracle, else from the trusted shadow.
struct Accuracies {
    base: Accuracy,
    got: Accuracy,
    by_oracle: bool,
}

impl Pair<'_> {
    /// Judges the output of `name` and `dims`.
    ///
    /// # Errors
    /// [`ReplayError`] if the machine or the fixture is at fault.
    pub(super) fn judge(&self, name: &str, dims: &[Dim]) -> Result<OutputJudgement, ReplayError> {
        let noise = self.noise(name);
        let comparison = compare_outputs(&self.base_view, &self.got_view, &noise)
            .expect("two runs of one fixture have outputs of one shape");
        let agreement = comparison.agreement;
        let told = self.tell(name, dims, agreement)?;
        let mut judgement = OutputJudgement {
            name: name.to_owned(),
            dtype: self.base_view.dtype,
            dims: dims.to_vec(),
            unwritten: self.unwritten,
            comparison,
            base_noise: self.base.measured.noise_summary(name),
            got_noise: self.got.measured.noise_summary(name),
            base_accuracy: None,
            got_accuracy: None,
            by_oracle: false,
            shadow: told.evidence.shadow_change(),
            without_shadow: self.why_narrow(name).filter(|_| agreement != Agreement::Identical),
            location: None,
            place: None,
            zero_slices: Vec::new(),
            map: None,
            probes: self.probes(name),
            nondeterminism: self.got.measured.nondeterminism_of(name),
            order: self.got.measured.ordered_of(name),
            story: told.story.clone(),
        };
        if let Some(Accuracies { base, got, by_oracle }) = &told.accuracies {
            judgement.base_accuracy = Some(base.clone());
            judgement.got_accuracy = Some(got.clone());
            judgement.by_oracle = *by_oracle;
        }
        match &told.story {
            Story::Agrees(_) | Story::OrderDependent(_) | Story::Unsteady => {}
            Story::Drifted { drift, .. } => {
                let slice = drift.slice.as_ref();
                let place =
                    slice.map_or("everywhere".to_owned(), |(dim, at)| format!("{dim} {at}"));
                judgement.place = Some(place);
            }
            Story::Wrong(_)
            | Story::Imprecise(_)
            | Story::LessAccurate
            | Story::MoreAccurate
            | Story::AsAccurate
            | Story::BeyondNoise { .. } => {
                let elements = self.elements(&noise, &told)?;
                self.find_place(&mut judgement, &elements)?;
            }
        }
        Ok(judgement)
    }

    /// Why one of both sides has no shadow of output `name`, where it has others.
    fn why_narrow(&self, name: &str) -> Option<String> {
        if let Some(reason) = &self.false_twin {
            return Some(reason.clone());
        }
        let runs = [self.base, self.got].into_iter().filter_map(|side| side.shadow.present());
        runs.filter_map(|run| run.why_narrow(name)).next().map(str::to_owned)
    }

    /// The probes of the output's noise on either side.
    fn probes(&self, name: &str) -> Vec<Probe> {
        let sides = [self.base, self.got].map(|side| side.measured.probes_of(name));
        let probes_of_both: BTreeSet<Probe> = sides.concat().into_iter().collect();
        probes_of_both.into_iter().collect()
    }

    /// Measures output `name`, whose comparison came to `agreement`, and tells its story.
    fn tell(
        &self,
        name: &str,
        dims: &[Dim],
        agreement: Agreement,
    ) -> Result<Told<'_>, ReplayError> {
        let noise = self.noise(name);
        let (shadow, shadows) = match self.speaking_shadows(agreement, noise)? {
            Some(shadows) => {
                let (evidence, shadows) = self.shadow_evidence(name, agreement, shadows)?;
                (Some(evidence), Some(shadows))
            }
            None => (None, None),
        };
        let differs = agreement != Agreement::Identical;
        let accuracies = if differs { self.accuracies(&noise) } else { None };
        let drift = match agreement {
            Agreement::Equivalent if shadows.is_none() => {
                find_drift(&self.base_view, &self.got_view, &noise, dims)
            }
            _ => None,
        };
        let errors = accuracies.as_ref().map(|accuracies| ErrorEvidence {
            base: accuracies.base.relative_l2,
            got: accuracies.got.relative_l2,
            by_oracle: accuracies.by_oracle,
            base_without_ties: None,
            got_without_ties: None,
        });
        let evidence = Evidence {
            agreement,
            dtype: self.base_view.dtype,
            is_unsteady: self.base.trial.outcome()?.is_unsteady(name)
                || self.got.trial.outcome()?.is_unsteady(name),
            order: self.order_evidence(name),
            base_rounding: self.rounding(name),
            got_rounding: self.got.measured.noise_summary(name).relative_l2,
            half_unit: 0.0,
            elements: None,
            shadow,
            errors,
            lost_share: None,
            gained_share: None,
            drift,
            errs_alike: false,
            is_unexplained: false,
        };
        let evidence = self.measure_further(name, noise, evidence)?;
        Ok(Told { story: tell_story(&evidence), evidence, shadows, accuracies })
    }

    /// The evidence so far, `known`, with longer measurements where it asks for them.
    fn measure_further(
        &self,
        name: &str,
        noise: NoiseRef,
        known: Evidence,
    ) -> Result<Evidence, ReplayError> {
        let known = if known.asks_for_half_unit() {
            Evidence {
                half_unit: relative_half_unit(&self.base_view),
                elements: Some(count_nonzero(&self.base_view)),
                ..known
            }
        } else {
            known
        };
        let errors = match known.errors {
            Some(errors) => Some(ErrorEvidence {
                base_without_ties: if known.suspects_gain() {
                    self.error_without_ties(
                        self.base_shadow,
                        self.base_view,
                        name,
                        known.agreement,
                    )?
                } else {
                    None
                },
                got_without_ties: if known.suspects_loss() {
                    self.error_without_ties(self.got_shadow, self.got_view, name, known.agreement)?
                } else {
                    None
                },
                ..errors
            }),
            None => None,
        };
        let lost_share = known.asks_for_lost_share().then(|| self.share_beyond(noise.base));
        let gained_share =
            known.asks_for_gained_share().then(|| self.share_beyond(noise.got.or(noise.base)));
        let known = Evidence { errors, lost_share, gained_share, ..known };
        let is_rounded = known.shadow_change().is_some_and(|change| change.rounded);
        let errs_alike = known.asks_whether_sides_err_alike() && self.errs_alike(noise, is_rounded);
        let known = Evidence { errs_alike, ..known };
        let unexplained = known.asks_for_unexplained();
        let is_unexplained = unexplained.is_some_and(|which| self.is_unexplained(&noise, which));
        Ok(Evidence { is_unexplained, ..known })
    }

    /// Which sides depend on the order of blocks and threads in output `name`.
    fn order_evidence(&self, name: &str) -> OrderEvidence {
        match (self.base.measured.ordered_of(name), self.got.measured.ordered_of(name)) {
            (_, None) => OrderEvidence::Independent,
            (Some(_), Some(_)) => OrderEvidence::OnBothSides,
            (None, Some(_)) => OrderEvidence::New,
        }
    }

    /// How far rounding moves output `name` of the trusted side, relative, in L2. Inputs moved by a unit
    /// in the last place tell that only by their condition; the error against the shadow then tells it
    /// better, and rounds once at least.
    fn rounding(&self, name: &str) -> f64 {
        match self.base.measured.probes_of(name) {
            [Probe::Inputs] => ulp(self.base_view.dtype, 1.0),
            _ => self.base.measured.noise_summary(name).relative_l2,
        }
    }

    /// How far rounding moves output `name` on both sides.
    fn noise(&self, name: &str) -> NoiseRef<'_> {
        NoiseRef { base: self.base.measured.noise_of(name), got: self.got.measured.noise_of(name) }
    }

    /// The shadows of the output, if both sides have one and `agreement` lets them speak.
    fn speaking_shadows<'s>(
        &'s self,
        agreement: Agreement,
        noise: NoiseRef<'s>,
    ) -> Result<Option<Shadows<'s>>, ReplayError> {
        let speaks = match agreement {
            Agreement::Identical => false,
            Agreement::Equivalent => true,
            // Integers beyond noise are no rounding's, whatever their shadows do.
            Agreement::Diverged => self.base_view.dtype.is_float(),
        };
        if !speaks {
            return Ok(None);
        }
        let native = self.base_view.dtype;
        let scratch = self.scratch;
        let Some((base, got)) = self.base_shadow.zip(self.got_shadow) else {
            return Ok(None);
        };
        let shadows = convert_numerics_error(Shadows::new(base, got, native, noise, scratch))?;
        let shadows = shadows.with_outputs(self.base_view, self.got_view);
        Ok(Some(shadows.expect("a shadow has the shape of its output")))
    }

    /// How `shadows` differ. Where the native outputs agree and the shadows do not, rounding in float64 is measured
    /// too: it may decide a tie. So is how far they step, where they may be rounded on the way.
    fn shadow_evidence<'s>(
        &'s self,
        name: &str,
        agreement: Agreement,
        shadows: Shadows<'s>,
    ) -> Result<(ShadowEvidence, Shadows<'s>), ReplayError> {
        const SHAPE: &str = "a shadow has the shape of its output";
        let without_growth = shadows.change();
        let shadows = shadows.with_growth(&without_growth);
        let raw = if shadows.has_growth() { shadows.change() } else { without_growth };
        let is_hidden = agreement == Agreement::Equivalent;
        let (shadows, change) = if is_hidden && raw.moved > 0 {
            let shadows = shadows.with_noise(self.shadow_noise(name)?).expect(SHAPE);
            let change = shadows.change();
            (shadows, change)
        } else {
            (shadows, raw)
        };
        let is_roundoff = is_hidden && self.is_roundoff(name, &change, &shadows)?;
        let evidence =
            ShadowEvidence { moved_at_first: raw.moved > 0, change, is_roundoff, steps: None };
        // One in float32 errs by its own rounding wherever it differs.
        let may_step = raw.moved > 0 || change.changed > 0 && !shadows.is_wide();
        if is_roundoff || !may_step {
            return Ok((evidence, shadows));
        }
        let reach = StepReach::from_shift(raw.moved_by);
        let steps = self.shadow_steps(name, reach)?;
        if steps.base.is_none() && steps.got.is_none() {
            // Their inputs cannot be moved along a line.
            return Ok((evidence, shadows));
        }
        let are_on_both_sides = steps.base_has_its_share();
        // Kinks and ties of both explain no visible change.
        if agreement == Agreement::Diverged && reach == StepReach::Narrow && are_on_both_sides {
            return Ok((evidence, shadows));
        }
        let between = self.steps_between(name, reach, &shadows)?;
        let shadows = shadows.with_steps(between).expect(SHAPE);
        let left = shadows.change();
        let left = if shadows.is_wide() {
            // Steps tell the meaning of a change, not its absence.
            let ShadowChange { changed, changed_by, first, .. } = raw;
            ShadowChange { changed, changed_by, first, ..left }
        } else {
            left
        };
        let steps = StepEvidence {
            change: left,
            are_on_both_sides,
            explain_most: change.moved > 0 && shadows.mostly_step(change.moved),
            explain_a_part: raw.moved > 0 && !are_on_both_sides && shadows.steps_explain(),
        };
        Ok((ShadowEvidence { steps: Some(steps), ..evidence }, shadows))
    }

    /// How far the difference of both shadows of output `name` steps as inputs move.
    fn steps_between(
        &self,
        name: &str,
        reach: StepReach,
        shadows: &Shadows,
    ) -> Result<NoiseRef<'_>, ReplayError> {
        let trials = [self.base.trial, self.got.trial];
        let between = steps_between(trials, name, reach, |index| shadows.growth_of(index))?;
        let shared_steps = self.steps.get_or_init(|| between).as_ref();
        Ok(NoiseRef { base: shared_steps, got: None })
    }

    /// Whether the shadows of output `name` moved by no more than the rounding of a constant explains: no element
    /// further than a roundoff of the inputs moves it, and the other side errs no further around the trusted
    /// shadow than rounding makes either side err.
    fn is_roundoff(
        &self,
        name: &str,
        change: &ShadowChange,
        shadows: &Shadows,
    ) -> Result<bool, ReplayError> {
        let shadow_outputs = self.base_shadow.zip(self.got_shadow);
        let is_single = self.base_view.dtype.is_float() && self.base_view.dtype != DType::F64;
        let (Some((base, got)), Some(centre)) = (shadow_outputs, self.base.shadow.present()) else {
            return Ok(false);
        };
        if change.moved == 0 || !shadows.is_wide() || !is_single {
            return Ok(false);
        }
        let noises =
            [self.base, self.got].map(|side| side.measured.noise_summary(name).relative_l2);
        let own_error =
            relative_error(&self.base_view, &base).max(relative_error(&self.got_view, &got));
        let rounding = noises.into_iter().fold(own_error, f64::max);
        if relative_error(&self.got_view, &base) > ERROR_RATIO_BEYOND_NOISE * rounding {
            return Ok(false);
        }
        let trial = self.base.trial;
        let Shadow::Present(shadow) = trial.shadow()? else { return Ok(false) };
        if !shadow.can(Ability::Step) {
            return Ok(false);
        }
        let input_noise = trial.condition(shadow, centre, name)?;
        Ok(input_noise.is_some_and(|input_noise| {
            !shadows
                .move_beyond(&input_noise.per_element)
                .expect("a shadow has the shape of its output")
        }))
    }

    /// How far the shadows of output `name` step as their inputs move.
    fn shadow_steps(&self, name: &str, reach: StepReach) -> Result<NoiseRef<'_>, ReplayError> {
        let (base, got) = run_both(
            || self.base.trial.shadow_steps(name, reach),
            || self.got.trial.shadow_steps(name, reach),
        );
        Ok(NoiseRef { base: base?, got: got? })
    }

    /// How far rounding in float64 moves the shadows of output `name`.
    fn shadow_noise(&self, name: &str) -> Result<NoiseRef<'_>, ReplayError> {
        let base = self.base.trial;
        let got = self.got.trial;
        let (base, got) = if base.is_large() {
            (base.shadow_noise(name), got.shadow_noise(name))
        } else {
            run_both(|| base.shadow_noise(name), || got.shadow_noise(name))
        };
        Ok(NoiseRef { base: base?, got: got? })
    }

    /// The error of `view` against its `shadow`, without ties. None unless the outputs agree within noise and have
    /// shadows.
    fn error_without_ties(
        &self,
        shadow: Option<TensorView>,
        view: TensorView,
        name: &str,
        agreement: Agreement,
    ) -> Result<Option<f64>, ReplayError> {
        match shadow {
            Some(shadow) if agreement == Agreement::Equivalent => {
                let own_noise = self.shadow_noise(name)?;
                Ok(error_without_ties(&view, &shadow, &own_noise).ok())
            }
            _ => Ok(None),
        }
    }

    /// The share of the elements beyond [`ERROR_RATIO_WITHIN_NOISE`] times the noise of one side.
    fn share_beyond(&self, noise: Option<&Spread>) -> f64 {
        let noise = NoiseRef { base: noise, got: None };
        share_beyond(&self.base_view, &self.got_view, &noise, ERROR_RATIO_WITHIN_NOISE)
            .expect("two runs of one fixture have outputs of one shape")
    }

    /// Whether both sides err alike, each around its own shadow; around the trusted one where the other
    /// is `is_rounded` as the output is.
    fn errs_alike(&self, noise: NoiseRef, is_rounded: bool) -> bool {
        let shadow_outputs = self.base_shadow.zip(self.got_shadow);
        shadow_outputs.is_some_and(|(base_shadow, got_shadow)| {
            let got_shadow = if is_rounded { base_shadow } else { got_shadow };
            let base = self.base_view;
            let got = self.got_view;
            let errors = Errors { base, got, base_shadow, got_shadow, noise };
            if base.dtype.is_float() { errors.are_alike() } else { errors.are_alike_in_integers() }
        })
    }

    /// Whether one of the elements of `which` lies further off than any rounding explains.
    fn is_unexplained(&self, noise: &NoiseRef, which: Unexplained) -> bool {
        is_unexplained(&self.base_view, &self.got_view, noise, which)
            .expect("two runs of one fixture have outputs of one shape")
    }

    /// The elements behind a divergence.
    fn elements(&self, noise: &NoiseRef, told: &Told) -> Result<Bitmap, ReplayError> {
        let base = &self.base_view;
        let got = &self.got_view;
        let scratch = self.scratch;
        let is_within_noise = told.evidence.agreement == Agreement::Equivalent;
        match &told.shadows {
            Some(shadows) if is_within_noise && !matches!(told.story, Story::Imprecise(_)) => {
                convert_numerics_error(shadows.moved(scratch))
            }
            // It lies within the noise of both sides, not of the trusted one.
            _ if is_within_noise => convert_numerics_error(beyond_noise(
                base,
                got,
                &NoiseRef { got: None, ..*noise },
                scratch,
            )),
            _ => convert_numerics_error(beyond_noise(base, got, noise, scratch)),
        }
    }

    fn find_place(
        &self,
        judgement: &mut OutputJudgement,
        elements: &Bitmap,
    ) -> Result<(), ReplayError> {
        let base = &self.base_view;
        let got = &self.got_view;
        let scratch = self.scratch;
        let masks = Masks::for_output(self.fixture, &judgement.dims);
        judgement.location =
            locate_elements(elements, &judgement.dims, &masks.as_masks(), scratch)?;
        judgement.place = judgement.location.as_ref().map(describe_location);
        judgement.zero_slices = zero_slices(base, got, &judgement.dims, scratch)?;
        let place_is_exact = judgement.location.as_ref().is_none_or(Location::is_exact);
        if judgement.dims.len() >= 2 && !place_is_exact {
            judgement.map = Some(block_map(elements, base.shape)).filter(|map| has_shape(map));
        }
        Ok(())
    }

    /// How far both sides lie from the declared oracle, else from the trusted side's shadow; none where there is neither.
    fn accuracies(&self, noise: &NoiseRef) -> Option<Accuracies> {
        if !self.base_view.dtype.is_float() {
            return None;
        }
        let truth = self.oracle.or(self.base_shadow)?;
        let noise = NoiseRef { base: noise.base, got: None };
        let outputs = [&self.base_view, &self.got_view];
        let [base, got] = measure_accuracies(outputs, &truth, &noise).ok()?;
        Some(Accuracies { base, got, by_oracle: self.oracle.is_some() })
    }
}

/// The error of `output` against a `shadow` of its shape, relative, in L2.
fn relative_error(output: &TensorView, shadow: &TensorView) -> f64 {
    let accuracy = against_oracle(output, shadow, &NoiseRef::default());
    accuracy.map_or(f64::INFINITY, |accuracy| accuracy.relative_l2)
}
