//! Outputs beside those of the fixture, captured or declared to be true, for people.

use super::judgement::{format_place_phrase, render_comparison, verdict_name, verdict_style};
use super::numbers::{format_plural_count, format_short_number};
use super::spans::{ReportLine, Text};
use super::style::{BOLD, DIM, GREEN, YELLOW};
use super::{CaptureRevision, ReportEntry};
use replay_engine::environment::{RecordedSetting, RecordedVersion, VersionRelation};
use replay_engine::judge::{Imprecision, KnownCheck, Verdict};

/// A cause of differences between equal sources on equal inputs.
pub(super) const OUTSIDE: &str = "something outside of the inputs is at work, such as a buffer \
                                  kept between calls, random numbers, or another version of a package";

/// A block for each output with a captured one, and for each with an oracle.
pub(super) fn render_known_outputs(entry: &ReportEntry) -> Text {
    let mut out = render_known_block("oracle", &entry.oracle, |check| {
        ReportLine::with_style(verdict_style(check.verdict), verdict_name(check.verdict))
    });
    out.append(render_known_block("captured outputs", &entry.captured, |check| {
        let style = if check.verdict <= Verdict::Equivalent { GREEN } else { YELLOW };
        ReportLine::with_style(style, captured_word(check.verdict))
    }));
    if !entry.captured.is_empty() {
        let mut lines = describe_capture_origin(entry.captured_at.as_ref(), &entry.captured);
        lines.extend(describe_capture_environment(&entry.captured_with, &entry.captured_settings));
        lines.into_iter().for_each(|line| out.line(ReportLine::from("  ").styled(DIM, line)));
    }
    out
}

fn render_known_block(
    title: &str,
    checks: &[KnownCheck],
    word: impl Fn(&KnownCheck) -> ReportLine,
) -> Text {
    let mut out = Text::new();
    if checks.is_empty() {
        return out;
    }
    out.section(title);
    let width = checks.iter().map(|check| check.output.len()).max().unwrap_or(0);
    for check in checks {
        for (number, line) in render_known_lines(check, word(check)).into_iter().enumerate() {
            let name = if number == 0 { check.output.as_str() } else { "" };
            out.line(ReportLine::from("  ").column(BOLD, name, width).and("  ").and(line));
        }
    }
    out
}

/// The lines about one output, `word` first.
fn render_known_lines(check: &KnownCheck, word: ReportLine) -> Vec<ReportLine> {
    let mut lines = vec![word];
    if check.verdict != Verdict::Identical {
        lines.extend(render_comparison(check.dtype, &check.dims, &check.comparison));
    }
    lines.extend(describe_known_fault(check).map(ReportLine::from));
    lines
}

/// The words for an output within its own noise that errs all the same.
const IMPRECISE: &str = "imprecise beside the oracle";

/// Where an output lies beyond noise, or how far it errs within its own.
pub(super) fn describe_known_fault(check: &KnownCheck) -> Option<String> {
    match check.imprecision {
        Some(imprecision) => Some(describe_imprecision(imprecision)),
        None => check.place.as_deref().map(format_place_phrase),
    }
}

fn describe_imprecision(imprecision: Imprecision) -> String {
    let Imprecision { error, last_rounding } = imprecision;
    let [error, last_rounding] = [error, last_rounding].map(|part| format_short_number(part, 2));
    format!(
        "imprecise: it errs by rel. {error} around the oracle, and its last rounding by rel. {last_rounding} at most"
    )
}

/// The words for an output beside the captured one: neither is the truth.
pub(super) fn captured_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Identical => "as captured",
        Verdict::Equivalent => "within noise of what was captured",
        _ => "not as captured",
    }
}

/// A sentence on the captured outputs furthest off, if there are any.
pub(super) fn captured_sentence(checks: &[KnownCheck]) -> Option<String> {
    let worst = checks.iter().map(|check| check.verdict).max()?;
    Some(describe_known_outputs(checks, worst, captured_word(worst)))
}

/// A sentence on the outputs furthest from the oracle, with verdict `worst`.
pub(super) fn oracle_sentence(checks: &[KnownCheck], worst: Verdict) -> String {
    let relation = match worst {
        Verdict::Identical => "the oracle's",
        Verdict::Equivalent => "within noise of the oracle",
        _ => "beyond noise of the oracle",
    };
    let (imprecise, others): (Vec<&KnownCheck>, Vec<&KnownCheck>) = checks
        .iter()
        .filter(|check| check.verdict == worst)
        .partition(|check| check.imprecision.is_some());
    let parts = [(others, relation), (imprecise, IMPRECISE)];
    let parts = parts.into_iter().filter(|(such, _)| !such.is_empty());
    parts.map(|(such, relation)| describe_such(&such, relation)).collect::<Vec<_>>().join("; ")
}

fn describe_known_outputs(checks: &[KnownCheck], worst: Verdict, relation: &str) -> String {
    let such: Vec<&KnownCheck> = checks.iter().filter(|check| check.verdict == worst).collect();
    describe_such(&such, relation)
}

fn describe_such(such: &[&KnownCheck], relation: &str) -> String {
    let names: Vec<&str> = such.iter().map(|check| check.output.as_str()).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb} {relation}", names.join(", "))
}

/// The commit of the capture, and the consequence if the same sources do not give the outputs.
fn describe_capture_origin(
    captured_at: Option<&CaptureRevision>,
    checks: &[KnownCheck],
) -> Vec<String> {
    let Some(revision) = captured_at else {
        return vec!["captured at a commit that the fixture does not name".to_owned()];
    };
    let revision_words = revision.words();
    let sources = match revision.same_sources {
        true => ", with the sources that were replayed",
        false if revision.commit.is_some() && !revision.dirty => ", with other sources",
        false => "",
    };
    let mut lines = vec![format!("captured at {revision_words}{sources}")];
    let differs = checks.iter().any(|check| check.verdict > Verdict::Equivalent);
    if differs && revision.same_sources && !revision.dirty {
        lines.push(OUTSIDE.to_owned());
    }
    lines
}

/// So many differences are named.
const NAMED_DIFFERENCES: usize = 4;

/// `captured with triton 3.5.1, here 3.6.0`; none where everything is the same. Of other versions, other settings and
/// other contents the first is named before the second of any: versions of the framework and its flags come first.
fn describe_capture_environment(
    others: &[RecordedVersion],
    settings: &[RecordedSetting],
) -> Option<String> {
    let (rebuilt, updated): (Vec<&RecordedVersion>, Vec<&RecordedVersion>) =
        others.iter().partition(|version| version.relation == VersionRelation::OtherContents);
    let kinds: [Vec<String>; 3] = [
        updated.into_iter().map(describe_other_version).collect(),
        settings.iter().map(describe_other_setting).collect(),
        rebuilt.into_iter().map(describe_other_contents).collect(),
    ];
    let longest = kinds.iter().map(Vec::len).max().unwrap_or(0);
    let in_turn =
        (0..longest).flat_map(|place| kinds.iter().filter_map(move |kind| kind.get(place)));
    let mut words: Vec<String> = in_turn.take(NAMED_DIFFERENCES).cloned().collect();
    let left_out = others.len() + settings.len() - words.len();
    if left_out > 0 {
        let differences =
            format_plural_count(left_out as u64, "further difference", "further differences");
        words.push(format!("{differences}: `replay env` shows all"));
    }
    (!words.is_empty()).then(|| format!("captured with {}", words.join("; ")))
}

fn describe_other_version(version: &RecordedVersion) -> String {
    let RecordedVersion { name, captured, here, .. } = version;
    match here {
        Some(here) => format!("{name} {captured}, here {here}"),
        None => format!("{name} {captured}, which is not installed here"),
    }
}

fn describe_other_contents(version: &RecordedVersion) -> String {
    format!("{} {} of other contents", version.name, version.captured)
}

fn describe_other_setting(setting: &RecordedSetting) -> String {
    let RecordedSetting { name, captured, here, .. } = setting;
    let captured_words = match captured {
        Some(captured) => format!("{name} = {captured}"),
        None => format!("no {name}"),
    };
    match here {
        Some(here) => format!("{captured_words}, here {here}"),
        None => format!("{captured_words}, which is not set here"),
    }
}

impl CaptureRevision {
    /// The commit, in words behind `captured at`.
    pub fn words(&self) -> String {
        match &self.commit {
            Some(commit) if self.dirty => {
                format!("{} with changes that were not committed", commit.short)
            }
            Some(commit) => commit.short.clone(),
            None => format!("{}, which is no commit of this repository", self.named),
        }
    }
}

/// The places where outputs lie beyond noise, and what is known of imprecise ones.
pub(super) fn list_diverged_places(checks: &[KnownCheck]) -> Vec<String> {
    let places = checks.iter().filter_map(|check| {
        let fault = describe_known_fault(check)?;
        Some(format!("{} {fault}", check.output))
    });
    places.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_base::tensor::DType;
    use replay_engine::environment::SettingRelation;
    use replay_numerics::compare::Comparison;
    use replay_numerics::noise::NoiseSummary;

    fn check(output: &str, place: Option<&str>, imprecision: Option<Imprecision>) -> KnownCheck {
        KnownCheck {
            output: output.to_owned(),
            dtype: DType::BF16,
            dims: Vec::new(),
            verdict: Verdict::Diverged,
            checksum: "0".repeat(32).parse().expect("a checksum"),
            comparison: Comparison::identical(1),
            noise: NoiseSummary::default(),
            imprecision,
            place: place.map(str::to_owned),
        }
    }

    fn other_version(number: usize, relation: VersionRelation) -> RecordedVersion {
        RecordedVersion {
            name: format!("package{number}"),
            captured: format!("1.{number}"),
            here: (relation != VersionRelation::NotInstalled).then(|| "2.0".to_owned()),
            captured_contents: None,
            contents_here: None,
            relation,
        }
    }

    fn other_setting(name: &str, captured: Option<&str>, here: Option<&str>) -> RecordedSetting {
        let [captured, here] = [captured, here].map(|value| value.map(str::to_owned));
        RecordedSetting { name: name.to_owned(), captured, here, relation: SettingRelation::Other }
    }

    #[test]
    fn the_first_versions_that_differ_are_named_and_the_others_counted() {
        let relation = |number| match number {
            1 => VersionRelation::NotInstalled,
            _ => VersionRelation::OtherVersion,
        };
        let versions: Vec<RecordedVersion> =
            (0..7).map(|number| other_version(number, relation(number))).collect();
        let lines = [0, 2, 5, 7].map(|count| describe_capture_environment(&versions[..count], &[]));
        assert_eq!(lines[0], None);
        let lines: Vec<String> = lines.into_iter().flatten().collect();
        insta::assert_snapshot!(lines.join("\n"), @"
        captured with package0 1.0, here 2.0; package1 1.1, which is not installed here
        captured with package0 1.0, here 2.0; package1 1.1, which is not installed here; package2 1.2, here 2.0; package3 1.3, here 2.0; 1 further difference: `replay env` shows all
        captured with package0 1.0, here 2.0; package1 1.1, which is not installed here; package2 1.2, here 2.0; package3 1.3, here 2.0; 3 further differences: `replay env` shows all
        ");
    }

    #[test]
    fn other_versions_settings_and_contents_are_named_in_turn() {
        let contents = VersionRelation::OtherContents;
        let settings = [
            other_setting("torch.backends.cudnn.benchmark", Some("true"), Some("false")),
            other_setting("NVIDIA_TF32_OVERRIDE", Some("0"), None),
            other_setting("MKL_CBWR", None, Some("AVX2")),
        ];
        let version = VersionRelation::OtherVersion;
        let versions =
            [other_version(0, contents), other_version(1, version), other_version(2, version)];
        let lines = [
            describe_capture_environment(&versions[..1], &[]),
            describe_capture_environment(&[], &settings),
            describe_capture_environment(&versions, &settings),
        ];
        let lines: Vec<String> = lines.into_iter().flatten().collect();
        insta::assert_snapshot!(lines.join("\n"), @"
        captured with package0 1.0 of other contents
        captured with torch.backends.cudnn.benchmark = true, here false; NVIDIA_TF32_OVERRIDE = 0, which is not set here; no MKL_CBWR, here AVX2
        captured with package1 1.1, here 2.0; torch.backends.cudnn.benchmark = true, here false; package0 1.0 of other contents; package2 1.2, here 2.0; 2 further differences: `replay env` shows all
        ");
    }

    #[test]
    fn an_output_within_its_own_noise_is_told_apart_from_one_beyond_it() {
        let imprecision = Imprecision { error: 0.02, last_rounding: 0.0028 };
        let checks = [check("dx", None, Some(imprecision)), check("dw", Some("row 3"), None)];
        insta::assert_snapshot!(oracle_sentence(&checks, Verdict::Diverged), @"dw is beyond noise of the oracle; dx is imprecise beside the oracle");
        insta::assert_snapshot!(list_diverged_places(&checks).join("\n"), @"
        dx imprecise: it errs by rel. 0.02 around the oracle, and its last rounding by rel. 0.0028 at most
        dw at row 3
        ");
    }
}
