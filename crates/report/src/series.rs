//! Reports on a run as a series of steps, in every format.

mod csv;
mod document;
mod sparkline;
mod text;
mod words;

pub use csv::render_series_csv;
pub use document::render_series_json;
pub use text::render_series_text;
pub(super) use text::{
    NO_ROLES, describe_alignment, render_series_heading, render_series_verdict, severity_name,
};
pub use words::describe_series_finding;

use super::{RefusedFixture, Revision, Standing};
use replay_engine::judge::Verdict;
use replay_engine::trial::Status;
use replay_series::{Other, Series, SeriesFinding, Severity};

/// A run, as reports show it: numbers of each step and findings, no tensors.
#[derive(Clone, Debug)]
pub struct SeriesReport {
    pub series: Series,
    /// The findings, the worst first.
    pub findings: Vec<SeriesFinding>,
    /// Whether outputs were replayed; captured ones are shown otherwise.
    pub replayed: bool,
    /// The revision of the replays; none for the working tree.
    pub revision: Option<Revision>,
    /// The trusted revision, where there is one.
    pub against: Option<Revision>,
    /// The device and the compiler of the replays.
    pub device: Option<(String, String)>,
    /// The steps without a replay, by fault of their files or of the machine.
    pub errors: Vec<RefusedFixture>,
}

/// A quantity over the steps, as plots and tables show it.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Its part of the report.
    pub part: SeriesPart,
    /// Its name within the part: a parameter, a group of them, an output.
    pub name: String,
    /// The value at each step; none where there is none.
    pub values: Vec<Option<f64>>,
}

impl Curve {
    fn new(part: SeriesPart, name: &str, values: Vec<Option<f64>>) -> Curve {
        Curve { part, name: name.to_owned(), values }
    }
}

/// Whether two values differ by at most a thousandth; not if one of them is missing.
fn are_near(value: Option<f64>, other_value: Option<f64>) -> bool {
    match (value, other_value) {
        (Some(value), Some(other_value)) => (value - other_value).abs() <= 1e-3 * value.abs(),
        _ => false,
    }
}

/// A part of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SeriesPart {
    Loss,
    LearningRate,
    /// The norm of all gradients before they are clipped.
    NormBefore,
    /// The factor of clipping.
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

impl SeriesPart {
    /// The heading, with the unit where there is one.
    pub fn title(self) -> &'static str {
        match self {
            SeriesPart::Loss => "loss",
            SeriesPart::LearningRate => "learning rate",
            SeriesPart::NormBefore => "gradient norm before clipping",
            SeriesPart::Clipping => "clipping: gradients are multiplied by",
            SeriesPart::Gradients => "gradient norm",
            SeriesPart::Updates => "update-to-weight ratio",
            SeriesPart::Adam => "Adam's step / learning rate",
            SeriesPart::FromTrusted => "relative distance from the trusted revision",
            SeriesPart::FromOracle => "relative distance from the oracle",
            SeriesPart::FromCaptured => "relative distance from the captured output",
        }
    }
}

impl SeriesReport {
    /// Every number known at several steps, in the order of the report.
    pub fn curves(&self) -> Vec<Curve> {
        let series = &self.series;
        let steps = series.steps.iter();
        let rates = steps.map(|step| step.measured.scalars.lr).collect();
        let clipping = series.clipping();
        let norms: Vec<_> = clipping
            .iter()
            .map(|step_clipping| step_clipping.map(|applied_clipping| applied_clipping.norm))
            .collect();
        let factors = clipping
            .iter()
            .map(|step_clipping| step_clipping.map(|clipping| clipping.factor))
            .collect();
        let mut curves = vec![
            Curve::new(SeriesPart::Loss, "loss", series.losses()),
            Curve::new(SeriesPart::LearningRate, "lr", rates),
            Curve::new(SeriesPart::NormBefore, "all", norms),
            Curve::new(SeriesPart::Clipping, "factor", factors),
        ];
        curves.extend(self.gradients());
        for (index, parameter) in series.catalogue.parameters.iter().enumerate() {
            curves.push(Curve::new(
                SeriesPart::Updates,
                &parameter.path,
                series.update_ratios(index),
            ));
        }
        for (index, parameter) in series.catalogue.parameters.iter().enumerate() {
            curves.push(Curve::new(SeriesPart::Adam, &parameter.path, series.adam_steps(index)));
        }
        curves.extend(self.distances());
        curves.retain(|curve| curve.values.iter().any(Option::is_some));
        // Captured norms are shown only if they are not those of the captured gradients.
        let computed = series.gradient_norms("");
        curves.retain(|curve| {
            let values = curve.values.iter().zip(&computed);
            curve.part != SeriesPart::NormBefore
                || !values.into_iter().all(|(a, b)| are_near(*a, *b))
        });
        curves
    }

    /// Gradient norms: all, groups, parameters, as a tree; then those of values on the way.
    fn gradients(&self) -> Vec<Curve> {
        let catalogue = &self.series.catalogue;
        let members = catalogue.gradients();
        let paths: Vec<&str> =
            members.iter().map(|(parameter, _)| parameter.path.as_str()).collect();
        let groups = replay_series::group_paths(&paths);
        let mut names: Vec<String> = Vec::new();
        for path in &paths {
            let enclosing_groups =
                groups.iter().filter(|group| replay_series::is_in_group(path, group));
            for name in enclosing_groups.cloned().chain([(*path).to_owned()]) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        let mut curves = Vec::new();
        for name in names {
            let values = self.series.gradient_norms(&name);
            let name = if name.is_empty() { "all" } else { &name };
            curves.push(Curve::new(SeriesPart::Gradients, name, values));
        }
        for parameter in catalogue
            .parameters
            .iter()
            .filter(|candidate| !paths.contains(&candidate.path.as_str()))
        {
            let place = parameter.gradient.as_ref().and_then(|name| catalogue.place(name));
            let Some(place) = place else { continue };
            let steps = self.series.steps.iter();
            let norms = steps.map(|step| Some(step.measured.tensors.get(place)?.as_ref()?.norm));
            let values = norms.collect();
            curves.push(Curve {
                part: SeriesPart::Gradients,
                name: parameter.path.clone(),
                values,
            });
        }
        curves
    }

    fn distances(&self) -> Vec<Curve> {
        let mut curves = Vec::new();
        for (part, reference) in [
            (SeriesPart::FromTrusted, Other::Trusted),
            (SeriesPart::FromOracle, Other::Oracle),
            (SeriesPart::FromCaptured, Other::Captured),
        ] {
            let replays = self.series.steps.iter().filter_map(|step| step.replay.as_ref());
            let distances = replays
                .flat_map(|replay| &replay.distances)
                .filter(|distance| distance.from == reference);
            let mut names: Vec<&str> = Vec::new();
            for distance in distances {
                if !names.contains(&distance.output.as_str()) {
                    names.push(&distance.output);
                }
            }
            for name in names {
                let step_distances = self.series.distances(reference, name).into_iter();
                let values = step_distances
                    .map(|step_distance| step_distance.map(|distance| distance.relative))
                    .collect();
                curves.push(Curve { part, name: name.to_owned(), values });
            }
        }
        curves
    }

    /// How the series stands: the worst of its replays and of its findings.
    pub fn standing(&self) -> Standing {
        let replays = self.series.steps.iter().filter_map(|step| step.replay.as_ref());
        let of_replay = replays.map(|replay| {
            let own_standing = match replay.status {
                Status::Completed if replay.has_unchecked_gradient() => Standing::Unchecked,
                Status::Completed => Standing::Completed,
                Status::Failed(_) => Standing::Failed,
                Status::Untestable { .. } => Standing::Untestable,
            };
            let judged_distances =
                replay.distances.iter().filter(|distance| distance.from != Other::Captured);
            let verdicts = judged_distances.map(|distance| distance.verdict);
            let worst_verdict: Option<Verdict> = verdicts.chain(replay.against).max();
            own_standing.max(worst_verdict.map_or(Standing::Completed, Standing::from))
        });
        let is_wrong = self.findings.iter().any(|finding| finding.severity() == Severity::Wrong);
        let findings_standing = if is_wrong { Standing::Diverged } else { Standing::Completed };
        of_replay.max().unwrap_or(Standing::Completed).max(findings_standing)
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
pub(super) fn create_sample_series(steps: Vec<replay_series::SeriesStep>) -> SeriesReport {
    let text = "sources = [\"a.cu\"]\ncall = \"f();\"\n[outputs.y]\ndtype = \"f32\"\nshape = []";
    let harness = replay_fixture::harness::Harness::parse(text, "replay.toml".as_ref());
    let catalogue = replay_series::TensorCatalogue::from_harness(&harness.expect("a harness"));
    let numbering = replay_series::Numbering::default();
    SeriesReport {
        series: Series { catalogue, steps, numbering, clip: None },
        findings: Vec::new(),
        replayed: false,
        revision: None,
        against: None,
        device: None,
        errors: Vec::new(),
    }
}
