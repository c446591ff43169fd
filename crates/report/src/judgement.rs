//! Two revisions side by side, and gradients against their loss, for people.

use anstyle::Style;

use super::numbers::{format_noun_count, format_short_number};
use super::spans::{ReportLine, Text};
use super::style::{BOLD, DIM, GREEN, RED, YELLOW};
use super::text::{describe_failure, launch_shape};
use replay_base::tensor::{DType, Dim, unravel_index};
use replay_engine::judge::{
    Equivalence, GradientCheck, GradientPlace, GradientStory, GradientVerdict, ImpreciseBy,
    Judgement, LaunchChange, OrderCheck, OutputJudgement, ShadowShift, Story, StraightThrough,
    Verdict, WrongBy, format_long_name,
};
use replay_engine::trial::{Failure, OrderDependence, Probe, Status};
use replay_numerics::compare::Comparison;
use replay_numerics::constants::FLIP_FACTOR;
use replay_numerics::derivative::least_visible_error;
use replay_numerics::oracle::Finding;
use replay_runtime::report::LaunchRecord;

/// The word for a verdict.
pub fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Identical => "identical",
        Verdict::Equivalent => "equivalent",
        Verdict::Unchecked => "unchecked",
        Verdict::Unknown => "unknown",
        Verdict::Untestable => "untestable",
        Verdict::Diverged => "diverged",
        Verdict::Failed => "failed",
    }
}

/// The word for the verdict on `output`, with the elements that it is about.
pub(super) fn name_output_verdict(output: &OutputJudgement) -> String {
    let verdict = output.story.verdict();
    let part = if output.unwritten > 0 && verdict.agrees() { " where written" } else { "" };
    format!("{}{part}", verdict_name(verdict))
}

/// How a verdict is coloured.
pub fn verdict_style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Identical | Verdict::Equivalent => GREEN,
        Verdict::Unchecked | Verdict::Unknown | Verdict::Untestable => YELLOW,
        Verdict::Diverged | Verdict::Failed => RED,
    }
}

/// The word for a finding.
fn finding_name(finding: Finding) -> &'static str {
    match finding {
        Finding::Wrong => "wrong",
        Finding::Imprecise => "imprecise",
        Finding::LessAccurate => "less accurate",
        Finding::MoreAccurate => "more accurate",
        Finding::AsAccurate => "as accurate",
    }
}

/// The words for the meaning of a change, and whether the output shows it; none where no truth is known.
pub(super) fn finding_words(story: &Story) -> Option<String> {
    let name = story.finding().map(finding_name)?;
    Some(match story {
        Story::Wrong(WrongBy::HiddenShadow) => format!("{name}, {HIDDEN}"),
        Story::Wrong(WrongBy::Shadow | WrongBy::Distance)
        | Story::Agrees(_)
        | Story::OrderDependent(_)
        | Story::Unsteady
        | Story::Drifted { .. }
        | Story::Imprecise(_)
        | Story::LessAccurate
        | Story::MoreAccurate
        | Story::AsAccurate
        | Story::BeyondNoise { .. } => name.to_owned(),
    })
}

/// The differences between two revisions, a block for each output.
pub fn render_judgement_text(judgement: &Judgement) -> Text {
    let mut out = Text::new();
    // A side without a run launched nothing; this is no change.
    let is_tested = ![&judgement.base, &judgement.got]
        .iter()
        .any(|outcome| matches!(outcome.status, Status::Untestable { .. }));
    if is_tested && !judgement.launches.is_empty() {
        out.section("launches changed");
        for change in &judgement.launches {
            out.line(format!("  {}", launch_change(change)));
        }
    }
    if !judgement.outputs.is_empty() {
        out.section("outputs");
        let width = judgement.outputs.iter().map(|output| output.name.len()).max().unwrap_or(0);
        for output in &judgement.outputs {
            let lines = output_lines(output).into_iter().chain(render_output_map(output));
            for (number, line) in lines.enumerate() {
                let name = if number == 0 { output.name.as_str() } else { "" };
                out.line(ReportLine::from("  ").column(BOLD, name, width).and("  ").and(line));
            }
        }
    }
    // If the other side completed, the last line says how the trusted one ended.
    if judgement.got.status != Status::Completed && !judgement.is_non_finite_on_both() {
        let too = match &judgement.base.status {
            Status::Failed(failures) => {
                Some(format!("the trusted side failed too: {}", describe_failure(&failures[0])))
            }
            Status::Untestable { reason, .. } => {
                Some(format!("the trusted side is untestable: {reason}"))
            }
            Status::Completed => None,
        };
        if let Some(too) = too {
            out.line(ReportLine::new());
            out.line(too);
        }
    }
    if let Some(reason) = &judgement.without_shadow {
        out.line(ReportLine::new());
        out.line(ReportLine::with_style(
            DIM,
            format!("wrong is not told from imprecise: {reason}"),
        ));
    }
    out
}

/// `kernel<<<256, 256, 2048>>> -> <<<256, 34, 136>>>`.
pub fn launch_change(change: &LaunchChange) -> String {
    match (&change.before, &change.after) {
        (Some(before), Some(after)) => {
            let before = format!("{}{}", before.kernel, describe_launch_shape(before));
            format!("{before} -> {}", describe_launch_shape(after))
        }
        (Some(before), None) => format!("gone: {}{}", before.kernel, describe_launch_shape(before)),
        (None, Some(after)) => format!("new:  {}{}", after.kernel, describe_launch_shape(after)),
        (None, None) => String::new(),
    }
}

/// The shape of `launch`, and its error.
fn describe_launch_shape(launch: &LaunchRecord) -> String {
    let shape = launch_shape(launch);
    match &launch.error {
        Some(error) => format!("{shape} ({error})"),
        None => shape,
    }
}

/// The same as a sentence: `launch changed: ...`, `launch gone: ...`, `launch new: ...`.
pub(super) fn describe_launch_change(change: &LaunchChange) -> String {
    let words = launch_change(change);
    match (&change.before, &change.after) {
        (Some(_), Some(_)) => format!("launch changed: {words}"),
        _ => format!("launch {words}"),
    }
}

/// How many digits of either side hold, where no truth tells: the trusted side's, and the other's. None where one does, or
/// where no element differs.
pub(super) fn estimate_significant_digits(output: &OutputJudgement) -> Option<[f64; 2]> {
    let is_told = output.base_accuracy.is_some() && output.got_accuracy.is_some();
    if is_told || output.comparison.differing == 0 {
        return None;
    }
    let base = output.base_noise.significant_digits(output.dtype)?;
    Some([base, output.got_noise.significant_digits(output.dtype)?])
}

fn describe_significant_digits(output: &OutputJudgement) -> Option<String> {
    let [base, got] = estimate_significant_digits(output)?;
    let replays = output.base_noise.replays.min(output.got_noise.replays);
    Some(format!(
        "about {base:.1} -> {got:.1} significant digits, by the furthest of {replays} replays with other rounding"
    ))
}

/// The lines about one output, the verdict first.
pub fn output_lines(output: &OutputJudgement) -> Vec<ReportLine> {
    let verdict_word = output.story.verdict();
    let verdict = ReportLine::with_style(verdict_style(verdict_word), name_output_verdict(output));
    if verdict_word == Verdict::Identical {
        let empty_note = if output.comparison.count == 0 { ": it has no elements" } else { "" };
        let mut lines = vec![verdict.and(empty_note)];
        lines.extend(output.order.iter().flat_map(order_lines));
        lines.extend(render_nondeterminism(output));
        return lines;
    }
    let compared = &output.comparison;
    let mut lines = vec![verdict.and(explain_output_verdict(output))];
    lines.extend(render_comparison(output.dtype, &output.dims, compared));
    if let (Some(base), Some(got)) = (&output.base_accuracy, &output.got_accuracy) {
        let base = format_short_number(base.relative_l2, 2);
        let got = format_short_number(got.relative_l2, 2);
        let truth = truth_name(output);
        lines.push(format!("error against {truth}: {base} -> {got}").into());
    }
    lines.extend(describe_significant_digits(output).map(ReportLine::from));
    if verdict_word == Verdict::Diverged {
        let zeros = output.zero_slices.iter().map(|slice| format!("{slice} all zero").into());
        lines.extend(zeros);
        lines.extend(
            output.place.as_ref().map(|place| ReportLine::from(format_place_phrase(place))),
        );
    }
    lines.extend(describe_shadow_shift(output).map(ReportLine::from));
    if compared.undecided > 0 {
        lines.push(format!("{} undecided: their noise is infinite", compared.undecided).into());
    }
    if output.probes.contains(&Probe::Inputs) {
        lines.push(
            "noise by inputs moved a unit in the last place: other roundings leave it".into(),
        );
    }
    let narrow = output.without_shadow.iter();
    lines.extend(narrow.map(|reason| format!("it has no float64 shadow: {reason}").into()));
    let flips = output.base_noise.flips + output.got_noise.flips;
    if flips > 0 {
        let jump = if flips == 1 { "1 element jumps" } else { &format!("{flips} elements jump") };
        lines.push(
            format!("{jump} in one or two replays, over {FLIP_FACTOR} x as far as in the others")
                .into(),
        );
    }
    lines.extend(output.order.iter().flat_map(order_lines));
    lines.extend(render_nondeterminism(output));
    lines
}

/// Where an output diverged, as a picture; none where words say as much.
fn render_output_map(output: &OutputJudgement) -> Vec<ReportLine> {
    let Some(map) = output.map.as_ref().filter(|_| output.story.verdict() == Verdict::Diverged)
    else {
        return Vec::new();
    };
    let drawn = map.lines().map(|line| format!("|{line}|")).chain([map_legend(output)]);
    drawn.map(|line| ReportLine::with_style(DIM, line)).collect()
}

/// The meaning of the rows, columns and shades of a map.
fn map_legend(output: &OutputJudgement) -> String {
    let dims = output.dims.iter();
    let names: Vec<String> =
        dims.map(|dim| dim.name.clone().unwrap_or_else(|| dim.size.to_string())).collect();
    let (columns, rows) = names.split_last().map_or(("", &[][..]), |(last, rows)| (last, rows));
    let rows = if rows.is_empty() { "one".to_owned() } else { rows.join(" x ") };
    format!(
        "rows: {rows}; columns: {columns}; differing: blank none, . a quarter, : half, + more, # all"
    )
}

/// How far two outputs lie apart: all in all, and at the worst element.
pub fn render_comparison(dtype: DType, dims: &[Dim], compared: &Comparison) -> Vec<ReportLine> {
    let difference = ReportLine::from(describe_difference(dtype, compared));
    [difference]
        .into_iter()
        .chain(describe_worst_element(dtype, dims, compared).map(ReportLine::from))
        .collect()
}

/// How much of an output differs.
pub(super) fn describe_difference(dtype: DType, compared: &Comparison) -> String {
    let share = format_percentage(compared.differing, compared.count);
    let relative = format_short_number(compared.relative_l2, 2);
    if dtype.is_float() {
        let beyond_noise = format_noun_count(compared.beyond, "element");
        format!("{share} of bits differ, rel. {relative}, {beyond_noise} beyond noise")
    } else {
        let flipped = match compared.differing - compared.beyond {
            0 => "no rounding flips them".to_owned(),
            _ if compared.beyond == 0 => "roundings flip them on a side by itself".to_owned(),
            flipped_count => {
                format!("roundings flip {flipped_count} of them, and leave {}", compared.beyond)
            }
        };
        format!("{share} of elements differ, rel. {relative}; {flipped}")
    }
}

/// The element furthest off.
fn describe_worst_element(dtype: DType, dims: &[Dim], compared: &Comparison) -> Option<String> {
    let worst = compared.worst.as_ref()?;
    let shape: Vec<usize> = dims.iter().map(|dim| dim.size).collect();
    let place = if shape.is_empty() {
        String::new()
    } else {
        format!(" at {:?}", unravel_index(worst.index as usize, &shape))
    };
    let values = format!(
        "worst{place}: {} -> {}",
        format_short_number(worst.base, 9),
        format_short_number(worst.got, 9)
    );
    // An integer has no noise, and infinity no distance.
    let has_ulps = dtype.is_float() && worst.ulps.is_finite();
    let ratio = format_short_number(worst.ratio, 2);
    let ulps = format_short_number(worst.ulps, 3);
    Some(if has_ulps { format!("{values}, {ratio} x noise, {ulps} ulp") } else { values })
}

fn render_nondeterminism(output: &OutputJudgement) -> Option<ReportLine> {
    let nondeterminism = output.nondeterminism.as_ref()?;
    let elements = format_noun_count(nondeterminism.differing, "element");
    let largest_difference = format_short_number(nondeterminism.max_abs, 2);
    let difference_words =
        format!(": two identical replays differ in {elements}, by at most {largest_difference}");
    Some(match output.story.verdict() {
        Verdict::Unknown => {
            ReportLine::with_style(YELLOW, "not deterministic").and(difference_words)
        }
        _ => ReportLine::with_style(YELLOW, "rounds in another order each time")
            .and(difference_words),
    })
}

/// The story of an output, as it follows the word for its verdict.
fn explain_output_verdict(output: &OutputJudgement) -> String {
    let name = shadow_name(output);
    match &output.story {
        Story::Agrees(Equivalence::Identical) => String::new(),
        Story::Agrees(Equivalence::WithinNoise { accuracy, .. }) => within_noise(output, *accuracy),
        Story::Agrees(Equivalence::ErrsAlike { accuracy, .. }) => match accuracy {
            Some(Finding::MoreAccurate) => {
                format!(": more accurate: closer to its {name}, which is the same")
            }
            Some(
                Finding::Wrong | Finding::Imprecise | Finding::LessAccurate | Finding::AsAccurate,
            )
            | None => format!(": as far as before from its {name}, which is the same"),
        },
        Story::OrderDependent(_) => {
            ": in the order of the indices it agrees, in others it does not".to_owned()
        }
        Story::Unsteady => ": a side's own replays differ by more than rounding".to_owned(),
        Story::Drifted { drift, .. } => {
            let elements = format_noun_count(drift.elements, "element");
            let factor = format_short_number(1.0 + drift.scale, 5);
            let ratio = format_short_number(drift.ratio, 2);
            format!(
                ": shifted as a whole, {HIDDEN}: {elements} scaled by {factor}, {ratio} x what \
                 rounding explains"
            )
        }
        Story::Wrong(by) => describe_wrong_output(output, *by),
        Story::Imprecise(ImpreciseBy::RoundedShadow) => {
            format!(": imprecise: the {name} is rounded on the way to fewer digits, too")
        }
        Story::Imprecise(ImpreciseBy::Noise) => {
            let ratio = output.got_noise.relative_l2 / output.base_noise.relative_l2;
            format!(
                ": imprecise: roundings move it {} x as far as before",
                format_short_number(ratio, 2)
            )
        }
        Story::Imprecise(ImpreciseBy::SameShadow) => {
            format!(": imprecise, not wrong: the {name} is the same")
        }
        Story::LessAccurate => {
            ": less accurate; whether wrong or imprecise is not known".to_owned()
        }
        Story::MoreAccurate => ": more accurate, no regression".to_owned(),
        Story::AsAccurate => format!(": as far from {} as before", truth_name(output)),
        Story::BeyondNoise { .. } => String::new(),
    }
}

/// The words for a wrong output, by the measure `by`.
fn describe_wrong_output(output: &OutputJudgement, by: WrongBy) -> String {
    let name = shadow_name(output);
    let shadow = output.shadow.filter(|shadow| shadow.changed > 0);
    match by {
        WrongBy::HiddenShadow => {
            let movement = shadow.map_or(String::new(), |shadow| {
                format!(" by {}", format_shift_share(shadow.moved_by))
            });
            format!(": wrong, hidden by rounding on this fixture: the {name} moves{movement}")
        }
        WrongBy::Distance => {
            format!(": wrong: no rounding of {} explains the distance", output.dtype)
        }
        WrongBy::Shadow => {
            let rel = shadow.map_or(String::new(), |shadow| {
                format!(" (rel. {})", format_short_number(shadow.relative_l2, 2))
            });
            format!(": wrong, not imprecise: the {name} changed too{rel}")
        }
    }
}

/// The words for an output within noise, with its `accuracy` by the truth.
fn within_noise(output: &OutputJudgement, accuracy: Option<Finding>) -> String {
    if !output.dtype.is_float() {
        return ": integers that roundings flip".to_owned();
    }
    let ratio = output.comparison.worst.map_or(0.0, |worst| worst.ratio);
    let better = if is_more_accurate(accuracy) { ": more accurate" } else { "" };
    format!("{better}: within noise, at most {} x", format_short_number(ratio, 2))
}

fn is_more_accurate(accuracy: Option<Finding>) -> bool {
    match accuracy {
        Some(Finding::MoreAccurate) => true,
        Some(Finding::Wrong | Finding::Imprecise | Finding::LessAccurate | Finding::AsAccurate)
        | None => false,
    }
}

/// The shift of the shadow of an equivalent output, if its shadow changed at all.
pub(super) fn describe_shadow_shift(output: &OutputJudgement) -> Option<String> {
    let shift = match output.story {
        Story::Agrees(
            Equivalence::WithinNoise { shadow, .. } | Equivalence::ErrsAlike { shadow, .. },
        ) => shadow,
        Story::Agrees(Equivalence::Identical)
        | Story::OrderDependent(_)
        | Story::Unsteady
        | Story::Drifted { .. }
        | Story::Wrong(_)
        | Story::Imprecise(_)
        | Story::LessAccurate
        | Story::MoreAccurate
        | Story::AsAccurate
        | Story::BeyondNoise { .. } => return None,
    };
    let shadow = output.shadow?;
    let dtype = output.dtype;
    let name = shadow_name(output);
    let elements = format_noun_count(shadow.changed, "element");
    let by = format_shift_share(shadow.changed_by);
    match shift {
        ShadowShift::None | ShadowShift::Unseen => None,
        ShadowShift::Rounded => Some(format!(
            "the {name} changed by {by} in {elements}, as its rounding on the way explains"
        )),
        ShadowShift::BelowNoise => {
            Some(format!("the {name} changed by {by} in {elements}, below what noise tells"))
        }
        ShadowShift::BelowDtype => {
            let by = format_short_number(shadow.relative_l2, 2);
            Some(format!("the {name} changed by rel. {by}, less than {dtype} can hold"))
        }
    }
}

/// The reference for errors.
pub(super) fn truth_name(output: &OutputJudgement) -> &'static str {
    if output.by_oracle { "the oracle" } else { "the trusted shadow" }
}

/// The reference for the native output.
fn shadow_name(output: &OutputJudgement) -> &'static str {
    match output.shadow.map(|shadow| shadow.dtype) {
        Some(DType::F32) => "float32 twin",
        _ => "float64 shadow",
    }
}

/// A relative shift for people.
fn format_shift_share(shift: f64) -> String {
    match shift {
        1e-4..1.0 => format!("{} %", format_short_number(100.0 * shift, 2)),
        _ => format!("rel. {}", format_short_number(shift, 2)),
    }
}

fn format_percentage(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_owned();
    }
    format!("{} %", format_short_number(100.0 * part as f64 / whole as f64, 3))
}

/// The last line: the result of the comparison.
pub fn verdict_line(judgement: &Judgement) -> ReportLine {
    let verdict = judgement.verdict;
    let reason = format!(": {}", verdict_reason(judgement));
    ReportLine::with_style(verdict_style(verdict), verdict_name(verdict)).and(reason)
}

/// The reason for the verdict.
pub(super) fn verdict_reason(judgement: &Judgement) -> String {
    match (&judgement.got.status, &judgement.base.status) {
        _ if judgement.is_non_finite_on_both() => {
            let outputs = list_outputs_by_verdict(&judgement.outputs, judgement.verdict);
            let is_equivalent = judgement.verdict.agrees();
            if is_equivalent { format!("{outputs}, {NON_FINITE}") } else { outputs }
        }
        (Status::Failed(failures), _) => describe_failure(&failures[0]),
        (Status::Untestable { reason, .. }, _) => reason.clone(),
        (_, Status::Failed(failures)) => {
            format!("the trusted side failed: {}", describe_failure(&failures[0]))
        }
        (_, Status::Untestable { reason, .. }) => {
            format!("the trusted side is untestable: {reason}")
        }
        _ => {
            let outputs = list_outputs_by_verdict(&judgement.outputs, judgement.verdict);
            match judgement.verdict {
                Verdict::Unchecked => format!("{outputs} within noise, {UNSEEN}"),
                _ => outputs,
            }
        }
    }
}

/// The outputs with `verdict`, each with its meaning.
fn list_outputs_by_verdict(outputs: &[OutputJudgement], verdict: Verdict) -> String {
    let such = outputs.iter().filter(|output| output.story.verdict() == verdict);
    such.map(name_and_meaning).collect::<Vec<String>>().join(", ")
}

/// `y (wrong, hidden by rounding)`, `y depends on the order of blocks and threads`, or only `y`.
fn name_and_meaning(output: &OutputJudgement) -> String {
    let OutputJudgement { name, story, .. } = output;
    match story {
        Story::Drifted { .. } => format!("{name} (shifted as a whole, {HIDDEN})"),
        Story::Wrong(_)
        | Story::Imprecise(_)
        | Story::LessAccurate
        | Story::MoreAccurate
        | Story::AsAccurate => {
            format!("{name} ({})", finding_words(story).unwrap_or_default())
        }
        Story::OrderDependent(_) | Story::BeyondNoise { order_dependent: true } => {
            format!("{name} {ORDER}")
        }
        Story::Agrees(
            Equivalence::WithinNoise { accuracy, .. } | Equivalence::ErrsAlike { accuracy, .. },
        ) if is_more_accurate(*accuracy) => format!("{name} (more accurate)"),
        Story::Agrees(_) | Story::Unsteady | Story::BeyondNoise { order_dependent: false } => {
            name.clone()
        }
    }
}

/// The outputs closer to the truth than before, behind the word of a verdict: `: y (more accurate)`.
pub(super) fn more_accurate(judgement: &Judgement) -> String {
    let better = judgement.outputs.iter().filter(|output| is_more_accurate(output.story.finding()));
    let names: Vec<String> =
        better.map(|output| format!("{} (more accurate)", output.name)).collect();
    if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) }
}

/// `at vocab 3`, or `everywhere`.
pub(super) fn format_place_phrase(place: &str) -> String {
    if place == "everywhere" { place.to_owned() } else { format!("at {place}") }
}

/// The words for non-finite values on both sides.
pub(super) const NON_FINITE: &str = "not finite where the trusted side is not either";

/// The words for an output within noise whose mathematics nobody knows.
const UNSEEN: &str = "and no float64 shadow shows its mathematics";

/// The words for an invisible change of the mathematics.
pub(super) const HIDDEN: &str = "hidden by rounding";

/// The words for an output with such a dependence, in every report.
pub(super) const ORDER: &str = "depends on the order of blocks and threads";

/// The lines about a dependence on the order of blocks and threads.
pub fn order_lines(dependence: &OrderDependence) -> [ReportLine; 2] {
    let numbers = format!(
        "{}; {:?}: {} -> {} in another order, rounding moves it by {}",
        describe_order_extent(dependence),
        dependence.index,
        format_short_number(dependence.value, 9),
        format_short_number(dependence.other, 9),
        format_short_number(dependence.rounding, 2),
    );
    [
        ReportLine::with_style(RED, ORDER).and(": a race or a missing barrier"),
        ReportLine::from(numbers),
    ]
}

/// The number of elements with a dependence on the order, and their place. A place with a count of its own is
/// enough.
fn describe_order_extent(dependence: &OrderDependence) -> String {
    let OrderDependence { elements, count, place, .. } = dependence;
    match place {
        Some(place) if place.starts_with(&format!("{elements} of ")) => format_place_phrase(place),
        Some(place) => format!("{elements} of {count} elements, {}", format_place_phrase(place)),
        None => format!("{elements} of {count} elements"),
    }
}

/// The end of the call in another order, where it has no outputs to compare.
pub(super) fn describe_order_failure(failure: &Failure) -> String {
    let words = describe_failure(failure);
    if is_fault(failure) {
        format!(
            "fails in another order of blocks and threads, by a race or a missing barrier: {words}"
        )
    } else {
        format!("not compared in other orders of blocks and threads: {words}")
    }
}

/// Whether `failure` in another order shows a defect. A call may have no end there without one: its blocks may wait
/// for earlier ones, as devices start them.
pub(super) fn is_fault(failure: &Failure) -> bool {
    matches!(failure, Failure::Fault { .. })
}

/// Two lines for each output with a dependence on the order of blocks and threads, or why none was found.
pub(super) fn render_orders_text(orders: &OrderCheck) -> Text {
    let OrderCheck { dependences, failure } = orders;
    let mut out = Text::new();
    if dependences.is_empty() && failure.is_none() {
        return out;
    }
    out.section("orders");
    let width = dependences.iter().map(|dependence| dependence.output.len()).max().unwrap_or(0);
    for dependence in dependences {
        let [summary, numbers] = order_lines(dependence);
        out.line(
            ReportLine::from("  ").column(BOLD, &dependence.output, width).and("  ").and(summary),
        );
        out.line(ReportLine::from(" ".repeat(width + 4)).and(numbers));
    }
    if let Some(failure) = failure {
        out.line(format!("  {}", describe_order_failure(failure)));
    }
    out
}

/// One line for each declared gradient.
pub fn render_gradients_text(checks: &[GradientCheck]) -> Text {
    let mut out = Text::new();
    if checks.is_empty() {
        return out;
    }
    out.section("gradients");
    let width = checks.iter().map(|check| check.output.len()).max().unwrap_or(0);
    for check in checks {
        let name = ReportLine::from("  ").column(BOLD, &check.output, width);
        out.line(name.and("  ").and(render_gradient_line(check)));
    }
    out
}

/// Where a gradient is furthest off, as it follows its numbers.
fn describe_gradient_place(place: &GradientPlace) -> String {
    let GradientPlace { index, elements, gradient, slope } = place;
    let gradient = format_short_number(*gradient, 6);
    let slope = format_short_number(*slope, 6);
    match elements {
        1 => format!(", at {index:?} {gradient} instead of {slope}"),
        _ => format!(
            ", in {elements} elements from {index:?} on {gradient} instead of {slope} along a direction"
        ),
    }
}

/// A check of a gradient to which errors of this share and more are hidden says so.
const COARSE_CHECK: f64 = 1e-5;

/// The line about one gradient.
pub fn render_gradient_line(check: &GradientCheck) -> ReportLine {
    let along = check.constraint.map(|constraint| format!(" along \"{constraint}\""));
    let along = along.unwrap_or_default();
    let passed = match check.straight_through {
        None => "",
        Some(StraightThrough::Slope) => " straight through rounding to integers",
        Some(StraightThrough::SlopeOfHeldScale) => {
            " straight through rounding to integers, with scales held"
        }
        Some(StraightThrough::Unrounded) => {
            " without rounding to integers, whatever multiplies its error"
        }
    };
    let derivative = format!(" d {} / d {}{along}{passed}", check.loss_name(), check.gradient_of);
    let elements = match check.elements - check.checked {
        0 => String::new(),
        _ => format!(" of {} of {} elements", check.checked, check.elements),
    };
    let directions = match check.directions {
        directions if directions < check.of_directions => {
            format!("{directions} of {}", check.of_directions)
        }
        directions => directions.to_string(),
    };
    let hidden_error = least_visible_error(check.error);
    let hidden = if check.story == GradientStory::Matches && hidden_error > COARSE_CHECK {
        format!(", which hides errors below rel. {}", format_short_number(hidden_error, 1))
    } else {
        String::new()
    };
    let numbers = format!(
        "{derivative}: {directions} directional derivatives{elements}, worst rel. {} (noise {}{hidden})",
        format_short_number(check.worst, 2),
        format_short_number(check.error, 2)
    );
    let place = check.place.as_ref().map_or(String::new(), describe_gradient_place);
    let reason = check.story.reason().unwrap_or_default();
    let off_in_shadow = ReportLine::with_style(RED, "imprecise").and(format!(
        ": {reason}; off{derivative} by rel. {}",
        format_short_number(check.worst, 2)
    ));
    match &check.story {
        GradientStory::Matches => ReportLine::with_style(GREEN, "matches").and(numbers),
        GradientStory::Mismatch => {
            let hint = check.matches_along.map(|constraint| {
                let input = &check.gradient_of;
                format!("; it matches where {input} stays on its constraint: constraint = \"{constraint}\" in [inputs.{input}]")
            });
            let line = ReportLine::with_style(RED, "does not match").and(numbers).and(place);
            line.and(hint.unwrap_or_default())
        }
        GradientStory::NearDifferences { dtype, .. } => {
            let within = (100.0 * (check.worst + check.error)).ceil().max(1.0);
            ReportLine::with_style(YELLOW, "agrees").and(format!(
                " with {} differences of {} to within {within} %{elements}; small errors do not show: {reason}",
                format_long_name(*dtype),
                check.loss_name(),
            ))
        }
        GradientStory::FarFromDifferences { dtype, .. } => {
            ReportLine::with_style(RED, "does not match").and(format!(
                "{derivative}{elements}: off by {:.0} % by {} differences, whose error is {:.1} %; {reason}",
                100.0 * check.worst,
                format_long_name(*dtype),
                100.0 * check.error,
            ))
        }
        GradientStory::RoundedShadow => off_in_shadow.and(place),
        GradientStory::ImpreciseOutput => ReportLine::with_style(RED, "imprecise").and(format!(
            ": the float64 shadow matches{derivative}, the output is off by rel. {}, {} x its noise",
            format_short_number(check.native_error, 2),
            format_short_number(check.native_ratio, 2)
        )),
        GradientStory::Unchecked(_) => ReportLine::with_style(YELLOW, "not checked").and(format!(": {reason}")),
        GradientStory::Beside { story, .. } => match story.verdict() {
            GradientVerdict::Mismatch => {
                ReportLine::with_style(RED, "does not match").and(numbers).and(place).and(format!("; {reason}"))
            }
            GradientVerdict::Imprecise => off_in_shadow.and(place),
            GradientVerdict::Matches | GradientVerdict::Agrees | GradientVerdict::Unknown => {
                ReportLine::with_style(YELLOW, "not checked").and(format!(": {reason}"))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_that_depend_on_the_order_are_counted_once() {
        let numbers = |place: Option<&str>| {
            let [_, numbers] = order_lines(&OrderDependence {
                output: "y".to_owned(),
                elements: 12_000,
                count: 16_000,
                index: vec![3, 1],
                value: 1.0,
                other: 2.0,
                rounding: 1e-7,
                place: place.map(str::to_owned),
            });
            numbers.words()
        };
        insta::assert_snapshot!(numbers(Some("12000 of 15469 elements of row >= 7, in 90 of 95 rows, first at row 7, n 1")), @"at 12000 of 15469 elements of row >= 7, in 90 of 95 rows, first at row 7, n 1; [3, 1]: 1 -> 2 in another order, rounding moves it by 1e-7");
        insta::assert_snapshot!(numbers(Some("row 1..3")), @"12000 of 16000 elements, at row 1..3; [3, 1]: 1 -> 2 in another order, rounding moves it by 1e-7");
        insta::assert_snapshot!(numbers(None), @"12000 of 16000 elements; [3, 1]: 1 -> 2 in another order, rounding moves it by 1e-7");
    }
}
