//! Reports for people and for programs: text in spans, JSON, Markdown, JUnit, HTML. Makes strings; prints
//! nothing.
#![deny(unreachable_pub)]
#![deny(unsafe_code)]

mod accesses;
mod bisect;
mod bisect_markdown;
mod both;
mod captured_by;
mod changes;
mod devices;
mod explain;
mod gradient_sides;
mod html;
mod hunks;
mod json;
mod judgement;
mod junit;
mod known;
mod markdown;
mod numbers;
mod refusal;
mod run;
mod run_record;
#[cfg(test)]
mod schema;
mod series;
mod shrink;
mod snapshot;
mod spans;
mod standing;
mod step;
mod style;
mod text;

pub use accesses::{new_access, render_access_comparison};
pub use bisect::{
    Origin, SearchRequest, SearchedAxis, answered_line, assign_blame, render_bisect_text,
    tested_line,
};
pub use bisect_markdown::{bisect_markdown, both_markdown};
pub use both::render_both_text;
pub use changes::{LogRequest, render_log_text};
pub use devices::compare_devices;
pub use explain::{Explained, render_explanation_text};
pub use html::{
    Compared, GradcheckEntry, bisect_html, both_html, diff_html, gradcheck_html, log_html,
    render_replay_html, render_step_html, series_html,
};
pub use hunks::hunks_tested_line;
pub use json::{
    ConfigFilePaths, ConfigOrigin, ConfigSetting, Inspected, RecordedFacts, render_begin_json,
    render_bisect_json, render_config_json, render_diff_json, render_env_json, render_event_json,
    render_explanation_json, render_gradcheck_json, render_inspection_json, render_log_json,
    render_recorded_json, render_replay_json, render_shrink_json, render_step_json,
};
pub use judgement::{
    launch_change, order_lines, output_lines, render_comparison, render_gradient_line,
    render_gradients_text, render_judgement_text, verdict_line, verdict_name, verdict_style,
};
pub use junit::render_junit;
pub use markdown::{COMMENT_BYTES, SUMMARY_BYTES, diff_markdown, render_replay_markdown};
pub use numbers::{
    format_byte_size, format_dims, format_noun_count, format_short_number, render_statistics,
};
pub use run::render_run_text;
pub use run_record::{RunRecord, utc_date};
pub use series::{
    Curve, SeriesPart, SeriesReport, describe_series_finding, render_series_csv,
    render_series_json, render_series_text,
};
pub use shrink::{
    ShrinkEntry, WrittenFixture, describe_finding, list_cut_facts, render_shrink_text,
    shrink_tried_line,
};
pub use snapshot::{DiffContext, SnapshotCheck, render_snapshot_sentence, snapshot_diff};
pub use spans::{ReportLine, Text, sanitise_line};
pub use standing::{Standing, render_fixtures_tally};
pub use step::{OtherRun, StepBeside, StepEntry, StepVerdict, render_step_text};
pub use text::{
    describe_failure, launch_shape, render_replay_heading, render_replay_text, short_text,
};

use std::time::Duration;

use replay_bisect::Lineage;
use replay_engine::environment::{RecordedSetting, RecordedVersion};
use replay_engine::judge::{
    Accesses, GradientCheck, Judgement, KnownCheck, OrderCheck, OutputPicture,
};
use replay_engine::trial::Outcome;
use replay_history::Commit;

/// A commit, as reports name it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Revision {
    /// The full id.
    pub id: String,
    /// A unique abbreviation.
    pub short: String,
    /// The first line of the message.
    pub subject: String,
}

/// One fixture at one revision.
#[derive(Clone, Debug)]
pub struct ReportEntry {
    /// The fixture's name.
    pub fixture: String,
    /// The commit; none for the working tree.
    pub revision: Option<Revision>,
    /// The outcome of the replay.
    pub outcome: Outcome,
    /// The outputs beside the captured ones of the fixture.
    pub captured: Vec<KnownCheck>,
    /// The revision whose outputs were captured, if the fixture names it.
    pub captured_at: Option<CaptureRevision>,
    /// Where a captured output is missed: the versions of the capture that are others here.
    pub captured_with: Vec<RecordedVersion>,
    /// Where a captured output is missed: the settings of the capture that are others here.
    pub captured_settings: Vec<RecordedSetting>,
    /// The outputs compared with the oracle of the fixture.
    pub oracle: Vec<KnownCheck>,
    /// The declared gradients, compared with their loss.
    pub gradients: Vec<GradientCheck>,
    /// The replays in other orders of blocks and threads.
    pub orders: OrderCheck,
    /// The wrong accesses to memory, if accesses were checked.
    pub accesses: Option<Accesses>,
    /// The trusted revision, if one was asked for.
    pub trusted: Option<Revision>,
    /// The comparison with the trusted revision, if it has the sources.
    pub judgement: Option<Judgement>,
    /// Why there is no comparison though one was asked for: the trusted revision lacks the sources.
    pub base_lacks: Option<String>,
    /// Pictures of the outputs, if a page was asked for.
    pub pictures: Vec<OutputPicture>,
    /// The commit behind the difference to the trusted revision, if it was asked for.
    pub culprit: Option<Blame>,
    /// The comparison with the accepted snapshot, if one was made.
    pub snapshot: Option<SnapshotCheck>,
    /// The time of the replay with all its checks, where it was measured.
    pub duration: Option<Duration>,
}

/// The revision whose outputs a fixture holds, as its provenance names it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct CaptureRevision {
    /// The commit in the words of the fixture.
    pub named: String,
    /// The commit; none if the repository has no such commit.
    pub commit: Option<Revision>,
    /// Whether tracked files differed from it.
    pub dirty: bool,
    /// Whether its sources are those that were replayed.
    pub same_sources: bool,
}

/// The commit that made the difference.
#[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
pub struct Blame {
    /// The commit; none where the search named none.
    pub commit: Option<Revision>,
    /// The result of the search, in a line.
    pub text: String,
    /// The commit of each output that diverged.
    pub outputs: Vec<OutputBlame>,
    /// The commits between the two revisions as a graph, if a page was asked for.
    #[serde(skip)]
    #[schemars(skip)]
    pub lineage: Option<Lineage>,
}

impl Blame {
    /// No commit for any of `outputs`, because of `text`.
    pub fn nobody(text: &str, outputs: &[String]) -> Blame {
        let mut blame =
            Blame { commit: None, text: text.to_owned(), outputs: Vec::new(), lineage: None };
        blame.outputs = outputs.iter().map(|output| OutputBlame::new(output, &blame)).collect();
        blame
    }
}

/// The commit that changed one output.
#[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
pub struct OutputBlame {
    /// The output.
    pub output: String,
    /// The commit; none where the search named none.
    pub commit: Option<Revision>,
    /// The result of the search, in a line.
    pub text: String,
}

impl OutputBlame {
    /// The commit of `blame` for `output`.
    pub fn new(output: &str, blame: &Blame) -> OutputBlame {
        let Blame { commit, text, .. } = blame;
        OutputBlame { output: output.to_owned(), commit: commit.clone(), text: text.clone() }
    }
}

impl From<Commit> for Revision {
    fn from(commit: Commit) -> Revision {
        Revision { id: commit.id.to_string(), short: commit.short, subject: commit.subject }
    }
}

/// A fixture that could not be replayed, through no fault of the revision's code.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct RefusedFixture {
    /// The folder, as it was named.
    pub fixture: String,
    /// The error, in a sentence.
    pub message: String,
    /// The causes, outermost first.
    pub causes: Vec<String>,
    /// Advice to the user, if there is any.
    pub hint: Option<String>,
}

/// An entry for a replay on the CPU with `status` and nothing else.
#[cfg(test)]
fn create_sample_entry(status: replay_engine::trial::Status) -> ReportEntry {
    let outcome = Outcome {
        device: "cpu".to_owned(),
        device_description: "CPU".to_owned(),
        compiler: "a compiler".to_owned(),
        call: Some(0),
        status,
        launches: Vec::new(),
        launch_count: 0,
        outputs: Vec::new(),
        settings: Default::default(),
        printed: String::new(),
    };
    ReportEntry {
        fixture: "step0".to_owned(),
        revision: None,
        outcome,
        captured: Vec::new(),
        captured_at: None,
        captured_with: Vec::new(),
        captured_settings: Vec::new(),
        oracle: Vec::new(),
        gradients: Vec::new(),
        orders: OrderCheck::default(),
        accesses: None,
        trusted: None,
        judgement: None,
        base_lacks: None,
        pictures: Vec::new(),
        culprit: None,
        snapshot: None,
        duration: None,
    }
}
