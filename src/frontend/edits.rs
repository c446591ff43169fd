//! Changes to a text as a list of byte edits, applied at once.

use std::ops::Range;

/// Replacements and insertions, in any order.
#[derive(Debug, Default)]
pub(super) struct Edits {
    list: Vec<(Range<usize>, String)>,
}

impl Edits {
    /// Puts `text` before byte `at`, after what was put there earlier.
    pub fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.list.push((at..at, text.into()));
    }

    /// Replaces the bytes of `range`, which holds no line break.
    pub fn replace(&mut self, range: Range<usize>, text: impl Into<String>) {
        self.list.push((range, text.into()));
    }

    /// Replaces everything but line breaks in `range` by spaces.
    pub fn blank(&mut self, text: &str, range: Range<usize>) {
        let mut at = range.start;
        for piece in text[range].split_inclusive('\n') {
            let length = piece.trim_end_matches(['\n', '\r']).len();
            if length > 0 {
                self.replace(at..at + length, " ".repeat(length));
            }
            at += piece.len();
        }
    }

    /// What the edits that lie in `range` make of its text.
    pub fn applied(&self, text: &str, range: Range<usize>) -> String {
        let inside = |edit: &&(Range<usize>, String)| {
            range.start <= edit.0.start && edit.0.end <= range.end && !edit.0.is_empty()
        };
        let shifted = |(place, with): &(Range<usize>, String)| {
            (place.start - range.start..place.end - range.start, with.clone())
        };
        let list = self.list.iter().filter(inside).map(shifted).collect();
        Edits { list }.apply(&text[range])
    }

    /// `text` with all edits made. Of edits that overlap, the one that starts first counts, and
    /// of those the longest.
    pub fn apply(mut self, text: &str) -> String {
        // Insertions come before a replacement at the same place; the sort keeps their order.
        self.list.sort_by_key(|(range, _)| {
            (range.start, !range.is_empty(), std::cmp::Reverse(range.end))
        });
        let mut out = String::with_capacity(text.len() + 64 * self.list.len());
        let mut done = 0;
        for (range, replacement) in self.list {
            if range.start < done {
                continue;
            }
            out.push_str(&text[done..range.start]);
            out.push_str(&replacement);
            done = range.end;
        }
        out.push_str(&text[done..]);
        out
    }
}
