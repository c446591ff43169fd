//! Two revisions side by side: brings replays and the numerics of `verdict` together.
//!
//! [`Replayer::judge`] compares two source sets on one fixture, [`Replayer::noise`] measures one,
//! [`Replayer::gradcheck`] holds a gradient against its loss. What they find is remembered by
//! content, like the replays themselves.

mod evidence;
mod gradcheck;
mod launches;
mod order;
mod trusted;

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cache::Kind;
use crate::compile::Artifact;
use crate::fixture::Fixture;
use crate::frontend::Precision;
use crate::history::SourceSet;
use crate::replay::{Failure, Outcome, ReplayError, Replayer, Status, Subject};
use crate::scratch::Scratch;
use crate::tensor::{DType, Dim, TensorView};
use crate::verdict::compare::{Agreement, Comparison, beyond_noise, compare};
use crate::verdict::constants::{ERROR_RATIO, NARROW_ROUNDING};
use crate::verdict::noise::{NoiseRef, NoiseSummary, Spread};
use crate::verdict::oracle::{
    Accuracy, Evidence, Finding, ShadowChange, against_oracle, finding, shadow_change,
};
use crate::verdict::slices::{Location, Mask, block_map, describe, locate};
use crate::verdict::zeros::zero_slices;

use self::evidence::Side;
pub use self::gradcheck::{GradientCheck, GradientVerdict};
pub use self::launches::{LaunchChange, changes as launch_changes};
pub use self::order::OrderDependence;
pub(crate) use self::trusted::TrustedSides;

/// The verdict on one revision, or on one against another; ordered from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The same bits.
    Identical,
    /// Other bits, within noise.
    Equivalent,
    /// It could not be run.
    Untestable,
    /// Beyond noise.
    Diverged,
    /// It was run and something is wrong that needs no comparison.
    Failed,
}

/// One revision against another that is trusted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The worst of what was found.
    pub verdict: Verdict,
    /// The outputs, in the order of the harness; empty unless both sides have them.
    pub outputs: Vec<OutputJudgement>,
    /// The launches that changed.
    pub launches: Vec<LaunchChange>,
    /// What the trusted side gave.
    pub base: Outcome,
    /// What the other side gave.
    pub got: Outcome,
    /// Why there is no float64 shadow to judge by, if there is none.
    pub without_shadow: Option<String>,
}

/// One output of one revision against another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputJudgement {
    /// Its name.
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// The dimensions.
    pub dims: Vec<Dim>,
    /// Whether the two sides agree.
    pub verdict: Verdict,
    /// Element by element.
    pub comparison: Comparison,
    /// The noise of the trusted side.
    pub base_noise: NoiseSummary,
    /// The noise of the other side.
    pub got_noise: NoiseSummary,
    /// What the change means; none where nothing tells the truth.
    pub finding: Option<Finding>,
    /// The trusted side against the oracle.
    pub base_accuracy: Option<Accuracy>,
    /// The other side against the oracle.
    pub got_accuracy: Option<Accuracy>,
    /// How the float64 shadow changed.
    pub shadow: Option<ShadowChange>,
    /// Where the elements are that lie beyond noise.
    pub location: Option<Location>,
    /// The same in words.
    pub place: Option<String>,
    /// Whole slices that are zero where the trusted side is not, in words.
    pub zero_slices: Vec<String>,
    /// The location as a picture: rows are the leading dimensions, columns the last.
    pub map: Option<String>,
    /// How two identical replays of the other side differ, if they do.
    pub nondeterminism: Option<Nondeterminism>,
    /// How the other side depends on the order of blocks and threads, if it does.
    pub order: Option<OrderDependence>,
}

impl OutputJudgement {
    /// Whether nothing is wrong with it but that it depends on the order of blocks and threads.
    pub fn by_order_alone(&self) -> bool {
        // What is only imprecise has a finding.
        self.order.is_some()
            && self.finding.is_none()
            && self.comparison.verdict != Agreement::Diverged
    }

    /// The verdict in the order of the indices.
    pub fn verdict_by_value(&self) -> Verdict {
        match self.comparison.verdict {
            _ if !self.by_order_alone() => self.verdict,
            Agreement::Identical => Verdict::Identical,
            Agreement::Equivalent => Verdict::Equivalent,
            Agreement::Diverged => Verdict::Diverged,
        }
    }
}

/// Two identical replays of one revision that differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Nondeterminism {
    /// Elements with other bits.
    pub differing: u64,
    /// The largest difference.
    #[serde(with = "crate::summary::float")]
    pub max_abs: f64,
}

/// The noise of one output at one revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputNoise {
    /// The output.
    pub name: String,
    /// What was measured.
    pub noise: NoiseSummary,
    /// How it depends on the order of blocks and threads, if it does.
    pub order: Option<OrderDependence>,
}

/// What the noise of one revision is remembered as.
const NOISE: &str = "noise and orders";

impl Replayer {
    /// Judges `got` by `base`, which is trusted.
    ///
    /// # Errors
    /// [`ReplayError`] if the machine or the fixture is at fault.
    pub fn judge(
        &self,
        subject: &Subject,
        base: &SourceSet,
        got: &SourceSet,
    ) -> Result<Judgement, ReplayError> {
        let compile = |sources| self.compile(subject, sources, Precision::Native);
        let compiled = self.compile_while(subject, base, Precision::Native, &|| drop(compile(got)));
        let (base_outcome, base_artifact) = self.replay_compiled(subject, base, compiled)?;
        let (got_outcome, got_artifact) = self.replay_compiled(subject, got, compile(got))?;
        let (Some(base_artifact), Some(got_artifact)) = (base_artifact, got_artifact) else {
            return Ok(Judgement::of_outcomes(base_outcome, got_outcome));
        };
        let key =
            self.judgement_key("judged with orders", subject, &[&base_artifact, &got_artifact])?;
        self.remember(&key, || {
            let judgement = Judgement::of_outcomes(base_outcome, got_outcome);
            // Without outputs on both sides there is nothing to compare.
            if judgement.base.outputs.is_empty() || judgement.got.outputs.is_empty() {
                return Ok(judgement);
            }
            // Whether there are shadows is asked later.
            let shadow = |sources| drop(self.compile(subject, sources, Precision::Shadow));
            let meanwhile = || shadow(got);
            let _ = self.compile_while(subject, base, Precision::Shadow, &meanwhile);
            let base = self.trusted_side(subject, base, base_artifact)?;
            let got = self.side(subject, got, got_artifact)?;
            judgement.with_outputs(&subject.fixture, &base, &got, self.scratch())
        })
    }

    /// Measures the noise of every output of `sources`; empty where it cannot be run to its end.
    ///
    /// # Errors
    /// [`ReplayError`] if the machine or the fixture is at fault.
    pub fn noise(
        &self,
        subject: &Subject,
        sources: &SourceSet,
    ) -> Result<Vec<OutputNoise>, ReplayError> {
        let Some(artifact) = self.artifact(subject, sources)? else { return Ok(Vec::new()) };
        let key = self.judgement_key(NOISE, subject, &[&artifact])?;
        match self.known_judgement(&key) {
            Some(found) => Ok(found),
            None => Ok(self.native_side(subject, artifact)?.noises()),
        }
    }

    /// Remembers the noise of `side`, whatever it was measured for.
    fn keep_noise(
        &self,
        subject: &Subject,
        artifact: &Artifact,
        side: &Side,
    ) -> Result<(), ReplayError> {
        let key = self.judgement_key(NOISE, subject, &[artifact])?;
        self.write_judgement(&key, &side.noises())?;
        self.made_just_now(key);
        Ok(())
    }

    /// What `make` gives, from the cache if it was made before.
    fn remember<T: Serialize + DeserializeOwned>(
        &self,
        key: &str,
        make: impl FnOnce() -> Result<T, ReplayError>,
    ) -> Result<T, ReplayError> {
        if let Some(found) = self.known_judgement(key) {
            return Ok(found);
        }
        let made = make()?;
        self.write_judgement(key, &made)?;
        Ok(made)
    }

    /// What the cache holds, if it may be asked: for what this run has just made it may be.
    fn known_judgement<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        if self.settings().fresh && !self.was_made_just_now(key) {
            return None;
        }
        serde_json::from_slice(&self.cache().read(Kind::Judgement, key)?).ok()
    }

    fn write_judgement(&self, key: &str, made: &impl Serialize) -> Result<(), ReplayError> {
        let text = serde_json::to_vec(made).expect("judgements are plain data");
        self.cache().write(Kind::Judgement, key, &text)?;
        Ok(())
    }

    fn judgement_key(
        &self,
        what: &str,
        subject: &Subject,
        artifacts: &[&Artifact],
    ) -> Result<String, ReplayError> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(what.as_bytes());
        for artifact in artifacts {
            hasher.update(self.outcome_key(subject, artifact)?.as_bytes());
        }
        Ok(hasher.finalize().to_hex()[..40].to_owned())
    }
}

impl Judgement {
    /// What two outcomes tell without comparing elements.
    fn of_outcomes(base: Outcome, got: Outcome) -> Judgement {
        let verdict = match &got.status {
            Status::Untestable { .. } => Verdict::Untestable,
            Status::Failed(_) => Verdict::Failed,
            Status::Completed => match &base.status {
                Status::Completed => Verdict::Identical,
                // Nothing to compare with: what is left is that it differs.
                _ => Verdict::Diverged,
            },
        };
        let launches = launches::changes(&base.launches, &got.launches);
        Judgement { verdict, outputs: Vec::new(), launches, base, got, without_shadow: None }
    }

    fn with_outputs(
        mut self,
        fixture: &Fixture,
        base: &Side,
        got: &Side,
        scratch: &Scratch,
    ) -> Result<Judgement, ReplayError> {
        self.without_shadow = base.without_shadow.clone().or_else(|| got.without_shadow.clone());
        for output in &fixture.outputs {
            let (Some(base_view), Some(got_view)) =
                (base.run.output(&output.name), got.run.output(&output.name))
            else {
                continue;
            };
            let pair = Pair { fixture, base, got, base_view, got_view, scratch };
            self.outputs.push(pair.judge(&output.name, &output.dims)?);
        }
        // A failure stays one, whatever the comparison says; what both sides have is compared.
        if self.verdict <= Verdict::Equivalent {
            let worst = self.outputs.iter().map(|output| output.verdict).max();
            self.verdict = worst.unwrap_or(self.verdict);
        }
        Ok(self)
    }

    /// The kinds of failure that `got` has, `base` has not.
    pub fn new_failures(&self) -> Vec<&Failure> {
        let kinds = |outcome: &Outcome| match &outcome.status {
            Status::Failed(failures) => failures.iter().map(Failure::kind).collect(),
            _ => Vec::new(),
        };
        let known = kinds(&self.base);
        match &self.got.status {
            Status::Failed(failures) => {
                failures.iter().filter(|failure| !known.contains(&failure.kind())).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// One output of both sides, with all that is known about them.
struct Pair<'a> {
    fixture: &'a Fixture,
    base: &'a Side,
    got: &'a Side,
    base_view: TensorView<'a>,
    got_view: TensorView<'a>,
    scratch: &'a Scratch,
}

impl Pair<'_> {
    fn judge(&self, name: &str, dims: &[Dim]) -> Result<OutputJudgement, ReplayError> {
        let noise = NoiseRef { base: self.base.noise_of(name), got: self.got.noise_of(name) };
        let comparison = compare(&self.base_view, &self.got_view, &noise)
            .expect("two runs of one fixture have outputs of one shape");
        let agreement = comparison.verdict;
        let truth = (agreement != Agreement::Identical).then(|| self.truth(name)).flatten();
        let base_noise = self.base.noise_summary(name);
        let imprecise = truth.as_ref().is_some_and(|truth| truth.is_imprecise(&base_noise));
        let verdict = match agreement {
            Agreement::Identical => Verdict::Identical,
            Agreement::Equivalent if imprecise => Verdict::Diverged,
            Agreement::Equivalent => Verdict::Equivalent,
            Agreement::Diverged => Verdict::Diverged,
        };
        let order = self.got.ordered_of(name);
        // What both sides depend on is no change.
        let new_order = order.is_some() && self.base.ordered_of(name).is_none();
        let verdict = if new_order { Verdict::Diverged } else { verdict };
        let mut judged = OutputJudgement {
            name: name.to_owned(),
            dtype: self.base_view.dtype,
            dims: dims.to_vec(),
            verdict,
            comparison,
            got_noise: self.got.noise_summary(name),
            finding: None,
            base_accuracy: None,
            got_accuracy: None,
            shadow: None,
            location: None,
            place: None,
            zero_slices: Vec::new(),
            map: None,
            nondeterminism: self.got.nondeterminism_of(name),
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
            // What is only imprecise lies within the noise of both sides, not of the trusted one.
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
        let beyond = evidence::room(beyond_noise(base, got, noise, scratch))?;
        let masks = Masks::of(self.fixture, &judged.dims);
        judged.location = locate(&beyond, &judged.dims, &masks.as_masks(), scratch)?;
        judged.place = judged.location.as_ref().map(describe);
        judged.zero_slices = zero_slices(base, got, &judged.dims, scratch)?;
        if judged.dims.len() >= 2 {
            judged.map = Some(block_map(&beyond, base.shape));
        }
        Ok(())
    }

    /// Both sides against the captured output, else against the trusted side's shadow.
    fn truth(&self, name: &str) -> Option<Truth> {
        let native = self.base_view.dtype;
        if !native.is_float() {
            return None;
        }
        let noise = NoiseRef { base: self.base.noise_of(name), got: self.got.noise_of(name) };
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

    /// Whether the other side lost what no arithmetic in float32 loses: it rounds to a narrow
    /// format where the trusted side does not. Its own noise is then as large as its error, and
    /// would excuse it.
    fn is_imprecise(&self, base_noise: &NoiseSummary) -> bool {
        let before = self.base.relative_l2.max(base_noise.relative_l2);
        self.got.relative_l2 > NARROW_ROUNDING && self.got.relative_l2 > ERROR_RATIO * before
    }
}

/// Integer inputs whose dimensions an output shares: they tell its rows apart.
struct Masks<'a> {
    found: Vec<MaskInput<'a>>,
}

struct MaskInput<'a> {
    name: &'a str,
    dtype: DType,
    shape: Vec<usize>,
    bytes: Cow<'a, [u8]>,
    /// Which dimension of the output each of its own is.
    places: Vec<usize>,
}

impl<'a> Masks<'a> {
    fn of(fixture: &'a Fixture, dims: &[Dim]) -> Masks<'a> {
        let place = |dim: &Dim| dims.iter().position(|of| of.name.is_some() && of == dim);
        let narrow = |dtype| matches!(dtype, DType::Bool | DType::U8 | DType::I8);
        let found = fixture
            .inputs
            .iter()
            .filter(|input| input.present && narrow(input.dtype) && !input.dims.is_empty())
            .filter_map(|input| {
                let places: Vec<usize> = input.dims.iter().map(place).collect::<Option<_>>()?;
                let bytes = input.packed().ok()?;
                let (name, dtype, shape) = (input.name.as_str(), input.dtype, input.shape());
                Some(MaskInput { name, dtype, shape, bytes, places })
            })
            .collect();
        Masks { found }
    }

    fn as_masks(&self) -> Vec<Mask<'_>> {
        let masks = self.found.iter().map(|mask| Mask {
            name: mask.name,
            view: TensorView { dtype: mask.dtype, shape: &mask.shape, bytes: &mask.bytes },
            dims: &mask.places,
        });
        masks.collect()
    }
}
