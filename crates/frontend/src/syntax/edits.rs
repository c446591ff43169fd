//! Changes to a text as a list of byte edits, applied at once.

use std::ops::Range;

/// Replacements and insertions, in any order.
#[derive(Debug, Default)]
pub(crate) struct Edits {
    list: Vec<(Range<usize>, String)>,
}

impl Edits {
    /// Puts `text` before byte `byte_offset`, after earlier insertions there.
    pub(crate) fn insert(&mut self, byte_offset: usize, text: impl Into<String>) {
        self.list.push((byte_offset..byte_offset, text.into()));
    }

    /// Replaces the bytes of `range`. Both texts have the same number of line breaks.
    pub(crate) fn replace(&mut self, range: Range<usize>, text: impl Into<String>) {
        self.list.push((range, text.into()));
    }

    /// Removes `range` of `text`. Its line breaks stay, with the backslash of continued lines.
    pub(crate) fn remove(&mut self, text: &str, range: Range<usize>) {
        let ends = text[range.clone()].split_inclusive('\n').filter(|piece| piece.ends_with('\n'));
        let kept_line_ends: String = ends.map(line_end).collect();
        self.replace(range, kept_line_ends);
    }

    /// Replaces everything but line breaks in `range` by spaces.
    pub(crate) fn blank(&mut self, text: &str, range: Range<usize>) {
        let mut byte_offset = range.start;
        for piece in text[range].split_inclusive('\n') {
            let length = piece.trim_end_matches(['\n', '\r']).len();
            if length > 0 {
                self.replace(byte_offset..byte_offset + length, " ".repeat(length));
            }
            byte_offset += piece.len();
        }
    }

    /// The replacements in `range`.
    pub(crate) fn within(&self, range: &Range<usize>) -> Edits {
        Edits {
            list: self
                .list
                .iter()
                .filter(|edit| is_replacement_within(edit, range))
                .cloned()
                .collect(),
        }
    }

    /// The text of `range` with its replacements made.
    pub(crate) fn applied(&self, text: &str, range: Range<usize>) -> String {
        let Edits { mut list } = self.within(&range);
        for (place, _) in &mut list {
            *place = place.start - range.start..place.end - range.start;
        }
        Edits { list }.apply(&text[range])
    }

    /// `text` with all edits made. Of overlapping edits the first to start counts, and of those the longest.
    pub(crate) fn apply(mut self, text: &str) -> String {
        // Insertions come before a replacement at the same place; the sort keeps their order.
        self.list.sort_by_key(|(range, _)| {
            (range.start, !range.is_empty(), std::cmp::Reverse(range.end))
        });
        let mut out = String::with_capacity(text.len() + 64 * self.list.len());
        let mut copied_until = 0;
        for (range, replacement) in self.list {
            if range.start < copied_until {
                continue;
            }
            out.push_str(&text[copied_until..range.start]);
            debug_assert_eq!(
                replacement.matches('\n').count(),
                text[range.clone()].matches('\n').count(),
                "{replacement:?} for {:?} moves the lines behind it",
                &text[range.clone()]
            );
            out.push_str(&replacement);
            copied_until = range.end;
        }
        out.push_str(&text[copied_until..]);
        out
    }
}

/// Whether `edit` is a replacement in `range`.
fn is_replacement_within((place, _): &(Range<usize>, String), range: &Range<usize>) -> bool {
    range.start <= place.start && place.end <= range.end && !place.is_empty()
}

/// The line break at the end of `line`, with the backslash of a continued line.
fn line_end(line: &str) -> &str {
    ["\\\r\n", "\\\n", "\r\n"].into_iter().find(|end| line.ends_with(end)).unwrap_or("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_removed_leaves_its_line_breaks() {
        let text = "a \"b\\\nc\\\r\nd\ne\" f";
        let mut edits = Edits::default();
        edits.remove(text, 2..text.len() - 2);
        assert_eq!(edits.apply(text), "a \\\n\\\r\n\n f");
    }
}
