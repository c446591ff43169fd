//! The text of reports: spans, each with a style, until a writer shows them.
//!
//! Spans hold names, subjects and messages as others wrote them. Each writer makes them harmless in
//! its own way, in one place: the terminal here, Markdown and XML in their modules. JSON escapes by
//! itself.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};

use anstyle::Style;

use super::style::BOLD;

/// Text of one style.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Span {
    style: Style,
    text: String,
}

/// A line of a report. [`Display`] writes it for a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportLine {
    spans: Vec<Span>,
}

/// Lines of a report. [`Display`] writes them for a terminal, each with a line end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    lines: Vec<ReportLine>,
}

impl ReportLine {
    /// An empty line.
    pub fn new() -> ReportLine {
        ReportLine::default()
    }

    /// A line of one style.
    pub fn with_style(style: Style, text: impl Into<String>) -> ReportLine {
        ReportLine { spans: vec![Span { style, text: text.into() }] }
    }

    /// The line, continued in `style`.
    #[must_use]
    pub(crate) fn styled(mut self, style: Style, text: impl Into<String>) -> ReportLine {
        self.spans.push(Span { style, text: text.into() });
        self
    }

    /// The line, continued.
    #[must_use]
    pub fn and(mut self, addition: impl Into<ReportLine>) -> ReportLine {
        self.spans.extend(addition.into().spans);
        self
    }

    /// The line, continued with `text` in a column of `width` characters.
    #[must_use]
    pub fn column(self, style: Style, text: &str, width: usize) -> ReportLine {
        let gap = width.saturating_sub(text.chars().count());
        self.styled(style, text).and(" ".repeat(gap))
    }

    /// Its parts: each text as it was found, and its style.
    pub(super) fn spans(&self) -> impl Iterator<Item = (Style, &str)> {
        self.spans.iter().map(|span| (span.style, span.text.as_str()))
    }

    /// The words alone, as they were found.
    pub fn words(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }
}

impl Text {
    /// No lines.
    pub fn new() -> Text {
        Text::default()
    }

    /// Adds a line.
    pub fn line(&mut self, line: impl Into<ReportLine>) {
        self.lines.push(line.into());
    }

    /// Adds an empty line and a heading.
    pub fn section(&mut self, name: &str) {
        self.line(ReportLine::new());
        self.line(ReportLine::with_style(BOLD, name));
    }

    /// Adds the lines of `other`.
    pub fn append(&mut self, other: Text) {
        self.lines.extend(other.lines);
    }

    /// Whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The words of each line, as they were found.
    pub fn words(&self) -> Vec<String> {
        self.lines.iter().map(ReportLine::words).collect()
    }
}

impl From<&str> for ReportLine {
    fn from(text: &str) -> ReportLine {
        ReportLine::with_style(Style::new(), text)
    }
}

impl From<String> for ReportLine {
    fn from(text: String) -> ReportLine {
        ReportLine::with_style(Style::new(), text)
    }
}

impl From<&String> for ReportLine {
    fn from(text: &String) -> ReportLine {
        ReportLine::with_style(Style::new(), text.as_str())
    }
}

impl FromIterator<ReportLine> for Text {
    fn from_iter<I: IntoIterator<Item = ReportLine>>(lines: I) -> Text {
        Text { lines: lines.into_iter().collect() }
    }
}

impl Display for ReportLine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for Span { style, text } in &self.spans {
            write!(f, "{style}{}{style:#}", sanitise_line(text))?;
        }
        Ok(())
    }
}

impl Display for Text {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// `text` on one line, safe for a terminal: without escape sequences, control characters, invisible characters
/// and marks of direction.
pub fn sanitise_line(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| is_unseen(c) || ends_line(c)) {
        return Cow::Borrowed(text);
    }
    let mut visible_text = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        // A control sequence goes whole. An incomplete one loses only its invisible characters: the text behind
        // it stays.
        let length = control_sequence(rest).unwrap_or(c.len_utf8());
        match c {
            c if ends_line(c) => visible_text.push(' '),
            c if !is_unseen(c) => visible_text.push(c),
            _ => {}
        }
        rest = &rest[length..];
    }
    Cow::Owned(visible_text)
}

/// The length of the control sequence at the beginning of `text` (ECMA-48, section 5.4), such as a colour.
fn control_sequence(text: &str) -> Option<usize> {
    let (introducer, parameters) = match text.strip_prefix("\u{1b}[") {
        Some(rest) => (2, rest),
        None => ('\u{9b}'.len_utf8(), text.strip_prefix('\u{9b}')?),
    };
    let end = parameters.find(|c: char| !matches!(c, '0'..='?'))?;
    parameters[end..].starts_with(|c: char| c.is_ascii_alphabetic()).then_some(introducer + end + 1)
}

/// Whether `c` ends a line, in the wide sense of Unicode Standard Annex 14.
fn ends_line(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether `c` is a control other than the tab, is invisible, or turns the text around it: marks,
/// embeddings and isolates of direction, joiners, the byte order mark, fillers, tags.
pub(super) fn is_unseen(c: char) -> bool {
    match c {
        '\t' | ' '..='~' => false,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{feff}' => {
            true
        }
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}' => true,
        // Noncharacters of Unicode: XML cannot write them.
        '\u{fdd0}'..='\u{fdef}' => true,
        c if u32::from(c) & 0xfffe == 0xfffe => true,
        c => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::RED;

    /// Hostile text, where a report has room for a name.
    const HOSTILE: &str =
        "\u{1b}[2J\u{1b}]0;title\u{7}a\u{202e}b\u{200b}c\u{9b}31md\ne\u{7f}\u{feff}";

    #[test]
    fn what_others_wrote_reaches_a_terminal_as_words_on_one_line() {
        assert_eq!(sanitise_line(HOSTILE), "]0;titleabcd e");
        assert_eq!(
            sanitise_line("\u{1b}[31mred\u{1b}[0m and \u{1b}[ (wrong)"),
            "red and [ (wrong)"
        );
        assert_eq!(sanitise_line("\u{1b}]8;;https://a never ends"), "]8;;https://a never ends");
        assert_eq!(sanitise_line("plain, ünï → code\twith tabs"), "plain, ünï → code\twith tabs");
        for c in (0..=0x10_ffff).filter_map(char::from_u32).filter(|c| c.is_control()) {
            assert!(
                sanitise_line(&format!("a{c}b")).chars().all(|c| c == '\t' || !c.is_control()),
                "{c:?}"
            );
        }
    }

    #[test]
    fn styles_are_ours_and_text_cannot_bring_its_own() {
        let line = ReportLine::from("name ").styled(RED, HOSTILE).and(HOSTILE);
        assert_eq!(line.words(), format!("name {HOSTILE}{HOSTILE}"));
        let shown = line.to_string();
        assert_eq!(shown, format!("name {RED}]0;titleabcd e{RED:#}]0;titleabcd e"));
        let mut text = Text::new();
        text.line(line);
        assert_eq!(text.to_string().lines().count(), 1);
    }
}
