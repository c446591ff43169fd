//! The answer of a search between ends that are commits in environments: where the change lies, and what was found there.

use super::bisect::{render_answer, render_bisect_text, render_search_headline, tested_line};
use super::spans::{ReportLine, Text};
use super::style::{BOLD, DIM};
use replay_bisect::{BothReport, Corners, TestedPair, Whereabouts};
use replay_search::TestAnswer;

/// The answer in a line; for refused ends without the reason.
pub(super) fn render_both_headline(report: &BothReport) -> ReportLine {
    match report {
        BothReport::Refused(refused) => render_search_headline(refused),
        BothReport::Searched { corners: Some(corners), .. } => {
            ReportLine::with_style(BOLD, describe_whereabouts(corners))
        }
        BothReport::Searched { corners: None, searches } => searches
            .first()
            .map(|search| render_search_headline(&search.report))
            .unwrap_or_default(),
    }
}

/// Where the change lies.
pub(crate) fn describe_whereabouts(corners: &Corners) -> String {
    let axis = &corners.axis;
    match corners.whereabouts() {
        Whereabouts::Code => "the change lies in the code".to_owned(),
        Whereabouts::Environment => format!("the change lies in {axis}"),
        Whereabouts::Either => format!("either alone does it: the code, and {axis}"),
        Whereabouts::Together => format!("only both together do it: the code and {axis}"),
        Whereabouts::Unclear => match (corners.code.answer, corners.environment.answer) {
            (TestAnswer::Bad, _) => {
                format!("the code alone does it; whether {axis} does is not known")
            }
            (TestAnswer::Good, _) => {
                format!("{axis} takes part; whether it does it without the code is not known")
            }
            (_, TestAnswer::Bad) => {
                format!("{axis} alone does it; whether the code does is not known")
            }
            (_, TestAnswer::Good) => {
                format!("the code takes part; whether it does it without {axis} is not known")
            }
            _ => format!("whether the change lies in the code or in {axis} is not known"),
        },
    }
}

/// A line for each pair: the ends, then the mixed ones.
pub(super) fn list_corner_lines(corners: &Corners) -> [ReportLine; 4] {
    let Corners { good, bad, code, environment, .. } = corners;
    [good, bad, code, environment].map(|pair| match &pair.seen {
        Some(seen) => tested_line(&pair.commit, pair.answer, seen),
        None => render_answer(&pair.commit, pair.answer),
    })
}

/// Advice where no search can follow.
pub(super) fn list_corner_hints(corners: &Corners) -> Vec<String> {
    let mixed_pairs = [&corners.code, &corners.environment];
    let is_clear = |pair: &&TestedPair| matches!(pair.answer, TestAnswer::Good | TestAnswer::Bad);
    if mixed_pairs.iter().any(is_clear) {
        return Vec::new();
    }
    let own = mixed_pairs.iter().filter_map(|pair| pair.seen.as_ref()?.hint()).map(str::to_owned);
    let mut hints: Vec<String> = own.take(1).collect();
    let axis = &corners.axis;
    hints.push(format!(
        "name ends nearer to each other, or a revision that runs with both: `--over {axis} --rev REV`"
    ));
    hints
}

/// The whole answer.
pub fn render_both_text(report: &BothReport) -> Text {
    let mut out = Text::new();
    let (corners, searches) = match report {
        BothReport::Refused(refused) => return render_bisect_text(refused),
        BothReport::Searched { corners, searches } => (corners, searches),
    };
    if let Some(corners) = corners {
        out.line(render_both_headline(report));
        for line in list_corner_lines(corners) {
            out.line(ReportLine::from("  ").and(line));
        }
        for hint in list_corner_hints(corners) {
            out.line(ReportLine::with_style(DIM, "hint:").and(format!(" {hint}")));
        }
    }
    for search in searches {
        if !out.is_empty() {
            out.line(ReportLine::new());
        }
        out.line(format!("{}:", search.place));
        out.append(render_bisect_text(&search.report));
    }
    out
}
