//! The colours of reports.

use anstyle::{AnsiColor, Color, Style};

const fn bold_style(colour: AnsiColor) -> Style {
    Style::new().bold().fg_color(Some(Color::Ansi(colour)))
}

/// Names and headings.
pub(super) const BOLD: Style = Style::new().bold();
/// Details of little interest.
pub(crate) const DIM: Style = Style::new().dimmed();
/// Good results.
pub(crate) const GREEN: Style = bold_style(AnsiColor::Green);
/// Defects and errors.
pub(crate) const RED: Style = bold_style(AnsiColor::Red);
/// Matters in need of attention.
pub(crate) const YELLOW: Style = bold_style(AnsiColor::Yellow);
/// Commit ids.
pub(super) const COMMIT: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Yellow)));
