//! A run as a series of steps: what is reported of it, in every format.

mod csv;
mod document;
mod sparkline;
mod text;
mod words;

pub use csv::csv as series_csv;
pub use document::json as series_json;
pub use text::series as series_text;
pub(super) use text::{NO_ROLES, alignment, heading, severity, verdict};
pub use words::sentence as finding_sentence;

use super::{Refused, Revision, Standing};
use crate::judge::Verdict;
use crate::series::{Finding, Other, Series, Severity};
use crate::trial::Status;

/// A run, as reports show it: numbers of each step and what they show, no tensors.
#[derive(Clone, Debug)]
pub struct SeriesReport {
    pub series: Series,
    /// What they show, the worst first.
    pub findings: Vec<Finding>,
    /// Whether outputs were replayed; captured ones are shown otherwise.
    pub replayed: bool,
    /// The revision that they were replayed at; none for the working tree.
    pub revision: Option<Revision>,
    /// The trusted revision, where there is one.
    pub against: Option<Revision>,
    /// The device and the compiler of the replays.
    pub device: Option<(String, String)>,
    /// The steps that could not be read or replayed.
    pub errors: Vec<Refused>,
}

/// A quantity over the steps, as plots and tables show it.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// What it is, by its part of the report.
    pub part: Part,
    /// Its name within that part: a parameter, a group of them, an output.
    pub name: String,
    /// The value at each step; none where there is none.
    pub values: Vec<Option<f64>>,
}

/// A part of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Loss,
    LearningRate,
    /// The norm of all gradients before they are clipped.
    NormBefore,
    /// What clipping multiplies gradients by.
    Clipping,
    /// Norms of gradients, by group and parameter.
    Gradients,
    /// Update-to-weight ratios, by parameter.
    Updates,
    /// Adam's steps in units of the learning rate, by parameter.
    Adam,
    /// Relative distances of outputs from the trusted revision.
    FromTrusted,
    /// The same from the oracle.
    FromOracle,
    /// The same from the captured outputs.
    FromCaptured,
}

impl Part {
    /// The heading, with the unit where there is one.
    pub fn title(self) -> &'static str {
        match self {
            Part::Loss => "loss",
            Part::LearningRate => "learning rate",
            Part::NormBefore => "gradient norm before clipping",
            Part::Clipping => "clipping: gradients are multiplied by",
            Part::Gradients => "gradient norm",
            Part::Updates => "update-to-weight ratio",
            Part::Adam => "Adam's step / learning rate",
            Part::FromTrusted => "relative distance from the trusted revision",
            Part::FromOracle => "relative distance from the oracle",
            Part::FromCaptured => "relative distance from the captured output",
        }
    }
}

impl SeriesReport {
    /// Everything that is known at several steps as a number, in the order of the report.
    pub fn curves(&self) -> Vec<Curve> {
        let series = &self.series;
        let scalar = |of: fn(&crate::series::Scalars) -> Option<f64>| {
            series.steps.iter().map(|step| of(&step.measured.scalars)).collect()
        };
        let clipping = series.clipping();
        let curve = |part, name: &str, values| Curve { part, name: name.to_owned(), values };
        let norms: Vec<_> = clipping.iter().map(|one| one.map(|one| one.norm)).collect();
        let factors = clipping.iter().map(|one| one.map(|clipping| clipping.factor)).collect();
        let mut curves = vec![
            curve(Part::Loss, "loss", series.losses()),
            curve(Part::LearningRate, "lr", scalar(|scalars| scalars.lr)),
            curve(Part::NormBefore, "all", norms),
            curve(Part::Clipping, "factor", factors),
        ];
        curves.extend(self.gradients());
        for (at, parameter) in series.roster.parameters.iter().enumerate() {
            curves.push(curve(Part::Updates, &parameter.path, series.update_ratios(at)));
        }
        for (at, parameter) in series.roster.parameters.iter().enumerate() {
            curves.push(curve(Part::Adam, &parameter.path, series.adam_steps(at)));
        }
        curves.extend(self.distances());
        curves.retain(|curve| curve.values.iter().any(Option::is_some));
        // Norms that were captured are shown where they are not those of the captured gradients.
        let is_near = |a: &Option<f64>, b: &Option<f64>| {
            a.zip(*b).is_some_and(|(a, b)| (a - b).abs() <= 1e-3 * a.abs())
        };
        let computed = series.gradient_norms("");
        curves.retain(|curve| {
            let values = curve.values.iter().zip(&computed);
            curve.part != Part::NormBefore || !values.into_iter().all(|(a, b)| is_near(a, b))
        });
        curves
    }

    /// Gradient norms: all, groups, parameters, as a tree; then those of values on the way.
    fn gradients(&self) -> Vec<Curve> {
        let roster = &self.series.roster;
        let members = roster.gradients();
        let paths: Vec<&str> = members.iter().map(|(one, _)| one.path.as_str()).collect();
        let groups = crate::series::groups(&paths);
        let mut names: Vec<String> = Vec::new();
        for path in &paths {
            let above = groups.iter().filter(|group| crate::series::lies_in(path, group));
            for name in above.cloned().chain([(*path).to_owned()]) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        let curve = |name: String| Curve {
            part: Part::Gradients,
            values: self.series.gradient_norms(&name),
            name: if name.is_empty() { "all".to_owned() } else { name },
        };
        let mut curves: Vec<Curve> = names.into_iter().map(curve).collect();
        for parameter in roster.parameters.iter().filter(|one| !paths.contains(&one.path.as_str()))
        {
            let place = parameter.gradient.as_ref().and_then(|name| roster.place(name));
            let Some(place) = place else { continue };
            let norm =
                |step: &crate::series::Step| Some(step.measured.tensors.get(place)?.as_ref()?.norm);
            let values = self.series.steps.iter().map(norm).collect();
            curves.push(Curve { part: Part::Gradients, name: parameter.path.clone(), values });
        }
        curves
    }

    fn distances(&self) -> Vec<Curve> {
        let mut curves = Vec::new();
        for (part, from) in [
            (Part::FromTrusted, Other::Trusted),
            (Part::FromOracle, Other::Oracle),
            (Part::FromCaptured, Other::Captured),
        ] {
            let replays = self.series.steps.iter().filter_map(|step| step.replay.as_ref());
            let all = replays.flat_map(|replay| &replay.distances).filter(|one| one.from == from);
            let mut names: Vec<&str> = Vec::new();
            for one in all {
                if !names.contains(&one.output.as_str()) {
                    names.push(&one.output);
                }
            }
            for name in names {
                let found = self.series.distances(from, name).into_iter();
                let values = found.map(|one| one.map(|one| one.relative)).collect();
                curves.push(Curve { part, name: name.to_owned(), values });
            }
        }
        curves
    }

    /// How the series stands: the worst of its replays and of its findings.
    pub fn standing(&self) -> Standing {
        let replays = self.series.steps.iter().filter_map(|step| step.replay.as_ref());
        let of_replay = replays.map(|replay| {
            let own = match replay.status {
                Status::Completed => Standing::Completed,
                Status::Failed(_) => Standing::Failed,
                Status::Untestable { .. } => Standing::Untestable,
            };
            let judged = replay.distances.iter().filter(|one| one.from != Other::Captured);
            let verdicts = judged.map(|one| one.verdict);
            let others: Option<Verdict> = verdicts.chain(replay.against).max();
            own.max(others.map_or(Standing::Completed, Standing::from))
        });
        let is_wrong = self.findings.iter().any(|finding| finding.severity == Severity::Wrong);
        let found = if is_wrong { Standing::Diverged } else { Standing::Completed };
        of_replay.max().unwrap_or(Standing::Completed).max(found)
    }

    /// The name of the step at `place`: its number, or else its fixture.
    pub fn step_name(&self, place: usize) -> String {
        let step = &self.series.steps[place];
        let repeated = &self.series.numbering.repeated;
        match step.number {
            Some(number)
                if self.series.numbering.without.is_empty() && !repeated.contains(&number) =>
            {
                format!("step {number}")
            }
            _ => step.fixture.clone(),
        }
    }
}

/// A report on `steps` of a harness with one output, as captured; for tests.
#[cfg(test)]
pub(super) fn made_up(steps: Vec<crate::series::Step>) -> SeriesReport {
    let text = "sources = [\"a.cu\"]\ncall = \"f();\"\n[outputs.y]\ndtype = \"f32\"\nshape = []";
    let harness = crate::harness::Harness::parse(text, "replay.toml".as_ref());
    let roster = crate::series::Roster::of(&harness.expect("a harness"));
    let numbering = crate::series::Numbering::default();
    SeriesReport {
        series: Series { roster, steps, numbering, clip: None },
        findings: Vec::new(),
        replayed: false,
        revision: None,
        against: None,
        device: None,
        errors: Vec::new(),
    }
}
