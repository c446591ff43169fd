//! A fixture cut to its smallest part with the finding, in words.

use super::Revision;
use super::numbers::{
    format_byte_size, format_noun_count, format_plural_count, format_short_number,
};
use super::spans::{ReportLine, Text};
use super::style::{BOLD, DIM, GREEN, RED, YELLOW};
use super::text::render_replay_heading;
use replay_engine::judge::{Finding, FindingKind};
use replay_fixture::fixture::SimpleValues;
use replay_search::{SizeRule, TestAnswer};
use replay_shrink::{CutEnd, CutReport, ShrinkAnswer, ShrunkSize, TriedCut};

/// What became of one fixture.
pub struct ShrinkEntry<'a> {
    pub fixture: &'a str,
    /// The revision with the finding; none for the working tree.
    pub revision: Option<&'a Revision>,
    /// The trusted revision, if the finding is one beside it.
    pub trusted: Option<&'a Revision>,
    pub answer: &'a ShrinkAnswer,
    /// The bytes of the files of the whole fixture.
    pub bytes: u64,
    /// The smallest fixture, if it was written.
    pub written: Option<WrittenFixture>,
}

/// A fixture that was written.
pub struct WrittenFixture {
    /// Its folder, as the user may name it.
    pub folder: String,
    /// The bytes of its files.
    pub bytes: u64,
}

/// `grad_logits is wrong, 2941061 x noise`.
pub fn describe_finding(finding: &Finding) -> String {
    let words = match &finding.kind {
        FindingKind::Wrong => "is wrong",
        FindingKind::Hidden => "is wrong, hidden by rounding",
        FindingKind::Imprecise => "is imprecise",
        FindingKind::LessAccurate => "is less accurate",
        FindingKind::MoreAccurate => "is more accurate",
        FindingKind::AsAccurate => "moved, as accurate as before",
        FindingKind::BeyondNoise => "is beyond noise",
        FindingKind::OrderDependent => "depends on the order of blocks and threads",
        FindingKind::GradientMismatch => "does not match its loss",
        FindingKind::GradientImprecise => "is less precise than its noise allows",
        FindingKind::Failed(kind) => return format!("the replay fails: {kind}"),
        FindingKind::Access { kind, memory } => return kind.words(memory),
    };
    let output = finding.output.as_deref().unwrap_or("an output");
    let distance = match &finding.kind {
        kind if kind.is_in_noise() => {
            format!(", {} x noise", format_short_number(finding.distance, 3))
        }
        FindingKind::Hidden | FindingKind::GradientMismatch => {
            format!(", rel. {}", format_short_number(finding.distance, 2))
        }
        _ => String::new(),
    };
    format!("{output} {words}{distance}")
}

/// A try, in the progress of a search.
pub fn shrink_tried_line(tried: &TriedCut<'_>) -> String {
    let sizes: Vec<String> =
        tried.sizes.iter().map(|(name, length)| format!("{name} {length}")).collect();
    let answer = match (tried.answer, tried.untestable) {
        (TestAnswer::Bad, _) => "still there",
        (TestAnswer::Good, _) => "gone",
        (TestAnswer::Other, _) => "much weaker",
        (TestAnswer::Skip, _) => "cannot be tested",
    };
    format!("try {}: {}: {answer}", tried.tries, sizes.join(", "))
}

/// The answer of `replay shrink`.
pub fn render_shrink_text(entry: &ShrinkEntry<'_>) -> Text {
    let mut out = Text::new();
    out.line(render_replay_heading(entry.fixture, entry.revision));
    if let Some(trusted) = entry.trusted {
        out.line(format!("against {} {}", trusted.short, trusted.subject));
    }
    if let ShrinkAnswer::Cut(report) = entry.answer {
        append_cut(&mut out, report);
    }
    out.line(ReportLine::new());
    out.line(conclude_shrinking(entry));
    out
}

/// The last line: what became of the fixture.
pub(crate) fn conclude_shrinking(entry: &ShrinkEntry<'_>) -> ReportLine {
    match entry.answer {
        ShrinkAnswer::NoFinding => {
            let beside = match entry.trusted {
                Some(_) => "beside the trusted revision",
                None => "by itself",
            };
            let line = ReportLine::with_style(YELLOW, "not cut");
            line.and(format!(": the replay shows no finding {beside}"))
        }
        ShrinkAnswer::Untestable { reason } => {
            ReportLine::with_style(YELLOW, "untestable").and(format!(": {reason}"))
        }
        ShrinkAnswer::NothingSmaller { finding, tries, end } => {
            let line = ReportLine::with_style(YELLOW, "not cut").and(": ");
            let why = match end {
                CutEnd::Interrupted => {
                    format!("interrupted after {}", format_tries(*tries))
                }
                CutEnd::Complete if *tries == 0 => "there is nothing to cut".to_owned(),
                CutEnd::Complete | CutEnd::OutOfTries => {
                    format!("every smaller fixture loses it, in {}", format_tries(*tries))
                }
            };
            line.and(format!("{}; {why}", describe_finding(finding)))
        }
        ShrinkAnswer::Unsteady { finding, tries } => {
            let line = ReportLine::with_style(YELLOW, "not cut").and(": ");
            let found = describe_finding(finding);
            line.and(format!(
                "{found}; it comes and goes: the smallest fixture of {} loses it when replayed again",
                format_tries(*tries)
            ))
        }
        ShrinkAnswer::Cut(report) => {
            let sizes = match &entry.written {
                Some(written) => format!(
                    "{} -> {}",
                    format_byte_size(entry.bytes),
                    format_byte_size(written.bytes)
                ),
                None => format_byte_size(entry.bytes),
            };
            let line = ReportLine::with_style(GREEN, "cut")
                .and(format!(": {sizes}, {}", format_tries(report.tries)));
            match report.end {
                CutEnd::Complete => line,
                CutEnd::OutOfTries => line.and("; the tries ran out: less may do"),
                CutEnd::Interrupted => line.and("; interrupted: less may do"),
            }
        }
    }
}

fn format_tries(tries: usize) -> String {
    format_plural_count(tries as u64, "try", "tries")
}

fn append_cut(out: &mut Text, report: &CutReport) {
    out.section("finding");
    out.line(ReportLine::from("  before  ").styled(RED, describe_finding(&report.finding)));
    out.line(ReportLine::from("  after   ").styled(RED, describe_finding(&report.kept)));
    if !report.sizes.is_empty() {
        out.section("sizes");
    }
    let width = report.sizes.iter().map(|size| size.name.len()).max().unwrap_or(0);
    let counts: Vec<String> = report.sizes.iter().map(describe_counts).collect();
    let count_width = counts.iter().map(String::len).max().unwrap_or(0);
    for (size, counts) in report.sizes.iter().zip(&counts) {
        let mut line = ReportLine::from("  ").column(BOLD, &size.name, width).and("  ");
        line = line.and(format!("{counts:<count_width$}  {}", describe_need(size)));
        out.line(line);
        let tried = describe_tried(size);
        if !tried.is_empty() {
            out.line(ReportLine::from(" ".repeat(width + count_width + 6)).styled(DIM, tried));
        }
    }
    if !report.values.is_empty() {
        out.section("values");
        let width = report.values.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, values) in &report.values {
            let line = ReportLine::from("  ").column(BOLD, name, width).and("  ");
            out.line(line.and(describe_values(values)));
        }
    }
}

fn describe_counts(size: &ShrunkSize) -> String {
    format!("{} -> {}", size.before, size.kept.len())
}

/// `at least 65 are needed`.
pub(crate) fn describe_need(size: &ShrunkSize) -> String {
    let kept = size.kept.len();
    let is_whole = kept == size.before;
    let is_weaker =
        size.tried.iter().any(|(length, answer)| *length < kept && *answer == TestAnswer::Other);
    let words = match size.rule {
        _ if size.tried.is_empty() && kept > 1 => "what is needed was not tried".to_owned(),
        None if kept == 1 => "one is enough".to_owned(),
        None if is_weaker => "less is weaker".to_owned(),
        None => "less cannot be tested".to_owned(),
        Some(SizeRule::AtLeast(least)) if is_whole && least == kept => "all are needed".to_owned(),
        Some(SizeRule::AtLeast(2)) => "more than one is needed".to_owned(),
        Some(SizeRule::AtLeast(least)) => format!("at least {least} are needed"),
        Some(SizeRule::NoMultipleOf(divisor)) => format!("no multiple of {divisor}"),
        Some(SizeRule::MultipleOf(divisor)) => format!("a multiple of {divisor}"),
        Some(SizeRule::NoPowerOfTwo) => "no power of two".to_owned(),
        Some(SizeRule::PowerOfTwo) => "a power of two".to_owned(),
        Some(SizeRule::Odd) => "odd".to_owned(),
        Some(SizeRule::Within(least, most)) => format!("{least} to {most}"),
        Some(SizeRule::Unclear) => format!("{kept} do, and no simple rule fits"),
    };
    let words = match size.rule {
        Some(_) if is_weaker => format!("{words}, fewer than {kept} show less"),
        _ => words,
    };
    match describe_slices(size) {
        Some(slices) => format!("{words}: {slices}"),
        None => words,
    }
}

/// Which slices are left, where not the first ones are.
pub(crate) fn describe_slices(size: &ShrunkSize) -> Option<String> {
    let is_prefix = size.kept.iter().enumerate().all(|(place, slice)| place == *slice);
    if is_prefix || !size.has_slices {
        return None;
    }
    Some(format!(
        "{} {}",
        if size.kept.len() == 1 { "slice" } else { "slices" },
        name_ranges(&size.kept)
    ))
}

/// `3, 7-9`.
fn name_ranges(slices: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &slice in slices {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == slice => *last = slice,
            _ => ranges.push((slice, slice)),
        }
    }
    let names: Vec<String> = ranges
        .into_iter()
        .map(|(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first}, {last}"),
            _ => format!("{first}-{last}"),
        })
        .collect();
    names.join(", ")
}

/// `tried: 34, 64 too; 31, 32 not; 5 untestable`.
pub(crate) fn describe_tried(size: &ShrunkSize) -> String {
    let parts = [
        (TestAnswer::Bad, "too"),
        (TestAnswer::Good, "not"),
        (TestAnswer::Other, "weaker"),
        (TestAnswer::Skip, "untestable"),
    ];
    let mut told: Vec<String> = Vec::new();
    for (wanted, words) in parts {
        let of_answer = size.tried.iter().filter(|(_, answer)| *answer == wanted);
        let lengths: Vec<usize> = of_answer.map(|(length, _)| *length).collect();
        if !lengths.is_empty() {
            told.push(format!("{} {words}", name_ranges(&lengths)));
        }
    }
    if told.is_empty() { String::new() } else { format!("tried: {}", told.join("; ")) }
}

pub(crate) fn describe_values(values: &SimpleValues) -> String {
    match values {
        SimpleValues::Absent => "left out".to_owned(),
        SimpleValues::Zeros => "zeros".to_owned(),
        SimpleValues::Ones => "ones".to_owned(),
        SimpleValues::Whole => "whole numbers".to_owned(),
        SimpleValues::ZerosAt(ranges) => {
            let count: usize = ranges.iter().map(ExactSizeIterator::len).sum();
            format!("zero at {}", format_noun_count(count as u64, "element"))
        }
    }
}

/// The provenance of the smallest fixture: each size with its slices, and the simple values.
pub fn list_cut_facts(report: &CutReport) -> Vec<(String, String)> {
    let sizes = report.sizes.iter().map(|size| {
        let kept = match describe_slices(size) {
            Some(slices) => format!("{} of {}, {slices}", size.kept.len(), size.before),
            None => format!("{} of {}", size.kept.len(), size.before),
        };
        (size.name.clone(), kept)
    });
    let mut facts: Vec<(String, String)> = sizes.collect();
    for (name, values) in &report.values {
        let words = describe_values(values);
        match facts.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = format!("{known}, {words}"),
            None => facts.push((name.clone(), words)),
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(before: usize, kept: &[usize], tried: &[(usize, TestAnswer)]) -> ShrunkSize {
        ShrunkSize {
            name: "vocab".to_owned(),
            before,
            kept: kept.to_vec(),
            has_slices: true,
            tried: tried.to_vec(),
            rule: replay_search::find_size_rule(kept.len(), tried),
        }
    }

    fn told(size: &ShrunkSize) -> String {
        format!("{}\n{}", describe_need(size), describe_tried(size))
    }

    #[test]
    fn what_a_defect_needs_of_a_size_is_told_with_the_tries_behind_it() {
        use TestAnswer::{Bad, Good, Other, Skip};
        let first = |count: usize| (0..count).collect::<Vec<_>>();
        let cases = [
            size(34, &[23], &[]),
            size(34, &[22, 23], &[(1, Good), (3, Bad), (4, Bad)]),
            size(2004, &first(65), &[(32, Good), (64, Good), (66, Bad), (128, Bad)]),
            size(34, &first(3), &[(1, Good), (2, Good), (4, Good), (5, Bad), (8, Good)]),
            size(9, &first(9), &[(8, Good)]),
            size(9, &[3, 5, 6, 7], &[(3, Skip), (2, Other), (5, Bad)]),
            size(3000, &first(144), &[(128, Good), (129, Other), (143, Other), (145, Bad)]),
            size(40, &first(4), &[(3, Good), (5, Good), (6, Bad), (7, Good), (9, Bad)]),
        ];
        let told: Vec<String> = cases.iter().map(told).collect();
        insta::assert_snapshot!(told.join("\n"), @r"
        one is enough: slice 23

        more than one is needed: slices 22, 23
        tried: 3, 4 too; 1 not
        at least 65 are needed
        tried: 66, 128 too; 32, 64 not
        no power of two
        tried: 5 too; 1, 2, 4, 8 not
        all are needed
        tried: 8 not
        less is weaker: slices 3, 5-7
        tried: 5 too; 2 weaker; 3 untestable
        at least 129 are needed, fewer than 144 show less
        tried: 145 too; 128 not; 129, 143 weaker
        4 do, and no simple rule fits
        tried: 6, 9 too; 3, 5, 7 not
        ");
    }

    #[test]
    fn every_kind_of_finding_has_words() {
        use FindingKind::{
            Access, AsAccurate, BeyondNoise, Failed, GradientImprecise, GradientMismatch, Hidden,
            Imprecise, LessAccurate, MoreAccurate, OrderDependent, Wrong,
        };
        let kinds = [
            Wrong,
            Hidden,
            Imprecise,
            LessAccurate,
            MoreAccurate,
            AsAccurate,
            BeyondNoise,
            OrderDependent,
            GradientMismatch,
            GradientImprecise,
            Failed("unwritten".to_owned()),
            Access { kind: replay_runtime::report::FoundKind::Race, memory: "y".to_owned() },
        ];
        let told = kinds.map(|kind| {
            let place = Vec::new();
            describe_finding(&Finding { kind, output: Some("y".to_owned()), distance: 2.5, place })
        });
        insta::assert_snapshot!(told.join("\n"), @r"
        y is wrong, 2.5 x noise
        y is wrong, hidden by rounding, rel. 2.5
        y is imprecise, 2.5 x noise
        y is less accurate, 2.5 x noise
        y is more accurate, 2.5 x noise
        y moved, as accurate as before, 2.5 x noise
        y is beyond noise, 2.5 x noise
        y depends on the order of blocks and threads
        y does not match its loss, rel. 2.5
        y is less precise than its noise allows, 2.5 x noise
        the replay fails: unwritten
        race on y
        ");
    }
}
