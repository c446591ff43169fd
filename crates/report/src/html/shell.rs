//! The parts of every page: its head, the verdict, styles, the little script, the last line.

use std::borrow::Cow;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::super::spans::{ReportLine, is_unseen};
use super::super::{RefusedFixture, RunRecord, Standing};
use super::words::render_line;
use replay_engine::judge::Verdict;

/// The styles of every page, light and dark, on screens and on paper.
const STYLE: &str = include_str!("page.css");

/// Sorts and filters tables; without it a page shows everything.
const SCRIPT: &str = include_str!("page.js");

/// Nothing is fetched, whatever a name or a message contains.
const POLICY: &str = include_str!("policy.txt");

/// How good or bad a finding is, in a colour and a sign. Both can be told apart by anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Nothing is wrong.
    Good,
    /// Something is wrong.
    Bad,
    /// A person should look.
    Caution,
    /// Nothing can be said.
    Untold,
}

impl Mood {
    /// The class of its colours.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Mood::Good => "good",
            Mood::Bad => "bad",
            Mood::Caution => "caution",
            Mood::Untold => "untold",
        }
    }

    fn sign(self) -> &'static str {
        match self {
            Mood::Good => "✓",
            Mood::Bad => "✕",
            Mood::Caution => "!",
            Mood::Untold => "?",
        }
    }
}

impl Mood {
    /// The mood where checks may be left out: good then turns into untold.
    pub(crate) fn as_far_as_checked(self, has_unchecked: bool) -> Mood {
        match self {
            Mood::Good if has_unchecked => Mood::Untold,
            mood => mood,
        }
    }
}

impl From<Standing> for Mood {
    fn from(standing: Standing) -> Mood {
        match standing {
            _ if standing.is_wrong() => Mood::Bad,
            Standing::New => Mood::Caution,
            Standing::Unchecked => Mood::Untold,
            _ if standing.is_untold() => Mood::Untold,
            _ => Mood::Good,
        }
    }
}

impl From<Verdict> for Mood {
    fn from(verdict: Verdict) -> Mood {
        Standing::from(verdict).into()
    }
}

/// A word in the colour of its mood, with its sign.
pub(crate) fn render_badge(mood: Mood, word: &str) -> Markup {
    html! {
        span class={ "badge " (mood.class()) } { span aria-hidden="true" { (mood.sign()) " " } (word) }
    }
}

/// The top of a page.
pub(crate) struct PageHead {
    /// The name of the page, such as `replay diff`.
    pub kind: &'static str,
    /// Its subject, such as fixture and revisions.
    pub about: ReportLine,
    /// How it came out.
    pub mood: Mood,
    /// The verdict in a sentence.
    pub verdict: ReportLine,
    /// Lines below the verdict: the reasons, or where it was replayed.
    pub notes: Vec<ReportLine>,
}

/// The page with this head and body.
pub(crate) fn render_page(head: &PageHead, body: &Markup, run: &RunRecord) -> String {
    let title = format!("{}: {}", head.kind, head.verdict.words());
    let main = html! {
        main {
            header class={ "verdict " (head.mood.class()) } {
                p class="kind" { span class="tool" { (head.kind) } " " (render_line(&head.about)) }
                h1 {
                    span class="sign" aria-hidden="true" { (head.mood.sign()) }
                    span { (head.verdict.words()) }
                }
                @for note in &head.notes { p class="note" { (render_line(note)) } }
            }
            (body)
            footer class="dim" { @for part in run.lines() { p { (part) } } }
        }
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="color-scheme" content="light dark";
                meta name="generator" content="replay";
                title { (strip_invisible(&title)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (super::chart::define_chart_patterns())
                (PreEscaped(strip_invisible(&main.into_string())))
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// The text without controls, invisible characters and marks of direction. None of the marks of
/// HTML is among them.
fn strip_invisible(text: &str) -> Cow<'_, str> {
    if text.contains(is_invisible) {
        Cow::Owned(text.replace(is_invisible, ""))
    } else {
        Cow::Borrowed(text)
    }
}

fn is_invisible(c: char) -> bool {
    c != '\n' && is_unseen(c)
}

/// The refused fixtures.
pub(crate) fn render_refusals(refused: &[RefusedFixture]) -> Markup {
    html! {
        @if !refused.is_empty() {
            section class="card" {
                h2 { "Not replayed" }
                @for one in refused {
                    p { (render_badge(Mood::Untold, "error")) " " strong { (one.fixture) } ": " (one.message) }
                    @if !one.causes.is_empty() {
                        pre { @for cause in &one.causes { "caused by: " (cause) "\n" } }
                    }
                    @if let Some(hint) = &one.hint { p class="dim" { "hint: " (hint) } }
                }
            }
        }
    }
}
