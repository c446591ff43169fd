//! A fixture cut to its smallest part with the finding, in words.

use std::cmp::Ordering;

use super::Revision;
use super::numbers::{
    format_byte_size, format_noun_count, format_plural_count, format_short_number,
};
use super::spans::{ReportLine, Text};
use super::style::{BOLD, DIM, GREEN, RED, YELLOW};
use super::text::render_replay_heading;
use replay_base::tensor::unravel_index;
use replay_engine::judge::{Finding, FindingKind};
use replay_fixture::fixture::{ElementValue, SimpleValues};
use replay_search::{SizeRule, TestAnswer};
use replay_shrink::{CutEnd, CutReport, ShrinkAnswer, ShrunkSize, TriedCut, ValueNeed, ValueRule};

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
                CutEnd::Complete => {
                    format!("every smaller fixture loses it, in {}", format_tries(*tries))
                }
                CutEnd::OutOfTries => {
                    let tries = format_tries(*tries);
                    format!("the tries ran out, and no smaller fixture of {tries} shows it")
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
            let tries = format_tries(report.tries);
            let is_whole = report.sizes.iter().all(|size| size.kept.len() == size.before);
            let line = if is_whole && !leaves_input_out(report) {
                let line = ReportLine::with_style(GREEN, "simplified");
                line.and(format!(": no slice can be left out; values are simpler, {tries}"))
            } else {
                ReportLine::with_style(GREEN, "cut").and(format!(": {sizes}, {tries}"))
            };
            match report.end {
                CutEnd::Complete => line,
                CutEnd::OutOfTries => line.and("; the tries ran out: less may do"),
                CutEnd::Interrupted => line.and("; interrupted: less may do"),
            }
        }
    }
}

fn leaves_input_out(report: &CutReport) -> bool {
    report.values.iter().any(|(_, values)| *values == SimpleValues::Absent)
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
    append_values(out, report);
}

/// The simple values of inputs, and what the finding needs of those that are left.
fn append_values(out: &mut Text, report: &CutReport) {
    let of_inputs = report.inputs.iter().map(|input| input.name.as_str());
    // An input that is left out has a line as well.
    let left_out = report.values.iter().map(|(name, _)| name.as_str());
    let left_out = left_out.filter(|name| !report.inputs.iter().any(|input| input.name == *name));
    let names: Vec<&str> = of_inputs.chain(left_out).collect();
    let rows: Vec<(&str, Vec<ReportLine>)> = names
        .into_iter()
        .map(|name| (name, list_value_lines(report, name)))
        .filter(|(_, lines)| !lines.is_empty())
        .collect();
    if rows.is_empty() {
        return;
    }
    out.section("values");
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, lines) in rows {
        for (number, line) in lines.into_iter().enumerate() {
            let shown = if number == 0 { name } else { "" };
            out.line(ReportLine::from("  ").column(BOLD, shown, width).and("  ").and(line));
        }
    }
}

fn list_value_lines(report: &CutReport, input: &str) -> Vec<ReportLine> {
    let simple = report.values.iter().filter(|(name, _)| name == input);
    let mut lines: Vec<ReportLine> =
        simple.map(|(_, values)| ReportLine::from(describe_values(values))).collect();
    for need in report.needs.iter().filter(|need| need.input == input) {
        lines.push(ReportLine::from(describe_value_need(need)));
        lines.push(ReportLine::with_style(DIM, describe_tried_values(need)));
    }
    lines
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
    let mut told: Vec<(String, TestAnswer)> = Vec::new();
    for (wanted, _) in ANSWER_WORDS {
        let of_answer = size.tried.iter().filter(|(_, answer)| *answer == wanted);
        let lengths: Vec<usize> = of_answer.map(|(length, _)| *length).collect();
        if !lengths.is_empty() {
            told.push((name_ranges(&lengths), wanted));
        }
    }
    describe_answers(&told)
}

const ANSWER_WORDS: [(TestAnswer, &str); 4] = [
    (TestAnswer::Bad, "too"),
    (TestAnswer::Good, "not"),
    (TestAnswer::Other, "weaker"),
    (TestAnswer::Skip, "untestable"),
];

/// What was tried, by answer.
fn describe_answers(tried: &[(String, TestAnswer)]) -> String {
    let mut told: Vec<String> = Vec::new();
    for (wanted, words) in ANSWER_WORDS {
        let of_answer = tried.iter().filter(|(_, answer)| *answer == wanted);
        let names: Vec<&str> = of_answer.map(|(name, _)| name.as_str()).collect();
        if !names.is_empty() {
            told.push(format!("{} {words}", names.join(", ")));
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
        SimpleValues::ElementsAt(places, _) => {
            format!("another value at {}", format_noun_count(places.len() as u64, "element"))
        }
    }
}

/// `the defect needs -100, the value of ignore_index; at [1] is enough`.
pub(crate) fn describe_value_need(need: &ValueNeed) -> String {
    let elements = need.shape.iter().product::<usize>();
    let first = need.places.first().map(|place| unravel_index(*place, &need.shape));
    let place = first.map_or(String::new(), |first| match need.places.len() {
        _ if elements == 1 => String::new(),
        1 if need.count == 1 => format!(" at {first:?}"),
        1 => format!("; at {first:?} is enough"),
        places if places == elements => String::new(),
        places => {
            let places = format_noun_count(places as u64, "element");
            if need.places.len() < need.count {
                format!("; {places} are enough, the first at {first:?}")
            } else {
                format!(" at {places}, the first at {first:?}")
            }
        }
    });
    let value = format_element(need.value);
    let words = match need.rule {
        ValueRule::AllEqual => {
            return format!("the defect needs {elements} equal elements");
        }
        ValueRule::Many => {
            return "the defect needs values that are not all 0".to_owned();
        }
        ValueRule::Unclear => {
            return format!("the defect is there with {value}{place}, and no simple rule fits");
        }
        ValueRule::Only => value,
        ValueRule::NotFinite => "NaN or an infinity".to_owned(),
        ValueRule::NotZero => "another number than 0".to_owned(),
        ValueRule::Not(lost) => format!("another number than {}", format_element(lost)),
        ValueRule::Negative => "a negative number".to_owned(),
        ValueRule::Positive => "a positive number".to_owned(),
        ValueRule::NotNegative => "no negative number".to_owned(),
        ValueRule::NotPositive => "no positive number".to_owned(),
        ValueRule::AtLeast(ElementValue::Whole(least)) if has_lost(need, least - 1) => {
            format!("at least {least}")
        }
        ValueRule::AtMost(ElementValue::Whole(most)) if has_lost(need, most + 1) => {
            format!("at most {most}")
        }
        ValueRule::AtLeast(least) => {
            format!("more than {}", format_lost_below(need, least))
        }
        ValueRule::AtMost(most) => format!("less than {}", format_lost_above(need, most)),
        ValueRule::MagnitudeAtLeast(least) => {
            format!("a magnitude near to {} or more", format_magnitude(least))
        }
        ValueRule::Odd => "an odd number".to_owned(),
        ValueRule::Even => "an even number".to_owned(),
        ValueRule::Within(least, most) => {
            let below = format_lost_below(need, least);
            format!("a number between {below} and {}", format_lost_above(need, most))
        }
    };
    let scalar = match &need.equal_to {
        Some(scalar) => format!(", the value of {scalar}"),
        None => String::new(),
    };
    if place.starts_with(';') {
        format!("the defect needs {words}{scalar}{place}")
    } else {
        format!("the defect needs {words}{place}{scalar}")
    }
}

fn has_lost(need: &ValueNeed, number: i128) -> bool {
    need.tried.contains(&(ElementValue::Whole(number), TestAnswer::Good))
}

/// The greatest value below `least` that was tried and lost the finding.
fn format_lost_below(need: &ValueNeed, least: ElementValue) -> String {
    let lost = need.list_lost().filter(|value| value.order(least) == Some(Ordering::Less));
    lost.max_by(ElementValue::order_or_equal).map_or("-inf".to_owned(), format_element)
}

/// The least value above `most` that was tried and lost the finding.
fn format_lost_above(need: &ValueNeed, most: ElementValue) -> String {
    let lost = need.list_lost().filter(|value| value.order(most) == Some(Ordering::Greater));
    lost.min_by(ElementValue::order_or_equal).map_or("inf".to_owned(), format_element)
}

fn format_magnitude(value: ElementValue) -> String {
    format_element(value).trim_start_matches('-').to_owned()
}

fn format_element(value: ElementValue) -> String {
    match value {
        ElementValue::Whole(number) => number.to_string(),
        ElementValue::Real(number) => format_short_number(number, 5),
    }
}

/// `tried: -1 too; 0, 1 not`.
pub(crate) fn describe_tried_values(need: &ValueNeed) -> String {
    let tried = need.tried.iter().map(|(value, answer)| (format_element(*value), *answer));
    let words = describe_answers(&tried.collect::<Vec<_>>());
    match (need.rule, &need.equal_to) {
        (ValueRule::AllEqual, _) => format!("{words} at one of them; at all of them too"),
        (_, Some(scalar)) => format!("{words}; another one there and in {scalar} too"),
        _ => words,
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
    fn what_a_defect_needs_of_a_value_is_told_with_the_tries_behind_it() {
        use ElementValue::{Real, Whole};
        use TestAnswer::{Bad, Good, Skip};
        let need = |shape: &[usize], places: &[usize], value, rule, tried: &[_]| ValueNeed {
            input: "t".to_owned(),
            shape: shape.to_vec(),
            places: places.to_vec(),
            count: places.len(),
            value,
            rule,
            equal_to: None,
            tried: tried.to_vec(),
        };
        let lost = [(Whole(0), Good), (Whole(1), Good)];
        let ignored = need(&[1], &[0], Whole(-100), ValueRule::Only, &lost);
        let by_zero = [(Real(-1.0), Good), (Real(0.0), Good), (Real(60.0), Good)];
        let above = [(Real(80.0), Good), (Real(91.0), Bad)];
        let whole = [(Whole(32), Good), (Whole(33), Bad), (Whole(48), Bad)];
        let cases = [
            ValueNeed { equal_to: Some("ignore_index".to_owned()), ..ignored.clone() },
            ValueNeed {
                equal_to: Some("ignore_index".to_owned()),
                ..need(&[3], &[1], Whole(-100), ValueRule::Only, &lost)
            },
            ValueNeed { count: 3, ..need(&[8], &[1], Whole(-1), ValueRule::Negative, &lost) },
            ValueNeed { count: 3, ..need(&[8], &[1, 2], Whole(-1), ValueRule::Negative, &lost) },
            ignored,
            need(&[2, 3], &[4], Real(f64::NAN), ValueRule::Only, &by_zero),
            need(&[2, 3], &[1, 4], Real(f64::NAN), ValueRule::NotFinite, &[(Real(0.0), Good)]),
            need(&[9], &[3], Whole(64), ValueRule::AtLeast(Whole(33)), &whole),
            need(&[9], &[3], Real(93.0), ValueRule::AtLeast(Real(91.0)), &above),
            need(&[9], &[3], Real(-93.0), ValueRule::AtMost(Real(-93.0)), &by_zero),
            need(&[], &[0], Real(7.5), ValueRule::Within(Real(7.5), Real(7.5)), &by_zero),
            need(&[], &[0], Real(7.5), ValueRule::MagnitudeAtLeast(Real(-7.5)), &by_zero),
            need(&[], &[0], Whole(7), ValueRule::Odd, &[(Whole(6), Good), (Whole(8), Skip)]),
            need(&[3], &[2], Whole(0), ValueRule::AllEqual, &[(Whole(1), Good)]),
            need(&[3], &[0, 1, 2], Real(0.3), ValueRule::Many, &[(Real(0.0), Good)]),
            need(&[3], &[1], Real(0.3), ValueRule::Unclear, &[(Real(0.0), Good)]),
        ];
        let told = cases
            .iter()
            .map(|need| format!("{}\n{}", describe_value_need(need), describe_tried_values(need)));
        insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"), @"
        the defect needs -100, the value of ignore_index
        tried: 0, 1 not; another one there and in ignore_index too
        the defect needs -100 at [1], the value of ignore_index
        tried: 0, 1 not; another one there and in ignore_index too
        the defect needs a negative number; at [1] is enough
        tried: 0, 1 not
        the defect needs a negative number; 2 elements are enough, the first at [1]
        tried: 0, 1 not
        the defect needs -100
        tried: 0, 1 not
        the defect needs NaN at [1, 1]
        tried: -1, 0, 60 not
        the defect needs NaN or an infinity at 2 elements, the first at [0, 1]
        tried: 0 not
        the defect needs at least 33 at [3]
        tried: 33, 48 too; 32 not
        the defect needs more than 80 at [3]
        tried: 91 too; 80 not
        the defect needs less than -1 at [3]
        tried: -1, 0, 60 not
        the defect needs a number between 0 and 60
        tried: -1, 0, 60 not
        the defect needs a magnitude near to 7.5 or more
        tried: -1, 0, 60 not
        the defect needs an odd number
        tried: 6 not; 8 untestable
        the defect needs 3 equal elements
        tried: 1 not at one of them; at all of them too
        the defect needs values that are not all 0
        tried: 0 not
        the defect is there with 0.3 at [1], and no simple rule fits
        tried: 0 not
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
