//! The hunks of the culprit that carry the defect, and the way back, in words.

use super::bisect::{colour_diff, join_wanted_names, observation_line};
use super::numbers::{format_noun_count, format_short_number};
use super::spans::{ReportLine, Text};
use super::style::{BOLD, COMMIT, DIM, YELLOW};
use replay_bisect::{
    Carrier, Direction, GoodEnds, HunkObstacle, HunkReport, SearchReport, Seen, Symptom, WayBack,
    WayBackResult,
};
use replay_history::{Hunk, HunkKind};
use replay_search::TestAnswer;

/// The lines of a hunk in a report; the diff has the others.
const MOST_LINES: usize = 40;

/// The hunks of a set that are told of one by one.
const MOST_SINGLES: usize = 4;

/// The outputs that a line names; it counts the others.
const MOST_OUTPUTS: usize = 3;

/// A hunk by its place: `src/loss.cu:150-157`.
pub(crate) fn name_hunk(hunk: &Hunk) -> String {
    let path = &hunk.path;
    match &hunk.kind {
        HunkKind::Lines if hunk.new.is_empty() => {
            format!("{path}:{} (removed)", name_lines(&hunk.old))
        }
        HunkKind::Lines => format!("{path}:{}", name_lines(&hunk.new)),
        HunkKind::AddsFile => format!("{path} (a new file)"),
        HunkKind::RemovesFile => format!("{path} (removed)"),
        HunkKind::RenamesFile { from } => format!("{path} (renamed from {from})"),
        HunkKind::ChangesMode => format!("{path} (its mode)"),
        HunkKind::ChangesFile => format!("{path} (as a whole)"),
    }
}

fn name_lines(lines: &std::ops::Range<usize>) -> String {
    match lines.len() {
        1 => lines.start.to_string(),
        _ => format!("{}-{}", lines.start, lines.end - 1),
    }
}

/// `a, b and c`.
fn join_names(names: &[String]) -> String {
    match names {
        [others @ .., last] if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}

fn name_carrier(answer: &HunkReport, carrier: &Carrier) -> String {
    let names = carrier.hunks.iter().map(|&hunk| name_hunk(&answer.hunks[hunk]));
    join_names(&names.collect::<Vec<_>>())
}

/// A hunk test, in a line.
pub fn hunks_tested_line(hunks: &[&Hunk], answer: TestAnswer, seen: &Seen) -> ReportLine {
    let name = match hunks {
        [hunk] => name_hunk(hunk),
        [first, others @ ..] => {
            format!(
                "{} and {}",
                name_hunk(first),
                format_noun_count(others.len() as u64, "other hunk")
            )
        }
        [] => "no hunk".to_owned(),
    };
    let words = match (answer, seen.untestable()) {
        (TestAnswer::Skip, Some(reason)) => reason.to_owned(),
        _ => observation_line(seen),
    };
    ReportLine::with_style(COMMIT, name)
        .and(format!(" {}: {words}", super::bisect::answer_name(answer)))
}

/// What hunks do, of one or of several: `moves grad by 0.26`.
fn describe_effect(report: &SearchReport, seen: &Seen, hunk_count: usize) -> String {
    let ending = if hunk_count == 1 { "s" } else { "" };
    if report.direction == Direction::Repairs {
        return format!("repair{ending} {}", join_wanted_names(report));
    }
    // A set that moves the outputs as the whole commit does stands beside the others.
    let has_commits_set = matches!(&report.hunks, Some(Ok(HunkReport { as_commit: Some(_), .. })));
    let mut moved = Vec::new();
    for observation in &seen.observations {
        let outputs = observation.judgement.iter().flat_map(|judgement| &judgement.outputs);
        for output in outputs {
            let symptom = Symptom::Diverged {
                fixture: observation.fixture.clone(),
                output: output.name.clone(),
            };
            let distance = output.comparison.relative_l2;
            if !report.wanted.contains(&symptom) || !observation.symptoms.contains(&symptom) {
                continue;
            }
            let commit_distance =
                if has_commits_set { None } else { find_commit_distance(report, &symptom) };
            moved.push(describe_move(&output.name, distance, commit_distance));
        }
    }
    moved.dedup();
    if moved.is_empty() {
        return format!(
            "carr{} the defect ({})",
            if ending.is_empty() { "y" } else { "ies" },
            observation_line(seen)
        );
    }
    let more = moved.len().saturating_sub(MOST_OUTPUTS);
    moved.truncate(MOST_OUTPUTS);
    if more > 0 {
        moved.push(format!("{more} more"));
    }
    format!("move{ending} {}", join_names(&moved))
}

/// How far the whole commit moves the output of `symptom`, relative to its norm.
fn find_commit_distance(report: &SearchReport, symptom: &Symptom) -> Option<f64> {
    let Symptom::Diverged { fixture, output } = symptom else { return None };
    let observations = &report.culprit.as_ref()?.seen.observations;
    let observation = observations.iter().find(|observation| observation.fixture == *fixture)?;
    let outputs = &observation.judgement.as_ref()?.outputs;
    let moved = outputs.iter().find(|moved| moved.name == *output)?;
    Some(moved.comparison.relative_l2)
}

/// `grad by rel. 0.26`, with the distance of the whole commit where that is another.
fn describe_move(output: &str, distance: f64, commit_distance: Option<f64>) -> String {
    if !distance.is_finite() {
        return output.to_owned();
    }
    let number = format_short_number(distance, 2);
    let commit_number = commit_distance.map(|distance| format_short_number(distance, 2));
    match commit_number.filter(|commit_number| *commit_number != number) {
        Some(commit_number) => {
            format!("{output} by rel. {number} (the whole commit by {commit_number})")
        }
        None => format!("{output} by rel. {number}"),
    }
}

/// The lines about the hunks of the culprit, without their code.
pub(crate) fn describe_hunks(report: &SearchReport) -> Vec<ReportLine> {
    match &report.hunks {
        None => Vec::new(),
        Some(Ok(answer)) => describe_hunk_report(report, answer),
        Some(Err(obstacle)) => vec![describe_obstacle(*obstacle).into()],
    }
}

/// Why the hunks of a culprit were not told apart.
pub(crate) fn describe_obstacle(obstacle: HunkObstacle) -> &'static str {
    match obstacle {
        HunkObstacle::NoParent => "it has no parent with the sources: all of it is new",
        HunkObstacle::UntestableParent => {
            "its parent cannot be tested: there is nothing good to add single hunks to"
        }
        HunkObstacle::Unsteady => {
            "its verdicts are not always the same: its hunks are not told apart"
        }
    }
}

fn describe_hunk_report(report: &SearchReport, answer: &HunkReport) -> Vec<ReportLine> {
    let mut lines = Vec::new();
    let left = answer.candidates().len() - answer.carried().len();
    match &answer.as_commit {
        Some(carrier) => {
            let line = describe_carrier(report, answer, carrier);
            let is_part = carrier.hunks.len() < answer.candidates().len();
            let line = if is_part { line.and(", as the whole commit does") } else { line };
            lines.push(line.and(describe_others(answer, left)));
            lines.extend(describe_smaller_sets(report, answer, carrier));
            lines.extend(describe_limit(carrier));
        }
        None => {
            for (number, carrier) in answer.carriers.iter().enumerate() {
                let line = describe_carrier(report, answer, carrier);
                let is_last = number + 1 == answer.carriers.len();
                lines.push(if is_last { line.and(describe_others(answer, left)) } else { line });
                lines.extend(describe_singles(answer, carrier));
                lines.extend(describe_limit(carrier));
            }
        }
    }
    lines.extend(describe_left_out(answer).map(|line| ReportLine::with_style(DIM, line)));
    lines.extend(
        answer.way_back.as_ref().map(|way_back| describe_way_back(report, answer, way_back)),
    );
    lines
}

fn describe_carrier(report: &SearchReport, answer: &HunkReport, carrier: &Carrier) -> ReportLine {
    let names = ReportLine::with_style(BOLD, name_carrier(answer, carrier));
    let effect = describe_effect(report, &carrier.seen, carrier.hunks.len());
    let is_all = carrier.hunks.len() == answer.candidates().len();
    match (is_all, carrier.hunks.len(), answer.hunks.len()) {
        (true, 1, 1) => names.and(" is its only hunk"),
        (true, 1, _) => names.and(" is its only hunk that a replay can see"),
        (_, 1, _) => names.and(format!(" alone {effect}")),
        (true, _, _) if carrier.is_minimal => {
            names.and(format!(", all its hunks, together {effect}: none of them can be left out"))
        }
        _ => names.and(format!(" together {effect}")),
    }
}

/// What each hunk of `carrier` does by itself.
fn describe_singles(answer: &HunkReport, carrier: &Carrier) -> Vec<ReportLine> {
    let singles = carrier.alone.iter().filter(|_| carrier.hunks.len() <= MOST_SINGLES);
    let lines = singles.map(|(hunk, alone, seen)| {
        let name = name_hunk(&answer.hunks[*hunk]);
        format!("  {name} alone {}", describe_single(*alone, seen)).into()
    });
    lines.collect()
}

/// The smaller sets with another move than the commit's, and what other hunks of `carrier` do by themselves.
fn describe_smaller_sets(
    report: &SearchReport,
    answer: &HunkReport,
    carrier: &Carrier,
) -> Vec<ReportLine> {
    let describe_other_move = |names: &str, seen: &Seen, hunk_count: usize| {
        let effect = describe_effect(report, seen, hunk_count);
        let together = if hunk_count == 1 { "alone" } else { "together" };
        format!("  {names} {together} {effect}, not as the whole commit does")
    };
    let mut lines: Vec<ReportLine> = Vec::new();
    for smaller in &answer.carriers {
        let names = name_carrier(answer, smaller);
        lines.push(describe_other_move(&names, &smaller.seen, smaller.hunks.len()).into());
    }
    for (hunk, alone, seen) in &carrier.alone {
        let is_told = answer.carriers.iter().any(|smaller| smaller.hunks.iter().eq([hunk]));
        if is_told || carrier.hunks.len() > MOST_SINGLES {
            continue;
        }
        let name = name_hunk(&answer.hunks[*hunk]);
        let line = match alone {
            TestAnswer::Bad => describe_other_move(&name, seen, 1),
            _ => format!("  {name} alone {}", describe_single(*alone, seen)),
        };
        lines.push(line.into());
    }
    lines
}

/// Where the tests ran out before each hunk of `carrier` was known to be needed.
fn describe_limit(carrier: &Carrier) -> Option<ReportLine> {
    let limit = "the tests ran out: fewer hunks may do; `replay blame` has no limit";
    (!carrier.is_minimal).then(|| ReportLine::from("  ").styled(YELLOW, limit))
}

/// What the hunks outside of all carriers do: `; the other 6 hunks do not`.
fn describe_others(answer: &HunkReport, left: usize) -> String {
    if left == 0 {
        return String::new();
    }
    let others = match left {
        1 => "the other hunk".to_owned(),
        _ => format!("the other {left} hunks"),
    };
    let does = if left == 1 { "does" } else { "do" };
    match answer.others {
        Some(TestAnswer::Good) => format!("; {others} {does} not"),
        Some(TestAnswer::Bad) => format!("; {others} still {does}"),
        Some(TestAnswer::Skip) => format!("; {others} cannot be tested by themselves"),
        Some(TestAnswer::Other) => format!("; by themselves {others} fail in another way"),
        None => format!("; {others} were not tested by themselves"),
    }
}

fn describe_single(answer: TestAnswer, seen: &Seen) -> String {
    match (answer, seen.untestable()) {
        (TestAnswer::Skip, Some(reason)) => format!("cannot be tested: {reason}"),
        (TestAnswer::Skip, None) => "leaves it open".to_owned(),
        (TestAnswer::Good, _) => "does not".to_owned(),
        (TestAnswer::Bad, _) => "does".to_owned(),
        (TestAnswer::Other, _) => format!("fails in another way: {}", observation_line(seen)),
    }
}

/// The hunks that were not tested, if there are any.
fn describe_left_out(answer: &HunkReport) -> Option<String> {
    let kinds = [
        (answer.inert.len(), "of comments and white space"),
        (answer.unopened.len(), "in files that no replay opened"),
        (answer.besides, "in files that are no sources of it"),
    ];
    let told: Vec<&(usize, &str)> = kinds.iter().filter(|(count, _)| *count > 0).collect();
    match told.as_slice() {
        [] => None,
        [(count, kind)] => {
            Some(format!("{} {kind} left out", format_noun_count(*count as u64, "more hunk")))
        }
        several => {
            let total = several.iter().map(|(count, _)| count).sum::<usize>() as u64;
            let parts: Vec<String> =
                several.iter().map(|(count, kind)| format!("{count} {kind}")).collect();
            let total = format_noun_count(total, "more hunk");
            Some(format!("{total} left out: {}", join_names(&parts)))
        }
    }
}

/// What becomes of the bad end without the hunks.
fn describe_way_back(report: &SearchReport, answer: &HunkReport, way_back: &WayBack) -> ReportLine {
    let [pronoun, subject] =
        if answer.carried().len() == 1 { ["it", "it"] } else { ["them", "they"] };
    let onto = &way_back.onto.short;
    let reversing = || {
        let line = ReportLine::from(format!("reversing {pronoun} on ")).styled(COMMIT, onto);
        line.and(" ")
    };
    match &way_back.result {
        WayBackResult::AlreadyBack => ReportLine::with_style(COMMIT, onto)
            .and(format!(" has nothing of {pronoun} to reverse")),
        WayBackResult::Missing { reason } => {
            ReportLine::from(format!("{subject} cannot be reversed: {reason}"))
        }
        WayBackResult::Conflicts(conflicts) => {
            let told: Vec<String> = conflicts.iter().map(ToString::to_string).collect();
            let line = ReportLine::from(format!("{subject} cannot be reversed on "));
            line.styled(COMMIT, onto).and(format!(": {}", told.join("; ")))
        }
        WayBackResult::Replayed { has_good_bits: true, .. }
            if report.direction == Direction::Changes =>
        {
            reversing().and("gives the old bits again")
        }
        WayBackResult::Replayed { has_good_bits: true, .. }
            if report.good_ends == Some(GoodEnds::Parent) =>
        {
            reversing().and("gives the parent's bits again")
        }
        WayBackResult::Replayed { has_good_bits: true, .. } => {
            reversing().and("gives the good bits again")
        }
        WayBackResult::Replayed { answer: TestAnswer::Good, seen, .. } => {
            let names = join_wanted_names(report);
            reversing().and(format!("mends {names}: {}", observation_line(seen)))
        }
        WayBackResult::Replayed { answer: TestAnswer::Bad, seen, .. } => {
            reversing().and(format!("is not enough: {}", observation_line(seen)))
        }
        WayBackResult::Replayed { answer: TestAnswer::Skip, seen, .. } => {
            let reason = seen.untestable().unwrap_or("its replay leaves it open");
            reversing().and(format!("cannot be tested: {reason}"))
        }
        WayBackResult::Replayed { answer: TestAnswer::Other, seen, .. } => {
            reversing().and(format!("fails in another way: {}", observation_line(seen)))
        }
    }
}

/// The code of the hunks that carry the defect; none where all hunks that may do.
pub(crate) fn render_hunk_code(report: &SearchReport) -> Text {
    let mut out = Text::new();
    let Some(Ok(answer)) = &report.hunks else { return out };
    let carried = answer.carried();
    if carried == answer.candidates() {
        return out;
    }
    for &hunk in &carried {
        let hunk = &answer.hunks[hunk];
        out.line(ReportLine::new());
        out.line(ReportLine::with_style(BOLD, name_hunk(hunk)));
        let lines: Vec<&str> = hunk.text.lines().collect();
        let shown = lines.len().min(MOST_LINES);
        out.append(colour_diff(&lines[..shown].join("\n")));
        if lines.len() > shown {
            let more = format_noun_count((lines.len() - shown) as u64, "more line");
            out.line(ReportLine::with_style(DIM, format!("({more})")));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_that_move_an_output_otherwise_than_the_commit_have_its_distance_beside_theirs() {
        let told = [(0.26, Some(0.26)), (0.2601, Some(0.2599)), (1.5, Some(0.83)), (1.5, None)]
            .map(|(distance, commit_distance)| describe_move("dq", distance, commit_distance));
        assert_eq!(told[..2], ["dq by rel. 0.26", "dq by rel. 0.26"]);
        assert_eq!(told[2..], ["dq by rel. 1.5 (the whole commit by 0.83)", "dq by rel. 1.5"]);
        assert_eq!(describe_move("dq", f64::INFINITY, Some(0.83)), "dq");
    }
}
