//! Lines of a report as marks of a page.

use anstyle::Style;
use maud::{Markup, html};

use super::super::Revision;
use super::super::spans::{ReportLine, sanitise_line};
use super::super::style::{BOLD, COMMIT, DIM, GREEN, RED, YELLOW};
use replay_history::Commit;

/// The class of a style of reports; none for plain text.
fn style_class(style: Style) -> Option<&'static str> {
    let classes = [
        (RED, "is-bad"),
        (GREEN, "is-good"),
        (YELLOW, "is-caution"),
        (DIM, "dim"),
        (COMMIT, "commit"),
        (BOLD, "strong"),
    ];
    classes.into_iter().find(|(known_style, _)| *known_style == style).map(|(_, class)| class)
}

/// The line, in the colours of pages.
pub(super) fn render_line(line: &ReportLine) -> Markup {
    html! {
        @for (style, text) in line.spans() {
            @match style_class(style) {
                Some(class) => span class=(class) { (sanitise_line(text)) },
                None => (sanitise_line(text)),
            }
        }
    }
}

/// The lines as a list; nothing where there are none.
pub(super) fn render_line_list(lines: &[ReportLine]) -> Markup {
    html! {
        @if !lines.is_empty() {
            ul class="lines" { @for one in lines { li { (render_line(one)) } } }
        }
    }
}

/// The short id and the subject of a revision, or the working tree.
pub(super) fn render_revision(revision: Option<&Revision>) -> Markup {
    html! {
        @match revision {
            Some(known) => { span class="commit" title=(known.id) { (known.short) } " " (known.subject) },
            None => "the working tree",
        }
    }
}

/// The short id and the subject of a commit.
pub(super) fn render_commit(commit: &Commit) -> Markup {
    html! {
        span class="commit" title=(commit.id) { (commit.short) } " "
        span class="subject" { (commit.subject) }
    }
}
