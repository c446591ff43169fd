//! Two revisions side by side: brings replays and the numerics of `verdict` together.
//!
//! [`Replayer::judge`] compares two source sets on one fixture, [`Replayer::noise`] measures one,
//! [`Replayer::gradcheck`] holds a gradient against its loss. What they find is remembered by
//! content, like the replays themselves.

mod captured;
mod evidence;
mod gradcheck;
mod launches;
mod masks;
mod order;
mod pair;
mod trusted;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cache::Kind;
use crate::compile::Artifact;
use crate::fixture::Fixture;
use crate::frontend::Precision;
use crate::history::SourceSet;
use crate::replay::{Failure, Outcome, ReplayError, Replayer, Status, Subject};
use crate::scratch::Scratch;
use crate::tensor::{DType, Dim};
use crate::verdict::compare::{Agreement, Comparison};
use crate::verdict::noise::NoiseSummary;
use crate::verdict::oracle::{Accuracy, Finding, ShadowChange};
use crate::verdict::slices::Location;

pub use self::captured::CapturedCheck;
use self::evidence::Side;
pub use self::gradcheck::{GradientCheck, GradientVerdict};
pub use self::launches::{LaunchChange, changes as launch_changes};
pub use self::order::OrderDependence;
use self::pair::Pair;
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
    /// The location as a picture: rows are the leading dimensions, columns the last; none where the
    /// words say as much.
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
            let _span = tracing::info_span!("compare", message = subject.fixture.name);
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
        let timeouts = self.timeouts();
        let made = make()?;
        if self.timeouts() == timeouts {
            self.write_judgement(key, &made)?;
        }
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
        if self.toolchain().has_given_up() {
            return Ok(());
        }
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
                Status::Untestable { .. } => Verdict::Untestable,
                // No outputs to compare with: what is left is that it ends otherwise.
                Status::Failed(_) => Verdict::Diverged,
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
