//! The hunks of the culprit, in the answer of `replay bisect --format json`.

use serde::Serialize;

use crate::Revision;
use crate::bisect::{answer_name, observation_line};
use crate::hunks::{describe_hunks, describe_obstacle, name_hunk};
use replay_bisect::{Carrier, HunkAnswer, HunkReport, SearchReport, Seen, WayBack, WayBackResult};
use replay_history::{Hunk, HunkKind};

/// A part of a change.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct HunkTold<'a> {
    /// Its place as text reports name it.
    name: String,
    path: &'a str,
    kind: HunkKindTold,
    /// The name of a renamed file before.
    from: Option<&'a str>,
    /// Its first line before the change, from 1, and their number.
    old_start: usize,
    old_lines: usize,
    /// Its first line behind the change, and their number.
    new_start: usize,
    new_lines: usize,
    /// Its lines as in a diff, each with its sign.
    text: &'a str,
}

#[derive(Clone, Copy, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum HunkKindTold {
    Lines,
    AddsFile,
    RemovesFile,
    RenamesFile,
    ChangesMode,
    /// A file without lines, such as a symlink.
    ChangesFile,
}

impl<'a> From<&'a Hunk> for HunkTold<'a> {
    fn from(hunk: &'a Hunk) -> HunkTold<'a> {
        let (kind, from) = match &hunk.kind {
            HunkKind::Lines => (HunkKindTold::Lines, None),
            HunkKind::AddsFile => (HunkKindTold::AddsFile, None),
            HunkKind::RemovesFile => (HunkKindTold::RemovesFile, None),
            HunkKind::RenamesFile { from } => (HunkKindTold::RenamesFile, Some(from.as_str())),
            HunkKind::ChangesMode => (HunkKindTold::ChangesMode, None),
            HunkKind::ChangesFile => (HunkKindTold::ChangesFile, None),
        };
        HunkTold {
            name: name_hunk(hunk),
            path: &hunk.path,
            kind,
            from,
            old_start: hunk.old.start,
            old_lines: hunk.old.len(),
            new_start: hunk.new.start,
            new_lines: hunk.new.len(),
            text: &hunk.text,
        }
    }
}

/// The hunks of the culprit, numbered from 0.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct HunksTold<'a> {
    /// Why they are not told apart; null where they are.
    obstacle: Option<&'a str>,
    /// The answer as text reports tell it.
    text: Vec<String>,
    hunks: Vec<HunkTold<'a>>,
    /// The numbers of those of comments and white space.
    inert: Vec<usize>,
    /// The numbers of those in files of a program that no replay opened.
    unopened: Vec<usize>,
    /// How many more the commit has in files that are no sources.
    besides: usize,
    /// The smallest sets that carry the defect, each without the others.
    carriers: Vec<CarrierTold>,
    /// The smallest set that moves the outputs as the whole commit does, where no carrier does.
    as_commit: Option<CarrierTold>,
    /// The answer of the remaining hunks together; null where there are none, or they were not tested.
    #[schemars(extend("enum" = ["good", "bad", "untestable", "fails otherwise", null]))]
    others: Option<&'a str>,
    /// The number of tests.
    tested: usize,
    way_back: Option<WayBackTold<'a>>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct CarrierTold {
    hunks: Vec<usize>,
    /// Whether each of them is needed. Else the tests ran out.
    minimal: bool,
    /// What the parent with these hunks shows.
    seen: String,
}

impl From<&Carrier> for CarrierTold {
    fn from(carrier: &Carrier) -> CarrierTold {
        CarrierTold {
            hunks: carrier.hunks.iter().copied().collect(),
            minimal: carrier.is_minimal,
            seen: observation_line(&carrier.seen),
        }
    }
}

/// These sets, taken back from a later revision.
#[derive(Serialize, schemars::JsonSchema)]
struct WayBackTold<'a> {
    onto: Revision,
    result: WayBackWord,
    /// What stands in the way, or what the replay shows.
    text: Option<String>,
    /// What was replayed, as a patch that `git apply` takes; null where nothing was.
    patch: Option<std::borrow::Cow<'a, str>>,
}

#[derive(Clone, Copy, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum WayBackWord {
    AlreadyBack,
    /// The revision lacks the sources.
    Missing,
    /// The revision changed the same places.
    Conflicts,
    /// The replay has the bits of the good side; of the parent, in `replay blame`.
    GoodBits,
    Good,
    Bad,
    Untestable,
    FailsOtherwise,
}

pub(super) fn build_json_hunks<'a>(
    report: &'a SearchReport,
    answer: &'a HunkAnswer,
) -> HunksTold<'a> {
    let text = describe_hunks(report).iter().map(|line| line.words().trim().to_owned()).collect();
    match answer {
        Ok(answer) => build_json_hunk_report(answer, text),
        Err(obstacle) => HunksTold {
            obstacle: Some(describe_obstacle(*obstacle)),
            text,
            hunks: Vec::new(),
            inert: Vec::new(),
            unopened: Vec::new(),
            besides: 0,
            carriers: Vec::new(),
            as_commit: None,
            others: None,
            tested: 0,
            way_back: None,
        },
    }
}

fn build_json_hunk_report(answer: &HunkReport, text: Vec<String>) -> HunksTold<'_> {
    HunksTold {
        obstacle: None,
        text,
        hunks: answer.hunks.iter().map(HunkTold::from).collect(),
        inert: answer.inert.iter().copied().collect(),
        unopened: answer.unopened.iter().copied().collect(),
        besides: answer.besides,
        carriers: answer.carriers.iter().map(CarrierTold::from).collect(),
        as_commit: answer.as_commit.as_ref().map(CarrierTold::from),
        others: answer.others.map(answer_name),
        tested: answer.tested,
        way_back: answer.way_back.as_ref().map(build_json_way_back),
    }
}

fn build_json_way_back(way_back: &WayBack) -> WayBackTold<'_> {
    use replay_search::TestAnswer;
    let (result, text) = match &way_back.result {
        WayBackResult::AlreadyBack => (WayBackWord::AlreadyBack, None),
        WayBackResult::Missing { reason } => (WayBackWord::Missing, Some(reason.clone())),
        WayBackResult::Conflicts(conflicts) => {
            let told: Vec<String> = conflicts.iter().map(ToString::to_string).collect();
            (WayBackWord::Conflicts, Some(told.join("; ")))
        }
        WayBackResult::Replayed { answer, seen, has_good_bits } => {
            let seen: &Seen = seen;
            let word = match answer {
                TestAnswer::Good if *has_good_bits => WayBackWord::GoodBits,
                TestAnswer::Good => WayBackWord::Good,
                TestAnswer::Bad => WayBackWord::Bad,
                TestAnswer::Skip => WayBackWord::Untestable,
                TestAnswer::Other => WayBackWord::FailsOtherwise,
            };
            (word, Some(observation_line(seen)))
        }
    };
    let patch = (!way_back.patch.is_empty()).then(|| String::from_utf8_lossy(&way_back.patch));
    WayBackTold { onto: way_back.onto.clone().into(), result, text, patch }
}
