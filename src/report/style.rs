//! The colours of reports.

use anstyle::{AnsiColor, Color, Style};

const fn bold(colour: AnsiColor) -> Style {
    Style::new().bold().fg_color(Some(Color::Ansi(colour)))
}

/// Names and headings.
pub const BOLD: Style = Style::new().bold();
/// What is rarely needed.
pub(crate) const DIM: Style = Style::new().dimmed();
/// What is as it should be.
pub(crate) const GREEN: Style = bold(AnsiColor::Green);
/// What is wrong.
pub(crate) const RED: Style = bold(AnsiColor::Red);
/// What needs attention.
pub(crate) const YELLOW: Style = bold(AnsiColor::Yellow);
/// Commit ids.
pub const COMMIT: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Yellow)));
