//! The history as a graph of commits, and below it what each of them changed.

use std::collections::BTreeSet;
use std::fmt::Write;

use maud::{Markup, html};

use super::super::bisect::{answer_name, observation_line};
use super::super::numbers::count;
use super::chart::round;
use super::diff::diff;
use super::shell::{Mood, badge};
use super::words::commit;
use crate::bisect::{Kin, Knowledge, Lineage};
use crate::history::CommitId;
use crate::search::Answer;

/// The distance of commits and of lanes.
const STEP: [f64; 2] = [58.0, 44.0];
/// The space around the graph: left and right, above, below.
const SPACE: [f64; 3] = [34.0, 30.0, 40.0];

/// A lineage as pages show it.
pub(super) struct Graph<'a> {
    pub lineage: &'a Lineage,
    /// The commit that is to blame, if one is.
    pub culprit: Option<CommitId>,
    /// What begins the names of places on the page.
    pub anchor: &'a str,
    /// The words for a verdict, where no test of a search has some.
    pub words: &'a dyn Fn(&Kin) -> Option<String>,
}

impl Graph<'_> {
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
                (legend(all))
                @if self.lineage.left_out > 0 {
                    p class="dim" { (count(self.lineage.left_out as u64, "older commit")) " left out" }
                }
                details {
                    summary { (count(all.len() as u64, "commit")) ", and what they changed" }
                    ol class="commits" { @for (at, kin) in all.iter().enumerate().rev() { (self.row(at, kin)) } }
                }
            }
        }
    }

    fn is_culprit(&self, kin: &Kin) -> bool {
        self.culprit == Some(kin.commit.id)
    }

    fn svg(&self) -> Markup {
        let all = &self.lineage.commits;
        let lanes = lanes(all);
        let deep = lanes.iter().copied().max().unwrap_or(0);
        let place =
            |at: usize| (SPACE[0] + at as f64 * STEP[0], SPACE[1] + lanes[at] as f64 * STEP[1]);
        let width = 2.0 * SPACE[0] + (all.len() - 1) as f64 * STEP[0];
        let height = SPACE[1] + deep as f64 * STEP[1] + SPACE[2];
        html! {
            svg role="img" aria-label=(self.alt()) width=(round(width)) height=(round(height))
                viewBox={ "0 0 " (round(width)) " " (round(height)) }
            {
                @for (at, kin) in all.iter().enumerate() {
                    @for (number, &parent) in kin.parents.iter().enumerate() {
                        path class="edge" d=(edge(place(parent), place(at), number > 0)) {}
                    }
                }
                @for (at, kin) in all.iter().enumerate() { (self.node(at, kin, place(at))) }
            }
        }
    }

    fn node(&self, at: usize, kin: &Kin, (x, y): (f64, f64)) -> Markup {
        let mark = if self.is_culprit(kin) { " culprit" } else { "" };
        let small = kin.knowledge == Knowledge::Skipped;
        html! {
            a href={ "#" (self.anchor) "-" (at) } {
                g class={ "node " (mood(kin).class()) " " (class(kin.knowledge)) (mark) }
                    transform={ "translate(" (round(x)) " " (round(y)) ")" }
                {
                    title { (kin.commit.short) " " (kin.commit.subject) ": " (self.verdict(kin)) }
                    @if self.is_culprit(kin) {
                        circle class="halo" r="14" {}
                        text class="tick strong" y="-18" text-anchor="middle" { "culprit" }
                    }
                    @if kin.knowledge == Knowledge::Recalled { circle class="again" r="12" {} }
                    circle class="dot" r=(if small { "5" } else { "9" }) {}
                    @if !small { text class="glyph" y="3.8" text-anchor="middle" { (sign(kin)) } }
                    text class="tick" y="25" text-anchor="middle" { (kin.commit.short) }
                }
            }
        }
    }

    /// A commit, its verdict and what it changed.
    fn row(&self, at: usize, kin: &Kin) -> Markup {
        let mark = self.is_culprit(kin).then_some("culprit");
        html! {
            li id={ (self.anchor) "-" (at) } class=[mark] {
                p {
                    (badge(mood(kin), &word(kin))) " "
                    @if self.is_culprit(kin) { (badge(Mood::Bad, "culprit")) " " }
                    (commit(&kin.commit))
                }
                p class="dim" { (self.verdict(kin)) }
                @if !kin.diff.is_empty() {
                    details { summary { "what it changed" } (diff(&kin.diff)) }
                }
            }
        }
    }

    /// What is known of a commit, in words.
    fn verdict(&self, kin: &Kin) -> String {
        let told = match (&kin.seen, (self.words)(kin)) {
            (Some(seen), _) => observation_line(seen),
            (None, Some(words)) => words,
            (None, None) => kin.answer.map_or("unknown", answer_name).to_owned(),
        };
        match kin.knowledge {
            Knowledge::Tested => told,
            Knowledge::Recalled => format!("{told} (from the cache)"),
            Knowledge::Inferred => format!("{told}, as tests of other commits tell"),
            Knowledge::Skipped => "changes no source of the kernel".to_owned(),
            Knowledge::Untestable => {
                format!("untestable: {told}").replace("untestable: untestable: ", "untestable: ")
            }
            Knowledge::Open => "not tested".to_owned(),
        }
    }

    /// The graph in words.
    fn alt(&self) -> String {
        let all = &self.lineage.commits;
        let of =
            |knowledge: &Knowledge| all.iter().filter(|kin| kin.knowledge == *knowledge).count();
        let present: BTreeSet<Knowledge> = all.iter().map(|kin| kin.knowledge).collect();
        let told: Vec<String> =
            present.iter().map(|one| format!("{} {}", of(one), name(*one))).collect();
        let culprit = all.iter().find(|kin| self.is_culprit(kin));
        let culprit =
            culprit.map_or(String::new(), |kin| format!("; the culprit is {}", kin.commit.short));
        format!("Graph of {}: {}{culprit}", count(all.len() as u64, "commit"), told.join(", "))
    }
}

/// The word for what a commit does, and how it is known.
fn word(kin: &Kin) -> String {
    match (kin.knowledge, kin.answer) {
        (Knowledge::Tested | Knowledge::Recalled, Some(answer)) => answer_name(answer).to_owned(),
        (Knowledge::Inferred, Some(answer)) => format!("{}, inferred", answer_name(answer)),
        (Knowledge::Skipped, _) => "skipped".to_owned(),
        (knowledge, _) => name(knowledge).to_owned(),
    }
}

fn mood(kin: &Kin) -> Mood {
    match (kin.knowledge, kin.answer) {
        (Knowledge::Skipped | Knowledge::Untestable | Knowledge::Open, _) | (_, None) => {
            Mood::Untold
        }
        (_, Some(answer)) => super::search::mood(answer),
    }
}

fn sign(kin: &Kin) -> &'static str {
    match (kin.knowledge, kin.answer) {
        (Knowledge::Untestable, _) => "?",
        (Knowledge::Open, _) | (_, None) => "·",
        (_, Some(Answer::Good)) => "✓",
        (_, Some(Answer::Bad)) => "✕",
        (_, Some(Answer::Skip)) => "?",
        (_, Some(Answer::Other)) => "!",
    }
}

fn class(knowledge: Knowledge) -> &'static str {
    match knowledge {
        Knowledge::Tested | Knowledge::Recalled => "tested",
        Knowledge::Inferred => "inferred",
        Knowledge::Skipped => "skipped",
        Knowledge::Untestable | Knowledge::Open => "open",
    }
}

fn name(knowledge: Knowledge) -> &'static str {
    match knowledge {
        Knowledge::Tested => "tested",
        Knowledge::Recalled => "tested before, from the cache",
        Knowledge::Inferred => "inferred from tests of others",
        Knowledge::Skipped => "skipped: no source of the kernel changes",
        Knowledge::Untestable => "untestable",
        Knowledge::Open => "not tested",
    }
}

/// What the signs mean, of those that are there.
fn legend(all: &[Kin]) -> Markup {
    let present: BTreeSet<Knowledge> = all.iter().map(|kin| kin.knowledge).collect();
    html! {
        ul class="legend" {
            @for knowledge in present {
                li {
                    svg class="key" aria-hidden="true" viewBox="-14 -14 28 28" {
                        g class={ "node untold " (class(knowledge)) } {
                            @if knowledge == Knowledge::Recalled { circle class="again" r="12" {} }
                            circle class="dot" r=(if knowledge == Knowledge::Skipped { "5" } else { "9" }) {}
                        }
                    }
                    (name(knowledge))
                }
            }
        }
    }
}

/// The lane of each commit: that of its first parent where it is the first to go on there.
fn lanes(all: &[Kin]) -> Vec<usize> {
    let last_child =
        |at: usize| (at + 1..all.len()).rev().find(|&child| all[child].parents.contains(&at));
    // By lane, the commit at its end, and until when the lane is needed.
    let mut ends: Vec<(usize, usize)> = Vec::new();
    let mut lanes = Vec::new();
    for (at, kin) in all.iter().enumerate() {
        let own =
            kin.parents.first().and_then(|parent| ends.iter().position(|end| end.0 == *parent));
        let free = || ends.iter().position(|end| end.1 <= at);
        let lane = own.or_else(free).unwrap_or(ends.len());
        let end = (at, last_child(at).unwrap_or(at));
        match ends.get_mut(lane) {
            Some(known) => *known = end,
            None => ends.push(end),
        }
        lanes.push(lane);
    }
    lanes
}

/// A line from a parent to its child; one that merges stays in its lane until the end.
fn edge((x, y): (f64, f64), (to_x, to_y): (f64, f64), merges: bool) -> String {
    let mut path = format!("M{} {}", round(x), round(y));
    let bend = STEP[0].min(to_x - x);
    if y == to_y {
        let _ = write!(path, "H{}", round(to_x));
    } else if merges {
        let from = to_x - bend;
        let middle = round(from + bend / 2.0);
        let (y, to_x, to_y) = (round(y), round(to_x), round(to_y));
        let _ = write!(path, "H{}C{middle} {y} {middle} {to_y} {to_x} {to_y}", round(from));
    } else {
        let (middle, end) = (round(x + bend / 2.0), round(x + bend));
        let (y, to_x, to_y) = (round(y), round(to_x), round(to_y));
        let _ = write!(path, "C{middle} {y} {middle} {to_y} {end} {to_y}H{to_x}");
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::html::tests::{HOSTILE, kin, read_part};

    /// A branch that is merged: 0 - 1 - 3 - 4, and 0 - 2 - 4.
    fn merged() -> Vec<Kin> {
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
        assert_eq!(lanes(&merged()), [0, 0, 1, 0, 0]);
        assert_eq!(edge((0.0, 0.0), (116.0, 34.0), false), "M0 0C29 0 29 34 58 34H116");
        assert_eq!(edge((0.0, 34.0), (116.0, 0.0), true), "M0 34H58C87 34 87 0 116 0");
    }

    #[test]
    fn every_commit_is_told_by_a_sign_and_in_words_and_leads_to_its_diff() {
        let lineage = Lineage { commits: merged(), left_out: 3 };
        let culprit = Some(lineage.commits[3].commit.id);
        let words = |_: &Kin| Some(HOSTILE.to_owned());
        let card = Graph { lineage: &lineage, culprit, anchor: "h", words: &words }.card();
        let seen = read_part(&card.into_string());
        assert_eq!(seen.elements.iter().filter(|name| *name == "title").count(), 5);
        assert_eq!(seen.links.len(), 5);
        let alt = Graph { lineage: &lineage, culprit, anchor: "h", words: &words }.alt();
        insta::assert_snapshot!(alt, @"Graph of 5 commits: 1 tested, 1 tested before, from the cache, 1 inferred from tests of others, 1 skipped: no source of the kernel changes, 1 untestable; the culprit is 0000000");
    }
}
