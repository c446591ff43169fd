//! The history as a graph of commits, and below it the change of each.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use maud::{Markup, html};

use super::super::bisect::{answer_name, observation_line};
use super::super::numbers::format_noun_count;
use super::chart::format_coordinate;
use super::diff::render_source_diff;
use super::shell::{Mood, render_badge};
use super::words::render_commit;
use replay_bisect::{Knowledge, Lineage, LineageCommit};
use replay_history::CommitId;
use replay_search::TestAnswer;

/// The distance of commits and of lanes.
const STEP: [f64; 2] = [58.0, 44.0];
/// The space around the graph: left and right, above, below.
const SPACE: [f64; 3] = [34.0, 30.0, 40.0];

/// A lineage as pages show it.
pub(super) struct LineageGraph<'a> {
    pub lineage: &'a Lineage,
    /// The commit to blame, if there is one.
    pub culprit: Option<CommitId>,
    /// The beginning of the names of places on the page.
    pub anchor: &'a str,
    /// The words for a verdict, where no test of a search has some.
    pub words: &'a dyn Fn(&LineageCommit) -> Option<String>,
}

impl LineageGraph<'_> {
    /// The graph, and a list of its commits.
    pub(super) fn card(&self) -> Markup {
        let all = &self.lineage.commits;
        if all.is_empty() {
            return html! {};
        }
        html! {
            section class="card" {
                h2 { "History" }
                div class="scroll graph" tabindex="0" role="region" aria-label="the history as a graph" { (self.svg()) }
                (render_knowledge_legend(all))
                @if self.lineage.left_out > 0 {
                    p class="dim" { (format_noun_count(self.lineage.left_out as u64, "older commit")) " left out" }
                }
                details {
                    summary { (format_noun_count(all.len() as u64, "commit")) ", and what they changed" }
                    ol class="commits" { @for (at, kin) in all.iter().enumerate().rev() { (self.row(at, kin)) } }
                }
            }
        }
    }

    fn is_culprit(&self, kin: &LineageCommit) -> bool {
        self.culprit == Some(kin.commit.id)
    }

    fn svg(&self) -> Markup {
        let all = &self.lineage.commits;
        let lanes = assign_graph_tracks(all);
        let deep = lanes.iter().copied().max().unwrap_or(0);
        let places: Vec<(f64, f64)> = lanes
            .iter()
            .enumerate()
            .map(|(index, &lane)| {
                (SPACE[0] + index as f64 * STEP[0], SPACE[1] + lane as f64 * STEP[1])
            })
            .collect();
        let width = 2.0 * SPACE[0] + (all.len() - 1) as f64 * STEP[0];
        let height = SPACE[1] + deep as f64 * STEP[1] + SPACE[2];
        html! {
            svg role="img" aria-label=(self.alt()) width=(format_coordinate(width)) height=(format_coordinate(height))
                viewBox={ "0 0 " (format_coordinate(width)) " " (format_coordinate(height)) }
            {
                @for (at, kin) in all.iter().enumerate() {
                    @for (number, &parent) in kin.parents.iter().enumerate() {
                        path class="edge" d=(trace_edge_path(places[parent], places[at], number > 0)) {}
                    }
                }
                @for (at, kin) in all.iter().enumerate() { (self.node(at, kin, places[at])) }
            }
        }
    }

    fn node(&self, at: usize, kin: &LineageCommit, (x, y): (f64, f64)) -> Markup {
        let mark = if self.is_culprit(kin) { " culprit" } else { "" };
        let small = kin.knowledge == Knowledge::Skipped;
        html! {
            a href={ "#" (self.anchor) "-" (at) } {
                g class={ "node " (lineage_commit_mood(kin).class()) " " (knowledge_class(kin.knowledge)) (mark) }
                    transform={ "translate(" (format_coordinate(x)) " " (format_coordinate(y)) ")" }
                {
                    title { (kin.commit.short) " " (kin.commit.subject) ": " (self.verdict(kin)) }
                    @if self.is_culprit(kin) {
                        circle class="halo" r="14" {}
                        text class="tick strong" y="-18" text-anchor="middle" { "culprit" }
                    }
                    @if kin.knowledge == Knowledge::Recalled { circle class="again" r="12" {} }
                    circle class="dot" r=(if small { "5" } else { "9" }) {}
                    @if !small { text class="glyph" y="3.8" text-anchor="middle" { (lineage_commit_sign(kin)) } }
                    text class="tick" y="25" text-anchor="middle" { (kin.commit.short) }
                }
            }
        }
    }

    /// A commit, its verdict and its diff.
    fn row(&self, at: usize, kin: &LineageCommit) -> Markup {
        let mark = self.is_culprit(kin).then_some("culprit");
        html! {
            li id={ (self.anchor) "-" (at) } class=[mark] {
                p {
                    (render_badge(lineage_commit_mood(kin), &describe_lineage_commit(kin))) " "
                    @if self.is_culprit(kin) { (render_badge(Mood::Bad, "culprit")) " " }
                    (render_commit(&kin.commit))
                }
                p class="dim" { (self.verdict(kin)) }
                @if !kin.diff.is_empty() {
                    details { summary { "what it changed" } (render_source_diff(&kin.diff)) }
                }
            }
        }
    }

    /// The knowledge about a commit, in words.
    fn verdict(&self, kin: &LineageCommit) -> String {
        let test_words = match (&kin.seen, (self.words)(kin)) {
            (Some(test_result), _) => observation_line(test_result),
            (None, Some(words)) => words,
            (None, None) => kin.answer.map_or("unknown", answer_name).to_owned(),
        };
        match kin.knowledge {
            Knowledge::Tested => test_words,
            Knowledge::Recalled => format!("{test_words} (from the cache)"),
            Knowledge::Inferred => format!("{test_words}, as tests of other commits tell"),
            Knowledge::Skipped => "changes no source of the kernel".to_owned(),
            Knowledge::Untestable => format!("untestable: {test_words}")
                .replace("untestable: untestable: ", "untestable: "),
            Knowledge::Open => "not tested".to_owned(),
        }
    }

    /// The graph in words.
    fn alt(&self) -> String {
        let commits = &self.lineage.commits;
        let mut counts: BTreeMap<Knowledge, usize> = BTreeMap::new();
        for kin in commits {
            *counts.entry(kin.knowledge).or_default() += 1;
        }
        let count_texts: Vec<String> = counts
            .into_iter()
            .map(|(knowledge, count)| format!("{count} {}", knowledge_name(knowledge)))
            .collect();
        let culprit = commits.iter().find(|kin| self.is_culprit(kin));
        let culprit =
            culprit.map_or(String::new(), |kin| format!("; the culprit is {}", kin.commit.short));
        format!(
            "Graph of {}: {}{culprit}",
            format_noun_count(commits.len() as u64, "commit"),
            count_texts.join(", ")
        )
    }
}

/// The word for the answer of a commit, and for its source.
fn describe_lineage_commit(kin: &LineageCommit) -> String {
    match (kin.knowledge, kin.answer) {
        (Knowledge::Tested | Knowledge::Recalled, Some(answer)) => answer_name(answer).to_owned(),
        (Knowledge::Inferred, Some(answer)) => format!("{}, inferred", answer_name(answer)),
        (Knowledge::Skipped, _) => "skipped".to_owned(),
        (knowledge, _) => knowledge_name(knowledge).to_owned(),
    }
}

fn lineage_commit_mood(kin: &LineageCommit) -> Mood {
    match (kin.knowledge, kin.answer) {
        (Knowledge::Skipped | Knowledge::Untestable | Knowledge::Open, _) | (_, None) => {
            Mood::Untold
        }
        (_, Some(answer)) => super::search::answer_mood(answer),
    }
}

fn lineage_commit_sign(kin: &LineageCommit) -> &'static str {
    match (kin.knowledge, kin.answer) {
        (Knowledge::Untestable, _) => "?",
        (Knowledge::Open, _) | (_, None) => "·",
        (_, Some(TestAnswer::Good)) => "✓",
        (_, Some(TestAnswer::Bad)) => "✕",
        (_, Some(TestAnswer::Skip)) => "?",
        (_, Some(TestAnswer::Other)) => "!",
    }
}

fn knowledge_class(knowledge: Knowledge) -> &'static str {
    match knowledge {
        Knowledge::Tested | Knowledge::Recalled => "tested",
        Knowledge::Inferred => "inferred",
        Knowledge::Skipped => "skipped",
        Knowledge::Untestable | Knowledge::Open => "open",
    }
}

fn knowledge_name(knowledge: Knowledge) -> &'static str {
    match knowledge {
        Knowledge::Tested => "tested",
        Knowledge::Recalled => "tested before, from the cache",
        Knowledge::Inferred => "inferred from tests of others",
        Knowledge::Skipped => "skipped: no source of the kernel changes",
        Knowledge::Untestable => "untestable",
        Knowledge::Open => "not tested",
    }
}

/// The meaning of the signs in use.
fn render_knowledge_legend(commits: &[LineageCommit]) -> Markup {
    let present: BTreeSet<Knowledge> = commits.iter().map(|kin| kin.knowledge).collect();
    html! {
        ul class="legend" {
            @for knowledge in present {
                li {
                    svg class="key" aria-hidden="true" viewBox="-14 -14 28 28" {
                        g class={ "node untold " (knowledge_class(knowledge)) } {
                            @if knowledge == Knowledge::Recalled { circle class="again" r="12" {} }
                            circle class="dot" r=(if knowledge == Knowledge::Skipped { "5" } else { "9" }) {}
                        }
                    }
                    (knowledge_name(knowledge))
                }
            }
        }
    }
}

/// The lane of each commit: its first parent's, if it is the first to go on there.
fn assign_graph_tracks(commits: &[LineageCommit]) -> Vec<usize> {
    // By lane, the commit at its end, and until when the lane is needed.
    let mut ends: Vec<(usize, usize)> = Vec::new();
    let mut lanes = Vec::new();
    for (index, kin) in commits.iter().enumerate() {
        let parent_lane =
            kin.parents.first().and_then(|parent| ends.iter().position(|end| end.0 == *parent));
        let lane = parent_lane
            .or_else(|| ends.iter().position(|end| end.1 <= index))
            .unwrap_or(ends.len());
        let last_child =
            (index + 1..commits.len()).rev().find(|&child| commits[child].parents.contains(&index));
        let end = (index, last_child.unwrap_or(index));
        match ends.get_mut(lane) {
            Some(lane_end) => *lane_end = end,
            None => ends.push(end),
        }
        lanes.push(lane);
    }
    lanes
}

/// A line from a parent to its child; a merged parent's line stays in its lane until the end.
fn trace_edge_path((x, y): (f64, f64), (to_x, to_y): (f64, f64), merges: bool) -> String {
    let mut path = format!("M{} {}", format_coordinate(x), format_coordinate(y));
    let bend = STEP[0].min(to_x - x);
    if y == to_y {
        let _ = write!(path, "H{}", format_coordinate(to_x));
    } else if merges {
        let bend_start = to_x - bend;
        let middle = format_coordinate(bend_start + bend / 2.0);
        let y = format_coordinate(y);
        let to_x = format_coordinate(to_x);
        let to_y = format_coordinate(to_y);
        let _ = write!(
            path,
            "H{}C{middle} {y} {middle} {to_y} {to_x} {to_y}",
            format_coordinate(bend_start)
        );
    } else {
        let middle = format_coordinate(x + bend / 2.0);
        let end = format_coordinate(x + bend);
        let y = format_coordinate(y);
        let to_x = format_coordinate(to_x);
        let to_y = format_coordinate(to_y);
        let _ = write!(path, "C{middle} {y} {middle} {to_y} {end} {to_y}H{to_x}");
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::tests::{HOSTILE, kin, read_part};

    /// A branch that is merged: 0 - 1 - 3 - 4, and 0 - 2 - 4.
    fn merged() -> Vec<LineageCommit> {
        let parents: [&[usize]; 5] = [&[], &[0], &[0], &[1], &[3, 2]];
        let knowledge = [
            Knowledge::Recalled,
            Knowledge::Skipped,
            Knowledge::Untestable,
            Knowledge::Tested,
            Knowledge::Inferred,
        ];
        parents.iter().zip(knowledge).map(|(parents, known)| kin(parents, known)).collect()
    }

    #[test]
    fn a_branch_has_a_lane_of_its_own_until_it_is_merged() {
        assert_eq!(assign_graph_tracks(&merged()), [0, 0, 1, 0, 0]);
        assert_eq!(trace_edge_path((0.0, 0.0), (116.0, 34.0), false), "M0 0C29 0 29 34 58 34H116");
        assert_eq!(trace_edge_path((0.0, 34.0), (116.0, 0.0), true), "M0 34H58C87 34 87 0 116 0");
    }

    #[test]
    fn every_commit_is_told_by_a_sign_and_in_words_and_leads_to_its_diff() {
        let lineage = Lineage { commits: merged(), left_out: 3 };
        let culprit = Some(lineage.commits[3].commit.id);
        let words = |_: &LineageCommit| Some(HOSTILE.to_owned());
        let card = LineageGraph { lineage: &lineage, culprit, anchor: "h", words: &words }.card();
        let seen = read_part(&card.into_string());
        assert_eq!(seen.elements.iter().filter(|name| *name == "title").count(), 5);
        assert_eq!(seen.links.len(), 5);
        let alt = LineageGraph { lineage: &lineage, culprit, anchor: "h", words: &words }.alt();
        insta::assert_snapshot!(alt, @"Graph of 5 commits: 1 tested, 1 tested before, from the cache, 1 inferred from tests of others, 1 skipped: no source of the kernel changes, 1 untestable; the culprit is 0000000");
    }
}
